"""Expressions of kernels: types by Numba, array expressions as what one element is, elements as they are."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import types

from fgrad.adjoints import syntax
from fgrad.adjoints.indexing import Indexing
from fgrad.adjoints.names import nodes_of
from fgrad.adjoints.recursion import Known, TypeOf
from fgrad.adjoints.syntax import Alloc, Assign, For, If, Raise, Store
from fgrad.adjoints.values import (
    OPERATORS,
    Array,
    Group,
    Lazy,
    Lost,
    Scalar,
    Static,
    Value,
    array_dtype,
    array_type,
    context,
    dims_of,
    dtype,
    fused,
    is_one,
    item,
    ndim_of,
    result_type,
    unified,
)
from fgrad.compat.numba import is_dispatcher, is_dufunc
from fgrad.core.trace import place_of

_LOOP = "Write the loop, into an array that is made before"
REFUSED: dict[type, tuple[str, str]] = {
    ast.With: ("leaves compiled code", "Compute it before the kernel, and pass it as an argument"),
    ast.Try: ("catches exceptions", "Test for the case with `if`"),
    ast.FunctionDef: ("is a function inside of one", "Define it outside, under numba.njit"),
    ast.Lambda: ("is a function inside of one", "Define it outside, under numba.njit"),
    ast.Yield: ("makes a generator", "Write what it yields into an array"),
    ast.YieldFrom: ("makes a generator", "Write what it yields into an array"),
    ast.ListComp: ("makes a list", "Make an array of it, by np.array"),
    ast.GeneratorExp: ("makes a generator", _LOOP),
    ast.SetComp: ("makes a set", "Mark what is in it, in an array"),
    ast.DictComp: ("makes a dictionary", "Keep its values in an array"),
    ast.Set: ("makes a set", "Mark what is in it, in an array"),
    ast.Dict: ("makes a dictionary", "Keep its values in an array"),
    ast.JoinedStr: ("makes a string", "Leave strings out of kernels"),
    ast.NamedExpr: ("assigns inside of an expression", "Assign on a line before"),
    ast.Starred: ("unpacks a tuple", "Name its parts"),
    ast.Delete: ("deletes a name", "Leave it out"),
}


class Arrays(Indexing):
    """Expressions."""

    # ---- names and constants ------------------------------------------------------------------------

    def expr(self, node: ast.expr) -> Value:
        """Return what an expression is."""
        self.line = getattr(node, "lineno", self.line)
        method = getattr(self, f"of_{type(node).__name__}", None)
        if method is None:
            raise self.refused(node)
        found: Value = method(node)
        return found

    def refused(self, node: ast.AST) -> Exception:
        """Return the error for a statement or expression that kernels may not hold."""
        what, remedy = REFUSED.get(type(node), ("", ""))
        text = ast.unparse(node).splitlines()[0]
        if what:
            return self.fail(f"`{text}` {what}", remedy)  # type: ignore[no-any-return]
        return self.fail(  # type: ignore[no-any-return]
            f"`{text}` has no derivative here",
            "Kernels hold assignments, loops, conditions, and functions of numbers, arrays and tuples",
        )

    def static(self, value: Any) -> Value:
        """Return a Python object as a value: numbers and arrays are constants, frozen as Numba does it."""
        if isinstance(value, bool | np.bool_):
            return Scalar(syntax.constant(bool(value)))
        if isinstance(value, int | float | complex) and not isinstance(value, np.generic):
            return Scalar(syntax.constant(value))
        if isinstance(value, tuple):
            return Group.of(type(value), [self.static(v) for v in value])
        if isinstance(value, np.ndarray | np.generic):
            name = next((n for n, held in self.constants.items() if held is value), "")
            if not name:
                name = self.fresh("constant")
                self.constants[name] = value
            kind = self.types.get(name) or context().resolve_value_type(value)
            if isinstance(value, np.generic):
                return Scalar(syntax.name(name, kind))
            self.types[name] = kind
            return Array(name, kind)
        return Static(value)

    def of_Constant(self, node: ast.Constant) -> Any:  # noqa: D102, N802
        return self.static(node.value)

    def of_Name(self, node: ast.Name) -> Value:  # noqa: D102, N802
        found = self.scope.names.get(node.id)
        if found is None:
            if node.id in self.scope.variables:
                return self.scalar(self.scope.variables[node.id])  # type: ignore[no-any-return]
            if node.id in self.scope.assigned and node.id not in self.scope.source.names:
                raise self.fail(f"{node.id} is read before it has a value", "Assign it before")
            try:
                return self.static(self.scope.source.names[node.id])
            except KeyError:
                raise self.fail(f"{node.id} is not defined", "Define it") from None
        if isinstance(found, Lost):
            raise self.fail(found.why, "Make one array before, and write into it")
        if isinstance(found, Array):
            for held in (found.name, self.root(found.name)):
                if held in self.stale:
                    raise self.fail(self.stale[held], "Copy it with `.copy()`")
        if isinstance(found, Scalar) and isinstance(found.node, ast.Name) and found.node.id in self.types:
            return self.scalar(found.node.id)  # type: ignore[no-any-return]
        return found  # type: ignore[no-any-return]

    def of_Known(self, node: Known) -> Value:  # noqa: D102, N802
        return Static(node.value)

    def of_TypeOf(self, node: TypeOf) -> Value:  # noqa: D102, N802
        found = self.scope.names.get(node.id)
        if found is not None and not isinstance(found, Scalar):
            raise self.fail(
                f"{node.id} is no number, and differs from call to call of a recursion",
                "Pass the same arrays to all calls, and places in them as integers",
            )
        inner = found.node.id if found is not None else self.variable(node.id)
        # where it is not known yet, the type that any other takes the place of
        return Static(self.known.get(inner, types.boolean if found is None else found.type))

    def of_Tuple(self, node: ast.Tuple) -> Value:  # noqa: D102, N802
        return Group(self.exprs(node.elts))

    def of_Attribute(self, node: ast.Attribute) -> Any:  # noqa: D102, N802
        base = self.expr(node.value)
        name = node.attr
        if isinstance(base, Static):
            return self.static(getattr(base.value, name))
        if isinstance(base, Group) and name in base.fields:
            return base.items[base.fields.index(name)]
        if isinstance(base, Group) and base.axes and name in {"shape", "size", "ndim"}:
            dims: list[Value] = [Scalar(d) for d in dims_of(base.items[0])[: base.axes]]  # type: ignore[arg-type]
            return Group(dims) if name == "shape" else Scalar(syntax.constant(1)) if not dims else dims[0]
        if isinstance(base, Array | Lazy):
            if name == "shape":
                return Group([Scalar(d) for d in dims_of(base)])
            if name == "ndim":
                return Scalar(syntax.constant(ndim_of(base)))
            if name == "size":
                size: Value = Scalar(syntax.constant(1))
                for d in dims_of(base):
                    size = self.binary(ast.Mult, size, Scalar(d))
                return size
            if name == "dtype":
                return Static(dtype(base))
            if name == "T":
                return self.viewed(base, lambda a: ast.Attribute(a, "T", ast.Load()), node)
            if name in {"real", "imag"}:
                return self.part(name, base)
        if isinstance(base, Scalar) and name in {"real", "imag"}:
            return self.mapped(getattr(np, name), [base])
        raise self.fail(
            f"`{ast.unparse(node)}` has no derivative here", "Use arrays, their shapes and elements"
        )

    def part(self, name: str, x: Value) -> Any:
        """Return the real or imaginary part: of an array it is a view."""
        if name == "real" and isinstance(x, Array) and not syntax.is_complex(x.type):
            return x
        found = self.mapped(getattr(np, name), [x])
        if isinstance(x, Array) and isinstance(found, Lazy):
            found.source, found.cut = x.name, lambda index: self.part(name, self.indexed(x, index))
        return found

    # ---- operators ----------------------------------------------------------------------------------

    def exprs(self, nodes: Sequence[ast.expr]) -> list[Value]:
        """Return several expressions, evaluated in order though kernels called by later ones may write."""
        found: list[Value] = []
        for k, n in enumerate(nodes):
            v = self.expr(n)
            if any(self.calls_kernel(m) for m in nodes[k + 1 :]):
                v = self.kept(v)
            found.append(v)
        return found

    def calls_kernel(self, node: ast.expr) -> bool:
        """Return whether another kernel is called."""
        for n in nodes_of(node):
            if isinstance(n, ast.Call):
                first, *rest = ast.unparse(n.func).split(".")
                here = self.scope.names.get(first)
                known = here.value if isinstance(here, Static) else self.scope.source.names.get(first)
                for part in rest:
                    known = getattr(known, part, None)
                if is_dispatcher(known) or is_dufunc(known) or hasattr(known, "kernel_to_differentiate"):
                    return True
        return False

    def of_BinOp(self, node: ast.BinOp) -> Value:  # noqa: D102, N802
        x, y = self.exprs([node.left, node.right])
        if isinstance(node.op, ast.MatMult):
            return self.library(np.dot, [x, y])
        return self.binary(type(node.op), x, y)

    def binary(self, op: Any, x: Value, y: Value) -> Value:
        """Return an operator applied to numbers or arrays."""
        if op is ast.Add and isinstance(x, Group) and isinstance(y, Group):
            return Group([*x.items, *y.items])
        function = OPERATORS[op]

        def element(a: Any, b: Any) -> Any:
            both = isinstance(a, ast.Constant) and isinstance(b, ast.Constant)
            if both and isinstance(a.value, int) and isinstance(b.value, int) and op in _FOLDED:
                return syntax.constant(function(a.value, b.value))
            return syntax.typed(ast.BinOp(a, op(), b), self.typed_call(function, a.ty, b.ty))

        return self.elementwise(element, [x, y], function)

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:  # noqa: D102, N802
        negated = isinstance(node.op, ast.Not)
        x = self.truth(self.condition(node.operand)) if negated else self.expr(node.operand)
        op = type(node.op)

        def element(a: Any) -> Any:
            if isinstance(a, ast.Constant) and op in {ast.USub, ast.UAdd, ast.Not}:
                return syntax.constant(OPERATORS[op](a.value), None if op is ast.Not else a.ty)  # type: ignore[attr-defined]
            return syntax.typed(ast.UnaryOp(op(), a), self.typed_call(OPERATORS[op], a.ty))

        return self.elementwise(element, [x], None if op is ast.Not else OPERATORS[op])

    def of_Compare(self, node: ast.Compare) -> Value:  # noqa: D102, N802
        if isinstance(node.ops[0], ast.Is | ast.IsNot):
            x, y = self.expr(node.left), self.expr(node.comparators[0])
            none = [isinstance(v, Static) and v.value is None for v in (x, y)]
            same = all(none)
            return Scalar(syntax.constant(same == isinstance(node.ops[0], ast.Is)))
        values = self.exprs([node.left, *node.comparators])
        parts: list[Value] = []
        for op, x, y in zip(node.ops, values[:-1], values[1:], strict=True):
            kind = type(op)
            if kind not in OPERATORS or isinstance(x, Static) or isinstance(y, Static):
                raise self.fail(f"`{ast.unparse(node)}` has no derivative here", "Compare numbers")

            def element(a: Any, b: Any, kind: Any = kind) -> Any:
                self.typed_call(OPERATORS[kind], a.ty, b.ty)
                return syntax.typed(ast.Compare(a, [kind()], [b]), types.boolean)

            parts.append(self.elementwise(element, [x, y]))
        if len(parts) == 1:
            return parts[0]
        return Scalar(syntax.typed(ast.BoolOp(ast.And(), [self.number(p) for p in parts]), types.boolean))

    def of_BoolOp(self, node: ast.BoolOp) -> Value:  # noqa: D102, N802
        *before, found = (self.number(x) for x in self.alternatives(node, self.expr))
        for x in reversed(before):
            if isinstance(x.ty, types.Boolean) and isinstance(found.ty, types.Boolean):
                found = syntax.typed(ast.BoolOp(node.op, [x, found]), types.boolean)
                continue
            ways = (found, x) if isinstance(node.op, ast.And) else (x, found)
            found = syntax.typed(ast.IfExp(self.truth(Scalar(x)).node, *ways), unified(x.ty, found.ty))
        return Scalar(found)

    def condition(self, node: ast.expr) -> Value:
        """Return an expression of which only the truth counts."""
        if not isinstance(node, ast.BoolOp):
            return self.expr(node)
        parts = [self.truth(x).node for x in self.alternatives(node, self.condition)]
        return Scalar(syntax.typed(ast.BoolOp(node.op, parts), types.boolean))

    def alternatives(self, node: ast.BoolOp, form: Callable[[ast.expr], Value]) -> list[Value]:
        """Return the parts of `and` and `or`, of which those behind the first may not be evaluated."""
        parts: list[Value] = []
        for n in node.values:
            before = len(self.out)
            parts.append(form(n))
            if len(parts) > 1 and len(self.out) > before:
                raise self.fail(
                    f"`{ast.unparse(node)}` may not evaluate `{ast.unparse(n)}`, which takes more than a "
                    "formula",
                    "Write it with `if`",
                )
        return parts

    def of_IfExp(self, node: ast.IfExp) -> Value:  # noqa: D102, N802
        test = self.truth(self.condition(node.test))
        if isinstance(test.node, ast.Constant):
            return self.expr(node.body if test.node.value else node.orelse)
        parts, blocks = [], []
        for n in (node.body, node.orelse):
            with self.aside() as block:
                parts.append(self.number(self.expr(n)))
            blocks.append(block)
        x, y = parts
        if not any(blocks):
            return Scalar(syntax.typed(ast.IfExp(test.node, x, y), unified(x.ty, y.ty)))
        held, made = self.held(test.node, "c"), self.fresh("t")
        for value, block in zip(parts, blocks, strict=True):
            self.declare(made, value.ty)
            block.append(Assign(made, value, self.line))
        self.out.append(If(held.node, blocks[0], blocks[1], self.line))
        return self.scalar(made)  # type: ignore[no-any-return]

    def typed_call(self, function: Any, *args: Any) -> Any:
        """Return the type of a call, or raise."""
        try:
            return result_type(function, *args)
        except Exception as error:
            raise self.fail(f"Numba knows no {function.__name__} of {args}", "Use another one") from error

    def number(self, x: Value) -> Any:
        """Return the expression of a scalar."""
        if isinstance(x, Array | Lazy) and not ndim_of(x):
            return item(x, [])
        if not isinstance(x, Scalar):
            raise self.fail("an array or object stands where a number is expected", "Take one element")
        return x.node

    def integer(self, x: Any) -> Any:
        """Return an expression of an integer."""
        node = self.number(x) if not isinstance(x, ast.AST) else x
        ty: Any = getattr(node, "ty", types.intp)
        if not isinstance(ty, types.Integer | types.Boolean):
            raise self.fail(f"`{syntax.text(node)}` is used as an integer", "Convert it with int()")
        return node

    def truth(self, x: Value) -> Scalar:
        """Return whether a number holds."""
        node = self.number(x)
        if isinstance(node.ty, types.Boolean):
            return Scalar(node)
        if isinstance(node, ast.Constant):
            return Scalar(syntax.constant(bool(node.value)))
        return Scalar(syntax.typed(ast.Compare(node, [ast.NotEq()], [ast.Constant(0)]), types.boolean))

    # ---- array expressions --------------------------------------------------------------------------

    def elementwise(self, element: Any, args: Sequence[Value], function: Any = None) -> Value:
        """Return a function of numbers, applied to every element where there are arrays.

        That of arrays may have another dtype than that of numbers.
        """
        for a in args:
            if not isinstance(a, Scalar | Array | Lazy):
                raise self.fail("an operator is applied to what is no number or array", "Convert it before")
        if all(isinstance(a, Scalar) for a in args):
            return Scalar(element(*[a.node for a in args]))  # type: ignore[union-attr]
        dims = self.broadcast([a for a in args if not isinstance(a, Scalar)])  # type: ignore[misc]
        sample = [syntax.constant(0)] * len(dims)
        ty = element(*[fused(a, sample) for a in args]).ty
        if function is not None:
            ty = array_dtype(function, args) or ty
        return Lazy(dims, ty, lambda index: element(*[fused(a, index) for a in args]))

    def broadcast(self, arrays: Sequence[Array | Lazy]) -> list[Any]:
        """Return the lengths of what arrays broadcast to, and check at run time that they agree."""
        n = max(ndim_of(a) for a in arrays)
        found: list[Any] = [None] * n
        for a in arrays:
            dims = dims_of(a)
            for k, d in enumerate(dims, n - len(dims)):
                known = found[k]
                if known is None or is_one(known):
                    found[k] = d
                elif not is_one(d) and syntax.text(known) != syntax.text(d):
                    self.check(known, d)
        return found

    def check(self, x: Any, y: Any) -> None:
        """Demand equal lengths: axes of length one broadcast only where the source says so."""
        held = self.held(syntax.typed(ast.Compare(x, [ast.NotEq()], [y]), types.boolean), "c")
        where = place_of(f"{self.scope.source.file}:{self.line}")
        text = (
            f"{where}: lengths of arrays differ, and derivatives of kernels broadcast axes of length one "
            "only where they are written as x[:, None]"
        )
        error: Any = ast.Raise(ast.Call(ast.Name("ValueError", ast.Load()), [ast.Constant(text)], []), None)
        error.kept = True
        self.out.append(If(held.node, [Raise(error, self.line)], [], self.line))

    @contextmanager
    def nest(self, dims: Sequence[Any], *, columns: bool = False) -> Iterator[list[Any]]:
        """Put what is emitted into loops over all elements, whose indices these are.

        With `columns`, the loop over the first axis is the innermost.
        """
        stops = [self.stable(d) for d in dims]
        names = [self.fresh(x) for x in "ijklmn"[: len(dims)]]
        self.types.update(dict.fromkeys(names, types.intp))
        with self.aside() as body:
            yield [syntax.name(n, types.intp) for n in names]
        loops = list(zip(names, stops, strict=True))
        for n, stop in loops if columns else loops[::-1]:
            body = [For(n, syntax.constant(0), stop, syntax.constant(1), body, self.line)]
        self.out += body

    def new(self, dims: Sequence[Any], ty: Any, base: str = "a", *, zeros: bool = False) -> Array:
        """Emit the allocation of an array."""
        name = self.fresh(self.hint if base == "a" else base)
        kind = array_type(ty, len(dims))
        self.types[name] = kind
        self.forget(name)
        self.out.append(Alloc(name, tuple([self.stable(d) for d in dims]), zeros, self.line))
        return Array(name, kind)

    def materialised(self, x: Value, base: str = "a") -> Array:
        """Return an array expression as an array that has a name."""
        if isinstance(x, Array):
            return x
        if not isinstance(x, Lazy):
            raise self.fail("a number or object stands where an array is expected", "Make an array of it")
        dims = [self.stable(d) for d in x.dims]
        made = self.new(dims, x.dtype, base)
        self.loop_over(made, x)
        return made

    def shared(self, x: Value, base: str = "a") -> Array:
        """Return an array for what shares memory with others: where it is a copy, none may change later."""
        made = self.materialised(x, base)
        if isinstance(x, Lazy) and x.source:
            self.links |= {frozenset((self.root(x.source), made.name))}
        return made

    def loop_over(self, target: Array, x: Value) -> None:
        """Emit loops that store every element."""
        with self.nest(dims_of(target)) as index:
            value = (fused if dtype(x) == target.type.dtype else item)(x, index)
            self.out.append(Store(target.name, tuple(index), value, self.line))

    def copied(self, x: Value, base: str = "a") -> Array:
        """Return a new array with the same elements."""
        if not isinstance(x, Array):
            return self.materialised(x, base)
        return self.materialised(Lazy(dims_of(x), x.type.dtype, lambda i: item(x, i)), base)

    def fill(self, target: Array, value: Value, *, in_place: bool = False, bound: bool = False) -> None:
        """Emit `target[...] = value`, where the source says so, or binds a name anew."""
        if not bound:
            self.demand_writable(target)
        if isinstance(value, Group):
            value = self.stacked(value)
        if isinstance(value, Array | Lazy):
            for have, want in zip(dims_of(value)[::-1], dims_of(target)[::-1], strict=False):
                if not is_one(have) and syntax.text(have) != syntax.text(want):
                    self.check(want, have)
            if not in_place and self.overlaps(target, value):
                value = self.copied(value)
        elif isinstance(value, Scalar) and not isinstance(value.node, ast.Constant):
            value = self.kept(value)
        self.loop_over(target, value)

    def overlaps(self, target: Array, value: Array | Lazy) -> bool:
        """Return whether elements are read that have been written before."""
        index = [syntax.name(f"at_{k}", types.intp) for k in range(ndim_of(target))]
        own = self.root(target.name)
        for n in nodes_of(item(value, index)):
            found = syntax.element_of(n)
            if found and self.root(found[0]) == own:
                same = found[0] == target.name and [syntax.text(i) for i in found[1]] == [
                    syntax.text(i) for i in index
                ]
                if not same:
                    return True
        return False

    def root(self, name: str) -> str:
        """Return the array whose memory a view shares."""
        while name in self.sources:
            name = self.sources[name]
        return name

    def lies_in(self, x: Any, root: str) -> bool:
        """Return whether a value is an array in the memory of another one, or that itself."""
        return isinstance(x, Array) and self.root(x.name) == root

    def rebind(self, name: str, buffer: Array, value: Value) -> None:
        """Let a name that a loop binds anew have other elements: in its buffer, which has no other name."""
        if isinstance(value, Lazy) and value.source:
            raise self.fail(f"{name} is bound to a view inside a loop", "Copy it with `.copy()`")
        if isinstance(value, Scalar | Group | Static) or ndim_of(value) != ndim_of(buffer):
            raise self.fail(f"{name} is an array, and then another kind of value", "Give them two names")
        for n, v in list(self.scope.names.items()):
            if isinstance(v, Lazy) and v.source and self.root(v.source) == buffer.name:
                self.scope.names[n] = Lost(
                    f"{n} is a view of the array that {name} was before line {self.line}"
                )
            if n != name and self.lies_in(v, buffer.name) and v.name != buffer.name:
                self.stale[v.name] = f"{n} is a view of the array that {name} was before line {self.line}"
        self.let_go(name, buffer)
        self.forget(buffer.name)
        if isinstance(value, Array) and self.root(value.name) != buffer.name and self.is_shared("", value):
            self.links |= {frozenset((self.root(value.name), buffer.name))}
        self.fill(buffer, value, bound=True)

    def forget(self, name: str) -> None:
        """Note that an array is a new one."""
        self.links = {pair for pair in self.links if name not in pair}
        self.stale.pop(name, None)

    def note_write(self, x: Array) -> None:
        """Note that arrays which a loop lets be one with this are not what they were."""
        own = self.root(x.name)
        for pair in self.links:
            if own in pair:
                (other,) = pair - {own}
                self.stale[other] = (
                    f"two names of one array are used, and line {self.line} writes to it by one"
                )

    def let_go(self, name: str, buffer: Array) -> None:
        """Give the other names of an array in a buffer a copy of it, before the buffer holds another one."""
        holders = [
            n
            for n, v in self.scope.names.items()
            if n != name and isinstance(v, Array) and v.name == buffer.name
        ]
        if holders:
            kept = self.copied(buffer, holders[0])
            if buffer.name in self.borrowed:
                self.borrowed[kept.name] = self.borrowed[buffer.name]
            for n in holders:
                self.scope.names[n] = kept
        for n, v in list(self.scope.names.items()):
            if isinstance(v, Group) and any(self.lies_in(i, buffer.name) for i in v.items):
                self.scope.names[n] = Lost(f"{n} holds the array that {name} was before line {self.line}")

    def is_shared(self, name: str, array: Array) -> bool:
        """Return whether an array has another name, here or at a caller, or comes from outside."""
        own = self.root(array.name)
        if own in self.outside or own in self.constants:
            return True
        for scope in self.scopes:
            for n, v in scope.names.items():
                if self.lies_in(v, own) and (scope is not self.scope or n != name):
                    return True
                if isinstance(v, Group) and any(self.lies_in(i, own) for i in v.items):
                    return True
        return False

    def arrays(self) -> list[tuple[str, Array]]:
        """Return the arrays that have names here."""
        return [(n, v) for n, v in self.scope.names.items() if isinstance(v, Array)]

    def rows(self, x: Array | Lazy, count: int) -> Group:
        """Return the first elements, or rows, of an array that is taken apart."""
        a = self.shared(x)
        return Group([self.kept(self.indexed(a, [Scalar(syntax.constant(k))])) for k in range(count)])


_FOLDED = {ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod}
