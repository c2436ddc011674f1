"""checkpoint: the same derivatives as without, in every nesting, with less memory; and its refusals."""

from __future__ import annotations

import contextlib
import tracemalloc

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import checkpoint_policies as policies

W = fg.tensor(np.array([[0.3, 0.5], [0.2, -0.7]]))
X = np.array([0.3, 0.4])
XS = np.stack([X, 2 * X, X - 1])


@fg.custom_vjp
def ruled(x):
    return np.sin(x)


ruled.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (2.0 * np.cos(x) * ct,))  # twice the truth: must be used


class Cube(fg.Function):
    def forward(self, x):
        self.x = x
        return x**3

    def backward(self, ct):
        return 5.0 * self.x**2 * ct


def layer(x, *, scale=1.0):
    return {"out": np.tanh(W @ x) * scale, "n": 3, "sum": np.sum(x)}


def branching(x, *, scale=1.0):
    if np.sum(x) > 0.5:
        x = x * 2.0
    y = fnp.zeros(2)
    for i in range(2):
        y[i] = x[i] ** 2 * scale
    x += y
    return {"out": x, "n": 3, "sum": np.sum(W**2) + x[0]}


def with_rules(x, *, scale=1.0):
    return {
        "out": ruled(x) * scale + Cube()(x),
        "n": 3,
        "sum": np.sum(fg.grad(lambda v: np.sum(np.sin(W @ v)))(x)),
    }


def nested(x, *, scale=1.0):
    inner = fg.checkpoint(lambda v: np.exp(np.sin(v @ W)))
    return {"out": inner(inner(x)) * scale, "n": 3, "sum": np.sum(inner(x))}


FUNCTIONS = {"layer": layer, "branching": branching, "rules": with_rules, "nested": nested}
POLICIES = {
    "none": None,
    "everything": policies.everything_saveable,
    "nothing": policies.nothing_saveable,
    "dots": policies.dots_saveable,
    "own": lambda primitive, **params: primitive in {"tanh", "sin", "add"},
}


def loss(f):
    def value(x):
        first = f(x, scale=2.0)
        second = f(first["out"] * 0.3)
        return np.sum(second["out"] ** 2) * first["sum"] + second["n"] * second["sum"]

    return value


@pytest.fixture(params=POLICIES)
def both(request):
    policy = POLICIES[request.param]
    return lambda f: (loss(fg.checkpoint(f, policy=policy)), loss(f))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_transformation_gives_what_it_gives_without(name, both):
    f, plainly = both(FUNCTIONS[name])
    close(f(X), plainly(X))
    close(fg.grad(f)(X), fg.grad(plainly)(X))
    close(fg.hessian(f)(X), fg.hessian(plainly)(X), 1e-9)
    close(fg.jvp(f, (X,), (X,))[1], fg.jvp(plainly, (X,), (X,))[1])
    twice = lambda f: fg.grad(lambda x: np.sum(fg.grad(f)(x) ** 2))(X)
    close(twice(f), twice(plainly), 1e-9)
    if name != "branching":  # which looks at values
        close(fg.vmap(fg.grad(f))(XS), fg.vmap(fg.grad(plainly))(XS))
        total = lambda f: lambda xs: np.sum(fg.vmap(f)(xs))
        close(fg.grad(total(f))(XS), fg.grad(total(plainly))(XS))
        close(fg.hessian(total(f))(XS), fg.hessian(total(plainly))(XS), 1e-9)
        close(fg.make_graph(fg.grad(f))(X)(2 * X), fg.grad(plainly)(2 * X))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_closures_get_their_gradients(name, both):
    slopes = []
    for f in both(FUNCTIONS[name]):
        W.grad = None
        outer, inner = fg.GradManager().attach(W), fg.GradManager().attach(W)
        with outer:
            with inner:
                inner.backward(f(fg.tensor(X)))
            slope, W.grad = W.grad, None
            outer.backward(np.sum(slope**2))
        slopes.append((slope, W.grad))
    for a, b in zip(*slopes, strict=True):
        close(a, b, 1e-9)


def test_closures_under_vmap():
    f = fg.checkpoint(lambda x, w: np.tanh(W @ x) * w)
    g = lambda x, w: np.tanh(W @ x) * w
    for h in (f, g):
        W.grad = None
        manager = fg.GradManager().attach(W)
        with manager:
            manager.backward(
                np.sum(fg.vmap(lambda x: fg.vmap(lambda w: h(x, w))(np.arange(3.0)))(fg.tensor(XS)))
            )
        h.slope = W.grad
    close(f.slope, g.slope)


