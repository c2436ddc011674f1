"""fgrad.scipy.linalg: SciPy's values, derivatives to second order, vmap and jit."""

from operator import itemgetter

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from scipy import linalg as reference
from tests.helpers import close, grouped
from tests.scipy.checking import agrees, check, normal

import fgrad as fg
from fgrad.scipy import linalg
from fgrad.testing import check_grads


def regular(n, dtype=float, seed=0):
    return (normal(n, n, dtype=dtype, seed=seed) * 0.4 + 2 * np.eye(n)).astype(dtype)


def definite(n, dtype=float, seed=0):
    x = normal(n, n, dtype=dtype, seed=seed)
    return (x @ x.conj().T / n + np.eye(n)).astype(dtype)


DTYPES = [np.float64, np.complex128, np.float32]


def case(name, *args, order=2, label="", **options):
    return f"{name} {label} {args[0].dtype}", name, args, options, order


def cases():
    for d in DTYPES:
        order = 2 if d is not np.float32 else 0
        a, p, b, v = regular(3, d), definite(3, d), normal(3, 2, dtype=d, seed=1), normal(3, dtype=d, seed=2)
        for name in ("expm", "logm", "sqrtm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm"):
            if d is not np.float32 or name in {"expm", "sqrtm"}:
                yield case(name, a, order=order)
        yield case("expm_frechet", a / 3, b @ b.conj().T, order=order)
        yield case("expm_frechet", a / 3, b @ b.conj().T, order=1, label="alone", compute_expm=False)
        yield case("fractional_matrix_power", p, order=order, t=0.3)
        yield case("fractional_matrix_power", p, order=1, t=-2)
        for lower in (True, False):
            yield case("cholesky", p, order=order, lower=lower, label=f"lower={lower}")
        for trans in (0, 1, 2):
            yield case("solve_triangular", a, b, order=order, trans=trans, lower=trans == 1, label=f"{trans}",
                unit_diagonal=trans == 2)  # fmt: skip
        yield case("solve_triangular", a, v, order=1, label="vector")
        yield case("solve", a, b, order=order)
        yield case("solve", a, v, order=1, label="vector")
        for kind in ("sym", "her", "pos"):
            yield case("solve", p, b, order=order, assume_a=kind, label=kind)
            yield case("solve", p, b, order=1, assume_a=kind, lower=True, label=f"{kind} lower")
        yield case("inv", a, order=order)
        yield case("det", a, order=order)
        for shape in ((3, 3), (4, 2), (2, 4)):
            x = normal(*shape, dtype=d, seed=3)
            yield case("lu", x, order=order, label=f"{shape}")
            yield case("lu", x, order=1, permute_l=True, label=f"{shape} permuted")
            yield case("polar", x, order=order, label=f"{shape}")
            yield case("polar", x, order=1, side="left", label=f"{shape} left")
            yield case("pinv", x, order=order, label=f"{shape}")
            yield case("svdvals", x, order=order, label=f"{shape}")
            if shape[0] <= shape[1]:
                yield case("qr", x, order=order, label=f"{shape}")
            yield case("qr", x, order=order, mode="economic", label=f"{shape} economic")
            yield case("qr", x, order=1, mode="r", label=f"{shape} r")
        yield case("lu_factor", a, order=order)
        for lower in (True, False):
            h = normal(4, 4, dtype=d, seed=5)
            h = h + h.conj().T
            h[0, 0] = h[1, 1] = 0.01  # so that there are blocks of two
            yield case("ldl", h, order=order, lower=lower, label=f"lower={lower}")
        yield case("solve_sylvester", a, definite(2, d), b, order=order)
        yield case("solve_continuous_lyapunov", a, definite(3, d, 4), order=order)
        for method in ("direct", "bilinear"):
            yield case("solve_discrete_lyapunov", a / 5, definite(3, d, 4), order=order, method=method)
        yield case("pinvh", p, order=order)
        yield case("eigvalsh", p, order=order)
        yield case("toeplitz", v, order=order)
        yield case("toeplitz", v, b[:, 0], order=order, label="row")
        yield case("hankel", v, b[:, 0], order=order)
        yield case("circulant", v, order=1)
        yield case("companion", v, order=order)
        yield case("leslie", v, v[1:], order=1)
        yield case("block_diag", a, b, v, order=1)
        yield case("khatri_rao", a, b @ b.conj().T, order=order)
        for mode in ("full", "same", "valid"):
            yield case("convolution_matrix", v, order=1, n=5, mode=mode, label=mode)
        yield case("solve_toeplitz", v + 3, b, order=1)


