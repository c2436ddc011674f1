"""`jax.tree_util`, `jax.tree` and `jax.flatten_util`: the functions of `fgrad.containers`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

import fgrad.tree
from fgrad import containers
from fgrad.compat.jax.arrays import Array, as_array, made, strong, together
from fgrad.compat.standins import renamed

PyTreeDef = optree.PyTreeSpec
CONTAINERS = containers.Containers("jax", sort_keys=True)
flatten: Callable[..., tuple[list[Any], Any]] = CONTAINERS.flatten
unflatten: Callable[..., Any] = CONTAINERS.unflatten
tree_map: Callable[..., Any] = CONTAINERS.map
register_pytree_node: Callable[..., None] = CONTAINERS.register_pytree_node


class Partial(functools.partial):  # type: ignore[type-arg]
    """`functools.partial` as a container: its arguments are leaves, its function is not."""


CONTAINERS.register_partial(Partial)


def ravel_pytree(tree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Return the elements of all arrays of a tree in one array, and the way back."""
    leaves, structure = flatten(tree)
    arrays = [as_array(x) for x in leaves]
    if not arrays:
        return made(np.zeros(0)), lambda _: unflatten(structure, [])
    tensors, form = together(arrays, keys=True)
    flat, split = fgrad.tree.ravel(tensors)

    def back(vector: Any) -> Any:
        parts = zip(split(as_array(vector)._tensor), arrays, strict=True)
        return unflatten(structure, [made(part).astype(x.dtype) for part, x in parts])

    return made(flat, strong(form)), back


TREE: dict[str, Any] = renamed(
    "all broadcast flatten flatten_with_path leaves leaves_with_path map map_with_path reduce "
    "reduce_associative structure transpose unflatten",
    CONTAINERS,
)
TREE_UTIL: dict[str, Any] = {
    **{f"tree_{name}": function for name, function in TREE.items()},
    **renamed("DictKey FlattenedIndexKey GetAttrKey SequenceKey keystr", containers),
    **renamed(
        "register_dataclass register_pytree_node register_pytree_node_class register_pytree_with_keys "
        "register_pytree_with_keys_class register_static",
        CONTAINERS,
    ),
    "KeyEntry": Any,
    "KeyPath": tuple,
    "Partial": Partial,
    "PyTreeDef": PyTreeDef,
    "all_leaves": lambda xs, is_leaf=None: all(
        len(found) == 1 and found[0] is x for x in xs for found in [CONTAINERS.leaves(x, is_leaf)]
    ),
    "flatten_one_level": lambda x: optree.tree_flatten_one_level(x, namespace="jax")[:2],
    "treedef_children": operator.methodcaller("children"),
    "treedef_is_leaf": lambda structure: structure.is_leaf(),
    "treedef_tuple": lambda structures: optree.treespec_tuple(structures, namespace="jax"),
}
