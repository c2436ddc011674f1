"""Calls of every function of NumPy that fgrad has, for the table of dtypes.

`python -m tests.numpy.dtypes` runs every combination in every mode; `test_dtypes.py` runs a part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy  # noqa: ICN001 -- np is the namespace that a call is given
from tests.dtypes import DTYPES, EVERY, NUMBERS, PYTHON, SCALARS, ZERO_D, Call, command, edges, empty
from tests.numpy.programs import ONLY_FGRAD, PROGRAMS

import fgrad.numpy as fnp

RNG = numpy.random.default_rng(5)
EAGER = ("eager", "beside", "staged", "mapped", "compiled")  # what plain NumPy cannot do with Tensors
INTEGERS = DTYPES[:9]
X = numpy.array([[1.0, -2.0, 0.5, 3.0], [0.0, 1.5, -0.5, 2.0], [-1.0, 0.25, 2.5, -3.0]])
Y = numpy.array([[2.0, 1.0, -0.5, 1.5], [3.0, -1.5, 0.5, 1.0], [1.0, 2.0, -2.5, 0.75]])
V, PLACES = X[0], numpy.array([[2, 0, 1, 0]])
MASK = numpy.array([[True, False, True, True], [False, True, True, False], [True, True, False, True]])
# positive definite; of booleans far from singular, which is left to rounding
SPD = numpy.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.0], [0.5, 0.0, 5.0]])

CALLS: list[Call] = []


NARROW = ("nanvar", "nanstd", "polydiv", "matrix x vector", "polyfit", "lstsq", "einsum(optimize)")


def add(name: str, f: Callable[..., Any], *inputs: Any, kinds: Any = None, **options: Any) -> None:
    """Add a call; `kinds` of arrays by default."""
    given = kinds or tuple(DTYPES for _ in inputs)
    if "einsum" in name:  # of terms that cancel
        options["ulps"] = 256
    CALLS.append(Call(name, f, inputs, given, narrow=any(n in name for n in NARROW), **options))


def typed(name: str, f: Callable[..., Any], *inputs: Any, **options: Any) -> None:
    """Add calls of (np, *inputs, dtype) with every dtype that can be asked for."""
    for dtype in DTYPES:
        add(f"{name} dtype={dtype}", lambda np, *xs, d=dtype: f(np, *xs, numpy.dtype(d)), *inputs, **options)


# --- the programs whose derivatives are tested -----------------------------------------------------------

for name, program in PROGRAMS.items():
    add(
        name,
        program.f,
        *program.inputs,
        kinds=tuple(
            (*DTYPES, *PYTHON) if numpy.ndim(x) == 0 and len(program.inputs) > 1 else DTYPES
            for x in program.inputs
        ),
        modes=EAGER if name in ONLY_FGRAD else EVERY,
    )

# --- universal functions, operators, their methods and keywords ------------------------------------------

UFUNCS = sorted(
    n
    for n, f in vars(fnp).items()
    if isinstance(getattr(numpy, n, None), numpy.ufunc) and not n.startswith("_")
)
ONE = [n for n in UFUNCS if getattr(numpy, n).nin == 1]
TWO = [n for n in UFUNCS if getattr(numpy, n).nin == 2 and getattr(numpy, n).signature is None]
MATRIX = [n for n in UFUNCS if getattr(numpy, n).signature is not None]
OWN = lambda names: [n for n in names if getattr(numpy, n).__name__ == n or n == "abs"]  # without aliases


def reduction(name: str) -> Callable[..., Any]:
    """Return the reduction with a ufunc; NumPy's own is wrong for two of them where it has AVX-512."""

    def reduce(np: Any, x: Any, axis: int = 0, dtype: Any = None) -> Any:
        f = getattr(np, name)
        if name in {"power", "pow", "arctan2", "atan2"} and isinstance(x, numpy.ndarray):
            return f.accumulate(x, axis, dtype).take(-1, axis)
        return f.reduce(x, axis, dtype)

    return reduce


for name in ONE:
    add(f"{name}(x)", lambda np, x, name=name: getattr(np, name)(x), X, kinds=((*DTYPES, *ZERO_D, *SCALARS),))
    add(f"{name}(edges)", lambda np, x, name=name: getattr(np, name)(x), edges)
    add(f"{name}(empty)", lambda np, x, name=name: getattr(np, name)(x), empty(0, 3))
for name in TWO:
    call = lambda np, x, y, name=name: getattr(np, name)(x, y)
    add(f"{name}(x, y)", call, X, Y)
    add(f"{name}(x, number)", call, X, Y, kinds=(DTYPES, NUMBERS))
    add(f"{name}(number, x)", call, X[0, 3], Y, kinds=(PYTHON, DTYPES))
    add(f"{name}(0-d, number)", call, X, Y, kinds=(ZERO_D, NUMBERS))
    add(f"{name}(edges, edges)", lambda np, x, y, name=name: getattr(np, name)(x[:, None], y), edges, edges)
    add(f"{name}(edges, number)", call, edges, 2.0, kinds=(DTYPES, PYTHON))
for name in MATRIX:
    add(f"{name}(x, y)", lambda np, x, y, name=name: getattr(np, name)(x, y), SPD, SPD + 1)
for name in OWN(ONE):
    typed(f"{name}(x)", lambda np, x, d, name=name: getattr(np, name)(x, dtype=d), X)
    add(
        f"{name}.at", lambda np, x, name=name: written(np, x, lambda y: getattr(np, name).at(y, [0, 2, 2])), V
    )
for name in OWN(TWO):
    reduce = reduction(name)
    typed(f"{name}(x, y)", lambda np, x, y, d, name=name: getattr(np, name)(x, y, dtype=d), X, Y)
    typed(f"{name}(x, number)", lambda np, x, d, name=name: getattr(np, name)(x, 2, dtype=d), X)
    typed(f"{name}.reduce", lambda np, x, d, f=reduce: f(np, x, axis=1, dtype=d), X)
    typed(f"{name}.accumulate", lambda np, x, d, name=name: getattr(np, name).accumulate(x, 1, d), X)
    add(f"{name}.reduce", lambda np, x, f=reduce: f(np, x), X)
    add(f"{name}.reduce(edges)", lambda np, x, f=reduce: f(np, x), edges)
    add(f"{name}.reduce(empty)", lambda np, x, name=name: getattr(np, name).reduce(x), empty(0, 3))
    add(f"{name}.reduce(one)", lambda np, x, name=name: getattr(np, name).reduce(x), X[:1])
    add(
        f"{name}.reduce(initial)",
        lambda np, x, i, name=name: getattr(np, name).reduce(x, initial=i),
        X,
        Y,
        kinds=(DTYPES, (*PYTHON, *SCALARS)),
    )
    add(f"{name}.accumulate", lambda np, x, name=name: getattr(np, name).accumulate(x, axis=1), X)
    add(f"{name}.accumulate(empty)", lambda np, x, name=name: getattr(np, name).accumulate(x), empty(0, 3))
    add(f"{name}.reduceat", lambda np, x, name=name: getattr(np, name).reduceat(x, [0, 2, 1], axis=0), X)
    add(f"{name}.outer", lambda np, x, y, name=name: getattr(np, name).outer(x, y), V, Y[0])
    add(
        f"{name}.outer(number)",
        lambda np, x, y, name=name: getattr(np, name).outer(x, y),
        V,
        Y,
        kinds=(DTYPES, PYTHON),
    )
    add(
        f"{name}.at(v)",
        lambda np, x, v, name=name: written(np, x, lambda y: getattr(np, name).at(y, [0, 2, 2], v)),
        V,
        2.0,
        kinds=(DTYPES, (*DTYPES, *PYTHON)),
    )
    add(
        f"{name}(out)",
        lambda np, x, y, o, name=name: getattr(np, name)(x, y, out=np.zeros(x.shape, o.dtype)),
        X,
        Y,
        X,
    )


