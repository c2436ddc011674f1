"""Elements at indices that cannot be negative: functions in the place of brackets give the same."""

import ast

import numba
import numpy as np
import pytest
from numba import types

import fgrad
from fgrad.adjoints.elements import Elements
from fgrad.compat.numba import elements

MATRIX = types.Array(types.float64, 2, "C")
KINDS = {
    "a": MATRIX,
    "b": MATRIX.copy(dtype=types.float32),
    "c": MATRIX.copy(ndim=1),
    "d": MATRIX.copy(ndim=4),
}
TEXTS = {
    "a[uint64(i), 0] = c[uint64(i + 1)]": "put_at2(a, i, 0, at1(c, i + 1))",
    "a[uint64(i), uint64(j)] += c[2] * x": "add_at2(a, i, j, at1(c, 2) * x)",
    "a[uint64(i), uint64(j)] -= -x": "add_at2(a, i, j, x)",
    "c[uint64(i)] -= x": "add_at1(c, i, -x)",
    "c[uint64(i)] *= x": "put_at1(c, i, at1(c, i) * x)",
    "b[uint64(i), uint64(j)] += x": "put_at2(b, i, j, at2(b, i, j) + x)",  # rounded once
    "sf[uint64(pf)] = c[uint64(n - 1)]": "put_at1(sf, pf, at1(c, n - 1))",
    "x = a[uint64(i), uint64(a[0, 1])]": "x = at2(a, i, at2(a, 0, 1))",
}
SAME = [
    "x = c[i]", "x = c[-1]", "x = a[uint64(i), j]", "c[i] += x", "a[uint64(i)] = x", "x = e[uint64(i)]",
    "x = d[uint64(i), 0, 0, 0]", "x = a.shape[0]", "c[:] = x", "x = uint64(i)", "x = c[True]",
]  # fmt: skip


def written(text):
    return ast.unparse(ast.fix_missing_locations(Elements(KINDS, "uint64").visit(ast.parse(text))))


@pytest.mark.parametrize("text", TEXTS)
def test_a_text(text):
    assert written(text) == TEXTS[text]


@pytest.mark.parametrize("text", SAME)
def test_other_indices_stay(text):
    assert written(text) == text


if not elements():
    pytest.skip("this version of Numba makes arrays in another way", allow_module_level=True)
at1, at2, put_at1, put_at2, add_at2 = (
    elements()[name] for name in ("at1", "at2", "put_at1", "put_at2", "add_at2")
)


@numba.njit
def through(a, b, c):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            put_at2(b, i, j, at2(a, i, j) + at1(c, j))
            add_at2(b, i, j, 2 * at2(a, i, 1))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F", "A", "backwards"])
def test_arrays_that_lie_in_any_way(order, dtype):
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(2, 7, 9)).astype(dtype)
    part = {"A": whole[:, 1:6:2, 2:8], "backwards": whole[:, :3, 8:2:-1]}.get(order, whole[:, :3, :6])
    a, b = (np.array(x, order=order) if order in "CF" else x for x in part)
    c = whole[0, 6, :6]
    expected = a + c + 2 * a[:, 1:2]
    through(a, b, c)
    np.testing.assert_allclose(b, expected, rtol=1e-6 if dtype == np.float32 else 1e-14)


def test_numbers_of_all_kinds():
    @numba.njit
    def copied(x, y, k):
        put_at1(y, k, at1(x, k + 1))

    for dtype in (np.bool_, np.int8, np.uint64, np.float32, np.complex64, np.complex128):
        x, y = np.array([0, 1, 1, 0]).astype(dtype), np.zeros(4, dtype)
        copied(x, y, np.int32(1))
        np.testing.assert_array_equal(y, np.array([0, 1, 0, 0]).astype(dtype))


def test_kernels_whose_indices_are_checked():
    @numba.njit(boundscheck=True)
    def beyond(x, n):
        total = 0.0
        for i in range(n):
            total += x[i] * x[i]
        return total

    function = fgrad.differentiate(beyond)
    np.testing.assert_array_equal(fgrad.grad(function)(np.array([1.0, 2.0]), 2), [2.0, 4.0])
    with pytest.raises(IndexError):
        fgrad.grad(function)(np.array([1.0, 2.0]), 3)
    program, _ = function._program((np.ones(2), 2))
    assert "at1(" not in program.written_adjoint((0,), (0,)).compiled_source("adjoint")
    unchecked, _ = fgrad.differentiate(numba.njit(beyond.py_func))._program((np.ones(2), 2))
    assert "at1(" in unchecked.written_adjoint((0,), (0,)).compiled_source("adjoint")
