"""Programs of JAX, compared with formulas, with NumPy, and with the dtypes that JAX 0.10 gave."""

import collections
import dataclasses
import functools
import gc
import importlib
import inspect
import pickle
import subprocess
import sys
import typing
import weakref

import numpy as np
import pytest

from fgrad import tensor
from fgrad.compat.jax import installed

# the library itself may be installed beside; another test may have loaded it
if "jax" in sys.modules:
    pytest.skip("JAX itself is loaded", allow_module_level=True)
with installed():
    import jax
    import jax.flatten_util
    import jax.numpy as jnp
    from jax import lax, tree_util

X = np.array([0.5, -1.0, 2.0], np.float32)


def close(x, y, tolerance=1e-5):
    assert isinstance(x, jax.Array)
    np.testing.assert_allclose(np.asarray(x), y, rtol=tolerance, atol=tolerance)


# ---- arrays and dtypes

VALUES = {
    **{
        name: jnp.asarray(np.array([1, 2, 3], name))
        for name in ("f4", "i4", "f2", "u1", "i1", "b1", "c8", "u4")
    },
    "f4*": 1.5,
    "i4*": 2,
}
# what jax.numpy.multiply and divide of a row and a column have; an asterisk: weak
PRODUCTS = """
f4 f4 f4 f4 f4 f4 c8 f4 f4 f4
f4 i4 f2 i4 i4 i4 c8 i4 f4* i4
f4 f2 f2 f2 f2 f2 c8 f2 f2 f2
f4 i4 f2 u1 i2 u1 c8 u4 f4* u1
f4 i4 f2 i2 i1 i1 c8 i4 f4* i1
f4 i4 f2 u1 i1 b1 c8 u4 f4* i4*
c8 c8 c8 c8 c8 c8 c8 c8 c8 c8
f4 i4 f2 u4 i4 u4 c8 u4 f4* u4
f4 f4* f2 f4* f4* f4* c8 f4* f4* f4*
f4 i4 f2 u1 i1 i4* c8 u4 f4* i4*
"""
QUOTIENTS = """
f4 f4 f4 f4 f4 f4 c8 f4 f4 f4
f4 f4 f2 f4 f4 f4 c8 f4 f4* f4
f4 f2 f2 f2 f2 f2 c8 f2 f2 f2
f4 f4 f2 f4 f4 f4 c8 f4 f4* f4
f4 f4 f2 f4 f4 f4 c8 f4 f4* f4
f4 f4 f2 f4 f4 f4 c8 f4 f4* f4*
c8 c8 c8 c8 c8 c8 c8 c8 c8 c8
f4 f4 f2 f4 f4 f4 c8 f4 f4* f4
f4 f4* f2 f4* f4* f4* c8 f4* f4* f4*
f4 f4 f2 f4 f4 f4* c8 f4 f4* f4*
"""


def kind(x):
    return f"{x.dtype.kind}{x.dtype.itemsize}" + "*" * x.weak_type


@pytest.mark.parametrize(
    ("function", "table"), [(jnp.multiply, PRODUCTS), (jnp.divide, QUOTIENTS)], ids=["multiply", "divide"]
)
def test_dtypes_promote_as_in_jax(function, table):
    rows = [line.split() for line in table.split("\n") if line]
    found = [[kind(function(x, y)) for y in VALUES.values()] for x in VALUES.values()]
    assert found == rows


@pytest.mark.parametrize(
    ("made", "expected"),
    {
        "sin of integers": (lambda: jnp.sin(jnp.arange(3)), "f4"),
        "sin of a number": (lambda: jnp.sin(1), "f4*"),
        "sum of truth values": (lambda: jnp.sum(jnp.array([True, False])), "i4"),
        "sum of short integers": (lambda: jnp.sum(jnp.ones(3, jnp.int8)), "i4"),
        "cumsum of short integers": (lambda: jnp.cumsum(jnp.ones(3, jnp.int8)), "i1"),
        "mean of integers": (lambda: jnp.mean(jnp.arange(3)), "f4"),
        "mean of halves": (lambda: jnp.mean(jnp.ones(3, jnp.float16)), "f2"),
        "argmax": (lambda: jnp.argmax(jnp.ones(3)), "i4"),
        "doubles": (lambda: jnp.asarray(np.ones(3)), "f4"),
        "a list": (lambda: jnp.array([1, 2.5]), "f4"),
        "full": (lambda: jnp.full((2,), 1), "i4*"),
        "power": (lambda: jnp.arange(3) ** 2, "i4"),
        "a great number": (lambda: jnp.uint32(2**32 - 1) | jnp.uint32(0), "u4"),
        "where": (lambda: jnp.where(True, 1, 2.0), "f4*"),
        "at": (lambda: jnp.arange(2).at[0].add(2.5), "i4"),
        "astype": (lambda: jnp.asarray(3).astype(float), "f4"),
        "a comparison": (lambda: jnp.arange(3) < 2.5, "b1*"),
        "NumPy's double": (lambda: np.float64(2) * jnp.ones(2, jnp.float16), "f4"),
        "shifts of truth values": (lambda: jnp.left_shift(jnp.ones(2, bool), jnp.ones(2, bool)), "i4"),
        "divmod of truth values": (lambda: jnp.divmod(jnp.ones(2, bool), jnp.ones(2, bool))[1], "i4"),
        "relu of integers": (lambda: jax.nn.relu(jnp.arange(3)), "i4"),
        "a gradient": (lambda: jax.grad(lambda x: x**2)(1.0), "f4*"),
    }.values(),
)
def test_dtypes_of_results(made, expected):
    assert kind(made()) == expected


def test_integers_on_a_line_are_rounded_down():
    found = jnp.linspace(jnp.array([0.1, -0.2]), -1.5, 4, dtype=jnp.int32)
    np.testing.assert_array_equal(found, [[0, -1], [-1, -1], [-1, -2], [-2, -2]])


