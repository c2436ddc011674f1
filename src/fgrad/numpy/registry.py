"""The dispatch table from NumPy's functions, operators and methods to what computes them for Tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, TypedDict, TypeVar, overload
from typing import cast as cast_type

import numpy as np

from fgrad.compat.cpython import frame_of
from fgrad.compat.scipy import finds_roots
from fgrad.core.aval import with_dtype
from fgrad.core.dispatch import apply_binary, apply_unary, bind
from fgrad.core.operators import escape, make_tensors
from fgrad.core.primitive import FUNCTIONS, METHODS, NUMPY, OPERATORS, PRIMITIVES, UFUNCS, Primitive
from fgrad.core.tensor import Tensor, is_tracked, wrap
from fgrad.core.trace import Tracer, current
from fgrad.core.views import castable, rebind
from fgrad.errors import NoValueError
from fgrad.numpy.typing import Array, ArrayLike, Axis, Casting, DType, Order
from fgrad.ops.linear import convert

if TYPE_CHECKING:
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., Any])


def implements(*functions: Any, name: str | None = None) -> Callable[[F], F]:
    """Return the decorator that makes a function answer for NumPy's `functions` and as Tensor's `name`."""

    def register(f: F) -> F:
        for function in functions:
            if function is not None:  # a name that this NumPy does not have yet
                NUMPY[function] = f
        FUNCTIONS[name or f.__name__] = f
        return f

    return register


def named(name: str, doc: str) -> Callable[[F], F]:
    """Return a decorator for the one function that is made for several names: it gets this one, and `doc`."""

    def decorate(f: F) -> F:
        f.__name__ = f.__qualname__ = name
        f.__doc__ = doc
        return f

    return decorate


def for_tensors(reference: Callable[..., Any]) -> Callable[[F], F]:
    """Return the decorator of a function that `reference` stands in for where no argument holds a Tensor."""

    def decorate(f: F) -> F:
        @functools.wraps(f)
        def call(*args: Any, **kw: Any) -> Any:
            if any(map(holds_tensor, args)) or any(map(holds_tensor, kw.values())):
                return f(*args, **kw)
            return reference(*args, **kw)

        return cast_type("F", call)

    return decorate


def extends(function: Any) -> Callable[[F], F]:
    """Return the decorator that makes a function do for Tensors what NumPy's `function` does for arrays."""
    return lambda f: implements(function)(for_tensors(function)(f))


def declare_operators() -> None:
    """Give Tensor's operators, and NumPy's ufuncs called without keywords, their primitives.

    Operators and methods that are used most become methods without the look-up that `Operators` has, which
    takes a twentieth of the time of a small operation.
    """
    for method, name in _DIRECT.items():
        setattr(Tensor, method, FUNCTIONS[name])
    for name in ("negative", "positive", "absolute", "invert"):
        OPERATORS[name] = _one(PRIMITIVES[name])
    for name, letters in _LETTERS.items():
        declare_operator(name, letters, _two(PRIMITIVES[name]))
        if letters not in _COMPARISONS:
            setattr(Tensor, f"__r{letters}__", _reflected(PRIMITIVES[name]))
    for primitive in PRIMITIVES.values():
        # a ufunc may serve two primitives (sqrt and root): its own is the one of its name
        if (
            isinstance(primitive.run, np.ufunc)
            and primitive.run in NUMPY
            and primitive.name == primitive.run.__name__
            and not primitive.linear
        ):
            UFUNCS[primitive.run] = _one(primitive) if primitive.run.nin == 1 else _two(primitive)
    UFUNCS[np.isnan] = _isnan


_REDUCTIONS = ("all", "any", "max", "mean", "min", "prod", "std", "sum", "var")
_DIRECT = {"__getitem__": "getitem", "__setitem__": "setitem", **{name: name for name in _REDUCTIONS}}
# fmt: off
_LETTERS = {  # a primitive -> its operator in Python's data model
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv",
    "remainder": "mod", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
    "left_shift": "lshift", "right_shift": "rshift", "equal": "eq", "not_equal": "ne",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}
# fmt: on
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}  # each is the reflection of another


def declare_operator(name: str, letters: str, f: Callable[..., Any]) -> None:
    """Make `f` the operator `name`, for Tensors and for lookups in `OPERATORS`."""
    OPERATORS[name] = f
    setattr(Tensor, f"__{letters}__", f)


def _one(primitive: Primitive) -> Callable[[Any], Any]:
    def apply(x: Any) -> Any:
        return apply_unary(primitive, x)

    return apply


