"""Factorizations and systems in compiled programs: no step of Python, NumPy's results, NumPy's refusals."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from scipy import linalg as reference
from tests.compiler.interpreting import kernels_in_python
from tests.helpers import unchecked

import fgrad as fg
from fgrad import lax
from fgrad.compiler import decompose
from fgrad.scipy import linalg

RNG = np.random.default_rng(21)


def definite(*shape, dtype="d"):
    a = RNG.standard_normal((*shape, shape[-1]))
    return (a @ np.swapaxes(a, -1, -2) / shape[-1] + np.eye(shape[-1])).astype(dtype)


def is_native(f, *args):
    """Return whether no step of a compiled program is Python's."""
    return "# Python" not in fg.jit(f).lower(*args).source


def lower_system(a, b):
    return linalg.solve_triangular(a, b, lower=True, check_finite=False)


NATIVE = {
    "cholesky": (lambda a, b: np.linalg.cholesky(a), 32),
    "upper": (lambda a, b: np.linalg.cholesky(a, upper=True), 32),
    "triangular": (lower_system, 64),
    "transposed": (lambda a, b: linalg.solve_triangular(a, b, lower=True, trans=1), 64),
    "upper, unit": (lambda a, b: linalg.solve_triangular(a, b, unit_diagonal=True), 64),
    "cho_solve": (lambda a, b: linalg.cho_solve((np.linalg.cholesky(a), True), b), 32),
}
PLAIN = {
    "triangular": lambda a, b: np.linalg.solve(np.tril(a), b),
    "transposed": lambda a, b: np.linalg.solve(np.swapaxes(np.tril(a), -1, -2), b),
    "upper, unit": lambda a, b: np.linalg.solve(np.triu(a, 1) + np.eye(a.shape[-1]), b),
    "cho_solve": np.linalg.solve,
}


def total(f):
    return lambda *args: sum(np.sum(np.sin(y)) for y in fg.tree.leaves(f(*args)))


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize(("lead", "dtype"), [((), "d"), ((3,), "f"), ((2, 5), "d")])
def test_programs_are_native_and_agree_with_numpy(name, lead, dtype):
    f, most = NATIVE[name]
    eps = np.finfo(dtype).eps
    for n in (1, 4, most):
        a, b = definite(*lead, n, dtype=dtype), RNG.standard_normal((*lead, n, 2)).astype(dtype)
        expected = PLAIN.get(name, f)(a.astype("d"), b.astype("d"))
        np.testing.assert_allclose(fg.jit(f)(a, b), expected, rtol=0, atol=50 * n * eps * abs(expected).max())
        assert is_native(f, a, b)
        slope = fg.grad(total(f), (0, 1))
        assert is_native(slope, a, b)
        for found, y in zip(fg.jit(slope)(a, b), slope(a, b), strict=True):
            np.testing.assert_allclose(found, y, rtol=0, atol=200 * n * eps * max(1, abs(y).max()))


def test_what_kernels_do_not_know_is_left_to_numpy():
    a = definite(3, 4)
    for x in (a.astype("D"), definite(33)):
        np.testing.assert_allclose(fg.jit(np.linalg.cholesky)(x), np.linalg.cholesky(x), atol=1e-14)
    for shape in ((0, 3, 3), (0, 0), (2, 0, 0)):
        assert fg.jit(np.linalg.cholesky)(np.zeros(shape)).shape == shape
        assert fg.jit(lower_system)(np.zeros(shape), np.zeros((*shape[:-1], 1))).shape == (*shape[:-1], 1)
    np.testing.assert_allclose(fg.jit(np.linalg.cholesky)(np.float64([[4.0]])), [[2.0]])


