"""What the free names of kernels stand for: what they stood for when Numba compiled them, or an error."""

import linecache
import math
import re

import numba
import numpy as np
import pytest

import fgrad
from fgrad.adjoints import UnsupportedKernelError

CELL = """
@numba.njit
def scaled(x):
    return FACTOR * x * x
"""


def executed(number, text=CELL, **names):
    """Return the names of a cell of a notebook."""
    file = f"<cell {number}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"numba": numba, "np": np, **names}
    exec(compile(text, file, "exec"), names)
    return names


def test_kernels_of_equal_text_name_other_things():
    first = fgrad.differentiate(executed(1, FACTOR=2.0)["scaled"])
    assert fgrad.grad(first)(3.0) == 12
    second = fgrad.differentiate(executed(2, FACTOR=5.0)["scaled"])
    assert second(3.0) == 45
    assert fgrad.grad(second)(3.0) == 30
    assert fgrad.grad(first)(3.0) == 12
    assert fgrad.grad(fgrad.jit(second))(3.0) == 30


def test_ufuncs_of_equal_signature_are_not_mistaken():
    @numba.vectorize
    def square(x, y):
        return x * x * y

    @numba.vectorize
    def cube(x, y):
        return x * x * x + y

    x = np.array([0.5, 2.0])
    for ufunc, slope in ((square, 4 * x), (cube, 3 * x * x)):
        f = fgrad.differentiate(ufunc)
        np.testing.assert_array_equal(fgrad.grad(lambda x, f=f: f(x, 2.0).sum())(x), slope)


def test_closures_of_one_function_are_not_each_other():
    def scaling(factor, inner):
        @numba.njit
        def scaled(x):
            return factor * inner(x)

        return scaled

    @numba.njit
    def square(x):
        return x * x

    f = fgrad.differentiate(scaling(3.0, scaling(5.0, square)))
    assert f(2.0) == 60
    assert fgrad.grad(f)(2.0) == 60


@pytest.mark.parametrize("compiled", ["by a call", "by a derivative"])
def test_a_number_that_changed_since_the_kernel_was_compiled(compiled):
    names = executed(3, FACTOR=2.0)
    f = fgrad.differentiate(names["scaled"])
    f(1.0) if compiled == "by a call" else fgrad.grad(f)(1.0)
    names["FACTOR"] = 7.0
    if compiled == "by a call":
        with pytest.raises(
            UnsupportedKernelError, match=re.escape("FACTOR was 2.0 when Numba compiled scaled")
        ):
            fgrad.grad(f)(1.0)
    else:
        assert (f(1.0), fgrad.grad(f)(1.0)) == (2.0, 4.0)
    with pytest.raises(UnsupportedKernelError, match=r"FACTOR was 2\.0 .* and is 7\.0 now"):
        fgrad.grad(f)(np.float32(1))
    assert f(1.0) == 2.0
    fresh = fgrad.differentiate(numba.njit(names["scaled"].py_func))
    assert (fresh(1.0), fgrad.grad(fresh)(1.0)) == (7.0, 14.0)


def test_a_number_that_changed_before_the_kernel_was_compiled():
    names = executed(4, FACTOR=2.0)
    f = fgrad.differentiate(names["scaled"])
    names["FACTOR"] = 7.0
    assert fgrad.grad(f)(1.0) == 14.0
    assert fgrad.grad(fgrad.jit(f))(1.0) == 14.0
    assert f(1.0) == 7.0


TABLE = """
@numba.njit
def weighted(x):
    return WEIGHTS[0] * x * x
"""


def test_an_array_that_changed():
    names = executed(5, TABLE, WEIGHTS=np.ones(2))
    f = fgrad.differentiate(names["weighted"])
    names["WEIGHTS"][0] = 3
    assert fgrad.grad(f)(1.0) == 6.0
    names["WEIGHTS"][0] = 5
    assert (f(1.0), fgrad.grad(f)(1.0)) == (3.0, 6.0)
    with pytest.raises(
        UnsupportedKernelError, match=r"an array or function that weighted takes from outside"
    ):
        fgrad.grad(f)(np.float32(1))
    names["WEIGHTS"] = np.ones(2)
    with pytest.raises(UnsupportedKernelError, match="WEIGHTS was something else"):
        fgrad.grad(f)(np.float32(1))


CALLS = """
@numba.njit
def inner(x):
    return FACTOR * x

@numba.njit
def outer(x):
    return x * inner(x)
"""


def test_what_a_kernel_calls_has_changed():
    names = executed(6, CALLS, FACTOR=2.0)
    f = fgrad.differentiate(names["outer"])
    f(1.0)
    names["FACTOR"] = 3.0
    with pytest.raises(UnsupportedKernelError, match=r"FACTOR was 2\.0 when Numba compiled inner"):
        fgrad.grad(f)(1.0)
    names["FACTOR"] = 2.0
    names["inner"] = numba.njit(lambda x: x)
    with pytest.raises(UnsupportedKernelError, match="inner was something else when Numba compiled outer"):
        fgrad.grad(f)(1.0)


def test_a_ufunc_whose_constant_changed():
    text = "@numba.vectorize\ndef scaled(x):\n    return FACTOR * x\n"
    names = executed(7, text, FACTOR=2.0)
    names["scaled"](np.ones(2))
    names["FACTOR"] = 3.0
    with pytest.raises(UnsupportedKernelError, match=r"FACTOR was 2\.0 when Numba compiled scaled"):
        fgrad.grad(lambda x: fgrad.differentiate(names["scaled"])(x).sum())(np.ones(2))


def test_a_file_that_changed_since_it_was_imported(tmp_path):
    text = CALLS.replace("FACTOR", "2.0")
    file = tmp_path / "kernels.py"
    file.write_text(text)
    names = {"numba": numba}
    exec(compile(text, str(file), "exec"), names)
    assert fgrad.grad(fgrad.differentiate(names["outer"]))(1.0) == 4.0
    exec(compile(text, str(file), "exec"), names)
    file.write_text(text.replace("2.0", "3.0"))
    linecache.checkcache()
    with pytest.raises(
        UnsupportedKernelError, match=r"kernels\.py:2: inner was imported before its source changed"
    ):
        fgrad.grad(fgrad.differentiate(names["outer"]))(1.0)


def test_sources_are_recognised_wherever_they_stand():
    half = 0.5

    class Kernels:
        @staticmethod
        @fgrad.kernel
        def scaled(x: "float", power: int = 2) -> "float":
            """Return what has a text and an annotation."""
            total: float = 0.0
            for i in range(power):
                total += half * x * (1.0 if i >= 0 else -1.0) * math.cos(0.0)
            return total

    assert fgrad.grad(Kernels.scaled)(1.0) == 1.0
