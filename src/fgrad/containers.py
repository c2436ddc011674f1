"""Trees whose containers are registered under a name: paths to leaves, leaves on request, new containers.

`fgrad.tree` offers what is here for its own containers, and needs optree only where some appear; a layer that
answers for another library has containers of its own.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import optree

IsLeaf = Callable[[Any], bool] | None
_REST: Any = object()


def register(
    cls: type, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any], Any], namespace: str
) -> None:
    """Make instances of a class containers; also of named tuples, which optree says are already."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PyTree type .* is a subclass of")
        optree.register_pytree_node(cls, flatten, unflatten, namespace=namespace)


# ---- the keys of paths


def _kind_of_key(name: str, field: str, text: str) -> Any:
    """Return the class of the keys of a kind of container, written as `text` says."""
    shown = {"__str__": lambda self: text.format(getattr(self, field)), "__module__": __name__}
    return dataclasses.make_dataclass(name, [field], frozen=True, namespace=shown)


DictKey: Any = _kind_of_key("DictKey", "key", "[{!r}]")
SequenceKey: Any = _kind_of_key("SequenceKey", "idx", "[{}]")
GetAttrKey: Any = _kind_of_key("GetAttrKey", "name", ".{}")
FlattenedIndexKey: Any = _kind_of_key("FlattenedIndexKey", "key", "[<flat index {}>]")
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


def keystr(keys: Sequence[Any], *, simple: bool = False, separator: str = "") -> str:
    """Return a path as text."""
    if not simple:
        return separator.join(map(str, keys))
    return separator.join(str(getattr(k, dataclasses.fields(k)[0].name)) for k in keys)


# ---- trees


_KEYS: ContextVar[bool] = ContextVar("_KEYS", default=False)  # whether somebody asks for paths


