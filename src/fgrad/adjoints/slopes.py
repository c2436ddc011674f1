"""Slopes of scalar functions in kernels, from the table of atoms."""

from __future__ import annotations

import ast
import builtins
import math
from functools import cache
from operator import attrgetter
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from fgrad.adjoints import memory, stacks, syntax
from fgrad.adjoints.values import OPERATORS, result_type, unified
from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import Expr, Operand, var

OPERATIONS = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power",
    ast.Mod: "remainder", ast.FloorDiv: "floor_divide", ast.USub: "negative", ast.UAdd: "positive",
}  # fmt: skip
_MATH = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "pow": "power", "fabs": "fabs",
}  # fmt: skip
_NUMPY = {"abs": "fabs", "absolute": "fabs", "true_divide": "divide", "mod": "remainder", "conjugate": "conj"}
_NUMPY |= {"deg2rad": "radians", "rad2deg": "degrees"}
_PLAIN = {"abs": "fabs", "max": "maximum", "min": "minimum", "pow": "power"}
_TEXTS = {
    "scale": "scale({}, {})", "multiply_no_nan": "multiply_no_nan({}, {})", "power": "({} ** {})",
    "reciprocal": "(1 / {})",
    "sigmoid": "sigmoid({})", "softplus": "softplus({})", "where": "({1} if {0} else {2})",
    "fabs": "abs({})", "root": "math.sqrt({})", "remainder": "({} % {})", "floor_divide": "({} // {})",
    "logical_and": "({} and {})", "logical_or": "({} or {})", "logical_not": "(not {})",
    "logical_xor": "({} != {})",
}  # fmt: skip
_NAMES = "sign floor ceil trunc rint exp2 cbrt logaddexp logaddexp2 fmod maximum minimum fmax fmin isfinite"
_NAMES += " isinf isnan signbit degrees radians heaviside nextafter"
_TEXTS |= {n: f"np.{n}({', '.join(['{}'] * ATOMS[n].arity)})" for n in _NAMES.split()}


@numba.njit(error_model="numpy")
def scale(ct: Any, slope: Any) -> Any:
    """Return `ct * slope`, and zero where `ct` is zero even if the slope is infinite or NaN."""
    return ct * slope if ct != 0 else 0 * ct


@numba.njit(error_model="numpy")
def multiply_no_nan(x: Any, y: Any) -> Any:
    """Return `x * y`, and zero where one of them is zero even if the other is infinite or NaN."""
    return x * y if x != 0 and y != 0 else 0 * (x if x == 0 else y)


@numba.njit(error_model="numpy")
def sigmoid(x: float) -> float:
    """Return `1 / (1 + exp(-x))`."""
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    grown = math.exp(x)
    return grown / (1 + grown)


@intrinsic
def plus(typing: Any, x: Any, y: Any) -> Any:
    """Return `x + y` of a sum whose order is free, so that its terms may be added side by side."""
    del typing
    if not isinstance(x, types.Float) or not isinstance(y, types.Float):
        return None

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        other = context.cast(builder, args[1], signature.args[1], signature.args[0])
        return builder.fadd(args[0], other, flags=("reassoc", "nsz"))

    return x(x, y), generate


HELPERS = {"scale": scale, "multiply_no_nan": multiply_no_nan, "sigmoid": sigmoid, "plus": plus}
RESERVED = {  # names that derivatives have for their own ends
    "np", "math", "abs", "bool", "complex", "float", "int", "len", "max", "min", "range",
    "k_", "uint64", "np__zeros", "np__empty", "any_order", "part",
    "inline_part", *stacks.NAMES,
    *[f"{name}{axes}" for name in ("at", "put_at", "add_at") for axes in (1, 2, 3)], *HELPERS, *memory.PLAIN,
}  # fmt: skip


