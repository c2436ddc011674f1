"""Complex numbers as pairs of real ones: programs of real arrays, of which kernels know the elements.

What a program does with complex arrays is done to their real and imaginary parts, each an array. The parts
lie side by side, as a last axis of two, only in what comes from outside or goes there: inputs, outputs, and
operands and results of what Python computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad.compiler.elements import Elements, Indices, Piece, shape_of, view
from fgrad.compiler.library import ON_PAIRS
from fgrad.compiler.loop_nests import Value
from fgrad.compiler.simplify import simplify
from fgrad.compiler.tables import Table
from fgrad.core.aval import Aval, Shape, aval_of
from fgrad.core.control_flow import PLAIN, Branches, Code, Grown, Scan, While
from fgrad.core.primitive import (
    AVERAGES,
    CASTS,
    CHOOSES,
    CONTRACTION,
    EACH,
    NOT_FOLDED,
    PRIMITIVES,
    TOTAL,
    Primitive,
    declare,
    flat,
)
from fgrad.core.program import Equation, Program, Var, applied, aval_out
from fgrad.core.rewriting.operations import Operations
from fgrad.expr.complex_numbers import FORMULAS, Number, Real, divide, power, product, truth
from fgrad.ops.fft import TO_COMPLEX

Parts: TypeAlias = tuple[Any, Any]  # variables, numbers or constant arrays, which broadcast to the shape
MOST = 99  # the largest exponent for which NumPy multiplies
RULES = Table()  # what `_rule` returns


def is_pair(aval: Aval) -> bool:
    """Return whether an array is of complex numbers of which the parts are known to kernels."""
    return aval.dtype.char in "FD" and aval.dtype.isnative


def pair_of(aval: Aval) -> Aval:
    """Return the aval of the parts of complex numbers, side by side."""
    return _shaped(aval, (*aval.shape, 2))


def _shaped(aval: Aval, shape: Shape) -> Aval:
    """Return the aval of real numbers for one of complex numbers."""
    dtype = part_of(aval.dtype)
    return Grown(shape[1:], dtype) if isinstance(aval, Grown) else Aval(shape, dtype)


def part_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the parts of complex numbers."""
    return np.dtype(np.float32 if dtype.char == "F" else np.float64)


def as_pairs(x: Any) -> Any:
    """Return an array of complex numbers as one of their parts, in the same memory if it is contiguous."""
    x = np.asarray(x, order="C")
    return x[..., None].view(part_of(x.dtype)) if x.dtype.char in "FD" else x


def in_pairs(program: Program) -> Program:
    """Return a program of real arrays: each complex array, in and out, is one of pairs."""
    if not _is_complex(program):
        return program
    return simplify(_Writer().whole(program))


def _is_complex(program: Program) -> bool:
    avals = (v.aval for e in program.equations for v in (*e.outs, *(a for a in e.args if isinstance(a, Var))))
    if any(map(is_pair, (*avals, *(v.aval for v in program.inputs)))):
        return True
    codes = (e.params.get("code") for e in program.equations)
    return any(any(map(_is_complex, c.inner())) for c in codes if isinstance(c, PLAIN))


class _Complex:
    """A complex array of a program: its parts, both side by side, or both."""

    __slots__ = ("aval", "pairs", "parts")

    def __init__(self, aval: Aval, parts: Parts | None = None, pairs: Var | None = None) -> None:
        self.aval, self.parts, self.pairs = aval, parts, pairs