def written(np: Any, x: Any, write: Callable[[Any], None]) -> Any:
    """Return a copy of `x` after it was written to."""
    y = np.copy(x)
    write(y)
    return y


OPERATORS = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "**": lambda x, y: x**y,
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "<<": lambda x, y: x << y,
    ">>": lambda x, y: x >> y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "divmod": divmod,
}
IN_PLACE = (
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "ifloordiv",
    "imod",
    "ipow",
    "iand",
    "ior",
    "ixor",
    "ilshift",
    "irshift",
)
for name, f in OPERATORS.items():
    add(f"x {name} y", lambda np, x, y, f=f: f(x, y), X, Y)
    add(f"x {name} number", lambda np, x, y, f=f: f(x, y), X, Y, kinds=(DTYPES, NUMBERS))
    add(f"number {name} x", lambda np, x, y, f=f: f(y, x), X, Y, kinds=(DTYPES, NUMBERS))
    add(f"0-d {name} number", lambda np, x, y, f=f: f(x, y), X, Y, kinds=(ZERO_D, PYTHON))
    add(f"scalar {name} number", lambda np, x, y, f=f: f(x, y), X, Y, kinds=(SCALARS, PYTHON))
for n in (0, 1, 2, 3, 5, -1, 0.0, 0.5, 1.0, 2.0, -1.0, 1j, True, False):
    add(f"x ** {n}", lambda np, x, n=n: x**n, X, kinds=((*DTYPES, *ZERO_D, *SCALARS),))
    add(f"edges ** {n}", lambda np, x, n=n: x**n, edges)
    add(f"{n} ** x", lambda np, x, n=n: n**x, X, kinds=((*DTYPES, *ZERO_D, *SCALARS),))
    add(f"np.power(x, {n})", lambda np, x, n=n: np.power(x, n), X)
for name in IN_PLACE:
    add(
        f"x {name} y",
        lambda np, x, y, name=name: written(np, x, lambda z: getattr(__import__("operator"), name)(z, y)),
        X,
        Y,
        kinds=(DTYPES, (*DTYPES, *PYTHON)),
    )
for name, f in {"-x": lambda x: -x, "+x": lambda x: +x, "abs": abs, "~x": lambda x: ~x}.items():
    add(name, lambda np, x, f=f: f(x), X)

# --- reductions and scans --------------------------------------------------------------------------------

PLAIN = (
    "all",
    "any",
    "argmax",
    "argmin",
    "max",
    "min",
    "ptp",
    "count_nonzero",
    "median",
    "nanmax",
    "nanmin",
    "nanmedian",
    "nanargmax",
    "nanargmin",
    "average",
)
TYPED = ("sum", "prod", "mean", "var", "std", "nansum", "nanprod", "nanmean", "nanvar", "nanstd")
SCANS = ("cumsum", "cumprod", "nancumsum", "nancumprod")
for name in (*PLAIN, *TYPED):
    add(f"{name}()", lambda np, x, name=name: getattr(np, name)(x), X)
    add(f"{name}(0)", lambda np, x, name=name: getattr(np, name)(x, axis=0), X)
    add(f"{name}(-1, keepdims)", lambda np, x, name=name: getattr(np, name)(x, axis=-1, keepdims=True), X)
    add(f"{name}(0-d)", lambda np, x, name=name: getattr(np, name)(x), X, kinds=((*ZERO_D, *SCALARS),))
    add(f"{name}(edges)", lambda np, x, name=name: getattr(np, name)(x), edges)
    add(f"{name}(empty)", lambda np, x, name=name: getattr(np, name)(x), empty(0))
    add(f"{name}(empty, 0)", lambda np, x, name=name: getattr(np, name)(x, axis=0), empty(0, 3))
    add(f"{name}(empty, 1)", lambda np, x, name=name: getattr(np, name)(x, axis=1), empty(0, 3))
    add(f"{name}(Fortran)", lambda np, x, name=name: getattr(np, name)(np.asarray(x).T, axis=0), X)
for name in TYPED:
    typed(f"{name}()", lambda np, x, d, name=name: getattr(np, name)(x, dtype=d), X)
    typed(f"{name}(edges)", lambda np, x, d, name=name: getattr(np, name)(x, dtype=d), edges)
    typed(f"{name}(empty)", lambda np, x, d, name=name: getattr(np, name)(x, dtype=d, axis=0), empty(0, 3))
    typed(f"{name}(where)", lambda np, x, d, name=name: getattr(np, name)(x, axis=0, dtype=d, where=MASK), X)
    add(f"{name}(where)", lambda np, x, name=name: getattr(np, name)(x, axis=1, where=MASK), X)
    add(f"{name}(where none)", lambda np, x, name=name: getattr(np, name)(x, axis=1, where=MASK & False), X)
for name in ("var", "std", "nanvar", "nanstd"):
    add(f"{name}(ddof)", lambda np, x, name=name: getattr(np, name)(x, axis=0, ddof=1), X)
    add(f"{name}(ddof=1.5)", lambda np, x, name=name: getattr(np, name)(x, axis=0, ddof=1.5), X)
    add(f"{name}(ddof=3)", lambda np, x, name=name: getattr(np, name)(x, axis=0, ddof=3), X)
    add(f"{name}(mean)", lambda np, x, m, name=name: getattr(np, name)(x, axis=0, mean=m), X, Y[:1])
for name in SCANS:
    add(f"{name}()", lambda np, x, name=name: getattr(np, name)(x), X)
    add(f"{name}(edges)", lambda np, x, name=name: getattr(np, name)(x), edges)
    add(f"{name}(empty)", lambda np, x, name=name: getattr(np, name)(x, axis=0), empty(0, 3))
    add(f"{name}(0-d)", lambda np, x, name=name: getattr(np, name)(x), X, kinds=(ZERO_D,))
    typed(f"{name}()", lambda np, x, d, name=name: getattr(np, name)(x, axis=1, dtype=d), X)
for name in ("cumulative_sum", "cumulative_prod"):
    typed(
        f"{name}()",
        lambda np, x, d, name=name: getattr(np, name)(x, axis=1, dtype=d, include_initial=True),
        X,
    )
    add(f"{name}()", lambda np, x, name=name: getattr(np, name)(x, axis=0, include_initial=True), X)
for name in ("sum", "prod", "max", "min", "nansum", "nanprod", "nanmax", "nanmin"):
    add(
        f"{name}(initial)",
        lambda np, x, i, name=name: getattr(np, name)(x, axis=0, initial=i),
        X,
        Y,
        kinds=(DTYPES, (*PYTHON, *SCALARS)),
    )
    add(
        f"{name}(initial, where)",
        lambda np, x, i, name=name: getattr(np, name)(x, axis=0, initial=i, where=MASK),
        X,
        Y,
        kinds=(DTYPES, PYTHON),
    )
    add(
        f"{name}(empty, initial)",
        lambda np, x, i, name=name: getattr(np, name)(x, axis=0, initial=i),
        empty(0, 3),
        Y,
        kinds=(DTYPES, (*PYTHON, *SCALARS)),
    )
