"""Where rows meet compiled kernels: large arrays only, so that a small gradient never waits for Numba."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from fgrad.core.primitive import Rule
from fgrad.expr.node import Expr

LARGE = 32768  # elements: more are worth a compiled loop, and the import of Numba


def backend(name: str = "cpu") -> Any:
    """Return a module of `fgrad.kernels`, loaded late: few programs that differentiate need it."""
    return import_module(f"fgrad.kernels.{name}")


class Fused:
    """Scalar expressions of whole arrays: by one compiled loop where arrays are large, else by `slow`.

    It returns what `slow` does, which is a tuple where there are several results or a None among them.
    """

    __slots__ = ("_kernel", "_params", "_results", "slow")

    slow: Rule

    def __init__(self, params: Sequence[Expr], results: Sequence[Expr | None], slow: Rule) -> None:
        self._params, self._results, self.slow = tuple(params), tuple(results), slow
        self._kernel: Rule | None = None

    def __call__(self, *operands: Any) -> Any:
        """Return the results for `operands`."""
        first = operands[0]
        if first.__class__ is not np.ndarray or first.size < LARGE or not one_dtype(first.dtype, operands):
            return self.slow(*operands)
        if self._kernel is None:
            self._kernel = backend().elementwise(
                self._params, tuple(r for r in self._results if r is not None)
            )
        return self._kernel(*operands)


class FusedPull(Fused):
    """The same as reverse step: a tuple with one cotangent per tracked argument."""

    __slots__ = ()

    def __call__(self, *operands: Any) -> Any:
        """Return the cotangents."""
        found = super().__call__(*operands)
        if found.__class__ is not np.ndarray and None not in self._results:
            return found
        several = iter(found if found.__class__ is tuple else (found,))
        return tuple([None if r is None else next(several) for r in self._results])


def one_dtype(dtype: np.dtype[Any], operands: Sequence[Any]) -> bool:
    """Return whether kernels compute in `dtype`, and `operands` are such arrays and Python's numbers."""
    if dtype.char not in "fd":
        return False
    return all(a.__class__ is float or getattr(a, "dtype", None) == dtype for a in operands)
