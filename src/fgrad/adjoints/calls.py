"""Calls in kernels: of scalar functions, of NumPy's functions of arrays, and of kernels, inlined."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import types

from fgrad.adjoints import library, syntax
from fgrad.adjoints.library import LIBRARY, METHODS, NUMBERS
from fgrad.adjoints.names import nodes_of
from fgrad.adjoints.sources import demand_frozen
from fgrad.adjoints.values import (
    Array,
    Group,
    Lazy,
    Scalar,
    Static,
    Value,
    cast,
    dims_of,
    dtype,
    dtype_of,
    function_name,
    item,
    ndim_of,
    unified,
)
from fgrad.compat.numba import dispatcher_of, is_dispatcher, is_dufunc, is_gufunc, loop_dtypes

_MAKERS = {np.empty, np.zeros, np.ones, np.full, np.empty_like, np.zeros_like, np.ones_like, np.full_like}
_GRIDS = {np.arange, np.eye, np.identity}
_OF_LISTS = (np.array, np.asarray, builtins.sum, builtins.min, builtins.max)
_OF_ALL = {np.prod, np.cumsum, np.max, np.min}  # elements, in the order of rows


class Calls:
    """Calls."""

    line: int
    out: list[Any]
    depth: int
    stale: dict[str, str]
    borrowed: dict[str, str]
    links: set[frozenset[str]]
    for_arrays: set[ast.ListComp]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @contextmanager
    def aside(self, *, deeper: bool = False) -> Iterator[list[Any]]:
        """Put what is emitted into a block of its own, which this is; a `deeper` one may not run."""
        outer, self.out = self.out, []
        self.depth += deeper
        try:
            yield self.out
        finally:
            self.out = outer
            self.depth -= deeper

    def of_Call(self, node: ast.Call) -> Value:  # noqa: D102, N802
        if isinstance(node.func, ast.Attribute):
            base = self.expr(node.func.value)
            if not isinstance(base, Static):
                return self.method(base, node.func.attr, node)
            function = getattr(base.value, node.func.attr)
        else:
            found = self.expr(node.func)
            if not isinstance(found, Static):
                raise self.fail(f"`{ast.unparse(node.func)}` is called", "Call functions by their names")
            function = found.value
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise self.fail(f"`{ast.unparse(node)}` unpacks its arguments", "Write them one by one")
        if function in _OF_LISTS:
            self.for_arrays |= {a for a in node.args if isinstance(a, ast.ListComp)}
        return self.called(function, *self.arguments(node), node)

    def arguments(self, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
        """Return the arguments of a call."""
        found = self.exprs([*node.args, *[k.value for k in node.keywords]])
        count = len(node.args)
        return found[:count], {str(k.arg): v for k, v in zip(node.keywords, found[count:], strict=True)}

    def called(self, function: Any, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return what a call gives."""
        function = getattr(function, "kernel_to_differentiate", function)
        if is_dispatcher(function):
            return self.dispatched(function, args, keywords)  # type: ignore[no-any-return]
        if isinstance(function, FunctionType) and function.__module__ == library.__name__:
            return self.inline(function, args, keywords)  # type: ignore[no-any-return]
        if is_gufunc(function):
            raise self.fail(
                "a generalized ufunc is called",
                "Compile its function with numba.njit, and call that in a loop",
            )
        if is_dufunc(function):
            return self.elementwise_kernel(function, args)
        if function in _MAKERS:
            return self.made(function, args, keywords)
        if function is len and isinstance(args[0], Group) and not args[0].axes:
            return Scalar(syntax.constant(len(args[0].items)))
        if function is len:
            return Scalar(dims_of(args[0].items[0] if isinstance(args[0], Group) else args[0])[0])  # type: ignore[arg-type]
        if function is tuple and isinstance(args[0], Group):
            return args[0]
        if isinstance(function, type) and issubclass(function, tuple) and hasattr(function, "_fields"):
            return Group.of(function, list(self.bind(function, args, keywords).values()))
        if function is divmod and all(isinstance(a, Scalar) for a in args):
            x, y = (self.kept(a) for a in args)
            return Group([self.binary(op, x, y) for op in (ast.FloorDiv, ast.Mod)])
        if function in (builtins.min, builtins.max) and len(args) == 1:
            if not isinstance(args[0], Group):
                return self.library(np.min if function is builtins.min else np.max, args)
            args = args[0].items
        if function in (builtins.min, builtins.max) and len(args) > 1:
            return reduce(lambda x, y: self.mapped(function, [x, y]), args)
        if function in NUMBERS and all(isinstance(a, Scalar) and syntax.is_floating(a.type) for a in args):
            fixed = [self.kept(a) for a in args]
            number: Any = self.mapped(function, fixed)
            return Scalar(self.given(number.node, self.number(self.inline(NUMBERS[function], fixed, {}))))
        if function is complex and len(args) == 2:
            real, imaginary = (self.number(self.kept(a)) for a in args)
            unit = Scalar(syntax.constant(1j))
            whole = self.binary(ast.Add, Scalar(real), self.binary(ast.Mult, unit, Scalar(imaginary)))
            pair: Any = self.mapped(complex, [Scalar(real), Scalar(imaginary)])
            return Scalar(self.given(pair.node, whole.node))
        if function is builtins.sum:
            function = np.sum
            if len(args) > 1:  # where it starts, which is no axis
                return self.binary(ast.Add, args[1], self.called(np.sum, args[:1], keywords, node))  # type: ignore[no-any-return]
        special = getattr(self, f"np_{getattr(function, '__name__', '')}", None)
        if special is not None and function_name(function).startswith("np."):
            if not _fits(special, args, keywords):
                raise self.fail(f"`{ast.unparse(node)}` has other arguments", "Leave them out")
            made: Value | None = special(*args, **keywords)
            if made is not None:
                return made
        if function in (np.amax, np.amin):
            function = np.max if function is np.amax else np.min
        if function in LIBRARY and not keywords and any(isinstance(a, Array | Lazy) for a in args):
            return self.library(function, args)
        if keywords:
            raise self.fail(f"`{ast.unparse(node)}` has keywords", "Leave them out, or write the loop")
        if isinstance(function, np.ufunc) and len(args) > function.nin:
            raise self.fail(f"`{ast.unparse(node)}` writes to an array", "Assign what it gives to `out[:]`")
        if function in _GRIDS:
            return self.passive(function, args, node)
        if isinstance(function, np.ufunc) or all(isinstance(a, Scalar) for a in args):
            return self.mapped(function, args)
        if function in {np.real, np.imag, np.abs, np.conj, np.sign}:
            return self.mapped(function, args)
        return self.passive(function, args, node)

    # ---- scalar functions ---------------------------------------------------------------------------

    def mapped(self, function: Any, args: Sequence[Value]) -> Value:
        """Return a scalar function of numbers, or of the elements of arrays."""
        name = function_name(function)
        if isinstance(function, types.Type):  # numba.float64
            name = f"np.{function.name}"
            function = getattr(np, str(function.name))
        if not name and isinstance(function, type) and issubclass(function, np.generic):
            name = f"np.{function.__name__}"
        if name.startswith("np.random") or getattr(function, "__module__", "") == "numpy.random":
            raise self.fail("random numbers are drawn", "Pass them as an argument")
        if not name:
            name = self.fresh(getattr(function, "__name__", "function"))
            self.constants[name] = function
        if name in {"abs", "np.abs", "np.absolute"} and syntax.is_complex(dtype(args[0])):
            parts = [self.mapped(part, args) for part in (np.real, np.imag)]
            return self.mapped(math.hypot, parts)

        def element(*operands: Any) -> Any:
            return syntax.call(name, *operands, ty=self.typed_call(function, *[o.ty for o in operands]))

        made: Value = self.elementwise(element, args, function)
        return made

    def elementwise_kernel(self, function: Any, args: Sequence[Value]) -> Value:
        """Return a ufunc that Numba has compiled, applied to numbers or arrays."""
        dispatcher = dispatcher_of(function)
        demand_frozen(dispatcher)
        if len(args) != function.nin:
            raise self.fail(
                f"{dispatcher.py_func.__name__} takes {function.nin} arguments, not {len(args)}",
                "Assign what it returns",
            )
        given = [numba.np.numpy_support.as_dtype(dtype(a)) for a in args]
        *kinds, kind = map(numba.from_dtype, loop_dtypes(function, given))

        def of_numbers(numbers: Sequence[Any]) -> Any:
            cast_to_loop = [Scalar(cast(x, ty)) for x, ty in zip(numbers, kinds, strict=True)]
            found = self.inline(dispatcher.py_func, cast_to_loop, {})
            assert isinstance(found, Scalar)  # noqa: S101 -- ufuncs give numbers
            return cast(found.node, kind)

        if all(isinstance(a, Scalar) for a in args):
            return Scalar(of_numbers([a.node for a in args]))  # type: ignore[union-attr]
        dims = [self.stable(d) for d in self.broadcast([a for a in args if not isinstance(a, Scalar)])]
        fixed = [self.kept(a) if isinstance(a, Scalar) else a for a in args]
        with self.aside() as loops, self.nest(dims) as at:
            found = of_numbers([item(a, at) for a in fixed])
            with self.aside() as before:
                made = self.new(dims, kind)
            self.out.append(syntax.Store(made.name, tuple(at), found, self.line))
        self.out += [*before, *loops]
        return made  # type: ignore[no-any-return]

    def passive(self, function: Any, args: Sequence[Value], node: ast.Call) -> Value:
        """Return what any other function gives, if it has no derivatives: indices, truth values, sizes."""
        operands: list[ast.expr] = []
        kinds: list[Any] = []
        if getattr(function, "__module__", "").startswith("numpy.random") or "random" in ast.unparse(
            node.func
        ):
            raise self.fail("random numbers are drawn", "Pass them as an argument")
        for a in args:
            if isinstance(a, Group):
                parts = [self.number(i) for i in a.items]
                operands.append(ast.Tuple(parts, ast.Load()))
                kinds.append(types.Tuple([p.ty for p in parts]))
            elif isinstance(a, Scalar):
                operands.append(a.node)
                kinds.append(a.type)
            elif isinstance(a, Array | Lazy):
                held = self.materialised(a)
                operands.append(ast.Name(held.name, ast.Load()))
                kinds.append(held.type)
            else:
                raise self.fail(f"`{ast.unparse(node)}` takes a Python object", "Call functions of numbers")
        ty = self.typed_call(function, *kinds)
        fixed = function in _GRIDS and not any(syntax.is_floating(k) for k in kinds)
        if syntax.is_floating(ty) and not fixed and any(syntax.is_floating(k) for k in kinds):
            raise self.fail(
                f"`{ast.unparse(node.func)}` has no derivative here",
                "Write it as a loop, or as a kernel of your own",
            )
        name = function_name(function)
        if not name:
            name = self.fresh(getattr(function, "__name__", "function"))
            self.constants[name] = function
        if not isinstance(ty, types.Array | types.Number | types.Boolean):
            raise self.fail(f"`{ast.unparse(node)}` gives a {ty}", "Use functions of numbers and arrays")
        made = syntax.call(name, *operands, ty=ty)
        if not isinstance(ty, types.Array):
            return Scalar(made)
        held = self.opaque(made, ty)
        return self.copied(held) if syntax.is_floating(ty) else held  # type: ignore[no-any-return]

    # ---- arrays that are made -----------------------------------------------------------------------

    def made(self, function: Any, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Return a new array."""
        name = function.__name__
        like = name.endswith("_like")
        filled = name.startswith("full")
        shape, *rest = args
        value: Value | None = rest.pop(0) if filled and rest else keywords.pop("fill_value", None)
        kind = rest.pop(0) if rest else keywords.pop("dtype", None)
        if rest or keywords:
            raise self.fail(f"np.{name} has other arguments", "Give it a shape and a dtype")
        dims = self.shape_of(shape) if not like else dims_of(self.materialised(shape))
        if kind is not None:
            ty = dtype_of(kind.value if isinstance(kind, Static) else None)
        elif like:
            ty = dtype(shape)
        else:
            ty = value.type if filled and isinstance(value, Scalar) else types.float64
        array = self.new(dims, ty, zeros=name.startswith("zeros"))
        if name.startswith("ones"):
            value = Scalar(syntax.constant(1.0 if syntax.is_floating(ty) else 1, ty))
        if value is not None:
            self.fill(array, value)
        return array  # type: ignore[no-any-return]

    def shape_of(self, x: Value) -> list[Any]:
        """Return lengths from a shape."""
        return [self.integer(i) for i in (x.items if isinstance(x, Group) else [x])]

    def stacked(self, x: Value) -> Any:
        """Return an array of the numbers in a tuple."""
        if not isinstance(x, Group):
            raise self.fail("an array is made of what is no list or tuple", "Write it into an array")
        if all(isinstance(i, Group) for i in x.items):
            rows = [i.items for i in x.items if isinstance(i, Group)]
            flat = [self.number(v) for r in rows for v in r]
            dims = [len(rows), len(rows[0])]
        else:
            flat = [self.number(v) for v in x.items]
            dims = [len(flat)]
        ty = reduce(unified, [n.ty for n in flat])
        kept = [self.kept(Scalar(n)).node for n in flat]
        array = self.new([syntax.constant(d) for d in dims], ty)
        for k, n in enumerate(kept):
            at = (k,) if len(dims) == 1 else divmod(k, dims[1])
            where = tuple(syntax.constant(i) for i in at)
            self.out.append(syntax.Store(array.name, where, n, self.line))
        return array

    def of_List(self, node: ast.List) -> Value:  # noqa: D102, N802
        items = self.exprs(node.elts)
        if not items:
            raise self.fail("a list grows", "Make an array of its final length, and write into it")
        kinds = [v.type for v in items if isinstance(v, Scalar)]
        if len(kinds) == len(items):  # a list has one type
            ty = reduce(unified, kinds)
            items = [self.converted(v, ty) for v in items]
        return Group(items, listed=True)

    def np_array(self, x: Any, dtype: Value | None = None) -> Value | None:
        """Return `np.array` of numbers, or of an array that is a new one."""
        array = self.materialised(x) if isinstance(x, Array | Lazy) else self.stacked(x)
        return array if dtype is None else self.astype(array, dtype_of(_object(dtype)))

    def np_copy(self, x: Any) -> Value:
        """Return `np.copy`."""
        return self.copied(x)  # type: ignore[no-any-return]

    def np_ascontiguousarray(self, x: Any) -> Value:
        """Return the array itself where it lies in order, else a copy."""
        if isinstance(x, Lazy):
            return self.shared(x)  # type: ignore[no-any-return]
        return x if x.type.layout == "C" else self.copied(x)  # type: ignore[no-any-return]

    def np_asarray(self, x: Any, dtype: Any = None) -> Value | None:
        """Return `np.asarray`: of an array itself."""
        if dtype is not None:
            return self.astype(x, dtype_of(_object(dtype))) if isinstance(x, Array | Lazy) else None
        return self.shared(x) if isinstance(x, Array | Lazy) else self.np_array(x)

    def np_real(self, x: Any) -> Value | None:
        """Return the real part."""
        return self.part("real", x) if isinstance(x, Array) else None

    def np_imag(self, x: Any) -> Value | None:
        """Return the imaginary part."""
        return self.part("imag", x) if isinstance(x, Array) else None

    def np_reshape(self, x: Any, shape: Any) -> Value:
        """Return `np.reshape`."""
        return self.reshaped(x, "reshape", [shape])

    def np_ravel(self, x: Any) -> Value:
        """Return `np.ravel`."""
        return self.reshaped(x, "ravel", [])

    def np_sum(self, x: Any, axis: Any = None) -> Value | None:
        """Return `np.sum`."""
        if isinstance(x, Group):
            x = self.stacked(x)
        if not isinstance(x, Array | Lazy):
            return None
        dims = [self.stable(d) for d in dims_of(x)]
        columns = axis is None and self.is_by_columns(x)
        k = None if axis is None else self.number(axis).value % len(dims)
        out = None
        if k is not None and len(dims) > 1:
            out = self.new([d for i, d in enumerate(dims) if i != k], self.sum_type(x), zeros=True)
        else:
            name = self.fresh("total")
            zero = 0.0 if syntax.is_floating(dtype(x)) else 0
            kind = self.sum_type(x)
            unsigned = isinstance(kind, types.Integer) and not getattr(kind, "signed", True)
            self.assign(name, cast(syntax.constant(zero), kind) if unsigned else syntax.constant(zero, kind))
        with self.nest(dims, columns=columns) as at:
            value = item(x, at)
            if out is not None:
                where = [i for j, i in enumerate(at) if j != k]
                here = syntax.load(out.name, where, out.type.dtype)
                more = syntax.typed(ast.BinOp(here, ast.Add(), value), out.type.dtype)
                self.out.append(syntax.Store(out.name, tuple(where), more, self.line))
            else:
                more = ast.BinOp(self.scalar(name).node, ast.Add(), value)
                self.assign(name, syntax.typed(more, self.sum_type(x)))
        return out if out is not None else self.scalar(name)  # type: ignore[no-any-return]

    def is_by_columns(self, x: Any) -> bool:
        """Return whether Numba keeps an array, or makes one of an expression, in the order of columns."""
        sample = [syntax.constant(0)] * ndim_of(x)
        loads = (syntax.element_of(n) for n in nodes_of(item(x, sample)))
        layouts = {self.types[f[0]].layout for f in loads if f and self.types[f[0]].ndim > 1}
        return "F" in layouts and "C" not in layouts

    def sum_type(self, x: Any) -> Any:
        """Return the type of a sum."""
        ty = dtype(x)
        if isinstance(ty, types.Integer) and not getattr(ty, "signed", True):
            return types.uintp
        return types.intp if isinstance(ty, types.Boolean | types.Integer) else ty

    def np_mean(self, x: Any, axis: Any = None) -> Value | None:
        """Return `np.mean`."""
        found = self.average(x, axis)
        if isinstance(found, Scalar) and syntax.is_floating(dtype(x)):
            return Scalar(cast(found.node, dtype(x)))
        return found

    def average(self, x: Any, axis: Any = None) -> Value | None:
        """Return a mean in the type that a sum divided by a count has."""
        total = self.np_sum(x, axis)
        if total is None:
            return None
        dims = dims_of(x)
        count: Value = Scalar(syntax.constant(1))
        k = None if axis is None else self.number(axis).value % len(dims)
        for i, d in enumerate(dims):
            if k is None or i == k:
                count = self.binary(ast.Mult, count, Scalar(d))
        return self.binary(ast.Div, total, count)  # type: ignore[no-any-return]

    def np_var(self, x: Any) -> Value:
        """Return `np.var`."""
        gap = self.binary(ast.Sub, x, self.kept(self.np_mean(x)))
        other = gap if not syntax.is_complex(dtype(gap)) else self.mapped(np.conj, [gap])
        square = self.binary(ast.Mult, gap, other)
        found = self.average(square if other is gap else self.mapped(np.real, [square]))
        assert found is not None  # noqa: S101 -- of an array
        return found

    def np_std(self, x: Any) -> Value:
        """Return `np.std`."""
        return self.binary(ast.Pow, self.np_var(x), Scalar(syntax.constant(0.5)))  # type: ignore[no-any-return]

    def np_where(self, c: Any, x: Any = None, y: Any = None) -> Value | None:
        """Return `np.where` of three operands."""
        if x is None:
            return None

        def element(c: Any, x: Any, y: Any) -> Any:
            return syntax.typed(ast.IfExp(c, x, y), unified(x.ty, y.ty))

        return self.elementwise(element, [c, x, y])  # type: ignore[no-any-return]

    def np_clip(self, x: Any, low: Any, high: Any) -> Value:
        """Return `np.clip`."""
        found = self.mapped(np.minimum, [self.mapped(np.maximum, [x, low]), high])
        return replace(found, dtype=dtype(x)) if isinstance(found, Lazy) else found

    def np_diff(self, a: Any, n: Any = None) -> Value | None:
        """Return `np.diff`, along the last axis."""
        times = 1 if n is None else getattr(self.number(n), "value", None)
        if not isinstance(a, Array | Lazy) or not isinstance(times, int) or times < 0:
            return None
        found = self.copied(a) if times == 0 else self.materialised(a)
        for _ in range(times):
            found = self.gaps(found)
        return found  # type: ignore[no-any-return]

    def gaps(self, x: Array) -> Array:
        """Return an array of the differences of neighbours along the last axis."""
        one = Scalar(syntax.constant(1))
        *others, length = map(Scalar, dims_of(x))
        last = self.mapped(max, [self.binary(ast.Sub, length, one), Scalar(syntax.constant(0))])

        def element(at: Sequence[Any]) -> Any:
            behind = self.number(self.binary(ast.Add, Scalar(at[-1]), one))
            pair = [Scalar(item(x, [*at[:-1], k])) for k in (behind, at[-1])]
            return self.number(self.binary(ast.Sub, *pair))

        dims = [*[d.node for d in others], self.number(last)]
        return self.materialised(Lazy(dims, dtype(x), element))  # type: ignore[no-any-return]

    def np_concatenate(self, arrays: Any, axis: Any = None) -> Value | None:
        """Return `np.concatenate` of a tuple of arrays."""
        k = 0 if axis is None else getattr(self.number(axis), "value", None)
        parts = arrays.items if isinstance(arrays, Group) and not arrays.axes else []
        if not parts or not all(isinstance(a, Array | Lazy) for a in parts) or not isinstance(k, int):
            return None
        held = [self.materialised(a) for a in parts]
        rank = ndim_of(held[0])
        if not -rank <= k < rank or any(ndim_of(a) != rank for a in held):
            return None
        k %= rank
        starts: list[Any] = [Scalar(syntax.constant(0))]
        for a in held:
            starts.append(self.kept(self.binary(ast.Add, starts[-1], Scalar(dims_of(a)[k]))))
        dims = [starts[-1].node if i == k else d for i, d in enumerate(dims_of(held[0]))]
        out = self.new(dims, reduce(unified, map(dtype, held)))
        for a, start in zip(held, starts, strict=False):
            for i, (have, want) in enumerate(zip(dims_of(a), dims, strict=True)):
                if i != k and syntax.text(have) != syntax.text(want):
                    self.check(want, have)
            with self.nest(dims_of(a)) as at:
                place = self.number(self.binary(ast.Add, start, Scalar(at[k])))
                where = (*at[:k], place, *at[k + 1 :])
                self.out.append(syntax.Store(out.name, where, item(a, at), self.line))
        return out  # type: ignore[no-any-return]

    def np_transpose(self, x: Any) -> Value:
        """Return `np.transpose`."""
        return self.viewed(x, lambda a: ast.Attribute(a, "T", ast.Load()), x)  # type: ignore[no-any-return]

    def np_linspace(self, low: Any, high: Any, count: Any = None) -> Value:
        """Return `np.linspace`."""
        n = self.stable(self.integer(count if count is not None else Scalar(syntax.constant(50))))
        low, high = self.kept(low), self.kept(high)
        gap = self.kept(self.binary(ast.Div, self.binary(ast.Sub, high, low), Scalar(
            syntax.call("max", syntax.typed(ast.BinOp(n, ast.Sub(), ast.Constant(1)), types.intp),
                        syntax.constant(1), ty=types.intp))))  # fmt: skip
        made = Lazy([n], gap.type, lambda at: self.binary(
            ast.Add, low, self.binary(ast.Mult, Scalar(at[0]), gap)).node)  # fmt: skip
        array = self.materialised(made)
        last = syntax.typed(ast.BinOp(n, ast.Sub(), syntax.constant(1)), types.intp)
        test = syntax.typed(ast.Compare(n, [ast.Gt()], [syntax.constant(1)]), types.boolean)
        store = syntax.Store(array.name, (last,), self.number(high), self.line)
        self.out.append(syntax.If(test, [store], [], self.line))
        return array  # type: ignore[no-any-return]

    def library(self, function: Any, args: Sequence[Value]) -> Value:
        """Return a function that is a kernel here."""
        held = [self.materialised(a) if isinstance(a, Lazy) else a for a in args]
        entry = LIBRARY[function].get(tuple(ndim_of(a) for a in held))
        if entry is None and function in _OF_ALL and ndim_of(held[0]) > 1:
            return self.library(function, [self.np_ravel(held[0])])
        if entry is None:
            raise self.fail(f"np.{function.__name__} takes arrays of these ranks", "Write the loop")
        for a in held:
            if not syntax.is_floating(dtype(a)):
                return self.passive_library(function, held)
        if entry.dims is None:
            found = self.inline(entry.kernel, held, {})
            if function is np.prod:
                return Scalar(cast(found.node, dtype(held[0])))
            return Scalar(self.given(self.numbas(function, held), found.node)) if entry.foreign else found
        ty = reduce(unified, map(dtype, held))
        dims = [self.stable(dims_of(held[i])[axis]) for i, axis in entry.dims]  # type: ignore[arg-type]
        out = self.new(dims, ty, zeros=True)
        self.inline(entry.kernel, [out, *held], {})
        if not entry.foreign:
            return out  # type: ignore[no-any-return]
        value = self.numbas(function, held)
        by_numba = self.opaque(value, value.ty)

        def element(at: Sequence[Any]) -> Any:
            return self.given(item(by_numba, at), item(out, at))

        return self.materialised(Lazy(dims, ty, element))  # type: ignore[no-any-return]

    def numbas(self, function: Any, args: Sequence[Any]) -> Any:
        """Return a call of NumPy's function as Numba computes it, by BLAS and LAPACK."""
        operands = []
        for a in args:
            name: Any = ast.Name(a.name, ast.Load())
            ordered = a.type.layout in "CF"
            operands.append(name if ordered else ast.Call(ast.Attribute(name, "copy", ast.Load()), [], []))
        kinds = [a.type if a.type.layout in "CF" else a.type.copy(layout="C") for a in args]
        return syntax.call(function_name(function), *operands, ty=self.typed_call(function, *kinds))

    def given(self, value: Any, source: Any) -> Any:
        """Return a number that Numba computes, with the derivative of the one that is written out here."""
        made: Any = syntax.Given
        return syntax.typed(made(value, source), value.ty)

    def passive_library(self, function: Any, args: Sequence[Value]) -> Value:
        """Refuse, or pass on, what is not made of floats."""
        if not any(syntax.is_floating(dtype(a)) for a in args):
            node = ast.Call(ast.Name(function.__name__, ast.Load()), [], [])
            return self.passive(function, args, node)
        kinds = [dtype(a) for a in args if syntax.is_floating(dtype(a))]
        held = [a if syntax.is_floating(dtype(a)) else self.astype(a, kinds[0]) for a in args]
        return self.library(function, held)

    # ---- methods ------------------------------------------------------------------------------------

    def method(self, base: Value, name: str, node: ast.Call) -> Value:
        """Return what a method of an array or number gives."""
        args, keywords = self.arguments(node)
        if isinstance(base, Scalar):
            if name == "conjugate":
                return self.mapped(np.conj, [base])
            raise self.fail(f"`{ast.unparse(node)}` has no derivative here", "Use a function")
        if isinstance(base, Array | Lazy):
            if name in {"sum", "mean", "var", "std"}:
                special = getattr(self, f"np_{name}")
                if not _fits(special, [base, *args], keywords):
                    raise self.fail(f"`{ast.unparse(node)}` has other arguments", "Leave them out")
                return special(base, *args, **keywords)  # type: ignore[no-any-return]
            if name in METHODS and not keywords:
                return self.library(METHODS[name], [base, *args])
            if name == "copy":
                return self.copied(base)  # type: ignore[no-any-return]
            if name == "fill" and isinstance(base, Lazy):
                raise self.fail(f"`{ast.unparse(node)}` writes to a view", "Write to the array itself")
            if name == "fill":
                self.fill(base, args[0])
                return Static(None)
            if name == "transpose" and not args:
                return self.np_transpose(base)
            if name == "item" and not args:
                return Scalar(self.number(base))
            if name == "astype":
                return self.astype(base, dtype_of(_object(args[0])))
            if name in {"ravel", "flatten", "reshape"}:
                return self.reshaped(base, name, args)
            if name in {"argmax", "argmin", "argsort", "any", "all"}:
                return self.passive(getattr(np, name), [base, *args], node)
            if name in {"conj", "conjugate"}:
                return self.mapped(np.conj, [base])
        raise self.fail(
            f"the method `.{name}()` has no derivative here", "Use functions of NumPy, or write the loop"
        )

    def astype(self, x: Any, ty: Any) -> Value:
        """Return elements in another type, in a new array."""
        made = self.new(dims_of(x), ty)
        self.fill(made, x)
        return made  # type: ignore[no-any-return]

    def reshaped(self, base: Array | Lazy, name: str, args: list[Value]) -> Value:
        """Return another shape: a view of what lies in order, as Numba does it."""
        a = self.shared(base) if name != "flatten" else self.materialised(base)
        if name == "flatten" or a.type.layout != "C":
            if name == "reshape":
                raise self.fail("an array that does not lie in order is reshaped", "Reshape a copy of it")
            a = self.copied(a)
        dims = self.shape_of(args[0] if len(args) == 1 else Group(args)) if args else [syntax.constant(-1)]
        dims = [self.stable(d) for d in dims]
        is_open = any(isinstance(d, ast.Constant) and d.value == -1 for d in dims)
        if is_open and len(dims) > 1:
            raise self.fail("a shape leaves a length open", "Give all lengths")
        form = ast.Call(ast.Attribute(ast.Name(a.name, ast.Load()), "ravel", ast.Load()), [], [])
        if dims and not is_open:
            shape = ast.Tuple(dims, ast.Load())
            form = ast.Call(ast.Attribute(ast.Name(a.name, ast.Load()), "reshape", ast.Load()), [shape], [])
        ty = a.type.copy(ndim=len(dims), layout="C", readonly=not a.type.mutable)
        return self.new_view(a, form, ty)  # type: ignore[no-any-return]

    def parameter(self, name: str, given: Any, params: list[syntax.Param]) -> Value:
        """Return an argument, taken apart where it is a tuple."""
        ty: Any = types.unliteral(given)
        if isinstance(ty, types.BaseTuple):
            fields, kinds = tuple(getattr(ty, "fields", ())), tuple(getattr(ty, "types", ()))
            named = zip(fields or range(len(kinds)), kinds, strict=True)
            parts = [self.parameter(self.fresh(f"{name}_{n}"), t, params) for n, t in named]
            return Group.of(getattr(ty, "instance_class", tuple), parts)
        if isinstance(ty, types.NoneType):
            return Static(None)
        if isinstance(syntax.element(ty), types.Record):
            return self.record_parameter(name, ty, params)
        if isinstance(ty, types.StructRef):
            parts = [self.parameter(self.fresh(f"{name}_{n}"), _frozen(t), params) for n, t in ty._fields]
            return Group(parts, tuple(n for n, _ in ty._fields))
        if not isinstance(ty, types.Array | types.Number | types.Boolean):
            raise self.fail(f"the argument {name} is a {ty}", "Pass numbers, arrays, and tuples of those")
        self.types[name] = ty
        params.append(syntax.Param(name, ty))
        if not isinstance(ty, types.Array):
            return Scalar(syntax.name(name, ty))
        self.outside.add(name)
        if not ty.mutable:
            self.records.add(name)
        return Array(name, ty)

    def record_parameter(self, name: str, ty: Any, params: list[syntax.Param]) -> Value:
        """Return a record, or an array of them: its fields, which nobody writes to."""
        axes = ty.ndim if isinstance(ty, types.Array) else 0
        parts = []
        for field, t in syntax.element(ty).members:
            nested = t.shape if isinstance(t, types.NestedArray) else ()
            inner: Any = t.dtype if nested else t
            if not isinstance(inner, types.Number | types.Boolean):
                raise self.fail(
                    f"the field {field} of the argument {name} is a {t}", "Keep numbers in records"
                )
            ndim = axes + len(nested)
            kind = types.Array(inner, ndim, "C", readonly=True) if ndim else inner
            parts.append(self.parameter(self.fresh(f"{name}_{field}"), kind, params))
        return Group(parts, tuple(n for n, _ in syntax.element(ty).members), axes=axes)


def _fits(function: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> bool:
    """Return whether a function takes such arguments."""
    try:
        inspect.signature(function).bind(*args, **keywords)
    except TypeError:
        return False
    return True


def _frozen(ty: Any) -> Any:
    """Return the type of an array that nobody writes to; of anything else its own."""
    return ty.copy(readonly=True, layout="C") if isinstance(ty, types.Array) else ty


def _object(x: Value) -> Any:
    """Return what a value stands for, if that is known."""
    return x.value if isinstance(x, Static) else None
