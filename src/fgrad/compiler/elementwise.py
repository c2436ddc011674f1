"""Eager calls on large arrays: scalar expressions as the loops that programs have for them.

A loop is compiled once for all arrays that lie alike: lengths and strides are arguments, but a stride of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fgrad import config
from fgrad.compat.numpy import address
from fgrad.compiler.emit import Interleaved, Kernel, Memory, pointwise
from fgrad.compiler.index import Index
from fgrad.compiler.loop_nests import Place
from fgrad.core.aval import Aval
from fgrad.core.caches import LRU
from fgrad.errors import BrokenContractError
from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import Expr, postorder
from fgrad.kernels import checks, intrinsics, native, threads, vm
from fgrad.kernels.body import BOOL, FLOAT32, FLOAT64, Body, prepare

Key: TypeAlias = tuple[Any, ...]
Array: TypeAlias = np.ndarray[Any, Any]

OPERATIONS = 2  # of an element, which take as long as reading and writing it
COSTLY = 4  # operations on single elements, at least, take as long as one on complex numbers
_PLAIN = 0x101  # of `ndarray.flags.num`: C-contiguous and aligned
_ARRAY, _EMPTY = np.ndarray, np.empty
_INPUT: Any = ["readonly", "copy", "aligned"]
_OUTPUT: Any = ["writeonly", "allocate", "aligned"]


class _Flat(NamedTuple):
    """The loop over contiguous arrays of one dtype."""

    kernel: native.Kernel
    numbers: Array
    kinds: list[np.dtype[Any]]  # of the results


class _Nest(NamedTuple):
    """Loops over views of one shape, with some strides."""

    kernel: native.Kernel
    numbers: Array
    turns: int
    # of each view how many bytes before its address memory begins, and its size
    pieces: list[tuple[int, int]]


_nests: LRU[Key, _Nest] = LRU()


class Elementwise:
    """Loops over elements; see `elementwise`."""

    __slots__ = ("_body", "_count", "_flat", "_work")

    def __init__(self, body: Body) -> None:
        self._body, self._count = body, len(body.params)
        operations = sum(ATOMS[e.head].cost for e in postorder(*body.results) if e.args)
        self._work = max(1, operations // OPERATIONS)
        self._flat: dict[Any, _Flat] = {}

    def __call__(self, first: Any, *others: Any) -> Any:
        """Return the results for arrays of one dtype, of which `first` is one, and floats."""
        key: Any = first.dtype
        dtype, shape, operands = first.dtype, first.shape, (first, *others)
        if len(operands) != self._count:
            raise TypeError(f"this kernel takes {self._count} operands, not {len(operands)}")
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
            char = dtype.char
            with np.errstate(over="ignore") if char == "f" else nullcontext():
                operands = tuple([np.array(a, char) if type(a) is float else a for a in operands])
        kernel, numbers, kinds = self._flat.get(key) or self._made(key, dtype)
        outs = [_EMPTY(shape, kind) for kind in kinds]
        arrays = [*operands, *outs]
        size, work = first.size, first.size * self._work
        slots = _slots([(address(a), a.nbytes) for a in arrays], arrays)
        if work < 2 * threads.ELEMENTS:
            vm.call(kernel, numbers, slots, 0, size)
        else:
            threads.share(vm.Loop(kernel, numbers, slots), (), size, work)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def text(self, dtype: np.dtype[Any] = FLOAT64) -> str:
        """Return the source of the kernel for contiguous arrays of `dtype`."""
        return self._kernel(dtype, (2,), [(1,)] * self._count)[0].text

    def _made(self, key: Any, dtype: np.dtype[Any]) -> _Flat:
        """Return the loop over contiguous arrays, whatever their length, and floats where `key` says so."""
        kinds = [_ARRAY] * self._count if key is dtype else key[1:]
        kernel, numbers, _ = self._kernel(dtype, (2,), [(int(t is not float),) for t in kinds])
        return self._flat.setdefault(key, _Flat(native.compiled(kernel.text), numbers, self._kinds(dtype)))

    def _kinds(self, dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
        """Return the dtypes of the results."""
        return [BOOL if t else dtype for t in self._body.truths]

    def _run_nest(self, operands: tuple[Any, ...]) -> Any:
        """Compute on operands that lie in any way: NumPy's iterator broadcasts, and sorts and merges axes."""
        body, dtype = self._body, np.dtype(operands[0].dtype.char)
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

    def _run_views(self, dtype: np.dtype[Any], views: tuple[Array, ...]) -> None:
        """Compute on views of one shape, the last of which are the results."""
        shape = views[-1].shape
        key = (self, dtype, shape, *[v.strides for v in views])
        kernel, numbers, turns, pieces = _nests.young.get(key) or _nests.get(key) or self._nest(key, views)
        starts = [(address(v) - before, size) for v, (before, size) in zip(views, pieces, strict=True)]
        slots = _slots(starts, views)
        threads.share(vm.Loop(kernel, numbers, slots), (), turns, views[-1].size * self._work)

    def _nest(self, key: Key, views: tuple[Array, ...]) -> _Nest:
        """Return the loops over views."""
        shape = views[-1].shape
        strides = []
        for v in views:
            counts, rests = zip(*(divmod(s, v.itemsize) for s in v.strides), strict=True)
            if any(rests):
                raise BrokenContractError(f"elements of {v.itemsize} bytes do not lie {v.strides} apart")
            strides.append(counts)
        kernel, numbers, places = self._kernel(views[0].dtype, shape, strides)
        sizes = [
            (p.at.const * v.itemsize, p.buffer.aval.size * v.itemsize)
            for p, v in zip(places, views, strict=True)
        ]
        made = _Nest(native.compiled(kernel.text), numbers, kernel.turns, sizes)
        return _nests.setdefault(key, made)

    def _kernel(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], strides: Sequence[Sequence[int]]
    ) -> tuple[Kernel, Array, list[Place]]:
        """Return the kernel for operands with these strides, its numbers, and where each lies.

        The strides of results follow; they are one if not given.
        """
        if dtype not in (FLOAT32, FLOAT64):
            raise TypeError(f"a kernel computes with float32 or float64, not with {dtype}")
        count = self._count
        dtypes = [*[dtype] * count, *self._kinds(dtype)]
        strides = [*strides, *[(1,)] * (len(dtypes) - len(strides))]
        each = zip(dtypes, strides, strict=True)
        places = [_place(d, f"x{i}", shape, s) for i, (d, s) in enumerate(each)]
        kernel = pointwise(self._body, dtype, shape, places[:count], places[count:])
        slots = [next(i for i, p in enumerate(places) if p.buffer is b) for b in kernel.buffers]
        return kernel, np.array([*slots, *kernel.numbers], np.int64), places


