"""Kernels compiled for real GPUs, and CuPy's names looked up: without a GPU and without a driver.

This needs numba-cuda with CUDA's compiler libraries, and CuPy (the extra `codegen`):
`pytest -m codegen tests/cuda/test_codegen.py`.
"""

from __future__ import annotations

import ctypes
import inspect
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tests.cuda.programs import PROGRAMS, V, X, single

import fgrad as fg
from fgrad.backend import library
from fgrad.backend.array import Device
from fgrad.expr.atoms import ATOMS
from fgrad.expr.derive import gradient
from fgrad.expr.node import apply, var

pytestmark = pytest.mark.codegen
CHIPS = {"sm_80": (8, 0), "sm_90": (9, 0)}
MATH = {"sin", "cos", "tan"}  # reduce their arguments in double precision


class Compiler:
    """Compiles the texts of kernels to PTX."""

    def __init__(self, cuda: Any, launching: Any) -> None:
        self.cuda, self.launching = cuda, launching

    def ptx(self, text: str, buffers: tuple[str, ...], numbers: int, chip: str) -> str:
        """Return the PTX of the function `kernel` in a text."""
        cuda = self.cuda
        kinds = self.launching.signature(buffers, numbers)
        made, _ = cuda.compile(
            self.launching.module(text), kinds, cc=CHIPS[chip], device=False, output="ptx", abi="numba"
        )
        assert f".target {chip}" in made
        return made


@pytest.fixture
def compiler(monkeypatch):
    """Stand in for a chip where there is none: only its compute capability is asked for."""
    from numba import cuda
    from numba.cuda import dispatcher

    from fgrad.kernels import launching

    chip = type("Chip", (), {"compute_capability": (8, 0)})
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: chip)
    device = launching.Device(cuda, simulated=False, threads=256, blocks=65536)
    monkeypatch.setattr(launching, "device", lambda: device)
    return Compiler(cuda, launching)


def grids(f, args):
    from fgrad.compiler.device import DeviceExecutable
    from fgrad.compiler.device.statements import dtype_of

    program = fg.jit(f).lower(*args)._procedure.program
    made = DeviceExecutable(program, Device(library.Simulated(), 0))
    for g in made.grids:
        yield g, tuple(dtype_of(b).name for b in g.buffers)


def eager(params, results, dtype, *shapes):
    """Return the kernel of scalar expressions of arrays of these shapes, and what its buffers hold."""
    from fgrad.compiler.device import elementwise as eager
    from fgrad.kernels.body import prepare

    kernel, _ = eager.Elementwise(prepare(params, results)).grid(dtype, shapes)
    return kernel, eager._kinds(kernel)


def doubles(ptx):
    """Return the instructions of double precision."""
    return sorted(set(re.findall(r"\b[a-z]\w*(?:\.\w+)*\.f64\b", ptx)) - {"ld.param.f64"})


