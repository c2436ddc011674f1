"""Retraces: why a jitted function was traced again, in terms of its arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from fgrad import tree
from fgrad.blocks import Setting
from fgrad.core.aval import Aval
from fgrad.core.trace import user_place
from fgrad.transforms.calling import name_of, parameters_of


class Key(NamedTuple):
    """What a jitted function is staged for."""

    structure: Any
    kinds: tuple[tuple[Any, ...], ...]  # (shape, dtype, type of a Python number) of each leaf
    statics: tuple[tuple[Any, Any, Any], ...]  # (position or name, what tells it from equal ones, value)
    axes: tuple[Any, ...] = ()  # of processes, which names stand for
    place: Any = None  # where new arrays are made


_listening: ContextVar[list[str] | None] = ContextVar("fgrad.explain_retrace", default=None)


def explain_retrace() -> Setting:
    """Report on stderr why calls in a block trace jitted functions; yields the list of reasons.

    A reason is the difference from the most similar arguments for which the function was traced before.

    Returns:
        A context manager, which yields a list of texts that grows with each trace.

    Example:
        >>> import contextlib, io
        >>> import numpy as np
        >>> import fgrad
        >>> f = fgrad.jit(lambda x: 2 * x)
        >>> with contextlib.redirect_stderr(io.StringIO()), explain_retrace() as reasons:
        ...     _ = f(np.ones(2)), f(np.ones(2)), f(np.ones(3))
        >>> len(reasons)
        2
        >>> print(reasons[1])
        <lambda> at ... is traced again: argument x is float64[3], was float64[2]
    """
    return Setting(_listening, [])


def explain(
    fun: Callable[..., Any], key: Key, known: Sequence[Key], names: Sequence[str], stale: str
) -> None:
    """Tell a listener why `fun` is staged for `key`; `stale` says which captured value has changed."""
    reasons = _listening.get()
    if reasons is None:
        return
    if stale:
        why = f"again: {stale}"
    elif not known:
        why = "for the first time"
    else:
        nearest: list[str] = min([_differences(key, k, names) for k in known], key=len)
        why = f"again: {'; '.join(nearest)}"
    reasons.append(f"{name_of(fun)} at {user_place()} is traced {why}")
    sys.stderr.write(reasons[-1] + "\n")


def _differences(key: Key, old: Key, names: Sequence[str]) -> list[str]:
    found = []
    if key.structure != old.structure:
        found.append(f"the structure of the arguments is {key.structure}, was {old.structure}")
    else:
        found += [
            f"argument {name} is {_shown(a)}, was {_shown(b)}"
            for name, a, b in zip(names, key.kinds, old.kinds, strict=True)
            if a != b
        ]
    was = {k: (cls, v) for k, cls, v in old.statics}
    for k, cls, v in key.statics:
        if k not in was:
            found.append(f"static argument {k} is {v!r}, was not given")
        elif was[k] != (cls, v):
            found.append(f"static argument {k} is {v!r}, was {was[k][1]!r}")
    if key.axes != old.axes:
        found.append(f"the axes of processes are {key.axes}, were {old.axes}")
    if key.place is not old.place:
        found.append(f"new arrays are made on {_place(key.place)}, were on {_place(old.place)}")
    given = {k for k, _, _ in key.statics}
    found += [f"static argument {k} is not given, was {v!r}" for k, (_, v) in was.items() if k not in given]
    return found


def _place(place: Any) -> str:
    return repr(place.name if place is not None else "cpu")


def _shown(kind: tuple[Any, ...]) -> str:
    shape, dtype, weak = kind
    if weak is np.ndarray:
        return f"an array {Aval(shape, dtype)}"
    return f"a Python {weak.__name__}" if weak else str(Aval(shape, dtype))


def leaf_names(
    fun: Callable[..., Any], places: Sequence[int], args: Sequence[Any], kwargs: dict[str, Any]
) -> list[str]:
    """Return what to call each leaf of positional arguments, at `places`, and keyword ones."""
    parameters = parameters_of(fun) or []
    names = []
    for i in places:
        p = parameters[min(i, len(parameters) - 1)] if parameters else None
        if p is None:
            names.append(f"args[{i}]")
        elif i >= len(parameters) or p.kind is p.VAR_POSITIONAL:
            names.append(f"{p.name}[{i - parameters.index(p)}]")
        else:
            names.append(p.name)
    pairs = [*zip(names, args, strict=True), *((k, kwargs[k]) for k in sorted(kwargs))]
    return [name + path for name, x in pairs for path in tree.paths(tree.structure(x))]
