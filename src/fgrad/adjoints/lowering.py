"""From the source of a kernel to the language of `syntax`, for arguments of certain types."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from numba import types

from fgrad.adjoints import slopes, syntax
from fgrad.adjoints.jumps import RESULT
from fgrad.adjoints.loops import Loops
from fgrad.adjoints.sources import Scope, demand_frozen, source_of
from fgrad.adjoints.syntax import (
    Assign,
    Function,
    If,
    Param,
    Raise,
    Stmt,
    Store,
    UnsupportedKernelError,
)
from fgrad.adjoints.values import (
    Array,
    Group,
    Lazy,
    Lost,
    Scalar,
    Static,
    Value,
    cast,
    context,
    unified,
)
from fgrad.compat.numba import declared_signature, is_declared, is_dispatcher, only_signature

_NOTHING: Mapping[str, Any] = MappingProxyType({})
PASSES = 20  # over a kernel, until the types of its variables are known


class Lowering(Loops):
    """One pass over a kernel; passes are repeated until the types of variables stay as they are."""

    def __init__(
        self, types_before: dict[str, Any], carried: dict[int, set[str]], marks: dict[int, Any]
    ) -> None:
        self.known, self.carried, self.marks = types_before, carried, marks
        self.types: dict[str, Any] = {}
        self.constants: dict[str, Any] = {}
        self.used: set[str] = set(slopes.RESERVED)
        self.out: list[Stmt] = []
        self.scopes: list[Scope] = []
        self.again = False
        self.loops: set[str] = set()  # variables of loops around
        self.line = 0
        self.stale: dict[str, str] = {}
        self.records: set[str] = set()  # arrays that are fields of records
        self.outside: set[str] = set()  # arrays that are arguments
        self.borrowed: dict[str, str] = {}  # arrays that must not be written to, as they may be others
        self.links: set[frozenset[str]] = set()  # buffers, and arrays that a loop binds to their names
        self.hint = "a"  # what to call an array that is made
        self.sources: dict[str, str] = {}  # arrays by the names of their views
        self.met: Counter[Any] = Counter()  # how often a loop was met
        self.for_arrays: set[ast.ListComp] = set()  # comprehensions that become arrays
        self.refuses = False  # whether the kernel raises or asserts
        self.declared: list[tuple[Scope, Mapping[str, Any]]] = []  # functions with types of variables

    # ---- names and types ----------------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        """The function that is lowered."""
        return self.scopes[-1]

    def fail(self, what: str, remedy: str) -> UnsupportedKernelError:
        """Return the error for what has no derivative, at the current line."""
        source = self.scope.source
        return syntax.unsupported(source.file, self.line, source.name, f"{what}. {remedy}")

    def fresh(self, base: str) -> str:
        """Return a name that nobody has."""
        return syntax.fresh(base.replace(".", ""), self.used)  # "." is in names that no user gives

    def declare(self, name: str, ty: Any) -> None:
        """Note what a variable holds, here or elsewhere."""
        ty = types.unliteral(ty)
        before = self.types.get(name)
        if before is None:
            self.types[name] = ty
            return
        joined = unified(before, ty)
        if joined is None:
            raise self.fail(f"{name} holds values of types {before} and {ty}", "Give them two names")
        self.types[name] = joined

    def scalar(self, name: str) -> Scalar:
        """Return a scalar variable; its type is that of the pass before."""
        ty = self.types.get(name)
        before = self.known.get(name)
        if before is not None:
            ty = before if ty is None else unified(before, ty) or ty
        return Scalar(syntax.name(name, types.intp if ty is None else ty))

    def assign(self, name: str, value: Any) -> None:
        """Emit an assignment of an expression to a scalar."""
        self.declare(name, value.ty)
        self.out.append(Assign(name, value, self.line))

    def held(self, node: Any, base: str) -> Scalar:
        """Return a new variable that has the value of an expression."""
        name = self.fresh(base)
        self.assign(name, node)
        return self.scalar(name)

    def kept(self, x: Value, base: str = "t") -> Value:
        """Return a value that later writes do not change."""
        if isinstance(x, Scalar):
            if isinstance(x.node, ast.Constant):
                return x
            return self.held(x.node, base)
        if isinstance(x, Group):
            return replace(x, items=[self.kept(i, base) for i in x.items])
        if isinstance(x, Lazy) and x.source:
            return self.steady(x)
        return self.materialised(x) if isinstance(x, Lazy) else x

    def steady(self, x: Lazy) -> Lazy:
        """Return a view whose lengths stay what they are."""
        return Lazy([self.stable(d) for d in x.dims], x.dtype, x.element, x.source, x.cut)

    def stable(self, node: Any, base: str = "n") -> Any:
        """Return an expression whose value stays what it is as long as the block runs."""
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.Name) and node.id not in self.changing():
            return node
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            return node
        return self.held(node, base).node

    def demand_types(self) -> None:
        """Refuse variables to which `locals=` gives another type than their values have."""
        for scope, declared in self.declared:
            for name, ty in declared.items():
                held = scope.names.get(name)
                inner = scope.variables.get(name, "")
                found = self.types.get(inner, held.type if isinstance(held, Scalar | Array) else ty)
                if found != ty:
                    self.scopes, self.line = [scope], scope.source.first
                    raise self.fail(
                        f"`locals=` makes {name} a {ty}, which is a {found}", "Convert its values"
                    )

    # ---- functions ----------------------------------------------------------------------------------

    def dispatched(self, dispatcher: Any, args: Sequence[Value], keywords: dict[str, Value]) -> Value:
        """Return what a call of another kernel gives, in the types that it was declared with."""
        demand_frozen(dispatcher)
        function, declared = dispatcher.py_func, dispatcher.locals
        if not is_declared(dispatcher):
            return self.inline(function, args, keywords, declared)
        bound = self.bind(function, args, keywords)
        kinds = [self.kind(x) for x in bound.values()]
        found = None if None in kinds else declared_signature(dispatcher, kinds)
        found = found or only_signature(dispatcher)
        if found is None:
            raise self.fail(
                f"{function.__name__} was declared with several types, and none is that of its arguments",
                "Declare it with one",
            )
        given = [self.converted(x, ty) for x, ty in zip(bound.values(), found.args, strict=True)]
        return self.converted(self.inline(function, given, {}, declared), found.return_type)

    def kind(self, x: Value) -> Any:
        """Return Numba's type of a value; None where there is none."""
        if isinstance(x, Group):
            kinds = [self.kind(i) for i in x.items]
            return None if x.fields or x.axes or x.listed or None in kinds else types.Tuple(kinds)
        if isinstance(x, Static):
            return types.none if x.value is None else context().resolve_value_type(x.value)
        if isinstance(x, Lazy):
            return types.Array(x.dtype, len(x.dims), "C")
        return None if isinstance(x, Lost) else x.type

    def converted(self, x: Value, wanted: Any) -> Value:
        """Return a value in a declared type, with numbers as Numba converts them."""
        ty: Any = types.unliteral(wanted)
        ty = ty.type if isinstance(ty, types.Optional) else ty
        if isinstance(x, Scalar) and isinstance(ty, types.Number | types.Boolean):
            return Scalar(cast(x.node, ty))
        if isinstance(x, Group) and isinstance(ty, types.BaseTuple) and not x.axes:
            kinds: Any = ty
            return replace(x, items=[self.converted(i, t) for i, t in zip(x.items, kinds, strict=True)])
        return x

    def inline(
        self,
        function: Callable[..., Any],
        args: Sequence[Value],
        keywords: dict[str, Value],
        declared: Mapping[str, Any] = _NOTHING,
    ) -> Value:
        """Return what a call of another kernel gives: its statements take the place of the call."""
        source = source_of(function)
        if any(s.source.function is function for s in self.scopes):
            raise self.fail(
                f"{source.name} calls itself by way of others", "Let it call itself directly, or write a loop"
            )
        if len(self.scopes) > 30:
            raise self.fail("calls are nested too deeply", "Write the recursion as a loop")
        scope = Scope(source)
        bound = self.bind(function, args, keywords)
        line = self.line
        self.scopes.append(scope)
        depth, self.depth = self.depth, 0
        hint, self.hint = self.hint, "a"
        for name, given in bound.items():
            value = given if isinstance(given, Array) or self.is_turn(given) else self.kept(given, name)
            if isinstance(value, Scalar) and name in scope.assigned:
                value = self.held(value.node, name)
                scope.variables[name] = value.node.id
            elif name in scope.assigned and _has_numbers_alone(value):
                value = self.bind_parts(name, value)
            scope.names[name] = value
        self.block(scope.body)
        if declared:
            self.declared.append((scope, declared))
        self.scopes.pop()
        self.line, self.depth, self.hint = line, depth, hint
        return scope.result

    def is_turn(self, x: Value) -> bool:
        """Return whether a value is the variable of a loop around, which nobody changes."""
        return isinstance(x, Scalar) and isinstance(x.node, ast.Name) and x.node.id in self.loops

    def bind(
        self, function: Callable[..., Any], args: Sequence[Value], keywords: dict[str, Value]
    ) -> dict[str, Value]:
        """Return arguments by the names of parameters."""
        signature = inspect.signature(function)
        try:
            bound = signature.bind(*args, **keywords)
        except TypeError as error:
            raise self.fail(
                f"the call of {function.__name__} does not fit: {error}", "Call it by its signature"
            ) from None
        for p in signature.parameters.values():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise self.fail(f"{function.__name__} takes any number of arguments", "Name its parameters")
            if p.name not in bound.arguments:
                bound.arguments[p.name] = self.static(p.default)
        return {name: bound.arguments[name] for name in signature.parameters}

    # ---- statements ---------------------------------------------------------------------------------

    def block(self, stmts: Sequence[ast.stmt]) -> None:
        """Lower statements one after the other."""
        for s in stmts:
            self.line = getattr(s, "lineno", self.line)
            method = getattr(self, f"on_{type(s).__name__}", None)
            if method is None:
                raise self.refused(s)
            method(s)

    def on_Pass(self, s: ast.Pass) -> None:  # noqa: D102, N802
        del s

    def on_Expr(self, s: ast.Expr) -> None:  # noqa: D102, N802
        prints = isinstance(s.value, ast.Call) and ast.unparse(s.value.func) == "print"
        if not prints and not isinstance(s.value, ast.Constant):
            self.expr(s.value)

    def on_Raise(self, s: ast.Raise) -> None:  # noqa: D102, N802
        self.refuses = True
        self.out.append(Raise(s, s.lineno))

    def on_Assert(self, s: ast.Assert) -> None:  # noqa: D102, N802
        del s  # the kernel has run before its derivative does
        self.refuses = True

    def on_AnnAssign(self, s: ast.AnnAssign) -> None:  # noqa: D102, N802
        if s.value is not None:
            self.store_to(s.target, self.expr(s.value))

    def on_Assign(self, s: ast.Assign) -> None:  # noqa: D102, N802
        only = s.targets[0] if len(s.targets) == 1 else None
        self.hint = only.id if isinstance(only, ast.Name) and only.id != RESULT else "a"
        value = self.expr(s.value)
        self.hint = "a"
        if len(s.targets) > 1 or any(self.calls_kernel(t) for t in s.targets):
            value = self.kept(value)
        for target in s.targets:
            self.store_to(target, value)

    def on_AugAssign(self, s: ast.AugAssign) -> None:  # noqa: D102, N802
        if isinstance(s.target, ast.Subscript):
            base = self.expr(s.target.value)
            index = self.indices(s.target.slice)
            if self.calls_kernel(s.value):  # which may write to what is read first
                index = [self.kept(i) if isinstance(i, Scalar) else i for i in index]
                here = self.kept(self.indexed(base, index))
            else:
                here = self.indexed(base, index)
            if isinstance(here, Array) and not any(isinstance(i, Array | Lazy) for i in index):
                self.update(here, type(s.op), self.expr(s.value))
            else:
                self.put(base, index, self.binary(type(s.op), here, self.expr(s.value)))
            return
        here, value = self.expr(s.target), self.expr(s.value)
        if isinstance(here, Lazy):
            raise self.fail(
                f"`{ast.unparse(s.target)}` is a view that is written to", "Write to the array itself"
            )
        if isinstance(here, Array):
            self.update(here, type(s.op), value)
        else:
            self.store_to(s.target, self.binary(type(s.op), here, value))

    def update(self, target: Array, op: type, value: Value) -> None:
        """Emit `target += value` as Numba does it: an array that overlaps is read while it is written to."""
        if isinstance(value, Scalar):
            value = self.kept(value)
        elif isinstance(value, Lazy) and not value.source and self.overlaps(target, value):
            value = self.copied(value)
        self.fill(target, self.binary(op, target, value), in_place=True)

    def store_to(self, target: ast.expr, value: Value) -> None:
        """Assign a value to a target."""
        if isinstance(target, ast.Name):
            self.bind_name(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, value)
        elif isinstance(target, ast.Subscript):
            self.put(self.expr(target.value), self.indices(target.slice), value)
        else:
            raise self.fail(
                f"`{ast.unparse(target)}` is written to", "Write to variables and to elements of arrays"
            )

    def unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        """Assign to several targets at once."""
        if isinstance(value, Array | Lazy):
            value = self.rows(value, len(target.elts))
        if not isinstance(value, Group) or len(value.items) != len(target.elts):
            raise self.fail(f"`{ast.unparse(target)}` is assigned no tuple of its length", "Name the parts")
        exchanged = [v for v in value.items if isinstance(v, Array)]
        lent = [self.borrowed[v.name] for v in exchanged if v.name in self.borrowed]
        names = [t.id for t in target.elts if isinstance(t, ast.Name)]
        kept: list[Value] = []
        for t, v in zip(target.elts, value.items, strict=True):
            carried = isinstance(t, ast.Name) and t.id in self.scope.carried
            if isinstance(v, Array) and carried and len(exchanged) > 1 and len(names) > 1:
                if lent:
                    raise self.fail(lent[0], "Copy it with `.copy()` before the loop")
                kept.append(self.copied(v))  # arrays change places
            else:
                kept.append(v if isinstance(v, Scalar) and len(target.elts) == 1 else self.kept(v))
        for t, v in zip(target.elts, kept, strict=True):
            self.store_to(t, v)

    def bind_name(self, name: str, value: Value) -> None:
        """Let a name stand for a value."""
        if name == RESULT:
            self.scope.result = self.kept_result(self.scope.result, value)
            return
        before = self.scope.names.get(name)
        if isinstance(value, Scalar):
            if isinstance(before, Array):
                raise self.fail(f"{name} is an array and then a number", "Give them two names")
            if isinstance(before, Scalar) and isinstance(before.node, ast.Name) and not self.is_turn(before):
                inner = before.node.id
            else:
                inner = self.variable(name)
            self.assign(inner, value.node)
            self.scope.names[name] = self.scalar(inner)
            return
        if isinstance(before, Array) and name in self.scope.carried:
            self.rebind(name, before, value)
            return
        if isinstance(value, Lazy):
            value = self.steady(value) if value.source else self.materialised(value, name)
        if isinstance(value, Group):
            value = self.kept(value, name)
            if self.scope.stores[name] > 1 and _has_numbers_alone(value):
                value = self.bind_parts(name, value)
        self.scope.names[name] = value

    def bind_parts(self, name: str, value: Any) -> Any:
        """Return a tuple of numbers as variables, which a name that is bound anew keeps."""
        items: list[Value] = []
        for k, x in enumerate(value.items):
            part = f"{name}.{k}"
            if isinstance(x, Group):
                items.append(self.bind_parts(part, x))
            else:
                inner = self.variable(part)
                self.assign(inner, x.node)
                items.append(self.scalar(inner))
        return replace(value, items=items)

    def variable(self, name: str) -> str:
        """Return the name of the scalar that a name of this function is."""
        table = self.scope.variables
        if name not in table:
            table[name] = self.fresh(name)
        return table[name]

    def kept_result(self, before: Any, value: Value) -> Value:
        """Return the variable of one returned value."""
        if isinstance(value, Static) and value.value is None:
            return value
        if isinstance(value, Lazy):
            value = self.shared(value, "result")
        if isinstance(value, Array):
            if isinstance(before, Array) and before.name != value.name:
                raise self.fail(
                    "arrays are returned from several places",
                    "Write into one array, and return it at the end",
                )
            if self.depth:
                raise self.fail("an array is returned from inside a loop or branch", "Return it at the end")
            return value
        if isinstance(value, Group) and (value.listed or (value.fields and not value.named)):
            raise self.fail("a list, or a record, is returned", "Return a tuple or arrays")
        if isinstance(value, Group):
            parts = before.items if isinstance(before, Group) else [None] * len(value.items)
            if len(parts) != len(value.items):
                raise self.fail("returned tuples differ in length", "Return tuples of one length")
            items = [self.kept_result(p, v) for p, v in zip(parts, value.items, strict=True)]
            return replace(value, items=items)
        if not isinstance(value, Scalar):
            raise self.fail("what it returns is no number, array, or tuple of those", "Return those")
        if isinstance(before, Scalar):
            self.assign(before.node.id, value.node)
            return self.scalar(before.node.id)
        return self.held(value.node, "result")

    depth = 0  # of blocks

    def branch(self, stmts: Sequence[ast.stmt]) -> tuple[list[Stmt], dict[str, Value]]:
        """Return a block and what names stand for behind it."""
        before = dict(self.scope.names)
        with self.aside(deeper=True) as body:
            self.block(stmts)
        after, self.scope.names = self.scope.names, before
        return body, after

    def on_If(self, s: ast.If) -> None:  # noqa: D102, N802
        value = self.condition(s.test)
        if isinstance(value, Static | Group):
            known = value.value if isinstance(value, Static) else value.items
            self.block(s.body if known else s.orelse)
            return
        test = self.truth(value).node
        if isinstance(test, ast.Constant):
            self.block(s.body if test.value else s.orelse)
            return
        test = self.stable(test, "c")
        line = self.line
        names, carried = self.carried.setdefault(self.key(s), set()), set(self.scope.carried)
        self.bind_anew(names, line)
        before = dict(self.scope.names)
        body, after = self.branch(s.body)
        orelse, other = self.branch(s.orelse)
        self.scope.carried = carried
        for n, v in before.items():
            x, y = after.get(n), other.get(n)
            both = isinstance(v, Array) and isinstance(x, Array) and isinstance(y, Array)
            if both and not _same(x, y) and n not in names:
                names.add(n)
                self.again = True
        self.scope.names = self.merged(after, other, line)
        self.out.append(If(test, body, orelse, line))

    def changing(self) -> set[str]:
        """Return variables that may change while a block runs: the source assigns them more than once."""
        return {inner for name, inner in self.scope.variables.items() if self.scope.stores.get(name, 0) != 1}

    def merged(self, one: dict[str, Value], other: dict[str, Value], line: int) -> dict[str, Value]:
        """Return what names stand for behind two branches."""
        found: dict[str, Value] = {}
        for name in {**one, **other}:
            x, y = one.get(name), other.get(name)
            if x is y or _same(x, y):
                found[name] = x or y  # type: ignore[assignment]
            elif isinstance(x, Scalar) and isinstance(y, Scalar):
                inner = self.variable(name)
                if not all(isinstance(v.node, ast.Name) and v.node.id == inner for v in (x, y)):
                    found[name] = Lost(f"{name} comes from two places at line {line}")
                else:
                    found[name] = self.scalar(inner)
            elif x is None or y is None:
                v: Any = x or y
                found[name] = (
                    v
                    if isinstance(v, Scalar | Static) or _has_numbers_alone(v)
                    else Lost(f"the array {name} is made in one branch, or in a loop, at line {line}")
                )
            else:
                found[name] = Lost(f"{name} stands for different arrays or tuples behind line {line}")
        return found


