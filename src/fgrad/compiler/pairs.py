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
from fgrad.compiler.loop_nests import Value
from fgrad.compiler.simplify import simplify
from fgrad.core.aval import Aval, Shape, aval_of
from fgrad.core.control_flow import PLAIN, Branches, Code, Grown, Scan, While
from fgrad.core.primitive import NOT_FOLDED, PRIMITIVES, TOTAL, Primitive, flat, register
from fgrad.core.program import Equation, Program, Var, applied, aval_out

Parts: TypeAlias = tuple[Any, Any]  # variables, numbers or constant arrays, which broadcast to the shape
RULES: dict[str, Callable[..., Any]] = {}  # (writer, equation) -> the result or its parts; None: Python's


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


class _Writer:
    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.known: dict[Var, Any] = {}
        self.constants: dict[int, Parts] = {}
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
            rule = RULES.get(e.name)
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
        """Let Python compute an equation, from pairs to pairs."""
        given = tuple(isinstance(a, Var) and is_pair(a.aval) for a in e.args)
        args = [self.joined(a) if g else self.same(a) for a, g in zip(e.args, given, strict=True)]
        outs = []
        for v in e.outs:
            if is_pair(v.aval):
                self.known[v] = _Complex(v.aval, pairs=self.variable(pair_of(v.aval)))
            outs.append(self.known[v].pairs if v in self.known else v)
        avals = tuple(aval_out(a) for a in e.args), tuple(v.aval for v in e.outs)
        params = {**e.params, "of": e.name, "avals": avals}
        self.equations.append(Equation("complex.call", tuple(args), params, tuple(outs), e.line))

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
                re, im = (self.write("slice", found.pairs, index=(Ellipsis, i)) for i in range(2))
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
        """Return an array in a dtype; numbers adopt that of arrays beside them."""
        if not isinstance(x, Var):
            return x.astype(dtype) if np.ndim(x) else x
        return x if x.aval.dtype == dtype else self.write("convert", x, dtype=dtype)

    def full(self, x: Any, aval: Aval) -> Any:
        """Return an array of the shape of an aval, and of its dtype or that of its parts."""
        dtype = part_of(aval.dtype) if is_pair(aval) else aval.dtype
        if not isinstance(x, Var):
            return np.broadcast_to(np.asarray(x, dtype), aval.shape)
        x = self.converted(x, dtype)
        return x if x.aval.shape == aval.shape else self.write("broadcast_to", x, shape=aval.shape)

    def variable(self, aval: Aval) -> Var:
        """Return a new variable."""
        self.count += 1
        return Var(aval, f"p{self.count}")

    def write(self, name: str, *args: Any, **params: Any) -> Any:
        """Return the result of a primitive of real arrays: that of numbers alone is a number."""
        if not params and not any(isinstance(a, Var) or np.ndim(a) for a in args):
            with np.errstate(all="ignore"):
                return np.asarray(PRIMITIVES[name].run(*map(_number, args))).item()
        avals = [a.aval if isinstance(a, Var) else aval_of(a) if np.ndim(a) or params else a for a in args]
        out = self.variable(PRIMITIVES[name].shape(*avals, **params))  # type: ignore[misc]
        self.equations.append(Equation(name, args, params, (out,), self.line))
        return out


def _number(x: Any) -> Any:
    return x if isinstance(x, bool) else np.float64(x)


