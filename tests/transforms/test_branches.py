"""Python's if and while on mapped values split the batch by path; the oracle is a loop over the examples."""

from __future__ import annotations

import random
import sys
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import close, differences, exactly, is_numpy

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.lax import axis_index, axis_size, psum

RNG = np.random.default_rng(0)
X = RNG.normal(size=12)
ROWS = RNG.normal(size=(7, 3))


def loop(f, *rows):
    return np.stack([np.asarray(f(*row)) for row in zip(*rows, strict=True)])


def newton(x):
    """Return the square root of |x| by as many steps as it takes."""
    y = x * x + 1.0
    while abs(y * y - abs(x)) > 1e-12:
        y = 0.5 * (y + abs(x) / y)
    return y


def collatz(x):
    n = 0
    while x > 1:
        x = x * 0.5 if x > 4 else x - 0.7
        n += 1
    return x * n


def ladder(x):
    if x < -1:
        return np.exp(x)
    if x < 0:
        return x * x
    return np.sin(x) if not x > 1 else np.cos(x)


def both(x):
    return x * 2 if x > -0.5 and x < 0.5 else x - 1


def on_arrays(x):
    if (x > 0).all():
        return np.log(x).sum()
    if np.any(x > 1):
        return x.max()
    return np.sum(x * x)


def largest(x):
    return max(x[0], x[1], x[2]) * min(x)


def ordered(x):
    return np.stack(sorted([x[0], x[1], x[2]])) * np.arange(1.0, 4.0)


def contained(x):
    return x.sum() if 1.0 in np.round(x) else x.prod()


def written(x):
    y = fnp.zeros(3)
    for i in range(3):
        if x[i] > 0:
            y[i] = np.sqrt(x[i])
        else:
            y[i] += x[i] ** 2
    return y


ON_NUMBERS = {"ladder": ladder, "both": both, "newton": newton, "collatz": collatz}
ON_ARRAYS = {
    "reductions": on_arrays,
    "max and min": largest,
    "sorted": ordered,
    "in": contained,
    "writes": written,
}


@pytest.mark.parametrize("name", ON_NUMBERS)
def test_numbers(name):
    f = ON_NUMBERS[name]
    result = fg.vmap(f)(X)
    close(result, loop(f, X))
    assert is_numpy(result)
    slopes = np.array([differences(f, x) for x in X])
    close(fg.vmap(fg.grad(f))(X), slopes, rtol=1e-6)
    close(fg.grad(lambda x: np.sum(fg.vmap(f)(x) * X))(X), slopes * X, rtol=1e-6)
    close(fg.jvp(fg.vmap(f), (X,), (X,))[1], slopes * X, rtol=1e-6)
    close(fg.vmap(lambda x, t: fg.jvp(f, (x,), (t,))[1])(X, X), slopes * X, rtol=1e-6)


@pytest.mark.parametrize("name", ON_ARRAYS)
def test_arrays(name):
    f = ON_ARRAYS[name]
    plain = lambda x: f(fg.tensor(x)).numpy()
    close(fg.vmap(f)(ROWS), loop(plain, ROWS))
    close(fg.vmap(f, in_axes=1)(ROWS.T), loop(plain, ROWS))
    total = lambda x: np.sum(f(x) * 1.5)
    slopes = np.stack([differences(lambda x: plain(x).sum() * 1.5, x) for x in ROWS])
    close(fg.vmap(fg.grad(total))(ROWS), slopes, rtol=1e-6)
    close(fg.grad(lambda x: np.sum(fg.vmap(total)(x)))(ROWS), slopes, rtol=1e-6)


def test_second_derivatives():
    second = np.where(X < -1, np.exp(X), np.where(X < 0, 2.0, np.where(X > 1, -np.cos(X), -np.sin(X))))
    close(fg.vmap(fg.grad(fg.grad(ladder)))(X), second)
    close(fg.vmap(fg.hessian(ladder))(X), second)
    close(fg.hessian(lambda x: np.sum(fg.vmap(ladder)(x)))(X), np.diag(second))


def test_a_branch_on_nothing_mapped_and_one_on_which_all_agree_run_once():
    runs = []

    def f(x, flag):
        runs.append(1)
        return x if flag and x * x >= 0 else -x

    exactly(fg.vmap(f, in_axes=(0, None))(X, True), X)
    assert len(runs) == 1


