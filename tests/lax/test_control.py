"""fgrad.lax: branches and loops against plain Python, eagerly, mapped and staged."""

from __future__ import annotations

import functools
import itertools
import signal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import close, differences, exactly, grouped, is_numpy

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax

W = np.array([[0.3, 0.5], [0.2, -0.7]])
XS = np.random.default_rng(1).normal(size=(5, 2))
BATCH = np.stack([XS, 2 * XS, XS - 1])


def scanned(w, xs, **options):
    def step(c, x):
        c = np.tanh(w @ c + x)
        return c, {"twice": 2 * c, "sum": np.sum(c)}

    c, ys = lax.scan(step, np.full(2, 0.1), xs, **options)
    return np.sum(c**2) + np.sum(ys["twice"] ** 3) * np.sum(ys["sum"] * np.arange(5.0))


def looped(w, xs, reverse=False, checkpoint=None):
    c, twice, sums = np.full(2, 0.1), [None] * 5, [None] * 5
    for i in range(4, -1, -1) if reverse else range(5):
        c = np.tanh(w @ c + xs[i])
        twice[i], sums[i] = 2 * c, np.sum(c)
    return np.sum(c**2) + sum(np.sum(t**3) for t in twice) * sum(s * i for i, s in enumerate(sums))


def branched(w, xs):
    f = lambda op, x: lax.cond(np.sum(x) > 0.0, op, lambda v: np.sum(v**3), x)
    return f(lambda v: np.sum(np.sin(w @ v)), xs[0]) * f(lambda v: np.sum(w) * v[0], xs[1])


def branched_plainly(w, xs):
    f = lambda op, x: op(x) if np.sum(fg.tree.map(fg.stop_gradient, x)) > 0.0 else np.sum(x**3)
    return f(lambda v: np.sum(np.sin(w @ v)), xs[0]) * f(lambda v: np.sum(w) * v[0], xs[1])


def repeated(w, xs):
    start = (xs[0] * 1.1, 0)
    x, n = lax.while_loop(
        lambda v: np.sum(v[0] ** 2) < 50.0, lambda v: (v[0] * 1.3 + np.sum(w), v[1] + 1), start
    )
    return np.sum(x) * (1.0 + n)


def repeated_plainly(w, xs):
    x, n = xs[0] * 1.1, 0
    while np.sum(x**2) < 50.0:
        x, n = x * 1.3 + np.sum(w), n + 1
    return np.sum(x) * (1.0 + n)


def counted(w, xs):
    return np.sum(lax.fori_loop(1, 4, lambda i, v: np.sin(w @ v) * i + xs[i], xs[0]))


def counted_plainly(w, xs):
    v = xs[0]
    for i in range(1, 4):
        v = np.sin(w @ v) * i + xs[i]
    return np.sum(v)


def switched(w, xs):
    return np.sum(lax.switch(np.argmax(xs[0]), [lambda v: w @ v, lambda v: v**2], xs[1]))


def switched_plainly(w, xs):
    return np.sum([lambda v: w @ v, lambda v: v**2][int(np.argmax(xs[0]))](xs[1]))


def multiplied(w, xs):
    return np.sum(lax.associative_scan(lambda a, b: np.matmul(a, b), w + xs[:, :, None]) ** 2)


def multiplied_plainly(w, xs):
    parts = itertools.accumulate((w + x[:, None] for x in xs), np.matmul)
    return sum(np.sum(p**2) for p in parts)


PROGRAMS = {
    "scan": (scanned, looped),
    "scan in reverse": (functools.partial(scanned, reverse=True), functools.partial(looped, reverse=True)),
    "scan in parts": (functools.partial(scanned, checkpoint=2), looped),
    "scan in parts in reverse": (
        functools.partial(scanned, checkpoint=True, reverse=True),
        functools.partial(looped, reverse=True),
    ),
    "cond": (branched, branched_plainly),
    "while_loop": (repeated, repeated_plainly),
    "fori_loop": (counted, counted_plainly),
    "switch": (switched, switched_plainly),
    "map": (
        lambda w, xs: np.sum(lax.map(lambda x: np.sin(w @ x), xs, batch_size=2)),
        lambda w, xs: sum(np.sum(np.sin(w @ x)) for x in xs),
    ),
    "associative_scan": (multiplied, multiplied_plainly),
}


@pytest.fixture(params=PROGRAMS)
def pair(request):
    return PROGRAMS[request.param]


def test_values_and_gradients_are_those_of_the_plain_loop(pair):
    f, plainly = pair
    exactly(f(W, XS) * 0, 0.0)
    close(f(W, XS), plainly(W, XS), 1e-12)
    assert is_numpy(f(W, XS))
    assert isinstance(f(fg.tensor(W), fg.tensor(XS)), fg.Tensor)
    gradients = fg.grad(f, (0, 1))(W, XS)
    close(gradients[0], differences(lambda w: plainly(w, XS), W), 1e-6)
    close(gradients[1], differences(lambda x: plainly(W, x), XS), 1e-6)


