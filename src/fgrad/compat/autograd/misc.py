"""`autograd.misc`: flat arrays of containers, optimizers on them, fixed points."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import fgrad
from fgrad import numpy as fnp
from fgrad.compat.autograd.operators import core_make_vjp, wraps
from fgrad.compat.autograd.primitives import defvjp, primitive
from fgrad.compat.autograd.spaces import vspace
from fgrad.extend.engine import for_tensors

__all__ = [
    "adam",
    "const_graph",
    "fixed_point",
    "flatten",
    "flatten_func",
    "rmsprop",
    "sgd",
    "unflatten_optimizer",
]

Function = Callable[..., Any]

_concatenate = for_tensors(np.concatenate)(fnp.concatenate)


def flatten(value: Any) -> tuple[Any, Function]:
    """Return the numbers of a container as one array with one axis, and the way back.

    Dictionaries are taken in the order of their sorted keys. Both ways have derivatives.
    """
    parts: list[Any] = []
    rebuild = _taken(value, parts)
    flat = _concatenate(parts) if parts else np.zeros(0)
    return flat, lambda vector: rebuild(vector, 0)[0]


def _taken(value: Any, parts: list[Any]) -> Callable[[Any, int], tuple[Any, int]]:
    """Append the parts of a value; return what builds it again from a vector, from a place on."""
    if isinstance(value, list | tuple):
        makers = [_taken(v, parts) for v in value]
        kind = type(value)

        def sequence(vector: Any, at: int) -> tuple[Any, int]:
            values = []
            for make in makers:
                made, at = make(vector, at)
                values.append(made)
            return (kind(*values) if hasattr(kind, "_fields") else kind(values)), at

        return sequence
    if isinstance(value, dict):
        keyed = {k: _taken(value[k], parts) for k in sorted(value)}

        def mapping(vector: Any, at: int) -> tuple[Any, int]:
            found = {}
            for k, make in keyed.items():
                found[k], at = make(vector, at)
            return {k: found[k] for k in value}, at

        return mapping
    shape, is_real = np.shape(value), not np.iscomplexobj(value)
    parts.append(fnp.reshape(value, (-1,)) if isinstance(value, fgrad.Tensor) else np.ravel(value))
    size = int(np.prod(shape))

    def array(vector: Any, at: int) -> tuple[Any, int]:
        part = vector[at : at + size] if shape else vector[at]
        part = part.reshape(shape) if len(shape) > 1 else part
        return (part.real if is_real and np.iscomplexobj(part) else part), at + size

    return array


def flatten_func(func: Function, example: Any) -> tuple[Function, Function, Any]:
    """Return a function of flat arrays in the place of one of containers, the way back, the flat example."""
    flat, unflatten = flatten(example)
    return lambda x, *args: flatten(func(unflatten(x), *args))[0], unflatten, flat


# ---- optimizers


def unflatten_optimizer(optimize: Function) -> Function:
    """Return an optimizer of containers from one of flat arrays."""

    @wraps(optimize)
    def optimize_tree(
        grad: Function, x0: Any, callback: Function | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        flat, unflatten = flatten(x0)
        seen = None
        if callback:

            def seen(x: Any, i: int, g: Any) -> Any:
                return callback(unflatten(x), i, unflatten(g))

        return unflatten(
            optimize(lambda x, i: flatten(grad(unflatten(x), i))[0], flat, seen, *args, **kwargs)
        )

    return optimize_tree  # type: ignore[no-any-return]


def _descend(grad: Function, x: Any, callback: Function | None, num_iters: int, step: Function) -> Any:
    """Return x after `num_iters` of x -> x - step(gradient, i)."""
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        x = x - step(g, i)
    return x


@unflatten_optimizer
def sgd(
    grad: Function,
    x: Any,
    callback: Function | None = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Any:
    """Return x after steepest descent with momentum; `grad(x, i)` is the gradient at step i."""
    velocity: Any = np.zeros(len(x))

    def step(g: Any, i: int) -> Any:
        nonlocal velocity
        velocity = mass * velocity - (1.0 - mass) * g
        return -step_size * velocity

    return _descend(grad, x, callback, num_iters, step)


@unflatten_optimizer
def rmsprop(
    grad: Function,
    x: Any,
    callback: Function | None = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Any:
    """Return x after steps divided by the root of the running mean of squared gradients."""
    mean: Any = np.ones(len(x))

    def step(g: Any, i: int) -> Any:
        nonlocal mean
        mean = gamma * mean + (1 - gamma) * g**2
        return step_size * g / (np.sqrt(mean) + eps)

    return _descend(grad, x, callback, num_iters, step)


@unflatten_optimizer
def adam(
    grad: Function,
    x: Any,
    callback: Function | None = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Return x after steps of Adam (Kingma & Ba, 2015)."""
    first: Any = np.zeros(len(x))
    second: Any = np.zeros(len(x))

    def step(g: Any, i: int) -> Any:
        nonlocal first, second
        first = b1 * first + (1 - b1) * g
        second = b2 * second + (1 - b2) * g**2
        root = np.sqrt(second / (1 - b2 ** (i + 1)))
        return step_size * (first / (1 - b1 ** (i + 1))) / (root + eps)

    return _descend(grad, x, callback, num_iters, step)


# ---- fixed points, and functions traced once


@primitive
def fixed_point(f: Function, a: Any, x0: Any, distance: Function, tol: float) -> Any:
    """Return x with x = f(a)(x), by iteration from x0 until `distance` between iterates is below `tol`.

    The derivative in `a` is that of the implicit function, by a fixed point of the same kind.
    """
    step = f(a)
    before, x = x0, step(x0)
    while distance(x, before) > tol:
        before, x = x, step(x)
    return x


def _fixed_point_vjp(ans: Any, f: Function, a: Any, x0: Any, distance: Function, tol: float) -> Function:
    pull_a, _ = core_make_vjp(lambda a: f(a)(ans), a)

    def reverse(params: Any) -> Function:
        a, x, g = params
        pull_x, _ = core_make_vjp(f(a), x)
        return lambda u: vspace(x).add(pull_x(u), g)

    zero = vspace(x0).zeros()
    return lambda g: pull_a(fixed_point(reverse, (a, ans, g), zero, distance, tol))


defvjp(fixed_point, None, _fixed_point_vjp, None)


def const_graph(fun: Function, *args: Any, **kwargs: Any) -> Function:
    """Return `fun` with some arguments given, traced at its first call and compiled, as `fgrad.jit` does it.

    Functions of `primitive` are traced through.
    """
    return wraps(fun)(fgrad.jit(partial(fun, *args, **kwargs)))  # type: ignore[no-any-return]
