"""Making arrays: creation functions return Tensors, so that they can be written to and differentiated."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import adopted, is_foreign, maker
from fgrad.core.placement import buffer_of, device_of, near
from fgrad.core.tensor import Tensor, binary, bind, unary, wrap
from fgrad.core.trace import Tracer
from fgrad.core.views import is_array, is_laid_out, laid_out_like, memory_of, unordered
from fgrad.numpy.registry import as_array, elements, holds_tensor, implements
from fgrad.numpy.views import in_order, repeated, reshaped, transposed
from fgrad.ops.linear import broadcast_to as _broadcast_to
from fgrad.ops.linear import convert, reshape


def as_value(x: Any) -> Any:
    """Return `x` as an array or Tensor; a nested sequence that holds Tensors becomes a Tensor."""
    if x.__class__ is Tensor:
        return x if x._value.__class__ is np.ndarray else strong(x)
    if isinstance(x, np.ndarray | np.generic):
        return x
    if isinstance(x, list | tuple):
        return array(x) if holds_tensor(x) else np.asarray(x)
    return adopted(x) if is_foreign(x) else np.asarray(x)


_WEAK = (int, float, complex, type(None))


def operand(x: Any) -> Any:
    """Return a number as it is, whose dtype gives way to that of arrays; anything else as array or Tensor."""
    return x if isinstance(x, (Tensor, *_WEAK)) else as_value(x)


def number_type(x: Any) -> type | None:
    """Return the type of one of Python's numbers, or of what stands for one while a function is traced."""
    if x.__class__ in _PYTHON:
        return type(x)
    return getattr(x._value, "weak", None) if isinstance(x, Tensor) else None


def promoted(*xs: Any) -> np.dtype[Any]:
    """Return the dtype that NumPy promotes operands to; Python's numbers give way, staged ones too."""
    return np.result_type(*map(promoted_as, xs))


def promoted_as(x: Any) -> Any:
    """Return the dtype of an operand, or a number of its type in the place of one of Python's."""
    weak = number_type(x)
    if weak is not None:
        return weak(1)
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


_PYTHON = (bool, int, float, complex)


def as_places(x: Any) -> Any:
    """Return places as an array or Tensor of integers, where NumPy asks for what is safe to read as such.

    Sequences and numbers are converted; of arrays only the dtype counts.

    Raises:
        TypeError: the dtype of an array is not safe.
    """
    if not isinstance(x, Tensor | np.ndarray | DeviceArray):
        return np.asarray(x, np.intp)
    if not np.can_cast(x.dtype, np.intp) and (not isinstance(x, Tensor) or is_array(x)):
        raise TypeError(
            f"Cannot cast array data from {x.dtype!r} to {np.dtype(np.intp)!r} according to the rule 'safe'"
        )
    return convert(x, np.dtype(np.intp))


def strong(x: Tensor) -> Tensor:
    """Return `x`, with its dtype fixed where it stands for a Python number."""
    v = x._value
    if isinstance(v, Tracer) and (fixed := v.strong()) is not v:
        return wrap(fixed, x._nodes)
    return x


_LOOSE = (list, tuple, int, float, complex, np.generic)
_AS_THEY_ARE = {Tensor, np.ndarray, int, float, complex, bool, type(None)}


def together(*xs: Any) -> list[Any]:
    """Return arrays or Tensors; numbers and sequences of them go where the first one on a device is."""
    for x in xs:
        value = x._value if x.__class__ is Tensor else x
        if value.__class__ is not np.ndarray:
            break
    else:
        return list(xs)
    made = list(map(as_value, xs))
    make = _maker_beside(made)
    if make is np:
        return made
    return [_sent(m, make) if _is_loose(x) else m for x, m in zip(xs, made, strict=True)]


@implements()
def next_to(x: Any, *others: Any) -> Any:
    """Return `x` as array or Tensor, where the first of `others` on a device is if it is on none yet."""
    made = as_value(x)
    return _sent(made, _maker_beside(others)) if _is_loose(x) else made


def operands(*xs: Any) -> list[Any]:
    """Return what `together` does, but numbers and None as they are: their dtype gives way to others."""
    for x in xs:
        if x.__class__ not in _AS_THEY_ARE:
            break
    else:
        return list(xs)
    if any(isinstance(x, list | tuple) for x in xs):
        made = iter(together(*[x for x in xs if not isinstance(x, _WEAK)]))
        return [x if isinstance(x, _WEAK) else next(made) for x in xs]
    return list(map(operand, xs))


