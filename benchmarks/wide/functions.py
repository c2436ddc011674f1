"""Special functions, statistics, finance, and large elementwise programs."""

from __future__ import annotations

import numpy as np

from benchmarks.wide.program import program


def positive(r, n):
    return r.uniform(0.3, 9, n), r.uniform(0.5, 5, n)


def unit(r, n):
    return np.array([1.3, 2.2]), r.uniform(0.02, 0.98, n)


@program("special", positive, {"digamma": (100_000,)}, (9,))
def digamma(xp, x, y):
    return xp.sum(xp.special.digamma(x) * y)


@program("special", positive, {"gammaln": (100_000,)}, (9,), wrt=(0, 1))
def gammaln(xp, x, y):
    return xp.sum(xp.special.gammaln(x + y) - xp.special.gammaln(x) - xp.special.gammaln(y))


@program("special", positive, {"trigamma": (20_000,)}, (9,))
def trigamma(xp, x, y):
    return xp.sum(xp.special.polygamma(1, x) * y)


@program("special", unit, {"beta likelihood": (50_000,)}, (9,))
def beta_likelihood(xp, ab, x):
    return -xp.sum((ab[0] - 1) * xp.log(x) + (ab[1] - 1) * xp.log(1 - x) - xp.special.betaln(ab[0], ab[1]))


@program("special", positive, {"negative binomial": (50_000,)}, (9,), wrt=(0,))
def negative_binomial(xp, mean, count):
    k = 2.5
    return -xp.mean(
        xp.special.gammaln(count + k) - xp.special.gammaln(count + 1)
        + k * xp.log(k / (k + mean)) + count * xp.log(mean / (k + mean))
    )  # fmt: skip


@program("special", positive, {"incomplete gamma": (10_000,)}, (9,))
def incomplete_gamma(xp, x, a):
    return xp.sum(xp.special.gammainc(a, x))


@program("special", positive, {"von Mises": (100_000,)}, (9,))
def von_mises(xp, kappa, angle):
    return xp.mean(xp.log(xp.special.i0e(kappa)) + kappa - kappa * xp.cos(angle))


@program("special", positive, {"error functions": (100_000,)}, (9,))
def error_functions(xp, x, y):
    return xp.sum(xp.special.erf(x / 5) * xp.special.erfc(y / 5) + xp.special.expit(x - y))


@program("special", unit, {"quantiles of the normal": (50_000,)}, (9,), wrt=(0, 1))
def quantiles(xp, ab, x):
    return xp.mean((ab[0] + ab[1] * xp.special.ndtri(x)) ** 2)


def labelled(r, n, d):
    x = r.normal(size=(n, d))
    y = (x[:, 0] + 0.5 * r.normal(size=n) > 0).astype(float)
    return 0.1 * r.normal(size=d), x, y


@program("special", labelled, {"probit": (5000, 20), "probit, float32": (5000, 20)}, (9, 3))
def probit(xp, w, x, y):
    return -xp.mean(xp.special.log_ndtr((2 * y - 1) * (x @ w)))


@program(
    "statistics",
    labelled,
    {"logistic regression": (1000, 20), "logistic regression, float32": (20000, 50)},
    (9, 3),
)
def logistic(xp, w, x, y):
    z = x @ w
    return xp.mean(xp.logaddexp(z * 0, z) - y * z) + 0.01 * xp.sum(w**2)


@program("statistics", labelled, {"Poisson regression": (5000, 20)}, (9, 3))
def poisson(xp, w, x, y):
    z = x @ w
    return xp.mean(xp.exp(z) - y * z)


@program("statistics", labelled, {"robust regression": (20000, 20)}, (9, 3))
def student(xp, w, x, y):
    return xp.mean(2.5 * xp.log1p((x @ w - y) ** 2 / 4))


@program("statistics", labelled, {"quantile regression": (20000, 20)}, (9, 3))
def pinball(xp, w, x, y):
    gap = y - x @ w
    return xp.mean(xp.where(gap > 0, 0.9 * gap, -0.1 * gap))


def groups_of(r, n, g):
    return (
        np.array([0.1, 0.2, -0.1]),
        r.normal(size=g),
        r.normal(size=n),
        r.normal(size=n),
        r.integers(0, g, n),
    )


@program("statistics", groups_of, {"hierarchical model": (5000, 100)}, (9, 3), wrt=(0, 1))
def hierarchical(xp, top, raw, x, y, group):
    effects = top[0] + xp.exp(top[1]) * raw
    gap = (y - effects[group] * x) * xp.exp(-top[2])
    return 0.5 * xp.sum(gap**2) + x.shape[0] * top[2] + 0.5 * xp.sum(raw**2) + 0.5 * xp.sum(top**2)


def mixture_inputs(r, n, k, d):
    factors = np.tril(0.1 * r.normal(size=(k, d, d))) + np.eye(d)
    return r.normal(size=k), r.normal(size=(k, d)), factors, r.normal(size=(n, d))


