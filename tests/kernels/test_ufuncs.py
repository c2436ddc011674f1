"""Where primitives run in compiled programs: in kernels, by the addresses of libraries, or in Python."""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ops.test_primitives import SAMPLES, Sample

import fgrad as fg
from fgrad import lax
from fgrad.compiler.decompose import decompose
from fgrad.compiler.fuse import Call, fuse
from fgrad.compiler.library import DTYPES, LIBRARY, is_native
from fgrad.compiler.pairs import in_pairs
from fgrad.compiler.written import written
from fgrad.core.control_flow import PLAIN
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation, Program
from fgrad.kernels import native
from fgrad.scipy import linalg
from fgrad.scipy.special.primitives import TABLE

NATIVE, LIBRARIES, PYTHON = "native", "library by address", "Python"


def staged(primitive: str, args: Any, params: Any) -> Any:
    """Return the function of the arrays among some operands, and these."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]

    def f(*xs: Any) -> Any:
        given = iter(xs)
        return bind(primitive, *[next(given) if isinstance(a, np.ndarray) else a for a in args], **params)

    return f, arrays


def places_of(sample: Sample) -> set[str]:
    """Return where a compiled program computes what a primitive does."""
    f, arrays = staged(sample.primitive, sample.args, sample.params)
    return places_in(in_pairs(written(fg.make_graph(f)(*arrays))))


def places_in(program: Program) -> set[str]:
    """Return where the equations of a program are computed, those of its loops among them."""
    plain = decompose(program)
    found: set[str] = set()
    for step in fuse(plain.program, plain.constants)[0]:
        if not isinstance(step, Call):
            found.add(NATIVE)
        elif isinstance(code := step.equation.params.get("code"), PLAIN):
            found |= set().union(*map(places_in, code.inner()))
        else:
            found.add(place_of(step.equation))
    return found


def place_of(e: Equation) -> str:
    if not is_native(e):
        return PYTHON
    by_address = e.name.startswith("lapack.") or e.name not in LIBRARY or e.name == "contract"
    return LIBRARIES if by_address else NATIVE


@functools.cache
def table() -> dict[str, set[str]]:
    """Return for each primitive where it runs, over all samples with elements of dtypes that kernels know."""
    found = defaultdict(set)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in SAMPLES:
            known = all(a.dtype.char in DTYPES for a in sample.args if isinstance(a, np.ndarray))
            if known and all(map(np.size, sample.args)):
                found[sample.primitive] |= places_of(sample)
    return found


def interpreted() -> dict[str, str]:
    """Return which primitives of fgrad's own say that Python computes them, and why."""
    return {name: p.interpreted for name, p in PRIMITIVES.items() if p.interpreted and is_own(name)}


def is_own(name: str) -> bool:
    """Return whether a primitive is none that examples, tests or programs of other libraries declare."""
    return not name.startswith(("__main__.", "tests.", "fgrad.extend.", "fgrad.compat."))


@pytest.mark.skipif(native.interpreted(), reason="no library is called by address where nothing is compiled")
def test_no_primitive_leaves_machine_code_but_those_that_are_listed():
    found = {
        name: PYTHON if PYTHON in places else max(places, default=NATIVE) for name, places in table().items()
    }
    reasons = interpreted()
    missing = {name for name, place in found.items() if place == PYTHON} - reasons.keys()
    assert not missing, f"Python computes {missing}: give them kernels"
    assert len(reasons) <= 15  # which may only become fewer
    assert min(Counter(found.values())[place] for place in (NATIVE, LIBRARIES)) > 100
    # what is in no row of the table is written by compilers, belongs to processes or users, is a loop or a
    # check; test_written.py has the last ones
    own = set(filter(is_own, PRIMITIVES))
    others = {n for n in own - found.keys() if not isinstance(PRIMITIVES[n].stored, str)}
    assert others <= reasons.keys() | {
        "lax.pullback",
        "require",
        "discrete",
        "log_gamma",
        "logit_beta",
        "eig",
        "qr_raw",
    }


