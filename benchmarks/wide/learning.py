"""Networks, and derivatives of derivatives."""

from __future__ import annotations

import itertools

import numpy as np

from benchmarks.wide.program import program


def layers_of(r, n, *widths):
    weights = [r.normal(size=(a, b)) / np.sqrt(a) for a, b in itertools.pairwise(widths)]
    return *weights, r.normal(size=(n, widths[0])), r.integers(0, widths[-1], n)


@program(
    "networks",
    layers_of,
    {"network 784-128-10": (64, 784, 128, 10), "network 784-128-10, float32": (64, 784, 128, 10)},
    (3, 4, 5, 3),
    wrt=(0, 1),
)
def network(xp, w1, w2, x, labels):
    scores = xp.tanh(x @ w1) @ w2
    shifted = scores - xp.max(scores, axis=1, keepdims=True)
    picked = xp.take_along_axis(shifted, labels[:, None], 1)[:, 0]
    return xp.mean(xp.log(xp.sum(xp.exp(shifted), axis=1)) - picked)


def convolutions(r, n, c, s, k):
    scale = 1 / np.sqrt(9 * c)
    return (
        scale * r.normal(size=(k, c, 3, 3)),
        r.normal(size=(k, k, 3, 3)) / np.sqrt(9 * k),
        r.normal(size=(n, c, s, s)),
    )


@program(
    "networks",
    convolutions,
    {"residual block, float32": (4, 16, 28, 16), "residual block": (2, 8, 16, 8)},
    (1, 2, 6, 2),
    wrt=(0, 1),
)
def residual(xp, w1, w2, x):
    hidden = xp.maximum(xp.conv(x, w1, padding="SAME"), 0.0)
    return xp.mean(xp.maximum(xp.conv(hidden, w2, padding="SAME") + x, 0.0) ** 2)