class Pairs(Elementwise):
    """The loop over contiguous complex numbers, which makes the parts of the results of their parts."""

    __slots__ = ()

    def __call__(self, x: Any) -> Any:
        """Return the results for an array."""
        dtype = x.real.dtype
        kernel, numbers, _ = self._flat.get(dtype) or self._made(dtype, dtype)
        out = np.empty_like(x)
        arrays = [a.reshape(-1).view(dtype) for a in (x, out)]
        slots = _slots([(address(a), a.nbytes) for a in arrays], arrays)
        threads.share(vm.Loop(kernel, numbers, slots), (), x.size, COSTLY * x.size)
        return out

    def _made(self, key: Any, dtype: np.dtype[Any]) -> _Flat:
        """Return the loop, whatever the length of arrays, for parts of a dtype."""
        x, out = (Interleaved(Aval((4,), dtype), name) for name in ("x", "out"))
        given, made = ([Place(memory, Index(i, ((0, 2),))) for i in range(2)] for memory in (x, out))
        kernel = pointwise(self._body, dtype, (2,), given, made)
        numbers = np.array([*(int(b is out) for b in kernel.buffers), *kernel.numbers], np.int64)
        return self._flat.setdefault(key, _Flat(native.compiled(kernel.text), numbers, []))


def _place(dtype: np.dtype[Any], name: str, shape: Sequence[int], strides: Sequence[int]) -> Place:
    """Return where a loop nest reads or writes, in memory that begins at the lowest element."""
    ends = [s * (n - 1) for s, n in zip(strides, shape, strict=True)]
    size = 1 + sum(map(abs, ends))
    at = Index(-sum(e for e in ends if e < 0), tuple((k, s) for k, s in enumerate(strides) if s))
    return Place(Memory(Aval((size,), dtype), name), at)


def _slots(pieces: Sequence[tuple[int, int]], arrays: Sequence[Array]) -> Any:
    """Return slots that hold pieces of memory, each with its address and its bytes, inside of arrays."""
    if native.interpreted():
        low = [
            a[tuple(slice(None, None, -1 if s < 0 else 1) for s in a.strides)]
            for a in map(np.atleast_1d, arrays)
        ]
        each = zip(low, pieces, strict=True)
        return intrinsics.Slots(as_strided(a, (n // a.itemsize,), (a.itemsize,)) for a, (_, n) in each)
    if checks.ON:
        return np.array([w for start, n in pieces for w in (start, start, start + n)], np.int64)
    return np.array([start for start, _ in pieces], np.int64)


def elementwise(
    params: Sequence[Expr], results: Sequence[Expr], kind: Callable[[Body], Any] = Elementwise
) -> Any:
    """Return the function that computes `results` at every element of its broadcast operands.

    Args:
        params: the variables, one an operand.
        results: expressions in them; those that are equal but for the names of variables share a kernel.
        kind: what makes the function: the `Elementwise` of this module or of `device`.

    Returns:
        A function of one array or float a parameter, of which the first (on a device at least one) is an
        array. Arrays are all of float32, or all of float64, and so are the results, but for conditions,
        which are bool. Several results come as a tuple.
    """
    return _made(kind, prepare(params, results))


@lru_cache(config.cache_entries())
def _made(kind: Callable[[Body], Any], body: Body) -> Any:
    return kind(body)
