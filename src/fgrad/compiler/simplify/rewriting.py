"""The rewriting pass: each equation is replaced by the first rule that knows something simpler."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.compiler.simplify.constants import Constants, spread
from fgrad.core.aval import Aval, aval_of
from fgrad.core.primitive import COMMUTATIVE, PRIMITIVES
from fgrad.core.program import Equation, Program, Var
from fgrad.core.rewriting.effects import has_effect
from fgrad.core.rewriting.operations import Operations
from fgrad.ops.elementwise import batch_elementwise

Rule = Callable[["Rewriting", Equation], Any]


class Rules:
    """Rules by the name of the primitive that they rewrite.

    A rule takes the rewriting and an equation, whose operands are simple already, and returns the value
    that takes the place of its result (of its results, a list), or None. It may make other equations.
    """

    def __init__(self) -> None:
        self._kinds: list[tuple[Callable[[str], bool], Rule]] = []
        self._by_name: dict[str, list[Rule]] = {}

    def on(self, *names: str) -> Callable[[Rule], Rule]:
        """Return the decorator that adds a rule for some primitives."""
        return self.on_all(frozenset(names).__contains__)

    def on_those(self, trait: str) -> Callable[[Rule], Rule]:
        """Return the decorator that adds a rule for all primitives that have a trait."""
        return self.on_all(lambda name: trait in PRIMITIVES[name].traits)

    def on_all(self, wanted: Callable[[str], bool] = lambda _: True) -> Callable[[Rule], Rule]:
        """Return the decorator that adds a rule for all primitives whose names are wanted."""

        def add(rule: Rule) -> Rule:
            self._kinds.append((wanted, rule))
            return rule

        return add

    def of(self, name: str) -> list[Rule]:
        """Return the rules of a primitive."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = [rule for wanted, rule in self._kinds if wanted(name)]
        return found

    def __or__(self, other: Rules) -> Rules:
        made = Rules()
        made._kinds = [*self._kinds, *other._kinds]
        return made

    def __call__(self, program: Program, constants: Constants | None = None) -> Program:
        """Return the program after one pass, without `regions`."""
        return Rewriting(self, program, constants or Constants()).program


