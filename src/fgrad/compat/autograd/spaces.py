"""Vector spaces: zeros, bases, sums and products of whatever is differentiated, as autograd knows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fgrad.compat.autograd.boxes import getval
from fgrad.core.tensor import Tensor


class VSpace:
    """The space of values like a given one."""

    mappings: dict[type, Callable[[Any], VSpace]] = {}  # noqa: RUF012 -- one for all
    iscomplex: bool = False
    shape: Any
    size: int

    def __init__(self, value: Any) -> None: ...

    @classmethod
    def register(cls, value_type: type, vspace_maker: Callable[[Any], VSpace] | None = None) -> None:
        """Let this class, or `vspace_maker`, answer for values of a type."""
        VSpace.mappings[value_type] = vspace_maker or cls

    def zeros(self) -> Any:
        """Return the zero of the space."""
        raise NotImplementedError

    def ones(self) -> Any:
        """Return the sum of the basis."""
        raise NotImplementedError

    def standard_basis(self) -> Iterator[Any]:
        """Yield a basis, orthonormal over the real numbers."""
        raise NotImplementedError

    def randn(self) -> Any:
        """Return a normal sample of NumPy's global generator."""
        raise NotImplementedError

    def add(self, x: Any, y: Any) -> Any:
        """Return x + y."""
        return x + y

    def mut_add(self, x: Any, y: Any) -> Any:
        """Return x + y; where x is None, a copy of y."""
        return self.add(self.zeros() if x is None else x, y)

    def scalar_mul(self, x: Any, a: Any) -> Any:
        """Return a x."""
        return x * a

    def moved(self, x: Any, y: Any, a: Any) -> Any:
        """Return x + a y."""
        return self.add(x, self.scalar_mul(y, a))

    def inner_prod(self, x: Any, y: Any) -> Any:
        """Return the real number <x, y>."""
        raise NotImplementedError

    def covector(self, x: Any) -> Any:
        """Return the cotangent that belongs to the tangent x."""
        return x

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}_{self.__dict__}"


class ArrayVSpace(VSpace):
    """The arrays of a shape and a real dtype."""

    def __init__(self, value: Any) -> None:
        if not hasattr(value, "dtype"):
            value = np.asarray(value)
        self.shape: tuple[int, ...] = value.shape
        self.dtype: np.dtype[Any] = value.dtype

    @property
    def size(self) -> int:  # type: ignore[override]
        """The dimension over the real numbers."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def zeros(self) -> Any:
        """Return the zero of the space."""
        return np.zeros(self.shape, self.dtype)

    def ones(self) -> Any:
        """Return the sum of the basis."""
        return np.ones(self.shape, self.dtype)

    def standard_basis(self) -> Iterator[Any]:
        """Yield a basis, orthonormal over the real numbers."""
        yield from self._units(1)

    def _units(self, *units: complex) -> Iterator[Any]:
        for place in np.ndindex(*self.shape):
            for unit in units:
                e = np.zeros(self.shape, self.dtype)
                e[place] = unit
                yield e

    def randn(self) -> Any:
        """Return a normal sample of NumPy's global generator."""
        return np.asarray(np.random.randn(*self.shape)).astype(self.dtype, copy=False)  # noqa: NPY002 -- autograd's

    def inner_prod(self, x: Any, y: Any) -> Any:
        """Return the real number <x, y>."""
        if x.__class__ is np.ndarray and y.__class__ is np.ndarray:
            return np.dot(x.ravel(), y.ravel())
        return np.dot(np.ravel(x), np.ravel(y))


class ComplexArrayVSpace(ArrayVSpace):
    """The arrays of a shape and a complex dtype, as a space over the real numbers."""

    iscomplex = True

    @property
    def size(self) -> int:  # type: ignore[override]
        """The dimension over the real numbers."""
        return 2 * super().size

    def ones(self) -> Any:
        """Return the sum of the basis."""
        return np.full(self.shape, 1 + 1j, self.dtype)

    def standard_basis(self) -> Iterator[Any]:
        """Yield a basis, orthonormal over the real numbers."""
        yield from self._units(1, 1j)

    def randn(self) -> Any:
        """Return a normal sample of NumPy's global generator."""
        return super().randn() + 1j * super().randn()

    def inner_prod(self, x: Any, y: Any) -> Any:
        """Return the real number <x, y>."""
        return np.real(np.dot(np.conj(np.ravel(x)), np.ravel(y)))

    def covector(self, x: Any) -> Any:
        """Return the cotangent that belongs to the tangent x."""
        return np.conj(x)


