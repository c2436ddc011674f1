"""Gradient transformations: pairs of `init` and `update`, the pieces that optimizers are chained of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fgrad import tree

Schedule = Callable[[Any], Any]


class GradientTransformation(NamedTuple):
    """What makes updates of gradients, and the state that it keeps between steps.

    Attributes:
        init: (params) -> state, a pytree of arrays.
        update: (gradients, state, params) -> (updates, new state). `params` may be left out where no weights
            decay. It is a pure function: it runs under `jit`, `vmap` and `grad`.

    Example:
        >>> halved = GradientTransformation(lambda params: (), lambda grads, *_: (grads / 2, ()))
        >>> halved.update(np.ones(2), halved.init(np.zeros(2)))[0]
        array([0.5, 0.5])
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


def apply_updates(params: Any, updates: Any) -> Any:
    """Return `params + updates`, leaf by leaf, in the dtypes of `params`.

    Args:
        params: pytree of arrays and numbers.
        updates: pytree of the same structure.

    Returns:
        New pytree of the shapes of `params`.

    Raises:
        ValueError: the structures differ.

    Derivative:
        1 for both.

    Example:
        >>> apply_updates({"w": np.ones(2)}, {"w": np.array([1.0, -1.0])})
        {'w': array([2., 0.])}
    """
    return tree.map(lambda p, u: p + u, params, updates)


def chain(*transformations: GradientTransformation) -> GradientTransformation:
    """Return the transformation that applies each of several to what the one before returned.

    Args:
        transformations: the first one gets the gradients.

    Returns:
        A gradient transformation; its state is the tuple of theirs.

    Raises:
        ValueError: in `update`, the state is one of another number of transformations.

    Example:
        >>> clipped = chain(clip_by_global_norm(1.0), scale_by_learning_rate(0.1))
        >>> clipped.update(np.array([3.0, 4.0]), clipped.init(np.zeros(2)))[0].round(3)
        array([-0.06, -0.08])
    """

    def init(params: Any) -> Any:
        return tuple([t.init(params) for t in transformations])

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if len(state) != len(transformations):
            raise ValueError(f"a chain of {len(transformations)} has as many states, not {len(state)}")
        new = []
        for t, s in zip(transformations, state, strict=True):
            grads, after = t.update(grads, s, params)
            new.append(after)
        return grads, tuple(new)

    return GradientTransformation(init, update)


def stateless(f: Callable[[Any, Any], Any]) -> GradientTransformation:
    """Return the transformation that replaces gradients by `f(gradients, params)`."""
    return GradientTransformation(
        lambda params: (), lambda grads, state, params=None: (f(grads, params), state)
    )


def clip(max_delta: float) -> GradientTransformation:
    """Return the transformation that clips every element to [-max_delta, max_delta].

    Args:
        max_delta: positive.

    Returns:
        A gradient transformation without state.

    Derivative:
        That of `np.clip`: 1 inside, 0 outside.

    Example:
        >>> clip(1.0).update(np.array([-3.0, 0.5]), ())[0]
        array([-1. ,  0.5])
    """
    return stateless(lambda grads, params: tree.map(lambda g: np.clip(g, -max_delta, max_delta), grads))


def global_norm(x: Any) -> Any:
    """Return the square root of the sum of squares of all elements of a pytree.

    Args:
        x: pytree of arrays and numbers, real or complex.

    Returns:
        A real number; of no dtype other than those of the leaves promote to.

    Derivative:
        x / norm; NaN where all elements are zero.

    Example:
        >>> float(global_norm({"a": np.array([3.0]), "b": 4.0}))
        5.0
    """
    return np.sqrt(sum(np.sum(squares(leaf)) for leaf in tree.leaves(x)))


def squares(x: Any) -> Any:
    """Return the squares of absolute values."""
    return x.real**2 + x.imag**2 if hasattr(x, "dtype") and x.dtype.kind == "c" else x * x


def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """Return the transformation that scales gradients down where the norm of all of them exceeds `max_norm`.

    Args:
        max_norm: positive. The result has exactly this norm then; PyTorch's `clip_grad_norm_` adds 1e-6 to
            the norm that it divides by.

    Returns:
        A gradient transformation without state; it keeps dtypes.

    Raises:
        ValueError: `max_norm` is not positive.

    Derivative:
        That of the scaled gradients, with the norm as a function of them where it exceeds `max_norm`.

    Source:
        Pascanu, Mikolov & Bengio (2013), On the difficulty of training recurrent neural networks.

    Example:
        >>> clip_by_global_norm(1.0).update({"w": np.array([3.0, 4.0])}, ())[0]
        {'w': array([0.6, 0.8])}
    """
    if not max_norm > 0:
        raise ValueError(f"clip_by_global_norm: max_norm is positive, not {max_norm}")

    def clipped(grads: Any, params: Any) -> Any:
        norm = global_norm(grads)
        limit = like(max_norm, norm)
        scale = limit / np.maximum(norm, limit)
        return tree.map(lambda g: g * like(scale, g), grads)

    return stateless(clipped)


