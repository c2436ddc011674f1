"""Sparse arrays whose stored values are a Tensor, so that they have gradients; their pattern is fixed."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from fgrad import numpy as fnp
from fgrad.core.aval import Aval, with_dtype
from fgrad.core.tensor import Tensor, is_traced
from fgrad.extend.engine import apply_opaque, convert
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.products import ColumnRule, check_product, product_dtype
from fgrad.transforms.calling import plain
from fgrad.tree import register_pytree_node


def _indices(given: Any) -> np.ndarray[Any, Any]:
    """Return a copy of indices, signed: unsigned ones neither mix with -1 nor index as SciPy's do."""
    found = np.array(given)
    if found.size and found.dtype.kind not in "iu":
        raise TypeError(f"indices of a sparse array are integers, not {found.dtype}")
    return found.astype(np.intp)


class Pattern:
    """The indices of the values of a sparse array; values at the same index add up."""

    __slots__ = ("_key", "cols", "rows", "shape")

    shape: tuple[int, int]

    rows: np.ndarray[Any, Any]
    cols: np.ndarray[Any, Any]

    def __init__(self, rows: Any, cols: Any, shape: tuple[int, int]) -> None:
        n, m = (operator.index(length) for length in shape)
        self.rows, self.cols, self.shape = _indices(rows), _indices(cols), (n, m)
        self._key: tuple[Any, ...] | None = None
        for name, places, length in (("row", self.rows, n), ("column", self.cols, m)):
            if places.size and (places.min() < 0 or places.max() >= length):
                raise ValueError(f"a {name} index of a sparse array of shape {shape} is out of bounds")

    def key(self) -> tuple[Any, ...]:
        """Return what equal patterns have in common."""
        if self._key is None:
            self._key = (self.shape, self.rows.tobytes(), self.cols.tobytes())
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and (self is other or self.key() == other.key())

    def __hash__(self) -> int:
        return hash(self.key())

    def __repr__(self) -> str:
        return f"{len(self.rows)} values in {self.shape[0]} x {self.shape[1]}"

    @property
    def transposed(self) -> Pattern:
        """The pattern of the transpose."""
        return Pattern(self.cols, self.rows, (self.shape[1], self.shape[0]))

    def filled(self, data: Any) -> Any:
        """Return SciPy's sparse array of these values."""
        return scipy.sparse.coo_array((data, (self.rows, self.cols)), shape=self.shape)


