"""fgrad.scipy.interpolate: SciPy's values, derivatives to second order, vmap and jit."""

import numpy as np
import pytest
from scipy import interpolate as reference
from tests.helpers import close, plain
from tests.scipy.checking import check, normal

import fgrad as fg
from fgrad.scipy import interpolate
from fgrad.testing import check_grads


def tensors(x):
    return fg.tensor(x) if isinstance(x, np.ndarray) else x


def same(f, rtol=1e-9):
    """Assert that `f(module, make)` is SciPy's, for Tensors and for arrays."""
    expected = np.asarray(f(reference, lambda x: x))
    for make in (tensors, lambda x: x):
        found = plain(f(interpolate, make))
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol, rtol)


PLACES = {n: np.sort(np.random.default_rng(n).uniform(0, 5, n)) for n in (2, 3, 4, 5, 9)}
LAYOUTS = [((), ()), ((), (2,)), ((2,), (3,))]
ENDS = ["not-a-knot", "clamped", "natural", "periodic", ("natural", "not-a-knot"), ("clamped", 2), (1, 2)]


def ends(kinds, shape, dtype=float):
    """Return an argument `bc_type`, with values where orders are given."""
    if isinstance(kinds, str):
        return kinds
    return tuple((k, normal(*shape, dtype=dtype, seed=k)) if isinstance(k, int) else k for k in kinds)


# ---- piecewise polynomials


@pytest.mark.parametrize("kinds", ENDS, ids=str)
@pytest.mark.parametrize("n", PLACES)
def test_values_of_cubic_splines(n, kinds):
    x = PLACES[n]
    q = np.r_[np.linspace(-1, 6, 23), x, np.nan]
    for before, behind in LAYOUTS:
        y, axis = normal(*before, n, *behind), len(before)
        bc = ends(kinds, (*before, *behind))
        if kinds == "periodic":
            np.moveaxis(y, axis, 0)[-1] = np.moveaxis(y, axis, 0)[0]
        made = lambda m, t: m.CubicSpline(t(x), t(y), axis, bc)
        for nu in range(5):
            for extrapolate in (None, True, False, "periodic"):
                same(lambda m, t: made(m, t)(t(q), nu, extrapolate))
        same(lambda m, t: made(m, t).derivative(2)(t(q.reshape(-1, 1))))
        same(lambda m, t: made(m, t).antiderivative(2)(t(q)))
        for extrapolate in (None, True, False, "periodic"):
            same(lambda m, t: made(m, t).integrate(0.1, 3.0, extrapolate))
            same(lambda m, t: made(m, t).integrate(5.3, -2.0, extrapolate))
    y = normal(n, dtype=complex)
    y[-1] = y[0]
    same(lambda m, t: m.CubicSpline(t(x), t(y), 0, ends(kinds, (), complex))(t(q)))


@pytest.mark.parametrize("name", ["PchipInterpolator", "Akima1DInterpolator"])
@pytest.mark.parametrize("n", PLACES)
def test_values_of_local_interpolators(name, n):
    x = PLACES[n]
    q = np.r_[np.linspace(-1, 6, 23), x, np.nan]
    for before, behind in LAYOUTS:
        y, axis = normal(*before, n, *behind), len(before)
        for v in (y, np.abs(y), np.cumsum(np.abs(y), axis), np.round(y)):
            for nu in range(3):
                same(lambda m, t: getattr(m, name)(t(x), t(v), axis)(t(q), nu))
            same(lambda m, t: getattr(m, name)(t(x), t(v), axis, extrapolate=True)(t(q)))
        same(lambda m, t: m.Akima1DInterpolator(t(x), t(y), axis, method="makima")(t(q)))
        same(lambda m, t: m.CubicHermiteSpline(t(x), t(y), t(y**2), axis)(t(q)))


@pytest.mark.parametrize("kinds", ENDS, ids=str)
@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_derivatives_of_cubic_splines(n, kinds):
    x, y, q = np.sort(normal(n, seed=n)), normal(n), np.array([-0.7, 0.2, 0.31, 1.3])
    if kinds == "periodic":
        closed = lambda y: np.concatenate([y[:-1], y[:1]])
        f = lambda x, y, q: interpolate.CubicSpline(x, closed(y), bc_type=kinds, extrapolate=True)(q)
        check_grads(f, (x, y, q), 1, rtol=1e-5)
        return
    values = np.array([0.3, -0.2])
    given = lambda v: kinds if isinstance(kinds, str) else tuple(
        (k, v[i]) if isinstance(k, int) else k for i, k in enumerate(kinds)
    )  # fmt: skip
    f = lambda x, y, q, v: interpolate.CubicSpline(x, y, bc_type=given(v))(q)
    check_grads(f, (x, y, q, values), 2 if n == 4 else 1, rtol=1e-5)


