"""Transformations nested in each other in every order, against nested central differences.

The oracle computes with mpmath numbers of 160 digits and steps of 1e-16, so that even five nested
differences are right to 30 digits; it knows nothing of traces, tapes or rules. Each transformation is
written twice, for fgrad and for the oracle, as a map from functions of a vector of two to functions of a
vector of two, so any of them can be nested.
"""

from __future__ import annotations

import itertools
import random
import warnings

import mpmath
import numpy as np
import pytest
from tests.helpers import close, grouped, plain

import fgrad as fg

MP = mpmath.MPContext()
MP.dps = 160
STEP = MP.mpf(10) ** -16
X = np.array([0.6, -0.35])
A = np.array([[0.5, -1.0], [0.25, 0.75]])

_mp = {name: np.frompyfunc(getattr(MP, name), 1, 1) for name in ("sin", "exp", "tanh")}


def is_slow(x):
    return isinstance(x, MP.mpf) or (isinstance(x, np.ndarray) and x.dtype.kind == "O")


def elementary(name):
    """Return a function that takes what NumPy's ufunc takes, and arrays of mpmath numbers."""
    return lambda x: _mp[name](x) if is_slow(x) else getattr(np, name)(x)


sin, exp, tanh = elementary("sin"), elementary("exp"), elementary("tanh")


@fg.custom_vjp
def ruled_sin(x):
    return np.sin(x)


@fg.custom_jvp
def ruled_exp(x):
    return np.exp(x)


class Cube(fg.Function):
    """A cube with a rule that keeps its argument."""

    def forward(self, x):
        self.x = x
        return x * x * x

    def backward(self, ct):
        return 3 * self.x * self.x * ct


ruled_sin.defvjp(lambda x: (np.sin(x), np.cos(x)), lambda cosine, ct: (cosine * ct,))
ruled_exp.defjvps(lambda t, out, x: out * t)


def ruled(x):
    """Return sin(x) x^3 exp(x), each factor by a rule of the user where fgrad computes it."""
    if is_slow(x):
        return sin(x) * x * x * x * exp(x)
    return ruled_sin(x) * Cube()(x) * ruled_exp(x)


BASES = {
    "elementwise": lambda x: sin(x) * exp(x / 2),
    "contraction": lambda x: tanh(A @ x) * np.sum(x * x),
    "linear": lambda x: x[0] * np.concatenate([x[::-1], 2 * x * x]) + np.sum(sin(x[None, :] * A), axis=0)[1],
    "scalar": lambda x: np.sum(x**3) * x[1] / (2 + x[0]),
    "ruled": ruled,
}


def weights(out):
    """Return a constant cotangent of the shape of `out` without symmetries."""
    shape = np.shape(out)
    return 1.0 + 0.5 * np.cos(np.arange(1.0, 1.0 + np.prod(shape, dtype=int))).reshape(shape)


def cotangent(x, out):
    """Return a cotangent that depends on the primal, which a confused tape would take for part of `out`."""
    return weights(out) * (1.0 + x[0] * x[0])


def tangent(x):
    return 1.0 + 0.5 * x[::-1] * x


def rows(x):
    return np.stack([x, 0.5 * x + 0.1])


# ---- the transformations, by fgrad ----------------------------------------------------------------


def fgrad_manager(f):
    def gradient(x):
        leaf = x * 1.0 if isinstance(x, fg.Tensor) else fg.tensor(x)
        gm = fg.GradManager()
        with gm.attach(leaf):
            out = f(leaf)
            gm.backward(out, cotangent(x, out))
        return np.zeros(2) if leaf.grad is None else leaf.grad

    return gradient


def fgrad_function(f):
    class Rule(fg.Function):
        def forward(self, x):
            self.x = x
            return f(x)

        def backward(self, ct):
            return fg.vjp(f, self.x)[1](ct)[0]

    return lambda x: Rule()(x)


def fgrad_custom_vjp(f):
    rule = fg.custom_vjp(lambda x: f(x))
    rule.defvjp(lambda x: (f(x), x), lambda x, ct: fg.vjp(f, x)[1](ct))
    return rule


def fgrad_custom_jvp(f):
    rule = fg.custom_jvp(lambda x: f(x))
    rule.defjvp(lambda primals, tangents: fg.jvp(f, primals, tangents))
    return rule


def fgrad_callbacks(f):
    """Look at every argument, and let ordinary Python compute a factor that has no derivative."""

    def watched(x):
        fg.debug.callback(lambda v: seen.append(v.shape), x)
        part = fg.stop_gradient(x[0])
        factor = fg.pure_callback(step_function, part, part, vmap_method="broadcast_all")
        return f(x) * factor

    return watched


