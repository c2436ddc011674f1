"""`differentiate` as users call it: transformations, outputs, refusals."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba import njit
from tests.adjoints.kernels import gauss_seidel, kalman

import fgrad
from fgrad.adjoints import UnsupportedKernelError

SERIES = np.random.default_rng(3).normal(size=7)


def difference(f, x, place, h=1e-6):
    step = np.zeros_like(x)
    step[place] = h
    return (f(x + step) - f(x - step)) / (2 * h)


def test_arrays_run_the_kernel_itself():
    x = np.ones((4, 4))
    fgrad.differentiate(gauss_seidel)(x, np.ones((4, 4)), 1)
    expected = np.ones((4, 4))
    gauss_seidel(expected, np.ones((4, 4)), 1)
    np.testing.assert_array_equal(x, expected)


def test_gradients_of_every_order_agree_with_differences():
    f = fgrad.differentiate(kalman)
    value, (by_series, by_noise) = fgrad.value_and_grad(f, argnums=(0, 1))(SERIES, 0.1, 0.5)
    assert value == kalman(SERIES, 0.1, 0.5)
    assert by_series[2] == pytest.approx(difference(lambda z: kalman(z, 0.1, 0.5), SERIES, 2), rel=1e-6)
    assert by_noise == pytest.approx(
        (kalman(SERIES, 0.1001, 0.5) - kalman(SERIES, 0.0999, 0.5)) / 2e-4, rel=1e-4
    )
    hessian = fgrad.hessian(f)(SERIES, 0.1, 0.5)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)
    assert hessian[0, 3] == pytest.approx(
        difference(lambda z: fgrad.grad(f)(z, 0.1, 0.5)[0], SERIES, 3), rel=1e-6
    )
    _, forward = fgrad.jvp(f, (SERIES, 0.1, 0.5), (SERIES, 0.3, 0.2))
    by_variance = fgrad.grad(f, argnums=2)(SERIES, 0.1, 0.5)
    assert forward == pytest.approx(by_series @ SERIES + 0.3 * by_noise + 0.2 * by_variance)


def test_written_arguments_are_outputs():
    kernel = fgrad.differentiate(gauss_seidel)
    rng = np.random.default_rng(0)
    u, f = rng.normal(size=(5, 5)), rng.normal(size=(5, 5))

    def loss(u, f):
        u = fgrad.tensor(u)
        row = u[2]
        kernel(u, f, 2)
        return (u**3).sum() + row.sum()  # a view of what is written sees it

    def plain(f):
        v = u.copy()
        gauss_seidel(v, f, 2)
        return (v**3).sum() + v[2].sum()

    assert fgrad.grad(loss, argnums=1)(u, f)[1, 3] == pytest.approx(difference(plain, f, (1, 3)), rel=1e-6)
    compiled = fgrad.jit(fgrad.grad(loss, argnums=1))
    np.testing.assert_allclose(compiled(u, f), fgrad.grad(loss, argnums=1)(u, f))


def test_a_manager_follows_a_kernel():
    x = fgrad.tensor(SERIES.copy())
    manager = fgrad.GradManager()
    manager.attach(x)
    with manager:
        y = fgrad.differentiate(kalman)(x, 0.1, 0.5)
        manager.backward(y)
    np.testing.assert_allclose(x.grad, fgrad.grad(fgrad.differentiate(kalman))(SERIES, 0.1, 0.5))


def test_batches():
    f = fgrad.differentiate(kalman)
    many = np.random.default_rng(1).normal(size=(3, 7))
    np.testing.assert_allclose(
        fgrad.vmap(f, in_axes=(0, None, None))(many, 0.1, 0.5), [kalman(z, 0.1, 0.5) for z in many]
    )
    np.testing.assert_allclose(
        fgrad.vmap(fgrad.grad(f), in_axes=(0, None, None))(many, 0.1, 0.5),
        [fgrad.grad(f)(z, 0.1, 0.5) for z in many],
    )


class State(NamedTuple):
    place: float
    speed: float


def test_named_tuples_come_back_as_such():
    @fgrad.kernel
    def moved(state, x):
        for k in range(len(x)):
            state = State(state.place + state.speed * x[k], state.speed * 0.5)
        return state, x[0]

    x = np.array([1.0, 2.0, 4.0])
    plain, _ = moved(State(1.0, 2.0), x)
    for state, first in (moved(State(1.0, 2.0), fgrad.tensor(x)), fgrad.jit(moved)(State(1.0, 2.0), x)):
        assert type(state) is State
        assert state == plain
        assert first == 1.0
    np.testing.assert_allclose(fgrad.grad(lambda x: moved(State(1.0, 2.0), x)[0].place)(x), [2.0, 1.0, 0.5])
    many = fgrad.vmap(lambda x: moved(State(1.0, 2.0), x)[0].place)(np.stack([x, 2 * x]))
    np.testing.assert_allclose(many, [plain.place, 2 * plain.place - 1.0])


def test_kernels_with_tuples_and_closures():
    scale = 3.0

    @njit
    def inner(pair, k):
        x, y = pair
        return x[k] * y * scale

    @fgrad.kernel
    def outer(pair):
        total = 0.0
        for k in range(len(pair[0])):
            total += inner(pair, k) ** 2
        return total, pair[1] * scale

    (by_x, by_y) = fgrad.grad(lambda x, y: outer((x, y))[0], argnums=(0, 1))(np.array([1.0, 2.0]), 0.5)
    np.testing.assert_allclose(by_x, 2 * 9 * 0.25 * np.array([1.0, 2.0]))
    assert by_y == pytest.approx(2 * 9 * 0.5 * 5.0)


def test_arguments_that_share_memory_are_refused():
    kernel = fgrad.differentiate(gauss_seidel)

    def twice(x):
        y = x * 1.0
        kernel(y, y, 1)
        return y.sum()

    def overlapping(x):
        y = x * 1.0
        kernel(y[:-1], y[1:], 1)
        return y.sum()

    for f in (twice, overlapping):
        with pytest.raises(ValueError, match="shares memory with its argument f"):
            fgrad.grad(f)(np.ones((5, 5)))


def test_an_array_cannot_hold_what_is_differentiated():
    out = np.ones((4, 4))
    with pytest.raises(TypeError, match="cannot hold a Tensor"):
        fgrad.grad(lambda f: fgrad.differentiate(gauss_seidel)(out, f, 1) or f.sum())(np.ones((4, 4)))
    np.testing.assert_array_equal(out, np.ones((4, 4)))


def test_the_kernels_exceptions_are_the_users():
    @fgrad.kernel
    def picky(x):
        if x[0] < 0:
            raise ValueError("negative")
        return x[0] * x[1]

    with pytest.raises(ValueError, match="negative"):
        fgrad.grad(picky)(np.array([-1.0, 2.0]))
    np.testing.assert_array_equal(fgrad.grad(picky)(np.array([1.0, 2.0])), [2.0, 1.0])


def draws(x):
    return x[0] * np.random.normal()


def scaled(x):
    return math.ldexp(x[0], 2)


def recursive(x, n):
    return x if n == 0 else x * x


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (draws, "random numbers are drawn. Pass them as an argument"),
        (scaled, r"the derivative of `math.ldexp\(x\[0\], 2\)` is not known"),
    ],
)
def test_refusals_name_the_line_and_a_remedy(function, words):
    line = function.__code__.co_firstlineno + 1
    with pytest.raises(UnsupportedKernelError, match=words) as caught:
        fgrad.grad(fgrad.kernel(function))(np.array([1.0, 2.0]))
    assert f"test_interface.py:{line}: in {function.__name__}" in str(caught.value)


def test_variables_of_another_type_by_declaration_are_refused():
    @fgrad.differentiate
    @numba.njit(locals={"doubled": numba.int64})
    def cut(x):
        doubled = x * 2.0
        return doubled * x

    with pytest.raises(UnsupportedKernelError, match=r"makes doubled a int64, which is a float64"):
        fgrad.grad(cut)(3.3)

    @fgrad.differentiate
    @numba.njit(locals={"total": numba.float64})
    def added(x):
        total = 0
        for k in range(len(x)):
            total = total + x[k] ** 2
        return total

    np.testing.assert_allclose(fgrad.grad(added)(np.array([1.0, 2.0])), [2.0, 4.0])


def test_variables_of_another_type_in_called_kernels_are_refused():
    @numba.njit(locals={"doubled": numba.int64})
    def cut(x):
        doubled = x * 2.0
        return doubled * x

    @fgrad.kernel
    def calls(x):
        return cut(x) * x

    with pytest.raises(UnsupportedKernelError, match=r"in cut, `locals=` makes doubled a int64, which is a"):
        fgrad.grad(calls)(3.3)


@numba.njit("int64(int64)")
def twice_an_integer(n):
    return n * 2


@numba.njit("int64(float64)")
def triple_cut_off(x):
    return x * 3


@numba.njit("float64(float64, int64)")
def power_of_integer(x, n):
    return x**n


@numba.njit("float64(uint8)")
def of_bytes(n):
    return 3.0 * n


@numba.njit("int32(int64)")
def square_that_wraps(n):
    return n * n


@numba.njit("float64(Tuple((int64, float64)))")
def of_a_pair(pair):
    return pair[0] * pair[1]


@numba.njit("UniTuple(int64, 2)(float64, float64)")
def pair_cut_off(x, y):
    return x * y, x + y


@numba.njit(["float64(float64)", "int64(int64)"])
def declared_twice(x):
    return x * 5 / 2


@numba.njit("void(float64[:], int64)")
def scaled(a, n):
    for i in range(len(a)):
        a[i] *= n


@numba.vectorize(["int64(int64)", "float64(float64)"])
def halves(x):
    return x // 2 * x


@numba.vectorize(["float64(float64)"])
def floats_only(x):
    return x * x / 2 + x // 2


@numba.vectorize(["int64(float64)"])
def ufunc_cut_off(x):
    return x * x * 3


@numba.njit
def of_functions(function, x):
    total = 0.0
    for v in x:
        total += function(v) * v
    return total


IN_DECLARED_TYPES = []  # kernels, and their slopes at X
X = np.array([1.75, 2.25, 0.5])


def slopes_are(*slopes):
    def noted(function):
        IN_DECLARED_TYPES.append((numba.njit(function), slopes))
        return function

    return noted


@slopes_are(0, 2, 0)
def an_integer(x):
    return twice_an_integer(x[0]) * x[1]


@slopes_are(0, 5, 0)
def a_result_that_is_cut_off(x):
    return triple_cut_off(x[0]) * x[1]


@slopes_are(3.5, 0, 0)
def an_exponent(x):
    return power_of_integer(x[0], 2.7)


@slopes_are(0, 132, 0)
def a_byte(x):
    return of_bytes(300) * x[1]


@slopes_are(0, 1410065408, 0)
def a_wrapped_integer(x):
    return square_that_wraps(100_000) * x[1]


@slopes_are(0, 1, 0)
def a_pair(x):
    return of_a_pair((x[0], x[1]))


@slopes_are(4, 3, 0)
def pairs(x):
    return pair_cut_off(x[0], x[1])[0] * x[1] + pair_cut_off(y=x[0], x=x[1])[1] * x[0]


@slopes_are(5.625, 4.375, 7)
def of_two_kinds(x):
    return declared_twice(x[0]) * x[1] + declared_twice(3) * x[2]


@slopes_are(2, 4, 0)
def a_function(x):
    return of_functions(twice_an_integer, x)


@slopes_are(10, 1, 0)
def a_ufunc_of_numbers(x):
    return halves(5) * x[0] + halves(x[1])


@slopes_are(10, 18, 21)
def a_ufunc_of_integers(x):
    return np.sum(halves(np.arange(5, 8)) * x)


@slopes_are(5.5, 0.5, 0)
def a_ufunc_of_one_kind(x):
    return floats_only(3) * x[0] + floats_only(True) * x[1]


@slopes_are(0, 0.5, 3)
def a_ufunc_of_one_kind_of_arrays(x):
    return np.sum(floats_only(np.arange(3)) * x)


@slopes_are(9, 24, 0)
def a_ufunc_that_is_cut_off(x):
    return ufunc_cut_off(x[0]) * x[1] + np.sum(ufunc_cut_off(x) * x)


@pytest.mark.parametrize(("kernel", "slopes"), IN_DECLARED_TYPES, ids=lambda v: getattr(v, "__name__", ""))
def test_called_kernels_compute_in_the_types_that_they_were_declared_with(kernel, slopes):
    f = fgrad.differentiate(kernel)
    for run in (lambda g: g, fgrad.jit):
        np.testing.assert_array_equal(run(fgrad.grad(f))(X), slopes)
        np.testing.assert_array_equal(run(f)(X), kernel(X))
        np.testing.assert_array_equal(fgrad.jvp(run(f), (X,), (np.ones(3),)), (kernel(X), sum(slopes)))


def test_called_kernels_that_write_convert_their_arguments():
    @fgrad.kernel
    def f(x):
        y = x * x
        scaled(y, 2.75)
        return y.sum()

    np.testing.assert_array_equal(fgrad.grad(f)(X), 4 * X)


def test_kernels_give_the_types_that_they_were_declared_with():
    @fgrad.differentiate
    @numba.njit("int64(float64, float64)")
    def cut(x, y):
        return x * y

    found = cut(fgrad.tensor(1.75), 3.0)
    assert found.dtype == np.int64
    assert float(found) == 5
    assert fgrad.jit(cut)(1.75, 3.0).dtype == np.int64

    @fgrad.differentiate
    @numba.njit("float64(Tuple((int64, float64)))")
    def of_pairs(pair):
        return pair[0] * pair[1]

    np.testing.assert_array_equal(fgrad.grad(of_pairs)((1.75, 2.25)), (0, 1))
    assert float(fgrad.jit(of_pairs)((1.75, 2.25))) == of_pairs((1.75, 2.25)) == 2.25


def test_only_kernels_are_differentiated():
    with pytest.raises(TypeError, match=r"decorate the function with @numba.njit, or use fgrad.kernel"):
        fgrad.differentiate(recursive)


def test_source_has_the_users_names():
    f = fgrad.differentiate(kalman)
    with pytest.raises(ValueError, match="was not called yet"):
        f.source()
    text = f.source("vjp", SERIES, 0.1, 0.5)
    assert "def kalman_vjp(z, q, r, given_0, sf, si, sc):" in text
    assert "# line" in text
    assert "e_t = " in f.source("jvp", SERIES, 0.1, 0.5)
    with pytest.raises(ValueError, match="source is"):
        f.source("other", SERIES, 0.1, 0.5)


def test_source_and_cost_of_ufuncs_take_what_the_ufunc_takes():
    @numba.vectorize
    def square(x, y):
        return x * x * y

    @numba.guvectorize(["(float64[:], float64, float64[:])"], "(n),()->()")
    def weighted(x, w, out):
        out[0] = w * (x * x).sum()

    x = np.arange(6.0).reshape(2, 3)
    for f, args in ((square, (x, 2.0)), (weighted, (x, 2.0))):
        d = fgrad.differentiate(f)
        assert f"def {d.__name__}_vjp(" in d.source("vjp", *args)
        assert d.cost(*args).array_bytes > 0
        found = fgrad.grad(lambda *given, d=d: d(*given).sum(), argnums=(0, 1))(*args)
        for a, b in zip(found, (4 * x, (x * x).sum()), strict=True):
            np.testing.assert_allclose(a, b)


def test_single_precision_stays():
    @fgrad.kernel
    def f(x):
        total = np.float32(0)
        for k in range(len(x)):
            total += x[k] * x[k]
        return total

    found = fgrad.grad(f)(np.array([1.0, 2.0], np.float32))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.float32([2, 4]))
    assert numba.typeof(found).dtype == numba.float32


@numba.njit
def of_single_precision(x, small):
    double = x * 2
    weights = small * small
    total = np.float32(0)
    for k in range(len(x)):
        total += x[k]
    reduced = (
        np.sum(x * 2),
        np.var(x),
        np.sum(small),
        np.mean(x),
        np.prod(x),
        np.exp(-x * 2),
        np.clip(x, 0.5, 1.0),
    )
    return total, double, x / 3, x * weights, weights, x[0] * 2, reduced


def test_dtypes_are_those_of_numba_in_every_mode():
    x, small = np.array([0.5, 1.5, 2.5], np.float32), np.array([3, 20, 100], np.uint8)
    kernel = fgrad.differentiate(of_single_precision)
    values = fgrad.tree.leaves(of_single_precision(x, small))
    kinds = [np.dtype(k) for k in "ffffBdfdLffff"]
    flat = lambda x: fgrad.tree.leaves(kernel(x, small))
    for outs in (flat(fgrad.tensor(x)), fgrad.jit(flat)(x), fgrad.jvp(flat, (x,), (x,))[0]):
        assert [out.dtype for out in outs] == kinds
        for out, value in zip(outs, values, strict=True):
            np.testing.assert_allclose(np.asarray(out), value, rtol=1e-6)
    assert [out.dtype for out in fgrad.vmap(flat)(x[None])] == kinds
    found = fgrad.grad(lambda x: flat(x)[3].sum())(x)  # as Numba keeps the weights, modulo 256
    np.testing.assert_array_equal(found, np.float32([9, 144, 16]))


def test_a_kernel_computes_in_the_types_that_it_was_declared_with():
    @fgrad.differentiate
    @numba.njit(["float64(float64, float64)", "complex128(complex128, float64)"])
    def halved(x, n):
        return x * x / n

    x = np.float32(0.7)
    for out in (
        halved(fgrad.tensor(x), 2),
        fgrad.jit(halved)(x, 2),
        fgrad.jvp(halved, (x, 2.0), (x, 0.0))[0],
    ):
        assert out.dtype == np.float64
        assert float(out) == halved(x, 2)
    slope = fgrad.grad(halved)(x, 2)
    assert slope.dtype == np.float32
    np.testing.assert_allclose(slope, x, rtol=1e-6)
    np.testing.assert_allclose(fgrad.grad(halved, argnums=1)(3.0, 2.0), -2.25)
    assert halved(fgrad.tensor(np.complex64(1j)), 2).dtype == np.complex128


def test_numbas_function_called_with_a_tensor_says_what_to_do():
    with pytest.raises(TypeError, match=r"call fgrad.differentiate\(function\), or decorate it"):
        fgrad.grad(kalman)(SERIES, 0.1, 0.5)
    with pytest.raises(TypeError, match=r"@fgrad\.differentiate above @numba\.njit"):
        fgrad.jit(kalman)(SERIES, 0.1, 0.5)


def test_check_kernel():
    fgrad.testing.check_kernel(kalman, SERIES, 0.1, 0.5)
    fgrad.testing.check_kernel(gauss_seidel, np.ones((4, 4)), np.eye(4), 2)


def test_a_ufunc():
    @fgrad.differentiate
    @numba.vectorize
    def call_price(spot, strike, time):
        spread = 0.3 * math.sqrt(time)
        d = (math.log(spot / strike) + 0.045 * time) / spread
        near = 0.5 * math.erfc(-d / math.sqrt(2.0))
        far = 0.5 * math.erfc(-(d - spread) / math.sqrt(2.0))
        return spot * near - strike * far

    spot, strike = np.array([90.0, 100.0, 120.0]), np.array([[100.0], [110.0]])
    delta = fgrad.grad(lambda s: call_price(s, strike, 1.0).sum())(spot)
    h = 1e-4
    up, down = call_price(spot + h, strike, 1.0), call_price(spot - h, strike, 1.0)
    np.testing.assert_allclose(delta, ((up - down) / (2 * h)).sum(0), rtol=1e-7)


@fgrad.kernel
def powers(x, steps):
    for _ in range(steps):
        for i in range(1, len(x)):
            x[i] = 0.5 * x[i] * x[i - 1] + 0.1


def test_cost_counts_what_is_recorded():
    x = np.linspace(0.1, 0.9, 11)
    cost = powers.cost(x, 6)
    assert cost.stack_bytes == 6 * 10 * 8
    assert cost.array_bytes == 2 * x.nbytes  # a copy of the argument, and its cotangent
    np.testing.assert_array_equal(x, np.linspace(0.1, 0.9, 11))
    assert fgrad.kernel(powers.__wrapped__, checkpoint=2).cost(x, 6).stack_bytes == 3 * 10 * 8
    assert powers.cost(fgrad.tensor(x), 6) == cost


def test_checkpoint():
    def loss(kernel):
        def f(x):
            held = fgrad.tensor(np.zeros(11))
            held[:] = x
            kernel(held, 7)
            return (held**2).sum()

        return f

    plain = powers.kernel_to_differentiate
    kept = fgrad.differentiate(checkpoint=True)(plain)
    x = np.linspace(0.1, 0.9, 11)
    np.testing.assert_array_equal(fgrad.grad(loss(kept))(x), fgrad.grad(loss(powers))(x))
    for wrong in (0, -3):
        with pytest.raises(ValueError, match="checkpoint is a number of snapshots, or True, not"):
            fgrad.differentiate(plain, checkpoint=wrong)


def test_memory_stays_over_many_calls():
    resource = pytest.importorskip("resource")
    x = np.linspace(0.1, 0.9, 400)

    @fgrad.kernel
    def total(x):
        y = x.copy()
        for _ in range(3):
            for i in range(1, len(x)):
                y[i] = 0.5 * y[i] * y[i - 1] + x[i]
        return np.sum(y)

    def run(times):
        for _ in range(times):
            fgrad.grad(total)(x)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = run(500)
    kibibytes = 1024 if sys.platform == "darwin" else 1
    assert run(10_000) - before < 8 * 1024 * kibibytes  # one array a call would be 30 MiB


@numba.vectorize(["float64(float64, float64)"])
def declared(x, y):
    return x * x / 3 + x // y


@numba.vectorize
def undeclared(x, y):
    return x * x / 3 + x * y


@numba.vectorize(["float32(float64, int64)"])
def mixed_types(x, y):
    return x / 3 + y


@pytest.mark.parametrize("ufunc", [declared, undeclared, mixed_types])
@pytest.mark.parametrize(
    "x", [np.array([1.1, 2.3], "f"), np.array([7, 5]), np.array([0.3, 12.5]), np.array([True, False]), 2.5, 3]
)
@pytest.mark.parametrize("y", [2, np.float32(0.7), np.array([[4], [3]])])
def test_a_ufunc_computes_in_the_types_of_its_loops(ufunc, x, y):
    f = fgrad.differentiate(ufunc)
    try:
        expected = ufunc(np.asarray(x), y)  # a number of Python would take the type of y
    except TypeError:
        with pytest.raises(TypeError):
            f(fgrad.tensor(x), y)
        return
    found = f(fgrad.tensor(x), y)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(f(x, fgrad.tensor(y)), ufunc(x, np.asarray(y)))
    x = np.asarray(x)
    if x.dtype == float:
        slope = fgrad.jvp(lambda x: f(x, y), (x,), (np.ones_like(x),))[1]
        h = 2.0**-6 if expected.dtype == "f" else 2.0**-20
        difference = (ufunc(x + h, y) - ufunc(x - h, y)) / (2 * h)
        np.testing.assert_allclose(slope, difference, rtol=1e-3 if expected.dtype == "f" else 1e-6)


def test_a_ufunc_of_the_wrong_number_of_arguments():
    with pytest.raises(TypeError, match="declared takes 2 arguments, not 1"):
        fgrad.differentiate(declared)(fgrad.tensor(1.0))


def test_a_ufunc_runs_as_its_options_say():
    @numba.vectorize(fastmath=True)
    def shifted(x):
        return (x + 1e16) - 1e16

    @numba.guvectorize(["(float64[:], float64[:])"], "(n)->()")
    def inverses(x, out):
        out[0] = 0.0
        for i in range(len(x)):
            out[0] += 1 / x[i]

    x = np.arange(4.0)
    np.testing.assert_array_equal(fgrad.differentiate(shifted)(fgrad.tensor(x)), shifted(x))
    with np.errstate(divide="ignore"):
        assert fgrad.differentiate(inverses)(fgrad.tensor(x)) == inverses(x) == np.inf
    np.testing.assert_array_equal(fgrad.grad(fgrad.differentiate(inverses))(x + 1), -1 / (x + 1) ** 2)


def test_defaults_of_a_kernel():
    @fgrad.kernel
    def powers(x, n=3, scale=0.5):
        total = 0.0
        for _ in range(n):
            total += scale * x * x
        return total

    assert powers(2.0) == float(powers(fgrad.tensor(2.0))) == 6.0
    assert fgrad.grad(powers)(2.0) == 6.0
    assert fgrad.grad(lambda x: powers(x, scale=1.0))(2.0) == 12.0
    assert fgrad.grad(fgrad.jit(powers))(2.0) == 6.0
    assert "def powers_vjp(" in powers.source("vjp", 2.0)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        powers(n=fgrad.tensor(2.0))