def test_identity_outputs_unused_values_and_side_results():
    kept = []

    def f(x):
        kept.append(np.sin(x))  # recorded as always
        np.cos(W) * 3  # of no use
        return x, W, 2 * x

    def total(f):
        def value(x):
            a, b, c = f(x)
            return np.sum(a * c) + np.sum(b) * np.sum(kept.pop())

        return value

    close(fg.grad(total(fg.checkpoint(f)))(X), fg.grad(total(f))(X))
    _, pullback = fg.vjp(lambda x: fg.checkpoint(lambda v: v)(x), X)
    close(pullback(X)[0], X)


def test_it_runs_once_forward_and_once_in_reverse_and_saves_memory():
    calls = []

    def f(x):
        calls.append(1)
        for _ in range(20):
            x = np.sin(x)
        return x

    def peak(f):
        tracemalloc.start()
        try:
            fg.grad(lambda x: np.sum(f(f(f(f(f(x)))))))(np.ones(20_000))
            return tracemalloc.get_traced_memory()[1] / 160_000
        finally:
            tracemalloc.stop()

    assert peak(f) > 95
    calls.clear()
    assert peak(fg.remat(f)) < 40
    assert len(calls) == 10
    calls.clear()
    _, pullback = fg.vjp(fg.checkpoint(f), X)
    close(pullback(X)[0], pullback(X)[0])
    assert len(calls) == 3
    calls.clear()
    fg.checkpoint(f)(X)
    assert len(calls) == 1


def test_what_a_policy_keeps_is_not_computed_again(monkeypatch):
    from fgrad.core.primitive import PRIMITIVES

    counts = {"contract": 0, "sin": 0, "exp": 0}
    for name in counts:
        primitive = PRIMITIVES[name]

        def run(*values, primitive=primitive.run, name=name, **params):
            counts[name] += 1
            return primitive(*values, **params)

        monkeypatch.setattr(primitive, "run", run)
        monkeypatch.setattr(primitive, "large", None)  # which is called in its place

    def f(x):
        h = fg.checkpoint_name(np.sin(W @ x), "h")
        return np.exp(h)

    def counted(policy):
        counts.update(dict.fromkeys(counts, 0))
        fg.grad(lambda x: np.sum(fg.checkpoint(f, policy=policy)(x)))(np.ones(2))
        return counts["contract"], counts["sin"], counts["exp"]

    assert counted(None) == (2, 2, 2)
    assert counted(policies.nothing_saveable) == (2, 2, 2)
    assert counted(policies.dots_saveable) == (1, 2, 2)
    assert counted(policies.save_only_these_names("h", "other")) == (2, 1, 2)
    assert counted(policies.save_only_these_names("other")) == (2, 2, 2)
    assert counted(policies.everything_saveable) == (1, 1, 1)


def test_the_callers_arrays_and_tensors_stay():
    def f(x, t):
        x *= 2.0
        t += 1.0
        return np.sum(x * t)

    x, t = X.copy(), fg.tensor(X)
    g = fg.grad(lambda w: fg.checkpoint(f)(x, t * 1.0) * w + fg.checkpoint(f)(x, t) * w)(1.0)
    close(g, 2 * np.sum(2 * X * (X + 1)))
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(t.numpy(), X)


def test_arrays_changed_before_the_sweep():
    y = X.copy()
    x = fg.tensor(X)
    manager = fg.GradManager().attach(x)
    with manager:
        out = fg.checkpoint(lambda x, y: np.sum(np.sin(x) * y))(x, y)
        y[:] = 0.0
        manager.backward(out)
    close(x.grad, np.cos(X) * X)


def test_functions_that_differ_the_second_time_are_refused():
    rng = np.random.default_rng(0)
    state = {"n": 0}

    def other_values(x):
        return x * rng.normal(size=2)

    def other_path(x):
        state["n"] += 1
        return x * x if state["n"] % 2 else np.sin(x)

    def other_structure(x):
        state["n"] += 1
        return x * x if state["n"] % 2 else (x * x, x)

    def other_closure(x):
        return x * w

    for f in (other_values, other_path, other_structure):
        state["n"] = 0
        with pytest.raises(RuntimeError, match=f"checkpoint of .*{f.__name__}.*when it ran again"):
            fg.grad(lambda x: np.sum(fg.tree.leaves(fg.checkpoint(f)(x))[0]))(X)
    w, manager = fg.tensor(2.0), fg.GradManager()
    with manager.attach(w):
        out = np.sum(fg.checkpoint(other_closure)(X))
        w *= 1.0  # the same value, another Tensor to the tape
        with pytest.raises(RuntimeError, match=r"lost an output|used other Tensors"):
            manager.backward(out)


