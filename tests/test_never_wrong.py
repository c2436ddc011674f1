"""Gradients that libraries of this kind have got silently wrong: each right here, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import close, differences

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

RNG = np.random.default_rng(23)
X = RNG.normal(size=(3, 4))
MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]], bool)
NAMESPACES = pytest.mark.parametrize("xp", [fnp, np], ids=["fgrad.numpy", "numpy"])


@NAMESPACES
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "std", "var", "max", "min"])
def test_reductions_where(xp, name, axis):
    options = {"initial": 0.1} if name in {"max", "min"} else {}
    f = lambda x: getattr(xp, name)(x, axis=axis, where=MASK, **options)
    close(fg.vjp(f, X)[0], getattr(np, name)(X, axis=axis, where=MASK, **options))
    check_grads(f, (X,), order=2)
    assert np.all(fg.grad(lambda x: np.sum(f(x)))(X)[~MASK] == 0)


@pytest.mark.parametrize("use", ["w * x", "x * w", "x @ w", "np.dot(w, x)", "np.where(w > 0, x, -x)", "x[i]"])
def test_constants_changed_after_use(use):
    w, i, x = np.array([1.0, -2.0, 3.0]), np.array([2, 0, 2]), np.array([0.5, 1.0, 2.0])

    def f(x, spoil):
        y = eval(use, {"w": w, "x": x, "np": np, "i": i})
        if spoil:
            w[:], i[:] = 5.0, 1
        return np.sum(y * y)

    expected = fg.grad(f)(x, False)
    close(fg.grad(f)(x, True), expected)
    w[:], i[:] = [1.0, -2.0, 3.0], [2, 0, 2]
    t = fg.tensor(x)
    gm = fg.GradManager().attach(t)
    with gm:
        gm.backward(f(t, True))
    close(t.grad, expected)


@NAMESPACES
def test_unique(xp):
    x = np.array([3.0, 1.0, 2.0, 5.0])
    check_grads(lambda x: xp.unique(x) * np.arange(1.0, 5.0), (x,), order=2)
    twice = np.array([2.0, 1.0, 2.0])
    close(fg.grad(lambda x: np.sum(xp.unique(x) * np.array([10.0, 6.0])))(twice), [3.0, 10.0, 3.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: fnp.full((2, 3), a) * b,
        lambda a, b: fnp.linspace(a, b, 5) ** 2,
        lambda a, b: np.linspace(a, b, 5, endpoint=False) ** 3,
        lambda a, b: fnp.divmod(a, b)[1],
        lambda a, b: np.divmod(a, b)[1] ** 2,
        lambda a, b: a % b,
    ],
    ids=["full", "linspace", "np.linspace", "divmod", "np.divmod", "%"],
)
def test_creation_in_its_parameters(make):
    check_grads(make, (7.3, 2.1), order=2)
    assert all(np.any(g != 0) for g in fg.grad(lambda a, b: np.sum(make(a, b)), argnums=(0, 1))(7.3, 2.1))


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "nanmax", "nanmin"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_shares_of_ties_sum_to_one(name, axis):
    x = np.array([[2.0, 2.0, 1.0], [2.0, 0.0, 0.0], [1.0, 2.0, 0.0]])
    for xp in (np, fnp):
        g = fg.grad(lambda x, xp=xp: np.sum(getattr(xp, name)(x, axis=axis)))(x)
        close(g.sum(axis), np.ones(() if axis is None else 3))
        assert len(set(g[g != 0].round(12))) <= 3
        assert np.all(g[x != getattr(np, name)(x, axis=axis, keepdims=True)] == 0)


def test_a_tensor_does_not_fit_into_an_array():
    def f(t):
        b = np.zeros(3)
        b[0] = t
        return np.sum(b)

    with pytest.raises((TypeError, ValueError)) as raised:  # NumPy turns a TypeError into a ValueError
        fg.grad(f)(2.0)
    assert "detach" in str(raised.value) + str(raised.value.__cause__)

    def g(t):
        b = fnp.zeros(3)
        b[0] = t
        b[1:] += t * t
        return np.sum(b)

    close(fg.grad(g)(2.0), 9.0)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


@pytest.mark.parametrize(
    "f",
    [
        softmax,
        lambda x: np.log(softmax(x)),
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
        lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True),
        lambda x: x / x.std(0),
    ],
    ids=["softmax", "log softmax", "normalisation", "unit vectors", "standardisation"],
)
def test_second_order_through_normalisation(f):
    w = RNG.normal(size=X.shape)
    total = lambda x: np.sum(w * f(x) ** 2)
    check_grads(total, (X,), order=2)
    expected = differences(lambda x: fg.grad(total)(x.reshape(3, 4)).ravel(), X.ravel())
    close(fg.hessian(lambda x: total(x.reshape(3, 4)))(X.ravel()), expected, rtol=1e-5, atol=1e-6)


DTYPES = ["float16", "float32", "float64", "longdouble", "complex64", "complex128"]
MIXING = {
    "times float64": lambda x: x * np.linspace(1.0, 2.0, 4),
    "plus complex": lambda x: np.abs(x + 1j),
    "sum": lambda x: np.sum(x, 0) * 2,
    "index": lambda x: x[[0, 0, 1]] * x[1],
    "astype": lambda x: x.astype(np.complex128) * np.float32(3),
    "real": lambda x: np.real(x) + np.imag(x),
    "power": lambda x: x**2,
    "matmul": lambda x: x @ np.ones((4, 2)),
    "mean": lambda x: np.mean(x),
    "where": lambda x: np.where(MASK, x, 1.0),
    "write": lambda x: written(x),
}


def written(x):
    y = fnp.zeros((3, 4), np.complex128)
    y[:, 1] = x[:, 0]
    return y


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MIXING)
def test_gradients_have_the_shape_and_dtype_of_their_argument(name, dtype):
    f = MIXING[name]
    x = X.astype(dtype)
    g = fg.grad(lambda x: np.sum(np.abs(f(x))))(x)
    assert (g.shape, g.dtype) == (x.shape, x.dtype)
    t = fg.tensor(x)
    gm = fg.GradManager().attach(t)
    with gm:
        gm.backward(np.sum(np.abs(f(t))))
    assert (t.grad.shape, t.grad.dtype) == (x.shape, x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_scalars(dtype):
    x = np.asarray(1.5, dtype)
    for point in (x, x[()]):
        g = fg.grad(lambda x: np.abs(x * 1.5) ** 2)(point)
        assert (np.shape(g), g.dtype) == ((), x.dtype)


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_one_triangle_is_read_and_differentiated(uplo):
    a = X[:, :3] @ X[:, :3].T + np.eye(3)
    a[(np.triu_indices if uplo == "L" else np.tril_indices)(3, 1 if uplo == "L" else -1)] += 7.0
    other = np.triu if uplo == "L" else np.tril
    for f in (
        lambda a: np.sum(np.linalg.eigvalsh(a, uplo) ** 3),
        lambda a: np.sum(np.linalg.eigh(a, uplo)[0] ** 3),
        lambda a: np.sum(np.linalg.cholesky(a, upper=uplo == "U") ** 2 * np.arange(1.0, 10.0).reshape(3, 3)),
    ):
        g = fg.grad(f)(a)
        close(g, differences(f, a), rtol=1e-6, atol=1e-6)
        assert np.all(other(g, 1 if uplo == "L" else -1) == 0)


def test_maximum_at_its_edge():
    for f in (lambda x: np.maximum(x, 1.0), lambda x: np.minimum(1.0, x), lambda x: np.clip(x, 1.0, 3.0)):
        close(fg.grad(f)(1.0), 0.5)
        close(fg.jvp(f, (1.0,), (1.0,))[1], 0.5)


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
@pytest.mark.parametrize("f", [np.prod, np.cumprod, lambda x: np.multiply.accumulate(x), np.nanprod])
def test_products_with_zeros(f, zeros):
    x = np.array([2.0, 3.0, -1.0, 0.5])
    x[1 : 1 + zeros] = 0.0
    check_grads(f, (x,), order=2)
    jacobian = fg.jacrev(f)(x)
    assert np.all(np.isfinite(jacobian))
    exact = lambda y: np.array([np.prod(y[:k]) for k in ([4] if f in (np.prod, np.nanprod) else range(1, 5))])
    columns = [(exact(x + h) - exact(x - h)) / 2 for h in np.eye(4)]  # exact: linear in each element
    close(np.atleast_2d(jacobian), np.stack(columns, axis=-1))


@pytest.mark.parametrize("n", [0, 1, 2, 3, -1, -2, 0.0, 2.0, 3.0, np.array([2, 3, 1, 0])])
def test_powers_of_negative_numbers(n):
    x = np.array([-2.0, -0.5, 1.5, 3.0])
    f = lambda x: x**n
    close(fg.grad(lambda x: np.sum(f(x)))(x), n * x ** (np.asarray(n, float) - 1))
    check_grads(f, (x,), order=2)
    close(fg.grad(lambda x: np.sum(x**0.0))(np.zeros(3)), np.zeros(3))


INTEGERS = [(t, n) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "i8") for n in (0, 3, np.iinfo(t).max // 2)]


@pytest.mark.parametrize("dtype", ["e", "f", "d", "F"])
@pytest.mark.parametrize(
    "f", [np.arctan2, np.hypot, np.power, np.float_power, np.divide, np.copysign, np.add]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_integers_beside_numbers(f, dtype):
    """Slopes are computed with numbers: products of integers wrap, quotients of small ones are double."""
    if dtype == "F" and f not in (np.power, np.divide, np.add):
        return
    x = np.array([0.7, 0.2]).astype(dtype)
    for kind, n in [*INTEGERS, ("?", 1)]:
        y = np.full(2, n, kind)
        for call in (lambda x, y: f(x, y), lambda x, y: f(y, x)):
            out = call(x, y)
            for z in (y, fg.tensor(y)):
                found = fg.vjp(lambda x, call=call, z=z: call(x, z), x)[1](np.ones_like(out))[0]
                assert (found.dtype, found.shape) == (x.dtype, x.shape)
                wide = fg.vjp(
                    lambda x, call=call, y=y: call(x, y.astype("d")), x.astype("D" if dtype == "F" else "d")
                )
                expected = wide[1](np.ones_like(wide[0]))[0]
                tol = {"e": 2e-2, "f": 1e-5, "F": 1e-5, "d": 1e-13}[dtype]
                with np.errstate(over="ignore"):
                    np.testing.assert_allclose(found, expected.astype(dtype), rtol=tol, atol=tol)


def test_powers_of_negative_numbers_with_complex_exponents():
    x, z = np.array([-2.0, 3.0]), np.array([0.3 + 0.4j, 1j])
    check_grads(lambda z: np.power(x, z), (z,), order=2)
    check_grads(np.power, (x, z), order=2)
    check_grads(np.float_power, (x, z), order=2)


def test_a_mask_larger_than_what_it_masks_is_refused():
    mask = np.ones((2, 3, 4), bool)
    for name in ("sum", "prod", "mean", "var", "std", "all", "any", "nansum", "nanmean", "nanvar", "nanprod"):
        for xp in (np, fnp):
            with pytest.raises(ValueError, match="where"):
                getattr(xp, name)(fg.tensor(X), axis=0, where=mask)


def test_views_and_overlapping_writes():
    def f(x):
        y = x[:2]
        y += 1.0  # writes to x
        x[1:] = x[:-1] * 10.0  # the right side is read before anything is written
        x[0] = x[2]
        return np.sum(x * np.array([1.0, 2.0, 3.0])) + np.sum(y**2)

    x = np.array([1.0, 2.0, 3.0])
    assert f(x.copy()) == 30.0 + 40.0 + 90.0 + 30.0**2 + 20.0**2
    value, slope = fg.value_and_grad(f)(x)
    assert value == f(x.copy())
    # x becomes [10 (b + 1), 10 (a + 1), 10 (b + 1)], y its first two elements
    close(slope, [20.0 + 2 * 200.0, 10.0 + 30.0 + 2 * 300.0, 0.0])
    assert np.array_equal(x, [1.0, 2.0, 3.0])


def test_a_write_through_two_handles():
    x = fg.tensor([1.0, 2.0])
    gm = fg.GradManager().attach(x)
    with gm:
        y = x  # the same handle
        z = x[...]  # a view
        c = x.copy()
        y *= 3.0
        assert np.array_equal(x.numpy(), [3.0, 6.0])
        assert np.array_equal(z.numpy(), [3.0, 6.0])
        assert np.array_equal(c.numpy(), [1.0, 2.0])
        gm.backward(np.sum(x * z * c))
    close(x.grad, [27.0, 108.0])
