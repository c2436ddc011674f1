"""The device of a value, be it an array, a Tensor or a batched tracer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.backend import devices
from fgrad.core.aval import Aval
from fgrad.core.trace import Tracer


def buffer_of(x: Any) -> Any:
    """Return the array under Tensors and batches; None where there is none yet."""
    while True:
        inner = x.held if isinstance(x, Tracer) else getattr(x, "_value", x)
        if inner is x:
            return x
        x = inner


def device_of(x: Any) -> str:
    """Return the name of the device of a value; what is not computed yet counts as on the CPU."""
    return devices.device_of(buffer_of(x))


def placed(like: Any, constant: Any) -> Any:
    """Return a constant array of NumPy, made for an operation on `like`, where `like` is."""
    make = near(like)
    return constant if make is np else make.constant(constant)


def on_host(x: Any) -> np.ndarray[Any, Any]:
    """Return the array of NumPy with the elements of an array, wherever that is."""
    host: np.ndarray[Any, Any] = devices.on_host(x)
    return host


def with_zeros(cts: Sequence[Any], avals: Sequence[Aval]) -> list[Any]:
    """Return cotangents, or tangents, zeros of these avals where there is none."""
    make = near(next((ct for ct in cts if ct is not None), None))
    return [make.zeros(a.shape, a.dtype) if ct is None else ct for ct, a in zip(cts, avals, strict=True)]


def near(x: Any) -> Any:
    """Return what makes arrays where `x` is, by NumPy's names: NumPy itself for the CPU."""
    return np if x.__class__ is np.ndarray else devices.near(buffer_of(x))
