"""Answers for JAX, on request: programs of JAX run on fgrad, on the processor and without XLA.

`install()` before they are imported, `with installed():` around their import, or
`python -m fgrad.compat.jax program.py`. Names, signatures, dtypes and random numbers are JAX's; what is
missing raises `NotImplementedError`. `random` is of use by itself: it draws JAX's numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from fgrad.compat.jax import random as random
from fgrad.compat.standins import Installed, Source, StandIn

__all__ = ["install", "installed", "random", "uninstall"]


def _sources() -> Mapping[str, Source]:
    found: Mapping[str, Source] = import_module("fgrad.compat.jax.modules").MODULES
    return found


STAND_IN = StandIn("jax", _sources)


def install() -> None:
    """Let `import jax` find fgrad, until `uninstall`; the library itself need not be there.

    Raises:
        RuntimeError: the library itself is loaded.

    Example:
        >>> from fgrad.compat import jax as stand_in
        >>> stand_in.install()
        >>> import jax
        >>> import jax.numpy as jnp
        >>> jax.grad(lambda x: jnp.sum(x**2))(jnp.arange(3.0))
        Array([0., 2., 4.], dtype=float32)
        >>> stand_in.uninstall()
    """
    STAND_IN.install()


def uninstall() -> None:
    """Take the modules of JAX away again; what programs have imported goes on to work."""
    STAND_IN.uninstall()


def installed() -> Installed:
    """Return the context in which `import jax` finds fgrad.

    Example:
        >>> from fgrad.compat.jax import installed
        >>> with installed():
        ...     from jax import numpy as jnp
        >>> jnp.ones(2) / 2
        Array([0.5, 0.5], dtype=float32)
    """
    return Installed(STAND_IN)
