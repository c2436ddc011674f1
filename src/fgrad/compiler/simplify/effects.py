"""Equations that have to stay: those that do something beside their results, in the order they stand in."""

from __future__ import annotations

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
    return code is not None and any(has_effect(inner) for p in code.inner() for inner in p.equations)


def communicates(program: Program) -> bool:
    """Return whether other processes have to run a program too: it has operations over an axis of them.

    All of them have the same operations in the same order, so such a program runs as it stands, or not at
    all: nothing that one process alone knows may decide.
    """
    for e in program.equations:
        code = e.params.get("code")
        if "over" in e.params or (code is not None and any(map(communicates, code.inner()))):
            return True
    return False
