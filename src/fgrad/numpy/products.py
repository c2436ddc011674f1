"""Products of arrays: each is brought to contractions of two operands."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from string import ascii_letters
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from fgrad.core.dispatch import apply_primitive, bind
from fgrad.core.primitive import FOREIGN, PRIMITIVES, UFUNCS
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.views import disordered, unordered
from fgrad.numpy.arrays import together
from fgrad.numpy.diagonals import diagonal
from fgrad.numpy.reductions import sum
from fgrad.numpy.registry import (
    as_array,
    as_scalar,
    cast_operands,
    declare_operator,
    holds_tensor,
    implements,
    stored,
)
from fgrad.numpy.shapes import atleast_1d, moveaxis, ravel
from fgrad.ops import linear, matrices
from fgrad.ops.contraction import contract
from fgrad.ops.cross import cross as cross_product

_ARRAYS = {Tensor, np.ndarray}
_CONTRACT = PRIMITIVES["contract"]
_MATRICES = {"a": "ij", "b": "jk", "out": "ik"}
_SMALL = {  # the letters of products of vectors and matrices
    (1, 1): ("j", "j", ""),
    (1, 2): ("j", "jk", "k"),
    (2, 1): ("ij", "j", "i"),
    (2, 2): ("ij", "jk", "ik"),
}


@implements(np.matmul)
def matmul(
    x1: Any, x2: Any, /, out: Any = None, *, axes: Any = None, dtype: Any = None, **options: Any
) -> Any:
    """Return the matrix product; axes before the last two broadcast, vectors are rows or columns at need.

    Returns:
        Array (..., n, m) of (..., n, k) and (..., k, m), without the axis of a vector; the promoted dtype.

    Raises:
        ValueError: lengths of the summed axes differ, or an operand has no axes.

    Derivative:
        Linear in both: ct @ x2.T and x1.T @ ct, summed over axes that broadcast.

    Example:
        >>> fnp.matmul(np.array([[1.0, 2.0]]), np.array([3.0, 4.0]))
        array([11.])
        >>> fg.grad(lambda x: fnp.matmul(x, x))(np.array([1.0, 2.0]))
        array([2., 4.])
    """
    x, y = x1, x2
    if dtype is not None or options:
        x, y = _loop(np.matmul, x, y, dtype, options)
    if axes is not None:
        x, y, arranged = _cores_last(np.matmul, x, y, axes=axes)
        return stored(arranged(matmul(x, y)), out)
    if x.__class__ not in _ARRAYS or y.__class__ not in _ARRAYS:
        x, y = together(x, y)
    shape_x, shape_y = x.shape, y.shape
    n, m = len(shape_x), len(shape_y)
    if n == 0 or m == 0:
        raise ValueError("matmul: Input operand does not have enough dimensions (has 0, needs at least 1)")
    inner = shape_y[0] if m == 1 else shape_y[-2]
    if shape_x[-1] != inner:
        raise ValueError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0: shapes {x.shape} and {y.shape} "
            f"(size {inner} is different from {x.shape[-1]})"
        )
    if n <= 2 and m <= 2:
        z = contract(x, y, *_SMALL[n, m])
        return z if out is None else stored(z, out)
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    names = ascii_letters[11 : 11 + len(batch)]  # behind i, j and k
    x, a = _without_ones(x, names, batch, "ij"[2 - min(n, 2) :])
    y, b = _without_ones(y, names, batch, "jk"[: min(m, 2)])
    kept = "".join(c for c in names if c in a + b)
    tail = "i" * (n > 1) + "k" * (m > 1)
    z = contract(x, y, a, b, kept + tail)
    full = (*batch, *z.shape[len(kept) :])
    return stored(linear.reshape(z, full) if z.shape != full else z, out)


def _loop(ufunc: Any, x: Any, y: Any, dtype: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    """Return operands of a product in the dtypes with which NumPy computes a result of `dtype`.

    Raises:
        TypeError: an option that has a meaning, or none, which would be lost.
    """
    for option in options.keys() - {"casting", "order", "subok"}:
        instead = "; say dtype=" if option in {"sig", "signature"} else ""
        raise TypeError(f"{ufunc.__name__} of Tensors takes no {option}{instead}")
    x, y = together(x, y)
    return (x, y) if dtype is None else cast_operands(ufunc, (x, y), dtype=dtype, **options)


_CORES = {"matmul": (2, 2), "vecdot": (1, 1), "matvec": (2, 1), "vecmat": (1, 2)}  # axes of a factor


def _cores_last(ufunc: Any, x: Any, y: Any, **given: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Return factors whose axes of one product come last, and what arranges the result as NumPy's `axes` say.

    Raises:
        AxisError, TypeError, ValueError: what NumPy raises for `axes`, `axis` and `keepdims`.
    """
    x, y = together(x, y)
    ufunc(*(np.ones(tuple(min(n, 1) for n in v.shape), v.dtype) for v in (x, y)), **given)
    places = given.get("axes", [given.get("axis")] * 3)
    x, y = (
        moveaxis(v, place, tuple(range(-min(k, len(v.shape)), 0)) if isinstance(place, tuple) else -1)
        for v, place, k in zip((x, y), places, _CORES[ufunc.__name__], strict=False)
    )

    def arranged(z: Any) -> Any:
        if given.get("keepdims"):
            z = linear.reshape(z, (*z.shape, 1))
        elif ufunc is np.vecdot:
            return z
        place = places[2] if len(places) > 2 else ()  # that of the result
        return moveaxis(z, tuple(range(-len(place), 0)) if isinstance(place, tuple) else -1, place)

    return x, y, arranged


