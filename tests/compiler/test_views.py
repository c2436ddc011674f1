"""Views with steps in compiled programs: written to, and the reverse of reading, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.compiler.interpreting import kernels_in_python

import fgrad as fg
import fgrad.numpy as fnp

X = np.random.default_rng(2).standard_normal((20, 31))
INDICES = [
    np.s_[::2], np.s_[:, 1::3], np.s_[::-2], np.s_[1:-1:3, ::-4], np.s_[3, ::5], np.s_[::17],
    np.s_[..., -2:2:-3], np.s_[::2, ::2], np.s_[5:5:3], np.s_[19:2:-16, 30],
    np.s_[::40], np.s_[2::7, None, ::2],
]  # fmt: skip


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Let Python run the kernels."""
    with kernels_in_python():
        yield


def reverse(index: Any) -> Any:
    return fg.grad(lambda x: (x[index] ** 2).sum() + (x**3).sum())


def written(x: Any, index: Any, value: Any) -> Any:
    y = fnp.array(x) * 1.0
    y[index] = value
    return y * x


def check(index: Any) -> None:
    """Compare with what NumPy writes."""
    slope = 3 * X**2
    slope[index] += 2 * X[index]
    step = fg.jit(reverse(index))
    np.testing.assert_allclose(step(X), slope, rtol=1e-14)
    assert not X[index].size or "# Python" not in step.lower(X).source
    plain = X.copy()
    plain[index] = X[index] * 3
    write = fg.jit(lambda x: written(x, index, x[index] * 3))
    np.testing.assert_allclose(write(X), plain * X, rtol=1e-14)
    assert not X[index].size or "# Python" not in write.lower(X).source
    plain[index] = 2.0
    np.testing.assert_allclose(fg.jit(lambda x: written(x, index, 2.0))(X), np.where(plain == 2, 2, X) * X)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_places_between_steps_are_left(index):
    check(index)


def test_the_same_compiled():
    check(INDICES[3])


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("axis", [0, 1])
def test_few_and_many_are_stepped_over(axis):
    for n, step in [(3, 2), (5, -2), (16, 3), (33, 16), (40, 17)]:
        x = np.random.default_rng(n).standard_normal((n, n))
        index = (slice(None),) * axis + (slice(None, None, step),)
        expected = np.zeros_like(x)
        expected[index] = 2 * x[index]
        np.testing.assert_array_equal(fg.jit(fg.grad(lambda x, i=index: (x[i] ** 2).sum()))(x), expected)
