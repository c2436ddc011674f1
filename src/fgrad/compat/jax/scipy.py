"""`jax.scipy.sparse.linalg`: the iterations of `fgrad.scipy.sparse`, for trees of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.compat.jax.arrays import made, opened
from fgrad.compat.jax.trees import ravel_pytree

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
        import fgrad.scipy.sparse.linalg  # noqa: PLC0415 -- it needs SciPy

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

    solve.__name__ = name
    solve.__doc__ = f"Return what `fgrad.scipy.sparse.linalg.{name}` finds, and None."
    return solve


SPARSE_LINALG: dict[str, Any] = {name: _iteration(name) for name in ("bicgstab", "cg", "gmres")}
