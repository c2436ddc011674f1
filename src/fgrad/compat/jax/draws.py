"""`jax.random`: what `fgrad.compat.jax.random` draws, as arrays, and of bfloat16 too."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.compat.jax import lax, numpy, random, types
from fgrad.compat.jax.arrays import Array, as_array, made, opened
from fgrad.compat.jax.types import BFLOAT16
from fgrad.core.tensor import Tensor

__all__ = ["NAMES"]

# what is drawn where no dtype is given, if it is no float; it has 64 bits where these are enabled
_KINDS = dict.fromkeys(("geometric", "poisson", "rademacher", "randint"), "i8") | {"bits": "u8", "key": ""}


def _of_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `fgrad.compat.jax.random`, of arrays."""
    signature, name = inspect.signature(function), function.__name__
    wide = _KINDS.get(name, "f8") if "dtype" in signature.parameters else ""

    def draw(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind_partial(*args, **kwargs).arguments if wide else {}
        if numpy.dtype_of(given.get("dtype", float)) in (BFLOAT16, BFLOAT16.type, "bfloat16"):
            if name not in _SHORT:
                raise NotImplementedError(f"fgrad's jax.random.{name} draws no bfloat16")
            del given["dtype"]
            return _SHORT[name](**given)
        if wide and types.CONFIG.jax_enable_x64:
            kwargs.setdefault("dtype", given.get("dtype", wide))
            args = args[: list(signature.parameters).index("dtype")]
        out = function(*map(opened, args), **{k: _plain(v) for k, v in kwargs.items()})
        return made(out) if isinstance(out, Tensor | np.ndarray | np.generic) else out

    draw.__name__, draw.__doc__ = name, function.__doc__
    return draw


def _plain(x: Any) -> Any:
    return x.dtype if isinstance(x, numpy.Scalar) else opened(x)


# ---- bfloat16


def _short(x: Any) -> Any:
    return as_array(x).astype(BFLOAT16)


def _uniform(key: Any, shape: Any = (), minval: Any = 0.0, maxval: Any = 1.0) -> Array:
    """Return uniform numbers: eight bits, of which seven digits are made."""
    bits: Any = made(random.bits(opened(key), opened(shape), np.uint8))
    unit, low, high = _short(bits // 2 / 128), _short(minval), _short(maxval)
    drawn: Array = numpy.NAMES["maximum"](low, unit * (high - low) + low)
    return drawn


_ROOT = np.float32(np.sqrt(2))


def _normal(key: Any, shape: Any = ()) -> Array:
    drawn: Array = _short(_ROOT) * lax.NAMES["erf_inv"](_uniform(key, shape, -1 + 2.0**-8))
    return drawn


def _truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = ()) -> Array:
    limits = [np.asarray(_short(limit)) for limit in (lower, upper)]
    unit = _uniform(key, shape, *(lax.NAMES["erf"](_short(limit) / _short(_ROOT)) for limit in limits))
    ends = (BFLOAT16.type(np.inf), BFLOAT16.type(-np.inf))
    inside = [_short(np.nextafter(limit, end)) for limit, end in zip(limits, ends, strict=True)]
    drawn: Array = numpy.NAMES["clip"](_short(_ROOT) * lax.NAMES["erf_inv"](unit), *inside)
    return drawn


_SHORT: dict[str, Callable[..., Array]] = {
    "normal": _normal,
    "truncated_normal": _truncated_normal,
    "uniform": _uniform,
}
NAMES: dict[str, Any] = {name: _of_arrays(getattr(random, name)) for name in random.__all__} | {
    "clone": as_array,
    "key_impl": lambda keys: types.CONFIG.jax_default_prng_impl,
}
