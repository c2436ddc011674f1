"""Elements at places that index arrays name, against NumPy, to the last bit."""

import numpy as np
import pytest

import fgrad as fg
from fgrad.kernels import gather_scatter, native, threads

RNG = np.random.default_rng(0)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SHAPES = pytest.mark.parametrize(
    ("shape", "second"), [((1, 500), (1, 70_000)), ((60, 40), (300, 257)), ((1, 1), (3, 2))]
)


def example(dtype, shape, second):
    x = RNG.standard_normal(shape).astype(dtype)
    first = RNG.integers(-shape[0], shape[0], second[0])
    return x, first, RNG.integers(-shape[1], shape[1], second)


@DTYPES
@SHAPES
def test_reading(dtype, shape, second):
    x, first, second = example(dtype, shape, second)
    for kind in (np.int64, np.int32):
        found = gather_scatter.read(x, first, second.astype(kind))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, x[first[:, None], second])


@DTYPES
@SHAPES
def test_adding_up(dtype, shape, second):
    _, first, second = example(dtype, shape, second)
    ct = RNG.standard_normal(second.shape).astype(dtype)
    expected = np.zeros(shape, dtype)
    np.add.at(expected, (first[:, None], second), ct)
    for kind in (np.int64, np.int32):
        found = gather_scatter.added(ct, first, second.astype(kind), shape, unique=False)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        gather_scatter.added(ct[:, ::-1], first, second[:, ::-1].copy(), shape, unique=False).shape, shape
    )


