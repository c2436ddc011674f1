"""`scan` with JAX's signature: a plain loop if values are known, else one operation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from fgrad import tree
from fgrad.core.aval import Aval, aval_of, with_dtype
from fgrad.core.control_flow import Scan, avals_out
from fgrad.core.dispatch import bind
from fgrad.core.tensor import wrap
from fgrad.lax.bodies import fitting, promoted
from fgrad.lax.checkpointing import scan_in_parts
from fgrad.lax.trees import Carry, pair, stack
from fgrad.transforms.calling import has_tensor, name_of, own
from fgrad.transforms.stage import staged, staging, steady, weakened

Fun = Callable[..., Any]
C = TypeVar("C")  # a carry


def scan(
    f: Callable[[C, Any], tuple[C, Any]],
    init: C,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    checkpoint: int | bool | None = None,
) -> tuple[C, Any]:
    """Return the carry and the stacked results of `carry, y = f(carry, x)` along the first axis of `xs`.

    Args:
        f: takes the carry and one element of `xs`, and returns the next carry, of the same structure, shapes
            and dtypes, and a result.
        init: the first carry, a pytree; Python numbers take the dtype that they get in `f`.
        xs: pytree of arrays of one length, or None.
        length: the number of steps; needed where `xs` has no leaves.
        reverse: whether to go from the last element to the first; results keep the places of their elements.
        unroll: accepted for JAX's sake; changes nothing.
        checkpoint: how many carries to keep for the gradient; the others are recomputed from them, with the
            fewest steps possible. True keeps about 2 log2(length). None keeps the residuals of every step.

    Returns:
        `(carry, ys)`: the last carry, like `init`, and the results, with a first axis for the steps.

    Raises:
        TypeError: `f` does not return a pair, or the carry changes its structure, shape or dtype.
        ValueError: lengths differ, or there is none.

    Derivative:
        That of the loop, of every order, by reverse and forward mode.

    Source:
        Griewank & Walther (2000), Algorithm 799, for `checkpoint`.

    Example:
        >>> total, sums = scan(lambda c, x: (c + x, c + x), 0.0, np.array([1.0, 2.0, 3.0]))
        >>> sums
        array([1., 3., 6.])
    """
    leaves, structure = tree.flatten(xs)
    leaves = list(map(with_dtype, leaves))
    n = common_length(leaves, length)
    if staging():
        return _staged_scan(f, init, leaves, structure, n, reverse=reverse, checkpoint=checkpoint)
    order = range(n - 1, -1, -1) if reverse else range(n)
    if checkpoint is not None and checkpoint is not False and n:
        return scan_in_parts(f, init, leaves, structure, order, checkpoint)
    if n == 0:
        return own(init), _no_results(f, init, leaves, structure)
    carry = Carry("scan", f, init)
    check = carry.check
    single = leaves[0] if structure is tree.LEAF else None
    value, ys = own(init), []
    for i in order:
        x = single[i] if single is not None else tree.unflatten(structure, [a[i] for a in leaves])
        out = f(value, own(x))
        if out.__class__ is not tuple or len(out) != 2:
            out = pair(out, f)
        value = own(out[0])  # of which the result may be a part, and the step may write to it
        check(value)
        ys.append(own(out[1]))
    return value, _stacked(ys[::-1] if reverse else ys, f)


def common_length(leaves: Sequence[Any], length: Any) -> int:
    """Return the length of all leaves along their first axes.

    Raises:
        ValueError: there is none, or more than one.
    """
    sizes = set() if length is None else {operator.index(length)}
    for i, x in enumerate(leaves):
        if not x.shape:
            raise ValueError(f"scan goes along the first axis of xs, but leaf {i} has none")
        sizes.add(x.shape[0])
    if len(sizes) > 1:
        given = [] if length is None else [f"length={length}"]
        raise ValueError(
            "scan needs one length, but got "
            + ", ".join([*given, *(f"{x.shape[0]} of leaf {i} of xs" for i, x in enumerate(leaves))])
        )
    if not sizes:
        raise ValueError("scan needs xs or length, to know how many steps to make")
    return int(sizes.pop())


def _stacked(ys: Sequence[Any], f: Fun) -> Any:
    if ys[0] is None:
        return None
    first, structure = tree.flatten(ys[0])
    if structure is tree.LEAF:
        return stack(ys)
    columns: list[list[Any]] = [[] for _ in first]
    for y in ys:
        leaves, other = tree.flatten(y)
        if other != structure:
            raise TypeError(
                f"scan: {name_of(f)} must return results of one structure, not {structure} and {other}"
            )
        for column, leaf in zip(columns, leaves, strict=True):
            column.append(leaf)
    return tree.unflatten(structure, map(stack, columns))


def _no_results(f: Fun, init: Any, leaves: Sequence[Any], structure: Any) -> Any:
    first, carry_structure = tree.flatten(init)
    found: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        carry = tree.unflatten(carry_structure, values[: len(first)])
        x = tree.unflatten(structure, values[len(first) :])
        ys, y_structure = tree.flatten(pair(f(carry, x), f)[1])
        found.append(y_structure)
        return ys

    avals = [*map(aval_of, first), *(Aval(a.shape[1:], a.dtype) for a in leaves)]
    program, _ = staged(flat, avals, undrawn=True)
    empty = [np.zeros((0, *a.shape), a.dtype) for a in avals_out(program)]
    return tree.unflatten(found[0], map(wrap, empty) if has_tensor((init, *leaves)) else empty)


def counted(f: Fun, init: Any, counts: range, checkpoint: Any) -> Any:
    """Return the last carry of `f(i, carry)` for Python integers i, as one operation."""
    xs, limits = np.asarray(counts, np.int64), (counts.start, counts.stop - 1)

    def step(carry: Any, i: Any) -> tuple[Any, None]:
        return f(i, carry), None

    step.__qualname__ = name_of(f)
    return _staged_scan(
        step, init, [xs], tree.LEAF, len(xs), reverse=False, checkpoint=checkpoint, limits=limits
    )[0]


def _staged_scan(
    f: Fun,
    init: Any,
    xs: list[Any],
    structure: Any,
    n: int,
    *,
    reverse: bool,
    checkpoint: Any,
    limits: tuple[int, int] | None = None,
) -> tuple[Any, Any]:
    """Return what `scan` does; where there are `limits`, the elements are Python integers between these."""
    leaves, carry_structure = tree.flatten(init)
    m = len(leaves)
    elements = [Aval(x.shape[1:], x.dtype) for x in xs]
    structures: list[Any] = []

    def step(*values: Any) -> list[Any]:
        old = tree.unflatten(carry_structure, values[:m])
        new, y = pair(f(old, tree.unflatten(structure, values[m:])), f)
        Carry("scan", f, old).check(new)
        flat, y_structure = tree.flatten(y)
        structures.append(y_structure)
        return [*tree.leaves(new), *flat]

    def probe(*carry: Any) -> list[Any]:
        zeros = [1 if limits else wrap(np.ones(a.shape, a.dtype)) for a in elements]
        return step(*carry, *zeros)

    init_values, avals, kinds = promoted(leaves, probe)
    counters = [int if limits else None for _ in elements]
    ranges = {m: limits} if limits else None

    def fitted(*values: Any) -> list[Any]:
        outs = step(*values)
        return [*fitting(outs[:m], avals), *outs[m:]]

    def make() -> list[Any]:
        return [staged(fitted, [*avals, *elements], [*kinds, *counters], ranges)]

    ((body, captured),) = steady("scan", (f,), make)
    code = Scan(body, len(captured), m, n, reverse=reverse, checkpoint=checkpoint)
    outs = bind("lax.scan", *captured, *init_values, *xs, code=code)
    carry = map(weakened, outs[:m], kinds)
    return tree.unflatten(carry_structure, carry), tree.unflatten(structures[-1], outs[m:])
