"""What the reference says of functions of `fgrad.scipy`: shapes, derivatives, examples that hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as theirs
from tests.helpers import wrong_examples
from tests.numpy.docstrings import lacking, offered

import fgrad as fg
from fgrad.numpy.registry import Ufunc
from fgrad.scipy.special import descriptions
from fgrad.scipy.special.primitives import TABLE, constants

MODULES = tuple(f"fgrad.scipy.{name}" for name in ("linalg", "signal", "ndimage", "interpolate", "special"))
FUNCTIONS = dict(offered(MODULES))
UFUNCS = [f for f in FUNCTIONS.values() if isinstance(f, Ufunc)]


def test_there_are_functions():
    assert len(FUNCTIONS) > 260
    assert len(UFUNCS) > 170


@pytest.mark.parametrize("path", MODULES)
def test_each_function_says_what_it_returns_its_derivative_and_an_example(path):
    assert not lacking(FUNCTIONS, path)


@pytest.mark.parametrize("f", UFUNCS, ids=lambda f: f.__name__)
def test_the_example_of_a_universal_function(f):
    assert not wrong_examples(f.__doc__, f.__name__)
    shown = f.__doc__.partition("Example:")[2]
    assert "nan" not in shown
    assert "inf" not in shown


def derivative(f):
    return f.__doc__.partition("Derivative:\n    ")[2].partition("\n")[0]


@pytest.mark.filterwarnings("ignore:non-integer arg n")
@pytest.mark.parametrize("f", [f for f in UFUNCS if f.primitives[0] in TABLE], ids=lambda f: f.__name__)
def test_arguments_without_derivative_are_those_that_are_named(f):
    names = TABLE[f.primitives[0]].arguments.split()
    at = descriptions.point(f.__name__, names)
    known, _, unknown = derivative(f).partition("None is known in ")
    for i, name in enumerate(names):
        first = lambda *xs: (f(*xs)[0] if f.nout > 1 else f(*xs)).real
        if f"`{name}`" in unknown:
            assert f"`{name}`" not in known.partition(":")[0]
            with pytest.raises(TypeError, match=f"in its argument {name} is not known"):
                fg.grad(first, i)(*at[:i], float(at[i]), *at[i + 1 :])
        else:
            assert f"`{name}`" in known or known.startswith("Zero")
            assert np.isfinite(fg.grad(first, i)(*at[:i], float(at[i]), *at[i + 1 :]))


def test_words_are_those_of_functions_that_are_there():
    missing = {name for name in descriptions.WHAT if not hasattr(theirs, name)}
    assert not missing
    assert {f.__name__ for f in UFUNCS} <= {*descriptions.WHAT}
    assert constants("jv") == {0}
