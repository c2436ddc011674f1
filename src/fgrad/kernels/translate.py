"""From the text of a kernel to LLVM IR without Numba, in a tenth of the time of its type inference.

Kernels are simple: numbers and pointers, whose kinds follow from one another line by line, loops over
`range`, branches, and helper functions, which are written out where they are called. Whatever else a text
has is an `UntranslatableError`. Numba defines what the rest means: tests compare with it.
"""

from __future__ import annotations

import ast
import builtins
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from fgrad import config
from fgrad.kernels import assembly, checks, elements, instructions, scalars
from fgrad.kernels.assembly import word
from fgrad.kernels.butterflies import Butterfly, Shuffle
from fgrad.kernels.elements import Array
from fgrad.kernels.instructions import Intrinsic
from fgrad.kernels.microkernel import Tile
from fgrad.kernels.scalars import Number, UntranslatableError, constant, convert

LOCAL = 4096  # elements of an array of a function's own
_TURNS = 8  # of an `unrolled` loop that LLVM writes out where their number is not known
DEPTH = 40  # of calls within calls, of which a kernel has few


def translated(
    functions: Mapping[str, ast.FunctionDef],
    module: ModuleType,
    symbol: str,
    params: tuple[str, ...],
    result: str,
) -> assembly.Module:
    """Return the function `kernel` of a text as a module that LLVM can compile.

    Args:
        functions: those of the text, by name; they are not changed.
        module: what the text defines when it is run, with functions that do nothing but stand for these.
        symbol: the name of the function.
        params: the kinds of its parameters.
        result: the kind of its result, or "void".

    Raises:
        UntranslatableError: something in the text is not known here.
    """
    code = assembly.Module(symbol)
    kinds = [scalars.type_of(p) for p in params]
    returns = ir.VoidType() if result == "void" else scalars.type_of(result)
    function = code.add(assembly.Function(symbol, ir.FunctionType(returns, kinds)))
    builder = scalars.Builder(code, function)
    entry, body = builder.block, builder.append_basic_block()
    writer = _Writer(builder, functions, vars(module))
    builder.title = f"kernel {symbol[:14]}({', '.join(a.arg for a in functions['kernel'].args.args)})"
    builder.position_at_end(body)
    given: list[Any] = [Number(p, value) for p, value in zip(params, function.args, strict=True)]
    signature = getattr(module.kernel, "signature", None)
    if signature is not None:
        slots, numbers, *bounds = given
        if not is_loop(module.kernel):
            bounds = []
        inner = len(signature) - len(bounds)
        distinct = getattr(module, "DISTINCT", False)
        unpacked = elements.unpacked(
            builder, signature[:inner], slots.value, numbers.value, distinct=distinct
        )
        given = [*unpacked, *bounds]
    value = writer.call(functions["kernel"], given)
    if result == "void":
        builder.ret_void()
    elif isinstance(value, Number):
        builder.ret(convert(builder, value, result).value)
    else:
        raise UntranslatableError("a kernel without result")
    builder.position_at_end(entry)
    builder.branch(body)
    elements.tell_apart(builder)
    return code


def is_loop(function: FunctionType) -> bool:
    """Return whether the last parameters of a function are the bounds of its loop."""
    return function.__code__.co_varnames[: function.__code__.co_argcount][-2:] == ("lo", "hi")


class _Loop(NamedTuple):
    """Where `break` goes, and the kinds that variables have there."""

    end: Any
    kinds: dict[str, str]