@pytest.mark.parametrize("name", ["PchipInterpolator", "Akima1DInterpolator"])
def test_derivatives_of_local_interpolators(name):
    x, q = np.array([0.0, 0.7, 1.5, 2.1, 3.3, 4.0]), np.array([0.2, 1.1, 3.5])
    for y in (np.array([0.0, 1.1, 3.0, 3.2, 5.0, 9.0]), np.array([0.3, 1.0, -0.4, 2.0, 1.1, 1.9])):
        check_grads(lambda x, y, q: getattr(interpolate, name)(x, y)(q), (x, y, q), 2, rtol=1e-5)
        check_grads(lambda y, a, b: getattr(interpolate, name)(x, y).integrate(a, b), (y, 0.3, 3.1), 1)


def test_derivatives_in_places_are_those_of_nu():
    x, y, q = PLACES[5], normal(5), np.linspace(0.5, 4.5, 7)
    for s in (interpolate.CubicSpline(x, y), interpolate.make_interp_spline(x, y, 4)):
        slope = fg.vmap(fg.grad(s))(q)
        close(slope, s(q, 1))
        close(slope, s.derivative()(q))
        close(fg.vmap(fg.grad(fg.grad(s)))(q), s(q, 2))
        close(fg.vmap(fg.grad(s.antiderivative()))(q), s(q))


def test_cubic_splines_in_every_transformation():
    x, q = PLACES[5], np.array([0.7, 2.1, 5.2])
    f, g = (lambda y, q, m=m: m.CubicSpline(x, y)(q) for m in (interpolate, reference))
    check(f, (normal(5), q), g, rtol=1e-9, compiled=True)
    f, g = (lambda y, q, m=m: m.PchipInterpolator(x, y)(q) for m in (interpolate, reference))
    check(f, (normal(5), q), g, 1, rtol=1e-9)


# ---- B-splines


@pytest.mark.parametrize("k", range(6))
@pytest.mark.parametrize("bc", [None, "natural", "clamped", "mixed"])
def test_values_of_interpolating_b_splines(k, bc):
    made_any = False
    for n, x in PLACES.items():
        q = np.r_[np.linspace(-1, 6, 23), x]
        for before, behind in LAYOUTS:
            y, axis = normal(*before, n, *behind), len(before)
            shape = (*before, *behind)
            bc_type = ([(2, normal(*shape, seed=1))], [(1, normal(*shape, seed=2))]) if bc == "mixed" else bc
            made = lambda m, t: m.make_interp_spline(x, t(y), k, None, bc_type, axis)
            try:
                made(reference, lambda x: x)
            except ValueError:
                with pytest.raises(ValueError):
                    made(interpolate, tensors)
                continue
            made_any = True
            for nu in range(k + 1):
                for extrapolate in (None, False, "periodic"):
                    same(lambda m, t: made(m, t)(t(q), nu, extrapolate), 1e-7)
            if k:
                same(lambda m, t: made(m, t).derivative()(t(q)), 1e-7)
                same(lambda m, t: made(m, t).antiderivative(2)(t(q)), 1e-7)
                same(lambda m, t: made(m, t).integrate(5.3, -2.0), 1e-7)
                same(lambda m, t: made(m, t).integrate(0.3, 9.0, False), 1e-7)
    assert made_any or (k < 2 and bc is not None) or (k in {2, 4} and bc is not None) or k == 5


def test_derivatives_of_b_splines():
    t, c, q = np.array([0.0, 0, 0, 0, 1.1, 2.3, 4, 4, 4, 4]), normal(6), np.array([-0.3, 0.2, 1.5, 3.1, 4.4])
    inner = lambda t: np.concatenate([np.zeros(4), t, np.full(4, 4.0)])
    f = lambda t, c, q: interpolate.BSpline(inner(t), c, 3)(q)
    check_grads(f, (t[4:6], c, q), 2, rtol=1e-5)
    close(f(t[4:6], c, q), reference.BSpline(t, c, 3)(q))
    check_grads(lambda y, q: interpolate.make_interp_spline(PLACES[5], y, 3)(q), (normal(5), q), 2)
    f, g = (lambda y, q, m=m: m.make_interp_spline(PLACES[5], y, 2)(q) for m in (interpolate, reference))
    check(f, (normal(5), q[1:]), g, 1, rtol=1e-9)


# ---- grids


