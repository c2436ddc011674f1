"""Products, copies and walks along axes in compiled programs, against NumPy; none is left to Python."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.compiler.interpreting import kernels_in_python

import fgrad as fg
from fgrad.compiler import products
from fgrad.compiler.decompose import decompose
from fgrad.compiler.plan import Plan
from fgrad.compiler.written import written
from fgrad.core.primitive import LARGE

RNG = np.random.default_rng(11)


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Let Python run the kernels."""
    with kernels_in_python():
        yield


def steps(f: Any, *args: Any) -> str:
    """Return the steps of a compiled program as text."""
    head, _, _ = fg.jit(f).lower(*args).source.partition("\n\n\n")
    return head


# ---- contractions -----------------------------------------------------------------------------------

LENGTHS = {"s": 3, "t": 2, "i": 4, "j": 19, "k": 5, "l": 2, "m": 18, "n": 3}


def subscripts(rng: np.random.Generator) -> tuple[str, str, str]:
    """Return those of a random contraction: shared axes, rows, columns and summed ones in any order."""
    groups = [rng.permutation(list(g))[: rng.integers(0, 3)] for g in ("st", "ij", "kl", "mn")]
    shared, rows, columns, summed = map(list, groups)
    orders = (shared + rows + summed, shared + summed + columns, shared + rows + columns)
    a, b, out = ("".join(rng.permutation(order)) for order in orders)
    return a, b, out


CONTRACTIONS = sorted({subscripts(np.random.default_rng(seed)) for seed in range(60)})


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(("a", "b", "out"), CONTRACTIONS, ids=",".join)
def test_no_contraction_is_left_to_python(a, b, out):
    x, y = (RNG.standard_normal([LENGTHS[c] for c in names]) for names in (a, b))
    f = lambda x, y: np.einsum(f"{a},{b}->{out}", x, y)
    size = math.prod(LENGTHS[c] for c in set(a + b))
    np.testing.assert_allclose(fg.jit(f)(x, y), f(x, y), rtol=1e-12, atol=1e-13 * size)
    assert "# Python" not in steps(f, x, y)


def test_small_matrices_times_many_are_loops_and_large_ones_are_blas():
    many, turn = RNG.standard_normal((26, 4, 4)), RNG.standard_normal((4, 4))
    f = lambda a, x: np.tanh(a @ x) + x @ a
    assert "BLAS" not in steps(f, turn, many)
    np.testing.assert_allclose(fg.jit(f)(turn, many), f(turn, many), rtol=1e-13, atol=1e-14)
    many, turn = RNG.standard_normal((26, 20, 30)), RNG.standard_normal((10, 20))
    assert steps(lambda a, x: a @ x, turn, many).count("BLAS") == 1
    np.testing.assert_allclose(fg.jit(np.matmul)(turn, many), turn @ many, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [3, 4, 8, 16])
