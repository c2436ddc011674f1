"""Factorizations of matrices, and systems with them, as calls of kernels.

Matrices of more than a few rows are LAPACK's. Of its functions those that take what others return stand in
programs by their names, where compilers write them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.compat.numpy import matrix_loop
from fgrad.compiler.library import FAULTS, LIBRARY, Launch
from fgrad.core.aval import Aval
from fgrad.core.primitive import NOT_FOLDED, declare, flat
from fgrad.core.program import Equation, Var
from fgrad.kernels import blas, lapack, matrix_loops, native, small_matrices
from fgrad.kernels.native import Kernel
from fgrad.kernels.small_matrices import MOST, Routine


def _cholesky(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (a,), (out,) = equation.args, equation.outs
    if not _are_known(a):
        return None
    n, count = a.aval.shape[-1], math.prod(a.aval.shape[:-2])
    numbers = [slots[a], slots[out], slots[FAULTS], count, n]
    work = small_matrices.work_of_cholesky(n, count)
    if n > MOST:
        return _called(lapack.potrf(), numbers, count, work) if a.aval.dtype == np.float64 else None
    made = small_matrices.cholesky(a.aval.dtype.name, n, count)
    return Launch(made.kernel, numbers, made.turns(count), work, fails=True)


def _triangular(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (a, b), (out,), params = equation.args, equation.outs, equation.params
    if not _are_known(a, b):
        return None
    pairs = params.get("pairs", False)
    shape = b.aval.shape[:-1] if pairs else b.aval.shape
    dtype, count, (n, columns) = a.aval.dtype.name, math.prod(shape[:-2]), shape[-2:]
    flags = [int(params.get(k, False)) for k in ("lower", "unit", "turned")]
    numbers = [slots[a], slots[b], slots[out], slots[FAULTS], count, n, columns, *flags]
    work = small_matrices.work_of_triangular(n, count, columns)
    if n <= MOST and not pairs:
        made = small_matrices.triangular(dtype, n, count)
        return Launch(made.kernel, numbers, made.turns(count), work, fails=True)
    return _called(blas.trsm(dtype, pairs=pairs), numbers, count, work)


def _systems(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (a, b), (out,), params = equation.args, equation.outs, equation.params
    if not _are_known(a, b) or params["check"] or a.aval.shape[-1] > MOST:
        return None
    count, (n, columns) = math.prod(out.aval.shape[:-2]), out.aval.shape[-2:]
    steps = [0 if x.aval.size == size else size for x, size in ((a, n * n), (b, n * columns))]
    if any(step and x.aval.size != count * step for x, step in zip((a, b), steps, strict=True)):
        return None
    made = small_matrices.systems(a.aval.dtype.name, n, count)
    places = [slots[v] for v in (a, b, out, FAULTS)]
    numbers = [*places, count, n, columns, *steps, int(params.get("turned", False))]
    work = small_matrices.work_of_systems(n, count, columns)
    return Launch(made.kernel, numbers, made.turns(count), work, fails=True)


def _getrf(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (a,), outs = equation.args, equation.outs
    if not _are_known(a):
        return None
    n, count = a.aval.shape[-1], math.prod(a.aval.shape[:-2])
    numbers = [*(slots[v] for v in (a, *outs, FAULTS)), count, n]
    return _called(lapack.getrf(), numbers, count, small_matrices.work_of_systems(n, count, 0))


def _getrs(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (a, order, b), (out,) = equation.args, equation.outs
    if not _are_known(a, b):
        return None
    count, (columns, n) = math.prod(out.aval.shape[:-2]), out.aval.shape[-2:]
    step = 0 if order.aval.size == n else n
    along = 0 if b.aval.size == n * columns else n * columns
    places = [slots[v] for v in (a, order, b, out, FAULTS)]
    numbers = [*places, count, n, columns, step, along, int(equation.params["turned"])]
    return _called(lapack.getrs(), numbers, count, 2 * count * n * n * columns)


def _geqrf(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    return _factored(lapack.geqrf, equation, slots)


def _orgqr(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    return _factored(lapack.orgqr, equation, slots)


def _syevd(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    return _factored(lapack.syevd, equation, slots, ord(equation.params["uplo"]))


def _gesdd(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    return _factored(lapack.gesdd, equation, slots, int(equation.params["full_matrices"]))


def _factored(
    routine: Callable[[], lapack.Routine | None], equation: Equation, slots: dict[Var, int], *how: int
) -> Launch | None:
    """Return the call of a function of LAPACK for the first operand, a stack of matrices."""
    if not _are_known(*equation.args):
        return None
    a = equation.args[0].aval
    count, (n, m) = math.prod(a.shape[:-2]), a.shape[-2:]
    places = [slots[v] for v in (*equation.args, *equation.outs, FAULTS)]
    work = 8 * count * n * m * min(n, m)
    return _called(routine(), [*places, count, n, m, *how], count, work)


def _loop(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the call of one of NumPy's loops over stacks of matrices."""
    params, arrays = equation.params, (*equation.args, *equation.outs)
    found = None if native.interpreted() else matrix_loop(params["of"], params["kinds"])
    if found is None or not all(isinstance(v, Var) and v.aval.size for v in arrays):
        return None
    sizes: dict[str, int] = {}
    strides, steps, lengths = [], [], []
    for k, (v, core, letter) in enumerate(zip(arrays, params["cores"], params["letters"], strict=True)):
        pair = 1 + (letter == "D")
        length, item = math.prod(core) * pair, v.aval.dtype.itemsize
        steps.append(0 if v.aval.size == length else length * item)
        lengths.append(length)
        if k < len(found.axes):  # not the copy of what the loop overwrites
            sizes.update(zip(found.axes[k], core, strict=True))
            strides += [pair * item * math.prod(core[i + 1 :]) for i in range(len(core))]
    finite, checked, overwrites = params["finite"], params["checked"], params["overwrites"]
    kernel = matrix_loops.kernel(
        tuple([v.aval.dtype.name for v in arrays]),
        len(sizes),
        len(strides),
        finite=finite,
        checked=checked,
        overwrites=overwrites,
    )
    fails = bool(finite) or checked >= 0
    places = [slots[v] for v in (*arrays, *([FAULTS] if fails else []))]
    numbers = [*places, *steps, *lengths, *sizes.values(), *strides, *found.loop]
    count, largest = params["count"], max(map(math.prod, params["cores"]))
    return Launch(kernel, numbers, count, int(8 * count * largest**1.5), shared=False, fails=fails)


