"""Equations that a fixed kernel computes, the same in every program.

`LIBRARY` is filled by the modules that know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.primitive import NOT_FOLDED, PRIMITIVES, Rule, declare, flat
from fgrad.core.program import Equation, Var, applied, aval_out
from fgrad.kernels import native, ufuncs

DTYPES = "?bhilqBHILQfdFD"  # which kernels know, in this machine's byte order
ON_PAIRS = "complex.call"  # what Python, or a library, computes of complex numbers, as pairs
WORK = 64  # operations of a function that a library computes, or so


class Launch(NamedTuple):
    """A kernel, its numbers, how many turns its loop has, and how many operations that takes.

    One of the numbers may be a kernel that it calls, which stands for its address until all are compiled.
    `shared` says whether threads may share the turns, which BLAS has its own for; `fails` whether one of the
    numbers is the slot of `FAULTS`, where the kernel writes why the program cannot go on. `whole` has numbers
    and turns of the same in larger pieces, which the kernel itself shares among threads of its own.
    """

    kernel: native.Kernel
    numbers: list[Any]
    turns: int
    work: int
    shared: bool = True
    fails: bool = False
    whole: tuple[list[Any], int] | None = None

    def asks(self, slots: Mapping[Var, int], variables: Iterable[Var]) -> None:
        """Ask the kernel's contract whether it stays inside of what is in the slots of variables.

        Raises:
            BrokenContractError: it does not.
        """
        if self.kernel.contract is None:
            return
        sizes: dict[int, tuple[int, int]] = {}
        for v in variables:
            size = v.aval.size
            sizes[slots[v]] = max(sizes.get(slots[v], (0, 0)), (size, size * v.aval.dtype.itemsize))
        for numbers, turns in ((self.numbers, self.turns), *([self.whole] if self.whole else [])):
            self.kernel.contract.launched(numbers, turns, sizes)


FAULTS = Var(Aval((), np.dtype(np.int64)), "faults")  # 0, how many indices are out of bounds, or one of `vm`
LIBRARY: dict[str, Callable[[Equation, dict[Var, int]], Launch | None]] = {}


def internal(name: str, shape: Rule, *, many: bool = False) -> None:
    """Declare a primitive that compilers alone write, and that a kernel alone computes."""

    def run(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"compiled programs alone compute {name}")

    declare(name, run=run, vjp=flat, shape=shape, many=many, traits={NOT_FOLDED}, stored="compilers write it")


def stated(*_: Aval, results: Any, **__: Any) -> Any:
    """Be the `shape` of an internal primitive whose results are one of its parameters."""
    return results


def launch(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the call of a kernel that an equation is, given the slots of variables, if it is one.

    Raises:
        BrokenContractError: it would read or write outside of what is in the slots.
    """
    name = equation.name
    if name == ON_PAIRS and (whole := f"{name} {equation.params['of']}") in LIBRARY:
        name = whole
    rule = LIBRARY.get(name)
    made = (rule and rule(equation, slots)) or _universal(equation, slots)
    if made is None or isinstance(slots, _Anywhere):
        return made
    made = made._replace(numbers=[n.address if isinstance(n, native.Kernel) else n for n in made.numbers])
    used = (*equation.args, *equation.outs, *([FAULTS] if made.fails else []))
    made.asks(slots, [v for v in used if isinstance(v, Var)])
    return made


class Applied(NamedTuple):
    """What an equation does with complex numbers, whose arrays may be pairs of real ones there."""

    name: str
    operands: tuple[Aval, ...]
    result: Aval
    params: dict[str, Any]


def applied_by(equation: Equation) -> Applied:
    """Return which primitive an equation applies, to what."""
    params = dict(equation.params)
    if equation.name != ON_PAIRS:
        return Applied(equation.name, tuple(map(aval_out, equation.args)), equation.outs[0].aval, params)
    operands, results = params.pop("complex_avals")
    return Applied(params.pop("of"), operands, results[0], params)


