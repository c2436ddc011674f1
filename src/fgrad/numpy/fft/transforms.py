"""One transform a function: along an axis by its primitive, along several by one after the other."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.core.dispatch import bind
from fgrad.core.tensor import Tensor
from fgrad.core.views import unordered
from fgrad.docstrings import completes
from fgrad.numpy.arrays import as_value, asarray
from fgrad.numpy.permutations import roll
from fgrad.numpy.registry import as_array, implements, stored
from fgrad.ops.fft import ADJOINT_NORM

F = TypeVar("F", bound=Callable[..., Any])


def _norm(norm: Any) -> str:
    if norm is None:
        return "backward"
    if norm not in ADJOINT_NORM:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return str(norm)


def _resized(a: Any, n: int, axis: int) -> Any:
    """Return `a` cropped or padded with zeros to the length `n` along `axis`."""
    length = a.shape[axis]
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    lead = (slice(None),) * axis
    if n < length:
        return bind("slice", a, index=(*lead, slice(0, n)))
    if n > length:
        shape = (*a.shape[:axis], n, *a.shape[axis + 1 :])
        return bind("slice_backward", a, shape=shape, index=(*lead, slice(0, length)))
    return a


def _transform(name: str, a: Any, n: Any, axis: int, norm: Any) -> Any:
    place = normalize_axis_index(axis, len(a.shape))
    given = a
    a = _resized(a, a.shape[place] if n is None else operator.index(n), place)
    return unordered(bind(name, a, axis=place, norm=_norm(norm)), given)


def _to_real(a: Any, n: Any, axis: int, norm: Any) -> Any:
    place = normalize_axis_index(axis, len(a.shape))
    n = 2 * (a.shape[place] - 1) if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    return unordered(bind("irfft", _resized(a, n // 2 + 1, place), axis=place, norm=_norm(norm), n=n), a)


def _plan(
    a: Any, s: Any, axes: Any, *, half: bool = False, to_real: bool = False
) -> list[tuple[int | None, int]]:
    """Return length and axis of each transform, in NumPy's order of `axes`."""
    if axes is None:
        if s is not None:
            warnings.warn(
                "`axes` should not be `None` if `s` is not `None` (Deprecated in NumPy 2.0)",
                DeprecationWarning,
                stacklevel=3,
            )
        axes = range(-len(a.shape if s is None else s), 0)
    axes = [normalize_axis_index(int(i), len(a.shape)) for i in axes]
    if s is None:
        lengths: list[int | None] = [a.shape[i] for i in axes]
        if to_real and axes:
            lengths[-1] = None
    else:
        lengths = list(s)
        if len(lengths) != len(axes):
            raise ValueError("Shape and axes have different lengths.")
        lengths = [a.shape[i] if n == -1 else n for n, i in zip(lengths, axes, strict=True)]
    if half and not axes:
        raise IndexError("a transform of real numbers needs an axis for its half spectrum")
    return list(zip(lengths, axes, strict=True))


def _several(name: str, a: Any, plan: Sequence[tuple[int | None, int]], norm: Any) -> Any:
    for n, axis in plan:
        a = _transform(name, a, n, axis, norm)
    return as_array(a)


_said = completes({}, Raises="ValueError: a length is not positive, or an unknown `norm`.")


def _transforms(theirs: F) -> Callable[[F], F]:
    """Return the decorator of a transform for Tensors, and what most of them raise; arrays are NumPy's."""

    def decorate(f: F) -> F:
        @functools.wraps(_said(f))
        def transform(a: Any, *args: Any, **kw: Any) -> Any:
            a = as_value(a)
            is_tensor = any(isinstance(x, Tensor) for x in (a, *args, *kw.values()))
            return (f if is_tensor else theirs)(a, *args, **kw)

        return cast("F", implements(theirs)(transform))

    return decorate


@_transforms(np.fft.fft)
def fft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """Return the discrete Fourier transform along an axis.

    out_k = sum_j a_j exp(-2 pi i j k / n)

    Args:
        a: real or complex array.
        n: length of the transform: `a` is cropped or padded with zeros; None keeps its length.
        axis: the axis to transform.
        norm: where the factor 1 / n goes: "backward" (None: the inverse), "forward", or "ortho" (half each).
        out: Tensor or array to write to.

    Returns:
        Complex array, of single precision for float32 and complex64.

    Raises:
        ValueError: a length below one, or an unknown norm.
        AxisError: `axis` is not an axis of `a`.

    Derivative:
        The transform itself; the gradient of a real array is real.

    Example:
        >>> fnp.fft.fft(np.array([1.0, 0.0, 0.0, 0.0]))
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return stored(_transform("fft", a, n, axis, norm), out)


@_transforms(np.fft.ifft)
def ifft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """Return the inverse of `fft` along an axis: a_j = sum_k out_k exp(2 pi i j k / n) / n.

    Returns:
        Array of the shape of `a`, of length `n` where given; complex, in the precision of `a`.

    Derivative:
        Linear: `ifft` of the cotangent.

    Example:
        >>> fnp.fft.ifft(np.array([4.0, 0.0, 0.0, 0.0]))
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return stored(_transform("ifft", a, n, axis, norm), out)