@grouped("label, name, args, options, order", cases(), itemgetter(1), quick=4)
def test_values_and_derivatives(label, name, args, options, order):
    f, g = (lambda *xs, m=m: getattr(m, name)(*xs, **options) for m in (linalg, reference))
    narrow = args[0].dtype == np.float32
    compiled = args[0].dtype == np.float64 and order == 2 and name in {"expm", "lu_factor", "ldl"}
    check(f, args, g, order, rtol=2e-4 if narrow else 1e-9, compiled=compiled)


@pytest.mark.parametrize("name", ["solve_continuous_are", "solve_discrete_are"])
@pytest.mark.parametrize("dtype", [float, complex])
def test_riccati(name, dtype):
    a, b, q, r = (
        normal(3, 3, dtype=dtype),
        normal(3, 2, dtype=dtype, seed=1),
        definite(3, dtype),
        definite(2, dtype),
    )
    s = normal(3, 2, dtype=dtype, seed=2) / 9
    f, g = (lambda *xs, m=m: getattr(m, name)(*xs) for m in (linalg, reference))
    check(f, (a, b, q, r), g, 2 if dtype is float else 1, rtol=1e-8, mapped=dtype is float)
    f, g = (lambda a, b, q, r, s, m=m: getattr(m, name)(a, b, q, r, None, s) for m in (linalg, reference))
    close(f(a, b, q, r, s), g(a, b, q, r, s), 1e-8)
    check_grads(f, (a, b, q, r, s), 1, rtol=1e-5)
    skew = np.triu(np.full((2, 2), 0.3), 1) - np.tril(np.full((2, 2), 0.3), -1)
    close(f(a, b, q, r + skew, s), g(a, b, q, r, s), 1e-8)  # of r the Hermitian part counts


# ---- systems from factors, and systems by structure


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("trans", [0, 1, 2])
def test_systems_from_factors(dtype, trans):
    a, p, b = regular(3, dtype), definite(3, dtype), normal(3, 2, dtype=dtype, seed=1)
    by_lu = lambda m: lambda a, b: m.lu_solve(m.lu_factor(a), b, trans)
    check(by_lu(linalg), (a, b), by_lu(reference), 2 if trans == 1 else 1, rtol=1e-9)
    close(
        linalg.lu_solve(reference.lu_factor(a), b[:, 0], trans),
        reference.lu_solve(reference.lu_factor(a), b[:, 0], trans),
    )
    by_cholesky = lambda m: lambda a, b: m.cho_solve(m.cho_factor(a, trans == 0), b)
    check(by_cholesky(linalg), (p, b), by_cholesky(reference), 1, rtol=1e-9)


@pytest.mark.parametrize(
    "structure", ["diagonal", "tridiagonal", "upper triangular", "lower triangular", "banded"]
)
def test_systems_by_structure(structure):
    keep = {"diagonal": np.eye(4), "upper triangular": np.tri(4).T, "lower triangular": np.tri(4)}
    keep = keep.get(structure, np.tri(4, k=1) * np.tri(4, k=1).T)
    a, b = regular(4) * keep, normal(4, seed=1)
    for transposed in (False, True):
        expected = np.linalg.solve(a.T if transposed else a, b)
        close(linalg.solve(a, b, assume_a=structure, transposed=transposed), expected)
    check_grads(lambda a, b: linalg.solve(a, b, assume_a=structure), (a, b), 1)
    if structure != "banded":  # what is not read has no gradient
        assert not np.any(fg.grad(lambda a: linalg.solve(a, b, assume_a=structure).sum())(a)[keep == 0])


