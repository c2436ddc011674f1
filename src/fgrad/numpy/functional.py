"""Functions of functions: along axes, element by element, piece by piece."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad import tree
from fgrad.core.dispatch import bind
from fgrad.core.placement import buffer_of, near
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import current, user_place
from fgrad.core.views import laid_out_like
from fgrad.numpy.arrays import array, as_value, asarray, concrete, together
from fgrad.numpy.indexing import getitem, setitem
from fgrad.numpy.registry import as_array, cast, holds_tensor, implements
from fgrad.numpy.shapes import expand_dims, moveaxis
from fgrad.ops import linear
from fgrad.ops.indexing import unstack

if TYPE_CHECKING:
    from typing_extensions import Self


def _rows(x: Any, rank: int) -> list[Any]:
    """Return the parts of `x` that its last `rank` axes make, in C order of the others."""
    lead, core = x.shape[: len(x.shape) - rank], x.shape[len(x.shape) - rank :]
    flat = linear.reshape(x, (int(np.prod(lead, dtype=int)), *core))
    return list(unstack(flat)) if isinstance(flat, Tensor) else list(flat)


def _stacked(parts: Sequence[Any], lead: tuple[int, ...], dtype: Any = None) -> Any:
    """Return parts of one shape as an array with the axes `lead` in front, as NumPy fills one."""
    values = [as_value(p) for p in parts]
    kind = values[0].dtype if dtype is None else np.dtype(dtype)
    core = tuple(values[0].shape)
    if any(v.dtype != kind or v.shape != core for v in values):
        values = [linear.convert(linear.broadcast_to(v, core), kind) for v in values]
    return linear.reshape(bind("stack", *values), (*lead, *core))


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Return `func1d(vector, *args, **kwargs)` of every vector along an axis.

    Args:
        func1d: takes a vector; returns a number or array, always of one shape.
        axis: the axis; that of the results takes its place.
        arr: array.
        *args: further arguments of the function.
        **kwargs: its keyword arguments.

    Returns:
        Array of the shape of `arr` with the axis replaced by the shape of what the function returns, whose
        dtype it
        has.

    Raises:
        ValueError: there is no vector.

    Derivative:
        That of the function, called once for every vector.

    Example:
        >>> fnp.apply_along_axis(np.sum, 0, np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([4., 6.])
    """
    x = as_value(arr)
    axis = normalize_axis_index(axis, len(x.shape))
    last = moveaxis(x, axis, -1)
    lead = tuple(last.shape[:-1])
    if 0 in lead:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    results = [func1d(v, *args, **kwargs) for v in _rows(last, 1)]
    y = _stacked(results, lead)
    n, k = len(lead), len(y.shape) - len(lead)
    order = (*range(axis), *range(n, n + k), *range(axis, n))
    return as_array(linear.transpose(y, order))


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Any) -> Any:
    """Return `func(a, axis)` applied over several axes one after the other, each kept with length one.

    Returns:
        Array of as many axes as `a`, those of `axes` of length one.

    Raises:
        ValueError: the function removes more than the axis.

    Derivative:
        That of the functions one after the other.

    Example:
        >>> fnp.apply_over_axes(np.sum, np.ones((2, 3)), [0, 1])
        array([[6.]])
    """
    y = as_value(a)
    n = len(y.shape)
    for given in (axes,) if np.ndim(axes) == 0 else axes:
        axis = int(given) + n if given < 0 else int(given)
        result = func(y, axis)
        if np.ndim(result) != n:
            result = expand_dims(result, axis)
        if np.ndim(result) != n:
            raise ValueError("function is not returning an array of the correct shape")
        y = result
    return y


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """Return functions of the elements, each of those for which its condition holds.

    Args:
        x: array, whose shape and dtype the result has.
        condlist: conditions of its shape, or one; where several hold the last one counts.
        funclist: as many functions or numbers as conditions, or one more for where none holds.
        *args: further arguments of the functions.
        **kw: their keyword arguments.

    Returns:
        Array of the shape and dtype of `x`.

    Raises:
        ValueError: another number of functions.

    Derivative:
        That of the function taken, and of the numbers.

    Example:
        >>> fnp.piecewise(np.array([-1.0, 2.0]), [np.array([True, False])], [0.0, lambda x: x**2])
        array([0., 4.])
    """
    single = _is_number(condlist) or (np.ndim(x) > 0 and _is_number(condlist[0]))
    x, *conditions = together(x, *([condlist] if single else condlist))
    masks = [concrete(c, "piecewise").astype(bool) for c in conditions]
    n, wanted = len(masks), len(funclist)
    if n == wanted - 1:
        masks.append(~functools.reduce(np.logical_or, masks))
    elif n != wanted:
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    y, any_tensor = wrap(near(x).zeros(x.shape, x.dtype)), isinstance(x, Tensor) or holds_tensor(condlist)
    for mask, f in zip(masks, funclist, strict=True):
        if callable(f):
            part = getitem(x, mask)
            if not part.size:
                continue
            value = f(part, *args, **kw)
        else:
            value = f
        any_tensor = any_tensor or holds_tensor(value)
        setitem(y, mask, value)
    return laid_out_like(y, x) if any_tensor else y.numpy()