add("average(weights)", lambda np, x, w: np.average(x, axis=0, weights=w, returned=True), X, abs(Y[:, 0]))
add("trace", lambda np, x: np.trace(x), X)
typed("trace", lambda np, x, d: np.trace(x, dtype=d), X)
add("diff", lambda np, x: np.diff(x), X)
add("diff(n)", lambda np, x: np.diff(x, n=2, prepend=1), X)
add(
    "ediff1d",
    lambda np, x, b, e: np.ediff1d(x, e, b),
    V,
    V,
    V,
    kinds=(DTYPES, (*DTYPES, *PYTHON), (*DTYPES, *PYTHON)),
)
add("ediff1d()", lambda np, x: np.ediff1d(x), V)
add("gradient", lambda np, x: np.gradient(x), X)
add("gradient(spacing)", lambda np, x, h: np.gradient(x, h, axis=1), X, 2.0, kinds=(DTYPES, NUMBERS))
add("gradient(places)", lambda np, x, h: np.gradient(x, h, axis=1), X, numpy.array([0.0, 1.0, 3.0, 7.0]))
add("gradient(edges)", lambda np, x: np.gradient(x), edges)
add("trapezoid", lambda np, x: np.trapezoid(x), X)
add("trapezoid(dx)", lambda np, x, h: np.trapezoid(x, dx=h), X, 2.0, kinds=(DTYPES, NUMBERS))
add("trapezoid(x)", lambda np, y, x: np.trapezoid(y, x), X, Y[0])

# --- other functions of one array or two -----------------------------------------------------------------

SINGLE = {
    "angle": lambda np, x: np.angle(x),
    "angle(deg)": lambda np, x: np.angle(x, deg=True),
    "real": lambda np, x: np.real(x),
    "imag": lambda np, x: np.imag(x),
    "sinc": lambda np, x: np.sinc(x),
    "i0": lambda np, x: np.i0(x),
    "nan_to_num": lambda np, x: np.nan_to_num(x),
    "fix": lambda np, x: np.fix(x),
    "nan_to_num(values)": lambda np, x: np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=3.0),
    "round": lambda np, x: np.round(x),
    "round(1)": lambda np, x: np.round(x, 1),
    "round(-1)": lambda np, x: np.round(x, -1),
    "around": lambda np, x: np.around(x, 2),
    "isposinf": lambda np, x: np.isposinf(x),
    "isneginf": lambda np, x: np.isneginf(x),
    "iscomplex": lambda np, x: np.iscomplex(x),
    "isreal": lambda np, x: np.isreal(x),
    "real_if_close": lambda np, x: np.real_if_close(x),
    "sort": lambda np, x: np.sort(x),
    "argsort": lambda np, x: np.argsort(x, stable=True),
    "argwhere": lambda np, x: np.argwhere(x),
    "flatnonzero": lambda np, x: np.flatnonzero(x),
    "nonzero": lambda np, x: np.nonzero(x),
    "unique": lambda np, x: np.unique(x),
    "unique_all": lambda np, x: tuple(np.unique_all(x)),
    "unique_counts": lambda np, x: tuple(np.unique_counts(x)),
    "unique_values": lambda np, x: np.sort(np.unique_values(x)),
    "unique_inverse": lambda np, x: tuple(np.unique_inverse(x)),
    "sort_complex": lambda np, x: np.sort_complex(x),
    "partition": lambda np, x: np.sort(np.partition(x, 1)),
    "argpartition": lambda np, x: np.argpartition(x, 0)[..., :1],
    "unwrap": lambda np, x: np.unwrap(x),
    "unwrap(period)": lambda np, x: np.unwrap(x, period=4),
    "unwrap(period=4.0)": lambda np, x: np.unwrap(x, period=4.0),
    "flip": lambda np, x: np.flip(x),
    "asarray": lambda np, x: np.asarray(x),
    "array": lambda np, x: np.array(x),
    "asanyarray": lambda np, x: np.asanyarray(x),
    "ascontiguousarray": lambda np, x: np.ascontiguousarray(x),
    "asfortranarray": lambda np, x: np.asfortranarray(x),
    "zeros_like": lambda np, x: np.zeros_like(x),
    "ones_like": lambda np, x: np.ones_like(x),
    "copy": lambda np, x: np.copy(x),
    "vander": lambda np, x: np.vander(x.ravel()[:3]),
    "diag": lambda np, x: np.diag(x),
    "diagflat": lambda np, x: np.diagflat(x),
    "tril": lambda np, x: np.tril(x.reshape(1, -1)),
    "median": lambda np, x: np.median(x),
    "cov": lambda np, x: np.cov(x),
    "corrcoef": lambda np, x: np.corrcoef(x),
    "array_str": lambda np, x: np.asarray(len(np.array_str(x)) > 0),
    "pad": lambda np, x: np.pad(x, 1),
    "pad(mean)": lambda np, x: np.pad(x, 1, mode="mean"),
    "pad(ramp)": lambda np, x: np.pad(x, 2, mode="linear_ramp"),
    "pad(maximum)": lambda np, x: np.pad(x, 1, mode="maximum"),
    "pad(median)": lambda np, x: np.pad(x, 1, mode="median"),
    "pad(stat)": lambda np, x: np.pad(x, 1, mode="mean", stat_length=2),
    "trim_zeros": lambda np, x: np.trim_zeros(x.ravel()),
    "clip(1, 2)": lambda np, x: np.clip(x, 1, 2),
    "clip(0.5, None)": lambda np, x: np.clip(x, 0.5, None),
    "clip(None, 1j)": lambda np, x: np.clip(x, None, 1j),
    "clip(min=True)": lambda np, x: np.clip(x, min=True),
    "clip()": lambda np, x: np.clip(x),
    "isin": lambda np, x: np.isin(x, [1, 2]),
    "delete": lambda np, x: np.delete(x, 1),
    "digitize": lambda np, x: np.digitize(x, [0, 1.5]),
    "isrealobj": lambda np, x: np.asarray(np.isrealobj(x)),
    "array_equal": lambda np, x: np.asarray(np.array_equal(x, x)),
    "logspace": lambda np, x: np.logspace(0, x, 3),
    "allclose": lambda np, x: np.asarray(np.allclose(x, x)),
    "isclose": lambda np, x: np.isclose(x, 1),
    "common_type": lambda np, x: np.zeros(1, np.common_type(x)),
    "result_type": lambda np, x: np.zeros(1, np.result_type(x, 1)),
    "min_scalar_type": lambda np, x: np.zeros(1, np.min_scalar_type(x)),
    "block": lambda np, x: np.block([[x, x]]),
    "append(1)": lambda np, x: np.append(x, 1),
    "append(1.5)": lambda np, x: np.append(x, 1.5),
    "insert(2)": lambda np, x: np.insert(x, 1, 2),
    "where(x, 1, 2.5)": lambda np, x: np.where(x, 1, 2.5),
    "where(x, x, 1)": lambda np, x: np.where(x > 0, x, 1),
    "where(x, x, 1.5)": lambda np, x: np.where(x > 0, x, 1.5),
    "where(x, 1j, x)": lambda np, x: np.where(x > 0, 1j, x),
    "select(0)": lambda np, x: np.select([x > 0], [x]),
    "select(1.5)": lambda np, x: np.select([x > 0], [x], 1.5),
    "resize": lambda np, x: np.resize(x, 20),
    "full_like": lambda np, x: np.full_like(x, 2),
    "full_like(2.5)": lambda np, x: np.full_like(x, 2.5),
    "full": lambda np, x: np.full((2, *x.shape), x),
    "stack": lambda np, x: np.stack([x, x]),
    "interp": lambda np, x: np.interp(x, [0, 1, 2], [1, 3, 2]),
    "lexsort": lambda np, x: np.lexsort([x]),
    "take(wrap)": lambda np, x: np.take(x, [1, 5], mode="wrap"),
    "repeat": lambda np, x: np.repeat(x, 2),
    "cross": lambda np, x: np.cross(x.ravel()[:3], [1, 2, 3]),
    "meshgrid": lambda np, x: np.meshgrid(x, x),
    "vectorize": lambda np, x: np.piecewise(x, [x > 0], [1, 2.5]),
    "apply_over_axes": lambda np, x: np.apply_over_axes(np.sum, x, 0),
}
for name, f in SINGLE.items():
    ours = (
        EAGER
        if name in {"asarray", "array", "full", "common_type", "result_type", "min_scalar_type"}
        else EVERY
    )
    add(f"{name} of an array", f, X, modes=ours)
    add(f"{name} of a vector", f, V, modes=ours)
    add(f"{name} of edges", f, edges, modes=ours)
    add(f"{name} of nothing", f, empty(0), modes=ours)
    add(f"{name} of 0-d", f, X, kinds=((*ZERO_D, *SCALARS),), modes=ours)
    add(f"{name} of Fortran", lambda np, x, f=f: f(np, x.T), X, modes=ours)

