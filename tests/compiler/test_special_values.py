"""Compiled functions give what NumPy gives: NaN, infinities, signs of zeros, integers that wrap, errors."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp

FLOATS = [np.float32, np.float64]
INTEGERS = [np.int8, np.uint8, np.int32, np.uint64, np.int64]
EXACT = (  # rounded correctly, so equal to the bit
    *(np.negative, np.absolute, np.fabs, np.square, np.sqrt, np.reciprocal, np.sign, np.floor, np.ceil),
    *(
        np.trunc,
        np.rint,
        lambda x: np.modf(x)[0],
        np.isnan,
        np.isinf,
        np.isfinite,
        np.signbit,
        np.logical_not,
        np.positive,
    ),
)
CLOSE = (  # to a few units in the last place, and special values exactly
    *(np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sin, np.cos, np.tan, np.tanh),
    *(np.sinh, np.cosh, np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arccosh, np.arctanh, np.cbrt),
)
PAIRS = (
    *(np.add, np.subtract, np.multiply, np.divide, np.copysign),
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal),
    *(np.logical_and, np.logical_or, np.logical_xor, np.floor_divide, np.remainder, np.fmod),
)
EXTREMA = (np.maximum, np.minimum, np.fmax, np.fmin)
CLOSE_PAIRS = (np.arctan2, np.hypot, np.power, np.logaddexp)
WHOLE = (
    *(np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.floor_divide, np.remainder, np.divide),
    *(np.equal, np.less, np.greater_equal, np.bitwise_and, np.bitwise_or, np.bitwise_xor),
    *(np.logical_and, np.logical_or, np.logical_xor),
)
WHOLE_UNARY = (np.negative, np.absolute, np.square, np.invert, np.sign, np.logical_not, np.positive, np.floor)


def special(dtype: Any) -> np.ndarray:
    """Return numbers at which functions tend to be wrong."""
    f = np.finfo(dtype)
    values = [
        0.0,
        1.0,
        0.5,
        1.5,
        2.0,
        2.5,
        3.0,
        1e-3,
        100.0,
        np.inf,
        f.max,
        f.tiny,
        f.smallest_subnormal,
        f.eps,
    ]
    return np.array([np.nan, *values, *(-v for v in values)], dtype)


def integers(dtype: Any) -> np.ndarray:
    """Return numbers at which integers tend to be wrong."""
    i = np.iinfo(dtype)
    return np.array(
        [0, 1, 2, 3, 7, 100, i.max, i.max - 1, i.min, i.min + 1, *([-1, -2, -7] if i.min else [])], dtype
    )


def same(actual: Any, expected: Any, ulp: int = 0, what: str = "") -> None:
    """Assert equal values, dtypes and signs of zeros, or floats some units in the last place apart."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), what
    if expected.dtype.kind == "f" and ulp:
        tiny = np.finfo(expected.dtype).smallest_subnormal
        eps = np.finfo(expected.dtype).eps
        np.testing.assert_allclose(actual, expected, rtol=ulp * eps, atol=ulp * tiny, err_msg=what)
    else:
        np.testing.assert_array_equal(actual, expected, what)
    if expected.dtype.kind == "f":
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(actual)[number], np.signbit(expected)[number], what)


def check(functions: Any, *args: Any, ulp: int = 0) -> None:
    """Compare functions of the same arguments, compiled together, with NumPy's."""
    with np.errstate(all="ignore"):
        known = [f for f in functions if _knows(f, *args)]
        found = fg.jit(lambda *xs: [f(*xs) for f in known])(*args)
        for f, y in zip(known, found, strict=True):
            same(y, f(*args), ulp, str(f))


