"""In a notebook messages and pictures say `In[2], line 6`, and none the file that IPython makes of a cell."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fgrad

SOURCE = Path(fgrad.__file__).parent

# Each a cell, and what it says of the line that ends in "# here"
CELLS = {
    "a value that is not known": ("fg.jit(lambda x: float(x))(1.0)  # here", "float() at {}"),
    "a tracer that got out": (
        "kept = []\nfg.make_graph(lambda x: kept.append(2 * x))(1.0)  # here\nkept[0] + 1",
        "a Tensor made at {} inside",
    ),
    "NaN": ("with fg.debug_nans():\n    np.log(fg.tensor(-1.0))  # here", "log at {} gave nan"),
    "NaN on the way back": (
        "def f(x):\n    return np.sqrt(x)  # here\nwith fg.debug_nans(infs=True):\n    fg.grad(f)(0.0)",
        "(recorded at {}) became inf",
    ),
    "where that derivative was asked for": (
        "with fg.debug_nans(infs=True):\n    fg.grad(np.sqrt)(0.0)  # here",
        "in the derivative asked for at {}",
    ),
    "NaN in what backward is given": (
        (
            "x = fg.tensor(1.0)\nwith fg.debug_nans(), fg.GradManager().attach(x) as gm:\n"
            "    gm.backward(2 * x, fg.tensor(np.nan))  # here"
        ),
        "reverse pass at {}: nan",
    ),
    "NaN in a compiled program": (
        "f = fg.jit(lambda x: np.log(x))  # here\nf(1.0)\nwith fg.debug_nans():\n    f(-1.0)",
        "traced at {}",
    ),
    "a function that is traced again": (
        "with fg.explain_retrace() as reasons:\n    fg.jit(np.sin)(1.0)  # here\nprint(reasons[0])",
        "sin at {} is traced for the first time",
    ),
    "a callback of another shape": (
        "fg.pure_callback(np.sin, np.ones(2), np.ones(3))  # here",
        "pure_callback at {} returned float64[3]",
    ),
    "a callback of another structure": (
        "fg.pure_callback(np.sin, [np.ones(2)], np.ones(2))  # here",
        "pure_callback at {} returned the structure",
    ),
    "a callback without a derivative": (
        "def f(x):\n    return fg.pure_callback(np.sin, x, x)  # here\nfg.grad(f)(1.0)",
        "at {} has no derivative",
    ),
    "a callback that is mapped": (
        "def f(x):\n    return fg.pure_callback(np.sin, x, x)  # here\nfg.vmap(f)(np.ones(2))",
        "at {} is mapped by vmap",
    ),
    "an order that is not known": (
        "def f(x):\n    return (2 * x).ravel(order='K')  # here\nfg.jit(f)(np.ones((2, 3)))",
        "order='K' at {} depends on the memory layout",
    ),
    "an iterator in an order that is not known": (
        "def f(x):\n    return list(fnp.nditer(2 * x, order='K'))  # here\nfg.jit(f)(np.ones((2, 3)))",
        "order='K' at {} depends on the memory layout",
    ),
    "a view that may be a copy": (
        (
            "def f(x):\n    x = x @ x\n    y = x.reshape(-1)\n    y[0] = 1.0  # here\n    return x\n"
            "fg.jit(f)(np.ones((2, 2)))"
        ),
        "written to at {} depends on the memory layout",
    ),
    "a mapped function that is not pure": (
        (
            "seen = []\ndef f(x):\n    if x > 0:  # here\n        x = 2 * x\n    seen.append(1)\n"
            "    return x\nfg.vmap(f)(np.array([1.0, -1.0]))"
        ),
        "differs between the examples (at {})",
    ),
    "what a gradient keeps": (
        "def f(x):\n    return np.sin(np.exp(x))  # here\nfg.print_saved_residuals(f, 1.0)",
        "out of exp at {}",
    ),
    "ranks that disagree": (
        (
            "from fgrad.distributed import simulate, world\n"
            "def f():\n    here = world()\n    with here.axis('i'):\n"
            "        fg.lax.psum(np.ones(2 + here.rank), 'i')  # here\nsimulate(2, f)"
        ),
        "psum of float64[2] at {}",
    ),
    "what cannot be stored": (
        (
            "from fgrad.archive import export\ndef f(x):\n    fg.debug.print('{}', x)  # here\n    return x\n"
            "export(f, np.ones(2))"
        ),
        "traced at {}, cannot be stored",
    ),
    "a pattern that is too large": (
        (
            "from fgrad import sparse\nfrom fgrad.sparse import dependencies\ndependencies._ENTRIES = 10\n"
            "def f(x):\n    return x @ x\nsparse.pattern(f)(np.eye(3))  # here"
        ),
        "everything of everything, at {}",
    ),
    "a kernel without a derivative": (
        (
            "@fg.differentiate\n@numba.njit\ndef f(x):\n"
            "    y = np.sort(x.astype(np.complex64).view())  # here\n    return y[0]\nfg.grad(f)(np.ones(3))"
        ),
        "{}: in f,",
    ),
    "arrays of a kernel that do not fit": (
        (
            "@fg.differentiate\n@numba.njit\ndef f(x, y):\n    return np.sum(x * y)  # here\n"
            "fg.grad(f)(np.ones(3), np.ones(1))"
        ),
        "{}: lengths of arrays differ",
    ),
    "a listing": (
        "def f(x):\n    return np.sin(x)  # here\nprint(fg.jit(f).lower(np.ones(3)).source)",
        "# {}",
    ),
    "a picture": (
        "def f(x):\n    return np.sin(x)  # here\nprint(fg.viz.draw(fg.make_graph(f)(np.ones(3))).to_svg())",
        "{}",
    ),
    "a program": (
        "def f(x):\n    return np.sin(x)  # here\nprint(fg.jit(f).lower(np.ones(3)).program._repr_html_())",
        "{}",
    ),
    "a profile": (
        "def f(x):\n    return np.sin(x)  # here\nprint(fg.profile(fg.grad(f))(1.0))",
        "{} return np",
    ),
}

RUN = """
import json, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(colors="NoColor")
shell.run_cell("import numba, numpy as np, fgrad as fg, fgrad.numpy as fnp", store_history=True)
said = []
for cell in json.load(sys.stdin):
    body = "\\n".join("    " + line for line in cell.splitlines())
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        shell.run_cell(f"try:\\n{body}\\nexcept Exception as e:\\n    print(e)", store_history=True)
    said.append(out.getvalue() + err.getvalue())
sys.__stdout__.write(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    pytest.importorskip("IPython")
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps([cell for cell, _ in CELLS.values()]), text=True,
        capture_output=True, check=True,
        env={**os.environ, "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython"))},
    )  # fmt: skip
    return dict(zip(CELLS, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", CELLS)
def test_messages_number_cells(said, name):
    cell, words = CELLS[name]
    line = 2 + [text.endswith("# here") for text in cell.splitlines()].index(True)
    assert words.format(f"In[{list(CELLS).index(name) + 2}], line {line}") in said[name], said[name]
    assert "ipython-input" not in said[name]


def test_no_message_prints_the_file_of_a_line():
    """A text that says a line has it of `place_of`, which knows cells."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for text in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(text, ast.JoinedStr):
                continue
            before = ""
            for part in text.values:
                said = "" if isinstance(part, ast.Constant) else ast.unparse(part.value)
                if said == "user_line()" or (said.endswith(".line") and before.endswith(("at ", "# "))):
                    found.append(f"{path.relative_to(SOURCE)}:{text.lineno}: {said}")
                before = part.value if isinstance(part, ast.Constant) else ""
    assert not found
