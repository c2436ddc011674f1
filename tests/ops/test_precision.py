"""Numbers rounded to formats of fewer bits: eagerly and compiled, with what the formats cannot hold."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad as fg
import fgrad.lax

BFLOAT16 = (8, 7)
CASES = {  # a number, and what is next to it in bfloat16
    0.1: 0.10009765625,
    1 + 2**-8: 1.0,  # a tie, to even
    1 + 3 * 2**-8: 1 + 2**-6,  # another
    -1 - 2**-8 - 2**-20: -1 - 2**-7,
    3.4e38: np.inf,
    -3.39e38: -3.3895314e38,
    2.0**-133: 2.0**-133,  # below the normal numbers
    1.5 * 2.0**-133: 2.0**-132,
    2.0**-135: 0.0,
    -0.0: -0.0,
    np.inf: np.inf,
}


@pytest.mark.parametrize("compiled", [False, True])
def test_bfloat16(compiled):
    def function(x):
        return fgrad.lax.reduce_precision(x, *BFLOAT16)

    x = np.array([*CASES, np.nan], np.float32)
    found = (fg.jit(function) if compiled else function)(x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([*CASES.values(), np.nan], np.float32))
    np.testing.assert_array_equal(np.signbit(found[:-1]), np.signbit(x[:-1]))
    number = fgrad.lax.reduce_precision(np.float32(0.1), *BFLOAT16)
    assert float(number) == CASES[0.1]


@pytest.mark.parametrize("compiled", [False, True])
def test_fewer_bits_of_exponents(compiled):
    def function(x):
        return fgrad.lax.reduce_precision(x, 5, 10)

    x = np.array([65519.0, 65520.0, -70000.0, 2.0**-14, -6.1e-5, 0.1, np.nan])
    found = (fg.jit(function) if compiled else function)(x)
    np.testing.assert_array_equal(
        found, [65504.0, np.inf, -np.inf, 2.0**-14, -0.0, np.float64(np.float16(0.1)), np.nan]
    )
    assert np.signbit(found[4])


def test_every_number_of_a_format_stays():
    x = np.arange(2**16, dtype=np.uint32) << np.uint32(16)
    x = x.view(np.float32)
    np.testing.assert_array_equal(fgrad.lax.reduce_precision(x, *BFLOAT16), x)
    half = np.arange(2**16, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(fgrad.lax.reduce_precision(half, 5, 10), half)


def test_derivative_is_rounded_alike():
    def function(x):
        return fgrad.lax.reduce_precision(x, *BFLOAT16) * np.float32(0.3)

    x, t = np.float32(0.1), np.float32(1 + 2**-8)
    assert float(fg.grad(function)(x)) == float(fgrad.lax.reduce_precision(np.float32(0.3), *BFLOAT16))
    assert fg.jvp(function, (x,), (t,))[1] == np.float32(0.3)
    stacked = fg.vmap(fg.grad(function))(np.array([0.1, 0.2], np.float32))
    assert stacked.tolist() == [float(fgrad.lax.reduce_precision(np.float32(0.3), *BFLOAT16))] * 2


def test_refusals():
    with pytest.raises(TypeError, match="not of int64"):
        fgrad.lax.reduce_precision(np.array([1]), *BFLOAT16)
    with pytest.raises(TypeError, match="not of complex128"):
        fgrad.lax.reduce_precision(1j, *BFLOAT16)
    with pytest.raises(ValueError, match="no format"):
        fgrad.lax.reduce_precision(1.0, 0, 3)
