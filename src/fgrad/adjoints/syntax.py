"""The language of kernels: statements on scalars and array elements, around Python's own expressions.

Expressions are nodes of `ast` with Numba's type in `ty`: names, constants, operators, calls of scalar
functions, and elements `a[i, j]` of arrays that have a name. Array expressions, tuples, calls of other
kernels and jumps are gone: `lowering` has written them as loops, scalars and conditions.
"""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from numba import types

from fgrad.adjoints.names import nodes_of
from fgrad.core.trace import place_of


class UnsupportedKernelError(NotImplementedError):
    """A kernel holds what cannot be differentiated; the message names its file, line and a remedy."""


def fresh(base: str, used: set[str]) -> str:
    """Return a name that is not used, and is from now on."""
    name, k = base, 1
    while name in used:
        k += 1
        name = f"{base}_{k}"
    used.add(name)
    return name


def unsupported(file: str, line: int, name: str, what: str) -> UnsupportedKernelError:
    """Return the error for what stands in a line of the function of this name."""
    return UnsupportedKernelError(f"{place_of(f'{file}:{line}')}: in {name}, {what}")


# ---- statements -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Assign:
    """`name = value`, of a scalar."""

    name: str
    value: ast.expr
    line: int


@dataclass(eq=False)
class Store:
    """`array[index] = value`, of one element."""

    array: str
    index: tuple[ast.expr, ...]
    value: ast.expr
    line: int


@dataclass(eq=False)
class Alloc:
    """`name = np.empty(dims)`, or `np.zeros`: a new array."""

    name: str
    dims: tuple[ast.expr, ...]
    zeros: bool
    line: int


@dataclass(eq=False)
class View:
    """`name = form`, which shares the elements of `source`; `form` is an expression of it."""

    name: str
    source: str
    form: ast.expr
    line: int


@dataclass(eq=False)
class Opaque:
    """`name = value`, a new array without derivatives that a function of Numba's computes."""

    name: str
    value: ast.expr
    line: int


@dataclass(eq=False)
class If:
    """One of two blocks."""

    test: ast.expr
    body: list[Stmt]
    orelse: list[Stmt]
    line: int


@dataclass(eq=False)
class For:
    """A loop over a range; it ends where one of the flags in `until` holds after a turn."""

    var: str
    start: ast.expr
    stop: ast.expr
    step: ast.expr
    body: list[Stmt]
    line: int
    until: tuple[str, ...] = ()
    count: str = ""  # the scalar that counts the turns, where they are not known before


@dataclass(eq=False)
class While:
    """A loop that counts its turns in the scalar `count`."""

    test: ast.expr
    body: list[Stmt]
    line: int
    count: str
    until: tuple[str, ...] = ()


@dataclass(eq=False)
class Raise:
    """The user's exception."""

    value: ast.stmt
    line: int


Stmt: TypeAlias = Assign | Store | Alloc | View | Opaque | If | For | While | Raise


@dataclass
class Param:
    """A parameter: a scalar, an array, or a value that is handed on as it is."""

    name: str
    type: Any
    written: bool = False
    fresh: bool = False  # all of it is written, and nothing of it read before

    @property
    def floating(self) -> bool:
        """Whether it has derivatives."""
        return is_floating(self.type)


@dataclass
class Function:
    """A kernel for arguments of certain types.

    Its outputs are what it returns, scalars and arrays by name, and then the parameters that it writes.
    """

    name: str
    params: list[Param]
    body: list[Stmt]
    returns: list[str]
    types: dict[str, Any]  # of every scalar and array
    constants: dict[str, Any]  # what names in expressions stand for that are not variables
    options: dict[str, Any] = field(default_factory=dict)  # of Numba
    file: str = ""
    snapshots: int | bool = False  # how many a loop keeps instead of records; True: as many as turns in one
    refuses: bool = False  # it raises or asserts

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return self.returns + [p.name for p in self.params if p.written]


# ---- types ------------------------------------------------------------------------------------------------


def is_array(ty: Any) -> bool:
    """Return whether a type is one of arrays."""
    return isinstance(ty, types.Array)


def element(ty: Any) -> Any:
    """Return the type of the elements, of a scalar its own."""
    return ty.dtype if isinstance(ty, types.Array) else ty


def is_floating(ty: Any) -> bool:
    """Return whether values of a type have derivatives."""
    return isinstance(element(ty), types.Float | types.Complex)


def is_complex(ty: Any) -> bool:
    """Return whether values of a type are complex."""
    return isinstance(element(ty), types.Complex)


# ---- expressions ------------------------------------------------------------------------------------------


def typed(node: Any, ty: Any) -> Any:
    """Return the node with its type."""
    node.ty = types.unliteral(ty)
    return node


def name(text: str, ty: Any = None) -> Any:
    """Return a variable."""
    return typed(ast.Name(text, ast.Load()), ty) if ty is not None else ast.Name(text, ast.Load())


