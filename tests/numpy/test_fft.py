"""Fourier transforms: values of NumPy, derivatives by differences."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import grouped
from tests.numpy.cases import Case, check, integers, kinds, named, strided, values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.primitive import NUMPY
from fgrad.testing import check_grads

V, O, S, M = values((6,)), values((5,)), values(()), values((3, 4))
C, Z, E = values((2, 3, 4)), values((3, 5), dtype=complex), values((0, 3))
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
FROM_REAL = {"rfft", "ihfft", "rfftn", "rfft2"}
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")
TWO = ("fft2", "ifft2", "rfft2", "irfft2")
SHIFTS = ("fftshift", "ifftshift")
MAKES = {"fftfreq", "rfftfreq"}

CASES = [
    *(Case(f"fft.{f}", f"{k} n={n}", (x, n), (), 2) for f in ONE
        for k, x in {"even": V, "odd": O, "complex": Z}.items() for n in (None, 1, 2, 4, 7, 8)
        if not (k == "complex" and f in FROM_REAL)),
    *(Case(f"fft.{f}", f"{norm} n={n}", (O, n), (("norm", norm),), 1) for f in ONE
        for norm in ("backward", "ortho", "forward", "unknown") for n in (None, 4)),
    *(Case(f"fft.{f}", f"axis {a}", (C,), (("axis", a),), 1) for f in ONE for a in (0, 1, -2, 3, -4)),
    *(Case(f"fft.{f}", f"axis {a} n", (C, 5), (("axis", a),), 1) for f in ONE for a in (0, -2)),
    *(Case(f"fft.{f}", k, (x,), (), 1) for f in ONE for k, x in kinds((3, 4)).items()
        if k != "float16" and not (k.startswith("complex") and f in FROM_REAL)),
    *(Case(f"fft.{f}", "complex refused", (Z,)) for f in ("rfft", "ihfft", "rfftn", "rfft2")),
    *(Case(f"fft.{f}", k, x) for f in ONE for k, x in {"0-d": (S,), "empty": (E, None, 0), "no points": (V,
        0), "negative": (V, -2), "none": (V[:0],), "list": ([1, 2.5, 3],), "empty rows": (E,),
        "float16": (V.astype("e"),), "longdouble": (V.astype("g"),)}.items()),
    *(Case(f"fft.{f}", f"s={s} axes={a}", (C, s, a), (), 2 if s is None else 1) for f in SEVERAL
        for s, a in [(None, None), (None, (0, 2)), (None, (2, 0)), (None, (-1,)), (None, (1, 1)),
        ((3, 5), (0, 2)), ((4, 2), (-1, 1)), ((-1, 6), (1, 2)), ((3, 3), (1, 1)), ((5, 2, 3), (0, 1, 2)),
        ((3, 2), (0,)), ((3,), (5,)), ((0, 2), (0, 1)), (None, ())]),
    *(Case(f"fft.{f}", f"{norm}", (C, (3, 3), (0, 2), norm), (), 1) for f in SEVERAL
        for norm in ("ortho", "forward", "unknown")),
    *(Case(f"fft.{f}", k, (x,), (), 2 if k == "float64" else 1) for f in TWO
        for k, x in {"float64": M, "float32": M.astype("f"), "int": integers((3, 4)), "cube": C,
        "strided": strided(M)}.items()),
    *(Case(f"fft.{f}", f"s={s} axes={a}", (C,), (("s", s), ("axes", a)), 1) for f in TWO
        for s, a in [((4, 4), (0, 1)), ((2, 3), (-1, -2)), (None, (0, 2))]),
    *(Case(f"fft.{f}", "complex", (Z,), (), 2) for f in (*TWO, *SEVERAL) if f not in FROM_REAL),
    *(Case(f"fft.{f}", "vector", (V,)) for f in TWO),
    *(c for f in SHIFTS for c in named(f"fft.{f}", {"all": C, "vector": O, "axis": (C, 1),
        "axes": (C, (0, 2)),
        "negative": (C, -1), "complex": Z, "int": integers((5,)), "list": ([1, 2, 3],),
        "empty": E, "wrong": (C, 3)})),
]  # fmt: skip

NAMES = set(fnp.fft.__all__)


@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


def test_every_name_of_numpy_is_there():
    public = {n for n in np.fft.__all__ if callable(getattr(np.fft, n))}
    assert public == NAMES
    assert {n for n in NAMES if getattr(np.fft, n) not in NUMPY} == MAKES
    assert {c.name.removeprefix("fft.") for c in CASES} == NAMES - MAKES
    assert all(inspect.getdoc(getattr(fnp.fft, n)) for n in NAMES)


@given(st.data())
@settings(max_examples=25)
def test_random_transforms(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    axes = data.draw(st.permutations(range(-len(shape), 0)))[: data.draw(st.integers(1, len(shape)))]
    s = data.draw(st.none() | st.tuples(*(st.integers(2, 5) for _ in axes)))
    name = data.draw(st.sampled_from(SEVERAL))
    if name == "irfftn" and s is None:
        s = (2,) * len(axes)
    norm = data.draw(st.sampled_from([None, "ortho", "forward"]))
    x = values(shape, dtype=float if name == "rfftn" else data.draw(st.sampled_from([float, complex])))
    check(Case(f"fft.{name}", "random", (x, s, tuple(axes), norm), (), 1))


@pytest.mark.parametrize("name", ONE)
def test_out(name):
    x = values((2, 4))
    expected = getattr(np.fft, name)(x)
    for module in (fnp.fft, np.fft):
        target = fg.tensor(np.zeros(expected.shape, expected.dtype))
        assert getattr(module, name)(fg.tensor(x), out=target) is target
        np.testing.assert_allclose(target.numpy(), expected)
        target = np.zeros(expected.shape, expected.dtype)
        assert getattr(module, name)(fg.tensor(x), out=target) is target
        np.testing.assert_allclose(target, expected)
    with pytest.raises(ValueError):
        getattr(fnp.fft, name)(fg.tensor(x), out=fg.tensor(np.zeros((2, 9), expected.dtype)))

    def through_out(x):
        target = fg.tensor(np.zeros(expected.shape, expected.dtype))
        getattr(np.fft, name)(x, out=target)
        return target

    check_grads(through_out, (x,), 1)


@pytest.mark.parametrize("name", SEVERAL)
def test_out_of_several_axes(name):
    expected = getattr(np.fft, name)(M)
    target = fg.tensor(np.zeros(expected.shape, expected.dtype))
    assert getattr(np.fft, name)(fg.tensor(M), out=target) is target
    np.testing.assert_allclose(target.numpy(), expected)


@pytest.mark.parametrize("n", [6, 7])
def test_ignored_imaginary_parts_have_no_gradient(n):
    z = values((4,), dtype=complex)
    g = fg.grad(lambda z: np.sum(np.fft.irfft(z, n) ** 3))(z)
    assert g[0].imag == 0
    assert (g[3].imag == 0) == (n == 6)
    assert g[1].imag != 0


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_gradients_keep_the_dtype(dtype):
    x = values((5,), dtype=dtype)
    for name in ("fft", "ifft", "irfft", "hfft", *(("rfft", "ihfft") if dtype[0] == "f" else ())):
        g = fg.grad(lambda x: np.sum(np.abs(getattr(np.fft, name)(x)) ** 2))(x)
        assert g.dtype == x.dtype


def test_energy_is_kept():
    x = values((7,))
    g = fg.grad(lambda x: np.sum(np.abs(np.fft.fft(x, norm="ortho")) ** 2))(x)
    np.testing.assert_allclose(g, 2 * x)


def test_a_filter_is_a_convolution():
    x, h = values((8,)), values((8,), seed=1)
    y = lambda x, h: np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(h), 8)
    circular = np.array([[h[(i - j) % 8] for j in range(8)] for i in range(8)])
    np.testing.assert_allclose(fg.jacrev(y)(x, h), circular, atol=1e-12)
    np.testing.assert_allclose(fg.jacfwd(y)(x, h), circular, atol=1e-12)
    check_grads(y, (x, h), 2)


def test_frequencies():
    for name in MAKES:
        for n, d in [(4, 1.0), (5, 0.1), (1, 2)]:
            made = getattr(fnp.fft, name)(n, d)
            assert isinstance(made, fg.Tensor)
            np.testing.assert_array_equal(made.numpy(), getattr(np.fft, name)(n, d))
        for module in (fnp.fft, np.fft):
            check_grads(lambda d: getattr(module, name)(5, d), (np.array(0.3),), 2)
        with pytest.raises(ValueError):
            getattr(fnp.fft, name)(1.5)


def test_lengths_without_axes_are_deprecated():
    with pytest.warns(DeprecationWarning, match="axes"):
        y = fnp.fft.fftn(fg.tensor(C), (3, 3))
    np.testing.assert_allclose(y.numpy(), np.fft.fftn(C, (3, 3), (1, 2)))


def test_an_unknown_norm_is_named():
    with pytest.raises(ValueError, match="sideways"):
        fnp.fft.fft(fg.tensor(V), norm="sideways")
