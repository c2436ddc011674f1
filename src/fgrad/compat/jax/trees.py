"""`jax.tree_util`, `jax.tree` and `jax.flatten_util`: JAX's containers, by optree."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import optree

from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import Array, as_array, form_of, made
from fgrad.compat.jax.types import promoted
from fgrad.compat.standins import by_name

NAMESPACE = "jax"
IsLeaf = Callable[[Any], bool] | None
PyTreeDef = optree.PyTreeSpec
_REST: Any = object()


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of a tree, and what builds it again."""
    leaves, structure = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    return leaves, structure


def unflatten(structure: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Return the tree of a structure with these leaves, in which keys of dictionaries are in order."""
    return structure.traverse(leaves, _in_order)


def _in_order(node: Any) -> Any:
    if node.__class__ is not dict and node.__class__ is not defaultdict:
        return node
    try:
        keys = sorted(node)
    except TypeError:  # they have no order
        return node
    if keys == list(node):
        return node
    ordered = node.copy()
    ordered.clear()  # a dictionary of its kind
    ordered.update((key, node[key]) for key in keys)
    return ordered


def _leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    return flatten(tree, is_leaf)[0]


def _structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    return flatten(tree, is_leaf)[1]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Return a tree of `f` of the leaves, and of what the trees of `rest` have at these places."""
    leaves, structure = flatten(tree, is_leaf)
    others = [structure.flatten_up_to(r) for r in rest]
    return unflatten(structure, [f(*group) for group in zip(leaves, *others, strict=True)])


def _all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    return all(_leaves(tree, is_leaf))


def _reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _REST, is_leaf: IsLeaf = None
) -> Any:
    first = [] if initializer is _REST else [initializer]
    return functools.reduce(function, [*first, *_leaves(tree, is_leaf)])


def _reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _REST, is_leaf: IsLeaf = None
) -> Any:
    leaves = _leaves(tree, is_leaf)
    while len(leaves) > 1:
        pairs = [operation(a, b) for a, b in zip(leaves[::2], leaves[1::2], strict=False)]
        leaves = pairs + leaves[len(pairs) * 2 :]
    if leaves:
        return leaves[0]
    if identity is _REST:
        raise ValueError("the tree has no leaves: give an identity")
    return identity


def _transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    outer, inner = outer_treedef, inner_treedef
    parts = outer.flatten_up_to(pytree_to_transpose)
    if inner is None:
        inner = _structure(parts[0])
    columns = zip(*(inner.flatten_up_to(p) for p in parts), strict=True)
    return unflatten(inner, [unflatten(outer, column) for column in columns])


def _broadcast(prefix: Any, tree: Any, is_leaf: IsLeaf = None) -> Any:
    leaves, structure = flatten(prefix, is_leaf)
    parts = structure.flatten_up_to(tree)
    return unflatten(structure, [tree_map(lambda _, v=v: v, p) for v, p in zip(leaves, parts, strict=True)])


class Registry:
    """Which classes are containers."""

    def __contains__(self, cls: type) -> bool:
        return optree.register_pytree_node.get(cls, namespace=NAMESPACE) is not None


# ---- paths


def _kind_of_key(name: str, field: str, text: str) -> Any:
    """Return the class of the keys of a kind of container, written as `text` says."""
    shown = {"__str__": lambda self: text.format(getattr(self, field)), "__module__": __name__}
    return dataclasses.make_dataclass(name, [field], frozen=True, namespace=shown)


DictKey = _kind_of_key("DictKey", "key", "[{!r}]")
SequenceKey = _kind_of_key("SequenceKey", "idx", "[{}]")
GetAttrKey = _kind_of_key("GetAttrKey", "name", ".{}")
FlattenedIndexKey = _kind_of_key("FlattenedIndexKey", "key", "[<flat index {}>]")
_OWN_KEYS = (DictKey, SequenceKey, GetAttrKey, FlattenedIndexKey)


def _key(entry: Any) -> Any:
    found = entry.entry
    if isinstance(found, _OWN_KEYS):
        return found
    if isinstance(entry, optree.NamedTupleEntry):
        return GetAttrKey(entry.field)
    if isinstance(entry, optree.SequenceEntry):
        return SequenceKey(found)
    if isinstance(entry, optree.MappingEntry):
        return DictKey(found)
    return FlattenedIndexKey(found)


def flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[Any, Any]], PyTreeDef]:
    """Return the leaves of a tree, each with the keys that lead to it, and what builds it again."""
    if is_leaf_takes_path:
        found = iter(list(_ends(tree, is_leaf, ())))
        is_leaf = lambda _: next(found)  # noqa: E731 -- which is asked in the same order
    accessors, leaves, structure = optree.tree_flatten_with_accessor(tree, is_leaf, namespace=NAMESPACE)
    return [(tuple(map(_key, a)), x) for a, x in zip(accessors, leaves, strict=True)], structure


def _ends(tree: Any, is_leaf: Any, path: tuple[Any, ...]) -> Iterator[bool]:
    """Return for each part of a tree, itself first, whether it is a leaf by a function of its path and it."""
    is_end = is_leaf(path, tree)
    yield is_end
    if not is_end:
        accessors, parts, _ = optree.tree_flatten_with_accessor(
            tree, lambda part: part is not tree, namespace=NAMESPACE
        )
        for accessor, part in zip(accessors, parts, strict=True):
            if accessor:
                yield from _ends(part, is_leaf, (*path, *map(_key, accessor)))


def _leaves_with_path(tree: Any, *args: Any, **options: Any) -> list[tuple[Any, Any]]:
    return flatten_with_path(tree, *args, **options)[0]


