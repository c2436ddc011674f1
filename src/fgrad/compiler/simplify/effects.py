"""Equations that have to stay: those that do something beside their results, in the order they stand in."""

from __future__ import annotations

from fgrad.core.program import Equation


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
