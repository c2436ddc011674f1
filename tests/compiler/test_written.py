"""What programs write in known primitives, or call by address: the results of eager mode, NumPy and SciPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from scipy import linalg as reference
from scipy import signal as reference_signal
from scipy import special as reference_special
from tests.compiler.interpreting import kernels_in_python
from tests.ops.test_primitives import SAMPLES

import fgrad as fg
from fgrad import lax
from fgrad.compiler.matrix_loops import PAIRED
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.kernels import native
from fgrad.scipy import linalg, signal, special

OTHERS = {
    "argsort",
    "argpartition",
    "argmax",
    "argmin",
    "search",
    "put",
    "winners",
    "pivot_order",
    "put_part",
}
OTHERS |= {"max", "min", "nanmax", "nanmin", "prod", "cumsum", "convolve", "max_pool", "window_sum", "real"}
OTHERS |= {
    "put_part",
    "window_spread",
    "float_power",
    "gather",
    "scatter_add",
    "lu_factor",
    "imag",
    "recursion",
}
NAMES = sorted({name for name, p in PRIMITIVES.items() if p.written} | PAIRED.keys() | OTHERS)

pytestmark = pytest.mark.skipif(native.interpreted(), reason="nothing is called by address")


def staged(sample: Any) -> tuple[Any, list[Any]]:
    """Return the function of the arrays among the operands of a sample, and these."""
    arrays = [a for a in sample.args if isinstance(a, np.ndarray)]

    def f(*xs: Any) -> Any:
        given = iter(xs)
        args = [next(given) if isinstance(a, np.ndarray) else a for a in sample.args]
        return bind(sample.primitive, *args, **sample.params)

    return f, arrays


def outcome(f: Any, *args: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(y) for y in fg.tree.leaves(f(*args))]
        except Exception as error:
            return type(error)


def agree(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    """Ask whether results are of one dtype, and equal to rounding relative to the largest element."""
    if isinstance(expected, type) or isinstance(found, type):
        assert found is expected
        return
    for y, e in zip(found, expected, strict=True):
        assert y.dtype == e.dtype
        assert y.shape == e.shape
        rtol = 3e-5 if e.dtype.char in "fF" else tolerance
        with np.errstate(invalid="ignore"):
            size = np.max(np.abs(e[np.isfinite(e)]), initial=0.0) if e.dtype.kind in "fc" else 0
        np.testing.assert_allclose(y, e, rtol=rtol, atol=rtol * float(size))


@pytest.mark.parametrize("name", NAMES)
def test_compiled_samples_are_eager_ones(name):
    for sample in SAMPLES:
        if sample.primitive == name and not any(getattr(a, "dtype", 0) == np.float16 for a in sample.args):
            f, arrays = staged(sample)
            compiled = fg.jit(f)
            agree(outcome(compiled, *arrays), outcome(f, *arrays))
            python = compiled.lower(*arrays).cost().python
            assert not python or PRIMITIVES[name].interpreted, python


RNG = np.random.default_rng(48)


def drawn(dtype: str, *shape: int) -> Any:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype in "FD" else x).astype(dtype)


def definite(dtype: str, *shape: int) -> Any:
    x = drawn(dtype, *shape, shape[-1])
    return x @ np.conj(np.swapaxes(x, -1, -2)) / np.float32(shape[-1]) + np.eye(shape[-1], dtype=dtype)


def total(f: Any) -> Any:
    return lambda *args: sum(np.sum(np.abs(y) ** 2) for y in fg.tree.leaves(f(*args)))


def rebuilt(a: Any) -> Any:
    """Return a matrix and a trace by its Schur form, of which phases and the order are free."""
    t, z = linalg.schur(a, output="complex")
    return z @ t @ np.conj(np.swapaxes(z, -1, -2)), np.trace(t @ t @ t, axis1=-2, axis2=-1)


MATRICES = {
    # function, that of NumPy or SciPy, operands, whether it is differentiated
    "cholesky": (np.linalg.cholesky, None, lambda t, n: (definite(t, 2, n),), True),
    "det": (np.linalg.det, None, lambda t, n: (drawn(t, 2, n, n) / np.float32(n**0.5),), True),
    "slogdet": (lambda a: tuple(np.linalg.slogdet(a)), None, lambda t, n: (definite(t, 2, n),), True),
    "solve": (np.linalg.solve, None, lambda t, n: (definite(t, 2, n), drawn(t, 2, n, 3)), True),
    "inv": (np.linalg.inv, None, lambda t, n: (definite(t, n),), True),
    "pinv": (np.linalg.pinv, None, lambda t, n: (drawn(t, 2, n, 3),), True),
    "lstsq": (
        lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0],
        None,
        lambda t, n: (drawn(t, n + 2, n), drawn(t, n + 2, 2)),
        True,
    ),
    "eigvalsh": (np.linalg.eigvalsh, None, lambda t, n: (definite(t, 2, n),), True),
    "svd": (lambda a: np.linalg.svd(a, compute_uv=False), None, lambda t, n: (drawn(t, 2, n, n + 1),), True),
    "qr": (lambda a: np.linalg.qr(a)[1], None, lambda t, n: (drawn(t, 2, n + 1, n),), True),
    "triangular": (
        lambda a, b: linalg.solve_triangular(a, b, lower=True),
        lambda a, b: reference.solve_triangular(a, b, lower=True),
        lambda t, n: (definite(t, n), drawn(t, n, 2)),
        True,
    ),
    "lu": (linalg.lu, reference.lu, lambda t, n: (drawn(t, n, n + 1),), False),
    "schur": (rebuilt, None, lambda t, n: (drawn(t, 2, n, n) / np.float32(n**0.5),), True),
    "banded": (
        lambda ab, b: linalg.solve_banded((1, 2), ab, b),
        lambda ab, b: reference.solve_banded((1, 2), ab, b),
        lambda t, n: (drawn(t, 4, n) + 8 * np.eye(4, n, -2, dtype=t) + 8, drawn(t, n, 2)),
        True,
    ),
    "sylvester": (
        linalg.solve_sylvester,
        reference.solve_sylvester,
        lambda t, n: (definite(t, n), definite(t, 3), drawn(t, n, 3)),
        True,
    ),
    "expm": (linalg.expm, reference.expm, lambda t, n: (3 * drawn(t, n, n) / np.float32(n**0.5),), True),
    "convolve": (np.convolve, None, lambda t, n: (drawn(t, 7 * n), drawn(t, n)), True),
    "lfilter": (
        signal.lfilter,
        reference_signal.lfilter,
        lambda t, n: (drawn(t, 3), np.array([1, -0.5, 0.2], t), drawn(t, 3, n)),
        True,
    ),
}


@pytest.mark.parametrize("dtype", list("fdFD"))
@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("name", MATRICES)
def test_matrices_of_any_dtype_and_size_are_native_and_theirs(name, n, dtype):
    f, theirs, draw, is_smooth = MATRICES[name]
    args = draw(dtype, n)
    compiled = fg.jit(f)
    assert not compiled.lower(*args).cost().python
    wide = [a.astype("D" if dtype in "FD" else "d") for a in args]
    for found, expected in zip(
        fg.tree.leaves(compiled(*args)), fg.tree.leaves((theirs or f)(*wide)), strict=True
    ):
        tolerance = (2e-4 if dtype in "fF" else 1e-11) * max(1.0, np.max(np.abs(expected)))
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    if is_smooth and n == 3:
        slope = fg.grad(total(f), tuple(range(len(args))))
        assert not fg.jit(slope).lower(*args).cost().python
        for found, expected in zip(fg.jit(slope)(*args), slope(*args), strict=True):
            tolerance = (1e-3 if dtype in "fF" else 1e-9) * max(1.0, np.max(np.abs(expected)))
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", [n for n in MATRICES if n not in {"convolve", "lfilter"}])
def test_loops_with_them_stay_native(name):
    f, _, draw, _ = MATRICES[name]
    args = draw("D", 3)

    def looped(*args: Any) -> Any:
        def step(scale: Any, _: Any) -> Any:
            first = fg.tree.leaves(f(*[scale * a for a in args]))[0]
            return scale + 0.1, np.sum(np.abs(first))

        return lax.scan(step, 1.0, None, length=4)[1]

    assert not fg.jit(looped).lower(*args).cost().python
    np.testing.assert_allclose(fg.jit(looped)(*args), looped(*args), rtol=1e-9)


REFUSED = {
    "cholesky": (np.linalg.cholesky, -np.eye(3) + 0j),
    "inv": (np.linalg.inv, np.ones((40, 40))),
    "complex solve": (np.linalg.inv, np.zeros((3, 3), complex)),
    "triangular": (lambda a: linalg.solve_triangular(a, a), np.zeros((3, 3), complex)),
    "banded": (lambda a: linalg.solve_banded((1, 1), a, np.ones((3, 1))), np.zeros((3, 3))),
    "sylvester": (lambda a: linalg.solve_sylvester(a, -a, a), np.eye(3)),
    "schur": (lambda a: linalg.schur(a, check_finite=False)[0], np.full((3, 3), np.nan)),
    "eig": (np.linalg.eigvals, np.full((3, 3), np.nan)),
    "svd": (lambda a: np.linalg.svd(a, compute_uv=False), np.full((3, 3), np.nan + 0j)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_failures_raise_what_numpy_and_scipy_raise(name):
    f, a = REFUSED[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for _ in range(2):
            with pytest.raises(LinAlgError):
                fg.jit(f)(a)


@pytest.mark.parametrize(
    "f",
    [
        lambda a: np.linalg.eigh(a)[1],
        lambda a: np.linalg.eig(a)[1],
        lambda a: np.linalg.svd(a)[0],
        lambda a: linalg.schur(a)[1],
    ],
)
def test_a_guard_refuses_though_nobody_needs_what_it_returns(f):
    a = np.array([[2, 1 + 1j], [1 - 1j, 3]])
    along = lambda a: fg.jvp(f, (a,), (a + 1,))[1]
    for call in (along, fg.jit(along)):
        with pytest.raises(LinAlgError, match="only up to a phase"):
            call(a)


def test_integers_have_no_negative_powers():
    f, x = fg.jit(np.power), np.array([2, -3, 7, 0])
    np.testing.assert_array_equal(f(x, np.array([62, 41, 0, 5])), x ** np.array([62, 41, 0, 5]))
    with pytest.raises(ValueError, match="negative integer powers"):
        f(x, np.array([1, -1, 1, 1]))


@pytest.mark.parametrize("name", ["bdtr", "bdtri", "nbdtr", "nbdtri", "pdtri", "expn", "yn", "kn", "pbdv"])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_orders_are_cut_as_scipy_cuts_them(name, dtype):
    ufunc = getattr(reference_special, name)
    x = np.array([0.3, 0.7, np.nan, 2.5, 0.0, 1.0, -1.0], dtype)
    k, n = np.array([[1, 2, 3, 2.5, np.nan, 4, 3], [5, 4, 7.7, np.nan, 6, 9, 3]], dtype)
    args = (k, n, x) if ufunc.nin == 3 else (k, x)
    f = fg.jit(getattr(special, name))
    assert not f.lower(*args).cost().python
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = ufunc(*args)
    for found, e in zip(fg.tree.leaves(f(*args)), fg.tree.leaves(expected), strict=True):
        assert found.dtype == e.dtype
        np.testing.assert_array_equal(found, e)


CONVOLUTIONS = [
    ((4, 16, 28, 28), (16, 16, 3, 3), 1, 1, 1),
    ((4, 16, 28, 28), (16, 4, 3, 3), 1, 1, 4),
    ((2, 64, 14, 14), (64, 64, 1, 1), 1, 0, 1),
    ((8, 2, 28, 28), (6, 2, 5, 5), 1, 2, 1),
    ((1, 2, 9, 8), (4, 1, 3, 2), 2, 1, 2),
    ((1, 1, 30, 30), (1, 1, 9, 9), 1, 0, 1),
    ((4, 8, 43, 42), (8, 8, 3, 3), 2, 1, 1),
    ((3, 6, 60, 61), (8, 3, 5, 4), 3, 2, 2),
    ((4, 16, 32, 32), (8, 16, 1, 1), 2, 0, 1),
    ((4, 4, 64, 63), (6, 2, 2, 3), 3, 1, 2),
]


@pytest.mark.parametrize("dtype", ["f", "d", "D"])
@pytest.mark.parametrize(("shape", "kernel", "stride", "pad", "groups"), CONVOLUTIONS)
def test_convolutions_are_native_and_sums_of_products(shape, kernel, stride, pad, groups, dtype):
    x, w = drawn(dtype, *shape), drawn(dtype, *kernel)
    params = {"stride": (stride,) * 2, "padding": ((pad, pad),) * 2, "dilation": (1, 1)}
    f = lambda x, w: bind("conv", x, w, **params, input_dilation=(1, 1), groups=groups)
    if dtype != "D" or x.size < 5000:
        assert not fg.jit(f).lower(x, w).cost().python
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel[2:], (2, 3))[:, :, ::stride, ::stride]
    parts = windows.reshape(shape[0], groups, shape[1] // groups, *windows.shape[2:])
    own = w.reshape(groups, kernel[0] // groups, *kernel[1:])
    expected = np.einsum("ngcyxij,gocij->ngoyx", parts, own, optimize=True)
    expected = expected.reshape(shape[0], kernel[0], *expected.shape[3:])
    tolerance = (2e-4 if dtype == "f" else 1e-11) * np.max(np.abs(expected))
    np.testing.assert_allclose(fg.jit(f)(x, w), expected, rtol=0, atol=tolerance)
    if dtype != "d" and x.size > 1000:
        return  # kernels of slopes take long to compile
    slope = fg.grad(total(f), (0, 1))
    for found, e in zip(fg.jit(slope)(x, w), slope(x, w), strict=True):
        tolerance = (1e-3 if dtype == "f" else 1e-10) * np.max(np.abs(e))
        np.testing.assert_allclose(found, e, rtol=0, atol=tolerance)


def test_python_runs_the_same_programs_where_nothing_is_compiled():
    x, z = drawn("d", 5, 4), drawn("D", 4)
    with kernels_in_python():
        for f, v in ((lambda x: np.maximum.accumulate(x, 1), x), (np.cumprod, z), (np.linalg.pinv, x)):
            np.testing.assert_allclose(fg.jit(f)(v), f(v), rtol=1e-12)
