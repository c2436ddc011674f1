"""Random programs: simple ones compute what they computed before, whatever the values."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.compiler.simplify import simplify
from fgrad.core.program import Program, Var

DTYPES = (np.float64, np.float32, np.int64)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, np.inf, -np.inf, np.nan)
TAME = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0)
UNARY = (np.negative, np.square, np.absolute, np.sin, np.floor, np.isfinite, np.logical_not)
BINARY = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.equal, np.less, np.logical_and)


class Growing:
    """Draws operations, and applies them to values that are there."""

    def __init__(self, data: Any, values: list[Any], constants: tuple[float, ...]) -> None:
        self.data, self.values, self.constants = data, values, constants

    def choose(self, options: Any) -> Any:
        return self.data.draw(st.sampled_from(options))

    def value(self) -> Any:
        return self.choose(range(len(self.values)))

    def pick(self) -> Any:
        return self.values[self.value()]

    def index(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        parts: list[Any] = []
        for n in shape:
            lo = self.choose(range(n)) if n else 0
            options = [slice(None), slice(lo, n), slice(None, None, -1), slice(0, lo), *([lo] if n else [])]
            parts.append(self.choose(options))
        return tuple(parts)

    def unary(self, x: Any) -> Any:
        return self.choose(UNARY)(x)

    def binary(self, x: Any) -> Any:
        return self.choose(BINARY)(x, self.pick())

    def constant(self, x: Any) -> Any:
        c = self.choose(self.constants)
        c = int(c) if x.dtype.kind == "i" and np.isfinite(c) else c
        c = np.full(x.shape, c, x.dtype if x.dtype.kind == "f" else None) if self.choose((True, False)) else c
        f = self.choose(BINARY)
        return f(x, c) if self.choose((True, False)) else f(c, x)

    def power(self, x: Any) -> Any:
        return x ** self.choose((0, 1, 2))

    def where(self, x: Any) -> Any:
        return np.where(self.pick(), x, self.choose((self.pick(), 0)))

    def slice(self, x: Any) -> Any:
        return x[self.index(x.shape)]

    def assign(self, x: Any) -> Any:
        y = fnp.array(x) * 1
        index = self.index(x.shape)
        y[index] = self.choose((1, 0, np.negative(x[index])))
        return y

    def shape(self, x: Any) -> Any:
        return np.reshape(x, self.choose(((-1,), (1, *x.shape), x.shape)))

    def transpose(self, x: Any) -> Any:
        return np.transpose(x, self.data.draw(st.permutations(range(x.ndim))))

    def broadcast(self, x: Any) -> Any:
        return np.broadcast_to(x, (self.choose((1, 2, 3)), *x.shape))

    def join(self, x: Any) -> Any:
        return np.concatenate([x, x[:1]]) if x.ndim else np.stack([x, x])

    def sum(self, x: Any) -> Any:
        return np.sum(x, axis=tuple(i for i in range(x.ndim) if self.choose((True, False))))

    def mean(self, x: Any) -> Any:
        return np.mean(x, axis=tuple(i for i in range(x.ndim) if self.choose((True, False))))

    def contract(self, x: Any) -> Any:
        return np.einsum(self.choose(("ij,kj->ki", "ij,ij->j", "ij,kj->ik", "ij,jk->ik")), x, self.pick())


ELEMENTS = (
    "unary", "binary", "constant", "power", "where", "slice", "assign", "shape", "transpose", "broadcast",
    "join",
)  # fmt: skip
SUMS = ("sum", "mean", "contract", "contract")


def grown(
    data: Any, inputs: list[Any], steps: int, constants: tuple[float, ...], kinds: tuple[str, ...]
) -> list[Any]:
    """Return values computed from `inputs` by operations that `data` chooses."""
    values = list(inputs)
    growing = Growing(data, values, constants)
    for _ in range(steps):
        x = growing.pick()
        try:
            y = getattr(growing, growing.choose(kinds))(x)
        except (TypeError, ValueError):  # not of these shapes or dtypes
            continue
        if y.size <= 200 and y.ndim < 5:
            values.append(y)
    return values[len(inputs) :]


def example(data: Any, constants: tuple[float, ...], kinds: tuple[str, ...]) -> tuple[Program, list[Any]]:
    shapes = data.draw(
        st.lists(st.sampled_from(((), (3,), (2, 3), (3, 3), (1, 3), (2, 1))), min_size=1, max_size=3)
    )
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


def run(program: Program, inputs: list[Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in program.run(inputs)]


def largest(program: Program, inputs: list[Any]) -> float:
    every = [v for e in program.equations for v in e.outs]
    whole = Program(program.inputs, program.equations, every, (None, None))
    sizes = [np.abs(np.asarray(y, float)) for y in run(whole, inputs)]
    return max([1.0, *(float(s.max()) for s in sizes if s.size)])


@settings(max_examples=300, deadline=None)
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


@settings(max_examples=300, deadline=None)
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
