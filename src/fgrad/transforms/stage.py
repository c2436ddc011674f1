"""Staging: the function is traced once with abstract arrays, and what it does becomes a Program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec

import numpy as np

from fgrad import tree
from fgrad.core.aval import Aval, Shape, aval_of, with_dtype
from fgrad.core.control_flow import Code
from fgrad.core.nonfinite import quiet
from fgrad.core.notes import origin
from fgrad.core.primitive import (
    C_ORDER,
    CHOOSES,
    INTEGRAL,
    KEEPS_C_ORDER,
    KEEPS_C_ORDER_OF_FIRST,
    PRIMITIVES,
    Primitive,
)
from fgrad.core.program import Equation, Program, Region, Var, aval_out
from fgrad.core.snapshot import compact
from fgrad.core.tensor import Tensor, alias, is_tracked, wrap
from fgrad.core.trace import Trace, Tracer, below, current, next_level, running, user_line
from fgrad.ops.linear import CONVERT, FITTED
from fgrad.transforms.calling import Transformed, bound, check_live, name_of
from fgrad.transforms.captures import Captures, Draws

P = ParamSpec("P")


class StagedTracer(Tracer):
    """A result that is not computed."""

    __slots__ = ("form", "is_in_order", "var", "weak")

    def __init__(self, trace: Stage, var: Var, weak: type | None = None, line: str | None = None) -> None:
        self.trace: Stage = trace
        self.var: Var = var
        self.line: str = user_line() if line is None else line
        # the type of the Python number that it stands for, whose dtype is not fixed
        self.weak: type | None = weak
        self.is_in_order: bool = False  # whether it is a copy that is known to lie in memory row by row
        # of what has no axes: "array" or "scalar" of arguments, "made" of arrays that were computed
        self.form: str = ""

    @property
    def shape(self) -> Shape:
        """The shape it will have."""
        return self.var.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype it will have."""
        return self.var.aval.dtype

    def is_sized(self) -> bool:
        """Return whether the shape is that of the value: what loops stack has a length when they have run."""
        return self.var.aval.__class__ is Aval

    def same(self, other: Tracer) -> bool:
        """Return whether `other` was computed in the same way from the same values."""
        if not isinstance(other, StagedTracer) or other.trace is not self.trace:
            return False
        return self.trace.same(self.var, other.var)

    def strong(self) -> StagedTracer:
        """Return the same value with its dtype fixed."""
        return StagedTracer(self.trace, self.var) if self.weak else self

    def in_order(self) -> StagedTracer:
        """Return the same value as an array that lies in memory row by row."""
        copy = StagedTracer(self.trace, self.var, self.weak)
        copy.is_in_order, copy.form = True, self.form
        return copy

    def disordered(self) -> StagedTracer:
        """Return the same value, of which nobody knows how it lies in memory."""
        if not (self.is_in_order or self.trace.lies_in_order(self.var)):
            return self
        found = StagedTracer(self.trace, self.trace.renamed(self.var), self.weak)
        found.form = self.form
        self.trace.disordered.add(found.var)
        return found

    def is_array(self) -> bool:
        """Return whether it has axes, or is an array without."""
        if self.form in {"array", "scalar"}:
            self.trace.is_parted = True
        return bool(self.shape) or self.form in _ARRAYS

    def as_array(self) -> StagedTracer:
        """Return the same value as an array, which can be written to though it has no axes."""
        return self if self.shape or self.form in _ARRAYS else self._formed("made")

    def as_scalar(self) -> StagedTracer:
        """Return the same value as a scalar, if it has no axes."""
        return self._formed("") if self.form in _ARRAYS else self

    def _formed(self, form: str) -> StagedTracer:
        found = StagedTracer(self.trace, self.var)
        found.form = form
        return found

    def lies_in_order(self) -> bool:
        """Return whether the value certainly lies in memory row by row, without gaps."""
        return self.is_in_order or self.trace.lies_in_order(self.var, gaps=False)

    def ordered_like(self, other: Any) -> StagedTracer:
        """Return the same value, which lies in memory row by row if `other` is known to."""
        if isinstance(other, StagedTracer):
            is_ordered = other.lies_in_order()
        else:
            is_ordered = isinstance(other, np.ndarray) and other.flags.c_contiguous
        found = self.in_order() if is_ordered else self
        if not self.shape and (isinstance(other, np.ndarray) or getattr(other, "form", "") in _ARRAYS):
            found = self._formed("made")
        return found

    def shares_when_reshaped(self, shape: Shape) -> bool:
        """Return whether NumPy's reshape certainly makes a view."""
        if self.is_in_order or super().shares_when_reshaped(shape):
            return True
        return self.trace.lies_in_order(self.var)


