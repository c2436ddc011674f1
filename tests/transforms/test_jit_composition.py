"""jit of and under everything else: rules of the user, control flow, randomness, axes with names, loops.

Pairs and triples with the other transformations are in test_composition.py. Here every primitive of the table
and every program over NumPy's namespace is staged, differentiated and mapped, and compared with what eager
mode gives, and programs that are cut into a forward and a backward part are counted.
"""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from tests.helpers import close, differences, exactly, grouped
from tests.numpy.programs import PROGRAMS
from tests.ops.test_primitives import SAMPLES
from tests.transforms.test_stage import RULED

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.transforms.procedure import Procedure

X, Y = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), np.array([1.0, 2.0, 3.0])


# ---- every primitive -----------------------------------------------------------------------------------


def parts(out):
    return list(out) if isinstance(out, list | tuple) else [out]


def total(out):
    """Return a weighted sum of the floating parts, which is what is differentiated."""
    result = 0.0
    for k, y in enumerate(parts(out)):
        weights = np.cos(np.arange(math.prod(y.shape)) + k).reshape(y.shape)
        if y.dtype.kind in "fc":
            result = result + (y.real * weights).sum()
        if y.dtype.kind == "c":
            result = result + (y.imag * np.flip(weights)).sum()
    return result


def same(actual, expected, units=64):
    """Assert equal values, shapes and dtypes, up to a few units in the last place."""
    assert len(parts(actual)) == len(parts(expected))
    for a, e in zip(parts(actual), parts(expected), strict=True):
        a, e = (np.asarray(v.numpy() if isinstance(v, fg.Tensor) else v) for v in (a, e))
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        if e.dtype.kind in "fc":
            tol = units * np.finfo(e.dtype).eps  # sums are taken in another order
            scale = np.max(np.abs(e), initial=0.0, where=np.isfinite(e))
            np.testing.assert_allclose(a, e, rtol=tol, atol=tol * scale)
        else:
            np.testing.assert_array_equal(a, e)


equal = same
UNITS = {
    "matrix_function": 4096,  # SciPy's exponential of 2 x 2 matrices cancels; the compiled one does not
    "second_minors": 1024,  # LAPACKs of different processors factor the matrix in different orders
}
PRIMITIVE_SAMPLES = [s for s in SAMPLES if s.primitive != "custom"]  # which is a rule of its own each time


@pytest.mark.usefixtures("interpreted")
@grouped("sample", PRIMITIVE_SAMPLES, "primitive", quick=1)
@np.errstate(all="ignore")
def test_every_primitive(sample):
    """Compare jit, its derivatives and vmap of it with the primitive."""
    same = partial(equal, units=UNITS.get(sample.primitive, 64))
    f = lambda *args: bind(sample.primitive, *args, **sample.params)
    try:
        expected = f(*sample.args)
    except TypeError:
        with pytest.raises(TypeError):
            fg.jit(f)(*sample.args)
        return
    same(fg.jit(f)(*sample.args), expected)
    where = tuple(i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray) and a.dtype.kind == "f")
    if not where:
        return
    if not sample.stops and PRIMITIVES[sample.primitive].vjp(
        tuple(i in where for i in range(len(sample.args)))
    ):
        loss = lambda *args: total(f(*args))
        gradient = fg.grad(loss, where)
        expected = gradient(*sample.args)
        same(fg.jit(gradient)(*sample.args), expected)
        same(fg.grad(fg.jit(loss), where)(*sample.args), expected)
    axes = tuple(0 if i in where else None for i in range(len(sample.args)))
    wide = [np.stack([a, a[::-1] if a.ndim else a]) if i in where else a for i, a in enumerate(sample.args)]
    if sample.primitive in MIRRORED:
        wide = [np.stack([a, a]) if i in where else a for i, a in enumerate(sample.args)]
    mapped = fg.vmap(f, axes)
    expected = mapped(*wide)
    same(fg.jit(mapped)(*wide), expected)
    same(fg.vmap(fg.jit(f), axes)(*wide), expected)


MIRRORED = {  # whose domain is not closed under reversal
    *(
        "cholesky",
        "eigh",
        "frechet",
        "log_frechet",
        "matrix_function",
        "regular",
        "regularized",
        "riccati",
        "roots",
    ),
}


