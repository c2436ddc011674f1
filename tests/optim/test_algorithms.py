"""Optimizers give the numbers of their formulas, written out in NumPy, and those of Optax and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad as fg
from fgrad import optim

RNG = np.random.default_rng(0)
GRADS = [RNG.normal(size=(3, 2)) for _ in range(7)]
START = RNG.normal(size=(3, 2))


def run(made, dtype=float, jitted=False):
    params = {"w": START.astype(dtype), "b": [START[0].astype(dtype)]}

    def step(params, grads, state):
        updates, state = made.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    step = fg.jit(step) if jitted else step
    state = made.init(params)
    for g in GRADS:
        params, state = step(params, {"w": g.astype(dtype), "b": [g[0].astype(dtype)]}, state)
    return params, state


def plain_sgd(lr, momentum=0.0, nesterov=False):
    p, m = START.copy(), 0.0
    for g in GRADS:
        m = momentum * m + g
        p = p - lr * (g + momentum * m if nesterov else m)
    return p


def plain_adam(lr, b1=0.9, b2=0.999, eps=1e-8, decay=0.0):
    p, m, v = START.copy(), 0.0, 0.0
    for t, g in enumerate(GRADS, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        rate = lr(t - 1) if callable(lr) else lr
        p = p - rate * ((m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps) + decay * p)
    return p


def plain_rmsprop(lr, decay, eps, inside, centered=False, momentum=0.0, nesterov=False):
    p, v, a, trace = START.copy(), 0.0, 0.0, 0.0
    for g in GRADS:
        v, a = decay * v + (1 - decay) * g**2, decay * a + (1 - decay) * g
        spread = v - a**2 if centered else v
        u = lr * g / (np.sqrt(spread + eps) if inside else np.sqrt(spread) + eps)
        trace = momentum * trace + u
        p = p - (u + momentum * trace if nesterov else trace)
    return p


def plain_adagrad(lr, initial=0.1, eps=1e-7, inside=True):
    p, total = START.copy(), initial
    for g in GRADS:
        total = total + g**2
        p = p - lr * g / (np.sqrt(total + eps) if inside else np.sqrt(total) + eps)
    return p


def plain_adamax(lr, b1=0.9, b2=0.999, eps=1e-8, before=True):
    p, m, top = START.copy(), 0.0, 0.0
    for t, g in enumerate(GRADS, 1):
        m, top = b1 * m + (1 - b1) * g, np.maximum(b2 * top, abs(g) + eps * before)
        p = p - lr * (m / (1 - b1**t)) / (top + eps * (not before))
    return p


def plain_lion(lr, b1=0.9, b2=0.99, decay=1e-3):
    p, m = START.copy(), 0.0
    for g in GRADS:
        p = p - lr * (np.sign(b1 * m + (1 - b1) * g) + decay * p)
        m = b2 * m + (1 - b2) * g
    return p


def falling(t):
    return 0.1 / (1 + t)


CASES = {
    "sgd": (optim.sgd(0.1), plain_sgd(0.1)),
    "momentum": (optim.sgd(0.1, 0.9), plain_sgd(0.1, 0.9)),
    "nesterov": (optim.sgd(0.1, 0.9, nesterov=True), plain_sgd(0.1, 0.9, nesterov=True)),
    "adam": (optim.adam(0.1), plain_adam(0.1)),
    "adam, set": (optim.adam(0.1, 0.5, 0.9, 1e-2), plain_adam(0.1, 0.5, 0.9, 1e-2)),
    "adam, schedule": (optim.adam(falling), plain_adam(falling)),
    "adamw": (optim.adamw(0.1, weight_decay=0.3), plain_adam(0.1, decay=0.3)),
    "rmsprop": (optim.rmsprop(0.1), plain_rmsprop(0.1, 0.9, 1e-8, True)),
    "rmsprop, outside": (optim.rmsprop(0.1, 0.99, 0.1, eps_in_sqrt=False),
        plain_rmsprop(0.1, 0.99, 0.1, False)),
    "rmsprop, centered": (optim.rmsprop(0.1, centered=True, eps=1e-3),
        plain_rmsprop(0.1, 0.9, 1e-3, True, centered=True)),
    "rmsprop, momentum": (optim.rmsprop(0.1, momentum=0.9),
        plain_rmsprop(0.1, 0.9, 1e-8, True, momentum=0.9)),
    "rmsprop, nesterov": (optim.rmsprop(0.1, momentum=0.9, nesterov=True),
        plain_rmsprop(0.1, 0.9, 1e-8, True, momentum=0.9, nesterov=True)),
    "adagrad": (optim.adagrad(0.1), plain_adagrad(0.1)),
    "adagrad, outside": (optim.adagrad(0.1, 0.0, 1e-2, eps_in_sqrt=False),
        plain_adagrad(0.1, 0, 1e-2, False)),
    "adamax": (optim.adamax(0.1), plain_adamax(0.1)),
    "adamax, set": (optim.adamax(0.1, 0.5, 0.9, 1e-1), plain_adamax(0.1, 0.5, 0.9, 1e-1)),
    "adamax, outside": (optim.adamax(0.1, eps=0.1, eps_in_max=False),
        plain_adamax(0.1, eps=0.1, before=False)),
    "lion": (optim.lion(0.1), plain_lion(0.1)),
    "lion, set": (optim.lion(0.1, 0.5, 0.8, 0.2), plain_lion(0.1, 0.5, 0.8, 0.2)),
}  # fmt: skip


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_the_formula(case, jitted):
    made, expected = CASES[case]
    params, _ = run(made, jitted=jitted)
    np.testing.assert_allclose(params["w"], expected, rtol=1e-12)
    np.testing.assert_allclose(params["b"][0], expected[0], rtol=1e-12)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_single_precision_stays_single(case, jitted):
    made, expected = CASES[case]
    params, state = run(made, np.float32, jitted=jitted)
    assert {x.dtype for x in fg.tree.leaves(params)} == {np.dtype("f4")}
    assert {x.dtype for x in fg.tree.leaves(state)} <= {np.dtype("f4"), np.dtype("i4")}
    np.testing.assert_allclose(params["w"], expected, rtol=2e-4, atol=2e-5)


OPTAX = {
    "sgd": {},
    "nesterov": {"momentum": 0.9, "nesterov": True},
    "adam": {},
    "adamw": {},
    "adagrad": {},
    "adamax": {},
    "lion": {},
    "rmsprop": {"momentum": 0.9, "nesterov": True},
    "centered": {"centered": True},
}


@pytest.mark.parametrize("case", OPTAX)
def test_numbers_are_those_of_optax(case):
    optax = pytest.importorskip("optax")
    settings = {"learning_rate": 0.1, **OPTAX[case]}
    name = {"nesterov": "sgd", "centered": "rmsprop"}.get(case, case)
    params, _ = run(getattr(optim, name)(**settings), np.float32)
    theirs = getattr(optax, name)(**settings)
    p = START.astype("f4")
    state = theirs.init(p)
    for g in GRADS:
        updates, state = theirs.update(g.astype("f4"), state, p)
        p = optax.apply_updates(p, updates)
    np.testing.assert_allclose(params["w"], p, rtol=1e-4, atol=1e-5)


TORCH = {
    "SGD": (optim.sgd(0.1), "SGD", {"lr": 0.1}),
    "Nesterov": (optim.sgd(0.1, 0.9, nesterov=True), "SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "Adam": (optim.adam(0.1), "Adam", {"lr": 0.1}),
    "AdamW": (optim.adamw(0.1, weight_decay=0.3), "AdamW", {"lr": 0.1, "weight_decay": 0.3}),
    "Adagrad": (optim.adagrad(0.1, 0.0, 1e-10, eps_in_sqrt=False), "Adagrad", {"lr": 0.1}),
    "Adamax": (optim.adamax(0.1), "Adamax", {"lr": 0.1}),
    "RMSprop": (optim.rmsprop(0.1, 0.99, eps_in_sqrt=False), "RMSprop", {"lr": 0.1}),
    "centered": (optim.rmsprop(0.1, 0.99, eps_in_sqrt=False, centered=True, momentum=0.9), "RMSprop",
        {"lr": 0.1, "centered": True, "momentum": 0.9}),
}  # fmt: skip


@pytest.mark.parametrize("case", TORCH)
def test_numbers_are_those_of_pytorch(case):
    torch = pytest.importorskip("torch")
    made, name, settings = TORCH[case]
    p = torch.tensor(START, requires_grad=True)
    theirs = getattr(torch.optim, name)([p], **settings)
    for g in GRADS:
        p.grad = torch.tensor(g)
        theirs.step()
    np.testing.assert_allclose(run(made)[0]["w"], p.detach().numpy(), rtol=1e-10)


def test_adagrad_stays_where_nothing_came():
    made = optim.adagrad(0.1, 0.0, 0.0)
    move = lambda g: made.update(g, made.init(g))[0]
    np.testing.assert_allclose(move(np.array([2.0, 0.0])), [-0.1, 0])
    np.testing.assert_allclose(fg.grad(lambda g: move(g).sum())(np.array([2.0, 0.0])), [0, 0], atol=1e-15)


def test_complex_parameters_descend():
    target = np.array([1.0 + 2.0j, -3.0j])
    params, made = np.zeros(2, complex), optim.adam(0.1)
    state = made.init(params)
    for _ in range(300):
        grads = np.conj(fg.grad(lambda z: np.sum(np.abs(z - target) ** 2))(params + 1e-9))
        updates, state = made.update(grads, state)
        params = optim.apply_updates(params, updates)
    np.testing.assert_allclose(params, target, atol=1e-2)
    assert state[0].square.dtype == float


def test_numbers_are_parameters():
    made = optim.adam(0.1)
    updates, _ = made.update(2.0, made.init(1.0))
    assert updates == pytest.approx(-0.1)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: optim.sgd(0.1, 1.0), r"sgd: momentum is from 0 to below 1, not 1\.0"),
        (lambda: optim.sgd(0.1, nesterov=True), "nesterov needs a momentum"),
        (lambda: optim.adam(0.1, b2=1.5), "adam: b2"),
        (lambda: optim.adamw(0.1, b1=-1), "adamw: b1"),
        (lambda: optim.rmsprop(0.1, decay=2), "rmsprop: decay"),
        (lambda: optim.adagrad(0.1, -1.0), "adagrad: initial_accumulator_value"),
        (lambda: optim.adamax(0.1, b2=1.0), "adamax: b2"),
        (lambda: optim.lion(0.1, b1=1), "lion: b1"),
    ],
)
def test_settings_that_are_none_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("made", [optim.adamw(0.1), optim.lion(0.1)])
def test_decay_needs_the_weights(made):
    with pytest.raises(ValueError, match=r"update\(grads, state, params\)"):
        made.update(np.ones(2), made.init(np.ones(2)))


# besides the one over elements: the numbers that depend on the count of steps
KERNELS = {"sgd": 0, "momentum": 0, "nesterov": 0, "rmsprop, centered": 0, "lion": 0, "adam": 1, "adamw": 1,
    "adagrad": 0, "adamax": 1}  # fmt: skip


@pytest.mark.parametrize("case", KERNELS)
def test_a_compiled_step_is_one_kernel_over_the_elements(case):
    made, _ = CASES[case]

    def step(params, grads, state):
        updates, state = made.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    one = np.ones((40, 30))
    cost = fg.jit(step).lower(one, one, made.init(one)).cost()
    assert (cost.kernels, cost.launches) == (1 + KERNELS[case],) * 2, cost
    many = {"a": one, "b": np.ones((30, 20)), "c": np.ones(7)}  # those of one rank share a kernel
    cost = fg.jit(step).lower(many, many, made.init(many)).cost()
    assert (cost.kernels, cost.launches) == (2 + KERNELS[case], 3 + KERNELS[case]), cost
    assert not cost.python


def test_gradients_go_through_steps():
    made = optim.adam(0.1)

    def trained(w):
        state = made.init(w)
        for _ in range(3):
            updates, state = made.update(fg.grad(lambda w: np.sum(w**4))(w), state)
            w = optim.apply_updates(w, updates)
        return np.sum(w**2)

    x = np.array([0.5, -1.5])
    eps = 1e-6
    expected = [(trained(x + eps * e) - trained(x - eps * e)) / (2 * eps) for e in np.eye(2)]
    np.testing.assert_allclose(fg.grad(trained)(x), expected, rtol=1e-6)
    np.testing.assert_allclose(
        fg.vmap(lambda w: trained(w))(np.stack([x, 2 * x])), [trained(x), trained(2 * x)]
    )
