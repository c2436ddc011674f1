"""fgrad.scipy.ndimage: SciPy's values for Tensors, derivatives to second order, vmap and jit."""

import numpy as np
import pytest
from scipy import ndimage as reference
from tests.helpers import close
from tests.scipy.checking import agrees, check, normal

import fgrad as fg
from fgrad.scipy import ndimage
from fgrad.testing import check_grads

BORDERS = ["constant", "grid-constant", "nearest", "mirror", "reflect", "grid-mirror", "wrap", "grid-wrap"]


def same(name, *args, rtol=1e-9, **options):
    """Assert that a function has SciPy's values for Tensors."""
    given = [fg.tensor(x) if isinstance(x, np.ndarray) else x for x in args]
    agrees(getattr(ndimage, name)(*given, **options), getattr(reference, name)(*args, **options), rtol)


# ---- interpolation


@pytest.mark.parametrize("mode", BORDERS)
@pytest.mark.parametrize("order", range(6))
def test_values_between_elements(order, mode):
    options = {"order": order, "mode": mode, "cval": 0.7}
    for prefilter in (True, False):
        for n in (1, 2, 3, 7):
            x = normal(n)
            for places in (np.linspace(-2.3 * n - 3, 3.4 * n + 3, 97), np.arange(-8.0, n + 8)):
                same("map_coordinates", x, places[None], prefilter=prefilter, **options)
        places = normal(2, 5, 6) * 5
        same("map_coordinates", normal(5, 6), places, prefilter=prefilter, **options)
        same("map_coordinates", normal(5, 6, dtype="f"), places.astype("f"), rtol=1e-4, **options)
    complex_options = options | {"cval": 0.7 + 0.2j}
    same("map_coordinates", normal(5, 6, dtype=complex), places, **complex_options)
    same("map_coordinates", np.arange(12.0).reshape(3, 4), places, output="f", **options)


@pytest.mark.parametrize("mode", BORDERS)
@pytest.mark.parametrize("order", range(6))
def test_derivatives_between_elements(order, mode):
    x, places = normal(4, 5), np.random.default_rng(3).uniform(-2.7, 6.7, (2, 7))
    f = lambda x, p, v: ndimage.map_coordinates(x, p, order=order, mode=mode, cval=v)
    check_grads(f, (x, places, np.array(0.3)), 2 if order in (1, 3) else 1)
    if order == 3:
        check_grads(lambda x, p: ndimage.map_coordinates(x, p, prefilter=False, mode=mode), (x, places), 1)
        check_grads(lambda x: f(x, places, 0.0), (normal(4, 5, dtype=complex),), 1)


def test_places_in_every_transformation():
    x, places = normal(4, 5), np.random.default_rng(3).uniform(-1.7, 5.7, (2, 7))
    f, g = (lambda *xs, m=m: m.map_coordinates(*xs, mode="reflect") for m in (ndimage, reference))
    check(f, (x, places), g, rtol=1e-9)
    check(f, (x[0], places[:1]), g, 1, rtol=1e-9, compiled=True)


def test_slopes_at_elements():
    x = np.array([0.0, 1.0, 4.0])
    slope = lambda c, **options: float(
        fg.grad(lambda c: ndimage.map_coordinates(x, c[None], order=1, **options).sum())(np.array([c]))[0]
    )
    assert [slope(c) for c in (0.0, 0.5, 1.0, 1.5, 2.0)] == [1.0, 1.0, 3.0, 3.0, 3.0]
    assert [slope(c, mode="nearest") for c in (-0.5, 0.0, 2.0, 2.5)] == [0.0, 1.0, 0.0, 0.0]
    assert slope(-0.1) == slope(2.1) == 0.0
    assert fg.grad(lambda c: ndimage.map_coordinates(x, c[None], order=0).sum())(np.ones(1)) == 0.0


