"""Linear algebra, complex numbers and Fourier transforms."""

from __future__ import annotations

import numpy as np

from benchmarks.wide.program import program


def definite(r, n, d):
    a = r.normal(size=(n, d, d))
    return (a @ a.swapaxes(-1, -2) / d + np.eye(d),)


def square(r, n, d):
    return (r.normal(size=(n, d, d)) + 3 * np.eye(d),)


def systems(r, n, d):
    return *square(r, n, d), r.normal(size=(n, d, 1))


def triangles(r, n, d):
    return np.tril(r.normal(size=(n, d, d))) + 3 * np.eye(d), r.normal(size=(n, d, 1))


def one_matrix(r, m, n):
    return (r.normal(size=(m, n)),)


def symmetric(r, n, d):
    a = r.normal(size=(n, d, d))
    return (a + a.swapaxes(-1, -2) + np.diag(3.0 * np.arange(d)),)


@program("linear algebra", definite, {"cholesky 4 x 4": (1000, 4), "cholesky 8 x 8": (1000, 8)}, (3, 4))
def log_determinants(xp, a):
    factors = xp.linalg.cholesky(0.5 * (a + xp.swapaxes(a, -1, -2)))
    return 2 * xp.sum(xp.log(xp.diagonal(factors, axis1=-2, axis2=-1)))


@program("linear algebra", square, {"determinants 4 x 4": (2000, 4)}, (3, 4))
def determinants(xp, a):
    return xp.sum(xp.log(1 + xp.linalg.det(a) ** 2))


@program("linear algebra", square, {"inverses 3 x 3": (2000, 3)}, (3, 3))
def inverses(xp, a):
    return xp.sum(xp.linalg.inv(a) ** 2)


@program(
    "linear algebra", systems, {"systems 6 x 6": (1000, 6), "system 150 x 150": (1, 150)}, (3, 4), wrt=(0, 1)
)
def solutions(xp, a, b):
    return xp.sum(xp.linalg.solve(a, b) ** 2)


@program("linear algebra", triangles, {"triangular systems 8 x 8": (1000, 8)}, (3, 4), wrt=(0, 1))
def triangular(xp, a, b):
    return xp.sum(xp.tanh(xp.solve_triangular(a, b, lower=True)))


@program("linear algebra", one_matrix, {"qr 200 x 20": (200, 20)}, (7, 3))
def qr_loss(xp, a):
    q, r = xp.linalg.qr(a)
    return xp.sum(q**3) + xp.sum(xp.log(xp.abs(xp.diagonal(r))))


@program("linear algebra", lambda r, n: (r.normal(size=(n, 6, 4)),), {"qr of 500, 6 x 4": (500,)}, (3,))
def stacked_qr(xp, a):
    q, r = xp.linalg.qr(a)
    return xp.sum(q**3) + xp.sum(r**2 * 0.1)


@program("linear algebra", one_matrix, {"nuclear norm 60 x 40": (60, 40)}, (6, 4))
def nuclear(xp, a):
    _, s, _ = xp.linalg.svd(a, full_matrices=False)
    return xp.sum(s) + 0.1 * xp.sum(s**2)


@program(
    "linear algebra", symmetric, {"eigh 60": (1, 60), "eigh of 500, 3 x 3": (500, 3)}, (2, 4), tolerance=1e-7
)
def spectrum(xp, a):
    w, v = xp.linalg.eigh(0.5 * (a + xp.swapaxes(a, -1, -2)))
    return xp.sum(xp.exp(-0.1 * w) * xp.sum(v**4, axis=-2))


def regression(r, n, d):
    x = r.normal(size=(n, d))
    y = np.sin(x[:, 0]) + 0.1 * r.normal(size=n)
    return np.array([0.1, 0.2, -1.0]), x, y


@program(
    "linear algebra", regression, {"gaussian process 50": (50, 3), "gaussian process 300": (300, 3)}, (6, 2)
)
def gaussian_process(xp, log, x, y):
    gap = xp.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=-1)
    noise = xp.exp(2 * log[2]) + 1e-6
    k = xp.exp(2 * log[0]) * xp.exp(-0.5 * gap * xp.exp(-2 * log[1])) + noise * xp.eye(x.shape[0])
    factor = xp.linalg.cholesky(k)
    z = xp.solve_triangular(factor, y[:, None], lower=True)
    return 0.5 * xp.sum(z**2) + xp.sum(xp.log(xp.diagonal(factor)))


def scaled_regression(r, n, d):
    x = r.normal(size=(n, d))
    return np.r_[0.1 * r.normal(size=d), 0.1, -1.0], x, np.sin(x[:, 0]) + 0.1 * r.normal(size=n)


@program("linear algebra", scaled_regression, {"Matern process, 5 scales": (120, 5)}, (8, 2))
def matern_process(xp, log, x, y):
    d = x.shape[1]
    z = x * xp.exp(-log[:d])
    q = xp.sqrt(5 * xp.sum((z[:, None, :] - z[None, :, :]) ** 2, axis=-1) + 1e-6)
    noise = xp.exp(log[d + 1]) + 1e-3
    k = xp.exp(log[d]) * (1 + q + q**2 / 3) * xp.exp(-q) + noise * xp.asarray(np.eye(x.shape[0]))
    factor = xp.linalg.cholesky(k)
    white = xp.solve_triangular(factor, y[:, None], lower=True)
    return 0.5 * xp.sum(white**2) + xp.sum(xp.log(xp.diagonal(factor)))


