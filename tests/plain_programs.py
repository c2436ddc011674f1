"""Programs of plain NumPy that know nothing of fgrad: they make buffers and fill them element by element.

Each entry of `PROGRAMS` is a function, and its arguments; arrays of floating point are differentiated, and
may be written to, as their callers see. They are written from the mathematics, as people write them.
"""

from __future__ import annotations

import numpy as np
import numpy.linalg as la
from numpy import empty, zeros_like

RNG = np.random.default_rng(7)


def random(*shape):
    return 0.5 + RNG.random(shape)


def dominant(n):
    return random(n, n) + n * np.eye(n)


def forward_substitution(lower, right):
    solution = np.zeros(len(right))
    for i in range(len(right)):
        solution[i] = (right[i] - lower[i, :i] @ solution[:i]) / lower[i, i]
    return solution


def doolittle(matrix):
    """Factorize in place: the unit lower factor below the diagonal, the upper one on and above it."""
    n = matrix.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            matrix[i, k] /= matrix[k, k]
            matrix[i, k + 1 :] -= matrix[i, k] * matrix[k, k + 1 :]


def solve_by_factors(matrix, right):
    factors = matrix.copy()
    doolittle(factors)
    n = len(right)
    y, x = zeros_like(right), zeros_like(right)
    for i in range(n):
        y[i] = right[i] - factors[i, :i] @ y[:i]
    for i in reversed(range(n)):
        x[i] = (y[i] - factors[i, i + 1 :] @ x[i + 1 :]) / factors[i, i]
    return x


def cholesky_by_columns(matrix):
    n = matrix.shape[0]
    for j in range(n):
        matrix[j, j] = np.sqrt(matrix[j, j] - matrix[j, :j] @ matrix[j, :j])
        for i in range(j + 1, n):
            matrix[i, j] = (matrix[i, j] - np.dot(matrix[i, :j], matrix[j, :j])) / matrix[j, j]


def orthonormal_columns(a):
    q, r = np.zeros_like(a), np.zeros((a.shape[1], a.shape[1]), dtype=a.dtype)
    for k in range(a.shape[1]):
        r[k, k] = la.norm(a[:, k])
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = q[:, k] @ a[:, j]
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


