"""Programs as data, in the words of JAX: equations that can be read, replaced, printed and evaluated anew.

A jaxpr is a view of a `Program`: its equations in order, but for functions with derivatives of their own,
which are one equation with a jaxpr inside. Interpreters are loops over the equations.
"""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Program, Region, applied, aval_out, shown_parameter
from fgrad.core.program import Var as ProgramVar
from fgrad.core.tensor import Tensor
from fgrad.transforms.stage import make_graph


class Primitive:
    """What an equation applies: `bind` computes it of arrays and Tensors."""

    multiple_results = False

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Return the result, or a list of results, of operands."""
        found = PRIMITIVES[self.name]
        out = applied(found, args, params)
        return list(out) if found.many else out


class Call(Primitive):
    """A function with a derivative of its own."""

    multiple_results = True

    def bind(self, *args: Any, region: Region, **_: Any) -> list[Any]:
        """Return the results of operands, of which those from outside come last."""
        return list(region.primitive.apply(*args[: len(region.args)], **region.params))  # type: ignore[misc]


class Var:
    """A value that equations compute, or an argument."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval


class DropVar(Var):
    """A value that nobody needs."""


@dataclasses.dataclass(eq=False)
class Literal:
    """A number in an equation."""

    val: Any
    aval: Any


class _Parts:
    """What is made of parts, which others may replace."""

    def replace(self, **changes: Any) -> Any:
        """Return the same with other parts."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


@dataclasses.dataclass(eq=False, repr=False)
class JaxprEqn(_Parts):
    """`outvars = primitive(*invars, **params)`."""

    invars: list[Any]
    outvars: list[Var]
    primitive: Any
    params: dict[str, Any]
    effects: frozenset[Any] = frozenset()
    source_info: Any = None
    ctx: Any = None

    def __repr__(self) -> str:
        return "\n".join(_Text({}).equation(self))


@dataclasses.dataclass(eq=False, repr=False)
class Jaxpr(_Parts):
    """Equations in order, arguments, constants and results."""

    constvars: list[Var]
    invars: list[Var]
    outvars: list[Any]
    eqns: list[JaxprEqn]
    effects: frozenset[Any] = frozenset()
    debug_info: Any = None
    is_high = False

    def __repr__(self) -> str:
        return "\n".join(_Text({}).jaxpr(self))


@dataclasses.dataclass(eq=False, repr=False)
class ClosedJaxpr(_Parts):
    """A jaxpr with the values of its constants."""

    jaxpr: Jaxpr
    consts: list[Any]

    literals: ClassVar[property] = property(lambda self: self.consts)
    eqns: ClassVar[property] = property(lambda self: self.jaxpr.eqns)
    effects: ClassVar[property] = property(lambda self: self.jaxpr.effects)
    in_avals: ClassVar[property] = property(lambda self: [v.aval for v in self.jaxpr.invars])
    out_avals: ClassVar[property] = property(lambda self: [v.aval for v in self.jaxpr.outvars])

    def __repr__(self) -> str:
        return repr(self.jaxpr)


def _short(aval: Any) -> str:
    return str(aval.str_short()) if hasattr(aval, "str_short") else str(aval)


class _Text:
    """Writes jaxprs down: variables are letters in the order in which they occur."""

    def __init__(self, names: dict[Var, str]) -> None:
        self.names = names

    def name(self, v: Any) -> str:
        if isinstance(v, Literal):
            return f"{v.val}:{_short(v.aval)}"
        if isinstance(v, DropVar):
            return "_"
        if v not in self.names:
            n, letters = len(self.names), ""
            while n >= 0:
                letters, n = string.ascii_lowercase[n % 26] + letters, n // 26 - 1
            self.names[v] = letters
        return self.names[v]

    def typed(self, vs: Iterable[Any]) -> str:
        return " ".join(f"{self.name(v)}:{_short(v.aval)}" for v in vs)

    def equation(self, e: JaxprEqn) -> list[str]:
        used = " ".join(map(self.name, e.invars))
        params, inner = [], []
        for k, v in e.params.items():
            jaxpr = v.jaxpr if isinstance(v, ClosedJaxpr) else v
            if isinstance(jaxpr, Jaxpr):
                inner += [f"  {k}=", *(f"    {line}" for line in _Text({}).jaxpr(jaxpr))]
            elif not isinstance(v, Region):
                params.append(f"{k}={shown_parameter(v)}")
        said = f"[{' '.join(params)}]" if params else ""
        return [f"{self.typed(e.outvars)} = {e.primitive}{said} {used}".rstrip(), *inner]

    def jaxpr(self, j: Jaxpr) -> list[str]:
        head = f"{{ lambda {self.typed(j.constvars)} ; {self.typed(j.invars)}. let".replace("  ", " ")
        body = [f"    {line}" for e in j.eqns for line in self.equation(e)]
        outs = ", ".join(map(self.name, j.outvars)) + "," * (len(j.outvars) == 1)
        return [head, *body, f"  in ({outs}) }}"]


class Reader:
    """Reads a program, or a part of one, as a jaxpr; subclasses say what stands for its parts.

    Args:
        program: what is read.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.vars: dict[Any, Var] = {}
        self.consts: dict[int, tuple[Var, Any]] = {}
        self.used: set[Any] = {a for e in program.equations for a in e.args if isinstance(a, ProgramVar)}
        self.used |= {y for y in program.outputs if isinstance(y, ProgramVar)}

    def aval(self, aval: Any) -> Any:
        """Return what stands for a shape and dtype."""
        return aval

    def value(self, x: Any) -> Any:
        """Return what stands for a constant."""
        return x

    def number(self, x: Any, aval: Any) -> Any:
        """Return what stands for a constant without axes."""
        return x.numpy()[()] if isinstance(x, Tensor) else x

    def primitive(self, name: str) -> Any:
        """Return what stands for an operation."""
        found = Primitive(name)
        found.multiple_results = PRIMITIVES[name].many
        return found

    def call(self, region: Region) -> Any:
        """Return what stands for a function with a derivative of its own."""
        return Call("custom_call")

    def closed(self, outside: Sequence[Any] = ()) -> ClosedJaxpr:
        """Return the program as a jaxpr, whose first inputs are constants with the values of `outside`.

        Constants stand in the order in which they are read, wherever they come from: what a function takes
        from around it may be known at one time, and traced at another.
        """
        variables = [self.atom(v) for v in self.program.inputs]
        taken, invars = variables[: len(outside)], variables[len(outside) :]
        eqns = self.equations(0, len(self.program.equations))
        outvars = [self.atom(y) for y in self.program.outputs]
        constants = [*zip(taken, outside, strict=True), *self.consts.values()]
        read = [v for v in (*(v for e in eqns for v in e.invars), *outvars) if isinstance(v, Var)]
        places = {v: i for i, v in reversed(list(enumerate(read)))}
        constants.sort(key=lambda constant: places.get(constant[0], len(read)))
        jaxpr = Jaxpr([v for v, _ in constants], invars, outvars, eqns)
        return ClosedJaxpr(jaxpr, [self.value(x) for _, x in constants])

    def atom(self, x: Any) -> Any:
        """Return what stands for a variable or a constant."""
        if isinstance(x, ProgramVar):
            if x not in self.vars:
                self.vars[x] = Var(self.aval(x.aval))
            return self.vars[x]
        aval = self.aval(aval_out(x))
        if not aval.shape:
            return Literal(self.number(x, aval), aval)
        return self.consts.setdefault(id(x), (Var(aval), x))[0]

    def out(self, v: Any) -> Var:
        """Return what stands for a result."""
        return self.atom(v) if v in self.used else DropVar(self.aval(v.aval))

    def equations(self, start: int, stop: int, around: Any = None) -> list[JaxprEqn]:
        """Return the equations from `start` to `stop`, functions with derivatives of their own as calls."""
        found = []
        i = start
        while i < stop:
            region = self.program.regions.get(i)
            if region is not None and region is not around:
                found.append(self._call(region))
                i = region.stop
                continue
            e = self.program.equations[i]
            invars, outvars = list(map(self.atom, e.args)), list(map(self.out, e.outs))
            found.append(JaxprEqn(invars, outvars, self.primitive(e.name), e.params))
            i += 1
        return found

    def _call(self, region: Region) -> JaxprEqn:
        equations = self.program.equations[region.start : region.stop]
        known = {v for e in equations for v in e.outs} | {a for a in region.args if isinstance(a, ProgramVar)}
        operands = [*region.args, *(a for e in equations for a in e.args if isinstance(a, ProgramVar))]
        operands += [y for y in region.outs if isinstance(y, ProgramVar)]
        outside = dict.fromkeys(a for a in operands[len(region.args) :] if a not in known)
        invars = [self.atom(a) for a in (*region.args, *outside)]
        body = Jaxpr([], [], [], self.equations(region.start, region.stop, region))
        consts = dict(self.consts.values())
        body.invars = [v if isinstance(v, Var) else Var(v.aval) for v in invars]
        outs = [self.atom(y) for y in region.outs]
        body.outvars = outs
        read = {v for e in body.eqns for v in e.invars} | set(outs)
        body.constvars = [v for v in consts if v in read and v not in body.invars]
        closed = ClosedJaxpr(body, [self.value(consts[v]) for v in body.constvars])
        outvars = [v if isinstance(v, Var) else DropVar(v.aval) for v in outs]
        return JaxprEqn(invars, outvars, self.call(region), {"call_jaxpr": closed, "region": region})


