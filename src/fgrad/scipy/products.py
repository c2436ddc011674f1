"""Products of Tensors with SciPy's sparse matrices; importing it declares them, which `import_hooks` sees to.

SciPy leaves to the other operand what it cannot make an array of. A matrix is a constant here, and SciPy's
own code multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from fgrad import numpy as fnp
from fgrad.core.aval import Aval
from fgrad.core.primitive import FOREIGN
from fgrad.core.tensor import Tensor, is_traced
from fgrad.core.trace import below, running
from fgrad.extend.engine import OpaqueRule, apply_opaque, convert


class ColumnRule(OpaqueRule):
    """Opaque code that treats each column of its last argument alike, so that examples are more columns."""

    def _each(self, values: Sequence[Any], trace: Any) -> list[Any]:
        *others, x = values
        if any(trace.owns(v) for v in others) or not trace.size:
            return super()._each(values, trace)
        whole = x._value.whole
        columns = fnp.moveaxis(whole, 0, -1)
        count = math.prod(columns.shape[1:])  # not -1, as there may be no rows
        with running(below(trace.level)):
            (found,) = self._found([*others, fnp.reshape(columns, (columns.shape[0], count))])
            rows = fnp.reshape(found, (found.shape[0], *columns.shape[1:]))
            return [trace.tracer(fnp.moveaxis(rows, -1, 0))]


class _Product(ColumnRule):
    """A constant matrix times columns."""

    name = "product with a sparse matrix"

    def __init__(self, matrix: Any, aval: Aval) -> None:
        self.matrix, self.outs = matrix, (aval,)

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the product of arrays."""
        return [self.matrix @ values[0]]

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the product with the transpose."""
        return [convert(product(self.matrix.T, cts[0]), self.values[0].dtype)]


def check_product(shape: tuple[int, ...], x: Any) -> None:
    """Raise unless a matrix of this shape can be multiplied by `x`.

    Raises:
        ValueError: the dimensions do not match.
    """
    if len(shape) != 2 or x.ndim not in {1, 2} or x.shape[0] != shape[1]:
        raise ValueError(
            f"a sparse matrix of shape {tuple(shape)} cannot be multiplied by an array of shape {x.shape}: "
            "it takes vectors and matrices of as many rows as it has columns"
        )


def product_dtype(of_matrix: Any, of_columns: Any) -> np.dtype[Any]:
    """Return the dtype of a product of SciPy's, which has no half precision."""
    dtype = np.result_type(of_matrix, of_columns)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def product(matrix: Any, x: Any) -> Any:
    """Return `matrix @ x` for a sparse matrix of SciPy's and an array or Tensor."""
    check_product(matrix.shape, x)
    if is_traced(x):
        matrix = matrix.copy()  # which the user may write to before the derivative is computed
    aval = Aval((matrix.shape[0], *x.shape[1:]), product_dtype(matrix.dtype, x.dtype))
    return apply_opaque(_Product(matrix, aval), [x])[0]


def _multiplied(x: Any, y: Any) -> Any:
    """Return `x @ y` where one of them is a sparse matrix of SciPy's and the other a Tensor."""
    if issparse(x) and isinstance(y, Tensor):
        return product(x, y)
    if issparse(y) and isinstance(x, Tensor):
        return product(y.T, x.T).T
    return NotImplemented


FOREIGN["matmul"] = _multiplied
