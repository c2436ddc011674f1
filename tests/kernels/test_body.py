import numpy as np
import pytest

from fgrad.expr.atoms import where
from fgrad.expr.node import apply, var
from fgrad.kernels.body import prepare, statements

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
    code = statements(prepare((X,), (X * 0.1 + np.inf,)), F)
    assert "F = np.float32\nK0 = F(0.1)\nK1 = F('inf')" in code.preamble
    assert code.lines == ["t1 = (x0 * K0)", "t2 = (t1 + K1)"]
    assert code.values == ["t2"]


def test_a_constant_beyond_float32_is_infinite_without_a_warning():
    assert "F('inf')" in statements(prepare((X,), (X * 1e300,)), F).preamble
    assert "F(1e+300)" in statements(prepare((X,), (X * 1e300,)), np.dtype("d")).preamble


def test_helpers_come_with_those_they_call():
    code = statements(prepare((X, Y), (apply("floor_divide", X, Y),)), F)
    for name in ("floor_divide", "fmod", "floor", "rint"):
        assert code.preamble.count(f"\n@helper\ndef {name}(") == 1
    assert "ROUND = F(8388608.0)" in code.preamble
    assert "def ceil(" not in code.preamble


def test_a_backend_can_replace_a_helper():
    code = statements(
        prepare((X, Y), (apply("remainder", X, Y),)), F, replaced={"fmod": "def fmod(x, y): ..."}
    )
    assert "@helper\ndef fmod(x, y): ..." in code.preamble
    assert "abs(x) % abs(y)" not in code.preamble
