"""Programs compute with numbers, indices and lengths as NumPy does, whatever their dtypes are.

Compilers do arithmetic with constants ahead. In the dtype of a constant that wraps around, overflows or is
rounded where the program would not.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.helpers import grouped

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.compiler.simplify import simplify
from fgrad.core.dispatch import bind


def f64(*v: Any) -> Any:
    return np.array(v, np.float64)


def f32(*v: Any) -> Any:
    return np.array(v, np.float32)


def f16(*v: Any) -> Any:
    return np.array(v, np.float16)


def i8(*v: Any) -> Any:
    return np.array(v, np.int8)


def u8(*v: Any) -> Any:
    return np.array(v, np.uint8)


def u64(*v: Any) -> Any:
    return np.array(v, np.uint64)


def long(*v: Any) -> Any:
    return np.array(v, np.longdouble)


THIRD = np.longdouble(1) / 3
NEAR_THIRD, NEAR_HALF = np.longdouble(float(THIRD)), np.longdouble(0.5) + np.longdouble(2) ** -60


CASES = {
    "minus an unsigned multiple": (lambda x: -(x * np.uint8(3)), f32(1, 2)),
    "minus a truth's multiple": (lambda x: -(x * np.True_), f32(1, 2)),
    "minus the least multiple": (lambda x: -(x * np.int8(-128)), f32(1, 2)),
    "over a power of two without reciprocal": (lambda x: x / 2**-16, f16(0, 1)),
    "joined factors overflow": (lambda x: x * 1e30 * 2.0**60, f32(1e-20, 1)),
    "joined factors vanish": (lambda x: x * 1e-30 * 2.0**-60, f32(1e30, 1)),
    "the mean of two large numbers": (lambda x, y: 0.5 * x + 0.5 * y, f64(1.7e308), f64(1.6e308)),
    "a small factor before a large one": (lambda x, y: (x * 2.0**-60) * y, f64(1e300), f64(1e20)),
    "a sum of small multiples": (lambda x: np.sum(x / 8), f16(60000, 60000)),
    "a mean of small multiples": (lambda x: np.mean(x * 0.25), f64(1.7e308, 1.7e308)),
    "a product with small numbers": (lambda x: x @ np.full(2, 0.25), f64(1.7e308, 1.7e308)),
    "a multiple that is infinite": (lambda x: np.sum(x * 1e300), f16(0, 1)),
    "a sum of many": (lambda x: np.sum(np.broadcast_to(x, (100_000,))), f16(0)[0]),
    "integers as floats and back": (lambda x: x.astype(float).astype(np.int64), np.array([2**53 + 1])),
    "integers rounded twice": (lambda x: x.astype(float).astype(np.float32), np.array([9007199791611905])),
    "integers as complex numbers": (lambda x: x.astype(complex).astype(np.int64), np.array([2**53 + 1])),
    "negative unsigned in a product": (lambda a, b: (-a) @ b, u8([1, 2]), f64(1, 2)),
    "wrapped multiples in a product": (lambda a, b: (a * np.uint8(200)) @ b, u8([1, 2]), f64(1, 2)),
    "a real zero beside an imaginary one": (
        lambda z: 1 / np.imag(z + -0.0),
        np.array([complex(1, -0.0)]),
    ),
    "a negative factor of equal numbers": (lambda x, y: 1 / (x * -2.0 + y * -2.0), f32(1), f32(-1)),
    "a choice of what does not fit": (lambda c: np.where(c, -1, np.uint8(3)), np.array([True, False])),
    "a choice of what wraps to equals": (lambda c: np.where(c, -1, np.uint8(255)), np.array([True, False])),
    "places that fall": (lambda x: x[u8(1, 0)], f64(1, 2, 3)),
    "places that fall, taken": (lambda x: np.take(x, u8(2, 1, 0)), f64(1, 2, 3)),
    "far places that fall": (lambda x: x[np.array([299, 0], np.uint16)], np.arange(300.0)),
    "far places of few bits": (lambda x: x[i8(-128, 127)], np.arange(300.0)),
    "signed beside unsigned": (lambda x, y: x < y, np.array([-1, 5, 2**62]), u64(1, 5, 2**63)),
    "unsigned equals signed": (lambda x, y: x == y, np.array([-1, 5, 2**62]), u64(2**64 - 1, 5, 2**63)),
    "unsigned beside a large constant": (lambda x: x < np.uint64(2**63 + 5), np.array([-1, 5])),
    "small beside Python's": (lambda x: (x < 300) & (x > -1), u8(1, 255)),
    "unsigned over a large number": (lambda x: x // (2**63 + 1) + x % (2**63 + 1), u64(2**64 - 1, 5)),
    "the largest of unsigned numbers": (lambda x: np.max(x, 0), u64([2**64 - 1] * 20, [2**63] * 20)),
    "limits beyond the dtype": (lambda x: np.clip(x, -5, 300), u8(1, 2, 200)),
    "long doubles that doubles do not tell apart": (
        lambda x: np.stack([x * THIRD, x * NEAR_THIRD, np.where(x > 1, THIRD, NEAR_THIRD)]),
        long(0.7, 1.3),
    ),
    "long doubles by what is nearly a power of two": (
        lambda x: np.stack([x * NEAR_HALF, x / NEAR_HALF, x * NEAR_HALF * 4.0, 0.5 * (x * NEAR_HALF)]),
        long(0.7, 1.3),
    ),
    "long doubles by numbers beyond doubles": (
        lambda x: x * np.longdouble("1e4000") / np.longdouble("1e3999"),
        long(0.7, 1.3),
    ),
    "a mean of long doubles": (lambda x: np.mean(x) + np.var(x) / 3, long(0.7, 1.3, 0.2)),
    "the imaginary part of long complex numbers": (np.imag, long(0.7, 1.3) + 1j * long(2, -3)),
    "parts of long complex numbers": (
        lambda x: np.stack([x.imag * 2, x.real * x.imag, np.abs(x)]),
        long(0.7, 1.3) + 1j * long(2, -3),
    ),
    "a variance of long complex numbers": (np.var, long(0.7, 1.3, -0.4) + 1j * long(2, -3, 1)),
    "cubes that wrap": (lambda x: x**3, u8(1, 2, 200)),
    "slices by small integers": (lambda x: x[np.uint8(250) :: np.uint8(10)][np.int8(-1)], np.arange(300.0)),
    "shapes by small integers": (lambda x: np.reshape(x, (np.uint8(3), np.uint8(100))), np.arange(300.0)),
    "rolled by small integers": (lambda x: np.roll(x, np.uint8(200)), np.arange(300.0)),
    "rounded by a small integer": (lambda x: np.round(x, np.int8(-1)), f32(14, 26)),
    "a variance by small integers": (lambda x: np.var(x, ddof=np.uint8(100)), np.arange(5.0)),
    "a matrix by a small integer": (lambda x: np.diag(x, np.uint8(1)), np.arange(3.0)),
    "a diagonal by a small integer": (lambda x: np.diag(x, np.uint8(1)), np.arange(9.0).reshape(3, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_numbers_are_those_of_numpy(name):
    f, *args = CASES[name]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.asarray(f(*args))
        value = np.asarray(fg.jit(f)(*args))
    assert (value.dtype, value.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(value, expected)


def added(x: Any, index: Any) -> Any:
    y = fnp.array(x) * 1.0
    y[index] += 1
    return y


def written(x: Any, index: Any) -> Any:
    y = fnp.array(x) * 1.0
    y[index] = 7.0
    return y


def chosen(x: Any, index: Any) -> Any:
    return x[index]


def gradient(x: Any, index: Any) -> Any:
    return fg.grad(lambda x: fnp.sum(x[index] ** 2))(x)


def by_numpy(f: Any, x: Any, index: Any) -> Any:
    """Return what NumPy says of an index, or the name of what it raises."""
    try:
        if f is chosen:
            return x[index]
        y = np.zeros_like(x) if f is gradient else x.copy()
        if f is gradient:
            np.add.at(y, index, 2 * x[index])
        elif f is written:
            y[index] = 7.0
        else:
            y[index] += 1
    except IndexError:
        return "IndexError"
    return y


def outcome(f: Any, *args: Any) -> Any:
    try:
        return np.asarray(f(*args))
    except IndexError:
        return "IndexError"


INTEGERS = "bBhHiIqQ"
INDICES: dict[str, Any] = {
    f"{np.dtype(c)} {values}": np.array(values, c)
    for c in INTEGERS
    for values in ([1, 0], [0, 1], [3, 1], [2, 2], [], [0, 2, 1], [3, 2, 1, 0], [4, 0], [np.iinfo(c).max, 0])
}
INDICES |= {
    f"{np.dtype(c)} {values}": np.array(values, c)
    for c in "bhiq"
    for values in ([-1, -2], [-4, -3], [-5, 0], [np.iinfo(c).min, 0], [-1, np.iinfo(c).max])
}
INDICES |= {
    "unsigned that wraps": u64(2**64 - 1, 0),
    "unsigned that wrap": u64(2**64 - 1, 2**64 - 2),
    "unsigned that wrap outside": u64(2**63),
    "empty list": [],
    "empty lists": [[]],
    "empty floats": f64(),
    "empty half floats": f16(),
    "floats": f64(1, 0),
    "truths": np.array([True, False, True, True]),
    "truths of both axes": np.array([[True, False, True]] * 4),
    "two dtypes": (u8(1, 0), np.array([2, 1])),
    "signed and unsigned": (u64(1, 0), i8(2, -1)),
    "two dtypes that broadcast": (u8([1, 0]), np.array([[2], [1]], np.uint16)),
    "second axis": (slice(None), u8(2, 1, 0)),
    "second axis of steps": (slice(None, None, -2), u8(2, 1)),
    "with a new axis": (u8(3, 0), None),
    "with an integer": (np.uint8(1), u8(1, 0)),
}


@pytest.mark.parametrize("f", [chosen, written, added, gradient])
@grouped("name", INDICES, lambda name: name.partition(" ")[0], quick=3)
def test_compiled_indices_are_those_of_numpy(name, f):
    """Constant indices; those that are arguments of the program; and programs that are not compiled."""
    index, x = INDICES[name], np.arange(12.0).reshape(4, 3)
    expected = by_numpy(f, x, index)
    found = [outcome(f, fg.tensor(x), index), outcome(fg.jit(lambda x: f(x, index)), x)]
    if isinstance(index, np.ndarray) and index.dtype.kind in "iu":
        found.append(outcome(fg.jit(f), x, index))
    for value in found:
        if isinstance(expected, str):
            assert isinstance(value, str), value
        else:
            np.testing.assert_array_equal(value, expected)


def test_constants_that_repeat_may_be_reshaped():
    """A constant too large to be copied is an operand like any other."""

    def f(x: Any) -> Any:
        rows = bind("broadcast_to", np.arange(2000.0).reshape(2000, 1), shape=(2000, 3))
        return bind("add", bind("reshape", rows, shape=(3, 2000)), x)

    program = fg.make_graph(f)(np.float64(1.0))
    np.testing.assert_array_equal(
        simplify(program).run([np.float64(1.0)])[0], program.run([np.float64(1.0)])[0]
    )


@pytest.mark.parametrize("f", [np.exp, np.sin, fg.nn.sigmoid, lambda x: np.maximum(np.tanh(x), 0.5 * x)])
def test_single_precision_is_rounded_before_it_is_widened(f):
    """Kernels of both precisions call functions of the wider one."""
    x, wide = np.linspace(0.1, 2.0, 37).astype(np.float32), np.linspace(1.0, 2.0, 37)
    y = np.asarray(fg.jit(lambda x, w: f(x).astype(np.float64) + 0.0 * np.exp(w))(x, wide))
    np.testing.assert_array_equal(y, y.astype(np.float32))
