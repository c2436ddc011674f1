"""Compiled arithmetic of complex numbers: what NumPy gives, for every combination of special values."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import linalg as reference
from tests.compiler.interpreting import kernels_in_python

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.compat import numpy as layout
from fgrad.compiler.plan import Python
from fgrad.core.primitive import PRIMITIVES
from fgrad.scipy import linalg

SPECIAL = [0.0, -0.0, 1.0, -1.5, 0.3, 800.0, np.inf, -np.inf, np.nan]
NUMBERS = np.array([complex(a, b) for a, b in itertools.product(SPECIAL, SPECIAL)])
LEFT, RIGHT = (x.ravel() for x in np.meshgrid(NUMBERS, NUMBERS))
REAL = np.repeat(SPECIAL, len(NUMBERS))
DTYPES = [np.complex64, np.complex128]


def python_steps(f: Any, *args: Any) -> list[str]:
    """Return what Python computes of a compiled function."""
    plan = f.lower(*args).compile()._plan
    return [s.equation.params.get("of", s.equation.name) for s in plan.steps if isinstance(s, Python)]


def agree(found: Any, expected: Any, ulp: float = 4.0) -> None:
    """Demand the same infinities, NaN and signed zeros, and numbers to a few units of the larger part."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
        return
    eps = np.finfo(expected.dtype).eps
    parts = [np.where(np.isfinite(y), np.abs(y), 0) for y in (expected.real, expected.imag)]
    scale = np.maximum(*parts) + np.finfo(expected.dtype).tiny
    for x, y in ((found.real, expected.real), (found.imag, expected.imag)):
        odd = ~np.isfinite(y)
        np.testing.assert_array_equal(x[odd], y[odd])
        assert np.all(np.isfinite(x[~odd]))
        assert np.all(np.abs(x - y)[~odd] <= ulp * eps * scale[~odd])
        zero = (y == 0) & (x == 0)
        np.testing.assert_array_equal(np.signbit(x[zero]), np.signbit(y[zero]))


def compiled(f: Callable[..., Any], *args: Any, ulp: float = 4.0) -> None:
    """Demand that a function is compiled, and gives what NumPy gives."""
    j = fg.jit(lambda *xs: f(fnp, *xs))
    assert python_steps(j, *args) == []
    with np.errstate(all="ignore"):
        agree(j(*args), f(np, *args), ulp)


UNARY: dict[str, Callable[..., Any]] = {
    "negative": lambda np, z: -z,
    "conjugate": lambda np, z: np.conj(z),
    "real": lambda np, z: np.real(z),
    "imag": lambda np, z: np.imag(z),
    "absolute": lambda np, z: np.abs(z),
    "angle": lambda np, z: np.angle(z),
    "square": lambda np, z: np.square(z),
    "reciprocal": lambda np, z: np.reciprocal(z),
    "isnan": lambda np, z: np.isnan(z),
    "isinf": lambda np, z: np.isinf(z),
    "isfinite": lambda np, z: np.isfinite(z),
    "logical_not": lambda np, z: np.logical_not(z),
    "as truth": lambda np, z: z.astype(bool),
    "multiplied by i": lambda np, z: 1j * z,
    "added to i": lambda np, z: z + 1j,
    "divided by 2": lambda np, z: z / 2.0,
    "divided by a number": lambda np, z: z / (1.5 - 2j),
    "divided by zero": lambda np, z: z / 0.0,
    "dividing": lambda np, z: 1 / z,
    "exp": lambda np, z: np.exp(z),
    "log": lambda np, z: np.log(z),
    "log2": lambda np, z: np.log2(z),
    "log10": lambda np, z: np.log10(z),
    "sqrt": lambda np, z: np.sqrt(z),
    "sin": lambda np, z: np.sin(z),
    "cos": lambda np, z: np.cos(z),
    "sinh": lambda np, z: np.sinh(z),
    "cosh": lambda np, z: np.cosh(z),
    **{f"power {n}": lambda np, z, n=n: np.power(z, n) for n in (-7, -2, -1, 0, 1, 2, 3, 4, 5, 10)},
    "phase": lambda np, z: np.exp(1j * z.real),
    "phase of zero": lambda np, z: np.exp(0 * 1j * z.imag),
    "chosen": lambda np, z: np.where(np.isnan(z), 0, z),
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": lambda np, x, y: x + y,
    "subtract": lambda np, x, y: x - y,
    "multiply": lambda np, x, y: x * y,
    "divide": lambda np, x, y: x / y,
    "equal": lambda np, x, y: x == y,
    "not_equal": lambda np, x, y: x != y,
    "logical_and": lambda np, x, y: np.logical_and(x, y),
    "logical_or": lambda np, x, y: np.logical_or(x, y),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_special_values(name: str, dtype: Any) -> None:
    compiled(UNARY[name], NUMBERS.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "cos", "sinh", "cosh"])