_ARRAYS = {"array", "made"}  # forms of arrays without axes: arguments, and what was computed


_LATE = 500  # equations that are looked through for how a value came about


def _likeness(x: Any) -> tuple[Any, ...] | None:
    """Return what rules for shapes make of an operand, where they are without parameters; None: unknown."""
    if x.__class__ is Var:
        return (x.aval.shape, x.aval.dtype) if x.aval.__class__ is Aval else None
    if x.__class__ in SAMPLE:
        return x.__class__, x
    if isinstance(x, (np.ndarray, np.generic)) and not x.ndim and x.dtype.kind in "biufc":
        return x.__class__, x.dtype, x.item()
    return None


def _named(params: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return what parameters are, where that is no more than integers, names and dtypes; None elsewhere."""
    found: list[Any] = []
    for name, x in params.items():
        kind = x.__class__
        if kind is tuple:
            for part in x:
                if part.__class__ is not int:
                    return None
        elif kind is not int and kind is not str and x is not None:
            if not isinstance(x, np.dtype):
                return None
            kind = np.dtype
        found += name, kind, x
    return tuple(found)


def _is_one_number(x: Any, y: Any) -> bool:
    """Return whether two constants are the same number, of one type and sign."""
    for v in (x, y):
        if not isinstance(v, int | float | complex | np.generic | np.ndarray) or np.ndim(v):
            return False
    return type(x) is type(y) and np.result_type(x) == np.result_type(y) and repr(x) == repr(y)


class Stage(Trace):
    """Writes down each primitive as an equation."""

    title: str = "make_graph"
    is_staged = True
    remedy = (
        "Functions are traced with abstract arrays: use where(condition, x, y) or lax.cond instead of if, "
        "or make the argument that decides static (static_argnums)."
    )

    def __init__(self, level: int, title: str | None = None) -> None:
        self.level = level
        around = [t.title for t in current().traces if isinstance(t, Stage)]
        self.title = title or (around[-1] if around else "make_graph")
        self.equations: list[Equation] = []
        self.regions: list[Region] = []
        # Python integers, and the dtypes that they have to fit
        self.numbers: dict[Var, set[np.dtype[Any]]] = {}
        self.disordered: set[Var] = set()  # of which nobody knows how they lie in memory
        self._orders: dict[tuple[Var, bool], bool] = {}  # what `lies_in_order` has found
        self._makers: dict[Var, Equation] = {}
        self._looked_at = 0  # equations whose results are in there
        self.ranges: dict[Var, tuple[int, int]] = {}  # the least and the greatest value of counters
        self.count: int = 0
        self._avals: dict[Any, Aval] = {}  # of results, by primitive and operands
        self.is_parted = False  # whether it matters which arguments without axes are arrays

    def var(self, aval: Aval) -> Var:
        """Return a new variable."""
        self.count += 1
        return Var(aval, f"v{self.count - 1}")

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Write down `primitive` applied to `args`."""
        weak = None
        if any(a.__class__ is Tensor and isinstance(a._value, StagedTracer) and a._value.weak for a in args):
            args, weak = self._settled(primitive, args)
        if primitive.inline:
            start = len(self.equations)
            with running((*below(self.level), self)):
                inlined = [self.operand(o) for o in primitive.inline(*args, **params)]
            if primitive.apply:
                self._close(Region(primitive, tuple(map(self.operand, args)), params, inlined, start, start))
            outs = tuple([StagedTracer(self, o) if isinstance(o, Var) else o for o in inlined])
            return outs if primitive.many else outs[0]
        return self._written(primitive, tuple([self.operand(a) for a in args]), params, weak)

    def process_alone(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        """Write down `primitive` applied to values that no other trace concerns."""
        if primitive.inline:
            return NotImplemented
        operands, known = [], True
        for v in values:
            if v.__class__ is StagedTracer:
                if v.trace is not self or v.weak or (primitive.real and v.dtype.kind == "c"):
                    return NotImplemented
                known = False
                operands.append(v.var)
            elif isinstance(v, Tracer):
                return NotImplemented
            else:
                operands.append(self.operand(v))
        if known:  # `process` is not asked for constants
            return (primitive.large or primitive.run)(*values, **params)
        return self._written(primitive, tuple(operands), params, None)

    def _written(
        self, primitive: Primitive, operands: tuple[Any, ...], params: dict[str, Any], weak: type | None
    ) -> Any:
        """Write down an equation, and return what stands for its results."""
        found = self._abstract(primitive, operands, params)
        line = origin()
        # the rule of a primitive that keeps the aval of an argument may return an argument that is a constant
        if not primitive.many:
            v = self.var(found if isinstance(found, Aval) else aval_of(found))
            self.equations.append(Equation(primitive.name, operands, params, (v,), line))
            return StagedTracer(self, v, weak, line)
        outs = tuple([self.var(a if isinstance(a, Aval) else aval_of(a)) for a in found])
        self.equations.append(Equation(primitive.name, operands, params, outs, line))
        return tuple([StagedTracer(self, v, weak, line) for v in outs])

    def _abstract(self, primitive: Primitive, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Return the avals of the results; rules are asked once for operands that are alike."""
        key = None
        if not primitive.many:
            key = (primitive.name, *map(_likeness, operands), *([_named(params)] if params else ()))
        if key is not None and None not in key:
            aval = self._avals.get(key)
            if aval is not None:
                return aval
        avals = [a.aval if isinstance(a, Var) else a for a in operands]
        with quiet():  # a rule may run its primitive on something of the shape
            found = (
                primitive.shape(*avals, **params)
                if primitive.shape
                else _by_running(primitive, avals, params)
            )
        if key is not None and None not in key and found.__class__ is Aval:
            self._avals[key] = found
        return found

    def same(self, a: Var, b: Var, depth: int = 4) -> bool:
        """Return whether two variables have one value, as far as late element-wise equations tell."""
        if a is b:
            return True
        late = self.equations[-_LATE:]
        e, f = (next((e for e in reversed(late) if v in e.outs), None) for v in (a, b))
        if not (e and f and depth) or e.name != f.name or e.params or f.params:
            return False
        primitive = PRIMITIVES[e.name]
        # some of those draw random numbers
        if primitive.body is None and not isinstance(primitive.run, np.ufunc):
            return False
        return len(e.args) == len(f.args) and all(
            self.same(x, y, depth - 1) if isinstance(x, Var) and isinstance(y, Var) else _is_one_number(x, y)
            for x, y in zip(e.args, f.args, strict=True)
        )

    def _settled(self, primitive: Primitive, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], type | None]:
        """Return `args` with Python's numbers in the dtype in which NumPy computes, and what the result is.

        Python's operators on Python's numbers give such numbers again; beside arrays they take the dtype
        of the arrays.
        """
        kinds = [number_type(a) for a in args]
        if None not in kinds:
            if primitive.python is None:
                return args, None
            weak = _RANKS[max(_RANKS.index(k) for k in (primitive.python, *kinds) if k)]
            return tuple([self.cast(a, np.dtype(weak)) for a in args]), weak
        integral = INTEGRAL in primitive.traits
        if not primitive.mixes and not integral:
            return args, None
        first = 1 if CHOOSES in primitive.traits else 0
        free = {i for i, k in enumerate(kinds) if k and i >= first}
        fixed = [aval_of(a).dtype for i, a in enumerate(args) if not kinds[i] and i >= first]
        if not fixed:
            return args, None
        dtype = np.result_type(*fixed, *(SAMPLE[k] for i, k in enumerate(kinds) if i in free and k))
        called = primitive.body is None and not integral  # a function of a library, with loops of its own
        if primitive.shape and (dtype.kind in "iu" or called):
            samples = [SAMPLE[k] if k else aval_of(a) for a, k in zip(args, kinds, strict=True)]
            out = primitive.shape(*samples).dtype
            if called and out in (np.float64, np.complex128):
                return args, None  # where numbers as they are give the same
            # what NumPy computes in another dtype does not overflow in this one
            dtype = np.dtype(int) if out.kind == "b" else out
        if called and dtype.kind == "c" and complex not in kinds:
            dtype = np.zeros((), dtype).real.dtype  # orders have to be real
        return tuple([self.cast(a, dtype) if i in free else a for i, a in enumerate(args)]), None

    def cast(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """Return one of Python's numbers in a dtype."""
        if x.__class__ is not Tensor or x.dtype == dtype:
            return x
        checked = dtype.kind in "iu" and x._value.weak is int
        primitive = FITTED if checked and not x._value.trace.demand(x._value.var, dtype) else CONVERT
        v = self.var(Aval((), dtype))
        args = (self.operand(x),)
        self.equations.append(Equation(primitive.name, args, {"dtype": dtype}, (v,), origin()))
        return wrap(StagedTracer(self, v))

    def demand(self, number: Var, dtype: np.dtype[Any]) -> bool:
        """Note that a Python integer has to fit into a dtype, which NumPy tells from its value.

        Returns:
            Whether it is known to; False where the program has to look.
        """
        if number in self.numbers:
            self.numbers[number].add(dtype)
            return True
        known = self.ranges.get(number)
        limits = np.iinfo(dtype)
        return known is not None and limits.min <= known[0] and known[1] <= limits.max

    def lies_in_order(self, var: Var, *, gaps: bool = True) -> bool:
        """Return whether a variable certainly lies in memory row by row, when NumPy computes it.

        There may be `gaps` between elements of one axis.
        """
        found = self._orders.get((var, gaps))
        if found is None:
            for e in self.equations[self._looked_at :]:
                self._makers.update(dict.fromkeys(e.outs, e))
            self._looked_at = len(self.equations)
            seen = set[Var]()
            found = self._lie_in_order([var], seen, gaps=gaps)
            self._orders[var, gaps] = found
            if found:
                self._orders.update(dict.fromkeys([(v, gaps) for v in seen], True))
        return found

    def _lie_in_order(self, todo: list[Any], seen: set[Var], *, gaps: bool) -> bool:
        while todo:
            x = todo.pop()
            if isinstance(x, Tensor):
                x = x._value
            if isinstance(x, StagedTracer):
                if x.is_in_order:
                    continue
                x = x.var
            if not isinstance(x, Var):
                if isinstance(x, np.ndarray) and not x.flags.c_contiguous:
                    return False
                continue
            if sum(n > 1 for n in x.aval.shape) <= int(gaps) or x in seen:
                continue
            known = False if x in self.disordered else self._orders.get((x, gaps))
            if known is not None:
                if not known:
                    return False
                continue
            seen.add(x)
            equation = self._makers.get(x)
            if equation is None:  # an argument
                return False
            primitive = PRIMITIVES[equation.name]
            if primitive.body is not None or KEEPS_C_ORDER in primitive.traits:
                todo += equation.args
            elif KEEPS_C_ORDER_OF_FIRST in primitive.traits:
                todo.append(equation.args[0])
            elif C_ORDER not in primitive.traits:
                return False
        return True

    def _close(self, region: Region) -> None:
        """End a region here; what it returns without computing it gets a variable that is its own."""
        made = {v for e in self.equations[region.start :] for v in e.outs}
        for i, o in enumerate(region.outs):
            if _is_floating(o) and not (isinstance(o, Var) and o in made):
                region.outs[i] = self.renamed(o)
        region.stop = len(self.equations)
        if region.start < region.stop:
            self.regions.append(region)

    def renamed(self, x: Any) -> Var:
        """Return a new variable for a variable or constant."""
        v = self.var(aval_out(x))
        name = "stop_gradient" if v.aval.dtype.kind == "b" else "positive"
        self.equations.append(Equation(name, (x,), {}, (v,), origin()))
        return v

    def operand(self, x: Any) -> Any:
        """Return `x` as it stands in an equation: a variable, or a constant array or number."""
        if x.__class__ is Tensor:
            value = x._value
            if isinstance(value, StagedTracer) and value.trace is self:
                return value.var
            if isinstance(value, Tracer) or is_tracked(x):
                return alias(check_live(x))  # its gradient, or its trace, flows through the program
            x = value
        if isinstance(x, Tracer):
            return wrap(x) if x.trace in current().traces else x.escaped()
        if isinstance(x, np.ndarray):
            return compact(x)
        return np.array(x) if isinstance(x, list | tuple) else x


_RANKS = (bool, int, float, complex)
SAMPLE: dict[type, complex] = {bool: True, int: 1, float: 1.0, complex: 1j}


def number_type(x: Any) -> type | None:
    """Return the type of a Python number, or of what stands for one."""
    if x.__class__ is Tensor:
        return x._value.weak if isinstance(x._value, StagedTracer) else None
    return x.__class__ if x.__class__ in SAMPLE else None


def _is_floating(x: Any) -> bool:
    dtype: np.dtype[Any] = aval_out(x).dtype
    return dtype.kind in "fc"


def _by_running(primitive: Primitive, avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return the avals of the outputs of a primitive that has no `shape`, by running it on ones."""
    values = (a._value if isinstance(a, Tensor) else a for a in avals)
    filled = [np.ones(a.shape, a.dtype) if isinstance(a, Aval) else a for a in values]
    out = primitive.run(*filled, **params)
    return tuple(map(aval_of, out)) if primitive.many else aval_of(out)


class Inner(Stage):
    """Stages a function of flat values; values that another trace follows become inputs."""

    def __init__(self, level: int, title: str | None = None, *, greedy: bool = False) -> None:
        super().__init__(level, title)
        self.greedy = greedy
        self.captured: dict[tuple[Any, ...], tuple[Var, Tensor]] = {}

    def operand(self, x: Any) -> Any:
        """Return `x` as it stands in an equation; a value that another trace follows is a new input."""
        if x.__class__ is Tensor:
            value = x._value
            own = isinstance(value, StagedTracer) and value.trace is self
            if not own and (isinstance(value, Tracer) or is_tracked(x)):
                check_live(x)
                key = (id(value), *map(id, x._nodes))
                if key not in self.captured:
                    self.captured[key] = (self.var(aval_of(x)), x)
                return self.captured[key][0]
        return super().operand(x)

    def program(self, inputs: Sequence[Var], outputs: Sequence[Any]) -> Program:
        """Return what was written down, as a function of what was captured and of `inputs`."""
        found = [v for v, _ in self.captured.values()]
        return Program([*found, *inputs], self.equations, outputs, (None, None), self.regions)


def staged(
    fun: Callable[..., Sequence[Any]],
    avals: Sequence[Aval],
    weak: Sequence[type | None] | None = None,
    ranges: dict[int, tuple[int, int]] | None = None,
    *,
    greedy: bool = False,
    undrawn: bool = False,
) -> tuple[Program, list[Tensor]]:
    """Return the program of `fun`, a function of flat values, and the values that it takes from outside.

    These are the first inputs of the program.

    Args:
        fun: of flat values.
        avals: of its arguments.
        weak: the types of the Python numbers that arguments stand for, None for arrays.
        ranges: the least and the greatest value of integers among them, by position, where they are known.
        greedy: whether what is done with values from outside alone is part of the program: of a branch, which
            may not be taken. A loop needs it once, before it begins.
        undrawn: whether the program is never run, so that random generators may draw, and then have not.
    """
    stage = Inner(next_level(), greedy=greedy)
    stage.drawn = [] if undrawn else None
    inputs = [stage.var(a) for a in avals]
    stage.ranges = {inputs[i]: limits for i, limits in (ranges or {}).items()}
    kinds = weak or [None] * len(inputs)
    try:
        with running((*current().traces, stage)):
            given = [wrap(StagedTracer(stage, v, k)) for v, k in zip(inputs, kinds, strict=True)]
            outputs = [stage.operand(y) for y in fun(*given)]
    finally:
        for generator, state in reversed(stage.drawn or ()):
            generator.state = state
    return stage.program(inputs, outputs), [t for _, t in stage.captured.values()]


def weakened(x: Any, kind: type | None) -> Any:
    """Return a result as, or as what stands for, a Python number of a type; None: as it is."""
    value = x._value if x.__class__ is Tensor else x
    if kind is None or isinstance(value, StagedTracer):
        return wrap(StagedTracer(value.trace, value.var, kind)) if kind else x
    return x if isinstance(value, Tracer) else kind(value)


def settled(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a Python number, or what stands for one, in a dtype."""
    if x.__class__ is Tensor:
        return x._value.trace.cast(x, dtype)
    return np.asarray(x, dtype)


def common_type(kinds: Iterable[type]) -> type:
    """Return the type of Python numbers that may be of any of these types."""
    return max(kinds, key=_RANKS.index)


def staging() -> bool:
    """Return whether a function is being staged."""
    return any(isinstance(t, Stage) for t in current().traces)


def fingerprint(
    equations: Sequence[Equation], outputs: Sequence[Any], others: Sequence[Any] = ()
) -> list[Any]:
    """Return what two stagings of a function have in common unless it takes other values from outside.

    `others` are results that are no arrays.
    """
    found = [(e.name, *map(_value_print, e.args), *map(_value_print, e.params.values())) for e in equations]
    return [*found, *map(_value_print, outputs), *map(_value_print, others)]


def _value_print(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        part = x[tuple([slice(0, 1) if s == 0 else slice(None) for s in x.strides])] if x.size else x
        return x.shape, x.dtype, part.tobytes()
    if isinstance(x, Program):
        return fingerprint(x.equations, x.outputs)
    if isinstance(x, tuple | list):
        return list(map(_value_print, x))
    if isinstance(x, bool | int | float | complex | str | slice | np.generic | np.dtype | type(None)):
        return type(x), repr(x)
    return [type(x), *map(_value_print, x.inner() if isinstance(x, Code) else ())]


def frozen(title: str, fun: Callable[..., Any], what: str) -> TypeError:
    """Return the error that what a staged function takes from outside would be the same at every call."""
    advice = "Take it outside and pass it as argument"
    if "random" in what:
        advice += (
            ", or pass a key, of which samples are a pure function: fgrad.random.key(seed), and "
            "fgrad.random.split for the next call"
        )
    return TypeError(
        f"{title} of {name_of(fun)}: the function takes {what} while it is traced, so every call would get "
        f"the same. {advice}"
    )


def steady(title: str, functions: Sequence[Callable[..., Any]], make: Callable[[], list[Any]]) -> list[Any]:
    """Return what `make` stages of functions that a loop repeats, a program and what it takes of each.

    Raises:
        TypeError: a function moves on something that it reads, so that its turns differ.
    """
    before = [Captures(f) for f in functions]
    made = make()
    moved = [
        (f, b.changed()) for f, b in zip(functions, before, strict=True) if not b.fresh() or b.is_written()
    ]
    if moved and _prints(make()) != _prints(made):
        f, what = moved[0]
        raise TypeError(
            f"{title} of {name_of(f)}: the function changes {what or 'what it reads'} and reads it, but is "
            "traced once for all turns, which would get the same. Let the loop carry it"
        )
    return made


def _prints(made: Sequence[tuple[Program, Any]]) -> list[Any]:
    return [fingerprint(program.equations, program.outputs) for program, _ in made]


def demand_fits(n: Any, dtype: np.dtype[Any]) -> None:
    """Refuse a Python integer that does not fit into a dtype, or let whoever stages it do so.

    Raises:
        OverflowError: it does not.
    """
    if n.__class__ is Tensor and isinstance(n._value, StagedTracer):
        n._value.trace.cast(n, dtype)  # which the program around looks at
    else:
        dtype.type(n)


class _Reader:
    """Checks that arguments have the structure that was staged, and returns their leaves."""

    def __init__(self, structure: Any, static: list[Any], limits: list[tuple[int, np.dtype[Any]]]) -> None:
        self.structure, self.static = structure, static
        self.limits = limits  # places of Python integers, and a dtype that each has to fit into

    def read(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the array leaves of `args`."""
        leaves, given = tree.flatten(args)
        if given != self.structure:
            raise TypeError(f"the program was traced for the structure {self.structure}, but got {given}")
        for i, dtype in self.limits:
            demand_fits(leaves[i], dtype)
        found = (x for x, s in zip(leaves, self.static, strict=True) if s is None)
        return list(map(with_dtype, found))


class MakeGraph(Transformed):
    """The function that stages another one; the option `title` is what messages call that."""

    def _call(self, *args: Any, **kwargs: Any) -> Program:
        """Return the Program for arguments like these."""
        args, kwargs = bound(self.fun, args, kwargs)
        leaves, structure = tree.flatten(args)
        avals = [_abstract(x) for x in leaves]
        static = [x if a is None else None for x, a in zip(leaves, avals, strict=True)]
        draws = Draws(self.fun, [*static, *kwargs.values()])
        title = self.options.get("title")

        def staged() -> Program:
            stage = Stage(next_level(), title)
            inputs = [stage.var(a) if a is not None else None for a in avals]
            tracers = [
                x
                if v is None
                else wrap(StagedTracer(stage, v, x.__class__ if x.__class__ in _NUMBERS else None))
                for x, v in zip(leaves, inputs, strict=True)
            ]
            integers = {
                v: i for i, (x, v) in enumerate(zip(leaves, inputs, strict=True)) if v and x.__class__ is int
            }
            stage.numbers = {v: set() for v in integers}
            with running((*current().traces, stage)):
                out = self.fun(*tree.unflatten(structure, tracers), **kwargs)
                found, out_structure = tree.flatten(out)
                outputs = [stage.operand(y) for y in found]
            limits = [(integers[v], dtype) for v, dtypes in stage.numbers.items() for dtype in dtypes]
            trees = (_Reader(structure, static, limits), out_structure)
            variables = [v for v in inputs if v is not None]
            return Program(variables, stage.equations, outputs, trees, stage.regions)

        program = staged()

        def first(program: Program = program) -> Any:
            return fingerprint(program.equations, program.outputs)

        if source := draws.frozen(first, lambda: first(staged())):
            raise frozen(title or "make_graph", self.fun, source)
        return program


_NUMBERS = (int, float, complex)  # whose dtype gives way to that of arrays


def _abstract(x: Any) -> Aval | None:
    """Return the aval of an array, number or anything with shape and dtype; None for a static leaf."""
    if isinstance(x, Tensor):
        check_live(x)
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return Aval(tuple(x.shape), np.dtype(x.dtype))
    if isinstance(x, float | int | complex | list):
        return aval_of(x)
    return None


def make_graph(fun: Callable[P, Any]) -> Callable[P, Program]:
    """Return the function that traces `fun` with abstract arrays; nothing is computed.

    Args:
        fun: takes and returns pytrees; derivatives and batches inside it are traced too.

    Returns:
        A function of the same arguments (arrays, or anything with `shape` and `dtype`) that returns the
        Program. Python numbers are weakly typed, as in `jit`: they take the dtype of arrays beside them.

    Raises:
        NoValueError: (a TypeError) `fun` needs the value of an abstract array.

    Example:
        >>> from fgrad import make_graph
        >>> print(make_graph(lambda x: np.sin(x) * 2.0)(np.ones(3)))
        program(v0:float64[3]):
            v1:float64[3] = sin(v0)
            v2:float64[3] = multiply(v1, 2.0)
            return v2
    """
    return MakeGraph(fun)


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of `fun(*args)` as pytree of `Aval`, computing nothing.

    Args:
        fun: takes and returns pytrees.
        args: arrays, or anything with `shape` and `dtype`.
        kwargs: likewise.

    Returns:
        The pytree of the results, an `Aval` (with `shape` and `dtype`) in the place of each array.

    Raises:
        NoValueError: (a TypeError) `fun` needs the value of an abstract array.

    Example:
        >>> from fgrad import eval_shape
        >>> eval_shape(np.outer, np.ones(2), np.ones(3)).shape
        (2, 3)
    """
    program = make_graph(fun)(*args, **kwargs)
    return program.out_tree.unflatten([aval_out(y) for y in program.outputs])
