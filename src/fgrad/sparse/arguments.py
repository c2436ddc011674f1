"""The arguments of one call: which numbers are differentiated, in a row, and what a structure depends on."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.core.aval import Aval
from fgrad.core.program import Program
from fgrad.core.tensor import Tensor, is_traced
from fgrad.sparse.dependencies import UNKNOWN
from fgrad.transforms.calling import bound, has_tensor, name_of, parameter, plain, positions
from fgrad.transforms.stage import MakeGraph

_NUMBERS = (bool, int, float, complex)


class Arguments:
    """The leaves of the arguments, and what is known of them.

    Attributes:
        leaves: of all arguments.
        places: which leaves are differentiated.
        sizes: how many numbers there are in each of those.
        transformation: what the user called, for messages.
        key: what calls of one structure have in common: shapes, dtypes, and the values of integers.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        argnums: int | Sequence[int],
        title: str,
    ) -> None:
        self.fun: Callable[..., Any] = fun
        self.transformation: str = title
        self.title: str = f"{title} of {name_of(fun)}"
        args, kwargs = bound(fun, args, kwargs)
        if not args:
            raise TypeError(
                f"{self.title}: there is no argument to differentiate with respect to; call it with the "
                "arguments of the function, by position"
            )
        where = positions(argnums, len(args), fun)
        self.leaves: list[Any]
        self.structure: Any
        self.leaves, self.structure = tree.flatten((args, kwargs))
        counts = [len(tree.leaves(a)) for a in args]
        starts = np.cumsum([0, *counts])
        self.places: list[int] = [k for i in where for k in range(starts[i], starts[i + 1])]
        self.avals: list[Aval] = [self._aval(x) for x in self.leaves]
        owner = [i for i, n in enumerate(counts) for _ in range(n)]
        for k in self.places:
            if self.avals[k].dtype.kind != "f":
                raise TypeError(
                    f"{self.title}: {parameter(fun, owner[k])} is of dtype {self.avals[k].dtype}, but only "
                    "real floats are differentiated; convert it, or leave it out of argnums"
                )
        self.sizes: list[int] = [math.prod(self.avals[k].shape) for k in self.places]
        self.count: int = sum(self.sizes)
        self.as_numpy: bool = not has_tensor(self.leaves)
        self.traced: bool = any(is_traced(x) for x in self.leaves)
        given = zip(self.leaves, self.avals, strict=True)
        kinds = tuple([(a.shape, a.dtype, _kind(x), _print(x, a)) for x, a in given])
        self.key: Any = (self.structure, kinds)

    def _aval(self, x: Any) -> Aval:
        if hasattr(x, "shape") and hasattr(x, "dtype"):
            return Aval(tuple(x.shape), np.dtype(x.dtype))
        if type(x) in _NUMBERS:
            return Aval((), np.dtype(type(x)))
        raise TypeError(
            f"{self.title}: {x!r} of type {type(x).__name__} is not an array of numbers; let the function "
            "read it from outside, or bind it with functools.partial"
        )

    def emptied(self) -> Arguments:
        """Return the same with leaves that stand for any of their kind, to be kept for other calls."""
        found = copy.copy(self)
        found.leaves = []
        for x, a in self._pairs():
            value = _value(x) if a.dtype.kind in "iub" else UNKNOWN
            found.leaves.append(x if type(x) in _NUMBERS else a if value is UNKNOWN else value)
        return found

    def holding(self, leaves: Sequence[Any]) -> Arguments:
        """Return the same with other leaves: plain arrays of these shapes and dtypes."""
        found = copy.copy(self)
        found.leaves, found.as_numpy, found.traced = list(leaves), True, False
        return found

    def values(self, *, local: bool) -> list[Any]:
        """Return the leaves whose values the structure depends on: integers, and all where it is `local`."""
        known = [_value(x) if local or a.dtype.kind in "iub" else UNKNOWN for x, a in self._pairs()]
        if local and any(v is UNKNOWN for v in known):
            raise TypeError(
                f"{self.title}: a pattern at certain values (local=True) looks at them, so it is not part of "
                "another transformation; find it outside"
            )
        return known

    def abstract(self) -> list[Any]:
        """Return what stands for the leaves where values do not matter."""
        return [x if type(x) in _NUMBERS else a for x, a in self._pairs()]

    def _pairs(self) -> list[tuple[Any, Aval]]:
        return list(zip(self.leaves, self.avals, strict=True))

    def call(self, leaves: Sequence[Any]) -> Any:
        """Return what the function returns for these leaves."""
        args, kwargs = tree.unflatten(self.structure, leaves)
        return self.fun(*args, **kwargs)

    def outputs(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the results for these leaves, which are real floats.

        Raises:
            TypeError: they are not.
        """
        found = tree.leaves(self.call(leaves))
        for y in found:
            dtype = getattr(y, "dtype", None) or np.result_type(type(y))
            if dtype.kind != "f":
                raise TypeError(
                    f"{self.title}: the function returns {dtype}, but only real floats have derivatives; "
                    "return real and imaginary parts apart, and leave out what is not differentiated"
                )
        if not found:
            raise TypeError(
                f"{self.title}: the function returns no array, so there is nothing to differentiate"
            )
        return found

    def staged(self, run: Callable[..., Any], *args: Any) -> Program:
        """Return the program of `run`, which calls the function; messages name what the user called."""
        call = functools.partial(run)
        call.__qualname__ = name_of(self.fun)  # type: ignore[attr-defined]
        made: Program = MakeGraph(call, title=self.transformation)(*args)
        return made

    def partial(self, leaves: Sequence[Any], run: Callable[[list[Any]], Any]) -> Callable[..., Any]:
        """Return `run` as a function of those leaves alone that are differentiated."""

        def call(*xs: Any) -> Any:
            whole = list(leaves)
            for k, x in zip(self.places, xs, strict=True):
                whole[k] = x
            return run(whole)

        return call


def _kind(x: Any) -> type | None:
    return type(x) if type(x) in _NUMBERS else None


def _value(x: Any) -> Any:
    x = plain(x)
    if isinstance(x, Tensor):
        x = x._value
    return np.asarray(x) if isinstance(x, np.ndarray | np.generic | bool | int | float | complex) else UNKNOWN


def _print(x: Any, a: Aval) -> bytes | None:
    """Return the bytes of integers and truths, on which patterns may depend."""
    if a.dtype.kind not in "iub":
        return None
    value = _value(x)
    return None if value is UNKNOWN else value.tobytes()
