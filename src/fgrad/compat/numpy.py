"""NumPy: the layout of its arrays in memory, where it keeps `errstate`, its sentinel, and named results."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections import namedtuple
from collections.abc import Callable
from contextvars import copy_context
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fgrad import config
from fgrad.blocks import suppress
from fgrad.compat import self_test

# ---- the layout of arrays and numbers ------------------------------------------------------------------

# words of an array: of its rank and flags the lower half, of a number its value in the place of DATA
TYPE, DATA, RANK, SHAPE, STRIDES, DTYPE, FLAGS = 1, 2, 3, 4, 5, 7, 8
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400  # of `ndarray.flags.num`

_word = ctypes.c_size_t.from_address


@self_test
def layout_is_known() -> bool:
    """Return whether arrays and numbers are laid out as fgrad takes them to be, which examples show.

    They are not where Python is another one than CPython, or free-threaded, or a debug build.
    """
    if (
        sys.implementation.name != "cpython"
        or struct.calcsize("P") != 8
        or "free-threading" in sys.version  # `sysconfig` says so too, and reads files for it
        or hasattr(sys, "gettotalrefcount")
    ):
        return False
    whole = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    examples = (whole, whole[:, ::2], np.array(7), np.zeros((0, 4), bool), whole.view(_Subclass))
    floats, integers = (1.25, np.float64(-2.5)), (np.int64(-7),)
    return (
        all(map(_is_laid_out, examples))
        and all(ctypes.c_double.from_address(id(x) + 8 * DATA).value == x for x in floats)
        and all(ctypes.c_int64.from_address(id(x) + 8 * DATA).value == x for x in integers)
    )


class _Subclass(np.ndarray):
    """Some subclass."""


def _is_laid_out(a: np.ndarray[Any, Any]) -> bool:
    words = (ctypes.c_int64 * 9).from_address(id(a))
    low = ctypes.c_int32 * 18
    halves = low.from_address(id(a))
    rank, flags = halves[2 * RANK], halves[2 * FLAGS]
    known = CONTIGUOUS | ALIGNED | WRITEABLE
    return (
        words[TYPE] == id(type(a))
        and words[DATA] == a.ctypes.data
        and rank == a.ndim
        and tuple((ctypes.c_int64 * rank).from_address(words[SHAPE])) == a.shape
        and tuple((ctypes.c_int64 * rank).from_address(words[STRIDES])) == a.strides
        and words[DTYPE] == id(a.dtype)
        and flags & known == a.flags.num & known
    )


def address(a: np.ndarray[Any, Any]) -> int:
    """Return where the elements of an array begin, in an eighth of the time of `a.ctypes.data`."""
    return _word(id(a) + 8 * DATA).value if layout_is_known() else int(a.ctypes.data)


# ---- floating-point warnings ---------------------------------------------------------------------------


class Ways(NamedTuple):
    """Functions that look at the setting of warnings, switch them off, and go back to what was seen."""

    setting: Callable[[], Any]
    silence: Callable[[], Any]
    restore: Callable[[Any], Any]


@self_test
def errstate_is_found() -> bool:
    """Return whether `numpy.errstate` keeps its setting in one context variable, and nowhere else."""
    ways, before = _by_variable(), np.geterr()
    seen = ways.setting()
    ways.silence()
    try:
        is_silent = set(np.geterr().values()) == {"ignore"}
    finally:
        ways.restore(seen)
    return is_silent and np.geterr() == before


def _by_variable() -> Ways:
    outside = copy_context()
    with np.errstate(all="ignore"):
        inside = copy_context()
    ((var, value),) = [(var, value) for var, value in inside.items() if outside.get(var) is not value]
    return Ways(var.get, partial(var.set, value), var.set)


documented_ways: Ways = Ways(np.geterr, partial(np.seterr, all="ignore"), lambda before: np.seterr(**before))
# what `numpy.errstate` does, at a fifth of its cost where its variable is known
setting: Callable[[], Any]
silence: Callable[[], Any]
restore: Callable[[Any], Any]
setting, silence, restore = _by_variable() if errstate_is_found() else documented_ways


# ---- the OpenBLAS of its wheels ------------------------------------------------------------------------


@cache
def blas_libraries() -> list[ctypes.CDLL]:
    """Return the libraries in NumPy's wheel, which are loaded already: on Linux and Windows, on Macs."""
    from pathlib import Path  # noqa: PLC0415 -- late: few programs that differentiate use files

    package, found = Path(np.__file__).parent, []
    for file in (*package.parent.glob("numpy.libs/*openblas64_*"), *package.glob(".dylibs/*openblas64_*")):
        with suppress(OSError):  # not for this machine
            found.append(ctypes.CDLL(str(file)))
    return found


