"""as_njit: compiled programs called inside of other compiled code."""

from __future__ import annotations

import gc
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numba
import numpy as np
import pytest
from tests.helpers import unchecked

import fgrad as fg
from fgrad.kernels import native

pytestmark = unchecked("as_njit is refused")


class Pair(NamedTuple):
    left: np.ndarray
    right: float


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_slope(x):
    slope = np.zeros_like(x)
    slope[:-1] = -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    slope[1:] += 200 * (x[1:] - x[:-1] ** 2)
    return slope


@pytest.fixture(params=["compiled", "interpreted"])
def both_ways(request, monkeypatch):
    """Compile the function, or write the same text for Python."""
    if request.param == "interpreted":
        monkeypatch.setattr(native, "interpreted", lambda: True)
        monkeypatch.setattr(native, "_kernels", {})
    return request.param


def test_complex_numbers(both_ways, rng):
    def f(z, w):
        # Python, which runs kernels there, has no loops of transforms
        return np.sum(z * w), np.fft.fft(z) if both_ways == "compiled" else z, abs(z)

    z, w = rng.normal(size=6) + 1j * rng.normal(size=6), 2j
    for found, expected in zip(fg.jit(f).as_njit(z, w)(z, w), f(z, w), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_value_gradient_and_product(both_ways, rng):
    x, v = rng.normal(size=(2, 5))

    def everything(x, v):
        value, slope = fg.value_and_grad(rosenbrock)(x)
        return value, slope, fg.jvp(fg.grad(rosenbrock), (x,), (v,))[1]

    compute = fg.jit(everything).as_njit(x, v)
    value, slope, product = compute(x, v)
    assert value == pytest.approx(rosenbrock(x), rel=1e-14)
    np.testing.assert_allclose(slope, rosenbrock_slope(x), rtol=1e-12)
    h = 1e-6
    differences = (rosenbrock_slope(x + h * v) - rosenbrock_slope(x - h * v)) / (2 * h)
    np.testing.assert_allclose(product, differences, rtol=1e-6)
    again = compute(np.repeat(x, 2)[::2], v[::-1].copy()[::-1])  # neither is contiguous
    np.testing.assert_array_equal(again[2], product)
    odd = np.frombuffer(b"\0" + x.tobytes(), np.float64, 5, 1)  # neither aligned nor writable
    assert not odd.flags.aligned
    np.testing.assert_array_equal(compute(odd, v)[1], slope)
    with pytest.raises(ValueError, match=r"everything.as_njit: the argument v must have shape \(5,\)"):
        compute(x, v[1:])


def test_hamiltonian_monte_carlo_in_numba():
    """x ~ N(0, 1), y | x ~ N(x²/2, 1): so E y = 1/2, Var y = 1/2 + 1, Cov(x, y) = 0, E x²y = 3/2."""

    def energy(z):
        return z[0] ** 2 / 2 + (z[1] - z[0] ** 2 / 2) ** 2 / 2

    force = fg.jit(fg.value_and_grad(energy)).as_njit(np.zeros(2))

    @numba.njit
    def sampled(count, steps, size, seed):
        np.random.seed(seed)
        z, p, new, out, accepted = np.zeros(2), np.empty(2), np.empty(2), np.empty((count, 2)), 0
        u, slope = force(z)
        for i in range(count):
            for k in range(2):
                p[k], new[k] = np.random.standard_normal(), z[k]
            v, s, kinetic = u, slope, (p[0] ** 2 + p[1] ** 2) / 2
            dt = size * (0.7 + 0.6 * np.random.random())
            for _ in range(steps):
                for k in range(2):
                    p[k] -= dt / 2 * s[k]
                    new[k] += dt * p[k]
                v, s = force(new)
                for k in range(2):
                    p[k] -= dt / 2 * s[k]
            if np.log(np.random.random()) < u - v + kinetic - (p[0] ** 2 + p[1] ** 2) / 2:
                u, slope, accepted = v, s, accepted + 1
                z[0], z[1] = new
            out[i] = z
        return out, accepted / count

    z, rate = sampled(100_000, 8, 0.3, 3)
    assert 0.8 < rate < 1.0
    x, y = z.T
    assert x.mean() == pytest.approx(0.0, abs=0.02)
    assert y.mean() == pytest.approx(0.5, abs=0.02)
    assert x.var() == pytest.approx(1.0, abs=0.03)
    assert y.var() == pytest.approx(1.5, abs=0.05)
    assert np.mean(x * y) == pytest.approx(0.0, abs=0.05)
    assert np.mean(x * x * y) == pytest.approx(1.5, abs=0.1)


def recurrence(x, n):
    """A loop and a branch."""
    y, ys = fg.lax.scan(lambda c, a: (np.sin(c) + a, c * a), x[0], x)
    return fg.lax.cond(n > 0, lambda: y + ys.sum(), lambda: y - ys.sum())


def steps_to_fifty(z):
    return fg.lax.while_loop(lambda state: state[0] < 50.0, lambda s: (1.7 * s[0], s[1] + 1), (z, 0))[1]


def recurrence_reference(x, n):
    c, total = x[0], 0.0
    for a in x:
        total += c * a
        c = np.sin(c) + a
    return c + total if n > 0 else c - total


def test_programs_with_loops_run_in_many_threads_at_once(rng):
    compute = fg.jit(fg.value_and_grad(recurrence)).as_njit(np.zeros(40), 1)
    count = fg.jit(steps_to_fifty).as_njit(1.0)

    @numba.njit(nogil=True)
    def each(xs, n):
        out = np.empty((len(xs), 42))
        for i in range(len(xs)):
            out[i, 0], out[i, 1:41] = compute(xs[i], n)
            out[i, 41] = count(1.0 + xs[i, 0] ** 2)
        return out

    xs = rng.normal(size=(8, 300, 40))
    alone = [each(part, k % 2) for k, part in enumerate(xs)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(each, xs, [k % 2 for k in range(8)]))
    np.testing.assert_array_equal(alone, together)
    for k, part in enumerate(xs):
        np.testing.assert_allclose(
            alone[k][:9, 0], [recurrence_reference(x, k % 2) for x in part[:9]], rtol=1e-12
        )
        steps = np.ceil(np.log(50.0 / (1.0 + part[:, 0] ** 2)) / np.log(1.7))
        np.testing.assert_array_equal(alone[k][:, 41], steps)
    x, h = xs[1, 0], 1e-6
    differences = [
        (recurrence_reference(x + h * e, 1) - recurrence_reference(x - h * e, 1)) / (2 * h)
        for e in np.eye(40)
    ]
    np.testing.assert_allclose(alone[1][0, 1:41], differences, rtol=2e-5, atol=1e-6)


def test_tuples_numbers_and_constants_come_and_go(both_ways):
    table = np.array([[1.0, 2.0], [3.0, 4.0]])

    def mixed(pair, scale, flag, n):
        (a, b), c = pair.left, pair.right
        return Pair(c, (a, a, b * b)), (table, 7, True), np.where(flag, n * scale, -n), a > b, np.float64(2.5)

    pair = Pair((np.array([1.0, 2.0]), np.array([3, 4], np.float32)), 1 + 2j)
    compute = fg.jit(mixed).as_njit(pair, 0.5, True, np.int32(3))
    out = compute(pair, 0.5, False, np.int32(3))
    left = (np.array([1.0, 2.0]),) * 2 + (np.array([9, 16], np.float32),)
    assert type(out[0]).__name__ == "Pair"
    assert out[0].left == 1 + 2j
    assert (*out[1][1:], out[2], out[4]) == (7, True, -3.0, 2.5)
    for found, expected in zip(
        (*out[0].right, out[1][0], out[3]), (*left, table, [False, False]), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    assert out[0].right[2].dtype == np.float32
    arrays = [*pair.left, *out[0].right, out[1][0], table]
    for i, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in arrays[:i])  # results are arrays of their own
    assert compute(pair, 2, np.True_, np.int8(3))[2] == 6.0  # numbers convert where that is safe
    other = Pair(pair.left, 1.0)
    assert compute(other, np.float32(0.5), True, np.array(3, np.int32))[0].left == 1.0


def test_arguments_that_it_was_not_compiled_for_are_errors(both_ways):
    compute = fg.jit(lambda x, n: (x[0].sum() + x[1]) * n).as_njit((np.zeros((2, 3)), 1.0), 2)
    wrong = numba.TypingError if both_ways == "compiled" else TypeError
    for args, words in (
        (((np.zeros((2, 3), np.float32), 1.0), 2), r"must be float64\[2,3\], not float32"),
        (((np.zeros(6), 1.0), 2), r"must be float64\[2,3\], not float64"),
        (((np.zeros((2, 3)), 1j), 2), r"argument x\[1\] must be float64\[\], not complex128"),
        (((np.zeros((2, 3)), 1.0), 2.0), r"argument n must be int64\[\], not float64"),
        (((np.zeros((2, 3)), 1.0, 3.0), 2), "takes a tuple of 2 here, not"),
        ((np.zeros((2, 3)), 2), "takes a tuple of 2 here, not"),
    ):
        with pytest.raises(wrong, match=words):
            compute(*args)


def test_integers_and_indices_are_checked_when_it_runs(both_ways):
    compute = fg.jit(lambda x, i, n: (x[i], np.full(2, 100, np.int8) + n)).as_njit(
        np.arange(4.0), np.array([0, 0]), 1
    )
    found = compute(np.arange(4.0), np.array([3, -4]), 20)
    np.testing.assert_array_equal(found[0], [3.0, 0.0])
    np.testing.assert_array_equal(found[1], [120, 120])
    assert found[1].dtype == np.int8
    for bad in (4, -5):
        with pytest.raises(IndexError, match="out of bounds"):
            compute(np.arange(4.0), np.array([0, bad]), 20)
    with pytest.raises(OverflowError, match="out of bounds for int8"):
        compute(np.arange(4.0), np.array([0, 0]), 300)


def test_static_arguments_are_left_out():
    power = fg.jit(lambda n, x, up: x**n if up else x**-n, static_argnums=(0,), static_argnames="up")
    compute = power.as_njit(3, x=2.0, up=True)
    assert compute(2.0) == 8.0
    assert power.as_njit(2, 2.0, up=False)(4.0) == 1 / 16


def test_what_compiled_code_cannot_have_is_refused():
    x = np.ones((3, 3))
    for fun, args, words in (
        (lambda x: x[0], ([x],), "an argument is or holds a list"),
        (lambda x: x, ({"w": x},), "a dict"),
        (lambda x: [x, x], (x,), "the result is or holds a list"),
        (lambda x: (x, None), (x,), "the result is or holds a NoneType"),
        (lambda x: (x, "name"), (x,), "holds a str"),
        (lambda x: x * 2, (x.astype(np.float16),), "float16.*for which Numba has no type"),
    ):
        with pytest.raises(TypeError, match=words):
            fg.jit(fun).as_njit(*args)
    with pytest.raises(TypeError, match="scale can be given by name only"):
        fg.jit(lambda x, *, scale: x * scale).as_njit(x, scale=2.0)
    with pytest.raises(NotImplementedError, match=r"Python computes matrix_function"):
        fg.jit(lambda x: fg.scipy.linalg.sqrtm(x + x.T + 9 * np.eye(3))).as_njit(x)
    with pytest.raises(NotImplementedError, match="Python computes effect"):
        fg.jit(lambda x: fg.debug.print("{}", x) or x + 1).as_njit(x)
    w = fg.tensor(2.0)
    with fg.GradManager().attach(w), pytest.raises(TypeError, match="reads a Tensor from outside"):
        fg.jit(lambda x: x * w).as_njit(x)


def test_compiled_code_outlives_all_objects_and_is_not_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    constant = np.arange(2000.0)
    inner = fg.jit(lambda x: np.sum(np.tanh(x) * constant)).as_njit(np.ones(2000))

    def outer(x):
        return inner(x)

    call = numba.njit(cache=True)(outer)
    with warnings.catch_warnings(record=True) as caught:  # pickling may say other things of other modules
        warnings.simplefilter("always")
        call(np.ones(2000))
    assert any("Cannot cache compiled function" in str(w.message) for w in caught)
    inner = None
    gc.collect()
    junk = [np.full(2000, np.nan) for _ in range(50)]
    assert call(np.ones(2000)) == pytest.approx(np.tanh(1.0) * 1999000)
    assert len(junk) == 50


def test_scipy_integrates_by_way_of_c():
    """The integrals of the gradient of a function are its differences."""
    scipy = pytest.importorskip("scipy", reason="of the extra `scipy`")
    from scipy import integrate

    bump = fg.jit(lambda x: np.exp(-np.sum(x**2))).as_njit(np.zeros(2))

    @numba.cfunc(numba.float64(numba.intc, numba.types.CPointer(numba.float64)))
    def several(n, x):
        return bump(numba.carray(x, n))

    value, _ = integrate.nquad(scipy.LowLevelCallable(several.ctypes), [(-6.0, 6.0)] * 2)
    assert value == pytest.approx(np.pi, rel=1e-8)
