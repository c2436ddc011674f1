"""Programs that become every kind of kernel there is, with the arguments to compile or run them with."""

from __future__ import annotations

from typing import Any

import numpy as np

import fgrad as fg

RNG = np.random.default_rng(0)
ROWS, LENGTHS = 64, 1000
X, V = RNG.uniform(0.5, 1.5, (ROWS, LENGTHS)), RNG.uniform(0.5, 1.5, LENGTHS)

PROGRAMS: dict[str, tuple[Any, ...]] = {
    "element-wise": (lambda x, v: np.tanh(x * v) + np.exp(x) / v, X, V),
    "views": (lambda x: np.pad(x.T[::-1, 1:], 1), X),
    "gather": (lambda x: x[:, ::2][np.array([0, 5, -1])] * 2, X),
    "scatter": (lambda x, i: fg.grad(lambda x: np.sum(np.exp(x)[i] ** 2))(x), V, np.arange(500) // 7),
    "scatter of rows": (lambda x, i: fg.grad(lambda x: np.sum(x[:, i] ** 2))(x), X, np.arange(500) // 9),
    "scan": (
        lambda x, w: fg.grad(lambda w: fg.lax.scan(lambda h, r: (np.tanh(h * w + r), h), w, x)[0].sum())(w),
        X[:5], V),
    "while": (lambda x: fg.lax.while_loop(lambda v: v.sum() < 1e5, lambda v: v * 1.5 + 1, x), V),
    "branch": (lambda x: fg.lax.cond(x[0] > 1, lambda x: x * 2, lambda x: x**3, x), V),
    "layer norm": (fg.nn.layer_norm, X, V, V),
    "gradients of layer norm": (
        lambda *p: fg.grad(lambda *p: np.sum(fg.nn.layer_norm(*p) ** 2), (0, 1, 2))(*p), X, V, V),
    "reductions of the same": (lambda x: (x.sum(0), (x * x).sum(0), x.max(0), x.sum(), x.min()), X),
    "truths": (lambda x: np.where(x > 1, x, 0).sum(0) + (x > 1).any(0), X),
    "extrema and products": (lambda x: (x.max(0), x.min(1), x[:2].prod()), X),
    "sum": (lambda x: (x * x).sum(), X),
    "sums of rows": (lambda x: x.sum(1), X),
    "sums of columns": (lambda x: np.concatenate([x, x, x, x, x, x]).sum(0), X),
    "softmax": (fg.nn.softmax, X),
    "short softmax": (fg.nn.softmax, X[:, :8]),
    "cross-entropy": (
        lambda x: fg.value_and_grad(lambda x: fg.nn.softmax_cross_entropy(x, np.arange(ROWS)).mean())(x), X),
    "gelu": (lambda x: fg.grad(lambda x: fg.nn.gelu(x).sum())(x), X),
    "standardized": (lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1), X),
    "network": (
        lambda x, w: fg.grad(lambda w: np.sum(np.tanh(x @ w) ** 2))(w), X, RNG.uniform(-1, 1, (LENGTHS, 8))),
}  # fmt: skip

LIBRARY: dict[str, tuple[Any, ...]] = {  # programs of kernels that go along lines or through matrices
    "recursion": (lambda b, a, x: fg.scipy.signal.lfilter(b, a, x), V[:2], V[:3], X),
    "long recursion": (
        lambda b, a, x: fg.scipy.signal.lfilter(b, a, x),
        V[:2],
        np.array([1.0, -1.6, 0.7]),
        X.reshape(4, -1),
    ),
    "banded": (lambda ab, b: fg.scipy.linalg.solve_banded((1, 1), ab, b), np.stack([V, 4 * V, V]), V),
    "ldl": (fg.scipy.linalg.ldl, X[:7, :900].reshape(7, 30, 30) - 1),
    "ldl of the upper triangle": (lambda a: fg.scipy.linalg.ldl(a, False), X[:1, :900].reshape(30, 30) - 1),
    "pivots": (lambda a: fg.scipy.linalg.lu(a), X[:, :ROWS]),
}


def single(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments in single precision."""
    return tuple(a.astype(np.float32) if a.dtype.kind == "f" else a for a in args)
