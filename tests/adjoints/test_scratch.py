"""Arrays in which a loop keeps nothing: snapshots leave them out, and no bit changes."""

import math

import numba
import numpy as np
import pytest
from tests.adjoints.interpreted import random_like, recorded, value_of, vjp_of

from fgrad.adjoints.adjoint import Adjoint
from fgrad.adjoints.lowering import lowered

X = np.array([0.3, 0.8, -0.4])


def whole(x, n):
    work = np.empty(len(x))
    for _ in range(n):
        for i in range(len(x)):
            work[i] = math.sin(x[i])
        for i in range(len(x)):
            x[i] = work[i] * work[i - 1] + 0.1


def by_columns(x, n):
    work = np.empty((3, 2))
    for _ in range(n):
        for i in range(3):
            s = math.sin(x[i])
            work[i, 1] = s
            work[i, 0] = s * s
        for i in range(3):
            x[i] = work[i, 0] * work[2 - i, 1]


def by_elements(x, n):
    work = np.zeros(2)
    for _ in range(n):
        work[0] = x[0] * x[1]
        work[1] = math.cos(x[2])
        x[0] = work[0] + work[1]
        x[2] = work[0] * work[1]


def more_than_once(x, n):
    work = np.empty(2)
    for _ in range(n):
        for k in range(2):
            for i in range(2):
                work[i] = x[i] * x[i + k]
        x[0] = work[0] * work[1]


def borders(x, n):
    work = np.zeros(len(x))
    for _ in range(n):
        for i in range(1, len(x)):
            work[i] = x[i] * x[i - 1]
        for i in range(len(x)):
            x[i] = math.sin(work[i] + x[i])
        work[0] = x[1]


def diagonal(x, n):
    work = np.ones((3, 3))
    for _ in range(n):
        for i in range(3):
            work[i, i] = x[i] * x[i]
        x[0] = work[0, 1] * x[1] + work[1, 1]
        work[0, 1] = x[0]


def where_it_holds(x, n):
    work = np.ones(3)
    for _ in range(n):
        for i in range(3):
            if x[i] > 0:
                work[i] = x[i] * x[i]
        for i in range(3):
            x[i] = math.sin(work[i]) - 0.5


def read_before(x, n):
    work = np.ones(3)
    for _ in range(n):
        x[0] = work[1] * x[1]
        for i in range(3):
            work[i] = x[i] * x[i]
        x[1] = math.sin(work[0])


def read_behind(x, n):
    work = np.ones(3)
    for _ in range(n):
        for i in range(3):
            work[i] = x[i] * x[i]
        x[0] = math.sin(work[0] * work[1])
    x[2] = work[0] * work[2]


def read_in_front(x, n):
    work = np.ones(3)
    work[1] = x[0] * x[1]
    x[0] = work[1] * work[1]
    for _ in range(n):
        for i in range(3):
            work[i] = x[i] * x[i]
        x[1] = math.sin(work[0] * work[1])


def seen_by_a_view(x, n):
    work = np.ones(4)
    front = work[:2]
    for _ in range(n):
        x[0] = front[1] * x[1]
        for i in range(4):
            work[i] = x[i % 3] * x[0]
        x[1] = math.sin(work[3])


def maybe_never(x, n):
    work = np.ones(2)
    for t in range(n):
        for _ in range(t):
            for i in range(2):
                work[i] = x[i] * x[i]
        x[0] = math.sin(work[0] * work[1])


SCRATCH = [whole, by_columns, by_elements, more_than_once]
KEPT = [
    borders,
    diagonal,
    where_it_holds,
    read_before,
    read_behind,
    read_in_front,
    seen_by_a_view,
    maybe_never,
]


def function_for(kernel, snapshots):
    function, _ = lowered(kernel, [numba.typeof(X), numba.int64])
    function.snapshots = snapshots
    return function


@pytest.mark.parametrize("kernel", SCRATCH + KEPT, ids=lambda f: f.__name__)
def test_snapshots_hold_what_a_turn_may_read_of_the_one_before(kernel):
    (held,) = Adjoint(function_for(kernel, True), ["x"]).plan.segments.values()
    assert ("work" in held) == (kernel in KEPT)
    assert "x" in held


@pytest.mark.parametrize("kernel", SCRATCH + KEPT, ids=lambda f: f.__name__)
@pytest.mark.parametrize("snapshots", [True, 1, 2, 50])
def test_no_bit_changes(kernel, snapshots):
    plain, kept = function_for(kernel, False), function_for(kernel, snapshots)
    for n in (0, 1, 2, 11):
        cts = [random_like(np.random.default_rng(n), x) for x in value_of(plain, (X, n))]
        expected = vjp_of(plain, (X, n), cts)
        for a, b in zip(expected, vjp_of(kept, (X, n), cts), strict=True):
            np.testing.assert_array_equal(a, b)
        ends = [value_of(plain, (X + s * 1e-6 * np.eye(3)[0], n)) for s in (1, -1)]
        slope = sum(((a - b) * c).sum() for a, b, c in zip(*ends, cts, strict=True)) / 2e-6
        np.testing.assert_allclose(expected[0][0], slope, rtol=1e-5, atol=1e-7)


def test_memory_of_snapshots():
    *_, with_work = recorded(function_for(read_before, 10), (X, 100))
    *_, without = recorded(function_for(whole, 10), (X, 100))
    assert with_work - without == 10 * 3 * 8