class Containers:
    """The containers that are registered under a name, and the functions of trees of these.

    Args:
        namespace: the name.
        sort_keys: whether trees that are built have the keys of dictionaries in order, as leaves are.
    """

    def __init__(self, namespace: str, *, sort_keys: bool = False) -> None:
        self.namespace: str = namespace
        self.sort_keys: bool = sort_keys

    def __contains__(self, cls: type) -> bool:
        return optree.register_pytree_node.get(cls, namespace=self.namespace) is not None

    def flatten(self, tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Any]:
        """Return the leaves of a tree, and what builds it again."""
        leaves, structure = optree.tree_flatten(tree, is_leaf, namespace=self.namespace)
        return leaves, structure

    def unflatten(self, structure: Any, leaves: Iterable[Any]) -> Any:
        """Return the tree of a structure with these leaves."""
        return structure.traverse(leaves, _in_order) if self.sort_keys else structure.unflatten(leaves)

    def leaves(self, tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
        """Return the leaves of a tree."""
        return self.flatten(tree, is_leaf)[0]

    def structure(self, tree: Any, is_leaf: IsLeaf = None) -> Any:
        """Return what builds a tree."""
        return self.flatten(tree, is_leaf)[1]

    def map(self, f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
        """Return a tree of `f` of the leaves, and of what the trees of `rest` have at these places."""
        leaves, structure = self.flatten(tree, is_leaf)
        others = [structure.flatten_up_to(r) for r in rest]
        return self.unflatten(structure, [f(*group) for group in zip(leaves, *others, strict=True)])

    def all(self, tree: Any, *, is_leaf: IsLeaf = None) -> bool:
        """Return whether all leaves are true."""
        return all(self.leaves(tree, is_leaf))

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        tree: Any,
        initializer: Any = _REST,
        is_leaf: IsLeaf = None,
    ) -> Any:
        """Return what a function makes of the leaves, one after the other."""
        first = [] if initializer is _REST else [initializer]
        return functools.reduce(function, [*first, *self.leaves(tree, is_leaf)])

    def reduce_associative(
        self,
        operation: Callable[[Any, Any], Any],
        tree: Any,
        *,
        identity: Any = _REST,
        is_leaf: IsLeaf = None,
    ) -> Any:
        """Return what an associative function makes of the leaves, neighbours first."""
        leaves = self.leaves(tree, is_leaf)
        while len(leaves) > 1:
            pairs = [operation(a, b) for a, b in zip(leaves[::2], leaves[1::2], strict=False)]
            leaves = pairs + leaves[len(pairs) * 2 :]
        if leaves:
            return leaves[0]
        if identity is _REST:
            raise ValueError("the tree has no leaves: give an identity")
        return identity

    def transpose(self, outer_treedef: Any, inner_treedef: Any, pytree_to_transpose: Any) -> Any:
        """Return a tree of trees as a tree of the inner structure, of trees of the outer one."""
        outer, inner = outer_treedef, inner_treedef
        parts = outer.flatten_up_to(pytree_to_transpose)
        if inner is None:
            inner = self.structure(parts[0])
        columns = zip(*(inner.flatten_up_to(p) for p in parts), strict=True)
        return self.unflatten(inner, [self.unflatten(outer, column) for column in columns])

    def broadcast(self, prefix: Any, tree: Any, is_leaf: IsLeaf = None) -> Any:
        """Return a tree, of which each leaf is that of `prefix` above it."""
        leaves, structure = self.flatten(prefix, is_leaf)
        parts = structure.flatten_up_to(tree)
        pairs = zip(leaves, parts, strict=True)
        return self.unflatten(structure, [self.map(lambda _, v=v: v, p) for v, p in pairs])

    # -- paths

    def flatten_with_path(
        self, tree: Any, is_leaf: Any = None, is_leaf_takes_path: bool = False
    ) -> tuple[list[tuple[Any, Any]], Any]:
        """Return the leaves of a tree, each with the keys that lead to it, and what builds it again."""
        if is_leaf_takes_path:
            found = iter(list(self._ends(tree, is_leaf, ())))
            is_leaf = lambda _: next(found)  # noqa: E731 -- which is asked in the same order
        accessors, leaves, structure = self._with_accessors(tree, is_leaf)
        return [(tuple(map(_key, a)), x) for a, x in zip(accessors, leaves, strict=True)], structure

    def _with_accessors(self, tree: Any, is_leaf: IsLeaf) -> tuple[list[Any], list[Any], Any]:
        outer = _KEYS.set(True)
        try:
            return optree.tree_flatten_with_accessor(tree, is_leaf, namespace=self.namespace)
        finally:
            _KEYS.reset(outer)

    def _ends(self, tree: Any, is_leaf: Any, path: tuple[Any, ...]) -> Iterator[bool]:
        """Return for each part of a tree, itself first, whether it is a leaf by its path and itself."""
        is_end = is_leaf(path, tree)
        yield is_end
        if not is_end:
            accessors, parts, _ = self._with_accessors(tree, lambda part: part is not tree)
            for accessor, part in zip(accessors, parts, strict=True):
                if accessor:
                    yield from self._ends(part, is_leaf, (*path, *map(_key, accessor)))

    def leaves_with_path(self, tree: Any, *args: Any, **options: Any) -> list[tuple[Any, Any]]:
        """Return the leaves of a tree, each with the keys that lead to it."""
        return self.flatten_with_path(tree, *args, **options)[0]

    def map_with_path(self, f: Callable[..., Any], tree: Any, *rest: Any, **options: Any) -> Any:
        """Return a tree of `f` of the path of each leaf, of itself, and of what `rest` has there."""
        found, structure = self.flatten_with_path(tree, **options)
        others = [structure.flatten_up_to(r) for r in rest]
        groups = zip(found, *others, strict=True)
        return self.unflatten(structure, [f(path, leaf, *more) for (path, leaf), *more in groups])

    # -- new containers

    def register_pytree_node(
        self,
        nodetype: type,
        flatten_func: Callable[[Any], Any],
        unflatten_func: Callable[[Any, Any], Any],
        flatten_with_keys_func: Callable[[Any], Any] | None = None,
    ) -> None:
        """Make instances of a class containers: `(children, aux)` of each, and what is built of both.

        With keys, `flatten_with_keys_func` returns `([(key, child), ...], aux)`.
        """
        if flatten_with_keys_func is not None:
            self.register_pytree_with_keys(nodetype, flatten_with_keys_func, unflatten_func)
            return
        register(nodetype, flatten_func, unflatten_func, self.namespace)

    def register_pytree_with_keys(
        self,
        nodetype: type,
        flatten_with_keys: Callable[[Any], Any],
        unflatten_func: Callable[[Any, Any], Any],
        flatten_func: Callable[[Any], Any] | None = None,
    ) -> None:
        """Make instances of a class containers whose children have keys: `([(key, child), ...], aux)`.

        Where nobody asks for paths, `flatten_func` is called instead, if there is one.
        """

        def divided(x: Any) -> Any:
            if flatten_func is not None and not _KEYS.get():
                return flatten_func(x)
            pairs, aux = flatten_with_keys(x)
            pairs = list(pairs)
            return [child for _, child in pairs], aux, tuple(key for key, _ in pairs)

        register(nodetype, divided, unflatten_func, self.namespace)

    def register_pytree_node_class(self, cls: Any) -> Any:
        """Make a class that has `tree_flatten` and `tree_unflatten` a container."""
        self.register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
        return cls

    def register_pytree_with_keys_class(self, cls: Any) -> Any:
        """Make a class that has `tree_flatten_with_keys` and `tree_unflatten` a container."""
        self.register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(), cls.tree_unflatten)
        return cls

    def register_static(self, cls: type) -> type:
        """Make instances of a class containers without leaves, compared by `==`."""
        self.register_pytree_node(cls, lambda x: ((), x), lambda x, _: x)
        return cls

    def register_dataclass(
        self,
        nodetype: Any,
        data_fields: Sequence[str] | None = None,
        meta_fields: Sequence[str] | None = None,
        drop_fields: Sequence[str] = (),
    ) -> Any:
        """Make instances of a dataclass containers of the fields of data; others are part of the structure.

        Fields whose metadata say `static` are no data, unless the fields are given.
        """
        fields = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        static = [f.name for f in fields if f.metadata.get("static")]
        meta = tuple(static if meta_fields is None else meta_fields)
        data = tuple([f.name for f in fields if f.name not in meta] if data_fields is None else data_fields)

        def divided(x: Any) -> Any:
            return [(GetAttrKey(n), getattr(x, n)) for n in data], tuple(getattr(x, n) for n in meta)

        def built(aux: Any, children: Iterable[Any]) -> Any:
            return nodetype(**dict(zip(data, children, strict=True)), **dict(zip(meta, aux, strict=True)))

        self.register_pytree_with_keys(nodetype, divided, built)
        return nodetype

    def register_partial(self, cls: Any) -> None:
        """Make calls that wait for more arguments containers of those that they have."""
        self.register_pytree_node(
            cls, lambda p: ((p.args, p.keywords), p.func), lambda f, c: cls(f, *c[0], **c[1])
        )


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