@pytest.mark.parametrize("method", ["linear", "nearest", "slinear", "cubic", "quintic"])
@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 2), (8,), (1, 6)], ids=str)
def test_values_on_grids(method, shape):
    d = min(2, len(shape))
    rng = np.random.default_rng(3)
    grid = [np.sort(rng.uniform(0, 3, n)) for n in shape[:d]]
    within = np.stack([rng.uniform(p.min(), p.max(), (5, 3)) for p in grid], -1)
    beyond, lost = rng.uniform(-1, 4, (5, 3, d)), within.copy()
    lost[0, 0, 0] = np.nan
    rtol = 1e-3 if method in {"cubic", "quintic"} else 1e-9  # SciPy's iterative solver
    if shape == (1, 6) and method not in {"linear", "nearest"}:
        with pytest.raises(ValueError, match="requires at least"):
            interpolate.RegularGridInterpolator(grid, normal(*shape), method)
        return
    for dtype in (float, complex):
        v = normal(*shape, dtype=dtype)
        for points in (grid, [p[::-1].copy() for p in grid]):
            made = lambda m, t, **o: m.RegularGridInterpolator(points, t(v), method, **o)
            same(lambda m, t: made(m, t)(t(within)), rtol)
            for fill in (np.nan, None, 0.5):
                for q in (beyond, lost):
                    same(lambda m, t: made(m, t, bounds_error=False, fill_value=fill)(t(q)), rtol)
        if d == 2:
            coordinates = [np.ascontiguousarray(within[..., k]) for k in range(2)]
            same(lambda m, t: made(m, t)(tuple(t(c) for c in coordinates)), rtol)
        same(lambda m, t: made(m, t)(t(within[0, 0])), rtol)
        same(lambda m, t: m.interpn(grid, t(v), t(within), method), rtol)
        if method in {"slinear", "cubic", "quintic"}:
            same(lambda m, t: made(m, t)(t(within), nu=[1] * d), 10 * rtol)


def test_derivatives_on_grids():
    grid = (np.array([0.0, 0.7, 1.5, 2.0, 3.1]), np.array([0.0, 1.0, 1.4, 2.5]))
    v, q = normal(5, 4), np.array([[0.3, 0.2], [1.1, 1.2], [2.5, 2.2]])
    for method in ("linear", "cubic"):
        f = lambda v, q: interpolate.RegularGridInterpolator(grid, v, method)(q)
        check_grads(f, (v, q), 2, rtol=1e-5)
        close(
            fg.vmap(fg.grad(lambda p: f(v, p)[0]))(q)[:, 0],
            fg.jvp(lambda q: f(v, q), (q,), (np.array([[1.0, 0.0]] * 3),))[1],
        )
    check_grads(lambda g, v, q: interpolate.RegularGridInterpolator((g, grid[1]), v)(q), (grid[0], v, q), 1)
    assert not fg.grad(lambda q: interpolate.interpn(grid, v, q, "nearest").sum())(q).any()
    f, g = (lambda v, q, m=m: m.interpn(grid, v, q) for m in (interpolate, reference))
    check(f, (v, q), g, 1, rtol=1e-9)


def test_bounds_where_nobody_can_look():
    grid, v = (np.arange(3.0),), np.array([0.0, 1.0, 4.0])
    f = interpolate.RegularGridInterpolator(grid, v)
    q = np.array([[0.5], [7.0]])
    for mapped in (fg.vmap(lambda p: f(p)[0])(q), fg.jit(f)(q)):
        assert mapped[0] == 0.5
        assert np.isnan(mapped[1])


