"""Pytrees: nested tuples, lists, dicts, named tuples, dataclasses and registered classes; thin over optree.

optree is imported when the first container appears: tuples of arrays and numbers need none of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

import numpy as np

from fgrad.locks import survive_forks
from fgrad.names import offered as _offered

__all__ = [
    "Partial",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "keystr",
    "leaves",
    "map",
    "map_with_path",
    "ravel",
    "reduce",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_static",
    "structure",
    "transpose",
    "unflatten",
]

NAMESPACE = "fgrad"
MANY = 4096


class _Flattens(Protocol):
    """What a registered class offers."""

    def tree_flatten(self) -> tuple[Iterable[Any], Any]: ...
    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any, /) -> Any: ...


C = TypeVar("C", bound=_Flattens)


class Plain:
    """A structure that takes no optree: leaves, and exact tuples and empty dicts around them."""

    __slots__ = ("num_leaves", "num_nodes")
    num_leaves: int
    num_nodes: int

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree with these leaves."""
        found = list(leaves)
        if len(found) != self.num_leaves:
            raise ValueError(f"the structure {self!r} has {self.num_leaves} leaves, not {len(found)}")
        return self.filled(iter(found))

    def filled(self, leaves: Iterator[Any]) -> Any:
        """Return the tree with the next ones of some leaves."""
        raise NotImplementedError

    def paths(self) -> list[tuple[int, ...]]:
        """Return where the leaves are."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"PyTreeSpec({self})"


class _Leaf(Plain):
    """The structure of a single leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        self.num_leaves = self.num_nodes = 1

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the leaf."""
        return leaves[0] if leaves.__class__ is list and len(leaves) == 1 else super().unflatten(leaves)

    def filled(self, leaves: Iterator[Any]) -> Any:
        """Return the leaf."""
        return next(leaves)

    def paths(self) -> list[tuple[int, ...]]:
        """Return where the leaf is."""
        return [()]

    def __reduce__(self) -> str:
        return "LEAF"

    def __str__(self) -> str:
        return "*"

    __repr__ = __str__


class _Empty(Plain):
    """The structure of a dict without elements, as where a call has no keywords."""

    __slots__ = ()

    def __init__(self) -> None:
        self.num_leaves, self.num_nodes = 0, 1

    def filled(self, leaves: Iterator[Any]) -> Any:
        """Return the dict."""
        return {}

    def paths(self) -> list[tuple[int, ...]]:
        """Return nothing: there are no leaves."""
        return []

    def __reduce__(self) -> str:
        return "_EMPTY"

    def __str__(self) -> str:
        return "{}"


class _Tuple(Plain):
    """The structure of a tuple."""

    __slots__ = ("children",)

    def __init__(self, children: tuple[Plain, ...]) -> None:
        self.children = children
        self.num_leaves = sum([child.num_leaves for child in children])
        self.num_nodes = sum([child.num_nodes for child in children]) + 1

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tuple with these leaves."""
        if leaves.__class__ is list and len(leaves) == self.num_leaves == self.num_nodes - 1:
            return tuple(leaves)
        return super().unflatten(leaves)

    def filled(self, leaves: Iterator[Any]) -> Any:
        """Return the tuple."""
        if self.num_nodes == self.num_leaves + 1:  # a row of leaves, as most are
            return tuple(islice(leaves, self.num_leaves))
        return tuple([child.filled(leaves) for child in self.children])

    def paths(self) -> list[tuple[int, ...]]:
        """Return where the leaves are."""
        return [(i, *path) for i, child in enumerate(self.children) for path in child.paths()]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Tuple) and self.children == other.children)

    def __hash__(self) -> int:
        return hash((_Tuple, self.children))

    def __reduce__(self) -> tuple[Any, ...]:
        return _Tuple, (self.children,)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.children))}{',' * (len(self.children) == 1)})"


LEAF, _EMPTY = _Leaf(), _Empty()
_LEAVES: set[type] = {int, float, complex, bool, str, bytes, np.ndarray, np.float64, np.float32}
_FEW = 17
_ROWS = [_Tuple((LEAF,) * n) for n in range(_FEW)]


def _plain(x: Any, leaves: list[Any] | None) -> Plain | None:
    """Return the structure of tuples and empty dicts around leaves; None where there is something else.

    Args:
        x: pytree.
        leaves: to which the leaves are added, all of classes that are known; None: whatever else there is
            is taken for a leaf.
    """
    if x.__class__ is tuple:
        if leaves is not None and are_leaves(x):
            leaves += x
            return _ROWS[len(x)] if len(x) < _FEW else _Tuple((LEAF,) * len(x))
        children = []
        for child in x:
            found = _plain(child, leaves)
            if found is None:
                return None
            children.append(found)
        return _Tuple(tuple(children))
    if x.__class__ is dict and not x:
        return _EMPTY
    if leaves is None:
        return LEAF
    if x.__class__ in _LEAVES:
        leaves.append(x)
        return LEAF
    return None


