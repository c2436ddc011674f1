"""Arrays in which a loop keeps nothing: each turn stores to all their elements before it reads any."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from fgrad.adjoints import syntax
from fgrad.adjoints.names import nodes_of
from fgrad.adjoints.syntax import Alloc, Assign, For, Opaque, Stmt, Store, While

if TYPE_CHECKING:
    from fgrad.adjoints.recording import Recording

LONGEST = 16  # axes whose elements are counted one by one
Place = tuple[Any, ...]  # by axis: the number of an element, or None for all of them


def is_scratch(name: str, loop: For | While, recording: Recording) -> bool:
    """Return whether an array is made before a loop, used in it alone, and new in each of its turns."""
    function, inside = recording.function, set(syntax.walk(loop.body))
    if name in function.returns or any(
        root == name and n != name for n, root in recording.reversal.roots.items()
    ):
        return False
    made = [s for s in syntax.walk(function.body) if isinstance(s, Alloc | Opaque) and s.name == name]
    if len(made) != 1 or not isinstance(made[0], Alloc) or made[0] in inside:
        return False
    outside = [s for s in syntax.walk(function.body) if s not in inside and s is not made[0]]
    if any(_meets(s, name, recording) for s in outside):
        return False
    dims = [_length(d, recording.bounds.several) for d in made[0].dims]
    return all(dims) and _is_filled(name, loop.body, dims, recording)


def _length(dim: ast.expr, several: Collection[str]) -> str:
    """Return a length as text; "" where it may be another one later."""
    changes = any(isinstance(n, ast.Name) and n.id in several for n in nodes_of(dim))
    return "" if changes else syntax.text(dim)


def _meets(s: Stmt, name: str, recording: Recording) -> bool:
    """Return whether a statement reads an array, here or in reverse, or stores to it."""
    return (isinstance(s, Store) and s.array == name) or _reads(s, name, recording)


def _reads(s: Stmt, name: str, recording: Recording) -> bool:
    return name in recording.read_by(s) or name in recording.uses(s)


def _is_filled(name: str, body: Sequence[Stmt], dims: Sequence[str], recording: Recording) -> bool:
    """Return whether a block stores to all elements of an array before it reads any."""
    places: list[Place] = []
    for s in body:
        if any(_reads(t, name, recording) for t in syntax.walk([s])):
            return False
        places += _places(s, name, dims, {})
        if _covers(places, dims):
            return True
    return False


def _places(s: Stmt, name: str, dims: Sequence[str], loops: dict[str, str]) -> list[Place]:
    """Return the elements that a statement stores to whatever happens, in loops over whole axes by length."""
    if isinstance(s, For) and not s.until and not s.count:
        start, stop, step = map(syntax.text, (s.start, s.stop, s.step))
        changes = any(isinstance(t, Assign) and t.name == s.var for t in syntax.walk(s.body))
        around = {**loops, s.var: stop if (start, step) == ("0", "1") and not changes else ""}
        return [p for t in s.body for p in _places(t, name, dims, around)]
    if not isinstance(s, Store) or s.array != name:
        return []
    place: list[Any] = []
    for i, d in zip(s.index, dims, strict=True):
        if isinstance(i, ast.Constant):
            place.append(i.value)
        elif isinstance(i, ast.Name) and loops.get(i.id) == d:
            place.append(None)
        else:
            return []
    variables = [i.id for i in s.index if isinstance(i, ast.Name)]
    used = [stop for n, stop in loops.items() if n not in variables]
    is_plain = len(set(variables)) == len(variables) and all(n.isdigit() and n != "0" for n in used)
    return [tuple(place)] if is_plain else []


def _covers(places: Sequence[Place], dims: Sequence[str], axis: int = 0) -> bool:
    if axis == len(dims) or not places:
        return bool(places)
    if _covers([p for p in places if p[axis] is None], dims, axis + 1):
        return True
    length = int(dims[axis]) if dims[axis].isdigit() else LONGEST + 1
    return length <= LONGEST and all(
        _covers([p for p in places if p[axis] in (None, k)], dims, axis + 1) for k in range(length)
    )