def test_arrays_do_not_change():
    x = y = jnp.asarray(X)
    x += 1
    close(y, X)
    close(x, X + 1)
    with pytest.raises(TypeError, match=r"immutable.*x\.at\[0\]\.set"):
        y[0] = 3.0
    close(y.at[0].set(9.0), [9.0, -1.0, 2.0])
    close(y.at[jnp.array([1, 1])].add(1.0), [0.5, 1.0, 2.0])
    close(y.at[1:].multiply(2), [0.5, -2.0, 4.0])
    close(y.at[-1].min(0), [0.5, -1.0, 0.0])
    close(y, X)
    source = X.copy()
    z = jnp.asarray(source)
    source[0] = 7.0
    close(z, X)
    twice = jnp.array([1, 1, 7])
    close(y.at[twice].multiply(2), [0.5, -4.0, 2.0])
    close(y.at[twice].divide(2.0), [0.5, -0.25, 2.0])
    close(y.at[twice].power(2), [0.5, 1.0, 2.0])
    close(y.at[twice].max(jnp.array([3.0, 2.0, 9.0])), [0.5, 3.0, 2.0])
    assert jnp.arange(3).at[1].divide(2).dtype == np.float32
    with pytest.raises(ValueError, match="Unknown mode"):
        y.at[0].set(1.0, mode="wrap")
    with pytest.raises(NotImplementedError, match="takes no where"):
        y.at[0].set(1.0, where=True)
    with pytest.raises(IndexError):
        y[5]


# of arange(3.0): what is read, read with mode="fill", set to 9, and set with mode="clip"
OUTSIDE = {
    "one": (jnp.int32(5), 2.0, np.nan, [0, 1, 2], [0, 1, 9]),
    "one below": (jnp.int32(-4), 0.0, np.nan, [0, 1, 2], [9, 1, 2]),
    "one inside": (jnp.int32(-1), 2.0, 2.0, [0, 1, 9], [0, 1, 9]),
    "some": (jnp.array([1, 5, -1, -7]), [1, 2, 2, 0], [1, np.nan, 2, np.nan], [0, 9, 9], [9, 9, 9]),
    "unsigned": (jnp.array([1, 200], jnp.uint8), [1, 2], [1, np.nan], [0, 9, 2], [0, 9, 9]),
    "none": (jnp.array([0, -2]), [0, 1], [0, 1], [9, 9, 2], [9, 9, 2]),
}