@program("statistics", mixture_inputs, {"mixture, diagonal": (5000, 8, 10)}, (9, 2, 3), wrt=(0, 1))
def diagonal_mixture(xp, logits, means, _, x):
    gap = x[:, None, :] - means[None, :, :]
    return -xp.mean(xp.logsumexp(logits[None, :] - 0.5 * xp.sum(gap**2, axis=-1), axis=1))


@program(
    "statistics",
    mixture_inputs,
    {"mixture, full, d = 8": (2000, 5, 8), "mixture, full, d = 32": (1000, 5, 32)},
    (9, 2, 3),
    wrt=(0, 1, 2),
)
def full_mixture(xp, logits, means, factors, x):
    gap = xp.swapaxes(x[None, :, :] - means[:, None, :], 1, 2)
    white = xp.solve_triangular(factors, gap, lower=True)
    volumes = xp.sum(xp.log(xp.abs(xp.diagonal(factors, axis1=-2, axis2=-1))), axis=-1)
    scores = logits[:, None] - volumes[:, None] - 0.5 * xp.sum(white**2, axis=1)
    return -xp.mean(xp.logsumexp(scores, axis=0)) + xp.logsumexp(logits, axis=0)


def survival(r, n, d):
    return 0.1 * r.normal(size=d), r.normal(size=(n, d)), r.integers(0, 2, n).astype(float)


@program("statistics", survival, {"Cox regression": (5000, 10)}, (9, 3))
def cox(xp, w, x, event):
    risk = x @ w
    at_risk = xp.log(xp.cumsum(xp.exp(risk), axis=0))
    return -xp.sum(event * (risk - at_risk)) / xp.sum(event)


def ratings(r, n, m, k, count):
    where = r.integers(0, n, count), r.integers(0, m, count)
    return 0.1 * r.normal(size=(n, k)), 0.1 * r.normal(size=(m, k)), *where, r.normal(size=count)


@program("statistics", ratings, {"matrix factorization": (500, 400, 10, 20000)}, (5, 4, 2, 9), wrt=(0, 1))
def factorization(xp, u, v, rows, columns, values):
    found = xp.sum(u[rows] * v[columns], axis=1)
    return xp.mean((found - values) ** 2) + 0.01 * (xp.sum(u**2) + xp.sum(v**2))


def clouds(r, n, d):
    return r.normal(size=(n, d)), r.normal(size=(n, d)) + 1


@program("statistics", clouds, {"Sinkhorn": (150, 3)}, (5, 2))
def sinkhorn(xp, x, y):
    cost = xp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)
    f, g = x[:, 0] * 0, x[:, 0] * 0
    for _ in range(10):
        f = -xp.logsumexp(g[None, :] - cost, axis=1)
        g = -xp.logsumexp(f[:, None] - cost, axis=0)
    return xp.mean(f) + xp.mean(g)


@program(
    "statistics", clouds, {"kernel discrepancy": (300, 4), "kernel discrepancy, float32": (300, 4)}, (5, 2)
)
def discrepancy(xp, x, y):
    def kernel(a, b):
        gap = xp.sum(a**2, axis=1)[:, None] + xp.sum(b**2, axis=1)[None, :] - 2 * a @ b.T
        return xp.mean(xp.exp(-0.5 * gap))

    return kernel(x, x) + kernel(y, y) - 2 * kernel(x, y)


@program(
    "statistics", lambda r, n: (0.1 * r.normal(size=(n, 2)), r.uniform(size=(n, n))), {"t-SNE": (250,)}, (6,)
)
def t_sne(xp, x, p):
    gap = xp.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=-1)
    weights = 1 / (1 + gap) * (1 - xp.eye(x.shape[0]))
    return xp.mean(p * xp.log(1 + gap)) + xp.log(xp.sum(weights))


def neighbours(r, n, m, k):
    places = [r.integers(0, n, size) for size in (m, m, (m, k))]
    return r.normal(size=(n, 2)), *places, r.uniform(size=m)


@program("statistics", neighbours, {"UMAP, 5 negative samples": (1000, 6000, 5)}, (8, 20, 5))
def umap(xp, x, i, j, others, weights):
    def near(gap):
        return 1 / (1 + 1.58 * (xp.sum(gap**2, axis=-1) + 1e-6) ** 0.895)

    attracted, repelled = near(x[i] - x[j]), near(x[i][:, None] - x[others])
    return -xp.mean(weights * xp.log(attracted)) - xp.mean(xp.log(1 - repelled + 1e-4))


@program(
    "statistics",
    lambda r, n, d, k: (r.normal(size=(d, k)), r.normal(size=(n, d)), np.eye(k)[r.integers(0, k, n)]),
    {"five classes": (5000, 20, 5)},
    (9, 3, 5),
)
def classes(xp, w, x, labels):
    scores = x @ w
    p = xp.softmax(scores, axis=1)
    return xp.mean(xp.logsumexp(scores, axis=1) - xp.sum(labels * scores, axis=1)) + 0.1 * xp.mean(
        p[:, 0] ** 2
    )