def _is_number(x: Any) -> bool:
    return not isinstance(x, list | tuple) and np.ndim(x) == 0


class vectorize:  # noqa: N801 -- NumPy's name
    """A function of numbers made one of arrays: called once for every element, or every core of a signature.

    Args:
        pyfunc: takes and returns numbers, or arrays of the core axes of `signature`; without it a decorator.
        otypes: the dtypes of the results, as a string of codes or a sequence; by default those of the first
            results.
        doc: the docstring.
        excluded: positions and names of arguments that are passed as they are.
        cache: taken for NumPy's sake: no call is made twice.
        signature: core axes as in "(m,n),(n)->(m)".

    Returns:
        A function, whose results have the shape to which the arguments broadcast, behind them core axes.

    Derivative:
        That of the function: inside of a transformation Tensors among the arguments arrive as Tensors,
        without axes or with core axes; outside, their elements arrive as numbers, which is much faster.

    Example:
        >>> larger = fnp.vectorize(lambda a, b: a if a > b else b)
        >>> larger(np.array([1.0, 5.0]), 2.0)
        array([2., 5.])
    """

    pyfunc: Any
    otypes: Any
    signature: str | None
    cache: bool
    excluded: set[Any]
    __name__: Any | str

    def __init__(
        self,
        pyfunc: Any = None,
        otypes: Any = None,
        doc: str | None = None,
        excluded: Iterable[Any] | None = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        self.pyfunc, self.otypes, self.signature, self.cache = pyfunc, otypes, signature, cache
        self.excluded = set(excluded or ())
        self._kinds = None if otypes is None else [np.dtype(t) for t in otypes]
        self._terms = None if signature is None else _parsed_signature(signature)
        self.__doc__ = getattr(pyfunc, "__doc__", None) if doc is None else doc
        self.__name__ = getattr(pyfunc, "__name__", "vectorize")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results for every element of the broadcast arguments."""
        options = (self.otypes, self.__doc__, self.excluded, self.cache, self.signature)
        if self.pyfunc is None:
            return vectorize(args[0], *options)
        if not any(map(holds_tensor, (*args, *kwargs.values()))):
            return np.vectorize(self.pyfunc, *options)(*args, **kwargs)
        plain = not any(near(x) is not np for x in (*args, *kwargs.values()))
        if plain and not current().traces:  # nobody asks for a derivative: NumPy's own loop over numbers
            given = [x if i in self.excluded else concrete(x, "vectorize") for i, x in enumerate(args)]
            named = {k: x if k in self.excluded else concrete(x, "vectorize") for k, x in kwargs.items()}
            return tree.map(Tensor, np.vectorize(self.pyfunc, *options)(*given, **named))
        arguments: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        places = [p for p in arguments if p not in self.excluded]
        inputs = together(*(arguments[p] for p in places))
        ranks, sizes = self._cores(inputs)
        lead = np.broadcast_shapes(*(x.shape[: len(x.shape) - r] for x, r in zip(inputs, ranks, strict=True)))
        rows = []
        for x, r in zip(inputs, ranks, strict=True):
            full = linear.broadcast_to(x, (*lead, *x.shape[len(x.shape) - r :]))
            rows.append(_rows(full, r) if isinstance(full, Tensor) else map(_number_or_array, _rows(full, r)))
        if places == list(range(len(args))) and not kwargs:
            return self._collected(list(map(self.pyfunc, *rows)), lead, sizes)
        results = []
        for parts in zip(*rows, strict=True):
            filled = {**arguments, **dict(zip(places, parts, strict=True))}
            positional = [filled.pop(i) for i in range(len(args))]
            results.append(self.pyfunc(*positional, **filled))
        return self._collected(results, lead, sizes)

    def _cores(self, inputs: Sequence[Any]) -> tuple[list[int], dict[str, int]]:
        """Return how many core axes each input has, and their lengths by name."""
        if self._terms is None:
            return [0] * len(inputs), {}
        left, _ = self._terms
        if len(left) != len(inputs):
            raise TypeError(f"wrong number of positional arguments: expected {len(left)}, got {len(inputs)}")
        sizes: dict[str, int] = {}
        for x, names in zip(inputs, left, strict=True):
            if len(x.shape) < len(names):
                raise ValueError(f"an argument of shape {x.shape} has too few axes for the core {names}")
            for name, n in zip(names, x.shape[len(x.shape) - len(names) :], strict=True):
                if sizes.setdefault(name, n) != n:
                    raise ValueError(f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]}")
        return [len(names) for names in left], sizes

    def _collected(self, results: Sequence[Any], lead: tuple[int, ...], sizes: dict[str, int]) -> Any:
        """Return the results of all calls as one array, or a tuple of arrays where each is a tuple."""
        terms = self._terms and self._terms[1]
        if not results:
            if self._kinds is None:
                raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
            cores = [tuple(sizes[n] for n in t) for t in terms] if terms else [()] * len(self._kinds)
            pairs = zip(cores, self._kinds, strict=True)
            made = [Tensor(np.zeros((*lead, *core), kind)) for core, kind in pairs]
            return made[0] if len(made) == 1 else tuple(made)
        several = isinstance(results[0], tuple)
        columns = list(zip(*results, strict=True)) if several else [results]
        if terms and len(terms) != len(columns):
            raise ValueError(f"wrong number of outputs: expected {len(terms)}, got {len(columns)}")
        kinds = self._kinds or [None] * len(columns)
        made = [asarray(_stacked(c, lead, kind)) for c, kind in zip(columns, kinds, strict=True)]
        return tuple(made) if several else made[0]


def _number_or_array(x: Any) -> Any:
    return x if x.shape else x.item()


def _parsed_signature(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the names of the core axes of inputs and outputs.

    Raises:
        ValueError: `signature` is not of the form "(m,n),(n)->(m)".
    """
    np.vectorize(lambda: None, signature=signature)  # it knows what is valid
    left, right = signature.replace(" ", "").split("->")

    def terms(text: str) -> list[tuple[str, ...]]:
        return [tuple(filter(None, term.split(","))) for term in text[1:-1].split("),(")]

    return terms(left), terms(right)


class ndenumerate:  # noqa: N801 -- NumPy's name
    """The elements of an array with their indices: (index, element), elements of a Tensor being Tensors.

    Returns:
        Iterator over pairs of a tuple of integers and an element, in C order.

    Derivative:
        The identity for each element of a Tensor.

    Example:
        >>> for index, x in fnp.ndenumerate(fg.tensor([[1.0, 2.0]])):
        ...     print(index, x)
        (0, 0) 1.0
        (0, 1) 2.0
    """

    def __init__(self, arr: Any) -> None:
        x = arr if isinstance(arr, Tensor) else array(arr) if holds_tensor(arr) else None
        self._pairs: Iterator[Any] = (
            np.ndenumerate(arr) if x is None else zip(np.ndindex(*x.shape), _rows(x, 0), strict=True)
        )

    def __next__(self) -> tuple[tuple[int, ...], Any]:
        place, element = next(self._pairs)
        return place, element

    def __iter__(self) -> ndenumerate:
        return self


class nditer:  # noqa: N801 -- NumPy's name
    """The elements of arrays that broadcast, together, each as an array or Tensor without axes, for reading.

    Of arrays alone it is NumPy's own.

    Args:
        op: an array, or a list or tuple of them.
        flags: those that say nothing of memory: "multi_index", "c_index", "f_index", "zerosize_ok", ...
        op_flags: "readonly", for each array.
        op_dtypes: what each is converted to.
        order: "C" or "F"; "K" and "A" where all lie in C order.
        casting: which conversions are allowed.
        op_axes: None; move axes first.
        itershape: the shape to which all broadcast; None: the least.
        buffersize: taken for NumPy's sake.

    Returns:
        Iterator over elements, or tuples of elements of several arrays, each without axes.

    Raises:
        TypeError: something is to be written, or asks for memory.
        ValueError: an array without elements, but for "zerosize_ok".

    Derivative:
        The identity for each element of a Tensor.

    Example:
        >>> [float(x) for x in fnp.nditer(fg.tensor([1.0, 2.0]))]
        [1.0, 2.0]
    """

    multi_index: Any  # the place of the element; with the flag of this name
    index: int  # its number in C or Fortran order; with the flags "c_index", "f_index"
    shape: tuple[int, ...]
    ndim: int
    nop: int
    itersize: int
    iterindex: int
    operands: tuple[Any, ...]
    _order: Any

    def __new__(cls, op: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: D102 -- the class says it
        found = holds_tensor(list(op) if isinstance(op, list | tuple) else op)
        return super().__new__(cls) if found else np.nditer(op, *args, **kwargs)

    def __init__(
        self,
        op: Any,
        flags: Sequence[str] | None = None,
        op_flags: Any = None,
        op_dtypes: Any = None,
        order: str = "K",
        casting: Any = "safe",
        op_axes: Any = None,
        itershape: Any = None,
        buffersize: int = 0,
    ) -> None:
        self._flags = frozenset(flags or ())
        said = {f for fs in op_flags or () for f in ([fs] if isinstance(fs, str) else fs)}
        unknown = (self._flags - _ITER_FLAGS) | (
            said - {"readonly", "nbo", "aligned", "contig", "copy", "no_broadcast"}
        )
        if unknown or op_axes is not None:
            names = ", ".join(sorted(unknown)) or "op_axes"
            raise TypeError(
                f"nditer of Tensors only reads elements one by one, without {names}: a Tensor is a handle on "
                "a value. Loop over numpy.ndindex(x.shape) and write y[index] = ..., or compute with whole "
                "arrays"
            )
        several = isinstance(op, list | tuple)
        found = together(*(op if several else [op]))
        kinds = op_dtypes if op_dtypes is None or isinstance(op_dtypes, list | tuple) else [op_dtypes]
        if kinds is not None:
            found = [
                x if k is None else cast(x, np.dtype(k), casting) for x, k in zip(found, kinds, strict=True)
            ]
        shapes = [tuple(x.shape) for x in found]
        self.shape = np.broadcast_shapes(*shapes, *(() if itershape is None else (tuple(itershape),)))
        self.ndim, self.nop, self.itersize = len(self.shape), len(found), math.prod(self.shape)
        if not self.itersize and "zerosize_ok" not in self._flags:
            raise ValueError("Iteration of zero-sized operands is not enabled")
        self.operands = tuple(found)
        self._order = order if order in {"C", "F"} else _common_order(found, order)
        self._whole = [linear.broadcast_to(x, self.shape) for x in found]
        self.reset()

    def reset(self) -> None:
        """Go back to the first element."""
        axes = tuple(range(self.ndim))[:: -1 if self._order == "F" else 1]
        rows = [_rows(linear.transpose(x, axes), 0) for x in self._whole]
        self._elements, self.iterindex = list(zip(*rows, strict=True)), 0
        self._at_start = True

    @property
    def finished(self) -> bool:
        """Whether all elements were seen."""
        return self.iterindex >= self.itersize

    @property
    def value(self) -> Any:
        """The present element, or a tuple of those of several arrays."""
        found = self._elements[self.iterindex]
        return found[0] if self.nop == 1 else found

    def __getitem__(self, i: Any) -> Any:
        return self._elements[self.iterindex][i]

    def __len__(self) -> int:
        return self.nop

    def __getattr__(self, name: str) -> Any:
        places = self.__dict__
        if name == "multi_index" and name in places["_flags"]:
            return tuple(map(int, np.unravel_index(self.iterindex, self.shape, self._order)))
        if name == "index" and (order := {"c_index", "f_index"} & places["_flags"]):
            place = np.unravel_index(self.iterindex, self.shape, self._order)
            return (
                int(np.ravel_multi_index(place, self.shape, order=order.pop()[0].upper())) if self.ndim else 0
            )
        raise AttributeError(
            f"an nditer of Tensors with flags {sorted(places.get('_flags', ()))} has no {name}"
        )

    def iternext(self) -> bool:
        """Go to the next element; return whether there is one."""
        self.iterindex += 1
        return not self.finished

    def __iter__(self) -> nditer:
        return self

    def __next__(self) -> Any:
        if not self._at_start:
            self.iterindex += 1
        self._at_start = False
        if self.finished:
            raise StopIteration
        return self.value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: nothing was written."""


def _common_order(xs: Sequence[Any], order: str) -> str:
    """Return the order in which all of `xs` lie in memory.

    Raises:
        TypeError: it is not known, or not the same.
    """
    values = [buffer_of(x) for x in xs if sum(n > 1 for n in x.shape) > 1]
    for found in ("C", "F"):
        if all(v is not None and v.flags[f"{found}_CONTIGUOUS"] for v in values):
            return found
    raise TypeError(
        f"nditer with order={order!r} at {user_place()} depends on the memory layout, which is not known "
        "while a function is traced, or differs between the arrays; give order='C' or order='F'"
    )


_ITER_FLAGS = frozenset({"multi_index", "c_index", "f_index", "zerosize_ok", "refs_ok", "buffered"})
