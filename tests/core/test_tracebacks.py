"""Tracebacks end in the user's program, in Python, pytest and IPython; FGRAD_TRACEBACK=full shows all."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback

import numpy as np
import pytest

import fgrad as fg

USER = """
import numpy as np
import fgrad as fg

def inner(x):
    return np.linalg.solve(x, x)  # singular

def outer(x):
    return inner(x).sum()

x = np.zeros((2, 2))
"""
CALLS = {
    "fg.grad(outer)(x)": "return np.linalg.solve(x, x)  # singular",
    "fg.vmap(fg.grad(outer))(x[None])": "return np.linalg.solve(x, x)  # singular",
    "fg.vjp(outer, x)": "return np.linalg.solve(x, x)  # singular",
    "fg.jvp(outer, (x,), (x,))": "return np.linalg.solve(x, x)  # singular",
    "fg.linearize(outer, x)": "return np.linalg.solve(x, x)  # singular",
    "fg.make_graph(lambda x: float(x))(1.0)": "lambda x: float(x)",
    "fg.jit(lambda x: x if x > 0 else -x)(1.0)": "x if x > 0 else -x",
    "fg.grad(np.sin)(np.ones(3))": "fg.grad(np.sin)(np.ones(3))",
    "fg.vjp(np.sin, 1.0)[1](np.ones(3))": "fg.vjp(np.sin, 1.0)[1](np.ones(3))",
    "fg.GradManager().backward()": "fg.GradManager().backward()",
    "fg.GradManager().attach(np.ones(3))": "fg.GradManager().attach(np.ones(3))",
    "np.sum(fg.tensor(x), axis=5)": "np.sum(fg.tensor(x), axis=5)",
    "np.add(fg.tensor(x), fg.tensor(np.ones(3)))": "np.add(fg.tensor(x), fg.tensor(np.ones(3)))",
}
NEWER = sys.version_info >= (3, 11)  # where the frame that hides the others is hidden, too


def run(text, *command, **settings):
    environment = {k: v for k, v in os.environ.items() if k != "FGRAD_TRACEBACK"}
    return subprocess.run(
        [sys.executable, *command],
        input=text,
        text=True,
        capture_output=True,
        env={**environment, **settings},
        check=False,
    )


def stories(stderr):
    """Return the file of each frame, and the last one's text, of each traceback."""
    found = []
    for story in stderr.split("=====")[1:]:
        frames = [line.split('"')[1] for line in story.splitlines() if line.startswith('  File "')]
        found.append((frames, story))
    return found


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("user") / "user.py"
    lines = [USER, "import sys, traceback"]
    for call in CALLS:
        lines += ["print('=====', file=sys.stderr)", "try:", f"    {call}"]
        lines += ["except Exception:", "    traceback.print_exc()"]
    path.write_text("\n".join(lines))
    return path


def test_frames_of_fgrad_are_hidden(script):
    done = run("", str(script))
    assert done.returncode == 0, done.stderr
    found = stories(done.stderr)
    assert len(found) == len(CALLS)
    for (frames, story), last in zip(found, CALLS.values(), strict=True):
        assert frames[-1] == str(script), story
        own = [f for f in frames if "fgrad" in f and f != str(script)]
        assert (not own) if NEWER else len(own) <= 3, story
        assert last in story
        if NEWER:
            assert "of fgrad" in story.splitlines()[-1]
            assert story.count("FGRAD_TRACEBACK=full shows them") == 1


def test_full_shows_them(script):
    done = run("", str(script), FGRAD_TRACEBACK="full")
    for frames, story in stories(done.stderr):
        assert any(os.sep + "fgrad" + os.sep in f for f in frames), story
        assert "hidden" not in story


def test_a_wrong_choice_is_said():
    done = run("import fgrad, numpy\nfgrad.grad(numpy.sin)(numpy.ones(3))", "-", FGRAD_TRACEBACK="yes")
    assert "FGRAD_TRACEBACK is 'short' or 'full', not 'yes'" in done.stderr


def test_an_uncaught_error_in_a_manager_block():
    text = "import fgrad as fg\nx = fg.tensor([1.0, 2.0])\nwith fg.GradManager().attach(x) as gm:\n"
    done = run(text + "    y = x + fg.tensor([1.0, 2.0, 3.0])\n", "-")
    frames = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert 'File "<stdin>", line 4' in frames[-1]
    assert len(frames) == 1 or not NEWER


def test_causes_are_shortened_too():
    text = """
import numpy as np
import fgrad as fg

def f(x):
    try:
        return fg.grad(np.sin)(np.ones(3))
    except TypeError as error:
        raise ValueError("mine") from error

fg.grad(f)(1.0)
"""
    done = run(text, "-")
    assert done.stderr.count("Traceback") == 2
    assert (f"{os.sep}fgrad{os.sep}" not in done.stderr) or not NEWER
    assert done.stderr.count('File "<stdin>"') == 3


def test_pytest_shows_the_users_line(tmp_path):
    test = tmp_path / "test_user.py"
    test.write_text(USER + "\ndef test_it():\n    fg.grad(outer)(x)\n")
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))
    done = run("", "-m", "pytest", *options, str(test), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_ADDOPTS="")
    assert done.returncode == 1
    assert "test_user.py:6: LinAlgError" in done.stdout
    assert "reverse.py" not in done.stdout or not NEWER


def test_ipython_shows_the_users_line():
    pytest.importorskip("IPython")
    text = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell(colors='nocolor')\n"
        f"shell.run_cell({USER!r})\n"
        "shell.run_cell('fg.grad(outer)(x)')\n"
    )
    done = run(text, "-", IPYTHONDIR=os.devnull)
    assert "LinAlgError: Singular matrix" in done.stdout
    assert "return np.linalg.solve(x, x)  # singular" in done.stdout
    assert "reverse.py" not in done.stdout or not NEWER


def test_frames_of_numpy_stay_where_the_user_called_it(monkeypatch):
    monkeypatch.setenv("FGRAD_TRACEBACK", "short")

    def f(x):
        np.linalg.solve(np.zeros((2, 2)), np.ones(2))
        return x

    with pytest.raises(np.linalg.LinAlgError) as caught:
        fg.grad(f)(1.0)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files[-1].endswith("_linalg.py")
    assert not any("transforms" in f for f in files) or not NEWER


def test_the_error_is_the_one_that_was_raised(monkeypatch):
    monkeypatch.setenv("FGRAD_TRACEBACK", "short")
    mine = RuntimeError("mine")

    def f(x):
        raise mine

    with pytest.raises(RuntimeError) as caught:
        fg.vmap(fg.grad(f))(np.ones(3))
    assert caught.value is mine
    if NEWER:
        (note,) = caught.value.__notes__
        assert note.endswith("hidden; FGRAD_TRACEBACK=full shows them")
