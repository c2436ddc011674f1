"""Programs as data: what equations say, what they compute, and how they print."""

import numpy as np
import pytest

import fgrad as fg
from fgrad.extend import eval_jaxpr, make_jaxpr
from fgrad.extend.jaxprs import ClosedJaxpr, DropVar, Literal, Reader

X = np.array([0.5, -1.0, 2.0])


def close(x, y):
    np.testing.assert_allclose(np.asarray(x), y, rtol=1e-12)


def applied(closed, *args):
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def test_equations_say_what_is_computed():
    closed = make_jaxpr(lambda x: (np.sin(x) * X, x + 2.0))(X)
    sine, product, total = closed.eqns
    assert [e.primitive.name for e in closed.eqns] == ["sin", "multiply", "add"]
    assert sine.outvars[0] is product.invars[0]
    assert isinstance(total.invars[1], Literal)
    assert total.invars[1].val == 2
    assert len(closed.jaxpr.constvars) == len(closed.consts) == 1
    assert [a.shape for a in closed.in_avals + closed.out_avals] == [(3,)] * 3
    for found, expected in zip(applied(closed, X), (np.sin(X) * X, X + 2), strict=True):
        close(found, expected)


def test_it_prints_as_in_jax():
    closed = make_jaxpr(lambda x: np.sin(x) * X)(X)
    assert str(closed) == (
        "{ lambda a:float64[3] ; b:float64[3]. let\n"
        "    c:float64[3] = sin b\n"
        "    d:float64[3] = multiply c a\n"
        "  in (d,) }"
    )
    assert str(closed.eqns[0]) == "b:float64[3] = sin a"


def test_evaluating_it_differentiates():
    closed = make_jaxpr(lambda x: np.sum(np.sin(x) ** 2))(X)
    f = lambda x: applied(closed, x)[0]
    close(fg.grad(f)(X), np.sin(2 * X))
    close(fg.vmap(f)(np.stack([X, 2 * X])), [np.sum(np.sin(k * X) ** 2) for k in (1, 2)])
    close(fg.jit(f)(X), np.sum(np.sin(X) ** 2))


def test_equations_may_be_replaced():
    closed = make_jaxpr(lambda x: np.sin(x) * 3.0)(X)
    cosine = make_jaxpr(np.cos)(X).eqns[0].primitive
    eqns = [e.replace(primitive=cosine) if e.primitive.name == "sin" else e for e in closed.eqns]
    changed = closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns))
    close(applied(changed, X)[0], 3 * np.cos(X))
    close(applied(closed, X)[0], 3 * np.sin(X))


def test_interpreters_are_loops():
    closed = make_jaxpr(lambda x: np.exp(np.sin(x)) * 2.0)(X)
    bounds = {closed.jaxpr.invars[0]: (0.0, 1.0)}
    rules = {
        "sin": lambda x: (np.sin(x[0]), np.sin(x[1])),
        "exp": lambda x: (np.exp(x[0]), np.exp(x[1])),
        "multiply": lambda x, y: (x[0] * y, x[1] * y),
    }
    for e in closed.eqns:
        values = [v.val if isinstance(v, Literal) else bounds[v] for v in e.invars]
        bounds[e.outvars[0]] = rules[e.primitive.name](*values)
    assert bounds[closed.jaxpr.outvars[0]] == (2.0, 2 * np.exp(np.sin(1.0)))


def test_a_derivative_of_ones_own_stays_one_equation():
    @fg.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (7 * ct,))
    closed = make_jaxpr(lambda x: f(2 * x) * X)(X)
    double, call, product = closed.eqns
    assert call.primitive.name == "custom_call"
    assert call.invars[0] is double.outvars[0]
    assert product.invars[0] is call.outvars[0]
    inner = call.params["call_jaxpr"]
    assert isinstance(inner, ClosedJaxpr)
    assert [e.primitive.name for e in inner.eqns] == ["sin"]
    close(applied(inner, X)[0], np.sin(X))
    assert "call_jaxpr=\n" in str(closed)
    close(fg.grad(lambda x: applied(closed, x)[0].sum())(X), 14 * X)


def test_results_that_nobody_needs():
    two = fg.extend.operation(
        "two", many=True, run=lambda x: (x, -x), shape=lambda x: (x, x),
        jvp=lambda xs, ts: (two(*xs), two(*ts)), transpose=lambda cts, x: [cts[0]],
    )  # fmt: skip
    closed = make_jaxpr(lambda x: two(x)[0] * 2.0)(X)
    assert isinstance(closed.eqns[0].outvars[1], DropVar)
    assert str(closed.eqns[0]).split(" = ")[0] == "b:float64[3] _:float64[3]"
    close(applied(closed, X)[0], 2 * X)


def test_what_is_taken_from_outside_may_be_constant():
    program = fg.make_graph(lambda w, x: w * x)(X, X)
    closed = Reader(program).closed([X])
    assert [len(closed.jaxpr.constvars), len(closed.jaxpr.invars)] == [1, 1]
    close(applied(closed, 2 * X)[0], 2 * X**2)


def test_values_that_are_needed_are_refused():
    with pytest.raises(TypeError):
        make_jaxpr(lambda x: x if x[0] > 0 else -x)(X)


def test_constants_stand_in_the_order_in_which_they_are_read():
    inner = lambda outer: lambda y: (y * X + outer) * (X + 1)
    known = make_jaxpr(inner(X[:2].sum() * np.ones(3)))(X)
    found = []

    def traced(outer):
        found.append(make_jaxpr(inner(outer))(X))
        return outer

    fg.jit(traced)(np.ones(3))
    shapes = [[v.aval.shape for v in closed.jaxpr.constvars] for closed in (known, *found)]
    assert shapes[0] == shapes[1] == [(3,)] * 3
    close(known.consts[0], X)
    close(found[0].consts[0], X)
    close(found[0].consts[2], X + 1)
