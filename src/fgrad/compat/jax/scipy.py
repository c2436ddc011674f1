"""`jax.scipy.sparse.linalg`: the iterations of `fgrad.scipy.sparse`, for trees of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fgrad.scipy.sparse.linalg
from fgrad.compat.jax.arrays import inexact, made, named, opened
from fgrad.compat.jax.trees import ravel_pytree
from fgrad.scipy.sparse.conjugate import conjugate_gradients

_OPTIONS = {"bicgstab": (), "cg": (), "gmres": ("restart", "solve_method")}


def _iteration(name: str) -> Callable[..., Any]:
    def solve(
        A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0,  # noqa: N803 -- JAX's names
        maxiter: Any = None, M: Any = None, **options: Any,  # noqa: N803
    ) -> tuple[Any, None]:  # fmt: skip
        if set(options) - set(_OPTIONS[name]):
            raise TypeError(f"{name}() got unexpected arguments: {', '.join(options)}")
        options.pop("solve_method", None)  # which changes no result
        rhs, back = ravel_pytree(b)
        rhs = rhs if rhs._tensor.dtype.kind in "fc" else inexact(rhs)

        def of_vectors(f: Any) -> Callable[[Any], Any]:
            product = f if callable(f) else lambda v: f @ v
            return lambda t: ravel_pytree(product(back(made(t))))[0]._tensor

        start = None if x0 is None else ravel_pytree(x0)[0].astype(rhs.dtype)._tensor
        system = of_vectors(A), rhs._tensor, start
        if name == "cg":  # also of what is only traced
            limits = opened(tol), opened(atol), opened(maxiter)
            x = conjugate_gradients(*system, *limits, precondition=None if M is None else of_vectors(M))
        elif callable(M):
            raise NotImplementedError(f"fgrad's jax.scipy.sparse.linalg.{name} takes M as a matrix")
        else:
            options |= {"rtol": float(tol), "atol": float(atol), "maxiter": maxiter, "M": opened(M)}
            x, _ = getattr(fgrad.scipy.sparse.linalg, name)(*system, **options)
        return back(made(x)), None

    return named(solve, f"fgrad.scipy.sparse.linalg.{name}", ", and None")


SPARSE_LINALG: dict[str, Any] = {name: _iteration(name) for name in _OPTIONS}
