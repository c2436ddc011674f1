"""`jax.Array`: an array that nobody writes to, with JAX's dtypes and weak types; it holds a Tensor."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, ClassVar, NoReturn

import numpy as np

from fgrad import numpy as fnp
from fgrad.compat.jax.types import BFLOAT16, CONFIG, KEY, canonical, default, promoted, to_inexact
from fgrad.core.tensor import Tensor, is_traced, tensor, wrap
from fgrad.errors import NoValueError
from fgrad.extend.engine import convert
from fgrad.lax import gather, reduce_precision, scatter


class Array:
    """An array of JAX's kind.

    Operators return new arrays: `x += 1` makes a new `x`, and `x.at[i].set(v)` a changed copy.

    Numbers of bfloat16, which NumPy has not, are those of a Tensor of float32, rounded after each operation.
    Keys are integers of 64 bits, which are only moved.
    """

    __slots__ = ("__weakref__", "_tensor", "form")
    __array_priority__ = 100

    _tensor: Tensor
    form: Form
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, *_: Any) -> None:
        raise TypeError("jax.Array makes no arrays: call jax.numpy.array")

    # -- what it is

    shape: Any = property(lambda self: self._tensor.shape)
    dtype: Any = property(lambda self: dtype_of(self._tensor, self.form))
    weak_type: Any = property(lambda self: self.form is True)  # whether the dtype gives way to another one
    strong: Any = property(lambda self: strong(self.form))  # the form of results that are not weak
    ndim: Any = property(lambda self: len(self.shape))
    size: Any = property(lambda self: math.prod(self.shape))
    itemsize: Any = property(lambda self: self.dtype.itemsize)
    nbytes: Any = property(lambda self: self.size * self.itemsize)

    def __len__(self) -> int:
        return len(self._tensor)

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        kind = f"dtype={self.dtype}" + (", weak_type=True" if self.weak_type else "")
        if is_traced(self._tensor):
            return f"Traced<{kind}[{','.join(map(str, self.shape))}]>"
        if self.form is KEYS:
            return f"Array({self.shape}, {kind}) overlaying:\n{data_of_keys(self._tensor.numpy())}"
        text = np.array2string(self._value("repr"), separator=", ", prefix="Array(")
        return f"Array({text}, {kind})"

    def __str__(self) -> str:
        return repr(self) if is_traced(self._tensor) or self.form is KEYS else str(self._value("str"))

    def __format__(self, spec: str) -> str:
        is_number = not self.shape and self.form is not KEYS
        return format(self._tensor.numpy()[()], spec) if is_number else format(str(self), spec)

    # -- its values

    def _value(self, what: str) -> np.ndarray[Any, Any]:
        _refuse_keys(self.form, what)
        if is_traced(self._tensor):
            raise NoValueError(
                f"{what} needs the value of an array that is being traced; use jax.numpy, or pass what is "
                "constant as an argument of its own"
            )
        value = np.asarray(self._tensor.numpy())
        return value.astype(BFLOAT16) if self.form is SHORT else value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = self._value("numpy.asarray")
        return value.copy() if dtype is None else value.astype(dtype)

    def __bool__(self) -> bool:
        _refuse_keys(self.form, "bool")
        return bool(self._tensor)

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self._value("an index"))

    def item(self, *args: Any) -> Any:
        return self._value("item").item(*args)

    def tolist(self) -> Any:
        return self._value("tolist").tolist()

    # -- parts

    def __getitem__(self, index: Any) -> Array:
        return made(gather(self._tensor, opened(index)), self.form)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError(
            f"JAX arrays are immutable and do not support in-place item assignment; "
            f"write x = x.at[{index!r}].set(v)"
        )

    @property
    def at(self) -> _At:
        """What makes changed copies: `x.at[i].set(v)`, `.add(v)`, ..."""
        return _At(self)

    def astype(self, dtype: Any, copy: bool = False, device: Any = None) -> Array:
        wanted = canonical(dtype)
        if wanted == self.dtype and not self.weak_type:
            return self
        _refuse_keys(form_of(wanted), "astype")
        _refuse_keys(self.form, "astype")
        return made(_converted(self._tensor, wanted), form_of(wanted))

    def reshape(self, *shape: Any, order: Any = "C") -> Array:
        lengths = tuple(map(int, _in_one(shape)))
        return made(fnp.reshape(self._tensor, lengths, order=order), self.form)

    def transpose(self, *axes: Any) -> Array:
        return made(fnp.transpose(self._tensor, _in_one(axes) or None), self.form)

    def copy(self) -> Array:
        return made(self._tensor, self.form)

    def block_until_ready(self, *_: Any) -> Array:
        return self

    __copy__: Any = block_until_ready
    __deepcopy__: Any = block_until_ready

    def __reduce__(self) -> Any:
        if self.form is KEYS and not is_traced(self._tensor):
            return _unpickled, (self._tensor.numpy(), False, True)
        return _unpickled, (self._value("pickle"), self.weak_type)


def _in_one(given: Sequence[Any]) -> Any:
    """Return lengths or axes, which may be given in one tuple or list, or as None."""
    return given[0] if len(given) == 1 and isinstance(given[0], tuple | list | None) else given


def _unpickled(value: Any, weak: bool, are_keys: bool = False) -> Array:
    x = made(value, KEYS) if are_keys else as_array(value)
    return made(x._tensor, weak or x.form)


class _At:
    """The places of an array that an update is for."""

    def __init__(self, array: Array, index: Any = ()) -> None:
        self.array: Array = array
        self.index: Any = index

    def __getitem__(self, index: Any) -> _At:
        parts = opened(index if isinstance(index, tuple) else (index,))
        return _At(self.array, tuple(fnp.asarray(i) if isinstance(i, list) else i for i in parts))

    def get(self, mode: str | None = None, fill_value: Any = None, **options: Any) -> Array:
        _refuse(mode, options)
        how = "fill" if mode in ("fill", "drop") else "clip"
        return made(gather(self.array._tensor, self._index(mode), how, fill_value), self.array.form)

    def set(self, value: Any, **options: Any) -> Array:
        return self._changed(value, **options)

    def subtract(self, value: Any, **options: Any) -> Array:
        """Return a copy with something subtracted; repeated places add up."""
        return self._changed(elementwise(fnp.negative, value), fnp.add, **options)

    def apply(self, function: Callable[[Any], Any], **options: Any) -> Array:
        """Return a copy with a function of elements; every place once."""
        return self.set(function(self.get(**options)), mode=options.get("mode"))

    def _by_factors(self, combine: Callable[[Any, Any], Any], value: Any, options: dict[str, Any]) -> Any:
        """Return what is combined with ones, which the value has multiplied at these places."""
        ones = made(fnp.ones(self.array.shape, self.array._tensor.dtype), self.array.form)
        return combine(self.array, _At(ones, self.index)._changed(value, fnp.multiply, **options))

    def _changed(self, value: Any, combine: Any = None, *, mode: str | None = None, **options: Any) -> Array:
        _refuse(mode, options)
        x = self.array
        part = as_array(value).astype(x.dtype)._tensor
        if combine is not None:
            _refuse_keys(x.form, combine.__name__)
        how = "clip" if mode == "clip" else "drop"
        return made(scatter(x._tensor, self._index(mode), part, how, combine=combine), x.form)

    def _index(self, mode: str | None) -> Any:
        if mode in (None, "promise_in_bounds"):
            return self.index
        return tuple(fnp.asarray(part) if type(part) is int else part for part in self.index)


_MODES = (None, "promise_in_bounds", "clip", "fill", "drop")
_PROMISES = {"indices_are_sorted", "unique_indices", "wrap_negative_indices"}  # which change no result


def _refuse(mode: str | None, options: dict[str, Any]) -> None:
    if mode not in _MODES:
        raise ValueError(f'Unknown mode "{mode}": there are {", ".join(map(str, _MODES))}')
    if options.keys() - _PROMISES:
        raise NotImplementedError(f"fgrad's .at takes no {', '.join(options.keys() - _PROMISES)}")


# ---- from Python's and NumPy's values, and from Tensors


Form = bool | str | None
SHORT = "bfloat16"  # the form of arrays of bfloat16; of others, it is whether they are weak
KEYS = "keys"  # the form of arrays of keys
_DTYPES: dict[Any, Any] = {SHORT: BFLOAT16, KEYS: KEY}
OWN = tuple(_DTYPES)  # the forms that are dtypes


def made(value: Any, form: Form = False) -> Array:
    """Return an array on a Tensor, which nobody else may write to, or on what NumPy computed.

    Args:
        value: the numbers; those of bfloat16 are rounded here.
        form: whether the array is weak, `SHORT` where floating-point numbers are of bfloat16, or `KEYS`
            where integers of 64 bits are keys.
    """
    new: Array = object.__new__(Array)
    t = value if value.__class__ is Tensor else wrap(np.asarray(value))
    if (form is SHORT and t.dtype.kind != "f") or (form is KEYS and t.dtype != np.uint64):
        form = False
    if form is not KEYS:
        dtype = _DTYPES[form] if form is SHORT else canonical(t.dtype)
        t = t if t.dtype == dtype else _converted(t, dtype)
    new._tensor, new.form = t, form
    return new


def dtype_of(held: Any, form: Form) -> Any:
    """Return the dtype of arrays of a form, which a Tensor holds."""
    return _DTYPES.get(form) or held.dtype


def form_of(dtype: Any, weak: bool = False) -> Form:
    """Return the form of arrays of a dtype."""
    return SHORT if dtype == BFLOAT16 else KEYS if dtype is KEY else weak


def strong(form: Form) -> Form:
    """Return the form of arrays of the same dtype that are not weak."""
    return form is not True and form


def from_program(value: Any) -> Array:
    """Return an array on a Tensor of a program, where integers of 64 bits can only be keys."""
    return made(value, not CONFIG.jax_enable_x64 and KEYS)


def _refuse_keys(form: Form, what: str) -> None:
    if form is KEYS:
        raise TypeError(f"{what} does not accept dtype {KEY}: jax.random.key_data has the integers of keys")


def data_of_keys(x: Any) -> Any:
    """Return the two words of keys, along a new last axis."""
    return fnp.stack([(x >> np.uint64(32)).astype(np.uint32), x.astype(np.uint32)], -1)


def keys_of_data(x: Any) -> Any:
    """Return keys of two words each, which are along the last axis."""
    return x[..., 0].astype(np.uint64) << np.uint64(32) | x[..., 1].astype(np.uint64)


def held(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of the Tensors that hold arrays of a dtype."""
    if dtype == BFLOAT16:
        return np.dtype(np.float32)
    if dtype is KEY:
        return np.dtype(np.uint64)
    if dtype.kind not in "biufc":
        raise NotImplementedError(f"fgrad has no arrays of {dtype}: take int8, or float16")
    return dtype  # type: ignore[no-any-return]


