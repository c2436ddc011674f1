"""What kernels of the CPU and of devices have in common: elements of roots, computed, joined and written.

What becomes of the lines is said by `fgrad.compiler.emit`, of loops, and `fgrad.compiler.device`, of grids.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.compiler.elements import Elements, Indices, reduction_of
from fgrad.compiler.fuse import Root
from fgrad.compiler.index import linear, reach
from fgrad.compiler.loop_nests import Builder, Line, Place, Value
from fgrad.errors import BrokenContractError
from fgrad.expr.atoms import ATOMS
from fgrad.kernels.body import FLOAT64, Body


class Writer:
    """Writes the lines that compute roots.

    Args:
        loops: their lengths.
        makers: the equation of each variable.
        stored: variables that are read from memory, where the kernel does not compute them just then.
        kept: of the roots those that are written to memory.
        constants: the arrays of variables that are constant.
        floats: dtypes in which floats are computed.
    """

    saturates = False  # see `Elements`
    lanes = False  # whether floats may be joined in any order, as lanes of vectors are

    def __init__(
        self,
        loops: Sequence[int],
        makers: Any,
        stored: Any,
        kept: Any,
        constants: Any,
        floats: Collection[np.dtype[Any]] = (),
    ) -> None:
        self.floats = floats
        self.kept: Any = kept
        self.builder: Builder = Builder(loops)
        mixed = len(floats) > 1
        self.elements: Elements = Elements(
            makers,
            stored,
            self.builder,
            constants,
            codes=self.codes,
            mixed=mixed,
            saturates=self.saturates,
        )
        self.stores: dict[Any, None] = {}

    def codes(self, dtype: np.dtype[Any]) -> Mapping[str, str]:
        """Return the code of atoms that are not computed as `ATOMS` has them, for a dtype of floats."""
        return {}

    def store(self, root: Root, at: Indices, value: Value) -> None:
        """Write an element of a root to memory if that is asked for; whoever else needs it finds it."""
        out = root.out_at(at)
        self.builder.chain[value.depth].memo.setdefault((root.var, out), value)
        if root.var in self.kept:
            self.stores[root.var] = None
            self.builder.store(Place(root.var, linear(out, root.var.aval.shape)), value)

    def write(self, body: Body, given: Sequence[Value], dtype: np.dtype[Any], outs: Sequence[Place]) -> None:
        """Write each result of scalar expressions to its place."""
        for place, value in zip(outs, self.elements.expressions(body, given, dtype), strict=True):
            self.stores[place.buffer] = None
            self.builder.store(place, self.elements.convert(value, place.buffer.aval.dtype))

    def fold(self, root: Root, total: str, value: Value) -> str:
        """Join an element to a total; return the line that starts it."""
        self.builder.chain[-1].body.append(
            (f"{total} = {joined(root, total, value.name, lanes=self.lanes)}",)
        )
        return f"{total} = {self.builder.constant(identity(root))}"


def joined(root: Root, x: str, y: str, *, lanes: bool = False) -> str:
    """Return the code that joins two scalars of a reduction; `lanes`: in any order."""
    reduction = reduction_of(root.equation.name)
    if root.var.aval.dtype.kind != "f":
        return reduction.integers.format(x, y)
    return (reduction.floats if lanes else ATOMS[reduction.join].code).format(x, y)


def identity(root: Root) -> str:
    """Return the code of the number that changes nothing in a reduction."""
    value, dtype = reduction_of(root.equation.name).identity, root.var.aval.dtype
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        return f"{dtype.name}({int(min(max(value, limits.min), limits.max))})"
    return f"{dtype.name}({value!r})" if math.isfinite(value) else f"{dtype.name}({str(value)!r})"


def dtype_of_helpers(floats: Collection[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the dtype of the helper functions of a kernel that computes in these."""
    return next(iter(floats)) if len(floats) == 1 else FLOAT64


def hold(line: Line, sizes: Mapping[int, int]) -> None:
    """Raise unless all that a line reads and writes, if no condition stands before it, lies in its buffer.

    Raises:
        BrokenContractError: a place is outside.
    """
    if any(isinstance(p, str) and ") if " in p for p in line):
        return
    for place in line:
        if not isinstance(place, Place):
            continue
        part = getattr(place.buffer, "root", None)  # a part of a reduction
        count = place.buffer.count if part else place.buffer.aval.size
        least, most = reach(place.at, sizes)
        if least >= 0 and most < count:
            continue
        name = part.equation.name if part else str(place.buffer)
        raise BrokenContractError(
            f"a compiled loop would go from element {least} to {most} of the {count} of {name}. The "
            "operands and parameters of an operation do not match"
        )
