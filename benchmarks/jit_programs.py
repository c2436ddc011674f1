"""The programs that compilers are compared on, and their inputs: each written once, for every library.

A program takes a library of `benchmarks.jit_libraries` and returns a function of arrays: plain NumPy code under
that library's own transformation, not yet compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma, log, pi
from typing import Any, NamedTuple

import numpy as np

from benchmarks import programs

LARGE = 4_000_000
RNN_STEPS, RNN_INPUTS, RNN_HIDDEN = 50, 16, 32  # one sequence, no batch
MIXTURE = {"d": 10, "k": 25, "n": 1000}
CELL, CELL_STEPS = 14, 1000
CAMERAS, POINTS, OBSERVATIONS = 49, 7776, 30_000
FINGERS, JOINTS, VERTICES = 5, 4, 500  # 20 joints and the wrist: 21 products in a chain
BYTES = {np.float32: 4, np.float64: 8}


class Line(NamedTuple):
    """One line of the table: a program, its inputs and what is expected of it."""

    title: str
    program: Callable[[Any], Callable[..., Any]]
    inputs: Callable[[], tuple[np.ndarray, ...]]
    limit: float  # of fgrad's time over JAX's
    threads: int = 2
    first_limit: float | None = None  # of fgrad's first call over JAX's: what compiling takes
    moved: int | None = None  # bytes that must be read or written, to be timed as a copy
    note: str = ""


# ---- small ------------------------------------------------------------------------------------------------


def rosenbrock(lib):
    return lib.value_and_grad(programs.rosenbrock)


def chain(lib):
    return lib.value_and_grad(programs.chain(lib.xp))


def coulomb(lib):
    """Energy of all pairs of charges in the plane; a charge's own term is a constant."""
    xp = lib.xp

    def energy(x):
        apart = x[:, None] - x[None]
        return (1 / xp.sqrt(1 + (apart * apart).sum(-1))).sum() / 2

    return lib.value_and_grad(energy)


def logistic(lib):
    xp = lib.xp

    def loss(w, b, x, signs):
        return xp.mean(xp.log1p(xp.exp(-signs * (x @ w + b))))

    return lib.value_and_grad(loss, (0, 1))


def logistic_inputs():
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], 1000)
    return rng.normal(size=20) / 5, np.array(0.1), rng.normal(size=(1000, 20)), signs


# ---- networks ---------------------------------------------------------------------------------------------


def mlp(lib):
    """Cross-entropy of a network with tanh; arguments: images, labels, then weights and biases in turns."""
    xp = lib.xp

    def loss(params, images, labels):
        *hidden, (w, b) = params
        x = images
        for v, c in hidden:
            x = xp.tanh(x @ v + c)
        scores = x @ w + b
        chosen = scores[xp.arange(len(labels)), labels]
        return xp.mean(lib.logsumexp(scores, 1) - chosen)

    def flat(images, labels, *params):
        return loss(list(zip(params[::2], params[1::2], strict=True)), images, labels)

    return lib.value_and_grad_after(flat, 2)


def mlp_inputs(batch, *widths):
    rng = np.random.default_rng(0)
    params = []
    for n, m in zip(widths, widths[1:], strict=False):
        params += [rng.normal(scale=n**-0.5, size=(n, m)), rng.normal(scale=0.1, size=m)]
    images, labels = rng.random((batch, widths[0])), rng.integers(0, widths[-1], batch)
    return images.astype(np.float32), labels, *(p.astype(np.float32) for p in params)


def _rnn(lib, sequence):
    """Return the loss of a recurrent network, where `sequence(step, h, xs)` gives the last state."""
    xp = lib.xp

    def loss(w, u, b, xs):
        last = sequence(lambda h, x: xp.tanh(x @ w + h @ u + b), xp.zeros(RNN_HIDDEN, dtype=b.dtype), xs)
        return (last * last).sum()

    return lib.value_and_grad(loss, (0, 1, 2))


def rnn_loop(lib):
    def sequence(step, h, xs):
        for t in range(RNN_STEPS):
            h = step(h, xs[t])
        return h

    return _rnn(lib, sequence)


def rnn_scan(lib):
    return _rnn(lib, lambda step, h, xs: lib.scan(lambda h, x: (step(h, x), ()), h, xs)[0])


