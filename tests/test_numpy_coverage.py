"""The coverage of NumPy's names says what is so, and docs/coverage.md says what it says."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.__main__ import main
from fgrad.core.primitive import NUMPY
from fgrad.numpy_coverage import ASIDE, HEAD

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"


@functools.cache
def entries():
    return {e.name: e for e in fg.coverage()}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sin", (True, True, "yes", True, True, True, True)),
        ("matmul", (True, True, "yes", True, True, True, True)),
        ("floor", (True, True, "zero", True, True, True, True)),
        ("argmax", (True, True, "none", False, False, True, True)),
        ("nonzero", (True, True, "none", False, False, False, False)),
        ("eye", None),
        ("loadtxt", None),
        ("random.normal", (True, False, "yes", True, True, True, True)),
        ("random.gamma", (True, False, "yes", True, True, True, True)),
        ("random.poisson", (True, False, "refused", False, False, True, True)),
        ("scipy.special.jv", (True, True, "yes", True, True, True, True)),
        ("scipy.special.softmax", (True, False, "yes", True, True, True, True)),
        ("scipy.special.round", (True, True, "zero", True, True, True, True)),
        ("scipy.special.mathieu_a", (False, False, "", False, False, False, False)),
    ],
)
def test_what_is_known_of_a_name(name, expected):
    assert (tuple(entries()[name])[1:] if name in entries() else None) == expected


def test_every_function_with_a_rule_is_listed():
    modules = {"": np, "linalg.": np.linalg, "fft.": np.fft}
    for prefix, module in modules.items():
        for name, f in list(vars(module).items()):  # more are imported on the way
            if not name.startswith("_") and callable(f) and f in NUMPY and name not in ASIDE:
                assert prefix + name in entries(), name
    for name, f in list(vars(fnp).items()):
        if f in NUMPY.values() and hasattr(np, name) and name not in ASIDE:
            assert entries()[name].fgrad, name


def test_what_has_no_derivative_has_no_second_one():
    for e in entries().values():
        if e.derivative not in {"yes", "zero"}:
            assert not e.forward
            assert not e.second


def test_the_page_is_up_to_date():
    page = PAGE.read_text()
    if page.splitlines()[2] != HEAD.splitlines()[2]:
        pytest.skip("the page is of another NumPy or SciPy")
    assert page == f"{fg.coverage()}\n", "run: python -m fgrad coverage > docs/coverage.md"


def test_the_command_line_prints_it(capsys):
    assert main(["coverage"]) == 0
    assert capsys.readouterr().out.startswith("# Coverage\n")


def test_without_scipy_the_rest_is_covered():
    program = (
        "import sys; sys.modules['scipy'] = None\n"
        "import importlib.metadata as m; known = m.version\n"
        "def version(name):\n"
        "    if name == 'scipy': raise m.PackageNotFoundError(name)\n"
        "    return known(name)\n"
        "m.version = version\n"
        "import fgrad; text = str(fgrad.coverage())\n"
        "print('## numpy.fft' in text, '## scipy' in text, 'and SciPy' in text)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "True False False\n"
