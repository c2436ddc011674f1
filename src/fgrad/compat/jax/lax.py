"""`jax.lax`: control flow on `fgrad.lax`, and JAX's own names of functions of elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

import fgrad
import fgrad.lax
import fgrad.nn
import fgrad.scipy.special
from fgrad import numpy as fnp
from fgrad.compat.jax import operands
from fgrad.compat.jax.arrays import OWN, Array, as_array, elementwise, made, moved, named, of_elements, opened
from fgrad.compat.jax.jaxprs import own_primitive
from fgrad.compat.jax.numpy import NAMES as NUMPY
from fgrad.compat.jax.numpy import wide_enough
from fgrad.compat.jax.transformations import Flat, inside
from fgrad.compat.jax.trees import flatten, tree_map, unflatten
from fgrad.compat.jax.types import CONFIG, promoted
from fgrad.compat.standins import by_name, renamed, words
from fgrad.errors import EscapedTensorError
from fgrad.nn.geometry import pads

Function = Callable[..., Any]
_REST: Any = object()


def cond(pred: Any, *args: Any, **kwargs: Any) -> Any:
    """Return `true_fun(*operands)` or `false_fun(*operands)`.

    Each function may have an operand of its own: `cond(pred, x, true_fun, y, false_fun)`.
    """
    if len(args) == 4 and callable(args[1]) and callable(args[3]) and not callable(args[0]):
        x, on_true, y, on_false = args
        args = (lambda x, _: on_true(x)), (lambda _, y: on_false(y)), x, y
    true_fun, false_fun, *operands = (
        *args,
        *(kwargs.pop(k) for k in ("true_fun", "false_fun") if k in kwargs),
    )
    return switch(as_array(pred).astype(bool).astype(int), (false_fun, true_fun), *operands, **kwargs)


def switch(index: Any, branches: Sequence[Function], *operands: Any, operand: Any = _REST) -> Any:
    """Return `branches[index](*operands)`, the first or the last one where there is none."""
    operands = operands if operand is _REST else (operand,)
    flats = [Flat(lambda xs, f=f: f(*xs), list(operands)) for f in branches]
    (i,) = (elementwise(lambda k: fnp.clip(k, 0, len(flats) - 1), index)._tensor,)
    outs = fgrad.lax.switch(i, flats, *flats[0].tensors)
    ran = next(f for f in flats if f.out is not None)
    if any(f.out is not None and f.out != ran.out for f in flats):
        raise TypeError("the branches return different containers")
    if len({tuple(x in OWN and x for x in f.forms) for f in flats if f.out is not None}) > 1:
        raise TypeError("the branches return different dtypes, of which one is bfloat16 or that of keys")
    return ran.results(outs)


def scan(
    f: Function, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False,
    unroll: Any = 1, _split_transpose: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the last carry, and the stacked outputs of `carry, y = f(carry, x)` along `xs`."""
    over, out = _Carry(xs), _Carry(None)
    count = length if length is not None else over.arrays[0].shape[0] if over.arrays else 0

    def run(start: _Carry) -> tuple[Any, Any]:
        out.out = None

        @inside
        def step(carry: Any, x: Any) -> Any:
            new, y = f(start.filled(carry), over.filled(x))
            return start.kept(new, "scan"), out.taken(y)

        def steps(carry: Any, values: Any) -> Any:
            return fgrad.lax.scan(step, carry, values, length=length, reverse=reverse)

        last, ys = _compiled_if_long(steps, count)(start.tensors, over.tensors)
        if out.out is None:
            raise NotImplementedError(
                "fgrad's jax.lax.scan of nothing does not know what the function returns"
            )
        return start.last(last), out.results(ys)

    return _settled(init, run)  # type: ignore[no-any-return]


def _settled(init: Any, run: Callable[[_Carry], Any]) -> Any:
    """Return what a loop gives whose weak values begin with the dtype that comes back to them."""
    start = _Carry(init)
    try:
        return run(start)
    except _StrongerError as found:
        stronger = unflatten(start.structure, found.arrays)
    return _settled(stronger, run)


