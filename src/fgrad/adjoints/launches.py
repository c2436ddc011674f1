"""Where entries are called: by compiled programs, and for all examples of a batch, shared among threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.adjoints import entries
from fgrad.adjoints.entries import DTYPES, Entry, Task
from fgrad.adjoints.programs import Program, dtype_of
from fgrad.compiler.library import FAULTS, Launch
from fgrad.core.aval import Aval
from fgrad.core.program import Equation, Var, aval_out
from fgrad.kernels import checks, threads, vm

WORK = 1 << 15  # operations of a kernel, at least, or so


def task_of(program: Program, wrt: tuple[int, ...] | None, given: tuple[int, ...]) -> Task:
    """Return what an entry computes for a program: for all of its examples if it is one of a batch."""
    return Task(wrt, given, program.masks)


def launched(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the call of an entry that an equation is; None where Python calls the kernel."""
    params = equation.params
    program: Program = params["kernel"]
    if "complex_avals" in params:  # of complex numbers, which are pairs here
        operands, results = params["complex_avals"]
    else:
        operands = tuple(map(aval_out, equation.args))
        results = tuple(v.aval for v in equation.outs)
    avals = [*operands, *results]
    if any(a.dtype.char not in DTYPES or not a.dtype.isnative for a in avals):
        return None
    task = task_of(program, params.get("wrt"), params.get("given", ()))
    count = len(task.given) if task.wrt is not None else 0
    ordered = [*operands[count:], *operands[:count], *results]  # as items are
    found = entries.entry(program.root, task)
    if found is None or not _fit(found, ordered):
        return None
    sizes, shapes, steps = _layout(found, ordered)
    turns = math.prod(sizes)
    if found.is_sum and not turns:  # nobody would write the zeros
        return None
    words: list[int] = []
    places = []
    for x in (*equation.args[count:], *equation.args[:count], *equation.outs):
        if isinstance(x, Var):
            places.append(slots[x])
        elif np.ndim(getattr(x, "_value", x)):  # not yet a variable
            return None
        else:
            places.append(-1 - found.length - len(words))
            words += _words(x, ordered[len(places) - 1].dtype)
    numbers = found.numbers(places, slots[FAULTS], sizes, shapes, steps, [x for _, x in program.fixed])
    each = max(WORK, 8 * sum(math.prod(s) for s in shapes))
    return Launch(found.kernel, [*numbers, *words], turns, turns * each, found.shared, fails=True)


def _fit(entry: Entry, avals: Sequence[Aval]) -> bool:
    """Return whether arrays are what an entry takes."""
    return all(
        a.dtype == dtype_of(i.type) and len(a.shape) == sum(i.mask) + i.rank
        for i, a in zip(entry.items, avals, strict=True)
    )


def _layout(entry: Entry, avals: Sequence[Aval]) -> tuple[list[int], list[tuple[int, ...]], list[list[int]]]:
    """Return the sizes of axes of examples, the shapes of examples, and the bytes between them."""
    sizes = [0] * entry.levels
    shapes, steps = [], []
    for item, a in zip(entry.items, avals, strict=True):
        lead = iter(a.shape[: sum(item.mask)])
        shape = a.shape[sum(item.mask) :]
        shapes.append(shape)
        step = [0] * entry.levels
        size = math.prod(shape) * a.dtype.itemsize
        for k, m in enumerate(item.mask):
            if m:
                sizes[k] = next(lead)
        for k in range(entry.levels - 1, -1, -1):
            if item.mask[k]:
                step[k] = size
                size *= sizes[k]
        steps.append(step)
    return sizes, shapes, steps


def _words(x: Any, dtype: np.dtype[Any]) -> list[int]:
    """Return a number as words."""
    held = np.zeros(2, np.int64)
    held.view(dtype)[0] = getattr(x, "_value", x)
    return [int(w) for w in held[: max(1, dtype.itemsize // 8)]]


def batch(
    program: Program, values: Sequence[Any], results: Sequence[Aval], wrt: Any = None, given: Any = ()
) -> list[np.ndarray[Any, Any]] | None:
    """Return what an entry computes for all examples; None where Python has to call the kernel.

    Args:
        program: the kernel.
        values: operands, and then cotangents, with their axes of examples first.
        results: what comes out.
        wrt: as of `Task`.
        given: likewise.
    """
    found = entries.entry(program.root, task_of(program, wrt, given))
    if found is None:
        return None
    arrays = [np.asarray(v) for v in values]
    outs = [np.empty(a.shape, a.dtype) for a in results]
    whole = [*arrays, *outs]
    avals = [Aval(a.shape, a.dtype) for a in whole]
    if not _fit(found, avals):
        return None
    sizes, shapes, steps = _layout(found, avals)
    for k, (item, a) in enumerate(zip(found.items[: len(arrays)], arrays, strict=True)):
        whole[k], steps[k] = _laid(a, item, steps[k])
    faults = np.zeros(1, np.int64)
    numbers = np.array(
        found.numbers(range(len(whole)), len(whole), sizes, shapes, steps, [x for _, x in program.fixed]),
        np.int64,
    )
    turns = math.prod(sizes)
    if turns:
        loop = vm.Loop(found.kernel, numbers, checks.addresses([*whole, faults]))
        work = turns * max(WORK // 8, sum(math.prod(s) for s in shapes))
        threads.share(loop, (), turns, work if found.shared else 0)
    elif found.is_sum:
        for o in outs:
            o[...] = 0
    return None if faults[0] else outs


def _laid(a: Any, item: entries.Item, step: list[int]) -> tuple[Any, list[int]]:
    """Return an array whose examples are contiguous and aligned, and the bytes between them.

    What is broadcast along an axis of examples is not copied.
    """
    lead = sum(item.mask)
    inner = a[(0,) * lead] if a.size else a
    contiguous = np.asarray(inner).flags.c_contiguous and all(s % a.dtype.itemsize == 0 for s in a.strides)
    if not a.size or not contiguous or not a.flags.aligned:
        return np.ascontiguousarray(a), step
    strides = iter(a.strides[:lead])
    return a, [next(strides) if m else 0 for m in item.mask]
