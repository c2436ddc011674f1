"""Least squares of many unknowns: SciPy's solver, with columns of a block made orthonormal before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from fgrad.kernels import sparse_products
from fgrad.sparse.derivatives import Jacobian, jacobian
from fgrad.sparse.operators import Layout, MatrixOperator

_WIDTH = 16  # columns of a block, at most: to make more of them orthonormal costs more than it saves
_DAMPING = 1e-3  # of squares of their norms: what a block hardly depends on is not scaled by more than 32


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    *,
    jac: Jacobian | None = None,
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    loss: Any = "linear",
    f_scale: float = 1.0,
    max_nfev: int | None = None,
    tr_options: dict[str, Any] | None = None,
    verbose: int = 0,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> optimize.OptimizeResult:
    """Return the least-squares solution that SciPy finds with the sparse Jacobian, in variables that suit it.

    `scipy.optimize.least_squares` with `method="trf"` and `tr_solver="lsmr"` takes the more products with the
    Jacobian the more its columns depend on each other. Columns side by side that have more than half of their
    rows in common, such as the parameters of one camera, the coordinates of one point or the unknowns of one
    node, are a block here, of up to 16: variables are changed linearly so that the columns of each block are
    nearly orthonormal at `x0`. Of single columns, that is `x_scale="jac"`.

    Args:
        fun: `fun(x, *args, **kwargs)` returns the residuals, a vector, of a vector.
        x0: where to start; a vector.
        jac: `sparse.jacobian(fun, format="operator")`, to keep its pattern and program for further calls;
            None: it is made.
        ftol: as in SciPy.
        xtol: as in SciPy, of steps in the scaled variables.
        gtol: as in SciPy, of the gradient by the scaled variables.
        loss: as in SciPy.
        f_scale: as in SciPy.
        max_nfev: how many evaluations at most.
        tr_options: as in SciPy, those of LSMR.
        verbose: as in SciPy.
        args: further arguments.
        kwargs: likewise.

    Returns:
        SciPy's result. `jac` is the Jacobian at `x`, a `MatrixOperator`.

    Raises:
        TypeError: as in `jacobian`, or `jac` is something else.
        ValueError: as in SciPy, `x0` is no vector, or the Jacobian is not finite there.

    Differences from SciPy:
        There are no bounds, which would be none of the scaled variables: give SciPy's solver the operator for
        them. `jac` does not depend on `loss`.

    Derivative:
        None: the result is plain; `fgrad.scipy.optimize.least_squares` has derivatives.

    Example:
        >>> from fgrad import sparse
        >>> def residuals(x):
        ...     return np.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])
        >>> sparse.least_squares(residuals, np.zeros(4)).x.round(6)
        array([1., 1., 1., 1.])
    """
    if jac is None:
        jac = jacobian(fun, format="operator")
    elif not (
        isinstance(jac, Jacobian)
        and (jac.options["format"], jac.options["value"]) == ("operator", False)
        and jac.options["argnums"] in (0, (0,), [0])
    ):
        raise TypeError(
            f"sparse.least_squares: jac must be sparse.jacobian(fun, format='operator'), not {jac!r}"
        )
    kwargs = kwargs or {}
    start = np.atleast_1d(np.asarray(x0)).astype(float)
    if start.ndim != 1:
        raise ValueError(f"sparse.least_squares: x0 must be a vector, not of shape {start.shape}")
    known: list[tuple[Any, MatrixOperator]] = []

    def at(x: Any) -> MatrixOperator:
        if not known or not np.array_equal(known[0][0], x):
            known[:] = [(x, jac(x, *args, **kwargs))]
        return known[0][1]

    into, out_of = _scaled(at(start))
    found = optimize.least_squares(
        lambda z: fun(out_of @ z, *args, **kwargs),
        into @ start,
        jac=lambda z: at(out_of @ z) @ out_of,
        method="trf",
        ftol=ftol,
        xtol=xtol,
        gtol=gtol,
        loss=loss,
        f_scale=f_scale,
        max_nfev=max_nfev,
        tr_solver="lsmr",
        tr_options=tr_options,
        verbose=verbose,
    )
    found.x, found.grad = out_of @ found.x, into.T @ found.grad
    found.jac, found.optimality = at(found.x), np.abs(found.grad).max(initial=0.0)
    return found


def _scaled(operator: MatrixOperator) -> tuple[MatrixOperator, MatrixOperator]:
    """Return the matrix that makes scaled variables of variables, and the one that makes these of those."""
    matrix, n = operator.matrix, operator.shape[1]
    if not np.isfinite(matrix.data).all():
        raise ValueError("sparse.least_squares: the Jacobian is not finite at x0")
    first = _blocks(matrix)
    widths = np.diff(np.append(first, n))
    block = np.repeat(np.arange(first.size), widths)  # of each column
    heads = np.append(0, np.cumsum(widths[block])).astype(matrix.indptr.dtype)
    largest = np.abs(matrix.data).max(initial=0.0) or 1.0  # so that squares are finite
    data = matrix.data.astype(float) / largest
    products = sparse_products.of_columns(matrix.indptr, matrix.indices, data, heads, first[block])
    into, out_of = np.empty((2, heads[-1]))
    for width in np.unique(widths):
        at = heads[first[widths == width]][:, None] + np.arange(width * width)
        factors = _factors(products[at].reshape(-1, width, width)) * largest
        into[at] = np.swapaxes(factors, 1, 2).reshape(at.shape)
        out_of[at] = np.swapaxes(np.linalg.inv(factors), 1, 2).reshape(at.shape)
    starts = np.repeat(first[block], widths[block])
    places = np.arange(heads[-1]) - np.repeat(heads[:-1], widths[block])
    layout = Layout(heads, (starts + places).astype(heads.dtype), (n, n))
    return MatrixOperator(into, layout), MatrixOperator(out_of, layout)


def _blocks(matrix: Any) -> Any:
    """Return the first columns of blocks: those side by side have more than half of their rows in common."""
    n, columns = matrix.shape[1], matrix.indices
    ends = np.zeros(columns.size + 1, bool)
    ends[matrix.indptr] = True  # an entry that is the first one of its row is beside none before it
    beside = (columns[1:] == columns[:-1] + 1) & ~ends[1:-1]
    common = np.bincount(columns[1:][beside], minlength=n)
    counts = np.bincount(columns, minlength=n)
    alone = np.ones(n, bool)
    alone[1:] = 2 * common[1:] <= np.maximum(counts[1:], counts[:-1])
    return sparse_products.cut(np.flatnonzero(alone), n, _WIDTH)[0]


def _factors(products: Any) -> Any:
    """Return L of the Cholesky factorizations of matrices, whose correlations are damped; all from below."""
    norms = np.sqrt(np.diagonal(products, axis1=1, axis2=2))
    norms = np.where(norms == 0, 1.0, norms)[:, :, None]
    correlations = products / (norms * np.swapaxes(norms, 1, 2)) + _DAMPING * np.eye(products.shape[1])
    return np.linalg.cholesky(correlations) * norms
