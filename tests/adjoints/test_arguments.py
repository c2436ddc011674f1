"""Kernels by what they take: records, structrefs, generalized ufuncs; threads, and exceptions half-way."""

from __future__ import annotations

import subprocess
import sys

import numba
import numpy as np
import pytest
from numba import njit
from numba.core import types
from numba.experimental import structref

import fgrad
from fgrad.adjoints import UnsupportedKernelError

X = np.array([0.5, 1.5, 2.5, 0.7])


def slope(f, x, place, h=1e-6):
    step = np.zeros_like(x)
    step[place] = h
    return (float(f(x + step)) - float(f(x - step))) / (2 * h)


def check(f, x):
    found = fgrad.grad(f)(x)
    for place in np.ndindex(x.shape):
        assert found[place] == pytest.approx(slope(f, x, place), rel=1e-6, abs=1e-8)


# ---- records ----------------------------------------------------------------------------------------------

ATOM = np.dtype([("mass", "f8"), ("kind", "i4"), ("place", "f8", (2,))])


@fgrad.differentiate
@njit
def pulled(x, atoms, one):
    total = 0.0
    for i in range(len(atoms)):
        atom = atoms[i]
        total += atom.mass * x[atom.kind] ** 2 + atom["place"][1] * x[i]
        total *= 1.0 + atoms["mass"][0] * atoms[i].place[0]
    for atom in atoms[1:]:
        total += atom.mass * x[0]
    return total * one.mass + x[one.kind] * atoms.shape[0]


def test_structured_arrays_are_read():
    atoms = np.zeros(3, ATOM)
    atoms["mass"], atoms["kind"], atoms["place"] = [1, 2, 3], [2, 0, 3], [[1, 2], [3, 4], [5, 6]]
    assert float(pulled(fgrad.tensor(X), atoms, atoms[1])) == pulled(X, atoms, atoms[1])
    check(lambda x: pulled(x, atoms, atoms[1]), X)
    check(lambda x: pulled(x, atoms[::2], atoms[2]), X)
    check(lambda x: fgrad.jit(lambda x: pulled(x, atoms, atoms[1]))(x), X)


@pytest.mark.parametrize("way", ["field", "row", "attribute"])
def test_records_are_not_written_to(way):
    def field(x, atoms):
        atoms["mass"][0] = 1.0
        return x[0]

    def row(x, atoms):
        atoms[0]["mass"] = 1.0
        return x[0]

    def attribute(x, atoms):
        atoms[0].mass = 1.0
        return x[0]

    function = {"field": field, "row": row, "attribute": attribute}[way]
    with pytest.raises(UnsupportedKernelError, match=r"written to. (Read records|Write to variables)"):
        fgrad.grad(fgrad.kernel(function))(X, np.zeros(3, ATOM))


@structref.register
class SpringType(types.StructRef):
    def preprocess_fields(self, fields):
        return tuple((name, types.unliteral(ty)) for name, ty in fields)


class Spring(structref.StructRefProxy):
    def __new__(cls, strength, rests):
        return structref.StructRefProxy.__new__(cls, strength, rests)


structref.define_proxy(Spring, SpringType, ["strength", "rests"])


def test_structrefs_are_read():
    @fgrad.differentiate
    @njit
    def energy(x, spring):
        total = 0.0
        for i in range(len(x) - 1):
            total += spring.strength * (x[i + 1] - x[i] - spring.rests[i]) ** 2
        return total

    spring = Spring(2.5, np.array([0.1, 0.2, 0.3]))
    assert float(energy(fgrad.tensor(X), spring)) == energy(X, spring)
    check(lambda x: energy(x, spring), X)


def test_objects_are_refused():
    @fgrad.kernel
    def f(x, other):
        return x[0]

    with pytest.raises(TypeError, match="f gets a object, of which Numba knows no type: pass numbers"):
        fgrad.grad(f)(X, object())
    with pytest.raises(UnsupportedKernelError, match="the argument other is a unicode_type"):
        fgrad.grad(f)(X, "fast")


