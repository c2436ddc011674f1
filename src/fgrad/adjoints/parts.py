"""Loops that are equal but for names are compiled once, as a function that is called in the place of each.

A kernel that calls another one four times holds its loops four times, and what runs again from snapshots is
there twice. Numba takes milliseconds for every statement.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fgrad.adjoints.compact import kind_of
from fgrad.adjoints.stacks import TOPS

INLINE, CALLED = "inline_part", "part"  # decorators
LEAST, MOST = 8, 64  # statements in a loop: with which a call pays, and up to which it is put in its place


def in_parts(function: ast.FunctionDef, kinds: Mapping[str, Any]) -> list[ast.FunctionDef]:
    """Return the functions that a function calls in the place of equal loops, and then the function.

    Args:
        function: which is changed. A name means the same wherever it stands.
        kinds: the types of arrays by name.
    """
    functions = [function]
    refused: set[str] = set()
    while True:
        groups: dict[str, list[_Loop]] = {}
        for names in map(_Names, functions):
            for node in names.loops():
                found = _Loop(node, names)
                groups.setdefault(found.key, []).append(found)
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
        for f in functions[1:]:
            _Calls(calls).visit(f)


class _Names:
    """Where names of a function are assigned and read."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.function = function
        self.nodes = list(_in_order(function))
        self.order = {id(n): k for k, n in enumerate(self.nodes)}
        self.params = {a.arg for a in function.args.args}
        self.named = [n for n in self.nodes if isinstance(n, ast.Name)]
        self.own = self.params | {n.id for n in self.named if isinstance(n.ctx, ast.Store)}

    def loops(self) -> list[ast.For]:
        """Return the loops that are long enough."""
        return [n for n in self.nodes if isinstance(n, ast.For) and _size(n) >= LEAST]


def _fresh(functions: Sequence[ast.FunctionDef]) -> str:
    """Return a name that no function has, and nothing in one."""
    nodes = [n for f in functions for n in ast.walk(f)]
    used = {getattr(n, field, "") for n in nodes for field in ("id", "arg", "name")}
    return next(n for k in itertools.count(1) if (n := f"{CALLED}{k}") not in used)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all its parts as they come in the text."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)


def _size(node: ast.AST) -> int:
    """Return the number of statements in one."""
    blocks = [getattr(node, f, ()) for f in ("body", "orelse")]
    return 1 + sum(_size(s) for b in blocks for s in b)


class _Loop:
    """A loop of a function, with its names in the order in which they come."""

    def __init__(self, node: ast.For, around: _Names) -> None:
        self.node, self.around, self.size = node, around, _size(node)
        places: dict[str, int] = {}
        words: list[str] = []
        self.write(node, places, words)
        self.key, self.names = " ".join(words), list(places)

    def write(self, node: ast.AST, places: dict[str, int], words: list[str]) -> None:
        """Write a node with numbers in the place of the function's names."""
        if isinstance(node, ast.Name):
            own = node.id in self.around.own
            words.append(str(places.setdefault(node.id, len(places))) if own else node.id)
        elif isinstance(node, ast.Constant):
            words.append(repr(node.value))
        elif not isinstance(node, ast.expr_context):
            words.append(f"{type(node).__name__}({getattr(node, 'attr', '')}{getattr(node, 'arg', '')}")
            for child in ast.iter_child_nodes(node):
                self.write(child, places, words)
            orelse = getattr(node, "orelse", None)
            words.append(f"{len(orelse) if isinstance(orelse, list) else ''})")


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
        mine = [n for n in ast.walk(loop.node) if isinstance(n, ast.Name)]
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
        body: list[ast.stmt] = [copy.deepcopy(first.node)]
        if self.outputs:
            body.append(ast.Return(self.results(first, ast.Load())))
        decorator = INLINE if first.size <= MOST else CALLED
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