# ---- every program -------------------------------------------------------------------------------

UNSTAGED = {  # what cannot be staged, and what the error says of it
    "unique": "unique",
    "piecewise": "piecewise",
    "nonzero-index": "nonzero, whose result has a shape that depends on the values",
    "trim_zeros": "trim_zeros, whose result has a shape that depends on the values",
    "polymul": "polymul, whose result depends in shape or dtype on the values",
    "polydiv": "polydiv, whose result depends in shape or dtype on the values",
    "x[mask]": "indexing with a boolean array",
    "loop": r"bool\(\)",
    ".item-index": r"int\(\)",
}


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("name", PROGRAMS)
@np.errstate(all="ignore")
def test_every_program(name):
    program, xs = PROGRAMS[name]
    f = lambda *x: tuple(parts(program(fnp, *x)))
    if name in UNSTAGED:
        with pytest.raises(TypeError, match=rf"{UNSTAGED[name]},? at .*programs\.py:\d+ needs the value"):
            fg.jit(f)(*xs)
        return
    where = tuple(range(len(xs)))
    ts = [np.cos(np.arange(x.size)).reshape(x.shape) for x in xs]
    loss = lambda *x: total(program(fnp, *x))
    along = lambda loss: (
        lambda *x: sum((g * t).sum() for g, t in zip(fg.grad(loss, where)(*x), ts, strict=True))
    )
    gradient, second = fg.grad(loss, where)(*xs), fg.grad(along(loss), where)(*xs)
    jitted = fg.jit(loss)
    same(fg.jit(f)(*map(fg.tensor, xs)), f(*map(fg.tensor, xs)))
    for g in (fg.jit(fg.grad(loss, where)), fg.grad(jitted, where)):
        for a, e in zip(g(*xs), gradient, strict=True):
            close(a, e, rtol=1e-11)
    close(fg.jvp(jitted, tuple(xs), tuple(ts))[1], fg.jvp(loss, tuple(xs), tuple(ts))[1], rtol=1e-10)
    for a, e in zip(fg.grad(along(jitted), where)(*xs), second, strict=True):
        close(a, e, rtol=1e-8, atol=1e-8 * (1 + np.max(np.abs(e), initial=0.0)))


# ---- counts --------------------------------------------------------------------------------------


class Traced:
    """A jitted function that counts its traces, and the procedures that are compiled and run."""

    def __init__(self, fun, monkeypatch):
        self.traces = self.compilations = self.runs = 0
        self.programs = []
        from fgrad.transforms import procedure

        compile = procedure.compile

        def counting(program, *name):
            self.compilations += 1
            self.programs.append(program)
            made = compile(program, *name)
            run = made.run

            def counted(leaves):
                self.runs += 1
                return run(leaves)

            made.run = counted
            return made

        monkeypatch.setattr(procedure, "compile", counting)

        def traced(*args):
            self.traces += 1
            return fun(*args)

        self.jitted = fg.jit(traced)


def names(program):
    return [e.name for e in program.equations]


def test_a_gradient_runs_a_forward_and_a_backward_program(monkeypatch):
    f = Traced(lambda x: np.sum(np.exp(np.sin(x)) * x), monkeypatch)
    for _ in range(3):
        close(fg.grad(f.jitted)(Y), np.exp(np.sin(Y)) * (1 + Y * np.cos(Y)))
    assert (f.traces, f.compilations, f.runs) == (1, 2, 6)
    forward, backward = f.programs
    assert names(forward).count("exp") == names(forward).count("sin") == 1
    assert "exp" not in names(backward)  # the forward pass is not run again
    assert "sin" not in names(backward)


def test_derivatives_of_every_order_and_batches_are_compiled_once(monkeypatch):
    f = Traced(lambda x: np.sum(x**3 * np.sin(x)), monkeypatch)
    runs = [
        lambda: f.jitted(Y),
        lambda: fg.grad(f.jitted)(Y),
        lambda: fg.hessian(f.jitted)(Y),
        lambda: fg.jvp(f.jitted, (Y,), (Y,)),
        lambda: fg.vmap(f.jitted)(X),
        lambda: fg.vmap(fg.grad(f.jitted))(X),
        lambda: fg.grad(lambda x: np.sum(fg.vmap(f.jitted)(x)))(X),
    ]
    for run in runs:
        run()
    compiled = f.compilations
    for run in runs:
        run()
    assert f.compilations == compiled
    assert f.traces == 1
    fg.vmap(f.jitted)(np.concatenate([X, X]))
    assert f.compilations == compiled + 1


