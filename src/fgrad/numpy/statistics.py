"""Order statistics and correlations: medians, quantiles and covariances, also of data with NaN left out."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fgrad.compat.numpy import NO_VALUE
from fgrad.core.aval import with_ones
from fgrad.core.dispatch import bind, unary
from fgrad.core.placement import near, placed
from fgrad.core.views import disordered, unordered
from fgrad.numpy.arrays import as_value, known, next_to, number_type, seen, together
from fgrad.numpy.cumulative import cumsum
from fgrad.numpy.diagonals import diag
from fgrad.numpy.indexing import along_axis, stop_gradient
from fgrad.numpy.joining import concatenate
from fgrad.numpy.moments import average, mean, weights_beside
from fgrad.numpy.products import dot
from fgrad.numpy.reductions import axes_of, given_to, sum
from fgrad.numpy.registry import as_array, as_scalar, extends, named, stored
from fgrad.numpy.rounding import clip
from fgrad.ops import linear
from fgrad.ops.linear import Axes

# ---- quantiles -----------------------------------------------------------------------------------


class _Method(NamedTuple):
    """How a quantile is found: `place(n, q)` counts from zero in the sorted sample.

    `weight(place, fraction)` is that of the element behind a place; None where a place is an integer already.
    """

    place: Callable[[Any, Any], Any]
    weight: Callable[[Any, Any], Any] | None = None


def _fraction(_: Any, fraction: Any) -> Any:
    """Interpolate linearly, so that the quantile is continuous."""
    return fraction


def _line(alpha: float, beta: float) -> _Method:
    # Hyndman & Fan (1996), Sample quantiles in statistical packages, equation (7)
    return _Method(lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1, _fraction)


def _whole(name: str) -> _Method:
    return _Method(lambda n, q: unary(name, (n - 1) * q))


def _step(index: Any, stays: Any) -> Any:
    """Return the place before `index` where it stays, else the one behind; never below zero."""
    before = unary("floor", index)
    return bind("maximum", bind("where", stays(index, before), before, before + 1), 0)


def _odd(index: Any, before: Any) -> Any:
    return bind("logical_and", bind("equal", index, before), bind("equal", bind("remainder", before, 2), 1))


def _middle(n: Any, q: Any) -> Any:
    place = (n - 1) * q
    return 0.5 * (unary("floor", place) + unary("ceil", place))


_METHODS = {
    "inverted_cdf": _Method(lambda n, q: _step(n * q - 1, functools.partial(bind, "equal"))),
    "averaged_inverted_cdf": _Method(
        lambda n, q: n * q - 1, lambda _, fraction: bind("where", bind("equal", fraction, 0), 0.5, 1.0)
    ),
    "closest_observation": _Method(lambda n, q: _step(n * q - 1 - 0.5, _odd)),
    "interpolated_inverted_cdf": _line(0, 1),
    "hazen": _line(0.5, 0.5),
    "weibull": _line(0, 0),
    "linear": _Method(lambda n, q: (n - 1) * q, _fraction),
    "median_unbiased": _line(1 / 3, 1 / 3),
    "normal_unbiased": _line(3 / 8, 3 / 8),
    "lower": _whole("floor"),
    "higher": _whole("ceil"),
    "midpoint": _Method(
        _middle, lambda place, _: bind("where", bind("equal", bind("remainder", place, 1), 0), 0.0, 0.5)
    ),
    "nearest": _whole("rint"),
}


def _places(x: Any) -> Any:
    return bind("convert", x, dtype=np.dtype(np.intp))


def _quantile(x: Any, q: Any, method: str, n: Any, *, weak: bool, propagate: bool) -> Any:
    """Return quantiles `q` (a vector) of the last axis of `x`, of whose elements the first `n` count."""
    rule = _METHODS[method]
    if isinstance(q, np.ndarray):
        q = placed(x, q)
    if isinstance(n, int):
        top: Any = n - 1
    else:
        n = bind("convert", n, dtype=q.dtype)
        top = bind("maximum", n - 1, 0)
    index = rule.place(n, q)
    if rule.weight is None or (method == "linear" and index.dtype.kind in "iu"):
        return along_axis(x, bind("rank", x, _places(index), propagate=propagate), -1)
    if weak and index.dtype.kind not in "fc":
        index = bind("convert", index, dtype=np.dtype(float))
    low, place = unary("floor", index), index
    if rule.weight is _fraction:
        # at a node the segment to the right counts, at the last node the one to the left, beyond it none
        index = bind(
            "where", bind("less", index, 0), 0, bind("where", bind("greater", index, top), top, index)
        )
        low = bind("minimum", unary("floor", index), top - 1)
    weight = bind("convert", rule.weight(index, index - low), dtype=index.dtype)
    low, high = (bind("maximum", bind("minimum", i, top), 0) for i in (low, low + 1))
    if weak and x.dtype.kind == "f":
        weight = bind("convert", weight, dtype=x.dtype)
    k = low.shape[-1]
    ranks = _places(bind("concatenate", low, high, axis=len(low.shape) - 1))
    found = along_axis(x, bind("rank", x, ranks, propagate=propagate), -1)
    before, behind = (bind("slice", found, index=(..., part)) for part in (slice(None, k), slice(k, None)))
    with np.errstate(invalid="ignore"):
        gap = behind - before
        ends = (
            behind - bind("multiply_no_nan", gap, 1 - weight),
            before + bind("multiply_no_nan", gap, weight),
        )
    y = bind("where", bind("greater_equal", weight, 0.5), *ends)
    if x.dtype.kind != "f" or (near(y) is np and known(y) is not None and np.isfinite(known(found)).all()):
        return y
    fixed = [stop_gradient(v) for v in (before, behind, weight, place, top)]
    return bind("where", _spoiled(*fixed), np.nan, y)


def _spoiled(before: Any, behind: Any, weight: Any, place: Any, top: Any) -> Any:
    """Return where NumPy's interpolation between two elements is NaN because one of them is infinite."""
    with np.errstate(invalid="ignore"):
        gap = behind - before
        within = bind(
            "where", bind("greater_equal", weight, 0.5), behind - gap * (1 - weight), before + gap * weight
        )
        first, last = before - before, behind - behind  # beyond the ends it interpolates with the end itself
    y = bind(
        "where", bind("greater_equal", place, top), last, bind("where", bind("less", place, 0), first, within)
    )
    return unary("isnan", y)


