"""The outside values that a traced function reads, so that a call notices changes.

A program holds numbers, arrays and decisions that Python found in variables of enclosing functions, globals,
attributes, lists and dictionaries while it was staged. `Captures` looks at all that the function, and the
functions it calls by name, can reach by the names in their code, and compares it at every call. Tensors from
outside are the business of `jit`. What no name leads to is not seen: files, clocks, what C code keeps, names
that are put together (`getattr(x, "w" + i)`).
"""

from __future__ import annotations

import builtins
import functools
import operator
import os
import pickle
import random
import sys
import threading
import types
import warnings
import weakref
from collections import defaultdict, deque
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from importlib import import_module
from io import IOBase
from typing import Any

import numpy as np

from fgrad.blocks import is_of_handler
from fgrad.compat import cpython
from fgrad.core.snapshot import is_private
from fgrad.core.tensor import Tensor
from fgrad.transforms.calling import Transformed, name_of

DEPTH = 20  # steps from a name to what it leads to
FAR = 20_000  # steps in all: of what lies beyond either a warning speaks
SMALL = 1 << 12  # bytes of an array that are compared as one
INLINE = 100  # conditions that are written into the text of a guard
BLOCK = 1 << 16  # words of an array that are compared at once, and stay in the cache meanwhile
_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype)
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial, Transformed)
_BOUND = types.BuiltinFunctionType, types.MethodWrapperType
_GLOBAL = "the global generator of numpy.random", "the global generator of random"
_SEEDED = frozenset(
    {"default_rng", "RandomState", "SeedSequence", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
    | {"Random", "SystemRandom", "urandom", "getrandom", "uuid1", "uuid4"}
    | {"secrets", "token_bytes", "token_hex", "token_urlsafe", "randbits", "randbelow"}
    | {"Sobol", "Halton", "LatinHypercube", "PoissonDisk", "MultinomialQMC", "MultivariateNormalQMC"}
)
_CLOCKS = frozenset(
    {"time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "thread_time"}
    | {"now", "utcnow", "today"}
)
_LIBRARIES = frozenset({*sys.stdlib_module_names, "fgrad", "numpy", "scipy", "numba"}) - {"__main__"}
_MISSING = object()


class Captures:
    """What a function reached by name, as it is now; calling it says whether that holds still."""

    def __init__(self, fun: Callable[..., Any], given: Iterable[Any] = ()) -> None:
        """Look.

        Args:
            fun: the function that has been staged.
            given: what it was given beside arrays: static arguments.
        """
        walk = _walked(fun, given)
        self.tensors: list[Tensor] = list(walk.tensors.values())
        self.values: dict[int, Any] = {id(t): t._value for t in self.tensors}
        if walk.steps > FAR or walk.is_cut:
            warnings.warn(
                f"{name_of(fun)} reaches more than {FAR} functions, arrays and objects by name, or some that "
                f"are more than {DEPTH} steps away. If one beyond those changes, the compiled program does "
                "not notice: pass what may change",
                RuntimeWarning,
                stacklevel=2,
            )
        self._found = list(walk.found.values())
        self._namespace: dict[str, Any] = walk.namespace | {
            "is_": operator.is_,
            "_MISSING": _MISSING,
            "is_of_handler": is_of_handler,
        }
        self.fresh: Callable[[], bool] = self._compiled([code for _, code in self._found])

    def inline(self) -> tuple[str, dict[str, Any]]:
        """Return what `fresh` says as an expression, and the values that it names: of many, a call."""
        if len(self._found) > INLINE:
            return "fresh()", {"fresh": self.fresh}
        return " and ".join([code for _, code in self._found]), self._namespace

    def __bool__(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self._found)

    def is_written(self) -> bool:
        """Return whether one of the Tensors was written to."""
        return any(t._value is not self.values[id(t)] for t in self.tensors)

    def changed(self) -> str:
        """Return what is not as it was, in words."""
        what = next((name for name, code in self._found if not self._compiled([code])()), "")
        return what or ("a Tensor from outside" if self.is_written() else "")

    def _compiled(self, conditions: list[str]) -> Callable[[], bool]:
        text = "\n".join(
            [
                "def fresh():",
                "    try:",
                f"        return {' and '.join(conditions) or 'True'}",
                "    except Exception as error:",
                "        if is_of_handler(error):",
                "            raise",
                "        return False",
            ]
        )
        namespace = dict(self._namespace)
        exec(compile(text, "<fgrad captures>", "exec"), namespace)  # noqa: S102 -- the text is fgrad's own
        made: Callable[[], bool] = namespace.pop("fresh")  # which would be a cycle
        return made


class Draws:
    """Where the random generators stood that a function reaches, and whether it asks a clock."""

    def __init__(self, fun: Callable[..., Any], given: Iterable[Any] = ()) -> None:
        """Look; `given` is what the function gets beside arrays."""
        walk = _walked(fun, given)
        self._sources = [(walk.titles.get(k, type(x).__name__), x) for k, x in walk.sources.items()]
        self._states = self._now()
        self._seeds, self._clocks = walk.seeds, walk.clocks

    def _now(self) -> list[tuple[str, Any]]:
        of_numpy = _random_of_numpy()
        return [
            (_GLOBAL[0], of_numpy and pickle.dumps(of_numpy.get_state(legacy=False))),
            (_GLOBAL[1], random.getstate()),
            *((title, state_of(x)) for title, x in self._sources),
        ]

    def frozen(self, first: Callable[[], Any], again: Callable[[], Any]) -> str:
        """Return what a staged function took that the next call would get anew; "" if nothing.

        The global generators may have been seeded by the function, or used by other threads.

        Args:
            first: what was staged, to be compared.
            again: stages once more, and returns that.
        """
        now = self._now()
        moved = [title for (title, new), (_, old) in zip(now, self._states, strict=True) if new != old]
        if set(moved) - set(_GLOBAL):
            return f"random numbers from {next(title for title in moved if title not in _GLOBAL)}"
        if not (moved or self._seeds or self._clocks):
            return ""
        title = moved[0] if moved else "a generator without a seed"
        what = f"random numbers from {title}" if moved or self._seeds else "the time from a clock"
        known = first()
        if again() != known:
            return what
        if moved and threading.active_count() == 1:
            return "" if self._now() == now else what
        return what if any(again() != known for _ in range(3 if moved else 1)) else ""


def state_of(source: Any) -> Any:
    """Return where a random generator stands, and how many it has spawned, to be compared."""
    if isinstance(source, random.Random):
        return source.getstate()
    if isinstance(source, np.random.Generator):
        source = source.bit_generator
    if isinstance(source, np.random.BitGenerator):
        return pickle.dumps((source.state, getattr(source.seed_seq, "n_children_spawned", 0)))
    if isinstance(source, np.random.SeedSequence):
        return source.n_children_spawned
    return pickle.dumps(source.get_state(legacy=False))


def _walked(fun: Callable[..., Any], given: Iterable[Any]) -> _Walk:
    """Return the walk that knows all the names that lead on."""
    names: set[str] = set()
    asked: set[str] = set()
    added: set[str] = set()
    given = list(given)
    _own.package = (getattr(fun, "__module__", None) or "").partition(".")[0]
    try:
        while True:
            walk = _Walk(names, asked, added)
            for x in (fun, *given):
                walk.see(x, DEPTH)
            walk.run()
            if (walk.names, walk.asked, walk.added) == (names, asked, added):
                return walk
            names, asked, added = walk.names, walk.asked, walk.added
    finally:
        _own.package = None


class _Walk:
    """One walk through what a function reaches by names that are known to be in its code."""

    def __init__(self, names: set[str], asked: set[str], added: set[str]) -> None:
        self.wanted, self.optional = names, asked  # `asked`: of the names those that may be missing
        self.written = added - names  # of what code only adds to
        self.names, self.asked, self.added = set(names), set(asked), set(added)
        self.found: dict[tuple[Any, ...], tuple[str, str]] = {}  # (title, condition) of what was seen
        self.namespace: dict[str, Any] = {}
        self._seen: dict[int, tuple[Any, int]] = {}
        self._todo: deque[tuple[Any, int]] = deque()
        self.sources: dict[int, Any] = {}  # of random numbers
        of_numpy = _random_of_numpy()
        kinds = ("Generator", "RandomState", "BitGenerator", "SeedSequence") if of_numpy else ()
        self._kinds = (random.Random, *(getattr(of_numpy, name) for name in kinds))
        self.titles: dict[int, str] = {}
        self.tensors: dict[int, Tensor] = {}
        self.steps = 0
        self.is_cut = False  # whether something lies too many steps away
        self.seeds = False  # whether code names what may take its seed from the system
        self.clocks = False  # whether it names a clock

    def chosen(self, members: Any) -> list[str]:
        """Return which of some attributes code reads, in order."""
        known = (self.wanted | self.written) & set(members)
        return sorted(name for name in known if self._reads(name, members[name]))

    def _reads(self, name: str, value: Any) -> bool:
        """Return whether code reads the attribute of this name, which has a value."""
        return _is_read(name, value, self.wanted, self.written)

    def name(self, x: Any) -> str:
        """Return a name for an object."""
        name = f"seen{len(self.namespace)}"
        self.namespace[name] = x
        return name

    def hold(self, key: tuple[Any, ...], title: str, place: str, value: Any) -> None:
        """Note that the expression `place` has a value."""
        self.titles.setdefault(id(value), title)
        if key in self.found:
            return
        known = self.name(value)
        if _is_plain(value):
            same = self.name(_is_same)
            self.found[key] = title, f"((x := {place}) is {known} or {same}(x, {known}))"
        else:
            self.found[key] = title, f"{place} is {known}"

    def lacks(self, names: Any, name: str, title: str) -> None:
        """Note that a name stands for nothing yet."""
        self.found.setdefault((id(names), name), (title, f"{name!r} not in {self.name(names)}"))

    def see(self, x: Any, depth: int) -> None:
        """Let what is reached from `x`, in at most so many steps, be noted later."""
        if _is_plain(x):
            return
        if depth < 0 and not isinstance(x, Tensor | np.ndarray):
            self.is_cut = True
            return
        self._todo.append((x, depth))

    def run(self) -> None:
        """Note what is reached, nearest first."""
        while self._todo:
            self._look(*self._todo.popleft())

    def _look(self, x: Any, depth: int) -> None:
        before = self._seen.get(id(x))
        if isinstance(x, Tensor):
            self.tensors[id(x)] = x
            return
        if before is not None and before[1] >= depth:
            return
        self._seen[id(x)] = x, depth
        self.steps += 1
        if self.steps > FAR:
            return
        if isinstance(x, np.ndarray):
            self._array(x, depth)
            self._subclass(x, depth)
        elif isinstance(x, self._kinds):
            self._source(x)
        elif isinstance(x, _FUNCTIONS):
            self._function(x, depth)
        elif isinstance(x, types.ModuleType):
            self._module(x, depth)
        elif isinstance(x, type):
            for base in (*self._classes(x), *self._classes(type(x))):
                self._members(base, base.__dict__, base.__qualname__, depth)
        elif isinstance(x, dict | types.MappingProxyType):
            self._mapping(x, depth)
        elif isinstance(x, list | tuple | set | frozenset | deque):
            self._items(x, self.name(x), list(x), depth)
            self._subclass(x, depth)
        elif isinstance(x, types.GeneratorType):
            self.found[id(x), "position"] = "a generator", f"{self.name(_Position(x))}.holds()"
        elif isinstance(x, Iterator) and type(x).__module__ in {"builtins", "itertools"}:
            left = operator.length_hint(x, -1)
            same = f"{self.name(operator.length_hint)}({self.name(x)}) == {left}"
            # of others nobody can tell how far they are: what takes items from them is traced at every call
            self.found[id(x), "position"] = f"a {type(x).__name__}", same if left >= 0 else "False"
        elif isinstance(x, bytearray | memoryview) or {"array", "_ctypes"} & {
            base.__module__ for base in type(x).__mro__
        }:
            kept = self.name(bytes(x))
            self.found[id(x), "bytes"] = f"a {type(x).__name__}", f"bytes({self.name(x)}) == {kept}"
        elif isinstance(x, operator.attrgetter | operator.methodcaller):
            names = {part for name in x.__reduce__()[1] if isinstance(name, str) for part in name.split(".")}
            self.names |= names
            self.asked |= names
        elif isinstance(x, weakref.ref):
            self.see(x(), depth - 1)
        elif isinstance(x, ContextVar):
            self.hold((id(x),), x.name, f"{self.name(x)}.get(_MISSING)", x.get(_MISSING))
        elif isinstance(x, type(os.environ)):
            copy = self.name(dict(x))
            self.found[id(x), "environ"] = "the environment", f"dict({self.name(x)}) == {copy}"
        elif isinstance(x, _BOUND):
            if not isinstance(x.__self__, types.ModuleType):
                self.see(x.__self__, depth)
        elif not isinstance(x, np.ufunc | property):
            self._object(x, depth)

    def _module(self, x: types.ModuleType, depth: int) -> None:
        self._members(x, vars(x), x.__name__, depth)
        if not _is_library(x.__name__):
            self.see(vars(x).get("__getattr__"), depth - 1)
            for name in sorted(self.optional - vars(x).keys()):
                self.lacks(vars(x), name, f"{x.__name__}.{name}")

    def _mapping(self, x: Any, depth: int) -> None:
        self._items(x, f"list({self.name(x)}.values())", list(x.values()), depth)
        keys = self.name(list(x))
        self.found[id(x), "keys"] = "the keys of a dictionary", f"list({self.name(x)}) == {keys}"
        if isinstance(x, defaultdict):
            made = f"{self.name(x)}.default_factory"
            self.hold((id(x), "made"), "what makes items of a dictionary", made, x.default_factory)
            self.see(x.default_factory, depth - 1)
        self._subclass(x, depth)

    def _source(self, x: Any) -> None:
        """Note a source of random numbers; that of the system has no state."""
        if isinstance(x, random.SystemRandom):
            self.seeds = True
        else:
            self.sources[id(x)] = x

    def _array(self, a: np.ndarray[Any, Any], depth: int) -> None:
        if a.dtype.hasobject:
            kept = self.name([*a.flat])
            same = f"len(x := [*{self.name(a)}.flat]) == {a.size} and all(map(is_, x, {kept}))"
            self.found[id(a), "array"] = "the items of an array", f"({same})"
            for item in a.flat:
                self.see(item, depth - 1)
            return
        if is_private(a):
            return
        title = f"an array of shape {a.shape}"
        if a.nbytes > SMALL:
            self.found[id(a), "array"] = title, f"{self.name(_Print(a))}.holds()"
            return
        held, kept, dtype = self.name(a), self.name(a.tobytes()), self.name(a.dtype)
        same = f"{held}.tobytes() == {kept} and {held}.shape == {a.shape} and {held}.dtype is {dtype}"
        self.found[id(a), "array"] = title, f"({same})"

    def _items(self, x: Any, code: str, items: list[Any], depth: int) -> None:
        if not isinstance(x, tuple | frozenset):
            kept = self.name(items)
            condition = f"len({self.name(x)}) == {len(items)} and all(map(is_, {code}, {kept}))"
            self.found[id(x), "items"] = f"the items of a {type(x).__name__}", condition
        for item in items:
            self.see(item, depth - 1)

    def _members(self, x: Any, members: Any, title: str, depth: int) -> None:
        """Note what code takes of a module or class by name."""
        if _is_library(getattr(x, "__module__", None) if isinstance(x, type) else title):
            return
        for name in self.chosen(members):
            self._member(x, name, members[name], f"{title}.{name}", depth)

    def _names(self, owner: Any, members: Any, title: str, behind: Iterable[type] = ()) -> None:
        """Note that there is nothing more by a name that code takes; other attributes may come and go.

        Args:
            owner: an object, function or class.
            members: its own attributes.
            title: what it is called.
            behind: the classes where attributes are looked up if it has none of the name.
        """
        key = id(owner), "names"
        if key in self.found:
            return
        absent = self.wanted - members.keys()
        for name in sorted(absent & self.optional.union(*(base.__dict__ for base in behind))):
            self.lacks(members, name, f"{title}.{name}")
        # of the others, which were an error, a look at the count is enough
        held, others = self.name(members), self.name(absent)
        same = f"len({held}) == {len(members)} or {others}.isdisjoint({held})"
        self.found[key] = f"an attribute of {title}", f"({same})"

    def _member(self, owner: Any, name: str, value: Any, title: str, depth: int) -> None:
        self.hold((id(owner), name), title, f"{self.name(owner.__dict__)}[{name!r}]", value)
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif isinstance(value, functools.cached_property):
            value = value.func
        self.see(value, depth - 1)

    def _object(self, x: Any, depth: int) -> None:
        """Note the attributes of an object that code names, and the methods that it may call."""
        kind = type(x)
        for name in ("__wrapped__", "pyfunc"):  # of functools.lru_cache, numpy.vectorize
            if isinstance(inner := getattr(x, "__dict__", {}).get(name), _FUNCTIONS):
                self.see(inner, depth)
        if isinstance(x, np.flatiter):
            self.see(x.base, depth - 1)
        if _is_library(kind.__module__) and not isinstance(x, types.SimpleNamespace | threading.local):
            self._held(x, depth)
            return
        self.found[id(x), "class"] = (
            f"the class of {kind.__qualname__}",
            f"type({self.name(x)}) is {self.name(kind)}",
        )
        own = getattr(x, "__dict__", None)
        if own is not None:
            self._attributes(x, own, kind.__qualname__, depth)
        self.names |= _overriding(kind)
        for base in self._classes(kind):
            for name, value in base.__dict__.items():
                if isinstance(value, types.MemberDescriptorType):
                    held = getattr(x, name, _MISSING)
                    if self._reads(name, held):
                        place = f"getattr({self.name(x)}, {name!r}, _MISSING)"
                        self.hold((id(x), name), f"{kind.__qualname__}.{name}", place, held)
                        self.see(held, depth - 1)
                elif name in self.wanted or (name.startswith("__") and name not in _QUIET):
                    self._method(base, name, value, depth)

    def _subclass(self, x: Any, depth: int) -> None:
        """Note what a container has beside its items if its class is the user's."""
        if not _is_library(type(x).__module__):
            self._object(x, depth)

    def _held(self, x: Any, depth: int) -> None:
        """Note what the user can write to of an object whose class is a library's.

        These are attributes that code names, arrays, which methods read, and all that a container holds. What
        else a library keeps in its objects (caches, counters, locks) is its own.
        """
        kind, own = type(x), getattr(x, "__dict__", {})
        everything, chosen = _is_container(kind), self.chosen(own)
        for name, place in _slots(kind).items():
            value = getattr(x, name, _MISSING)
            if isinstance(value, np.ndarray | Tensor) and kind.__module__.partition(".")[0] != "fgrad":
                self.hold(
                    (id(x), name),
                    f"{kind.__qualname__}.{name}",
                    f"{self.name(place)}.__get__({self.name(x)})",
                    value,
                )
                self.see(value, depth - 1)
        for name, value in list(own.items()):
            is_array = isinstance(value, np.ndarray | Tensor) and kind.__module__.partition(".")[0] != "fgrad"
            if everything or is_array or name in chosen:
                self._attribute(x, name, value)
                self.see(value, depth - 1)
        if everything and isinstance(own, dict):
            self._names(x, own, kind.__qualname__)
        if kind.__module__.partition(".")[0] == "scipy":
            self._sources_of(own)

    def _sources_of(self, own: dict[str, Any]) -> None:
        """Note what an object of SciPy draws from: frozen distributions, from what another object has."""
        draw: Any = getattr(_random_of_numpy(), "rand", None)
        everyones = getattr(draw, "__self__", None)  # the global generator, which is looked at anyway
        for value in list(own.values()):
            parts = getattr(value, "__dict__", {}) if _is_library(type(value).__module__) else {}
            for source in (value, *(parts.values() if isinstance(parts, dict) else ())):
                if isinstance(source, self._kinds) and source is not everyones:
                    self._source(source)

    def _attributes(self, x: Any, own: dict[str, Any], title: str, depth: int) -> None:
        """Note the attributes of an object or function itself, and that there are no more."""
        if not isinstance(x, threading.local):  # each thread has a dictionary
            self.found[id(x), "dict"] = (
                f"the attributes of {title}",
                f"{self.name(x)}.__dict__ is {self.name(own)}",
            )
        every = "__dict__" in self.wanted or _finds_attributes(type(x))  # whatever they are called
        for name in sorted(own) if every else self.chosen(own):
            self._attribute(x, name, own[name])
            self.see(own[name], depth - 1)
        if every:
            keys = self.name(list(own))
            self.found[id(own), "keys"] = f"the attributes of {title}", f"list({self.name(own)}) == {keys}"
        if not isinstance(x, threading.local):
            self._names(x, own, title, _own_classes(type(x)))

    def _classes(self, kind: type) -> list[type]:
        """Return a class and its bases, of which is noted that they are these and have no more attributes."""
        classes = _own_classes(kind)
        if len(kind.__mro__) > 2:  # a class without bases gets none
            self.found[id(kind), "bases"] = (
                f"the bases of {kind.__qualname__}",
                f"{self.name(kind)}.__mro__ is {self.name(kind.__mro__)}",
            )
        for i, base in enumerate(classes):
            self._names(base, base.__dict__, base.__qualname__, classes[i + 1 :])
        return classes

    def _attribute(self, x: Any, name: str, value: Any) -> None:
        place = f"{self.name(vars(x))}[{name!r}]"
        if isinstance(x, threading.local):  # each thread has a dictionary
            place = f"getattr({self.name(x)}, {name!r}, _MISSING)"
        self.hold((id(x), name), f"{type(x).__qualname__}.{name}", place, value)

    def _method(self, base: type, name: str, value: Any, depth: int) -> None:
        if isinstance(value, types.FunctionType):
            title = f"{base.__qualname__}.{name}"
            self.hold((id(base), name), title, f"{self.name(base.__dict__)}[{name!r}]", value)
            self.see(value, depth - 1)
        elif not name.startswith("__"):
            self._member(base, name, value, f"{base.__qualname__}.{name}", depth - 1)

    def _function(self, f: Any, depth: int) -> None:
        if isinstance(f, types.MethodType):
            self.see(f.__self__, depth)
            self.see(f.__func__, depth)
        elif isinstance(f, functools.partial):
            for part in ("func", "args", "keywords"):
                value = getattr(f, part)
                self.hold((id(f), part), f"a part of {name_of(f)}", f"{self.name(f)}.{part}", value)
                self.see(value, depth)
        elif isinstance(f, Transformed):
            self.see(f.fun, depth)
            rules = vars(f).get("rules")  # of `custom_vjp`, which may be defined anew
            if rules and not _is_library(f.__module__):
                place = f"{self.name(vars(f))}.get('rules')"
                self.hold((id(f), "rules"), f"the rule of {name_of(f.fun)}", place, rules)
                for rule in rules.values():
                    self.see(rule, depth)
        else:
            self._code(f, depth)

    def _code(self, f: types.FunctionType, depth: int) -> None:
        read = cpython.reads(f.__code__)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if cell == types.CellType():  # not assigned yet
                continue
            value = cell.cell_contents
            if not _is_read(name, value, read.enclosing, read.added):
                continue
            self.hold((id(cell),), name, f"{self.name(cell)}.cell_contents", value)
            self.see(value, depth)
        if _is_library(f.__module__):
            return
        self.names |= read.attributes
        self.asked |= read.asked
        self.added |= read.added
        self.hold((id(f), "code"), f"the code of {name_of(f)}", f"{self.name(f)}.__code__", f.__code__)
        for name in ("__defaults__", "__kwdefaults__"):
            values = getattr(f, name)
            if values is not None:
                self.hold((id(f), name), f"a default of {name_of(f)}", f"{self.name(f)}.{name}", values)
                self.see(values, depth)
        if f.__dict__ or self.optional:
            self._attributes(f, f.__dict__, name_of(f), depth)
        names = read.variables | read.attributes
        self.seeds = self.seeds or not _SEEDED.isdisjoint(names)
        # of `time.time()` both are names
        self.clocks = (
            self.clocks or not _CLOCKS.isdisjoint(names) or "time" in read.variables & read.attributes
        )
        if not {"environ", "getenv"}.isdisjoint(read.variables | read.attributes):
            self.see(os.environ, depth)
        for name in sorted((read.variables | read.added) & f.__globals__.keys()):
            value = f.__globals__[name]
            if not _is_read(name, value, read.variables, read.added):
                continue
            self.hold((id(f.__globals__), name), name, f"{self.name(f.__globals__)}[{name!r}]", value)
            self.see(value, depth)
        for module in _imported(read.imported, f.__globals__.get("__package__") or ""):
            self.see(module, depth - 1)
        for name in sorted(read.variables - f.__globals__.keys()):  # they are of `builtins`
            self.lacks(f.__globals__, name, name)
            value = vars(builtins).get(name)
            if not isinstance(value, types.BuiltinFunctionType | type):
                self.hold((id(builtins), name), name, f"{self.name(vars(builtins))}.get({name!r})", value)
                self.see(value, depth)


def _imported(names: Iterable[str], package: str) -> list[types.ModuleType]:
    """Return the modules that the body of a function imports, which may be relative to its package."""
    parents = [""]
    while package:
        parents.append(f"{package}.")
        package = package.rpartition(".")[0]
    found = {f"{parent}{name}".strip(".") for name in names for parent in parents}
    return [sys.modules[name] for name in sorted(found & sys.modules.keys())]


def _finds_attributes(kind: type) -> bool:
    """Return whether a class of the user's finds attributes by names that it puts together."""
    own = _own_classes(kind)
    return any(name in vars(base) for base in own for name in ("__getattr__", "__getattribute__"))


def _slots(kind: type) -> dict[str, types.MemberDescriptorType]:
    """Return the attributes of a class that are in no dictionary, by name."""
    found = [(name, x) for base in kind.__mro__ for name, x in vars(base).items()]
    return {name: x for name, x in found if isinstance(x, types.MemberDescriptorType)}


def _own_classes(kind: type) -> list[type]:
    """Return a class and its bases, in order, without those of libraries."""
    return [base for base in kind.__mro__ if not _is_library(base.__module__)]


def _overriding(kind: type) -> set[str]:
    """Return the names of a class by which the methods of a library that it inherits may call its own."""
    own = _own_classes(kind)
    behind = [base for base in kind.__mro__ if base is not object and base not in own]
    inherited = {name for base in behind for name in base.__dict__ if not name.startswith("__")}
    return {name for name in inherited if any(name in base.__dict__ for base in own)}


# methods that are there for other purposes than computing
_QUIET = frozenset(
    {"__init__", "__new__", "__repr__", "__str__", "__hash__", "__reduce__", "__init_subclass__", "__del__"}
)


def _random_of_numpy() -> Any:
    """Return `numpy.random` if it is in use: it takes long to import, and another thread may be at it."""
    return import_module("numpy.random") if "numpy.random" in sys.modules else None


def _is_library(module: Any) -> bool:
    """Return whether a module is installed, and not of the package of the function that is looked at.

    The state of such a library is its own.
    """
    if not isinstance(module, str):
        return False
    package = module.partition(".")[0]
    return package in _LIBRARIES or (package != getattr(_own, "package", None) and _is_installed(package))


_own = threading.local()  # the package of the function that is looked at


@functools.cache
def _is_installed(package: str) -> bool:
    found = sys.modules.get(package)
    places = [getattr(found, "__file__", None), *getattr(found, "__path__", ())]
    return any(isinstance(p, str) and p.startswith(_installed()) for p in places)


@functools.cache
def _installed() -> tuple[str, ...]:
    import sysconfig  # noqa: PLC0415 -- late: nobody needs it before something is staged

    return tuple({sysconfig.get_path(kind) + os.sep for kind in ("purelib", "platlib")})


def _is_container(kind: type) -> bool:
    """Return whether a class of a library is there to hold what users put into it."""
    if issubclass(kind, Mapping | Sequence | AbstractSet):
        return True
    if kind.__module__ == "functools" or (kind.__module__, kind.__name__) == ("argparse", "Namespace"):
        return True
    package = kind.__module__.partition(".")[0]
    if package == "fgrad":
        return kind.__module__.startswith("fgrad.scipy.")
    return hasattr(kind, "__getattr__") and package not in sys.stdlib_module_names


def _is_read(name: str, value: Any, read: Collection[str], written: Collection[str]) -> bool:
    """Return whether code reads what a name is bound to: as names say, or by writing to what is no log."""
    return name in read or (name in written and not _is_log(value))


def _is_log(x: Any) -> bool:
    """Return whether `append`, `update` and their like, and `x[i] = y`, only write to a value."""
    if not isinstance(x, MutableMapping | MutableSequence | MutableSet | np.ndarray | Tensor | IOBase):
        return False
    names = cpython.ADDING | {"__setitem__"}
    return all(_is_library(base.__module__) or names.isdisjoint(vars(base)) for base in type(x).__mro__)


def _is_plain(x: Any) -> bool:
    """Return whether a value is all that there is to it: instances of a user's subclass have attributes."""
    return isinstance(x, _PLAIN) and _is_library(type(x).__module__)


def _is_same(x: Any, known: Any) -> bool:
    """Return whether two values that cannot be written to are of one type, and equal to the bit."""
    if x.__class__ is not known.__class__:
        return False
    if isinstance(known, np.generic):
        return bool(x.dtype == known.dtype and x.tobytes() == known.tobytes())
    if isinstance(known, float | complex):
        return repr(x) == repr(known)  # NaN is itself, and -0.0 is not 0.0
    return bool(x == known)


class _Print:
    """What tells a large array from what it becomes when it is written to: a copy, to the bit."""

    __slots__ = ("_array", "_aval", "_kept")

    def __init__(self, a: np.ndarray[Any, Any]) -> None:
        self._array, self._aval = a, (a.shape, a.dtype, a.strides)
        self._kept: np.ndarray[Any, Any] = _words(a).copy()

    def holds(self) -> bool:
        """Return whether the array is as it was, to the bit."""
        a, kept = self._array, self._kept
        if (a.shape, a.dtype, a.strides) != self._aval:
            return False
        now = _words(a)
        return all((now[i : i + BLOCK] == kept[i : i + BLOCK]).all() for i in range(0, len(now), BLOCK))


class _Position:
    """What tells a generator from what it is when somebody took an item."""

    __slots__ = ("_generator", "_kept")

    def __init__(self, generator: types.GeneratorType[Any, Any, Any]) -> None:
        self._generator, self._kept = generator, cpython.position_of(generator)

    def holds(self) -> bool:
        """Return whether nobody took an item."""
        now = cpython.position_of(self._generator)
        return len(now) == len(self._kept) and all(map(operator.is_, now, self._kept))


def _words(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the memory of an array as integers, a copy of it where there are gaps."""
    flat = np.asarray(a).ravel(order="K")
    return flat.view(np.int64 if flat.nbytes % 8 == 0 and flat.flags.c_contiguous else np.uint8)