def test_second_order_and_forward_mode(pair):
    f, plainly = pair
    expected = fg.hessian(plainly)(W, XS)
    close(expected, differences(fg.grad(lambda w: plainly(w, XS)), W, 1e-5), 1e-4)
    close(fg.hessian(f)(W, XS), expected, 1e-8)
    close(fg.jacrev(fg.grad(f))(W, XS), expected, 1e-8)
    close(fg.jvp(lambda w: f(w, XS), (W,), (W,))[1], np.sum(W * fg.grad(plainly)(W, XS)), 1e-9)


def test_mapped(pair):
    f, plainly = pair
    close(fg.vmap(f, (None, 0))(W, BATCH), [plainly(W, b) for b in BATCH], 1e-9)
    close(fg.vmap(fg.grad(f), (None, 0))(W, BATCH), [fg.grad(plainly)(W, b) for b in BATCH], 1e-9)
    total = fg.grad(lambda w: np.sum(fg.vmap(lambda b: f(w, b))(BATCH)))(W)
    close(total, sum(fg.grad(plainly)(W, b) for b in BATCH), 1e-9)


def test_staged(pair):
    f, plainly = pair
    program = fg.make_graph(f)(W, XS)
    for b in BATCH:
        close(program(W, b), plainly(W, b), 1e-9)
        close(fg.grad(program)(W, b), fg.grad(plainly)(W, b), 1e-9)
        close(fg.make_graph(fg.grad(f))(W, XS)(W, b), fg.grad(plainly)(W, b), 1e-9)
    close(fg.hessian(program)(W, XS), fg.hessian(plainly)(W, XS), 1e-8)
    close(fg.make_graph(fg.hessian(f))(W, XS)(W, XS), fg.hessian(plainly)(W, XS), 1e-8)
    per_example = [fg.grad(plainly)(W, b) for b in BATCH]
    close(fg.vmap(fg.grad(program), (None, 0))(W, BATCH), per_example, 1e-9)
    mapped = fg.make_graph(fg.vmap(fg.grad(f), (None, 0)))(W, BATCH)
    close(mapped(W, BATCH), per_example, 1e-9)
    again = fg.make_graph(program)(W, XS)
    close(again(W, BATCH[1]), plainly(W, BATCH[1]), 1e-9)


@pytest.mark.parametrize("name", ["scan", "while_loop", "cond", "fori_loop"])
def test_is_one_operation_of_a_program(name):
    program = fg.make_graph(PROGRAMS[name][0])(W, XS)
    rows = [e.name for e in program.equations if e.name.startswith("lax.")]
    assert rows == ["lax." + {"fori_loop": "scan"}.get(name, name)] * (2 if name == "cond" else 1)
    assert "program(" in str(program)
    reverse = fg.make_graph(fg.grad(PROGRAMS[name][0]))(W, XS)
    assert "lax.pullback" in [e.name for e in reverse.equations]


def test_a_gradient_inside_a_staged_loop():
    def newton(x):
        f = lambda z: z**3 - x
        return lax.fori_loop(0, 8, lambda _, z: z - f(z) / fg.grad(f)(z), 1.0)

    close(newton(8.0), 2.0)
    program = fg.make_graph(newton)(8.0)
    close(program(8.0), 2.0)
    close(fg.grad(program)(8.0), fg.grad(newton)(8.0))
    close(fg.grad(newton)(8.0), 1 / 12, 1e-7)


def test_values_from_outside_of_a_staged_loop_get_their_gradients():
    def f(w):
        program = fg.make_graph(lambda x: lax.scan(lambda c, _: (c * x, None), 1.0, length=3)[0])(2.0)
        return program(w)

    close(fg.grad(f)(2.0), 12.0)
    manager = fg.GradManager()
    w = fg.tensor(2.0)
    with manager.attach(w):
        manager.backward(lax.scan(lambda c, x: (c * w, c * x), 1.0, np.arange(3.0))[0])
    close(w.grad, 12.0)


@fg.custom_vjp
def tripled(x):
    return np.sin(x)


tripled.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (3.0 * np.cos(x) * ct,))


class Fourfold(fg.Function):
    def forward(self, x):
        self.x = x
        return np.sin(x), x

    def backward(self, ct, _):
        return 4.0 * np.cos(self.x) * ct


@pytest.mark.parametrize("rule, factor", [(tripled, 3.0), (lambda x: Fourfold()(x)[0], 4.0)])
def test_rules_of_the_user_hold_inside(rule, factor):
    f = lambda x: lax.cond(x < 9.0, lambda x: lax.fori_loop(0, 2, lambda _, v: rule(v), x), lambda x: x, x)
    slope = lambda x: factor**2 * np.cos(np.sin(x)) * np.cos(x)
    xs = np.array([0.3, 0.5])
    close(fg.grad(f)(0.3), slope(0.3))
    close(fg.grad(fg.make_graph(f)(0.1))(0.3), slope(0.3))
    close(fg.make_graph(fg.grad(f))(0.1)(0.3), slope(0.3))
    close(fg.vmap(fg.grad(fg.make_graph(f)(0.1)))(xs), slope(xs))
    close(fg.make_graph(fg.vmap(fg.grad(f)))(xs)(xs), slope(xs))
    close(fg.make_graph(fg.grad(fg.grad(f)))(0.1)(0.3), fg.grad(fg.grad(f))(0.3))


