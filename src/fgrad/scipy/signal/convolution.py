"""Convolutions and correlations in any number of dimensions, by windows or by Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import fft as fourier
from scipy import signal as reference

from fgrad.core.dispatch import bind
from fgrad.docstrings import completes
from fgrad.extend.engine import conjugate, convert, for_tensors, inexact, promoted, reshape, together, windows
from fgrad.numpy import fft
from fgrad.numpy.padding import pad

_MODES = {"full", "same", "valid"}
_BOUNDARIES = {
    **dict.fromkeys(("fill", "pad"), "constant"),
    **dict.fromkeys(("wrap", "circular"), "wrap"),
    **dict.fromkeys(("symm", "symmetric"), "symmetric"),
}


def in_common(*xs: Any) -> list[Any]:
    """Return arrays and Tensors of floating-point numbers in their common dtype; lists go along."""
    values = [inexact(x) for x in together(*xs)]
    dtype = np.result_type(*(v.dtype for v in values))
    return [convert(v, dtype) for v in values]


def _check_mode(mode: str) -> None:
    if mode not in _MODES:
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")


def _swaps(mode: str, first: Sequence[int], second: Sequence[int]) -> bool:
    """Return whether the second operand is the larger one, which 'valid' has to know."""
    if mode != "valid":
        return False
    if all(a >= b for a, b in zip(first, second, strict=True)):
        return False
    if all(a <= b for a, b in zip(first, second, strict=True)):
        return True
    raise ValueError("For 'valid' mode, one must be at least as large as the other in every dimension")


def turned(x: Any) -> Any:
    """Return `x` reversed along every axis."""
    return bind("slice", x, index=(slice(None, None, -1),) * len(x.shape))


def sliding(x: Any, w: Any) -> Any:
    """Return the sums of all windows of `x` that lie in it, weighted by `w`, which is not turned."""
    rank = len(w.shape)
    if not rank:
        return x * w
    y = windows.conv(reshape(x, (1, 1, *x.shape)), reshape(w, (1, 1, *w.shape)), windows.unit(rank))
    return reshape(y, y.shape[2:])


def _centered(x: Any, shape: Sequence[int]) -> Any:
    starts = [(n - m) // 2 for n, m in zip(x.shape, shape, strict=True)]
    return bind("slice", x, index=tuple(slice(s, s + m) for s, m in zip(starts, shape, strict=True)))


@for_tensors(reference.convolve)
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Return the convolution of arrays with equally many axes.

    Args:
        in1: real or complex array; of integers the result is one of integers.
        in2: likewise.
        mode: "full"; "valid", only where the smaller one lies in the other; "same", the middle of "full" of
            the shape of `in1`.
        method: "direct", "fft", or "auto", which chooses by the shapes.

    Returns:
        Array of the promoted dtype; "full" of n + m - 1 elements along each axis, "valid" of max(n, m) -
        min(n, m) + 1.

    Raises:
        ValueError: another number of axes, an unknown mode or method, or in 'valid' none is the larger one.

    Derivative:
        Of a bilinear function: correlations with the other operand.

    Example:
        >>> convolve([1.0, 2.0], [1.0, 3.0])
        array([1., 5., 6.])
        >>> fg.grad(lambda x: convolve(x, np.array([1.0, 2.0])).sum())(np.ones(2))
        array([3., 3.])
    """
    x, y = in_common(in1, in2)
    if len(x.shape) != len(y.shape):
        raise ValueError("volume and kernel should have the same dimensionality")
    return _in_dtype_of(_convolved(x, y, mode, method), in1, in2)


def _in_dtype_of(y: Any, *given: Any) -> Any:
    """Return a result in the dtype to which the operands promote; of integers it is made whole."""
    kind = promoted(*given)
    return convert(y if kind.kind in "fc" else bind("rint", y), kind)


def _convolved(x: Any, y: Any, mode: str, method: str) -> Any:
    if not x.shape:
        return x * y
    _check_mode(mode)
    if _swaps(mode, x.shape, y.shape):
        x, y = y, x
    if method == "auto":
        blank = (np.broadcast_to(np.zeros((), v.dtype), v.shape) for v in (x, y))
        method = reference.choose_conv_method(*blank, mode=mode)
    if method == "fft":
        return fftconvolve(x, y, mode)
    if method != "direct":
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    if mode == "valid":
        return sliding(x, turned(y))
    full = sliding(pad(x, [(n - 1, n - 1) for n in y.shape]), turned(y))
    return full if mode == "full" else _centered(full, x.shape)


