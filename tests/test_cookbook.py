"""What the tutorials of automatic differentiation show, worked out from the mathematics.

Each part states a problem, solves it with a few lines of fgrad, and compares with a formula, with differences
or with high precision. Nothing here is compared with fgrad alone.
"""

from __future__ import annotations

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import special, stats
from tests.helpers import close, differences

import fgrad as fg

RNG = np.random.default_rng(11)
DATA = RNG.normal(size=(6, 3))  # six samples of three features
LABELS = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
W, B = np.array([0.4, -0.7, 0.2]), 0.15


# ---- gradients: logistic regression -------------------------------------------------------------------


def predict(w, b, x):
    return 0.5 * (np.tanh((x @ w + b) / 2) + 1.0)  # the logistic function


def negative_log_likelihood(w, b, x=DATA, y=LABELS):
    p = predict(w, b, x)
    return -np.sum(np.log(np.where(y > 0, p, 1.0 - p)))


def residual(w, b):
    """Return p - y, of which the gradient of the negative log-likelihood is made."""
    return special.expit(DATA @ w + b) - LABELS


def test_gradients_by_position():
    r = residual(W, B)
    close(fg.grad(negative_log_likelihood)(W, B), DATA.T @ r)
    close(fg.grad(negative_log_likelihood, argnums=1)(W, B), r.sum())
    dw, db = fg.grad(negative_log_likelihood, argnums=(0, 1))(W, B)
    close(dw, DATA.T @ r)
    close(db, r.sum())


def test_gradients_of_a_dict_of_parameters():
    loss = lambda p: negative_log_likelihood(p["w"], p["b"])
    value, gradient = fg.value_and_grad(loss)({"w": W, "b": B})
    p = special.expit(DATA @ W + B)
    close(value, -np.sum(LABELS * np.log(p) + (1 - LABELS) * np.log1p(-p)))
    close(gradient["w"], DATA.T @ residual(W, B))
    close(gradient["b"], residual(W, B).sum())


def test_gradients_by_a_manager():
    w, b = fg.tensor(W), fg.tensor(B)
    with fg.GradManager().attach([w, b]) as gm:
        gm.backward(negative_log_likelihood(w, b))
    close(w.grad, DATA.T @ residual(W, B))
    close(b.grad, residual(W, B).sum())


def test_gradient_descent_ends_where_the_gradient_vanishes():
    def loss(p):
        return negative_log_likelihood(p["w"], p["b"]) + 0.5 * np.sum(p["w"] ** 2)

    p = {"w": np.zeros(3), "b": 0.0}
    for _ in range(300):
        p = fg.tree.map(lambda v, g: v - 0.3 * g, p, fg.grad(loss)(p))
    r = residual(p["w"], p["b"])
    close(DATA.T @ r + p["w"], np.zeros(3), atol=1e-8)  # the stationarity condition itself
    close(r.sum(), 0.0, atol=1e-8)


# ---- Jacobians and Hessians ---------------------------------------------------------------------------


def slope(w):
    p = special.expit(DATA @ w + B)
    return p * (1 - p)


def test_jacobians_both_ways():
    f = lambda w: predict(w, B, DATA)
    expected = slope(W)[:, None] * DATA
    close(fg.jacfwd(f)(W), expected)
    close(fg.jacrev(f)(W), expected)
    close(fg.jacrev(lambda p: predict(p["w"], p["b"], DATA))({"w": W, "b": B})["b"], slope(W))


def test_jacobians_row_by_row_and_column_by_column():
    f = lambda w: predict(w, B, DATA)
    out, pullback = fg.vjp(f, W)
    (rows,) = fg.vmap(pullback)(np.eye(len(out)))
    columns = fg.vmap(lambda t: fg.jvp(f, (W,), (t,))[1], out_axes=1)(np.eye(3))
    close(rows, slope(W)[:, None] * DATA)
    close(columns, slope(W)[:, None] * DATA)


def test_hessian_of_the_log_likelihood():
    close(fg.hessian(negative_log_likelihood)(W, B), DATA.T @ (slope(W)[:, None] * DATA))


def hvp_by_forward_over_reverse(f, x, v):
    return fg.jvp(fg.grad(f), (x,), (v,))[1]


def hvp_by_reverse_over_forward(f, x, v):
    return fg.grad(lambda x: fg.jvp(f, (x,), (v,))[1])(x)


def hvp_by_reverse_over_reverse(f, x, v):
    return fg.grad(lambda x: np.vdot(fg.grad(f)(x), v))(x)


