"""Greedy colourings of sparse matrices: columns that share no row, and stars of symmetric ones.

Sources: Gebremedhin, Manne & Pothen (2005), What color is your Jacobian?, SIAM Review 47, algorithm 3.1, of
columns; Gebremedhin, Tarafdar, Manne & Pothen (2007), New acyclic and star coloring algorithms, SIAM J. Sci.
Comput. 29, algorithm 4.1, of stars; Matula & Beck (1983), Smallest-last ordering, J. ACM 30, of orders.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

_HEAD = """
CONTRACT = "{contract}"
DISTINCT = True
U, NONE, ZERO, ONE, NEXT = np.uintp, np.int64(-1), np.int64(0), np.int64(1), np.uintp(1)
IN, OUT = (types.Array(types.int64, 1, "C", readonly=one) for one in (True, False))
"""
_COLUMNS = """
SIGNATURE = types.void(IN, IN, IN, IN, IN, OUT, OUT, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(heads, columns, tails, rows, order, colour, seen, lo, hi):
    for k in range(lo, hi):
        v = order[k]
        for a in range(U(tails[U(v)]), U(tails[U(v) + NEXT])):
            i = U(rows[a])
            for b in range(U(heads[i]), U(heads[i + NEXT])):
                c = colour[U(columns[b])]
                if c > NONE:
                    seen[U(c)] = v
        least = ZERO
        while seen[U(least)] == v:
            least += ONE
        colour[U(v)] = least
"""
_ORDER = """
SIGNATURE = types.void(IN, IN, IN, IN, OUT, OUT, OUT, OUT, OUT, types.int64, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(heads, columns, tails, rows, degree, first, after, before, order, step, lo, hi):
    n = np.int64(order.shape[0])
    top = np.int64(first.shape[0]) - ONE
    for v in range(U(n)):  # lists of vertices of the same degree
        d = U(degree[v])
        after[v] = first[d]
        before[v] = NONE
        if first[d] > NONE:
            before[U(first[d])] = np.int64(v)
        first[d] = np.int64(v)
    at = ZERO if step < ZERO else top
    for turn in range(lo, hi):
        while first[U(at)] == NONE:
            at -= step
        v = first[U(at)]
        first[U(at)] = after[U(v)]
        if after[U(v)] > NONE:
            before[U(after[U(v)])] = NONE
        degree[U(v)] = NONE
        order[U(n - ONE - np.int64(turn)) if step < ZERO else U(turn)] = v
        for a in range(U(tails[U(v)]), U(tails[U(v) + NEXT])):
            i = U(rows[a])
            for b in range(U(heads[i]), U(heads[i + NEXT])):
                w = U(columns[b])
                d = degree[w]
                if d > NONE:
                    if before[w] > NONE:
                        after[U(before[w])] = after[w]
                    else:
                        first[U(d)] = after[w]
                    if after[w] > NONE:
                        before[U(after[w])] = before[w]
                    d = min(max(d + step, ZERO), top)
                    degree[w] = d
                    after[w] = first[U(d)]
                    before[w] = NONE
                    if first[U(d)] > NONE:
                        before[U(first[U(d)])] = np.int64(w)
                    first[U(d)] = np.int64(w)
                    if (d - at) * step > ZERO:
                        at = d
"""
_STARS = """
SIGNATURE = types.void(IN, IN, IN, IN, OUT, OUT, OUT, OUT, OUT, OUT, OUT, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(heads, columns, edges, order, colour, seen, source, place, treated, star, hub, lo, hi):
    for k in range(lo, hi):
        v = order[k]
        start, stop = U(heads[U(v)]), U(heads[U(v) + NEXT])
        for a in range(start, stop):
            w = U(columns[a])
            own = colour[w]
            if own > NONE:
                seen[U(own)] = v
                if source[U(own)] == v:  # a second neighbour of this colour
                    q = U(columns[U(place[U(own)])])
                    if treated[q] != v:
                        treated[q] = v
                        for b in range(U(heads[q]), U(heads[q + NEXT])):
                            c = colour[U(columns[b])]
                            if c > NONE:
                                seen[U(c)] = v
                    treated[w] = v
                    for b in range(U(heads[w]), U(heads[w + NEXT])):
                        c = colour[U(columns[b])]
                        if c > NONE:
                            seen[U(c)] = v
                else:
                    source[U(own)] = v
                    place[U(own)] = np.int64(a)
                    for b in range(U(heads[w]), U(heads[w + NEXT])):
                        x = columns[b]
                        c = colour[U(x)]
                        if c > NONE:
                            if hub[U(star[U(edges[b])])] == x:
                                seen[U(c)] = v
        least = ZERO
        while seen[U(least)] == v:
            least += ONE
        colour[U(v)] = least
        for a in range(start, stop):
            w = U(columns[a])
            own = colour[w]
            if own > NONE:
                found = NONE
                for b in range(U(heads[w]), U(heads[w + NEXT])):
                    x = columns[b]
                    if x != v and colour[U(x)] == least:
                        found = np.int64(b)
                if found > NONE:
                    s = star[U(edges[U(found)])]
                    hub[U(s)] = np.int64(w)
                    star[U(edges[a])] = s
                else:
                    q = U(place[U(own)])
                    if U(columns[q]) != w:
                        s = star[U(edges[q])]
                        hub[U(s)] = v
                        star[U(edges[a])] = s
                    else:
                        star[U(edges[a])] = edges[a]
"""
_MATRIX = "heads[m], columns[nnz], tails[n + 1], rows[nnz]"
_GRAPH = "heads[n + 1], columns[nnz], edges[nnz], star[e], hub[e], hi <= n"
_TEXTS = {
    "columns": (_COLUMNS, f"order[n], colour[n], seen[n + 1], {_MATRIX}, m > 0, hi <= n"),
    "order": (
        _ORDER,
        f"degree[n], first[top], after[n], before[n], order[n], {_MATRIX}, m > 0, top > 0, hi <= n",
    ),
    "stars": (
        _STARS,
        f"order[n], colour[n], seen[n + 1], source[n], place[n], treated[n], {_GRAPH}",
    ),
}


@cache
def _kernel(name: str) -> Loop:
    text, contract = _TEXTS[name]
    return compiled(f"{_HEAD.strip().format(contract=contract)}\n{text}")


def columns_apart(heads: Any, columns: Any, tails: Any, rows: Any, order: Any) -> Any:
    """Return a colour for each column of a matrix, so that no two of a colour have an entry in one row.

    Args:
        heads: where the entries of each row begin, and end; int64, as all.
        columns: of the entries, row by row.
        tails: where those of each column begin.
        rows: of the entries, column by column.
        order: of the columns.
    """
    n = order.size
    colour = np.full(n, -1)
    _kernel("columns")(heads, columns, tails, rows, order, colour, np.full(n + 1, -1), 0, n)
    return colour


def ordered(heads: Any, columns: Any, tails: Any, rows: Any, degree: Any, *, last: bool) -> Any:
    """Return the columns of a matrix in order of their degree, by common rows, among some of the others.

    Args:
        heads: as of `columns_apart`, with those that follow.
        columns: of the entries.
        tails: of the columns.
        rows: of the entries.
        degree: how many columns each one meets in its rows, itself too.
        last: whether the one of the smallest degree among those that are left comes last, again and again;
            otherwise the one that meets most of those which came before is next.
    """
    n = degree.size
    top = int(degree.max(initial=0))
    degree = np.array(degree) if last else np.zeros(n, np.int64)
    order = np.empty(n, np.int64)
    first, after, before = np.full(top + 1, -1), np.empty(n, np.int64), np.empty(n, np.int64)
    step = -1 if last else 1
    _kernel("order")(heads, columns, tails, rows, degree, first, after, before, order, step, 0, n)
    return order


def stars(heads: Any, columns: Any, edges: Any, order: Any) -> Any:
    """Return a colour for each vertex of a graph, so that the edges between any two colours form stars.

    Args:
        heads: where the neighbours of each vertex begin, and end; int64, as all.
        columns: the neighbours, of which none is a vertex itself.
        edges: the number of the edge to each neighbour, which is the same from both of its ends.
        order: of the vertices.
    """
    n, count = order.size, int(edges.max(initial=-1)) + 1
    colour, seen = np.full(n, -1), np.full(n + 1, -1)
    room = [np.full(n, -1) for _ in range(3)]
    star, hub = np.arange(count), np.full(count, -1)
    _kernel("stars")(heads, columns, edges, order, colour, seen, *room, star, hub, 0, n)
    return colour
