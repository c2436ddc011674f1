"""Reverse mode by function: grad, value_and_grad, vjp, jacrev and elementwise_grad."""

from __future__ import annotations

import functools
import itertools
import operator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import scipy.optimize
from tests.helpers import close, exactly, grouped, is_numpy, layouts

import fgrad as fg
from fgrad.transforms import reverse

# name: (scalar function, its gradient in closed form), both plain NumPy
SCALAR = {
    "square":    (lambda x: np.sum(x * x),                    lambda x: 2 * x),
    "power":     (lambda x: (x**3).sum(),                     lambda x: 3 * x**2),
    "sin":       (lambda x: np.sum(np.sin(x)),                np.cos),
    "logistic":  (lambda x: np.sum(1 / (1 + np.exp(-x))),     lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
    "log":       (lambda x: np.log(x + 2).sum(),              lambda x: 1 / (x + 2)),
    "inner":     (lambda x: np.dot(x.ravel(), x.ravel()),     lambda x: 2 * x),
    "broadcast": (lambda x: np.sum(x[..., None] * np.arange(4)), lambda x: np.full_like(x, 6)),
    "twice":     (lambda x: np.sum(x) * np.sum(x),            lambda x: np.full_like(x, 2 * np.sum(x))),
    "constant":  (lambda x: np.sum(x) * 0 + 1,                np.zeros_like),
    "last axis": (lambda x: x.reshape(1, -1).sum(axis=-1)[0] ** 2, lambda x: np.full_like(x, 2 * np.sum(x))),
}  # fmt: skip

POINTS = {
    "0-d": np.array(0.7),
    "one": np.array([0.7]),
    "vector": np.array([0.3, -0.2, 1.5]),
    "matrix": np.linspace(-0.9, 1.1, 6).reshape(2, 3),
    "empty": np.zeros((0,)),
    "empty matrix": np.zeros((2, 0)),
}


class Pair(NamedTuple):
    """A named tuple as users write them."""

    left: object
    right: object


@dataclass
class Layer:
    """A dataclass as users write them, not registered anywhere."""

    weight: object
    bias: object


class Model:
    """A callable object with a method."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return self.loss(x)

    def loss(self, x):
        return self.scale * np.sum(x**2)


def cube(x):
    return x**3


def quadratic(x, y=2.0, *, scale=1.0):
    return scale * np.sum(x**2 * y)


# ---- grad and value_and_grad: values ----------------------------------------------------------


@grouped("name, point, dtype", itertools.product(SCALAR, POINTS, ["float64", "float32"]))
def test_gradient_has_the_value_shape_and_dtype_of_the_closed_form(name, point, dtype):
    f, df = SCALAR[name]
    x = POINTS[point].astype(dtype)
    value, g = fg.value_and_grad(f)(x)
    close(value, f(x))
    close(g, df(x))
    close(fg.grad(f)(x), df(x))
    assert g.dtype == x.dtype
    assert value.dtype == np.asarray(f(x)).dtype


@pytest.mark.parametrize("layout", layouts((2, 3)))
def test_any_memory_layout(layout):
    x = layouts((2, 3))[layout]
    before = x.copy()
    close(fg.grad(lambda x: np.sum(np.sin(x) * x[::-1]))(x), np.cos(x) * x[::-1] + np.sin(x)[::-1])
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize(
    "x", [2.0, np.float64(2.0), np.array(2.0), np.float32(2.0), np.array(2.0, np.float32)]
)
def test_numpy_scalars_in_numpy_scalars_out(x):
    value, g = fg.value_and_grad(cube)(x)
    dtype = np.asarray(x).dtype
    assert type(value) is type(g) is dtype.type
    assert (value, g) == (8.0, 12.0)


def test_tensors_in_tensors_out():
    value, g = fg.value_and_grad(cube)(fg.tensor(2.0))
    assert type(value) is type(g) is fg.Tensor
    assert g.shape == ()
    close(g, 12.0)


def test_one_tensor_among_the_arguments_makes_tensors():
    f = lambda x, y: np.sum(x * y)
    x = np.array([1.0, 2.0])
    assert type(fg.grad(f)(x, fg.tensor([3.0, 4.0]))) is fg.Tensor
    assert type(fg.grad(f)(fg.tensor([3.0, 4.0]), x)) is fg.Tensor
    assert type(fg.grad(lambda x, p: np.sum(x * p["a"][0]))(x, {"a": [fg.tensor(1.0)]})) is fg.Tensor
    assert is_numpy(fg.grad(f)(x, x))


def test_inside_the_function_only_differentiated_arguments_are_tensors():
    seen = []

    def f(x, data, mode, missing):
        seen.extend([x, data, mode, missing])
        return np.sum(x * data)

    data = np.array([3, 4])
    exactly(fg.grad(f)(np.array([1.0, 2.0]), data, "mode", None), np.array([3.0, 4.0]))
    assert type(seen[0]) is fg.Tensor
    assert seen[1] is data
    assert seen[2:] == ["mode", None]


def test_the_function_runs_once():
    calls = []
    fg.value_and_grad(lambda x: calls.append(1) or np.sum(x))(np.ones(3))
    assert len(calls) == 1


def test_minimize_of_scipy_takes_value_and_grad():
    f = lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    result = scipy.optimize.minimize(fg.value_and_grad(f), np.zeros(5), jac=True, method="BFGS")
    close(result.x, np.ones(5), rtol=1e-4)


def test_higher_derivatives_of_a_scalar_function():
    derivative, expected = np.sin, [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]
    for exact in expected:
        derivative = fg.grad(derivative)
        close(derivative(0.7), exact(0.7))


def test_python_control_flow_and_comparisons():
    def f(x):
        total = 0.0
        for i in range(len(x)):
            if x[i] > 0 and not x[i] > 10:
                total = total + x[i] ** 2
            elif x[i] == -1:
                total = total - x[i]
        return total

    exactly(fg.grad(f)(np.array([2.0, -1.0, -3.0, 20.0])), np.array([4.0, -1.0, 0.0, 0.0]))


def test_recursion_and_while():
    def power(x, n):
        return 1.0 if n == 0 else x * power(x, n - 1)

    def collatz(x):
        while x < 100.0:
            x = x * 3.0
        return x

    close(fg.grad(power)(2.0, 5), 80.0)
    close(fg.grad(collatz)(2.0), 81.0)


# ---- arguments --------------------------------------------------------------------------------

THREE = (np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0]))


def three(x, y, z):
    return np.sum(x * y**2 * z**3)


THREE_GRADS = (
    THREE[1] ** 2 * THREE[2] ** 3,
    2 * THREE[0] * THREE[1] * THREE[2] ** 3,
    3 * THREE[0] * THREE[1] ** 2 * THREE[2] ** 2,
)


@pytest.mark.parametrize("argnums", [0, 1, 2, -1, -2, -3])
def test_argnums_is_a_number(argnums):
    close(fg.grad(three, argnums=argnums)(*THREE), THREE_GRADS[argnums])
    close(fg.grad(three, argnums)(*THREE), THREE_GRADS[argnums])


@pytest.mark.parametrize("argnums", [(0,), (1, 2), (2, 0), (-1, 0), (0, 1, 2), (-3, -2, -1)])
def test_argnums_is_a_tuple_in_any_order(argnums):
    value, grads = fg.value_and_grad(three, argnums=argnums)(*THREE)
    close(value, three(*THREE))
    assert type(grads) is tuple
    assert len(grads) == len(argnums)
    for g, n in zip(grads, argnums, strict=True):
        close(g, THREE_GRADS[n])


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {"x": 3.0, "y": 5.0}),
        ((), {"y": 5.0, "x": 3.0}),
        ((3.0,), {"y": 5.0}),
        ((3.0, 5.0), {}),
        ((3.0, 5.0), {"scale": 1.0}),
        ((), {"scale": 1.0, "y": 5.0, "x": 3.0}),
    ],
)
def test_keyword_arguments_are_bound_by_the_signature(args, kwargs):
    close(fg.grad(quadratic)(*args, **kwargs), 30.0)
    close(fg.grad(quadratic, argnums=1)(*args, **kwargs), 9.0)
    value, (gx, gy) = fg.value_and_grad(quadratic, argnums=(0, 1))(*args, **kwargs)
    close([value, gx, gy], [45.0, 30.0, 9.0])
    close(fg.jacrev(quadratic)(*args, **kwargs), 30.0)
    close(fg.jacfwd(quadratic)(*args, **kwargs), 30.0)
    close(fg.hessian(quadratic)(*args, **kwargs), 10.0)


def test_defaults_and_keyword_only_arguments():
    close(fg.grad(quadratic)(3.0), 12.0)
    close(fg.grad(quadratic)(x=3.0), 12.0)
    close(fg.grad(quadratic)(3.0, scale=10.0), 120.0)
    close(fg.grad(lambda x, **options: x ** options["n"])(2.0, n=3), 12.0)
    close(fg.grad(lambda *xs: xs[0] * xs[1], argnums=1)(2.0, 3.0), 2.0)
    close(fg.grad(lambda *xs: xs[0] * xs[1], argnums=-1)(2.0, 3.0), 2.0)


@pytest.mark.parametrize(
    "f",
    [
        np.square,
        functools.partial(operator.mul, 6.0),
        functools.partial(lambda scale, x: scale * x**2, 1.0),
        Model(1.0),
        Model(1.0).loss,
        functools.partial(quadratic, y=1.0),
    ],
    ids=["ufunc", "partial of builtin", "partial", "object", "method", "partial by keyword"],
)
def test_every_kind_of_callable(f):
    close(fg.grad(f)(3.0), 6.0)


def test_one_array_in_two_places_counts_in_each():
    x = np.array([2.0, 3.0])
    close(fg.grad(lambda a, b: np.sum(a * b**2))(x, x), x**2)
    close(fg.grad(lambda p: np.sum(p["a"] * p["b"] ** 2))({"a": x, "b": x})["b"], 2 * x * x)


def test_one_tensor_in_two_places_counts_in_each():
    t = fg.tensor([2.0, 3.0])
    x = t.numpy()
    f = lambda a, b: np.sum(a * b**2)
    close(fg.grad(f)(t, t), x**2)
    close(fg.grad(f, argnums=1)(t, t), 2 * x * x)
    ga, gb = fg.grad(f, argnums=(0, 1))(t, t)
    close(ga, x**2)
    close(gb, 2 * x * x)
    close(fg.grad(lambda a: np.sum(a * t))(t), x)
    assert t.grad is None


# ---- pytrees, static leaves, aux --------------------------------------------------------------


def test_gradients_have_the_structure_of_their_argument():
    params = {"pair": Pair(np.array([1.0, 2.0]), 3.0), "list": [np.ones((2, 2)), (4.0,)]}
    f = lambda p: np.sum(p["pair"].left) * p["pair"].right + np.sum(p["list"][0]) * p["list"][1][0] ** 2
    g = fg.grad(f)(params)
    assert type(g["pair"]) is Pair
    assert type(g["list"]) is list
    assert type(g["list"][1]) is tuple
    close(g["pair"].left, [3.0, 3.0])
    close(g["pair"].right, 3.0)
    close(g["list"][0], np.full((2, 2), 16.0))
    close(g["list"][1][0], 32.0)
    assert type(g["pair"].right) is np.float64


def test_dataclasses_are_pytrees():
    g = fg.grad(lambda layer, x: np.sum(layer.weight @ x + layer.bias))(
        Layer(np.ones((2, 3)), np.zeros(2)), np.arange(3.0)
    )
    assert type(g) is Layer
    close(g.weight, [[0.0, 1.0, 2.0]] * 2)
    close(g.bias, [1.0, 1.0])


def test_none_and_strings_pass_through_a_differentiated_argument():
    seen = {}

    def f(p):
        seen.update(p)
        return np.sum(getattr(np, p["name"])(p["w"]))

    params = {"w": np.array([0.0, 1.0]), "name": "sin", "bias": None}
    g = fg.grad(f)(params)
    assert seen["name"] == "sin"
    assert seen["bias"] is None
    assert g.keys() == params.keys()
    assert (g["name"], g["bias"]) == ("sin", None)
    close(g["w"], np.cos(params["w"]))


def test_results_without_a_value_pass_through():
    (value, aux), g = fg.value_and_grad(
        lambda x: (x**2, {"name": "sq", "none": None, "y": 3 * x, "n": 7}), has_aux=True
    )(2.0)
    assert (value, g) == (4.0, 4.0)
    assert aux == {"name": "sq", "none": None, "y": 6.0, "n": 7}
    assert type(aux["y"]) is np.float64
    g, aux = fg.grad(lambda x: (x**2, "done"), has_aux=True)(2.0)
    assert (g, aux) == (4.0, "done")


def test_aux_is_cut_from_the_gradient_and_keeps_the_callers_kind():
    f = lambda x: (np.sum(x), {"x": x, "big": 1000 * np.sum(x)})
    g, aux = fg.grad(f, has_aux=True)(np.array([1.0, 2.0]))
    exactly(g, np.ones(2))
    assert is_numpy(aux["x"])
    aux["x"][:] = 7.0
    g, aux = fg.grad(f, has_aux=True)(fg.tensor([1.0, 2.0]))
    assert type(aux["x"]) is fg.Tensor
    close(aux["big"], 3000.0)


def test_aux_of_an_inner_gradient_is_seen_by_the_outer_one():
    def f(x):
        g, aux = fg.grad(lambda y: (y**2, y**3), has_aux=True)(x)
        return g * aux  # 2x * x^3

    close(fg.grad(f)(2.0), 8 * 2.0**3)


def test_aux_of_vjp():
    out, pullback, aux = fg.vjp(lambda x: (2 * x, "aux"), np.ones(2), has_aux=True)
    exactly(out, np.full(2, 2.0))
    assert aux == "aux"
    exactly(pullback(np.ones(2))[0], np.full(2, 2.0))


def test_aux_of_jacrev():
    jac, aux = fg.jacrev(lambda x: (x**2, {"first": x[0]}), has_aux=True)(np.array([1.0, 2.0]))
    close(jac, [[2.0, 0.0], [0.0, 4.0]])
    assert aux == {"first": 1.0}


# ---- zero, integer and complex arguments --------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_zeros_where_no_gradient_reaches(dtype):
    x, y = np.ones((2, 3), dtype), np.ones(4, dtype)
    f = lambda x, y: np.sum(np.real(y))
    exactly(fg.grad(f)(x, y), np.zeros((2, 3), dtype))
    _, pullback = fg.vjp(lambda x, y: {"only y": 2 * y}, x, y)
    ct_x, ct_y = pullback({"only y": np.ones(4, dtype)})
    exactly(ct_x, np.zeros((2, 3), dtype))
    exactly(ct_y, np.full(4, 2, dtype))
    exactly(fg.jacrev(lambda x: np.ones(2))(np.ones(3)), np.zeros((2, 3)))
    exactly(fg.grad(lambda x: 1.0)(np.ones(3, np.float32)), np.zeros(3, np.float32))


@pytest.mark.parametrize("x", [3, True, np.arange(3), np.array([True, False]), np.uint8(3)])
@pytest.mark.parametrize("transform", [fg.grad, fg.value_and_grad])
def test_integer_arguments_need_allow_int(transform, x):
    with pytest.raises(TypeError, match="allow_int"):
        transform(lambda x: np.sum(x * 1.0))(x)


def test_allow_int_gives_zeros_of_the_same_shape():
    g = fg.grad(lambda p: np.sum(p["w"] * p["n"]), allow_int=True)(
        {"w": np.array([2.0, 3.0]), "n": np.array([4, 5])}
    )
    exactly(g["w"], np.array([4.0, 5.0]))
    assert g["n"].shape == (2,)
    assert not np.any(g["n"])


def test_integer_data_next_to_a_differentiated_argument():
    x, n, mask = np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([True, False, True])
    exactly(fg.grad(lambda x: np.sum(x[n] * n + x * mask))(x), np.array([1.0, 0.0, 5.0]))


def test_holomorphic():
    z = np.array([1 + 2j, -0.5j])
    close(fg.grad(lambda z: np.sum(z**3), holomorphic=True)(z), 3 * z**2)
    close(fg.jacrev(lambda z: np.sin(z), holomorphic=True)(z), np.diag(np.cos(z)))
    value, g = fg.value_and_grad(lambda z: np.exp(1j * z), holomorphic=True)(1 + 2j)
    close(value, np.exp(1j * (1 + 2j)))
    close(g, 1j * np.exp(1j * (1 + 2j)))
    assert type(g) is np.complex128


@pytest.mark.parametrize("transform", [fg.grad, fg.value_and_grad, fg.jacrev])
def test_holomorphic_needs_complex_and_complex_needs_holomorphic(transform):
    with pytest.raises(TypeError, match="holomorphic"):
        transform(lambda z: z * z, holomorphic=True)(1.0)
    with pytest.raises(TypeError, match="holomorphic"):
        transform(lambda z: z * z)(1.0 + 1j)


# ---- vjp --------------------------------------------------------------------------------------


def test_pullback_is_linear_and_callable_any_number_of_times():
    a = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x = np.array([0.1, 0.2, 0.3])
    out, pullback = fg.vjp(lambda a, x: np.tanh(a @ x), a, x)
    close(out, np.tanh(a @ x))
    for ct in [
        np.array([1.0, 0.0]),
        np.array([0.0, 1.0]),
        np.array([2.0, -3.0]),
        np.zeros(2),
        np.array([1.0, 0.0]),
    ]:
        result = pullback(ct)
        assert type(result) is tuple
        close(result[0], np.outer(ct / np.cosh(a @ x) ** 2, x))
        close(result[1], a.T @ (ct / np.cosh(a @ x) ** 2))


def test_vjp_of_pytrees():
    f = lambda p, x: {"sum": p["a"] + x, "pair": (p["a"] * x, None, "static", x[0])}
    a, x = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    out, pullback = fg.vjp(f, {"a": a}, x)
    assert out["pair"][1:3] == (None, "static")
    close(out["pair"][0], a * x)
    ct_p, ct_x = pullback({"sum": np.ones(2), "pair": (np.array([1.0, 10.0]), None, "static", 5.0)})
    close(ct_p["a"], 1 + np.array([1.0, 10.0]) * x)
    close(ct_x, 1 + np.array([1.0, 10.0]) * a + np.array([5.0, 0.0]))


def test_an_output_that_is_an_input_or_comes_twice():
    x = np.array([1.0, 2.0])
    _, pullback = fg.vjp(lambda x: (x, x, x * 3), x)
    close(pullback((np.array([1.0, 0.0]), np.array([0.0, 2.0]), np.ones(2)))[0], [4.0, 5.0])


def test_vjp_without_primals():
    out, pullback = fg.vjp(lambda: np.ones(2))
    exactly(out, np.ones(2))
    assert pullback(np.ones(2)) == ()


def test_pullback_of_a_tensor_gives_tensors():
    out, pullback = fg.vjp(np.sin, fg.tensor([0.0, 1.0]))
    assert type(out) is fg.Tensor
    (ct,) = pullback(fg.tensor([1.0, 1.0]))
    assert type(ct) is fg.Tensor
    close(ct, np.cos([0.0, 1.0]))


def test_pullback_inside_another_gradient_is_differentiable_in_its_cotangent_and_its_primal():
    x = np.array([0.3, 0.4])

    def f(ct, x):
        return np.sum(fg.vjp(np.sin, x)[1](ct)[0] ** 2)  # sum (ct cos x)^2

    g_ct, g_x = fg.grad(f, argnums=(0, 1))(np.array([2.0, 3.0]), x)
    ct = np.array([2.0, 3.0])
    close(g_ct, 2 * ct * np.cos(x) ** 2)
    close(g_x, -2 * ct**2 * np.cos(x) * np.sin(x))


@pytest.mark.parametrize("ct", [1.0, 1, np.float32(1.0), np.array(1.0)])
def test_cotangents_may_be_numbers(ct):
    close(fg.vjp(np.sin, 0.0)[1](ct)[0], 1.0)


# ---- jacrev and elementwise_grad ----------------------------------------------------------------


@pytest.mark.parametrize("elements", [1, 40, 64])
def test_large_jacobians_are_found_in_parts(monkeypatch, elements):
    w = np.arange(60.0).reshape(10, 6) / 60

    def f(d):
        return {"y": np.tanh(w @ d["x"]).reshape(5, 2) * d["s"], "z": np.cumsum(d["x"]), "s": 3.0 * d["s"]}

    d = {"x": np.linspace(-1, 1, 6), "s": np.float64(1.5), "unused": np.ones(3)}
    whole = fg.tree.leaves(fg.jacrev(f)(d))
    parts = []
    find = reverse.batched_map
    monkeypatch.setattr(reverse, "batched_map", lambda row, x: (parts.append(len(x)), find(row, x))[1])
    monkeypatch.setattr(reverse, "_PART", elements)
    for found, expected in zip(fg.tree.leaves(fg.jacrev(f)(d)), whole, strict=True):
        assert found.shape == expected.shape
        assert found.flags.writeable or not found.shape
        np.testing.assert_array_equal(found, expected)
    assert sum(parts) == 10 + 6 + 1
    assert max(parts[:-1]) < 10
    parts.clear()
    fg.vmap(fg.jacrev(lambda x: np.tanh(w @ x)))(np.ones((2, 6)))
    assert parts == [10]


@pytest.mark.parametrize("egrad", [fg.elementwise_grad, fg.egrad])
def test_elementwise_grad(egrad):
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    close(egrad(np.tanh)(x), 1 / np.cosh(x) ** 2)
    close(egrad(egrad(np.sin))(x), -np.sin(x))
    close(egrad(lambda x, y: x**2 * y)(x, np.arange(3.0)), 2 * x * np.arange(3.0))
    assert type(egrad(np.sin)(0.0)) is np.float64
    assert egrad(np.sin)(np.zeros((0, 2))).shape == (0, 2)
    assert type(egrad(np.sin)(fg.tensor(x))) is fg.Tensor
    assert egrad(np.sin)(x.astype("f4")).dtype == np.float32


@pytest.mark.parametrize("jacobian", [fg.jacrev, fg.jacfwd, lambda f: fg.jit(fg.jacrev(f))])
def test_jacobians_of_numbers_are_numbers(jacobian):
    for x in (0.5, np.float64(0.5), np.array(0.5)):
        a, b = jacobian(lambda x: (np.sin(x), 2 * x))(x)
        assert (type(a), type(b)) == (np.float64, np.float64)
        assert type(jacobian(lambda x: np.ones(3) * x)(x)) is np.ndarray
    assert isinstance(jacobian(np.sin)(fg.tensor(0.5)), fg.Tensor)
