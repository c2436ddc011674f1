"""Convolutions whose axes lie in any order, and reductions over windows: the general forms of `fgrad.nn`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import numpy as fnp
from fgrad.docstrings import completes
from fgrad.lax.indexing import pad
from fgrad.nn.convolution import conv
from fgrad.nn.geometry import pads
from fgrad.ops.windows import at_place, spread

Sides = list[tuple[int, int]]
_BATCH_AND_CHANNELS = ("NC", "OI", "NC")  # of the image, the kernel and the result


class ConvDimensionNumbers(NamedTuple):
    """Which axes of image, kernel and result are those of batch (or outputs), channels (or inputs), space.

    Example:
        >>> ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2)).lhs_spec
        (0, 3, 1, 2)
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any = None
) -> ConvDimensionNumbers:
    """Return where the axes of a convolution are.

    Args:
        lhs_shape: shape of the image.
        rhs_shape: shape of the kernel.
        dimension_numbers: three texts, as ("NHWC", "HWIO", "NHWC"), in which N is the batch, C the channels,
            O and I are outputs and inputs of the kernel, and other letters axes of space; None: batch and
            channels are first.

    Returns:
        The numbers of the axes.

    Example:
        >>> conv_dimension_numbers((1, 5, 3), (2, 3, 4), ("NWC", "WIO", "NWC")).rhs_spec
        [2, 1, 0]
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    space = "".join(chr(ord("a") + k) for k in range(len(rhs_shape) - 2))
    texts = dimension_numbers or [head + space for head in _BATCH_AND_CHANNELS]
    axes = [letter for letter in texts[0] if letter not in "NC"]
    pairs = zip(texts, _BATCH_AND_CHANNELS, strict=True)
    return ConvDimensionNumbers(*[[text.index(a) for a in (*head, *axes)] for text, head in pairs])


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> Sides:
    """Return how much a word adds before and behind each axis.

    Args:
        in_shape: the lengths of the axes.
        window_shape: those of the window.
        window_strides: the distance of windows.
        padding: "VALID": nothing; "SAME": so much that ceil(n / stride) windows fit, the odd one behind;
            "SAME_LOWER": likewise, the odd one before.

    Returns:
        A pair for each axis.

    Raises:
        ValueError: another word.

    Example:
        >>> padtype_to_pads((4,), (2,), (1,), "SAME"), padtype_to_pads((4,), (2,), (1,), "SAME_LOWER")
        ([(0, 1)], [(1, 0)])
    """
    word, ones = padding.upper(), (1,) * len(in_shape)
    found = pads(
        word.removesuffix("_LOWER"), tuple(in_shape), tuple(window_shape), tuple(window_strides), ones
    )
    return [(high, low) if word == "SAME_LOWER" else (low, high) for low, high in found]


_dilated = completes(
    {
        "window_strides": "the distance of windows, for each axis of space.",
        "padding": '"VALID", "SAME" or "SAME_LOWER", or for each axis a pair (before, behind), of which\n'
        "        negative numbers cut.",
        "lhs_dilation": "the distance of elements of the image, with zeros between; None: one.",
        "rhs_dilation": "the distance of elements of the kernel; None: one.",
        "dimension_numbers": "as for `conv_dimension_numbers`.",
    }
)


@_dilated
def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
) -> Any:
    """Return the convolution of images with a kernel, as `fgrad.nn.conv`, whose axes lie in any order.

    Args:
        lhs: images.
        rhs: kernel.
        feature_group_count: into how many parts the channels fall, of which each has outputs of its own.
        batch_group_count: likewise for the batch: outputs of one part see its images alone.

    Returns:
        Array of the common float dtype.

    Raises:
        ValueError: incompatible shapes, or a window larger than the padded image.

    Derivative:
        That of `fgrad.nn.conv`.

    Example:
        >>> image, numbers = np.arange(4.0).reshape(1, 4, 1), ("NWC", "WIO", "NWC")
        >>> conv_general_dilated(image, np.ones((2, 1, 1)), (1,), "VALID", None, None, numbers)[0, :, 0]
        Tensor([1., 3., 5.])
    """
    x, w = fnp.asarray(lhs), fnp.asarray(rhs)
    image, kernel, result = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    if batch_group_count > 1:
        images = fnp.split(x, batch_group_count, image[0])
        kernels = fnp.split(w, batch_group_count, kernel[0])
        options = (padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count)
        parts = [
            conv_general_dilated(a, b, window_strides, *options) for a, b in zip(images, kernels, strict=True)
        ]
        return fnp.concatenate(parts, result[1])
    x, w = fnp.transpose(x, image), fnp.transpose(w, kernel)
    ones = (1,) * (x.ndim - 2)
    gaps, between = tuple(rhs_dilation or ones), tuple(lhs_dilation or ones)
    sides = padding
    if isinstance(padding, str):
        window = list(map(spread, w.shape[2:], gaps))
        sides = padtype_to_pads(list(map(spread, x.shape[2:], between)), window, window_strides, padding)
    sides = [tuple(map(int, side)) for side in sides]
    if any(min(side) < 0 for side in sides):
        widths = [(*side, d - 1) for side, d in zip(sides, between, strict=True)]
        x = pad(x, 0, [(0, 0, 0), (0, 0, 0), *widths])
        sides, between = [(0, 0)] * len(ones), ones
    steps, groups = tuple(window_strides), feature_group_count
    y = conv(x, w, stride=steps, padding=sides, dilation=gaps, input_dilation=between, groups=groups)
    return fnp.transpose(y, [list(result).index(i) for i in range(x.ndim)])


@_dilated
def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
) -> Any:
    """Return what lies under every window of a convolution, as channels: those of an image in turn.

    Args:
        lhs: images.
        filter_shape: the lengths of windows.

    Returns:
        Array with as many channels as the images have, times the elements of a window.

    Example:
        >>> conv_general_dilated_patches(np.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
        Tensor([[[0., 1., 2.],
                 [1., 2., 3.]]])
    """
    x, size = fnp.asarray(lhs), math.prod(filter_shape)
    image, kernel, _ = conv_dimension_numbers(x.shape, (1, 1, *filter_shape), dimension_numbers)
    channels = x.shape[image[1]]
    single = np.eye(size, dtype=x.dtype).reshape(size, 1, *filter_shape)
    w = np.transpose(np.concatenate([single] * channels), [list(kernel).index(i) for i in range(x.ndim)])
    options = (window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers)
    return conv_general_dilated(x, w, *options, feature_group_count=channels)


@_dilated
def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    filter_shape: Sequence[int],
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
) -> Any:
    """Return the convolution of images with a kernel of its own at each place.

    Args:
        lhs: images.
        rhs: kernels: inputs times elements of a window stand for the inputs, places for space.
        filter_shape: the lengths of windows.

    Returns:
        Array of the shape that a convolution has.

    Example:
        >>> kernels = np.array([[[1.0, 10.0], [0.0, 1.0]]])  # one output, two elements, two places
        >>> conv_general_dilated_local(np.array([[[1.0, 2.0, 3.0]]]), kernels, (1,), "VALID", (2,))
        Tensor([[[ 1., 23.]]])
    """
    x, w = fnp.asarray(lhs), fnp.asarray(rhs)
    options = (window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers)
    patches = conv_general_dilated_patches(x, filter_shape, *options)
    _, kernel, result = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    y = fnp.einsum("nc...,oc...->no...", fnp.transpose(patches, result), fnp.transpose(w, kernel))
    return fnp.transpose(y, [list(result).index(i) for i in range(x.ndim)])


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    use_consistent_padding: bool = False,
) -> Any:
    """Return the convolution of images, between whose elements there are zeros, with a kernel.

    Args:
        lhs: images.
        rhs: kernel.
        strides: the distance of elements of the image.
        padding: that of the convolution whose size this turns back, "SAME" or "VALID"; or for each axis a
            pair of what is added here.
        rhs_dilation: the distance of elements of the kernel.
        dimension_numbers: as for `conv_dimension_numbers`; None: channels are last.
        transpose_kernel: whether to turn the kernel round and exchange its inputs and outputs, so that this
            is the derivative of a convolution with it.
        use_consistent_padding: whether pairs are those of the convolution too.

    Returns:
        Array of the common float dtype.

    Example:
        >>> conv_transpose(np.ones((1, 3, 1)), np.ones((2, 1, 1)), (2,), "VALID").shape
        (1, 6, 1)
    """
    w = fnp.asarray(rhs)
    rank = w.ndim - 2
    space = "abc"[:rank]
    numbers = dimension_numbers or (f"N{space}C", f"{space}IO", f"N{space}C")
    outer, inner, *axes = conv_dimension_numbers((), w.shape, numbers).rhs_spec
    gaps = tuple(rhs_dilation or (1,) * rank)
    sides = padding
    if isinstance(padding, str) or use_consistent_padding:
        windows = [spread(w.shape[i], gap) for i, gap in zip(axes, gaps, strict=True)]
        given = [padding] * rank if isinstance(padding, str) else padding
        sides = list(map(_transposed_pads, windows, strides, given))
    if transpose_kernel:
        w = fnp.swapaxes(fnp.flip(w, tuple(axes)), outer, inner)
    return conv_general_dilated(lhs, w, (1,) * rank, sides, strides, gaps, numbers)


def _transposed_pads(window: int, stride: int, padding: Any) -> tuple[int, int]:
    """Return how much the padding of a convolution adds before and behind an axis of the transposed one."""
    if not isinstance(padding, str):
        low, high = (window - 1 - p for p in padding)
        return low, high
    total = window + stride - 2
    if padding == "VALID":
        total += max(window - stride, 0)
    first = window - 1 if padding == "VALID" or stride > window - 1 else -(-total // 2)
    return first, total - first


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Any = None,
    padding: Any = "VALID",
    base_dilation: Any = None,
    window_dilation: Any = None,
) -> Any:
    """Return what an associative function makes of the elements of every window, for windows over all axes.

    Args:
        operand: array.
        init_value: number with which each window begins, and of which padding is.
        computation: takes two arrays of one shape, and combines them element by element.
        window_dimensions: the length of windows along each axis.
        window_strides: the distance of windows; None: one.
        padding: "VALID", "SAME" or "SAME_LOWER", which leave `base_dilation` out of account, or for each
            axis a pair (before, behind).
        base_dilation: the distance of elements, with `init_value` between; None: one.
        window_dilation: the distance of elements of a window; None: one.

    Returns:
        Array with an element for each window.

    Derivative:
        That of the calls of `computation`.

    Example:
        >>> reduce_window(np.array([1.0, 2.0, 3.0]), 0.0, np.add, (2,))
        Tensor([3., 5.])
    """
    x = fnp.asarray(operand)
    init = fnp.asarray(init_value).astype(x.dtype)
    ones = (1,) * x.ndim
    steps, gaps, between = window_strides or ones, window_dilation or ones, base_dilation or ones
    window = list(map(spread, window_dimensions, gaps))
    sides = padtype_to_pads(x.shape, window, steps, padding) if isinstance(padding, str) else padding
    x = pad(x, init, [(int(low), int(high), d - 1) for (low, high), d in zip(sides, between, strict=True)])
    counts = tuple([(n - k) // s + 1 for n, k, s in zip(x.shape, window, steps, strict=True)])
    total = fnp.array(fnp.broadcast_to(init, counts))
    for place in np.ndindex(*window_dimensions):
        total = computation(total, x[at_place(place, counts, steps, gaps)])
    return total