TOGETHER = {
    "where": lambda np, x, y: np.where(MASK[0], x, y),
    "select": lambda np, x, y: np.select([MASK[0]], [x], y),
    "choose": lambda np, x, y: np.choose([0, 1, 0, 1], [x, y]),
    "clip(y, y, dtype)": lambda np, x, y: np.clip(x, y, y, dtype="F"),
    "clip(y, None)": lambda np, x, y: np.clip(x, y, None),
    "clip(None, y)": lambda np, x, y: np.clip(x, None, y),
    "concatenate": lambda np, x, y: np.concatenate([np.atleast_1d(x), np.atleast_1d(y)]),
    "append": lambda np, x, y: np.append(x, y),
    "insert": lambda np, x, y: np.insert(x, 1, y),
    "isclose": lambda np, x, y: np.isclose(x, y),
    "allclose": lambda np, x, y: np.asarray(np.allclose(x, y)),
    "array_equal": lambda np, x, y: np.asarray(np.array_equal(x, y)),
    "array_equiv": lambda np, x, y: np.asarray(np.array_equiv(x, y)),
    "isin": lambda np, x, y: np.isin(x, y),
    "searchsorted": lambda np, x, y: np.searchsorted(np.sort(x), y),
    "digitize": lambda np, x, y: np.digitize(y, np.sort(x)),
    "union1d": lambda np, x, y: np.union1d(x, y),
    "intersect1d": lambda np, x, y: np.intersect1d(x, y),
    "setdiff1d": lambda np, x, y: np.setdiff1d(x, y),
    "setxor1d": lambda np, x, y: np.setxor1d(x, y),
    "convolve": lambda np, x, y: np.convolve(x, y),
    "correlate": lambda np, x, y: np.correlate(x, y, "full"),
    "polyval": lambda np, x, y: np.polyval(x, y),
    "polyadd": lambda np, x, y: np.polyadd(x, y),
    "polysub": lambda np, x, y: np.polysub(x, y),
    "polymul": lambda np, x, y: np.polymul(x, y),
    "polydiv": lambda np, x, y: np.polydiv(x, y),
    "polyint": lambda np, x, y: np.polyint(x, k=y),
    "dot": lambda np, x, y: np.dot(x, y),
    "inner": lambda np, x, y: np.inner(x, y),
    "outer": lambda np, x, y: np.outer(x, y),
    "vdot": lambda np, x, y: np.vdot(x, y),
    "kron": lambda np, x, y: np.kron(x, y),
    "tensordot": lambda np, x, y: np.tensordot(x, y, 0),
    "einsum": lambda np, x, y: np.einsum("i,i", x, y),
    "einsum(outer)": lambda np, x, y: np.einsum("...i,...->...i", x, y),
    "interp": lambda np, x, y: np.interp(x, [0, 1, 2], y[:3]),
    "interp(left)": lambda np, x, y: np.interp(x, [0, 1, 2], [1, 2, 3], left=y, right=y),
    "linspace": lambda np, x, y: np.linspace(x, y, 3),
    "linspace(retstep)": lambda np, x, y: np.linspace(x, y, 4, retstep=True),
    "logspace": lambda np, x, y: np.logspace(x, y, 3),
    "logspace(base)": lambda np, x, y: np.logspace(0, x, 3, base=y),
    "geomspace": lambda np, x, y: np.geomspace(x, y, 3),
    "full_like": lambda np, x, y: np.full_like(x, y),
    "copyto": lambda np, x, y: written(np, x, lambda z: np.copyto(z, y)),
    "put": lambda np, x, y: written(np, x, lambda z: np.put(z, [1, 0], y)),
    "putmask": lambda np, x, y: written(np, x, lambda z: np.putmask(z, MASK[0], y)),
    "place": lambda np, x, y: written(np, x, lambda z: np.place(z, MASK[0], y)),
    "setitem": lambda np, x, y: written(np, x, lambda z: z.__setitem__(slice(None), y)),
    "setitem(i)": lambda np, x, y: written(np, x, lambda z: z.__setitem__(1, np.ravel(y)[0])),
    "setitem(mask)": lambda np, x, y: written(np, x, lambda z: z.__setitem__(MASK[0], np.ravel(y)[0])),
    "fill": lambda np, x, y: written(np, x, lambda z: z.fill(np.ravel(y)[0])),
    "fill_diagonal": lambda np, x, y: written(np, np.stack([x, x, x, x]), lambda z: np.fill_diagonal(z, y)),
    "cov": lambda np, x, y: np.cov(x, y),
    "cov(fweights)": lambda np, x, y: np.cov(x, fweights=abs(y)),
    "cov(aweights)": lambda np, x, y: np.cov(x, aweights=abs(y)),
    "corrcoef": lambda np, x, y: np.corrcoef(x, y),
    "cross": lambda np, x, y: np.cross(x[..., :3], y[..., :3]),
    "average": lambda np, x, y: np.average(x, weights=y, returned=True),
    "quantile(weights)": lambda np, x, y: np.quantile(x, 0.4, weights=abs(y), method="inverted_cdf"),
    "quantile": lambda np, x, q: np.quantile(x, abs(q) / 8),
    "percentile": lambda np, x, q: np.percentile(x, abs(q)),
    "nanquantile": lambda np, x, q: np.nanquantile(x, abs(q) / 8),
    "nanpercentile": lambda np, x, q: np.nanpercentile(x, abs(q)),
    "diff(append)": lambda np, x, y: np.diff(x, append=y),
    "trapezoid": lambda np, x, y: np.trapezoid(x, y),
    "gradient": lambda np, x, y: np.gradient(x, np.cumsum(abs(y) + 1)),
    "vstack": lambda np, x, y: np.vstack([x, y]),
    "array": lambda np, x, y: np.array([x, y]),
    "stack": lambda np, x, y: np.stack([x, y]),
    "hstack": lambda np, x, y: np.hstack([x, y]),
    "block": lambda np, x, y: np.block([x, y]),
    "pad(values)": lambda np, x, y: np.pad(x, 1, constant_values=np.ravel(y)[0]),
    "pad(end_values)": lambda np, x, y: np.pad(x, 2, mode="linear_ramp", end_values=np.ravel(y)[0]),
    "nan_to_num": lambda np, x, y: np.nan_to_num(x, nan=np.ravel(y)[0]),
    "unwrap(period)": lambda np, x, y: np.unwrap(x, period=np.ravel(y)[0]),
    "meshgrid": lambda np, x, y: np.meshgrid(x, y),
    "broadcast_arrays": lambda np, x, y: np.broadcast_arrays(x, y),
    "result_type": lambda np, x, y: np.zeros(2, np.result_type(x, y)),
    "polyfit": lambda np, x, y: np.polyfit(np.cumsum(abs(x) + 1), y, 1),
    "histogram": lambda np, x, y: np.histogram(x, bins=3, weights=y),
    "histogram(range)": lambda np, x, y: np.histogram(x, np.sort(y)),
    "histogram2d": lambda np, x, y: np.histogram2d(x, y, bins=2),
    "histogram_bin_edges": lambda np, x, y: np.histogram_bin_edges(x, 2),
    "histogram(density)": lambda np, x, y: np.histogram(x, 3, density=True),
    "bincount": lambda np, x, y: np.bincount(abs(x), y),
    "matrix x vector": lambda np, x, y: np.outer(x, x) @ y,
    "polyder": lambda np, x, y: np.polyder(x),
    "roots": lambda np, x, y: np.sort(np.roots(x)),
    "poly": lambda np, x, y: np.poly(x),
    "ldexp": lambda np, x, y: np.ldexp(x, y),
    "arange": lambda np, x, y: np.arange(0, np.ravel(abs(x))[1], np.ravel(abs(y))[0] + 1),
    "lexsort": lambda np, x, y: np.lexsort([x, y]),
    "take_along_axis": lambda np, x, y: np.take_along_axis(x, y, 0),
    "take": lambda np, x, y: np.take(x, y, mode="clip"),
    "getitem": lambda np, x, y: x[y],
    "compress": lambda np, x, y: np.compress(y, x),
    "extract": lambda np, x, y: np.extract(y, x),
    "where(y)": lambda np, x, y: np.where(y, x, 0),
    "choose(y)": lambda np, x, y: np.choose(y, [x, x, x], mode="clip"),
    "repeat": lambda np, x, y: np.repeat(x, abs(y)),
    "roll": lambda np, x, y: np.roll(x, y),
    "unravel_index": lambda np, x, y: np.unravel_index(abs(x), (4, 5)),
    "ix_": lambda np, x, y: np.ix_(x, y),
    "delete": lambda np, x, y: np.delete(x, y),
    "all(where)": lambda np, x, y: np.all(x, where=y),
    "sum(where)": lambda np, x, y: np.sum(x, where=y),
    "mean(where)": lambda np, x, y: np.mean(x, where=y),
    "vander": lambda np, x, y: np.vander(x, 3),
    "linalg.outer": lambda np, x, y: np.linalg.outer(x, y),
    "linalg.vecdot": lambda np, x, y: np.linalg.vecdot(x, y),
    "linalg.cross": lambda np, x, y: np.linalg.cross(x[:3], y[:3]),
    "linalg.matmul": lambda np, x, y: np.linalg.matmul(x, y),
    "linalg.lstsq": lambda np, x, y: np.linalg.lstsq(np.vander(np.cumsum(abs(x) + 1), 2), y)[0],
    "linalg.norm(x, y)": lambda np, x, y: np.linalg.norm(x - y),
}
for name, f in TOGETHER.items():
    ours = EAGER if name in {"array", "result_type", "arange", "ix_"} else EVERY
    add(f"{name} together", f, V, Y[0], modes=ours)
    add(f"{name} with a number", f, V, Y, kinds=(DTYPES, NUMBERS), modes=ours)
    add(f"{name} of nothing", f, empty(0), empty(0), modes=ours)
    if name in {
        "linspace",
        "logspace",
        "geomspace",
        "linspace(retstep)",
        "logspace(base)",
        "where",
        "clip(y, None)",
        "clip(None, y)",
        "isclose",
        "full_like",
        "result_type",
        "array",
        "append",
        "interp(left)",
        "dot",
        "vdot",
        "outer",
    }:
        add(
            f"{name} of 0-d",
            f,
            1.5,
            3.0,
            kinds=((*ZERO_D, *SCALARS), (*ZERO_D, *SCALARS, *PYTHON)),
            modes=ours,
        )
        add(f"{name} of a number", f, 1.5, 3.0, kinds=(PYTHON, (*DTYPES[:1], *ZERO_D)), modes=ours)