def _weighted_quantile(x: Any, q: Any, weights: Any, counts: Any) -> Any:
    """Return the quantiles `q` of the last axis of `x` by the inverse of the weighted distribution."""
    n = x.shape[-1]
    order = bind("argsort", x, axis=len(x.shape) - 1)
    heap = cumsum(along_axis(stop_gradient(weights), order, -1), -1, np.float64)
    total = bind("slice", heap, index=(..., slice(-1, None)))
    if counts is not None:
        total = bind("where", bind("equal", counts, 0), 1.0, total)
    with np.errstate(invalid="ignore", divide="ignore"):
        cdf = heap / total
    if seen(cdf, lambda v: np.isnan(v[..., -1])):
        raise ValueError("Weights included NaN, inf or were all zero.")
    if q.dtype.kind == "f":
        cdf = linear.convert(cdf, q.dtype)
    cdf = bind("where", bind("equal", cdf, 0), -1, cdf)  # elements without weight are no quantile
    lanes = x.shape[:-1]
    levels = linear.broadcast_to(stop_gradient(q), (*lanes, q.shape[0]))
    last: Any = n - 1 if counts is None else bind("maximum", counts - 1, 0)
    ranks = bind("minimum", bind("search", cdf, levels, side="left"), last)
    if counts is None and x.dtype.kind == "f":
        end = along_axis(x, bind("slice", order, index=(..., slice(-1, None))), -1)
        ranks = bind("where", unary("isnan", end), n - 1, ranks)
    return along_axis(x, along_axis(order, ranks, -1), -1)


def _lanes(x: Any, axes: Axes) -> Any:
    """Return `x` with `axes` made one and moved to the end."""
    rest = tuple(i for i in range(len(x.shape)) if i not in axes)
    moved = linear.transpose(x, (*rest, *sorted(axes))) if axes != (len(x.shape) - 1,) else x
    return linear.reshape(moved, (*(x.shape[i] for i in rest), math.prod(x.shape[i] for i in axes)))


def _kept(y: Any, shape: Any, axes: Axes, keepdims: Any, lead: int = 0) -> Any:
    """Return a reduction over `axes`, with these in length one if asked; `lead` axes stand before."""
    if not keepdims or keepdims is NO_VALUE:
        return y
    y = linear.reshape(y, (*y.shape[:lead], *with_ones(shape, axes)))
    return as_array(y) if not y.shape else y


def _check_quantiles(q: Any, message: str) -> None:
    if len(q.shape) > 2:
        raise ValueError("q must be a scalar or 1d")
    if seen(q, lambda v: ~((v >= 0) & (v <= 1))):
        raise ValueError(message)


