"""Operations that authors declare: scalar bodies, linear maps, and what is said about bad declarations."""

from __future__ import annotations

import math
import pickle
import re

import numpy as np
import pytest
from tests.helpers import differences

import fgrad as fg
from fgrad import extend
from fgrad.core.primitive import PRIMITIVES
from fgrad.extend import (
    absolute,
    arctan2,
    cos,
    elementwise,
    equal,
    exp,
    floor,
    greater,
    hypot,
    less,
    linear,
    log,
    log1p,
    logical_and,
    maximum,
    sign,
    sin,
    sqrt,
    tanh,
    where,
)  # fmt: skip
from fgrad.testing import check_grads, check_primitive

X = np.array([[-1.3, 0.4, 2.0], [0.7, -0.2, -2.4]])
Y = np.array([0.3, -1.1, 0.6])


@elementwise
def relu(x):
    """Return x where it is positive, else zero."""
    return where(x > 0, x, 0)


@elementwise
def softplus(x):
    return maximum(x, 0) + log1p(exp(-abs(x)))


@elementwise
def gelu(x):
    return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@elementwise
def logaddexp(x, y):
    return maximum(x, y) + log1p(exp(-absolute(x - y)))


@elementwise
def leaky(x, slope=0.01):
    return x * where(greater(x, 0), 1, slope)


@elementwise
def blend(x, y, t):
    return x * (1 - t) + y * t + sin(x) * cos(y) * exp(-t)


@elementwise
def plane(x, y):
    return hypot(x, y) * arctan2(y, x)


@elementwise
def rational(z):
    return (1 + z * z) / (2 - z) + exp(sin(z))


