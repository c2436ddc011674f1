"""`jax.scipy.sparse.linalg`: the iterations of `fgrad.scipy.sparse`, for trees of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fgrad.scipy.sparse.linalg
from fgrad.compat.jax.arrays import inexact, made, named, opened
from fgrad.compat.jax.trees import ravel_pytree
from fgrad.scipy.sparse.conjugate import conjugate_gradients

__all__ = ["SPARSE_LINALG"]


def _iteration(name: str) -> Callable[..., Any]:
    def solve(
        A: Any,  # noqa: N803 -- JAX's name
        b: Any,
        x0: Any = None,
        *,
        tol: float = 1e-5,
        atol: float = 0.0,
        maxiter: int | None = None,
        M: Any = None,  # noqa: N803
        **options: Any,
    ) -> tuple[Any, None]:
        options.pop("solve_method", None)  # which changes no result
        if callable(M):
            raise NotImplementedError(f"fgrad's jax.scipy.sparse.linalg.{name} takes M as a matrix")
        rhs, back = ravel_pytree(b)
        product = A if callable(A) else lambda v: A @ v
        x, _ = getattr(fgrad.scipy.sparse.linalg, name)(
            lambda v: ravel_pytree(product(back(made(v))))[0]._tensor,
            rhs._tensor,
            None if x0 is None else ravel_pytree(x0)[0]._tensor,
            rtol=float(tol), atol=float(atol), maxiter=maxiter, M=opened(M), **options,
        )  # fmt: skip
        return back(made(x)), None

    return named(solve, f"fgrad.scipy.sparse.linalg.{name}", ", and None")


def cg(
    A: Any,  # noqa: N803 -- JAX's name
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    maxiter: Any = None,
    M: Any = None,  # noqa: N803
) -> tuple[Any, None]:
    """Return the solution of a positive definite system by conjugate gradients, and None."""
    rhs, back = ravel_pytree(b)
    rhs = rhs if rhs._tensor.dtype.kind in "fc" else inexact(rhs)

    def of_vectors(f: Any) -> Callable[[Any], Any]:
        product = f if callable(f) else lambda v: f @ v
        return lambda t: ravel_pytree(product(back(made(t))))[0]._tensor

    start = None if x0 is None else ravel_pytree(x0)[0].astype(rhs.dtype)._tensor
    precondition = None if M is None else of_vectors(M)
    limits = opened(tol), opened(atol), opened(maxiter)
    x = conjugate_gradients(of_vectors(A), rhs._tensor, start, *limits, precondition=precondition)
    return back(made(x)), None


SPARSE_LINALG: dict[str, Any] = {name: _iteration(name) for name in ("bicgstab", "gmres")} | {"cg": cg}
