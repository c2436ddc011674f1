"""Contracts: what each kernel requires of its arguments, so that every load and store is in bounds.

A kernel's text says so beside the code, as one expression of Python in the names of its parameters:

    CONTRACT = "x[n, width], weight[width], out[n, width], hi <= n"

`x[n, width]` is the shape of an array: a name that means nothing yet gets the size, everything else has to be
equal to it. What remains are conditions; `hi` is how many steps the loop has. Parameters of kernels that
programs call are numbers of slots, and other numbers; `args(x, out, count)` gives them names, `len(x)` and
`nbytes(x)` are how much there is in a slot. Kernels of a device get flat buffers, of `len(x)` elements.

Whoever calls a kernel holds the arguments to its contract before the loop, once for each shape: a mistake
above it, or in a program that somebody else wrote, is then an error and no access to foreign memory.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fgrad import config
from fgrad.core.caches import LRU
from fgrad.errors import BrokenContractError


class Contract:
    """What the kernel of a text asks.

    Attributes:
        names: the parameters that it speaks of, in order; the last may stand for all that follow.
    """

    __slots__ = ("_clauses", "_good", "_title", "names")

    def __init__(self, said: str, names: Sequence[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        self._clauses: list[tuple[str, str, list[tuple[str, Any]]]] = []
        self._good: LRU[Any, bool] = LRU()
        self._title = f"kernel({', '.join(names)})"
        for clause in _clauses(said):
            text = ast.unparse(clause)
            if isinstance(clause, ast.Call) and ast.unparse(clause.func) == "args":
                self.names = tuple(ast.unparse(a) for a in clause.args)
                self._title = f"kernel({', '.join(self.names)})"
            elif isinstance(clause, ast.Subscript):
                sizes = clause.slice.elts if isinstance(clause.slice, ast.Tuple) else [clause.slice]
                array = ast.unparse(clause.value)
                self._clauses.append((text, array, [(ast.unparse(n), _compiled(n)) for n in sizes]))
            else:
                self._clauses.append((text, "", [("", _compiled(clause))]))

    def ask(self, key: Any, args: Sequence[Any], steps: int) -> None:
        """Raise unless a call may be made; what was good once is good again.

        Args:
            key: the shapes and numbers, which all depends on.
            args: arrays and numbers, without the bounds of a loop.
            steps: where the loop ends.

        Raises:
            BrokenContractError: the kernel would read or write outside of the arguments.
        """
        if self._good.young.get(key) or self._good.get(key):
            return
        self.hold(args, steps, lambda x: int(x.size))  # of whatever shape, on whatever device
        self._good[key] = True

    def launched(self, numbers: Sequence[int], turns: int, sizes: Mapping[int, tuple[int, int]]) -> None:
        """Raise unless a program may call the kernel with some numbers.

        Args:
            numbers: of the call.
            turns: how many steps its loop has.
            sizes: of each slot how many elements and how many bytes there are.

        Raises:
            BrokenContractError: the kernel would read or write outside of what is in its slots.
        """

        def count(x: Any) -> int:
            return sizes[x][0] if isinstance(x, int) else len(x)

        self.hold(numbers, turns, count, nbytes=lambda k: sizes[k][1])

    def hold(self, args: Sequence[Any], steps: int, count: Callable[[Any], int], **names: Any) -> None:
        """Raise unless the clauses hold.

        Raises:
            BrokenContractError: one of them does not.
        """
        known: dict[str, Any] = {**names, "len": count, "hi": steps}
        for k, name in enumerate(self.names):
            known[name.lstrip("*")] = args[k:] if name[0] == "*" else args[k]
        for text, array, wanted in self._clauses:
            shape = known[array].shape if array else (True,)
            if not _has_shape(shape, wanted, known):
                raise BrokenContractError(self._said_of(text, known))

    def _said_of(self, text: str, known: Mapping[str, Any]) -> str:
        words = [n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)]
        found = {w: known[w] for w in words if w in known and not callable(known[w])}
        shown = ", ".join(
            f"{w} has shape {x.shape}" if hasattr(x, "shape") and x.shape else f"{w} = {x}"
            for w, x in found.items()
        )
        return (
            f"{self._title} would read or write outside of its arguments: it asks for {text}, but {shown}. "
            "The operands and parameters of the operation do not match"
        )


def _has_shape(shape: Sequence[int], wanted: Sequence[tuple[str, Any]], known: dict[str, Any]) -> bool:
    """Return whether sizes, or what is true, are what is wanted; names without a meaning get one."""
    if len(shape) != len(wanted):
        return False
    for n, (text, code) in zip(shape, wanted, strict=True):
        if text not in known and text.isidentifier():
            known[text] = n
        elif eval(code, known) != n:  # noqa: S307 -- the text is fgrad's own
            return False
    return True


@lru_cache(config.cache_entries())
def of(text: str) -> Contract | None:
    """Return the contract of the kernel in a text, if it has one."""
    if "CONTRACT" not in text:
        return None
    body = ast.parse(text).body
    said = next(
        (
            ast.literal_eval(s.value)
            for s in body
            if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "CONTRACT"
        ),
        None,
    )
    kernel = next(f for f in body if isinstance(f, ast.FunctionDef) and f.name == "kernel")
    names = [a.arg for a in kernel.args.args]
    return Contract(said, names[:-2] if names[-2:] == ["lo", "hi"] else names) if said else None


def _clauses(said: str) -> Iterator[ast.expr]:
    whole = ast.parse(f"({said},)", mode="eval").body
    assert isinstance(whole, ast.Tuple)  # noqa: S101 -- it ends in a comma
    yield from whole.elts


def _compiled(node: ast.expr) -> Any:
    return compile(ast.Expression(node), "<contract>", "eval")
