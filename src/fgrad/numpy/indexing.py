"""Reading and writing elements, choosing among arrays, and small functions made of both."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import as_array as array_of
from fgrad.backend.devices import copied, on_host
from fgrad.compat.numpy import NO_VALUE
from fgrad.core.observers import observed_primitives
from fgrad.core.primitive import (
    CHEAP,
    MOVES,
    PRIMITIVES,
    TOTAL,
    declare,
    flat,
)
from fgrad.core.stored import PLAIN
from fgrad.core.tape import CUT
from fgrad.core.tensor import Tensor, apply_unary, binary, bind, unary, wrap
from fgrad.core.trace import Tracer
from fgrad.core.views import is_array, rebind, unordered, view_of
from fgrad.numpy.arrays import (
    as_target,
    as_value,
    concrete,
    next_to,
    operands,
    promoted,
    promoted_as,
    recopied,
    together,
)
from fgrad.numpy.masked_selection import MaskedSelection, masked_selection
from fgrad.numpy.registry import (
    as_array,
    as_scalar,
    declare_operator,
    holds_tensor,
    implements,
    stored,
    written_back,
)
from fgrad.numpy.views import part, sliced, zeros_beside
from fgrad.ops import indexing, linear
from fgrad.ops.indexing import HOLE

declare(
    "stop_gradient",
    run=lambda x: x,
    vjp=flat,
    shape=lambda x: x,
    batch=lambda _, x: bind("stop_gradient", x),
    traits={MOVES, CHEAP, TOTAL},
    parts=1,
    stored=PLAIN,
)


@implements()
def stop_gradient(x: Any) -> Any:
    """Return the values of a pytree as constants for every transformation; arrays and numbers as they are.

    Args:
        x: pytree.

    Returns:
        The pytree, its arrays of the same shapes and dtypes.

    Derivative:
        Zero: `x` counts as a constant.

    Example:
        >>> fg.grad(lambda x: x * fg.stop_gradient(x))(3.0)
        np.float64(3.0)
    """
    if x.__class__ is Tensor:
        return bind("stop_gradient", x)
    return x if tree.is_leaf_type(x.__class__) else tree.map(_stopped, x)


def _stopped(x: Any) -> Any:
    return bind("stop_gradient", x) if x.__class__ is Tensor else x


_SLICE = PRIMITIVES["slice"]
_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})


@implements()
def getitem(x: Any, index: Any) -> Any:
    """Return `x[index]`, for every index that NumPy takes."""
    if index.__class__ is slice:
        start, stop, step = index.start, index.stop, index.step
        basic = (
            (start is None or start.__class__ is int)
            and (stop is None or stop.__class__ is int)
            and (step is None or step.__class__ is int)
        )
    else:
        basic = index.__class__ in _BASIC
    if basic:
        params = {"index": (index,)}
        if x.__class__ is Tensor and not observed_primitives:  # who observes has to see that it runs
            value = x._value
            if value.__class__ is np.ndarray:
                return view_of(x, _SLICE, params, value[index])
        return view_of(x, _SLICE, params)
    if index.__class__ is tuple:
        for part in index:
            if part.__class__ is Tensor or part.__class__ is tuple:
                index = plain_index(index)
                break
    elif index.__class__ is Tensor:
        found = masked_selection(x, index)
        if found is not None:
            return found
        index = plain_index(index)
    return indexing.getitem(x, index, sliced)


def plain_index(index: Any) -> Any:
    """Return an index without Tensors of no axes where NumPy wants integers."""
    if isinstance(index, tuple):
        return tuple(map(plain_index, index))
    if isinstance(index, Tensor) and not index.shape and index.dtype.kind in "iu":
        value = index._value
        return index if isinstance(value, Tracer) else int(value)
    return index


@implements()
def setitem(x: Tensor, index: Any, value: Any) -> None:
    """Give the handle `x` the value it has with `value` at `index`; derivatives flow from both."""
    if value.__class__ is MaskedSelection:
        rebind(x, value.written(x, index))
        return
    value = as_target(value, x, index)
    if _is_everything(index):
        shape = tuple(value.shape)
        lead = len(shape) - len(x.shape)
        if lead > 0 and shape[:lead] == (1,) * lead:
            value = linear.reshape(value, shape[lead:])
        if np.broadcast_shapes(tuple(value.shape), x.shape) != x.shape:
            raise ValueError(f"could not broadcast input array from shape {shape} into shape {x.shape}")
        full = linear.broadcast_to(value, x.shape)
        rebind(x, full if isinstance(full, Tensor) else wrap(copied(full)))
        if not x._nodes:
            x._nodes = (CUT,)
        return
    mask = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if _is_unknown_mask(mask, x) and _is_one(value, 1 + x.ndim - mask.ndim):
        if value.ndim > x.ndim - mask.ndim:
            value = linear.reshape(value, value.shape[1:])
        chosen = linear.reshape(mask, (*mask.shape, *[1] * (x.ndim - mask.ndim)))
        new = bind("where", chosen, value, x)  # is the same, and asks for no value of the mask
    else:
        new = indexing.setitem(x, plain_index(index), value)
    rebind(x, new)


def _is_unknown_mask(mask: Any, x: Tensor) -> bool:
    """Return whether `mask` chooses elements by values that are not here."""
    return (
        isinstance(mask, Tensor)
        and isinstance(mask._value, Tracer | DeviceArray)
        and mask.dtype.kind == "b"
        and 0 < mask.ndim <= x.ndim
        and 0 not in mask.shape
        and mask.shape == x.shape[: mask.ndim]
    )


def _is_one(value: Any, most: int) -> bool:
    """Return whether all that is chosen gets one value, which has at most so many axes."""
    return len(value.shape) < most or (len(value.shape) == most and value.shape[0] == 1)


def _is_everything(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(p is Ellipsis or (isinstance(p, slice) and p == slice(None)) for p in parts)


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Return `x` where the condition holds, else `y`; the gradient goes only where an element came from.

    Returns:
        Array of the shape to which all broadcast, of the promoted dtype; with the condition alone what
        `nonzero`
        returns.

    Raises:
        ValueError: one of `x` and `y` is missing, or shapes do not broadcast.

    Derivative:
        The identity for the arm that an element comes from, zero for the other one, also where the other's
        slope is
        infinite or NaN.

    Example:
        >>> x = np.array([0.0, 4.0])
        >>> fg.grad(lambda x: fnp.where(x > 0, fnp.sqrt(x), 0.0).sum())(x)
        array([0.  , 0.25])
    """
    if x is None or y is None:
        if (x is None) != (y is None):
            raise ValueError("either both or neither of x and y should be given")
        return nonzero(condition)
    return as_array(pick(condition, x, y))


