"""Quotients of derivatives become products where nothing but cotangents depends on their last bit."""

import ast
import math

import numba
import numpy as np
import pytest

import fgrad
from fgrad.adjoints.adjoint import Adjoint
from fgrad.adjoints.lowering import lowered
from fgrad.adjoints.reciprocals import shared


def attraction(x, m):
    total = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j:
                d = x[j] - x[i]
                r2 = d * d + 0.1
                w = m[j] / (r2 * math.sqrt(r2))
                total += w * d
    return total


def of_names(x, m):
    total = 0.0
    for i in range(len(x)):
        d = x[i] * x[i] + 1.0
        q = m[i] / d
        total += q * q * x[i]
    return total


def that_branches(x, m):
    total = 0.0
    for i in range(len(x)):
        d = x[i] * x[i] + 1.0
        q = m[i] / d
        total += q * q * x[i] if q > 0.4 else q
    return total


def that_branches_later(x, m):
    total = 0.0
    for i in range(len(x)):
        d = x[i] * x[i] + 1.0
        q = m[i] / d
        p = q * q - 0.2
        if p > 0:
            total += p * q * x[i]
    return total


def that_indexes(x, m):
    total = 0.0
    for i in range(len(x)):
        d = x[i] * x[i] + 1.0
        q = m[i] / d
        total += q * q * x[int(q * 2.0)]
    return total


def that_stores(x, m):
    kept = np.zeros(len(x))
    total = 0.0
    for i in range(len(x)):
        d = x[i] * x[i] + 1.0
        q = m[i] / d
        kept[i] = q * q
        total += kept[i] * q
        kept[i] = 0.0
    return total


def that_takes_a_root(x, m):
    total = 0.0
    for i in range(len(x)):
        d = x[i] * x[i] + 1.0
        q = m[i] / d
        total += math.sqrt(q) * q
    return total


def of_elements(x, m):
    total = 0.0
    for i in range(len(x)):
        q = m[i] / x[i]
        total += q * q
    return total


X, M = np.array([0.5, -0.7, 1.3, 0.2]), np.array([0.9, 1.1, 0.6, 1.4])


def quotients(kernel):
    """Return what a derivative divides, but for one."""
    function, _ = lowered(kernel, [numba.typeof(X), numba.typeof(M)])
    tree = ast.parse(Adjoint(function, ["x", "m"]).compiled_source("adjoint"))
    found = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    return [ast.unparse(n.left) for n in found if not isinstance(n.left, ast.Constant)]


@pytest.mark.parametrize(
    ("kernel", "count"),
    [
        (attraction, 0), (of_names, 0), (that_branches, 1), (that_branches_later, 1), (that_indexes, 1),
    ],
)  # fmt: skip
def test_what_is_divided(kernel, count):
    assert len(quotients(kernel)) == count


KERNELS = [
    attraction, of_names, that_branches, that_branches_later, that_indexes, that_stores, that_takes_a_root,
    of_elements,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_derivatives_are_right(kernel):
    f = fgrad.kernel(kernel)
    found = fgrad.grad(f, argnums=(0, 1))(X, M)
    h = 1e-6
    for k, slope in enumerate(found):
        for i in range(len(X)):
            step = h * np.eye(len(X))[i]
            up, down = ((X, M + s * step) if k else (X + s * step, M) for s in (1, -1))
            np.testing.assert_allclose(
                slope[i], (kernel(*up) - kernel(*down)) / (2 * h), rtol=1e-6, atol=1e-8
            )


TEXT = """
def f(a, d, out_ct, sf, pf, store):
    q = a / d
    {use}
    w = 1.0 / d
    out_ct[0] += w * q
    return out_ct
"""


@pytest.mark.parametrize(
    ("use", "is_free"),
    [
        ("b = q * 2.0", True), ("b = plus(q, -q)", True), ("out_ct[1] += q", True), ("pass", True),
        ("b = q > 1.0", False), ("b = np.floor(q)", False), ("b = q if q > 1 else 0.0", False),
        ("sf[pf] = q", False), ("store[0] = q", False), ("b = store[int(q)]", False), ("d2 = q % 2.0", False),
        ("value = q\n    if value > 0:\n        pass", False), ("call(q)", False), ("d = 2.0", False),
        ("own_v2 = q\n    if own_v2 > 0:\n        pass", False),
    ],
)  # fmt: skip
def test_what_else_may_become_of_a_quotient(use, is_free):
    function = ast.parse(TEXT.format(use=use)).body[0]
    text = ast.unparse(shared(function, {"value", "own_v2", "store", "a", "d", "q"}))
    assert ("q = a * w" in text) == is_free
    assert ("q = a / d" in text) != is_free