def rnn_inputs():
    rng = np.random.default_rng(0)
    return (
        rng.normal(scale=RNN_INPUTS**-0.5, size=(RNN_INPUTS, RNN_HIDDEN)),
        rng.normal(scale=RNN_HIDDEN**-0.5, size=(RNN_HIDDEN, RNN_HIDDEN)),
        rng.normal(scale=0.1, size=RNN_HIDDEN),
        rng.normal(size=(RNN_STEPS, RNN_INPUTS)),
    )


# ---- large arrays -----------------------------------------------------------------------------------------


def affine_tanh(lib):
    """sum(tanh(x w + b)²), gradient in x, all three of the same size.

    At 4e6 elements x, w and b must be read and the gradient written: four arrays, 64 MB in float32.
    """
    xp = lib.xp
    return lib.value_and_grad(lambda x, w, b: (xp.tanh(x * w + b) ** 2).sum())


def gelu(lib):
    """A sum of gelus by tanh: x must be read and its gradient written, 32 MB at 4e6 elements in float32."""
    xp = lib.xp
    return lib.value_and_grad(
        lambda x: (x * 0.5 * (1 + xp.tanh(0.79788456 * (x + 0.044715 * x**3)))).sum()
    )


def numbers(count, dtype):
    """Return the inputs of a function of `count` arrays of LARGE numbers."""

    def inputs():
        rng = np.random.default_rng(0)
        return tuple(rng.standard_normal(LARGE).astype(dtype) for _ in range(count))

    return inputs


def cross_entropy(lib):
    """Mean cross-entropy, gradient in the scores: they are read, read again and written, 60 MB."""
    xp = lib.xp

    def loss(scores, labels):
        return xp.mean(lib.logsumexp(scores, 1) - scores[xp.arange(len(labels)), labels])

    return lib.value_and_grad(loss)


def cross_entropy_inputs():
    rng = np.random.default_rng(0)
    return rng.standard_normal((10_000, 500)).astype(np.float32), rng.integers(0, 500, 10_000)


# ---- the objectives of ADBench (Srajer, Kukelova & Fitzgibbon 2018, Optim. Methods Softw.) -----------------


def mixture(lib):
    """Log-posterior of a Gaussian mixture.

    The factor of a precision matrix is packed: the logarithm of its diagonal, then its strict lower
    triangle column by column.
    """
    xp, (d, k, n) = lib.xp, MIXTURE.values()
    columns, rows = np.triu_indices(d, 1)  # of the lower triangle, column by column
    constant = -0.5 * n * d * log(2 * pi) + k * _wishart_constant(d)

    def log_posterior(alphas, means, packed, x):
        logs, below = packed[:, :d], packed[:, d:]
        diagonal, log_det = xp.exp(logs), logs.sum(1)
        factors = lib.placed(below, (slice(None), rows, columns), (k, d, d))
        apart = x[None] - means[:, None]  # (k, n, d)
        scaled = diagonal[:, None] * apart + apart @ xp.swapaxes(factors, 1, 2)
        terms = (alphas + log_det)[:, None] - 0.5 * (scaled * scaled).sum(-1)
        prior = 0.5 * ((diagonal * diagonal).sum() + (below * below).sum())
        return constant + lib.logsumexp(terms, 0).sum() - n * lib.logsumexp(alphas, 0) + prior

    return lib.value_and_grad(log_posterior, (0, 1, 2))


def _wishart_constant(d):
    """Return the part of the log-density of a Wishart prior (gamma = 1, m = 0) without parameters."""
    n = d + 1
    multigamma = 0.25 * d * (d - 1) * log(pi) + sum(lgamma(0.5 * n - 0.5 * j) for j in range(d))
    return multigamma + 0.5 * n * d * log(2)


