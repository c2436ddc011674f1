"""Sparse solvers against NumPy's dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from tests.helpers import close, differences, exactly

import fgrad as fg
from fgrad.scipy.sparse import SparseArray, csr_array, linalg
from fgrad.testing import check_grads

N = 6
ROWS, COLS = np.nonzero(np.abs(np.subtract.outer(np.arange(N), np.arange(N))) <= 1)
DATA = np.where(ROWS == COLS, 4.0, -1.0) + 0.1 * np.sin(np.arange(len(ROWS)))
PATTERN = csr_array(scipy.sparse.coo_array((DATA, (ROWS, COLS)))).pattern
B = np.cos(np.arange(N))


def dense(data):
    a = np.zeros((N, N))
    a[ROWS, COLS] = data
    return a


def symmetric(data):
    """Return values of a symmetric matrix with this pattern."""
    return 0.5 * (dense(data) + dense(data).T)[ROWS, COLS]


def solved(data, b):
    return linalg.spsolve(SparseArray(data, PATTERN), b)


def test_spsolve_in_values_and_right_hand_sides(rng):
    for b in (B, rng.standard_normal((N, 2))):
        close(solved(DATA, b), np.linalg.solve(dense(DATA), b))
        check_grads(solved, (DATA, b), order=2)
        constant = scipy.sparse.csc_matrix(dense(DATA))
        close(fg.jacrev(lambda b: linalg.spsolve(constant, b))(b), fg.jacrev(solved, 1)(DATA, b))
    expected = differences(lambda data: np.linalg.solve(dense(data), B), DATA)
    close(fg.jacrev(solved)(DATA, B), expected, 1e-7)
    close(fg.jacfwd(solved)(DATA, B), expected, 1e-7)
    several = rng.standard_normal((4, N))
    close(fg.vmap(solved, (None, 0))(DATA, several), np.linalg.solve(dense(DATA), several.T).T)
    many = np.stack([DATA, 2 * DATA])
    close(fg.jit(fg.vmap(fg.jacrev(solved), (0, None)))(many, B)[0], expected, 1e-7)
    close(linalg.spsolve(constant, scipy.sparse.eye_array(N)), np.linalg.inv(dense(DATA)))
    close(fg.grad(lambda b: np.real(solved(1j * DATA, b)[0]))(B + 0j), np.linalg.inv(1j * dense(DATA))[0])


def test_spsolve_refuses():
    with pytest.raises(np.linalg.LinAlgError, match="spsolve: the matrix has no inverse"):
        linalg.spsolve(csr_array(np.array([[1.0, 0.0], [1.0, 0.0]])), np.ones(2))
    with pytest.raises(ValueError, match=r"a matrix of shape \(6, 6\) and a right-hand side of shape \(2,\)"):
        solved(DATA, np.ones(2))


FINE = {"rtol": 1e-12}


def matrices(data):
    return {
        "stored": SparseArray(data, PATTERN),
        "function": lambda x: SparseArray(data, PATTERN) @ x,
        "dense": np.stack([SparseArray(data, PATTERN) @ e for e in np.eye(N)], axis=1),
    }


@pytest.mark.parametrize("kind", ["stored", "function", "dense"])
@pytest.mark.parametrize("name", ["cg", "gmres", "bicgstab"])
def test_iterative_solvers(name, kind):
    solver = getattr(linalg, name)
    data = symmetric(DATA) if name == "cg" else DATA
    f = lambda data, b: solver(matrices(data)[kind], b, **FINE)[0]
    x, info = solver(matrices(data)[kind], B, **FINE)
    assert info == 0
    close(x, np.linalg.solve(dense(data), B), 1e-9)
    close(fg.jacrev(f, 1)(data, B), np.linalg.inv(dense(data)), 1e-8)
    close(fg.jacfwd(f)(data, B), differences(lambda d: np.linalg.solve(dense(d), B), data), 1e-6)
    # along symmetric changes of the matrix, those in which the iteration of cg is right
    change = symmetric(np.sin(3.0 * np.arange(len(DATA))))
    along = lambda t: np.sum(f(data + t * change, B) ** 2)
    exact = lambda t: np.sum(np.linalg.solve(dense(data + t * change), B) ** 2)
    close(fg.grad(along)(0.1), differences(exact, 0.1), 1e-7)
    close(fg.hessian(along)(0.1), differences(lambda t: differences(exact, t, 1e-4), 0.1, 1e-4), 1e-5)


def test_mapped_jitted_and_preconditioned(rng):
    data = symmetric(DATA)
    several = rng.standard_normal((3, N))
    solve = lambda b: linalg.cg(SparseArray(data, PATTERN), b, **FINE)[0]
    close(fg.vmap(solve)(several), np.linalg.solve(dense(data), several.T).T, 1e-9)
    close(fg.jit(fg.jacrev(solve))(B), np.linalg.inv(dense(data)), 1e-8)
    m = np.diag(1 / np.diag(dense(DATA)))
    seen = []
    constant = scipy.sparse.csr_array(dense(data))
    x, info = linalg.cg(constant, B, x0=np.ones(N), M=m, callback=seen.append, **FINE)
    close(x, np.linalg.solve(dense(data), B), 1e-9)
    assert info == 0
    assert 0 < len(seen) <= N + 1
    solve = lambda b: linalg.gmres(scipy.sparse.csr_array(dense(DATA)), b, M=m, restart=N, **FINE)[0]
    close(fg.jacrev(solve)(B), np.linalg.inv(dense(DATA)), 1e-8)


@pytest.mark.parametrize("name", ["cg", "gmres", "bicgstab"])
def test_iterations_start_where_only_a_trace_knows(name, rng):
    data, counts = symmetric(DATA), []

    def product(x):
        counts.append(1)
        return SparseArray(data, PATTERN) @ x

    def solve(b, x0, **options):
        return getattr(linalg, name)(product, b, x0=x0, **FINE | options)[0]

    exact, start = np.linalg.solve(dense(data), B), rng.standard_normal(N)
    close(fg.jit(solve)(B, start), exact, 1e-9)
    close(fg.vmap(solve)(np.stack([B, 2 * B]), np.stack([start, start])), np.stack([exact, 2 * exact]), 1e-9)
    by_b, by_start = fg.jit(fg.jacrev(solve, (0, 1)))(B, start)
    close(by_b, np.linalg.inv(dense(data)), 1e-8)
    close(by_start, np.zeros((N, N)), 1e-12)
    # tolerances are relative to the right-hand side, not to what the start leaves of it
    near = exact * (1 + 1e-5)
    close(fg.jit(lambda b, x0: solve(b, x0, rtol=1e-2))(B, near), near, 1e-12)


def test_iterations_that_do_not_converge_say_so():
    f = lambda b: linalg.cg(lambda x: np.arange(1.0, N + 1) ** 4 * x, b, maxiter=1)
    assert f(B)[1] == 1
    with pytest.warns(
        fg.UnsolvedWarning, match="cg did not converge .info 1. while a derivative was computed"
    ):
        fg.jacrev(lambda b: f(b)[0])(B)
    with pytest.raises(TypeError, match="LinearOperator of SciPy's has no derivative"):
        linalg.cg(scipy.sparse.linalg.aslinearoperator(np.eye(2)), np.ones(2))


TALL = np.array([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0], [1.0, 1.0]])


@pytest.mark.parametrize("damp", [0.0, 0.5])
def test_lsqr(damp, rng):
    full = np.concatenate([TALL, damp * np.eye(2)])
    exact = lambda a, b: np.linalg.lstsq(np.concatenate([a, damp * np.eye(2)]), np.append(b, [0.0, 0.0]))[0]
    b = rng.standard_normal(4)
    fine = {"damp": damp, "atol": 1e-14, "btol": 1e-14}
    f = lambda a, b: linalg.lsqr(a, b, **fine)[0]
    close(f(TALL, b), exact(TALL, b), 1e-9)
    close(fg.jacrev(f, 1)(TALL, b), np.linalg.pinv(full)[:, :4], 1e-9)
    close(fg.jacfwd(f)(TALL, b), differences(lambda a: exact(a, b), TALL), 1e-6)
    rows, cols = np.nonzero(TALL)
    pattern = csr_array(TALL).pattern
    by_data = fg.jacrev(lambda d: f(SparseArray(d, pattern), b))(TALL[rows, cols])
    close(by_data, fg.jacrev(f)(TALL, b)[:, rows, cols], 1e-8)
    constant = scipy.sparse.csr_array(TALL)
    close(
        fg.jit(fg.vmap(lambda b: f(constant, b)))(np.stack([b, 2 * b])),
        [exact(TALL, b), 2 * exact(TALL, b)],
        1e-9,
    )
    mine, theirs = linalg.lsqr(constant, b, **fine), scipy.sparse.linalg.lsqr(constant, b, **fine)
    for x, y in zip(mine, theirs[:9], strict=True):
        close(x, y)


def test_lsqr_of_columns_that_are_nearly_dependent_warns():
    a = 1 / (1.0 + np.add.outer(np.arange(10), np.arange(8)))
    with pytest.warns(fg.UnsolvedWarning, match="lsqr: its derivative did not converge"):
        fg.jacrev(lambda b: linalg.lsqr(a, b)[0])(np.cos(np.arange(10)))


PAIRS = [(a, b) for a in "fdFDlb" for b in "fdFDlb"]


@pytest.mark.parametrize("name", ["gmres", "bicgstab"])
def test_iterations_have_scipy_s_dtype_of_matrix_and_vector(name):
    for a, b in PAIRS:
        matrix, rhs = np.array([[4, 1], [0, 3]], a), np.array([1, 2], b)
        if a in "FD":
            matrix += np.array([[0, 1j], [0, 0]], a)
        expected = getattr(scipy.sparse.linalg, name)(matrix, rhs, rtol=1e-6)[0]
        for made in (matrix, csr_array(matrix)):
            found = getattr(linalg, name)(made, rhs, rtol=1e-6)[0]
            assert found.dtype == expected.dtype, (a, b)
            close(found, expected, 1e-5)


def test_conjugate_gradients_of_a_hermitian_matrix(rng):
    a, b, c = (rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4)) for _ in range(3))
    a, b, c = a @ a.conj().T + 4 * np.eye(4), b[0], c[0]
    by_iteration = lambda a, b: np.sum(np.real(c * linalg.cg(a, b, rtol=1e-13)[0]))
    directly = lambda a, b: np.sum(np.real(c * np.linalg.solve(a, b)))
    for i in (0, 1):
        close(fg.grad(by_iteration, i)(a, b), fg.grad(directly, i)(a, b), 1e-9)


def test_complex_numbers_are_not_cut_off():
    with pytest.raises(TypeError, match="gmres: A is complex and b is real; give b as complex numbers"):
        linalg.gmres(lambda x: 1j * x, np.ones(2))
    with pytest.raises(TypeError, match="lsqr takes real matrices and vectors"):
        linalg.lsqr(1j * np.eye(2), np.ones(2))


def test_the_solution_for_one_column_is_a_vector_as_in_scipy():
    a, b = csr_array(np.diag([1.0, 2.0])), np.ones((2, 1))
    exactly(linalg.spsolve(a, b), scipy.sparse.linalg.spsolve(a.toscipy().tocsc(), b))


# ---- conjugate gradients whose tolerances and preconditioners are traced

POSITIVE = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
RIGHT = np.array([1.0, -2.0, 0.5])


def conjugate(a, b, d, tol):
    return linalg.cg(a, b, np.ones(3), rtol=tol, M=lambda v: d * v)[0]


@pytest.mark.parametrize("transformation", [lambda f: f, fg.jit])
def test_conjugate_gradients_of_what_is_traced(transformation):
    d, tol = 1 / POSITIVE.diagonal(), 1e-10
    found = transformation(conjugate)(POSITIVE, RIGHT, d, tol)
    close(found, np.linalg.solve(POSITIVE, RIGHT), 1e-9)
    inverse = np.linalg.inv(POSITIVE)
    close(transformation(fg.jacrev(conjugate, 1))(POSITIVE, RIGHT, d, tol), inverse, 1e-8)
    close(transformation(fg.jacfwd(conjugate, 1))(POSITIVE, RIGHT, d, tol), inverse, 1e-8)
    mapped = fg.vmap(conjugate, (None, 0, 0, None))
    both = transformation(mapped)(POSITIVE, np.stack([RIGHT, 2 * RIGHT]), np.stack([d, d * 0 + 1]), tol)
    close(both[1], 2 * np.linalg.solve(POSITIVE, RIGHT), 1e-9)
    # neither the preconditioner nor the tolerance has a gradient
    for argument in (2, 3):
        assert not np.any(fg.jacrev(conjugate, argument)(POSITIVE, RIGHT, d, tol))


def test_derivatives_of_conjugate_gradients_of_what_is_traced():
    def of_diagonal(b, shift):
        a = POSITIVE + shift * np.eye(3)
        return linalg.cg(lambda v: a @ v, b, rtol=fg.tensor(1e-12), atol=0.0)[0]

    check_grads(of_diagonal, (RIGHT, 0.3), order=2)
    c = POSITIVE + np.array([[0, 1j, 0], [-1j, 0, 0], [0, 0, 0]])
    x, info = linalg.cg(c, RIGHT, M=lambda v: v, rtol=1e-12)
    assert info is None
    close(x, np.linalg.solve(c, RIGHT), 1e-9)
    check_grads(lambda b: linalg.cg(c, b, M=lambda v: v, rtol=1e-12)[0], (RIGHT + 0j,))


def test_steps_of_conjugate_gradients_are_counted():
    one = fg.jit(lambda n: linalg.cg(POSITIVE, RIGHT, maxiter=n)[0])(1)
    expected = scipy.sparse.linalg.cg(POSITIVE, RIGHT, maxiter=1)[0]
    close(one, expected, 1e-12)
    with pytest.raises(TypeError, match="a callback needs"):
        linalg.cg(POSITIVE, RIGHT, M=lambda v: v, callback=print)
