"""Arrays as small images, written by Python alone (PNG, W3C Recommendation of 2003)."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

POSITIVE, NEGATIVE, NAN = (224, 96, 20), (40, 108, 224), (208, 32, 160)
MOST = 96  # pixels along an axis; longer ones are averaged


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """Return an image of shape (height, width, 4), uint8: red, green, blue, opacity."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels, np.uint8))
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def uri(pixels: np.ndarray[Any, Any]) -> str:
    """Return an image as the address that holds it."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


def colours(x: np.ndarray[Any, Any], most: float | None = None) -> np.ndarray[Any, Any]:
    """Return a colour for each number: orange if positive, blue if negative, the fuller the larger.

    Zero is transparent, so it looks right on light and dark paper. NaN is magenta. `most` is the number that
    is full; None: the largest.
    """
    x = x.astype(float)
    most = most or largest(x)
    share = np.clip(np.abs(np.nan_to_num(x / most, nan=0.0, posinf=1.0, neginf=-1.0)), 0.0, 1.0)
    made = np.empty((*x.shape, 4), np.uint8)
    made[...] = (*POSITIVE, 0)
    made[x < 0] = (*NEGATIVE, 0)
    made[..., 3] = np.round(255 * share)
    made[np.isnan(x)] = (*NAN, 255)
    return made


def largest(x: np.ndarray[Any, Any]) -> float:
    """Return the largest finite magnitude, 1 where there is none but zero."""
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def plane(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return real numbers of at most `MOST` x `MOST`: means of blocks, magnitudes of complex numbers."""
    x = np.abs(x) if x.dtype.kind == "c" else x
    x = x.astype(float)
    for axis in range(x.ndim):
        n = x.shape[axis]
        if n > MOST:
            starts = np.linspace(0, n, MOST, endpoint=False).astype(int)
            with np.errstate(all="ignore"):
                widths = np.diff([*starts, n])
                shape = [-1 if a == axis else 1 for a in range(x.ndim)]
                x = np.add.reduceat(x, starts, axis=axis) / widths.reshape(shape)
    return x
