"""Linear algebra: values, keywords, derivatives, and what is refused where a factor is not determined."""

from __future__ import annotations

import warnings
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from tests.helpers import close, differences, grouped
from tests.numpy.cases import Case, Fixed, check, integers, kinds, named, strided, truths, values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.compat.numpy import blas_is_known
from fgrad.testing import check_grads

L = np.linalg
M, V, S, E, C = values((2, 3)), values((4,)), values(()), values((0, 3)), values((2, 3, 4))
A = values((3, 3), seed=1) / 2 + 2.5 * np.eye(3)
STACK = values((2, 3, 3), seed=2) / 2 + 2.5 * np.eye(3)
B = values((3, 2), seed=3)
Z = values((3, 3), dtype=complex, seed=4) / 2 + 2.5 * np.eye(3)
NONE = np.zeros((0, 0))
SHAPES = {"square": (3, 3), "tall": (4, 2), "wide": (2, 4), "stack": (2, 3, 2)}
NAMES = {f"linalg.{n}" for n in L.__all__ if n != "LinAlgError"}


def H(x):
    return np.conj(np.swapaxes(x, -1, -2))


def let(f, *args):
    """Return f(*args), for names in an expression."""
    return f(*args)


def definite(x):
    """Return a positive definite matrix."""
    return x @ H(x) + np.eye(x.shape[-1])


def well(shape, dtype=float, seed=0):
    """Return matrices with singular values apart from each other and from zero."""
    x = values(shape, dtype=dtype, seed=seed)
    u, _, vh = L.svd(x, full_matrices=False)
    return ((u * np.arange(1.0, u.shape[-1] + 1)[::-1]) @ vh).astype(dtype)


def case(name, label, args, order=2, **kwargs):
    args = args if isinstance(args, tuple) else (args,)
    return Case(f"linalg.{name}", label, args, tuple(kwargs.items()), order)


def calls(name, points, order=2, **kwargs):
    return named(f"linalg.{name}", points, order, **kwargs)


SQUARE = {"one": A, "stack": STACK, "complex": Z, "float32": A.astype("f"), "complex64": Z.astype("F"),
    "integers": integers((3, 3)) + 9 * np.eye(3, dtype=int), "list": [[2.0, 1.0], [0.0, 1.0]], "fortran": A.T,
    "strided": strided(A), "empty": NONE, "stack of none": STACK[:0], "one by one": A[:1, :1], "half":
    A.astype(np.float16), "longdouble": A.astype(np.longdouble), "vector": V, "0-d": S,
        "not square": M}  # fmt: skip