@pytest.mark.parametrize("transformation", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", OUTSIDE)
def test_indices_out_of_bounds(name, transformation):
    i, read, filled, changed, clipped = OUTSIDE[name]
    x = jnp.arange(3.0)
    functions = [
        lambda x, i: x[i],
        lambda x, i: x.at[i].get(mode="fill"),
        lambda x, i: x.at[i].set(9.0),
        lambda x, i: x.at[i].set(9.0, mode="clip"),
    ]
    for f, expected in zip(functions, (read, filled, changed, clipped), strict=True):
        close(transformation(f)(x, i), expected)
    close(transformation(lambda x, i: x.at[i].add(9.0))(x, i), x + 9 * (np.array(changed) == 9))
    missing = transformation(lambda x, i: x.at[i].get(mode="fill"))(jnp.arange(3), i)
    assert np.array_equal(missing == np.iinfo(np.int32).min, np.isnan(filled))


def test_clip_takes_no_name_that_it_does_not_know():
    for limits in ({"min": 1, "max": 2}, {"a_min": 1, "a_max": 2}, {"min": 1, "a_max": 2}):
        close(jnp.clip(jnp.arange(4), **limits), [1, 1, 2, 2])
    with pytest.raises(TypeError, match="minimum"):
        jnp.clip(jnp.arange(4), minimum=1)


@pytest.mark.parametrize("compiled", [False, True])
def test_repeat_to_a_length_that_is_told(compiled):
    def repeated(x, n, size, axis=None):
        return jnp.repeat(x, n, axis, total_repeat_length=size)

    f = jax.jit(repeated, static_argnums=(2, 3)) if compiled else repeated
    x, n = jnp.arange(1, 4), jnp.array([2, 0, 1])
    for size, expected in ((2, [1, 1]), (3, [1, 1, 3]), (5, [1, 1, 3, 3, 3])):
        close(f(x, n, size), expected)
    close(f(x, jnp.array([0, 1, 0]), 3), [2, 3, 3])
    close(f(jnp.ones((2, 3)) * x, n, 4, -1), [[1, 1, 3, 3]] * 2)
    close(f(x, 2, 5), [1, 1, 2, 2, 3])


def test_densities_of_vectors():
    logpdf = jax.scipy.stats.multivariate_normal.logpdf
    x, mean, cov = jnp.array([0.5, -1.0]), jnp.zeros(2), jnp.array([[2.0, 0.5], [0.5, 1.0]])
    close(logpdf(x, mean, cov), -2.9033992)  # what JAX gives
    close(jax.vmap(logpdf, (None, None, 0))(x, mean, jnp.stack([cov, cov])), [-2.9033992] * 2)
    close(logpdf(x, mean, 2.0), -2.8435242)
    with pytest.raises(ValueError, match="vmap"):
        logpdf(x, mean, jnp.stack([cov, cov]))


def test_indices_of_numpy_out_of_bounds():  # as JAX has them
    x = jnp.arange(3.0)
    close(x[np.array([5, -9])], [2, 0])
    close(x[np.int64(9)], 2.0)
    close(x.at[np.array([5, 1])].set(7.0), [0, 7, 2])
    close(x.at[np.int64(7)].add(1.0), x)
    close(x.at[np.array([5, 1])].get(mode="fill", fill_value=8), [8, 1])


def test_several_indices_out_of_bounds():
    x, i, j = jnp.arange(6.0).reshape(2, 3), jnp.array([0, 5]), jnp.array([1, 9])
    for transformation in (lambda f: f, jax.jit):
        close(transformation(lambda i, j: x[i, j])(i, j), [1, 5])
        close(transformation(lambda i, j: x.at[i, j].set(-1))(i, j), [[0, -1, 2], [3, 4, 5]])
        close(transformation(lambda j: x.at[..., j].add(1))(j), [[0, 2, 2], [3, 5, 5]])
        close(transformation(lambda j: x.at[None, 0, j].get(mode="fill", fill_value=7))(j), [[1, 7]])
        close(transformation(lambda i: x.at[i[1], :2].add(x[0, :2]))(i), x)
        grads = jax.grad(lambda x, v: transformation(lambda x, v: x.at[i, j].set(v))(x, v).sum(), (0, 1))
        close(grads(x, jnp.ones(2))[0], [[1, 0, 1], [1, 1, 1]])
        close(grads(x, jnp.ones(2))[1], [1, 0])
    close(x.at[5, 0].get(mode="fill", fill_value=8), 8.0)
    close(jax.vmap(lambda i: x.at[i, 0].set(9))(i), [[[9, 1, 2], [3, 4, 5]], x])


def test_arguments_of_many_kinds():
    class Lengths:  # as TensorFlow's, which are no sequences
        def __iter__(self):
            return iter([2, np.int64(3)])

    assert jnp.zeros(Lengths()).shape == jnp.ones(jnp.array([2, 3])).shape == (2, 3)
    assert jnp.zeros(jnp.int32(2)).shape == (2,)
    x = jnp.asarray(X)
    assert jnp.asarray(x, jnp.float32) is x.astype("float32") is x
    assert (
        kind(jnp.asarray(2.0).astype(jnp.float32)) == kind(jnp.asarray(jnp.asarray(2.0), jnp.float32)) == "f4"
    )
    close(jax.jit(lambda i: jnp.append(i, jnp.arange(2)))(jnp.int32(3)), [3, 0, 1])
    scaled = jnp.vectorize(lambda a, b, c: a + b * len(c), excluded={2}, signature="(),()->()")
    close(scaled(x, 2.0, "abc"), X + 6)
    with pytest.raises(NotImplementedError, match="excludes no names"):
        jnp.vectorize(lambda a, b: a, excluded={"b"})
    assert {jnp.int32: 1}[np.int32] == 1
    with pytest.raises(NotImplementedError, match="int4"):  # in other words where ml_dtypes is missing
        jnp.zeros(2, jnp.int4)


def test_results_of_a_size_that_is_told():
    x, u = jnp.array([[0, 3, 0], [1, 0, 2]]), jnp.array([3, 1, 1, 2, 3, 3])
    for transformation in (lambda f: f, jax.jit):
        rows, columns = transformation(lambda x: jnp.nonzero(x, size=5, fill_value=7))(x)
        assert rows.tolist() == [0, 1, 1, 7, 7]
        assert columns.tolist() == [1, 0, 2, 7, 7]
        assert transformation(lambda x: jnp.argwhere(x, size=4))(x).tolist() == [
            [0, 1],
            [1, 0],
            [1, 2],
            [0, 0],
        ]
        assert transformation(lambda x: jnp.flatnonzero(x, size=2))(x).tolist() == [1, 3]
        assert [i.tolist() for i in transformation(lambda x: jnp.where(x > 1, size=3))(x)] == [
            [0, 1, 0],
            [1, 2, 0],
        ]
        every = dict.fromkeys(("return_index", "return_inverse", "return_counts"), True)
        found = transformation(lambda u: jnp.unique(u, size=5, **every))(u)
        assert [f.tolist() for f in found] == [
            [1, 2, 3, 1, 1],
            [1, 3, 0, 1, 1],
            [2, 0, 0, 1, 2, 2],
            [2, 1, 3, 0, 0],
        ]
        assert transformation(lambda u: jnp.unique(u, size=2))(u).tolist() == [1, 2]
        assert transformation(lambda u: jnp.unique(u, size=5, fill_value=9))(u).tolist() == [1, 2, 3, 9, 9]
        nans = transformation(lambda u: jnp.unique(u, size=3))(jnp.array([jnp.nan, 1.0, jnp.nan]))
        np.testing.assert_array_equal(nans, [1.0, np.nan, 1.0])
    assert [i.tolist() for i in jnp.nonzero(jnp.zeros((0, 3)), size=2)] == [[0, 0], [0, 0]]
    assert jnp.argwhere(jnp.array(1)).shape == (1, 0)
    assert jnp.nonzero(x)[0].tolist() == [0, 1, 1]


def test_arrays_speak_as_jaxs():
    assert repr(jnp.ones(2)) == "Array([1., 1.], dtype=float32)"
    assert repr(jnp.asarray(2) / 4) == "Array(0.5, dtype=float32, weak_type=True)"
    assert f"{jnp.asarray(0.25):.1f}" == "0.2"
    assert [int(i) for i in jnp.arange(3)] == [0, 1, 2]
    assert [10, 20][jnp.asarray(1)] == 20
    assert isinstance(np.ones(2) * jnp.ones(2), jax.Array)
    assert np.asarray(jnp.ones(2)).dtype == np.float32
    close(pickle.loads(pickle.dumps(jnp.asarray(X))), X)
    with pytest.raises(TypeError, match="not a valid JAX type"):
        jnp.sin([1.0])
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.grad(lambda x: float(np.sum(np.asarray(x))) + x.sum())(jnp.ones(2))


def test_64_bits_are_asked_for():
    assert jnp.ones(2).dtype == jnp.float32
    jax.config.update("jax_enable_x64", True)
    try:
        assert jnp.ones(2).dtype == jnp.float64
        assert jnp.arange(3).dtype == np.int64
        assert (jnp.float32(1) + 1.0).dtype == np.float32
    finally:
        jax.config.update("jax_enable_x64", False)
    with pytest.raises(NotImplementedError, match=r"no jax\.config\.jax_debug_infs"):
        jax.config.update("jax_debug_infs", True)


def test_promotion_may_be_refused():
    mixed = jnp.zeros(2, jnp.int32), jnp.zeros(2, jnp.float32)
    with jax.numpy_dtype_promotion("strict"):
        close(jnp.ones(2) * 2, [2, 2])
        with pytest.raises(ValueError, match="strict"):
            mixed[0] + mixed[1]
    with jax.numpy_rank_promotion("raise"):
        close(jnp.ones(2) * jnp.float32(2), [2, 2])
        with pytest.raises(ValueError, match="rank"):
            jnp.ones((2, 2)) + mixed[1]
    close(jnp.ones((2, 2)) + mixed[0] + mixed[1], np.ones((2, 2)))


def test_what_may_be_an_array_is_a_union():
    with installed():
        found = importlib.import_module("jax.typing")
    assert typing.get_origin(found.ArrayLike) is typing.Union
    assert isinstance(jnp.ones(2), found.ArrayLike)
    assert isinstance(1.5, found.ArrayLike)
    assert not isinstance("1.5", found.ArrayLike)


def test_what_is_missing_says_so():
    with pytest.raises(NotImplementedError, match=r"'jax\.numpy' has no attribute 'fromfunction'"):
        jnp.fromfunction
    assert not hasattr(jnp, "fromfunction")
    with pytest.raises(NotImplementedError, match=r"no jax\.new_ref"):
        jax.new_ref(1.0)
    with pytest.raises(NotImplementedError, match="operands alone"):
        jnp.add(1, 2, where=True)


# ---- transformations


def loss(params, x):
    return jnp.mean((jnp.tanh(x * params["w"]) + params["b"][0]) ** 2)


def test_gradients_of_containers():
    w, b = 0.7, -0.2
    value, g = jax.value_and_grad(loss)({"w": w, "b": (b, None)}, X)
    t = np.tanh(X * w)
    close(value, np.mean((t + b) ** 2))
    close(g["w"], np.mean(2 * (t + b) * (1 - t**2) * X))
    close(g["b"][0], np.mean(2 * (t + b)))
    assert g["b"][1] is None
    (g, h), aux = jax.grad(lambda x, y: (jnp.sum(x * y), {"x": x, "n": "text"}), (0, 1), has_aux=True)(
        X, X + 1
    )
    close(g, X + 1)
    close(h, X)
    close(aux["x"], X)
    assert aux["n"] == "text"
    with pytest.raises(TypeError, match=r"requires real- or complex-valued inputs.*int32"):
        jax.grad(lambda n: n * 2.0)(3)
    with pytest.raises(TypeError, match="scalar-output functions"):
        jax.grad(jnp.sin)(X)


def test_products_with_jacobians():
    def f(x, n):
        return {"cubes": x**3, "sum": x.sum() * n}

    out, pull = jax.vjp(f, jnp.asarray(X), 2)
    close(out["cubes"], X**3)
    g, n = pull({"cubes": jnp.ones(3), "sum": 1.0})
    close(g, 3 * X**2 + 2)
    assert n.dtype == jax.dtypes.float0
    _, tangent = jax.jvp(lambda x: x**3, (jnp.asarray(X),), (jnp.ones(3),))
    close(tangent, 3 * X**2)
    _, push = jax.linearize(jnp.sin, jnp.asarray(X))
    close(push(2 * jnp.ones(3)), 2 * np.cos(X))
    close(jax.hessian(lambda x: jnp.sum(x**3))(jnp.asarray(X)), np.diag(6 * X))
    for jacobian in (jax.jacfwd, jax.jacrev):
        found = jacobian(lambda x: {"a": x**2})(jnp.asarray(X))
        close(found["a"], np.diag(2 * X))


def test_vmap():
    m = jnp.arange(6.0).reshape(2, 3)
    close(jax.vmap(jnp.dot, in_axes=(0, None))(m, jnp.ones(3)), [3.0, 12.0])
    close(jax.vmap(lambda row: row * 2, in_axes=1, out_axes=1)(m), 2 * np.arange(6).reshape(2, 3))
    found = jax.vmap(lambda d, k: d["x"] * k, in_axes=({"x": 0, "y": None}, None))({"x": m, "y": 1.0}, 3.0)
    close(found, 3 * np.arange(6).reshape(2, 3))
    close(jax.vmap(jax.grad(lambda x: x**3))(jnp.asarray(X)), 3 * X**2)
    close(jax.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(jnp.asarray([1.0, 3.0])), [0.25, 0.75])
    for dtype, summed in {"int8": "int8", "uint8": "uint8", "int32": "int32", "bool": "int32"}.items():
        ones = jnp.ones((3, 2), dtype)
        for x in (ones, ones[0]):
            found = jax.vmap(lambda row, x=x: lax.psum(row if x.ndim == 2 else x, "i"), axis_name="i")(ones)
            assert found.dtype == summed
            close(found, np.full((3, 2), 3))


@pytest.mark.parametrize(
    "function", [lambda x, y: x + y, lambda x, y: x == y, jnp.add, jnp.logaddexp, lax.mul]
)
@pytest.mark.parametrize("compiled", [False, True])
def test_shapes_that_do_not_go_together_are_a_type_error(function, compiled):
    with pytest.raises(TypeError, match=r"incompatible shapes for broadcasting: \(3,\), \(2,\)"):
        (jax.jit(function) if compiled else function)(jnp.ones(3), jnp.ones(2))


@pytest.mark.parametrize(
    ("mode", "floats", "integers"),
    [
        (None, [2, np.nan, np.nan, -1], [7, -(2**31), -(2**31), 6]),
        ("fill", [2, np.nan, np.nan, -1], [7, -(2**31), -(2**31), 6]),
        ("clip", [0.5, 2, 0.5, -1], [5, 7, 5, 6]),
        ("wrap", [2, 2, 2, -1], [7, 7, 7, 6]),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_take_out_of_bounds(mode, floats, integers, compiled):
    def take(x, i):
        return jnp.take(x, i, axis=-1, mode=mode)

    f, places = (jax.jit(take) if compiled else take), jnp.array([-1, 5, -4, 1])
    close(f(jnp.array([X, X]), places), [floats, floats])
    close(f(jnp.array([5, 6, 7]), places), integers)
    inside = jnp.array([[0, 2], [2, 1]])
    close(f(jnp.array(X), inside), X[np.asarray(inside)])
    close(jax.grad(lambda x: jnp.sum(f(x, inside) ** 2))(jnp.array(X)), 2 * X * [1, 1, 2])
    close(jax.grad(lambda x: jnp.nansum(f(x, places)))(jnp.array(X)), SLOPES_OF_TAKEN[mode])


SLOPES_OF_TAKEN = {None: [0, 1, 1], "fill": [0, 1, 1], "clip": [2, 1, 1], "wrap": [0, 1, 3]}


def test_take_refuses_what_jax_refuses():
    close(jnp.take(jnp.ones((2, 2)), 5, fill_value=-1), -1)
    with pytest.raises(NotImplementedError, match="'raise' mode"):
        jnp.take(X, 0, mode="raise")


class Held:
    """An array of a library's own, which says what array of JAX it is."""

    def __init__(self, value):
        self.value, self.shape, self.dtype = value, value.shape, value.dtype

    def __jax_array__(self):
        return self.value


@pytest.mark.parametrize("kind", [Held, lambda x: tensor(np.asarray(x)), np.asarray, jnp.asarray])
def test_what_has_a_shape_and_values_is_read(kind):
    x = kind(jnp.asarray(X))
    close(jax.jit(lambda v: v * 2)(x), 2 * X)
    close(jax.jit(lambda v: v["x"] * 2)({"x": x}), 2 * X)
    assert jax.eval_shape(lambda v: v * 2, x).shape == X.shape
    with pytest.raises(TypeError, match="ShapeDtypeStruct"):
        jax.jit(lambda v: v * 2)(jax.ShapeDtypeStruct((3,), float))


def test_static_arguments_are_not_looked_for_where_numbers_and_names_are_given():
    def of_leaves(n, *args, **kwargs):
        return args[0] * n + (1 if kwargs["how"] == "up" else 0)

    of_leaves.__signature__ = inspect.Signature(  # of the function that it is made of, as decorators leave it
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("self", "how")]
    )
    f = jax.jit(of_leaves, static_argnums=(0,), static_argnames=("how",))
    close(f(2, jnp.asarray(X), how="up"), 2 * X + 1)


def test_jit_traces_once_for_each_signature():
    traced = []

    @jax.jit
    def f(x, scale=1.0):
        traced.append(x.shape)
        return {"out": jnp.sin(x) * scale}

    with pytest.raises(NotImplementedError, match="compiles no hlo"):
        f.lower(X).compiler_ir("hlo")
    with pytest.raises(NotImplementedError, match="compiles no stablehlo"):
        f.lower(X).compile().as_text()
    close(f.lower(X).compile()(X)["out"], np.sin(X))
    for _ in range(2):
        close(f(X)["out"], np.sin(X))
        close(f(X, scale=2.0)["out"], 2 * np.sin(X))
    assert len(traced) == 2
    close(jax.jit(lambda x, n: x * n, static_argnums=1)(X, 3), 3 * X)
    close(jax.jit(lambda x, how: x + 1 if how == "up" else x, static_argnames="how")(X, how="up"), X + 1)
    close(jax.jit(jax.grad(lambda x: jnp.sum(f(x)["out"])))(X), np.cos(X))
    assert [k for k, _ in jax.tree.leaves_with_path({"a": 1}, is_leaf_takes_path=False)] == [
        (tree_util.DictKey("a"),)
    ]
    asked = []
    tree = {"a": [1, (2, None)], "b": {"c": 3, "d": ()}, "e": None}

    def is_end(path, part):
        asked.append((tree_util.keystr(path), part))
        return len(path) == 2 and part is not None

    found = jax.tree.map_with_path(lambda path, x: len(path), tree, is_leaf=is_end, is_leaf_takes_path=True)
    assert found == {"a": [2, 2], "b": {"c": 2, "d": 2}, "e": None}
    assert [p for p, _ in asked] == [
        *("", "['a']", "['a'][0]", "['a'][1]", "['b']", "['b']['c']", "['b']['d']", "['e']")
    ]
    assert asked[3][1] == (2, None)
    assert list(inspect.signature(f, follow_wrapped=False).parameters) == ["x", "scale"]
    assert type(f).__name__ == "PjitFunction"
    assert repr(f).startswith("<PjitFunction of <function")
    with jax.disable_jit():
        f(X)
    assert len(traced) == 3


def test_functions_are_compiled_once_however_often_jit_is_called():
    traced = []

    def f(x):
        traced.append(x)
        return 2 * x

    @functools.wraps(f)
    def g(x):
        return f(x) + 1

    for _ in range(2):
        close(jax.jit(f)(X), 2 * X)
        close(jax.jit(g)(X), 2 * X + 1)
        close(jax.jit(f, static_argnums=0)(3.0), 6.0)
    assert len(traced) == 3
    jax.jit(f).clear_cache()
    close(jax.jit(f)(X), 2 * X)
    assert len(traced) == 4


def test_attributes_of_functions_stay():
    class Layer:
        def __init__(self):
            self.size = 3

        def __call__(self, x):
            return jnp.sum(x * self.size)

    assert jax.vmap(Layer()).size == jax.grad(Layer()).size == 3
    close(jax.vmap(jax.grad(Layer()))(X), [3, 3, 3])


def test_what_was_compiled_goes_with_its_function():
    def f(x):
        return 2 * x

    close(jax.jit(f)(X), 2 * X)
    kept = weakref.ref(f)
    del f
    gc.collect()
    assert kept() is None


def test_shapes_without_values():
    shape = jax.eval_shape(lambda x: {"y": x @ x}, jax.ShapeDtypeStruct((2, 2), jnp.float32))["y"]
    assert shape == jax.ShapeDtypeStruct((2, 2), np.float32)
    assert jnp.zeros_like(shape).shape == (2, 2)


def test_rules_of_the_users_own():
    @jax.custom_vjp
    def f(x, y):
        return jnp.sin(x) * y

    def fwd(x, y):
        return f(x, y), (jnp.cos(x), {"y": y, "sin": jnp.sin(x)})

    f.defvjp(fwd, lambda kept, g: (10 * kept[0] * g * kept[1]["y"], kept[1]["sin"] * g))
    for found in (jax.grad(f, (0, 1)), jax.jit(jax.grad(f, (0, 1)))):
        x, y = found(1.0, 2.0)
        close(x, 20 * np.cos(1.0))
        close(y, np.sin(1.0))
    close(jax.vmap(jax.grad(f))(jnp.ones(2), jnp.arange(2.0)), 10 * np.cos(1.0) * np.arange(2))

    @jax.custom_jvp
    def square(x):
        return x**2

    square.defjvp(lambda primals, tangents: (square(primals[0]), 7.0 * tangents[0]))
    close(jax.grad(square)(3.0), 7.0)
    close(jax.jvp(square, (3.0,), (2.0,))[1], 14.0)

    clipped = jax.custom_vjp(lambda limit, x: x, nondiff_argnums=(0,))
    clipped.defvjp(lambda limit, x: (x, None), lambda limit, _, g: (jnp.clip(g, -limit, limit),))
    close(jax.grad(lambda x: 5.0 * clipped(0.5, x))(1.0), 0.5)
    close(jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(x))))(X), np.cos(X))


