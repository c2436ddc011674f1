"""Containers that are registered under a name: paths, leaves on request, and classes of one's own."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest

import fgrad as fg
from fgrad import tree
from fgrad.containers import Containers, DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr

OWN = Containers("tests of containers", sort_keys=True)
Pair = collections.namedtuple("Pair", "left right")  # noqa: PYI024 -- the plain kind is what many programs hold
TREE = {"b": [1, (2, None)], "a": Pair(3, {"x": 4})}
PATHS = {"['a'].left": 3, "['a'].right['x']": 4, "['b'][0]": 1, "['b'][1][0]": 2}


@OWN.register_pytree_node_class
class Interval:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def tree_flatten(self):
        return (self.low, self.high), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@OWN.register_pytree_with_keys_class
class Named:
    def __init__(self, **parts):
        self.parts = parts

    def tree_flatten_with_keys(self):
        return ((GetAttrKey(name), part) for name, part in self.parts.items()), tuple(self.parts)

    @classmethod
    def tree_unflatten(cls, names, children):
        return cls(**dict(zip(names, children, strict=True)))


class Keyed:
    def __init__(self, *parts):
        self.parts = parts


OWN.register_pytree_node(
    Keyed,
    lambda x: (x.parts, None),
    lambda _, parts: Keyed(*parts),
    lambda x: ([(GetAttrKey(f"p{i}"), part) for i, part in enumerate(x.parts)], None),
)


def shown(pairs):
    return {keystr(path): leaf for path, leaf in pairs}


@pytest.mark.parametrize("flatten", [OWN.flatten_with_path, tree.flatten_with_path])
def test_paths_lead_to_leaves(flatten):
    pairs, structure = flatten(TREE)
    assert shown(pairs) == PATHS
    assert pairs[1][0] == (DictKey("a"), GetAttrKey("right"), DictKey("x"))
    assert pairs[2][0][1] == SequenceKey(0)
    assert structure.unflatten([leaf for _, leaf in pairs]) == TREE
    whole, _ = flatten(TREE, lambda x: isinstance(x, tuple))
    assert [keystr(path, simple=True, separator="/") for path, _ in whole] == ["a", "b/0", "b/1"]


def test_paths_decide_what_is_a_leaf():
    pairs, structure = OWN.flatten_with_path(TREE, lambda path, _: len(path) == 1, is_leaf_takes_path=True)
    assert [leaf for _, leaf in pairs] == [TREE["a"], TREE["b"]]
    assert structure.num_leaves == 2
    pairs = OWN.leaves_with_path([1, [2]], is_leaf=lambda path, x: False, is_leaf_takes_path=True)
    assert shown(pairs) == {"[0]": 1, "[1][0]": 2}


@pytest.mark.parametrize("map_", [OWN.map_with_path, tree.map_with_path])
def test_functions_see_paths(map_):
    found = map_(lambda path, x, y: (keystr(path), x + y), TREE, TREE)
    assert found["a"].right == {"x": ("['a'].right['x']", 8)}
    with pytest.raises(ValueError, match=r"[Ee]xpected|arity"):
        map_(lambda path, x, y: x, [1, 2], [1])


def test_containers_of_ones_own():
    assert Interval in OWN
    assert Interval not in Containers("no tests")
    assert Containers("no tests").leaves([Interval(1, 2)])[0].low == 1
    doubled = OWN.map(lambda x: 2 * x, [Interval(1, 2), Named(w=3)])
    assert (doubled[0].low, doubled[0].high, doubled[1].parts) == (2, 4, {"w": 6})
    paths = [path for path, _ in OWN.leaves_with_path([Interval(1, 2), Named(w=3)])]
    assert paths[1] == (SequenceKey(0), FlattenedIndexKey(1))
    assert str(paths[1][1]) == "[<flat index 1>]"
    assert paths[2] == (SequenceKey(1), GetAttrKey("w"))
    assert shown(OWN.leaves_with_path(OWN.map(lambda x: -x, Keyed(5, 6)))) == {".p0": -5, ".p1": -6}


def test_keys_of_dictionaries_are_in_order_where_that_is_asked():
    given = {"b": 1, "a": collections.defaultdict(int, {"z": 3, "y": 4})}
    found = OWN.map(lambda x: x, given)
    assert [list(found), list(found["a"])] == [["a", "b"], ["y", "z"]]
    assert found["a"].default_factory is int
    assert list(Containers("no tests").map(lambda x: x, given)) == ["b", "a"]
    mixed = {"b": 1, 3: 2}
    assert OWN.map(lambda x: x, mixed) == mixed


def test_leaves_are_reduced():
    assert OWN.all([True, {"a": 1}])
    assert not OWN.all([True, {"a": 0}])
    assert OWN.reduce(lambda a, b: a + b, TREE) == tree.reduce(lambda a, b: a + b, TREE) == 10
    assert OWN.reduce(lambda a, b: a + b, [], 5) == tree.reduce(lambda a, b: a + b, [], 5) == 5
    assert OWN.reduce_associative(lambda a, b: f"({a}{b})", list("abcde")) == "(((ab)(cd))e)"
    assert OWN.reduce_associative(min, [], identity=7) == 7
    with pytest.raises(ValueError, match="no leaves"):
        OWN.reduce_associative(min, [])
    with pytest.raises(TypeError, match="empty"):
        tree.reduce(min, ())


def test_prefixes_and_trees_of_trees():
    assert OWN.broadcast({"b": 1, "a": 2}, TREE) == tree.broadcast({"b": 1, "a": 2}, TREE)
    assert tree.broadcast(5, TREE) == tree.map(lambda _: 5, TREE)
    outer, inner = OWN.structure([0, 0]), OWN.structure({"x": 0})
    assert OWN.transpose(outer, inner, [{"x": 1}, {"x": 2}]) == {"x": [1, 2]}
    assert OWN.transpose(outer, None, [{"x": 1}, {"x": 2}]) == {"x": [1, 2]}
    outer, inner = tree.structure((0, [0])), tree.structure({"x": 0, "y": (0,)})
    given = ({"x": 1, "y": (2,)}, [{"x": 3, "y": (4,)}])
    assert tree.transpose(outer, inner, given) == {"x": (1, [3]), "y": ((2, [4]),)}
    with pytest.raises(ValueError, match="the tree is"):
        tree.transpose(outer, inner, ({"x": 1, "y": 2}, [{"x": 3, "y": 4}]))


# ---- of fgrad


def test_fields_that_are_no_data():
    @tree.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Layer:
        w: object
        size: int = dataclasses.field(default=3, metadata={"static": True})

    layer = Layer(np.ones(3))
    assert fg.grad(lambda x: x.w.sum() * x.size)(layer).w.tolist() == [3, 3, 3]
    assert tree.structure(layer) != tree.structure(Layer(np.ones(3), 4))
    assert [keystr(path) for path, _ in tree.flatten_with_path(layer)[0]] == [".w"]

    @dataclasses.dataclass
    class Other:
        w: object
        name: str = "other"

    tree.register_dataclass(Other, ["w"], ["name"])
    assert tree.map(lambda x: 2 * x, Other(2.0)) == Other(4.0)
    with pytest.raises(ValueError, match="already registered"):
        tree.register_dataclass(Other)


def test_dataclasses_that_nobody_registered_have_paths():
    @dataclasses.dataclass
    class Plain:
        w: object

    (path, leaf), *_ = tree.flatten_with_path([Plain(5.0)])[0]
    assert (len(path), leaf) == (2, 5.0)


def test_classes_without_leaves():
    @tree.register_static
    @dataclasses.dataclass(frozen=True)
    class Kind:
        name: str

    assert tree.leaves([Kind("a"), 1.0]) == [1.0]
    assert tree.structure(Kind("a")) == tree.structure(Kind("a"))
    assert tree.structure(Kind("a")) != tree.structure(Kind("b"))


@pytest.mark.parametrize("run", [lambda f: f, fg.jit], ids=["eager", "compiled"])
def test_calls_that_wait_for_arguments_are_containers(run):
    def scaled(a, x, *, b):
        return (a * x + b).sum()

    part = tree.Partial(scaled, np.array([3.0, 4.0]), b=1.0)
    found = run(fg.grad(lambda f, x: f(x)))(part, np.array([1.0, 2.0]))
    assert isinstance(found, tree.Partial)
    assert found.func is scaled
    np.testing.assert_array_equal(found.args[0], [1, 2])
    assert found.keywords["b"] == 2
    assert run(lambda f: f(np.ones(2)))(part) == 9
