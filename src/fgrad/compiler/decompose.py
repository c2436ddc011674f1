"""Decomposition: composite primitives become those that kernels know, constant arrays become inputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fgrad.compiler.concatenation import is_joined
from fgrad.compiler.degenerate import of_nothing, without_truths
from fgrad.compiler.elements import SMALL, loop_dtypes
from fgrad.compiler.fuse import holds, is_fusable
from fgrad.compiler.library import ON_PAIRS, applied_by, is_native
from fgrad.compiler.tables import F, Table
from fgrad.core.aval import Aval, aval_of, with_ones
from fgrad.core.primitive import ASSEMBLES, PRIMITIVES
from fgrad.core.program import Equation, Program, Var, aval_out
from fgrad.core.rewriting.operations import Operations
from fgrad.core.tensor import Tensor
from fgrad.kernels import native, ufuncs, vm


class Plain(NamedTuple):
    """A program without composite primitives and constant arrays."""

    program: Program
    constants: dict[Var, np.ndarray[Any, Any]]  # inputs besides those of the program
    checks: tuple[Var, ...]  # reductions, zero unless an index or a number is out of bounds, or one of `vm`


DOUBLE = np.dtype(np.float64)
Rules = Mapping[str, Callable[..., Any]]
RULES = Table()  # (writer, *operands, **params) -> the result, None: as it is
ON_DEVICE = Table()  # the same for what the CPU has kernels for


def rule(name: str) -> Callable[[F], F]:
    """Return the decorator that adds the rule of a primitive to both tables."""
    return lambda made: RULES.on(name)(ON_DEVICE.on(name)(made))


def decompose(program: Program, rules: Rules | None = None) -> Plain:
    """Return the program with its composite primitives written out: those of `RULES`, or others."""
    return Writer(RULES if rules is None else rules).run(program)


class Writer(Operations):
    """Writes a program by the rules of a table."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.equations: list[Equation] = []
        self.constants: dict[int, tuple[Var, Any]] = {}
        self.held: list[Any] = []
        self.makers: dict[Var, Equation] = {}
        self.numbers: dict[Any, Var] = {}
        self.checks: dict[Var, None] = {}
        self.checked: dict[tuple[Var, int], None] = {}
        self.factors: dict[Var, tuple[Var, ...]] = {}  # by matrices, of those that LAPACK factors
        self.count = 0
        self.line = ""

    def run(self, program: Program) -> Plain:
        """Return the program written out."""
        known: dict[Var, Any] = {}
        for e in program.equations:
            self.line, wanted = e.line, e.outs
            args = tuple(self.operand(known.get(a, a) if isinstance(a, Var) else a) for a in e.args)
            if bool in map(type, e.params.get("template", ())) and self.rules is RULES:
                e, args = without_truths(self, e, args)  # noqa: PLW2901 -- the same without True
            rule = None if bool in map(type, e.params.get("template", ())) else self.rules.get(e.name)
            made = rule(self, *args, **e.params) if rule and e.outs[0].aval.size else None
            if made is None:
                made = of_nothing(self, e, args)
            if made is None:
                self.append(self.called(e.with_args(args)))
                made = e.outs
            if made is not wanted:
                found = made if isinstance(made, tuple) else (made,)
                known.update((v, self.like(y, v.aval)) for v, y in zip(wanted, found, strict=True))
        outputs = [self.operand(known.get(y, y) if isinstance(y, Var) else y) for y in program.outputs]
        trees = (program.in_tree, program.out_tree)
        constants = dict(self.constants.values())
        made = Program([*program.inputs, *constants], self.equations, outputs, trees)
        return Plain(made, constants, tuple(self.checks))

    def operand(self, x: Any) -> Any:
        """Return a variable for an array, the number itself for a number."""
        if isinstance(x, Tensor):
            x = x._value
        if isinstance(x, Var) or not np.ndim(x):
            return x
        return self.array(x)

    def array(self, x: Any) -> Var:
        """Return the variable of a constant array."""
        if id(x) not in self.constants:
            self.constants[id(x)] = (Var(aval_of(x), f"k{len(self.constants)}"), np.asarray(x, order="C"))
            self.held.append(x)  # no other array gets its id
        return self.constants[id(x)][0]

    def typed(self, x: Any, dtype: np.dtype[Any]) -> Var:
        """Return an operand, or a number, as a variable of this dtype."""
        if not isinstance(x, Var):
            return self.array(np.asarray(x, dtype))
        return x if x.aval.dtype == dtype else self.convert(x, dtype=dtype)

    def number(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """Return the variable of a number, in the dtype in which it is used."""
        if dtype.kind != "f":
            return x
        with np.errstate(over="ignore"):  # of compiled code nobody is warned
            array = np.array(x, dtype)
        key = (array.tobytes(), dtype)
        if key not in self.numbers:
            self.numbers[key] = Var(aval_of(array), f"c{len(self.numbers)}")
            self.constants[id(array)] = (self.numbers[key], array)
        return self.numbers[key]

    def shape_of(self, name: str, *args: Var, **params: Any) -> tuple[int, ...]:
        """Return the shape of what a primitive gives of variables."""
        found: Aval = PRIMITIVES[name].shape(*(a.aval for a in args), **params)  # type: ignore[misc]
        return found.shape

    def make(self, name: str, *args: Any, **params: Any) -> Var:
        """Return the result of a primitive, as a new variable."""
        return self.write_all(name, *args, **params)[0]

    def write_all(self, name: str, *args: Any, **params: Any) -> tuple[Var, ...]:
        """Return the results of a primitive, as new variables."""
        avals = [a.aval if isinstance(a, Var) else a for a in args]
        found = PRIMITIVES[name].shape(*avals, **params)  # type: ignore[misc]
        made = found if PRIMITIVES[name].many else (found,)
        outs = tuple([Var(aval, f"d{self.count + k}") for k, aval in enumerate(made)])
        self.count += len(outs)
        self.append(Equation(name, args, params, outs, self.line))
        return outs

    def append(self, e: Equation) -> None:
        """Add an equation, with its numbers as inputs unless they are such that a text may hold."""
        if PRIMITIVES[e.name].scalar is not None and any(_is_odd(a) for a in e.args):
            dtypes = loop_dtypes(e)
            args = [self.number(a, d) if _is_odd(a) else a for a, d in zip(e.args, dtypes, strict=True)]
            e = Equation(e.name, tuple(args), e.params, e.outs, e.line)
        self.equations.append(e)
        self.makers.update((v, e) for v in e.outs)

    def pairs(self, re: Any, im: Any) -> Var:
        """Return complex numbers, from their parts."""
        return self.make("complex.pairs", re, im)

    def like(self, x: Any, aval: Aval) -> Any:
        """Return a result in the shape that it is to have."""
        return self.reshape(x, aval.shape) if isinstance(x, Var) and x.aval.shape != aval.shape else x

    def called(self, e: Equation) -> Equation:
        """Return an equation with its operands as the loop of a universal function takes them."""
        if len(e.outs) != 1 or self.rules is not RULES or native.interpreted() or not e.outs[0].aval.size:
            return e
        name, avals, result, params = applied_by(e)
        universal = PRIMITIVES[name].universal
        if universal is None or params or is_fusable(e) or is_native(e):
            return e
        ufunc, args = universal.ufunc, [*e.args, *universal.constants]
        avals = (*avals, *map(aval_out, universal.constants))
        kinds: list[Any] = [
            aval.dtype if isinstance(a, Var) else getattr(a, "dtype", type(a))
            for a, aval in zip(args, avals, strict=True)
        ]
        if universal.whole:
            if not self.is_whole(args[0]):
                return e
            kinds[0] = np.dtype(np.int64)
        try:
            dtypes = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
        except TypeError:
            return e
        if ufuncs.loop(universal, dtypes[: ufunc.nin], result.dtype) is None:
            return e
        if not all(map(holds, dtypes, args)):
            return e
        taken = list(zip(args, avals, dtypes, strict=False))
        if any(
            isinstance(a, Var) and "c" in aval.dtype.kind + d.kind and aval.dtype != d for a, aval, d in taken
        ):
            return e  # pairs are converted as pairs alone
        operands, given = [], []
        for a, aval, d in taken:
            x = a if isinstance(a, Var) and aval.dtype == d else self.typed(a, d)
            is_spread = aval.size != 1 and aval.shape != result.shape
            if is_spread:
                pair = x.aval.shape[len(aval.shape) :]
                x = self.broadcast_to(x, (*result.shape, *pair))
            operands.append(x)
            given.append(Aval(result.shape if is_spread else aval.shape, d))
        if e.name == ON_PAIRS:
            params = e.params | {"complex_avals": (tuple(given), e.params["complex_avals"][1])}
        return Equation(e.name, tuple(operands), params, e.outs, e.line)

    def is_whole(self, x: Any) -> bool:
        """Return whether a number or array is known to hold integers."""
        if isinstance(x, Var):
            x = dict(self.constants.values()).get(x, x)
            if isinstance(x, Var):
                return x.aval.dtype.kind in "iu"
        x = np.asarray(x)
        return x.dtype.kind in "biu" or bool(x.dtype.kind == "f" and np.all(x.astype(np.int64) == x))

    def spread(self, x: Var, like: Var, axes: tuple[int, ...]) -> Any:
        """Return a reduced array with axes of length one where it was reduced."""
        return self.reshape(x, with_ones(like.aval.shape, axes))


def _is_odd(x: Any) -> bool:
    """Return whether a number may come from sizes or settings: a kernel that holds it serves no other."""
    if isinstance(x, Var) or not isinstance(x, float | np.floating):
        return False
    number = float(x)
    return abs(number) > SMALL or 2 * number % 1 != 0


def is_real(x: Any) -> bool:
    """Return whether an operand is an array of floats that kernels know."""
    return isinstance(x, Var) and x.aval.dtype.char in "fd" and x.aval.size > 0


@rule("mean")
def _mean(w: Writer, x: Any, *, axes: tuple[int, ...]) -> Any:
    if not is_real(x):
        return None
    count = math.prod(x.aval.shape[i] for i in axes)
    return w.divide(w.sum(x, axes=axes), float(count))


def _finite_top(w: Writer, x: Var, axes: tuple[int, ...]) -> Any:
    top = w.max(x, axes=axes)
    return w.spread(w.where(w.make("isfinite", top), top, 0.0), x, axes)


@rule("logsumexp")
def _logsumexp(w: Writer, x: Any, *, axes: tuple[int, ...]) -> Any:
    if not is_real(x):
        return None
    top = _finite_top(w, x, axes)
    total = w.sum(w.make("exp", w.subtract(x, top)), axes=axes)
    return w.add(w.make("log", total), w.reshape(top, total.aval.shape))


@rule("softmax")
def _softmax(w: Writer, x: Any, *, axes: tuple[int, ...]) -> Any:
    if not is_real(x):
        return None
    y = w.make("exp", w.subtract(x, w.spread(w.max(x, axes=axes), x, axes)))
    return w.multiply(y, w.spread(w.divide(1.0, w.sum(y, axes=axes)), x, axes))


@rule("log_softmax")
def _log_softmax(w: Writer, x: Any, *, axes: tuple[int, ...]) -> Any:
    if not is_real(x):
        return None
    top = w.spread(w.max(x, axes=axes), x, axes)
    total = w.make("log", w.sum(w.make("exp", w.subtract(x, top)), axes=axes))
    # the difference again, which takes less time than to write and read a row of them
    return w.subtract(w.subtract(x, top), w.spread(total, x, axes))


@rule("layer_norm")
def _layer_norm(w: Writer, x: Any, weight: Any, bias: Any, *, rank: int, eps: float) -> Any:
    if not all(map(is_real, (x, weight, bias))) or not x.aval.dtype == weight.aval.dtype == bias.aval.dtype:
        return None
    n = len(x.aval.shape)
    axes = tuple(range(n - rank, n))
    count = float(math.prod(x.aval.shape[i] for i in axes))
    gap = w.subtract(x, w.spread(w.divide(w.sum(x, axes=axes), count), x, axes))
    variance = w.divide(w.sum(w.multiply(gap, gap), axes=axes), count)
    scale = w.divide(1.0, w.make("sqrt", w.add(variance, eps)))
    y = w.multiply(gap, w.spread(scale, x, axes))
    return w.add(w.multiply(y, weight), bias)


@RULES.on("search")
def _search(w: Writer, a: Any, v: Any, *, side: str) -> Any:
    """Search among elements of one dtype, as NumPy does."""
    if not aval_out(a).size:
        return w.array(np.zeros(aval_out(v).shape, np.intp))
    own, dtype = aval_out(a).dtype, np.result_type(aval_out(a).dtype, aval_out(v).dtype)
    dtype = np.dtype(np.int64) if dtype.kind == "i" or (dtype.kind == "u" and dtype.itemsize < 8) else dtype
    if (own == dtype and aval_out(v).dtype == dtype and isinstance(v, Var)) or dtype.char not in "fdlq":
        return None
    return w.make("search", w.typed(a, dtype), w.typed(v, dtype), side=side)


@RULES.on("fitted")  # on a device the primitive looks at its numbers: nobody looks at checks there
def _fitted(w: Writer, n: Any, *, dtype: np.dtype[Any]) -> Any:
    """Check that numbers are in the range of a dtype of integers."""
    if not isinstance(n, Var) or n.aval.dtype.char == "g":
        return None
    limits = np.iinfo(dtype)
    if n.aval.dtype.kind == "f":
        whole = w.make("trunc", n if n.aval.dtype.itemsize == 8 else w.convert(n, dtype=DOUBLE))
        found = [
            w.make("less", whole, float(limits.min)),
            w.make("greater_equal", whole, float(limits.max) + (limits.bits < 64)),
            w.make("isnan", whole),
        ]
    else:
        own = np.iinfo(n.aval.dtype)
        found = [w.greater(n, limits.max)] if limits.max < own.max else []
        found += [w.make("less", n, limits.min)] if limits.min > own.min else []
    for bad in found:
        w.checks[w.sum(bad, axes=tuple(range(len(n.aval.shape))))] = None
    return w.convert(n, dtype=dtype)


@RULES.on("require")
def _require(w: Writer, good: Any, **_: Any) -> Any:
    """Count what is not good."""
    if not isinstance(good, Var):
        return None
    w.checks[w.sum(w.logical_not(good), axes=tuple(range(len(good.aval.shape))))] = None
    return good


@RULES.on("kernel.trust")
def _trust(w: Writer, x: Any, good: Any, **_: Any) -> Any:
    """Let the program end where something is not good; the primitives, asked again, say what that is."""
    if not isinstance(good, Var):
        if np.all(good):
            return x
        good = w.array(np.asarray(good))
    fault = w.where(good, 0, vm.REFUSED)
    w.checks[w.min(fault, axes=tuple(range(len(good.aval.shape))))] = None
    return x


def _has_parts(x: Any) -> bool:
    """Return whether an operand is complex: of another precision than pairs have, which are none here."""
    return not isinstance(x, Var) or x.aval.dtype.kind == "c"


@RULES.on("real")
def _real(_: Writer, x: Any) -> Any:
    return None if _has_parts(x) else x


@RULES.on("imag")
def _imag(w: Writer, x: Any) -> Any:
    return None if _has_parts(x) else w.array(np.zeros(x.aval.shape, x.aval.dtype))


def _joined(name: str, w: Writer, *arrays: Any, **params: Any) -> Any:
    """Let many arrays that are put side by side have one dtype, so that they can be copied."""
    avals = [a.aval if isinstance(a, Var) else a for a in arrays]
    out = Var(PRIMITIVES[name].shape(*avals, **params), "")  # type: ignore[misc]
    if not is_joined(Equation(name, arrays, params, (out,), "")):
        return None
    return w.make(name, *(w.typed(a, out.aval.dtype) for a in arrays), **params)


for _name in [name for name, p in PRIMITIVES.items() if ASSEMBLES in p.traits]:
    rule(_name)(functools.partial(_joined, _name))
