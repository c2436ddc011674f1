"""Filters of images: weighted sums of neighbours, with every border of SciPy's."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from scipy import ndimage as reference

from fgrad.core.dispatch import bind
from fgrad.core.placement import placed
from fgrad.core.tensor import Tensor
from fgrad.docstrings import F, completes
from fgrad.extend.engine import (
    as_tensor,
    concrete,
    conjugate,
    convert,
    for_tensors,
    inexact,
    reshape,
    reverse,
    together,
    windows,
)
from fgrad.numpy.padding import pad
from fgrad.scipy.ndimage.interpolation import as_output, per_axis
from fgrad.scipy.signal.convolution import sliding, turned

_said = completes(
    {
        "input": "real or complex image; integers are taken as float64.",
        "output": "None, or the dtype of the result, floating or complex.",
        "mode": "as in `correlate1d`.",
        "cval": "one number.",
        "axes": "along which to filter; None: all.",
    },
    Returns="Array of the shape of `input`, of its float or complex dtype, or of that of `output`.",
    Derivative="In the image and `cval`, as that of `correlate1d`.",
    Differences_from_SciPy="Those of `correlate1d`.",
)


def _filter(theirs: Callable[..., Any]) -> Callable[[F], F]:
    """Return the decorator of a filter of Tensors, which says what all of them do; SciPy's filters arrays."""
    return lambda f: for_tensors(theirs)(_said(f))


_BORDERS = {
    **dict.fromkeys(("reflect", "grid-mirror"), "symmetric"),
    **dict.fromkeys(("constant", "grid-constant"), "constant"),
    "nearest": "edge",
    "mirror": "reflect",
    **dict.fromkeys(("wrap", "grid-wrap"), "wrap"),
}


def _bordered(x: Any, widths: Sequence[tuple[int, int]], mode: str, cval: Any) -> Any:
    if not isinstance(mode, str):
        raise RuntimeError("A sequence of modes is not supported")  # noqa: TRY004 -- SciPy's error
    if mode not in _BORDERS:
        raise RuntimeError("boundary mode not supported")
    border = _BORDERS[mode]
    return pad(x, widths, border, **({"constant_values": cval} if border == "constant" else {}))


def _sides(n: int, origin: int, name: str) -> tuple[int, int]:
    """Return how many neighbours `n` weights have before and behind."""
    origin = operator.index(origin)
    if not 0 <= n // 2 + origin < n:
        raise ValueError(
            f"{name}: Invalid origin; origin must satisfy -({n} // 2) <= origin <= ({n} - 1) // 2, but it is "
            f"{origin}"
        )
    return n // 2 + origin, n - n // 2 - 1 - origin


def _pair(input: Any, weights: Any) -> tuple[Any, Any, np.dtype[Any]]:
    """Return image and weights, and the dtype of the result: the image's, complex if the weights are."""
    x, w = map(inexact, together(input, weights))
    dtype = np.result_type(x.dtype, np.complex64) if w.dtype.kind == "c" else x.dtype
    return x, w, np.dtype(dtype)


def _along(x: Any, w: Any, axis: int, mode: str, cval: Any, origin: int, name: str) -> Any:
    """Return the weighted sums of neighbours along one axis."""
    if len(w.shape) != 1 or w.shape[0] < 1:
        raise RuntimeError("no filter weights given")
    axis = normalize_axis_index(axis, len(x.shape))
    widths = [(0, 0)] * len(x.shape)
    widths[axis] = _sides(w.shape[0], origin, name)
    wide = _bordered(x, widths, mode, cval)
    before, behind = math.prod(wide.shape[:axis]), math.prod(wide.shape[axis + 1 :])
    n, k = wide.shape[axis], w.shape[0]
    lines, kernel = (
        ((1, 1, before, n), (1, 1, 1, k)) if behind == 1 else ((before, 1, n, behind), (1, 1, k, 1))
    )
    y = windows.conv(reshape(wide, lines), reshape(w, kernel), windows.unit(2))
    return reshape(y, x.shape)


