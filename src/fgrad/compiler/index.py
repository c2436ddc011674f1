"""Places along axes, as integer-linear functions of loop counters: what views dissolve into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from fgrad import config
from fgrad.core.aval import Shape


class Index(NamedTuple):
    """`const` plus the sum of `coefficient * counter` over `terms`, whose counters are in order."""

    const: int = 0
    terms: tuple[tuple[int, int], ...] = ()  # (loop, coefficient)


HERE = Index()


def counter(loop: int) -> Index:
    """Return the counter of a loop itself."""
    return Index(0, ((loop, 1),))


def plus(x: Index, y: Index) -> Index:
    """Return the sum."""
    if not y.terms:
        return Index(x.const + y.const, x.terms)
    if not x.terms:
        return Index(x.const + y.const, y.terms)
    total = dict(x.terms)
    for loop, c in y.terms:
        total[loop] = total.get(loop, 0) + c
    return Index(x.const + y.const, tuple(sorted((k, c) for k, c in total.items() if c)))


def times(x: Index, factor: int) -> Index:
    """Return the multiple."""
    if factor == 1:
        return x
    if not x.terms:
        return Index(x.const * factor)
    return Index(x.const * factor, tuple([(k, c * factor) for k, c in x.terms if factor]))


def reach(ix: Index, sizes: Mapping[int, int]) -> tuple[int, int]:
    """Return the least and the largest place that an index is, given the sizes of the counters."""
    steps = [(c, sizes[k] - 1) for k, c in ix.terms]
    least = ix.const + sum(c * n for c, n in steps if c < 0)
    return least, ix.const + sum(c * n for c, n in steps if c > 0)


@lru_cache(config.cache_entries())
def strides(shape: Shape) -> tuple[int, ...]:
    """Return the strides of a C-contiguous array, in elements."""
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= n
    return tuple(reversed(out))


def linear(indices: Sequence[Index], shape: Shape) -> Index:
    """Return the place in memory of the element at `indices`."""
    total = HERE
    for ix, step in zip(indices, strides(shape), strict=True):
        if ix != HERE:
            total = plus(total, times(ix, step))
    return total


def split(ix: Index, shape: Shape, sizes: Mapping[int, int]) -> tuple[Index, ...] | None:
    """Return the indices along axes of `shape` whose row-major place is `ix`; None where they are not linear.

    Args:
        ix: a place.
        shape: the axes it is the place in.
        sizes: of the counters.
    """
    rest, out = ix, []
    for step in strides(shape):
        part = [(k, c // step) for k, c in rest.terms if step and c % step == 0]
        high = dict(part)
        below = Index(rest.const % step, tuple((k, c) for k, c in rest.terms if k not in high))
        reach = below.const + sum(c * (sizes[k] - 1) for k, c in below.terms)
        if reach >= step or any(c < 0 for _, c in rest.terms):
            return None
        out.append(Index(rest.const // step, tuple(part)))
        rest = below
    return tuple(out)