def pick(condition: Any, x: Any, y: Any) -> Any:
    """Return what `where` does; without axes a scalar, where no value is known."""
    chosen, x, y = operands(condition, x, y)
    return bind("where", as_value(chosen), x, y)


@implements(np.nonzero)
def nonzero(a: Any) -> tuple[Any, ...]:
    """Return the indices of the nonzero elements, one array of integers per axis.

    Returns:
        A vector of integers for each axis.

    Raises:
        TypeError: values are not known, under `vmap` or while staged.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.nonzero(np.array([[0.0, 2.0]]))
        (array([0]), array([1]))
    """
    found = np.nonzero(concrete(a, "nonzero"))
    return tuple(map(wrap, found)) if isinstance(a, Tensor) else found


@implements(np.argwhere)
def argwhere(a: Any) -> Any:
    """Return the indices of the nonzero elements, one row per element.

    Returns:
        Integers (number of nonzero elements, axes of `a`).

    Raises:
        TypeError: values are not known, under `vmap` or while staged: the shape would depend on them.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.argwhere(np.array([0.0, 2.0, 3.0]))
        array([[1],
               [2]])
    """
    found = np.argwhere(concrete(a, "argwhere"))
    return wrap(found) if isinstance(a, Tensor) else found


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    """Return the indices of the nonzero elements of the flattened array.

    Returns:
        Vector of integers.

    Raises:
        TypeError: values are not known, under `vmap` or while staged.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.flatnonzero(np.array([0.0, 2.0, 3.0]))
        array([1, 2])
    """
    found = np.flatnonzero(concrete(a, "flatnonzero"))
    return wrap(found) if isinstance(a, Tensor) else found