def test_each_part_is_accurate_wherever_it_is(name: str, dtype: Any) -> None:
    r = np.random.default_rng(0)
    top = int(np.log10(np.finfo(dtype).max))
    sizes = 10.0 ** r.uniform(-top, top, (2, 3000))
    around = np.exp(1j * r.uniform(-4, 4, 3000)) * (1 + 10.0 ** r.uniform(-18, -1, 3000))
    angles = r.uniform(-2.5, 2.5, 3000) * top + 1j * r.uniform(-20, 20, 3000)
    signs = r.choice([-1, 1], (2, 3000))
    wide = signs[0] * sizes[0] + 1j * signs[1] * sizes[1]
    z = np.concatenate([around, angles, 1j * angles] if name not in {"log", "sqrt"} else [around, wide])
    z = z.astype(dtype)
    f = fg.jit(lambda z: getattr(fnp, name)(z))
    with np.errstate(all="ignore"):
        found, expected = f(z), getattr(np, name)(z)
        for x, y in ((found.real, expected.real), (found.imag, expected.imag)):
            bound = 6 * np.finfo(dtype).eps * np.abs(y) + 4 * np.finfo(dtype).smallest_subnormal
            same = (x == y) | (np.abs(x - y) <= bound) | (np.isnan(x) & np.isnan(y))
            assert np.all(same), (z[~same][:3], found[~same][:3], expected[~same][:3])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_of_special_values(name: str, dtype: Any) -> None:
    compiled(BINARY[name], LEFT.astype(dtype), RIGHT.astype(dtype))
    real = REAL.astype(np.finfo(dtype).dtype)
    compiled(BINARY[name], real, np.tile(NUMBERS, len(SPECIAL)).astype(dtype))
    compiled(BINARY[name], np.tile(NUMBERS, len(SPECIAL)).astype(dtype), real)


def drawn(*shape: int, dtype: Any = np.complex128, seed: int = 0) -> Any:
    r = np.random.default_rng([seed, *shape])
    return (r.normal(size=shape) + 1j * r.normal(size=shape)).astype(dtype)


MOVED: dict[str, Callable[..., Any]] = {
    "reshape": lambda np, z: z.reshape(6, 4) * 2,
    "transpose": lambda np, z: z.transpose(2, 0, 1) + 1,
    "slice": lambda np, z: z[1, ::-1, 1:3],
    "broadcast": lambda np, z: np.broadcast_to(z[0], (5, 3, 4)) * z[0, 0],
    "concatenate": lambda np, z: np.concatenate([z, z[:, :1].real, 1j * z], 1),
    "stack": lambda np, z: np.stack([z, np.ones((2, 3, 4)), np.conj(z)], 2),
    "unstack": lambda np, z: sum(z[0]) * z[1, 2],
    "gather": lambda np, z: z[:, np.array([2, 0, 2])] - 1,
    "pad": lambda np, z: np.pad(z, ((0, 0), (1, 2), (0, 1))),
    "roll": lambda np, z: np.roll(z, 1, axis=2),
    "triangle": lambda np, z: np.tril(z),
    "diagonal": lambda np, z: np.diagonal(z, 0, 1, 2),
    "real as complex": lambda np, z: z.real.astype(complex).reshape(4, 6),
    "sum": lambda np, z: np.sum(z),
    "sum of rows": lambda np, z: np.sum(z, axis=(0, 2), keepdims=True),
    "mean": lambda np, z: np.mean(z, axis=1),
    "cumsum": lambda np, z: np.cumsum(z, axis=1),
    "norm": lambda np, z: np.sum(np.abs(z) ** 2, axis=-1),
    "variance": lambda np, z: np.var(z, axis=0),
    "prod": lambda np, z: np.prod(z),
    "prod of rows": lambda np, z: np.prod(z, axis=1),
    "outer": lambda np, z: z[0, 0][:, None] * z[1, 0],
    "product": lambda np, z: z[0] @ z[1].T,
    "product with real": lambda np, z: np.abs(z[0]) @ z[1].T,
    "vector": lambda np, z: z[0] @ z[1, 1],
    "einsum": lambda np, z: np.einsum("abc,abd->bcd", z, np.conj(z)),
    "vdot": lambda np, z: np.vdot(z, z + 1),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MOVED)
