"""The line magic `%fgrad` of IPython and Jupyter: pictures and derivatives of an expression."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from fgrad.core.tracebacks import shorten
from fgrad.transforms.reverse import grad
from fgrad.transforms.stage import make_graph
from fgrad.viz.drawing import draw, take_notes
from fgrad.viz.profiling import profile

USAGE = """\
%fgrad draw f(x)      the picture of what f does; of a recorded Tensor: %fgrad draw y
%fgrad profile f(x)   where time and memory go
%fgrad grad f(x)      the gradient of f with respect to its first argument
%fgrad program f(x)   what f does, as typed assignments
%fgrad notes on       remember lines, scopes and times of recordings, for draw; off: no longer"""

CALLS: dict[str, Callable[..., Any]] = {"draw": draw, "profile": profile, "grad": grad, "program": make_graph}


def load_ipython_extension(shell: Any) -> None:
    """Give an IPython shell the magic `%fgrad`; `%load_ext fgrad` calls this.

    Args:
        shell: the InteractiveShell.
    """

    def fgrad(line: str) -> Any:
        try:
            return run(line, shell.user_ns)
        except Exception as error:
            shorten(error)
            raise

    fgrad.__doc__ = USAGE
    shell.register_magic_function(fgrad, "line", "fgrad")


def run(line: str, variables: dict[str, Any]) -> Any:
    """Return what `%fgrad line` gives where `variables` are those of the user.

    Raises:
        ValueError: a command that there is not, or no call where one is needed.
    """
    command, _, text = line.strip().partition(" ")
    text = text.strip()
    if command == "notes" and text in ("on", "off"):
        take_notes(text == "on")
        return None
    if command not in CALLS or not text:
        raise ValueError(f"%fgrad {line.strip()}: the commands are\n{USAGE}")
    body = ast.parse(text, "<%fgrad>", "eval").body
    if isinstance(body, ast.Call):
        fun = _value(body.func, variables)
        args, kwargs = _value(_arguments(body), variables)
        return CALLS[command](fun)(*args, **kwargs)
    if command == "draw":
        return draw(_value(body, variables), names=variables)
    raise ValueError(f"%fgrad {command} takes a call, as in %fgrad {command} f(x), not {text}")


def _arguments(call: ast.Call) -> ast.expr:
    """Return a call's arguments as the expression of a pair."""
    catch = ast.parse("(lambda *args, **kwargs: (args, kwargs))()", mode="eval").body
    assert isinstance(catch, ast.Call)  # noqa: S101 -- the text above
    catch.args, catch.keywords = call.args, call.keywords
    return catch


def _value(expression: ast.expr, variables: dict[str, Any]) -> Any:
    code = compile(ast.fix_missing_locations(ast.Expression(expression)), "<%fgrad>", "eval")
    return eval(code, variables)  # noqa: S307 -- it is the line that the user typed
