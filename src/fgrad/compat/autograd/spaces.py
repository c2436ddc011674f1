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
        known = hasattr(value, "dtype")
        self.shape: tuple[int, ...] = value.shape if known else np.shape(value)
        self.dtype: np.dtype[Any] = value.dtype if known else np.result_type(value)

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
        return np.asarray(np.random.randn(*self.shape)).astype(self.dtype)  # noqa: NPY002 -- autograd's

    def inner_prod(self, x: Any, y: Any) -> Any:
        """Return the real number <x, y>."""
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
        self.shape = self._map(vspace)

    def _pairs(self, x: Any) -> Iterator[tuple[Any, Any]]:
        raise NotImplementedError

    def _made(self, values: Sequence[Any]) -> Any:
        raise NotImplementedError

    def _map(self, f: Callable[..., Any], *args: Any) -> Any:
        return self._made([f(space, *(x[k] for x in args)) for k, space in self._pairs(self.shape)])

    def _subval(self, x: Any, at: Any, value: Any) -> Any:
        return self._made([value if k == at else v for k, v in self._pairs(x)])

    @property
    def size(self) -> int:  # type: ignore[override]
        """The dimension over the real numbers."""
        return sum(space.size for _, space in self._pairs(self.shape))

    def zeros(self) -> Any:
        """Return the zero of the space."""
        return self._map(lambda space: space.zeros())

    def ones(self) -> Any:
        """Return the sum of the basis."""
        return self._map(lambda space: space.ones())

    def randn(self) -> Any:
        """Return a normal sample of NumPy's global generator."""
        return self._map(lambda space: space.randn())

    def standard_basis(self) -> Iterator[Any]:
        """Yield a basis, orthonormal over the real numbers."""
        zero = self.zeros()
        for k, space in self._pairs(self.shape):
            for e in space.standard_basis():
                yield self._subval(zero, k, e)

    def add(self, x: Any, y: Any) -> Any:
        """Return x + y."""
        return self._map(lambda space, a, b: space.add(a, b), x, y)

    def scalar_mul(self, x: Any, a: Any) -> Any:
        """Return a x."""
        return self._map(lambda space, v: space.scalar_mul(v, a), x)

    def inner_prod(self, x: Any, y: Any) -> Any:
        """Return the real number <x, y>."""
        return sum(space.inner_prod(x[k], y[k]) for k, space in self._pairs(self.shape))

    def covector(self, x: Any) -> Any:
        """Return the cotangent that belongs to the tangent x."""
        return self._map(lambda space, v: space.covector(v), x)


class SequenceVSpace(ContainerVSpace):
    """A product of spaces, in a row."""

    seq_type: Callable[..., Any]

    def _pairs(self, x: Any) -> Iterator[tuple[Any, Any]]:
        return iter(enumerate(x))

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

    def _pairs(self, x: Any) -> Iterator[tuple[Any, Any]]:
        return iter(x.items())

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
