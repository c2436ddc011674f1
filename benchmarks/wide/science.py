"""Differential equations, particles, control, sequences, geometry."""

from __future__ import annotations

import numpy as np

from benchmarks.wide.program import program


def runge_kutta(f, y, h):
    k1 = f(y)
    k2 = f(y + 0.5 * h * k1)
    k3 = f(y + 0.5 * h * k2)
    k4 = f(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def ode_network(r, n, d, h):
    return (
        0.3 * r.normal(size=(d, h)),
        0.3 * r.normal(size=(h, d)),
        r.normal(size=(n, d)),
        r.normal(size=(n, d)),
    )


@program(
    "dynamics",
    ode_network,
    {"neural ODE": (100, 4, 32), "neural ODE, float32": (100, 4, 32)},
    (3, 2, 4),
    wrt=(0, 1),
)
def neural_ode(xp, w1, w2, x, target):
    f = lambda y: xp.tanh(y @ w1) @ w2
    return xp.mean((xp.fori(20, lambda y: runge_kutta(f, y, 0.05), x) - target) ** 2)


@program(
    "dynamics",
    lambda _, n: (np.array([1.0, 0.1]), 0.1 + 0 * np.empty(n)),
    {"30 Runge-Kutta steps, unrolled": (30,)},
    (3,),
)
def pendulum(xp, y, steps):
    f = lambda s: xp.stack([s[1], -xp.sin(s[0]) - 0.1 * s[1]])
    for _ in range(steps.shape[0]):
        y = runge_kutta(f, y, 0.05)
    return y[0] ** 2 + y[1]


@program(
    "dynamics",
    lambda _, n: (np.array([10.0, 28.0, 2.6]), np.zeros(n)),
    {"Lorenz by scan": (200,)},
    (4,),
    tolerance=1e-7,
)
def lorenz(xp, p, steps):
    def f(s):
        return xp.stack([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])

    def step(s, x):
        s = runge_kutta(f, s, 0.005)
        return s, s[0] + x

    return xp.mean(xp.scan(step, xp.ones(3), steps)[1] ** 2)


@program(
    "dynamics",
    lambda r, n: (r.uniform(0, 1, n), r.uniform(1, 2, n)),
    {"Lotka-Volterra, many": (2000,)},
    (4,),
    wrt=(0, 1),
)
def lotka(xp, a, b):
    x, y = b, a + 1
    for _ in range(20):
        x, y = x + 0.05 * x * (a - 0.3 * y), y + 0.05 * y * (0.2 * x - b)
    return xp.sum(x * y)


def lattice(r, n):
    grid = np.stack(np.meshgrid(*[np.arange(n)] * 3), -1).reshape(-1, 3)
    return (1.2 * grid + 0.05 * r.normal(size=grid.shape),)


@program("dynamics", lattice, {"Lennard-Jones 64": (4,), "Lennard-Jones 216": (6,)}, (2,))
def lennard_jones(xp, x):
    n = x.shape[0]
    d2 = xp.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=-1) + xp.eye(n)
    s6 = 1 / d2**3
    return 2 * xp.sum((s6**2 - s6) * (1 - xp.eye(n)))


@program(
    "dynamics",
    lambda r, n: (r.normal(size=(n, 3)), r.uniform(1, 2, n)),
    {"N-body 256": (256,), "N-body 256, float32": (256,)},
    (4,),
    wrt=(0, 1),
)
def n_body(xp, x, mass):
    gap = x[:, None, :] - x[None, :, :]
    distance = xp.sqrt(xp.sum(gap**2, axis=-1) + 0.01)
    return -0.5 * xp.sum(mass[:, None] * mass[None, :] / distance)


@program(
    "dynamics",
    lambda r, n: (r.uniform(size=(n, n)),),
    {"heat equation": (64,), "heat equation, float32": (64,)},
    (6,),
)
def heat(xp, u):
    start = u
    for _ in range(20):
        u = u + 0.2 * (xp.roll(u, 1, 0) + xp.roll(u, -1, 0) + xp.roll(u, 1, 1) + xp.roll(u, -1, 1) - 4 * u)
    return xp.mean((u - 0.5) ** 2) + 0.01 * xp.mean(start**3)