def hvp_in_one_call(f, x, v):
    return fg.hvp(f, (x,), (v,))[1]


def hvp_by_two_managers(f, x, v):
    t = fg.tensor(x)
    outer, inner = fg.GradManager().attach(t), fg.GradManager().attach(t)
    with outer:
        with inner:
            inner.backward(f(t))
        gradient, t.grad = t.grad, None
        outer.backward(gradient, v)
    return t.grad


@pytest.mark.parametrize(
    "hvp",
    [
        hvp_by_forward_over_reverse,
        hvp_by_reverse_over_forward,
        hvp_by_reverse_over_reverse,
        hvp_in_one_call,
        hvp_by_two_managers,
    ],
)
def test_hessian_times_vector(hvp):
    v = np.array([1.0, -2.0, 0.5])
    close(hvp(lambda w: negative_log_likelihood(w, B), W, v),
          DATA.T @ (slope(W) * (DATA @ v)))  # fmt: skip
    # f = sum_ij tanh(x_i)^2 x_j, by differences of its gradient
    f = lambda x: np.sum(np.tanh(x) ** 2) * np.sum(x)
    gradient = lambda x: 2 * np.tanh(x) / np.cosh(x) ** 2 * np.sum(x) + np.sum(np.tanh(x) ** 2)
    close(hvp(f, W, v), differences(gradient, W) @ v, rtol=1e-7)


# ---- per-sample gradients -----------------------------------------------------------------------------


def test_gradients_of_each_sample():
    def loss(w, x, y):
        p = predict(w, B, x)
        return -np.log(np.where(y > 0, p, 1.0 - p))

    expected = residual(W, B)[:, None] * DATA
    close(fg.vmap(fg.grad(loss), in_axes=(None, 0, 0))(W, DATA, LABELS), expected)
    norms = fg.vmap(lambda x, y: np.linalg.norm(fg.grad(loss)(W, x, y)))(DATA, LABELS)
    close(norms, np.linalg.norm(expected, axis=1))
    shrunk = lambda g: g / np.maximum(1.0, np.linalg.norm(g) / 0.3)
    clipped = fg.vmap(lambda x, y: shrunk(fg.grad(loss)(W, x, y)))(DATA, LABELS)
    factors = np.minimum(1.0, 0.3 / np.linalg.norm(expected, axis=1))
    close(clipped, factors[:, None] * expected)


def mlp(params, x):
    for w, b in params[:-1]:
        x = np.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def network(sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(m, n)) / np.sqrt(m), 0.1 * rng.normal(size=n)) for m, n in pairwise(sizes)]


def test_gradients_of_each_sample_of_a_network():
    params = network([3, 5, 1])
    loss = lambda p, x, y: (mlp(p, x)[0] - y) ** 2
    each = fg.vmap(fg.grad(loss), in_axes=(None, 0, 0))(params, DATA, LABELS)
    (w1, b1), (w2, b2) = params
    h = np.tanh(DATA @ w1 + b1)  # backpropagation by hand
    d2 = 2 * (h @ w2 + b2 - LABELS[:, None])
    d1 = (d2 @ w2.T) * (1 - h * h)
    close(each[1][0], h[:, :, None] * d2[:, None, :])
    close(each[1][1], d2)
    close(each[0][0], DATA[:, :, None] * d1[:, None, :])
    close(each[0][1], d1)


# ---- complex numbers ----------------------------------------------------------------------------------


def test_holomorphic_functions():
    z = 3.0 + 4.0j
    close(fg.grad(np.sin, holomorphic=True)(z), np.cos(z))
    close(fg.grad(lambda z: z**3, holomorphic=True)(z), 3 * z * z)
    close(fg.jacfwd(np.exp, holomorphic=True)(np.array([z, 1j])), np.diag(np.exp([z, 1j])))


def test_real_functions_of_complex_numbers():
    # f(x + iy) = u, and the gradient is du/dx - i du/dy: descent goes along its conjugate
    z = 0.6 - 1.1j
    close(fg.grad(lambda z: np.abs(z) ** 2)(z), 2 * np.conj(z))
    close(fg.grad(lambda z: (z**2).real)(z), 2 * z)
    u = lambda x, y: np.exp(x) * np.cos(y) + x * y * y
    f = lambda z: np.exp(z).real + z.real * z.imag**2
    x, y = z.real, z.imag
    close(fg.grad(f)(z), (np.exp(x) * np.cos(y) + y * y) - 1j * (-np.exp(x) * np.sin(y) + 2 * x * y))
    assert np.isclose(f(z), u(x, y))
    for _ in range(100):
        z = z - 0.1 * np.conj(fg.grad(lambda z: np.abs(z - (1 + 2j)) ** 2)(z))
    close(z, 1 + 2j, atol=1e-8)


