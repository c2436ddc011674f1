"""Loops that are equal but for names are compiled once, as a function that is called in the place of each.

A kernel that calls another one four times holds its loops four times, and what runs again from snapshots is
there twice. Numba takes milliseconds for every statement.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from fgrad.adjoints.compact import kind_of
from fgrad.adjoints.names import nodes_of
from fgrad.adjoints.stacks import TOPS
from fgrad.locks import lazy

INLINE, CALLED = "inline_part", "part"  # decorators
LEAST, MOST = 8, 64  # statements in a loop: with which a call pays, and up to which it is put in its place


def in_parts(function: ast.FunctionDef, kinds: Mapping[str, Any]) -> list[ast.FunctionDef]:
    """Return the functions that a function calls in the place of equal loops, and then the function.

    Args:
        function: which is changed. A name means the same wherever it stands.
        kinds: the types of arrays by name.
    """
    functions = [function]
    known: dict[int, _Names] = {}
    refused: set[str] = set()
    while True:
        for f in functions:
            if id(f) not in known:
                known[id(f)] = _Names(f)
        sizes: dict[tuple[int, int], list[_Loop]] = {}
        for f in functions:
            for loop in known[id(f)].loops:
                sizes.setdefault(loop.size, []).append(loop)
        groups: dict[str, list[_Loop]] = {}
        for loop in (loop for loops in sizes.values() if len(loops) > 1 for loop in loops):
            groups.setdefault(loop.key, []).append(loop)
        equal = [g for key, g in groups.items() if len(g) > 1 and key not in refused]
        if not equal:
            return functions
        largest = max(equal, key=lambda g: g[0].size)
        part = _Part(largest, kinds)
        if not part.fits:
            refused.add(largest[0].key)
            continue
        name = _fresh(functions)
        calls = {id(x.node): part.call(x, name) for x in largest}
        functions.insert(0, part.function(name))
        for f in {id(x.around.function): x.around.function for x in largest}.values():
            _Calls(calls).visit(f)
            del known[id(f)]


class _Names:
    """Where names of a function are assigned and read."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.function = function
        self.nodes: list[ast.AST] = []  # as they come in the text
        self.order: dict[int, int] = {}
        self.ends: dict[int, int] = {}  # behind all that is part of one
        self._list(function)
        self.params = {a.arg for a in function.args.args}
        self.named = [n for n in self.nodes if isinstance(n, ast.Name)]
        self.own = self.params | {n.id for n in self.named if isinstance(n.ctx, ast.Store)}
        found = [_Loop(n, self) for n in self.nodes if isinstance(n, ast.For)]
        self.loops = [loop for loop in found if loop.size[0] >= LEAST]  # those that are long enough

    def _list(self, node: ast.AST) -> None:
        self.order[id(node)] = len(self.nodes)
        self.nodes.append(node)
        for child in ast.iter_child_nodes(node):
            self._list(child)
        self.ends[id(node)] = len(self.nodes)


def _fresh(functions: Sequence[ast.FunctionDef]) -> str:
    """Return a name that no function has, and nothing in one."""
    nodes = [n for f in functions for n in nodes_of(f)]
    used = {getattr(n, field, "") for n in nodes for field in ("id", "arg", "name")}
    return next(n for k in itertools.count(1) if (n := f"{CALLED}{k}") not in used)


class _Loop:
    """A loop of a function: how many statements and nodes it has, which are its names."""

    def __init__(self, node: ast.For, around: _Names) -> None:
        self.node, self.around = node, around
        self.nodes = around.nodes[around.order[id(node)] : around.ends[id(node)]]
        self.size = sum(isinstance(n, ast.stmt) for n in self.nodes), len(self.nodes)

    @lazy
    def key(self) -> str:
        """Its text, with numbers in the place of the function's names."""
        places = {n: str(k) for k, n in enumerate(self.names)}
        return " ".join([_word(n, places) for n in self.nodes if not isinstance(n, ast.expr_context)])

    @lazy
    def names(self) -> list[str]:
        """The function's names, in the order in which they come."""
        own = self.around.own
        return list(dict.fromkeys([n.id for n in self.nodes if isinstance(n, ast.Name) and n.id in own]))