def _isnan(x: Tensor) -> Any:
    """Return where `x` is NaN, unless it is the result of a function whose root SciPy looks for."""
    if finds_roots(frame_of(2)):
        x._untracked("float()")
    return apply_unary(PRIMITIVES["isnan"], x)


def _two(primitive: Primitive) -> Callable[[Any, Any], Any]:
    def apply(x: Any, y: Any) -> Any:
        return apply_binary(primitive, x, y)

    return apply


def _reflected(primitive: Primitive) -> Callable[[Any, Any], Any]:
    def apply(y: Any, x: Any) -> Any:
        return apply_binary(primitive, x, y)

    return apply


class Keywords(TypedDict, total=False):
    """The keywords of universal functions."""

    where: ArrayLike
    casting: Casting
    order: Order
    dtype: DType
    subok: bool


Out: TypeAlias = Array | tuple[Array | None, ...] | None


class _Description:
    """The docstring of a class, and of its instances one that is composed when somebody reads it."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __get__(self, instance: Ufunc | None, owner: type[Ufunc]) -> str | None:
        if instance is None:
            return self.text
        composed: str = instance.__dict__.setdefault("__doc__", instance.describe())
        return composed


class Ufunc:
    """A universal function: calls with NumPy's arguments and keywords, and NumPy's methods.

    For plain arrays it is NumPy's own. Targets (`out`) may be Tensors.
    """

    ufunc: np.ufunc
    primitive: Primitive
    nin: int
    nout: int
    nargs: int
    identity: Any
    ntypes: int
    types: list[str]
    describe: Callable[[], str]

    def __init__(
        self,
        ufunc: np.ufunc,
        doc: str,
        slopes: str | tuple[str | None, ...] | None,
        example: str,
        convention: str = "",
        *,
        primitive: str | None = None,
    ) -> None:
        """Declare what answers for `ufunc`.

        Args:
            ufunc: NumPy's.
            doc: what it returns.
            slopes: in each operand, as NumPy's formula in x and y; None: there are none.
            example: "operands -> result".
            convention: what derivatives are where the formula does not say it.
            primitive: the name of its primitive; None: its own name.
        """
        self.slopes: tuple[str | None, ...] = slopes if isinstance(slopes, tuple) else (slopes,) * ufunc.nin
        self._take(
            ufunc,
            ufunc.__name__,
            lambda: described(ufunc, doc, self.slopes, example, convention),
            primitive or ufunc.__name__,
            "fgrad.numpy",
        )
        NUMPY[ufunc] = FUNCTIONS[ufunc.__name__] = self

    def __init_subclass__(cls) -> None:
        cls.__doc__ = _Description(cls.__doc__)  # type: ignore[assignment]

    def _take(
        self, ufunc: np.ufunc, name: str, describe: Callable[[], str], primitive: str, module: str
    ) -> None:
        """Take the attributes of `ufunc`; `describe` returns the docstring."""
        self.__name__ = self.__qualname__ = name
        self.__module__, self.describe = module, describe
        self.ufunc, self.primitive = ufunc, PRIMITIVES[primitive]
        self.nin, self.nout, self.nargs, self.identity = ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.identity
        self.ntypes, self.types, self.signature = ufunc.ntypes, ufunc.types, ufunc.signature

    def __repr__(self) -> str:
        return f"<ufunc {self.__module__}.{self.__name__}>"

    def __reduce__(self) -> str:
        return self.__name__

    def __call__(self, *args: Any, **kw: Any) -> Any:
        """Apply the function to each element."""
        raise NotImplementedError

    def reduce(
        self, array: ArrayLike, axis: Axis = 0, dtype: DType = None, out: Array | None = None, **kw: Any
    ) -> Any:
        """Return the elements along axes combined to one; keywords: keepdims, initial, where."""
        return self._method("reduce", array, axis=axis, dtype=dtype, out=out, **kw)

    def accumulate(
        self, array: ArrayLike, axis: SupportsIndex = 0, dtype: DType = None, out: Array | None = None
    ) -> Any:
        """Return at each position along an axis the elements up to it combined."""
        return self._method("accumulate", array, axis=axis, dtype=dtype, out=out)

    def reduceat(
        self,
        array: ArrayLike,
        indices: ArrayLike,
        axis: SupportsIndex = 0,
        dtype: DType = None,
        out: Array | None = None,
    ) -> Any:
        """Return the elements between successive indices combined."""
        return self._method("reduceat", array, indices, axis=axis, dtype=dtype, out=out)

    def outer(self, a: ArrayLike, b: ArrayLike, /, **kw: Any) -> Any:
        """Return the function of every pair of elements of `a` and `b`."""
        return self._method("outer", a, b, **kw)

    def at(self, a: Any, indices: Any, /, *b: Any) -> None:
        """Apply the function in place at `indices`, again for each repetition of an index."""
        self._method("at", a, indices, *b)

    def _method(self, method: str, *args: Any, **kw: Any) -> Any:
        if holds_tensor((args, *kw.values())):
            return METHODS[method](self.ufunc, *args, **kw)
        return getattr(self.ufunc, method)(*args, **kw)


_OPERANDS = ("x", "y")
_KINDS = {"?": "truth values", "i": "integers", "f": "floats", "c": "complex numbers"}
_DOC = """{doc}

