"""The CPU backend: loops in machine code, one for each layout of operands that occurs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fgrad import config
from fgrad.core.caches import LRU
from fgrad.expr.node import Expr
from fgrad.kernels import threads, vector
from fgrad.kernels.body import BOOL, FLOAT32, FLOAT64, Body, Statements, prepare, statements
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

Key: TypeAlias = tuple[Any, ...]


_PLAIN = 0x101  # of `ndarray.flags.num`: C-contiguous and aligned
_ARRAY, _EMPTY = np.ndarray, np.empty
_INPUT: Any = ["readonly", "copy", "aligned"]
_OUTPUT: Any = ["writeonly", "allocate", "aligned"]


class Layout(NamedTuple):
    """How a loop nest sees one operand."""

    axes: tuple[int, ...]  # the loops that move along it; none for a scalar
    contiguous: bool


_loops: LRU[Key, Any] = LRU()  # by kernel, dtype and layouts: a `Loop`


class Elementwise:
    """A loop over elements; see `elementwise`."""

    __slots__ = ("_body", "_flat")

    def __init__(self, body: Body) -> None:
        self._body = body
        self._flat: dict[Any, tuple[Loop, list[np.dtype[Any]]]] = {}

    def __call__(self, first: Any, *others: Any) -> Any:
        """Return the results for arrays of one dtype, of which `first` is one, and floats."""
        key: Any = first.dtype
        dtype, shape, operands = first.dtype, first.shape, (first, *others)
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
            text = self._flat_text(dtype, [type(a) is float for a in operands])
            found = self._flat[key] = compiled(text), self._kinds(dtype)
        loop, kinds = found
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

    def text(self, dtype: np.dtype[Any] = FLOAT64) -> str:
        """Return the source of the kernel for contiguous arrays of `dtype`."""
        return self._flat_text(dtype, [False] * len(self._body.params))

    def _flat_text(self, dtype: np.dtype[Any], scalars: Sequence[bool]) -> str:
        layouts = [Layout(() if s else (0,), contiguous=True) for s in scalars]
        layouts += [Layout((0,), contiguous=True)] * len(self._body.results)
        return _elementwise_text(self._body, dtype, 1, layouts)

    def _kinds(self, dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
        """Return the dtypes of the results."""
        return [BOOL if t else dtype for t in self._body.truths]

    def _run_nest(self, operands: tuple[Any, ...]) -> Any:
        """Compute on operands that lie in any way: NumPy's iterator broadcasts, and sorts and merges axes."""
        body, dtype = self._body, np.dtype(operands[0].dtype.char)
        if len(operands) != len(body.params):
            raise TypeError(f"this kernel takes {len(body.params)} operands, not {len(operands)}")
        narrow = dtype == FLOAT32 and float in map(type, operands)
        with np.errstate(over="ignore") if narrow else nullcontext():
            arrays = [dtype.type(a) if type(a) is float else np.asarray(a) for a in operands]
        steps = np.nditer(
            [*arrays, *[None] * len(body.results)],
            ["zerosize_ok"],
            [_INPUT] * len(arrays) + [_OUTPUT] * len(body.results),
            [*[dtype] * len(arrays), *self._kinds(dtype)],
            casting="no",
        )
        with steps:
            outs = steps.operands[len(arrays) :]
            if steps.itersize:
                self._run_views(dtype, steps.itviews)
        return outs[0] if len(outs) == 1 else outs

    def _run_views(self, dtype: np.dtype[Any], views: tuple[np.ndarray[Any, Any], ...]) -> None:
        """Compute on views of one shape, the last of which are the results."""
        count = len(self._body.params)
        key, arrays = _layouts(views[:count], views[count:])
        known = self, dtype, key
        loop = _loops.young.get(known) or _loops.get(known)
        if loop is None:
            rank = views[-1].ndim
            text = _elementwise_text(self._body, dtype, rank, [Layout(*x) for x in key])
            loop = _loops.setdefault(known, compiled(text))
        threads.share(loop, tuple(arrays), views[-1].shape[0], views[-1].size)


@lru_cache(config.cache_entries())
def _elementwise(body: Body) -> Elementwise:
    return Elementwise(body)


def elementwise(params: tuple[Expr, ...], results: tuple[Expr, ...]) -> Elementwise:
    """Return the kernel that computes `results` at every element of its broadcast operands.

    Args:
        params: the variables, one an operand.
        results: expressions in them; those that are equal but for the names of variables share a kernel.

    Returns:
        A function of one array or float a parameter, of which the first is an array. Arrays are all of
        float32, or all of float64, and so are the results, but for conditions, which are bool. Several
        results come as a tuple.
    """
    return _elementwise(prepare(params, results))


def _layouts(
    inputs: tuple[np.ndarray[Any, Any], ...], outs: tuple[np.ndarray[Any, Any], ...]
) -> tuple[Key, list[Any]]:
    """Return the layouts of views, and the views, of inputs without the axes along which they stand still."""
    every = tuple(range(outs[0].ndim))
    key: list[Any] = []
    arrays: list[Any] = []
    for view in inputs:
        v, strides, axes = view, view.strides, every
        if 0 in strides:
            v = view[(..., *[slice(None) if s else 0 for s in strides])]
            axes = tuple([i for i, s in enumerate(strides) if s])
        key.append((axes, v.flags.num & 1))
        arrays.append(v)
    key += [(every, o.flags.num & 1) for o in outs]
    return tuple(key), [*arrays, *outs]


def _elementwise_text(body: Body, dtype: np.dtype[Any], rank: int, layouts: Sequence[Layout]) -> str:
    """Return the kernel for operands and results with these layouts, whose loops are `rank` deep."""
    if dtype not in (FLOAT32, FLOAT64):
        raise TypeError(f"a kernel computes with float32 or float64, not with {dtype}")
    code = _statements(body, dtype)
    inputs = [f"a{i}" for i in range(len(body.params))]
    names = [*inputs, *(f"o{i}" for i in range(len(body.results)))]
    kinds = [dtype.name] * len(inputs) + ["boolean" if t else dtype.name for t in body.truths]
    each = list(zip(names, kinds, layouts, strict=True))
    elements = [_at(name, x) for name, _, x in each]
    loads = [f"x{i} = {a}" for i, a in enumerate(elements[: len(inputs)])]
    stores = [f"{o} = {v}" for o, v in zip(elements[len(inputs) :], code.values, strict=True)]
    loops = ["for i0 in range(lo, hi):", *(f"for i{k} in range(n{k}):" for k in range(1, rank))]
    lines = [
        *(f"n{k} = np.uintp(o0.shape[{k}])" for k in range(1, rank)),
        *_nest(loops, [*loads, *code.lines, *stores]),
    ]
    types = [_type(kind, x, readonly=name in inputs) for name, kind, x in each] + ["types.uintp"] * 2
    asked = [f"{name}[{', '.join(f'n{k}' for k in x.axes)}]" for name, _, x in each if x.axes]
    return _module(code.preamble, [*names, "lo", "hi"], types, lines, [*asked, "hi <= n0"])


def _statements(body: Body, dtype: np.dtype[Any]) -> Statements:
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


def _type(kind: str, x: Layout, *, readonly: bool) -> str:
    if not x.axes:
        return f"types.{kind}"
    order = "C" if x.contiguous else "A"
    return f'types.Array(types.{kind}, {len(x.axes)}, "{order}", readonly={readonly})'


def _at(name: str, x: Layout) -> str:
    return f"{name}[{', '.join(f'i{k}' for k in x.axes)}]" if x.axes else name