def test_only_what_a_pattern_needs_is_kept(monkeypatch):
    f = Traced(lambda w, x: np.sum(np.tanh(w @ x)), monkeypatch)
    w, x = np.ones((4, 3)) / 10, Y
    fg.grad(f.jitted, 1)(w, x)
    forward, backward = f.programs
    assert len(forward.outputs) == 2  # the value and tanh; w is an argument, x is not needed
    assert [v.aval.shape for v in backward.inputs] == [(4, 3), (4,), ()]


def test_what_costs_nothing_is_not_kept(monkeypatch):
    def f(x, y):
        wide = np.broadcast_to(x, (100, 3)).T.reshape(300)
        return np.sum(wide * y)

    g = Traced(f, monkeypatch)
    y = np.arange(300.0)
    close(fg.grad(g.jitted, (0, 1))(Y, y)[1], np.repeat(Y, 100))
    close(fg.grad(g.jitted, (0, 1))(Y, y)[0], y.reshape(3, 100).sum(axis=1))
    forward, _ = g.programs
    assert len(forward.outputs) == 1


def test_a_jitted_function_in_a_jitted_function_is_one_program(monkeypatch):
    inner = Traced(lambda x: np.sin(x) * 2, monkeypatch)
    outer = fg.jit(lambda x: inner.jitted(x) + inner.jitted(x + 1))
    close(outer(Y), 2 * np.sin(Y) + 2 * np.sin(Y + 1))
    assert inner.traces == 1
    assert inner.compilations == 1
    assert names(inner.programs[0]).count("sin") == 2
    recursive = fg.jit(lambda x, n: x if n == 0 else recursive(x * 2, n - 1), static_argnums=1)
    exactly(recursive(Y, 3), 8 * Y)


def test_a_zero_cotangent_costs_nothing(monkeypatch):
    f = Traced(lambda x: (np.sum(np.sin(x)), np.sum(np.exp(x))), monkeypatch)
    close(fg.grad(lambda x: f.jitted(x)[0])(Y), np.cos(Y))
    close(fg.grad(lambda x: f.jitted(x)[1])(Y), np.exp(Y))
    _, first, second = f.programs
    assert len(first.inputs) == len(second.inputs)
    assert len(first.equations) < 8


# ---- nesting -------------------------------------------------------------------------------------


def test_inside_and_around_a_recording():
    f = fg.jit(lambda x, w: np.sum(np.tanh(x * w)))
    x, w = fg.tensor(Y), fg.tensor(0.5)
    gm = fg.GradManager().attach([x, w])
    with gm:
        gm.backward(f(x, w))
    s = 1 - np.tanh(Y * 0.5) ** 2
    close(x.grad, 0.5 * s)
    close(w.grad, np.sum(Y * s))
    outer, inner = fg.GradManager().attach(w), fg.GradManager().attach(x)
    x.grad = w.grad = None
    with outer:
        with inner:
            inner.backward(f(x, w))
        outer.backward(x.grad.sum())
    d = lambda w: np.sum(w * (1 - np.tanh(Y * w) ** 2))
    close(w.grad, differences(d, 0.5), rtol=1e-6)
    first, second = fg.GradManager().attach(x), fg.GradManager().attach(x)
    x.grad = None
    with first | second:
        out = f(x, w)
        first.backward(out)
        second.backward(out)
    close(x.grad, 2 * 0.5 * s)

    @fg.jit
    def inside(x):
        leaf = x * 1.0
        with fg.GradManager().attach(leaf) as gm:
            gm.backward(f(leaf, 0.5))
        return leaf.grad

    close(inside(Y), 0.5 * s)
    close(fg.vmap(inside)(X), 0.5 * (1 - np.tanh(X * 0.5) ** 2))