def _check_weights(weights: Any, a: Any, axis: Any, method: str) -> Any:
    """Return the weights in the shape of `a`."""
    if method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    w = linear.broadcast_to(weights_beside(next_to(weights, a), a, axis), a.shape)
    if seen(w, lambda v: v < 0):
        raise ValueError("Weights must be non-negative.")
    return w


def _quantiles(
    a: Any,
    q: Any,
    axis: Any,
    out: Any,
    method: str,
    keepdims: Any,
    weights: Any,
    *,
    percent: bool,
    skip: bool,
) -> Any:
    a = next_to(a, q, weights)
    if a.dtype.kind == "c":
        raise TypeError("a must be an array of real numbers")
    weak = number_type(q) in {int, float}
    q = next_to(q, a)
    q = q / 100 if percent else q
    _check_quantiles(
        q, f"{'Percentiles' if percent else 'Quantiles'} must be in the range [0, {100 if percent else 1}]"
    )
    axes = axes_of(axis, len(a.shape))
    if method not in _METHODS:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {_METHODS.keys()}")
    w = None if weights is None else _lanes(_check_weights(weights, a, axis, method), axes)
    x = _lanes(a, axes)
    if skip and a.size == 0:
        return mean(a, axis, out=out, keepdims=keepdims)
    if x.shape[-1] == 0 and not q.size:
        nothing = (*q.shape, *x.shape[:-1])
        return stored(
            _kept(
                near(x).zeros(nothing, np.result_type(x.dtype, q.dtype)),
                a.shape,
                axes,
                keepdims,
                len(q.shape),
            ),
            out,
        )
    if x.shape[-1] == 0:
        raise IndexError("quantiles of an empty array: the axes to be reduced have no elements")
    levels = linear.reshape(q, (q.size,))
    counts = None
    if skip and x.dtype.kind == "f":
        counts = _count_numbers(x)
    if w is not None:
        if counts is not None:
            w = bind("where", unary("isnan", x), 0, w)
        y = _weighted_quantile(x, levels, w, counts)
    else:
        n = x.shape[-1] if counts is None else counts
        y = _quantile(x, levels, method, n, weak=weak, propagate=not skip)
    k = len(y.shape) - 1
    y = linear.transpose(y, (k, *range(k)))
    y = linear.reshape(y, (*q.shape, *y.shape[1:]))
    y = as_scalar(y) if weights is None else as_array(y)
    y = _kept(y, a.shape, axes, keepdims, len(q.shape))
    return stored(disordered(y) if skip and q.shape else y, out)


def _count_numbers(x: Any) -> Any:
    """Return how many elements along the last axis are not NaN, None if all are not; warn where none is."""
    nan = unary("isnan", x)
    mask = known(nan)
    if mask is not None:
        if not mask.any():
            return None
        if mask.all(-1).any():
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=4)
    total = sum(bind("logical_not", nan), -1, keepdims=True)
    return bind("convert", total, dtype=np.dtype(np.intp))


@extends(np.quantile)
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: Any = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    """Return quantiles over axes: numbers below which the fraction `q` of the elements lies.

    Args:
        a: real array; a slice that holds NaN has the quantile NaN.
        q: fraction or fractions in [0, 1], of at most two axes.
        axis: axis or axes to reduce; None reduces all.
        out: Tensor or array for the result.
        overwrite_input: whether `a`, if it is an array, may be reordered.
        method: one of NumPy's, which are those of Hyndman & Fan and "lower", "higher", "midpoint", "nearest".
        keepdims: whether the reduced axes stay with length one.
        weights: of the elements, with the method "inverted_cdf".

    Returns:
        Array of the axes of `q`, then those that are left of `a`.

    Raises:
        ValueError: fractions outside of [0, 1]; an unknown method; weights of another shape.
        TypeError: `a` is complex.

    Derivative:
        In `a` that of the one or two elements in question, equal ones taken in the order in which they stand.
        In `q` the slope to the next element, at the last one that from the element before; zero where the
        quantile is a step function of `q` or constant beyond the ends. In the weights zero.

    Source:
        Hyndman & Fan (1996), The American Statistician 50, 361.

    Example:
        >>> fnp.quantile(np.array([3.0, 1.0, 2.0]), [0.25, 0.5])
        array([1.5, 2. ])
    """
    return _quantiles(a, q, axis, out, method, keepdims, weights, percent=False, skip=False)