def filtered(observations, start):
    """Return the log-likelihood of a Kalman filter."""
    turn, noise = np.array([[0.9, 0.2], [-0.1, 0.8]]), 0.1 * np.eye(2)

    def step(state, y):
        mean, covariance = state
        mean, covariance = turn @ mean, turn @ covariance @ turn.T + noise
        root = np.linalg.cholesky(covariance + 0.5 * np.eye(2))
        white = linalg.solve_triangular(root, y - mean, lower=True)
        gain = linalg.cho_solve((root, True), covariance)
        found = -0.5 * white @ white - np.sum(np.log(np.diagonal(root)))
        return (mean + (y - mean) @ gain, covariance - covariance @ gain), found

    _, found = lax.scan(step, (start, np.eye(2)), observations)
    return np.sum(found)


def test_loops_with_factors_stay_native():
    y, start = RNG.standard_normal((20, 2)), np.zeros(2)
    for f in (filtered, fg.grad(filtered, (0, 1))):
        assert is_native(f, y, start)
        expected = fg.tree.leaves(f(y, start))
        for found, e in zip(fg.tree.leaves(fg.jit(f)(y, start)), expected, strict=True):
            np.testing.assert_allclose(found, e, rtol=1e-10, atol=1e-12)
    mapped = fg.vmap(filtered, (0, None))
    ys = np.stack([y, 2 * y, -y])
    assert is_native(mapped, ys, start)
    np.testing.assert_allclose(fg.jit(mapped)(ys, start), [filtered(v, start) for v in ys], rtol=1e-10)

    def settled(a):
        def step(state):
            x, k = state
            return np.linalg.cholesky(x @ x.T), k + 1

        return lax.while_loop(lambda state: state[1] < 5, step, (a, 0))[0]

    a = definite(4)
    assert is_native(settled, a)
    np.testing.assert_allclose(fg.jit(settled)(a), settled(a), rtol=1e-10)


# ---- what is refused ----------------------------------------------------------------------------------

SPOILED = {
    "negative": [[1.0, 2.0], [2.0, 1.0]],
    "zero": [[0.0, 0.0], [0.0, 0.0]],
    "singular to rounding": [[1.0, 1.0], [1.0, 1.0]],
    "NaN": [[np.nan, 0.0], [0.0, 1.0]],
    "NaN below": [[1.0, 0.0], [np.nan, 1.0]],
    "NaN above": [[1.0, np.nan], [0.5, 1.0]],
    "infinite": [[np.inf, 0.0], [0.0, 1.0]],
    "tiny": [[1e-300, 0.0], [0.0, 1e-300]],
    "nearly singular": [[1.0, 1.0], [1.0, 1.0 + 2e-16]],
}


def outcome(f, *args):
    try:
        with np.errstate(all="ignore"):
            return np.asarray(f(*args))
    except (LinAlgError, ZeroDivisionError) as error:
        return type(error)


def same(f, *args):
    """Ask whether a function and its compiled form give the same, or raise the same, time after time."""
    expected, compiled = outcome(f, *args), fg.jit(f)
    for _ in range(3):
        found = outcome(compiled, *args)
        if isinstance(expected, type):
            assert found is expected
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)
    return expected


@pytest.mark.parametrize("name", SPOILED)
@pytest.mark.parametrize("lead", [0, 1, 20])
def test_compiled_programs_refuse_what_numpy_refuses(name, lead):
    a = np.array(SPOILED[name])
    if lead:
        a = np.concatenate([definite(lead, 2), a[None], definite(lead, 2)])
    expected = same(np.linalg.cholesky, a)
    same(lambda a: np.sum(np.linalg.cholesky(a)) * 2, a)
    same(lambda a: lower_system(a, a), a)
    if name in {"negative", "zero"}:
        assert expected is LinAlgError


def test_a_program_goes_on_after_it_has_refused():
    f = fg.jit(lambda a: np.linalg.cholesky(a) @ a)
    good = definite(3)
    expected = f(good)
    for _ in range(3):
        with pytest.raises(LinAlgError, match="positive definite"):
            f(-good)
        np.testing.assert_array_equal(f(good), expected)


def test_loops_end_where_a_matrix_is_refused():
    def step(c, k):
        return np.linalg.cholesky(c - k * np.eye(2)), c[0, 0]

    f = fg.jit(lambda a: lax.scan(step, a, np.arange(5.0)))
    with pytest.raises(LinAlgError):
        f(np.eye(2))
    g = fg.jit(fg.grad(lambda a: np.sum(lax.scan(step, a, np.zeros(3))[0])))
    assert np.isfinite(g(np.eye(2))).all()
    with pytest.raises(LinAlgError):
        g(-np.eye(2))


