"""Random programs: operations drawn one after the other, and applied to values that are there."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.program import Program

FLOATS = (np.float64, np.float32)
DTYPES = (*FLOATS, np.int64)
MIXED = (*DTYPES, np.int32, np.int8, np.uint8, np.bool_)
SHAPES = ((), (3,), (2, 3), (3, 3), (1, 3), (2, 1))
LARGER = (*SHAPES, (20,), (17, 3), (2, 18), (3, 2, 3))
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, np.inf, -np.inf, np.nan)
TAME = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0)
UNARY = (np.negative, np.square, np.absolute, np.sin, np.floor, np.isfinite, np.logical_not)
BINARY = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.equal, np.less, np.logical_and)
SMOOTH = (np.negative, np.square, np.sin, np.cos, np.tanh, np.arctan, fg.nn.sigmoid, np.absolute)


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

    def axes(self, x: Any) -> tuple[int, ...]:
        return tuple(i for i in range(x.ndim) if self.choose((True, False)))

    def unary(self, x: Any) -> Any:
        return self.choose(UNARY)(x)

    def binary(self, x: Any) -> Any:
        return self.choose(BINARY)(x, self.pick())

    def constant(self, x: Any) -> Any:
        c = self.choose(self.constants)
        c = int(c) if x.dtype.kind in "iu" and np.isfinite(c) else c
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
        return np.sum(x, axis=self.axes(x))

    def mean(self, x: Any) -> Any:
        return np.mean(x, axis=self.axes(x))

    def contract(self, x: Any) -> Any:
        return np.einsum(self.choose(("ij,kj->ki", "ij,ij->j", "ij,kj->ik", "ij,jk->ik")), x, self.pick())

    # ---- what the compiler treats in its own way

    def smooth(self, x: Any) -> Any:
        return self.choose(SMOOTH)(x)

    def convert(self, x: Any) -> Any:
        return x.astype(self.choose(MIXED))

    def strided(self, x: Any) -> Any:
        axis = self.choose(range(x.ndim)) if x.ndim else 0
        step = self.choose((2, -2, 3))
        return x[(*(slice(None),) * axis, slice(None, None, step))] if x.ndim else x

    def put(self, x: Any) -> Any:
        y = fnp.array(x) * 1
        index = self.index(x.shape)
        value = self.pick()
        y[index] = np.reshape(value, -1)[0] if self.choose((True, False)) else value
        return y

    def concatenate(self, x: Any) -> Any:
        axis = self.choose(range(x.ndim)) if x.ndim else 0
        return np.concatenate([x, self.pick(), np.flip(x)], axis=axis) if x.ndim else np.stack([x, x])

    def stack(self, x: Any) -> Any:
        parts = [x, *(y for y in self.values if y.shape == x.shape)][-4:]
        return np.stack(parts, axis=self.choose(range(x.ndim + 1)))

    def unstack(self, x: Any) -> Any:
        axis = self.choose(range(x.ndim)) if x.ndim else 0
        parts = fnp.unstack(x, axis=axis) if x.ndim else [x]
        return parts[0] * parts[-1] + parts[len(parts) // 2]

    def pad(self, x: Any) -> Any:
        return np.pad(x, [(self.choose((0, 1, 2)), self.choose((0, 1, 3))) for _ in range(x.ndim)])

    def fold(self, x: Any) -> Any:
        return np.reshape(x, self.choose(((-1, 2), (2, -1), (3, -1), (-1, 3), (-1, 1))))

    def extremum(self, x: Any) -> Any:
        return self.choose((np.max, np.min))(x, axis=self.axes(x))

    def product(self, x: Any) -> Any:
        return np.prod(np.clip(x, -1, 1) + 1.1, axis=self.axes(x))

    def cumsum(self, x: Any) -> Any:
        return np.cumsum(x, axis=self.choose(range(x.ndim)) if x.ndim else None)

    def softmax(self, x: Any) -> Any:
        f = self.choose((fg.nn.softmax, fg.nn.log_softmax))
        return f(x, axis=self.choose(range(x.ndim)))

    def logsumexp(self, x: Any) -> Any:
        return fg.nn.logsumexp(x, axis=self.choose(range(x.ndim)))

    def norm(self, x: Any) -> Any:
        centered = x - np.mean(x, axis=-1, keepdims=True)
        return centered / np.sqrt(np.mean(centered**2, axis=-1, keepdims=True) + 1)

    def matmul(self, x: Any) -> Any:
        return x @ self.choose((np.swapaxes(x, -1, -2) if x.ndim > 1 else x, self.pick()))

    def gather(self, x: Any) -> Any:
        j = np.array(self.choose(((0,), (0, 0, -1), ((0, -1), (-1, 0)))))
        return x[self.choose(((slice(None),) * (x.ndim - 1) + (j,), (j,)))]

    def looked_up(self, x: Any) -> Any:
        y = self.pick()
        j = (np.floor(y) if y.dtype.kind == "f" else y).astype(np.int64) % x.shape[0]
        return x[j]

    def scatter(self, x: Any) -> Any:
        y = fnp.zeros((4, *x.shape[1:]), x.dtype)
        y[np.arange(x.shape[0]) % 4] += x[:4]
        return y


ELEMENTS = (
    "unary", "binary", "constant", "power", "where", "slice", "assign", "shape", "transpose", "broadcast",
    "join",
)  # fmt: skip
SUMS = ("sum", "mean", "contract", "contract")
VIEWS = (
    "scatter", "strided", "put", "concatenate", "stack", "unstack",
    "pad", "fold", "gather", "looked_up", "convert",
)  # fmt: skip
REDUCTIONS = ("extremum", "product", "cumsum", "softmax", "logsumexp", "norm", "matmul")


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
        except (TypeError, ValueError, IndexError, OverflowError):  # not of these shapes, dtypes or values
            continue
        if y.size <= 200 and y.ndim < 5:
            values.append(y)
    return values[len(inputs) :]


def run(program: Program, inputs: list[Any]) -> list[Any]:
    """Return what a program computes, one operation after the other."""
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in program.run(inputs)]
