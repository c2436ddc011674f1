"""Factorizations of matrices, and systems with them, as calls of kernels.

Matrices of more than a few rows are LAPACK's. Of its functions those that take what others return stand in
programs by their names, where compilers write them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.compat.numpy import matrix_loop
from fgrad.compiler.decompose import DOUBLE, RULES, Writer, is_real
from fgrad.compiler.library import FAULTS, LIBRARY, Launch, internal, is_native, stated
from fgrad.core.aval import Aval
from fgrad.core.primitive import TRANSPOSES
from fgrad.core.program import Equation, Var
from fgrad.kernels import blas, lapack, matrix_loops, native, small_matrices
from fgrad.kernels.native import Kernel
from fgrad.kernels.small_matrices import MOST, Routine

WORDS = np.dtype(np.int64)
ALONE = 64 * 64  # elements of a matrix of which LAPACK and BLAS do nothing in threads of their own
CALL = 2048  # operations that take as long as a call of LAPACK does beside those that it is for


def _triangular(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (a, b), (out,), params = equation.args, equation.outs, equation.params
    if not are_known(a, b):
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
    return called(blas.trsm(dtype, pairs=pairs), numbers, count, work, size=n * max(n, columns))


def _systems(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (a, b), (out,), params = equation.args, equation.outs, equation.params
    if not are_known(a, b) or params["check"] or a.aval.shape[-1] > MOST:
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
    (a,), outs, p = equation.args, equation.outs, equation.params
    m, n, strict = p["m"], p["n"], p["strict"]
    count = math.prod(outs[1].aval.shape[:-1])
    places = [slots[v] for v in (a, *outs)]
    numbers = [*places, count, m, n, *([slots[FAULTS]] if strict else [])]
    work = count * m * (n * (min(m, n) + 16) // 6)
    made = lapack.getrf(a.aval.dtype.name, p["pair"], strict=strict)
    return called(made, numbers, count, work, size=m * n, fails=strict)


def _getrs(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (a, order, b), (out,) = equation.args, equation.outs
    if not are_known(a, b):
        return None
    count, (columns, n) = math.prod(out.aval.shape[:-2]), out.aval.shape[-2:]
    step = 0 if order.aval.size == n else n
    along = 0 if b.aval.size == n * columns else n * columns
    places = [slots[v] for v in (a, order, b, out, FAULTS)]
    numbers = [*places, count, n, columns, step, along, int(equation.params["turned"])]
    work = 2 * count * n * n * columns
    return called(lapack.getrs(), numbers, count, work, size=n * max(n, columns))


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
    work = int(count * (CALL + 8 * largest**1.5))
    return Launch(kernel, numbers, count, work, shared=_are_shared(largest, count), fails=fails)


def called(
    made: tuple[Kernel, int] | None,
    numbers: list[int],
    count: int,
    work: int,
    *,
    size: float = math.inf,
    fails: bool = True,
) -> Launch | None:
    """Return the call of a kernel that calls a library for matrices of some size, one after another.

    The function is the last of its numbers.
    """
    if made is None:
        return None
    kernel, function = made
    return Launch(kernel, [*numbers, function], count, work, shared=_are_shared(size, count), fails=fails)


def _are_shared(size: float, count: int) -> bool:
    """Return whether threads share matrices, which are so small that LAPACK's own would not take part."""
    return size <= ALONE and count > 1


def _of_matrix(
    kernel: Callable[..., Routine], work: Callable[[int, int], int], *, fails: bool = True
) -> Callable[[Equation, dict[Var, int]], Launch | None]:
    """Return the rule of what a kernel computes of each of `count` matrices, by so much work."""

    def rule(equation: Equation, slots: dict[Var, int]) -> Launch | None:
        (a,) = equation.args
        if not are_known(a) or a.aval.shape[-1] > MOST:
            return None
        n, count = a.aval.shape[-1], math.prod(a.aval.shape[:-2])
        made = kernel(a.aval.dtype.name, n, count)
        places = [slots[v] for v in (a, *equation.outs, *([FAULTS] if fails else []))]
        return Launch(made.kernel, [*places, count, n], made.turns(count), work(n, count), fails=fails)

    return rule


def are_known(a: Any, *others: Any) -> bool:
    """Return whether kernels can read operands, and compute in their dtype."""
    return all(
        isinstance(x, Var) and x.aval.size > 0 and x.aval.dtype.isnative
        and x.aval.dtype.char in "fd" and x.aval.dtype == a.aval.dtype
        for x in (a, *others)
    )  # fmt: skip