Args:
    {operands}: {what}.
    out: array or Tensor for the result, of its shape.
    where: truth values, where to compute; elsewhere the result is what `out` holds.
    dtype: that of the computation and the result, if not the promoted one.
    casting: what conversions are allowed, as in NumPy.
    order: taken for NumPy's sake, as is `subok`.

Returns:
    {shape}: {dtype}.
{errors}
Derivative:
    {derivative}.

Differences from NumPy:
    Without `out`, results that are Tensors are zero where `where` is false; NumPy leaves them undefined.

Example:
    >>> fnp.{name}({given})
    {result}
"""


def described(
    ufunc: np.ufunc, doc: str, slopes: tuple[str | None, ...], example: str, convention: str
) -> str:
    """Return the docstring of a universal function: what is its own, and what its loops tell."""
    taken, given = _kinds(tuple(ufunc.types))
    missing = [word for k, word in _KINDS.items() if k not in taken and k in "fc"]
    if given == {"?"}:
        dtype = "truth values"
    elif "i" not in taken:
        dtype = "floats" + (" or complex numbers" if "c" in taken else "") + "; integers give floats"
    elif not {"f", "c"} & given:
        dtype = "integers"
    else:
        dtype = "the promoted dtype" if ufunc.nin > 1 else "the dtype of `x`"
        dtype += ", of complex numbers that of their parts" if ufunc is np.absolute else ""
    if len(set(slopes)) == 1 and slopes[0] is None:
        derivative = f"None: the results are {dtype.partition(';')[0]}"
    elif set(slopes) == {"0"}:
        derivative = "Zero everywhere, at jumps too"
    elif len(slopes) == 1:
        derivative = f"`{slopes[0]}`"
    else:
        pairs = zip(_OPERANDS, slopes, strict=False)
        derivative = "; ".join(f"in {x} " + (f"`{s}`" if s else "none") for x, s in pairs)
        derivative = f"I{derivative[1:]}"
    if ufunc.nout > 1:
        derivative = convention[0].upper() + convention[1:]
    elif convention:
        derivative += f"; {convention}"
    operands, result = example.split(" -> ")
    errors = f"\nRaises:\n    TypeError: {' and '.join(missing)} are no operands.\n" if missing else ""
    one = ufunc.nin == 1
    return _DOC.format(
        doc=doc,
        operands="x" if one else "x, y",
        what="array, number or Tensor" if one else "arrays, numbers or Tensors whose shapes broadcast",
        shape=("Array" if ufunc.nout == 1 else "Two arrays")
        + (" of the shape of `x`" if one else " of the shape to which both broadcast"),
        dtype=dtype,
        errors=errors,
        derivative=derivative,
        name=ufunc.__name__,
        given=operands,
        result=result,
    )


@functools.cache  # many functions have the same loops
def _kinds(types: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """Return the kinds of numbers that loops take, and that they make."""
    loops = [loop.split("->") for loop in types if not {*"OmM"} & {*loop}]
    return {_kind(letters) for letters, _ in loops}, {_kind(made) for _, made in loops}


@functools.cache
def _kind(letters: str) -> str:
    """Return the greatest kind of some of NumPy's letters of dtypes."""
    return next(k for k in "cfi?" if any(_KIND_OF[letter] == k for letter in letters))


_KIND_OF = (
    dict.fromkeys("FDG", "c") | dict.fromkeys("efdg", "f") | dict.fromkeys("bBhHiIlLqQ", "i") | {"?": "?"}
)


class Unary(Ufunc):
    """A universal function of one operand."""

    __signature__: inspect.Signature = inspect.signature(
        lambda x, /, out=None, *, where=True, casting="same_kind", order="K", dtype=None, subok=True: None
    )

    @overload
    def __call__(self, x: Tensor, /, out: Out = None, **kw: Unpack[Keywords]) -> Tensor: ...
    @overload
    def __call__(self, x: ArrayLike, /, out: Out = None, **kw: Unpack[Keywords]) -> Array: ...
    def __call__(self, x: Any, /, *out: Any, **kw: Any) -> Any:
        """Apply the function to each element."""
        return with_keywords(self, (x,), *out, **kw) if out or kw else apply_unary(self.primitive, x)