def is_leaf_type(cls: type) -> bool:
    """Return whether instances of `cls` are known to be leaves without asking optree."""
    return cls in _LEAVES


def are_leaves(xs: Iterable[Any]) -> bool:
    """Return whether all of `xs` are known to be leaves without asking optree."""
    return _LEAVES.issuperset([x.__class__ for x in xs])


def declare_leaf(cls: type) -> None:
    """Let instances of `cls` be leaves without asking optree."""
    _LEAVES.add(cls)


def flatten(x: Any) -> tuple[list[Any], Any]:
    """Return the leaves of `x` and its structure; None is a container without leaves.

    Args:
        x: pytree: tuples, named tuples, lists, dicts, None and registered containers of pytrees; all else is
            a leaf.

    Returns:
        `(leaves, structure)`: a list in a fixed order, and a structure, which has == and hash.

    Example:
        >>> fg.tree.flatten({"a": 1.0, "b": [2.0, 3.0]})[0]
        [1.0, 2.0, 3.0]
    """
    if x.__class__ in _LEAVES:
        return [x], LEAF
    if x.__class__ is tuple:
        if len(x) < _FEW and _LEAVES.issuperset([leaf.__class__ for leaf in x]):
            return list(x), _ROWS[len(x)]  # the usual case
        leaves: list[Any] = []
        plain = _plain(x, leaves)
        if plain is not None:
            return leaves, plain
    survive_forks()  # another thread may fork meanwhile
    import optree  # noqa: PLC0415 -- late: it costs a third of the import time of fgrad

    leaves, structure = optree.tree_flatten(x, namespace=NAMESPACE)
    for leaf in leaves:
        if leaf.__class__ not in _LEAVES and leaf.__class__ not in _opaque:
            _know(x)
            if len(_opaque) >= MANY:
                _opaque.clear()
            _opaque.update(type(y) for y in leaves if not dataclasses.is_dataclass(y))
            leaves, structure = optree.tree_flatten(x, namespace=NAMESPACE)
            break
    if structure.is_leaf():
        return leaves, LEAF
    if x.__class__ is tuple:  # of such things, perhaps, and leaves that were not known to be some
        plain = _plain(x, None)
        if plain is not None and (plain.num_leaves, plain.num_nodes) == (
            structure.num_leaves,
            structure.num_nodes,
        ):
            return leaves, plain
    return leaves, structure


def paths(structure: Any) -> list[str]:
    """Return for each leaf of a structure where it is: "['w'][0]"."""
    return ["".join(f"[{key!r}]" for key in path) for path in structure.paths()]


def unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    """Return the tree of `structure` with `leaves`.

    Args:
        structure: from `flatten` or `structure`.
        leaves: as many as the structure has.

    Returns:
        A pytree.

    Raises:
        ValueError: another number of leaves.

    Example:
        >>> leaves, structure = fg.tree.flatten({"a": 1.0, "b": [2.0, 3.0]})
        >>> fg.tree.unflatten(structure, [10.0 * x for x in leaves])
        {'a': 10.0, 'b': [20.0, 30.0]}
    """
    return structure.unflatten(leaves)


def leaves(x: Any) -> list[Any]:
    """Return the leaves of `x`.

    Args:
        x: pytree.

    Returns:
        A list, in the order of `flatten`.

    Example:
        >>> fg.tree.leaves({"a": 1.0, "b": [2.0, 3.0]})
        [1.0, 2.0, 3.0]
    """
    return flatten(x)[0]


def structure(x: Any) -> Any:
    """Return the structure of `x`.

    Args:
        x: pytree.

    Returns:
        The structure, which has == and hash.

    Example:
        >>> fg.tree.structure([1.0]) == fg.tree.structure([2.0])
        True
    """
    return flatten(x)[1]


def map(f: Callable[..., Any], x: Any, *rest: Any) -> Any:
    """Return `x` with each leaf replaced by `f` of it and of the leaves of `rest` at the same place.

    Args:
        f: takes as many leaves as there are trees.
        x: pytree.
        rest: pytrees of the same structure.

    Returns:
        Pytree of the structure of `x`.

    Raises:
        ValueError: a structure differs.

    Example:
        >>> fg.tree.map(lambda x, y: x + y, {"a": 1.0}, {"a": 2.0})
        {'a': 3.0}
    """
    first, shape = flatten(x)
    others = []
    for r in rest:
        found, other = flatten(r)
        if other != shape:
            raise ValueError(f"the trees differ in structure: {shape} and {other}")
        others.append(found)
    return shape.unflatten([f(*group) for group in zip(first, *others, strict=True)])


