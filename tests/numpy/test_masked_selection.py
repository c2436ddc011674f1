"""Elements chosen by a mask without value: what may be done to them, and that all else is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4))
Y = RNG.normal(size=(3, 4))


def inverse_roots(np, x, y):
    r = x * 1.0
    r[r > 0] = r[r > 0] ** -0.5
    return r


def iteration(np, x, y):
    z, count = x * 1.0, np.zeros(x.shape)
    for n in range(4):
        near = abs(z) < 1.5
        count[near] = n
        z[near] = z[near] ** 2 + y[near]
    return z + count


def functions(np, x, y):
    r = x * 2.0
    m = r > 0.3
    r[m] = np.sqrt(r[m]) + np.log(r[m]) * y[m] - 1.0 / r[m]
    r[~m] = -np.maximum(r[~m], -0.5)
    return r


def rows(np, x, y):
    r = x * 1.0
    m = y[:, 0] > 0
    r[m] = y[m] * 3 - r[m] * x[0, 0]
    return r


def others(np, x, y):
    """Write elements of one array to another, after the first one changed."""
    r, s = x * 1.0, y * 1.0
    m = x > 0
    kept = r[m]
    r *= 10
    s[m] = kept
    more = kept.copy()
    more += 1.0
    r[m] = more
    s[m] += 2 * s[m]
    return r + s + np.where(m, kept_sum(r), 0)


def kept_sum(r):
    return r * 0.5


def kinds(np, x, y):
    whole = np.zeros(x.shape, int)
    m = x > 0
    whole[m] = (x[m] * 10).astype(int)
    z = x + 1j * y
    z[m] = z[m] * np.conj(z[m])
    return whole + z.real


PROGRAMS = [inverse_roots, iteration, functions, rows, others, kinds]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_elements_are_written_back_as_in_numpy(f):
    with np.errstate(all="raise"):
        wanted = f(np, X.copy(), Y.copy())

    def total(x, y):
        return np.sum(f(fnp, x, y) * (1 + Y))

    found = fg.jit(lambda x, y: f(fnp, x, y))(X, Y)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert found.dtype == wanted.dtype
    mapped = fg.vmap(lambda x, y: f(fnp, x, y))(np.stack([Y, X]), np.stack([X, Y]))
    np.testing.assert_allclose(mapped[1], wanted, rtol=1e-12)
    gradient = fg.grad(total, (0, 1))
    eager = gradient(X, Y)
    for other in (
        fg.jit(gradient)(X, Y),
        [g[1] for g in fg.vmap(gradient)(np.stack([Y, X]), np.stack([X, Y]))],
        fg.jit(fg.vmap(gradient))(X[None], Y[None]),
    ):
        for a, b in zip(other, eager, strict=True):
            np.testing.assert_allclose(a.reshape(b.shape), b, rtol=1e-9, atol=1e-12)


def test_what_the_mask_leaves_out_spoils_no_derivative():
    def f(x):
        r = x * 1.0
        r[r > 0] = np.log(r[r > 0]) + r[r > 0] ** -1.5
        return np.sum(r)

    x = np.array([-1.0, 0.0, 4.0, np.inf])
    slope = [1, 1, 0.25 - 1.5 * 4**-2.5, 0]
    for transformed in (fg.grad(f), fg.jit(fg.grad(f)), lambda x: fg.vmap(fg.grad(f))(x[:, None])[:, 0]):
        np.testing.assert_allclose(transformed(x), slope)


REFUSED = {
    "returned": lambda x: x[x > 0],
    "summed": lambda x: np.sum(x[x > 0]),
    "summed here": lambda x: fnp.sum(x[x > 0]),
    "method": lambda x: x[x > 0].sum(),
    "length": lambda x: len(x[x > 0]),
    "loop": lambda x: list(x[x > 0]),
    "with an array": lambda x: x[x > 0] + x[0],
    "after an array": lambda x: x[0] * x[x > 0],
    "with other elements": lambda x: x[x > 0] * x[x > 1],
    "element": lambda x: x[x > 0][0],
    "number": lambda x: float(x[x > 0]),
    "truth": lambda x: bool(x[x > 0]),
    "sorted": lambda x: fnp.sort(x[x > 0]),
    "joined": lambda x: np.concatenate([x[x > 0], x[0]]),
    "where": lambda x: fnp.where(x > 0, x[x > 0], 0.0),
    "product": lambda x: x[x > 0] @ x[x > 0],
    "reduction": lambda x: np.add.reduce(x[x > 0]),
    "operand": lambda x: fg.lax.cond(True, lambda v: v, lambda v: v, x[x > 0]),
    "written elsewhere": lambda x: x.__setitem__(slice(None), x[x > 0]),
    "another mask": lambda x: x.__setitem__(x > 1, x[x > 0]),
    "another place of the mask": lambda x: x.T.copy().__setitem__((x > 0).T, x[x > 0]),
    "differentiated": lambda x: fg.grad(np.sum)(x[x > 0]),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("transformation", [fg.jit, lambda f: lambda x: fg.vmap(f)(x[None]), fg.make_graph])
def test_whoever_needs_their_number_is_refused(name, transformation):
    words = r"(?s)indexing with a boolean array at .*test_masked_selection\.py:\d+ needs.*"
    words += r"x\[mask\] = f\(.*where\("
    with pytest.raises(TypeError, match=words):
        transformation(REFUSED[name])(X)


def test_a_mask_that_changes_is_another_mask():
    def f(x):
        m = x > 0
        kept = x[m]
        np.logical_not(m, m)
        x = x * 1.0
        x[m] = kept
        return x

    with pytest.raises(TypeError, match="boolean array"):
        fg.jit(f)(X)


def test_masks_are_the_same_where_they_were_computed_alike():
    def chosen(other):
        def f(x, y):
            r = x * 1.0
            r[abs(x) > 0.5] = x[other(x, y)]
            return r

        return f

    wanted = np.where(abs(X) > 0.5, X, X)
    np.testing.assert_array_equal(fg.jit(chosen(lambda x, y: abs(x) > 0.5))(X, Y), wanted)
    for other in (
        lambda x, y: abs(x) > 0.25,
        lambda x, y: abs(y) > 0.5,
        lambda x, y: abs(x) >= 0.5,
        lambda x, y: abs(x) > fnp.sum(y * 0 + 0.5),
    ):
        with pytest.raises(TypeError, match="boolean array"):
            fg.jit(chosen(other))(X, Y)


def test_fgrad_is_imported_without_what_masks_need():
    code = "import sys, fgrad; print('optree' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
