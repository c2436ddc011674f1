"""Every public name of fgrad.numpy has a test, and means what it means in NumPy."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from tests.numpy import (
    test_arrays,
    test_elementwise,
    test_indexing,
    test_products,
    test_reductions,
    test_shapes,
)

import fgrad.numpy as fnp
from fgrad.core.primitive import FUNCTIONS, NUMPY

PUBLIC = sorted(
    name
    for name, value in vars(fnp).items()
    if not name.startswith("_") and callable(value) and not isinstance(value, type)
)
OWN = {"logsumexp", "abs2"}  # without a namesake in NumPy
MAKES = {"zeros", "ones", "empty", "full", "arange", "eye", "identity", "tri"}  # nothing to dispatch on
MODULES = (test_arrays, test_elementwise, test_indexing, test_products, test_reductions, test_shapes)


def test_there_are_many_names():
    assert len(PUBLIC) >= 150


def test_every_name_has_a_test():
    assert set(PUBLIC) == set().union(*(m.NAMES for m in MODULES))


@pytest.mark.parametrize("name", PUBLIC)
def test_the_namesake_in_numpy_finds_it(name):
    if name in OWN:
        assert not hasattr(np, name)
        return
    theirs = np.linalg.norm if name == "norm" else getattr(np, name)
    assert (theirs in NUMPY) == (name not in MAKES)
    if name not in MAKES and getattr(fnp, name).__name__ != "real_if_close":
        assert NUMPY[theirs] is getattr(fnp, name) or NUMPY[theirs] in vars(fnp).values()


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_has_a_docstring_of_its_own(name):
    text = inspect.getdoc(getattr(fnp, name))
    assert text
    assert text.endswith(".") or "\n\n" in text


def test_methods_find_their_functions():
    source = inspect.getsource(inspect.getmodule(fnp.sum.__globals__["Tensor"].__mro__[1]))
    names = {part.split('"')[0] for part in source.split('FUNCTIONS["')[1:]}
    assert names <= set(FUNCTIONS)
