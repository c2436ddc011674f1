"""The line magic `%fgrad`, on a shell that does what IPython's does."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg
from fgrad.core.observers import observed_primitives
from fgrad.core.program import Program
from fgrad.viz import Drawing, Profile


class Shell:
    def __init__(self, **variables):
        self.user_ns = {"np": np, "fg": fg, **variables}
        self.magics = {}

    def register_magic_function(self, function, magic_kind="line", magic_name=None):
        self.magics[magic_kind, magic_name] = function

    def run(self, line):
        return self.magics["line", "fgrad"](line)


@pytest.fixture
def shell():
    shell = Shell(f=lambda x, scale=1.0: np.sum(np.sin(x)) * scale, x=np.ones(3))
    fg.load_ipython_extension(shell)
    return shell


def test_commands_take_a_call(shell):
    assert isinstance(shell.run("draw f(x)"), Drawing)
    assert isinstance(shell.run("profile f(x)"), Profile)
    assert isinstance(shell.run("program f(x)"), Program)
    close(shell.run("grad f(x, scale=2.0)"), 2 * np.cos(np.ones(3)))
    close(shell.run("grad f(*[x], **{'scale': 3.0})"), 3 * np.cos(np.ones(3)))


def test_a_recorded_tensor_is_drawn_with_names_of_the_notebook(shell):
    x = fg.tensor([1.0, 2.0])
    assert shell.run("notes on") is None
    try:
        with fg.GradManager().attach(x) as gm:
            y = x * x
            gm.backward(y)
    finally:
        shell.run("notes off")
    assert not observed_primitives
    shell.user_ns |= {"a": x, "b": y, "manager": gm}
    graph = shell.run("draw b").graph
    assert {i.label for i in graph.items} == {"a", "b"}
    assert [b.title for b in graph.boxes()] == ["manager"]


@pytest.mark.parametrize("line", ["", "draw", "paint f(x)", "notes maybe"])
def test_other_commands_are_refused_with_the_list(shell, line):
    with pytest.raises(ValueError, match=r"the commands are\n%fgrad draw f\(x\)"):
        shell.run(line)


def test_a_value_is_no_call(shell):
    with pytest.raises(ValueError, match=r"%fgrad profile takes a call, as in %fgrad profile f\(x\), not x"):
        shell.run("profile x")


def test_the_extension_is_loaded_by_ipython():
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    assert shell.extension_manager.load_extension("fgrad") is None
    shell.user_ns["x"] = 2.0
    close(shell.run_line_magic("fgrad", "grad (lambda x: x**2)(x)"), 4.0)
