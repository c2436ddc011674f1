"""Jumps as conditions: `break`, `continue` and early `return` leave flags behind, and guards around the rest.

What follows a branch that always jumps goes into the other branch. A loop that may be left carries the names
of the flags that end it in `until`.
"""

from __future__ import annotations

import ast
from itertools import count
from typing import Any

from fgrad.adjoints.names import nodes_of, reads_of

RESULT, RETURNED = ".result", ".returned"  # with a dot, which no name of a user's has


def without_jumps(function: ast.FunctionDef) -> list[ast.stmt]:
    """Return the body of a function without jumps; what it returns is assigned to `RESULT`."""
    return _Writer().function(function)


class _Writer:
    def __init__(self) -> None:
        self.numbers = count(1)

    def function(self, function: ast.FunctionDef) -> list[ast.stmt]:
        body, jumps, _ = self.block(function.body, "", "")
        if "return" in jumps and _needs(body, RETURNED):
            body = [_set(RETURNED, False, function), *body]
        return _pruned(body)

    def block(self, stmts: list[ast.stmt], left: str, skipped: str) -> tuple[list[ast.stmt], set[str], bool]:
        """Return statements, the flags they may raise, and whether they always jump."""
        done: list[ast.stmt] = []
        flags: set[str] = set()
        for i, s in enumerate(stmts):
            rest = stmts[i + 1 :]
            if isinstance(s, ast.Break | ast.Continue):
                flag = left if isinstance(s, ast.Break) else skipped
                return [*done, _set(flag, True, s)], flags | {flag}, True
            if isinstance(s, ast.Return):
                given = s.value or ast.copy_location(ast.Constant(None), s)
                name = ast.copy_location(ast.Name(RESULT, ast.Store()), s)
                kept = ast.copy_location(ast.Assign([name], given), s)
                return [*done, kept, _set(RETURNED, True, s)], flags | {"return"}, True
            if isinstance(s, ast.If):
                body, a, a_ends = self.block(s.body, left, skipped)
                orelse, b, b_ends = self.block(s.orelse, left, skipped)
                made: Any = ast.copy_location(ast.If(s.test, body, orelse), s)
                done.append(made)
                flags |= a | b
                if a_ends and b_ends:
                    return done, flags, True
                if not (a | b) or not rest:
                    continue
                after, c, ends = self.block(rest, left, skipped)
                if a_ends:
                    made.orelse = orelse + (_guarded(after, b, s) if b else after)
                elif b_ends:
                    made.body = body + (_guarded(after, a, s) if a else after)
                else:
                    done += _guarded(after, a | b, s)
                return (
                    done,
                    flags | c,
                    ends and not (a_ends and b) and not (b_ends and a) and (a_ends or b_ends),
                )
            if isinstance(s, ast.For | ast.While):
                loop, raised, otherwise = self.loop(s)
                done += loop
                rest = [*otherwise, *rest]
                if raised and rest:
                    after, c, ends = self.block(rest, left, skipped)
                    return done + _guarded(after, raised, s), flags | raised | c, False
                flags |= raised
                if otherwise:
                    after, c, ends = self.block(rest, left, skipped)
                    return done + after, flags | c, ends
                continue
            done.append(s)
        return done, flags, False

    def loop(self, s: Any) -> tuple[list[ast.stmt], set[str], list[ast.stmt]]:
        """Return a loop, the flags it may raise, and what runs behind it unless it was left."""
        number = next(self.numbers)
        left, skipped = f".left_{number}", f".skipped_{number}"
        body, flags, _ = self.block(s.body, left, skipped)
        if skipped in flags and _needs(body, skipped):
            body = [_set(skipped, False, s), *body]
        before: list[ast.stmt] = []
        until = []
        if left in flags:
            before.append(_set(left, False, s))
            until.append(left)
        if "return" in flags:
            until.append(RETURNED)
        made: Any = (
            ast.For(s.target, s.iter, body, []) if isinstance(s, ast.For) else ast.While(s.test, body, [])
        )
        made.until = tuple(until)
        otherwise = _guarded(s.orelse, {left}, s) if left in flags else s.orelse
        return [*before, ast.copy_location(made, s)], flags & {"return"}, otherwise


def _set(flag: str, value: bool, where: ast.stmt) -> ast.stmt:
    made = ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(value))
    return ast.fix_missing_locations(ast.copy_location(made, where))


def _guarded(stmts: list[ast.stmt], flags: set[str], where: ast.stmt) -> list[ast.stmt]:
    if not stmts:
        return []
    names: list[ast.expr] = [ast.Name(RETURNED if f == "return" else f, ast.Load()) for f in sorted(flags)]
    raised = names[0] if len(names) == 1 else ast.BoolOp(ast.Or(), names)
    made = ast.If(ast.UnaryOp(ast.Not(), raised), stmts, [])
    return [ast.fix_missing_locations(ast.copy_location(made, where))]


def _needs(stmts: list[ast.stmt], flag: str) -> bool:
    """Return whether somebody reads a flag."""
    for s in stmts:
        for node in nodes_of(s):
            if isinstance(node, ast.Name) and node.id == flag and isinstance(node.ctx, ast.Load):
                return True
            if flag in getattr(node, "until", ()):
                return True
    return False


def _pruned(stmts: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements without assignments to flags that nobody reads."""
    read = {n.id for s in stmts for n in reads_of(s)}
    read |= {flag for s in stmts for n in nodes_of(s) for flag in getattr(n, "until", ())}

    def kept(block: list[ast.stmt]) -> list[ast.stmt]:
        found = []
        for s in block:
            if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
                flag = s.targets[0].id
                if flag not in read and flag.startswith(".") and flag != RESULT:
                    continue
            for part in ("body", "orelse"):
                if getattr(s, part, None):
                    setattr(s, part, kept(getattr(s, part)))
            found.append(s)
        return found

    return kept(stmts)