def test_places_that_are_no_numbers_and_far_ones():
    x = np.array([1.0, 2.0, 3.0])
    places = np.array([[np.nan, np.inf, -np.inf, 1e30, -1e30]])
    constant = ndimage.map_coordinates(fg.tensor(x), places, order=1, cval=7.0).numpy()
    assert list(constant[1:]) == [7.0, 7.0, 7.0, 7.0]
    nearest = ndimage.map_coordinates(fg.tensor(x), places[:, 3:], order=1, mode="nearest").numpy()
    assert list(nearest) == [3.0, 1.0]


@pytest.mark.parametrize("mode", BORDERS)
def test_moved_images(mode):
    x, m = normal(5, 6), normal(2, 2, seed=1)
    for order in range(6):
        options = {"order": order, "mode": mode, "cval": 0.4}
        same("affine_transform", x, m, normal(2), **options)
        same("affine_transform", x, np.column_stack([m, normal(2)]), output_shape=(3, 4), **options)
        same("affine_transform", x, np.array([0.7, 1.2]), 0.3, **options)
        same("shift", x, np.array([0.7, -1.2]), **options)
        same("shift", x, 0.4, **options)
        same("zoom", x, 2.1, **options)
        if mode not in {"constant", "wrap"}:
            same("zoom", x, (0.6, 1.7), grid_mode=True, **options)
        if order > 1:
            for axis in (0, -1):
                same("spline_filter1d", x, order=order, mode=mode, axis=axis)
            same("spline_filter", x, order=order, mode=mode)


def test_derivatives_of_moved_images():
    x, m, o = normal(4, 5), np.array([[0.8, 0.3], [-0.2, 1.1]]), np.array([0.3, -0.2])
    affine = lambda x, m, o: ndimage.affine_transform(x, m, o, mode="reflect")
    expected = lambda x, m, o: reference.affine_transform(x, m, o, mode="reflect")
    check(affine, (x, m, o), expected, 1, rtol=1e-9)
    check_grads(affine, (x, m, o), 2, rtol=1e-4)
    check_grads(lambda x, s: ndimage.shift(x, s, mode="mirror"), (x, o), 2)
    check_grads(lambda x: ndimage.zoom(x, 1.6), (x,), 1)
    check_grads(lambda x: ndimage.spline_filter(x, 5), (x,), 1)


# ---- filters


