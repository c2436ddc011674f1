"""The tangent of a kernel is a kernel: before each statement stands the one that its tangent follows.

With arguments (x, dx) it gives (f(x), J dx). Tangents of arrays are arrays beside them, with the same views.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import replace
from typing import Any

from numba import types

from fgrad.adjoints import slopes, syntax
from fgrad.adjoints.activity import active_names
from fgrad.adjoints.syntax import (
    Alloc,
    Assign,
    For,
    Function,
    If,
    Param,
    Stmt,
    Store,
    UnsupportedKernelError,
    View,
    While,
)


def unknown(function: Function, line: int, node: ast.AST) -> UnsupportedKernelError:
    """Return the error for a function that the table of slopes does not have."""
    return syntax.unsupported(
        function.file,
        line,
        function.name,
        f"the derivative of `{syntax.text(node)}` is not known. Write it with functions of NumPy or math "
        "that have one, or give the whole a rule by fgrad.custom_vjp",
    )


class Tangents:
    """Tangents of expressions."""

    def __init__(self, function: Function, active: set[str], names: dict[str, str]) -> None:
        self.function, self.active, self.names = function, active, names
        self.line = 0

    def of(self, node: Any) -> Any:
        """Return the tangent of an expression; None where it is zero."""
        ty = getattr(node, "ty", None)
        if isinstance(node, ast.Compare | ast.BoolOp | ast.Constant):
            return None
        if ty is not None and not syntax.is_floating(ty):
            return None
        if isinstance(node, syntax.Given):
            return self.of(node.source)
        if isinstance(node, ast.Name):
            return ast.Name(self.names[node.id], ast.Load()) if node.id in self.active else None
        found = syntax.element_of(node)
        if found:
            if found[0] not in self.active:
                return None
            return syntax.load(self.names[found[0]], found[1], node.ty)
        if isinstance(node, ast.IfExp):
            x, y = self.of(node.body), self.of(node.orelse)
            if x is None and y is None:
                return None
            zero = ast.Constant(0.0)
            return ast.IfExp(node.test, x or zero, y or zero)
        applied = slopes.rule_of(node)
        if applied is None:
            return None
        name, args = applied
        inner = [self.of(a) for a in args]
        if all(t is None for t in inner):
            return None
        if not name:
            raise unknown(self.function, self.line, node)
        if name in {"real", "imag", "conj", "cast"}:
            return ast.Call(node.func, [inner[0]], [])
        total = None
        for k, t in enumerate(inner):
            slope = slopes.derivative(name, node, args, k) if t is not None else None
            if slope is None:
                continue
            term = t
            if slope[0] is not None:
                if slopes.is_minus_one(slope[0]):
                    term = ast.UnaryOp(ast.USub(), t)
                elif slope[1]:
                    term = ast.Call(ast.Name("scale", ast.Load()), [t, slope[0]], [])
                else:
                    term = slopes.product(slope[0], t)
            if total is not None and isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.USub):
                total = ast.BinOp(total, ast.Sub(), term.operand)
            else:
                total = term if total is None else ast.BinOp(total, ast.Add(), term)
        return total


def tangent(function: Function) -> Function:
    """Return the kernel (x, dx) -> (f(x), J dx).

    Its parameters are those of `function` and then a tangent of each that is floating; its outputs are those
    of `function`, returned ones with their tangents behind, written ones as parameters.
    """
    wrt = [p.name for p in function.params if p.floating]
    floats = [n for n in function.outputs if syntax.is_floating(function.types[n])]
    active = active_names(function, wrt, floats)
    kinds = dict(function.types)
    used = {*kinds, *function.constants, *slopes.RESERVED}
    names: dict[str, str] = {}
    for n, ty in function.types.items():
        if not syntax.is_floating(ty):
            continue
        made = f"{n}_t"
        while made in used:
            made += "_"
        used.add(made)
        names[n] = made
        kinds[made] = ty.copy(layout="C", readonly=False) if n in wrt and syntax.is_array(ty) else ty
    work = _Writer(function, active, names, kinds)
    body = work.block(function.body)
    params = [Param(p.name, p.type, p.written) for p in function.params]
    for n in wrt:
        before = next(p for p in function.params if p.name == n)
        params.append(Param(names[n], kinds[names[n]], before.written))
    returns = list(function.returns)
    returns += [work.result(n, body) for n in function.returns if syntax.is_floating(function.types[n])]
    return Function(
        f"{function.name}_t", params, body, returns, kinds, dict(function.constants), function.options,
        function.file, snapshots=function.snapshots, refuses=function.refuses,
    )  # fmt: skip


class _Writer:
    def __init__(
        self, function: Function, active: set[str], names: dict[str, str], kinds: dict[str, Any]
    ) -> None:
        self.function, self.active, self.names, self.kinds = function, active, names, kinds
        self.tangents = Tangents(function, active, names)

    def result(self, name: str, body: list[Stmt]) -> str:
        """Return the name of the tangent of a returned value."""
        if name in self.active:
            return self.names[name]
        ty = self.function.types[name]
        made = self.names[name]
        if name in {p.name for p in self.function.params}:
            return made
        if syntax.is_array(ty):
            dims = tuple([syntax.dimension(name, k) for k in range(ty.ndim)])
            body.append(Alloc(made, dims, zeros=True, line=0))
        else:
            body.append(Assign(made, syntax.constant(0.0, ty), 0))
        return made

    def typed(self, node: Any) -> Any:
        return slopes.annotated(node, self.kinds, self.function.constants)

    def tangent_of(self, node: Any, line: int) -> Any:
        self.tangents.line = line
        found = self.tangents.of(copy.deepcopy(node))
        return syntax.constant(0.0, types.float64) if found is None else self.typed(found)

    def block(self, body: list[Stmt]) -> list[Stmt]:
        found: list[Stmt] = []
        for s in body:
            if isinstance(s, If):
                found.append(replace(s, body=self.block(s.body), orelse=self.block(s.orelse)))
                continue
            if isinstance(s, For | While):
                found.append(replace(s, body=self.block(s.body)))
                continue
            if isinstance(s, Assign) and s.name in self.active:
                value = self.tangent_of(s.value, s.line)
                found.append(Assign(self.names[s.name], value, s.line))
            elif isinstance(s, Store) and s.array in self.active:
                value = self.tangent_of(s.value, s.line)
                found.append(Store(self.names[s.array], s.index, value, s.line))
            found.append(s)
            if isinstance(s, Alloc) and s.name in self.active:
                found.append(Alloc(self.names[s.name], s.dims, zeros=True, line=s.line))
            elif isinstance(s, View) and s.name in self.active:
                source = self.names[s.source]
                form = syntax.filled(s.form, {s.source: syntax.name(source)})
                found.append(View(self.names[s.name], source, form, s.line))
        return found
