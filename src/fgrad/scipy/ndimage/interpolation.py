"""Images between their elements, by splines: at given places, and moved, scaled or turned."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import ndimage as reference

from fgrad.core.dispatch import bind
from fgrad.core.placement import near, placed
from fgrad.core.tensor import Tensor
from fgrad.docstrings import completes
from fgrad.extend.engine import (
    as_value,
    broadcast_to,
    concrete,
    convert,
    for_tensors,
    inexact,
    reshape,
    together,
)
from fgrad.numpy.joining import stack as stacked
from fgrad.numpy.padding import pad
from fgrad.numpy.products import matmul
from fgrad.numpy.shapes import moveaxis
from fgrad.scipy.tensor_product import across, gathered, weighted

_EDGES = {  # how coefficients go on beyond the edges while they are computed
    **dict.fromkeys(("constant", "grid-constant", "mirror", "wrap"), "mirror"),
    **dict.fromkeys(("nearest", "reflect", "grid-mirror"), "reflect"),
    "grid-wrap": "grid-wrap",
}
_PADDING = 12  # elements, where a border has to be told to the coefficients by elements: SciPy's number


def as_output(x: Any, output: Any) -> Any:
    """Return a result as SciPy's `output` says: of a dtype."""
    if output is None:
        return x
    if isinstance(output, np.ndarray | Tensor):
        raise TypeError("output cannot be an array beside a Tensor; take the result, or give a dtype")
    dtype = np.dtype(output)
    if dtype.kind in "biu":
        raise TypeError(
            f"output of {dtype} beside a Tensor: SciPy cuts digits off between steps of a filter, which has "
            "no derivative; convert the result with astype"
        )
    return convert(x, dtype)


def _checked_order(order: int) -> int:
    if not 0 <= operator.index(order) <= 5:
        raise RuntimeError("spline order not supported")
    return int(order)


def _checked_mode(mode: str) -> str:
    if mode not in _EDGES:
        raise RuntimeError("boundary mode not supported")
    return mode


# ---- coefficients


@for_tensors(reference.spline_filter1d)
def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Any:
    """Return the coefficients of the splines that interpolate an image along one axis.

    Args:
        input: real or complex image; integers are taken as float64.
        order: of the spline, 0 to 5.
        axis: the axis.
        output: the dtype of the result: of float32 images too, float64 by default.
        mode: how the image goes on beyond its edges, as in `map_coordinates`.

    Returns:
        Array of the shape of `input`; of the common dtype of it and `output`.

    Raises:
        RuntimeError: another order or mode.

    Derivative:
        Of a linear map, whose adjoint is the same filter but for weights at mirrored edges.

    Source:
        Unser, Aldroubi & Eden (1993), B-spline signal processing, IEEE Trans. Signal Process. 41.

    Example:
        >>> spline_filter1d([0.0, 1.0, 0.0]).round(6)
        array([-1.,  2., -1.])
        >>> fg.grad(lambda x: spline_filter1d(x)[1])(np.array([0.0, 1.0, 0.0])).round(6)
        array([-0.5,  2. , -0.5])
    """
    order, mode = _checked_order(order), _checked_mode(mode)
    x = inexact(input)
    x = convert(x, np.result_type(x.dtype, output))
    if order < 2:
        return x
    filtered = bind("spline_filter", moveaxis(x, axis, -1), degree=order, mode=_EDGES[mode])
    return moveaxis(filtered, -1, axis)