def test_a_rule_that_uses_a_value_around_it_is_refused_in_derivatives_of_programs():
    def step(v, _):
        rule = fg.custom_vjp(lambda x: x * v)
        rule.defvjp(lambda x: (x * v, None), lambda _, ct: (ct,))
        return rule(2.0 * v), None

    program = fg.make_graph(lambda x: lax.scan(step, x, length=2)[0])(1.0)
    close(program(1.0), 8.0)
    with pytest.raises(fg.EscapedTensorError):
        fg.grad(program)(1.0)


# ---- scan ---------------------------------------------------------------------------------------


@given(st.integers(0, 6), st.booleans(), st.sampled_from(["float32", "float64", "complex128"]))
def test_scan_is_a_cumulative_sum(n, reverse, dtype):
    x = np.arange(1, n + 1).astype(dtype) * np.ones((3, 1), dtype)
    total, sums = lax.scan(lambda c, v: (c + v, c + v), np.zeros(3, dtype), x.T, reverse=reverse)
    expected = np.flip(np.cumsum(np.flip(x.T, 0), 0), 0) if reverse else np.cumsum(x.T, 0)
    exactly(sums, expected)
    exactly(total, np.sum(x.T, 0, dtype=dtype))


def test_scan_of_trees_without_elements_or_without_results():
    carry, ys = lax.scan(lambda c, _: ({"n": c["n"] + 1}, None), {"n": 0}, length=4)
    assert (int(carry["n"]), ys) == (4, None)
    carry, ys = lax.scan(
        lambda c, x: (c, (x["a"], x["b"] + c)), 1.0, {"a": np.arange(3), "b": np.ones((3, 2))}
    )
    exactly(ys[0], np.arange(3))
    exactly(ys[1], np.full((3, 2), 2.0))


def test_scan_of_nothing_knows_its_results_nevertheless():
    carry, ys = lax.scan(lambda c, x: (c + x, (x, c[0])), np.ones(2), np.ones((0, 2)))
    exactly(carry, np.ones(2))
    assert ys[0].shape == (0, 2)
    assert ys[1].shape == (0,)


def test_scan_of_nothing_draws_nothing():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    step = lambda c, x: (fg.nn.dropout(c, 0.5, rng), fg.random.normal(rng, (2,)) * x)
    _, ys = lax.scan(step, np.ones(3), np.zeros((0, 2)))
    assert ys.shape == (0, 2)
    assert rng.bit_generator.state == before
    with pytest.raises(TypeError, match="inside jit would draw only once"):
        fg.jit(lambda c: lax.scan(step, c, np.zeros((0, 2))))(np.ones(3))


def test_numbers_take_the_dtype_they_get():
    x = np.ones(3, "f4")
    for f in (lax.scan, lambda *a: fg.make_graph(lambda x: lax.scan(a[0], a[1], x))(a[2])(a[2])):
        total, sums = f(lambda c, v: (c + v, c), 0, x)
        exactly(total, np.float32(3.0))
        exactly(sums, np.arange(3, dtype="f4"))


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(
    "result, words",
    [
        (lambda c: (c, c), ["structure"]),
        (lambda c: c[:2], [r"float64\[3\]", r"float64\[2\]"]),
        (lambda c: c.astype("f4"), [r"float64\[3\]", r"float32\[3\]"]),
    ],
    ids=["structure", "shape", "dtype"],
)
def test_a_carry_that_changes_is_an_error_that_names_both(result, words, staged):
    loops = {
        "scan": lambda x: lax.scan(lambda c, _: (result(c), None), x, length=2),
        "while_loop": lambda x: lax.while_loop(lambda c: np.sum(c) < 9.0, result, x),
        "fori_loop": lambda x: lax.fori_loop(0, 2, lambda _, c: result(c), x),
    }
    for name, loop in loops.items():
        with pytest.raises(TypeError) as error:
            (fg.make_graph(loop) if staged else loop)(fg.tensor(np.ones(3)))
        for word in [name if not staged or name != "fori_loop" else "scan", *words]:
            assert error.match(word)


def test_what_scan_refuses():
    with pytest.raises(TypeError, match=r"pair \(carry, y\), not ndarray"):
        lax.scan(lambda c, x: c, np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match=r"length=3, 2 of leaf 0"):
        lax.scan(lambda c, x: (c, x), 0.0, np.ones(2), length=3)
    with pytest.raises(ValueError, match="xs or length"):
        lax.scan(lambda c, x: (c, x), 0.0)
    with pytest.raises(ValueError, match="first axis of xs, but leaf 0 has none"):
        lax.scan(lambda c, x: (c, x), 0.0, 1.0)
    with pytest.raises(TypeError, match="results of one structure"):
        lax.scan(lambda c, x: (c + 1, {int(c): x}), 0, np.ones(2))
    with pytest.raises(ValueError, match="positive integer, not 0"):
        lax.scan(lambda c, x: (c, x), 0.0, np.ones(2), checkpoint=0)


