"""Compiled functions that may write to the memory of their arguments."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad as fg

RNG = np.random.default_rng(0)


def stepped(params, x):
    """One step of gradient descent."""
    slopes = fg.grad(lambda w, b: np.sum(np.tanh(x @ w + b) ** 2), argnums=(0, 1))(*params)
    return [p - 0.1 * s for p, s in zip(params, slopes, strict=True)], x.sum()


def donated_call(f, *args):
    """Return what was donated, and what two jitted functions give, the first of which had it to write to."""
    plain, donating = fg.jit(f), fg.jit(f, donate_argnums=0)
    for _ in range(3):  # as at the first call, later, and once there are guards
        given = fg.tree.map(np.copy, args[0])
        found, expected = donating(given, *args[1:]), plain(*args)
    return given, found, expected


def test_results_lie_in_the_memory_of_donated_arguments():
    params, x = [RNG.standard_normal((7, 5)), RNG.standard_normal(5)], RNG.standard_normal((11, 7))
    given, found, expected = donated_call(stepped, params, x)
    assert isinstance(found[1], np.float64)
    for g, y, e in zip(given, found[0], expected[0], strict=True):
        assert y is g
        np.testing.assert_allclose(y, e, rtol=1e-12)
    for kept, before in zip(params, [p.copy() for p in params], strict=True):
        np.testing.assert_array_equal(kept, before)


def test_donated_arguments_that_cannot_be_written_to_are_copied():
    def f(x, y):
        return x * 2.0 + y

    donating, x = fg.jit(f, donate_argnums=(0,)), np.arange(60.0).reshape(6, 10)
    fixed = x.copy()
    fixed.flags.writeable = False
    for given, other in [(fixed, x), (x.T.copy().T, x), (x[:, ::2].copy()[::-1], x[:, ::2])]:
        before = given.copy()
        for _ in range(2):
            np.testing.assert_array_equal(donating(given, other), f(before, other))
            np.testing.assert_array_equal(given, before)
    both = x.copy()
    for first, second in [(both, both), (both, both[::-1])]:
        before = both.copy()
        np.testing.assert_array_equal(donating(first, second), f(before, second))
        np.testing.assert_array_equal(both, before)


def test_donated_arguments_are_read_before_they_are_overwritten():
    programs = [
        lambda x, w: (x * 2.0, x.T + w),  # another place is read
        lambda x, w: (np.exp(x) - x.sum(axis=1, keepdims=True), x * x),
        lambda x, w: (x @ w, x + 1.0),
        lambda x, w: (np.sort(x, axis=0), x - 1.0),
        lambda x, w: (x, x + w),
        lambda x, w: (x[::-1] + w, x[:, ::-1] - w),
        lambda x, w: fg.lax.fori_loop(0, 3, lambda i, c: c * x + w, x),
    ]
    x, w = RNG.standard_normal((2, 8, 8))
    for f in programs:
        _, found, expected = donated_call(f, x, w)
        for y, e in zip(fg.tree.leaves(found), fg.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-12)


def test_donated_tensors_and_recorded_calls_keep_their_values():
    f = fg.jit(lambda x: x * 3.0, donate_argnums=0)
    t = fg.tensor([1.0, 2.0])
    assert f(t).tolist() == [3.0, 6.0]
    assert t.tolist() == [1.0, 2.0]
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(fg.grad(lambda y: np.sum(f(y) * x))(x), 3 * x)
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_bad_donations_are_refused():
    with pytest.raises(TypeError, match="donate_argnums must be an integer or a sequence of integers"):
        fg.jit(lambda x: x, donate_argnums="x")
    with pytest.raises(ValueError, match="is static and donated"):
        fg.jit(lambda n, x: x * n, static_argnums=0, donate_argnums=0)
