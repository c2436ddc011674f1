"""Rules of linear algebra where matrices are special: derivatives to third order, against ninety digits.

Equal, zero and negative eigenvalues, matrices without enough eigenvectors, small and badly scaled ones.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from tests import exact

import fgrad as fg
from fgrad.scipy import linalg

RNG = np.random.default_rng(5)
TURN = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
JORDAN = np.array([[2.0, 1, 0], [0, 2, 1], [0, 0, 2]])


def turned(*w: float) -> Any:
    """Return a symmetric matrix of these eigenvalues."""
    return TURN @ np.diag(np.array(w)) @ TURN.T


def skewed(a: Any) -> Any:
    """Return a matrix similar to `a`, of no symmetry."""
    return np.linalg.solve(TURN + 0.3, a @ (TURN + 0.3))


REGULAR: dict[str, Any] = {
    "regular": RNG.normal(size=(3, 3)) * 0.4 + 2 * np.eye(3),
    "identity": np.eye(3),
    "two eigenvalues equal": turned(2, 2, 5),
    "Jordan's block": JORDAN,
    "defective": skewed(JORDAN),
    "small": 1e-8 * turned(1, 2, 5),
    "badly scaled": np.array([[1.0, 1e3, 3], [0, 2, 1e3], [0, 0, 1.5]]),
    "of one element": np.array([[4.0]]),
    "complex": RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3)) + 2 * np.eye(3),
    "complex and defective": skewed(JORDAN * (1 + 1j)),
}
INDEFINITE: dict[str, Any] = {
    "indefinite": turned(1, -2, 3),
    "one negative eigenvalue": skewed(np.diag([1.0, -2, 3])),
    "a negative number": np.array([[-4.0]]),
}
SYMMETRIC: dict[str, Any] = {  # where eigenvalues stay real only along symmetric directions
    "equal negative eigenvalues": turned(1, -2, -2),
    "the negative identity": -np.eye(3),
}
SINGULAR: dict[str, Any] = {
    "zeros": np.zeros((3, 3)),
    "nilpotent": np.diag([1.0, 1], 1),
    "of rank one": np.outer([1.0, 2, 3], [1, 0, 2]),
}


def power(t: float) -> tuple[Any, Any]:
    return lambda a: linalg.fractional_matrix_power(a, t), lambda x: x ** mp.mpf(t)


MANY_VALUED = {"sqrtm": (linalg.sqrtm, mp.sqrt), "logm": (linalg.logm, mp.log), "power 0.3": power(0.3),
    "power -1.5": power(-1.5)}  # fmt: skip
ENTIRE = {"expm": (linalg.expm, mp.exp), "sinm": (linalg.sinm, mp.sin), "coshm": (linalg.coshm, mp.cosh)}


def cases() -> Any:
    """Yield name, function, reference, matrix, and whether directions are Hermitian."""
    for name, (f, scalar) in MANY_VALUED.items():
        for label, a in (REGULAR | INDEFINITE).items():
            yield f"{name} {label}", f, exact.function_of(scalar), a, False
        for label, a in (INDEFINITE | SYMMETRIC).items():
            if np.array_equal(a, a.T):
                yield f"{name} {label}, symmetric", f, exact.of_hermitian(scalar), a, True
    for name, (f, scalar) in ENTIRE.items():
        for label, a in (REGULAR | INDEFINITE | SYMMETRIC | SINGULAR).items():
            yield f"{name} {label}", f, exact.function_of(scalar), a, False


def reverse(f):
    return fg.grad(f)


def forward(f):
    return lambda t: fg.jvp(f, (t,), (1.0,))[1]


ROUTES = {
    1: [(reverse,), (forward,)],
    2: [(reverse, reverse), (forward, reverse), (forward, forward)],
    3: [(reverse, reverse, reverse), (forward, forward, reverse)],
}


def parameters(found: Any) -> list[Any]:
    return [pytest.param(*rest, id=name) for name, *rest in found]


@pytest.mark.parametrize("f, reference, a, hermitian", parameters(cases()))
def test_derivatives_to_third_order(f, reference, a, hermitian):
    rng = np.random.default_rng(7)

    def normal(shape: Any, *, is_complex: bool) -> Any:
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if is_complex else x

    e = normal(a.shape, is_complex=np.iscomplexobj(a))
    e = e + e.conj().T if hermitian else e
    value = np.asarray(f(a))
    w = normal(value.shape, is_complex=np.iscomplexobj(value))
    along = lambda t: np.sum(np.real(w * f(a + t * e)))
    for order, routes in ROUTES.items():
        expected = np.sum(w.ravel() * exact.derivative(reference, a, e, order)).real
        for route in routes:
            g = along
            for d in reversed(route):
                g = d(g)
            np.testing.assert_allclose(g(0.0), expected, 1e-6, 1e-6, err_msg=f"order {order}, {route}")
