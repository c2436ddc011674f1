"""Answers for the library autograd, on request: its programs and the libraries on it run on fgrad.

`install()` before they are imported, `with installed():` around their import, or
`python -m fgrad.compat.autograd program.py`. Names, signatures and conventions are autograd's; derivatives
are fgrad's.

Example:
    >>> import fgrad.compat.autograd
    >>> fgrad.compat.autograd.install()
    >>> import autograd
    >>> autograd.grad(lambda x: x**2)(3.0)
    np.float64(6.0)
    >>> fgrad.compat.autograd.uninstall()
    >>> with fgrad.compat.autograd.installed():
    ...     from autograd import grad
    >>> grad(lambda x: x**3)(2.0)
    np.float64(12.0)
"""

from __future__ import annotations

from importlib import import_module

from fgrad.compat.standins import StandIn

__all__ = ["install", "installed", "uninstall"]

STAND_IN = StandIn("autograd", lambda: import_module("fgrad.compat.autograd.modules").MODULES)
install, uninstall, installed = STAND_IN.install, STAND_IN.uninstall, STAND_IN.installed
