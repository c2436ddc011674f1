"""What Numba makes of derivatives is kept on disk, under a key of all that it depends on.

The key is of the text, of the values and functions that it names (by bytecode, with all that they name), and
of versions and settings. A function of the user's that was compiled before anybody looked may hold other
values than its names have now, since Numba freezes them: what calls such a one is not kept.
"""

from __future__ import annotations

import builtins
import hashlib
import linecache
import types as python_types
from collections.abc import Callable, Mapping
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any

import numba
import numpy as np

from fgrad.compat.cpython import behaviour, instructions
from fgrad.compat.numba import code_settings, is_dispatcher, keep, kept_by
from fgrad.kernels import store

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_LIBRARIES = {"numpy", "math", "cmath", "numba", "operator", "builtins", "fgrad"}


class UnknownError(Exception):
    """Something is named of which nobody knows what it was when it was compiled, or will be."""


class Kept:
    """The machine code of a function, on disk, under a key that may not be known before the first call."""

    def __init__(self, key: str | Callable[[], str]) -> None:
        self._ask = None if isinstance(key, str) else key
        self.key: str | None = key if isinstance(key, str) else None

    def load(self, signature: str) -> bytes:
        """Return what was saved for a signature; nothing if there is none."""
        if self.key is None and self._ask is not None:
            self.key = self._ask()
        return store.kept(f"{self.key} {signature}") if self.key else b""

    def save(self, signature: str, content: bytes) -> None:
        """Keep machine code for a signature."""
        if self.key:
            store.keep_for(f"{self.key} {signature}", content)


def executed(
    source: str, name: str, names: Mapping[str, Any], file: str, key: str = ""
) -> Callable[..., Any]:
    """Return a function of a text; `key` tells its symbol from those of others that are kept."""
    # a module that can be imported, as Numba asks of what is kept
    namespace = {"__name__": __name__, **names}
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), namespace)  # noqa: S102 -- fgrad's own
    made: Callable[..., Any] = namespace[name]
    if key:
        made.__qualname__ = f"{name}_{key}"
    return made


def key(source: str, names: Mapping[str, Any], stamp: str | None = None, options: Any = None) -> str:
    """Return what code depends on, as a hash; "" where that cannot be known.

    Args:
        source: its text.
        names: what names in it stand for, but for fgrad's own.
        stamp: what `stamped` said of the user's kernel `called` when it was new; None: there is none.
        options: of Numba.
    """
    if stamp == "":
        return ""
    walk = _Walk(trusts=stamp is not None)
    try:
        if stamp is not None and digest(names["called"], trusts=True) != stamp:
            return ""
        walk.of(source)
        walk.of(dict(names))
        walk.of(options)
    except UnknownError:
        return ""
    walk.of(_header())
    return walk.total.hexdigest()[:40]


def keeping(function: Callable[..., Any], **options: Any) -> Any:
    """Return what `numba.njit` makes of a function, kept on disk unless it calls others that Numba compiles.

    The names of symbols tell functions of one process apart, but not those of several: so this one gets a
    name of its own, and what calls others is compiled anew.
    """
    own: Any = python_types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    update_wrapper(own, function)
    own.__kwdefaults__ = function.__kwdefaults__
    del own.__wrapped__

    def ask() -> str:
        walk = _Walk(trusts=False)
        try:
            walk.of(function)
        except UnknownError:
            return ""
        if walk.dispatchers:
            return ""
        found = key("", {"function": function}, None, options)
        own.__qualname__ = f"{function.__qualname__}_{found}"
        return found

    return keep(numba.njit(**options)(own), Kept(ask))


def stamped(dispatcher: Any) -> str:
    """Return a hash of a user's kernel, and of all that it names, as it is before it is compiled; or ""."""
    try:
        return digest(dispatcher)
    except UnknownError:
        return ""


def content(dispatcher: Any) -> str:
    """Return a hash of a user's kernel, and of all that it names now; or ""."""
    try:
        return digest(dispatcher, trusts=True)
    except UnknownError:
        return ""


def digest(value: Any, *, trusts: bool = False) -> str:
    """Return a hash of a value and of all that it names.

    Args:
        value: a number, an array, a function, ...
        trusts: whether functions that are compiled are known to be what their names say.

    Raises:
        UnknownError: that cannot be known.
    """
    walk = _Walk(trusts=trusts)
    walk.of(value)
    return walk.total.hexdigest()