class _StrongerError(Exception):
    """A loop began with weak values, to which others came back: the values to begin with instead."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.arrays = arrays


def _carried(x: Array, old: Array) -> Any:
    if x.dtype != old.dtype and not (
        x.weak_type and promoted(((x.dtype, True), (old.dtype, False)))[0] == old.dtype
    ):
        raise TypeError(f"a carry of dtype {old.dtype} becomes {x.dtype}: give it this dtype from the start")
    return x.astype(old.dtype)._tensor


LONG = 200  # steps of a loop that take longer than to compile it


def _compiled_if_long(run: Function, steps: int) -> Function:
    """Return what runs a loop; JAX reads bodies once, so that a compiled one is no other."""
    if steps < LONG or CONFIG.jax_disable_jit:
        return run

    def compiled(*args: Any) -> Any:
        try:
            return fgrad.jit(run)(*args)
        except EscapedTensorError:  # by custom rules, whose closures only eager mode knows
            return run(*args)

    return compiled


def _begun(old: Array, new: Array) -> Array:
    """Return a weak value as what comes back to it."""
    if not old.weak_type or new.dtype == old.dtype:
        return old
    dtype, _ = promoted(((old.dtype, True), (new.dtype, new.weak_type)))
    return old.astype(dtype)


class _Carry(Flat):
    """The state of a loop, whose results are weak only as long as nothing strong came to it."""

    steps = 0  # of all loops

    def __init__(self, tree: Any) -> None:
        super().__init__(lambda x: x, tree)
        self.forms = [a.form for a in self.arrays]

    def kept(self, tree: Any, what: str) -> list[Any]:
        """Return the Tensors of what a body returned."""
        _Carry.steps += 1
        leaves, structure = flatten(tree)
        if structure != self.structure:
            raise TypeError(f"{what}: the state is {self.structure}, and the function returned {structure}")
        new = [as_array(x) for x in leaves]
        begun = [_begun(a, x) for a, x in zip(self.arrays, new, strict=True)]
        if any(b.dtype != a.dtype for a, b in zip(self.arrays, begun, strict=True)):
            raise _StrongerError(begun)
        self.forms = [w if w in OWN else w and x.weak_type for w, x in zip(self.forms, new, strict=True)]
        return [_carried(x, a) for x, a in zip(new, self.arrays, strict=True)]

    def last(self, tensors: Any) -> Any:
        """Return the state after the loop."""
        self.out = self.structure
        return self.results(tensors)


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """Return the value after `val = body_fun(val)` as long as `cond_fun(val)`."""

    def run(start: _Carry) -> Any:
        goes = inside(lambda v: as_array(cond_fun(start.filled(v)))._tensor)
        body = inside(lambda v: start.kept(body_fun(start.filled(v)), "while_loop"))
        end = _Carry.steps + LONG
        first = fgrad.lax.while_loop(lambda v: _Carry.steps < end and goes(v), body, start.tensors)
        if _Carry.steps < end:
            return start.last(first)
        return start.last(_compiled_if_long(lambda v: fgrad.lax.while_loop(goes, body, v), LONG)(first))

    return _settled(init_val, run)


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any, *, unroll: Any = None) -> Any:
    """Return the value after `val = body_fun(i, val)` for i from `lower` to `upper`."""
    first, end = (as_array(v)._tensor if v.__class__ is Array else v for v in (lower, upper))
    count = end - first if isinstance(end, int) and isinstance(first, int) else 0

    def run(start: _Carry) -> Any:
        @inside
        def body(i: Any, values: Any) -> Any:
            return start.kept(body_fun(as_array(i).astype(int), start.filled(values)), "fori_loop")

        def steps(values: Any) -> Any:
            return fgrad.lax.fori_loop(first, end, body, values)

        return start.last(_compiled_if_long(steps, count)(start.tensors))

    return _settled(init_val, run)


def stop_gradient(x: Any) -> Any:
    """Return arrays through which no derivative passes."""
    return tree_map(lambda v: made(fgrad.stop_gradient(v._tensor), v.form) if v.__class__ is Array else v, x)


def top_k(operand: Any, k: int, *, axis: int = -1, descending: bool = True) -> list[Array]:
    """Return the `k` greatest or least elements along an axis, and their indices."""
    x = as_array(operand)
    values, places = fgrad.lax.top_k(opened(x), k, axis, descending=descending)
    return [made(values, x.strong), made(places).astype(int)]


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of updates lie in windows, and which axes of the operand indices count."""

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]


