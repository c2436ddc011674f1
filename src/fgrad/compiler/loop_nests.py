"""Loop nests under construction: what is computed in which loop, before it becomes text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.compiler.index import Index
from fgrad.core.program import Var

SYMBOLS = 1000  # the numbers of indices that are looked up start here


class Value(NamedTuple):
    """A scalar of a kernel: known inside the loops up to `depth`."""

    name: str
    depth: int
    dtype: np.dtype[Any]


class Place(NamedTuple):
    """An element of a buffer."""

    buffer: Any  # a variable, or the part of a reduction
    at: Index


class Bound(NamedTuple):
    """A number that is literal where it is small, else an argument of the kernel."""

    number: int


Part = str | Place | Bound | Index
Line = tuple[Part, ...]


class Loop:
    """A loop, with what stands before and after it; the outermost scope is a loop that runs once."""

    __slots__ = ("after", "before", "body", "memo", "number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number: int = number
        self.size: int = size
        self.before: list[Line | Loop] = []
        self.body: list[Line | Loop] = []
        self.after: list[Line] = []
        self.memo: dict[Any, Value] = {}


class Builder:
    """Writes lines into the innermost scope in which all that they need is known."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.base: Loop = Loop(-1, 1)
        self.chain: list[Loop] = [self.base]
        self.sizes: dict[int, int] = dict(
            enumerate(sizes)
        )  # of counters: those of loops, and of indices that are looked up
        self.symbols: dict[int, Value] = {}
        self.count: int = 0  # of scalars
        self.work: int = 0  # operations
        self.loads: dict[tuple[Var, Any], None] = {}
        self.constants: dict[str, str] = {}
        self.pinned: set[int] = set()  # loops whose counter is used other than to find a place

    def enter(self, number: int) -> Loop:
        """Open a loop inside the current one."""
        loop = Loop(number, self.sizes[number])
        self.chain.append(loop)
        return loop

    def leave(self) -> None:
        """Close the innermost loop."""
        loop = self.chain.pop()
        self.chain[-1].body.append(loop)

    def resize(self, sizes: Sequence[int]) -> None:
        """Let the loops have other lengths."""
        self.sizes.update(enumerate(sizes))

    def symbol(self, value: Value, size: int) -> Index:
        """Return the index that is a scalar, which lies in an axis of length `size`."""
        number = next((k for k, v in self.symbols.items() if v == value), SYMBOLS + len(self.symbols))
        self.symbols[number] = value
        self.sizes[number] = min(size, self.sizes.get(number, size))  # it may be looked up in several axes
        return Index(0, ((number, 1),))

    def depth(self, terms: Sequence[tuple[int, int]]) -> int:
        """Return the number of scopes in which all these counters are known."""
        if not terms:
            return 0
        numbers = [loop.number for loop in self.chain]
        return max([self.symbols[k].depth if k in self.symbols else numbers.index(k) for k, _ in terms])

    def merge(self, outer: int, inner: int, size: int, places: Iterable[Place]) -> bool:
        """Return whether two loops may be one: what they reach lies in one line; `size`: of the inner one."""
        if {outer, inner} & self.pinned:
            return False
        terms = (dict(p.at.terms) for p in places)
        return all(c.get(outer, 0) == c.get(inner, 0) * size for c in terms)

    def constant(self, text: str) -> str:
        """Return the name of a constant of the module."""
        return self.constants.setdefault(text, f"C{len(self.constants)}")

    def known(self, key: Any) -> Value | None:
        """Return the scalar that is `key` already."""
        for scope in reversed(self.chain):
            found = scope.memo.get(key)
            if found is not None:
                return found
        return None

    def name(self) -> str:
        """Return a new name."""
        self.count += 1
        return f"t{self.count - 1}"

    def define(self, key: Any, parts: Line, depth: int, dtype: np.dtype[Any]) -> Value:
        """Return a new scalar that is `parts`, and remember it as `key`."""
        value = Value(self.name(), depth, dtype)
        scope = self.chain[depth]
        scope.body.append((f"{value.name} = ", *parts))
        scope.memo[key] = value
        return value

    def store(self, place: Place, value: Value) -> None:
        """Write a scalar to memory, in the innermost scope; truth values are bytes there."""
        shown = f"uint8({value.name})" if value.dtype.kind == "b" else value.name
        self.chain[-1].body.append((place, " = ", shown))

    def operation(self, code: str, operands: Sequence[Value], dtype: np.dtype[Any], cost: int = 1) -> Value:
        """Return the scalar `code`, in which {} stand for the operands."""
        text = code.format(*[v.name for v in operands])
        found = self.known(text)
        if found is None:
            self.work += cost
            depth = max([v.depth for v in operands], default=0)
            found = self.define(text, (text,), depth, dtype)
        return found


def without(line: Line, number: int) -> Line:
    """Return a line whose places do not depend on the counter of a loop any more."""
    return tuple(
        Place(p.buffer, Index(p.at.const, tuple(t for t in p.at.terms if t[0] != number)))
        if isinstance(p, Place)
        else p
        for p in line
    )


def module(kernel: str, constants: Mapping[str, str], names: Sequence[str], libraries: Sequence[str]) -> str:
    """Return the text of a module: dtypes, names and constants, then helper functions, then the kernel."""
    defined = [f"{name} = {text}" for text, name in constants.items()]
    used = re.findall(r"(?<![\w.])(u?int(?:8|16|32|64)|float32|float64)\b", "\n".join([kernel, *defined]))
    head = "\n".join([*(f"{name} = np.{name}" for name in sorted(set(used))), *names, *defined])
    return "\n\n\n".join([*(part for part in (head, *libraries) if part), kernel])