def _knows(f: Any, *args: Any) -> bool:
    try:
        f(*args)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_special_numbers(dtype):
    x = special(dtype)
    check(EXACT, x)
    check(CLOSE, x, ulp=4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_pairs_of_special_numbers(dtype):
    x = special(dtype)
    check(PAIRS, x[:, None], x)
    check(
        [lambda x, y, f=f: f(x, y) + 0.0 for f in EXTREMA], x[:, None], x
    )  # of two zeros NumPy gives either
    check(CLOSE_PAIRS, x[:, None], x, ulp=4)


def test_what_is_widened_in_the_kernel_that_computes_it_is_rounded_before():
    """Helper functions of a kernel are of one precision; a number of the other one must not escape in it."""
    x, zero = special(np.float32), np.zeros(len(special(np.float32)))
    check([lambda x, zero, f=f: (f(x) + zero).astype(np.float32) for f in CLOSE], x, zero, ulp=4)
    with np.errstate(all="ignore"):
        wide = fg.jit(lambda x, zero: [f(x) + zero for f in CLOSE])(x, zero)
        totals = fg.jit(lambda x: [np.sum(f(x), dtype=float) for f in CLOSE])(x[-4:])
        for f, y, total in zip(CLOSE, wide, totals, strict=True):
            assert y.dtype == np.float64
            same(np.float64(np.float32(y)), y, what=str(f))
            np.testing.assert_allclose(total, np.sum(f(x[-4:]), dtype=float), 1e-6, err_msg=str(f))
        y = fg.jit(lambda x, zero: (np.exp(x) + zero, np.power(x, np.float32(30)) + zero))(x, zero)
        np.testing.assert_array_equal(np.isinf(y[0]), np.isinf(np.exp(x)))
        np.testing.assert_array_equal(np.isinf(y[1]), np.isinf(x ** np.float32(30)))


def test_sums_of_one_precision_beside_numbers_of_another():
    x, y = np.linspace(-1, 2, 6, dtype=np.float32).reshape(2, 3), np.array([1.0, 2.0])
    for f in (fg.nn.logsumexp, np.sum, np.max, np.prod, lambda x, k: fg.nn.softmax(x, k)[:, 0]):
        with np.errstate(all="ignore"):
            found = fg.jit(lambda x, y, f=f: f(x, 1) + y)(x, y)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, f(x, 1) + y, 1e-6)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_and_divide_as_those_of_numpy(dtype):
    x = integers(dtype)
    check(WHOLE, x[:, None], x)
    check(WHOLE_UNARY, x)


def test_integers_of_several_widths_promote():
    for a, b in ((np.int8, np.uint8), (np.int32, np.int64), (np.uint64, np.int64), (np.int8, np.float32)):
        y = special(b)[~np.isnan(special(b))][:5] if b is np.float32 else integers(b)
        check((np.add, np.multiply, np.less, np.equal, np.maximum), integers(a)[:, None], y)


def test_integers_wrap_before_they_are_widened():
    x, wide = np.array([0, 1, 200], np.uint8), np.array([5, 6, 7])
    for y in (x, np.array([-128, 1, 2], np.int8)):
        check([np.add, np.subtract, np.multiply, np.divide], -y, wide)
        functions = [lambda x, f=f: f(wide, -x) for f in (np.add, np.subtract, np.multiply, np.divide)]
        functions += [
            lambda x: -x / -x[::-1],
            lambda x: np.mean(-x),
            lambda x: (-x) * 0.5,
            lambda x: 3.0 / -x,
        ]
        check([*functions, lambda x: np.sum(-x), lambda x: (x + x) + wide, lambda x: (x - x[::-1]) * 2.5], y)


def test_truths_are_numbers_and_numbers_truths():
    t = np.array([True, False])
    pairs = (np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or, np.logical_xor)
    check((*pairs, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.equal, np.less), t[:, None], t)
    check((np.invert, np.logical_not, np.sum, np.prod, np.max, np.min), t)
    check((np.add, np.multiply, np.divide, np.less), t, np.array([2.0, -0.0]))
    check((np.add, np.multiply), t, np.array([7, 8], np.int8))


@pytest.mark.parametrize("dtype", FLOATS)
def test_casts(dtype):
    x = np.array([0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 100.4, 127.0, 3e4], dtype)
    to = lambda kind: lambda x: x.astype(kind)
    check([to(k) for k in (np.int32, np.int64, np.bool_, np.float32, np.float64, np.int16)], x)
    check([to(k) for k in (np.uint8, np.int8)], np.abs(x[:-1]))
    check([to(k) for k in (np.bool_, np.float32, np.float64)], special(dtype))
    check([to(k) for k in (*INTEGERS, np.bool_, dtype)], integers(np.int64))


