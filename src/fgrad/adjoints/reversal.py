"""The reverse of one statement: what it adds to cotangents of its operands, and which values that takes."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

from fgrad.adjoints import slopes, syntax
from fgrad.adjoints.activity import carriers
from fgrad.adjoints.names import nodes_of, target_of
from fgrad.adjoints.polynomials import Polynomial
from fgrad.adjoints.syntax import Assign, Function, Store
from fgrad.adjoints.tangent import unknown


class Reversal:
    """Reverse statements of a function, with names for cotangents and for what they keep."""

    def __init__(self, function: Function, active: set[str]) -> None:
        self.function: Function = function
        self.active: set[str] = active
        self.used: set[str] = {*function.types, *function.constants, *slopes.RESERVED}
        self.roots: dict[str, str] = syntax.families(function)
        self.cts: dict[str, str] = {n: self.fresh(f"{n}_ct") for n in sorted(active)}
        self.primals: dict[str, str] = {ct: n for n, ct in self.cts.items()}
        self.line: int = 0

    def fresh(self, base: str) -> str:
        """Return a name that nobody has."""
        return syntax.fresh(base, self.used)

    def root(self, name: str) -> str:
        """Return the array whose memory a name shares; a scalar is its own."""
        return self.roots.get(name, name)

    # ---- statements ---------------------------------------------------------------------------------

    def of(self, s: Assign | Store) -> list[ast.stmt]:
        """Return the statements that bring the cotangent of what `s` writes to its operands."""
        self.line = s.line
        self.out: list[ast.stmt] = []
        value = copy.deepcopy(s.value)
        if isinstance(s, Assign):
            if s.name not in self.active:
                return []
            ct: Any = ast.Name(self.cts[s.name], ast.Load())
            here: Any = syntax.name(s.name)
        else:
            if s.array not in self.active:
                return []
            ct = syntax.load(self.cts[s.array], copy.deepcopy(s.index), None)
            here = syntax.load(s.array, s.index, None)
        is_complex = syntax.is_complex(self.function.types[s.name if isinstance(s, Assign) else s.array])
        own = self.root(s.name if isinstance(s, Assign) else s.array)
        increment = self.increment(value, syntax.text(here))
        if increment:
            rest, sign = increment
            plain = isinstance(ct, ast.Name) and all(self.root(n) != own for n in carriers(rest))
            held = ct if plain else self.kept(ct, "b")
            self.back(rest, held if sign > 0 else ast.UnaryOp(ast.USub(), held), is_complex)
            return self.out
        reads_own = any(self.root(n) == own for n in carriers(value))
        if isinstance(ct, ast.Name) and not reads_own:
            self.back(value, ct, is_complex)
            self.out.append(self.assignment(ct, ast.Constant(0.0)))
            return self.out
        held = self.kept(ct, "b")
        self.out.append(self.assignment(ct, ast.Constant(0.0)))
        self.back(value, held, is_complex)
        return self.out

    def increment(self, node: Any, here: str) -> tuple[Any, int] | None:
        """Return what is added where a statement adds to what it writes, with its sign."""
        value: Any = node
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            sign = 1 if isinstance(value.op, ast.Add) else -1
            if syntax.text(value.left) == here:
                return value.right, sign
            if sign > 0 and syntax.text(value.right) == here:
                return value.left, 1
            inner = self.increment(value.left, here)
            if inner:
                rest, first = inner
                op = value.op if first > 0 else (ast.Sub() if isinstance(value.op, ast.Add) else ast.Add())
                return syntax.typed(ast.BinOp(rest, op, value.right), value.ty), first
        return None

    def assignment(self, target: Any, value: Any) -> ast.stmt:
        """Return `target = value`."""
        to = copy.deepcopy(target)
        to.ctx = ast.Store()
        return ast.Assign([to], value)

    def kept(self, node: Any, base: str) -> Any:
        """Return a variable that holds the value of an expression."""
        made = self.fresh(base)
        self.out.append(self.assignment(ast.Name(made, ast.Load()), node))
        found = ast.Name(made, ast.Load())
        found.ty = getattr(node, "ty", None)  # type: ignore[attr-defined]
        return found

    # ---- expressions --------------------------------------------------------------------------------

    def back(self, node: Any, ct: Any, is_complex: bool) -> None:
        """Emit what adds a cotangent to the operands of an expression."""
        if not any(n in self.active for n in carriers(node)):
            return
        if is_complex and not syntax.is_complex(node.ty):
            ct, is_complex = slopes.real_part(ct), False
        if isinstance(node, syntax.Given):
            self.back(node.source, ct, is_complex)
            return
        if isinstance(node, ast.Name):
            self.add(ast.Name(self.cts[node.id], ast.Load()), ct)
            return
        found = syntax.element_of(node)
        if found:
            self.add(syntax.load(self.cts[found[0]], found[1], None), ct)
            return
        if isinstance(node, ast.IfExp):
            ct = self.simple(ct)
            outer, self.out = self.out, []
            self.back(node.body, ct, is_complex)
            body, self.out = self.out, []
            self.back(node.orelse, ct, is_complex)
            orelse, self.out = self.out, outer
            if not body:
                body = [ast.Pass()]
            self.out.append(ast.If(node.test, body, orelse))
            return
        polynomial = None if is_complex else Polynomial(node, self.active, self.kept)
        if polynomial is not None and polynomial.pays:
            ct, slope = self.simple(ct), polynomial.slope(node)
            self.back(polynomial.variable, slopes.product(ct, slope), is_complex)
            return
        applied = slopes.rule_of(node)
        if applied is None or not applied[0]:
            raise unknown(self.function, self.line, node)
        name, args = applied
        if name in {"real", "cast"}:
            self.back(args[0], ct, is_complex)
        elif name == "imag":
            self.back(args[0], ast.BinOp(ast.Constant(-1j), ast.Mult(), ct), True)
        elif name == "conj":
            self.back(args[0], ast.Call(syntax.dotted("np.conj"), [ct], []), is_complex)
        else:
            self.through(name, node, args, ct, is_complex)

    def through(self, name: str, node: Any, args: list[Any], ct: Any, is_complex: bool) -> None:
        """Emit what adds a cotangent to the operands of an atom."""
        moving = [k for k, a in enumerate(args) if any(n in self.active for n in carriers(a))]
        if name == "divide" and not isinstance(args[1], ast.Constant):
            self.through_quotient(args, moving, ct, is_complex or syntax.is_complex(node.ty))
            return
        if len(moving) > 1 or name not in {"add", "subtract", "negative"}:
            ct = self.simple(ct)
        holders = [a if syntax.is_leaf(a) else _placeholder(f"x{k}", a.ty) for k, a in enumerate(args)]
        value = _placeholder("f", node.ty)
        steps = []
        for k in moving:
            found = slopes.derivative(name, value, holders, k)
            if found is not None:
                steps.append((args[k], *found))
        wanted = {n.id for _, slope, _ in steps if slope is not None for n in nodes_of(slope)
                  if isinstance(n, ast.Name) and n.id.startswith("held ")}  # fmt: skip
        names: dict[str, str] = {}
        for k, a in enumerate(args):
            if f"held x{k}" in wanted:
                names[f"held x{k}"] = self.kept(copy.deepcopy(a), "w").id
        if "held f" in wanted:
            inner = copy.deepcopy(node)
            known = {
                k: ast.Name(names[f"held x{k}"], ast.Load())
                for k in range(len(args))
                if f"held x{k}" in names
            }
            _replace_operands(inner, [known.get(k, a) for k, a in enumerate(args)])
            names["held f"] = self.kept(inner, "w").id
        for arg, found_slope, singular in steps:
            if found_slope is None:
                self.back(arg, ct, is_complex)
                continue
            slope = copy.deepcopy(found_slope)
            for n in nodes_of(slope):
                if isinstance(n, ast.Name):
                    n.id = names.get(n.id, n.id)
            if (
                isinstance(slope, ast.UnaryOp)
                and isinstance(slope.operand, ast.Constant)
                and slope.operand.value == 1
            ):
                term: Any = ast.UnaryOp(ast.USub(), ct)
            elif singular:
                term = ast.Call(ast.Name("scale", ast.Load()), [ct, slope], [])
            else:
                term = slopes.product(ct, slope)
            self.back(arg, term, is_complex or syntax.is_complex(node.ty))

    def through_quotient(self, args: list[Any], moving: list[int], ct: Any, is_complex: bool) -> None:
        """Emit what adds a cotangent to the operands of a quotient, by one division."""
        x, y = (a if syntax.is_leaf(a) else self.kept(copy.deepcopy(a), "w") for a in args)
        inverse = self.kept(ast.BinOp(ast.Constant(1.0), ast.Div(), y), "w")
        b = self.kept(slopes.product(ct, inverse), "b")
        if 0 in moving:
            self.back(args[0], b, is_complex)
        if 1 in moving:
            value = slopes.product(x, inverse)
            self.back(args[1], ast.UnaryOp(ast.USub(), slopes.product(b, value)), is_complex)

    def simple(self, ct: Any) -> Any:
        """Return a cotangent that may be used several times."""
        return ct if isinstance(ct, ast.Name) else self.kept(ct, "b")

    def add(self, target: Any, ct: Any) -> None:
        """Emit `target += ct`."""
        to = copy.deepcopy(target)
        to.ctx = ast.Store()
        if isinstance(ct, ast.UnaryOp) and isinstance(ct.op, ast.USub):
            self.out.append(ast.AugAssign(to, ast.Sub(), ct.operand))
        else:
            self.out.append(ast.AugAssign(to, ast.Add(), ct))


def _placeholder(text: str, ty: Any) -> Any:
    return syntax.typed(ast.Name(f"held {text}", ast.Load()), ty)


def _replace_operands(node: Any, args: list[Any]) -> None:
    if isinstance(node, ast.BinOp):
        node.left, node.right = args if len(args) > 1 else args * 2
    elif isinstance(node, ast.UnaryOp):
        node.operand = args[0]
    else:
        node.args = args


def operands(stmts: list[ast.stmt]) -> Iterator[tuple[str, Any]]:
    """Yield what reverse statements read, as `syntax.reads` does."""
    for s in stmts:
        if isinstance(s, ast.Assign | ast.AugAssign):
            yield from syntax.reads(s.value)
            target = target_of(s)
            found = syntax.element_of(target)
            for i in found[1] if found else ():
                yield from syntax.reads(i)
            if found:
                yield found[0], ()
        elif isinstance(s, ast.If):
            yield from syntax.reads(s.test)
            yield from operands(s.body)
            yield from operands(s.orelse)