def scatter_add(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
) -> Array:  # fmt: skip
    """Return a copy with updates added at places, of which every other axis is whole."""
    axes = tuple(dimension_numbers.scatter_dims_to_operand_dims)
    if sorted(axes) != sorted(dimension_numbers.inserted_window_dims):
        raise NotImplementedError("fgrad's jax.lax.scatter_add adds along whole axes: use .at[...].add")
    x, indices, new = as_array(operand), as_array(scatter_indices), as_array(updates)
    windows = tuple(dimension_numbers.update_window_dims)
    order = [k for k in range(new.ndim) if k not in windows] + list(windows)
    front = tuple(range(len(axes)))
    moved = made(fnp.moveaxis(x._tensor, axes, front), x.form)
    places = tuple(indices[..., k] for k in range(indices.shape[-1]))
    out = moved.at[places].add(made(fnp.transpose(new._tensor, order), new.form), mode=mode)
    return made(fnp.moveaxis(out._tensor, front, axes), out.form)


def associative_scan(fn: Function, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Return all partial results of an associative `fn` along an axis."""
    flat = Flat(lambda x: x, elems)

    def combine(a: Any, b: Any) -> Any:
        found = flatten(fn(flat.filled(a), flat.filled(b)))[0]
        return [as_array(x).astype(old.dtype)._tensor for x, old in zip(found, flat.arrays, strict=True)]

    return flat.filled(fgrad.lax.associative_scan(combine, flat.tensors, reverse, axis))


# ---- windows


def padtype_to_pads(shape: Any, window: Any, strides: Any, padding: Any) -> list[tuple[int, int]]:
    """Return how much "SAME", "SAME_LOWER" or "VALID" adds before and behind each axis."""
    found = pads(padding.removesuffix("_LOWER"), shape, window, strides, (1,) * len(shape))
    return [(high, low) if padding == "SAME_LOWER" else (low, high) for low, high in found]


def _dimensions(numbers: Any, rank: int) -> list[list[int]]:
    """Return where batch, channels and space are of the image, the kernel and the result."""
    if isinstance(numbers, ConvDimensionNumbers):
        return list(map(list, numbers))
    space = "DHW"[3 - rank :] if rank <= 3 else "".join(map(chr, range(97, 97 + rank)))
    texts = numbers or (f"NC{space}", f"OI{space}", f"NC{space}")
    axes = [a for a in texts[0] if a not in "NC"]
    heads = ("NC", "OI", "NC")
    return [[text.index(a) for a in (*head, *axes)] for text, head in zip(texts, heads, strict=True)]


class ConvDimensionNumbers(NamedTuple):
    """Where batch, channels and space are."""

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


def conv_general_dilated(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, lhs_dilation: Any = None,
    rhs_dilation: Any = None, dimension_numbers: Any = None, feature_group_count: int = 1,
    batch_group_count: int = 1, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return the convolution of images with a kernel, computed in the dtype that is preferred."""
    lhs, rhs = wide_enough(preferred_element_type, lhs, rhs)
    if batch_group_count != 1:
        raise NotImplementedError(
            "fgrad's jax.lax.conv_general_dilated has no batch_group_count: call it by parts"
        )
    rank = as_array(lhs).ndim - 2
    image, kernel, result = _dimensions(dimension_numbers, rank)
    ones = (1,) * rank

    def conv(x: Any, w: Any) -> Any:
        x, w = fnp.transpose(x, image), fnp.transpose(w, kernel)
        gaps = tuple(rhs_dilation or ones)
        sides = padding
        if isinstance(padding, str):
            spread = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], gaps, strict=True)]
            sides = padtype_to_pads(x.shape[2:], spread, window_strides, padding)
        sides, spread_by = [tuple(map(int, p)) for p in sides], tuple(lhs_dilation or ones)
        if any(min(p) < 0 for p in sides):  # which cuts off
            widths = [(*p, d - 1) for p, d in zip(sides, spread_by, strict=True)]
            x = fgrad.lax.pad(x, 0, [(0, 0, 0), (0, 0, 0), *widths])
            sides, spread_by = [(0, 0)] * rank, ones
        y = fgrad.nn.conv(
            x,
            w,
            stride=tuple(window_strides),
            padding=sides,
            dilation=gaps,
            input_dilation=spread_by,
            groups=feature_group_count,
        )
        return fnp.transpose(y, [result.index(i) for i in range(rank + 2)])

    return elementwise(conv, lhs, rhs, inexact=True).astype(preferred_element_type or lhs.dtype)