def _rounded(t: Tensor) -> Tensor:
    rounded: Tensor = reduce_precision(t, exponent_bits=8, mantissa_bits=7)
    return rounded


def _converted(t: Tensor, dtype: np.dtype[Any]) -> Tensor:
    if held(dtype) != dtype:
        return _rounded(_converted(t, held(dtype)))
    if t.dtype == dtype:
        return t
    if t.dtype.kind == "c" and dtype.kind != "c":
        t = fnp.real(t)
    return convert(t, dtype) if dtype.kind in "fc" and t.dtype.kind in "fc" else t.astype(dtype)


def as_array(x: Any) -> Array:
    """Return a number, an array of NumPy or a Tensor as array; numbers of Python are weak."""
    if x.__class__ is Array:
        return x
    if x.__class__ in (bool, int, float, complex):
        return made(wrap(np.asarray(x, default(type(x)))), not isinstance(x, bool))
    if isinstance(x, np.ndarray | np.generic):
        if x.dtype.names == ("float0",):
            x = np.zeros(x.shape, bool)
        if x.dtype == BFLOAT16:
            return made(tensor(np.asarray(x, np.float32)), SHORT)
        if x.dtype.kind not in "biufc":
            raise TypeError(f"Value {x!r} with dtype {x.dtype} is not a valid JAX array type")
        return made(tensor(np.asarray(x)), False)
    if isinstance(x, Tensor):
        return made(fnp.array(x), False)
    if hasattr(x, "__jax_array__"):
        return as_array(x.__jax_array__())
    raise TypeError(f"Value {x!r} of type {type(x)} is not a valid JAX type: give an array or a number")


