"""Fourier transforms by butterflies, against NumPy's and the definition."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import fgrad as fg
from fgrad.errors import BrokenContractError
from fgrad.kernels import fourier, native, threads

RNG = np.random.default_rng(5)
pytestmark = pytest.mark.skipif(native.interpreted(), reason="Python runs kernels: NumPy transforms")


def drawn(*shape: int, dtype: Any = complex) -> Any:
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)


def transformed(x: Any, axis: int, factor: float, *, forward: bool) -> Any:
    """Return the transform of an array of complex numbers times a factor; None where there is no kernel."""
    part = x.real.dtype
    lead, trail = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    plan = fourier.plan(part.char, lead, x.shape[axis], trail)
    if plan is None:
        return None
    out, memory = np.empty(x.shape, x.dtype), np.empty(plan.memory, part)
    pairs = [np.ascontiguousarray(a).reshape(-1).view(part) for a in (x, out)]
    sign = 1.0 if forward else -1.0
    scratch = memory, np.empty(plan.places, np.uintp)
    args = (*pairs, plan.table, plan.radices, *scratch, *plan.numbers, sign, factor, sign * factor)
    threads.share(plan.loop(), args, plan.pieces, plan.elements)
    return out


def error(found: Any, expected: Any, axis: int) -> float:
    """Return the largest error of a transform, in units of rounding of its norm."""
    norm = np.sqrt(np.sum(np.abs(expected) ** 2, axis=axis, keepdims=True))
    return float(np.max(np.abs(found - expected) / norm)) / float(np.finfo(found.dtype).eps)


LENGTHS = [n for n in range(4, 128) if fourier._steps(n)]
LONG = [128, 144, 180, 192, 240, 250, 256, 320, 384, 400, 486, 500, 512, 576, 640, 960, 1000, 1024]


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", LENGTHS + LONG)
def test_transforms_of_rows_columns_and_single_arrays(n: int, dtype: Any, forward: bool) -> None:
    kinds = set()
    for shape, axis in (((n,), 0), ((5, n), 1), ((9, n), 1), ((n, 8), 0), ((2, n, 11), 1), ((n, 3), 0)):
        part = np.empty(0, dtype).real.dtype.char
        plan = fourier.plan(part, math.prod(shape[:axis]), n, math.prod(shape[axis + 1 :]))
        x = drawn(*shape, dtype=dtype)
        found = transformed(x, axis, 0.75, forward=forward)
        assert (plan is None) == (found is None)
        if plan is None:
            continue
        kinds.add(plan.kind)
        wide = x.astype(complex)
        expected = 0.75 * (np.fft.fft(wide, axis=axis) if forward else np.fft.ifft(wide, axis=axis) * n)
        assert found.dtype == dtype
        assert error(found, expected, axis) < 3
    assert "alone" in kinds if n % 64 == 0 else kinds or n > 512


def test_every_kind_is_taken() -> None:
    for sizes, kind in (
        ((1, 512, 1), "alone"),
        ((3, 64, 1), "alone"),
        ((4, 64, 1), "apart"),
        ((100, 256, 1), "alone"),
        ((4, 4, 1), "apart"),
        ((1, 48, 8), "together"),
        ((1, 512, 9), "together"),
    ):
        plan = fourier.plan("d", *sizes)
        assert plan is not None
        assert plan.kind == kind
    for lead, n, trail in (
        (1, 48, 1),
        (9, 7, 1),
        (1, 2048, 1),
        (1, 540, 9),
        (9, 3, 1),
        (9, 48, 7),
        (9, 22, 9),
    ):
        assert fourier.plan("d", lead, n, trail) is None


@pytest.mark.parametrize("n", [60, 64])
def test_the_definition(n: int) -> None:
    x = drawn(4, n)
    found = transformed(x, 1, 1.0, forward=True)
    with mpmath.workdps(30):
        for row in (0, 3):
            for k in (0, 1, n // 2, n - 1):
                turns = [mpmath.expjpi(mpmath.mpf(-2 * j * k) / n) for j in range(n)]
                expected = mpmath.fsum(z * w for z, w in zip(map(mpmath.mpc, x[row]), turns, strict=True))
                assert abs(found[row, k] - complex(expected)) < 1e-14 * np.sqrt(n)


@pytest.mark.parametrize("shape, axis", [((40, 256), 1), ((256, 100), 0), ((90, 100), 1), ((3, 128, 77), 1)])
def test_bits_do_not_depend_on_threads(shape: tuple[int, ...], axis: int, monkeypatch: Any) -> None:
    x = drawn(*shape)
    found = []
    for count in (1, 2, 5):
        fourier.plan.cache_clear()
        monkeypatch.setattr(threads, "get_num_threads", lambda count=count: count)
        found.append(transformed(x, axis, 1.0, forward=True))
    fourier.plan.cache_clear()
    assert error(found[0], np.fft.fft(x, axis=axis), axis) < 3
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_neighbours_see_nothing_of_infinities_and_each_other() -> None:
    for shape, axis in (((12, 48), 1), ((48, 12), 0)):
        x = drawn(*shape)
        rows = np.moveaxis(x, axis, 1)
        expected = transformed(x, axis, 1.0, forward=True)
        rows[3], rows[10, 7] = np.inf, np.nan
        found = transformed(x, axis, 1.0, forward=True)
        others = [k for k in range(12) if k not in {3, 10}]
        np.testing.assert_array_equal(*(np.moveaxis(a, axis, 1)[others] for a in (found, expected)))
        assert not np.isfinite(np.moveaxis(found, axis, 1)[[3, 10]]).any()


def test_arrays_of_other_sizes_are_refused() -> None:
    plan = fourier.plan("d", 4, 60, 1)
    assert plan is not None
    loop, pairs = plan.loop(), np.zeros(480)
    memory = np.empty(plan.memory), np.empty(plan.places, np.uintp)

    def call(x: Any, out: Any, *scratch: Any) -> None:
        loop.share((x, out, plan.table, plan.radices, *scratch, *plan.numbers, 1.0, 1.0, 1.0), plan.pieces, 0)

    for given in (
        (pairs[:-2], pairs, *memory),
        (pairs, pairs[2:].copy(), *memory),
        (pairs, pairs, memory[0][1:].copy(), memory[1]),
        (pairs, pairs, memory[0], memory[1][1:].copy()),
    ):
        with pytest.raises(BrokenContractError):
            call(*given)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("shape, axis", [((512,), 0), ((6, 60), -1), ((48, 16), 0), ((2, 30, 9), 1)])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_programs_and_their_gradients(shape: Any, axis: int, norm: Any, dtype: Any) -> None:
    x, w = drawn(*shape, dtype=dtype), drawn(*shape, dtype=dtype)
    eps = np.finfo(dtype).eps

    def loss(x: Any) -> Any:
        y = np.fft.fft(2 * x, axis=axis, norm=norm) * w
        return np.sum(np.abs(np.fft.ifft(y + x, axis=axis, norm=norm)) ** 2)

    program = fg.jit(fg.value_and_grad(loss))
    assert not program.lower(x).cost().python
    for found, expected in zip(program(x), fg.value_and_grad(loss)(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=60 * eps * np.max(np.abs(expected)))