ONE = {
    "relu": (relu, lambda x: np.where(x > 0, x, 0)),
    "softplus": (softplus, lambda x: np.log1p(np.exp(x))),
    "gelu": (gelu, lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    "rational": (rational, lambda x: (1 + x * x) / (2 - x) + np.exp(np.sin(x))),
}
TWO = {
    "logaddexp": (logaddexp, np.logaddexp),
    "leaky": (leaky, lambda x, y: x * np.where(x > 0, 1, y)),
    "plane": (plane, lambda x, y: np.hypot(x, y) * np.arctan2(y, x)),
}


# ---- bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [X, X.T, X[:, ::2], X[0, 0], np.array(0.3), X[:0]], ids=lambda x: str(x.shape))
@pytest.mark.parametrize("name", ONE)
def test_one_operand_in_every_column_of_its_primitive(name, x):
    operation, reference = ONE[name]
    shifted = x - 0.1 if name == "rational" else x
    check_primitive(operation.primitive, shifted, reference=reference, order=3)
    check_primitive(operation.primitive, np.float32(shifted), order=2)


@pytest.mark.parametrize("name", TWO)
def test_two_operands_in_every_column_of_their_primitive(name):
    operation, reference = TWO[name]
    check_primitive(operation.primitive, X, X[::-1].copy(), reference=reference, order=3)
    for x, y in [
        (X, Y),
        (X[:, :1], Y),
        (X, 0.3),
        (0.3, X),
        (np.float32(X), np.float32(Y)),
        (X, np.float32(Y)),
        (X[:0], Y),
    ]:
        check_primitive(
            operation.primitive, x, y, reference=None if X.dtype != np.result_type(x, y) else reference
        )


def test_three_operands():
    check_primitive(blend.primitive, X, Y, np.array(0.4), order=3)
    np.testing.assert_allclose(blend(1.0, 2.0, 0.5), 1.5 + np.sin(1) * np.cos(2) * np.exp(-0.5))


def test_the_primitive_is_what_the_function_applies():
    np.testing.assert_array_equal(relu(X), np.maximum(X, 0))
    assert relu.primitive in PRIMITIVES
    assert relu.__name__ == "relu"
    assert relu.__doc__ == "Return x where it is positive, else zero."


@pytest.mark.parametrize(
    "x, dtype",
    [
        (X, np.float64), (np.float32(X), np.float32), (np.float16(X), np.float16), ([1, -2], np.float64),
            (np.array([1, -2], np.int8), np.float64), ([True], np.float64),
        (2, np.float64), (2.5, np.float64), (np.float32(2.5), np.float32), (X + 0j, np.complex128),
            (np.complex64(X), np.complex64), ([[1.0], [2.0]], np.float64),
    ],
    ids=str,
)  # fmt: skip
def test_dtypes(x, dtype):
    for operation in (relu, gelu):
        for given in (x, fg.tensor(x)):
            y = operation(given)
            assert isinstance(y, fg.Tensor) == isinstance(given, fg.Tensor)
            assert y.dtype == dtype
            assert y.shape == np.shape(x)


def test_dtypes_of_two_operands():
    f = np.float32(X)
    assert logaddexp(f, 2.0).dtype == np.float32
    assert logaddexp(f, 2).dtype == np.float32
    assert logaddexp(f, X).dtype == np.float64
    assert logaddexp(f, np.arange(3)).dtype == np.float64
    assert fg.grad(lambda x: np.sum(leaky(x) ** 2))(f).dtype == np.float32
    assert fg.hessian(lambda x: np.sum(leaky(x) * x))(f[0]).dtype == np.float32


def test_plain_arrays_and_tensors_mix():
    y = logaddexp(fg.tensor(X), Y)
    assert type(y) is fg.Tensor
    np.testing.assert_allclose(y.numpy(), np.logaddexp(X, Y))
    assert type(logaddexp(X, [0.0, 1.0, fg.tensor(2.0)])) is fg.Tensor


def test_operands_that_do_not_fit():
    with pytest.raises(ValueError, match="broadcast"):
        logaddexp(X, X.T)
    with pytest.raises(TypeError, match="argument"):
        relu(X, X)
    with pytest.raises(TypeError, match="argument"):
        relu()


def test_defaults_and_keywords_are_operands():
    np.testing.assert_allclose(leaky(X), leaky(X, 0.01))
    np.testing.assert_allclose(leaky(X, slope=0.2), leaky(x=X, slope=0.2))
    check_grads(lambda x, s: leaky(x, slope=s), (X, 0.2), 2)
    np.testing.assert_allclose(fg.grad(lambda s: np.sum(leaky(X, s)))(0.2), X[X < 0].sum())


def test_derivatives_by_every_transformation():
    f = lambda x: np.sum(softplus(x) * gelu(x))
    expected = differences(lambda x: np.sum(np.log1p(np.exp(x)) * ONE["gelu"][1](x)), Y)
    np.testing.assert_allclose(fg.grad(f)(Y), expected, rtol=1e-7)
    np.testing.assert_allclose(fg.jacfwd(f)(Y), expected, rtol=1e-7)
    np.testing.assert_allclose(fg.vmap(fg.grad(softplus))(Y), 1 / (1 + np.exp(-Y)))
    np.testing.assert_allclose(
        fg.grad(fg.grad(fg.grad(softplus)))(0.3), differences(fg.hessian(softplus), 0.3), rtol=1e-6
    )
    np.testing.assert_allclose(fg.make_graph(fg.grad(f))(Y)(Y), expected, rtol=1e-7)
    gm, x = fg.GradManager(), fg.tensor(Y)
    with gm.attach(x):
        gm.backward(f(x))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-7)
    check_grads(f, (X,), 3)


def test_mapping_one_of_two_operands():
    np.testing.assert_allclose(fg.vmap(logaddexp, (0, None))(X, Y), np.logaddexp(X, Y))
    np.testing.assert_allclose(fg.vmap(logaddexp, (None, 0))(Y, X[:, 0]), np.logaddexp(Y, X[:, :1]))


def test_a_staged_body_is_one_equation():
    program = fg.make_graph(gelu)(np.float32(X))
    assert [e.name.rpartition(".")[2] for e in program.equations] == ["gelu"]
    assert program.outputs[0].aval.dtype == np.float32
    np.testing.assert_array_equal(program(np.float32(X)), gelu(np.float32(X)))
    assert fg.eval_shape(logaddexp, X[:, :1], Y).shape == (2, 3)
    assert fg.eval_shape(relu, np.arange(3)).dtype == np.float64


