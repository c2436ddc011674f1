"""Diagonals and triangles of matrices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from fgrad.core.dispatch import bind
from fgrad.core.placement import placed
from fgrad.numpy.arrays import (
    as_value,
)
from fgrad.numpy.registry import implements
from fgrad.numpy.shapes import moveaxis, ravel
from fgrad.numpy.views import diagonal as _diagonal
from fgrad.ops.indices import HOLE


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the diagonal of a plane, as a new last axis.

    Returns:
        Array of the shape of `a` without the two axes, and the diagonal as last; dtype of `a`.

    Raises:
        ValueError: fewer than two axes, or equal ones.

    Derivative:
        The cotangent on the diagonal, zero elsewhere.

    Example:
        >>> fnp.diagonal(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([1., 4.])
    """
    a = as_value(a)
    n = len(a.shape)
    axes = normalize_axis_tuple((axis1, axis2), n)
    return _diagonal(a if axes == (n - 2, n - 1) else moveaxis(a, axes, (-2, -1)), operator.index(offset))


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    """Return the diagonal `k` of a matrix, or the matrix with a vector on its diagonal `k`.

    Returns:
        Vector of a matrix, or matrix (n + |k|, n + |k|) of a vector of n; dtype of `v`.

    Raises:
        ValueError: no axes, or more than two.

    Derivative:
        Linear: the cotangent on the diagonal, or the diagonal of the cotangent.

    Example:
        >>> fnp.diag(np.array([1.0, 2.0]))
        array([[1., 0.],
               [0., 2.]])
    """
    v = as_value(v)
    if len(v.shape) == 2:
        return diagonal(v, k)
    if len(v.shape) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    k = operator.index(k)
    n = v.shape[0] + abs(k)
    i = np.arange(v.shape[0])
    return bind("scatter_add", v, i + max(-k, 0), i + max(k, 0), template=(HOLE, HOLE), shape=(n, n))


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """Return the matrix with the flattened elements on its diagonal `k`.

    Returns:
        Array (n + |k|, n + |k|) of n elements, of their dtype.

    Derivative:
        The diagonal of the cotangent.

    Example:
        >>> fnp.diagflat(np.array([[1.0, 2.0]]))
        array([[1., 0.],
               [0., 2.]])
    """
    return diag(ravel(v), k)


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    """Return the elements on and below the diagonal `k`, zeros above.

    Returns:
        Array of the shape and dtype of `m`.

    Raises:
        TypeError: no axes.

    Derivative:
        One below and on the diagonal, zero above.

    Example:
        >>> fnp.tril(np.ones((2, 2)))
        array([[1., 0.],
               [1., 1.]])
    """
    m = as_value(m)
    return bind("where", placed(m, _lower(m.shape, k)), m, np.zeros((), m.dtype))


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    """Return the elements on and above the diagonal `k`, zeros below.

    Returns:
        Array of the shape and dtype of `m`.

    Raises:
        TypeError: no axes.

    Derivative:
        One above and on the diagonal, zero below.

    Example:
        >>> fnp.triu(np.ones((2, 2)))
        array([[1., 1.],
               [0., 1.]])
    """
    m = as_value(m)
    return bind("where", placed(m, _lower(m.shape, k - 1)), np.zeros((), m.dtype), m)


def _lower(shape: tuple[int, ...], k: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return where a matrix lies on or below the diagonal `k`; of a vector NumPy makes a square one."""
    if not shape:
        raise TypeError("a triangle needs an array with axes")
    return np.tri(shape[-2:][0], shape[-1], k, bool)