def _has_numbers_alone(x: Any) -> bool:
    """Return whether a value is a tuple of numbers, or of such tuples."""
    if not isinstance(x, Group) or x.listed or x.axes:
        return False
    return all(isinstance(i, Scalar) or _has_numbers_alone(i) for i in x.items)


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, Scalar) and isinstance(y, Scalar):
        return isinstance(x.node, ast.Name) and isinstance(y.node, ast.Name) and x.node.id == y.node.id
    if isinstance(x, Array) and isinstance(y, Array):
        return x.name == y.name
    if isinstance(x, Group) and isinstance(y, Group):
        forms = [(len(g.items), g.fields, g.listed, g.axes, g.named) for g in (x, y)]
        return forms[0] == forms[1] and all(map(_same, x.items, y.items))
    return isinstance(x, Static) and isinstance(y, Static) and x.value is y.value


# ---- the whole kernel -------------------------------------------------------------------------------------


def lowered(function: Callable[..., Any], argument_types: Sequence[Any]) -> tuple[Function, Any]:
    """Return a kernel for arguments of certain types, and the structure of what it returns.

    Args:
        function: a Python function, or a dispatcher of Numba.
        argument_types: Numba's types, one a parameter.

    Raises:
        UnsupportedKernelError: it holds what has no derivative here.
    """
    options: dict[str, Any] = {}
    declared: dict[str, Any] = {}
    returned: Any = None
    if is_dispatcher(function):
        dispatcher: Any = function
        given = dispatcher.targetoptions
        options = {k: given[k] for k in ("fastmath", "error_model", "boundscheck") if given.get(k)}
        demand_frozen(dispatcher)
        function, declared = dispatcher.py_func, dispatcher.locals
        if is_declared(dispatcher):
            found = declared_signature(dispatcher, argument_types) or only_signature(dispatcher)
            returned = found and found.return_type
    known: dict[str, Any] = {}
    carried: dict[int, set[str]] = {}
    marks: dict[int, Any] = {}
    for _ in range(PASSES):
        work = Lowering(known, carried, marks)
        try:
            made = _one_pass(work, function, argument_types, options, returned)
        except UnsupportedKernelError:
            if not work.again:
                raise
            continue
        if not work.again and work.types == known:
            work.declared.append((work.scope, declared))
            work.demand_types()
            return made
        known = work.types
    raise UnsupportedKernelError(f"the types of the variables of {function.__name__} cannot be found")


