"""SciPy's special functions on a device: kernels for every shape and dtype, and Carlson's integrals.

What kernels compute is tried in tests/cuda/test_special.py: in the simulator SciPy stands in for them.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import special
from tests.backend.checks import on_device, same
from tests.points import OTHER, SIGNS, THIRD, WIDE, N

import fgrad as fg
import fgrad.scipy.special as fsp
from fgrad.backend.array import COMPOSED
from fgrad.backend.library import SPECIAL
from fgrad.backend.special import SOURCES
from fgrad.scipy.special.primitives import PRIMITIVES_OF

CARLSON = {
    "elliprc": (WIDE, SIGNS * OTHER),
    "elliprd": (WIDE, OTHER, THIRD),
    "elliprf": (WIDE, OTHER, THIRD),
    "elliprg": (WIDE, OTHER, THIRD),
    "elliprj": (WIDE, OTHER, THIRD, SIGNS * np.random.default_rng(0).uniform(0.1, 3, N)),
}


@pytest.mark.parametrize("name", sorted(CARLSON))
def test_integrals_of_carlson(name):
    given = CARLSON[name]
    found = getattr(fsp, name)(*map(on_device, given)).numpy()
    expected = getattr(special, name)(*given)
    tol = 1e-9 if name == "elliprj" else 2e-11  # where terms cancel
    assert not np.any(np.absolute(found - expected) > tol * np.absolute(expected))
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))


def test_every_function_of_the_table_is_somebodys():
    composed = {name.removeprefix("scipy.special.") for name in COMPOSED if name.startswith("scipy.special.")}
    assert composed == set(CARLSON)
    functions = {name for name in PRIMITIVES_OF if hasattr(special, name)}
    assert functions <= {*composed, *SPECIAL, *SOURCES}
    assert not set(SOURCES) & composed


X = np.linspace(0.5, 3, 12)
GIVEN = {
    "scalar order": (lambda x: fsp.jv(2.5, x), X),
    "NumPy's number": (lambda x: fsp.jv(np.float64(2.5), x), X),
    "0-d": (lambda x: fsp.jv(2, x), np.array(1.5)),
    "empty": (lambda x: fsp.jv(2, x), np.zeros((0, 3))),
    "primitives and columns": (lambda x: fsp.jv(fg.stop_gradient(x).reshape(4, 3), x[:3]), X),
    "outer": (lambda x: fsp.struve(fg.stop_gradient(x)[:, None], x), X),
    "one element": (lambda x: fsp.owens_t(x[:1], x), X),
    "transposed": (lambda x: fsp.erfi(x.reshape(3, 4).T), X),
    "backwards": (lambda x: fsp.dawsn(x[::-2]), X),
    "integers": (lambda x: fsp.jv(1, x), np.arange(1, 5)),
    "small integers": (lambda x: fsp.struve(1, x), np.arange(1, 5, dtype=np.int8)),
    "truths": (lambda x: fsp.dawsn(x), np.array([True, False])),
    "single": (lambda x: fsp.hyp1f1(0.5, 1.5, x), X.astype("f")),
    "half": (lambda x: fsp.dawsn(x), X.astype("e")),
    "complex": (lambda x: fsp.jv(0.5, x * (1 + 1j)), X),
    "single complex": (lambda x: fsp.wofz(x), X.astype("F")),
    "degrees between whole ones": (lambda x: fsp.eval_legendre(2.5, x / 4), X),
    "negative degree": (lambda x: fsp.eval_chebyt(-2.0, x / 4), X),
    "several results": (lambda x: fsp.airy(x[:, None] * x), X),
}  # fmt: skip


@pytest.mark.parametrize("label", GIVEN)
def test_kernels_take_what_scipy_takes(label):
    f, x = GIVEN[label]
    same(f(on_device(x)), f(x))
    if x.dtype.kind == "f" and x.size > 1:
        back = fg.grad(lambda x: abs(fg.tree.leaves(f(x))[0]).sum())
        same(back(on_device(x)), back(fg.tensor(x)))


def test_orders_may_be_where_the_data_is():
    orders = np.array([0, 1, 2])
    same(fsp.spherical_jn(on_device(orders), on_device(X[:3])), special.spherical_jn(orders, X[:3]))


@pytest.mark.parametrize("name", ["spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"])
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_spherical_functions_of_negative_numbers(name, dtype):
    x = np.array([-2.5, -1.0, 1.5, 3.0]).astype(dtype)
    for n in (0, 1, 2, 5):
        same(getattr(fsp, name)(n, on_device(x)), getattr(special, name)(n, x))


def test_universal_functions_of_others_are_not_taken_for_scipys(monkeypatch):
    x = on_device(X)._value
    with pytest.raises(NotImplementedError, match=r"^divmod of an array"):
        np.divmod(x, x)
    theirs = special.gamma
    for module in ("scipy.special", "scipy.special._ufuncs"):
        monkeypatch.setattr(sys.modules[module], "gamma", None)  # another one of that name
    with pytest.raises(NotImplementedError, match=r"^gamma of an array"):
        theirs(x)


def test_what_is_not_in_the_table_is_refused():
    x = on_device(X)._value
    for f in (
        lambda: special.mathieu_a(1, x),
        lambda: special.ellipk(x + 0j),
        lambda: special.dawsn(x, dtype="f"),
    ):
        with pytest.raises(
            (NotImplementedError, TypeError), match=r"no such function for CUDA|not supported"
        ):
            f()