def make_jaxpr(fun: Callable[..., Any]) -> Callable[..., ClosedJaxpr]:
    """Return the function that returns `fun` as a jaxpr, for arguments like those that it gets.

    Args:
        fun: takes and returns pytrees.

    Returns:
        A function of the same arguments, as of `make_graph`. What it returns has `eqns` with `invars`,
        `outvars`, `primitive` and `params`, `consts`, `in_avals` and `out_avals`, and prints as in JAX.

    Raises:
        NoValueError: (a TypeError) `fun` needs the value of an abstract array.

    Example:
        >>> closed = make_jaxpr(lambda x: np.sin(x) * 2.0)(np.ones(3))
        >>> closed
        { lambda ; a:float64[3]. let
            b:float64[3] = sin a
            c:float64[3] = multiply b 2.0:float64[]
          in (c,) }
        >>> [e.primitive.name for e in closed.eqns]
        ['sin', 'multiply']
    """
    return lambda *args, **kwargs: Reader(make_graph(fun)(*args, **kwargs)).closed()


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Return the results of a jaxpr; every equation is applied anew, so that it differentiates.

    Args:
        jaxpr: of `make_jaxpr`, or made of the parts of one.
        consts: the values of its constants.
        args: arrays and Tensors, one for each of its arguments.

    Returns:
        A list.

    Derivative:
        That of the operations.

    Example:
        >>> closed = make_jaxpr(lambda x: np.sin(x) * 2.0)(1.0)
        >>> fg.grad(lambda x: eval_jaxpr(closed.jaxpr, closed.consts, x)[0])(0.0)
        np.float64(2.0)
    """
    values: dict[Any, Any] = {}

    def read(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else values[x]

    for variables, given in ((jaxpr.constvars, consts), (jaxpr.invars, args)):
        values.update(zip(variables, given, strict=True))
    for e in jaxpr.eqns:
        out = e.primitive.bind(*map(read, e.invars), **e.params)
        values.update(zip(e.outvars, out if e.primitive.multiple_results else [out], strict=True))
    return list(map(read, jaxpr.outvars))
