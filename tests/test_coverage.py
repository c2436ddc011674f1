"""The coverage of NumPy's names says what is so, and docs/coverage.md says what it says."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.__main__ import main
from fgrad.core.primitive import NUMPY
from fgrad.coverage import ASIDE

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
    ],
)
def test_what_is_known_of_a_name(name, expected):
    assert (tuple(entries()[name])[1:] if name in entries() else None) == expected


def test_every_function_with_a_rule_is_listed():
    modules = {"": np, "linalg.": np.linalg, "fft.": np.fft}
    for prefix, module in modules.items():
        for name, f in vars(module).items():
            if not name.startswith("_") and callable(f) and f in NUMPY and name not in ASIDE:
                assert prefix + name in entries(), name
    for name, f in vars(fnp).items():
        if f in NUMPY.values() and hasattr(np, name) and name not in ASIDE:
            assert entries()[name].fgrad, name


def test_what_has_no_derivative_has_no_second_one():
    for e in entries().values():
        if e.derivative not in {"yes", "zero"}:
            assert not e.forward
            assert not e.second


def test_the_page_is_up_to_date():
    release = ".".join(np.__version__.split(".")[:2])
    page = PAGE.read_text()
    if f"with NumPy {release}:" not in page:
        pytest.skip("the page is of another NumPy")
    assert page == f"{fg.coverage()}\n", "run: python -m fgrad coverage > docs/coverage.md"


def test_the_command_line_prints_it(capsys):
    assert main(["coverage"]) == 0
    assert capsys.readouterr().out.startswith("# Coverage\n")