CASES = [
    *(c for n in ("inv", "det", "slogdet", "eigvalsh", "cholesky") for c in
        calls(n, {k: definite(x) if n == "cholesky" and k in ("one", "stack", "complex", "float32",
        "complex64")
        else x for k, x in SQUARE.items()})),
    *(case("eigh", k, x, 0 if k.startswith("complex") else 2) for k, x in SQUARE.items()),
    *(case("eig", k, x, 0) for k, x in SQUARE.items()),
    *(case("eigvals", k, x, 0) for k, x in SQUARE.items()),
    case("eigvals", "complex eigenvalues", values((3, 3))), case("eigvals", "of a complex matrix", Z),
    case("eig", "real eigenvalues", np.diag([1.0, 2.0, 4.0]) + values((3, 3)) / 20, 1),
    *(case(n, "not finite", np.full((2, 2), x), 0) for n in ("eig", "eigvals") for x in (np.nan, np.inf)),
    *(case(n, f"{uplo} {k}", x, 0 if k == "complex" and n == "eigh" else 2, UPLO=uplo)
        for n in ("eigh", "eigvalsh") for uplo in ("L", "U", "u", "X") for k, x in {"real": A,
        "complex": Z}.items()),
    *(case("cholesky", f"upper {k}", definite(x), upper=True) for k, x in {"real": A, "complex": Z,
        "stack": STACK}.items()),
    case("cholesky", "not definite", -np.eye(2)), case("inv", "singular", np.ones((2, 2))),
    *calls("det", {"singular": A * [1, 1, 0], "zero": np.zeros((3, 3)), "two by two": np.zeros((2, 2)),
        "zero one by one": np.zeros((1, 1)), "rank one": np.outer(V, V), "rank one complex": np.outer(Z[0],
        Z[1]),
        "rank two": STACK[0] @ np.diag([1.0, 0.0, 1.0]) @ STACK[1], "identity": np.eye(3),
        "stack of all": np.stack([A, np.zeros((3, 3)), A * [1, 1, 0]])}),
    case("det", "third order", A, 3),
    *calls("solve", {"matrix": (A, B), "vector": (A, B[:, 0]), "stack": (STACK, STACK[:, :, :1]),
        "broadcast": (A, STACK), "broadcast both": (STACK[:, None], STACK[:, :, :1]), "vector and stack":
        (STACK, B[:, 0]), "complex": (Z, B), "right side complex": (A, Z), "float32": (A.astype("f"),
        B.astype("f")),
        "mixed": (A, B.astype("f")), "integers": (integers((2, 2)) + 9 * np.eye(2, dtype=int), integers((2,
        1))),
        "lists": ([[2.0, 1.0], [0.0, 1.0]], [1.0, 2.0]), "empty": (NONE, NONE[0:, :0]), "no columns": (A,
        B[:, :0]),
        "singular": (np.ones((2, 2)), np.ones(2)), "unlike": (A, V), "0-d": (A, S), "not square": (M, B),
        "unlike stacks": (STACK, values((3, 3, 1)))}),
    *(case("pinv", f"{k} {t}", (well(s, t),)) for k, s in SHAPES.items() for t in (float, complex)),
    *calls("pinv", {"rcond": (well((3, 3)), 0.1), "rcond of a stack": (well((2, 3, 3)),
        Fixed(np.array(0.1))), "rcond of each": (well((2, 3, 3)), Fixed(np.array([0.1, 0.2]))),
        "empty": E, "float32": well((3, 2), "f"), "integers": integers((3, 2)), "vector": V}),
    *(case("pinv", f"hermitian {k}", x, hermitian=True) for k, x in {"real": A, "complex": Z}.items()),
    *(case("pinv", f"rtol {r}", well((3, 2)), 1, rtol=r) for r in (None, 1e-9)),
    *(case("pinv", f"rcond that drops {k}", (well(s), 0.4), 2 - 2 * (k == "stack")) for k,
        s in SHAPES.items()),
    case("pinv", "both tolerances", (M, 0.1), rtol=0.1),
    *(case(n, f"{mode} {k}", well(s), 2, **({} if mode is None else {"mode": mode})) for n in ("qr",)
        for mode in (None, "reduced", "r") for k, s in SHAPES.items()),
    *(case("qr", f"{mode} complex {k}", well(s, complex), 2, mode=mode) for mode in ("reduced", "r")
        for k, s in SHAPES.items()),
    *(case("qr", f"complete {k}", well(s), 2 if k in ("square", "wide") else 0, mode="complete")
        for k, s in SHAPES.items()),
    *(case("qr", f"{mode} {k}", x, 0, mode=mode) for mode in ("reduced", "complete", "r", "raw", "other")
        for k, x in {"empty": E, "no columns": E.T, "float32": M.astype("f"), "integers": integers(),
        "vector": V}.items()),
    *(case("svd", f"full {f} uv {uv} {k}", well(s), 2 if not (f and uv) or k == "square" else 0,
        full_matrices=f,
        compute_uv=uv) for f in (True, False) for uv in (True, False) for k, s in SHAPES.items()),
    *(case("svd", f"full {f} {k}", x, 0, full_matrices=f) for f in (True, False) for k, x in {"empty": E,
        "no columns": E.T, "complex": well((3, 2), complex), "float32": M.astype("f"), "integers": integers(),
        "vector": V, "half": M.astype(np.float16)}.items()),
    *(case("svd", f"hermitian {k} uv {uv}", x, 2 * (k == "real" or not uv), compute_uv=uv, hermitian=True)
        for uv in (True, False) for k, x in {"real": A, "complex": Z}.items()),
    *calls("svdvals", {k: well(s) for k, s in SHAPES.items()} | {"complex": well((3, 2), complex), "empty": E,
        "float32": well((3, 2), "f"), "vector": V}),
    *(case("lstsq", f"{k} {t}", (well(s, t), values((s[0],), seed=5)), 2) for k, s in SHAPES.items()
        for t in (float, complex) if k != "stack"),
    *calls("lstsq", {"matrix": (well((4, 2)), values((4, 3))), "float32": (well((4, 2), "f"), V.astype("f")),
        "machine precision": (well((4, 3)), V, -1), "integers":
        (integers((4, 2)), integers((4,))), "no right sides": (well((4, 2)), values((4, 0))), "no rows":
        (E, np.zeros((0, 2))), "unlike": (A, V), "stack": (STACK, V), "right side complex": (well((4, 2)),
        V * 1j)}),
    case("lstsq", "rcond", (well((4, 3)), V, 0.4), 1),
    *(case("lstsq", f"deficient {k}", (np.outer(V, x), V), 0) for k, x in {"tall": V[:2],
        "square": V}.items()),
    *(case("matrix_power", f"{n} of {k}", (x, n)) for n in (-3, -1, 0, 1, 2, 3, 6) for k, x in {"real": A,
        "complex": Z, "stack": STACK}.items()),
    *(case("matrix_power", f"{n} of {k}", (x, n)) for n in (0, 2, 3, -2) for k, x in {"integers":
        integers((2, 2)) + 9 * np.eye(2, dtype=int), "float32": A.astype("f"), "empty": NONE}.items()),
    *calls("matrix_power", {"not square": (M, 2), "vector": (V, 2), "exponent": (A, 2.0)}),
    *calls("multi_dot", {"two": ([M, M.T],), "three": ([M.T, M, A],), "three, other order": ([V[:3], A, A],),
        "four": ([M, A, B, B.T],), "five": ([M, A, B, M, A],), "vectors": ([V[:3], A, A, V[:3]],),
        "vector first": ([V[:3], A, A, B],), "vector last": ([B.T, A, A, V[:3]],), "two vectors": ([V, V],),
        "vectors about one": ([V[:3], A, V[:3]],), "complex": ([Z, A, B],), "one": ([A],), "stack": ([A,
        STACK, A],),
        "unlike": ([A, M, A],)}),
    *calls("tensorsolve", {"two axes": (values((2, 3, 6)), M), "three axes": (values((2, 3, 3, 2), seed=7),
        M),
        "wrong": (values((2, 3, 5)), M)}),
    case("tensorsolve", "axes", (values((2, 6, 3)), M[:, :2].T @ M), 0, axes=(1,)),
    *calls("tensorinv", {"two": values((2, 3, 6)), "one": (values((6, 2, 3)), 1), "wrong": (A, 0),
        "three": (values((2, 3, 1, 6)), 3), "not square": (values((2, 3, 5)),)}),
    # norms
    *(case("norm", f"{k} ord {o}", (x, o)) for k, x in {"vector": V, "float32": V.astype("f"), "complex":
        values((4,), dtype=complex)}.items() for o in (None, 1, 2, 3, 0.5, -1, -2, 0, np.inf, -np.inf)),
    *(case("norm", f"matrix ord {o} {k}", (x, o)) for k, x in {"real": M, "complex": well((2, 3), complex),
        "float32": M.astype("f")}.items() for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf, "f")),
    *(case("norm", f"matrix ord {o}", (M, o)) for o in ("unknown", 0, 3)),
    *(case("norm", f"axis {a} ord {o}", C, 1, ord=o, axis=a) for a in (0, -1, (0,)) for o in (None, 1, 2, 3,
        np.inf)),
    *(case("norm", f"axes {a} ord {o}", C, 1, ord=o, axis=a) for a in ((0, 1), (2, 0), (-1, -2))
        for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)),
    *(case("norm", f"keepdims {a} ord {o}", C, 1, axis=a, keepdims=True, ord=o) for a, o in
        [(None, None), (1, None), ((0, 2), None), ((0, 2), 2), ((2, 1), "nuc"), (0, 1)]),
    *calls("norm", {"cube": C, "0-d": S, "empty": V[:0], "empty matrix": E, "integers": integers(),
        "list": [3.0, 4.0], "bool": truths(), "half": V.astype(np.float16), "cube ord": (C, 2), "wrong axis":
        (M, None, 2), "string ord": (V, "fro"), "three axes": (C, None, (0, 1, 2)), "text as axis": (V,
        None, "x"),
        "the same axis twice": (M, 1, (0, 0))}),
    *(case("norm", f"empty {k} ord {o}", (x, o), 1) for o in (1, 2, np.inf, "nuc", -np.inf, -2) for k, x in
        {"rows": E, "columns": E.T}.items()),
    *(case("norm", f"empty vector ord {o}", (V[:0], o), 1) for o in (1, 2, 3, 0, np.inf, -np.inf)),
    *(case("matrix_norm", f"{o} keepdims {k}", C, ord=o, keepdims=k) for o in ("fro", "nuc", 2, 1)
        for k in (False, True)),
    *calls("matrix_norm", {"default": M, "vector": V}),
    *(case("vector_norm", f"{o} axis {a} keepdims {k}", C, ord=o, axis=a, keepdims=k) for o in (2, 1, np.inf)
        for a in (None, 1, (0, 2), (2, 0, 1)) for k in (False, True)),
    *calls("vector_norm", {"default": M, "integers": integers(), "wrong axis": M[0]}),
    *(case("cond", f"{p} {k}", (x, p)) for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc") for k,
        x in
        {"real": A, "complex": Z, "stack": STACK, "float32": A.astype("f")}.items()),
    *(case("cond", f"{p} of {k}", (x, p), 0) for p in (None, 1, "fro", -2) for k,
        x in {"singular": np.ones((2, 2)),
        "zero": np.zeros((2, 2)), "nan": np.full((2, 2), np.nan), "some": np.stack([np.eye(2), np.zeros((2,
        2))]),
        "integers": integers((2, 2)), "empty": NONE, "tall": well((3, 2))}.items() if not (k == "nan" and p in
        (None, -2))),
    *(case("matrix_rank", f"{k} {kw}", x, 0, **kw) for kw in ({}, {"tol": 0.5}, {"rtol": 0.3},
        {"hermitian": True})
        for k, x in {"full": A, "one": np.outer(V, V), "stack": STACK, "none": np.zeros((2, 2)), "integers":
        integers((3, 3)), "float32": A.astype("f")}.items()),
    *(case("matrix_rank", f"{k}", x, 0) for k, x in {"vector": V, "zeros": 0 * V, "0-d": S, "tall": M.T,
        "empty": E}.items()),
    case("matrix_rank", "tol of each", (STACK, np.array([0.1, 2.0])), 0),
    case("matrix_rank", "tolerances of one", (A, np.array([[0.1, 0.5, 3.0]])), 0),
    case("matrix_rank", "both tolerances", (A, 0.1), 0, rtol=0.1),
    # products
    *calls("matmul", {"matrices": (M, A), "stack": (STACK, B), "vector": (M, V[:3]), "0-d": (M, S)}),
    *calls("outer", {"vectors": (V, V), "complex": (Z[0], V), "matrix": (M, V)}),
    *calls("cross", {"vectors": (V[:3], A[0]), "rows": (A, STACK), "two components": (V[:2], V[:2])}),
    case("cross", "axis", (A, Z), axis=0),
    *calls("tensordot", {"default": (C, values((3, 4, 2)))}), case("tensordot", "axes", (M, M), axes=((0,
        1), (0, 1))),
    *calls("vecdot", {"rows": (M, A[:2]), "complex": (Z, A)}), case("vecdot", "axis", (A, Z), axis=0),
    *calls("diagonal", {"matrix": M, "stack": C, "vector": V}), case("diagonal", "offset", C, offset=-1),
    *calls("trace", {"matrix": M, "stack": C, "integers": integers()}), case("trace", "offset", C, offset=1),
    case("trace", "dtype", M, 1, dtype=np.float32),
    *calls("matrix_transpose", {"matrix": M, "stack": C, "vector": V}),
    *(case(n, f"dtype {k}", x, 0) for n in ("det", "eigvalsh", "svdvals", "norm", "cond") for k, x in
        kinds((2, 2)).items()),
]  # fmt: skip