def _without_ones(x: Any, names: str, batch: tuple[int, ...], core: str) -> tuple[Any, str]:
    """Return `x` without the batch axes that broadcasting repeats, and its letters."""
    k = len(x.shape) - len(core)
    own = names[len(names) - k :]
    lengths = batch[len(batch) - k :]
    gone = [i for i in range(k) if x.shape[i] == 1 and lengths[i] != 1]
    if gone:
        x = linear.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in gone))
    return x, "".join(c for i, c in enumerate(own) if i not in gone) + core


_FACTORS = (np.ndarray, np.generic, list, tuple, int, float, complex)  # numbers are refused in NumPy's words


def _matmul_operator(x: Any, y: Any) -> Any:
    for v in (x, y):
        if v.__class__ is not Tensor and not isinstance(v, _FACTORS):
            return FOREIGN["matmul"](x, y) if "matmul" in FOREIGN else NotImplemented
    return matmul(x, y)


def _product_of_matrices(x: Any, y: Any) -> Any:
    """Return what `matmul` does, of two matrices without its preliminaries."""
    vx = x._value if x.__class__ is Tensor else x
    vy = y._value if y.__class__ is Tensor else y
    if (
        vx.__class__ is np.ndarray
        and vy.__class__ is np.ndarray
        and vx.ndim == 2
        and vy.ndim == 2
        and vx.shape[1] == vy.shape[0]
    ):
        return apply_primitive(_CONTRACT, (x, y), _MATRICES)
    return _matmul_operator(x, y)


declare_operator("matmul", "matmul", _product_of_matrices)
UFUNCS[np.matmul] = _product_of_matrices