@self_test
def blas_is_known() -> bool:
    """Return whether a function of these libraries takes 64-bit integers, and gives what it should."""
    dot: Any = _blas_function("cblas_ddot")
    dot.restype, word = ctypes.c_double, ctypes.c_int64
    x = (ctypes.c_double * 3)(1.0, 2.0, 3.0)
    whole, part = dot(word(3), x, word(1), x, word(1)), dot(word(2), x, word(2), x, word(1))
    return bool(whole == 14.0 and part == 7.0)


def _blas_function(name: str) -> Any:
    return next(f for lib in blas_libraries() if (f := getattr(lib, f"scipy_{name}64_", None)) is not None)


@cache
def blas_address(name: str) -> int:
    """Return the address of a function of NumPy's OpenBLAS, 0 if it is not found: then NumPy multiplies."""
    if blas_is_known():
        with suppress(StopIteration):
            return ctypes.cast(_blas_function(name), ctypes.c_void_p).value or 0
    return 0


# ---- the loops of universal functions -------------------------------------------------------------------

# words of a ufunc, whose layout is part of NumPy's interface for C
_FUNCTIONS, _DATA, _COUNT, _NAME, _TYPES = 4, 5, 6, 7, 8


class Loop(NamedTuple):
    """The address of a loop, and of what it is given besides arrays."""

    function: int
    data: int


@cache
def loops_of(ufunc: np.ufunc) -> dict[str, Loop]:
    """Return the loops of a universal function by the characters of its operands and results.

    Of several for the same ones the first is kept, which is what NumPy takes. None are known where NumPy is
    another one than this module knows.
    """
    return _loops_of(ufunc) if loops_are_known() and not ufunc.signature else {}


def _loops_of(ufunc: np.ufunc) -> dict[str, Loop]:
    words = (ctypes.c_size_t * (_TYPES + 1)).from_address(id(ufunc))
    found: dict[str, Loop] = {}
    for i, kinds in enumerate(ufunc.types):
        function, data = (
            _word(words[place] + 8 * i).value if words[place] else 0 for place in (_FUNCTIONS, _DATA)
        )
        if function:
            found.setdefault(kinds.replace("->", ""), Loop(function, data))
    return found


@self_test
def loops_are_known() -> bool:
    """Return whether loops are where fgrad looks for them, which calls of some show."""
    if not layout_is_known():
        return False
    for ufunc in (np.hypot, np.sin, np.modf, np.divmod):
        words = (ctypes.c_size_t * (_TYPES + 1)).from_address(id(ufunc))
        sizes = (ctypes.c_int32 * 6).from_address(id(ufunc))
        kinds = [np.dtype(c).num for kinds in ufunc.types for c in kinds.replace("->", "")]
        if (
            tuple(sizes[4:6]) != (ufunc.nin, ufunc.nout)
            or ctypes.c_int32.from_address(id(ufunc) + 8 * _COUNT).value != ufunc.ntypes
            or ctypes.string_at(words[_NAME]) != ufunc.__name__.encode()
            or list(ctypes.string_at(words[_TYPES], len(kinds))) != kinds
        ):
            return False
    pointer = ctypes.c_void_p
    x, y, out = (np.array(v) for v in ([3.0, 5.0], 4.0, [0.0, 0.0]))
    function, data = _loops_of(np.hypot)["ddd"]
    places = (pointer * 3)(*(a.ctypes.data for a in (x, y, out)))
    count, steps = (ctypes.c_ssize_t * 1)(2), (ctypes.c_ssize_t * 3)(8, 0, 8)
    ctypes.CFUNCTYPE(None, *[pointer] * 4)(function)(places, count, steps, data)
    return bool(out[0] == 5.0 and out[1] == np.hypot(5.0, 4.0))


# ---- the loops of its Fourier transforms --------------------------------------------------------------


def _transform(name: str, char: str) -> Loop:
    """Return the loop of a universal function whose first argument has a dtype."""
    ufunc = getattr(import_module("numpy.fft._pocketfft_umath"), name)
    return next(loop for kinds, loop in _loops_of(ufunc).items() if kinds[0] == char)


@self_test
def transforms_are_known() -> bool:
    """Return whether these loops are where they should be, and transform as NumPy's functions do."""
    return loops_are_known() and all(
        _transforms(name, expected, x, factor)
        for single in (False, True)
        for name, expected, x, factor in _examples(np.complex64 if single else np.complex128)
    )


