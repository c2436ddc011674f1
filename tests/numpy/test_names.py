"""Every public name of fgrad.numpy has a test, and means what it means in NumPy."""

from __future__ import annotations

import inspect
from operator import attrgetter

import numpy as np
from tests.helpers import grouped
from tests.numpy import (
    test_arrays,
    test_creation,
    test_elementwise,
    test_histograms,
    test_indexing,
    test_interpolation,
    test_linalg,
    test_nanfunctions,
    test_ordering,
    test_polynomials,
    test_products,
    test_reductions,
    test_selection,
    test_sets,
    test_shapes,
    test_statistics,
)

import fgrad.numpy as fnp
from fgrad.core import operators
from fgrad.core.primitive import FUNCTIONS, NUMPY

PUBLIC = sorted(
    [
        name
        for name, value in vars(fnp).items()
        if not name.startswith("_") and callable(value) and not isinstance(value, type)
    ]
    + [f"linalg.{name}" for name in fnp.linalg.__all__ if name != "LinAlgError"]
)
OWN = {"abs2"}  # without a namesake in NumPy
ARGUMENTS = {  # with arguments that NumPy does not look at, so there is nothing to dispatch on
    *("asarray_chkfinite", "bartlett", "blackman", "format_float_positional", "format_float_scientific"),
    *("from_dlpack", "frombuffer", "fromiter", "hamming", "hanning", "indices", "kaiser"),
}
STEPS = {"around", "round"}  # no slope but where the value jumps
ANSWERS = {  # no floats, so no derivative
    *("allclose", "array_equal", "isclose", "iscomplexobj", "result_type", "array2string"),
    *("isposinf", "isneginf", "iscomplex", "isreal", "isrealobj"),
    *("argwhere", "flatnonzero", "nonzero", "searchsorted", "shape", "ndim", "size"),
    *("argpartition", "digitize", "isin", "lexsort", "nanargmax", "nanargmin", "linalg.matrix_rank"),
}
LOOKS = {"linalg.eig"}  # looks at values that are not there in vmap: its derivatives are tested apart
MODULES = (
    test_arrays,
    test_creation,
    test_elementwise,
    test_histograms,
    test_indexing,
    test_interpolation,
    test_linalg,
    test_nanfunctions,
    test_ordering,
    test_polynomials,
    test_products,
    test_reductions,
    test_selection,
    test_sets,
    test_shapes,
    test_statistics,
)


def test_there_are_many_names():
    assert len(PUBLIC) >= 150


def test_every_name_has_a_test():
    assert set(PUBLIC) == set().union(*(m.NAMES for m in MODULES))


def module_of(name):
    return "linalg" if "." in name else "numpy"


def test_every_derivative_is_tested_to_second_order():
    order: dict[str, int] = {}
    for m in MODULES:
        for case in getattr(m, "CASES", ()):
            order[case.name] = max(case.order, order.get(case.name, 0))
    assert {name for name, n in order.items() if n < 2} == STEPS | ANSWERS | LOOKS


@grouped("name", PUBLIC, module_of)
def test_the_namesake_in_numpy_finds_it(name):
    if name in OWN:
        assert not hasattr(np, name)
        return
    theirs, ours = attrgetter(name)(np), attrgetter(name)(fnp)
    if ours is theirs:  # NumPy's own, which looks at shapes, dtypes or types alone
        return
    assert (theirs in NUMPY) == (name not in ARGUMENTS)
    if name not in ARGUMENTS:
        assert NUMPY[theirs] is ours


@grouped("name", PUBLIC, module_of)
def test_every_name_has_a_docstring_of_its_own(name):
    text = inspect.getdoc(attrgetter(name)(fnp))
    assert text
    assert text.endswith(".") or "\n\n" in text


def test_methods_find_their_functions():
    names = {part.split('"')[0] for part in inspect.getsource(operators).split('FUNCTIONS["')[1:]}
    assert names <= set(FUNCTIONS)