def lenet_inputs(r, n, s, k):
    side = ((s - 4) // 2 - 4) // 2
    return (
        0.2 * r.normal(size=(k, 1, 5, 5)), 0.1 * r.normal(size=(2 * k, k, 5, 5)),
        0.1 * r.normal(size=(2 * k * side * side, 10)), r.normal(size=(n, 1, s, s)), r.normal(size=(n, 10)),
    )  # fmt: skip


@program("networks", lenet_inputs, {"LeNet, float32": (16, 28, 6)}, (1, 16, 2), wrt=(0, 1, 2))
def lenet(xp, w1, w2, w3, x, target):
    x = xp.max_pool(xp.maximum(xp.conv(x, w1), 0.0), 2)
    x = xp.max_pool(xp.maximum(xp.conv(x, w2), 0.0), 2)
    return xp.mean((x.reshape(x.shape[0], -1) @ w3 - target) ** 2)


def strided_inputs(r, n, c, s, k):
    return 0.1 * r.normal(size=(k, c, 3, 3)), 0.3 * r.normal(size=(k, k, 1, 1)), r.normal(size=(n, c, s, s))


@program(
    "networks", strided_inputs, {"strided convolution, float32": (8, 8, 33, 32)}, (1, 2, 7, 3), wrt=(0, 1)
)
def strided(xp, w, point, x):
    hidden = xp.conv(x, w, stride=2)
    mean = xp.mean(hidden, axis=(0, 2, 3), keepdims=True)
    spread = xp.mean((hidden - mean) ** 2, axis=(0, 2, 3), keepdims=True)
    return xp.mean(xp.tanh(xp.conv((hidden - mean) / xp.sqrt(spread + 1e-5), point)))


def attention_inputs(r, batch, n, d):
    s = 1 / np.sqrt(d)
    return (
        s * r.normal(size=(d, 3 * d)),
        s * r.normal(size=(d, 4 * d)),
        0.5 * s * r.normal(size=(4 * d, d)),
        r.normal(size=(batch, n, d)),
    )


@program(
    "networks",
    attention_inputs,
    {"transformer block": (2, 64, 64), "transformer block, float32": (4, 64, 64)},
    (1, 3, 8),
    wrt=(0, 1, 2),
)
def transformer(xp, qkv, up, down, x):
    batch, n, d = x.shape

    def norm(y):
        gap = y - xp.mean(y, axis=-1, keepdims=True)
        return gap / xp.sqrt(xp.mean(gap**2, axis=-1, keepdims=True) + 1e-5)

    heads = (norm(x) @ qkv).reshape(batch, n, 3, 4, d // 4)
    q, k, v = (xp.transpose(heads[:, :, i], (0, 2, 1, 3)) for i in range(3))
    weights = xp.softmax(q @ xp.swapaxes(k, -1, -2) / (d // 4) ** 0.5, axis=-1)
    x = x + xp.transpose(weights @ v, (0, 2, 1, 3)).reshape(batch, n, d)
    hidden = norm(x) @ up
    gelu = 0.5 * hidden * (1 + xp.tanh(0.7978845608 * (hidden + 0.044715 * hidden**3)))
    return xp.mean((x + gelu @ down) ** 2)


def autoencoder(r, n, d, h, z):
    return (
        r.normal(size=(d, h)) / np.sqrt(d), r.normal(size=(h, 2 * z)) / np.sqrt(h), r.normal(size=(z, h)),
        r.normal(size=(h, d)) / np.sqrt(h), r.uniform(size=(n, d)), r.normal(size=(n, z)),
    )  # fmt: skip


@program(
    "networks",
    autoencoder,
    {"VAE": (64, 100, 64, 8), "VAE, float32": (64, 400, 100, 8)},
    (3, 5, 4, 2),
    wrt=(0, 1, 2, 3),
)
def vae(xp, w1, w2, w3, w4, x, noise):
    code = xp.tanh(x @ w1) @ w2
    k = noise.shape[1]
    mean, log = code[:, :k], code[:, k:]
    logits = xp.tanh((mean + xp.exp(0.5 * log) * noise) @ w3) @ w4
    loss = xp.sum(xp.logaddexp(logits * 0, logits) - x * logits) - 0.5 * xp.sum(
        1 + log - mean**2 - xp.exp(log)
    )
    return loss / x.shape[0]


def flow_inputs(r, layers, n, d, h):
    return (
        0.3 * r.normal(size=(layers, d, h)),
        0.1 * r.normal(size=(layers, h, 2 * d)),
        r.normal(size=(n, 2 * d)),
    )


@program("networks", flow_inputs, {"normalizing flow": (4, 500, 4, 32)}, (2, 3, 2, 3), wrt=(0, 1))
def flow(xp, w1, w2, x):
    d = w1.shape[1]
    a, b = x[:, :d], x[:, d:]
    volume = 0.0
    for i in range(w1.shape[0]):
        out = xp.tanh(a @ w1[i]) @ w2[i]
        scale = xp.tanh(out[:, :d])
        a, b = b * xp.exp(scale) + out[:, d:], a
        volume = volume + xp.sum(scale, axis=1)
    return xp.mean(0.5 * xp.sum(a**2 + b**2, axis=1) - volume)


def graph(r, n, edges, d):
    return (
        0.3 * r.normal(size=(d, d)),
        0.3 * r.normal(size=(d, d)),
        r.normal(size=(n, d)),
        *r.integers(0, n, (2, edges)),
    )


@program(
    "networks",
    graph,
    {"graph network": (500, 4000, 16), "graph network, float32": (500, 4000, 32)},
    (4, 6, 3),
    wrt=(0, 1),
)
def graph_network(xp, w, own, x, start, end):
    for _ in range(2):
        x = xp.tanh(x @ own + xp.segment_sum((x @ w)[start], end, x.shape[0]))
    return xp.mean(x**2)


@program("networks", layers_of, {"contrastive loss": (200, 40, 30)}, (4, 3, 4))
def contrastive(xp, w, x, _):
    z = x @ w
    z = z / xp.sqrt(xp.sum(z**2, axis=1, keepdims=True))
    scores = 5 * z @ z.T
    return xp.mean(xp.logsumexp(scores, axis=1) - xp.mean(scores, axis=1))


@program(
    "networks",
    lambda r, v, d, n: (r.normal(size=(v, d)), r.integers(0, v, (n, 8)), r.normal(size=d)),
    {"bags of embeddings": (2000, 16, 1000)},
    (5, 3, 4),
    wrt=(0, 2),
)
def embeddings(xp, table, words, w):
    return xp.mean(xp.tanh(xp.mean(table[words], axis=1) @ w) ** 2)


def curves(r, n, d):
    x = r.normal(size=(n, d))
    return 0.1 * r.normal(size=d), x, (x[:, 0] > 0).astype(float)


def logistic(xp, w, x, y):
    z = x @ w
    return xp.mean(xp.logaddexp(z * 0, z) - y * z)


@program("higher", curves, {"Hessian of a logistic regression": (300, 20)}, (6, 3))
def logistic_hessian(xp, w, x, y):
    return xp.sum(xp.hessian(lambda v: logistic(xp, v, x, y))(w) ** 2)


@program("higher", curves, {"Hessian-vector product": (2000, 50)}, (6, 3))
def hessian_vector(xp, w, x, y):
    return xp.sum(xp.hvp(lambda v: logistic(xp, v, x, y), w, xp.ones_like(w)) ** 2)


@program("higher", curves, {"per-sample gradients": (300, 20)}, (6, 3))
def per_sample(xp, w, x, y):
    def loss(v, a, b):
        z = xp.sum(a * v)
        return xp.logaddexp(z * 0, z) - b * z

    gradients = xp.vmap(xp.grad(loss), (None, 0, 0))(w, x, y)
    return xp.mean(xp.sqrt(xp.sum(gradients**2, axis=1) + 1e-9))


@program(
    "higher",
    lambda r, n, d, h: (0.5 * r.normal(size=(d, h)), r.normal(size=h), r.normal(size=(n, d))),
    {"Laplacian of a network": (50, 3, 32)},
    (3, 2, 4),
    wrt=(0, 1),
)
def laplacian(xp, w, v, x):
    u = lambda p: xp.sum(xp.tanh(p @ w) * v)
    return xp.mean((xp.vmap(lambda p: xp.trace(xp.hessian(u)(p)) + u(p), 0)(x) - 1) ** 2)


@program(
    "higher",
    lambda r, n: (r.normal(size=3), np.linspace(0, 1, n), r.normal(size=n)),
    {"Gauss-Newton by a Jacobian": (300,)},
    (6,),
)
def gauss_newton(xp, p, t, y):
    def gap(q):
        return q[0] * xp.exp(-(q[1] ** 2) * t) + q[2] * t - y

    jacobian = xp.jacobian(gap)(p)
    step = xp.linalg.solve(jacobian.T @ jacobian + 0.1 * xp.eye(3), jacobian.T @ gap(p))
    return xp.sum(gap(p - step) ** 2)


@program(
    "higher",
    lambda r, d, h, n: (0.3 * r.normal(size=(d, h)), r.normal(size=h), r.normal(size=(n, d))),
    {"gradient penalty": (20, 64, 200)},
    (2, 4, 3),
    wrt=(0, 1),
)
def penalty(xp, w, v, x):
    slopes = xp.grad(lambda y: xp.sum(xp.tanh(y @ w) @ v))(x)
    return xp.mean((xp.sqrt(xp.sum(slopes**2, axis=1) + 1e-9) - 1) ** 2)
