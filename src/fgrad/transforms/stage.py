"""Staging: the function runs once on values that are not there, and what it does becomes a Program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.core.aval import Aval, Shape, aval_of
from fgrad.core.primitive import Primitive
from fgrad.core.program import Equation, Program, Region, Var
from fgrad.core.snapshot import compact
from fgrad.core.tensor import Tensor, alias, is_tracked, wrap
from fgrad.core.trace import Box, Trace, below, current, next_level, running, user_line
from fgrad.core.watch import quiet
from fgrad.transforms.calling import Transformed, bound, check_live


class Symbol(Box):
    """A result that is not computed."""

    __slots__ = ("var",)

    def __init__(self, trace: Stage, var: Var) -> None:
        self.trace, self.var, self.line = trace, var, user_line()

    @property
    def shape(self) -> Shape:
        """The shape it will have."""
        return self.var.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype it will have."""
        return self.var.aval.dtype


class Stage(Trace):
    """Writes down each primitive as an equation."""

    title = "make_graph"
    remedy = (
        "While a function is staged, only shapes and dtypes are known: use where(condition, x, y) or "
        "lax.cond instead of if, or make the argument that decides static (static_argnums)."
    )

    def __init__(self, level: int) -> None:
        self.level = level
        self.equations: list[Equation] = []
        self.regions: list[Region] = []
        self.count = 0

    def var(self, aval: Aval) -> Var:
        """Return a new variable."""
        self.count += 1
        return Var(aval, f"v{self.count - 1}")

    def process(self, row: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Write down `row` applied to `args`."""
        if row.inline:
            start = len(self.equations)
            with running((*below(self.level), self)):
                inlined = [self.operand(o) for o in row.inline(*args, **params)]
            if row.apply:
                self._close(Region(row, tuple(map(self.operand, args)), params, inlined, start))
            return tuple(Symbol(self, o) if isinstance(o, Var) else o for o in inlined)
        operands = tuple(map(self.operand, args))
        avals = [a.aval if isinstance(a, Var) else a for a in operands]
        with quiet():  # a rule may run its row on something of the shape
            found = row.shape(*avals, **params) if row.shape else _by_running(row, avals, params)
        outs = tuple(map(self.var, found if row.many else (found,)))
        self.equations.append(Equation(row.name, operands, params, outs, user_line()))
        symbols = tuple(Symbol(self, v) for v in outs)
        return symbols if row.many else symbols[0]

    def _close(self, region: Region) -> None:
        """End a region here; what it returns without computing it gets a variable that is its own."""
        made = {v for e in self.equations[region.start :] for v in e.outs}
        for i, o in enumerate(region.outs):
            if _is_floating(o) and not (isinstance(o, Var) and o in made):
                region.outs[i] = self._renamed(o)
        region.stop = len(self.equations)
        if region.start < region.stop:
            self.regions.append(region)

    def _renamed(self, x: Any) -> Var:
        """Return a new variable for a variable or constant."""
        v = self.var(x.aval if isinstance(x, Var) else aval_of(x))
        self.equations.append(Equation("positive", (x,), {}, (v,), user_line()))
        return v

    def operand(self, x: Any) -> Any:
        """Return `x` as it stands in an equation: a variable, or a constant array or number."""
        if x.__class__ is Tensor:
            if is_tracked(x) and not isinstance(x._value, Box):
                return alias(x)  # its gradient flows through the program
            x = x._value
            if isinstance(x, Symbol) and x.trace is self:
                return x.var
        if isinstance(x, Box):
            if x.trace not in current().traces:
                x.escaped()
            raise TypeError(
                f"make_graph inside {x.trace.title}: the staged function uses a Tensor of {x.trace.title}; "
                "pass it as an argument, or stage outside"
            )
        if isinstance(x, np.ndarray):
            return compact(x)
        return np.array(x) if isinstance(x, list | tuple) else x


def _is_floating(x: Any) -> bool:
    dtype: np.dtype[Any] = (x.aval if isinstance(x, Var) else aval_of(x)).dtype
    return dtype.kind in "fc"


def _by_running(row: Primitive, avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return the avals of the outputs of a row that has no `shape`, by running it on ones."""
    values = (a._value if isinstance(a, Tensor) else a for a in avals)
    filled = [np.ones(a.shape, a.dtype) if isinstance(a, Aval) else a for a in values]
    out = row.run(*filled, **params)
    return tuple(map(aval_of, out)) if row.many else aval_of(out)


class _Reader:
    """Checks that arguments have the structure that was staged, and returns their leaves."""

    def __init__(self, structure: Any, static: list[Any]) -> None:
        self.structure, self.static = structure, static

    def read(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the array leaves of `args`."""
        leaves, given = tree.flatten(args)
        if given != self.structure:
            raise TypeError(f"the program was staged for the structure {self.structure}, but got {given}")
        found = (x for x, s in zip(leaves, self.static, strict=True) if s is None)
        return [x if hasattr(x, "dtype") else np.asarray(x) for x in found]


class MakeGraph(Transformed):
    """The function that stages another one."""

    def __call__(self, *args: Any, **kwargs: Any) -> Program:
        """Return the Program for arguments like these."""
        args, kwargs = bound(self.fun, args, kwargs)
        leaves, structure = tree.flatten(args)
        stage = Stage(next_level())
        avals = [_abstract(x) for x in leaves]
        inputs = [stage.var(a) if a is not None else None for a in avals]
        boxed = [x if v is None else wrap(Symbol(stage, v)) for x, v in zip(leaves, inputs, strict=True)]
        with running((*current().traces, stage)):
            out = self.fun(*tree.unflatten(structure, boxed), **kwargs)
            found, out_structure = tree.flatten(out)
            outputs = [stage.operand(y) for y in found]
        static = [x if v is None else None for x, v in zip(leaves, inputs, strict=True)]
        trees = (_Reader(structure, static), out_structure)
        variables = [v for v in inputs if v is not None]
        return Program(variables, stage.equations, outputs, trees, stage.regions)


def _abstract(x: Any) -> Aval | None:
    """Return the aval of an array, number or anything with shape and dtype; None for a static leaf."""
    if isinstance(x, Tensor):
        check_live(x)
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return Aval(tuple(x.shape), np.dtype(x.dtype))
    if isinstance(x, float | int | complex | list):
        return aval_of(x)
    return None


def make_graph(fun: Callable[..., Any]) -> Callable[..., Program]:
    """Return the function that stages `fun`: it runs once on shapes and dtypes, and nothing is computed.

    Args:
        fun: takes and returns pytrees; derivatives and batches inside it are staged too.

    Returns:
        A function of the same arguments (arrays, or anything with `shape` and `dtype`) that returns the
        Program.

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

    Example:
        >>> from fgrad import eval_shape
        >>> eval_shape(np.outer, np.ones(2), np.ones(3)).shape
        (2, 3)
    """
    program = make_graph(fun)(*args, **kwargs)
    return program.out_tree.unflatten([y.aval if isinstance(y, Var) else aval_of(y) for y in program.outputs])