def reduce(function: Callable[[Any, Any], Any], x: Any, *initializer: Any) -> Any:
    """Return what `function` makes of the leaves of `x`, one after the other.

    Args:
        function: of what was found so far, and of the next leaf.
        x: pytree.
        initializer: what to begin with; the first leaf, where it is left out.

    Returns:
        What the last call returned.

    Raises:
        TypeError: there is no leaf, and no `initializer`.

    Example:
        >>> fg.tree.reduce(lambda total, leaf: total + leaf, {"a": 1.0, "b": [2.0, 3.0]})
        6.0
    """
    return functools.reduce(function, leaves(x), *initializer)


def ravel(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the elements of all leaves of a pytree in one vector, and the way back.

    Args:
        x: pytree of arrays, Tensors and numbers.

    Returns:
        `(vector, unravel)`: the vector has the dtype that the leaves promote to, and `unravel` makes a pytree
        of such a vector whose leaves have the shapes and dtypes of those of `x`. Without a leaf the vector is
        an empty one of float64.

    Raises:
        TypeError: a leaf holds no numbers; in `unravel`, complex numbers came for real ones.
        ValueError: in `unravel`, the vector has another shape.

    Derivative:
        Both are linear.

    Example:
        >>> vector, unravel = fg.tree.ravel({"b": 3.0, "w": np.ones((2, 2))})
        >>> vector, unravel(2 * vector)["b"]
        (array([3., 1., 1., 1., 1.]), np.float64(6.0))
    """
    leaves, structure = flatten(x)
    arrays: list[Any] = [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in leaves]
    for leaf, a in zip(leaves, arrays, strict=True):
        if a.dtype.kind not in "biufc":
            raise TypeError(f"ravel takes a pytree of numbers, but {leaf!r} is none")
    dtype = np.result_type(*(a.dtype for a in arrays)) if arrays else np.dtype(float)
    parts = [np.ravel(a).astype(dtype) for a in arrays]
    size = sum(part.size for part in parts)

    def unravel(vector: Any) -> Any:
        vector = vector if hasattr(vector, "dtype") else np.asarray(vector)
        if vector.shape != (size,):
            raise ValueError(f"the pytree has {size} elements, not those of an array of shape {vector.shape}")
        found, start = [], 0
        for a in arrays:
            if vector.dtype.kind == "c" and a.dtype.kind != "c":
                raise TypeError(f"a leaf has dtype {a.dtype}, for which there came complex numbers")
            part = np.reshape(vector[start : start + a.size], a.shape).astype(a.dtype)
            found.append(part[()] if isinstance(part, np.ndarray) else part)
            start += a.size
        return unflatten(structure, found)

    return np.concatenate(parts) if parts else np.zeros(0), unravel


def broadcast(prefix: Any, x: Any) -> Any:
    """Return `x` with each leaf replaced by the leaf of `prefix` above it.

    Args:
        prefix: pytree whose leaves stand at leaves of `x`, or at containers.
        x: pytree.

    Returns:
        Pytree of the structure of `x`.

    Raises:
        ValueError: `prefix` is no prefix of `x`.

    Example:
        >>> fg.tree.broadcast({"a": 0.1, "b": 0.2}, {"a": 1.0, "b": [2.0, 3.0]})
        {'a': 0.1, 'b': [0.2, 0.2]}
    """
    return unflatten(structure(x), broadcast_prefix(prefix, x))


def transpose(outer: Any, inner: Any, x: Any) -> Any:
    """Return a tree of trees with the inner structure outside.

    Args:
        outer: structure of `x`, down to its parts.
        inner: structure of each part.
        x: pytree.

    Returns:
        Pytree of the structure `inner`, whose parts have the structure `outer`.

    Raises:
        ValueError: `x` has another structure.

    Example:
        >>> outer, inner = fg.tree.structure([0, 0]), fg.tree.structure({"a": 0, "b": 0})
        >>> fg.tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
        {'a': [1, 3], 'b': [2, 4]}
    """
    found, shape = flatten(x)
    if shape != structure(unflatten(outer, [unflatten(inner, [0] * inner.num_leaves)] * outer.num_leaves)):
        raise ValueError(f"the tree is {shape}, not {outer} of {inner}")
    n = inner.num_leaves
    return unflatten(inner, [unflatten(outer, found[k::n]) for k in range(n)])


def flatten_with_path(
    x: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the leaves of `x`, each with the keys that lead to it, and its structure.

    Args:
        x: pytree.
        is_leaf: whether a part of `x` is to be taken for a leaf; None: no container is.

    Returns:
        A list of pairs, of a tuple of keys and a leaf, and the structure. Keys are `DictKey`, `SequenceKey`,
        `GetAttrKey` or `FlattenedIndexKey` of `fgrad.containers`.

    Example:
        >>> found, _ = fg.tree.flatten_with_path({"a": 1.0, "b": [2.0, 3.0]})
        >>> [(fg.tree.keystr(path), leaf) for path, leaf in found]
        [("['a']", 1.0), ("['b'][0]", 2.0), ("['b'][1]", 3.0)]
    """
    flatten(x)  # so that dataclasses are known
    found, structure = _containers().flatten_with_path(x, is_leaf)
    return found, structure


def map_with_path(f: Callable[..., Any], x: Any, *rest: Any) -> Any:
    """Return `x` with each leaf replaced by `f` of its path, of it, and of what `rest` has at its place.

    Args:
        f: takes a tuple of keys, as of `flatten_with_path`, and as many leaves as there are trees.
        x: pytree.
        rest: pytrees of the same structure.

    Returns:
        Pytree of the structure of `x`.

    Raises:
        ValueError: a structure differs.

    Example:
        >>> fg.tree.map_with_path(lambda path, leaf: f"{fg.tree.keystr(path)} = {leaf}", {"a": [1.0]})
        {'a': ["['a'][0] = 1.0"]}
    """
    for tree in (x, *rest):
        flatten(tree)  # so that dataclasses are known
    return _containers().map_with_path(f, x, *rest)


def keystr(keys: Sequence[Any], *, simple: bool = False, separator: str = "") -> str:
    """Return a path of `flatten_with_path` as text.

    Args:
        keys: the path.
        simple: whether only the names and numbers are written.
        separator: what is written between keys.

    Returns:
        The keys, one after the other.

    Example:
        >>> ((path, _),), _ = fg.tree.flatten_with_path({"w": [1.0]})
        >>> fg.tree.keystr(path), fg.tree.keystr(path, simple=True, separator="/")
        ("['w'][0]", 'w/0')
    """
    from fgrad import containers  # noqa: PLC0415 -- late: it imports optree

    return containers.keystr(keys, simple=simple, separator=separator)


def _containers() -> Any:
    from fgrad.containers import Containers  # noqa: PLC0415 -- late: it imports optree

    return Containers(NAMESPACE)


def children(x: Any) -> list[tuple[Any, Any]] | None:
    """Return the (key, child) pairs of a container or iterable; None for a leaf."""
    if isinstance(x, dict):
        return list(x.items())
    if x is None:
        return []
    if isinstance(x, str | bytes) or x.__class__ in _LEAVES:
        return None
    import optree  # noqa: PLC0415 -- late, as in flatten

    _know(x)
    try:
        found = optree.tree_flatten_one_level(x, namespace=NAMESPACE)
    except ValueError:
        if isinstance(x, Iterable) and not hasattr(x, "dtype"):
            return list(enumerate(x))
        return None
    return list(zip(found.entries, found.children, strict=True))


def broadcast_prefix(prefix: Any, x: Any) -> list[Any]:
    """Return for each leaf of `x` the leaf of `prefix` above it; None counts as a leaf of `prefix`."""
    if prefix is None or prefix.__class__ in _LEAVES:
        return [prefix] * len(leaves(x))
    if prefix.__class__ is tuple and x.__class__ is tuple and len(prefix) == len(x):
        for p in prefix:
            if p is not None and p.__class__ not in _LEAVES:
                break
        else:  # one for each: the usual case
            counts = [1 if part.__class__ in _LEAVES else len(leaves(part)) for part in x]
            return [p for p, n in zip(prefix, counts, strict=True) for _ in range(n)]
    import optree  # noqa: PLC0415 -- late, as in flatten

    _know(x)
    found: list[Any] = []
    stack = [(prefix, x)]
    while stack:
        p, part = stack.pop()
        if p is None or children(p) is None:
            found += [p] * len(leaves(part))
            continue
        axes, parts = (optree.tree_flatten_one_level(t, namespace=NAMESPACE) for t in (p, part))
        if type(p) is not type(part) or axes.entries != parts.entries:
            raise ValueError(f"{p!r} is not a prefix of {part!r}")
        stack += reversed(list(zip(axes.children, parts.children, strict=True)))
    return found


def register_pytree_node(
    cls: type, flatten: Callable[[Any], tuple[Iterable[Any], Any]], unflatten: Callable[[Any, Any], Any]
) -> None:
    """Make instances of `cls` containers: `flatten(x) = (children, aux)`, `unflatten(aux, children) = x`.

    Args:
        cls: the class; instances of subclasses stay leaves.
        flatten: (instance) -> (children, aux), an iterable of pytrees and what is fixed, which has == and
            hash.
        unflatten: (aux, children) -> instance.

    Raises:
        ValueError: `cls` is registered already.

    Example:
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> fg.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, parts: Pair(*parts))
        >>> fg.grad(lambda p: p.a * p.b)(Pair(2.0, 3.0)).a
        np.float64(3.0)
    """
    from fgrad.containers import register  # noqa: PLC0415 -- late, as in flatten: it imports optree

    register(cls, flatten, unflatten, NAMESPACE)


def register_pytree_node_class(cls: type[C]) -> type[C]:
    """Register a class that has `tree_flatten(self)` and `tree_unflatten(cls, aux, children)`.

    Args:
        cls: the class.

    Returns:
        `cls`, so that it may decorate.

    Raises:
        ValueError: `cls` is registered already.

    Example:
        >>> @fg.register_pytree_node_class
        ... class Point:
        ...     def __init__(self, x):
        ...         self.x = x
        ...     def tree_flatten(self):
        ...         return (self.x,), None
        ...     @classmethod
        ...     def tree_unflatten(cls, _, children):
        ...         return cls(*children)
        >>> fg.grad(lambda p: p.x**2)(Point(3.0)).x
        np.float64(6.0)
    """
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_static(cls: type) -> type:
    """Make instances of `cls` containers without leaves, which are part of the structure.

    Args:
        cls: the class; its instances have == and hash.

    Returns:
        `cls`, so that it may decorate.

    Raises:
        ValueError: `cls` is registered already.

    Example:
        >>> @fg.tree.register_static
        ... class Kind(str):
        ...     __slots__ = ()
        >>> fg.tree.leaves([Kind("linear"), 1.0])
        [1.0]
    """
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x)
    return cls


