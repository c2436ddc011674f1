"""Primitives that move values between devices; their derivatives move back.

A program does not know where its arguments will be. So what is staged says where a value goes, and its
reverse step keeps the value, which says where it came from.
"""

from __future__ import annotations

from typing import Any

from fgrad.backend.devices import CPU, device_of, find, moved
from fgrad.core.dispatch import bind
from fgrad.core.placement import buffer_of
from fgrad.core.primitive import FUNCTIONS, LINEAR, TRANSFERS, Pattern, by_argument, declare
from fgrad.core.tensor import Tensor
from fgrad.ops.linear import broadcast_to, linear

UNSTORED = "devices belong to a machine, and a stored program to none"
COPIES = "it copies between devices"


def to_device(x: Any, device: str, source: str) -> Any:
    """Return `x`, which is on the device `source`, on `device`; the adjoint goes back."""
    return bind("to_device", x, device=device, source=source)


def _to(x: Tensor, device: Any) -> Any:
    """Do what `Tensor.to` says."""
    place, source = find(device), x.device
    name = place.name if place else CPU
    if buffer_of(x) is None:  # where a program will have it
        return bind("staged_to_device", x, device=name)
    return x if name == source else to_device(x, name, source)


FUNCTIONS["to"] = _to


def _beside(mapped: Pattern, x: Any, like: Any) -> Any:
    """Return the examples where those of `like` are, also where only `like` differs between them."""
    return bind("to_device_of", x if mapped[0] else broadcast_to(x, (like.shape[0], *x.shape)), like)


linear(
    "to_device",
    run=lambda x, *, device, source: moved(x, device),
    adjoint=lambda ct, x, *, device, source: to_device(ct, source, device),
    shape=lambda x, *, device, source: x,
    batch=lambda x, *, device, source: to_device(x, device, source),
    stored=UNSTORED,
    interpreted=COPIES,
)
declare(
    "staged_to_device",
    run=lambda x, *, device: moved(x, device),
    vjp=by_argument(
        lambda ct, x, *, device: bind("to_device_of", ct, x), exact=True, linear=True, transpose=LINEAR
    ),
    shape=lambda x, *, device: x,
    batch=lambda _, x, *, device: bind("staged_to_device", x, device=device),
    stored=UNSTORED,
    interpreted=COPIES,
    traits={TRANSFERS},
)
declare(
    "to_device_of",
    run=lambda x, like: moved(x, device_of(like)),
    vjp=by_argument(lambda ct, x: bind("to_device_of", ct, x), None, exact=True, linear=True),
    shape=lambda x, like: x,
    batch=_beside,
    stored=UNSTORED,
    interpreted=COPIES,
    traits={TRANSFERS},
)
