"""The atoms grouped into few kernels, the numbers they are tried on, and how close results must be."""

import numpy as np
from tests.kernels import reference

from fgrad.expr.atoms import ATOMS
from fgrad.expr.derive import gradient
from fgrad.expr.node import apply, var

X, Y, Z = map(var, "xyz")
# atoms of correctly rounded operations give NumPy's very bits; the others, some units in the last place
# fmt: off
EXACT = {
    "positive", "negative", "add", "subtract", "multiply", "divide", "scale", "multiply_no_nan", "square",
    "reciprocal", "sqrt", "root", "fabs", "copysign", "maximum", "minimum", "fmax", "fmin", "remainder",
    "fmod", "nextafter", "where", "sign", "floor", "ceil", "trunc", "rint", "floor_divide", "heaviside",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf", "isfinite",
    "signbit", "logical_not", "logical_and", "logical_or", "logical_xor",
}
# fmt: on
EITHER_ZERO = {"maximum", "minimum", "fmax", "fmin"}  # NumPy leaves the sign of max(-0.0, 0.0) open


def params(name):
    return (X, Y, Z)[: ATOMS[name].arity]


def names_by_arity(arity):
    return [name for name in ATOMS if ATOMS[name].arity == arity]


def with_slopes(names):
    """Return the atoms called `names` and their slopes: [(name, expression), ...]."""
    pairs = []
    for name in names:
        f = apply(name, *params(name))
        pairs += [(name, f), *((f"slope of {name}", s) for s in gradient(f, params(name)))]
    return pairs


def special(dtype):
    """Return zeros, ties, huge, tiny, subnormal and infinite numbers, and NaN."""
    info = np.finfo(dtype)
    whole = 1 / float(info.eps)  # the first number without a fraction
    numbers = [0.0, 0.1, 0.3, 0.5, 0.75, 0.999, 1, 1.5, 2, 2.5, 3, 3.5, 7.25, 27, 60, 100]
    numbers += [1e-3, 1e-20, whole - 0.5, whole / 2 + 0.5, whole / 2 - 0.5, whole + 2, 3 * whole]
    numbers += [float(info.max), float(info.tiny), float(info.smallest_subnormal), float(info.eps), np.inf]
    return np.array([*numbers, *(-v for v in numbers), np.nan], dtype)


def pairs(dtype):
    """Return every pair of special numbers, as two arrays."""
    x, y = np.meshgrid(special(dtype), special(dtype))
    return x.ravel(), y.ravel()


def operands(arity, dtype):
    if arity == 1:
        return (special(dtype),)
    x, y = pairs(dtype)
    return (x, y) if arity == 2 else (x, y, y[::-1].copy())


def differences(name, actual, expected, arrays):
    """Return where `actual` is not `expected`, as exactly as `name` can be expected to be."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), name
    if actual.dtype == bool:
        return _rows(actual == expected, name, actual, expected, arrays)
    info = np.finfo(actual.dtype)
    ulps = 0 if name in EXACT else 200 if name.startswith("slope") else 6
    cancels = name.startswith(("slope", "logaddexp"))  # so that an error of one part may show in the whole
    with np.errstate(all="ignore"):
        room = ulps * (info.eps * np.abs(expected) + info.smallest_subnormal) + cancels * 8 * info.eps
        good = (actual == expected) | (np.abs(actual - expected) <= room)
        good |= np.isnan(actual) & np.isnan(expected)
    if name in EXACT - EITHER_ZERO:
        good &= np.isnan(actual) | (np.signbit(actual) == np.signbit(expected))
    return _rows(good, name, actual, expected, arrays)


def _rows(good, name, actual, expected, arrays):
    at = np.flatnonzero(~good)
    return [f"{name}{tuple(a[i] for a in arrays)} is {actual[i]}, not {expected[i]}" for i in at[:3]]


def check_atoms(backend, arity, dtype):
    """Compute the atoms of `arity` and their slopes with the kernels of `backend`, and compare."""
    table = with_slopes(names_by_arity(arity))
    table = [(n, e) for n, e in table if "float_power" not in n or dtype == np.float64]
    xs, arrays = (X, Y, Z)[:arity], operands(arity, dtype)
    actual = backend.elementwise(xs, tuple(e for _, e in table))(*arrays)
    expected = reference.elementwise(xs, tuple(e for _, e in table))(*arrays)
    wrong = []
    for (name, _), a, e in zip(table, actual, expected, strict=True):
        if name in ATOMS:
            with np.errstate(all="ignore"):
                e = np.asarray(ATOMS[name].reference(*arrays))  # NumPy itself, without fgrad
        wrong += differences(name, a, e, arrays)
    assert not wrong, "\n".join(wrong)


def values(*shape, dtype="d"):
    """Return normal numbers, also imaginary parts of complex dtypes."""
    x = _NORMAL.normal(size=shape)
    return (x + 1j * _NORMAL.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


_NORMAL = np.random.default_rng(0)