class _Writer(Operations):
    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.known: dict[Var, Any] = {}
        self.constants: dict[int, Parts] = {}
        self.void: set[Var] = set()  # which are zero or NaN
        self.line = ""
        self.count = 0

    def whole(self, program: Program) -> Program:
        """Return a program where complex inputs and outputs are pairs."""
        inputs = []
        for v in program.inputs:
            if is_pair(v.aval):
                self.known[v] = _Complex(v.aval, pairs=Var(pair_of(v.aval), v.name))
            inputs.append(self.known[v].pairs if v in self.known else v)
        self.body(program)
        outputs = [self.joined(y) if isinstance(y, Var) else y for y in program.outputs]
        return Program(inputs, self.equations, outputs, (program.in_tree, program.out_tree))

    def inner(self, program: Program) -> Program:
        """Return a program inside of this one, where complex inputs and outputs are two parts each."""
        made = _Writer()
        inputs = [w for v in program.inputs for w in made.taken(v)]
        made.body(program)
        outputs = [y for out in program.outputs for y in made.given(out)]
        return Program(inputs, made.equations, outputs, (None, None))

    def taken(self, v: Var) -> Sequence[Var]:
        """Return new variables for one that is an input of a loop or its result."""
        if not is_pair(v.aval):
            return (v,)
        part = _shaped(v.aval, v.aval.shape)
        parts = self.variable(part), self.variable(part)
        self.known[v] = _Complex(v.aval, parts)
        return parts

    def given(self, x: Any) -> Sequence[Any]:
        """Return what a loop takes for a value: both parts of complex ones, of full size."""
        if not is_pair(aval_out(x)):
            return (self.same(x),)
        return [self.full(part, aval_out(x)) for part in self.parts(x)]

    def body(self, program: Program) -> None:
        """Write all equations."""
        for e in program.equations:
            self.line = e.line
            code = e.params.get("code")
            if isinstance(code, PLAIN):
                self.control(e, code)
                continue
            avals = [aval_out(a) for a in (*e.args, *e.outs)]
            if not any(map(is_pair, avals)):
                self.equations.append(e.with_args(map(self.same, e.args)))
                continue
            rule = _rule(PRIMITIVES[e.name])
            known = all(a.dtype.char in "?bhilqBHILQfdFD" and a.dtype.isnative for a in avals)
            made = rule(self, e) if rule and known else None
            if made is None:
                self.call(e)
            elif PRIMITIVES[e.name].many:
                for v, parts in zip(e.outs, made, strict=True):
                    self.known[v] = _Complex(v.aval, parts)
            elif isinstance(made, tuple):
                self.known[e.outs[0]] = _Complex(e.outs[0].aval, made)
            else:
                self.known[e.outs[0]] = self.full(made, e.outs[0].aval)

    def control(self, e: Equation, code: Code) -> None:
        """Write a loop or branch, in which each part is a value of its own."""
        args = [list(self.given(a)) for a in e.args]
        lead = len(e.args) - len(code.inner()[-1].inputs)

        def counted(start: int, count: int) -> int:
            return sum(map(len, args[lead + start : lead + start + count]))

        made: Code
        if isinstance(code, Branches):
            made = Branches([self.inner(p) for p in code.branches])
        elif isinstance(code, While):
            made = While(self.inner(code.condition), self.inner(code.body), counted(0, code.consts))
        else:
            assert isinstance(code, Scan)  # noqa: S101 -- it is plain
            carry = counted(code.consts, code.carry)
            made = Scan(
                self.inner(code.body),
                counted(0, code.consts),
                carry,
                code.length,
                reverse=code.reverse,
                checkpoint=code.checkpoint,
            )
        outs = [w for v in e.outs for w in self.taken(v)]
        flat_args = tuple(a for group in args for a in group)
        self.equations.append(Equation(e.name, flat_args, e.params | {"code": made}, tuple(outs), e.line))

    def call(self, e: Equation) -> None:
        """Let Python, or a library, compute an equation, from pairs to pairs."""
        if e.name == "float_power" or (e.name in TO_COMPLEX and not is_pair(aval_out(e.args[0]))):
            e = e.with_args([self.whole_number(a, e.outs[0].aval.dtype) for a in e.args])
        given = tuple(isinstance(a, Var) and is_pair(a.aval) for a in e.args)
        args = [self.joined(a) if g else self.same(a) for a, g in zip(e.args, given, strict=True)]
        outs = []
        for v in e.outs:
            if is_pair(v.aval):
                self.known[v] = _Complex(v.aval, pairs=self.variable(pair_of(v.aval)))
            outs.append(self.known[v].pairs if v in self.known else v)
        avals = tuple(map(aval_out, e.args)), tuple(v.aval for v in e.outs)
        params = {**e.params, "of": e.name, "complex_avals": avals}
        self.equations.append(Equation(ON_PAIRS, tuple(args), params, tuple(outs), e.line))

    def whole_number(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """Return an operand as complex numbers of a dtype."""
        if not isinstance(x, Var) or x.aval.dtype == dtype:
            return x
        aval = Aval(shape_of(x), dtype)
        whole = self.variable(aval)
        self.known[whole] = _Complex(aval, self.typed(x, part_of(dtype)))
        return whole

    def same(self, x: Any) -> Any:
        """Return what an operand that is not complex has become."""
        return self.known.get(x, x) if isinstance(x, Var) else x

    def joined(self, x: Var) -> Var:
        """Return the variable of both parts side by side; that of a real array itself."""
        found = self.known.get(x)
        if not isinstance(found, _Complex):
            return self.same(x)  # type: ignore[no-any-return]
        if found.pairs is None:
            assert found.parts is not None  # noqa: S101 -- it has one or the other
            parts = tuple([self.full(p, found.aval) for p in found.parts])
            found.pairs = self.variable(pair_of(found.aval))
            self.equations.append(Equation("complex.pairs", parts, {}, (found.pairs,), self.line))
        return found.pairs

    def parts(self, x: Any) -> Parts:
        """Return the parts of an operand, of which that of a real one is zero."""
        if isinstance(x, Var):
            found = self.known.get(x, x)
            if not isinstance(found, _Complex):
                return found, 0.0
            if found.parts is None:
                re, im = (self.slice(found.pairs, index=(Ellipsis, i)) for i in range(2))
                found.parts = re, im
            return found.parts
        value = getattr(x, "_value", x)
        if not np.ndim(value):
            number = complex(value)
            return number.real, number.imag
        if id(value) not in self.constants:
            is_real = value.dtype.kind != "c"
            self.constants[id(value)] = (value, 0.0) if is_real else (value.real.copy(), value.imag.copy())
        return self.constants[id(value)]

    def typed(self, x: Any, dtype: np.dtype[Any]) -> Parts:
        """Return the parts of an operand in a dtype."""
        parts = [self.converted(p, dtype) for p in self.parts(x)]
        return parts[0], parts[1]

    def converted(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """Return an array in a dtype, or a number that it holds."""
        if not isinstance(x, Var):
            with np.errstate(all="ignore"):  # of compiled code nobody is warned
                return x.astype(dtype) if np.ndim(x) else float(dtype.type(x))
        return x if x.aval.dtype == dtype else self.convert(x, dtype=dtype)

    def full(self, x: Any, aval: Aval) -> Any:
        """Return an array of the shape of an aval, and of its dtype or that of its parts."""
        dtype = part_of(aval.dtype) if is_pair(aval) else aval.dtype
        if not isinstance(x, Var):
            return np.broadcast_to(np.asarray(self.converted(x, dtype), dtype), aval.shape)
        x = self.converted(x, dtype)
        return self.broadcast_to(x, aval.shape)

    def variable(self, aval: Aval) -> Var:
        """Return a new variable."""
        self.count += 1
        return Var(aval, f"p{self.count}")

    def make(self, name: str, *args: Any, **params: Any) -> Any:
        """Return the result of a primitive of real arrays: that of numbers alone is a number."""
        if not params and not any(isinstance(a, Var) or np.ndim(a) for a in args):
            numbers = [x if isinstance(x, bool) else np.float64(x) for x in args]
            with np.errstate(all="ignore"):
                return np.asarray(PRIMITIVES[name].run(*numbers)).item()
        avals = [a.aval if isinstance(a, Var) else aval_of(a) if np.ndim(a) or params else a for a in args]
        primitive = PRIMITIVES[name]
        made = primitive.shape(*avals, **params)  # type: ignore[misc]
        outs = tuple(map(self.variable, made if primitive.many else (made,)))
        self.equations.append(Equation(name, args, params, outs, self.line))
        if primitive.parts and self.is_void(args[0]):
            self.void.update(outs)
        return outs if primitive.many else outs[0]

    def is_void(self, x: Any) -> bool:
        """Return whether an operand is zero or NaN, like the real part of `1j * x`."""
        return x in self.void if isinstance(x, Var) else not np.ndim(x) and x == 0


def _rule(primitive: Primitive) -> Callable[..., Any] | None:
    """Return (writer, equation) -> the result of a primitive, its parts, or None: Python computes it."""
    if primitive.name in FORMULAS:
        return lambda w, e: _values(FORMULAS[e.name](*_numbers(w, e.args)))
    if primitive.parts:
        return _by_parts
    return RULES.get(primitive.name) or next(
        (r for trait, r in TRAITS.items() if trait in primitive.traits), None
    )


def _numbers(w: _Writer, args: Sequence[Any]) -> list[Number]:
    """Return operands in the precision in which NumPy computes with them."""
    kinds = [aval_out(a).dtype if isinstance(a, Var) or hasattr(a, "dtype") else type(a)(0) for a in args]
    dtype = part_of(np.result_type(*kinds))
    pairs = [w.typed(a, dtype) for a in args]
    return [(Real(w, re), Real(w, im)) for re, im in pairs]


def _values(made: Any) -> Any:
    return made.value if isinstance(made, Real) else tuple([x.value for x in made])


def _by_parts(w: _Writer, e: Equation) -> Any:
    """Do to either part what is done to the operands that hold elements."""
    primitive = PRIMITIVES[e.name]
    count = len(e.args) if primitive.parts == EACH else primitive.parts
    dtype, rest = e.outs[0].aval.dtype, [w.same(a) for a in e.args[count:]]
    given = [[w.full(p, Aval(shape_of(a), dtype)) for p in w.parts(a)] for a in e.args[:count]]
    made = [w.make(e.name, *parts, *rest, **e.params) for parts in zip(*given, strict=True)]
    return list(zip(*made, strict=True)) if primitive.many else tuple(made)


def _choose(w: _Writer, e: Equation) -> Any:
    condition, *others = e.args
    asked = w.same(condition)
    if is_pair(aval_out(condition)):
        asked = truth(*_numbers(w, (condition,))[0]).value
    if not is_pair(e.outs[0].aval):
        return w.make(e.name, asked, *map(w.same, others))
    dtype = part_of(e.outs[0].aval.dtype)
    given = [w.typed(a, dtype) for a in others]
    typed = [[p if isinstance(p, Var) else np.asarray(p, dtype)[()] for p in parts] for parts in given]
    return tuple([w.make(e.name, asked, x, y) for x, y in zip(*typed, strict=True)])


def _cast(w: _Writer, e: Equation) -> Any:
    (x,), out = e.args, e.outs[0].aval
    if is_pair(out):
        return w.typed(x, part_of(out.dtype))
    return truth(*_numbers(w, (x,))[0]).value if out.dtype.kind == "b" else w.parts(x)[0]


def _mean(w: _Writer, e: Equation) -> Any:
    (x,), axes = e.args, e.params["axes"]
    aval = aval_out(x)
    count = float(np.prod([aval.shape[i] for i in axes]))
    total = [Real(w, w.sum(w.full(p, aval), axes=axes)) for p in w.parts(x)]
    return _values(divide((total[0], total[1]), (Real(w, count), Real(w, 0.0))))


def _contract(w: _Writer, e: Equation) -> Any:
    """Sum products of parts; those that are zero everywhere are left out."""
    dtype = part_of(e.outs[0].aval.dtype)
    given = [(a, w.typed(a, dtype)) for a in e.args]

    def product(i: int, j: int) -> Real | None:
        parts = [(a, parts[k]) for (a, parts), k in zip(given, (i, j), strict=True)]
        if any(not isinstance(p, Var) and not np.any(p) for _, p in parts):
            return None
        return Real(w, w.make(e.name, *(w.full(p, Aval(shape_of(a), dtype)) for a, p in parts), **e.params))

    re, less, im, more = product(0, 0), product(1, 1), product(0, 1), product(1, 0)
    if less:
        re = re - less if re else -less
    if more:
        im = im + more if im else more
    return _values((re or Real(w, 0.0), im or Real(w, 0.0)))


def _halved(join: Callable[[Number, Number], Number]) -> Callable[..., Any]:
    """Return the rule of a reduction: it joins halves until one element is left."""

    def reduce(w: _Writer, e: Equation) -> Any:
        (x,), out = e.args, e.outs[0].aval
        aval = aval_out(x)
        axes = e.params["axes"]
        count = int(np.prod([aval.shape[i] for i in axes]))
        if not count:
            return None
        order = (*axes, *(i for i in range(len(aval.shape)) if i not in axes))
        parts = [w.transpose(w.full(p, aval), axes=order) if axes else w.full(p, aval) for p in w.parts(x)]
        re, im = (w.reshape(p, (count, *out.shape)) for p in parts)

        def part(start: int, stop: int) -> Number:
            index = (slice(start, stop),)
            return Real(w, w.slice(re, index=index)), Real(w, w.slice(im, index=index))

        rest: list[Number] = []
        while count > 1:
            if count % 2:
                rest.append(part(count - 1, count))
            count //= 2
            re, im = _values(join(part(0, count), part(count, 2 * count)))
        total = part(0, 1)
        for other in rest:
            total = join(total, other)
        return tuple([w.reshape(p, out.shape) for p in _values(total)])

    return reduce


def _chosen(condition: Real, x: Number, y: Number) -> Number:
    return condition.choose(x[0], y[0]), condition.choose(x[1], y[1])


def _is_nan(x: Number) -> Real:
    return x[0].to("isnan") | x[1].to("isnan")


def _extremum(sign: str, *, skips: bool) -> Callable[[Number, Number], Number]:
    """Return what joins two numbers to the one that comes first, by real parts and then imaginary ones."""

    def join(x: Number, y: Number) -> Number:
        before = x[0].to(sign, y[0]) & x[1].equals(x[1]) & y[1].equals(y[1])
        before |= x[0].equals(y[0]) & x[1].to(f"{sign}_equal", y[1])
        return _chosen((_is_nan(y) if skips else _is_nan(x)) | before, x, y)

    return join


for _name in ("convolve", "conv", "conv_input", "conv_kernel"):
    RULES[_name] = _contract  # they are bilinear, too
RULES["real"] = lambda w, e: w.parts(e.args[0])[0]
RULES["imag"] = lambda w, e: w.parts(e.args[0])[1]
RULES["prod"] = _halved(product)
for _name, _sign, _skips in (
    ("max", "greater", False),
    ("min", "less", False),
    ("nanmax", "greater", True),
    ("nanmin", "less", True),
):
    RULES[_name] = _halved(_extremum(_sign, skips=_skips))


@RULES.on("put_part")
def _put_part(w: _Writer, e: Equation) -> Any:
    z, part = e.args
    dtype = part_of(e.outs[0].aval.dtype)
    parts = list(w.typed(z, dtype))
    if is_pair(aval_out(part)):
        return None
    parts[e.params["imaginary"]] = w.converted(w.same(part), dtype)
    return tuple([w.full(p, e.outs[0].aval) for p in parts])


@RULES.on("power")
def _power(w: _Writer, e: Equation) -> Any:
    exponent = e.args[1]
    if isinstance(exponent, Var) or np.ndim(exponent):
        return None
    number = complex(getattr(exponent, "_value", exponent))
    if number.imag or abs(number.real) > MOST or number.real % 1:
        return None
    if not number.real:
        return 1.0, 0.0
    n = int(number.real)
    return _values(power(_numbers(w, e.args)[0], n))


TRAITS = {CHOOSES: _choose, CASTS: _cast, CONTRACTION: _contract, AVERAGES: _mean}


# ---- both parts side by side ----------------------------------------------------------------------


def _run_on_pairs(*args: Any, of: str, complex_avals: tuple[Any, Any], **params: Any) -> Any:
    values = [_as_numbers(x, a) for x, a in zip(args, complex_avals[0], strict=True)]
    primitive = PRIMITIVES[of]
    made = applied(primitive, values, params)
    found = [getattr(y, "_value", y) for y in (made if primitive.many else (made,))]
    return tuple([as_pairs(y) if is_pair(a) else y for y, a in zip(found, complex_avals[1], strict=True)])


def _as_numbers(x: Any, aval: Aval) -> Any:
    x = getattr(x, "_value", x)
    if not is_pair(aval) or np.ndim(x) == len(aval.shape):  # which is real, or a constant
        return x
    return np.asarray(x, order="C").view(aval.dtype)[..., 0]


def as_staged(e: Equation) -> Equation:
    """Return an equation as it was staged, with complex arrays for pairs."""
    if e.name != ON_PAIRS:
        return e
    params = {k: v for k, v in e.params.items() if k not in {"of", "complex_avals"}}
    outs = [Var(aval, v.name) for v, aval in zip(e.outs, e.params["complex_avals"][1], strict=True)]
    return Equation(e.params["of"], e.args, params, tuple(outs), e.line)


def _effect(params: dict[str, Any]) -> bool:
    effect = PRIMITIVES[params["of"]].effect
    return effect is not None and effect(params)


declare(
    "complex.pairs",
    run=lambda re, im: np.stack([re, im], -1),
    vjp=flat,
    shape=lambda re, im: Aval((*re.shape, 2), re.dtype),
    traits={TOTAL, NOT_FOLDED},
    stored="compilers write it",
)
declare(
    ON_PAIRS,
    run=_run_on_pairs,
    vjp=flat,
    shape=lambda *_, complex_avals, **__: tuple([pair_of(a) if is_pair(a) else a for a in complex_avals[1]]),
    effect=_effect,
    many=True,
    traits={NOT_FOLDED},
    stored="compilers write it",
)


@view("complex.pairs", pieces=True)
def _pairs(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    *front, last = at
    pieces = [Piece(i, i + 1, x, lambda _: tuple(front)) for i, x in enumerate(equation.args)]
    dtype = equation.outs[0].aval.dtype
    return e.convert(e.piece(last, pieces, dtype), dtype)