@_transforms(np.fft.rfft)
def rfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """Return the first n // 2 + 1 elements of the Fourier transform of real numbers.

    Returns:
        Array of n // 2 + 1 elements along the axis; complex, in the precision of `a`.

    Raises:
        ValueError: a length is not positive, or an unknown `norm`.
        TypeError: complex numbers.

    Derivative:
        Linear; of real arrays real.

    Example:
        >>> fnp.fft.rfft(np.array([1.0, 0.0, 0.0, 0.0]))
        array([1.+0.j, 1.+0.j, 1.+0.j])
    """
    return stored(_transform("rfft", a, n, axis, norm), out)


@_transforms(np.fft.irfft)
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """Return the inverse of `rfft`, of length n, by default the even one: 2 (m - 1) from m elements.

    Returns:
        Array of the shape of `a`, of length `n` along the axis; real, in the precision of `a`.

    Derivative:
        Linear in the real and imaginary parts; the imaginary parts of the first element and, for even n, of
        the last are ignored and have gradient zero.

    Example:
        >>> fnp.fft.irfft(np.array([4.0, 0.0, 0.0]))
        array([1., 1., 1., 1.])
    """
    return stored(_to_real(a, n, axis, norm), out)


@_transforms(np.fft.hfft)
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """Return the real Fourier transform of a signal of which half is given, the other half mirroring it.

    Returns:
        Array of length `n`, 2 (m - 1) of m elements by default; real, in the precision of `a`.

    Derivative:
        Linear in real and imaginary parts; the imaginary parts of the first and, for an even length, the last
        element
        have none.

    Example:
        >>> fnp.fft.hfft(np.array([1.0, 2.0, 1.0]))
        array([ 6.,  0., -2.,  0.])
    """
    return stored(_to_real(bind("conjugate", a), n, axis, ADJOINT_NORM[_norm(norm)]), out)


@_transforms(np.fft.ihfft)
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """Return the inverse of `hfft`: the first half of a signal whose spectrum is real.

    Returns:
        Array of n // 2 + 1 elements; complex, in the precision of `a`.

    Derivative:
        Linear; of real arrays real.

    Example:
        >>> fnp.fft.ihfft(np.array([4.0, 0.0, 0.0, 0.0]))
        array([1.-0.j, 1.-0.j, 1.-0.j])
    """
    return stored(bind("conjugate", _transform("rfft", a, n, axis, ADJOINT_NORM[_norm(norm)])), out)


@_transforms(np.fft.fftn)
def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """Return the Fourier transform along several axes (None: all), of lengths `s` (-1: as they are).

    An axis that is named twice is transformed twice.

    Returns:
        Array of the shape of `a`, of lengths `s` where given; complex, in the precision of `a`.

    Raises:
        ValueError: `s` and `axes` differ in length, a length is not positive, or an unknown `norm`.

    Derivative:
        Linear: `fftn` of the cotangent.

    Example:
        >>> fnp.fft.fftn(np.eye(2))
        array([[2.+0.j, 0.+0.j],
               [0.+0.j, 2.+0.j]])
    """
    return stored(_several("fft", a, _plan(a, s, axes)[::-1], norm), out)


@_transforms(np.fft.ifftn)
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """Return the inverse of `fftn`.

    Returns:
        Array of the shape of `a`, of lengths `s` where given; complex, in the precision of `a`.

    Raises:
        ValueError: `s` and `axes` differ in length, a length is not positive, or an unknown `norm`.

    Derivative:
        Linear: `ifftn` of the cotangent.

    Example:
        >>> fnp.fft.ifftn(np.ones((2, 2)))
        array([[1.+0.j, 0.+0.j],
               [0.+0.j, 0.+0.j]])
    """
    return stored(_several("ifft", a, _plan(a, s, axes)[::-1], norm), out)


@_transforms(np.fft.rfftn)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """Return the Fourier transform of real numbers along several axes, half of it along the last one.

    Returns:
        Array with n // 2 + 1 elements along the last axis; complex, in the precision of `a`.

    Raises:
        ValueError: `s` and `axes` differ in length, a length is not positive, or an unknown `norm`.

    Derivative:
        Linear; of real arrays real.

    Example:
        >>> fnp.fft.rfftn(np.eye(2))
        array([[2.+0.j, 0.+0.j],
               [0.+0.j, 2.+0.j]])
    """
    *others, (n, last) = _plan(a, s, axes, half=True)
    return stored(_several("fft", _transform("rfft", a, n, last, norm), others[::-1], norm), out)


