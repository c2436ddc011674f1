"""Rules of linear algebra where matrices are special: derivatives to third order, against ninety digits.

Equal, zero and negative eigenvalues, matrices without enough eigenvectors, small and badly scaled ones.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import linalg as reference
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
    "of rank two": np.array([[1.0, 2, 0], [0, 1, 3], [1, 3, 3]]),  # exactly
    "complex of rank one": np.outer([1.0, 2j, 3], [1, 0, 2 - 1j]),
    "nilpotent": np.diag([1.0, 1], 1),
    "of rank one": np.outer([1.0, 2, 3], [1, 0, 2]),
}


NEARLY_SINGULAR: dict[str, Any] = {
    "nearly of rank three": RNG.normal(size=(4, 4)) @ np.diag([1e-12, 1, 2, 3]) @ RNG.normal(size=(4, 4)),
    "nearly of rank two": RNG.normal(size=(4, 4)) @ np.diag([1e-9, 1e-9, 2, 3]) @ RNG.normal(size=(4, 4)),
    "of rank one, larger": np.outer([1.0, 2, 3, 4], [1, 0, 2, 1]),
}
TALL: dict[str, Any] = {
    "tall": RNG.normal(size=(4, 2)),
    "tall and complex": RNG.normal(size=(4, 2)) + 1j * RNG.normal(size=(4, 2)),
}
UNITARY = np.linalg.qr(RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3)))[0]
DEFINITE: dict[str, Any] = {
    "definite": turned(1, 2, 5),
    "equal eigenvalues": turned(2, 2, 5),
    "identity": np.eye(3),
    "small": 1e-8 * turned(1, 2, 5),
    "Hermitian": UNITARY @ np.diag([2.0, 2, 5]) @ UNITARY.conj().T,
}


def power(t: float) -> tuple[Any, Any]:
    return lambda a: linalg.fractional_matrix_power(a, t), lambda x: x ** mp.mpf(t)


MANY_VALUED = {"sqrtm": (linalg.sqrtm, mp.sqrt), "logm": (linalg.logm, mp.log), "power 0.3": power(0.3),
    "power -1.5": power(-1.5)}  # fmt: skip
ENTIRE = {"expm": (linalg.expm, mp.exp), "sinm": (linalg.sinm, mp.sin)}


def raised(a: Any, k: int) -> Any:
    return a**k if k else mp.eye(a.rows)


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
    for label, a in (REGULAR | INDEFINITE | SYMMETRIC | SINGULAR | NEARLY_SINGULAR).items():
        yield f"det {label}", np.linalg.det, exact.det, a, False
        for k in (0, 1, 3):
            yield (
                f"matrix_power {k} {label}",
                partial(np.linalg.matrix_power, n=k),
                partial(raised, k=k),
                a,
                False,
            )
    for label, a in (REGULAR | INDEFINITE | SYMMETRIC).items():
        if label == "badly scaled":
            continue
        yield (
            f"matrix_power -2 {label}",
            partial(np.linalg.matrix_power, n=-2),
            partial(raised, k=-2),
            a,
            False,
        )
        yield f"inv {label}", np.linalg.inv, mp.inverse, a, False
        yield (
            f"slogdet {label}",
            lambda a: np.linalg.slogdet(a)[1],
            lambda a: mp.log(abs(exact.det(a))),
            a,
            False,
        )
        yield f"polar {label}", lambda a: linalg.polar(a)[0], lambda a: exact.polar(a)[0], a, False
        yield (
            f"polar, second factor {label}",
            lambda a: linalg.polar(a)[1],
            lambda a: exact.polar(a)[1],
            a,
            False,
        )
    for label, a in (REGULAR | TALL).items():
        if label == "badly scaled":
            continue
        signs = np.sign(np.diag(np.linalg.qr(a)[1]).real)
        for k, name in enumerate("qr"):
            yield (f"qr {name} {label}", lambda a, k=k: np.linalg.qr(a)[k],
                lambda a, k=k, signs=signs: exact.qr(a, signs)[k], a, False)  # fmt: skip
        yield f"pinv {label}", np.linalg.pinv, exact.pinv, a, False
        order = reference.lu(a, p_indices=True)[0].argsort()
        for k, name in enumerate("lu"):
            yield (f"lu {name} {label}", lambda a, k=k: linalg.lu(a)[1 + k],
                lambda a, k=k, order=order: exact.lu(a, order)[k], a, False)  # fmt: skip
    for label, a in DEFINITE.items():
        yield f"cholesky {label}", np.linalg.cholesky, exact.cholesky, a, True
    yield "ldl", lambda a: linalg.ldl(a)[0], exact.ldl, REGULAR["two eigenvalues equal"], True
    # one singular value that is zero has a kink, of which the slope is the mean of both
    low = SINGULAR["of rank two"]
    yield "nuclear norm of rank two", lambda a: np.linalg.norm(a, "nuc"), exact.nuclear, low, False
    yield "norm -2 of rank two", lambda a: np.linalg.norm(a, -2), lambda a: exact.singular(a)[-1], low, False


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


EQUAL = {  # (function, reference, orders that exist)
    "eigenvalues": (
        lambda a: np.sum(np.linalg.eigvalsh(a) ** 2),
        lambda a: exact.trace(exact.full(a) ** 2),
        1,
    ),
    "singular values": (lambda a: np.linalg.norm(a, "nuc"), exact.nuclear, 2),
}


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("label", ["two eigenvalues equal", "identity"])
def test_functions_of_equal_eigenvalues_have_right_derivatives_or_refuse(name, label):
    """Higher ones need derivatives of vectors, which are not determined."""
    f, reference, known = EQUAL[name]
    a, e = REGULAR[label], turned(1, 2, 4) + np.eye(3)[::-1]
    if name == "singular values":
        e = skewed(e)
    along = lambda t: f(a + t * e)
    for order, routes in ROUTES.items():
        for route in routes:
            g = along
            for d in reversed(route):
                g = d(g)
            if order > known:
                with pytest.raises(np.linalg.LinAlgError, match="are equal"):
                    g(0.0)
            else:
                np.testing.assert_allclose(g(0.0), exact.derivative(reference, a, e, order).real[0], 1e-9)


def test_both_modes_at_singular_values_that_are_zero():
    """They have a kink as |x|: the slope is zero, in forward mode too."""
    rng = np.random.default_rng(3)
    for a in (np.zeros((3, 2)), np.outer([1.0, 2, 3], [1.0, 1]), turned(0, 1, 3), np.zeros((2, 2), complex)):
        for f in (
            np.linalg.svdvals,
            lambda a: np.linalg.norm(a, "nuc"),
            lambda a: np.linalg.norm(a, 2),
            lambda a: np.linalg.norm(a, -2),
            lambda a: linalg.svdvals(a),
            lambda a: np.linalg.svd(a @ a.T, compute_uv=False, hermitian=True),
        ):
            e = rng.normal(size=a.shape)
            value, pushed = fg.jvp(f, (a,), (e.astype(a.dtype),))
            w = rng.normal(size=np.shape(value))
            pulled = fg.grad(lambda a: np.sum(w * f(a)))(a)
            np.testing.assert_allclose(np.sum(w * pushed), np.sum(pulled * e).real, 1e-9, 1e-12)
            if not a.any():
                np.testing.assert_array_equal(pulled, 0 * a)


def test_singular_values_that_are_equal_to_rounding_share_the_slope_of_extremes():
    s = np.array([3.0, 3.0, 1.0])
    a = TURN @ np.diag(s) @ UNITARY
    u, _, vh = np.linalg.svd(a)
    share = (u[:, :2] @ vh[:2]).conj() / 2
    np.testing.assert_allclose(fg.grad(lambda a: np.linalg.norm(a, 2))(a), share, atol=1e-12)
    for turn in (TURN, UNITARY, np.eye(3)):  # where the condition number is least
        np.testing.assert_allclose(fg.grad(np.linalg.cond)(turn), 0 * turn, atol=1e-12)
        np.testing.assert_allclose(fg.jvp(np.linalg.cond, (turn,), (turn + 1,))[1], 0, atol=1e-12)


SINGULAR_RULES = {
    "sqrtm": (linalg.sqrtm, np.outer([1.0, 2, 3], [1, 0, 2])),
    "logm": (linalg.logm, np.diag([0.0, 1, 2])),
    "power": (power(0.5)[0], np.diag([0.0, 1, 2])),
    "qr": (lambda a: np.linalg.qr(a)[0], np.outer([1.0, 2, 3], [1, 0, 2])),
    "eigvals": (lambda a: abs(np.linalg.eigvals(a)), JORDAN),
    "slogdet": (lambda a: np.linalg.slogdet(a)[1], np.outer([1.0, 2, 3], [1, 0, 2])),
}


@pytest.mark.parametrize("name", SINGULAR_RULES)
def test_a_zero_cotangent_wins_where_a_matrix_is_singular(name):
    f, singular = SINGULAR_RULES[name]
    stack = np.stack([REGULAR["regular"], singular])
    of_first = lambda a: np.sum(np.real(f(a)[0]) ** 2)
    alone = fg.grad(lambda a: np.sum(np.real(f(a)) ** 2))(stack[0])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of SciPy's, about the values
        for grad in (fg.grad(of_first), fg.jit(fg.grad(of_first))):
            np.testing.assert_allclose(grad(stack), [alone, 0 * singular], 1e-9, 1e-12)
        with pytest.raises(np.linalg.LinAlgError, match=r"singular|dependent|defective"):
            fg.grad(lambda a: np.sum(np.real(f(a)) ** 2 + np.real(f(a))))(np.where(True, singular, stack[0]))


def test_second_derivatives_of_pseudoinverses_of_low_rank_are_the_same_in_every_mode():
    rng = np.random.default_rng(0)
    (b, db), (c, dc) = rng.normal(size=(2, 4, 2)), rng.normal(size=(2, 2, 3))
    w = rng.normal(size=(3, 4))
    f = lambda t: np.sum(w * np.linalg.pinv((b + t * db) @ (c + t * dc), rcond=1e-10))  # of rank 2 for all t
    forward = lambda g: lambda t: fg.jvp(g, (t,), (1.0,))[1]
    second = (f(1e-3) - 2 * f(0.0) + f(-1e-3)) / 1e-6
    for outer in (fg.grad, forward):
        for inner in (fg.grad, forward):
            g = outer(inner(f))
            np.testing.assert_allclose([g(0.0), fg.jit(g)(0.0), *fg.vmap(g)(np.zeros(2))], second, rtol=1e-4)