@program(
    "dynamics",
    lambda r, n: (r.uniform(0.5, 1, n), np.exp(-(np.linspace(-5, 5, n) ** 2))),
    {"wave equation by scan": (500,)},
    (9,),
)
def wave(xp, speed, start):
    def step(state, _):
        before, now = state
        inner = now[2:] - 2 * now[1:-1] + now[:-2]
        after = 2 * now - before + 0.2 * speed**2 * xp.concatenate([now[:1] * 0, inner, now[:1] * 0])
        return (now, after), after[3]

    state, seen = xp.scan(step, (start, start), length=100)
    return xp.sum(seen**2) + xp.sum(state[1] ** 2)


@program("dynamics", lambda r, n: (r.normal(size=n) * 0.1 + 1,), {"Burgers' equation": (1000,)}, (9,))
def burgers(xp, u):
    for _ in range(20):
        slope, curve = xp.roll(u, -1) - xp.roll(u, 1), xp.roll(u, -1) - 2 * u + xp.roll(u, 1)
        u = u - 0.05 * u * slope + 0.1 * curve
    return xp.sum(u**3)


@program(
    "dynamics",
    lambda r, n: (r.uniform(size=(n, n)), r.uniform(size=(n, n))),
    {"reaction and diffusion": (64,)},
    (5,),
    wrt=(0, 1),
)
def reaction(xp, u, v):
    def spread(x):
        padded = xp.concatenate([x[:, -1:], x, x[:, :1]], axis=1)
        padded = xp.concatenate([padded[-1:], padded, padded[:1]], axis=0)
        return padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * x

    for _ in range(10):
        both = u * v * v
        u, v = u + 0.16 * spread(u) - both + 0.035 * (1 - u), v + 0.08 * spread(v) + both - 0.1 * v
    return xp.mean(v**2)


@program(
    "control",
    lambda r, n: (0.3 * r.normal(size=n), r.uniform(0.5, 1, n), np.array([1.0, 0.5])),
    {"robot arm of 12 joints": (12,)},
    (3,),
    wrt=(0, 1),
)
def arm(xp, angles, lengths, target):
    total = xp.cumsum(angles, axis=0)
    x, y = xp.sum(lengths * xp.cos(total)), xp.sum(lengths * xp.sin(total))
    return (x - target[0]) ** 2 + (y - target[1]) ** 2 + 0.01 * xp.sum(angles**2)


def turns(r, n, k):
    return 0.3 * r.normal(size=(n, k)), r.normal(size=(n, 3))


@program("control", turns, {"arms in space": (500, 6)}, (3, 2))
def arms(xp, angles, targets):
    c, s, one, nil = xp.cos(angles), xp.sin(angles), xp.ones_like(angles), xp.zeros_like(angles)
    rows = [
        xp.stack(row, axis=-1)
        for row in (
            [c, -s, nil, one],
            [s * 0.6, c * 0.6, -0.8 * one, nil],
            [0.8 * s, 0.8 * c, 0.6 * one, nil],
            [nil, nil, nil, one],
        )
    ]
    frames = xp.stack(rows, axis=-2)
    total = frames[:, 0]
    for i in range(1, angles.shape[1]):
        total = total @ frames[:, i]
    return xp.mean(xp.sum((total[:, :3, 3] - targets) ** 2, axis=1))


def linear_system(r, n, d, m):
    a = np.eye(d) + 0.1 * r.normal(size=(d, d)) / np.sqrt(d)
    return a, 0.3 * r.normal(size=(d, m)), r.normal(size=(n, m))


@program("control", linear_system, {"Riccati recursion by scan": (20, 4, 2)}, (3, 3, 1), wrt=(0, 1))
def riccati(xp, a, b, steps):
    def step(p, _):
        gain = xp.linalg.solve(xp.eye(b.shape[1]) + b.T @ p @ b, b.T @ p @ a)
        p = xp.eye(a.shape[0]) + a.T @ p @ (a - b @ gain)
        return p, xp.sum(gain**2)

    p, gains = xp.scan(step, xp.eye(a.shape[0]), length=steps.shape[0])
    return xp.trace(p) + xp.sum(gains)