@_filter(reference.correlate1d)
def correlate1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Return the correlation of an image with (the conjugates of) weights along one axis.

    Args:
        weights: a vector.
        axis: the axis.
        mode: what lies beyond the edges: "reflect" or "grid-mirror" (d c b a | a b c d | d c b a), "mirror"
            (d c b | a b c d | c b a), "nearest", "wrap" or "grid-wrap", "constant" or "grid-constant"
            (`cval`).
        origin: by how much weights are moved, to the left if positive.

    Returns:
        Array of the shape of `input`, of its float or complex dtype, complex if the weights are, or of that
        of `output`.

    Raises:
        RuntimeError: no weights, or an unknown mode.
        ValueError: an origin beyond the weights.

    Derivative:
        In the image, the weights (of which it takes conjugates) and `cval`. What is repeated or mirrored
        beyond an edge adds to the element it comes from.

    Differences from SciPy:
        `output` is a dtype, no array, where an argument is a Tensor. Digits of integers are not cut off.

    Example:
        >>> correlate1d([1.0, 2.0, 4.0], [-1.0, 0.0, 1.0])
        array([1., 3., 2.])
        >>> fg.grad(lambda x: correlate1d(x, [1.0, 1.0, 1.0])[0])(np.array([1.0, 2.0, 4.0]))  # reflected
        array([2., 1., 0.])
    """
    x, w, dtype = _pair(input, weights)
    y = _along(x, conjugate(w), axis, mode, cval, origin, "correlate1d")
    return as_output(convert(y, dtype), output)


@_filter(reference.convolve1d)
def convolve1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Return the convolution of an image with weights along one axis.

    Args:
        weights: a vector.
        axis: the axis.
        origin: by how much weights are moved, to the right if positive.

    Returns:
        Array of the shape of `input`, of its float or complex dtype, complex if the weights are, or of that
        of `output`.

    Raises:
        RuntimeError: no weights, or an unknown mode.
        ValueError: an origin beyond the weights.

    Derivative:
        In the image, the weights and `cval`, as that of `correlate1d`.

    Example:
        >>> convolve1d([1.0, 2.0, 4.0], [-1.0, 0.0, 1.0])
        array([-1., -3., -2.])
        >>> fg.grad(lambda w: convolve1d([1.0, 2.0, 4.0], w)[1])(np.array([-1.0, 0.0, 1.0]))
        array([4., 2., 1.])
    """
    x, w, dtype = _pair(input, weights)
    origin = -origin - (w.shape[0] % 2 == 0)
    y = _along(x, reverse(w, 0), axis, mode, cval, origin, "convolve1d")
    return as_output(convert(y, dtype), output)


def _axes(axes: Any, rank: int) -> tuple[int, ...]:
    return tuple(range(rank)) if axes is None else normalize_axis_tuple(axes, rank)


def _everywhere(
    x: Any, w: Any, mode: str, cval: Any, origin: Any, axes: Any, name: str, *, flips: bool
) -> Any:
    """Return the weighted sums of neighbours along `axes`."""
    rank = len(x.shape)
    axes = _axes(axes, rank)
    if len(axes) == rank:  # SciPy reads their order only where there are fewer
        axes = tuple(range(rank))
    if len(w.shape) != len(axes) or 0 in w.shape:
        raise RuntimeError(f"weights.ndim ({len(w.shape)}) must match len(axes) ({len(axes)})")
    origins = list(origin) if isinstance(origin, list | tuple | np.ndarray) else [origin] * len(axes)
    if len(origins) != len(axes):
        raise ValueError(f"{name}: origin must be one number, or one for each of {len(axes)} axes")
    if flips:
        w = turned(w)
        even = {a: n % 2 == 0 for a, n in zip(sorted(axes), w.shape, strict=True)}
        origins = [-o - even[a] for o, a in zip(origins, axes, strict=True)]
    lengths = dict(
        zip(sorted(axes), w.shape, strict=True)
    )  # weights belong to axes in their order, as in SciPy
    sides = {a: _sides(lengths[a], o, name) for a, o in zip(axes, origins, strict=True)}
    w = reshape(w, tuple(lengths.get(i, 1) for i in range(rank)))
    return sliding(_bordered(x, [sides.get(i, (0, 0)) for i in range(rank)], mode, cval), w)