class Binary(Ufunc):
    """A universal function of two operands, which broadcast."""

    __signature__: inspect.Signature = inspect.signature(
        lambda x, y, /, out=None, *, where=True, casting="same_kind", order="K", dtype=None, subok=True: None
    )

    @overload
    def __call__(self, x: Tensor, y: ArrayLike, /, out: Out = None, **kw: Unpack[Keywords]) -> Tensor: ...
    @overload
    def __call__(self, x: ArrayLike, y: Tensor, /, out: Out = None, **kw: Unpack[Keywords]) -> Tensor: ...
    @overload
    def __call__(self, x: ArrayLike, y: ArrayLike, /, out: Out = None, **kw: Unpack[Keywords]) -> Array: ...
    def __call__(self, x: Any, y: Any, /, *out: Any, **kw: Any) -> Any:
        """Apply the function to each pair of elements."""
        if out or kw:
            return with_keywords(self, (x, y), *out, **kw)
        result = apply_binary(self.primitive, x, y)
        if result is NotImplemented:
            if getattr(x, "dispatches", False) or getattr(y, "dispatches", False):
                return self.ufunc(x, y)
            given = f"{type(x).__name__} and {type(y).__name__}"
            raise TypeError(f"{self.__name__} takes arrays, numbers and Tensors, not {given}")
        return result