# ---- branches -----------------------------------------------------------------------------------


def test_only_the_branch_that_is_taken_runs():
    calls = []
    assert lax.cond(True, lambda: calls.append(1) or 5, lambda: calls.append(2)) == 5
    assert lax.switch(9, [lambda x: calls.append(3), lambda x: x], 4) == 4
    assert lax.switch(-1, [lambda x: x, lambda x: calls.append(3)], 4) == 4
    assert calls == [1]


def test_mixed_examples_take_their_own_branches_without_harm():
    f = lambda x: lax.cond(x > 0.0, np.sqrt, lambda x: x * 0.0, x)
    x = np.array([4.0, -1.0, 0.0])
    exactly(fg.vmap(f)(x) + 0.0, [2.0, 0.0, 0.0])
    exactly(fg.vmap(fg.grad(f))(x), [0.25, 0.0, 0.0])
    g = lambda i, x: lax.switch(i, [lambda x: x, lambda x: x**2, lambda x: x**3], x)
    exactly(fg.vmap(g)(np.array([-5, 0, 1, 2, 9]), np.full(5, 2.0)), [2.0, 2.0, 4.0, 8.0, 8.0])
    exactly(fg.vmap(fg.grad(g, 1))(np.array([0, 1, 2]), np.full(3, 2.0)), [1.0, 4.0, 12.0])


def test_mixed_examples_go_on_as_long_as_each_needs():
    f = lambda x: lax.while_loop(lambda v: v < 10.0, lambda v: v * x, x)
    x = np.array([1.5, 2.0, 20.0])
    close(fg.vmap(f)(x), [1.5**6, 16.0, 20.0])
    close(fg.vmap(fg.grad(f))(x), [6 * 1.5**5, 32.0, 1.0])
    g = lambda n: lax.fori_loop(0, n, lambda i, v: v + i, 0)
    exactly(fg.vmap(g)(np.array([0, 3, 5])), [0, 3, 10])


def test_a_number_of_steps_known_only_later():
    program = fg.make_graph(lambda n, x: lax.fori_loop(0, n, lambda i, v: v * x, 1.0))(1, 1.0)
    close(program(5, 2.0), 32.0)
    close(fg.grad(program, 1)(5, 2.0), 80.0)


def test_what_branches_refuse():
    with pytest.raises(TypeError, match=r"scalar, not of shape \(2,\)"):
        lax.cond(np.ones(2) > 0, np.sin, np.cos, 1.0)
    with pytest.raises(TypeError, match="bool or number, not str"):
        lax.cond("yes", np.sin, np.cos, 1.0)
    with pytest.raises(TypeError, match="integer"):
        lax.switch(1.0, [np.sin], 1.0)
    with pytest.raises(ValueError, match="at least one branch"):
        lax.switch(0, [], 1.0)
    with pytest.raises(TypeError, match=r"leaf 0 is float32\[\] in one and float64\[\] in another"):
        fg.make_graph(lambda x: lax.cond(x > 0.0, lambda x: x, lambda x: x.astype("f4"), x))(np.ones(()))
    with pytest.raises(TypeError, match="one structure"):
        fg.vmap(lambda x: lax.cond(x > 0.0, lambda x: x, lambda x: (x,), x))(np.ones(2))
    with pytest.raises(TypeError, match="bounds of fori_loop must be integers"):
        lax.fori_loop(0, 2.0, lambda i, v: v, 0)


def test_select():
    pred, t, f = np.array([True, False]), np.array([1.0, 2.0]), np.array([3.0, 4.0])
    exactly(lax.select(pred, t, f), [1.0, 4.0])
    exactly(lax.select(True, t, f), t)
    exactly(fg.grad(lambda t: np.sum(lax.select(pred, t, f)))(t), [1.0, 0.0])
    with pytest.raises(TypeError, match="one shape and dtype"):
        lax.select(pred, t, 1.0)
    with pytest.raises(TypeError, match="bool predicate"):
        lax.select(np.array([1, 0]), t, f)


# ---- map and associative scan -------------------------------------------------------------------


@given(st.integers(1, 9), st.integers(1, 9))
def test_map_by_any_batch_size(n, size):
    x = np.arange(2.0 * n).reshape(n, 2)
    exactly(lax.map(lambda v: {"a": v * v[0]}, x, batch_size=size)["a"], x * x[:, :1])
    exactly(lax.map(lambda v: v * v[0], x), x * x[:, :1])


def test_map_refuses_a_batch_of_nothing():
    with pytest.raises(ValueError, match="batch_size must be positive"):
        lax.map(np.sin, np.ones(3), batch_size=0)


@given(st.integers(1, 17), st.booleans(), st.sampled_from([0, 1, -1]))
def test_associative_scan(n, reverse, axis):
    x = np.random.default_rng(n).uniform(0.5, 1.5, size=(n, n))
    turned = np.flip(x, axis) if reverse else x
    expected = np.cumprod(turned, axis)
    close(
        lax.associative_scan(np.multiply, x, reverse, axis), np.flip(expected, axis) if reverse else expected
    )
    calls = []
    lax.associative_scan(lambda a, b: calls.append(1) or a * b, x, axis=axis)
    assert len(calls) <= 2 * n.bit_length()