@program("control", linear_system, {"control by shooting": (50, 4, 2)}, (3, 3, 1), wrt=(2,))
def shooting(xp, a, b, controls):
    def step(x, u):
        x = xp.tanh(a @ x + b @ u)
        return x, xp.sum(x**2) + 0.1 * xp.sum(u**2)

    return xp.sum(xp.scan(step, xp.ones(a.shape[0]), controls)[1])


@program(
    "sequences",
    linear_system,
    {"Kalman filter, state 4": (200, 4, 2), "Kalman filter, state 30": (40, 30, 5)},
    (3, 3, 1),
    wrt=(0, 1),
)
def kalman(xp, a, b, seen):
    d, m = b.shape

    def step(state, y):
        x, p = state
        x, p = a @ x, a @ p @ a.T + 0.1 * xp.eye(d)
        s = b.T @ p @ b + 0.5 * xp.eye(m)
        factor = xp.linalg.cholesky(s)
        gap = y - b.T @ x
        z = xp.linalg.solve(factor, gap[:, None])[:, 0]
        gain = xp.linalg.solve(s, b.T @ p).T
        loss = 0.5 * xp.sum(z**2) + xp.sum(xp.log(xp.diagonal(factor)))
        return (x + gain @ gap, p - gain @ b.T @ p), loss

    return xp.sum(xp.scan(step, (xp.zeros(d), xp.eye(d)), seen)[1])


def markov(r, n, k):
    return r.normal(size=(k, k)), r.normal(size=(n, k))


@program("sequences", markov, {"hidden Markov model": (200, 16)}, (4, 3), wrt=(0, 1))
def hidden_markov(xp, moves, emitted):
    table = moves - xp.logsumexp(moves, axis=1)[:, None]

    def step(alpha, e):
        alpha = xp.logsumexp(alpha[:, None] + table, axis=0) + e
        return alpha, None

    return -xp.logsumexp(xp.scan(step, emitted[0], emitted[1:])[0], axis=0)


def frames(r, n, classes, length):
    labels = np.zeros(2 * length + 1, dtype=np.int64)
    labels[1::2] = r.integers(1, classes, length)
    return r.normal(size=(n, classes)), labels


@program("sequences", frames, {"CTC loss, 60 frames": (60, 20, 10)}, (6, 4, 2))
def ctc(xp, scores, labels):
    lines = (scores - xp.logsumexp(scores, axis=1)[:, None])[:, labels]
    n = labels.shape[0]
    skips = (labels[2:] != labels[:-2]) & (labels[2:] != 0)
    low = lines[0, :2] * 0 - 1e5
    begin = xp.concatenate([lines[0, :2], lines[0, 2:] * 0 - 1e5])

    def step(alpha, line):
        one = xp.concatenate([low[:1], alpha[: n - 1]])
        two = xp.concatenate([low, xp.where(skips, alpha[: n - 2], low[0])])
        return xp.logaddexp(xp.logaddexp(alpha, one), two) + line, None

    last = xp.scan(step, begin, lines[1:])[0]
    return -xp.logaddexp(last[n - 1], last[n - 2])


@program(
    "sequences",
    lambda r, n: (r.normal(size=n), r.normal(size=n)),
    {"soft-DTW 8 x 8, unrolled": (8,)},
    (4,),
    wrt=(0, 1),
)
def soft_dtw(xp, x, y):
    n = x.shape[0]
    d = (x[:, None] - y[None, :]) ** 2
    far = d[0, 0] * 0 + 1e3
    above = [d[0, 0] * 0] + [far] * n
    for i in range(n):
        row = [far]
        for j in range(n):
            row.append(d[i, j] - xp.logaddexp(xp.logaddexp(-above[j], -above[j + 1]), -row[j]))
        above = row
    return above[-1]


@program(
    "sequences",
    lambda r, n: (r.normal(size=n), r.normal(size=n)),
    {"soft-DTW 80 x 80 by scan": (80,)},
    (5,),
    wrt=(0, 1),
)
def soft_dtw_by_diagonals(xp, x, y):
    n = x.shape[0]
    i = np.arange(n)[None, :]
    j = np.arange(2 * n - 1)[:, None] - i
    inside = xp.asarray((j >= 0) & (j < n))
    d = xp.where(inside, (x[None, :] - y[xp.asarray(np.clip(j, 0, n - 1))]) ** 2, 1e3 + 0 * x[None, :])
    far = x[:1] * 0 + 1e3

    def step(state, cost):
        before, last = state
        corner = xp.concatenate([far, before[:-1]])
        above = xp.concatenate([far, last[:-1]])
        now = cost - xp.logaddexp(xp.logaddexp(-corner, -above), -last)
        return (last, now), None

    start = (d[0] * 0 + 1e3, xp.concatenate([d[0, :1], d[0, 1:] * 0 + 1e3]))
    return xp.scan(step, start, d[1:])[0][1][n - 1]


