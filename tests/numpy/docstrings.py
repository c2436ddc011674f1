"""What a docstring of the reference has to say, and whether its examples show what is."""

from __future__ import annotations

import inspect
from importlib import import_module

from fgrad.numpy.registry import Ufunc

WORDS = [
    "array",
    "vector",
    "tensor",
    "truth",
    "integer",
    "text",
    "dtype",
    "shape",
    "tuple",
    "list",
    "number",
    "iterator",
    "function",
    "none",
    "type",
    "part",
    "what",
]


def offered(paths):
    """Yield each function of these modules once, with its full name."""
    seen = set()
    for path in paths:
        module = import_module(path)
        for name in dir(module):
            thing = getattr(module, name)
            own = getattr(thing, "__module__", "").startswith("fgrad")
            is_function = inspect.isfunction(thing) or inspect.isclass(thing) or isinstance(thing, Ufunc)
            if own and is_function and not name.startswith("_") and id(thing) not in seen:
                seen.add(id(thing))
                yield f"{path}.{name}", thing


def sections(thing):
    """Return the sections of a docstring by their titles; the text before is that of no title."""
    found, title = {"": []}, ""
    for line in inspect.getdoc(thing).splitlines():
        if line.endswith(":") and line[:1].isupper():
            title = line[:-1]
            assert title not in found, f"twice: {title}"
            found[title] = []
        else:
            found[title].append(line)
    return {title: "\n".join(lines).strip() for title, lines in found.items()}


def mistakes(thing):
    """Return what the docstring of a function lacks."""
    found = sections(thing)
    wrong = [t for t in ("", "Returns", "Derivative", "Example") if not found.get(t)]
    wrong += [] if ">>> " in found.get("Example", "") else ["nothing runs"]
    wrong += [] if found[""].split("\n\n")[0].endswith((".", ":")) else ["no sentence"]
    wrong += [] if any(w in found.get("Returns", "").lower() for w in WORDS) else ["no shape"]
    return wrong


def lacking(functions, path):
    """Return what the docstrings of the functions of a module lack, by their names."""
    here = {name: thing for name, thing in functions.items() if name.rpartition(".")[0] == path}
    assert here, "there are no functions"
    return {name: wrong for name, thing in here.items() if (wrong := mistakes(thing))}