seen = []


def step_function(v):
    return 1.0 + (v > 0.35)


def fgrad_vjp(f):
    def pulled(x):
        out, pullback = fg.vjp(f, x)
        return pullback(cotangent(x, out))[0]

    return pulled


FGRAD = {
    "grad":       lambda f: fg.grad(lambda x: np.sum(weights(f(x)) * f(x))),
    "vjp":        fgrad_vjp,
    "jvp":        lambda f: lambda x: fg.jvp(f, (x,), (tangent(x),))[1],
    "jacfwd":     fg.jacfwd,
    "jacrev":     fg.jacrev,
    "hessian":    fg.hessian,
    "vmap":       lambda f: lambda x: fg.vmap(f)(rows(x)),
    "gm":         fgrad_manager,
    "Function":   fgrad_function,
    "custom_vjp": fgrad_custom_vjp,
    "custom_jvp": fgrad_custom_jvp,
    "callbacks":  fgrad_callbacks,
    "stage":      lambda f: lambda x: fg.make_graph(f)(x)(x),
    "jit":        fg.jit,
}  # fmt: skip


def fgrad_cond(f):
    return lambda x: fg.lax.cond(x[0] > 0.35, f, lambda x: f(x) / 2, x)


def fgrad_scan(f):
    return lambda x: np.sum(
        fg.lax.scan(lambda c, w: (c * 1.0, w * f(c)), x, np.array([0.5, 0.25]))[1], axis=0
    )


def fgrad_while_loop(f):
    def twice(x):
        step = lambda s: (s[0] + 1, s[1], s[2] + f(s[1]))
        return fg.lax.while_loop(lambda s: s[0] < 2, step, (0, x, 0.0 * f(x)))[2]

    return twice


FGRAD |= {
    name: transformation
    for name, (there, transformation) in {
        "checkpoint": (hasattr(fg, "checkpoint"), lambda f: fg.checkpoint(f)),
        "cond":       (hasattr(fg, "lax") and hasattr(fg.lax, "cond"), fgrad_cond),
        "scan":       (hasattr(fg, "lax") and hasattr(fg.lax, "scan"), fgrad_scan),
        "while_loop": (hasattr(fg, "lax") and hasattr(fg.lax, "while_loop"), fgrad_while_loop),
    }.items() if there
}  # fmt: skip


# ---- the transformations, slowly --------------------------------------------------------------------


def numbers(x):
    return np.asarray(x, dtype=object)


def along(f, x, t):
    """Return the derivative of `f` at `x` along `t`."""
    return numbers((numbers(f(x + STEP * t)) - numbers(f(x - STEP * t))) / (2 * STEP))


def slow_jacobian(f):
    return lambda x: np.stack([along(f, x, e) for e in np.eye(2, dtype=int).astype(object)], axis=-1)


def slow_pullback(ct):
    def transformed(f):
        return lambda x: np.tensordot(numbers(ct(x, f(x))), slow_jacobian(f)(x), axes=np.ndim(f(x)))

    return transformed


def identity(f):
    return f


ORACLE = {
    "grad":       slow_pullback(lambda x, out: weights(out)),
    "vjp":        slow_pullback(cotangent),
    "jvp":        lambda f: lambda x: along(f, x, tangent(x)),
    "jacfwd":     slow_jacobian,
    "jacrev":     slow_jacobian,
    "hessian":    lambda f: slow_jacobian(slow_jacobian(f)),
    "vmap":       lambda f: lambda x: np.stack([numbers(f(row)) for row in rows(x)]),
    "gm":         slow_pullback(cotangent),
    "Function":   identity,
    "custom_vjp": identity,
    "custom_jvp": identity,
    "callbacks":  lambda f: lambda x: f(x) * (2 if x[0] > 0.35 else 1),
    "stage":      identity,
    "jit":        identity,
    "checkpoint": identity,
    "cond":       lambda f: lambda x: f(x) if x[0] > 0.35 else f(x) / 2,
    "scan":       lambda f: lambda x: 3 * f(x) / 4,
    "while_loop": lambda f: lambda x: 2 * f(x),
}  # fmt: skip

ORDERS = {"hessian": 2} | dict.fromkeys(("grad", "vjp", "jvp", "jacfwd", "jacrev", "gm"), 1)


