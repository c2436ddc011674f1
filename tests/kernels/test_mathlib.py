import math
import re

import numpy as np
import pytest
from tests.kernels.samples import EXACT, differences, operands

from fgrad.expr.atoms import ATOMS
from fgrad.kernels import mathlib

HELPERS = sorted(n for n in ATOMS if callable(getattr(mathlib, n, None)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", HELPERS)
def test_python_computes_what_numpy_computes(name, dtype, monkeypatch):
    monkeypatch.setattr(mathlib, "math", mathlib.interpreted)
    for constant, value in mathlib.constants(np.dtype(dtype)).items():
        monkeypatch.setattr(mathlib, constant, dtype(value))
    arrays = operands(ATOMS[name].arity, dtype)
    with np.errstate(all="ignore"):
        values = [getattr(mathlib, name)(*row) for row in zip(*arrays, strict=True)]
        expected = np.asarray(ATOMS[name].reference(*arrays))
    assert {type(v) for v in values} <= {dtype, bool, np.bool_}, "float32 must stay float32"
    wrong = differences(name, np.array(values), expected, arrays)
    assert not wrong, "\n".join(wrong)


def test_all_that_the_code_of_atoms_calls_exists():
    for name, atom in ATOMS.items():
        for module, function in re.findall(r"(math\.)?\b(\w+)\(", atom.code):
            if module:
                assert hasattr(math, function), name
                assert callable(getattr(mathlib.interpreted, function)), name
            else:
                assert function == "abs" or function in vars(mathlib), name


def test_functions_called_by_name_only_when_they_are_helpers():
    assert len(HELPERS) > 20
    rounded = {"power", "cbrt", "exp2", "logaddexp", "logaddexp2", "degrees", "radians"}
    assert set(HELPERS) - EXACT == rounded | {"sigmoid", "softplus"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_is_the_first_number_whose_neighbours_are_integers(dtype):
    bound = dtype(mathlib.constants(np.dtype(dtype))["ROUND"])
    assert np.nextafter(bound, dtype(np.inf)) == bound + 1
    assert np.nextafter(bound, dtype(0)) == bound - dtype(0.5)


def test_module_constants_are_those_of_float64():
    for name, value in mathlib.constants(np.dtype("d")).items():
        assert getattr(mathlib, name) == value