@implements(np.clip)
def clip(
    a: Any,
    a_min: Any = NO_VALUE,
    a_max: Any = NO_VALUE,
    out: Any = None,
    *,
    min: Any = NO_VALUE,
    max: Any = NO_VALUE,
    dtype: Any = None,
) -> Any:
    """Return elements limited to [a_min, a_max]; at a limit, element and limit share the gradient equally.

    Returns:
        Array of the shape to which all broadcast, of the promoted dtype.

    Derivative:
        One within the limits, zero outside; at a limit one half for the element and one half for the limit.

    Example:
        >>> fg.grad(lambda x: fnp.clip(x, 0.0, 1.0).sum())(np.array([-1.0, 0.0, 0.5]))
        array([0. , 0.5, 1. ])
    """
    if (a_min is NO_VALUE) != (a_max is NO_VALUE):
        raise TypeError("clip needs both a_min and a_max (None: no limit); give one limit as min= or max=")
    if a_min is not NO_VALUE and not (min is NO_VALUE and max is NO_VALUE):
        raise ValueError("clip takes its limits either as a_min and a_max or as min and max")
    low, high = (min, max) if a_min is NO_VALUE else (a_min, a_max)
    low, high = (None if x is NO_VALUE else x for x in (low, high))
    y, low, high = operands(a, low, high)
    y = as_value(y)
    if low is not None and high is not None:  # all three are promoted at once
        y = linear.convert(
            y,
            promoted(y, *(x for x in (_limit(low, y.dtype, -1), _limit(high, y.dtype, 1)) if x is not None)),
        )
    y = y if dtype is None else linear.convert(y, np.dtype(dtype))
    low, high = _limit(low, y.dtype, -1), _limit(high, y.dtype, 1)
    if low is None and high is None:
        y = bind("positive", y)
    if low is not None:
        y = bind("maximum", y, low)
    if high is not None:
        y = bind("minimum", y, high)
    return stored(y, out)


def _limit(x: Any, dtype: np.dtype[Any], sign: int) -> Any:
    """Return a limit; None where there is none, or where no integer of `dtype` is beyond it."""
    if x.__class__ is int and dtype.kind in "iu":
        last = np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min
        if (x - last) * sign >= 0:
            return None
    return x


