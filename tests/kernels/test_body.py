import numpy as np
import pytest

from fgrad.expr.atoms import where
from fgrad.expr.node import apply, const, var
from fgrad.kernels.body import dtypes, prepare, statements

X, Y = var("x"), var("y")
F = np.dtype("f")
D = np.dtype("d")


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


def zeros(code):
    return np.zeros(3, code)


@pytest.mark.parametrize(
    ("operands", "compute", "final"),
    [
        ((), "d", "d"),
        ((1, 2.0), "d", "d"),
        ((zeros("f"), 2.0), "f", "f"),
        ((zeros("f"), 2), "f", "f"),
        ((zeros("f"), True), "f", "f"),
        ((zeros("f"), np.float64(2)), "d", "d"),
        ((zeros("f"), zeros("d")), "d", "d"),
        ((zeros("f"), zeros("?")), "f", "f"),
        ((zeros("f"), zeros("i1")), "f", "f"),
        ((zeros("f"), zeros("i4")), "d", "d"),
        ((zeros("i8"),), "d", "d"),
        ((zeros("i1"),), "d", "d"),
        ((zeros("?"),), "d", "d"),
        ((zeros("e"),), "f", "e"),
        ((zeros("e"), zeros("f")), "f", "f"),
        ((zeros(">f4"),), "f", "f"),
        ((zeros(">f8"),), "d", "d"),
    ],
)
def test_dtypes(operands, compute, final):
    params = tuple(var(f"p{i}") for i in range(len(operands)))
    body = prepare(params, (const(0),))
    assert dtypes(body, operands) == (np.dtype(compute), np.dtype(final))


def test_float_power_is_computed_in_float64():
    body = prepare((X, Y), (apply("float_power", X, Y),))
    assert dtypes(body, [zeros("f"), zeros("f")]) == (D, D)


@pytest.mark.parametrize("code", ["F", "D", "g", "O", "M8[s]", "U1"])
def test_other_dtypes_are_refused(code):
    body = prepare((X, Y), (X + Y,))
    message = r"real numbers of at most 64 bits, but operand 1 is "
    with pytest.raises(TypeError, match=message):
        dtypes(body, [zeros("d"), zeros(code)])


def test_constants_have_the_dtype_of_the_arithmetic():
    code = statements(prepare((X,), (X * 0.1 + np.inf,)), F)
    assert "F = np.float32\nK0 = F(0.1)\nK1 = F('inf')" in code.preamble
    assert code.lines == ["t1 = (x0 * K0)", "t2 = (t1 + K1)"]
    assert code.values == ["t2"]


def test_a_constant_beyond_float32_is_infinite_without_a_warning():
    assert "F('inf')" in statements(prepare((X,), (X * 1e300,)), F).preamble
    assert "F(1e+300)" in statements(prepare((X,), (X * 1e300,)), D).preamble


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
