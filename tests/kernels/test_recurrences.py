"""Kernels that go along lines, in the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal
from tests.kernels.samples import values

from fgrad.kernels import recurrences

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("lead", [(), (3,), (2, 9), (0,)])
def test_orders(place, lead):
    pivots = np.stack([RNG.integers(k, 7, lead) for k in range(5)], axis=-1).astype(np.int32)
    found = recurrences.order_of(place.array(pivots), 7).download()
    assert found.dtype == np.int32
    for i in np.ndindex(*lead):
        rows = np.arange(7)
        for k, other in enumerate(pivots[i]):
            rows[[k, other]] = rows[[other, k]]
        np.testing.assert_array_equal(found[i], rows)


@pytest.mark.parametrize("dtype", "fdFD")
def test_recursions(place, dtype):
    for k, shape in (
        (1, (9,)),
        (3, (2, 11, 8)),
        (5, (3, 2)),
        (1, (24,)),
        (2, (2, 25)),
        (4, (26,)),
        (5, (31,)),
    ):
        a, u = values(k, dtype=dtype) / 4, values(*shape, dtype=dtype)
        found = recurrences.recursion(place.array(a), place.array(u)).download()
        expected = signal.lfilter([1.0], [1.0, *a], u)
        np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype in "fF" else 1e-12, atol=1e-5)
        assert found.dtype == u.dtype


@pytest.mark.parametrize("a", [[-1.0], [-2.0, 1.0], [0.5, 0.0, 0.25], [1.6, 0.8, 0.0, 0.0]])
def test_chunks_of_a_long_line_follow_one_another(place, a):
    """Also where what is before a chunk does not fade: running sums, once and twice."""
    for u in (np.ones(50), np.eye(1, 300)[0], RNG.integers(-3, 4, (2, 77)).astype(float)):
        found = recurrences.recursion(place.array(np.array(a)), place.array(u)).download()
        np.testing.assert_allclose(found, signal.lfilter([1.0], [1.0, *a], u), rtol=1e-12, atol=1e-13)


def test_what_is_zero_stays_zero_where_responses_overflow(place):
    found = recurrences.recursion(place.array(np.array([-1e30])), place.array(np.zeros(100))).download()
    np.testing.assert_array_equal(found, 0.0)
