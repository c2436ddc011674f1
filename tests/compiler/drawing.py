"""Random programs around one pattern: arrays, numbers, indices and shapes drawn from all that NumPy takes."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import fgrad as fg
from fgrad.core.program import Equation, Program, Var

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
REALS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
NUMBERS = (*INTEGERS, *REALS, *COMPLEX)
DTYPES = ("bool", *NUMBERS)
PYTHON = ("python bool", "python int", "python float", "python complex")
SHAPES = ((), (1,), (3,), (2, 3), (1, 3), (2, 1), (0,), (0, 2), (3, 0))
FULL = ((3,), (2, 3), (1, 3), (2, 1), (4, 2))

_PLAIN = (0, 1, 2, 3, -1, -2, 0.5, 4, 8, -1.5, 0.1)
_SPECIAL = (-0.0, np.inf, -np.inf, np.nan)


def values_of(dtype: np.dtype[Any], mode: str) -> list[Any]:
    """Return numbers of a dtype: "plain", "special" with NaN and its like, "extreme" to both ends."""
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        ends = [limits.min, limits.max, limits.max - 1, limits.min + 1] if mode != "plain" else []
        return [dtype.type(v) for v in (0, 1, 2, 3, 7, *([-1, -2] if dtype.kind == "i" else []), *ends)]
    if dtype.kind == "c":
        parts = values_of(np.empty(0, dtype).real.dtype, mode)
        pairs = [(a, parts[(3 * i + 1) % len(parts)]) for i, a in enumerate(parts)]
        return [dtype.type(complex(a, b)) for a, b in [*pairs, (1, 0), (0, 0), (-0.0, 0.0), (0.0, -0.0)]]
    found = [dtype.type(v) for v in _PLAIN]
    if mode in {"special", "extreme"}:
        found += [dtype.type(v) for v in _SPECIAL]
    if mode == "huge":  # whose sums are infinite
        found += [dtype.type(v) for v in (np.finfo(dtype).max / 2, np.finfo(dtype).max / 4, -0.0)] * 3
    if mode == "extreme":
        info = np.finfo(dtype)
        ends = (
            info.max,
            -info.max,
            info.max / 2,
            info.tiny,
            info.smallest_subnormal,
            info.eps,
            info.tiny * 3,
        )
        found += [dtype.type(v) for v in ends]
    return found


class Drawing:
    """Draws what a program is made of, and keeps what it is called with."""

    mode: str

    def __init__(self, chosen: Sequence[int], modes: Sequence[str]) -> None:
        self.chosen = chosen  # numbers that decide, as far as they go; then always the first option
        self.used: list[int] = []
        self.inputs: list[np.ndarray[Any, Any]] = []
        self.known: dict[int, Any] = {}  # arguments that are constants in the program
        self.mode = self.pick(modes)

    def below(self, n: int) -> int:
        """Return a number from 0 to before `n`."""
        k = len(self.used)
        found = self.chosen[k] % n if k < len(self.chosen) else 0
        self.used.append(found)
        return found

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]

    def chance(self) -> bool:
        return self.below(2) == 0

    def integer(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def dtype(self, options: Sequence[str] = DTYPES) -> np.dtype[Any]:
        return np.dtype(self.pick(options))

    def shape(self, options: Sequence[tuple[int, ...]] = SHAPES) -> tuple[int, ...]:
        return tuple(self.pick(options))

    def array(self, shape: tuple[int, ...], dtype: Any, mode: str = "") -> np.ndarray[Any, Any]:
        """Return an array."""
        dtype = np.dtype(dtype)
        values = values_of(dtype, mode or self.mode)
        size = int(np.prod(shape, dtype=int))
        return np.array([self.pick(values) for _ in range(size)], dtype).reshape(shape)

    def given(self, shape: tuple[int, ...], dtype: Any, mode: str = "") -> int:
        """Return the number of a new argument of the program."""
        self.inputs.append(self.array(shape, dtype, mode))
        return len(self.inputs) - 1

    def fixed(self, shape: tuple[int, ...], dtype: Any, mode: str = "") -> int:
        """Return the number of a new argument that is staged, and a constant of the program afterwards."""
        i = self.given(shape, dtype, mode)
        x = self.inputs[i]
        if x.size and self.chance():
            x = self.inputs[i] = np.broadcast_to(x.reshape(-1)[0], shape)
        self.known[i] = x if shape else x[()]
        return i

    def number(self, dtype: Any, mode: str = "") -> Any:
        """Return a number, of NumPy or Python."""
        if str(dtype).startswith("python"):
            kind = {"bool": "bool", "int": "int64", "float": "float64", "complex": "complex128"}[dtype[7:]]
            return self.array((), kind, mode).item()
        return self.array((), dtype, mode)[()]

    def constant(
        self, shape: tuple[int, ...], dtypes: Sequence[str] = (*DTYPES, *PYTHON), mode: str = ""
    ) -> Any:
        """Return a constant that broadcasts with `shape`: a number, one that is repeated, or an array."""
        dtype = self.pick(dtypes)
        kind = (
            "number"
            if str(dtype).startswith("python")
            else self.pick(("number", "0-d", "full", "view", "array"))
        )
        if kind == "array":
            own = shape[self.integer(0, len(shape)) :]
            return self.array(tuple(n if self.chance() else 1 for n in own), dtype, mode)
        c = self.number(dtype, mode)
        if kind == "number":
            return c
        made = np.asarray(c)
        if kind == "full":
            return np.full(shape, made)
        return np.broadcast_to(made, shape) if kind == "view" else made

    def part(self, n: int) -> Any:
        """Return what an index says of an axis of length `n`."""
        ends = (None, *range(-n - 1, n + 2))
        options: list[Any] = [slice(self.pick(ends), self.pick(ends), self.pick((None, 1, -1, 2, -2, 3)))]
        if n:
            options += [self.integer(-n, n - 1)]
        return self.pick(options)

    def index(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return a basic index, as programs hold it."""
        parts = [self.part(n) for n in shape[: self.integer(0, len(shape))]]
        if self.chance():
            parts.insert(self.integer(0, len(parts)), None)
        if self.integer(0, 3) == 0:
            at = self.integer(0, len(parts))
            taken = sum(p is not None for p in parts[:at])
            rest = [self.part(n) for n in shape[len(shape) - self.integer(0, len(shape) - taken) :]]
            parts = [*parts[:at], Ellipsis, *rest] if taken + len(rest) <= len(shape) else parts
        return tuple(parts)

    def places(self, n: int, *, inside: bool = False) -> np.ndarray[Any, Any]:
        """Return an index array for an axis of length `n`."""
        dtype = self.dtype(INTEGERS)
        limits = np.iinfo(dtype)
        low = -n if dtype.kind == "i" else 0
        count = self.integer(0, 4)
        options = list(range(low, n))
        if not inside:
            options += [-n - 1, n, int(limits.min), int(limits.max)]
        options = [i for i in options if limits.min <= i <= limits.max]
        if not options:
            return np.zeros(0, dtype)
        if options and self.chance() and count:  # evenly spaced
            start, step = self.pick(options[: n or None]), self.integer(-2, 2)
            found = [start + k * step for k in range(count)]
            if all(i in options for i in found):
                return np.array(found, dtype)
        return np.array([self.pick(options) for _ in range(count)], dtype)

    def axes(self, rank: int) -> tuple[int, ...]:
        return tuple(i for i in range(rank) if self.chance())

    def permutation(self, rank: int) -> tuple[int, ...]:
        rest = list(range(rank))
        return tuple(rest.pop(self.below(len(rest))) for _ in range(rank))