# --- dtypes that are asked for ---------------------------------------------------------------------------

ASKED = {
    "astype": lambda np, x, d: np.astype(x, d),
    ".astype": lambda np, x, d: x.astype(d),
    "asarray": lambda np, x, d: np.asarray(x, dtype=d),
    ".astype(safe)": lambda np, x, d: x.astype(d, casting="safe"),
    ".astype(same_kind)": lambda np, x, d: x.astype(d, casting="same_kind"),
    "array": lambda np, x, d: np.array(x, dtype=d),
    "zeros_like": lambda np, x, d: np.zeros_like(x, dtype=d),
    "ones_like": lambda np, x, d: np.ones_like(x, dtype=d),
    "full_like": lambda np, x, d: np.full_like(x, x, dtype=d),
    "linspace": lambda np, x, d: np.linspace(x, 9, 3, dtype=d),
    "logspace": lambda np, x, d: np.logspace(0, x, 3, dtype=d),
    "geomspace": lambda np, x, d: np.geomspace(abs(x) + 1, 9, 3, dtype=d),
    "concatenate": lambda np, x, d: np.concatenate([x, x], dtype=d),
    "stack": lambda np, x, d: np.stack([x, x], dtype=d),
    "concatenate(unsafe)": lambda np, x, d: np.concatenate([x, x], dtype=d, casting="unsafe"),
    "vstack": lambda np, x, d: np.vstack([x, x], dtype=d),
    "hstack": lambda np, x, d: np.hstack([x, x], dtype=d),
    "cov": lambda np, x, d: np.cov(x, dtype=d),
    "corrcoef": lambda np, x, d: np.corrcoef(x, dtype=d),
    "einsum": lambda np, x, d: np.einsum("i,i->i", x, x, dtype=d),
    "einsum(unsafe)": lambda np, x, d: np.einsum("i,i", x, x, dtype=d, casting="unsafe"),
    "require": lambda np, x, d: np.require(x, dtype=d),
    "full": lambda np, x, d: np.full((4,), x, dtype=d),
    "arange": lambda np, x, d: np.arange(0, abs(x[1]) + 1, 1, dtype=d),
    "unwrap": lambda np, x, d: np.unwrap(x.astype(d)),
    "fromfunction": lambda np, x, d: np.fromfunction(lambda i: x * i, (4,), dtype=d),
    "matmul": lambda np, x, d: np.matmul(x, x, dtype=d),
    "vecdot": lambda np, x, d: np.vecdot(x, x, dtype=d),
    "linalg.trace": lambda np, x, d: np.linalg.trace(np.outer(x, x), dtype=d),
    ".sum": lambda np, x, d: x.sum(dtype=d),
    ".prod": lambda np, x, d: x.prod(dtype=d),
    ".mean": lambda np, x, d: x.mean(dtype=d),
    ".var": lambda np, x, d: x.var(dtype=d),
    ".std": lambda np, x, d: x.std(dtype=d),
    ".cumsum": lambda np, x, d: x.cumsum(dtype=d),
    ".cumprod": lambda np, x, d: x.cumprod(dtype=d),
    "ascontiguousarray": lambda np, x, d: np.ascontiguousarray(x, dtype=d),
    "median(out)": lambda np, x, d: np.median(x, out=np.zeros((), d)),
    "sum(out)": lambda np, x, d: np.sum(x, out=np.zeros((), d)),
    "mean(out)": lambda np, x, d: np.mean(x, out=np.zeros((), d)),
    "max(out)": lambda np, x, d: np.max(x, out=np.zeros((), d)),
    "cumsum(out)": lambda np, x, d: np.cumsum(x, out=np.zeros(4, d)),
    "std(out)": lambda np, x, d: np.std(x, out=np.zeros((), d)),
    "all(out)": lambda np, x, d: np.all(x, out=np.zeros((), d)),
    "clip(out)": lambda np, x, d: np.clip(x, 1, 2, out=np.zeros(4, d)),
    "dot(out)": lambda np, x, d: np.dot(x, x, out=np.zeros((), d)),
    "take(out)": lambda np, x, d: np.take(x, [1, 0], out=np.zeros(2, d)),
    "concatenate(out)": lambda np, x, d: np.concatenate([x, x], out=np.zeros(8, d)),
    "argmax(out)": lambda np, x, d: np.argmax(x, out=np.zeros((), d)),
    "round(out)": lambda np, x, d: np.round(x, out=np.zeros(4, d)),
    "matmul(out)": lambda np, x, d: np.matmul(x, x, out=np.zeros((), d)),
    "ptp(out)": lambda np, x, d: np.ptp(x, out=np.zeros((), d)),
    "sin(out)": lambda np, x, d: np.sin(x, out=np.zeros(4, d)),
    "negative(out)": lambda np, x, d: np.negative(x, out=np.zeros(4, d)),
    "quantile(out)": lambda np, x, d: np.quantile(x, 0.5, out=np.zeros((), d)),
    "isposinf(out)": lambda np, x, d: np.isposinf(x, out=np.zeros(4, d)),
}
CREATED = {
    "zeros": lambda np, x, d: np.zeros(3, d) + x[:3],
    "ones": lambda np, x, d: np.ones(3, d) * x[:3],
    "eye": lambda np, x, d: np.eye(3, dtype=d) * x[:3],
    "identity": lambda np, x, d: np.identity(3, d) * x[:3],
    "tri": lambda np, x, d: np.tri(3, dtype=d) + x[:3],
    "full(2)": lambda np, x, d: np.full(3, 2, d) + x[:3],
    "empty": lambda np, x, d: np.empty(0, d) + x[:0],
    "arange(3)": lambda np, x, d: np.arange(2, dtype=d) + x[:2],
    "linspace(3)": lambda np, x, d: np.linspace(0, 4, 3, dtype=d) + x[:3],
    "indices": lambda np, x, d: np.indices((3,), d)[0] + x[:3],
}
for name, f in {**ASKED, **CREATED}.items():
    ours = {"asarray", "array", "full", "require", "arange", "fromfunction"} | set(CREATED)
    typed(f"{name}", f, V, modes=EAGER if name in ours or "(out)" in name else EVERY)