def _called(made: tuple[Kernel, int] | None, numbers: list[int], count: int, work: int) -> Launch | None:
    """Return the call of a kernel that calls a library, whose function is the last of its numbers."""
    if made is None:
        return None
    kernel, function = made
    return Launch(kernel, [*numbers, function], count, work, shared=False, fails=True)


def _by_factors(
    kernel: Callable[..., Routine], columns: int, *, fails: bool = True
) -> Callable[[Equation, dict[Var, int]], Launch | None]:
    """Return the rule of what follows from factors, in as much time as systems of so many times n columns."""

    def rule(equation: Equation, slots: dict[Var, int]) -> Launch | None:
        (a,) = equation.args
        if not _are_known(a) or a.aval.shape[-1] > MOST:
            return None
        n, count = a.aval.shape[-1], math.prod(a.aval.shape[:-2])
        made = kernel(a.aval.dtype.name, n, count)
        places = [slots[v] for v in (a, *equation.outs, *([FAULTS] if fails else []))]
        work = small_matrices.work_of_systems(n, count, n * columns)
        return Launch(made.kernel, [*places, count, n], made.turns(count), work, fails=fails)

    return rule


def _are_known(a: Any, *others: Any) -> bool:
    """Return whether kernels can read operands, and compute in their dtype."""
    return all(
        isinstance(x, Var) and x.aval.size > 0 and x.aval.dtype.isnative
        and x.aval.dtype.char in "fd" and x.aval.dtype == a.aval.dtype
        for x in (a, *others)
    )  # fmt: skip


LIBRARY.update(
    {
        "cholesky": _cholesky,
        "solve_triangular": _triangular,
        "solve": _systems,
        "det": _by_factors(small_matrices.determinants, 0, fails=False),
        "slogdet": _by_factors(small_matrices.logarithms, 0),
        "cofactor": _by_factors(small_matrices.cofactors, 1),
        "lapack.getrf": _getrf,
        "lapack.getrs": _getrs,
        "lapack.geqrf": _geqrf,
        "lapack.orgqr": _orgqr,
        "lapack.syevd": _syevd,
        "lapack.gesdd": _gesdd,
        "lapack.loop": _loop,
    }
)


# ---- LAPACK's functions, which take and return transposes


def _run(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("compiled programs alone call LAPACK by its functions")


def _shape_getrs(a: Aval, _: Aval, b: Aval, *, turned: bool) -> Aval:
    return Aval((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)


def _shape_geqrf(a: Aval) -> tuple[Aval, Aval]:
    return a, Aval((*a.shape[:-2], min(a.shape[-2:])), a.dtype)


def _shape_orgqr(a: Aval, tau: Aval) -> Aval:
    return Aval((*tau.shape, a.shape[-1]), a.dtype)


def _shape_syevd(a: Aval, *, uplo: str) -> tuple[Aval, Aval]:
    return Aval(a.shape[:-1], a.dtype), a


def _shape_gesdd(a: Aval, *, full_matrices: bool) -> tuple[Aval, ...]:
    *lead, n, m = a.shape
    k = min(m, n)
    left, right = (m, n) if full_matrices else (k, k)
    shapes = ((left, m), (k,), (n, right), (n, m))
    return tuple([Aval((*lead, *shape), a.dtype) for shape in shapes])


def _shape_loop(*_: Aval, results: tuple[Aval, ...], **__: Any) -> tuple[Aval, ...]:
    return results


def _shape_getrf(a: Aval) -> tuple[Aval, Aval]:
    return a, Aval(a.shape[:-1], np.dtype(np.int64))


_SHAPES: dict[str, Callable[..., Any]] = {
    "getrf": _shape_getrf,  # both factors in one, and exchanges of rows
    "getrs": _shape_getrs,
    "geqrf": _shape_geqrf,
    "orgqr": _shape_orgqr,
    "syevd": _shape_syevd,
    "gesdd": _shape_gesdd,  # the last is memory that it needs
    "loop": _shape_loop,  # any of NumPy's: `decompose` says which
}
for _name, _shape in _SHAPES.items():
    declare(
        f"lapack.{_name}",
        run=_run,
        vjp=flat,
        shape=_shape,
        many=_name not in {"getrs", "orgqr"},
        traits={NOT_FOLDED},
        stored="compilers write it",
    )