def _word(node: ast.AST, places: Mapping[str, str]) -> str:
    """Return what tells a node, with the numbers of its parts, from others."""
    if isinstance(node, ast.Name):
        return places.get(node.id, node.id)
    if isinstance(node, ast.Constant):
        return repr(node.value)
    parts = [len(x) if isinstance(x, list) else x is not None for _, x in ast.iter_fields(node)]
    return f"{type(node).__name__}({getattr(node, 'attr', '')}{getattr(node, 'arg', '')}{parts})"


class _Part:
    """What equal loops take from outside, and give."""

    def __init__(self, loops: Sequence[_Loop], kinds: Mapping[str, Any]) -> None:
        self.loops = loops
        self.inputs: set[int] = set()  # places of names
        self.outputs: set[int] = set()
        self.fits = True
        for loop in loops:
            self.fits &= self.look(loop, kinds)

    def look(self, loop: _Loop, kinds: Mapping[str, Any]) -> bool:
        """Note what one of the loops takes and gives; return whether a function can."""
        around = loop.around
        start = around.order[id(loop.node)]
        mine = [n for n in loop.nodes if isinstance(n, ast.Name)]
        here = {id(n) for n in mine}
        others = [n for n in around.named if id(n) not in here]
        stored = {n.id for n in mine if isinstance(n.ctx, ast.Store)}
        elsewhere = {n.id for n in others if isinstance(n.ctx, ast.Store)} | around.params
        before = {n.id for n in others if isinstance(n.ctx, ast.Store) and around.order[id(n)] < start}
        read_outside = {n.id for n in others if isinstance(n.ctx, ast.Load)}
        inputs = {n.id for n in mine} & elsewhere  # what no turn assigns keeps its value
        outputs = stored & (inputs | read_outside)
        self.inputs |= {k for k, n in enumerate(loop.names) if n in inputs}
        self.outputs |= {k for k, n in enumerate(loop.names) if n in outputs}
        arrays = any(n in TOPS or kind_of(n, kinds) is not None for n in outputs)
        return not arrays and inputs & stored <= before | around.params

    def function(self, name: str) -> ast.FunctionDef:
        """Return the function."""
        first = self.loops[0]
        args = [ast.arg(first.names[k]) for k in sorted(self.inputs)]
        body: list[ast.stmt] = [first.node]  # which calls replace
        if self.outputs:
            body.append(ast.Return(self.results(first, ast.Load())))
        decorator = INLINE if first.size[0] <= MOST else CALLED
        arguments = ast.arguments([], args, None, [], [], None, [])
        return ast.FunctionDef(name, arguments, body, [ast.Name(decorator, ast.Load())])

    def call(self, loop: _Loop, name: str) -> ast.stmt:
        """Return the statement that calls it in the place of a loop."""
        args: list[ast.expr] = [ast.Name(loop.names[k], ast.Load()) for k in sorted(self.inputs)]
        value = ast.Call(ast.Name(name, ast.Load()), args, [])
        return ast.Assign([self.results(loop, ast.Store())], value) if self.outputs else ast.Expr(value)

    def results(self, loop: _Loop, ctx: ast.expr_context) -> ast.expr:
        """Return the outputs, by the names of a loop."""
        found: list[ast.expr] = [ast.Name(loop.names[k], ctx) for k in sorted(self.outputs)]
        return found[0] if len(found) == 1 else ast.Tuple(found, ctx)


class _Calls(ast.NodeTransformer):
    def __init__(self, calls: Mapping[int, ast.stmt]) -> None:
        self.calls = calls

    def visit_For(self, node: ast.For) -> ast.AST:
        return self.calls.get(id(node)) or self.generic_visit(node)
