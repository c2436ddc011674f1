"""Rules of primitives on a device as compiled programs: few launches instead of one for each operation.

Normalizing rows of a matrix reads each of them several times. Operation by operation that is a pass over
memory and a launch every time; staged and compiled it is one kernel, in which a block keeps a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fgrad import locks
from fgrad.backend.array import DeviceArray
from fgrad.core.aval import aval_of
from fgrad.core.nonfinite import quiet
from fgrad.core.primitive import Rule
from fgrad.core.trace import running
from fgrad.ops import compiled
from fgrad.transforms.stage import staged

PROGRAMS: dict[Any, Any] = {}  # by rule, avals, parameters and device; the last is the youngest
KEPT = 512  # of them
BYTES = (
    2**20
)  # of temporaries that stay for the next call: nobody expects eager operations to hold on to memory


def launched(rule: Rule, arrays: Sequence[DeviceArray], params: dict[str, Any]) -> Any:
    """Return what `rule(*arrays, **params)` does, an array or a tuple, compiled for arrays of this kind."""
    place = arrays[0].place
    key = (rule, place, *((a.shape, a.dtype) for a in arrays), *map(_frozen, params.items()))
    executable = PROGRAMS.get(key)
    if executable is None:
        with locks.making, quiet(), running(()):
            module = import_module("fgrad.compiler.device")  # late: few programs run on one
            program, _ = staged(lambda *xs: _several(rule(*xs, **params)), list(map(aval_of, arrays)))
            if len(PROGRAMS) >= KEPT:
                del PROGRAMS[next(iter(PROGRAMS))]
            executable = PROGRAMS.setdefault(key, module.DeviceExecutable(program, place, kept=BYTES))
    outs = executable.run(arrays)
    return outs[0] if len(outs) == 1 else tuple(outs)


def _frozen(x: Any) -> Any:
    """Return a parameter as part of a key; slices have no hash before Python 3.12."""
    if x.__class__ is slice:
        return slice, x.start, x.stop, x.step
    return tuple(map(_frozen, x)) if isinstance(x, tuple) else x


def _several(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


compiled.LAUNCH.append(launched)