@pytest.mark.parametrize("dtype", [float, complex])
def test_banded_systems(dtype):
    ab, b = normal(4, 5, dtype=dtype), normal(5, 2, dtype=dtype, seed=1)
    ab[2] += 5
    f, g = (lambda ab, b, m=m: m.solve_banded((1, 2), ab, b) for m in (linalg, reference))
    check(f, (ab, b), g, rtol=1e-9)
    close(linalg.solve_banded((1, 2), ab, b[:, 0]), reference.solve_banded((1, 2), ab, b[:, 0]))


def test_triangles_that_are_not_read_have_no_gradient():
    a, b = definite(3), normal(3)
    for f, read in [
        (lambda a: linalg.cholesky(a), np.tri(3).T), (lambda a: linalg.cholesky(a, lower=True), np.tri(3)),
        (lambda a: linalg.solve_triangular(a, b), np.tri(3).T), (lambda a: linalg.ldl(a)[0], np.tri(3)),
        (lambda a: linalg.solve(a, b, assume_a="pos"), np.tri(3).T),
        (lambda a: linalg.eigh(a, lower=False)[0], np.tri(3).T),
        (lambda a: linalg.solve_triangular(a, b, unit_diagonal=True), np.tri(3, k=-1).T),
    ]:  # fmt: skip
        g = fg.grad(lambda a, f=f: np.sum(np.sin(f(a))))(a)
        assert not g[read == 0].any()
        broken = np.where(read == 0, 7.0, a)
        close(f(broken), f(a))


def test_toeplitz_systems_and_products():
    c, r, x = normal(4) + 4 * np.eye(4)[0], normal(4, seed=1), normal(4, 2, seed=2)
    f, g = (lambda c, r, x, m=m: m.matmul_toeplitz((c, r), x) for m in (linalg, reference))
    check(f, (c, r, x), g, 1, rtol=1e-9)
    f, g = (lambda c, r, x, m=m: m.solve_toeplitz((c, r), x) for m in (linalg, reference))
    check(f, (c, r, x), g, 1, rtol=1e-9)


def test_least_squares_and_ranks():
    a, b = normal(4, 2), normal(4, 3, seed=1)
    agrees(linalg.lstsq(fg.tensor(a), b)[0], reference.lstsq(a, b)[0])
    check_grads(lambda a, b: linalg.lstsq(a, b)[0], (a, b), 1)
    low = a @ a.T
    for options in ({}, {"atol": 1e-3}, {"rtol": 1e-6}, {"atol": 0.1, "rtol": 0.1}):
        found, rank = linalg.pinv(fg.tensor(low), return_rank=True, **options)
        close(found, reference.pinv(low, **options))
        assert int(rank) == 2
    close(linalg.pinvh(fg.tensor(low), lower=False), reference.pinvh(low))


# ---- factors with free signs and phases


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("dtype", [float, complex])
def test_generalized_eigenvalues(kind, dtype):
    a, b = normal(3, 3, dtype=dtype), definite(3, dtype)
    a = a + a.conj().T
    for lower in (True, False):
        w, v = linalg.eigh(fg.tensor(a), b, type=kind, lower=lower)
        expected, vectors = reference.eigh(a, b, type=kind, lower=lower)
        close(w, expected)
        close(abs(v), abs(vectors))
        close(linalg.eigvalsh(a, b, type=kind, lower=lower), expected)
    weights = normal(3, seed=4)
    f = lambda a, b: (linalg.eigh(a, b, type=kind)[0], abs(weights @ linalg.eigh(a, b, type=kind)[1]))
    check_grads(f, (a, b), 2 if dtype is float else 1, rtol=1e-5)


