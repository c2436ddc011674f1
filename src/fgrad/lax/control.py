"""Branches and loops with JAX's signatures: plain Python where values are there, one operation where not."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval, aval_of
from fgrad.core.program import Program, Var
from fgrad.core.tensor import Tensor, bind, wrap
from fgrad.core.trace import Box
from fgrad.lax.reversal import scan_in_parts
from fgrad.lax.staged import Code, Grown, avals_out, inset, varies
from fgrad.lax.trees import NUMBERS, Carry, flatten_like, kind_of, stack
from fgrad.numpy.indexing import where
from fgrad.ops.linear import convert
from fgrad.transforms.batch import Batched
from fgrad.transforms.calling import has_tensor, name_of
from fgrad.transforms.stage import aval_out, staged, staging

Fun = Callable[..., Any]


# ---- predicates ---------------------------------------------------------------------------------


def _scalar(x: Any, what: str) -> Any:
    """Return a predicate or index without axes, as the bool or number it is where that is known.

    Raises:
        TypeError: it has axes, or is no number.
    """
    if isinstance(x, bool | int):
        return x
    if not isinstance(x, Tensor | np.ndarray | np.generic | float | DeviceArray):
        raise TypeError(f"{what} must be a bool or number, not {type(x).__name__}")
    if np.shape(x) != ():
        raise TypeError(
            f"{what} must be a scalar, not of shape {np.shape(x)}; where(condition, x, y) chooses by elements"
        )
    if isinstance(x, Tensor):
        return x if isinstance(x._value, Box) else x._value
    return x


def _mixed(x: Any) -> bool:
    """Return whether a scalar differs between the examples of a batch."""
    return isinstance(x, Tensor) and isinstance(x._value, Batched)


def _any(x: Any) -> bool:
    """Return whether a scalar is true for any example."""
    while isinstance(x, Tensor):
        x = x._value
        if isinstance(x, Batched):
            x = x.whole
    return bool(np.any(x))


def _choose(pick: Callable[..., Any], outs: Sequence[Any], what: str) -> Any:
    """Return the leaf by leaf choice among the results of branches."""
    flat = [tree.flatten(o) for o in outs]
    for leaves, structure in flat[1:]:
        _same(what, flat[0], (leaves, structure))
    chosen = [pick(*group) for group in zip(*(leaves for leaves, _ in flat), strict=True)]
    return tree.unflatten(flat[0][1], chosen)


def _same(what: str, first: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    if first[1] != other[1]:
        raise TypeError(f"{what}: the branches must return one structure, not {first[1]} and {other[1]}")
    for i, (a, b) in enumerate(zip(first[0], other[0], strict=True)):
        ka, kb = kind_of(a), kind_of(b)
        if ka != kb and not (ka is None and kb and kb[0] == ()) and not (kb is None and ka and ka[0] == ()):
            shown = [Aval(*k) if k else "number" for k in (ka, kb)]
            raise TypeError(
                f"{what}: the branches must return equal types, but leaf {i} is {shown[0]} in one and "
                f"{shown[1]} in another; convert one of them"
            )


# ---- branches -----------------------------------------------------------------------------------


def cond(pred: Any, true_fun: Fun, false_fun: Fun, *operands: Any) -> Any:
    """Return `true_fun(*operands)` if `pred` is true, else `false_fun(*operands)`.

    Where `pred` is known, only the branch that is taken runs. For values of a batch that differ in it both
    run, and each example gets the result of its own. In a staged program it is one operation.

    Args:
        pred: bool or number without axes.
        true_fun: takes and returns pytrees.
        false_fun: the same, with a result of the same structure, shapes and dtypes.
        operands: arguments of both.

    Raises:
        TypeError: `pred` is no scalar, or the results of the branches differ where both are looked at.

    Example:
        >>> float(cond(3.0 > 2.0, np.sqrt, np.negative, 4.0))
        2.0
    """
    pred = _scalar(pred, "the predicate of cond")
    if _mixed(pred):
        with np.errstate(all="ignore"):  # of examples that go the other way
            outs = [true_fun(*operands), false_fun(*operands)]
        return _choose(functools.partial(where, pred), outs, "cond")
    if isinstance(pred, Tensor) or staging():
        index = convert(pred != 0, np.dtype(int)) if isinstance(pred, Tensor) else np.asarray(int(bool(pred)))
        return _staged_switch(index, (false_fun, true_fun), operands, "cond")
    return true_fun(*operands) if pred else false_fun(*operands)


def switch(index: Any, branches: Sequence[Fun], *operands: Any) -> Any:
    """Return `branches[index](*operands)`, with `index` clipped to the branches there are.

    Args:
        index: integer without axes.
        branches: functions of the same operands.
        operands: their arguments.

    Raises:
        TypeError: `index` is no integer scalar, or the results of branches differ where all are looked at.
        ValueError: there is no branch.

    Example:
        >>> float(switch(7, [np.negative, np.sqrt], 4.0))
        2.0
    """
    if not branches:
        raise ValueError("switch needs at least one branch")
    index = _scalar(index, "the index of switch")
    kind = getattr(index, "dtype", np.dtype(type(index))).kind
    if kind not in "iu":
        raise TypeError(f"the index of switch must be an integer, not {kind_of(index) or index!r}")
    last = len(branches) - 1
    if _mixed(index):
        with np.errstate(all="ignore"):  # of examples that go another way
            outs = [f(*operands) for f in branches]
        return _choose(lambda *ys: _pick(index, ys), outs, "switch")
    if isinstance(index, Tensor) or staging():
        return _staged_switch(index, tuple(branches), operands, "switch")
    return branches[min(max(int(index), 0), last)](*operands)


def _pick(index: Any, ys: Sequence[Any]) -> Any:
    out = ys[-1]
    for k in range(len(ys) - 2, -1, -1):
        out = where(index <= k, ys[k], out)
    return out


class Branches(Code):
    """One of several programs of the same inputs, by a first argument."""

    branches: tuple[Program, ...]
    outs: tuple[Aval, ...]

    def __init__(self, programs: Sequence[Program], outs: Sequence[Aval] | None = None) -> None:
        self.branches = tuple(programs)
        self.outs = tuple(avals_out(programs[0]) if outs is None else outs)

    def __call__(self, *values: Any) -> Sequence[Any]:
        """Return the outputs of the program that is chosen."""
        index, *operands = values
        runs = [functools.partial(_run, program) for program in self.branches]
        found: Sequence[Any] = switch(index, runs, *operands)
        return found

    def varies(self, mapped: Sequence[bool]) -> list[bool]:
        """Return which outputs differ between examples where the arguments `mapped` do."""
        if mapped[0]:
            return [True] * len(self.outs)
        return [any(each) for each in zip(*(varies(p, mapped[1:]) for p in self.branches), strict=True)]

    def inner(self) -> Sequence[Program]:
        """Return those of the branches."""
        return self.branches

    def map(self, f: Callable[[Program], Program]) -> Code:
        """Return the same choice among `f` of the branches."""
        return Branches([f(p) for p in self.branches], self.outs)

    def __str__(self) -> str:
        return " or".join(map(inset, self.branches))


def _run(program: Program, *values: Any) -> list[Any]:
    return [np.asarray(y) if not hasattr(y, "dtype") else y for y in program.run(values)]


def _sharing(
    programs: Sequence[Program], captured: Sequence[Sequence[Any]]
) -> tuple[list[Program], list[Any]]:
    """Return programs that take the captured values of all of them first, and those values."""
    values = list({id(t): t for own in captured for t in own}.values())
    shared = []
    for program, own in zip(programs, captured, strict=True):
        places = {id(t): v for t, v in zip(own, program.inputs, strict=False)}
        first = [places.get(id(t)) or Var(aval_of(t), f"c{i}") for i, t in enumerate(values)]
        inputs = [*first, *program.inputs[len(own) :]]
        regions = list(program.regions.values())
        shared.append(Program(inputs, program.equations, program.outputs, (None, None), regions))
    return shared, values


def _abstract(leaves: Sequence[Any]) -> tuple[list[Any], list[Aval]]:
    """Return leaves as arrays or Tensors with their avals."""
    values = [x if hasattr(x, "dtype") else np.asarray(x) for x in leaves]
    return values, list(map(aval_of, values))


def _staged_switch(index: Any, branches: tuple[Fun, ...], operands: tuple[Any, ...], what: str) -> Any:
    leaves, structure = tree.flatten(operands)
    values, avals = _abstract(leaves)
    programs, captured, results = [], [], []
    for f in branches:

        def flat(*xs: Any, f: Fun = f) -> list[Any]:
            found, out_structure = tree.flatten(f(*tree.unflatten(structure, xs)))
            results.append((found, out_structure))
            return found

        program, own = staged(flat, avals)
        programs.append(program)
        captured.append(own)
    for other in results[1:]:
        _same(what, results[0], other)
    # Python numbers take the dtype of the branch that has one
    dtypes = [
        np.result_type(*ys) for ys in zip(*([a.dtype for a in avals_out(p)] for p in programs), strict=True)
    ]
    shared, taken = _sharing(programs, captured)
    code = Branches(shared, [Aval(a.shape, d) for a, d in zip(avals_out(shared[0]), dtypes, strict=True)])
    outs = bind("lax.cond", index, *taken, *values, code=code)
    return tree.unflatten(results[0][1], outs)


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Return `on_true` where `pred` holds, else `on_false`: arrays of one shape and dtype.

    Args:
        pred: bool, without axes or of the shape of both.
        on_true: array or Tensor.
        on_false: the same.

    Raises:
        TypeError: shapes or dtypes differ, or `pred` is not bool.

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
    return where(pred, on_true, on_false)


# ---- while --------------------------------------------------------------------------------------


def while_loop(cond_fun: Fun, body_fun: Fun, init_val: Any) -> Any:
    """Return `init_val` after `body_fun` was applied to it as long as `cond_fun` of it is true.

    Reverse mode works however many steps that takes: every step is recorded. In a batch the loop runs until
    no example goes on, and those that are done keep their values.

    Args:
        cond_fun: takes the value and returns a bool without axes.
        body_fun: takes the value and returns the next, of the same structure, shapes and dtypes.
        init_val: pytree.

    Raises:
        TypeError: `body_fun` returns another structure, shape or dtype, or `cond_fun` no scalar.

    Example:
        >>> float(while_loop(lambda x: x < 100.0, lambda x: x * x, 3.0))
        6561.0
    """
    if staging():
        return _staged_while(cond_fun, body_fun, init_val)
    carry = Carry("while_loop", body_fun, init_val)
    value = init_val
    while True:
        go = _scalar(cond_fun(value), "the condition of while_loop")
        if not _any(go):
            return value
        if _mixed(go):
            with np.errstate(all="ignore"):  # of examples that are done
                new = body_fun(value)
            carry.check(new)
            value = _choose(functools.partial(where, go), [new, value], "while_loop")
        else:
            value = body_fun(value)
            carry.check(value)


class While(Code):
    """A program that is repeated as long as another one says so; what it returns beside the carry is stacked.

    Both take `consts` values that stay, and then the carry.
    """

    condition: Program
    body: Program
    consts: int
    carry: int
    outs: tuple[Aval, ...]

    def __init__(self, condition: Program, body: Program, consts: int) -> None:
        self.condition, self.body, self.consts = condition, body, consts
        self.carry = len(body.inputs) - consts
        outs = avals_out(body)
        self.outs = (
            *(v.aval for v in body.inputs[consts:]),
            *(Grown(a.shape, a.dtype) for a in outs[self.carry :]),
        )

    def __call__(self, *values: Any) -> Sequence[Any]:
        """Return the carry at the end, and the results of all steps."""
        consts, init = values[: self.consts], list(values[self.consts :])
        rows: list[list[Any]] = []

        def step(carry: list[Any]) -> list[Any]:
            outs = _run(self.body, *consts, *carry)
            rows.append(outs[self.carry :])
            return outs[: self.carry]

        carry = while_loop(lambda v: _run(self.condition, *consts, *v)[0], step, init)
        if not rows:
            return [*carry, *(np.zeros(a.shape, a.dtype) for a in self.outs[self.carry :])]
        return [*carry, *map(stack, zip(*rows, strict=True))]

    def varies(self, mapped: Sequence[bool]) -> list[bool]:
        """Return which outputs differ between examples where the arguments `mapped` do."""
        consts, carry = list(mapped[: self.consts]), list(mapped[self.consts :])
        while True:
            if any(varies(self.condition, [*consts, *carry])):
                return [True] * len(self.outs)
            outs = varies(self.body, [*consts, *carry])
            new = [a or b for a, b in zip(carry, outs, strict=False)]
            if new == carry:
                return [*carry, *outs[self.carry :]]
            carry = new

    def inner(self) -> Sequence[Program]:
        """Return the condition and the step."""
        return self.condition, self.body

    def map(self, f: Callable[[Program], Program]) -> Code:
        """Return the same loop of `f` of the condition and of the step."""
        return While(f(self.condition), f(self.body), self.consts)

    def __str__(self) -> str:
        return f"while{inset(self.condition)}\n    do{inset(self.body)}"


def _staged_while(cond_fun: Fun, body_fun: Fun, init_val: Any) -> Any:
    leaves, structure = tree.flatten(init_val)

    def step(*xs: Any) -> list[Any]:
        return checked(tree.unflatten(structure, xs), body_fun(tree.unflatten(structure, xs)))

    def checked(old: Any, new: Any) -> list[Any]:
        Carry("while_loop", body_fun, old).check(new)
        return tree.leaves(new)

    def proceed(*xs: Any) -> list[Any]:
        return [_scalar(cond_fun(tree.unflatten(structure, xs)), "the condition of while_loop")]

    values, avals = _abstract(
        _promoted(leaves, lambda *xs: tree.leaves(body_fun(tree.unflatten(structure, xs))))
    )
    condition, first = staged(proceed, avals)
    body, second = staged(step, avals)
    (condition, body), taken = _sharing((condition, body), (first, second))
    code = While(condition, body, len(taken))
    return tree.unflatten(structure, bind("lax.while_loop", *taken, *values, code=code))


def _promoted(leaves: Sequence[Any], step: Callable[..., list[Any]]) -> list[Any]:
    """Return the leaves with Python numbers as arrays of the dtype that they get in `step`."""
    if not any(kind_of(x) is None for x in leaves):
        return list(leaves)
    fixed = [i for i, x in enumerate(leaves) if kind_of(x) is not None]
    _, avals = _abstract([leaves[i] for i in fixed])

    def flat(*xs: Any) -> list[Any]:
        full = list(leaves)
        for i, x in zip(fixed, xs, strict=True):
            full[i] = x
        return step(*full)

    program, _ = staged(flat, avals)
    return [
        x
        if kind_of(x) is not None or isinstance(y, NUMBERS)
        else np.asarray(x, np.result_type(x, aval_out(y).dtype))
        for x, y in zip(leaves, program.outputs, strict=False)
    ]


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Fun,
    init_val: Any,
    *,
    unroll: int | bool | None = None,
    checkpoint: Any = None,
) -> Any:
    """Return `init_val` after `value = body_fun(i, value)` for each i from `lower` up to before `upper`.

    Args:
        lower: integer without axes.
        upper: likewise.
        body_fun: takes i and the value, and returns the next value of the same structure, shapes and dtypes.
        init_val: pytree.
        unroll: accepted for JAX's sake; changes nothing.
        checkpoint: as in `scan`, where `lower` and `upper` are known.

    Raises:
        TypeError: bounds that are not integers, or `body_fun` returns another structure, shape or dtype.

    Example:
        >>> fori_loop(0, 5, lambda i, total: total + i, 0)
        10
    """
    bounds = [_scalar(b, "a bound of fori_loop") for b in (lower, upper)]
    for b in bounds:
        if getattr(b, "dtype", np.dtype(type(b))).kind not in "iu":
            raise TypeError(f"the bounds of fori_loop must be integers, not {kind_of(b) or b!r}")
    if any(isinstance(b, Tensor) for b in bounds):
        start, stop = bounds
        start = start if isinstance(start, Tensor) else wrap(np.asarray(start))
        return while_loop(
            lambda v: v[0] < stop, lambda v: (v[0] + 1, body_fun(v[0], v[1])), (start, init_val)
        )[1]
    start, stop = map(int, bounds)
    if staging() or checkpoint is not None:
        return scan(
            functools.partial(_counted, body_fun),
            init_val,
            np.arange(start, max(start, stop)),
            checkpoint=checkpoint,
        )[0]
    carry = Carry("fori_loop", body_fun, init_val)
    value = init_val
    for i in range(start, stop):
        value = body_fun(i, value)
        carry.check(value)
    return value


def _counted(body_fun: Fun, value: Any, i: Any) -> tuple[Any, None]:
    return body_fun(i, value), None


# ---- scan ---------------------------------------------------------------------------------------


def scan(
    f: Fun,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    checkpoint: int | bool | None = None,
) -> tuple[Any, Any]:
    """Return the carry and the stacked results of `carry, y = f(carry, x)` along the first axis of `xs`.

    Args:
        f: takes the carry and one element of `xs`, and returns the next carry, of the same structure, shapes
            and dtypes, and a result.
        init: the first carry, a pytree; Python numbers take the dtype that they get in `f`.
        xs: pytree of arrays of one length, or None.
        length: the number of steps; needed where `xs` has no leaves.
        reverse: whether to go from the last element to the first; results keep the places of their elements.
        unroll: accepted for JAX's sake; changes nothing.
        checkpoint: how many carries to keep for the gradient, from which the others are computed again, with
            the fewest steps possible; True keeps about 2 log2(length). None keeps what every step records.

    Returns:
        `(carry, ys)`.

    Raises:
        TypeError: `f` returns no pair, or the carry another structure, shape or dtype.
        ValueError: lengths differ, or there is none.

    Source:
        Griewank & Walther (2000), Algorithm 799, for `checkpoint`.

    Example:
        >>> total, sums = scan(lambda c, x: (c + x, c + x), 0.0, np.array([1.0, 2.0, 3.0]))
        >>> sums
        array([1., 3., 6.])
    """
    leaves, structure = tree.flatten(xs)
    leaves = [x if hasattr(x, "dtype") else np.asarray(x) for x in leaves]
    n = common_length(leaves, length)
    if staging():
        return _staged_scan(f, init, leaves, structure, n, reverse=reverse, checkpoint=checkpoint)
    order = range(n - 1, -1, -1) if reverse else range(n)
    if checkpoint is not None and checkpoint is not False and n:
        return scan_in_parts(f, init, leaves, structure, order, checkpoint)
    if n == 0:
        return init, _no_results(f, init, leaves, structure)
    carry = Carry("scan", f, init)
    check = carry.check
    single = leaves[0] if structure is tree.LEAF else None
    value, ys = init, []
    for i in order:
        x = single[i] if single is not None else tree.unflatten(structure, [a[i] for a in leaves])
        out = f(value, x)
        if out.__class__ is not tuple or len(out) != 2:
            out = _pair(out, f)
        value, y = out
        check(value)
        ys.append(y)
    return value, _stacked(ys[::-1] if reverse else ys, f)


def _pair(out: Any, f: Fun) -> Any:
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise TypeError(f"scan: {name_of(f)} must return a pair (carry, y), not {type(out).__name__}")
    return out


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
        leaves = flatten_like(structure, y)
        if leaves is None:
            raise TypeError(
                f"scan: {name_of(f)} must return results of one structure, not {structure} and "
                f"{tree.structure(y)}"
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
        ys, y_structure = tree.flatten(_pair(f(carry, x), f)[1])
        found.append(y_structure)
        return ys

    program, _ = staged(flat, [*map(aval_of, first), *(Aval(a.shape[1:], a.dtype) for a in leaves)])
    empty = [np.zeros((0, *a.shape), a.dtype) for a in avals_out(program)]
    return tree.unflatten(found[0], map(wrap, empty) if has_tensor((init, *leaves)) else empty)


class Scan(Code):
    """A program that is repeated along the first axis of some of its arguments.

    Its inputs are `consts` values that stay, `carry` that it returns anew, and one element of each of the
    others. Where `length` is None, the number of steps is the first argument, before those.
    """

    body: Program
    consts: int
    carry: int
    length: int | None
    reverse: bool
    checkpoint: Any
    outs: tuple[Aval, ...]

    def __init__(
        self,
        body: Program,
        consts: int,
        carry: int,
        length: int | None,
        *,
        reverse: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self.body, self.consts, self.carry, self.length = body, consts, carry, length
        self.reverse, self.checkpoint = reverse, checkpoint
        self.outs = (
            *(v.aval for v in body.inputs[consts : consts + carry]),
            *(
                Grown(a.shape, a.dtype) if length is None else Aval((length, *a.shape), a.dtype)
                for a in avals_out(body)[carry:]
            ),
        )

    def __call__(self, *values: Any) -> Sequence[Any]:
        """Return the last carry and the results."""
        length = self.length
        if length is None:
            length, *values = (int(values[0]), *values[1:])  # type: ignore[assignment]
        n, m = self.consts, self.carry
        captured, init, xs = values[:n], list(values[n : n + m]), list(values[n + m :])

        def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
            outs = _run(self.body, *captured, *carry, *x)
            return outs[:m], outs[m:]

        carry, ys = scan(step, init, xs, length, self.reverse, checkpoint=self.checkpoint)
        return [*carry, *(ys or ())]

    def varies(self, mapped: Sequence[bool]) -> list[bool]:
        """Return which outputs differ between examples where the arguments `mapped` do."""
        if self.length is None:
            if mapped[0]:
                return [True] * len(self.outs)
            mapped = mapped[1:]
        n, m = self.consts, self.carry
        consts, carry, xs = list(mapped[:n]), list(mapped[n : n + m]), list(mapped[n + m :])
        while True:
            outs = varies(self.body, [*consts, *carry, *xs])
            new = [a or b for a, b in zip(carry, outs, strict=False)]
            if new == carry:
                return [*carry, *outs[m:]]
            carry = new

    def inner(self) -> Sequence[Program]:
        """Return the step."""
        return (self.body,)

    def map(self, f: Callable[[Program], Program]) -> Code:
        """Return the same loop of `f` of the step."""
        counts, options = (self.consts, self.carry), {"reverse": self.reverse, "checkpoint": self.checkpoint}
        return Scan(f(self.body), *counts, self.length, **options)

    def __str__(self) -> str:
        times = "counted" if self.length is None else self.length
        return f"{times} times{' in reverse' * self.reverse}:{inset(self.body)}"


def _staged_scan(
    f: Fun, init: Any, xs: list[Any], structure: Any, n: int, *, reverse: bool, checkpoint: Any
) -> tuple[Any, Any]:
    leaves, carry_structure = tree.flatten(init)
    m = len(leaves)
    elements = [Aval(x.shape[1:], x.dtype) for x in xs]
    structures: list[Any] = []

    def step(*values: Any) -> list[Any]:
        old = tree.unflatten(carry_structure, values[:m])
        new, y = _pair(f(old, tree.unflatten(structure, values[m:])), f)
        Carry("scan", f, old).check(new)
        flat, y_structure = tree.flatten(y)
        structures.append(y_structure)
        return [*tree.leaves(new), *flat]

    def probe(*carry: Any) -> list[Any]:
        zeros = [wrap(np.ones(a.shape, a.dtype)) for a in elements]
        return step(*carry, *zeros)

    init_values, avals = _abstract(_promoted(leaves, probe))
    body, captured = staged(step, [*avals, *elements])
    code = Scan(body, len(captured), m, n, reverse=reverse, checkpoint=checkpoint)
    outs = bind("lax.scan", *captured, *init_values, *xs, code=code)
    return tree.unflatten(carry_structure, outs[:m]), tree.unflatten(structures[-1], outs[m:])
