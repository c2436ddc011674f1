"""Scalar expressions as Python source: one line an atom, every shared node once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import Expr, postorder


class Source(NamedTuple):
    """The text of one function, and the constants it names."""

    text: str
    constants: dict[str, float]


def emit(name: str, params: Sequence[Expr], results: Sequence[Expr]) -> Source:
    """Return `def name(*params)` for Numba, on CPU and CUDA: operators, `math` and own helpers.

    Constants are names, because a Python literal beside a float32 would make the arithmetic float64.
    """
    return _emit(name, params, results, by_element=True)


def emit_calls(name: str, params: Sequence[Expr], results: Sequence[Expr | None]) -> Source:
    """Return `def name(*params)` that calls every atom by its name, for whole arrays, and returns a tuple."""
    return _emit(name, params, results, by_element=False)


def _emit(name: str, params: Sequence[Expr], results: Sequence[Expr | None], *, by_element: bool) -> Source:
    term: dict[Expr | None, str] = {None: "None", **{p: str(p.leaf) for p in params}}
    lines, constants = [f"def {name}({', '.join(str(p.leaf) for p in params)}):"], dict[str, float]()
    for e in postorder(*(r for r in results if r is not None)):
        if e in term:
            continue
        if e.head == "const":
            term[e] = f"K{len(constants)}"
            constants[term[e]] = float(e.leaf)
            continue
        args = [term[a] for a in e.args]
        code = ATOMS[e.head].code.format(*args) if by_element else f"{e.head}({', '.join(args)})"
        term[e] = f"t{len(lines)}"
        lines.append(f"    {term[e]} = {code}")
    values = ", ".join(term[e] for e in results)
    lines.append(f"    return {values}" if by_element else f"    return ({values},)")
    return Source("\n".join(lines) + "\n", constants)
