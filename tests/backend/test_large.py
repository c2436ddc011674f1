"""Large arrays on a device do not meet the kernels that compute large arrays on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.checks import on_device

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.backend.array import DeviceArray
from fgrad.core.primitive import LARGE
from fgrad.ops import compiled, contraction, indexing, ordering

N = LARGE + 1000
X, I = np.random.default_rng(0).uniform(0.5, 1.5, N), np.random.default_rng(1).integers(0, N, N)

FUNCTIONS = {
    "sort": fnp.sort,
    "stable order": lambda x: fnp.argsort(x.round(2), kind="stable"),
    "median": fnp.median,
    "unique": lambda x: fnp.unique(x.round(2)),
    "gather": lambda x: x[I],
    "slices": lambda x: x[::2] * x[1::2],
    "rows": lambda x: x[: LARGE // 2 * 2].reshape(2, -1)[:, I % 1000],
    "inner": lambda x: fnp.inner(x, x),
    "lanes": lambda x: fnp.einsum("ij,ij->i", x[:LARGE].reshape(128, -1), x[:LARGE].reshape(128, -1)),
    "sin": np.sin,
    "tanh": np.tanh,
    "hypot": lambda x: np.hypot(x, x[::-1]),
    "logaddexp": lambda x: np.logaddexp(x, 2 * x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_of_the_cpu_see_no_array_of_a_device(name, monkeypatch):
    f = FUNCTIONS[name]
    expected = f(fg.tensor(X))

    def refuse(name="cpu"):
        raise AssertionError(f"an array on a device went to the kernels of {name}")

    for module in (compiled, contraction, indexing, ordering):
        if hasattr(module, "backend"):
            monkeypatch.setattr(module, "backend", refuse)
    found = f(on_device(X))
    assert isinstance(found._value, DeviceArray)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9)
