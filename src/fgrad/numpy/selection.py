"""Choosing among elements and arrays: by masks, conditions and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.core.dispatch import binary, bind, unary
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.views import unordered
from fgrad.numpy.arrays import (
    as_value,
    concrete,
    operands,
    promoted,
    recopied,
    together,
)
from fgrad.numpy.indexing import beside, setitem, take
from fgrad.numpy.registry import (
    as_array,
    as_scalar,
    holds_tensor,
    implements,
    stored,
)
from fgrad.numpy.rounding import clip
from fgrad.ops import linear


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
