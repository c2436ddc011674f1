"""The programs of derivatives, simplified, have at most the operations of programs written by hand.

`jvp` of a function that is staged is two reverse sweeps. By hand it is one pass forward, with each tangent
beside its value. Both are staged and simplified, and what is no view of an array is counted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.helpers import close, differences

import fgrad as fg
from fgrad import nn
from fgrad.compiler.simplify import simplify, speculate
from fgrad.core.program import Program

RNG = np.random.default_rng(5)
VIEWS = {"broadcast_to", "reshape", "slice", "transpose", "unstack"}
INPUTS, TARGETS = RNG.standard_normal((16, 4)), RNG.standard_normal((16, 3))
STEPS = RNG.standard_normal((5, 4))


def operations(program: Program) -> int:
    """Return the number of equations that compute something."""
    return sum(e.name not in VIEWS for e in program.equations)


def flops(program: Program) -> int:
    """Return the multiplications and additions of matrix products and systems of equations."""
    total = 0
    for e in program.equations:
        shapes = [a.aval.shape if hasattr(a, "aval") else np.shape(a) for a in e.args]
        if e.name == "contract":
            lengths = dict(zip(e.params["a"] + e.params["b"], (*shapes[0], *shapes[1]), strict=True))
            total += 2 * math.prod(lengths.values())
        elif e.name == "solve":
            n, columns = shapes[1][-2:]
            total += 2 * n**3 // 3 + 2 * n * n * columns
    return total


# ---- functions, and what is written by hand ---------------------------------------------------------


def network(p: Any) -> Any:
    w, b, v, c = p
    return np.sum((np.tanh(INPUTS @ w + b) @ v + c - TARGETS) ** 2)


def network_forward(p: Any, t: Any) -> Any:
    w, b, v, c = p
    dw, db, dv, dc = t
    h = np.tanh(INPUTS @ w + b)
    dh = (INPUTS @ dw + db) * (1 - h * h)
    r = h @ v + c - TARGETS
    return np.sum(r**2), np.sum(2 * r * (h @ dv + dh @ v + dc))


def chain(x: Any) -> Any:
    for _ in range(10):
        x = np.sin(x) * 1.01
    return x


def chain_forward(x: Any, t: Any) -> Any:
    for _ in range(10):
        x, t = np.sin(x) * 1.01, t * np.cos(x) * 1.01
    return x, t


def log_and_sums(x: Any) -> Any:
    return nn.logsumexp(x, axis=0) + np.cumsum(np.tanh(x))


def log_and_sums_forward(x: Any, t: Any) -> Any:
    lse, h = nn.logsumexp(x, axis=0), np.tanh(x)
    safe = np.where(np.equal(lse, -np.inf), 0, lse)  # where all x are -inf, the derivative is zero
    weights = np.exp(x - safe)  # which sum to one but for the rounding of their logarithm
    total = np.sum(weights)
    mean = np.sum(t * weights) * (1.0 / np.where(total > 0, total, 1))
    return lse + np.cumsum(h), mean + np.cumsum(t * (1 - h * h))


def system(p: Any) -> Any:
    return np.linalg.solve(*p)


def system_forward(p: Any, t: Any) -> Any:
    a, b = p
    y = np.linalg.solve(a, b)
    return y, np.linalg.solve(a, t[1] - t[0] @ y)


def recurrent(w: Any) -> Any:
    h = np.zeros(4)
    for x in STEPS:
        h = np.tanh(h @ w + x)
    return h


def recurrent_forward(w: Any, t: Any) -> Any:
    h, dh = np.tanh(STEPS[0] + np.zeros(4) @ w), np.zeros(4)
    dh = (np.zeros(4) @ t) * (1 - h * h)
    for x in STEPS[1:]:
        h, dh = np.tanh(h @ w + x), dh @ w + h @ t
        dh = dh * (1 - h * h)
    return h, dh


def singular(x: Any) -> Any:
    return np.exp(x) * np.sin(x) / (1 + x * x) + np.sqrt(x)


def singular_forward(x: Any, t: Any) -> Any:
    e, s, d, r = np.exp(x), np.sin(x), 1 + x * x, np.sqrt(x)
    q = e * s / d
    return q + r, ((t * e) * s + (t * np.cos(x)) * e - (2 * t * x) * q) / d + 0.5 * t / r


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


CASES = {
    "network": (network, network_forward, [normal(4, 8), normal(8), normal(8, 3), normal(3)]),
    "chain": (chain, chain_forward, normal(7)),
    "logsumexp and cumsum": (log_and_sums, log_and_sums_forward, normal(7)),
    "linear system": (system, system_forward, [normal(4, 4) + 4 * np.eye(4), normal(4)]),
    "recurrent network": (recurrent, recurrent_forward, normal(4, 4)),
}


def forward(f: Any) -> Any:
    return lambda x, t: fg.jvp(f, (x,), (t,))


def compared(program: Program, simple: Program, *args: Any) -> list[Any]:
    """Return the values of a program, which are those of the simple one."""
    leaves = fg.tree.leaves(args)
    values = program.run(leaves)
    for y, expected in zip(simple.run(leaves), values, strict=True):
        close(y, expected)
    return values


# ---- counts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_double_reverse_costs_what_forward_mode_costs(name):
    f, by_hand, x = CASES[name]
    t = fg.tree.map(lambda a: RNG.standard_normal(a.shape), x)
    made, hand = fg.make_graph(forward(f))(x, t), fg.make_graph(by_hand)(x, t)
    simple, least = simplify(made), simplify(hand)
    assert operations(simple) <= operations(least)
    assert flops(simple) <= flops(least)
    assert operations(simple) < operations(made)
    values = compared(made, simple, x, t)
    for y, eager, own in zip(values, forward(f)(x, t), by_hand(x, t), strict=True):
        close(y, eager)
        close(y, own)
    along = differences(lambda s: f(fg.tree.map(lambda a, b: a + s * b, x, t)), 0.0)
    close(values[1], along, rtol=1e-6)


def test_the_usual_case_of_singular_steps_costs_what_forward_mode_costs():
    x, t = RNG.uniform(0.5, 2, 6), normal(6)
    made, hand = fg.make_graph(forward(singular))(x, t), fg.make_graph(singular_forward)(x, t)
    simple, least = simplify(made), simplify(hand)
    fast = speculate(simple)
    assert operations(fast) <= operations(least) + 2  # a sum, and whether it is finite
    compared(made, simple, x, t)
    *values, valid = fast.run([x, t])
    assert valid
    for y, expected in zip(values, singular_forward(x, t), strict=True):
        close(y, expected)
    close(values[1], differences(singular, x) @ t, rtol=1e-6)


A, B = normal(6, 4), normal(6)


def residuals(w: Any) -> Any:
    return np.tanh(A @ w + B)


def loss(w: Any) -> Any:
    return np.sum(residuals(w) ** 2)


def jacobian_forward(w: Any) -> Any:
    def column(t: Any) -> Any:
        h = np.tanh(A @ w + B)
        return (A @ t) * (1 - h * h)

    return fg.vmap(column, out_axes=-1)(np.eye(4))


def hessian_forward(w: Any) -> Any:
    def column(t: Any) -> Any:
        h = np.tanh(A @ w + B)
        d = 1 - h * h
        dh = d * (A @ t)
        return (2 * dh * d - 2 * h * (2 * h * dh)) @ A

    return fg.vmap(column, out_axes=-1)(np.eye(4))


@pytest.mark.parametrize(
    "make, f, by_hand", [(fg.jacfwd, residuals, jacobian_forward), (fg.hessian, loss, hessian_forward)]
)
def test_matrices_of_derivatives_cost_what_forward_mode_costs(make, f, by_hand):
    w = normal(4)
    made, hand = fg.make_graph(make(f))(w), fg.make_graph(by_hand)(w)
    simple, least = simplify(made), simplify(hand)
    assert operations(simple) <= operations(least)
    assert flops(simple) <= flops(least)
    (value,) = compared(made, simple, w)
    close(value, make(f)(w))
    close(value, differences(f if make is fg.jacfwd else fg.grad(f), w), rtol=1e-6)
