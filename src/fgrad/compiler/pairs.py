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
from fgrad.expr.atoms import LN2, LN10

Parts: TypeAlias = tuple[Any, Any]  # variables, numbers or constant arrays, which broadcast to the shape
MOST = 99  # the largest exponent for which NumPy multiplies
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
        """Let Python, or a library, compute an equation, from pairs to pairs."""
        if e.name in {"fft", "ifft"} and not is_pair(aval_out(e.args[0])):  # which take complex numbers
            aval = Aval(shape_of(e.args[0]), e.outs[0].aval.dtype)
            whole = self.variable(aval)
            self.known[whole] = _Complex(aval, self.typed(e.args[0], part_of(aval.dtype)))
            e = e.with_args([whole])
        given = tuple(isinstance(a, Var) and is_pair(a.aval) for a in e.args)
        args = [self.joined(a) if g else self.same(a) for a, g in zip(e.args, given, strict=True)]
        outs = []
        for v in e.outs:
            if is_pair(v.aval):
                self.known[v] = _Complex(v.aval, pairs=self.variable(pair_of(v.aval)))
            outs.append(self.known[v].pairs if v in self.known else v)
        avals = tuple(map(aval_out, e.args)), tuple(v.aval for v in e.outs)
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
        """Return an array in a dtype, or a number that it holds."""
        if not isinstance(x, Var):
            with np.errstate(all="ignore"):  # of compiled code nobody is warned
                return x.astype(dtype) if np.ndim(x) else float(dtype.type(x))
        return x if x.aval.dtype == dtype else self.write("convert", x, dtype=dtype)

    def full(self, x: Any, aval: Aval) -> Any:
        """Return an array of the shape of an aval, and of its dtype or that of its parts."""
        dtype = part_of(aval.dtype) if is_pair(aval) else aval.dtype
        if not isinstance(x, Var):
            return np.broadcast_to(np.asarray(self.converted(x, dtype), dtype), aval.shape)
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
        if name in VOIDS and VOIDS[name](map(self.is_void, args)):
            self.void.add(out)
        return out

    def is_void(self, x: Any) -> bool:
        """Return whether an operand is zero or NaN, like the real part of `1j * x`."""
        return x in self.void if isinstance(x, Var) else not np.ndim(x) and x == 0


VOIDS = {"multiply": any, "add": all, "subtract": all, "negative": all, "reshape": all, "broadcast_to": all}


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

    def __lt__(self, other: Any) -> Real:
        return self.to("less", other)

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
    dtype = part_of(np.result_type(*kinds))
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
    typed = [[p if isinstance(p, Var) else np.asarray(p, dtype)[()] for p in parts] for parts in given]
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


@rule("prod")
def _prod(w: _Writer, e: Equation) -> Any:
    """Multiply halves until one element is left."""
    (x,), out = e.args, e.outs[0].aval
    aval = aval_out(x)
    axes = e.params["axes"]
    count = int(np.prod([aval.shape[i] for i in axes]))
    if not count or not axes:
        return None
    order = (*axes, *(i for i in range(len(aval.shape)) if i not in axes))
    parts = [w.write("transpose", w.full(p, aval), axes=order) for p in w.parts(x)]
    re, im = (w.write("reshape", p, shape=(count, *out.shape)) for p in parts)

    def part(start: int, stop: int) -> Number:
        index = (slice(start, stop),)
        return Real(w, w.write("slice", re, index=index)), Real(w, w.write("slice", im, index=index))

    rest: list[Number] = []
    while count > 1:
        if count % 2:
            rest.append(part(count - 1, count))
        count //= 2
        re, im = _values(_product(part(0, count), part(count, 2 * count)))
    total = part(0, 1)
    for other in rest:
        total = _product(total, other)
    return tuple([w.write("reshape", p, shape=out.shape) for p in _values(total)])