@_filter(reference.correlate)
def correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return the correlation of an image with (the conjugates of) weights.

    Args:
        weights: as many axes as the image has, or as there are `axes`.
        origin: by how much weights are moved, one number or one for each axis.

    Returns:
        Array of the shape of `input`, of its float or complex dtype, complex if the weights are, or of that
        of `output`.

    Raises:
        RuntimeError: weights with another number of axes, or an unknown mode.
        ValueError: an origin beyond the weights.

    Derivative:
        In the image, the weights (of which it takes conjugates) and `cval`, as that of `correlate1d`.

    Differences from SciPy:
        Those of `correlate1d`; `mode` is one for all axes.

    Example:
        >>> correlate([[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0]])
        array([[1., 2.],
               [3., 4.]])
        >>> fg.grad(lambda x: correlate(x, [[1.0, 1.0, 1.0]])[0, 0])(np.ones((2, 2)))  # reflected
        array([[2., 1.],
               [0., 0.]])
    """
    x, w, dtype = _pair(input, weights)
    y = _everywhere(x, conjugate(w), mode, cval, origin, axes, "correlate", flips=False)
    return as_output(convert(y, dtype), output)


@_filter(reference.convolve)
def convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return the convolution of an image with weights.

    Args:
        weights: as many axes as the image has, or as there are `axes`.
        origin: by how much weights are moved, one number or one for each axis.

    Returns:
        Array of the shape of `input`, of its float or complex dtype, complex if the weights are, or of that
        of `output`.

    Raises:
        RuntimeError: weights with another number of axes, or an unknown mode.
        ValueError: an origin beyond the weights.

    Derivative:
        In the image, the weights and `cval`, as that of `correlate1d`.

    Differences from SciPy:
        Those of `correlate`.

    Example:
        >>> convolve([[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0, 2.0]])
        array([[ 3.,  4.],
               [ 9., 10.]])
        >>> fg.grad(lambda w: convolve([[1.0, 2.0], [3.0, 4.0]], w)[0, 0])(np.zeros((1, 3)))
        array([[2., 1., 1.]])
    """
    x, w, dtype = _pair(input, weights)
    y = _everywhere(x, w, mode, cval, origin, axes, "convolve", flips=True)
    return as_output(convert(y, dtype), output)


# ---- named weights


def _kernel(sigma: Any, order: int, radius: int) -> Any:
    """Return Gaussian weights, or their derivative of an order: a polynomial q times the Gaussian.

    q' + q p' for the derivative of q exp(p), p' = -x / sigma^2.
    """
    if order < 0:
        raise ValueError("order must be non-negative")
    x = placed(sigma, np.arange(-radius, radius + 1, dtype=np.float64))
    inverse = 1 / (sigma * sigma)
    phi = np.exp(inverse * (-0.5 * x * x))
    phi = phi / phi.sum()
    q: list[Any] = [1.0]
    for _ in range(order):
        slope = [(i + 1) * c for i, c in enumerate(q[1:])] + [0.0, 0.0]
        shifted = [0.0, *(-c * inverse for c in q)]
        q = [a + b for a, b in zip(slope, shifted, strict=True)]
    if order == 0:
        return phi
    total: Any = 0.0
    for i, c in enumerate(q):
        total = total + c * x**i
    return total * phi


