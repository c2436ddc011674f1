"""`jax.numpy`: the functions of `fgrad.numpy` in tables, by how JAX finds the dtype of their result."""

from __future__ import annotations

import functools
import inspect
import operator
import string
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

import numpy as np

import fgrad
from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import (
    KEYS,
    Array,
    Form,
    as_array,
    elementwise,
    form_of,
    held,
    inexact,
    made,
    named,
    opened,
    strong,
    together,
)
from fgrad.compat.jax.types import (
    BFLOAT16,
    CONFIG,
    KEY,
    KeyType,
    canonical,
    default,
    issubdtype,
    kind_of,
    promote_types,
    promoted,
)
from fgrad.compat.standins import by_name, renamed, words
from fgrad.core.tensor import Tensor, is_traced

Function = Callable[..., Any]
Shape = Sequence[int] | int

# of elements: computed in the dtype that the arguments promote to
SAME = words(
    "abs absolute add bitwise_and bitwise_not bitwise_or bitwise_xor ceil conj conjugate equal floor "
    "floor_divide greater greater_equal invert isfinite isinf isnan left_shift less less_equal logical_and "
    "logical_not logical_or logical_xor maximum minimum fmax fmin mod multiply negative not_equal positive "
    "remainder right_shift sign square subtract trunc real imag isneginf isposinf signbit fmod gcd lcm"
)
# of these: truth values are computed with as integers
COUNTING = {"floor_divide", "fmod", "left_shift", "mod", "remainder", "right_shift", "square"}
# of these: the result is weak only if every argument is; of a float; never
ALL_WEAK = {"heaviside", "hypot", "logical_and", "logical_or"}
WEAK_FLOAT = {"isfinite", "rint"}
STRONG = {"isinf", "log10", "log2"}
# of elements: computed in floating-point numbers
INEXACT = words(
    "arccos arccosh arcsin arcsinh arctan arctan2 arctanh acos acosh asin asinh atan atan2 atanh cbrt "
    "copysign cos cosh deg2rad degrees divide exp exp2 expm1 heaviside hypot log log10 log1p log2 logaddexp "
    "logaddexp2 nextafter rad2deg radians reciprocal sin sinc sinh sqrt tan tanh true_divide fabs rint"
)
FLOATS = words("angle frexp ldexp modf polyder spacing trapezoid")  # these too, of whole arrays
# the argument that stays of integers, or of truth values
INDICES = {"bincount": 0, "compress": 0, "delete": 1, "extract": 0, "insert": 1, "ldexp": 1}
OPERANDS = ("a", "arr", "array", "m", "operand", "v", "x")  # what their operand is called
# what counts or moves elements, as many as `fgrad.lax` is told by this argument, where it is given
SIZED = (
    ("argwhere",),
    ("flatnonzero",),
    ("nonzero",),
    ("unique",),
    ("repeat", "total_repeat_length", "length"),
)
JOINS = ("stack", "concatenate", "hstack", "vstack", "dstack", "column_stack")
PRODUCTS = ("dot", "inner", "kron", "matmul", "outer", "tensordot", "vdot", "cross")


def _named(name: str, function: Function) -> Function:
    return named(function, f"numpy.{name}", ", in JAX's dtypes")


