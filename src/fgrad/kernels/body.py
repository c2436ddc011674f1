"""Scalar expressions prepared for all backends, and the helper functions that kernels call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from fgrad.expr.atoms import ATOMS, where
from fgrad.expr.node import Expr, apply, postorder, var
from fgrad.kernels import mathlib

BOOL, FLOAT32, FLOAT64 = map(np.dtype, ("?", "f", "d"))
_HELPERS = {name: f for name, f in vars(mathlib).items() if isinstance(f, FunctionType)}


class Body(NamedTuple):
    """Expressions in variables x0, x1, ...: equal bodies are one, whatever their variables were called."""

    params: tuple[Expr, ...]
    results: tuple[Expr, ...]
    truths: tuple[bool, ...]  # whether a result is a truth value and not a number


def prepare(params: Sequence[Expr], results: Sequence[Expr]) -> Body:
    """Return the body of `results`; in it a truth value that serves as a number is 0 or 1.

    Args:
        params: the variables, in the order of the operands.
        results: expressions in them.
    """
    new: dict[Expr, Expr] = {p: var(f"x{i}") for i, p in enumerate(params)}
    truths: set[Expr] = set()

    def number(e: Expr) -> Expr:
        return where(e, 1, 0) if e in truths else e

    for e in postorder(*results):
        if e in new:
            continue
        if e.head == "var":
            raise ValueError(f"the body depends on {e}, which is not one of its parameters {tuple(params)}")
        if e.head == "const":
            new[e] = e
            continue
        args = [new[a] for a in e.args]
        atom = ATOMS[e.head]
        chosen = [a for i, a in enumerate(args) if i not in atom.conditions]
        mixed = not atom.conditions or not truths.issuperset(chosen)
        if mixed:
            args = [a if i in atom.conditions else number(a) for i, a in enumerate(args)]
        new[e] = apply(e.head, *args)
        if not mixed or atom.gives_truth:
            truths.add(new[e])
    finals = tuple(new[e] for e in results)
    return Body(tuple(new[p] for p in params), finals, tuple(e in truths for e in finals))


def helpers(text: str, dtype: np.dtype[Any], replaced: Mapping[str, str]) -> str:
    """Return the definitions of constants and helper functions that `text` names; F is `dtype` in it.

    Args:
        text: of a kernel.
        dtype: float32 or float64.
        replaced: the text of helper functions that the backend has better ones for.
    """
    names, constants = _needed(set(re.findall(r"(?<![\w.])\w+(?=\()", text)))
    values = mathlib.constants(dtype)
    named = [f"F = np.{dtype.name}", *(f"{name} = F({_literal(values[name], dtype)})" for name in constants)]
    texts = [f"@helper\n{replaced.get(name) or _text(name)}" for name in names]
    return "\n\n\n".join(["\n".join(named), *texts])


def _needed(names: set[str]) -> tuple[list[str], list[str]]:
    """Return the helper functions among `names`, those they call, and the constants of all of them."""
    todo, found = list(names), set()
    while todo:
        name = todo.pop()
        if name in _HELPERS and name not in found:
            found.add(name)
            todo.extend(_HELPERS[name].__code__.co_names)
    used = {c for name in found for c in _HELPERS[name].__code__.co_names}
    return [n for n in _HELPERS if n in found], [n for n in mathlib.constants(FLOAT64) if n in used]


def _literal(value: float, dtype: np.dtype[Any]) -> str:
    with np.errstate(over="ignore"):
        number = dtype.type(value)
    return repr(value) if np.isfinite(number) else repr(str(number))


@cache
def _text(name: str) -> str:
    return inspect.getsource(_HELPERS[name]).rstrip()
