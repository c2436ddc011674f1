"""Modules that answer for another library while they are asked to: what programs of that library import."""

from __future__ import annotations

import argparse
import inspect
import runpy
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial, wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from fgrad.blocks import Nested

Source = Callable[[], Mapping[str, Any]]


class StandIn(MetaPathFinder, Loader):
    """Answers for the modules of a library, which is not imported.

    Packages are imported with what is in them; the names of a module are made when the first is asked for.
    """

    def __init__(self, library: str, sources: Callable[[], Mapping[str, Source]]) -> None:
        """Declare what answers for `library`.

        Args:
            library: the name of its package.
            sources: returns, for each of its modules, what makes the names in it; asked at the first import.
        """
        self.library = library
        self._sources = sources
        self._parts = cache(lambda: _by_package(sources()))

    def install(self) -> None:
        """Answer for the library from now on, which need not be there; a second time, nothing.

        Raises:
            RuntimeError: the library itself is loaded.
        """
        if self in sys.meta_path:
            return
        loaded = sys.modules.get(self.library)
        if loaded is not None:
            where = getattr(loaded, "__file__", None) or "no file"
            raise RuntimeError(
                f"{self.library} itself is loaded (from {where}), and programs hold what is in it; "
                f"call fgrad.compat.{self.library}.install() before anything imports {self.library}"
            )
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Answer no longer; what programs have imported goes on to work."""
        if self not in sys.meta_path:
            return
        sys.meta_path.remove(self)
        for name in self._modules():
            del sys.modules[name]

    def installed(self) -> Installed:
        """Return the context in which it answers."""
        return Installed(self)

    def is_installed(self) -> bool:
        """Return whether it answers."""
        return self in sys.meta_path

    def _modules(self) -> list[str]:
        return [
            name
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] == self.library and getattr(module, "__loader__", None) is self
        ]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the library.

        Raises:
            ModuleNotFoundError: there is no such module here; the library's own must not be found instead.
        """
        if fullname.partition(".")[0] != self.library:
            return None
        sources = self._sources()
        if fullname not in sources:
            raise ModuleNotFoundError(
                f"no module named {fullname!r}: fgrad, which answers for {self.library} here, has none",
                name=fullname,
            )
        is_package = fullname in self._parts()
        return ModuleSpec(
            fullname, self, origin="fgrad", is_package=is_package, loader_state=sources[fullname]
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a module that makes its names when the first of them is asked for."""
        return _Module(spec.name, f"What fgrad has of {spec.name}.")

    def exec_module(self, module: ModuleType) -> None:
        """Import the modules in a package, which programs may ask for late; its names win over theirs."""
        parts = self._parts().get(module.__name__, ())
        for name in parts:
            import_module(name)
        if parts:
            dir(module)


def _by_package(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the modules in each package."""
    parts: dict[str, list[str]] = {}
    for name in names:
        parts.setdefault(name.rpartition(".")[0], []).append(name)
    return parts


_ASKED_BY_IMPORT = ("__cached__", "__file__", "__loader__", "__package__", "__path__", "__spec__")


class MissingNameError(NotImplementedError, AttributeError):
    """A module of the library has a name that fgrad has nothing for; `hasattr` says no."""


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name not in _ASKED_BY_IMPORT:
            self._fill()
            if name in self.__dict__:
                return self.__dict__[name]
        raise MissingNameError(
            f"module {self.__name__!r} has no attribute {name!r}: fgrad, which answers for it here, "
            "does not have it",
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name.startswith("__") or isinstance(value, _Module)):  # which the import system sets
            self._fill()
        super().__setattr__(name, value)

    def __dir__(self) -> Iterable[str]:
        self._fill()
        return super().__dir__()

    def _fill(self) -> None:
        """Make the names, once: what makes them is the state of the loader."""
        spec = self.__dict__.get("__spec__")
        if spec is not None and spec.loader_state is not None:
            names = spec.loader_state()
            if spec.loader_state is not None:
                self.__dict__.update(names)
                spec.loader_state = None


class Installed(Nested):
    """The context in which a stand-in answers."""

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__()
        self.stand_in = stand_in

    def __enter__(self) -> None:
        self.stays.append(self.stand_in.is_installed())
        self.stand_in.install()

    def put_back(self, stay: bool) -> None:
        """Answer no longer, unless it answered before."""
        if not stay:
            self.stand_in.uninstall()


def words(text: str) -> tuple[str, ...]:
    """Return the names in a line of them: tables of names are long, and read best as text."""
    return tuple(text.split())


def renamed(text: str, found: Any) -> dict[str, Any]:
    """Return what a table or a module has, by the names in a line of them: `name`, or `new:old`."""
    look = found.__getitem__ if isinstance(found, Mapping) else partial(getattr, found)
    return {new: look(old or new) for new, _, old in (name.partition(":") for name in text.split())}


def with_names(function: Callable[..., Any], names: str) -> Callable[..., Any]:
    """Return a function whose first arguments have the names in a line."""
    own = dict(zip(words(names), inspect.signature(function).parameters, strict=False))

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{own.get(name, name): value for name, value in kwargs.items()})

    return call


def by_name(*found: Any) -> dict[str, Any]:
    """Return functions and classes by their names."""
    return {f.__name__: f for f in found}


def module(name: str) -> Source:
    """Return the source of the names that a module publishes."""

    def names() -> Mapping[str, Any]:
        found = import_module(name)
        return {n: getattr(found, n) for n in found.__all__}

    return names


def absent(library: str, missing: Mapping[str, str]) -> dict[str, Any]:
    """Return what raises when it is used, for each name that fgrad does not have: name -> what instead."""
    return {name: _absent(f"{library}.{name}", instead) for name, instead in missing.items()}


def _absent(name: str, instead: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"fgrad has no {name}: {instead}")

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    return refuse


def together(*sources: Source | Mapping[str, Any]) -> Source:
    """Return the source of the names of all `sources`; later ones win."""

    def names() -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for source in sources:
            found |= source() if callable(source) else source
        return found

    return names


def run(stand_in: StandIn, arguments: Sequence[str], prog: str) -> None:
    """Run a program with the library replaced, as `python` runs it: a file, `-m module` or `-c text`."""
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} [-m MODULE | -c TEXT | FILE] ...",
        description=f"Run a program with fgrad in the place of {stand_in.library}.",
        add_help=False,
    )
    parser.add_argument("-m", metavar="MODULE", dest="module")
    parser.add_argument("-c", metavar="TEXT", dest="text")
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    own, rest = _divided(arguments)
    options = parser.parse_args(own)
    if options.module is None and options.text is None and not rest:
        parser.error("what shall run? a file, -m MODULE or -c TEXT")
    stand_in.install()
    if options.module is not None:
        sys.argv = [options.module, *rest]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(options.module, run_name="__main__", alter_sys=True)
    elif options.text is not None:
        sys.argv = ["-c", *rest]
        sys.path[0] = ""
        space: dict[str, Any] = sys.modules["__main__"].__dict__
        fresh = {"__name__": "__main__", "__builtins__": space["__builtins__"]}
        exec(compile(options.text, "<string>", "exec"), fresh)  # noqa: S102 -- that is what `-c` is for
    else:
        sys.argv = list(rest)
        sys.path[0] = str(Path(rest[0]).resolve().parent)
        runpy.run_path(rest[0], run_name="__main__")


def _divided(arguments: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return what is meant for the runner, and what for the program."""
    given = list(arguments)
    if given[:1] in (["-m"], ["-c"]):
        return given[:2], given[2:]
    if given[:1] in (["-h"], ["--help"]):
        return given[:1], []
    return [], given