def recurrent(r, n, batch, d, h, gates):
    return (
        0.2 * r.normal(size=(d, gates * h)),
        0.2 * r.normal(size=(h, gates * h)),
        r.normal(size=(n, batch, d)),
    )


@program(
    "sequences", lambda *s: recurrent(*s, 1), {"recurrent network": (50, 1, 32, 32)}, (3, 2, 2, 3), wrt=(0, 1)
)
def recurrent_network(xp, w, u, x):
    def step(h, e):
        return xp.tanh(e @ w + h @ u), None

    return xp.sum(xp.scan(step, xp.zeros_like(x[0] @ w), x)[0] ** 2)


@program(
    "sequences",
    lambda *s: recurrent(*s, 4),
    {"LSTM": (50, 8, 16, 32), "LSTM, float32": (50, 8, 16, 32)},
    (3, 2, 2, 3),
    wrt=(0, 1),
)
def lstm(xp, w, u, x):
    n = u.shape[0]
    sigmoid = lambda z: 0.5 * (1 + xp.tanh(0.5 * z))

    def step(state, e):
        h, c = state
        z = e @ w + h @ u
        c = sigmoid(z[:, :n]) * c + sigmoid(z[:, n : 2 * n]) * xp.tanh(z[:, 2 * n : 3 * n])
        h = sigmoid(z[:, 3 * n :]) * xp.tanh(c)
        return (h, c), xp.mean(h**2)

    start = xp.zeros_like((x[0] @ w)[:, :n])
    return xp.mean(xp.scan(step, (start, start), x)[1])


def knots(r, k, n):
    return r.normal(size=k), np.sort(r.uniform(0, 1, n)), r.normal(size=n)


@program("geometry", knots, {"cubic spline": (30, 20_000)}, (6, 9))
def spline(xp, y, t, target):
    k = y.shape[0]
    h = 1.0 / (k - 1)
    band = np.diag(np.full(k, 4.0)) + np.diag(np.ones(k - 1), 1) + np.diag(np.ones(k - 1), -1)
    right = xp.concatenate([y[:1] * 0, 6 * (y[2:] - 2 * y[1:-1] + y[:-2]) / h**2, y[:1] * 0])
    m = xp.linalg.solve(xp.asarray(band), right)
    edges = xp.asarray(np.linspace(0, 1, k)[1:-1])
    i = xp.searchsorted(edges, t)
    a = (i + 1) * h - t
    b = t - i * h
    found = (
        (m[i] * a**3 + m[i + 1] * b**3) / (6 * h)
        + (y[i] / h - m[i] * h / 6) * a
        + (y[i + 1] / h - m[i + 1] * h / 6) * b
    )
    return xp.mean((found - target) ** 2)


def image(r, n, m):
    return r.uniform(size=(n, n)), r.uniform(1, n - 2.001, (2, m))


@program(
    "geometry",
    image,
    {"bilinear sampling": (128, 20_000), "bilinear sampling, float32": (128, 20_000)},
    (8, 9),
    wrt=(0, 1),
)
def sampling(xp, picture, x):
    i = xp.floor(x[0])
    j = xp.floor(x[1])
    u, v = x[0] - i, x[1] - j
    n = picture.shape[1]
    flat = picture.reshape(-1)
    place = i * n + j
    place = place.astype("int64") if hasattr(place, "astype") else place.long()
    top = (1 - v) * flat[place] + v * flat[place + 1]
    low = (1 - v) * flat[place + n] + v * flat[place + n + 1]
    return xp.mean(((1 - u) * top + u * low) ** 2)