def _one_pass(
    work: Lowering,
    function: Callable[..., Any],
    argument_types: Sequence[Any],
    options: dict[str, Any],
    returned: Any,
) -> tuple[Function, Any]:
    source = source_of(function)
    scope = Scope(source)
    work.scopes.append(scope)
    work.line = source.first
    params: list[Param] = []
    names = list(inspect.signature(function).parameters)
    if len(names) != len(argument_types):
        raise work.fail(f"it takes {len(names)} arguments, not {len(argument_types)}", "Name its parameters")
    for name, ty in zip(names, argument_types, strict=True):
        scope.names[name] = work.parameter(work.fresh(name), ty, params)
    for name in names:
        value = scope.names[name]
        if name in scope.assigned and isinstance(value, Scalar):
            inner = work.variable(name) if name not in work.used else work.fresh(f"{name}_now")
            scope.variables[name] = inner
            work.assign(inner, value.node)
            scope.names[name] = work.scalar(inner)
        elif name in scope.assigned and _has_numbers_alone(value):
            scope.names[name] = work.bind_parts(name, value)
    work.block(scope.body)
    result = work.converted(scope.result, returned) if returned is not None else scope.result
    returns: list[str] = []
    structure = _flat(work, result, returns)
    made = Function(source.name, params, work.out, returns, work.types, work.constants, options, source.file)
    made.refuses = work.refuses
    roots = syntax.families(made)
    written = {roots[s.array] for s in syntax.walk(made.body) if isinstance(s, Store)}
    for p in params:
        p.written = p.name in written
    return made, structure


def _flat(work: Lowering, value: Value, names: list[str]) -> Any:
    """Return the structure of a result: None, a place among the names, or a tuple of those, as it is."""
    if isinstance(value, Static) and value.value is None:
        return None
    if isinstance(value, Group):
        parts = [_flat(work, v, names) for v in value.items]
        return value.named(*parts) if value.named else tuple(parts)
    if isinstance(value, Scalar) and not isinstance(value.node, ast.Name):
        value = work.kept(value, "result")
    names.append(value.node.id if isinstance(value, Scalar) else value.name)  # type: ignore[union-attr]
    return len(names) - 1