def test_control_flow():
    carry, ys = lax.scan(lambda c, x: (c + x, {"c": c * x}), 0.0, jnp.arange(4.0))
    close(carry, 6.0)
    assert not carry.weak_type
    close(ys["c"], [0.0, 0.0, 2.0, 9.0])
    close(lax.fori_loop(0, 5, lambda i, v: v + i, 0), 10)
    close(lax.while_loop(lambda v: v[0] < 10, lambda v: (v[0] * 2, v[1]), (1, 0.0))[0], 16)
    for f in (
        lambda x: lax.cond(x > 0, jnp.sin, lambda y: -y, x),
        lambda x: lax.switch(x < 0, [jnp.sin, lambda y: -y], x),
    ):
        for g in (f, jax.jit(f)):
            close(g(2.0), np.sin(2.0))
            close(g(-2.0), 2.0)
            close(jax.grad(g)(-2.0), -1.0)
    close(jax.grad(lambda x: lax.scan(lambda c, _: (c * x, None), 1.0, None, length=3)[0])(2.0), 12.0)
    close(jax.grad(lambda x: lax.stop_gradient(x) * x)(3.0), 3.0)
    values, places = lax.top_k(jnp.asarray(X), 2)
    close(values, [2.0, 0.5])
    close(places, [2, 0])
    with pytest.raises(TypeError, match="a carry of dtype int32 becomes float32"):
        lax.fori_loop(0, 3, lambda i, v: v + jnp.float32(1), jnp.int32(0))


