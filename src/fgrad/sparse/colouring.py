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
        np.add.at(meets, columns, np.repeat(self.lengths, self.lengths))
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


def of_stars(pattern: Any) -> Any:
    """Return colours of the rows and columns of a symmetric matrix: any two of them meet in stars only."""
    n = pattern.shape[0]
    entries = pattern.tocoo()
    off = entries.row != entries.col
    row, column = (x[off].astype(np.int64) for x in (entries.row, entries.col))
    if not row.size:
        return np.zeros(n, np.int64)
    low, high = np.minimum(row, column), np.maximum(row, column)
    ends, edges = np.unique(low * n + high, return_inverse=True)
    graph = sparse.csr_array((np.ones(row.size, bool), (row, column)), shape=(n, n))
    graph.sort_indices()  # as `edges` are, since those of `tocoo` come row by row
    heads, neighbours = (np.ascontiguousarray(x, np.int64) for x in (graph.indptr, graph.indices))
    pairs = sparse.csr_array(
        (
            np.ones(2 * ends.size, bool),
            np.column_stack([ends // n, ends % n]).reshape(-1),
            2 * np.arange(ends.size + 1),
        ),
        shape=(ends.size, n),
    )
    orders = _Sides(pairs).orders()
    edges = np.ascontiguousarray(edges, np.int64)
    return _best(orders, partial(kernels.stars, heads, neighbours, edges), 2)


def of_both(pattern: Any, best: Colouring, fewer: int) -> Colouring:
    """Return colours of columns and rows: each entry is alone with its colour in its row or in its column.

    The longest rows are taken out, 1, 2, 4 and so on, and computed by themselves, or the longest columns.

    Coleman & Verma (1998), The efficient computation of sparse Jacobian matrices using automatic
    differentiation, SIAM J. Sci. Comput. 19, section 3.

    Args:
        pattern: of the matrix.
        best: a colouring of one side.
        fewer: how many colours have to be saved.
    """
    for matrix, is_turned in ((pattern, False), (_turned(pattern), True)):
        lengths = np.diff(matrix.indptr)
        order = np.argsort(-lengths, kind="stable")
        count = 1
        while count <= matrix.shape[0] // 2:
            least = int(lengths[order[count:]].max(initial=0))
            if 0 < least <= best.colours - max(fewer, 2):  # those taken out need at least one more
                long, short = np.sort(order[:count]), np.sort(order[count:])
                rows = np.full(matrix.shape[0], -1)
                rows[long] = of_columns(_turned(_sorted(matrix[long])))
                rest = _sorted(matrix[short])
                columns = np.where(np.bincount(rest.indices, minlength=matrix.shape[1]), of_columns(rest), -1)
                made = Colouring(rows, columns) if is_turned else Colouring(columns, rows)
                if made.colours <= best.colours - fewer:
                    best, fewer = made, 1
            count *= 2
    return best


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
        k = int(np.argmax(found < 0))
        raise ValueError(
            f"the colouring does not give the entry ({row[k]}, {column[k]}) of the pattern: others of its "
            "colour are in its row, or in its column; leave colouring out to have one made"
        )
    return found