def test_products_over_many_short_axes_are_not_written_out(n):
    """One of 16 x 16 x 16 by 16 x 16 has 65,536 terms: kernels would write out 256 of them for each turn."""
    core, *sides = (RNG.standard_normal((n,) * k) for k in (3, 2, 2, 2))

    def tucker(core, a, b, c):
        return fg.numpy.tanh(fg.numpy.einsum("abc,ia,jb,kc->ijk", core, a, b, c)).sum()

    f = fg.value_and_grad(tucker, argnums=(0, 1, 2, 3))
    value, slopes = fg.jit(f)(core, *sides)
    expected, others = f(core, *sides)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    for x, y in zip(slopes, others, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    written = fg.jit(f).lower(core, *sides).source
    assert written.count("# BLAS") == (0 if n == 3 else 9)
    assert len(written.splitlines()) < 1500


SHAPES = [
    ((3600, 32), (32, 33)),
    ((33, 3600), (3600, 32)),
    ((200, 30), (30, 200)),
    ((400, 7), (7, 5000)),
    ((70, 40, 30), (70, 30, 20)),
    ((70, 40, 30), (30, 20)),
    ((90, 1500), (1500,)),
    ((1500,), (1500, 90)),
    ((3000, 700), (700,)),
    ((3000,), (3000, 700)),
]


@pytest.mark.parametrize("pieces", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_pieces_of_medium_products_are_products(a, b, dtype, pieces, monkeypatch):
    if pieces:
        monkeypatch.setattr(Plan, "shares", True)
    x, y = (RNG.standard_normal(shape).astype(dtype) for shape in (a, b))
    terms = np.abs(x).astype(float) @ np.abs(y).astype(float)
    assert (np.abs(fg.jit(np.matmul)(x, y) - x.astype(float) @ y) <= 8 * np.finfo(dtype).eps * terms).all()
    value, slopes = fg.jit(fg.value_and_grad(lambda x, y: np.sin(x @ y).sum(), (0, 1)))(x, y)
    expected = fg.value_and_grad(lambda x, y: np.sin(x @ y).sum(), (0, 1))(x.astype(float), y.astype(float))
    near = 2e-3 if dtype == "f4" else 1e-11
    np.testing.assert_allclose(value, expected[0], near, near * expected[1][0].size)
    for found, slope in zip(slopes, expected[1], strict=True):
        np.testing.assert_allclose(found, slope, near, near * np.abs(slope).max())


def test_products_are_in_pieces_only_where_threads_share_something_else():
    x, y, many = RNG.standard_normal((100, 200)), RNG.standard_normal((200, 300)), RNG.standard_normal(2**20)
    for f, shares in [
        (lambda x, y, many: np.tanh(x @ y), False),
        (lambda x, y, many: (np.tanh(x @ y), np.tanh(many)), True),
        (lambda x, y, many: fg.lax.fori_loop(0, 3, lambda i, z: np.tanh(z @ y[:, :200]), x), False),
    ]:
        jitted = fg.jit(f)
        assert Plan(jitted.lower(x, y, many).program).shares == shares
        for found, expected in zip(jitted(x, y, many), f(x, y, many), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_pieces_are_what_blas_computes_in_one_thread():
    for sizes in [(3600, 32, 32), (32, 32, 3600), (33, 9000, 32), (200, 200, 30), (40, 40, 2000)]:
        piece = products._piece(*sizes, 1)
        assert math.prod(piece) <= products.ALONE
        assert math.prod(-(-n // p) for n, p in zip(sizes[:2], piece[:2], strict=True)) >= products.PARTS
    for sizes in [(4000, 4000, 4000), (10, 10, 10), (1, 1, 1)]:  # by threads of its own; at once
        assert products._piece(*sizes, 1) == sizes
    assert products._piece(40, 40, 40, 100) == (40, 40, 40)  # which are pieces already


# ---- copies -----------------------------------------------------------------------------------------

PIECES = {
    "rows": (lambda x: np.concatenate([x, x[1:], x, x[:1], x, x * 2]), "d"),
    "columns": (lambda x: np.concatenate([x, x[:, 1:], x, x[:, :1], x, -x], axis=1), "f"),
    "in the middle": (lambda x: np.concatenate([x[:, None]] * 20, axis=1), "d"),
    "stacked": (lambda x: np.stack([x[:, 0] * i for i in range(20)], axis=1), "d"),
    "numbers": (lambda x: np.stack([x[0, 0], 1.0, 2, x[1, 2], *x[:, 1], *range(14)]), "f"),
    "nothing": (lambda x: np.concatenate([x, x[:0], x, x[:0], x, x, x]), "d"),
    "integers": (lambda x: np.concatenate([x] * 6), "h"),
    "bytes": (lambda x: np.concatenate([x] * 6), "?"),
    "wide": (lambda x: np.concatenate([x] * 6, axis=1), "D"),
    "of several kinds": (lambda x: np.concatenate([x, x > 0, x, x, x, 2 * x]), "d"),
}
ROWS, COLUMNS = 7, 5


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("name", PIECES)
def test_many_arrays_side_by_side(name):
    f, dtype = PIECES[name]
    x = RNG.standard_normal((ROWS, COLUMNS)).astype(dtype)
    y = np.asarray(fg.jit(f)(x))
    np.testing.assert_array_equal(y, f(x))
    assert y.dtype == f(x).dtype
    found = steps(f, x)
    assert "# copies" in found
    assert "# Python" not in found


def test_copies_of_many_rows_compiled():
    """Blocks of rows, the last of them shorter, of narrow and of wide arrays."""
    x = RNG.standard_normal((30011, 3))
    f = lambda x: (np.concatenate([x] * 7, axis=1), np.stack([x[:, 0] * i for i in range(18)], axis=1))
    for y, e in zip(fg.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(y, e)


def test_few_arrays_are_asked_for_and_short_axes_written_out():
    x = RNG.standard_normal(40)
    assert "copies" not in steps(lambda x: np.concatenate([x, x, x]), x)
    assert "copies" not in steps(lambda x: np.stack([x] * 6, axis=1), x)


# ---- walks along an axis ----------------------------------------------------------------------------

WALKS = (np.cumsum, np.cumprod, np.argmax, np.argmin)
SHAPES = [(3,), (5, 1), (1, 7), (20, 31), (16, 9), (2, 3, 520)]


def check_walks(dtype: str, shape: tuple[int, ...]) -> None:
    """Compare with NumPy, which adds in the same order, where the first of several extremes is found."""
    x = np.round(RNG.standard_normal(shape) * 3).astype(dtype)
    if dtype != "l":
        x[..., 2:3] = np.nan
        x[..., -1] = -0.0
    for f in WALKS:
        for axis in (None, *range(len(shape))):
            y = np.asarray(fg.jit(lambda x, f=f, axis=axis: f(x, axis=axis))(x))
            expected = f(x, axis=axis)
            np.testing.assert_array_equal(y, expected)
            assert y.dtype == expected.dtype
        assert "# Python" not in steps(lambda x, f=f: f(x, axis=0), x)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f", "d", "l"])
def test_walks_along_axes(dtype, shape):
    check_walks(dtype, shape)


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_walks_compiled(dtype):
    check_walks(dtype, (20, 31))


def test_many_lines_are_shared_by_threads():
    x = RNG.standard_normal((2003, 70))
    for axis in (0, 1):
        f = lambda x, axis=axis: np.cumsum(x, axis=axis)
        np.testing.assert_array_equal(fg.jit(f)(x), f(x))
        g = lambda x, axis=axis: np.argmax(x, axis=axis)
        assert "# Python" not in steps(g, x)
        np.testing.assert_array_equal(fg.jit(g)(x), g(x))
    slope = fg.grad(lambda x: (np.cumsum(x, axis=1) ** 2).sum())
    np.testing.assert_allclose(fg.jit(slope)(x), slope(x), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("size, count", [((2, 6, 5), 3), ((2, 6, 3), 3), ((4, 1, 5), 2)], ids=str)
def test_convolutions_are_loops_where_windows_hold_much_though_arrays_are_small(size, count):
    """As in eager mode: copies of all windows take more time than what is computed of them."""
    images, channels, k = size
    x = np.ones((images, channels, 28, 28), np.float32)
    w = np.ones((8, channels, k, k), np.float32)
    assert x.size + images * 8 * 28 * 28 < LARGE
    f = fg.grad(lambda x, w: np.sum(fg.nn.conv(x, w) ** 2), (0, 1))
    program = written(fg.jit(f).lower(x, w).program)
    names = [e.name for e in decompose(program).program.equations]
    assert names.count("windows.products") == count  # there is none for one channel that many lead to
    assert ("concatenate" in names) == (count < 3)
    assert not {"conv", "conv_input", "conv_kernel"} & set(names)
    few = written(fg.jit(f).lower(x[:1, :1, :6, :6], w[:, :1]).program)
    assert "windows.products" not in [e.name for e in decompose(few).program.equations]
