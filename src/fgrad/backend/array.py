"""DeviceArray: an array in the memory of a device, on which NumPy's functions compute there.

NumPy asks it through its two protocols, `__array_ufunc__` and `__array_function__`, so code that is written
with NumPy's functions runs on the device as it stands. Nothing travels between devices unasked: a conversion
that NumPy would make silently raises, and what is asked for is counted in `TRANSFERS`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from fgrad.backend.library import KEYWORDS, SPECIAL, UFUNCS, Library
from fgrad.backend.special import SOURCES
from fgrad.compat.scipy import owner

# arrays that went either way, and truths and numbers that were read
TRANSFERS = {"to_device": 0, "to_host": 0, "reads": 0}
Shape = tuple[int, ...]


class Flags(NamedTuple):
    """What is asked of the memory of an array."""

    c_contiguous: bool
    f_contiguous: bool
    owndata: bool
    writeable: bool


COMPOSED: dict[str, Callable[..., Any]] = {}  # NumPy's functions and ufuncs by name -> (place, *arguments)
METHODS: dict[str, Callable[..., Any]] = {}  # methods of ufuncs -> (place, ufunc, *arguments)


class Foreign(TypeError):  # noqa: N818 -- it never leaves this module
    """An operand that a DeviceArray does not know."""


class DeviceArray(NDArrayOperatorsMixin):
    """An array on a device."""

    __slots__ = ("__weakref__", "buffer", "place")

    def __init__(self, buffer: Any, place: Device) -> None:
        self.buffer: Any = buffer  # the library's array
        self.place: Device = place

    # fmt: off
    @property
    def shape(self) -> Shape: return self.buffer.shape  # type: ignore[no-any-return]
    @property
    def dtype(self) -> np.dtype[Any]: return self.buffer.dtype  # type: ignore[no-any-return]
    @property
    def ndim(self) -> int: return self.buffer.ndim  # type: ignore[no-any-return]
    @property
    def size(self) -> int: return self.buffer.size  # type: ignore[no-any-return]
    @property
    def itemsize(self) -> int: return self.buffer.dtype.itemsize  # type: ignore[no-any-return]
    @property
    def nbytes(self) -> int: return self.buffer.nbytes  # type: ignore[no-any-return]
    @property
    def strides(self) -> Shape: return self.buffer.strides  # type: ignore[no-any-return]
    @property
    def T(self) -> DeviceArray: return DeviceArray(self.buffer.T, self.place)  # noqa: N802 -- NumPy's name
    @property
    def real(self) -> DeviceArray: return DeviceArray(self.buffer.real, self.place)
    @property
    def imag(self) -> DeviceArray: return DeviceArray(self.buffer.imag, self.place)
    @property
    def base(self) -> None: return None

    def transpose(self, *axes: Any) -> DeviceArray: return self._view(self.buffer.transpose(*axes))
    def swapaxes(self, i: int, j: int) -> DeviceArray: return self._view(self.buffer.swapaxes(i, j))
    def ravel(self) -> DeviceArray: return self.reshape(-1)
    def copy(self) -> DeviceArray: return DeviceArray(self._on(self.buffer.copy), self.place)
    def conj(self) -> DeviceArray: return np.conjugate(self)  # type: ignore[return-value]
    def sum(self, axis: Any = None, **kw: Any) -> Any: return np.sum(self, axis, **kw)
    def max(self, axis: Any = None, **kw: Any) -> Any: return np.max(self, axis, **kw)
    def any(self, axis: Any = None, **kw: Any) -> Any: return np.any(self, axis, **kw)
    def all(self, axis: Any = None, **kw: Any) -> Any: return np.all(self, axis, **kw)
    def take(self, indices: Any, axis: Any) -> Any: return self[(*(slice(None),) * axis, indices)]
    # fmt: on

    def _view(self, buffer: Any) -> DeviceArray:
        return DeviceArray(buffer, self.place)

    @property
    def flags(self) -> Flags:
        """What is known of the memory; nobody writes to the one of a view."""
        f = self.buffer.flags
        return Flags(bool(f.c_contiguous), bool(f.f_contiguous), bool(f.owndata), writeable=True)

    @property
    def device(self) -> str:
        """The name of the device."""
        return self.place.name

    def _on(self, f: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        with self.place.library.on(self.place.index):
            return f(*args, **kw)

    def reshape(self, *shape: Any) -> DeviceArray:
        """Return the same elements in another shape."""
        return DeviceArray(self._on(self.buffer.reshape, *shape), self.place)

    def astype(self, dtype: Any, copy: bool = True) -> DeviceArray:
        """Return the elements as `dtype`."""
        if not copy and self.dtype == dtype:
            return self
        return DeviceArray(self._on(self.buffer.astype, dtype), self.place)

    def view(self, dtype: Any = None) -> DeviceArray:
        """Return the same memory, read as `dtype`."""
        return DeviceArray(self.buffer if dtype is None else self.buffer.view(dtype), self.place)

    # ---- the way to the host, always asked for

    def download(self) -> np.ndarray[Any, Any]:
        """Return a new array of NumPy with the elements."""
        TRANSFERS["to_host"] += 1
        return np.asarray(self._on(self.place.library.download, self.buffer))

    def item(self, *args: Any) -> Any:
        """Return one element as a number of Python."""
        return self.download().item(*args) if args or self.size > 1 else self._read().item()

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python's numbers."""
        return self.download().tolist()

    def tobytes(self) -> bytes:
        """Return the elements as bytes in C order."""
        return self.download().tobytes()

    def _read(self) -> Any:
        """Return the one element as NumPy's number, when what computes it is done."""
        TRANSFERS["reads"] += 1
        return self._on(self.place.library.download, self.buffer)

    def __bool__(self) -> bool:
        return bool(self._read())

    def __float__(self) -> float:
        return float(self._read())

    def __int__(self) -> int:
        return int(self._read())

    def __complex__(self) -> complex:
        return complex(self._read())

    def __index__(self) -> int:
        return operator.index(self._read()[()])

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            f"an array on {self.device} is not converted to a NumPy array implicitly, because that would "
            "transfer it to the CPU. Convert it explicitly: t.numpy() is a copy on the CPU, t.to('cpu') a "
            "Tensor there that derivatives flow through"
        )

    # ---- what other libraries ask for

    def __getattr__(self, name: str) -> Any:
        if name == "__cuda_array_interface__" and not self.place.library.simulated:
            return self.buffer.__cuda_array_interface__
        raise AttributeError(f"an array on a device has no {name}")

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        return self.buffer.__dlpack__(stream=stream, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.place.index)  # kDLCUDA

    # ---- elements

    def __len__(self) -> int:
        return len(self.buffer)

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> DeviceArray:
        found = self._on(self.buffer.__getitem__, self.place.index_of(index))
        return self.place.wrap(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._on(self.buffer.__setitem__, self.place.index_of(index), self.place.operand(value))

    def __repr__(self) -> str:
        return f"DeviceArray({np.array2string(self.download(), separator=', ')}, device={self.device!r})"

    # ---- NumPy's functions

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kw: Any) -> Any:
        place = self.place
        try:
            if method != "__call__":
                composed = METHODS.get(method)
                if composed is None:
                    raise place.refusal(f"{ufunc.__name__}.{method}")
                return composed(place, ufunc, *inputs, **kw)
            composed = COMPOSED.get(ufunc.__name__)
            if composed is not None:
                return composed(place, *inputs, **kw)
            name = ufunc.__name__
            if name not in UFUNCS:
                return place.special(ufunc, *inputs, **kw)
            operands = [place.operand(x) for x in inputs]
            out = kw.pop("out", None)
            if out is not None:
                kw["out"] = place.operand(out[0] if len(out) == 1 else out)
            if kw.keys() - {"out", "dtype", "axes"}:
                raise place.refusal(f"{name} with {', '.join(kw)}")
            made = place.call(place.library.find(name), *operands, **kw)
        except Foreign:
            return NotImplemented
        if out is not None:
            return out[0]
        return tuple(map(place.wrap, made)) if made.__class__ is tuple else place.wrap(made)

    def __array_function__(self, func: Any, types: Any, args: Any, kw: Any) -> Any:
        place = self.place
        name = f"{func.__module__}.{func.__name__}".removeprefix("numpy.").removeprefix("numpy.")
        try:
            composed = COMPOSED.get(name)
            return composed(place, *args, **kw) if composed else place.apply(name, *args, **kw)
        except Foreign:
            return NotImplemented