def _universal(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the call of the loop of a universal function; numbers have to be variables then."""
    if len(equation.outs) != 1 or native.interpreted():
        return None
    name, operands, result, params = applied_by(equation)
    universal, args = PRIMITIVES[name].universal, [a for a in equation.args if isinstance(a, Var)]
    if universal is None or params or not len(args) == len(operands) == universal.ufunc.nin:
        return None
    if not result.size or any(a.size != 1 and a.shape != result.shape for a in operands):
        return None
    found = ufuncs.loop(universal, [a.dtype for a in operands], result.dtype)
    if found is None:
        return None
    sizes = [a.dtype.itemsize for a in (*operands, result)]
    steps = [0 if a.size < result.size else a.dtype.itemsize for a in (*operands, result)]
    numbers = ufuncs.numbers_of(found, [slots[v] for v in (*args, *equation.outs)], steps, sizes)
    kernel = ufuncs.kernel(universal.ufunc, universal.output)
    return Launch(kernel, numbers, result.size, WORK * result.size)


def is_native(equation: Equation) -> bool:
    """Return whether a kernel computes an equation, or there is nothing to compute."""
    return is_idle(equation) or launch(equation, _Anywhere()) is not None


def is_harmless(equation: Equation) -> bool:
    """Return whether an equation that makes no element need not run: it has no effect, and no index."""
    name = applied_by(equation).name if equation.outs else equation.name
    primitive = PRIMITIVES[name]
    acts = primitive.effect is not None and primitive.effect(equation.params)
    folds = name == "complex.pairs" or NOT_FOLDED not in primitive.traits
    if acts or not folds or not equation.outs or primitive.indices is not None or "code" in equation.params:
        return False
    return all(type(v.aval) is Aval for v in equation.outs)


def is_idle(equation: Equation) -> bool:
    """Return whether all results of an equation are without elements, and nothing else comes of it."""
    if any(v.aval.size for v in equation.outs):
        return False
    if not equation.outs:
        return False
    indices = PRIMITIVES[applied_by(equation).name].indices
    if indices is not None:
        return not any(aval_out(a).size for a in equation.args[indices:])
    return is_harmless(equation) and not _holds_overflow(equation)


def _holds_overflow(equation: Equation) -> bool:
    """Return whether an operand is a Python integer that NumPy refuses beside the others."""
    if int not in map(type, equation.args):
        return False
    try:
        of_zeros(equation)
    except OverflowError:
        return True
    except Exception:  # noqa: BLE001 -- of zeros, which the operands are not
        return False
    return False


def of_zeros(equation: Equation) -> Any:
    """Return what an equation gives of zeros in the place of variables."""
    given = [np.zeros(a.aval.shape, a.aval.dtype) if isinstance(a, Var) else a for a in equation.args]
    return applied(PRIMITIVES[equation.name], given, equation.params)


def pending(equation: Equation) -> list[native.Key]:
    """Return which kernels of an equation are still to be compiled, as of `native.compiled_all`."""
    made = launch(equation, _Anywhere())
    kernels = (made.kernel, *made.numbers) if made is not None else ()
    return [k.key for k in kernels if isinstance(k, native.Deferred) and k.key]


def reason(equation: Equation) -> str:
    """Return why Python computes an equation; "" if a kernel does."""
    if is_native(equation):
        return ""
    avals = [aval_out(a) for a in equation.args] + [v.aval for v in equation.outs]
    name = applied_by(equation).name if equation.outs else equation.name
    primitive = PRIMITIVES[name]
    others = [a.dtype for a in avals if a.dtype.char not in DTYPES or not a.dtype.isnative]
    if primitive.interpreted:
        why = primitive.interpreted
    elif isinstance(primitive.stored, str):
        why = primitive.stored
    elif others:
        why = f"no kernel knows {others[0] if others[0].isnative else 'the other byte order'}"
    elif equation.name == ON_PAIRS:
        why = "no kernel knows it of complex numbers"
    else:
        why = "no kernel knows these operands"
    return f"{name}: {why}"


def fails(equation: Equation) -> bool:
    """Return whether a kernel computes an equation that may end the program."""
    made = launch(equation, _Anywhere())
    return made is not None and made.fails


class _Anywhere(dict[Var, int]):
    """Slots where it does not matter which."""

    def __missing__(self, _: Var) -> int:
        return 0
