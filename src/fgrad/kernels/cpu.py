"""The CPU backend: loop nests compiled by Numba, one for every layout of operands that is met."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from fgrad.expr.node import Expr, apply
from fgrad.kernels import source
from fgrad.kernels.body import BOOL, FLOAT32, FLOAT64, Body, dtypes, prepare, statements

Entry = Callable[..., None]


class Layout(NamedTuple):
    """How a loop nest sees one operand."""

    char: str  # of its dtype
    axes: tuple[int, ...]  # the loops that move along it; none for a scalar
    contiguous: bool


class Monoid(NamedTuple):
    """What a reduction does with two numbers, and with none."""

    code: str
    identity: float
    helpers: tuple[str, ...] = ()
    rounds: bool = False  # whether the order of the operations shows in the result
    name: str = ""  # NumPy's, where reducing nothing is an error


# fmt: off
MONOIDS = {
    "sum":  Monoid("{} + {}",         -0.0, rounds=True),  # -0.0 + x is x, even for x = -0.0
    "prod": Monoid("{} * {}",          1.0, rounds=True),
    "max":  Monoid("maximum({}, {})", -math.inf, ("maximum",), name="maximum"),
    "min":  Monoid("minimum({}, {})",  math.inf, ("minimum",), name="minimum"),
}
# fmt: on
LANES = 256  # the accumulators that a reduction runs in parallel, at most
SHORT = 32  # a folded last axis below this size swaps places with a longer axis that is kept
BLOCK = 16  # the numbers one accumulator adds up before it becomes a leaf of the pairwise sum

_PLAIN = 0x101  # of `ndarray.flags.num`: C-contiguous and aligned
_ARRAY, _EMPTY = np.ndarray, np.empty
_TYPES = {"?": "boolean", "f": "float32", "d": "float64"}
_INPUT = ["readonly", "copy", "aligned", "nbo"]
_OUTPUT = ["writeonly", "allocate", "no_broadcast", "updateifcopy", "aligned", "nbo"]
_TOTAL = ["readwrite", "allocate"]


class Plan(NamedTuple):
    """What the dtypes of the operands decide."""

    compute: np.dtype  # the dtype of the arithmetic
    final: np.dtype  # the dtype of results that are numbers
    kinds: list[np.dtype]  # how the loops see the operands and the results
    cast: bool  # whether an operand is converted before the loops
    entries: dict[tuple[Any, ...], Entry]  # the compiled loop nests, by layout


class Elementwise:
    """A loop over elements; see `elementwise`."""

    __slots__ = ("_body", "_flat", "_plans")

    def __init__(self, body: Body) -> None:
        self._body = body
        self._flat: dict[Any, tuple[Entry, list[np.dtype]] | None] = {}
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        """Return the results for `operands`, written to `out` if given."""
        first = operands[0] if operands else None
        if type(first) is not _ARRAY or out is not None:
            return self._run_nest(operands, out)
        dtype, shape = first.dtype, first.shape
        key: Any = dtype
        for a in operands:
            if type(a) is _ARRAY:
                if a.dtype is not dtype or a.shape != shape or a.flags.num & _PLAIN != _PLAIN:
                    return self._run_nest(operands, out)
            elif type(a) is float:
                key = None
            else:
                return self._run_nest(operands, out)
        if key is None:
            key = (dtype, *map(type, operands))
        found = self._flat.get(key) or self._make_flat(key, dtype, operands)
        if found is None or not shape:
            return self._run_nest(operands, out)
        entry, kinds = found
        outs = [_EMPTY(shape, kind) for kind in kinds]
        if len(shape) == 1:
            entry(*operands, *outs, 0, shape[0])
        else:
            flat = [a if type(a) is float else a.ravel() for a in operands]
            entry(*flat, *[o.ravel() for o in outs], 0, first.size)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def text(self, dtype: np.dtype = FLOAT64) -> str:
        """Return the source of the kernel for contiguous arrays of `dtype`."""
        return _elementwise_text(self._body, dtype, 1, *self._flat_layouts(dtype, self._body.params))

    def _make_flat(
        self, key: Any, dtype: np.dtype, operands: tuple[Any, ...]
    ) -> tuple[Entry, list[np.dtype]] | None:
        """Return the loop for arrays of `dtype` and floats, or None if the arrays must be converted first."""
        compute, final = dtypes(self._body, _as_arrays(operands, len(self._body.params)))
        if compute is not dtype:
            self._flat[key] = None
            return None
        text = _elementwise_text(self._body, dtype, 1, *self._flat_layouts(dtype, operands))
        found = source.compiled(text), [BOOL if t else final for t in self._body.truths]
        self._flat[key] = found
        return found

    def _flat_layouts(self, dtype: np.dtype, operands: Sequence[Any]) -> tuple[list[Layout], list[Layout]]:
        inputs = [Layout(dtype.char, () if type(a) is float else (0,), contiguous=True) for a in operands]
        return inputs, [Layout("?" if t else dtype.char, (0,), contiguous=True) for t in self._body.truths]

    def _run_nest(self, operands: tuple[Any, ...], out: Any) -> Any:
        """Compute on operands of any shapes, strides and dtypes: NumPy's iterator broadcasts and sorts the axes."""
        arrays = _as_arrays(operands, len(self._body.params))
        count = len(self._body.results)
        given = out if isinstance(out, tuple) else (out,) if out is not None else (None,) * count
        if len(given) != count:
            raise ValueError(f"out= must hold {count} arrays, one a result, not {len(given)}")
        key = tuple([getattr(a, "dtype", None) for a in arrays])
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _plan(self._body, arrays)
        with np.errstate(all="ignore") if plan.cast or out is not None else nullcontext():
            steps = np.nditer(
                [*arrays, *given],
                ["zerosize_ok"] if out is None else ["zerosize_ok", "copy_if_overlap"],
                [_INPUT] * len(arrays) + [_OUTPUT] * count,
                plan.kinds,
                casting="same_kind",
            )
            with steps:
                outs = steps.operands[len(arrays) :]
                if steps.itersize:
                    self._run_views(plan, steps.itviews)
        if out is not None:
            return out
        values = tuple([_finish(o, plan) for o in outs])
        return values[0] if count == 1 else values

    def _run_views(self, plan: Plan, views: tuple[np.ndarray, ...]) -> None:
        """Compute on views of one shape."""
        if not views[-1].ndim:
            views = tuple([v.reshape(1) for v in views])
        count = len(self._body.params)
        outs = views[count:]
        key, arrays = _layout(views[:count], outs)
        entry = plan.entries.get(key)
        if entry is None:
            layouts = _layouts(plan, key)
            text = _elementwise_text(self._body, plan.compute, key[0], layouts[:count], layouts[count:])
            entry = plan.entries[key] = source.compiled(text)
        entry(*arrays, *outs, 0, views[-1].shape[0])


