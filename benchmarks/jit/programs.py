"""Programs that are compiled, and their inputs: each written once, for every library.

A program takes one of `benchmarks.jit.libraries` and returns a function of arrays: plain NumPy code under
that library's own transformation, not yet compiled.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks import programs

LARGE = 4_000_000
RNN_STEPS, RNN_INPUTS, RNN_HIDDEN = 50, 16, 32  # one sequence, no batch


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


def point():
    return (programs.point(),)


def plane():
    return (np.random.default_rng(0).normal(scale=3.0, size=(64, 2)),)


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
    for n, m in pairwise(widths):
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
    return lib.value_and_grad(lambda x: (x * 0.5 * (1 + xp.tanh(0.79788456 * (x + 0.044715 * x**3)))).sum())


def numbers(count, dtype, size=LARGE):
    """Return what makes the inputs of a function of `count` arrays."""

    def inputs():
        rng = np.random.default_rng(0)
        return tuple(rng.standard_normal(size).astype(dtype) for _ in range(count))

    return inputs


def cross_entropy(lib):
    """Mean cross-entropy, gradient in the scores: they are read, read again, and the gradient written."""
    xp = lib.xp

    def loss(scores, labels):
        return -xp.mean(lib.log_softmax(scores, 1)[xp.arange(len(labels)), labels])

    return lib.value_and_grad(loss)


def cross_entropy_by_logsumexp(lib):
    """The same as most compilers like it better: nothing is written that is not asked for."""
    xp = lib.xp

    def loss(scores, labels):
        return xp.mean(lib.logsumexp(scores, 1) - scores[xp.arange(len(labels)), labels])

    return lib.value_and_grad(loss)


def cross_entropy_inputs(examples=10_000, classes=500):
    rng = np.random.default_rng(0)
    return rng.standard_normal((examples, classes)).astype(np.float32), rng.integers(0, classes, examples)


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