class Real:
    """A real array, or number, in a formula."""

    __slots__ = ("value", "writer")

    def __init__(self, writer: _Writer, value: Any) -> None:
        self.writer, self.value = writer, value

    def to(self, name: str, *others: Any) -> Real:
        """Return what a primitive makes of it."""
        values = [x.value if isinstance(x, Real) else x for x in others]
        return Real(self.writer, self.writer.write(name, self.value, *values))

    def choose(self, x: Any, y: Any) -> Real:
        """Return `x` where it is true, else `y`; one of them is a number beside an array of its dtype."""
        return self.to("where", x, y)

    def __add__(self, other: Any) -> Real:
        return self.to("add", other)

    def __sub__(self, other: Any) -> Real:
        return self.to("subtract", other)

    def __mul__(self, other: Any) -> Real:
        return self.to("multiply", other)

    def __truediv__(self, other: Any) -> Real:
        return self.to("divide", other)

    def __neg__(self) -> Real:
        return self.to("negative")

    def __abs__(self) -> Real:
        return self.to("absolute")

    def __ge__(self, other: Any) -> Real:
        return self.to("greater_equal", other)

    def __gt__(self, other: Any) -> Real:
        return self.to("greater", other)

    def __and__(self, other: Any) -> Real:
        return self.to("logical_and", other)

    def __or__(self, other: Any) -> Real:
        return self.to("logical_or", other)

    def equals(self, other: Any) -> Real:
        """Return whether it is equal to something."""
        return self.to("equal", other)


Number: TypeAlias = tuple[Real, Real]


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator that adds how primitives treat parts."""

    def add(made: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, made))
        return made

    return add


def formula(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the same for a function of the numbers that element-wise primitives take."""

    def add(made: Callable[..., Any]) -> Callable[..., Any]:
        def write(w: _Writer, e: Equation) -> Any:
            return _values(made(*_numbers(w, e.args)))

        RULES.update(dict.fromkeys(names, write))
        return made

    return add


def _numbers(w: _Writer, args: Sequence[Any]) -> list[Number]:
    """Return operands in the precision in which NumPy computes with them."""
    kinds = [aval_out(a).dtype if isinstance(a, Var) or hasattr(a, "dtype") else type(a)(0) for a in args]
    dtype = part_of(np.result_type(*kinds, np.complex64))
    pairs = [w.typed(a, dtype) for a in args]
    return [(Real(w, re), Real(w, im)) for re, im in pairs]


def _values(made: Any) -> Any:
    return made.value if isinstance(made, Real) else tuple([x.value for x in made])


# ---- elements from elsewhere ----------------------------------------------------------------------

FIRST = ("reshape", "transpose", "broadcast_to", "slice", "unslice", "gather", "scatter_add", "sum", "cumsum")


@rule(*FIRST, "positive", "negative", "stop_gradient", "name")
def _first(w: _Writer, e: Equation) -> Any:
    x, *rest = e.args
    rest = [w.same(a) for a in rest]
    return tuple([w.write(e.name, w.full(p, aval_out(x)), *rest, **e.params) for p in w.parts(x)])


@rule("concatenate", "stack", "update", "put")
def _each(w: _Writer, e: Equation) -> Any:
    count = 2 if e.name in {"update", "put"} else len(e.args)
    out, rest = e.outs[0].aval, [w.same(a) for a in e.args[count:]]
    given = [[w.full(p, Aval(shape_of(a), out.dtype)) for p in w.parts(a)] for a in e.args[:count]]
    return tuple([w.write(e.name, *parts, *rest, **e.params) for parts in zip(*given, strict=True)])


@rule("unstack")
def _unstack(w: _Writer, e: Equation) -> Any:
    (x,) = e.args
    lead = (slice(None),) * e.params["axis"]
    parts = [w.full(p, aval_out(x)) for p in w.parts(x)]
    return [tuple([w.write("slice", p, index=(*lead, i)) for p in parts]) for i in range(len(e.outs))]


@rule("where")
def _where(w: _Writer, e: Equation) -> Any:
    condition, *others = e.args
    asked = w.same(condition)
    if is_pair(aval_out(condition)):
        asked = _truth(*_numbers(w, (condition,))[0]).value
    if not is_pair(e.outs[0].aval):
        return w.write("where", asked, *map(w.same, others))
    dtype = part_of(e.outs[0].aval.dtype)
    given = [w.typed(a, dtype) for a in others]
    typed = ([p if isinstance(p, Var) else np.asarray(p, dtype)[()] for p in parts] for parts in given)
    return tuple([w.write("where", asked, x, y) for x, y in zip(*typed, strict=True)])