def atom_of(node: ast.AST) -> tuple[str, list[Any]] | None:
    """Return the atom that an expression applies and its operands; "" where there is none in the table."""
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Mult) and syntax.text(node.left) == syntax.text(node.right):
            return "square", [node.left]
        return OPERATIONS.get(type(node.op), ""), [node.left, node.right]
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
        return OPERATIONS.get(type(node.op), ""), [node.operand]
    if isinstance(node, ast.Call):
        name = syntax.text(node.func)
        module, _, short = name.rpartition(".")
        table = {"math": _MATH, "np": _NUMPY, "": _PLAIN}.get(module, {})
        found = table.get(short, short)
        known = module in {"math", "np"} or found in HELPERS or name in _PLAIN
        if name in _CASTS or (module == "np" and short in _CAST_TYPES):
            return "cast", list(node.args)
        if known and (found in ATOMS or found in {"real", "imag", "conj"}):
            return found, list(node.args)
        return "", list(node.args)
    return None


def rule_of(node: ast.AST) -> tuple[str, list[Any]] | None:
    """Return the same as `atom_of`, with the name `THREE_HALVES` for real `x * sqrt(x)`.

    Such a product, as in forces of gravity, has the slope `1.5 * sqrt(x)`, which needs no quotient.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for x, root in ((node.left, node.right), (node.right, node.left)):
            if isinstance(getattr(x, "ty", None), types.Float) and _is_root(root, x):
                return THREE_HALVES, [x]
    return atom_of(node)


def _is_root(node: ast.AST, of: ast.AST) -> bool:
    called = isinstance(node, ast.Call) and syntax.text(node.func) in {"np.sqrt", "math.sqrt"}
    return called and syntax.text(node.args[0]) == syntax.text(of)  # type: ignore[attr-defined]


THREE_HALVES = "x * sqrt(x)"
_CASTS = {"float", "complex"}
_CAST_TYPES = {"float32", "float64", "complex64", "complex128", "float_", "asarray"}


def derivative(name: str, value: Any, args: list[Any], wrt: int) -> tuple[Any, bool] | None:
    """Return a slope of an atom as an expression, and whether a zero cotangent wins over it; None: zero."""
    if name in {"add", "positive", "cast"} or (name == "subtract" and not wrt):
        return None, False  # one
    if name == "power":
        exponent: Any = args[1]
        if not wrt and isinstance(exponent, ast.Constant):
            return _power(args[0], exponent.value), not isinstance(exponent.value, int) or exponent.value < 1
        if not wrt and isinstance(getattr(exponent, "ty", None), types.Integer):
            return _instance(("power", wrt, 2), value, args), True
    if name == "square":
        return _power(args[0], 2), False
    if name == THREE_HALVES:
        return product(ast.Constant(1.5), ast.Call(syntax.dotted("np.sqrt"), [args[0]], [])), False
    slope = _instance((name, wrt, len(args)), value, args)
    if isinstance(slope, ast.Constant) and slope.value == 0:
        return None
    return slope, ATOMS[name].products[wrt] != "multiply" and name != "divide"


def _power(x: Any, n: Any) -> Any:
    if n == 2:
        return ast.BinOp(ast.Constant(2.0), ast.Mult(), x)
    if n == 1:
        return ast.Constant(1.0)
    if n == 0:
        return ast.Constant(0.0)
    lower = ast.BinOp(x, ast.Pow(), ast.Constant(n - 1)) if n != 3 else ast.BinOp(x, ast.Mult(), x)
    return ast.BinOp(ast.Constant(float(n) if not isinstance(n, complex) else n), ast.Mult(), lower)


def _instance(key: tuple[str, int, int], value: Any, args: list[Any]) -> Any:
    template = _template(key, syntax.is_complex(value.ty))
    return syntax.filled(template, {"f_": value, **{f"x{i}_": a for i, a in enumerate(args)}})


@cache
def _template(key: tuple[str, int, int], is_complex: bool) -> Any:
    name, wrt, arity = key
    atom = ATOMS[name]
    slope = atom.slopes(var("f_"), *[var(f"x{i}_") for i in range(arity)])[wrt]
    return ast.parse(_text(slope, is_complex), mode="eval").body


def _text(e: Operand, is_complex: bool) -> str:
    if not isinstance(e, Expr):
        return repr(float(e))
    if e.head == "var":
        return str(e.leaf)
    if e.head == "const":
        x = float(e.leaf)
        return repr(x) if math.isfinite(x) else "np.nan" if math.isnan(x) else f"({'-' * (x < 0)}np.inf)"
    args = [_text(a, is_complex) for a in e.args]
    code = _TEXTS.get(e.head, ATOMS[e.head].code)
    if is_complex and code.startswith("math."):
        code = f"np.{e.head}({', '.join(['{}'] * len(args))})"
    return code.format(*args)


# ---- types of expressions that were put together ----------------------------------------------------------


def annotated(node: Any, kinds: dict[str, Any], constants: dict[str, Any]) -> Any:
    """Return an expression with its types, and those of all its parts.

    Args:
        node: made of scalars, elements, operators and calls by name.
        kinds: of variables.
        constants: what other names stand for.
    """
    if getattr(node, "ty", None) is not None:
        return node
    if isinstance(node, ast.Constant):
        held: Any = node.value
        return syntax.constant(held)
    if isinstance(node, ast.Name):
        return syntax.typed(node, kinds[node.id])
    element = syntax.element_of(node)
    if element:
        for i in element[1]:
            annotated(i, kinds, constants)
        return syntax.typed(node, kinds[element[0]].dtype)
    if isinstance(node, ast.Subscript):
        return syntax.typed(node, types.intp)
    parts = [annotated(n, kinds, constants) for n in _operands(node)]
    return syntax.typed(node, _result(node, parts, constants))


_PARTS = {"left", "right", "operand", "comparators", "values", "test", "body", "orelse", "args"}


def _operands(node: Any) -> list[Any]:
    """Return what an operator or a call takes; constants get their types."""
    if not isinstance(
        node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp | ast.IfExp | ast.Call | ast.Attribute
    ):
        raise TypeError(ast.dump(node))
    found: list[Any] = []
    for field in [f for f in node._fields if f in _PARTS]:
        part = getattr(node, field)
        made = [_constant(n) for n in part] if isinstance(part, list) else _constant(part)
        setattr(node, field, made)
        found += made if isinstance(made, list) else [made]
    return found


def _constant(node: Any) -> Any:
    if isinstance(node, ast.Constant) and getattr(node, "ty", None) is None:
        held: Any = node.value
        return syntax.constant(held)
    return node


def _result(node: Any, parts: list[Any], constants: dict[str, Any]) -> Any:
    kinds = tuple(p.ty for p in parts)
    if isinstance(node, ast.Compare | ast.BoolOp) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    ):
        return types.boolean
    if isinstance(node, ast.IfExp):
        return unified(kinds[1], kinds[2])
    if isinstance(node, ast.Attribute):
        return types.float64  # np.inf
    if isinstance(node, ast.Call):
        return _call_type(_function(syntax.text(node.func), constants), *kinds)
    return _call_type(OPERATORS[type(node.op)], *kinds)


def _function(name: str, constants: dict[str, Any]) -> Any:
    if name in HELPERS:
        return HELPERS[name]
    if name in constants:
        return constants[name]
    first, _, rest = name.partition(".")
    return attrgetter(rest or first)({"np": np, "math": math}.get(first, builtins))


@cache
def _call_type(function: Any, *kinds: Any) -> Any:
    return result_type(function, *kinds)


# ---- parts of expressions ---------------------------------------------------------------------------------


def is_zero(node: ast.AST) -> bool:
    """Return whether an expression is the constant zero."""
    return isinstance(node, ast.Constant) and node.value == 0


def is_minus_one(node: ast.AST) -> bool:
    """Return whether an expression is -1."""
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    return negated and isinstance(node.operand, ast.Constant) and node.operand.value == 1  # type: ignore[attr-defined]


def product(x: Any, y: Any) -> Any:
    """Return `x * y`."""
    if isinstance(x, ast.Constant) and x.value == 1:
        return y
    if isinstance(y, ast.Constant) and y.value == 1:
        return x
    return ast.BinOp(x, ast.Mult(), y)


def real_part(node: Any) -> Any:
    """Return the real part of an expression."""
    return ast.Attribute(node, "real", ast.Load())