# ---- containers


def test_keys_of_dictionaries_come_in_order():
    def order(tree):
        return [(k, order(v)) if isinstance(v, dict) else k for k, v in tree.items()]

    def same(tree):
        return jax.tree.map(lambda x: x * 1.0, tree)

    given = {"b": {"d": 1.0, "c": 2.0}, "a": collections.defaultdict(int, {"z": 3.0, "y": 4.0})}
    expected = [("a", ["y", "z"]), ("b", ["c", "d"])]
    for f in (
        same,
        jax.jit(same),
        jax.grad(lambda t: t["b"]["c"] * t["a"]["z"]),
        lambda t: jax.vjp(same, t)[0],
    ):
        assert order(f(given)) == expected
    assert same(given)["a"].default_factory is int
    seen = []
    jax.jit(lambda t: seen.append(order(t)))(given)
    assert seen == [expected]
    ordered = collections.OrderedDict(b=1, a=2)
    assert list(same(ordered)) == ["b", "a"]
    assert same({"b": 1, 3: 2}) == {"b": 1, 3: 2}


def test_trees():
    tree = {"b": [1, (2, None)], "a": 3}
    leaves, structure = jax.tree.flatten(tree)
    assert leaves == [3, 1, 2]
    assert jax.tree.unflatten(structure, leaves) == tree
    assert jax.tree.map(lambda x, y: x + y, tree, tree) == {"b": [2, (4, None)], "a": 6}
    assert jax.tree.reduce(lambda x, y: x + y, tree) == 6
    assert jax.tree.leaves([1, [2, 3]], is_leaf=lambda x: x == [2, 3]) == [1, [2, 3]]
    paths = [tree_util.keystr(path) for path, _ in tree_util.tree_leaves_with_path(tree)]
    assert paths == ["['a']", "['b'][0]", "['b'][1][0]"]
    assert jax.tree.transpose(
        jax.tree.structure([0, 0]), jax.tree.structure({"x": 0}), [{"x": 1}, {"x": 2}]
    ) == {"x": [1, 2]}

    @dataclasses.dataclass
    class Point:
        x: float
        name: str = "p"

    assert jax.tree.leaves(Point(1.0))[0] == Point(1.0)
    tree_util.register_dataclass(Point, ["x"], ["name"])
    assert jax.tree.map(lambda v: v * 2, Point(1.0)) == Point(2.0)
    ((path, _),) = tree_util.tree_leaves_with_path(Point(1.0))
    assert tree_util.keystr(path) == ".x"
    close(jax.grad(lambda p: p.x**2)(Point(3.0)).x, 6.0)
    part = tree_util.Partial(jnp.multiply, 3.0)
    close(jax.jit(lambda f, x: f(x))(part, 2.0), 6.0)
    flat, back = jax.flatten_util.ravel_pytree({"a": jnp.ones((2, 1)), "b": 2.0})
    close(flat, [1.0, 1.0, 2.0])
    assert back(flat)["a"].shape == (2, 1)


