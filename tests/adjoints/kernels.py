"""Kernels as users write them, with arguments: what `differentiate` has to know."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit
def pair(r2):
    ir2 = 1.0 / r2
    s6 = ir2 * ir2 * ir2
    return 4.0 * (s6 * s6 - s6)


@njit
def lennard_jones(x, L):
    n = x.shape[0]
    e = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            d2 = 0.0
            for k in range(3):
                d = x[i, k] - x[j, k]
                if d > 0.5 * L:
                    d -= L
                elif d < -0.5 * L:
                    d += L
                d2 += d * d
            if d2 > 9.0:
                continue
            e += pair(d2)
    return e


@njit
def heat(u, n):
    for _t in range(n):
        unew = u.copy()
        unew[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = unew
        if u[0] > 100:
            break
    return np.sum(u**2), u


@njit
def gauss_seidel(u, f, n):
    for _s in range(n):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])


@njit
def lu(A):
    n = A.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]


@njit
def thomas(a, b, c, d):
    n = len(d)
    cp = np.empty(n)
    dp = np.empty(n)
    x = np.empty(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x[n - 1] = dp[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return x


@njit
def floyd_warshall(d):
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])


@njit
def newton(a, out):
    for i in range(len(a)):
        x = 1.0
        while abs(x * x - a[i]) > 1e-12:
            x = 0.5 * (x + a[i] / x)
        out[i] = x


@njit
def cholesky(A):
    n = A.shape[0]
    L = np.zeros_like(A)
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i == j:
                L[i, i] = math.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return L


@njit
def force(r, m):
    a = np.zeros((3, 2))
    for i in range(3):
        for j in range(3):
            if i != j:
                dx = r[j, 0] - r[i, 0]
                dy = r[j, 1] - r[i, 1]
                d3 = (dx * dx + dy * dy + 0.01) ** 1.5
                a[i, 0] += m[j] * dx / d3
                a[i, 1] += m[j] * dy / d3
    return a


@njit
def three_bodies(r, v, m, dt, n):
    for _t in range(n):
        k1 = force(r, m)
        r2 = r + 0.5 * dt * v
        v2 = v + 0.5 * dt * k1
        k2 = force(r2, m)
        r3 = r + 0.5 * dt * v2
        v3 = v + 0.5 * dt * k2
        k3 = force(r3, m)
        r4 = r + dt * v3
        v4 = v + dt * k3
        k4 = force(r4, m)
        r = r + dt / 6 * (v + 2 * v2 + 2 * v3 + v4)
        v = v + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return r, v


@njit
def interpolate(img, p, out):
    for k in range(p.shape[0]):
        x, y = p[k, 0], p[k, 1]
        i = int(x)
        j = math.floor(y)
        a = x - i
        b = y - j
        out[k] = (
            (1 - a) * (1 - b) * img[i, j]
            + a * (1 - b) * img[i + 1, j]
            + (1 - a) * b * img[i, j + 1]
            + a * b * img[i + 1, j + 1]
        )


@njit
def horner(c, x, out):
    for i in range(len(x)):
        s = 0.0
        for k in range(len(c) - 1, -1, -1):
            s = s * x[i] + c[k]
        out[i] = s


@njit
def particles_in_cells(x, v, rho, nstep, dt):
    n = rho.shape[0]
    for _t in range(nstep):
        rho[:] = 0.0
        for p in range(len(x)):
            i = int(x[p])
            w = x[p] - i
            rho[i % n] += 1 - w
            rho[(i + 1) % n] += w
        for p in range(len(x)):
            i = int(x[p])
            w = x[p] - i
            v[p] += dt * ((1 - w) * rho[i % n] ** 2 + w * rho[(i + 1) % n])
            x[p] += dt * v[p]
            if x[p] < 0:
                x[p] += n
            if x[p] >= n:
                x[p] -= n


@njit
def smith_waterman(s, gap):
    n, m = s.shape
    h = np.zeros((n + 1, m + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            h[i, j] = max(0.0, h[i - 1, j - 1] + s[i - 1, j - 1], h[i - 1, j] - gap, h[i, j - 1] - gap)
            best = max(best, h[i, j])
    return best


@njit
def early_return(x, t):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            if x[i] * x[j] > t:
                return s * x[i]
            if x[j] < -1.5:
                continue
            s += math.sin(x[i] * x[j])
        if s > 3:
            break
        s = s * 1.1
    return s**2


@njit
def complex_recurrence(z, w):
    s = 0j
    for i in range(len(z)):
        s = s * z[i] + np.exp(w * z[i])
        if abs(s) > 2:
            s = s / abs(s)
    return s, s.real * s.imag, np.conj(s)


@njit
def linear_algebra(A, b):
    x = np.linalg.solve(A, b)
    y = A @ x + np.dot(A.T, b)
    return np.sum(x * y) + np.linalg.det(A) + np.linalg.norm(y), np.linalg.inv(A)


@njit
def array_expressions(x, y):
    z = np.sin(x) * y[:, None] + x.T.copy()
    z[1:, 0] += z[:-1, 1]
    z *= 2
    w = z.sum(axis=0) / np.exp(-x[0])
    r = w.reshape((w.shape[0], 1))
    q = np.where(w > 0, w, w * w)
    return z, w.mean() + np.max(q) + r[0, 0], np.maximum(w, 0.1)


@njit
def histogram(x, w, nb):
    h = np.zeros(nb)
    idx = np.floor(x * nb).astype(np.int64)
    for i in range(len(x)):
        h[idx[i]] += w[i] ** 2
    return h


@njit
def fdtd(E, H, n, c):
    for t in range(n):
        for i in range(len(H)):
            H[i] += c * (E[i + 1] - E[i])
        for i in range(1, len(E) - 1):
            E[i] += c * (H[i] - H[i - 1])
        E[2] += math.sin(0.3 * t) * c


@njit
def kalman(z, q, r):
    x = 0.0
    p = 1.0
    ll = 0.0
    for k in range(len(z)):
        p = p + q
        s = p + r
        g = p / s
        e = z[k] - x
        ll -= 0.5 * (math.log(s) + e * e / s)
        x = x + g * e
        p = (1 - g) * p
    return ll


def cases():
    """Return pairs of a kernel and its arguments."""
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(4, 4)) + 4 * np.eye(4)
    system = rng.uniform(0.1, 0.3, 8), rng.uniform(1, 2, 8), rng.uniform(0.1, 0.3, 8), rng.normal(size=8)
    bodies = rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), rng.uniform(1, 2, 3)
    complex_ones = rng.normal(size=4) + 1j * rng.normal(size=4)
    return [
        (lennard_jones, (rng.uniform(0, 4, (8, 3)), 4.0)),
        (heat, (rng.normal(size=12), 3)),
        (gauss_seidel, (rng.normal(size=(6, 6)), rng.normal(size=(6, 6)), 3)),
        (lu, (matrix,)),
        (thomas, system),
        (floyd_warshall, (rng.uniform(1, 9, (5, 5)),)),
        (newton, (rng.uniform(1, 5, 4), np.zeros(4))),
        (cholesky, (matrix @ matrix.T,)),
        (three_bodies, (*bodies, 0.01, 4)),
        (interpolate, (rng.normal(size=(5, 5)), rng.uniform(0, 3.9, (6, 2)), np.zeros(6))),
        (horner, (rng.normal(size=5), rng.normal(size=4), np.zeros(4))),
        (particles_in_cells, (rng.uniform(0, 8, 6), rng.normal(size=6), np.zeros(8), 3, 0.1)),
        (smith_waterman, (rng.normal(size=(5, 6)), 0.3)),
        (early_return, (rng.normal(size=5), 50.0)),
        (early_return, (rng.normal(size=9), 0.7)),
        (complex_recurrence, (complex_ones, 0.3 + 0.2j)),
        (linear_algebra, (matrix, rng.normal(size=4))),
        (array_expressions, (rng.normal(size=(3, 3)), rng.normal(size=3))),
        (histogram, (rng.uniform(size=9), rng.normal(size=9), 4)),
        (fdtd, (rng.normal(size=8), rng.normal(size=7), 4, 0.4)),
        (kalman, (rng.normal(size=7), 0.1, 0.5)),
    ]
