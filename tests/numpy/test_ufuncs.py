"""The methods of ufuncs (reduce, accumulate, reduceat, outer, at), and the arguments beside the operands."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import grouped
from tests.numpy.cases import integers, refuses, truths, values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.primitive import MEDIUM
from fgrad.testing import check_grads

BINARY = sorted(
    n
    for n, f in vars(fnp).items()
    if (getattr(f, "nin", 0), getattr(f, "nout", 0)) == (2, 1) and n == getattr(f, "__name__", "")
)
SMOOTH = ("add", "subtract", "multiply", "divide", "power", "float_power", "logaddexp", "logaddexp2", "hypot",
    "arctan2", "maximum", "minimum", "fmax", "fmin", "copysign", "fmod", "remainder")  # fmt: skip
HOLOMORPHIC = ("add", "subtract", "multiply", "divide", "power")
MISREAD = {"power", "float_power", "arctan2"}  # by NumPy's own reductions, see the test of that name
X, MASK = values((3, 4), 0.6, 2.0), truths((3, 4))
METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")


def followed(x: Any, call: Any) -> Any:
    """Return `call` of `x` as a Tensor that is being differentiated, if its dtype has derivatives."""
    t, gm = fg.tensor(x), fg.GradManager()
    if t.dtype.kind not in "fc":
        return call(t)
    gm.attach([t])
    with gm:
        return call(t)


def expected(name: str, x: Any, **kw: Any) -> Any:
    """Return a reduction, by folding from the left where NumPy's own cannot be relied on."""
    f, axis = getattr(np, name), kw.get("axis", 0)
    if name in MISREAD and set(kw) <= {"axis", "keepdims"} and isinstance(axis, int):
        y = np.take(f.accumulate(x, axis), -1, axis)
        return np.expand_dims(y, axis) if kw.get("keepdims") else y
    return f.reduce(x, **kw)


def same(actual: Any, wanted: Any) -> None:
    assert isinstance(actual, fg.Tensor)
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    tol = {"float32": 2e-6, "float16": 5e-3, "complex64": 2e-6}.get(wanted.dtype.name, 1e-13)
    np.testing.assert_allclose(actual.numpy(), wanted, rtol=tol, atol=tol)


