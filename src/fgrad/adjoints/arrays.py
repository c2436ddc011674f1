"""Expressions of kernels: types by Numba, array expressions as what one element is, elements as they are."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types

from fgrad.adjoints import syntax
from fgrad.adjoints.calls import Calls
from fgrad.adjoints.syntax import Alloc, Assign, For, If, Opaque, Raise, Store, View
from fgrad.adjoints.values import (
    Array,
    Group,
    Lazy,
    Lost,
    Scalar,
    Static,
    Value,
    array_type,
    context,
    dims_of,
    dtype,
    item,
    ndim_of,
    result_type,
    unified,
)
from fgrad.compat.numba import is_dispatcher, is_dufunc

OPERATORS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


class Arrays(Calls):
    """Expressions."""

    # ---- names and constants ------------------------------------------------------------------------

    def expr(self, node: ast.expr) -> Value:
        """Return what an expression is."""
        self.line = getattr(node, "lineno", self.line)
        method = getattr(self, f"of_{type(node).__name__}", None)
        if method is None:
            raise self.fail(
                f"`{ast.unparse(node)}` has no derivative here",
                "Expressions are made of numbers, arrays, tuples, and functions of those",
            )
        found: Value = method(node)
        return found

    def static(self, value: Any) -> Value:
        """Return a Python object as a value: numbers and arrays are constants, frozen as Numba does it."""
        if isinstance(value, bool | np.bool_):
            return Scalar(syntax.constant(bool(value)))
        if isinstance(value, int | float | complex) and not isinstance(value, np.generic):
            return Scalar(syntax.constant(value))
        if isinstance(value, tuple):
            return Group([self.static(v) for v in value], getattr(value, "_fields", ()))
        if isinstance(value, np.ndarray | np.generic):
            for known, held in self.constants.items():
                if held is value:
                    kind = self.types.get(known) or context().resolve_value_type(value)
                    return (
                        Array(known, kind)
                        if isinstance(value, np.ndarray)
                        else Scalar(syntax.name(known, kind))
                    )
            name = self.fresh("constant")
            self.constants[name] = value
            kind = context().resolve_value_type(value)
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
            table = self.scope.__dict__.get("variables", {})
            if node.id in table:
                return self.scalar(table[node.id])  # type: ignore[no-any-return]
            if node.id in self.scope.assigned and node.id not in self.scope.source.names:
                raise self.fail(f"{node.id} is read before it has a value", "Assign it before")
            try:
                return self.static(self.scope.source.names[node.id])
            except KeyError:
                raise self.fail(f"{node.id} is not defined", "Define it") from None
        if isinstance(found, Lost):
            raise self.fail(found.why, "Make one array before, and write into it")
        if isinstance(found, Array) and found.name in self.stale:
            raise self.fail(self.stale[found.name], "Copy it with `.copy()`")
        if isinstance(found, Scalar) and isinstance(found.node, ast.Name) and found.node.id in self.types:
            return self.scalar(found.node.id)  # type: ignore[no-any-return]
        return found  # type: ignore[no-any-return]

    def of_Tuple(self, node: ast.Tuple) -> Value:  # noqa: D102, N802
        return Group(self.exprs(node.elts))

    def of_Attribute(self, node: ast.Attribute) -> Any:  # noqa: D102, N802
        base = self.expr(node.value)
        name = node.attr
        if isinstance(base, Static):
            return self.static(getattr(base.value, name))
        if isinstance(base, Group) and name in base.fields:
            return base.items[base.fields.index(name)]
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
                return self.mapped(getattr(np, name), [base])
        if isinstance(base, Scalar) and name in {"real", "imag"}:
            return self.mapped(getattr(np, name), [base])
        raise self.fail(
            f"`{ast.unparse(node)}` has no derivative here", "Use arrays, their shapes and elements"
        )

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
        for n in ast.walk(node):
            if isinstance(n, ast.Call):
                known: Any = self.scope.source.names
                for part in ast.unparse(n.func).split("."):
                    known = known.get(part) if isinstance(known, dict) else getattr(known, part, None)
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

        return self.elementwise(element, [x, y])

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:  # noqa: D102, N802
        x = self.expr(node.operand)
        if isinstance(node.op, ast.Not):
            x = self.truth(x)
        op = type(node.op)

        def element(a: Any) -> Any:
            if isinstance(a, ast.Constant) and op in {ast.USub, ast.UAdd, ast.Not}:
                return syntax.constant(OPERATORS[op](a.value), None if op is ast.Not else _type(a))
            return syntax.typed(ast.UnaryOp(op(), a), self.typed_call(OPERATORS[op], a.ty))

        return self.elementwise(element, [x])

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
        parts = []
        for k, n in enumerate(node.values):
            before = len(self.out)
            parts.append(self.truth(self.expr(n)).node)
            if k and len(self.out) > before:
                raise self.fail(
                    f"`{ast.unparse(node)}` may not evaluate `{ast.unparse(n)}`, which takes more than a "
                    "formula",
                    "Write it with `if`",
                )
        return Scalar(syntax.typed(ast.BoolOp(node.op, parts), types.boolean))

    def of_IfExp(self, node: ast.IfExp) -> Value:  # noqa: D102, N802
        test = self.truth(self.expr(node.test))
        if isinstance(test.node, ast.Constant):
            return self.expr(node.body if test.node.value else node.orelse)
        outer, parts, blocks = self.out, [], []
        for n in (node.body, node.orelse):
            self.out = []
            parts.append(self.number(self.expr(n)))
            blocks.append(self.out)
        self.out = outer
        x, y = parts
        if not any(blocks):
            return Scalar(syntax.typed(ast.IfExp(test.node, x, y), unified(x.ty, y.ty)))
        held, made = self.fresh("c"), self.fresh("t")
        self.assign(held, test.node)
        for value, block in zip(parts, blocks, strict=True):
            self.declare(made, value.ty)
            block.append(Assign(made, value, self.line))
        self.out.append(If(self.scalar(held).node, blocks[0], blocks[1], self.line))
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

    def elementwise(self, element: Any, args: Sequence[Value]) -> Value:
        """Return a function of numbers, applied to every element where there are arrays."""
        for a in args:
            if not isinstance(a, Scalar | Array | Lazy):
                raise self.fail("an operator is applied to what is no number or array", "Convert it before")
        if all(isinstance(a, Scalar) for a in args):
            return Scalar(element(*[a.node for a in args]))  # type: ignore[union-attr]
        dims = self.broadcast([a for a in args if not isinstance(a, Scalar)])  # type: ignore[misc]
        sample = [syntax.constant(0)] * len(dims)
        ty = element(*[item(a, sample) for a in args]).ty
        return Lazy(dims, ty, lambda index: element(*[item(a, index) for a in args]))

    def broadcast(self, arrays: Sequence[Array | Lazy]) -> list[Any]:
        """Return the lengths of what arrays broadcast to, and check at run time that they agree."""
        n = max(ndim_of(a) for a in arrays)
        found: list[Any] = [None] * n
        for a in arrays:
            dims = dims_of(a)
            for k, d in enumerate(dims, n - len(dims)):
                known = found[k]
                one = isinstance(d, ast.Constant) and d.value == 1
                if known is None or (isinstance(known, ast.Constant) and known.value == 1):
                    found[k] = d
                elif not one and syntax.text(known) != syntax.text(d):
                    self.check(known, d)
        return found

    def check(self, x: Any, y: Any) -> None:
        """Demand equal lengths: axes of length one broadcast only where the source says so."""
        held = self.fresh("c")
        self.assign(held, syntax.typed(ast.Compare(x, [ast.NotEq()], [y]), types.boolean))
        where = f"{self.scope.source.file}:{self.line}"
        text = (
            f"{where}: lengths of arrays differ, and derivatives of kernels broadcast axes of length one "
            "only where they are written as x[:, None]"
        )
        error: Any = ast.Raise(ast.Call(ast.Name("ValueError", ast.Load()), [ast.Constant(text)], []), None)
        error.kept = True
        self.out.append(If(self.scalar(held).node, [Raise(error, self.line)], [], self.line))

    def nest(self, dims: Sequence[Any]) -> tuple[list[Any], Any]:
        """Return the indices of loops over all elements, and what puts a statement into them."""
        stops = [self.stable(d) for d in dims]
        names = [self.fresh(x) for x in "ijklmn"[: len(dims)]]
        for n in names:
            self.types[n] = types.intp

        def around(body: list[Any]) -> list[Any]:
            for n, stop in zip(reversed(names), reversed(stops), strict=True):
                body = [For(n, syntax.constant(0), stop, syntax.constant(1), body, self.line)]
            return body

        return [syntax.name(n, types.intp) for n in names], around

    def new(self, dims: Sequence[Any], ty: Any, base: str = "a", *, zeros: bool = False) -> Array:
        """Emit the allocation of an array."""
        name = self.fresh(self.hint if base == "a" else base)
        kind = array_type(ty, len(dims))
        self.types[name] = kind
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

    def loop_over(self, target: Array, x: Value) -> None:
        """Emit loops that store every element."""
        index, around = self.nest(dims_of(target))
        outer, self.out = self.out, []
        value = item(x, index)
        self.out.append(Store(target.name, tuple(index), value, self.line))
        body, self.out = self.out, outer
        self.out += around(body)

    def copied(self, x: Value, base: str = "a") -> Array:
        """Return a new array with the same elements."""
        if not isinstance(x, Array):
            return self.materialised(x, base)
        return self.materialised(Lazy(dims_of(x), x.type.dtype, lambda i: item(x, i)), base)

    def fill(self, target: Array, value: Value) -> None:
        """Emit `target[...] = value`."""
        if isinstance(value, Group):
            value = self.stacked(value)
        if isinstance(value, Array | Lazy):
            for have, want in zip(dims_of(value)[::-1], dims_of(target)[::-1], strict=False):
                one = isinstance(have, ast.Constant) and have.value == 1
                if not one and syntax.text(have) != syntax.text(want):
                    self.check(want, have)
            if self.overlaps(target, value):
                value = self.copied(value)
        elif isinstance(value, Scalar) and not isinstance(value.node, ast.Constant):
            value = self.kept(value)
        self.loop_over(target, value)

    def overlaps(self, target: Array, value: Array | Lazy) -> bool:
        """Return whether elements are read that have been written before."""
        index = [syntax.name(f"at_{k}", types.intp) for k in range(ndim_of(target))]
        own = self.root(target.name)
        for n in ast.walk(item(value, index)):
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
        table: dict[str, str] = self.__dict__.setdefault("sources", {})
        while name in table:
            name = table[name]
        return name

    def rebind(self, name: str, buffer: Array, value: Value) -> None:
        """Let a name that a loop binds anew have other elements: in its buffer, which has no other name."""
        if isinstance(value, Array) and value.name != buffer.name:
            own = self.root(value.name)
            held = [
                n for n, v in self.scope.names.items() if isinstance(v, Array) and self.root(v.name) == own
            ]
            for n in held:
                self.stale[self.scope.names[n].name] = (
                    f"{n} and {name} are one array from line {self.line} on, inside a loop"
                )
        if isinstance(value, Scalar | Group | Static) or ndim_of(value) != ndim_of(buffer):
            raise self.fail(f"{name} is an array, and then another kind of value", "Give them two names")
        for n, v in self.scope.names.items():
            if (
                n != name
                and isinstance(v, Array)
                and v.name != buffer.name
                and self.root(v.name) == buffer.name
            ):
                self.stale[v.name] = f"{n} is a view of the array that {name} was before line {self.line}"
        self.fill(buffer, value)

    def arrays(self) -> list[tuple[str, Array]]:
        """Return the arrays that have names here."""
        return [(n, v) for n, v in self.scope.names.items() if isinstance(v, Array)]

    def rows(self, x: Array | Lazy, count: int) -> Group:
        """Return the first elements, or rows, of an array that is taken apart."""
        a = self.materialised(x)
        return Group([self.kept(self.indexed(a, [Scalar(syntax.constant(k))])) for k in range(count)])

    # ---- indices ------------------------------------------------------------------------------------

    def indices(self, node: ast.expr) -> list[Any]:
        """Return the parts of an index: values, slices, None and Ellipsis."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        found: list[Any] = []
        for p in parts:
            if isinstance(p, ast.Slice):
                ends = [None if e is None else self.integer(self.expr(e)) for e in (p.lower, p.upper, p.step)]
                found.append(ast.Slice(*ends))
            else:
                v = self.expr(p)
                found += v.items if isinstance(v, Group) else [v]
        return found

    def of_Subscript(self, node: ast.Subscript) -> Value:  # noqa: D102, N802
        base = self.expr(node.value)
        if isinstance(base, Group):
            index = self.expr(node.slice) if not isinstance(node.slice, ast.Slice) else None
            if index is None:
                cut: Any = node.slice
                ends = [
                    None if e is None else self.number(self.expr(e)).value
                    for e in (cut.lower, cut.upper, cut.step)
                ]
                return Group(base.items[slice(*ends)])
            if isinstance(index, Scalar) and isinstance(index.node, ast.Constant):
                place: Any = index.node.value
                return base.items[place]  # type: ignore[no-any-return]
            return self.chosen(base, index)
        return self.indexed(base, self.indices(node.slice))

    def chosen(self, base: Group, index: Value) -> Value:
        """Return one number of a tuple, by an index that is not known before."""
        items = [self.number(v) for v in base.items]
        node = self.stable(self.integer(index))
        found = items[-1]
        for k in range(len(items) - 2, -1, -1):
            test = syntax.typed(ast.Compare(node, [ast.Eq()], [ast.Constant(k)]), types.boolean)
            found = syntax.typed(ast.IfExp(test, items[k], found), unified(items[k].ty, found.ty))
        return Scalar(found)

    def indexed(self, base: Value, index: Sequence[Any]) -> Value:
        """Return an element, a view, or a selection by integers."""
        if isinstance(base, Lazy):
            base = self.materialised(base)
        if not isinstance(base, Array):
            raise self.fail("an index is applied to what is no array", "Index arrays and tuples")
        index = self.whole(base, index)
        if all(isinstance(i, Scalar) for i in index):
            return Scalar(syntax.load(base.name, [self.integer(i) for i in index], base.type.dtype))
        fancy = [i for i in index if isinstance(i, Array | Lazy)]
        if fancy:
            return self.selection(base, index, fancy)
        return self.view(base, index)

    def whole(self, base: Array, index: Sequence[Any]) -> list[Any]:
        """Return an index with as many parts as axes."""
        parts = list(index)
        dots = [k for k, i in enumerate(parts) if isinstance(i, Static) and i.value is Ellipsis]
        named = sum(not (isinstance(i, Static) and i.value in {None, Ellipsis}) for i in parts)
        missing = [ast.Slice(None, None, None)] * (base.type.ndim - named)
        if base.type.ndim < named:
            raise self.fail(f"an array with {base.type.ndim} axes gets {named} indices", "Index its axes")
        if dots:
            return parts[: dots[0]] + missing + parts[dots[0] + 1 :]
        return parts + missing

    def view(self, base: Array, index: Sequence[Any]) -> Value:
        """Return a view by integers and slices; new axes are those of an array expression."""
        if any(isinstance(i, Static) for i in index):
            plain = [i for i in index if not isinstance(i, Static)]
            under = self.indexed(base, plain)
            kept = [i for i in index if isinstance(i, Static | ast.Slice)]
            places = [k for k, i in enumerate(kept) if not isinstance(i, Static)]
            under_dims = [] if isinstance(under, Scalar) else dims_of(under)  # type: ignore[arg-type]
            dims: list[Any] = [syntax.constant(1)] * len(kept)
            for k, d in zip(places, under_dims, strict=True):
                dims[k] = d
            return Lazy(dims, dtype(under), lambda at: item(under, [at[k] for k in places]))
        if not self.sliced(index):
            return base
        nodes: list[ast.expr] = []
        kinds: list[Any] = []
        for i in index:
            if isinstance(i, ast.Slice):
                ends = [None if e is None else self.stable(e) for e in (i.lower, i.upper, i.step)]
                nodes.append(ast.Slice(*ends))
                kinds.append(types.slice2_type if i.step is None else types.slice3_type)
            else:
                nodes.append(self.stable(self.integer(i)))
                kinds.append(types.intp)
        where: Any = nodes[0] if len(nodes) == 1 else ast.Tuple(nodes, ast.Load())
        form = ast.Subscript(ast.Name(base.name, ast.Load()), where, ast.Load())
        kind = kinds[0] if len(kinds) == 1 else types.Tuple(kinds)
        return self.new_view(base, form, self.typed_call(operator.getitem, base.type, kind))

    def sliced(self, index: Sequence[Any]) -> bool:
        """Return whether an index leaves anything out."""
        return any(not isinstance(i, ast.Slice) or i.lower or i.upper or i.step for i in index)

    def new_view(self, base: Array, form: Any, ty: Any) -> Array:
        """Emit a view."""
        name = self.fresh("v")
        self.types[name] = ty
        self.__dict__.setdefault("sources", {})[name] = base.name
        self.out.append(View(name, base.name, form, self.line))
        return Array(name, ty)

    def viewed(self, x: Array | Lazy, form: Any, node: Any) -> Value:
        """Return a view that an attribute or method of an array makes."""
        a = self.materialised(x)
        made = form(ast.Name(a.name, ast.Load()))
        kind: Any = context().resolve_getattr(a.type, "T")
        if kind is None:
            raise self.fail(f"Numba knows no `{ast.unparse(node)}`", "Use another view")
        return self.new_view(a, made, kind)

    def selection(self, base: Array, index: Sequence[Any], fancy: Sequence[Any]) -> Value:
        """Return elements by an array of integers."""
        if len(fancy) > 1 or ndim_of(fancy[0]) != 1 or not isinstance(dtype(fancy[0]), types.Integer):
            raise self.fail(
                "an array is indexed by truth values, or by several arrays",
                "Write the loop over the elements",
            )
        places = self.materialised(fancy[0])
        at = next(k for k, i in enumerate(index) if isinstance(i, Array | Lazy))
        if self.sliced([i for k, i in enumerate(index) if k != at]):
            raise self.fail("an index mixes an array with others", "Take the slice first")
        dims: list[Any] = dims_of(base)
        dims[at] = syntax.dimension(places.name, 0)

        def element(where: Sequence[Any]) -> Any:
            inner = list(where)
            inner[at] = syntax.load(places.name, [where[at]], places.type.dtype)
            return syntax.load(base.name, inner, base.type.dtype)

        return Lazy(dims, base.type.dtype, element)

    def put(self, base: Value, index: Sequence[Any], value: Value) -> None:
        """Emit `base[index] = value`."""
        if not isinstance(base, Array):
            raise self.fail("elements are written of what is no array", "Write to arrays that have a name")
        if not base.type.mutable or base.name in self.constants:
            raise self.fail(f"the constant array {base.name} is written to", "Pass it as an argument")
        index = self.whole(base, index)
        if all(isinstance(i, Scalar) for i in index):
            where = tuple([self.stable_index(i) for i in index])
            node = self.number(value)
            if syntax.is_complex(node.ty) and not syntax.is_complex(base.type):
                raise self.fail("a complex number is stored in a real array", "Store its real part")
            self.out.append(Store(base.name, where, node, self.line))
            return
        fancy = [i for i in index if isinstance(i, Array | Lazy)]
        if fancy:
            chosen = self.selection(base, index, fancy)
            assert isinstance(chosen, Lazy)  # noqa: S101 -- as `selection` says
            if isinstance(value, Array | Lazy):
                value = self.copied(value)
                self.broadcast([chosen, value])
            else:
                value = self.kept(value)
            at, around = self.nest(chosen.dims)
            target: Any = syntax.element_of(chosen.element(at))
            self.out += around([Store(base.name, target[1], item(value, at), self.line)])
            return
        view = self.view(base, index)
        if not isinstance(view, Array):
            raise self.fail("new axes are written to", "Index the axes that there are")
        self.fill(view, value)

    def stable_index(self, i: Any) -> Any:
        """Return a part of an index."""
        return self.integer(i)

    def opaque(self, node: Any, ty: Any) -> Array:
        """Emit a new array without derivatives."""
        name = self.fresh("p")
        self.types[name] = ty
        self.out.append(Opaque(name, node, self.line))
        return Array(name, ty)


_FOLDED = {ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod}


def _type(node: Any) -> Any:
    return node.ty
