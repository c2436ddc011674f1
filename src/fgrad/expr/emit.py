"""Scalar expressions as Python source: one line an atom, every shared node once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import Expr, postorder


class Source(NamedTuple):
    """The text of one function, and the constants it names."""

    text: str
    constants: dict[str, float]


def emit_calls(
    name: str,
    params: Sequence[Expr],
    results: Sequence[Expr | None],
    mixed: Sequence[Expr] = (),
    number: str = "",
    large: str = "",
) -> Source:
    """Return `def name(*params)` that calls every atom by its name, for whole arrays, and returns a tuple.

    Args:
        name: that of the function.
        params: its parameters, of which the first one is an array.
        results: what it returns.
        mixed: parameters which, if not of the kind of the first one, go through `widened(x, first)` before.
        number: the function that is called in its place where the first parameter is a scalar of NumPy.
        large: the one that is called where that has `LEAST` elements or more.
    """
    text, constants = _emit(name, params, results)
    head, rest = text.split("\n", 1)
    first = params[0].leaf
    guards = _guards(params, number, large) + [
        line
        for p in mixed
        for line in (
            f"if {p.leaf}.dtype.kind != {first}.dtype.kind:",
            f"    {p.leaf} = widened({p.leaf}, {first})",
        )
    ]
    return Source("\n".join([head, *(f"    {line}" for line in guards), rest]), constants)


def _guards(params: Sequence[Expr], number: str, large: str) -> list[str]:
    """Return the lines that call another function for a scalar, or for large arrays; one look tells."""
    first, names = params[0].leaf, ", ".join(str(p.leaf) for p in params)
    lines = []
    if number:
        lines += [f"if isinstance({first}, generic):", f"    return {number}({names})"]
    if large:
        lines += [f"if {first}.size >= LEAST:", f"    return {large}({names})"]
    if number and large:
        return [f"if not 1 < {first}.size < LEAST:", *(f"    {line}" for line in lines)]
    return lines


def emit_in_place(
    name: str,
    params: Sequence[Expr],
    results: Sequence[Expr | None],
    otherwise: str,
    number: str,
) -> Source:
    """Return what `emit_calls` does, for arrays of one shape and dtype, in as few arrays as possible.

    An intermediate result gives its memory to the operation that uses it last. Numbers have no memory to
    give: where the first parameter has no axes, the function called `otherwise` is called. If there is a
    `number`, that is called for scalars of NumPy, and `otherwise` where there are `LEAST` elements or more,
    and where there is only one, or none.
    """
    text, constants = emit_calls(name, params, results)
    head, *lines, last = text.splitlines()
    steps = [_STEP.fullmatch(line) for line in lines]
    for i, step in enumerate(steps):
        if step is None or step["head"] not in _FLOATING:
            continue
        later = "\n".join([*lines[i + 1 :], last])
        for arg in step["args"].split(", "):
            made = any(s and s["term"] == arg and s["head"] in _FLOATING for s in steps[:i])
            if made and not re.search(rf"\b{arg}\b", later):
                lines[i] = f"    {step['term']} = {step['head']}({step['args']}, {arg})"
                break
    first, instead = params[0].leaf, f"{otherwise}({', '.join(str(p.leaf) for p in params)})"
    guard = [f"    if not {first}.ndim:", f"        return {instead}"]
    if number:
        guard = [
            f"    if not 1 < {first}.size < LEAST:",
            *(f"        {line}" for line in _guards(params, number, "")),
            f"        return {instead}",
        ]
    return Source("\n".join([head, *guard, *lines, last]) + "\n", constants)


_STEP = re.compile(r" *(?P<term>\w+) = (?P<head>\w+)\((?P<args>.*)\)")
_FLOATING = frozenset(
    name
    for name, atom in ATOMS.items()
    if isinstance(atom.reference, np.ufunc) and f"{'d' * atom.reference.nin}->d" in atom.reference.types
)


def _emit(name: str, params: Sequence[Expr], results: Sequence[Expr | None]) -> Source:
    """Return the function."""
    term: dict[Expr | None, str] = {None: "None", **{p: str(p.leaf) for p in params}}
    lines, constants = [f"def {name}({', '.join(str(p.leaf) for p in params)}):"], dict[str, float]()
    for e in postorder(*(r for r in results if r is not None)):
        if e in term:
            continue
        if e.head == "const":
            term[e] = f"K{len(constants)}"
            constants[term[e]] = float(e.leaf)
            continue
        term[e] = f"t{len(lines)}"
        lines.append(f"    {term[e]} = {e.head}({', '.join(term[a] for a in e.args)})")
    lines.append(f"    return ({', '.join(term[e] for e in results)},)")
    return Source("\n".join(lines) + "\n", constants)