for name in ("+", "*", "/", "**"):
    for wide in (0, 1, 2.5, 1j, True):
        add(
            f"x {name} {wide}",
            lambda np, x, f=OPERATORS[name], n=wide: f(x, n),
            X,
            kinds=((*DTYPES, *ZERO_D, *SCALARS),),
        )
for big in (128, 256, 300, -1, -129, 2**31, 2**40, 2**63, 2**64, 1e300, 1e5):
    for name, f in {
        **{k: OPERATORS[k] for k in ("+", "*", "//", "**", "==", "<", "&")},
        "maximum": None,
    }.items():
        if name != "**" or big in (300, -1, 1e5):
            add(f"x {name} {big}", lambda np, x, f=f, n=big: np.maximum(x, n) if f is None else f(x, n), X)
            add(f"{big} {name} x", lambda np, x, f=f, n=big: np.maximum(n, x) if f is None else f(n, x), X)
    add(f"where(x, {big})", lambda np, x, n=big: np.where(x > 0, x, n), X)
    add(f"clip(x, {big})", lambda np, x, n=big: np.clip(x, None, n), X)
    add(f"full_like(x, {big})", lambda np, x, n=big: np.full_like(x, n), X)
    add(f"x[0] = {big}", lambda np, x, n=big: written(np, x, lambda z: z.__setitem__(0, n)), X)
    add(f"x += {big}", lambda np, x, n=big: written(np, x, lambda z: z.__iadd__(n)), X)
    add(f"sum(initial={big})", lambda np, x, n=big: np.sum(x, initial=n), X)
    add(f"max(initial={big})", lambda np, x, n=big: np.max(x, initial=n), X)

# --- methods ---------------------------------------------------------------------------------------------

METHODS = {
    ".all": lambda np, x: x.all(),
    ".any": lambda np, x: x.any(),
    ".argmax": lambda np, x: x.argmax(),
    ".argmin": lambda np, x: x.argmin(),
    ".argsort": lambda np, x: x.argsort(stable=True),
    ".clip": lambda np, x: x.clip(0, 1),
    ".clip(0.5)": lambda np, x: x.clip(0.5),
    ".conj": lambda np, x: x.conj(),
    ".conjugate": lambda np, x: x.conjugate(),
    ".copy": lambda np, x: x.copy(),
    ".cumsum": lambda np, x: x.cumsum(),
    ".cumprod": lambda np, x: x.cumprod(),
    ".max": lambda np, x: x.max(),
    ".mean": lambda np, x: x.mean(),
    ".min": lambda np, x: x.min(),
    ".prod": lambda np, x: x.prod(),
    ".round": lambda np, x: x.round(),
    ".round(1)": lambda np, x: x.round(1),
    ".std": lambda np, x: x.std(),
    ".sum": lambda np, x: x.sum(),
    ".var": lambda np, x: x.var(),
    ".real": lambda np, x: x.real,
    ".imag": lambda np, x: x.imag,
    ".T": lambda np, x: x.T,
    ".dot": lambda np, x: x.dot(x),
    ".trace": lambda np, x: x.trace(),
    ".nonzero": lambda np, x: x.nonzero(),
    ".sort": lambda np, x: written(np, x, lambda y: y.sort()),
    ".fill": lambda np, x: written(np, x, lambda y: y.fill(2.5)),
    ".fill(1)": lambda np, x: written(np, x, lambda y: y.fill(1)),
    ".flatten": lambda np, x: x.flatten(),
    ".diagonal": lambda np, x: x.diagonal(),
    ".choose": lambda np, x: x.choose([x, x, x], mode="clip"),
    ".searchsorted": lambda np, x: np.sort(x).searchsorted([1, 2]),
    ".repeat": lambda np, x: x.repeat(2),
    ".item": lambda np, x: np.asarray(x.item()),
    ".tolist": lambda np, x: np.asarray(x.tolist()),
    "float": lambda np, x: np.asarray(float(x)),
    "int": lambda np, x: np.asarray(int(x)),
    "complex": lambda np, x: np.asarray(complex(x)),
    "bool": lambda np, x: np.asarray(bool(x)),
    "index": lambda np, x: np.asarray([10, 11, 12, 13][x]),
    "in": lambda np, x: np.asarray(1 in x),
}
for name, f in METHODS.items():
    add(f"{name} of a vector", f, abs(V))
    add(f"{name} of a matrix", f, SPD)
    add(f"{name} of 0-d", f, abs(V), kinds=(ZERO_D,))
    add(f"{name} of nothing", f, empty(0))

