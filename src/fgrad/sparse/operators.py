"""A function linearized at a point, as a linear operator of SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from fgrad.core.tensor import Tensor
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
    leaves = [_plain(x) for x in given.leaves]
    run = given.partial(leaves, given.outputs)
    value, push = linearize(run, *leaves)
    pulled: list[Any] = []

    def product(v: Any) -> Any:
        return _joined(push(*_parted(v, leaves)))

    def transposed(v: Any) -> Any:
        if not pulled:
            pulled.append(vjp(run, *leaves)[1])
        return _joined(pulled[0](type(value)(_parted(v, value))))

    dtype = np.result_type(*leaves, *value)
    shape = sum(np.size(y) for y in value), given.count
    return LinearOperator(shape, matvec=product, rmatvec=transposed, dtype=dtype)


def _plain(x: Any) -> Any:
    return np.asarray(x._value if isinstance(x, Tensor) else x)


def _parted(v: Any, like: Any) -> list[Any]:
    """Return a vector as arrays of the shapes of others."""
    parts = np.split(np.reshape(v, -1), np.cumsum([np.size(x) for x in like])[:-1])
    return [p.reshape(np.shape(x)).astype(x.dtype) for p, x in zip(parts, like, strict=True)]


def _joined(parts: Any) -> Any:
    return np.concatenate([np.reshape(p, -1) for p in parts])