def test_jacobian_of_a_function_that_is_not_holomorphic():
    # f(z) = z conj(z)^2 as a map of the plane, by its real Jacobian
    def plane(v):
        z = v[0] + 1j * v[1]
        w = z * np.conj(z) ** 2
        return np.stack([w.real, w.imag])

    v = np.array([0.3, -0.8])
    # |z|^2 conj(z) = (r x, -r y), r = x^2 + y^2
    x, y = v
    r = x * x + y * y
    expected = [[r + 2 * x * x, 2 * x * y], [-2 * x * y, -r - 2 * y * y]]
    close(fg.jacrev(plane)(v), expected)
    close(fg.jacfwd(plane)(v), expected)


# ---- rules of one's own -------------------------------------------------------------------------------


@fg.custom_jvp
def log1pexp(x):
    return np.log(1.0 + np.exp(x))


log1pexp.defjvps(lambda t, out, x: t * (1.0 - 1.0 / (1.0 + np.exp(x))))


def test_a_stable_derivative_of_log1pexp():
    x = np.array([-30.0, -1.0, 0.0, 2.0, 30.0])
    logistic = [float(1 / (1 + mpmath.exp(-v))) for v in x]
    close(fg.vmap(fg.grad(log1pexp))(x), logistic, rtol=1e-12)
    close(fg.vmap(fg.grad(fg.grad(log1pexp)))(x[1:4]), [v * (1 - v) for v in logistic[1:4]])
    close(fg.jvp(log1pexp, (2.0,), (3.0,))[1], 3 * logistic[3])
    with np.errstate(over="ignore", invalid="ignore"):
        assert fg.grad(log1pexp)(1000.0) == 1.0
        naive = fg.grad(lambda x: np.log(1.0 + np.exp(x)))(1000.0)
        assert naive != 1.0  # which is why the rule exists
        with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match="exp"):
            fg.grad(lambda x: np.log(1.0 + np.exp(x)))(1000.0)


@fg.custom_vjp
def rounded(x):
    return np.round(x)


rounded.defvjp(lambda x: (np.round(x), None), lambda _, ct: (ct,))


def test_straight_through_estimator():
    x = np.array([0.2, 1.7, -2.4])
    f = lambda x: np.sum(rounded(x) ** 2 + x)
    expected = 2 * np.round(x) + 1  # as if rounding were the identity
    close(fg.grad(f)(x), expected)
    close(fg.grad(lambda x: np.sum((x + fg.stop_gradient(np.round(x) - x)) ** 2 + x))(x), expected)
    close(fg.vmap(fg.grad(lambda x: rounded(x) ** 2 + x))(x), expected)
    close(fg.jvp(f, (x,), (np.ones(3),))[1], expected.sum())
    close(fg.grad(lambda x: np.sum(np.round(x) ** 2 + x))(x), np.ones(3))  # without the rule
    t = fg.tensor(x)
    with fg.GradManager().attach(t) as gm:
        gm.backward(f(t))
    close(t.grad, expected)


def clip_gradient(lo, hi, x):
    return x * 1.0


clip_gradient = fg.custom_vjp(clip_gradient, nondiff_argnums=(0, 1))
clip_gradient.defvjp(lambda lo, hi, x: (x * 1.0, None), lambda lo, hi, _, ct: (np.clip(ct, lo, hi),))


def test_a_rule_that_clips_the_gradient():
    x = np.linspace(0.0, 3.0, 7)
    f = lambda x: np.sin(3 * clip_gradient(-0.75, 0.75, x))
    close(fg.vmap(fg.grad(f))(x), np.clip(3 * np.cos(3 * x), -0.75, 0.75))
    # inside a chain it is the cotangent that is clipped, not the product
    g = lambda x: 10.0 * clip_gradient(-1.0, 1.0, 5.0 * x)
    assert fg.grad(g)(1.0) == 5.0
    close(fg.vmap(f)(x), np.sin(3 * x))


