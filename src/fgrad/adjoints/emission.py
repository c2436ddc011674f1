"""From statements back to Python's source, with the lines that they come from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from numba import types

from fgrad.adjoints import syntax
from fgrad.adjoints.syntax import Alloc, Assign, For, Function, If, Opaque, Raise, Stmt, Store, View, While


class Text:
    """Lines of source, as they are written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.line: int = 0

    def add(self, source: str | ast.AST, line: int = 0) -> None:
        """Write a line, noting the user's where it is another one."""
        text = source if isinstance(source, str) else syntax.text(source)
        note = f"  # line {line}" if line and line != self.line else ""
        self.line = line or self.line
        first, *rest = text.split("\n")
        self.lines.append("    " * self.depth + first + note)
        self.lines += ["    " * self.depth + r for r in rest]

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def dtype_text(ty: Any) -> str:
    """Return how a dtype is written."""
    ty = syntax.element(ty)
    return "np.bool_" if isinstance(ty, types.Boolean) else f"np.{ty.name}"


def zero(ty: Any) -> str:
    """Return zero of a type."""
    if isinstance(ty, types.Boolean):
        return "False"
    if ty in (types.intp, types.int64):
        return "0"
    return "0.0" if ty == types.float64 else f"{dtype_text(ty)}(0)"


def allocation(name: str, dims: Sequence[ast.expr], ty: Any, *, zeros: bool) -> str:
    """Return the statement that makes an array."""
    shape = ", ".join(syntax.text(d) for d in dims)
    shape = f"({shape},)" if len(dims) != 1 else shape
    return f"{name} = np.{'zeros' if zeros else 'empty'}({shape}{dtype_argument(ty)})"


def zeros_for(name: str, ty: Any) -> str:
    """Return the text of zeros for the cotangents of an array."""
    return f"np.zeros({name}.{'size' if ty.ndim == 1 else 'shape'}{dtype_argument(ty)})"


def dtype_argument(ty: Any) -> str:
    """Return the second argument of what makes an array: Numba compiles each form that it meets anew."""
    text = dtype_text(ty)
    return "" if text == "np.float64" else f", {text}"


def tuple_text(items: Sequence[str]) -> str:
    """Return the text of a tuple."""
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def for_text(s: For) -> str:
    """Return the head of a loop."""
    start, stop, step = (syntax.text(n) for n in (s.start, s.stop, s.step))
    ends = [start, stop, step] if step != "1" else [start, stop] if start != "0" else [stop]
    return f"for {s.var} in range({', '.join(ends)}):"


def simple(s: Stmt, out: Text, kinds: dict[str, Any]) -> None:
    """Write a statement that holds no others."""
    if isinstance(s, Assign):
        out.add(f"{s.name} = {assigned(s.value, kinds.get(s.name))}", s.line)
    elif isinstance(s, Opaque):
        out.add(f"{s.name} = {syntax.text(s.value)}", s.line)
    elif isinstance(s, Store):
        out.add(f"{syntax.text(syntax.load(s.array, s.index, s.value))} = {syntax.text(s.value)}", s.line)
    elif isinstance(s, Alloc):
        out.add(allocation(s.name, s.dims, kinds[s.name], zeros=s.zeros), s.line)
    elif isinstance(s, View):
        out.add(f"{s.name} = {syntax.text(s.form)}", s.line)
    elif isinstance(s, Raise):
        out.add(s.value, s.line)


def assigned(value: Any, ty: Any) -> str:
    """Return an expression as it is assigned to a variable: integers that stand for floats are floats."""
    whole = isinstance(value, ast.Constant) and isinstance(value.value, int)
    if whole and isinstance(ty, types.Float | types.Complex):
        return repr(float(value.value))
    return syntax.text(value)


def statements(
    body: Sequence[Stmt], out: Text, kinds: dict[str, Any], write: Callable[..., None] = simple
) -> None:
    """Write statements, by `write` those that hold no others."""
    if not body:
        out.add("pass")
    for s in body:
        if isinstance(s, If):
            out.add(f"if {syntax.text(s.test)}:", s.line)
            nested(s.body, out, kinds, write)
            if s.orelse:
                out.add("else:")
                nested(s.orelse, out, kinds, write)
        elif isinstance(s, For | While):
            out.add(for_text(s) if isinstance(s, For) else f"while {syntax.text(s.test)}:", s.line)
            nested(s.body, out, kinds, write)
            if s.until:
                out.depth += 1
                out.add(f"if {' or '.join(s.until)}:")
                out.add("    break")
                out.depth -= 1
        else:
            write(s, out, kinds)


def nested(body: Sequence[Stmt], out: Text, kinds: dict[str, Any], write: Callable[..., None]) -> None:
    """Write a block."""
    out.depth += 1
    statements(body, out, kinds, write)
    out.depth -= 1


def initial(function: Function, out: Text) -> None:
    """Write zeros for the variables that some way through the function may leave without a value."""
    for name in maybe_unset(function):
        out.add(f"{name} = {zero(function.types[name])}")


def maybe_unset(function: Function) -> list[str]:
    """Return scalars that branches or loops assign before the function itself does."""
    assigned = {p.name for p in function.params}
    found: set[str] = set()
    for s in function.body:
        names = {inner.name for inner in syntax.walk([s]) if isinstance(inner, Assign)}
        if isinstance(s, Assign):
            assigned |= names
        found |= names - assigned
    return sorted(n for n in found if n in function.types)


def written_function(function: Function, name: str = "") -> str:
    """Return the source of a function, which writes to the arrays that it is given."""
    out = Text()
    initial(function, out)
    statements(function.body, out, function.types)
    out.add(f"return {tuple_text(function.returns)}")
    head = f"def {name or function.name}({', '.join(p.name for p in function.params)}):\n"
    return head + str(out)
