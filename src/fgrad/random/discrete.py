"""Discrete distributions: their samples jump, so asking for a derivative in their parameters raises.

With a Generator the samples are those that NumPy's method of the same name draws; `bernoulli` and
`categorical` are JAX's names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.core.dispatch import bind
from fgrad.core.tensor import Tensor
from fgrad.numpy.arrays import as_value, next_to
from fgrad.numpy.indexing import setitem, take
from fgrad.ops import functions
from fgrad.ops.linear import convert
from fgrad.random.keys import lengths
from fgrad.random.sources import closed, demand, drawn, given, inner, size_of

DOUBLE, PLACE = np.dtype(np.float64), np.dtype(np.int64)


def _fixed(x: Any, name: str, *others: Any) -> Any:
    """Return a parameter of a discrete distribution, which no derivative may pass.

    Raises:
        TypeError: it is not real, or a derivative with respect to it is asked for.
    """
    x = next_to(x, *others) if isinstance(x, list | tuple) else as_value(x)
    if x.dtype.kind not in "fiub":
        raise TypeError(f"{name} is real, not {x.dtype}")
    return bind("discrete", x) if isinstance(x, Tensor) else x


def bernoulli(source: Any, p: Any = 0.5, size: Any = None) -> Any:
    """Return booleans that are true with probability `p`.

    Args:
        source: Generator or key.
        p: probability, from 0 to 1.
        size: shape of the result; None is that to which the parameters broadcast.

    Returns:
        Truth values of shape `size`; a Tensor if an argument is one, else NumPy's array or scalar.

    Raises:
        TypeError: a derivative with respect to `p` is asked for; the message names what to do instead.
        ValueError: `p` is not a probability.

    Derivative:
        None: a sample is a step function of the parameters, so these are refused where they are
        differentiated.

    Example:
        >>> fg.random.bernoulli(fg.random.key(0), 0.5, (2, 3)).dtype
        dtype('bool')
    """
    p = convert(_fixed(p, "p"), DOUBLE)
    demand("p", p)
    demand("1 - p", 1.0 - p)
    return given(functions.less(closed(source, size_of(size, p), DOUBLE, p), p), p)


def categorical(source: Any, logits: Any, axis: int = -1, size: Any = None) -> Any:
    """Return indices along an axis, each with a probability proportional to the exponential of its logit.

    Args:
        source: Generator or key.
        logits: logarithms of probabilities, up to a constant; -inf where an index is impossible.
        axis: the axis of the indices.
        size: shape of the result, to which the other axes of `logits` broadcast; None is theirs.

    Returns:
        Array of int64.

    Raises:
        TypeError: a derivative with respect to `logits` is asked for; the message names what to do instead.

    Derivative:
        None: the results are integers.

    Source:
        The Gumbel-max trick: Gumbel (1954); Maddison, Tarlow & Minka (2014), A* sampling.

    Example:
        >>> fg.random.categorical(fg.random.key(0), np.zeros((5, 3))).shape
        (5,)
    """
    logits = convert(_fixed(logits, "logits"), DOUBLE)
    place = normalize_axis_index(axis, len(logits.shape))
    rest = (*logits.shape[:place], *logits.shape[place + 1 :])
    shape = rest if size is None else lengths(size)
    if np.broadcast_shapes(rest, shape) != shape:
        raise ValueError(
            f"logits of shape {tuple(logits.shape)} without axis {axis} do not broadcast to {shape}"
        )
    place += len(shape) - len(rest)
    full = (*shape[:place], logits.shape[axis], *shape[place:])
    noise = -functions.log(-functions.log(inner(source, full, DOUBLE, logits)))
    return given(convert(bind("argmax", logits + noise, axis=place), PLACE), logits)


def integers(
    source: Any, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
) -> Any:
    """Return integers of [low, high), or of [low, high] with `endpoint`; without `high` of [0, low).

    Args:
        source: Generator or key.
        low: the least integer; without `high`, 0 is, and this the end.
        high: the end.
        size: shape of the result; None is that to which the parameters broadcast.
        dtype: integer dtype of the samples.
        endpoint: whether the end may be drawn.

    Returns:
        Integers of `dtype` and of shape `size`; a Tensor if an argument is one, else NumPy's array or scalar.

    Raises:
        ValueError: the interval is empty, or does not fit into `dtype`.

    Derivative:
        None: the results are integers.

    Example:
        >>> x = fg.random.integers(fg.random.key(0), 0, 6, (100,))
        >>> bool(((x >= 0) & (x < 6)).all())
        True
    """
    low, high = (0, low) if high is None else (low, high)
    if isinstance(high, int) and high == 2**64 and not endpoint:  # the end of uint64, which is in no dtype
        high, endpoint = np.uint64(high - 1), True
    low, high = _fixed(low, "low", high), _fixed(high, "high", low)
    shape = size_of(size, low, high)
    kind = np.dtype(dtype)
    return drawn(
        source,
        "integers",
        {"low": low, "high": high},
        shape,
        kind,
        size=shape,
        dtype=kind.name,
        endpoint=bool(endpoint),
    )


def poisson(source: Any, lam: Any = 1.0, size: Any = None) -> Any:
    """Return samples of the Poisson distribution with mean `lam`.

    Args:
        source: Generator or key.
        lam: mean, not negative.
        size: shape of the result; None is that to which the parameters broadcast.

    Returns:
        int64 of shape `size`; a Tensor if an argument is one, else NumPy's array or scalar.

    Raises:
        TypeError: a derivative with respect to `lam` is asked for; the message names what to do instead.
        ValueError: `lam` is negative or too large.

    Derivative:
        None: a sample is a step function of the parameters, so these are refused where they are
        differentiated.

    Example:
        >>> fg.random.poisson(fg.random.key(0), 3.0, (2, 3)).shape
        (2, 3)
    """
    lam = _fixed(lam, "lam")
    shape = size_of(size, lam)
    return drawn(source, "poisson", {"lam": lam}, shape, PLACE, size=shape)


def binomial(source: Any, n: Any, p: Any, size: Any = None) -> Any:
    """Return the numbers of successes in `n` trials that each succeed with probability `p`.

    Args:
        source: Generator or key.
        n: how many trials, not negative.
        p: probability of a success, from 0 to 1.
        size: shape of the result; None is that to which the parameters broadcast.

    Returns:
        int64 of shape `size`; a Tensor if an argument is one, else NumPy's array or scalar.

    Raises:
        TypeError: a derivative with respect to `p` is asked for; the message names what to do instead.
        ValueError: `n` is negative, or `p` is not a probability.

    Derivative:
        None: a sample is a step function of the parameters, so these are refused where they are
        differentiated.

    Example:
        >>> fg.random.binomial(fg.random.key(0), 10, 0.5, (2, 3)).shape
        (2, 3)
    """
    n, p = _fixed(n, "n", p), _fixed(p, "p", n)
    shape = size_of(size, n, p)
    return drawn(source, "binomial", {"n": n, "p": p}, shape, PLACE, size=shape)


def permutation(source: Any, x: Any, axis: int = 0) -> Any:
    """Return the integers below `x` in random order, or the slices of an array along an axis.

    Args:
        source: Generator or key.
        x: how many integers, or an array or Tensor.
        axis: along which slices change places.

    Returns:
        int64 (x,), or an array of the shape and dtype of `x`; a Tensor if `x` is one.

    Derivative:
        Each slice of the array has the gradient of where it went.

    Example:
        >>> sorted(fg.random.permutation(fg.random.key(0), 4).tolist())
        [0, 1, 2, 3]
    """
    if isinstance(x, int | np.integer):
        return drawn(source, "permutation", {}, (int(x),), PLACE, x=int(x))
    x = as_value(x)
    place = normalize_axis_index(axis, len(x.shape))
    n = x.shape[place]
    return take(x, drawn(source, "permutation", {}, (n,), PLACE, x=n), place)


def shuffle(source: Any, x: Any, axis: int = 0) -> None:
    """Bring the slices of an array or Tensor along an axis into random order, in place.

    Args:
        source: Generator or key.
        x: array or Tensor, which is written to.
        axis: along which slices change places.

    Raises:
        TypeError: `x` is not an array or Tensor.

    Derivative:
        Each slice has the gradient of where it went.

    Example:
        >>> x = fg.tensor([1.0, 2.0, 3.0])
        >>> fg.random.shuffle(fg.random.key(0), x)
        >>> sorted(x.tolist())
        [1.0, 2.0, 3.0]
    """
    if not isinstance(x, Tensor | np.ndarray):
        raise TypeError(
            f"shuffle works in place, on an array or Tensor, not on {type(x).__name__}; use permutation"
        )
    new = permutation(source, x, axis)
    if isinstance(x, Tensor):
        setitem(x, ..., new)
    elif isinstance(new, Tensor):
        raise TypeError("an array cannot be shuffled in place by a mapped or traced key; use permutation")
    else:
        x[...] = new


def choice(
    source: Any,
    a: Any,
    size: Any = None,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    shuffle: bool = True,
) -> Any:
    """Return elements of `a`, or integers below it, drawn with or without replacement.

    Args:
        source: Generator or key.
        a: array, or the number of integers.
        size: shape that replaces the axis.
        replace: whether an element may be drawn again.
        p: probabilities of the elements; None: all equal.
        axis: axis of `a` along which slices are drawn.
        shuffle: whether those drawn without replacement are in random order.

    Returns:
        Elements of the dtype of `a`, or int64 below it; a Tensor if `a` is one.

    Raises:
        TypeError: a derivative with respect to `p` is asked for; the message names what to do instead.
        ValueError: probabilities that do not sum to one, or too many elements without replacement.

    Derivative:
        Each element of `a` has the gradients of where it went.

    Example:
        >>> sorted(fg.random.choice(fg.random.key(0), np.array([1, 2, 3]), 3, replace=False).tolist())
        [1, 2, 3]
    """
    counts = isinstance(a, int | np.integer)
    array = None if counts else as_value(a)
    place = 0 if array is None else normalize_axis_index(axis, len(array.shape))
    n = int(a) if array is None else array.shape[place]
    operands = {} if p is None else {"p": convert(_fixed(p, "p"), DOUBLE)}
    shape = lengths(size)
    found = drawn(source, "choice", operands, shape, PLACE, a=n, size=shape, replace=replace, shuffle=shuffle)
    return found if array is None else take(array, found, place)
