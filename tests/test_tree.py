"""Pytrees: what is a container, where leaves stand in it, and what is refused."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

from fgrad import tree

Pair = namedtuple("Pair", "left right")  # noqa: PYI024 -- the plain kind is what many programs hold


@dataclass
class Layer:
    w: object
    b: object


class Interval:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def tree_flatten(self):
        return (self.low, self.high), "aux"

    @classmethod
    def tree_unflatten(cls, aux, children):
        assert aux == "aux"
        return cls(*children)


tree.register_pytree_node_class(Interval)

TREES = {
    "leaf": (1.5, [1.5]),
    "array": (np.ones(2), None),
    "none": (None, []),
    "empty": ((), []),
    "tuple": ((1, (2, [3])), [1, 2, 3]),
    "dict, by its keys": ({"b": 1, "a": 2}, [2, 1]),
    "ordered dict, as it is": (OrderedDict(b=1, a=2), [1, 2]),
    "named tuple": (Pair(1, {"x": 2}), [1, 2]),
    "dataclass": (Layer(1, (2, None)), [1, 2]),
    "text": ("text", ["text"]),
}


@pytest.mark.parametrize("name", TREES)
def test_what_is_flattened_is_put_together_again(name):
    x, expected = TREES[name]
    leaves, structure = tree.flatten(x)
    if expected is None:
        assert leaves[0] is x
    else:
        assert leaves == expected
    assert tree.leaves(x) == leaves
    assert tree.structure(x) == structure
    again = tree.unflatten(structure, leaves)
    assert type(again) is type(x)
    assert name == "array" or again == x
    assert len(tree.paths(structure)) == len(leaves)


def test_classes_that_are_registered_are_containers():
    x = tree.map(lambda a, b: a + b, Interval(1, [2, 3]), Interval(10, [20, 30]))
    assert isinstance(x, Interval)
    assert (x.low, x.high) == (11, [22, 33])


def test_paths_say_where_leaves_are():
    assert tree.paths(tree.structure({"w": [1, 2], "b": (3,)})) == ["['b'][0]", "['w'][0]", "['w'][1]"]
    assert tree.paths(tree.structure(1.0)) == [""]


def test_trees_of_other_structure_are_refused():
    for other in ([1, 2], (1, 2, 3), (1, (2,)), 1, None):
        with pytest.raises(ValueError, match="the trees differ in structure"):
            tree.map(lambda a, b: a, (1, 2), other)


@pytest.mark.parametrize(
    "prefix, x, expected",
    [
        (0, {"a": (1, 2), "b": 3}, [0, 0, 0]),
        (None, (1, 2), [None, None]),
        ((0, None), ([1, 2], 3), [0, 0, None]),
        ((0, 1), (None, (2, 3)), [1, 1]),
        ({"a": 0, "b": (1, None)}, {"a": [1, 2], "b": (3, [4, 5])}, [0, 0, 1, None, None]),
    ],
)
def test_a_prefix_speaks_for_all_below(prefix, x, expected):
    assert tree.broadcast_prefix(prefix, x) == expected


@pytest.mark.parametrize("prefix", [(0,), (0, (1, 2)), [0, 1], {"a": 0}])
def test_what_is_no_prefix_is_refused(prefix):
    with pytest.raises(ValueError):
        tree.broadcast_prefix(prefix, (1, (2, 3, 4)))


def test_children_of_containers_have_keys():
    assert tree.children({"b": 1, "a": 2}) == [("b", 1), ("a", 2)]
    assert tree.children((1, [2])) == [(0, 1), (1, [2])]
    assert tree.children(None) == []
    assert tree.children(1.0) is None
    assert tree.children("text") is None
