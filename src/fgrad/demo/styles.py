"""One network and three ways to train it: the part of the demo to read, and to copy.

Each way is a loop that takes a first guess of the parameters and batches of examples, and yields the
loss and the parameters after every step. All take the same steps: gradient descent with momentum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.demo.digits import Examples

Array: TypeAlias = Any  # a NumPy array or a Tensor: the functions below take both
Params: TypeAlias = dict[str, Array]
Loss: TypeAlias = Callable[[Params, Array, Array], Array]
Steps: TypeAlias = Iterator[tuple[Array, Params]]
Style: TypeAlias = Callable[[Params, Iterable[Examples]], Steps]

RATE = 0.2
MOMENTUM = 0.9


def initial(rng: np.random.Generator, pixels: int = 64, hidden: int = 48, classes: int = 10) -> Params:
    """Return random weights, scaled to the number of inputs they meet, and zero biases."""
    return {
        "w1": rng.normal(scale=pixels**-0.5, size=(pixels, hidden)),
        "b1": np.zeros(hidden),
        "w2": rng.normal(scale=hidden**-0.5, size=(hidden, classes)),
        "b2": np.zeros(classes),
    }


def network(params: Params, images: Array) -> Array:
    """Return one score per image and class: plain NumPy, nothing here knows of derivatives."""
    hidden = np.tanh(images @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def log_softmax(scores: Array) -> Array:
    """Return the logarithms of the probabilities that the scores stand for."""
    shifted = scores - fg.stop_gradient(scores.max(axis=1, keepdims=True))  # the shift cancels
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def cross_entropy(scores: Array, targets: Array) -> Array:
    """Return minus the mean log-probability of the true classes."""
    return -(targets * log_softmax(scores)).sum(axis=1).mean()


def loss(params: Params, images: Array, targets: Array) -> Array:
    """Return how far the network is from the targets."""
    return cross_entropy(network(params, images), targets)


# 1. Functional: the gradient is a function, parameters and gradients are values.


def functional(params: Params, batches: Iterable[Examples], loss: Loss = loss) -> Steps:
    """Train with `value_and_grad`, as one writes JAX."""
    loss_and_gradient = fg.value_and_grad(loss)
    velocity = fg.tree.map(np.zeros_like, params)
    for images, targets in batches:
        value, gradient = loss_and_gradient(params, images, targets)
        velocity = fg.tree.map(lambda v, g: MOMENTUM * v - RATE * g, velocity, gradient)
        params = fg.tree.map(np.add, params, velocity)
        yield value, params


# 2. Imperative: a manager records what happens in its block, and leaves gradients on the parameters.


def imperative(
    params: Params, batches: Iterable[Examples], callbacks: Any = None, loss: Loss = loss
) -> Steps:
    """Train with a GradManager and `.grad`, changing the parameters in place."""
    params = fg.tree.map(fg.tensor, params)
    velocity = fg.tree.map(fnp.zeros_like, params)
    gm = fg.GradManager().attach(params, callbacks)
    for images, targets in batches:
        with gm:
            value = loss(params, images, targets)
            gm.backward(value)
        for name, p in params.items():
            velocity[name] = MOMENTUM * velocity[name] - RATE * p.grad
            params[name] += velocity[name]
            p.grad = None  # gradients add up until they are cleared
        yield value, params


# 3. A custom rule: we know the gradient of this loss in closed form, and say so.


@fg.custom_vjp
def cross_entropy_by_rule(scores: Array, targets: Array) -> Array:
    """Return `cross_entropy`, with the derivative that textbooks give: softmax(scores) - targets."""
    return cross_entropy(scores, targets)


def _forward(scores: Array, targets: Array) -> tuple[Array, Array]:
    """Return the loss, and what the reverse pass needs of it."""
    log_p = log_softmax(scores)
    return -(targets * log_p).sum(axis=1).mean(), np.exp(log_p) - targets


def _reverse(excess: Array, ct: Array) -> tuple[Array, None]:
    """Return the cotangent of the scores; nobody asks for that of the targets."""
    return ct * excess / len(excess), None


cross_entropy_by_rule.defvjp(_forward, _reverse)


def loss_by_rule(params: Params, images: Array, targets: Array) -> Array:
    """Return the same loss, differentiated by our rule from the scores on."""
    return cross_entropy_by_rule(network(params, images), targets)


STYLES: dict[str, Style] = {
    "value_and_grad": functional,
    "with gm: .grad": imperative,
    "custom rule":    partial(functional, loss=loss_by_rule),
}  # fmt: skip
