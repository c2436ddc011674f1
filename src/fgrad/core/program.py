"""Programs: traced functions as typed assignments of primitives to variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from fgrad.core.aval import Aval, aval_of
from fgrad.core.dispatch import bind
from fgrad.core.display import dot_of, html_of
from fgrad.core.primitive import PRIMITIVES, Primitive
from fgrad.core.tensor import Tensor, is_traced
from fgrad.core.trace import place_of
from fgrad.errors import NonFiniteError
from fgrad.locks import lazy

_GENERATED = re.compile(r"[a-z]\d+")  # names that fgrad gives


@dataclass(eq=False, repr=False, slots=True)
class Var:
    """A value of a program: known by shape and dtype only."""

    aval: Aval
    name: str

    def rename(self, name: str) -> None:
        """Take the name that a user gave, unless it could be that of another variable."""
        if not _GENERATED.fullmatch(name):
            self.name = name

    @property
    def given_name(self) -> str:
        """The name that a user gave, "" if there is none."""
        return "" if _GENERATED.fullmatch(self.name) else self.name

    def __repr__(self) -> str:
        return f"{self.name}:{self.aval}"


@dataclass(eq=False, repr=False, slots=True)
class Equation:
    """`outs = name(args, **params)`; args are variables or constants."""

    name: str
    args: tuple[Any, ...]
    params: dict[str, Any]
    outs: tuple[Var, ...]
    line: str

    @property
    def traits(self) -> Collection[str]:
        """What passes ask of its primitive."""
        return PRIMITIVES[self.name].traits

    def with_args(self, args: Iterable[Any]) -> Equation:
        """Return the same of other arguments."""
        return Equation(self.name, tuple(args), self.params, self.outs, self.line)

    def with_params(self, params: dict[str, Any]) -> Equation:
        """Return the same with other parameters."""
        return Equation(self.name, self.args, params, self.outs, self.line)

    def __str__(self) -> str:
        args = ", ".join(
            [*map(shown, self.args), *(f"{k}={shown_parameter(v)}" for k, v in self.params.items())]
        )
        outs = ", ".join(map(repr, self.outs))
        return f"{outs}{' = ' * bool(outs)}{self.name}({args})"


@dataclass(eq=False, repr=False, slots=True)
class Region:
    """Equations `start` to `stop` of a program stand for one operation, which has a derivative of its own."""

    primitive: Primitive
    args: tuple[Any, ...]
    params: dict[str, Any]
    outs: list[Any]
    start: int
    stop: int

    def moved(self, start: int, stop: int, new: Callable[[Any], Any] = lambda x: x) -> Region:
        """Return the same at another place, with `new` of its arguments and results."""
        args, outs = tuple(map(new, self.args)), list(map(new, self.outs))
        return Region(self.primitive, args, self.params, outs, start, stop)

    def apply(self, values: Sequence[Any]) -> list[tuple[Var, Any]]:
        """Return the outputs that the operation assigns."""
        outs = self.primitive.apply(*values, **self.params)  # type: ignore[misc]
        return [(v, o) for v, o in zip(self.outs, outs, strict=True) if isinstance(v, Var)]


class Program:
    """A staged function: inputs, equations in order, outputs; every variable is assigned once.

    Calling it computes the outputs from arrays, one primitive after the other. `print` shows it, one typed
    assignment a line. Where a value of one of the `regions` is differentiated or mapped, its operation is
    applied instead of its equations.
    """

    in_tree: Any
    out_tree: Any

    def __init__(
        self,
        inputs: Sequence[Var],
        equations: Sequence[Equation],
        outputs: Sequence[Any],
        trees: tuple[Any, Any],
        regions: Sequence[Region] = (),
    ) -> None:
        # of those that start together the outermost, closed last
        self.regions: dict[int, Region] = {r.start: r for r in regions}
        self.inputs: tuple[Var, ...] = tuple(inputs)
        self.equations: tuple[Equation, ...] = tuple(equations)
        self.outputs: tuple[Any, ...] = tuple(outputs)
        self.in_tree, self.out_tree = trees

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the output leaves for arrays of the input leaves."""
        rest, places, steps, outputs = self._steps
        if len(leaves) != len(self.inputs):
            raise ValueError(f"the program takes {len(self.inputs)} arrays, not {len(leaves)}")
        values: list[Any] = [*leaves, *rest]
        plain = not any(v.__class__ is Tensor for v in values)
        regions, done = self.regions, 0
        for i, (name, arguments, params, outs) in enumerate(steps):
            if not plain:
                if i < done:
                    continue
                if i in regions:
                    region = regions[i]
                    known = [values[places[a]] if isinstance(a, Var) else a for a in region.args]
                    if any(map(is_traced, known)):
                        for v, y in region.apply(known):
                            values[places[v]] = y
                        done = region.stop
                        continue
            p = PRIMITIVES[name]
            try:
                if plain and p.apply is None:
                    found = p.run(*arguments(values), **params)
                else:
                    plain = False  # a user's operation may return Tensors
                    found = applied(p, arguments(values), params)
            except NonFiniteError as error:
                line = self.equations[i].line
                raise NonFiniteError(f"{error}; traced at {place_of(line)}", error.operation, line) from None
            if p.many:
                for k, y in zip(outs, found, strict=True):
                    values[k] = y
            else:
                values[outs] = found
        return [values[k] for k in outputs]

    @lazy
    def _steps(self) -> tuple[list[Any], dict[Var, int], list[tuple[Any, ...]], list[int]]:
        """What stands behind the inputs: constants and room; where each value is; the steps; the outputs."""
        constants: list[Any] = []
        used = [*(a for e in self.equations for a in e.args), *self.outputs]
        first = len(self.inputs) + sum(not isinstance(a, Var) for a in used)
        places = {v: i for i, v in enumerate(self.inputs)}
        for e in self.equations:
            for v in e.outs:
                places[v] = first
                first += 1

        def place(a: Any) -> int:
            if isinstance(a, Var):
                return places[a]
            constants.append(a)
            return len(self.inputs) + len(constants) - 1

        steps = []
        for e in self.equations:
            outs = [places[v] for v in e.outs]
            arguments = _sequence([place(a) for a in e.args])
            steps.append((e.name, arguments, e.params, outs if PRIMITIVES[e.name].many else outs[0]))
        outputs = [place(y) for y in self.outputs]
        room = [None] * (first - len(self.inputs) - len(constants))
        return [*constants, *room], places, steps, outputs

    def __call__(self, *args: Any) -> Any:
        """Return what the staged function returns for arguments of the same structure, shapes and dtypes."""
        leaves = self.in_tree.read(args)
        for x, v in zip(leaves, self.inputs, strict=True):
            if np.shape(x) != v.aval.shape:
                raise ValueError(f"the program was traced for {v.aval}, but got shape {np.shape(x)}")
        outs = self.run(leaves)
        if any(isinstance(x, Tensor) for x in (*leaves, *outs)):
            given = [Tensor(y) if isinstance(y, np.ndarray | np.generic) else y for y in outs]
        else:
            given = [np.array(y)[()] if isinstance(y, np.ndarray) else y for y in outs]
        return self.out_tree.unflatten(given)

    def __str__(self) -> str:
        head = f"program({', '.join(map(repr, self.inputs))}):"
        body = [f"    {e}" for e in self.equations]
        return "\n".join([head, *body, f"    return {', '.join(map(shown, self.outputs))}"])

    __repr__ = __str__

    def to_dot(self) -> str:
        """Return the program in the language of Graphviz; `fgrad.viz.draw` needs no other program."""
        return dot_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)


