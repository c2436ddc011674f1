"""fgrad.scipy.signal: SciPy's values for Tensors, derivatives to second order, vmap and jit."""

import numpy as np
import pytest
from scipy import signal as reference
from tests.helpers import close
from tests.scipy.checking import agrees, check, normal

import fgrad as fg
from fgrad.scipy import signal
from fgrad.testing import check_grads


def same(name, *args, **options):
    """Assert that a function has SciPy's values for Tensors."""
    given = [fg.tensor(x) if isinstance(x, np.ndarray) else x for x in args]
    agrees(getattr(signal, name)(*given, **options), getattr(reference, name)(*args, **options), 1e-9)


def held(name, *args, order=2, compiled=False, **options):
    """Check a function in every transformation."""
    f, g = (lambda *xs, m=m: getattr(m, name)(*xs, **options) for m in (signal, reference))
    check(f, args, g, order, rtol=1e-9, compiled=compiled)


PAIRS = [((5,), (3,)), ((4,), (4,)), ((3,), (6,)), ((6,), (2,)), ((5, 4), (3, 2)), ((2, 3), (4, 4)),
    ((3, 1, 4), (2, 1, 3))]  # fmt: skip


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("method", ["direct", "fft", "auto"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_values_of_convolutions(name, mode, method):
    for n, m in PAIRS:
        for dtype in (float, complex, np.float32):
            x, y = normal(*n, dtype=dtype), normal(*m, dtype=dtype, seed=1)
            given = getattr(signal, name)(fg.tensor(x), y, mode=mode, method=method)
            expected = getattr(reference, name)(x, y, mode=mode, method=method)
            assert given.dtype == expected.dtype
            close(given, expected, 1e-4 if dtype is np.float32 else 1e-10)


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("method", ["direct", "fft"])
def test_derivatives_of_convolutions(name, method):
    for dtype, (n, m) in [(float, PAIRS[4]), (complex, PAIRS[0])]:
        x, y = normal(*n, dtype=dtype), normal(*m, dtype=dtype, seed=1)
        for mode in ("full", "same", "valid"):
            check_grads(lambda x, y: getattr(signal, name)(x, y, mode=mode, method=method), (x, y), 2)
    held(name, normal(5), normal(3, seed=1), mode="same", method=method)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_planes(name, mode, boundary):
    options = {"mode": mode, "boundary": boundary, "fillvalue": 0.7}
    for n, m in [((5, 4), (3, 3)), ((5, 4), (2, 2)), ((2, 3), (4, 4)), ((2, 2), (6, 7))]:
        for dtype in (float, complex):
            same(name, normal(*n, dtype=dtype), normal(*m, dtype=dtype, seed=1), **options)
    x, y = normal(3, 4), normal(2, 3, seed=1)
    check_grads(lambda x, y: getattr(signal, name)(x, y, **options), (x, y), 2)
    if mode == "same":
        held(name, x, y, order=1, **options)
        assert fg.grad(lambda v: getattr(signal, name)(x, y, mode, "fill", v).sum())(0.5) == pytest.approx(
            getattr(reference, name)(np.zeros((3, 4)), y, mode, "fill", 1.0).sum()
        )


@pytest.mark.parametrize("axes", [None, 0, -1, (0, 1)])
def test_axes_of_fftconvolve(axes):
    x, y = normal(5, 4), normal(*{0: (3, 4), -1: (5, 3)}.get(axes, (3, 3)), seed=1)
    for mode in ("full", "same", "valid"):
        for name in ("fftconvolve", "oaconvolve"):
            same(name, x, y, mode=mode, axes=axes)
    check_grads(lambda x, y: signal.fftconvolve(x, y, "same", axes), (x, y), 2)


@pytest.mark.parametrize("nb, na", [(3, 3), (1, 3), (3, 1), (4, 2), (1, 1)])
def test_lfilter(nb, na):
    b, a, x = normal(nb), np.r_[1.5, normal(na - 1, seed=1) * 0.3], normal(2, 6, seed=2)
    order = max(nb, na) - 1
    zi = normal(2, order, seed=3)
    same("lfilter", b, a, x)
    same("lfilter", b, a, x, axis=0)
    same("lfilter", b, a, normal(6, dtype=complex), zi=zi[0])
    same("lfilter", b, a, x, zi=zi)
    same("lfilter", b, a, x, zi=zi[:1])
    same("lfilter", b, a, x[0, :2], zi=zi[0])
    close(
        signal.lfilter(b.astype("f"), a.astype("f"), fg.tensor(x.astype("f"))),
        reference.lfilter(b, a, x),
        1e-4,
    )
    check_grads(signal.lfilter, (b, a, x), 2)
    check_grads(lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi), (b, a, x, zi), 1)
    check_grads(signal.lfilter, (b + 0.3j, a - 0.1j, x + 0.5j), 1)


def test_lfilter_in_every_transformation():
    b, a, x = normal(3), np.array([1.5, 0.3, -0.2]), normal(6, seed=2)
    held("lfilter", b, a, x, compiled=True)
    held("lfilter_zi", b, a)
    states = lambda x, zi: signal.lfilter(b, a, x, zi=zi)
    check(states, (x, normal(2)), lambda x, zi: reference.lfilter(b, a, x, zi=zi), rtol=1e-9)


def test_a_filter_in_parts_is_the_filter():
    b, a, x = normal(3), np.array([1.5, 0.3, -0.2]), normal(9, seed=2)

    def in_parts(x):
        first, state = signal.lfilter(b, a, x[:4], zi=np.zeros(2))
        second, _ = signal.lfilter(b, a, x[4:], zi=state)
        return np.concatenate([first, second])

    close(fg.jacrev(in_parts)(x), fg.jacrev(lambda x: signal.lfilter(b, a, x))(x))


def test_sections():
    sos, x = reference.butter(5, 0.3, output="sos"), normal(2, 12)
    same("sosfilt", sos, x)
    same("sosfilt", sos, x.T, axis=0)
    same("sosfilt", sos, x, zi=normal(3, 2, 2))
    same("sosfilt", sos, x.T, axis=0, zi=normal(3, 2, 2))
    same("sosfilt_zi", sos)
    check(lambda x: signal.sosfilt(sos, x), (x[0],), lambda x: reference.sosfilt(sos, x), rtol=1e-9)
    free = lambda p: np.concatenate([p[:, :3], np.ones((3, 1)), p[:, 3:]], axis=1)
    parameters = np.delete(sos, 3, axis=1)
    check_grads(lambda p, x, zi: signal.sosfilt(free(p), x, zi=zi), (parameters, x[0], normal(3, 2)), 1)


@pytest.mark.parametrize("padtype", ["odd", "even", "constant", None])
def test_filtfilt(padtype):
    b, a = reference.butter(2, 0.4)
    same("filtfilt", b, a, normal(2, 12), padtype=padtype)
    same("filtfilt", b, a, normal(12, 2), axis=0, padtype=padtype, padlen=5)
    check_grads(lambda b, a, x: signal.filtfilt(b, a, x, padtype=padtype, padlen=3), (b, a, normal(6)), 1)


FRAMES = [
    {}, {"nperseg": 7}, {"noverlap": 6, "boundary": None}, {"padded": False},
    {"boundary": "odd", "detrend": "constant"}, {"boundary": "even", "detrend": "linear", "scaling": "psd",
    "fs": 3.0}, {"boundary": "constant", "nfft": 12}, {"return_onesided": False},
]  # fmt: skip


@pytest.mark.parametrize("options", FRAMES, ids=str)
def test_short_time_transforms(options):
    options = {"nperseg": 8, **options}
    x = normal(2, 29)
    same("stft", x, **options)
    same("stft", x.T, axis=0, **options)
    inverse = {k: v for k, v in options.items() if k in {"nperseg", "noverlap", "fs", "scaling", "nfft"}}
    inverse["input_onesided"] = options.get("return_onesided", True)
    inverse["boundary"] = options.get("boundary", "zeros") is not None
    z = reference.stft(x, **options)[2]
    if inverse["boundary"]:
        same("istft", z, **inverse)
        same("istft", np.moveaxis(z, -1, 0), time_axis=0, freq_axis=-1, **inverse)
    spectra = {k: v for k, v in options.items() if k not in {"boundary", "padded", "scaling"}}
    for average in ("mean", "median"):
        same("csd", x, normal(2, 29, seed=1), average=average, **spectra)
        same("welch", x, average=average, **spectra)
    check_grads(lambda x: signal.stft(x, **options)[2], (x[0],), 2)
    check_grads(lambda x: signal.welch(x, **spectra)[1], (x[0],), 1)
    if inverse["boundary"]:
        check_grads(lambda z: signal.istft(z, **inverse)[1], (z[0],), 1)


def test_windows_have_gradients():
    x, w = normal(20), 1 + normal(6, seed=1) ** 2
    same("stft", x, window=w, nperseg=None)
    check_grads(lambda x, w: signal.stft(x, window=w, nperseg=6)[2], (x, w), 2)
    z = reference.stft(x, window=w, nperseg=6)[2]
    check_grads(lambda z, w: signal.istft(z, window=w)[1], (z, w), 1)


def test_short_time_transforms_in_every_transformation():
    there = lambda x: signal.stft(x, nperseg=8)[2]
    check(there, (normal(20),), lambda x: reference.stft(x, nperseg=8)[2], rtol=1e-9, compiled=True)
    back = lambda x: signal.istft(signal.stft(x, nperseg=8)[2], nperseg=8)[1]
    check(back, (normal(20),), lambda x: x, rtol=1e-9)
    check(lambda x: signal.csd(x, x**2, nperseg=8)[1], (normal(20),), order=1, rtol=1e-9)


def test_trends_and_envelopes():
    x = normal(2, 9)
    for options in ({}, {"axis": 0, "type": "constant"}, {"bp": [4]}, {"bp": [4, 5]}):
        same("detrend", x, **options)
        check_grads(lambda x: signal.detrend(x, **options), (x,), 1)
    for n in (5, 6):
        same("hilbert", normal(2, n))
        same("hilbert", normal(n, 2), axis=0)
        same("hilbert", normal(2, n), N=8)
    check(signal.hilbert, (normal(6),), reference.hilbert, rtol=1e-9)


def test_arrays_are_scipys():
    x = np.arange(5)
    assert signal.convolve(x, x).dtype == x.dtype
    close(signal.convolve(fg.tensor(x), x), reference.convolve(x, x))


T = fg.tensor(np.ones(4))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: signal.convolve(T, np.ones((2, 2))), ValueError, "same dimensionality"),
        (lambda: signal.convolve(T, T, "other"), ValueError, "acceptable mode flags"),
        (lambda: signal.convolve(T, T, method="other"), ValueError, "method flags"),
        (
            lambda: signal.convolve(np.ones((2, 3)), fg.tensor(np.ones((3, 2))), "valid"),
            ValueError,
            "at least as",
        ),
        (lambda: signal.correlate(T, np.ones((2, 2))), ValueError, "same dimensionality"),
        (lambda: signal.fftconvolve(T, T, axes=[]), ValueError, "axes cannot be empty"),
        (
            lambda: signal.fftconvolve(np.ones((3, 4)), fg.tensor(np.ones((2, 2))), axes=0),
            ValueError,
            "incompat",
        ),
        (lambda: signal.convolve2d(T, T), ValueError, "2-D"),
        (lambda: signal.convolve2d(T[None], T[None], boundary="other"), ValueError, "boundary flags"),
        (lambda: signal.lfilter(T[None], T, T), ValueError, "non-empty 1d array"),
        (lambda: signal.lfilter(T, T, T, zi=np.ones(2)), ValueError, "Unexpected shape for parameter zi"),
        (lambda: signal.lfilter(T, T, T, zi=np.ones((1, 3))), ValueError, "must match"),
        (lambda: signal.sosfilt(np.ones((1, 5)), T), ValueError, "n_sections, 6"),
        (lambda: signal.sosfilt(2 * np.ones((1, 6)), T), ValueError, "should be all ones"),
        (lambda: signal.sosfilt(np.ones((1, 6)), T, zi=np.ones(2)), ValueError, "Invalid zi shape"),
        (lambda: signal.filtfilt(T, T, T), ValueError, "greater than padlen"),
        (lambda: signal.filtfilt(T, T, T, method="gust"), NotImplementedError, "use method='pad'"),
        (lambda: signal.stft(T, boundary="other"), ValueError, "boundary option"),
        (lambda: signal.stft(T, nperseg=2, noverlap=2), ValueError, "noverlap must be less"),
        (lambda: signal.stft(T, window=np.ones(5), nperseg=None), ValueError, "longer than input"),
        (lambda: signal.stft(T, nperseg=4, nfft=2), ValueError, "greater than or equal to nperseg"),
        (lambda: signal.istft(T), ValueError, "at least 2d"),
        (lambda: signal.csd(T, np.ones(3), nperseg=2), ValueError, "one length"),
        (lambda: signal.detrend(T, type="other"), ValueError, "Trend type"),
        (lambda: signal.hilbert(T * 1j), ValueError, "x must be real"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_warnings():
    with pytest.warns(UserWarning, match="using nperseg = 4"):
        signal.stft(T)
    with pytest.warns(UserWarning, match="switching to return_onesided=False"):
        signal.stft(T * 1j, nperseg=2)
    with pytest.warns(UserWarning, match="NOLA condition failed"):
        signal.istft(fg.tensor(np.ones((3, 4))), boundary=False)