def opened(x: Any) -> Any:
    """Return an index, or arguments, with Tensors in the place of arrays."""
    if x.__class__ is Array:
        _refuse_keys(x.form, "this argument")
        return x._tensor
    if isinstance(x, tuple):
        return tuple(map(opened, x))
    if isinstance(x, list):
        return list(map(opened, x))
    if isinstance(x, slice):
        return slice(*(operator.index(i) if i.__class__ is Array else i for i in (x.start, x.stop, x.step)))
    return x


def together(
    args: Iterable[Any], *, inexact: bool = False, counts: bool = False, keys: bool = False
) -> tuple[list[Any], Form]:
    """Return the Tensors of values in the dtype that they promote to, and the form of arrays of it.

    Integers are floating-point numbers if `inexact`, truth values are integers if `counts`; keys need `keys`.
    """
    xs = [as_array(a) for a in args]
    dtype, weak = promoted((x.dtype, x.weak_type) for x in xs)
    if dtype is KEY and not keys:
        raise TypeError(f"this function does not accept dtype {KEY}")
    if inexact:
        dtype = to_inexact(dtype)
    elif counts and dtype.kind == "b":
        dtype = default(int)
    tensors = [x._tensor if x.dtype == dtype else _converted(x._tensor, dtype) for x in xs]
    return tensors, form_of(dtype, weak)