def test_many_examples_take_few_runs():
    class Count(fg.Function):  # counts executions without an effect that fgrad sees
        runs = 0

        def forward(self, x):
            type(self).runs += 1
            return x * 1.0

        def backward(self, ct):
            return ct

    x = np.random.default_rng(1).uniform(0, 1000, 20_000)
    f = lambda x: collatz(Count()(x))
    got = fg.vmap(f)(x)
    assert Count.runs < 80
    n, y = np.zeros(len(x)), x.copy()
    while (y > 1).any():
        y, n = np.where(y > 1, np.where(y > 4, y * 0.5, y - 0.7), y), n + (y > 1)
    exactly(got, y * n)


def test_outputs_in_the_order_of_the_examples_with_any_axes():
    f = lambda x, y: {"a": x + y if x[0] > 0 else x - y, "b": (x[0] if x[0] > 0 else y[0], 2.0)}
    y = RNG.normal(size=(7, 3))
    out = fg.vmap(f, out_axes={"a": 1, "b": 0})(ROWS, y)
    positive = ROWS[:, 0] > 0
    close(out["a"], np.where(positive[:, None], ROWS + y, ROWS - y).T)
    close(out["b"][0], np.where(positive, ROWS[:, 0], y[:, 0]))
    exactly(out["b"][1], np.full(7, 2.0))
    out = fg.vmap(f, in_axes=(0, None), out_axes={"a": -1, "b": (0, None)})(ROWS, y[0])
    close(out["a"], np.where(positive[:, None], ROWS + y[0], ROWS - y[0]).T)
    assert out["b"][1] == 2.0


def test_constants_of_branches():
    step = lambda x: 1.0 if x > 0 else 0
    exactly(fg.vmap(step)(X), (X > 0).astype(float))
    exactly(
        fg.vmap(lambda x: 2 * x if x > 0 else 0)(X.astype(np.float32)),
        2 * np.maximum(X.astype(np.float32), 0),
    )
    exactly(fg.vmap(lambda x: True if x > 0 else False)(X), X > 0)  # noqa: SIM210 -- the branch is the subject
    assert fg.vmap(lambda x: ("name", x) if x > 0 else ("name", -x))(X)[0] == "name"
    with pytest.raises(ValueError, match="differs between examples"):
        fg.vmap(lambda x: "up" if x > 0 else "down")(X)
    with pytest.raises(ValueError, match="out_axes is None"):
        fg.vmap(step, out_axes=None)(X)
    same = np.arange(3.0)
    exactly(fg.vmap(lambda x: same if x > 0 else same.copy(), out_axes=None)(X), same)


def test_dtypes_of_branches_promote_as_stacking_does():
    out = fg.vmap(lambda x: x.astype(np.float32) if x > 0 else x)(X)
    assert out.dtype == np.float64
    out = fg.vmap(lambda x: np.int8(1) if x > 0 else np.int16(2))(X)
    exactly(out, np.where(X > 0, 1, 2).astype(np.int16))


def test_empty_batches_and_batches_of_one():
    assert fg.vmap(ladder)(np.zeros(0)).shape == (0,)
    assert fg.vmap(newton)(np.zeros(0)).shape == (0,)
    exactly(fg.vmap(ladder)(X[:1]), loop(ladder, X[:1]))


def test_tensors_in_tensors_out():
    out = fg.vmap(ladder)(fg.tensor(X))
    assert type(out) is fg.Tensor
    close(out, loop(ladder, X))


