"""The CPU backend: loops in machine code, one for each layout of operands that occurs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fgrad import config
from fgrad.core.caches import LRU
from fgrad.expr.node import Expr
from fgrad.kernels import threads, vector
from fgrad.kernels.body import (
    BOOL,
    FLOAT64,
    Body,
    Statements,
    as_arrays,
    dtypes,
    load_dtype,
    prepare,
    statements,
)
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

Key: TypeAlias = tuple[Any, ...]


_PLAIN = 0x101  # of `ndarray.flags.num`: C-contiguous and aligned
_ARRAY, _EMPTY = np.ndarray, np.empty
_TYPES = {"?": "boolean", "f": "float32", "d": "float64"}
_INPUT: Any = ["readonly", "copy", "aligned", "nbo"]
_OUTPUT: Any = ["writeonly", "allocate", "aligned", "nbo"]


class Layout(NamedTuple):
    """How a loop nest sees one operand."""

    char: str  # of its dtype
    axes: tuple[int, ...]  # the loops that move along it; none for a scalar
    contiguous: bool


_loops: LRU[tuple[int, Key], Any] = LRU()  # by plan and layout: a `Loop`
_number = count()


class Plan(NamedTuple):
    """What the dtypes of the operands decide."""

    number: int  # of which there is no other
    compute: np.dtype  # the dtype of the arithmetic
    final: np.dtype  # the dtype of results that are numbers
    kinds: Any  # the dtypes in which the loops see the operands and the results
    cast: bool  # whether an operand is converted before the loops


class Elementwise:
    """A loop over elements; see `elementwise`."""

    __slots__ = ("_body", "_flat", "_plans")

    def __init__(self, body: Body) -> None:
        self._body = body
        self._flat: dict[Any, tuple[Loop | None, list[np.dtype]]] = {}
        self._plans: dict[Key, Plan] = {}

    def __call__(self, *operands: Any) -> Any:
        """Return the results for `operands`."""
        for first in operands:
            if type(first) is _ARRAY:
                break
        else:
            return self._run_nest(operands)
        key: Any = first.dtype
        dtype, shape = first.dtype, first.shape
        for a in operands:
            if type(a) is _ARRAY:
                if a.dtype is not dtype or a.shape != shape or a.flags.num & _PLAIN != _PLAIN:
                    return self._run_nest(operands)
            elif type(a) is float:
                key = None
            else:
                return self._run_nest(operands)
        if key is None:
            key = (dtype, *map(type, operands))
        found = self._flat.get(key)
        if found is None:
            found = self._flat[key] = self._make_flat(dtype, operands)
        loop, kinds = found
        if not loop or not shape:
            return self._run_nest(operands)
        outs = [_EMPTY(shape, kind) for kind in kinds]
        if len(shape) == 1:
            flat = [*operands, *outs]
        else:
            flat = [*[a if type(a) is float else a.ravel() for a in operands], *[o.ravel() for o in outs]]
        if first.size < 2 * threads.ELEMENTS:
            loop(*flat, 0, first.size)
        else:
            threads.share(loop, tuple(flat), first.size, first.size)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def text(self, dtype: np.dtype = FLOAT64) -> str:
        """Return the source of the kernel for contiguous arrays of `dtype`."""
        return _elementwise_text(self._body, dtype, 1, *self._flat_layouts(dtype, self._body.params))

    def _make_flat(self, dtype: np.dtype, operands: tuple[Any, ...]) -> tuple[Loop | None, list[np.dtype]]:
        """Return the loop for arrays of `dtype` and floats; none if those must be converted first."""
        compute, final = dtypes(self._body, as_arrays(self._body, operands))
        if compute is not dtype:
            return None, []
        text = _elementwise_text(self._body, dtype, 1, *self._flat_layouts(dtype, operands))
        return compiled(text), [BOOL if t else final for t in self._body.truths]

    def _flat_layouts(self, dtype: np.dtype, operands: Sequence[Any]) -> tuple[list[Layout], list[Layout]]:
        inputs = [Layout(dtype.char, () if type(a) is float else (0,), contiguous=True) for a in operands]
        return inputs, [Layout("?" if t else dtype.char, (0,), contiguous=True) for t in self._body.truths]

    def _run_nest(self, operands: tuple[Any, ...]) -> Any:
        """Compute on operands of any kind: NumPy's iterator broadcasts them, and sorts and merges axes."""
        arrays = as_arrays(self._body, operands)
        count = len(self._body.results)
        key = tuple([getattr(a, "dtype", None) for a in arrays])
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _plan(self._body, arrays)
        with np.errstate(all="ignore") if plan.cast else nullcontext():
            steps = np.nditer(
                [*arrays, *[None] * count],
                ["zerosize_ok"],
                [_INPUT] * len(arrays) + [_OUTPUT] * count,
                plan.kinds,
                casting="same_kind",
            )
            with steps:
                outs = steps.operands[len(arrays) :]
                if steps.itersize:
                    self._run_views(plan, steps.itviews)
        values = tuple([_finish(o, plan) for o in outs])
        return values[0] if count == 1 else values

    def _run_views(self, plan: Plan, views: tuple[np.ndarray, ...]) -> None:
        """Compute on views of one shape."""
        if not views[-1].ndim:
            views = tuple([v.reshape(1) for v in views])
        count = len(self._body.params)
        outs = views[count:]
        key, arrays = _layout(views[:count], outs)
        known = plan.number, key
        loop = _loops.young.get(known) or _loops.get(known)
        if loop is None:
            layouts = _layouts(plan, key)
            text = _elementwise_text(self._body, plan.compute, key[0], layouts[:count], layouts[count:])
            loop = _loops.setdefault(known, compiled(text))
        threads.share(loop, (*arrays, *outs), views[-1].shape[0], views[-1].size)


