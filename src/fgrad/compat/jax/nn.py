"""`jax.nn`: the activations of `fgrad.nn`, and JAX's own names."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import fgrad.nn
from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import Array, as_array, elementwise, made, opened
from fgrad.compat.jax.draws import NAMES as DRAWS
from fgrad.compat.jax.numpy import NAMES as NUMPY
from fgrad.compat.jax.numpy import averaged, of_one, shape_of
from fgrad.compat.jax.types import canonical, promote_types
from fgrad.compat.standins import by_name, renamed, words
from fgrad.nn import initializers


def _floats(f: Callable[..., Any], x: Array, args: Any, kwargs: Any) -> Array:
    """Return what is computed of floating-point numbers, weak if the array is."""
    return elementwise(lambda t: f(t, *args, **kwargs), x, inexact=True)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Array:
    """Return rows with a one at the place that an integer names; none where there is no such place."""
    kind = canonical(float if dtype is None else dtype)
    rows = opened(as_array(x))[..., None] == fnp.arange(num_classes)
    return made(rows if axis == -1 else fnp.moveaxis(rows, -1, axis)).astype(kind)


def relu(x: Any) -> Array:
    """Return what is positive, and zero elsewhere."""
    y = as_array(x)
    return elementwise(fgrad.nn.relu if y._tensor.dtype.kind == "f" else lambda t: fnp.maximum(t, 0), y)


def dot_product_attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *, scale: Any = None,
    is_causal: bool = False, implementation: Any = None, **options: Any,
) -> Array:  # fmt: skip
    """Return softmax(scale query key^T + bias) value for every head; heads of queries may share a key.

    As in JAX, a query that sees nothing gets the mean of the values.
    """
    if any(v is not None and v is not False for v in options.values()):
        raise NotImplementedError(f"fgrad's jax.nn.dot_product_attention has no {', '.join(options)}")
    q, k, v = map(as_array, (query, key, value))
    if not q.dtype == k.dtype == v.dtype or k.shape[:-1] != v.shape[:-1]:
        kinds = ", ".join(f"{x.dtype}{list(x.shape)}" for x in (q, k, v))
        raise ValueError(f"query, key and value are not of one kind: {kinds}")
    wide = [
        x.astype(promote_types(q.dtype, np.float32)) for x in (q, k, v, *([] if bias is None else [bias]))
    ]
    seen = None if mask is None else opened(as_array(mask).astype(bool))

    def attention(query: Any, key: Any, value: Any, bias: Any = None) -> Any:
        options = {"scale": opened(scale), "is_causal": is_causal}
        out = fgrad.nn.dot_product_attention(query, key, value, bias, seen, **options)
        if seen is None:
            return out
        causal = np.tri(q.shape[-3], k.shape[-3], dtype=bool) if is_causal else True
        sees = fnp.swapaxes(fnp.any(fnp.logical_and(seen, causal), -1, keepdims=True), -3, -2)
        mean = fnp.mean(value, -3, keepdims=True)
        return fnp.where(sees, out, fnp.repeat(mean, q.shape[-2] // k.shape[-2], -2))

    return elementwise(attention, *wide).astype(v.dtype)


def standardize(
    x: Any, axis: Any = -1, mean: Any = None, variance: Any = None, epsilon: Any = 1e-5, where: Any = None,
    *, algorithm: str = "fast",
) -> Array:  # fmt: skip
    """Return numbers with mean zero and variance one."""
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"Unknown algorithm '{algorithm}'. Expected 'fast' or 'stable'.")
    options = {"axis": axis, "keepdims": True, "where": where}
    square: Callable[[Any], Array] = NUMPY["square"]
    mean = NUMPY["mean"](x, **options) if mean is None else as_array(mean)
    rest = as_array(x) - mean
    if variance is None and algorithm == "stable":
        variance = NUMPY["mean"](square(rest), **options)
    elif variance is None:
        variance = NUMPY["maximum"](NUMPY["mean"](square(x), **options) - square(mean), 0)
    return rest / NUMPY["sqrt"](variance + epsilon)  # type: ignore[no-any-return]


NAMES: dict[str, Any] = {
    **{
        name: of_one(getattr(fgrad.nn, name), _floats)
        for name in words(
            "celu elu glu hard_sigmoid hard_silu hard_swish leaky_relu log_sigmoid log_softmax mish relu6 "
            "selu sigmoid silu soft_sign softmax softplus sparse_plus sparse_sigmoid swish"
        )
    },
    **{name: of_one(getattr(fgrad.nn, name), averaged) for name in ("gelu", "logsumexp")},
    "hard_tanh": lambda x: elementwise(lambda t: fnp.clip(t, -1, 1), x),
    "identity": as_array,
    "squareplus": lambda x, b=4: elementwise(lambda t, b: (t + fnp.sqrt(t * t + b)) / 2, x, b, inexact=True),
    "tanh": NUMPY["tanh"],
    **by_name(dot_product_attention, one_hot, relu, standardize),
}


# ---- initializers


class _Initializers(initializers.Initializers):
    """The initializers, of arrays, and with an argument that changes no number."""

    def dtype(self, given: Any) -> Any:
        return canonical(float if given is None else given)

    def initializer(self, draw: Any, usual: Any = None) -> Any:
        found = super().initializer(draw, usual)

        def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Array:
            return as_array(found(key, shape_of(shape), dtype))

        return init


OWN = _Initializers(SimpleNamespace(**DRAWS), SimpleNamespace(**NUMPY))
INITIALIZERS: dict[str, Any] = {"Initializer": Callable} | renamed(
    "constant normal ones orthogonal truncated_normal uniform variance_scaling zeros "
    "glorot_normal glorot_uniform xavier_normal:glorot_normal xavier_uniform:glorot_uniform "
    "he_normal he_uniform kaiming_normal:he_normal kaiming_uniform:he_uniform lecun_normal lecun_uniform",
    OWN,
)
