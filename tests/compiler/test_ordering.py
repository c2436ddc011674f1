"""Searches and sorts of compiled programs are NumPy's: among NaN, infinities, signed zeros and ties."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.tensor import bind

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


def test_longer_lines_are_sorted_by_python():
    x = lines(100, "f8")
    made = fg.jit(functools.partial(bind, "argsort", axis=1))
    assert [why.partition(":")[0] for why in made.lower(x).cost().python] == ["argsort"]
    np.testing.assert_array_equal(made(x), np.argsort(x, 1, kind="stable"))