class Rewriting(Operations):
    """The program that is being written; equal equations are written once."""

    def __init__(self, rules: Rules, program: Program, constants: Constants) -> None:
        self.rules: Rules = rules
        self.constants: Constants = constants
        self.scalar: Callable[[Any], Any] = constants.scalar
        self.equations: list[Equation] = []
        self.uses: Counter[Var] = Counter(_operands(program))  # of the program as it was
        self._user = {a: e.name for e in program.equations for a in e.args if a.__class__ is Var}
        self._maker: dict[Var, Equation] = {}
        self._shared: dict[Any, tuple[Var, ...]] = {}
        self._found: dict[Var, Any] = {}
        self._line = ""
        self._depth = 0
        self._count = sum(len(e.outs) for e in program.equations) + len(program.inputs)
        named = [*program.inputs, *(v for e in program.equations for v in e.outs)]
        self._count = max([self._count, *(1 + _number(v) for v in named)])
        for e in program.equations:
            self._line = e.line
            args = tuple(map(self._current, e.args))
            for old, new in zip(e.outs, self._write(e.with_args(args)), strict=True):
                if new is not old:
                    self._found[old] = new
                    if new.__class__ is Var:
                        self.uses[new] += self.uses[old]
        self.outputs: list[Any] = [self._current(y) for y in program.outputs]
        self._old = program

    @property
    def program(self) -> Program:
        """What has been written."""
        old = self._old
        return Program(old.inputs, self.equations, self.outputs, (old.in_tree, old.out_tree))

    # ---- what rules ask

    def maker(self, x: Any, *names: str) -> Equation | None:
        """Return the equation that makes `x`, if its primitive is one of `names`."""
        if x.__class__ is not Var:
            return None
        e = self._maker.get(x)
        return e if e is not None and (not names or e.name in names) else None

    def made_by(self, x: Any, trait: str) -> Equation | None:
        """Return the equation that makes `x`, if its primitive has a trait."""
        e = self._maker.get(x) if x.__class__ is Var else None
        return e if e is not None and trait in e.traits else None

    def negation(self, x: Any, user: Equation) -> Equation | None:
        """Return the equation that negates to `x`, unless integers wrap before `user` widens them."""
        made = self.maker(x, "negative")
        wide = made is None or x.aval.dtype.kind in "fc" or x.aval.dtype == user.outs[0].aval.dtype
        return made if wide else None

    def single(self, x: Any) -> bool:
        """Return whether `x` is used once, so that its equation goes where it is rewritten."""
        return x.__class__ is Var and self.uses[x] == 1

    def chain(self, e: Equation, joins: Callable[[Equation], bool]) -> list[Any]:
        """Return the operands of `e`, of equations of its kind that join their own ones, in order."""
        found: list[Any] = []
        todo = [*reversed(e.args)]
        while todo:
            x = todo.pop()
            made = self.maker(x, e.name) if self.single(x) else None
            if made and joins(made):
                todo += reversed(made.args)
            else:
                found.append(x)
        return found

    def goes_into(self, x: Var, name: str) -> bool:
        """Return whether the only use of `x` is one by the primitive `name`, or its uses are not known."""
        return x not in self.uses or (self.uses[x] == 1 and self._user.get(x) == name)

    def aval(self, x: Any) -> Aval:
        """Return shape and dtype of an operand."""
        return x.aval if x.__class__ is Var else aval_of(x)

    # ---- what rules make

    def make(self, name: str, *args: Any, **params: Any) -> Any:
        """Return the result of a primitive, which has one, in its simplest form."""
        avals = [a.aval if a.__class__ is Var else a for a in args]
        primitive = PRIMITIVES[name]
        assert primitive.shape is not None and not primitive.many  # noqa: S101, PT018 -- rules make primitives of this kind only
        out = Var(primitive.shape(*avals, **params), "")
        return self._write(Equation(name, args, params, (out,), self._line))[0]

    def full(self, value: Any, aval: Aval) -> Any:
        """Return the constant that is `value` everywhere."""
        return spread(value, aval)

    # ---- writing

    def _current(self, a: Any) -> Any:
        if a.__class__ is Var:
            return self._found.get(a, a)
        return self.constants.canonical(a)

    def _write(self, e: Equation) -> Sequence[Any]:
        """Return the results of `e` in their simplest form."""
        if self._depth < _DEEPEST:
            self._depth += 1
            try:
                for rule in self.rules.of(e.name):
                    found = rule(self, e)
                    if found is not None and (new := self._fitting(found, e)) is not None:
                        return new
            finally:
                self._depth -= 1
        return self._append(e)

    def _fitting(self, found: Any, e: Equation) -> Sequence[Any] | None:
        """Return what a rule found, in the shapes of the results of `e`; None if a dtype would change."""
        results = found if isinstance(found, list) else [found]
        new = []
        for r, out in zip(results, e.outs, strict=True):
            if r is None:
                new.append(out)
                continue
            aval = self.aval(r)
            if aval.dtype != out.aval.dtype or (not hasattr(r, "dtype") and r.__class__ is not Var):
                return None
            new.append(r if aval.shape == out.aval.shape else self.broadcast_to(r, out.aval.shape))
        return new

    def _append(self, e: Equation) -> tuple[Var, ...]:
        key = None
        if not has_effect(e):
            args = [a if a.__class__ is Var else self.constants.key(a) for a in e.args]
            if COMMUTATIVE in e.traits:
                args.sort(key=lambda a: (0, id(a)) if a.__class__ is Var else (1, str(a)))
            key = (e.name, tuple(args), self.constants.key(e.params))
            known = self._shared.get(key)
            if known is not None:
                return known
        for v in e.outs:
            if not v.name:
                v.name = f"v{self._count}"
                self._count += 1
            self._maker[v] = e
        self.equations.append(e)
        if key is not None:
            self._shared[key] = e.outs
        return e.outs


_DEEPEST = 40  # rules that call each other; an equation is written as it is beyond that


def _operands(program: Program) -> list[Var]:
    operands = [a for e in program.equations for a in e.args if a.__class__ is Var]
    return [*operands, *(y for y in program.outputs if y.__class__ is Var)]


def _number(v: Var) -> int:
    digits = v.name[1:]
    return int(digits) if digits.isdecimal() else 0


@functools.cache
def is_elementwise(name: str) -> bool:
    """Return whether a primitive is elementwise: an element depends on those at its place, broadcast."""
    primitive = PRIMITIVES[name]
    if primitive.body is not None:
        return True
    return getattr(primitive.batch, "func", None) is batch_elementwise and name != "threefry"
