"""Kernels for small matrices against NumPy: every size around their classes, single ones and stacks."""

import numpy as np
import pytest

from fgrad.errors import BrokenContractError
from fgrad.kernels import blas, small_matrices
from fgrad.kernels.small_matrices import LANES, MANY, MOST, SIDE_BY_SIDE

RNG = np.random.default_rng(21)
SIZES = (1, 2, 3, 5, SIDE_BY_SIDE, SIDE_BY_SIDE + 1, MOST)
COUNTS = (1, LANES - 1, LANES, 2 * LANES + 3)


def definite(dtype, *shape):
    a = RNG.standard_normal((*shape, shape[-1]))
    return (a @ np.swapaxes(a, -1, -2) / shape[-1] + np.eye(shape[-1])).astype(dtype)


def other_triangle(a, value):
    """Return matrices whose upper triangles hold what kernels must not read."""
    return np.where(np.tri(a.shape[-1], dtype=bool), a, value)


@pytest.fixture(autouse=True)
def any_stack(monkeypatch):
    monkeypatch.setattr(small_matrices, "MANY", 1)


SYSTEMS = [(n, count, 3) for n in SIZES for count in COUNTS]
SYSTEMS += [(n, count, 300) for n, count in ((2, 1), (2, LANES), (SIDE_BY_SIDE, LANES), (MOST, 1))]


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("count", COUNTS)
def test_factors_are_numpys(dtype, n, count):
    a = definite(dtype, count, n)
    found = small_matrices.factor(other_triangle(a, np.nan).astype(dtype))
    expected = np.linalg.cholesky(a)
    assert found.dtype == a.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=8 * np.finfo(dtype).eps * abs(expected).max())
    assert not np.triu(found, 1).any()


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize(("n", "count", "columns"), SYSTEMS)
def test_triangular_systems(dtype, n, count, columns):
    whole, b = definite(dtype, count, n), RNG.standard_normal((count, n, columns)).astype(dtype)
    for lower in (False, True):
        for unit in (False, True):
            part = np.tril(whole, -unit) if lower else np.triu(whole, unit)
            exact = np.linalg.solve((part + unit * np.eye(n)).astype("d"), b.astype("d"))
            a = np.where(part != 0, whole, np.nan).astype(dtype)
            flat = np.ascontiguousarray(np.swapaxes(a, 1, 2))
            for x in (a, np.swapaxes(flat, 1, 2)):
                for solver in (small_matrices, blas):
                    found = solver.solve_triangular(x, b, lower=lower, unit=unit)
                    if solver is blas and found is None:
                        continue  # NumPy has another one
                    assert found.dtype == dtype
                    size = abs(exact).max() * n * np.finfo(dtype).eps
                    np.testing.assert_allclose(found, exact, rtol=0, atol=4 * size)


@pytest.mark.usefixtures("both_ways")
def test_kernels_that_python_runs():
    a, b = definite("d", LANES + 1, 3), RNG.standard_normal((LANES + 1, 3, 2))
    np.testing.assert_allclose(small_matrices.factor(a), np.linalg.cholesky(a), rtol=1e-14, atol=1e-14)
    found = small_matrices.solve_triangular(a, b, lower=False, unit=False)
    np.testing.assert_allclose(found, np.linalg.solve(np.triu(a), b), rtol=1e-13, atol=1e-13)
    assert small_matrices.factor(-a) is None


@pytest.mark.parametrize("count", [3, 11])
@pytest.mark.parametrize("place", [0, -1])
def test_doubtful_matrices_are_left_to_numpy(count, place):
    n, good = 4, definite("d", count, 4)
    for spoiled in (-1.0, 0.0, np.nan, np.inf, 1e-17):
        a = good.copy()
        a[place, 1:, 0] = a[place, 2:, 1] = a[place, 3, 2] = 0.0  # so that pivots are elements
        a[place, 2, 2] = spoiled
        if spoiled == 1e-17:  # the difference of equal numbers, to rounding
            a[place, 2, 2] = a[place, 2, 0] = a[place, 0, 0] = 1.0
            a[place, 2, 2] += 2e-16
        assert small_matrices.factor(a) is None, spoiled
    b = np.ones((count, n, 1))
    good[place, 2, 2] = 0.0
    for lower in (False, True):
        assert small_matrices.solve_triangular(good, b, lower=lower, unit=False) is None
        assert small_matrices.solve_triangular(good, b, lower=lower, unit=True) is not None


def test_few_matrices_and_large_ones_wait_for_no_compiler(monkeypatch):
    monkeypatch.setattr(small_matrices, "MANY", MANY)
    monkeypatch.setattr(small_matrices, "_run", None)
    for shape in ((MANY - 1, 3, 3), (3, 3), (MANY, MOST + 1, MOST + 1), (MANY, 0, 0)):
        a = np.zeros(shape)
        assert small_matrices.factor(a) is None
        assert small_matrices.solve_triangular(a, a, lower=True, unit=False) is None
    for dtype in ("D", ">f8", "e"):
        assert small_matrices.factor(np.zeros((MANY, 3, 3), dtype)) is None