def test_complex_operands():
    z = X - 0.1 + 0.5j
    np.testing.assert_allclose(rational(z), ONE["rational"][1](z))
    check_grads(rational, (z,), 3)
    check_primitive(rational.primitive, np.complex64(z), order=2)
    assert np.iscomplexobj(fg.grad(rational, holomorphic=True)(0.3 + 0.2j))
    positive = elementwise(lambda x: 2 * maximum(x, 0))
    np.testing.assert_array_equal(fg.grad(lambda z: np.real(np.sum(positive(z))))(z), 2.0 * (z.real > 0))
    way = elementwise(lambda x: 2 * sign(x))
    assert way(z).dtype == complex  # computed, but its derivative is one of real numbers
    with pytest.raises(TypeError, match="complex"):
        fg.grad(lambda z: np.real(np.sum(way(z))))(z)


def test_kinks_and_infinite_slopes():
    root = elementwise(lambda x: where(x > 0, sqrt(x), 0))
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(root(x)))(np.array([0.0, 4.0])), [0.0, 0.25])
    assert fg.grad(relu)(0.0) == 0.0
    product = elementwise(lambda x, y: sqrt(x) * y, name=None)
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(product(x, 0.0)))(np.array([0.0])), [0.0])


def test_flat_bodies():
    steps = elementwise(lambda x: floor(x) + where(logical_and(x > 0, less(x, 1)), 3, 4))
    np.testing.assert_array_equal(steps(X), np.floor(X) + np.where((X > 0) & (X < 1), 3, 4))
    check_primitive(steps.primitive, X + 0.05)


def test_equality_by_its_word():
    safe = elementwise(lambda x: where(equal(x, 0), 1, sin(x) / where(equal(x, 0), 1, x)))
    np.testing.assert_allclose(safe(np.array([0.0, 0.5])), np.sinc(np.array([0.0, 0.5]) / np.pi))


def test_names():
    named = elementwise(name="cube")(lambda x: x**3)
    assert named.primitive == f"{__name__}.cube"
    assert "cube(" in str(fg.make_graph(named)(X))
    assert elementwise(lambda x: x**5).primitive.startswith(f"{__name__}.body")

    def square(x):
        return x * x

    assert elementwise(square).primitive == elementwise(square).primitive  # equal bodies share a primitive

    def made(n):
        def scaled(x):
            return n * x

        return elementwise(scaled)

    twice, thrice = made(2), made(3)
    assert twice.primitive != thrice.primitive
    assert (twice(1.0), thrice(1.0)) == (2.0, 3.0)
    exp_of_ours = elementwise(name="exp")(lambda x: 2.0 * exp(x))
    assert exp_of_ours.primitive != "exp"
    assert fg.numpy.exp(0.0) == 1.0


def test_names_of_parameters_are_free():
    f = elementwise(lambda ct, out, K0, where: ct * out + 2.5 * K0 + exp(where))
    check_primitive(
        f.primitive, X, X + 1, X[::-1].copy(), Y, reference=lambda a, b, c, d: a * b + 2.5 * c + np.exp(d)
    )


def test_declared_operations_pickle():
    again = pickle.loads(pickle.dumps(fg.grad(softplus)))
    np.testing.assert_allclose(again(0.3), fg.grad(softplus)(0.3))


WORDS_OF_ONE = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "square": np.square,
    "reciprocal": np.reciprocal,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "arcsin": np.arcsin,
    "arccos": np.arccos,
    "arctan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "arcsinh": np.arcsinh,
    "arctanh": np.arctanh,
    "degrees": np.degrees,
    "radians": np.radians,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "absolute": np.absolute,
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS_OF_ONE)
def test_words_of_one_operand(name):
    word = getattr(extend, name)
    assert word.__name__ == name
    x = np.array([0.3, 0.8])
    check_primitive(
        elementwise(lambda x: 2 * word(x)).primitive, x, reference=lambda x: 2 * WORDS_OF_ONE[name](x)
    )