@program("linear algebra", regression, {"evidence of a Bayesian regression": (300, 40)}, (8, 3), wrt=(0,))
def evidence(xp, log, x, y):
    a = xp.exp(log[0]) * xp.eye(x.shape[1]) + xp.exp(log[1]) * (x.T @ x)
    mean = xp.exp(log[1]) * xp.linalg.solve(a, x.T @ y)
    _, volume = xp.linalg.slogdet(a)
    fit = 0.5 * xp.exp(log[1]) * xp.sum((y - x @ mean) ** 2) + 0.5 * xp.exp(log[0]) * xp.sum(mean**2)
    return fit + 0.5 * volume - 0.5 * x.shape[1] * log[0] - 0.5 * x.shape[0] * log[1]


@program("linear algebra", one_matrix, {"matrix exponential 20 x 20": (20, 20)}, (3, 3))
def exponential(xp, a):
    scaled = a / 64.0
    term = total = xp.eye(a.shape[0]) + 0 * a
    for k in range(1, 9):
        term = term @ scaled / k
        total = total + term
    for _ in range(6):
        total = total @ total
    return xp.sum(xp.log(1 + total**2))


def vectors(r, n):
    return r.normal(size=(n, n)) / n, *r.normal(size=(4, n))


@program("linear algebra", vectors, {"atax 700": (700,)}, (5,), wrt=(0, 1))
def atax(xp, a, x, *_):
    return xp.sum(xp.tanh((a @ x) @ a))


@program("linear algebra", vectors, {"gemver 500": (500,)}, (5,), wrt=(0, 1, 2))
def gemver(xp, a, u, v, w, z):
    b = a + u[:, None] * v[None, :] + w[:, None] * z[None, :]
    x = 0.7 * (z @ b) + w
    return xp.sum(xp.tanh(1.2 * (b @ x)))


def chain(r, n, d):
    return r.normal(size=(n, 2, d, d)) / np.sqrt(d), r.normal(size=d)


@program("linear algebra", chain, {"tensor network, 16 sites of 12": (16, 12)}, (4, 3))
def matrix_product_state(xp, sites, edge):
    pair = edge[:, None] * edge[None, :]
    for i in range(sites.shape[0]):
        pair = xp.einsum("ab,sac,sbd->cd", pair, sites[i], sites[i])
    return xp.log(xp.einsum("a,ab,b->", edge, pair, edge) ** 2)


def stacks(r, n):
    return r.normal(size=(n, n, 1, 32)), r.normal(size=(32, 32)) / 6


@program(
    "linear algebra",
    stacks,
    {"product of stacks": (60,), "product of stacks, float32": (60,)},
    (3,),
    wrt=(0, 1),
)
def stacked_products(xp, x, w):
    return xp.sum(xp.tanh(x @ w) ** 2)


@program("linear algebra", one_matrix, {"einsum of three": (24, 24)}, (4, 4), wrt=(0,))
def einsums(xp, a):
    pairs = xp.einsum("ij,kj->ikj", a, a)
    return xp.sum(xp.sin(xp.einsum("ikj,kl,il->ij", pairs, a, a)))


def points_of(r, n):
    x = r.normal(size=(n, 3))
    return x, x + 0.1 * r.normal(size=(n, 3))


@program("linear algebra", points_of, {"procrustes by svd": (400,)}, (6,))
def procrustes(xp, x, y):
    centered, target = x - xp.mean(x, axis=0), y - xp.mean(y, axis=0)
    u, _, vt = xp.linalg.svd(centered.T @ target, full_matrices=False)
    return xp.sum((centered @ (u @ vt) - target) ** 2)


def circuit_inputs(r, n, layers):
    return (r.normal(size=(layers, n, 2)),)


@program("complex", circuit_inputs, {"quantum circuit, 8 qubits": (8, 3)}, (3, 2))
def circuit(xp, angles):
    layers, n, _ = angles.shape
    start = np.zeros(2**n)
    start[0] = 1.0
    state = (xp.asarray(start) + 0j).reshape((2,) * n)
    signs = xp.asarray(np.array([[1.0, 1.0], [1.0, -1.0]]))
    for layer in range(layers):
        for q in range(n):
            c, s = xp.cos(angles[layer, q, 0] / 2), xp.sin(angles[layer, q, 0] / 2)
            phase = xp.exp(1j * angles[layer, q, 1])
            gate = xp.stack([xp.stack([c + 0j, -s * phase]), xp.stack([s + 0j, c * phase])])
            state = xp.moveaxis(xp.tensordot(gate, state, ([1], [q])), 0, q)
        for q in range(n - 1):
            shape = [1] * n
            shape[q] = shape[q + 1] = 2
            state = state * signs.reshape(shape)
    chance = xp.real(state) ** 2 + xp.imag(state) ** 2
    return xp.sum(chance.reshape(2, -1)[0]) + 0.5 * xp.sum(chance.reshape(-1, 2)[:, 0])