# ---- Python numbers ----------------------------------------------------------------------------------

COUNTED = {
    "counter": lambda x: lax.fori_loop(0, 3, lambda i, c: c + x[i] * i, x[0]),
    "counter from 0": lambda x: lax.fori_loop(0, 3, lambda i, c: c + x[i] * i, 0),
    "counter from 0.0": lambda x: lax.fori_loop(0, 3, lambda i, c: c + x[i] * i, 0.0),
    "counter in an index": lambda x: lax.fori_loop(0, 4, lambda i, c: c + x[i], x[0] * 0),
    "counter with NumPy's bound": lambda x: lax.fori_loop(0, np.int64(3), lambda i, c: c + x[i] * i, x[0]),
    "counter divides": lambda x: lax.fori_loop(1, 3, lambda i, c: c + x[i] / i, x[0] * 1.0),
    "counter as exponent": lambda x: lax.fori_loop(1, 3, lambda i, c: c + x[i] ** i, x[0]),
    "counters of two loops": lambda x: lax.fori_loop(
        0, 2, lambda i, c: lax.fori_loop(0, 2, lambda j, d: d + x[i] * (i + j), c), x[0]
    ),
    "counter kept": lambda x: lax.fori_loop(
        0, 3, lambda i, c: c + x[i] * i, x[0], checkpoint=2 if x.dtype.kind in "fc" else None
    ),
    "counter for a jitted function": lambda x: lax.fori_loop(
        0, 3, lambda i, c: fg.jit(lambda a, n: a + n)(c, i), x[0]
    ),
    "counter of while": lambda x: lax.while_loop(
        lambda v: v[0] < 3, lambda v: (v[0] + 1, v[1] + x[v[0]] * v[0]), (0, x[0])
    ),
    "counter for a branch": lambda x: lax.fori_loop(
        0, 3, lambda i, c: lax.cond(x[0] > 0, lambda j: c + x[i] * j, lambda j: c, i), x[0]
    ),
    "numbers alone": lambda x: x * lax.fori_loop(0, 3, lambda i, c: c + i, 0),
    "number to float": lambda x: x * 1.0 * lax.fori_loop(1, 3, lambda i, c: c / i, 1),
    "number of while": lambda x: x * 1.0 * lax.while_loop(lambda v: v < 3, lambda v: v + 0.5, 0.0),
    "number in a carry": lambda x: lax.scan(lambda c, y: (c * 2, y * c), 1, x),
    "float in a carry": lambda x: lax.scan(lambda c, y: (c * 0.5, y * c), 1.0, x),
    "number for a branch": lambda x: lax.cond(x[0] > 0, lambda n: x * n, lambda n: x + n, 3),
    "number from a branch": lambda x: x * lax.cond(x[0] > 0, lambda: 2, lambda: 3),
    "number beside an array": lambda x: lax.cond(x[0] > 9, lambda: x[0] * 1.0, lambda: 3.0) * 1.0 * x[0],
}


@grouped("name, dtype", itertools.product(COUNTED, ["f4", "i1", "c8", "f2", "f8"]))
def test_python_numbers_stay_such_in_loops(name, dtype):
    f = COUNTED[name]
    x = np.array([1, 2, 3, 4], dtype)
    expected = fg.tree.leaves(f(x))
    program = fg.make_graph(f)(x)
    for y, e in zip(program.run([x]), expected, strict=True):
        assert np.asarray(y).dtype == np.asarray(e).dtype
        close(np.asarray(y), np.asarray(e))


def test_counters_of_compiled_loops_are_python_numbers():
    x = np.linspace(0.5, 2, 4, dtype=np.float32)

    def f(x, n):
        return lax.fori_loop(0, n, lambda i, c: c + x[i] * i, x[0])

    for n in (0, 2, 4, np.int32(3)):
        expected = f(x, n)
        assert expected.dtype == np.float32
        exactly(fg.jit(f)(x, n), expected)
        exactly(fg.jit(lambda x, n=n: f(x, n))(x), expected)
        assert fg.jit(fg.grad(f))(x, n).dtype == np.float32
        close(fg.jit(fg.grad(f))(x, n), fg.grad(f)(x, n))


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_examples_with_bounds_of_their_own_share_the_counter(dtype):
    x = np.array([1, 2, 3, 4, 5], dtype)
    starts, stops = np.array([0, 3, 1, 4]), np.array([2, 4, 1, 0])

    def f(x, start, stop):
        return lax.fori_loop(start, stop, lambda i, c: c + x[i] * i, x[0])

    expected = np.array([f(x, *map(int, b)) for b in zip(starts, stops, strict=True)])
    assert expected.dtype == dtype
    for g in (f, fg.jit(f)):
        exactly(fg.vmap(g, (None, 0, 0))(x, starts, stops), expected)
    exactly(fg.jit(fg.vmap(f, (None, 0, 0)))(x, starts, stops), expected)
    outer = fg.vmap(fg.vmap(f, (None, 0, 0)), (0, None, 0))(
        np.stack([x, x[::-1]]), starts, np.stack([stops, stops])
    )
    exactly(outer[0], expected)
    assert not fg.vmap(f, (None, 0, 0))(x, starts[:0], stops[:0]).size
    if dtype is np.float32:
        total = lambda x: np.sum(fg.vmap(f, (None, 0, 0))(x, starts, stops))
        close(fg.grad(total)(x), differences(total, x.astype(np.float64)), 1e-3)


