"""What a program meant that asked a Tensor for its value, read off its source: the remedies in messages.

Whoever follows a message should end up with a program that differentiates. So it names what takes the place
of the function that asked, which the frames of callers and the text of the line tell.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import math
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from importlib import import_module
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from fgrad.blocks import suppress
from fgrad.compat.cpython import place_in_source

_NAMED = {  # functions of math that have another name in NumPy or SciPy
    "dist": "numpy.linalg.norm(p - q)",
    "fsum": "numpy.sum(numpy.stack(items))",
    "lgamma": "fgrad.scipy.special.gammaln",
}
_TWINS = {  # functions of SciPy that are another one in a simple case
    "integrate.dblquad": "integrate.quad", "integrate.ode": "integrate.solve_ivp",
    "interpolate.UnivariateSpline": "interpolate.make_interp_spline",
    "interpolate.interp1d": "interpolate.make_interp_spline", "optimize.fmin": "optimize.minimize",
    "optimize.fmin_bfgs": "optimize.minimize", "optimize.fmin_cg": "optimize.minimize",
    "optimize.fmin_l_bfgs_b": "optimize.minimize", "optimize.fsolve": "optimize.root",
    "optimize.leastsq": "optimize.least_squares",
}  # fmt: skip
_STATIC = "or make the argument that decides static (static_argnums)"


def remedy(what: str, frame: FrameType, inside: Sequence[FrameType], *, staged: bool = False) -> str:
    """Return what to write instead, or "" where nothing better is known than for every Tensor.

    Args:
        what: how the value was asked for, as "float()".
        frame: the user's.
        inside: frames of libraries which that one called, the outermost first.
        staged: whether no value exists, so that what decides may be made static.
    """
    with suppress(Exception):  # whatever is strange in a frame, the message is about something else
        return _of_library(inside) or _of_line(what, frame, staged)
    return ""


# ---- functions of libraries, by their frames -----------------------------------------------------------


def _of_library(inside: Sequence[FrameType]) -> str:
    unknown = ""
    for frame in inside:
        name, me = str(frame.f_globals.get("__name__", "")), frame.f_locals.get("self")
        top, _, rest = name.partition(".")
        if isinstance(me, np.vectorize):
            return "call fgrad.vectorize instead of numpy.vectorize, which makes arrays of results"
        if name.startswith("numpy.polynomial"):
            return (
                "write the polynomial as numpy.polyval(c[::-1], x), or as a sum: the classes of "
                "numpy.polynomial make arrays of coefficients and points"
            )
        if top == "pandas":
            return "take the array out of the table first: df.to_numpy() @ w instead of df @ w"
        package = rest.partition(".")[0]
        if top == "scipy" and not package.startswith("_"):
            found, twin = _twin(package, frame.f_code.co_name, me)
            if twin:
                return f"call {twin} instead of {found}"
            unknown = unknown or found
    if not unknown:
        return ""
    return (
        f"use another function of fgrad.scipy than {unknown}, through which no derivative leads, or declare "
        "one: fgrad.custom_vjp"
    )


def _twin(package: str, function: str, me: Any) -> tuple[str, str]:
    """Return the public names of a function of SciPy, or of the method of an object, and of its twin."""
    public = sys.modules.get(f"scipy.{package}")
    path = [function]
    if function in {"__init__", "__call__", "__new__"}:
        path = [type(me).__name__]
    elif isinstance(getattr(me, "name", None), str):
        path = [me.name, function]
    elif me is not None:
        path = [type(me).__name__, function]
    if not _has(public, path[:1]):
        return "", ""
    found = f"scipy.{package}.{'.'.join(path)}"
    with suppress(ImportError):
        if _has(import_module(f"fgrad.scipy.{package}"), path):
            return found, f"fgrad.{found}"
    alike = _TWINS.get(f"{package}.{path[0]}", "")
    return found, alike and f"fgrad.scipy.{alike}"


def _has(x: Any, path: Sequence[str]) -> bool:
    for name in path:
        x = None if name.startswith("_") else getattr(x, name, None)
    return callable(x) and not isinstance(x, ModuleType)


# ---- what the line says --------------------------------------------------------------------------------


class _Asked(NamedTuple):
    """A call in the source, and what is called, if that is a name that means something there."""

    node: ast.Call
    function: Any


def _of_line(what: str, frame: FrameType, staged: bool) -> str:
    if what == "bool()":
        return _of_condition(frame) if staged else ""
    calls = [_Asked(node, _meant(node.func, frame)) for node in _calls(frame)]
    asking = (_of_math, _of_array) if what == "float()" else (_of_array, _of_math)
    for call in calls:
        for words in (_of_draw, _of_scipy, *asking):
            found = words(call)
            if found:
                return found
    functions = [call.function for call in calls]
    if range in functions:
        return f"use fgrad.lax.fori_loop instead of a loop over range, {_STATIC}" if staged else ""
    if float in functions or complex in functions:
        return (
            "leave float() out: operators and functions of numpy take Tensors, x.astype(float) converts them"
        )
    if int in functions:
        return "write numpy.trunc(x) instead of int(x), or x.astype(int) where its gradient is zero anyway"
    if what == "an index" and not calls and staged:
        return f"make the list an array, numpy.stack(items)[i], which takes Tensors as indices, {_STATIC}"
    if what == "an index" and calls and staged:  # of a function that makes or shapes arrays
        return "shapes and lengths have to be known: make the argument that decides static (static_argnums)"
    return ""


def _of_math(call: _Asked) -> str:
    f, name = call.function, getattr(call.function, "__name__", "")
    if name and getattr(math, name, None) is f:
        other = _NAMED.get(name) or (f"numpy.{getattr(np, name).__name__}" if hasattr(np, name) else "")
        with suppress(ImportError):
            if not other and _has(import_module("fgrad.scipy.special"), [name]):
                other = f"fgrad.scipy.special.{name}"
        return f"call {other} instead of math.{name}" if other else ""
    return ""


_MAKING = ("array", "asarray", "asanyarray", "ascontiguousarray", "fromiter", "full", "linspace", "arange")


def _of_array(call: _Asked) -> str:
    name = next((n for n in _MAKING if getattr(np, n) is call.function), "")
    if not name:
        return ""
    elements = call.node.args[:1]
    other = f"call fgrad.numpy.{name} instead of numpy.{name}"
    if name.startswith("a") and elements and isinstance(elements[0], ast.List | ast.Tuple | ast.ListComp):
        other += " (or numpy.stack, which takes Tensors)"
    return (
        f"{other}, or decorate the function with fgrad.plain_numpy, which does so for all that makes arrays"
    )


def _of_draw(call: _Asked) -> str:
    if not isinstance(getattr(call.function, "__self__", None), np.random.Generator | np.random.RandomState):
        return ""
    return (
        "draw numbers that depend on no Tensor and transform them, as mean + scale * rng.normal(size=n), or "
        "use the samplers of fgrad.random"
    )


def _of_scipy(call: _Asked) -> str:
    top, _, rest = (getattr(call.function, "__module__", "") or "").partition(".")
    if top != "scipy":
        return ""
    found, twin = _twin(rest.partition(".")[0], getattr(call.function, "__name__", ""), None)
    return f"call {twin} instead of {found}" if twin else ""


def _of_condition(frame: FrameType) -> str:
    found = _statement(frame)
    if isinstance(found, ast.While):
        return f"use fgrad.lax.while_loop instead of while, {_STATIC}"
    if isinstance(found, ast.Assert):
        return "leave the assert out, which has no value to look at here; fgrad.debug.callback sees values"
    if isinstance(found, ast.BoolOp | ast.Compare):
        return (
            "join conditions with numpy.logical_and and numpy.logical_or instead of and, or and a < x < b, "
            f"and choose with numpy.where, {_STATIC}"
        )
    if isinstance(found, ast.If | ast.IfExp):
        return f"use numpy.where(condition, x, y) or fgrad.lax.cond instead of if, {_STATIC}"
    return ""


def _calls(frame: FrameType) -> list[ast.Call]:
    """Return the call that a frame runs, or those of its line where that is all that is known."""
    lines, place = linecache.getlines(frame.f_code.co_filename, frame.f_globals), place_in_source(frame)
    if place is None:
        line = frame.f_lineno
        nodes = [n for n in ast.walk(ast.parse("".join(lines))) if isinstance(n, ast.Call)]
        return [n for n in nodes if n.lineno <= line <= (n.end_lineno or line)][::-1]  # inner ones first
    first, last, start, end = place
    part = [line.encode() for line in lines[first - 1 : last]]
    if not part:
        return []
    part[-1] = part[-1][:end]
    part[0] = part[0][start:]
    root = _parsed(b"".join(part).decode())
    node = root.body[0].value if root.body and isinstance(root.body[0], ast.Expr) else None
    return [node] if isinstance(node, ast.Call) else []


def _parsed(text: str) -> ast.Module:
    """Return the tree of an expression, or of the part of a line that is a statement of its own."""
    text = text.strip()
    for attempt in (f"({text})", text, f"{text} pass"):
        with suppress(SyntaxError):
            return ast.parse(attempt)
    return ast.Module([], [])


def _meant(node: ast.expr, frame: FrameType) -> Any:
    """Return what a name, or an attribute of one, means in a frame; None where it is anything else."""
    if isinstance(node, ast.Name):
        for scope in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in scope:
                return scope[node.id]
    if isinstance(node, ast.Attribute):
        owner = _meant(node.value, frame)
        if isinstance(owner, ModuleType | np.random.Generator | np.random.RandomState):
            return getattr(owner, node.attr, None)
    return None


def _statement(frame: FrameType) -> ast.AST | None:
    """Return the innermost thing whose condition the frame's line holds, as far as columns are known."""
    lines, place = linecache.getlines(frame.f_code.co_filename, frame.f_globals), place_in_source(frame)
    first, _, start, end = place or (frame.f_lineno, frame.f_lineno, 0, 0)
    found: ast.AST | None = None
    for node, tests in _conditions(ast.parse("".join(lines))):
        for test in tests:
            spans = test.lineno <= first <= (test.end_lineno or 0)
            if spans and place and test.lineno == test.end_lineno:
                spans = test.col_offset <= start and end <= (test.end_col_offset or 0)
            if spans:
                found = node  # an inner one comes later
    return found


def _conditions(root: ast.AST) -> Iterator[tuple[ast.AST, list[ast.expr]]]:
    for node in ast.walk(root):
        if isinstance(node, ast.While | ast.If | ast.IfExp | ast.Assert):
            yield node, [cast("ast.expr", node) if isinstance(node, ast.Assert) else node.test]
        elif isinstance(node, ast.BoolOp):
            yield node, node.values
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            yield node, [node]


# ---- errors that libraries raise afterwards ------------------------------------------------------------

Refusal = tuple[str, CodeType, int]  # what a Tensor said last, and where in the user's program
_refusal: ContextVar[Refusal | None] = ContextVar("refusal", default=None)


def note_refusal(message: str, frame: FrameType) -> None:
    """Remember what a Tensor says to a line, in case that a library hides it behind words of its own."""
    _refusal.set((message, frame.f_code, frame.f_lineno))


def last_refusal() -> Refusal | None:
    """Return what a Tensor said last, and to which line, and forget it."""
    found = _refusal.get()
    if found is not None:
        _refusal.set(None)
    return found