# ---- generalized ufuncs -----------------------------------------------------------------------------------


def test_generalized_ufuncs():
    @fgrad.differentiate
    @numba.guvectorize(["(float64[:], float64[:], float64, float64[:], float64[:])"], "(n),(m),()->(n),()")
    def mixed(x, y, c, out, total):
        total[0] = 0.0
        for i in range(len(x)):
            out[i] = x[i] * y[0] * c + y[-1] ** 2
            total[0] += out[i] * y[1]

    x = np.arange(1.0, 13.0).reshape(2, 2, 3)
    y = np.array([[0.5, 1.5], [2.0, 0.3]])
    c = np.array([[1.0], [2.0]])

    def loss(x, y, c):
        out, total = mixed(x, y, c)
        return (out**2).sum() * 0.01 + (total * c).sum()

    assert [np.shape(v) for v in mixed(fgrad.tensor(x), y, c)] == [(2, 2, 3), (2, 2)]
    np.testing.assert_array_equal(mixed(fgrad.tensor(x), y, c)[0], mixed(x, y, c)[0])
    for k, v in enumerate((x, y, c)):
        args = [x, y, c]

        def one(w, k=k, args=args):
            return loss(*args[:k], w, *args[k + 1 :])

        check(one, v)
    assert fgrad.grad(lambda s: mixed(np.arange(3), y[0], s)[1])(2.0) == pytest.approx(0.5 * 1.5 * 3)


def test_generalized_ufuncs_of_any_type():
    @fgrad.differentiate
    @numba.guvectorize("(n)->(n)")
    def sums(x, out):
        total = 0.0
        for i in range(len(x)):
            total += x[i] ** 2
            out[i] = total

    def loss(x):
        out = fgrad.tensor(np.zeros((2, 2)))
        sums(x, out)
        return (out * np.array([[1.0, 2.0], [3.0, 4.0]])).sum()

    check(loss, X.reshape(2, 2))


# ---- threads, and exceptions ------------------------------------------------------------------------------


@pytest.mark.slow
def test_parallel_kernels_give_the_same_gradients_with_any_number_of_threads():
    done = subprocess.run(
        [sys.executable, "-m", "tests.adjoints.parallel"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(set(done.stdout.split())) == 1


def test_nothing_is_written_where_the_kernel_raises_half_way():
    @fgrad.kernel
    def halved(x, out):
        for i in range(len(x)):
            out[i] = 0.5 * x[i]
            if x[i] > 2.0:
                raise ValueError("too large")

    out = fgrad.tensor(np.ones(4))
    plain = np.ones(4)
    for target in (out, plain):
        with pytest.raises(ValueError, match="too large"):
            halved(fgrad.tensor(X), target)
        np.testing.assert_array_equal(target, np.ones(4))
    halved(fgrad.tensor(X - 1.0), out)
    np.testing.assert_array_equal(out, 0.5 * (X - 1.0))


def test_slopes_that_divide_by_zero_are_no_exceptions_of_the_kernel():
    @fgrad.kernel
    def root(x):
        return np.sqrt(x[0]) + x[1] / 2.0

    np.testing.assert_array_equal(fgrad.grad(root)(np.array([0.0, 1.0])), [np.inf, 0.5])

    @fgrad.kernel
    def divided(x):
        return x[0] / x[1]

    with pytest.raises(ZeroDivisionError):
        fgrad.grad(divided)(np.array([1.0, 0.0]))


def test_a_recursion_that_is_too_deep():
    @njit
    def deep(x, n):
        if n == 0:
            return 1.0
        return 1.0 + x * 0.5 * deep(x, n - 1)

    @fgrad.kernel
    def started(x, n):
        return deep(x, n)

    assert fgrad.grad(started)(0.5, 200) == pytest.approx(0.5 / 0.75**2)
    with pytest.raises(RecursionError, match="derivatives of deep follow 4096 calls"):
        fgrad.grad(started)(0.5, 5000)