def _written(y, i, x):
    y = y * 1.0
    y[i] = x[i]
    return y


LOOPS_OVER_PLACES = {
    "fori_loop": lambda n, x: lax.fori_loop(0, n, lambda i, c: c + x[i], 0.0),
    "fori_loop with a place": lambda n, x: lax.fori_loop(
        0, n, lambda i, c: (c[0] + 1, c[1] + x[c[0]]), (0, 0.0)
    )[1],
    "while_loop": lambda n, x: lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + x[c[0]]), (0, 0.0)
    )[1],
    "while_loop backwards": lambda n, x: lax.while_loop(
        lambda c: c[0] >= 0, lambda c: (c[0] - 1, c[1] + x[c[0]]), (n - 1, 0.0)
    )[1],
    "while_loop writing": lambda n, x: np.sum(
        lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, _written(c[1], c[0], x)), (0, x * 0))[1]
    ),
}


@pytest.mark.parametrize("name", LOOPS_OVER_PLACES)
def test_examples_that_are_done_read_no_places_that_do_not_exist(name):
    f, x = LOOPS_OVER_PLACES[name], np.array([1.0, 2.0, 4.0])
    counts = np.array([[3, 1], [0, 0], [2, 3]])
    expected = np.array([[7.0, 1.0], [0.0, 0.0], [3.0, 7.0]])
    given = fg.tensor(x)
    for g in (f, fg.jit(f)):
        close(fg.vmap(g, (0, None))(counts[:, 0], given), expected[:, 0])
        close(fg.vmap(fg.vmap(g, (0, None)), (0, None))(counts, given), expected)
    mapped = lambda x: fg.vmap(fg.vmap(f, (0, None)), (0, None))(counts, x)
    close(fg.jit(mapped)(x), expected)
    for run in (fg.grad, lambda f: fg.jit(fg.grad(f)), lambda f: fg.grad(fg.jit(f))):
        close(run(lambda x: np.sum(mapped(x)))(x), [4.0, 3.0, 2.0])


def test_a_counter_beyond_a_small_dtype_is_refused_at_its_turn():
    x = np.array([1], np.int8)
    f = lambda x: lax.fori_loop(125, 130, lambda i, c: c * 0 + i, x[0])
    for call in (f, fg.jit(f)):
        with pytest.raises(OverflowError, match="128 out of bounds for int8"):
            call(x)
    inside = fg.make_graph(lambda x: lax.fori_loop(0, 100, lambda i, c: c * 0 + i, x[0]))(x)
    assert "fitted" not in str(inside)  # it is known to fit


def test_a_number_that_a_carry_does_not_hold_is_refused():
    with pytest.raises(TypeError, match=r"carries int64\[\] in leaf 0, but a step returns a Python float"):
        fg.jit(lambda x: lax.scan(lambda c, y: (0.5, c), x[0], x))(np.arange(3))


def _chosen_by_place(x):
    return lax.switch(np.argmax(x), [lambda t: np.sum(t * np.inf), lambda t: np.sum(np.sin(t))], x)


def _chosen_by_sign(x):
    grown = lambda t: np.sum(t * np.exp(t * 1000.0))
    return lax.cond(x[0] > 0, grown, lambda t: np.sum(np.sin(t)), x)


def _as_long_as(x):
    return np.sum(lax.while_loop(lambda t: t[0] > 2.0, lambda t: (t - 1) * np.exp(1e3 * (t[0] < 2.5)), x))


def _as_often(x):
    grow = lambda i, c: c * np.exp(1000.0 * (x[0] - 2.0) * i)
    return lax.fori_loop(0, np.argmax(x) + 1, grow, np.sum(x))


def _closed_over(x):
    falls = lambda: np.sum(x * np.exp(x[0] * -1000.0))
    return lax.switch(np.argmax(x), [falls, lambda: np.sum(np.sin(x))])


def _closed_over_in_while_loop(x):
    step = lambda v: (v[0] * np.sum(x * np.exp(1e3 * (v[1] > x[0]))), v[1] + 1.0)
    return lax.while_loop(lambda v: v[1] < x[0] * 2.0, step, (1.0, 0.0))[0]


def _closed_over_in_fori_loop(x):
    grow = lambda i, c: c * x[0] * np.exp(1000.0 * (x[0] - 2.0) * i)
    return lax.fori_loop(0, np.argmax(x) + 1, grow, np.sum(x))