def test_results_do_not_depend_on_the_stack_around_them():
    """A matrix gives the same bits at every place, so that threads do not matter either."""
    a = definite("d", 1, 7)
    for count in (LANES, 3 * LANES + 1):
        found = small_matrices.factor(np.repeat(a, count, 0))
        assert (found == found[0]).all()


@pytest.mark.parametrize("solver", [small_matrices, blas])
@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 3), (5, 3, 2)), ((4, 3, 3), (5, 3, 2)), ((2, 2), (3, 2)), ((5, 3, 2), (5, 3, 2)), ((4, 4), (3, 2))],
)
def test_matrices_that_do_not_belong_to_right_hand_sides_are_refused(solver, a, b):
    if solver is blas and blas.trsm("float64") is None:
        pytest.skip("NumPy has another BLAS")
    with pytest.raises(BrokenContractError):
        solver.solve_triangular(np.ones(a), np.ones(b), lower=True, unit=False)


def general(dtype, *shape):
    return (RNG.permutation(definite("d", *shape), axis=-1) - 0.25).astype(dtype)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("count", COUNTS)
def test_systems_and_cofactors_are_numpys(dtype, n, count):
    a, b, eps = (
        general(dtype, count, n),
        RNG.standard_normal((count, n, 3)).astype(dtype),
        np.finfo(dtype).eps,
    )
    for x, y in ((a, b), (a[0], b), (a, b[0])):
        expected = np.linalg.solve(x.astype("d"), y.astype("d"))
        size = abs(expected).max() * n * np.linalg.cond(x).max()
        found = small_matrices.solve(x, y)
        np.testing.assert_allclose(found, expected.astype(dtype), rtol=0, atol=4 * eps * size)
    whole = a.astype("d")
    expected = np.linalg.det(whole)[:, None, None] * np.swapaxes(np.linalg.inv(whole), 1, 2)
    found = small_matrices.cofactor(a)
    np.testing.assert_allclose(found, expected, rtol=0, atol=100 * n * eps * abs(expected).max())


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("least", [0.0, 1e-30, 1e-13, 1e-5])
def test_cofactors_of_matrices_near_to_singular_ones(dtype, n, least):
    left, right = (np.linalg.qr(RNG.standard_normal((n, n)))[0] for _ in range(2))
    s = np.linspace(2, 1, n)
    a = np.empty((2 * COUNTS[-1] + 1, n, n), dtype)
    regular = (left * s) @ right.T
    s[-1] = least
    a[::2], a[1::2] = (left * s) @ right.T, regular  # so that one block has both
    others = [np.prod(np.delete(s, k)) for k in range(n)]
    expected = np.linalg.det(left) * np.linalg.det(right) * (left * others) @ right.T
    found, room = small_matrices.cofactor(a), 100 * n * np.finfo(dtype).eps * max(others)
    np.testing.assert_allclose(found[::2] - expected, 0, atol=room)
    expected = np.linalg.det(regular) * np.linalg.inv(regular).T
    np.testing.assert_allclose(found[1::2] - expected, 0, atol=room)


def test_cofactors_of_matrices_of_low_rank():
    """Of integers, of which all cofactors are integers."""
    for n, rank in ((1, 0), (2, 0), (2, 1), (3, 1), (4, 3), (5, 4), (5, 3), (6, 5)):
        a = RNG.integers(-3, 4, (40, n, rank)) @ RNG.integers(-3, 4, (40, rank, n))
        for x, found in zip(a, small_matrices.cofactor(a.astype("d")), strict=True):
            for i, k in np.ndindex(n, n):
                minor = np.delete(np.delete(x, i, 0), k, 1)
                exact = (-1) ** (i + k) * round(np.linalg.det(minor)) if n > 1 else 1
                assert abs(found[i, k] - exact) <= 1e-9 * max(1, np.abs(x).max()) ** (n - 1)


@pytest.mark.usefixtures("both_ways")
def test_systems_that_python_computes():
    a, b = general("d", LANES + 1, 3), RNG.standard_normal((LANES + 1, 3, 2))
    np.testing.assert_allclose(small_matrices.solve(a, b), np.linalg.solve(a, b), rtol=1e-10)
    assert small_matrices.solve(np.ones((LANES, 3, 3)), b[:-1]) is None
    assert not small_matrices.cofactor(np.ones((LANES, 3, 3))).any()
    assert small_matrices.cofactor(np.full((LANES, 3, 3), np.inf)) is None
    assert small_matrices.solve(np.zeros((LANES, 3, 3)), b[:-1]) is None
