"""Reading and writing elements, choosing among arrays, and small functions made of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad import tree
from fgrad.core.primitive import OPERATORS, Primitive, flat, register
from fgrad.core.tape import CUT
from fgrad.core.tensor import Tensor, alias, binary, bind, rebind, unary, wrap
from fgrad.core.trace import Box
from fgrad.numpy.arrays import as_value
from fgrad.numpy.registry import implements, stored
from fgrad.ops import indexing, linear
from fgrad.ops.indexing import HOLE

register(
    Primitive(
        "stop_gradient",
        run=lambda x: x,
        pull=flat,
        shape=lambda x: x,
        batch=lambda _, x: bind("stop_gradient", x),
    )
)


@implements()
def stop_gradient(x: Any) -> Any:
    """Return the values of a pytree as constants for every transformation; arrays and numbers as they are."""
    if x.__class__ is Tensor:
        return bind("stop_gradient", x)
    return x if tree.is_leaf_type(x.__class__) else tree.map(_stopped, x)


def _stopped(x: Any) -> Any:
    return bind("stop_gradient", x) if x.__class__ is Tensor else x


@implements()
def getitem(x: Any, index: Any) -> Any:
    """Return `x[index]`, for every index that NumPy takes."""
    if index.__class__ is Tensor or index.__class__ is tuple:
        index = _plain_index(index)
    return indexing.getitem(x, index)


def _plain_index(index: Any) -> Any:
    """Return an index without Tensors of no axes where NumPy wants integers."""
    if isinstance(index, tuple):
        return tuple(map(_plain_index, index))
    if isinstance(index, Tensor) and not index.shape and index.dtype.kind in "iu":
        value = index._value
        return index if isinstance(value, Box) else int(value)
    return index


@implements()
def setitem(x: Tensor, index: Any, value: Any) -> None:
    """Give the handle `x` the value it has with `value` at `index`; derivatives flow from both."""
    value = as_value(value)
    if value.dtype.kind == "c" and x.dtype.kind != "c":
        raise TypeError(
            f"cannot write a complex value into a Tensor of dtype {x.dtype}; take value.real first"
        )
    value = linear.convert(value, x.dtype)
    if _is_everything(index):
        shape = tuple(value.shape)
        lead = len(shape) - len(x.shape)
        if lead > 0 and shape[:lead] == (1,) * lead:
            value = linear.reshape(value, shape[lead:])
        if np.broadcast_shapes(tuple(value.shape), x.shape) != x.shape:
            raise ValueError(f"could not broadcast input array from shape {shape} into shape {x.shape}")
        full = linear.broadcast_to(value, x.shape)
        new = full if isinstance(full, Tensor) else wrap(np.array(full))
        rebind(x, new)
        if not x._nodes:
            x._nodes = (CUT,)
        return
    new = indexing.setitem(x, _plain_index(index), value)
    rebind(x, new)


def _is_everything(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(p is Ellipsis or (isinstance(p, slice) and p == slice(None)) for p in parts)


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Return `x` where the condition holds, else `y`; the gradient goes only where an element came from."""
    if x is None or y is None:
        if (x is None) != (y is None):
            raise ValueError("either both or neither of x and y should be given")
        return nonzero(condition)
    choices = (v if isinstance(v, int | float | complex) else as_value(v) for v in (x, y))
    return bind("where", as_value(condition), *choices)


@implements(np.nonzero)
def nonzero(a: Any) -> tuple[Any, ...]:
    """Return the places of the nonzero elements, one array of integers per axis."""
    found = np.nonzero(_concrete(a, "nonzero"))
    return tuple(map(wrap, found)) if isinstance(a, Tensor) else found


def _concrete(a: Any, name: str) -> Any:
    if not isinstance(a, Tensor):
        return np.asarray(a)
    if isinstance(a._value, Box):
        a._value.refuse(f"{name}, whose result has a shape that depends on the values,")
    return a._value


@implements(np.argwhere)
def argwhere(a: Any) -> Any:
    """Return the places of the nonzero elements, one row per element."""
    found = np.argwhere(_concrete(a, "argwhere"))
    return wrap(found) if isinstance(a, Tensor) else found


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    """Return the places of the nonzero elements of the flattened array."""
    found = np.flatnonzero(_concrete(a, "flatnonzero"))
    return wrap(found) if isinstance(a, Tensor) else found


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Return where elements would have to be inserted to keep `a` sorted."""
    found = np.searchsorted(_concrete(a, "searchsorted"), _concrete(v, "searchsorted"), side, sorter)
    return wrap(found) if isinstance(a, Tensor) or isinstance(v, Tensor) else found


@implements(np.clip)
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    **_: Any,
) -> Any:
    """Return elements limited to [a_min, a_max]; at a limit, element and limit share the gradient equally."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    y = as_value(a)
    if low is not None:
        y = bind("maximum", y, low if isinstance(low, int | float) else as_value(low))
    if high is not None:
        y = bind("minimum", y, high if isinstance(high, int | float) else as_value(high))
    return stored(y, out)


