import math

import numpy as np
from tests.kernels import reference
from tests.kernels.samples import X, Y

from fgrad.expr.atoms import fn, where
from fgrad.expr.node import apply, const

A = np.linspace(-2, 2, 12).reshape(3, 4)


def test_one_result_and_several():
    np.testing.assert_array_equal(reference.elementwise((X,), (fn.sin(X),))(A), np.sin(A))
    s, p = reference.elementwise((X, Y), (X + Y, X * Y))(A, A[0])
    np.testing.assert_array_equal(s, A + A[0])
    np.testing.assert_array_equal(p, A * A[0])


def test_results_have_the_shape_of_all_operands():
    one, x = reference.elementwise((X, Y), (const(1), X))(A[0], A[:, :1])
    assert one.shape == x.shape == (3, 4)
    assert (one == 1).all()


def test_scalars():
    value = reference.elementwise((X,), (fn.exp(X),))(1)
    assert type(value) is np.float64
    assert value == math.e
    assert type(reference.elementwise((X,), (fn.exp(X),))(np.float32(1))) is np.float32


def test_dtypes():
    f = reference.elementwise((X, Y), (X * 0.1 + Y, apply("less", X, Y)))
    for code, result in {"f": "f", "d": "d", "i8": "d", "e": "e", "?": "d"}.items():
        value, truth = f(np.ones(2, code), 2.0)
        assert (value.dtype, truth.dtype) == (np.dtype(result), np.dtype(bool))


def test_truth_values_as_numbers():
    less = apply("less", X, Y)
    np.testing.assert_array_equal(reference.elementwise((X, Y), (less + less,))(A, 0), 2.0 * (A < 0))


def test_complex_numbers():
    np.testing.assert_array_equal(reference.elementwise((X,), (fn.exp(X) * 2,))(A + 1j), np.exp(A + 1j) * 2)


def test_no_warnings_from_arms_not_taken():
    f = reference.elementwise((X,), (where(apply("greater", X, 0), apply("log", X), 0),))
    np.testing.assert_array_equal(f(np.array([-1.0, 0.0, 1.0])), 0)
