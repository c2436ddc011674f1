"""`jax.scipy.sparse.linalg`: the iterations of `fgrad.scipy.sparse`, for trees of arrays.

Conjugate gradients are a loop of their own, because programs give them preconditioners and tolerances that
are only traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fgrad.scipy.sparse.linalg
from fgrad.compat.jax.arrays import Array, made, named, opened
from fgrad.compat.jax.custom import custom_vjp
from fgrad.compat.jax.jaxprs import closure_convert
from fgrad.compat.jax.lax import stop_gradient, while_loop
from fgrad.compat.jax.numpy import NAMES as NUMPY
from fgrad.compat.jax.transformations import vjp
from fgrad.compat.jax.trees import ravel_pytree, tree_map

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
    """Return the solution of a positive definite system by conjugate gradients, and None.

    Its derivative is by another solution, with the same preconditioner, from zero.
    """
    rhs, back = ravel_pytree(b)
    rhs = rhs.astype(NUMPY["result_type"](rhs, float)) if rhs.dtype.kind not in "fc" else rhs
    limit = 10 * rhs.size if maxiter is None else maxiter

    def of_vectors(f: Any) -> Callable[[Array], Array]:
        product = f if callable(f) else lambda v: f @ v
        return lambda v: ravel_pytree(product(back(v)))[0]

    precondition, outside = closure_convert((lambda v: v) if M is None else of_vectors(M), rhs)

    def iterate(product: Callable[[Any], Any], rhs: Any, x: Any, tol: Any, atol: Any, outside: Any) -> Any:
        size = _product(rhs, rhs)
        bound = NUMPY["maximum"](NUMPY["square"](tol) * size, NUMPY["square"](atol))

        def step(state: Any) -> Any:
            x, rest, gamma, way, count = state
            image = product(way)
            alpha = gamma / _product(way, image)
            x, rest = x + alpha * way, rest - alpha * image
            better = precondition(rest, *outside)
            new = _product(rest, better)
            return x, rest, new, better + new / gamma * way, count + 1

        def goes_on(state: Any) -> Any:
            _, rest, _, _, count = state
            return (_product(rest, rest) > bound) & (count < limit)

        rest = rhs - product(x)
        way = precondition(rest, *outside)
        return while_loop(goes_on, step, (x, rest, _product(rest, way), way, 0))[0]

    start = NUMPY["zeros_like"](rhs) if x0 is None else stop_gradient(ravel_pytree(x0)[0].astype(rhs.dtype))
    return back(_solved(of_vectors(A), rhs, iterate, start, *stop_gradient((tol, atol, outside)))), None


def _product(x: Any, y: Any) -> Any:
    return NUMPY["vdot"](x, y).real


def _solved(product: Any, rhs: Any, iterate: Any, start: Any, *options: Any) -> Any:
    """Return the solution of a Hermitian system that an iteration finds, differentiated by what it solves."""
    of_all, outside = closure_convert(product, rhs)

    def solve(rhs: Any, outside: Any, start: Any, *options: Any) -> Any:
        return iterate(lambda v: of_all(v, *outside), rhs, start, *options)

    def forward(rhs: Any, outside: Any, start: Any, *options: Any) -> Any:
        x = solve(rhs, outside, start, *options)
        return x, (x, outside, options)

    def backward(residuals: Any, ct: Any) -> Any:
        x, outside, options = residuals
        zeros = NUMPY["zeros_like"](ct)
        back = _solved(lambda v: of_all(v, *outside), ct.conj(), iterate, zeros, *options).conj()
        _, pullback = vjp(lambda given: of_all(x, *given), outside)
        return back, tree_map(lambda c: -c, pullback(back)[0]), None, *(None for _ in options)

    rule = custom_vjp(solve)
    rule.defvjp(forward, backward)
    return rule(rhs, outside, start, *options)


SPARSE_LINALG: dict[str, Any] = {name: _iteration(name) for name in ("bicgstab", "gmres")} | {"cg": cg}