class SparseArray:
    """A sparse array of two dimensions, a pytree whose leaf is `data`.

    `csr_array`, `csc_array` and `coo_array` make one. It multiplies dense vectors and matrices (`a @ x`,
    `x @ a`) and numbers, and is what `linalg.spsolve` and the other solvers take.

    Args:
        data: the stored values, an array or Tensor of one dimension.
        pattern: their rows and columns, and the shape.

    Raises:
        ValueError: a product of incompatible shapes.

    Derivative:
        Of products in the stored values and in what they are multiplied by, of every order.

    Differences from SciPy:
        It has two dimensions, a fixed pattern, and no sums, slices or products of two sparse arrays;
        `toscipy` gives SciPy's, `toarray` a dense one.

    Example:
        >>> from fgrad.scipy.sparse import coo_array
        >>> a = coo_array((np.array([1.0, 2.0]), ([0, 1], [1, 0])))
        >>> a @ np.array([1.0, 10.0]), a.T.toarray(), a.nnz
        (array([10.,  2.]), array([[0., 2.],
               [1., 0.]]), 2)
    """

    data: Any
    pattern: Pattern

    ndim = 2
    __array_ufunc__ = None  # NumPy leaves products with arrays to `__rmatmul__`

    def __init__(self, data: Any, pattern: Pattern) -> None:
        self.data, self.pattern = data, pattern

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return self.pattern.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the stored values."""
        dtype: np.dtype[Any] = self.data.dtype
        return dtype

    @property
    def nnz(self) -> int:
        """How many values are stored."""
        return len(self.pattern.rows)

    @property
    def T(self) -> SparseArray:  # noqa: N802 -- NumPy's name
        """The transpose."""
        return SparseArray(self.data, self.pattern.transposed)

    def __matmul__(self, x: Any) -> Any:
        if isinstance(x, SparseArray) or scipy.sparse.issparse(x):
            return NotImplemented
        x = with_dtype(x)
        check_product(self.shape, x)
        dtype = product_dtype(self.dtype, x.dtype)
        aval = Aval((self.shape[0], *x.shape[1:]), dtype)
        return apply_opaque(_Product(self.pattern, aval), [self.data, x])[0]

    def __rmatmul__(self, x: Any) -> Any:
        x = with_dtype(x)
        return (self.T @ x.T).T

    def __mul__(self, x: Any) -> SparseArray:
        if np.shape(x) != ():
            return NotImplemented
        return SparseArray(self.data * x, self.pattern)

    __rmul__ = __mul__

    def __neg__(self) -> SparseArray:
        return SparseArray(-self.data, self.pattern)

    def toarray(self) -> Any:
        """Return the dense array, a Tensor if `data` is one."""
        dense: Any = (fnp if isinstance(self.data, Tensor) else np).zeros(self.shape, self.dtype)
        np.add.at(dense, (self.pattern.rows, self.pattern.cols), self.data)
        return dense

    def toscipy(self) -> Any:
        """Return SciPy's sparse array of the same values.

        Raises:
            TypeError: `data` is being differentiated, mapped or traced.
        """
        data = plain(self.data)
        if is_traced(data):
            raise TypeError(
                "SciPy's sparse arrays hold plain numbers, so these would lose their gradient; "
                "multiply by the array (@), or use the solvers of fgrad.scipy.sparse.linalg"
            )
        return self.pattern.filled(np.asarray(data)).tocsr()

    def __repr__(self) -> str:
        return f"SparseArray({self.data!r}, {self.pattern})"


register_pytree_node(
    SparseArray, lambda a: ([a.data], a.pattern), lambda pattern, data: SparseArray(data[0], pattern)
)


def sampled(pattern: Pattern, left: Any, right: Any) -> Any:
    """Return the values of `left @ right.T` at the indices of a pattern."""
    both = left[pattern.rows] * right[pattern.cols]
    return both if both.ndim == 1 else fnp.sum(both, axis=1)


class _Product(ColumnRule):
    """A matrix of stored values times columns; linear in both."""

    name = "product with a sparse array"

    def __init__(self, pattern: Pattern, aval: Aval) -> None:
        self.pattern, self.outs = pattern, (aval,)

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the product of arrays."""
        data, x = values
        return [self.pattern.filled(data) @ x]

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the cotangents of the stored values and of the columns."""
        (data, x), (ct,) = self.values, cts
        wanted = self.wanted or (True, True)
        by_data = convert(sampled(self.pattern, ct, x), data.dtype) if wanted[0] else None
        by_x = convert(SparseArray(data, self.pattern).T @ ct, x.dtype) if wanted[1] else None
        return [by_data, by_x]


def _of(given: Any, shape: Any, places: Any, pointed: int | None = None) -> SparseArray:
    """Return the sparse array of a triple or pair of arrays, of one of SciPy's, or of a dense one.

    Args:
        given: what it is made of.
        shape: rows and columns, or None.
        places: returns values, rows, columns and the least shape of what `given` holds.
        pointed: the axis whose length is that of the pointers, if there are some.
    """
    if shape is not None:
        shape = tuple(map(operator.index, shape))
    if isinstance(given, tuple) and len(given) > 1 and not all(isinstance(n, int) for n in given):
        data, rows, cols, least = places(*given)
        data = data if isinstance(data, Tensor | np.ndarray) else np.asarray(data)
        if data.ndim != 1 or not data.shape == np.shape(rows) == np.shape(cols):
            raise ValueError(
                f"a sparse array needs as many values as indices, not {data.shape} and {np.shape(rows)}"
            )
        if shape is not None and pointed is not None and shape[pointed] != least[pointed]:
            raise ValueError(
                f"a compressed sparse array of shape {shape} has not {least[pointed] + 1} pointers"
            )
        return SparseArray(data, Pattern(rows, cols, least if shape is None else shape))
    if not isinstance(given, SparseArray) and not scipy.sparse.issparse(given):
        given = given if isinstance(given, Tensor | np.ndarray) else np.asarray(given)
    if given.ndim != 2:
        raise ValueError(f"a sparse array has two dimensions, not {given.ndim}")
    n, m = given.shape
    if shape not in {None, (n, m)}:
        raise ValueError(f"a sparse array of shape {shape} cannot be made of one of shape {(n, m)}")
    if isinstance(given, SparseArray):
        return given
    if scipy.sparse.issparse(given):
        found = given.tocoo()
        return SparseArray(found.data, Pattern(found.row, found.col, (n, m)))
    dense = given
    rows, cols = np.nonzero(np.asarray(stop_gradient(dense)))
    return SparseArray(dense[rows, cols], Pattern(rows, cols, (n, m)))


def _compressed(data: Any, indices: Any, indptr: Any) -> tuple[Any, Any, Any, tuple[int, int]]:
    indptr = np.asarray(indptr)
    if indptr.ndim != 1 or not indptr.size or indptr[0] != 0:
        raise ValueError(
            "the row (column) pointers of a compressed sparse array are a vector that starts with 0"
        )
    counts, indices = np.diff(indptr.astype(np.intp)), _indices(indices)
    major = np.repeat(np.arange(len(counts)), counts)
    return data, major, indices, (len(counts), int(indices.max(initial=-1)) + 1)


def csr_array(arg1: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """Return a sparse array of compressed rows.

    Args:
        arg1: `(data, indices, indptr)`, as for SciPy's, where `data` may be a Tensor; or one of SciPy's; or a
            dense array or Tensor, whose nonzero elements make the pattern and get gradients.
        shape: rows and columns; None: as many as are needed.

    Returns:
        A `SparseArray`. Its pattern, unlike its values, is a constant to every transformation.

    Raises:
        ValueError: the parts have incompatible shapes.

    Derivative:
        The stored values are those given: 1 for each. Of products see `SparseArray`.

    Differences from SciPy:
        No `dtype`, `copy` and `maxprint`; a shape does not make an empty array.

    Example:
        >>> import fgrad
        >>> def total(data):
        ...     return np.sum(csr_array((data, [0, 1, 1], [0, 2, 3])) @ np.array([1.0, 10.0]))
        >>> fgrad.grad(total)(np.ones(3))
        array([ 1., 10., 10.])
    """
    return _of(arg1, shape, _compressed, 0)


def csc_array(arg1: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """Return a sparse array of compressed columns; otherwise as `csr_array`.

    Args:
        arg1: `(data, indices, indptr)`, or as for `csr_array`.
        shape: rows and columns; None: as many as are needed.

    Returns:
        A `SparseArray`, which keeps the dtype of the values.

    Raises:
        ValueError: the parts have incompatible shapes.

    Derivative:
        As of `csr_array`.

    Example:
        >>> csc_array((np.ones(2), [0, 1], [0, 0, 2])).toarray()
        array([[0., 1.],
               [0., 1.]])
    """

    def places(data: Any, indices: Any, indptr: Any) -> tuple[Any, Any, Any, tuple[int, int]]:
        data, cols, rows, (n, m) = _compressed(data, indices, indptr)
        return data, rows, cols, (m, n)

    return _of(arg1, shape, places, 1)


def coo_array(arg1: Any, shape: tuple[int, int] | None = None) -> SparseArray:
    """Return a sparse array of values at indices, `(data, (rows, columns))`; otherwise as `csr_array`.

    Args:
        arg1: `(data, (rows, columns))`, where values at the same place add up, or as for `csr_array`.
        shape: rows and columns; None: as many as are needed.

    Returns:
        A `SparseArray`, which keeps the dtype of the values.

    Raises:
        ValueError: the parts have incompatible shapes, or an index is out of bounds.

    Derivative:
        As of `csr_array`.

    Example:
        >>> coo_array((np.array([1.0, 2.0]), ([0, 0], [1, 1]))).toarray()
        array([[0., 3.]])
    """

    def places(data: Any, coords: Any) -> tuple[Any, Any, Any, tuple[int, int]]:
        rows, cols = map(_indices, coords)
        return data, rows, cols, (int(rows.max(initial=-1)) + 1, int(cols.max(initial=-1)) + 1)

    return _of(arg1, shape, places)