def _examples(dtype: Any) -> list[tuple[str, Any, Any, float]]:
    x = (np.arange(10.0).reshape(2, 5) ** 2 + 1j * np.arange(10).reshape(2, 5)).astype(dtype)
    real = np.ascontiguousarray(x.real)
    return [
        ("fft", np.fft.fft(x), x, 1.0),
        ("ifft", np.fft.ifft(x), x, 0.2),
        ("rfft_n_odd", np.fft.rfft(real), real, 1.0),
        ("rfft_n_even", np.fft.rfft(real[:, :4]), np.ascontiguousarray(real[:, :4]), 1.0),
        ("irfft", np.fft.irfft(x, 7), x, 1 / 7),
    ]


def _transforms(name: str, expected: Any, x: Any, factor: float) -> bool:
    loop = _transform(name, x.dtype.char)
    out, scale = np.zeros_like(expected), np.array(factor, x.real.dtype)
    places = np.array([a.ctypes.data for a in (x, scale, out)], np.int64)
    sizes = np.array([len(x), x.shape[1], out.shape[1]], np.int64)
    steps = np.array([x.strides[0], 0, out.strides[0], x.itemsize, out.itemsize], np.int64)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(loop.function)
    call(places.ctypes.data, sizes.ctypes.data, steps.ctypes.data, loop.data or None)
    return bool(np.allclose(out, expected, rtol=1e-5))


def transform(name: str, char: str) -> Loop | None:
    """Return the loop of a Fourier transform, "fft" or another of NumPy's ufuncs; None if it is not found."""
    return _transform(name, char) if transforms_are_known() else None


# ---- the loops of its linear algebra --------------------------------------------------------------------


class MatrixLoop(NamedTuple):
    """The loop of a function of stacks of matrices, and the names of the axes of its operands and results."""

    loop: Loop
    axes: tuple[tuple[str, ...], ...]


@self_test
def matrix_loops_are_known() -> bool:
    """Return whether these loops are where they should be, and solve systems and find determinants."""
    if not loops_are_known():
        return False
    a = np.array([[[2.0, 1j], [1.0, 3.0]], [[4.0, 1.0], [1j, 1.0]]])
    b, x, det = np.array([[[1.0], [2.0]], [[1j], [4.0]]]), np.zeros((2, 2, 1), complex), np.zeros(2, complex)
    _looped("solve", [a, b, x], [2, 2, 1], [64, 32, 32, 32, 16, 16, 16, 16, 16])
    _looped("det", [a, det], [2, 2], [64, 16, 32, 16])
    return bool(np.allclose(a @ x, b) and np.allclose(det, [6 - 1j, 4 - 1j]))


def _looped(name: str, arrays: list[Any], sizes: list[int], steps: list[int]) -> None:
    found = _matrix_loop(name, "D" * (len(arrays) - 1))
    places = np.array([a.ctypes.data for a in arrays], np.int64)
    words = [np.array(v, np.int64) for v in (sizes, steps)]
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(found.loop.function)
    call(places.ctypes.data, *(v.ctypes.data for v in words), found.loop.data or None)


def _matrix_loop(name: str, kinds: str) -> MatrixLoop:
    ufunc = getattr(import_module("numpy.linalg._umath_linalg"), name)
    loop = next(loop for found, loop in _loops_of(ufunc).items() if found.startswith(kinds))
    groups = ufunc.signature.replace(" ", "").replace("->", ",")[1:-1].split("),(")
    return MatrixLoop(loop, tuple([tuple(filter(None, g.split(","))) for g in groups]))


@cache
def matrix_loop(name: str, kinds: str) -> MatrixLoop | None:
    """Return the loop of a function of `numpy.linalg` whose first operands have dtypes; None if unknown."""
    if matrix_loops_are_known():
        with suppress(AttributeError, ImportError, StopIteration):
            return _matrix_loop(name, kinds)
    return None


# ---- names that NumPy keeps to itself ------------------------------------------------------------------

NO_VALUE: Any = (config.private() and getattr(np, "_NoValue", None)) or object()  # an argument not given

if TYPE_CHECKING:
    from numpy.linalg import _linalg

    EighResult = _linalg.EighResult
    EigResult = _linalg.EigResult
    QRResult = _linalg.QRResult
    SlogdetResult = _linalg.SlogdetResult
    SVDResult = _linalg.SVDResult
else:

    def _result(name: str, fields: str) -> Any:
        """Return NumPy's class of the results of a function in `linalg`, or one that is like it."""
        found = getattr(getattr(np.linalg, "_linalg", None), name, None)
        if config.private() and getattr(found, "_fields", None) == tuple(fields.split()):
            return found
        return namedtuple(name, fields)  # noqa: PYI024 -- types are above

    EighResult = _result("EighResult", "eigenvalues eigenvectors")
    EigResult = _result("EigResult", "eigenvalues eigenvectors")
    QRResult = _result("QRResult", "Q R")
    SlogdetResult = _result("SlogdetResult", "sign logabsdet")
    SVDResult = _result("SVDResult", "U S Vh")