@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


def test_the_module_has_the_names_of_numpy():
    assert set(fnp.linalg.__all__) == set(L.__all__)
    assert fnp.linalg.LinAlgError is L.LinAlgError
    assert not hasattr(fnp, "norm")


# ---- derivatives of what does not depend on signs, phases and bases


def spectral(w, v, inverse):
    return w, np.abs(v) ** 2, (v * np.exp(w)) @ inverse


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_functions_of_complex_hermitian_matrices(uplo):
    def f(a):
        w, v = L.eigh(a, uplo)
        return w, np.abs(v) ** 2, v[..., 1:] @ H(v[..., 1:])

    for a in (Z, np.stack([Z, Z * 1.3 + 1j])):
        check_grads(f, (a,), 2)
    check_grads(lambda a: let(lambda w, v: spectral(w, v, H(v)), *L.eigh(a, uplo)), (Z,), 2)


def test_functions_of_eigenvectors():
    for a in (values((3, 3)), Z, A):
        check_grads(lambda a: let(lambda w, v: spectral(w, v, L.inv(v)), *L.eig(a)), (a,), 2)
    real = np.diag([1.0, 2.0, 4.0]) + values((3, 3)) / 20
    check_grads(L.eig, (real,), 2)
    stack = np.stack([real, real.T])
    check_grads(lambda a: L.eig(a)[1], (stack,), 2)
    assert L.eig(fg.tensor(real)).eigenvectors.dtype == np.float64