@rule("power")
def _power(w: _Writer, e: Equation) -> Any:
    """Multiply as NumPy does for small integral exponents."""
    exponent = e.args[1]
    if isinstance(exponent, Var) or np.ndim(exponent):
        return None
    number = complex(getattr(exponent, "_value", exponent))
    if number.imag or abs(number.real) > MOST or number.real % 1:
        return None
    if not number.real:
        return 1.0, 0.0
    n = int(number.real)
    (base, _), one = _numbers(w, e.args), (Real(w, 1.0), Real(w, 0.0))
    zero, found = _is_zero(base), base if 0 < n < 4 else one
    if 0 < n < 4:
        for _ in range(n - 1):
            found = _product(base, found)
    else:
        left, square = abs(n), base
        while left:
            found = _product(found, square) if left % 2 else found
            left //= 2
            square = _product(square, square) if left else square
    if n > 0:
        return _values(_unless(zero, found))
    re, im = _divide(one, found)
    return _values((zero.choose(np.nan, re), zero.choose(np.nan, im)))


# ---- elementary functions -------------------------------------------------------------------------


@formula("exp")
def _exp(z: Number) -> Number:
    """Compute exp(x) (cos y, sin y), by halves of x where exp(x) is too large."""
    x, y = z
    c, s = y.to("cos"), y.to("sin")
    if x.writer.is_void(x.value):
        size = x + 1.0
        return size * c, y.equals(0.0).choose(y, size * s)
    large = x > _exponent(z)
    size = large.choose(x * 0.5, x).to("exp")
    re, im = size * c, size * s
    re, im = large.choose(re * size, re), large.choose(im * size, im)
    lost = x.to("isinf") & _is_lost(y)  # C gives zero and infinity any angle
    re, im = lost.choose(size, re), (lost & (x < 0.0)).choose(size.to("copysign", y), im)
    return re, y.equals(0.0).choose(y, im)


def _limits(z: Number) -> Any:
    return np.finfo(next((aval_out(x.value).dtype for x in z if not isinstance(x.value, float)), np.float64))


def _exponent(z: Number) -> float:
    """Return up to which whole number `exp` is finite."""
    return float(np.floor(np.log(_limits(z).max)))


def _is_lost(x: Real) -> Real:
    return x.to("isfinite").to("logical_not")


def _hyperbolic(y: Real, limit: float) -> tuple[Callable[[Real], Real], Callable[[Real], Real]]:
    """Return what multiplies by cosh(y), and by sinh(y), which may be too large themselves."""
    large, half = abs(y) > limit, (abs(y) * 0.5).to("exp")
    cosh, sinh, side = y.to("cosh"), y.to("sinh"), (half * 0.5).to("copysign", y)
    return (
        lambda x: large.choose(half * 0.5 * x * half, cosh * x),
        lambda x: large.choose(side * x * half, sinh * x),
    )


def _sine(z: Number) -> Number:
    x, y = z
    cosh, sinh = _hyperbolic(y, _exponent(z))
    re, im, lost = cosh(x.to("sin")), sinh(x.to("cos")), _is_lost(x)
    im = (lost & y.equals(0.0)).choose(y, (lost & y.to("isinf")).choose(np.inf, im))
    return x.equals(0.0).choose(x, re), im


def _cosine(z: Number, *, sign: int) -> Number:
    x, y = z
    cosh, sinh = _hyperbolic(y, _exponent(z))
    re, im = cosh(x.to("cos")), sinh(x.to("sin"))
    im = x.equals(0.0).choose(x * Real(x.writer, 1.0).to("copysign", y), im)
    im = -im if sign < 0 else im
    im = (x.equals(0.0) & y.to("isnan")).choose(x, im)
    lost = _is_lost(x)
    return (lost & y.to("isinf")).choose(np.inf, re), (lost & y.equals(0.0)).choose(0.0, im)


def _swapped(z: Number) -> Number:
    return z[1], z[0]


@formula("sin")
def _sin(z: Number) -> Number:
    return _sine(z)


@formula("sinh")
def _sinh(z: Number) -> Number:
    return _swapped(_sine(_swapped(z)))


@formula("cos")
def _cos(z: Number) -> Number:
    return _cosine(z, sign=-1)