_BATCHES = {
    "vmap(grad)": lambda f: fg.vmap(fg.grad(f)),
    "grad(vmap)": lambda f: fg.grad(lambda xs: np.sum(fg.vmap(f)(xs))),
    "jit(vmap(grad))": lambda f: fg.jit(fg.vmap(fg.grad(f))),
    "vmap(jit(grad))": lambda f: fg.vmap(fg.jit(fg.grad(f))),
    "jit(grad(vmap))": lambda f: fg.jit(fg.grad(lambda xs: np.sum(fg.vmap(f)(xs)))),
    "grad(jit(vmap))": lambda f: fg.grad(fg.jit(lambda xs: np.sum(fg.vmap(f)(xs)))),
    "jit(grad(vmap(jit)))": lambda f: fg.jit(fg.grad(lambda xs: np.sum(fg.vmap(fg.jit(f))(xs)))),
}


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("way", _BATCHES)
@pytest.mark.parametrize(
    "f",
    [
        _chosen_by_place,
        _chosen_by_sign,
        _as_long_as,
        _as_often,
        _closed_over,
        _closed_over_in_while_loop,
        _closed_over_in_fori_loop,
    ],
)
def test_what_an_example_does_not_run_has_no_part_in_its_gradient(f, way):
    xs = np.array([[1.0, -2.0], [-1.0, 2.0], [3.0, 0.5]])
    np.testing.assert_array_equal(_BATCHES[way](f)(xs), np.stack([fg.grad(f)(x) for x in xs]))


TABLE = np.arange(3.0)


def _looked_up(x, limit=0.0):
    """Return an element of a table; there is none for examples that go the other way."""
    i = np.where(x[0] > limit, 1, 7)
    return lax.cond(x[0] > limit, lambda t: t[i] * x[1], lambda t: x[1] ** 2, fnp.asarray(TABLE))


FAILING = {
    "a singular matrix": lambda x: lax.cond(
        x[0] > 0,
        lambda: np.linalg.inv(np.outer(x, x) + np.eye(2) * np.maximum(x[0], 0.0))[0, 1],
        lambda: x[0] * x[1],
    ),
    "a matrix that is not definite": lambda x: lax.cond(
        x[0] > 0, lambda m: np.sum(np.linalg.cholesky(m)), np.sum, x[0] * np.eye(2)
    ),
    "no such place": _looked_up,
    "no such place, taken by none": lambda x: _looked_up(x, 100.0),
    "no such place in switch": lambda x: lax.switch(
        np.argmax(x), [lambda i: x[i], lambda i: x[i - 5]], np.argmax(x) * 5
    ),
}


@grouped(
    "way, name",
    itertools.product([*_BATCHES, "vmap", "jit(vmap)", "vmap(jit)", "vmap(vmap)"], FAILING),
    quick=2,
)
def test_a_branch_raises_nothing_for_examples_that_do_not_take_it(way, name):
    f, xs = FAILING[name], np.array([[1.0, -2.0], [-1.0, 2.0], [3.0, 0.5]])
    if way in _BATCHES:
        np.testing.assert_allclose(_BATCHES[way](f)(xs), np.stack([fg.grad(f)(x) for x in xs]), rtol=1e-13)
        return
    run = {
        "vmap": fg.vmap,
        "jit(vmap)": lambda f: fg.jit(fg.vmap(f)),
        "vmap(jit)": lambda f: fg.vmap(fg.jit(f)),
    }
    expected = np.array([f(x) for x in xs])
    if way == "vmap(vmap)":
        close(fg.vmap(fg.vmap(f))(np.stack([xs, xs[::-1]])), np.stack([expected, expected[::-1]]))
    else:
        close(run[way](f)(xs), expected)


def test_a_branch_that_some_examples_take_raises_their_error():
    f = lambda x: lax.cond(x > 0, lambda: np.linalg.inv(x * np.zeros((2, 2)))[0, 0], lambda: x)
    for run in (fg.vmap(f), fg.jit(fg.vmap(f)), fg.vmap(fg.grad(f)), fg.vmap(fg.jit(f))):
        with pytest.raises(np.linalg.LinAlgError):
            run(np.array([1.0, -1.0]))


def test_branches_that_look_at_values_run_for_the_examples_that_take_them():
    def f(x):
        return lax.cond(x > 0, lambda: np.sqrt(x) if x > 1 else x, lambda: x * np.inf if x > 0 else -x)

    xs = np.array([4.0, 0.5, -3.0])
    exactly(fg.vmap(f)(xs), [2.0, 0.5, 3.0])
    exactly(fg.vmap(fg.grad(f))(xs), [0.25, 1.0, -1.0])
    exactly(fg.grad(lambda xs: np.sum(fg.vmap(f)(xs)))(xs), [0.25, 1.0, -1.0])


