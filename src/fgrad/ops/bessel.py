"""Bessel functions divided by the power of x with which they begin at zero: entire, and closed under slopes.

    spherical, n:  j_n(x) / x**n,  slope  -x j_(n+1)(x) / x**(n+1);  n = 0 is sin(x) / x
    modified, n:   I_n(x) / x**n,  slope   x I_(n+1)(x) / x**(n+1);  n = 0 is I_0(x)

So derivatives of every order are exact also at zero and near it, where the usual quotients cancel.

Source:
    Abramowitz & Stegun (1964), Handbook of Mathematical Functions, 9.6.10, 9.6.28, 9.7.1, 10.1.2, 10.1.19.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.primitive import ITSELF, Rule, Written, by_argument, declare
from fgrad.core.stored import NUMBERS, REAL, Stored, up_to
from fgrad.ops.compiled import looks

_FAR = 30.0  # from here on the asymptotic series of I_n is exact to rounding


def _run_spherical(x: Any, *, n: int) -> Any:
    if n == 0:
        tiny = np.finfo(x.dtype).eps
        none = x == 0 if x.dtype.kind == "f" else np.absolute(x) < tiny  # no quotient of subnormal numbers
        safe = np.where(none, tiny, x)
        return np.sin(safe) / safe
    small = np.absolute(x) < n + 1
    safe = np.where(small, x.dtype.type(n + 1), x)
    before, here = np.cos(safe), np.sin(safe) / safe
    for k in range(n):  # upwards, which is stable from |x| = n on
        before, here = here, ((2 * k + 1) * here - before) / safe / safe
    some = not looks(x) or small.any()
    return np.where(small, _series(-x * x / 2, n, 20 + 3 * n) if some else here, here)


def _series(t: Any, n: int, terms: int) -> Any:
    """Return sum_k t**k / (k! (2 n + 2 k + 1)!!)."""
    y = np.ones_like(t)
    for k in range(terms, 0, -1):
        y = 1 + y * t / (k * (2 * n + 2 * k + 1))
    for k in range(1, n + 1):
        y = y / (2 * k + 1)
    return y


def _run_modified(x: Any, *, n: int) -> Any:
    if n == 0:
        return np.i0(x)
    size = np.absolute(x)
    near = size < _FAR
    if looks(x) and near.all():
        return _modified_near(size, n)
    far = _modified_far(np.maximum(size, x.dtype.type(_FAR)), n)
    if looks(x) and not near.any():
        return far
    return np.where(near, _modified_near(np.minimum(size, x.dtype.type(_FAR)), n), far)


def _series_of_modified(x: Any, *, n: int) -> Any:
    """Return the same by series also for n = 0, choosing element by element."""
    size = np.absolute(x)
    near = size < _FAR
    far = _modified_far(np.where(near, x.dtype.type(_FAR), size), n)
    return np.where(near, _modified_near(np.where(near, size, x.dtype.type(0)), n), far)


def _modified_near(x: Any, n: int) -> Any:
    """Return sum_k (x**2 / 4)**k / (k! (n + k)!) / 2**n; every term is positive."""
    t, y = x * x / 4, np.ones_like(x)
    for k in range(75, 0, -1):
        y = 1 + y * t / (k * (n + k))
    for k in range(1, n + 1):
        y = y / (2 * k)
    return y


def _modified_far(x: Any, n: int) -> Any:
    y = np.ones_like(x)
    for k in range(25, 0, -1):
        y = 1 - y * ((4 * n * n - (2 * k - 1) ** 2) / (8 * k)) / x
    y = y * np.exp(x) / np.sqrt(2 * np.pi * x)
    for _ in range(n):
        y = y / x
    return y


def _declare(name: str, run: Rule, written: Rule, sign: int, *, real: bool, dtypes: str) -> None:
    declare(
        name,
        run=run,
        vjp=by_argument(
            lambda ct, x, *, n: ct * (sign * x * bind(name, x, n=n + 1)), exact=True, transpose=ITSELF
        ),
        shape=lambda x, *, n: Aval(x.shape, x.dtype),
        batch=lambda _, x, *, n: bind(name, x, n=n),
        real=real,
        written=Written(written),
        stored=Stored({"n": up_to(100)}, dtypes=dtypes),
    )


_declare("spherical", _run_spherical, _run_spherical, -1, real=False, dtypes=NUMBERS)
_declare("modified", _run_modified, _series_of_modified, 1, real=True, dtypes=REAL)