class Paired(Ufunc):
    """A universal function with two results."""

    apply: Callable[..., tuple[Any, Any]]

    def __init__(
        self,
        ufunc: np.ufunc,
        doc: str,
        slopes: str,
        example: str,
        apply: Callable[..., tuple[Any, Any]],
        primitive: str,
    ) -> None:
        """Declare what answers for `ufunc`.

        Args:
            ufunc: NumPy's.
            doc: what it returns.
            slopes: in words, of both results.
            example: "operands -> results".
            apply: (*operands) -> both results.
            primitive: the name of the primitive of the first one.
        """
        super().__init__(ufunc, doc, None, example, slopes, primitive=primitive)
        self.apply = apply

    @overload
    def __call__(
        self, x: Tensor, /, *more: ArrayLike, out: Out = None, **kw: Unpack[Keywords]
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(
        self, x: ArrayLike, /, *more: ArrayLike, out: Out = None, **kw: Unpack[Keywords]
    ) -> tuple[Array, Array]: ...
    def __call__(self, *args: Any, out: Any = None, where: Any = True, **kw: Any) -> Any:
        """Apply the function to each element, or pair of elements."""
        operands, targets = args[: self.nin], args[self.nin :]
        if targets and out is not None:
            raise TypeError("cannot specify 'out' as both a positional and keyword argument")
        if out is not None and not isinstance(out, tuple):
            raise TypeError("'out' must be a tuple of arrays")
        targets = (*targets, None, None)[:2] if out is None else out
        if not holds_tensor((*operands, where, targets)):
            return self.ufunc(*operands, out=targets, where=where, **kw)
        results = self.apply(*cast_operands(self.ufunc, operands, **kw))
        return tuple(_chosen(y, where, t) for y, t in zip(results, targets, strict=True))


_SEQUENCES = (list, tuple)  # made once: who makes `list | tuple` for a question waits twice as long


def holds_tensor(x: Any) -> bool:
    """Return whether a nested sequence holds a Tensor."""
    return isinstance(x, Tensor) or (isinstance(x, _SEQUENCES) and any(map(holds_tensor, x)))


def with_keywords(
    f: Ufunc, args: tuple[Any, ...], *outs: Any, out: Any = None, where: Any = True, **kw: Any
) -> Any:
    """Apply a ufunc with the arguments and keywords beside the operands that NumPy's take."""
    if outs and out is not None:
        raise TypeError("cannot specify 'out' as both a positional and keyword argument")
    if len(outs) > 1:
        raise TypeError(f"{f.__name__}() takes at most {f.nin + 1} positional arguments")
    out = outs[0] if outs else out[0] if isinstance(out, tuple) else out
    if not holds_tensor((*args, where, out)):
        return f.ufunc(*args, out=out, where=where, **kw)
    next_to = FUNCTIONS["next_to"]
    args = tuple([next_to(a, *args, where, out) if isinstance(a, list | tuple) else a for a in args])
    return _chosen(bind(f.primitive.name, *cast_operands(f.ufunc, args, **kw)), where, out)


def _chosen(result: Any, where: Any, out: Any) -> Any:
    """Return a result where it is asked for, elsewhere zero or what is in `out`, to which it is given."""
    if where is not True:
        where = FUNCTIONS["next_to"](where, result)
        if where.dtype.kind != "b":
            raise TypeError(f"Cannot cast array data from {where.dtype} to bool according to the rule 'safe'")
        result = bind("where", where, result, np.zeros((), result.dtype) if out is None else out)
    return stored(result, out)


_WEAK: dict[type, Any] = {int: int, float: float, complex: complex, bool: np.dtype(bool)}


def cast_operands(
    ufunc: np.ufunc,
    args: tuple[Any, ...],
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
    order: str = "K",
    subok: bool = True,
) -> tuple[Any, ...]:
    """Return the operands in the dtypes with which NumPy computes results of `dtype`."""
    if dtype is None:
        return args
    args = tuple(a if hasattr(a, "dtype") or a.__class__ in _WEAK else np.asarray(a) for a in args)
    kinds = tuple(a.dtype if hasattr(a, "dtype") else _WEAK[a.__class__] for a in args)
    results = ufunc.nout
    signature = (*(None,) * len(args), *(np.dtype(dtype),) * results)
    loop = ufunc.resolve_dtypes((*kinds, *(None,) * results), signature=signature, casting=casting)
    # it has checked `casting`, but for logical functions, which take anything as truth values
    return tuple(cast(a, kind, "unsafe") for a, kind in zip(args, loop, strict=False))


def cast(a: Any, dtype: np.dtype[Any], casting: Any) -> Any:
    """Return an array or Tensor as `dtype`, a Python number as it is.

    Raises:
        TypeError: `casting` forbids it.
    """
    if a.__class__ in {bool, int, float, complex}:
        return a
    a = with_dtype(a)
    if not np.can_cast(a.dtype, dtype, casting):
        raise TypeError(f"cannot cast from {a.dtype} to {dtype} with casting={casting!r}")
    return convert(a, dtype)


def written_back(result: Any, out: Any) -> Any:
    """Return `result`, after giving it to a target whose dtype need only be safe to read as that of it.

    That is what NumPy asks of functions that are no ufuncs; the result is cast to the dtype of the target.
    """
    if out is None:
        return result
    if not np.can_cast(out.dtype, result.dtype):
        raise TypeError(
            f"Cannot cast array data from {out.dtype} to {result.dtype} according to the rule 'safe'"
        )
    return stored(convert(result, out.dtype), out)


def stored(result: Any, out: Any) -> Any:
    """Return `result`, after giving it to the Tensor or array `out` if there is one."""
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        return result
    if isinstance(out, Tensor):
        rebind(out, castable(out, result if isinstance(result, Tensor) else wrap(result)))
        return out
    np.copyto(out, storable(result), casting="same_kind")
    return out


def elements(x: Any) -> Any:
    """Return the elements of a value, of all examples of batches; None where they are not known."""
    while isinstance(x, Tensor):
        x = x._value
        if isinstance(x, Tracer):
            x = x.held
    return x


def as_scalar(x: Any) -> Any:
    """Return a result without axes as the scalar that NumPy returns, which is read-only."""
    if isinstance(x, Tensor):
        value = x._value
        if value.__class__ is np.ndarray and not value.ndim:
            return wrap(value[()], x._nodes)
        if isinstance(value, Tracer) and (scalar := value.as_scalar()) is not value:
            return wrap(scalar, x._nodes)
    return x


def as_array(x: Any) -> Any:
    """Return a result without axes as the array that NumPy returns, which can be written to."""
    if x.__class__ is not Tensor:
        return np.asarray(x)
    value = x._value
    if isinstance(value, np.generic):
        return wrap(np.asarray(value), x._nodes)
    if isinstance(value, Tracer) and (array := value.as_array()) is not value:
        return wrap(array, x._nodes)
    return x


def storable(value: Any) -> Any:
    """Return what an array of NumPy is to hold, which cannot be a Tensor that is being differentiated."""
    if not isinstance(value, Tensor):
        return value
    tracer = value._value
    if isinstance(tracer, Tracer) and tracer.trace in current().traces:
        raise NoValueError(
            f"a NumPy array cannot hold a Tensor whose value {tracer.trace.title} does not have. "
            f"{make_tensors()}; or write out = out + x instead of out += x"
        )
    if is_tracked(value):
        escape(
            "a NumPy array cannot hold a Tensor that is being differentiated, so its gradient would be lost. "
            f"{make_tensors()}; or write out = out + x instead of out += x"
        )
    return value.detach().numpy()
