"""The operators and methods of Tensor: each calls an operation by its name and holds no logic of its own."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fgrad import config
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import copied, on_host
from fgrad.compat.array_api_compat import namespace_beside_arrays
from fgrad.compat.cpython import frame_of, is_indexing, is_storing
from fgrad.compat.scipy import asks_for_operators, owner
from fgrad.core.mistakes import note_refusal
from fgrad.core.placement import buffer_of, device_of
from fgrad.core.primitive import FUNCTIONS, METHODS, NUMPY, OPERATORS, UFUNCS
from fgrad.core.tape import HIDDEN
from fgrad.core.trace import Tracer, advice_for, current, user_frame, user_place
from fgrad.core.tracebacks import shorten
from fgrad.errors import EscapeWarning, NoValueError
from fgrad.import_hooks import tell_owner

if TYPE_CHECKING:
    from fgrad.core.tensor import Tensor


class Absent:
    """An attribute of ndarray that a Tensor cannot have, and why."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        raise AttributeError(f"a Tensor has no {self.name}: {self.why}")


_MEMORY = "it is a handle on a value, whose memory is nobody's to see; take an array first, t.numpy()"
_BITS = "its bits have no derivative; take an array first, t.numpy()"


class Operators:
    """What an ndarray can do, by name."""

    __slots__ = ()

    base: Absent = Absent(_MEMORY)
    ctypes: Absent = Absent(_MEMORY)
    data: Absent = Absent(_MEMORY)
    flags: Absent = Absent(_MEMORY)
    setflags: Absent = Absent(_MEMORY)
    byteswap: Absent = Absent(_BITS)
    getfield: Absent = Absent(_BITS)
    setfield: Absent = Absent(_BITS)

    _value: np.ndarray[Any, Any] | np.generic | Tracer | DeviceArray
    _nodes: tuple[Any, ...]

    __hash__: Callable[[Any], int] = object.__hash__  # type: ignore[assignment]
    __array_priority__: float = 1000.0

    @property
    def strides(self) -> tuple[int, ...]:
        """Where elements lie in the array that `numpy.asarray` gives; a constant on the CPU has one."""
        value = self._value
        if not isinstance(value, np.ndarray | np.generic) or self._is_differentiated():
            raise AttributeError(f"a Tensor has no strides: {_MEMORY}")
        return value.strides

    # fmt: off
    def __add__(self, other: Any) -> Tensor: return OPERATORS["add"](self, other)
    def __radd__(self, other: Any) -> Tensor: return OPERATORS["add"](other, self)
    def __iadd__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["add"](self, other))
    def __sub__(self, other: Any) -> Tensor: return OPERATORS["subtract"](self, other)
    def __rsub__(self, other: Any) -> Tensor: return OPERATORS["subtract"](other, self)
    def __isub__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["subtract"](self, other))
    def __mul__(self, other: Any) -> Tensor: return OPERATORS["multiply"](self, other)
    def __rmul__(self, other: Any) -> Tensor: return OPERATORS["multiply"](other, self)
    def __imul__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["multiply"](self, other))
    def __truediv__(self, other: Any) -> Tensor: return OPERATORS["divide"](self, other)
    def __rtruediv__(self, other: Any) -> Tensor: return OPERATORS["divide"](other, self)
    def __itruediv__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["divide"](self, other))
    def __floordiv__(self, other: Any) -> Tensor: return OPERATORS["floor_divide"](self, other)
    def __rfloordiv__(self, other: Any) -> Tensor: return OPERATORS["floor_divide"](other, self)
    def __ifloordiv__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["floor_divide"](self, other))
    def __mod__(self, other: Any) -> Tensor: return OPERATORS["remainder"](self, other)
    def __rmod__(self, other: Any) -> Tensor: return OPERATORS["remainder"](other, self)
    def __imod__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["remainder"](self, other))
    def __pow__(self, other: Any) -> Tensor: return OPERATORS["power"](self, other)
    def __rpow__(self, other: Any) -> Tensor: return OPERATORS["power"](other, self)
    def __ipow__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["power"](self, other))
    def __matmul__(self, other: Any) -> Tensor: return OPERATORS["matmul"](self, other)
    def __rmatmul__(self, other: Any) -> Tensor: return OPERATORS["matmul"](other, self)
    def __imatmul__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["matmul"](self, other))
    def __and__(self, other: Any) -> Tensor: return OPERATORS["bitwise_and"](self, other)
    def __rand__(self, other: Any) -> Tensor: return OPERATORS["bitwise_and"](other, self)
    def __iand__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["bitwise_and"](self, other))
    def __or__(self, other: Any) -> Tensor: return OPERATORS["bitwise_or"](self, other)
    def __ror__(self, other: Any) -> Tensor: return OPERATORS["bitwise_or"](other, self)
    def __ior__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["bitwise_or"](self, other))
    def __xor__(self, other: Any) -> Tensor: return OPERATORS["bitwise_xor"](self, other)
    def __rxor__(self, other: Any) -> Tensor: return OPERATORS["bitwise_xor"](other, self)
    def __ixor__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["bitwise_xor"](self, other))
    def __lshift__(self, other: Any) -> Tensor: return OPERATORS["left_shift"](self, other)
    def __rlshift__(self, other: Any) -> Tensor: return OPERATORS["left_shift"](other, self)
    def __ilshift__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["left_shift"](self, other))
    def __rshift__(self, other: Any) -> Tensor: return OPERATORS["right_shift"](self, other)
    def __rrshift__(self, other: Any) -> Tensor: return OPERATORS["right_shift"](other, self)
    def __irshift__(self, other: Any) -> Tensor: return FUNCTIONS["in_place"](self, OPERATORS["right_shift"](self, other))
    def __eq__(self, other: object) -> Tensor: return OPERATORS["equal"](self, other)  # type: ignore[override]
    def __ne__(self, other: object) -> Tensor: return OPERATORS["not_equal"](self, other)  # type: ignore[override]
    def __lt__(self, other: Any) -> Tensor: return OPERATORS["less"](self, other)
    def __le__(self, other: Any) -> Tensor: return OPERATORS["less_equal"](self, other)
    def __gt__(self, other: Any) -> Tensor: return OPERATORS["greater"](self, other)
    def __ge__(self, other: Any) -> Tensor: return OPERATORS["greater_equal"](self, other)
    def __neg__(self) -> Tensor: return OPERATORS["negative"](self)
    def __pos__(self) -> Tensor: return OPERATORS["positive"](self)
    def __abs__(self) -> Tensor: return OPERATORS["absolute"](self)
    def __invert__(self) -> Tensor: return OPERATORS["invert"](self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes; known under `jit` and `vmap`. Assigning to it reshapes this handle."""
        return self._value.shape
    @shape.setter
    def shape(self, lengths: Any) -> None: FUNCTIONS["set_shape"](self, lengths)
    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements; known under `jit` and `vmap`."""
        return self._value.dtype
    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._value.ndim
    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._value.shape)
    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize
    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.itemsize
    @property
    def T(self) -> Tensor:  # noqa: N802 -- NumPy's name
        """The axes reversed, a view: `fgrad.numpy.transpose`."""
        return FUNCTIONS["transpose"](self)
    @property
    def mT(self) -> Tensor:  # noqa: N802 -- NumPy's name
        """The last two axes swapped, a view: `fgrad.numpy.matrix_transpose`."""
        return FUNCTIONS["matrix_transpose"](self)
    @property
    def real(self) -> Tensor:
        """The real parts, a view that can be written to: `fgrad.numpy.real`."""
        return FUNCTIONS["real"](self)
    @real.setter
    def real(self, value: Any) -> None: FUNCTIONS["real"](self)[...] = value
    @property
    def imag(self) -> Tensor:
        """The imaginary parts: `fgrad.numpy.imag`. Those of a complex Tensor can be written to."""
        return FUNCTIONS["imag"](self)
    @imag.setter
    def imag(self, value: Any) -> None: FUNCTIONS["set_imag"](self, value)
    @property
    def flat(self) -> Any:
        """The elements in C order, by position: `t.flat[3]`, `t.flat[1:] = 0.0`."""
        return FUNCTIONS["flat"](self)
    @flat.setter
    def flat(self, value: Any) -> None: FUNCTIONS["flat"](self)[:] = value
    @property
    def device(self) -> str:
        """Where the elements are: "cpu", "cuda", "cuda:1"."""
        return device_of(self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]: return self // other, self % other
    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]: return other // self, other % self
    def __getitem__(self, index: Any) -> Tensor: return FUNCTIONS["getitem"](self, index)
    def __setitem__(self, index: Any, value: Any) -> None: FUNCTIONS["setitem"](self, index, value)
    def __delitem__(self, index: Any) -> None: raise ValueError("cannot delete elements of a Tensor; use fgrad.numpy.delete, which returns a new one")
    def __contains__(self, item: Any) -> bool: return bool((self == item).any())
    # fmt: on

    def all(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return whether every element is nonzero, over axes: `fgrad.numpy.all`."""
        return FUNCTIONS["all"](self, axis, **kw)

    def any(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return whether some element is nonzero, over axes: `fgrad.numpy.any`."""
        return FUNCTIONS["any"](self, axis, **kw)

    def argmax(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the index of the first greatest element, an integer: `fgrad.numpy.argmax`."""
        return FUNCTIONS["argmax"](self, axis, **kw)

    def argmin(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the index of the first smallest element, an integer: `fgrad.numpy.argmin`."""
        return FUNCTIONS["argmin"](self, axis, **kw)

    def argpartition(self, kth: Any, axis: Any = -1, **kw: Any) -> Tensor:
        """Return the indices that partition along an axis: `fgrad.numpy.argpartition`."""
        return FUNCTIONS["argpartition"](self, kth, axis, **kw)

    def argsort(self, axis: Any = -1, **kw: Any) -> Tensor:
        """Return the indices that sort along an axis: `fgrad.numpy.argsort`."""
        return FUNCTIONS["argsort"](self, axis, **kw)

    def astype(self, dtype: Any, **kw: Any) -> Tensor:
        """Return the elements as `dtype`; integers have no gradient: `fgrad.numpy.astype`."""
        return FUNCTIONS["astype"](self, dtype, **kw)

    def choose(self, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
        """Return for every position the element of the choice that this one counts: `fgrad.numpy.choose`."""
        return FUNCTIONS["choose"](self, choices, out, mode)

    def clip(self, min: Any = None, max: Any = None, **kw: Any) -> Tensor:
        """Return the elements limited to [min, max]; at a limit the slope is 0.5: `fgrad.numpy.clip`."""
        return FUNCTIONS["clip"](self, min, max, **kw)

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Tensor:
        """Return the slices along an axis for which the condition holds: `fgrad.numpy.compress`."""
        return FUNCTIONS["compress"](condition, self, axis, out)

    def conj(self) -> Tensor:
        """Return the complex conjugate, of real elements the Tensor itself: `fgrad.numpy.conjugate`."""
        return FUNCTIONS["conjugate"](self) if self.dtype.kind == "c" else self  # type: ignore[return-value]

    def conjugate(self) -> Tensor:
        """Return what `conj` does."""
        return self.conj()

    def copy(self, order: Any = "C") -> Tensor:
        """Return a Tensor of its own on the value; derivatives flow through."""
        return FUNCTIONS["copied"](self, order)

    def __copy__(self) -> Tensor:
        return FUNCTIONS["copied"](self, "K")

    def cumprod(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the products of the elements up to each position along an axis: `fgrad.numpy.cumprod`."""
        return FUNCTIONS["cumprod"](self, axis, **kw)

    def cumsum(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the sums of the elements up to each position along an axis: `fgrad.numpy.cumsum`."""
        return FUNCTIONS["cumsum"](self, axis, **kw)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """Return the diagonal of a plane, as a new last axis, a view: `fgrad.numpy.diagonal`."""
        return FUNCTIONS["diagonal"](self, offset, axis1, axis2)

    def dot(self, b: Any, out: Any = None) -> Tensor:
        """Return the sum product of the last axis with the last but one of `b`: `fgrad.numpy.dot`."""
        return FUNCTIONS["dot"](self, b, out)

    def flatten(self, order: Any = "C") -> Tensor:
        """Return the elements as a vector that shares memory with nothing; derivatives flow through."""
        return FUNCTIONS["flatten"](self, order)

    def max(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the greatest element over axes; ties share the gradient equally: `fgrad.numpy.max`."""
        return FUNCTIONS["max"](self, axis, **kw)

    def mean(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the arithmetic mean over axes: `fgrad.numpy.mean`."""
        return FUNCTIONS["mean"](self, axis, **kw)

    def min(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the smallest element over axes; ties share the gradient equally: `fgrad.numpy.min`."""
        return FUNCTIONS["min"](self, axis, **kw)

    def nonzero(self) -> tuple[Tensor, ...]:
        """Return the indices of the nonzero elements, a vector of integers per axis: `fgrad.numpy.nonzero`."""
        return tuple(FUNCTIONS["nonzero"](self))

    def prod(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the product over axes: `fgrad.numpy.prod`."""
        return FUNCTIONS["prod"](self, axis, **kw)

    def ptp(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the greatest minus the smallest element over axes: `fgrad.numpy.ptp`."""
        return FUNCTIONS["ptp"](self, axis, **kw)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write values to indices of the flattened elements: `fgrad.numpy.put`."""
        FUNCTIONS["put"](self, indices, values, mode)

    def ravel(self, order: Any = "C") -> Tensor:
        """Return the elements as a vector, a view: `fgrad.numpy.ravel`."""
        return FUNCTIONS["ravel"](self, order)

    def repeat(self, repeats: Any, axis: Any = None) -> Tensor:
        """Return each element along an axis repeated: `fgrad.numpy.repeat`."""
        return FUNCTIONS["repeat"](self, repeats, axis)

    def resize(self, *new_shape: Any, refcheck: bool = True) -> None:
        """Change the shape in place; elements that are new are zero."""
        FUNCTIONS["resize_in_place"](self, *new_shape)

    def round(self, decimals: int = 0, out: Any = None) -> Tensor:
        """Return the elements rounded to a number of decimals; the slope is zero: `fgrad.numpy.round`."""
        return FUNCTIONS["round"](self, decimals, out)

    def searchsorted(self, v: Any, side: Any = "left", sorter: Any = None) -> Tensor:
        """Return where `v` would be inserted to keep this sorted vector sorted: `fgrad.numpy.searchsorted`."""
        return FUNCTIONS["searchsorted"](self, v, side, sorter)

    def squeeze(self, axis: Any = None) -> Tensor:
        """Return the elements without axes of length one, a view: `fgrad.numpy.squeeze`."""
        return FUNCTIONS["squeeze"](self, axis)

    def std(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the standard deviation over axes; its slope at zero is zero: `fgrad.numpy.std`."""
        return FUNCTIONS["std"](self, axis, **kw)

    def sum(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the sum over axes: `fgrad.numpy.sum`."""
        return FUNCTIONS["sum"](self, axis, **kw)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Return two axes swapped, a view: `fgrad.numpy.swapaxes`."""
        return FUNCTIONS["swapaxes"](self, axis1, axis2)

    def take(self, indices: Any, axis: Any = None, **kw: Any) -> Tensor:
        """Return the elements at indices along an axis: `fgrad.numpy.take`."""
        return FUNCTIONS["take"](self, indices, axis, **kw)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
    ) -> Tensor:
        """Return the sums along the diagonals of planes: `fgrad.numpy.trace`."""
        return FUNCTIONS["trace"](self, offset, axis1, axis2, dtype, out)

    def var(self, axis: Any = None, **kw: Any) -> Tensor:
        """Return the variance over axes, with divisor n - ddof: `fgrad.numpy.var`."""
        return FUNCTIONS["var"](self, axis, **kw)

    def reshape(self, *shape: Any, **kw: Any) -> Tensor:
        """Return the same elements in `shape`, given as a tuple or as separate integers."""
        return FUNCTIONS["reshape"](self, *(shape if len(shape) == 1 else (shape,)), **kw)

    def transpose(self, *axes: Any) -> Tensor:
        """Return the axes permuted: reversed, or as a tuple or separate integers say."""
        if not axes or axes == (None,):
            return FUNCTIONS["transpose"](self)
        return FUNCTIONS["transpose"](self, axes[0] if len(axes) == 1 and not _is_integer(axes[0]) else axes)

    def fill(self, value: Any) -> None:
        """Give every element `value`, a number."""
        if np.ndim(value):
            raise ValueError("setting an array element with a sequence.")
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        """Sort in place along `axis`."""
        self[...] = FUNCTIONS["sort"](self, axis, kind, order, stable=stable)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Partition in place along `axis`: the element at `kth` stands where sorting would put it."""
        self[...] = FUNCTIONS["partition"](self, kth, axis, kind, order)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a Tensor without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a Tensor without axes")
        return (self[i] for i in range(self.shape[0]))

    def __bool__(self) -> bool:
        value = self._value
        return value.truth() if isinstance(value, Tracer) else bool(value)

    def __float__(self) -> float:
        return float(self._untracked("float()"))

    def __int__(self) -> int:
        return int(self._untracked("int()"))

    def __complex__(self) -> complex:
        return complex(self._untracked("complex()"))

    def __index__(self) -> int:
        return operator.index(self._untracked("an index"))

    def __round__(self, ndigits: int | None = None) -> Tensor:
        return FUNCTIONS["round"](self, ndigits or 0)

    def item(self, *args: Any) -> Any:
        """Return one element as a Python number, without gradient."""
        return self._concrete("item()").item(*args)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers, without gradient."""
        return self._concrete("tolist()").tolist()

    def tobytes(self) -> bytes:
        """Return the elements as bytes in C order, without gradient."""
        return bytes(self._concrete("tobytes()").tobytes())

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a fresh, writable array of NumPy with the elements, on the CPU, without gradient."""
        value = self._concrete("numpy()")
        return np.array(value) if value.__class__ is np.ndarray else np.array(on_host(value))

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Write the elements to a file as `numpy.ndarray.tofile` does, without gradient."""
        self.numpy().tofile(fid, sep, format)

    def dump(self, file: Any) -> None:
        """Write a pickle of the elements as array to a file, without gradient."""
        self.numpy().dump(file)

    def dumps(self) -> bytes:
        """Return a pickle of the elements as array, without gradient."""
        return self.numpy().dumps()

    def view(self, dtype: Any = None, type: Any = None) -> Tensor:
        """Return a new handle on the same value; a Tensor's bits cannot be read as another dtype."""
        if dtype not in {None, self.dtype} or type is not None:
            raise TypeError(
                f"the bits of a Tensor cannot be read as {dtype or type}, which has no derivative; convert its "
                "values with t.astype(dtype), or take an array: t.numpy().view(dtype)"
            )
        return self[...]

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """Return what `to` does: the array API's name for it."""
        if stream is not None:
            raise ValueError(f"to_device takes no stream, not {stream!r}: Tensors are on the current one")
        return self.to(device)  # type: ignore[attr-defined,no-any-return]

    def __dlpack__(
        self,
        /,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        found = self._untracked("export with DLPack")
        if found.__class__ is DeviceArray:
            return found.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        value = np.asarray(found).view()
        value.flags.writeable = False  # shared only with consumers of version 1, which heed this flag
        shared = copy is False or (copy is None and max_version is not None and max_version >= (1, 0))
        source = value if shared else value.copy()
        return source.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        found = buffer_of(self)
        return (found if found.__class__ is DeviceArray else np.empty(0)).__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        found = buffer_of(self)
        if found.__class__ is not DeviceArray:
            raise AttributeError(f"a Tensor on {self.device!r} has no __cuda_array_interface__")
        return self._untracked("export to CUDA").__cuda_array_interface__

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        found: Any = namespace_beside_arrays(frame_of(1)) or FUNCTIONS["array_namespace"](api_version)
        return cast("ModuleType", found)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if asks_for_operators(frame_of(1)):
            return np.array(None)
        held = self._untracked("conversion to a NumPy array")
        value = np.asarray(held)
        if not value.size and value.dtype.kind == "b" and is_indexing(frame_of(1)):
            raise IndexError(
                f"a NumPy array takes a mask without elements for integers unless it is an array itself, so the "
                f"Tensor of shape {value.shape} cannot be its index. Index with mask.numpy(), or make the array "
                "a Tensor: fg.tensor(y)[mask]"
            )
        if dtype is not None and value.dtype != dtype:
            if copy is False:
                raise ValueError(f"conversion of a Tensor from {value.dtype} to {dtype} needs a copy")
            return value.astype(dtype)
        if copy:
            return value.copy("K")
        if isinstance(held, np.generic):
            return value  # new memory, as NumPy's arrays of its scalars have
        view = value.view()
        view.flags.writeable = False
        return view

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, x: Any, /, *rest: Any, **kwargs: Any) -> Any:
        try:
            if not kwargs and method == "__call__" and ufunc in UFUNCS:
                return UFUNCS[ufunc](x, *rest) if rest else UFUNCS[ufunc](x)
            inputs = (x, *rest)
            rule = NUMPY.get(ufunc)
            if rule is None and tell_owner(ufunc):
                rule = NUMPY.get(ufunc)
            if rule is None:
                library = "numpy" if getattr(np, ufunc.__name__, None) is ufunc else owner(ufunc)
                name = f"{library}.{ufunc.__name__}" if library else f"the ufunc {ufunc.__name__}"
                called = getattr(ufunc, method)
                return _without_rule(
                    name if method == "__call__" else f"{name}.{method}", called, inputs, kwargs
                )
            return (
                rule(*inputs, **kwargs) if method == "__call__" else METHODS[method](ufunc, *inputs, **kwargs)
            )
        except Exception as error:
            shorten(error)
            raise

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        try:
            rule = NUMPY.get(func)
            if rule is None:
                return _without_rule(f"{func.__module__}.{func.__name__}", func, args, kwargs)
            return rule(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    def __repr__(self) -> str:
        value = self._value
        if isinstance(value, Tracer):
            return f"Tensor({value.dtype.name}[{','.join(map(str, value.shape))}] in {value.trace.title})"
        place = f", device={self.device!r}" if value.__class__ is DeviceArray else ""
        value = on_host(value)
        text = np.array2string(value, separator=", ", prefix="Tensor(")
        usual = (np.dtype(bool), np.dtype(int), np.dtype(float), np.dtype(complex))
        implied = value.dtype in usual and value.size
        if not value.size:
            text = "[]" if value.ndim == 1 else f"[], shape={value.shape}"
        return f"Tensor({text}{place})" if implied else f"Tensor({text}, dtype={value.dtype.name}{place})"

    def __str__(self) -> str:
        return repr(self) if isinstance(self._value, Tracer) else str(on_host(self._value))

    def __format__(self, spec: str) -> str:
        if isinstance(self._value, Tracer) or not spec:
            return str(self)
        if self.shape:
            raise TypeError(
                f"the format {spec!r} needs a Tensor without axes, this one has shape {self.shape}"
            )
        return format(self._value.item(), spec)

    def _concrete(self, what: str) -> Any:
        if isinstance(self._value, Tracer):
            self._value.refuse(what)
        return self._value

    def _untracked(self, what: str) -> Any:
        value = self._value
        if isinstance(value, Tracer):
            if value.trace in current().traces and is_storing(user_frame()):
                message = (
                    f"a NumPy array cannot hold a Tensor whose value {value.trace.title} does not have. "
                    f"{make_tensors()}."
                )
                note_refusal(message, user_frame())
                raise NoValueError(message)
            value.refuse(what)
        if self._nodes and self._is_differentiated():
            escape(
                f"{what} of a Tensor that is being differentiated would lose its gradient silently. "
                + (make_tensors() if is_storing(user_frame()) else _compute_with_tensors(what))
                + ". Only where its gradient is to be zero, convert it explicitly: t.detach() is the same value "
                "as a constant Tensor, t.item() a Python number, t.numpy() an array."
            )
        return value

    def _is_differentiated(self) -> bool:
        traces = current().traces
        return any(
            n.tape in traces or n.tape.is_elsewhere()
            for n in self._nodes
            if n.tape is not None and n.vjp is not HIDDEN
        )


def _is_integer(x: Any) -> bool:
    return isinstance(x, int | np.integer)


def make_tensors() -> str:
    """Return what to do where an array of NumPy is a target of Tensors."""
    return (
        f"At {user_place()}, decorate the function with fgrad.plain_numpy, which lets numpy.zeros and all that "
        "makes arrays make Tensors; or make the target a Tensor yourself: fgrad.numpy.zeros, fgrad.tensor(y)"
    )


def _compute_with_tensors(what: str) -> str:
    """Return what to do where a number or an array is asked for."""
    return f"At {user_place()}, " + (
        advice_for(what)
        or "compute with functions of numpy instead of math's; where an array is made of it (numpy.array, "
        "numpy.fromiter), decorate the function with fgrad.plain_numpy, or call fgrad.numpy.array"
    )


def escape(message: str) -> None:
    """Say that a gradient gets lost, unless the user said that this is meant.

    Raises:
        TypeError: the policy is "error".
    """
    policy = config.escape_policy()
    if policy == "error":
        note_refusal(message, user_frame())
        raise TypeError(message)
    if policy == "warn":
        frame = user_frame()
        warnings.warn_explicit(
            message,
            EscapeWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
            registry=frame.f_globals.setdefault("__warningregistry__", {}),
        )


def _without_rule(name: str, function: Any, args: Any, kwargs: Any) -> Any:
    """Call a function of NumPy that no derivative can follow with plain values, if that is meant."""
    message = (
        f"{name} has no rule for Tensors, so its gradient would be lost. At {user_place()}, "
        "use a function of fgrad.numpy or fgrad.scipy that has one, declare a rule with fgrad.custom_vjp, or, "
        "only where its gradient is to be zero, give it the plain value (t.detach().numpy())."
    )
    if config.escape_policy() == "error":
        raise TypeError(message)
    found: list[Operators] = []
    plain_args, plain_kwargs = _plain(args, name, found), _plain(kwargs, name, found)
    if any(t._is_differentiated() for t in found):
        escape(message)
    return function(*plain_args, **plain_kwargs)


def _plain(x: Any, name: str, found: list[Operators]) -> Any:
    """Return `x` with values in the place of the Tensors in its lists, tuples and dictionaries."""
    if isinstance(x, Operators):
        found.append(x)
        return copied(x._concrete(name))
    if type(x) in (list, tuple):
        return type(x)([_plain(y, name, found) for y in x])
    return {k: _plain(y, name, found) for k, y in x.items()} if type(x) is dict else x
