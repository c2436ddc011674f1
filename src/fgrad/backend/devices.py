"""Devices by name: which exist, where an array is, how it is transferred, and the default device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from fgrad import config
from fgrad.backend import composed as composed  # noqa: PLC0414 -- fills the tables of DeviceArray
from fgrad.backend import library
from fgrad.backend.array import TRANSFERS, Device, DeviceArray
from fgrad.blocks import Nested

CPU = "cpu"
_places: dict[tuple[bool, int], Device] = {}
_default: ContextVar[Device | None] = ContextVar("fgrad device", default=None)


def find(name: Any) -> Device | None:
    """Return the device called `name`; None for the CPU.

    Raises:
        ValueError: there is no such device.
        RuntimeError: CUDA cannot be used here.
    """
    kind, colon, number = str(name).partition(":")
    if kind == CPU and (not colon or number == "0"):
        return None
    if kind != "cuda" or (colon and not number.isdigit()):
        raise ValueError(f"there is no device {name!r}: devices are 'cpu', 'cuda', 'cuda:1', ...")
    lib = library.library()
    index = int(number or 0)
    if index >= lib.count():
        raise ValueError(f"there is no device {name!r} here, only {', '.join(map(repr, devices()))}")
    return _numbered(lib, index)


def _numbered(lib: library.Library, index: int) -> Device:
    key = (lib.simulated, index)
    if key not in _places:
        _places[key] = Device(lib, index)
    return _places[key]


def devices() -> list[str]:
    """Return the names of the devices that Tensors can be on here: "cpu" first, then the GPUs.

    Returns:
        A list of names that `fgrad.tensor(..., device=)`, `Tensor.to` and `default_device` take.

    Example:
        >>> devices()[0]
        'cpu'
    """
    try:
        count = library.library().count()
    except RuntimeError:
        count = 0
    return [CPU, *(f"cuda:{i}" for i in range(count))]


class default_device(Nested):  # noqa: N801 -- JAX's name, which reads as a function
    """Make new arrays on `device` inside the block, where nothing else is said.

    Args:
        device: "cpu", "cuda" or "cuda:1".

    Raises:
        ValueError: there is no such device.
        RuntimeError: CUDA cannot be used here; the message says what is missing.

    Example:
        >>> import fgrad
        >>> with fgrad.default_device("cpu"):
        ...     fgrad.numpy.zeros(2).device
        'cpu'
    """

    def __init__(self, device: Any) -> None:
        super().__init__()
        self._place = find(device)

    def __enter__(self) -> None:
        occasion = object()
        self.stays.append((_default.get(), occasion))
        config.occasions.append(occasion)
        _default.set(self._place)

    def put_back(self, stay: Any) -> None:
        """Let new arrays be where they were before."""
        before, occasion = stay
        _default.set(before)
        if occasion in config.occasions:
            config.occasions.remove(occasion)


default_place: Callable[[], Device | None] = _default.get  # what `default_device` chose for the running block


def maker(device: Any = None) -> Any:
    """Return what makes arrays on `device`, by NumPy's names: NumPy itself for the CPU; None: the default."""
    return (_default.get() if device is None else find(device)) or np


def near(value: Any) -> Any:
    """Return what makes arrays where the buffer `value` is, by NumPy's names."""
    return value.place if value.__class__ is DeviceArray else np


def device_of(value: Any) -> str:
    """Return the name of the device of a buffer."""
    return value.place.name if value.__class__ is DeviceArray else CPU


def moved(value: Any, device: Any) -> Any:
    """Return a buffer on `device`: itself if it is there."""
    place = find(device)
    if value.__class__ is not DeviceArray:
        return value if place is None else place.array(value)
    if place is None:
        return value.download()
    return value if value.place is place else DeviceArray(place.call(value.buffer.copy), place)


def as_array(x: Any, dtype: Any = None) -> Any:
    """Return a number or sequence as an array of NumPy; an array as it is, where it is."""
    if x.__class__ is DeviceArray:
        return x if dtype is None else x.astype(dtype, copy=False)
    return np.asarray(x, dtype)


def copied(value: Any) -> Any:
    """Return a copy of a buffer, where it is."""
    return value.copy() if value.__class__ is DeviceArray else np.array(value)


def on_host(value: Any) -> Any:
    """Return a buffer as an array of NumPy, for reading."""
    return value.download() if value.__class__ is DeviceArray else np.asarray(value)


def elsewhere(run: Callable[..., Any], there: Callable[..., Any]) -> Callable[..., Any]:
    """Return the `run` of a primitive that computes with `there` where an array is on a device."""

    @functools.wraps(run)
    def chosen(*args: Any, **params: Any) -> Any:
        is_there = any(a.__class__ is DeviceArray for a in args)
        return there(*args, **params) if is_there else run(*args, **params)

    return chosen


def is_foreign(x: Any) -> bool:
    """Return whether `x` is another library's array on a GPU."""
    if hasattr(x, "__cuda_array_interface__"):
        return True
    ask = getattr(x, "__dlpack_device__", None)
    return ask is not None and not isinstance(x, np.ndarray) and int(ask()[0]) == 2  # kDLCUDA


def adopted(x: Any) -> DeviceArray:
    """Return another library's array on a GPU as DeviceArray, without a copy."""
    if x.__class__ is DeviceArray:
        return x
    lib = library.library()
    buffer, index = lib.adopt(x)
    return DeviceArray(buffer, _numbered(lib, index))


def given_back(x: DeviceArray) -> Any:
    """Return an array on a device as users of another library know it: CuPy's, or in the simulator `x`."""
    return x if x.place.library.simulated else x.place.library.native(x.buffer)


def transfers() -> dict[str, int]:
    """Return how many arrays and numbers have travelled to devices and to the CPU so far."""
    return dict(TRANSFERS)
