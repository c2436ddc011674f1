"""Each rewrite rule alone, and all of them with and without it: programs around it keep their values."""

from __future__ import annotations

import operator
import os
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.compiler.drawing import Drawing, Traced, computed, described, differs, search, staged
from tests.compiler.simplify.patterns import PATTERNS, Pattern

import fgrad as fg
from fgrad.compiler.simplify import passes, shapes, simplify, speculate, speculation
from fgrad.compiler.simplify.constants import Constants
from fgrad.compiler.simplify.rewriting import Rules
from fgrad.core.program import Program
from fgrad.core.rewriting.liveness import eliminate

SEED = os.environ.get("FGRAD_TEST_SEED", "")  # for other programs than those of the suite
COUNT = int(os.environ.get("FGRAD_TEST_PROGRAMS", "60"))  # around each rule


def name_of(rule: Any) -> str:
    return f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"


KINDS = {name_of(rule): (wanted, rule) for wanted, rule in passes.ALL._kinds}
THROUGH = {f"through {name}": name for name in shapes.THROUGH}


def counted(rule: Any, fired: Counter[str], name: str) -> Any:
    def call(*args: Any) -> Any:
        found = rule(*args)
        fired[name] += found is not None
        return found

    return call


def rules_of(*names: str, fired: Counter[str]) -> Rules:
    made = Rules()
    made._kinds = [(wanted, counted(rule, fired, n)) for n, (wanted, rule) in KINDS.items() if n in names]
    return made


def rewritten(rules: Rules, program: Program) -> Program:
    constants = Constants()
    program = eliminate(program)
    for _ in range(passes.ROUNDS):
        before = program.equations
        program = eliminate(rules(program, constants))
        if passes._same(before, program.equations):
            break
    return program


def hold(t: Traced, simple: Program, what: str, pattern: Pattern) -> None:
    """Assert that a program computes what another one does."""
    if passes._same(t.program.equations, simple.equations) and all(
        map(operator.is_, t.program.outputs, simple.outputs)
    ):
        return
    error, values = computed(simple, t.inputs)
    tolerance = pattern.ulp * t.size
    wrong = error or any(
        differs(y, e, tolerance, t.mode, mixed=pattern.mixed, signed=pattern.signed)
        for y, e in zip(values, t.outputs, strict=True)
    )
    if wrong:
        lines = [f"{what} changes", described(t), "to", str(simple), f"which gives {error or values}"]
        raise AssertionError("\n".join([*lines, f"instead of {t.outputs}"]))


@pytest.mark.parametrize("name", [*KINDS, *THROUGH])
def test_values_stay(name, monkeypatch):
    rule = "shapes.sliced" if name in THROUGH else name
    pattern, fired = PATTERNS[name], Counter[str]()
    others = [n for n in KINDS if n != rule]
    if name in THROUGH:
        key = THROUGH[name]
        monkeypatch.setitem(shapes.THROUGH, key, counted(shapes.THROUGH[key], fired, name))

    def check(chosen: Any) -> list[int]:
        d = Drawing(chosen, pattern.modes)
        t = staged(d, pattern.draw(d))
        if t is not None:
            hold(t, rewritten(rules_of(rule, fired=fired), t.program), f"{name} alone", pattern)
            hold(t, rewritten(rules_of(*KINDS, fired=Counter()), t.program), "one of all rules", pattern)
            made = rewritten(rules_of(*others, fired=Counter()), t.program)
            hold(t, made, f"a rule beside {name}", pattern)
        return d.used

    search(check, f"{name} {SEED}", COUNT)
    assert fired[name] >= COUNT // 40, f"the programs of {name} have not met the rule: {fired[name]}"


def test_equal_equations_are_one_and_only_they():
    pattern, fewer = PATTERNS["sharing"], Counter[str]()

    def check(chosen: Any) -> list[int]:
        d = Drawing(chosen, pattern.modes)
        t = staged(d, pattern.draw(d))
        if t is not None:
            shared = Rules()(t.program)
            fewer["shared"] += len(shared.equations) < len(t.program.equations)
            fewer["needed"] += len(eliminate(shared).equations) < len(shared.equations)
            hold(t, shared, "sharing", pattern)
            hold(t, eliminate(shared), "elimination", pattern)
        return d.used

    search(check, f"sharing {SEED}", 4 * COUNT)
    assert min(fewer["shared"], fewer["needed"]) > COUNT // 4


# ---- speculation ---------------------------------------------------------------------------------

SPECULATIVE = {rule.__name__: rule for _, rule in speculation.Speculation()._kinds}
SINGULAR = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "square": np.square,
    "sin": np.sin,
    "reciprocal": np.reciprocal,
    "guarded": lambda x: np.where(x > 0, np.log(x), x),
    "x log x": lambda x: x * np.log(x),
    "half": lambda x: x * 0.5,
}


def singular(d: Drawing) -> Any:
    """Draw a function of steps whose slopes may be infinite, and combinations of them."""
    names = [d.pick(list(SINGULAR)) for _ in range(d.integer(1, 3))]
    joined, after = (
        d.pick(("x", "sum", "product", "quotient", "divided")),
        d.pick(("x", "tanh", "where", "sum")),
    )

    def f(x: Any) -> Any:
        y = x
        for name in names:
            y = SINGULAR[name](y)
        if joined == "sum":
            y = y + np.log(x)
        elif joined == "product":
            y = y * np.exp(x)
        elif joined == "quotient":
            y = np.sin(x) / y
        elif joined == "divided":
            y = x / np.sum(np.exp(x)) + y / np.sum(np.exp(x))
        if after == "where":
            return np.where(y > 1, 1.0, y)
        return np.tanh(y) if after == "tanh" else np.sum(y) * x if after == "sum" else y

    return f


@pytest.mark.parametrize("name", SPECULATIVE)
def test_the_usual_case_is_right_where_it_says_so(name, monkeypatch):
    fired = Counter[str]()
    for key in SPECULATIVE:
        monkeypatch.setattr(
            speculation.Speculation, key, counted(getattr(speculation.Speculation, key), fired, key)
        )

    def check(chosen: Any) -> list[int]:
        d = Drawing(chosen, ("plain", "special"))
        dtype = d.dtype(("float64", "float32"))
        x, t = d.given((3,), dtype), d.given((3,), dtype)
        f = singular(d)
        made = staged(d, lambda *v: fg.jvp(f, (v[x],), (v[t],)))
        if made is None:
            return d.used
        simple = simplify(made.program)
        fast = speculate(simple)
        if fast is not None:
            _, (*values, valid) = computed(fast, d.inputs)
            _, wanted = computed(simple, d.inputs)
            wrong = any(differs(v, e, 1000 * made.size) for v, e in zip(values, wanted, strict=True))
            if valid and wrong:
                raise AssertionError(f"{described(made)}\nis\n{fast}\n{values}, not {wanted}")
            fired["valid"] += bool(valid)
        return d.used

    search(check, f"{name} {SEED}", 2 * COUNT)
    assert min(fired[name], fired["valid"]) > COUNT // 20


def test_every_rule_has_a_pattern():
    """A rule that is added brings a pattern of its own; one of speculation is met by `singular`."""
    assert {*KINDS, *THROUGH} <= PATTERNS.keys()
    assert {*SPECULATIVE} == {"_choice", "_common_divisor", "_quotient"}