# ---- as a program


PROGRAM = """
import jax, jax.numpy as jnp
params = {"w": jax.random.normal(jax.random.PRNGKey(0), (3,))}
print(__name__, jax.tree.map(jnp.shape, params), float(jax.grad(lambda x: x**3)(2.0)))
"""


def test_it_runs_programs(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "fgrad.compat.jax", str(tmp_path / "program.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("__main__ {'w': (3,)} 12.0\n", 0), done.stderr


def test_keys_draw_jaxs_numbers():
    drawn = jax.random.normal(jax.random.PRNGKey(0), (3,))
    close(drawn, [1.6226422, 2.0252647, -0.43359444])  # JAX 0.10
    close(
        jax.jit(lambda k: jax.random.uniform(k, (2,)))(jax.random.key(1)),
        np.asarray(jax.random.uniform(jax.random.key(1), (2,))),
    )


def test_keys_draw_the_numbers_of_jax_before_0_5():
    key = jax.random.PRNGKey(3)
    drawn = jax.jit(lambda key: jax.random.bits(key, (3,)))
    assert drawn(key).tolist() == [318053758, 4029299397, 2787249374]
    with jax.threefry_partitionable(False):
        keys = [[2464363587, 1846968114], [2877280273, 411445197], [4103991588, 131619366]]
        assert jax.random.split(key, 5)[:3].tolist() == keys
        assert jax.random.bits(key, (5,)).tolist() == [
            877192987,
            1614509672,
            4140764773,
            3448417067,
            2823528474,
        ]
        assert jax.random.bits(key, (5,), "uint8").tolist() == [75, 52, 5, 116, 142]
        assert jax.random.bits(key, (3,), "uint16").tolist() == [13387, 29701, 3726]
        assert jax.random.bits(key, ()).tolist() == 3716834203
        assert jax.random.bits(key, (0,)).shape == (0,)
        assert jax.random.permutation(key, 7).tolist() == [2, 4, 3, 0, 6, 1, 5]
        assert drawn(key).tolist() == [1024511538, 90224275, 2603795180]
        with jax.enable_x64(True):
            words = [3767515194893970219, 6934266243139215386, 8375732073827706173]
            assert jax.random.bits(key, (3,), "uint64").tolist() == words
    assert drawn(key).tolist() == [318053758, 4029299397, 2787249374]


# ---- loops


def test_long_while_loops_go_on_as_compiled_ones():
    """JAX compiles all of them; the steps of inner loops count."""
    scale = jnp.array([0.5, 0.9, 0.999])
    ran = []

    def f(x, limit):
        def step(v):
            ran.append(1)
            inner, _ = lax.scan(lambda c, s: (c * s + x, None), v[1], jnp.stack([scale, 1 / scale]))
            return v[0] + 1, inner * 0.99

        return lax.while_loop(lambda v: v[0] < limit, step, (0, x))[1]

    for limit in (60, 1000):
        ran.clear()
        found = f(X[:3], limit)
        assert len(ran) <= 250
        with jax.disable_jit():
            close(found, f(X[:3], limit), 1e-5)
        assert len(ran) > limit
    limits = jnp.array([0, 30, 700])
    close(jax.vmap(f, (None, 0))(X[:3], limits), np.stack([f(X[:3], n) for n in limits]), 1e-5)
    close(jax.jvp(lambda x: f(x, 700), (X[:3],), (X[:3],))[1], f(X[:3], 700), 1e-4)  # it is linear


def test_long_loops_that_only_eager_mode_can_run():
    def example(x, y):
        scaled = jax.custom_vjp(lambda v: v * y)
        scaled.defvjp(lambda v: (v * y, None), lambda _, ct: (ct * y,))
        return jax.grad(scaled)(x)

    def step(x):
        return 0.5 * x + jax.vmap(example)(x, x)

    close(lax.while_loop(lambda v: v[0] < 300, lambda v: (v[0] + 1, step(v[1]) / 1.5), (0, X))[1], X)
    close(lax.fori_loop(0, 300, lambda _, x: step(x) / 1.5, X), X)


def test_weak_numbers_that_start_a_loop_take_the_dtype_of_later_ones():
    """A count from Python may become a float, as in JAX; it is never cut to an integer again."""
    total = lax.fori_loop(0, 3, lambda _, c: c + 0.5, 0)
    assert (total.item(), total.dtype) == (1.5, np.float32)
    (last, ys), again = lax.while_loop(
        lambda v: v[1] < 3, lambda v: ((v[0][0] + 0.5, v[0][1] * 2), v[1] + 1), ((0, 1), 0)
    )
    assert (last.item(), ys.item(), again.item()) == (1.5, 8, 3)
    carry, ys = jax.jit(lambda xs: lax.scan(lambda c, x: (c + x, c), 0, xs))(X)
    close(carry, X.sum())
    close(ys, np.cumsum(X) - X)
    close(jax.grad(lambda a: lax.fori_loop(0, 3, lambda _, c: c * a + 0.5, 0))(2.0), 2.5)
    for start in (jnp.int32(0), jnp.float32(0)):
        with pytest.raises(TypeError, match="a carry of dtype"):
            lax.scan(lambda c, _: (jnp.int32(1) if c.dtype == jnp.float32 else 0.5, c), start, X)


def test_long_loops_are_compiled():
    read = []

    def body(c, x):
        read.append(c)
        return c * 0.5 + x, c

    xs = jnp.ones(3000)
    last, ys = lax.scan(body, 0.0, xs)
    close(last, 2.0)
    assert ys.shape == (3000,)
    assert len(read) < 10
    assert lax.fori_loop(0, 5000, lambda i, c: c + i, 0).item() == 12497500
    close(jax.grad(lambda a: lax.scan(lambda c, _: (c * a, None), 1.0, xs)[0])(1.0), 3000)
    with jax.disable_jit():
        lax.scan(body, 0.0, jnp.ones(1000))
    assert len(read) >= 1000


def test_places_that_are_one_are_changed_where_values_are_not_known():
    x = jnp.arange(3.0)
    close(jax.jit(lambda i: x.at[i].min(-1))(1), [0, -1, 2])
    close(jax.jit(lambda i: x.at[i].multiply(5))(2), [0, 1, 10])
    close(jax.jit(lambda x: x.at[1:].max(1.5))(x), [0, 1.5, 2])


def test_operands_that_are_none_are_operands():
    assert lax.cond(True, lambda x: x is None, lambda x: x is not None, operand=None).item() is True


def test_compilations_are_logged(caplog):
    twice = jax.jit(lambda x: x * 2)
    with jax.log_compiles():
        twice(X)
        assert "compilation of" in caplog.text
        caplog.clear()
        twice(X)
    assert not caplog.text


def test_sparse_activations():
    x = jnp.array([-2, -0.5, 0.3, 4])
    close(jax.nn.sparse_plus(x), [0, 0.0625, 0.4225, 4])
    close(jax.nn.sparse_sigmoid(x), [0, 0.25, 0.65, 1])
    close(jax.nn.squareplus(x), [0.41421354, 0.78077644, 1.1611874, 4.236068])
    close(jax.nn.hard_tanh(x), [-1, -0.5, 0.3, 1])


def test_errors_and_names_of_jax():
    with pytest.raises(ValueError, match="Incompatible shapes for broadcasting"):
        jnp.broadcast_shapes((2,), (3,))
    tree = jax.tree.transpose(
        outer_treedef=jax.tree.structure([0, 0]), inner_treedef=None, pytree_to_transpose=[(1, 2), (3, 4)]
    )
    assert tree == ([1, 3], [2, 4])


def test_transposed_convolutions():
    """Shapes and sums are JAX's."""
    x = jnp.arange(120.0).reshape(2, 5, 4, 3) / 50
    w = jnp.arange(72.0).reshape(3, 2, 3, 4) / 30
    for options, shape, total in (
        ({"padding": "SAME"}, (2, 10, 12, 4), 3937.3875),
        ({"padding": "VALID"}, (2, 11, 12, 4), 4060.6396),
        ({"padding": ((1, 2), (0, 1)), "rhs_dilation": (2, 1)}, (2, 8, 10, 4), 2714.9094),
    ):
        y = lax.conv_transpose(x, w, (2, 3), **options)
        assert y.shape == shape
        close(jnp.sum(y), total)
    line, pair = jnp.arange(4.0).reshape(1, 4, 1), jnp.arange(6.0).reshape(3, 1, 2)
    y = lax.conv_transpose(line, pair, (2,), ((0, 1),), use_consistent_padding=True)
    close(y[0, :, 0], [0, 0, 4, 2, 8, 4, 12, 6])
    for conv in (lax.conv_transpose, lax.conv_general_dilated):
        short = [2000 * x.astype(jnp.float16), w[..., :3, :].astype(jnp.float16)]
        if conv is lax.conv_general_dilated:
            short = [jnp.moveaxis(short[0], -1, 1), jnp.transpose(short[1], (3, 2, 0, 1))]
        y = conv(*short, (1, 1), "SAME", preferred_element_type=jnp.float32)
        assert y.dtype == jnp.float32
        close(y, conv(*[v.astype(jnp.float32) for v in short], (1, 1), "SAME"))
    z = lax.conv_transpose(x, jnp.swapaxes(w, 2, 3), (2, 3), "SAME", transpose_kernel=True)
    y = lax.conv_transpose(x, w[::-1, ::-1], (2, 3), "SAME")
    close(z, y)


def test_checkpoints_read_their_function_once():
    read = []

    def f(x, y):
        read.append(1)
        return {"a": jnp.sin(x) * y, "n": 3}

    def loss(x):
        again = jax.checkpoint(lambda v: f(v, x))  # what is taken from outside is differentiated too
        return jnp.sum(again(x)["a"]) * again(x)["n"]

    close(jax.grad(loss)(X), 3 * (np.cos(X) * X + np.sin(X)))
    assert len(read) == 2
    close(jax.jit(jax.grad(loss))(X), 3 * (np.cos(X) * X + np.sin(X)))
    close(jax.vmap(jax.grad(loss))(X), 3 * (np.cos(X) * X + np.sin(X)))
    close(jax.grad(lambda x: jnp.sum(jax.grad(loss)(x)))(X), 3 * (2 * np.cos(X) - X * np.sin(X)))
    close(jax.jvp(loss, (X,), (np.ones_like(X),))[1], np.sum(3 * (np.cos(X) * X + np.sin(X))))
    static = jax.checkpoint(lambda x, n: x**n, static_argnums=1)
    close(jax.grad(lambda x: jnp.sum(static(x, 3)))(X), 3 * X**2)
    named = jax.checkpoint(lambda x, n: x ** len(n), static_argnames="n")
    close(jax.grad(lambda x: jnp.sum(named(x, n="abc")))(X), 3 * X**2)


def test_axes_are_added_in_front():
    assert lax.broadcast_to_rank(jnp.ones(3), 3).shape == (1, 1, 3)


def test_axes_of_different_lengths_are_not_mapped_together():
    with pytest.raises(ValueError, match="inconsistent sizes for array axes to be mapped: 2, 3"):
        jax.vmap(lambda x, y: x)(jnp.ones((2, 3)), jnp.ones(3))
    assert jax.vmap(lambda x, y: x + y, in_axes=(-1, 0))(jnp.ones((2, 3)), jnp.ones(3)).shape == (3, 2)


def test_errors_about_values_that_are_not_known():
    for function in (bool, int, np.asarray, lambda x: jnp.arange(3)[x > 1], lambda x: [1, 2][x]):
        with pytest.raises(jax.errors.ConcretizationTypeError):
            jax.jit(function)(jnp.array(1))
    kept = []
    jax.jit(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        kept[0] + 1
