"""Linear primitives, each with its adjoint: the derivative of a linear map is the map."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import on_host
from fgrad.core.aval import Aval, Shape, assignable, aval_of, with_ones
from fgrad.core.dispatch import bind
from fgrad.core.primitive import (
    ALONG,
    ASSEMBLES,
    AVERAGES,
    CASTS,
    CHEAP,
    EACH,
    ELEMENTWISE,
    KEEPS_C_ORDER,
    LARGE,
    LINEAR,
    MEDIUM,
    MOVES,
    MULTILINEAR,
    OUT,
    PLACES,
    REARRANGES,
    REDUCES,
    REPEATS,
    RESHAPES,
    SPREADS,
    SPREADS_FIRST,
    TOGETHER,
    TOTAL,
    TRANSPOSES,
    VJP,
    Pattern,
    Primitive,
    Reduction,
    Rule,
    batch_size,
    declare,
    flat,
    register,
)
from fgrad.core.stored import (
    INTEGERS,
    NUMBERS,
    PLAIN,
    REAL,
    Stored,
    are_axes,
    integers,
    is_axis,
    is_dtype,
    is_flag,
    is_shape,
    same_shapes,
)
from fgrad.core.tensor import Tensor
from fgrad.expr.atoms import is_finite
from fgrad.ops.compiled import FLOATS, backend

Axes = tuple[int, ...]
SMALL = 4096  # elements
BLAS = 65536  # elements: for more, products by BLAS may run in threads, and their sums differ by rounding
SIDE_BY_SIDE = 4  # running sums: fewer gain nothing from compiled code


def linear(
    name: str,
    *,
    run: Rule,
    adjoint: Rule,
    shape: Rule,
    batch: Rule | None,
    raw: Rule | None = None,
    step: Callable[..., VJP] = VJP,
    **columns: Any,
) -> Primitive:
    """Declare a linear primitive of one argument.

    Args:
        name: the name of the primitive.
        run: (buffer, **params) -> buffer.
        adjoint: (cotangent, aval of the argument, **params) -> cotangent of the argument.
        shape: (aval, **params) -> aval.
        batch: (value with a batch axis first, **params) -> the same map of every example; None loops.
        raw: (cotangent, aval of the argument, params) -> (cotangent of the argument,), for arrays alone.
        step: what makes the reverse step.
        **columns: others of `Primitive`.
    """
    vjp = step(
        lambda ct, aval, params: (adjoint(ct, aval, **params),),
        raw=raw,
        avals=(1,),
        params=True,
        exact=True,
        transpose=LINEAR,
    )
    vjp.primitive = name
    primitive = Primitive(
        name,
        run=run,
        vjp=lambda _: vjp,
        shape=shape,
        batch=batch and (lambda mapped, x, **params: batch(x, **params)),
        **columns,
    )
    primitive.linear = vjp
    return register(primitive)


def solver_vjp(to_side: Rule, to_matrix: Rule) -> Callable[[Pattern], VJP]:
    """Return the `vjp` of a primitive of a matrix and of a right-hand side, in which it is linear.

    Args:
        to_side: (cotangent, matrix, **params) -> cotangent of the right-hand side.
        to_matrix: (cotangent of the right-hand side, solution, matrix, **params) -> that of the matrix.
    """

    def vjp(pattern: Pattern) -> VJP:
        to_a, to_b = pattern

        def back(ct: Any, *saved: Any) -> tuple[Any, ...]:
            *out, a, params = saved
            ct_b = to_side(ct, a, **params)
            ct_a = [to_matrix(ct_b, out[0], a, **params)] if to_a else []
            return (*ct_a, ct_b) if to_b else tuple(ct_a)

        return VJP(back, keep=(OUT, 1) if to_a else (1,), params=True, transpose="" if to_a else MULTILINEAR)

    return vjp


def reshape(x: Any, shape: Shape) -> Any:
    """Return `x` with the same elements, in C order, in `shape`; its own adjoint."""
    return bind("reshape", x, shape=shape)


def transpose(x: Any, axes: Axes) -> Any:
    """Return `x` with its axes permuted; the inverse permutation is the adjoint."""
    return bind("transpose", x, axes=axes)


def broadcast_to(x: Any, shape: Shape) -> Any:
    """Return `x` repeated up to `shape`; the adjoint of a sum."""
    return bind("broadcast_to", x, shape=shape)


def sum_axes(x: Any, axes: Axes) -> Any:
    """Return `x` summed over `axes`, which disappear; the adjoint of a broadcast."""
    return bind("sum", x, axes=axes)


def convert(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return `x` as `dtype`; complex to real takes the real part."""
    return x if x.dtype == dtype else bind("convert", x, dtype=dtype)