class _Walk:
    """A hash of values, and of all that they name."""

    def __init__(self, *, trusts: bool) -> None:
        self.trusts, self.total = trusts, hashlib.sha256()
        self.seen: dict[int, int] = {}
        self.held: list[Any] = []
        self.dispatchers = 0  # functions that Numba compiles
        self.values = 0  # of numbers and arrays that functions name

    def add(self, *parts: Any) -> None:
        """Add texts and bytes, each with its length."""
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode()
            self.total.update(f"{len(data)} ".encode() + data)

    def of(self, x: Any) -> None:
        """Add a value."""
        if isinstance(x, (*_PLAIN, np.generic)):
            self.values += 1
            self.add(type(x).__name__, repr(x) if not isinstance(x, np.generic) else x.tobytes())
            return
        if id(x) in self.seen:
            self.add("again", self.seen[id(x)])
            return
        self.seen[id(x)] = len(self.seen)
        self.held.append(x)
        if isinstance(x, np.ndarray):
            if x.dtype.hasobject:
                raise UnknownError
            self.values += 1
            self.add("array", x.dtype.str, x.shape, x.flags.f_contiguous, x.tobytes())
        elif isinstance(x, tuple | list):
            self.add(type(x).__qualname__, len(x))
            for part in x:
                self.of(part)
        elif isinstance(x, dict):
            self.add("dict", len(x))
            for name in sorted(x, key=str):
                self.add(name)
                self.of(x[name])
        elif isinstance(x, frozenset | set):
            self.add("set", *sorted(map(repr, x)))
        elif is_dispatcher(x):
            self.dispatcher(x)
        elif isinstance(x, python_types.FunctionType):
            self.function(x)
        elif isinstance(x, python_types.CodeType):
            self.code(x)
        else:
            self.named(x)

    def dispatcher(self, x: Any) -> None:
        """Add a function of Numba's."""
        self.dispatchers += 1
        own = kept_by(x)
        # asked for when it was compiled
        if not self.trusts and isinstance(own, Kept) and own.key is not None:
            if not own.key:
                raise UnknownError
            self.add("kept", own.key)
            return
        before = self.values
        self.add("kernel", sorted((k, str(v)) for k, v in x.targetoptions.items()))
        self.of(x.py_func)
        if self.values > before and x.overloads and not self.trusts:
            raise UnknownError

    def function(self, f: Any) -> None:
        """Add a function of Python's, with what it names."""
        self.add("function")
        self.code(f.__code__)
        before = self.values
        self.of(f.__defaults__)
        self.of(f.__kwdefaults__)
        self.values = before  # which are part of the function
        cells = [c.cell_contents for c in f.__closure__ or ()]
        for name, value in zip(f.__code__.co_freevars, cells, strict=True):
            self.add(name)
            self.of(value)
        attributes = {i.argval for i in instructions(f.__code__) if i.opname in {"LOAD_ATTR", "LOAD_METHOD"}}
        for name in sorted({i.argval for i in instructions(f.__code__) if i.opname in _GLOBAL}):
            self.add(name)
            if name in f.__globals__:
                value = f.__globals__[name]
                if isinstance(value, python_types.ModuleType):
                    self.module(value, attributes)
                else:
                    self.of(value)
            elif not hasattr(builtins, name):
                raise UnknownError  # it comes later

    def module(self, m: Any, attributes: set[str]) -> None:
        """Add what may be taken from a module."""
        self.add("module", m.__name__)
        if m.__name__.partition(".")[0] in _LIBRARIES:
            return
        for name in sorted(attributes & vars(m).keys()):
            self.add(name)
            value = vars(m)[name]
            if isinstance(value, python_types.ModuleType):
                self.module(value, attributes)
            else:
                self.of(value)

    def code(self, c: Any) -> None:
        """Add bytecode; where it is in its file does not count."""
        self.add(*behaviour(c))
        before = self.values
        for x in c.co_consts:
            self.of(x)
        self.values = before

    def named(self, x: Any) -> None:
        """Add what a library names: a function, a class, a type of Numba's."""
        if isinstance(x, numba.types.Type | np.dtype):
            self.add("type", x)
            return
        module = getattr(x, "__module__", None) or type(x).__module__
        name = getattr(x, "__qualname__", None) or getattr(x, "__name__", None)
        fields = getattr(x, "_fields", None)
        if name and module.partition(".")[0] in _LIBRARIES:
            self.add("named", module, name)
        elif isinstance(x, type) and issubclass(x, tuple) and fields is not None:
            self.add("named tuple", module, name, fields)
        else:
            raise UnknownError


_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME"}


@cache
def _header() -> str:
    """Return versions and settings, and a hash of the modules that write derivatives."""
    here = Path(__file__).parent
    found = hashlib.sha256()
    for file in sorted(here.glob("*.py")):
        found.update(file.name.encode() + file.read_bytes())
    return f"{store.header()}, numba {numba.__version__} {code_settings()}, {found.hexdigest()}"