class ContainerVSpace(VSpace):
    """A product of spaces; `shape` is the container of them."""

    def __init__(self, value: Any) -> None:
        self.shape = value
        self.shape = self._made([vspace(v) for v in self._values(value)])

    def _values(self, x: Any) -> Sequence[Any]:
        """Return what a container holds, in the order of the spaces."""
        raise NotImplementedError

    def _made(self, values: Sequence[Any]) -> Any:
        raise NotImplementedError

    def _spaces(self) -> Sequence[VSpace]:
        return self._values(self.shape)

    @property
    def size(self) -> int:  # type: ignore[override]
        """The dimension over the real numbers."""
        return sum([space.size for space in self._spaces()])

    def zeros(self) -> Any:
        """Return the zero of the space."""
        return self._made([space.zeros() for space in self._spaces()])

    def ones(self) -> Any:
        """Return the sum of the basis."""
        return self._made([space.ones() for space in self._spaces()])

    def randn(self) -> Any:
        """Return a normal sample of NumPy's global generator."""
        return self._made([space.randn() for space in self._spaces()])

    def standard_basis(self) -> Iterator[Any]:
        """Yield a basis, orthonormal over the real numbers."""
        zeros = self._values(self.zeros())
        for i, space in enumerate(self._spaces()):
            for e in space.standard_basis():
                yield self._made([*zeros[:i], e, *zeros[i + 1 :]])

    def add(self, x: Any, y: Any) -> Any:
        """Return x + y."""
        values = self._values
        return self._made([s.add(a, b) for s, a, b in zip(self._spaces(), values(x), values(y), strict=True)])

    def scalar_mul(self, x: Any, a: Any) -> Any:
        """Return a x."""
        return self._made([s.scalar_mul(v, a) for s, v in zip(self._spaces(), self._values(x), strict=True)])

    def moved(self, x: Any, y: Any, a: Any) -> Any:
        """Return x + a y."""
        values = self._values
        return self._made(
            [s.moved(u, v, a) for s, u, v in zip(self._spaces(), values(x), values(y), strict=True)]
        )

    def inner_prod(self, x: Any, y: Any) -> Any:
        """Return the real number <x, y>."""
        values = self._values
        return sum([s.inner_prod(a, b) for s, a, b in zip(self._spaces(), values(x), values(y), strict=True)])

    def covector(self, x: Any) -> Any:
        """Return the cotangent that belongs to the tangent x."""
        return self._made([s.covector(v) for s, v in zip(self._spaces(), self._values(x), strict=True)])


class SequenceVSpace(ContainerVSpace):
    """A product of spaces, in a row."""

    seq_type: Callable[..., Any]

    def _values(self, x: Any) -> Sequence[Any]:
        return x  # type: ignore[no-any-return]

    def _made(self, values: Sequence[Any]) -> Any:
        return self.seq_type(values)


class ListVSpace(SequenceVSpace):
    """Lists of values of given spaces."""

    seq_type = list


class TupleVSpace(SequenceVSpace):
    """Tuples of values of given spaces."""

    seq_type = tuple


class NamedTupleVSpace(SequenceVSpace):
    """Named tuples of values of given spaces."""

    def __init__(self, value: Any) -> None:
        self.seq_type = type(value)
        super().__init__(value)

    def _made(self, values: Sequence[Any]) -> Any:
        return self.seq_type(*values)


class DictVSpace(ContainerVSpace):
    """Dictionaries of values of given spaces."""

    def _values(self, x: Any) -> Sequence[Any]:
        return [x[k] for k in self.shape]

    def _made(self, values: Sequence[Any]) -> Any:
        return dict(zip(self.shape, values, strict=True))


def _of_array(x: Any) -> VSpace:
    return ComplexArrayVSpace(x) if x.dtype.kind == "c" else ArrayVSpace(x)


for _type in (float, np.longdouble, np.float64, np.float32, np.float16):
    ArrayVSpace.register(_type)
for _complex in (complex, np.clongdouble, np.complex64, np.complex128):
    ComplexArrayVSpace.register(_complex)
VSpace.register(np.ndarray, _of_array)
ListVSpace.register(list)
TupleVSpace.register(tuple)
DictVSpace.register(dict)


def vspace(value: Any) -> VSpace:
    """Return the space of values like `value`.

    Raises:
        TypeError: it is nothing that can be differentiated.
    """
    kind = type(value)
    if kind is Tensor:
        return _of_array(value) if value.ndim or value.dtype.kind in "fc" else vspace(getval(value))
    maker = VSpace.mappings.get(kind)
    if maker is None and isinstance(value, tuple) and hasattr(value, "_fields"):
        maker = NamedTupleVSpace
    if maker is None:
        raise TypeError(f"{value!r} of type {kind.__name__} has no derivatives: it is in no vector space")
    return maker(value)