def test_branches_refuse_only_what_they_compute():
    f = fg.jit(lambda x, a: lax.cond(x > 0, np.linalg.cholesky, lambda a: a, a))
    np.testing.assert_array_equal(f(-1.0, -np.eye(2)), -np.eye(2))
    np.testing.assert_array_equal(f(1.0, np.eye(2)), np.eye(2))
    with pytest.raises(LinAlgError):
        f(1.0, -np.eye(2))


def test_operands_that_were_given_away_are_not_asked_again():
    f = fg.jit(lambda a: a @ np.linalg.cholesky(a).T * 2, donate_argnums=0)
    with pytest.raises(LinAlgError):
        f(-np.eye(3))
    np.testing.assert_array_equal(f(np.eye(3)), 2 * np.eye(3))


def test_singular_triangles_are_refused_unless_their_diagonal_is_not_read():
    for n in (3, 40):
        a = np.tril(definite(n))
        a[1, 1] = 0.0
        with pytest.raises(LinAlgError, match="diagonal is zero"):
            fg.jit(lower_system)(a, a)
        unit = lambda a, b: linalg.solve_triangular(a, b, lower=True, unit_diagonal=True)
        expected = reference.solve_triangular(a, a, lower=True, unit_diagonal=True)
        np.testing.assert_allclose(fg.jit(unit)(a, a), expected, rtol=1e-9, atol=1e-9)


@unchecked("as_njit is refused")
def test_code_that_numba_compiles_refuses_too():
    f = fg.jit(lambda a: np.linalg.cholesky(a) * 2).as_njit(np.eye(2))
    np.testing.assert_array_equal(f(np.eye(2)), 2 * np.eye(2))
    with pytest.raises(LinAlgError, match="not positive definite"):
        f(-np.eye(2))


