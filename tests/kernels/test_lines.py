"""Kernels that go along lines, in the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal
from tests.backend.checks import DEVICE

from fgrad.backend.devices import find
from fgrad.kernels import lines

RNG = np.random.default_rng(0)


@pytest.fixture
def place():
    return find(DEVICE)


def values(*shape, dtype="d"):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("lead", [(), (3,), (2, 9), (0,)])
def test_orders(place, lead):
    pivots = np.stack([RNG.integers(k, 7, lead) for k in range(5)], axis=-1).astype(np.int32)
    found = lines.order_of(place.array(pivots), 7).download()
    assert found.dtype == np.int32
    for i in np.ndindex(*lead):
        rows = np.arange(7)
        for k, other in enumerate(pivots[i]):
            rows[[k, other]] = rows[[other, k]]
        np.testing.assert_array_equal(found[i], rows)


@pytest.mark.parametrize("dtype", "fdFD")
def test_recursions(place, dtype):
    for k, shape in ((1, (9,)), (3, (2, 11, 8)), (5, (3, 2))):
        a, u = values(k, dtype=dtype) / 4, values(*shape, dtype=dtype)
        found = lines.recursion(place.array(a), place.array(u)).download()
        expected = signal.lfilter([1.0], [1.0, *a], u)
        np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype in "fF" else 1e-12, atol=1e-5)
        assert found.dtype == u.dtype