def views(r, cameras, points, n):
    pose = 0.1 * r.normal(size=(cameras, 6)) + np.array([0, 0, 0, 0, 0, 6.0])
    return (
        pose,
        r.normal(size=(points, 3)),
        r.integers(0, cameras, n),
        r.integers(0, points, n),
        r.normal(size=(n, 2)),
    )


@program("geometry", views, {"bundle adjustment": (20, 500, 5000)}, (2, 4, 9), wrt=(0, 1))
def bundle(xp, poses, points, camera, place, seen):
    p, x = poses[camera], points[place]
    w = p[:, :3]
    angle = xp.sqrt(xp.sum(w**2, axis=1) + 1e-12)[:, None]
    axis = w / angle
    cross = xp.stack(
        [
            axis[:, 1] * x[:, 2] - axis[:, 2] * x[:, 1],
            axis[:, 2] * x[:, 0] - axis[:, 0] * x[:, 2],
            axis[:, 0] * x[:, 1] - axis[:, 1] * x[:, 0],
        ],
        axis=1,
    )
    along = xp.sum(axis * x, axis=1)[:, None]
    y = x * xp.cos(angle) + cross * xp.sin(angle) + axis * along * (1 - xp.cos(angle)) + p[:, 3:]
    gap = y[:, :2] / y[:, 2:] - seen
    return xp.mean(xp.log1p(xp.sum(gap**2, axis=1)))


@program(
    "geometry",
    lambda r, n: (r.normal(size=(n, 3)), r.integers(0, n, (2 * n, 3))),
    {"area of a mesh": (5000,)},
    (6,),
)
def mesh(xp, x, faces):
    a, b, c = x[faces[:, 0]], x[faces[:, 1]], x[faces[:, 2]]
    u, v = b - a, c - a
    n0 = u[:, 1] * v[:, 2] - u[:, 2] * v[:, 1]
    n1 = u[:, 2] * v[:, 0] - u[:, 0] * v[:, 2]
    n2 = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    return 0.5 * xp.sum(xp.sqrt(n0**2 + n1**2 + n2**2 + 1e-9))


@program(
    "sorting",
    lambda r, n: (r.normal(size=n), r.normal(size=n)),
    {"Wasserstein distance": (20_000,)},
    (9,),
    wrt=(0, 1),
)
def wasserstein(xp, x, y):
    return xp.mean(xp.abs(xp.sort(x) - xp.sort(y)))


@program(
    "sorting",
    lambda r, n, k: (r.normal(size=(n, k)), r.uniform(size=(n, k))),
    {"ranking loss": (300, 100)},
    (3, 5),
)
def ranking(xp, scores, gains):
    order = xp.argsort(-gains, axis=1)
    ranked = xp.take_along_axis(scores, order, 1)
    return xp.mean(xp.logsumexp(ranked, axis=1) - xp.mean(ranked[:, :10], axis=1))


@program("sorting", lambda r, n, k: (r.normal(size=(n, k)),), {"trimmed mean": (500, 101)}, (3, 9))
def trimmed(xp, x):
    k = x.shape[1] // 5
    return xp.sum(xp.mean(xp.sort(x, axis=1)[:, k:-k], axis=1) ** 2)


@program("sorting", lambda r, n, k: (r.normal(size=(n, k)),), {"largest of rows": (2000, 50)}, (3, 9))
def largest(xp, x):
    top = xp.max(x, axis=1)
    return xp.mean(xp.log(xp.mean(xp.exp(x - top[:, None]), axis=1)) + top * xp.tanh(xp.min(x, axis=1)))


@program(
    "geometry",
    lambda r, n: (r.uniform(size=(n, n)), r.uniform(size=(n, n)), r.uniform(size=(5, 5)) / 25),
    {"deblurring by shifted images": (128,)},
    (8,),
)
def deblurring(xp, x, seen, weights):
    n = x.shape[0]
    wide = xp.pad(x, 2)
    blurred = 0.0
    for i in range(5):
        for j in range(5):
            blurred = blurred + weights[i, j] * wide[i : i + n, j : j + n]
    across, down = x[1:, :-1] - x[:-1, :-1], x[:-1, 1:] - x[:-1, :-1]
    return xp.mean((blurred - seen) ** 2) + 0.1 * xp.mean(xp.sqrt(across**2 + down**2 + 1e-6))
