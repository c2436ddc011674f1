"""What is known of a value without computing it: its shape and dtype."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]


class Aval(NamedTuple):
    """The shape and dtype of a value that may not exist (an abstract value)."""

    shape: Shape
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        n = 1
        for length in self.shape:
            n *= length
        return n

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


def aval_of(x: Any) -> Aval:
    """Return the aval of anything that has a shape and dtype, or that NumPy can make an array of."""
    try:
        return Aval(x.shape, x.dtype)
    except AttributeError:
        x = np.asarray(x)
        return Aval(x.shape, x.dtype)
