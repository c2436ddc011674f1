"""Each rewrite rule alone, and all of them with and without it: programs around it keep their values."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from tests.compiler.drawing import Drawing, Traced, computed, described, differs, search, staged
from tests.compiler.simplify.patterns import PATTERNS, Pattern

from fgrad.compiler.simplify import eliminate, passes, shapes
from fgrad.compiler.simplify.constants import Constants
from fgrad.compiler.simplify.rewriting import Rules
from fgrad.core.program import Program

SEED = os.environ.get("FGRAD_TEST_SEED", "")  # for other programs than those of the suite
COUNT = int(os.environ.get("FGRAD_TEST_PROGRAMS", "60"))  # around each rule


def name_of(rule: Any) -> str:
    return f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"


KINDS = {name_of(rule): (wanted, rule) for wanted, rule in passes.ALL._kinds}
THROUGH = {f"through {name}": name for name in shapes._THROUGH}


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
        map(passes._is, t.program.outputs, simple.outputs)
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
        monkeypatch.setitem(shapes._THROUGH, key, counted(shapes._THROUGH[key], fired, name))

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


def test_every_rule_has_a_pattern():
    """A rule that is added brings a pattern of its own."""
    assert {*KINDS, *THROUGH} <= PATTERNS.keys()
