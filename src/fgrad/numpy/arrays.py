"""Arrays and Tensors made of what users give, beside one another, and as what is written to a Tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import adopted, is_foreign
from fgrad.core.dispatch import bind
from fgrad.core.placement import buffer_of, near
from fgrad.core.snapshot import refuse_subclass
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import Tracer
from fgrad.core.views import is_array, is_laid_out, memory_of, unordered
from fgrad.numpy.registry import as_array, holds_tensor, implements
from fgrad.numpy.views import in_order, reshaped, transposed
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
_NUMBERS = (Tensor, *_WEAK)
_AS_THEY_ARE = {Tensor, np.ndarray, int, float, complex, bool, type(None)}


def operand(x: Any) -> Any:
    """Return a number as it is, whose dtype gives way to that of arrays; anything else as array or Tensor."""
    return x if x.__class__ in _AS_THEY_ARE or isinstance(x, _NUMBERS) else as_value(x)


def number_type(x: Any) -> type | None:
    """Return the type of one of Python's numbers, or of what stands for one while a function is traced."""
    if x.__class__ in PYTHON:
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


PYTHON = (bool, int, float, complex)


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


def together(*xs: Any) -> list[Any]:
    """Return arrays or Tensors; numbers and sequences of them go where the first one on a device is."""
    for x in xs:
        value = x._value if x.__class__ is Tensor else x
        if value.__class__ is not np.ndarray:
            break
    else:
        return list(xs)
    _refuse_subclasses(xs)
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
    _refuse_subclasses(xs)
    if any(isinstance(x, list | tuple) for x in xs):
        made = iter(together(*[x for x in xs if not isinstance(x, _WEAK)]))
        return [x if isinstance(x, _WEAK) else next(made) for x in xs]
    return list(map(operand, xs))


