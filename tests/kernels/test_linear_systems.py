"""Kernels that solve and factorize a matrix in a block of threads, in the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg
from tests.kernels.samples import values

from fgrad.errors import BrokenContractError
from fgrad.kernels import linear_systems

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(("dtype", "hermitian"), [*((d, True) for d in "fdFD"), ("F", False), ("D", False)])
def test_symmetric_matrices(place, dtype, hermitian, lower):
    tol = 1e-2 if dtype in "fF" else 1e-9
    for lead, n in (((), 1), ((3,), 2), ((2, 2), 5), ((0,), 3), ((), 0)):
        for scale in (1.0, 0.01):  # of diagonals: small ones are blocks of two
            a = values(*lead, n, n, dtype=dtype)
            a[..., range(n), range(n)] = (a[..., range(n), range(n)] * scale).astype(dtype)
            found = [
                x.download() for x in linear_systems.ldl(place.array(a), lower=lower, hermitian=hermitian)
            ]
            assert [x.dtype for x in found] == [a.dtype, a.dtype, np.intp]
            if hermitian:
                a[..., range(n), range(n)] = a[..., range(n), range(n)].real
            for i in np.ndindex(*lead):
                expected = linalg.ldl(a[i], lower, hermitian) if n else ()
                for x, y in zip(found, expected, strict=False):
                    np.testing.assert_allclose(x[i], y, rtol=tol, atol=tol)


@pytest.mark.parametrize("lower", [True, False])
def test_pivots_are_lapacks_where_elements_are_equal_or_zero(place, lower):
    rows = RNG.permutation(6)
    for a in (
        np.zeros((3, 3)),
        np.ones((4, 4)),
        1.0 - np.eye(5),
        np.diag([0.0, 2, 0, -3]),
        np.kron(np.array([[0.0, 1], [1, 0]]), np.eye(3))[rows][:, rows],
        np.array([[0.0, 0, 2], [0, 0, 2], [2, 2, 0]]),
    ):
        found = linear_systems.ldl(place.array(a), lower=lower, hermitian=True)
        for x, y in zip(found, linalg.ldl(a, lower), strict=True):
            np.testing.assert_allclose(x.download(), y, atol=1e-12)


def test_nan_ends(place):
    a = values(4, 4)
    a[2, 1] = np.nan
    outer, _, order = linear_systems.ldl(place.array(a), lower=True, hermitian=True)
    assert np.isnan(outer.download()).any()
    assert sorted(order.download()) == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("bands", [(1, 1), (0, 2), (2, 0), (2, 1), (1, 3)])
def test_banded_systems(place, dtype, bands):
    low, high = bands
    for lead, n, k in (((), 9, 1), ((2, 3), 6, 2), ((2,), 1, 3)):
        ab, b = values(*lead, low + high + 1, n, dtype=dtype), values(*lead, n, k, dtype=dtype)
        ab[..., high, :] /= 3  # so that rows are exchanged
        x, pivots = linear_systems.banded(place.array(ab), place.array(b), low, high)
        assert np.all(pivots.download() != 0)
        for i in np.ndindex(*lead):
            expected = linalg.solve_banded(bands, ab[i].astype("D"), b[i].astype("D"))
            np.testing.assert_allclose(
                x.download()[i], expected, rtol=0.02 if dtype in "fF" else 1e-9, atol=1e-3
            )


def test_singular_banded_systems_show(place):
    _, pivots = linear_systems.banded(
        place.array(np.array([[0.0, 1, 1], [0, 0, 0], [0, 0, 0]])), place.array(np.ones((3, 1))), 1, 1
    )
    assert not np.all(pivots.download())


@pytest.mark.parametrize(
    ("shapes", "numbers"),
    [
        ([(3, 4), (4, 5), (4, 2)], (1, 4, 2, 1, 1)),
        ([(3, 4), (4, 4), (4, 1)], (1, 4, 2, 1, 1)),
        ([(3, 4), (4, 4), (4, 2)], (2, 4, 2, 1, 1)),
        ([(3, 4), (4, 4), (4, 2)], (1, 4, 2, 3, -1)),
        ([(4, 4), (4, 4), (4, 4), (4, 4), (3,)], (1, 4, 1)),
        ([(4, 4), (4, 3), (4, 4), (4, 4), (4,)], (1, 4, 1)),
    ],
)
def test_what_does_not_belong_together_is_not_launched(place, shapes, numbers):
    dtype = np.dtype(float)
    banded, factors = linear_systems.text_of_banded, linear_systems.text_of_ldl
    text = banded(dtype) if len(shapes) == 3 else factors(dtype, hermitian=True)
    arrays = [place.array(np.zeros(s)) for s in shapes]
    with pytest.raises(BrokenContractError, match="would read or write outside of its arguments"):
        linear_systems._launch(text, arrays, 4, list(numbers))
