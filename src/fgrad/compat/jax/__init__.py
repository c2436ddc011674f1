"""Answers for JAX, on request: programs of JAX run on fgrad, on the processor and without XLA.

`install()` before they are imported, `with installed():` around their import, or
`python -m fgrad.compat.jax program.py`. Names, signatures, dtypes and random numbers are JAX's; what is
missing raises `NotImplementedError`. `random` is of use by itself: it draws JAX's numbers.

Example:
    >>> import fgrad.compat.jax
    >>> fgrad.compat.jax.install()
    >>> import jax
    >>> import jax.numpy as jnp
    >>> jax.grad(lambda x: jnp.sum(x**2))(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    >>> fgrad.compat.jax.uninstall()
    >>> with fgrad.compat.jax.installed():
    ...     from jax import numpy as jnp
    >>> jnp.ones(2) / 2
    Array([0.5, 0.5], dtype=float32)
"""

from __future__ import annotations

from importlib import import_module

from fgrad.compat.jax import random as random
from fgrad.compat.standins import StandIn

__all__ = ["install", "installed", "random", "uninstall"]

STAND_IN = StandIn("jax", lambda: import_module("fgrad.compat.jax.modules").MODULES)
install, uninstall, installed = STAND_IN.install, STAND_IN.uninstall, STAND_IN.installed
