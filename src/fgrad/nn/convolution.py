"""Convolution in any number of dimensions, and its transpose."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.nn.geometry import check_windows, pads, per_axis
from fgrad.numpy.reductions import inexact
from fgrad.ops import windows
from fgrad.ops.linear import convert, reshape
from fgrad.ops.windows import Geometry, spread


def conv(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    input_dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution of images with a kernel, in any number of dimensions.

    out[n, o, p] = sum_(c, k) w[o, c, k] x[n, c, stride p + dilation k], which does not flip the kernel.

    Args:
        x: array (N, C, *space).
        w: kernel (O, C / groups, *window).
        bias: array of O summands; None: zeros.
        stride: the distance of windows: an integer, or one for each axis of space.
        padding: zeros around `x`: "VALID" (none), "SAME" (so that ceil(n / stride) windows fit), an integer,
            or for each axis an integer or a pair (before, behind).
        dilation: the distance of the elements of a window.
        input_dilation: the distance between the elements of `x`, with zeros between.
        groups: into how many parts the channels fall; the outputs of a part see its inputs alone.

    Returns:
        Array (N, O, *space) of the common float dtype.

    Raises:
        ValueError: incompatible shapes, or a window larger than the padded input.

    Example:
        >>> conv(np.arange(4.0).reshape(1, 1, 4), np.ones((1, 1, 2)))
        array([[[1., 3., 5.]]])
    """
    x, w = _operands("conv", x, w, groups)
    rank = len(x.shape) - 2
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ValueError(
            f"conv: x of shape {tuple(x.shape)} has {x.shape[1]} channels, but the kernel of shape "
            f"{tuple(w.shape)} with {groups} group(s) takes {w.shape[1] * groups}, and makes {w.shape[0]}; "
            "x is (N, C, *space), the kernel (O, C / groups, *window), and groups divides C and O"
        )
    steps, gaps = per_axis(stride, rank, "stride"), per_axis(dilation, rank, "dilation")
    inner = per_axis(input_dilation, rank, "input_dilation")
    window = tuple(w.shape[2:])
    space = tuple(spread(n, u) for n, u in zip(x.shape[2:], inner, strict=True))
    sides = pads(padding, space, window, steps, gaps)
    geometry = Geometry(steps, sides, gaps, inner, groups)
    check_windows("conv", x.shape[2:], window, geometry)
    return _biased(windows.conv(x, w, geometry), bias)


def conv_transpose(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: Any = 1,
    padding: Any = "VALID",
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return the transpose of `conv`: what its derivative in the input does to images.

    Args:
        x: array (N, C, *space).
        w: kernel (C, O / groups, *window): the kernel of the `conv` that this transposes.
        bias: array of O summands; None: zeros.
        stride: that of the `conv`: here the distance at which windows are laid down.
        padding: that of the `conv`: here what is cut off; "SAME" gives stride * n elements.
        output_padding: how many elements to add behind each axis, where several input lengths of the `conv`
            have one output length; less than the stride.
        dilation: the distance of the elements of a window.
        groups: into how many parts the channels fall.

    Returns:
        Array (N, O, *space); (n - 1) stride + dilation (window - 1) + 1 - padding + output_padding elements.

    Raises:
        ValueError: incompatible shapes, or nothing would remain.

    Example:
        >>> fg.nn.conv_transpose(np.ones((1, 1, 3)), np.ones((1, 1, 2)), stride=2).shape
        (1, 1, 6)
    """
    x, w = _operands("conv_transpose", x, w, groups)
    rank = len(x.shape) - 2
    if x.shape[1] != w.shape[0] or w.shape[0] % groups:
        raise ValueError(
            f"conv_transpose: x of shape {tuple(x.shape)} has {x.shape[1]} channels, but the kernel of shape "
            f"{tuple(w.shape)} takes {w.shape[0]}; x is (N, C, *space), the kernel (C, O / groups, *window), "
            "and groups divides C"
        )
    steps, gaps = per_axis(stride, rank, "stride"), per_axis(dilation, rank, "dilation")
    extra = per_axis(output_padding, rank, "output_padding", 0)
    window = tuple(w.shape[2:])
    same = isinstance(padding, str) and padding.upper() == "SAME"
    whole = tuple(n * s for n, s in zip(x.shape[2:], steps, strict=True))
    sides, space = [], []
    for n, k, s, d, e, full, (low, high) in zip(
        x.shape[2:], window, steps, gaps, extra, whole, pads(padding, whole, window, steps, gaps), strict=True
    ):
        reach = spread(k, d) - 1
        short = max(0, full - spread(n, s) - reach) if same else 0  # windows that leave gaps between them
        sides.append((low, high - e - short))
        space.append(spread(n, s) + reach - low - high + e + short)
        if spread(n, s) + reach - low - high + e < 1 and n:
            raise ValueError(
                f"conv_transpose: padding {padding!r} removes the output of length {spread(n, s) + reach}"
            )
    y = windows.conv_input(
        x,
        w,
        shape=(x.shape[0], w.shape[1] * groups, *space),
        **Geometry(steps, tuple(sides), gaps, (1,) * rank, groups)._asdict(),
    )
    return _biased(y, bias)


def _operands(name: str, x: Any, w: Any, groups: int) -> tuple[Any, Any]:
    x, w = inexact(x), inexact(w)
    if len(x.shape) != len(w.shape) or len(x.shape) < 3:
        raise ValueError(
            f"{name}: x of shape {tuple(x.shape)} and kernel of shape {tuple(w.shape)} must have the same "
            "number of axes, at least three: two, and those of space"
        )
    if groups < 1:
        raise ValueError(f"{name}: groups must be at least 1, not {groups}")
    dtype = np.result_type(x.dtype, w.dtype)
    return convert(x, dtype), convert(w, dtype)


def _biased(y: Any, bias: Any) -> Any:
    if bias is None:
        return y
    b = inexact(bias)
    return y + reshape(b, (b.shape[0], *(1,) * (len(y.shape) - 2)))