def test_subsets_of_eigenvalues():
    a = definite(4)
    for options in (
        {"subset_by_index": (1, 2)},
        {"subset_by_value": (1.1, 9.0)},
        {"subset_by_value": (-2, 0)},
    ):
        w, v = linalg.eigh(fg.tensor(a), **options)
        expected, vectors = reference.eigh(a, **options)
        close(w, expected)
        close(abs(v), abs(vectors))
        close(linalg.eigh(fg.tensor(a), eigvals_only=True, **options), expected)
    check_grads(lambda a: linalg.eigh(a, subset_by_index=(1, 2))[0], (a,), 2)


def test_general_eigenvalues():
    a, b = normal(3, 3), regular(3)
    w, v = linalg.eig(fg.tensor(a), b)
    close((a @ v.numpy()), b @ v.numpy() * w.numpy())
    close(np.sort_complex(linalg.eigvals(fg.tensor(a)).numpy()), np.sort_complex(reference.eigvals(a)))
    check_grads(lambda a, b: linalg.eigvals(a, b), (a, b), 1)
    assert linalg.eigvals(definite(3)).dtype == complex


REAL = np.array([[1.0, 3.0, 1.0], [0.2, 4.0, -2.0], [-0.3, 0.4, 9.0]])  # so are its eigenvalues


def without_phases(a):
    """Return what of a complex Schur form does not depend on the phases of its vectors."""
    t, z = linalg.schur(a, output="complex")
    return abs(t), np.diag(t), abs(z), z[:, :2] @ np.conj(z[:, :2]).T, t[0, 1] * t[1, 2] / t[0, 2]


@pytest.mark.parametrize("output", ["real", "complex"])
@pytest.mark.parametrize(
    "a", [REAL, normal(4, 4), normal(3, 3, dtype=complex), normal(3, 3, dtype=np.float32)]
)
def test_schur_forms(a, output):
    stack, room = np.stack([a, a.T]), 1e-5 if a.dtype == np.float32 else 1e-12
    f, expected = lambda a: linalg.schur(a, output), [reference.schur(x, output) for x in stack]
    for call in (f, fg.vmap(f), fg.jit(f)):
        for k, found in enumerate(call(fg.tensor(stack))):
            assert found.dtype == np.result_type(a, "F" if output == "complex" else "f")
            close(found, np.stack([forms[k] for forms in expected]), room)


@pytest.mark.parametrize("a", [REAL, normal(3, 3), normal(3, 3, dtype=complex)])
def test_derivatives_of_schur_forms(a):
    check_grads(without_phases, (a,), 2)
    weights = [normal(*np.shape(x), seed=i) for i, x in enumerate(without_phases(a))]
    total = lambda a: sum(
        np.sum(w * (x.real + x.imag)) for w, x in zip(weights, without_phases(a), strict=True)
    )
    slope, stack = fg.grad(total), np.stack([a, a.T])
    close(fg.jit(slope)(a), slope(a), 1e-8)
    close(fg.vmap(slope)(stack), np.stack(list(map(slope, stack))), 1e-8)
    w, left, right = reference.eig(a, left=True)
    i = np.argmin(abs(w - linalg.schur(a, "complex")[0][0, 0]))
    expected = np.outer(left[:, i].conj(), right[:, i]) / (left[:, i].conj() @ right[:, i])
    expected = expected if a.dtype.kind == "c" else expected.real
    close(fg.grad(lambda a: linalg.schur(a, "complex")[0][0, 0].real)(a), expected)


def test_derivatives_of_real_schur_forms():
    check_grads(linalg.schur, (REAL,), 2)
    slope = fg.grad(lambda a: sum(np.sum(np.sin(x)) for x in linalg.schur(a)))
    close(fg.jit(slope)(REAL), slope(REAL))
    turn = np.kron(np.eye(2), [[0.0, 1.0], [-1.0, 0.0]])
    assert not fg.grad(lambda a: 0.0 * np.sum(linalg.schur(a)[0]))(turn).any()  # a zero cotangent wins


