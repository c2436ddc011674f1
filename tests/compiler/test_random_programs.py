"""Random programs: compiled, they compute what their operations compute one after the other.

Most run with kernels that Python interprets, which the texts and tables of compiled ones are too; a few are
compiled. The generator is that of the tests of `simplify`, with more operations and dtypes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.growing import (
    ELEMENTS,
    FLOATS,
    LARGER,
    MIXED,
    REDUCTIONS,
    SUMS,
    TAME,
    VIEWS,
    grown,
    run,
)
from tests.compiler.interpreting import kernels_in_python

import fgrad as fg
from fgrad.compiler import Executable
from fgrad.core.program import Program

KINDS = (*ELEMENTS, *SUMS, *VIEWS, *VIEWS, *REDUCTIONS, *("smooth",) * 6)


@pytest.fixture(scope="module")
def interpreted() -> Iterator[None]:
    """Let Python run the kernels."""
    with kernels_in_python():
        yield


def example(data: Any, dtypes: Any) -> tuple[Any, list[np.ndarray]]:
    """Return a random function and arguments."""
    shapes = data.draw(st.lists(st.sampled_from(LARGER), min_size=1, max_size=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    inputs = []
    for shape in shapes:
        dtype = np.dtype(data.draw(st.sampled_from(dtypes)))
        low = 0 if dtype.kind in "ub" else -3
        a = (
            rng.uniform(-2, 2, shape)
            if dtype.kind == "f"
            else rng.integers(low, 2 if dtype.kind == "b" else 4, shape)
        )
        inputs.append(np.asarray(a, dtype))
    steps = data.draw(st.integers(1, 60))
    return lambda *xs: grown(data, list(xs), steps, TAME, KINDS), inputs


def floats(ys: list[Any]) -> list[Any]:
    return [y for y in ys if y.dtype.kind == "f"][-3:]


def loss(f: Any) -> Any:
    return lambda *xs: sum([(np.tanh(y) * 0.5).sum() for y in floats(f(*xs))], 0.0 * sum(x.sum() for x in xs))


@np.errstate(all="ignore")
def check(staged: Any, inputs: list[np.ndarray]) -> None:
    """Compare a program, compiled as a whole, with its operations."""
    program = fg.make_graph(staged)(*inputs)
    every = [v for e in program.equations for v in e.outs]
    try:
        values = run(Program(program.inputs, program.equations, every, (None, None)), inputs)
    except (ValueError, IndexError, OverflowError):  # an error of NumPy that depends on no shape
        return
    wide = [np.abs(y.astype(np.float64)) for y in values]
    size = max([1.0, *(float(y.max()) for y in wide if y.size)])
    eps = max([float(np.finfo(y.dtype).eps) for y in values if y.dtype.kind == "f"], default=0.0)
    if not size < 1e30:  # an integer, or a float32, may be anything then
        return
    for y, e in zip(Executable(program).run(inputs), run(program, inputs), strict=True):
        assert (y.dtype, y.shape) == (e.dtype, e.shape)
        if e.dtype.kind == "f":
            np.testing.assert_allclose(y, e, rtol=200 * eps, atol=200 * eps * size)
        else:
            np.testing.assert_array_equal(y, e)


def forward(data: Any, dtypes: Any) -> None:
    check(*example(data, dtypes))


def gradient(data: Any, dtypes: Any) -> None:
    f, inputs = example(data, dtypes)
    check(fg.value_and_grad(loss(f), tuple(range(len(inputs)))), inputs)


def mapped(data: Any, dtypes: Any) -> None:
    f, inputs = example(data, dtypes)
    check(
        fg.vmap(lambda *xs: f(*xs)[-3:]),
        [np.stack([x, x * x, x[..., ::-1] if x.ndim else x]) for x in inputs],
    )


def mapped_gradient(data: Any, dtypes: Any) -> None:
    f, inputs = example(data, dtypes)
    check(fg.vmap(fg.grad(loss(f))), [np.stack([x, x * x, x + x]) for x in inputs])


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("way", [forward, gradient, mapped, mapped_gradient])
@settings(max_examples=25)
@given(data=st.data())
def test_floats_interpreted(way, data):
    way(data, FLOATS)


@pytest.mark.usefixtures("interpreted")
@settings(max_examples=40)
@given(data=st.data())
def test_many_dtypes_interpreted(data):
    forward(data, MIXED)


@pytest.mark.parametrize("way", [forward, gradient, mapped])
@settings(max_examples=10)
@given(data=st.data())
def test_floats_compiled(way, data):
    way(data, FLOATS)


@settings(max_examples=15)
@given(data=st.data())
def test_many_dtypes_compiled(data):
    forward(data, MIXED)
