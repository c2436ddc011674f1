"""`jax.example_libraries`: optimizers as rules for one array, and layers as pairs of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fgrad.compat.jax.arrays import as_array, named
from fgrad.compat.jax.nn import NAMES as NN
from fgrad.compat.jax.nn import OWN as INITIALIZERS
from fgrad.compat.jax.numpy import NAMES as NUMPY
from fgrad.compat.jax.trees import flatten, unflatten
from fgrad.compat.standins import by_name, renamed
from fgrad.nn.layers import Layers

Schedule = Callable[[Any], Any]
_array: Callable[[Any], Any] = as_array  # for checkers, which know no operators of arrays


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


def _optimizer(rule: Callable[..., Any], step_size: Any, *options: Any, **named: Any) -> Optimizer:
    """Return the optimizer of a rule: from a step, what is remembered (zeros at first) and options.

    It returns the new array, and what is remembered next.
    """
    size, count = make_schedule(step_size), _RULES[rule]

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
        rows = [
            rule(_Step(i, size(i), g, x), *memory, *options, **named)
            for g, x, *memory in zip(gradients, *columns, strict=True)
        ]
        params, *memory = (unflatten(structure, [row[k] for row in rows]) for k in range(count + 1))
        return OptimizerState(params, memory)

    return Optimizer(init, update, lambda state: state.params)


class _Step(NamedTuple):
    """The number and size of a step, a gradient, and the array that takes it."""

    i: Any
    size: Any
    g: Any
    x: Any

    def rest(self, weight: float) -> Any:
        """Return what is missing of the weights of a mean after so many steps."""
        return 1 - _array(weight).astype(_array(self.x).dtype) ** (_array(self.i) + 1)


def _sgd(s: _Step) -> Sequence[Any]:
    return (s.x - s.size * s.g,)


def _momentum(s: _Step, velocity: Any, mass: Any) -> Sequence[Any]:
    velocity = mass * velocity + s.g
    return s.x - s.size * velocity, velocity


def _nesterov(s: _Step, velocity: Any, mass: Any) -> Sequence[Any]:
    velocity = mass * velocity + s.g
    return s.x - s.size * (mass * velocity + s.g), velocity


def _adagrad(s: _Step, squares: Any, mean: Any, momentum: Any = 0.9) -> Sequence[Any]:
    squares, where = squares + s.g * s.g, NUMPY["where"]
    scale = where(squares > 0, 1 / NUMPY["sqrt"](where(squares > 0, squares, 1)), 0)
    mean = (1 - momentum) * (s.g * scale) + momentum * mean
    return s.x - s.size * mean, squares, mean


def _rmsprop(s: _Step, squares: Any, gamma: Any = 0.9, eps: Any = 1e-8) -> Sequence[Any]:
    squares = squares * gamma + s.g * s.g * (1 - gamma)
    return s.x - s.size * s.g / NUMPY["sqrt"](squares + eps), squares


def _rmsprop_momentum(
    s: _Step, squares: Any, velocity: Any, gamma: Any = 0.9, eps: Any = 1e-8, momentum: Any = 0.9
) -> Sequence[Any]:
    squares = squares * gamma + s.g * s.g * (1 - gamma)
    velocity = momentum * velocity + s.size * s.g / NUMPY["sqrt"](squares + eps)
    return s.x - velocity, squares, velocity


def _adam(
    s: _Step, mean: Any, squares: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8
) -> Sequence[Any]:
    mean = (1 - b1) * s.g + b1 * mean
    squares = (1 - b2) * (s.g * s.g) + b2 * squares
    spread = NUMPY["sqrt"](squares / s.rest(b2)) + eps
    return s.x - s.size * (mean / s.rest(b1)) / spread, mean, squares


def _adamax(
    s: _Step, mean: Any, highest: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8
) -> Sequence[Any]:
    mean = (1 - b1) * s.g + b1 * mean
    highest = NUMPY["maximum"](b2 * highest, abs(_array(s.g)))
    return s.x - s.size / s.rest(b1) * mean / (highest + eps), mean, highest


_RULES: dict[Callable[..., Any], int] = {  # how many arrays a rule remembers
    _sgd: 0, _momentum: 1, _nesterov: 1, _adagrad: 2, _rmsprop: 1, _rmsprop_momentum: 2, _adam: 2, _adamax: 2,
}  # fmt: skip
OPTIMIZERS: dict[str, Any] = by_name(Optimizer, OptimizerState, make_schedule) | {
    rule.__name__[1:]: named(functools.partial(_optimizer, rule), f"optimizers.{rule.__name__[1:]}")
    for rule in _RULES
}


# ---- layers: `shape, params = init(key, shape)`, `out = apply(params, inputs, **options)`


_LAYERS = Layers(INITIALIZERS.random, INITIALIZERS.numpy, INITIALIZERS)
STAX: dict[str, Any] = renamed("Dense:dense FanInConcat:concatenated FanOut:fan_out", _LAYERS) | renamed(
    "elementwise parallel serial", _LAYERS
)
STAX |= {"FanInSum": _LAYERS.summed(), "Flatten": _LAYERS.flat()} | {
    name: _LAYERS.elementwise(function)
    for name, function in renamed(
        "Elu:elu Gelu:gelu Identity:identity LeakyRelu:leaky_relu LogSoftmax:log_softmax Relu:relu Selu:selu "
        "Sigmoid:sigmoid Softmax:softmax Softplus:softplus Tanh:tanh Exp:exp",
        NUMPY | NN,
    ).items()
}
