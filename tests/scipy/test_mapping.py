"""`fgrad.scipy` under vmap: for every choice of mapped arguments it is a loop, and so are gradients."""

from itertools import combinations

import numpy as np
import pytest
from tests.helpers import close, plain

import fgrad as fg
from fgrad.scipy import interpolate, linalg, ndimage, signal


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def definite(n, seed=0):
    a = normal(n, n, seed=seed)
    return a @ a.T + np.eye(n)


A, P, V = normal(3, 3) + 3 * np.eye(3), definite(3), normal(3)
IMAGE, X, POLES = normal(4, 5), np.array([0.0, 0.7, 1.1, 2.0, 3.2]), np.array([1.0, 0.3, 0.1])
GRID = (np.arange(4.0), np.arange(5.0))
BEYOND = {"bounds_error": False, "fill_value": None}

CASES = {
    "solve_triangular": (linalg.solve_triangular, A, V),
    "solve_triangular, matrix": (linalg.solve_triangular, A, normal(3, 2)),
    "solve_banded": (lambda a, b: linalg.solve_banded((1, 1), a, b), normal(3, 3) + 4 * np.eye(3)[:, 1:2], V),
    "cho_solve": (lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b), P, V),
    "lu_solve": (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b), A, V),
    "solve_sylvester": (linalg.solve_sylvester, P, definite(2), normal(3, 2)),
    "solve_discrete_lyapunov": (linalg.solve_discrete_lyapunov, A / 9, P),
    "solve_continuous_are": (linalg.solve_continuous_are, A, normal(3, 1), P, np.eye(1)),
    "expm_frechet": (lambda a, e: linalg.expm_frechet(a, e)[1], A / 3, P),
    "eigvalsh": (linalg.eigvalsh, P, definite(3, 1)),
    "toeplitz": (linalg.toeplitz, V, normal(4)),
    "block_diag": (linalg.block_diag, A, normal(2, 1)),
    "lfilter": (signal.lfilter, V, POLES, normal(7)),
    "lfilter, states": (lambda b, a, x, z: signal.lfilter(b, a, x, zi=z)[1], V, POLES, normal(7), normal(2)),
    "convolve": (signal.convolve, normal(5), V),
    "fftconvolve": (lambda x, y: signal.fftconvolve(x, y, "same"), normal(5, 4), normal(3, 2)),
    "convolve2d": (lambda x, y: signal.convolve2d(x, y, boundary="wrap"), normal(5, 4), normal(3, 2)),
    "stft": (lambda x, w: abs(signal.stft(x, window=w, nperseg=6)[2]), normal(20), np.arange(3.0, 9.0)),
    "map_coordinates": (lambda x, p: ndimage.map_coordinates(x, p, mode="mirror"), IMAGE, normal(2, 6) * 3),
    "correlate": (ndimage.correlate, IMAGE, normal(2, 3)),
    "convolve1d": (lambda x, w: ndimage.convolve1d(x, w, axis=0), IMAGE, V),
    "affine_transform": (ndimage.affine_transform, IMAGE, np.array([[0.8, 0.1], [0.2, 0.9]]), normal(2)),
    "gaussian_filter": (lambda x, s: ndimage.gaussian_filter(x, s, radius=2), IMAGE, np.array([0.8, 1.2])),
    "CubicSpline": (lambda x, y, q: interpolate.CubicSpline(x, y)(q), X, normal(5), V),
    "PchipInterpolator": (lambda x, y, q: interpolate.PchipInterpolator(x, y)(q), X, normal(5), V),
    "make_interp_spline": (lambda y, q: interpolate.make_interp_spline(X, y)(q), normal(5), V),
    "grid": (lambda v, q: interpolate.interpn(GRID, v, q, **BEYOND), IMAGE, normal(3, 2)),
    "cubic grid": (lambda v, q: interpolate.interpn(GRID, v, q, "cubic", **BEYOND), IMAGE, normal(3, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_choice_of_mapped_arguments(name):
    f, *args = CASES[name]
    slope = fg.grad(lambda *xs: (f(*xs) ** 2).sum(), tuple(range(len(args))))
    for count in range(1, len(args) + 1):
        for mapped in combinations(range(len(args)), count):
            wide = [np.stack([x, x * 0.97]) if i in mapped else x for i, x in enumerate(args)]
            axes = tuple(0 if i in mapped else None for i in range(len(args)))
            each = [[x[k] if i in mapped else x for i, x in enumerate(wide)] for k in range(2)]
            close(fg.vmap(f, axes)(*wide), np.stack([plain(f(*xs)) for xs in each]), 1e-8)
            loop = [slope(*xs) for xs in each]
            for found, *expected in zip(fg.vmap(slope, axes)(*wide), *loop, strict=True):
                close(found, np.stack(expected), 1e-7)
