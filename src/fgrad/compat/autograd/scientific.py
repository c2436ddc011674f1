"""`autograd.scipy`: SciPy's functions for arrays, fgrad's where an argument holds a Tensor."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.compat.autograd.arrays import names
from fgrad.extend.engine import for_tensors

_DISTRIBUTIONS = {
    "beta": ("pdf", "cdf", "logpdf"),
    "chi2": ("pdf", "cdf", "logpdf"),
    "dirichlet": ("pdf", "logpdf", "rvs"),
    "gamma": ("pdf", "cdf", "logpdf"),
    "multivariate_normal": ("pdf", "logpdf", "entropy"),
    "norm": ("pdf", "cdf", "sf", "logpdf", "logcdf", "logsf"),
    "poisson": ("pmf", "cdf", "logpmf"),
    "t": ("pdf", "cdf", "logpdf", "logcdf"),
}


def _functions(theirs: Any, ours: Any, wanted: Sequence[str]) -> dict[str, Any]:
    """Return functions of a distribution, each of which takes Tensors if that of `ours` does."""
    found = {}
    for name in wanted:
        own = getattr(ours, name, None)
        found[name] = getattr(theirs, name)
        if own is not None:
            found[name] = for_tensors(found[name])(own)
    return found


# modules of SciPy, and fgrad's beside them, take long to load: what is not asked for stays out


def stats(name: str) -> dict[str, Any]:
    """Return the functions of a distribution."""
    theirs, ours = (getattr(import_module(module), name) for module in ("scipy.stats", "fgrad.scipy.stats"))
    return _functions(theirs, ours, _DISTRIBUTIONS[name])


def special() -> dict[str, Any]:
    """Return the special functions."""
    theirs, ours = import_module("scipy.special"), import_module("fgrad.scipy.special")
    return names({name: getattr(theirs, name) for name in (*theirs.__all__, "jn")}, ours)


def linalg() -> dict[str, Any]:
    """Return the functions of matrices."""
    theirs, ours = import_module("scipy.linalg"), import_module("fgrad.scipy.linalg")
    return names({name: getattr(theirs, name) for name in theirs.__all__}, ours)


def integrate() -> dict[str, Any]:
    """Return what solves differential equations."""
    return {"odeint": import_module("fgrad.scipy.integrate").odeint}


# ---- autograd's own convolution


def convolve(
    A: Any,  # noqa: N803 -- autograd's names
    B: Any,  # noqa: N803
    axes: Any = None,
    dot_axes: Any = ((), ()),
    mode: str = "full",
) -> Any:
    """Return the convolution of two arrays along some axes, summed over others.

    Args:
        A: array.
        B: array.
        axes: the axes of A, and those of B, along which they are convolved, in pairs; None: all.
        dot_axes: the axes of A, and those of B, over which products are summed, in pairs.
        mode: "full", "valid" or "same" (as long as A), as in SciPy.

    Returns:
        Array of the other axes of A, those of B, and then the convolved axes.

    Raises:
        ValueError: another mode, or neither array is the longer one along all axes in "valid".
    """
    if mode not in {"full", "valid", "same"}:
        raise ValueError(f"mode must be 'full', 'valid' or 'same', not {mode!r}")
    pairs = [(i, i) for i in range(np.ndim(A))] if axes is None else list(zip(*axes, strict=True))
    summed = list(zip(*dot_axes, strict=True))
    lengths = [(np.shape(A)[i], np.shape(B)[j]) for i, j in pairs]
    if mode == "valid" and not (all(a >= b for a, b in lengths) or all(a <= b for a, b in lengths)):
        raise ValueError("with mode='valid', one array must be the longer one along all convolved axes")
    # windows of A, as long as B, along new axes at the end
    widths = [(0, 0)] * np.ndim(A)
    for (i, _), (_, b) in zip(pairs, lengths, strict=True):
        widths[i] = (b - 1, b - 1)
    windows = fnp.pad(A, widths)
    for (i, _), (_, b) in zip(pairs, lengths, strict=True):
        windows = fnp.lib.stride_tricks.sliding_window_view(windows, b, i)
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    of_a = [next(letters) for _ in range(np.ndim(A))]
    of_b = [next(letters) for _ in range(np.ndim(B))]
    for i, j in summed:
        of_b[j] = of_a[i]
    out = [of_a[i] for i in range(len(of_a)) if i not in {p for p, _ in [*pairs, *summed]}]
    out += [of_b[j] for j in range(len(of_b)) if j not in {q for _, q in [*pairs, *summed]}]
    out += [of_a[i] for i, _ in pairs]
    backwards = tuple(slice(None, None, -1 if j in {q for _, q in pairs} else 1) for j in range(len(of_b)))
    subscripts = "".join([*of_a, *(of_b[j] for _, j in pairs)]) + "," + "".join(of_b) + "->" + "".join(out)
    full = fnp.einsum(subscripts, windows, B[backwards])
    if mode == "full":
        return full
    parts = []
    for a, b in lengths:
        first, length = ((b - 1) // 2, a) if mode == "same" else (min(a, b) - 1, abs(a - b) + 1)
        parts.append(slice(first, first + length))
    return full[(..., *parts)]


def signal() -> dict[str, Any]:
    """Return what convolves."""
    return {"convolve": convolve}