@pytest.mark.parametrize("callbacks", [[], [lambda x, g: g]])
@pytest.mark.parametrize("is_nested", [False, True])
def test_closures_written_to_since_are_refused_also_beside_others(callbacks, is_nested):
    x, w = fg.tensor(3.0), fg.tensor(2.0)
    outer, manager = fg.GradManager(), fg.GradManager().attach([x, w], callbacks)
    with outer.attach(x) if is_nested else contextlib.nullcontext(), manager:
        out = fg.checkpoint(lambda x: x * w)(x)
        w *= 1.0
        with pytest.raises(RuntimeError, match="used other Tensors"):
            manager.backward(out)
    assert x.grad is None
    with manager:
        manager.backward(fg.checkpoint(lambda x: x * w)(x))
    close(w.grad, 3.0)


@pytest.mark.parametrize("other", [lambda w: w.detach(), lambda w: fg.tensor(w.numpy().copy())])
@pytest.mark.parametrize(
    "run",
    [
        lambda f, x: fg.checkpoint(lambda x: f(x) * f(x))(x),
        lambda f, x: fg.checkpoint(f, policy=fg.checkpoint_policies.save_only_these_names("a"))(x),
        lambda f, x: fg.checkpoint(lambda x: (f(x), x))(x)[0],
        lambda f, x: fg.checkpointed(lambda x, _: f(x), x, range(5)),
        lambda f, x: fg.lax.scan(lambda x, _: (f(x), f(x)), x, length=5, checkpoint=True)[1],
    ],
)
def test_names_of_closures_that_mean_equal_tensors_since_are_refused(run, other):
    """The gradient of the Tensor that the name meant first would be lost."""
    x, w = fg.tensor(X), fg.tensor(2.0)
    manager, names = fg.GradManager().attach([x, w]), {"w": w}
    with manager:
        out = np.sum(run(lambda x: np.sin(x * names["w"]), x))
        names["w"] = other(w)
        with pytest.raises(RuntimeError, match="used other Tensors"):
            manager.backward(out)
    assert x.grad is None
    names["w"] = w
    with manager:
        manager.backward(np.sum(run(lambda x: np.sin(x * names["w"]), x)))
    assert w.grad is not None


def test_a_manager_that_attaches_inside_keeps_its_gradient():
    x, manager = fg.tensor(3.0), fg.GradManager()
    inside = []

    def f(v):
        y = v * v
        manager.attach(y)
        inside.append(y)
        return y * y

    with manager.attach(x):
        manager.backward(fg.checkpoint(f)(x))
    close(x.grad, 4 * 27.0)
    close(inside[0].grad, 18.0)


def test_errors_inside_leave_nothing_behind():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fg.grad(lambda x: fg.checkpoint(f)(x))(1.0)
    close(fg.grad(np.sin)(0.0), 1.0)
    with pytest.raises(TypeError, match="Checkpoint transforms a function"):
        fg.checkpoint(3)


# ---- saved residuals ----------------------------------------------------------------------------


def test_print_saved_residuals_lists_what_is_kept(capsys):
    def f(x, y):
        return np.sum(np.sin(x) * fg.checkpoint(lambda v: np.exp(np.exp(v)))(y))

    fg.print_saved_residuals(f, np.ones(3), np.ones(3, "f4"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[:2] for line in lines[:-1]].count(["float64[3]", "24 bytes"]) >= 2
    assert any("float32[3]  12 bytes  argument 1" in line for line in lines)
    assert any("into multiply at" in line and "test_checkpoint.py:" in line for line in lines), lines
    total = sum(int(line.split("  ")[1].split()[0]) for line in lines[:-1])
    assert lines[-1] == f"{len(lines) - 1} arrays, {total} bytes"


def test_print_saved_residuals_shows_what_a_policy_keeps(capsys):
    named = fg.checkpoint(
        lambda x: np.sin(fg.checkpoint_name(np.exp(x), "e")), policy=policies.save_only_these_names("e")
    )
    fg.print_saved_residuals(named, np.ones(4))
    out = capsys.readouterr().out
    assert "kept out of name in checkpoint" in out
    assert out.endswith("2 arrays, 64 bytes\n"), out
    fg.print_saved_residuals(np.sum, np.ones(4))
    assert capsys.readouterr().out == "0 arrays, 0 bytes\n"


def test_a_program_is_the_same_when_it_is_traced_again():
    def slope(x):
        ones = fg.jvp(np.cumsum, (x,), (np.ones_like(x),))[1]  # a constant
        return fg.grad(fg.checkpoint(lambda t: np.sum(t * 3)))(ones)

    first, again = fg.make_graph(slope)(np.ones(2)), fg.make_graph(slope)(np.ones(2))  # rules are known now
    assert str(first) == str(again)
    for _ in range(2):
        np.testing.assert_array_equal(fg.jit(lambda x: slope(x))(np.ones(2)), [3, 3])
