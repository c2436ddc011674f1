"""Sets of numbers, one for each element of an array: rows of sparse matrices of truths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from fgrad.core.aval import Shape

Rows = Any  # a csr_array of truths: a row for each element, a column for each number


def none(count: int, columns: int) -> Rows:
    """Return `count` empty sets."""
    return sparse.csr_array((count, columns), dtype=bool)


def single(columns: Any, count: int, width: int) -> Rows:
    """Return `count` sets of one number each."""
    return sparse.csr_array((np.ones(count, bool), columns, np.arange(count + 1)), shape=(count, width))


def taken(rows: Rows, places: Any) -> Rows:
    """Return the sets at `places`; an empty one where that is -1."""
    places = places.reshape(-1)
    n = rows.shape[0]
    if places.size == n and np.array_equal(places, np.arange(n)):
        return rows
    ends = np.append(rows.indptr, rows.indptr[-1])  # one more, which is empty
    longer = sparse.csr_array((rows.data, rows.indices, ends), shape=(n + 1, rows.shape[1]))
    return longer[np.where(places < 0, n, places)]


def kept(rows: Rows, where: Any) -> Rows:
    """Return the sets at true places, empty ones at others."""
    where = where.reshape(-1)
    return rows if where.all() else taken(rows, np.where(where, np.arange(where.size), -1))


def united(parts: Sequence[Rows]) -> Rows | None:
    """Return the union of sets, element by element; None of none."""
    found = None
    for part in parts:
        found = part if found is None or found is part else found + part
    return found


def grouped(rows: Rows, groups: Any, count: int) -> Rows:
    """Return for each of `count` groups the union of its sets; `groups` says in which each one is."""
    groups = groups.reshape(-1)
    return paired(groups, np.arange(groups.size), (count, groups.size)) @ rows


def paired(first: Any, second: Any, shape: Shape) -> Rows:
    """Return for each `first` number the set of the `second` ones beside it."""
    first, second = first.reshape(-1), second.reshape(-1)
    made = sparse.coo_array((np.ones(first.size, bool), (first, second)), shape=shape).tocsr()
    made.sum_duplicates()
    return made


def everywhere(rows: Rows, count: int) -> Rows:
    """Return `count` times the union of all sets."""
    whole = np.unique(rows.indices)
    indices = np.broadcast_to(whole, (count, whole.size)).reshape(-1)
    ends = np.arange(count + 1) * whole.size
    return sparse.csr_array((np.ones(indices.size, bool), indices, ends), shape=(count, rows.shape[1]))


def closed(steps: Rows) -> Rows:
    """Return what can be reached by any number of steps: reflexive and transitive closure."""
    found = steps + sparse.eye_array(steps.shape[0], dtype=bool, format="csr")
    while True:
        longer = found @ found
        if longer.nnz == found.nnz:
            return found
        found = longer


def positions(shape: Shape) -> Any:
    """Return the places of the elements of an array in C order."""
    return np.arange(math.prod(shape)).reshape(shape)


def stacked(parts: Sequence[Rows]) -> Rows:
    """Return sets one below the other."""
    return parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")


def split(rows: Rows, sizes: Sequence[int]) -> list[Rows]:
    """Return `sizes` rows at a time."""
    ends = np.cumsum([0, *sizes])
    return [rows[a:b] for a, b in pairwise(ends)]
