"""custom_root and custom_linear_solve with opaque solvers, against closed forms and differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse.linalg
from tests.helpers import close, is_numpy

import fgrad as fg
from fgrad import lax
from fgrad.testing import check_grads

M = np.array([[3.0, 1.0], [0.5, 2.0]])
B = np.array([1.0, -2.0])
D = np.array([1.0, 2.0, 3.0])


def cube_root(a):
    solve = lambda f, x: scipy.optimize.brentq(lambda v: float(f(np.float64(v))), 0.0, 10.0)
    return lax.custom_root(lambda x: x**3 - a, 1.0, solve, lambda g, y: y / g(1.0))


def dense(matvec, b):
    assert type(b) is np.ndarray  # solvers see arrays
    columns = [matvec(e) for e in np.eye(len(b))]
    assert all(type(c) is np.ndarray for c in columns)
    return np.linalg.solve(np.stack(columns, axis=1), b)


def vector_root(b, m):
    f = lambda x: m @ x + 0.1 * x**3 - b
    solve = lambda f, x: scipy.optimize.root(f, x, tol=1e-13).x
    return lax.custom_root(f, np.zeros(2), solve, lambda g, y: np.linalg.solve(fg.jacobian(g)(y), y))


def linear(b, m):
    return lax.custom_linear_solve(lambda x: m @ x, b, dense, dense)


def conjugate_gradients(b, d):
    def solve(matvec, b):
        return scipy.sparse.linalg.cg(scipy.sparse.linalg.LinearOperator((3, 3), matvec), b, rtol=1e-14)[0]

    return lax.custom_linear_solve(lambda x: d * x + 0.1 * np.sum(x), b, solve, symmetric=True)


def test_a_root_has_the_derivatives_of_the_closed_form():
    a = 8.0
    close(cube_root(a), 2.0)
    assert is_numpy(cube_root(a))
    first, second = 1 / 12, -2 / 9 * a ** (-5 / 3)
    close(fg.grad(cube_root)(a), first)
    close(fg.jvp(cube_root, (a,), (1.0,))[1], first)
    for twice in (fg.grad(fg.grad(cube_root)), fg.jacfwd(fg.jacfwd(cube_root)), fg.hessian(cube_root)):
        close(twice(a), second)
    close(fg.grad(fg.grad(fg.grad(cube_root)))(a), 10 / 27 * a ** (-8 / 3))


def test_a_root_mapped_and_staged():
    a = np.array([1.0, 8.0, 27.0])
    close(fg.vmap(cube_root)(a), [1.0, 2.0, 3.0])
    close(fg.vmap(fg.grad(cube_root))(a), a ** (-2 / 3) / 3)
    close(fg.grad(lambda a: np.sum(fg.vmap(cube_root)(a)))(a), a ** (-2 / 3) / 3)
    close(fg.hessian(lambda a: np.sum(fg.vmap(cube_root)(a)))(a), np.diag(-2 / 9 * a ** (-5 / 3)))
    program = fg.make_graph(cube_root)(8.0)
    close(program(27.0), 3.0)
    close(fg.grad(fg.grad(program))(8.0), -2 / 9 * 8.0 ** (-5 / 3))
    close(fg.make_graph(fg.grad(cube_root))(1.0)(8.0), 1 / 12)


def test_differences_to_second_order():
    check_grads(vector_root, (B, M), order=2)
    check_grads(linear, (B, M), order=2)
    check_grads(conjugate_gradients, (np.ones(3), D), order=2)
    check_grads(fg.vmap(conjugate_gradients), (np.ones((2, 3)), np.stack([D, 2 * D])), order=2)


def test_a_linear_solution():
    close(linear(B, M), np.linalg.solve(M, B))
    close(fg.jacrev(linear)(B, M), np.linalg.inv(M))
    close(fg.jacfwd(linear)(B, M), np.linalg.inv(M))
    manager, m = fg.GradManager(), fg.tensor(M)
    with manager.attach(m):
        manager.backward(np.sum(linear(B, m)))
    close(m.grad, -np.outer(np.linalg.solve(M.T, np.ones(2)), np.linalg.solve(M, B)))
    ds = np.stack([D, D + 1])
    gradient = fg.grad(lambda d: np.sum(conjugate_gradients(np.ones(3), d) ** 2))
    close(fg.make_graph(fg.vmap(gradient))(ds)(ds), [gradient(d) for d in ds], 1e-8)


def test_a_linear_solution_from_a_guess():
    starts = []

    def solve(matvec, b, guess=None):
        starts.append(guess)
        return dense(matvec, b)

    def solution(b, m, guess):
        return lax.custom_linear_solve(lambda x: m @ x, b, solve, solve, guess=guess)

    start = np.array([7.0, 8.0])
    close(solution(B, M, start), np.linalg.solve(M, B))
    assert starts.pop() is not None
    by_b, by_guess = fg.jacrev(solution, (0, 2))(B, M, start)
    close(by_b, np.linalg.inv(M))
    close(by_guess, np.zeros((2, 2)))
    close(starts[0], start)
    assert starts[1] is None  # of the derivative
    close(fg.jit(solution)(B, M, start), np.linalg.solve(M, B))
    close(starts[-1], start)
    close(fg.jvp(lambda g: solution(B, M, g), (start,), (start,))[1], np.zeros(2))
    mapped = fg.vmap(lambda g: solution(B, M, g))(np.stack([start, 2 * start]))
    close(mapped, np.stack([np.linalg.solve(M, B)] * 2))
    close(starts[-1], 2 * start)
    for guess in (np.zeros(3), [start]):
        with pytest.raises(ValueError, match="the guess is to be like the right-hand side"):
            solution(B, M, guess)


def test_pytrees_and_auxiliary_results():
    b = {"u": np.array([2.0, 4.0]), "v": 3.0}
    solve = lambda matvec, b: ({"u": b["u"] / 2.0, "v": b["v"] / 3.0}, "done")
    f = lambda b: lax.custom_linear_solve(
        lambda x: {"u": 2.0 * x["u"], "v": 3.0 * x["v"]}, b, solve, symmetric=True, has_aux=True
    )
    x, aux = f(b)
    close(x["u"], [1.0, 2.0])
    assert aux == "done"

    def loss(b):
        x, aux = f(b)
        return np.sum(x["u"]) * x["v"], aux

    g, aux = fg.grad(loss, has_aux=True)(b)
    close(g["u"], [0.5, 0.5])
    close(g["v"], 1.0)
    assert aux == "done"


def test_forward_mode_needs_no_transposed_solver_and_reverse_mode_says_so():
    f = lambda m: lax.custom_linear_solve(lambda x: m @ x, B, dense)
    close(fg.jacfwd(f)(M), fg.jacrev(lambda m: linear(B, m))(M))
    with pytest.raises(TypeError, match="needs transpose_solve for its gradient"):
        fg.grad(lambda m: np.sum(f(m)))(M)


def test_what_is_refused():
    with pytest.raises(TypeError, match="floating-point numbers, not for int64"):
        lax.custom_linear_solve(lambda x: x, np.arange(3), dense)
    with pytest.raises(TypeError, match="must return what it takes"):
        lax.custom_root(lambda x: (x, x), 1.0, None, None)
    with pytest.raises(ValueError, match=r"float64\[2\] and becomes float64\[1\]"):
        lax.custom_root(lambda x: x[:1], np.ones(2), None, None)
    with pytest.raises(ValueError, match=r"solver must return shape \(2,\), not \(3,\)"):
        lax.custom_root(lambda x: x, np.ones(2), lambda f, x: np.ones(3), None)
    with pytest.raises(TypeError, match="must return a pair"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: x, None, has_aux=True)
    with pytest.raises(TypeError, match="cannot be traced"):
        solve = lambda f, x: (x, 1)
        fg.make_graph(lambda a: lax.custom_root(lambda x: x - a, 1.0, solve, None, has_aux=True))(1.0)