def options_of(r, n):
    return r.uniform(80, 120, n), r.uniform(80, 120, n), r.uniform(0.1, 0.5, n), r.uniform(0.2, 2, n)


@program(
    "finance",
    options_of,
    {"Black-Scholes": (200_000,), "Black-Scholes, float32": (200_000,)},
    (9,),
    wrt=(0, 2),
)
def black_scholes(xp, spot, strike, sigma, time):
    scale = sigma * xp.sqrt(time)
    high = (xp.log(spot / strike) + (0.02 + 0.5 * sigma**2) * time) / scale
    calls = spot * xp.special.ndtr(high) - strike * xp.exp(-0.02 * time) * xp.special.ndtr(high - scale)
    return xp.mean(calls)


def paths(r, steps, n):
    return np.array([0.04, 1.5, 0.05, 0.3, -0.5]), r.normal(size=(steps, n)), r.normal(size=(steps, n))


@program("finance", paths, {"Asian option": (50, 4000)}, (4, 9))
def asian(xp, p, z, _):
    steps = z.shape[0]
    sigma = xp.sqrt(p[0])
    logs = xp.cumsum((0.02 - 0.5 * p[0]) / steps + sigma * z / steps**0.5, axis=0)
    return xp.mean(xp.maximum(100 * xp.mean(xp.exp(logs), axis=0) - 100.0, 0.0))


@program("finance", paths, {"Heston": (30, 4000)}, (4, 9))
def heston(xp, p, z, w):
    steps = z.shape[0]
    dt = 1 / steps
    log, v = z[0] * 0, z[0] * 0 + p[0]
    for i in range(steps):
        root = xp.sqrt(xp.maximum(v, 1e-8) * dt)
        log = log - 0.5 * v * dt + root * z[i]
        v = v + p[1] * (p[2] - v) * dt + p[3] * root * (p[4] * z[i] + xp.sqrt(1 - p[4] ** 2) * w[i])
    return xp.mean(xp.maximum(100 * xp.exp(log) - 100.0, 0.0))


@program(
    "finance",
    lambda r, n, d: (r.uniform(size=d), r.normal(size=(n, d)) * 0.01),
    {"portfolio": (2000, 50)},
    (9, 3),
)
def portfolio(xp, logits, returns):
    earned = returns @ xp.softmax(logits)
    return -xp.mean(earned) / xp.std(earned) + 0.1 * xp.mean(xp.exp(-50 * earned))


@program(
    "finance", lambda r, n: (np.array([-2.0, -1.0, 1.5]), r.normal(size=n)), {"GARCH by scan": (500,)}, (9,)
)
def garch(xp, p, x):
    omega, alpha, beta = xp.exp(p[0]), 0.3 * xp.special.expit(p[1]), 0.6 * xp.special.expit(p[2])

    def step(v, e):
        return omega + alpha * e**2 + beta * v, xp.log(v) + e**2 / v

    return xp.mean(xp.scan(step, omega / (1 - alpha - beta), x)[1])


@program("elementwise", lambda r, n: (r.uniform(0.9, 1.1, (n, 100)),), {"cumulative products": (1000,)}, (4,))
def products(xp, x):
    return xp.sum(xp.sin(xp.cumprod(x, axis=1)))


@program(
    "elementwise",
    lambda r, n: (r.uniform(0, 6, n), r.uniform(0, 0.8, n)),
    {"Kepler by Newton": (50_000,)},
    (9,),
    wrt=(0, 1),
)
def kepler(xp, m, e):
    angle = m + e * xp.sin(m)
    for _ in range(5):
        angle = angle - (angle - e * xp.sin(angle) - m) / (1 - e * xp.cos(angle))
    return xp.sum(xp.cos(angle))


@program(
    "elementwise",
    lambda r, n: (r.normal(size=n),),
    {"Rosenbrock 10": (10,), "Rosenbrock 100000": (100_000,)},
    (5,),
)
def rosenbrock(xp, x):
    return xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@program(
    "elementwise",
    lambda r, n: (np.array([0.2, 0.1, 0.3]), r.normal(size=(n, 2)) * 0.3),
    {"ray marching": (10_000,)},
    (9,),
)
def marching(xp, centre, direction):
    depth = direction[:, 0] * 0
    for _ in range(12):
        px = depth * direction[:, 0] - centre[0]
        py = depth * direction[:, 1] - centre[1]
        pz = depth - 3 - centre[2]
        depth = depth + 0.8 * (xp.sqrt(px**2 + py**2 + pz**2) - 1 + 0.1 * xp.sin(5 * px))
    return xp.mean(xp.tanh(depth))


@program(
    "elementwise", positive, {"fused chain": (200_000,), "fused chain, float32": (400_000,)}, (9,), wrt=(0, 1)
)
def fused(xp, x, y):
    z = xp.tanh(x) * xp.exp(-y) + xp.log1p(x * y)
    return xp.mean(xp.sqrt(1 + z**2) * xp.arctan2(x, y))