class _Writer:
    """Writes statements at the end of a function; what differs between its branches is a variable in memory.

    LLVM makes registers of these at once. Most variables need no memory: they are assigned once, before they
    are read.
    """

    def __init__(
        self, builder: scalars.Builder, functions: Mapping[str, ast.FunctionDef], names: Any
    ) -> None:
        self.builder, self.functions, self.names = builder, functions, names
        self.known: dict[str, Number] = {}  # what names mean outside of functions, as far as it was asked
        self.kinds: dict[str, str] = {}  # of the variables of the function that is being written
        self.arrays: dict[str, Array] = {}  # its variables that are arrays, always the same
        self.places: dict[tuple[str, str], Any] = {}  # of a variable as it has one kind
        self.steady: Mapping[str, int] = {}  # its variables that need no memory, and how often they are read
        self.values: dict[str, Number] = {}  # of these
        self.loops: list[_Loop] = []
        self.depth = 0
        self.flags: tuple[str, ...] = ()  # of sums and products of unsigned numbers

    def call(self, function: ast.FunctionDef, given: list[Any]) -> Any:
        """Write the body of a function, and return its result."""
        rounds = self.builder.floats, self.builder.differences
        outside = self.kinds, self.places, self.loops, self.arrays, self.steady, self.values
        if self.depth == DEPTH or len(given) != len(function.args.args):
            raise UntranslatableError(f"the call of {function.name}")
        self.kinds, self.places, self.loops, self.arrays = {}, {}, [], {}
        self.steady, self.values = _steady(function), {}
        self.builder.floats = getattr(self.names[function.name], "floats", scalars.Builder.floats)
        self.builder.differences = self.builder.floats if self.depth else scalars.Builder.differences
        self.depth += 1
        for parameter, value in zip(function.args.args, given, strict=True):
            self._assign(parameter.arg, value)
        *body, last = function.body
        result = None
        if isinstance(last, ast.Return) and last.value is not None:
            self._statements(body)
            result = self._value(last.value)
        else:
            self._statements(function.body)
        self.kinds, self.places, self.loops, self.arrays, self.steady, self.values = outside
        self.builder.floats, self.builder.differences = rounds
        self.depth -= 1
        return result

    # statements

    def _statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if self.builder.block.is_terminated:
                return  # behind a break
            write = _STATEMENTS.get(type(statement))
            if write is None:
                raise UntranslatableError(type(statement).__name__)
            write(self, statement)

    def _assignment(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._store(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._store(node.target, self._value(node.value))

    def _augmented(self, node: ast.AugAssign) -> None:
        """Write `target op= value`, in which the place of the target is found once."""
        if isinstance(node.target, ast.Subscript):
            array, indices = self._place(node.target)
            old = array.load(self.builder, indices)
            new = scalars.binary(self.builder, type(node.op), old, self._number(node.value))
            array.store(self.builder, indices, new)
            return
        if not isinstance(node.target, ast.Name):
            raise UntranslatableError("an augmented assignment")
        old = self._variable(node.target.id)
        self._assign(
            node.target.id, scalars.binary(self.builder, type(node.op), old, self._number(node.value))
        )

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._value(node.value)

    def _branch(self, node: ast.If) -> None:
        builder = self.builder
        condition = scalars.truth(builder, self._number(node.test))
        before, ends = dict(self.kinds), []
        yes, no, end = (builder.append_basic_block() for _ in range(3))
        builder.cbranch(condition.value, yes, no)
        for block, body in ((yes, node.body), (no, node.orelse)):
            builder.position_at_end(block)
            self.kinds = dict(before)
            self._statements(body)
            if not builder.block.is_terminated:
                ends.append((builder.block, self.kinds))
        merged = _agreed([kinds for _, kinds in ends] or [before])
        for block, kinds in ends:
            builder.position_at_end(block)
            self._become(kinds, merged)
            builder.branch(end)
        self.kinds = merged
        builder.position_at_end(end)
        if not ends:
            builder.unreachable()

    def _for(self, node: ast.For) -> None:
        builder = self.builder
        if not isinstance(node.target, ast.Name) or node.orelse or not _is_range(node.iter):
            raise UntranslatableError("a loop over something else than range(start, stop)")
        *start, stop = (self._number(a) for a in node.iter.args)  # type: ignore[attr-defined]
        written_out = node.iter.func.id == "unrolled"  # type: ignore[attr-defined]
        known = all(x.literal is not None for x in (*start, stop))
        first = start[0] if start else constant(stop.kind, 0)
        kind = "uint64" if "uint64" in {first.kind, stop.kind} else "int64"
        name = node.target.id
        hint = ""
        if written_out and not _decides(name, node.body):
            hint = _written_out(builder.module, known=known)
        elif written_out and known:
            # LLVM may thread such conditions to a loop whose turns it cannot count, and then warns on stderr
            for k in range(first.literal, stop.literal):
                self._assign(name, constant(kind, k))
                self._statements(node.body)
            return
        first, stop = convert(builder, first, kind), convert(builder, stop, kind)
        place = builder.reserve(first.value.type)

        def proceed() -> Any:
            test = builder.icmp_signed if kind == "int64" else builder.icmp_unsigned
            return test("<", builder.load(place), stop.value)

        def body() -> None:
            count = builder.load(place)
            self._assign(name, Number(kind, count))
            self._statements(node.body)
            if not builder.block.is_terminated:
                step = builder.add(count, word(1), flags=("nsw" if kind == "int64" else "nuw",))
                builder.store(step, place)

        builder.store(first.value, place)
        self._loop(proceed, body, hint)

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise UntranslatableError("while with else")
        self._loop(
            lambda: scalars.truth(self.builder, self._number(node.test)).value,
            lambda: self._statements(node.body),
        )

    def _loop(self, proceed: Callable[[], Any], body: Callable[[], None], hint: str = "") -> None:
        """Write a loop; where it changes the kind of a variable, once more with the kind that serves all.

        Args:
            proceed: writes whether there is another turn.
            body: writes a turn.
            hint: what LLVM is told of the loop.
        """
        builder = self.builder
        mark = builder.mark()
        while True:
            before = dict(self.kinds)
            head, inside, end = (builder.append_basic_block() for _ in range(3))
            self.loops.append(_Loop(end, before))
            builder.branch(head)
            builder.position_at_end(head)
            builder.cbranch(proceed(), inside, end)
            builder.position_at_end(inside)
            body()
            self.loops.pop()
            after = self.kinds
            if not builder.block.is_terminated:
                builder.branch(head, hint)
            wanted = _agreed([before, {name: after[name] for name in before}])
            if wanted == before == {name: after[name] for name in before}:
                break
            builder.rewind(mark)
            self._become(before, wanted)
            mark = builder.mark()
            self.kinds = wanted
        builder.position_at_end(end)

    def _break(self, node: ast.Break) -> None:
        loop = self.loops[-1]
        if any(self.kinds.get(name) != kind for name, kind in loop.kinds.items()):
            raise UntranslatableError("a variable of two kinds at a break")
        self.builder.branch(loop.end)

    # variables

    def _store(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Tuple):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                raise UntranslatableError("a tuple of another length")
            for part, x in zip(target.elts, value, strict=True):
                self._store(part, x)
        elif isinstance(target, ast.Name):
            self._assign(target.id, value)
        elif isinstance(target, ast.Subscript) and isinstance(value, Number):
            array, indices = self._place(target)
            array.store(self.builder, indices, value)
        else:
            raise UntranslatableError("an assignment")

    def _assign(self, name: str, value: Any) -> None:
        if isinstance(value, Array) and name not in self.kinds and not self.loops and name not in self.arrays:
            self.arrays[name] = value
            return
        if not isinstance(value, Number) or name in self.arrays:
            raise UntranslatableError(f"{name} is not a number")
        if name in self.steady:
            known = value.value
            if self.steady[name] > 1 and isinstance(known, assembly.Product):
                known = known.rounded()
            self.values[name] = Number(value.kind, known, limits=value.limits)
            self.kinds[name] = value.kind
            return
        place = self.places.get((name, value.kind))
        if place is None:
            place = self.places[name, value.kind] = self.builder.reserve(value.value.type)
        self.builder.store(value.value, place)
        self.kinds[name] = value.kind
        if checks.ON and value.kind[-1] == "*":
            for which, limit in enumerate(value.limits or (word(0), word(2**64 - 1))):
                self._assign(f"{name} {which}", Number("uint64", limit))

    def _variable(self, name: str) -> Number:
        if name in self.steady:
            return self.values[name]
        kind = self.kinds[name]
        value = Number(kind, self.builder.load(self.places[name, kind]))
        if checks.ON and kind[-1] == "*":
            first, end = (self._variable(f"{name} {which}").value for which in range(2))
            value.limits = first, end
        return value

    def _become(self, kinds: dict[str, str], wanted: dict[str, str]) -> None:
        """Convert variables from some kinds to others."""
        self.kinds = kinds
        for name, kind in wanted.items():
            if name in kinds and kinds[name] != kind:
                self._assign(name, convert(self.builder, self._variable(name), kind))

    def _place(self, node: ast.Subscript) -> tuple[Array, list[Number]]:
        """Return an array, or what a pointer points to, and the indices of an element.

        LLVM makes vectors of strided accesses only where it knows that no place wraps around, which it does
        not but in a difference that is below zero on the way.
        """
        array, outer = self._value(node.value), self.flags
        self.flags = () if checks.ON or _takes_away(node.slice) else ("nuw", "nsw")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        indices, self.flags = [self._number(x) for x in parts], outer
        self._note(node)
        if isinstance(array, Number) and array.kind[-1] == "*" and len(indices) == 1:
            return _Pointed(array), indices
        if not isinstance(array, Array):
            raise UntranslatableError(f"an element of {ast.unparse(node.value)}")
        return array, indices

    def _note(self, node: ast.expr) -> None:
        """Note what is being written, for the messages of checks."""
        if checks.ON:
            self.builder.where = ast.unparse(node)

    # expressions

    def _number(self, node: ast.expr, *, pointer: bool = False) -> Number:
        value = self._value(node)
        if pointer and isinstance(value, Array) and len(value.sizes) == 1 and not value.strides:
            return Number(f"{value.dtype}*", value.pointer)
        if not isinstance(value, Number):
            raise UntranslatableError(f"{ast.unparse(node)} is not a number")
        return value

    def _value(self, node: ast.expr) -> Any:
        write = _EXPRESSIONS.get(node.__class__)
        if write is None:
            raise UntranslatableError(type(node).__name__)
        return write(self, node)

    def _constant(self, node: ast.Constant) -> Number:
        return _known(node.value)

    def _name(self, node: ast.Name) -> Any:
        name = node.id
        if name in self.kinds:
            return self._variable(name)
        if name in self.arrays:
            return self.arrays[name]
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = _known(self._global(node))
        return found

    def _global(self, node: ast.expr) -> Any:
        """Return what a name means outside of functions."""
        if isinstance(node, ast.Name) and node.id not in self.kinds:
            found = self.names.get(node.id, getattr(builtins, node.id, None))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = getattr(self.names.get(node.value.id), node.attr, None)
        else:
            found = None
        if found is None:
            raise UntranslatableError(f"the name {ast.unparse(node)}")
        return found

    def _attribute(self, node: ast.Attribute) -> Any:
        return _known(self._global(node))

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple([self._value(x) for x in node.elts])

    def _element(self, node: ast.Subscript) -> Number:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            array, axis = self._value(node.value.value), self._number(node.slice).literal
            if not isinstance(array, Array) or axis not in range(len(array.sizes)):
                raise UntranslatableError(ast.unparse(node))
            size: Number = array.sizes[axis]
            return size
        array, indices = self._place(node)
        return array.load(self.builder, indices)

    def _unary(self, node: ast.UnaryOp) -> Number:
        x = self._number(node.operand)
        if isinstance(node.op, ast.USub):
            return scalars.negate(self.builder, x)
        if isinstance(node.op, ast.Not):
            return scalars.invert(self.builder, x)
        if isinstance(node.op, ast.Invert):
            return scalars.complement(self.builder, x)
        if isinstance(node.op, ast.UAdd) and scalars.is_float(x.kind):
            return x
        raise UntranslatableError(type(node.op).__name__)

    def _binary(self, node: ast.BinOp) -> Number:
        x, y = self._number(node.left), self._number(node.right)
        return scalars.binary(self.builder, type(node.op), x, y, self.flags)

    def _compare(self, node: ast.Compare) -> Number:
        if len(node.ops) > 1 and not all(map(_is_cheap, node.comparators)):
            raise UntranslatableError("a chain of comparisons that may end early")
        values = [self._number(x) for x in (node.left, *node.comparators)]
        results = [
            scalars.compare(self.builder, type(operation), x, y)
            for operation, x, y in zip(node.ops, values, values[1:], strict=False)
        ]
        return functools.reduce(partial(scalars.binary, self.builder, ast.BitAnd), results)

    def _conditional(self, node: ast.IfExp) -> Any:
        return self._chosen(
            self._number(node.test), lambda: self._value(node.body), lambda: self._value(node.orelse),
            _is_cheap(node.body) and _is_cheap(node.orelse),
        )  # fmt: skip

    def _chosen(self, test: Number, yes: Callable[[], Any], no: Callable[[], Any], cheap: bool) -> Any:
        """Write one of two values: by a branch, unless both are quickly computed."""
        builder = self.builder
        condition = scalars.truth(builder, test)
        if cheap:
            return self._selected(condition, yes(), no())
        left, right, end = (builder.append_basic_block() for _ in range(3))
        builder.cbranch(condition.value, left, right)
        ends = []
        for block, value in ((left, yes), (right, no)):
            builder.position_at_end(block)
            result = value()
            ends.append((builder.block, result if isinstance(result, tuple) else (result,)))
        if len({len(values) for _, values in ends}) != 1:
            raise UntranslatableError("tuples of two lengths")
        kinds = [scalars.unified(x.kind, y.kind) for x, y in zip(ends[0][1], ends[1][1], strict=True)]
        incoming = []
        for block, values in ends:
            builder.position_at_end(block)
            incoming.append([convert(builder, x, k).value for x, k in zip(values, kinds, strict=True)])
            builder.branch(end)
        builder.position_at_end(end)
        results = []
        for kind, *pair in zip(kinds, *incoming, strict=True):
            phi = builder.phi(pair[0].type)
            for (block, _), value in zip(ends, pair, strict=True):
                phi.add_incoming(value, block)
            results.append(Number(kind, phi))
        return results[0] if len(results) == 1 else tuple(results)

    def _selected(self, condition: Number, x: Any, y: Any) -> Any:
        if isinstance(x, tuple):
            return tuple([self._selected(condition, *pair) for pair in zip(x, y, strict=True)])
        return scalars.select(self.builder, condition, x, y)

    def _junction(self, node: ast.BoolOp) -> Number:
        """Write `and`, `or` of truth values, the second of which is asked only if it matters."""
        known = constant("bool", isinstance(node.op, ast.Or))
        result = self._truth(node.values[0])
        for operand in node.values[1:]:
            rest: Callable[[], Any] = partial(self._truth, operand)
            yes, no = (lambda: known, rest) if known.literal else (rest, lambda: known)
            result = self._chosen(result, yes, no, _is_cheap(operand))
        return result

    def _truth(self, node: ast.expr) -> Number:
        value = self._number(node)
        if value.kind != "bool":
            raise UntranslatableError("and, or of numbers")
        return value

    def _call(self, node: ast.Call) -> Any:
        if node.keywords:
            raise UntranslatableError("keywords")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "view":
            (kind,) = map(self._global, node.args)
            return self._viewed(self._number(node.func.value), _name(kind))
        called: Any = self._global(node.func)
        name = getattr(called, "__name__", "")
        if isinstance(called, FunctionType) and name in self.functions:
            return self.call(self.functions[name], [self._value(a) for a in node.args])
        if isinstance(called, type):
            return self._cast(called, node.args)
        if called is np.empty:
            return self._local(*node.args)
        if isinstance(called, Tile | Butterfly | Shuffle):
            self._note(node)
            return called.emit(self.builder, *[self._value(a) for a in node.args])
        if isinstance(called, Intrinsic):
            given = [self._number(a, pointer=True) for a in node.args]
            self._note(node)
            return self._written(called, given)
        given = [self._number(a) for a in node.args]
        if called in _FUNCTIONS:
            return _FUNCTIONS[called](self.builder, *given)
        if getattr(math, name, None) is called:
            return scalars.function(self.builder, name, *given)
        raise UntranslatableError(ast.unparse(node))

    def _local(self, size: ast.expr, dtype: ast.expr) -> Array:
        count = self._number(size).literal
        if not isinstance(count, int) or not 0 < count <= LOCAL:
            raise UntranslatableError(f"an array of {ast.unparse(size)} elements")
        return elements.local(self.builder, np.dtype(self._global(dtype)).name, count)

    def _written(self, intrinsic: Intrinsic, given: list[Number]) -> Number | None:
        """Write the instructions of an intrinsic."""
        kinds = intrinsic.kinds(*(x.kind for x in given))
        if kinds is None:
            raise UntranslatableError("an intrinsic of something else")
        params, result = kinds
        values = [convert(self.builder, x, kind).value for x, kind in zip(given, params, strict=True)]
        value = intrinsic.emit(self.builder, *values)
        if result == "void":
            return None
        return Number(result, value, limits=self._limits(values, given) if result[-1] == "*" else None)

    def _limits(self, values: list[Any], given: list[Number]) -> tuple[Any, Any] | None:
        """Return where the memory of the pointer that an intrinsic gives begins and ends, if known."""
        if checks.ON and len(given) == 3:  # of the buffer that a slot holds
            return instructions.limits(self.builder, *values)
        return given[0].limits  # of the pointer that it was made of

    def _cast(self, kind: type, given: list[ast.expr]) -> Number:
        if len(given) != 1:
            raise UntranslatableError(f"{kind.__name__} of {len(given)} arguments")
        text = given[0]
        if issubclass(kind, np.generic) and isinstance(text, ast.Constant):
            return _known(kind(text.value))
        name = {bool: "bool", int: "int64", float: "float64"}.get(kind) or _name(kind)
        return convert(self.builder, self._number(text), name)

    def _viewed(self, x: Number, kind: str) -> Number:
        if scalars.type_of(x.kind) == scalars.type_of(kind):
            return Number(kind, x.value)
        return Number(kind, self.builder.bitcast(x.value, scalars.type_of(kind)))


class _Pointed(Array):
    """What a pointer points to: its index has no sign, or is not below zero."""

    __slots__ = ("limits",)

    def __init__(self, pointer: Number) -> None:
        super().__init__(pointer.kind[:-1], pointer.value, [])
        self.limits: tuple[Any, Any] | None = pointer.limits

    def place(self, builder: Any, indices: Sequence[Number]) -> Any:
        """Return the pointer to an element."""
        (index,) = indices
        if not scalars.is_whole(index.kind):
            raise UntranslatableError(f"a pointer[{index.kind}]")
        index = convert(builder, index, "int64" if scalars.is_signed(index.kind) else "uint64")
        if checks.ON and self.limits:
            place, size = builder.gep(self.pointer, [index.value]), np.dtype(self.dtype).itemsize
            instructions.check(builder, place, word(size), self.limits, index.value, size)
        return builder.gep(self.pointer, [index.value], inbounds=True)

    def load(self, builder: Any, indices: Sequence[Number]) -> Number:
        """Return an element as it is."""
        return Number(self.dtype, builder.load(self.place(builder, indices)))


@functools.lru_cache(config.cache_entries())
def _steady(function: ast.FunctionDef) -> dict[str, int]:
    """Return the variables that are assigned at one place, inside of all that surrounds their reads.

    With each, how many reads of it there are.
    """
    stores: dict[str, list[tuple[int, ...]]] = {}
    loads: dict[str, list[tuple[int, ...]]] = {}

    def note(expression: ast.AST, inside: tuple[int, ...]) -> None:
        """Note the names in a part of the text; `inside` numbers the bodies around it."""
        for node in _parts(expression):
            if node.__class__ is ast.Name:
                found = loads if node.ctx.__class__ is ast.Load else stores
                found.setdefault(node.id, []).append(inside)

    def visit(body: Sequence[ast.stmt], inside: tuple[int, ...]) -> None:
        for node in body:
            if node.__class__ not in _AROUND:
                note(node, inside)
                if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                    stores[node.target.id].append(inside)  # it reads it too
                continue
            within = (*inside, id(node))
            for field in ("test", "target", "iter"):
                if hasattr(node, field):
                    note(getattr(node, field), within if field == "target" else inside)
            visit(node.body, within)  # type: ignore[attr-defined]
            visit(node.orelse, (*inside, -id(node)))  # type: ignore[attr-defined]

    visit(function.body, ())
    for parameter in function.args.args:
        stores.setdefault(parameter.arg, []).append(())
    return {
        name: len(loads.get(name, ()))
        for name, places in stores.items()
        if len(places) == 1 and all(at[: len(places[0])] == places[0] for at in loads.get(name, ()))
    }


@functools.cache
def _name(kind: Any) -> str:
    """Return the name of the dtype that a class of NumPy stands for."""
    name: str = np.dtype(kind).name
    return name


def _known(value: Any) -> Number:
    """Return a number that stands in the text."""
    if isinstance(value, (bool, np.bool_)):
        return constant("bool", value)
    if isinstance(value, np.generic):
        kind: Any = value.__class__
        name = _name(kind)
        if name not in scalars.BITS or "complex" in name:
            raise UntranslatableError(f"a number of {name}")
        return constant(name, value.item())
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return constant("int64", value)
    if isinstance(value, float):
        return constant("float64", value)
    raise UntranslatableError(f"{value!r} as a number")


def _agreed(branches: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the kinds of variables behind branches, without those that nobody can read there."""
    return {name: kind for name in sorted(set().union(*branches)) if (kind := _of_both(branches, name))}


def _of_both(branches: Sequence[Mapping[str, str]], name: str) -> str | None:
    """Return the kind of a variable behind branches, None if there is none that serves all."""
    try:
        return functools.reduce(scalars.unified, [kinds[name] for kinds in branches if name in kinds])
    except UntranslatableError:
        return None


def _written_out(module: assembly.Module, *, known: bool) -> str:
    """Return what tells LLVM to write the turns of a loop one after another: all if their number is known."""
    wanted = ["full"] if known else ["count", f"i32 {_TURNS}"]
    turns = module.node(assembly.metadata(f"llvm.loop.unroll.{wanted[0]}"), *wanted[1:])
    return f", !llvm.loop {module.node(turns, own=True)}"


def _decides(name: str, body: Sequence[ast.stmt]) -> bool:
    """Return whether an expression in a loop asks for the counter of its turn."""
    tests = [n.test for n in _parts(*body) if n.__class__ is ast.IfExp]
    return any(n.__class__ is ast.Name and n.id == name for n in _parts(*tests))


def _is_range(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"range", "unrolled"}
        and len(node.args) in {1, 2}
        and not node.keywords
    )


def _is_cheap(node: ast.expr) -> bool:
    """Return whether something may be computed where nobody needs it."""
    return all(n.__class__ not in _DEAR or (n.__class__ is ast.Call and _is_number(n)) for n in _parts(node))


def _is_number(node: Any) -> bool:
    return len(node.args) == 1 and isinstance(node.args[0], (ast.Attribute, ast.Constant, ast.UnaryOp))


def _takes_away(node: ast.expr) -> bool:
    """Return whether there is a difference in an expression."""
    return any(n.__class__ is ast.BinOp and n.op.__class__ is ast.Sub for n in _parts(node))


def _parts(*nodes: ast.AST) -> list[Any]:
    """Return some nodes and all that is in them but operators, in no order; `ast.walk` takes far longer."""
    found, todo = [], [*nodes]
    while todo:
        node = todo.pop()
        found.append(node)
        kind = node.__class__
        if kind in _LEAVES:
            continue
        for field in _FIELDS.get(kind) or _fields(kind):
            value = getattr(node, field)
            if value.__class__ is list:
                todo += value
            elif isinstance(value, ast.AST):
                todo.append(value)
    return found


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """Return the fields of a kind of nodes in which there may be others."""
    found = _FIELDS[kind] = tuple([f for f in kind._fields if f not in _PLAIN])
    return found


_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_PLAIN = {"op", "ops", "ctx", "id", "attr", "name", "arg", "kind", "type_comment"}
_DEAR = {ast.Subscript, ast.Call, ast.IfExp, ast.FloorDiv, ast.Mod, ast.Div}
_LEAVES = {ast.Name, ast.Constant}
_AROUND = {ast.If, ast.For, ast.While}  # statements with others inside


_FUNCTIONS: dict[Any, Callable[..., Number]] = {
    abs: scalars.absolute,
    min: scalars.smaller,
    max: scalars.larger,
}
_STATEMENTS: dict[type, Callable[[_Writer, Any], None]] = {
    ast.Assign: _Writer._assignment,
    ast.AnnAssign: _Writer._annotated,
    ast.AugAssign: _Writer._augmented,
    ast.Expr: _Writer._expression,
    ast.If: _Writer._branch,
    ast.For: _Writer._for,
    ast.While: _Writer._while,
    ast.Break: _Writer._break,
    ast.Pass: lambda *_: None,
}
_EXPRESSIONS: dict[type, Callable[[_Writer, Any], Any]] = {
    ast.Constant: _Writer._constant,
    ast.Name: _Writer._name,
    ast.Attribute: _Writer._attribute,
    ast.Tuple: _Writer._tuple,
    ast.Subscript: _Writer._element,
    ast.UnaryOp: _Writer._unary,
    ast.BinOp: _Writer._binary,
    ast.Compare: _Writer._compare,
    ast.IfExp: _Writer._conditional,
    ast.BoolOp: _Writer._junction,
    ast.Call: _Writer._call,
}