def real(x: Any) -> Any:
    """Return the real part."""
    return bind("real", x)


def imag(x: Any) -> Any:
    """Return the imaginary part."""
    return bind("imag", x)


def sum_to(x: Any, shape: Shape) -> Any:
    """Return `x` summed down to `shape`, the adjoint of broadcasting from it."""
    axes = _repeated(x.shape, shape)
    return reshape(sum_axes(x, axes), shape) if axes else x


def _repeated(shape: Shape, small: Shape) -> Axes:
    """Return the axes of `shape` along which broadcasting from `small` repeats."""
    extra = len(shape) - len(small)
    return tuple([i for i, n in enumerate(shape) if i < extra or n != small[i - extra]])


def _sum_array_to(x: Any, shape: Shape) -> Any:
    full = x.shape
    if (
        len(full) == 2
        and full[1:] == shape
        and x.size <= BLAS
        and x.dtype.char in "fd"
        and x.__class__ is np.ndarray
        and x.flags.c_contiguous
    ):
        return np.dot(_ones(full[0], x.dtype), x)  # in a third of the time
    axes = _repeated(full, shape)
    return added(x, axes=axes).reshape(shape) if axes else x


@functools.lru_cache(64)
def _ones(n: int, dtype: np.dtype[Any]) -> Any:
    return np.ones(n, dtype)


def unbroadcast(ct: Any, aval: tuple[Shape, np.dtype[Any]]) -> Any:
    """Return a cotangent summed and converted to the shape and dtype of its argument."""
    shape, dtype = aval
    if ct.shape != shape:
        ct = sum_to(ct, shape) if ct.__class__ is Tensor else _sum_array_to(ct, shape)
    return ct if ct.dtype == dtype else convert(ct, dtype)


def expand(x: Any, shape: Shape, axes: Axes) -> Any:
    """Return `x`, which lacks `axes` of `shape`, repeated along them."""
    if len(axes) == len(shape):
        return broadcast_to(x, shape)
    return broadcast_to(reshape(x, with_ones(shape, axes)), shape)


def with_rank(x: Any, rank: int) -> Any:
    """Return batched `x` with axes of length one after the first, so that it has `rank`."""
    if len(x.shape) == rank:
        return x
    return reshape(x, (x.shape[0], *(1,) * (rank - len(x.shape)), *x.shape[1:]))


def shifted(axes: Axes) -> Axes:
    """Return the same axes behind a batch axis."""
    return tuple(a + 1 for a in axes)


def _sum_adjoint(ct: Any, x: Aval, *, axes: Axes) -> Any:
    if ct.__class__ is not Tensor and len(axes) == len(x.shape):
        return _run_broadcast(ct, shape=x.shape)
    return expand(ct, x.shape, axes)


def added(x: Any, *, axes: Axes) -> Any:
    """Return what `np.add.reduce` does; compiled code adds short stretches, which take NumPy long."""
    if x.size < MEDIUM or len(axes) != 1 or not _is_short(x, axes[0]):
        return np.add.reduce(x, axis=axes)
    (axis,) = axes
    shape = x.shape
    rows = x.reshape(-1, shape[axis], math.prod(shape[axis + 1 :]))
    out = backend("sums").added(rows).reshape(shape[:axis] + shape[axis + 1 :])
    return out if is_finite(out) else np.add.reduce(x, axis=axes)  # which may have something to say