@pytest.mark.parametrize(
    ("precision", "chip"), [("float32", "sm_80"), ("float32", "sm_90"), ("float64", "sm_90")]
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(compiler, name, precision, chip):
    f, *args = PROGRAMS[name]
    args = single(args) if precision == "float32" else args
    kinds = set()
    for g, buffers in grids(f, args):
        ptx = compiler.ptx(g.text, buffers, len(g.numbers), chip)
        kinds.add(g.kind)
        if precision == "float32":
            assert not doubles(ptx), g.text
        elif set(buffers) == {"float64"}:
            assert doubles(ptx)
    assert kinds


def test_programs_have_every_kind_of_kernel(compiler):
    found = {g.kind for f, *args in PROGRAMS.values() for g, _ in grids(f, args)}
    assert found == {"flat", "rows", "columns", "blocks", "joined", "places", "sums"}


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_differences_round_both_of_their_sides_and_sums_join_products(compiler, precision):
    dtype, x, y = np.dtype(precision), var("x"), var("y")
    v, short = V.astype(dtype), precision[0] + precision[-2:]
    difference = apply("subtract", apply("multiply", x, x), apply("multiply", y, y))
    polynomial = apply("add", apply("multiply", apply("add", apply("multiply", x, y), x), y), x)
    for f, body, joined in (
        (lambda x, y: x * x - y * y, difference, False),
        (
            lambda x, y: np.sqrt(x**2 - y**2) - 2 * x,
            apply("subtract", difference, apply("multiply", x, y)),
            False,
        ),
        (lambda x, y: (x * y + x) * y + x, polynomial, True),
    ):
        ((g, buffers),) = grids(f, (v, v))
        for kernel, names in ((g, buffers), eager((x, y), (body,), dtype, v.shape, v.shape)):
            ptx = compiler.ptx(kernel.text, names, len(kernel.numbers), "sm_90")
            assert bool(re.search(rf"\bfma\.rn\.{short}", ptx)) == joined, kernel.text
            assert bool(re.search(rf"\b(add|sub)\.rn\.{short}", ptx)) != joined, kernel.text


@pytest.mark.parametrize("name", sorted(ATOMS))
def test_atoms_and_slopes_stay_in_single_precision(compiler, name):
    params = tuple(map(var, ("x", "y", "z")[: ATOMS[name].arity]))
    body = apply(name, *params)
    results = (body, *gradient(body, params))
    for shapes in ((V.shape,) * 3, (X.shape, V.shape, None)):
        kernel, buffers = eager(params, results, np.dtype("f"), *shapes[: len(params)])
        ptx = compiler.ptx(kernel.text, buffers, len(kernel.numbers), "sm_90")
        assert bool(doubles(ptx)) == (name in MATH), kernel.text


def test_launches_take_what_they_are_given(compiler):
    """Numba turns the arguments of a launch into those of the driver without asking a device."""
    from numba.cuda import dispatcher

    kernel = type("Kernel", (), {"extensions": (), "_prepare_args": dispatcher._Kernel._prepare_args})()
    kinds = compiler.launching.signature(("float32", "bool", "int64", "=float32", "=float64"), 2).args
    found: list[Any] = []
    for kind, value in zip(kinds, (2**40, 2**41, 2**42, 0.5, 0.25, 2**33, np.int64(7)), strict=True):
        kernel._prepare_args(kind, value, 0, [], found)
    assert [getattr(x, "value", x) for x in found] == [2**40, 2**41, 2**42, 0.5, 0.25, 2**33, 7]
    assert [ctypes.sizeof(x) for x in found[3:]] == [4, 8, 8, 8]


def test_small_grids_are_no_reason_to_warn(compiler):
    from numba import cuda

    kernel = cuda.jit(lambda x: None)
    with pytest.warns(match="low occupancy"):
        kernel[2, 32]
    compiler.launching.on_grid(kernel, 1, 32)


NEW_NUMPY = """
import numpy as np
from numba import cuda, types
from fgrad.compat.numba import let_cuda_load

def kernel(x):
    x[0] = 1.0

if vars(np).pop("row_stack", None):
    np.__all__.remove("row_stack")
let_cuda_load(lend=True)
assert "row_stack" not in vars(np)
kinds = types.void(types.CPointer(types.float64))
made, _ = cuda.compile(kernel, kinds, cc=(9, 0), device=False, output="ptx", abi="numba")
assert ".entry" in made
"""


def test_numba_compiles_where_numpy_lacks_what_it_asks_for():
    subprocess.run([sys.executable, "-c", NEW_NUMPY], check=True)


@pytest.fixture
def cupy():
    import cupy

    return cupy


@pytest.mark.parametrize("dtypes", [("float32",), ("float64",), ("complex64",), ("complex128",)])
def test_lines(compiler, monkeypatch, dtypes):
    """The kernels that libraries on a device call between products, in every precision."""
    from fgrad.kernels import recurrences

    (name,) = dtypes
    for text, buffers, numbers in (
        (recurrences._ORDER, ("int32", "int32"), 3),
        (recurrences._ADVANCE + recurrences._RECURSION, (name,) * 3, 3),
        (recurrences._ADVANCE + recurrences._CHUNKS, (name,) * 4, 4),
    ):
        ptx = compiler.ptx(text, buffers, numbers, "sm_90")
        if name == "float32":
            assert not doubles(ptx), text


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_matrices(compiler, name):
    from fgrad.kernels import linear_systems

    dtype = np.dtype(name)
    for text, buffers, numbers in (
        (linear_systems.text_of_banded(dtype), (name,) * 3, 5),
        (linear_systems.text_of_ldl(dtype, hermitian=True), (*[name] * 4, "int64"), 3),
        (linear_systems.text_of_ldl(dtype, hermitian=False), (*[name] * 4, "int64"), 3),
    ):
        ptx = compiler.ptx(text, buffers, numbers, "sm_90")
        assert "bar.sync" in ptx
        if name == "float32":
            assert not doubles(ptx), text


def test_cupy_has_every_special_function_for_the_same_numbers(cupy):
    for name, kinds in library.SPECIAL.items():
        found = library._named(f"scipy.special.{name}", cupy, "cupyx.")
        if not isinstance(found, cupy.ufunc):
            assert name == "lambertw"
            continue
        theirs = {t.split("->")[0] for t in found.types}
        real = {n for n in theirs if set(n) <= set("fdli")}
        assert any(set(n) & set("d") for n in real), name
        assert ("c" in kinds) == any(set(n) == {"D"} for n in theirs) or name == "exprel", name


def test_cupy_has_every_function_that_is_called(cupy):
    for name, keywords in library.KEYWORDS.items():
        try:
            found = library._named(name, cupy, "cupyx.")
        except ImportError:  # cuBLAS, which comes with the extra `cuda`
            assert name.startswith("scipy."), name
            continue
        try:
            known = inspect.signature(found).parameters
        except (TypeError, ValueError):
            continue  # compiled ones do not tell
        if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            assert set(keywords) <= set(known), name


def test_cupy_has_every_universal_function_for_the_same_numbers(cupy):
    for name in library.UFUNCS:
        found = getattr(cupy, name)
        if name == "matmul":
            continue
        floats = {t.split("->")[0] for t in found.types}
        for kinds in getattr(np, name).types:
            ins = kinds.split("->")[0]
            if set(ins) <= set("fd") and name != "ldexp":
                assert ins in floats, (name, ins)


def test_cupy_multiplies_into_memory_that_is_there(cupy):
    """A product whose result has to be copied would take memory that is not planned."""
    assert cupy.matmul._supports_out
    assert cupy.matmul._supports_batched
    for name in ("may_share_memory", "ascontiguousarray"):
        assert callable(getattr(cupy, name))
    for name in ("fill", "view", "transpose", "reshape", "copy", "astype"):
        assert callable(getattr(cupy.ndarray, name))
    for name in ("begin_capture", "end_capture", "wait_event", "record", "synchronize"):
        assert callable(getattr(cupy.cuda.Stream, name))
    assert callable(cupy.cuda.Graph.launch)


def test_cupy_adds_up_at_places(cupy):
    assert cupy.add._scatter_op == "add"
    assert cupy.maximum._scatter_op == "max"


def test_cupy_without_a_driver_is_said_to_lack_it(monkeypatch, cupy):
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    library._cupy.cache_clear()
    try:
        with pytest.raises(RuntimeError, match="the driver does not answer"):
            fg.tensor([1.0], device="cuda")
    finally:
        library._cupy.cache_clear()