@pytest.mark.parametrize("mode", BORDERS)
def test_values_of_filters_along_one_axis(mode):
    for k, n in [(1, 2), (2, 1), (2, 6), (3, 6), (4, 3), (9, 2)]:
        for origin in {-(k // 2), 0, (k - 1) // 2}:
            options = {"mode": mode, "origin": origin, "cval": 0.3}
            same("correlate1d", normal(n, 3), normal(k, seed=1), axis=0, **options)
            same("correlate1d", normal(3, n), normal(k, dtype=complex), **options)
            same("convolve1d", normal(3, n, dtype=complex), normal(k, dtype=complex), **options)
            same("uniform_filter1d", normal(3, n), k, **options)
        for origin in {-((k - 1) // 2), 0, k // 2}:
            options = {"mode": mode, "origin": origin - (k % 2 == 0 and origin > 0), "cval": 0.3}
            same("convolve1d", normal(n, 3), normal(k, seed=1), axis=0, **options)


@pytest.mark.parametrize("mode", BORDERS)
def test_values_of_filters(mode):
    options = {"mode": mode, "cval": 0.3}
    for shape in ((3, 3), (2, 3), (1, 4), (5, 2)):
        for name in ("correlate", "convolve"):
            for dtype in (float, complex):
                same(name, normal(4, 5), normal(*shape, dtype=dtype, seed=1), **options)
            same(name, normal(4, 5), normal(*shape, seed=1), origin=(0, -1), **options)
            for axes in ((0, 2), (2, 0)):
                same(name, normal(4, 2, 5), normal(*shape, seed=1), axes=axes, **options)
                if shape == (2, 3):
                    same(name, normal(4, 2, 5), normal(*shape, seed=1), axes=axes, origin=(0, -1), **options)
            same(name, normal(4, 5), normal(*shape, seed=1), axes=(1, 0), origin=(0, -1), **options)
    for sigma in (0.5, (1.0, 2.0), (0, 1.3)):
        for order in (0, 1, 2, 3, (0, 1)):
            same("gaussian_filter", normal(6, 5), sigma, order, **options)
    same("gaussian_filter", normal(6, 5), 1.0, radius=2, **options)
    same("gaussian_filter", normal(6, 5), 1.0, truncate=2.0, axes=0, **options)
    same("gaussian_filter", normal(6, 5, dtype="f"), 1.0, rtol=1e-5, **options)
    same("uniform_filter", normal(6, 5), **options)
    same("uniform_filter", normal(6, 5), (2, 4), origin=(0, 1), **options)
    same("uniform_filter", normal(6, 5), 2, axes=1, **options)
    for name in ("sobel", "prewitt"):
        same(name, normal(5, 6), **options)
        same(name, normal(5, 4, 3), axis=0, **options)
    same("laplace", normal(5, 6), **options)
    same("laplace", normal(5, 6), axes=1, **options)
    same("gaussian_laplace", normal(5, 6), 1.1, **options)
    same("gaussian_gradient_magnitude", normal(5, 6), 1.1, truncate=3.0, **options)
    for axes in (1, (0, 2), ()):
        for name in ("laplace", "gaussian_laplace", "gaussian_gradient_magnitude"):
            sigma = () if name == "laplace" else (1.1,)
            same(name, normal(5, 6, 4), *sigma, axes=axes, **options)


def test_each_axis_has_a_mode():
    x, modes = normal(5, 6, 4), ["wrap", "nearest", "reflect"]
    for name in ("sobel", "prewitt", "laplace", "uniform_filter"):
        same(name, x, mode=modes)
    for name in ("gaussian_filter", "gaussian_laplace", "gaussian_gradient_magnitude"):
        same(name, x, 1.1, mode=modes)
        same(name, x, (1.1, 0.7, 0.9), mode=modes)
        same(name, x, 1.1, mode=modes[:2], axes=(2, 0))
    same("gaussian_laplace", x, (1.1, 0.7), axes=(2, 0), radius=2)
    same("gaussian_gradient_magnitude", x, (1.1, 0.7, 0.9), axes=(2, 0), radius=2)


def test_filters_do_not_cut_off_digits():
    for dtype in (np.int32, bool):
        with pytest.raises(TypeError, match="cuts digits off"):
            ndimage.sobel(fg.tensor(normal(5, 6)), output=dtype)
        with pytest.raises(TypeError, match="cuts digits off"):
            ndimage.shift(fg.tensor(normal(5, 6)), 0.5, output=dtype)


@pytest.mark.parametrize("mode", ["reflect", "constant", "nearest", "mirror", "wrap"])
def test_derivatives_of_filters(mode):
    x = normal(4, 5)
    for name in ("correlate", "convolve"):
        f = lambda x, w, v: getattr(ndimage, name)(x, w, mode=mode, cval=v)
        check_grads(f, (x, normal(2, 3, seed=1), np.array(0.3)), 2)
        f = lambda x, w, v: getattr(ndimage, name + "1d")(x, w, mode=mode, cval=v, axis=0)
        check_grads(f, (x, normal(4, seed=1), np.array(0.3)), 1)
    smooth = lambda x, s, v: ndimage.gaussian_filter(x, s, order=(0, 1), mode=mode, cval=v, truncate=2.0)
    check_grads(smooth, (x, np.array(1.1), np.array(0.2)), 2)
    check_grads(lambda x, s: ndimage.gaussian_filter(x, s, order=3, radius=2), (x, np.array([0.9, 1.2])), 1)


def test_filters_in_every_transformation():
    x, w = normal(4, 5), normal(3, 2, seed=1)
    check(ndimage.convolve, (x, w), reference.convolve, rtol=1e-9, compiled=True)
    check(ndimage.correlate1d, (x, w[:, 0]), reference.correlate1d, 1, rtol=1e-9)
    smooth = lambda x: ndimage.gaussian_filter(x, 1.0)
    check(smooth, (x,), lambda x: reference.gaussian_filter(x, 1.0), rtol=1e-9)
    check(lambda x, s: ndimage.gaussian_filter(x, s, radius=2), (x[0], np.array(0.9)), None, 1, rtol=1e-9)
    check(
        lambda x, s: ndimage.gaussian_gradient_magnitude(x, s, radius=2),
        (x, np.array(0.9)),
        None,
        1,
        rtol=1e-9,
    )
    assert not fg.grad(lambda x: ndimage.gaussian_gradient_magnitude(x, 1.0).sum())(np.zeros((3, 3))).any()


def test_arrays_are_scipys():
    x = np.arange(12).reshape(3, 4)
    assert ndimage.uniform_filter(x).dtype == x.dtype
    close(ndimage.gaussian_filter(fg.tensor(x), 1.0), reference.gaussian_filter(x.astype(float), 1.0))


T = fg.tensor(np.ones((3, 4)))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: ndimage.map_coordinates(T, np.ones((2, 3)), order=6), RuntimeError, "order not supported"),
        (
            lambda: ndimage.map_coordinates(T, np.ones((2, 3)), mode="other"),
            RuntimeError,
            "mode not supported",
        ),
        (lambda: ndimage.map_coordinates(T, np.ones((1, 3))), RuntimeError, "invalid shape"),
        (lambda: ndimage.map_coordinates(T, np.ones(3)), RuntimeError, "rank must be > 0"),
        (lambda: ndimage.map_coordinates(T, 1j * np.ones((2, 3))), TypeError, "Complex"),
        (lambda: ndimage.map_coordinates(T, np.ones((2, 3)), np.ones(3)), TypeError, "take the result"),
        (lambda: ndimage.spline_filter(T, 1), RuntimeError, "order not supported"),
        (lambda: ndimage.affine_transform(T, np.ones((3, 3, 3))), RuntimeError, "no proper affine matrix"),
        (lambda: ndimage.affine_transform(T, np.ones((1, 2))), RuntimeError, "wrong number of rows"),
        (lambda: ndimage.affine_transform(T, np.ones((2, 1))), RuntimeError, "wrong number of columns"),
        (lambda: ndimage.shift(T, [1, 2, 3]), RuntimeError, "length equal to input rank"),
        (lambda: ndimage.correlate1d(T, np.ones((2, 2))), RuntimeError, "no filter weights"),
        (lambda: ndimage.correlate1d(T, np.ones(3), origin=2), ValueError, "Invalid origin"),
        (lambda: ndimage.correlate1d(T, np.ones(3), mode="other"), RuntimeError, "mode not"),
        (lambda: ndimage.convolve(T, np.ones(3)), RuntimeError, "must match"),
        (lambda: ndimage.convolve(T, np.ones((3, 3)), mode=["wrap"]), RuntimeError, "sequence of modes"),
        (
            lambda: ndimage.convolve(T, np.ones((3, 3)), origin=(0, 0, 0)),
            ValueError,
            "each of 2 axes",
        ),
        (lambda: ndimage.gaussian_filter(T, 1.0, -1), ValueError, "non-negative"),
        (lambda: ndimage.gaussian_filter(T, 1.0, radius=-1), ValueError, "nonnegative integer"),
        (lambda: ndimage.gaussian_filter(T, [1.0]), RuntimeError, "length equal to input rank"),
        (lambda: ndimage.uniform_filter1d(T, 0), RuntimeError, "incorrect filter size"),
        (lambda: fg.vmap(lambda s: ndimage.gaussian_filter(T, s))(np.ones(2)), TypeError, "without a radius"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
