"""Matrices in stacks, for the primitives of linear algebra: products, adjoints, triangles, diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.backend.devices import as_array
from fgrad.core.dispatch import bind, unary
from fgrad.core.placement import near
from fgrad.core.tensor import Tensor
from fgrad.ops.contraction import contract
from fgrad.ops.linear import reshape, sum_axes, transpose

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"  # of the axes before a matrix


def matrix_product(x: Any, y: Any) -> Any:
    """Return the products of two stacks of matrices with the same axes in front."""
    if x.__class__ is not Tensor and y.__class__ is not Tensor:
        return np.matmul(x, y)
    lead = _LETTERS[: len(x.shape) - 2]
    return contract(x, y, lead + "XY", lead + "YZ", lead + "XZ")


def swapped(x: Any) -> Any:
    """Return transposed matrices."""
    n = len(x.shape)
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def conjugate(x: Any) -> Any:
    """Return the complex conjugate."""
    return bind("conjugate", x) if x.dtype.kind == "c" else x


def adjoint(x: Any) -> Any:
    """Return transposed conjugate matrices."""
    return swapped(conjugate(x))


def columns(x: Any, start: int | None, stop: int | None) -> Any:
    """Return some columns of matrices."""
    return bind("slice", x, index=(..., slice(start, stop)))


def rows(x: Any, start: int | None, stop: int | None) -> Any:
    """Return some rows of matrices."""
    return bind("slice", x, index=(..., slice(start, stop), slice(None)))


def as_column(x: Any) -> Any:
    """Return vectors as matrices of one column."""
    return reshape(x, (*x.shape, 1))


def as_row(x: Any) -> Any:
    """Return vectors as matrices of one row."""
    return reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def identity(x: Any) -> Any:
    """Return the identity, of the size and dtype of square matrices."""
    return near(x).eye(x.shape[-1], dtype=x.dtype)


def on_diagonal(x: Any) -> Any:
    """Return the diagonal matrices of vectors."""
    return as_column(x) * identity(x)


def of_diagonal(x: Any) -> Any:
    """Return the diagonals of square matrices as vectors."""
    return sum_axes(x * identity(x), (len(x.shape) - 1,))


def below(like: Any, n: int, dtype: Any) -> Any:
    """Return ones below the diagonal of a square matrix, and a half on it, where `like` is."""
    make = near(like)
    return as_array(make.tri(n, k=-1) + make.eye(n) / 2, dtype)


def size_of(x: Any) -> Any:
    """Return the largest elements of matrices, or one, as constant matrices of one element."""
    if 0 in x.shape:
        return 1.0
    rank = len(x.shape)
    size = bind("max", unary("absolute", bind("stop_gradient", x)), axes=(rank - 2, rank - 1))
    size = bind("where", bind("logical_and", bind("greater", size, 0), bind("isfinite", size)), size, 1)
    return reshape(size, (*size.shape, 1, 1))