def fixed_point_by_rule():
    """Return x*(a) = f(a, x*(a)) with the derivative of the implicit function theorem.

    With A = df/dx at the solution, dx* = (1 - A)^-1 df/da da; the rule solves w = ct + A^T w by iteration,
    so nothing of the first iteration is kept (Christianson, 1994).
    """

    def solve(f, a, guess):
        x = guess
        for _ in range(100):
            x = f(a, x)
        return x

    def fwd(f, a, guess):
        x = solve(f, a, guess)
        return x, (a, x)

    def bwd(f, residuals, ct):
        a, x = residuals
        _, in_x = fg.vjp(lambda x: f(a, x), x)
        _, in_a = fg.vjp(lambda a: f(a, x), a)
        w = ct
        for _ in range(100):
            w = ct + in_x(w)[0]
        return in_a(w)[0], None

    rule = fg.custom_vjp(solve, nondiff_argnums=(0,))
    rule.defvjp(fwd, bwd)
    return rule


def test_implicit_fixed_points():
    solve = fixed_point_by_rule()
    heron = lambda a, x: 0.5 * (x + a / x)  # its fixed point is sqrt(a)
    f = lambda a: solve(heron, a, 1.0)
    close(f(2.0), np.sqrt(2.0))
    close(fg.grad(f)(2.0), 0.5 / np.sqrt(2.0))
    close(fg.grad(fg.grad(f))(2.0), -0.25 * 2.0**-1.5)
    cosine = lambda a, x: np.cos(a * x)
    x = float(mpmath.findroot(lambda x: x - mpmath.cos(0.8 * x), 0.7))
    g = lambda a: solve(cosine, a, 0.5)
    close(g(0.8), x)
    expected = float(mpmath.diff(lambda a: mpmath.findroot(lambda x: x - mpmath.cos(a * x), 0.7), 0.8))
    close(fg.grad(g)(0.8), expected, rtol=1e-8)
    close(expected, -x * np.sin(0.8 * x) / (1 + 0.8 * np.sin(0.8 * x)), rtol=1e-8)  # the theorem's formula


def test_implicit_fixed_points_of_vectors():
    solve = fixed_point_by_rule()
    m = 0.4 * np.array([[0.5, -0.3], [0.2, 0.6]])
    f = lambda a, x: np.tanh(m @ x + a)
    a = np.array([0.3, -0.5])
    x = solve(f, a, np.zeros(2))
    d = np.diag(1 - x * x)  # tanh' at the solution
    expected = np.linalg.solve(np.eye(2) - d @ m, d)
    close(fg.jacrev(lambda a: solve(f, a, np.zeros(2)))(a), expected)
    close(fg.jacfwd(lambda a: solve(f, a, np.zeros(2)))(a), expected)


# ---- mapped log-probabilities -------------------------------------------------------------------------


def log_normal_pdf(x, mu, log_sigma):
    z = (x - mu) / np.exp(log_sigma)
    return -0.5 * z * z - log_sigma - 0.5 * np.log(2 * np.pi)


def test_log_probabilities_of_samples_and_their_scores():
    x = RNG.normal(size=7)
    close(
        fg.vmap(log_normal_pdf, in_axes=(0, None, None))(x, 0.3, 0.2), stats.norm.logpdf(x, 0.3, np.exp(0.2))
    )
    score = fg.vmap(fg.grad(log_normal_pdf, argnums=(1, 2)), in_axes=(0, None, None))(x, 0.3, 0.2)
    z = (x - 0.3) / np.exp(0.2)
    close(score[0], z / np.exp(0.2))
    close(score[1], z * z - 1)
    table = fg.vmap(fg.vmap(log_normal_pdf, in_axes=(0, None, None)), in_axes=(None, 0, None))(x, W, 0.0)
    close(table, stats.norm.logpdf(x[None, :], W[:, None], 1.0))


def test_posterior_of_a_regression():
    def log_joint(beta):
        prior = np.sum(log_normal_pdf(beta, 0.0, 0.0))
        logits = DATA @ beta
        return prior - np.sum(np.log1p(np.exp(-(2 * LABELS - 1) * logits)))

    betas = RNG.normal(size=(4, 3))
    expected = [
        stats.norm.logpdf(b).sum() + np.sum(special.log_expit((2 * LABELS - 1) * (DATA @ b))) for b in betas
    ]
    close(fg.vmap(log_joint)(betas), expected)
    gradients = [-b + DATA.T @ (LABELS - special.expit(DATA @ b)) for b in betas]
    close(fg.vmap(fg.grad(log_joint))(betas), gradients)


