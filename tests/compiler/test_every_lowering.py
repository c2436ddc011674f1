"""What kernels compute of each primitive, and of each pattern of a rewrite rule, is what NumPy computes.

Kernels are run by Python here. Programs are compiled as they are written: nothing simplifies them before.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.compiler.drawing import Drawing, computed, described, differs, search, staged
from tests.compiler.interpreting import kernels_in_python
from tests.compiler.lowering_patterns import LOWERED
from tests.compiler.simplify.patterns import PATTERNS, Pattern

from fgrad.compiler import Executable, decompose
from fgrad.compiler.elements import VIEWS
from fgrad.compiler.fuse import is_fusable
from fgrad.compiler.library import LIBRARY
from fgrad.core import primitive
from fgrad.core.program import Program

SEED = os.environ.get("FGRAD_TEST_SEED", "")  # for other programs than those of the suite
COUNT = int(os.environ.get("FGRAD_TEST_PROGRAMS", "25"))  # around each primitive
WRITTEN_OUT = decompose.RULES | decompose.ON_DEVICE
# `fitted` and `require` are checks, which tests/lax/test_control.py and tests/ops/test_requirements.py
# hold to NumPy's errors; only compilers write `complex.pairs` and `complex.call`, which test_complex.py
# tests, and what LAPACK computes, which kernels that Python runs do not call: test_matrices.py tests it
LOOPS = {name for name, p in primitive.PRIMITIVES.items() if p.reduction or p.integers or p.truths}
PRIMITIVES = {*WRITTEN_OUT, *VIEWS, *LOOPS, *LIBRARY} - {"fitted", "require", "complex.pairs", "complex.call"}
PRIMITIVES -= {"cholesky_or_nan", "qr", "qr_raw", "eigh", "svd", "schur"}
PRIMITIVES = {name for name in PRIMITIVES if not name.startswith("lapack.")}
# the loops of eager mode by address, what calls LAPACK, what only compilers write, one of several orders, and
# recurrences: test_written.py holds them to NumPy and SciPy
PRIMITIVES -= {"conv", "conv_input", "conv_kernel", "max_pool", "window_sum", "window_spread", "recur"}
PRIMITIVES -= {"lu_factor", "solve_banded", "sylvester", "pivot_order", "recursion", "convolve"}
PRIMITIVES -= {"argpartition", "sort.radix", "windows.products", "fourier.transform", "real"}
PRIMITIVES = {name for name in PRIMITIVES if not name.startswith("kernel.")}


@pytest.fixture(scope="module", autouse=True)
def interpreted() -> Iterator[None]:
    """Let Python run the kernels."""
    with kernels_in_python():
        yield


def compiled(program: Program, inputs: list[Any]) -> list[Any]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice")  # NumPy says that too
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        return [np.asarray(y) for y in Executable(program).run([np.array(x) for x in inputs])]


def checked(name: str, pattern: Pattern, met: Counter[str]) -> Any:
    def check(chosen: Any) -> list[int]:
        d = Drawing(chosen, pattern.modes)
        t = staged(d, pattern.draw(d))
        if t is None or t.mode == "huge":  # whose sums overflow in one order, and not in another
            return d.used
        if t.mode != "plain" and name == "shapes.convert":  # what NaN is as an integer depends on the machine
            return d.used
        met.update(e.name for e in t.program.equations if e.name in LIBRARY or is_fusable(e))
        made = compiled(t.program, t.inputs)
        plain = decompose.decompose(t.program, decompose.ON_DEVICE)
        error, there = computed(plain.program, [*t.inputs, *plain.constants.values()])
        for values in (made, there):
            for y, e in zip(values, t.outputs, strict=not error):
                tolerance = max(pattern.ulp, 4.0) * t.size
                if e.dtype.kind in "fc":
                    tolerance *= t.eps / float(np.finfo(e.dtype).eps)
                if error or differs(y, e, tolerance, t.mode, mixed=pattern.mixed, signed=False):
                    lines = ["compiled" if values is made else "written out for a device", described(t)]
                    raise AssertionError("\n".join([*lines, f"is {error or values}", f"not {t.outputs}"]))
        return d.used

    return check


@pytest.mark.parametrize("name", LOWERED)
def test_kernels_of_a_primitive_compute_what_numpy_computes(name, monkeypatch):
    met = Counter[str]()
    for rules in (decompose.RULES, decompose.ON_DEVICE):
        for key, rule in list(rules.items()):
            monkeypatch.setitem(rules, key, counted(rule, key, met))
    search(checked(name, LOWERED[name], met), f"{name} {SEED}", COUNT)
    assert met[name], f"no kernel has computed {name}"


def counted(rule: Any, name: str, met: Counter[str]) -> Any:
    def call(*args: Any, **params: Any) -> Any:
        found = rule(*args, **params)
        met[name] += found is not None
        return found

    return call


@pytest.mark.parametrize("name", PATTERNS)
def test_kernels_of_a_pattern_compute_what_numpy_computes(name):
    search(checked(name, PATTERNS[name], Counter()), f"{name} {SEED}", COUNT)


def test_every_primitive_of_kernels_has_a_pattern():
    """A primitive that is added brings a pattern of its own."""
    assert LOWERED.keys() >= PRIMITIVES
