"""Where a Jacobian or Hessian has entries: what the pushforward's program makes of the tangent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fgrad.core.aval import Aval
from fgrad.core.program import Program
from fgrad.extend.engine import simplify
from fgrad.sparse.arguments import Arguments
from fgrad.sparse.dependencies import UNKNOWN, dependencies
from fgrad.sparse.rows import none, single, stacked
from fgrad.transforms.calling import Transformed
from fgrad.transforms.forward import jvp
from fgrad.transforms.loops.lowering import lower
from fgrad.transforms.reverse import grad


def gradient(given: Arguments, leaves: Sequence[Any]) -> Callable[..., Any]:
    """Return the gradient of a scalar as a function of those leaves that are differentiated."""

    def scalar(whole: list[Any]) -> Any:
        found = given.outputs(whole)
        if len(found) != 1 or np.shape(found[0]) != ():
            shapes = ", ".join(str(np.shape(y)) for y in found)
            raise TypeError(
                f"{given.title}: the function has to return one real number, not arrays of shapes {shapes}; "
                "sum it, or take the Jacobian of its gradient"
            )
        return found[0]

    slopes: Callable[..., Any] = grad(given.partial(leaves, scalar), tuple(range(len(given.places))))
    return slopes


def tangent_program(given: Arguments, *, order: int) -> tuple[Program, list[int]]:
    """Return the program from leaves and tangents of some to tangents of the results, and their sizes."""
    sizes: list[int] = []

    def pushed(leaves: list[Any], tangents: list[Any]) -> Any:
        fun = given.partial(leaves, given.outputs) if order == 1 else gradient(given, leaves)
        xs = [leaves[k] for k in given.places]
        outs = jvp(fun, xs, tangents)[1]
        sizes[:] = [math.prod(np.shape(y)) for y in outs]
        return outs

    avals = [given.avals[k] for k in given.places]
    return given.staged(pushed, given.abstract(), [Aval(a.shape, a.dtype) for a in avals]), sizes


def found(given: Arguments, *, order: int, local: bool) -> Any:
    """Return the pattern of the Jacobian, or with `order` 2 of the Hessian, as csr_array of truths."""
    program, sizes = tangent_program(given, order=order)
    n = given.count
    program = lower(program, simplify)
    ends = np.cumsum([0, *given.sizes])
    sets = [single(a + np.arange(m), m, n) for a, m in zip(ends[:-1], given.sizes, strict=True)]
    values = given.values(local=local)
    rows = dependencies(program, [*[None] * len(values), *sets], [*values, *[UNKNOWN] * len(sets)], n)
    made = stacked([none(m, n) if d is None else d for m, d in zip(sizes, rows, strict=True)])
    if order == 2:
        made = made + made.T.tocsr()
    made = sparse.csr_array(made)
    made.sort_indices()
    return made


class Pattern(Transformed):
    """The function that finds the pattern of derivatives."""

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Return the pattern for arguments like these."""
        order, local = self.options["order"], self.options["local"]
        title = "sparse.pattern"
        return found(
            Arguments(self.fun, args, kwargs, self.options["argnums"], title), order=order, local=local
        )


def pattern(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, *, local: bool = False, order: int = 1
) -> Callable[..., Any]:
    """Return the function that finds where the derivatives of `fun` may have entries other than zero.

    Nothing is computed: the program of the derivative is gone through once, and for each element of each of
    its values the set of inputs is kept on which it depends. Elements that slices, indices, sums, products
    and loops connect are followed one by one; an operation that says nothing of itself connects everything.

    Args:
        fun: takes and returns pytrees of arrays; what is returned are real floats.
        argnums: which positional argument, or arguments.
        local: whether the pattern is to hold at these values alone: branches as they are taken, choices of
            `where` as they are made, and no entries where a factor is zero. Otherwise it holds for all
            values of floats. Integers and truths among the arguments are taken as they are, since they name
            elements: the pattern is one for these.
        order: 1 for the Jacobian, 2 for the Hessian of a scalar.

    Returns:
        A function of the same arguments that returns a `scipy.sparse.csr_array` of truths. Its rows are the
        elements of the results, its columns those of the arguments, leaf by leaf, each in C order. No entry
        that may be other than zero is missing.

    Raises:
        TypeError: there is nothing to differentiate, or what is differentiated is not a real float.
        MemoryError: the pattern would have too many entries.

    Example:
        >>> from fgrad import sparse
        >>> sparse.pattern(lambda x: x[1:] * np.sin(x[:-1]))(np.ones(4)).toarray().astype(int)
        array([[1, 1, 0, 0],
               [0, 1, 1, 0],
               [0, 0, 1, 1]])
    """
    if order not in {1, 2}:
        raise ValueError(f"order must be 1 (Jacobian) or 2 (Hessian), not {order!r}")
    return Pattern(fun, argnums=argnums, local=local, order=order)
