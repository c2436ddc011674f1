"""How Python calls a compiled program: a C function that checks the arrays and runs the bytecode.

`Context(specs, program, slots).entry(x, y, out)` costs a tenth of a microsecond. No C compiler made the
function, but what makes kernels, after CPython's convention METH_FASTCALL. It reads the fields of arrays
where NumPy keeps them, which is tried on examples first; where that fails (another Python than CPython, a
free-threaded or a debug build) programs run step by step from Python.

An entry returns None when it has run, NotImplemented when an argument is not what the program was compiled
for, and False when its buffers are in use by another thread; in the last two cases nothing has happened.
Arrays that are written to must not overlap with others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import locks
from fgrad.compat import numpy as layout
from fgrad.compat.numpy import ALIGNED, CONTIGUOUS, WRITEABLE, address
from fgrad.kernels import checks, native, signals, stacks, vm

ALIGNMENT = 64  # of scratch buffers, in bytes

# A context is one array of words: these, the specs, the table, the slots, and what the slots are at first.
FIELDS = (
    *("busy", "incref", "done", "wrong", "used", "ndarray", "float", "float64", "int", "int64", "overflow"),
    *(
        "as_integer",
        "save",
        "restore",
        "release",
        "interpreter",
        "count",
        "table",
        "length",
        "slots",
        "initial",
    ),
    *("loops", "raised"),
)
# A spec is: its size in words, which scalars it takes, one of them, dtype, flags, slot, rank, sizes or -1.
_TEXT = (
    f"{', '.join(FIELDS).upper()} = range({len(FIELDS)})"
    f"\nSPECS = {len(FIELDS)}\n"
    f"TYPE, DATA, RANK, SHAPE, DTYPE, FLAGS = "
    f"{layout.TYPE}, {layout.DATA}, {layout.RANK}, {layout.SHAPE}, {layout.DTYPE}, {layout.FLAGS}\n"
    """
NONE, LOW = np.int64(0), np.int64(0xFFFFFFFF)


@helper
def fits(sizes, wanted, rank):
    good = True
    for j in range(rank):
        good = good and (wanted[j] == sizes[j] or wanted[j] < 0)
    return good


def kernel(this, args, count):
    context = int64_from(this[2])
    result = context[DONE]
    if context[BUSY] != 0:
        result = context[USED]
    elif count != context[COUNT]:
        result = context[WRONG]
    else:
        slots = int64_from(context[SLOTS])
        initial = int64_from(context[INITIAL])
        for j in range(context[INITIAL] - context[SLOTS] >> 3):
            slots[j] = initial[j]
        spec = part(context, SPECS)
        k = NONE
        while k < count:
            x = int64_from(args[k])
            kind = x[TYPE]
            place = x[DATA]
            good = False
            if kind == context[NDARRAY]:
                if x[DTYPE] == spec[3] and (x[FLAGS] & spec[4]) == spec[4] and (x[RANK] & LOW) == spec[6]:
                    good = fits(int64_from(x[SHAPE]), part(spec, 7), spec[6])
            else:
                place = address(spec) + 16
                spec[2] = x[DATA]
                if spec[1] == 1:
                    good = kind == context[FLOAT] or kind == context[FLOAT64]
                elif spec[1] == 2 and kind == context[INT]:
                    context[OVERFLOW] = 0
                    spec[2] = invoke(context[AS_INTEGER], args[k], address(context) + 8 * OVERFLOW)
                    good = (context[OVERFLOW] & LOW) == 0
                elif spec[1] == 2:
                    good = kind == context[INT64]
            if not good:
                result = context[WRONG]
                break
            slots[spec[5]] = place
            spec = part(spec, spec[0])
            k += 1
        if result == context[DONE]:
            length = np.uintp(context[LENGTH])
            table = int64_from(context[TABLE])
            context[BUSY] = 1  # handlers of signals are programs too
            if context[RELEASE] != 0:
                thread = invoke(context[SAVE])
                call(context[INTERPRETER], slots, table, np.uintp(0), length)
                invoke(context[RESTORE], thread)
            else:
                call(context[INTERPRETER], slots, table, np.uintp(0), length)
            context[BUSY] = 0
            if context[LOOPS] != 0 and invoke(context[RAISED]) != 0:
                result = NONE
    if result != 0:
        invoke(context[INCREF], result)
    return result
"""
)


KEY: native.Key = (_TEXT, "entry")


def runtime(*, whole: bool) -> list[native.Key]:
    """Return what a program needs besides its own kernels, as of `native.compiled_all`.

    Args:
        whole: whether its table is all of it, so that machine code can begin it.
    """
    if native.interpreted():
        return []
    return [vm.KEY, KEY] if whole and is_available() else [vm.KEY]


def is_available() -> bool:
    """Return whether machine code can take Python's objects; checks of memory are made from Python."""
    return layout.layout_is_known() and not (native.interpreted() or checks.ON)


class Spec(NamedTuple):
    """What an argument of a program has to be, besides contiguous, aligned, and in native byte order."""

    slot: int  # which gets its address
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...] = ()  # None where any size will do
    written: bool = False
    weak: bool = False  # float64 and int64 of shape (): numbers of Python and NumPy are as good