@_filter(reference.gaussian_filter1d)
def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Any:
    """Return an image smoothed along one axis by a Gaussian, or by a derivative of one.

    Args:
        sigma: the standard deviation, in elements.
        axis: the axis.
        order: the order of the derivative.
        truncate: the length of the weights to each side, in standard deviations.
        radius: the same in elements; needed where `sigma` is mapped or traced.

    Raises:
        TypeError: `sigma` is mapped or traced, and there is no radius.
        ValueError: a negative order, or a radius that is no integer or negative.

    Derivative:
        In the image, `cval`, and `sigma` for a fixed number of weights: that jumps with `sigma`, the weights
        at the ends with it.

    Example:
        >>> gaussian_filter1d([0.0, 1.0, 0.0], 1.0, radius=1).round(6)
        array([0.274069, 0.451863, 0.274069])
        >>> fg.grad(lambda s: gaussian_filter1d([0.0, 1.0, 0.0], s, radius=1)[1])(1.0).round(6)
        np.float64(-0.247683)
    """
    x = inexact(input)
    if radius is None:
        radius = int(truncate * float(concrete(sigma, "sigma without a radius")) + 0.5)
    if not isinstance(radius, int | np.integer) or radius < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    w = _kernel(sigma if isinstance(sigma, Tensor) else float(sigma), order, int(radius))
    w = convert(reverse(w, 0), np.empty(0, x.dtype).real.dtype)
    w = w if isinstance(w, Tensor) else placed(x, w)
    return as_output(_along(x, w, axis, mode, cval, 0, "gaussian_filter1d"), output)


@_filter(reference.gaussian_filter)
def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Any:
    """Return an image smoothed by a Gaussian, or by a derivative of one.

    Args:
        sigma: the standard deviation in elements, one or one for each of `axes`.
        order: the order of derivatives, likewise.
        mode: as in `correlate1d`, likewise.
        truncate: the length of the weights to each side, in standard deviations.
        radius: the same in elements, one or one for each of `axes`; needed where `sigma` is mapped or traced.

    Raises:
        RuntimeError: an unknown mode, or sequences of another length.
        TypeError: `sigma` is mapped or traced, and there is no radius.
        ValueError: a negative order or radius.

    Derivative:
        In the image, `cval`, and `sigma` for a fixed number of weights: that of `gaussian_filter1d`, axis by
        axis.

    Example:
        >>> gaussian_filter(np.eye(2), 1.0, radius=1).round(6)
        array([[0.60209, 0.39791],
               [0.39791, 0.60209]])
        >>> fg.grad(lambda x: gaussian_filter(x, 1.0, radius=1)[0, 0])(np.eye(2)).round(6)
        array([[0.526976, 0.198955],
               [0.198955, 0.075114]])
    """
    x = inexact(input)
    axes = _axes(axes, len(x.shape))
    n = len(axes)
    columns = [per_axis(v, n) for v in (sigma, order, mode, radius)]
    for axis, s, o, m, r in zip(axes, *columns, strict=True):
        if isinstance(s, Tensor) or s > 1e-15:
            x = gaussian_filter1d(as_tensor(x), s, axis, o, None, m, cval, truncate, radius=r)
    return as_output(x, output)