def conv_general_dilated_patches(
    lhs: Any, filter_shape: Sequence[int], window_strides: Sequence[int], padding: Any,
    lhs_dilation: Any = None, rhs_dilation: Any = None, dimension_numbers: Any = None,
    precision: Any = None, preferred_element_type: Any = None,
) -> Array:  # fmt: skip
    """Return what lies under every window, as channels: those of an image one after the other."""
    x, size = as_array(lhs), math.prod(filter_shape)
    image, kernel, _result = _dimensions(dimension_numbers, len(filter_shape))
    channels = x.shape[image[1]]
    single = np.eye(size).reshape(size, 1, *filter_shape)
    w = np.transpose(np.concatenate([single] * channels), [kernel.index(i) for i in range(x.ndim)])
    return conv_general_dilated(
        x, as_array(w).astype(x.dtype), window_strides, padding, lhs_dilation, rhs_dilation,
        dimension_numbers, feature_group_count=channels, preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_local(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, filter_shape: Sequence[int],
    lhs_dilation: Any = None, rhs_dilation: Any = None, dimension_numbers: Any = None, precision: Any = None,
) -> Array:  # fmt: skip
    """Return the convolution of images with a kernel of its own at each place."""
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers
    )
    _image, kernel, result = _dimensions(dimension_numbers, len(filter_shape))

    def products(x: Any, w: Any) -> Any:
        y = fnp.einsum("nc...,oc...->no...", fnp.transpose(x, result), fnp.transpose(w, kernel))
        return fnp.transpose(y, [result.index(i) for i in range(len(result))])

    return elementwise(products, patches, rhs)


