"""`jax.example_libraries.optimizers`: rules for one array as optimizers of trees, with JAX's states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import as_array, elementwise
from fgrad.compat.jax.numpy import NAMES as NUMPY
from fgrad.compat.jax.trees import flatten, unflatten

__all__ = ["OPTIMIZERS"]

Schedule = Callable[[Any], Any]


class Optimizer(NamedTuple):
    """The three functions of an optimizer."""

    init_fn: Callable[[Any], Any]
    update_fn: Callable[[Any, Any, Any], Any]
    params_fn: Callable[[Any], Any]


class OptimizerState(NamedTuple):
    """What an optimizer knows: for each array itself, and what the rule remembers of it."""

    params: Any
    memory: Any


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """Return the step size as a function of the number of the step."""
    return scalar_or_schedule if callable(scalar_or_schedule) else lambda _: scalar_or_schedule


def _optimizer(rule: Callable[..., Any], count: int) -> Optimizer:
    """Return the optimizer of a rule, which remembers so many arrays, zeros at first.

    Args:
        rule: from the number of a step, a gradient, an array and what is remembered to the new ones.
        count: how many arrays it remembers.
    """

    def init(params: Any) -> OptimizerState:
        leaves, structure = flatten(params)
        zeros = [NUMPY["zeros_like"](as_array(x)) for x in leaves]
        return OptimizerState(params, [unflatten(structure, zeros) for _ in range(count)])

    def update(i: Any, grads: Any, state: OptimizerState) -> OptimizerState:
        leaves, structure = flatten(state.params)
        gradients, given = flatten(grads)
        if given != structure:
            raise TypeError(f"the gradients are {given}, and the parameters {structure}")
        columns = [leaves, *(structure.flatten_up_to(m) for m in state.memory)]
        rows = [rule(i, g, *row) for g, *row in zip(gradients, *columns, strict=True)]
        params, *memory = (unflatten(structure, column) for column in zip(*rows, strict=True))
        return OptimizerState(params, memory)

    return Optimizer(init, update, lambda state: state.params)


def sgd(step_size: Any) -> Optimizer:
    """Return stochastic gradient descent."""
    size = make_schedule(step_size)
    return _optimizer(lambda i, g, x: (x - size(i) * g,), 0)


def momentum(step_size: Any, mass: float) -> Optimizer:
    """Return gradient descent with momentum."""
    size = make_schedule(step_size)

    def rule(i: Any, g: Any, x: Any, velocity: Any) -> Sequence[Any]:
        velocity = mass * velocity + g
        return x - size(i) * velocity, velocity

    return _optimizer(rule, 1)


def nesterov(step_size: Any, mass: float) -> Optimizer:
    """Return gradient descent with Nesterov's momentum."""
    size = make_schedule(step_size)

    def rule(i: Any, g: Any, x: Any, velocity: Any) -> Sequence[Any]:
        velocity = mass * velocity + g
        return x - size(i) * (mass * velocity + g), velocity

    return _optimizer(rule, 1)


def adagrad(step_size: Any, momentum: float = 0.9) -> Optimizer:
    """Return Adagrad with momentum."""
    size = make_schedule(step_size)

    def rule(i: Any, g: Any, x: Any, squares: Any, mean: Any) -> Sequence[Any]:
        squares = squares + g * g
        scale = elementwise(lambda s: fnp.where(s > 0, 1 / fnp.sqrt(fnp.where(s > 0, s, 1)), 0), squares)
        mean = (1 - momentum) * (g * scale) + momentum * mean
        return x - size(i) * mean, squares, mean

    return _optimizer(rule, 2)


def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Optimizer:
    """Return RMSProp."""
    size = make_schedule(step_size)

    def rule(i: Any, g: Any, x: Any, squares: Any) -> Sequence[Any]:
        squares = squares * gamma + g * g * (1 - gamma)
        return x - size(i) * g / NUMPY["sqrt"](squares + eps), squares

    return _optimizer(rule, 1)


def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Optimizer:
    """Return RMSProp with momentum."""
    size = make_schedule(step_size)

    def rule(i: Any, g: Any, x: Any, squares: Any, velocity: Any) -> Sequence[Any]:
        squares = squares * gamma + g * g * (1 - gamma)
        velocity = momentum * velocity + size(i) * g / NUMPY["sqrt"](squares + eps)
        return x - velocity, squares, velocity

    return _optimizer(rule, 2)


def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Return Adam."""
    size = make_schedule(step_size)

    def rule(i: Any, g: Any, x: Any, mean: Any, squares: Any) -> Sequence[Any]:
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * (g * g) + b2 * squares
        steps = NUMPY["asarray"](i) + 1
        centre = mean / (1 - NUMPY["asarray"](b1, mean.dtype) ** steps)
        spread = squares / (1 - NUMPY["asarray"](b2, mean.dtype) ** steps)
        return x - size(i) * centre / (NUMPY["sqrt"](spread) + eps), mean, squares

    return _optimizer(rule, 2)


def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Return Adamax."""
    size = make_schedule(step_size)

    def rule(i: Any, g: Any, x: Any, mean: Any, highest: Any) -> Sequence[Any]:
        mean = (1 - b1) * g + b1 * mean
        highest = NUMPY["maximum"](b2 * highest, NUMPY["abs"](g))
        steps = NUMPY["asarray"](i) + 1
        return (
            x - size(i) / (1 - NUMPY["asarray"](b1, mean.dtype) ** steps) * mean / (highest + eps),
            mean,
            highest,
        )

    return _optimizer(rule, 2)


OPTIMIZERS: dict[str, Any] = {
    found.__name__: found
    for found in (
        *(Optimizer, OptimizerState, adagrad, adam, adamax, make_schedule, momentum, nesterov, rmsprop),
        *(rmsprop_momentum, sgd),
    )
}
