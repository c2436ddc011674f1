"""The forms of einsum: letters, lists of axes, orders of contractions. Its cases are in `test_products`."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy.cases import values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

M, N, Q = values((2, 3)), values((3, 4), seed=1), values((3, 3))
B, D = values((4, 2, 3)), values((4, 3, 2), seed=1)


def test_forms_of_einsum():
    a, b, c = M, N, values((4, 2), seed=2)
    path = np.einsum_path("ij,jk,kl->il", a, b, c)[0]
    for args, options in [
        ((a, [0, 1], b, [1, 2]), {}), ((a, [30, 3]), {}), ((a, [0, 51], b, [51, 2], [2, 0]), {}),
        ((B, [..., 0, 1], D, [..., 1, 2], [..., 0, 2]), {}), ((Q, [0, 0], [0]), {}), ((Q, [0, 0]), {}),
        (("ij,jk,kl->il", a, b, c), {"optimize": path}), (("ij,jk,kl->il", a, b, c), {"optimize": False}),
        (("ij,jk,kl", a, b, c), {"optimize": "optimal"}), (("ij,jk,ki", a, b, c), {"optimize": ("greedy",
            100)}),
        (("ij,jk", a, b), {"dtype": "f4", "casting": "same_kind"}), (("ij,jk", a, b), {"order": "F"}),
    ]:  # fmt: skip
        expected = np.einsum(*args, **options)
        given = [fg.tensor(x) if isinstance(x, np.ndarray) else x for x in args]
        for module in (fnp, np):
            made = module.einsum(*given, **options)
            assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(made.numpy(), expected, rtol=1e-6 if expected.dtype == "f4" else 1e-13)
    check_grads(lambda x, y: np.einsum(x, [30, 3], y, [3, 1]), (a, b), 2)
    for args, options, error in [((fg.tensor(a), [0, 52]), {}, ValueError), ((fg.tensor(a), [0, -1]), {},
        ValueError),
                                 (("ij,jk", fg.tensor(a), b), {"dtype": "f4"}, TypeError),
                                 (("ij,jk", fg.tensor(a), b), {"nonsense": 1}, TypeError)]:  # fmt: skip
        with pytest.raises(error):
            fnp.einsum(*args, **options)


def test_the_path_of_einsum():
    args = ("ij,jk,kl->il", M, N, values((4, 2), seed=2))
    expected = np.einsum_path(*args, optimize="optimal")
    given = [fg.tensor(x) if isinstance(x, np.ndarray) else x for x in args]
    for made in (fnp.einsum_path(*args, optimize="optimal"), np.einsum_path(*given, optimize="optimal")):
        assert made == expected
