"""The programs in `examples/` run, are short, and get right what is known otherwise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import multivariate_normal

FOLDER = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"examples_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def classifier(module, accuracy):
    assert accuracy > 0.95


def cnn(module, accuracy):
    assert accuracy > 0.95


def gaussian_process(module, found):
    p, error, covered = found
    assert error < 0.12
    assert covered > 0.8
    assert np.exp(p["log_noise"]) == pytest.approx(0.1, abs=0.03)
    x = np.linspace(0.0, 3.0, 7)
    cov = module.kernel(p, x, x) + np.exp(2 * p["log_noise"]) * np.eye(7)
    expected = -multivariate_normal.logpdf(np.cos(x), np.zeros(7), cov)
    assert module.negative_log_likelihood(p, x, np.cos(x)) == pytest.approx(expected, rel=1e-8)


def ode_fit(module, found):
    truth, p, errors = found
    for name, value in truth.items():
        assert abs(p[name] - value) < 4 * errors[name]
        assert 0 < errors[name] < 0.05 * value


def hmc(module, found):
    samples, accepted = found
    assert samples.shape == (8, 600, 2)
    assert 0.8 < accepted <= 1.0
    np.testing.assert_allclose(samples.mean(axis=(0, 1)), [0.5, 1.0], atol=0.12)
    # the variance of q1^2 / 4 is (2 + 4) / 16, and 0.25 of the noise
    np.testing.assert_allclose(samples.var(axis=(0, 1)), [0.375 + 0.25, 1.0], atol=0.15)


def kalman(module, found):
    truth, y, means, covs, noise = found
    assert noise["log_error"] == pytest.approx(0.3, abs=0.05)
    assert noise["log_jolt"] == pytest.approx(1.0, abs=0.4)
    # the mean of all states at once, as one linear system
    n, p = len(y), {name: np.log(value) for name, value in noise.items()}
    jolt, error = map(np.linalg.inv, module.noises(p))
    first = np.linalg.inv(module.MOVE @ module.MOVE.T + module.noises(p)[0])
    differences = np.eye(2 * n) - np.kron(np.eye(n, k=-1), module.MOVE)
    weight = np.kron(np.eye(n), jolt)
    weight[:2, :2] = first
    precision = differences.T @ weight @ differences + np.kron(np.eye(n), module.SEEN.T @ error @ module.SEEN)
    right = np.kron(np.eye(n), module.SEEN.T @ error) @ y[:, 0]
    np.testing.assert_allclose(means.ravel(), np.linalg.solve(precision, right), rtol=1e-6, atol=1e-8)
    block = np.linalg.inv(precision)[100:102, 100:102]
    np.testing.assert_allclose(covs[50], block, rtol=1e-6, atol=1e-12)
    assert np.std(means[:, 0] - truth[:, 0]) < 0.5 * np.std(y - truth[:, :1])


def deblurring(module, found):
    before, after = found
    assert after > before + 7


def nbody(module, found):
    before, after, drift = found
    assert before > 0.01
    assert after < 1e-9
    assert drift < 1e-6


def pinn(module, error):
    assert error < 1e-3


def mixture(module, found):
    truth, fitted, right = found
    for name, values in truth.items():
        np.testing.assert_allclose(fitted[name], values, atol=0.1)
    assert right > 0.98


def bandit(module, found):
    late, best, chance, norms = found
    assert abs(chance) < 0.1
    assert late > 0.75 * best
    assert norms.shape == (128,)
    assert norms.max() > 1.0


def control(module, found):
    end, forces = found
    np.testing.assert_allclose(end, [0.0, 0.0, np.pi, 0.0], atol=0.05)
    assert np.abs(forces).max() <= 15.0
    state = np.zeros(4)
    for force in forces:  # the same motion by SciPy
        state = solve_ivp(
            lambda t, s, f=force: module.change(s, f), (0, module.STEP), state, rtol=1e-9, atol=1e-10
        ).y[:, -1]
    np.testing.assert_allclose(end, state, atol=5e-3)


CHECKS = {
    f.__name__: f
    for f in (bandit, classifier, cnn, control, deblurring, gaussian_process, hmc, kalman, mixture, nbody,
              ode_fit, pinn)
}  # fmt: skip


def test_every_example_has_a_check_and_is_short():
    assert sorted(CHECKS) == NAMES
    assert len(NAMES) == 12
    for name in NAMES:
        assert len((FOLDER / f"{name}.py").read_text("utf-8").splitlines()) < 80, name


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_right(name, capsys):
    module = loaded(name)
    CHECKS[name](module, module.main())
    assert capsys.readouterr().out, "it says what it found"
