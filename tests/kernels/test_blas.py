import ctypes
import itertools

import numpy as np
import pytest
from tests.helpers import grouped

from fgrad.compat import numpy as layout
from fgrad.kernels import blas, checks, intrinsics, native, vm

TOLERANCE = {"float32": 1e-5, "float64": 1e-13}
DTYPES = sorted(TOLERANCE)


def slots_of(buffers):
    return intrinsics.Slots(buffers) if native.interpreted() else checks.addresses(buffers)


def run(routine, buffers, args, steps=1):
    vm.call(routine.kernel, np.array(args, np.int64), slots_of(buffers), 0, steps)


@pytest.fixture(autouse=True)
def needs_openblas(both_ways):
    if blas.gemm("float64") is None:
        pytest.skip("NumPy has another BLAS")


def random(rng, dtype, *shape):
    return rng.standard_normal(shape).astype(dtype)


def close(got, expected, dtype, terms):
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE[dtype] * max(1, terms))


SIZES = [
    (1, 1, 1),
    (2, 3, 4),
    (5, 1, 7),
    (1, 6, 3),
    (16, 16, 16),
    (33, 65, 17),
    (0, 3, 2),
    (3, 0, 2),
    (3, 2, 0),
]


@grouped("dtype, sizes, left, right", itertools.product(DTYPES, SIZES, [False, True], [False, True]))
def test_gemm_is_matmul(dtype, sizes, left, right):
    rng = np.random.default_rng(0)
    m, n, k = sizes
    a = random(rng, dtype, *((k, m) if left else (m, k)))
    b = random(rng, dtype, *((n, k) if right else (k, n)))
    expected = (a.T if left else a) @ (b.T if right else b)
    routine = blas.gemm(dtype)
    c = np.full((m, n), np.nan, dtype)
    run(routine, [a, b, c], routine.args((0, 1, 2), sizes, transposed=(left, right)))
    close(c, expected, dtype, k)
    kept = c.copy()
    run(routine, [a, b, c], routine.args((0, 1, 2), sizes, transposed=(left, right), keep=True))
    close(c, kept + expected, dtype, k)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gemm_of_parts_and_of_many(dtype):
    rng = np.random.default_rng(1)
    a, b, c = random(rng, dtype, 5, 4, 9), random(rng, dtype, 8, 7), np.full((5, 4, 10), 3, dtype)
    routine = blas.gemm(dtype)
    args = routine.args((0, 1, 2), (4, 7, 8), leading=(9, 7, 10), strides=(36, 0, 40))
    run(routine, [a, b, c], args, 5)
    close(c[:, :, :7], a[:, :, :8] @ b, dtype, 8)
    assert (c[:, :, 7:] == 3).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(1, 1), (3, 4), (16, 16), (65, 33), (0, 3), (3, 0)])
@pytest.mark.parametrize("transposed", [False, True])
def test_gemv_is_matmul(dtype, sizes, transposed):
    rng = np.random.default_rng(2)
    a = random(rng, dtype, *sizes)
    matrix = a.T if transposed else a
    x, y = random(rng, dtype, matrix.shape[1]), np.full(matrix.shape[0], np.nan, dtype)
    routine = blas.gemv(dtype)
    run(routine, [a, x, y], routine.args((0, 1, 2), sizes, transposed=transposed))
    close(y, matrix @ x, dtype, x.size)
    kept = y.copy()
    run(routine, [a, x, y], routine.args((0, 1, 2), sizes, transposed=transposed, keep=True))
    close(y, kept + matrix @ x, dtype, x.size)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gemv_of_columns_and_of_many(dtype):
    rng = np.random.default_rng(3)
    a, x, y = random(rng, dtype, 4, 6), random(rng, dtype, 3, 5, 2), np.full((3, 4, 3), 7, dtype)
    routine = blas.gemv(dtype)
    args = routine.args((0, 1, 2), (4, 5), leading=6, steps=(2, 3), strides=(0, 10, 12))
    run(routine, [a, x, y], args, 3)
    close(y[:, :, 0], x[:, :, 0] @ a[:, :5].T, dtype, 5)
    assert (y[:, :, 1:] == 7).all()


PIECES = [(7, 5, 3), (33, 65, 4), (8, 65, 17), (100, 1, 100)]


