"""Rules of the user: custom_vjp, custom_jvp and stop_gradient."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.helpers import close, exactly, is_numpy

import fgrad as fg

X = np.array([0.3, -0.7, 1.2])


def tripled():
    """Return x^2 with the wrong but recognisable derivative 3x, and a log of what ran."""
    log = []

    @fg.custom_vjp
    def f(x):
        log.append("f")
        return x * x

    def fwd(x):
        log.append("fwd")
        return x * x, x

    def bwd(x, ct):
        log.append("bwd")
        return (3 * x * ct,)

    f.defvjp(fwd, bwd)
    return f, log


def exact_sine():
    """Return sin with the right rule, whose residual is cos(x), and no rule below it to lean on."""

    @fg.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (np.sin(x), np.cos(x)), lambda c, ct: (c * ct,))
    return f


def forward_sine():
    """Return sin with a rule for tangents."""

    @fg.custom_jvp
    def f(x):
        return np.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), np.cos(x) * t

    return f


SINES = {"custom_vjp": exact_sine, "custom_jvp": forward_sine}


# ---- custom_vjp ---------------------------------------------------------------------------------


def test_the_rule_replaces_the_derivative():
    f, log = tripled()
    close(fg.grad(f)(2.0), 6.0)
    value, g = fg.value_and_grad(lambda x: np.sum(f(x)) + x[0])(X)
    close(value, np.sum(X**2) + X[0])
    close(g, 3 * X + [1.0, 0.0, 0.0])
    assert "f" not in log


def test_without_differentiation_the_function_itself_runs():
    f, log = tripled()
    result = f(np.array([2.0, 3.0]))
    close(result, [4.0, 9.0])
    assert log == ["f"]
    assert type(f(fg.tensor(2.0))) is fg.Tensor
    fg.grad(lambda x: x * np.sum(f(np.ones(2))))(1.0)
    assert set(log) == {"f"}


def test_the_rule_holds_in_every_transformation():
    f, _ = tripled()
    total = lambda x: np.sum(f(x))
    close(fg.vjp(f, X)[1](np.array([1.0, 0.0, 2.0]))[0], 3 * X * [1.0, 0.0, 2.0])
    close(fg.jacrev(f)(X), np.diag(3 * X))
    close(fg.elementwise_grad(f)(X), 3 * X)
    close(fg.jvp(f, (X,), (np.ones(3),))[1], 3 * X)
    close(fg.jacfwd(f)(X), np.diag(3 * X))
    t, gm = fg.tensor(X), fg.GradManager()
    with gm.attach(t):
        gm.backward(total(t))
    close(t.grad, 3 * X)
    close(fg.vmap(fg.grad(f))(X), 3 * X)
    close(fg.grad(lambda x: np.sum(fg.vmap(f)(x)))(X), 3 * X)


def test_the_second_derivative_is_that_of_the_rule():
    f, _ = tripled()
    close(fg.grad(fg.grad(f))(2.0), 3.0)
    close(fg.hessian(lambda x: np.sum(f(x)))(X), 3 * np.eye(3))
    close(fg.jvp(fg.grad(f), (2.0,), (5.0,)), (6.0, 15.0))


@pytest.mark.parametrize("make", SINES.values(), ids=SINES)
def test_right_rules_are_right_to_third_order(make):
    f = make()
    d1, d2 = fg.grad(f), fg.grad(fg.grad(f))
    close(
        [f(0.4), d1(0.4), d2(0.4), fg.grad(d2)(0.4)], [np.sin(0.4), np.cos(0.4), -np.sin(0.4), -np.cos(0.4)]
    )
    close(fg.jvp(d1, (0.4,), (2.0,))[1], -2 * np.sin(0.4))
    close(fg.grad(lambda x: fg.jvp(f, (x,), (x,))[1])(0.4), np.cos(0.4) - 0.4 * np.sin(0.4))
    close(fg.hessian(lambda x: np.sum(f(x) * x))(X), np.diag(2 * np.cos(X) - X * np.sin(X)))
    close(fg.jacfwd(fg.jacfwd(fg.jacrev(f)))(0.4), -np.cos(0.4))
    value_times_slope = lambda x: f(x) * fg.grad(f)(x)
    close(fg.grad(value_times_slope)(0.4), np.cos(0.8))


@pytest.mark.parametrize("make", SINES.values(), ids=SINES)
def test_rules_compose_with_vmap(make):
    f = make()
    x = np.linspace(0, 1, 6).reshape(2, 3)
    close(fg.vmap(f)(x), np.sin(x))
    close(fg.vmap(fg.vmap(f))(x), np.sin(x))
    close(fg.vmap(fg.vmap(fg.grad(f)))(x), np.cos(x))
    close(fg.vmap(fg.vmap(fg.grad(fg.grad(f))))(x), -np.sin(x))
    close(fg.grad(lambda x: np.sum(fg.vmap(f)(x) ** 2))(x), 2 * np.sin(x) * np.cos(x))
    close(fg.vmap(lambda x: fg.jvp(f, (x,), (x,))[1])(x), x * np.cos(x))
    close(fg.vmap(lambda x, y: f(x) * y, in_axes=(1, None), out_axes=1)(x, np.ones(2)), np.sin(x))


def test_a_rule_may_itself_use_transformations():
    @fg.custom_vjp
    def f(x):
        return np.sum(fg.vmap(np.sin)(x))

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (fg.grad(lambda x: np.sum(np.sin(x)))(x) * ct,))
    close(fg.grad(f)(X), np.cos(X))
    close(fg.hessian(f)(X), np.diag(-np.sin(X)))


@pytest.mark.parametrize("nondiff_argnums", [(0,), (2,), (0, 2), (-1,)], ids=str)
def test_nondiff_argnums(nondiff_argnums):
    nondiff = sorted(n % 3 for n in nondiff_argnums)
    args = (np.negative if 0 in nondiff else 4.0, np.array([1.0, 2.0]), "static" if 2 in nondiff else 5.0)
    call = lambda g, x: g(x) if callable(g) else g * x
    seen = []

    @functools.partial(fg.custom_vjp, nondiff_argnums=nondiff_argnums)
    def f(g, x, tag):
        return call(g, x)

    def fwd(g, x, tag):
        return call(g, x), "residual"

    def bwd(*static_res_ct):
        *static, res, ct = static_res_ct
        seen.append((*static, res))
        cts = (100.0, 7 * ct, 200.0)
        return tuple(cts[n] for n in range(3) if n not in nondiff)

    f.defvjp(fwd, bwd)
    out, pullback = fg.vjp(lambda x: f(args[0], x, args[2]), args[1])
    close(out, call(args[0], args[1]))
    close(pullback(np.array([1.0, 10.0]))[0], [7.0, 70.0])
    assert seen == [(*(args[n] for n in nondiff), "residual")]


def test_custom_vjp_of_pytrees_and_keywords():
    @fg.custom_vjp
    def f(p, x=2.0):
        return {"out": p["w"] * x, "sum": p["w"] + x}

    def fwd(p, x=2.0):
        return f(p, x), {"saved": (p["w"], x), "note": "static", "none": None}

    def bwd(res, ct):
        w, x = res["saved"]
        assert (res["note"], res["none"]) == ("static", None)
        return {"w": 10 * (ct["out"] * x + ct["sum"])}, 100 * np.sum(ct["out"] * w + ct["sum"])

    f.defvjp(fwd, bwd)
    loss = lambda p, x: np.sum(f(p, x=x)["out"])
    w = np.array([1.0, 2.0])
    gp, gx = fg.grad(loss, argnums=(0, 1))({"w": w}, 3.0)
    close(gp["w"], [30.0, 30.0])
    close(gx, 300.0)
    close(fg.grad(lambda p: np.sum(f(p)["sum"]))({"w": w})["w"], [10.0, 10.0])
    assert is_numpy(f({"w": w})["out"]) or type(f({"w": w})["out"]) is fg.Tensor


def test_none_from_a_rule_is_no_gradient():
    @fg.custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(lambda x, y: (x * y, y), lambda y, ct: (ct * y, None))
    gx, gy = fg.grad(f, argnums=(0, 1))(2.0, 3.0)
    assert (gx, gy) == (3.0, 0.0)


def test_gradient_reversal_and_clipping():
    @fg.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, ct: (np.clip(ct, -1.0, 1.0),))
    exactly(fg.grad(lambda x: np.sum(clipped(x) * np.array([5.0, 0.5, -7.0])))(X), np.array([1.0, 0.5, -1.0]))


def test_logarithm_of_one_plus_exp_stays_finite():
    @fg.custom_vjp
    def log1pexp(x):
        return np.log1p(np.exp(x))

    log1pexp.defvjp(
        lambda x: (np.log1p(np.exp(x)), x),
        lambda x, ct: (ct / (1 + np.exp(-x)),),
    )
    with np.errstate(over="ignore"):
        close(fg.grad(log1pexp)(1000.0), 1.0)
    close(fg.grad(fg.grad(log1pexp))(0.0), 0.25)


def test_numbers_that_a_rule_returns_stay_numbers():
    class Twice(fg.Function):
        def forward(self, x):
            return 2 * x.numpy()[()]

        def backward(self, ct):
            return ct.numpy()[()] * 2

    def f(x):
        y = before = Twice()(x)
        y += 1.0
        assert y is not before
        return before * y

    assert fg.grad(f)(1.0) == 10.0


def test_a_rule_with_one_output_is_one_step():
    cube = fg.custom_vjp(lambda x: x**3)
    cube.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x**2 * ct,))
    x = fg.tensor(2.0)
    gm = fg.GradManager().attach(x)
    with gm:
        y = cube(x)
        assert len(gm.recording_tape().live()) == 2  # with the leaf
        gm.backward(y)
    assert x.grad == 12.0


def test_several_levels_each_use_the_rule():
    f, _ = tripled()

    def outer(x):
        return fg.grad(lambda y: f(y) * f(x))(x)  # 3x * x^2: the outer level sees the residual x and f(x)

    close(outer(2.0), 24.0)
    # d/dx [3 x f(x)] = 3 f(x) + 3 x * 3x
    close(fg.grad(outer)(2.0), 3 * 4.0 + 9 * 4.0)


def test_wrapped_functions_keep_their_name_and_docstring():
    @fg.custom_vjp
    def named(x):
        """Say what it is."""
        return x

    assert named.__name__ == "named"
    assert named.__doc__ == "Say what it is."


# ---- custom_jvp ---------------------------------------------------------------------------------


def test_tangent_rule_serves_forward_and_reverse():
    @fg.custom_jvp
    def f(x, y):
        return np.sin(x) * y

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (tx, ty) = primals, tangents
        return f(x, y), 2 * np.cos(x) * y * tx + 5 * np.sin(x) * ty  # wrong on purpose: 2 and 5

    y = np.array([2.0, 3.0, 4.0])
    t = np.array([1.0, 0.0, -1.0])
    close(fg.jvp(f, (X, y), (t, 0 * t))[1], 2 * np.cos(X) * y * t)
    close(fg.jvp(f, (X, y), (0 * t, t))[1], 5 * np.sin(X) * t)
    gx, gy = fg.grad(lambda x, y: np.sum(f(x, y)), argnums=(0, 1))(X, y)
    close(gx, 2 * np.cos(X) * y)
    close(gy, 5 * np.sin(X))
    close(fg.grad(lambda x: np.sum(f(x, y)))(X), 2 * np.cos(X) * y)
    close(fg.jacfwd(f)(X, y), np.diag(2 * np.cos(X) * y))
    close(fg.jacrev(f)(X, y), np.diag(2 * np.cos(X) * y))


def test_linear_but_not_elementwise_tangent_rules_are_transposed():
    a = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    @fg.custom_jvp
    def f(x):
        return np.zeros(2) * np.sum(x)

    f.defjvp(lambda primals, tangents: (f(*primals), a @ tangents[0] + np.sum(tangents[0])))
    close(fg.jacrev(f)(X), a + 1)
    close(fg.jacfwd(f)(X), a + 1)
    close(fg.vjp(f, X)[1](np.array([1.0, 10.0]))[0], (a + 1).T @ [1.0, 10.0])


def test_defjvps_has_one_rule_per_argument():
    @fg.custom_jvp
    def f(x, y, z):
        return x * y * z

    f.defjvps(lambda t, out, x, y, z: 2 * t * y * z, None, lambda t, out, x, y, z: t * out)
    close(fg.grad(f, argnums=(0, 1, 2))(2.0, 3.0, 4.0), (24.0, 0.0, 24.0))
    close(fg.jvp(f, (2.0, 3.0, 4.0), (1.0, 1.0, 1.0)), (24.0, 48.0))


def test_second_order_of_a_tangent_rule():
    @fg.custom_jvp
    def f(x):
        return x**2

    f.defjvps(lambda t, out, x: 3 * x * t)
    close(fg.grad(fg.grad(f))(2.0), 3.0)
    close(fg.jvp(lambda x: fg.jvp(f, (x,), (1.0,))[1], (2.0,), (1.0,))[1], 3.0)
    close(fg.hessian(lambda x: np.sum(f(x)))(X), 3 * np.eye(3))


def by_rule(f, rule):
    """Return a function with a forward rule of one tangent."""
    f = fg.custom_jvp(f)
    f.defjvp(lambda primals, tangents: rule(f, *primals, *tangents))
    return f


def test_a_forward_rule_may_apply_the_function_to_tangents():
    double = by_rule(lambda x: 2 * x, lambda f, x, t: (f(x), f(t)))

    def squared(x):
        return double(x) ** 2

    assert fg.jvp(double, (1.0,), (3.0,)) == (2.0, 6.0)
    assert fg.grad(squared)(3.0) == fg.jit(fg.grad(squared))(3.0) == 24.0
    assert fg.grad(fg.grad(squared))(3.0) == 8.0
    close(fg.vmap(fg.grad(squared))(X), 8 * X)
    assert fg.linear_transpose(double, 1.0)(1.0) == (2.0,)


def test_a_forward_rule_may_apply_the_function_to_primals():
    cube = by_rule(lambda x: x**3, lambda f, x, t: (f(x), 3 * x**2 * t))
    assert fg.grad(fg.grad(fg.grad(cube)))(1.7) == pytest.approx(6.0)
    close(fg.jit(fg.vmap(fg.grad(fg.grad(cube))))(X), 6 * X)


@pytest.mark.parametrize(
    ("tangent", "message"),
    [
        (lambda x, t: t**2, "applies square to tangents, in which it has to be linear"),
        (lambda x, t: 3 * x**2, "returns a tangent that does not depend on those of the operands"),
    ],
)
def test_forward_rules_are_linear_in_tangents(tangent, message):
    f = by_rule(lambda x: x**3, lambda f, x, t: (f(x), tangent(x, t)))
    mapped = lambda x: fg.vmap(fg.grad(f))(x * X)
    for derivative in (fg.grad(f), fg.jit(fg.grad(f)), mapped, lambda x: fg.jvp(f, (x,), (1.0,))):
        with pytest.raises(TypeError, match=message):
            derivative(1.0)


def test_a_forward_rule_may_say_that_there_is_no_slope():
    f = by_rule(np.floor, lambda f, x, t: (f(x), np.zeros_like(x)))
    product = lambda x: f(x) * x
    assert fg.grad(product)(2.5) == fg.jit(fg.grad(product))(2.5) == 2.0
    close(fg.vmap(fg.grad(product))(X), np.floor(X))


def test_custom_jvp_of_pytrees():
    @fg.custom_jvp
    def f(p):
        return {"y": p["a"] * p["b"]}

    @f.defjvp
    def rule(primals, tangents):
        (p,), (t,) = primals, tangents
        return f(p), {"y": 10 * (t["a"] * p["b"] + p["a"] * t["b"])}

    p = {"a": np.array([1.0, 2.0]), "b": 3.0}
    g = fg.grad(lambda p: np.sum(f(p)["y"]))(p)
    close(g["a"], [30.0, 30.0])
    close(g["b"], 30.0)
    close(fg.jvp(f, (p,), ({"a": np.ones(2), "b": 0.0},))[1]["y"], [30.0, 30.0])


# ---- stop_gradient --------------------------------------------------------------------------------


def stop_by_detach(x):
    return x.detach()


@pytest.mark.parametrize("stop", [fg.stop_gradient, stop_by_detach])
def test_stopped_at_every_level(stop):
    f = lambda x: stop(x) * x
    close(fg.value_and_grad(f)(3.0), (9.0, 3.0))
    close(fg.grad(fg.grad(f))(3.0), 0.0)
    close(fg.jvp(f, (3.0,), (1.0,)), (9.0, 3.0))
    close(fg.jacfwd(f)(X), np.diag(X))
    close(fg.hessian(lambda x: np.sum(f(x) * x))(X), np.diag(2 * X))
    close(fg.vmap(fg.grad(f))(X), X)
    close(fg.grad(lambda x: np.sum(fg.vmap(f)(x)))(X), X)
    close(fg.grad(lambda x: fg.grad(lambda y: stop(x) * y * x)(x))(3.0), 3.0)
    close(fg.grad(lambda x: fg.grad(lambda y: stop(y * x) * y)(x))(3.0), 0.0)
    t, gm = fg.tensor(X), fg.GradManager()
    with gm.attach(t):
        gm.backward(f(t))
    close(t.grad, X)


def test_stop_gradient_of_pytrees_arrays_and_numbers():
    f = lambda p: np.sum(fg.stop_gradient(p)["a"] * p["a"]) + fg.stop_gradient(p)["b"]
    g = fg.grad(f)({"a": X, "b": 2.0})
    close(g["a"], X)
    close(g["b"], 0.0)
    close(fg.stop_gradient(X), X)
    close(fg.stop_gradient(2.0), 2.0)
    assert fg.stop_gradient({"name": "relu", "none": None}) == {"name": "relu", "none": None}


def test_straight_through_rounding():
    f = lambda x: x + fg.stop_gradient(np.round(x) - x)
    value, g = fg.value_and_grad(lambda x: np.sum(f(x) ** 2))(X)
    close(value, np.sum(np.round(X) ** 2))
    close(g, 2 * np.round(X))


def test_stop_gradient_keeps_the_value_apart():
    def f(x):
        y = fg.stop_gradient(x)
        y += 100.0
        return np.sum(x * y)

    close(fg.grad(f)(X), X + 100.0)


# ---- forward mode transposes backward rules, so they have to be linear -----------------------------

NOT_LINEAR = {
    "clipped": lambda ct: np.clip(ct, -1.0, 1.0),
    "squared": lambda ct: ct * ct,
    "normalized": lambda ct: ct / np.linalg.norm(ct),
    "by sign": np.sign,
    "where": lambda ct: np.where(ct > 0, ct, 0.0),
    "through sin": np.sin,
}


def ruled(backward):
    f = fg.custom_vjp(lambda x: 2.0 * x)
    f.defvjp(lambda x: (2.0 * x, x), lambda x, ct: (backward(ct),))
    return f


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_forward_mode_refuses_a_backward_rule_that_is_not_linear(name):
    f, x = ruled(NOT_LINEAR[name]), np.array([1.0, -2.0])
    close(fg.vjp(f, x)[1](np.array([3.0, -4.0]))[0], NOT_LINEAR[name](np.array([3.0, -4.0])))
    for forward in (lambda: fg.jvp(f, (x,), (x,)), lambda: fg.linearize(f, x)[1](x), lambda: fg.jacfwd(f)(x)):
        with pytest.raises(TypeError, match=r"linear.*custom_jvp"):
            forward()
    close(fg.grad(lambda x: np.sum(x))(x), [1.0, 1.0])


def test_linearize_asks_a_backward_rule_only_for_the_tangents():
    def refused(ct):
        raise RuntimeError("is not differentiated")

    f, x = ruled(refused), np.array([1.0, -2.0])
    out, push = fg.linearize(f, x)
    close(out, [2.0, -4.0])
    with pytest.raises(RuntimeError, match="is not differentiated"):
        push(x)


@pytest.mark.parametrize(
    "backward", [lambda ct: 3.0 * ct, lambda ct: ct[::-1] + np.sum(ct), lambda ct: -ct / 7.0]
)
def test_forward_mode_transposes_a_linear_backward_rule(backward):
    f, x, t = ruled(backward), np.array([1.0, -2.0]), np.array([0.3, 0.5])
    matrix = np.stack([backward(e) for e in np.eye(2)], axis=1)  # J^T as the rule has it
    close(fg.jvp(f, (x,), (t,))[1], matrix.T @ t)


def test_custom_vjp_of_a_ufunc():
    f = fg.custom_vjp(np.sin)
    f.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (10.0 * ct * np.cos(x),))
    close(fg.grad(f)(1.0), 10.0 * np.cos(1.0))
    close(f(1.0), np.sin(1.0))


def negated(x):
    """Change the sign in place."""
    x *= -1.0
    return x


def by_vjp(f):
    rule = fg.custom_vjp(f)
    rule.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return rule


def by_jvp(f):
    rule = fg.custom_jvp(f)
    rule.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return rule


def by_function(f):
    class Ruled(fg.Function):
        def forward(self, x):
            return f(x)

        def backward(self, ct):
            return ct

    return Ruled()


@pytest.mark.parametrize("rule", [by_vjp, by_jvp, by_function])
@pytest.mark.parametrize("f", [negated, lambda x: x], ids=["writes", "identity"])
@pytest.mark.parametrize(
    "run",
    [
        lambda f, x: f(x),
        lambda f, x: f(fg.tensor(x)),
        lambda f, x: fg.jit(f)(x),
        lambda f, x: fg.vjp(f, x)[0],
        lambda f, x: fg.jvp(f, (x,), (x,))[0],
        lambda f, x: fg.vmap(f)(x),
    ],
    ids=["arrays", "tensors", "jit", "vjp", "jvp", "vmap"],
)
def test_a_function_with_a_rule_writes_to_nothing_of_its_caller(rule, f, run):
    ruled, x = rule(f), X.copy()

    def with_argument(x):
        y = ruled(x)
        y += 1.0
        return y, x * 1.0

    y, kept = run(with_argument, x)
    exactly(y, f(X.copy()) + 1.0)
    exactly(kept, X)
    exactly(x, X)


def test_rules_may_write_to_residuals_and_cotangents():
    def bwd(cosine, ct):
        cosine *= ct
        ct *= 0.0
        return (cosine,)

    sine = fg.custom_vjp(np.sin)
    sine.defvjp(lambda x: (np.sin(x), np.cos(x)), bwd)
    _, pullback = fg.vjp(sine, X)
    for _ in range(2):
        ct = np.array([2.0, 3.0, 4.0])
        close(pullback(ct)[0], np.cos(X) * [2.0, 3.0, 4.0])
        exactly(ct, [2.0, 3.0, 4.0])
    close(fg.jacrev(sine)(X), np.diag(np.cos(X)))


def test_rules_may_write_to_primals_and_tangents():
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        y = np.sin(x)
        t *= np.cos(x)
        x *= 0.0
        return y, t

    sine = fg.custom_jvp(np.sin)
    sine.defjvp(rule)
    _, pullback = fg.vjp(sine, X)
    for _ in range(2):
        close(pullback(np.ones(3))[0], np.cos(X))
    tangent = np.ones(3)
    close(fg.jvp(sine, (X,), (tangent,))[1], np.cos(X))
    exactly(tangent, np.ones(3))


def with_rules(w):
    """Return functions with rules of their own that use an array from outside, all x w."""
    by_vjp, by_closure = fg.custom_vjp(lambda x, w: x * w), fg.custom_vjp(lambda x: x * w)
    by_vjp.defvjp(lambda x, w: (x * w, (x, w)), lambda kept, ct: (ct * kept[1], ct * kept[0]))
    by_closure.defvjp(lambda x: (x * w, w), lambda w, ct: (ct * w,))
    by_jvp = fg.custom_jvp(lambda x, w: x * w)
    by_jvp.defjvp(lambda primals, tangents: (primals[0] * primals[1], tangents[0] * primals[1]))
    return {"vjp": lambda x: by_vjp(x, w), "residuals": by_closure, "jvp": lambda x: by_jvp(x, w)}


@pytest.mark.parametrize("kind", [np.array, fg.tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("name", with_rules(X))
def test_what_is_written_to_after_a_call_has_no_part_in_its_derivative(name, kind):
    w = kind(np.arange(1.0, 4.0))
    f = with_rules(w)[name]
    _, pullback = fg.vjp(f, X)
    _, mapped = fg.vjp(fg.vmap(lambda x: f(x)), np.stack([X, X]))
    w[:] = 100.0
    exactly(pullback(np.ones(3))[0], np.arange(1.0, 4.0))
    exactly(mapped(np.ones((2, 3)))[0], np.stack([np.arange(1.0, 4.0)] * 2))


@pytest.mark.parametrize("in_gradient", [False, True])
def test_functions_may_use_mapped_values_of_their_closure(in_gradient):
    """Vmap alone asks for no rule, and a gradient inside of it asks for its own."""

    def example(x, y):
        scaled = fg.custom_vjp(lambda v: v * y)
        scaled.defvjp(lambda v: (v * y, None), lambda _, ct: (ct * 10 * y,))
        return (fg.grad(lambda v: scaled(v).sum()) if in_gradient else scaled)(x)

    x, y = np.arange(6.0).reshape(3, 2), np.array([1.0, -2.0, 3.0])
    expected = np.repeat(10 * y, 2).reshape(3, 2) if in_gradient else x * y[:, None]
    np.testing.assert_array_equal(fg.vmap(example)(x, y), expected)
    if not in_gradient:
        np.testing.assert_array_equal(fg.jit(fg.vmap(example))(x, y), expected)
        twice = fg.vmap(fg.vmap(example, (0, None)))
        np.testing.assert_array_equal(fg.jit(twice)(x, y), expected)
        followed = lambda y: fg.jit(lambda x: fg.grad(lambda y: fg.vmap(example)(x, y).sum())(y))(x)
        with pytest.raises(fg.EscapedTensorError):  # never a derivative without the part of the closure
            followed(y)


# ---- what the functions of a rule read from outside


def scaled(x, y):
    f = fg.custom_vjp(lambda v: v * y)
    f.defvjp(lambda v: (v * y, y), lambda y, ct: (ct * y,))
    return f(x)


def pushed(x, y):
    f = fg.custom_jvp(lambda v: v * y)
    f.defjvp(lambda primals, tangents: (primals[0] * y, tangents[0] * y))
    return f(x)


V = np.array([1.0, -2.0, 3.0])
FOLLOWED_FROM_OUTSIDE = {
    "alone": lambda f, y: fg.grad(lambda y: f(V, y).sum())(y),
    "by the outer one of two": lambda f, y: fg.grad(
        lambda y: fg.value_and_grad(lambda x: f(x, y).sum())(V)[0]
    )(y),
    "mixed": lambda f, y: fg.grad(lambda y: fg.grad(lambda x: (f(x, y) ** 2).sum())(V).sum())(y),
    "along": lambda f, y: fg.jvp(lambda y: fg.grad(lambda x: (f(x, y) ** 2).sum())(V).sum(), (y,), (1.0,))[1],
    "of jvp": lambda f, y: fg.grad(lambda y: fg.jvp(lambda x: (f(x, y) ** 2).sum(), (V,), (V + 1,))[1])(y),
    "in a vmap": lambda f, y: fg.vmap(lambda x: fg.grad(lambda y: f(x, y))(y))(V),
    "in a vmap, by the outer one": lambda f, y: fg.vmap(
        lambda x: fg.grad(lambda y: fg.value_and_grad(lambda x: f(x, y))(x)[0])(y)
    )(V),
    "of examples": lambda f, y: fg.vmap(fg.grad(lambda y, x: fg.grad(lambda x: f(x, y) ** 2)(x)))(y * V, V),
    "mapped": lambda f, y: fg.grad(
        lambda y: fg.vmap(fg.grad(lambda x: f(x, y) ** 2))(V).sum()
    )(y),
}  # fmt: skip


@pytest.mark.parametrize("f", [scaled, pushed])
@pytest.mark.parametrize("name", FOLLOWED_FROM_OUTSIDE)
def test_what_another_tape_follows_outside_has_its_derivative(name, f):
    derivative = FOLLOWED_FROM_OUTSIDE[name]
    np.testing.assert_allclose(derivative(f, 3.0), derivative(lambda x, y: x * y, 3.0), rtol=1e-12)


@pytest.mark.parametrize("f", [scaled, pushed])
@pytest.mark.parametrize(
    "call",
    [
        lambda f: fg.grad(lambda y: f(V * y, y).sum())(3.0),
        lambda f: fg.hessian(lambda y: f(V * y, y).sum())(3.0),
        lambda f: fg.grad(lambda y: fg.vmap(lambda x: f(x * y, y))(V).sum())(3.0),
        lambda f: fg.jit(fg.grad(lambda y: f(V * y, y).sum()))(3.0),
        lambda f: fg.jit(fg.grad(lambda y, x: f(x, y).sum()))(3.0, V),
        lambda f: fg.jit(lambda x: fg.grad(lambda y: f(x, y).sum())(3.0))(V),
        lambda f: fg.jit(fg.vmap(lambda x: fg.grad(lambda y: f(x, y))(3.0)))(V),
    ],
)
def test_what_the_same_tape_follows_outside_is_refused(call, f):
    """A rule has no derivative of it, and its part must not be lost."""
    with pytest.raises(TypeError, match="from outside, of which its rule gives no derivative"):
        call(f)
    still = lambda x, y: f(x, fg.stop_gradient(y))
    np.testing.assert_allclose(call(still), call(lambda x, y: x * fg.stop_gradient(y)), rtol=1e-12)


# ---- rules inside of rules


def inner_rule(factor):
    """Return sin with the rule ct cos(y) times a factor from outside."""
    inner = fg.custom_vjp(lambda y: np.sin(y))
    inner.defvjp(lambda y: (np.sin(y), y), lambda y, ct: (ct * np.cos(y) * factor,))
    return inner


def made_in_primal():
    outer = fg.custom_vjp(lambda x: inner_rule(x)(x) * x)
    outer.defvjp(lambda x: (outer(x), x), lambda x, ct: (ct * 3.0 * x,))
    return outer


def pulled_in_forward():
    def forward(x):
        out, pull = fg.vjp(inner_rule(x), x)
        return out, pull(1.0)[0]

    outer = fg.custom_vjp(lambda x: x)
    outer.defvjp(forward, lambda slope, ct: (ct * slope,))
    return outer


def pulled_in_backward():
    outer = fg.custom_vjp(np.sin)
    outer.defvjp(lambda x: fg.vjp(inner_rule(x), x), lambda pull, ct: pull(ct))
    return outer


def made_in_backward():
    outer = fg.custom_vjp(np.sin)
    outer.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (ct * fg.grad(inner_rule(x))(x),))
    return outer


NESTED = {  # slope, and slope of the slope
    made_in_primal: (lambda x: 3 * x, lambda x: 3.0),
    pulled_in_forward: (lambda x: x * np.cos(x), lambda x: np.cos(x) - x * np.sin(x)),
    pulled_in_backward: (lambda x: x * np.cos(x), lambda x: np.cos(x) - x * np.sin(x)),
    made_in_backward: (lambda x: x * np.cos(x), lambda x: np.cos(x) - x * np.sin(x)),
}


@pytest.mark.parametrize("make", NESTED)
def test_rules_inside_of_rules_may_read_what_the_outer_ones_have(make):
    """As in JAX."""
    f, (slope, second) = make(), NESTED[make]
    xs = np.array([0.3, 0.7])
    g = fg.grad(f)
    close(g(0.5), slope(0.5))
    close(fg.jit(g)(0.5), slope(0.5))
    close(fg.grad(fg.jit(f))(0.5), slope(0.5))
    close(fg.vmap(g)(xs), slope(xs))
    close(fg.grad(lambda x: fg.vmap(f)(x).sum())(xs), slope(xs))
    close(fg.grad(g)(0.5), second(0.5))
    close(fg.grad(fg.grad(fg.jit(f)))(0.5), second(0.5))
    close(fg.vmap(fg.grad(g))(xs), second(xs) * np.ones(2))
    close(fg.jvp(g, (0.5,), (1.0,))[1], second(0.5))


def test_an_error_says_that_a_backward_rule_reads_what_is_gone():
    with pytest.raises(fg.EscapedTensorError, match=r"backward rule of .*lambda.* argument.* forward rule"):
        fg.grad(lambda x: fg.vmap(lambda x: inner_rule(x)(2.0 * x))(x).sum())(np.ones(2))