@pytest.mark.parametrize("dtype", [*FLOATS, np.complex64, np.complex128])
def test_negative_floats_as_unsigned_integers_count_from_the_largest(dtype):
    """C does not say what they become; NumPy's loops take the bits of a signed integer wide enough."""
    x = np.resize(np.array([-1, -2, -3.7, -300.5, -70000, -(2.0**30), 3e9, 2.5, 300, -0.5]), 37).astype(dtype)
    y = np.resize(np.array([-(2.0**62), 2.0**63, 1.5 * 2.0**63, -1, -(2.0**33)]), 37).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of imaginary parts that are dropped
        check([lambda x, k=k: x.astype(k) for k in (np.uint32, np.uint64)], x)
        check([lambda x, k=k: x.astype(k) for k in (np.uint8, np.uint16)], x[:6])
        check([lambda x: np.add.reduce(x, dtype=np.uint64), lambda x: x.astype(np.uint64)], y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_extrema_and_sums_of_nan_and_infinities(dtype):
    rows = np.array([[1, np.nan, 3], [np.inf, -np.inf, 0], [np.inf, np.inf, 1], [-np.inf, 2, 5]] * 6, dtype)
    for axis in (0, 1, (0, 1)):
        functions = [np.max, np.min, np.sum, np.prod, np.nanmax, np.nanmin, np.any, np.all, np.argmax]
        if axis == (0, 1):
            functions.remove(np.argmax)
        check([lambda x, f=f, axis=axis: f(x, axis=axis) for f in functions], rows)


def test_softmax_of_infinities():
    x = np.array([[0.0, -np.inf, 1.0], [-np.inf, 0.0, -np.inf], [np.nan, 0.0, 1.0]] * 7)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        fg.jit(lambda x: fg.nn.softmax(x, 1))(x), e / e.sum(axis=1, keepdims=True), rtol=1e-14
    )
    lse = fg.jit(lambda x: fg.nn.logsumexp(x, 1))
    below = np.full((20, 3), -np.inf)
    np.testing.assert_array_equal(lse(below), np.full(20, -np.inf))
    np.testing.assert_array_equal(lse(-below), np.full(20, np.inf))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_integers_are_compared_with_numbers_beyond_their_dtype(dtype):
    x = integers(dtype)
    numbers = (-1, 300, -(2**40), 2**63 - 1)
    check([lambda x, n=n, f=f: f(x, n) for n in numbers for f in (operator.lt, operator.eq, operator.ge)], x)


def test_numbers_of_python_take_the_dtype_of_arrays():
    for dtype in (np.float32, np.int8, np.int64, np.bool_):
        x = np.array([0, 1, 1], dtype)
        check([lambda x, f=f: f(x, 2) for f in (np.add, np.multiply, np.divide, np.maximum, np.less)], x)
        check([lambda x, f=f: f(x, 0.1) for f in (np.add, np.multiply, np.less)], x)
        check([lambda x: np.where(x > 0, x, 2), lambda x: np.where(x > 0, 1.5, x)], x)
    mixed = fg.jit(lambda x, n: (x + n, x * n))
    for x in (np.float32([1, 2]), np.array([1, 2], np.int8)):
        for n in (3, 0.5):
            for y, e in zip(mixed(x, n), (x + n, x * n), strict=True):
                same(y, e)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.bool_, np.uint64])
def test_products_of_integers_keep_their_dtype(dtype):
    x = (np.arange(12).reshape(3, 4) * 23 % 101).astype(dtype)
    check([np.dot, np.vdot], x[0], x[1])
    check(
        [lambda x: x @ x.T, lambda x: np.einsum("ij,ij->i", x, x), lambda x: np.einsum("ij,ij->ij", x, x)], x
    )
    check([lambda x: np.sum(x), lambda x: np.sum(x, axis=0), lambda x: np.prod(x, axis=1)], x)
    narrow = lambda x: (np.sum(x, axis=1, dtype=np.int8), np.sum(x, axis=1, dtype=np.int8) * 1.0)
    for y, e in zip(fg.jit(narrow)(x), narrow(x), strict=True):
        same(y, e)


def test_joined_arrays_of_several_dtypes():
    parts = [np.array([1, 11, 200], np.uint8), np.array([True, False, True]), np.array([-1, 0, 1], np.int8)]
    more = [np.array([2**40 + 1, 0, 1]), np.array([0.5, 1.5, np.nan], np.float32), np.array([0.1, 1.0, 2.0])]
    for some in (parts[:2], parts, [*parts, *more[:1]], more[:1] + parts, more, more[1:]):
        wide = [np.tile(a, (20, 1)) for a in some]
        for given in (some, wide):
            check(
                [lambda *xs: np.stack(xs), lambda *xs: np.stack(xs, -1), lambda *xs: np.concatenate(xs)],
                *given,
            )
            check([lambda *xs: np.concatenate(xs, -1)], *given)


# ---- errors --------------------------------------------------------------------------------------


