"""Programs that lure the analysis into recording too little."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.adjoints.interpreted import check

X = np.random.default_rng(5).normal(size=7)


def moving_index(x):
    j = 0
    total = 0.0
    for _ in range(3):
        a = x[j] * x[j + 1]
        j += 2
        x[j] = a * x[j]
        total += a * a * x[j]
    return total


def changing_bound(x):
    n = 3
    for _ in range(2):
        for i in range(n):
            n = n + 1
            x[i] = x[i] * x[i + 1]
    return x[0] * n


def places_that_change(x):
    at = np.arange(7)
    total = 0.0
    for i in range(6):
        total += x[at[i]] ** 2 * total + x[i]
        at[i + 1] = at[i]
    return total


def arrays_inside_loops(x):
    total = 0.0
    for i in range(5):
        kept = np.zeros(3)
        for k in range(3):
            kept[k] = x[i] * x[k] + total
        kept[1] *= kept[0]
        part = kept[1:]
        part[0] = part[0] * part[1]
        total += math.sin(part[0]) * kept[2]
    return total


def swapped(x):
    u = x.copy()
    v = np.zeros_like(x)
    for _ in range(3):
        for i in range(1, 6):
            v[i] = u[i - 1] * u[i + 1] + u[i]
        u, v = v, u
    return np.sum(u * v), u


def two_names(x):
    y = x
    z = y[1:]
    a = x[1] * x[2]
    z[0] = a * a
    return x[1] * y[2] + z[0] ** 2 * a


def empty_loops(x):
    total = x[0]
    for i in range(5, 5):
        total *= x[i + 3]
    for i in range(3, 0):
        x[i] = total * x[i]
    for i in range(0, -3, -1):
        total *= x[-i]
    for i in range(6, -1, -2):
        x[i] *= total
    return total * x[0]


def guarded(x):
    total = 0.0
    for i in range(7):
        total += x[i] * x[i + 1] if i < 6 else x[i] ** 2
        if i < 5 and x[i + 2] > 0:
            total *= x[i + 2]
    return total


def written_before_and_behind(x):
    a = x[0] * x[1]
    x[0] = a * a
    b = x[0] * x[2]
    x[0] = b * b
    x[1] = x[0] * a
    return x[0] * x[1] + b


def elements_from_the_end(x):
    for i in range(1, 4):
        a = x[i - 2] * x[i]
        x[-i] = a * a
    return x[6] * x[5] * x[4]


def in_place_growing(x):
    for k in range(6):
        for i in range(k + 1, 7):
            x[i] = x[i] - 0.3 * x[k] * x[i] + x[k] ** 2
    return x[6]


def in_place_shrinking(x):
    for k in range(6, 0, -1):
        for i in range(k):
            x[i] = x[i] * x[k] * 0.5 + x[k]
    return x[0]


def in_place_crossing(x):
    for k in range(6):
        for i in range(k, 7):
            x[i] = x[i] * x[k] + 0.1 * x[6 - k]
    return x[6]


def twice_around(x):
    for _ in range(2):
        for k in range(1, 7):
            x[k] = x[k] * x[k - 1] + 1.0
    return x[6]


def rebound(x):
    y = x * 2.0
    for _ in range(3):
        y = y * x + np.sin(y)
    return np.sum(y**2)


FUNCTIONS = [
    moving_index,
    changing_bound,
    places_that_change,
    arrays_inside_loops,
    swapped,
    two_names,
    empty_loops,
    guarded,
    written_before_and_behind,
    elements_from_the_end,
    in_place_growing,
    in_place_shrinking,
    in_place_crossing,
    twice_around,
    rebound,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_enough_is_recorded(function):
    assert check(function, X, orders=2)