def levinson(r):
    """Solve the Yule-Walker equations of an autocorrelation."""
    y = np.empty_like(r)
    alpha, beta = -r[0], 1.0
    y[0] = alpha
    for k in range(1, len(r)):
        beta = beta * (1.0 - alpha**2)
        alpha = -(r[k] + np.dot(r[:k][::-1], y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


def thomas(below, diagonal, above, right):
    """Solve tridiagonal systems, one a column."""
    n, columns = right.shape
    c = np.ndarray((n, columns), dtype=right.dtype)
    d = np.ndarray((n, columns))
    for k in range(n):
        pivot = diagonal[k] if k == 0 else diagonal[k] - below[k] * c[k - 1]
        c[k] = above[k] / pivot
        d[k] = (right[k] if k == 0 else right[k] - below[k] * d[k - 1]) / pivot
    x = np.empty(right.shape)
    x[-1] = d[-1]
    for k in range(n - 2, -1, -1):
        x[k] = d[k] - c[k] * x[k + 1]
    return x


def smooth_both_ways(signal, rate):
    """Filter along rows, there and back, by a recursion."""
    there, back = np.empty_like(signal), np.empty_like(signal)
    there[:, 0] = rate * signal[:, 0]
    for j in range(1, signal.shape[1]):
        there[:, j] = rate * signal[:, j] + (1 - rate) * there[:, j - 1]
    back[:, -1] = 0.0
    for j in range(signal.shape[1] - 2, -1, -1):
        back[:, j] = rate * signal[:, j + 1] + (1 - rate) * back[:, j + 1]
    return there + back


def relax(grid, steps):
    other = np.copy(grid)
    for _ in range(steps):
        other[1:-1, 1:-1] = 0.25 * (grid[2:, 1:-1] + grid[:-2, 1:-1] + grid[1:-1, 2:] + grid[1:-1, :-2])
        grid[1:-1, 1:-1] = other[1:-1, 1:-1]


def relax_in_order(grid, steps):
    for _ in range(steps):
        for i in range(1, grid.shape[0] - 1):
            for j in range(1, grid.shape[1] - 1):
                grid[i, j] = (
                    grid[i - 1, j] + grid[i, j - 1] + grid[i, j] + grid[i + 1, j] + grid[i, j + 1]
                ) / 5


def waves(electric_x, electric_y, magnetic, source):
    for amplitude in source:
        electric_y[0, :] = amplitude
        electric_y[1:, :] -= 0.5 * np.diff(magnetic, axis=0)
        electric_x[:, 1:] -= 0.5 * np.diff(magnetic, axis=1)
        magnetic[:-1, :-1] -= 0.7 * (np.diff(electric_x, axis=1)[:-1] + np.diff(electric_y, axis=0)[:, :-1])


def cavity(u, v, pressure, steps):
    """Drive a fluid by its lid: momentum without pressure, a few sweeps for it, its gradient, walls."""

    def gradient(p):
        return (p[2:, 1:-1] - p[:-2, 1:-1]) / 2, (p[1:-1, 2:] - p[1:-1, :-2]) / 2

    source = np.zeros(u.shape)
    for _ in range(steps):
        un, vn = u.copy(), v.copy()
        source[1:-1, 1:-1] = gradient(un)[1] + gradient(vn)[0]
        for _ in range(2):
            p = pressure.copy()
            pressure[1:-1, 1:-1] = (
                p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - source[1:-1, 1:-1]
            ) / 4
            pressure[:, -1] = pressure[:, -2]
            pressure[0, :] = pressure[1, :]
            pressure[-1, :] = 0
        u[1:-1, 1:-1] = un[1:-1, 1:-1] * (1 - 0.1 * gradient(un)[1]) - 0.1 * gradient(pressure)[1]
        v[1:-1, 1:-1] = vn[1:-1, 1:-1] * (1 - 0.1 * gradient(vn)[0]) - 0.1 * gradient(pressure)[0]
        u[0, :], u[-1, :] = 0, 1
        v[:, 0] = v[:, -1] = 0


def shortest_paths(distance):
    for k in range(len(distance)):
        distance[:] = np.minimum(distance, np.add.outer(distance[:, k], distance[k]))


def convolve_images(images, weights):
    k = weights.shape[0]
    n, height, width, _ = images.shape
    out = empty((n, height - k + 1, width - k + 1, weights.shape[3]))
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            window = images[:, i : i + k, j : j + k, :, np.newaxis]
            out[:, i, j, :] = np.sum(window * weights[np.newaxis], axis=(1, 2, 3))
    return out


def halve_by_maxima(images):
    n, height, width, channels = images.shape
    out = np.empty([n, height // 2, width // 2, channels], dtype=images.dtype)
    for i, j in np.ndindex(height // 2, width // 2):
        out[:, i, j] = np.max(images[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2], axis=(1, 2))
    return out


def classifier(images, weights, bias, matrix):
    x = halve_by_maxima(np.maximum(convolve_images(images, weights) + bias, 0))
    return np.reshape(x, (len(images), -1)) @ matrix


def normalized_block(images, weights):
    def normalized(x):
        return (x - np.mean(x, axis=0, keepdims=True)) / np.sqrt(np.std(x, axis=0, keepdims=True) + 1e-2)

    padded = np.zeros((images.shape[0], images.shape[1] + 2, images.shape[2] + 2, images.shape[3]))
    padded[:, 1:-1, 1:-1, :] = images
    return np.maximum(normalized(convolve_images(normalized(padded), weights)) + images, 0)


def attraction(masses, places, softening):
    apart = places[np.newaxis] - places[:, np.newaxis]
    inverse = np.sum(apart**2, axis=-1) + softening**2
    inverse[inverse > 0] = inverse[inverse > 0] ** (-1.5)
    return np.einsum("ijk,ij,j->ik", apart, inverse, masses)


def bodies(masses, places, speeds, steps):
    kinetic = np.ndarray(steps + 1, dtype=np.float64)
    kinetic[0] = 0.5 * np.sum(masses[:, None] * speeds**2)
    force = attraction(masses, places, 0.1)
    for i in range(steps):
        speeds += force * 0.05
        places += speeds * 0.1
        force = attraction(masses, places, 0.1)
        speeds += force * 0.05
        kinetic[i + 1] = 0.5 * np.sum(masses[:, None] * speeds**2)
    return kinetic


def sparse_product(starts, columns, values, x):
    y = np.empty(starts.size - 1, values.dtype)
    for i in range(starts.size - 1):
        row = slice(starts[i], starts[i + 1])
        y[i] = values[row] @ x[columns[row]]
    return y


def correlations(data):
    n, m = data.shape
    spread = np.std(data, axis=0)
    spread[spread <= 0.01] = 1.0
    data -= np.mean(data, axis=0)
    data /= np.sqrt(n) * spread
    matrix = np.eye(m, dtype=data.dtype)
    for i in range(m - 1):
        matrix[i + 1 :, i] = matrix[i, i + 1 :] = data[:, i] @ data[:, i + 1 :]
    return matrix


def ring_means(values, radius, rings):
    out = np.zeros(rings)
    edges = np.linspace(0, radius.max() * 1.001, rings + 1)
    for i in range(rings):
        out[i] = values[np.logical_and(edges[i] <= radius, radius < edges[i + 1])].mean()
    return out


def contour(matrices, points, right):
    total = np.zeros(right.shape, dtype=np.complex128)
    for z in points:
        pencil = np.zeros(matrices.shape[1:], dtype=np.complex128)
        for n, matrix in enumerate(matrices):
            pencil += np.power(z, n / 2) * matrix
        total += z * la.solve(pencil, right)
    return total


def escapes(x, y, rounds):
    """Iterate z**2 + c on those that have not escaped, with targets given by position."""
    points = x + y[:, None] * 1j
    places = np.arange(points.size)
    last = np.zeros(points.size, dtype=np.complex128)
    points.shape = points.size
    z = np.zeros(points.shape, np.complex128)
    for _ in range(rounds):
        np.multiply(z, z, z)
        np.add(z, points, z)
        gone = abs(z) > 2.0
        last[places[gone]] = z[gone]
        np.logical_not(gone, gone)
        z, places, points = z[gone], places[gone], points[gone]
    last[places] = z
    return last


def rank_update(c, a):
    for i in range(a.shape[0]):
        c[i, : i + 1] *= 0.5
        for k in range(a.shape[1]):
            c[i, : i + 1] += 1.5 * a[i, k] * a[: i + 1, k]


def symmetric_product(c, a, b):
    row = np.empty((c.shape[1],), dtype=c.dtype)
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[:i, j] += b[i, j] * a[i, :i]
            row[j] = b[:i, j] @ a[i, :i]
        c[i, :] += b[i, :] * a[i, i] + row


def fourier(x, levels):
    """Transform by radix 2, sorting itself."""
    y = np.empty(x.shape, dtype=np.complex128)
    y[:] = x
    for level in range(levels):
        half, rest = 2**level, 2 ** (levels - level - 1)
        pairs = np.reshape(y, (half, 2, rest))
        turn = np.exp(-1j * np.pi * np.arange(half) / half)[:, None]
        left, right = pairs[:, 0], pairs[:, 1] * turn
        y = np.concatenate([left + right, left - right]).reshape(x.shape)
    return y


def limited_diffusion(field, out):
    bend = 4 * field[1:-1, 1:-1] - field[2:, 1:-1] - field[:-2, 1:-1] - field[1:-1, 2:] - field[1:-1, :-2]
    flux = np.diff(bend, axis=0)
    flux = np.where(flux * np.diff(field[1:-1, 1:-1], axis=0) > 0, 0, flux)
    out[:, :] = field[2:-2, 1:-1] - 0.1 * np.diff(flux, axis=0)


def diagonal_activity(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def counted(x):
    """Fill arrays in all the ways in which NumPy makes them."""
    made = [
        np.zeros(3),
        np.ones((3,)),
        np.full(3, 2.0),
        np.arange(3.0),
        np.linspace(0, 1, 3),
        np.array([1.0, 2.0, 3.0]),
        np.asarray([0.5, 0.5, 0.5]),
        np.fromfunction(lambda i: i * 2.0, (3,)),
        np.fromiter((v * v for v in x), float),
        np.ones_like(x),
        np.full_like(x, 4.0),
        np.eye(3)[1],
        np.ndarray(3),
        np.tile(x, 1),
        np.array([x[0], x[1], x[0] * x[2]]),
    ]
    made[-3].fill(0.0)
    for i, y in enumerate(made):
        y[i % 3] = x[(i + 1) % 3] ** 2
        y += x[0]
    return np.stack(made) ** 2


def visited(x):
    total = 0.0
    for place, value in np.ndenumerate(x):
        total = total + (place[0] + 1) * value**2
    steps = np.nditer([x, x[0]], flags=["multi_index", "c_index"], order="C")
    with steps:
        while not steps.finished:
            total = total + steps[0] * steps[1] * (steps.index + steps.multi_index[1])
            steps.iternext()
    for value in np.nditer(x, order="F"):
        total = total * 0.5 + value
    return total


IMAGES, KERNEL = random(2, 5, 5, 2), random(2, 2, 2, 2) - 1
PROGRAMS = {
    f.__name__: (f, args)
    for f, *args in [
        (forward_substitution, dominant(4), random(4)),
        (doolittle, dominant(4)),
        (solve_by_factors, dominant(4), random(4)),
        (cholesky_by_columns, dominant(4) + 4 * np.eye(4)),
        (orthonormal_columns, random(4, 3)),
        (levinson, random(4) * 0.2),
        (thomas, random(4, 2), random(4, 2) + 3, random(4, 2), random(4, 2)),
        (smooth_both_ways, random(3, 4), np.array(0.3)),
        (relax, random(4, 5), 2),
        (relax_in_order, random(4, 4), 2),
        (waves, random(4, 4), random(4, 4), random(4, 4), random(2)),
        (cavity, random(5, 5), random(5, 5), random(5, 5), 2),
        (shortest_paths, random(5, 5) * 3),
        (classifier, IMAGES, KERNEL, random(2), random(8, 3)),
        (normalized_block, random(2, 3, 3, 2), random(3, 3, 2, 2) - 1),
        (bodies, random(3), random(3, 2), random(3, 2), 2),
        (sparse_product, np.array([0, 2, 3, 5]), np.array([0, 2, 1, 0, 3]), random(5), random(4)),
        (correlations, random(5, 3)),
        (ring_means, random(20), np.linspace(0.05, 1, 20), 3),
        (contour, random(3, 3, 3) + 1j * random(3, 3, 3), random(2) + 1j * random(2), random(3, 2) + 0j),
        (escapes, np.linspace(-1.9, 0.6, 4), np.linspace(-1.1, 0.9, 3), 4),
        (rank_update, random(3, 3), random(3, 2)),
        (symmetric_product, random(3, 2), random(3, 3), random(3, 2)),
        (fourier, random(8) + 1j * random(8), 3),
        (limited_diffusion, random(6, 6), random(2, 4)),
        (diagonal_activity, random(3, 3)),
        (counted, random(3)),
        (visited, random(2, 3)),
    ]
}
# what compiled programs cannot know: how many elements a mask chooses
BY_VALUES = {"escapes"}