@rule("convert")
def _convert(w: _Writer, e: Equation) -> Any:
    (x,), out = e.args, e.outs[0].aval
    if is_pair(out):
        return w.typed(x, part_of(out.dtype))
    return _truth(*_numbers(w, (x,))[0]).value if out.dtype.kind == "b" else w.parts(x)[0]


@rule("real")
def _real(w: _Writer, e: Equation) -> Any:
    return w.parts(e.args[0])[0]


@rule("imag")
def _imag(w: _Writer, e: Equation) -> Any:
    return w.parts(e.args[0])[1]


# ---- arithmetic -----------------------------------------------------------------------------------


def _truth(re: Real, im: Real) -> Real:
    return re.to("not_equal", 0.0) | im.to("not_equal", 0.0)


@formula("conjugate")
def _conjugate(x: Number) -> Number:
    return x[0], -x[1]


@formula("add")
def _add(x: Number, y: Number) -> Number:
    return x[0] + y[0], x[1] + y[1]


@formula("subtract")
def _subtract(x: Number, y: Number) -> Number:
    return x[0] - y[0], x[1] - y[1]


def _product(x: Number, y: Number) -> Number:
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


formula("multiply")(_product)


@formula("square")
def _square(x: Number) -> Number:
    return _product(x, x)


@formula("scale")
def _scale(x: Number, y: Number) -> Number:
    return _unless(_is_zero(x), _product(x, y))


@formula("both")
def _both(x: Number, y: Number) -> Number:
    return _unless(_is_zero(x) | _is_zero(y), _product(x, y))


def _is_zero(x: Number) -> Real:
    return x[0].equals(0.0) & x[1].equals(0.0)


def _unless(lost: Real, x: Number) -> Number:
    return lost.choose(0.0, x[0]), lost.choose(0.0, x[1])


@formula("divide")
def _divide(x: Number, y: Number) -> Number:
    """Divide as NumPy does (Smith 1962): by the larger part first, so that no square overflows."""
    (a, b), (c, d) = x, y
    large = abs(c) >= abs(d)
    p, q = large.choose(c, d), large.choose(d, c)
    ratio = q / p
    scale = Real(p.writer, 1.0) / (p + q * ratio)
    re = (large.choose(a, b) + large.choose(b, a) * ratio) * scale
    im = large.choose(b - a * ratio, b * ratio - a) * scale
    zero = _is_zero(y)
    return zero.choose(a / abs(c), re), zero.choose(b / abs(c), im)


@formula("reciprocal")
def _reciprocal(x: Number) -> Number:
    a, b = x
    one, large = Real(a.writer, 1.0), abs(a) >= abs(b)
    p, q = large.choose(a, b), large.choose(b, a)
    ratio = q / p
    length = p + q * ratio
    return large.choose(one, ratio) / length, -large.choose(ratio, one) / length


@rule("mean")
def _mean(w: _Writer, e: Equation) -> Any:
    (x,), axes = e.args, e.params["axes"]
    aval = aval_out(x)
    count = float(np.prod([aval.shape[i] for i in axes]))
    total = [Real(w, w.write("sum", w.full(p, aval), axes=axes)) for p in w.parts(x)]
    return _values(_divide((total[0], total[1]), (Real(w, count), Real(w, 0.0))))


@formula("absolute")
def _absolute(x: Number) -> Real:
    return x[0].to("hypot", x[1])


@formula("equal")
def _equal(x: Number, y: Number) -> Real:
    return x[0].equals(y[0]) & x[1].equals(y[1])


@formula("not_equal")
def _not_equal(x: Number, y: Number) -> Real:
    return x[0].to("not_equal", y[0]) | x[1].to("not_equal", y[1])


@formula("isnan")
def _isnan(x: Number) -> Real:
    return x[0].to("isnan") | x[1].to("isnan")


@formula("isinf")
def _isinf(x: Number) -> Real:
    return x[0].to("isinf") | x[1].to("isinf")