def _is_short(x: Any, axis: int) -> bool:
    return (
        x.__class__ is np.ndarray
        and x.dtype in FLOATS
        and x.flags.c_contiguous
        and backend("sums").is_short(x.shape[axis], math.prod(x.shape[axis + 1 :]))
    )


def _raw_sum(ct: Any, x: Aval, params: dict[str, Any]) -> tuple[Any]:
    shape, axes = x.shape, params["axes"]
    if len(axes) == len(shape) and math.prod(shape) <= SMALL and ct.__class__ is not DeviceArray:
        out = np.empty(shape, ct.dtype)
        out.fill(ct)
        return (out,)
    return (_sum_adjoint(ct, x, axes=axes),)


def _run_mean(x: Any, *, axes: Axes) -> Any:
    if x.dtype.char == "e":
        return np.mean(x, axis=axes)  # which sums in single precision
    return added(x, axes=axes) / math.prod([x.shape[i] for i in axes])


def scanned(
    what: str, axis: int, *operands: Any, backwards: bool = False, least: int = SIDE_BY_SIDE
) -> Any | None:
    """Return a scan of `kernels.scans` of large arrays.

    Args:
        what: which one.
        axis: the axis.
        *operands: what it takes.
        backwards: whether it begins at the end.
        least: how many scans have to run side by side for it to gain anything.

    Returns:
        The array; None where slower code has to compute it: of other dtypes, of devices, or as NumPy may have
        something to say of a result that is infinite or NaN.
    """
    x = operands[-1]
    if any(v.__class__ is not np.ndarray for v in operands):
        return None
    if x.size < LARGE or x.size < least * x.shape[axis]:
        return None
    if x.dtype not in FLOATS or any(v.shape != x.shape or v.dtype != x.dtype for v in operands):
        return None
    out = backend("scans").scanned(what, axis, *operands, backwards=backwards)
    ends = out[(*(slice(None),) * axis, 0 if backwards else -1)]  # what is not finite stays so
    return out if is_finite(ends) else None


def _run_cumsum(x: Any, *, axis: int) -> Any:
    found = scanned("sums", axis, x)
    return np.cumsum(x, axis) if found is None else found


def _cumsum_adjoint(ct: Any, x: Aval, *, axis: int) -> Any:
    found = scanned("sums", axis, ct, backwards=True)
    return reverse(bind("cumsum", reverse(ct, axis), axis=axis), axis) if found is None else found


def _run_broadcast(x: Any, *, shape: Shape) -> Any:
    if math.prod(shape) > SMALL or x.__class__ is DeviceArray:
        return np.broadcast_to(x, shape)
    if x.ndim > len(shape):  # an assignment drops axes of length one
        raise ValueError(f"cannot broadcast an array of shape {x.shape} to shape {shape}")
    out = np.empty(shape, x.dtype)  # a copy costs less than a view where it is small
    out[...] = x
    return out


def _shape_reshape(x: Aval, *, shape: Shape) -> Aval:
    if math.prod(shape) != math.prod(x.shape):
        raise ValueError(f"cannot reshape array of size {math.prod(x.shape)} into shape {shape}")
    return Aval(shape, x.dtype)


def _shape_broadcast(x: Aval, *, shape: Shape) -> Aval:
    if np.broadcast_shapes(x.shape, shape) != shape:
        raise ValueError(f"cannot broadcast an array of shape {x.shape} to shape {shape}")
    return Aval(shape, x.dtype)


def _inverse(axes: Axes) -> Axes:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def _run_convert(x: Any, *, dtype: np.dtype[Any]) -> Any:
    if not hasattr(x, "astype"):
        x = np.asarray(x)
    return (x.real if x.dtype.kind == "c" and dtype.kind not in "cb" else x).astype(dtype)