def aval_out(y: Any) -> Aval:
    """Return the aval of an operand of an equation, or of an output: of a variable or constant."""
    return y.aval if isinstance(y, Var) else aval_of(y)


def applied(primitive: Primitive, values: Iterable[Any], params: dict[str, Any]) -> Any:
    """Return what a program computes where it says `primitive`."""
    return primitive.apply(*values, **params) if primitive.apply else bind(primitive.name, *values, **params)


def unexpected(primitive: Primitive, found: Aval, said: Aval) -> RuntimeError:
    """Return the error for a result that is not what its rule for shapes says."""
    return RuntimeError(
        f"{primitive.name} returned {found}, but its shape rule states {said}: the rule is wrong, or the "
        "operands are not what it expects; nothing is returned"
    )


def _sequence(places: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """Return what takes the items at `places` out of a list."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


def shown(a: Any) -> str:
    """Return a variable or constant in short."""
    if isinstance(a, Var):
        return a.name
    if isinstance(a, np.ndarray | Tensor) and a.ndim:
        return f"<{a.dtype.name}[{','.join(map(str, a.shape))}]>"
    return str(a)


def shown_parameter(v: Any) -> str:
    """Return a parameter in short."""
    if isinstance(v, slice):
        parts = ["" if p is None else str(p) for p in (v.start, v.stop)]
        return ":".join(parts if v.step is None else [*parts, str(v.step)])
    if isinstance(v, tuple):
        return f"({', '.join(map(shown_parameter, v))}{',' * (len(v) == 1)})"
    return "..." if v is Ellipsis else str(v)