def test_per_sample_gradients():
    f = fg.jit(lambda x, w: np.tanh(x @ w))
    w = fg.tensor(Y)
    gm = fg.GradManager().attach(w)
    with gm:
        gm.backward(f(X, w), per_sample=True)
    close(w.grad, (1 - np.tanh(X @ Y) ** 2)[:, None] * X)


def test_checkpoint_around_and_inside():
    f = lambda x: np.sum(np.sin(np.exp(x)))
    expected = np.cos(np.exp(Y)) * np.exp(Y)
    for g in (fg.checkpoint(fg.jit(f)), fg.jit(fg.checkpoint(f)), fg.jit(fg.checkpoint(fg.jit(f)))):
        close(fg.grad(g)(Y), expected)
        close(fg.jit(fg.grad(g))(Y), expected)
        close(fg.hessian(g)(Y), fg.hessian(f)(Y))
    w = fg.tensor(2.0)
    gm = fg.GradManager().attach(w)
    with gm:
        gm.backward(fg.checkpoint(fg.jit(lambda x: f(x * w)))(Y))
    close(w.grad, np.sum(Y * np.cos(np.exp(2 * Y)) * np.exp(2 * Y)))


def test_several_outputs_and_integers_among_them():
    f = fg.jit(lambda x: {"a": np.argsort(x), "b": x[np.argsort(-x)] * Y, "c": (x > 1, 3, x.sum())})
    loss = lambda x: np.sum(f(x)["b"]) * f(x)["c"][2]
    order = np.argsort(np.argsort(-Y))
    close(fg.grad(loss)(Y), Y[order] * Y.sum() + np.sum(Y[::-1] * Y))
    out = fg.vmap(f)(np.stack([Y, -Y]))
    exactly(out["a"], [[0, 1, 2], [2, 1, 0]])
    exactly(out["c"][0], [[False, True, True], [False] * 3])


def test_functions_without_arguments_or_gradient():
    f = fg.jit(lambda: (np.ones(2), 3))
    exactly(f()[0], np.ones(2))
    g = fg.jit(lambda x: (np.floor(x).sum(), np.ones(())))
    close(fg.grad(lambda x: g(x)[0] + (x * x).sum())(Y), 2 * Y)
    close(fg.grad(lambda x: g(x)[1] * 1.0)(Y), 0 * Y)
    close(fg.vmap(lambda x: fg.jit(lambda: np.ones(3))() * x)(Y), np.ones((3, 3)) * Y[:, None])
    close(fg.jvp(lambda x: g(x)[0], (Y,), (Y,))[1], 0.0)


def test_complex_functions():
    z = np.array([1 + 2j, 0.5 - 1j])
    f = lambda z: np.sum(np.abs(z) ** 2) + np.real(np.prod(z))
    close(fg.grad(fg.jit(f))(z), fg.grad(f)(z))
    g = lambda z: np.sum(z**3 * np.exp(z))
    close(fg.grad(fg.jit(g), holomorphic=True)(z), 3 * z**2 * np.exp(z) + z**3 * np.exp(z))
    close(fg.jit(fg.grad(g, holomorphic=True))(z), 3 * z**2 * np.exp(z) + z**3 * np.exp(z))


def test_linear_transpose_and_linearize():
    f = fg.jit(lambda x: 3.0 * x[::-1] + np.sum(x))
    (out,) = fg.linear_transpose(f, Y)(Y)
    close(out, 3.0 * Y[::-1] + np.sum(Y))
    value, push = fg.linearize(fg.jit(np.sin), Y)
    close(value, np.sin(Y))
    close(push(X[0]), np.cos(Y) * X[0])


def test_singular_slopes_behind_where():
    f = fg.jit(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)))
    x = np.array([0.0, 4.0])
    close(fg.grad(f)(x), [0.0, 0.25])
    close(fg.jit(fg.grad(f))(x), [0.0, 0.25])
    close(fg.jvp(f, (x,), (np.ones(2),))[1], 0.25)


