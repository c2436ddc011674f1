"""Programs as JSON and arrays; what the format cannot express is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.archive.container import DTYPES, Arrays
from fgrad.archive.rules import fingerprint, is_declared_by_user
from fgrad.archive.schema import reason
from fgrad.core.aval import Aval
from fgrad.core.control_flow import Back, Branches, Code, Grown, Mapped, Scan, While
from fgrad.core.program import Program, Region, Var
from fgrad.core.rewriting.units import live, units
from fgrad.core.tensor import Tensor
from fgrad.core.trace import place_of
from fgrad.extend.engine import HOLE

# The attributes of each kind of control flow, in the order of its constructor.
FIELDS: dict[type[Code], tuple[str, ...]] = {
    Branches: ("branches", "outs"),
    While: ("condition", "body", "consts"),
    Scan: ("body", "consts", "carry", "length", "reverse", "checkpoint"),
    Back: ("code", "wanted", "outs"),
    Mapped: ("code", "mapped", "size"),
}


class Writer:
    """Writes programs and values; arrays go to `arrays`.

    Raises:
        TypeError: there is no word for something.
    """

    name: str
    arrays: Arrays

    def __init__(self, name: str) -> None:
        self.name, self.arrays = name, Arrays()
        self.declared: dict[
            str, str | None
        ] = {}  # primitives of the user, and what tells their bodies from others

    def refuse(self, what: str) -> TypeError:
        """Return the error for what cannot be stored."""
        return TypeError(f"export of {self.name}: {what}")

    def program(self, program: Program) -> dict[str, Any]:
        """Return a program: its variables are numbered in the order in which they are assigned."""
        regions = [r for r in program.regions.values() if r.start < r.stop]
        alive = live(units(program), program.outputs)  # others may be such that cannot be stored
        places = [u.start + i for u in alive for i in range(len(u.equations))]
        numbers = {v: i for i, v in enumerate(program.inputs)}
        said = []
        for e in (program.equations[i] for i in places):
            wrong = reason(e.name, e.params)
            if wrong:
                raise self.refuse(f"{e.name}, traced at {place_of(e.line)}, cannot be stored: {wrong}")
            if is_declared_by_user(e.name):
                self.declared[e.name] = fingerprint(e.name)
            args = [self.operand(a, numbers) for a in e.args]
            params = {k: self.value(v, f"the parameter {k} of {e.name}") for k, v in e.params.items()}
            numbers.update({v: len(numbers) + i for i, v in enumerate(e.outs)})
            said.append([e.name, args, params, [self.aval(v.aval) for v in e.outs]])
        return {
            "inputs": [self.aval(v.aval) for v in program.inputs],
            "equations": said,
            "outputs": [self.operand(y, numbers) for y in program.outputs],
            "regions": [self.region(r, program, places, numbers) for r in regions if r.start in places],
        }

    def region(
        self, r: Region, program: Program, places: Sequence[int], numbers: dict[Var, int]
    ) -> list[Any]:
        """Return which equations have a derivative of their own, without it."""
        rule = r.params.get("rule")
        inside = program.equations[r.start : r.stop]
        known = {a for a in r.args if isinstance(a, Var)} | {v for e in inside for v in e.outs}
        used = [*(a for e in inside for a in e.args), *r.outs]
        if any(isinstance(a, Var) and a not in known for a in used):
            raise self.refuse(
                f"{getattr(rule, 'name', r.primitive.name)} has a derivative of its own and uses values that "
                "are not among its arguments; pass them"
            )
        start = places.index(r.start)
        operands = [[self.operand(a, numbers) for a in some] for some in (r.args, r.outs)]
        return [str(getattr(rule, "name", r.primitive.name)), start, start + len(inside), *operands]

    def operand(self, a: Any, numbers: dict[Var, int]) -> Any:
        """Return a variable or constant."""
        if isinstance(a, Var):
            return {"var": numbers[a]}
        return self.value(a._value if isinstance(a, Tensor) else a, "a constant")

    def aval(self, aval: Aval) -> list[Any]:
        """Return a shape and dtype."""
        known = aval.dtype.name in DTYPES
        if not known:
            raise self.refuse(f"the format has no arrays of dtype {aval.dtype}")
        grown = isinstance(aval, Grown)
        return [aval.dtype.name, list(aval.shape[1:] if grown else aval.shape), *(["grown"] if grown else [])]

    def value(self, x: Any, what: str) -> Any:
        """Return a value of one of the types that the format knows."""
        kind = type(x)
        if x is None or kind in {bool, int, str}:
            return x
        if kind is float:
            return {"float": repr(x)}
        if kind is complex:
            return {"complex": [repr(x.real), repr(x.imag)]}
        if kind in {tuple, list}:
            return {kind.__name__: self.values(x, what)}
        if kind is dict and all(type(k) is str for k in x):
            return {"dict": [[k, self.value(v, what)] for k, v in x.items()]}
        if kind is slice:
            return {"slice": self.values((x.start, x.stop, x.step), what)}
        if x is Ellipsis or x is HOLE:
            return {"hole" if x is HOLE else "ellipsis": None}
        if isinstance(x, np.dtype):
            return {"dtype": self.aval(Aval((), x))[0]}
        if isinstance(x, np.ndarray | np.generic) and x.dtype.name in DTYPES:
            return {"array" if isinstance(x, np.ndarray) else "scalar": self.arrays.place(np.asarray(x))}
        if isinstance(x, Aval):
            return {"aval": self.aval(x)}
        if isinstance(x, Program):
            return {"program": self.program(x)}
        if kind in FIELDS:
            return {"code": [kind.__name__, [self.value(getattr(x, k), what) for k in FIELDS[kind]]]}
        described = x.dtype if isinstance(x, np.ndarray) else f"of type {kind.__name__}"
        raise self.refuse(f"{what} is {described}, which the format cannot store")

    def values(self, xs: Sequence[Any], what: str) -> list[Any]:
        """Return several values."""
        return [self.value(x, what) for x in xs]

    def tree(self, x: Any, what: str) -> Any:
        """Return a pytree: what is no container stays."""
        kind = type(x)
        if x is None:
            return None
        if kind in {tuple, list}:
            return {kind.__name__: [self.tree(part, what) for part in x]}
        if kind is dict:
            if not all(type(k) in {str, int} for k in x):
                raise self.refuse(f"{what} holds a dict whose keys are not strings or integers")
            return {"dict": [[k, self.tree(part, what)] for k, part in x.items()]}
        if kind is not int:
            raise self.refuse(
                f"{what} holds a {kind.__name__}; only tuples, lists, dicts and None are stored, since "
                "other classes are Python. Wrap the function in one that takes and returns those"
            )
        return x
