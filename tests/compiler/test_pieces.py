"""Threads cut loops into pieces: bits of results depend neither on where, nor on which piece comes first."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers import grouped
from tests.ops.test_primitives import SAMPLES, Sample

import fgrad as fg
from fgrad import lax, nn
from fgrad.compiler import plan
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES, STACKS
from fgrad.kernels import native, threads

pytestmark = pytest.mark.skipif(native.interpreted(), reason="threads share machine code")
OWN = [s for s in SAMPLES if s.primitive != "custom"]  # whose rules are the user's
COUNT = 41  # examples of a sample in a compiled program: several vectors, and a rest


class Knife:
    """Takes the place of `threads.share`: runs loops whole, or in pieces, the last ones first."""

    def __init__(self) -> None:
        self.share = threads.share
        self.is_active = self.cuts = False
        self.loops = 0  # that were cut

    def __call__(self, loop: Any, args: Any, count: int, elements: int) -> None:
        if not self.is_active:  # executables of eager mode keep what they were made with
            self.share(loop, args, count, elements)
        elif self.cuts:
            strip = threads.strip_of(count, elements)
            found = [(lo * strip, min(hi * strip, count)) for lo, hi in pieces(-(-count // strip))]
            self.loops += len(found) > 1
            for lo, hi in reversed(found):
                loop(*args, lo, hi)
        else:
            loop(*args, 0, count)


def pieces(count: int) -> Iterator[tuple[int, int]]:
    """Yield pieces of a range: short ones, of odd lengths, and longer ones."""
    lo = 0
    for k in range(count):
        hi = min(count, lo + (1, 3, 2, 5)[k] if k < 4 else lo + 7 + count // 11)
        yield lo, hi
        lo = hi
        if lo == count:
            return


def test_pieces_are_a_range():
    for count in (1, 2, 3, 12, 100, 12345):
        found = list(pieces(count))
        assert [i for piece in found for i in range(*piece)] == list(range(count))
        assert len(found) < 25


@pytest.fixture(scope="module")
def knife() -> Iterator[Knife]:
    """Let loops of any size be shared."""
    with pytest.MonkeyPatch.context() as patch:
        made = Knife()
        patch.setattr(threads, "share", made)
        patch.setattr(threads, "ELEMENTS", 1)
        made.is_active = True
        yield made
        made.is_active = False


def assert_equal_in_pieces(knife: Knife, f: Callable[..., Any], *args: Any) -> None:
    """Compare what a function returns, bit by bit."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        knife.cuts = False
        whole = list(map(np.array, fg.tree.leaves(f(*args))))
        knife.cuts = True
        cut = list(map(np.array, fg.tree.leaves(f(*args))))
    for x, y in zip(whole, cut, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert x.tobytes() == y.tobytes()


def examples(sample: Sample, count: int) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function that computes many examples of a sample and their slopes, and its arguments."""
    arrays = [i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray)]
    floats = [i for i in arrays if sample.args[i].dtype.kind in "fc" and sample.args[i].size]
    real = PRIMITIVES[sample.primitive].real and any(sample.args[i].dtype.kind == "c" for i in floats)

    def f(*xs: Any) -> list[Any]:
        filled = list(sample.args)
        for i, x in zip(floats, xs, strict=True):
            filled[i] = x
        out = bind(sample.primitive, *filled, **sample.params)
        return list(out) if isinstance(out, tuple) else [out]

    def both(*xs: Any) -> Any:
        if not xs:
            return f()
        if real:
            return fg.vmap(f)(*xs)
        values, pullback = fg.vjp(lambda *xs: [y for y in fg.vmap(f)(*xs) if y.dtype.kind in "fc"], *xs)
        return fg.vmap(f)(*xs), pullback([fg.numpy.cos(y.real).astype(y.dtype) for y in values])

    def stacked(x: Any) -> Any:
        grown = 1 + 2.0**-20 * np.arange(count).reshape(-1, *[1] * x.ndim)
        return (x * grown).astype(x.dtype)

    return both, [stacked(sample.args[i]) for i in floats]


@grouped("sample", OWN, "primitive", quick=1)
def test_compiled_primitives(sample, knife):
    f, args = examples(sample, COUNT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "LARGE", 1)
        assert_equal_in_pieces(knife, fg.jit(f), *args)


# ---- whole programs ------------------------------------------------------------------------------

SIZES = (1, 3, 8, 17, 40)  # of matrices: by kernels of each kind, by LAPACK


def normal(*shape: int, dtype: str = "d") -> Any:
    """Return normal numbers, the same at each call."""
    rng = np.random.default_rng(len(shape))
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype in "FD" else x).astype(dtype)


def images(dtype: str) -> list[Any]:
    return [normal(6, 4, 30, 31, dtype=dtype), normal(8, 4, 3, 3, dtype=dtype)]


def stack(dtype: str) -> list[Any]:
    return [normal(23, n, n, dtype=dtype) / n + np.eye(n, dtype=dtype) for n in SIZES]


def positive(x: Any) -> Any:
    return x @ x.mT.conj() + np.eye(x.shape[-1], dtype=x.dtype)


def each(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: [y for x in xs for y in fg.tree.leaves(f(x))]


def accumulated(x: Any) -> Any:
    places = np.arange(x.size) * 7919 % 101
    out = fg.numpy.zeros(101, x.dtype)
    np.add.at(out, places, x.ravel())
    return [out, out[places[::3]] * x.ravel()[::3], x[:, places % x.shape[1]]]


def stepped(x: Any) -> Any:
    return lax.scan(lambda c, y: (np.tanh(c @ y), c.sum()), x[0], x)


PROGRAMS: dict[str, tuple[str, Callable[..., Any], Callable[[str], list[Any]]]] = {
    "elementwise": (
        "fdFD",
        lambda x: [np.exp(x) * np.sin(x), np.sqrt(x * x + 2), np.tanh(x) / (1 + abs(x))],
        lambda t: [normal(333, 101, dtype=t)],
    ),
    "reductions": (
        "fdFD",
        lambda x: [x.sum(), x.sum(0), x.mean(1), (x * x).sum((0, 2)), x[:, ::2].sum(-1), np.var(x, axis=1)],
        lambda t: [normal(61, 43, 37, dtype=t)],
    ),
    "extrema": (
        "fd",
        lambda x: [x.max(), x.min(0), np.ptp(x, axis=1), np.maximum.accumulate(x, axis=0), np.median(x, 1)],
        lambda t: [normal(301, 211, dtype=t)],
    ),
    "rows": (
        "fd",
        lambda x: [nn.softmax(x), nn.logsumexp(x, 0), nn.layer_norm(x), nn.logsumexp(x)],
        lambda t: [normal(501, 129, dtype=t)],
    ),
    "convolutions": (
        "fd",
        lambda x, w: [
            nn.conv(x, w, padding="SAME"),
            nn.conv(x, w, stride=2),
            nn.conv(x, w[:, :2], groups=2),
            nn.conv(x, w, dilation=2),
        ],
        images,
    ),
    "windows": (
        "fd",
        lambda x, w: [
            nn.max_pool(nn.conv(x, w), 2),
            nn.avg_pool(x, 3, stride=2),
            nn.max_pool(x, 3, stride=1),
        ],
        images,
    ),
    "sorts": (
        "fd",
        lambda x: [np.sort(x, axis=0), np.sort(x.ravel()), x[np.argsort(x[:, 0])], np.sort(x[:, :20])],
        lambda t: [normal(303, 207, dtype=t)],
    ),
    "running": (
        "fdFD",
        lambda x: [np.cumsum(x, 0), np.cumsum(x), np.cumprod(1 + x / 200, axis=1)],
        lambda t: [normal(203, 307, dtype=t)],
    ),
    "scatter": ("fdFD", accumulated, lambda t: [normal(207, 251, dtype=t)]),
    "products": (
        "fdFD",
        lambda x, y: [
            x @ y,
            y.mT @ x.mT,
            x.reshape(-1, 40) @ y[0],
            x.reshape(-1, 40).T @ x.reshape(-1, 40),
            x.reshape(62, -1) @ y.ravel()[:1600],
            y.ravel()[:1600] @ x.reshape(1600, 62),
            np.einsum("bij,bjk,bkl->il", x[:9], y[:9], x[:9]),
        ],
        lambda t: [normal(80, 31, 40, dtype=t), normal(80, 40, 31, dtype=t)],
    ),
    "transforms": (
        "fdFD",
        lambda x: [np.fft.fft(x), np.fft.ifft(np.fft.fft(x, axis=0) * x, axis=0), np.fft.fft2(x[:48, :48])],
        lambda t: [normal(96, 121, dtype=t)],
    ),
    "scan": ("fdFD", stepped, lambda t: [normal(40, 9, 9, dtype=t) / 3]),
    "cholesky": ("fD", each(lambda x: np.linalg.cholesky(positive(x))), stack),
    "solve": ("fD", each(lambda x: np.linalg.solve(x, x[..., :1] + x)), stack),
    "inverse": ("fD", each(np.linalg.inv), stack),
    "determinant": ("fD", each(lambda x: [np.linalg.det(x), np.linalg.slogdet(x)[1]]), stack),
    "qr": ("fd", each(lambda x: list(np.linalg.qr(x))), stack),
    "eigh": ("fd", each(lambda x: np.linalg.eigvalsh(positive(x))), stack),
    "svd": ("fd", each(lambda x: np.linalg.svd(x, compute_uv=False)), stack),
}
CASES = [(name, dtype) for name, (dtypes, *_) in PROGRAMS.items() for dtype in dtypes]


def program(name: str, dtype: str) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function that computes values and slopes, and its arguments."""
    _, f, arguments = PROGRAMS[name]

    def both(*xs: Any) -> Any:
        values, pullback = fg.vjp(lambda *xs: fg.tree.leaves(f(*xs)), *xs)
        return values, pullback([fg.numpy.cos(y.real).astype(y.dtype) for y in values])

    return both, arguments(dtype)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_compiled_programs(name, dtype, knife):
    f, args = program(name, dtype)
    before = knife.loops
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "LARGE", 1)
        assert_equal_in_pieces(knife, fg.jit(f), *args)
    assert knife.loops > before


