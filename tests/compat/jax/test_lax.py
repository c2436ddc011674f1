"""Names of `jax.lax` that mean other things than NumPy's, more of `jax.numpy`; values are JAX 0.10.2's."""

import sys

import numpy as np
import pytest

from fgrad.compat.jax import installed, types

# the library itself may be installed beside; another test may have loaded it
if "jax" in sys.modules:
    pytest.skip("JAX itself is loaded", allow_module_level=True)
with installed():
    import jax
    import jax.flatten_util
    import jax.numpy as jnp
    from jax import lax

X = jnp.array([0.5, -1.5, 2.5, -0.5, 1.3])
I, J = jnp.array([7, -7, 3, 0, 5]), jnp.array([2, 2, -2, 3, 4])
U, B = jnp.array([1, 200, 3], jnp.uint8), jnp.array([True, False, True])
M = jnp.array([[3.0, 1.0, 2.0], [0.0, -1.0, 5.0]])

RESULTS = {
    "div": (lambda: lax.div(I, J), "i4", [3, -3, -1, 0, 1]),
    "div of unsigned": (lambda: lax.div(U, jnp.uint8(2)), "u1", [0, 100, 1]),
    "div of floats": (lambda: lax.div(X, jnp.float32(2)), "f4", X / 2),
    "rem": (lambda: lax.rem(I, J), "i4", [1, -1, 1, 0, 1]),
    "round": (lambda: lax.round(X), "f4", [1, -2, 3, -1, 1]),
    "round to even": (lambda: lax.round(X, lax.RoundingMethod.TO_NEAREST_EVEN), "f4", [0, -2, 2, 0, 1]),
    "round below a half": (lambda: lax.round(jnp.float32(0.49999997)), "f4", 0),
    "shift_left": (lambda: lax.shift_left(I, abs(J)), "i4", [28, -28, 12, 0, 80]),
    "shift_right_arithmetic": (lambda: lax.shift_right_arithmetic(I, abs(J)), "i4", [1, -2, 0, 0, 0]),
    "population_count": (lambda: lax.population_count(U), "u1", [1, 3, 2]),
    "cumsum": (lambda: lax.cumsum(M), "f4", [[3, 1, 2], [3, 0, 7]]),
    "cumsum reversed": (lambda: lax.cumsum(M, axis=1, reverse=True), "f4", [[6, 3, 2], [4, 4, 5]]),
    "cummax": (lambda: lax.cummax(M, axis=1), "f4", [[3, 3, 3], [0, 0, 5]]),
    "cummin": (lambda: lax.cummin(M, axis=1), "f4", [[3, 1, 1], [0, -1, -1]]),
    "cumprod": (lambda: lax.cumprod(M, 1), "f4", [[3, 3, 6], [0, 0, 0]]),
    "cumlogsumexp": (lambda: lax.cumlogsumexp(M, 1)[0], "f4", [3, 3.1269, 3.4076]),
    "argmax": (lambda: lax.argmax(M, 1, jnp.int32), "i4", [0, 2]),
    "argmin": (lambda: lax.argmin(M, 0, jnp.uint8), "u1", [1, 1, 0]),
    "sort": (lambda: lax.sort(M), "f4", [[1, 2, 3], [-1, 0, 5]]),
    "sort along": (lambda: lax.sort(M, dimension=0), "f4", [[0, -1, 2], [3, 1, 5]]),
    "sort several": (lambda: lax.sort((I, J))[1], "i4", [2, 3, -2, 4, 2]),
    "sort by two": (
        lambda: lax.sort((jnp.array([1, 0, 1]), jnp.array([5, 4, 3]), jnp.arange(3)), num_keys=2)[2],
        "i4",
        [1, 2, 0],
    ),
    "reshape": (lambda: lax.reshape(M, (3, 2), (1, 0)), "f4", [[3, 0], [1, -1], [2, 5]]),
    "transpose": (lambda: lax.transpose(M, (1, 0)), "f4", M.T),
    "rev": (lambda: lax.rev(M, (1,)), "f4", [[2, 1, 3], [5, -1, 0]]),
    "concatenate": (lambda: lax.concatenate([M, M], 1), "f4", np.hstack([M, M])),
    "pad": (lambda: lax.pad(M, 9.0, ((1, 0, 1), (0, -1, 0))), "f4", [[9, 9], [3, 1], [9, 9], [0, -1]]),
    "broadcast": (lambda: lax.broadcast(X, (2,)), "f4", [X, X]),
    "broadcast_in_dim": (lambda: lax.broadcast_in_dim(X, (5, 2), (0,)), "f4", np.stack([X, X], 1)),
    "broadcasted_iota": (lambda: lax.broadcasted_iota(jnp.int32, (2, 3), 1), "i4", [[0, 1, 2]] * 2),
    "select_n": (lambda: lax.select_n(M > 0, M, -M), "f4", [[-3, -1, -2], [0, -1, -5]]),
    "select_n of three": (lambda: lax.select_n(jnp.array([2, 0, 1]), U, U + 1, U + 2), "u1", [3, 200, 4]),
    "logistic": (lambda: lax.logistic(X), "f4", 1 / (1 + np.exp(-np.asarray(X)))),
    "slice": (lambda: lax.slice(M, (0, 1), (2, 3)), "f4", [[1, 2], [-1, 5]]),
    "slice_in_dim": (lambda: lax.slice_in_dim(M, 0, 3, 2, axis=1), "f4", [[3, 2], [0, 5]]),
    "index_in_dim": (lambda: lax.index_in_dim(M, 1), "f4", [[0, -1, 5]]),
    "index_in_dim without": (lambda: lax.index_in_dim(M, 2, 1, keepdims=False), "f4", [2, 5]),
    "reduce_sum": (lambda: lax.reduce_sum(U, (0,)), "u1", 204),
    "reduce_max": (lambda: lax.reduce_max(M, (1,)), "f4", [3, 5]),
    "reduce_and": (lambda: lax.reduce_and(B, (0,)), "b1", False),
    "complex": (lambda: lax.complex(X, X), "c8", X * (1 + 1j)),
    "batch_matmul": (lambda: lax.batch_matmul(M[None], M.T[None]), "f4", [[[14, 9], [9, 26]]]),
    "conv": (
        lambda: lax.conv(M[None, None], jnp.ones((1, 1, 2, 2)), (1, 1), "SAME")[0, 0],
        "f4",
        [[3, 7, 7], [-1, 4, 5]],
    ),
    "conv_general_dilated_patches": (
        lambda: lax.conv_general_dilated_patches(M[None, None], (2, 2), (1, 1), "VALID")[0, :, 0],
        "f4",
        [[3, 1], [1, 2], [0, -1], [-1, 5]],
    ),
    "conv_general_dilated_patches of channels": (
        lambda: lax.conv_general_dilated_patches(
            M.T[None], (2,), (1,), [(1, 0)], rhs_dilation=(2,), dimension_numbers=("NWC", "WIO", "NWC")
        )[0],
        "f4",
        [[0, 1, 0, -1], [3, 2, 0, 5]],
    ),
    "conv_general_dilated_local": (
        lambda: lax.conv_general_dilated_local(
            M[None], jnp.arange(8.0).reshape(1, 4, 2), (1,), "VALID", (2,)
        ),
        "f4",
        [[[3 * 0 + 1 * 2 + 0 * 4 - 1 * 6, 1 * 1 + 2 * 3 - 1 * 5 + 5 * 7]]],
    ),
    "dtype": (lambda: jnp.zeros(2, lax.dtype(jnp.int8(1))), "i1", [0, 0]),
    "with_sharding_constraint": (lambda: lax.with_sharding_constraint(M, jax.P("x")), "f4", M),
    "divmod of an array": (lambda: divmod(I, 2)[1], "i4", [1, 1, 1, 0, 1]),
    "divmod by an array": (lambda: divmod(7, J)[0], "i4", [3, 3, -4, 2, 1]),
    "top_k along": (lambda: lax.top_k(M, 1, axis=0)[1], "i4", [[0, 0, 1]]),
    "top_k": (lambda: lax.top_k(M, 2)[0], "f4", [[3, 2], [5, 0]]),
    "approx_min_k": (lambda: lax.approx_min_k(M, 2, reduction_dimension=1)[1], "i4", [[1, 2], [1, 0]]),
    "sigmoid of complex numbers": (
        lambda: jax.nn.sigmoid(X + 1j),
        "c8",
        1 / (1 + np.exp(-np.asarray(X) - 1j)),
    ),
    "clone": (lambda: jax.random.clone(jax.random.PRNGKey(1)), "u4", [0, 1]),
    "histogram": (lambda: jnp.histogram(J, bins=3)[0], "f4", [1, 0, 4]),
    "bincount": (lambda: jnp.bincount(I, J, length=4), "i4", [5, 0, 0, -2]),
    "nancumsum": (lambda: jnp.nancumsum(jnp.array([1, np.nan, 3])), "f4", [1, 1, 4]),
    "nanquantile": (lambda: jnp.nanquantile(jnp.array([1, np.nan, 3]), 0.5), "f4", 2),
    "cumulative_sum": (lambda: jnp.cumulative_sum(J, include_initial=True), "i4", [0, 2, 4, 2, 5, 9]),
    "divmod": (lambda: jnp.divmod(I, J)[0], "i4", [3, -4, -2, 0, 1]),
    "modf": (lambda: jnp.modf(X)[1], "f4", [0, -1, 2, 0, 1]),
    "frexp": (lambda: jnp.frexp(M)[1], "i4", [[2, 1, 2], [0, 1, 3]]),
    "lexsort": (lambda: jnp.lexsort((X, jnp.array([0, 1, 0, 1, 0]))), "i4", [0, 4, 2, 1, 3]),
    "matvec": (lambda: jnp.matvec(M, jnp.arange(3.0)), "f4", [5, 9]),
    "polymul": (lambda: jnp.polymul(J[:2], X[:2]), "f4", [1, -2, -3]),
    "polyder": (lambda: jnp.polyder(X), "f4", [2, -4.5, 5, -0.5]),
    "ix_": (lambda: jnp.ix_(I[:2], J[:2])[0], "i4", [[7], [-7]]),
    "insert": (lambda: jnp.insert(X, 1, 9.0)[:3], "f4", [0.5, 9, -1.5]),
    "tensorinv": (lambda: jnp.linalg.tensorinv(M @ M.T, ind=1)[0], "f4", [0.0919, -0.0318]),
    "betainc": (lambda: lax.betainc(abs(X), abs(X), abs(X) / 4)[:2], "f4", [0.23, 0.343]),
    "polygamma": (lambda: lax.polygamma(1.0, abs(X))[:2], "f4", [4.9348, 0.9348]),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_results(name, compiled):
    function, dtype, expected = RESULTS[name]
    out = (jax.jit(function) if compiled else function)()
    assert out.dtype == np.dtype(dtype)
    np.testing.assert_allclose(np.asarray(out), np.asarray(expected), rtol=1e-3, atol=1e-3)
    assert out.shape == np.shape(expected)


N = np.nan
ALONG = {  # what `take_along_axis` does with places out of bounds
    (): [[3, N, 2, N], [0, N, 5, N]],
    (("mode", "clip"),): [[3, 2, 2, 3], [0, 5, 5, 0]],
    (("mode", "fill"), ("fill_value", 9.0)): [[3, 9, 2, 9], [0, 9, 5, 9]],
    (("wrap_negative_indices", False),): [[3, N, N, N], [0, N, N, N]],
}


@pytest.mark.parametrize("options", ALONG)
def test_places_along_an_axis_may_be_out_of_bounds(options):
    def f(x):
        return jnp.take_along_axis(x, jnp.array([[0, 5, -1, -4]]), 1, **dict(options))

    for g in (f, jax.jit(f)):
        np.testing.assert_array_equal(np.asarray(g(M)), ALONG[options])
    filled = jnp.take_along_axis(M.astype(int), jnp.array([[0, 5, -1, -4]]), 1)
    assert np.asarray(filled)[0, 1] == np.iinfo(np.int32).min
    with pytest.raises(ValueError, match="take_along_axis has the modes"):
        jnp.take_along_axis(M, jnp.array([[0]]), 1, mode="wrap")


UNKNOWN = [
    lambda: jnp.zeros(3, dtyp=int),
    lambda: jnp.full(3, 1.0, like=X),
    lambda: jnp.take(X, I, fil_value=0.0),
    lambda: jnp.einsum("i,i", X, X, optimise=True),
    lambda: lax.scan(lambda c, x: (c, x), 0.0, X, revers=True),
    lambda: lax.dot_general(M, M, (((0,), (0,)), ((), ())), precison=None),
    lambda: jax.checkpoint(jnp.sin, statics=0),
]


@pytest.mark.parametrize("call", UNKNOWN)
def test_names_of_arguments_that_nobody_knows_are_refused(call):
    with pytest.raises(TypeError, match="unexpected keyword"):
        call()


@pytest.mark.parametrize("run", [lambda f: f, jax.jit])
def test_integers_are_floats_to_what_needs_them(run):
    i, short, truths = jnp.arange(4), jnp.arange(4, dtype="uint8"), jnp.arange(4) > 1
    for x in (i, short, truths):
        for f in (jnp.angle, jnp.spacing, jnp.trapezoid, jnp.polyder, lambda x: jnp.frexp(x)[0], jnp.modf):
            assert jax.tree_util.tree_leaves(run(f)(x))[0].dtype == "float32"
        for f in (jnp.convolve, jnp.correlate, jnp.polymul):
            assert run(f)(x, short).dtype == "float32"
    assert float(run(jnp.trapezoid)(truths)) == 1.5
    assert run(jnp.polymul)(i, short).tolist() == [0, 0, 1, 4, 10, 12, 9], "zeros in front stay"
    assert jnp.polymul(i, short, trim_leading_zeros=True).tolist() == [1, 4, 10, 12, 9]


def test_conditions_have_no_part_in_the_dtype():
    numbers = jnp.arange(4, dtype="int8")
    for f in (jnp.compress, jnp.extract):
        found = f(jnp.array([0, 1, 0, 2], "uint8"), numbers)
        assert (found.dtype, found.tolist()) == ("int8", [1, 3])


@pytest.mark.parametrize("run", [lambda f: f, jax.jit])
def test_reductions_of_bits(run):
    x = jnp.array([[1, 2], [4, 3]])
    for f, expected in ((lax.reduce_or, [5, 3]), (lax.reduce_and, [0, 2]), (lax.reduce_xor, [5, 1])):
        assert run(lambda x, f=f: f(x, (0,)))(x).tolist() == expected
    assert run(lambda x: lax.reduce_and(x > 1, (1,)))(x).tolist() == [False, True]


def test_counters_and_places_that_are_clipped():
    short = jnp.uint8
    assert int(lax.fori_loop(short(0), short(4), lambda i, c: c + i, short(250))) == 0
    x = jnp.arange(3.0).at[jnp.array([0, 9])]
    np.testing.assert_allclose(x.apply(jnp.exp, mode="clip"), [1, 1, np.exp(2)], rtol=1e-6)
    np.testing.assert_allclose(x.apply(jnp.exp, mode="drop"), [1, 1, 2])


def test_roots_of_trees():
    """x^3 = a, y = b x."""

    def root(a, b):
        f = lambda d: {"x": d["x"] ** 3 - a, "y": d["y"] - b * d["x"]}
        down = lambda f, d: {"x": d["x"] - 0.1 * f(d)["x"], "y": d["y"] - 0.5 * f(d)["y"]}

        def tangent(g, y):
            flat, back = jax.flatten_util.ravel_pytree(y)
            slope = jax.jacobian(lambda v: jax.flatten_util.ravel_pytree(g(back(v)))[0])(flat)
            return back(jnp.linalg.solve(slope, flat))

        start = {"x": jnp.float32(1), "y": jnp.float32(0)}
        solve = lambda f, d: lax.fori_loop(0, 60, lambda _, d: down(f, d), d)
        return lax.custom_root(f, start, solve, tangent)

    x = 2 ** (1 / 3)
    for run in (lambda f: f, jax.jit):
        found = run(root)(2.0, 3.0)
        np.testing.assert_allclose([found["x"], found["y"]], [x, 3 * x], rtol=1e-5)
        slopes = run(jax.grad(lambda a, b: root(a, b)["y"], (0, 1)))(2.0, 3.0)
        np.testing.assert_allclose(slopes, [1 / x**2, x], rtol=1e-5)
    _, along = jax.jvp(root, (2.0, 3.0), (1.0, 0.0))
    np.testing.assert_allclose([along["x"], along["y"]], [1 / (3 * x**2), 1 / x**2], rtol=1e-5)
    mapped = jax.vmap(root)(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    np.testing.assert_allclose(mapped["y"], [3, 4 * x], rtol=1e-5)


def test_solutions_with_something_beside_them():
    a = jnp.array([[3.0, 1.0], [1.0, 2.0]])

    def solution(a, b):
        solve = lambda matvec, b: (jnp.linalg.solve(a, b), {"steps": 1})
        return lax.custom_linear_solve(lambda v: a @ v, b, solve, symmetric=True, has_aux=True)

    x, beside = solution(a, jnp.ones(2))
    np.testing.assert_allclose(x, [0.2, 0.4], rtol=1e-6)
    assert int(beside["steps"]) == 1
    slopes = jax.grad(lambda a, b: solution(a, b)[0].sum(), (0, 1))(a, jnp.ones(2))
    np.testing.assert_allclose(slopes[1], [0.2, 0.4], rtol=1e-6)
    np.testing.assert_allclose(slopes[0], -np.outer([0.2, 0.4], [0.2, 0.4]), rtol=1e-6)
    root = lambda a: lax.custom_root(
        lambda x: x**2 - a,
        1.0,
        lambda f, x: (jnp.sqrt(4.0), jnp.float32(7)),
        lambda g, y: y / g(1.0),
        has_aux=True,
    )
    assert float(root(4.0)[1]) == 7
    assert float(jax.grad(lambda a: root(a)[0])(4.0)) == 0.25


def test_policies_of_checkpoints():
    f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=jax.checkpoint_policies.dots_saveable)
    np.testing.assert_allclose(jax.grad(f)(1.0), np.cos(np.sin(1.0)) * np.cos(1.0), rtol=1e-6)


def test_bits_of_negative_integers_are_those_of_the_complement():
    for kind, bits in (("int8", 8), ("int32", 32)):
        found = jax.jit(lax.population_count)(jnp.array([-1, -2, 0, 7], kind))
        assert (found.dtype, found.tolist()) == (kind, [bits, bits - 1, 0, 3])
    assert lax.population_count(jnp.array([255], "uint8")).tolist() == [8]


def test_bfloat16_says_where_it_comes_from(monkeypatch):
    monkeypatch.setattr(types, "BFLOAT16", np.dtype([("bfloat16", np.void, 2)]))
    with pytest.raises(ModuleNotFoundError, match="pip install ml_dtypes"):
        jnp.ones(3, "bfloat16")