def _like_quantile(
    theirs: Callable[..., Any], what: str, derivative: str, example: str
) -> Callable[..., Any]:
    """Return NumPy's function `theirs`, which takes what `quantile` takes."""
    name = theirs.__name__
    percent, skip = name.endswith("percentile"), name.startswith("nan")
    given, result = example.split(" -> ")

    @extends(theirs)
    @named(
        name,
        f"""Return {what}.

        Returns:
            Array of the shape of `q`, then of `a` without the axes; integers give float64.

        Raises:
            ValueError: `q` is not in [0, {100 if percent else 1}], or an unknown `method`.

        Derivative:
            That of {derivative}.

        Example:
            >>> fnp.{name}(np.array({given})
            np.float64({result})
        """,
    )
    def function(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: Any = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
    ) -> Any:
        return _quantiles(a, q, axis, out, method, keepdims, weights, percent=percent, skip=skip)

    return function


# fmt: off
percentile = _like_quantile(np.percentile,
    "percentiles over axes: what `quantile` returns for the fractions `q` / 100",
    "`quantile`, in `a` and `q`", "[3.0, 1.0, 2.0]), 25 -> 1.5")
nanquantile = _like_quantile(np.nanquantile,
    "the quantiles over axes of the elements that are not NaN; see `quantile`",
    "`quantile`. The gradient of an element that is NaN is zero, unless it is the result because\n"
    "            its whole slice is NaN", "[3.0, np.nan, 1.0]), 0.5 -> 2.0")
nanpercentile = _like_quantile(np.nanpercentile,
    "the percentiles over axes of the elements that are not NaN; see `nanquantile`",
    "`nanquantile`", "[3.0, np.nan, 1.0]), 50 -> 2.0")
# fmt: on


