"""Fourier transforms along one axis: complex, real to half a spectrum, and half a spectrum to real.

A spectrum of real numbers is Hermitian, so half of it says everything; where only half is stored, each
element stands for itself and for its mirror image, except those that are their own: the first, and of an
even length the last. The adjoints (without conjugation, as everywhere) follow from the matrix W of the
transform being symmetric: W^T = W, and of a half spectrum y, Re(W y) = irfft(weights * conj(y)).

Source:
    Cooley & Tukey (1965), Math. Comp. 19; Sorensen et al. (1987), IEEE Trans. ASSP 35, for real input.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.aval import Aval, Shape
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import ALONG, Written
from fgrad.core.stored import Stored, is_axis, is_count, one_of
from fgrad.ops.linear import convert, linear, real_dtype

ADJOINT_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
TO_COMPLEX = ("fft", "ifft")  # which take complex numbers, and real ones as such
TRANSFORMS: dict[str, Callable[..., Any]] = {
    "fft": np.fft.fft,
    "ifft": np.fft.ifft,
    "rfft": np.fft.rfft,
    "irfft": np.fft.irfft,
}


@functools.cache
def _dtype(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    made: np.dtype[Any] = TRANSFORMS[name](np.ones(2, dtype)).dtype
    return made


def _replaced(shape: Shape, axis: int, n: int) -> Shape:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _weights(x: Any, axis: int, n: int, inner: float) -> Any:
    """Return 1 for elements of half a spectrum that are their own mirror image, and `inner` for others."""
    m = n // 2 + 1
    weights = near(x).full(m, inner, real_dtype(x.dtype))
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return weights.reshape(_replaced((1,) * len(x.shape), axis, m))


def _complex_adjoint(name: str, ct: Any, x: Aval, axis: int, norm: str) -> Any:
    return convert(bind(name, ct, axis=axis, norm=norm), x.dtype)


def _rfft_adjoint(ct: Any, x: Aval, *, axis: int, norm: str) -> Any:
    n = x.shape[axis]
    halved = bind("conjugate", ct) * _weights(ct, axis, n, 0.5)
    return convert(bind("irfft", halved, axis=axis, norm=ADJOINT_NORM[norm], n=n), x.dtype)


def _irfft_adjoint(ct: Any, x: Aval, *, axis: int, norm: str, n: int) -> Any:
    half = bind("rfft", ct, axis=axis, norm=ADJOINT_NORM[norm])
    return convert(bind("conjugate", half) * _weights(half, axis, n, 2.0), x.dtype)


_NORM = one_of(None, "backward", "ortho", "forward")
_STORED = Stored({"axis": is_axis, "norm": _NORM}, verify=lambda x, *, axis, norm: x.shape[axis] > 0)
for _name in TO_COMPLEX:
    linear(
        _name,
        run=lambda x, *, axis, norm, f=TRANSFORMS[_name]: f(x, axis=axis, norm=norm),
        adjoint=lambda ct, x, *, axis, norm, name=_name: _complex_adjoint(name, ct, x, axis, norm),
        shape=lambda x, *, axis, norm, name=_name: Aval(x.shape, _dtype(name, x.dtype)),
        batch=lambda x, *, axis, norm, name=_name: bind(name, x, axis=axis + 1, norm=norm),
        traits={ALONG},
        stored=_STORED,
    )
linear(
    "rfft",
    run=lambda x, *, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    adjoint=_rfft_adjoint,
    shape=lambda x, *, axis, norm: Aval(
        _replaced(x.shape, axis, x.shape[axis] // 2 + 1), _dtype("rfft", x.dtype)
    ),
    batch=lambda x, *, axis, norm: bind("rfft", x, axis=axis + 1, norm=norm),
    traits={ALONG},
    written=Written(
        lambda x, **params: bind("rfft", convert(x, np.dtype(np.float64)), **params),
        lambda x, **_: x.dtype.kind in "biu",
    ),
    stored=_STORED,
)
linear(
    "irfft",
    run=lambda x, *, axis, norm, n: np.fft.irfft(x, n, axis, norm),
    adjoint=_irfft_adjoint,
    shape=lambda x, *, axis, norm, n: Aval(_replaced(x.shape, axis, n), _dtype("irfft", x.dtype)),
    batch=lambda x, *, axis, norm, n: bind("irfft", x, axis=axis + 1, norm=norm, n=n),
    traits={ALONG},
    written=Written(
        lambda x, *, n, **params: bind("irfft", convert(x, _dtype("fft", x.dtype)), n=n, **params),
        lambda x, **_: x.dtype.kind != "c",
    ),
    stored=Stored(
        {"axis": is_axis, "norm": _NORM, "n": is_count},
        verify=lambda x, *, axis, norm, n: n > 0 and x.shape[axis] > 0,
    ),
)