PATTERNS = {
    "random": lambda n, columns: RNG.integers(-columns, columns, n),
    "in order": lambda n, columns: np.sort(RNG.integers(0, columns, n)),
    "in one part": lambda n, columns: RNG.integers(0, columns // 8, n),
    "one place": lambda n, columns: np.full(n, columns - 1),
}


@DTYPES
@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_adding_up_in_parts(dtype, name, parts, monkeypatch):
    """Threads share the places of a long vector, and results are those of one of them, to the last bit."""
    monkeypatch.setattr(threads, "parts", lambda *_: parts)
    shared = []
    monkeypatch.setattr(threads, "share", lambda *given, f=threads.share: shared.append(given) or f(*given))
    columns = 4003
    where = PATTERNS[name](7001, columns)
    ct = RNG.standard_normal(where.size).astype(dtype)
    expected = np.zeros(columns, dtype)
    np.add.at(expected, where, ct)
    for kind in (np.int64, np.int32):
        for first in (0, -1):  # what counts from the end is left to one thread
            found = gather_scatter.added(
                ct[None], np.array([first]), where[None].astype(kind), (1, columns), unique=False
            )
            np.testing.assert_array_equal(found, expected[None])
    assert [count for _, _, count, _ in shared] == [parts, parts] * (parts > 1)
    for at in (0, 6500, 7000):
        for wrong in (columns, -columns - 1, 2**31 - 1, -(2**31), 2**62, -(2**62)):
            no = where.copy()
            no[at] = wrong
            assert (
                gather_scatter.added(ct[None], np.zeros(1, int), no[None], (1, columns), unique=False) is None
            )


def test_numba_adds_up_in_parts_too(monkeypatch):
    monkeypatch.setattr(native, "interpreted", lambda: True)
    monkeypatch.setattr(gather_scatter, "_shared", gather_scatter._shared.__wrapped__)
    monkeypatch.setattr(threads, "parts", lambda *_: 3)
    where, ct = RNG.integers(-90, 90, 777), RNG.standard_normal(777)
    expected = np.zeros((1, 90))
    np.add.at(expected[0], where, ct)
    found = gather_scatter.added(ct[None], np.zeros(1, int), where[None], (1, 90), unique=False)
    np.testing.assert_array_equal(found, expected)


def test_one_thread_adds_up_in_few_places_and_in_many(monkeypatch):
    monkeypatch.setattr(threads, "get_num_threads", lambda: 4)
    monkeypatch.setattr(threads, "share", lambda *_: pytest.fail("it was shared"))
    ct, first, where = np.ones((1, 70_000)), np.zeros(1, int), np.arange(70_000)[None]
    for columns in (10, threads.ELEMENTS, gather_scatter.SPARSE * ct.size + 1):
        found = gather_scatter.added(ct, first, where % columns, (1, columns), unique=False)
        np.testing.assert_array_equal(found[0], np.bincount(where[0] % columns, minlength=columns))
    assert threads.parts(2, ct.size) == 2


@DTYPES
def test_vectors_larger_than_a_cache_are_fetched_before_they_are_read(dtype, monkeypatch):
    fetched = []
    fetch = gather_scatter._fetch
    monkeypatch.setattr(gather_scatter, "_fetch", lambda x: fetched.append(x.size) or fetch(x))
    itemsize, first = np.dtype(dtype).itemsize, np.zeros(1, int)
    sizes = [
        gather_scatter.OWN // itemsize,
        gather_scatter.OWN // itemsize + 3,
        gather_scatter.COMMON // itemsize + 1,
    ]
    for n in sizes:
        x = RNG.standard_normal((1, n)).astype(dtype)
        x[0, ::7] = np.nan
        for count in (n // gather_scatter.SPARSE - 1, n // gather_scatter.SPARSE + 1):
            where = RNG.integers(-n, n, (1, count))
            np.testing.assert_array_equal(gather_scatter.read(x, first, where), x[:, where[0]])
    assert fetched == sizes[1:2]


@DTYPES
def test_writing(dtype):
    first, second = RNG.permutation(50)[:30], np.argsort(RNG.standard_normal((30, 200)), 1)
    ct = RNG.standard_normal(second.shape).astype(dtype)
    expected = np.zeros((50, 200), dtype)
    expected[first[:, None], second] = ct
    np.testing.assert_array_equal(gather_scatter.added(ct, first, second, (50, 200), unique=True), expected)


@DTYPES
@pytest.mark.parametrize("columns", [1, 3, 700])
def test_adding_up_rows(dtype, columns):
    where = RNG.integers(-9, 9, 5000)
    ct = RNG.standard_normal((5000, columns)).astype(dtype)
    expected = np.zeros((9, columns), dtype)
    np.add.at(expected, where, ct)
    out = np.zeros((9, columns), ct.dtype)
    assert gather_scatter.add_rows(out, ct, where)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("count", [3000, 20_000])
def test_gradients_of_rows_are_added_up_in_place(count, monkeypatch):
    x = RNG.standard_normal((500, 3))
    corners = RNG.integers(-500, 500, (count, 3))
    calls, add = [], gather_scatter.add_rows
    monkeypatch.setattr(gather_scatter, "add_rows", lambda *args: (calls.append(args[0]), add(*args))[1])

    def volume(x):
        a, b, c = (x[corners[:, k]] for k in range(3))
        return np.sum(a * b[:, ::-1] * c)

    found = fg.grad(volume)(x)
    assert len(calls) == 3
    assert np.shares_memory(calls[1], calls[2])  # the first one is for what is read once
    a, b, c = (x[corners[:, k]] for k in range(3))
    expected = np.zeros_like(x)
    for k, slope in ((2, a * b[:, ::-1]), (1, (a * c)[:, ::-1]), (0, b[:, ::-1] * c)):
        np.add.at(expected, corners[:, k], slope)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("columns", [64, 700])
def test_threads_share_wide_rows_alone(columns, monkeypatch):
    shared = []
    monkeypatch.setattr(gather_scatter.threads, "share", lambda *args: shared.append(args[2]))
    gather_scatter.add_rows(np.zeros((9, columns)), np.ones((50, columns)), np.zeros(50, np.int64))
    assert shared == [1 if columns == 64 else 3]


@pytest.mark.parametrize("wrong", [40, -41, 2**62, -(2**62)])
def test_places_that_do_not_exist(wrong):
    x, first, second = example(float, (60, 40), (300, 257))
    second[7, 9] = wrong
    assert gather_scatter.read(x, first, second) is None
    assert gather_scatter.added(second.astype(float), first, second, (60, 40), unique=False) is None
    assert gather_scatter.added(second.astype(float), first, second, (60, 40), unique=True) is None
    assert not gather_scatter.add_rows(np.zeros((40, 2)), np.ones((257, 2)), second[7])
    second[7, 9], first[200] = 0, 60
    assert gather_scatter.read(x, first, second) is None
    assert gather_scatter.read(x[:0], first, second) is None
    assert gather_scatter.read(x[:, :0], first, second) is None


@pytest.mark.parametrize("n", [1, 257, 100_000])
def test_narrow_places(n):
    wide = RNG.integers(-(2**31), 2**31, (n, 2))
    narrow = gather_scatter.narrowed(wide)
    assert narrow.dtype == np.int32
    np.testing.assert_array_equal(narrow, wide)
    for lost in (2**31, -(2**31) - 1, 2**40 + 3):
        wide[n // 2, 1] = lost
        assert gather_scatter.narrowed(wide) is None
