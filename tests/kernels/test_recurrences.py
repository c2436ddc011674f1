"""Kernels that go along lines, in the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal
from tests.kernels.samples import values

from fgrad.errors import BrokenContractError
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


def test_exchanges_with_rows_that_there_are_not_stay_inside(place):
    """They are data, which a stored program may bring."""
    whole = place.empty((3, 4), np.int32)
    whole.buffer[...] = 7
    pivots = place.array(np.array([[-5, 1, 2**30]], np.int32))
    inner = type(whole)(whole.buffer[1:2], place)
    recurrences._launch(recurrences._ORDER, [pivots, inner], 1, 3, 4)
    assert sorted(recurrences.order_of(pivots, 4).download()[0]) == [0, 1, 2, 3]
    assert (whole.download()[[0, 2]] == 7).all()


@pytest.mark.parametrize(
    ("text", "shapes", "numbers"),
    [
        (recurrences._ORDER, [(2, 3), (2, 4)], (3, 3, 4)),
        (recurrences._ORDER, [(2, 3), (2, 2)], (2, 3, 2)),
        (recurrences._ADVANCE + recurrences._RECURSION, [(2,), (3, 5), (3, 4)], (3, 5, 2)),
        (recurrences._ADVANCE + recurrences._CHUNKS, [(2,), (3, 5), (3, 5), (3, 1)], (3, 5, 2, 1)),
    ],
)
def test_what_does_not_belong_together_is_not_launched(place, text, shapes, numbers):
    kinds = [np.int32 if "order" in text else np.float64] * len(shapes)
    arrays = [place.array(np.zeros(s, d)) for s, d in zip(shapes, kinds, strict=True)]
    with pytest.raises(BrokenContractError, match="would read or write outside of its arguments"):
        recurrences._launch(text, arrays, *numbers)


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