LIBRARY.update(
    {
        "cholesky": _of_matrix(small_matrices.cholesky, small_matrices.work_of_cholesky),
        "solve_triangular": _triangular,
        "solve": _systems,
        "det": _of_matrix(small_matrices.determinants, small_matrices.work_of_lu, fails=False),
        "slogdet": _of_matrix(small_matrices.logarithms, small_matrices.work_of_lu),
        "cofactor": _of_matrix(small_matrices.cofactors, small_matrices.work_of_inverse),
        "lapack.getrf": _getrf,
        "lapack.getrs": _getrs,
        "lapack.loop": _loop,
    }
)


# ---- LAPACK's functions, which take and return transposes


internal("lapack.getrf", stated, many=True)  # both factors in one, and exchanges of rows
internal("lapack.loop", stated, many=True)  # any of NumPy's: `decompose` says which
internal(
    "lapack.getrs",
    lambda a, _, b, **__: Aval((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype),
)


# ---- written as calls of them


@RULES.on("solve_triangular")
def _solve_triangular(w: Writer, a: Any, b: Any, **params: Any) -> Any:
    return _solved(w, "solve_triangular", a, b, b.aval.shape, params)


@RULES.on("solve")
def _solve(w: Writer, a: Any, b: Any, *, check: str) -> Any:
    lead = np.broadcast_shapes(a.aval.shape[:-2], b.aval.shape[:-2])
    if math.prod(a.aval.shape[:-2]) not in (1, math.prod(lead)):
        a = w.broadcast_to(a, (*lead, *a.aval.shape[-2:]))
    if math.prod(b.aval.shape[:-2]) not in (1, math.prod(lead)):
        b = w.broadcast_to(b, (*lead, *b.aval.shape[-2:]))
    return _solved(w, "solve", a, b, (*lead, *b.aval.shape[-2:]), {"check": check})


def _solved(w: Writer, name: str, a: Var, b: Var, shape: Any, params: dict[str, Any]) -> Any:
    """Let the matrices of systems be read as they lie, if they are transposes of others."""
    e = w.makers.get(a)
    if e is not None and TRANSPOSES in e.traits and e.params["axes"] == _swapping(len(a.aval.shape)):
        a, params = e.args[0], params | {"turned": True}
    out = Var(Aval(shape, b.aval.dtype), f"d{w.count}")
    made = Equation(name, (a, b), params, (out,), w.line)
    if not isinstance(a, Var):
        return None
    if not is_native(made):
        return None if name != "solve" or params["check"] else _by_lapack(w, a, b, turned="turned" in params)
    w.count += 1
    w.append(made)
    return out


def _by_lapack(w: Writer, a: Var, b: Var, *, turned: bool) -> Var | None:
    """Solve systems by LAPACK, which factors a matrix once for all systems with it, or with its transpose."""
    if a.aval.dtype != b.aval.dtype or not is_real(a):
        return None
    if a not in w.factors:
        given = swapped(w, w.typed(a, DOUBLE))
        *lead, n, _ = given.aval.shape
        results = given.aval, Aval((*lead, n), WORDS)
        found = written(w, "getrf", given, results=results, pair=1, m=n, n=n, strict=True)
        if found is None:
            return None
        w.factors[a] = found
    x = w.make("lapack.getrs", *w.factors[a], swapped(w, w.typed(b, DOUBLE)), turned=turned)
    return w.typed(swapped(w, x), b.aval.dtype)


def written(w: Writer, name: str, *args: Any, results: Sequence[Aval], **params: Any) -> Any:
    """Return what a call of LAPACK gives, None if it is not at hand."""
    outs = tuple([Var(a, "") for a in results])
    params["results"] = tuple(results)
    if not is_native(Equation(f"lapack.{name}", args, params, outs, "")):
        return None
    return w.write_all(f"lapack.{name}", *args, **params)


def swapped(w: Writer, x: Var, pair: int = 1) -> Any:
    """Return transposed matrices, of pairs if `pair` is 2."""
    shape = x.aval.shape
    rank = len(shape) - (pair - 1)
    *lead, n, k = shape[:rank]
    if 1 in (n, k):
        return w.reshape(x, (*lead, k, n, *shape[rank:]))
    return w.transpose(x, axes=(*_swapping(rank), *range(rank, len(shape))))


def _swapping(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)
