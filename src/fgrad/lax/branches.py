"""Branches with JAX's signatures: plain Python if the condition is known, else one operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from fgrad import tree
from fgrad.blocks import suppress
from fgrad.core.aval import Aval, aval_of
from fgrad.core.control_flow import Branches, avals_out
from fgrad.core.dispatch import bind
from fgrad.core.tensor import Tensor
from fgrad.lax.bodies import abstract, closed, sharing
from fgrad.lax.predicates import choose, demand_equal, following, scalar
from fgrad.lax.trees import kind_of
from fgrad.numpy.rounding import clip
from fgrad.numpy.selection import pick
from fgrad.ops.linear import convert
from fgrad.transforms.calling import own
from fgrad.transforms.stage import SAMPLE, common_type, number_type, staged, staging, weakened

Fun = Callable[..., Any]
R = TypeVar("R")


def cond(pred: Any, true_fun: Callable[..., R], false_fun: Callable[..., R], *operands: Any) -> R:
    """Return `true_fun(*operands)` if `pred` is true, else `false_fun(*operands)`.

    Where `pred` is known, only one branch runs. Where it differs between the examples of a batch, both run,
    and each example gets the result of its own branch; the other one raises nothing for it. In a program it
    is one operation.

    Args:
        pred: bool or number without axes.
        true_fun: takes and returns pytrees.
        false_fun: the same, with a result of the same structure, shapes and dtypes.
        operands: arguments of both.

    Returns:
        What the branch returns.

    Raises:
        TypeError: `pred` is not a scalar, or the results of the branches differ where both run.

    Derivative:
        That of the branch taken; the other one gets 0. `pred` counts as a constant.

    Example:
        >>> float(cond(3.0 > 2.0, np.sqrt, np.negative, 4.0))
        2.0
    """
    pred = scalar(pred, "the predicate of cond")
    if isinstance(pred, Tensor) or staging():
        index = convert(pred != 0, np.dtype(int)) if isinstance(pred, Tensor) else np.asarray(int(bool(pred)))
        choice = _staged_switch if staging() else _mapped_switch
        return choice(index, (false_fun, true_fun), operands, "cond")  # type: ignore[no-any-return]
    return own((true_fun if pred else false_fun)(*own(operands)))  # type: ignore[no-any-return]


def switch(index: Any, branches: Sequence[Callable[..., R]], *operands: Any) -> R:
    """Return `branches[index](*operands)`, with `index` clipped to the branches there are.

    Args:
        index: integer without axes.
        branches: functions of the same operands.
        operands: their arguments.

    Returns:
        What the branch returns.

    Raises:
        TypeError: `index` is not an integer scalar, or the results of branches differ where all run.
        ValueError: there is no branch.

    Derivative:
        That of the branch taken; `index` counts as a constant.

    Example:
        >>> float(switch(7, [np.negative, np.sqrt], 4.0))
        2.0
    """
    if not branches:
        raise ValueError("switch needs at least one branch")
    index = scalar(index, "the index of switch")
    kind = getattr(index, "dtype", np.dtype(type(index))).kind
    if kind not in "iu":
        raise TypeError(f"the index of switch must be an integer, not {kind_of(index) or index!r}")
    last = len(branches) - 1
    if isinstance(index, Tensor) or staging():
        known = index if isinstance(index, Tensor) else np.asarray(int(index))
        choice = _staged_switch if staging() else _mapped_switch
        return choice(known, tuple(branches), operands, "switch")  # type: ignore[no-any-return]
    return own(branches[min(max(int(index), 0), last)](*own(operands)))  # type: ignore[no-any-return]


def _pick(index: Any, ys: Sequence[Any]) -> Any:
    out = ys[-1]
    for k in range(len(ys) - 2, -1, -1):
        out = pick(index <= k, ys[k], out)
    return out


def _mapped_switch(index: Any, branches: tuple[Fun, ...], operands: tuple[Any, ...], what: str) -> Any:
    """Return the result of the branch of each example of a batch."""
    last = len(branches) - 1

    def chosen(*ys: Any) -> Any:
        return _pick(index, ys)

    with np.errstate(all="ignore"):  # of examples that go another way
        if not following():
            with suppress(Exception):  # of such examples, else it is raised below
                return choose(chosen, [f(*own(operands)) for f in branches], what)
        at = clip(index, 0, last)
        known = [c for f in branches if (c := closed(f, operands))]
        if len(known) == len(branches):
            for c in known[1:]:
                demand_equal(what, known[0].kind, c.kind)
            return choose(chosen, [c(at == k) for k, c in enumerate(known)], what)
    # each group of examples runs its own: the truth values split the batch
    return own(next((f for k, f in enumerate(branches[:-1]) if at == k), branches[-1])(*own(operands)))


def _staged_switch(index: Any, branches: tuple[Fun, ...], operands: tuple[Any, ...], what: str) -> Any:
    leaves, structure = tree.flatten(operands)
    values, avals, kinds = abstract(leaves)
    programs, captured, results = [], [], []
    for f in branches:

        def flat(*xs: Any, f: Fun = f) -> list[Any]:
            found, out_structure = tree.flatten(f(*tree.unflatten(structure, xs)))
            results.append((found, out_structure))
            return found

        program, own = staged(flat, avals, kinds, greedy=True)
        programs.append(program)
        captured.append(own)
    for other in results[1:]:
        demand_equal(what, results[0], other)
    outputs = zip(
        *(zip(avals_out(p), found, strict=True) for p, (found, _) in zip(programs, results, strict=True)),
        strict=True,
    )
    dtypes, numbers = zip(*map(_common, outputs), strict=True) if results[0][0] else ((), ())
    shared, taken = sharing(programs, captured)
    code = Branches(shared, [Aval(a.shape, d) for a, d in zip(avals_out(shared[0]), dtypes, strict=True)])
    outs = bind("lax.cond", index, *taken, *values, code=code)
    return tree.unflatten(results[0][1], map(weakened, outs, numbers))


def _common(outs: Sequence[tuple[Aval, Any]]) -> tuple[np.dtype[Any], type | None]:
    """Return the dtype of one result of all branches, and of which Python number it is if all of them are.

    Beside arrays numbers take the dtype of these; integers have to fit.
    """
    kinds = [number_type(y) for _, y in outs]
    if all(kinds):
        number = common_type(k for k in kinds if k)
        return np.dtype(number), number
    fixed = np.result_type(*(a.dtype for (a, _), k in zip(outs, kinds, strict=True) if not k))
    dtype = np.result_type(fixed, *(SAMPLE[k] for k in kinds if k))
    return (np.result_type(dtype, int) if dtype.kind in "iu" and int in kinds else dtype), None


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Return `on_true` where `pred` holds, else `on_false`: arrays of one shape and dtype.

    Args:
        pred: bool, without axes or of the shape of both.
        on_true: array or Tensor.
        on_false: the same.

    Returns:
        Array of the shape and dtype of both.

    Raises:
        TypeError: shapes or dtypes differ, or `pred` is not bool.

    Derivative:
        The cotangent where the value is taken from, 0 elsewhere.

    Example:
        >>> select(np.array([True, False]), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        array([1., 4.])
    """
    p, t, f = (aval_of(x) for x in (pred, on_true, on_false))
    if t != f:
        raise TypeError(
            f"select takes two cases of one shape and dtype, not {t} and {f}; use where to broadcast"
        )
    if p.dtype.kind != "b" or p.shape not in {(), t.shape}:
        raise TypeError(f"select takes a bool predicate, a scalar or of shape {t.shape}, not {p}")
    return pick(pred, on_true, on_false)
