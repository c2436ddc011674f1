"""Solvers of sparse linear systems, direct and iterative, differentiable in matrix and right-hand side."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse.linalg as theirs

from fgrad import numpy as fnp
from fgrad.core.aval import Aval, with_dtype
from fgrad.core.tensor import Tensor
from fgrad.errors import UnsolvedWarning
from fgrad.extend.engine import apply_opaque, convert
from fgrad.lax.implicit import custom_linear_solve, custom_root
from fgrad.names import offered as _offered
from fgrad.scipy.closures import Closed
from fgrad.scipy.products import ColumnRule
from fgrad.scipy.results import is_plain
from fgrad.scipy.solver_calls import run_solver
from fgrad.scipy.sparse.arrays import Pattern, SparseArray, coo_array, sampled
from fgrad.scipy.sparse.conjugate import conjugate_gradients
from fgrad.scipy.vectors import array

__all__ = ["bicgstab", "cg", "gmres", "lsqr", "spsolve"]


class _Solve(ColumnRule):
    """The solution for columns, by factors of the matrix."""

    name = "spsolve"

    def __init__(self, pattern: Pattern, permc_spec: str | None, aval: Aval) -> None:
        self.pattern, self.permc_spec, self.outs = pattern, permc_spec, (aval,)

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the solution for arrays."""
        data, b = values
        dtype = np.result_type(data, b, np.float64)
        try:
            factors = theirs.splu(self.pattern.filled(data.astype(dtype)).tocsc(), self.permc_spec)
        except RuntimeError as error:
            raise np.linalg.LinAlgError(f"spsolve: the matrix has no inverse: {error}") from error
        return [factors.solve(np.asarray(b, dtype)).astype(self.outs[0].dtype)]

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the cotangents of the stored values and of the right-hand side."""
        (data, b), (ct,) = self.values, cts
        back = _solved(SparseArray(data, self.pattern).T, ct, self.permc_spec)
        wanted = self.wanted or (True, True)
        by_data = convert(-sampled(self.pattern, back, self.x[0]), data.dtype) if wanted[0] else None
        return [by_data, convert(back, b.dtype)]


def _solved(a: SparseArray, b: Any, permc_spec: str | None) -> Any:
    dtype = np.result_type(a.dtype, b.dtype, np.float32)
    rule = _Solve(a.pattern, permc_spec, Aval(b.shape, dtype))
    return apply_opaque(rule, [a.data, b])[0]


def _dense(b: Any) -> Any:
    b = b.toarray() if hasattr(b, "toarray") else b
    return with_dtype(b)


def spsolve(A: Any, b: Any, permc_spec: str | None = None, use_umfpack: bool = False) -> Any:  # noqa: N803 -- SciPy's
    """Return the solution of `A @ x = b` by factors of a sparse matrix (SuperLU).

    Args:
        A: square; a `SparseArray`, or one of SciPy's, which is a constant.
        b: vector, or matrix of columns.
        permc_spec: how columns are ordered, as in SciPy.
        use_umfpack: accepted; it is SuperLU that solves.

    Returns:
        The solution, dense; a vector also of a matrix of one column, as in SciPy.

    Raises:
        LinAlgError: the matrix has no inverse.
        ValueError: incompatible shapes.

    Derivative:
        In the stored values and in `b`, of every order: with u = A^-T ct, b_ct = u and data_ct = -u x^T at
        the indices of the pattern.

    Source:
        Giles (2008), An extended collection of matrix derivative results, section 2.3.1.

    Example:
        >>> import fgrad
        >>> from fgrad.scipy.sparse import csr_array
        >>> solve = lambda data: spsolve(csr_array((data, [0, 1], [0, 1, 2])), np.ones(2))
        >>> fgrad.jacrev(solve)(np.array([1.0, 2.0]))
        array([[-1.  , -0.  ],
               [-0.  , -0.25]])
    """
    a, b = coo_array(A), _dense(b)
    n, m = a.shape
    if n != m or b.ndim not in {1, 2} or b.shape[0] != n:
        raise ValueError(f"spsolve: a matrix of shape {a.shape} and a right-hand side of shape {b.shape}")
    x = _solved(a, b, permc_spec)
    return fnp.reshape(x, (n,)) if b.shape[1:] == (1,) else x


# ---- iterative solvers --------------------------------------------------------------------------


def _matvec(a: Any) -> Callable[[Any], Any]:
    """Return the product with a matrix: dense or sparse, of SciPy's or not, or a function."""
    if callable(a) and not hasattr(a, "shape"):
        product: Callable[[Any], Any] = a
        return product
    if isinstance(a, theirs.LinearOperator):
        raise TypeError(
            "a LinearOperator of SciPy's has no derivative and takes no Tensors; "
            "give the function that it calls"
        )
    return lambda x: a @ x


