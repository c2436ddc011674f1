"""Numbers in lists, and what the library makes itself, are where the data is; arrays of the user's stay."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.backend.checks import no_transfers, on_device

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.scipy import interpolate, ndimage, signal

RNG = np.random.default_rng(0)
X, IMAGE = RNG.uniform(0.5, 1.5, 16), RNG.uniform(0.5, 1.5, (8, 9))
LINE, GRID = list(np.arange(16.0)), [list(np.arange(8.0)), list(np.arange(9.0))]
SECTION = [[1.0, 0.5, 0.1, 1, 0.2, 0.1]]
MODES = ("constant", "grid-constant", "nearest", "mirror", "reflect", "wrap", "grid-wrap")

SIGNALS = {
    "lfilter": lambda x: signal.lfilter([1.0, 0.5], [1.0, 0.2], x),
    "lfilter with states": lambda x: signal.lfilter([1.0, 0.5], [1.0, 0.2], x, zi=[0.3])[0],
    "sosfilt": lambda x: signal.sosfilt(SECTION, x),
    "filtfilt": lambda x: signal.filtfilt([1.0, 0.5], [1.0, 0.2], x),
    "convolve": lambda x: signal.convolve(x, [1.0, 2, 3]),
    "fftconvolve": lambda x: signal.fftconvolve(x, [1.0, 2, 3]),
    "correlate": lambda x: signal.correlate(x, [1.0, 2, 3], mode="same"),
    "stft": lambda x: np.abs(signal.stft(x, nperseg=8, detrend="linear")[2]),
    "istft": lambda x: signal.istft(signal.stft(x, nperseg=8)[2], nperseg=8)[1],
    "window": lambda x: np.abs(signal.stft(x, window=[1.0, 2, 2, 1], nperseg=4)[2]),
    "csd": lambda x: np.abs(signal.csd(x, x * x, nperseg=8)[1]),
    "welch": lambda x: signal.welch(x, nperseg=8)[1],
    "detrend": lambda x: signal.detrend(x, bp=[5]),
    "hilbert": lambda x: np.abs(signal.hilbert(x)),
}
IMAGES = {
    "correlate1d": lambda x: ndimage.correlate1d(x, [1.0, 2, 3]),
    "convolve": lambda x: ndimage.convolve(x, [[1.0, 2, 3]], mode="mirror"),
    "gaussian": lambda x: ndimage.gaussian_filter(x, [1.0, 2.0]),
    "gaussian of a width": lambda x: ndimage.gaussian_filter1d(x, x[0, 0], order=1, radius=3),
    "uniform": lambda x: ndimage.uniform_filter(x, 3),
    "sobel": ndimage.sobel,
    "laplace": ndimage.laplace,
    "zoom": lambda x: ndimage.zoom(x, [2.0, 1.5], grid_mode=True, mode="nearest"),
    "shift": lambda x: ndimage.shift(x, [0.5, 0.2]),
    "affine": lambda x: ndimage.affine_transform(x, [[1.0, 0.1], [0.1, 1.0]], [0.1, 0.2]),
    **{
        mode: functools.partial(ndimage.map_coordinates, coordinates=[[0.5, 2.5], [1.0, 3.2]], mode=mode)
        for mode in MODES
    },
}
CURVES = {
    "cubic": lambda y: interpolate.CubicSpline(LINE, y),
    "cubic with ends": lambda y: interpolate.CubicSpline(LINE, y, bc_type=((1, 0.5), "natural")),
    "periodic": lambda y: interpolate.CubicSpline(
        LINE, fnp.concatenate([y[:-1], y[:1]]), bc_type="periodic", extrapolate=True
    ),
    "pchip": lambda y: interpolate.PchipInterpolator(LINE, y),
    "makima": lambda y: interpolate.Akima1DInterpolator(LINE, y, method="makima"),
    "Hermite": lambda y: interpolate.CubicHermiteSpline(LINE, y, [0.0] * 16),
    "B-spline": lambda y: interpolate.BSpline(list(np.arange(20.0)), y, 3),
    "interpolating B-spline": lambda y: interpolate.make_interp_spline(LINE, y, bc_type="natural"),
    "places on the device": lambda y: interpolate.make_interp_spline(fnp.cumsum(y.detach()), y),
}
METHODS = ("linear", "nearest", "slinear", "cubic", "quintic")
GRIDS = {
    m: lambda v, m=m: interpolate.RegularGridInterpolator(GRID, v, m)([[1.5, 2.5], [3.0, 4.0]])
    for m in METHODS
}
NUMPY = {
    "array": lambda x: fnp.array([x[0], 1.0, x[2]]),
    "array of rows": lambda x: fnp.array([x[:2], [1.0, 2.0]]),
    "concatenate": lambda x: fnp.concatenate([x, [1.0, 2.0]]),
    "r_": lambda x: fnp.r_[x, 0:3, 5.0, [1.0, 2]],
    "mgrid": lambda x: fnp.mgrid[x[0] : 3 : 0.5, 0:1:5j],
    "arange": lambda x: fnp.arange(x[0], 4.0, 0.5),
    "arange of integers": lambda x: fnp.arange(x.astype(int)[0], 4) * x[0],
    "geomspace": lambda x: fnp.geomspace(x[0], 4.0, 5),
    "interp": lambda x: fnp.interp(x, [0.0, 1, 2], [1.0, 3, 2]),
    "dot": lambda x: fnp.dot(x[:2], [1.0, 2.0]),
}


def held(f, x):
    for g in (f, fg.grad(lambda x: (f(x) ** 2).sum())):
        expected, found = g(fg.tensor(x)), g(on_device(x))
        assert found.device == "cuda:0"
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", SIGNALS)
def test_signals(name):
    held(SIGNALS[name], X)


@pytest.mark.parametrize("name", IMAGES)
def test_images(name):
    held(IMAGES[name], IMAGE)


@pytest.mark.parametrize("name", CURVES)
def test_curves(name):
    make = CURVES[name]
    held(lambda y: make(y)([2.5, 4.0]), X)
    held(lambda y: make(y).derivative()(y * 3 + 1), X)
    held(lambda y: make(y).antiderivative()(y * 3 + 1), X)
    held(lambda y: make(y).integrate(1.0, 3.5), X)


@pytest.mark.parametrize("name", GRIDS)
def test_grids(name):
    held(GRIDS[name], IMAGE)


@pytest.mark.parametrize("name", NUMPY)
def test_numpy(name):
    held(NUMPY[name], X)


def test_coordinates_of_large_images_are_made_on_the_device():
    image = on_device(RNG.uniform(size=(120, 120)))
    for f in (lambda x: ndimage.shift(x, [0.5, 0.2]), lambda x: ndimage.zoom(x, 1.1)):
        f(image)
        with no_transfers():
            f(image)


def test_arrays_of_the_user_stay_where_they_are():
    x, image = on_device(X), on_device(IMAGE)
    for f in (
        lambda: signal.lfilter(np.array([1.0, 0.5]), np.array([1.0, 0.2]), x),
        lambda: signal.convolve(x, np.ones(3)),
        lambda: ndimage.correlate1d(image, np.ones(3)),
        lambda: ndimage.map_coordinates(image, np.ones((2, 3))),
        lambda: interpolate.CubicSpline(np.arange(16.0), x),
        lambda: interpolate.PchipInterpolator(LINE, x)(np.ones(3)),
        lambda: fnp.array([x[:2], np.ones(2)]),
    ):
        with pytest.raises(TypeError, match="different devices, cuda:0 and cpu"):
            f()


def test_creation_follows_the_default_device():
    with fg.default_device("cuda:1"):
        made = [
            fnp.indices((2, 3)),
            *fnp.indices((2, 3), sparse=True),
            fnp.fromfunction(lambda i, j: i + fnp.ones(3) * j, (2, 3)),
            fnp.asarray_chkfinite([1.0, 2.0]),
            fnp.mgrid[:2, :3],
        ]
        with pytest.raises(ValueError, match="infs or NaNs"):
            fnp.asarray_chkfinite([np.nan])
    assert {t.device for t in made} == {"cuda:1"}
    for t, e in zip(made, [np.indices((2, 3)), *np.indices((2, 3), sparse=True)], strict=False):
        np.testing.assert_array_equal(t.numpy(), e)
    assert fnp.indices((2, 3)).device == "cpu"