@for_tensors(reference.spline_filter)
def spline_filter(input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror") -> Any:
    """Return the coefficients of the spline that interpolates an image.

    Args:
        input: real or complex image; integers are taken as float64.
        order: of the spline, 2 to 5.
        output: the dtype of the result: of float32 images too, float64 by default.
        mode: how the image goes on beyond its edges, as in `map_coordinates`.

    Returns:
        Array of the shape of `input`; of the common dtype of it and `output`.

    Raises:
        RuntimeError: another order or mode.

    Derivative:
        Of a linear map, that of `spline_filter1d` along each axis.

    Example:
        >>> spline_filter([[0.0, 1.0, 0.0]]).round(6)
        array([[-1.,  2., -1.]])
        >>> fg.grad(lambda x: spline_filter(x)[0, 1])(np.array([[0.0, 1.0, 0.0]])).round(6)
        array([[-0.5,  2. , -0.5]])
    """
    if not 2 <= order <= 5:
        raise RuntimeError("spline order not supported")
    x = inexact(input)
    for axis in range(len(x.shape)):
        x = spline_filter1d(x, order, axis, output, mode)
    return x


# ---- values at places


_splines = completes(
    {
        "output": "None, or the dtype of the result.",
        "order": "of the spline, 0 to 5.",
        "mode": 'what lies beyond the edges: "constant" (`cval`), "grid-constant" (elements `cval`),\n'
        '        "nearest", "mirror", "reflect" or "grid-mirror", "wrap" (the last element is the first),\n'
        '        "grid-wrap".',
        "cval": "one number.",
        "prefilter": "whether `input` is an image, otherwise it holds the coefficients of the spline.",
    }
)


@for_tensors(reference.map_coordinates)
@_splines
def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Return the values of an image at points between its elements, by splines.

    Args:
        input: real or complex image of n axes; integers are taken as float64.
        coordinates: real, (n, ...).

    Returns:
        Array of the shape of one coordinate, of the float or complex dtype of `input`, or of that of
        `output`.

    Raises:
        RuntimeError: another order or mode, or another number of coordinates.
        TypeError: complex coordinates.

    Derivative:
        In the image, the coordinates and `cval`. Where a slope jumps (order 1, elements) that to the right;
        at the last element that to the left, if nothing continues behind it. Order 0 is flat in coordinates.

    Source:
        Unser, Aldroubi & Eden (1993), B-spline signal processing; for B-splines Cox (1972), de Boor (1972).

    Differences from SciPy:
        `output` is a dtype, no array, where an argument is a Tensor; integer images give float64.

    Example:
        >>> image, place = np.array([[0.0, 1.0], [2.0, 5.0]]), np.array([[0.5], [0.25]])
        >>> map_coordinates(image, place, order=1)
        array([1.5])
        >>> fg.jacrev(lambda x: map_coordinates(image, x, order=1))(place).ravel()
        array([2.5, 2. ])
    """
    order, mode = _checked_order(order), _checked_mode(mode)
    x, places = map(inexact, together(input, coordinates))
    if places.dtype.kind == "c":
        raise TypeError("Complex type not supported")
    rank = len(x.shape)
    if rank < 1 or len(places.shape) < 2:
        raise RuntimeError("input and output rank must be > 0")
    if places.shape[0] != rank:
        raise RuntimeError("invalid shape for coordinate array")
    each = [bind("slice", places, index=(k,)) for k in range(rank)]
    return as_output(_interpolated(x, each, order, mode, cval, prefilter=prefilter), output)


def _interpolated(x: Any, places: Sequence[Any], order: int, mode: str, cval: Any, *, prefilter: bool) -> Any:
    """Return the spline of an image at places, one array of them for each axis."""
    dtype, shape = x.dtype, tuple(places[0].shape)
    if isinstance(cval, complex) or getattr(cval, "dtype", np.dtype(float)).kind == "c":
        cval = cval if dtype.kind == "c" else np.real(cval)
    margin = 0
    if prefilter and order > 1:
        if mode in {"nearest", "grid-constant"}:
            margin = _PADDING
            options = {"constant_values": cval} if mode == "grid-constant" else {}
            x = pad(x, margin, "edge" if mode == "nearest" else "constant", **options)
        for axis in range(len(x.shape)):
            x = spline_coefficients(x, order, axis, mode)
    count = places[0].size
    wide = np.result_type(*(p.dtype for p in places), np.empty(0, dtype).real.dtype)
    found = [
        _basis(reshape(convert(p, wide), (count,)) + margin, n, order, mode)
        for p, n in zip(places, x.shape, strict=True)
    ]
    elements, weights, inside = zip(*found, strict=True)
    values = gathered(x, elements)
    if mode == "grid-constant":
        there: Any = True
        for k in range(len(inside)):
            there = bind("logical_and", there, across(inside, k))
        values = bind("where", there, values, cval)
    values = weighted(values, weights)
    if mode == "constant":
        within: Any = True
        for there in inside:
            within = bind("logical_and", within, there)
        values = bind("where", within, values, cval)
    return convert(reshape(values, shape), dtype)


def spline_coefficients(x: Any, order: int, axis: int, mode: str) -> Any:
    """Return what `spline_filter1d` does, in the dtype of the image."""
    return moveaxis(bind("spline_filter", moveaxis(x, axis, -1), degree=order, mode=_EDGES[mode]), -1, axis)


def _basis(c: Any, n: int, order: int, mode: str) -> tuple[Any, Any, Any]:
    """Return the elements (order + 1, count) that places read, their weights, and which are not beyond.

    With 'constant' the last is told of places, not of elements.
    """
    inside: Any = None
    last = n - 1
    if mode == "constant":
        inside = bind("logical_and", bind("greater_equal", c, 0.0), bind("less_equal", c, float(last)))
        c = bind("where", inside, c, 0.0)
    elif mode == "wrap":
        c = _wrapped(c, last)
    elif mode in {"mirror", "reflect", "grid-mirror"}:
        c = _folded(c, n, mode == "mirror")
    if order % 2:
        start = bind("floor", c)
        if mode in {"constant", "wrap"}:  # nothing continues behind the last element
            start = bind("minimum", start, float(max(0, n - 2)))
        x = c - start
    else:
        start = bind("floor", c + 0.5)
        x = c + 0.5 - start
    # elements are integers from here on, which know neither NaN nor places out of every range
    start = bind(
        "minimum", bind("maximum", bind("where", bind("isnan", start), 0.0, start), -(2.0**52)), 2.0**52
    )
    first = convert(start, np.dtype(np.intp)) - order // 2
    at = reshape(first, (1, *first.shape)) + placed(first, np.arange(order + 1)[:, None])
    if mode == "grid-constant":
        inside = bind("logical_and", bind("greater_equal", at, 0), bind("less_equal", at, last))
        at = bind("minimum", bind("maximum", at, 0), last)
    else:
        at = _at_elements(at, n, mode if mode == "nearest" else _EDGES[mode])
    return at, stacked(_weights(x, order)), inside


def _wrapped(c: Any, period: int) -> Any:
    """Return places moved by multiples of the period into [0, period], where they are not there already."""
    if period < 1:
        return c * 0
    turns = bind("floor", c / float(period))
    below = c + float(period) * (bind("floor", -c / float(period)) + 1)
    moved = bind("where", bind("greater", c, float(period)), c - float(period) * turns, c)
    return bind("where", bind("less", c, 0.0), below, moved)


def _folded(c: Any, n: int, at_elements: bool) -> Any:
    """Return places mirrored at the first and last element, or half an element beyond, as SciPy does it."""
    if n == 1:
        return c * 0
    period = 2.0 * n - 2 if at_elements else 2.0 * n
    extra = 0.0 if at_elements else 1.0
    size = bind("absolute", c)
    rest = size - period * bind("floor", size / period)
    below = bind("where", bind("greater_equal", rest, n - 1 + extra), period - rest, rest - extra)
    above = bind("where", bind("greater_equal", rest, float(n)), period - extra - rest, rest)
    folded = bind("where", bind("greater", c, float(n - 1)), above, c)
    return bind("where", bind("less", c, 0.0), below, folded)


def _at_elements(at: Any, n: int, mode: str) -> Any:
    """Return the elements for which those beyond the edges stand."""
    if n == 1:
        return at * 0
    if mode == "nearest":
        return bind("minimum", bind("maximum", at, 0), n - 1)
    if mode == "grid-wrap":
        return bind("remainder", at, n)
    if mode == "mirror":
        turned = bind("remainder", at, 2 * n - 2)
        return bind("minimum", turned, 2 * n - 2 - turned)
    turned = bind("remainder", at, 2 * n)
    return bind("minimum", turned, 2 * n - 1 - turned)


def _weights(x: Any, order: int) -> list[Any]:
    """Return the B-splines of an order that are not zero at the fractions `x`: Cox's and de Boor's recursion.

    b_j of degree d is ((x + d - j) b_(j-1) + (j + 1 - x) b_j) / d of degree d - 1, for knots at integers.
    """
    b = [x * 0 + 1]
    for d in range(1, order + 1):
        terms = []
        for j in range(d + 1):
            parts = [(x + (d - j)) * b[j - 1]] if j > 0 else []
            parts += [((j + 1) - x) * b[j]] if j < d else []
            terms.append((parts[0] if len(parts) == 1 else parts[0] + parts[1]) / d)
        b = terms
    return b


# ---- moved and turned images


def per_axis(x: Any, n: int, name: str = "") -> list[Any]:
    """Return one value for each axis, of one or a sequence."""
    if isinstance(x, Tensor) and x.shape:
        x = [bind("slice", x, index=(k,)) for k in range(x.shape[0])]
    several = isinstance(x, list | tuple) or (isinstance(x, np.ndarray) and x.ndim > 0)
    values = list(x) if several else [x] * n
    if len(values) != n:
        raise RuntimeError(f"{name and name + ': '}sequence argument must have length equal to input rank")
    return values


def _coordinates(x: Any, shape: Sequence[int]) -> list[Any]:
    """Return the coordinates of the elements of an array of a shape, an array for each axis, where `x` is."""
    dtype, n = np.empty(0, x.dtype).real.dtype, len(shape)
    lines = [near(x).arange(m, dtype=dtype) for m in shape]
    return [
        broadcast_to(reshape(line, (-1, *(1,) * (n - k - 1))), tuple(shape)) for k, line in enumerate(lines)
    ]


@for_tensors(reference.affine_transform)
@_splines
def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Any = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Return an image whose element at o is that of `input` at matrix @ o + offset, by splines.

    Args:
        input: image of n axes.
        matrix: (m, n), the n numbers of a diagonal, or homogeneous: (n, n + 1) or (n + 1, n + 1).
        offset: one number, or n of them; not read beside a homogeneous matrix.
        output_shape: the shape of the result; None: that of `input`.

    Returns:
        Array of `output_shape`, of the float or complex dtype of `input`, or of that of `output`.

    Raises:
        RuntimeError: a matrix or offset of another shape, another order or mode.

    Derivative:
        In the image, the matrix, the offset and `cval`; at elements that of `map_coordinates`. Beside a
        homogeneous matrix none of the offset, which is not read.

    Differences from SciPy:
        Those of `map_coordinates`.

    Example:
        >>> affine_transform([0.0, 1.0, 4.0], [0.5], order=1)
        array([0. , 0.5, 1. ])
        >>> fg.grad(lambda o: affine_transform([0.0, 1.0, 4.0], [0.5], o, order=1)[1])(0.25)
        np.float64(1.0)
    """
    order, mode = _checked_order(order), _checked_mode(mode)
    x, m = map(inexact, together(input, matrix))
    n = len(x.shape)
    if len(m.shape) not in {1, 2} or m.shape[0] < 1:
        raise RuntimeError("no proper affine matrix provided")
    if len(m.shape) == 2 and m.shape[1] == n + 1 and m.shape[0] in {n, n + 1}:
        offset = bind("slice", m, index=(slice(0, n), n))
        m = bind("slice", m, index=(slice(0, n), slice(0, n)))
    if m.shape[0] != n:
        raise RuntimeError("affine matrix has wrong number of rows")
    shape = tuple(x.shape) if output_shape is None else tuple(map(int, output_shape))
    if len(m.shape) == 2 and m.shape[1] != len(shape):
        raise RuntimeError("affine matrix has wrong number of columns")
    grid = stacked([reshape(c, (c.size,)) for c in _coordinates(x, shape)])
    turned = matmul(m, grid) if len(m.shape) == 2 else reshape(m, (n, 1)) * grid
    places = []
    for k, o in enumerate(per_axis(offset, n, "affine_transform")):
        places.append(reshape(bind("slice", turned, index=(k,)) + o, shape))
    return as_output(
        _interpolated(x, list(map(as_value, places)), order, mode, cval, prefilter=prefilter), output
    )


@for_tensors(reference.shift)
@_splines
def shift(
    input: Any,
    shift: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """Return an image moved by some elements, or parts of them, by splines.

    Args:
        input: image of n axes.
        shift: one number, or one for each axis: element i becomes what was at i - shift.

    Returns:
        Array of the shape and the float or complex dtype of `input`, or of the dtype `output`.

    Raises:
        RuntimeError: another order or mode, or another number of shifts.

    Derivative:
        In the image, the shift and `cval`; at elements that of `map_coordinates`.

    Differences from SciPy:
        Those of `map_coordinates`.

    Example:
        >>> shift([0.0, 1.0, 4.0], 0.5, order=1)
        array([0. , 0.5, 2.5])
        >>> fg.grad(lambda s: shift([0.0, 1.0, 4.0], s, order=1)[2])(0.5)
        np.float64(-3.0)
    """
    order, mode = _checked_order(order), _checked_mode(mode)
    x = inexact(input)
    grid = _coordinates(x, x.shape)
    steps = per_axis(shift, len(x.shape), "shift")
    places = [as_value(g - s) for g, s in zip(grid, steps, strict=True)]
    return as_output(_interpolated(x, places, order, mode, cval, prefilter=prefilter), output)


@for_tensors(reference.zoom)
@_splines
def zoom(
    input: Any,
    zoom: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Any:
    """Return an image with more or fewer elements, by splines.

    Args:
        input: image of n axes.
        zoom: factors of the lengths of axes, one or n: they choose a shape, and have no derivative.
        grid_mode: whether elements are cells that fill the image, otherwise points with two at its ends.

    Returns:
        Array whose axes have round(n * zoom) elements, of the float or complex dtype of `input`, or of that
        of `output`.

    Raises:
        RuntimeError: another order or mode, or another number of factors.
        TypeError: factors that are mapped or traced.

    Derivative:
        In the image and `cval`.

    Differences from SciPy:
        Those of `map_coordinates`.

    Example:
        >>> zoom([0.0, 2.0], 1.5, order=1)
        array([0., 1., 2.])
        >>> fg.grad(lambda x: zoom(x, 1.5, order=1)[1])(np.array([0.0, 2.0]))
        array([0.5, 0.5])
    """
    order, mode = _checked_order(order), _checked_mode(mode)
    x = inexact(input)
    factors = [float(concrete(z, "zoom")) for z in per_axis(zoom, len(x.shape), "zoom")]
    shape = tuple(round(n * z) for n, z in zip(x.shape, factors, strict=True))
    if all(z == 1 for z in factors) and prefilter:
        return as_output(x + 0, output)
    places = []
    for k, (n, m) in enumerate(zip(x.shape, shape, strict=True)):
        i = near(x).arange(m, dtype=np.float64)
        if grid_mode:
            c = (i + 0.5) * (n / m if m else 1.0) - 0.5
        else:
            c = i * ((n - 1) / (m - 1) if m != 1 else 1.0)
        places.append(broadcast_to(reshape(c, (m, *(1,) * (len(shape) - k - 1))), shape))
    return as_output(_interpolated(x, places, order, mode, cval, prefilter=prefilter), output)