@for_tensors(reference.correlate)
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Return the cross-correlation out_k = sum_i in1_(i + k) conj(in2_i).

    Args:
        in1: real or complex array; of integers the result is one of integers.
        in2: likewise, with equally many axes.
        mode: "full"; "valid", only where the smaller one lies in the other; "same", the middle of "full" of
            the shape of `in1`.
        method: "direct", "fft", or "auto", which chooses by the shapes.

    Returns:
        Array of the promoted dtype, of the shape of `convolve`'s.

    Raises:
        ValueError: another number of axes, an unknown mode or method, or in 'valid' none is the larger one.

    Derivative:
        Of a function that is linear in `in1` and conjugate linear in `in2`.

    Example:
        >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0], "valid")
        array([2., 3.])
        >>> fg.grad(lambda y: correlate([1.0, 2.0, 3.0], y, "valid")[1])(np.array([0.0, 1.0]))
        array([2., 3.])
    """
    x, y = in_common(in1, in2)
    if len(x.shape) != len(y.shape):
        raise ValueError("in1 and in2 should have the same dimensionality")
    return _in_dtype_of(_convolved(x, conjugate(turned(y)), mode, method), in1, in2)


_by_transforms = completes(
    {
        "in1": "real or complex array; integers are taken as float64.",
        "in2": "likewise.",
        "mode": "as in `convolve`.",
        "axes": "along which to convolve; along others the operands broadcast. None: all.",
    },
    Returns="Array of the common float or complex dtype, of the shape of `convolve`'s.",
    Raises="ValueError: incompatible shapes, an unknown mode, or no axes.",
    Derivative="That of the transforms, in both operands.",
)


@for_tensors(reference.fftconvolve)
@_by_transforms
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Return the convolution by Fourier transforms.

    Example:
        >>> fftconvolve([1.0, 2.0], [1.0, 3.0]).round(6)
        array([1., 5., 6.])
        >>> fg.grad(lambda x: fftconvolve(x, np.array([1.0, 2.0])).sum())(np.ones(2)).round(6)
        array([3., 3.])
    """
    x, y = in_common(in1, in2)
    rank = len(x.shape)
    if rank != len(y.shape):
        raise ValueError("in1 and in2 should have the same dimensionality")
    if not rank:
        return x * y
    if 0 in (*x.shape, *y.shape):
        return np.asarray([])
    _check_mode(mode)
    given = range(rank) if axes is None else [axes] if isinstance(axes, int) else list(axes)
    if not len(given):
        raise ValueError("when provided, axes cannot be empty")
    along = [a % rank for a in given if x.shape[a] != 1 and y.shape[a] != 1]
    if any(
        i not in along and n != m and 1 not in (n, m)
        for i, (n, m) in enumerate(zip(x.shape, y.shape, strict=True))
    ):
        raise ValueError(f"incompatible shapes for in1 and in2: {tuple(x.shape)} and {tuple(y.shape)}")
    if _swaps(mode, [x.shape[a] for a in along], [y.shape[a] for a in along]):
        x, y = y, x
    shape = [
        n + m - 1 if i in along else max(n, m) for i, (n, m) in enumerate(zip(x.shape, y.shape, strict=True))
    ]
    z = _transformed(x, y, along, shape) if along else x * y
    if mode == "full":
        return z
    valid = [shape[i] if i not in along else x.shape[i] - y.shape[i] + 1 for i in range(rank)]
    return _centered(z, x.shape if mode == "same" else valid)


