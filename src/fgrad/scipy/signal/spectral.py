"""Short-time Fourier transforms and the spectra made of them."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
from scipy import fft as fourier
from scipy import signal as reference

from fgrad.core.dispatch import bind
from fgrad.core.placement import near, placed
from fgrad.docstrings import completes
from fgrad.extend.engine import HOLE, conjugate, convert, for_tensors, imag, inexact, real, together
from fgrad.numpy import fft
from fgrad.numpy.indexing import take
from fgrad.numpy.joining import concatenate
from fgrad.numpy.padding import pad
from fgrad.numpy.products import matmul
from fgrad.numpy.shapes import moveaxis
from fgrad.numpy.statistics import median
from fgrad.scipy.linalg import arguments
from fgrad.scipy.signal.convolution import in_common
from fgrad.scipy.signal.filters import extended


def _segments(window: Any, nperseg: Any, x: Any) -> tuple[Any, int]:
    """Return the window of signals along the last axis, and the length of segments."""
    length = x.shape[-1]
    if nperseg is not None and int(nperseg) < 1:
        raise ValueError("nperseg must be a positive integer")
    if isinstance(window, str | tuple):
        n = 256 if nperseg is None else int(nperseg)
        if n > length:
            warnings.warn(
                f"nperseg = {n} is greater than input length = {length}, using nperseg = {length}",
                stacklevel=4,
            )
            n = length
        return placed(x, reference.get_window(window, n)), n
    window = inexact(together(x, window)[1])
    if len(window.shape) != 1:
        raise ValueError("window must be 1-D")
    n = window.shape[0]
    if length < n:
        raise ValueError("window is longer than input signal")
    if nperseg is not None and int(nperseg) != n:
        raise ValueError("value specified for nperseg is different from length of window")
    return window, n


def _step(nperseg: int, noverlap: int | None) -> int:
    noverlap = nperseg // 2 if noverlap is None else int(noverlap)
    if noverlap >= nperseg:
        raise ValueError("noverlap must be less than nperseg.")
    return nperseg - noverlap


def _length(nfft: int | None, nperseg: int) -> int:
    if nfft is None:
        return nperseg
    if nfft < nperseg:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    return int(nfft)


class _Frames:
    """How a signal is cut into windows, and what a spectrum of one is."""

    def __init__(self, x: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any) -> None:
        self.window, self.nperseg = _segments(window, nperseg, x)
        self.step = _step(self.nperseg, noverlap)
        self.nfft = _length(nfft, self.nperseg)
        self.fs = fs

    def scale(self, scaling: str) -> Any:
        """Return what a squared spectrum is multiplied by."""
        w = self.window
        if scaling == "density":
            return 1.0 / (self.fs * (w * w).sum())
        if scaling == "spectrum":
            return 1.0 / w.sum() ** 2
        raise ValueError(f"Unknown scaling: {scaling!r}")

    def spectra(self, x: Any, detrended: Any, *, onesided: bool) -> Any:
        """Return the transforms of the windows of signals along the last axis: (..., frame, frequency)."""
        count = (x.shape[-1] - self.nperseg) // self.step + 1
        places = np.arange(count)[:, None] * self.step + np.arange(self.nperseg)
        frames = take(x, places, axis=-1)
        if callable(detrended):
            frames = detrended(frames)
        elif detrended:
            frames = detrend(frames, type=detrended)
        dtype = np.empty(0, x.dtype).real.dtype
        w = convert(self.window, dtype) if self.window.dtype.kind == "f" else self.window
        transform = fft.rfft if onesided else fft.fft
        return transform(frames * w, self.nfft)

    def frequencies(self, *, onesided: bool) -> Any:
        """Return the frequencies of a spectrum."""
        return (fourier.rfftfreq if onesided else fourier.fftfreq)(self.nfft, 1 / self.fs)


def _is_onesided(wanted: bool, *xs: Any) -> bool:
    if wanted and any(x.dtype.kind == "c" for x in xs):
        warnings.warn("Input data is complex, switching to return_onesided=False", stacklevel=4)
        return False
    return bool(wanted)


@for_tensors(reference.stft)
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[Any, Any, Any]:
    """Return frequencies, times and the short-time Fourier transform.

    Args:
        x: signals along `axis`.
        fs: the sampling frequency, a number.
        window: a name of `scipy.signal.get_window`, or the window itself, which may be a Tensor.
        nperseg: the length of segments.
        noverlap: how many elements segments share; None: half of them.
        nfft: the length of transforms; None: that of segments.
        detrend: False, "constant", "linear", or a function of the segments (..., frame, time).
        return_onesided: whether to leave out negative frequencies of real signals.
        boundary: how signals go on at their ends: "zeros", "even", "odd", "constant" or None.
        padded: whether zeros are put behind, so that segments fill the signal.
        axis: the axis of time.
        scaling: "spectrum" or "psd".

    Returns:
        Frequencies and times as arrays of float64, and the transform (..., frequency, ..., time), complex,
        frequencies along `axis` and times along a new last axis.

    Raises:
        ValueError: invalid numbers, names or shapes.

    Derivative:
        In the signal and the window; none in `fs`, frequencies and times.

    Source:
        Oppenheim & Schafer (2010), Discrete-Time Signal Processing, 10.3.

    Example:
        >>> f, t, z = stft(np.ones(4), nperseg=2, window="boxcar", boundary=None)
        >>> f, t, z.real
        (array([0. , 0.5]), array([1., 2., 3.]), array([[1., 1., 1.],
               [0., 0., 0.]]))
        >>> fg.grad(lambda x: stft(x, nperseg=2, window="boxcar", boundary=None)[2][0].real.sum())(np.ones(4))
        array([0.5, 1. , 1. , 0.5])
    """
    if scaling not in {"spectrum", "psd"}:
        raise ValueError(f"Parameter scaling={scaling!r} not in ['spectrum', 'psd']!")
    if boundary not in {"even", "odd", "constant", "zeros", None}:
        raise ValueError(
            f"Unknown boundary option '{boundary}', must be one of: "
            "['even', 'odd', 'constant', 'zeros', None]"
        )
    x = moveaxis(inexact(x), axis, -1)
    frames = _Frames(x, fs, window, nperseg, noverlap, nfft)
    n = frames.nperseg
    x = extended(x, n // 2, boundary)
    if padded:
        missing = (-(x.shape[-1] - n) % frames.step) % n
        x = pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, missing)])
    onesided = _is_onesided(return_onesided, x)
    scale = frames.scale("density" if scaling == "psd" else scaling)
    z = frames.spectra(x, detrend, onesided=onesided)
    z = convert(z * np.sqrt(scale), np.result_type(x.dtype, np.complex64))
    times = np.arange(n / 2, x.shape[-1] - n / 2 + 1, frames.step) / float(fs)
    times = times if boundary is None else times - (n / 2) / fs
    return frames.frequencies(onesided=onesided), times, moveaxis(z, -1, axis - (axis < 0))


@for_tensors(reference.istft)
def istft(
    Zxx: Any,  # noqa: N803 -- SciPy's name
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[Any, Any]:
    """Return times and the signal whose short-time Fourier transform is nearest to `Zxx`.

    Args:
        Zxx: the transform (..., frequency, time); which axes these are `freq_axis` and `time_axis` say.
        fs: the sampling frequency, a number.
        window: that of `stft`, as there.
        nperseg: the length of segments.
        noverlap: how many elements segments share; None: half of them.
        nfft: the length of transforms.
        input_onesided: whether negative frequencies are left out.
        boundary: whether the signal was extended at its ends.
        time_axis: the axis of segments.
        freq_axis: the axis of frequencies.
        scaling: that of `stft`.

    Returns:
        Times as an array of float64, and the signal (..., time), real with `input_onesided`, otherwise
        complex.

    Raises:
        ValueError: invalid numbers, names or shapes.

    Derivative:
        In the transform and the window. Where windows sum to nothing, nothing is divided, and a warning says
        so.

    Source:
        Griffin & Lim (1984), Signal estimation from modified short-time Fourier transform, IEEE Trans.
        Acoust. Speech Signal Process. 32.

    Example:
        >>> x = np.array([1.0, 2.0, 3.0, 4.0])
        >>> istft(stft(x, nperseg=2)[2])[1].round(6)
        array([1., 2., 3., 4.])
        >>> fg.grad(lambda z: istft(z)[1][0])(stft(x, nperseg=2)[2])[:, 0].round(6) + 0.0
        array([ 0.5+0.j, -0.5+0.j])
    """
    z = inexact(Zxx)
    z = convert(z, np.result_type(z.dtype, np.complex64))
    rank = len(z.shape)
    if rank < 2:
        raise ValueError("Input stft must be at least 2d!")
    if time_axis % rank == freq_axis % rank:
        raise ValueError("Must specify differing time and frequency axes!")
    if scaling not in {"spectrum", "psd"}:
        raise ValueError(f"Parameter scaling={scaling!r} not in ['spectrum', 'psd']!")
    z = moveaxis(z, (time_axis, freq_axis), (-2, -1))
    count, m = z.shape[-2:]
    default = 2 * (m - 1) if input_onesided else m
    n = default if nperseg is None else int(nperseg)
    if n < 1:
        raise ValueError("nperseg must be a positive integer")
    if nfft is None:
        nfft = n if input_onesided and n == default + 1 else default
    nfft, step = _length(nfft, n), _step(n, noverlap)
    if isinstance(window, str | tuple):
        w = placed(z, reference.get_window(window, n))
    else:
        w = inexact(together(z, window)[1])
    if len(w.shape) != 1:
        raise ValueError("window must be 1-D")
    if w.shape[0] != n:
        raise ValueError(f"window must have length of {n}")
    frames = bind("slice", (fft.irfft if input_onesided else fft.ifft)(z, nfft), index=(..., slice(0, n)))
    w = convert(w, np.empty(0, frames.dtype).real.dtype)
    frames = frames * (w.sum() if scaling == "spectrum" else np.sqrt(fs * (w * w).sum())) * w
    length = n + (count - 1) * step
    places = np.arange(count)[:, None] * step + np.arange(n)
    shape, template = (*frames.shape[:-2], length), (..., HOLE)
    x = bind("scatter_add", frames, places, template=template, shape=shape)
    squares = near(w).ones((count, 1), w.dtype) * (w * w)
    norm = bind("scatter_add", squares, places, template=(HOLE,), shape=(length,))
    if boundary:
        x, norm = (bind("slice", v, index=(..., slice(n // 2, length - n // 2))) for v in (x, norm))
    enough = bind("greater", norm, 1e-10)
    if arguments.is_visible(enough) and not arguments.plain(enough).all():
        warnings.warn(
            "NOLA condition failed, STFT may not be invertible."
            + ("" if boundary else " Possibly due to missing boundary"),
            stacklevel=3,
        )
    x = x / bind("where", enough, norm, 1.0)
    if rank > 2:
        kept, gone = time_axis % rank, freq_axis % rank
        x = moveaxis(x, -1, kept - (gone < kept))
    return np.arange(x.shape[0]) / float(fs), x


# ---- averages


_averaged = completes(
    {
        "x": "signals along `axis`.",
        "fs": "the sampling frequency, a number.",
        "window": "as in `stft`.",
        "nperseg": "the length of segments; None: 256.",
        "noverlap": "as in `stft`.",
        "nfft": "likewise.",
        "detrend": "likewise.",
        "return_onesided": "likewise.",
        "scaling": '"density" or "spectrum".',
        "axis": "the axis of time, and of frequencies.",
        "average": '"mean" or "median" of segments.',
    },
    Raises="ValueError: invalid numbers, names or shapes.",
)


@for_tensors(reference.csd)
@_averaged
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """Return frequencies and the cross power spectral density of two signals, by Welch's method.

    Args:
        y: signals of the same length.

    Returns:
        Frequencies as an array of float64, and the density, complex, with frequencies along `axis`; real
        where x is y.

    Derivative:
        In the signals and the window, through the average; "median" shares ties as `numpy.median` does.

    Source:
        Welch (1967), The use of the fast Fourier transform for the estimation of power spectra, IEEE Trans.
        Audio Electroacoust. 15.

    Differences from SciPy:
        Tensors of different lengths are an error; SciPy pads the shorter one.

    Example:
        >>> x = np.array([1.0, 0.0, -1.0, 0.0])
        >>> csd(x, x, nperseg=4, window="boxcar")[1].real
        array([0., 2., 0.])
        >>> fg.grad(lambda y: csd(x, y, nperseg=4, window="boxcar")[1].real.sum())(x)
        array([ 1.,  0., -1.,  0.])
    """
    if average not in {"mean", "median"}:
        raise ValueError(f"Parameter average={average!r} must be 'median' or 'mean'!")
    same = x is y
    x, y = (moveaxis(v, axis, -1) for v in in_common(x, y))
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"csd: x and y must have one length, not {x.shape[-1]} and {y.shape[-1]}; pad one")
    frames = _Frames(x, fs, window, nperseg, noverlap, nfft)
    onesided = _is_onesided(return_onesided, x, y)
    first = frames.spectra(x, detrend, onesided=onesided)
    second = first if same else frames.spectra(y, detrend, onesided=onesided)
    p = conjugate(first) * second * frames.scale(scaling)
    p = real(p) if same else p
    if onesided:
        factor = np.full(p.shape[-1], 2.0, np.empty(0, x.dtype).real.dtype)
        factor[0] = 1
        if frames.nfft % 2 == 0:
            factor[-1] = 1
        p = p * placed(p, factor)
    count = p.shape[-2]
    if average == "mean":
        p = p.mean(axis=-2)
    else:
        parts = [median(v, axis=-2) for v in ((real(p), imag(p)) if p.dtype.kind == "c" else (p,))]
        p = parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]
        # the median of exponential variables, beside their mean: Schilling (2009)
        p = p / (1 + sum(1.0 / (k + 1) - 1.0 / k for k in range(2, count, 2)))
    dtype = np.result_type(x.dtype, np.complex64)
    p = convert(p, np.empty(0, dtype).real.dtype if same else dtype)
    return frames.frequencies(onesided=onesided), moveaxis(p, -1, axis)


@for_tensors(reference.welch)
@_averaged
def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """Return frequencies and the power spectral density of a signal: `csd` of it with itself.

    Returns:
        Frequencies as an array of float64, and the density, real, with frequencies along `axis`.

    Derivative:
        That of `csd`, in the signal and the window.

    Example:
        >>> x = np.array([1.0, 0.0, -1.0, 0.0])
        >>> welch(x, nperseg=4, window="boxcar")
        (array([0.  , 0.25, 0.5 ]), array([0., 2., 0.]))
        >>> fg.grad(lambda x: welch(x, nperseg=4, window="boxcar")[1].sum())(x)
        array([ 2.,  0., -2.,  0.])
    """
    options = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    found: tuple[Any, Any] = csd(x, x, *options)
    return found


# ---- trends and envelopes


@for_tensors(reference.detrend)
def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False
) -> Any:
    """Return signals less their mean, or less straight lines fitted to them.

    Args:
        data: signals along `axis`.
        axis: the axis of time.
        type: "linear" or "constant".
        bp: indices at which another line begins.
        overwrite_data: taken for SciPy's sake: nothing is overwritten.

    Returns:
        Array of the shape of `data`; floats or complex numbers, integers give float64.

    Raises:
        ValueError: another type, or indices behind the end.

    Derivative:
        Of a linear map, a projection: it is its own adjoint. None in `bp`.

    Example:
        >>> detrend(np.array([1.0, 2.0, 6.0]), type="constant")
        array([-2., -1.,  3.])
        >>> fg.grad(lambda x: detrend(x, type="constant")[0])(np.array([1.0, 2.0, 6.0])).round(6)
        array([ 0.666667, -0.333333, -0.333333])
    """
    if type not in {"linear", "l", "constant", "c"}:
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    x = moveaxis(inexact(data), axis, -1)
    n = x.shape[-1]
    if type in {"constant", "c"}:
        return moveaxis(x - x.mean(axis=-1, keepdims=True), -1, axis)
    ends = np.unique(np.concatenate([np.ravel(bp), [0, n]]).astype(int))
    if np.any(ends > n):
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    parts = []
    for start, stop in itertools.pairwise(ends):
        count = stop - start
        line = np.stack([np.arange(1, count + 1) / count, np.ones(count)], axis=1)
        q = np.linalg.qr(line)[0] if count > 1 else np.ones((1, 1))
        part = bind("slice", x, index=(..., slice(int(start), int(stop))))
        q = placed(x, q.astype(x.dtype))
        parts.append(part - matmul(matmul(part, q), q.T))
    return moveaxis(concatenate(parts, axis=-1), -1, axis)


@for_tensors(reference.hilbert)
def hilbert(x: Any, N: int | None = None, axis: int = -1) -> Any:  # noqa: N803 -- SciPy's name
    """Return the analytic signal of real signals: without negative frequencies.

    Args:
        x: real signals along `axis`.
        N: the length of transforms; None: that of the signals.
        axis: the axis of time.

    Returns:
        Complex array of the shape of `x`, but for N elements along `axis`.

    Raises:
        ValueError: complex signals, or a length below one.

    Derivative:
        Of a linear map of the signal.

    Example:
        >>> hilbert(np.array([1.0, 0.0, -1.0, 0.0])).round(6) + 0.0
        array([ 1.+0.j,  0.+1.j, -1.+0.j,  0.-1.j])
        >>> fg.grad(lambda x: hilbert(x).imag[1])(np.array([1.0, 0.0, -1.0, 0.0])).round(6) + 0.0
        array([ 0.5,  0. , -0.5,  0. ])
    """
    x = inexact(x)
    if x.dtype.kind == "c":
        raise ValueError("x must be real.")
    n = x.shape[axis] if N is None else N
    if n <= 0:
        raise ValueError("N must be positive.")
    factor = np.zeros(n, x.dtype)
    factor[0] = factor[n // 2] = 1
    factor[1 : (n + 1) // 2] = 2
    return moveaxis(fft.ifft(fft.fft(moveaxis(x, axis, -1), n) * placed(x, factor)), -1, axis)
