"""The convolution primitive: windows of one array times a kernel, in any number of dimensions.

It is what deep learning calls convolution, without flipping the kernel. Both adjoints are convolutions again:
with the flipped kernel and the roles of stride and input dilation exchanged, and with the batch as channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval, Shape
from fgrad.core.placement import near
from fgrad.core.primitive import LARGE, MULTILINEAR, PRODUCT, Primitive, by_argument, register
from fgrad.core.stored import Stored, are_integers, are_steps, is_count
from fgrad.core.tensor import bind
from fgrad.ops.compiled import FLOATS, backend
from fgrad.ops.linear import reshape, transpose

Steps = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


def conv(
    x: Any, w: Any, *, stride: Steps, padding: Pads, dilation: Steps, input_dilation: Steps, groups: int
) -> Any:
    """Return the convolution of `x` (N, C, *space) with `w` (O, C / groups, *window): (N, O, *places).

    Args:
        x: the input.
        w: the kernel; output channel o reads the channels of its group alone.
        stride: the distance of windows.
        padding: zeros before and behind each axis; a negative number cuts.
        dilation: the distance of the elements of a window.
        input_dilation: the distance between elements of `x`, with zeros between them.
        groups: into how many independent parts the channels fall.
    """
    return bind(
        "conv",
        x,
        w,
        stride=stride,
        padding=padding,
        dilation=dilation,
        input_dilation=input_dilation,
        groups=groups,
    )


def spread(n: int, dilation: int) -> int:
    """Return the extent of `n` elements at distance `dilation`."""
    return (n - 1) * dilation + 1 if n else 0


def places(
    space: Sequence[int],
    window: Sequence[int],
    stride: Steps,
    padding: Pads,
    dilation: Steps,
    input_dilation: Steps,
) -> Shape:
    """Return how many windows fit along each axis."""
    return tuple(
        max(0, (spread(n, u) + low + high - spread(k, d)) // s + 1)
        for n, k, s, (low, high), d, u in zip(
            space, window, stride, padding, dilation, input_dilation, strict=True
        )
    )


def padded(x: Any, padding: Pads, input_dilation: Steps, value: float = 0.0) -> Any:
    """Return an array with `value` around its last axes, and zeros between their elements."""
    rank = len(padding)
    if all(u == 1 for u in input_dilation) and not any(map(any, padding)):
        return x
    lead, space = x.shape[:-rank], x.shape[-rank:]
    extents = [
        spread(n, u) + low + high for n, u, (low, high) in zip(space, input_dilation, padding, strict=True)
    ]
    out = near(x).full((*lead, *(max(0, e) for e in extents)), value, x.dtype)
    source: list[Any] = []
    target: list[Any] = []
    for n, u, (low, _), extent in zip(space, input_dilation, padding, extents, strict=True):
        first = max(0, -(low // u))  # a negative padding cuts what would stand before the start
        last = max(first, min(n, (extent - low - 1) // u + 1))
        source.append(slice(first, last))
        start = low + first * u
        target.append(slice(start, start + spread(last - first, u), u))
    at: Any = (..., *source)
    out[(..., *target)] = x[at]
    return out


def windows(x: Any, window: Sequence[int], stride: Steps, dilation: Steps, count: Shape) -> Any:
    """Return the view of all windows of the last axes of `x`: (..., *window, *places)."""
    rank = len(window)
    steps = x.strides[-rank:]
    shape, strides = (
        (*x.shape[:-rank], *window, *count),
        (
            *x.strides[:-rank],
            *(s * d for s, d in zip(steps, dilation, strict=True)),
            *(s * d for s, d in zip(steps, stride, strict=True)),
        ),
    )
    if x.__class__ is DeviceArray:
        return x.place.as_strided(x, shape, strides)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def _run(
    x: Any, w: Any, *, stride: Steps, padding: Pads, dilation: Steps, input_dilation: Steps, groups: int
) -> Any:
    window = w.shape[2:]
    count = places(x.shape[2:], window, stride, padding, dilation, input_dilation)
    dtype = np.result_type(x, w)
    shape = (x.shape[0], w.shape[0], *count)
    if not math.prod(shape) or not w.size:
        return near(x).zeros(shape, dtype)
    x, w = x.astype(dtype, copy=False), w.astype(dtype, copy=False)
    if x.__class__ is np.ndarray and _suits(x, w, shape, input_dilation):
        return backend("windows").convolve(x, w, stride, padding, dilation, groups, shape)
    x = padded(x, padding, input_dilation)
    n, channels = x.shape[0], x.shape[1] // groups
    parts = windows(x.reshape((n, groups, channels, *x.shape[2:])), window, stride, dilation, count)
    k = channels * math.prod(window)
    columns = parts.reshape((n, groups, k, math.prod(count)))
    kernel = w.reshape((groups, w.shape[0] // groups, k))
    return np.matmul(kernel, columns).reshape(shape)


def _suits(x: Any, w: Any, out: Shape, input_dilation: Steps) -> bool:
    """Return whether compiled code is worth it and knows the case: two axes, or one."""
    return (
        x.size + math.prod(out) >= LARGE
        and x.dtype in FLOATS
        and len(out) in {3, 4}
        and all(u == 1 for u in input_dilation)
    )


def _shape(
    x: Any, w: Any, *, stride: Steps, padding: Pads, dilation: Steps, input_dilation: Steps, groups: int
) -> Aval:
    count = places(x.shape[2:], w.shape[2:], stride, padding, dilation, input_dilation)
    return Aval((x.shape[0], w.shape[0], *count), np.result_type(x.dtype, w.dtype))


def split(x: Any, axis: int, groups: int) -> Any:
    """Return `x` with an axis as two, the first of length `groups`."""
    shape = x.shape
    return reshape(x, (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]))


def merged(x: Any, axis: int) -> Any:
    """Return `x` with an axis and the next one as one."""
    shape = x.shape
    return reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def swapped(x: Any, i: int, j: int) -> Any:
    """Return `x` with two axes exchanged."""
    axes = list(range(len(x.shape)))
    axes[i], axes[j] = j, i
    return transpose(x, tuple(axes))


def turned(w: Any, groups: int) -> Any:
    """Return the kernel (O, C / groups, *window) of the transposed map: (C, O / groups, *window), flipped."""
    w = merged(swapped(split(w, 0, groups), 1, 2), 0)
    flips = (slice(None, None, -1),) * (len(w.shape) - 2)
    return bind("slice", w, index=(slice(None), slice(None), *flips))


def _input_adjoint(
    ct: Any,
    y: Any,
    x_aval: Aval,
    *,
    stride: Steps,
    padding: Pads,
    dilation: Steps,
    input_dilation: Steps,
    groups: int,
) -> Any:
    if (
        ct.__class__ is np.ndarray
        and y.__class__ is np.ndarray
        and ct.dtype == y.dtype == x_aval.dtype
        and ct.size
        and y.size
        and _suits(ct, y, x_aval.shape, input_dilation)
    ):
        return backend("windows").convolve_back(ct, y, x_aval.shape, stride, padding, dilation, groups)
    pads = []
    for n, o, k, s, (low, _), d, u in zip(
        x_aval.shape[2:], ct.shape[2:], y.shape[2:], stride, padding, dilation, input_dilation, strict=True
    ):
        before = spread(k, d) - 1 - low
        pads.append((before, spread(n, u) + spread(k, d) - 1 - spread(o, s) - before))
    return conv(
        ct,
        turned(y, groups),
        stride=input_dilation,
        padding=tuple(pads),
        dilation=dilation,
        input_dilation=stride,
        groups=groups,
    )


def _kernel_adjoint(
    ct: Any,
    x: Any,
    y_aval: Aval,
    *,
    stride: Steps,
    padding: Pads,
    dilation: Steps,
    input_dilation: Steps,
    groups: int,
) -> Any:
    if (
        ct.__class__ is np.ndarray
        and x.__class__ is np.ndarray
        and ct.dtype == x.dtype == y_aval.dtype
        and ct.size
        and y_aval.size
        and _suits(x, ct, ct.shape, input_dilation)
    ):
        return backend("windows").convolve_kernel(ct, x, y_aval.shape, stride, padding, dilation, groups)
    pads = []
    for n, o, k, s, (low, _), d, u in zip(
        x.shape[2:], ct.shape[2:], y_aval.shape[2:], stride, padding, dilation, input_dilation, strict=True
    ):
        pads.append((low, spread(k, d) - 1 + spread(o, s) - spread(n, u) - low))
    examples = merged(swapped(split(x, 1, groups), 0, 2), 1)
    back = conv(
        examples,
        swapped(ct, 0, 1),
        stride=dilation,
        padding=tuple(pads),
        dilation=stride,
        input_dilation=input_dilation,
        groups=groups,
    )
    return swapped(back, 0, 1)


def _batch(mapped: tuple[bool, ...], x: Any, w: Any, **params: Any) -> Any:
    groups = params.pop("groups")
    if not mapped[1]:
        out = conv(merged(x, 0), w, groups=groups, **params)
        return reshape(out, (*x.shape[:2], *out.shape[1:]))
    size, channels = w.shape[:2]
    if not mapped[0]:
        grouped = swapped(split(w, 1, groups), 0, 1)  # (groups, size, O / groups) in this order
        out = conv(x, merged(merged(grouped, 0), 0), groups=groups, **params)
        out = reshape(out, (x.shape[0], groups, size, channels // groups, *out.shape[2:]))
        return merged(transpose(out, (2, 0, 1, *range(3, len(out.shape)))), 2)
    examples = merged(swapped(x, 0, 1), 1)  # N, size C
    out = conv(examples, merged(w, 0), groups=size * groups, **params)
    return swapped(reshape(out, (x.shape[1], size, channels, *out.shape[2:])), 0, 1)


def are_pads(v: Any, _: Any) -> bool:
    """Return whether a value is how much stands before and after each axis."""
    return type(v) is tuple and all(are_integers(p, _) and len(p) == 2 for p in v)


def padded_size(x: Aval, padding: Pads, dilation: Steps = ()) -> int:
    """Return how many elements a padded operand has."""
    rank = len(padding)
    extents = (
        max(0, spread(n, u) + low + high)
        for n, u, (low, high) in zip(x.shape[-rank:], dilation or (1,) * rank, padding, strict=True)
    )
    size: int = math.prod(x.shape[:-rank]) * math.prod(extents)
    return size


def _convolves(x: Aval, w: Aval, **p: Any) -> bool:
    rank = x.ndim - 2
    return (
        rank == w.ndim - 2 > 0
        and all(len(p[k]) == rank for k in ("stride", "padding", "dilation", "input_dilation"))
        and p["groups"] > 0
        and x.shape[1] == w.shape[1] * p["groups"]
        and w.shape[0] % p["groups"] == 0
    )


def _work(x: Aval, w: Aval, *, padding: Pads, input_dilation: Steps, **p: Any) -> int:
    wide = padded_size(x, padding, input_dilation)
    count = places(x.shape[2:], w.shape[2:], p["stride"], padding, p["dilation"], input_dilation)
    columns: int = math.prod(x.shape[:2]) * math.prod(w.shape[2:]) * math.prod(count)
    return wide + columns


register(
    Primitive(
        "conv",
        run=_run,
        vjp=by_argument(
            _input_adjoint,
            _kernel_adjoint,
            transpose=MULTILINEAR,
        ),
        shape=_shape,
        batch=_batch,
        costly=True,
        traits={PRODUCT},
        stored=Stored(
            {
                "stride": are_steps,
                "padding": are_pads,
                "dilation": are_steps,
                "input_dilation": are_steps,
                "groups": is_count,
            },
            fits=_convolves,
            work=_work,
        ),
    )
)
