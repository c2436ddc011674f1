"""The bytes of a stored program: a header in JSON, raw arrays, and a digest of both (docs/export.md)."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from fgrad.core.stored import LARGEST

MAGIC = b"\x89fgrad\r\n"  # no text, and not the same after a transfer as text
VERSIONS = (1, 2)  # that can be read; the last one is written
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
READING = 64  # bytes of memory, at most, for each byte of a header that is read


class Arrays:
    """Collects arrays, each once."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self.found: list[np.ndarray[Any, Any]] = []

    def place(self, x: np.ndarray[Any, Any]) -> int:
        """Return the number of an array."""
        if id(x) not in self._places:
            self._places[id(x)] = len(self.found)
            self.found.append(x)
        return self._places[id(x)]


def packed(content: Any, arrays: Sequence[np.ndarray[Any, Any]], version: int = VERSIONS[-1]) -> bytes:
    """Return the bytes of a program."""
    described, raw = [], []
    for x in arrays:
        repeated = x.size > 1 and not any(x.strides)  # one element, many times
        described.append([x.dtype.name, list(x.shape), repeated])
        one = x[(0,) * x.ndim] if repeated else x
        raw.append(np.ascontiguousarray(one, DTYPES[x.dtype.name]).tobytes())
    header = json.dumps({"arrays": described, **content}, allow_nan=False, separators=(",", ":")).encode()
    data = bytearray(_START.pack(MAGIC, version, len(header)) + header)
    for part in raw:
        data += bytes(-len(data) % ALIGN) + part
    return bytes(data) + hashlib.sha256(data).digest()


def unpacked(
    data: bytes, max_bytes: float = math.inf
) -> tuple[dict[str, Any], list[np.ndarray[Any, Any]], int]:
    """Return the header of a stored program, its arrays, which are read-only, and the version of its format.

    Raises:
        ValueError: the bytes are no stored program, are not whole, were altered, or take more memory.
    """
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise ValueError("these bytes are not a program that fgrad.export returned")
    if len(data) < _START.size + DIGEST:
        raise _damaged()
    _, version, length = _START.unpack_from(data)
    if version not in VERSIONS:
        raise ValueError(
            f"the program is stored in version {version} of the format, but this fgrad reads "
            f"{' and '.join(map(str, VERSIONS))} only: load it with the fgrad that exported it, or a newer "
            "one, or export it again"
        )
    end = len(data) - DIGEST
    if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:] or _START.size + length > end:
        raise _damaged()
    if READING * length > max_bytes:
        raise too_large("reading the header", READING * length, max_bytes)
    try:
        header = json.loads(
            data[_START.size : _START.size + length].decode(),
            parse_float=_refuse,
            parse_constant=_refuse,
            object_pairs_hook=_once,
        )
        described = demanded(demanded(header, dict).pop("arrays", None), list)
        return header, _arrays(described, data, _START.size + length, end), version
    except ValueError:
        raise
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"the header is invalid: {type(error).__name__}: {error}") from error


def _arrays(described: list[Any], data: bytes, at: int, end: int) -> list[np.ndarray[Any, Any]]:
    """Return the arrays that lie one after the other from byte `at` to `end`."""
    arrays = []
    for name, shape, repeated in described:
        at += -at % ALIGN
        dtype = named_dtype(name)
        count = math.prod(checked_shape(shape, dtype))
        if demanded(repeated, bool) and count < 2:
            raise ValueError("an array of less than two elements repeats one")
        count = 1 if repeated else count
        if at + count * dtype.itemsize > end:
            raise _damaged()
        x = np.frombuffer(data, dtype, count, at)
        if name == "bool" and x.view(np.uint8).max(initial=0) > 1:
            raise ValueError("a truth value is neither 0 nor 1")
        x = x.astype(x.dtype.newbyteorder("="), copy=False)
        arrays.append(np.broadcast_to(x[0], shape) if repeated else x.reshape(shape))
        at += count * dtype.itemsize
    if at != end:
        raise _damaged()
    return arrays


def named_dtype(name: Any) -> np.dtype[Any]:
    """Return a dtype, as it lies in the file."""
    if demanded(name, str) not in DTYPES:
        raise ValueError(f"the format has no dtype {shortened(name)}")
    return DTYPES[name]


def too_large(what: str, wanted: float, max_bytes: float) -> ValueError:
    """Return the error for what takes more memory than is allowed."""
    return ValueError(
        f"{what} takes up to {wanted:,.0f} bytes, more than the {max_bytes:,.0f} of max_bytes; if you trust "
        "the file, give a larger max_bytes, or None for any number"
    )


def shortened(x: Any) -> str:
    """Return something of a file for a message."""
    text = repr(x) if not isinstance(x, dict | list | tuple) or len(x) < 20 else f"a {type(x).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def checked_shape(shape: Any, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return a shape of reasonable size."""
    if (
        not isinstance(shape, list | tuple)
        or any(type(n) is not int or n < 0 for n in shape)
        or len(shape) > 64
    ):
        raise ValueError(f"{shortened(shape)} is no shape")
    if math.prod(n or 1 for n in shape) * dtype.itemsize > LARGEST:
        raise ValueError(f"arrays of shape {shortened(shape)} are larger than any memory")
    return tuple(shape)


def demanded(x: Any, kind: type) -> Any:
    """Return `x`, which is of type `kind`."""
    if type(x) is not kind:
        raise ValueError(f"{shortened(x)} stands where a {kind.__name__} is expected")
    return x


def checked_text(x: Any) -> str:
    """Return text that can be shown, and be part of a name."""
    if not demanded(x, str).isprintable() or len(x) > 1000:
        raise ValueError(f"{shortened(x)} stands where a name is expected")
    return x  # type: ignore[no-any-return]


def _damaged() -> ValueError:
    return ValueError("the stored program is truncated or was altered: its digest does not match")


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"the number {text} does not follow the format")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({k for k, _ in pairs}) != len(pairs):
        raise ValueError("a name occurs twice")
    return dict(pairs)