def add_decayed_weights(weight_decay: float) -> GradientTransformation:
    """Return the transformation that adds `weight_decay` times the parameters to the gradients.

    Before an optimizer this is an L2 penalty; `adamw` and `lion` have it after their scaling, "decoupled".

    Args:
        weight_decay: a number.

    Returns:
        A gradient transformation without state, whose `update` needs the parameters.

    Raises:
        ValueError: in `update`, the parameters are missing.

    Derivative:
        1 for the gradients, `weight_decay` for the parameters.

    Example:
        >>> add_decayed_weights(0.1).update(np.ones(2), (), np.array([1.0, 2.0]))[0]
        array([1.1, 1.2])
    """

    def decayed(grads: Any, params: Any) -> Any:
        if params is None:
            raise ValueError("weights decay in proportion to them: call update(grads, state, params)")
        return tree.map(lambda g, p: g + weight_decay * p, grads, params)

    return stateless(decayed)


def scale_by_learning_rate(learning_rate: Any) -> GradientTransformation:
    """Return the transformation that multiplies by -learning_rate, the last one of every optimizer.

    Args:
        learning_rate: a number, or a schedule: (number of steps done) -> number.

    Returns:
        A gradient transformation; with a schedule its state is the number of steps, an int32. It keeps
        dtypes.

    Derivative:
        -learning_rate for the gradients; also in a learning rate that is a Tensor.

    Example:
        >>> scaled = scale_by_learning_rate(lambda count: 0.1 * (count + 1))
        >>> updates, state = scaled.update(np.ones(2), scaled.init(np.zeros(2)))
        >>> scaled.update(np.ones(2), state)
        (array([-0.2, -0.2]), np.int32(2))
    """
    if not callable(learning_rate):
        return stateless(lambda grads, params: tree.map(lambda g: g * like(-learning_rate, g), grads))

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        rate = learning_rate(state)
        return tree.map(lambda g: g * like(-rate, g), grads), state + ONE

    return GradientTransformation(lambda params: np.zeros((), np.int32), update)


def trace(decay: float, *, nesterov: bool = False) -> GradientTransformation:
    """Return the transformation that adds up gradients, decayed at every step: momentum.

    trace = gradient + decay trace

    Args:
        decay: from 0 to 1.
        nesterov: whether to return gradient + decay trace with the new trace, instead of the trace.

    Returns:
        A gradient transformation; its state is the trace, like the parameters.

    Derivative:
        Of `update`, in gradients and state: that of the sum.

    Source:
        Sutskever, Martens, Dahl & Hinton (2013), On the importance of initialization and momentum.

    Example:
        >>> momentum = trace(0.5)
        >>> updates, state = momentum.update(np.ones(2), momentum.init(np.zeros(2)))
        >>> momentum.update(np.ones(2), state)[0]
        array([1.5, 1.5])
    """

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        new = tree.map(lambda g, t: g + decay * t, grads, state)
        return tree.map(lambda g, t: g + decay * t, grads, new) if nesterov else new, new

    return GradientTransformation(zeros, update)


def ema(decay: float) -> GradientTransformation:
    """Return the transformation that takes running means of gradients, which begin with zero.

    mean = (1 - decay) gradient + decay mean

    Args:
        decay: from 0 to 1.

    Returns:
        A gradient transformation, with the numbers of Optax's `ema` without `debias`; its state is the mean.

    Derivative:
        Of `update`, in gradients and state: that of the sum.

    Example:
        >>> mean = ema(0.5)
        >>> updates, state = mean.update(np.ones(2), mean.init(np.zeros(2)))
        >>> mean.update(np.ones(2), state)[0]
        array([0.75, 0.75])
    """

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        new = running_means(decay, grads, state)
        return new, new

    return GradientTransformation(zeros, update)


def running_means(decay: float, values: Any, means: Any) -> Any:
    """Return means of trees after one more value: decay mean + (1 - decay) value."""
    return tree.map(lambda x, m: decay * m + (1 - decay) * x, values, means)


def zeros(params: Any) -> Any:
    """Return zeros of the shapes and dtypes of a pytree."""
    return tree.map(np.zeros_like, params)


ONE = np.int32(1)


def like(value: Any, x: Any) -> Any:
    """Return a number as one of the real dtype of `x`, so that it promotes nothing."""
    if type(value) in {int, float}:
        return value
    real = x.real.dtype if hasattr(x, "dtype") else np.dtype(float)
    return value.astype(real) if hasattr(value, "astype") else np.asarray(value, real)
