"""Least squares and fitted curves against SciPy's own and against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from tests.helpers import close, differences

import fgrad as fg
from fgrad.scipy import optimize

T = np.linspace(0.0, 2.0, 9)
DATA = 2.0 * np.exp(-1.3 * T) + 0.1 * np.sin(9 * T)


def residuals(p, data):
    return p[0] * np.exp(-p[1] * T) - data


TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}


def theirs(data, **options):
    return scipy.optimize.least_squares(residuals, np.ones(2), args=(data,), jac="3-point", **options).x


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy", "arctan"])
def test_solutions_and_derivatives_for_every_loss(loss):
    given = {"loss": loss, "f_scale": 0.08, **TIGHT}
    solve = lambda data: optimize.least_squares(residuals, np.ones(2), args=(data,), **given).x
    close(solve(DATA), theirs(DATA, **given), 1e-6)
    expected = differences(lambda d: theirs(d, **given), DATA, 1e-4)
    close(fg.jacrev(solve)(DATA), expected, 2e-4)
    close(fg.jacfwd(solve)(DATA), expected, 2e-4)


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_every_method_and_the_cost(method):
    given = {"method": method, **TIGHT}
    solve = lambda data: optimize.least_squares(residuals, np.ones(2), args=(data,), **given)
    p = solve(DATA).x
    close(fg.grad(lambda d: solve(d).cost)(DATA), -residuals(p, DATA), 1e-8)
    slope = lambda d: -residuals(theirs(d, **TIGHT), d)
    close(fg.hessian(lambda d: solve(d).cost)(DATA), differences(slope, DATA, 1e-4), 1e-4)
    result = solve(DATA)
    assert set(result) == set(scipy.optimize.least_squares(residuals, p, args=(DATA,), **given))


def test_linear_least_squares_have_the_pseudo_inverse(rng):
    for shape in ((5, 3), (3, 3)):
        m, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
        solve = lambda y, m: optimize.least_squares(lambda x: m @ x - y, np.zeros(3), **TIGHT).x
        close(solve(y, m), np.linalg.lstsq(m, y)[0], 1e-8)
        close(fg.jacrev(solve)(y, m), np.linalg.pinv(m), 1e-8)
        expected = differences(lambda m: np.linalg.lstsq(m, y)[0], m)
        close(fg.jacrev(solve, 1)(y, m), expected, 1e-6)
        close(
            fg.jit(fg.vmap(solve, (0, None)))(np.stack([y, 2 * y]), m),
            np.stack([1, 2])[:, None] * solve(y, m),
        )


def test_bounds_that_are_reached():
    def solve(data, high):
        return optimize.least_squares(residuals, np.ones(2), bounds=(0.0, high), args=(data,), **TIGHT).x

    high = np.array([5.0, 1.1])
    amplitude = lambda d, k: np.exp(-k * T) @ d / np.sum(np.exp(-2 * k * T))  # the best one for a rate k
    close(solve(DATA, high), [amplitude(DATA, 1.1), 1.1], 1e-6)
    by_data, by_high = fg.jacrev(solve, (0, 1))(DATA, high)
    close(by_data, [differences(lambda d: amplitude(d, 1.1), DATA), np.zeros(9)], 1e-5)
    slope = differences(lambda k: amplitude(DATA, k), 1.1)
    close(by_high, [[0.0, slope], [0.0, 1.0]], 1e-5)


def test_pytrees_and_complex_residuals():
    z = np.array([1 + 1j, 2 - 1j, 0.5j])

    def r(p, z):
        return {"points": p["centre"] - z, "size": (p["scale"][0] - 3.0) * 0.1}

    start = {"centre": 0j, "scale": [np.float32(1.0)]}
    solve = lambda z: optimize.least_squares(r, start, args=(z,), **TIGHT).x
    close(solve(z)["centre"], np.mean(z), 1e-8)
    close(solve(z)["scale"][0], np.float32(3.0))
    assert solve(z)["scale"][0].dtype == np.float32
    close(
        fg.grad(lambda z: np.abs(solve(z)["centre"]) ** 2)(z), np.full(3, 2 / 3 * np.conj(np.mean(z))), 1e-6
    )


def test_the_exact_jacobian_saves_evaluations():
    calls = []

    def counted(p, data):
        calls.append(1)
        return residuals(p, data)

    mine = optimize.least_squares(counted, np.ones(2), args=(DATA,))
    exact = len(calls)
    calls.clear()
    scipy.optimize.least_squares(counted, np.ones(2), args=(DATA,))
    assert exact == mine.nfev + mine.njev
    assert exact < len(calls)
    by_hand = lambda p, data: np.stack([np.exp(-p[1] * T), -p[0] * T * np.exp(-p[1] * T)], axis=1)
    given = lambda data: optimize.least_squares(residuals, np.ones(2), by_hand, args=(data,)).x
    close(fg.jit(fg.vmap(given))(DATA[None])[0], mine.x, 1e-6)
    wide = optimize.least_squares(lambda p: np.sum(p) - 3.0, np.zeros(4))  # fewer residuals than variables
    close(wide.x, np.full(4, 0.75))


def test_a_fit_that_fails_warns_when_it_is_differentiated():
    solve = lambda data: optimize.least_squares(residuals, np.ones(2), args=(data,), max_nfev=1)
    assert not solve(DATA).success
    with pytest.warns(fg.UnsolvedWarning, match=r"least_squares did not find a solution \(status 0\)"):
        fg.jacrev(lambda d: solve(d).x)(DATA)
    with pytest.raises(
        ValueError, match="loss must be one of linear, soft_l1, huber, cauchy, arctan, not 'l3'"
    ):
        optimize.least_squares(residuals, np.ones(2), args=(DATA,), loss="l3")


# ---- curves -------------------------------------------------------------------------------------


def decay(t, amplitude, rate):
    return amplitude * np.exp(-rate * t)


SIGMA = np.linspace(0.05, 0.2, 9)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"sigma": SIGMA},
        {"sigma": SIGMA, "absolute_sigma": True, "method": "dogbox"},
        {"sigma": np.diag(SIGMA**2) + 0.001, "absolute_sigma": True},
        {"bounds": (0.0, [3.0, 4.0])},
        {"p0": [1.0, 2.0]},
    ],
)
def test_parameters_and_covariance_are_scipys(given):
    expected = scipy.optimize.curve_fit(decay, T, DATA, **given)
    found = optimize.curve_fit(decay, T, DATA, **given)
    close(found[0], expected[0], 1e-5)
    close(found[1], expected[1], 1e-4)


def test_derivatives_of_parameters_and_covariance_against_differences():
    mine = lambda y, s, t: optimize.curve_fit(decay, t, y, sigma=s, ftol=1e-14, xtol=1e-14)
    reference = lambda y, s, t: scipy.optimize.curve_fit(decay, t, y, sigma=s, ftol=1e-14, xtol=1e-14)
    args = (DATA, SIGMA, T)
    for part in (0, 1):
        found = fg.jacrev(lambda *a: mine(*a)[part], (0, 1, 2))(*args)
        for i, jacobian in enumerate(found):
            f = lambda x: reference(*args[:i], x, *args[i + 1 :])[part]
            close(jacobian, differences(f, args[i], 1e-4), 1e-3, 1e-4)


def test_parameters_of_a_curve_as_pytrees():
    curve = lambda t, first, rate: first["a"] * np.exp(-rate * t)
    (first, rate), covariance = optimize.curve_fit(curve, T, DATA, p0=({"a": 1.0}, 1.0))
    expected = scipy.optimize.curve_fit(decay, T, DATA)
    close(np.array([first["a"], rate]), expected[0], 1e-5)
    close(covariance, expected[1], 1e-4)


def test_what_curve_fit_refuses():
    with pytest.raises(RuntimeError, match="optimal parameters not found"):
        optimize.curve_fit(decay, T, DATA, max_nfev=1)
    with pytest.raises(ValueError, match="cannot tell how many parameters"):
        optimize.curve_fit(lambda t, *p: t, T, DATA)
    with pytest.raises(ValueError, match=r"sigma has shape \(2,\), but the data \(9,\)"):
        optimize.curve_fit(decay, T, DATA, sigma=np.ones(2))
