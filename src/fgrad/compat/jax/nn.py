"""`jax.nn`: the activations of `fgrad.nn`, and JAX's own names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fgrad.nn
from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import Array, as_array, elementwise, made, opened
from fgrad.compat.jax.types import canonical, to_inexact
from fgrad.compat.standins import words

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