@extends(np.median)
def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Any:
    """Return the median over axes: the middle element, or the mean of the two in the middle.

    Args:
        a: array; a slice that holds NaN has the median NaN.
        axis: axis or axes to reduce; None reduces all.
        out: Tensor or array for the result.
        overwrite_input: whether `a`, if it is an array, may be reordered.
        keepdims: whether the reduced axes stay with length one.

    Returns:
        Array of the dtype of the mean of `a`.

    Derivative:
        That of the mean of the one or two middle elements; equal ones are taken in the order in which they
        stand.

    Example:
        >>> fnp.median(np.array([3.0, 1.0, 2.0]))
        np.float64(2.0)
        >>> fg.grad(fnp.median)(np.array([3.0, 1.0, 2.0, 9.0]))
        array([0.5, 0. , 0.5, 0. ])
    """
    a = as_value(a)
    if out is not None and a.dtype.kind in "fc":
        a = linear.convert(a, np.promote_types(a.dtype, out.dtype))
    axes = axes_of(axis, len(a.shape))
    x = _lanes(a, axes)
    n = x.shape[-1]
    y = mean(x, -1) if n == 0 else _middle_mean(x, np.unique([(n - 1) // 2, n // 2]), propagate=True)
    return given_to(unordered(_kept(y, a.shape, axes, keepdims), a), out)


def _middle_mean(x: Any, ranks: Any, *, propagate: bool) -> Any:
    return mean(along_axis(x, bind("rank", x, ranks, propagate=propagate), -1), -1)


@extends(np.nanmedian)
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Any:
    """Return the median over axes of the elements that are not NaN; see `median`.

    The gradient of an element that is NaN is zero, unless it is the result because its whole slice is NaN.

    Returns:
        Array of the shape of `a` without the axes; integers give float64.

    Derivative:
        That of `median`, zero for NaN.

    Example:
        >>> fnp.nanmedian(np.array([3.0, np.nan, 1.0]))
        np.float64(2.0)
    """
    a = as_value(a)
    axes = axes_of(axis, len(a.shape))
    x = _lanes(a, axes)
    counts = _count_numbers(x) if a.size and a.dtype.kind in "fc" else None
    if counts is None:
        return median(a, axis, out, keepdims=keepdims)
    ends = bind("maximum", counts - 1, 0) // 2, bind("minimum", counts // 2, x.shape[-1] - 1)
    y = _middle_mean(x, bind("concatenate", *ends, axis=len(x.shape) - 1), propagate=False)
    return stored(unordered(_kept(y, a.shape, axes, keepdims), a), out)


# ---- correlations --------------------------------------------------------------------------------


def _sample_weights(w: Any, n: int, name: str) -> Any:
    if w.dtype.kind == "c":
        raise TypeError(f"{name} must be {'integer' if name == 'fweights' else 'real'}, not {w.dtype}")
    w = linear.convert(w, np.dtype(float))
    if len(w.shape) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if w.shape[0] != n:
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if seen(w, lambda v: v < 0):
        raise ValueError(f"{name} cannot be negative")
    if name == "fweights" and seen(w, lambda v: v != np.rint(v)):
        raise TypeError("fweights must be integer")
    return w


def _variables(x: Any, dtype: Any, rowvar: bool, name: str) -> Any:
    if len(x.shape) > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    rows = linear.convert(x if len(x.shape) == 2 else linear.reshape(x, (1, x.size)), dtype)
    return rows if rowvar or len(x.shape) < 2 or (name == "y" and x.shape[0] == 1) else transposed(rows)


def transposed(x: Any) -> Any:
    """Return the transpose of a matrix."""
    return linear.transpose(x, (1, 0))


@extends(np.cov)
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """Return the covariance matrix of variables.

    Args:
        m: vector or matrix, real or complex; each row is a variable, each column an observation.
        y: more variables in the same form.
        rowvar: False where each column is a variable.
        bias: whether the sum is divided by the number of observations n instead of n - 1.
        ddof: what is subtracted from n, instead of what `bias` says.
        fweights: how often each observation counts, integers.
        aweights: the weight of each observation.
        dtype: dtype of the result; None: at least double precision.

    Returns:
        Array (k, k) of covariances of k variables; of a single variable its variance without axes.

    Raises:
        ValueError: more than two axes; a `ddof` that is no integer; negative weights.
        TypeError: `fweights` that are no integers.
        RuntimeError: weights that are no vector or not one per observation.

    Derivative:
        In the variables and in `aweights`, to every order.

    Example:
        >>> fnp.cov(np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]]))
        array([[1. , 0.5],
               [0.5, 1. ]])
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    given = iter(together(*(x for x in (m, y, fweights, aweights) if x is not None)))
    m, y, fweights, aweights = (x if x is None else next(given) for x in (m, y, fweights, aweights))
    parts = [p for p in (m, y) if p is not None]
    kind = np.result_type(*(p.dtype for p in parts), np.float64) if dtype is None else np.dtype(dtype)
    if kind.kind not in "fc":
        raise TypeError(
            f"a covariance of dtype {kind} cannot subtract the means: cannot cast from float64 to {kind}"
        )
    x = _variables(parts[0], kind, rowvar, "m")
    if x.shape[0] == 0:
        return linear.convert(linear.reshape(x, (0, 0)), np.dtype(float))
    if y is not None:
        x = concatenate([x, _variables(parts[1], kind, rowvar, "y")])
    ddof = int(not bias) if ddof is None else int(ddof)
    n = x.shape[1]
    w = None if fweights is None else _sample_weights(fweights, n, "fweights")
    if aweights is not None:
        aweights = _sample_weights(aweights, n, "aweights")
        w = aweights if w is None else w * aweights
    if w is None:
        center = mean(x, 1, keepdims=True)
        fact: Any = n - ddof
    else:
        center, total = average(x, 1, w, returned=True, keepdims=True)
        fact = bind("slice", total, index=(0, 0))
        fact = linear.real(fact) if fact.dtype.kind == "c" else fact
        if ddof != 0:
            fact = fact - (ddof if aweights is None else ddof * sum(w * aweights) / fact)
    if seen(fact, lambda v: v <= 0):
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2)
        fact = 0.0
    x = x - center
    other = transposed(x if w is None else x * w)
    if other.dtype.kind == "c":
        other = unary("conjugate", other)
    c = dot(x, other)
    with np.errstate(divide="ignore", invalid="ignore"):
        c = c * linear.convert(as_value(bind("divide", 1, fact)), c.dtype)
    return as_array(linear.reshape(c, tuple(k for k in c.shape if k != 1)))


@extends(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """Return the matrix of Pearson's correlation coefficients of variables.

    Args:
        x: vector or matrix; each row is a variable, each column an observation.
        y: more variables in the same form.
        rowvar: False where each column is a variable.
        dtype: dtype of the result; None: at least double precision.

    Returns:
        Array (k, k) of correlations of k variables, in [-1, 1]; of a single variable 1.

    Derivative:
        To every order.

    Example:
        >>> fnp.corrcoef(np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]]))
        array([[1. , 0.5],
               [0.5, 1. ]])
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return c / c
    spread = diag(c)
    spread = unary("sqrt", linear.real(spread) if spread.dtype.kind == "c" else spread)
    c = c / linear.reshape(spread, (spread.size, 1)) / spread
    if c.dtype.kind != "c":
        return clip(c, -1, 1)
    return clip(linear.real(c), -1, 1) + 1j * clip(linear.imag(c), -1, 1)