def mixture_inputs():
    rng, (d, k, n) = np.random.default_rng(0), MIXTURE.values()
    packed = rng.normal(scale=0.3, size=(k, d * (d + 1) // 2))
    return rng.normal(size=k), rng.normal(size=(k, d)), packed, rng.normal(size=(n, d))


def bundle(lib):
    """Jacobians of reprojection residuals in 11 parameters of the camera, 3 of the point and the weight."""
    xp = lib.xp

    def rotated(rotation, x):  # by Rodrigues' formula
        angle = xp.sqrt((rotation * rotation).sum())
        axis = rotation / angle
        return (
            x * xp.cos(angle)
            + xp.linalg.cross(axis, x) * xp.sin(angle)
            + axis * ((axis * x).sum() * (1 - xp.cos(angle)))
        )

    def residual(camera, point, weight, feature):
        rotation, centre, focal, principal, radial = (
            camera[:3], camera[3:6], camera[6], camera[7:9], camera[9:],
        )  # fmt: skip
        seen = rotated(rotation, point - centre)
        flat = seen[:2] / seen[2]
        square = (flat * flat).sum()
        distorted = flat * (1 + radial[0] * square + radial[1] * square * square)
        return weight * (distorted * focal + principal - feature)

    jacobians = lib.vmap(lib.jacrev(residual, (0, 1, 2)))

    def gathered(cameras, points, weights, features, which_camera, which_point):
        return jacobians(cameras[which_camera], points[which_point], weights, features)

    return gathered


def bundle_inputs():
    rng = np.random.default_rng(0)
    centre, depth = rng.normal(size=(CAMERAS, 3)), np.array([0.0, 0.0, 10.0])
    others = np.column_stack([
        500 + rng.normal(size=CAMERAS), rng.normal(size=(CAMERAS, 2)), rng.normal(scale=0.01, size=(CAMERAS, 2)),
    ])  # fmt: skip
    return (
        np.column_stack([rng.normal(scale=0.1, size=(CAMERAS, 3)), centre, others]),
        rng.normal(size=(POINTS, 3)) + depth,
        rng.random(OBSERVATIONS),
        rng.normal(size=(OBSERVATIONS, 2)),
        rng.integers(0, CAMERAS, OBSERVATIONS),
        rng.integers(0, POINTS, OBSERVATIONS),
    )


def lstm(lib):
    """Loss of one recurrent cell with four gates whose weights are vectors, as in ADBench."""
    xp, b = lib.xp, CELL

    def sigmoid(x):
        return 1 / (1 + xp.exp(-x))

    def loss(weight, bias, hidden, cell, extra, sequence):
        def step(carry, given):
            h, c = carry
            x, target = given
            x = x * extra[0]
            forget = sigmoid(x * weight[:b] + bias[:b])
            enter = sigmoid(h * weight[b : 2 * b] + bias[b : 2 * b])
            leave = sigmoid(x * weight[2 * b : 3 * b] + bias[2 * b : 3 * b])
            change = xp.tanh(h * weight[3 * b :] + bias[3 * b :])
            c = c * forget + enter * change
            h = leave * xp.tanh(c)
            predicted = h * extra[1] + extra[2]
            return (h, c), (target * (predicted - xp.log(xp.exp(predicted).sum() + 2))).sum()

        _, terms = lib.scan(step, (hidden, cell), (sequence[:-1], sequence[1:]))
        return -terms.sum() / (CELL_STEPS * b)

    return lib.value_and_grad(loss, (0, 1, 2, 3, 4))


def lstm_inputs():
    rng, b = np.random.default_rng(0), CELL
    shapes = (4 * b,), (4 * b,), (b,), (b,), (3, b)
    sequence = (rng.random((CELL_STEPS + 1, b)) < 0.2).astype(float)
    return *(rng.normal(size=s) for s in shapes), sequence


def hand(lib):
    """Forward Jacobian of a hand's surface: each joint moves what hangs on it, each vertex follows all bones."""
    xp = lib.xp

    def turn(angle, about):
        c, s, zero, one = xp.cos(angle), xp.sin(angle), xp.zeros_like(angle), xp.ones_like(angle)
        places = {
            "x": [one, zero, zero, zero, zero, c, -s, zero, zero, s, c, zero],
            "y": [c, zero, s, zero, zero, one, zero, zero, -s, zero, c, zero],
            "z": [c, -s, zero, zero, s, c, zero, zero, zero, zero, one, zero],
        }[about]
        return xp.stack([*places, zero, zero, zero, one]).reshape(4, 4)

    def wrist(params):
        zero, one = xp.zeros_like(params[0]), xp.ones_like(params[0])
        x, y, z = params[3], params[4], params[5]
        moved = [one, zero, zero, x, zero, one, zero, y, zero, zero, one, z, zero, zero, zero, one]
        turned = turn(params[0], "x") @ turn(params[1], "y") @ turn(params[2], "z")
        return xp.stack(moved).reshape(4, 4) @ turned

    def surface(params, rest, back, vertices, weights):
        bones = [wrist(params)]
        for finger in range(FINGERS):
            at = bones[0]
            for joint in range(JOINTS):
                i = finger * JOINTS + joint
                at = at @ (rest[i] @ turn(params[6 + i], "x" if joint else "z"))
                bones.append(at)
        moved = (xp.stack(bones) @ back) @ vertices  # (bones, 4, vertices)
        return (moved * weights[:, None]).sum(0)[:3]

    return lib.jacfwd(surface)


def hand_inputs():
    rng, bones = np.random.default_rng(0), 1 + FINGERS * JOINTS
    rest = np.tile(np.eye(4), (bones - 1, 1, 1))
    rest[:, :3, 3] = rng.normal(size=(bones - 1, 3))
    back = np.tile(np.eye(4), (bones, 1, 1))
    back[:, :3, 3] = rng.normal(size=(bones, 3))
    vertices = np.vstack([rng.normal(size=(3, VERTICES)), np.ones(VERTICES)])
    weights = rng.random((bones, VERTICES)) ** 4
    return rng.normal(scale=0.3, size=6 + FINGERS * JOINTS), rest, back, vertices, weights / weights.sum(0)


# ---- second derivatives -----------------------------------------------------------------------------------


def least_squares_jacobian(lib):
    return lib.jacfwd(lambda x, a, b: lib.xp.tanh(a @ x) - b)


def least_squares_hessian(lib):
    def half_square(x, a, b):
        r = lib.xp.tanh(a @ x) - b
        return 0.5 * (r * r).sum()

    return lib.hessian(half_square)


def least_squares_inputs():
    rng = np.random.default_rng(0)
    return rng.normal(size=50), rng.normal(scale=50**-0.5, size=(80, 50)), rng.normal(size=80)


def point():
    return (programs.point(),)


def plane():
    return (np.random.default_rng(0).normal(scale=3.0, size=(64, 2)),)


# fmt: off
LINES = {
    "rosenbrock": Line("Rosenbrock, 10 numbers", rosenbrock, point, 0.25),
    "chain": Line("200 operations in a chain, 10 numbers", chain, point, 0.3),
    "coulomb": Line("soft-Coulomb energy, 64 points", coulomb, plane, 0.5),
    "logistic": Line("logistic regression 1000 x 20", logistic, logistic_inputs, 0.6),
    "mlp": Line("MLP 784-128-10, batch 64, f32", mlp, lambda: mlp_inputs(64, 784, 128, 10), 0.9),
    "mlp large": Line("MLP 784-512-512-10, batch 1024, f32", mlp, lambda: mlp_inputs(1024, 784, 512, 512, 10), 1.0),
    "rnn loop": Line("RNN, 50 steps, hidden 32, Python loop", rnn_loop, rnn_inputs, 0.8, first_limit=1.0),
    "rnn scan": Line("RNN, 50 steps, hidden 32, scan", rnn_scan, rnn_inputs, 0.8),
    "tanh f32": Line("sum(tanh(x w + b)²), 4e6, f32", affine_tanh, numbers(3, np.float32), 1.1, moved=16 * LARGE),
    "tanh f64": Line("sum(tanh(x w + b)²), 4e6, f64", affine_tanh, numbers(3, np.float64), 0.6, moved=32 * LARGE),
    "gelu f32": Line("gelu by tanh, 4e6, f32", gelu, numbers(1, np.float32), 0.3, moved=8 * LARGE),
    "gelu f64": Line("gelu by tanh, 4e6, f64", gelu, numbers(1, np.float64), 0.4, moved=16 * LARGE),
    "cross-entropy": Line("softmax cross-entropy 10000 x 500, f32", cross_entropy, cross_entropy_inputs, 0.4, moved=60_000_000),
    "mixture": Line("Gaussian mixture, d = 10, K = 25, n = 1000", mixture, mixture_inputs, 0.8, threads=1),
    "bundle": Line("bundle adjustment, 30,000 Jacobians", bundle, bundle_inputs, 0.2, threads=1),
    "lstm": Line("LSTM cell of 14, 1000 steps, scan", lstm, lstm_inputs, 0.4, threads=1),
    "hand": Line("hand: 21 products, 500 points, 26 tangents", hand, hand_inputs, 0.1, threads=1),
    "jacobian": Line("Jacobian, 80 residuals of 50 parameters", least_squares_jacobian, least_squares_inputs, 0.8),
    "hessian": Line("Hessian of the same least squares", least_squares_hessian, least_squares_inputs, 0.8),
}
# fmt: on
