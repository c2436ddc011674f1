"""The kernel of outer products against NumPy's einsum, bit for bit."""

import numpy as np
import pytest

from fgrad.core.tensor import bind
from fgrad.kernels import outer
from fgrad.ops import contraction

RNG = np.random.default_rng(4)
SHAPES = [(1, 5, 1), (7, 3, 4), (2, 64, 33), (0, 3, 2), (4, 0, 1), (3, 1, 17)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_outer(shape, dtype):
    n, rows, columns = shape
    x, y = RNG.normal(size=(n, rows)).astype(dtype), RNG.normal(size=(n, columns)).astype(dtype)
    x[:1, :1], y[:1, :1] = -0.0, np.inf
    expected = np.einsum("ni,nj->nij", x, y)
    for a, b in ((x, y), (np.asfortranarray(x), y), (x[:, ::-1][:, ::-1], np.asfortranarray(y))):
        np.testing.assert_array_equal(outer.outer(a, b), expected, strict=True)


SUBSCRIPTS = [
    ("a", "b", "ab", (5,), (7,)),
    ("a", "b", "ba", (5,), (7,)),
    ("na", "nb", "nab", (3, 5), (3, 7)),
    ("na", "nb", "nba", (3, 5), (3, 7)),
    ("mna", "mnbc", "mnabc", (2, 3, 5), (2, 3, 4, 2)),
    ("mna", "mnbc", "mnbca", (2, 3, 5), (2, 3, 4, 2)),
]


@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_large_outer_products_use_it(subscripts, monkeypatch):
    a, b, out, *shapes = subscripts
    x, y = (RNG.normal(size=s) for s in shapes)
    calls = []
    kernel = outer.outer
    monkeypatch.setattr(contraction, "LARGE", 0)
    monkeypatch.setattr(outer, "outer", lambda *args: calls.append(args) or kernel(*args))
    found = bind("contract", x, y, a=a, b=b, out=out)
    assert len(calls) == 1
    np.testing.assert_array_equal(found, np.einsum(f"{a},{b}->{out}", x, y), strict=True)


@pytest.mark.parametrize(
    ("a", "b", "out"), [("an", "nb", "nab"), ("na", "nb", "anb"), ("na", "n", "na"), ("ab", "ab", "ab")]
)
def test_other_products_do_not(a, b, out, monkeypatch):
    lengths = {"a": 3, "b": 4, "n": 2}
    x, y = (RNG.normal(size=[lengths[c] for c in s]) for s in (a, b))
    monkeypatch.setattr(contraction, "LARGE", 0)
    monkeypatch.setattr(outer, "outer", None)
    np.testing.assert_array_equal(
        bind("contract", x, y, a=a, b=b, out=out), np.einsum(f"{a},{b}->{out}", x, y), strict=True
    )


PAIRS = [
    (np.arange(3), np.arange(4)),
    (np.ones(3, np.float32), np.ones(4)),
    (np.ones(3) * 1j, np.ones(4) * 1j),
    (np.ones(3, np.float16), np.ones(4, np.float16)),
]


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_other_dtypes_do_not(x, y, monkeypatch):
    monkeypatch.setattr(contraction, "LARGE", 0)
    monkeypatch.setattr(outer, "outer", None)
    found = bind("contract", x, y, a="a", b="b", out="ab")
    np.testing.assert_array_equal(found, np.multiply.outer(x, y), strict=True)
