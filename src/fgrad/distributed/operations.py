"""Collective operations on flat arrays, each in one order on all ranks, so that results repeat bit for bit.

They send arrays to which nobody writes any more (until the hub says that they are sent), and return new ones.

A sum adds the values of the ranks 0, 1, 2, ... in this order, whoever comes first. Small arrays go from each
rank to each other one, which adds them all; of large ones each rank adds a part and hands it to the others
(reduce-scatter and all-gather: Thakur, Rabenseifner & Gropp (2005), Optimization of collective communication
operations in MPICH). Both ways give the same bits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from fgrad.distributed.exchange import MESSAGE, Hub, Operation

DIRECT = 16_384  # bytes that go to everybody at once


def all_reduce(hub: Hub, x: Any, words: str, *, mean: bool = False, direct: int = DIRECT) -> Operation:
    """Return the sum or mean over all ranks of the flat array `x`, which stays as it is until it is sent."""
    number, others, rank = hub.number(), hub.others, hub.rank
    if not others:
        return x.copy()
    total = np.empty_like(x)  # `x` may still be on its way
    if x.nbytes <= direct or len(others) == 1:  # between two, both ways send as much
        yield from _reduce(hub, number, words, [x] * hub.size, total, mean)
        return total
    ends = [x.size * r // hub.size for r in range(hub.size + 1)]
    results = [total[a:b] for a, b in pairwise(ends)]
    yield from _reduce(hub, number, words, [x[a:b] for a, b in pairwise(ends)], results[rank], mean)
    sent = results[rank].copy()  # the result belongs to who asked for it, at once
    yield hub.exchange(words, number, dict.fromkeys(others, sent), {r: results[r] for r in others}, phase=1)
    return total


def _reduce(hub: Hub, number: int, words: str, shares: Any, out: Any, mean: bool = False) -> Operation:
    """Send each rank its share; add those of all ranks for this one, in their order, into `out`."""
    own = shares[hub.rank]
    parts = np.empty_like(own, shape=(hub.size, own.size))
    yield hub.exchange(words, number, {r: shares[r] for r in hub.others}, {r: parts[r] for r in hub.others})
    first, second, *more = [own if r == hub.rank else part for r, part in enumerate(parts)]
    np.add(first, second, out=out)
    for part in more:
        out += part
    if mean:
        out /= hub.size


def reduce_scatter(hub: Hub, x: Any, words: str) -> Operation:
    """Return the sum over all ranks of the row of `x` that belongs to this rank: a new array."""
    own = x[hub.rank]
    if not hub.others:
        return own.copy()
    total = np.empty_like(own)
    yield from _reduce(hub, hub.number(), words, x, total)
    return total


def all_gather(hub: Hub, x: Any, words: str) -> Operation:
    """Return the flat arrays of all ranks as the rows of a new one."""
    out = np.empty_like(x, shape=(hub.size, x.size))
    out[hub.rank] = x
    if hub.others:
        sends = dict.fromkeys(hub.others, x)
        yield hub.exchange(words, hub.number(), sends, {r: out[r] for r in hub.others})
    return out


def broadcast(hub: Hub, x: Any, words: str, root: int) -> Operation:
    """Return the flat array of the rank `root`, received into `x` on the others."""
    sends = dict.fromkeys(hub.others, x) if hub.rank == root else {}
    if hub.others:
        words = f"{words} from rank {root}"
        yield hub.exchange(words, hub.number(), sends, {} if hub.rank == root else {root: x})
    return x


def permute(hub: Hub, x: Any, words: str, perm: tuple[tuple[int, int], ...]) -> Operation:
    """Return the flat array of the rank that `perm`, pairs (source, destination), sends here, or zeros."""
    out = np.zeros_like(x)
    sends = {d: x for s, d in perm if s == hub.rank != d}
    receives = {s: out for s, d in perm if d == hub.rank != s}
    if (hub.rank, hub.rank) in perm:
        out[...] = x
    number = hub.number()  # of all ranks, also those that have no part in it
    if sends or receives:
        yield hub.exchange(words, number, sends, receives)
    return out


def transfer(hub: Hub, x: Any, words: str, dest: int | None, source: int | None) -> Operation:
    """Send `x`, which stays as it is, to `dest`, without waiting; return what `source` sends, or zeros.

    Others take no part.
    """
    out = np.zeros_like(x)
    if dest is not None:
        number = hub.number(MESSAGE, dest)
        hub.exchange(words, number, {dest: x}, {}, kind=MESSAGE)
    if source is not None:
        number = hub.number(-MESSAGE, source)  # messages that came are counted on their own
        yield hub.exchange(words, number, {}, {source: out}, kind=MESSAGE)
    return out