@for_tensors(reference.oaconvolve)
@_by_transforms
def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Return what `fftconvolve` does.

    Differences from SciPy:
        For Tensors it is one transform of the whole, without overlapping parts.

    Example:
        >>> oaconvolve([1.0, 2.0], [1.0, 3.0]).round(6)
        array([1., 5., 6.])
        >>> fg.grad(lambda x: oaconvolve(x, np.array([1.0, 2.0])).sum())(np.ones(2)).round(6)
        array([3., 3.])
    """
    return fftconvolve(in1, in2, mode, axes)


def _transformed(x: Any, y: Any, along: Sequence[int], shape: Sequence[int]) -> Any:
    is_real = x.dtype.kind == "f"
    lengths = [fourier.next_fast_len(shape[a], is_real) for a in along]
    ahead, back = (fft.rfftn, fft.irfftn) if is_real else (fft.fftn, fft.ifftn)
    z = back(ahead(x, lengths, along) * ahead(y, lengths, along), lengths, along)
    return bind("slice", z, index=tuple(slice(0, n) for n in shape))


# ---- two dimensions, with borders


def _bordered(x: Any, w: Any, mode: str, boundary: str, fillvalue: Any, *, late: bool) -> Any:
    """Return the windows of `x` with a border, weighted by `w`; 'same': of the shape of `x`.

    `late` says at which of two middle elements an even number of weights has its middle.
    """
    if boundary not in _BOUNDARIES:
        raise ValueError("Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric'")
    if mode == "valid":
        return sliding(x, w)
    options = {"constant_values": fillvalue} if _BOUNDARIES[boundary] == "constant" else {}
    wide = pad(x, [(n - 1, n - 1) for n in w.shape], _BOUNDARIES[boundary], **options)
    full = sliding(wide, w)
    if mode == "full":
        return full
    starts = [n // 2 if late else (n - 1) // 2 for n in w.shape]
    return bind("slice", full, index=tuple(slice(s, s + n) for s, n in zip(starts, x.shape, strict=True)))


def _planes(name: str, in1: Any, in2: Any, mode: str) -> tuple[Any, Any]:
    x, y = in_common(in1, in2)
    if len(x.shape) != 2 or len(y.shape) != 2:
        raise ValueError(f"{name} inputs must both be 2-D arrays")
    _check_mode(mode)
    return x, y


_of_matrices = completes(
    {
        "in1": "real or complex matrix; integers are taken as float64.",
        "in2": "likewise.",
        "mode": "as in `convolve`.",
        "boundary": 'what lies around `in1`: "fill" (`fillvalue`), "wrap" or "symm" (mirrored).',
        "fillvalue": "one number.",
    },
    Returns="Matrix of the common float or complex dtype, of the shape of `convolve`'s.",
    Raises="ValueError: operands that are no matrices, an unknown mode or boundary.",
)


@for_tensors(reference.convolve2d)
@_of_matrices
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """Return the convolution of two matrices.

    Derivative:
        In both matrices and `fillvalue`. What is repeated or mirrored around `in1` adds to the elements it
        comes from.

    Example:
        >>> convolve2d([[1.0, 2.0]], [[1.0, 1.0]], mode="same", boundary="wrap")
        array([[3., 3.]])
        >>> fg.grad(lambda v: convolve2d([[1.0, 2.0]], [[1.0, 1.0]], fillvalue=v).sum())(0.0)
        np.float64(2.0)
    """
    x, y = _planes("convolve2d", in1, in2, mode)
    if _swaps(mode, x.shape, y.shape):
        x, y = y, x
    return _bordered(x, turned(y), mode, boundary, fillvalue, late=False)


@for_tensors(reference.correlate2d)
@_of_matrices
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """Return the cross-correlation of two matrices, of `in1` and conj(in2).

    Derivative:
        In both matrices, conjugate linear in `in2`, and in `fillvalue`.

    Example:
        >>> correlate2d([[1.0, 2.0, 3.0]], [[0.0, 1.0]], mode="valid")
        array([[2., 3.]])
        >>> fg.grad(lambda y: correlate2d([[1.0, 2.0, 3.0]], y, mode="valid")[0, 1])(np.array([[0.0, 1.0]]))
        array([[2., 3.]])
    """
    x, y = _planes("correlate2d", in1, in2, mode)
    if _swaps(mode, x.shape, y.shape):
        return turned(_bordered(y, conjugate(x), mode, boundary, fillvalue, late=True))
    return _bordered(x, conjugate(y), mode, boundary, fillvalue, late=True)