def _precision(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that SciPy's iterations compute in: one of LAPACK's."""
    return dtype if dtype.char in "fdFD" else np.dtype(float)


def _system(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a matrix, or a function, and a right-hand side in the dtype of the solution."""
    a, b = np.asarray(a) if isinstance(a, list | tuple) else a, _dense(b)
    of_matrix = [_precision(a.dtype)] if hasattr(a, "dtype") else []
    return a, convert(b, np.result_type(_precision(b.dtype), *of_matrix))


def _iterated(
    name: str, a: Any, b: Any, x0: Any, options: dict[str, Any], *, symmetric: bool
) -> tuple[Any, int | None]:
    """Return the solution by one of SciPy's iterations, and what it says of it."""
    a, b = _system(a, b)
    symmetric = symmetric and b.dtype.kind == "f"  # the transpose of a Hermitian matrix is another one
    preconditioner = options.pop("M", None)
    said: list[int] = []
    called: list[bool] = []

    def solver(m: Any) -> Callable[..., Any]:
        def solve(matvec: Any, rhs: Any, guess: Any = None) -> Any:
            size, dtype = rhs.size, rhs.dtype

            def apply(v: Any) -> Any:
                found = np.asarray(matvec(np.asarray(v, dtype).reshape(rhs.shape))).ravel()
                if found.dtype.kind == "c" and dtype.kind == "f":
                    raise TypeError(f"{name}: A is complex and b is real; give b as complex numbers")
                return found

            operator = theirs.LinearOperator((size, size), apply, dtype=dtype)
            start = None if guess is None else np.ravel(guess)
            x, info = getattr(theirs, name)(operator, np.ravel(rhs), x0=start, M=m, **options)
            if called and info:
                warnings.warn(
                    f"{name} did not converge (info {info}) while a derivative was computed, or in a jitted "
                    "function, so the result is not exact; raise maxiter, or give a preconditioner",
                    UnsolvedWarning,
                    stacklevel=2,
                )
            said.append(info)
            return x.reshape(rhs.shape)

        return solve

    transposed = preconditioner.T if hasattr(preconditioner, "T") else preconditioner
    solvers = solver(preconditioner), None if symmetric else solver(transposed)
    guess = None if x0 is None else convert(fnp.reshape(_dense(x0), b.shape), b.dtype)
    x = custom_linear_solve(_matvec(a), b, *solvers, symmetric=symmetric, guess=guess)
    called.append(True)
    return x, max(said) if said else None


def cg(
    A: Any,  # noqa: N803 -- SciPy's
    b: Any,
    x0: Any = None,
    *,
    rtol: Any = 1e-5,
    atol: Any = 0.0,
    maxiter: Any = None,
    M: Any = None,  # noqa: N803
    callback: Callable[[Any], Any] | None = None,
) -> tuple[Any, int | None]:
    """Return the solution of `A @ x = b` for a symmetric positive definite `A`, by conjugate gradients.

    Args:
        A: dense or sparse array, of SciPy's (a constant) or a `SparseArray`, or a function of a vector; may
            use Tensors. Where it is complex, it is Hermitian.
        b: right-hand side.
        x0: where the iteration starts; without gradient. It may be traced.
        rtol: relative tolerance, of derivatives too; it may be a Tensor.
        atol: absolute tolerance, likewise.
        maxiter: how many iterations at most, likewise.
        M: approximation of the inverse, as in SciPy, or a function of a vector, which may use Tensors.
        callback: `callback(x)` after each iteration.

    Returns:
        `(x, info)`: `info` is 0 where it converged, and None where the solver runs later, as in `jit`, or
            where it is a loop of fgrad's: a tolerance is a Tensor, or `M` a function.

    Raises:
        TypeError: `A` is a LinearOperator, or a complex function beside a real `b`; or there is a callback
            beside such a loop.

    Derivative:
        In all Tensors that `A` and `b` are made of, by another solution; where that does not converge,
        `UnsolvedWarning`.

    Example:
        >>> import fgrad
        >>> solve = lambda d: cg(lambda x: d * x, np.ones(2))[0]
        >>> fgrad.jacrev(solve)(np.array([1.0, 2.0]))
        array([[-1.  , -0.  ],
               [-0.  , -0.25]])
    """
    limits = rtol, atol, maxiter
    is_function = callable(M) and not hasattr(M, "shape")
    if is_function or any(isinstance(v, Tensor) for v in limits):
        if callback is not None:
            raise TypeError("cg: a callback needs tolerances that are numbers, and M as a matrix")
        precondition = M if is_function or M is None else _matvec(M)
        a, rhs = _system(A, b)
        return conjugate_gradients(_matvec(a), rhs, x0, *limits, precondition=precondition), None
    options = {"rtol": rtol, "atol": atol, "maxiter": maxiter, "M": M, "callback": callback}
    return _iterated("cg", A, b, x0, options, symmetric=True)


def gmres(
    A: Any,  # noqa: N803 -- SciPy's
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
) -> tuple[Any, int | None]:
    """Return the solution of `A @ x = b` by generalised minimal residuals; see `cg`.

    Args:
        A: as in `cg`, but any square matrix.
        b: right-hand side.
        x0: where the iteration starts.
        rtol: relative tolerance.
        atol: absolute tolerance.
        restart: iterations between restarts.
        maxiter: restarts at most.
        M: approximation of the inverse; its `.T`, if it has one, serves the transposed system.

    Returns:
        `(x, info)` as of `cg`.

    Raises:
        TypeError: `A` is a LinearOperator.

    Derivative:
        As of `cg`, by a solution of the transposed system.

    Differences from SciPy:
        No `callback`; `restart` None is SciPy's 20.

    Example:
        >>> gmres(np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([3.0, 4.0]))[0]
        array([1., 2.])
    """
    options = {"rtol": rtol, "atol": atol, "restart": restart, "maxiter": maxiter, "M": M}
    return _iterated("gmres", A, b, x0, options, symmetric=False)


def bicgstab(
    A: Any,  # noqa: N803 -- SciPy's
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
) -> tuple[Any, int | None]:
    """Return the solution of `A @ x = b` by stabilised biconjugate gradients; see `gmres`.

    Args:
        A: as in `cg`, but any square matrix.
        b: right-hand side.
        x0: where the iteration starts; without gradient.
        rtol: relative tolerance, of derivatives too.
        atol: absolute tolerance, likewise.
        maxiter: how many iterations at most.
        M: as in `gmres`.

    Returns:
        `(x, info)` as of `cg`.

    Raises:
        TypeError: `A` is a LinearOperator.

    Derivative:
        As of `cg`, by a solution of the transposed system.

    Differences from SciPy:
        No `callback`.

    Example:
        >>> bicgstab(np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([3.0, 4.0]))[0]
        array([1., 2.])
    """
    options = {"rtol": rtol, "atol": atol, "maxiter": maxiter, "M": M}
    return _iterated("bicgstab", A, b, x0, options, symmetric=False)


def lsqr(
    A: Any,  # noqa: N803 -- SciPy's
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    x0: Any = None,
) -> tuple[Any, ...]:
    """Return the least-squares solution of `A @ x = b`, with `damp**2 |x|**2` added to the squared residual.

    Args:
        A: array of any shape, dense or sparse, of SciPy's or a `SparseArray`; real.
        b: vector.
        damp: number.
        atol: tolerance, as in SciPy; of derivatives too.
        btol: likewise.
        conlim: limit of the condition number.
        iter_lim: how many iterations at most.
        x0: where the iteration starts; without gradient.

    Returns:
        `(x, istop, itn, r1norm, r2norm, anorm, acond, arnorm, xnorm)`, as SciPy's without `var`; what comes
        after x is None in `vmap` and `jit`.

    Raises:
        ValueError: incompatible shapes.
        TypeError: complex numbers.

    Derivative:
        In all Tensors that `A` and `b` are made of, where A has full column rank or `damp` is not 0, by the
        normal equations.

    Differences from SciPy:
        No `show` and `calc_var`, and no `var` among the results.

    Example:
        >>> lsqr(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))[0]
        array([2.])
    """
    a, b = with_dtype(A), _dense(b)
    if "c" in {a.dtype.kind, b.dtype.kind}:
        raise TypeError("lsqr takes real matrices and vectors; split real and imaginary parts")
    options = {"damp": damp, "atol": atol, "btol": btol, "conlim": conlim, "iter_lim": iter_lim}
    return _least_squares(a, b if b.dtype.kind in "fc" else b.astype(float), x0, options)


def _least_squares(a: Any, b: Any, x0: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    m, n = a.shape
    dtype = np.dtype(float)
    product = Closed(lambda v: [a @ v], [Aval((n,), dtype)])
    back = Closed(lambda u: [a.T @ u], [Aval((m,), dtype)])
    count = len(product.captured)
    start = None if x0 is None else np.asarray(x0.detach() if isinstance(x0, Tensor) else x0)

    def run(values: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        rhs, *captured = values
        apply, adjoint = product.at(captured[:count]), back.at(captured[count:])
        operator = theirs.LinearOperator(
            (m, n), lambda v: array(apply(v.ravel())), lambda u: array(adjoint(u.ravel())), dtype=dtype
        )
        found = theirs.lsqr(operator, array(rhs), x0=start, **options)
        return [found[0]], found[1:9]

    values = [b, *product.captured, *back.captured]
    (x,), said = run_solver("lsqr", run, values, [Aval((n,), dtype)])
    if not is_plain(values):
        normal = lambda v: a.T @ (a @ v - b) + options["damp"] ** 2 * v  # noqa: E731
        x = custom_root(normal, x, lambda f, x: x, _by_conjugate_gradients)
    return (x, *(said or [None] * 8))


def _by_conjugate_gradients(matvec: Any, rhs: Any) -> Any:
    operator = theirs.LinearOperator((rhs.size, rhs.size), lambda v: array(matvec(v)), dtype=float)
    x, info = theirs.cg(operator, rhs, rtol=1e-12)
    if info:
        warnings.warn(
            f"lsqr: its derivative did not converge (info {info}), so it is not exact; A has dependent "
            "columns, or nearly so: give it a damp",
            UnsolvedWarning,
            stacklevel=2,
        )
    return x


def __dir__() -> list[str]:
    return _offered(globals())