def centered(x: Any, axes: Axes) -> Any:
    """Return `x` minus its mean over `axes`; its own adjoint."""
    return bind("centered", x, axes=axes)


def _less_mean(x: Any, axes: Axes) -> Any:
    return bind("subtract", x, reshape(bind("mean", x, axes=axes), with_ones(x.shape, axes)))


def _run_roll(x: Any, *, shifts: Axes, axes: Axes) -> Any:
    for k, i in zip(shifts, axes, strict=True):
        x = np.concatenate([x[half] for half in _halves(x.shape[i] - k, i)], i)
    return x


def _inline_roll(x: Any, *, shifts: Axes, axes: Axes) -> list[Any]:
    for k, i in zip(shifts, axes, strict=True):
        halves = [bind("slice", x, index=half) for half in _halves(x.shape[i] - k, i)]
        x = bind("concatenate", *halves, axis=i)
    return [x]


def _halves(cut: int, axis: int) -> list[tuple[slice, ...]]:
    """Return the indices of what lies behind a place of an axis, and before it."""
    before = (slice(None),) * axis
    return [(*before, slice(cut, None)), (*before, slice(None, cut))]


def roll(x: Any, shifts: Axes, axes: Axes) -> Any:
    """Return `x` moved along each of `axes`, once, by less than its length; its adjoint moves back."""
    return bind("roll", x, shifts=shifts, axes=axes)


def _summed(x: Aval, axes: Axes) -> Aval:
    dtype = np.add.reduce(np.empty(0, x.dtype)).dtype if x.dtype.kind in "biu" else x.dtype
    return Aval(tuple(n for i, n in enumerate(x.shape) if i not in axes), dtype)