def test_evidence_lower_bound_by_reparametrisation():
    # target N(m, s), family N(mu, exp(rho)): over standardised samples the bound has a closed form
    noise = np.array([-1.0, 1.0])  # mean 0, mean square 1
    m, s = 1.2, 0.8

    def bound(mu, rho):
        difference = lambda x: log_normal_pdf(x, m, np.log(s)) - log_normal_pdf(x, mu, rho)
        one = lambda e: difference(mu + np.exp(rho) * e)
        return np.mean(fg.vmap(one)(noise))

    mu, rho = 0.4, -0.3
    expected = -0.5 * ((mu - m) ** 2 + np.exp(2 * rho)) / s**2 - np.log(s) + 0.5 + rho
    close(bound(mu, rho), expected)
    close(fg.grad(bound, argnums=(0, 1))(mu, rho), [-(mu - m) / s**2, 1 - np.exp(2 * rho) / s**2])


# ---- learning to learn --------------------------------------------------------------------------------


def test_maml_of_quadratic_tasks():
    # a task is |A (p - c)|^2 / 2; one step of length a leaves (1 - a H)(p - c), H = A^T A, so the gradient of
    # the loss after the step is (1 - a H) H (1 - a H) (p - c)
    a = 0.1
    tasks = [(RNG.normal(size=(3, 3)), RNG.normal(size=3)) for _ in range(4)]
    matrices, centres = (np.stack(part) for part in zip(*tasks, strict=True))

    def loss(p, A, c):
        return 0.5 * np.sum((A @ (p - c)) ** 2)

    def adapted(p, A, c):
        return p - a * fg.grad(loss)(p, A, c)

    def meta(p):
        return np.mean(fg.vmap(lambda A, c: loss(adapted(p, A, c), A, c))(matrices, centres))

    step = [(np.eye(3) - a * A.T @ A) for A, _ in tasks]
    expected = [S @ (A.T @ A) @ S @ (W - c) for S, (A, c) in zip(step, tasks, strict=True)]
    close(fg.grad(meta)(W), np.mean(expected, axis=0))
    close(
        fg.hessian(meta)(W),
        np.mean([S @ (A.T @ A) @ S for S, (A, _) in zip(step, tasks, strict=True)], axis=0),
    )


def test_maml_of_a_network_against_differences():
    params = network([1, 4, 1], seed=3)
    x, y = np.linspace(-1, 1, 5)[:, None], np.sin(np.linspace(-1, 1, 5))[:, None]
    loss = lambda p, x, y: np.mean((mlp(p, x) - y) ** 2)

    def meta(p, phase):
        for _ in range(2):
            p = fg.tree.map(lambda v, g: v - 0.1 * g, p, fg.grad(loss)(p, x, y * phase))
        return loss(p, x, -y * phase)

    phases = np.array([0.5, 1.0])
    outer = lambda p: np.sum(fg.vmap(meta, in_axes=(None, 0))(p, phases))
    gradient = fg.grad(outer)(params)

    def by_hand(p, phase):
        """Return the loss after two steps with backpropagation written out."""
        (w1, b1), (w2, b2) = p
        for _ in range(2):
            h = np.tanh(x @ w1 + b1)
            d2 = 2 * (h @ w2 + b2 - y * phase) / len(x)
            d1 = (d2 @ w2.T) * (1 - h * h)
            w1, b1, w2, b2 = (
                w1 - 0.1 * x.T @ d1,
                b1 - 0.1 * d1.sum(0),
                w2 - 0.1 * h.T @ d2,
                b2 - 0.1 * d2.sum(0),
            )
        return np.mean((np.tanh(x @ w1 + b1) @ w2 + b2 + y * phase) ** 2)

    def moved(v):
        (w1, b1), rest = params[0], params[1]
        return sum(by_hand([(v.reshape(w1.shape), b1), rest], phase) for phase in phases)

    close(outer(params), moved(params[0][0].ravel()))
    close(gradient[0][0].ravel(), differences(moved, params[0][0].ravel()), rtol=1e-6)


def test_a_step_in_an_imperative_loop_is_differentiable_too():
    rate = fg.tensor(0.1)
    A = np.array([[2.0, 0.3], [0.3, 1.0]])
    p = fg.tensor([1.0, -2.0])
    with fg.GradManager().attach(rate) as outer:
        for _ in range(2):
            with fg.GradManager().attach(p) as inner:
                inner.backward(0.5 * p @ A @ p)
            p = p - rate * p.grad
        outer.backward(0.5 * p @ A @ p)
    # after two steps p = S^2 p0 with S = 1 - r A; d/dr of p^T A p / 2 is p^T A (-2 A S) p0
    p0 = np.array([1.0, -2.0])
    S = np.eye(2) - 0.1 * A
    close(rate.grad, (S @ S @ p0) @ A @ (-2 * A @ S @ p0))
