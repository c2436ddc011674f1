"""Equations that have to stay: those that do something beside their results, in the order they stand in."""

from __future__ import annotations

from typing import Any

from fgrad.core.program import Equation, Program


def has_effect(e: Equation) -> bool:
    """Return whether an equation does something beside its results: it calls the user, or may refuse."""
    name = e.name
    if name == "effect":
        return True
    if name == "guard":
        return bool(e.params["look"])
    if name == "solve":
        return bool(e.params["check"])
    code = e.params.get("code")
    return code is not None and any(map(_any_effect, programs(code)))


def _any_effect(program: Program) -> bool:
    return any(map(has_effect, program.equations))


def programs(code: Any) -> list[Program]:
    """Return the programs that the operation of control flow holds."""
    found: list[Program] = list(code.programs())
    return found
