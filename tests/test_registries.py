"""Facts about primitives are theirs: few tables beside them, which only grow, and few modules name one."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fgrad as fg

ROOT = Path(__file__).parents[1]

SCRIPT = """
import importlib, importlib.abc, importlib.util, json, pkgutil, sys

OWN = {}  # (module, name) of a table -> what was in it when its module had run

def tables(module):
    for name, x in vars(module).items():
        if name.isupper() and not name.startswith("_") and isinstance(x, (dict, list, set)):
            yield name, x

def content(x):
    return {k: id(v) for k, v in x.items()} if isinstance(x, dict) else dict.fromkeys(map(id, x))

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if not name.startswith("fgrad."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            for table, x in tables(module):
                OWN.setdefault(id(x), (f"{name.removeprefix('fgrad.')}.{table}", x, content(x)))
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
import fgrad

def load(*packages):
    for package in packages:
        module = importlib.import_module(f"fgrad.{package}")
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"fgrad.{package}."):
            try:
                importlib.import_module(found.name)
            except ImportError as error:  # of a library that is not here
                assert not error.name.startswith("fgrad"), error

CACHES = {"_vjps", "single", "linear", "pairs", "plans"}
load("core", "ops", "compiler", "transforms", "numpy")
engine = {name: content(x) for name, x, _ in OWN.values()}
columns = {p.name: {c: getattr(p, c) for c in p.__slots__ if c not in CACHES} for p in
           fgrad.core.primitive.PRIMITIVES.values()}
load(*sys.argv[1:])
changed = [f"{name}[{k!r}]" for name, x, _ in OWN.values() if name in engine
           for k, v in engine[name].items() if content(x).get(k, 0) != v]
changed += [name for name, x, _ in OWN.values() if name in engine
            if isinstance(x, list) and len(content(x)) != len(engine[name])]  # of passes or hooks
changed += [f"{p}.{c}" for p, own in columns.items() for c, v in own.items()
            if getattr(fgrad.core.primitive.PRIMITIVES[p], c) is not v]
filled = [name for name, x, own in OWN.values() if content(x) != own]
print(json.dumps([changed, filled]))
"""
OPTIONAL = [
    "lax",
    "nn",
    "random",
    "scipy",
    "distributed",
    "archive",
    "viz",
    "einops",
    "debug",
    "plain",
    "extend",
]


@pytest.fixture(scope="module", params=["in order", "in reverse"])
def found(request):
    order = OPTIONAL if request.param == "in order" else OPTIONAL[::-1]
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, *order],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not made.returncode, made.stderr
    return json.loads(made.stdout)


def test_importing_changes_nothing_that_is_there(found):
    """A package that is imported adds what is its own: no rule, pass or primitive is replaced."""
    assert not found[0]


def test_every_table_that_imports_fill_is_documented(found):
    page = (ROOT / "docs/design/source.md").read_text()
    listed = re.findall(r"^\| `(\w+(?:\.\w+)*\.[A-Z_]+)` \|", page, re.MULTILINE)
    assert sorted(found[1]) == sorted(listed)


ENGINE = ("core", "compiler", "transforms", "lax", "archive", "distributed", "viz")
# calls that take names of primitives; `name == "..."` does, too
NAMING = {
    "bind",
    "make",
    "maker",
    "on",
    "view",
    "rule",
    "through",
    "summed",
    "_rule",
    "_emit",
    "Equation",
    "_named",
}


def names(tree):
    """Yield the texts that a module gives where names of primitives belong."""
    for node in ast.walk(tree):
        called = getattr(node, "func", None)
        if getattr(called, "id", getattr(called, "attr", None)) in NAMING:
            yield from (a.value for a in node.args if isinstance(a, ast.Constant))
        elif isinstance(node, ast.Compare) and "name" in ast.unparse(node.left):
            yield from (c.value for c in ast.walk(node) if isinstance(c, ast.Constant))


def test_few_modules_of_the_engine_name_a_primitive():
    """Passes ask a primitive what it is; what is special about one stands in three modules, at most."""
    source = Path(fg.__file__).parent
    found: dict[str, set[str]] = {}
    writing = {  # what passes write, and what takes the place of stretches
        source / "core" / "rewriting" / "operations.py",
        source / "compiler" / "rolling.py",
    }
    for folder in ENGINE:
        for path in {*(source / folder).rglob("*.py")} - writing:
            for name in names(ast.parse(path.read_text())):
                if name in fg.core.primitive.PRIMITIVES:
                    found.setdefault(name, set()).add(path.relative_to(source).as_posix())
    assert len(found) > 50
    assert {name: modules for name, modules in found.items() if len(modules) > 3} == {}


def layers():
    """Return the height of each part of the package, as import-linter is told."""
    text = (ROOT / "pyproject.toml").read_text().partition("layers = [")[2].partition("]")[0]
    lines = re.findall(r'"([^"]+)"', text)
    return {part: -k for k, line in enumerate(lines) for part in line.split(" | ")}


def test_late_imports_upward_are_documented():
    """What a module names of fgrad in a text may be imported by it: it lies below, or stands in the list."""
    source, height, found = Path(fg.__file__).parent, layers(), {}
    for path in sorted(source.rglob("*.py")):
        module = path.relative_to(source).as_posix()
        own = height.get(module.partition("/")[0].removesuffix(".py"))
        for node in ast.walk(ast.parse(path.read_text())) if own is not None else ():
            if isinstance(node, ast.Constant) and re.fullmatch(r"fgrad(\.\w+)+", str(node.value)):
                other = node.value.split(".")[1]
                if height.get(other, own) > own:
                    found.setdefault(module, set()).add(other)
    page = (ROOT / "docs/design/source.md").read_text().partition("## Late imports upward")[2]
    rows = re.findall(r"^\| `([\w/.]+)` \| (.+?) \|", page, re.MULTILINE)
    listed = {
        module: {name.split(".")[0] for name in re.findall(r"`([\w.]+)`", cell)} for module, cell in rows
    }
    assert found == listed
