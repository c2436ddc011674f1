"""Functions of matrices and matrix equations, by products and systems of equations alone.

On the CPU, Schur's form, which SciPy computes, is the shorter way. No library has it on a device, so what
stands here is for arrays there: stacks of any shape at once, and one number read for each step that may be
the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.core.placement import near
from fgrad.ops.matrices import identity

STEPS = 100  # of an iteration that converges quadratically, once it is near
REMEDY = "compute it on the CPU, where Schur's form is known: f(t.to('cpu')).to(t.device)"


def _size(a: Any) -> Any:
    """Return the norms of matrices that their columns have, as matrices of one element."""
    return np.max(np.sum(np.absolute(a), axis=-2, keepdims=True), axis=-1, keepdims=True)


def _adjoint(a: Any) -> Any:
    return np.swapaxes(np.conjugate(a), -1, -2)


# ---- functions of matrices


PADE = (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
        10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)  # fmt: skip
LARGEST = 5.37  # the norm up to which the quotient is exact to double precision


def expm(a: Any) -> Any:
    """Return exponentials, by scaling, a quotient of polynomials of degree 13, and squaring.

    Source:
        Higham (2005), The scaling and squaring method for the matrix exponential revisited, SIAM J. Matrix
        Anal. Appl. 26.
    """
    halvings = halvings_of(a)
    count = float(np.max(halvings))
    if not math.isfinite(count):
        return a * np.nan
    y = quotient(a, halvings)
    for i in range(int(count)):
        y = np.where(halvings > i, y @ y, y)
    return y


def halvings_of(a: Any) -> Any:
    """Return how often matrices are halved before `quotient` is exact."""
    return np.maximum(np.ceil(np.log2(_size(a) / LARGEST)), 0)


def quotient(a: Any, halvings: Any) -> Any:
    """Return the exponentials of matrices that are halved so often, as quotients of polynomials."""
    a, one, c = a * np.exp2(-halvings), identity(a), [x / PADE[0] for x in PADE]
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a2 @ a4
    u = a @ (a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * one)
    v = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2 + one
    return np.linalg.solve(v - u, v + u)


def sqrtm(a: Any) -> Any:
    """Return principal square roots, by Newton's iteration in the product form of Denman & Beavers, scaled.

    Raises:
        LinAlgError: it does not converge: eigenvalues are zero or negative.

    Source:
        Cheng, Higham, Kenney & Laub (2001), Approximating the logarithm of a matrix to specified accuracy,
        SIAM J. Matrix Anal. Appl. 22, section 3; Higham (2008), Functions of Matrices, (6.29).
    """
    n, one = a.shape[-1], identity(a)
    x = m = a
    scales, eps = True, float(np.finfo(a.dtype).eps)
    for _ in range(STEPS):
        try:
            inverse = np.linalg.inv(m)
        except LinAlgError:
            break
        if scales:
            _, size = np.linalg.slogdet(m)
            g = np.exp(-np.reshape(size, (*size.shape, 1, 1)) / (2 * n))
        else:
            g = 1.0
        x = g * (x @ (one + inverse / (g * g))) / 2
        m = (one + (g * g * m + inverse / (g * g)) / 2) / 2
        off = float(np.max(_size(m - one)))
        if off <= 4 * n * eps:
            return x
        if not math.isfinite(off):
            break
        scales = scales and off > 0.01  # near its end Newton's iteration is quick by itself
    raise LinAlgError(
        "sqrtm: the iteration for a square root does not converge on a device; it needs a matrix without "
        f"eigenvalues that are zero or negative; {REMEDY}"
    )


def logm(a: Any) -> Any:
    """Return principal logarithms, by square roots until the matrix is near 1, and Gauss's quadrature.

    log a = 2^k log b, and log b is the integral of (b - 1) (1 + t (b - 1))^-1 over t from 0 to 1.

    Raises:
        LinAlgError: eigenvalues are zero or negative.

    Source:
        Dieci, Morini & Papini (1996), Computational techniques for real logarithms of matrices, SIAM J.
        Matrix Anal. Appl. 17; Higham (2008), (11.18) and theorem 11.6.
    """
    one, factor = identity(a), 1.0
    while float(np.max(_size(a - one))) > 0.25 and factor < 2.0**100:
        a, factor = sqrtm(a), 2 * factor
    d = a - one
    total: Any = 0.0
    for t, w in zip(*np.polynomial.legendre.leggauss(9), strict=True):
        total = total + float(w) / 2 * np.linalg.solve(one + float(t + 1) / 2 * d, d)
    return factor * total


def power(a: Any, exponent: float) -> Any:
    """Return real powers, by a whole one and the exponential of the rest, in units of the matrices.

    Raises:
        LinAlgError: eigenvalues are zero or negative.
    """
    whole, size = round(exponent), _size(a)
    size = np.where((size > 0) & np.isfinite(size), size, 1)
    a = a / size
    y = expm((exponent - whole) * logm(a))
    base = np.linalg.inv(a) if whole < 0 else a
    for _ in range(abs(whole)):
        y = y @ base
    return y * size**exponent


FUNCTIONS: dict[str, Callable[..., Any]] = {"expm": expm, "sqrtm": sqrtm, "logm": logm}


def function_of(a: Any, function: str, exponent: float) -> Any:
    """Return a function of matrices by name."""
    return power(a, exponent) if function == "power" else FUNCTIONS[function](a)


# ---- equations


DIRECT = 256  # unknowns
_DEFECTIVE = (
    "solve_sylvester: a matrix is too close to a defective one for the equation to be solved on a device; "
    f"{REMEDY}"
)


def sylvester(a: Any, b: Any, q: Any) -> Any:
    """Return x with a x + x b = q: by one system of all unknowns, or eigenvectors where these are many.

    Raises:
        LinAlgError: the equation is singular, or its matrices have hardly enough eigenvectors.
    """
    kind, eps = q.dtype, float(np.finfo(q.dtype).eps)
    w, z = np.linalg.eigvals(a), np.linalg.eigvals(b)
    gaps = w[..., :, None] + z[..., None, :]
    largest = np.max(np.absolute(w), axis=-1) + np.max(np.absolute(z), axis=-1)
    if np.any(np.min(np.absolute(gaps), axis=(-2, -1)) <= eps * largest):
        raise LinAlgError(
            "solve_sylvester: the equation a x + x b = q is singular: an eigenvalue of a is one of -b"
        )
    m, n = q.shape[-2:]
    if m * n <= DIRECT:
        left = a[..., :, None, :, None] * near(a).eye(n, dtype=kind)[:, None, :]
        right = np.swapaxes(b, -1, -2)[..., None, :, None, :] * near(b).eye(m, dtype=kind)[:, None, :, None]
        system = np.reshape(left + right, (*q.shape[:-2], m * n, m * n))
        return np.reshape(np.linalg.solve(system, np.reshape(q, (*q.shape[:-2], m * n, 1))), q.shape)
    (w, u), (z, v) = np.linalg.eig(a), np.linalg.eig(b)
    gaps = w[..., :, None] + z[..., None, :]
    try:
        back, forth = np.linalg.inv(u), np.linalg.inv(v)
    except LinAlgError:
        raise LinAlgError(_DEFECTIVE) from None

    def solved(q: Any) -> Any:
        y = u @ ((back @ q @ v) / gaps) @ forth
        return y if kind.kind == "c" else y.real

    x, rest = solved(q), q
    for _ in range(3):  # what eigenvectors lose is won back
        rest = q - (a @ x + x @ b)
        x = x + solved(rest)
    rest = q - (a @ x + x @ b)
    allowed = 100 * eps * ((_size(a) + _size(b)) * _size(x) + _size(q))
    if not np.all(_size(rest) <= allowed):
        raise LinAlgError(_DEFECTIVE)
    return x


def riccati(a: Any, b: Any, q: Any, r: Any, *, discrete: bool) -> Any:
    """Return the stabilizing solutions of Riccati's equations, by doubling.

    Raises:
        LinAlgError: it does not converge: no solution stabilizes.

    Source:
        Chu, Fan, Lin & Wang (2004), Structure-preserving algorithms for periodic discrete-time algebraic
        Riccati equations, Int. J. Control 77; Chu, Fan & Lin (2005), A structure-preserving doubling
        algorithm for continuous-time algebraic Riccati equations, Linear Algebra Appl. 396.
    """
    one, h = identity(a), q
    g = b @ np.linalg.solve(r, _adjoint(b))
    if not discrete:  # to the discrete one of (a + c) (a - c)^-1
        c = 1.25 * np.maximum(_size(a), np.sqrt(_size(g) * _size(h)))
        c = np.where(c > 0, c, 1)
        shifted = a - c * one
        under = np.linalg.solve(shifted, g)
        w = _adjoint(shifted) + h @ under
        inverse = np.linalg.inv(w)
        a = one + 2 * c * _adjoint(inverse)
        g, h = 2 * c * (under @ inverse), 2 * c * (inverse @ h @ np.linalg.inv(shifted))
    eps = float(np.finfo(a.dtype).eps)
    for _ in range(STEPS):
        w = one + g @ h
        along, turned = np.linalg.solve(w, a), np.linalg.solve(w, g)
        change = _adjoint(a) @ h @ along
        g, h, a = g + a @ turned @ _adjoint(a), h + change, a @ along
        g, h = ((x + _adjoint(x)) / 2 for x in (g, h))
        off = float(np.max(_size(change) / np.maximum(_size(h), np.finfo(eps.__class__).tiny)))
        if off <= eps:
            return h
        if not math.isfinite(off):
            break
    raise LinAlgError(
        "riccati: the iteration does not converge on a device: no solution stabilizes; " + REMEDY
    )