@formula("cosh")
def _cosh(z: Number) -> Number:
    return _cosine(_swapped(z), sign=1)


@formula("sqrt")
def _sqrt(z: Number) -> Number:
    """Take the root of half of length plus size, scaled so that it neither overflows nor vanishes."""
    x, y = z
    (u, v), (large, small), far = _scaled(z)
    half = ((u.to("hypot", v) + u) * 0.5).to("sqrt")
    half = large.choose(half * 2.0**far, small.choose(half * 2.0**-far, half))
    zero, left = _is_zero(z), x < 0.0
    other = abs(y) / half * 0.5
    re, im = left.choose(other, half), left.choose(half, other).to("copysign", y)
    re, im = zero.choose(0.0, re), zero.choose(y, im)
    im = y.to("isnan").choose(left.choose(half, y), im)
    infinite = y.to("isinf")
    return infinite.choose(np.inf, re), infinite.choose(y, im)


def _scaled(z: Number) -> tuple[Number, Number, int]:
    """Return the sizes of both parts times a power of 4, whether they were too large or small, and it."""
    sizes = abs(z[0]), abs(z[1])
    far = _limits(z).maxexp // 4
    most = sizes[0].to("maximum", sizes[1])
    large, small = most > 2.0 ** (3 * far), most < 2.0 ** (-3 * far)
    u, v = (large.choose(x * 4.0**-far, small.choose(x * 4.0**far, x)) for x in sizes)
    return (u, v), (large, small), far


@formula("log")
def _log(z: Number) -> Number:
    """Return the logarithm of the length and the angle; near one from its square less one, in two numbers."""
    x, y = z
    (u, v), (large, small), far = _scaled(z)
    length = u.to("hypot", v)
    re, shift = length.to("log"), far * float(np.log(4.0))
    re = large.choose(re + shift, small.choose(re - shift, re))
    long, short = u.to("maximum", v), u.to("minimum", v)
    excess = long - 1.0
    first, square = excess * 2.0, _squared(excess)
    other = _squared(short)
    first, lost = _added(first, other[0])
    first, rest = _added(first, square[0])
    near = (length > 0.75) & (length < 1.5)
    square_less_one = near.choose(first + (lost + rest + square[1] + other[1]), 0.0)
    return near.choose(square_less_one.to("log1p") * 0.5, re), y.to("arctan2", x)


@formula("log2")
def _log2(z: Number) -> Number:
    return _scaled_by(_log(z), 1 / LN2)


@formula("log10")
def _log10(z: Number) -> Number:
    return _scaled_by(_log(z), 1 / LN10)


def _scaled_by(z: Number, factor: float) -> Number:
    return z[0] * factor, z[1] * factor


def _added(x: Real, y: Real) -> Number:
    """Return a sum and what it has lost by rounding (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _squared(x: Real) -> Number:
    """Return a square and what it has lost by rounding (Dekker)."""
    spread = x * (2.0 ** ((_limits((x, x)).nmant + 2) // 2) + 1.0)
    high = spread - (spread - x)
    low = x - high
    square = x * x
    return square, (high * high - square) + high * low * 2.0 + low * low


# ---- both parts side by side ----------------------------------------------------------------------


def _run_pairs(re: Any, im: Any) -> Any:
    return np.stack([re, im], -1)


def _shape_pairs(re: Any, im: Any) -> Aval:
    return Aval((*re.shape, 2), re.dtype)


def _run_on_pairs(*args: Any, of: str, avals: tuple[Any, Any], **params: Any) -> Any:
    values = [_as_numbers(x, a) for x, a in zip(args, avals[0], strict=True)]
    primitive = PRIMITIVES[of]
    made = applied(primitive, values, params)
    found = [getattr(y, "_value", y) for y in (made if primitive.many else (made,))]
    return tuple([as_pairs(y) if is_pair(a) else y for y, a in zip(found, avals[1], strict=True)])


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
        traits={TOTAL, NOT_FOLDED},
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