@pytest.mark.parametrize(
    "name",
    [
        "power",
        "hypot",
        "arctan2",
        "maximum",
        "minimum",
        "copysign",
        "logaddexp",
        "logaddexp2",
        "remainder",
        "fmod",
    ],
)
def test_words_of_two_operands(name):
    word = getattr(extend, name)
    x, y = np.array([0.3, 5.2]), np.array([0.7, 2.1])
    check_primitive(
        elementwise(lambda x, y: 2 * word(x, y)).primitive,
        x,
        y,
        reference=lambda x, y: 2 * getattr(np, name)(x, y),
    )


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_words_that_compare(name):
    word = getattr(extend, name)
    f = elementwise(lambda x, y: where(word(x, y), x, y * y))
    x, y = np.array([0.3, 5.2, 1.0]), np.array([0.7, 2.1, 1.0])
    np.testing.assert_allclose(f(x, y), np.where(getattr(np, name)(x, y), x, y * y))


def test_questions():
    f = elementwise(
        lambda x: where(extend.isnan(x), 1, where(extend.isinf(x), 2, where(extend.isfinite(x), 3, 4)))
    )
    np.testing.assert_array_equal(f(np.array([np.nan, np.inf, 0.0])), [1, 2, 3])
    g = elementwise(lambda x: where(extend.logical_not(x), 5, where(extend.logical_or(x > 1, x < -1), x, -x)))
    np.testing.assert_array_equal(g(np.array([0.0, 2.0, 0.5])), [5, 2, -0.5])


# ---- bad declarations ----------------------------------------------------------------------------


def branching(x):
    return max(0, x)


def of_numpy(x):
    return np.exp(x)


def of_math(x):
    return math.exp(x)


def unused(x, y):
    return 2 * x


def keyword_only(x, *, slope):
    return x * slope


def text_default(x, mode="fast"):
    return x


BAD = {
    "no function": (3.0, ["function", "3.0"]),
    "a ufunc": (np.exp, ["function", "ufunc"]),
    "a class": (float, ["function", "float"]),
    "no parameters": (lambda: 1.0, ["no parameters"]),
    "any number of parameters": (lambda *xs: xs[0], ["one by one", "xs"]),
    "a keyword": (keyword_only, ["keyword_only", "positional", "slope"]),
    "a default that is no number": (text_default, ["text_default", "mode", "number"]),
    "a number": (lambda x: 1.0, ["expression", "1.0"]),
    "a tuple": (lambda x: (x, x), ["one expression"]),
    "nothing": (lambda x: None, ["expression", "None"]),
    "an unused parameter": (unused, ["unused", "'y'", "leave it out"]),
    "a branch": (branching, ["branching", "where"]),
    "numpy": (of_numpy, ["of_numpy", "fgrad.extend", "numpy or math"]),
    "math": (of_math, ["of_math", "fgrad.extend", "numpy or math"]),
    "a comparison as number": (lambda x: x * (x > 0), ["greater", "where\\(condition, 1, 0\\)"]),
    "a comparison as result": (lambda x: x > 0, ["greater", "where\\(condition, 1, 0\\)"]),
    "a sum of comparisons": (lambda x: 1 * x + ((x > 0) + (x < 2)), ["truth value"]),
    "== of expressions": (lambda x: where(x == 0, 1, x), ["where", "False", "equal\\(x, y\\)"]),
    "too many operands": (lambda x: exp(x, 2), ["exp takes 1 operand", "not 2"]),
    "too few operands": (lambda x: maximum(x), ["maximum takes 2 operands", "not 1"]),
    "an array in the body": (lambda x: maximum(x, np.ones(3)), ["numbers", "array"]),
    "an attribute": (lambda x: x.shape, []),
}


@pytest.mark.parametrize("mistake", BAD)
def test_bad_bodies(mistake):
    body, words = BAD[mistake]
    with pytest.raises(AttributeError if mistake == "an attribute" else TypeError) as error:
        elementwise(body)
    for word in words:
        assert re.search(word, str(error.value)), f"{word!r} is not in: {error.value}"


# ---- linear operations ---------------------------------------------------------------------------


