"""What the reference says of each function of SciPy's: shapes, derivative, an example; and that it is true."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy.docstrings import mistakes, offered, what_examples_say

import fgrad as fg
from fgrad.numpy.registry import Ufunc
from fgrad.scipy import special
from fgrad.scipy.special.descriptions import WHAT

MODULES = tuple(f"fgrad.scipy.{name}" for name in ("linalg", "signal", "ndimage", "interpolate", "special"))
FUNCTIONS = dict(offered(MODULES))
UFUNCS = {f.__name__: f for f in FUNCTIONS.values() if isinstance(f, Ufunc)}


def test_there_are_functions():
    assert len(FUNCTIONS) > 250
    assert len(UFUNCS) > 170


@pytest.mark.parametrize("path", MODULES)
def test_each_function_says_what_it_returns_its_derivative_and_an_example(path):
    named = {name: thing for name, thing in FUNCTIONS.items() if name.rpartition(".")[0] == path}
    assert named
    assert not {name: wrong for name, thing in named.items() if (wrong := mistakes(thing))}
