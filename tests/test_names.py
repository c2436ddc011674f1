"""Tab completion shows what a module offers, and nothing that it needs for itself."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType

import pytest

from fgrad.names import offered

FOLDERS = {  # and the modules in them
    "fgrad": """
        cache config debug distributed errors extend lax nn numpy optim random scipy sparse testing tree viz
    """,
    "fgrad.numpy": "fft lib linalg typing lib.stride_tricks",
    "fgrad.scipy": """
        fft integrate interpolate linalg ndimage optimize signal sparse sparse.linalg special stats
    """,
}
MODULES = ["fgrad", *(f"{folder}.{name}" for folder, names in FOLDERS.items() for name in names.split())]
TOOLS = {"typing", "types", "collections.abc", "importlib", "functools", "abc", "contextlib", "dataclasses"}
TYPES = {"Array", "ArrayLike", "Axis", "Casting", "DType", "Norm", "Order", "Shape"}  # of fgrad.numpy.typing
PUBLIC = {*MODULES, "fgrad.transforms.checkpoint_policies"}


def shown(module):
    return [name for name in dir(module) if not name.startswith("__")]


@pytest.mark.parametrize("path", MODULES)
def test_completion_shows_public_names_only(path):
    module = import_module(path)
    names = shown(module)
    assert names
    assert [name for name in names if name.startswith("_")] == []
    things = {name: getattr(module, name) for name in names}  # each is there
    modules = {thing.__name__ for thing in things.values() if isinstance(thing, ModuleType)}
    assert modules <= PUBLIC
    of_tools = [n for n, thing in things.items() if getattr(thing, "__module__", "") in TOOLS]
    assert set(of_tools) <= TYPES
    assert not {"annotations", "np", "TYPE_CHECKING", "Any", "import_module"} & set(names)


@pytest.mark.parametrize("path", MODULES)
def test_each_function_that_is_shown_has_a_docstring(path):
    names = shown(import_module(path))
    for name in names:
        thing = getattr(import_module(path), name)
        if inspect.isfunction(thing):
            assert thing.__doc__, f"{path}.{name} has no docstring"


def test_submodules_that_are_imported_are_not_shown():
    import fgrad
    import fgrad.core.tape

    assert "core" in vars(fgrad)
    assert not {"core", "ops", "kernels", "compiler", "transforms"} & set(shown(fgrad))
    assert {"numpy", "lax", "nn", "scipy", "grad", "jit", "jacrev", "profile"} <= set(shown(fgrad))


def test_what_a_module_offers():
    import typing

    space = {
        "__doc__": "", "_own": 1, "typing": typing, "Any": typing.Any, "annotations": None, "f": 2, "tool": 3
    }  # fmt: skip
    assert offered(space) == ["__doc__", "f", "tool"]
    assert offered(space, "typing", "late") == ["__doc__", "f", "late", "tool", "typing"]
    assert offered(space | {"__all__": ["f"]}) == ["__all__", "__doc__", "f"]
