"""Answers for the library autograd, on request: its programs and the libraries on it run on fgrad.

`install()` before they are imported, `with installed():` around their import, or
`python -m fgrad.compat.autograd program.py`. Names, signatures and conventions are autograd's; derivatives
are fgrad's.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from fgrad.compat.standins import Installed, Source, StandIn

__all__ = ["install", "installed", "uninstall"]


def _sources() -> Mapping[str, Source]:
    found: Mapping[str, Source] = import_module("fgrad.compat.autograd.modules").MODULES
    return found


STAND_IN = StandIn("autograd", _sources)


def install() -> None:
    """Let `import autograd` find fgrad, until `uninstall`; the library itself need not be there.

    Raises:
        RuntimeError: the library itself is loaded.

    Example:
        >>> from fgrad.compat import autograd as stand_in
        >>> stand_in.install()
        >>> import autograd
        >>> autograd.grad(lambda x: x**2)(3.0)
        np.float64(6.0)
        >>> stand_in.uninstall()
    """
    STAND_IN.install()


def uninstall() -> None:
    """Take the modules of autograd away again; what programs have imported goes on to work."""
    STAND_IN.uninstall()


def installed() -> Installed:
    """Return the context in which `import autograd` finds fgrad.

    Example:
        >>> from fgrad.compat.autograd import installed
        >>> with installed():
        ...     from autograd import grad
        >>> grad(lambda x: x**3)(2.0)
        np.float64(12.0)
    """
    return Installed(STAND_IN)