def constant(value: complex, ty: Any = None) -> Any:
    """Return a constant."""
    if ty is None:
        kinds = {bool: types.boolean, int: types.intp, float: types.float64, complex: types.complex128}
        ty = kinds[type(value)]
    return typed(ast.Constant(value), ty)


def dotted(text: str) -> Any:
    """Return `np.sin` as an expression."""
    first, *rest = text.split(".")
    made: Any = ast.Name(first, ast.Load())
    for part in rest:
        made = ast.Attribute(made, part, ast.Load())
    return made


def call(function: str, *args: ast.expr, ty: Any = None) -> Any:
    """Return a call of a function by name."""
    made = ast.Call(dotted(function), list(args), [])
    return typed(made, ty) if ty else made


def load(array: str, index: Sequence[ast.expr], ty: Any) -> Any:
    """Return an element."""
    where = index[0] if len(index) == 1 else ast.Tuple(list(index), ast.Load())
    return typed(ast.Subscript(ast.Name(array, ast.Load()), where, ast.Load()), ty)


def dimension(array: str, axis: int) -> Any:
    """Return the length of an axis."""
    shape = ast.Attribute(ast.Name(array, ast.Load()), "shape", ast.Load())
    return typed(ast.Subscript(shape, ast.Constant(axis), ast.Load()), types.intp)


def element_of(node: ast.AST) -> tuple[str, tuple[ast.expr, ...]] | None:
    """Return array and index where a node is an element, or a view, of an array that has a name."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        where = node.slice
        return node.value.id, tuple(where.elts) if isinstance(where, ast.Tuple) else (where,)
    return None


def is_leaf(node: ast.AST) -> bool:
    """Return whether a node is a name, a number or an element: nothing is computed for it."""
    return isinstance(node, ast.Name | ast.Constant) or element_of(node) is not None


def text(node: ast.AST) -> str:
    """Return the source."""
    if any(
        isinstance(n, Given) or (isinstance(n, ast.Constant) and _is_negative(n.value))
        for n in nodes_of(node)
    ):
        node = _Signs().visit(copy.deepcopy(node))
    return ast.unparse(ast.fix_missing_locations(node))


def _is_negative(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.copysign(1, value) < 0


class _Signs(ast.NodeTransformer):
    """Negative numbers are negated ones in source: `-2 ** 2` is none of -2."""

    def visit_Given(self, node: Given) -> Any:
        return self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> Any:
        value: Any = node.value
        return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if _is_negative(value) else node


class Given(ast.expr):
    """A number of which one expression is the value, and another one has the derivative.

    Functions of BLAS and LAPACK round otherwise than loops do: so that branches go the way that they went in
    the kernel, values are theirs.
    """

    _fields = ("value", "source")
    value: Any
    source: Any


class _Filling(ast.NodeTransformer):
    def __init__(self, parts: Mapping[str, ast.expr]) -> None:
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> Any:
        return self.parts.get(node.id, node)


def filled(node: Any, parts: Mapping[str, ast.expr]) -> Any:
    """Return a copy of an expression with others in the place of variables."""
    return _Filling(parts).visit(copy.deepcopy(node))


# ---- what statements read and write -----------------------------------------------------------------------


def reads(node: ast.AST) -> Iterator[tuple[str, tuple[ast.expr, ...] | None]]:
    """Yield the variables that an expression reads: scalars with None, elements with their index.

    An array whose contents are read as a whole comes with an empty index; its shape is no content.
    """
    if isinstance(node, Given):
        yield from reads(node.value)
        return
    if isinstance(node, ast.Name):
        yield node.id, None
        return
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.attr not in {"shape", "size", "ndim"}:
            yield node.value.id, None
        return
    found = element_of(node)
    if found:
        yield found
        for i in found[1]:
            yield from reads(i)
        return
    for child in ast.iter_child_nodes(node):
        yield from reads(child)


def heads(s: Stmt) -> list[ast.expr]:
    """Return the expressions that a statement itself evaluates, not those of statements inside."""
    if isinstance(s, Assign | Opaque):
        return [s.value]
    if isinstance(s, Store):
        return [s.value, *s.index]
    if isinstance(s, Alloc):
        return list(s.dims)
    if isinstance(s, View):
        return [s.form]
    if isinstance(s, If | While):
        return [s.test]
    if isinstance(s, For):
        return [s.start, s.stop, s.step]
    return []


def blocks(s: Stmt) -> list[list[Stmt]]:
    """Return the blocks of a statement."""
    if isinstance(s, If):
        return [s.body, s.orelse]
    return [s.body] if isinstance(s, For | While) else []


def walk(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Yield all statements, those inside of others after them."""
    for s in body:
        yield s
        for block in blocks(s):
            yield from walk(block)


def families(function: Function) -> dict[str, str]:
    """Return for every array the name of the one whose memory it shares."""
    roots = {n: n for n, t in function.types.items() if is_array(t)}

    def root(n: str) -> str:
        while roots[n] != n:
            n = roots[n]
        return n

    for s in walk(function.body):
        if isinstance(s, View):
            roots[root(s.name)] = root(s.source)
    return {n: root(n) for n in roots}
