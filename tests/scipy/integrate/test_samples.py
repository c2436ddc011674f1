"""Integrals of samples are SciPy's, and differentiate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
from tests.helpers import close

import fgrad as fg
from fgrad.scipy import integrate
from fgrad.testing import check_grads

RULES = ["trapezoid", "cumulative_trapezoid", "simpson", "cumulative_simpson"]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8])
def test_values(name, n, rng):
    if n == 1 and name == "cumulative_simpson":
        pytest.skip("SciPy has none for one sample")
    mine, theirs = getattr(integrate, name), getattr(scipy.integrate, name)
    y, x = rng.standard_normal((3, n)), np.cumsum(rng.uniform(0.5, 1.5, n))
    for given in ({}, {"dx": 0.3}, {"x": x}, {"x": np.stack([x, 2 * x, -x]) if n > 1 else x}):
        if name == "cumulative_simpson" and np.ndim(given.get("x", x)) == 2:
            given = {"x": np.stack([x, 2 * x, 3 * x])}  # SciPy wants them increasing
        close(mine(y, **given), theirs(y, **given))
        turned = {k: np.transpose(v) for k, v in given.items()}
        close(mine(y.T, axis=0, **turned), theirs(y.T, axis=0, **turned))
    if "cumulative" in name:
        close(mine(y, initial=0), theirs(y, initial=0))


def test_integers_and_romberg(rng):
    close(integrate.simpson([0, 1, 4]), 8 / 3)
    for n in (2, 3, 5, 17):
        y = rng.standard_normal((2, n))
        close(integrate.romb(y, dx=0.3), scipy.integrate.romb(y, dx=0.3))
    close(fg.grad(lambda y: integrate.romb(y, dx=2.0))(np.zeros(3)), [2 / 3, 8 / 3, 2 / 3])


@pytest.mark.parametrize("name", RULES)
def test_derivatives_in_samples_and_places(name, rng):
    f = getattr(integrate, name)
    for n in (5, 6):
        x = np.cumsum(rng.uniform(0.5, 1.5, n))
        check_grads(lambda y, x: f(y, x=x), (rng.standard_normal((2, n)), x), order=2)
        check_grads(lambda y, dx: f(y, dx=dx), (rng.standard_normal(n), 0.3), order=2)


def test_what_is_refused():
    with pytest.raises(ValueError, match="x has 2 places along the axis, but y has 3 samples"):
        integrate.trapezoid(np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="initial must be None or 0, not 1"):
        integrate.cumulative_trapezoid(np.ones(3), initial=1)
    with pytest.raises(ValueError, match=r"romb takes 2\*\*k \+ 1 samples, not 4"):
        integrate.romb(np.ones(4))