# --- linear algebra, transforms, polynomials -------------------------------------------------------------

LINALG = {
    **{
        f"norm({o!r})": lambda np, x, o=o: np.linalg.norm(x, o)
        for o in (None, 0, 1, 2, -1, -2, 3, 0.5, numpy.inf, -numpy.inf, "fro", "nuc")
    },
    **{
        f"norm({o!r}, axis)": lambda np, x, o=o: np.linalg.norm(x, o, axis=-1)
        for o in (None, 0, 1, 2, -1, 3, 0.5, numpy.inf)
    },
    **{
        f"vector_norm({o!r})": lambda np, x, o=o: np.linalg.vector_norm(x, ord=o)
        for o in (0, 1, 2, 3, -1, numpy.inf)
    },
    **{
        f"matrix_norm({o!r})": lambda np, x, o=o: np.linalg.matrix_norm(x, ord=o)
        for o in ("fro", "nuc", 1, -1, 2, -2, numpy.inf)
    },
    **{
        f"cond({p!r})": lambda np, x, p=p: np.linalg.cond(x, p)
        for p in (None, 1, -1, 2, -2, numpy.inf, "fro", "nuc")
    },
    **{
        f"matrix_power({n})": lambda np, x, n=n: np.linalg.matrix_power(x, n) for n in (0, 1, 2, 3, 5, -1, -2)
    },
    "det": lambda np, x: np.linalg.det(x),
    "slogdet": lambda np, x: tuple(np.linalg.slogdet(x)),
    "inv": lambda np, x: np.linalg.inv(x),
    "pinv": lambda np, x: np.linalg.pinv(x),
    "cholesky": lambda np, x: np.linalg.cholesky(x),
    "eigvalsh": lambda np, x: np.linalg.eigvalsh(x),
    "eigh": lambda np, x: abs(np.linalg.eigh(x)[1]),
    "eigvals": lambda np, x: np.sort(np.linalg.eigvals(x)),
    "eig": lambda np, x: np.sort(np.linalg.eig(x)[0]),
    "svd": lambda np, x: np.linalg.svd(x)[1],
    "svdvals": lambda np, x: np.linalg.svdvals(x),
    "qr": lambda np, x: np.linalg.qr(x)[1],
    "qr(raw)": lambda np, x: np.linalg.qr(x, mode="raw"),
    "qr(r)": lambda np, x: np.linalg.qr(x, mode="r"),
    "solve": lambda np, x: np.linalg.solve(x, x),
    "matrix_rank": lambda np, x: np.linalg.matrix_rank(x),
    "matrix_rank(tol)": lambda np, x: np.linalg.matrix_rank(x, tol=0.1),
    "trace": lambda np, x: np.linalg.trace(x),
    "diagonal": lambda np, x: np.linalg.diagonal(x),
    "lstsq": lambda np, x: tuple(np.linalg.lstsq(x, x)),
    "multi_dot": lambda np, x: np.linalg.multi_dot([x, x, x]),
    "tensordot": lambda np, x: np.linalg.tensordot(x, x),
    "tensorsolve": lambda np, x: np.linalg.tensorsolve(x, x[0]),
    "tensorinv": lambda np, x: np.linalg.tensorinv(x, ind=1),
    "poly": lambda np, x: np.poly(x),
    "matrix_transpose": lambda np, x: np.linalg.matrix_transpose(x),
}
for name, f in LINALG.items():
    add(f"linalg.{name}", f, SPD, ulps=256)
    add(f"linalg.{name} of several", f, numpy.stack([SPD, 2 * SPD]), ulps=256)
    add(f"linalg.{name} of nothing", f, empty(0, 0), ulps=256)
    add(f"linalg.{name} of no matrices", f, empty(0, 2, 2), ulps=256)
    if "norm" in name:
        add(f"linalg.{name} of a vector", f, V)
        add(f"linalg.{name} of an empty vector", f, empty(0))
        add(f"linalg.{name} of edges", f, edges)
        add(f"linalg.{name} of wide", f, X, ulps=256)
add("linalg.solve(x, y)", lambda np, x, y: np.linalg.solve(x, y), SPD, Y[:, :1], ulps=256)
add("linalg.lstsq(x, y)", lambda np, x, y: np.linalg.lstsq(x, y)[0], SPD, Y[:, 0], ulps=256)
add(
    "linalg.pinv(rcond)",
    lambda np, x, r: np.linalg.pinv(x, r),
    SPD,
    0.01,
    kinds=(DTYPES, ("python float", *SCALARS)),
    ulps=256,
)
add(
    "linalg.matrix_rank(rtol)",
    lambda np, x, r: np.linalg.matrix_rank(x, rtol=r),
    SPD,
    0.01,
    kinds=(DTYPES, ("python float", *SCALARS)),
)
add("linalg.multi_dot(x, y)", lambda np, x, y: np.linalg.multi_dot([x, y, x]), SPD, SPD + 1)
add("linalg.tensorsolve(x, y)", lambda np, x, y: np.linalg.tensorsolve(x, y), SPD, Y[:, 0], ulps=256)
add("einsum(three)", lambda np, x, y, z: np.einsum("ij,jk,k->i", x, y, z), SPD, Y[:, :3], V[:3])
add(
    "einsum(optimize)",
    lambda np, x, y, z: np.einsum("ij,jk,k->i", x, y, z, optimize=True),
    SPD,
    Y[:, :3],
    V[:3],
)

TRANSFORMS = (
    "fft",
    "ifft",
    "rfft",
    "irfft",
    "hfft",
    "ihfft",
    "fft2",
    "ifft2",
    "rfft2",
    "irfft2",
    "fftn",
    "ifftn",
    "rfftn",
    "irfftn",
)
for name in TRANSFORMS:
    add(f"fft.{name}", lambda np, x, name=name: getattr(np.fft, name)(x), X)
    add(f"fft.{name}(ortho)", lambda np, x, name=name: getattr(np.fft, name)(x, norm="ortho"), X)
    add(f"fft.{name}(0-d)", lambda np, x, name=name: getattr(np.fft, name)(x), X, kinds=(ZERO_D,))
    add(f"fft.{name}(empty)", lambda np, x, name=name: getattr(np.fft, name)(x), empty(0))
    add(f"fft.{name}(empty axis)", lambda np, x, name=name: getattr(np.fft, name)(x), empty(0, 3))
for name in ("fftshift", "ifftshift"):
    add(f"fft.{name}", lambda np, x, name=name: getattr(np.fft, name)(x), X)
