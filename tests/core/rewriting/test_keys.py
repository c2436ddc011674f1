"""Keys are equal for equal constants and parameters, and for no others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fgrad.core.rewriting.keys import LARGE, Keys
from fgrad.core.tensor import wrap

LONG = np.arange(LARGE, dtype=float)
OTHER = LONG.copy()
OTHER[-1] = np.nextafter(OTHER[-1], 0)
NEGATIVE = LONG.copy()
NEGATIVE[0] = -0.0
DIFFERENT = [
    0,
    0.0,
    -0.0,
    False,
    0j,
    "0",
    None,
    Ellipsis,
    np.float64(0),
    np.float32(0),
    np.float64(-0.0),
    np.zeros(1),
    np.zeros((1, 1)),
    np.zeros(2),
    np.zeros(2, ">f8"),
    np.broadcast_to(0.0, 3),
    LONG,
    LONG[::-1],
    LONG.reshape(2, -1),
    OTHER,
    NEGATIVE,
    np.float64,
    np.dtype("f8"),
    (0,),
    [0],
    (0, 0),
    ((0,),),
    {"a": 0},
    {"a": 0.0},
    slice(0),
    slice(0, None, 1),
    (None, 0, None),
    object(),
    wrap(np.zeros(2)),
    np.array([None]),
]


@pytest.mark.parametrize("limit", [None, 2 * LONG.nbytes])
def test_what_differs_has_other_keys(limit):
    key = Keys(limit).of
    for a, b in itertools.combinations(DIFFERENT, 2):
        assert key(a) != key(b), (a, b)


@pytest.mark.parametrize(
    "a, b",
    [
        (float("nan"), float("nan")),
        (LONG, LONG.copy()),
        (np.asfortranarray(LONG.reshape(2, -1)), LONG.reshape(2, -1)),
        (np.float32(1), np.float32(1)),
        (slice(None, 2), slice(None, 2)),
        ({"index": (slice(0, 1), LONG)}, {"index": (slice(0, 1), LONG.copy())}),
    ],
)
def test_what_is_equal_has_one_key(a, b):
    key = Keys().of
    assert key(a) == key(b)
    assert hash(key(a)) == hash(key(b))


def test_arrays_beyond_the_limit_are_equal_to_themselves_only():
    key = Keys(LARGE).of
    assert key(LONG) == key(LONG)
    assert key(LONG) != key(LONG.copy())
    assert key(np.broadcast_to(1.0, 10**9)) == key(np.broadcast_to(1.0, 10**9))  # one number, repeated