def test_a_linear_operation_in_every_column_of_its_primitive():
    mirror = linear(
        "mirror",
        run=lambda x: x[..., ::-1],
        adjoint=lambda ct, x: mirror(ct),
        shape=lambda x: x,
        batch=lambda x: mirror(x),
    )
    for x in (X, np.float32(X), X + 1j, Y, X[:0]):
        check_primitive(mirror.primitive, x, reference=lambda x: x[..., ::-1], order=3)
    np.testing.assert_array_equal(mirror([1, 2]), [2, 1])
    assert type(mirror(fg.tensor(Y))) is fg.Tensor
    assert mirror.__name__ == "mirror"
    assert "mirror(v0)" in str(fg.make_graph(mirror)(Y))


def test_parameters_and_missing_columns():
    shift = linear(
        "shift",
        run=lambda x, *, by: np.concatenate([np.zeros(by, x.dtype), x[: len(x) - by]]),
        adjoint=lambda ct, x, *, by: fg.numpy.concatenate([ct[by:], np.zeros(by, ct.dtype)]),
    )
    check_primitive(shift.primitive, Y, by=1)
    check_primitive(shift.primitive, np.float32(Y), by=2)
    np.testing.assert_array_equal(fg.vmap(lambda x: shift(x, by=1))(X), np.pad(X, ((0, 0), (1, 0)))[:, :3])
    check_grads(lambda x: np.sin(shift(x * x, by=1)), (Y,), 2)
    with pytest.raises(TypeError):
        shift(Y, unknown=1)


def test_cotangents_are_brought_to_the_dtype_of_the_operand():
    wide = linear("wide", run=lambda x: x * 2, adjoint=lambda ct, x: np.float64(2) * ct, shape=lambda x: x)
    assert fg.grad(lambda x: np.sum(wide(x)))(np.float32(Y)).dtype == np.float32


def test_names_of_linear_operations_that_are_taken_get_a_number():
    rules = {"run": lambda x: x * 2, "adjoint": lambda ct, x: ct * 2}
    first, second = (
        linear("doubled", **rules),
        linear("doubled", run=lambda x: x * 4, adjoint=lambda ct, x: ct * 4),
    )
    assert first.primitive != second.primitive
    np.testing.assert_array_equal(second(Y), 4 * Y)
    np.testing.assert_array_equal(first(Y), 2 * Y)


def test_an_adjoint_of_the_wrong_shape():
    broken = linear("broken", run=lambda x: x[:2], adjoint=lambda ct, x: ct)
    with pytest.raises(ValueError, match=r"adjoint of broken returned.*\(2,\).*\(3,\)"):
        fg.grad(lambda x: np.sum(broken(x)))(Y)


def test_a_wrong_adjoint_is_found():
    wrong = linear("wrong", run=lambda x: x * 2, adjoint=lambda ct, x: ct * 3)
    with pytest.raises(AssertionError, match=r"wrong.*vjp is wrong"):
        check_primitive(wrong.primitive, Y)


@pytest.mark.parametrize("name", ["two words", "", 3, None])
def test_names_of_linear_operations_are_identifiers(name):
    with pytest.raises(TypeError, match="identifier"):
        linear(name, run=lambda x: x, adjoint=lambda ct, x: ct)


@pytest.mark.parametrize("column", ["run", "adjoint", "shape", "batch"])
def test_rules_of_linear_operations_are_functions(column):
    rules = {"run": lambda x: x, "adjoint": lambda ct, x: ct, column: 3}
    with pytest.raises(TypeError, match=f"{column} of f must be a function, not 3"):
        linear("f", **rules)
    if column in ("run", "adjoint"):
        with pytest.raises(TypeError, match="must be a function, not None"):
            linear("f", **{**rules, column: None})


def test_custom_rules_are_at_hand():
    assert extend.custom_vjp is fg.custom_vjp
    assert extend.custom_jvp is fg.custom_jvp
    assert extend.Function is fg.Function


def test_logarithm_of_a_positive_body():
    f = elementwise(lambda x: log(1 + x * x))
    check_primitive(f.primitive, X, reference=lambda x: np.log(1 + x * x), order=3)
