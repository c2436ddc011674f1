"""Which columns and rows of a sparse matrix are computed together, and where its entries are found then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fgrad.kernels import colouring as kernels

_FAR = 2**32  # pairs of entries that are looked at before one order is enough
_MANY = 16  # colours of one side, for which it pays to look at both


class Colouring(NamedTuple):
    """The colours of columns, of rows, or of both; -1 for those that are not computed.

    The products with the Jacobian are one for each colour of columns, those with its transpose one for each
    colour of rows.

    Attributes:
        columns: an integer for each column, or None.
        rows: likewise for each row.

    Example:
        >>> from fgrad import sparse
        >>> made = sparse.jacobian(lambda x: x[1:] * x[:-1]).colouring(np.ones(4))
        >>> made.columns, made.colours
        (array([0, 1, 0, 1]), 2)
    """

    columns: Any = None
    rows: Any = None

    @property
    def forward(self) -> int:
        """How many products with the matrix there are."""
        return _count(self.columns)

    @property
    def reverse(self) -> int:
        """How many products with its transpose there are."""
        return _count(self.rows)

    @property
    def colours(self) -> int:
        """How many products there are."""
        return self.forward + self.reverse


def _count(colour: Any) -> int:
    return 0 if colour is None else int(np.max(colour, initial=-1)) + 1


class _Sides:
    """A pattern by rows and by columns, as kernels take it."""

    def __init__(self, pattern: Any) -> None:
        across = _turned(pattern)
        self.count = pattern.shape[1]
        parts = pattern.indptr, pattern.indices, across.indptr, across.indices
        self.parts = [np.ascontiguousarray(x, np.int64) for x in parts]
        self.lengths = np.diff(self.parts[0])
        self.least = int(self.lengths.max(initial=0))  # colours are at least as many as entries of a row
        self.work = int((self.lengths.astype(float) ** 2).sum())

    def orders(self) -> Iterator[Any]:
        """Yield the orders in which columns are coloured, the cheap ones first."""
        n = self.count
        yield np.arange(n)
        if self.work > _FAR or not n:
            return
        heads, columns, tails, rows = self.parts
        meets = np.zeros(n, np.int64)
        np.add.at(meets, columns, np.repeat(self.lengths - 1, self.lengths))
        yield np.argsort(-meets, kind="stable")
        for last in (True, False):
            yield kernels.ordered(heads, columns, tails, rows, meets, last=last)


def _best(orders: Iterator[Any], colour: Callable[[Any], Any], least: int) -> Any:
    """Return the colouring with the fewest colours; none has fewer than `least`."""
    best: Any = None
    for order in orders:
        made = colour(order)
        if best is None or _count(made) < _count(best):
            best = made
        if _count(best) <= least:
            break
    return best


def of_columns(pattern: Any) -> Any:
    """Return colours of the columns: no two of one have an entry in a common row."""
    if pattern.shape[0] == 0 or pattern.nnz == 0:
        return np.zeros(pattern.shape[1], np.int64)
    sides = _Sides(pattern)
    if sides.least == sides.count:
        return np.arange(sides.count)
    heads, columns, tails, rows = sides.parts
    colour = partial(kernels.columns_apart, heads, columns, tails, rows)
    return _best(sides.orders(), colour, sides.least)


class _Graph:
    """The entries of a symmetric matrix beside its diagonal, as kernels take a graph.

    Attributes:
        low: of each edge, the vertex that comes first.
        high: the other one.
    """

    def __init__(self, pattern: Any) -> None:
        self.count = n = pattern.shape[0]
        entries = pattern.tocoo()
        off = entries.row != entries.col
        row, column = (x[off].astype(np.int64) for x in (entries.row, entries.col))
        ends, edges = np.unique(np.minimum(row, column) * n + np.maximum(row, column), return_inverse=True)
        self.low, self.high = ends // max(n, 1), ends % max(n, 1)
        graph = _truths(row, column, (n, n))  # sorted as `edges` are, since those of `tocoo` come row by row
        self.parts = [np.ascontiguousarray(x, np.int64) for x in (graph.indptr, graph.indices, edges)]

    def orders(self) -> Iterator[Any]:
        """Yield the orders in which vertices are coloured."""
        pairs = np.column_stack([self.low, self.high]).reshape(-1)
        ends = 2 * np.arange(self.low.size + 1)
        shape = self.low.size, self.count
        return _Sides(sparse.csr_array((np.ones(pairs.size, bool), pairs, ends), shape=shape)).orders()


def of_stars(pattern: Any) -> Any:
    """Return colours of the rows and columns of a symmetric matrix: any two of them meet in stars only."""
    return _of_graph(kernels.stars, pattern)


def of_trees(pattern: Any) -> Any:
    """Return colours of the rows and columns of a symmetric matrix: any two of them meet in trees only."""
    return _of_graph(kernels.trees, pattern)


def _of_graph(colour: Callable[..., Any], pattern: Any) -> Any:
    graph = _Graph(pattern)
    if not graph.low.size:
        return np.zeros(graph.count, np.int64)
    return _best(graph.orders(), partial(colour, *graph.parts), 2)


def of_both(pattern: Any, best: Colouring, fewer: int) -> Colouring:
    """Return colours of columns and rows: each entry is alone with its colour in its row or in its column.

    Rows and columns with the fewest entries are taken out one after the other; what is in a row then is found
    by columns, what is in a column by rows. Others in that row have a colour of another kind, or none.

    Coleman & Verma (1998), The efficient computation of sparse Jacobian matrices using automatic
    differentiation, SIAM J. Sci. Comput. 19; Hossain & Steihaug (1998), Computing a sparse Jacobian matrix by
    rows and columns, Optim. Methods Softw. 10.

    Args:
        pattern: of the matrix.
        best: a colouring of one side.
        fewer: how many colours have to be saved.
    """
    if best.colours < 3:
        return best
    heads, inner, tails, outer = _Sides(pattern).parts
    m, entries = pattern.shape[0], pattern.tocoo()
    for bias in (0, 1, -1):
        when = kernels.parts(heads, inner, tails, outer, best.colours - fewer + 1, bias)
        if (when < 0).any():
            continue
        by_columns = when[entries.row] < when[m + entries.col]
        columns = _apart(entries.row, entries.col, by_columns, pattern.shape)
        rows = _apart(entries.col, entries.row, ~by_columns, pattern.shape[::-1])
        made = Colouring(columns, rows)
        if made.colours <= best.colours - fewer:
            best, fewer = made, 1
    return best


def _apart(row: Any, column: Any, own: Any, shape: tuple[int, int]) -> Any:
    """Return colours of columns with `own` entries, beside which there is no other of the colour; else -1."""
    is_active = np.bincount(column[own], minlength=shape[1]) > 0
    used = is_active[column]
    whole, alone = (_Sides(_truths(row[k], column[k], shape)) for k in (used, own))
    heads, columns, tails, rows = whole.parts
    colour = partial(kernels.columns_apart, heads, columns, tails, rows, own=alone.parts)
    return np.where(is_active, _best(whole.orders(), colour, alone.least), -1)


def _truths(row: Any, column: Any, shape: tuple[int, int]) -> Any:
    return _sorted(sparse.csr_array((np.ones(row.size, bool), (row, column)), shape=shape))


def _sorted(pattern: Any) -> Any:
    pattern.sort_indices()
    return pattern


def _turned(pattern: Any) -> Any:
    """Return the transpose of a pattern."""
    return _sorted(pattern.T.tocsr())


def _alone(line: Any, colour: Any, count: int) -> Any:
    """Return which entries are the only ones of their colour in their line; -1 is no colour."""
    keys = line.astype(np.int64) * (count + 1) + colour
    _, where, often = np.unique(keys, return_inverse=True, return_counts=True)
    return (often[where] == 1) & (colour >= 0)


def chosen(pattern: Any, mode: str) -> Colouring:
    """Return the colouring of a Jacobian.

    "auto" takes the columns unless the rows need fewer colours, since a product with the transpose takes
    longer, and both only where that saves half.
    """
    if mode == "forward":
        return Colouring(of_columns(pattern))
    across = _turned(pattern)
    if mode == "reverse":
        return Colouring(None, of_columns(across))
    least = [int(np.diff(p.indptr).max(initial=0)) for p in (pattern, across)]
    best: Colouring | None = None
    for side in sorted((0, 1), key=least.__getitem__):
        if best is not None and best.colours <= least[side]:
            continue
        made = Colouring(None, of_columns(across)) if side else Colouring(of_columns(pattern))
        if best is None or made.colours < best.colours or (made.colours == best.colours and not side):
            best = made
    assert best is not None  # noqa: S101 -- there are two sides
    if mode == "bidirectional":
        return of_both(pattern, best, 1)
    return of_both(pattern, best, best.colours // 2) if best.colours > _MANY else best


def places(pattern: Any, colouring: Colouring, *, symmetric: bool = False) -> Any:
    """Return where each entry, row by row, is among all products: one after the other, flattened.

    Raises:
        ValueError: two entries are added up in every product that has them.
    """
    m, n = pattern.shape
    entries = pattern.tocoo()
    row, column = entries.row.astype(np.int64), entries.col.astype(np.int64)
    found = np.full(row.size, -1)
    if symmetric:
        colour = np.asarray(colouring.columns)
        for line, other in ((row, column), (column, row)):
            own = colour[other]
            found = np.where((found < 0) & _alone(line, own, n), own * n + line, found)
    else:
        start = colouring.forward * m
        if colouring.columns is not None:
            own = np.asarray(colouring.columns)[column]
            found = np.where(_alone(row, own, n), own * m + row, found)
        if colouring.rows is not None:
            own = np.asarray(colouring.rows)[row]
            found = np.where((found < 0) & _alone(column, own, m), start + own * n + column, found)
    if (found < 0).any():
        raise _hidden(row, column, int(np.argmax(found < 0)))
    return found


class Forest(NamedTuple):
    """How entries are found whose products have others added, which are known: by sums along trees.

    Attributes:
        read: where the first one of each sum is among all products.
        steps: pairs of places among the sums; at each step all of the first are added to the second at once,
            by the first step subtracted. The k-th step goes 2**k edges at a time.
    """

    read: Any
    steps: list[tuple[Any, Any]]


def along_trees(pattern: Any, colouring: Colouring) -> tuple[Any, Forest]:
    """Return where each entry of a symmetric matrix is among all products and then the sums of a forest.

    At a vertex of which one neighbour has some colour, the product with this colour is the entry of the edge
    between them. Once edges are taken off that are known by this, others are the only ones.

    Gebremedhin, Pothen, Tarafdar & Walther (2009), Efficient computation of sparse Hessians using coloring
    and automatic differentiation, INFORMS J. Comput. 21.

    Raises:
        ValueError: two colours form a cycle, or an edge has one colour.
    """
    n, graph, colour = pattern.shape[0], _Graph(pattern), np.asarray(colouring.columns)
    low, high, width = graph.low, graph.high, colouring.colours + 1
    keys = np.concatenate([low * width + colour[high] + 1, high * width + colour[low] + 1])
    ends, places, degree = np.unique(keys, return_inverse=True, return_counts=True)
    degree += 2 * (ends % width == 0)  # what has no colour is in no product
    first, second = np.split(np.ascontiguousarray(places.reshape(-1), np.int64), 2)
    own = kernels.peeled(first, second, degree)
    entries = pattern.tocoo()
    row, column = entries.row.astype(np.int64), entries.col.astype(np.int64)
    found, off = colour[column] * n + row, row != column
    wrong = colour[column] < 0
    wrong[off] = ((own < 0) | (colour[low] == colour[high]))[graph.parts[2]]
    if wrong.any():
        raise _hidden(row, column, int(np.argmax(wrong)))
    at = np.full(ends.size, -1)
    at[own] = np.arange(low.size)
    up = at[first + second - own]
    read = (ends % width - 1) * n + ends // width
    in_sums = up >= 0
    in_sums[up[in_sums]] = True
    number = np.cumsum(in_sums) - 1
    found[off] = np.where(in_sums, colouring.colours * n + number, read[own])[graph.parts[2]]
    jump, steps = np.where(up >= 0, number[up], -1)[in_sums], []
    while (jump >= 0).any():
        there = np.flatnonzero(jump >= 0).copy()  # of its own
        steps.append((there, jump[there]))
        jump = np.where(jump >= 0, jump[jump], -1)
    return found, Forest(read[own[in_sums]], steps)


def _hidden(row: Any, column: Any, k: int) -> ValueError:
    return ValueError(
        f"the colouring does not give the entry ({row[k]}, {column[k]}) of the pattern: others of its "
        "colour are in its row, or in its column; leave colouring out to have one made"
    )