def test_forms_of_equal_eigenvalues_are_not_differentiated():
    for a in (np.eye(3), np.diag([2.0, 1.0, 2.0]), np.array([[1.0, 1e9], [0.0, 1.0 + 1e-8]])):
        for f in (lambda a: linalg.schur(a)[0][0, 0], lambda a: linalg.schur(a)[1][1, 1]):
            with pytest.raises(LinAlgError, match="schur: eigenvalues are equal"):
                fg.grad(f)(a)


@pytest.mark.parametrize("full", [True, False])
def test_singular_values(full):
    a = normal(4, 3)
    for found, e in zip(linalg.svd(fg.tensor(a), full), reference.svd(a, full), strict=True):
        close(abs(found), abs(e))
    close(linalg.svd(a, compute_uv=False), reference.svdvals(a))
    check_grads(lambda a: [abs(x) for x in linalg.svd(a, full_matrices=False)], (a,), 1)


@pytest.mark.parametrize("mode", ["full", "economic", "r"])
def test_pivoted_qr(mode):
    a = normal(3, 4)
    found, expected = (m.qr(x, mode=mode, pivoting=True) for m, x in ((linalg, fg.tensor(a)), (reference, a)))
    agrees([abs(x) for x in found[:-1]], [abs(x) for x in expected[:-1]])
    assert list(found[-1]) == list(expected[-1])
    check_grads(lambda a: linalg.qr(a, mode=mode, pivoting=True)[0], (a,), 1)


def test_procrustes():
    a, b = normal(5, 3), normal(5, 3, seed=1)
    check(linalg.orthogonal_procrustes, (a, b), reference.orthogonal_procrustes, rtol=1e-9)
    z = a + 1j * normal(5, 3, seed=2)
    _, found = linalg.orthogonal_procrustes(fg.tensor(z), b)
    assert found.dtype == np.float64
    close(found, reference.orthogonal_procrustes(z, b)[1])


def test_permutations_as_places():
    a = normal(4, 3)
    p, low, u = linalg.lu(fg.tensor(a), p_indices=True)
    agrees([p, low, u], reference.lu(a, p_indices=True))
    close((low @ u).numpy()[p.numpy()], a)


def test_complex_symmetric_ldl():
    a = normal(3, 3, dtype=complex)
    a = a + a.T
    f, g = (lambda a, m=m: m.ldl(a, hermitian=False) for m in (linalg, reference))
    check(f, (a,), g, rtol=1e-9)


# ---- equal singular values, real and complex results, powers


def test_polar_of_equal_singular_values():
    """Where vectors are not determined, the factors are: that of a rotation is itself."""
    turn = np.linalg.qr(normal(3, 3))[0]
    check_grads(linalg.polar, (turn,), 2)


NEGATIVE = np.array([[-1.0, 2.0], [0.0, -3.0]])


@pytest.mark.parametrize("name", ["logm", "sqrtm", "fractional_matrix_power"])
def test_complex_values_of_real_matrices(name):
    options = {"t": 0.3} if name == "fractional_matrix_power" else {}
    f = lambda a: getattr(linalg, name)(a, **options)
    y = f(fg.tensor(NEGATIVE))
    assert y.dtype == complex
    close(y, getattr(reference, name)(NEGATIVE, **options))
    check_grads(f, (NEGATIVE,), 1)
    close(fg.vmap(f)(NEGATIVE[None])[0], y)
    with pytest.raises(LinAlgError, match=f"{name}: the result of this real matrix is complex"):
        fg.jit(f)(NEGATIVE)
    close(fg.jit(f)(NEGATIVE.astype(complex)), y)