def triples(rounds):
    """Return distinct triples up to order five; in each round every name stands at every depth once."""
    rng, chosen = random.Random(20), {}  # which cases run must not change from day to day
    while len(chosen) < rounds * len(FGRAD):
        made = list(zip(*(rng.sample(list(FGRAD), len(FGRAD)) for _ in range(3)), strict=True))
        if all(sum(ORDERS.get(name, 0) for name in t) <= 5 and t not in chosen for t in made):
            chosen |= dict.fromkeys(made)
    return list(chosen)


def nest(names, table, f):
    """Return the transformations called `names` applied to `f`, the first outermost."""
    for name in reversed(names):
        f = table[name](f)
    return f


def agree(names, base):
    f = BASES[base]
    expected = nest(names, ORACLE, f)(np.array([MP.mpf(float(v)) for v in X], dtype=object))
    expected = np.asarray(expected, dtype=object).astype(np.float64)
    scale = max(1.0, float(np.max(np.abs(expected))))
    t = fg.tensor(X)
    for x in (X, t):
        close(plain(nest(names, FGRAD, f)(x)) / scale, expected / scale, rtol=1e-9)
    assert t.grad is None


@grouped("name, base", itertools.product(FGRAD, BASES))
def test_one(name, base):
    agree((name,), base)


@grouped("outer, inner, base", itertools.product(FGRAD, FGRAD, BASES), quick=23)  # each pair, each function
def test_pair(outer, inner, base):
    agree((outer, inner), base)


@pytest.mark.parametrize("triple", triples(11), ids="-".join)
def test_triple(triple):
    agree(triple, "contraction" if "hessian" in triple else "linear")


def test_float32_survives_a_deep_nest():
    f = fg.vmap(fg.grad(lambda x: fg.jvp(fg.grad(lambda y: np.sum(np.sin(y) * x)), (x,), (x,))[1] @ x))
    x = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
    assert f(x).dtype == np.float32
    # grad_y = cos(y) x; along x: -sin(y) x * x; dot x: -sum sin(x) x^3
    close(f(x), -(np.cos(x) * x**3 + 3 * np.sin(x) * x**2), rtol=1e-5)


# ---- perturbation confusion -------------------------------------------------------------------------


def D(f):
    """Return the derivative of a function of one number, by reverse mode."""
    return fg.grad(f)


def F(f):
    """Return the derivative of a function of one number, by forward mode."""
    return lambda x: fg.jvp(f, (x,), (1.0,))[1]


def M(f):
    """Return the derivative of a function of one number, by a GradManager."""

    def derivative(x):
        leaf = x * 1.0 if isinstance(x, fg.Tensor) else fg.tensor(x)
        with warnings.catch_warnings(), fg.GradManager().attach(leaf) as gm:
            warnings.simplefilter("ignore", fg.NoGradientWarning)  # where f ignores its argument
            gm.backward(f(leaf))
        return 0.0 if leaf.grad is None else leaf.grad

    return derivative


KINDS = {"grad": D, "jvp": F, "gm": M}


@pytest.fixture(params=list(itertools.product(KINDS, repeat=2)), ids="-".join)
def kinds(request):
    """Return an outer and an inner way to differentiate."""
    return tuple(KINDS[name] for name in request.param)


def test_inner_function_ignores_its_argument(kinds):
    outer, inner = kinds
    close(outer(lambda x: x * inner(lambda y: x + 0 * y)(3.0))(2.0), 0.0)
    close(outer(lambda x: x * inner(lambda y: x * 1.0)(3.0))(2.0), 0.0)


def test_the_program_of_siskind_and_pearlmutter(kinds):
    outer, inner = kinds
    close(outer(lambda x: x * inner(lambda y: x + y)(1.0))(1.0), 1.0)


def test_inner_derivative_depends_on_the_outer_variable(kinds):
    outer, inner = kinds
    close(outer(lambda x: x * inner(lambda y: x * y * y)(3.0))(2.0), 24.0)  # x * 2xy = 6 x^2
    close(outer(lambda x: inner(lambda y: x * y * y)(x))(2.0), 8.0)  # 2 x^2
    close(outer(lambda x: inner(lambda y: np.sin(x * y))(x))(0.7), np.cos(0.49) - 2 * 0.49 * np.sin(0.49))


def test_inner_derivative_at_a_point_that_is_the_outer_variable(kinds):
    outer, inner = kinds
    close(outer(inner(lambda x: x**3))(2.0), 12.0)
    close(outer(lambda x: inner(np.sin)(x * x))(0.5), -np.sin(0.25))
    close(outer(lambda x: x * inner(lambda y: y * y)(x))(3.0), 12.0)