def _map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, **options: Any) -> Any:
    found, structure = flatten_with_path(tree, **options)
    others = [structure.flatten_up_to(r) for r in rest]
    groups = zip(found, *others, strict=True)
    return unflatten(structure, [f(path, leaf, *more) for (path, leaf), *more in groups])


def keystr(keys: Sequence[Any], *, simple: bool = False, separator: str = "") -> str:
    """Return a path as text."""
    if not simple:
        return separator.join(map(str, keys))
    return separator.join(str(getattr(k, dataclasses.fields(k)[0].name)) for k in keys)


# ---- containers of programs


def register_pytree_node(
    nodetype: type, flatten_func: Callable[[Any], Any], unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], Any] | None = None,
) -> None:  # fmt: skip
    """Make instances of a class containers: `flatten(x) = (children, aux)`, `unflatten(aux, children)`."""
    optree.register_pytree_node(nodetype, flatten_func, unflatten_func, namespace=NAMESPACE)


def register_pytree_with_keys(
    nodetype: type, flatten_with_keys: Callable[[Any], Any], unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], Any] | None = None,
) -> None:  # fmt: skip
    """Make instances of a class containers whose children have keys: `([(key, child), ...], aux)`."""

    def divided(x: Any) -> Any:
        pairs, aux = flatten_with_keys(x)
        pairs = list(pairs)
        return [child for _, child in pairs], aux, tuple(key for key, _ in pairs)

    optree.register_pytree_node(nodetype, divided, unflatten_func, namespace=NAMESPACE)


def register_pytree_node_class(cls: type) -> type:
    """Make a class that has `tree_flatten` and `tree_unflatten` a container."""
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_pytree_with_keys_class(cls: type) -> type:
    """Make a class that has `tree_flatten_with_keys` and `tree_unflatten` a container."""
    found: Any = cls
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(), found.tree_unflatten)
    return cls


def register_static(cls: type) -> type:
    """Make instances of a class containers without leaves, compared by `==`."""
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x)
    return cls


def register_dataclass(
    nodetype: type, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> type:  # fmt: skip
    """Make instances of a dataclass containers of the fields of data."""
    fields = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
    static = [f.name for f in fields if f.metadata.get("static")]
    meta = tuple(static if meta_fields is None else meta_fields)
    data = tuple([f.name for f in fields if f.name not in meta] if data_fields is None else data_fields)

    def divided(x: Any) -> Any:
        return [(GetAttrKey(n), getattr(x, n)) for n in data], tuple(getattr(x, n) for n in meta)

    def built(aux: Any, children: Iterable[Any]) -> Any:
        return nodetype(**dict(zip(data, children, strict=True)), **dict(zip(meta, aux, strict=True)))

    register_pytree_with_keys(nodetype, divided, built)
    return nodetype


class Partial(functools.partial):  # type: ignore[type-arg]
    """`functools.partial` as a container: its arguments are leaves, its function is not."""


register_pytree_node(
    Partial, lambda p: ((p.args, p.keywords), p.func), lambda f, c: Partial(f, *c[0], **c[1])
)


# ---- flat arrays


def ravel_pytree(tree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Return the elements of all arrays of a tree in one array, and the way back."""
    leaves, structure = flatten(tree)
    arrays = [as_array(x) for x in leaves]
    if not arrays:
        return made(np.zeros(0)), lambda _: unflatten(structure, [])
    dtype, _ = promoted((x.dtype, x.weak_type) for x in arrays)
    flat = fnp.concatenate([x.astype(dtype).reshape(-1)._tensor for x in arrays])

    def back(vector: Any) -> Any:
        vector, parts, at = as_array(vector), [], 0
        if vector.shape != flat.shape:
            raise ValueError(
                f"there are {flat.shape[0]} elements in the tree, not an array of shape {vector.shape}"
            )
        for x in arrays:
            parts.append(vector[at : at + x.size].reshape(x.shape).astype(x.dtype))
            at += x.size
        return unflatten(structure, parts)

    return made(flat, form_of(dtype)), back


TREE: dict[str, Any] = {
    "all": _all,
    "broadcast": _broadcast,
    "flatten": flatten,
    "flatten_with_path": flatten_with_path,
    "leaves": _leaves,
    "leaves_with_path": _leaves_with_path,
    "map": tree_map,
    "map_with_path": _map_with_path,
    "reduce": _reduce,
    "reduce_associative": _reduce_associative,
    "structure": _structure,
    "transpose": _transpose,
    "unflatten": unflatten,
}
TREE_UTIL: dict[str, Any] = {f"tree_{name}": function for name, function in TREE.items()} | {
    "KeyEntry": Any,
    "KeyPath": tuple,
    "PyTreeDef": PyTreeDef,
    "all_leaves": lambda xs, is_leaf=None: all(
        len(found) == 1 and found[0] is x for x in xs for found in [_leaves(x, is_leaf)]
    ),
    "flatten_one_level": lambda x: optree.tree_flatten_one_level(x, namespace=NAMESPACE)[:2],
    "treedef_is_leaf": lambda structure: structure.is_leaf(),
    "treedef_tuple": lambda structures: optree.treespec_tuple(structures, namespace=NAMESPACE),
    "treedef_children": operator.methodcaller("children"),
    **by_name(
        *(DictKey, FlattenedIndexKey, GetAttrKey, Partial, SequenceKey, keystr),
        *(register_dataclass, register_pytree_node, register_pytree_node_class),
        *(register_pytree_with_keys, register_pytree_with_keys_class, register_static),
    ),
}
