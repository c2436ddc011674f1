"""SciPy: ufuncs behind functions, the class of the results of `solve_ivp`, how sparse matrices multiply."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np

from fgrad import config
from fgrad.compat import self_test


def owner(ufunc: Any) -> str:
    """Return "scipy.special" for a ufunc of this module, also for one behind a function of it, else ""."""
    name = getattr(ufunc, "__name__", "")
    for module in ("scipy.special", "scipy.special._ufuncs"):
        if getattr(sys.modules.get(module), name, None) is ufunc:
            return "scipy.special"
    return ""


@self_test
def hidden_ufuncs_are_found() -> bool:
    """Return whether the ufuncs behind functions of Python are where fgrad looks for them."""
    from scipy import special  # noqa: PLC0415 -- late: SciPy is optional

    found = special._ufuncs._zeta
    return isinstance(found, np.ufunc) and abs(found(2.0, 1.0) - np.pi**2 / 6) < 1e-12


def hidden_ufunc(name: str) -> Any:
    """Return the ufunc behind the function of `scipy.special` called `name`.

    Raises:
        NotImplementedError: it is not found.
    """
    from scipy import special  # noqa: PLC0415 -- late, as above

    found = getattr(special._ufuncs, f"_{name}", None) if hidden_ufuncs_are_found() else None
    if not isinstance(found, np.ufunc):
        raise NotImplementedError(
            f"scipy.special.{name} of this version of SciPy has no ufunc that fgrad knows, which is needed "
            "here; use an older one"
        )
    return found


def ode_result() -> Any:
    """Return the class of what `scipy.integrate.solve_ivp` returns, or the public one that it extends."""
    from scipy import integrate, optimize  # noqa: PLC0415 -- late, as above

    found = getattr(getattr(getattr(integrate, "_ivp", None), "ivp", None), "OdeResult", None)
    return found if config.private() and found is not None else optimize.OptimizeResult


@self_test
def root_finders_look_for_nan() -> bool:
    """Return whether `brentq` and its kind look at what a function returns before their C code takes it."""
    from scipy import optimize  # noqa: PLC0415 -- late, as above

    found = []

    class Noting:
        def __array_ufunc__(self, *_: Any, **__: Any) -> bool:
            found.append(_finds_roots(sys._getframe(1)))
            raise LookupError

    for name in ("brentq", "brenth", "bisect", "ridder"):
        try:
            getattr(optimize, name)(lambda x: Noting(), 0.0, 1.0)
        except LookupError:
            continue
        return False
    return found == [True] * 4


def finds_roots(frame: FrameType) -> bool:
    """Return whether a frame hands results of a function to C code that does not mind errors of `float`."""
    return _finds_roots(frame) and root_finders_look_for_nan()


def _finds_roots(frame: FrameType) -> bool:
    return frame.f_code.co_name == "f_raise" and frame.f_globals.get("__name__") == "scipy.optimize._zeros_py"


@self_test
def products_ask_for_operators() -> bool:
    """Return whether a sparse matrix leaves a product to an operand that answers as Tensors do."""
    from scipy import sparse  # noqa: PLC0415 -- late, as above

    class Operand:
        shape, dtype = (1,), np.dtype(float)

        def __array__(self, *_: Any, **__: Any) -> Any:
            return np.array(None) if _asks(sys._getframe(1)) else np.ones(1)

        def __rmatmul__(self, other: Any) -> str:
            return "own"

    return all(made(np.ones((1, 1))) @ Operand() == "own" for made in (sparse.csr_array, sparse.csr_matrix))


def asks_for_operators(frame: FrameType) -> bool:
    """Return whether a sparse matrix asks whether its other operand has an operator of its own.

    It makes an array of the operand, and one that holds an object says yes. Where that is not so, the operand
    becomes an array, which Tensors that are differentiated refuse.
    """
    return _asks(frame) and products_ask_for_operators()


def _asks(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return frame.f_code.co_name == "_matmul_dispatch" and module.startswith("scipy.sparse")
