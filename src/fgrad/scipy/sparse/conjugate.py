"""Conjugate gradients as a loop of fgrad's: tolerances and what a preconditioner uses may be traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad import numpy as fnp
from fgrad.core.aval import aval_of
from fgrad.core.program import Program
from fgrad.core.tensor import Tensor
from fgrad.lax.loops import while_loop
from fgrad.transforms.custom import custom_vjp
from fgrad.transforms.reverse import vjp
from fgrad.transforms.stage import staged

Map = Callable[[Any], Any]


def conjugate_gradients(
    product: Map, b: Any, x0: Any, rtol: Any, atol: Any, maxiter: Any, *, precondition: Map | None = None
) -> Any:
    """Return the solution of a Hermitian positive definite system.

    Its derivative is by another solution, with the same preconditioner, from zero.
    """
    limit = 10 * b.size if maxiter is None else maxiter
    better, outside = _closed(precondition or (lambda v: v), b)

    def iterate(product: Map, rhs: Any, x: Any, options: Sequence[Any]) -> Any:
        rtol, atol, limit, *captured = options
        bound = fnp.maximum(rtol**2 * _dot(rhs, rhs), atol**2)

        def step(state: Any) -> Any:
            x, rest, gamma, way, count = state
            image = product(way)
            alpha = gamma / _dot(way, image)
            x, rest = x + alpha * way, rest - alpha * image
            improved = better.run([*captured, rest])[0]
            new = _dot(rest, improved)
            return x, rest, new, improved + new / gamma * way, count + 1

        def goes_on(state: Any) -> Any:
            _, rest, _, _, count = state
            return (_dot(rest, rest) > bound) & (count < limit)

        rest = rhs - product(x)
        way = better.run([*captured, rest])[0]
        return while_loop(goes_on, step, (x, rest, _dot(rest, way), way, 0))[0]

    options = [v.detach() if isinstance(v, Tensor) else v for v in (rtol, atol, limit, *outside)]
    start = fnp.zeros_like(b) if x0 is None else fnp.reshape(fnp.asarray(x0, b.dtype), b.shape).detach()
    return _solved(product, b, iterate, start, options)


def _closed(f: Map, like: Any) -> tuple[Program, Sequence[Tensor]]:
    """Return a function of one array as a program, and what it takes from outside."""
    return staged(lambda v: [f(v)], [aval_of(like)])


def _dot(x: Any, y: Any) -> Any:
    return fnp.real(fnp.vdot(x, y))


def _solved(product: Map, rhs: Any, iterate: Any, start: Any, options: Sequence[Any]) -> Any:
    """Return the solution of a Hermitian system that an iteration finds, differentiated by what it solves."""
    program, captured = _closed(product, rhs)
    is_real = [v.dtype.kind in "fc" for v in captured]
    followed = [v for v, real in zip(captured, is_real, strict=True) if real]
    others = [v for v, real in zip(captured, is_real, strict=True) if not real]

    def at(followed: Sequence[Any], others: Sequence[Any]) -> Map:
        parts = iter(followed), iter(others)
        every = [next(parts[not real]) for real in is_real]
        return lambda v: program.run([*every, v])[0]

    def solve(rhs: Any, followed: Any, start: Any, others: Any, options: Any) -> Any:
        return iterate(at(followed, others), rhs, start, options)

    def forward(*values: Any) -> Any:
        x, (_, followed, _, *fixed) = solve(*values), values
        return x, (x, followed, *fixed)

    def backward(residuals: Any, ct: Any) -> Any:
        x, followed, others, options = residuals
        mapped = at(followed, others)
        back = fnp.conj(_solved(mapped, fnp.conj(ct), iterate, fnp.zeros_like(ct), options))
        _, pullback = vjp(lambda *given: at(given, others)(x), *followed)
        return back, [-c for c in pullback(back)], None, None, None

    rule = custom_vjp(solve)
    rule.defvjp(forward, backward)
    return rule(rhs, followed, start, others, list(options))