def test_eigenvalues_and_vectors_inside_vmap_are_complex():
    real = np.stack([np.diag([1.0, 2.0]), np.diag([3.0, 4.0])])
    for f, expected in ((L.eigvals, L.eigvals(real)), (lambda a: L.eig(a)[0], L.eig(real)[0])):
        found = fg.vmap(f)(real)
        assert found.dtype == np.complex128
        np.testing.assert_allclose(found, expected)
    g = fg.vmap(fg.grad(lambda a: np.sum(np.abs(L.eigvals(a)) ** 2)))(values((2, 3, 3)))
    for x, gx in zip(values((2, 3, 3)), g, strict=True):
        np.testing.assert_allclose(gx, fg.grad(lambda a: np.sum(np.abs(L.eigvals(a)) ** 2))(x))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("full", [False, True])
def test_functions_of_singular_vectors(shape, dtype, full):
    k = min(shape[-2:])

    def f(a):
        u, s, vh = L.svd(a, full_matrices=full)
        u1, vh1 = u[..., :k], vh[..., :k, :]
        null = u[..., k:] @ H(u[..., k:]), H(vh[..., k:, :]) @ vh[..., k:, :]
        return s, np.abs(u1) ** 2, u1 @ vh1, (u1 * np.sin(s)[..., None, :]) @ vh1, *null

    check_grads(f, (well(shape, dtype),), 2)
    check_grads(lambda a: np.abs(L.svd(a, full_matrices=full)[2][..., :k, :]) ** 2, (well(shape, dtype),), 2)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("dtype", [float, complex])
def test_functions_of_complete_orthogonal_factors(shape, dtype):
    k = min(shape[-2:])

    def f(a):
        q, r = L.qr(a, "complete")
        return q[..., :k], r, q[..., k:] @ H(q[..., k:]), q @ H(q)

    check_grads(f, (well(shape, dtype),), 2)
    check_grads(lambda a: L.qr(a, "complete")[1], (well(shape, dtype),), 2)


def test_a_svd_of_a_singular_matrix_that_is_put_together_again():
    for a in (A * [1, 1, 0], np.diag([2.0, 1.0, 0.0])):
        check_grads(lambda a: let(lambda u, s, vh: (u * s) @ vh, *L.svd(a)), (a,), 1)


# ---- triangles


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("dtype", [float, complex])
def test_only_the_triangle_that_is_read_has_a_gradient(uplo, dtype):
    x = definite(values((3, 3), dtype=dtype))
    other = ~np.tri(3, dtype=bool) if uplo == "L" else ~np.tri(3, dtype=bool).T
    for f in (
        lambda a: np.sum(L.eigvalsh(a, uplo) ** 3),
        lambda a: np.sum(np.abs(L.eigh(a, uplo)[1]) ** 4),
        lambda a: np.sum(np.abs(L.cholesky(a, upper=uplo == "U") * np.arange(9.0).reshape(3, 3)) ** 2),
        *([lambda a: np.sum(np.abs(L.pinv(a, hermitian=True)) ** 2)] if uplo == "L" else []),
        *([lambda a: np.sum(L.svd(a, compute_uv=False, hermitian=True) ** 3)] if uplo == "L" else []),
        *([lambda a: np.abs(L.svd(a, hermitian=True)[0][0, 0])] if uplo == "L" else []),
    ):
        g = fg.grad(f)(x)
        assert not g[other].any()
        assert np.abs(g[~other]).min() > 0
        np.testing.assert_allclose(np.diagonal(g).imag, 0, atol=1e-14)
        wild = np.where(other, 99.0, x)  # what stands there is of no consequence
        np.testing.assert_allclose(fg.grad(f)(wild), g, rtol=1e-9)
        if dtype is float:
            np.testing.assert_allclose(g, differences(f, x), rtol=1e-6, atol=1e-6)


# ---- determinants


