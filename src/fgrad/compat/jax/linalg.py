"""`jax.numpy.linalg`, `jax.scipy.linalg`, `jax.lax.linalg`: what is read of a matrix, and NaN for errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad
import fgrad.lax.linalg
import fgrad.scipy.linalg
from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import SHORT, Array, as_array, elementwise, inexact, made, named
from fgrad.compat.jax.numpy import NAMES as ARRAYS
from fgrad.compat.jax.numpy import alike, product, wrapped
from fgrad.compat.jax.trees import tree_map
from fgrad.compat.standins import by_name, words

Function = Callable[..., Any]
COMPLEX = ("eig", "eigvals", "sqrtm")  # whose results are complex, also where all of them are real
KEPT = ("block_diag", "outer", "toeplitz", "trace")  # what computes with integers as they are


def _linear(module: Any, name: str, **always: Any) -> Function:
    """Return a function of matrices of one dtype, of floating-point numbers unless they are `KEPT`.

    It is called with the options that are `always` the same.
    """

    def function(*args: Any, **kwargs: Any) -> Any:
        kwargs |= always
        given, form = alike([*args, *kwargs.values()], Array | np.ndarray, inexact=name not in KEPT)
        if form is SHORT:
            raise NotImplementedError(f"jax.numpy.linalg.{name} of bfloat16: JAX has it of float32 at least")
        named_ones = dict(zip(kwargs, given[len(args) :], strict=True))
        found = wrapped(getattr(module, name)(*given[: len(args)], **named_ones), form)
        if name not in COMPLEX:
            return found
        return tree_map(lambda x: x.astype(np.result_type(x.dtype, np.complex64)), found)

    return named(function, f"{module.__name__}.{name}", ", in JAX's dtypes")


def _symmetric(function: Function) -> Function:
    """Return a function of the symmetric part of a matrix, unless `symmetrize_input` says not."""

    def of_part(a: Any, *args: Any, symmetrize_input: bool = True, **kwargs: Any) -> Any:
        x = inexact(a)
        part = elementwise(fgrad.lax.linalg.symmetrized, x) if symmetrize_input else x
        return function(part, *args, **kwargs)

    of_part.__name__, of_part.__doc__ = function.__name__, function.__doc__
    return of_part


def _cholesky(a: Any, *, upper: bool) -> Array:
    """Return the factor of matrices, of which the triangle of the factor is read; NaN where there is none."""
    x = as_array(a)
    if x.form is SHORT:
        raise NotImplementedError("cholesky of bfloat16: JAX has it of float32 at least")
    return elementwise(lambda t: fgrad.lax.linalg.cholesky(t, upper=upper), x, inexact=True)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """Return a norm of a vector or matrix."""
    y = inexact(x)
    if ord is None and axis is None and not keepdims:
        return made(fnp.sqrt(fnp.sum(fnp.real(y._tensor * fnp.conj(y._tensor)))), y.strong)
    return made(fnp.linalg.norm(y._tensor, ord, axis, keepdims), y.strong)


def lstsq(a: Any, b: Any, rcond: Any = None, *, numpy_resid: bool = False) -> Any:
    """Return least squares, with the residuals of systems of any rank and shape, unless `numpy_resid`."""
    x, resid, rank, s = _LSTSQ(a, b, rcond)
    if not numpy_resid:
        rest = ARRAYS["matmul"](a, x) - as_array(b)
        resid = (abs(rest) ** 2).sum(0).reshape(-1)
    return x, resid, rank, s


def solve(a: Any, b: Any, lower: bool = False, *_: Any, assume_a: str = "gen", **options: Any) -> Any:
    """Return the solutions of systems; NaN where a matrix is singular, or not as it is assumed to be."""
    if assume_a != "pos":
        return NUMPY["solve"](a, b)
    return SCIPY["cho_solve"](SCIPY["cho_factor"](a, lower), b)


_LSTSQ = _linear(fnp.linalg, "lstsq")
NUMPY: dict[str, Any] = {
    name: _linear(fnp.linalg, name)
    for name in words(
        "cond det eig eigh eigvals eigvalsh matrix_power matrix_rank pinv qr slogdet "
        "svd svdvals tensorinv tensorsolve trace vector_norm outer"
    )
} | {
    **{name: _linear(fgrad.lax.linalg, name) for name in ("inv", "solve")},
    "cholesky": lambda a, *, upper=False: _cholesky(a, upper=upper),
    "matrix_norm": lambda x, *, keepdims=False, ord="fro": norm(x, ord, (-2, -1), keepdims),
    "multi_dot": lambda arrays, *, precision=None: elementwise(lambda *xs: fnp.linalg.multi_dot(xs), *arrays),
    "norm": norm,
    "lstsq": lstsq,
}
SCIPY: dict[str, Any] = {
    name: _linear(fgrad.scipy.linalg, name, check_finite=False)
    for name in words("cho_solve det eigh lu lu_factor lu_solve qr schur solve_triangular svd")
} | {
    **{name: _linear(fgrad.scipy.linalg, name) for name in words("block_diag expm sqrtm toeplitz")},
    "inv": lambda a, overwrite_a=False, check_finite=True: NUMPY["inv"](a),
    "solve": solve,
    "cholesky": lambda a, lower=False, overwrite_a=False, check_finite=True: _cholesky(a, upper=not lower),
    "cho_factor": lambda a, lower=False, overwrite_a=False, check_finite=True: (
        _cholesky(a, upper=not lower),
        lower,
    ),
}
NUMPY |= {name: _symmetric(NUMPY[name]) for name in ("cholesky", "eigh", "eigvalsh")}
SCIPY["eigh"] = _symmetric(SCIPY["eigh"])


# ---- `jax.lax.linalg`


def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: Any = None
) -> tuple[Array, ...]:
    """Return q and r, of which q is square unless `full_matrices` says not."""
    if pivoting:
        raise NotImplementedError("fgrad's jax.lax.linalg.qr has no pivoting: see jax.scipy.linalg.qr")
    return tuple(NUMPY["qr"](x, "complete" if full_matrices else "reduced"))


def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True, **options: Any) -> Any:
    """Return singular vectors and values."""
    if any(value is not None for value in options.values()):
        raise NotImplementedError(f"fgrad's jax.lax.linalg.svd has no {', '.join(options)}")
    return NUMPY["svd"](x, full_matrices, compute_uv)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any) -> Array:
    """Return the solution of a tridiagonal system, whose diagonals are rows of equal length."""

    def solve(dl: Any, d: Any, du: Any, b: Any) -> Any:
        bands = fnp.stack([fnp.roll(du, 1, -1), d, fnp.roll(dl, -1, -1)], -2)
        return fgrad.scipy.linalg.solve_banded((1, 1), bands, b)

    return elementwise(solve, dl, d, du, b)


LAX: dict[str, Any] = {
    "cholesky": NUMPY["cholesky"],
    "eigh": lambda x, *, lower=True, symmetrize_input=True, sort_eigenvalues=True, implementation=None: NUMPY[
        "eigh"
    ](x, "L" if lower else "U", symmetrize_input=symmetrize_input)[::-1],
    "schur": SCIPY["schur"],
    "ormqr": product(fgrad.lax.linalg.ormqr, 3),
    **by_name(qr, svd, tridiagonal_solve),
}