@grouped("dtype, piece, left, right", itertools.product(DTYPES, PIECES, [False, True], [False, True]))
def test_pieces_of_products_are_products(dtype, piece, left, right):
    rng = np.random.default_rng(5)
    m, n, k = 33, 65, 17
    a = random(rng, dtype, 2, *((k, m) if left else (m, k)))
    b = random(rng, dtype, 2, *((n, k) if right else (k, n)))
    c = random(rng, dtype, 2, m, n)
    expected = (a.mT if left else a) @ (b.mT if right else b)
    routine, count = blas.gemm(dtype), 2 * -(-m // piece[0]) * -(-n // piece[1])
    for keep, added in ((False, 0), (True, c.copy())):
        strides = (m * k, k * n, m * n)
        args = routine.args(
            (0, 1, 2), (m, n, k), transposed=(left, right), strides=strides, keep=keep, piece=piece
        )
        c[:] = added if keep else np.nan
        for i in reversed(range(count)):  # in any order
            vm.call(routine.kernel, np.array(args, np.int64), slots_of([a, b, c]), i, i + 1)
        close(c, expected + added, dtype, k)


@grouped("dtype, piece, transposed", itertools.product(DTYPES, [(5, 4), (40, 7), (3, 40)], [False, True]))
def test_pieces_of_vectors_are_products(dtype, piece, transposed):
    rng = np.random.default_rng(6)
    a = random(rng, dtype, 3, 23, 31)
    matrix = a.mT if transposed else a
    x, y = random(rng, dtype, 3, matrix.shape[2]), random(rng, dtype, 3, matrix.shape[1])
    routine, count = blas.gemv(dtype), 3 * -(-matrix.shape[1] // piece[0])
    for keep, added in ((False, 0), (True, y.copy())):
        strides = (23 * 31, x.shape[1], y.shape[1])
        args = routine.args(
            (0, 1, 2), (23, 31), transposed=transposed, strides=strides, keep=keep, piece=piece
        )
        y[:] = added if keep else np.inf
        for i in reversed(range(count)):
            vm.call(routine.kernel, np.array(args, np.int64), slots_of([a, x, y]), i, i + 1)
        close(y, (matrix @ x[..., None])[..., 0] + added, dtype, x.shape[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 20])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_not_finite_is_as_in_matmul(dtype, size):
    rng = np.random.default_rng(4)
    a, b = random(rng, dtype, size, size), random(rng, dtype, size, size)
    a[0, 1], a[1, 1], a[2] = np.nan, np.inf, 0
    b[1, 0], b[0, 2], b[1, 1] = np.inf, np.nan, 0
    c, y = np.full_like(a, np.nan), np.full(size, np.inf, dtype)
    routine = blas.gemm(dtype)
    run(routine, [a, b, c], routine.args((0, 1, 2), (size, size, size)))
    np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-5)
    vector = blas.gemv(dtype)
    for x, transposed in ((b[:, 0], False), (b[:, 2], False), (b[1], True), (b[0], True)):
        x = x.copy()
        run(vector, [a, x, y], vector.args((0, 1, 2), (size, size), transposed=transposed))
        np.testing.assert_allclose(y, (a.T if transposed else a) @ x, rtol=1e-3, atol=1e-5)


def test_without_openblas_there_is_no_kernel(monkeypatch):
    monkeypatch.setattr(layout, "blas_is_known", lambda: False)
    monkeypatch.setattr(blas, "blas_address", layout.blas_address.__wrapped__)
    assert blas.blas_address("cblas_dgemm") == 0
    assert (blas.gemm("float64") is None) == (not native.interpreted())
    assert (blas.gemv("float32") is None) == (not native.interpreted())


def test_a_file_that_is_no_library_is_passed_over(tmp_path, monkeypatch):
    (tmp_path / "numpy.libs").mkdir()
    (tmp_path / "numpy.libs" / "libopenblas64_.so").write_text("no library")
    monkeypatch.setattr(np, "__file__", str(tmp_path / "numpy" / "__init__.py"))
    assert layout.blas_libraries.__wrapped__() == []


def test_a_library_that_gives_something_else_is_not_called(monkeypatch):
    monkeypatch.setattr(
        layout, "_blas_function", lambda name: ctypes.CFUNCTYPE(ctypes.c_double)(lambda: 14.0)
    )
    assert not layout.blas_is_known.__wrapped__()
