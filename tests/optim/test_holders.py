"""Optimizers over tensors: numbers of the pure ones and of PyTorch; tensors without gradient; states."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad as fg
from fgrad import optim

RNG = np.random.default_rng(1)
START = {"w": RNG.normal(size=(3, 2)), "b": RNG.normal(size=2)}
X, Y = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 2))


def loss(p):
    return ((np.tanh(X @ p["w"] + p["b"]) - Y) ** 2).sum()


PAIRS = {
    "SGD": (lambda t: optim.SGD(t, 0.05, 0.9, nesterov=True), optim.sgd(0.05, 0.9, nesterov=True)),
    "SGD with a penalty": (lambda t: optim.SGD(t, 0.05, weight_decay=0.1),
        optim.chain(optim.add_decayed_weights(0.1), optim.sgd(0.05))),
    "Adam": (lambda t: optim.Adam(t, 0.05), optim.adam(0.05)),
    "Adam, clipped": (lambda t: optim.Adam(t, 0.05, max_norm=0.5),
        optim.chain(optim.clip_by_global_norm(0.5), optim.adam(0.05))),
    "Adam, schedule": (lambda t: optim.Adam(t, optim.linear_schedule(0.1, 0.0, 5)),
        optim.adam(optim.linear_schedule(0.1, 0.0, 5))),
    "AdamW": (lambda t: optim.AdamW(t, 0.05, weight_decay=0.1), optim.adamw(0.05, weight_decay=0.1)),
    "RMSProp": (lambda t: optim.RMSProp(t, 0.05, momentum=0.5),
        optim.rmsprop(0.05, 0.99, eps_in_sqrt=False, momentum=0.5)),
    "Adagrad": (lambda t: optim.Adagrad(t, 0.05), optim.adagrad(0.05, 0.0, 1e-10, eps_in_sqrt=False)),
    "Adamax": (lambda t: optim.Adamax(t, 0.05, (0.8, 0.99)), optim.adamax(0.05, 0.8, 0.99)),
    "Lion": (lambda t: optim.Lion(t, 0.05, weight_decay=0.1), optim.lion(0.05, weight_decay=0.1)),
}  # fmt: skip


def trained(make, steps=6):
    p = {k: fg.tensor(v) for k, v in START.items()}
    gm = fg.GradManager().attach(p)
    opt = make(gm)
    for _ in range(steps):
        with gm:
            gm.backward(loss(p))
        opt.step().clear_grad()
    return p, opt


@pytest.mark.parametrize("name", PAIRS)
def test_steps_are_those_of_the_pure_optimizer(name):
    make, pure = PAIRS[name]
    p, opt = trained(make)
    q = START
    state = pure.init(q)
    for _ in range(6):
        updates, state = pure.update(fg.grad(loss)(q), state, q)
        q = optim.apply_updates(q, updates)
    for k in q:
        np.testing.assert_allclose(p[k], q[k], rtol=1e-10)
        assert p[k].grad is None
    assert opt.steps == 6
    assert loss({k: v.numpy() for k, v in p.items()}) < loss(START)


TORCH = {
    "SGD": {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "Adam": {"lr": 0.05, "betas": (0.8, 0.99)},
    "AdamW": {"lr": 0.05},
    "Adagrad": {"lr": 0.05, "initial_accumulator_value": 0.1},
    "Adamax": {"lr": 0.05},
    "RMSProp": {"lr": 0.05, "centered": True, "momentum": 0.5},
}


@pytest.mark.parametrize("name", TORCH)
def test_steps_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    p, _ = trained(lambda gm: getattr(optim, name)(gm, **TORCH[name]))
    q = {k: torch.tensor(v, requires_grad=True) for k, v in START.items()}
    theirs = getattr(torch.optim, {"RMSProp": "RMSprop"}.get(name, name))(q.values(), **TORCH[name])
    for _ in range(6):
        theirs.zero_grad()
        ((torch.tanh(torch.tensor(X) @ q["w"] + q["b"]) - torch.tensor(Y)) ** 2).sum().backward()
        theirs.step()
    for k, theirs_of_k in q.items():
        np.testing.assert_allclose(p[k], theirs_of_k.detach().numpy(), rtol=1e-9)


def test_tensors_without_gradient_stay_with_their_state():
    a, b = fg.tensor([1.0, 2.0]), fg.tensor([3.0])
    opt = optim.Adam([a, b], 0.1)
    for with_b in (True, False, True):
        a.grad, b.grad = fg.tensor([1.0, -1.0]), fg.tensor([2.0]) if with_b else None
        opt.step()
    pure = optim.adam(0.1)
    expected, state = np.array([3.0]), pure.init(np.array([3.0]))
    for _ in range(2):
        updates, state = pure.update(np.array([2.0]), state)
        expected = expected + updates
    np.testing.assert_allclose(b, expected)
    np.testing.assert_allclose(a, [0.7, 2.3], rtol=1e-6)


def test_a_rate_may_be_set_at_any_time_without_tracing_again():
    traced = []
    x = fg.tensor([1.0])

    def make(rate):
        traced.append(rate)
        return optim.sgd(rate)

    opt = optim.Optimizer([x], make, 0.5)
    for rate in (0.5, 0.25, 0.125):
        opt.lr, x.grad = rate, fg.tensor([1.0])
        opt.step()
    np.testing.assert_allclose(x, [1 - 0.875])
    assert len(traced) <= 4  # checked once or twice, and traced for the first step


def test_states_are_stored_and_loaded():
    first, opt = trained(lambda gm: optim.Adam(gm, 0.05), 4)
    stored = opt.state_dict()
    again = {k: fg.tensor(v.numpy()) for k, v in first.items()}
    other = optim.Adam(again, 0.05)
    other.load_state_dict(stored)
    for p, o in ((first, opt), (again, other)):
        for t in p.values():
            t.grad = t.detach() * 0.5
        o.step()
    for k in first:
        np.testing.assert_array_equal(first[k], again[k])
    assert other.steps == 5
    with pytest.raises(ValueError, match="of 2 tensors, and this optimizer has 1"):
        optim.Adam([fg.tensor(1.0)]).load_state_dict(stored)
    with pytest.raises(ValueError, match="state of tensor 0, of shape"):
        optim.Adam([again["b"], again["w"]]).load_state_dict(stored)


def test_single_precision_stays_single():
    x = fg.tensor(np.ones(3, np.float32))
    opt = optim.Adam([x], optim.linear_schedule(0.1, 0.0, 5), max_norm=1.0)
    x.grad = fg.tensor(np.full(3, 2.0, np.float32))
    opt.step()
    assert x.dtype == np.float32
    assert {s.dtype for s in fg.tree.leaves(opt.state_dict()["states"])} == {np.dtype("f4"), np.dtype("i4")}


def test_views_see_what_a_step_writes():
    x = fg.tensor([1.0, 2.0])
    first = x[:1]
    x.grad = fg.tensor([1.0, 1.0])
    optim.SGD([x], 0.5).step()
    assert first.item() == 0.5


def test_what_cannot_be_is_refused_and_changes_nothing():
    x = fg.tensor([1.0])
    with pytest.raises(TypeError, match=r"takes Tensors.*ndarray"):
        optim.Adam({"w": np.ones(2)})
    with pytest.raises(ValueError, match="attach them to the GradManager before"):
        optim.Adam(fg.GradManager())
    with pytest.raises(ValueError, match="b1 is from 0"):
        optim.Adam([x], betas=(1.0, 0.5))
    opt = optim.Adam([x])
    with pytest.raises(ValueError, match=r"gm\.backward\(loss\) before opt\.step\(\)"):
        opt.step()
    assert opt.steps == 0
    assert x.item() == 1.0