def test_powers_with_an_exponent_that_is_differentiated():
    a = definite(3)
    close(linalg.fractional_matrix_power(a, fg.tensor(0.4)), reference.fractional_matrix_power(a, 0.4))
    check_grads(linalg.fractional_matrix_power, (a, 0.4), 2)
    check_grads(lambda a: linalg.fractional_matrix_power(a, 3), (regular(3),), 1)


def test_a_derivative_of_the_exponential_along_a_large_direction():
    a, e = normal(3, 3), 1e6 * normal(3, 3, seed=1)
    close(linalg.expm_frechet(a, e, compute_expm=False), reference.expm_frechet(a, e, compute_expm=False))
    close(
        fg.grad(lambda a: 1e6 * np.sum(linalg.expm(a)))(a) / 1e6, fg.grad(lambda a: np.sum(linalg.expm(a)))(a)
    )


def test_gradients_far_from_zero_are_as_accurate_as_scipys():
    rng = np.random.default_rng(1)
    for scale in (1e-8, 1.0, 30.0):
        a, e = scale * rng.normal(size=(8, 8)) / 4, rng.normal(size=(8, 8))
        pushed = fg.jvp(linalg.expm, (a,), (e,))[1]
        small = max(scale, 1e-3)  # linear in e: of the size of a, so that it does not rule the scaling
        expected = reference.expm(np.block([[a, e * small], [0 * a, a]]))[:8, 8:] / small
        np.testing.assert_allclose(pushed, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


def test_stacks_are_loops():
    a, b = np.stack([definite(3), definite(3, seed=1)]), normal(3, 2)
    for f in (linalg.expm, linalg.logm, linalg.sqrtm, lambda x: linalg.lu(x)[2], lambda x: linalg.ldl(x)[1],
        lambda x: linalg.polar(x)[0], lambda x: linalg.solve_triangular(x, b), linalg.inv, linalg.det,
        lambda x: linalg.solve_continuous_lyapunov(x, x), lambda x: linalg.solve_discrete_lyapunov(x / 9, x),
        lambda x: linalg.toeplitz(x[..., 0], x[..., 1]), lambda x: linalg.block_diag(x, b),
        lambda x: linalg.cho_solve(linalg.cho_factor(x), b)):  # fmt: skip
        close(f(a), np.stack([f(a[0]), f(a[1])]))


def test_products_of_matrices_with_blocks_and_nothing():
    agrees(linalg.block_diag(fg.tensor([1.0]), [[2.0]], np.zeros((0, 2))),
        reference.block_diag([1.0], [[2.0]], np.zeros((0, 2))))  # fmt: skip
    agrees(linalg.block_diag(), reference.block_diag())
    agrees(
        linalg.toeplitz(np.arange(3), np.array([9, 4])), reference.toeplitz(np.arange(3), np.array([9, 4]))
    )
    agrees(linalg.expm(fg.tensor(np.zeros((0, 0)))), reference.expm(np.zeros((0, 0))))


# ---- errors

T = fg.tensor(np.eye(2))
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


TURN = np.array([[1.0, 2.0], [-2.0, 1.0]])


def slope(f, a=SINGULAR):
    return lambda: fg.grad(lambda a: np.sum(np.abs(f(a))))(a)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: linalg.expm(np.ones((2, 3))), ValueError, "expected a square matrix"),
        (lambda: linalg.expm(T[0]), ValueError, "expected a matrix"),
        (lambda: linalg.expm(np.ones((2, 2), "g")), TypeError, "convert them to float64"),
        (lambda: linalg.inv(T * np.nan), ValueError, "infs or NaNs"),
        (lambda: linalg.solve(T, np.ones(3)), ValueError, "solve: shapes of a"),
        (lambda: linalg.solve(T, np.ones(2), assume_a="other"), ValueError, "recognized matrix structure"),
        (lambda: linalg.solve(-T, np.ones(2), assume_a="pos"), LinAlgError, "positive definite"),
        (lambda: linalg.solve_triangular(T * 0, np.ones(2)), LinAlgError, "the matrix is singular"),
        (lambda: linalg.solve_triangular(T, np.ones(2), trans="X"), ValueError, "trans must be"),
        (lambda: linalg.solve_banded((1, 1), T, np.ones(2)), ValueError, "does not equal ab.shape"),
        (lambda: linalg.solve_banded((0, 1), T * 0, np.ones(2)), LinAlgError, "singular"),
        (lambda: linalg.solve_sylvester(T, -T, T), LinAlgError, "an eigenvalue of a is one of -b"),
        (lambda: linalg.solve_sylvester(T, T, np.ones((3, 2))), ValueError, "is incompatible with a"),
        (lambda: linalg.solve_continuous_lyapunov(T, np.eye(3)), ValueError, "same shape"),
        (lambda: linalg.solve_discrete_lyapunov(T, T), LinAlgError, "Singular"),
        (lambda: linalg.solve_discrete_lyapunov(T, T, "other"), ValueError, "Unknown solver"),
        (lambda: linalg.solve_continuous_are(T, T, T, T, T), NotImplementedError, "is not supported; with e"),
        (lambda: linalg.solve_discrete_are(T, T, T, np.eye(3)), ValueError, "are incompatible"),
        (lambda: linalg.solve_discrete_are(T, T, T, T, None, np.eye(3)), ValueError, "incompatible with b"),
        (lambda: linalg.expm_frechet(T, T, "other"), ValueError, "Unknown implementation"),
        (lambda: linalg.expm_frechet(T, np.eye(3)), ValueError, "same shape"),
        (lambda: linalg.polar(T, "up"), ValueError, "'right' or 'left'"),
        (lambda: linalg.qr(T, mode="raw"), ValueError, "it has no derivative; use 'full'"),
        (lambda: linalg.qr(T, mode="other"), ValueError, "is unknown"),
        (lambda: fg.jit(lambda a: linalg.qr(a, pivoting=True))(np.eye(2)), TypeError, "qr with pivoting"),
        (lambda: linalg.svd(T, lapack_driver="other"), ValueError, "lapack_driver"),
        (lambda: linalg.eigh(T, type=4), ValueError, "only accepts 1, 2, and 3"),
        (lambda: linalg.eigh(T, subset_by_index=(0, 2)), ValueError, "Valid range is"),
        (lambda: linalg.eigh(T, subset_by_value=(2, 1)), ValueError, "low < high"),
        (lambda: linalg.eigh(T, subset_by_value=(1, 2), subset_by_index=(0, 1)), ValueError, "Either index"),
        (lambda: linalg.eigh(T[None], subset_by_value=(1, 2)), ValueError, "not of a stack"),
        (lambda: linalg.eig(T, left=True), NotImplementedError, "columns of inv"),
        (lambda: linalg.schur(T, "other"), ValueError, "must be 'real' or 'complex'"),
        (lambda: linalg.schur(T, sort="lhp"), NotImplementedError, "cannot be sorted"),
        (slope(lambda a: linalg.schur(a)[0], TURN), LinAlgError,
            "has a block of two rows.*output='complex'"),
        (slope(lambda a: linalg.schur(a, "complex")[1].real, TURN), LinAlgError,
            "only up to a phase"),
        (lambda: linalg.pinv(T, atol=-1.0), ValueError, "must be positive"),
        (lambda: linalg.companion([0.0, 1.0]), ValueError, "must not be zero"),
        (lambda: linalg.companion([1.0]), ValueError, "at least 2"),
        (lambda: linalg.leslie(np.ones(2), np.ones(2)), ValueError, "one less than"),
        (lambda: linalg.khatri_rao(T, np.ones((2, 3))), ValueError, "number of columns"),
        (lambda: linalg.convolution_matrix(np.ones(2), 0), ValueError, "positive integer"),
        (lambda: linalg.convolution_matrix(np.ones(2), 2, "other"), ValueError, "mode"),
        (lambda: linalg.orthogonal_procrustes(T, np.eye(3)), ValueError, "shapes of A and B differ"),
        (slope(linalg.sqrtm, np.diag([1.0, 1e-18])), LinAlgError, "sqrtm: the matrix is singular"),
        (slope(linalg.logm, np.diag([1.0, 0.0]) + 1e-18), LinAlgError, "logm: the matrix is singular"),
        (slope(lambda a: linalg.fractional_matrix_power(a, 0.5), np.diag([1.0, 1e-30])), LinAlgError,
            "fractional_matrix_power: the matrix is singular"),
        (slope(lambda a: linalg.polar(a)[0]), LinAlgError, "an eigenvalue of a is one of -b"),
        (slope(lambda a: linalg.lu(a)[1], SINGULAR * 0), LinAlgError, "singular"),
        (slope(lambda a: linalg.ldl(a)[0]), LinAlgError, "Singular"),
    ],
)  # fmt: skip
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