def _is_loose(x: Any) -> bool:
    """Return whether `x` is on no device yet: a number, also as array without axes, or a sequence."""
    return isinstance(x, _LOOSE) or (isinstance(x, np.ndarray) and not x.ndim)


def _maker_beside(xs: Iterable[Any]) -> Any:
    """Return what makes arrays where the first one on a device is."""
    for x in xs:
        if x.__class__ is Tensor and x._value.__class__ is np.ndarray:
            continue
        make = near(x)
        if make is not np:
            return make
    return np


def _sent(x: Any, make: Any) -> Any:
    """Return an array made of numbers on a device; a Tensor where it is."""
    if make is np or isinstance(x, Tensor):
        return x
    return wrap(make.constant(x) if x.ndim else make.full((), x[()], x.dtype))


def as_tensor(x: Any) -> Tensor:
    """Return a new array or a Tensor as Tensor, without a copy."""
    return x if isinstance(x, Tensor) else wrap(x)


def alike(xs: Sequence[Any]) -> list[Any]:
    """Return results as they are, or all as Tensors if one is; text and objects stay NumPy's."""
    if not any(isinstance(x, Tensor) for x in xs):
        return list(xs)
    return [
        strong(x)
        if isinstance(x, Tensor)
        else x
        if isinstance(x, np.ndarray) and x.dtype.kind not in "fciub"
        else asarray(x)
        for x in xs
    ]


_RAGGED = {"nonzero", "argwhere", "flatnonzero", "compress", "extract", "trim_zeros"}


def concrete(a: Any, name: str) -> Any:
    """Return the value of `a` as an array, which the function called `name` needs to know."""
    if not isinstance(a, Tensor):
        return np.asarray(a)
    if isinstance(a._value, Tracer):
        depends = ", whose result has a shape that depends on the values," if name in _RAGGED else ""
        return a._value.known(name + depends)
    return a._value


def known(x: Any) -> Any:
    """Return the value of an array or Tensor where it is there to be looked at, else None."""
    value = x._value if isinstance(x, Tensor) else x
    return None if isinstance(value, Tracer) else value


def seen(x: Any, holds: Callable[[Any], Any]) -> bool:
    """Return whether a value is there to be looked at, and something holds for any of its elements."""
    value = known(x)
    return value is not None and bool(np.any(holds(value)))


def number(x: Any, purpose: str) -> Any:
    """Return a number as it is, and the value of a Tensor or array without axes, as NumPy's scalar."""
    if not isinstance(x, Tensor):
        return x
    value = concrete(x, purpose)
    return value[()] if isinstance(value, np.ndarray) else value.dtype.type(value.item())


def ones_before(x: Any, ndim: int) -> Any:
    """Return `x` with at least `ndim` axes, new ones in front."""
    missing = ndim - len(x.shape)
    return reshaped(x, (*(1,) * missing, *x.shape)) if missing > 0 else x


def _parts(x: Any, leaves: list[Any]) -> tuple[int, ...]:
    """Append the arrays and Tensors of a nested sequence to `leaves`; return the shape of the whole."""
    if not (isinstance(x, list | tuple) and holds_tensor(x)):
        leaves.append(x)
        return np.shape(x)
    shapes = {_parts(part, leaves) for part in x}
    if len(shapes) > 1:
        raise ValueError(f"the parts of an array must have one shape, not {sorted(shapes)}")
    return (len(x), *shapes.pop())