def conv_transpose(
    lhs: Any, rhs: Any, strides: Sequence[int], padding: Any, rhs_dilation: Any = None,
    dimension_numbers: Any = None, transpose_kernel: bool = False, precision: Any = None,
    preferred_element_type: Any = None, use_consistent_padding: bool = False,
) -> Array:  # fmt: skip
    """Return the convolution of images, between whose elements there are zeros, with a kernel."""
    w = as_array(rhs)
    rank = w.ndim - 2
    space = "HWD"[:rank]
    numbers = dimension_numbers or (f"N{space}C", f"{space}IO", f"N{space}C")
    outer, inner, *axes = _dimensions(numbers, rank)[1]
    gaps = tuple(rhs_dilation or (1,) * rank)
    sides = padding
    if isinstance(padding, str) or use_consistent_padding:
        spread = [(w.shape[i] - 1) * gap + 1 for i, gap in zip(axes, gaps, strict=True)]
        given = [padding] * rank if isinstance(padding, str) else padding
        sides = list(map(_transposed_pads, spread, strides, given))
    if transpose_kernel:
        w = made(fnp.swapaxes(fnp.flip(w._tensor, tuple(axes)), outer, inner), w.form)
    return conv_general_dilated(
        lhs, w, (1,) * rank, sides, strides, gaps, numbers, preferred_element_type=preferred_element_type
    )


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
    operand: Any, init_value: Any, computation: Function, window_dimensions: Sequence[int],
    window_strides: Any = None, padding: Any = "VALID", base_dilation: Any = None,
    window_dilation: Any = None,
) -> Array:  # fmt: skip
    """Return what `computation`, which is associative, makes of the elements of every window."""
    x, init = as_array(operand), as_array(init_value)
    ones = (1,) * x.ndim
    steps, gaps, spread_by = window_strides or ones, window_dilation or ones, base_dilation or ones
    spread = [(k - 1) * d + 1 for k, d in zip(window_dimensions, gaps, strict=True)]
    sides = padtype_to_pads(x.shape, spread, steps, padding) if isinstance(padding, str) else padding
    widths = [(int(low), int(high), d - 1) for (low, high), d in zip(sides, spread_by, strict=True)]
    t = fgrad.lax.pad(x._tensor, init._tensor, widths)
    counts = [(n - k) // s + 1 for n, k, s in zip(t.shape, spread, steps, strict=True)]
    total = made(fnp.array(fnp.broadcast_to(init.astype(x.dtype)._tensor, counts)), x.strong)
    for place in np.ndindex(*window_dimensions):
        part = [
            slice(i * d, i * d + (c - 1) * s + 1, s)
            for i, d, c, s in zip(place, gaps, counts, steps, strict=True)
        ]
        total = computation(total, made(t[tuple(part)], x.strong))
    return total


# ---- products


def dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return products summed over pairs of axes; axes of batches come first, then those of the left array."""
    x, y = wide_enough(preferred_element_type, lhs, rhs)
    (summed, others), (batch, along) = dimension_numbers
    left = list(range(x.ndim))
    right = [x.ndim + k for k in range(y.ndim)]
    for mine, theirs in ((summed, others), (batch, along)):
        for i, j in zip(mine, theirs, strict=True):
            right[j] = left[i]
    first = [left[i] for i in batch]
    rest = [k for k in (*left, *right) if k not in first and (k in left) != (k in right)]
    out = elementwise(lambda a, b: fnp.einsum(a, left, b, right, [*first, *rest]), x, y)
    return out if preferred_element_type is None else out.astype(preferred_element_type)


class Precision(Enum):
    """How exactly products are computed: always in the dtype of their operands."""

    DEFAULT, HIGH, HIGHEST = range(3)


def _collective(name: str) -> Function:
    found = getattr(fgrad.lax, name)

    def function(x: Any, axis_name: Any, **kwargs: Any) -> Any:
        kwargs = {k: v for k, v in kwargs.items() if v is not None}
        leaves, structure = flatten(x)
        arrays = [as_array(v) for v in leaves]
        read: Function = operator.attrgetter("_tensor") if name in ("all_gather", "ppermute") else opened

        def one(a: Array) -> Array:
            out = found(read(a), axis_name, **kwargs)
            if name in ("psum", "psum_scatter") and a.dtype.kind in "iu":
                out = out.astype(a.dtype)  # fgrad sums short integers as NumPy does
            return made(out, a.form)

        return unflatten(structure, list(map(one, arrays)))

    return named(function, f"fgrad.lax.{name}", ", for each array")


PRIMITIVES = words(  # by fgrad's names
    "absolute add arccosh arcsinh arctanh bitwise_and bitwise_or broadcast_to ceil conjugate contract "
    "convert cos cosh cumsum divide erf erfinv exp exp2 expm1 floor integer_pow log log1p maximum minimum "
    "multiply negative power reshape rsqrt sign sin sinh slice sqrt square stop_gradient subtract sum tan "
    "tanh transpose where"
)
SPECIAL = renamed(
    "digamma erf erf_inv:erfinv erfc igamma:gammainc igammac:gammaincc lgamma:gammaln bessel_i0e:i0e "
    "bessel_i1e:i1e regularized_incomplete_beta:betainc betainc polygamma",
    fgrad.scipy.special,
)
NAMES: dict[str, Any] = {
    **renamed(
        "abs acos acosh asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor cbrt ceil "
        "cos cosh exp exp2 expm1 floor log log1p real imag conj sign sin sinh sqrt square tan tanh squeeze "
        "expand_dims nextafter reciprocal add sub:subtract mul:multiply neg:negative pow:power max:maximum "
        "min:minimum eq:equal ne:not_equal lt:less le:less_equal gt:greater ge:greater_equal "
        "is_finite:isfinite broadcast_shapes dot dtype:result_type full full_like concatenate rem:fmod "
        "shift_left:left_shift shift_right_arithmetic:right_shift",
        NUMPY,
    ),
    **operands.NAMES,
    **{name: _collective(name) for name in words("psum pmean pmax pmin all_gather ppermute psum_scatter")},
    **{f"{p.name}_p": p for p in map(own_primitive, PRIMITIVES)},
    "approx_max_k": lambda operand, k, reduction_dimension=-1, recall_target=0.95: top_k(
        operand, k, axis=reduction_dimension
    ),
    "approx_min_k": lambda operand, k, reduction_dimension=-1, recall_target=0.95: top_k(
        operand, k, axis=reduction_dimension, descending=False
    ),
    "clamp": lambda min, x, max: NUMPY["clip"](x, min, max),
    "dynamic_slice": lambda operand, start_indices, slice_sizes: moved(
        fgrad.lax.dynamic_slice, operand, start_indices, slice_sizes
    ),
    "dynamic_slice_in_dim": lambda operand, start_index, slice_size, axis=0: moved(
        fgrad.lax.dynamic_slice_in_dim, operand, start_index, slice_size, axis
    ),
    "dynamic_index_in_dim": lambda operand, index, axis=0, keepdims=True: moved(
        fgrad.lax.dynamic_index_in_dim, operand, index, axis, keepdims
    ),
    "dynamic_update_slice": lambda operand, update, start_indices: moved(
        fgrad.lax.dynamic_update_slice, operand, update, start_indices
    ),
    "dynamic_update_slice_in_dim": lambda operand, update, start_index, axis: moved(
        fgrad.lax.dynamic_update_slice_in_dim, operand, update, start_index, axis
    ),
    "dynamic_update_index_in_dim": lambda operand, update, index, axis: moved(
        fgrad.lax.dynamic_update_index_in_dim, operand, update, index, axis
    ),
    "axis_index": lambda axis_name: made(fgrad.lax.axis_index(axis_name)),
    "select": lambda pred, on_true, on_false: NUMPY["where"](pred, on_true, on_false),  # noqa: PLW0108 -- names
    "broadcast_to_rank": lambda x, rank: as_array(x).reshape((1,) * (rank - np.ndim(x)) + np.shape(x)),
    "convert_element_type": lambda operand, new_dtype: as_array(operand).astype(new_dtype),
    "integer_pow": lambda x, y: operator.pow(as_array(x), int(y)),
    "iota": lambda dtype, size: NUMPY["arange"](size, dtype=dtype),
    **{name: of_elements(found) for name, found in SPECIAL.items()},
    "map": lambda f, xs, *, batch_size=None: scan(lambda _, x: (None, f(x)), None, xs)[1],
    "conv": conv_general_dilated,
    "rsqrt": lambda x: elementwise(lambda t: 1 / fnp.sqrt(t), x, inexact=True),
    "reduce_precision": lambda operand, exponent_bits, mantissa_bits: made(
        fgrad.lax.reduce_precision(as_array(operand)._tensor, exponent_bits, mantissa_bits),
        as_array(operand).form,
    ),
    **by_name(
        *(ConvDimensionNumbers, Precision, ScatterDimensionNumbers, associative_scan, cond),
        *(conv_general_dilated, conv_general_dilated_local, conv_general_dilated_patches, conv_transpose),
        *(dot_general, fori_loop, padtype_to_pads, reduce_window, scan, scatter_add, stop_gradient, switch),
        *(top_k, while_loop),
    ),
}