class Reduction:
    """A loop over elements that leaves one number for each index of the other axes; see `reduction`."""

    __slots__ = ("_body", "_kind", "_plans")

    def __init__(self, kind: str, body: Body) -> None:
        self._kind, self._body = kind, body
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def __call__(
        self, *operands: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
    ) -> Any:
        """Return the reduction of the body over `axis`, over all axes if that is None."""
        arrays = _as_arrays(operands, len(self._body.params))
        key = tuple([getattr(a, "dtype", None) for a in arrays])
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _plan(self._body, arrays)
        shapes = {np.shape(a) for a in arrays}
        shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
        folded = range(len(shape)) if axis is None else normalize_axis_tuple(axis, len(shape))
        kept = tuple([i for i in range(len(shape)) if i not in folded])
        with np.errstate(all="ignore") if plan.cast else nullcontext():
            out = self._reduce(plan, arrays, shape, kept)
        if keepdims:
            out = out[tuple([slice(None) if i in kept else None for i in range(len(shape))])]
        return _finish(out, plan)

    def _reduce(
        self, plan: Plan, arrays: list[Any], shape: tuple[int, ...], kept: tuple[int, ...]
    ) -> np.ndarray:
        if 0 in shape:
            monoid = MONOIDS[self._kind]
            out = np.full([shape[i] for i in kept], monoid.identity + 0.0, plan.compute)
            if out.size and monoid.name:
                raise ValueError(
                    f"zero-size array to reduction operation {monoid.name} which has no identity"
                )
            return out
        steps = np.nditer(
            [*arrays, None],
            ["reduce_ok"],
            [_INPUT] * len(arrays) + [_TOTAL],
            plan.kinds,
            op_axes=_op_axes(tuple(map(np.ndim, arrays)), len(shape), kept),
            casting="same_kind",
        )
        self._run_views(plan, steps.itviews)
        return steps.operands[-1]

    def _run_views(self, plan: Plan, views: tuple[np.ndarray, ...]) -> None:
        """Reduce views of one shape; the axes to reduce are those along which the last one stands still."""
        if not views[-1].ndim:
            views = tuple([v.reshape(1) for v in views])
        if not views[-1].strides[-1]:
            views = _turn(views)
        sizes = views[-1].shape
        folded = tuple([not s for s in views[-1].strides])
        key, arrays = _layout(views)
        entry = plan.entries.get(key)
        if entry is None:
            layouts = _layouts(plan, key)
            text = _reduction_text(MONOIDS[self._kind], self._body, plan.compute, folded, layouts)
            entry = plan.entries[key] = source.compiled(text)
        lanes = min(LANES, 1 << (sizes[-1] - 1).bit_length())
        rows = -(-sizes[-1] // lanes) if folded[-1] else 1
        rows *= math.prod([n for n, f in zip(sizes[:-1], folded, strict=False) if f])
        work = np.empty(lanes * (2 + (rows // BLOCK).bit_length()), plan.compute)
        if not arrays[-1].ndim:
            arrays[-1] = arrays[-1].reshape(1)
        entry(*arrays, work, lanes, *sizes)


@cache
def _elementwise(body: Body) -> Elementwise:
    return Elementwise(body)


@cache
def _reduction(kind: str, body: Body) -> Reduction:
    return Reduction(kind, body)


def elementwise(params: tuple[Expr, ...], results: tuple[Expr, ...]) -> Elementwise:
    """Return the kernel that computes `results` at every element of its broadcast operands.

    Args:
        params: the variables, one an operand.
        results: expressions in them; expressions that are equal but for the names of variables share a kernel.

    Returns:
        A function of one array or scalar a parameter, and `out=`. Several results come as a tuple, those of shape ()
        as scalars. float32 stays float32, float16 is rounded from float32, other numbers are computed in float64;
        conditions are bool.
    """
    return _elementwise(prepare(params, results))


def reduction(kind: str, params: tuple[Expr, ...], body: Expr) -> Reduction:
    """Return the kernel that computes `body` at every element and reduces it over axes.

    Sums and products run in lanes and blocks and end pairwise, in an order that depends on nothing but shapes and
    strides: accurate, and the same bits each time.

    Args:
        kind: sum, prod, max or min.
        params: the variables, one an operand.
        body: an expression in them; a condition counts as 0 or 1.

    Returns:
        A function of one array a parameter, `axis=None` and `keepdims=False`.

    Raises:
        ValueError: `kind` is none of the four; later, the maximum or minimum of nothing is asked for.
    """
    if kind not in MONOIDS:
        raise ValueError(f"a reduction is one of {', '.join(MONOIDS)}, not {kind!r}")
    prepared = prepare(params, (body,))
    if prepared.truths[0]:
        prepared = prepare(params, (apply("where", body, 1, 0),))
    return _reduction(kind, prepared)


def _as_arrays(operands: tuple[Any, ...], count: int) -> list[Any]:
    """Return the operands as arrays, but Python's numbers as floats: those adopt the dtype of the arrays."""
    if len(operands) != count:
        raise TypeError(f"this kernel takes {count} operands, not {len(operands)}")
    return [float(a) if type(a) in (float, int, bool) else np.asarray(a) for a in operands]


def _plan(body: Body, arrays: list[Any]) -> Plan:
    compute, final = dtypes(body, arrays)
    loads = [getattr(a, "dtype", compute) for a in arrays]
    kinds = [d if d in (BOOL, FLOAT32, FLOAT64) else compute for d in loads]
    return Plan(compute, final, [*kinds, *(BOOL if t else compute for t in body.truths)], kinds != loads, {})


def _finish(out: np.ndarray, plan: Plan) -> Any:
    """Return `out` in its final dtype, and as a scalar if its shape is ()."""
    if plan.final is not plan.compute and out.dtype == plan.compute:
        with np.errstate(over="ignore"):
            out = out.astype(plan.final)
    return out if out.ndim else out[()]


@cache
def _op_axes(ranks: tuple[int, ...], rank: int, kept: tuple[int, ...]) -> list[list[int]]:
    """Return for every operand, and for the output of a reduction, which of its axes is axis 0, 1, ..."""
    inputs = [[*[-1] * (rank - r), *range(r)] for r in ranks]
    return [*inputs, [kept.index(i) if i in kept else -1 for i in range(rank)]]


def _turn(views: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Return `views` with a long kept axis last, if the last axis is folded and too short to fill the lanes."""
    sizes, strides = views[-1].shape, views[-1].strides
    kept = [i for i, s in enumerate(strides) if s]
    longest = max(kept, key=lambda i: sizes[i], default=-1)
    if sizes[-1] >= SHORT or longest < 0 or sizes[longest] <= sizes[-1]:
        return views
    order = [i for i in range(len(sizes)) if i != longest]
    return tuple([v.transpose(*order, longest) for v in views])


def _layout(
    views: tuple[np.ndarray, ...], whole: tuple[np.ndarray, ...] = ()
) -> tuple[tuple[Any, ...], list[Any]]:
    """Return what loops must know of the strides, and `views` without the axes along which they stand still."""
    key: list[Any] = [(whole or views)[0].ndim]
    arrays: list[Any] = []
    for view in views:
        v, strides = view, view.strides
        if 0 in strides:
            moving = (..., *[slice(None) if s else 0 for s in strides])
            v = view[moving]
            key += (tuple([i for i, s in enumerate(strides) if s]), v.flags.num & 1)
        else:
            key += (None, v.flags.num & 1)
        arrays.append(v)
    for v in whole:
        key += (None, v.flags.num & 1)
    return tuple(key), arrays


def _layouts(plan: Plan, key: tuple[Any, ...]) -> list[Layout]:
    """Return the layouts that `key`, made by `_layout`, stands for."""
    every = tuple(range(key[0]))
    pairs = zip(key[1::2], key[2::2], strict=False)
    return [
        Layout(kind.char, every if axes is None else axes, bool(contiguous))
        for kind, (axes, contiguous) in zip(plan.kinds, pairs, strict=False)
    ]


def _elementwise_text(
    body: Body, dtype: np.dtype, rank: int, inputs: Sequence[Layout], outputs: Sequence[Layout]
) -> str:
    code = statements(body, dtype)
    names = [*_names("a", inputs), *_names("o", outputs), "lo", "hi"]
    types = [*(_type(x, "True") for x in inputs), *(_type(x) for x in outputs), *["types.uintp"] * 2]
    stores = [f"{_at(f'o{i}', o)} = {v}" for i, (o, v) in enumerate(zip(outputs, code.values, strict=True))]
    loops = ["for i0 in range(lo, hi):", *(f"for i{k} in range(n{k}):" for k in range(1, rank))]
    lines = [
        *(f"n{k} = np.uintp(o0.shape[{k}])" for k in range(1, rank)),
        *_nest(loops, [*_loads(inputs, dtype), *code.lines, *stores]),
    ]
    return _module(code.preamble, names, types, lines)


def _reduction_text(
    monoid: Monoid, body: Body, dtype: np.dtype, folded: tuple[bool, ...], layouts: list[Layout]
) -> str:
    """Return the source of a reduction over the axes that are `folded`; the last layout is the output's.

    Neighbours on the last axis go to different accumulators, `work[:lanes]`: where that axis is folded too, the
    accumulators are combined at the end; where it is kept, each of them makes an element of the output.
    """
    code = statements(body, dtype, also=monoid.helpers)
    *inputs, target = layouts
    last = len(folded) - 1
    names = [*_names("a", inputs), "o0", "work", "lanes", *(f"n{k}" for k in range(last + 1))]
    flat = Layout(dtype.char, (0,), contiguous=True)
    outs = [_type(target if target.axes else flat), _type(flat)]
    types = [*(_type(x, "True") for x in inputs), *outs, *["types.uintp"] * (last + 2)]
    combine = f"work[k] = {monoid.code.format('work[k]', code.values[0])}"
    term = _nest(["for k in range(m):"], [f"i{last} = j + k", *_loads(inputs, dtype), *code.lines, combine])
    start, end = _nest(["for k in range(lanes):"], ["work[k] = IDENTITY"]), []
    if monoid.rounds:
        start += ["rows = blocks = NONE"]
        carry = ["lift(work, lanes, blocks)", "blocks += UNIT", "rows = NONE"]
        term += ["rows += UNIT", *_nest(["if rows == FULL:"], carry)]
        end = ["settle(work, lanes, blocks)"]

    def chunks(lines: list[str]) -> list[str]:
        lines = [f"m = min(lanes, n{last} - j)", *lines, "j += lanes"]
        return ["j = NONE", *_nest([f"while j < n{last}:"], lines)]

    loops = [f"for i{k} in range(n{k}):" for k in range(last)]
    kept = [loop for loop, f in zip(loops, folded, strict=False) if not f]
    inner = [loop for loop, f in zip(loops, folded, strict=False) if f]
    if folded[last]:
        place = _at("o0", target) if target.axes else "o0[NONE]"
        lines = [*start, *_nest(inner, chunks(term)), *end, "fold(work, lanes)", f"{place} = work[NONE]"]
    else:
        place = _at("o0", target).replace(f"i{last}]", "j + k]")
        store = _nest(["for k in range(m):"], [f"{place} = work[k]"])
        lines = chunks([*start, *_nest(inner, term), *end, *store])
    preamble = code.preamble + _ACCUMULATORS.format(
        identity=repr(str(monoid.identity)), block=BLOCK, combine=monoid.code.format("work[k]", "work[level + k]")
    )
    return _module(preamble, names, types, _nest(kept, lines))


_ACCUMULATORS = """
IDENTITY = F({identity})
NONE, UNIT, FULL = np.uintp(0), np.uintp(1), np.uintp({block})


@helper
def lift(work, lanes, blocks):
    # above the accumulators lie the sums of 1, 2, 4, ... blocks, one for each bit of `blocks`: carry like a counter
    level = lanes
    while blocks & UNIT:
        for k in range(lanes):
            work[k] = {combine}
        level += lanes
        blocks >>= UNIT
    for k in range(lanes):
        work[level + k] = work[k]
        work[k] = IDENTITY


@helper
def settle(work, lanes, blocks):
    level = lanes
    while blocks:
        if blocks & UNIT:
            for k in range(lanes):
                work[k] = {combine}
        level += lanes
        blocks >>= UNIT


@helper
def fold(work, lanes):
    level = lanes >> UNIT
    while level:
        for k in range(level):
            work[k] = {combine}
        level >>= UNIT
"""


def _module(preamble: str, names: list[str], types: list[str], lines: list[str]) -> str:
    declared = [f"    {t},  # {name}" for t, name in zip(types, names, strict=True)]
    head = ['helper = njit(error_model="numpy")', preamble, "", "SIGNATURE = types.void(", *declared, ")", "", ""]
    kernel = _nest([f"def kernel({', '.join(names)}):"], lines)
    return "\n".join([*head, '@njit(SIGNATURE, cache=True, error_model="numpy", nogil=True)', *kernel, ""])


def _nest(headers: list[str], lines: list[str]) -> list[str]:
    """Return `lines` inside the blocks that `headers` open, the first of them outermost."""
    for header in reversed(headers):
        lines = [header, *(f"    {line}" for line in lines)]
    return lines


def _names(letter: str, layouts: Sequence[Layout]) -> list[str]:
    return [f"{letter}{i}" for i in range(len(layouts))]


def _type(x: Layout, readonly: str = "False") -> str:
    scalar = f"types.{_TYPES[x.char]}"
    order = "C" if x.contiguous else "A"
    return f'types.Array({scalar}, {len(x.axes)}, "{order}", readonly={readonly})' if x.axes else scalar


def _at(name: str, x: Layout) -> str:
    return f"{name}[{', '.join(f'i{k}' for k in x.axes)}]" if x.axes else name


def _loads(inputs: Sequence[Layout], dtype: np.dtype) -> list[str]:
    loads = [_at(f"a{i}", x) for i, x in enumerate(inputs)]
    same = [x.char == dtype.char for x in inputs]
    return [f"x{i} = {a if s else f'F({a})'}" for i, (a, s) in enumerate(zip(loads, same, strict=True))]