def test_nested_batches():
    x, y = RNG.normal(size=5), RNG.normal(size=(5, 4))
    inner = lambda x: lambda u: u * x if u > x else u - x
    f = lambda x, y: fg.vmap(inner(x))(y)
    close(fg.vmap(f)(x, y), np.where(y > x[:, None], y * x[:, None], y - x[:, None]))
    outer = lambda x, y: fg.vmap(lambda u: u * x if x > 0 else u)(y)
    close(fg.vmap(outer)(x, y), np.where(x[:, None] > 0, y * x[:, None], y))
    close(fg.vmap(f, in_axes=(None, 0))(0.1, y), np.where(y > 0.1, y * 0.1, y - 0.1))
    g = lambda x, y: np.sum(fg.vmap(inner(x))(y))
    close(fg.vmap(fg.grad(g))(x, y), np.sum(np.where(y > x[:, None], y, -1.0), axis=1))
    close(fg.vmap(fg.grad(g, 1))(x, y), np.where(y > x[:, None], x[:, None], 1.0))
    close(fg.grad(lambda y: np.sum(fg.vmap(g)(x, y)))(y), np.where(y > x[:, None], x[:, None], 1.0))
    cube = RNG.normal(size=(3, 2, 4))
    close(fg.vmap(fg.vmap(fg.vmap(ladder)))(cube), np.vectorize(ladder)(cube))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=9), st.integers(0, 3), st.integers(0, 2**16))
def test_random_programs(values, depth, seed):
    rng = np.random.default_rng(seed)
    limits, factors = rng.normal(size=depth), rng.normal(size=(depth, 2))

    def f(x):
        y = x * 1.0
        for limit, (a, b) in zip(limits, factors, strict=True):
            y = y * a if y > limit else y + b
        return y

    x = np.array(values)
    close(fg.vmap(f)(x), loop(f, x))
    slope = np.ones_like(x)
    for i, v in enumerate(x):
        for limit, (a, b) in zip(limits, factors, strict=True):
            slope[i] *= a if v > limit else 1.0
            v = v * a if v > limit else v + b
    close(fg.vmap(fg.grad(f))(x), slope)


# ---- with other transformations --------------------------------------------------------------------


def test_managers():
    def f(x):
        leaf = x * 1.0
        with fg.GradManager().attach(leaf) as gm:
            y = leaf**3 if leaf > 0 else leaf * 2.0
            gm.backward(y)
        return leaf.grad

    close(fg.vmap(f)(X), np.where(X > 0, 3 * X**2, 2.0))
    w, gm = fg.tensor(2.0), fg.GradManager()
    with gm.attach(w):
        gm.backward(np.sum(fg.vmap(lambda x: x * w if x > 0 else w**2)(X)))
    close(w.grad, np.sum(np.where(X > 0, X, 4.0)))


def test_custom_rules():
    @fg.custom_vjp
    def f(x):
        return x * x if x > 0 else x

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * (10.0 * x if x > 0 else 7.0),))
    close(fg.vmap(f)(X), np.where(X > 0, X * X, X))
    expected = np.where(X > 0, 10 * X, 7.0)
    close(fg.vmap(fg.grad(f))(X), expected)

    @fg.custom_vjp
    def g(x):
        return x * x if x > 0 else x

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (ct * np.where(x > 0, 10.0 * x, 7.0),))
    close(fg.grad(lambda x: np.sum(fg.vmap(g)(x)))(X), expected)

    @fg.custom_jvp
    def h(x):
        return x * x if x > 0 else x

    h.defjvps(lambda t, out, x: t * np.where(x > 0, 10.0 * x, 7.0))
    close(fg.vmap(fg.grad(h))(X), expected)
    close(fg.vmap(lambda x: fg.jvp(h, (x,), (1.0,))[1])(X), expected)


def test_functions():
    class Cube(fg.Function):
        def forward(self, x):
            self.x = x
            return x**3 if x > 0 else x

        def backward(self, ct):
            return ct * (3 * self.x**2 if self.x > 0 else 1.0)

    cube = Cube()  # made outside: what it keeps on itself must not count as an effect
    f = lambda x: cube(x) if x > -1 else 0 * x
    expected = np.where(X > 0, X**3, np.where(X > -1, X, 0.0))
    slope = np.where(X > 0, 3 * X**2, np.where(X > -1, 1.0, 0.0))
    close(fg.vmap(f)(X), expected)
    close(fg.vmap(fg.grad(f))(X), slope)


def test_vectorized_functions():
    f = fg.vectorize(lambda x, y: x * y if x > y else x - y)
    x, y = RNG.normal(size=(4, 1, 3)), RNG.normal(size=(5, 1))
    close(f(x, y), np.where(x > y, x * y, x - y))


def test_staging_still_asks_for_where():
    with pytest.raises(TypeError, match="make_graph"):
        fg.make_graph(fg.vmap(ladder))(X)


