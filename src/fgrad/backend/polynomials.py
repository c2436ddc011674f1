"""SciPy's orthogonal polynomials, which CuPy lacks, by their recurrences, for whole degrees."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from fgrad.backend.array import ANALYTIC, COMPOSED, DeviceArray, Place

Formula = Callable[..., Any]


def _degree(place: Place, name: str, n: Any) -> int:
    """Return the largest degree.

    Raises:
        NotImplementedError: one is no whole number, or negative.
    """
    if n.__class__ is DeviceArray and not n.size:
        return 0
    if np.any((np.rint(n) != n) | (n < 0)):
        raise place.refusal(f"scipy.special.{name} of degrees other than 0, 1, 2, ...")
    return int(np.max(n))


def _recurrence(name: str, first: Formula, step: Formula) -> Formula:
    """Return the polynomials of which that of degree 0 is one.

    Args:
        name: SciPy's.
        first: (*parameters, x) -> that of degree 1.
        step: (k, before, now, *parameters, x) -> that of degree k + 1, by those of k - 1 and k.
    """

    def compute(place: Place, n: Any, *args: Any) -> Any:
        top = _degree(place, name, n)
        before, now = 1.0, first(*args)
        found = np.where(n < 1, 1.0, now)
        for k in range(1, top):
            before, now = now, step(k, before, now, *args)
            found = np.where(n > k, now, found)
        return found

    return compute


def _jacobi_step(k: int, before: Any, now: Any, a: Any, b: Any, x: Any) -> Any:
    n, s = k + 1, 2 * k + 2 + a + b
    top = (s - 1) * (s * (s - 2) * x + a * a - b * b) * now
    return (top - 2 * (n + a - 1) * (n + b - 1) * s * before) / (2 * n * (n + a + b) * (s - 2))


def _shifted(f: Formula) -> Formula:
    return lambda place, n, x: f(place, n, 2 * x - 1)


def _sh_jacobi(place: Place, n: Any, p: Any, q: Any, x: Any) -> Any:
    binom = import_module("scipy.special").binom
    return _jacobi(place, n, p - q, q - 1, 2 * x - 1) / binom(2 * n + p - 1, n)


# fmt: off
# Digital Library of Mathematical Functions, tables 18.7 and 18.9.1
_chebyt = _recurrence("eval_chebyt", lambda x: x, lambda k, p, q, x: 2 * x * q - p)
_chebyu = _recurrence("eval_chebyu", lambda x: 2 * x, lambda k, p, q, x: 2 * x * q - p)
_legendre = _recurrence("eval_legendre", lambda x: x,
                        lambda k, p, q, x: ((2 * k + 1) * x * q - k * p) / (k + 1))
_jacobi = _recurrence("eval_jacobi", lambda a, b, x: a + 1 + (a + b + 2) * (x - 1) / 2, _jacobi_step)
_laguerre = _recurrence("eval_genlaguerre", lambda a, x: 1 + a - x,
                        lambda k, p, q, a, x: ((2 * k + 1 + a - x) * q - (k + a) * p) / (k + 1))

_POLYNOMIALS: dict[str, Formula] = {
    "chebyt": _chebyt,
    "chebyu": _chebyu,
    "chebyc": lambda place, n, x: 2 * _chebyt(place, n, x / 2),
    "chebys": lambda place, n, x: _chebyu(place, n, x / 2),
    "sh_chebyt": _shifted(_chebyt),
    "sh_chebyu": _shifted(_chebyu),
    "legendre": _legendre,
    "sh_legendre": _shifted(_legendre),
    "gegenbauer": _recurrence("eval_gegenbauer", lambda a, x: 2 * a * x,
                              lambda k, p, q, a, x: (2 * (k + a) * x * q - (k + 2 * a - 1) * p) / (k + 1)),
    "jacobi": _jacobi,
    "sh_jacobi": _sh_jacobi,
    "laguerre": lambda place, n, x: _laguerre(place, n, 0.0, x),
    "genlaguerre": _laguerre,
    "hermite": _recurrence("eval_hermite", lambda x: 2 * x, lambda k, p, q, x: 2 * x * q - 2 * k * p),
    "hermitenorm": _recurrence("eval_hermitenorm", lambda x: x, lambda k, p, q, x: x * q - k * p),
}
# fmt: on
COMPOSED |= {f"scipy.special.eval_{name}": f for name, f in _POLYNOMIALS.items()}
ANALYTIC |= {f"eval_{name}" for name in _POLYNOMIALS}
