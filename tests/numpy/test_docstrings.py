"""What the reference says of each function: shapes, dtypes, derivative, an example; and that it is true."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from tests.helpers import wrong_examples
from tests.numpy.docstrings import lacking, offered

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.numpy.registry import Paired, Ufunc

MODULES = ("fgrad.numpy", "fgrad.numpy.linalg", "fgrad.numpy.fft")
FUNCTIONS = dict(offered(MODULES))
UFUNCS = [f for f in FUNCTIONS.values() if isinstance(f, Ufunc)]


def test_there_are_functions():
    assert len(FUNCTIONS) > 350
    assert len(UFUNCS) > 80


@pytest.mark.parametrize("path", MODULES)
def test_each_function_says_what_it_returns_its_derivative_and_an_example(path):
    assert not lacking(FUNCTIONS, path)


@pytest.mark.parametrize("f", UFUNCS, ids=lambda f: f.__name__)
def test_the_example_of_a_universal_function(f):
    assert not wrong_examples(f.__doc__, f.__name__)


POINTS = [(0.3, 0.7), (0.9, -0.4), (-0.6, 0.25), (0.5, 0.5), (2.5, 1.5), (-3.5, 2.0)]


@pytest.mark.parametrize("f", [f for f in UFUNCS if any(f.slopes)], ids=lambda f: f.__name__)
def test_the_derivative_of_a_universal_function_is_the_formula_it_shows(f):
    space = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")}
    compared = 0
    for x, y in POINTS:
        given = (np.float64(x), np.float64(y))[: f.nin]
        if f is fnp.ldexp:
            given = given[0], 3
        for k, formula in enumerate(f.slopes):
            if formula is None:
                continue
            names = space | dict(zip("xy", given, strict=False))
            with np.errstate(all="ignore"):
                value, expected = f.ufunc(*given), float(eval(formula, {"__builtins__": {}}, names))
                found = float(fg.grad(f, k)(*given))
            if np.isfinite(expected) and np.isfinite(value):
                assert found == pytest.approx(expected, rel=1e-9, abs=1e-12), (given, formula)
                compared += 1
    assert compared >= (1 if f is fnp.arccosh else 2)


def test_conventions_that_formulas_do_not_show():
    assert all("conj(z) / |z|" in f.__doc__ for f in (fnp.absolute,))
    assert fg.grad(fnp.maximum, (0, 1))(1.0, 1.0) == (0.5, 0.5)
    assert fg.grad(fnp.sqrt)(0.0) == np.inf
    with pytest.raises(TypeError):
        fnp.floor(fg.tensor([1j]))
    with pytest.raises(TypeError):
        fnp.gcd(fg.tensor([1.5]), 2)


def test_pairs_say_what_both_results_have():
    assert {f.__name__ for f in UFUNCS if isinstance(f, Paired)} == {"modf", "frexp", "divmod"}
    assert all("Two arrays" in f.__doc__ for f in UFUNCS if isinstance(f, Paired))


def test_each_method_of_a_tensor_says_what_it_does():
    names = {name for name in dir(fg.Tensor) if not name.startswith("_")}
    things = {name: inspect.getattr_static(fg.Tensor, name) for name in names}
    silent = {name for name, thing in things.items() if not getattr(thing, "__doc__", None)}
    assert not silent
    assert {"argsort", "T", "shape", "sum", "to", "grad", "searchsorted"} <= names
