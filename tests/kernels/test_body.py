import re

import numpy as np
import pytest

from fgrad.compiler.elementwise import elementwise
from fgrad.expr.atoms import where
from fgrad.expr.node import apply, var
from fgrad.kernels.body import helpers, prepare

X, Y = var("x"), var("y")
F = np.dtype("f")


def test_bodies_equal_but_for_names_are_equal():
    a, b = var("a"), var("b")
    assert prepare((X, Y), (X * Y, X - Y)) == prepare((a, b), (a * b, a - b))
    assert prepare((X, Y), (X - Y,)) == prepare((Y, X), (Y - X,)) != prepare((X, Y), (Y - X,))


def test_a_name_of_the_users_cannot_clash_with_a_generated_one():
    t1, k0 = var("t1"), var("K0")
    assert prepare((t1, k0), (t1 * k0 + 2,)) == prepare((X, Y), (X * Y + 2,))


def test_free_variable():
    with pytest.raises(ValueError, match=r"the body depends on y, which is not one of its parameters \(x,\)"):
        prepare((X,), (X + Y,))


def test_truth_values():
    less = apply("less", X, Y)
    body = prepare((X, Y), (less, apply("logical_not", X), X + less, where(less, less, apply("isnan", X))))
    assert body.truths == (True, True, False, True)
    assert prepare((X, Y), (where(less, less, X),)).truths == (False,)


def test_a_truth_value_used_as_a_number_is_0_or_1():
    less = apply("less", X, Y)
    assert prepare((X, Y), (X * less,)) == prepare((X, Y), (X * where(less, 1, 0),))


def test_constants_have_the_dtype_of_the_arithmetic():
    text = elementwise((X,), (X * 0.1 + np.inf,)).text(F)
    assert re.findall(r"C\d = .*", text) == ["C0 = float32(0.10000000149011612)", "C1 = float32('inf')"]
    assert re.findall(r"t[12] = .*", text) == ["t1 = (t0 * C0)", "t2 = (t1 + C1)"]


def test_a_constant_beyond_float32_is_infinite_without_a_warning():
    kernel = elementwise((X,), (X * 1e300,))
    assert "float32('inf')" in kernel.text(F)
    assert "float64(1e+300)" in kernel.text()


def test_helpers_come_with_those_they_call():
    text = helpers("floor_divide(x, y)", F, {})
    for name in ("floor_divide", "fmod", "floor", "rint"):
        assert text.count(f"\n@helper\ndef {name}(") == 1
    assert "ROUND = F(8388608.0)" in text
    assert "def ceil(" not in text


def test_a_backend_can_replace_a_helper():
    text = helpers("remainder(x, y)", F, {"fmod": "def fmod(x, y): ..."})
    assert "@helper\ndef fmod(x, y): ..." in text
    assert "abs(x) % abs(y)" not in text
