"""`jax.random`: what `fgrad.compat.jax.random` draws, as arrays, and of bfloat16 too; keys have a dtype."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.compat.jax import numpy, random, types
from fgrad.compat.jax.arrays import (
    KEYS,
    SHORT,
    Array,
    Form,
    as_array,
    data_of_keys,
    keys_of_data,
    made,
    opened,
)
from fgrad.compat.jax.types import BFLOAT16
from fgrad.core.tensor import Tensor

# what is drawn where no dtype is given, if it is no float; it has 64 bits where these are enabled
_KINDS = dict.fromkeys(("geometric", "poisson", "rademacher", "randint"), "i8") | {"bits": "u8"}


def _of_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `fgrad.compat.jax.random`, of arrays."""
    signature, name = inspect.signature(function), function.__name__
    wide = _KINDS.get(name, "f8") if "dtype" in signature.parameters else ""

    def draw(key: Any, *args: Any, **kwargs: Any) -> Any:
        form: Form = False
        if key.__class__ is Array and key.form is KEYS:
            if key.shape:
                raise ValueError(
                    f"{name} accepts a single key, not an array of keys {key.shape}: use jax.vmap"
                )
            drawn = draw(made(data_of_keys(key._tensor)), *args, **kwargs)
            return wrap_key_data(drawn) if name in ("fold_in", "split") else drawn
        kwargs.pop("out_sharding", None)  # which changes no number
        args = (key, *args)
        if wide:
            args, kwargs = (), signature.bind_partial(*args, **kwargs).arguments
            kind = numpy.dtype_of(kwargs.get("dtype", float))
            if kind in (BFLOAT16, BFLOAT16.type, SHORT):
                kwargs["dtype"] = form = SHORT
            elif types.CONFIG.jax_enable_x64:
                kwargs.setdefault("dtype", wide)
        out = function(*map(opened, args), **{k: _plain(v) for k, v in kwargs.items()})
        return made(out, form) if isinstance(out, Tensor | np.ndarray | np.generic) else out

    draw.__name__, draw.__doc__ = name, function.__doc__
    return draw


def wrap_key_data(key_bits_array: Any, *, impl: Any = None) -> Array:
    """Return keys of two words each, which are along the last axis."""
    x = as_array(key_bits_array)
    if x.dtype != np.uint32 or x.shape[-1:] != (2,) or impl not in (None, "threefry2x32"):
        raise TypeError(f"keys are two words of uint32 for threefry2x32, not {x.dtype} of shape {x.shape}")
    return made(keys_of_data(x._tensor), KEYS)


def key_data(keys: Any) -> Array:
    """Return the words of keys."""
    x = as_array(keys)
    return made(data_of_keys(x._tensor)) if x.form is KEYS else as_array(random.key_data(opened(x)))


def key(seed: Any, *, impl: Any = None) -> Array:
    """Return the key of a seed."""
    return wrap_key_data(random.key(opened(seed), impl=impl))


def prng_key(seed: Any, *, impl: Any = None) -> Array:
    """Return the key of a seed, as two words unless the program asks for a dtype of keys."""
    found = key(seed, impl=impl)
    return found if types.CONFIG.jax_enable_custom_prng else key_data(found)


def _plain(x: Any) -> Any:
    return x.dtype if isinstance(x, numpy.Scalar) else opened(x)


NAMES: dict[str, Any] = {name: _of_arrays(getattr(random, name)) for name in random.__all__} | random.ABSENT
NAMES |= {
    "PRNGKey": prng_key,
    "clone": as_array,
    "key": key,
    "key_data": key_data,
    "key_impl": lambda keys: types.CONFIG.jax_default_prng_impl,
    "wrap_key_data": wrap_key_data,
}
