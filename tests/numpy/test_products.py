"""Products of arrays: matmul and its relatives, einsum, kron, cross, convolve."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.helpers import grouped
from tests.numpy.cases import Case, check, integers, kinds, named, strided, truths, values, writes

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

V, W, S = values((3,)), values((3,), seed=1), values(())
M, N, Q = values((2, 3)), values((3, 4), seed=1), values((3, 3))
B, D = values((4, 2, 3)), values((4, 3, 2), seed=1)
E = values((0, 3))

PAIRS = {
    "vectors": (V, W),
    "matrix and vector": (M, V),
    "vector and matrix": (V, N),
    "matrices": (M, N),
    "stack and vector": (B, V),
    "vector and stack": (V, D),
    "stack and matrix": (B, N),
    "matrix and stack": (M, D),
    "stacks": (B, D),
    "stacks that broadcast": (B[:1], D),
    "stacks of unequal rank": (B, D[None]),
    "stacks that broadcast twice": (B[:, None], D[None, :1]),
    "empty": (E, N),
    "empty inside": (M[:, :0], N[:0]),
    "0-d": (S, M),
    "both 0-d": (S, S),
    "do not fit": (M, M),
    "stacks that do not fit": (B, D[:3]),
    "transposed": (N.T, M.T),
    "strided": (strided(M), strided(N)),
    "lists": ([[1, 2], [3, 4]], [1, 1]),
    "number": (2.0, M),
    "integers": (integers((2, 3)), integers((3, 2))),
    "integers and floats": (integers((2, 3)), N),
    "float32": (M.astype("f"), N.astype("f")),
    "float32 and float64": (M.astype("f"), N),
    "bool": (truths((2, 3)), truths((3, 2))),
    "complex": (values((2, 3), dtype=complex), values((3, 2), dtype=complex, seed=1)),
    "complex and real": (values((2, 3), dtype=complex), N),
    "int8": (integers((2, 3), dtype=np.int8), integers((3, 2), dtype=np.int8)),
}  # fmt: skip
SAME = {k: (x, y) for k, (x, y) in {
    "vectors": (V, W),
    "matrices": (M, M * 2),
    "stacks": (B, B[::-1]),
    "broadcast": (B, V),
    "complex": (values(dtype=complex), values(dtype=complex, seed=1)),
    "complex and real": (values(dtype=complex), M),
    "real and complex": (M, values(dtype=complex)),
    "integers": (integers(), integers(seed=1)),
    "0-d": (S, S),
    "0-d and vector": (S, V),
    "do not fit": (V, M.T),
    "float32": (M.astype("f"), M.astype("f")),
    "list": ([1, 2, 3], V),
    "empty": (E, E),
    "strided": (strided(M), M),
    }.items()}  # fmt: skip

CASES = [
    *(c for name in ("matmul", "dot", "inner", "outer") for c in named(name, PAIRS)),
    *(c for name in ("inner", "vdot", "vecdot", "outer") for c in named(name,
        {f"same {k}": p for k, p in SAME.items()})),
    *named("vecdot", {"axis 0": (B, B[:, :, :1])}, axis=0),
    *named("vecdot", {"wrong axis": (V, W)}, axis=1),
    *named("matmul", {"dtype": (M, N)}, dtype=np.float32, order=1),
    *named("tensordot", {"two": (B, values((2, 3, 5))), "one": (M, N, 1), "none": (M, V, 0),
        "lists": (B, D, ([1, 2], [2, 1])), "pair": (M, B, (1, 2)), "negative": (M, B, (-1, -1)),
        "all": (B, B, 3), "integers": (integers(), integers((3,)), 1),
        "complex": (values(dtype=complex), V, 1), "do not fit": (M, M, 1),
        "of unequal length": (M, N, ([0], [0, 1])), "empty": (E, N, 1),
        "empty inside": (E, E, ([0], [0])), "0-d": (S, M, 0), "absent": (M, N, ([2], [0])),
        "repeated": (Q, Q, ([0, 0], [0, 1])), "lists of numbers": ([[1, 2]], [3, 4], 1),
        "pairs in arrays": (B, D, ((0, 1), (0, 2)))}),
    *named("kron", {"vectors": (V, W), "matrices": (M, N), "vector and matrix": (V, M),
        "matrix and vector": (M, V), "0-d": (S, M), "both 0-d": (S, S), "cubes": (B, D),
        "integers": (integers(), integers((2,))), "complex": (values(dtype=complex), V),
        "list": ([1, 2], V), "empty": (E, M)}),
    *named("trace", {"square": Q, "wide": M, "tall": N.T, "cube": B, "axes": (B, 0, 1, 2),
        "offset": (M, 1), "below": (M, -1), "outside": (M, 5), "negative axes": (B, 0, -1, -2),
        "integers": integers((3, 3)), "bool": truths((3, 3)), "int8": integers((3, 3), dtype=np.int8),
        "complex": values((3, 3), dtype=complex), "vector": V, "empty": E, "same axes": (Q, 0, 1, 1),
        "list": ([[1, 2], [3, 4]],)}),
    *named("trace", {"dtype": Q}, dtype=np.float32, order=1),
    *named("trace", {"dtype of integers": integers((2, 2))}, dtype=float),
    *named("cross", {"vectors": (V, W), "rows": (Q, Q.T), "broadcast": (Q, V),
        "four components": (values((4,)), values((4,))), "integers": (integers((3,)),
        integers((3,), seed=1)), "0-d": (S, S), "do not fit": (values((2, 3)), values((4, 3))),
        "list": ([1, 2, 3], V), "complex": (values((3,), dtype=complex), V), "empty": (E, E),
        "float32": (V.astype("f"), W.astype("f"))}),
    *named("cross", {"axis": (N, N[::-1])}, axis=0),
    *named("cross", {"axes": (N, N.T)}, axisa=0, axisb=1, axisc=0),
    *named("cross", {"result axis": (B, B[::-1])}, axisc=1),
    *(c for mode in ("full", "same", "valid") for c in named("convolve",
        {f"{mode}": (values((5,)), V, mode), f"{mode} longer kernel": (V, values((6,)), mode),
        f"{mode} even kernel": (values((5,)), W[:2], mode), f"{mode} one": (V, S[None], mode),
        f"{mode} integers": (integers((5,)), integers((3,)), mode),
        f"{mode} complex": (values((5,), dtype=complex), V, mode),
        f"{mode} lists": ([1, 2, 3], [0, 1, 0.5], mode), f"{mode} equal lengths": (V, W, mode),
        f"{mode} 0-d": (V, S, mode), f"{mode} float32": (V.astype("f"), W.astype("f"), mode)})),
    *named("convolve", {"default": (V, W), "empty": (V, V[:0]), "both empty": (V[:0], V[:0]),
        "matrix": (M, V), "unknown mode": (V, W, "half"), "first empty": (V[:0], V), "number": (2.0, V)}),
    # sums by subscripts
    *named("einsum", {t: (t, *xs) for t, *xs in [("ij,jk->ik", M, N), ("ij,jk", M, N),
        ("ij,jk->ki", M, N), ("ij->ji", M), ("ji", M), ("ij->", M), ("ij->i", M), ("ii", Q), ("ii->i", Q),
        ("i,i", V, W), ("i,j->ij", V, W), ("i,j->ji", V, W), ("i,j", V, W), ("bij,bjk->bik", B, D),
        ("bij,bkj->bik", B, B), ("...ij,...jk->...ik", B, D), ("...ij,...jk", B, D[:1]),
        ("...j,j->...", B, V), ("i...->...", B), ("...", M), ("...->...", B), ("i...,i...->i...", B, B),
        ("ij,ij->ij", M, M), ("ij,ij,ij->ij", M, M, M), ("ij,jk,kl->il", M, N, values((4, 2))),
        ("ij,jk,kl,lm->im", M, N, values((4, 2)), M), ("ij,kj,lj->ikl", M, M, Q),
        ("iij->j", values((3, 3, 2))), ("iji->j", values((3, 2, 3))), ("iii->i", values((2, 2, 2))),
        ("iijj->ij", values((2, 2, 3, 3))), ("ii,i->i", Q, V), ("ii,jj->ij", Q, Q), ("ij,ji", M, M.T),
        ("ij,k->ij", M, V), ("ij,k->k", M, V), ("i,j,k->", V, W, V), (",i->i", S, V), (",->", S, S),
        ("->", S), ("i->i", V), ("ab,bc->ac", E, N), ("ab,bc", M[:, :0], N[:0]), ("ab->b", E),
        ("abc,cd->abd", B, N), ("abc,adc->bd", B, B), ("a,a,a->a", V, V, W), (" i j , j k -> i k ", M, N),
        ("Ab,bC->AC", M, N), ("ij,jk->ik", [[1, 2]], [[1], [2]]), ("ij,j", integers(), integers((3,))),
        ("ij,jk->ik", M.astype("f"), N.astype("f")), ("ij,j->i", values(dtype=complex), V),
        ("ij,ij->", truths(), truths()), ("ij->", truths()), ("ij->", integers(dtype=np.int8)),
        ("ij,jk->ik", M[:, :1], N), ("i,i", V, V[:1]), ("ij,jk->ik", strided(M), N.T.copy().T),
        ("ij,jk->il", M, N), ("ij,jk", M), ("ij", M, N), ("ijk", M), ("ij->ii", Q), ("ij,jk->ik", M, M),
        ("i1", M), ("ii", M), ("i->...", V), ("...i->i", M), ("ij,", M, S), ("ij->jk", M), ("i", M),
        ("i.j", M), ("ij-ji", M)]}),
    *(c for optimize in (False, True, "greedy", "optimal", ["einsum_path", (0, 1), (0, 1)])
        for c in named("einsum", {f"optimize {optimize}": ("ij,jk,kl->il", M, N, values((4, 2)))},
        optimize=optimize)),
    *named("einsum", {"dtype": ("ij,jk->ik", M, N)}, dtype=np.complex128, order=1),
    *named("einsum", {"lists of axes": (M, [0, 1], N, [1, 2], [0, 2])}),
    *named("einsum", {"lists of axes without result": (M, [0, 1], N, [1, 2]),
        "lists with an ellipsis": (B, [..., 0, 1], D, [..., 1, 2], [..., 0, 2]),
        "one operand as lists": (Q, [0, 0]), "large axes": (M, [0, 30], N, [30, 2], [0, 2])}),
]  # fmt: skip

for name in ("matmul", "dot", "inner", "outer", "kron", "tensordot", "vdot", "vecdot", "cross", "trace"):
    for kind, x in kinds((3, 3)).items():
        args = (x,) if name == "trace" else (x, x.T)
        CASES += [Case(name, f"dtype {kind}", args, (), 1)]

NAMES = {c.name for c in CASES} | {"einsum_path"}


@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


@pytest.mark.parametrize("name", ["matmul", "dot", "outer", "trace", "einsum"])
def test_out_keyword(name):
    args = {"trace": (Q,), "einsum": ("ij,jk->ik", M, N)}.get(name, (M, N))
    writes(name, *args, at=int(name == "einsum"))


def test_operators_of_matrices():
    for x, y in [(M, N), (V, W), (M, V), (B, D), (M, [1, 2, 3])]:
        expected = x @ np.asarray(y)
        for z in (fg.tensor(x) @ y, fg.tensor(x) @ fg.tensor(y), x @ fg.tensor(y)):
            assert type(z) is fg.Tensor
            np.testing.assert_allclose(z.numpy(), expected)
    np.testing.assert_allclose(([[1, 2]] @ fg.tensor(M)).numpy(), [[1, 2]] @ M)
    t = fg.tensor(Q)
    t @= Q
    np.testing.assert_allclose(t.numpy(), Q @ Q)
    with pytest.raises((TypeError, ValueError)):
        fg.tensor(M) @ 2.0
    check_grads(lambda x, y: x @ y @ x.T, (M, Q), 2)


@pytest.mark.parametrize("n", [2, 300])
def test_outer_products_keep_the_signs_of_zeros(n):
    x, y = np.linspace(-1.0, 1.0, n), np.zeros(n)
    for found in (
        fnp.outer(fg.tensor(x), y).numpy(),
        fnp.outer(y, fg.tensor(x)).numpy().T,
        fg.jit(fnp.outer)(x, y),
    ):
        np.testing.assert_array_equal(np.signbit(found), np.signbit(np.outer(x, y)))


def test_vectors_of_two_components_lie_in_the_plane():
    for x, y in [(V[:2], W[:2]), (V[:2], W[:3]), (V[:3], W[:2]), (M[:, :2], V[:2]), (M[:, :2], M)]:
        with pytest.warns(DeprecationWarning, match="2-dimensional"):
            expected = np.cross(x, y)
        for call in (fnp.cross, np.cross):
            with pytest.warns(DeprecationWarning, match="2-dimensional"):
                made = call(fg.tensor(x), y)
            assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(made.numpy(), expected, rtol=1e-14)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            check_grads(np.cross, (x, y), 2)
    for x, y in [(V[:1], W[:1]), (V[:2], values((4,)))]:
        with pytest.raises(ValueError, match="dimension"):
            fnp.cross(fg.tensor(x), y)
    with pytest.raises(ValueError, match="zero dimension"):
        fnp.cross(fg.tensor(2.0), V[:3])


def test_too_many_axes_to_sum_over():
    with pytest.raises(ValueError, match="2 axes"):
        fnp.tensordot(fg.tensor(V), V, 2)


def test_a_product_with_itself():
    check_grads(lambda x: np.einsum("ij,ij->i", x, x), (M,), 2)
    check_grads(lambda x: np.kron(x, x), (M,), 2)
    check_grads(lambda x: np.convolve(x, x), (V,), 2)
    check_grads(lambda x: np.cross(x, x[::-1]), (V,), 2)


def test_the_gradient_of_a_large_inner_product_is_an_array_of_its_own():
    x, y = np.linspace(0.0, 1.0, 40_000), np.linspace(1.0, 2.0, 40_000)
    t = fg.tensor(y)
    found, other = fg.grad(lambda a, b: np.dot(a, b), argnums=(0, 1))(x, y)
    np.testing.assert_array_equal(found, y)
    np.testing.assert_array_equal(other, x)
    found[:] = other[:] = 0.0
    gradient = fg.grad(lambda a: np.dot(a, t))(x)
    gradient[:] = 0.0
    assert x[-1] == 1.0
    assert y[-1] == 2.0
    np.testing.assert_array_equal(t.numpy(), y)
    gm = fg.GradManager().attach(t)
    for _ in range(2):
        with gm:
            gm.backward(np.dot(t, t) * 0.5)
    np.testing.assert_array_equal(t.grad.numpy(), 2 * y)
    np.testing.assert_array_equal(t.numpy(), y)


@pytest.mark.parametrize("lead", [5, 6, 7, 9])
@pytest.mark.parametrize("f", [np.matmul, np.vecdot, lambda x, y: np.matvec(x, y[..., 0])])
def test_products_of_stacks_along_many_axes(f, lead):
    x, y = np.random.default_rng(lead).standard_normal((2, *(1, 2) * (lead // 2), *(2,) * (lead % 2), 2, 2))
    expected = f(x, y)
    np.testing.assert_allclose(f(fg.tensor(x), fg.tensor(y)).numpy(), expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(fg.jit(f)(x, y), expected, rtol=1e-13, atol=1e-15)
    t = np.cos(x)
    slope = (f(x + 1e-6 * t, y) - f(x - 1e-6 * t, y)) / 2e-6
    np.testing.assert_allclose(fg.jvp(lambda x: f(x, y), (x,), (t,))[1], slope, rtol=1e-6, atol=1e-8)


AXES = {
    "vecdot kept": (np.vecdot, (B, B), {"keepdims": True}),
    "vecdot kept, axis 1": (np.vecdot, (B, B), {"axis": 1, "keepdims": True}),
    "vecdot axes": (np.vecdot, (Q, Q[:2].T), {"axes": [1, 0]}),
    "vecdot axes, complex": (np.vecdot, (Q * (1 + 2j), Q), {"axes": [0, 1, ()]}),
    "vecdot axes kept": (np.vecdot, (B, B), {"axes": [1, 1, 0], "keepdims": True}),
    "vecdot axes kept last": (np.vecdot, (B, B), {"axes": [0, (0,)], "keepdims": True}),
    "matmul": (np.matmul, (B, B), {"axes": [(1, 2), (2, 1), (1, 2)]}),
    "matmul turned": (np.matmul, (B, D), {"axes": [(-2, -1), (-2, -1), (0, -1)]}),
    "matmul of first axes": (np.matmul, (Q, Q), {"axes": [(1, 0), (0, 1), (1, 0)]}),
    "matmul of a vector": (np.matmul, (M, V), {"axes": [(0, 1), (0,), (0,)]}),
    "matmul of vectors": (np.matmul, (V, W), {"axes": [0, 0, ()]}),
    "matmul, too few": (np.matmul, (B, D), {"axes": [(-2, -1), (-2, -1)]}),
    "matmul kept": (np.matmul, (Q, Q), {"keepdims": True}),
    "matmul, axis": (np.matmul, (Q, Q), {"axis": 0}),
    **(
        {
            "matvec": (np.matvec, (Q, V), {"axes": [(1, 0), 0, 0]}),
            "matvec of a stack": (np.matvec, (B, V), {"axes": [(1, 2), 0, 0]}),
            "matvec, wrong": (np.matvec, (Q, V), {"axes": [0, 0, 0]}),
            "vecmat": (np.vecmat, (V * 1j, Q), {"axes": [0, (1, 0), 0]}),
            "vecmat, wrong": (np.vecmat, (V, Q), {"axes": [0, (1, 1), 0]}),
        }
        if hasattr(np, "matvec")
        else {}
    ),
}


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("way", ["eager", "jit", "vmap"])
def test_axes_of_products_are_those_of_numpy(name, way):
    f, (x, y), options = AXES[name]
    g = lambda x, y: f(x, y, **options)
    ways = {
        "eager": lambda x, y: g(fg.tensor(x), fg.tensor(y)).numpy(),
        "jit": fg.jit(g),
        "vmap": lambda x, y: fg.vmap(g)(x[None], y[None])[0],
    }
    try:
        expected = g(x, y)
    except (TypeError, ValueError):
        with pytest.raises((TypeError, ValueError)):
            ways[way](x, y)
        return
    found = ways[way](x, y)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    if way == "eager" and x.dtype.kind == "f":
        t = np.cos(x)
        slope = (g(x + 1e-6 * t, y) - g(x - 1e-6 * t, y)) / 2e-6
        np.testing.assert_allclose(fg.jvp(lambda x: g(x, y), (x,), (t,))[1], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("option", [{"signature": "ff->f"}, {"where": True}, {"bogus": 1}])
@pytest.mark.parametrize("name", ["matmul", "vecdot", "matvec", "vecmat"])
def test_options_of_products_that_would_be_lost_are_refused(name, option):
    f, factors = getattr(fnp, name, fnp.matmul), {"matvec": (Q, V), "vecmat": (V, Q)}.get(name, (Q, Q))
    with pytest.raises(TypeError, match=r"takes no (signature|where|bogus)"):
        f(*map(fg.tensor, factors), casting="unsafe", **option)