@implements(np.select)
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Return the elements of the first choice whose condition holds, else `default`."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError("select needs as many conditions as choices, and at least one")
    choices = [as_value(c) for c in choicelist]
    if isinstance(default, int | float | complex):
        kind = np.result_type(*(c.dtype for c in choices), default)
        y: Any = np.asarray(default, kind)
    else:
        rest = as_value(default)
        kind = np.result_type(*(c.dtype for c in choices), rest.dtype)
        y = linear.convert(rest, kind)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        y = where(condition, linear.convert(choice, kind), y)
    return y


@implements(np.take)
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """Return elements at places along an axis; None flattens first."""
    a = as_value(a)
    if axis is None:
        a, axis = linear.reshape(a, (a.size,)), 0
    axis = normalize_axis_index(axis, len(a.shape))
    places = indices if isinstance(indices, Tensor) else np.asarray(indices)
    n = a.shape[axis]
    if mode == "wrap":
        places = places % n
    elif mode == "clip":
        places = clip(places, 0, n - 1)
    elif mode != "raise":
        raise ValueError(f"mode must be 'raise', 'wrap' or 'clip', not {mode!r}")
    if isinstance(places, Tensor) and not isinstance(places._value, Box):
        places = places._value
    return stored(bind("gather", a, places, template=(*(slice(None),) * axis, HOLE)), out)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Return elements at places along an axis, other axes matched."""
    arr = as_value(arr)
    indices = indices if isinstance(indices, Tensor) else np.asarray(indices)
    if axis is None:
        arr, axis = linear.reshape(arr, (arr.size,)), 0
    n = len(arr.shape)
    axis = normalize_axis_index(axis, n)
    if len(indices.shape) != n:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    if isinstance(indices, Tensor) and not isinstance(indices._value, Box):
        indices = indices._value
    places = []
    for i in range(n):
        m = arr.shape[i] if i != axis else 0
        places.append(indices if i == axis else np.arange(m).reshape([-1 if k == i else 1 for k in range(n)]))
    return bind("gather", arr, *places, template=(HOLE,) * n)


@implements(np.compress)
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Return the slices along an axis for which the condition holds."""
    return stored(take(a, np.flatnonzero(_concrete(condition, "compress")), axis), out)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """Return the elements for which the condition holds, flattened."""
    return take(arr, np.flatnonzero(_concrete(condition, "extract")))


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Return elements rounded to a number of decimals, ties to even; the slope is zero."""
    a = as_value(a)
    if not isinstance(a, Tensor):
        return np.round(a, decimals)
    if a.dtype.kind in "iu" and decimals >= 0:
        return stored(a, out)
    scale = 10.0**decimals
    return stored(unary("rint", a) if decimals == 0 else unary("rint", a * scale) / scale, out)


@implements(np.real)
def real(val: Any) -> Any:
    """Return the real part."""
    val = as_value(val)
    if val.dtype.kind == "c":
        return linear.real(val)
    return alias(val) if isinstance(val, Tensor) else val


@implements(np.imag)
def imag(val: Any) -> Any:
    """Return the imaginary part."""
    return linear.imag(as_value(val))


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """Return the angle of complex numbers, in radians or degrees."""
    z = as_value(z)
    y = binary("arctan2", imag(z), real(z))
    return unary("degrees", y) if deg else y


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """Return `x` with NaN and infinities replaced by numbers; replaced elements have slope zero."""
    x = as_value(x)
    if x.dtype.kind != "f":
        return x
    info = np.finfo(x.dtype)
    y = where(unary("isnan", x), nan, x)
    y = where(binary("equal", x, np.inf), info.max if posinf is None else posinf, y)
    y = where(binary("equal", x, -np.inf), info.min if neginf is None else neginf, y)
    return linear.convert(y, x.dtype)


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return whether elements are equal within tolerances."""
    found = np.isclose(_concrete(a, "isclose"), _concrete(b, "isclose"), rtol, atol, equal_nan)
    return wrap(found)


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements are equal within tolerances."""
    return bool(np.allclose(_concrete(a, "allclose"), _concrete(b, "allclose"), rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether two arrays have the same shape and elements."""
    return bool(np.array_equal(_concrete(a1, "array_equal"), _concrete(a2, "array_equal"), equal_nan))


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype that NumPy's promotion gives."""
    return np.result_type(*(x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes))


def iscomplexobj(x: Any) -> bool:
    """Return whether `x` has a complex dtype."""
    return bool(as_value(x).dtype.kind == "c")


implements(np.iscomplexobj)(iscomplexobj)


@implements(np.array2string)
def array2string(a: Any, *args: Any, **kw: Any) -> str:
    """Return the elements as text."""
    return np.array2string(_concrete(a, "array2string"), *args, **kw)


def _power(x: Any, y: Any) -> Any:
    """Return `x ** y`, by multiplication where `y` is the number 2, by the square root where it is 0.5."""
    if y.__class__ in {int, float} and x.__class__ is Tensor and x.dtype.kind in "fc":
        if y == 2:
            return unary("square", x)
        if y == 1:
            return unary("positive", x)
        if y == 0.5:
            return unary("sqrt", x)
        if y == -1:
            return unary("reciprocal", x)
    return binary("power", x, y)


OPERATORS["power"] = _power
