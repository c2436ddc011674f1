"""Reductions and scans that are not linear: products, extrema and a linear recurrence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval, with_ones
from fgrad.core.dispatch import bind, refuse_complex
from fgrad.core.placement import near
from fgrad.core.primitive import (
    ALONG,
    KEEPS_C_ORDER,
    MEDIUM,
    PRIMITIVES,
    REDUCES,
    SYMMETRIC,
    TOTAL,
    WEIGHTS,
    Reduction,
    Rule,
    Written,
    by_argument,
    declare,
)
from fgrad.core.stored import Stored, are_axes, is_axis
from fgrad.ops.compiled import FLOATS, backend, late, launched, launches_rows
from fgrad.ops.linear import (
    Axes,
    apart_along_others,
    broadcast_to,
    in_full,
    reshape,
    reverse,
    scanned,
    shifted,
    sum_axes,
)


def reduced(x: Any, axes: Axes) -> Aval:
    """Return the aval of a reduction over `axes`."""
    return Aval(tuple(n for i, n in enumerate(x.shape) if i not in axes), x.dtype)


def _reduction(
    name: str,
    rule: Rule,
    how: Reduction | None = None,
    shape: Rule = reduced,
    *,
    run: Rule | None = None,
    verify: Rule | None = None,
) -> None:
    """Declare a reduction by its derivative and by what joins two elements, or by what computes it."""
    if run is None:
        assert how  # noqa: S101 -- one of the two
        run = _by_numpy(how.join)
    declare(
        name,
        run=run,
        vjp=by_argument(rule, exact=True, transpose=WEIGHTS),
        shape=lambda x, *, axes: shape(x, axes),
        batch=lambda _, x, *, axes: bind(name, x, axes=shifted(axes)),
        reduction=how,
        traits={TOTAL, REDUCES, ALONG},
        stored=Stored({"axes": are_axes}, verify=verify),
    )


def _by_numpy(join: str) -> Rule:
    reduce = getattr(np, join).reduce
    return lambda x, *, axes: reduce(x, axis=axes)


_ROWS = 512  # for each of which NumPy starts a loop; these take as long as a call of a kernel


def _extreme_of_rows(join: str, which: str) -> Rule:
    """Return what finds the extreme numbers of many short rows by a kernel, of all else as NumPy does."""
    slow = _by_numpy(join)

    def run(x: Any, *, axes: Axes) -> Any:
        if x.size < MEDIUM or x.__class__ is not np.ndarray or x.dtype not in FLOATS:
            return slow(x, axes=axes)
        kept = x.shape[: x.ndim - len(axes)]
        rows = math.prod(kept)
        if rows < _ROWS or axes != tuple(range(len(kept), x.ndim)) or not x.flags.c_contiguous:
            return slow(x, axes=axes)
        return backend("extremes").of_rows(x.reshape(rows, -1), which).reshape(kept)

    return run


def _has_elements(x: Aval, *, axes: Axes) -> bool:
    return 0 not in [x.shape[i] for i in axes]


def _extreme_shape(join: str) -> Rule:
    """Return the shape rule of a reduction that has no identity, which raises what NumPy does."""

    def shape(x: Any, axes: Axes) -> Aval:
        if not _has_elements(x, axes=axes):
            raise ValueError(f"zero-size array to reduction operation {join} which has no identity")
        return reduced(x, axes)

    return shape


def _extremum(ct: Any, out: Any, x: Any, *, axes: Axes) -> Any:
    """Share `ct` equally among the elements that attain the extremum."""
    if launches_rows(x, axes, ct, out):
        return launched(_extremum, ct, out, x, axes=axes)
    kept = with_ones(x.shape, axes)
    ties = bind("equal", x, reshape(out, kept))
    count = bind("maximum", sum_axes(ties, axes), 1)  # NaN ties with nothing
    share = ct / bind("convert", count, dtype=ct.dtype)
    return bind("where", ties, reshape(share, kept), 0)


def _prod(ct: Any, x: Any, *, axes: Axes) -> Any:
    kept = with_ones(x.shape, axes)
    return reshape(ct, kept) * bind("products_of_others", x, axes=axes)


def _by_rows(f: Callable[..., Any], axes: Axes, *xs: Any) -> Any:
    """Return a function of rows, the last axis, of what lies along `axes`."""
    shape = xs[0].shape
    last = tuple([i for i in range(len(shape)) if i not in axes])
    order = (*last, *axes)
    if order == tuple(range(len(shape))) and len(axes) == 1:
        return f(*xs)
    kept = (*[shape[i] for i in last], math.prod([shape[i] for i in axes]))
    found = f(*[reshape(bind("transpose", x, axes=order), kept) for x in xs])
    back = reshape(found, tuple([shape[i] for i in order]))
    return bind("transpose", back, axes=tuple(sorted(range(len(order)), key=order.__getitem__)))


def _others(x: Any) -> Any:
    """Give each element of a row the product of those before and of those behind, for zeros' sake."""
    # one may overflow beside a zero
    return bind("multiply_no_nan", _products_before(x, len(x.shape) - 1), _products_behind(x))


