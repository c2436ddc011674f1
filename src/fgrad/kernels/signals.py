"""Signal checks inside loops of machine code, as CPython makes them between its instructions."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from fgrad import locks

AROUND = "PyEval_SaveThread", "PyEval_RestoreThread"  # let other threads run between them
# addresses of functions of C: seconds, these two, hold the interpreter, run the handlers of signals, let go
FIELDS = ("clock", "save", "restore", "ensure", "check", "release")


@locks.once  # its address is known to tables
def _words() -> np.ndarray[Any, Any]:
    names = (*AROUND, "PyGILState_Ensure", "PyErr_CheckSignals", "PyGILState_Release")
    library: Any = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.pythonapi
    clock = library._time64 if sys.platform == "win32" else library.time
    return np.array([_address(clock), *map(address, names)], np.int64)


def watch() -> int:
    """Return the address of words of `FIELDS`, which stay where they are."""
    return int(_words().ctypes.data)


def address(name: str) -> int:
    """Return the address of a function of CPython's."""
    return _address(getattr(ctypes.pythonapi, name))


def _address(of: Any) -> int:
    return ctypes.cast(of, ctypes.c_void_p).value or 0