# what threads share in eager mode, by dtype
EAGER = {
    "elementwise": "fdFD",
    "running": "fd",
    "scatter": "fd",
    "cholesky": "D",
    "solve": "D",
    "inverse": "D",
}
EAGER |= dict.fromkeys(["reductions", "extrema", "rows", "convolutions", "windows", "sorts"], "fd")
LARGEST = 35_000  # elements of an operand


def is_shared(sample: Sample) -> bool:
    """Return whether eager mode computes large arrays of a primitive by loops that threads may share."""
    primitive = PRIMITIVES[sample.primitive]
    one_by_one = STACKS in primitive.traits or primitive.interpreted
    in_python = sample.primitive in {"roots", "simple_roots", "elliptic_moment"}
    return any(np.size(a) for a in sample.args) and not (one_by_one or in_python)


@grouped("sample", [s for s in OWN if is_shared(s)], "primitive", quick=1)
def test_eager_primitives(sample, knife):
    f, args = examples(sample, LARGEST // max(map(np.size, sample.args)))
    assert_equal_in_pieces(knife, f, *args)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_eager_programs(name, dtype, knife):
    f, args = program(name, dtype)
    before = knife.loops
    assert_equal_in_pieces(knife, f, *args)
    assert knife.loops > before or name not in EAGER or dtype not in EAGER[name]
