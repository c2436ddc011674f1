"""What a program of the wide benchmark is, and the table of all."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Size = tuple[int, ...]
Inputs = Callable[..., tuple[Any, ...]]  # of a generator and the numbers of a size: NumPy arrays


@dataclass(frozen=True)
class Program:
    """A scalar function of a namespace and arrays, which is differentiated in the arguments `wrt`."""

    name: str
    family: str
    function: Callable[..., Any]
    inputs: Inputs
    size: Size
    small: Size
    wrt: tuple[int, ...]
    tolerance: float | None  # of the largest number of an array; None: what the dtype can

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the arrays of real numbers, which the name of a program says if it is float32."""
        return np.dtype("float32" if "float32" in self.name else "float64")

    def arguments(self, *, small: bool = False) -> list[Any]:
        """Return the same arrays in every process."""
        random = np.random.default_rng(zlib.crc32(self.name.encode()))
        arrays = self.inputs(random, *(self.small if small else self.size))
        return [x.astype(self.dtype) if x.dtype == np.float64 else x for x in map(np.asarray, arrays)]


PROGRAMS: dict[str, Program] = {}


def program(
    family: str,
    inputs: Inputs,
    sizes: dict[str, Size],
    small: Size,
    *,
    wrt: tuple[int, ...] = (0,),
    tolerance: float | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated function under the names in `sizes`."""

    def enter(f: Callable[..., Any]) -> Callable[..., Any]:
        for name, size in sizes.items():
            if name in PROGRAMS:
                message = f"two programs are called {name!r}"
                raise ValueError(message)
            PROGRAMS[name] = Program(name, family, f, inputs, size, small, wrt, tolerance)
        return f

    return enter