class Traced(NamedTuple):
    """A program, its arguments, and what each of its operations gives."""

    program: Program
    inputs: list[Any]
    outputs: list[Any]
    size: float  # of the largest finite number on the way
    eps: float  # of the narrowest floats on the way
    mode: str


def staged(d: Drawing, f: Any) -> Traced | None:
    """Return the program of `f`, None where NumPy does not take such operands."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = fg.make_graph(lambda *xs: f(*xs))(*d.inputs)
    except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError):
        return None
    constants = {program.inputs[i]: x for i, x in d.known.items()}
    if constants:
        equations = [
            Equation(
                e.name,
                tuple(constants.get(a, a) if isinstance(a, Var) else a for a in e.args),
                e.params,
                e.outs,
                "",
            )
            for e in program.equations
        ]
        program = Program(program.inputs, equations, program.outputs, (None, None))
    every = [v for e in program.equations for v in e.outs]
    whole = Program(program.inputs, program.equations, [*program.outputs, *every], (None, None))
    error, values = computed(whole, d.inputs)
    if error:  # of NumPy, which depends on values
        return None
    size, eps = 1.0, 0.0
    for y in [*values, *(np.asarray(a) for e in program.equations for a in e.args if not isinstance(a, Var))]:
        eps = max(eps, float(np.finfo(y.dtype).eps)) if y.dtype.kind in "fc" else eps
        if y.dtype.kind in "fciu" and y.size:
            wide = np.abs(y.astype(np.clongdouble if y.dtype.kind == "c" else np.longdouble))
            wide = wide[np.isfinite(wide)]
            size = max(size, float(wide.max())) if wide.size else size
    return Traced(program, d.inputs, values[: len(program.outputs)], size, eps, d.mode)


def computed(program: Program, inputs: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return what a program raises, and what it returns."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "", [np.asarray(y) for y in program.run([np.array(x) for x in inputs])]
    except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, ArithmeticError) as e:
        return type(e).__name__, []


def differs(
    y: Any, e: Any, tolerance: float = 0.0, mode: str = "", *, mixed: bool = False, signed: bool = True
) -> bool:
    """Return whether two values differ: in a bit, or by more than a tolerance; NaN equals NaN.

    Numbers near the ends of the range are equal up to a few of the smallest. Where those of NumPy overflow on
    the way, the others need not.

    Args:
        y: a value.
        e: what it should be.
        tolerance: how many units in the last place of the largest number on the way, times that number;
            0 for equal bits.
        mode: of the numbers.
        mixed: whether NaN and the infinities are one.
        signed: whether zeros have signs.
    """
    if (y.dtype, y.shape) != (e.dtype, e.shape):
        return True
    if y.dtype.kind not in "fc":
        return not np.array_equal(y, e)
    far = mode in {"extreme", "huge"}
    if mixed and not far and not np.array_equal(np.isfinite(y), np.isfinite(e)):
        return True
    if mixed or far:
        y, e = y[np.isfinite(e)], e[np.isfinite(e)]
    if y.dtype.kind == "c":
        least = max(tolerance, 4 * float(np.abs(e[np.isfinite(e)]).max(initial=0.0)))  # products are rounded
        parts = ((y.real, e.real), (y.imag, e.imag))
        return any(differs(*p, least, mode, signed=signed) for p in parts)
    if not np.array_equal(np.isnan(y), np.isnan(e)):
        return True
    y, e = y[~np.isnan(e)], e[~np.isnan(e)]
    if not tolerance and mode != "extreme":
        signs = not signed or np.array_equal(np.signbit(y), np.signbit(e))
        return not (np.array_equal(y, e) and signs)
    finite = np.isfinite(e)
    if not np.array_equal(y[~finite], e[~finite]) or not np.isfinite(y[finite]).all():
        return True
    gap = np.abs(y[finite].astype(np.longdouble) - e[finite].astype(np.longdouble))
    info = np.finfo(y.dtype)
    return bool((gap > float(info.eps) * tolerance + 4 * float(info.smallest_subnormal)).any())


def described(t: Traced) -> str:
    """Return a program as a few lines that make it again."""
    lines = [f"  {i} = {np.asarray(x)!r}" for i, x in zip(t.program.inputs, t.inputs, strict=True)]
    constants = [
        f"  {e.name} of {a!r} ({type(a).__name__} {getattr(a, 'dtype', '')} {getattr(a, 'strides', '')})"
        for e in t.program.equations
        for a in e.args
        if not isinstance(a, Var)
    ]
    return "\n".join([str(t.program), *lines, *constants])


def search(check: Callable[[Sequence[int]], list[int]], seed: str, count: int) -> None:
    """Run a check on so many random lists of numbers; raise what it raises on the least one that is found.

    Args:
        check: takes numbers that decide, and returns those that it has used.
        seed: of the random numbers.
        count: how many lists.
    """
    numbers = random.Random(seed)
    for _ in range(count):
        chosen = [numbers.randrange(2**30) for _ in range(400)]
        try:
            check(chosen)
        except Exception as e:
            raise _smallest(check, chosen, e) from None


def _smallest(
    check: Callable[[Sequence[int]], list[int]], chosen: Sequence[int], error: Exception
) -> Exception:
    """Return the error of the program that is left when every choice is made as simple as it may be."""
    best, tries = list(chosen), 600

    def fails(candidate: list[int]) -> bool:
        nonlocal error, best, tries
        tries -= 1
        try:
            check(candidate)
        except Exception as e:
            if e.__class__ is error.__class__:
                error, best = e, candidate
                return True
        return False

    for keep in (10, 20, 40, 80, 160):
        if fails(best[:keep]):
            break
    k = 0
    while k < len(best) and tries > 0:
        if best[k]:
            rest = best[k + 1 :]
            if not (fails([*best[:k], *rest]) or fails([*best[:k], 0, *rest])):
                low = next((n for n in range(1, min(8, best[k])) if fails([*best[:k], n, *rest])), None)
                if low is None:
                    k += 1
                continue
        k += 1
    return error
