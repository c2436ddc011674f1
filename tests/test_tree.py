"""Pytrees: what is a container, where leaves stand in it, and what is refused."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import optree
import pytest

import fgrad as fg
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


class Unknown:
    """A leaf of a class of which nothing is known."""


ROWS = [
    (), (1.0,), (1.0, 2.0), (np.int64(1), 2.0), (Unknown(), Unknown()), (1.0, None), (None, None),
    (1.0, ()), (1.0, (2.0,)), (Unknown(), (2.0,)), ((1.0,),), ((1.0,), {}), ((Unknown(),), {}), ((), {}),
    ((1.0, 2.0), {}), ((1.0, np.int64(2)), {}), (1.0, {}), ((1.0, None), {}), ((1.0, ()), {}),
    ((1.0,), {"a": 2.0}), ((1.0,), {}, {}), ((1.0,), OrderedDict()), ([1.0], {}), ([], ()),
    (Interval(1.0, 2.0), ()), [1.0, 2.0], {"a": 1.0, "b": 2.0}, 1.0, Unknown(), Pair(1.0, 2.0),
    (Pair(1.0, 2.0),), (Layer(1.0, 2.0),), ({}, {}), (1.0,) * 20, (1.0,) * 19 + (Unknown(),),
]  # fmt: skip


def test_structures_are_equal_where_those_of_optree_are():
    ours = [tree.structure(x) for x in ROWS]
    theirs = [optree.tree_structure(x, namespace=tree.NAMESPACE) for x in ROWS]
    for x, a, b in zip(ROWS, ours, theirs, strict=True):
        assert [a == c for c in ours] == [b == c for c in theirs]
        assert all(hash(a) == hash(c) for c in ours if a == c)
        assert pickle.loads(pickle.dumps(a)) == a
        assert copy.deepcopy(a) == a
        assert tree.leaves(x) == optree.tree_leaves(x, namespace=tree.NAMESPACE)
        assert tree.paths(a) == ["".join(f"[{key!r}]" for key in path) for path in b.paths()]
        assert a is tree.LEAF or repr(a) == repr(b)
        if not isinstance(x, Unknown) and "Interval" not in repr(x):  # whose equality is identity
            put = tree.unflatten(a, tree.leaves(x))
            assert type(put) is type(x)
            assert put == x
        for count in {a.num_leaves + 1, max(a.num_leaves - 1, 0)} - {a.num_leaves}:
            with pytest.raises(ValueError):
                tree.unflatten(a, range(count))


def test_tuples_of_arrays_and_numbers_need_no_optree():
    program = """
import sys
import numpy as np
import fgrad as fg
x = np.ones(3)
fg.value_and_grad(lambda x, y: (x * y).sum(), (0, 1))(x, 2.0)
fg.jit(fg.value_and_grad(lambda x, y: (x * y).sum(), (0, 1)))(x, 2.0)
assert "optree" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


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


# ---- one vector of all elements


def test_elements_are_one_vector_and_come_back():
    x = {"b": [np.arange(3, dtype=np.int32), 2.5], "a": np.ones((2, 1), np.float32), "n": None}
    vector, unravel = tree.ravel(x)
    np.testing.assert_array_equal(vector, [1, 1, 0, 1, 2, 2.5])
    assert vector.dtype == np.float64
    back = unravel(vector * 2)
    assert tree.structure(back) == tree.structure(x)
    np.testing.assert_array_equal(back["b"][0], [0, 2, 4])
    assert [leaf.dtype for leaf in tree.leaves(back)] == ["f4", "i4", "f8"]
    assert back["b"][1] == 5.0
    assert back["a"].shape == (2, 1)
    assert tree.ravel({"a": np.ones(2, np.float32)})[0].dtype == np.float32
    empty, unravel = tree.ravel({"a": []})
    assert empty.shape == (0,)
    assert unravel(empty) == {"a": []}


def test_vectors_of_elements_that_do_not_fit_are_refused():
    _, unravel = tree.ravel((np.ones(2), 1.0))
    with pytest.raises(ValueError, match="has 3 elements"):
        unravel(np.ones(4))
    with pytest.raises(TypeError, match="complex"):
        unravel(np.ones(3, complex))
    with pytest.raises(TypeError, match="'text' is none"):
        tree.ravel((np.ones(2), "text"))


@pytest.mark.parametrize("run", [lambda f: f, fg.jit, lambda f: lambda v: fg.vmap(f)(v[None])[0]])
def test_vectors_of_elements_differentiate(run):
    x = {"a": np.array([[1.0, 2.0]]), "b": 3.0}
    vector, unravel = tree.ravel(x)
    loss = lambda p: np.sum(p["a"] ** 2) * p["b"]
    slopes = run(fg.grad(lambda v: loss(unravel(v))))(vector)
    np.testing.assert_array_equal(slopes, [6, 12, 5])
    both = fg.grad(lambda p: np.sum(tree.ravel(p)[0] * vector))(x)
    np.testing.assert_array_equal(both["a"], x["a"])
    assert both["b"] == 3.0


def test_named_tuples_are_registered_without_a_warning():
    class Point(NamedTuple):
        x: float
        y: float

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fg.tree.register_pytree_node(Point, lambda p: ((p.y,), p.x), lambda x, rest: Point(x, *rest))
    assert fg.tree.leaves(Point(1.0, 2.0)) == [2.0]
    assert fg.grad(lambda p: p.x * p.y**2)(Point(1.0, 2.0)) == Point(1.0, 4.0)
