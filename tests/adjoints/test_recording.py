"""Programs that lure the analysis into recording too little."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from tests.adjoints.interpreted import check, random_like, recorded, value_of, vjp_of
from tests.adjoints.kernels import horner, three_bodies

from fgrad.adjoints.lowering import lowered
from fgrad.adjoints.syntax import UnsupportedKernelError
from fgrad.adjoints.tangent import tangent

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


def read_behind_its_loop(x):
    a = 0.0
    total = 1.0
    for i in range(7):
        a = x[i] * x[i]
        total += a
    y = a * total
    for k in range(1, 7):
        b = x[k] * y
        x[k - 1] += b
        y = b
    return y * x[0] * x[3]


def neighbours(x):
    y = np.zeros(8)
    z = np.zeros(7)
    for i in range(7):
        y[i] = x[i] * x[i]
        y[i + 1] = x[i] * 0.5
    for i in range(7):
        z[i] = y[i] + y[i + 1] * x[i]
        z[0] = z[0] + 2.0 * z[i]
    return np.sum(z * z)


def twice_to_one_place(x, out):
    for i in range(7):
        for k in range(3):
            out[i + k] = x[i] * x[k]
    for i in range(7):
        out[i // 2] = x[i] ** 2


def rebound(x):
    y = x * 2.0
    for _ in range(3):
        y = y * x + np.sin(y)
    return np.sum(y**2)


def turns_with_arrays_of_their_own(x):
    total = 0.0
    for i in range(6, -1, -2):
        kept = np.zeros(3)
        part = kept[1:]
        for k in range(3):
            for n in range(2):
                kept[k] = kept[k] * x[i] + x[k + n]
        part[0] *= part[1]
        total += math.sin(part[0]) * kept[2]
    return total * x[0]


def turns_overwritten_behind(x):
    a = x[1]
    out = np.zeros(7)
    for i in range(7):
        p = a
        for k in range(3):
            p = p * x[i] + x[k]
        out[i] = p
    a = a * out[2] * a
    for i in range(7):
        x[i] = x[i] * out[i] + a
    x[2] = x[2] * a
    return x[2] * x[3] * a


def turns_inside_turns(x):
    total = 0.0
    for t in range(3):
        scale = x[t] * total + 1.0
        for i in range(1, 7):
            p = scale
            for k in range(i):
                p = p * x[i] * 0.3 + x[k]
                if p > 2.0:
                    p = p / 3.0
            total += 0.2 * p
        x[t + 1] = x[t] * total
    return total


def turns_that_share_a_buffer(x):
    kept = np.zeros(3)
    total = 0.0
    for i in range(7):
        for k in range(3):
            kept[k] = kept[k] * x[i] + x[k]
        total += kept[0] * kept[1] * kept[2]
    return total


def turns_that_share_a_scalar(x):
    p = 1.0
    total = 0.0
    for i in range(7):
        q = x[i]
        for _ in range(2):
            q = math.sin(q * q + p)
        if q > 0.5:
            p = q * x[0]
        total += p
    return total * p


def turns_read_after_each_other(x):
    y = np.zeros(7)
    z = np.zeros(7)
    for i in range(7):
        p = x[i]
        for _ in range(2):
            p = p * p - 0.5 * x[0]
        y[i] = p * p
    for i in range(7):
        q = y[i]
        for _ in range(2):
            q = q * y[6 - i] + x[i]
        z[i] = q
    for i in range(7):
        y[i] = z[i] * z[0]
    return np.sum(y * z)


def turns_in_place(x):
    for i in range(7):
        p = x[i]
        for _ in range(3):
            p = p * p - 0.7 * x[i]
        x[i] = p
    return np.sum(x * x)


def turns_with_early_ends(x):
    total = 0.0
    for i in range(7):
        p = x[i]
        n = 0
        while n < 4 and p < 3.0:
            p = p * p + x[n]
            n += 1
            if p < 0.1:
                break
        total += p * n
        if n == 2:
            continue
        total += p * p
    return total


FUNCTIONS = [
    turns_with_arrays_of_their_own,
    turns_overwritten_behind,
    turns_inside_turns,
    turns_that_share_a_buffer,
    turns_that_share_a_scalar,
    turns_read_after_each_other,
    turns_in_place,
    turns_with_early_ends,
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
    read_behind_its_loop,
    neighbours,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_enough_is_recorded(function):
    assert check(function, X, orders=2)


def test_elements_that_are_written_twice():
    assert check(twice_to_one_place, X, np.ones(9), orders=2)


def function_for(kernel, *args, snapshots=False):
    function, _ = lowered(getattr(kernel, "py_func", kernel), [numba.typeof(a) for a in args])
    function.snapshots = snapshots
    return function


def test_turns_that_take_nothing_from_others_are_recorded_one_at_a_time():
    c = X[:4]
    for n in (3, 30):
        floats, integers, _, _ = recorded(
            function_for(horner, c, np.ones(n), np.ones(n)), (c, np.ones(n), np.ones(n))
        )
        assert floats <= 5
        assert integers == 0


# ---- snapshots --------------------------------------------------------------------------------------------


def logistic(x, n):
    for _ in range(n):
        for i in range(len(x)):
            x[i] = 3.5 * x[i] * (1.0 - x[i])
    return x[0] * x[1]


def backwards(x, n):
    total = 0.0
    for t in range(n, 0, -3):
        for i in range(6, 0, -1):
            x[i] = math.sin(x[i] * x[i - 1]) + 0.1 * t
        total = total * 0.5 + x[3] * x[3]
    for _ in range(n):
        total = math.sin(total * total) + x[1]
    x[2] = total * x[2]
    return total + x[2]


def own_arrays(x, n):
    total = 0.0
    for t in range(n):
        kept = x * total
        for i in range(7):
            kept[i] = kept[i] * kept[i] + x[i]
        total += kept[t % 7] * 0.1
        if total > 1.0 and t % 2 == 0:
            x[t % 5] = x[t % 3] * 0.9
    return total


RNG = np.random.default_rng(3)
BODIES = RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2)), np.array([1.0, 2.0, 0.5]), 0.01
LOOPS = [
    (logistic, (RNG.uniform(size=3),)),
    (backwards, (X,)),
    (own_arrays, (X,)),
    (three_bodies, BODIES),
]


def compare_bits(plain, kept, args):
    rng = np.random.default_rng(0)
    cts = [random_like(rng, x) for x in value_of(plain, args)]
    for x, y in zip(vjp_of(plain, args, cts), vjp_of(kept, args, cts), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(("kernel", "args"), LOOPS, ids=[f.__name__ for f, _ in LOOPS])
@pytest.mark.parametrize("snapshots", [True, 1, 3, 50])
def test_snapshots_change_no_bit(kernel, args, snapshots):
    plain = function_for(kernel, *args, 1)
    kept = function_for(kernel, *args, 1, snapshots=snapshots)
    for n in (0, 1, 2, 17):
        compare_bits(plain, kept, (*args, n))
    moved = [random_like(np.random.default_rng(1), a) for a in args]
    compare_bits(tangent(plain), tangent(kept), (*args, 5, *moved))


def test_snapshots_take_memory_of_the_square_root():
    def held(n, snapshots):
        args = (np.full(3, 0.3), n)
        floats, integers, _, arrays = recorded(function_for(logistic, *args, snapshots=snapshots), args)
        return 8 * (floats + integers) + arrays

    assert held(400, False) > 400 * 24
    assert held(400, True) < 3000
    assert held(6400, True) < 4.2 * held(400, True)
    assert held(6400, 40) < 200 * 24 + held(400, True)


def test_loops_that_keep_no_snapshots_are_named():
    def until_small(x):
        while x > 0.1:
            x = x * x * 0.9
        return x

    with pytest.raises(UnsupportedKernelError, match="in until_small, checkpoint= meets a loop"):
        recorded(function_for(until_small, 0.9, snapshots=True), (0.9,))
