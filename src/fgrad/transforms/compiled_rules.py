"""Rules of primitives as compiled programs: for large arrays, and on a device.

Normalizing rows of a matrix reads each of them several times. Operation by operation that is a pass over
memory every time, and on a device a launch; staged and compiled it is one kernel, in which a row stays in the
cache, or with a block of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from fgrad import locks
from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval, aval_of
from fgrad.core.caches import LRU
from fgrad.core.nonfinite import quiet
from fgrad.core.primitive import Rule
from fgrad.core.program import Program
from fgrad.core.trace import running
from fgrad.expr.node import Expr
from fgrad.ops import compiled
from fgrad.transforms.stage import staged

PROGRAMS: LRU[Any, Any] = LRU()  # by rule, device, avals and parameters
# of temporaries that stay for the next call: nobody expects eager operations to hold on to memory
BYTES = 2**20


def launched(rule: Rule, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return what `rule(*arrays, **params)` does, an array or a tuple, compiled for arrays of this kind."""
    if arrays[0].__class__ is DeviceArray:
        key = (rule, arrays[0].place, *((a.shape, a.dtype) for a in arrays), *map(_frozen, params.items()))
    else:
        key = (rule, arrays[0].dtype, *[a.shape for a in arrays], *params.items())
    executable = PROGRAMS.young.get(key) or PROGRAMS.get(key) or _made(key, rule, arrays, params)
    outs = executable.run(arrays)
    return outs[0] if len(outs) == 1 else tuple(outs)


def _made(key: Any, rule: Rule, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return the program of a rule, ready to run where the arrays are."""
    with locks.making:
        program = _staged(partial(rule, **params), list(map(aval_of, arrays)))
        if arrays[0].__class__ is DeviceArray:  # modules come late: most programs need neither
            made = import_module("fgrad.compiler.device").DeviceExecutable
            return PROGRAMS.setdefault(key, made(program, arrays[0].place, kept=BYTES))
        made = import_module("fgrad.compiler.executable").Executable
        return PROGRAMS.setdefault(key, made(program, speculative=False, kept=BYTES))


def _staged(function: Rule, avals: Sequence[Aval]) -> Program:
    with quiet(), running(()):
        return staged(lambda *xs: _several(function(*xs)), avals)[0]


def _frozen(x: Any) -> Any:
    """Return a parameter as part of a key; slices have no hash before Python 3.12."""
    if x.__class__ is slice:
        return slice, x.start, x.stop, x.step
    return tuple(map(_frozen, x)) if isinstance(x, tuple) else x


def _several(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def _elementwise(
    module: str, params: Sequence[Expr], results: Sequence[Expr], kind: str = "Elementwise"
) -> Rule:
    made_by = getattr(import_module(module), kind)  # late, as above
    made: Rule = import_module("fgrad.compiler.elementwise").elementwise(params, results, made_by)
    return made


compiled.LAUNCH.append(
    compiled.Launcher(
        launched,
        partial(_elementwise, "fgrad.compiler.elementwise"),
        partial(_elementwise, "fgrad.compiler.device.elementwise"),
        partial(_elementwise, "fgrad.compiler.elementwise", kind="Pairs"),
        _staged,
    )
)