def test_kernels_that_python_runs():
    a, b = definite(9, 3), RNG.standard_normal((9, 3, 2))
    with kernels_in_python():
        f = fg.jit(lambda a, b: (np.linalg.cholesky(a), lower_system(a, b)))
        for found, expected in zip(f(a, b), (np.linalg.cholesky(a), lower_system(a, b)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        with pytest.raises(LinAlgError):
            f(-a, b)


# ---- systems and determinants --------------------------------------------------------------------------

BY_PIVOTS = {
    "solve": np.linalg.solve,
    "one for all": lambda a, b: np.linalg.solve(a, np.stack([b, 2 * b])),
    "inv": lambda a, b: np.linalg.inv(a),
    "det": lambda a, b: np.linalg.det(a),
    "slogdet": lambda a, b: tuple(np.linalg.slogdet(a)),
}


@pytest.mark.parametrize("name", BY_PIVOTS)
@pytest.mark.parametrize(("lead", "dtype"), [((), "d"), ((3,), "f"), ((2, 5), "d")])
def test_systems_are_native_and_agree_with_numpy(name, lead, dtype):
    f, eps = BY_PIVOTS[name], np.finfo(dtype).eps
    for n in (1, 4, 32):
        a = (RNG.permutation(definite(*lead, n), axis=-1) * RNG.choice([-0.5, 0.5])).astype(dtype)
        b = RNG.standard_normal((*lead, n, 2)).astype(dtype)
        wide = [x.astype("d") for x in (a, b)]
        for found, expected in zip(fg.tree.leaves(fg.jit(f)(a, b)), fg.tree.leaves(f(*wide)), strict=True):
            assert found.dtype == dtype
            np.testing.assert_allclose(
                found, expected, rtol=0, atol=100 * n * eps * max(1, abs(expected).max())
            )
        slope = fg.grad(total(f), (0, 1))
        assert is_native(f, a, b)
        assert is_native(slope, a, b)
        for found, y in zip(fg.jit(slope)(a, b), slope(*wide), strict=True):
            np.testing.assert_allclose(found, y, rtol=0, atol=1000 * n * eps * max(1, abs(y).max()))


def test_systems_of_one_matrix_or_one_right_hand_side_and_of_stacks_that_broadcast():
    for first in ((), (1,), (5,), (4, 1), (4, 5)):
        for second in ((), (5,), (1, 5), (4, 5)):
            a, b = definite(*first, 3), RNG.standard_normal((*second, 3, 2))
            for f in (np.linalg.solve, lambda a, b: np.linalg.solve(np.swapaxes(a, -1, -2), b)):
                np.testing.assert_allclose(fg.jit(f)(a, b), f(a, b), rtol=1e-11, atol=1e-11)
                assert is_native(f, a, b)


def test_complex_systems_of_one_operand_for_a_stack_as_long_as_it_is_wide():
    for lead in ((), (3,), (3, 3), (3, 2)):
        for columns in (2, 3):
            for first, second in ((lead, ()), ((), lead), (lead, lead)):
                a = definite(*first, 3) + 1j * definite(*first, 3)
                b = RNG.standard_normal((*second, 3, columns)) * (1 + 1j)
                for f in (np.linalg.solve, lambda a, b: np.linalg.inv(a) @ b):
                    np.testing.assert_allclose(fg.jit(f)(a, b), f(a, b), rtol=1e-11, atol=1e-11)


def test_determinants_neither_overflow_nor_vanish_on_the_way():
    for dtype, big in (("d", 1e200), ("f", 1e30)):
        for diagonal in ((big, big, 1 / big, 1 / big), (1 / big, 1 / big, big, -big), (0.0, big, big, big)):
            a = np.diag(diagonal).astype(dtype)
            with np.errstate(all="ignore"):
                expected = np.linalg.det(a)
            np.testing.assert_allclose(fg.jit(np.linalg.det)(a), expected, rtol=1e-3)
    assert fg.jit(np.linalg.det)(np.zeros((9, 3, 3))).tolist() == [0.0] * 9
    assert np.isnan(fg.jit(np.linalg.det)(np.full((3, 3), np.nan)))


SINGULAR = {
    "zeros": np.zeros((3, 3)),
    "zero column": [[1.0, 0.0, 2.0], [3.0, 0.0, 4.0], [5.0, 0.0, 6.0]],
    "by rounding": np.arange(1.0, 10.0).reshape(3, 3),
    "of tenths": np.arange(1.0, 10.0).reshape(3, 3) / 10,
    "equal rows": [[0.1, 0.2, 0.7], [0.3, 0.6, 0.3], [0.1, 0.2, 0.7]],
    "of two": [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]],
    "thirds": np.outer([1 / 3, 0.2, 0.7], [0.6, 1 / 7, 0.3]),
    "NaN": np.where(np.eye(3) == 1, np.nan, 1.0),
    "NaN in a corner": [[1.0, 2.0, np.nan], [3.0, 1.0, 1.0], [1.0, 1.0, 5.0]],
    "infinite": [[np.inf, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "scaled": np.diag([1.0, 1e-200, 1e200]),
}


@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize("lead", [0, 1, 20])
def test_systems_are_refused_where_numpy_refuses_them(name, lead):
    a = np.array(SINGULAR[name])
    if lead:
        a = np.concatenate([definite(lead, 3), a[None], definite(lead, 3)])
    same(lambda a: np.linalg.solve(a, a[..., :1] * 0 + 1), a)
    inverse = same(np.linalg.inv, a)
    assert (inverse is LinAlgError) or name not in {"zeros", "zero column", "of two"}
    for k in range(2):
        same(lambda a, k=k: np.linalg.slogdet(a)[k], a)
    for f in (lambda a: np.sum(np.linalg.det(a)), lambda a: np.sum(np.linalg.slogdet(a)[1])):
        same(fg.grad(f), a)


def test_random_matrices_of_low_rank_are_refused_alike():
    """Where it depends on rounding whether a pivot is zero, NumPy is asked."""
    for n in (2, 3, 5):
        whole = RNG.integers(-4, 5, (100, n, n - 1)) @ RNG.integers(-4, 5, (100, n - 1, n)) / 8
        inverse, root = fg.jit(np.linalg.inv), fg.jit(np.linalg.cholesky)
        for a in whole:
            assert isinstance(outcome(inverse, a), type) == isinstance(outcome(np.linalg.inv, a), type)
            a = a @ a.T
            assert isinstance(outcome(root, a), type) == isinstance(outcome(np.linalg.cholesky, a), type)


def test_ill_conditioned_matrices_are_factored_natively(monkeypatch):
    """Small pivots are no reason to ask NumPy, as long as rounding errors are smaller."""
    monkeypatch.setattr(fg.compiler.Executable, "_again", None)
    x = np.linspace(0.0, 1.0, 12)
    kernel = np.exp(-((x[:, None] - x) ** 2) * 4)
    for noise in (1e-4, 1e-8, 1e-11):
        a = kernel + noise * np.eye(12)
        for stack in (a, np.stack([a] * 9)):
            found = fg.jit(np.linalg.cholesky)(stack)
            np.testing.assert_allclose(found @ np.swapaxes(found, -1, -2), stack, rtol=1e-13, atol=1e-14)
    a = np.diag([1.0, 1e-30, 1e30])
    np.testing.assert_array_equal(fg.jit(np.linalg.cholesky)(a), np.linalg.cholesky(a))


def test_gradients_of_what_is_undetermined_are_looked_at_natively():
    f = lambda a: np.linalg.eigh(a)[1][1, 0] ** 2 + np.linalg.eigh(a)[1][1, 0]
    slope = fg.jit(fg.grad(f))
    a = np.diag([1.0, 2.0, 4.0]) + 0.1
    np.testing.assert_allclose(slope(a), fg.grad(f)(a), rtol=1e-12, atol=1e-14)
    assert "# Python" not in slope.lower(a).source
    with pytest.raises(LinAlgError, match="are equal"):
        slope(np.eye(3))


def test_fits_and_their_slopes_are_native():
    a, b = definite(4), RNG.standard_normal((4, 2))
    slope = fg.grad(lambda a: np.sum(np.linalg.lstsq(a, b, rcond=None)[0] ** 2))
    assert is_native(slope, a)
    np.testing.assert_allclose(fg.jit(slope)(a), slope(a), rtol=1e-9, atol=1e-12)


# ---- larger matrices, which LAPACK factors -------------------------------------------------------------


def calls(f, *args):
    """Return how many times a compiled program calls each of LAPACK's functions."""
    text = fg.jit(f).lower(*args).source
    return {name: text.count(f"= lapack.{name}(") for name in ("getrf", "getrs")}


@pytest.mark.parametrize(("lead", "dtype"), [((), "d"), ((3,), "f"), ((2, 2), "d")])
def test_larger_systems_are_native_and_factored_once(lead, dtype):
    n, eps = 45, np.finfo(dtype).eps
    a = (RNG.permutation(definite(*lead, n), axis=-1)).astype(dtype)
    for b in (RNG.standard_normal((*lead, n, 2)).astype(dtype), RNG.standard_normal((n, 1)).astype(dtype)):
        wide = [x.astype("d") for x in (a, b)]
        for f in (np.linalg.solve, lambda a, b: np.linalg.inv(a) @ b):
            expected = f(*wide)
            assert is_native(f, a, b)
            np.testing.assert_allclose(
                fg.jit(f)(a, b), expected, rtol=0, atol=1e4 * eps * abs(expected).max()
            )
            slope = fg.grad(total(f), (0, 1))
            assert is_native(slope, a, b)
            assert calls(slope, a, b) == {"getrf": 1, "getrs": 2}
            for found, y in zip(fg.jit(slope)(a, b), slope(*wide), strict=True):
                np.testing.assert_allclose(found, y, rtol=0, atol=1e5 * eps * abs(y).max())


def test_larger_systems_of_one_matrix_or_one_right_hand_side():
    for first in ((), (4, 1), (4, 3)):
        for second in ((), (1, 3), (4, 3)):
            a, b = definite(*first, 34), RNG.standard_normal((*second, 34, 2))
            for f in (np.linalg.solve, lambda a, b: np.linalg.solve(np.swapaxes(a, -1, -2), b)):
                np.testing.assert_allclose(fg.jit(f)(a, b), f(a, b), rtol=1e-10, atol=1e-10)
                assert is_native(f, a, b)


@pytest.mark.parametrize(("lead", "dtype"), [((), "d"), ((3,), "f")])
def test_larger_cholesky_factors_are_native(lead, dtype):
    a = definite(*lead, 60, dtype=dtype)
    slope = fg.grad(total(np.linalg.cholesky))
    for f in (np.linalg.cholesky, slope):
        assert is_native(f, a)
        expected = f(a.astype("d"))
        atol = 1e4 * np.finfo(dtype).eps * abs(expected).max()
        np.testing.assert_allclose(fg.jit(f)(a), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", "fdFD")
def test_matrices_with_nan_are_factored_as_far_as_that_goes(dtype):
    f = fg.jit(lambda a: linalg.lu_factor(a, check_finite=False))
    a = RNG.standard_normal((3, 5, 5)).astype(dtype)
    f(a)
    a[1, 1, 0] = np.nan
    factors, order = f(a)
    assert ((order >= 0) & (order < 5)).all()
    assert np.isnan(factors[1]).sum() > 1
    np.testing.assert_array_equal(f(a)[1], order)


def test_loops_with_larger_systems_stay_native():
    a = definite(36)

    def f(a):
        return np.sum(lax.scan(lambda x, _: (np.sin(np.linalg.solve(a, x)), None), np.ones(36), None, 4)[0])

    for g in (f, fg.grad(f)):
        assert is_native(g, a)
        np.testing.assert_allclose(fg.jit(g)(a), g(a), rtol=1e-9, atol=1e-10)


LARGER = {
    "zeros": np.zeros((40, 40)),
    "one zero": np.diag([*np.ones(39), 0.0]),
    "NaN": np.where(np.eye(40) == 1, np.nan, 0.5),
    "infinite": np.diag([*np.ones(39), np.inf]),
    "scaled": np.diag([*np.ones(38), 1e-200, 1e200]),
    "of ones": np.ones((40, 40)),
    "negative": -np.eye(40),
    "of low rank": RNG.integers(-4, 5, (40, 39)) @ RNG.integers(-4, 5, (39, 40)) / 8,
}


@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize("lead", [0, 2])
def test_larger_matrices_are_refused_where_numpy_refuses_them(name, lead):
    a = LARGER[name]
    if lead:
        a = np.concatenate([definite(lead, 40), a[None]])
    b = np.ones((40, 1))
    if name != "of low rank":  # whose solutions are rounding errors
        same(np.linalg.solve, a, b)
        same(lambda a, b: np.linalg.solve(np.swapaxes(a, -1, -2), b), a, b)
        same(lambda a, b: np.linalg.solve(a, b) + np.linalg.solve(np.swapaxes(a, -1, -2), b), a, b)
    same(np.linalg.cholesky, a @ np.swapaxes(a, -1, -2) if name == "of low rank" else a)


def test_random_larger_matrices_of_low_rank_are_refused_alike():
    """Where it depends on rounding whether a pivot is zero, NumPy is asked."""
    root, back = fg.jit(np.linalg.cholesky), lambda a: np.linalg.solve(a.T, np.ones((40, 1)))
    compiled = fg.jit(back)
    for _ in range(100):
        a = RNG.integers(-4, 5, (40, 39)) @ RNG.integers(-4, 5, (39, 40)) / 8
        assert isinstance(outcome(compiled, a), type) == isinstance(outcome(back, a), type)
        a = a @ a.T
        assert isinstance(outcome(root, a), type) == isinstance(outcome(np.linalg.cholesky, a), type)


FACTORED = {
    "qr": lambda a: tuple(np.linalg.qr(a)),
    "reflectors": lambda a: tuple(np.linalg.qr(a, "raw")),
    "svd": lambda a: tuple(np.linalg.svd(a, full_matrices=False)),
    "all of svd": lambda a: tuple(np.linalg.svd(a)),
    "eigh": lambda a: tuple(np.linalg.eigh(a[..., : a.shape[-2]])),
    "eigh, upper": lambda a: tuple(np.linalg.eigh(a[..., : a.shape[-2]], "U")),
}


@pytest.mark.parametrize("name", FACTORED)
@pytest.mark.parametrize(("lead", "dtype"), [((), "d"), ((3,), "f")])
def test_factors_are_numpys_signs_included(name, lead, dtype):
    f = FACTORED[name]
    for m, n in ((40, 40), (5, 3), (3, 7), (1, 1)):
        if "eigh" not in name or m <= n:
            a = RNG.standard_normal((*lead, m, n)).astype(dtype)
            assert is_native(f, a)
            for found, expected in zip(fg.jit(f)(a), f(a), strict=True):
                assert found.dtype == dtype
                np.testing.assert_allclose(found, expected, rtol=0, atol=100 * m * np.finfo(dtype).eps * n)


SLOPES = {
    "qr": total(FACTORED["qr"]),
    "svd": lambda a: (
        np.sum(np.abs(np.linalg.svd(a, full_matrices=False)[0]) ** 3) + np.linalg.svd(a)[1][..., 0]
    ),
    "eigh": lambda a: total(lambda a: np.abs(np.linalg.eigh(a)[1]))(a) + total(np.linalg.eigvalsh)(a),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_of_factors_are_native(name):
    f = fg.grad(SLOPES[name])
    for m, n in ((40, 40), (6, 6), *(((9, 4), (4, 9)) if name == "qr" else ())):
        a = RNG.standard_normal((m, n)) + 3 * np.diag(np.arange(max(m, n)))[:m, :n]
        assert is_native(f, a)
        expected = f(a)
        np.testing.assert_allclose(fg.jit(f)(a), expected, rtol=0, atol=1e-9 * abs(expected).max())


def test_loops_with_factors_of_any_kind_stay_native():
    def step(x, _):
        q, r = np.linalg.qr(x)
        w, v = np.linalg.eigh(r + r.T)
        return q + v * np.cos(w), np.linalg.svd(x)[1]

    f = lambda a: total(lambda a: lax.scan(step, a, None, 3))(a)
    a = RNG.standard_normal((4, 4))
    assert is_native(f, a)
    np.testing.assert_allclose(fg.jit(f)(a), f(a), rtol=1e-9)


@pytest.mark.parametrize("name", FACTORED)
def test_what_has_no_factors_is_said_by_numpy(name):
    f = lambda a: FACTORED[name](a)[0]
    compiled = fg.jit(f)
    for bad in (np.nan, np.inf, -np.inf) if name == "qr" else (np.nan,):  # iterations need not end
        a = RNG.standard_normal((2, 5, 5))
        a[1, -1, 0] = bad
        found, expected = outcome(compiled, a), outcome(f, a)
        assert found is expected if isinstance(expected, type) else np.array_equal(found, expected, True)


def test_slopes_of_factors_of_dependent_columns_are_refused():
    slope = fg.grad(lambda a: np.sum(np.sin(np.linalg.qr(a)[0])))
    for n in (3, 40):
        a = RNG.standard_normal((n, n))
        a[:, 1] = 2 * a[:, 0]
        with pytest.raises(LinAlgError, match="linearly dependent"):
            slope(a)
        with pytest.raises(LinAlgError, match="linearly dependent"):
            fg.jit(slope)(a)


def test_constants_that_do_not_lie_by_rows_are_not_taken_for_others():
    """The identity of an array that is gone may be that of another one."""
    w = decompose.Writer({})
    found = [w.array(np.full((2, 3), float(k)).T) for k in range(20)]
    constants = dict(w.constants.values())
    assert [constants[v][0, 0] for v in found] == list(range(20))
