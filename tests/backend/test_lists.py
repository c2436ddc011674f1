"""Numbers in lists, and what the library makes itself, are where the data is; arrays of the user's stay."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
from tests.backend.checks import no_transfers, on_device, same
from tests.helpers import grouped

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.backend import devices
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

ROWS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
V, CHOSEN = [0.5, 1.5, 2.5], [[True, False, True], [False, True, True]]


def written(write):
    """Return the function that writes into a copy of its argument."""

    def f(x):
        y = x * 1.0
        write(y)
        return y

    return f


BINARY = "add sub mul truediv floordiv mod pow eq lt ge iadd isub imul itruediv ipow"
REFLECTED = "add sub mul truediv floordiv mod pow ne le gt"
BITS = "and_ or_ xor lshift rshift ior"


def of_operator(name, program):
    return lambda x: program(getattr(operator, name), x)


OPERATORS = {
    **{n: of_operator(n, lambda f, x: f(x * 1.0, V)) for n in BINARY.split()},
    **{f"{n} reflected": of_operator(n, lambda f, x: f(tuple(V), x)) for n in REFLECTED.split()},
    **{n: of_operator(n, lambda f, x: f(x.astype(int), [1, 0, 1])) for n in BITS.split()},
    "matmul": lambda x: x @ V,
    "matmul reflected": lambda x: [1.0, 2.0] @ x,
    "divmod": lambda x: divmod(x, V)[1],
    "a list of Tensors": lambda x: x - [x[0, 0], 1.0, x[1, 1]],
}
METHODS_OF_TENSORS = {
    "clip": lambda x: x.clip(V, [1.0, 2.0, 3.0]),
    "dot": lambda x: x.dot(V),
    "take": lambda x: x.take([0, 3]),
    "repeat": lambda x: x.repeat([1, 2], 0),
    "compress": lambda x: x.compress([True, False], 0),
    "choose": lambda x: (x > 2).astype(int).choose([[1.0, 2, 3], x]),
    "searchsorted": lambda x: x[0].searchsorted([1.5, 2.5]) * x[0, 0],
    "sum": lambda x: x.sum(where=[True, False, True]),
    "var": lambda x: x.var(axis=0, where=[[True], [False]]),
    "max": lambda x: x.max(where=[True, False, True], initial=0.0),
}
INDICES = {
    "mask": lambda x: x[[True, False]],
    "mask of elements": lambda x: x[CHOSEN],
    "places": lambda x: x[[1, 0], [2, 1]],
    "columns": lambda x: x[:, [2, 1]],
    "none": lambda x: x[[]],
    "set": written(lambda y: operator.setitem(y, 0, V)),
    "set everything": written(lambda y: operator.setitem(y, ..., V)),
    "set by a mask": written(lambda y: operator.setitem(y, [True, False], V)),
    "set elements": written(lambda y: operator.setitem(y, CHOSEN, [1.0, 2, 3, 4])),
    "set places": written(lambda y: operator.setitem(y, ([0, 1], [1, 2]), [9.0, 8.0])),
    "set columns": written(lambda y: operator.setitem(y, (slice(None), [0, 2]), [[1.0, 2.0]])),
    "flat": written(lambda y: operator.setitem(y.flat, [0, 3], [7.0, 8.0])),
}
WRITING = {
    "put": written(lambda y: np.put(y, [0, 4], [7.0, 8.0])),
    "place": written(lambda y: np.place(y, CHOSEN, [7.0, 8.0])),
    "putmask": written(lambda y: np.putmask(y, CHOSEN, [7.0, 8.0])),
    "copyto": written(lambda y: np.copyto(y, V, where=[True, False, True])),
    "fill_diagonal": written(lambda y: np.fill_diagonal(y, [7.0, 8.0])),
    "put_along_axis": written(lambda y: np.put_along_axis(y, np.array([[0], [1]]), [[7.0], [8.0]], 1)),
    "add.at": written(lambda y: np.add.at(y, [0, 0], V)),
    "multiply.at": written(lambda y: np.multiply.at(y, ([0, 0], [1, 1]), [2.0, 3.0])),
    "maximum.at": written(lambda y: np.maximum.at(y, ([0, 0], [1, 1]), [2.0, 3.0])),
}
UFUNCS = {
    "outer": lambda x: np.add.outer(x, V),
    "outer reflected": lambda x: np.multiply.outer(V, x),
    "reduceat": lambda x: np.add.reduceat(x, [0, 1], axis=1),
    "add.reduce": lambda x: np.add.reduce(x, where=[True, False, True]),
    "multiply.reduce": lambda x: np.multiply.reduce(x, 1, where=[True, False, True], initial=2.0),
    "maximum.reduce": lambda x: np.maximum.reduce(x, 1, where=[True, False, True], initial=-1.0),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x, 1, where=[True, False, True]),
    "where": lambda x: np.sin(x, where=[True, False, True], out=fnp.zeros_like(x)),
    "where and out": lambda x: np.add(x, V, where=[True, False, True], out=x * 1.0),
    "dtype": lambda x: np.add(x, [1, 2, 3], dtype=np.float32),
}
BESIDES = {  # what no case of the functions says
    "select": lambda x: np.select([x > 3, [[True, False, True]] * 2], [x, V], -1.0),
    "vectorize": lambda x: fnp.vectorize(lambda a, b: a * b)(x, V),
    "apply_along_axis": lambda x: np.apply_along_axis(lambda v: v + V, 1, x),
    "poly1d": lambda x: np.polyadd(np.poly1d([1.0, 2.0]), x[0]),
    "edges and weights": lambda x: np.histogram(x, [0.0, 2, 4, 6], weights=[V, V])[0] * 1.0,
    "what is counted": lambda x: np.histogram([V, V], [0.0, 2, 4, 6], weights=x)[0],
    "bincount": lambda x: np.bincount([0, 1, 1], x[0]),
    "cov": lambda x: np.cov(x, aweights=V),
    "quantile": lambda x: np.quantile(x, [0.2, 0.7], 1, weights=V, method="inverted_cdf"),
}
PROGRAMS = {
    f"{kind}: {name}": f
    for kind, programs in (
        ("operators", OPERATORS),
        ("methods", METHODS_OF_TENSORS),
        ("indices", INDICES),
        ("writing", WRITING),
        ("ufuncs", UFUNCS),
        ("besides", BESIDES),
    )
    for name, f in programs.items()
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


def pulled_back(f, x):
    """Return the cotangent that a function hands back for a random one of its result."""
    y, back = fg.vjp(f, x)
    ct = np.random.default_rng(0).uniform(0.5, 1.5, y.shape).astype(y.dtype)
    return back(fg.tensor(ct, device=y.device))


TRANSFORMED = {
    "values": lambda f, x: f(x),
    "reverse": pulled_back,
    "forward": lambda f, x: fg.jvp(f, (x,), (x * 0.5,)),
    "vmap": lambda f, x: fg.vmap(f)(fnp.stack([x, x + 1])),
    "jit": lambda f, x: fg.jit(f)(x),
    "jit of reverse": lambda f, x: fg.jit(fg.grad(lambda x: fnp.sum(f(x) * 1.0)))(x),
}
UNKNOWN = {  # programs that look at values, which do not exist in vmap and jit
    *("methods: choose", "ufuncs: where", "besides: vectorize"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lists_beside_a_tensor_go_where_it_is(name):
    f = PROGRAMS[name]
    same(f(on_device(ROWS)), f(ROWS.copy()))


@grouped("name", PROGRAMS, lambda name: name.partition(":")[0], quick=4)
@pytest.mark.parametrize("kind", TRANSFORMED)
def test_lists_in_transformations(name, kind):
    run, f = TRANSFORMED[kind], PROGRAMS[name]
    try:
        expected = run(f, fg.tensor(ROWS))
    except (TypeError, ValueError):
        pytest.skip("the CPU refuses it too: no slope, or no value that it needs")
    same(run(f, on_device(ROWS)), expected)


def test_lists_are_sent_once():
    x = on_device(ROWS)

    def f(x):
        return fnp.where([True, False, True], x * V, 0.0) + np.clip(x, V, 3.0)

    before = devices.transfers()["to_device"]
    f(x)
    assert devices.transfers()["to_device"] <= before + 2
    with no_transfers():
        f(x)


def test_arrays_of_numpy_beside_a_tensor_are_refused():
    x, v = on_device(ROWS), np.array(V)
    for f in (
        lambda: x + v,
        lambda: np.where(x > 1, x, v),
        lambda: np.clip(x, v, 3.0),
        lambda: x @ v,
        lambda: np.einsum("ij,j", x, v),
        lambda: np.append(x, v),
        lambda: np.average(x, 1, v),
        lambda: np.linalg.solve(x @ x.T, np.ones(2)),
        lambda: np.histogram(x, v),
        lambda: np.put(x, [0, 1], v),
        lambda: operator.setitem(x, 0, v),
    ):
        with pytest.raises(TypeError, match="different devices, cuda:0 and cpu"):
            f()


def test_numbers_of_numpy_in_compiled_reverse_steps():
    # a number that was kept is an argument of the kernel, not an array
    x = on_device(ROWS)
    for number in (np.array(0.3), np.float64(0.3), 0.3):
        expected = 1 / (1 + np.exp(0.3 - ROWS))
        found = fg.grad(lambda x, n=number: fnp.logaddexp(n, x).sum())(x)
        np.testing.assert_allclose(found.numpy(), expected)