@_transforms(np.fft.irfftn)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Any:
    """Return the inverse of `rfftn`; the last length is by default the even one.

    Returns:
        Array of lengths `s` where given; real, in the precision of `a`.

    Raises:
        ValueError: `s` and `axes` differ in length, a length is not positive, or an unknown `norm`.

    Derivative:
        Linear in real and imaginary parts, as that of `irfft`.

    Example:
        >>> fnp.fft.irfftn(np.array([[4.0, 0.0], [0.0, 0.0]]))
        array([[1., 1.],
               [1., 1.]])
    """
    *others, (n, last) = _plan(a, s, axes, half=True, to_real=True)
    return stored(_to_real(_several("ifft", a, others, norm), n, last, norm), out)


@_transforms(np.fft.fft2)
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """Return the Fourier transform along two axes.

    Returns:
        Array of the shape of `a`, of lengths `s` where given; complex, in the precision of `a`.

    Derivative:
        Linear: `fft2` of the cotangent.

    Example:
        >>> fnp.fft.fft2(np.eye(2))
        array([[2.+0.j, 0.+0.j],
               [0.+0.j, 2.+0.j]])
    """
    return fftn(a, s, axes, norm, out)


@_transforms(np.fft.ifft2)
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """Return the inverse of `fft2`.

    Returns:
        Array of the shape of `a`, of lengths `s` where given; complex, in the precision of `a`.

    Derivative:
        Linear: `ifft2` of the cotangent.

    Example:
        >>> fnp.fft.ifft2(np.ones((2, 2)))
        array([[1.+0.j, 0.+0.j],
               [0.+0.j, 0.+0.j]])
    """
    return ifftn(a, s, axes, norm, out)


@_transforms(np.fft.rfft2)
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """Return the Fourier transform of real numbers along two axes, half of it along the last one.

    Returns:
        Array with n // 2 + 1 elements along the last axis; complex, in the precision of `a`.

    Derivative:
        Linear; of real arrays real.

    Example:
        >>> fnp.fft.rfft2(np.eye(2))
        array([[2.+0.j, 0.+0.j],
               [0.+0.j, 2.+0.j]])
    """
    return rfftn(a, s, axes, norm, out)


@_transforms(np.fft.irfft2)
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Any:
    """Return the inverse of `rfft2`.

    Returns:
        Array of lengths `s` where given, else the last one even; real, in the precision of `a`.

    Derivative:
        Linear in real and imaginary parts, as that of `irfft`.

    Example:
        >>> fnp.fft.irfft2(np.array([[4.0, 0.0], [0.0, 0.0]]))
        array([[1., 1.],
               [1., 1.]])
    """
    return irfftn(a, s, axes, norm, out)


def fftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Tensor:
    """Return the frequencies of the elements of a Fourier transform of n samples at distance `d`.

    NumPy's own has no `dtype`, which the array API standard gives it.

    Returns:
        Tensor (n,) of floats: 0, 1, ..., -2, -1 over n d.

    Raises:
        ValueError: `n` is no integer.

    Derivative:
        In `d` that of the quotient.

    Example:
        >>> fnp.fft.fftfreq(4)
        Tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return asarray(np.fft.fftfreq(n, d, device), dtype)


def rfftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Tensor:
    """Return the frequencies of the elements of half a spectrum (`rfft`) of n samples at distance `d`.

    NumPy's own has no `dtype`, which the array API standard gives it.

    Returns:
        Tensor (n // 2 + 1,) of floats: 0, 1, ..., over n d.

    Raises:
        ValueError: `n` is no integer.

    Derivative:
        In `d` that of the quotient.

    Example:
        >>> fnp.fft.rfftfreq(4)
        Tensor([0.  , 0.25, 0.5 ])
    """
    return asarray(np.fft.rfftfreq(n, d, device), dtype)


def _halves(x: Any, axes: Any) -> tuple[Any, Any, list[int]]:
    x = as_value(x)
    if axes is None:
        axes = tuple(range(len(x.shape)))
    elif isinstance(axes, int | np.integer):
        axes = (int(axes),)
    return x, axes, [x.shape[i] // 2 for i in axes]


@implements(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Any:
    """Return a spectrum with the frequency zero moved from the first position to the middle of axes.

    Returns:
        Array of the shape and dtype of `x`; None: along all axes.

    Derivative:
        The cotangent moved back.

    Example:
        >>> fnp.fft.fftshift(np.array([0.0, 1.0, -2.0, -1.0]))
        array([-2., -1.,  0.,  1.])
    """
    x, axes, halves = _halves(x, axes)
    return roll(x, halves, axes)


@implements(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Any:
    """Return the inverse of `fftshift`; they differ for odd lengths.

    Returns:
        Array of the shape and dtype of `x`; None: along all axes.

    Derivative:
        The cotangent moved back.

    Example:
        >>> fnp.fft.ifftshift(np.array([-2.0, -1.0, 0.0, 1.0]))
        array([ 0.,  1., -2., -1.])
    """
    x, axes, halves = _halves(x, axes)
    return roll(x, [-n for n in halves], axes)