@_filter(reference.uniform_filter1d)
def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Return the means of neighbours along one axis.

    Args:
        size: how many.
        axis: the axis.
        origin: by how much neighbours are moved, to the left if positive.

    Raises:
        RuntimeError: a size below one, or an unknown mode.
        ValueError: an origin beyond the neighbours.

    Differences from SciPy:
        Those of `correlate1d`. Every mean is a sum of its own, where SciPy updates one: rounding errors do
        not add up.

    Example:
        >>> uniform_filter1d([0.0, 3.0, 6.0], 3)
        array([1., 3., 5.])
        >>> fg.grad(lambda x: uniform_filter1d(x, 2)[0])(np.array([0.0, 3.0, 6.0]))
        array([1., 0., 0.])
    """
    x = inexact(input)
    if size < 1:
        raise RuntimeError("incorrect filter size")
    w = placed(x, np.full(int(size), 1 / int(size), np.empty(0, x.dtype).real.dtype))
    return as_output(_along(x, w, axis, mode, cval, origin, "uniform_filter1d"), output)


@_filter(reference.uniform_filter)
def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return the means of neighbours along every axis.

    Args:
        size: how many, one or one for each of `axes`.
        mode: as in `correlate1d`, one or one for each of `axes`.
        origin: by how much neighbours are moved, one or one for each of `axes`.

    Raises:
        RuntimeError: an unknown mode, or sequences of another length.
        ValueError: an origin beyond the neighbours.

    Differences from SciPy:
        Those of `uniform_filter1d`.

    Example:
        >>> uniform_filter([[0.0, 4.0], [8.0, 4.0]], 2)
        array([[0., 2.],
               [4., 4.]])
        >>> fg.grad(lambda x: uniform_filter(x, 2)[1, 1])(np.zeros((2, 2)))
        array([[0.25, 0.25],
               [0.25, 0.25]])
    """
    x = inexact(input)
    axes = _axes(axes, len(x.shape))
    columns = [per_axis(v, len(axes)) for v in (size, mode, origin)]
    for axis, s, m, o in zip(axes, *columns, strict=True):
        if s > 1:
            x = uniform_filter1d(as_tensor(x), int(s), axis, None, m, cval, o)
    return as_output(x, output)


def _slope(input: Any, axis: int, output: Any, mode: Any, cval: Any, across: Sequence[float]) -> Any:
    x = inexact(input)
    rank = len(x.shape)
    axis, modes = normalize_axis_index(axis, rank), per_axis(mode, rank)
    for i in (axis, *(k for k in range(rank) if k != axis)):
        w = np.asarray((-1, 0, 1) if i == axis else across, np.empty(0, x.dtype).real.dtype)
        x = _along(x, placed(x, w), i, modes[i], cval, 0, "slope")
    return as_output(x, output)


@_filter(reference.sobel)
def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    """Return slopes along one axis, smoothed by 1, 2, 1 along the others.

    Args:
        axis: along which to take slopes.
        mode: as in `correlate1d`, one or one for each axis.

    Raises:
        AxisError: `axis` is none of the image.
        RuntimeError: an unknown mode.

    Example:
        >>> sobel([[1.0, 2.0, 4.0]])
        array([[ 4., 12.,  8.]])
        >>> fg.grad(lambda x: sobel(x)[0, 1])(np.zeros((1, 3)))
        array([[-4.,  0.,  4.]])
    """
    return _slope(input, axis, output, mode, cval, (1, 2, 1))


@_filter(reference.prewitt)
def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    """Return slopes along one axis, smoothed by 1, 1, 1 along the others.

    Args:
        axis: along which to take slopes.
        mode: as in `correlate1d`, one or one for each axis.

    Raises:
        AxisError: `axis` is none of the image.
        RuntimeError: an unknown mode.

    Example:
        >>> prewitt([[1.0, 2.0, 4.0]])
        array([[3., 9., 6.]])
        >>> fg.grad(lambda x: prewitt(x)[0, 1])(np.zeros((1, 3)))
        array([[-3.,  0.,  3.]])
    """
    return _slope(input, axis, output, mode, cval, (1, 1, 1))