UNITS = [("d", 1e-300), ("d", 1e300), ("D", 1e-300), ("f", 1e-30), ("f", 1e30)]
IN_UNITS = {
    "logm": (linalg.logm, 0.0),
    "sqrtm": (linalg.sqrtm, 0.5),
    "0.9": (lambda a: linalg.fractional_matrix_power(a, 0.9), 0.9),
    "1.3": (lambda a: linalg.fractional_matrix_power(a, 1.3), 1.3),
    "-0.1": (lambda a: linalg.fractional_matrix_power(a, -0.1), -0.1),
}


@pytest.mark.parametrize(("dtype", "unit"), UNITS, ids=[f"{d} {u}" for d, u in UNITS])
@pytest.mark.parametrize("name", IN_UNITS)
def test_functions_of_matrices_in_small_and_large_units(name, dtype, unit):
    """f(u a) = u^p f(a) for powers, log(u a) = log(a) + log(u)."""
    f, p = IN_UNITS[name]
    wide = np.dtype(np.result_type(dtype, "d"))
    a, w = regular(3, wide), normal(3, 3, dtype=wide, seed=1)
    u, shown = np.dtype(dtype.lower()).type(unit), 1e-9 if dtype != "f" else 1e-4
    log, largest = np.log(np.float64(u)), 1e300 if dtype != "f" else 1e30
    with np.errstate(over="ignore"):
        value, back = fg.vjp(f, a.astype(dtype) * u)
    expected, back_of_one = fg.vjp(f, a)
    if name == "logm":
        close(value, expected + log * np.eye(3), shown)
    elif abs(p * log) < np.log(largest):
        close(value.astype(wide) * np.exp(-p * log), expected, shown)
    size = np.exp(
        np.clip((1 - p) * log, -np.log(largest), np.log(largest))
    )  # so that slopes are representable
    found = back((w * size).astype(dtype))[0]
    close(found.astype(wide) / np.exp((p - 1) * log + np.log(size)), back_of_one(w)[0], shown)
    if name == "logm" and dtype == "d":
        compiled = fg.jit(lambda a: fg.grad(lambda a: (linalg.logm(a) * w).sum())(a))
        close(compiled(a * u) * u, back_of_one(w)[0], 1e-9)


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1e150, 1e300])
def test_solutions_of_sylvesters_equation_in_small_and_large_units(unit):
    a, b, q = regular(3), definite(3), normal(3, 3, seed=2)
    exact = reference.solve_sylvester(a, b, q)
    close(linalg.solve_sylvester(a * unit, b * unit, q), exact / unit, 1e-12)
    close(linalg.solve_sylvester(a, b, q * unit), exact * unit, 1e-12)


def test_solutions_that_lapack_would_scale_down():
    """It does so before they overflow, and hands out the factor: a solution that large is no small one."""
    one = np.ones((1, 1))
    for solved in (linalg.solve_sylvester, fg.jit(linalg.solve_sylvester)):
        close(solved(one * 1e-280, one * 1e-280, one * 1e25), one * 5e304, 1e-12)