def agrees(x: Any, theirs: Any, ours: Any, reference: Any = None) -> None:
    """Compare a call with NumPy's, for a Tensor that is being differentiated and for one that is not."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            wanted = np.asarray((reference or theirs)(x))
        except Exception as error:
            refuses(lambda: followed(x, ours), (), {}, error)
            return
        same(ours(fg.tensor(x)), wanted)
        same(theirs(fg.tensor(x)), wanted)
        same(followed(x, ours), wanted)


OPTIONS = [
    {}, {"axis": 1}, {"axis": -1, "keepdims": True}, {"axis": None}, {"axis": (0, 1)}, {"axis": ()},
    {"axis": 2}, {"initial": 2}, {"initial": 0.5, "where": MASK}, {"where": MASK},
    {"axis": 1, "dtype": np.float32}, {"initial": None, "axis": 1}]  # fmt: skip


@grouped("name, options", itertools.product(SMOOTH, OPTIONS))
def test_reduce(name, options):
    if name in MISREAD and (options.get("dtype") or "initial" in options or options.get("axis") == 2):
        return
    if "where" in options and "initial" in options and name in {"copysign", "fmod", "remainder", "arctan2"}:
        with pytest.raises(TypeError, match="mask"):
            followed(X, lambda t: getattr(np, name).reduce(t, **options))
        return
    theirs, ours = (lambda x, m=m: getattr(m, name).reduce(x, **options) for m in (np, fnp))
    agrees(X, theirs, ours, lambda x: expected(name, x, **options))


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_reduce(name):
    f = getattr(np, name)
    for axis in (0, 1):
        check_grads(lambda x: f.reduce(x, axis=axis), (X,), 2)
    if f.identity is not None:
        check_grads(lambda x: f.reduce(x, axis=None, keepdims=True), (X,), 1)
        check_grads(lambda x: f.reduce(x, axis=1, where=MASK | (X > 1.2)), (X,), 1)
    check_grads(lambda x, i: f.reduce(x, initial=i), (X, np.array(2.3)), 2)
    y = fg.make_graph(lambda x: f.reduce(x))(X)(X)
    np.testing.assert_allclose(y, expected(name, X), rtol=1e-12)
    np.testing.assert_allclose(fg.vmap(lambda x: f.reduce(x))(X), expected(name, X, axis=1), rtol=1e-12)


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_complex_derivatives(name):
    f, z = getattr(np, name), values((2, 3), 0.6, 1.2, complex)
    check_grads(lambda z: f.reduce(z, axis=1), (z,), 2)
    check_grads(lambda z: f.accumulate(z), (z,), 2)
    check_grads(lambda z: f.reduceat(z, [0, 1, 0], axis=1), (z,), 1)
    check_grads(lambda z: f.outer(z, z[0]), (z,), 1)


@pytest.mark.parametrize("name", ["hypot", "logaddexp", "arctan2"])
def test_complex_numbers_without_derivative_are_refused(name):
    z = values((3,), dtype=complex)
    for method in ("reduce", "accumulate"):
        with pytest.raises(TypeError):
            fg.grad(lambda z: np.sum(np.abs(getattr(getattr(np, name), method)(z))))(z)


@pytest.mark.parametrize("name", SMOOTH)
def test_accumulate(name):
    f = getattr(np, name)
    for axis in (0, 1, -1, 2, None, (0, 1)):
        agrees(X, *(lambda x, m=m: getattr(m, name).accumulate(x, axis=axis) for m in (np, fnp)))
    agrees(np.array(1.5), *(lambda x, m=m: getattr(m, name).accumulate(x) for m in (np, fnp)))
    for axis in (0, 1):
        check_grads(lambda x: f.accumulate(x, axis=axis), (X,), 2)
    np.testing.assert_allclose(fg.vmap(lambda x: f.accumulate(x))(X), f.accumulate(X, axis=1), rtol=1e-12)
    if name != "float_power":
        same(f.accumulate(fg.tensor(X), dtype=np.float32), f.accumulate(X, dtype=np.float32))


@pytest.mark.parametrize("name", SMOOTH)
def test_reduceat(name):
    f = getattr(np, name)
    x = values((7, 2), 0.6, 2.0)
    for indices in ([0, 3, 5], [0, 4, 1, 5, 2, 6], [6], [2, 2, 2], [5, 0], [], [7], [-1], [0.5], [[0, 1]]):
        wanted = None
        if name in MISREAD and indices == [0.5]:
            continue
        if name in MISREAD and indices and np.ndim(indices) == 1 and np.array(indices).dtype.kind == "i":
            stops = [*indices[1:], 7]
            pieces = [slice(i, j if j > i else i + 1) for i, j in zip(indices, stops, strict=True)]
            wanted = lambda x, pieces=pieces: np.stack([expected(name, x[p]) for p in pieces])
        if wanted and (max(indices) > 6 or min(indices) < 0):
            wanted = None
        agrees(x, *(lambda x, m=m: getattr(m, name).reduceat(x, indices) for m in (np, fnp)), wanted)
    check_grads(lambda x: f.reduceat(x, [0, 3, 5]), (x,), 2)
    check_grads(lambda x: f.reduceat(x.T, np.array([2, 6, 0, 0]), axis=1), (x,), 1)
    np.testing.assert_allclose(
        fg.vmap(lambda x: f.reduceat(x, [0, 3]), in_axes=1, out_axes=1)(x),
        np.stack([expected(name, x[:3]), expected(name, x[3:])]),
    )


@pytest.mark.parametrize("name", BINARY)
def test_outer(name):
    f = getattr(np, name)
    for x, y in [(X, X[0]), (X[0], np.array(1.5)), (X[0], 2.0), (integers((3,), 1), integers((2,), 1)),
        (X.astype("f"), 2), ([1.5, 2.0], X[1]), (X, X[:0])]:  # fmt: skip
        x = x if isinstance(x, list) else np.asarray(x)
        agrees(np.asarray(y), *(lambda y, m=m: getattr(m, name).outer(x, y) for m in (np, fnp)))
    if name in SMOOTH:
        check_grads(f.outer, (X[0] + 4, values((2, 2), 2.5, 2.8)), 2)
        if name != "float_power":
            same(f.outer(fg.tensor(X), 2.0, dtype=np.float32), f.outer(X, 2.0, dtype=np.float32))
        same(f.outer(fg.tensor(X), 2.0), f.outer(X, 2.0))


PLACES = {
    "repeated": ([0, 0, 2, 0], 1.3),
    "column": ((slice(None), [1, 1, 3]), 0.7),
    "mask": (MASK, 1.2),
    "pairs": (([0, 1, 0], [1, 2, 1]), np.array([1.1, 1.2, 1.3])),
    "one": (1, 0.8),
    "slice": ((slice(0, 2), slice(1, None)), 1.4),
    "negative": ([-1, 2], X[0]),
    "nothing": (np.zeros(0, int), 1.0),
    "everything": (Ellipsis, X.T.copy().T + 0.01),
}


@grouped("name, label", itertools.product([*SMOOTH, "floor_divide", "greater", "ldexp"], PLACES))
def test_at(name, label):
    f, (index, value) = getattr(np, name), PLACES[label]
    if name == "ldexp":
        value = np.round(value).astype(int)

    def done(m, x, value=value):
        x = x * 1
        assert getattr(m, name).at(x, index, value) is None
        return x

    agrees(X, *(lambda x, m=m: done(m, x) for m in (np, fnp)), lambda x: done(np, x))
    if name in SMOOTH:
        v = np.array(value)
        check_grads(lambda x, v: done(np, x, v), (X, v), 2 if label in {"repeated", "pairs"} else 1)
    elif name != "ldexp":
        g = fg.grad(lambda x: np.sum(done(np, x)))(X)
        touched = np.zeros((3, 4), bool)
        touched[index] = True
        np.testing.assert_array_equal(g, ~touched)
    assert f.nin == 2


@pytest.mark.parametrize("name", ["negative", "exp", "sin", "square", "sqrt"])
def test_at_of_one_operand(name):
    def done(m, x):
        x = x * 1
        getattr(m, name).at(x, ([0, 0, 1, 0], [1, 1, 2, 1]))
        return x

    agrees(X, *(lambda x, m=m: done(m, x) for m in (np, fnp)), lambda x: done(np, x))
    check_grads(lambda x: done(np, x), (X,), 2)
    t = fg.tensor(X)
    getattr(np, name).at(t, np.zeros(0, int))
    np.testing.assert_array_equal(t.numpy(), X)


def test_at_many_repetitions():
    rng = np.random.default_rng(3)
    places = np.concatenate([np.zeros(3000, int), rng.integers(0, 40, 500), np.arange(2000)])
    v = rng.uniform(0.999, 1.001, places.size)
    x = rng.uniform(1, 2, 2000)
    for name in ("add", "multiply", "divide", "minimum", "hypot"):
        wanted = x.copy()
        getattr(np, name).at(wanted, places, v)

        def done(x, v, name=name):
            x = x * 1
            getattr(np, name).at(x, places, v)
            return x

        y, back = fg.vjp(done, x, v)
        np.testing.assert_allclose(y, wanted, rtol=1e-12)
        gx, gv = back(np.ones(2000))
        if name == "add":
            np.testing.assert_array_equal(gx, 1)
            np.testing.assert_array_equal(gv, 1)
        if name in {"multiply", "divide"}:
            np.testing.assert_allclose(gx, wanted / x)
            np.testing.assert_allclose(gv, (1 if name == "multiply" else -1) * wanted[places] / v)
        if name == "hypot":
            np.testing.assert_allclose(gv, v / wanted[places])
        if name == "minimum":
            np.testing.assert_allclose(gx.sum() + gv.sum(), 2000)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("name", ["add", "subtract"])
def test_sums_of_many_rows(name, dtype):
    rng, at = np.random.default_rng(0), getattr(np, name).at
    x, v = (rng.normal(size=(n, 16)).astype(dtype) for n in (50, MEDIUM))
    places = rng.integers(-50, 50, MEDIUM)
    wanted = x.copy()
    at(wanted, places, v)

    def done(x, v, places):
        y = x * 1
        at(y, places, v)
        return y

    t = fg.tensor(x)
    at(t, places, v)
    np.testing.assert_array_equal(t.numpy(), wanted)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == "f" else {"rtol": 1e-12, "atol": 1e-12}
    for f in (done, fg.jit(done)):
        y, back = fg.vjp(lambda x, v, f=f: f(x, v, places), x, v)
        np.testing.assert_allclose(y, wanted, **tolerance)
        gx, gv = back(x)
        np.testing.assert_array_equal(gx, x)
        np.testing.assert_array_equal(gv, x[places] if name == "add" else -x[places])


def test_sums_of_rows_say_what_numpy_says():
    t, v = fg.tensor(np.ones((50, 16))), np.ones((MEDIUM, 16))
    places = np.arange(MEDIUM) % 50
    places[7] = 50
    with pytest.raises(IndexError, match="50"):
        np.add.at(t, places, v)
    np.testing.assert_array_equal(t.numpy(), 1)
    with pytest.warns(RuntimeWarning, match="overflow"):
        np.add.at(t, places % 50, v * 1e308)


def test_at_refuses_what_numpy_refuses():
    t = fg.tensor(np.ones(3))
    for call in (
        lambda m, t: m.add.at(t, [5], 1.0),
        lambda m, t: m.add.at(t, [0, 1], np.ones(3)),
        lambda m, t: m.bitwise_and.at(t, [0], 1),
        lambda m, t: m.add.at(t, [0], 1j),
        lambda m, t: m.add.at(t, [0]),
    ):
        with pytest.raises(Exception) as theirs:
            call(np, np.ones(3))
        kind = next(c for c in type(theirs.value).__mro__ if c.__module__ == "builtins")
        for module in (np, fnp):
            with pytest.raises(kind):
                call(module, t)
            with pytest.raises(kind):
                fg.grad(lambda x: call(module, x * 1) or np.sum(x))(np.ones(3))
    np.testing.assert_array_equal(t.numpy(), 1)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("shape, axis", [((6000,), 0), ((5, 1000), 1), ((1000, 5), 0), ((2, 1100, 2), 1)])
def test_slopes_of_long_running_extremes(shape, axis, name, dtype):
    rng = np.random.default_rng(8)
    x, ct = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    f = lambda x: getattr(np, name).accumulate(x, axis)
    expected, rows = np.zeros(shape), np.moveaxis(x, axis, -1)
    runs, back = np.moveaxis(f(x), axis, -1), np.moveaxis(ct, axis, -1)
    for row in np.ndindex(rows.shape[:-1]):
        for k, top in enumerate(runs[row]):
            np.moveaxis(expected, axis, -1)[(*row, np.flatnonzero(rows[row] == top)[0])] += back[(*row, k)]
    tolerance = 1e-3 if dtype == "f" else 1e-11
    found = fg.vjp(f, x)[1](ct)[0]
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        fg.vjp(f, x.T[::-1].T)[1](ct)[0],
        fg.jit(lambda x, ct: fg.vjp(f, x)[1](ct)[0])(x.T[::-1].T, ct),
        rtol=tolerance,
        atol=tolerance,
    )
    for special in (np.nan, x.reshape(-1)[0], np.inf):  # once it is met, twice the first, the end of all
        other = x.copy()
        np.moveaxis(other, axis, -1)[..., 3:9:2] = special
        with np.errstate(invalid="ignore"):
            slopes = fg.vjp(f, other)[1](ct)[0], fg.vjp(fg.jit(f), other)[1](ct)[0]
        np.testing.assert_allclose(*slopes, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_at_places_that_are_traced(name):
    rng = np.random.default_rng(6)
    x, v = rng.normal(size=(5, 3)), rng.normal(size=(40, 3))
    i, weights = rng.integers(-5, 5, 40), rng.normal(size=(5, 3))
    v[7], v[11], i[7], i[11] = v[3], v[3], i[3], i[3] % 5  # ties share the slope
    x[4] = v[3]

    def done(x, v, i):
        y = x * fnp.ones((5, 3), x.dtype)
        assert getattr(np, name).at(y, i, v) is None
        return y

    def loss(x, v, i):
        return np.sum(done(x, v, i) ** 2 * weights)

    for dtype in "fd":
        a, b = x.astype(dtype), v.astype(dtype)
        expected = a.copy()
        getattr(np, name).at(expected, i, b)
        for found in (fg.jit(done)(a, b, i), fg.vmap(done, in_axes=(None, None, 0))(a, b, i[None])[0]):
            np.testing.assert_array_equal(found, expected, strict=True)
        known = fg.grad(loss, (0, 1))(a, b, i)
        tolerance = 1e-5 if dtype == "f" else 1e-13
        for slopes in (fg.jit(fg.grad(loss, (0, 1))), fg.grad(fg.jit(loss), (0, 1))):
            for slope, e in zip(slopes(a, b, i), known, strict=True):
                np.testing.assert_allclose(slope, e, rtol=tolerance, atol=tolerance)
    check_grads(lambda x, v: fg.jit(done)(x, v, np.arange(40) % 5), (x, v), 2)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_at_traced_places_of_infinities_integers_and_nothing(name):
    def done(x, i, v):
        y = fnp.asarray(x) * 1
        getattr(np, name).at(y, i, v)
        return y

    nan, inf = np.nan, np.inf
    for x, i, v in (
        (np.full(6, -inf), [0, 0, 1, 2, 2, 4], [1.0, nan, inf, -inf, 3, -0.5]),
        (np.full(6, inf), [0, 0, 1, 2, 2, 4], [1.0, nan, inf, -inf, 3, -0.5]),
        (np.arange(6), [0, 0, 5, 5, 1, 2], [7, -7, 2, 9, 0, 2]),
        (np.arange(6, dtype=np.uint8), [0, 0, 5], [200, 3, 4]),
        (np.arange(6.0), np.zeros(0, int), np.zeros(0)),
        (np.arange(6.0).reshape(2, 3), [[0, 1], [1, 1]], [1.5, -3, 9]),
        (np.arange(6.0), [3, 3, 1], 2.5),
    ):
        i, v = np.array(i), np.array(v).astype(x.dtype)
        expected = x.copy()
        with np.errstate(invalid="ignore"):  # NumPy speaks of NaN
            getattr(np, name).at(expected, i, v)
        np.testing.assert_array_equal(fg.jit(done)(x, i, v), expected, strict=True)
    slope = fg.jit(fg.grad(lambda v, i: np.sum(np.exp(-(done(np.full(2, -inf), i, v)[:1] ** 2)))))
    found = slope(np.array([0.5, 0.25, 3.0]), np.array([0, 0, 1]))
    top = {"maximum": 0.5, "minimum": None}[name]
    np.testing.assert_allclose(found, [-2 * 0.5 * np.exp(-0.25), 0, 0] if top else [0, 0, 0])
    with pytest.raises(IndexError):
        fg.jit(done)(np.ones(3), np.array([3]), np.ones(1))
    with pytest.raises(Exception, match="needs the value"):
        fg.jit(done)(np.ones(3) * 1j, np.array([1]), np.ones(1) * 1j)


@pytest.mark.parametrize("name", ["add", "subtract"])
def test_sums_at_places_that_are_traced(name):
    weights, v = np.arange(12.0).reshape(3, 4), np.array([1.1, 1.2, 1.3])
    i, j = np.array([0, -1, 0]), np.array([1, 2, 1])

    def done(x, v, i, j):
        y = x * fnp.ones((3, 4))
        getattr(np, name).at(y, (i, j), v)
        getattr(np, name).at(y[1:], (slice(None), j), v)
        return np.sum(y * weights)

    slopes = fg.value_and_grad(done, (0, 1))
    wanted, gradients = slopes(X, v, i, j)
    value, compiled = fg.jit(slopes)(X, v, i, j)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    for g, e in zip(compiled, gradients, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-12)
    several = np.stack([i, j, j - 2])
    mapped = fg.vmap(done, (None, None, 0, None))(X, v, several, j)
    np.testing.assert_allclose(mapped, [done(fg.tensor(X), v, k, j) for k in several], rtol=1e-12)


def test_sums_at_traced_places_that_are_not_there_are_refused():
    def done(i):
        y = fnp.zeros(3, int)
        np.add.at(y, i, 1)
        return y

    np.testing.assert_array_equal(fg.jit(done)(np.array([0, 2, -1])), [1, 0, 2])
    with pytest.raises(IndexError, match="index 5"):
        fg.jit(done)(np.array([0, 2, 5]))
    with pytest.raises(TypeError, match="'at'"):  # a mask has as many places as it has truths
        fg.jit(done)(np.array([True, False, True]))


def test_at_into_an_array():
    a = np.zeros(3)
    np.add.at(a, [0, 0, 2], fg.tensor([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(a, [3, 0, 3])
    fnp.add.at(a, fg.tensor([1]), 1.0)
    np.testing.assert_array_equal(a, [3, 1, 3])
    with pytest.raises(TypeError, match="gradient would be lost"):
        fg.grad(lambda x: np.add.at(a, [0], x))(np.ones(1))
    np.testing.assert_array_equal(a, [3, 1, 3])


def test_at_leaves_other_handles_alone():
    x = np.ones(3)
    t = fg.tensor(x)
    other = t.copy()
    np.add.at(t, [0, 0], 1.0)
    np.testing.assert_array_equal(t.numpy(), [3, 1, 1])
    np.testing.assert_array_equal(other.numpy(), x)


def test_mapped_indices_are_refused():
    def f(i):
        x = fnp.zeros(3)
        np.multiply.at(x, i, 1.0)
        return x

    with pytest.raises(Exception, match="at"):
        fg.vmap(f)(np.array([[0], [1]]))


@given(st.data())
@settings(max_examples=30)
def test_random_segments_and_places(data):
    name = data.draw(st.sampled_from(["add", "multiply", "maximum", "subtract", "hypot", "logaddexp"]))
    n = data.draw(st.integers(1, 9))
    x = values((n,), 0.5, 1.5, seed=n)
    indices = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=8)))
    agrees(x, *(lambda x, m=m: getattr(m, name).reduceat(x, indices) for m in (np, fnp)))
    v = values(indices.shape, 0.5, 1.5, seed=1)

    def done(m, x):
        x = x * 1
        getattr(m, name).at(x, indices, v)
        return x

    agrees(x, *(lambda x, m=m: done(m, x) for m in (np, fnp)), lambda x: done(np, x))
    check_grads(lambda x: done(np, x) * getattr(np, name).reduceat(x, indices)[0], (x,), 1)


# ---- kinks and edges -----------------------------------------------------------------------------


def test_ties_share_equally():
    x = np.array([2.0, 1.0, 2.0, 2.0])
    for name in ("maximum", "fmax"):
        g = fg.grad(lambda x: getattr(np, name).reduce(x))(x)
        np.testing.assert_allclose(g, [1 / 3, 0, 1 / 3, 1 / 3])
        g = fg.grad(lambda x: np.sum(getattr(np, name).reduceat(x, [0, 2])))(x)
        np.testing.assert_allclose(g, [1, 0, 0.5, 0.5])


def test_fmax_and_fmin_leave_out_nan():
    x = np.array([[1.0, np.nan, 3.0], [np.nan] * 3])
    for name, place in (("fmax", 2), ("fmin", 0)):
        f = getattr(np, name)
        y = followed(x, lambda t: f.reduce(t, axis=1))
        np.testing.assert_array_equal(y.numpy(), f.reduce(x, axis=1))
        g = fg.grad(lambda x: np.sum(f.reduce(x, axis=1)[:1]))(x)
        np.testing.assert_array_equal(g, np.eye(6)[place].reshape(2, 3))
        np.testing.assert_array_equal(
            followed(x, lambda t: f.accumulate(t, axis=1)).numpy(), f.accumulate(x, 1)
        )


def test_products_with_zeros():
    x = np.array([2.0, 0.0, 3.0, 0.0, 5.0])
    np.testing.assert_allclose(fg.grad(lambda x: np.sum(np.multiply.reduceat(x, [0, 3])))(x), [0, 6, 0, 5, 0])

    def done(x):
        y = x * 1
        np.multiply.at(y, [0, 0, 1], x[[1, 2, 4]])
        return y[0] + y[1]

    np.testing.assert_allclose(fg.grad(done)(x), [0, 2 * 3 + 5, 0, 0, 0])


def test_nothing_to_reduce():
    x = np.zeros((0, 2))
    for name in ("add", "multiply", "logaddexp", "hypot", "maximum"):
        agrees(x, *(lambda x, m=m: getattr(m, name).reduce(x) for m in (np, fnp)))
        agrees(x, *(lambda x, m=m: getattr(m, name).reduce(x, initial=1.5) for m in (np, fnp)))
        agrees(x, *(lambda x, m=m: getattr(m, name).reduce(x, axis=1) for m in (np, fnp)))


def test_masked_reductions_have_no_gradient_where_masked():
    for name in ("subtract", "divide", "hypot", "maximum", "multiply"):
        g = fg.grad(lambda x: np.sum(getattr(np, name).reduce(x, where=MASK, initial=5.0)))(X)
        assert not np.any(g[~MASK])


def test_numpy_itself_misreads_two_reductions():
    """The reason why these two are never left to NumPy: its vector loops read results of their own."""
    x = np.array([2.0, 3.0, 2.0, 1.5, 1.1])
    for name in ("power", "arctan2"):
        wanted = getattr(np, name).accumulate(x)[-1]
        same(getattr(np, name).reduce(fg.tensor(x)), wanted)
        same(followed(x, lambda t: getattr(np, name).reduce(t)), wanted)
        same(getattr(np, name).reduceat(fg.tensor(x), [0]), wanted[None])


# ---- arguments and attributes --------------------------------------------------------------------


def test_out():
    for method, args in (("reduce", ()), ("accumulate", ()), ("reduceat", ([0, 2],)), ("outer", (2.0,))):
        for module in (np, fnp):
            for name in ("add", "hypot"):
                wanted = getattr(getattr(np, name), method)(X, *args)
                out = fg.tensor(np.zeros(wanted.shape))
                assert getattr(getattr(module, name), method)(fg.tensor(X), *args, out=out) is out
                np.testing.assert_allclose(out.numpy(), wanted)
                array = np.zeros(wanted.shape)
                assert getattr(getattr(module, name), method)(fg.tensor(X), *args, out=array) is array
                np.testing.assert_allclose(array, wanted)


def test_arrays_are_left_to_numpy():
    assert type(fnp.add.reduce(X)) is np.ndarray
    assert type(fnp.add.reduce(X, axis=None)) is np.float64
    assert type(fnp.hypot.outer(X, X)) is np.ndarray
    a = np.zeros(2)
    fnp.add.at(a, [0, 0], 1)
    np.testing.assert_array_equal(a, [2, 0])
    assert type(fnp.add.reduce([fg.tensor(1.0), 2.0])) is fg.Tensor
    assert fnp.add.reduceat(X, [0, 1]).shape == (2, 4)
    fnp.negative.at(a, [0])
    np.testing.assert_array_equal(a, [-2, 0])


@pytest.mark.parametrize("name", [*BINARY, "sin", "isnan"])
def test_a_ufunc_looks_like_numpys(name):
    ours, theirs = getattr(fnp, name), getattr(np, name)
    for attribute in ("nin", "nout", "nargs", "ntypes", "types", "identity", "signature", "__name__"):
        mine, wanted = getattr(ours, attribute), getattr(theirs, attribute)
        assert mine == wanted or (mine != mine and wanted != wanted)
    assert inspect.getdoc(ours).startswith("Return ")
    assert name in repr(ours)
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert copy.deepcopy(ours) is ours
    keywords = ["out", "where", "casting", "order", "dtype", "subok"]
    assert list(inspect.signature(ours).parameters) == [*"xy"[: ours.nin], *keywords]


@pytest.mark.parametrize("method", METHODS)
def test_methods_that_make_no_sense(method):
    t, args = fg.tensor(X), {"reduceat": ([0],), "outer": (X,), "at": ([0],)}.get(method, ())
    for name in ("sin", "matmul", "vecdot"):
        if (name, method) == ("sin", "at"):
            continue
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            getattr(getattr(np, name), method)(t, *args)
    if method != "at":
        with pytest.raises((TypeError, ValueError)):
            getattr(fnp.sin, method)(t, *args)


def test_targets_by_position():
    for module in (np, fnp):
        out = fg.tensor(np.zeros((3, 4)))
        assert module.add(fg.tensor(X), X, out) is out
        np.testing.assert_array_equal(out.numpy(), X + X)
        assert module.sin(fg.tensor(X), out) is out
        np.testing.assert_array_equal(out.numpy(), np.sin(X))
        array = np.zeros((3, 4))
        assert module.add(X, X, array) is array
        a, b = fg.tensor(np.zeros((3, 4))), fg.tensor(np.zeros((3, 4)))
        assert module.modf(fg.tensor(X), a, b) == (a, b)
        np.testing.assert_array_equal(b.numpy(), np.modf(X)[1])
        assert module.divmod(fg.tensor(X), 0.5, out=(a, b))[1] is b
        np.testing.assert_array_equal(b.numpy(), X % 0.5)
        mantissa, _ = module.frexp(fg.tensor(X), a)
        assert mantissa is a
    with pytest.raises(TypeError, match="both"):
        fnp.add(fg.tensor(X), X, out, out=out)
    with pytest.raises(TypeError, match="positional"):
        fnp.add(fg.tensor(X), X, out, out)


def test_dtype_of_functions_with_other_loops():
    n = integers((3, 4))
    for module in (np, fnp):
        same(
            module.ldexp(fg.tensor(X.astype("f")), n, dtype=np.float64),
            np.ldexp(X.astype("f"), n, dtype=np.float64),
        )
        with pytest.raises(TypeError):
            module.ldexp(fg.tensor(X), n, dtype=np.float32)
        same(module.ldexp(fg.tensor(X), 2, dtype="f8"), np.ldexp(X, 2, dtype="f8"))
        same(module.equal(fg.tensor(X), X, dtype=bool), np.equal(X, X, dtype=bool))
        same(module.add(fg.tensor(n), 2, dtype=np.float32), np.add(n, 2, dtype=np.float32))
        same(module.isnan(fg.tensor(X), dtype=bool), np.isnan(X))
        with pytest.raises(TypeError):
            module.ldexp(fg.tensor(X), X, dtype=np.float32)
    check_grads(lambda x: np.ldexp(x, n, dtype=np.float64), (X,), 2)


def test_custom_rules_of_ufuncs():
    f = fg.custom_vjp(fnp.sin)
    f.defvjp(lambda x: (np.sin(x), None), lambda _, ct: (2 * ct,))
    assert fg.grad(f)(0.3) == 2.0