def test_the_gradient_of_a_determinant_is_the_matrix_of_cofactors():
    for a in (A, A * [1, 1, 0], np.outer(V[:3], V[1:]), np.zeros((3, 3))):
        minor = lambda i, j, a=a: L.det(np.delete(np.delete(a, i, 0), j, 1))
        minors = [[minor(i, j) * (-1) ** (i + j) for j in range(3)] for i in range(3)]
        np.testing.assert_allclose(fg.grad(L.det)(a), minors, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(fg.hessian(L.det)(np.zeros((2, 2)))[0, 0], [[0, 0], [0, 1]])


def test_the_second_derivative_of_a_determinant_of_rank_two_and_less():
    a = values((4, 2)) @ values((2, 4), seed=1)
    check_grads(L.det, (a,), 2)
    check_grads(lambda a: L.det(a) ** 2 + L.det(a), (a[:3, :3],), 2)
    third = fg.grad(lambda a: fg.hessian(L.det)(a)[0, 0, 1, 1])
    np.testing.assert_allclose(third(np.zeros((3, 3))), np.diag([0.0, 0, 1]), atol=1e-14)
    with pytest.raises(LinAlgError, match="only derivatives to third order"):
        fg.grad(lambda a: third(a)[2, 2])(np.zeros((4, 4)))


def test_slogdet_is_safe_against_zero_cotangents_only():
    a = np.stack([2 * np.eye(2), np.ones((2, 2))])
    f = lambda a: np.sum(np.where(L.slogdet(a)[0] != 0, L.slogdet(a)[1], 0))
    np.testing.assert_array_equal(fg.grad(f)(a), [np.eye(2) / 2, np.zeros((2, 2))])
    with pytest.raises(LinAlgError, match=r"slogdet: in matrix \(1,\), the matrix is singular"):
        fg.grad(lambda a: np.sum(L.slogdet(a)[1]))(a)


def test_large_determinants_do_not_overflow():
    a = 1e3 * (np.eye(200) + values((200, 200)) / 100)
    with np.errstate(over="ignore"):
        assert np.isinf(L.det(a))
    np.testing.assert_allclose(fg.grad(lambda a: L.slogdet(a)[1])(a), L.inv(a).T, rtol=1e-8, atol=1e-12)


def test_derivatives_against_forty_digits():
    x, e = values((3, 3), seed=3) + 2 * np.eye(3), values((3, 3), seed=8)
    with mpmath.workdps(40):
        h = mpmath.mpf(10) ** -12
        at = lambda f, t: f(mpmath.matrix((x).tolist()) + t * mpmath.matrix(e.tolist()))
        slope = lambda f: float((at(f, h) - at(f, -h)) / (2 * h))
        symmetric = lambda m: (m + m.T) / 2
        for ours, exact in (
            (L.det, mpmath.det),
            (lambda a: L.slogdet(a)[1], lambda m: mpmath.log(abs(mpmath.det(m)))),
            (lambda a: L.inv(a)[0, 1], lambda m: (m**-1)[0, 1]),
            (lambda a: L.norm(a, 2), lambda m: max(mpmath.svd_r(m, compute_uv=False))),
            (lambda a: L.norm(a, "nuc"), lambda m: mpmath.fsum(mpmath.svd_r(m, compute_uv=False))),
            (
                lambda a: L.cond(a),
                lambda m: let(lambda s: max(s) / min(s), mpmath.svd_r(m, compute_uv=False)),
            ),
            (
                lambda a: L.eigvalsh((a + a.T) / 2)[0],
                lambda m: mpmath.eigsy(symmetric(m), eigvals_only=True)[0],
            ),
            (
                lambda a: L.cholesky((a + a.T) / 2 + 3 * np.eye(3))[2, 1],
                lambda m: mpmath.cholesky(symmetric(m) + 3 * mpmath.eye(3))[2, 1],
            ),
            (lambda a: L.qr(a)[1][0, 2], lambda m: -(m[:, 0].T * m[:, 2])[0] / mpmath.norm(m[:, 0])),
        ):
            np.testing.assert_allclose(np.sum(fg.grad(ours)(x) * e), slope(exact), rtol=1e-12)
            np.testing.assert_allclose(fg.jvp(ours, (x,), (e,))[1], slope(exact), rtol=1e-12)


# ---- equal eigenvalues and singular values

Q4 = L.qr(values((4, 4), seed=6))[0]
PAIR = (Q4 * [1.0, 1.0, 2.0, 3.0]) @ Q4.T  # symmetric, with a pair of equal eigenvalues
K4 = values((4, 4), seed=7)


def test_functions_of_equal_eigenvalues_alone():
    lower = 4 * np.tril(PAIR) - 2 * np.diag(
        np.diag(PAIR)
    )  # of twice the matrix, in the triangle that is read
    np.testing.assert_allclose(fg.grad(lambda a: np.sum(L.eigvalsh(a) ** 2))(PAIR), lower, atol=1e-12)
    np.testing.assert_allclose(fg.grad(lambda a: np.sum(L.eigvals(a).real ** 2))(np.eye(3)), 2 * np.eye(3))
    np.testing.assert_allclose(fg.grad(lambda a: np.sum(L.svdvals(a) ** 2))(PAIR), 2 * PAIR, atol=1e-12)
    np.testing.assert_allclose(fg.grad(lambda a: L.norm(a, "nuc"))(2 * np.eye(3)), np.eye(3))
    np.testing.assert_allclose(fg.grad(lambda a: L.norm(a, 2))(np.eye(2)), np.eye(2) / 2)  # a tie shares
    np.testing.assert_allclose(fg.jvp(lambda a: np.sum(L.eigvalsh(a)), (np.eye(3),), (K4[:3, :3],))[1],
        np.trace(K4[:3, :3]))  # fmt: skip


def test_projectors_on_the_space_of_equal_eigenvalues():
    f = lambda a: np.sum(K4 * let(lambda v: v[:, :2] @ v[:, :2].T, L.eigh(a)[1]))
    np.testing.assert_allclose(fg.grad(f)(PAIR), differences(f, PAIR), rtol=1e-6, atol=1e-7)
    g = lambda a: np.sum(K4 * let(lambda v: v[:, 3:] @ v[:, 3:].T, L.eigh(a)[1]))
    np.testing.assert_allclose(fg.grad(g)(PAIR), differences(g, PAIR), rtol=1e-6, atol=1e-7)
    polar = lambda a: np.sum(K4 * let(lambda u, s, vh: u @ vh, *L.svd(a)))
    for a in (np.eye(4), PAIR):
        np.testing.assert_allclose(fg.grad(polar)(a), differences(polar, a), rtol=1e-6, atol=1e-7)
    low = values((4, 2)) @ values((2, 4), seed=3)  # two singular values are zero
    h = lambda a: np.sum(K4 * let(lambda u: u[:, :2] @ u[:, :2].T, L.svd(a)[0]))
    np.testing.assert_allclose(fg.grad(h)(low), differences(h, low), rtol=1e-5, atol=1e-6)


def test_second_derivatives_at_equal_eigenvalues_are_refused_or_right():
    trace = fg.grad(lambda a: np.sum(L.eigvalsh(a)))
    np.testing.assert_allclose(fg.grad(lambda a: np.sum(K4 * trace(a)))(PAIR), np.zeros((4, 4)), atol=1e-12)
    with pytest.raises(LinAlgError, match="are equal"):
        fg.hessian(lambda a: np.sum(L.eigvalsh(a) ** 2))(PAIR)  # twice the identity, if rules could tell
    with pytest.raises(LinAlgError, match="are equal"):
        fg.grad(lambda a: np.sum(K4 * fg.grad(lambda a: np.sum(L.svdvals(a) ** 2))(a)))(PAIR)


LOW = np.outer(V, V[:3])
REFUSED = {
    "eigh": (lambda a: L.eigh(a)[1][0, 0], PAIR,
        r"eigenvalues \(i, j\) = \(0, 1\), \S+ and \S+, are equal: .*Use"),
    "svd": (lambda a: L.svd(a)[0][0, 3], PAIR,
        r"singular values \(i, j\) = \(2, 3\), \S+ and \S+, are equal: "),
    "eig": (lambda a: np.abs(np.sum(L.eig(a)[1][:, 0])), np.eye(2),
        r"eigenvalues \(i, j\) = \(1, 0\), \(1\+0j\) and"),
    "in a stack": (lambda a: np.sum(L.eigh(a)[1][:, 0, 0]), np.stack([np.diag([1.0, 2, 3, 4]), PAIR]),
        r"in matrix \(1,\), the eigenvalues"),
    "matrix function": (lambda a: let(lambda w, v: (v * np.sqrt(w)) @ v.T, *L.eigh(a))[0, 1], np.eye(2),
        "cannot be told from one basis. Where it is a sum"),
    "logarithm of the identity": (lambda a: let(lambda w, v: (v * np.log(w)) @ v.T, *L.eigh(a))[0, 1],
        np.eye(2), "cannot be told"),
    "function of singular values": (lambda a: np.sum(let(lambda u, s, vh: (u * s**2) @ vh, *L.svd(a))), PAIR,
        "singular values .* are equal, and the result depends on singular values and on vectors"),
    "function of eigenvalues": (lambda a: np.sum(let(lambda w, v: (v * w**2) @ L.inv(v), *L.eig(a))).real,
        np.eye(2), "cannot be told"),
    "phase of eigh": (lambda a: np.sum(L.eigh(a)[1]).real, Z, r"vector 0 .* up to a phase .* abs\(v\)"),
    "phase of eig": (lambda a: np.sum(L.eig(a)[1]).real, Z, "phase"),
    "phase of svd": (lambda a: np.sum(L.svd(a)[0]).real, Z, "phase"),
    "phase of vh": (lambda a: np.sum(L.svd(a)[2]).real, Z, "phase"),
    "null space of svd": (lambda a: L.svd(a)[0][0, 2], well((4, 2)), "null space, .*full_matrices=False"),
    "null space of vh": (lambda a: L.svd(a)[2][3, 0], well((2, 4)), "null space"),
    "null space of qr": (lambda a: L.qr(a, "complete")[0][0, 3], well((4, 2)),
        "null space, .*mode='reduced'"),
    "zero singular value": (lambda a: L.svd(a, False)[0][0, 2], LOW,
        "singular value 2, .*, is zero: .*Leave out|are equal"),
    "singular and full": (lambda a: np.sum(L.svd(a, False)[0][:, 1]), np.eye(4)[:, :2] * [1, 0], "is zero"),
    "qr": (lambda a: L.qr(a)[0][0, 0], LOW, r"linearly dependent \(column 1\)"),
    "qr, wide": (lambda a: L.qr(a)[1][0, 0], LOW.T, "linearly dependent"),
    "defective": (lambda a: L.eigvals(a)[0], np.array([[1.0, 1.0], [0.0, 1.0]]),
        "eig: the matrix is defective"),
    "slogdet": (lambda a: L.slogdet(a)[1], np.ones((2, 2)), "slogdet: the matrix is singular"),
    "inv": (lambda a: L.inv(a)[0, 0], np.ones((2, 2)), "Singular matrix"),
    "dropped": (lambda a: np.sum(fg.vmap(lambda a: L.pinv(a, 0.4))(a[None])), well((3, 3)),
        "pinv: .*rcond"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_determined_is_refused(name):
    f, a, message = REFUSED[name]
    with pytest.raises(LinAlgError, match=message):
        fg.grad(f)(a)
    with pytest.raises(LinAlgError):
        fg.jvp(f, (a,), (values(a.shape, dtype=a.dtype, seed=9),))
    if name not in {"inv", "dropped"}:
        f(fg.tensor(a))  # the value is another matter


def test_forward_mode_at_equal_eigenvalues():
    f = lambda a: np.sum(K4 * let(lambda v: v[:, :2] @ v[:, :2].T, L.eigh(a)[1]))
    np.testing.assert_allclose(fg.jvp(f, (PAIR,), (K4,))[1], np.sum(fg.grad(f)(PAIR) * K4))
    np.testing.assert_allclose(fg.jacfwd(f)(PAIR), fg.grad(f)(PAIR), atol=1e-12)
    with pytest.raises(LinAlgError, match=r"no derivative along a direction\. Higher derivatives"):
        fg.hessian(f)(PAIR)
    np.testing.assert_allclose(
        fg.hessian(lambda a: np.sum(L.eigvalsh(a)))(PAIR), np.zeros((4,) * 4), atol=1e-12
    )


def test_raw_factors_have_no_gradient():
    with pytest.raises(TypeError, match="mode='raw' has no rule"):
        fg.grad(lambda a: np.sum(L.qr(a, "raw")[0]))(A)


def test_phases_are_checked_in_stacks_and_inside_vmap():
    stack = np.stack([Z, 2 * Z])
    f = lambda a: np.sum(np.abs(L.eigh(a)[1][0]) ** 4)
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(stack), np.stack([fg.grad(f)(z) for z in stack]))
    with pytest.raises(LinAlgError, match=r"in matrix \(0,\), vector 0"):
        fg.vmap(fg.grad(lambda a: L.eigh(a)[1][0, 0].real + L.eigh(a)[1][1, 0].imag))(stack)


def test_large_matrices_in_forward_mode():
    a, t = values((70, 70), dtype=complex, seed=1), values((70, 70), dtype=complex, seed=2)
    for f in (
        lambda a: np.sum(np.abs(L.eigh(a)[1][:, 0]) ** 4),
        lambda a: np.sum(np.abs(L.svd(a)[0][:, 0]) ** 4),
        lambda a: np.sum(np.abs(L.eig(a)[1][:, 0]) ** 4),
        lambda a: np.sum(np.abs(L.qr(a)[0][:, 0]) ** 4),
    ):
        np.testing.assert_allclose(fg.jvp(f, (a,), (t,))[1], np.sum(fg.grad(f)(a) * t).real, rtol=1e-8)


def test_where_a_norm_is_zero_or_a_singular_value():
    for x in (np.zeros(3), np.zeros((2, 2)), np.zeros((3, 2))):
        orders = (None, "nuc", 2, -2, "fro", 1, np.inf) if x.ndim == 2 else (None, 1, 2, 3, np.inf)
        for order in orders:
            np.testing.assert_array_equal(fg.grad(lambda a: L.norm(a, order))(x), 0 * x)
    low = np.outer(V, V[:2])
    for order in ("nuc", 2):
        np.testing.assert_allclose(fg.grad(lambda a: L.norm(a, order))(low), low / L.norm(low), atol=1e-14)
    np.testing.assert_array_equal(fg.grad(lambda a: L.norm(a, -2))(low), 0 * low)
    np.testing.assert_allclose(fg.grad(lambda a: np.sum(L.svdvals(a)))(low), low / L.norm(low), atol=1e-14)


# ---- ranks


def test_pseudo_inverses_of_deficient_matrices():
    for shape, dtype in (((2, 3), float), ((2, 4), complex)):
        x, y = values((4, 2), dtype=dtype), values(shape, dtype=dtype)
        check_grads(lambda x, y: L.pinv(x @ y, 1e-10), (x, y), 2)
        check_grads(lambda x, y: L.lstsq(x @ y, V, 1e-10)[0], (x, y), 2)
        full = fg.grad(lambda a: np.sum(np.abs(L.pinv(a, 1e-10)) ** 2))(x @ y)
        np.testing.assert_allclose(full, fg.vmap(fg.grad(lambda a: np.sum(np.abs(L.pinv(a, 1e-10)) ** 2)))(
            (x @ y)[None])[0])  # fmt: skip


def test_residuals_where_the_rank_cannot_be_looked_at():
    a = np.stack([np.outer(V, [1.0, 1.0]), well((4, 2))])
    x, squares, rank, s = fg.vmap(L.lstsq, in_axes=(0, None))(a, V)
    assert np.isnan(squares[0]).all()
    np.testing.assert_allclose(squares[1], L.lstsq(a[1], V)[1])
    np.testing.assert_array_equal(rank, [1, 2])
    np.testing.assert_allclose(s, L.svdvals(a), atol=1e-14)
    np.testing.assert_allclose(x, np.stack([L.lstsq(m, V)[0] for m in a]))


def test_ranks_inside_vmap():
    np.testing.assert_array_equal(fg.vmap(L.matrix_rank)(np.stack([np.eye(2), np.ones((2, 2))])), [2, 1])
    np.testing.assert_array_equal(fg.vmap(L.matrix_rank)(np.array([[0.0, 0.0], [1.0, 0.0]])), [0, 1])


def test_a_tolerance_may_be_a_tensor_but_not_mapped():
    a = well((3, 2))
    np.testing.assert_allclose(L.pinv(fg.tensor(a), fg.tensor(1e-3)).numpy(), L.pinv(a))
    with pytest.raises(TypeError, match="rcond of pinv"):
        fg.vmap(lambda r: fnp.linalg.pinv(a, r))(np.array([1e-3, 1e-2]))


# ---- stacks


@settings(max_examples=25)
@given(
    lead_a=st.lists(st.sampled_from([1, 2, 3]), max_size=2),
    lead_b=st.lists(st.sampled_from([1, 2, 3]), max_size=2),
    n=st.integers(1, 3),
    k=st.integers(0, 2),
)
def test_leading_axes_broadcast(lead_a, lead_b, n, k):
    a = values((*lead_a, n, n)) / 2 + 3 * np.eye(n)
    b = values((*lead_b, n, k), seed=1)
    try:
        expected = L.solve(a, b)
    except ValueError:
        with pytest.raises(ValueError):
            L.solve(fg.tensor(a), b)
        return
    np.testing.assert_allclose(L.solve(fg.tensor(a), fg.tensor(b)).numpy(), expected)
    check_grads(L.solve, (a, b), 1)


@settings(max_examples=15)
@given(
    lead=st.lists(st.integers(0, 2), max_size=2),
    m=st.integers(1, 3),
    n=st.integers(1, 3),
    dtype=st.sampled_from(["f", "d", "F", "D"]),
)
def test_stacks_are_loops(lead, m, n, dtype):
    a = well((*lead, m, n), np.dtype(dtype)) if np.prod(lead) else np.zeros((*lead, m, n), dtype)
    functions = {
        "pinv": lambda a: L.pinv(a),
        "svdvals": lambda a: L.svdvals(a),
        "reduced": lambda a: L.qr(a)[0],
        "projector": lambda a: let(lambda u: u[..., :1] @ H(u[..., :1]), L.svd(a)[0]),
        "nuclear": lambda a: L.matrix_norm(a, ord="nuc"),
    }
    for f in functions.values():
        total = lambda a, f=f: np.sum(np.abs(f(a)) ** 2)
        g = fg.grad(total)(a)
        assert (g.shape, g.dtype) == (a.shape, a.dtype)
        for i in np.ndindex(*lead):
            tol = 1e-3 if dtype in "fF" else 1e-9
            np.testing.assert_allclose(g[i], fg.grad(total)(a[i]), rtol=tol, atol=tol)


def test_out_of_a_chain():
    out = fg.tensor(np.zeros((2, 3)))
    assert L.multi_dot([fg.tensor(M), A, A], out=out) is out
    empty = np.array([], np.float32)  # beside which a list without numbers has no dtype of its own
    assert L.multi_dot([fg.tensor(empty), []]).dtype == np.linalg.multi_dot([empty, []]).dtype == np.float32
    np.testing.assert_allclose(out.numpy(), M @ A @ A)


def test_a_chain_takes_the_cheapest_order():
    lengths = [30, 35, 15, 5, 10, 20, 25]  # Cormen et al.: (A (B C)) ((D E) F) takes 15125 multiplications
    xs = [values((n, m), seed=n) for n, m in pairwise(lengths)]
    lines = str(fg.make_graph(lambda *xs: L.multi_dot(list(xs)))(*xs)).splitlines()[1:-1]
    assert [line.split("[")[1].split("]")[0] for line in lines] == ["35,5", "30,5", "5,20", "5,25", "30,25"]


def test_lists_of_tensors_are_matrices():
    t = fg.tensor(2.0)
    np.testing.assert_allclose(fnp.linalg.det([[t, 1.0], [0.0, t]]).numpy(), 4.0)
    np.testing.assert_allclose(fg.grad(lambda x: fnp.linalg.det([[x, 1.0], [0.0, x]]))(3.0), 6.0)


def test_functions_of_what_is_not_followed_run_at_the_cost_of_numpy():
    for name in ("eigvalsh", "eigvals", "svdvals"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(getattr(L, name)(fg.tensor(A)).numpy(), getattr(L, name)(A))


def test_the_products_of_stacks_take_the_last_axes():
    t = fg.tensor(C)
    np.testing.assert_allclose(L.trace(t).numpy(), L.trace(C))
    np.testing.assert_allclose(np.trace(t).numpy(), np.trace(C))
    np.testing.assert_allclose(L.diagonal(t).numpy(), L.diagonal(C))
    np.testing.assert_allclose(t.diagonal().numpy(), C.diagonal())
    np.testing.assert_allclose(t.trace().numpy(), C.trace())


# ---- one matrix, whose factors serve both directions ----------------------------------------------


def dominated(n, seed=0):
    """Return a matrix that is far from singular."""
    return np.random.default_rng(seed).normal(size=(n, n)) + 3 * n**0.5 * np.eye(n)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("lead, columns", [((), None), ((), 1), ((), 3), ((1,), 2), ((1, 1), 1)])
def test_the_reverse_of_a_system_needs_no_other_factors(lead, columns, dtype, monkeypatch):
    n = 24
    a = dominated(n).reshape(*lead, n, n).astype(dtype)
    shape = (n,) if columns is None else (*lead, n, columns)
    right, weights = np.random.default_rng(1).normal(size=(2, *shape)).astype(dtype)
    solve, systems_of_numpy = L.solve, []
    monkeypatch.setattr(L, "solve", lambda *args: (systems_of_numpy.append(1), solve(*args))[1])
    to_a, to_b = fg.grad(lambda a, b: np.sum(weights * fnp.linalg.solve(a, b)), (0, 1))(a, right)
    assert bool(systems_of_numpy) == (not blas_is_known())
    x = solve(a, right)
    wanted = solve(np.swapaxes(a, -1, -2), weights)
    tight = {"rtol": 1e-3, "atol": 1e-5} if dtype == "f" else {"rtol": 1e-10, "atol": 1e-13}
    np.testing.assert_allclose(to_b, wanted, **tight)
    outer = -(np.outer(wanted, x) if columns is None else wanted @ np.swapaxes(x, -1, -2))
    np.testing.assert_allclose(to_a, outer, **tight)
    assert to_a.dtype == to_b.dtype == dtype


def test_values_of_systems_are_those_of_numpy():
    a, b = dominated(40), np.random.default_rng(1).normal(size=(40, 3))
    found = fnp.linalg.solve(fg.tensor(a), b).numpy()
    np.testing.assert_allclose(found, L.solve(a, b), rtol=1e-12, atol=1e-15)
    a[3, 4] = np.nan
    np.testing.assert_array_equal(fnp.linalg.solve(fg.tensor(a), b).numpy(), L.solve(a, b))
    for bad in (np.zeros((20, 20)), np.ones((20, 20))):
        with pytest.raises(LinAlgError, match="Singular"):
            fnp.linalg.solve(fg.tensor(bad), np.ones(20))


def test_writes_after_a_system_change_no_gradient():
    n = 20
    a, b = dominated(n), np.ones(n)
    wanted = -np.outer(L.solve(a.T, np.ones(n)), L.solve(a, b))
    base = np.stack([a, a])
    plain, t = base[0], fg.tensor(a)
    with fg.GradManager().attach(t) as gm:
        x = fnp.linalg.solve(t, b) + fnp.linalg.solve(plain, t @ b) * 0
        t[...] = 0.0
        base[...] = 0.0
        x = x + fnp.linalg.solve(t + np.eye(n), b) * 0
        gm.backward(x.sum())
    np.testing.assert_allclose(t.grad.numpy(), wanted, rtol=1e-10)


def test_many_systems_in_one_recording():
    n, count = 17, 40

    def f(a):
        x = np.ones(n)
        for i in range(count):
            x = np.linalg.solve(a * (1 + 0.01 * i), x) * 5
        return np.sum(x)

    direction = np.random.default_rng(3).normal(size=(n, n))
    a = dominated(n)
    step = 1e-6
    wanted = (f(a + step * direction) - f(a - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(fg.grad(f)(a) * direction), wanted, rtol=1e-5)


def test_a_transpose_that_may_be_singular_is_numpys():
    n = 16
    a = np.eye(n)
    a[-1, -1] = 1e-14  # to rounding, a pivot of the transpose may be zero
    a[0, -1] = 1.0
    found = fg.grad(lambda b: np.sum(np.linalg.solve(fg.tensor(a), b)))(np.ones(n))
    np.testing.assert_allclose(found, L.solve(a.T, np.ones(n)))


def test_second_derivatives_of_systems():
    n = 16
    check_grads(np.linalg.solve, (dominated(n) / 4, np.ones(n)), order=2, rtol=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("dtype", "size"), [("d", 1e200), ("d", 1e-200), ("f", 1e25), ("f", 1e-25)], ids=lambda v: f"{v}"
)
@pytest.mark.parametrize("shape", [(4, 2), (2, 4)])
def test_derivatives_of_pseudo_inverses_do_not_depend_on_units(shape, dtype, size, compiled):
    """Of a matrix in other units the pseudo-inverse is in the inverse ones: squares of these overflow."""
    x, w = values(shape, seed=1), values(shape[::-1], seed=2)
    total = lambda a, unit: ((np.linalg.pinv(a) * unit) * w.astype(a.dtype)).sum()
    exact = differences(lambda a: total(a, 1.0), x)
    unit = np.dtype(dtype).type(size)
    slope = fg.grad(lambda a: total(a, unit))
    if compiled:
        slope = fg.jit(slope)
    found = slope(x.astype(dtype) * unit)
    close(found.astype(float) * size, exact, 1e-6 if dtype == "d" else 1e-4)
