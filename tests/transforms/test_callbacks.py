"""Callbacks see values wherever a transformation hides them, and change neither values nor gradients."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from tests.helpers import close, is_numpy

import fgrad as fg

V = np.array([1.0, 2.0, 4.0])


def seen_by(transform, *args, **options):
    """Return what a callback on the argument of `transform`ed x -> x^2 saw, and the result."""
    seen = []

    def f(x):
        fg.debug.callback(lambda v: seen.append(v.tolist()), x)
        return x * x

    return seen, transform(f, **options)(*args)


# ---- debug.callback and debug.print -------------------------------------------------------------------


def test_eager():
    seen, out = seen_by(lambda f: f, 3.0)
    assert seen == [3.0]
    assert out == 9.0


def test_under_each_derivative():
    for transform, expected in (
        (fg.grad, 6.0),
        (fg.value_and_grad, (9.0, 6.0)),
        (fg.jacrev, 6.0),
        (fg.jacfwd, 6.0),
        (fg.hessian, 2.0),
        (lambda f: lambda x: fg.jvp(f, (x,), (1.0,))[1], 6.0),
        (lambda f: lambda x: fg.vjp(f, x)[1](1.0)[0], 6.0),
        (lambda f: lambda x: fg.linearize(f, x)[1](1.0), 6.0),
    ):
        seen, out = seen_by(transform, 3.0)
        assert seen == [3.0]
        close(out, expected)


def test_in_a_recording():
    x = fg.tensor(V)
    with fg.GradManager().attach(x) as gm:
        seen, y = seen_by(lambda f: f, x)
        gm.backward(y.sum())
    assert seen == [V.tolist()]
    close(x.grad, 2 * V)


def test_once_for_each_example_in_order():
    seen, out = seen_by(fg.vmap, V)
    assert seen == V.tolist()
    close(out, V * V)
    seen, _ = seen_by(fg.vmap, np.arange(6.0).reshape(2, 3), in_axes=1)
    assert seen == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert seen_by(fg.vmap, np.zeros((0, 2)))[0] == []


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: fg.vmap(fg.vmap(f)),
        lambda f: fg.vmap(fg.vmap(fg.grad(f))),
        lambda f: fg.vmap(fg.grad(lambda x: np.sum(fg.vmap(f)(x)))),
        lambda f: fg.grad(lambda x: np.sum(fg.vmap(fg.vmap(f))(x))),
        lambda f: fg.jacfwd(lambda x: fg.vmap(fg.vmap(f))(x)),
    ],
)
def test_nested_maps(transform):
    x = np.arange(6.0).reshape(2, 3)
    assert sorted(seen_by(transform, x)[0]) == x.ravel().tolist()


def test_what_is_not_mapped_is_seen_once():
    seen = []
    fg.vmap(lambda x, y: fg.debug.callback(lambda v: seen.append(float(v)), y) or x, in_axes=(0, None))(
        V, 5.0
    )
    assert seen == [5.0]


def test_a_program_calls_at_every_run():
    seen = []

    def f(x):
        fg.debug.callback(lambda v: seen.append(("x", float(v))), x)
        y = x * x
        fg.debug.callback(lambda v, n: seen.append((n, float(v))), y, n="y")
        fg.debug.callback(lambda: seen.append("no argument"))
        return y

    program = fg.make_graph(f)(1.0)
    assert seen == []
    assert "effect" in str(program)
    assert "effect" in program._repr_html_()
    assert "effect" in program.to_dot()
    for x in (2.0, 3.0):
        seen.clear()
        assert program(x) == x * x
        assert seen == [("x", x), ("y", x * x), "no argument"]


def test_derivatives_and_maps_are_staged_with_their_callbacks():
    seen = []

    def f(x):
        fg.debug.callback(lambda v: seen.append(float(v)), x)
        return x**3

    program = fg.make_graph(fg.vmap(fg.grad(f)))(V)
    close(program(2 * V), 3 * (2 * V) ** 2)
    assert seen == (2 * V).tolist()


def test_a_program_that_is_mapped_and_differentiated():
    seen, program = seen_by(fg.make_graph, 1.0)
    close(fg.vmap(fg.grad(lambda x: program(x)))(V), 2 * V)
    assert seen == V.tolist()


def test_arguments_are_arrays_in_the_trees_that_were_given():
    got = []

    def f(x):
        fg.debug.callback(lambda *a, **k: got.append((a, k)), {"a": [x, "name"]}, None, flag=True, y=x)
        return x * 2

    fg.grad(lambda x: f(x).sum())(V)
    (args, kwargs), *_ = got
    assert args[0]["a"][1] == "name"
    assert args[1] is None
    for v in (args[0]["a"][0], kwargs["y"], kwargs["flag"]):
        assert type(v) is np.ndarray
    args[0]["a"][0][0] = 100.0  # its own
    assert V[0] == 1.0


def test_a_callback_may_differentiate():
    slopes = []

    def f(x):
        fg.debug.callback(lambda v: slopes.append(fg.grad(np.sin)(float(v))), x)
        return x * x

    close(fg.vmap(fg.grad(f))(V), 2 * V)
    close(slopes, np.cos(V))


def test_cotangents_in_a_rule_are_seen():
    seen = []

    @fg.custom_vjp
    def watched(x):
        return x * 1.0

    def bwd(_, ct):
        fg.debug.callback(lambda v: seen.append(float(v)), ct)
        return (ct,)

    watched.defvjp(lambda x: (x * 1.0, None), bwd)
    fg.grad(lambda x: 3 * watched(x))(1.0)
    assert seen == [3.0]
    seen.clear()
    close(fg.jvp(lambda x: 3 * watched(x), (1.0,), (2.0,))[1], 6.0)
    assert seen == []  # forward mode transposes the rule: no cotangent has a value there


def test_an_error_in_a_callback_is_the_users_own():
    def f(x):
        fg.debug.callback(lambda v: {}["missing"], x)
        return x

    for call in (lambda: f(1.0), lambda: fg.vmap(fg.grad(f))(V), lambda: fg.make_graph(f)(1.0)(1.0)):
        with pytest.raises(KeyError):
            call()
    assert fg.grad(lambda x: x * x)(1.0) == 2.0


def test_print(capsys):
    def f(x, scale):
        fg.debug.print("{0} {x:.2f} {0.shape}", x, x=x * scale, ordered=True)
        return x * scale

    fg.vmap(f, in_axes=(0, None))(V[:2], 2.0)
    assert capsys.readouterr().out == "1.0 2.00 ()\n2.0 4.00 ()\n"
    fg.debug.print("plain")
    fg.debug.print("{}", fg.tensor([1.0, 2.0]))
    assert capsys.readouterr().out == "plain\n[1. 2.]\n"
    program = fg.make_graph(lambda x: fg.debug.print("run {}", x) or x)(1.0)
    assert capsys.readouterr().out == ""
    program(7.0)
    assert capsys.readouterr().out == "run 7.0\n"


def test_print_refuses_at_once_what_its_format_does_not_mention():
    with pytest.raises(ValueError, match=r"argument 1.*f-string"):
        fg.debug.print("{}", 1, 2)
    with pytest.raises(ValueError, match="y"):
        fg.debug.print("{x}", x=1, y=2)
    with pytest.raises((IndexError, KeyError)):
        fg.make_graph(lambda x: fg.debug.print("{} {}", x))(1.0)
    with pytest.raises(TypeError, match="format"):
        fg.debug.print(fg.tensor(1.0))


def test_breakpoint(monkeypatch):
    stops = []
    monkeypatch.setattr(sys, "breakpointhook", lambda *_, **__: stops.append(1))
    close(fg.grad(lambda x: fg.debug.breakpoint() or x * x)(3.0), 6.0)
    assert len(stops) == 1
    program = fg.make_graph(lambda x: fg.debug.breakpoint() or x)(1.0)
    assert len(stops) == 1
    program(1.0)
    program(1.0)
    assert len(stops) == 3


# ---- pure_callback ------------------------------------------------------------------------------------


def lgamma(x, method="sequential"):
    calls.append(np.shape(x))
    return fg.pure_callback(np.vectorize(math.lgamma, otypes=[float]), x, x, vmap_method=method)


calls = []


def test_complex_numbers_are_computed_by_compiled_callbacks_too():
    z = V * (1 + 2j)
    turned = lambda z: fg.pure_callback(lambda z: (1j * z, z.real), (z, V), z)
    for f in (turned, fg.jit(turned)):
        for found, expected in zip(f(z), (1j * z, V), strict=True):
            close(found, expected)


def test_values():
    x = np.array([0.5, 3.0])
    expected = [math.lgamma(v) for v in x]
    out = lgamma(x)
    assert is_numpy(out)
    close(out, expected)
    assert is_numpy(lgamma(np.float64(3.0)))
    assert isinstance(lgamma(fg.tensor(x)), fg.Tensor)
    close(lgamma(fg.tensor(x)), expected)
    close(fg.pure_callback(lambda: np.arange(3), np.arange(3)), [0, 1, 2])
    close(fg.pure_callback(lambda x: 2 * x, 0.0, 3.0), 6.0)


def test_trees_of_arguments_and_results():
    def host(p, *, k):
        return {"sum": p["a"] + k, "both": (p["a"], p["b"] > 1)}

    a = np.ones(2)
    promised = {"sum": a, "both": (a, np.array([True, True]))}
    out = fg.pure_callback(host, promised, {"a": a, "b": fg.tensor(V[:2])}, k=3.0)
    close(out["sum"], [4.0, 4.0])
    assert out["both"][1].dtype == bool
    close(out["both"][1], [False, True])


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_mapped(method):
    shapes = []

    def host(x, y):
        shapes.append((x.shape, y.shape))
        return x * y

    def f(x, y):
        return fg.pure_callback(host, x, x, y, vmap_method=method)

    out = fg.vmap(f, in_axes=(0, None))(V, 2.0)
    close(out, 2 * V)
    assert (
        shapes
        == {
            "sequential": [((), ())] * 3,
            "expand_dims": [((3,), (1,))],
            "broadcast_all": [((3,), (3,))],
        }[method]
    )
    m = np.arange(6.0).reshape(2, 3)
    close(fg.vmap(fg.vmap(f, in_axes=(0, None)), in_axes=(0, 0))(m, V[:2]), m * V[:2, None])
    assert fg.vmap(f, in_axes=(0, None))(np.zeros((0, 4)), 2.0).shape == (0, 4)


def test_mapped_without_a_method():
    with pytest.raises(NotImplementedError, match=r"test_callbacks\.py.*vmap_method"):
        fg.vmap(lambda x: fg.pure_callback(np.sin, x, x))(V)
    with pytest.raises(ValueError, match="sequential"):
        fg.pure_callback(np.sin, V, V, vmap_method="loop")


def test_staged():
    counts = []

    def host(x):
        counts.append(1)
        return np.sin(x)

    program = fg.make_graph(lambda x: fg.pure_callback(host, x, x) * 2)(1.0)
    assert counts == []
    assert "pure_callback" in str(program)
    close(program(0.3), 2 * np.sin(0.3))
    close(program(0.4), 2 * np.sin(0.4))
    assert len(counts) == 2


@pytest.mark.parametrize(
    "derivative",
    [
        lambda f: fg.grad(f)(1.0),
        lambda f: fg.vjp(f, 1.0)[1](1.0),
        lambda f: fg.jvp(f, (1.0,), (1.0,)),
        lambda f: fg.jacfwd(f)(1.0),
        lambda f: fg.hessian(f)(1.0),
        lambda f: fg.vmap(fg.grad(f))(V),
        lambda f: fg.grad(lambda x: np.sum(fg.vmap(f)(x)))(V),
        lambda f: fg.make_graph(fg.grad(f))(1.0),
    ],
)
def test_a_derivative_through_it_is_an_error(derivative):
    with pytest.raises(TypeError, match=r"pure_callback of lgamma at .*test_callbacks\.py.*custom_vjp"):
        derivative(lambda x: fg.pure_callback(math_lgamma, x, x, vmap_method="sequential") * x)


def math_lgamma(x):
    return math.lgamma(float(x))


math_lgamma.__qualname__ = "lgamma"


def test_a_derivative_beside_it_is_none_of_its_business():
    f = lambda x: x * x * fg.stop_gradient(lgamma(x))
    expected = 2 * 3.0 * math.lgamma(3.0)
    close(fg.grad(f)(3.0), expected)
    close(fg.jvp(f, (3.0,), (1.0,))[1], expected)
    close(fg.hessian(f)(3.0), 2 * math.lgamma(3.0))
    close(fg.grad(lambda x: (lgamma(x), x * x)[1])(3.0), 6.0)  # computed, and not used
    close(fg.grad(lambda x: (x * x, lgamma(x)), has_aux=True)(3.0), (6.0, math.lgamma(3.0)))
    counts = lambda x: fg.pure_callback(lambda v: np.array(int(v)), np.array(0), x)
    close(fg.grad(lambda x: x * counts(x))(3.5), 3.0)


def test_a_rule_around_it():
    digamma = lambda x: (math.lgamma(x + 1e-5) - math.lgamma(x - 1e-5)) / 2e-5
    host = np.vectorize(digamma, otypes=[float])

    @fg.custom_vjp
    def log_gamma(x):
        return lgamma(x)

    slope = lambda x: fg.pure_callback(host, x, x, vmap_method="broadcast_all")
    log_gamma.defvjp(lambda x: (log_gamma(x), x), lambda x, ct: (ct * slope(x),))
    close(fg.grad(log_gamma)(3.0), digamma(3.0), rtol=1e-6)
    close(fg.vmap(fg.grad(log_gamma))(V), host(V), rtol=1e-6)
    close(fg.jvp(log_gamma, (3.0,), (2.0,))[1], 2 * digamma(3.0), rtol=1e-6)
    close(fg.make_graph(fg.vmap(fg.grad(log_gamma)))(V)(V + 1), host(V + 1), rtol=1e-6)
    x = fg.tensor(V)
    with fg.GradManager().attach(x) as gm:
        gm.backward(log_gamma(x).sum())
    close(x.grad, host(V), rtol=1e-6)


@pytest.mark.parametrize(
    "returned, error, words",
    [
        (lambda x: np.ones(2), ValueError, r"\[2\].*\[3\]"),
        (lambda x: np.ones(3, np.float32), TypeError, r"float32.*float64"),
        (lambda x: (x, x), TypeError, r"structure"),
    ],
)
def test_what_a_callback_returns_is_checked(returned, error, words):
    with pytest.raises(error, match=r"(?s)test_callbacks\.py.*" + words):
        fg.pure_callback(returned, V, V)


def test_what_is_promised_is_checked():
    with pytest.raises(TypeError, match="result_shape_dtypes"):
        fg.pure_callback(np.sin, "x", V)


def test_the_callback_owns_what_it_gets():
    def host(x):
        x[0] = 100.0
        return x

    t = fg.tensor(V)
    out = fg.pure_callback(host, V, t)
    close(t, V)
    close(out, [100.0, 2.0, 4.0])


def test_a_pure_callback_without_operands_runs_when_its_program_does():
    calls = []

    def number():
        calls.append(1)
        return np.float64(len(calls))

    called = lambda *args: fg.pure_callback(lambda *_: number(), np.float64(0), *args)
    w = fg.tensor(2.0)
    for args in ((), (3.0,), (np.ones(2), "static"), (w,)):
        calls.clear()
        f = fg.jit(lambda x, args=args: x + called(*args))
        assert (f(10.0), f(10.0), f(10.0)) == (11.0, 12.0, 13.0)
        program = fg.make_graph(lambda x, args=args: x + called(*args))(1.0)
        assert len(calls) == 3
        assert (program(1.0), program(1.0)) == (5.0, 6.0)
        fg.eval_shape(lambda x, args=args: x + called(*args), 1.0)
        assert len(calls) == 5


def test_a_pure_callback_in_a_branch_or_loop_runs_where_that_does():
    calls = []

    def number():
        calls.append(1)
        return np.float64(1.0)

    call = lambda: fg.pure_callback(number, np.float64(0))
    chosen = fg.jit(lambda x: fg.lax.cond(x > 0, lambda: x, lambda: x + call()))
    assert (chosen(1.0), len(calls)) == (1.0, 0)
    assert (chosen(-1.0), len(calls)) == (0.0, 1)
    calls.clear()
    repeated = fg.jit(lambda x, n: fg.lax.fori_loop(0, n, lambda i, c: c + call(), x))
    assert (repeated(1.0, 0), len(calls)) == (1.0, 0)
    assert (repeated(1.0, 3), len(calls)) == (4.0, 3)
    calls.clear()
    mapped = fg.jit(fg.vmap(lambda x: x + call()))
    close(mapped(np.arange(3.0)), [1.0, 2.0, 3.0])
    assert len(calls) == 1
    close(fg.jit(fg.grad(lambda x: x * call()))(2.0), 1.0)
    close(fg.grad(fg.jit(lambda x: x * call()))(2.0), 1.0)


@pytest.mark.parametrize("compiled", [False, True])
def test_callbacks_that_do_more_than_compute(compiled):
    jit = fg.jit if compiled else lambda f: f
    seen = []

    def note(v):
        seen.append(float(v))
        return 2 * v

    f = lambda x: (fg.io_callback(note, x, x), fg.io_callback(note, x, x) + x)[1]
    np.testing.assert_allclose(jit(f)(3.0), 9.0)
    assert seen == [3.0, 3.0]
    seen.clear()
    np.testing.assert_allclose(
        jit(fg.vmap(lambda x: fg.io_callback(note, x, x)))(np.array([1.0, 2.0])), [2.0, 4.0]
    )
    assert seen == [1.0, 2.0]
    assert fg.io_callback(lambda v: None, None, 1.0) is None
    with pytest.raises(TypeError, match="no derivative"):
        fg.grad(f)(1.0)


def test_what_calls_out_is_not_tried_speculatively():
    seen = []

    def f(x):
        fg.debug.callback(seen.append, x[0])
        return np.sqrt(np.sum(x * x)) + np.sum(np.sqrt(np.abs(x)))

    g = fg.jit(fg.grad(f))
    for k in (1, 0, 2):
        g(k * np.ones(3))
    assert len(seen) == 3


# ---- checks


def checked_root(x):
    fg.debug.check(x >= 0, "negative: {}", x)
    fg.debug.check(np.all(x < 9), lambda limit: f"not below {limit}", 9)
    return x / 2


CHECKED = {"eager": lambda f: f, "compiled": fg.jit, "compiled twice": lambda f: fg.jit(fg.jit(f))}


@pytest.mark.parametrize("name", CHECKED)
def test_checks_raise(name):
    run = CHECKED[name](checked_root)
    np.testing.assert_array_equal(run(np.array([4.0, 1.0])), [2, 0.5])
    with pytest.raises(fg.debug.CheckError, match=r"negative: \[ 4. -1.\]"):
        run(np.array([4.0, -1.0]))
    with pytest.raises(ValueError, match="not below 9"):
        run(np.array([4.0, 10.0]))


@pytest.mark.parametrize("name", CHECKED)
def test_checks_are_collected(name):
    run = fg.debug.collect_checks(CHECKED[name](checked_root))
    assert run(np.array([4.0]))[0] == []
    failed, out = run(np.array([-4.0, 99.0]))
    assert failed == ["negative: [-4. 99.]", "not below 9"]
    np.testing.assert_array_equal(out, [-2, 49.5])
    outer = fg.debug.collect_checks(lambda x: run(x)[0])
    assert outer(np.array([-1.0])) == ([], ["negative: [-1.]"])
    with pytest.raises(fg.debug.CheckError):  # nobody collects any more
        CHECKED[name](checked_root)(np.array([-1.0]))


def test_checks_of_mapped_and_differentiated_functions():
    failed, slopes = fg.debug.collect_checks(fg.vmap(fg.grad(checked_root)))(np.array([1.0, -2.0, -3.0]))
    assert failed == ["negative: -2.0", "negative: -3.0"]
    np.testing.assert_array_equal(slopes, [0.5, 0.5, 0.5])
    with pytest.raises(fg.debug.CheckError, match=r"w is 3\.0"):
        fg.debug.check(False, "{name} is {tree[w]}", name="w", tree={"w": fg.tensor(3.0)})
