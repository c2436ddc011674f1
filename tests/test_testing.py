"""check_grads and check_primitive find planted mistakes, name them, and stay quiet where there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES, Primitive, by_argument, flat
from fgrad.ops.linear import sum_axes
from fgrad.testing import check_grads, check_primitive

X = np.array([[0.3, -0.7, 1.1], [0.5, 0.9, -1.3]])
BOTH = ("fwd", "rev")


@dataclass
class Layer:
    weight: object
    bias: object


def sin(x):
    return np.sin(x)


def ruled(value, bwd):
    """Return the function of one argument with the reverse rule `bwd(x, ct)`."""
    f = fg.custom_vjp(value)
    f.defvjp(lambda x: (value(x), x), lambda x, ct: (bwd(x, ct),))
    return f


def message(f, args, order=1, modes=BOTH, **options):
    """Return what check_grads says about `f`."""
    with pytest.raises(AssertionError, match="check_grads") as error:
        check_grads(f, args, order, modes, **options)
    return str(error.value)


# ---- what is right passes ------------------------------------------------------------------------


@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("lin",), BOTH, ["rev", "fwd", "lin"]], ids=str)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_right_derivatives_pass(order, modes):
    check_grads(lambda x, y: np.sin(x) @ y.T, (X, X * 0.5), order, modes)


@pytest.mark.parametrize("x", [0.5, np.float64(0.5), np.array(0.5), X, X.T, np.zeros((0, 2)), fg.tensor(X)])
def test_kinds_of_arguments(x):
    check_grads(lambda x: np.exp(x) * x, (x,), order=2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64, np.complex128])
def test_dtypes(dtype):
    check_grads(lambda x: np.sum(np.sin(x) * x), (X.astype(dtype),), order=2)


def test_the_narrowest_dtype_sets_the_tolerance():
    check_grads(lambda x: np.sin(x.astype(np.float32)), (X,), order=2)
    check_grads(lambda x, y: np.sin(x) * y, (X, X.astype(np.float32)))


def test_pytrees_of_every_kind():
    def f(p, config, layer):
        return {
            "a": [np.sin(p["w"]) * config["n"], p["pair"][0] * p["pair"][1]],
            "loss": layer.weight @ layer.bias,
        }

    p = {"w": X, "pair": (0.5, np.array(2.0)), "absent": None}
    check_grads(f, (p, {"n": 3, "name": "sgd"}, Layer(X, X[0])), order=2)


def test_leaves_without_derivative_are_held_fixed():
    seen = []

    def f(x, n, mode):
        seen.append((n, mode))
        return x**n, x > 0, 3

    check_grads(f, (X + 2, np.array([[2], [3]]), "mode"), order=2)
    assert all(n.dtype.kind == "i" and mode == "mode" for n, mode in seen)


def test_functions_that_write_to_their_arguments():
    def f(x):
        x[0] = np.sin(x[1])
        x *= x
        return x

    before = X.copy()
    check_grads(f, (X,), order=2)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    "f",
    [
        np.exp,
        np.conjugate,
        np.real,
        np.imag,
        np.absolute,
        lambda z: np.real(z * np.conj(z)),
        lambda z: z / (1 + z * z),
    ],
)
def test_complex_functions_in_the_convention_of_jax(f):
    check_grads(f, (np.array([0.3 + 0.7j, -0.2 - 0.4j]),), order=2)


def test_custom_rules_and_functions():
    class Cube(fg.Function):
        def forward(self, x):
            self.x = x
            return x * x * x

        def backward(self, ct):
            return 3.0 * self.x * self.x * ct

    check_grads(lambda x: Cube()(x), (X,), order=3)
    check_grads(ruled(sin, lambda x, ct: np.cos(x) * ct), (X,), order=3)


def test_tolerances_can_be_given():
    wrong = ruled(sin, lambda x, ct: 1.001 * np.cos(x) * ct)
    check_grads(wrong, (X,), rtol=1e-2)
    check_grads(wrong, (X,), atol=1e-2)
    check_grads(lambda x: np.sin(1e4 * x), (X,), eps=1e-9, rtol=1e-3)
    assert "eps=1.0e-07, atol=1.0e-04, rtol=1.0e-05" in message(wrong, (X,), atol=1e-4, rtol=1e-5, eps=1e-7)


# ---- what is wrong is named ----------------------------------------------------------------------


def test_a_wrong_factor_is_named():
    f = ruled(sin, lambda x, ct: 2.0 * np.cos(x) * ct)
    text = message(f, (X,), modes=["rev"])
    assert "reverse mode of sin is wrong (order 1)" in text
    found = re.search(
        r"worst at args\[0\]\[(\d), (\d)\]: the rules give (\S+), differences give (\S+) ", text
    )
    i, j, actual, expected = found.groups()
    np.testing.assert_allclose(float(actual), 2 * float(expected), rtol=1e-6)
    assert 0 <= int(i) < 2
    assert 0 <= int(j) < 3


def test_a_wrong_factor_is_found_in_forward_mode():
    f = ruled(sin, lambda x, ct: 2.0 * np.cos(x) * ct)
    text = message(f, (X,), modes=["fwd"])
    assert re.search(
        r"forward mode of sin is wrong \(order 1\), worst at out\[\d, \d\] along args\[0\]", text
    )


def test_one_wrong_element_is_named():
    mask = np.ones_like(X)
    mask[1, 2] = 0.9
    assert "worst at args[0][1, 2]" in message(
        ruled(sin, lambda x, ct: mask * np.cos(x) * ct), (X,), modes=["rev"]
    )
    assert "worst at out[1, 2]" in message(
        ruled(sin, lambda x, ct: mask * np.cos(x) * ct), (X,), modes=["fwd"]
    )


def test_a_missing_term_is_named():
    f = fg.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, y), lambda y, ct: (ct * y, None))
    text = message(f, (X, 2 * X), modes=["rev"])
    assert "worst at args[1][" in text
    assert "the rules give 0.0" in text


def test_the_wrong_leaf_of_a_tree_is_named():
    f = lambda p: {"loss": p["w"] * p["b"][1].detach() + p["b"][0]}
    text = message(f, ({"w": X, "b": [X, X[0]]},), modes=["rev"])
    assert "args[0]['b'][1][" in text
    assert "out['loss'][" in message(f, ({"w": X, "b": [X, X[0]]},), modes=["fwd"])
    assert "along args[0]['b'][1]" in message(f, ({"w": X, "b": [X, X[0]]},), modes=["fwd"])


def test_a_wrong_second_order_is_named():
    f = ruled(sin, lambda x, ct: np.cos(x.detach()) * ct)
    check_grads(f, (X,), order=1)
    assert "reverse mode of vjp of sin is wrong (order 2), worst at args[0][" in message(f, (X,), 2, ["rev"])
    assert "forward mode of jvp of sin is wrong (order 2)" in message(f, (X,), 2, ["fwd"])
    assert "linearize of linearize of sin is wrong (order 2)" in message(f, (X,), 2, ["lin"])


def test_a_wrong_third_order_is_named():
    cos = ruled(lambda x: np.cos(x), lambda x, ct: -np.sin(x.detach()) * ct)
    f = ruled(sin, lambda x, ct: cos(x) * ct)
    check_grads(f, (X,), order=2)
    assert "reverse mode of vjp of vjp of sin is wrong (order 3)" in message(f, (X,), 3, ["rev"])


def test_a_rule_that_is_not_linear_in_its_cotangent_is_named():
    f = ruled(sin, lambda x, ct: np.cos(x) * (ct + ct.detach()) * 0.5)
    assert "the cotangent of out" in message(f, (X,), 2, ["rev"])


def test_a_forward_rule_is_checked():
    f = fg.custom_jvp(lambda x: x * x)
    f.defjvps(lambda t, out, x: 3.0 * t * x)
    for mode in BOTH:
        message(f, (X,), 1, [mode])
    assert "linearize of <lambda> is wrong (order 1)" in message(f, (X,), 1, ["lin"])


def test_a_wrong_complex_conjugate_is_named():
    f = ruled(lambda z: np.exp(z), lambda z, ct: np.conj(np.exp(z)) * ct)
    z = np.array([0.3 + 0.7j, 0.1 + 0j])
    text = message(f, (z,), modes=["rev"])
    assert "args[0][0]" in text
    assert "j" in text.split("the rules give")[1]


def test_not_a_number_is_never_right():
    assert "nan" in message(ruled(sin, lambda x, ct: ct * np.nan), (X,), modes=["rev"])
    assert "nan" in message(ruled(sin, lambda x, ct: ct * np.nan), (X,), modes=["fwd"])


def test_one_element_that_is_not_a_number_is_named():
    mask = np.ones_like(X)
    mask[0, 1] = np.nan
    f = ruled(sin, lambda x, ct: mask * np.cos(x) * ct)
    assert "args[0][0, 1]: the rules give nan" in message(f, (X,), modes=["rev"])
    assert "out[0, 1] along args[0]: the rules give nan" in message(f, (X,), modes=["fwd"])


def test_no_absolute_tolerance():
    check_grads(lambda x: x * np.array([2.0, 0.0]), (X[0, :2],), atol=0, rtol=1e-6)


def test_kinks_are_found():
    message(lambda x: np.maximum(x, 0.0) * 3 + x, (np.array([1.0, -1e-7]),))


@pytest.mark.parametrize(
    "f, args, words",
    [
        (lambda n: n * 2, (np.arange(3),), "none of the arguments holds floating-point numbers"),
        (lambda x: x > 0, (X,), "no output holds floating-point numbers"),
        (lambda x: None, (X,), "no output holds floating-point numbers"),
    ],
)
def test_nothing_to_check_is_an_error(f, args, words):
    with pytest.raises(TypeError, match=words):
        check_grads(f, args)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"modes": ["reverse"]}, "'fwd', 'rev' and 'lin'"),
        ({"modes": "rev"}, "'fwd', 'rev' and 'lin'"),
        ({"order": 0}, "order must be"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(ValueError, match=words):
        check_grads(np.sin, (X,), **options)


# ---- check_primitive -----------------------------------------------------------------------------------


def double(ct, **_):
    return ct * 2.0


RIGHT = {
    "run": lambda x: np.asarray(x) * 2,
    "vjp": by_argument(double),
    "shape": lambda x: x,
    "batch": lambda _, x: bind("planted", x),
}


@pytest.fixture
def plant(monkeypatch):
    """Return the function that adds a primitive called `planted`, right but for what is given."""

    def add(**columns):
        monkeypatch.setitem(PRIMITIVES, "planted", Primitive("planted", **{**RIGHT, **columns}))

    return add


def test_a_right_primitive_passes(plant):
    plant()
    check_primitive("planted", X, reference=lambda x: x + x, order=3)
    check_primitive("planted", X.astype(np.float32), reference=lambda x: x + x)
    plant(batch=None, shape=None)
    check_primitive("planted", X)


WRONG = {
    "value": ({"run": lambda x: x * 2.5}, "run is wrong"),
    "dtype": ({"run": lambda x: (x * 2.0).astype(np.float32)}, "run is wrong: it gives float32"),
    "shape of run": ({"run": lambda x: np.ravel(x * 2.0)}, r"run is wrong: it gives float64\[6\]"),
    "declared shape": ({"shape": lambda x: Aval((3,), x.dtype)},
        r"shape is wrong: it says float64\[3\], but"),
    "declared dtype": ({"shape": lambda x: Aval(x.shape, np.dtype("f"))}, "shape is wrong: it says float32"),
    "factor": ({"vjp": by_argument(lambda ct: ct * 3.0)},
        "vjp is wrong: check_grads: forward mode of planted"),
    "declared to be flat": ({"vjp": flat}, "vjp is wrong: check_grads"),
    "second order": (
        {"run": lambda x: x * 1.0, "vjp": by_argument(lambda ct, x: ct * (1.0 + x - fg.stop_gradient(x)))},
        r"vjp is wrong.*\(order 2\)",
    ),
    "batch": ({"batch": lambda _, x: bind("planted", x * 1.5)}, "batch is wrong"),
    "batch of scalars": ({"batch": lambda _, x: sum_axes(x, (0,))}, "batch is wrong"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_column_is_named(plant, mistake):
    columns, words = WRONG[mistake]
    plant(**columns)
    reference = (lambda x: x * 2) if "run" in words else None
    with pytest.raises(
        AssertionError, match=re.compile(r"check_primitive: planted\(float64\[2,3\]\): " + words, re.DOTALL)
    ):
        check_primitive("planted", X, reference=reference)


def test_parameters_and_constants_are_shown(plant):
    plant(
        run=lambda x, y, *, axis: x * y,
        vjp=by_argument(lambda ct, **_: ct, None),
        shape=lambda x, y, *, axis: x,
    )
    with pytest.raises(AssertionError, match=re.escape("planted(float64[3], 2.0, axis=0): vjp is wrong")):
        check_primitive("planted", X[0], 2.0, axis=0)


def test_an_argument_without_rule_is_found(plant):
    plant(
        run=np.multiply,
        vjp=by_argument(lambda ct, y: ct * y, None),
        shape=lambda x, y: x,
        batch=lambda _, x, y: bind("planted", x, y),
    )
    with pytest.raises(AssertionError, match="vjp is wrong"):
        check_primitive("planted", X, X)


def test_a_primitive_that_keeps_a_gradient_back_is_told_from_one_that_lets_it_pass(plant):
    plant()
    with pytest.raises(AssertionError, match="to stop gradients, but passes one on"):
        check_primitive("planted", X, stops=True)
    plant(vjp=flat)
    check_primitive("planted", X, stops=True)


def test_a_real_primitive_has_to_refuse_complex_arguments(plant):
    plant(real=True)
    check_primitive("planted", X + 1j)
    plant()
    check_primitive("planted", X + 1j, order=3)


def test_narrow_dtypes_agree_with_wide_ones(plant):
    plant(run=lambda x: (x * 2).astype(x.dtype) if x.dtype == np.float64 else (x * 2.01).astype(x.dtype))
    with pytest.raises(AssertionError, match=r"planted\(float32\[2,3\]\): run is wrong"):
        check_primitive("planted", X.astype(np.float32))


def test_an_unknown_primitive():
    with pytest.raises(KeyError):
        check_primitive("no such primitive", X)