def test_a_branch_holds_what_it_does_with_values_from_around():
    def f(x):
        return lax.cond(x[0] > 0, lambda: np.sum(x * np.inf), lambda: np.sum(np.sin(x)))

    seen = []
    ask = lambda x: fg.pure_callback(lambda v: seen.append(v.copy()) or v, x, x)
    x = np.array([-1.0, 2.0])
    close(fg.jit(fg.grad(f))(x), np.cos(x))
    close(fg.grad(fg.jit(f))(x), np.cos(x))
    (equation,) = [e for e in fg.make_graph(f)(x).equations if e.name == "lax.cond"]
    assert len(equation.args) == 2  # the value that both take is taken once
    fg.jit(lambda x: lax.cond(x[0] > 0, lambda: np.sum(ask(x)), lambda: np.sum(x)))(x)
    assert not seen


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals of POSIX")
@pytest.mark.parametrize("way", [lambda f: f, fg.grad], ids=["value", "grad"])
def test_what_the_handler_of_a_signal_raises_in_a_branch_reaches_the_caller(way):
    def late(*_):
        raise TimeoutError("late")

    def branch(x):
        if not calls:
            calls.append(x)
            signal.raise_signal(signal.SIGUSR1)
        return np.sin(x)

    calls = []
    before = signal.signal(signal.SIGUSR1, late)
    try:
        with pytest.raises(TimeoutError, match="late"):
            fg.vmap(way(lambda x: lax.cond(x > 0, branch, np.cos, x)))(np.array([1.0, -1.0]))
    finally:
        signal.signal(signal.SIGUSR1, before)


def grown(c):
    """Double a carry in place."""
    c *= 2.0
    return c


def summed(c, x):
    """Add to a carry in place, and return it as result, too."""
    c += x
    x *= 10.0
    return c, c


def accumulated(c, x):
    c += x
    return c


START, ROWS = np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
SUMS = START + np.cumsum(ROWS, 0)
WRITING = {
    "scan": (lambda c, xs: lax.scan(summed, c, xs), (SUMS[-1], SUMS)),
    "scan, checkpointed": (lambda c, xs: lax.scan(summed, c, xs, checkpoint=2), (SUMS[-1], SUMS)),
    "scan of nothing": (lambda c, xs: grown(lax.scan(summed, c, xs[:0])[0]), START * 2),
    "fori_loop": (lambda c, xs: lax.fori_loop(0, 3, lambda i, c: grown(c), c), START * 8),
    "fori_loop without turns": (lambda c, xs: grown(lax.fori_loop(0, 0, lambda i, c: c, c)), START * 2),
    "while_loop": (lambda c, xs: lax.while_loop(lambda c: np.sum(c) < 20, grown, c), START * 8),
    "while_loop without turns": (
        lambda c, xs: grown(lax.while_loop(lambda c: np.sum(c) < 0, grown, c)),
        START * 2,
    ),
    "checkpointed": (lambda c, xs: fg.checkpointed(lambda c, i: grown(c), c, range(3)), START * 8),
    "map": (lambda c, xs: lax.map(grown, xs), ROWS * 2),
    "associative_scan": (lambda c, xs: lax.associative_scan(accumulated, xs), SUMS - START),
    "cond": (lambda c, xs: lax.cond(True, grown, lambda c: c, c), START * 2),
    "cond without a copy": (lambda c, xs: grown(lax.cond(True, lambda: c, lambda: c * 1.0)), START * 2),
    "cond of examples": (lambda c, xs: lax.cond(c[0] > 0, grown, grown, c), START * 2),
    "switch": (lambda c, xs: lax.switch(1, [np.sin, grown], c), START * 2),
}


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize(
    "run",
    [
        lambda f, *xs: f(*xs),
        lambda f, *xs: f(*map(fg.tensor, xs)),
        lambda f, *xs: fg.jit(f)(*xs),
        lambda f, *xs: fg.vjp(f, *xs)[0],
        lambda f, *xs: fg.tree.map(
            lambda y: y[1], fg.vmap(f)(*(np.stack([np.full_like(x, 10.0), x]) for x in xs))
        ),
    ],
    ids=["arrays", "tensors", "jit", "vjp", "vmap"],
)
def test_what_bodies_write_to_is_their_own(name, run):
    f, expected = WRITING[name]
    c, xs = START.copy(), ROWS.copy()

    def with_arguments(c, xs):
        return f(c, xs), c * 1.0, xs * 1.0

    found = run(with_arguments, c, xs)
    for y, e in zip(*map(fg.tree.leaves, (found, (expected, START, ROWS))), strict=True):
        close(y, e)
    exactly(c, START)
    exactly(xs, ROWS)


def test_an_operand_that_all_branches_pass_on_stays_that_of_all_examples():
    def f(x, b):
        y, out = lax.cond(x > 0, lambda x, b: (2 * x, b), lambda x, b: (-x, b), x, b)
        out += 1
        return y + b, lax.switch(fnp.asarray(x > 1, int), [lambda b: b] * 2, b), out

    x, b = np.array([-1.0, 0.5, 3.0]), fg.tensor(10.0)
    y, same, out = fg.vmap(f, (0, None), (0, None, None))(x, b)
    exactly(y, [11.0, 11.0, 16.0])
    exactly(same, 10.0)
    exactly(out, 11.0)
    slope = fg.grad(lambda b: fg.vmap(f, (0, None), (0, None, None))(x, b)[1])(b)
    exactly(slope, 1.0)
    with pytest.raises(ValueError, match="out_axes is None"):
        fg.vmap(lambda x, b: lax.cond(x > 0, lambda: b, lambda: b + 1), (0, None), None)(x, b)
