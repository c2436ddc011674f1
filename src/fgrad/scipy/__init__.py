"""SciPy's functions and solvers for Tensors, a module for each of SciPy's.

Functions have SciPy's names and signatures. Modules are loaded when they are first asked for; the extra is
`scipy`.
"""

from importlib import import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING

from fgrad.names import offered as _offered

if TYPE_CHECKING:
    from fgrad.scipy import fft as fft
    from fgrad.scipy import integrate as integrate
    from fgrad.scipy import interpolate as interpolate
    from fgrad.scipy import linalg as linalg
    from fgrad.scipy import ndimage as ndimage
    from fgrad.scipy import optimize as optimize
    from fgrad.scipy import signal as signal
    from fgrad.scipy import sparse as sparse
    from fgrad.scipy import special as special
    from fgrad.scipy import stats as stats

_MODULES = {
    "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "special", "stats"
}  # fmt: skip


try:
    import_module("scipy")
except ImportError as _error:
    raise ImportError(
        "fgrad.scipy needs SciPy, which is not installed; install the extra: pip install 'fgrad[scipy]'"
    ) from _error


def __getattr__(name: str) -> _ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module 'fgrad.scipy' has no attribute {name!r}")
    return import_module(f"fgrad.scipy.{name}")


def __dir__() -> list[str]:
    return _offered(globals(), *_MODULES)
