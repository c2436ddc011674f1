"""Pytrees as the vectors of float64 that SciPy's solvers work on, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad import tree
from fgrad.core.aval import Aval, aval_of, with_dtype
from fgrad.core.tensor import Tensor


class Vector:
    """The leaves of a pytree in one vector; a complex leaf as its real and its imaginary part.

    Args:
        example: pytree of numbers and arrays.
        what: what an error calls it.

    Raises:
        TypeError: a leaf holds no numbers.
    """

    structure: Any

    def __init__(self, example: Any, what: str) -> None:
        leaves, self.structure = tree.flatten(example)
        self.what = what
        self.avals: list[Aval] = []
        for leaf in leaves:
            known = leaf if hasattr(leaf, "dtype") or isinstance(leaf, list) else np.asarray(leaf)
            aval = aval_of(known)
            if aval.dtype.kind not in "fciub":
                raise TypeError(f"{what} consists of numbers, but {leaf!r} has dtype {aval.dtype}")
            self.avals.append(aval)
        self._places: list[tuple[int, int]] = []
        start = 0
        for a in self.avals:
            stop = start + math.prod(a.shape) * (2 if a.dtype.kind == "c" else 1)
            self._places.append((start, stop))
            start = stop
        self.size = start

    @property
    def aval(self) -> Aval:
        """The shape and dtype of the vector."""
        return Aval((self.size,), np.dtype(np.float64))

    def ravel(self, x: Any) -> Any:
        """Return a pytree like the example as a vector.

        Raises:
            TypeError: another structure, or complex numbers where the example has real ones.
            ValueError: other shapes.
        """
        leaves, given = tree.flatten(x)
        if given != self.structure:
            raise TypeError(f"{self.what} has the structure {self.structure}, not {given}")
        parts = []
        for i, (leaf, aval) in enumerate(zip(leaves, self.avals, strict=True)):
            value = with_dtype(leaf)
            if value.shape != aval.shape:
                where = f" of leaf {i}" if len(leaves) > 1 else ""
                raise ValueError(f"{self.what}: the shape{where} is {aval.shape}, not {value.shape}")
            if aval.dtype.kind == "c":
                parts += [fnp.ravel(fnp.real(value)), fnp.ravel(fnp.imag(value))]
            elif value.dtype.kind == "c":
                raise TypeError(f"{self.what} is real, but complex numbers came; start from complex ones")
            else:
                parts.append(fnp.ravel(value))
        if len(parts) == 1:
            return as_float(parts[0])
        return as_float(fnp.concatenate(parts)) if parts else np.zeros(0)

    def unravel(self, vector: Any) -> Any:
        """Return a vector as a pytree like the example, of double precision; further axes stay last."""
        return tree.unflatten(self.structure, self._leaves(vector))

    def restore(self, vector: Any) -> Any:
        """Return a vector as a pytree like the example, its floating dtypes too; further axes stay last."""
        kept = [
            leaf if a.dtype.kind not in "fc" or leaf.dtype == a.dtype else leaf.astype(a.dtype)
            for leaf, a in zip(self._leaves(vector), self.avals, strict=True)
        ]
        return tree.unflatten(self.structure, [x[()] if isinstance(x, np.ndarray) else x for x in kept])

    def _leaves(self, vector: Any) -> list[Any]:
        leaves = []
        for (start, stop), aval in zip(self._places, self.avals, strict=True):
            part = vector if stop - start == self.size else vector[start:stop]
            if aval.dtype.kind == "c":
                half = (stop - start) // 2
                part = part[:half] + 1j * part[half:]
            shape = (*aval.shape, *vector.shape[1:])
            leaves.append(part if part.shape == shape else fnp.reshape(part, shape))
        return leaves


def listed(x: Any) -> Any:
    """Return lists and tuples of numbers as the array that SciPy makes of them; any other pytree as it is."""
    return fnp.array(x) if type(x) in {list, tuple} and _are_numbers(x) else x


def _are_numbers(x: Any) -> bool:
    if type(x) in {list, tuple}:
        return all(map(_are_numbers, x))
    return isinstance(x, int | float | complex | np.generic) or (
        isinstance(x, Tensor | np.ndarray) and x.ndim == 0
    )


def as_float(x: Any) -> Any:
    """Return an array or Tensor in double precision."""
    return x if x.dtype == np.float64 else x.astype(np.float64)


def array(x: Any) -> Any:
    """Return a result of a user's function as SciPy takes it: an array of float64 that it may write to.

    Raises:
        TypeError: it is being differentiated, mapped or traced.
    """
    return np.array(x, np.float64)


def flat_values(out: Any, what: str) -> Any:
    """Return everything that a function returned as one vector; complex numbers as in `Vector`."""
    out = listed(out)
    if isinstance(out, Tensor | np.ndarray) and out.ndim == 1 and out.dtype == np.float64:
        return out
    return Vector(out, what).ravel(out)