def test_movement_reductions_and_products(name: str, dtype: Any) -> None:
    compiled(MOVED[name], drawn(2, 3, 4, dtype=dtype), ulp=20)


def test_large_products_go_to_blas() -> None:
    x, y = drawn(70, 80), drawn(80, 90, seed=1)
    f = fg.jit(lambda x, y: x @ y)
    assert python_steps(f, x, y) == []
    assert f.lower(x, y).source.count("BLAS") == 4  # a product for each two parts
    np.testing.assert_allclose(f(x, y), x @ y, rtol=1e-12)


def test_real_factors_halve_a_product() -> None:
    x, y = drawn(70, 80), np.random.default_rng(0).normal(size=(80, 90))
    f = fg.jit(lambda x, y: x @ y)
    assert f.lower(x, y).source.count("BLAS") == 2
    np.testing.assert_allclose(f(x, y), x @ y, rtol=1e-12)


def test_products_over_many_short_axes_are_few_kernels() -> None:
    state, gate = drawn(*(2,) * 9), drawn(2, 2)
    f = fg.jit(lambda s, g: fnp.moveaxis(fnp.tensordot(g, s, ([1], [4])), 0, 4))
    lowered = f.lower(state, gate)
    assert lowered.cost().kernels <= 5
    assert max(len(part.splitlines()) for part in lowered.source.split("def kernel")) < 60
    np.testing.assert_allclose(
        f(state, gate), np.moveaxis(np.tensordot(gate, state, ([1], [4])), 0, 4), rtol=1e-13
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_loops_and_branches(dtype: Any) -> None:
    def run(z: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = c * x + 1j
            return c / 2, fnp.conj(c)

        last, ys = fg.lax.scan(step, z, xs)
        grown = fg.lax.while_loop(lambda c: fnp.abs(c).sum() < 50, lambda c: c * (1 + 1j) + 1, last)
        return fg.lax.cond(fnp.real(grown[0]) > 0, lambda c: c * 2, lambda c: 1j * c, grown), ys, last.real

    z, xs = drawn(3, dtype=dtype), drawn(7, 3, dtype=dtype, seed=2)
    f = fg.jit(run)
    assert python_steps(f, z, xs) == []
    for found, expected in zip(f(z, xs), run(z, xs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5 if dtype == np.complex64 else 1e-13)
        assert found.dtype == expected.dtype


def test_derivatives_of_loops() -> None:
    def f(z: Any, xs: Any) -> Any:
        last, ys = fg.lax.scan(lambda c, x: (c * x + x, fnp.abs(c)), z, xs)
        return fnp.sum(ys) + fnp.sum(fnp.real(last * fnp.conj(z)))

    z, xs = drawn(3), drawn(6, 3, seed=2)
    g = fg.grad(f, argnums=(0, 1))
    assert python_steps(fg.jit(g), z, xs) == []
    for found, expected in zip(fg.jit(g)(z, xs), g(z, xs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_loops_with_what_python_computes() -> None:
    def f(z: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return linalg.logm(fnp.diag(c) + 3).diagonal() + fnp.sum(c), c[0]

        return fg.lax.scan(step, z, None, length=4)

    z = drawn(5)
    assert python_steps(fg.jit(f), z) == ["lax.scan"]
    for found, expected in zip(fg.jit(f)(z), f(z), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_python_computes_takes_and_gives_memory_as_it_is() -> None:
    f = fg.jit(lambda z: linalg.logm(linalg.logm(z)))
    z = drawn(4, 4)
    assert python_steps(f, z) == ["matrix_function", "matrix_function"]
    assert len(f.lower(z).compile()._plan.steps) == 2  # no copies around them
    np.testing.assert_allclose(f(z), reference.logm(reference.logm(z)), rtol=1e-12)


def transformed(np: Any, z: Any, axis: int, norm: Any) -> list[Any]:
    options = {"axis": axis, "norm": norm}
    real = np.real(z)
    half = np.fft.rfft(real, **options)
    return [
        *(np.fft.fft(z, **options), np.fft.ifft(z, **options), np.fft.fft(real, n=5, **options)),
        *(half, np.fft.irfft(half, **options), np.fft.irfft(half, n=z.shape[axis], **options)),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_fourier_transforms(axis: int, norm: Any, dtype: Any) -> None:
    z = drawn(4, 7, 6, dtype=dtype)
    f = fg.jit(lambda z: transformed(fnp, z, axis, norm))
    assert python_steps(f, z) == []
    for found, expected in zip(f(z), transformed(np, z, axis, norm), strict=True):
        assert found.dtype == expected.dtype
        scale = np.finfo(dtype).eps * np.max(np.abs(expected))
        np.testing.assert_allclose(found, expected, rtol=0, atol=8 * scale)


def test_fourier_transforms_in_loops_and_in_place_of_numpys_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(z: Any) -> Any:
        step = lambda c, _: (fnp.fft.ifft(fnp.fft.fft(c) * z), c[0])
        return fg.lax.scan(step, z, None, length=4)

    z, expected = drawn(6), f(drawn(6))
    assert python_steps(fg.jit(f), z) == []
    for found, y in zip(fg.jit(f)(z), expected, strict=True):
        np.testing.assert_allclose(found, y, rtol=1e-12)
    monkeypatch.setattr(layout, "transforms_are_known", lambda: False)
    other = fg.jit(lambda z: f(z))
    assert python_steps(other, z) == ["lax.scan"]
    for found, y in zip(other(z), expected, strict=True):
        np.testing.assert_allclose(found, y, rtol=1e-12)


def test_outputs_are_inputs_constants_and_each_other() -> None:
    c = drawn(3)

    def f(z: Any, x: Any) -> Any:
        y = z + 1
        return z, y, y, fnp.asarray(c), x[:, 0] + 1j * x[:, 1], x, fnp.real(y), 2j

    z, x = drawn(4), np.random.default_rng(0).normal(size=(4, 2))
    for found, expected in zip(fg.jit(f)(z, x), f(z, x), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        assert np.shape(found) == np.shape(expected)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "f4", "f8", "F", "D"])
def test_mixed_dtypes(dtype: str) -> None:
    x = (drawn(7) * 3 if dtype in "FD" else drawn(7).real * 3).astype(dtype)
    others = (1j, 2.5 - 1e60j, np.complex64(1 + 2j), drawn(7), drawn(7, dtype=np.complex64))

    def f(np: Any, x: Any) -> Any:
        sums = [np.where(x != 1, x, y) + (x * 2 + y).astype(np.complex64) for y in others]
        return [*sums, *(g for y in others for g in (x * y, y - x, y / (x + 2)))]

    j = fg.jit(lambda x: f(fnp, x))
    assert python_steps(j, x) == []
    with np.errstate(all="ignore"):
        for found, expected in zip(j(x), f(np, x), strict=True):
            agree(found, expected)


OTHERS = [
    *(NUMBERS.imag > 0, np.arange(len(NUMBERS)) % 3, NUMBERS.real.astype("f")),
    *(NUMBERS[::-1], NUMBERS[::-1].astype("F"), True, 2, 2.5, 1j, np.float32(2), np.int8(0)),
]
OF_TWO = sorted(
    name
    for name in PRIMITIVES
    if isinstance(u := getattr(np, name, None), np.ufunc)
    and u.nin == 2
    and not u.signature
    and "D" in "".join(u.types)
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_TWO)
def test_beside_operands_of_other_kinds(name: str, dtype: Any) -> None:
    ufunc, x, cases = getattr(np, name), NUMBERS.astype(dtype), list(itertools.product(OTHERS, (True, False)))
    compute = lambda x: [ufunc(x, y) if first else ufunc(y, x) for y, first in cases]
    near = 1e-5 if dtype is np.complex64 else 1e-12
    with np.errstate(all="ignore"):
        for found, expected in zip(fg.jit(compute)(x), compute(x), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
            usual = np.isfinite(expected)
            np.testing.assert_allclose(found[usual], expected[usual], rtol=near, atol=near)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (1, 1), (2, 0, 3), (17,)])
def test_shapes(shape: tuple[int, ...]) -> None:
    z = drawn(*shape)
    f = fg.jit(lambda z: (z * z, fnp.sum(z), fnp.abs(z), z.real))
    for found, expected in zip(f(z), (z * z, np.sum(z), np.abs(z), z.real), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert np.shape(found) == np.shape(expected)


def test_arguments_in_any_layout() -> None:
    f = fg.jit(lambda z: z * 1j + z[0])
    z = drawn(6, 6)
    for x in (z.T, z[::2, ::-1], np.asfortranarray(z), z.astype(">c16"), z.astype(np.clongdouble)):
        np.testing.assert_allclose(np.asarray(f(x), complex), np.asarray(x * 1j + x[0], complex), rtol=1e-13)


def test_donated_memory() -> None:
    f = fg.jit(lambda z: z * 2 + 1, donate_argnums=0)
    z = drawn(100)
    expected = z * 2 + 1
    np.testing.assert_array_equal(f(z), expected)


def test_kernels_that_python_runs() -> None:
    def f(z: Any, x: Any) -> Any:
        last, ys = fg.lax.scan(lambda c, y: (c * y + 1j, fnp.abs(c)), z, x)
        return fnp.exp(last) @ fnp.conj(last), ys, fnp.fft.fft(last), fnp.tan(z) / last

    z, x = drawn(3), drawn(4, 3, seed=1)
    expected = f(z, x)
    with kernels_in_python():
        for found, y in zip(fg.jit(f)(z, x), expected, strict=True):
            np.testing.assert_allclose(found, y, rtol=1e-12)


def test_batches_of_complex_functions() -> None:
    f = fg.vmap(lambda z, w: fnp.sum(z * fnp.conj(w)) / (1 + fnp.abs(z[0])), in_axes=(0, None))
    z, w = drawn(4, 3), drawn(3, seed=1)
    np.testing.assert_allclose(fg.jit(f)(z, w), f(z, w), rtol=1e-13)


def test_real_programs_stay_as_they_are() -> None:
    x = np.ones(3)
    source = fg.jit(lambda x: fnp.sum(x * 2)).lower(x).source
    assert "pairs" not in source


def test_numbers_and_scalars_as_arguments() -> None:
    f = fg.jit(lambda z, w: z * w + 1)
    for _ in range(3):
        assert f(1 + 2j, 3j) == (1 + 2j) * 3j + 1
        assert f(np.complex128(1 + 2j), np.asarray(3j)) == (1 + 2j) * 3j + 1
        assert f(np.complex64(1 + 2j), 2.0).dtype == np.complex64


def test_what_python_computes_is_called_by_its_name() -> None:
    f = fg.jit(lambda z: linalg.logm(z * 2))
    assert "matrix_function(" in f.lower(drawn(3, 3)).source
    assert "complex.call" not in f.lower(drawn(3, 3)).source


def test_slopes_of_complex_numbers_in_the_other_byte_order() -> None:
    z = drawn(3)
    other = z.astype(z.dtype.newbyteorder())
    for f in (lambda z: np.dot(z, np.array([-2, 5, -5])).real, lambda z: np.sum(np.exp(z)).imag):
        slope = fg.grad(fg.jit(f))
        np.testing.assert_allclose(slope(other), slope(z), rtol=1e-14)
