"""Kernels of special functions: compiled for GPUs, and by a compiler of the CPU, where SciPy has to agree."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.points import arguments

from fgrad.backend.special import SOURCES, include, options, text

pytestmark = pytest.mark.codegen
special = pytest.importorskip("scipy.special")
CHIPS = ("80", "90")
COMPILER = shutil.which("c++")


def ufunc_of(name):
    """Return SciPy's universal function; some have another one of Python before them."""
    found = getattr(special, name)
    return found if isinstance(found, np.ufunc) else getattr(special._ufuncs, f"_{name}")


LOOPS = [f"{name} {loop}" for name in SOURCES for loop in ufunc_of(name).types]
HEADERS = sorted({header for header, _ in SOURCES.values()})


@pytest.fixture(scope="module")
def headers():
    import cupy

    return Path(cupy.__file__).parent / "_core" / "include" / "cupy" / "xsf"


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("header", HEADERS)
def test_kernels_are_compiled(headers, header, chip):
    """NVRTC takes them with the options that CuPy gives."""
    from cupy._core import core
    from cupy.cuda import compiler

    asked = [loop for loop in LOOPS if SOURCES[loop.split()[0]][0] == header]
    asked = asked if chip == CHIPS[-1] else asked[:1]
    source = text({f"k{i}": loop for i, loop in enumerate(asked)}, headers)
    given = ("--device-as-default-execution-space", "-ftz=true", f"-arch=compute_{chip}")
    given = core.assemble_cupy_compiler_options((*options(), *given))
    ptx, _ = compiler._NVRTCProgram(source, "kernels.cu", (), (), method="ptx").compile(given, None)
    for i in range(len(asked)):
        assert f".entry k{i}(".encode() in ptx


@pytest.fixture(scope="module")
def compiled(headers, tmp_path_factory):
    """Return the kernels as functions of this machine."""
    if COMPILER is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("kernels")
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    source.write_text(text({f"k{i}": loop for i, loop in enumerate(LOOPS)}, headers))
    command = [
        COMPILER,
        "-std=c++17",
        "-O1",
        "-w",
        "-shared",
        "-fPIC",
        f"-I{include()}",
        f"-I{headers.parent.parent}",
    ]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


TOLERANCES = {"f": 2e-7, "F": 2e-7, "d": 1e-9, "D": 1e-9}
ROUGH = {
    "chndtr": (1e-9, 1e-14),
    "chndtrix": (1e-8, 1e-14),
}  # SciPy's own are, in the last and in small digits


def reference(loop):
    """Return arguments for a loop, and what SciPy computes of them, with doubles as kernels do."""
    name, kinds = loop.split()
    ins, outs = kinds.split("->")
    given = arguments(name, ins)
    if name == "chndtrinc":
        given[2] = np.asarray(given[2] * special.chdtr(given[1], given[0]), ins[0])  # what is possible
    with np.errstate(all="ignore"):
        made = ufunc_of(name)(*given, signature=kinds.replace("f", "d").replace("F", "D"))
        made = made if len(outs) > 1 else (made,)
        return given, [y.astype(kind) for y, kind in zip(made, outs, strict=True)]


@pytest.mark.parametrize("loop", LOOPS)
def test_kernels_agree_with_scipy(compiled, loop):
    given, expected = reference(loop)
    found = [np.empty_like(e) for e in expected]
    operands = [x for a in given for x in (ctypes.c_void_p(a.ctypes.data), ctypes.c_longlong(1))]
    results = [ctypes.c_void_p(y.ctypes.data) for y in found]
    getattr(compiled, f"k{LOOPS.index(loop)}")(*operands, *results, ctypes.c_longlong(given[0].size))
    for y, e in zip(found, expected, strict=True):
        compare(loop.split()[0], y, e, given)


def compare(name, found, expected, given):
    tol, floor = ROUGH.get(name, (0.0, 0.0))
    tol = max(tol, TOLERANCES[found.dtype.char])
    floor += 2 * float(np.finfo(found.dtype).tiny)
    for part in ("real", "imag")[: 1 + np.iscomplexobj(found)]:
        x, y = getattr(found, part).astype(float), getattr(expected, part).astype(float)
        with np.errstate(invalid="ignore"):
            off = np.absolute(x - y) / (tol * np.absolute(expected) + floor)
            off = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, off)
        worst = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
        assert off[worst] <= 1, (part, x[worst], y[worst], [a[worst] for a in given])
