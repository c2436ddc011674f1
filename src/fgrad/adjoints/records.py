"""Records as arguments of kernels: structured arrays and `structref`s, taken apart and put together again.

They hold no Tensors, so that nothing is differentiated with respect to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.experimental.structref import StructRefProxy


@dataclass(frozen=True)
class Records:
    """What tells structured arrays of one kind from others; called with their fields, it gives one."""

    dtype: np.dtype[Any]
    ndim: int

    @property
    def type(self) -> Any:
        """Numba's type."""
        record = numba.from_dtype(self.dtype)
        return types.Array(record, self.ndim, "C") if self.ndim else record

    @property
    def fields(self) -> list[str]:
        """The names of the fields, in Numba's order."""
        return [name for name, _ in numba.from_dtype(self.dtype).members]

    def __call__(self, *fields: Any) -> Any:
        """Return a record, or an array of them."""
        shape = np.shape(fields[0])[: self.ndim]
        made = np.empty(shape, self.dtype)
        for name, x in zip(self.fields, fields, strict=True):
            made[name] = x
        return made if self.ndim else made[()]


@dataclass(frozen=True)
class Struct:
    """What tells structrefs of one kind from others; called with their fields, it gives one."""

    kind: Any
    type: Any

    def __call__(self, *fields: Any) -> Any:
        """Return a structref."""
        return StructRefProxy.__new__(self.kind, *fields)


def taken_apart(x: Any) -> tuple[Records | Struct, Sequence[Any]] | None:
    """Return the kind and the fields of a record, of an array of records, or of a structref."""
    if isinstance(x, np.ndarray | np.void) and x.dtype.names is not None:
        kind = Records(x.dtype, x.ndim)
        return kind, [np.ascontiguousarray(x[n]) if x.ndim else x[n] for n in kind.fields]
    if isinstance(x, StructRefProxy):
        ty = numba.typeof(x)
        return Struct(type(x), ty), [_reader(name)(x) for name, _ in ty._fields]
    return None


@cache
def _reader(name: str) -> Any:
    """Return a kernel that reads a field."""
    return numba.njit(eval(f"lambda x: x.{name}"))  # noqa: S307 -- Numba has no function for it
