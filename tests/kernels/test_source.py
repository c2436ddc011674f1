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
