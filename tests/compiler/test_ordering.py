"""Searches and sorts of compiled programs are NumPy's: among NaN, infinities, signed zeros and ties."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.dispatch import bind

ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1.0, 2.0, np.nan, -3.0])


def lines(n: int, dtype: str) -> Any:
    rng = np.random.default_rng(n)
    x = np.round(rng.normal(size=(5, n)) * 3)
    return (x if dtype == "i8" else np.where(rng.random(x.shape) < 0.2, rng.choice(ODD, x.shape), x)).astype(
        dtype
    )


def compiled(f: Any, *args: Any) -> Any:
    """Return what a program computes, of which Python computes nothing."""
    made = fg.jit(f)
    assert not made.lower(*args).cost().python
    return made(*args)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 33, 64])
def test_short_lines_are_sorted_as_numpy_does(n, dtype):
    x = lines(n, dtype)
    for axis in (0, 1):
        found = compiled(functools.partial(bind, "argsort", axis=axis), x)
        np.testing.assert_array_equal(found, np.argsort(x, axis, kind="stable"))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 33, 200])
def test_searches_find_what_numpy_finds(n, dtype, side):
    x = lines(n, dtype)
    a, v = np.sort(x, 1), np.concatenate([x, x + 1], 1)
    search = functools.partial(bind, "search", side=side)
    np.testing.assert_array_equal(compiled(search, a[0], v), np.searchsorted(a[0], v, side))
    each = np.stack([np.searchsorted(*av, side) for av in zip(a, v, strict=True)])
    np.testing.assert_array_equal(compiled(search, a, v), each)


@pytest.mark.parametrize(("a", "v"), [("f8", "f4"), ("f4", "i8"), ("i4", "i8"), ("i8", "f8"), ("u1", "i2")])
def test_searches_among_several_dtypes_are_numpys(a, v):
    a, v = np.array([0, 1, 3, 3, 7], a), np.array([[0, 3, 9], [7, 1, 2]], v)
    np.testing.assert_array_equal(compiled(np.searchsorted, a, v), np.searchsorted(a, v))
    np.testing.assert_array_equal(compiled(lambda a: np.searchsorted(a, 2.5), a), np.searchsorted(a, 2.5))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u1", "u8", "?"])
def test_lines_of_any_length_are_sorted_and_searched_as_numpy_does(dtype):
    rng = np.random.default_rng(5)
    for shape, axis in (((1000,), 0), ((3, 500), 1), ((500, 3), 0), ((2, 300, 4), 1)):
        x = rng.standard_normal(shape) * 3 if dtype[0] == "f" else rng.integers(0, 200, shape)
        x = x.astype(dtype)
        if dtype == "u8":
            x += np.uint64(2**63 - 100)
        if dtype[0] == "f":
            x.flat[::17], x.flat[::13], x.flat[1::13], x.flat[5] = np.nan, 0.0, -0.0, np.inf
        order = functools.partial(bind, "argsort", axis=axis)
        np.testing.assert_array_equal(compiled(order, x), np.argsort(x, axis, kind="stable"))
        np.testing.assert_array_equal(compiled(lambda x, axis=axis: np.sort(x, axis), x), np.sort(x, axis))
        for f in (np.argmax, np.argmin):
            found = compiled(lambda x, f=f, axis=axis: f(x, axis), x)
            np.testing.assert_array_equal(found, f(x, axis))
        part = compiled(functools.partial(bind, "argpartition", axis=axis, kth=7), x)
        np.testing.assert_array_equal(
            np.take(np.take_along_axis(x, part, axis), 7, axis), np.take(np.sort(x, axis), 7, axis)
        )
        if dtype != "?":
            with np.errstate(invalid="ignore"):
                expected = np.median(x, axis)
            np.testing.assert_array_equal(compiled(lambda x, axis=axis: np.median(x, axis), x), expected)


@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "multiply", "logical_or", "logaddexp", "fmax"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1", "c16"])
def test_ufuncs_run_along_axes_as_numpys_do(name, dtype):
    rng, ufunc = np.random.default_rng(6), getattr(np, name)
    if dtype[0] != "f" and name == "logaddexp":
        return
    for shape, axis in (((700,), 0), ((20, 31), 1), ((31, 20), 0), ((1,), 0), ((2, 9, 3), 1)):
        x = rng.integers(0, 9, shape) if dtype == "u1" else rng.standard_normal(shape) * 3
        x = x.astype(dtype)
        if dtype[0] == "f" and name != "logaddexp":
            x.flat[len(x) // 2] = np.nan
        found = compiled(lambda x, axis=axis: ufunc.accumulate(x, axis), x)
        with np.errstate(over="ignore"):
            expected = ufunc.accumulate(x, axis)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5 if found.dtype.char in "ef" else 1e-11)
