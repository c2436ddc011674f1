"""Equations that have to stay: those that do something beside their results, in the order they stand in."""

from __future__ import annotations

from fgrad.core.program import Equation, Program


def has_effect(e: Equation) -> bool:
    """Return whether an equation does more than its results: it calls the user or others, or may refuse."""
    name = e.name
    if name == "effect" or "over" in e.params:
        return True
    if name == "guard":
        return bool(e.params["look"])
    if name == "solve":
        return bool(e.params["check"])
    code = e.params.get("code")
    return code is not None and any(has_effect(inner) for p in code.inner() for inner in p.equations)


def is_shared(e: Equation) -> bool:
    """Return whether other processes take part in an equation, so that it runs on all of them or on none.

    What one process knows, like its rank, may make the result useless to it; it takes part all the same.
    """
    code = e.params.get("code")
    return "over" in e.params or (code is not None and any(map(communicates, code.inner())))


def communicates(program: Program) -> bool:
    """Return whether other processes take part in a program, so that nobody may choose another one alone."""
    return any(map(is_shared, program.equations))
