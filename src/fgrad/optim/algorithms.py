"""Optimizers as gradient transformations: each is a chain that ends with the learning rate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fgrad import tree
from fgrad.optim.transformations import (
    ONE,
    GradientTransformation,
    add_decayed_weights,
    chain,
    like,
    running_means,
    scale_by_learning_rate,
    squares,
    trace,
    zeros,
)


class Moments(NamedTuple):
    """The state of `adam`: the number of steps, and means of gradients and of their squares.

    That of `adamax` has the greatest of absolute gradients in the place of squares.
    """

    count: Any
    mean: Any
    square: Any


def sgd(learning_rate: Any, momentum: float = 0.0, *, nesterov: bool = False) -> GradientTransformation:
    """Return stochastic gradient descent.

    Args:
        learning_rate: a number or a schedule.
        momentum: how much of the last trace of gradients stays, from 0 to 1.
        nesterov: whether gradients count as if they were taken one step of the momentum ahead.

    Returns:
        A gradient transformation, with the numbers of Optax's `sgd` and of PyTorch's `SGD`.

    Raises:
        ValueError: `momentum` is not in [0, 1), or `nesterov` without it.

    Derivative:
        `update` is differentiable in gradients, state and parameters.

    Example:
        >>> optimizer = sgd(0.1)
        >>> updates, state = optimizer.update(np.array([1.0, 2.0]), optimizer.init(np.zeros(2)))
        >>> updates
        array([-0.1, -0.2])
    """
    _check("sgd", momentum=momentum)
    if nesterov and not momentum:
        raise ValueError("sgd: nesterov needs a momentum")
    last = scale_by_learning_rate(learning_rate)
    return chain(trace(momentum, nesterov=nesterov), last) if momentum else last


def adam(learning_rate: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> GradientTransformation:
    """Return Adam.

    mean = b1 mean + (1 - b1) g, square = b2 square + (1 - b2) |g|², and after t steps the update is
    -learning_rate mean / (1 - b1^t) / (sqrt(square / (1 - b2^t)) + eps).

    Args:
        learning_rate: a number or a schedule.
        b1: decay of the mean.
        b2: decay of the mean of squares.
        eps: added to the root, also where it is zero.

    Returns:
        A gradient transformation, with the numbers of Optax's `adam` and of PyTorch's `Adam`.

    Raises:
        ValueError: `b1` or `b2` is not in [0, 1).

    Derivative:
        `update` is differentiable in gradients, state and parameters. Where a mean of squares is zero, its
        root counts as a constant.

    Source:
        Kingma & Ba (2015), Adam: A method for stochastic optimization.

    Example:
        >>> import fgrad
        >>> loss = lambda p: np.sum((p["w"] - 3.0) ** 2)
        >>> params = {"w": np.zeros(2)}
        >>> optimizer = adam(0.1)
        >>> state = optimizer.init(params)
        >>> for _ in range(200):
        ...     updates, state = optimizer.update(fgrad.grad(loss)(params), state)
        ...     params = fgrad.optim.apply_updates(params, updates)
        >>> params["w"].round(2)
        array([3., 3.])
    """
    return chain(_by_moments("adam", b1, b2, eps), scale_by_learning_rate(learning_rate))


def adamw(
    learning_rate: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 1e-4
) -> GradientTransformation:
    """Return Adam with decoupled weight decay: -learning_rate (Adam's direction + weight_decay params).

    Args:
        learning_rate: a number or a schedule.
        b1: decay of the mean.
        b2: decay of the mean of squares.
        eps: added to the root.
        weight_decay: as Optax has it by default; PyTorch's default is 1e-2.

    Returns:
        A gradient transformation, whose `update` needs the parameters.

    Raises:
        ValueError: `b1` or `b2` is not in [0, 1).

    Derivative:
        As of `adam`.

    Source:
        Loshchilov & Hutter (2019), Decoupled weight decay regularization.

    Example:
        >>> params = np.array([1.0, -2.0])
        >>> optimizer = adamw(0.1)
        >>> updates, state = optimizer.update(np.array([1.0, 4.0]), optimizer.init(params), params)
        >>> updates
        array([-0.10001, -0.09998])
    """
    direction = _by_moments("adamw", b1, b2, eps)
    return chain(direction, add_decayed_weights(weight_decay), scale_by_learning_rate(learning_rate))


def _by_moments(name: str, b1: float, b2: float, eps: float) -> GradientTransformation:
    _check(name, b1=b1, b2=b2)

    def init(params: Any) -> Moments:
        return Moments(np.zeros((), np.int32), zeros(params), _real_zeros(params))

    def update(grads: Any, state: Moments, params: Any = None) -> tuple[Any, Moments]:
        count = state.count + ONE
        mean = running_means(b1, grads, state.mean)
        square = tree.map(lambda g, s: b2 * s + (1 - b2) * squares(g), grads, state.square)
        first, second = 1 - b1**count, 1 - b2**count
        updates = tree.map(
            lambda m, s: m / like(first, m) / (np.sqrt(s / like(second, s)) + eps), mean, square
        )
        return updates, Moments(count, mean, square)

    return GradientTransformation(init, update)


def rmsprop(
    learning_rate: Any,
    decay: float = 0.9,
    eps: float = 1e-8,
    *,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float = 0.0,
    nesterov: bool = False,
) -> GradientTransformation:
    """Return RMSProp: gradients over the root of the mean of their squares.

    Args:
        learning_rate: a number or a schedule.
        decay: decay of the mean of squares; PyTorch calls it alpha, 0.99 by default.
        eps: added to the mean of squares, or to its root.
        eps_in_sqrt: whether under the root, as in Optax, or to it, as in PyTorch.
        centered: whether to divide by the standard deviation instead.
        momentum: how much of the last trace of updates stays.
        nesterov: as in `sgd`.

    Returns:
        A gradient transformation, with the numbers of Optax's `rmsprop`, and with `decay=0.99,
        eps_in_sqrt=False` of PyTorch's `RMSprop`.

    Raises:
        ValueError: `decay` or `momentum` is not in [0, 1).

    Derivative:
        As of `adam`.

    Source:
        Tieleman & Hinton (2012), Lecture 6.5: RMSProp; Graves (2013) for the centered one.

    Example:
        >>> params = np.array([1.0, -2.0])
        >>> optimizer = rmsprop(0.1)
        >>> updates, state = optimizer.update(np.array([1.0, 4.0]), optimizer.init(params), params)
        >>> updates
        array([-0.31622775, -0.31622777])
    """
    _check("rmsprop", decay=decay, momentum=momentum)

    def init(params: Any) -> Any:
        return (zeros(params) if centered else (), _real_zeros(params))

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        mean, square = state
        square = tree.map(lambda g, s: decay * s + (1 - decay) * squares(g), grads, square)
        spread = square
        if centered:
            mean = running_means(decay, grads, mean)
            spread = tree.map(lambda s, m: s - squares(m), square, mean)
        if eps_in_sqrt:
            return tree.map(lambda g, s: g / np.sqrt(s + eps), grads, spread), (mean, square)
        return tree.map(lambda g, s: g / (np.sqrt(s) + eps), grads, spread), (mean, square)

    steps = [GradientTransformation(init, update), scale_by_learning_rate(learning_rate)]
    return chain(*steps, trace(momentum, nesterov=nesterov)) if momentum else chain(*steps)


def adagrad(
    learning_rate: Any,
    initial_accumulator_value: float = 0.1,
    eps: float = 1e-7,
    *,
    eps_in_sqrt: bool = True,
) -> GradientTransformation:
    """Return AdaGrad: gradients over the root of the sum of all squares of them; nothing where that is zero.

    Args:
        learning_rate: a number or a schedule.
        initial_accumulator_value: where the sum begins; PyTorch's default is 0.
        eps: added to the sum, or to its root; PyTorch's default is 1e-10.
        eps_in_sqrt: whether under the root, as in Optax, or to it, as in PyTorch.

    Returns:
        A gradient transformation, with the numbers of Optax's `adagrad`, and with
        `eps_in_sqrt=False` of PyTorch's `Adagrad`.

    Raises:
        ValueError: `initial_accumulator_value` is negative.

    Derivative:
        `update` is differentiable in gradients and state; 0 where the sum is zero.

    Source:
        Duchi, Hazan & Singer (2011), Adaptive subgradient methods, JMLR.

    Example:
        >>> optimizer = adagrad(0.1, 0.0)
        >>> updates, state = optimizer.update(np.array([1.0, 0.0]), optimizer.init(np.ones(2)))
        >>> updates.round(4)
        array([-0.1,  0. ])
    """
    if initial_accumulator_value < 0:
        raise ValueError(
            f"adagrad: initial_accumulator_value is a sum of squares, not {initial_accumulator_value}"
        )

    def init(params: Any) -> Any:
        return tree.map(lambda z: z + like(initial_accumulator_value, z), _real_zeros(params))

    def direction(g: Any, total: Any) -> Any:
        safe = np.where(total > 0, total, 1)
        return np.where(total > 0, g / (np.sqrt(safe + eps) if eps_in_sqrt else np.sqrt(safe) + eps), 0)

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        total = tree.map(lambda g, s: s + squares(g), grads, state)
        return tree.map(direction, grads, total), total

    return chain(GradientTransformation(init, update), scale_by_learning_rate(learning_rate))


def adamax(
    learning_rate: Any,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    eps_in_max: bool = True,
) -> GradientTransformation:
    """Return Adamax: Adam with the greatest of the decayed absolute gradients in the place of a root.

    mean = b1 mean + (1 - b1) g, greatest = max(b2 greatest, |g| + eps), and after t steps the update is
    -learning_rate mean / (1 - b1^t) / greatest.

    Args:
        learning_rate: a number or a schedule.
        b1: decay of the mean.
        b2: decay of the greatest.
        eps: added to absolute gradients, or to the greatest.
        eps_in_max: whether before the greatest is found, as in Optax and PyTorch, or after.

    Returns:
        A gradient transformation, with the numbers of Optax's `adamax` and of PyTorch's `Adamax`.

    Raises:
        ValueError: `b1` or `b2` is not in [0, 1).

    Derivative:
        `update` is differentiable in gradients and state.

    Source:
        Kingma & Ba (2015), Adam: A method for stochastic optimization.

    Example:
        >>> optimizer = adamax(0.1)
        >>> updates, state = optimizer.update(np.array([1.0, -4.0]), optimizer.init(np.ones(2)))
        >>> updates.round(4)
        array([-0.1,  0.1])
    """
    _check("adamax", b1=b1, b2=b2)
    before, after = (eps, 0) if eps_in_max else (0, eps)

    def init(params: Any) -> Moments:
        return Moments(np.zeros((), np.int32), zeros(params), _real_zeros(params))

    def update(grads: Any, state: Moments, params: Any = None) -> tuple[Any, Moments]:
        count = state.count + ONE
        mean = running_means(b1, grads, state.mean)
        greatest = tree.map(lambda g, u: np.maximum(b2 * u, abs(g) + before), grads, state.square)
        rest = 1 - b1**count
        updates = tree.map(lambda m, u: m / like(rest, m) / (u + after), mean, greatest)
        return updates, Moments(count, mean, greatest)

    return chain(GradientTransformation(init, update), scale_by_learning_rate(learning_rate))


def lion(
    learning_rate: Any, b1: float = 0.9, b2: float = 0.99, weight_decay: float = 1e-3
) -> GradientTransformation:
    """Return Lion: the sign of a mean of gradients, and decoupled weight decay.

    The direction is sign(b1 mean + (1 - b1) g), then mean = b2 mean + (1 - b2) g.

    Args:
        learning_rate: a number or a schedule; three to ten times smaller than Adam's.
        b1: how much the mean counts beside the gradient.
        b2: decay of the mean.
        weight_decay: as in `adamw`.

    Returns:
        A gradient transformation, with the numbers of Optax's `lion`, whose `update` needs the parameters.

    Raises:
        ValueError: `b1` or `b2` is not in [0, 1).

    Derivative:
        Of the updates 0 in gradients and means, of which only the sign counts, and
        -learning_rate weight_decay in the parameters.

    Source:
        Chen et al. (2023), Symbolic discovery of optimization algorithms.

    Example:
        >>> params = np.array([1.0, -2.0])
        >>> optimizer = lion(0.1)
        >>> updates, state = optimizer.update(np.array([1.0, 4.0]), optimizer.init(params), params)
        >>> updates
        array([-0.1001, -0.0998])
    """
    _check("lion", b1=b1, b2=b2)

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates = tree.map(lambda g, m: np.sign(b1 * m + (1 - b1) * g), grads, state)
        return updates, running_means(b2, grads, state)

    direction = GradientTransformation(zeros, update)
    return chain(direction, add_decayed_weights(weight_decay), scale_by_learning_rate(learning_rate))


def _real_zeros(params: Any) -> Any:
    return tree.map(lambda p: np.zeros_like(p.real if hasattr(p, "dtype") else p), params)


def _check(name: str, **rates: float) -> None:
    for what, rate in rates.items():
        if not 0 <= rate < 1:
            raise ValueError(f"{name}: {what} is from 0 to below 1, not {rate}")