def register_dataclass(
    cls: Any, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None
) -> Any:
    """Make instances of a dataclass containers of some of their fields; others are part of the structure.

    Dataclasses are containers of all of their fields without it.

    Args:
        cls: the dataclass, which `__init__` builds of fields.
        data_fields: names of the fields that are pytrees; None: those that are not in `meta_fields`.
        meta_fields: names of the fields that are fixed, and have == and hash; None: those declared with
            `dataclasses.field(metadata={"static": True})`.

    Returns:
        `cls`, so that it may decorate.

    Raises:
        ValueError: `cls` is registered already, or was used as a container of all of its fields.

    Example:
        >>> import dataclasses
        >>> @fg.tree.register_dataclass
        ... @dataclasses.dataclass
        ... class Layer:
        ...     w: float
        ...     name: str = dataclasses.field(metadata={"static": True})
        >>> fg.grad(lambda layer: layer.w**2)(Layer(3.0, "first"))
        Layer(w=np.float64(6.0), name='first')
    """
    found = _containers().register_dataclass(cls, data_fields, meta_fields)
    _known.add(cls)
    return found


class Partial(functools.partial):  # type: ignore[type-arg]
    """`functools.partial` as a container: its arguments are leaves, its function is not.

    Example:
        >>> scale = fg.tree.Partial(lambda a, x: a * x, 3.0)
        >>> fg.grad(lambda f, x: f(x))(scale, 2.0).args
        (np.float64(2.0),)
    """


_known: set[type] = set()
_opaque: set[type] = set()  # classes that are leaves and no dataclasses, MANY at most


def _know(x: Any) -> None:
    """Register every dataclass in `x`: its fields are the children."""
    import optree  # noqa: PLC0415 -- late, as in flatten

    for leaf in optree.tree_leaves(x, namespace=NAMESPACE):
        cls = type(leaf)
        if cls is Partial and cls not in _known:
            _known.add(cls)
            _containers().register_partial(cls)
            _know(leaf)
        if dataclasses.is_dataclass(cls) and cls not in _known:
            _known.add(cls)
            _register_dataclass(cls)
            _know(leaf)


def _register_dataclass(cls: type) -> None:
    names = [f.name for f in dataclasses.fields(cls)]

    def build(_: Any, values: Iterable[Any]) -> Any:
        new: Any = object.__new__(cls)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(new, name, value)
        return new

    register_pytree_node(cls, lambda x: ([getattr(x, n) for n in names], None), build)


def __dir__() -> list[str]:
    return _offered(globals())
