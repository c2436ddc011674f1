"""Random programs: simple ones compute what they computed before, whatever the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.growing import DTYPES, ELEMENTS, SHAPES, SPECIAL, SUMS, TAME, grown, run
from tests.helpers import drawn

import fgrad as fg
from fgrad.compiler.simplify import operands, rewriting, simplify
from fgrad.core.program import Program, Var
from fgrad.core.rewriting.substitution import replaced


def example(data: Any, constants: tuple[float, ...], kinds: tuple[str, ...]) -> tuple[Program, list[Any]]:
    shapes = data.draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    inputs = []
    for shape in shapes:
        dtype = data.draw(st.sampled_from(DTYPES))
        a = rng.integers(-3, 4, shape) if dtype is np.int64 else rng.uniform(-2, 2, shape)
        if dtype is not np.int64 and constants is SPECIAL:
            a = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), a)
        inputs.append(np.asarray(a, dtype))
    steps = data.draw(st.integers(1, 12))
    with np.errstate(all="ignore"):
        program = fg.make_graph(lambda *xs: grown(data, list(xs), steps, constants, kinds))(*inputs)
    return program, inputs


def largest(program: Program, inputs: list[Any]) -> float:
    every = [v for e in program.equations for v in e.outs]
    whole = Program(program.inputs, program.equations, every, (None, None))
    sizes = [np.abs(np.asarray(y, float)) for y in run(whole, inputs)]
    return max([1.0, *(float(s.max()) for s in sizes if s.size)])


@settings(max_examples=drawn(600), deadline=None)
@given(st.data())
def test_elements_are_the_same_to_the_bit(data):
    program, inputs = example(data, SPECIAL, ELEMENTS)
    simple = simplify(program)
    for y, expected, out in zip(run(simple, inputs), run(program, inputs), program.outputs, strict=True):
        assert y.dtype == expected.dtype == (out.aval.dtype if isinstance(out, Var) else expected.dtype)
        assert y.shape == expected.shape
        np.testing.assert_array_equal(y, expected)  # NaN equals NaN
        if y.dtype.kind == "f":
            number = ~np.isnan(y)
            np.testing.assert_array_equal(np.signbit(y)[number], np.signbit(expected)[number])


@settings(max_examples=drawn(600), deadline=None)
@given(st.data())
def test_sums_are_the_same_to_rounding(data):
    program, inputs = example(data, TAME, ELEMENTS + SUMS)
    simple = simplify(program)
    size = largest(program, inputs)
    if not np.isfinite(size):
        return
    for y, expected in zip(run(simple, inputs), run(program, inputs), strict=True):
        assert y.dtype == expected.dtype
        assert y.shape == expected.shape
        if y.dtype.kind == "f":
            eps = np.finfo(y.dtype).eps
            np.testing.assert_allclose(y, expected, rtol=100 * eps, atol=100 * eps * size)
        else:
            np.testing.assert_array_equal(y, expected)


@settings(max_examples=drawn(600), deadline=None)
@given(st.data())
def test_rules_take_constants_in_every_place(data):
    """A constant whose equation is left to the program, as beyond some depth of rules, is one operand."""
    program, inputs = example(data, TAME, ("shape", "binary") * 4 + ELEMENTS + SUMS)
    known = [data.draw(st.booleans()) for _ in inputs]
    values = {v: x for v, x, k in zip(program.inputs, inputs, known, strict=True) if k}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operands, "folded", lambda *_: None)
        patch.setattr(rewriting, "_DEEPEST", data.draw(st.sampled_from((1, 2, 3, 40))))
        simple = simplify(replaced(program, values))
    size = largest(program, inputs)
    if not np.isfinite(size):
        return
    free = [x for x, k in zip(inputs, known, strict=True) if not k]
    for y, expected in zip(run(simple, free), run(program, inputs), strict=True):
        assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
        if y.dtype.kind == "f":
            eps = np.finfo(y.dtype).eps
            np.testing.assert_allclose(y, expected, rtol=100 * eps, atol=100 * eps * size)
        else:
            np.testing.assert_array_equal(y, expected)
