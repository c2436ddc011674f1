"""Reductions and scans over axes."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from fgrad.core.primitive import NUMPY, ROWS
from fgrad.core.tensor import Tensor, apply_linear, bind, unary
from fgrad.core.trace import Box
from fgrad.numpy.arrays import alike, as_value
from fgrad.numpy.indexing import take_along_axis
from fgrad.numpy.registry import implements, stored
from fgrad.numpy.shapes import broadcast_to, concatenate
from fgrad.ops import linear

_NOTHING: Any = np._NoValue


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return `axis` (None: all) as a tuple of places.

    Raises:
        AxisError: an axis does not exist.
    """
    if axis is None:
        return tuple(range(ndim))
    if axis.__class__ is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    return normalize_axis_tuple(axis, ndim)


def _axes_of_monoid(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return what `axes_of` does; but a single element may be reduced over an axis that it does not have."""
    return () if ndim == 0 and isinstance(axis, int) and axis in {0, -1} else axes_of(axis, ndim)


def _prepared(x: Any, dtype: Any, where: Any, neutral: Any) -> Any:
    x = as_value(x)
    if dtype is not None:
        x = linear.convert(x, np.dtype(dtype))
    if where is not True:
        x = bind("where", where, x, linear.convert(as_value(neutral), x.dtype))
    return x


def _finished(y: Any, x: Any, axes: tuple[int, ...], keepdims: Any, out: Any) -> Any:
    if keepdims and keepdims is not _NOTHING:
        y = linear.reshape(y, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))
    return stored(y, out)


@implements(np.sum)
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = _NOTHING,
    where: Any = True,
) -> Any:
    """Return the sum over axes."""
    if a.__class__ is not Tensor:
        a = as_value(a)
    as_it_is = dtype is None and where is True
    if as_it_is and axis is None and out is None and not keepdims and initial is _NOTHING:
        return apply_linear(ROWS["sum"], a, {"axes": tuple(range(a.ndim))})
    if not as_it_is:
        a = _prepared(a, dtype, where, 0)
    axes = _axes_of_monoid(axis, len(a.shape))
    y = bind("sum", a, axes=axes)
    if initial is not _NOTHING:
        y = y + initial
    return _finished(y, a, axes, keepdims, out)


@implements(np.prod)
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = _NOTHING,
    where: Any = True,
) -> Any:
    """Return the product over axes; the derivative is right where elements are zero."""
    a = _prepared(a, dtype, where, 1)
    axes = _axes_of_monoid(axis, len(a.shape))
    y = bind("prod", a, axes=axes)
    if initial is not _NOTHING:
        y = y * initial
    return _finished(y, a, axes, keepdims, out)


def _extremum(name: str, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    a = as_value(a)
    if where is not True:
        if initial is _NOTHING:
            raise ValueError(
                f"reduction operation '{name}' does not have an identity, "
                "so to use a where mask one has to specify 'initial'"
            )
        a = _prepared(a, None, where, initial)
    axes = _axes_of_monoid(axis, len(a.shape))
    if initial is not _NOTHING and (a.size == 0 and any(a.shape[i] == 0 for i in axes)):
        shape = tuple(n for i, n in enumerate(a.shape) if i not in axes)
        y = linear.broadcast_to(linear.convert(as_value(initial), a.dtype), shape)
        return _finished(alike([y, a])[0], a, axes, keepdims, out)
    if a.dtype.kind == "b":
        y = bind("convert", bind(name, bind("convert", a, dtype=np.dtype(np.int8)), axes=axes), dtype=a.dtype)
    else:
        y = bind(name, a, axes=axes)
    if initial is not _NOTHING:
        y = bind({"max": "maximum", "min": "minimum"}[name], y, initial)
    return _finished(y, a, axes, keepdims, out)


@implements(np.max, np.amax)
def max(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = _NOTHING,
    where: Any = True,
) -> Any:
    """Return the greatest element over axes; elements that tie share the gradient equally."""
    return _extremum("max", a, axis, out, keepdims, initial, where)


@implements(np.min, np.amin)
def min(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = _NOTHING,
    where: Any = True,
) -> Any:
    """Return the smallest element over axes; elements that tie share the gradient equally."""
    return _extremum("min", a, axis, out, keepdims, initial, where)


amax, amin = max, min


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """Return the greatest minus the smallest element over axes."""
    return stored(max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims), out)


def _inexact(a: Any, dtype: Any) -> Any:
    a = as_value(a)
    if dtype is not None:
        return linear.convert(a, np.dtype(dtype))
    return a if a.dtype.kind in "fc" else linear.convert(a, np.dtype(float))


def _count(a: Any, axes: tuple[int, ...], where: Any, keepdims: Any) -> Any:
    """Return the number of elements that count, as integer or as real array of the precision of `a`."""
    if where is True:
        n = 1
        for i in axes:
            n *= a.shape[i]
        return n
    mask = linear.convert(linear.broadcast_to(as_value(where), a.shape), np.empty(0, a.dtype).real.dtype)
    return sum(mask, axes, keepdims=keepdims)


@implements(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """Return the arithmetic mean over axes."""
    a = _inexact(a, dtype)
    axes = axes_of(axis, len(a.shape))
    if where is True and a.size:
        y = bind("mean", a, axes=axes)
        return y if keepdims is False and out is None else _finished(y, a, axes, keepdims, out)
    total = sum(a, axes, keepdims=keepdims, where=where)
    n = _count(a, axes, where, keepdims)
    with np.errstate(invalid="ignore"):
        return stored(total / n, out)


@implements(np.var)
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = _NOTHING,
    correction: Any = _NOTHING,
) -> Any:
    """Return the variance over axes: the mean squared distance from the mean, with divisor n - ddof."""
    a = _inexact(a, dtype)
    axes = axes_of(axis, len(a.shape))
    ddof = ddof if correction is _NOTHING else correction
    center = _mean(a, axes, keepdims=True, where=where) if mean is _NOTHING else mean
    gap = a - center
    squares = abs2(gap)
    n = _count(a, axes, where, keepdims) - ddof
    with np.errstate(invalid="ignore", divide="ignore"):
        n = bind("maximum", n, 0) if hasattr(n, "dtype") else builtins.max(n, 0)
        return stored(sum(squares, axes, keepdims=keepdims, where=where) / n, out)


_mean = mean


def abs2(x: Any) -> Any:
    """Return the squared absolute value, real also where `x` is complex."""
    if x.dtype.kind == "c":
        re, im = linear.real(x), linear.imag(x)
        return re * re + im * im
    return unary("square", x)


@implements(np.std)
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    **kw: Any,
) -> Any:
    """Return the standard deviation over axes; its slope is zero where it is zero."""
    return stored(unary("root", var(a, axis, dtype, None, ddof, keepdims, **kw)), out)


@implements(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    """Return the weighted mean over axes."""
    a = _inexact(a, None)
    if weights is None:
        y = mean(a, axis, keepdims=keepdims)
        n = _count(a, axes_of(axis, len(a.shape)), True, keepdims)
        return (y, alike([np.full(y.shape, n, y.dtype)[()], y])[0]) if returned else y
    w = as_value(weights)
    w = linear.convert(w, np.result_type(a.dtype, w.dtype))
    if w.shape != a.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axes = axes_of(axis, len(a.shape))
        if w.shape != tuple(a.shape[i] for i in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
        w = linear.transpose(w, order)
        w = linear.reshape(w, tuple(a.shape[i] if i in axes else 1 for i in range(len(a.shape))))
    total = sum(linear.broadcast_to(w, a.shape), axis, keepdims=keepdims)
    value = total._value if isinstance(total, Tensor) else total
    if not isinstance(value, Box) and np.any(np.equal(value, 0)):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    y = sum(a * w, axis, keepdims=keepdims) / total
    return (y, alike([total, y])[0]) if returned else y


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the sums of the elements up to each place along an axis; None flattens first."""
    return _scan("cumsum", a, axis, dtype, out)


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the products of the elements up to each place along an axis; right where elements are zero."""
    return _scan("cumprod", a, axis, dtype, out)


def _scan(name: str, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    a = as_value(a)
    if dtype is not None:
        a = linear.convert(a, np.dtype(dtype))
    a, place = _along(a, axis)
    return stored(bind(name, a, axis=place), out)


def _along(a: Any, axis: Any) -> tuple[Any, int]:
    """Return `a`, flattened if `axis` is None or if there is none, and the place of the axis."""
    if axis is None or not a.shape:
        a = linear.reshape(a, (a.size,))
    return a, 0 if axis is None else normalize_axis_index(axis, len(a.shape))


def logsumexp(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the logarithm of the summed exponentials over axes, without overflow.

    out = log sum_i exp(a_i)

    Args:
        a: real array; integers promote to float64.
        axis: axis or axes to reduce; None reduces all.
        keepdims: whether the reduced axes stay with length one.

    Returns:
        Array of the float dtype of `a`.

    Derivative:
        softmax(a); zero by convention where every element is -inf.

    Source:
        Blanchard, Higham & Higham (2021), IMA J. Numer. Anal.

    Example:
        >>> float(logsumexp([0.0, 0.0]))
        0.6931471805599453
    """
    a = _inexact(a, None)
    axes = axes_of(axis, len(a.shape))
    return _finished(bind("logsumexp", a, axes=axes), a, axes, keepdims, None)


@implements(np.all)
def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """Return whether every element is nonzero."""
    a = _prepared(bind("not_equal", as_value(a), 0), None, where, True)
    return _extremum("min", a, axis, out, keepdims, True, True)


@implements(np.any)
def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """Return whether some element is nonzero."""
    a = _prepared(bind("not_equal", as_value(a), 0), None, where, False)
    return _extremum("max", a, axis, out, keepdims, False, True)


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Return the number of nonzero elements."""
    return sum(bind("not_equal", as_value(a), 0), axis, keepdims=keepdims)


def _arg(name: str, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    a = as_value(a)
    line, place = _along(a, axis)
    y = bind(name, line, axis=place)
    if keepdims and keepdims is not _NOTHING:
        y = linear.reshape(y, tuple(1 if axis is None or i == place else m for i, m in enumerate(a.shape)))
    return stored(y, out)


@implements(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """Return the place of the first greatest element."""
    return _arg("argmax", a, axis, out, keepdims)


@implements(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """Return the place of the first smallest element."""
    return _arg("argmin", a, axis, out, keepdims)


@implements(np.argsort)
def argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Return the places that sort `a` along an axis (stably); None flattens first."""
    a, place = _along(as_value(a), axis)
    return bind("argsort", a, axis=place)


@implements(np.sort)
def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Return `a` sorted along an axis; the gradient goes back to where each element came from."""
    a = as_value(a)
    if axis is None:
        a, axis = linear.reshape(a, (a.size,)), 0
    if not isinstance(a, Tensor):
        return np.sort(a, axis)
    return take_along_axis(a, argsort(a, axis), axis)


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _NOTHING, append: Any = _NOTHING) -> Any:
    """Return the n-th differences of neighbours along an axis, to which elements may be joined first."""
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    a = as_value(a)
    if not a.shape:
        raise ValueError("diff requires input that is at least one dimensional")
    place = normalize_axis_index(axis, len(a.shape))
    one = (*a.shape[:place], 1, *a.shape[place + 1 :])
    parts = [as_value(x) for x in (prepend, a, append) if x is not _NOTHING]
    if len(parts) > 1:
        a = concatenate([x if x.shape else broadcast_to(x, one) for x in parts], place)
    lead = (slice(None),) * place
    for _ in range(n):
        after, before = (bind("slice", a, index=(*lead, s)) for s in (slice(1, None), slice(None, -1)))
        a = bind("not_equal", after, before) if a.dtype.kind == "b" else after - before
    return a


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return a vector norm, or the Frobenius, 1 or infinity norm of matrices.

    Derivative:
        zero where the norm is zero.

    Raises:
        ValueError: an order that is not supported (of matrices: 2, -2 and nuclear need singular values).
    """
    x = _inexact(x, None)
    n = len(x.shape)
    axes = axes_of(axis, n)
    if axis is None and (ord is None or (n == 2 and ord in {"fro", "f"})):
        ord = 2
    elif len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    elif len(axes) != 1:
        raise ValueError("Improper number of dimensions to norm.")
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")  # noqa: TRY004 -- NumPy's error
    size = unary("absolute", x)
    if ord is None or ord == 2:
        y = unary("root", bind("sum", abs2(x), axes=axes))
    elif ord == np.inf:
        y = bind("max", size, axes=axes)
    elif ord == -np.inf:
        y = bind("min", size, axes=axes)
    elif ord == 0:
        y = bind("convert", bind("sum", bind("not_equal", x, 0), axes=axes), dtype=size.dtype)
    elif ord == 1:
        y = bind("sum", size, axes=axes)
    else:
        total = bind("sum", bind("power", size, ord), axes=axes)
        zero = bind("equal", total, 0)
        y = bind("where", zero, 0, bind("power", bind("where", zero, 1, total), 1 / ord))
    return _finished(y, x, axes, keepdims, None)


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if ord in {None, "fro", "f"}:
        y = unary("root", bind("sum", abs2(x), axes=axes))
    elif ord in {1, -1, np.inf, -np.inf}:
        rows, columns = axes
        first = rows if ord in {1, -1} else columns
        second = columns if ord in {1, -1} else rows
        totals = bind("sum", unary("absolute", x), axes=(first,))
        y = bind("max" if ord > 0 else "min", totals, axes=(second - (second > first),))
    elif not isinstance(x, Tensor):
        return np.linalg.norm(x, ord, axes, keepdims)
    else:
        raise ValueError(
            f"norm: the order {ord!r} of matrices has no rule for Tensors yet; use None, 'fro', 1 or inf"
        )
    return _finished(y, x, axes, keepdims, None)


def _along_first_axis(f: Any) -> Any:
    """Return `f` as method of a ufunc, which takes the first axis where it is told none."""
    return lambda a, axis=0, **kw: f(a, axis, **kw)


NUMPY.update(
    {
        (ufunc, method): _along_first_axis(f)
        for ufunc, method, f in (
            (np.add, "reduce", sum),
            (np.multiply, "reduce", prod),
            (np.maximum, "reduce", max),
            (np.minimum, "reduce", min),
            (np.logical_and, "reduce", all),
            (np.logical_or, "reduce", any),
            (np.add, "accumulate", cumsum),
            (np.multiply, "accumulate", cumprod),
        )
    }
)
