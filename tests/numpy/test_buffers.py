"""Arrays to be filled, and loops over elements: `ndarray()`, shapes that are assigned, iterators, targets."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.primitive import NUMPY

RNG = np.random.default_rng(3)
X = RNG.random((2, 3)) + 0.5


# ---- ndarray --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), 3, (2, 0), (2, 3), [4], np.int64(2)])
@pytest.mark.parametrize("dtype", [float, np.float32, complex, int, bool])
def test_ndarray_makes_a_tensor_to_be_filled(shape, dtype):
    made = fnp.ndarray(shape, dtype)
    assert type(made) is fg.Tensor
    wanted = np.ndarray(shape, dtype)
    assert (made.shape, made.dtype) == (wanted.shape, wanted.dtype)
    made[...] = 1
    np.testing.assert_array_equal(made.numpy(), np.ones(shape, dtype))


def test_ndarray_is_the_class_of_tensors_and_arrays():
    for x in (fg.tensor(1.0), np.ones(2), np.ma.ones(2)):
        assert isinstance(x, fnp.ndarray)
    for x in (1.0, np.float64(1), [1.0], None):
        assert not isinstance(x, fnp.ndarray)
    assert issubclass(fg.Tensor, fnp.ndarray)
    assert issubclass(np.ndarray, fnp.ndarray)
    assert not issubclass(float, fnp.ndarray)
    assert fnp.ndarray.sum(fg.tensor(X)) == X.sum()
    assert fnp.ndarray[float, np.dtype[np.float64]] == np.ndarray[float, np.dtype[np.float64]]


def test_ndarray_shares_no_memory():
    for given in ({"buffer": X}, {"offset": 8}, {"strides": (8,)}):
        with pytest.raises(TypeError, match=r"ndarray\(\) takes no buffer.*frombuffer"):
            fnp.ndarray(3, **given)


# ---- t.shape = ... --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [6, -1, (3, 2), (3, -1), [1, 6], (2, 3), (1, 2, 3, 1)])
def test_a_shape_that_is_assigned(shape):
    wanted = X.copy()
    wanted.shape = shape
    weights = RNG.random(wanted.shape)

    def f(x):
        y = x * 2
        y.shape = shape
        assert y.shape == wanted.shape
        y *= y
        return np.sum(weights * y)

    slope = (8 * wanted * weights).reshape(X.shape)
    np.testing.assert_allclose(fg.grad(f)(X), slope)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(X), slope)
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(np.stack([X, X]))[1], slope)
    np.testing.assert_allclose(fg.grad(lambda x: fg.grad(f)(x).sum())(X), 8 * weights.reshape(X.shape))


def test_a_shape_that_is_assigned_leaves_others_alone():
    x = fg.tensor(X)
    y = x.view()
    x.shape = 6
    assert (x.shape, y.shape) == ((6,), (2, 3))


def test_shapes_that_cannot_be_assigned_are_refused_as_in_numpy():
    for wrong, error in ((5, ValueError), ((2, 2), ValueError), ((-1, -1), ValueError)):
        with pytest.raises(error):
            fg.tensor(X).shape = wrong
    for make in (np.asarray, fg.tensor):
        with pytest.raises(AttributeError, match="Incompatible shape"):
            make(X).T.shape = 6
    empty = fg.tensor(np.ones((0, 3)))
    empty.shape = (3, 0)
    assert empty.shape == (3, 0)
    number = fg.tensor(2.0)
    number.shape = (1, 1)
    assert number.shape == (1, 1)


# ---- iterators ------------------------------------------------------------------------------------


def elements(xs, **options):
    """Return what an iterator says at each element."""
    flags = options.get("flags", ())
    found = []
    steps = np.nditer(xs, **options) if not fg.numpy.registry.holds_tensor(xs) else fnp.nditer(xs, **options)
    for values in steps:
        place = tuple(getattr(steps, {"multi_index": "multi_index"}.get(f, "index")) for f in flags)
        found.append((place, np.array(values if isinstance(values, tuple) else [values]).tolist()))
    return found


OPTIONS = [
    {},
    {"order": "F"},
    {"order": "C", "flags": ["multi_index"]},
    {"order": "F", "flags": ["multi_index", "c_index"]},
    {"flags": ["f_index"]},
    {"itershape": (2, 2, 3), "op_flags": [["readonly"]]},
    {"op_dtypes": [complex], "casting": "same_kind", "op_flags": ["readonly", "copy"]},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("x", [X, np.array(3.0), X[:1], X.T.copy(), X.astype(np.float32), np.arange(4)])
def test_nditer_visits_elements_as_numpys_does(x, options):
    if "itershape" in options and x.shape not in ((2, 3), (1, 3), ()):
        options = {**options, "itershape": (2, *x.shape)}
    if x.ndim == 0 and "itershape" in options:
        options = {}
    assert elements(fg.tensor(x), **options) == elements(x, **options)


def test_nditer_of_several_arrays_broadcasts():
    both = [X, X[:, :1]]
    options = {"order": "C", "flags": ["multi_index"], "op_flags": [["readonly"]] * 2}
    assert elements([fg.tensor(X), X[:, :1]], **options) == elements(both, **options)
    steps = fnp.nditer([fg.tensor(X), 2.0], flags=["c_index"])
    total = 0.0
    with steps:
        while not steps.finished:
            total += steps[0] * steps[1] * steps.index
            assert len(steps) == 2
            steps.iternext()
    assert np.isclose(total, 2 * X.ravel() @ np.arange(6))
    steps.reset()
    assert steps.value[0] == X[0, 0]
    assert (steps.shape, steps.ndim, steps.itersize, steps.nop) == ((2, 3), 2, 6, 2)


def test_elements_of_iterators_differentiate():
    def f(x):
        total = 0.0
        for value in fnp.nditer(x, order="C"):
            total = total + value**2
        for place, value in fnp.ndenumerate(x):
            total = total + place[1] * value
        for place in fnp.ndindex(x.shape):
            total = total + x[place] ** 2
        return total

    slope = 4 * X + np.arange(3)
    for transformed in (fg.grad(f), fg.jit(fg.grad(f)), lambda x: fg.vmap(fg.grad(f))(x[None])[0]):
        np.testing.assert_allclose(transformed(X), slope)


def test_what_an_iterator_cannot_do_is_refused():
    t = fg.tensor(X)
    for options, words in (
        ({"op_flags": ["readwrite"]}, r"without readwrite.*numpy\.ndindex"),
        ({"flags": ["external_loop"]}, "without external_loop"),
        ({"op_axes": [[1, 0]]}, "without op_axes"),
    ):
        with pytest.raises(TypeError, match=words):
            fnp.nditer(t, **options)
    with pytest.raises(ValueError, match="zero-sized"):
        fnp.nditer(fg.tensor(np.ones((0, 2))))
    assert list(fnp.nditer(fg.tensor(np.ones((0, 2))), flags=["zerosize_ok"])) == []
    with pytest.raises(TypeError, match=r"order='K'.*give order='C'"):
        fg.jit(lambda x: sum(fnp.nditer(x)))(X)
    with pytest.raises(TypeError, match="order='K'"):
        fnp.nditer([t, fg.tensor(X.T.copy()).T])
    with pytest.raises(AttributeError, match="no multi_index"):
        _ = fnp.nditer(t).multi_index
    assert type(fnp.nditer(X)) is np.nditer


# ---- targets by position --------------------------------------------------------------------------

UFUNCS = sorted(
    {u.__name__ for u in vars(np).values() if isinstance(u, np.ufunc) and u in NUMPY} - {"maximum", "minimum"}
)  # of which NumPy asks for a keyword


@pytest.mark.parametrize("name", UFUNCS)
@np.errstate(invalid="ignore", divide="ignore")
def test_targets_of_ufuncs_by_position(name):
    ufunc = getattr(np, name)
    for dtype in (float, int, bool):
        operands = [np.full((2, 2), 0.5).astype(dtype) + (dtype is int) for _ in range(ufunc.nin)]
        try:
            wanted = ufunc(*operands)
        except TypeError:
            continue
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for function in (ufunc, getattr(fnp, name)):
            targets = [fg.tensor(np.zeros_like(w)) for w in wanted]
            result = function(*map(fg.tensor, operands), *targets)
            for r, t, w in zip(
                result if isinstance(result, tuple) else (result,), targets, wanted, strict=True
            ):
                assert r is t
                np.testing.assert_array_equal(t.numpy(), w)
        return
    raise AssertionError(f"{name} takes none of these")


def test_targets_that_are_operands_differentiate():
    def f(x):
        y = x + 0
        np.multiply(y, y, y)
        fnp.add(y, x, y)
        np.matmul(y, y.T @ y, y)
        return y.sum()

    def plain(x):
        y = x * x + x
        return (y @ (y.T @ y)).sum()

    np.testing.assert_allclose(fg.grad(f)(X), fg.grad(plain)(X))
    np.testing.assert_allclose(fg.jit(fg.grad(f))(X), fg.grad(plain)(X))