# ---- effects -------------------------------------------------------------------------------------


def effects():
    """Return functions that do more than return a result, and what the refusal calls it."""
    kept, numbers, table, target = [], [], {}, np.zeros(2)
    rng, old, state = np.random.default_rng(0), random.Random(0), {"count": 0}
    outside, gm = fg.tensor(np.zeros(2)), fg.GradManager()
    count = 0

    class Model:
        steps = 0

        def __init__(self):
            self.calls = 0

        def __call__(self, x):
            self.calls += 1
            return branch(x)

        def method(self, x):
            self.calls += 1
            return branch(x)

    def branch(x):
        return x if x > 0 else -x

    def counted(x):
        nonlocal count
        count += 1
        return branch(x)

    def helper(x):
        numbers.append(0)
        return x

    def attached(x):
        with fg.GradManager().attach(outside) as inner:
            y = np.sum(outside * x)
            z = branch(x)
            inner.backward(y)
        return z

    def with_callback(x):
        leaf = x * 1.0
        with fg.GradManager().attach(leaf, callback=kept_back) as inner:
            inner.backward(leaf * 2.0)
        return branch(x)

    def kept_back(t, g):
        return None

    def recorded(x):
        gm.record()
        gm.release()
        return branch(x)

    return {
        "kept Tensors": (lambda x: kept.append(x * 2) or branch(x), "keeps a Tensor"),
        "a list": (lambda x: numbers.append(1) or branch(x), "numbers"),
        "a list of a helper": (lambda x: branch(helper(x)), "numbers"),
        "a dictionary": (lambda x: table.update({len(table): 1}) or branch(x), "table"),
        "an item": (lambda x: state.update(count=state["count"] + 1) or branch(x), "state"),
        "an array": (lambda x: target.__setitem__(0, target[0] + 1) or branch(x), "target"),
        "a generator": (lambda x: branch(x) * rng.normal(), "rng"),
        "a generator of Python": (lambda x: branch(x) * old.random(), "old"),
        "the global generator": (lambda x: branch(x) * np.random.normal(), "global random"),
        "a variable": (counted, "count"),
        "a Tensor": (lambda x: outside.__setitem__(0, 1.0) or branch(x), "a Tensor that exists"),
        "a Tensor in place": (lambda x: outside.__iadd__(1.0).sum() + branch(x), "a Tensor that exists"),
        "a grad": (attached, "a Tensor that exists"),
        "a manager": (recorded, "GradManager"),
        "a callback": (with_callback, "function"),
        "a debugging callback": (lambda x: fg.debug.callback(kept_back, x, x) or branch(x), "function"),
        "a callable object": (Model(), "Model"),
        "a method": (Model().method, "Model"),
    }


@pytest.mark.parametrize("name", effects())
def test_effects_are_refused(name):
    f, word = effects()[name]
    with pytest.raises(RuntimeError, match=rf"test_branches\.py.*{word}"):
        fg.vmap(f)(X)


@pytest.mark.parametrize("name", effects())
def test_effects_of_functions_that_run_once_are_not(name):
    f, _ = effects()[name]
    close(fg.vmap(f)(np.abs(X)).shape, np.array(X.shape))


def test_printing_is_allowed(capsys):
    def f(x):
        fg.debug.print("{:.0f}", x)
        return x if x > 0 else -x

    close(fg.vmap(f)(np.array([1.0, -2.0])), [1.0, 2.0])
    assert sorted(capsys.readouterr().out.split()) == ["-2", "-2", "1", "1"]  # both runs print


def test_pure_callbacks_are_pure():
    f = lambda x: fg.pure_callback(np.sin, x, x, vmap_method="broadcast_all") if x > 0 else x
    close(fg.vmap(f)(X), np.where(X > 0, np.sin(X), X))


def test_local_effects_are_none():
    def f(x):
        seen, total = [], fnp.zeros(2)
        gm = fg.GradManager()
        rng = np.random.default_rng(0)
        for i in range(2):
            total[i] += x * rng.normal() if x > i else x
            seen.append(total[i])
        total += 1
        leaf = x * 1.0

        def again(n):  # a circle of references
            return leaf * leaf if n == 0 else again(n - 1)

        with gm.attach(leaf, callback=lambda t, g: 2 * g):
            gm.backward(again(2))
        return seen[0] + seen[1] + total.sum() + leaf.grad

    noise = np.random.default_rng(0).normal(size=2)
    parts = [np.where(i < X, X * noise[i], X) for i in range(2)]
    close(fg.vmap(f)(X), 2 * (parts[0] + parts[1]) + 2 + 4 * X)


