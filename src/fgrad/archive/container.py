"""The bytes of a stored program: a header in JSON, raw arrays, and a digest of both (docs/export.md)."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

MAGIC = b"\x89fgrad\r\n"  # no text, and not the same after a transfer as text
VERSION = 1
ALIGN = 64  # where arrays begin
DIGEST = hashlib.sha256().digest_size
_START = struct.Struct("<8sIQ")  # magic, version, bytes of the header

DTYPES = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
LARGEST = 2**48  # bytes of one value


class Arrays:
    """Collects arrays, each once."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self.found: list[np.ndarray] = []

    def place(self, x: np.ndarray) -> int:
        """Return the number of an array."""
        if id(x) not in self._places:
            self._places[id(x)] = len(self.found)
            self.found.append(x)
        return self._places[id(x)]


def packed(content: Any, arrays: Sequence[np.ndarray]) -> bytes:
    """Return the bytes of a program."""
    described, raw = [], []
    for x in arrays:
        repeated = x.size > 1 and not any(x.strides)  # one element, many times
        described.append([x.dtype.name, list(x.shape), repeated])
        one = x[(0,) * x.ndim] if repeated else x
        raw.append(np.ascontiguousarray(one, DTYPES[x.dtype.name]).tobytes())
    header = json.dumps({"arrays": described, **content}, allow_nan=False, separators=(",", ":")).encode()
    data = bytearray(_START.pack(MAGIC, VERSION, len(header)) + header)
    for part in raw:
        data += bytes(-len(data) % ALIGN) + part
    return bytes(data) + hashlib.sha256(data).digest()


def unpacked(data: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the header of a stored program and its arrays, which are read-only.

    Raises:
        ValueError: the bytes are no stored program, are not whole, or were altered.
    """
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise ValueError("these bytes are not a program that fgrad.export returned")
    if len(data) < _START.size + DIGEST:
        raise _damaged()
    _, version, length = _START.unpack_from(data)
    if version != VERSION:
        raise ValueError(
            f"the program is stored in version {version} of the format, but this fgrad reads version "
            f"{VERSION} only: load it with the fgrad that exported it, or a newer one, or export it again"
        )
    end = len(data) - DIGEST
    if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:] or _START.size + length > end:
        raise _damaged()
    header = json.loads(
        data[_START.size : _START.size + length].decode(),
        parse_float=_refuse,
        parse_constant=_refuse,
        object_pairs_hook=_once,
    )
    at, arrays = _START.size + length, []
    for name, shape, repeated in header.pop("arrays"):
        at += -at % ALIGN
        dtype = DTYPES[name]
        count = math.prod(checked_shape(shape, dtype))
        count = 1 if demanded(repeated, bool) else count
        if at + count * dtype.itemsize > end:
            raise _damaged()
        x = np.frombuffer(data, dtype, count, at)
        if name == "bool" and x.view(np.uint8).max(initial=0) > 1:
            raise ValueError("a truth value is neither 0 nor 1")
        arrays.append(
            np.broadcast_to(x.astype(x.dtype.newbyteorder("="), copy=False)[0], shape)
            if repeated
            else x.astype(x.dtype.newbyteorder("="), copy=False).reshape(shape)
        )
        at += count * dtype.itemsize
    if at != end:
        raise _damaged()
    return header, arrays


def checked_shape(shape: Any, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return a shape of reasonable size."""
    if (
        not isinstance(shape, list | tuple)
        or any(type(n) is not int or n < 0 for n in shape)
        or len(shape) > 64
    ):
        raise ValueError(f"{shape!r} is no shape")
    if math.prod(n or 1 for n in shape) * dtype.itemsize > LARGEST:
        raise ValueError(f"arrays of shape {shape} are larger than any memory")
    return tuple(shape)


def demanded(x: Any, kind: type) -> Any:
    """Return `x`, which is of type `kind`."""
    if type(x) is not kind:
        raise ValueError(f"{x!r} stands where a {kind.__name__} is expected")
    return x


def _damaged() -> ValueError:
    return ValueError("the stored program is truncated or was altered: its digest does not match")


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"the number {text} does not follow the format")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({k for k, _ in pairs}) != len(pairs):
        raise ValueError("a name occurs twice")
    return dict(pairs)
