"""The roots of a polynomial, differentiated as implicit functions of its coefficients.

From p(r) = 0 follows dr = -sum_j r**(N-j) dp_j / p'(r), whatever the algorithm that found r.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.backend.devices import elsewhere, on_host
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import Written, by_argument, declare
from fgrad.core.stored import LAPACK, Stored, is_count
from fgrad.ops.contraction import contract
from fgrad.ops.linear import broadcast_to, convert, reshape, reverse
from fgrad.ops.requirements import trusted


def _complex(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.result_type(dtype, np.complex64)


def _run(p: Any, *, lead: int) -> Any:
    """Return the roots of a polynomial whose first `lead` coefficients are zero, as complex numbers."""
    found = np.roots(p).astype(_complex(p.dtype))
    if len(found) != len(p) - lead - 1:
        raise ValueError(
            f"roots: the number of leading coefficients that are zero is not {lead}, as when the function "
            "was traced, so the number of roots differs; leave these coefficients out"
        )
    return found


def _there(p: Any, *, lead: int) -> Any:
    """Return the same on a device: zeros for last coefficients that are zero, eigenvalues for the rest."""
    degree = p.shape[0] - lead - 1
    kind = _complex(p.dtype)
    if degree < 1:
        return near(p).zeros(max(degree, 0), kind)
    ends = int(np.argmax(p[::-1] != 0))
    n = degree - ends
    if not n:
        return near(p).zeros(degree, kind)
    p = p[lead : lead + n + 1]
    companion = near(p).zeros((n, n), p.dtype)
    companion[:1] = -p[1:] / p[:1]
    companion[1:, :-1] = near(p).eye(n - 1, p.dtype)
    found = np.linalg.eigvals(companion).astype(kind, copy=False)
    return np.concatenate([found, near(p).zeros(ends, kind)])


def _powers(r: Any, n: int) -> Any:
    """Return the powers r**0 ... r**(n-1) of every root, one row per root."""
    ones = near(r).ones((r.shape[0], 1), r.dtype)
    if n == 1:
        return ones
    columns = broadcast_to(reshape(r, (r.shape[0], 1)), (r.shape[0], n - 1))
    return bind("concatenate", ones, bind("cumprod", columns, axis=1), axis=1)


def _vjp(ct: Any, out: Any, x: Any, *, lead: int) -> Any:
    n = x.shape[0]
    powers = _powers(out, n)
    p = convert(x, out.dtype)
    steps = near(out).arange(1, n).astype(np.empty(0, out.dtype).real.dtype)
    weights = bind("slice", reverse(p, 0), index=(slice(1, None),)) * steps
    slope = contract(bind("slice", powers, index=(slice(None), slice(None, -1))), weights, "ij", "j", "i")
    with np.errstate(divide="ignore", invalid="ignore"):  # at multiple roots without cotangent
        change = bind("scale", bind("simple_roots", -ct, out, p), 1 / slope)
    return convert(reverse(contract(change, powers, "i", "ij", "j"), 0), x.dtype)


def _horner(p: Any, x: Any) -> Any:
    """Return the values of a polynomial at `x`."""
    y = near(x).zeros(x.shape, np.result_type(p.dtype, x.dtype))
    for i in range(len(p)):
        y = y * x + p[i]
    return y


def _run_simple(ct: Any, r: Any, p: Any) -> Any:
    """Return `ct`, the cotangents of roots.

    Newton's map finds a second root nearby if 2 |p(r) p''(r)| reaches |p'(r)|**2 (Kantorovich), and p(r) is
    not known better than the rounding of its terms.

    Raises:
        LinAlgError: a root with a cotangent is multiple to rounding, so it has no derivative.
    """
    with np.errstate(all="ignore"):
        n = len(p)
        noise = 4 * n * float(np.finfo(r.dtype).eps) * _horner(np.absolute(p), np.absolute(r))
        steps = near(p).arange(n - 1, -1, -1).astype(np.empty(0, p.dtype).real.dtype)
        slope = (p * steps)[:-1]
        first, second = (np.absolute(_horner(c, r)) for c in (slope, (slope * steps[1:])[:-1]))
        multiple = (first * first <= 2 * noise * second) | (first == 0)
    bad = (ct != 0) & multiple
    if np.any(bad):
        root = on_host(r[np.argmax(bad)])
        raise np.linalg.LinAlgError(
            f"roots: {root:.6g} is a multiple root, where roots have no derivative: a small change of the "
            "coefficients separates them by its square root. Differentiate a symmetric function of the "
            "roots by way of the coefficients instead."
        )
    return ct


def _written_simple(ct: Any, r: Any, p: Any) -> Any:
    """Return `ct`, in a compiled program, which ends where a root is multiple to rounding."""
    n = len(p)
    steps = np.arange(n - 1, -1, -1).astype(np.empty(0, p.dtype).real.dtype)
    slope = (p * steps)[:-1]
    noise = 4 * n * float(np.finfo(r.dtype).eps) * _horner(np.absolute(p), np.absolute(r))
    first, second = (np.absolute(_horner(c, r)) for c in (slope, (slope * steps[1:])[:-1]))
    fine = (ct == 0) | ((first * first > 2 * noise * second) & (first != 0))
    return trusted(ct, fine)


def _written_roots(p: Any, *, lead: int) -> Any:
    """Return eigenvalues of the companion matrix, as NumPy does; where zeros are left out it is asked."""
    n = p.shape[0] - lead - 1
    kind = _complex(p.dtype)
    fine = p[lead] != 0
    if lead:
        fine = fine & np.all(p[:lead] == 0)
    p = p[lead:]
    if n > 1:
        fine = fine & (p[-1] != 0)
        first = reshape(-p[1:] / p[0], (1, n))
        rest = np.concatenate([np.eye(n - 1, dtype=p.dtype), np.zeros((n - 1, 1), p.dtype)], axis=1)
        found = bind("eig", np.concatenate([first, rest], axis=0))[0]
    else:
        found = -p[1:] / p[0]
    return trusted(convert(found, kind), fine)


declare(
    "roots",
    run=elsewhere(_run, _there),
    vjp=by_argument(_vjp),
    shape=lambda p, *, lead: Aval((p.shape[0] - lead - 1,), _complex(p.dtype)),
    costly=True,
    written=Written(_written_roots),
    stored=Stored(
        {"lead": is_count},
        dtypes=LAPACK,
        verify=lambda p, *, lead: p.ndim == 1 and lead < p.shape[0],
        work=lambda p, **_: p.size**2,
    ),
)
declare(
    "simple_roots",
    run=_run_simple,
    vjp=by_argument(lambda ct: ct, None, None),
    shape=lambda ct, r, p: ct,
    written=Written(_written_simple),
    stored=Stored(
        dtypes=LAPACK,
        verify=lambda ct, r, p: (
            ct.ndim == r.ndim == p.ndim == 1 and ct.shape == r.shape and p.shape[0] == r.shape[0] + 1
        ),
    ),
)