NUMBERS = frozenset({int, float, complex, bool})
_KEPT, _KEPT_BYTES = 256, 2**16  # how many constants a device keeps, and how large they may be


class Device:
    """A device: what makes arrays there and computes with them."""

    def __init__(self, library: Library, index: int) -> None:
        self.library: Library = library
        self.index: int = index
        self.name: str = f"cuda:{index}"
        self._constants: dict[Any, DeviceArray] = {}

    def __repr__(self) -> str:
        return self.name

    def wrap(self, buffer: Any) -> DeviceArray:
        """Return what a function of the library computed as an array of this device."""
        if buffer.__class__ is not self.library.array:
            buffer = np.asarray(buffer)  # the simulator's numbers; CuPy has none
        return DeviceArray(buffer, self)

    def call(self, f: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Call a function of the library on this device."""
        with self.library.on(self.index):
            return f(*args, **kw)

    def refusal(self, what: str) -> NotImplementedError:
        """Return the error that says that nothing on a device does what NumPy does."""
        return NotImplementedError(
            f"{what} of an array on {self.name}: there is no such function for CUDA. Compute it on the CPU "
            "and move back; derivatives follow: f(t.to('cpu')).to(t.device)"
        )

    def operand(self, x: Any) -> Any:
        """Return a buffer of this device, or a number, for the library.

        Raises:
            TypeError: `x` is on another device.
        """
        kind = x.__class__
        if kind is DeviceArray:
            if x.place is not self:
                raise mixed(self.name, x.device)
            return x.buffer
        if kind in NUMBERS or isinstance(x, np.generic):
            return x
        if isinstance(x, np.ndarray):
            if x.ndim:
                raise mixed(self.name, "cpu")
            return x[()]
        if kind is list or kind is tuple:
            return self.array(x).buffer
        raise Foreign

    def row_major(self, x: DeviceArray) -> Any:
        """Return the buffer of an array of this device, in C order.

        Raises:
            TypeError: `x` is on another device.
        """
        buffer = self.operand(x)
        if not buffer.flags.c_contiguous:
            buffer = self.call(self.library.find("ascontiguousarray"), buffer)
        return buffer

    def constant(self, host: np.ndarray[Any, Any]) -> DeviceArray:
        """Return an array of NumPy that says where elements are, or a table: equal ones are sent once."""
        if host.nbytes > _KEPT_BYTES:
            return self.array(host)
        key = (host.dtype, host.shape, host.tobytes())
        found = self._constants.pop(key, None)
        if found is None:
            found = self.array(host)
            self.call(self.library.synchronize)  # other streams may read it next
            if len(self._constants) >= _KEPT:
                del self._constants[next(iter(self._constants))]
        self._constants[key] = found  # the last is the youngest
        return found

    def index_of(self, index: Any) -> Any:
        """Return an index of buffers for the library; index arrays may be NumPy's."""
        if index.__class__ is tuple:
            return tuple([self.index_of(part) for part in index])
        if index is None or index is Ellipsis or isinstance(index, slice | int | np.integer | np.bool_):
            return index
        if isinstance(index, np.ndarray) and index.ndim:
            return self.constant(index).buffer
        return self.operand(index)

    def apply(self, name: str, *args: Any, **kw: Any) -> Any:
        """Return what the library's function called `name` returns for arrays of this device."""
        if name not in KEYWORDS:
            raise self.refusal(name)
        if not kw.keys() <= set(KEYWORDS[name]):
            raise self.refusal(f"{name} with {', '.join(kw.keys() - set(KEYWORDS[name]))}")
        made = self.call(self.library.find(name), *map(self._unwrapped, args), **kw)
        return tuple(map(self.wrap, made)) if isinstance(made, tuple | list) else self.wrap(made)

    def special(self, ufunc: np.ufunc, *inputs: Any, **kw: Any) -> Any:
        """Return what a universal function of SciPy returns for arrays of this device."""
        if owner(ufunc) != "scipy.special":
            raise self.refusal(ufunc.__name__)  # NumPy's, or a user's of whatever name
        name = ufunc.__name__.lstrip("_")  # SciPy wraps some
        composed = COMPOSED.get(f"scipy.special.{name}")
        kinds = [x.dtype if hasattr(x, "dtype") else type(x) for x in inputs]
        is_complex = any(np.dtype(k).kind == "c" for k in kinds)
        is_theirs = name in SPECIAL and (not is_complex or "c" in SPECIAL[name])
        is_known = is_theirs or name in SOURCES or (composed is not None and not is_complex)
        if kw or not is_known:
            raise self.refusal(f"scipy.special.{name}{' of complex numbers' * is_complex}")
        dtypes = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
        if not is_theirs and composed is None:
            results = self._from_kernel(name, dtypes, inputs)
            return results if ufunc.nout > 1 else results[0]
        wide = dtypes if composed is None else [np.result_type(k, float) for k in kinds]
        given = [
            x.astype(d, copy=False) if x.__class__ is DeviceArray else x
            for x, d in zip(inputs, wide, strict=False)
        ]
        if composed is not None:
            with np.errstate(all="ignore"):
                made = composed(self, *given)
        else:
            found = self.call(self.library.find(f"scipy.special.{name}"), *map(self.operand, given))
            made = tuple(map(self.wrap, found)) if ufunc.nout > 1 else self.wrap(found)
        dtypes = dtypes[ufunc.nin :]  # CuPy's have other ideas of integers and of half precision
        if ufunc.nout > 1:
            return tuple([m.astype(d, copy=False) for m, d in zip(made, dtypes, strict=True)])
        return made.astype(dtypes[0], copy=False)

    def _from_kernel(
        self, name: str, dtypes: Sequence[np.dtype[Any]], inputs: Sequence[Any]
    ) -> tuple[DeviceArray, ...]:
        """Return the results of a kernel for a function and the dtypes of its loop."""
        shape = np.broadcast_shapes(*(np.shape(x) for x in inputs))
        operands: list[Any] = []
        for x, dtype in zip(inputs, dtypes, strict=False):
            is_array = x.__class__ is DeviceArray
            given: Any = x.astype(dtype, copy=False) if is_array else self.full((), self.operand(x), dtype)
            if given.size > 1 and given.shape != shape:
                given = np.broadcast_to(given, shape)
            operands += [self.row_major(given), int(given.size > 1)]
        outs = tuple([self.empty(shape, dtype) for dtype in dtypes[len(inputs) :]])
        size = math.prod(shape)
        if size:
            codes = ["l" if d.kind in "iu" else d.char for d in dtypes]
            loop = "".join([*codes[: len(inputs)], "->", *codes[len(inputs) :]])
            self.call(self.library.special(f"{name} {loop}"), *operands, *(y.buffer for y in outs), size=size)
        return outs

    def _unwrapped(self, x: Any) -> Any:
        if x.__class__ is tuple or x.__class__ is list:
            return x.__class__([self._unwrapped(y) for y in x])
        if x is None or isinstance(x, str | np.dtype | type):
            return x
        return self.operand(x)

    # ---- new arrays, by NumPy's names

    def array(self, x: Any, dtype: Any = None) -> DeviceArray:
        """Return a copy of what NumPy makes an array of, on this device."""
        if x.__class__ is DeviceArray:
            return x.copy() if dtype is None else x.astype(dtype)
        if x.__class__ in NUMBERS or isinstance(x, np.generic):  # a number is an argument, and no transfer
            return self.full((), x, dtype)
        TRANSFERS["to_device"] += 1
        return DeviceArray(self.call(self.library.upload, np.asarray(x, dtype)), self)

    def zeros(self, shape: Any, dtype: Any = float, order: Any = "C") -> DeviceArray:
        """Return zeros."""
        return DeviceArray(self.call(self.library.find("zeros"), shape, dtype=dtype or float), self)

    def ones(self, shape: Any, dtype: Any = float, order: Any = "C") -> DeviceArray:
        """Return ones."""
        return DeviceArray(self.call(self.library.find("ones"), shape, dtype=dtype or float), self)

    def empty(self, shape: Any, dtype: Any = float) -> DeviceArray:
        """Return an array to be filled."""
        return DeviceArray(self.call(self.library.find("empty"), shape, dtype=dtype or float), self)

    def full(self, shape: Any, value: Any, dtype: Any = None) -> DeviceArray:
        """Return an array filled with a number."""
        dtype = np.asarray(value).dtype if dtype is None else dtype
        return DeviceArray(self.call(self.library.find("full"), shape, value, dtype=dtype), self)

    def arange(self, *ends: Any, dtype: Any = None) -> DeviceArray:
        """Return evenly spaced numbers."""
        return DeviceArray(self.call(self.library.find("arange"), *ends, dtype=dtype), self)

    def eye(self, n: int, dtype: Any = float) -> DeviceArray:
        """Return the identity matrix."""
        return DeviceArray(self.call(self.library.find("eye"), n, dtype=dtype), self)

    def tri(self, n: int, k: int = 0) -> DeviceArray:
        """Return ones on and below the `k`-th diagonal of a square matrix, zeros above."""
        return DeviceArray(self.call(self.library.find("tri"), n, k=k, dtype=float), self)

    def as_strided(self, x: DeviceArray, shape: Shape, strides: Shape) -> DeviceArray:
        """Return a view of `x` with other strides, for reading."""
        return self.apply("lib.stride_tricks.as_strided", x, shape=shape, strides=strides)  # type: ignore[no-any-return]


def mixed(one: str, other: str) -> TypeError:
    """Return the error that says that operands are on different devices."""
    return TypeError(
        f"operands are on different devices, {one} and {other}: there are no implicit transfers. Move one "
        f"of them; derivatives follow: fgrad.tensor(x).to({one!r})"
    )
