"""Staging buffers: arrays are sent from a device if MPI can read it, and else from host memory.

All that is known of a device array is `__cuda_array_interface__`, NumPy's functions by NumPy's protocols, and
`get()`, which copies it to the host, as CuPy's arrays have them.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

# what tells Open MPI, MPICH, MVAPICH and Cray MPICH to take device memory; FGRAD_MPI_CUDA=1 says it of others
_SWITCHES = (
    "FGRAD_MPI_CUDA",
    "OMPI_MCA_opal_cuda_support",
    "MPIR_CVAR_ENABLE_GPU",
    "MV2_USE_CUDA",
    "MPICH_GPU_SUPPORT_ENABLED",
)


def is_cuda_aware() -> bool:
    """Return whether MPI was told to take device memory."""
    return any(os.environ.get(name, "").lower() in {"1", "true", "yes"} for name in _SWITCHES)


def is_on_device(x: Any) -> bool:
    """Return whether an array lies on a CUDA device."""
    return not isinstance(x, np.ndarray) and hasattr(x, "__cuda_array_interface__")


def sendable(x: Any) -> Any:
    """Return the elements of an array in C order, contiguous, where MPI can read them: maybe `x` itself."""
    if is_on_device(x):
        if not is_cuda_aware():
            return np.ascontiguousarray(x.get()).reshape(-1)
        flat = x.reshape(-1)
        _synchronize(x)
        return flat
    return np.ascontiguousarray(x).reshape(-1)


def owned(x: Any) -> Any:
    """Return the same in memory that nobody else uses."""
    flat = sendable(x)
    return flat if is_on_device(x) and not is_on_device(flat) else flat.copy()


def joined(arrays: list[Any], out: Any) -> Any:
    """Return all elements of some arrays of one dtype and place, in a row; in `out` if that fits."""
    parts = [sendable(x) for x in arrays]
    count = sum(p.size for p in parts)
    if out is None or (out.size, out.dtype, type(out)) != (count, parts[0].dtype, type(parts[0])):
        out = np.empty_like(parts[0], shape=(count,))
    at = 0
    for p in parts:
        out[at : at + p.size] = p
        at += p.size
    if is_on_device(out):
        _synchronize(out)
    return out


def delivered(flat: Any, like: Any, shape: tuple[int, ...]) -> Any:
    """Return what arrived as an array where `like` lies."""
    x = flat.reshape(shape)
    return np.asarray(x, like=like) if is_on_device(like) and not is_on_device(x) else x


def _synchronize(x: Any) -> None:
    """Wait until the device has computed `x`: MPI knows nothing of streams."""
    library = sys.modules[type(x).__module__.partition(".")[0]]
    library.cuda.get_current_stream().synchronize()
