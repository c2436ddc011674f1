import ast
import inspect
import linecache
import traceback

import pytest

from fgrad.kernels import source


def test_tracebacks_and_debuggers_show_the_text():
    module = source.execute("def f(x):\n    return 1 / x\n", note=3)
    assert module.note == 3
    with pytest.raises(ZeroDivisionError) as caught:
        module.f(0)
    assert "return 1 / x" in "".join(traceback.format_exception(caught.value))
    linecache.checkcache()
    assert inspect.getsource(module.f) == "def f(x):\n    return 1 / x\n"


def test_texts_are_shown_of_the_youngest_modules(monkeypatch):
    monkeypatch.setenv("FGRAD_CACHE_ENTRIES", "10")
    files = [source.execute(f"number = {k}").__file__ for k in range(1000, 1030)]
    assert [file in linecache.cache for file in files] == [False] * 20 + [True] * 10
    again = source.execute("number = 1029").__file__
    assert again == files[-1]
    assert [file in linecache.cache for file in files] == [False] * 20 + [True] * 10


TEXT = """
# of a kernel
ONE, TWO = (
    1,
    2,
)


@helper
def first(x):
    if x:
        return ONE

    return TWO  # the other


@helper
@twice
def second(x, y):

    return (
        x + y
)
def kernel(slots, args, lo, hi):
    pass
kernel.sizes = ONE, TWO
THREE = 3
"""


def test_functions_are_declared_without_their_bodies():
    marked = []
    names = {"helper": lambda f: (marked.append(f.__name__), f)[1], "twice": lambda f: f}
    module, functions = source.declared(TEXT, **names)
    assert marked == ["first", "second"]
    assert (module.ONE, module.THREE, module.kernel.sizes) == (1, 3, (1, 2))
    assert module.first(True) is None
    assert module.second.__code__.co_varnames == ("x", "y")
    wanted = {f.name: f for f in ast.parse(TEXT).body if isinstance(f, ast.FunctionDef)}
    assert list(functions) == list(wanted)
    for name, function in functions.items():
        assert ast.dump(function) == ast.dump(wanted[name])
    again = source.declared(TEXT, **names)[1]
    assert all(again[name] is functions[name] for name in wanted)  # parsed once