def test_reductions_of_nothing():
    empty = np.ones((0, 3))
    check([lambda x: np.sum(x, axis=0), np.sum, np.prod, lambda x: np.max(x, axis=1)], empty)
    for f in (np.max, np.min, np.argmax):
        with pytest.raises(ValueError, match=r"zero-size|empty"):
            fg.jit(lambda x, f=f: f(x, axis=0))(empty)
        with pytest.raises(ValueError, match=r"zero-size|empty"):
            f(empty, axis=0)


TABLE = np.arange(200.0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64, np.uint64])
def test_indices_of_every_dtype(dtype):
    i = np.iinfo(dtype)
    j = np.array([0, 1, min(i.max, 199), max(i.min, -200)], dtype)
    f = fg.jit(lambda x, j: x[j] * 2)
    same(f(TABLE, j), TABLE[j] * 2)
    same(fg.jit(lambda x: x[j] * 2)(TABLE), TABLE[j] * 2)
    same(
        fg.jit(fg.grad(lambda x, j: (x[j] ** 2).sum()))(TABLE, j), fg.grad(lambda x: (x[j] ** 2).sum())(TABLE)
    )
    for wrong in (200, -201, i.max, i.min):
        signed = wrong - 2**64 if wrong >= 2**63 else wrong  # so NumPy takes it
        if i.min <= wrong <= i.max and not -200 <= signed < 200:
            k = np.array([0, wrong, 1], dtype)
            for g, args in ((f, (TABLE, k)), (fg.jit(lambda x, k=k: x[k] * 2), (TABLE,))):
                with pytest.raises(IndexError, match="out of bounds"):
                    g(*args)


def test_an_index_is_checked_at_every_call():
    f = fg.jit(lambda x, i, j: x[i, j] + x[:, j].sum())
    x = np.arange(12.0).reshape(3, 4)
    i, j = np.array([0, 2]), np.array([-4, 3])
    for _ in range(3):
        same(f(x, i, j), x[i, j] + x[:, j].sum())
        for wrong in ((i + 1, j), (i, j + 1), (i - 4, j), (i, j - 1)):
            with pytest.raises(IndexError, match="out of bounds"):
                f(x, *wrong)
    with pytest.raises(IndexError, match="out of bounds"):
        fg.jit(lambda x: x[:, np.array([0, 4])])(x)
    with pytest.raises(IndexError, match="out of bounds"):
        fg.jit(lambda x: x[:, :0][:, np.array([0])])(x)


def test_what_is_assigned_has_to_fit():
    def f(x, v):
        y = fnp.array(x) * 1
        y[1:3] = v
        return y

    for v in (np.ones(2), np.ones(1), np.ones((1, 1, 2)), np.float64(3.0)):
        expected = TABLE[:5].copy()
        expected[1:3] = v
        same(fg.jit(f)(TABLE[:5], v), expected)
    for v in (np.ones(3), np.ones((2, 1)), np.ones((2, 2)), np.ones(0)):
        for g in (f, fg.jit(f)):
            with pytest.raises(ValueError, match="could not broadcast input array from shape"):
                g(fg.tensor(TABLE[:5]), v)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.float32, np.complex64])
def test_elements_at_known_places_keep_their_dtype(dtype):
    x = np.array([1, 0, 3]).astype(dtype)
    for f in (np.diag, lambda x: np.diagflat(x, 1), lambda x: np.diag(x, -1)):
        found = fg.jit(f)(x)
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, f(x))


@pytest.mark.parametrize("shape", [(), (5,), (3000,)])
def test_differences_of_products_round_both_sides_alike(shape):
    x = np.random.default_rng(4).uniform(0.1, 5.0, shape)
    y = np.array(x)
    zero = fg.jit(lambda x, y: x * x - y * y)(x, y)
    np.testing.assert_array_equal(zero, 0.0)  # not negative by a rounding, of which there is no root
    rest = fg.jit(lambda x, y: x * y - 1)(x, 1 / y)
    np.testing.assert_array_equal(rest, x * (1 / y) - 1)


def test_edges_at_whole_numbers_are_whole():
    a = np.array([-4, 4, 0, 0, 1, -1, -3, 3])
    found, expected = fg.jit(lambda a: np.histogram(a, 10))(a), np.histogram(a, 10)
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(f, e)
    edges = fg.jit(lambda a, b: np.linspace(a, b, 11))(-4.0, 4.0)
    np.testing.assert_array_equal(edges, np.linspace(-4.0, 4.0, 11))