@implements(np.array)
def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: Any = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: Any = None,
) -> Tensor:
    """Return a Tensor made of numbers, arrays and Tensors in nested sequences; derivatives flow to these.

    Args:
        object: number, array, Tensor, or nested sequence of these.
        dtype: NumPy dtype; None promotes the parts.
        copy: None and False allow that a Tensor of this dtype is returned itself.
        order: how the elements lie in memory: rows first ("C"), columns first ("F"), or as they do ("K").
        subok: likewise, a Tensor has no subclasses.
        ndmin: the least number of axes; new ones come first.
        ndmax: how deep sequences are looked into (0: all the way), as in NumPy; not beside Tensors.
        like: taken for NumPy's sake.

    Raises:
        ValueError: parts of unequal shapes, or `copy=False` where a copy is needed.
    """
    if isinstance(object, Tensor):
        if not copy and dtype in (None, object.dtype) and (not ndmin or is_array(object)):
            return ones_before(_lying(object, order), ndmin)  # type: ignore[no-any-return]
        made = as_array(recopied(object, order))
    elif copy is False:
        raise ValueError("a Tensor cannot share the memory of an array, so copy=False is impossible")
    elif isinstance(object, list | tuple) and holds_tensor(object):
        leaves: list[Any] = []
        shape = _parts(object, leaves)
        if dtype is not None:
            leaves = [as_item(as_value(p), np.dtype(dtype)) if is_scalar(p) else p for p in leaves]
        leaves = together(*leaves)
        kind = np.result_type(*(p.dtype for p in leaves))
        flat = [reshape(convert(p, kind), (math.prod(p.shape),)) for p in leaves]
        made = reshape(bind("concatenate", *flat, axis=0), shape)
    else:
        made = Tensor(np.array(object, ndmax=ndmax) if ndmax else object, dtype)
    if dtype is not None:
        made = convert(made, np.dtype(dtype))
    return as_tensor(ones_before(made, ndmin))


def _lying(x: Tensor, order: Any) -> Tensor:
    """Return `x` if it lies in memory as `order` demands, else a copy; which of them may be unknown."""
    if order not in {"C", "F"} or not is_array(x) or buffer_of(x).__class__ is DeviceArray:
        return x
    example = memory_of(x)
    if example is not None and is_laid_out(x):
        flags = example.flags
        return x if (flags.c_contiguous if order == "C" else flags.f_contiguous) else recopied(x, order)
    axes = tuple(range(len(x.shape) - 1, -1, -1))
    turned = x if order == "C" else transposed(x, axes)
    found = in_order(turned, recopied(turned, "C"))
    return found if order == "C" else transposed(found, axes)


@implements(name="copied")
def recopied(x: Tensor, order: Any) -> Tensor:
    """Return a Tensor of its own on the value of `x`, which lies in memory as NumPy's copy does."""
    v = x._value
    if v.__class__ is np.ndarray:
        if not (
            v.flags.c_contiguous
            if order == "C"
            else v.flags.f_contiguous or (order != "F" and v.flags.c_contiguous)
        ):
            v = v.copy(order)
            v.setflags(write=False)  # its order is that of NumPy's copy
    elif isinstance(v, Tracer):
        if order == "C":
            v = v.in_order()
        elif order == "F" and len(v.shape) > 1:
            axes = tuple(range(len(v.shape) - 1, -1, -1))
            return transposed(recopied(transposed(x, axes), "C"), axes)  # type: ignore[no-any-return]
        elif memory_of(x) is not None:  # of an example
            return unordered(wrap(v.in_order(), x._nodes), x)  # type: ignore[no-any-return]
        if x._base is not None and not v.shape:  # as views are
            v = v.as_array()
    return wrap(v, x._nodes)


@implements(np.asarray)
def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Tensor:
    """Return `a` itself if it is a Tensor of `dtype`, otherwise a Tensor made of it; `copy`: a new handle."""
    if isinstance(a, Tensor) and device is not None:
        a = a.to(device)
    if isinstance(a, Tensor) and not copy and (dtype is None or a.dtype == dtype):
        return strong(as_array(_lying(a, order)))
    if copy is False:
        raise ValueError("a Tensor cannot share the memory of an array, so copy=False is impossible")
    return (
        array(a, dtype, order=order or "K") if device is None or holds_tensor(a) else Tensor(a, dtype, device)
    )


@implements(np.asanyarray)
def asanyarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Tensor:
    """Return what `asarray` does: a Tensor has no subclasses."""
    return asarray(a, dtype, order, device=device, copy=copy)