def crystal(r, atoms, n):
    return r.uniform(size=(atoms, 3)), r.integers(-5, 6, (n, 3)).astype(float), r.uniform(1, 9, n)


@program("complex", crystal, {"structure factors": (60, 1500)}, (3, 5))
def structure_factors(xp, x, hkl, observed):
    f = xp.sum(xp.exp(2j * np.pi * (hkl @ x.T)), axis=1)
    return xp.mean((xp.abs(f) - observed) ** 2)


def masks_of(r, k, n):
    return r.normal(size=(k, n, n)), r.uniform(size=(n, n))


@program("complex", masks_of, {"optics through 4 masks": (4, 128)}, (2, 8))
def optics(xp, masks, target):
    n = masks.shape[-1]
    k = np.fft.fftfreq(n)
    transfer = xp.asarray(np.exp(-40j * (k[:, None] ** 2 + k[None, :] ** 2)))
    field = xp.ones((n, n)) + 0j
    for i in range(masks.shape[0]):
        field = xp.fft.ifft2(transfer * xp.fft.fft2(field * xp.exp(1j * masks[i])))
    return xp.mean((xp.real(field) ** 2 + xp.imag(field) ** 2 - target) ** 2)


def signal_of(r, n):
    return r.normal(size=n), r.normal(size=n) * np.exp(-np.arange(n) / 20), r.normal(size=n)


@program(
    "complex", signal_of, {"deconvolution": (2**15,), "deconvolution, float32": (2**15,)}, (32,), wrt=(0, 1)
)
def deconvolution(xp, x, kernel, y):
    found = xp.fft.irfft(xp.fft.rfft(x) * xp.fft.rfft(kernel), n=x.shape[0])
    return xp.mean((found - y) ** 2) + 1e-3 * xp.mean(xp.abs(x))


@program("complex", signal_of, {"power spectrum": (2**15,)}, (32,))
def power_spectrum(xp, x, _, y):
    f = xp.fft.rfft(x * y)
    return xp.mean(xp.log(1e-3 + xp.real(f) ** 2 + xp.imag(f) ** 2))


@program("complex", lambda r, n: (r.normal(size=n),), {"Schroedinger by split steps": (512,)}, (16,))
def schroedinger(xp, potential):
    n = potential.shape[0]
    x = np.linspace(-8, 8, n)
    kinetic = xp.asarray(np.exp(-0.01j * (2 * np.pi * np.fft.fftfreq(n, 16 / n)) ** 2))
    wave = xp.asarray(np.exp(-((x + 2) ** 2) + 2j * x))
    kick = xp.exp(-0.02j * potential)
    for _ in range(20):
        wave = xp.fft.ifft(kinetic * xp.fft.fft(wave * kick))
    return xp.sum((xp.real(wave) ** 2 + xp.imag(wave) ** 2) * xp.asarray(x))


@program("complex", lambda r, n: (r.normal(size=(n, n)),), {"vorticity by its spectrum": (48,)}, (8,))
def vorticity(xp, start):
    n = start.shape[0]
    k = np.fft.fftfreq(n, 1 / n)
    kx, ky = np.meshgrid(k, k, indexing="ij")
    size = kx**2 + ky**2
    inverse = xp.asarray(1 / np.where(size == 0, 1, size))
    kept, decay = xp.asarray((size < (n / 3) ** 2) * 0.01), xp.asarray(1 / (1 + 0.001 * size))
    along, across = xp.asarray(1j * kx), xp.asarray(1j * ky)

    def there(z):
        return xp.real(xp.fft.ifft2(z))

    w = xp.fft.fft2(start)
    for _ in range(8):
        stream = w * inverse
        carried = there(across * stream) * there(along * w) - there(along * stream) * there(across * w)
        w = (w - kept * xp.fft.fft2(carried)) * decay
    return xp.mean(there(w) ** 2)


@program("complex", lambda r, n: (r.normal(size=(2, n)) * 0.2,), {"complex iteration": (20000,)}, (7,))
def julia(xp, c):
    z = c[0] + 1j * c[1]
    w = z * 0
    for _ in range(8):
        w = w * w + z
    return xp.sum(xp.log(1 + xp.abs(w + 2) ** 2))


def network_of(r, n, m):
    return r.uniform(1, 2, n), r.uniform(0.1, 1, n), r.normal(size=(m, n)), np.linspace(0.5, 3, 40)


@program("complex", network_of, {"impedances of 40 frequencies": (60, 12)}, (8, 3), wrt=(0, 1))
def impedances(xp, resistance, inductance, incidence, omega):
    z = resistance[None, :] + 1j * omega[:, None] * inductance[None, :]
    y = xp.einsum("fb,ib,jb->fij", 1 / z, incidence + 0j, incidence + 0j)
    v = xp.linalg.solve(y + 0.1 * xp.eye(incidence.shape[0]), xp.ones((40, incidence.shape[0], 1)) + 0j)
    return xp.sum(xp.abs(v) ** 2)
