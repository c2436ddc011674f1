"""minimize: SciPy's solutions, whose derivatives are those of closed forms, also with constraints."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from tests.helpers import close, differences

import fgrad as fg
from fgrad.scipy import optimize

A = np.array([1.0, 2.0])
METHODS = [
    "Nelder-Mead", "Powell", "CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "COBYLA", "COBYQA", "SLSQP",
    "trust-constr", "dogleg", "trust-ncg", "trust-exact", "trust-krylov",
]  # fmt: skip


def quartic(x, a):
    return np.sum((x - a) ** 4 + x**2)


def minimum(a, **options):
    return optimize.minimize(quartic, np.zeros(2), (a,), **{"tol": 1e-12, **options}).x


def slopes(x, a):
    """Return dx/da and d2x/da2 where 4 (x - a)^3 + 2 x = 0."""
    u = x - a
    curvature = 12 * u**2 + 2
    return 12 * u**2 / curvature, -96 * u / curvature**3


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_a_minimum_with_its_derivative(method):
    tol = 1e-7 if method == "trust-krylov" else 1e-12  # beyond which it divides zero by zero
    x, pullback = fg.vjp(lambda a: minimum(a, method=method, tol=tol), A)
    close(4 * (x - A) ** 3 + 2 * x, np.zeros(2), 1e-5)
    close(pullback(np.ones(2))[0], slopes(x, A)[0], 1e-8)


def test_derivatives_of_every_order_in_every_mode():
    x = minimum(A)
    first, second = slopes(x, A)
    close(fg.jacrev(minimum)(A), np.diag(first), 1e-7)
    close(fg.jacfwd(minimum)(A), np.diag(first), 1e-7)
    close(fg.hessian(lambda a: np.sum(minimum(a)))(A), np.diag(second), 1e-7)
    close(fg.grad(lambda a: np.sum(fg.grad(lambda a: np.sum(minimum(a)))(a)))(A), second, 1e-7)
    third = differences(lambda a: slopes(minimum(a), a)[1], A, 1e-5)
    close(fg.jacfwd(fg.hessian(lambda a: np.sum(minimum(a))))(A)[[0, 1], [0, 1]], third, 1e-4)


def test_the_value_at_the_minimum_has_the_gradient_of_the_envelope():
    value = lambda a: optimize.minimize(quartic, np.zeros(2), a, tol=1e-12).fun
    close(fg.grad(value)(A), -4 * (minimum(A) - A) ** 3, 1e-7)


def test_mapped_and_jitted():
    several = np.stack([A, 2 * A, -A])
    each = np.stack([minimum(a) for a in several])
    close(fg.vmap(minimum)(several), each, 1e-7)
    gradient = fg.grad(lambda a: np.sum(minimum(a)))
    expected = np.stack([slopes(x, a)[0] for x, a in zip(each, several, strict=True)])
    close(fg.vmap(gradient)(several), expected, 1e-7)
    close(fg.jit(gradient)(A), expected[0], 1e-7)
    close(fg.jit(fg.vmap(gradient))(several), expected, 1e-7)
    close(fg.jit(fg.hessian(lambda a: np.sum(minimum(a))))(A), np.diag(slopes(each[0], A)[1]), 1e-7)
    result = fg.jit(lambda a: optimize.minimize(quartic, np.zeros(2), a))(A)
    assert result["success"]
    assert result["nfev"] > 1
    assert "message" not in result


def test_without_transformations_the_result_is_scipys():
    mine = optimize.minimize(quartic, np.zeros(2), A, method="BFGS")
    jac = lambda x, a: 4 * (x - a) ** 3 + 2 * x
    theirs = scipy.optimize.minimize(quartic, np.zeros(2), A, method="BFGS", jac=jac)
    assert set(mine) == set(theirs)
    for key in ("nfev", "njev", "nit", "status", "success", "message"):
        assert mine[key] == theirs[key]
    close(mine.x, theirs.x)
    close(mine.hess_inv, theirs.hess_inv)
    assert type(mine.x) is np.ndarray


def test_pytrees_complex_numbers_and_the_dtype_of_the_start():
    data = np.array([1 + 2j, 3 - 1j])
    seen = []

    def loss(p, data):
        return np.sum(np.abs(p["z"] - data) ** 2) + (p["r"][0] - 3.0) ** 2 + np.sum(p["r"][1] ** 2)

    start = {"z": np.zeros(2, complex), "r": (np.float32(0.0), np.ones((2, 1)))}
    found = optimize.minimize(loss, start, (data,), tol=1e-10, callback=seen.append).x
    close(found["z"], data, 1e-8)
    close(found["r"][0], np.float32(3.0))
    assert found["r"][0].dtype == np.float32
    close(found["r"][1], np.zeros((2, 1)), 1e-8)
    assert seen[-1]["r"][1].shape == (2, 1)
    real = lambda data: np.sum(np.real(optimize.minimize(loss, start, (data,), tol=1e-10).x["z"] ** 2))
    close(fg.grad(real)(data), 2 * data, 1e-7)


def test_lists_of_numbers_are_arrays_as_in_scipy():
    for start in ([0, 0], (0.0, 0.0), [fg.tensor(0.0), 0.0]):
        close(optimize.minimize(quartic, start, A).x, minimum(A), 1e-5)
        close(optimize.least_squares(lambda p: p * 2.0 - A, start).x, A / 2)
        close(optimize.root(lambda p: p * 2.0 - A, start).x, A / 2)
        close(optimize.fixed_point(lambda p: 0.5 * p + A, start), 2 * A, 1e-6)


def test_closures_over_tensors_that_are_followed_get_their_gradients():
    m, b = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, -1.0])
    manager, w = fg.GradManager(), fg.tensor(b)
    with manager.attach(w):
        x = optimize.minimize(lambda x: 0.5 * x @ m @ x - w @ x, np.zeros(2), tol=1e-12).x
        manager.backward(np.sum(x))
    close(w.grad, np.linalg.solve(m, np.ones(2)), 1e-8)


def test_python_may_choose_where_nothing_is_differentiated_and_is_refused_elsewhere():
    def loss(x, a):
        return (x - a) ** 2 if x < 10.0 else x**2

    close(optimize.minimize(loss, 0.0, (3.0,)).x, 3.0, 1e-6)
    with pytest.raises(TypeError, match=r"bool\(\) at .* needs the value of a Tensor.*lax.cond"):
        fg.grad(lambda a: optimize.minimize(loss, 0.0, (a,)).x)(3.0)


def test_derivatives_that_the_user_gives():
    counts = []

    def both(x, a):
        counts.append(1)
        return quartic(x, a), 4 * (x - a) ** 3 + 2 * x

    expected = slopes(minimum(A), A)[0]
    for fun, jac in ((both, True), (quartic, lambda x, a: both(x, a)[1]), (quartic, "2-point")):
        solve = lambda a: optimize.minimize(fun, np.zeros(2), (a,), jac=jac, tol=1e-7).x
        close(fg.grad(lambda a: np.sum(solve(a)))(A), expected, 1e-4)
    assert counts
    hess = lambda x, a: np.diag(12 * (x - a) ** 2 + 2)
    hessp = lambda x, p, a: (12 * (x - a) ** 2 + 2) * p
    for known in ({"hess": hess}, {"hessp": hessp}, {"hess": "2-point"}):
        method = "trust-constr" if known.get("hess") == "2-point" else "Newton-CG"
        solve = lambda a: optimize.minimize(quartic, A, (a,), method=method, **known).x
        close(solve(A), minimum(A), 1e-4)
        close(
            fg.jit(fg.vmap(lambda a: fg.grad(lambda a: np.sum(solve(a)))(a)))(A[None]), expected[None], 1e-3
        )


def test_a_callback_of_either_signature_may_stop():
    seen = []

    def stop(intermediate_result):
        seen.append(intermediate_result)
        raise StopIteration

    result = optimize.minimize(quartic, np.zeros(2), A, callback=stop)
    assert not result.success
    assert len(seen) == 1
    assert seen[0].fun == quartic(seen[0].x, A)


def test_the_start_of_a_search_has_no_gradient():
    solutions = (
        lambda x: np.sum(optimize.minimize(quartic, x, A, tol=1e-10).x),
        lambda x: np.sum(optimize.least_squares(lambda p: p - A, x).x),
        lambda x: np.sum(optimize.root(lambda p: p - A, x).x),
        lambda x: optimize.fixed_point(np.cos, np.sum(x)),
        lambda x: optimize.root_scalar(np.sin, x0=3.0 + 0.1 * np.sum(x)).root,
    )
    for solve in solutions:
        close(fg.grad(solve)(np.array([0.1, 0.2])), np.zeros(2))
        close(fg.jvp(solve, (np.array([0.1, 0.2]),), (np.ones(2),))[1], 0.0)
        fg.vmap(solve)(np.array([[0.1, 0.2], [0.2, 0.3]]))


# ---- bounds and constraints ---------------------------------------------------------------------

W = np.array([1.0, 2.0, 3.0])
TARGET = np.array([1.0, -1.0, 3.0])


def boxed(target, low, high, method):
    loss = lambda x: np.sum(W * (x - target) ** 2)
    start, bounds = np.array([0.5, 0.5, 0.5]), optimize.Bounds(low, high)
    return optimize.minimize(loss, start, bounds=bounds, method=method, tol=1e-10).x


@pytest.mark.parametrize("method", [None, "TNC", "SLSQP", "trust-constr", "COBYQA", "Powell"])
def test_bounds_hold_where_they_are_reached(method):
    low, high = np.array([0.1, 0.1, 0.1]), np.array([2.0, 2.0, 2.5])
    x = boxed(TARGET, low, high, method)
    close(x, np.clip(TARGET, low, high), 1e-4)
    dt, dl, dh = fg.jacrev(boxed, (0, 1, 2))(TARGET, low, high, method)
    close(dt, np.diag([1.0, 0.0, 0.0]), 1e-6)
    close(dl, np.diag([0.0, 1.0, 0.0]))
    close(dh, np.diag([0.0, 0.0, 1.0]))


def test_bounds_as_pairs_and_one_for_all():
    loss = lambda x, t: np.sum((x - t) ** 2)
    pairs = [(None, 0.5), (-0.5, None), (0, 1)]
    solve = lambda t, b: optimize.minimize(loss, np.zeros(3), (t,), bounds=b).x
    close(solve(TARGET, pairs), [0.5, -0.5, 1.0])
    close(fg.grad(lambda c: np.sum(solve(TARGET, [(None, c), (-c, None), (0, 1)])))(0.5), 0.0)
    close(fg.grad(lambda c: np.sum(solve(TARGET, optimize.Bounds(-c, c)) * W))(0.5), 1 - 2 + 3.0)
    close(fg.grad(lambda c: np.sum(solve(TARGET, scipy.optimize.Bounds(-0.5, 0.5)) * c))(1.0), 0.5)
    with pytest.raises(ValueError, match="bounds has 2 pairs, but there are 3 variables"):
        solve(TARGET, pairs[:2])
    with pytest.raises(TypeError, match=r"bounds must be Bounds\(lb, ub\), or a sequence of pairs"):
        solve(TARGET, 3)


PLANE = np.array([[1.0, 1.0, 1.0]])


def projected(target, rhs, plane):
    """Return the minimum of sum W (x - target)^2 with plane @ x = rhs, by its closed form."""
    lift = plane.T / W[:, None]
    return target + lift @ np.linalg.solve(plane @ lift, rhs - plane @ target)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "COBYQA"])
@pytest.mark.parametrize("kind", ["equation", "inequality", "dict"])
def test_linear_constraints_against_the_projection(method, kind):
    rhs = np.array([1.0])

    def solve(target, rhs, plane):
        constraint = {
            "equation": optimize.LinearConstraint(plane, rhs, rhs),
            "inequality": [
                optimize.LinearConstraint(plane, ub=rhs),
                optimize.NonlinearConstraint(lambda x: np.sum(x**2), -np.inf, 100.0),  # idle
            ],
            "dict": {"type": "ineq", "fun": lambda x, r: r - plane @ x, "args": (rhs,)},
        }[kind]
        loss = lambda x: np.sum(W * (x - target) ** 2)
        start = np.array([0.2, 0.1, 0.3])
        return optimize.minimize(loss, start, constraints=constraint, method=method, tol=1e-9).x

    tolerance = 1e-2 if (kind, method) == ("dict", "trust-constr") else 1e-3  # SciPy's own is that far off
    close(solve(TARGET, rhs, PLANE), projected(TARGET, rhs, PLANE), tolerance)
    jacobians = fg.jacrev(solve, (0, 1, 2))(TARGET, rhs, PLANE)
    close(jacobians[0], differences(lambda t: projected(t, rhs, PLANE), TARGET), tolerance)
    close(jacobians[1], differences(lambda r: projected(TARGET, r, PLANE), rhs), tolerance)
    close(jacobians[2], differences(lambda p: projected(TARGET, rhs, p), PLANE), tolerance)


def test_second_order_with_constraints_against_differences():
    rhs = np.array([1.0])
    weigh = np.array([1.0, -2.0, 0.5])

    def solve(plane):
        loss = lambda x: np.sum(W * (x - TARGET) ** 2)
        constraint = optimize.LinearConstraint(plane, rhs, rhs)
        return optimize.minimize(loss, np.full(3, 0.2), constraints=constraint, tol=1e-12).x

    slope = lambda p: differences(lambda p: np.sum(weigh * projected(TARGET, rhs, p) ** 2), p, 1e-4)
    expected = differences(slope, PLANE, 1e-4)
    close(fg.hessian(lambda p: np.sum(weigh * solve(p) ** 2))(PLANE), expected, 1e-4)


def test_a_nonlinear_constraint_and_a_bound():
    def solve(radius, low):
        loss = lambda x: x[0] + x[1] + x[2] ** 2
        circle = optimize.NonlinearConstraint(lambda x: x[0] ** 2 + x[1] ** 2, -np.inf, radius**2)
        bounds = optimize.Bounds(np.stack([-np.inf, -np.inf, low]), np.inf)
        return optimize.minimize(loss, np.full(3, 0.5), constraints=circle, bounds=bounds, tol=1e-12).x

    root = np.sqrt(0.5)
    close(solve(2.0, 0.25), [-2 * root, -2 * root, 0.25], 1e-6)
    by_radius, by_low = fg.jacrev(solve, (0, 1))(2.0, 0.25)
    close(by_radius, [-root, -root, 0.0], 1e-6)
    close(by_low, [0.0, 0.0, 1.0], 1e-6)


# ---- what fails ---------------------------------------------------------------------------------


def test_a_search_that_fails_says_so_and_warns_when_it_is_differentiated():
    solve = lambda a: optimize.minimize(quartic, np.zeros(2), a, options={"maxiter": 1})
    assert not solve(A).success
    assert "iterations" in solve(A).message
    for gradient in (fg.grad(lambda a: np.sum(solve(a).x)), fg.jacfwd(lambda a: solve(a).x)):
        with pytest.warns(fg.UnsolvedWarning, match=r"minimize did not find a solution \(status 1\)"):
            gradient(A)
    jitted = fg.jit(fg.grad(lambda a: np.sum(solve(a).x)))
    with pytest.warns(fg.UnsolvedWarning, match="look at result.success"):
        jitted(A)
    mapped = fg.vmap(fg.grad(lambda a: np.sum(solve(a).x)))
    with pytest.warns(fg.UnsolvedWarning, match="did not find a solution"):
        mapped(np.stack([A, A]))


def test_a_search_that_ends_elsewhere_warns_though_it_calls_itself_a_success():
    def careless(fun, x0, args, **_):
        return scipy.optimize.OptimizeResult(x=np.full(2, 0.3), fun=0.0, success=True, status=0, message="")

    solve = lambda a: optimize.minimize(quartic, np.zeros(2), a, method=careless)
    assert solve(A).success
    with pytest.warns(fg.UnsolvedWarning, match=r"did not find a solution \(status 0\)"):
        fg.jacrev(lambda a: solve(a).x)(A)


def test_random_quadratic_programs_have_the_derivatives_of_their_active_sets():
    """Against the solution of the linear system that an active set, found by trying all, makes."""
    n, m = 3, 2
    for seed in range(12):
        rng = np.random.default_rng(seed)
        root = rng.standard_normal((n, n))
        h, c = root @ root.T + np.eye(n), 3 * rng.standard_normal(n)
        a, b = rng.standard_normal((m, n)), rng.uniform(0.2, 1.0, m)
        low = -rng.uniform(0.2, 1.0, n)
        rows = np.concatenate([a, -np.eye(n)])

        def exact(c, b, low):
            for mask in np.ndindex((2,) * (m + n)):
                on = np.array(mask, bool)
                k = int(on.sum())
                if k > n or np.linalg.matrix_rank(rows[on]) < k:
                    continue
                limits = np.concatenate([b, -low])
                full = np.block([[h, rows[on].T], [rows[on], np.zeros((k, k))]])
                z = np.linalg.solve(full, np.concatenate([-c, limits[on]]))
                if np.all(z[n:] >= 0) and np.all(rows @ z[:n] <= limits + 1e-9):
                    return z[:n]
            raise AssertionError

        def solve(c, b, low, method):
            loss = lambda x: 0.5 * x @ h @ x + c @ x
            known = {"bounds": optimize.Bounds(low), "constraints": optimize.LinearConstraint(a, ub=b)}
            return optimize.minimize(loss, np.zeros(n), method=method, tol=1e-9, **known).x

        method = "trust-constr" if seed % 4 == 0 else "SLSQP"
        close(solve(c, b, low, method), exact(c, b, low), 1e-2)
        args = (c, b, low)
        for i, found in enumerate(fg.jacrev(solve, (0, 1, 2))(*args, method)):
            close(found, differences(lambda v: exact(*args[:i], v, *args[i + 1 :]), args[i]), 1e-5)


def test_a_minimum_that_is_not_determined_has_no_derivative():
    solve = lambda a: optimize.minimize(lambda x: (x[0] + x[1] - a) ** 2, np.zeros(2)).x
    with pytest.raises(np.linalg.LinAlgError, match="minimize: the solution has no derivative"):
        fg.jacrev(solve)(1.0)


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"returns one real number, but .* returned float64 of shape \(2,\)"):
        optimize.minimize(lambda x: x, np.zeros(2))
    with pytest.raises(TypeError, match="returned complex128 of shape"):
        optimize.minimize(lambda x: x[0] * 1j, np.zeros(2))
    with pytest.raises(TypeError, match="x0 consists of numbers, but 'a' has dtype"):
        optimize.minimize(lambda x: 0.0, {"b": "a"})
    with pytest.raises(
        TypeError, match="must be a LinearConstraint, a NonlinearConstraint or a dict, not int"
    ):
        optimize.minimize(quartic, A, A, constraints=[3])


# ---- one number ---------------------------------------------------------------------------------


def test_a_minimum_of_one_number():
    loss = lambda x, a: (x - a) ** 2 + np.exp(x)
    slope = lambda x: 2 / (2 + np.exp(x))
    for given in ({}, {"bracket": (-1.0, 1.0), "method": "golden"}, {"bounds": (-3.0, 3.0)}):
        solve = lambda a: optimize.minimize_scalar(loss, args=(a,), **given).x
        x = solve(1.0)
        close(2 * (x - 1.0) + np.exp(x), 0.0, 1e-4)
        close(fg.grad(solve)(1.0), slope(x), 1e-6)
        close(fg.jacfwd(fg.grad(solve))(1.0), -(slope(x) ** 2) * np.exp(x) / (2 + np.exp(x)), 1e-6)
    close(optimize.minimize_scalar(loss, args=(1.0,)).x, scipy.optimize.minimize_scalar(loss, args=(1.0,)).x)
    edge = lambda b: optimize.minimize_scalar(loss, bounds=(b, 3.0), args=(1.0,)).x
    close(fg.grad(edge)(1.0), 1.0)