add("fft.fftfreq", lambda np, d: np.fft.fftfreq(4, d), 2.0, kinds=((*ZERO_D, *SCALARS),), modes=EAGER)
add("fft.rfftfreq", lambda np, d: np.fft.rfftfreq(4, d), 2.0, kinds=((*ZERO_D, *SCALARS),), modes=EAGER)
add("poly(roots)", lambda np, r: np.poly(r), V)
add("poly(edges)", lambda np, r: np.poly(r), edges, ulps=1000)
add("poly(conjugates)", lambda np, r: np.poly(r), lambda d: numpy.array([1 + 2j, 1 - 2j, 3]).astype(d))
add("poly(infinite)", lambda np, r: np.poly(r), lambda d: numpy.array([numpy.inf, 1, 2]).astype(d))
add(
    "poly(infinite complex)",
    lambda np, r: np.poly(r),
    lambda d: numpy.array([complex(numpy.inf, 1), complex(numpy.inf, -1), 2]).astype(d),
)
add("roots(edges)", lambda np, r: np.sort(np.roots(r)), V, ulps=1000)
add(
    "polyfit(w)",
    lambda np, x, y, w: np.polyfit(np.cumsum(abs(x) + 1), y, 1, w=abs(w) + 1),
    V,
    Y[0],
    Y[1],
    ulps=1000,
)
add("polyint(m)", lambda np, x, k: np.polyint(x, 2, k), V, 2.0, kinds=(DTYPES, NUMBERS))
add(
    "logspace(three)",
    lambda np, x, y, b: np.logspace(x, y, 3, base=b),
    0.5,
    1.0,
    2.0,
    kinds=((*PYTHON, *ZERO_D),) * 3,
)
add(
    "linspace(three)",
    lambda np, x, y: np.linspace(x, y, 3, axis=-1),
    V,
    Y[0],
    kinds=((*PYTHON, *DTYPES, *ZERO_D),) * 2,
)
add(
    "clip(x, y, z)",
    lambda np, x, y, z: np.clip(x, y, z),
    X,
    Y[0],
    Y[1] + 3,
    kinds=(DTYPES, (*DTYPES, *PYTHON), (*DTYPES, *PYTHON)),
)
add(
    "where(x, y, z)",
    lambda np, x, y, z: np.where(x, y, z),
    X,
    Y[0],
    Y[1],
    kinds=(DTYPES, (*DTYPES, *NUMBERS), (*DTYPES, *PYTHON)),
)
add(
    "select(x, y, z)",
    lambda np, x, y, z: np.select([x > 0, x < 1], [x, y], z),
    X,
    Y[0],
    Y,
    kinds=(DTYPES, DTYPES, (*DTYPES, *NUMBERS)),
)
add("interp(x, y, z)", lambda np, x, y, z: np.interp(x, np.sort(y), z), X, Y[0], Y[1])
add(
    "nan_to_num(three)",
    lambda np, x, y, z: np.nan_to_num(x, nan=y, posinf=z),
    edges,
    1.0,
    2.0,
    kinds=(DTYPES, (*PYTHON, *ZERO_D), PYTHON),
)
add(
    "isclose(tolerances)",
    lambda np, x, y, t: np.isclose(x, y, rtol=t),
    X,
    Y,
    0.5,
    kinds=(DTYPES, DTYPES, (*PYTHON, *ZERO_D)),
)
add(
    "piecewise(values)",
    lambda np, x, y: np.piecewise(x, [x > 0, x < 0], [y, 1]),
    X,
    2.0,
    kinds=(DTYPES, (*NUMBERS,)),
)
add("cross(2)", lambda np, x, y: np.cross(x, y), SPD, Y[:, :3])
add("apply_along_axis", lambda np, x: np.apply_along_axis(lambda v: v.sum(), 0, x), X)
add("r_", lambda np, x, y: np.r_[x, y, 1.5], V, 2.0, kinds=(DTYPES, NUMBERS), modes=EAGER)
add("c_", lambda np, x, y: np.c_[x, y], V, Y[0], modes=EAGER)
add(
    "r_[slice]",
    lambda np, x, y: np.r_[0:y, x],
    V,
    3.0,
    kinds=(DTYPES, ("python int", "python float")),
    modes=EAGER,
)
add("mgrid", lambda np, x: np.mgrid[0:x, 0:2], 3.0, kinds=(SCALARS[:12],), modes=EAGER)
for m in (
    "linear",
    "lower",
    "higher",
    "midpoint",
    "nearest",
    "hazen",
    "weibull",
    "median_unbiased",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
):
    add(f"quantile({m})", lambda np, x, m=m: np.quantile(x, [0.3, 0.5], axis=1, method=m), X)
    add(
        f"quantile(q, {m})",
        lambda np, x, q, m=m: np.quantile(x, q, method=m),
        X,
        0.5,
        kinds=(DTYPES, (*SCALARS, *PYTHON, *ZERO_D)),
    )
    add(
        f"percentile(q, {m})",
        lambda np, x, q, m=m: np.percentile(x, q, method=m),
        X,
        20.0,
        kinds=(DTYPES, (*SCALARS, *PYTHON)),
    )
add(
    "abs2",
    lambda np, x: np.abs2(x) if hasattr(np, "abs2") else np.real(x * np.conj(x)),
    X,
    kinds=(DTYPES[9:],),
)
for name in ("bartlett", "blackman", "hamming", "hanning"):
    add(name, lambda np, x, name=name: getattr(np, name)(4) * x, V)
add("kaiser", lambda np, x: np.kaiser(4, 3) * x, V)


TWO = "two faults, of which another is named"
DEVIATIONS = {  # what differs, as the command prints it, and why
    r"^power\(out\)|x ipow y.*ValueError\('Integers to neg.*not TypeError": TWO,
    r"(lstsq|tensorinv|put|putmask|cov|quantile).*raises \w+\(.*, not \w+Error": TWO,
    r"^(insert|x ipow|x \+=|ptp\(empty|interp|cross|linalg.cross).*raises \w+Error\(.*, not \w+Error": TWO,
    r"^take_along_axis with a number.*AttributeError": "NumPy's error is that a number has no dtype",
    r"^gradient of nothing.*IndexError": "NumPy's error is that there is no first difference",
    r"^(all|sum|mean)\(where\) with a number.*boolean mask": "a mask is of truth values, which NumPy counts",
    r"^(take|repeat) with a number.*(places are|Cannot cast)": "NumPy drops the digits of numbers as places",
    r"^quantile.*uint.*(must be integer|out of bounds for uint)": "NumPy computes with unsigned levels",
    r"^(quantile|percentile) of nothing": "NumPy raises unless the levels are floats",
    r"^(nan)?(quantile|percentile) with a number.*python (bool|complex)": "a level that is no real number",
    r"^einsum\(optimize\).*complex64\[3\], not complex128": "the dtype is that of all operands, in any order",
    r"^ldexp\.reduce|^ldexp\(number, x\)": "numbers beside exponents keep their dtype",
    r"^subtract\.at\(v\) \(bool": "truth values have no difference, which only NumPy's `at` forgets",
    r"^roots.*(values of|staged)|linalg.eig.*(complex128\[.*not float|staged)": "real if values are known",
    r"linalg.qr\(raw\).*no rule": "not for what is followed",
    r"^cov\(fweights\).*(staged|no TypeError)": "whether they are whole is not known without their values",
    r"^(nan)?(mean|var|std)\(.*values of uint|^arc\w+\.at.*values of uint": "what a machine makes of NaN",
    r"^getitem of nothing.*no IndexError": "an array of NumPy's, which reads an empty Tensor as a list",
    r"^array_str of 0-d": "text is of arrays",
    r"^(putmask|place) with a number.*(staged|array)[\s\S]*Cannot cast": "those of no axes count as scalars",
}


def main() -> int:
    """Run the table."""
    return command(CALLS, numpy, fnp, DEVIATIONS)


if __name__ == "__main__":
    sys.exit(main())