def _others_adjoint(ct: Any, x: Any) -> Any:
    """Pull back through `_others`, by a symmetric matrix: what both factors change, element by element."""
    axis = len(x.shape) - 1
    before, behind = _products_before(x, axis), _products_behind(x)
    # the product before the next element is that before this one times this one; likewise backwards
    change_before = _before(_recur(x, bind("multiply_no_nan", before, ct), axis), axis)
    factors, terms = reverse(x, axis), reverse(bind("multiply_no_nan", behind, ct), axis)
    change_behind = reverse(_before(_recur(factors, terms, axis), axis), axis)
    return bind("multiply_no_nan", change_before, behind) + bind("multiply_no_nan", before, change_behind)


def _products_behind(x: Any) -> Any:
    axis = len(x.shape) - 1
    return reverse(_products_before(reverse(x, axis), axis), axis)


def _products_before(x: Any, axis: int) -> Any:
    """Return at each place along `axis` the product of the elements before it."""
    found = scanned("products_before", axis, x)
    if found is not None:
        return found
    full = (slice(None),) * axis
    if x.shape[axis] == 0:
        return x
    if x.__class__ is np.ndarray:
        out = np.ones_like(x)
        np.multiply.accumulate(x[(*full, slice(None, -1))], axis, out=out[(*full, slice(1, None))])
        return out
    first = near(x).ones((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
    head = bind("slice", x, index=(*full, slice(None, -1)))
    return bind("concatenate", first, bind("cumprod", head, axis=axis), axis=axis)


def _recur(a: Any, b: Any, axis: int) -> Any:
    return bind("recur", a, b, axis=axis)


def _run_recur(a: Any, b: Any, *, axis: int) -> Any:
    """Return y with y_i = a_i y_(i-1) + b_i along `axis`, from y_(-1) = 0."""
    found = scanned("recurrence", axis, a, b, least=1)
    if found is not None:
        return found
    a, b = np.broadcast_arrays(np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0))
    return np.moveaxis(_recurrence(a, b), 0, axis)


_BLOCK, _WIDE = 64, 1024  # elements


def _recurrence(a: Any, b: Any) -> Any:
    """Return what `_run_recur` does, along the first axis: all blocks at once, then what they hand on."""
    n, lanes = len(b), b.shape[1:]
    y = near(b).empty(b.shape, np.result_type(a, b))
    done = 0
    blocks = n // _BLOCK
    if b.__class__ is not DeviceArray and blocks > 1 and math.prod(lanes) < _WIDE:
        done = blocks * _BLOCK
        factors, terms, inner = (v[:done].reshape(blocks, _BLOCK, *lanes) for v in (a, b, y))
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            products = np.cumprod(factors, 1, dtype=y.dtype)
        if _is_exact(products, factors):
            _recur_by_step(factors.swapaxes(0, 1), terms.swapaxes(0, 1), inner.swapaxes(0, 1), 0)
            ends = _recurrence(products[:, -1], inner[:, -1])
            inner[1:] += products[1:] * ends[:-1, None]
        else:
            done = 0
    _recur_by_step(a, b, y, done)
    return y


def _is_exact(products: Any, factors: Any) -> bool:
    """Return whether no product has left the range of its dtype, neither above nor below."""
    size = np.abs(products)
    least = np.finfo(size.dtype).tiny / np.finfo(size.dtype).eps
    if np.isfinite(size).all() and (size >= least).all():
        return True
    zero = np.logical_or.accumulate(factors == 0, 1)
    return bool(np.isfinite(size).all() and ((size >= least) | zero).all())


def _recur_by_step(a: Any, b: Any, y: Any, start: int) -> None:
    """Fill `y` from place `start` on."""
    for i in range(start, len(y)):
        y[i] = a[i] * y[i - 1] + b[i] if i else b[i]


def _before(x: Any, axis: int) -> Any:
    """Return `x` moved one place back along `axis`, with zero in front."""
    full = (slice(None),) * axis
    head = bind("slice", x, index=(*full, slice(None, -1)))
    return bind("slice_backward", head, shape=x.shape, index=(*full, slice(1, None)))


def _suffix(ct: Any, a: Any, axis: int) -> Any:
    """Return s with s_i = ct_i + a_(i+1) s_(i+1): what each place of a recurrence contributes in all."""
    found = scanned("recurrence_adjoint", axis, a, ct, backwards=True, least=1)
    if found is not None:
        return found
    return reverse(_recur(_before(reverse(a, axis), axis), reverse(ct, axis), axis), axis)


def _run_cumprod(x: Any, *, axis: int) -> Any:
    found = scanned("products", axis, x)
    return np.cumprod(x, axis) if found is None else found


def _cumprod(ct: Any, x: Any, *, axis: int) -> Any:
    # out_i = x_i out_(i-1): the recurrence with out_(-1) = 1, right also where elements are zero
    # one may overflow beside a zero
    return bind("multiply_no_nan", _suffix(ct, x, axis), _products_before(x, axis))


for _name, _join, _identity, _floats, _integers in (
    ("max", "maximum", -math.inf, "larger", "max({}, {})"),
    ("min", "minimum", math.inf, "smaller", "min({}, {})"),
    ("nanmax", "fmax", math.nan, "fmax", ""),
    ("nanmin", "fmin", math.nan, "fmin", ""),
):
    _how = Reduction(_join, _identity, f"{_floats}({{}}, {{}})", _integers)
    _run = _extreme_of_rows(_join, _floats) if _integers else None
    _reduction(_name, _extremum, _how, _extreme_shape(_join), run=_run, verify=_has_elements)
_reduction(
    "prod",
    _prod,
    Reduction("multiply", 1.0, "multiply_any({}, {})", "{} * {}"),
    lambda x, axes: Aval(reduced(x, axes).shape, np.multiply.reduce(np.empty(0, x.dtype)).dtype),
)
declare(
    "products_of_others",
    run=lambda x, *, axes: _by_rows(_others, axes, x),
    vjp=by_argument(
        lambda ct, x, *, axes: _by_rows(_others_adjoint, axes, ct, x), exact=True, transpose=SYMMETRIC
    ),
    shape=lambda x, *, axes: x,
    batch=lambda _, x, *, axes: bind("products_of_others", x, axes=shifted(axes)),
    inline=lambda x, *, axes: [_by_rows(_others, axes, x)],
    traits={TOTAL, ALONG},
    stored=Stored({"axes": are_axes}),
)
_RUNNING = "fgrad.lax.running"
declare(
    "cumprod",
    run=_run_cumprod,
    vjp=by_argument(_cumprod),
    shape=lambda x, *, axis: Aval(x.shape, np.cumprod(np.empty(0, x.dtype)).dtype),
    batch=lambda _, x, *, axis: bind("cumprod", x, axis=axis + 1),
    traits={KEEPS_C_ORDER},
    written=Written(late(_RUNNING, "cumprod"), lambda x, *, axis: x.dtype.kind == "c"),
    stored=Stored({"axis": is_axis}),
    apart=apart_along_others,
)


def _is_other(x: Aval, *, ufunc: str, axis: int) -> bool:
    return x.dtype.kind not in "iuf" or ufunc not in {"add", "multiply", "maximum", "minimum"}


declare(
    "recur",
    run=_run_recur,
    vjp=by_argument(
        lambda ct, out, x, *, axis: _suffix(ct, x, axis) * _before(out, axis),
        lambda ct, x, *, axis: _suffix(ct, x, axis),
    ),
    shape=lambda a, b, *, axis: Aval(a.shape, np.result_type(a.dtype, b.dtype)),
    batch=lambda mapped, *xs, axis: bind("recur", *in_full(mapped, xs), axis=axis + 1),
    traits={ALONG},
    written=Written(
        late(_RUNNING, "recur"), lambda a, b, *, axis: a.dtype != b.dtype or a.dtype.char not in "fd"
    ),
    stored=Stored({"axis": is_axis}, verify=lambda a, b, *, axis: a == b),
)


def _accumulated(x: Any, ufunc: str) -> np.dtype[Any]:
    kind: np.dtype[Any] = PRIMITIVES[ufunc].run.accumulate(np.ones(1, x.dtype)).dtype  # type: ignore[attr-defined]
    return kind


def _accumulate(ct: Any, out: Any, x: Any, *, ufunc: str, axis: int) -> Any:
    """Pull back through out_i = f(out_(i-1), x_i), from out_0 = x_0: s_i = ct_i + df/dout_(i-1) s_(i+1)."""
    primitive, full = PRIMITIVES[ufunc], (slice(None),) * axis
    if primitive.real and x.dtype.kind == "c":
        refuse_complex(primitive)
    step = primitive.vjp((True, True))
    if x.shape[axis] < 2:
        return ct
    tail = (*full, slice(1, None))
    before, after, here = (
        bind("slice", v, index=(*full, slice(*ends)))
        for v, ends in ((out, (None, -1)), (out, (1, None)), (x, (1, None)))
    )
    slopes = (
        (None, None)
        if step is None
        else step.lifted(near(x).ones((), x.dtype), *((after, before, here)[k] for k in step.keep))
    )
    first, second = (
        near(x).zeros(here.shape, x.dtype) if s is None else broadcast_to(s, here.shape) for s in slopes
    )
    contributed = _suffix(ct, bind("slice_backward", first, shape=x.shape, index=tail), axis)
    own = bind("update", near(x).ones(x.shape, x.dtype), second, index=tail)
    return bind("scale", contributed, own)


_BEYOND = {"maximum": np.greater, "minimum": np.less}


def _accumulate_arrays(ct: Any, out: Any, x: Any, *, ufunc: str, axis: int) -> Any:
    """Return the same of arrays: without ties, each running extreme is one element, up to the next one."""
    if ufunc not in _BEYOND or x.__class__ is not np.ndarray or x.dtype.kind not in "iuf" or x.size < MEDIUM:
        return _accumulate(ct, out, x, ufunc=ufunc, axis=axis)
    rows, out_rows, ct_rows = (np.moveaxis(v, axis, -1) for v in (x, out, ct))
    here, before = rows[..., 1:], out_rows[..., :-1]
    last = out_rows[..., -1]
    if (here == before).any() or (last != last).any():  # noqa: PLR0124 -- not a number, once it was met
        return _accumulate(ct, out, x, ufunc=ufunc, axis=axis)
    begins = np.ones(rows.shape, bool)
    _BEYOND[ufunc](here, before, out=begins[..., 1:])
    places, back = np.flatnonzero(begins), np.zeros(rows.shape, ct.dtype)
    back.reshape(-1)[places] = np.add.reduceat(ct_rows.reshape(-1), places)
    return np.moveaxis(back, -1, axis)


def _is_ufunc(v: Any, _: Any) -> bool:
    run = PRIMITIVES[v].run if type(v) is str and v in PRIMITIVES else None
    return isinstance(run, np.ufunc) and run.nin == 2 and run.nout == 1 and run.signature is None


declare(
    "accumulate",
    run=lambda x, *, ufunc, axis: PRIMITIVES[ufunc].run.accumulate(x, axis),  # type: ignore[attr-defined]
    vjp=by_argument(_accumulate, raw=(_accumulate_arrays,)),
    shape=lambda x, *, ufunc, axis: Aval(x.shape, _accumulated(x, ufunc)),
    batch=lambda _, x, *, ufunc, axis: bind("accumulate", x, ufunc=ufunc, axis=axis + 1),
    traits={ALONG},
    written=Written(late(_RUNNING, "accumulate"), _is_other),
    stored=Stored({"ufunc": _is_ufunc, "axis": is_axis}),
)