def test_the_pages_say_which_primitives_python_computes():
    page = (Path(__file__).parents[2] / "docs" / "design" / "jit.md").read_text()
    rows = re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \|", page, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([\w.]+)`", row)} == interpreted().keys()


def test_the_cost_of_a_program_names_what_python_computes_and_why():
    cost = fg.jit(lambda x: linalg.logm(np.sin(x)) * 2).lower(np.eye(3)).cost()
    why = f"matrix_function: {PRIMITIVES['matrix_function'].interpreted}"
    assert cost.python == (why,)
    assert str(cost).endswith(f"; Python computes {why}")
    assert not fg.jit(lambda x: np.exp(x).sum()).lower(np.ones(3)).cost().python
    looped = (
        fg.jit(lambda x: lax.fori_loop(0, 3, lambda _, y: linalg.sqrtm(y @ y), x)).lower(np.eye(3)).cost()
    )
    assert [line.partition(":")[0] for line in looped.python] == ["lax.scan", "matrix_function"]
    other = fg.jit(lambda x: np.sin(x)).lower(np.ones(3, np.longdouble)).cost().python
    assert other == (f"sin: no kernel knows {np.dtype(np.longdouble).name}",)


POINTS = (0.5, -0.5, 2.0, 0.0, -1.0, np.nan, 1.5, 3.0, -0.0, 30.0, np.inf, -np.inf, -2.5, 1e-8, 5e-324, 700.0)
EXTREMES = (*POINTS, -3.0, 1e5, 1e300, -1e300, 1e-300, 170.7, -170.5, 2.0**53, 1.0, 0.25, 0.999999)
COMPLEX = (0.5 + 0.1j, -0.5 + 2j, 2 - 1j, 0.0, -1 + 0j, -3.5 - 0.0j, complex(np.nan, 1))
COUNTS = {1: len(EXTREMES), 2: 14, 3: 7, 4: 5}  # points for each operand
SPOKEN = {"pbdv_d", "pbdv_dp", "pbvv_v", "pbvv_vp", "bdtr", "bdtrc", "bdtri", "nbdtr", "nbdtrc", "nbdtri"}
UNIVERSAL = [
    n for n in TABLE if PRIMITIVES[n].universal and PRIMITIVES[n].formula is None and n not in SPOKEN
]


def grid(name: str, dtype: str) -> list[np.ndarray[Any, Any]]:
    """Return operands of a primitive: every combination of points; orders that have to be integers are."""
    universal = PRIMITIVES[name].universal
    assert universal is not None
    count = universal.ufunc.nin - len(universal.constants)
    points = EXTREMES[: COUNTS[count]] if count == 1 else POINTS[: COUNTS[count]]
    orders = (
        [p for p in points if np.isfinite(p)] if name.startswith("eval_") else points
    )  # loops to infinity
    with np.errstate(over="ignore"):
        columns = np.array(list(itertools.product(orders, *[points] * (count - 1))), dtype).T
    if name == "lambertw":
        return [columns[0], np.arange(columns[0].size) % 5 - 2]
    if np.dtype(dtype).kind == "c" and count > 1:  # of which the last is complex
        columns = [*np.real(columns[:-1]), columns[-1]]
    if universal.whole:
        columns = [np.nan_to_num(columns[0], nan=3, posinf=20, neginf=1).astype(int), *columns[1:]]
    return [np.array(c) for c in columns]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, t) for n in UNIVERSAL for t in ("f8", "f4", *(("c16", "c8") if TABLE[n].complex else ()))],
)
def test_loops_called_by_address_give_the_bits_of_the_function(name, dtype):
    operands = grid(name, dtype)
    with np.errstate(all="ignore"):
        expected = np.asarray(PRIMITIVES[name].run(*operands))
    made = fg.jit(functools.partial(bind, name))(*operands)
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made.view(np.uint8), expected.view(np.uint8))