def test_equal_eigenvalues():
    a, t = np.diag([1.0, 1.0, 2.0]), np.arange(9.0).reshape(3, 3)

    def projector(a):
        v = np.linalg.eigh(a)[1][:, :2]
        return np.sum((v @ v.T) * t)

    vectors = lambda a: np.sum(np.linalg.eigh(a)[1] * t)
    modes = [fg.grad, lambda f: lambda a: fg.jvp(f, (a,), (t + t.T,))[1], fg.jacfwd]
    for mode in modes:
        expected = mode(projector)(a)
        close(mode(fg.jit(projector))(a), expected)
        close(fg.jit(mode(projector))(a), expected)
        for f in (mode(vectors), mode(fg.jit(vectors))):
            with pytest.raises(np.linalg.LinAlgError):
                f(a)
    with pytest.raises(np.linalg.LinAlgError):
        fg.jit(fg.grad(vectors))(a)


# ---- rules of the user ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", RULED)
def test_rules_of_the_user_hold(name):
    f, slope = RULED[name]
    x = np.array([1.2, -2.4])
    for g in (fg.jit(f), fg.jit(fg.jit(f)), fg.jit(lambda x: fg.make_graph(f)(x)(x))):
        for v in x:
            close(g(v), f(v))
            close(fg.grad(g)(v), slope(v))
            close(fg.jit(fg.grad(g))(v), slope(v))
            close(fg.jvp(g, (v,), (2.0,))[1], 2.0 * slope(v))
            square = lambda f: fg.grad(fg.grad(lambda x: f(x) ** 2))(v)
            close(square(g), square(f))
        close(fg.vmap(g)(x), f(x))
        close(fg.vmap(fg.grad(g))(x), slope(x))
        close(fg.grad(lambda x: np.sum(fg.vmap(g)(x)))(x), slope(x))
        close(fg.jacrev(fg.jit(fg.vmap(g)))(x), np.diag(slope(x)))
        t = fg.tensor(1.2)
        with fg.GradManager().attach(t) as gm:
            gm.backward(g(t))
        close(t.grad, slope(1.2))


def test_what_a_rule_saves_runs_once(monkeypatch):
    calls = []
    rule = fg.custom_vjp(lambda x: np.exp(x))
    rule.defvjp(lambda x: ((y := np.exp(x)), y), lambda y, ct: (calls.append(1) or 2.0 * y * ct,))
    f = fg.jit(lambda x: np.sum(rule(x)))
    for _ in range(3):
        close(fg.grad(f)(Y), 2.0 * np.exp(Y))
    assert len(calls) == 1


# ---- control flow, randomness, axes --------------------------------------------------------------


def rnn(w, xs):
    return fg.lax.scan(lambda h, x: ((h := np.tanh(w @ h + x)), h), xs[0] * 0, xs)[1]


FLOWS = {
    "cond": lambda x: fg.lax.cond(x[0] > 0.5, np.sin, np.cos, x).sum(),
    "switch": lambda x: fg.lax.switch(x[0].astype(int), [np.sin, np.cos, np.exp], x).sum(),
    "fori_loop": lambda x: fg.lax.fori_loop(0, 3, lambda i, v: np.sin(v) * x, x).sum(),
    "while_loop": lambda x: fg.lax.while_loop(lambda v: np.sum(v) < 100, lambda v: v * x + 1, x).sum(),
    "scan": lambda x: rnn(np.outer(x, x) / 10, np.stack([x, 2 * x])).sum(),
    "map": lambda x: fg.lax.map(lambda v: np.sin(v) * x[0], x).sum(),
    "associative_scan": lambda x: fg.lax.associative_scan(np.multiply, x).sum(),
    "in a loop": lambda x: fg.lax.fori_loop(0, 3, lambda i, v: fg.jit(np.sin)(v) * x, x).sum(),
}


@pytest.mark.parametrize("name", FLOWS)
def test_control_flow(name):
    f, x = FLOWS[name], Y + 0.3  # where no branch is about to change
    g = fg.jit(f)
    expected = differences(f, x, 1e-6)
    for h in (f, g):
        close(h(x), f(x))
        close(fg.grad(h)(x), expected, rtol=1e-6)
        close(fg.jit(fg.grad(h))(x), expected, rtol=1e-6)
    rows = X + 1
    close(fg.vmap(g)(rows), [f(x) for x in rows])
    close(fg.vmap(fg.grad(g))(rows), [fg.grad(f)(x) for x in rows])
    if name != "while_loop":
        close(fg.hessian(g)(x), fg.hessian(f)(x))


