"""Making arrays: creation functions return Tensors, like NumPy's arrays in value, dtype and shape."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy.cases import as_tensors, integers, kinds, truths, values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

M, V = values((2, 3)), values((3,))

# name: the arguments and keywords of calls; none of them holds an array to differentiate
CREATION = {
    "zeros": [((3,), {}), (((2, 3),), {}), (((),), {}), ((0,), {}), ((3,), {"dtype": int}),
        ((3, np.float32), {}), (([2, 3],), {"dtype": bool}), ((-1,), {})],
    "ones": [((3,), {}), (((2, 3),), {}), (((),), {}), ((3,), {"dtype": np.complex64}), ((3, "f4"), {})],
    "full": [((3, 2.5), {}), (((2, 3), 1), {}), (((), True), {}), ((3, 2.5), {"dtype": int}),
        ((2, 1 + 1j), {}), (((2, 2), [1.0, 2.0]), {}), ((3, 2, np.float32), {}), (([2], 1), {}),
        ((3, [1, 2]), {})],
    "arange": [((3,), {}), ((1, 4), {}), ((1.0, 4, 0.5), {}), ((3,), {"dtype": np.float32}),
        ((5, 1, -2), {}), ((0,), {}), ((3.5,), {}), ((1, 3, 1, np.int8), {}),
        ((), {"start": 1, "stop": 4}), ((), {"stop": 4}), ((1,), {"stop": 4, "step": 2}),
        ((1, 3, 0), {})],
    "eye": [((3,), {}), ((2, 3), {}), ((3, 3, 1), {}), ((3,), {"k": -1}), ((2,), {"dtype": int}),
        ((0,), {}), ((3,), {"M": 2})],
    "identity": [((3,), {}), ((2, int), {}), ((0,), {}), ((2,), {"dtype": np.float32})],
    "tri": [((3,), {}), ((2, 3), {}), ((3, 3, 1), {}), ((3,), {"k": -1}), ((2,), {"dtype": int})],
    "linspace": [((0, 1), {}), ((0, 1, 5), {}), ((0.0, 1.0, 5, False), {}), ((0, 1, 1), {}),
        ((0, 1, 0), {}), ((0, 10, 4), {"dtype": int}), ((2, 1, 3), {}),
        ((0, 1, 4), {"dtype": np.float32}), ((0, 1 + 1j, 3), {}), ((-3, 2, 4), {"dtype": int}),
        ((0, 1, 5), {"retstep": True}), ((0, 1, -1), {}), ((np.float32(0), np.float32(1), 3), {}),
        ((0, 1, 5, True, False, None), {}), (([0, 1], [1, 2], 3), {}), (([0, 1], [1, 2], 3), {"axis": 1}),
        (([0, 1], [1, 2], 3), {"axis": -1}), ((0, 1, 1), {"endpoint": False}), ((0, 1, 2.5), {})],
    "array": [((2.5,), {}), (([1, 2],), {}), (([[1, 2], [3, 4.5]],), {}), (([True],), {}), (([],), {}),
        (([1, 2], float), {}), (([1, 2],), {"dtype": np.float32, "ndmin": 2}), ((2,), {"ndmin": 3}),
        (([1 + 1j],), {}), (([[1, 2], [3]],), {})],
    "asarray": [((2.5,), {}), (([1, 2],), {}), (([1, 2],), {"dtype": float}), (((1, 2), np.float32), {})],
}  # fmt: skip
LIKE = ("zeros_like", "ones_like", "full_like", "empty_like")
NAMES = {*CREATION, *LIKE, "empty", "copy", "meshgrid"}
CALLS = [(name, args, kwargs) for name, calls in CREATION.items() for args, kwargs in calls]


def alike(actual, expected):
    if isinstance(expected, tuple):
        assert type(actual) is tuple
        for a, e in zip(actual, expected, strict=True):
            alike(a, e)
        return
    expected = np.asarray(expected)
    assert isinstance(actual, fg.Tensor)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-6 if expected.dtype.itemsize < 8 else 1e-14)


@pytest.mark.parametrize("name, args, kwargs", CALLS, ids=lambda p: str(p).replace(" ", ""))
def test_creation_as_numpy(name, args, kwargs):
    try:
        expected = getattr(np, name)(*args, **kwargs)
    except Exception as error:
        with pytest.raises(type(error)):
            getattr(fnp, name)(*args, **kwargs)
        return
    alike(getattr(fnp, name)(*args, **kwargs), expected)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "full", "eye", "arange"])
def test_a_created_tensor_can_be_written_to(name):
    made = getattr(fnp, name)(
        *{"full": (3, 2.0), "eye": (3,)}.get(name, (3.0,) if name == "arange" else (3,))
    )
    made[0] = 5.0
    assert float(made[0] if made.ndim == 1 else made[0, 0]) == 5.0


def test_what_is_to_be_filled_starts_with_zeros():
    for made in (
        fnp.empty((2, 3)),
        fnp.empty((2, 3), np.float32),
        fnp.empty_like(fg.tensor(M)),
        fnp.empty_like(M),
    ):
        assert made.shape == (2, 3)
        np.testing.assert_array_equal(made.numpy(), np.zeros((2, 3)))
    assert fnp.empty(3, np.float32).dtype == np.float32
    assert fnp.empty_like(M, dtype=int).dtype == int
    assert fnp.empty_like(M, shape=(4,)).shape == (4,)


@pytest.mark.parametrize("name", LIKE)
@pytest.mark.parametrize("kind", [*kinds(), "0-d", "empty", "list", "number"])
def test_like_another(name, kind):
    x = {**kinds(), "0-d": values(()), "empty": values((0, 3)), "list": [[1, 2]], "number": 2.5}[kind]
    fill = (3,) if name == "full_like" else ()
    for args, kwargs in [
        ((), {}),
        ((np.float32,), {}),
        ((), {"dtype": int}),
        ((), {"shape": (4,)}),
        ((), {"shape": 5}),
        ((), {"dtype": bool, "shape": ()}),
    ]:
        expected = getattr(np, name)(x, *fill, *args, **kwargs)
        if name == "empty_like":
            expected = np.zeros_like(expected)
        alike(getattr(fnp, name)(x, *fill, *args, **kwargs), expected)
        alike(getattr(fnp, name)(as_tensors(x), *fill, *args, **kwargs), expected)
        if isinstance(x, np.ndarray):
            alike(getattr(np, name)(fg.tensor(x), *fill, *args, **kwargs), expected)


def test_full_of_a_tensor():
    check_grads(lambda v: fnp.full((2, 3), v), (V,), 2)
    check_grads(lambda v: fnp.full_like(M, v) * 2, (np.array(2.5),), 2)
    check_grads(lambda x, v: np.full_like(x, v), (M, V), 2)
    assert fnp.full(3, fg.tensor(2)).dtype == int
    with pytest.raises(ValueError, match="broadcast"):
        fnp.full((2, 2), fg.tensor([1.0, 2.0, 3.0]))


def test_line_between_tensors():
    a, b = values((2,)), values((2,), seed=1)
    for kwargs in ({}, {"endpoint": False}, {"axis": 1}, {"dtype": np.float32}):
        alike(fnp.linspace(fg.tensor(a), b, 5, **kwargs), np.linspace(a, b, 5, **kwargs))
        alike(np.linspace(fg.tensor(a), b, 5, **kwargs), np.linspace(a, b, 5, **kwargs))
    check_grads(lambda a, b: fnp.linspace(a, b, 4), (a, b), 2)
    check_grads(lambda a: np.linspace(a, 2.0, 4, endpoint=False), (0.5,), 2)
    line, step = fnp.linspace(fg.tensor(a), b, 5, retstep=True)
    alike((line, step), np.linspace(a, b, 5, retstep=True))


def test_arrays_of_tensors_and_numbers():
    f = lambda x, y: np.array([[x, 2.0], [y, x * y]])
    with pytest.raises(
        TypeError
    ):  # NumPy asks a list for no rule, and a tracked Tensor for its value in vain
        fg.grad(lambda x: np.sum(np.array([x, 2.0])))(1.0)
    g = lambda x, y: fnp.array([[x, 2.0], [y, x * y]])
    alike(g(fg.tensor(2.0), fg.tensor(3.0)), f(2.0, 3.0))
    check_grads(g, (0.5, 0.7), 2)
    check_grads(lambda v: fnp.array([v, np.ones(3), [1, 2, 3]]), (V,), 2)
    check_grads(lambda v: fnp.asarray((v[0], v[1] * 2)), (V,), 2)
    alike(fnp.array([fg.tensor(1), 2.5]), np.array([1, 2.5]))
    alike(fnp.array([fg.tensor([1, 2])], dtype=np.float32, ndmin=3), np.array([[1, 2]], np.float32, ndmin=3))
    with pytest.raises(ValueError, match="one shape"):
        fnp.array([fg.tensor([1.0, 2.0]), 2.0])


def test_an_array_is_a_copy_and_asarray_the_same():
    x = M.copy()
    t = fnp.array(x)
    x[:] = 0
    np.testing.assert_array_equal(t.numpy(), M)
    again = fnp.array(t)
    again[0] = 9.0
    np.testing.assert_array_equal(t.numpy(), M)
    assert fnp.asarray(t) is t
    assert fnp.asarray(t, dtype=np.float64) is t
    assert fnp.asarray(t, np.float32).dtype == np.float32
    alike(fnp.asarray(M), M)


def test_copies():
    for x in kinds().values():
        y = fnp.copy(x)
        assert type(y) is np.ndarray
        assert y is not x
        assert not np.shares_memory(x, y)
        np.testing.assert_array_equal(x, y)
        t = fg.tensor(x)
        for c in (fnp.copy(t), np.copy(t), t.copy()):
            assert c is not t
            assert c.dtype == x.dtype
            np.testing.assert_array_equal(c.numpy(), x)
            c[0, 0] = 1
            np.testing.assert_array_equal(t.numpy(), x)
    np.testing.assert_array_equal(fnp.copy([1, 2]), np.copy([1, 2]))
    np.testing.assert_array_equal(fnp.copy(2.5), np.copy(2.5))
    check_grads(fnp.copy, (M,), 2)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "vectors", [(V,), (V, V[:2]), (V, integers((2,)), V[:1]), (V, V[:0]), (2.0, V), (), (M, V)]
)
def test_grids(vectors, sparse, indexing):
    expected = np.meshgrid(*vectors, indexing=indexing, sparse=sparse)
    for g, e in zip(fnp.meshgrid(*vectors, indexing=indexing, sparse=sparse), expected, strict=True):
        assert isinstance(g, np.ndarray)
        assert g.dtype == e.dtype
        np.testing.assert_array_equal(g, e)
    if vectors:
        tensors = [
            as_tensors(vectors[0]) if isinstance(vectors[0], np.ndarray) else fg.tensor(vectors[0]),
            *vectors[1:],
        ]
        for module in (fnp, np):
            made = module.meshgrid(*tensors, indexing=indexing, sparse=sparse)
            alike(tuple(made), tuple(expected))
            assert type(made) is type(expected)
    check_grads(lambda x, y: fnp.meshgrid(x, y, indexing=indexing, sparse=sparse), (V, V[:2]), 2)


def test_an_unknown_order_of_a_grid():
    with pytest.raises(ValueError, match="indexing"):
        fnp.meshgrid(fg.tensor(V), V, indexing="yx")


def test_constants_and_dtypes_are_those_of_numpy():
    for name in ("pi", "e", "inf", "newaxis", "euler_gamma"):
        assert getattr(fnp, name) == getattr(np, name)
    assert np.isnan(fnp.nan)
    for name in ("float16", "float32", "float64", "complex64", "complex128", "int8", "int16", "int32",
        "int64", "uint8", "uint16",
                 "uint32", "uint64", "bool_", "finfo", "iinfo", "dtype"):  # fmt: skip
        assert getattr(fnp, name) is getattr(np, name)


def test_truth_values_survive():
    assert fnp.array(truths()).dtype == bool
    assert fnp.zeros_like(truths()).dtype == bool
