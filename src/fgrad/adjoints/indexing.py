"""Indices in kernels: elements, views, selections by integers, and what is written to those."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numba import types

from fgrad.adjoints import syntax
from fgrad.adjoints.calls import Calls
from fgrad.adjoints.syntax import If, Opaque, Store, View
from fgrad.adjoints.values import (
    Array,
    Group,
    Lazy,
    Scalar,
    Static,
    Value,
    context,
    dims_of,
    dtype,
    item,
    ndim_of,
    unified,
)


class Indexing(Calls):
    """Indices."""

    def indices(self, node: ast.expr) -> list[Any]:
        """Return the parts of an index: values, slices, None and Ellipsis."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        found: list[Any] = []
        for k, p in enumerate(parts):
            if isinstance(p, ast.Slice):
                ends = [None if e is None else self.integer(self.expr(e)) for e in (p.lower, p.upper, p.step)]
                found.append(ast.Slice(*ends))
            else:
                v = self.expr(p)
                if any(self.calls_kernel(later) for later in parts[k + 1 :]):
                    v = self.kept(v)
                found += v.items if isinstance(v, Group) else [v]
        return found

    def of_Subscript(self, node: ast.Subscript) -> Value:  # noqa: D102, N802
        base = self.expr(node.value)
        if isinstance(base, Group) and base.fields and isinstance(node.slice, ast.Constant):
            field = node.slice.value
            if isinstance(field, str):
                return self.field(base, field)
        if isinstance(base, Group) and base.axes:
            return self.record(base, self.indices(node.slice))
        if isinstance(base, Group):
            index = self.expr(node.slice) if not isinstance(node.slice, ast.Slice) else None
            if index is None:
                cut: Any = node.slice
                ends = [
                    None if e is None else self.number(self.expr(e)).value
                    for e in (cut.lower, cut.upper, cut.step)
                ]
                return Group(base.items[slice(*ends)], listed=base.listed)
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
            if getattr(node.ty, "signed", False):
                from_end = ast.Compare(node, [ast.Eq()], [ast.Constant(k - len(items))])
                test = syntax.typed(ast.BoolOp(ast.Or(), [test, from_end]), types.boolean)
            found = syntax.typed(ast.IfExp(test, items[k], found), unified(items[k].ty, found.ty))
        return Scalar(found)

    def field(self, base: Group, name: str) -> Value:
        """Return a field of a record, or of all records."""
        if name not in base.fields:
            raise self.fail(f"there is no field {name!r}", f"Its fields are {', '.join(base.fields)}")
        return base.items[base.fields.index(name)]

    def record(self, base: Group, index: Sequence[Any]) -> Group:
        """Return a record of an array of records, or fewer records."""
        if any(not isinstance(i, Scalar | ast.Slice) for i in index):
            raise self.fail("records are selected by arrays, or get new axes", "Index their fields")
        items = [self.indexed(x, index) for x in base.items]
        return replace(base, items=items, axes=base.axes - sum(isinstance(i, Scalar) for i in index))

    def indexed(self, base: Value, index: Sequence[Any]) -> Value:
        """Return an element, a view, or a selection by integers."""
        if isinstance(base, Lazy):
            if len(index) == ndim_of(base) and all(isinstance(i, Scalar) for i in index):
                return Scalar(item(base, [self.integer(i) for i in index]))
            if base.cut is not None:
                return base.cut(index)
            if base.source:
                raise self.fail("a view with new axes is cut", "Cut the array before it gets new axes")
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
            plain = [self.kept_index(i) for i in index if not isinstance(i, Static)]
            under = self.indexed(base, plain)
            kept = [i for i in index if isinstance(i, Static | ast.Slice)]
            places = [k for k, i in enumerate(kept) if not isinstance(i, Static)]
            under_dims = [] if isinstance(under, Scalar) else dims_of(under)  # type: ignore[arg-type]
            source = base.name if isinstance(under, Scalar) else under.name  # type: ignore[union-attr]
            dims: list[Any] = [syntax.constant(1)] * len(kept)
            for k, d in zip(places, under_dims, strict=True):
                dims[k] = d
            return Lazy(dims, dtype(under), lambda at: item(under, [at[k] for k in places]), source)
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

    def kept_index(self, i: Any) -> Any:
        """Return a part of an index that stays what it is, where it is one integer."""
        return Scalar(self.stable(self.integer(i))) if isinstance(i, Scalar) else i

    def sliced(self, index: Sequence[Any]) -> bool:
        """Return whether an index leaves anything out."""
        return any(not isinstance(i, ast.Slice) or i.lower or i.upper or i.step for i in index)

    def new_view(self, base: Array, form: Any, ty: Any) -> Array:
        """Emit a view."""
        name = self.fresh("v")
        self.types[name] = ty
        self.stale.pop(name, None)
        self.sources[name] = base.name
        self.out.append(View(name, base.name, form, self.line))
        return Array(name, ty)

    def viewed(self, x: Array | Lazy, form: Any, node: Any) -> Value:
        """Return a view that an attribute or method of an array makes."""
        a = self.shared(x)
        made = form(ast.Name(a.name, ast.Load()))
        kind: Any = context().resolve_getattr(a.type, "T")
        if kind is None:
            raise self.fail(f"Numba knows no `{ast.unparse(node)}`", "Use another view")
        return self.new_view(a, made, kind)

    def selection(self, base: Array, index: Sequence[Any], fancy: Sequence[Any]) -> Value:
        """Return elements by an array of integers, or of truth values."""
        if self.is_mask(base, index):
            return self.compressed(base, fancy[0])
        if len(fancy) > 1 or ndim_of(fancy[0]) != 1 or not isinstance(dtype(fancy[0]), types.Integer):
            raise self.fail(
                "an array is indexed by several arrays, or by truth values of other axes",
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

    def is_mask(self, base: Array, index: Sequence[Any]) -> bool:
        """Return whether an index is an array of truth values, one for each element."""
        found = [i for i in index if isinstance(i, Array | Lazy)]
        if len(found) != 1 or not isinstance(dtype(found[0]), types.Boolean):
            return False
        others = [i for i in index if i is not found[0]]
        return ndim_of(found[0]) == base.type.ndim and not self.sliced(others)

    def masked(self, base: Array, mask: Array, act: Any) -> None:
        """Emit a loop that acts on the elements where a mask holds, with their index."""
        for k, d in enumerate(dims_of(base)):
            self.check(d, dims_of(mask)[k])
        with self.nest(dims_of(mask)) as at:
            with self.aside() as inner:
                act(at)
            test = syntax.load(mask.name, at, mask.type.dtype)
            self.out.append(If(test, inner, [], self.line))

    def counted(self, name: str) -> None:
        """Emit `name += 1`."""
        more = ast.BinOp(self.scalar(name).node, ast.Add(), syntax.constant(1))
        self.assign(name, syntax.typed(more, types.intp))

    def compressed(self, base: Array, given: Array | Lazy) -> Array:
        """Return a new array of the elements where a mask holds."""
        mask = self.materialised(given)
        count, place = self.fresh("count"), self.fresh("place")
        self.assign(count, syntax.constant(0))
        self.masked(base, mask, lambda _: self.counted(count))
        made = self.new([self.scalar(count).node], base.type.dtype)
        self.assign(place, syntax.constant(0))

        def act(at: Sequence[Any]) -> None:
            value = syntax.load(base.name, at, base.type.dtype)
            self.out.append(Store(made.name, (self.scalar(place).node,), value, self.line))
            self.counted(place)

        self.masked(base, mask, act)
        return made  # type: ignore[no-any-return]

    def put_masked(self, base: Array, given: Array | Lazy, value: Value) -> None:
        """Emit `base[mask] = value`."""
        mask = self.materialised(given)
        if not isinstance(value, Array | Lazy):
            node = self.number(self.kept(value))
            self.masked(base, mask, lambda at: self.out.append(Store(base.name, tuple(at), node, self.line)))
            return
        held, place = self.copied(value), self.fresh("place")
        self.assign(place, syntax.constant(0))

        def act(at: Sequence[Any]) -> None:
            element = syntax.load(held.name, [self.scalar(place).node], held.type.dtype)
            self.out.append(Store(base.name, tuple(at), element, self.line))
            self.counted(place)

        self.masked(base, mask, act)

    def put(self, base: Value, index: Sequence[Any], value: Value) -> None:
        """Emit `base[index] = value`."""
        if isinstance(base, Group) and base.fields:
            raise self.fail("a record is written to", "Read records, and write to arrays")
        if isinstance(base, Group):
            raise self.fail("an element of a list or tuple is written", "Make an array, and write into it")
        if not isinstance(base, Array):
            raise self.fail("elements are written of what is no array", "Write to arrays that have a name")
        self.demand_writable(base)
        index = self.whole(base, index)
        if self.is_mask(base, index):
            self.put_masked(base, next(i for i in index if isinstance(i, Array | Lazy)), value)
            return
        if all(isinstance(i, Scalar) for i in index):
            where = tuple([self.integer(i) for i in index])
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
            with self.nest(chosen.dims) as at:
                target: Any = syntax.element_of(chosen.element(at))
                self.out.append(Store(base.name, target[1], item(value, at), self.line))
            return
        view = self.view(base, index)
        if not isinstance(view, Array):
            raise self.fail("new axes are written to", "Index the axes that there are")
        self.fill(view, value)

    def demand_writable(self, x: Array) -> None:
        """Refuse what is frozen: constants, and fields of records."""
        if self.root(x.name) in self.records:
            raise self.fail("a field of a record is written to", "Read records, and write to arrays")
        if self.root(x.name) in self.borrowed:
            raise self.fail(self.borrowed[self.root(x.name)], "Copy it with `.copy()` before the loop")
        if not x.type.mutable or x.name in self.constants:
            raise self.fail(f"the constant array {x.name} is written to", "Pass it as an argument")
        self.note_write(x)

    def opaque(self, node: Any, ty: Any) -> Array:
        """Emit a new array without derivatives."""
        name = self.fresh("p")
        self.types[name] = ty
        self.out.append(Opaque(name, node, self.line))
        return Array(name, ty)
