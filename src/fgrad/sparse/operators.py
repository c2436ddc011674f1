"""Derivatives as linear operators of SciPy: a function linearized at a point, and the entries of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from fgrad import numpy as fnp
from fgrad.core.tensor import Tensor
from fgrad.kernels import gather_scatter, sparse_products
from fgrad.locks import lazy
from fgrad.sparse.arguments import Arguments
from fgrad.transforms.forward import linearize
from fgrad.transforms.reverse import vjp


def linear_operator(fun: Callable[..., Any], *primals: Any) -> Any:
    """Return the derivative of `fun` at a point as `scipy.sparse.linalg.LinearOperator`.

    `fun` runs once for products with the Jacobian and once for those with its transpose, each where it is
    first asked for; no entry is computed.

    Args:
        fun: takes and returns pytrees of arrays of real floats.
        primals: the point.

    Returns:
        An operator of shape (m, n), for the m elements of the results and the n of the arguments, leaf by
        leaf, each in C order. `matvec` is the directional derivative, `rmatvec` its transpose.

    Raises:
        TypeError: an argument or a result is not a real float, or an argument is being transformed.

    Derivative:
        None: products are plain arrays; `jvp` and `vjp` give products with derivatives.

    Example:
        >>> from fgrad import sparse
        >>> J = sparse.linear_operator(lambda x: x[1:] * x[:-1], np.array([1.0, 2.0, 3.0]))
        >>> J.shape, J @ np.ones(3), J.T @ np.ones(2)
        ((2, 3), array([3., 5.]), array([2., 4., 2.]))
    """
    given = Arguments(fun, primals, {}, tuple(range(len(primals))), "sparse.linear_operator")
    if given.traced:
        raise TypeError(
            f"{given.title}: SciPy's operators work on plain numbers, so this is no part of another "
            "transformation; use fgrad.linearize there"
        )
    leaves = [plain(x) for x in given.leaves]
    run = given.partial(leaves, given.outputs)
    value, push = linearize(run, *leaves)
    pulled: list[Any] = []

    def product(v: Any) -> Any:
        return plain(joined(push(*parted(v, leaves))))

    def transposed(v: Any) -> Any:
        if not pulled:
            pulled.append(vjp(run, *leaves)[1])
        return plain(joined(pulled[0](type(value)(parted(v, value)))))

    dtype = np.result_type(*leaves, *value)
    shape = sum(np.size(y) for y in value), given.count
    return LinearOperator(shape, matvec=product, rmatvec=transposed, dtype=dtype)


def plain(x: Any) -> Any:
    """Return what an array or Tensor holds, on the host."""
    return np.asarray(x._value if isinstance(x, Tensor) else x)


def parted(v: Any, like: Any) -> list[Any]:
    """Return a vector as arrays of the shapes of others."""
    parts = np.split(np.reshape(v, -1), np.cumsum([np.size(x) for x in like])[:-1])
    return [p.reshape(np.shape(x)).astype(x.dtype) for p, x in zip(parts, like, strict=True)]


def joined(parts: Sequence[Any]) -> Any:
    """Return the elements of some arrays as one vector."""
    flat = [fnp.reshape(x, (-1,)) for x in parts]
    return flat[0] if len(flat) == 1 else fnp.concatenate(flat)


class Layout:
    """The pattern of a matrix, row by row in ascending order, as products go along it."""

    def __init__(self, heads: Any, indices: Any, shape: tuple[int, int]) -> None:
        self.heads, self.indices, self.shape = heads, indices, shape
        heads.setflags(write=False)
        indices.setflags(write=False)

    def filled(self, data: Any) -> Any:
        """Return the matrix of some entries, as `csr_array` that cannot be written to."""
        made = sparse.csr_array((data, self.indices, self.heads), shape=self.shape)
        made.has_canonical_format = True
        made.data.setflags(write=False)
        return made

    @lazy
    def columns(self) -> Any:
        """The pattern column by column, as `csc_array` of the numbers of entries."""
        numbers = np.arange(self.indices.size, dtype=self.heads.dtype)
        return sparse.csr_array((numbers, self.indices, self.heads), shape=self.shape).tocsc()

    @lazy
    def along(self) -> sparse_products.Strips:
        """Strips of rows."""
        return sparse_products.strips(self.heads, self.indices)

    @lazy
    def across(self) -> tuple[sparse_products.Strips, Any]:
        """Strips of columns, and the numbers of their entries."""
        strips = sparse_products.strips(self.columns.indptr, self.columns.indices)
        return strips, sparse_products.turned(strips, self.columns.data).reshape(1, -1)


class MatrixOperator(LinearOperator):  # type: ignore[misc]  # SciPy says no types
    """A sparse matrix as `scipy.sparse.linalg.LinearOperator`, with quick products, also of its transpose.

    `sparse.jacobian` and `sparse.hessian` make them with `format="operator"`. Threads share the products of
    those with more than 65,536 entries. Each sum is taken in the order of its entries, so that results do not
    depend on how many threads there are. Rows, or columns, side by side with the same pattern are quicker.

    Attributes:
        matrix: a `scipy.sparse.csr_array` of the same entries, which cannot be written to.

    Example:
        >>> from fgrad import sparse
        >>> J = sparse.jacobian(lambda x: x[1:] * x[:-1], format="operator")(np.array([1.0, 2.0, 3.0]))
        >>> J @ np.ones(3), J.T @ np.ones(2), J.matrix.nnz
        (array([3., 5.]), array([2., 4., 2.]), 4)
    """

    matrix: Any
    layout: Layout

    def __init__(self, data: Any, layout: Layout) -> None:
        super().__init__(data.dtype, layout.shape)
        self.matrix, self.layout = layout.filled(data), layout

    @lazy
    def _turned(self) -> Any:
        """The entries in the order of strips of columns."""
        order = self.layout.across[1]
        return gather_scatter.read(self.matrix.data[None], np.zeros(1, np.int64), order)[0]

    def _along(self, x: Any) -> Any:
        return sparse_products.product(self.layout.along, self.matrix.data, x, along=True)

    def _across(self, x: Any) -> Any:
        return sparse_products.product(self.layout.across[0], self._turned, x, along=False)

    def _matvec(self, x: Any) -> Any:
        return _by_columns(self._along, self.matrix, x)

    def _rmatvec(self, x: Any) -> Any:
        return _by_columns(self._across, self.matrix.T, x)

    _matmat, _rmatmat = _matvec, _rmatvec


def _by_columns(product: Callable[[Any], Any], matrix: Any, x: Any) -> Any:
    """Return the product of a matrix and a vector, or a matrix, from a function of vectors of floats."""
    dtype = np.result_type(matrix.dtype, x.dtype)
    if matrix.dtype.char not in "fd" or dtype.char not in "fdFD":
        return matrix @ x
    if dtype.kind == "c":
        made = np.empty((matrix.shape[0], *x.shape[1:]), dtype)
        made.real, made.imag = (_by_columns(product, matrix, part) for part in (x.real, x.imag))
        return made
    if x.ndim == 1:
        return product(np.require(x, dtype, ["C", "A"]))
    columns = [product(np.require(column, dtype, ["C", "A"])) for column in x.T]
    return np.stack(columns, axis=1) if columns else np.empty((matrix.shape[0], 0), dtype)
