"""Factorizations of matrices, and systems with them, as calls of kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fgrad.compiler.library import FAULTS, LIBRARY, Launch
from fgrad.core.program import Equation, Var
from fgrad.kernels import blas, small_matrices
from fgrad.kernels.small_matrices import MOST, Routine


def _cholesky(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (a,), (out,) = equation.args, equation.outs
    if not _are_known(a) or a.aval.shape[-1] > MOST:
        return None
    n, count = a.aval.shape[-1], math.prod(a.aval.shape[:-2])
    made = small_matrices.cholesky(a.aval.dtype.name, n, count)
    numbers = [slots[a], slots[out], slots[FAULTS], count, n]
    work = small_matrices.work_of_cholesky(n, count)
    return Launch(made.kernel, numbers, made.turns(count), work, fails=True)


def _triangular(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (a, b), (out,), params = equation.args, equation.outs, equation.params
    if not _are_known(a, b):
        return None
    dtype, count, (n, columns) = a.aval.dtype.name, math.prod(a.aval.shape[:-2]), b.aval.shape[-2:]
    flags = [int(params.get(k, False)) for k in ("lower", "unit", "turned")]
    numbers = [slots[a], slots[b], slots[out], slots[FAULTS], count, n, columns, *flags]
    work = small_matrices.work_of_triangular(n, count, columns)
    if n <= MOST:
        made = small_matrices.triangular(dtype, n, count)
        return Launch(made.kernel, numbers, made.turns(count), work, fails=True)
    found = blas.trsm(dtype)
    if found is None:
        return None
    kernel, function = found
    return Launch(kernel, [*numbers, function], count, work, shared=False, fails=True)


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
    }
)
