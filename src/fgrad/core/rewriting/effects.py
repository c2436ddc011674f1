"""Effects: equations that do more than compute results have to stay, in their order."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from fgrad.core.control_flow import programs_of
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation, Program

_found: WeakKeyDictionary[Program, bool] = WeakKeyDictionary()  # programs do not change


def has_effect(e: Equation) -> bool:
    """Return whether an equation does more than its results: it calls the user or others, or may refuse.

    This is the one definition: what a program does and raises is what the function does and raises that was
    staged, whoever takes what nobody needs out of it.
    """
    effect = PRIMITIVES[e.name].effect
    if "over" in e.params or (effect is not None and effect(e.params)):
        return True
    return "code" in e.params and any(map(has_effects, programs_of(e)))


def has_effects(program: Program) -> bool:
    """Return whether an equation of a program has an effect."""
    found = _found.get(program)
    if found is None:
        found = _found[program] = any(map(has_effect, program.equations))
    return found


def calls_out(program: Program) -> bool:
    """Return whether a program calls functions of Python that do more than compute: it may run only once."""
    return any(_calls_out(e) for e in program.equations)


def _calls_out(e: Equation) -> bool:
    primitive = PRIMITIVES[e.name]
    if primitive.interpreted and primitive.effect is not None and primitive.effect(e.params):
        return True
    return "code" in e.params and any(map(calls_out, programs_of(e)))


def tolerant(e: Equation) -> Equation:
    """Return an equation that refuses nothing, for values of no consequence."""
    unchecked = PRIMITIVES[e.name].unchecked
    return e.with_params(e.params | unchecked) if unchecked else e


def is_shared(e: Equation) -> bool:
    """Return whether other processes take part in an equation, so that it runs on all of them or on none.

    What one process knows, like its rank, may make the result useless to it; it takes part all the same.
    """
    return "over" in e.params or any(map(communicates, programs_of(e)))


def communicates(program: Program) -> bool:
    """Return whether other processes take part in a program, so that nobody may choose another one alone."""
    return any(map(is_shared, program.equations))