@implements(np.select)
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Return the elements of the first choice whose condition holds, else `default`.

    Returns:
        Array of the shape to which all broadcast, of the promoted dtype.

    Raises:
        ValueError: as many conditions as choices are needed.

    Derivative:
        The identity, for the choice that an element comes from.

    Example:
        >>> x = np.array([1.0, 5.0])
        >>> fnp.select([x < 2, x > 4], [x, 10 * x], 0.0)
        array([ 1., 50.])
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError("select needs as many conditions as choices, and at least one")
    for i, condition in enumerate(condlist):
        if as_value(condition).dtype.kind != "b":
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    *made, y = together(*condlist, *choicelist, default)
    conditions, choices = made[: len(condlist)], made[len(condlist) :]
    kind = promoted(*choicelist, default)
    for made in choices:  # numbers of Python too, of which NumPy makes arrays first
        if not np.can_cast(made.dtype, kind, "same_kind"):
            raise TypeError(f"Cannot cast array data from {made.dtype!r} to {kind!r} by 'same_kind'")
    y = linear.convert(y, kind)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        y = where(condition, linear.convert(choice, kind), y)
    return y


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Return for every position the element of the array that `a` chooses; all broadcast.

    Args:
        a: integers that count choices.
        choices: sequence of arrays, or an array of them.
        out: Tensor or array for the result.
        mode: what an integer beyond the choices means: "raise" an error, "wrap" around, or "clip".

    Returns:
        Array of the shape to which all broadcast, of the dtype of the choices.

    Raises:
        ValueError: an integer beyond the choices, or an unknown mode.

    Derivative:
        Of the choices: each element goes to the one that is chosen. The integers have none.

    Example:
        >>> fnp.choose([0, 1], [[1.0, 2.0], [3.0, 4.0]])
        array([1., 4.])
    """
    options = list(choices)
    if mode not in {"raise", "wrap", "clip"}:
        raise ValueError(f"mode must be 'raise', 'wrap' or 'clip', not {mode!r}")
    if not options:
        raise ValueError("choose needs at least one choice")
    kind = promoted(*options)
    places, *options = together(a, *options)
    n = len(options)
    if not any(isinstance(x, Tensor) for x in (places, *options)):
        return stored(np.choose(places, options, mode=mode), out)  # type: ignore[call-overload]
    if places.dtype.kind not in "biu":
        raise TypeError(f"choose counts with integers, not {places.dtype}")
    if not np.can_cast(places.dtype, np.intp):
        raise TypeError(
            f"Cannot cast array data from {places.dtype} to {np.dtype(np.intp)} according to 'safe'"
        )
    places = linear.convert(places, np.dtype(np.intp))
    if mode == "wrap":
        places = places % n
    elif mode == "clip":
        places = clip(places, 0, n - 1)
    else:
        known = concrete(places, "choose with mode='raise'")
        if known.size and not 0 <= np.min(known) <= np.max(known) < n:
            raise ValueError("invalid entry in choice array")
    shape = np.broadcast_shapes(places.shape, *(x.shape for x in options))
    y = linear.convert(options[-1], kind)
    for i in range(n - 2, -1, -1):
        y = where(places == i, linear.convert(options[i], kind), y)
    y = linear.broadcast_to(y, shape) if y.shape != shape else y
    y = beside(recopied(y, "K") if y is options[-1] and isinstance(y, Tensor) else y, a)
    return stored(as_scalar(y), out)


@implements(np.take)
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """Return elements at indices along an axis; None flattens first.

    Returns:
        Array of the shape of `a`, with that of `indices` in the place of the axis; dtype of `a`.

    Raises:
        IndexError: an index out of bounds, with `mode` "raise".
        TypeError: floats as indices.

    Derivative:
        Each element gets the sum of the cotangents of its copies.

    Example:
        >>> fg.grad(lambda x: fnp.take(x, [0, 0, 2]).sum())(np.array([1.0, 2.0, 3.0]))
        array([2., 0., 1.])
    """
    a = next_to(a, indices)
    if axis is None or (not a.shape and axis in {0, -1}):
        a, axis = linear.reshape(a, (a.size,)), 0
    axis = normalize_axis_index(axis, len(a.shape))
    places = indices if isinstance(indices, Tensor) else array_of(indices)
    nothing = places.dtype.kind == "f" and not places.size and not hasattr(indices, "dtype")
    if places.dtype.kind == "b" or nothing:
        places = linear.convert(places, np.dtype(np.intp))
    if not np.can_cast(places.dtype, np.intp, "same_kind"):
        raise TypeError(
            f"Cannot cast array data from {places.dtype} to {np.dtype(np.intp)}: indices must be integers"
        )
    if places.dtype == np.uint64 and not hasattr(indices, "dtype"):
        places = np.asarray(indices, np.intp)  # NumPy refuses numbers of Python's that are too large
    if places.dtype == np.uint64:  # from 2^63 on they count from the end, single ones too, unlike in x[i]
        places = linear.convert(places, np.dtype(np.intp))
    n = a.shape[axis]
    if mode in {"wrap", "clip"}:
        places = linear.convert(places, np.dtype(np.intp))  # n need not be a number of a smaller dtype
        places = places % n if mode == "wrap" else clip(places, 0, n - 1)
    elif mode != "raise":
        raise ValueError(f"mode must be 'raise', 'wrap' or 'clip', not {mode!r}")
    if 0 in a.shape[:axis]:  # there is nothing to take, wherever it would be taken
        shape = (*a.shape[:axis], *places.shape, *a.shape[axis + 1 :])
        return written_back(beside(linear.reshape(a, shape), indices), out)
    if isinstance(places, Tensor) and not isinstance(places._value, Tracer):
        places = places._value
    taken = bind("gather", a, places, template=(*(slice(None),) * axis, HOLE))
    return written_back(beside(taken, indices), out)


def beside(y: Any, *xs: Any) -> Any:
    """Return a new array, as Tensor if one of `xs` is a Tensor."""
    return wrap(y) if not isinstance(y, Tensor) and any(isinstance(x, Tensor) for x in xs) else y


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Return elements at indices along an axis, other axes matched.

    Returns:
        Array of the shape of `indices`, broadcast against `arr` in other axes; dtype of `arr`.

    Raises:
        IndexError: an index out of bounds, or indices that are no integers.
        ValueError: another number of axes.

    Derivative:
        Each element gets the sum of the cotangents of its copies.

    Example:
        >>> x = np.array([[3.0, 1.0, 2.0]])
        >>> fnp.take_along_axis(x, np.argsort(x), -1)
        array([[1., 2., 3.]])
    """
    arr, given = next_to(arr, indices), indices
    indices = indices if isinstance(indices, Tensor) else np.asarray(indices)
    if indices.dtype.kind not in "iu":
        raise IndexError(f"`indices` must be an integer array, not of dtype {indices.dtype}")
    if axis is None:
        arr, axis = linear.reshape(arr, (arr.size,)), 0
    n = len(arr.shape)
    axis = normalize_axis_index(axis, n)
    if len(indices.shape) != n:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return beside(along_axis(arr, indices, axis), given)


