"""Convolution: windows of one array times a kernel, in any number of dimensions; and its two adjoints.

It is what deep learning calls convolution, without flipping the kernel. The three are bilinear, and the
adjoints of each are the others. Where no compiled code knows the case, both adjoints are computed as
convolutions: with the flipped kernel and the roles of stride and input dilation exchanged, and with the batch
as channels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval, Shape
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import LARGE, MULTILINEAR, PRODUCT, Rule, Written, by_argument, declare
from fgrad.core.stored import Stored, are_integers, are_steps, is_count, is_shape
from fgrad.ops.compiled import FLOATS, backend
from fgrad.ops.contraction import contract
from fgrad.ops.indices import HOLE
from fgrad.ops.linear import convert, in_full, reshape, transpose

Steps = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


class Geometry(NamedTuple):
    """Where windows lie: the parameters of the three primitives.

    Attributes:
        stride: the distance of windows.
        padding: zeros before and behind each axis; a negative number cuts.
        dilation: the distance of the elements of a window.
        input_dilation: the distance between elements of the input, with zeros between them.
        groups: into how many independent parts the channels fall.
    """

    stride: Steps
    padding: Pads
    dilation: Steps
    input_dilation: Steps
    groups: int = 1

    def places(self, space: Sequence[int], window: Sequence[int]) -> Shape:
        """Return how many windows fit along each axis."""
        return tuple(
            max(0, (spread(n, u) + low + high - spread(k, d)) // s + 1)
            for n, k, s, (low, high), d, u in zip(space, window, *self[:4], strict=True)
        )


def unit(rank: int) -> Geometry:
    """Return the geometry of windows at all places of the input itself."""
    ones = (1,) * rank
    return Geometry(ones, ((0, 0),) * rank, ones, ones)


def conv(x: Any, w: Any, geometry: Geometry) -> Any:
    """Return the convolution of `x` (N, C, *space) with `w` (O, C / groups, *window): (N, O, *places).

    Args:
        x: the input.
        w: the kernel; output channel o reads the channels of its group alone.
        geometry: where the windows lie.
    """
    return bind("conv", x, w, **geometry._asdict())


def conv_input(ct: Any, w: Any, *, shape: Shape, **params: Any) -> Any:
    """Return the cotangent of the input, of `shape`, of a convolution with `w`, from that of its output."""
    return bind("conv_input", ct, w, shape=shape, **params)


def spread(n: int, dilation: int) -> int:
    """Return the extent of `n` elements at distance `dilation`."""
    return (n - 1) * dilation + 1 if n else 0


def padded(x: Any, padding: Pads, input_dilation: Steps, value: float = 0.0) -> Any:
    """Return an array with `value` around its last axes, and zeros between their elements."""
    rank = len(padding)
    if all(u == 1 for u in input_dilation) and not any(map(any, padding)):
        return x
    full, there, here = framed(x.shape[-rank:], padding, input_dilation)
    out = near(x).full((*x.shape[:-rank], *full), value, x.dtype)
    out[there] = x[here]
    return out


def at_place(place: Sequence[int], count: Shape, stride: Steps, dilation: Steps) -> tuple[slice, ...]:
    """Return which elements stand at one place of every window, of which there are `count`."""
    starts = [i * d for i, d in zip(place, dilation, strict=True)]
    ends = [start + (n - 1) * s + 1 for start, n, s in zip(starts, count, stride, strict=True)]
    return tuple(map(slice, starts, ends, stride))


def framed(space: Shape, padding: Pads, input_dilation: Steps) -> tuple[Shape, Any, Any]:
    """Return the space with padding, where in it the elements stand that it has, and which these are."""
    full, there, here = [], [], []
    for n, u, (low, high) in zip(space, input_dilation, padding, strict=True):
        extent = max(0, spread(n, u) + low + high)
        first = max(0, -(low // u))  # a negative padding cuts what would stand before the start
        last = max(first, min(n, (extent - low - 1) // u + 1))
        start = low + first * u
        full.append(extent)
        there.append(slice(start, start + spread(last - first, u), u))
        here.append(slice(first, last))
    return tuple(full), (..., *there), (..., *here)


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


def _run(x: Any, w: Any, **params: Any) -> Any:
    geometry = Geometry(**params)
    stride, padding, dilation, input_dilation, groups = geometry
    window = w.shape[2:]
    count = geometry.places(x.shape[2:], window)
    dtype = np.result_type(x, w)
    shape = (x.shape[0], w.shape[0], *count)
    if not math.prod(shape) or not w.size:
        return near(x).zeros(shape, dtype)
    x, w = x.astype(dtype, copy=False), w.astype(dtype, copy=False)
    if _suits(x, w, shape, input_dilation, columns_of(x.shape, window, count)):
        return backend("windows").convolve(x, w, stride, padding, dilation, groups, shape)
    x = padded(x, padding, input_dilation)
    n, channels = x.shape[0], x.shape[1] // groups
    parts = windows(x.reshape((n, groups, channels, *x.shape[2:])), window, stride, dilation, count)
    k = channels * math.prod(window)
    columns = parts.reshape((n, groups, k, math.prod(count)))
    kernel = w.reshape((groups, w.shape[0] // groups, k))
    return np.matmul(kernel, columns).reshape(shape)


def columns_of(images: Shape, window: Shape, count: Shape) -> int:
    """Return how many elements all windows have, which slow code copies.

    Args:
        images: the shape of the input.
        window: that of a window.
        count: how many windows there are along each axis.
    """
    return images[0] * images[1] * math.prod(window) * math.prod(count)


def _suits(x: Any, y: Any, out: Shape, input_dilation: Steps, columns: int) -> bool:
    return x.__class__ is y.__class__ is np.ndarray and suits(x, y, out, input_dilation, columns)


def suits(x: Any, y: Any, out: Shape, input_dilation: Steps, columns: int) -> bool:
    """Return whether compiled code is worth it and knows the case: arrays of two axes of space, or one.

    Args:
        x: the input, or a cotangent.
        y: the kernel, or a cotangent.
        out: the shape of the result.
        input_dilation: the distance between elements of the input.
        columns: as `columns_of` says.
    """
    return (
        max(x.size + math.prod(out), columns) >= LARGE
        and x.dtype == y.dtype
        and x.dtype in FLOATS
        and len(out) in {3, 4}
        and all(u == 1 for u in input_dilation)
        and x.size > 0 < y.size
    )


def _shape(x: Any, w: Any, **params: Any) -> Aval:
    count = Geometry(**params).places(x.shape[2:], w.shape[2:])
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


def _run_input(ct: Any, w: Any, *, shape: Shape, **params: Any) -> Any:
    stride, padding, dilation, input_dilation, groups = Geometry(**params)
    columns = columns_of(shape, w.shape[2:], ct.shape[2:])
    if math.prod(shape) and _suits(ct, w, shape, input_dilation, columns):
        return backend("windows").convolve_back(ct, w, shape, stride, padding, dilation, groups)
    return _input_by(_run, ct, w, shape=shape, **params)


def _input_by(run: Rule, ct: Any, w: Any, *, shape: Shape, **params: Any) -> Any:
    """Return the cotangent of the input as a convolution, which `run` computes."""
    stride, padding, dilation, input_dilation, groups = Geometry(**params)
    window, pads = w.shape[2:], []
    for n, o, k, s, (low, _), d, u in zip(
        shape[2:], ct.shape[2:], window, stride, padding, dilation, input_dilation, strict=True
    ):
        before = spread(k, d) - 1 - low
        pads.append((before, spread(n, u) + spread(k, d) - 1 - spread(o, s) - before))
    outputs, channels = w.shape[0] // groups, w.shape[1]
    parts = w.reshape((groups, outputs, channels, *window)).swapaxes(1, 2)
    flips = (..., *(slice(None, None, -1),) * len(window))
    return run(
        ct,
        parts.reshape((groups * channels, outputs, *window))[flips],
        **Geometry(input_dilation, tuple(pads), dilation, stride, groups)._asdict(),
    )


def _run_kernel(ct: Any, x: Any, *, shape: Shape, **params: Any) -> Any:
    stride, padding, dilation, input_dilation, groups = Geometry(**params)
    columns = columns_of(x.shape, shape[2:], ct.shape[2:])
    if math.prod(shape) and _suits(x, ct, ct.shape, input_dilation, columns):
        return backend("windows").convolve_kernel(ct, x, shape, stride, padding, dilation, groups)
    return _kernel_by(_run, ct, x, shape=shape, **params)


def _kernel_by(run: Rule, ct: Any, x: Any, *, shape: Shape, **params: Any) -> Any:
    """Return the cotangent of the kernel as a convolution, which `run` computes."""
    stride, padding, dilation, input_dilation, groups = Geometry(**params)
    space, pads = x.shape[2:], []
    for n, o, k, s, (low, _), d, u in zip(
        space, ct.shape[2:], shape[2:], stride, padding, dilation, input_dilation, strict=True
    ):
        pads.append((low, spread(k, d) - 1 + spread(o, s) - spread(n, u) - low))
    examples, channels = x.shape[0], x.shape[1] // groups
    parts = x.reshape((examples, groups, channels, *space)).swapaxes(0, 2)
    back = run(
        parts.reshape((channels, groups * examples, *space)),
        ct.swapaxes(0, 1),
        **Geometry(dilation, tuple(pads), stride, input_dilation, groups)._asdict(),
    )
    return back.swapaxes(0, 1)


# ---- in compiled programs, where no kernel is worth it: elements of windows side by side, and a product

_FEW = 64  # elements of a window, each of which is a slice; those of others are gathered


def _written(x: Any, w: Any, **params: Any) -> Any:
    geometry = Geometry(**params)
    stride, padding, dilation, input_dilation, groups = geometry
    dtype, rank = np.result_type(x.dtype, w.dtype), len(stride)
    window = w.shape[2:]
    count = geometry.places(x.shape[2:], window)
    x, w = convert(x, dtype), convert(w, dtype)
    full, there, here = framed(x.shape[2:], padding, input_dilation)
    lead = x.shape[:2]
    if any(map(any, padding)) or any(u != 1 for u in input_dilation):
        x = bind("slice_backward", bind("slice", x, index=here), shape=(*lead, *full), index=there)
    k, p = math.prod(window), math.prod(count)
    if k <= _FEW:
        parts = []
        for offset in np.ndindex(*window):
            part = bind("slice", x, index=(..., *at_place(offset, count, stride, dilation)))
            parts.append(reshape(part, (*lead, 1, p)))
        columns = bind("concatenate", *parts, axis=2) if k > 1 else parts[0]
    else:
        axes = [
            np.arange(m)[:, None] * d + np.arange(c) * s
            for m, c, d, s in zip(window, count, dilation, stride, strict=True)
        ]
        index: Any = np.zeros((1, 1), np.intp)
        for n, own in zip(full, axes, strict=True):
            index = index[:, None, :, None] * n + own[None, :, None, :]
            index = index.reshape(index.shape[0] * index.shape[1], -1)
        flat = reshape(x, (*lead, math.prod(full)))
        columns = bind("gather", flat, index, template=(slice(None), slice(None), HOLE))
    channels, outputs = lead[1] // groups, w.shape[0] // groups
    columns = reshape(columns, (lead[0], groups, channels * k, p))
    kernel = reshape(w, (groups, outputs, channels * k))
    out = contract(columns, kernel, "ngkp", "gok", "ngop")
    return reshape(out, (lead[0], w.shape[0], *count[:rank]))


def _is_small(x: Aval, w: Aval, **params: Any) -> bool:
    out = _shape(x, w, **params).shape
    return x.size > 0 < w.size and _is_written("conv", x, w, (x.shape, w.shape, out), params)


def _is_small_adjoint(name: str, ct: Aval, other: Aval, *, shape: Shape, **params: Any) -> bool:
    """Return the same of a primitive that gives the cotangent, of `shape`, of one operand."""
    shapes = (shape, other.shape) if name == "conv_input" else (other.shape, shape)
    return ct.size > 0 < other.size and _is_written(name, ct, other, (*shapes, ct.shape), params)


def _is_written(
    name: str, x: Aval, y: Aval, shapes: tuple[Shape, Shape, Shape], params: dict[str, Any]
) -> bool:
    """Return whether a convolution is written as products.

    Args:
        name: of the primitive.
        x: an operand.
        y: another one.
        shapes: of the input, the kernel and the output.
        params: of the primitive.
    """
    images, kernel, out = shapes
    given, by_windows = params["input_dilation"], columns_of(images, kernel[2:], out[2:])
    made = {"conv": out, "conv_input": images, "conv_kernel": out}[name]
    is_large = suits(x, y, made, given, 0)
    if is_large or not suits(x, y, made, given, by_windows):
        return not is_large
    # arrays are small, their windows are not: unless there are loops for the case, products take less time
    geometry = Geometry(**params)
    plan = backend("convolution").Geometry(
        images, kernel, out, geometry.stride, geometry.padding, geometry.dilation, geometry.groups
    )
    plan = plan.turned() if name == "conv_input" else plan
    return max(geometry.stride) > 1 or not plan.suits(x.dtype.itemsize)


_BY_TILES = "large arrays with wide windows, or strides and dilation, are tiles of eager mode"


def _batch(mapped: tuple[bool, ...], x: Any, w: Any, **params: Any) -> Any:
    geometry = Geometry(**params)
    groups = geometry.groups
    if not mapped[1]:
        out = conv(merged(x, 0), w, geometry)
        return reshape(out, (*x.shape[:2], *out.shape[1:]))
    size, channels = w.shape[:2]
    if not mapped[0]:
        grouped = swapped(split(w, 1, groups), 0, 1)  # (groups, size, O / groups) in this order
        out = conv(x, merged(merged(grouped, 0), 0), geometry)
        out = reshape(out, (x.shape[0], groups, size, channels // groups, *out.shape[2:]))
        return merged(transpose(out, (2, 0, 1, *range(3, len(out.shape)))), 2)
    examples = merged(swapped(x, 0, 1), 1)  # N, size C
    out = conv(examples, merged(w, 0), geometry._replace(groups=size * groups))
    return swapped(reshape(out, (x.shape[1], size, channels, *out.shape[2:])), 0, 1)


def _batch_adjoint(
    name: str, mapped: tuple[bool, ...], ct: Any, y: Any, *, shape: Shape, groups: int, **params: Any
) -> Any:
    size = (ct if mapped[0] else y).shape[0]
    if name == "conv_input" and not mapped[1]:  # more examples
        out = bind(name, merged(ct, 0), y, shape=(size * shape[0], *shape[1:]), groups=groups, **params)
        return split(out, 0, size)
    ct, y = in_full(mapped, (ct, y))
    ct, params = merged(swapped(ct, 0, 1), 1), {"groups": size * groups, **params}  # more groups of channels
    if name == "conv_kernel":
        y = merged(swapped(y, 0, 1), 1)
        return split(bind(name, ct, y, shape=(size * shape[0], *shape[1:]), **params), 0, size)
    out = bind(name, ct, merged(y, 0), shape=(shape[0], size * shape[1], *shape[2:]), **params)
    return swapped(split(out, 1, size), 0, 1)


def are_pads(v: Any, _: Any) -> bool:
    """Return whether a value is how much stands before and after each axis."""
    return type(v) is tuple and all(are_integers(p, _) and len(p) == 2 for p in v)


def padded_size(x: Aval, padding: Pads, dilation: Steps = ()) -> int:
    """Return how many elements a padded operand has."""
    rank = len(padding)
    full, *_ = framed(x.shape[-rank:], padding, dilation or (1,) * rank)
    return math.prod((*x.shape[:-rank], *full))


def _convolves(x: Aval, w: Aval, **p: Any) -> bool:
    rank = x.ndim - 2
    return (
        rank == w.ndim - 2 > 0
        and all(len(p[k]) == rank for k in ("stride", "padding", "dilation", "input_dilation"))
        and p["groups"] > 0
        and x.shape[1] == w.shape[1] * p["groups"]
        and w.shape[0] % p["groups"] == 0
    )


def _work(x: Aval, w: Aval, **params: Any) -> int:
    geometry = Geometry(**params)
    wide = padded_size(x, geometry.padding, geometry.input_dilation)
    count = geometry.places(x.shape[2:], w.shape[2:])
    columns: int = math.prod(x.shape[:2]) * math.prod(w.shape[2:]) * math.prod(count)
    return wide + columns


def _operands(name: str, ct: Aval, other: Aval, shape: Shape) -> tuple[Aval, Aval]:
    """Return input and kernel of the convolution of which `name` is an adjoint."""
    own = Aval(shape, np.result_type(ct.dtype, other.dtype))
    return (own, other) if name == "conv_input" else (other, own)


def _pulls_back(name: str, ct: Aval, other: Aval, *, shape: Shape, **p: Any) -> bool:
    operands = _operands(name, ct, other, shape)
    return _convolves(*operands, **p) and _shape(*operands, **p).shape == ct.shape


_PARAMS = {
    "stride": are_steps,
    "padding": are_pads,
    "dilation": are_steps,
    "input_dilation": are_steps,
    "groups": is_count,
}
declare(
    "conv",
    run=_run,
    vjp=by_argument(
        lambda ct, y, x_aval, **params: conv_input(ct, y, shape=x_aval.shape, **params),
        lambda ct, x, y_aval, **params: bind("conv_kernel", ct, x, shape=y_aval.shape, **params),
        transpose=MULTILINEAR,
    ),
    shape=_shape,
    batch=_batch,
    costly=True,
    traits={PRODUCT},
    written=Written(_written, _is_small),
    interpreted=_BY_TILES,
    stored=Stored(_PARAMS, verify=_convolves, work=_work),
)


def _declare_adjoint(name: str, run: Rule, written: Rule, *rules: Rule) -> None:
    declare(
        name,
        run=run,
        vjp=by_argument(*rules, transpose=MULTILINEAR),
        shape=lambda ct, other, *, shape, **_: Aval(shape, np.result_type(ct.dtype, other.dtype)),
        batch=functools.partial(_batch_adjoint, name),
        costly=True,
        traits={PRODUCT},
        written=Written(functools.partial(written, _written), functools.partial(_is_small_adjoint, name)),
        interpreted=_BY_TILES,
        stored=Stored(
            {"shape": is_shape, **_PARAMS},
            verify=functools.partial(_pulls_back, name),
            work=lambda ct, other, *, shape, **p: _work(*_operands(name, ct, other, shape), **p),
        ),
    )


_declare_adjoint(
    "conv_input",  # (cotangent of a convolution, its kernel) -> cotangent of its input, of `shape`
    _run_input,
    _input_by,
    lambda ct, y, *, shape, **params: bind("conv", ct, y, **params),
    lambda ct, x, y_aval, *, shape, **params: bind("conv_kernel", x, ct, shape=y_aval.shape, **params),
)
_declare_adjoint(
    "conv_kernel",  # (cotangent of a convolution, its input) -> cotangent of its kernel, of `shape`
    _run_kernel,
    _kernel_by,
    lambda ct, y, *, shape, **params: bind("conv", y, ct, **params),
    lambda ct, x, y_aval, *, shape, **params: conv_input(x, ct, shape=y_aval.shape, **params),
)