@implements(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tensor:
    """Return what `asarray` does, rows first in memory, with at least one axis, as in NumPy."""
    return array(asarray(a, dtype), copy=None, order="C", ndmin=1)


@implements(np.asfortranarray)
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tensor:
    """Return what `asarray` does, columns first in memory, with at least one axis, as in NumPy."""
    return array(asarray(a, dtype), copy=None, order="F", ndmin=1)


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Tensor:
    """Return what `asarray` does.

    Raises:
        ValueError: an element is infinite or NaN.
    """
    made = asarray(a, dtype, order)
    value = concrete(made, "asarray_chkfinite")
    if value.dtype.kind in "fc" and not np.isfinite(value).all():
        raise ValueError("array must not contain infs or NaNs")
    return made


@implements(np.require)
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Tensor:
    """Return what `asarray` does; NumPy's requirements on the memory are met by every Tensor."""
    np.require(np.zeros(1), None, requirements)  # it knows which there are
    return asarray(a, dtype)


@implements(np.copy, name="copy")
def copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    """Return a Tensor of its own on the value; derivatives flow through."""
    return (
        as_array(recopied(a, order))
        if isinstance(a, Tensor)
        else np.array(a, order=order, subok=subok, copy=True)
    )


@implements(np.zeros)
def zeros(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Tensor:
    """Return a Tensor of zeros."""
    return wrap(maker(device).zeros(shape, dtype, order))


@implements(np.ones)
def ones(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Tensor:
    """Return a Tensor of ones."""
    return wrap(maker(device).ones(shape, dtype, order))


@implements(np.empty)
def empty(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Tensor:
    """Return a Tensor to be filled; it starts with zeros."""
    return zeros(shape, dtype, order, device=device)


@implements(np.full)
def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Tensor:
    """Return a Tensor filled with `fill_value`, which may be a Tensor that broadcasts."""
    lengths = (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)
    made = _broadcast_to(asarray(fill_value, dtype, device=device), lengths)
    return as_tensor(as_array(recopied(made, order)))


class _ArrayType(type):
    """The class of `ndarray`: Tensors and arrays are its instances."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor | np.ndarray)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, Tensor | np.ndarray) or kind is cls

    def __getattr__(cls, name: str) -> Any:
        return getattr(Tensor, name)


class ndarray(metaclass=_ArrayType):  # noqa: N801 -- NumPy's name
    """What Tensors and arrays are instances of; called with a shape, it returns a Tensor to be filled.

    The memory of something else (`buffer`, `offset`, `strides`) is refused with a TypeError.
    """

    def __new__(  # type: ignore[misc]  # noqa: D102 -- the class says it
        cls,
        shape: Any,
        dtype: Any = float,
        buffer: Any = None,
        offset: int = 0,
        strides: Any = None,
        order: Any = None,
    ) -> Tensor:
        if buffer is not None or offset or strides is not None:
            raise TypeError(
                "a Tensor is a handle on a value, so ndarray() takes no buffer, offset or strides here; "
                "fgrad.numpy.frombuffer copies a buffer, reshape and slices take parts of it"
            )
        return empty(shape, dtype, order)

    def __class_getitem__(cls, item: Any) -> Any:
        """Return the alias that annotations use, which is NumPy's."""
        return np.ndarray[item]


def _like(make: Callable[..., Tensor], a: Any, dtype: Any, order: Any, shape: Any, device: Any) -> Tensor:
    a = as_value(a)
    made = make(
        a.shape if shape is None else shape,
        a.dtype if dtype is None else dtype,
        order if order in {"C", "F"} else "C",
        device=device_of(a) if device is None else device,
    )
    return made if order in {"C", "F"} else laid_out_like(made, a)


@implements(np.zeros_like)
def zeros_like(
    a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    """Return a Tensor of zeros of the shape and dtype of `a`."""
    return _like(zeros, a, dtype, order, shape, device)


@implements(np.ones_like)
def ones_like(
    a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    """Return a Tensor of ones of the shape and dtype of `a`."""
    return _like(ones, a, dtype, order, shape, device)


@implements(np.empty_like)
def empty_like(
    prototype: Any,
    /,
    dtype: Any = None,
    order: Any = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    """Return a Tensor to be filled, of the shape and dtype of `prototype`; it starts with zeros."""
    return _like(empty, prototype, dtype, order, shape, device)


@implements(np.full_like)
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    """Return a Tensor filled with `fill_value`, of the shape and dtype of `a`."""
    a = as_value(a)
    kind = a.dtype if dtype is None else np.dtype(dtype)
    if fill_value.__class__ in _PYTHON and not (fill_value.__class__ is complex and kind.kind not in "cb"):
        made = np.empty((), kind)
        np.copyto(made, fill_value, casting="unsafe")  # as NumPy's full_like does, but not its full
        fill_value = made
    staged = (
        isinstance(fill_value, Tensor) and buffer_of(fill_value) is None
    )  # it is where it will be computed
    where = device_of(a) if device is None and not staged else device
    lengths, fixed = a.shape if shape is None else shape, order in {"C", "F"}
    y = full(lengths, fill_value, kind, order if fixed else "C", device=where)
    return y if fixed else laid_out_like(y, a)


def _placed(made: Any, device: Any) -> Tensor:
    """Return a new array of NumPy as Tensor on a device."""
    make = maker(device)
    return wrap(made if make is np else make.array(made))


@implements(np.arange)
def arange(*args: Any, dtype: Any = None, device: Any = None, like: Any = None, **ends: Any) -> Tensor:
    """Return evenly spaced numbers: `arange(stop)`, `arange(start, stop, step=1, dtype=None)`.

    Args:
        *args: stop; or start, stop, step and dtype.
        dtype: NumPy dtype; None promotes the numbers.
        device: where to make it; None: as `default_device` says.
        like: taken for NumPy's sake.
        **ends: start, stop and step by name.

    Returns:
        Tensor of start + i * step for as many i as lie before stop, which values decide once.

    Derivative:
        Of start + i * step in start and step; stop only decides how many numbers there are.
    """
    if not any(isinstance(x, Tensor) for x in (*args, *ends.values())):
        make: Callable[..., Any] = np.arange
        return _placed(make(*args, **ends, **({} if dtype is None else {"dtype": dtype})), device)
    if len(args) == 4:
        *args, dtype = args  # type: ignore[assignment]
    names = ("start", "stop", "step")
    given = {**(dict(zip(names, args, strict=False)) if len(args) != 1 else {"stop": args[0]}), **ends}
    if given.get("stop") is None and "start" in given:
        given["stop"] = given.pop("start")
    first, step = given.get("start"), given.get("step")
    place = near(next(x for x in given.values() if isinstance(x, Tensor)))
    plain = {k: number(v, "arange") for k, v in given.items() if v is not None}
    line = np.arange(plain.get("start", 0), plain["stop"], plain.get("step", 1))
    if line.size > 2 and dtype is not None and np.dtype(dtype).kind == "b":
        raise TypeError("arange() is only supported for booleans when the result has at most length 2.")
    if not any(isinstance(x, Tensor) and x.dtype.kind in "fc" for x in (first, step)):
        return wrap(place.array(line, dtype))
    count = place.arange(line.size, dtype=line.dtype)
    y = (0 if first is None else first) + count * (1 if step is None else step)
    made: Tensor = convert(y, line.dtype if dtype is None else np.dtype(dtype))
    return made


arange.__signature__ = inspect.signature(  # type: ignore[attr-defined]
    lambda start_or_stop, /, stop=None, step=1, *, dtype=None, device=None, like=None: None
)


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`, along a new axis; differentiable in both."""
    if not any(map(holds_tensor, (start, stop))):
        space: Callable[..., Any] = np.linspace  # its overloads want to know whether there is a step
        made = space(start, stop, num, endpoint, retstep, dtype, axis)
        return (_placed(made[0], device), Tensor(made[1])) if retstep else _placed(made, device)
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    kind = promoted(start, stop, 1.0)
    first, last = (convert(x, kind) for x in together(start, stop))
    # downwards: compiled, a sum would not round its product as a difference does, nor zero be zero
    gap = binary("subtract", first, last)
    shape = (num, *(1,) * len(gap.shape))
    line = near(gap).arange(num, dtype=np.finfo(kind).dtype).reshape(shape)
    parts = num - 1 if endpoint else num
    step = gap / parts if parts > 0 else Tensor(np.nan)
    if parts <= 0:
        y = line * gap
    elif _has_zero(step):  # the gap may be too small to be divided
        y = line / parts * gap
    else:
        y = line * step
    y = first - y
    if endpoint and num > 1:  # exactly
        y = bind(
            "concatenate", y[:-1], _broadcast_to(reshape(last, (1, *last.shape)), (1, *gap.shape)), axis=0
        )
    kind = kind if dtype is None else np.dtype(dtype)
    y = convert(unary("floor", y) if kind.kind in "iu" else y, kind)
    y = _first_to(y, axis)
    return (y, -step) if retstep else y


def _has_zero(x: Any) -> bool:
    found = elements(x)
    return found is not None and bool(np.any(found == 0))


def _first_to(y: Any, axis: int) -> Any:
    """Return `y` with its first axis moved to `axis`."""
    place = normalize_axis_index(axis, len(y.shape))
    order = list(range(1, len(y.shape)))
    order.insert(place, 0)
    return bind("transpose", y, axes=tuple(order)) if place else y


@implements(np.logspace)
def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Return `base` to the powers of `linspace(start, stop)`; differentiable in all three."""
    if not any(map(holds_tensor, (start, stop, base))):
        return Tensor(np.logspace(start, stop, num, endpoint, base, dtype, axis))
    if np.ndim(base):
        first, last, root = together(start, stop, base)
        rank = max(len(x.shape) for x in (first, last, root))
        start, stop, base = (ones_before(x, rank) for x in (first, last, root))
        place = normalize_axis_index(axis, rank + 1)
        base = reshape(base, (*base.shape[:place], 1, *base.shape[place:]))
    y = unordered(bind("power", base, linspace(start, stop, num, endpoint, axis=axis)), start, stop, base)
    return y if dtype is None else convert(y, np.dtype(dtype))


@implements(np.geomspace)
def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Return `num` numbers from `start` to `stop`, each a constant multiple of the one before.

    Negative and complex ends are rotated to start on the positive axis, as in NumPy, which changes no
    derivative: it is that of start^(1 - i / n) stop^(i / n).

    Raises:
        ValueError: one of the ends is zero.
    """
    if not any(map(holds_tensor, (start, stop))):
        return Tensor(np.geomspace(start, stop, num, endpoint, dtype, axis))
    first, last = together(start, stop)
    if _has_zero(first) or _has_zero(last):
        raise ValueError("Geometric sequence cannot include zero")
    kind = np.result_type(first.dtype, last.dtype, 1.0, np.dtype(dtype or float))
    first, last = convert(first, kind), convert(last, kind)
    turn = unary("sign", bind("stop_gradient", first) if isinstance(first, Tensor) else first)
    a, b = first / turn, last / turn
    y = logspace(unary("log10", a), unary("log10", b), num, endpoint)
    ends = [_broadcast_to(reshape(x, (1, *x.shape)), (1, *y.shape[1:])) for x in (a, b)]
    if y.shape[0] > 0:
        exact = 1 if y.shape[0] > 1 and endpoint else 0
        middle = y[1 : y.shape[0] - exact]
        y = bind("concatenate", ends[0], middle, *ends[1 : 1 + exact], axis=0)
    y = _first_to(y * turn, axis)
    return convert(y, kind if dtype is None else np.dtype(dtype))


@implements(np.eye)
def eye(
    N: int,  # noqa: N803 -- NumPy's names
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: Any = float,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Tensor:
    """Return a Tensor with ones on the diagonal `k` and zeros elsewhere."""
    return _placed(np.eye(N, M, k, dtype, order), device)


@implements(np.identity)
def identity(n: int, dtype: Any = None, *, like: Any = None) -> Tensor:
    """Return the identity matrix of n rows."""
    return eye(n, dtype=dtype)


@implements(np.tri)
def tri(
    N: int,  # noqa: N803 -- NumPy's names
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: Any = float,
    *,
    like: Any = None,
) -> Tensor:
    """Return a Tensor with ones on and below the diagonal `k` and zeros elsewhere."""
    return wrap(maker().array(np.tri(N, M, k, dtype)))


def fromiter(iter: Iterable[Any], dtype: Any, count: int = -1, *, like: Any = None) -> Tensor:
    """Return a vector of the elements of an iterable, numbers and Tensors; derivatives flow to these.

    Raises:
        ValueError: the iterable has fewer than `count` elements.
    """
    found = list(iter) if count < 0 else [x for x, _ in zip(iter, range(count), strict=False)]
    if not any(isinstance(x, Tensor) for x in found):
        return Tensor(np.fromiter(found, dtype, count))
    if len(found) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(found)} items.")
    return array(found, dtype)


def frombuffer(
    buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0, *, like: Any = None
) -> Tensor:
    """Return a vector that holds a copy of the elements in a buffer."""
    return Tensor(np.frombuffer(buffer, dtype, count, offset))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a Tensor that holds a copy of an array of another library; a Tensor keeps its derivatives.

    Args:
        x: what has `__dlpack__`.
        device: where to make it; None: as `default_device` says.
        copy: None or True, but for Tensors: the memory of others may change.

    Raises:
        ValueError: `copy` is False.
    """
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    if copy is False:
        raise ValueError("a Tensor cannot share the memory of an array, so copy=False is impossible")
    return Tensor(x, None, device) if is_foreign(x) else Tensor(np.from_dlpack(x, device=device))


@implements(np.fromfunction)
def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any
) -> Any:
    """Return what a function gives for the coordinates of an array, each an array of its `shape`."""
    coordinates = np.indices(shape, dtype=dtype)
    made = function(*(coordinates if maker() is np else map(Tensor, coordinates)), **kwargs)
    return Tensor(made) if isinstance(made, np.ndarray | np.generic) else made


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """Return the coordinates of an array's elements: (n, *shape), or n of them if `sparse`."""
    coordinates: Callable[..., Any] = np.indices  # its overloads want to know whether it is sparse
    made = coordinates(dimensions, dtype, sparse)
    return tuple(map(Tensor, made)) if sparse else Tensor(made)


@implements(np.meshgrid)
def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> tuple[Any, ...]:
    """Return coordinate arrays of the grid that one-dimensional arrays span."""
    if indexing not in {"xy", "ij"}:
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    vectors = [reshaped(v, (v.size,)) for v in together(*xi)]
    if not any(isinstance(v, Tensor) for v in vectors):
        return tuple(np.meshgrid(*vectors, indexing=indexing, sparse=sparse, copy=copy))  # type: ignore[call-overload]
    n = len(vectors)
    order = list(range(n))
    if indexing == "xy" and n > 1:
        order[:2] = [1, 0]
    shape = [0] * n
    for axis, v in zip(order, vectors, strict=True):
        shape[axis] = v.size
    grids = [
        reshaped(v, tuple(v.size if i == a else 1 for i in range(n)))
        for a, v in zip(order, vectors, strict=True)
    ]
    grids = alike(grids if sparse else [repeated(g, tuple(shape)) for g in grids])
    return tuple(recopied(g, "C") for g in grids) if copy else tuple(grids)


def as_target(x: Any, target: Any, index: Any = False) -> Any:
    """Return what is written to a Tensor, in its dtype and where it is.

    Args:
        x: an array, Tensor, number or sequence of these.
        target: the Tensor.
        index: what is written to; at a basic index NumPy converts scalars as elements.

    Raises:
        TypeError: `x` is complex and `target` is not.
        OverflowError: a number of Python that an integer dtype does not have.
    """
    given, dtype = x, target.dtype
    if dtype.kind == "i" and given.__class__ in _SEQUENCES and holds_tensor(given):
        given = array(given, dtype)  # each scalar is an element
    x = next_to(given, target)
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"cannot write a complex value into a Tensor of dtype {dtype}; take value.real first")
    if dtype.kind in "iu":
        if number_type(x) is float:
            return bind("fitted", x, dtype=dtype)
        if not isinstance(x, Tensor) and given.__class__ in _BUILT_IN:
            np.array(given, dtype)  # it knows what fits
    is_item = (is_scalar(given) or is_scalar(x)) and _is_basic(index)
    return as_item(x, dtype) if is_item else convert(x, dtype)


def _is_basic(index: Any) -> bool:
    """Return whether an index consists of integers, slices, new axes and an ellipsis."""
    for part in index if index.__class__ is tuple else (index,):
        if not (part is None or part is Ellipsis or part.__class__ in _BASIC or _is_integer(part)):
            return False
    return True


_BASIC = (int, slice)


def _is_integer(x: Any) -> bool:
    return isinstance(x, np.generic | np.ndarray | Tensor) and not x.shape and x.dtype.kind in "iu"


def as_item(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a scalar as NumPy makes it an element: by way of Python's integers where they are signed.

    Raises:
        ValueError: NaN.
        OverflowError: an infinity, or a number that the dtype does not have.
    """
    if dtype.kind == "i" and x.dtype.kind in "iuf" and not np.can_cast(x.dtype, dtype):
        return bind("fitted", x, dtype=dtype)
    return convert(x, dtype)


def is_scalar(x: Any) -> bool:
    """Return whether `x` is a scalar of NumPy's, or a Tensor that holds or stands for one."""
    return isinstance(x, np.generic) or (isinstance(x, Tensor) and not x.shape and not is_array(x))


_SEQUENCES = (list, tuple)
_BUILT_IN = (int, float, *_SEQUENCES)