def along_axis(x: Any, indices: Any, axis: int, *, unique: bool = False) -> Any:
    """Return elements at indices along an axis, other axes matched; `unique`: no index occurs twice."""
    n = len(x.shape)
    places = [np.arange(m).reshape([-1 if k == i else 1 for k in range(n)]) for i, m in enumerate(x.shape)]
    places[axis] = indices
    return bind("gather", x, *places, template=(HOLE,) * n, unique=unique)


@implements(np.compress)
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Return the slices along an axis for which the condition holds.

    Returns:
        Array of the shape of `a` with the axis as long as the condition is true; of one axis for None.

    Raises:
        TypeError: the condition is not known, under `vmap` or while staged.

    Derivative:
        The identity for the slices that are kept, zero for the others.

    Example:
        >>> fnp.compress([True, False], np.array([[1.0], [2.0]]), axis=0)
        array([[1.]])
    """
    chosen = concrete(condition, "compress")
    if np.ndim(chosen) != 1:
        raise ValueError(f"condition must be a 1-d array, not of {np.ndim(chosen)} axes")
    return stored(beside(take(a, np.flatnonzero(chosen), axis), condition), out)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """Return the elements for which the condition holds, flattened.

    Returns:
        Array of one axis, of the dtype of `arr`.

    Raises:
        TypeError: the condition is not known, under `vmap` or while staged.

    Derivative:
        The identity for the elements that are kept, zero for the others.

    Example:
        >>> fnp.extract(np.array([True, False, True]), np.array([1.0, 2.0, 3.0]))
        array([1., 3.])
    """
    return beside(take(arr, np.flatnonzero(concrete(condition, "extract"))), condition)


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Return elements rounded to a number of decimals, ties to even; the slope is zero.

    Returns:
        Array of the shape and dtype of `a`.

    Derivative:
        Zero everywhere, jumps too.

    Example:
        >>> fnp.round(np.array([1.25, 2.5]), 1)
        array([1.2, 2.5])
    """
    a = as_value(a)
    if not isinstance(a, Tensor):
        return stored(np.round(a, decimals), out)
    decimals = operator.index(decimals)
    if a.dtype.kind == "b" and decimals != 0:
        raise TypeError(
            "truth values have no decimals: cannot cast float64 to bool with casting rule 'same_kind'"
        )
    scale = 10.0 ** abs(decimals)
    if a.dtype.kind in "iu":
        tens = (
            recopied(a, "K") if decimals >= 0 else linear.convert(unary("rint", a / scale) * scale, a.dtype)
        )
        return stored(as_scalar(tens), out)
    if decimals == 0:
        return stored(unary("rint", a), out)
    return stored(unary("rint", a * scale) / scale if decimals > 0 else unary("rint", a / scale) * scale, out)