class Context:
    """A program and the buffers of one call at a time.

    Attributes:
        entry: the built-in function that starts it.
    """

    def __init__(
        self,
        specs: Sequence[Spec],
        program: vm.Assembler,
        slots: Sequence[np.ndarray[Any, Any] | slice | stacks.Stack | None],
        *,
        scratch: int = 0,
        release: bool = False,
    ) -> None:
        """Make the buffers and the entry.

        Args:
            specs: of the arguments of the entry, results included.
            program: the table.
            slots: for each an array that all contexts share; or where it lies in the scratch buffer, in
                bytes, the start best a multiple of `ALIGNMENT`; or `stacks.STACK`, of which each context has
                its own; or None if arguments and the table fill it.
            scratch: the size of that buffer in bytes; each context has its own.
            release: let other Python threads run meanwhile; worth it from about ten microseconds on.
        """
        self._given = (tuple(specs), program, tuple(slots), scratch, release)
        self._others: list[Context] = []
        specs = [s._replace(dtype=np.dtype(s.dtype.str)) for s in specs]  # the object that arrays have
        room = checks.Scratch(scratch, ALIGNMENT)
        words = stacks.empty(sum(s is stacks.STACK for s in slots))
        rows = iter(words)
        arrays = [
            next(rows) if isinstance(s, stacks.Stack) else room.memory[s] if isinstance(s, slice) else s
            for s in slots
        ]
        self.entry: Callable[..., Any] = _native_entry(specs, program, arrays, release)
        stacks.free_with(self.entry, words)

    def clone(self) -> Context:
        """Return a context of the same program with buffers of its own."""
        specs, program, slots, scratch, release = self._given
        return Context(specs, program, slots, scratch=scratch, release=release)

    def call(self, *args: Any) -> Any:
        """Return what `entry` does, but never False: where its buffers are in use, others are made."""
        for context in (self, *self._others):
            result = context.entry(*args)
            if result is not False:
                return result
        fresh = self.clone()
        result = fresh.entry(*args)
        self._others.append(fresh)
        return result


class _Words(np.ndarray):
    """The words of a context, and all that their addresses refer to."""

    owned: tuple[Any, ...]


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


def _native_entry(
    specs: list[Spec], program: vm.Assembler, arrays: list[np.ndarray[Any, Any] | None], release: bool
) -> Callable[..., Any]:
    table, interpreter = program.words, vm.interpreter(program)
    encoded = [word for spec in specs for word in _encoded(spec)]
    at = len(FIELDS) + len(encoded)
    words = np.zeros(at + len(table) + 2 * len(arrays), np.int64).view(_Words)
    words.owned = (specs, program, arrays, interpreter)
    start = address(words)
    end = at + len(table)
    words[len(FIELDS) : at] = encoded
    words[at:end] = table
    words[end + len(arrays) :] = [0 if a is None else address(a) for a in arrays]
    values = {
        "incref": signals.address("Py_IncRef"),
        **{name: id(x) for name, x in (("done", None), ("wrong", NotImplemented), ("used", False))},
        **{kind.__name__: id(kind) for kind in (np.ndarray, float, np.float64, int, np.int64)},
        "as_integer": signals.address("PyLong_AsLongLongAndOverflow"),
        "save": signals.address("PyEval_SaveThread"),
        "restore": signals.address("PyEval_RestoreThread"),
        "loops": program.has_loops,
        "raised": signals.address("PyErr_Occurred"),
        "release": release,
        "interpreter": interpreter.address,
        "count": len(specs),
        "table": start + 8 * at,
        "length": len(table),
        "slots": start + 8 * end,
        "initial": start + 8 * (end + len(arrays)),
    }
    for name, value in values.items():
        words[FIELDS.index(name)] = value
    return _built_in(words)


def _encoded(spec: Spec) -> list[int]:
    flags = CONTIGUOUS | ALIGNED | (WRITEABLE if spec.written else 0)
    sizes = [-1 if n is None else n for n in spec.shape]
    return [7 + len(sizes), _scalars(spec), 0, id(spec.dtype), flags, spec.slot, len(sizes), *sizes]


def _scalars(spec: Spec) -> int:
    """Return which numbers that are not arrays an argument may be: none, floats or integers."""
    return {np.dtype(np.float64): 1, np.dtype(np.int64): 2}.get(spec.dtype, 0) if spec.weak else 0


def _built_in(this: Any) -> Callable[..., Any]:
    """Return a built-in function that calls the native one with `this`, which it keeps alive."""
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    make = kind(("PyCFunction_NewEx", ctypes.pythonapi))
    made: Callable[..., Any] = make(ctypes.addressof(_method()[0]), this, None)
    return made


@locks.once
def _method() -> tuple[_Method, native.Kernel]:
    """Return the method that all entries share, and what keeps its code."""
    fastcall = 0x80
    code = native.compiled(*KEY)
    return _Method(b"entry", code.address, fastcall, None), code