@lru_cache(config.cache_entries())
def _elementwise(body: Body) -> Elementwise:
    return Elementwise(body)


def elementwise(params: tuple[Expr, ...], results: tuple[Expr, ...]) -> Elementwise:
    """Return the kernel that computes `results` at every element of its broadcast operands.

    Args:
        params: the variables, one an operand.
        results: expressions in them; those that are equal but for the names of variables share a kernel.

    Returns:
        A function of one array or scalar a parameter. Several results come as a tuple, those of shape () as
        scalars. float32 stays float32, float16 is rounded from float32, other numbers are
        computed in float64; conditions are bool.
    """
    return _elementwise(prepare(params, results))


def _plan(body: Body, arrays: list[Any]) -> Plan:
    compute, final = dtypes(body, arrays)
    loads = [load_dtype(a, compute) for a in arrays]
    cast = loads != [getattr(a, "dtype", FLOAT64) for a in arrays]
    return Plan(next(_number), compute, final, [*loads, *(BOOL if t else compute for t in body.truths)], cast)


def _finish(out: Any, plan: Plan) -> Any:
    """Return `out` in its final dtype, and as a scalar if its shape is ()."""
    if plan.final is not plan.compute and out.dtype == plan.compute:
        with np.errstate(over="ignore"):
            out = out.astype(plan.final)
    return out if out.ndim else out[()]


def _layout(views: tuple[np.ndarray, ...], whole: tuple[np.ndarray, ...] = ()) -> tuple[Key, list[Any]]:
    """Return what loops must know of strides, and `views` without the axes along which they stand still."""
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


def _layouts(plan: Plan, key: Key) -> list[Layout]:
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
    code = _statements(body, dtype)
    names = [*_names("a", inputs), *_names("o", outputs), "lo", "hi"]
    types = [*(_type(x, "True") for x in inputs), *(_type(x) for x in outputs), *["types.uintp"] * 2]
    stores = [f"{_at(f'o{i}', o)} = {v}" for i, (o, v) in enumerate(zip(outputs, code.values, strict=True))]
    loops = ["for i0 in range(lo, hi):", *(f"for i{k} in range(n{k}):" for k in range(1, rank))]
    lines = [
        *(f"n{k} = np.uintp(o0.shape[{k}])" for k in range(1, rank)),
        *_nest(loops, [*_loads(inputs, dtype), *code.lines, *stores]),
    ]
    asked = [*_shapes("a", inputs), *_shapes("o", outputs), "hi <= n0"]
    return _module(code.preamble, names, types, lines, asked)


def _statements(body: Body, dtype: np.dtype) -> Statements:
    """Return the text of `body`, in which functions of `math` are vector code."""
    code = statements(body, dtype, vector.REPLACED)
    lines, head = list(map(vector.substituted, code.lines)), vector.substituted(code.preamble)
    functions = vector.preamble("\n".join([head, *lines]), dtype)
    return Statements(f"{head}\n\n\n{functions}" if functions else head, lines, code.values)


def _module(preamble: str, names: list[str], types: list[str], lines: list[str], asked: list[str]) -> str:
    declared = [f"    {t},  # {name}" for t, name in zip(types, names, strict=True)]
    head = [
        f'CONTRACT = "{", ".join(asked)}"',
        preamble,
        "",
        "SIGNATURE = types.void(",
        *declared,
        ")",
        "",
        "",
    ]
    kernel = _nest([f"def kernel({', '.join(names)}):"], lines)
    decorator = '@typed(SIGNATURE, "contract")' if "def fast_" in preamble else "@typed(SIGNATURE)"
    return "\n".join([*head, decorator, *kernel, ""])


def _nest(headers: list[str], lines: list[str]) -> list[str]:
    """Return `lines` inside the blocks that `headers` open, the first of them outermost."""
    for header in reversed(headers):
        lines = [header, *(f"    {line}" for line in lines)]
    return lines


def _shapes(letter: str, layouts: Sequence[Layout]) -> list[str]:
    """Return the shapes of arrays, as contracts say them."""
    axes = [", ".join(f"n{k}" for k in x.axes) for x in layouts]
    return [f"{letter}{i}[{sizes}]" for i, sizes in enumerate(axes) if sizes]


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
