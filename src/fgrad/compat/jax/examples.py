"""`jax.example_libraries`: optimizers as rules for one array, and layers as pairs of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fgrad import optim
from fgrad.compat.jax.arrays import Array, as_array, made, named, opened
from fgrad.compat.jax.nn import NAMES as NN
from fgrad.compat.jax.nn import OWN as INITIALIZERS
from fgrad.compat.jax.numpy import NAMES as NUMPY
from fgrad.compat.jax.transformations import Flat
from fgrad.compat.jax.trees import tree_map
from fgrad.compat.standins import by_name, renamed
from fgrad.nn.layers import Layers
from fgrad.optim import GradientTransformation

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


def _remembered(x: Any) -> Array:
    """Return a part of what an optimizer remembers; the number of steps is told to it at each."""
    return made(np.zeros((), x.dtype) if x.dtype.kind == "i" else x)


def _optimizer(
    rule: Callable[..., GradientTransformation], step_size: Any, *options: Any, **named: Any
) -> Optimizer:
    """Return the optimizer of a rule of `fgrad.optim`, which takes a step size and options."""
    size = make_schedule(step_size)

    def make(rate: Any) -> GradientTransformation:
        return rule(rate, *options, **named)

    def init(params: Any) -> OptimizerState:
        flat = Flat(lambda x: x, params)
        return OptimizerState(params, tree_map(_remembered, make(0).init(flat.tensors)))

    def update(i: Any, grads: Any, state: OptimizerState) -> OptimizerState:
        flat, given = Flat(lambda x: x, state.params), Flat(lambda x: x, grads)
        if given.structure != flat.structure:
            raise TypeError(f"the gradients are {given.structure}, and the parameters {flat.structure}")
        count = as_array(i)
        memory = tree_map(lambda x: opened(count if x.dtype.kind == "i" else x), state.memory)
        updates, memory = make(opened(size(i))).update(given.tensors, memory, flat.tensors)
        params = flat.filled(optim.apply_updates(flat.tensors, updates))
        return OptimizerState(params, tree_map(_remembered, memory))

    return Optimizer(init, update, lambda state: state.params)


def _momentum(size: Any, mass: float, *, nesterov: bool) -> GradientTransformation:
    return optim.chain(optim.trace(mass, nesterov=nesterov), optim.scale_by_learning_rate(size))


def _adagrad(size: Any, momentum: float) -> GradientTransformation:
    """Return AdaGrad along running means of its directions."""
    direction = optim.adagrad(-1.0, 0.0, 0.0)
    return optim.chain(direction, optim.ema(momentum), optim.scale_by_learning_rate(size))


_RULES: dict[str, Callable[..., Optimizer]] = {
    "sgd": lambda step_size: _optimizer(optim.sgd, step_size),
    "momentum": lambda step_size, mass: _optimizer(_momentum, step_size, mass, nesterov=False),
    "nesterov": lambda step_size, mass: _optimizer(_momentum, step_size, mass, nesterov=True),
    "adagrad": lambda step_size, momentum=0.9: _optimizer(_adagrad, step_size, momentum),
    "rmsprop": lambda step_size, gamma=0.9, eps=1e-8: _optimizer(optim.rmsprop, step_size, gamma, eps),
    "rmsprop_momentum": lambda step_size, gamma=0.9, eps=1e-8, momentum=0.9: _optimizer(
        optim.rmsprop, step_size, gamma, eps, momentum=momentum
    ),
    "adam": lambda step_size, b1=0.9, b2=0.999, eps=1e-8: _optimizer(optim.adam, step_size, b1, b2, eps),
    "adamax": lambda step_size, b1=0.9, b2=0.999, eps=1e-8: _optimizer(
        optim.adamax, step_size, b1, b2, eps, eps_in_max=False
    ),
}
OPTIMIZERS: dict[str, Any] = by_name(Optimizer, OptimizerState, make_schedule) | {
    name: named(function, f"optimizers.{name}") for name, function in _RULES.items()
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
