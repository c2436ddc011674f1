"""Functions whose results have a length that is given, against NumPy's, whose values say how long."""

import numpy as np
import pytest

import fgrad as fg
from fgrad import lax
from fgrad.testing import check_grads

NAN = np.nan
ROWS = np.array([[0.0, 2.0, -1.0], [3.0, 0.0, 0.0]])
LISTS = {
    "floats": np.array([3.0, 1.0, 2.0, 1.0, 3.0]),
    "integers": np.array([[2, 0], [2, -1]]),
    "not a number": np.array([NAN, 1.0, NAN]),
    "one": np.array([True]),
}
RUNS = {"eager": lambda f: f, "compiled": fg.jit}


def equal(x, y):
    np.testing.assert_array_equal(x, y, strict=True)


@pytest.mark.parametrize("size", [0, 2, 3, 5, 9])
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("fill", [0, -1, (7, 8)])
def test_nonzero(run, size, fill):
    found = RUNS[run](lambda x: lax.nonzero(x, size, fill))(ROWS)
    fills = fill if isinstance(fill, tuple) else (fill, fill)
    for indices, whole, rest in zip(found, np.nonzero(ROWS), fills, strict=True):
        equal(np.asarray(indices), np.pad(whole, (0, size), constant_values=rest)[:size])


def test_nonzero_of_numbers_and_of_nothing():
    (found,) = lax.nonzero(5.0, 2, 4)
    equal(np.asarray(found), [0, 4])
    assert [np.asarray(i).tolist() for i in lax.nonzero(np.zeros((0, 3)), 2)] == [[0, 0], [0, 0]]


def test_nonzero_of_mapped_rows():
    (found,) = fg.vmap(lambda row: lax.nonzero(row, 2, 9))(ROWS)
    equal(np.asarray(found), [[1, 2], [0, 9]])


@pytest.mark.parametrize("size", [0, 2, 5])
@pytest.mark.parametrize("run", RUNS)
def test_rows_of_indices_and_indices_of_what_is_flat(run, size):
    for x in (ROWS, ROWS[0], ROWS[None]):
        rows = RUNS[run](lambda x: lax.argwhere(x, size, 9))(x)
        equal(np.asarray(rows), np.pad(np.argwhere(x), ((0, size), (0, 0)), constant_values=9)[:size])
        flat = RUNS[run](lambda x: lax.flatnonzero(x, size, 9))(x)
        equal(np.asarray(flat), np.pad(np.flatnonzero(x), (0, size), constant_values=9)[:size])
    assert lax.argwhere(5.0, size).shape == (size, 0)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("equal_nan", [True, False])
def test_unique(name, run, size, equal_nan):
    x = LISTS[name]
    flags = {"return_index": True, "return_inverse": True, "return_counts": True, "equal_nan": equal_nan}
    values, first, inverse, counts = RUNS[run](lambda x: lax.unique(x, size, **flags))(x)
    every, at, back, often = np.unique(x, **flags)
    rest = max(0, size - len(every))
    equal(np.asarray(values), np.concatenate([every[:size], np.full(rest, every[0])]))
    equal(np.asarray(first), np.concatenate([at[:size], np.full(rest, at[0])]))
    equal(np.asarray(inverse), back.reshape(x.shape))
    equal(np.asarray(counts), np.concatenate([often[:size], np.zeros(rest, int)]))
    filled = RUNS[run](lambda x: lax.unique(x, size, 0, equal_nan=equal_nan))(x)
    equal(np.asarray(filled), np.concatenate([every[:size], np.zeros(rest, x.dtype)]))


def test_unique_differentiates_and_needs_an_element():
    check_grads(lambda x: lax.unique(x, 4, 0.0), (np.array([3.0, 1.0, 2.0]),), order=2)
    with pytest.raises(ValueError, match="needs an element"):
        lax.unique(np.zeros(0), 2)


@pytest.mark.parametrize("run", RUNS)
def test_bincount(run):
    x = np.array([[1, 0], [3, 9]])
    equal(np.asarray(RUNS[run](lambda x: lax.bincount(x, 4))(x)), np.bincount(x.ravel())[:4])
    equal(np.asarray(RUNS[run](lambda x: lax.bincount(x, 2))(np.array([-3, 1]))), [1, 1])
    weights = np.array([[0.5, 2.0], [3.0, 4.0]])
    summed = RUNS[run](lambda x, w: lax.bincount(x, 4, w))(x, weights)
    equal(np.asarray(summed), np.bincount(x.ravel(), weights.ravel())[:4])
    check_grads(lambda w: lax.bincount(x, 4, w), (weights,), order=2)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_repeat(run, axis):
    n = ROWS.size if axis is None else ROWS.shape[axis]
    for repeats in (2, np.arange(n)):
        whole = np.repeat(ROWS, repeats, axis)
        length = whole.shape[axis or 0]
        for wanted in (length, length - 1, length + 2):
            found = RUNS[run](lambda x, r, wanted=wanted: lax.repeat(x, r, wanted, axis))(ROWS, repeats)
            line, y = (np.moveaxis(np.asarray(v), axis or 0, 0) for v in (whole, found))
            last = np.moveaxis(ROWS.reshape(-1) if axis is None else ROWS, axis or 0, 0)[-1]
            equal(y, np.concatenate([line[:wanted], *[last[None]] * max(0, wanted - length)]))
    check_grads(lambda x: lax.repeat(x, np.arange(n), 4, axis), (ROWS,), order=2)
