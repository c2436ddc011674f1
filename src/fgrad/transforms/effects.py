"""Side effects of functions that run more than once, which must be pure.

`State` looks at what a Python function can reach by name: variables of enclosing functions, globals, default
values, the object of a method, and what these hold one level down. It sees names that are bound anew, growing
lists and dictionaries, arrays written to, and random generators that move on; and what the function reads and
changes itself, as far away as compiled functions follow it. It cannot see files, sockets and screens, what C
code keeps to itself, and what is only written to and lies further away.
"""

from __future__ import annotations

import functools
import pickle
import random
import types
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor
from fgrad.transforms.calling import Transformed
from fgrad.transforms.captures import Captures, state_of

LARGE = 1 << 20  # bytes of an array that is not looked at
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class State:
    """What a function may change, as it is now."""

    def __init__(self, fun: Callable[..., Any], args: Iterable[Any] = ()) -> None:
        self._found = dict(_reached(fun))
        self._found.update((f"argument {i}", x) for i, x in enumerate(args))
        self._marks = {name: _mark(x) for name, x in self._found.items()}
        self._reads = Captures(fun)
        self._random = _global_generators()

    def changed(self, fun: Callable[..., Any]) -> str | None:
        """Return the name of something that is not as it was, if anything."""
        if _global_generators() != self._random:
            return "the state of the global random generator"
        now = dict(_reached(fun))
        for name, mark in self._marks.items():
            if _mark(now.get(name, self._found[name])) != mark:
                return repr(name)
        return None if self._reads.fresh() else self._reads.changed()


def _global_generators() -> tuple[Any, ...]:
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002 -- the legacy generator is what is watched
    return pickle.dumps(state), random.getstate()


def reached(fun: Any, around: Captures) -> tuple[list[np.ndarray[Any, Any]], list[Tensor]]:
    """Return the arrays and Tensors that `fun` can reach by name, through containers and attributes.

    Args:
        fun: the function.
        around: what it reads from outside, farther away than arrays are looked for here.
    """
    found: dict[int, Any] = {}
    seen: set[int] = set()
    todo = [(x, 3) for _, x in _reached(fun)]
    while todo:
        x, depth = todo.pop()
        if isinstance(x, Tensor | np.ndarray):
            found[id(x)] = x
        elif depth and id(x) not in seen and not isinstance(x, _PLAIN):
            seen.add(id(x))
            if isinstance(x, dict):
                todo += [(v, depth - 1) for v in x.values()]
            elif isinstance(x, list | tuple | set | frozenset | deque):
                todo += [(v, depth - 1) for v in x]
            elif hasattr(x, "__dict__") and not isinstance(x, types.ModuleType | type):
                todo += [(v, depth - 1) for v in vars(x).values()]
    arrays = [x for x in found.values() if isinstance(x, np.ndarray)]
    found |= {id(t): t for t in around.tensors}
    return arrays, [x for x in found.values() if isinstance(x, Tensor)]


def _reached(fun: Any) -> Iterator[tuple[str, Any]]:
    """Yield what `fun` and the functions it calls by name can reach."""
    seen: set[int] = set()
    todo = [fun]
    while todo:
        f = todo.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        for name, x in _own(f):
            if isinstance(x, types.FunctionType | types.MethodType | functools.partial | Transformed):
                if not (getattr(x, "__module__", None) or "").startswith(("fgrad.", "numpy")):
                    todo.append(x)
            elif not isinstance(x, types.ModuleType | types.BuiltinFunctionType | type | np.ufunc):
                yield name, x


def _own(f: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(f, types.MethodType):
        yield type(f.__self__).__qualname__, f.__self__
        f = f.__func__
    if isinstance(f, types.FunctionType):
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if cell != types.CellType():  # assigned already
                yield name, cell.cell_contents
        names = set(_names(f.__code__))
        yield from ((name, x) for name, x in f.__globals__.items() if name in names)
        for x in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            yield f"a default of {f.__name__}", x
    elif isinstance(f, functools.partial):
        yield "function", f.func
        yield from ((f"argument {i} of a partial", x) for i, x in enumerate(f.args))
        yield from f.keywords.items()
    elif isinstance(f, Transformed):
        yield "function", f.fun
    else:
        yield type(f).__qualname__, f


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _mark(x: Any, depth: int = 1) -> Any:
    """Return something that differs where `x` has changed."""
    if isinstance(x, _PLAIN):
        return type(x), x
    if isinstance(x, np.random.Generator | np.random.RandomState | random.Random):
        return state_of(x)
    if isinstance(x, np.ndarray):
        if x.nbytes > LARGE or x.dtype == object:
            return id(x)
        return id(x), zlib.crc32(x.tobytes())
    if depth and isinstance(x, dict):
        return id(x), [(_mark(k, 0), _mark(v, 0)) for k, v in x.items()]
    if depth and isinstance(x, list | tuple | set | frozenset | deque):
        return id(x), [_mark(v, 0) for v in x]
    if depth and not isinstance(x, Tensor | np.generic) and hasattr(x, "__dict__"):
        return id(x), [(k, _mark(v, 0)) for k, v in vars(x).items()]
    return id(x)