def test_a_derivative_operator_captured_in_a_closure(kinds):
    outer, inner = kinds
    shift = lambda u: lambda f: lambda x: f(x + u)  # Manzyuk et al.: d/du of a function of functions
    derivative_of_shift = lambda f: lambda x: outer(lambda u: shift(u)(f)(x))(0.0)
    close(derivative_of_shift(derivative_of_shift(np.exp))(1.0), np.e)
    close(derivative_of_shift(inner(np.sin))(0.3), -np.sin(0.3))


def test_three_levels_with_one_variable_each(kinds):
    outer, inner = kinds
    # d/dx at 2 of x * d/dy at 3 of y * d/dz at 4 of x y z  =  x * 2xy -> 4xy = 24
    close(outer(lambda x: x * inner(lambda y: y * outer(lambda z: x * y * z)(4.0))(3.0))(2.0), 24.0)


def test_derivatives_of_different_levels_multiply(kinds):
    outer, inner = kinds
    f = lambda x, y: x * x * y
    gx = lambda x, y: inner(lambda x: f(x, y))(x)  # 2xy
    gy = lambda x, y: inner(lambda y: f(x, y))(y)  # x^2
    close(outer(lambda x: gx(x, 3.0) * gy(x, 3.0))(2.0), 18 * 4.0)
    close(outer(lambda y: gx(2.0, y) * gy(2.0, y))(3.0), 16.0)


def test_shared_subexpressions_of_both_levels(kinds):
    outer, inner = kinds

    def f(x):
        shared = np.sin(x)
        slope = inner(lambda y: shared * y * y + x * shared)(x)  # 2 x sin x
        return slope + shared

    close(outer(f)(0.4), 2 * np.sin(0.4) + 0.8 * np.cos(0.4) + np.cos(0.4))


def test_loops_that_differentiate_in_each_step(kinds):
    outer, inner = kinds

    def newton(a):
        x = 1.0
        for _ in range(8):
            g = lambda y: y * y - a
            x = x - g(x) / inner(g)(x)
        return x

    close(outer(newton)(2.0), 0.5 / np.sqrt(2.0))


def test_in_place_updates_between_levels(kinds):
    outer, inner = kinds

    def f(x):
        state = fg.tensor([0.0, 0.0])
        state[0] = x * x
        state[1] = inner(lambda y: y * state[0])(5.0)  # x^2
        state *= x
        return state[0] + 2 * state[1]  # 3 x^3

    close(outer(f)(2.0), 36.0)


def test_the_result_of_an_inner_level_used_twice(kinds):
    outer, inner = kinds
    g = lambda x: inner(lambda y: y**3 * x)(x)  # 3 x^3
    close(outer(lambda x: g(x) * g(x))(1.5), 54 * 1.5**5)


def test_mapped_inner_derivatives(kinds):
    outer, inner = kinds
    points = np.array([1.0, 2.0, 3.0])
    f = lambda x: np.sum(fg.vmap(lambda p: inner(lambda y: y * y * x * p)(p))(points))  # 2 x sum p^2
    close(outer(f)(5.0), 28.0)
    close(fg.vmap(lambda p: outer(lambda x: inner(lambda y: x * y * y)(p) * x)(2.0))(points), 8 * points)


def test_two_levels_about_one_tensor():
    t = fg.tensor(3.0)
    close(fg.grad(lambda x: x * t * fg.grad(lambda y: x * y * t)(t))(t), 54.0)  # x t * x t -> 2 x t^2
    close(fg.grad(lambda x: fg.grad(lambda y: x * x * x * t)(t))(t), 0.0)
    assert t.grad is None


def test_functional_inside_imperative_inside_functional():
    def f(x):
        t = x * 2
        gm = fg.GradManager()
        with gm.attach(t):
            gm.backward(fg.grad(lambda y: y**3 * t)(t))  # 3 t^3
        return t.grad * x  # 9 t^2 x = 36 x^3

    close(fg.grad(f)(2.0), 108 * 4.0)
    close(fg.jvp(f, (2.0,), (1.0,)), (288.0, 432.0))
    close(fg.vmap(fg.grad(f))(np.array([1.0, 2.0])), [108.0, 432.0])


def test_group_of_managers_around_and_inside_transformations():
    x, y = fg.tensor(2.0), fg.tensor(3.0)
    a, b = fg.GradManager(), fg.GradManager()
    a.attach(x)
    b.attach(y)
    with a | b:
        out = fg.grad(lambda z: z**2 * x * y)(x * y)  # 2 (xy)^2
        a.backward(out)
        b.backward(out)
    close(x.grad, 4 * 2.0 * 9.0)
    close(y.grad, 4 * 4.0 * 3.0)