def _run_fitted(n: Any, *, dtype: np.dtype[Any]) -> Any:
    """Return numbers in a dtype of integers, as NumPy converts those of Python."""
    limits = np.iinfo(dtype)
    if n.dtype.kind == "f":
        values = np.asarray(on_host(n))
        whole = np.trunc(values.astype(np.float64))
        fits = (whole >= float(limits.min)) & (whole < float(limits.max) + (limits.bits < 64))
    else:
        own = np.iinfo(n.dtype)
        low, high = max(own.min, limits.min), min(own.max, limits.max)
        if not bool(np.any(n < low)) and not bool(np.any(n > high)):
            return _run_convert(n, dtype=dtype)
        values = np.asarray(on_host(n))
        fits = (values >= low) & (values <= high)
    if not np.all(fits):
        bad = int(values[~fits].flat[0])  # which raises where it is not finite
        raise OverflowError(f"Python integer {bad} out of bounds for {dtype.name}")
    return _run_convert(n, dtype=dtype)


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of absolute values."""
    return np.empty(0, dtype).real.dtype


def _imaginary_adjoint(ct: Any, x: Aval) -> Any:
    # imag(z) = Re(-1j z), and the pairing of cotangents and tangents is Re(ct t)
    return convert(ct, x.dtype) * -1j if x.dtype.kind == "c" else bind("where", _NOWHERE, ct, 0.0)


_NOWHERE = np.zeros((), bool)


def _apart_reshaped(axis: int, shape: Shape, saved: Any) -> int | None:
    before, own = math.prod(shape[:axis]), saved[0].shape
    axes = [i for i, m in enumerate(own) if m == shape[axis] and math.prod(own[:i]) == before]
    return axes[0] if axes else None


def apart_along_others(axis: int, _: Any, saved: Any) -> int | None:
    """Be `apart` of a primitive that mixes elements along the axis `axis`."""
    return None if saved[-1]["axis"] == axis else axis


linear(
    "reshape",
    run=lambda x, *, shape: x.reshape(shape),
    adjoint=lambda ct, x, *, shape: reshape(ct, x.shape),
    shape=_shape_reshape,
    batch=lambda x, *, shape: reshape(x, (x.shape[0], *shape)),
    write=lambda x, new, *, shape: reshape(new, x.shape),
    depends=True,
    traits={RESHAPES, REARRANGES, PLACES, MOVES, CHEAP, TOTAL, SPREADS_FIRST, KEEPS_C_ORDER},
    parts=1,
    stored=Stored({"shape": is_shape}, verify=lambda x, *, shape: math.prod(shape) == x.size),
    apart=_apart_reshaped,
)
linear(
    "transpose",
    run=lambda x, *, axes: x.transpose(axes),
    adjoint=lambda ct, x, *, axes: transpose(ct, _inverse(axes)),
    shape=lambda x, *, axes: Aval(tuple(x.shape[a] for a in axes), x.dtype),
    batch=lambda x, *, axes: transpose(x, (0, *shifted(axes))),
    write=lambda x, new, *, axes: transpose(new, _inverse(axes)),
    traits={TRANSPOSES, REARRANGES, PLACES, MOVES, CHEAP, TOTAL, SPREADS_FIRST},
    parts=1,
    stored=Stored({"axes": are_axes}, verify=lambda x, *, axes: len(axes) == x.ndim),
    apart=lambda axis, _, saved: int(saved[-1]["axes"][axis]),
)
linear(
    "roll",
    run=_run_roll,
    adjoint=lambda ct, x, *, shifts, axes: roll(
        ct, tuple(x.shape[i] - k for k, i in zip(shifts, axes, strict=True)), axes
    ),
    shape=lambda x, **_: x,
    batch=lambda x, *, shifts, axes: roll(x, shifts, shifted(axes)),
    inline=_inline_roll,  # whose parts are compiled with what surrounds them
    traits={REARRANGES, PLACES, TOTAL},
    parts=1,
    stored=Stored(
        {"shifts": integers(1), "axes": are_axes},
        verify=lambda x, *, shifts, axes: (
            len(shifts) == len(axes) and all(k < x.shape[i] for k, i in zip(shifts, axes, strict=True))
        ),
    ),
    apart=lambda axis, _, saved: None if axis in saved[-1]["axes"] else axis,
)
linear(
    "broadcast_to",
    run=_run_broadcast,
    adjoint=lambda ct, x, *, shape: sum_to(ct, x.shape),
    shape=_shape_broadcast,
    batch=lambda x, *, shape: broadcast_to(with_rank(x, 1 + len(shape)), (x.shape[0], *shape)),
    traits={REARRANGES, PLACES, REPEATS, MOVES, CHEAP, TOTAL, SPREADS_FIRST},
    parts=1,
    stored=Stored(
        {"shape": is_shape}, verify=lambda x, *, shape: np.broadcast_shapes(x.shape, shape) == shape
    ),
)
linear(
    "sum",
    run=added,
    adjoint=_sum_adjoint,
    raw=_raw_sum,
    shape=lambda x, *, axes: _summed(x, axes),
    batch=lambda x, *, axes: sum_axes(x, shifted(axes)),
    reduction=Reduction("add", 0.0, "add_any({}, {})", "{} + {}"),
    traits={TOTAL, SPREADS_FIRST, KEEPS_C_ORDER, REDUCES, ALONG},
    parts=1,
    stored=Stored({"axes": are_axes}),
)
linear(
    "mean",
    run=_run_mean,
    adjoint=lambda ct, x, *, axes: _sum_adjoint(ct / math.prod([x.shape[i] for i in axes]), x, axes=axes),
    shape=lambda x, *, axes: Aval(_summed(x, axes).shape, x.dtype),
    batch=lambda x, *, axes: bind("mean", x, axes=shifted(axes)),
    traits={TOTAL, SPREADS_FIRST, KEEPS_C_ORDER, REDUCES, AVERAGES, ALONG},
    stored=Stored({"axes": are_axes}, dtypes=NUMBERS),
)
linear(
    "centered",
    run=lambda x, *, axes: _less_mean(x, axes),
    adjoint=lambda ct, _, *, axes: centered(ct, axes),
    shape=lambda x, **_: x,
    batch=lambda x, *, axes: centered(x, shifted(axes)),
    inline=lambda x, *, axes: [_less_mean(x, axes)],
    traits={TOTAL, SPREADS_FIRST, KEEPS_C_ORDER, ALONG},
    stored=Stored({"axes": are_axes}, dtypes=NUMBERS),
)
CONVERT = linear(
    "convert",
    run=_run_convert,
    adjoint=lambda ct, x, *, dtype: convert(ct, x.dtype),
    shape=lambda x, *, dtype: Aval(x.shape, dtype),
    batch=lambda x, *, dtype: convert(x, dtype),
    traits={CASTS, MOVES, CHEAP, TOTAL, KEEPS_C_ORDER, ELEMENTWISE},
    stored=Stored({"dtype": is_dtype}),
)
FITTED = declare(
    "fitted",
    run=_run_fitted,
    vjp=flat,
    effect=lambda _: True,
    shape=lambda n, *, dtype: Aval(n.shape, dtype),
    batch=lambda _, n, *, dtype: bind("fitted", n, dtype=dtype),
    traits={KEEPS_C_ORDER},
    stored=Stored({"dtype": lambda v, _: isinstance(v, np.dtype) and v.kind in "iu"}, dtypes=INTEGERS + REAL),
)
linear(
    "real",
    run=np.real,
    adjoint=lambda ct, x: convert(ct, x.dtype),
    shape=lambda x: Aval(x.shape, real_dtype(x.dtype)),
    batch=real,
    write=lambda x, new: bind("put_part", x, new, imaginary=False),
    traits={ELEMENTWISE},
    stored=PLAIN,
)
linear(
    "imag",
    run=np.imag,
    adjoint=_imaginary_adjoint,
    shape=lambda x: Aval(x.shape, real_dtype(x.dtype)),
    batch=imag,
    write=lambda x, new: bind("put_part", x, new, imaginary=True),
    traits={ELEMENTWISE},
    stored=PLAIN,
)


def _batch_put_part(mapped: tuple[bool, ...], z: Any, part: Any, *, imaginary: bool) -> Any:
    if not mapped[0]:
        z = broadcast_to(z, (part.shape[0], *z.shape))
    if not mapped[1] and hasattr(part, "shape"):
        part = broadcast_to(part, z.shape)
    return bind("put_part", z, part, imaginary=imaginary)


def _run_put_part(z: Any, part: Any, *, imaginary: bool) -> Any:
    if z.__class__ is DeviceArray:
        re, im = (np.real(z), part) if imaginary else (part, np.imag(z))
        return (re + im * 1j).astype(z.dtype)
    out = np.array(z)
    if imaginary:
        out.imag = part
    else:
        out.real = part
    return out


def _put_part_vjp(pattern: tuple[bool, ...]) -> VJP:
    def call(ct: Any, params: Any) -> list[Any]:
        back = [bind("put_part", ct, 0.0, **params)] if pattern[0] else []
        if pattern[1]:  # the pairing of cotangents and tangents is Re(ct t)
            back.append(-imag(ct) if params["imaginary"] else real(ct))
        return back

    return VJP(call, params=True, exact=True)


declare(
    "put_part",  # complex numbers with another real or imaginary part
    run=_run_put_part,
    vjp=_put_part_vjp,
    shape=lambda z, part, *, imaginary: aval_of(z),
    batch=_batch_put_part,
    stored=Stored(
        {"imaginary": is_flag},
        verify=lambda z, x, *, imaginary: z.dtype.kind == "c" and assignable(x.shape, z.shape),
    ),
)
linear(
    "conjugate",
    run=np.conjugate,
    adjoint=lambda ct, x: bind("conjugate", ct),
    shape=lambda x: Aval(x.shape, np.conjugate(np.empty(0, x.dtype)).dtype),
    batch=lambda x: bind("conjugate", x),
    traits={ELEMENTWISE},
    stored=PLAIN,
)
linear(
    "cumsum",
    run=_run_cumsum,
    adjoint=_cumsum_adjoint,
    shape=lambda x, *, axis: Aval(x.shape, _summed(x, ()).dtype),
    batch=lambda x, *, axis: bind("cumsum", x, axis=axis + 1),
    traits={SPREADS_FIRST, KEEPS_C_ORDER, ALONG},
    parts=1,
    stored=Stored({"axis": is_axis}),
    apart=apart_along_others,
)


def reverse(x: Any, axis: int) -> Any:
    """Return `x` with the order along `axis` reversed."""
    return bind("slice", x, index=(*(slice(None),) * axis, slice(None, None, -1)))


def _concatenate_vjp(pattern: tuple[bool, ...]) -> VJP:
    tracked = [i for i, t in enumerate(pattern) if t]

    def call(ct: Any, *saved: Any) -> list[Any]:
        *avals, params = saved
        axis, stop, pieces = params["axis"], 0, []
        for i, aval in enumerate(avals):
            start, stop = stop, stop + aval.shape[axis]
            if i in tracked:
                pieces.append(bind("slice", ct, index=(*(slice(None),) * axis, slice(start, stop))))
        return pieces

    return VJP(call, avals=tuple(range(1, len(pattern) + 1)), params=True, transpose=TOGETHER)


def in_full(mapped: tuple[bool, ...], values: Sequence[Any]) -> list[Any]:
    """Return values with the axis of examples in front, also those that are the same for all."""
    size = batch_size(mapped, values)
    return [v if m else broadcast_to(v, (size, *v.shape)) for v, m in zip(values, mapped, strict=True)]


def batch_in_front(name: str) -> Rule:
    """Return the batch rule of a primitive that takes any axes in front of those that it is about."""
    return lambda mapped, *values, **params: bind(name, *in_full(mapped, values), **params)


def _join(*xs: Any, axis: int) -> bool:
    """Return whether arrays differ in their length along an axis only."""
    return len({(len(x.shape), x.shape[:axis], x.shape[axis + 1 :]) for x in xs}) == 1


def _shape_concatenate(*xs: Any, axis: int) -> Aval:
    if not _join(*xs, axis=axis):
        shapes = ", ".join(str(x.shape) for x in xs)
        raise ValueError(f"arrays of shapes {shapes} cannot be concatenated along axis {axis}")
    shape, length = xs[0].shape, sum(x.shape[axis] for x in xs)
    return Aval((*shape[:axis], length, *shape[axis + 1 :]), np.result_type(*(x.dtype for x in xs)))


declare(
    "concatenate",
    run=lambda *xs, axis: np.concatenate(xs, axis),
    vjp=_concatenate_vjp,
    shape=_shape_concatenate,
    batch=lambda mapped, *xs, axis: bind("concatenate", *in_full(mapped, xs), axis=axis + 1),
    traits={SPREADS, KEEPS_C_ORDER, ASSEMBLES, PLACES},
    parts=EACH,
    stored=Stored({"axis": is_axis}, verify=_join),
)


def _stack_vjp(pattern: tuple[bool, ...]) -> VJP:
    tracked = [i for i, t in enumerate(pattern) if t]
    return VJP(lambda ct: [bind("slice", ct, index=(i,)) for i in tracked], transpose=TOGETHER)


def _batch_stack(mapped: tuple[bool, ...], *xs: Any) -> Any:
    out = bind("stack", *in_full(mapped, xs))
    return transpose(out, (1, 0, *range(2, len(out.shape))))


declare(
    "stack",
    run=lambda *xs: np.stack(xs),
    vjp=_stack_vjp,
    shape=lambda *xs: Aval((len(xs), *xs[0].shape), np.result_type(*(x.dtype for x in xs))),
    batch=_batch_stack,
    traits={SPREADS, KEEPS_C_ORDER, ASSEMBLES, PLACES},
    parts=EACH,
    stored=Stored(verify=same_shapes),
)
