"""Outer products of large arrays are a compiled loop, with the result of NumPy's einsum, bit for bit.

Those of a reverse step are added to the cotangent so far in one loop.
"""

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.dispatch import bind
from fgrad.ops import contraction

RNG = np.random.default_rng(4)


@pytest.fixture
def calls(monkeypatch):
    """Let small products be large ones; return the operands of compiled ones."""
    given = []
    product = contraction._PRODUCT
    monkeypatch.setattr(contraction, "ROWS", 0)
    monkeypatch.setattr(contraction, "_PRODUCT", lambda *args: given.append(args) or product(*args))
    return given


SUBSCRIPTS = [
    ("a", "b", "ab", (5,), (7,)),
    ("a", "b", "ba", (5,), (7,)),
    ("na", "nb", "nab", (3, 5), (3, 7)),
    ("na", "nb", "nba", (3, 5), (3, 7)),
    ("na", "nb", "nab", (2, 64), (2, 33)),
    ("na", "nb", "nab", (7, 1), (7, 4)),
    ("mna", "mnbc", "mnabc", (2, 3, 5), (2, 3, 4, 2)),
    ("mna", "mnbc", "mnbca", (2, 3, 5), (2, 3, 4, 2)),
    ("na", "nb", "nab", (3, 5), (3, 0)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_large_outer_products_are_compiled(subscripts, dtype, calls):
    a, b, out, *shapes = subscripts
    x, y = (RNG.normal(size=s).astype(dtype) for s in shapes)
    x.flat[:1], y.flat[:1] = -0.0, np.inf
    expected = np.einsum(f"{a},{b}->{out}", x, y)
    for p, q in ((x, y), (np.asfortranarray(x), y), (x[..., ::-1][..., ::-1], np.asfortranarray(y))):
        np.testing.assert_array_equal(bind("contract", p, q, a=a, b=b, out=out), expected, strict=True)
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("a", "b", "out"), [("an", "nb", "nab"), ("na", "nb", "anb"), ("na", "n", "na"), ("ab", "ab", "ab")]
)
def test_other_products_are_not(a, b, out, calls):
    lengths = {"a": 3, "b": 4, "n": 2}
    x, y = (RNG.normal(size=[lengths[c] for c in s]) for s in (a, b))
    found = bind("contract", x, y, a=a, b=b, out=out)
    np.testing.assert_array_equal(found, np.einsum(f"{a},{b}->{out}", x, y), strict=True)
    assert not calls


PAIRS = [
    (np.arange(3), np.arange(4)),
    (np.ones(3, np.float32), np.ones(4)),
    (np.ones(3) * 1j, np.ones(4) * 1j),
    (np.ones(3, np.float16), np.ones(4, np.float16)),
]


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_other_dtypes_are_not(x, y, calls):
    found = bind("contract", x, y, a="a", b="b", out="ab")
    np.testing.assert_array_equal(found, np.multiply.outer(x, y), strict=True)
    assert not calls


def twice(a, x):
    return fnp.sum(fnp.tanh((a @ x) @ a))


def of_both(a, x):
    return fnp.sum((a @ x) * (x[: len(a)] @ a)[: len(a)]) + fnp.sum(a**2)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("f", "times"), [(twice, 1), (of_both, 2)])
def test_outer_products_are_added_to_large_cotangents_in_one_loop(f, times, turned, dtype, monkeypatch):
    a, x = RNG.normal(size=(90, 91)) / 90, RNG.normal(size=91)
    a, x = a.astype(dtype), x.astype(dtype)
    a = np.asfortranarray(a) if turned else a
    monkeypatch.setattr(contraction, "ROWS", 2**62)
    expected = fg.grad(f, argnums=(0, 1))(a, x)
    calls, loop = [], contraction._SUM
    monkeypatch.setattr(contraction, "ROWS", 0)
    monkeypatch.setattr(contraction, "_SUM", lambda *args: calls.append(args) or loop(*args))
    found = fg.grad(f, argnums=(0, 1))(a, x)
    assert len(calls) == times
    tolerance = 1e-5 if dtype == "f" else 1e-13
    for slope, known, of in zip(found, expected, (a, x), strict=True):
        assert slope.shape == of.shape
        assert slope.flags.owndata
        np.testing.assert_allclose(slope, known, rtol=tolerance, atol=tolerance)
