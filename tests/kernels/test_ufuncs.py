"""Where primitives run in compiled programs: in kernels, by the addresses of libraries, or in Python."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from tests.ops.test_primitives import SAMPLES, Sample

import fgrad as fg
from fgrad.compiler.decompose import decompose
from fgrad.compiler.fuse import Call, fuse
from fgrad.compiler.library import LIBRARY, is_native
from fgrad.compiler.pairs import in_pairs
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation
from fgrad.core.tensor import bind
from fgrad.kernels import native
from fgrad.scipy.special.primitives import TABLE

NATIVE, LIBRARIES, PYTHON = "native", "library by address", "Python"
ITERATIONS = "an iteration of NumPy's calls over whole arrays, as eager mode runs it"
FACTORS = "LAPACK's or SciPy's routine"
REASONS = {  # of primitives that leave machine code for some operands: the list may only become shorter
    **dict.fromkeys(
        ("broadcast_to", "cumprod", "cumsum", "gather", "imag", "real", "scatter_add", "slice", "where"),
        "views of nothing, single elements by lists, and narrow integers",
    ),
    **dict.fromkeys(("to_device", "staged_to_device", "to_device_of"), "a copy between devices"),
    **dict.fromkeys(
        [
            "second_minors",
            "minors",
            "eigh",
            "solve",
            "qr",
            "pinv",
            "svd",
            "sylvester",
            "riccati",
            "polar",
            "ldl",
            "solve_banded",
            "lu_factor",
            "pivot_order",
            "roots",
            "simple_roots",
        ],
        FACTORS,
    ),
    **dict.fromkeys(
        [
            "matrix_function",
            "frechet",
            "log_frechet",
            "regular",
            "regularized",
            "recursion",
            "spline_filter",
            "log_gamma_ratio",
            "logit_beta_ratio",
            "normal_between",
            "carlson",
            "elliptic_moment",
            "polygamma",
            "spherical",
            "modified",
            "recur",
        ],
        ITERATIONS,
    ),
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft"), "NumPy's transform"),
    **dict.fromkeys(("convolve", "conv", "max_pool", "window_sum", "window_spread"), "what eager mode calls"),
    **dict.fromkeys(("argsort", "argpartition", "rank", "search"), "NumPy's sort and search"),
    **dict.fromkeys(("put", "winners", "representative"), "the last of several writes counts"),
    **dict.fromkeys(("threefry", "draw"), "a sampler"),
    **dict.fromkeys(
        (
            "pbdv_d",
            "pbdv_dp",
            "pbvv_v",
            "pbvv_vp",
            "bdtr",
            "bdtrc",
            "bdtri",
            "nbdtr",
            "nbdtrc",
            "nbdtri",
            "pdtri",
            "expn",
            "yn",
            "kn",
        ),
        "SciPy warns or raises, whatever errstate says",
    ),
    "power": "integers raise where an exponent is negative",
    "accumulate": "NumPy's running ufunc",
    "ive_signed": "a product with SciPy's function",
    **dict.fromkeys(
        ("spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"), "reflections of negative arguments"
    ),
}


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
    plain = decompose(in_pairs(fg.make_graph(f)(*arrays)))
    steps, _ = fuse(plain.program, plain.constants)
    return {place_of(s.equation) if isinstance(s, Call) else NATIVE for s in steps}


def place_of(e: Equation) -> str:
    if not is_native(e):
        return PYTHON
    return NATIVE if e.name in LIBRARY and e.name != "contract" else LIBRARIES


@functools.cache
def table() -> dict[str, set[str]]:
    """Return for each primitive where it runs, over all samples with elements."""
    found = defaultdict(set)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in SAMPLES:
            if all(np.size(a) and np.asarray(a).dtype.kind != "c" for a in sample.args):
                found[sample.primitive] |= places_of(sample)
    return found


@pytest.mark.skipif(native.interpreted(), reason="no library is called by address where nothing is compiled")
def test_no_primitive_leaves_machine_code_but_those_that_are_listed():
    missing = {name for name, places in table().items() if PYTHON in places} - REASONS.keys()
    assert not missing, f"Python computes {missing}: give them kernels"
    assert not REASONS.keys() - PRIMITIVES.keys()


POINTS = (0.5, -0.5, 2.0, 0.0, -1.0, np.nan, 1.5, 3.0, -0.0, 30.0, np.inf, -np.inf, -2.5, 1e-8, 5e-324, 700.0)
EXTREMES = (*POINTS, -3.0, 1e5, 1e300, -1e300, 1e-300, 170.7, -170.5, 2.0**53, 1.0, 0.25, 0.999999)
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
    if universal.whole:
        columns = [np.nan_to_num(columns[0], nan=3, posinf=20, neginf=1).astype(int), *columns[1:]]
    return [np.array(c) for c in columns]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", UNIVERSAL)
def test_loops_called_by_address_give_the_bits_of_the_function(name, dtype):
    operands = grid(name, dtype)
    with np.errstate(all="ignore"):
        expected = np.asarray(PRIMITIVES[name].run(*operands))
    made = fg.jit(functools.partial(bind, name))(*operands)
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made.view(np.uint8), expected.view(np.uint8))
