"""The budgets of `fgrad.jit`: programs, and how fast each should be beside JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.jit import objectives, programs
from benchmarks.jit.programs import LARGE


class Line(NamedTuple):
    """One line of the table: a program, its inputs and what is expected of it."""

    title: str
    program: Callable[[Any], Callable[..., Any]]
    inputs: Callable[[], tuple[np.ndarray, ...]]
    limit: float  # of fgrad's time over JAX's
    threads: int = 2
    first_limit: float | None = None  # of fgrad's first call over JAX's: what compiling takes
    moved: int | None = None  # bytes that must be read or written, to be timed as a copy
    copy_limit: float | None = None  # of fgrad's time over that of this copy


LINES = {
    "rosenbrock": Line("Rosenbrock, 10 numbers", programs.rosenbrock, programs.point, 0.25),
    "chain": Line("200 operations in a chain, 10 numbers", programs.chain, programs.point, 0.3),
    "coulomb": Line("soft-Coulomb energy, 64 points", programs.coulomb, programs.plane, 0.5),
    "logistic": Line("logistic regression 1000 x 20", programs.logistic, programs.logistic_inputs, 0.6),
    "mlp": Line(
        "MLP 784-128-10, batch 64, f32", programs.mlp, partial(programs.mlp_inputs, 64, 784, 128, 10), 0.9
    ),
    "mlp large": Line(
        "MLP 784-512-512-10, batch 1024, f32",
        programs.mlp,
        partial(programs.mlp_inputs, 1024, 784, 512, 512, 10),
        1.0,
    ),
    "rnn loop": Line(
        "RNN, 50 steps, hidden 32, Python loop", programs.rnn_loop, programs.rnn_inputs, 0.8, first_limit=1.0
    ),
    "rnn scan": Line("RNN, 50 steps, hidden 32, scan", programs.rnn_scan, programs.rnn_inputs, 0.8),
    "tanh f32": Line(
        "sum(tanh(x w + b)²), 4e6, f32",
        programs.affine_tanh,
        programs.numbers(3, np.float32),
        1.1,
        moved=16 * LARGE,
    ),
    "tanh f64": Line(
        "sum(tanh(x w + b)²), 4e6, f64",
        programs.affine_tanh,
        programs.numbers(3, np.float64),
        0.6,
        moved=32 * LARGE,
    ),
    "gelu f32": Line(
        "gelu by tanh, 4e6, f32",
        programs.gelu,
        programs.numbers(1, np.float32),
        0.3,
        moved=8 * LARGE,
        copy_limit=1.5,
    ),
    "gelu f64": Line(
        "gelu by tanh, 4e6, f64",
        programs.gelu,
        programs.numbers(1, np.float64),
        0.4,
        moved=16 * LARGE,
        copy_limit=1.5,
    ),
    "cross-entropy": Line(
        "softmax cross-entropy 10000 x 500, f32",
        programs.cross_entropy,
        programs.cross_entropy_inputs,
        0.4,
        moved=3 * 4 * 10_000 * 500,
    ),
    "cross-entropy lse": Line(
        "the same by logsumexp",
        programs.cross_entropy_by_logsumexp,
        programs.cross_entropy_inputs,
        0.4,
        moved=3 * 4 * 10_000 * 500,
    ),
    "mixture": Line(
        "Gaussian mixture, d = 10, K = 25, n = 1000",
        objectives.mixture,
        objectives.mixture_inputs,
        0.8,
        threads=1,
    ),
    "bundle": Line(
        "bundle adjustment, 30,000 Jacobians", objectives.bundle, objectives.bundle_inputs, 0.2, threads=1
    ),
    "lstm": Line(
        "LSTM cell of 14, 1000 steps, scan", objectives.lstm, objectives.lstm_inputs, 0.4, threads=1
    ),
    "hand": Line(
        "hand: 21 products, 500 points, 26 tangents", objectives.hand, objectives.hand_inputs, 0.1, threads=1
    ),
    "jacobian": Line(
        "Jacobian, 80 residuals of 50 parameters",
        programs.least_squares_jacobian,
        programs.least_squares_inputs,
        0.8,
    ),
    "hessian": Line(
        "Hessian of the same least squares",
        programs.least_squares_hessian,
        programs.least_squares_inputs,
        0.8,
    ),
}