def test_random_numbers_from_keys():
    f = fg.jit(lambda key, m: fg.random.normal(key, m, 2.0, size=(4,)))
    a, b = fg.random.split(fg.random.key(3))
    close(f(a, 1.0), fg.random.normal(a, 1.0, 2.0, size=(4,)))
    assert not np.allclose(f(a, 1.0), f(b, 1.0))
    close(fg.grad(lambda m: f(a, m).sum())(1.0), 4.0)
    close(fg.vmap(f, (0, None))(np.stack([a, b]), 0.0), [f(a, 0.0), f(b, 0.0)])
    with pytest.raises(TypeError, match="Generator inside jit"):
        fg.jit(lambda x: x + fg.random.normal(np.random.default_rng(0), size=3))(Y)


def test_axes_with_names():
    center = lambda x: x - fg.lax.pmean(x, "i")
    close(fg.jit(fg.vmap(center, axis_name="i"))(Y), Y - 2.0)
    for _ in range(2):
        close(fg.vmap(fg.jit(center), axis_name="i")(Y), Y - 2.0)  # it runs with all examples, not compiled
    close(fg.vmap(lambda x: fg.jit(lambda: x - fg.lax.axis_index("i"))(), axis_name="i")(Y), [1.0, 1.0, 1.0])
    loss = lambda x: np.sum(fg.vmap(fg.jit(lambda x: fg.lax.psum(x * x, "i") * x), axis_name="i")(x))
    close(fg.grad(loss)(Y), differences(lambda x: np.sum(x * x) * np.sum(x), Y), rtol=1e-7)
    with pytest.raises(TypeError, match=r"pmean.*traced inside.*jit\(vmap"):
        fg.vmap(lambda x: fg.make_graph(center)(1.0)(x), axis_name="i")(Y)


def test_values_of_a_batch_around():
    outer = lambda w: fg.jit(lambda x: x * w + w)(2.0)
    close(fg.vmap(outer)(Y), 3 * Y)
    close(fg.vmap(fg.grad(lambda w: outer(w) * w))(Y), 6 * Y)
    close(fg.jit(fg.vmap(outer))(Y), 3 * Y)
    table = fg.vmap(lambda x: fg.vmap(lambda y: fg.jit(np.multiply)(x, y))(Y))(Y)
    close(table, np.outer(Y, Y))
    f = fg.jit(lambda x, y: np.sin(x) * y)
    close(fg.vmap(fg.vmap(f, (None, 0)), (0, None))(Y, Y), np.outer(np.sin(Y), Y))
    close(fg.jacfwd(fg.vmap(fg.grad(f)))(Y, Y), np.diag(-np.sin(Y) * Y))


def test_orders_of_differentiation():
    f = fg.jit(lambda x: x**6)
    g = f
    for order, expected in zip(range(1, 5), (6.0, 30.0, 120.0, 360.0), strict=True):
        g = fg.grad(g)
        close(g(1.0), expected)
        assert order
    F = lambda f: lambda x: fg.jvp(f, (x,), (1.0,))[1]
    for nest in itertools.product([fg.grad, F, fg.jit], repeat=3):
        h = f
        for t in nest:
            h = t(h)
        orders = sum(t is not fg.jit for t in nest)
        close(h(1.0), [1.0, 6.0, 30.0, 120.0][orders])


def test_pure_callbacks():
    def count(v):
        return np.asarray(np.sum(v > 1.5), float)

    f = fg.jit(
        lambda x: x * fg.pure_callback(count, np.zeros(()), fg.stop_gradient(x), vmap_method="sequential")
    )
    close(f(Y), 2 * Y)
    close(fg.vmap(f)(np.stack([Y, 2 * Y])), [2 * Y, 6 * Y])
    close(fg.grad(lambda x: f(x).sum())(Y), [2.0, 2.0, 2.0])


def test_a_procedure_prints_its_program():
    program = fg.make_graph(lambda x: np.sin(x))(Y)
    assert "sin" in str(Procedure(program))
