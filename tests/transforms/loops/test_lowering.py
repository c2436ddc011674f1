"""Lowered programs: plain loops and branches that compute what the eager loops do, with no step too many."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.helpers import close, differences, exactly
from tests.lax.test_control import BATCH, PROGRAMS, XS, W

import fgrad as fg
from fgrad import lax
from fgrad.compiler.simplify import simplify
from fgrad.core.aval import Aval
from fgrad.core.control_flow import Back, Branches, Mapped, Scan, While, programs_of
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Program, Var
from fgrad.transforms.loops.lowering import lower

# ---- functions of (w, xs), beside those of test_control -------------------------------------------


def nested(w, xs):
    """A scan in a branch in a while loop, over integers and floats."""

    def inner(v):
        return lax.scan(lambda c, x: (np.sin(w @ c + x), np.sum(c)), v, xs[:3])

    def step(carry):
        n, v, total = carry
        c, ys = lax.cond(n % 2 == 0, inner, lambda v: (v * 0.5, np.stack([np.sum(v * w)] * 3)), v)
        return n + 1, c, total + np.sum(ys**2)

    n, v, total = lax.while_loop(lambda c: (c[0] < 3) & (c[2] < 40.0), step, (0, xs[0], 0.0))
    return np.sum(v) * total + np.where(n > 2, np.sum(v), np.sum(v) * 0.5)


def nested_plainly(w, xs):
    n, v, total = 0, xs[0], 0.0
    while n < 3 and float(fg.stop_gradient(total)) < 40.0:
        if n % 2 == 0:
            ys = []
            for x in xs[:3]:
                ys.append(np.sum(v))
                v = np.sin(w @ v + x)
        else:
            ys = [np.sum(v * w)] * 3
            v = v * 0.5
        n, total = n + 1, total + sum(y**2 for y in ys)
    return np.sum(v) * total + np.sum(v) * (1.0 if n > 2 else 0.5)


def looped_while(w, xs):
    """A while loop in each step of a scan, some of no step."""

    def step(c, x):
        k, v = c
        stop = np.sum(x) * 3
        _, v = lax.while_loop(lambda s: s[0] < stop, lambda s: (s[0] + 1, np.tanh(w @ s[1]) + x), (0, v))
        return (k + 1, v), np.where(k > 1, v, v * 0.5)

    (_, v), ys = lax.scan(step, (0, xs[0]), xs, reverse=True)
    return np.sum(v**2) + np.sum(ys**3)


def looped_while_plainly(w, xs):
    v, total = xs[0], 0.0
    for k, x in enumerate(xs[::-1]):
        s = 0
        while s < float(fg.stop_gradient(np.sum(x))) * 3:
            s, v = s + 1, np.tanh(w @ v) + x
        total = total + np.sum((v if k > 1 else v * 0.5) ** 3)
    return np.sum(v**2) + total


def chosen_scans(w, xs):
    """Branches that save different values, one of none."""
    fs = [
        lambda v: v * 2.0,
        lambda v: lax.scan(lambda c, x: (c * x, None), v, xs)[0],
        lambda v: np.exp(-v) * np.sin(w @ v),
    ]
    pick = lambda x, v: lax.switch(np.argmax(np.concatenate([x, x[:1] * 0.5])), fs, v)
    return np.sum(pick(xs[0], xs[1]) * pick(xs[1], xs[2]) + pick(xs[3], xs[0]))


def chosen_scans_plainly(w, xs):
    def product(v):
        for x in xs:
            v = v * x
        return v

    fs = [lambda v: v * 2.0, product, lambda v: np.exp(-v) * np.sin(w @ v)]
    pick = lambda x, v: fs[int(np.argmax(np.concatenate([x, x[:1] * 0.5])))](v)
    return np.sum(pick(xs[0], xs[1]) * pick(xs[1], xs[2]) + pick(xs[3], xs[0]))


def empty(w, xs):
    c, ys = lax.scan(lambda c, x: (np.sin(w @ c + x), c), xs[0], xs[:0])
    v = lax.while_loop(lambda v: np.sum(v) * 0 > 1.0, lambda v: w @ v, c)
    return np.sum(v**2 * w) + np.sum(ys)


def empty_plainly(w, xs):
    return np.sum(xs[0] ** 2 * w)


PLAIN = {name: pair for name, pair in PROGRAMS.items() if "parts" not in name}
OWN = {
    "nested": (nested, nested_plainly),
    "while in scan": (looped_while, looped_while_plainly),
    "scans in branches": (chosen_scans, chosen_scans_plainly),
    "no steps": (empty, empty_plainly),
}


def three(xs):
    return [xs, 2 * xs, xs - 1]


def stacked(rows):
    return fg.tree.map(lambda *each: np.stack(each), *rows)


# what is lowered, of the function with loops, and what it is compared with, of that with Python's loops
MODES = {
    "value": (lambda f: f,) * 2,
    "value_and_grad": (lambda f: fg.value_and_grad(f, (0, 1)),) * 2,
    "jvp": (lambda f: lambda w, xs: fg.jvp(f, (w, xs), (w * 0.5, np.cos(xs))),) * 2,
    "grad of grad": (lambda f: fg.grad(lambda w, xs: np.sum(np.sin(fg.grad(f)(w, xs))), (0, 1)),) * 2,
    "hessian": (lambda f: fg.hessian(f, (0, 1)),) * 2,
    "vmap of grad": (
        lambda f: lambda w, xs: fg.vmap(fg.value_and_grad(f, (0, 1)), (None, 0))(w, np.stack(three(xs))),
        lambda f: lambda w, xs: stacked([fg.value_and_grad(f, (0, 1))(w, x) for x in three(xs)]),
    ),
    "grad of vmap": (
        lambda f: fg.grad(lambda w, xs: np.sum(fg.vmap(f, (None, 0))(w, np.stack(three(xs))) ** 2), (0, 1)),
        lambda f: fg.grad(lambda w, xs: sum(f(w, x) ** 2 for x in three(xs)), (0, 1)),
    ),
    "vmap of hessian": (
        lambda f: lambda w, xs: fg.vmap(fg.hessian(f), (0, None))(np.stack([w, w * 0.5]), xs),
        lambda f: lambda w, xs: stacked([fg.hessian(f)(w, xs), fg.hessian(f)(w * 0.5, xs)]),
    ),
}


def equations(program):
    """Yield every equation of a program and of those inside of it."""
    for e in program.equations:
        yield e
        for p in programs_of(e):
            yield from equations(p)


def loops(program):
    return [e for e in program.equations if isinstance(e.params.get("code"), Scan | While)]


def check_types(program):
    """Assert that every variable is made before it is used, and that codes get and give what they say."""
    known = set(program.inputs)
    for e in program.equations:
        assert all(a in known for a in e.args if isinstance(a, Var)), f"undefined in {e}"
        known.update(e.outs)
        code = e.params.get("code")
        if isinstance(code, Back | Mapped):
            continue
        inner = programs_of(e)
        if inner:
            assert [v.aval for v in e.outs] == list(code.outs)
        avals = [a.aval if isinstance(a, Var) else Aval(np.shape(a), np.asarray(a).dtype) for a in e.args]
        if isinstance(code, Branches):
            assert all([v.aval for v in p.inputs] == avals[1:] for p in inner)
        elif inner:
            body = inner[-1]
            avals = avals[len(avals) - len(body.inputs) :]
            fixed = code.consts + code.carry
            rows = [Aval(a.shape[1:], a.dtype) for a in avals[fixed:]]
            for p in inner:
                assert [v.aval for v in p.inputs] == [*avals[:fixed], *rows]
        for p in inner:
            check_types(p)


def lowered(f, *args):
    program = lower(fg.make_graph(f)(*args))
    check_types(program)
    for e in equations(program):
        assert e.name != "lax.pullback"
        assert not isinstance(e.params.get("code"), Back | Mapped)
    return program


def check(f, plainly, args, tolerance):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", fg.errors.NoGradientWarning)
        found, expected = lowered(f, *args)(*args), plainly(*args)
    for a, b in zip(fg.tree.leaves(found), fg.tree.leaves(expected), strict=True):
        size = max(1.0, float(np.max(np.abs(b), initial=0.0)))
        close(a / size, b / size, tolerance)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*PLAIN, *OWN])
def test_lowered_programs_compute_what_plain_loops_do(name, mode):
    f, plainly = {**PLAIN, **OWN}[name]
    ours, plain = MODES[mode]
    check(ours(f), plain(plainly), (W, XS), 1e-9)


@pytest.mark.parametrize("name", ["nested", "while in scan", "scans in branches"])
@pytest.mark.parametrize("mode", ["value_and_grad", "jvp", "hessian", "vmap of grad"])
def test_in_single_precision(name, mode):
    f, plainly = OWN[name]
    ours, plain = MODES[mode]
    w, xs = W.astype("f4"), XS.astype("f4")
    assert {x.dtype.name for x in fg.tree.leaves(lowered(ours(f), w, xs)(w, xs))} == {"float32"}
    check(ours(f), plain(plainly), (w, xs), 1e-4)


def test_gradients_are_differences():
    for f, plainly in OWN.values():
        found = lowered(fg.grad(f, (0, 1)), W, XS)(W, XS)
        close(found[0], differences(lambda w: plainly(w, XS), W), 1e-5)
        close(found[1], differences(lambda x: plainly(W, x), XS), 1e-5)


def test_a_program_lowered_once_serves_other_values():
    program = lowered(fg.value_and_grad(nested, (0, 1)), W, XS)
    for b in BATCH:
        for x, y in zip(
            fg.tree.leaves(program(W * 0.9, b)),
            fg.tree.leaves(fg.value_and_grad(nested_plainly, (0, 1))(W * 0.9, b)),
            strict=True,
        ):
            close(x, y, 1e-9)


# ---- how much is computed and kept -----------------------------------------------------------------


def cell(w, u, b, h, x):
    return np.tanh(x @ w + h @ u + b)


def rnn(w, u, b, xs):
    h, _ = lax.scan(lambda h, x: (cell(w, u, b, h, x), None), np.zeros(4), xs)
    return np.sum(h * h)


def rnn_arguments(n):
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 4)), rng.normal(size=(4, 4)) * 0.3, np.ones(4), rng.normal(size=(n, 3))


@pytest.fixture
def counted(monkeypatch):
    """Count how often a primitive runs."""
    counts = {}
    for name in ("tanh", "contract", "exp"):
        primitive = PRIMITIVES[name]

        def run(*args, row_run=primitive.run, name=name, **params):
            counts[name] = counts.get(name, 0) + 1
            return row_run(*args, **params)

        monkeypatch.setattr(primitive, "run", run)
    return counts


def test_every_step_runs_once_forward_and_once_in_reverse(counted):
    args = rnn_arguments(7)
    program = lowered(fg.value_and_grad(rnn, (0, 1, 2)), *args)
    counted.clear()
    program(*args)
    assert counted["tanh"] == 7
    # two products forward, one in reverse (the first carry and xs are not differentiated), two sums
    assert counted["contract"] == 2 * 7 + 7 + 2


def test_a_recurrent_cell_keeps_its_state_and_nothing_else():
    program = lowered(fg.value_and_grad(rnn, (0, 1, 2)), *rnn_arguments(7))
    forward, back = loops(program)
    assert [v.aval for v in forward.outs] == [Aval((4,), np.dtype(float)), Aval((7, 4), np.dtype(float))]
    assert [e.name for e in forward.params["code"].body.equations].count("tanh") == 1
    assert "tanh" not in [e.name for e in back.params["code"].body.equations]
    # the sums of outer products are one product each, after the loop
    assert [e.name for e in program.equations][-2:] == ["contract", "contract"]


def test_what_is_the_same_in_every_step_is_not_kept():
    def f(w, xs):
        return lax.scan(lambda c, x: (np.sin(c * np.exp(w)) + x, None), 0.1, xs)[0]

    program = lowered(fg.value_and_grad(f), 0.3, np.ones(5))
    forward, back = loops(program)
    assert [v.aval.shape for v in forward.outs] == [(), (5,)]  # the carry
    for e in (forward, back):
        assert "exp" not in [s.name for s in e.params["code"].body.equations]
    close(program(0.3, np.ones(5))[1], differences(lambda w: f(w, np.ones(5)), 0.3), 1e-7)


def test_cheap_results_are_computed_again():
    def f(w, xs):
        return lax.scan(lambda c, x: (c * np.broadcast_to(x, (50,)) * w, None), np.ones(50), xs)[0].sum()

    program = lowered(fg.value_and_grad(f), 0.9, np.ones(5))
    assert [v.aval.shape for v in loops(program)[0].outs] == [(50,), (5, 50)]  # not what x is broadcast to


def test_forward_mode_is_one_loop_that_keeps_nothing(counted):
    args = rnn_arguments(7)
    program = lowered(lambda *a: fg.jvp(rnn, a, a), *args)
    (loop,) = loops(program)
    assert [v.aval.shape for v in loop.outs] == [(4,), (4,)]
    counted.clear()
    program(*args)
    assert counted["tanh"] == 7
    assert counted["contract"] <= 6 * 7  # two of the value, four of the tangent
    power = lambda x: lax.while_loop(lambda v: v < 100.0, lambda v: v * x, x)
    program = lowered(lambda x: fg.jvp(power, (x,), (1.0,)), 2.0)
    (loop,) = loops(program)
    assert [v.aval.shape for v in loop.outs] == [(), ()]
    close(program(2.0), [128.0, 7 * 2.0**6])


def test_a_reversed_while_loop_runs_each_step_once(counted):
    def f(x):
        return lax.while_loop(lambda v: v[1] < 6, lambda v: (np.exp(-v[0] * x), v[1] + 1), (x, 0))[0]

    program = lowered(fg.value_and_grad(f), 0.7)
    counted.clear()
    close(program(0.7)[1], differences(f, 0.7), 1e-7)
    assert counted["exp"] == 6


def test_a_counter_is_no_reason_to_mask():
    def f(x):
        return lax.while_loop(lambda v: v[1] < 6, lambda v: (np.sin(v[0] * x), v[1] + 1), (x, 0))[0]

    program = lowered(fg.vmap(fg.grad(f)), np.ones(3))
    assert "where" not in [e.name for e in equations(program)]
    close(program(np.full(3, 0.7)), np.full(3, differences(f, 0.7)), 1e-7)


@pytest.mark.parametrize("mode", ["value_and_grad", "jvp", "hessian", "grad of vmap"])
def test_a_long_scan_is_lowered_like_a_short_one(mode):
    def f(w, xs):
        return lax.scan(lambda c, x: (np.tanh(w @ c + x), np.sum(c)), xs[0], xs)[1].sum()

    counts = {
        n: len(list(equations(lowered(MODES[mode][0](f), W, np.resize(XS, (n, 2)))))) for n in (10, 1000)
    }
    assert counts[10] == counts[1000]


def test_branches_share_the_room_for_what_they_keep(counted):
    def f(x):
        fs = [lambda v: np.exp(-np.exp(v)), lambda v: np.tanh(np.tanh(v)), lambda v: v * 2.0]
        return np.sum(lax.switch(x[0].astype(int), fs, x))

    program = lowered(fg.value_and_grad(f), np.ones(3))
    forward, _ = (e for e in program.equations if e.name == "lax.cond")
    assert [v.aval.shape for v in forward.outs] == [(3,), (3,)]  # the result, and one value of either branch
    for x, name in ((0.2, "exp"), (1.2, "tanh"), (2.2, "")):
        counted.clear()
        close(program(np.full(3, x))[1], np.diag(differences(f_of(x), np.full(3, x))), 1e-6)
        assert counted == ({name: 2} if name else {})


def f_of(x):
    g = [lambda v: np.exp(-np.exp(v)), lambda v: np.tanh(np.tanh(v)), lambda v: v * 2.0]
    return g[int(x)]


def test_unused_results_and_gradients_are_not_computed():
    def f(w, xs):
        (a, _, _), _ = lax.scan(
            lambda c, x: ((np.sin(c[0] * w), c[1] * np.exp(x), c[2] + 1), (c[1], np.tanh(x))),
            (1.0, 1.0, 0),
            xs,
        )
        return a

    program = lowered(fg.value_and_grad(f), 0.5, np.ones(4))
    names = {e.name for e in equations(program)}
    assert not names & {"exp", "tanh"}
    assert [len(e.outs) for e in loops(program)] == [2, 2]


# ---- what is not lowered, or needs care ----------------------------------------------------------------


def test_a_checkpointed_scan_keeps_its_promise():
    f, plainly = PROGRAMS["scan in parts"]
    program = lower(fg.make_graph(fg.grad(f))(W, XS))
    codes = [e.params["code"] for e in program.equations if e.name == "lax.pullback"]
    assert [type(c) for c in codes] == [Back]
    assert codes[0].code.checkpoint == 2
    close(program(W, XS), fg.grad(plainly)(W, XS), 1e-9)


@fg.custom_vjp
def limited(x):
    return x * 2.0


limited.defvjp(lambda x: (x * 2.0, x), lambda x, ct: (ct * 10.0 * x,))


def by_hand(w):
    c = w
    for _ in range(3):
        c = limited(c) * w
    return c


def in_scan(w):
    return lax.scan(lambda c, _: (limited(c) * w, None), w, None, 3)[0]


def test_a_derivative_of_its_own_stays():
    xs = np.array([0.5, 0.7])
    close(lowered(fg.grad(in_scan), 0.5)(0.5), fg.grad(by_hand)(0.5))
    for mode in (
        lambda f: fg.vmap(fg.grad(f)),
        lambda f: fg.grad(lambda x: np.sum(fg.vmap(f)(x))),
        lambda f: fg.grad(
            lambda x: np.sum(fg.vmap(lambda v: lax.cond(v > 0.6, f, lambda v: f(v) * 3.0, v))(x))
        ),
    ):
        expected = mode(by_hand)(xs)
        assert np.all(expected > 20.0)  # the rule's, not that of x * 2
        close(lowered(mode(in_scan), xs)(xs), expected)
    second = lower(fg.make_graph(fg.grad(fg.grad(in_scan)))(0.5))
    close(second(0.5), fg.grad(fg.grad(by_hand))(0.5))


def test_a_rule_that_looks_at_values_is_left_to_python():
    @fg.custom_vjp
    def f(x):
        return x * 2.0

    f.defvjp(lambda x: (x * 2.0, x), lambda x, ct: (ct * 5.0 if float(x) > 0 else ct,))
    program = lower(fg.make_graph(fg.grad(lambda w: lax.scan(lambda c, _: (f(c), None), w, None, 2)[0]))(1.0))
    assert "lax.pullback" in [e.name for e in program.equations]
    close(program(1.0), 25.0)
    close(program(-1.0), 1.0)


def test_effects_happen_once(capsys):
    def step(c, _):
        fg.debug.print("{}", c)
        return c * 2.0, None

    program = lowered(fg.value_and_grad(lambda w: lax.scan(step, w, None, 3)[0] * w), 1.0)
    close(program(1.0)[1], 16.0)
    assert capsys.readouterr().out.split() == ["1.0", "2.0", "4.0"]


def test_solvers_stay_as_they_are():
    def root(a):
        newton = lambda f, x: np.cbrt(8.0)
        return lax.custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))

    program = lower(fg.make_graph(fg.grad(lambda a: lax.cond(a > 0, root, lambda a: a, a)))(8.0))
    close(program(8.0), 1 / 12)


def test_inner_programs_are_simplified():
    seen = []

    def simplified(program):
        seen.append(program)
        return Program(program.inputs, program.equations, program.outputs, (None, None))

    program = lower(fg.make_graph(fg.grad(nested))(W, XS), simplified)
    inner = {id(p) for e in equations(program) for p in programs_of(e)}
    assert len(inner) == len(seen)
    close(program(W, XS), fg.grad(nested_plainly)(W, XS), 1e-9)


def test_large_constants_are_known_to_be_equal():
    table = np.random.default_rng(0).normal(size=(6, 1000))
    f = lambda w: np.sum(lax.scan(lambda c, x: (np.tanh(c * w + x), None), np.zeros(1000), table)[0])
    program = lowered(fg.value_and_grad(f), np.ones(1000))
    assert len(loops(program)) == 2


def test_a_scan_of_no_steps_may_close_over_examples():
    f = lambda w: lax.scan(lambda c, x: (c, c * w * x), w, np.ones((0, 2)))[1]
    exactly(fg.vmap(f)(np.ones((3, 2))), np.zeros((3, 0, 2)))


@pytest.mark.parametrize("name", ["scan", "while_loop", "cond", "nested", "while in scan"])
@pytest.mark.parametrize("mode", ["value_and_grad", "hessian", "vmap of grad"])
def test_simplified_before_and_after(name, mode):
    f, plainly = {**PLAIN, **OWN}[name]
    ours, plain = MODES[mode]
    program = fg.make_graph(ours(f))(W, XS)
    made = simplify(lower(simplify(program), simplify))
    check_types(made)
    assert len(list(equations(made))) <= len(list(equations(lower(program))))
    for a, b in zip(fg.tree.leaves(made(W, XS)), fg.tree.leaves(plain(plainly)(W, XS)), strict=True):
        size = max(1.0, float(np.max(np.abs(b), initial=0.0)))
        close(a / size, b / size, 1e-9)


def test_a_scan_of_no_steps_that_takes_values_from_around():
    f = lambda x: fg.lax.scan(lambda c, y: (c + y * x[1], (c * y, c)), x[0], x[1:1])
    x = np.arange(1.0, 4.0)
    for run in (f, fg.jit(f)):
        carry, (a, b) = run(x)
        assert carry == 1.0
        assert a.shape == b.shape == (0,)
        np.testing.assert_array_equal(fg.grad(lambda x, run=run: run(x)[0])(x), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(fg.jit(fg.vmap(f))(np.stack([x, 2 * x]))[0], [1.0, 2.0])
