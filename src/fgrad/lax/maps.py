"""`map` and `associative_scan`: functions of every element along an axis."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from fgrad import tree
from fgrad.core.aval import with_dtype
from fgrad.lax.scans import common_length, scan
from fgrad.ops import functions
from fgrad.ops.linear import reshape
from fgrad.transforms.calling import own_leaf
from fgrad.transforms.vmap import vmap

Fun = Callable[..., Any]


def map(f: Fun, xs: Any, *, batch_size: int | None = None) -> Any:
    """Return the stacked results of `f` of each element along the first axis of `xs`, one after the other.

    Args:
        f: takes one element, and returns a pytree.
        xs: pytree of arrays of one length.
        batch_size: how many elements are computed at once, by `vmap`; None: one.

    Returns:
        What `f` returns, each leaf with a first axis for the elements.

    Raises:
        ValueError: lengths differ, or `batch_size` is not positive.

    Derivative:
        That of the loop, of every order, by reverse and forward mode.

    Example:
        >>> map(lambda x: x * x, np.array([1.0, 2.0, 3.0]), batch_size=2)
        array([1., 4., 9.])
    """
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    if batch_size < 1:
        raise ValueError(f"batch_size must be positive, not {batch_size}")
    leaves, structure = tree.flatten(xs)
    leaves = [with_dtype(x) for x in leaves]
    n = common_length(leaves, None)
    full = n // batch_size
    mapped = vmap(f)
    parts = []
    if full:
        shaped = [reshape(x[: full * batch_size], (full, batch_size, *x.shape[1:])) for x in leaves]
        ys = scan(lambda _, x: ((), mapped(x)), (), tree.unflatten(structure, shaped))[1]
        parts.append(tree.map(lambda y: reshape(y, (full * batch_size, *y.shape[2:])), ys))
    if n % batch_size or not full:
        parts.append(mapped(tree.unflatten(structure, [x[full * batch_size :] for x in leaves])))
    return parts[0] if len(parts) == 1 else tree.map(lambda *ys: functions.concatenate(*ys, axis=0), *parts)


def associative_scan(fn: Fun, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Return all partial results of an associative `fn` along `axis`, in a logarithmic number of calls.

    Args:
        fn: takes two pytrees like `elems`, of any length along `axis`, and combines them element by element.
        elems: pytree of arrays of one length along `axis`.
        reverse: whether to combine from the end.
        axis: the axis.

    Returns:
        Pytree like `elems`, of the same shapes; at each place the result of all elements up to there, or from
        there on with `reverse`.

    Raises:
        ValueError: lengths differ.

    Derivative:
        That of the calls of `fn`.

    Source:
        Blelloch (1990), Prefix sums and their applications.

    Example:
        >>> associative_scan(np.multiply, np.array([1.0, 2.0, 3.0, 4.0]))
        array([ 1.,  2.,  6., 24.])
    """
    leaves, structure = tree.flatten(elems)
    leaves = [with_dtype(x) for x in leaves]
    lengths = {x.shape[axis] for x in leaves}
    if len(lengths) != 1:
        raise ValueError(f"associative_scan needs one length along axis {axis}, not {sorted(lengths)}")

    def along(x: Any, part: slice) -> Any:
        return x[(*(slice(None),) * (axis % x.ndim), part)]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        return tree.leaves(fn(*(tree.unflatten(structure, builtins.map(own_leaf, x)) for x in (a, b))))

    def partial(xs: list[Any]) -> list[Any]:
        n = xs[0].shape[axis]
        if n < 2:
            return xs
        left, right = ([along(x, slice(k, n - n % 2, 2)) for x in xs] for k in (0, 1))
        odd = partial(combine(left, right))
        if n == 2:
            even = [along(x, slice(0, 1)) for x in xs]
        else:
            stop = None if n % 2 else -1
            rest = combine([along(x, slice(0, stop)) for x in odd], [along(x, slice(2, None, 2)) for x in xs])
            even = [
                functions.concatenate(along(x, slice(0, 1)), r, axis=axis % x.ndim)
                for x, r in zip(xs, rest, strict=True)
            ]
        return [_interleaved(e, o, axis % e.ndim) for e, o in zip(even, odd, strict=True)]

    backward = slice(None, None, -1)
    found = partial([along(x, backward) for x in leaves] if reverse else leaves)
    return tree.unflatten(structure, [along(x, backward) for x in found] if reverse else found)


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """Return the elements of two arrays in turns; `even` may have one more."""
    n = odd.shape[axis]
    index = (*(slice(None),) * axis, slice(0, n))
    both = [reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])) for x in (even[index], odd)]
    shape = even.shape
    turns = reshape(functions.concatenate(*both, axis=axis + 1), (*shape[:axis], 2 * n, *shape[axis + 1 :]))
    if shape[axis] == n:
        return turns
    return functions.concatenate(turns, even[(*(slice(None),) * axis, slice(n, None))], axis=axis)