def _factors(a: Any, b: Any) -> Any:
    """Return both factors; a second one that is a list without elements takes the dtype of the first."""
    x, y = together(a, b)
    if isinstance(b, list | tuple) and 0 in y.shape and not holds_tensor(b):
        y = y.astype(x.dtype)
    return x, y


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Return the sum product over the last axis of `a` and the last but one (or only) axis of `b`.

    Returns:
        Array of the axes of `a` without its last and of `b` without its last but one; a number for vectors.
        The
        promoted dtype.

    Raises:
        ValueError: lengths of the summed axes differ.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        np.float64(11.0)
    """
    if a.__class__ is Tensor and b.__class__ is Tensor and not a._nodes and not b._nodes and out is None:
        va, vb = a._value, b._value
        if va.__class__ is np.ndarray and vb.__class__ is np.ndarray:
            return wrap(va.dot(vb))  # the method, which does not ask again whether the arrays are Tensors
    x, y = _factors(a, b)
    n, m = len(x.shape), len(y.shape)
    if out is not None and out.dtype != np.result_type(x.dtype, y.dtype):
        raise ValueError(
            f"output array is not acceptable: it must have dtype {np.result_type(x.dtype, y.dtype)}"
        )
    if n == 0 or m == 0:
        return stored(bind("multiply", x, y), out)
    inner = y.shape[-2 if m > 1 else 0]
    if x.shape[-1] != inner:
        raise ValueError(f"shapes {x.shape} and {y.shape} not aligned: {x.shape[-1]} != {inner}")
    if n <= 2 and m <= 2 and out is None:
        return contract(x, y, *_SMALL[n, m])
    left, right = ascii_letters[1:n], ascii_letters[n : n + m - 1]
    b_letters = right[:-1] + "a" + right[-1:]
    return stored(contract(x, y, left + "a", b_letters, left + right), out)


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """Return the sum product over the last axes.

    Returns:
        Array of the axes of both without their last; a number for vectors. The promoted dtype.

    Raises:
        ValueError: lengths of the last axes differ.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.inner(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        array(11.)
    """
    x, y = _factors(a, b)
    if not x.shape or not y.shape:
        return bind("multiply", x, y)
    return as_scalar(tensordot(x, y, (-1, -1)))


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Return the products of every element of `a` with every element of `b`.

    Returns:
        Array (n, m) of n and m elements, flattened first; the promoted dtype.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.outer(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        array([[3., 4.],
               [6., 8.]])
    """
    x, y = together(a, b)
    return stored(contract(ravel(x), ravel(y), "i", "j", "ij"), out)


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """Return the sum of conj(a) * b over all elements.

    Returns:
        A number, of the promoted dtype.

    Raises:
        ValueError: numbers of elements differ.

    Derivative:
        Linear in `b`, and in the conjugate of `a`.

    Example:
        >>> fnp.vdot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        np.float64(11.0)
    """
    x, y = map(ravel, _factors(a, b))
    return contract(matrices.conjugate(x), y, "i", "i", "")


@implements(np.vecdot)
def vecdot(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    axis: int = -1,
    axes: Any = None,
    keepdims: bool = False,
    dtype: Any = None,
    **options: Any,
) -> Any:
    """Return the sum of conj(x1) * x2 over an axis, with broadcasting.

    Returns:
        Array of the axes that broadcast, without the summed one, or with one of length 1 if `keepdims`; the
        promoted dtype.

    Raises:
        ValueError: lengths of the summed axis differ.

    Derivative:
        Linear in `x2`, and in the conjugate of `x1`.

    Example:
        >>> fnp.vecdot(np.ones((2, 3)), np.arange(3.0))
        array([3., 3.])
    """
    x, y = _loop(np.vecdot, x1, x2, dtype, options)
    place = {"axis": axis} if axes is None else {"axes": axes}
    x, y, arranged = _cores_last(np.vecdot, x, y, **place, keepdims=keepdims)
    x = matrices.conjugate(x)
    z = matmul(linear.reshape(x, (*x.shape[:-1], 1, x.shape[-1])), linear.reshape(y, (*y.shape, 1)))
    return stored(as_scalar(arranged(linear.reshape(z, z.shape[:-2]))), out)


@implements(getattr(np, "matvec", None))
def matvec(
    x1: Any, x2: Any, /, out: Any = None, *, axes: Any = None, dtype: Any = None, **options: Any
) -> Any:
    """Return the products of matrices with vectors; axes before the last ones broadcast.

    Returns:
        Array (..., n) of (..., n, k) and (..., k); the promoted dtype.

    Raises:
        ValueError: lengths of the summed axes differ.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.matvec(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0]))
        array([3., 7.])
    """
    x, y = _loop(getattr(np, "matvec", None), x1, x2, dtype, options)
    if axes is not None:
        x, y, arranged = _cores_last(getattr(np, "matvec", None), x, y, axes=axes)
        return stored(arranged(matvec(x, y)), out)
    if len(x.shape) < 2 or len(y.shape) < 1:
        raise ValueError(f"matvec needs matrices and vectors, not shapes {x.shape} and {y.shape}")
    z = matmul(x, linear.reshape(y, (*y.shape, 1)))
    return stored(linear.reshape(z, z.shape[:-1]), out)


@implements(getattr(np, "vecmat", None))
def vecmat(
    x1: Any, x2: Any, /, out: Any = None, *, axes: Any = None, dtype: Any = None, **options: Any
) -> Any:
    """Return the products of conjugated vectors with matrices; axes before the last ones broadcast.

    Returns:
        Array (..., m) of (..., k) and (..., k, m); the promoted dtype.

    Raises:
        ValueError: lengths of the summed axes differ.

    Derivative:
        Linear in `x2`, and in the conjugate of `x1`.

    Example:
        >>> fnp.vecmat(np.array([1.0, 1.0]), np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([4., 6.])
    """
    x, y = _loop(getattr(np, "vecmat", None), x1, x2, dtype, options)
    if axes is not None:
        x, y, arranged = _cores_last(getattr(np, "vecmat", None), x, y, axes=axes)
        return stored(arranged(vecmat(x, y)), out)
    if len(x.shape) < 1 or len(y.shape) < 2:
        raise ValueError(f"vecmat needs vectors and matrices, not shapes {x.shape} and {y.shape}")
    x = matrices.conjugate(x)
    z = matmul(linear.reshape(x, (*x.shape[:-1], 1, x.shape[-1])), y)
    return stored(linear.reshape(z, (*z.shape[:-2], z.shape[-1])), out)


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Return the sum product over pairs of axes: the last of `a` with the first of `b`, or as listed.

    Returns:
        Array of the axes of `a` that are not summed, then those of `b`; the promoted dtype.

    Raises:
        ValueError: lengths of a pair of axes differ.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.tensordot(np.ones((2, 3)), np.ones((3, 4)), axes=1).shape
        (2, 4)
    """
    x, y = together(a, b)
    n, m = len(x.shape), len(y.shape)
    if isinstance(axes, int | np.integer):
        if axes > min(n, m):
            raise ValueError(f"tensordot over {axes} axes needs as many in both operands, not {n} and {m}")
        left, right = tuple(range(n - axes, n)), tuple(range(axes))
    else:
        left, right = (normalize_axis_tuple(i, k) for i, k in zip(axes, (n, m), strict=True))
    if len(left) != len(right) or any(x.shape[i] != y.shape[j] for i, j in zip(left, right, strict=True)):
        raise ValueError(f"shape-mismatch for sum: {x.shape} over {left} and {y.shape} over {right}")
    letters_x = ascii_letters[:n]
    free = iter(ascii_letters[n:])
    letters_y = "".join(letters_x[left[right.index(j)]] if j in right else next(free) for j in range(m))
    out = "".join(c for i, c in enumerate(letters_x) if i not in left)
    out += "".join(c for c in letters_y if c not in letters_x)
    return as_array(contract(x, y, letters_x, letters_y, out))


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    """Return the Kronecker product.

    Returns:
        Array of the products of lengths of both, of the promoted dtype.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.kron(np.array([1.0, 10.0]), np.array([1.0, 2.0]))
        array([ 1.,  2., 10., 20.])
    """
    x, y = together(a, b)
    n = max(len(x.shape), len(y.shape))
    s, t = (((1,) * (n - len(v.shape)) + tuple(v.shape)) for v in (x, y))
    x = linear.reshape(x, tuple(k for i in s for k in (i, 1)))
    y = linear.reshape(y, tuple(k for i in t for k in (1, i)))
    return linear.reshape(bind("multiply", x, y), tuple(i * j for i, j in zip(s, t, strict=True)))


@implements(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """Return the sum along a diagonal.

    Returns:
        Array of the shape of `a` without the two axes; small integers are widened as in `sum`.

    Derivative:
        One on the diagonal, zero elsewhere.

    Example:
        >>> fg.grad(fnp.trace)(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[1., 0.],
               [0., 1.]])
    """
    d = diagonal(a, offset, axis1, axis2)
    return sum(d, len(d.shape) - 1, dtype, out)


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Return the vector product of vectors with three components.

    Vectors with two lie in the plane, of which NumPy warns; of two such only the third component is returned.

    Returns:
        Array of the shape to which both broadcast, of the promoted dtype; of vectors with two components the
        third one alone.

    Raises:
        ValueError: vectors with another number of components.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
        array([0., 0., 1.])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = together(a, b)
    if not x.shape or not y.shape:
        raise ValueError("At least one array has zero dimension")
    if {axisa, axisb, axisc} == {-1} and x.shape[-1] == y.shape[-1] == 3:
        return _cross(x, y, max(len(x.shape), len(y.shape)) - 1)
    rank = len(x.shape)
    if rank == len(y.shape) and all(-rank <= i < rank for i in (axisa, axisb, axisc)):
        along, *others = {i % rank for i in (axisa, axisb, axisc)}
        if not others and x.shape[along] == y.shape[along] == 3:
            return _cross(x, y, along)
    x, y = moveaxis(x, axisa, 0), moveaxis(y, axisb, 0)
    n, m = x.shape[0], y.shape[0]
    if not {n, m} <= {2, 3}:
        raise ValueError(
            f"incompatible dimensions for cross product (dimension must be 2 or 3), not {n} and {m}"
        )
    if 2 in {n, m}:
        warnings.warn(_PLANE, DeprecationWarning, stacklevel=2)
        if n == m:
            third = _part(x, 0) * _part(y, 1) - _part(x, 1) * _part(y, 0)
            return unordered(third, third)  # in NumPy it lies row by row, as the other one
    u, v = (_in_space(w) for w in (x, y))
    if len(u.shape) != len(v.shape):  # more axes come behind the components
        rank = max(len(u.shape), len(v.shape))
        u, v = (linear.reshape(w, (3, *(1,) * (rank - len(w.shape)), *w.shape[1:])) for w in (u, v))
    return moveaxis(_cross(u, v, 0), 0, axisc)


def _cross(u: Any, v: Any, axis: int) -> Any:
    """Return the vector product; in NumPy components lie side by side, wherever their axis is."""
    shape = np.broadcast_shapes(u.shape, v.shape)
    u, v = (x if x.shape == shape else linear.broadcast_to(x, shape) for x in (u, v))
    product = cross_product(u, v, axis)
    return product if axis == len(shape) - 1 else disordered(product)


def _in_space(x: Any) -> Any:
    """Return vectors, components first, with a third component."""
    if x.shape[0] == 3:
        return x
    return bind("concatenate", x, np.zeros((1, *x.shape[1:]), x.dtype), axis=0)


_PLANE = (
    "Arrays of 2-dimensional vectors are deprecated. Use arrays of 3-dimensional vectors instead. "
    "(deprecated in NumPy 2.0)"
)


def _part(x: Any, i: int) -> Any:
    return bind("slice", x, index=(i,))


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Return the discrete convolution of two vectors, out_k = sum_i a_i v_(k-i).

    Args:
        a: vector.
        v: vector.
        mode: "full", "same" (the middle, of the length of the longer one) or "valid" (without borders).

    Returns:
        Vector: n + m - 1 elements for "full", max(n, m) for "same", |n - m| + 1 for "valid"; the promoted
        dtype.

    Derivative:
        Linear in both: correlations of the cotangent with the other one.

    Example:
        >>> fnp.convolve(np.array([1.0, 2.0]), np.array([1.0, 1.0, 1.0]))
        array([1., 3., 3., 2.])
    """
    x, y = _vectors("convolve", a, v)
    if y.size > x.size:
        x, y = y, x
    return _convolved(x, y, mode, (y.size - 1) // 2)


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Return the cross-correlation of two vectors, out_k = sum_i a_(i+k) conj(v_i); modes as `convolve`.

    Returns:
        Vector: |n - m| + 1 elements for "valid", n + m - 1 for "full", max(n, m) for "same"; the promoted
        dtype.

    Derivative:
        Linear in `a`, and in the conjugate of `v`.

    Example:
        >>> fnp.correlate(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0]))
        array([3., 5.])
    """
    if np.ndim(a) == 0 or np.ndim(v) == 0:
        raise ValueError("object of too small depth for desired array")
    x, y = _vectors("correlate", a, v)
    y = bind("slice", matrices.conjugate(y), index=(slice(None, None, -1),))
    n, m = x.size, y.size
    return _convolved(*((y, x) if m > n else (x, y)), mode, n // 2 if m > n else (m - 1) // 2)


def _vectors(name: str, a: Any, v: Any) -> tuple[Any, Any]:
    x, y = atleast_1d(a, v)
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise ValueError(f"{name} needs vectors")
    if not x.size or not y.size:
        raise ValueError(f"{name} of an empty array")
    return x, y


def _convolved(x: Any, y: Any, mode: str, start: int) -> Any:
    """Return the convolution of `x` with the shorter `y`; mode same begins at `start` of the full one."""
    if mode not in {"full", "same", "valid"}:
        raise ValueError(f"mode must be 'full', 'same' or 'valid', not {mode!r}")
    if mode != "same":
        return bind("convolve", x, y, mode=mode)
    return bind("slice", bind("convolve", x, y, mode="full"), index=(slice(start, start + x.size),))
