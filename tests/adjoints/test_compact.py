"""Derivatives as they are compiled: the same without dead statements; cotangents that are one number."""

import ast

import numba
import numpy as np
import pytest

import fgrad
from fgrad.adjoints.compact import compact

TEXTS = {
    "names that are set again": (
        """
def f(x, n):
    a = 0.0
    a = x[0] * 2.0
    b = a
    a = b + 1.0
    unused = a * 3.0
    return a, b
""",
        {"unused"},
    ),
    "loops that carry a value": (
        """
def f(x, n):
    total = 0.0
    last = 0.0
    for i in range(n):
        t = x[i]
        total += t
        last = total
        t = 0.0
    for i in range(n - 1, -1, -1):
        t = x[i] * total
        last = last * 0.5 + t
    return total, last, i
""",
        set(),
    ),
    "branches, and loops that are left": (
        """
def f(x, n):
    a = 1.0
    b = a
    for i in range(n):
        if x[i] > 0.5:
            a = x[i]
            c = a
            break
        else:
            a = b
        b = a + c if i else a
        c = b
        dead = c
    while n > 0:
        n = n - 1
        b = b + a
    return a, b, n
""",
        {"dead"},
    ),
    "arrays that are added to": (
        """
def f(x, n):
    y = x * 2.0
    y += x
    z = y
    z[0] += 1.0
    if n > 100:
        q = 1.0
    return y[0], z[1]
""",
        {"q"},
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_same_with_fewer_statements(name):
    text, gone = TEXTS[name]
    made = compact(ast.parse(text).body[0], {"x", "y", "z"})
    found = ast.unparse(ast.fix_missing_locations(made))
    names = {n.id for n in ast.walk(ast.parse(found)) if isinstance(n, ast.Name)}
    assert names.isdisjoint(gone)
    for values in ([0.1, 0.2, 0.3], [0.9, 0.2, 0.3], [0.1, 0.7, 0.2]):
        results = []
        for source in (text, found):
            space = {}
            exec(source, space)
            results.append(space["f"](np.array(values), 3))
        assert results[0] == results[1]


def test_what_is_assigned_twice_has_two_names():
    made = compact(
        ast.parse("def f(x):\n    a = x + 1\n    b = a * 2\n    a = b + x\n    return a").body[0], ()
    )
    stored = [n.id for n in ast.walk(made) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    assert len(stored) == len(set(stored)) == 3


def test_cotangents_of_one_number_and_of_many():
    @fgrad.differentiate
    @numba.njit
    def squares(x, out):
        for i in range(len(x)):
            out[i] = x[i] ** 2 * x[i]

    x, weights = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, -3.0])

    def result(x):
        out = fgrad.tensor(np.zeros(3))
        squares(x, out)
        return out

    for w in (1.0, weights, 2.0, weights):
        np.testing.assert_allclose(fgrad.grad(lambda x, w=w: (result(x) * w).sum())(x), w * 3 * x**2)
    np.testing.assert_allclose(fgrad.grad(lambda x: result(x).mean())(x), x**2)
    np.testing.assert_allclose(fgrad.hessian(lambda x: result(x).sum())(x), np.diag(6 * x))


def test_gradients_are_arrays_of_their_own():
    @fgrad.differentiate
    @numba.njit
    def total(x, y):
        t = 0.0
        for i in range(len(x)):
            t += x[i] * y[i]
        return t

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    first, second = fgrad.grad(total, argnums=(0, 1))(x, y)
    assert all(g.flags.owndata and g.flags.writeable for g in (first, second))
    np.testing.assert_array_equal(first, y)
    np.testing.assert_array_equal(second, x)


def test_what_is_added_to_once_is_set():
    @numba.njit
    def scaled(x, y, out):
        for i in range(len(x)):
            out[i] = x[i] * y[i]

    @numba.njit
    def twice(x, y, out):
        for i in range(len(x)):
            out[i] = x[i] * y[i]
        for i in range(1, len(x)):
            out[i] += x[i]

    for kernel, text, slope in ((scaled, "put_at1(x_ct, i, ", 0.0), (twice, "add_at1(x_ct, i, ", 1.0)):
        made = fgrad.differentiate(kernel)
        x, y = np.array([1.0, 2.0, 3.0]), np.array([3.0, 4.0, -5.0])

        def loss(x, y, made=made):
            out = fgrad.tensor(np.zeros(3))
            made(x, y, out)
            return out.sum()

        first, second = fgrad.grad(loss, argnums=(0, 1))(x, y)
        np.testing.assert_array_equal(first, y + np.array([0.0, slope, slope]))
        np.testing.assert_array_equal(second, x)
        program = made._last
        source = program.written_adjoint((0, 1), (0,)).compiled_source("f")
        assert text in source
        assert ("clear(x_ct)" in source) == bool(slope)
        assert "clear(y_ct)" in source  # which may be longer than x
