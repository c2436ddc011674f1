"""NumPy's functions that are more than a row or two, on a device: no array travels, numbers may be read."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.backend.checks import no_transfers, on_device

import fgrad as fg

X = np.random.default_rng(0).uniform(0.5, 1.5, (4, 4))
INTEGERS = np.array([3, 1, 3, 0, 2])

FUNCTIONS = {
    "cov": np.cov,
    "corrcoef": np.corrcoef,
    "percentile": lambda x: np.percentile(x, [30, 60], axis=0),
    "quantile": lambda x: np.quantile(x, 0.3),
    "median": lambda x: np.median(x, axis=1),
    "histogram": lambda x: np.histogram(x)[0],
    "interp": lambda x: np.interp(x.ravel(), np.sort(x[0]), x[1]),
    "trapezoid": np.trapezoid,
    "kron": lambda x: np.kron(x, x),
    "tensordot": lambda x: np.tensordot(x, x, 1),
    "norm": lambda x: np.linalg.norm(x, 2),
    "cond": np.linalg.cond,
    "lstsq": lambda x: np.linalg.lstsq(x, x[:, 0])[0],
    "multi_dot": lambda x: np.linalg.multi_dot([x, x, x]),
    "unique": lambda x: np.unique(x > 1, return_counts=True)[1],
    "unique and its inverse": lambda x: np.unique(x, return_index=True, return_inverse=True)[2],
    "piecewise": lambda x: np.piecewise(x, [x > 1], [lambda t: t, lambda t: t * 2]),
    "digitize": lambda x: np.digitize(x[0], np.sort(x[1])),
    "digitize downwards": lambda x: np.digitize(x[0], np.sort(x[1])[::-1], right=True),
    "bincount": lambda x: np.bincount((x[0] * 4).astype(int), minlength=9),
    "bincount with weights": lambda x: np.bincount((x[0] * 4).astype(int), x[1]),
    "allclose": lambda x: np.allclose(x, x + 1e-9) and not np.allclose(x, x + 1),
    "array_equal": lambda x: np.array_equal(x, x) and not np.array_equal(x, x[0]),
    "pad": lambda x: np.pad(x, 1, mode="reflect"),
    "einsum": lambda x: np.einsum("ij,jk,kl->il", x, x, x),
    "polyfit": lambda x: np.polyfit(x[0], x[1], 2),
    "polyval": lambda x: np.polyval(x[0], x),
    "select": lambda x: np.select([x > 1, x > 0.7], [x, x * 2]),
    "vander": lambda x: np.vander(x[0]),
    "average": lambda x: np.average(x, weights=x),
    "apply_along_axis": lambda x: np.apply_along_axis(lambda t: t.sum(), 0, x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    f, x = FUNCTIONS[name], on_device(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = f(fg.tensor(X))
        f(x)  # what is sent once
        with no_transfers(reads=True):
            found = f(x)
    if isinstance(expected, fg.Tensor):
        assert found.device == "cuda:0"
        found, expected = found.numpy(), expected.numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)
    assert np.shape(found) == np.shape(expected)


def test_infinities_and_nan_are_compared_as_by_numpy():
    a = np.array([np.inf, -np.inf, np.nan, 1.0])
    for b in (a, -a, np.array([1.0, 2, np.nan, 1]), np.array([np.inf, -np.inf, 0.0, 1])):
        for equal_nan in (False, True):
            for f in (np.allclose, np.array_equal):
                assert f(on_device(a), on_device(b), equal_nan=equal_nan) == f(a, b, equal_nan=equal_nan)


def test_what_numpy_refuses():
    with pytest.raises(ValueError, match="monotonic"):
        np.digitize(on_device(X[0]), on_device(np.array([1.0, 3, 2])))
    with pytest.raises(ValueError, match="negative"):
        np.bincount(on_device(INTEGERS - 1))


def test_what_is_combined_in_place():
    for x in (X, X + 1j * X[::-1]):
        for ufunc in (np.add, np.subtract, np.multiply, np.maximum):
            y, t = x.copy(), on_device(x)
            ufunc.at(y, [0, 0, 2], 1.2)
            ufunc.at(t, [0, 0, 2], 1.2)
            np.testing.assert_allclose(t.numpy(), y)
    for ufunc in (np.hypot, np.logical_xor, np.add):
        found = ufunc.reduce(on_device(np.zeros((0, 4))))
        assert found.device == "cuda:0"
        np.testing.assert_array_equal(found.numpy(), ufunc.reduce(np.zeros((0, 4))))


def test_trimmed():
    x = np.array([0.0, 0, 1, 2, 0])
    np.testing.assert_array_equal(np.trim_zeros(on_device(x)).numpy(), np.trim_zeros(x))
