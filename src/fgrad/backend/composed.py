"""Functions that CuPy lacks or spells differently than NumPy, composed from those that it has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.backend.array import COMPOSED, METHODS, NUMBERS, Device, DeviceArray


def _axes(axis: Any, x: DeviceArray) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return tuple(a % max(x.ndim, 1) for a in (axis if axis.__class__ is tuple else (axis,)))


def _reduction(name: str, identity: Any = None) -> Callable[..., Any]:
    """Return the function that reduces over axes, also over none and over an empty one."""

    def reduce(
        place: Device, x: DeviceArray, axis: Any = None, dtype: Any = None, out: Any = None,
        keepdims: Any = False, initial: Any = None, where: Any = True, **_: Any
    ) -> Any:  # fmt: skip
        if where is not True:
            raise place.refusal(f"{name} with where")
        axes = _axes(axis, x)
        given = {} if dtype is None else {"dtype": dtype}
        if not axes:
            empty = np.empty(0, x.dtype)
            kind = dtype or getattr(np, name)(empty).dtype if identity is not None else x.dtype
            return x.astype(kind)
        lengths = [n for i, n in enumerate(x.shape) if i not in axes]
        if 0 in [x.shape[i] for i in axes] and identity is None:
            if initial is None:
                if 0 not in lengths:
                    raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
                initial = 0
            shape = [1 if i in axes else n for i, n in enumerate(x.shape)] if keepdims else lengths
            return place.full(tuple(shape), initial, x.dtype)
        made = place.apply(name, x, axis=axes, keepdims=bool(keepdims), **given)
        return made if initial is None else _OF_INITIAL[name](made, initial)

    return reduce


_OF_INITIAL = {"max": np.maximum, "min": np.minimum, "sum": np.add, "prod": np.multiply}


def _without_nan(name: str, worst: float) -> Callable[..., Any]:
    """Return the reduction that passes over NaN, unless there is nothing else."""

    def reduce(place: Device, x: DeviceArray, axis: Any = None, **kw: Any) -> Any:
        found = COMPOSED[name]
        if x.dtype.kind != "f":
            return found(place, x, axis, **kw)
        nan = np.isnan(x)
        rest = found(place, np.where(nan, x.dtype.type(worst), x), axis, **kw)
        return np.where(COMPOSED["all"](place, nan, axis), x.dtype.type(np.nan), rest)

    return reduce


def _where(place: Device, c: Any, *values: Any) -> Any:
    if not values:
        return place.apply("nonzero", c)
    dtype = np.result_type(*(v.dtype if hasattr(v, "dtype") else v for v in values))
    x, y = (dtype.type(v) if v.__class__ in NUMBERS else v for v in values)
    if c.__class__ in NUMBERS:
        c = place.full((), c, bool)
    return place.apply("where", c, x, y)


def _argsort(place: Device, x: DeviceArray, axis: Any = -1, kind: Any = None, **_: Any) -> Any:
    # CuPy's sorting keeps the order of equal elements, whatever kind is asked for
    if place.library.simulated:
        return place.wrap(np.argsort(x.buffer, axis, kind="stable"))
    return place.apply("argsort", x, axis=axis)


def _along(place: Device, x: DeviceArray, indices: Any, axis: Any = -1) -> Any:
    return place.apply("take_along_axis", x, indices, axis=axis)


def _count_nonzero(place: Device, x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return np.sum(np.not_equal(x, 0), axis=axis, dtype=np.intp, keepdims=keepdims)


def _mean(place: Device, x: DeviceArray, axis: Any = None, keepdims: bool = False, **_: Any) -> Any:
    n = math.prod([x.shape[i] for i in _axes(axis, x)])
    wide = x.astype(np.float32) if x.dtype == np.float16 else x  # as NumPy does
    made = np.sum(wide, axis=axis, keepdims=keepdims) / n
    return made.astype(x.dtype) if x.dtype == np.float16 else made


def _result_type(place: Device, *xs: Any) -> np.dtype[Any]:
    return np.result_type(*(x.dtype if x.__class__ is DeviceArray else x for x in xs))


def _solve(place: Device, a: Any, b: Any) -> Any:
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # CuPy wants all of them
    kind = np.result_type(a.dtype, b.dtype)
    a = np.broadcast_to(a, (*lead, *a.shape[-2:])).astype(kind, copy=False)
    b = np.broadcast_to(b, (*lead, *b.shape[-2:])).astype(kind, copy=False)
    if not b.size:  # CuPy counts stacked right-hand sides in steps of their bytes, which are none
        return place.zeros(b.shape, kind)
    return place.apply("linalg.solve", a, b)


def _qr(place: Device, a: Any, mode: str = "reduced") -> Any:
    *lead, m, n = a.shape
    if a.size == 0 and mode == "raw":
        return place.zeros((*lead, n, m), a.dtype), place.zeros((*lead, min(m, n)), a.dtype)
    if a.size == 0:  # an orthogonal matrix of a matrix without elements is the identity
        k = m if mode == "complete" else min(m, n)
        return np.broadcast_to(place.eye(m, a.dtype)[:, :k], (*lead, m, k)).copy(), place.zeros(
            (*lead, k, n), a.dtype
        )
    return place.apply("linalg.qr", a, mode=mode)


def _svd(place: Device, a: Any, full_matrices: bool = True, compute_uv: bool = True, **_: Any) -> Any:
    return place.apply("linalg.svd", a, full_matrices=full_matrices, compute_uv=compute_uv)


def _eigh(place: Device, a: Any, uplo: str = "L") -> Any:
    return place.apply("linalg.eigh", a, UPLO=uplo)


def _pinv(place: Device, a: Any, rcond: Any = None, hermitian: Any = False, **_: Any) -> Any:
    if a.size == 0:
        return place.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    limit = place.constant(np.asarray(rcond)[..., None]) if np.ndim(rcond) else rcond
    dropped = s <= limit * np.max(s, axis=-1, keepdims=True)
    inverse = np.where(dropped, 0, 1 / np.where(dropped, 1, s))
    turned = np.matmul(
        np.conjugate(vh).swapaxes(-1, -2) * inverse[..., None, :], np.conjugate(u).swapaxes(-1, -2)
    )
    return turned.astype(a.dtype, copy=False)


def _norm(place: Device, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord is not None or not isinstance(axis, int):
        raise place.refusal("linalg.norm of matrices")
    size = np.absolute(x)
    return np.sqrt(np.sum(size * size, axis=axis, keepdims=keepdims))


def _spacing(place: Device, x: Any) -> Any:
    x = x.astype(np.spacing(np.ones(1, x.dtype)).dtype, copy=False)
    up = np.where(np.signbit(x), -np.inf, np.inf).astype(x.dtype)
    return np.nextafter(x, up) - x


def _matmul(place: Device, x: Any, y: Any, **kw: Any) -> Any:
    kind = np.result_type(x.dtype, y.dtype)
    x, y = (v.astype(kind, copy=False) if v.__class__ is DeviceArray else v for v in (x, y))
    return place.wrap(place.call(place.library.find("matmul"), place.operand(x), place.operand(y)))


def _convolve(place: Device, x: Any, y: Any, mode: str = "full") -> Any:
    if mode == "valid" and x.shape[0] < y.shape[0]:
        x, y = y, x
    return place.apply("convolve", x, y, mode=mode)


def _broadcast_arrays(place: Device, *xs: Any, **_: Any) -> Any:
    shape = np.broadcast_shapes(*(np.shape(x) for x in xs))
    return tuple([np.broadcast_to(x, shape) for x in xs])


def _like(fill: Any) -> Callable[..., Any]:
    def make(place: Device, x: Any, *value: Any, dtype: Any = None, shape: Any = None, **_: Any) -> Any:
        wanted = x.shape if shape is None else shape
        return place.full(wanted, value[0] if value else fill, dtype or x.dtype)

    return make


def _clip(place: Device, x: Any, low: Any = None, high: Any = None, *_: Any, **__: Any) -> Any:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _copyto(place: Device, target: DeviceArray, source: Any, **_: Any) -> None:
    target[...] = source


def _fft(name: str) -> Callable[..., Any]:
    def transform(place: Device, x: Any, n: Any = None, axis: Any = -1, norm: Any = None, **_: Any) -> Any:
        shape = list(x.shape)
        if 0 in shape:  # cuFFT has no plan for nothing
            m = shape[axis] if n is None else n
            shape[axis] = m // 2 + 1 if name == "rfft" else m
            kind = np.result_type(x.dtype, np.complex64) if x.dtype.kind != "c" else x.dtype
            return place.zeros(tuple(shape), np.empty(0, kind).real.dtype if name == "irfft" else kind)
        return place.apply(f"fft.{name}", x, n=n, axis=axis, norm=norm)

    return transform


def _isclose(
    place: Device, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> Any:
    b = b.astype(np.result_type(b.dtype, 1.0), copy=False) if hasattr(b, "dtype") else float(b)
    with np.errstate(invalid="ignore"):  # of infinities
        near = np.isfinite(b) & (np.absolute(a - b) <= atol + rtol * np.absolute(b))
    return near | _same(a, b, equal_nan)


def _same(a: Any, b: Any, equal_nan: bool) -> Any:
    return (a == b) | ((a != a) & (b != b)) if equal_nan else a == b  # noqa: PLR0124 -- NaN


def _array_equal(place: Device, a: Any, b: Any, equal_nan: bool = False) -> Any:
    return np.shape(a) == np.shape(b) and np.all(_same(a, b, equal_nan))


def _unique(place: Device, x: Any, *asked: Any, equal_nan: bool = True, **kw: Any) -> Any:
    names = ("return_index", "return_inverse", "return_counts", "axis")
    options = dict(zip(names, asked, strict=False)) | kw
    found = place.apply("unique", x, **options, equal_nan=equal_nan)
    if not options.get("return_inverse"):
        return found
    k = 2 if options.get("return_index") else 1
    shape = x.shape if options.get("axis") is None else found[k].shape  # NumPy's; CuPy has a vector
    return (*found[:k], found[k].reshape(shape), *found[k + 1 :])


def _isin(place: Device, x: Any, y: Any, assume_unique: bool = False, invert: bool = False, **_: Any) -> Any:
    y = np.sort(y.reshape(-1))
    if y.size:
        i = np.minimum(np.searchsorted(y, x.reshape(-1)), y.size - 1)
        found = y[i].reshape(x.shape) == x
    else:
        found = place.zeros(x.shape, bool)
    return ~found if invert else found


def _intersect1d(
    place: Device, x: Any, y: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    firsts: tuple[Any, ...] = ()
    if not assume_unique:
        (x, i), (y, j) = (np.unique(v, return_index=True) for v in (x, y))
        firsts = i, j
    both = np.concatenate([x.reshape(-1), y.reshape(-1)])
    order = np.argsort(both, kind="stable")
    line = both[order]
    (twice,) = np.nonzero(line[1:] == line[:-1])
    found = line[twice]
    if not return_indices:
        return found
    places = order[twice], order[twice + 1] - x.size
    return (found, *(f[p] for f, p in zip(firsts, places, strict=True))) if firsts else (found, *places)


def _lexsort(place: Device, keys: Any, axis: int = -1) -> Any:
    """Sort by one key after the other, the most important one last: equal elements keep their order."""
    first, *others = keys
    if not first.ndim:
        return place.zeros((), np.intp)
    order = np.argsort(first, axis=axis, kind="stable")
    for key in others:
        again = np.argsort(np.take_along_axis(key, order, axis), axis=axis, kind="stable")
        order = np.take_along_axis(order, again, axis)
    return order


def _bincount(place: Device, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    if weights is not None:
        raise place.refusal("bincount with weights")
    if np.any(x < 0):
        raise ValueError("'list' argument must have no negative elements")
    return place.apply("bincount", x, minlength=minlength)


COMPOSED |= {
    "sum": _reduction("sum", 0),
    "prod": _reduction("prod", 1),
    "max": _reduction("max"),
    "min": _reduction("min"),
    "amax": _reduction("max"),
    "amin": _reduction("min"),
    "any": _reduction("any", identity=False),
    "all": _reduction("all", identity=True),
    "mean": _mean,
    "where": _where,
    "argsort": _argsort,
    "sort": lambda place, x, axis=-1, kind=None, **_: place.apply("sort", x, axis=axis),
    "take_along_axis": _along,
    "count_nonzero": _count_nonzero,
    "result_type": _result_type,
    "linalg.solve": _solve,
    "linalg.qr": _qr,
    "linalg.svd": _svd,
    "linalg.eigh": _eigh,
    "linalg.eigvalsh": lambda place, a, uplo="L": _eigh(place, a, uplo)[0],
    "allclose": lambda place, *args, **kw: np.all(_isclose(place, *args, **kw)),
    "isclose": _isclose,
    "isin": _isin,
    "intersect1d": _intersect1d,
    "lexsort": _lexsort,
    "array_equal": _array_equal,
    "unique": _unique,
    "bincount": _bincount,
    "linalg.pinv": _pinv,
    "linalg.norm": _norm,
    "spacing": _spacing,
    "matmul": _matmul,
    "einsum": lambda place, subscripts, *operands, **_: place.apply("einsum", subscripts, *operands),
    "convolve": _convolve,
    "broadcast_arrays": _broadcast_arrays,
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "empty_like": _like(0),
    "full_like": _like(None),
    "clip": _clip,
    "copyto": _copyto,
    **{f"fft.{name}": _fft(name) for name in ("fft", "ifft", "rfft", "irfft")},
    "flatnonzero": lambda place, x: place.apply("nonzero", x.reshape(-1))[0],
    "shape": lambda place, x: x.shape,
    "ndim": lambda place, x: x.ndim,
    "size": lambda place, x: x.size,
    "real": lambda place, x: x.real,
    "imag": lambda place, x: x.imag if x.dtype.kind == "c" else place.zeros(x.shape, x.dtype),
    "transpose": lambda place, x, axes=None: x.transpose(axes),
    "swapaxes": lambda place, x, i, j: x.swapaxes(i, j),
    "reshape": lambda place, x, shape, **_: x.reshape(shape),
    "ravel": lambda place, x, **_: x.reshape(-1),
    "expand_dims": lambda place, x, axis: x.reshape((*x.shape[:axis], 1, *x.shape[axis:])),
}
_REDUCTIONS = {
    "add": COMPOSED["sum"],
    "multiply": COMPOSED["prod"],
    "maximum": COMPOSED["max"],
    "minimum": COMPOSED["min"],
    "fmax": _without_nan("max", -np.inf),
    "fmin": _without_nan("min", np.inf),
    "logical_or": COMPOSED["any"],
    "logical_and": COMPOSED["all"],
}


def _reduce(place: Device, ufunc: np.ufunc, x: Any, axis: Any = 0, **kw: Any) -> Any:
    if ufunc.__name__ not in _REDUCTIONS:
        raise place.refusal(f"{ufunc.__name__}.reduce")
    kw.pop("out", None)
    return _REDUCTIONS[ufunc.__name__](place, x, axis, **kw)


def _accumulate(place: Device, ufunc: np.ufunc, x: DeviceArray, axis: int = 0, **_: Any) -> Any:
    """Combine along an axis: sums and products by the library, everything else one place after the other."""
    if ufunc.__name__ in {"add", "multiply"}:
        return (np.cumsum if ufunc.__name__ == "add" else np.cumprod)(x, axis)
    lines: Any = place.apply("moveaxis", x, axis, 0)
    if not len(lines):
        return x.copy()
    kind = ufunc.accumulate(np.ones(1, x.dtype)).dtype
    total = lines[0].astype(kind)
    parts = [total]
    for i in range(1, len(lines)):
        total = ufunc(total, lines[i]).astype(kind)
        parts.append(total)
    return np.moveaxis(np.stack(parts), 0, axis)


def _at(place: Device, ufunc: np.ufunc, target: DeviceArray, index: Any, value: Any) -> None:
    """Combine `value` into places of `target`, also where a place is named twice."""
    if target.dtype.kind == "c":
        value = value if hasattr(value, "imag") else np.asarray(value)
        for part in ("real", "imag"):
            _at(place, ufunc, getattr(target, part), index, getattr(value, part))
        return
    if target.dtype == np.int64 and ufunc is np.add:  # sums wrap around, so it does not matter
        unsigned = value.view(np.uint64) if value.__class__ is DeviceArray else np.uint64(value)
        target, value = target.view(np.uint64), unsigned
    call = place.library.find(ufunc.__name__).at  # type: ignore[attr-defined]
    place.call(call, target.buffer, place.index_of(index), place.operand(value))


METHODS |= {
    "reduce": _reduce,
    "accumulate": _accumulate,
    "at": _at,
    "outer": lambda place, ufunc, x, y, **_: ufunc(x.reshape((*x.shape, *(1,) * y.ndim)), y),
}