def of_shapes(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of Tensors whose errors about shapes are of the class that they have in JAX."""

    def checked(*xs: Any) -> Any:
        try:
            return function(*xs)
        except ValueError as error:
            shapes = ", ".join(str(x.shape) for x in xs)
            raise TypeError(f"{name} got incompatible shapes for broadcasting: {shapes}: {error}") from error

    return checked


def check_ranks(*args: Any) -> None:
    """Refuse operands of different ranks, where the program asks for that."""
    if CONFIG.jax_numpy_rank_promotion == "raise" and len({np.ndim(a) for a in args} - {0}) > 1:
        raise ValueError(
            f"operands of shapes {[np.shape(a) for a in args]} need a promotion of rank, which is refused"
        )


def _elements(name: str, *, inexact: bool) -> Function:
    found = of_shapes(name, getattr(fnp, name))
    kinds = {"inexact": inexact, "counts": name in COUNTING, "keys": name in ("equal", "not_equal")}

    def function(*args: Any, **kwargs: Any) -> Array:
        if kwargs:
            raise NotImplementedError(f"fgrad's jax.numpy.{name} takes its operands alone, by position")
        check_ranks(*args)
        out = elementwise(found, *args, **kinds)
        if out.form is True and (
            name in STRONG
            or (name in ALL_WEAK and not all(as_array(a).weak_type for a in args))
            or (name in WEAK_FLOAT and kind_of(as_array(args[0]).dtype) != "f")
        ):
            return made(out._tensor)
        return out

    return _named(name, function)


def of_one(found: Function, result: Function) -> Function:
    """Return a function of one array and of options: `result(f, x, args, kwargs)`."""
    name = found.__name__

    def function(*args: Any, **kwargs: Any) -> Array:
        given = list(args) or [kwargs.pop(key) for key in OPERANDS if key in kwargs]
        if not given:
            raise TypeError(f"{name}() missing an array")
        a, *rest = given
        kwargs = {
            k: opened(v)
            for k, v in kwargs.items()
            if k != "out_sharding" and not (v is None and k in ("out", "where"))
        }
        x = as_array(a)
        if x.form is KEYS and result is not moved:
            raise TypeError(f"{name} does not accept dtype {KEY}")
        return result(found, x, [_static(v) for v in rest], kwargs)  # type: ignore[no-any-return]

    return _named(name, function)


def _static(x: Any) -> Any:
    if x.__class__ is Array and not x.shape and x.dtype.kind in "iu" and not is_traced(x._tensor):
        return operator.index(x)  # an axis, a shift
    if isinstance(x, range):
        return tuple(x)
    return opened(x)


def moved(f: Function, x: Array, args: Any, kwargs: Any) -> Array:
    """Return what is weak if the array is."""
    return wrapped(f(x._tensor, *args, **kwargs), x.form)  # type: ignore[no-any-return]


def kept(f: Function, x: Array, args: Any, kwargs: Any) -> Array:
    """Return what is strong, of the dtype of the array."""
    return wrapped(f(x._tensor, *args, **kwargs), x.strong)  # type: ignore[no-any-return]


def _summed(f: Function, x: Array, args: Any, kwargs: Any) -> Array:
    """Return sums: truth values and short integers are counted in 32 bits."""
    dtype = kwargs.pop("dtype", None)
    if dtype is None:
        dtype = x.dtype if kind_of(x.dtype) in "fc" or x.dtype.itemsize >= 4 else default(int)
        if x.dtype.kind == "u" and x.dtype.itemsize < 4:
            dtype = np.dtype(np.uint32)
    return kept(f, x.astype(dtype), args, kwargs)


def _cumulated(f: Function, x: Array, args: Any, kwargs: Any) -> Array:
    dtype = kwargs.pop("dtype", None) or (default(int) if x.dtype.kind == "b" else x.dtype)
    return kept(f, x.astype(dtype), args, kwargs).astype(dtype)


def averaged(f: Function, x: Array, args: Any, kwargs: Any) -> Array:
    """Return what is strong, and computed of floating-point numbers."""
    dtype = kwargs.pop("dtype", None)
    return kept(f, inexact(x) if dtype is None else x.astype(dtype), args, kwargs)


def _index(f: Function, x: Array, args: Any, kwargs: Any) -> Array:
    return made(f(x._tensor, *args, **kwargs)).astype(int)


def wide_enough(kind: Any, *operands: Any) -> list[Array]:
    """Return operands of a product, in which nothing is lost that its result of a dtype could hold."""
    arrays = [as_array(x) for x in operands]
    return arrays if kind is None else [x.astype(promote_types(x.dtype, dtype_of(kind))) for x in arrays]


def product(found: Function, count: int = 2, *, inexact: bool = False) -> Function:
    """Return a function of `count` arrays and of options, which is computed in a dtype that is preferred."""
    names = [*inspect.signature(found).parameters, "precision", "preferred_element_type", "out_sharding"]

    def function(*args: Any, **kwargs: Any) -> Array:
        given = dict(zip(names, args, strict=False)) | kwargs
        kind = given.pop("preferred_element_type", None)
        for key in ("precision", "out_sharding"):  # it is the highest, and there is one
            given.pop(key, None)
        operands = wide_enough(kind, *(given.pop(name) for name in names[:count]))
        call = of_shapes(found.__name__, lambda *xs: found(*xs, **given))
        out = elementwise(call, *operands, inexact=inexact)
        if kind is None and inexact:
            kind = operands[0].dtype
        return out if kind is None else out.astype(kind)

    return _named(found.__name__, function)


def _of_floats(found: Function) -> Function:
    """Return a product of two arrays as one of floating-point numbers."""
    function = product(found)

    @functools.wraps(function)
    def of_floats(a: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
        operands, form = together((a, v), inexact=True)
        return function(*(made(x, form) for x in operands), *args, **kwargs)

    return of_floats


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """Return the product of polynomials, with all its coefficients unless `trim_leading_zeros`."""
    factors = map(NAMES["trim_zeros"], (a1, a2), ("f", "f")) if trim_leading_zeros else (a1, a2)
    return NAMES["convolve"](*factors)


def _compared(name: str, taken: Function) -> Function:
    """Return a comparison of two arrays, which are what `taken` makes of the operands."""
    found = getattr(fnp, name)

    def function(a: Any, b: Any, *args: Any, **kwargs: Any) -> Array:
        (x, y), form = together((taken(a), taken(b)), keys=True)
        if form is KEYS:  # which are equal or not
            return made(fnp.equal(x, y) if name == "isclose" else fnp.array_equal(x, y))
        return made(found(x, y, *map(opened, args), **{k: opened(v) for k, v in kwargs.items()}))

    return _named(name, function)


def _joined(name: str) -> Function:
    found = getattr(fnp, name)

    def function(arrays: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Array:
        tensors, form = together(arrays, keys=True)
        out = made(found(tensors, *map(_static, args), **kwargs), form)
        return out if dtype is None else out.astype(dtype)

    return _named(name, function)


class _Columns:
    """`c_`: arrays side by side, of which vectors are columns."""

    def __getitem__(self, key: Any) -> Array:
        parts = [as_array(part) for part in (key if isinstance(key, tuple) else (key,))]
        columns = [x if x.ndim > 1 else x.reshape(-1, 1) for x in parts]
        return cast("Array", NAMES["concatenate"](columns, axis=-1))


def alike(
    args: Sequence[Any], kinds: Any = Array | np.ndarray | float, apart: Any = None, *, inexact: bool = False
) -> tuple[list[Any], Form]:
    """Return arguments, of which the arrays have one dtype, and the form of results that are strong.

    What is no array of these kinds, and the argument at the place `apart`, is an option.
    """
    places = [i for i, a in enumerate(args) if isinstance(a, kinds) and i != apart]
    tensors, form = together([args[i] for i in places], inexact=inexact) if places else ([], False)
    found = iter(tensors)
    out = [next(found) if i in places else _static(a) for i, a in enumerate(args)]
    return out, strong(form)


def wrapped(x: Any, form: Form) -> Any:
    """Return results with arrays in the place of Tensors."""
    if isinstance(x, tuple | list):
        parts = [wrapped(part, form) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return made(x, form) if isinstance(x, Tensor | np.ndarray | np.generic) else x


def _any(name: str) -> Function:
    """Return a function of arrays of one dtype, and of options, whose results are strong."""
    found = getattr(fnp, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        if any(kwargs.pop(key, None) is not None for key in ("size", "fill_value")):
            raise NotImplementedError(f"fgrad's jax.numpy.{name} has no size: it runs outside jit")
        dtype = canonical(dtype_of(kwargs.pop("dtype"))) if "dtype" in kwargs else None
        if dtype is not None:
            kwargs["dtype"] = held(dtype)
        operands, form = alike(args, apart=INDICES.get(name), inexact=name in FLOATS)
        out = found(*operands, **{k: opened(v) for k, v in kwargs.items()})
        return wrapped(out, form if dtype is None else form_of(dtype))

    return _named(name, function)


OF_ONE: dict[Function, tuple[str, ...]] = {  # by how the dtype of the result is found
    moved: words(  # the elements, at other places or rounded
        "array_split dsplit hsplit split vsplit "
        "atleast_1d atleast_2d atleast_3d broadcast_to diagonal expand_dims flip fliplr flipud "
        "matrix_transpose moveaxis permute_dims ravel reshape roll rollaxis rot90 round squeeze "
        "swapaxes tile transpose tril triu"
    ),
    kept: words("all amax amin any diag diff max min nan_to_num nanmax nanmin pad ptp sort"),
    _summed: words("nanprod nansum prod sum trace"),
    _cumulated: words("cumprod cumsum nancumprod nancumsum"),
    averaged: words(
        "average mean median nanmean nanmedian nanpercentile nanquantile nanstd nanvar percentile quantile "
        "std var"
    ),
    _index: words("argmax argmin count_nonzero nanargmax nanargmin"),
}


# ---- what makes arrays


def array(
    object: Any, dtype: Any = None, copy: bool = True, order: str = "K", ndmin: int = 0, *,
    device: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return an array of numbers, arrays or lists of them."""
    if dtype is not None and object.__class__ in (bool, int, float, complex):
        # it may be too great for the usual dtype
        object = np.asarray(object, held(canonical(dtype_of(dtype))))
    if isinstance(object, list | tuple):
        parts = _leaves(object)
        if any(isinstance(p, Array | Tensor) for p in parts):
            made_of: Array = NAMES["stack"]([array(p) for p in object])
        else:
            values = np.array(object)
            made_of = as_array(values if parts else values.astype(default(float)))
        x = made_of
    else:
        x = as_array(object)
    if dtype is not None:
        x = x.astype(dtype)
    if x.ndim >= ndmin:
        return x
    return made(fnp.reshape(x._tensor, (1,) * (ndmin - x.ndim) + x.shape), x.form)


def _leaves(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in _leaves(part)] if isinstance(x, list | tuple) else [x]


def shape_of(shape: Any) -> tuple[int, ...]:
    """Return a shape, of which a number is one axis."""
    try:
        return (operator.index(shape),)
    except TypeError:  # which is how containers of any kind are told from numbers
        return tuple(map(operator.index, shape))


def _filled(value: Function, shape: Shape, dtype: Any, weak: bool = False) -> Array:
    kind = canonical(float if dtype is None else dtype)
    if kind is KEY and value is not fnp.zeros:
        raise TypeError(f"there is no one of dtype {KEY}")
    return made(value(shape_of(shape), held(kind)), form_of(kind, weak))


def _making(name: str) -> tuple[Function, Function]:
    """Return functions that make arrays of one number: of a shape, and of the shape and dtype of an array."""
    value = getattr(fnp, name)

    def of_shape(shape: Shape, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
        return _filled(value, shape, dtype)

    def like(
        a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
    ) -> Array:
        x = a if hasattr(a, "dtype") and hasattr(a, "shape") else as_array(a)
        weak = dtype is None and bool(getattr(x, "weak_type", False))
        return _filled(value, x.shape if shape is None else shape, x.dtype if dtype is None else dtype, weak)

    return _named(name, of_shape), _named(f"{name}_like", like)


zeros, zeros_like = _making("zeros")
ones, ones_like = _making("ones")


def full(
    shape: Shape, fill_value: Any, dtype: Any = None, sharding: Any = None, *,
    device: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return an array of one value."""
    x = as_array(fill_value)
    out = made(fnp.array(fnp.broadcast_to(x._tensor, shape_of(shape))), x.form)
    return out if dtype is None else out.astype(dtype)


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *,
    device: Any = None, out_sharding: Any = None, sharding: Any = None,
) -> Array:  # fmt: skip
    """Return an array of one value, with the shape and dtype of another."""
    like: Array = zeros_like(a, dtype, shape)
    filled = full(like.shape, fill_value, like.dtype)
    return made(filled._tensor, like.form)


def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *,
    device: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return numbers with equal distances."""
    values = [opened(v) for v in (start, stop, step) if v is not None]
    values = [v.numpy()[()] if isinstance(v, Tensor) else v for v in values]
    out = np.arange(*(values if stop is not None or step is None else [0, *values]))
    return as_array(out).astype(out.dtype if dtype is None else dtype)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Array:
    """Return `num` numbers from `start` to `stop`."""
    out = elementwise(lambda a, b: fnp.linspace(a, b, num, endpoint, axis=axis), start, stop, inexact=True)
    if dtype is None:
        return made(out._tensor, out.strong)
    return (NAMES["floor"](out) if kind_of(canonical(dtype)) in "iu" else out).astype(dtype)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None, *, device: Any = None) -> Array:  # noqa: N803 -- NumPy's names
    """Return a matrix with ones on a diagonal."""
    return as_array(np.eye(N, M, k)).astype(float if dtype is None else dtype)


def where(condition: Any, x: Any = None, y: Any = None, **kwargs: Any) -> Any:
    """Return elements of `x` where `condition` holds, of `y` elsewhere."""
    if x is None and y is None:
        return NAMES["nonzero"](condition, **kwargs)
    if kwargs or x is None or y is None:
        raise TypeError("jax.numpy.where takes a condition alone, and then a size, or with two values")
    given = as_array(condition).astype(bool)._tensor
    return elementwise(lambda a, b: fnp.where(given, a, b), x, y, keys=True)


def _sized(name: str, size: str = "size", own: str = "size") -> Function:
    """Return NumPy's function, or that of `fgrad.lax` where a size is given, also where it is traced."""
    plain = getattr(fnp, name)
    result = moved if name == "repeat" else kept
    of_any, of_size = (of_one(found, result) for found in (plain, getattr(fgrad.lax, name)))
    names = list(inspect.signature(plain).parameters)
    known = set(inspect.signature(getattr(fgrad.lax, name)).parameters)

    def function(*args: Any, fill_value: Any = None, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        a, count = given.pop(names[0]), given.pop(size, None)
        if count is None:
            return of_any(a, **given)
        given = {k: v for k, v in (given | {"fill_value": fill_value}).items() if v is not None}
        if given.keys() - known:
            raise NotImplementedError(
                f"jax.numpy.{name} with a size takes no {', '.join(given.keys() - known)}"
            )
        return of_size(a, **given, **{own: count})

    return _named(name, function)


def histogram(a: Any, *args: Any, **kwargs: Any) -> tuple[Array, Array]:
    """Return how many elements, as floating-point numbers, are between edges, and these."""
    counts, edges = _any("histogram")(a, *args, **kwargs)
    return counts.astype(edges.dtype), edges


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Array:
    """Return how often each integer occurs; with a `length`, of so many, also where traced."""
    if length is None:
        counted: Array = _any("bincount")(x, weights, minlength)
        return counted if weights is None else counted.astype(as_array(weights).dtype)
    return made(fgrad.lax.bincount(opened(as_array(x)), length, opened(weights)))


def clip(arr: Any, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None) -> Array:
    """Return elements between limits, which older programs call `a_min` and `a_max`."""
    x, min, max = as_array(arr), a_min if min is None else min, a_max if max is None else max
    if min is not None:
        x = elementwise(fnp.maximum, min, x)
    return x if max is None else elementwise(fnp.minimum, max, x)


def take(
    a: Any, indices: Any, axis: int | None = None, out: None = None, mode: Any = None, *,
    unique_indices: bool = False, indices_are_sorted: bool = False, fill_value: Any = None,
) -> Array:  # fmt: skip
    """Return elements by index; without a mode, those out of bounds are NaN, or the least integer."""
    x, i = as_array(a), array(indices)
    if mode in ("wrap", "clip"):
        return made(fnp.take(x._tensor, i._tensor, axis, mode=mode), x.strong)
    if mode not in (None, "fill"):
        raise NotImplementedError(f"The {mode!r} mode to jnp.take is not supported.")
    if axis is None:
        x, axis = x.reshape(-1), 0
    fill = None if fill_value is None else as_array(fill_value).astype(x.dtype)._tensor
    place = (*(slice(None),) * (axis % x.ndim), i._tensor)
    return made(fgrad.lax.gather(x._tensor, place, "fill", fill), x.strong)


def how(mode: Any) -> str:
    """Return how `fgrad.lax.gather` reads out of bounds in a mode of JAX's."""
    name = str(getattr(mode, "name", mode or "fill")).lower()
    return {"fill_or_drop": "fill", "promise_in_bounds": "clip"}.get(name, name)


def take_along_axis(
    arr: Any, indices: Any, axis: int | None = -1, mode: Any = None, fill_value: Any = None, *,
    wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """Return elements by an index for each place along an axis; those out of bounds as in `take`."""
    x, i = as_array(arr), as_array(indices)._tensor
    n = x.size if axis is None else x.shape[axis]
    i = i if wrap_negative_indices else fnp.where(i < 0, n if how(mode) == "fill" else 0, i)
    return made(fgrad.lax.take_along_axis(x._tensor, i, axis, how(mode), opened(fill_value)), x.strong)


def einsum(
    subscripts: str, /, *operands: Any, optimize: Any = "auto", precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None, _dot_general: Any = None,
) -> Array:  # fmt: skip
    """Return the Einstein sum of operands; axes of an ellipsis that the result leaves out are summed."""
    if getattr(_dot_general, "__name__", "dot_general") != "dot_general":
        raise NotImplementedError("fgrad's jax.numpy.einsum has products of its own: leave _dot_general out")
    terms, arrow, result = subscripts.partition("->")
    unused = [c for c in string.ascii_letters if c not in subscripts]
    if arrow:  # labels may be other characters than letters, as in opt_einsum
        for label in sorted(set(subscripts) - set(string.ascii_letters + " ,.->")):
            terms, result = (part.replace(label, unused[0]) for part in (terms, result))
            del unused[0]
        subscripts = f"{terms}->{result}"
    if "..." in terms and arrow and "..." not in result:
        parts = terms.replace(" ", "").split(",")
        for i, (part, x) in enumerate(zip(parts, operands, strict=True)):
            count = as_array(x).ndim - len(part.replace("...", ""))
            parts[i] = part.replace("...", "".join(unused[-count:] if count else ()))
        subscripts = f"{','.join(parts)}->{result}"
    arrays = wide_enough(preferred_element_type, *operands)
    out = elementwise(lambda *xs: fnp.einsum(subscripts, *xs), *arrays)
    return out if preferred_element_type is None else out.astype(preferred_element_type)


def power(x: Any, y: Any) -> Array:
    """Return powers."""
    base, exponent = as_array(x), as_array(y)
    out = elementwise(fnp.power, base, exponent, counts=True)
    return out if exponent.weak_type or exponent.dtype.kind not in "biu" else made(out._tensor, out.strong)


_WEAK = (int, float, complex)


def result_type(*args: Any) -> np.dtype[Any]:
    """Return the dtype that values and dtypes promote to."""
    kinds = []
    for a in args:
        if isinstance(a, str | type | np.dtype | Scalar | KeyType):
            kinds.append((canonical(a.dtype if isinstance(a, Scalar) else a), a in _WEAK))
        else:
            x = a if hasattr(a, "weak_type") else as_array(a)
            kinds.append((x.dtype, x.weak_type))
    return promoted(kinds)[0]  # type: ignore[no-any-return]


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Return the shape that arrays of these shapes are broadcast to."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise ValueError(f"Incompatible shapes for broadcasting: shapes={list(shapes)}") from error


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: Any = "xy") -> list[Array]:
    """Return the coordinates of the points of a grid."""
    arrays = [as_array(x) for x in xi]
    found = fnp.meshgrid(*(a._tensor for a in arrays), sparse=sparse, indexing=indexing)
    return [made(f, a.form) for f, a in zip(found, arrays, strict=True)]


def vectorize(pyfunc: Function, *, excluded: Any = frozenset(), signature: str | None = None) -> Function:
    """Return `pyfunc` applied along the axes that its signature does not name, with broadcasting."""
    if any(isinstance(name, str) for name in excluded):
        raise NotImplementedError("fgrad's jax.numpy.vectorize excludes no names: bind such arguments before")

    def function(*args: Any) -> Any:
        from fgrad.compat.jax.transformations import Flat, merged  # noqa: PLC0415 -- made of this module's arrays

        mapped = [a for i, a in enumerate(args) if i not in excluded]
        flat = Flat(lambda xs: pyfunc(*merged(args, excluded, xs)), mapped)

        def of_tensors(*tensors: Any) -> Any:
            outs = flat(*tensors)
            return outs[0] if len(outs) == 1 else tuple(outs)

        outs = fgrad.vectorize(of_tensors, signature=signature)(*flat.tensors)
        return flat.results(outs if isinstance(outs, tuple) else (outs,))

    return _named(getattr(pyfunc, "__name__", "vectorized"), function)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the array in a file, in which numbers of bfloat16 are bytes."""
    x = np.load(file, *args, **kwargs)
    if not isinstance(x, np.ndarray):
        return x
    return array(x.view(BFLOAT16) if x.dtype == "V2" else x)


def finfo(dtype: Any) -> Any:
    """Return the limits of a dtype of floating-point numbers."""
    kind = canonical(dtype_of(dtype))
    return np.finfo(kind) if kind.isbuiltin == 1 else import_module("ml_dtypes").finfo(kind)


def roots(p: Any, *, strip_zeros: bool = True) -> Array:
    """Return the roots of a polynomial, which are complex."""
    x = inexact(p)
    if not strip_zeros and x.size and not is_traced(x._tensor) and not x[0]:
        raise NotImplementedError(
            "fgrad's jax.numpy.roots has no roots of leading zeros: leave out strip_zeros"
        )
    return made(fnp.roots(x._tensor)).astype(np.result_type(x.dtype, np.complex64))


_argsort, _broadcast = of_one(fnp.argsort, _index), of_one(fnp.broadcast_to, moved)


def dtype_of(x: Any) -> Any:
    """Return the dtype that stands for itself or has another name."""
    return x.dtype if isinstance(x, Scalar | Array | np.ndarray | np.generic) else x


_SHORTER = words(  # names for annotations and tables: arrays have no such dtype
    "int2 int4 uint2 uint4 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2 float8_e5m2fnuz"
)


def short_dtypes() -> dict[str, Any]:
    """Return the dtypes that NumPy has not, where the package that has them is installed."""
    if BFLOAT16.fields:
        return {}
    package = import_module("ml_dtypes")
    return {name: Scalar(getattr(package, name)) for name in ("bfloat16", *_SHORTER)}


class Scalar:
    """`jax.numpy.float32` and its kin: a dtype, and what makes arrays of it."""

    def __init__(self, kind: Any) -> None:
        self.dtype: Any = np.dtype(kind)
        self.__name__ = self.dtype.name

    def __call__(self, x: Any = 0) -> Array:
        return array(x, self.dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Scalar):
            return bool(self.dtype == other.dtype)
        return isinstance(other, type | np.dtype | str) and bool(self.dtype == other)

    def __hash__(self) -> int:
        return hash(self.dtype.type)  # as libraries have both in sets

    def __repr__(self) -> str:
        return f"<class 'jax.numpy.{self.__name__}'>"


FFT: dict[str, Any] = {
    name: of_one(getattr(fnp.fft, name), averaged)
    for name in words("fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn")
} | {
    "fftfreq": lambda n, d=1.0, *, dtype=None: as_array(np.fft.fftfreq(n, d)).astype(float),
    "rfftfreq": lambda n, d=1.0, *, dtype=None: as_array(np.fft.rfftfreq(n, d)).astype(float),
    **{name: of_one(getattr(fnp.fft, name), moved) for name in ("fftshift", "ifftshift")},
}
SCALARS = words(
    "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128"
)
OTHERS = words(
    "append cov corrcoef diag_indices diagflat digitize ediff1d "
    "geomspace interp isin logspace partition argpartition polyval polyfit "
    "ravel_multi_index searchsorted setdiff1d union1d intersect1d spacing trapezoid tri "
    "tril_indices triu_indices unravel_index vander vecdot gradient tril_indices_from "
    "triu_indices_from diag_indices_from select apply_along_axis block unstack iscomplex isreal angle "
    "bitwise_count cumulative_sum cumulative_prod extract compress delete frexp indices insert ix_ "
    "lexsort matvec modf poly polyadd polyder polyint polysub resize setxor1d trim_zeros unwrap "
    "vecmat ldexp float_power histogram_bin_edges sort_complex bartlett blackman hamming "
    "hanning kaiser i0 apply_over_axes unique_all unique_counts unique_inverse unique_values"
)
NUMPYS = words(
    "e euler_gamma inf nan newaxis pi dtype ndim shape size floating integer inexact number generic "
    "complexfloating signedinteger unsignedinteger set_printoptions printoptions get_printoptions "
    "can_cast einsum_path index_exp s_ iterable"
)
NAMES: dict[str, Any] = {
    **{name: _elements(name, inexact=False) for name in SAME},
    **{name: _elements(name, inexact=True) for name in INEXACT},
    **{name: of_one(getattr(fnp, name), result) for result, names in OF_ONE.items() for name in names},
    **{name: product(getattr(fnp, name)) for name in PRODUCTS},
    **{name: _of_floats(getattr(fnp, name)) for name in ("convolve", "correlate")},
    **{name: _joined(name) for name in JOINS},
    **{name: _compared(name, as_array) for name in ("isclose", "allclose")},
    **{name: _compared(name, array) for name in ("array_equal", "array_equiv")},
    **{name: _any(name) for name in OTHERS},
    **{name: _sized(name, *rest) for name, *rest in SIZED},
    **{name: Scalar(name) for name in SCALARS},
    **{name: getattr(np, name) for name in NUMPYS},
    **short_dtypes(),
    "divmod": lambda x1, x2, /: (NAMES["floor_divide"](x1, x2), NAMES["remainder"](x1, x2)),
    "asarray": lambda a, dtype=None, order=None, *, copy=None, device=None: array(a, dtype),
    "astype": lambda x, dtype, /, *, copy=False, device=None: as_array(x).astype(
        float if dtype is None else dtype
    ),
    "argsort": lambda a, axis=-1, *, kind=None, order=None, stable=True, descending=False: _argsort(
        a, axis, stable=True, descending=descending
    ),
    "broadcast_arrays": lambda *args: [_broadcast(x, broadcast_shapes(*map(np.shape, args))) for x in args],
    "bool_": Scalar("bool"),
    "empty": zeros,
    "empty_like": zeros_like,
    "identity": lambda n, dtype=None: eye(n, dtype=dtype),
    "iscomplexobj": lambda x: result_type(x).kind == "c",
    "isrealobj": lambda x: result_type(x).kind != "c",
    "isscalar": lambda x: getattr(x, "shape", None) == () or isinstance(x, int | float | complex),
    "save": lambda file, arr, *args, **kwargs: np.save(file, np.asarray(arr), *args, **kwargs),
    "c_": _Columns(),
    "ndarray": Array,
    "iinfo": lambda d: np.iinfo(canonical(dtype_of(d))),
    "copy": lambda a, order=None: as_array(a).copy(),
    **by_name(
        *(arange, array, bincount, broadcast_shapes, clip, einsum, eye, finfo, full, full_like),
        *(histogram, issubdtype, linspace, load, meshgrid, ones, ones_like, polymul, power, promote_types),
        *(result_type, roots, take, take_along_axis, vectorize, where, zeros, zeros_like),
    ),
}
NAMES |= renamed(
    "around:round pow:power bitwise_invert:invert bitwise_left_shift:left_shift bool:bool_ "
    "bitwise_right_shift:right_shift concat:concatenate csingle:complex64 cdouble:complex128 single:float32 "
    "double:float64 float_:float64 int_:int64 complex_:complex128 uint:uint64",
    NAMES,
)
_METHODS = renamed(
    "all any argmax argmin argsort clip conj cumprod cumsum diagonal dot max mean min prod ravel repeat "
    "round sort squeeze std sum swapaxes take trace var flatten:ravel __round__:round "
    "__abs__:absolute __invert__:invert __neg__:negative __pos__:positive",
    NAMES,
)
for _new, _found in _METHODS.items():
    setattr(Array, _new, _found)
for _new, _found in renamed("T:transpose mT:matrix_transpose real imag", NAMES).items():
    setattr(Array, _new, property(_found))


def _is_operand(x: Any) -> bool:
    return isinstance(x, Array | int | float | complex | np.ndarray | np.generic | Tensor) or hasattr(
        x, "__jax_array__"
    )


def _pow(x: Any, y: Any) -> Any:
    if y.__class__ is int and x.form is not KEYS:  # also of what is negative
        return elementwise(lambda t: t**y, x, counts=True)
    return power(x, y)


def _operator(name: str, function: Function, *, reflected: bool = True) -> None:
    """Give arrays an operator, also of what stands on its left."""

    def apply(self: Array, other: Any) -> Any:
        return function(self, other) if _is_operand(other) else NotImplemented

    def reflect(self: Array, other: Any) -> Any:
        return function(other, self) if _is_operand(other) else NotImplemented

    setattr(Array, f"__{name}__", apply)
    if reflected:
        setattr(Array, f"__r{name}__", reflect)


_OPERATORS = renamed(
    "add sub:subtract mul:multiply truediv:true_divide floordiv:floor_divide mod:remainder and:bitwise_and "
    "or:bitwise_or xor:bitwise_xor lshift:left_shift rshift:right_shift matmul",
    NAMES,
)
for _new, _found in _OPERATORS.items():
    _operator(_new, _found)
for _new, _found in renamed(
    "eq:equal ne:not_equal lt:less le:less_equal gt:greater ge:greater_equal", NAMES
).items():
    _operator(_new, _found, reflected=False)
_operator("pow", _pow)
_operator("divmod", lambda x, y: (x // y, x % y))
