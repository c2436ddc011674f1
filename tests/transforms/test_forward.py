"""Forward mode, made of reverse mode twice: jvp, linearize, linear_transpose, jacfwd, hessian, hvp."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers import close, differences, exactly, grouped, is_numpy, layouts

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.transforms import pushforward

RNG = np.random.default_rng(11)
A = np.array([[1.0, 2.0, -1.0], [0.5, -3.0, 4.0]])

# name: (function, its tangent (x, t) -> J t in closed form)
FUNCTIONS = {
    "identity":   (lambda x: x,                     lambda x, t: t),
    "constant":   (lambda x: np.ones_like(x),       lambda x, t: 0 * t),
    "zero times": (lambda x: 0 * x,                 lambda x, t: 0 * t),
    "linear":     (lambda x: 3 * x[..., ::-1] - 1,  lambda x, t: 3 * t[..., ::-1]),
    "sin":        (np.sin,                          lambda x, t: np.cos(x) * t),
    "square":     (lambda x: x * x,                 lambda x, t: 2 * x * t),
    "quotient":   (lambda x: 1 / (1 + x**2),        lambda x, t: -2 * x * t / (1 + x**2) ** 2),
    "sum":        (lambda x: np.sum(np.exp(x)),     lambda x, t: np.sum(np.exp(x) * t)),
    "rows":       (lambda x: x.sum(axis=-1) ** 2,   lambda x, t: 2 * x.sum(axis=-1) * t.sum(axis=-1)),
    "outer":      (lambda x: x[..., None] * x[..., None, :],
                   lambda x, t: t[..., None] * x[..., None, :] + x[..., None] * t[..., None, :]),
}  # fmt: skip

# name: (scalar function, gradient, Hessian), all in closed form
SCALAR = {
    "quadratic": (
        lambda x: 0.5 * x @ (A.T @ A) @ x,
        lambda x: A.T @ A @ x,
        lambda x: A.T @ A,
    ),
    "separable": (
        lambda x: np.sum(np.exp(x)),
        np.exp,
        lambda x: np.diag(np.exp(x)),
    ),
    "product": (
        lambda x: x[0] * x[1] * x[2],
        lambda x: np.array([x[1] * x[2], x[0] * x[2], x[0] * x[1]]),
        lambda x: np.array([[0, x[2], x[1]], [x[2], 0, x[0]], [x[1], x[0], 0]]),
    ),
    "linear": (
        lambda x: np.sum(A @ x),
        lambda x: A.sum(axis=0),
        lambda x: np.zeros((3, 3)),
    ),
    "constant": (
        lambda x: 1.0,
        np.zeros_like,
        lambda x: np.zeros((3, 3)),
    ),
    "radius": (
        lambda x: np.sqrt(np.sum(x**2)),
        lambda x: x / np.sqrt(x @ x),
        lambda x: np.eye(3) / np.sqrt(x @ x) - np.outer(x, x) / np.sqrt(x @ x) ** 3,
    ),
}


# ---- jvp --------------------------------------------------------------------------------------


SHAPES = [(1,), (3,), (2, 3), (0,), (2, 0)]


@grouped("name, shape, dtype", itertools.product(FUNCTIONS, SHAPES, ["float64", "float32"]))
def test_tangents_in_closed_form(name, shape, dtype):
    f, tangent = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=shape).astype(dtype), rng.normal(size=shape).astype(dtype)
    out, tangent_out = fg.jvp(f, (x,), (t,))
    close(out, f(x))
    close(tangent_out, tangent(x, t))
    assert np.asarray(out).dtype == np.asarray(tangent_out).dtype == dtype


@pytest.mark.parametrize("layout", layouts((2, 3)))
def test_any_memory_layout(layout):
    x, t = layouts((2, 3), seed=1)[layout], layouts((2, 3), seed=2)[layout]
    close(fg.jvp(np.sin, (x,), (t,))[1], np.cos(x) * t)


@pytest.mark.parametrize("f", ["identity", "sin", "zero times"])
def test_numpy_scalars_and_tensors(f):
    f, tangent = FUNCTIONS[f]
    for result in fg.jvp(f, (2.0,), (3.0,)):
        assert type(result) is np.float64
    for result in fg.jvp(f, (fg.tensor(2.0),), (3.0,)) + fg.jvp(f, (2.0,), (fg.tensor(3.0),)):
        assert type(result) is fg.Tensor
    assert all(is_numpy(r) for r in fg.jvp(f, (np.ones(2),), (np.ones(2),)))
    close(fg.jvp(f, (fg.tensor(2.0),), (fg.tensor(3.0),))[1], tangent(2.0, 3.0))


def test_several_primals():
    out, t = fg.jvp(lambda x, y: x * y**2, (2.0, 3.0), (1.0, 0.0))
    assert (out, t) == (18.0, 9.0)
    assert fg.jvp(lambda x, y: x * y**2, (2.0, 3.0), (0.0, 1.0))[1] == 12.0
    assert fg.jvp(lambda x, y: x * y**2, [2.0, 3.0], [10.0, 1.0])[1] == 102.0


def test_pytrees_and_static_leaves():
    def f(p, x):
        return {
            "wx": p["w"] @ x,
            "pair": (p["w"], np.sum(x)),
            "name": "layer",
            "none": None,
            "fixed": np.ones(2),
        }

    w, x = A, np.array([1.0, 2.0, 3.0])
    tw, tx = np.ones_like(A), np.array([0.1, 0.2, 0.3])
    out, t = fg.jvp(f, ({"w": w}, x), ({"w": tw}, tx))
    close(out["wx"], w @ x)
    close(t["wx"], tw @ x + w @ tx)
    close(t["pair"][0], tw)
    close(t["pair"][1], 0.6)
    close(t["fixed"], np.zeros(2))
    assert (out["name"], out["none"]) == ("layer", None)
    assert t.keys() == out.keys()


def test_aux():
    out, t, aux = fg.jvp(lambda x: (x**2, {"x": x, "name": "sq"}), (3.0,), (1.0,), has_aux=True)
    assert (out, t, aux) == (9.0, 6.0, {"x": 3.0, "name": "sq"})


def test_tangents_share_no_memory_and_change_nothing():
    x, t = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for result in fg.jvp(lambda x: x, (x,), (t,)):
        result[:] = 9.0
    exactly(x, np.array([1.0, 2.0]))
    exactly(t, np.array([3.0, 4.0]))

    def f(x):
        x[0] = x[1] * x[1]
        x += 1
        return x

    close(fg.jvp(f, (x,), (t,)), ([5.0, 3.0], [16.0, 4.0]))
    exactly(x, np.array([1.0, 2.0]))


def test_jvp_is_linear_in_its_tangent():
    f = lambda x: np.tanh(A @ x) * x[0]
    x, s, t = np.array([0.1, 0.2, 0.3]), np.array([1.0, -1.0, 2.0]), np.array([0.0, 5.0, 1.0])
    push = lambda t: fg.jvp(f, (x,), (t,))[1]
    close(push(2 * s - 3 * t), 2 * push(s) - 3 * push(t))
    exactly(push(0 * t), np.zeros(2))
    close(push(s), differences(f, x) @ s, rtol=1e-8)


def test_jvp_is_the_transpose_of_vjp():
    f = lambda x, y: np.exp(-x) @ (y * x[:, None])
    rng = np.random.default_rng(3)
    x, y, tx, ty = (rng.normal(size=s) for s in [(3,), (3, 2), (3,), (3, 2)])
    ct = rng.normal(size=2)
    _, t = fg.jvp(f, (x, y), (tx, ty))
    ct_x, ct_y = fg.vjp(f, x, y)[1](ct)
    close(ct @ t, np.sum(ct_x * tx) + np.sum(ct_y * ty))


def test_jvp_of_jvp_of_jvp():
    cube = lambda x: x**3
    first = lambda x: fg.jvp(cube, (x,), (1.0,))[1]
    second = lambda x: fg.jvp(first, (x,), (1.0,))[1]
    close([first(2.0), second(2.0), fg.jvp(second, (2.0,), (1.0,))[1]], [12.0, 12.0, 6.0])


def test_tangent_depends_on_the_outer_primal():
    push = lambda x: fg.jvp(np.sin, (x,), (x**2,))[1]  # x^2 cos x
    close(fg.grad(push)(0.7), 2 * 0.7 * np.cos(0.7) - 0.49 * np.sin(0.7))
    close(fg.jvp(push, (0.7,), (2.0,))[1], 2 * (1.4 * np.cos(0.7) - 0.49 * np.sin(0.7)))


# name: (function, tangent at z along t); |.|, conj, real and imag are not holomorphic
COMPLEX = {
    "identity": (lambda z: z,               lambda z, t: t),
    "cube":     (lambda z: z**3,            lambda z, t: 3 * z**2 * t),
    "exp":      (np.exp,                    lambda z, t: np.exp(z) * t),
    "conj":     (np.conj,                   lambda z, t: np.conj(t)),
    "real":     (np.real,                   lambda z, t: t.real),
    "imag":     (np.imag,                   lambda z, t: t.imag),
    "abs":      (np.abs,                    lambda z, t: (np.conj(z) * t).real / np.abs(z)),
    "square":   (lambda z: np.abs(z) ** 2,  lambda z, t: 2 * (np.conj(z) * t).real),
    "product":  (lambda z: z * np.conj(z),  lambda z, t: 2 * (np.conj(z) * t).real + 0j),
    "constant": (lambda z: np.ones(2) * 1j, lambda z, t: 0j * t),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_tangents(name, dtype):
    f, tangent = COMPLEX[name]
    z, t = np.array([1 + 2j, -0.5 + 0.3j], dtype), np.array([0.4 - 1j, 2 + 0.1j], dtype)
    out, tangent_out = fg.jvp(f, (z,), (t,))
    close(out, f(z))
    close(tangent_out, tangent(z, t))
    assert tangent_out.dtype == out.dtype


def test_real_primal_complex_output():
    out, t = fg.jvp(lambda x: np.exp(1j * x), (0.5,), (2.0,))
    close(out, np.exp(0.5j))
    close(t, 2j * np.exp(0.5j))


MIXED = {  # of a complex and a real operand
    "z + x": lambda z, x: z + x,
    "x - z": lambda z, x: x - z,
    "z x": lambda z, x: z * x,
    "x / z": lambda z, x: x / z,
    "z / x": lambda z, x: z / x,
    "z ** x": lambda z, x: z**x,
    "x ** z": lambda z, x: x**z,
    "choice": lambda z, x: np.where(x > 1, z, x),
    "other choice": lambda z, x: np.where(x > 1, x, z * z),
    "row": lambda z, x: z * x[:1],
    "column": lambda z, x: z[:1, None] * x,
    "abs": lambda z, x: np.abs(z) * x + np.abs(x),
    "functions": lambda z, x: np.sin(z) * np.exp(x) + np.log(z) / np.sqrt(x) - np.tanh(z * x),
    "negative": lambda z, x: -z * np.conj(z) + 1j * x,
    "joined": lambda z, x: fnp.concatenate([z, x, [1.0]]),
    "joined numbers": lambda z, x: fnp.concatenate([[2j], x, x**2]),
    "stacked": lambda z, x: fnp.stack([z, x, np.ones(2), np.real(z)]),
    "product": lambda z, x: fnp.prod(z * x),
}


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", MIXED)
def test_steps_between_real_and_complex_numbers(name, dtype):
    f = MIXED[name]
    z, dz = np.array([1 + 2j, -0.5 + 0.3j], dtype), np.array([0.4 - 1j, 2 + 0.1j], dtype)
    x, dx = z.imag.copy(), np.array([0.3, -0.7], z.real.dtype)
    wide = [a.astype(np.result_type(a, np.float64)) for a in (z, x, dz, dx)]
    for t, s in ((dz, dx), (dz, 0 * dx), (0 * dz, dx)):
        out, tangent = fg.jvp(f, (z, x), (t, s))
        assert (tangent.shape, tangent.dtype) == (np.shape(out), np.asarray(out).dtype)
        ahead, behind = (f(wide[0] + h * t, wide[1] + h * s) for h in (1e-6, -1e-6))
        rough = (np.asarray(ahead) - np.asarray(behind)) / 2e-6
        np.testing.assert_allclose(tangent, rough, rtol=1e-4 if z.itemsize == 8 else 1e-7, atol=1e-5)
        one, other = fg.jvp(lambda z: f(z, x), (z,), (t,))[1], fg.jvp(lambda x: f(z, x), (x,), (s,))[1]
        np.testing.assert_allclose(one + other, tangent, rtol=1e-5, atol=1e-5)
        _, pullback = fg.vjp(f, z, x)
        ct = np.asarray(out + (0.3 if np.isrealobj(out) else 0.3j))
        back = pullback(ct)
        pairing = np.real(np.vdot(np.conj(ct), tangent))
        close(np.real(np.vdot(np.conj(back[0]), t) + np.vdot(back[1], s)), pairing)


@pytest.mark.parametrize("outer", ["jvp", "vjp"])
@pytest.mark.parametrize("name", MIXED)
def test_tangents_between_real_and_complex_numbers_have_derivatives(name, outer):
    f = MIXED[name]
    z, dz = np.array([1 + 2j, -0.5 + 0.3j]), np.array([0.4 - 1j, 2 + 0.1j])
    x, dx = z.imag.copy(), np.array([0.3, -0.7])

    def tangent(z, x):
        return fg.jvp(f, (z, x), (dz, dx))[1]

    ahead, behind = (np.asarray(tangent(z + h * dz, x + h * dx)) for h in (1e-6, -1e-6))
    rough = (ahead - behind) / 2e-6
    if outer == "jvp":
        found = fg.jvp(tangent, (z, x), (dz, dx))[1]
        np.testing.assert_allclose(found, rough, rtol=1e-6, atol=1e-6)
        return
    out, pullback = fg.vjp(tangent, z, x)
    back = pullback(np.ones_like(out))
    found = np.real(np.vdot(np.conj(back[0]), dz) + np.vdot(back[1], dx))
    np.testing.assert_allclose(found, np.real(np.sum(rough)), rtol=1e-6, atol=1e-6)


# ---- linearize and linear_transpose -------------------------------------------------------------


def test_linearize_runs_the_function_once_and_pushes_often():
    calls = []

    def f(x, y):
        calls.append(1)
        return np.sin(x) * y, x

    x, y = np.array([0.1, 0.2]), np.array([3.0, 4.0])
    out, f_jvp = fg.linearize(f, x, y)
    close(out[0], np.sin(x) * y)
    n = len(calls)
    for tx, ty in [
        (np.ones(2), np.zeros(2)),
        (np.zeros(2), np.ones(2)),
        (np.array([1.0, 2.0]), np.array([3.0, 5.0])),
    ]:
        t, same = f_jvp(tx, ty)
        close(t, np.cos(x) * y * tx + np.sin(x) * ty)
        close(same, tx)
    assert len(calls) == n


def test_linearize_hands_out_what_the_function_returns_beside():
    out, push, aux = fg.linearize(lambda x: (x * x, {"twice": 2 * x, "name": "f"}), 3.0, has_aux=True)
    assert (out, push(2.0), aux) == (9.0, 12.0, {"twice": 6.0, "name": "f"})
    assert isinstance(aux["twice"], np.floating)
    slope = fg.grad(lambda x: fg.linearize(lambda x: (x * x, x**3), x, has_aux=True)[2])
    assert slope(2.0) == 12.0
    with pytest.raises(TypeError, match="aux"):
        fg.linearize(lambda x: x, 3.0, has_aux=True)


def test_linearize_keeps_the_values_it_saw():
    x = np.array([1.0, 2.0])
    _, f_jvp = fg.linearize(lambda x: x * x, x)
    x[:] = 100.0
    close(f_jvp(np.ones(2)), [2.0, 4.0])
    _, f_jvp = fg.linearize(lambda x: np.ones(2), x)
    exactly(f_jvp(np.ones(2)), np.zeros(2))


def test_linearize_inside_a_gradient():
    f = lambda x: np.sum(fg.linearize(np.sin, x)[1](x) ** 2)  # sum (x cos x)^2
    x = np.array([0.3, 0.9])
    close(fg.grad(f)(x), 2 * x * np.cos(x) * (np.cos(x) - x * np.sin(x)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_linear_transpose(dtype):
    a = A.astype(dtype) * (1 if dtype != "complex128" else 1 + 2j)
    transposed = fg.linear_transpose(lambda x: a @ x, np.zeros(3, dtype))
    for ct in (np.array([1, 0], dtype), np.array([2, -3], dtype)):
        (result,) = transposed(ct)
        close(result, a.T @ ct)
        assert result.dtype == dtype


def test_linear_transpose_of_pytrees():
    f = lambda x, p: {"sum": x + 2 * p["y"], "head": p["y"][:2]}
    transposed = fg.linear_transpose(f, np.zeros(3), {"y": np.zeros(3)})
    ct = {"sum": np.array([1.0, 2.0, 3.0]), "head": np.array([10.0, 20.0])}
    ct_x, ct_p = transposed(ct)
    close(ct_x, ct["sum"])
    close(ct_p["y"], [12.0, 24.0, 6.0])


def test_linear_transpose_twice_is_the_function():
    f = lambda x: A @ x[::-1]
    transposed = fg.linear_transpose(f, np.zeros(3))
    again = fg.linear_transpose(lambda ct: transposed(ct)[0], np.zeros(2))
    x = np.array([1.0, 2.0, 3.0])
    close(again(x)[0], f(x))


NOT_LINEAR = {
    "square": lambda x: x * x,
    "product": lambda x: x @ x,
    "sin": np.sin,
    "largest": np.max,
    "floor": np.floor,
    "sorted": np.sort,
    "norm": np.linalg.norm,
    "if": lambda x: x if x[0] > 0 else 2 * x,
    "where": lambda x: np.where(x > 0, x, 0),
    "compiled": fg.jit(lambda x: x * x),
    "loop": lambda x: fg.lax.scan(lambda c, _: (c * c, c), x, None, length=2)[0],
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_the_transpose_of_what_is_not_linear_is_refused(name):
    with pytest.raises(TypeError, match=r"linear_transpose needs a function that is linear.* Use vjp"):
        fg.linear_transpose(NOT_LINEAR[name], np.zeros(3))


def scaled(x):
    return A[0] * x


own = fg.custom_vjp(scaled)
own.defvjp(lambda x: (scaled(x), None), lambda _, ct: (A[0] * ct,))
LINEAR = {
    "compiled": fg.jit(scaled),
    "mapped": lambda x: fg.vmap(lambda v: 3 * v)(x),
    "scan": lambda x: fg.lax.scan(lambda c, v: (c + v, 2 * c), 0.0, x)[1],
    "loop": lambda x: fg.lax.fori_loop(0, 3, lambda _, c: A[0] * c, x),
    "branch": lambda x: fg.lax.cond(True, lambda v: 2 * v, lambda v: v, x),
    "gather": lambda x: x[np.array([0, 2, 2])],
    "assignment": lambda x: [y := fg.numpy.zeros(3) + 0 * x, y.__setitem__(0, 2 * x[1]), y][2],
    "spectrum": lambda x: np.fft.fft(x).imag,
    "pullback": lambda x: fg.vjp(np.sin, np.ones(3))[1](x)[0],
    "pushforward": lambda x: fg.jvp(np.sin, (np.ones(3),), (x,))[1],
    "checkpoint": lambda x: fg.checkpoint(scaled)(x),
    "system": lambda x: np.linalg.solve(np.eye(3) * 2, x),
    "rule of the user": own,
    "no memory of the point": lambda x: fg.stop_gradient(A[0]) * x / 3,
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_functions_of_all_kinds_have_transposes(name):
    f = LINEAR[name]
    ct = np.cos(np.arange(np.size(f(np.ones(3)))))
    (found,) = fg.linear_transpose(f, np.ones(3))(ct)
    close(found, [ct @ np.asarray(f(e)) for e in np.eye(3)])


# ---- jacfwd, hessian, hvp -----------------------------------------------------------------------


@pytest.mark.parametrize("in_shape", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("tail", [(), (2,), (2, 2)])
@pytest.mark.parametrize("jacobian", [fg.jacfwd, fg.jacrev])
def test_jacobian_has_out_shape_then_in_shape(in_shape, tail, jacobian):
    x = np.linspace(0.2, 1.4, int(np.prod(in_shape))).reshape(in_shape)
    w = np.arange(1.0, 1.0 + np.prod(tail)).reshape(tail)
    f = lambda x: np.sin(x)[(..., *(None,) * len(tail))] * w
    jac = jacobian(f)(x)
    assert jac.shape == in_shape + tail + in_shape
    close(jac, differences(f, x), rtol=1e-7)


@pytest.mark.parametrize("jacobian", [fg.jacfwd, fg.jacrev, fg.jacobian])
def test_jacobians_of_pytrees_argnums_and_aux(jacobian):
    f = lambda p, x: {"out": p["a"] * x, "pair": (np.sum(p["a"]), x[:2])}
    a, x = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    jac = jacobian(f, argnums=(0, 1))({"a": a}, x)
    close(jac["out"][0]["a"], np.diag(x))
    close(jac["out"][1], np.diag(a))
    close(jac["pair"][0][0]["a"], np.ones(3))
    close(jac["pair"][0][1], np.zeros(3))
    close(jac["pair"][1][1], np.eye(2, 3))
    assert is_numpy(jac["out"][1])
    close(jacobian(f, argnums=-1)({"a": a}, x)["out"], np.diag(a))
    jac, aux = jacobian(lambda x: (x**2, "aux"), has_aux=True)(x)
    close(jac, np.diag(2 * x))
    assert aux == "aux"
    assert is_numpy(jac)
    assert type(jacobian(np.sin)(fg.tensor(x))) is fg.Tensor
    assert type(fg.jacfwd(np.sin)(0.5)) is np.float64


@pytest.mark.parametrize("f", ["identity", "constant", "zero times"])
def test_jacobians_of_identity_and_constants(f):
    f, tangent = FUNCTIONS[f]
    exactly(fg.jacfwd(f)(np.array([1.0, 2.0])), tangent(0, 1) * np.eye(2))
    exactly(fg.jacrev(f)(np.array([1.0, 2.0])), tangent(0, 1) * np.eye(2))


def test_holomorphic_jacobians():
    z = np.array([1 + 2j, -0.5j])
    close(fg.jacfwd(np.sin, holomorphic=True)(z), np.diag(np.cos(z)))
    with pytest.raises(TypeError, match="holomorphic"):
        fg.jacfwd(np.sin)(z)
    with pytest.raises(TypeError, match="holomorphic"):
        fg.jacfwd(np.sin, holomorphic=True)(np.array([1.0]))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SCALAR)
def test_hessian_and_hvp_in_closed_form(name, dtype):
    f, df, ddf = SCALAR[name]
    x, v = np.array([0.7, -0.4, 1.1], dtype), np.array([1.0, 2.0, -3.0], dtype)
    tol = 1e-10 if dtype == "float64" else 1e-4
    h = fg.hessian(f)(x)
    close(h, ddf(x), rtol=tol)
    assert h.dtype == dtype
    g, hv = fg.hvp(f, (x,), (v,))
    close(g, df(x), rtol=tol)
    close(hv, ddf(x) @ v, rtol=tol)
    assert g.dtype == hv.dtype == dtype
    for jacobian in (
        fg.jacrev(fg.jacfwd(f)),
        fg.jacfwd(fg.jacfwd(f)),
        fg.jacrev(fg.jacrev(f)),
        fg.jacfwd(fg.grad(f)),
    ):
        close(jacobian(x), ddf(x), rtol=tol)


@pytest.mark.parametrize("shape", [(), (2, 2), (0,)])
def test_hessian_shapes(shape):
    x = np.linspace(0.1, 1.0, int(np.prod(shape))).reshape(shape)
    h = fg.hessian(lambda x: np.sum(x**3))(x)
    close(h, np.diag(6 * x.ravel()).reshape(shape + shape) if shape else 6 * x)
    assert is_numpy(h)


def test_hessian_of_pytrees_and_argnums():
    f = lambda p, y: np.sum(p["a"] ** 2 * y) * p["b"]
    a, b, y = np.array([1.0, 2.0]), 3.0, np.array([4.0, 5.0])
    h = fg.hessian(f)({"a": a, "b": b}, y)
    close(h["a"]["a"], np.diag(2 * y * b))
    close(h["a"]["b"], 2 * a * y)
    close(h["b"]["a"], 2 * a * y)
    close(h["b"]["b"], 0.0)
    h = fg.hessian(lambda x, y: np.sum(x**2 * y), argnums=(0, 1))(a, y)
    close(h[0][0], np.diag(2 * y))
    close(h[0][1], np.diag(2 * a))
    close(h[1][1], np.zeros((2, 2)))
    h, aux = fg.hessian(lambda x: (x**3, "aux"), has_aux=True)(2.0)
    assert (h, aux) == (12.0, "aux")


@pytest.mark.parametrize("hessian", [fg.hessian, lambda f: fg.jacrev(fg.jacrev(f))])
def test_hessian_of_an_array_valued_function(hessian):
    x = np.array([0.5, 2.0])
    f = lambda x: np.stack([x[0] ** 2 * x[1], np.sin(x[1])])
    close(hessian(f)(x), [[[2 * x[1], 2 * x[0]], [2 * x[0], 0.0]], [[0.0, 0.0], [0.0, -np.sin(x[1])]]])


def test_hvp_of_several_primals_and_pytrees():
    f = lambda p, y: np.sum(p["a"] ** 2 * y)
    a, y, ta, ty = (np.array(v) for v in ([1.0, 2.0], [4.0, 5.0], [0.1, 0.2], [10.0, 20.0]))
    g, hv = fg.hvp(f, ({"a": a}, y), ({"a": ta}, ty))
    close(g[0]["a"], 2 * a * y)
    close(g[1], a**2)
    close(hv[0]["a"], 2 * y * ta + 2 * a * ty)
    close(hv[1], 2 * a * ta)


def test_hvp_forms_no_hessian():
    n = 100_000  # the Hessian would take 80 GB
    x, v = np.linspace(0, 1, n), np.ones(n)
    g, hv = fg.hvp(lambda x: np.sum(np.sin(x)) + np.sum(x) ** 2, (x,), (v,))
    close(g, np.cos(x) + 2 * np.sum(x))
    close(hv, -np.sin(x) + 2.0 * n)


def test_in_place_filling_in_forward_mode():
    def f(x):
        y = fnp.zeros(4)
        y[0] = x[0]
        for i in range(1, 4):
            y[i] = y[i - 1] * x[i % 2]
        return y

    x = np.array([2.0, 3.0])  # y = x0, x0 x1, x0^2 x1, x0^2 x1^2
    expected = [[1.0, 0.0], [3.0, 2.0], [12.0, 4.0], [36.0, 24.0]]
    close(fg.jacfwd(f)(x), expected)
    close(fg.jacrev(f)(x), expected)
    close(fg.hessian(lambda x: f(x)[3])(x), [[18.0, 24.0], [24.0, 8.0]])


# ---- the push over a recording against double reverse of the whole function ----------------------


def double_reverse(f, x, t):
    out, pullback = fg.vjp(f, x)
    _, push = fg.vjp(lambda u: pullback(u)[0], np.ones_like(out))
    return push(t)[0]


WIDE = np.linspace(0.2, 1.4, 12).reshape(4, 3).astype(np.float32)
SINGULAR = np.array([[0.0, 1.0, 4.0], [1.0, 1.0, 0.0]])
IRREGULAR = {
    "broadcast of a smaller operand": lambda x: x[0] * WIDE + 1.0,
    "column times row": lambda x: x[:, :1] * x[0],
    "an operand twice": lambda x: x * x @ x.T,
    "dtypes": lambda x: (x.astype(np.float32) * WIDE[0]) + x,
    "shared parts": lambda x: fnp.concatenate([x, np.exp(x)], axis=1) @ np.ones(6),
    "reductions": lambda x: fnp.max(x, axis=1) + fnp.prod(x, axis=1) * fg.nn.logsumexp(x, axis=1),
    "writes": lambda x: written(x),
    "gathers": lambda x: x[[1, 1, 0]] * x[0, [2, 2, 1]],
    "scan": lambda x: fnp.cumprod(x, axis=1),
    "choice": lambda x: np.where(x > 1, x**2, -x),
    "complex inside": lambda x: np.abs(x + 1j * np.sin(x)) + np.real(np.exp(1j * x)),
    "a rule of its own": lambda x: doubled(x) * x,
    "constant": lambda x: fnp.zeros(3) + 2.0,
}


def written(x):
    y = fnp.zeros((2, 3))
    y[0] = x[1] ** 2
    y[1, ::2] = y[0, :2] * x[0, 1]
    return y


@fg.custom_vjp
def doubled(x):
    return 2.0 * x


doubled.defvjp(lambda x: (2.0 * x, None), lambda _, ct: (2.0 * ct,))


@pytest.mark.parametrize("point", ["regular", "singular"])
@pytest.mark.parametrize("name", IRREGULAR)
def test_push_is_double_reverse(name, point):
    f = IRREGULAR[name]
    x = SINGULAR if point == "singular" else RNG.uniform(0.5, 2.0, (2, 3))
    t = RNG.normal(size=x.shape)
    out, tangent = fg.jvp(f, (x,), (t,))
    expected = double_reverse(f, x, t)
    assert (tangent.shape, tangent.dtype) == (np.shape(out), expected.dtype)
    close(tangent, expected)
    _, linear = fg.linearize(f, x)
    close(linear(t), expected)
    basis = np.eye(6).reshape(6, 2, 3)
    columns = np.stack([double_reverse(f, x, e) for e in basis], axis=-1)
    close(fg.jacfwd(f)(x), columns.reshape(*np.shape(out), 2, 3))
    close(fg.grad(lambda x: np.sum(fg.jvp(f, (x,), (t,))[1]))(x), transposed_second(f, x, t))


def transposed_second(f, x, t):
    return fg.grad(lambda x: np.sum(double_reverse(f, x, t)))(x)


def test_push_records_only_what_has_no_known_transpose(monkeypatch):
    recorded = []
    record = pushforward._recorded_step
    monkeypatch.setattr(pushforward, "_recorded_step", lambda *args: recorded.append(args) or record(*args))
    w = RNG.normal(size=(3, 4))
    fg.jvp(
        lambda x: np.mean(fg.nn.logsumexp(np.tanh(x @ w + 1.0), axis=1) - x[[0, 1], [1, 2]]),
        (SINGULAR,),
        (SINGULAR,),
    )
    assert not recorded
    fg.jvp(lambda x: fnp.concatenate([x * 1j, fnp.stack([x[1], [1, 1, 1]])]) ** 2, (SINGULAR,), (SINGULAR,))
    assert not recorded
    fg.jvp(lambda x: fnp.cumprod(x, axis=1), (SINGULAR,), (SINGULAR,))
    assert len(recorded) == 1