@implements(np.real)
def real(val: Any) -> Any:
    """Return the real part.

    Returns:
        Array of the shape of `val`, real.

    Derivative:
        The cotangent, in the real part.

    Example:
        >>> fnp.real(np.array([1.0 + 2.0j]))
        array([1.])
    """
    if isinstance(val, int | float | complex):
        return val.real
    val = as_value(val)
    return part(val, imaginary=False) if val.dtype.kind == "c" else val


@implements(np.imag)
def imag(val: Any) -> Any:
    """Return the imaginary part.

    Returns:
        Array of the shape of `val`, real; zeros for real numbers.

    Derivative:
        The cotangent, in the imaginary part; zero for real numbers.

    Example:
        >>> fnp.imag(np.array([1.0 + 2.0j]))
        array([2.])
    """
    if isinstance(val, int | float | complex):
        return val.imag
    val = as_value(val)
    return part(val, imaginary=True) if val.dtype.kind == "c" else zeros_beside(val)


@implements()
def set_imag(x: Tensor, value: Any) -> None:
    """Write the imaginary part of complex numbers.

    Raises:
        TypeError: the numbers are real.
    """
    if x.dtype.kind != "c":
        raise TypeError("array does not have imaginary part to set")
    setitem(imag(x), Ellipsis, value)


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """Return the angle of complex numbers, in radians or degrees.

    Returns:
        Array of the shape of `z`, of floats.

    Derivative:
        That of `arctan2(imag, real)`: zero at the origin, smooth across the cut. Of real numbers zero.

    Example:
        >>> fnp.angle(np.array([1.0 + 1.0j]), deg=True)
        array([45.])
    """
    z = as_value(z)
    if z.dtype.kind == "b":
        z = linear.convert(z, np.dtype(int))  # beside NumPy's imaginary part, which is the number 0
    y = bind("arctan2", imag(z) if z.dtype.kind == "c" else 0, real(z))
    return unary("degrees", y) if deg else y


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """Return `x` with NaN and infinities replaced by numbers; replaced elements have slope zero.

    Returns:
        Array of the shape and dtype of `x`; `copy=False` writes to it.

    Derivative:
        One for elements that stay, zero for those that are replaced.

    Example:
        >>> fg.grad(lambda x: fnp.nan_to_num(x).sum())(np.array([3.0, np.nan]))
        array([1., 0.])
    """
    x = as_value(x)
    if isinstance(x, np.ndarray | np.generic) and not holds_tensor((nan, posinf, neginf)):
        return np.nan_to_num(x, copy, nan, posinf, neginf)
    if not copy and isinstance(x, Tensor):
        setitem(x, Ellipsis, nan_to_num(x, True, nan, posinf, neginf))
        return x
    if x.dtype.kind == "c":
        parts = (nan_to_num(take(x), copy, nan, posinf, neginf) for take in (linear.real, linear.imag))
        return next(parts) + 1j * next(parts)
    if x.dtype.kind != "f":
        return as_scalar(recopied(x, "K")) if isinstance(x, Tensor) else x
    info = np.finfo(x.dtype)
    y = where(unary("isnan", x), nan, x)
    y = where(binary("equal", x, np.inf), info.max if posinf is None else posinf, y)
    y = where(binary("equal", x, -np.inf), info.min if neginf is None else neginf, y)
    if not np.can_cast(y.dtype, x.dtype, "same_kind"):
        raise TypeError(
            f"Cannot cast a replacement from {y.dtype} to {x.dtype} according to the rule 'same_kind'"
        )
    return as_scalar(unordered(linear.convert(y, x.dtype), x))


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return whether elements are equal within tolerances.

    Returns:
        Truth values, of the shape to which both broadcast.

    Derivative:
        None: the results are truth values.

    Example:
        >>> fnp.isclose(np.array([1.0, 2.0]), np.array([1.0 + 1e-9, 2.1]))
        array([ True, False])
    """
    x, y = together(a, b)
    if not any(isinstance(v, Tensor) for v in (x, y, rtol, atol)):
        return np.isclose(x, y, rtol, atol, equal_nan)
    if y.dtype.kind in "biu":
        y = linear.convert(y, np.dtype(float))
    with np.errstate(invalid="ignore"):
        near = bind("less_equal", unary("absolute", x - y), atol + rtol * unary("absolute", y))
    close = bind("logical_or", bind("logical_and", near, unary("isfinite", y)), bind("equal", x, y))
    if equal_nan:
        close = bind("logical_or", close, bind("logical_and", unary("isnan", x), unary("isnan", y)))
    return close


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements are equal within tolerances.

    Returns:
        One truth value.

    Raises:
        TypeError: values are not known, under `vmap` or while staged.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.allclose(np.array([1.0]), np.array([1.0 + 1e-9]))
        True
    """
    x, y = (concrete(v, "allclose") for v in together(a, b))
    return bool(np.allclose(x, y, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether two arrays have the same shape and elements.

    Returns:
        One truth value.

    Raises:
        TypeError: values are not known, under `vmap` or while staged.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.array_equal(np.array([1, 2]), [1, 2])
        True
    """
    x, y = (concrete(v, "array_equal") for v in together(a1, a2))
    return bool(np.array_equal(x, y, equal_nan))


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype that NumPy's promotion gives.

    Returns:
        The dtype; of Tensors as of arrays. Python's numbers give way to arrays.

    Raises:
        TypeError: dtypes that nothing holds together.

    Derivative:
        None: the result is a dtype.

    Example:
        >>> fnp.result_type(np.float32(1), 2.0)
        dtype('float32')
    """
    return np.result_type(*(promoted_as(x) if isinstance(x, Tensor) else x for x in arrays_and_dtypes))


def iscomplexobj(x: Any) -> bool:
    """Return whether `x` has a complex dtype.

    Returns:
        One truth value; elements are not looked at, so it is known under `jit` and `vmap`.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.iscomplexobj(np.array([1j]))
        True
    """
    return bool(as_value(x).dtype.kind == "c")


implements(np.iscomplexobj)(iscomplexobj)


@implements(np.array2string)
def array2string(a: Any, *args: Any, **kw: Any) -> str:
    """Return the elements as text.

    Returns:
        Text; arguments as in NumPy.

    Raises:
        TypeError: values are not known, under `vmap` or while staged.

    Derivative:
        None: the result is text.

    Example:
        >>> fnp.array2string(np.array([1.0, 2.0]))
        '[1. 2.]'
    """
    return np.array2string(on_host(concrete(a, "array2string")), *args, **kw)


_POWERS = {
    2: PRIMITIVES["square"],
    1: PRIMITIVES["positive"],
    0.5: PRIMITIVES["sqrt"],
    -1: PRIMITIVES["reciprocal"],
}


def _power(x: Any, y: Any) -> Any:
    """Return `x ** y`, by multiplication where `y` is the number 2, by the square root where it is 0.5."""
    if x.__class__ is Tensor and (y.__class__ is int or y.__class__ is float):
        primitive = _POWERS.get(y)
        if primitive is not None:
            if x._value.dtype.kind in "fc":
                return apply_unary(primitive, x)
            if x._value.dtype.kind == "b" and y == 2 and y.__class__ is int and is_array(x):
                return apply_unary(primitive, x)  # as NumPy does, with a result of int8
    return binary("power", x, y)


declare_operator("power", "pow", _power)
