"""Sparse derivatives on a device: entries stay there, and what SciPy would hold is refused by name."""

import numpy as np
import pytest
from tests.backend.checks import on_device, same

from fgrad import sparse

X = np.random.default_rng(5).uniform(0.5, 1.5, 8)


def chain(x):
    return np.sin(x[1:]) * x[:-1] ** 2


def energy(x):
    return np.sum(chain(x) ** 2)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse", "bidirectional"])
def test_entries_stay_on_the_device(mode):
    jac = sparse.jacobian(chain, mode=mode)
    found = jac.values(on_device(X))
    assert str(found.device) == "cuda:0"
    same(found, jac.values(X))
    array = jac(on_device(X))
    assert str(array.data.device) == "cuda:0"
    with pytest.raises(TypeError, match="cuda:0 is not converted to a NumPy array"):  # SciPy would multiply
        array @ on_device(np.ones(8))


def test_hessians_too():
    for recovery in ("direct", "substitution"):
        hess = sparse.hessian(energy, recovery=recovery)
        same(hess.values(on_device(X)), hess.values(X))


def test_what_belongs_to_the_host_says_so():
    array = on_device(X)._value
    with pytest.raises(TypeError, match="which SciPy's arrays do not hold"):
        sparse.jacobian(chain)(array)
    with pytest.raises(TypeError, match="cuda:0 is not converted to a NumPy array"):
        sparse.linear_operator(chain, array)
    with pytest.raises(TypeError, match="cuda:0 is not converted to a NumPy array"):
        sparse.jacobian(chain).fill(np.zeros(14), array)
