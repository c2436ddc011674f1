"""`jax.nn`: the activations of `fgrad.nn`, and JAX's own names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad.nn
import fgrad.scipy.special
from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import Array, as_array, elementwise, inexact, made, named, opened
from fgrad.compat.jax.draws import NAMES as DRAWS
from fgrad.compat.jax.numpy import NAMES as NUMPY
from fgrad.compat.jax.numpy import shape_of, wrapped
from fgrad.compat.jax.types import canonical
from fgrad.compat.standins import by_name, words


def _activation(name: str, *, inexact: bool = True) -> Callable[..., Array]:
    found = getattr(fgrad.nn, name)

    def function(x: Any, *args: Any, **kwargs: Any) -> Array:
        options = [opened(a) for a in args]
        keywords = {k: opened(v) for k, v in kwargs.items()}
        return elementwise(lambda t: found(t, *options, **keywords), x, inexact=inexact)

    return named(function, f"fgrad.nn.{name}")


def _along(name: str) -> Callable[..., Array]:
    found = getattr(fgrad.nn, name)

    def function(x: Any, axis: Any = -1, where: Any = None) -> Array:
        y = as_array(x)
        return made(found(inexact(y)._tensor, axis, where=opened(where)), y.form)

    return named(function, f"fgrad.nn.{name}")


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False,
    where: Any = None,
) -> Any:  # fmt: skip
    """Return the logarithm of a sum of exponentials, and its sign if that is asked for."""
    x, weights = as_array(a), None if b is None else as_array(b)._tensor
    values = inexact(x)._tensor
    values = values if where is None else fnp.where(opened(where), values, -np.inf)
    found = fgrad.scipy.special.logsumexp(values, axis, weights, keepdims, return_sign)
    return wrapped(found, x.strong)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Array:
    """Return rows with a one at the place that an integer names; none where there is no such place."""
    kind = canonical(float if dtype is None else dtype)
    rows = opened(as_array(x))[..., None] == fnp.arange(num_classes)
    return made(rows if axis == -1 else fnp.moveaxis(rows, -1, axis)).astype(kind)


def relu(x: Any) -> Array:
    """Return what is positive, and zero elsewhere."""
    y = as_array(x)
    return elementwise(fgrad.nn.relu if y._tensor.dtype.kind == "f" else lambda t: fnp.maximum(t, 0), y)


def gelu(x: Any, approximate: bool = True) -> Array:
    """Return x Φ(x), by tanh where it is approximate."""
    out = _activation("gelu")(x, approximate=approximate)
    return made(out._tensor, out.strong)


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
    if q.shape[-2] % k.shape[-2]:
        raise ValueError(
            "The number of query heads must be a multiple of key/value heads, but got "
            f"{q.shape[-2]} vs {k.shape[-2]}"
        )
    if not q.dtype == k.dtype == v.dtype or k.shape[:-1] != v.shape[:-1]:
        kinds = ", ".join(f"{x.dtype}{list(x.shape)}" for x in (q, k, v))
        raise ValueError(f"query, key and value are not of one kind: {kinds}")
    k, v = (NUMPY["repeat"](x, q.shape[-2] // k.shape[-2], -2) for x in (k, v))
    dtype = NUMPY["promote_types"](q.dtype, np.float32)
    logits: Any = NUMPY["einsum"]("...tnh,...snh->...nts", q.astype(dtype), k.astype(dtype))
    logits = logits * as_array(q.shape[-1] ** -0.5 if scale is None else scale).astype(dtype)
    logits = logits if bias is None else (logits + bias).astype(dtype)
    seen = True if mask is None else mask
    if is_causal:
        seen = NUMPY["logical_and"](NUMPY["tri"](*logits.shape[-2:], dtype=bool), seen)
    logits = NUMPY["where"](seen, logits, -0.7 * float(np.finfo(np.float32).max))
    weights = NAMES["softmax"](logits.astype(np.float32)).astype(k.dtype)
    out: Array = NUMPY["einsum"]("...nts,...snh->...tnh", weights, v)
    return out.reshape(*q.shape[:-1], v.shape[-1])


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


def sparse_plus(x: Any) -> Array:
    """Return zero below -1, x above 1, and a parabola between."""
    return elementwise(
        lambda t: fnp.where(t <= -1, 0, fnp.where(t >= 1, t, fnp.square(t + 1) / 4)), x, inexact=True
    )


NAMES: dict[str, Any] = {
    **{
        name: _activation(name)
        for name in words(
            "celu elu glu hard_sigmoid leaky_relu log_sigmoid mish relu6 selu sigmoid silu soft_sign "
            "softplus swish"
        )
    },
    **{name: _along(name) for name in ("softmax", "log_softmax")},
    "hard_tanh": lambda x: elementwise(lambda t: fnp.clip(t, -1, 1), x),
    "identity": as_array,
    "sparse_sigmoid": lambda x: elementwise(lambda t: fnp.clip(t + 1, 0, 2) / 2, x, inexact=True),
    "squareplus": lambda x, b=4: elementwise(lambda t, b: (t + fnp.sqrt(t * t + b)) / 2, x, b, inexact=True),
    "tanh": lambda x: elementwise(fnp.tanh, x, inexact=True),
    **by_name(dot_product_attention, gelu, logsumexp, one_hot, relu, sparse_plus, standardize),
}
NAMES["hard_swish"] = NAMES["hard_silu"] = lambda x: x * NAMES["hard_sigmoid"](x)


# ---- initializers


def _initializer(draw: Callable[[Any, tuple[int, ...], Any], Any], usual: Any = None) -> Callable[..., Array]:
    """Return `init(key, shape, dtype)` of what draws arrays, with the dtype where none is given."""

    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Array:
        given = usual if dtype is None else dtype
        kind = canonical(float if given is None else given)
        return as_array(draw(key, shape_of(shape), kind)).astype(kind)

    return init


def _filling(name: str) -> Callable[..., Array]:
    return named(_initializer(lambda _, shape, kind: NUMPY[name](shape, kind)), f"jax.numpy.{name}")


def _drawn(name: str, size: float, *limits: float) -> Callable[..., Any]:
    """Return the initializer of numbers that `jax.random.name` draws, times a size."""

    def initializer(scale: Any = size, dtype: Any = None, *given: float) -> Callable[..., Array]:
        bounds = (*given, *limits[len(given) :])

        def draw(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
            return DRAWS[name](key, *bounds, shape=shape, dtype=kind) * as_array(scale).astype(kind)

        return _initializer(draw, dtype)

    initializer.__name__, initializer.__doc__ = name, f"Return what draws as `jax.random.{name}` does."
    return initializer


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Callable[..., Array]:
    """Return what draws orthogonal matrices, of which an axis counts the columns."""

    def draw(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        columns = shape[column_axis]
        if not math.prod(shape):
            return NUMPY["zeros"](shape, kind)
        q = DRAWS["orthogonal"](key, math.prod(shape) // columns, (), kind, columns)
        rows = np.delete(shape, column_axis).tolist()
        return NUMPY["moveaxis"](q.reshape(*rows, columns), -1, column_axis) * as_array(scale).astype(kind)

    return _initializer(draw, dtype)


_UNITS: dict[str, tuple[dict[str, Any], float]] = {  # which numbers, and their standard deviation
    "normal": ({}, 1.0),
    "truncated_normal": ({"lower": -2, "upper": 2}, 0.87962566103423978),
    "uniform": ({"minval": -1, "maxval": 1}, 3**-0.5),
}


_RADII: dict[str, tuple[Callable[[Any], Any], float]] = {  # of complex numbers, from uniform ones; as above
    "truncated_normal": (
        lambda u: NUMPY["sqrt"](-NUMPY["log"](1 - (1 - math.exp(-4)) * u)),
        0.95311164380491208,
    ),
    "uniform": (NUMPY["sqrt"], 2**-0.5),
}


def variance_scaling(
    scale: float, mode: str, distribution: str, in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (),
    dtype: Any = float,
) -> Callable[..., Array]:  # fmt: skip
    """Return what draws weights whose variance is `scale` divided by the number of inputs or outputs."""
    modes = {"fan_in": (1.0, 0.0), "fan_out": (0.0, 1.0), "fan_avg": (0.5, 0.5)}
    if mode not in modes or distribution not in _UNITS:
        raise ValueError(f"variance_scaling has no mode {mode!r} with distribution {distribution!r}")

    def draw(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
        if len(shape) <= 1:
            raise ValueError(f"variance_scaling needs at least two axes, not shape {shape}")
        given = (np.atleast_1d(np.asarray(axes, int)) for axes in (in_axis, out_axis, batch_axis))
        ins, outs, batches = (math.prod(shape[a] for a in axes) for axes in given)
        field = math.prod(shape) / ins / outs / batches
        fans = ins * field, outs * field
        variance = scale / sum(weight * fan for weight, fan in zip(modes[mode], fans, strict=True))
        limits, deviation = _UNITS[distribution]
        if kind.kind == "c" and distribution in _RADII:
            radius, deviation = _RADII[distribution]
            part = np.dtype(f"f{kind.itemsize // 2}")
            unit, turn = (DRAWS["uniform"](k, shape, part) for k in DRAWS["split"](key))
            drawn = radius(unit) * NUMPY["exp"](2j * np.pi * turn)
        else:
            drawn = DRAWS[distribution](key, **limits, shape=shape, dtype=kind)
        return drawn * as_array(math.sqrt(variance) / deviation).astype(kind)

    return _initializer(draw, dtype)


def _scaling(scale: float, mode: str, distribution: str) -> Callable[..., Any]:
    return lambda **axes: variance_scaling(scale, mode, distribution, **axes)


_AUTHORS = (("glorot xavier", 1.0, "fan_avg"), ("he kaiming", 2.0, "fan_in"), ("lecun", 1.0, "fan_in"))
INITIALIZERS: dict[str, Any] = {
    "Initializer": Callable,
    "constant": lambda value, dtype=None: _initializer(
        lambda _, shape, kind: NUMPY["full"](shape, value, kind), dtype
    ),
    "normal": _drawn("normal", 1e-2),
    "orthogonal": orthogonal,
    "truncated_normal": _drawn("truncated_normal", 1e-2, -2.0, 2.0),
    "ones": _filling("ones"),
    "uniform": _drawn("uniform", 1e-2),
    "variance_scaling": variance_scaling,
    "zeros": _filling("zeros"),
    **{
        f"{author}_{distribution}": _scaling(scale, mode, drawn)
        for authors, scale, mode in _AUTHORS
        for author in authors.split()
        for distribution, drawn in (("normal", "truncated_normal"), ("uniform", "uniform"))
    },
}