@_filter(reference.laplace)
def laplace(
    input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Any:
    """Return the sum of second differences along `axes`.

    Args:
        mode: as in `correlate1d`, one or one for each of `axes`.
        axes: along which; None: all.

    Raises:
        RuntimeError: an unknown mode, or as many modes as there are no axes.

    Example:
        >>> laplace([1.0, 2.0, 4.0])
        array([ 1.,  1., -2.])
        >>> fg.grad(lambda x: laplace(x)[0])(np.zeros(3))  # reflected
        array([-1.,  1.,  0.])
    """
    x = inexact(input)
    axes = _axes(axes, len(x.shape))
    w = placed(x, np.asarray((1, -2, 1), np.empty(0, x.dtype).real.dtype))
    modes = per_axis(mode, len(axes))
    parts = [_along(x, w, a, m, cval, 0, "laplace") for a, m in zip(axes, modes, strict=True)]
    return as_output(_sum(parts or [x]), output)


@_filter(reference.gaussian_laplace)
def gaussian_laplace(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Any:
    """Return the sum of second Gaussian derivatives along axes.

    Args:
        sigma: the standard deviation in elements, one or one for each of `axes`.
        mode: as in `correlate1d`, one or one for each of `axes`, which holds wherever the derivative along
            that is computed.
        axes: along which; None: all.
        kwargs: `truncate` and `radius` of `gaussian_filter`.

    Raises:
        RuntimeError: an unknown mode, or sequences of another length.
        TypeError: `sigma` is mapped or traced, and there is no radius.

    Derivative:
        That of `gaussian_filter`, in the image, `cval` and `sigma`.

    Example:
        >>> gaussian_laplace([0.0, 1.0, 0.0], 1.0, radius=1).round(6) + 0.0
        array([ 0.      , -0.451863,  0.      ])
        >>> fg.grad(lambda x: gaussian_laplace(x, 1.0, radius=1)[1])(np.ones(3)).round(6) + 0.0
        array([ 0.      , -0.451863,  0.      ])
    """
    x = inexact(input)
    axes = _axes(axes, len(x.shape))
    widths = dict(zip(axes, per_axis(sigma, len(axes)), strict=True))
    sigma = [widths.get(i, 0.0) for i in range(len(x.shape))]
    return as_output(_sum(_gaussian_slopes(x, sigma, mode, cval, axes, 2, kwargs) or [x]), output)


@_filter(reference.gaussian_gradient_magnitude)
def gaussian_gradient_magnitude(
    input: Any,
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Any:
    """Return the root of the sum of squared Gaussian slopes along axes.

    Args:
        sigma: the standard deviation in elements, one or one for each axis of `input`: it is smoothed along
            all.
        mode: as in `correlate1d`, one or one for each of `axes`, which holds wherever the slope along that
            is computed.
        axes: along which; None: all.
        kwargs: `truncate` and `radius` of `gaussian_filter`.

    Raises:
        RuntimeError: an unknown mode, or sequences of another length.
        TypeError: `sigma` is mapped or traced, and there is no radius.

    Derivative:
        That of `gaussian_filter`, in the image, `cval` and `sigma`; zero where the magnitude is.

    Example:
        >>> gaussian_gradient_magnitude([0.0, 1.0, 3.0], 1.0, radius=1).round(6)
        array([0.274069, 0.822206, 0.548137])
        >>> fg.grad(lambda x: gaussian_gradient_magnitude(x, 1.0, radius=1)[1])(np.ones(3))  # flat
        array([0., 0., 0.])
    """
    x = inexact(input)
    slopes = _gaussian_slopes(x, sigma, mode, cval, _axes(axes, len(x.shape)), 1, kwargs)
    return as_output(bind("root", _sum([s * s for s in slopes])) if slopes else x, output)


def _gaussian_slopes(
    x: Any, sigma: Any, mode: Any, cval: Any, axes: Sequence[int], order: int, options: dict[str, Any]
) -> list[Any]:
    """Return the derivatives along `axes`; the mode of one is that of all borders, as in SciPy."""
    modes = per_axis(mode, len(axes))
    orders = np.eye(len(x.shape), dtype=int)[list(axes)] * order
    return [
        gaussian_filter(x, sigma, list(o), None, m, cval, **options)
        for o, m in zip(orders, modes, strict=True)
    ]


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for p in parts[1:]:
        total = total + p
    return total
