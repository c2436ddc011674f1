"""What the text of a native kernel may name: typed pointers to buffers, helpers, and their twins in Python.

`float64_at(slots, args, 3)` is a pointer to the buffer whose number is `args[3]`: its elements are `x[i]`, and
`i` is best unsigned. In interpreted kernels it is the flat array `slots[args[3]]`. There is one such function
for each dtype of `DTYPES`. Numba is imported when `compiled_names` is called, not before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import mathlib

DTYPES = {
    # dtype       as Numba sees it
    "bool": "boolean",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "float16": "uint16",  # the bits: there is no arithmetic
    "float32": "float32",
    "float64": "float64",
    "complex64": "complex64",
    "complex128": "complex128",
}


@cache
def interpreted_names() -> dict[str, Any]:
    """Return the names for kernels that Python runs."""
    names: dict[str, Any] = {"np": np, "math": mathlib.interpreted, "helper": _same}
    return names | {f"{name}_at": _reader(np.dtype(name)) for name in DTYPES}


@cache
def compiled_names() -> dict[str, Any]:
    """Return the names for kernels that Numba compiles."""
    from numba import njit, types  # noqa: PLC0415 -- late: it takes longer to import than the rest of fgrad

    names: dict[str, Any] = {"np": np, "math": math, "types": types}
    names["helper"] = njit(error_model="numpy", inline="always", fastmath={"contract"})
    return names | {f"{name}_at": _pointer(getattr(types, kind)) for name, kind in DTYPES.items()}


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _reader(dtype: np.dtype) -> Callable[..., np.ndarray]:
    dtype = np.dtype(np.uint16) if dtype == np.float16 else dtype

    def read(slots: Any, args: Any, k: int) -> np.ndarray:
        return slots[args[k]].view(dtype)  # type: ignore[no-any-return]

    return read


def _pointer(kind: Any) -> Any:
    """Return the intrinsic that gives the address of a buffer as a pointer to elements of `kind`."""
    from numba import types  # noqa: PLC0415 -- late, as above
    from numba.extending import intrinsic  # noqa: PLC0415

    pointer = types.CPointer(kind)

    def at(typing: Any, slots: Any, args: Any, k: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            slots, args, k = values
            number = builder.load(builder.gep(args, [k]))
            return builder.inttoptr(builder.load(builder.gep(slots, [number])), context.get_data_type(pointer))

        return pointer(slots, args, types.intp), emit

    return intrinsic(at)
