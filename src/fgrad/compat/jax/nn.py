"""`jax.nn`: the activations of `fgrad.nn`, and JAX's own names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad.nn
from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import Array, as_array, elementwise, made, opened
from fgrad.compat.jax.types import canonical, to_inexact
from fgrad.compat.standins import words
from fgrad.random import threefry

__all__ = ["NAMES", "logsumexp"]


def _activation(name: str, *, inexact: bool = True) -> Callable[..., Array]:
    found = getattr(fgrad.nn, name)

    def function(x: Any, *args: Any, **kwargs: Any) -> Array:
        options = [opened(a) for a in args]
        keywords = {k: opened(v) for k, v in kwargs.items()}
        return elementwise(lambda t: found(t, *options, **keywords), x, inexact=inexact)

    function.__name__ = name
    function.__doc__ = f"Return what `fgrad.nn.{name}` does."
    return function


def _along(name: str) -> Callable[..., Array]:
    found = getattr(fgrad.nn, name)

    def function(x: Any, axis: Any = -1, where: Any = None) -> Array:
        y = as_array(x)
        return made(found(_inexact(y), axis, where=opened(where)), y.form)

    function.__name__ = name
    function.__doc__ = f"Return what `fgrad.nn.{name}` does."
    return function


def _inexact(x: Array) -> Any:
    return x.astype(to_inexact(x.dtype, weak=False)[0])._tensor


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Array:
    """Return the logarithm of a sum of exponentials."""
    if return_sign:
        raise NotImplementedError("fgrad's jax.nn.logsumexp has no return_sign: split b by its sign")
    x, options = as_array(a), {"keepdims": keepdims, "where": opened(where)}
    weights = None if b is None else as_array(b)._tensor
    return made(fgrad.nn.logsumexp(_inexact(x), axis, b=weights, **options), x.strong)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Array:
    """Return rows with a one at the place that an integer names; none where there is no such place."""
    kind = canonical(float if dtype is None else dtype)
    rows = as_array(x)._tensor[..., None] == fnp.arange(num_classes)
    return made(rows if axis == -1 else fnp.moveaxis(rows, -1, axis)).astype(kind)


def relu(x: Any) -> Array:
    """Return what is positive, and zero elsewhere."""
    y = as_array(x)
    return elementwise(fgrad.nn.relu if y._tensor.dtype.kind == "f" else lambda t: fnp.maximum(t, 0), y)


def gelu(x: Any, approximate: bool = True) -> Array:
    """Return x Φ(x), by tanh where it is approximate."""
    out = _activation("gelu")(x, approximate=approximate)
    return made(out._tensor, out.strong)


def sparse_plus(x: Any) -> Array:
    """Return zero below -1, x above 1, and a parabola between."""
    return elementwise(
        lambda t: fnp.where(t <= -1, 0, fnp.where(t >= 1, t, fnp.square(t + 1) / 4)), x, inexact=True
    )


NAMES: dict[str, Any] = {
    **{
        name: _activation(name)
        for name in words(
            "celu elu hard_sigmoid leaky_relu log_sigmoid relu6 selu sigmoid silu soft_sign softplus swish "
            "mish"
        )
    },
    **{name: _along(name) for name in ("softmax", "log_softmax")},
    "gelu": gelu,
    "logsumexp": logsumexp,
    "one_hot": one_hot,
    "relu": relu,
    "hard_tanh": lambda x: elementwise(lambda t: fnp.clip(t, -1, 1), x),
    "identity": as_array,
    "sparse_plus": sparse_plus,
    "sparse_sigmoid": lambda x: elementwise(lambda t: fnp.clip(t + 1, 0, 2) / 2, x, inexact=True),
    "squareplus": lambda x, b=4: elementwise(lambda t, b: (t + fnp.sqrt(t * t + b)) / 2, x, b, inexact=True),
    "tanh": lambda x: elementwise(fnp.tanh, x, inexact=True),
}
NAMES["hard_swish"] = NAMES["hard_silu"] = lambda x: x * NAMES["hard_sigmoid"](x)


# ---- initializers


def _initializer(draw: Callable[[Any, tuple[int, ...], Any], Any]) -> Callable[..., Array]:
    """Return `init(key, shape, dtype)` of what draws Tensors."""

    def init(key: Any, shape: Any, dtype: Any = float, out_sharding: Any = None) -> Array:
        kind = canonical(dtype)
        return made(draw(opened(key), tuple(shape), kind)).astype(kind)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = float) -> Callable[..., Array]:
    """Return what draws normal numbers."""
    return _initializer(lambda key, shape, kind: threefry.normal(key, shape, kind) * kind.type(stddev))


def uniform(scale: Any = 1e-2, dtype: Any = float) -> Callable[..., Array]:
    """Return what draws uniform numbers from zero on."""
    return _initializer(lambda key, shape, kind: threefry.uniform(key, shape, kind) * kind.type(scale))


def variance_scaling(
    scale: float, mode: str, distribution: str, in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (),
    dtype: Any = float,
) -> Callable[..., Array]:  # fmt: skip
    """Return what draws weights whose variance is `scale` divided by the number of inputs or outputs.

    Raises:
        ValueError: an unknown mode or distribution.
    """
    modes = {"fan_in": (1.0, 0.0), "fan_out": (0.0, 1.0), "fan_avg": (0.5, 0.5)}
    if mode not in modes or distribution not in ("normal", "uniform", "truncated_normal"):
        raise ValueError(f"variance_scaling has no mode {mode!r} with distribution {distribution!r}")

    def draw(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
        if len(shape) <= 1:
            raise ValueError(f"variance_scaling needs at least two axes, not shape {shape}")
        given = (np.atleast_1d(np.asarray(axes, int)) for axes in (in_axis, out_axis, batch_axis))
        ins, outs, batches = (math.prod(shape[a] for a in axes) for axes in given)
        field = math.prod(shape) / ins / outs / batches
        fans = ins * field, outs * field
        variance = scale / sum(weight * fan for weight, fan in zip(modes[mode], fans, strict=True))
        if distribution == "uniform":
            return threefry.uniform(key, shape, kind, -1, 1) * kind.type(math.sqrt(3 * variance))
        if distribution == "normal":
            return threefry.normal(key, shape, kind) * kind.type(math.sqrt(variance))
        deviation = math.sqrt(variance) / 0.87962566103423978  # that of a normal number between -2 and 2
        return threefry.truncated_normal(key, -2, 2, shape, kind) * kind.type(deviation)

    return _initializer(draw)


def _scaling(scale: float, mode: str, distribution: str) -> Callable[..., Any]:
    return lambda **axes: variance_scaling(scale, mode, distribution, **axes)


INITIALIZERS: dict[str, Any] = {
    "Initializer": Callable,
    "constant": lambda value, dtype=float: _initializer(lambda _, shape, kind: fnp.full(shape, value, kind)),
    "normal": normal,
    "ones": _initializer(lambda _, shape, kind: fnp.ones(shape, kind)),
    "uniform": uniform,
    "variance_scaling": variance_scaling,
    "zeros": _initializer(lambda _, shape, kind: fnp.zeros(shape, kind)),
    "glorot_normal": _scaling(1.0, "fan_avg", "truncated_normal"),
    "glorot_uniform": _scaling(1.0, "fan_avg", "uniform"),
    "he_normal": _scaling(2.0, "fan_in", "truncated_normal"),
    "he_uniform": _scaling(2.0, "fan_in", "uniform"),
    "lecun_normal": _scaling(1.0, "fan_in", "truncated_normal"),
    "lecun_uniform": _scaling(1.0, "fan_in", "uniform"),
}