@formula("isfinite")
def _isfinite(x: Number) -> Real:
    return x[0].to("isfinite") & x[1].to("isfinite")


@formula("logical_not")
def _logical_not(x: Number) -> Real:
    return _is_zero(x)


@formula("logical_and")
def _logical_and(x: Number, y: Number) -> Real:
    return _truth(*x) & _truth(*y)


@formula("logical_or")
def _logical_or(x: Number, y: Number) -> Real:
    return _truth(*x) | _truth(*y)


@rule("contract")
def _contract(w: _Writer, e: Equation) -> Any:
    """Sum products of parts; those that are zero everywhere are left out."""
    dtype = part_of(e.outs[0].aval.dtype)
    given = [(a, w.typed(a, dtype)) for a in e.args]

    def product(i: int, j: int) -> Any:
        parts = [(a, parts[k]) for (a, parts), k in zip(given, (i, j), strict=True)]
        if any(not isinstance(p, Var) and not np.any(p) for _, p in parts):
            return None
        return w.write("contract", *(w.full(p, Aval(shape_of(a), dtype)) for a, p in parts), **e.params)

    def joined(name: str, x: Any, y: Any) -> Any:
        if x is None or y is None:
            return 0.0 if x is y else x if y is None else w.write("negative", y) if name == "subtract" else y
        return w.write(name, x, y)

    return joined("subtract", product(0, 0), product(1, 1)), joined("add", product(0, 1), product(1, 0))


# ---- both parts side by side ----------------------------------------------------------------------


def _run_pairs(re: Any, im: Any) -> Any:
    return np.stack([re, im], -1)


def _shape_pairs(re: Any, im: Any) -> Aval:
    return Aval((*re.shape, 2), re.dtype)


def _run_on_pairs(*args: Any, of: str, avals: tuple[Any, Any], **params: Any) -> Any:
    values = [_as_numbers(x, a) for x, a in zip(args, avals[0], strict=True)]
    primitive = PRIMITIVES[of]
    found = applied(primitive, values, params)
    outs = [as_pairs(getattr(y, "_value", y)) for y in (found if primitive.many else (found,))]
    return tuple(outs)


def _as_numbers(x: Any, aval: Aval) -> Any:
    x = getattr(x, "_value", x)
    if not is_pair(aval) or np.ndim(x) == len(aval.shape):  # which is real, or a constant
        return x
    return np.asarray(x, order="C").view(aval.dtype)[..., 0]


def _shape_on_pairs(*_: Any, avals: tuple[Any, Any], **__: Any) -> Any:
    return tuple([pair_of(a) if is_pair(a) else a for a in avals[1]])


def as_staged(e: Equation) -> Equation:
    """Return an equation as it was staged, with complex arrays for pairs."""
    if e.name != "complex.call":
        return e
    params = {k: v for k, v in e.params.items() if k not in {"of", "avals"}}
    outs = [Var(aval, v.name) for v, aval in zip(e.outs, e.params["avals"][1], strict=True)]
    return Equation(e.params["of"], e.args, params, tuple(outs), e.line)


def _effect(params: dict[str, Any]) -> bool:
    effect = PRIMITIVES[params["of"]].effect
    return effect is not None and effect(params)


register(
    Primitive(
        "complex.pairs",
        run=_run_pairs,
        vjp=flat,
        shape=_shape_pairs,
        traits={TOTAL},
        stored="compilers write it",
    )
)
register(
    Primitive(
        "complex.call",  # what Python computes of complex numbers
        run=_run_on_pairs,
        vjp=flat,
        shape=_shape_on_pairs,
        effect=_effect,
        many=True,
        traits={NOT_FOLDED},
        stored="compilers write it",
    )
)


@view("complex.pairs", pieces=True)
def _pairs(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    *front, last = at
    pieces = [Piece(i, i + 1, x, lambda _: tuple(front)) for i, x in enumerate(equation.args)]
    dtype = equation.outs[0].aval.dtype
    return e.convert(e.piece(last, pieces, dtype), dtype)