def _refuse_subclasses(xs: Iterable[Any]) -> None:
    """Refuse arrays that stand beside Tensors and whose classes compute in their own way."""
    if any(x.__class__ is Tensor for x in xs):
        for x in xs:
            refuse_subclass(x)


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

    Returns:
        Tensor of the shape of `object`, in `dtype` or in that to which NumPy promotes its elements.

    Raises:
        ValueError: parts of unequal shapes, or `copy=False` where a copy is needed.

    Derivative:
        The identity: each element has the gradient of its place. Of integers, truth values and text there is
        none.

    Differences from NumPy:
        Returns a Tensor, so that it can be written to and differentiated.

    Example:
        >>> x = fg.tensor(2.0)
        >>> fnp.array([x, 1.0])
        Tensor([2., 1.])
        >>> fg.jacobian(lambda x: fnp.array([x**2, x**3]))(2.0)
        array([ 4., 12.])
    """
    if isinstance(object, Tensor):
        if not copy and dtype in (None, object.dtype) and (not ndmin or is_array(object)):
            return ones_before(_lying(object, order), ndmin)  # type: ignore[no-any-return]
        if dtype is not None and number_type(object) is int:
            object = as_item(object, np.dtype(dtype))
        made = as_array(recopied(object, order))
    elif copy is False:
        raise ValueError("a Tensor cannot share the memory of an array, so copy=False is impossible")
    elif isinstance(object, list | tuple) and holds_tensor(object):
        leaves: list[Any] = []
        shape = _parts(object, leaves)
        if dtype is not None:
            leaves = [as_item(p, np.dtype(dtype)) if is_scalar(p) else p for p in leaves]
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
    """Return `a` itself if it is a Tensor of `dtype`, otherwise a Tensor made of it; `copy`: a new handle.

    Returns:
        Tensor of the shape of `a`, in `dtype` or in its own.

    Raises:
        ValueError: `copy` is False and a copy is needed.

    Derivative:
        The identity.

    Differences from NumPy:
        Returns a Tensor, also for arrays.

    Example:
        >>> x = fg.tensor([1.0, 2.0])
        >>> fnp.asarray(x) is x
        True
    """
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
    """Return what `asarray` does: a Tensor has no subclasses.

    Returns:
        Tensor of the shape of `a`; of `dtype` where it is given.

    Derivative:
        The identity.

    Example:
        >>> fnp.asanyarray([1.0, 2.0])
        Tensor([1., 2.])
    """
    return asarray(a, dtype, order, device=device, copy=copy)


@implements(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tensor:
    """Return what `asarray` does, rows first in memory, with at least one axis, as in NumPy.

    Returns:
        Tensor of the shape of `a`, (1,) for a number.

    Derivative:
        The identity.

    Example:
        >>> fnp.ascontiguousarray(3.0).shape
        (1,)
    """
    return array(asarray(a, dtype), copy=None, order="C", ndmin=1)


@implements(np.asfortranarray)
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tensor:
    """Return what `asarray` does, columns first in memory, with at least one axis, as in NumPy.

    Returns:
        Tensor of the shape of `a`, (1,) for a number.

    Derivative:
        The identity.

    Example:
        >>> fnp.asfortranarray([[1.0, 2.0], [3.0, 4.0]]).numpy().flags.f_contiguous
        True
    """
    return array(asarray(a, dtype), copy=None, order="F", ndmin=1)


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Tensor:
    """Return what `asarray` does.

    Returns:
        Tensor of the shape of `a`, in `dtype` or in its own.

    Raises:
        ValueError: an element is infinite or NaN.

    Derivative:
        The identity.

    Example:
        >>> fnp.asarray_chkfinite([1.0, 2.0])
        Tensor([1., 2.])
    """
    made = asarray(a, dtype, order)
    value = concrete(made, "asarray_chkfinite")
    if value.dtype.kind in "fc" and not np.isfinite(value).all():
        raise ValueError("array must not contain infs or NaNs")
    return made


@implements(np.require)
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Tensor:
    """Return what `asarray` does; NumPy's requirements on the memory are met by every Tensor.

    Returns:
        Tensor of the shape of `a`, in `dtype` or in its own.

    Derivative:
        The identity.

    Differences from NumPy:
        `requirements` about memory ("C", "F", "A", "W", "O") are taken and change nothing.

    Example:
        >>> fnp.require([1, 2], dtype=float)
        Tensor([1., 2.])
    """
    np.require(np.zeros(1), None, requirements)  # it knows which there are
    return asarray(a, dtype)


@implements(np.copy, name="copy")
def copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    """Return a Tensor of its own on the value; derivatives flow through.

    Returns:
        Tensor of the shape and dtype of `a`, which shares memory with nothing.

    Derivative:
        The identity.

    Example:
        >>> x = fg.tensor([1.0, 2.0])
        >>> y = fnp.copy(x)
        >>> y[0] = 5.0
        >>> x
        Tensor([1., 2.])
    """
    return (
        as_array(recopied(a, order))
        if isinstance(a, Tensor)
        else np.array(a, order=order, subok=subok, copy=True)
    )


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
        if number_type(given) is float:
            return bind("fitted", x, dtype=dtype)
        if not isinstance(x, Tensor) and given.__class__ in _BUILT_IN:
            np.array(given, dtype)  # it knows what fits
    is_item = (is_scalar(given) or is_scalar(x)) and _is_basic(index)
    is_pythons = number_type(given) is int
    return as_item(x, dtype, is_pythons=is_pythons) if is_item or is_pythons else convert(x, dtype)


def _is_basic(index: Any) -> bool:
    """Return whether an index consists of integers, slices, new axes and an ellipsis."""
    for part in index if index.__class__ is tuple else (index,):
        if not (part is None or part is Ellipsis or part.__class__ in _BASIC or _is_integer(part)):
            return False
    return True


_BASIC = (int, slice)


def _is_integer(x: Any) -> bool:
    return isinstance(x, np.generic | np.ndarray | Tensor) and not x.shape and x.dtype.kind in "iu"


def as_item(x: Any, dtype: np.dtype[Any], *, is_pythons: bool = False) -> Any:
    """Return a scalar as NumPy makes it an element: by way of Python's integers where they are signed.

    Args:
        x: the scalar.
        dtype: that of the element.
        is_pythons: whether `x` stood for one of Python's integers before it was brought to its place.

    Raises:
        ValueError: NaN.
        OverflowError: an infinity, or a number that the dtype does not have.
    """
    is_pythons = is_pythons or number_type(x) is int
    x = as_value(x)
    if dtype.kind in "iu" and is_pythons and not np.can_cast(x.dtype, dtype):
        return bind("fitted", x, dtype=dtype)
    if dtype.kind == "i" and x.dtype.kind in "iuf" and not np.can_cast(x.dtype, dtype):
        return bind("fitted", x, dtype=dtype)
    return convert(x, dtype)


def is_scalar(x: Any) -> bool:
    """Return whether `x` is a scalar of NumPy's, or a Tensor that holds or stands for one."""
    return isinstance(x, np.generic) or (isinstance(x, Tensor) and not x.shape and not is_array(x))


_SEQUENCES = (list, tuple)
_BUILT_IN = (int, float, *_SEQUENCES)