@pytest.mark.parametrize("method", ["linear", "nearest", "slinear"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i4"])
def test_dtypes_on_grids_are_scipys(method, dtype):
    values = np.arange(4).astype(dtype)
    there, here = (m.RegularGridInterpolator((X[:4],), t(values), method)(X[1:2] + 0.1) for m, t in (
        (reference, np.asarray), (interpolate, fg.tensor)))  # fmt: skip
    assert here.dtype == there.dtype


X, Y = np.arange(4.0), fg.tensor(np.ones(4))
GRID = (np.arange(3.0), np.arange(4.0))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: interpolate.CubicSpline(X[::-1], Y), ValueError, "strictly increasing"),
        (lambda: interpolate.CubicSpline(X, Y[:3]), ValueError, "doesn't match the length"),
        (lambda: interpolate.CubicSpline(X[:1], Y[:1]), ValueError, "at least 2 elements"),
        (lambda: interpolate.CubicSpline(X[None], Y), ValueError, "1-dimensional"),
        (lambda: interpolate.CubicSpline(1j * X, Y), ValueError, "real values"),
        (lambda: interpolate.CubicSpline(X, Y * np.nan), ValueError, "only finite values"),
        (lambda: interpolate.CubicSpline(X, X, bc_type="periodic"), ValueError, "must be identical"),
        (lambda: interpolate.CubicSpline(X, Y, bc_type="other"), ValueError, "is not allowed"),
        (lambda: interpolate.CubicSpline(X, Y, bc_type=("natural",)), ValueError, "2 elements"),
        (
            lambda: interpolate.CubicSpline(X, Y, bc_type=("periodic", "natural")),
            ValueError,
            "both curve",
        ),
        (lambda: interpolate.CubicSpline(X, Y, bc_type=((3, 0.0), "natural")), ValueError, "must be 1 or 2"),
        (lambda: interpolate.CubicSpline(X, Y, bc_type=((1, Y), "natural")), ValueError, "not the expected"),
        (lambda: interpolate.CubicSpline(X, Y, bc_type=(1, "natural")), ValueError, "form .order, value."),
        (lambda: interpolate.CubicHermiteSpline(X, Y, Y[:2]), ValueError, "must be identical"),
        (lambda: interpolate.PchipInterpolator(X, Y * 1j), ValueError, "only works with real values"),
        (lambda: interpolate.Akima1DInterpolator(X, Y, method="other"), NotImplementedError, "unsupported"),
        (lambda: interpolate.PPoly(Y, X), ValueError, "at least 2 axes"),
        (lambda: interpolate.PPoly(Y[None], X), ValueError, "number of coefficients"),
        (lambda: interpolate.CubicSpline(X, Y)(1j), TypeError, "must be real"),
        (lambda: interpolate.BSpline(X, Y, -1), ValueError, "cannot be negative"),
        (lambda: interpolate.BSpline(X, Y, 3), ValueError, "Need at least 8 knots"),
        (lambda: interpolate.BSpline(X[::-1], Y, 1), ValueError, "non-decreasing"),
        (lambda: interpolate.BSpline(X, Y[:1], 1), ValueError, "inconsistent"),
        (lambda: interpolate.BSpline(X, Y[:2], 1).derivative(2), ValueError, "Order of derivative"),
        (lambda: interpolate.BSpline(X, Y[:3], 0).antiderivative(), NotImplementedError, "use PPoly"),
        (
            lambda: interpolate.BSpline(X, Y, 1).integrate(0, 1, "periodic"),
            NotImplementedError,
            "not supported",
        ),
        (
            lambda: interpolate.make_interp_spline(X, Y, bc_type="periodic"),
            NotImplementedError,
            "CubicSpline",
        ),
        (lambda: interpolate.make_interp_spline(X, Y[:3]), ValueError, "incompatible"),
        (
            lambda: fg.grad(lambda x: interpolate.make_interp_spline(x, Y)(1.5))(X),
            TypeError,
            "lose its gradient",
        ),
        (lambda: interpolate.RegularGridInterpolator(GRID, Y), ValueError, "2 point arrays"),
        (
            lambda: interpolate.RegularGridInterpolator(GRID, np.ones((3, 3))),
            ValueError,
            "4 points and 3 values",
        ),
        (lambda: interpolate.RegularGridInterpolator((np.zeros(4),), Y), ValueError, "strictly ascending"),
        (lambda: interpolate.RegularGridInterpolator((X,), Y, "other"), ValueError, "is not defined"),
        (
            lambda: interpolate.RegularGridInterpolator((X,), Y, "pchip"),
            NotImplementedError,
            "PchipInterpolator",
        ),
        (lambda: interpolate.RegularGridInterpolator((X,), Y, fill_value=1j), ValueError, "compatible"),
        (
            lambda: fg.grad(lambda p: interpolate.RegularGridInterpolator((p,), Y, "cubic")(1.5)[0])(X),
            TypeError,
            "no derivative in the grid",
        ),
        (lambda: interpolate.RegularGridInterpolator((X,), Y, solver=len), ValueError, "solved directly"),
        (
            lambda: interpolate.RegularGridInterpolator((X,), Y)(9.0),
            ValueError,
            "out of bounds in dim",
        ),
        (lambda: interpolate.RegularGridInterpolator((X,), Y)(1.0, nu=[1]), ValueError, "Can only compute"),
        (lambda: interpolate.RegularGridInterpolator((X,), Y, "cubic")(1.0, nu=[-1]), ValueError, "1 orders"),
        (lambda: interpolate.interpn(GRID, np.ones((3, 4)), np.ones((2, 3))), ValueError, "have dimension 3"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
