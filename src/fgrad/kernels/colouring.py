"""Greedy colourings of sparse matrices: columns that share no row, stars and trees of symmetric ones.

Sources: Gebremedhin, Manne & Pothen (2005), What color is your Jacobian?, SIAM Review 47, algorithm 3.1, of
columns; Gebremedhin, Tarafdar, Manne & Pothen (2007), New acyclic and star coloring algorithms, SIAM J. Sci.
Comput. 29, algorithms 3.1, of trees, and 4.1, of stars; Matula & Beck (1983), Smallest-last ordering, J. ACM
30, of orders; Coleman & Verma (1998), The efficient computation of sparse Jacobian matrices using automatic
differentiation, SIAM J. Sci. Comput. 19, of parts.
"""

from __future__ import annotations

from collections.abc import Sequence
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
_LOOKS = """

@helper
def mark(heads, columns, colour, seen, i, v):
    # the colours that the entries of a row have
    for b in range(U(heads[i]), U(heads[i + NEXT])):
        c = colour[U(columns[b])]
        if c > NONE:
            seen[U(c)] = v


@helper
def least_free(seen, v):
    least = ZERO
    while seen[U(least)] == v:
        least += ONE
    return least

"""
_ROOTS = """

@helper
def root(tree, t):
    while tree[U(t)] != t:
        tree[U(t)] = tree[U(tree[U(t)])]
        t = tree[U(t)]
    return t

"""
_COLUMNS = """
SIGNATURE = types.void(IN, IN, IN, IN, IN, IN, IN, IN, IN, OUT, OUT, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(heads, columns, tails, rows, own_heads, own_columns, own_tails, own_rows, order, colour, seen,
           lo, hi):
    for k in range(lo, hi):
        v = order[k]
        for a in range(U(own_tails[U(v)]), U(own_tails[U(v) + NEXT])):
            mark(heads, columns, colour, seen, U(own_rows[a]), v)
        for a in range(U(tails[U(v)]), U(tails[U(v) + NEXT])):
            mark(own_heads, own_columns, colour, seen, U(rows[a]), v)
        colour[U(v)] = least_free(seen, v)
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
                        mark(heads, columns, colour, seen, q, v)
                    treated[w] = v
                    mark(heads, columns, colour, seen, w, v)
                else:
                    source[U(own)] = v
                    place[U(own)] = np.int64(a)
                    for b in range(U(heads[w]), U(heads[w + NEXT])):
                        x = columns[b]
                        c = colour[U(x)]
                        if c > NONE:
                            if hub[U(star[U(edges[b])])] == x:
                                seen[U(c)] = v
        least = least_free(seen, v)
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
_TREES = """
SIGNATURE = types.void(IN, IN, IN, IN, OUT, OUT, OUT, OUT, OUT, OUT, OUT, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(heads, columns, edges, order, colour, seen, source, place, tree, met, by, lo, hi):
    for k in range(lo, hi):
        v = order[k]
        start, stop = U(heads[U(v)]), U(heads[U(v) + NEXT])
        for a in range(start, stop):
            own = colour[U(columns[a])]
            if own > NONE:
                seen[U(own)] = v
        for a in range(start, stop):
            w = columns[a]
            if colour[U(w)] > NONE:
                for b in range(U(heads[U(w)]), U(heads[U(w) + NEXT])):
                    c = colour[U(columns[b])]
                    if c > NONE:
                        if seen[U(c)] != v:
                            t = root(tree, edges[b])
                            if met[U(t)] != v:
                                met[U(t)] = v
                                by[U(t)] = w
                            elif by[U(t)] != w:  # a second way into this tree, which would close a cycle
                                seen[U(c)] = v
        least = least_free(seen, v)
        colour[U(v)] = least
        for a in range(start, stop):
            w = columns[a]
            own = colour[U(w)]
            if own > NONE:
                t = root(tree, edges[a])
                if source[U(own)] != v:
                    source[U(own)] = v
                    place[U(own)] = edges[a]
                else:
                    tree[U(root(tree, place[U(own)]))] = t
                for b in range(U(heads[U(w)]), U(heads[U(w) + NEXT])):
                    x = columns[b]
                    if x != v and colour[U(x)] == least:
                        tree[U(root(tree, edges[b]))] = t
"""
_PEELED = """
SIGNATURE = types.void(IN, IN, OUT, OUT, OUT, OUT, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(first, second, degree, total, queue, own, lo, hi):
    last = ZERO
    for s in range(lo, hi):
        if degree[s] == ONE:
            queue[U(last)] = np.int64(s)
            last += ONE
    turn = ZERO
    while turn < last:
        s = queue[U(turn)]
        turn += ONE
        if degree[U(s)] == ONE:
            e = total[U(s)]
            t = first[U(e)] + second[U(e)] - s
            own[U(e)] = s
            degree[U(s)] = ZERO
            degree[U(t)] -= ONE
            total[U(t)] -= e
            if degree[U(t)] == ONE:
                queue[U(last)] = t
                last += ONE
"""
_PARTS = """
SIGNATURE = types.void(IN, IN, IN, IN, OUT, OUT, OUT, OUT, types.int64, types.int64, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(heads, columns, tails, rows, left, above, queue, when, limit, bias, lo, hi):
    m, n = np.int64(left.shape[0]), np.int64(above.shape[0])
    across, down, clock, first, last = ZERO, ZERO, ZERO, ZERO, ZERO
    for turn in range(lo, hi):
        low, short = NONE, NONE
        for i in range(U(m)):
            if when[i] == NONE and (low == NONE or left[i] < low):
                low = left[i]
        for j in range(U(n)):
            if when[U(m) + j] == NONE and (short == NONE or above[j] < short):
                short = above[j]
        if short > NONE and (low == NONE or short - down + bias < low - across):
            down = max(down, short)
        elif low > NONE:
            across = max(across, low)
        if (low > NONE or short > NONE) and across + down < limit:
            for i in range(U(m)):
                if when[i] == NONE and left[i] <= across:
                    when[i] = NONE + NONE
                    queue[U(last)] = np.int64(i)
                    last += ONE
            for j in range(U(n)):
                if when[U(m) + j] == NONE and above[j] <= down:
                    when[U(m) + j] = NONE + NONE
                    queue[U(last)] = m + np.int64(j)
                    last += ONE
            while first < last:
                u = queue[U(first)]
                first += ONE
                when[U(u)] = clock
                clock += ONE
                if u < m:
                    for a in range(U(heads[U(u)]), U(heads[U(u) + NEXT])):
                        x = columns[a]
                        if when[U(m + x)] < ZERO:
                            above[U(x)] -= ONE
                            if above[U(x)] <= down and when[U(m + x)] == NONE:
                                when[U(m + x)] = NONE + NONE
                                queue[U(last)] = m + x
                                last += ONE
                else:
                    for a in range(U(tails[U(u - m)]), U(tails[U(u - m) + NEXT])):
                        x = rows[a]
                        if when[U(x)] < ZERO:
                            left[U(x)] -= ONE
                            if left[U(x)] <= across and when[U(x)] == NONE:
                                when[U(x)] = NONE + NONE
                                queue[U(last)] = x
                                last += ONE
"""
_MATRIX = "heads[m], columns[nnz], tails[n + 1], rows[nnz]"
_OWN = "own_heads[m], own_columns[some], own_tails[n + 1], own_rows[some]"
_GRAPH = "heads[n + 1], columns[nnz], edges[nnz], hi <= n"
_TEXTS = {
    "columns": (
        _LOOKS + _COLUMNS,
        f"order[n], colour[n], seen[n + 1], {_MATRIX}, m > 0, {_OWN}, hi <= n",
    ),
    "order": (
        _ORDER,
        f"degree[n], first[top], after[n], before[n], order[n], {_MATRIX}, m > 0, top > 0, hi <= n",
    ),
    "stars": (
        _LOOKS + _STARS,
        f"order[n], colour[n], seen[n + 1], source[n], place[n], treated[n], {_GRAPH}, star[e], hub[e]",
    ),
    "trees": (
        _LOOKS + _ROOTS + _TREES,
        f"order[n], colour[n], seen[n + 1], source[n], place[n], {_GRAPH}, tree[e], met[e], by[e]",
    ),
    "peeled": (_PEELED, "first[e], second[e], own[e], degree[s], total[s], queue[s], hi <= s"),
    "parts": (
        _PARTS,
        "left[m], above[n], heads[m + 1], columns[nnz], tails[n + 1], rows[nnz], queue[m + n], when[m + n]",
    ),
}


@cache
def _kernel(name: str) -> Loop:
    text, contract = _TEXTS[name]
    return compiled(f"{_HEAD.strip().format(contract=contract)}\n{text}")


def columns_apart(
    heads: Any, columns: Any, tails: Any, rows: Any, order: Any, own: Sequence[Any] | None = None
) -> Any:
    """Return a colour for each column of a matrix, so that no two of a colour have an entry in one row.

    Args:
        heads: where the entries of each row begin, and end; int64, as all.
        columns: of the entries, row by row.
        tails: where those of each column begin.
        rows: of the entries, column by column.
        order: of the columns.
        own: the same four of those entries which no other one of their colour may be beside; None: all.
    """
    n = order.size
    colour = np.full(n, -1)
    parts = [heads, columns, tails, rows]
    if own is None:  # then one way round tells all
        own, parts = parts, [heads, columns, np.zeros(n + 1, np.int64), rows]
    _kernel("columns")(*parts, *own, order, colour, np.full(n + 1, -1), 0, n)
    return colour


def ordered(heads: Any, columns: Any, tails: Any, rows: Any, degree: Any, *, last: bool) -> Any:
    """Return the columns of a matrix in order of their degree, by common rows, among some of the others.

    Args:
        heads: as of `columns_apart`, with those that follow.
        columns: of the entries.
        tails: of the columns.
        rows: of the entries.
        degree: how many others each one meets in its rows.
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


def trees(heads: Any, columns: Any, edges: Any, order: Any) -> Any:
    """Return a colour for each vertex of a graph, so that the edges between any two colours form trees.

    Args:
        heads: as of `stars`, with those that follow.
        columns: the neighbours.
        edges: the numbers of the edges to them.
        order: of the vertices.
    """
    n, count = order.size, int(edges.max(initial=-1)) + 1
    colour, seen, source, place = (np.full(n + k, -1) for k in (0, 1, 0, 0))
    room = np.arange(count), np.full(count, -1), np.full(count, -1)
    _kernel("trees")(heads, columns, edges, order, colour, seen, source, place, *room, 0, n)
    return colour


def peeled(first: Any, second: Any, degree: Any) -> Any:
    """Return for each edge of a forest the end at which it is the only one left, once others are taken off.

    Ends are numbered; those of edges that meet have the same number. Edges of cycles have -1.

    Args:
        first: one end of each edge; int64, as all.
        second: the other one.
        degree: how many edges there are at each end; where there are more, none is left alone.
    """
    total, own = np.zeros(degree.size, np.int64), np.full(first.size, -1)
    for ends in (first, second):
        np.add.at(total, ends, np.arange(first.size))
    _kernel("peeled")(
        first, second, np.array(degree), total, np.empty(degree.size, np.int64), own, 0, degree.size
    )
    return own


def parts(heads: Any, columns: Any, tails: Any, rows: Any, limit: int, bias: int) -> Any:
    """Return the order in which rows and columns of a matrix, one after the other, are taken out of it.

    The next one is a row that has few entries left, or a column; what is few grows by as little as it can,
    apart for both. -1 stands for what is left where both together come to `limit`.

    Args:
        heads: as of `columns_apart`, with those that follow.
        columns: of the entries.
        tails: of the columns.
        rows: of the entries.
        limit: of entries that are few in rows and in columns, together.
        bias: by how much rows are preferred.
    """
    m, n = heads.size - 1, tails.size - 1
    when, queue = np.full(m + n, -1), np.empty(m + n, np.int64)
    _kernel("parts")(
        heads, columns, tails, rows, np.diff(heads), np.diff(tails), queue, when, limit, bias, 0, limit + 1
    )
    return when