def elementwise(function: Callable[..., Any], *args: Any, **options: Any) -> Array:
    """Return a function of values, each brought to the dtype that they promote to, as `together` does."""
    tensors, form = together(args, **options)
    return made(function(*tensors), form)


def inexact(x: Any) -> Array:
    """Return a value as a strong array of floating-point numbers."""
    found = as_array(x)
    return found.astype(to_inexact(found.dtype))


def named(function: Callable[..., Any], found: str, how: str = "") -> Callable[..., Any]:
    """Return a function with the name, and a docstring, of what it calls."""
    function.__name__ = function.__qualname__ = found.rpartition(".")[2]
    function.__doc__ = f"Return what `{found}` does{how}."
    return function


def special(name: str) -> Callable[..., Any]:
    """Return a function of `fgrad.scipy.special`, which is loaded when it is called: it imports SciPy."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module("fgrad.scipy.special"), name)(*args, **kwargs)

    return named(function, f"fgrad.scipy.special.{name}")


def of_elements(function: Callable[..., Any], *, inexact: bool = False) -> Callable[..., Array]:
    """Return a function of Tensors as one of values, each brought to the dtype that they promote to."""

    @functools.wraps(function)
    def of_values(*args: Any, **kwargs: Any) -> Array:
        n, names = len(args), list(kwargs)

        def call(*xs: Any) -> Any:
            return function(*xs[:n], **dict(zip(names, xs[n:], strict=True)))

        return elementwise(call, *args, *kwargs.values(), inexact=inexact)

    return of_values


for _name, _ufunc in (
    *(("add", fnp.add), ("multiply", fnp.multiply), ("mul", fnp.multiply)),
    *(("min", fnp.minimum), ("max", fnp.maximum)),
):
    setattr(_At, _name, lambda self, value, _u=_ufunc, **options: self._changed(value, _u, **options))
for _name, _operator in (("divide", operator.truediv), ("power", operator.pow)):
    setattr(_At, _name, lambda self, value, _o=_operator, **options: self._by_factors(_o, value, options))
for _kind in (float, int, complex):
    setattr(Array, f"__{_kind.__name__}__", lambda self, _k=_kind: _k(self._value(_k.__name__)))