def test_a_signal_that_is_caught_is_missed():
    def f(x):
        try:
            return x if x > 0 else -x
        except BaseException:
            return x

    with pytest.raises(RuntimeError, match="BaseException"):
        fg.vmap(f)(X)

    def g(x):
        try:
            return x if x > 0 else -x
        except Exception:
            return x

    close(fg.vmap(g)(X), np.abs(X))


def test_errors_of_the_function_pass_through():
    def f(x):
        if x > 0:
            raise KeyError("positive")
        return x

    with pytest.raises(KeyError, match="positive"):
        fg.vmap(f)(X)
    exactly(fg.vmap(f)(-np.abs(X)), -np.abs(X))


def test_collectives_need_all_examples():
    f = lambda x: psum(x, "i") if x > 0 else x
    with pytest.raises(RuntimeError, match="split the batch"):
        fg.vmap(f, axis_name="i")(X)
    g = lambda x: x if psum(x, "i") > 1e6 else -x
    close(fg.vmap(g, axis_name="i")(X), -X)
    h = lambda x: axis_index("i") * 2.0 if x > 0 else axis_size("i") * 1.0
    close(fg.vmap(h, axis_name="i")(X), np.where(X > 0, 2.0 * np.arange(12), 12.0))


def test_with_control_flow_of_lax():
    def f(x):
        y = fg.lax.cond(x > 0, np.sin, lambda x: x * x, x)
        z = fg.lax.fori_loop(0, 3, lambda i, c: c * x + i, y)
        return z if z > 0.5 else fg.lax.while_loop(lambda c: c < 10, lambda c: c + x * x + 1, z)

    def by_hand(x):
        z = np.sin(x) if x > 0 else x * x
        for i in range(3):
            z = z * x + i
        if z > 0.5:
            return z
        while z < 10:
            z = z + x * x + 1
        return z

    close(fg.vmap(f)(X), loop(by_hand, X))
    close(fg.vmap(fg.grad(f))(X), np.array([differences(by_hand, x) for x in X]), rtol=1e-6)
    close(fg.vmap(fg.checkpoint(ladder))(X), loop(ladder, X))
    slopes = np.array([differences(ladder, x) for x in X])
    close(fg.vmap(fg.grad(fg.checkpoint(ladder)))(X), slopes, rtol=1e-6)
    close(
        fg.grad(lambda x: np.sum(fg.vmap(fg.checkpoint(lambda x: np.sin(x) * x))(x)))(X),
        np.sin(X) + X * np.cos(X),
    )


@pytest.mark.parametrize("count", [0, 10**9])
def test_no_count_of_references_decides_whether_a_function_is_pure(count, monkeypatch):
    monkeypatch.setattr(sys, "getrefcount", lambda _: count)
    f = lambda x: x if x > 0 else x * x
    close(fg.vmap(f)(np.array([-2.0, 3.0])), [4.0, 3.0])
    kept = []

    def keeps(x):
        class Holder:
            value = x

        kept.append(Holder)
        return f(x)

    with pytest.raises(RuntimeError, match="must be pure"):
        fg.vmap(keeps)(np.array([-2.0, 3.0]))


def test_what_a_function_reads_and_moves_on_far_away_is_seen():
    part = types.SimpleNamespace
    deep = part(a=part(b=part(c=part(count=0))))
    items, far = iter(range(1, 100)), part(a=part(b=part(items=iter(range(1, 100)))))

    def counts(x):
        deep.a.b.c.count = deep.a.b.c.count + 1
        return x * deep.a.b.c.count if x > 0 else -x

    def takes(x):
        k = next(items)
        return x * k if x > 0 else -x

    def takes_far(x):
        k = next(far.a.b.items)
        return x * k if x > 0 else -x

    for f in (counts, takes, takes_far):
        with pytest.raises(RuntimeError, match="must be pure, but it changes"):
            fg.vmap(f)(X)
