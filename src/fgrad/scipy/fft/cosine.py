"""Discrete cosine and sine transforms, types I to IV, by Fourier transforms of real numbers.

Sources:
    Ahmed, Natarajan & Rao (1974), IEEE Trans. Comput. C-23; Makhoul (1980), IEEE Trans. ASSP 28, for types II
    and III by a transform of the same length; Martucci (1994), IEEE Trans. Signal Process. 42, for the rest.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from scipy import fft as reference

from fgrad.extend.engine import convert, for_tensors, inexact, named
from fgrad.numpy import concatenate, fft, moveaxis
from fgrad.scipy.fft.fourier import OTHER_NORM, planned, single

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}
_TEXT = """Return the {inverse}discrete {what} transform{where}.

    Without a norm, of n numbers x,

    {formulas}

    Args:
        x: real or complex array or Tensor; real and imaginary parts are transformed by themselves.
        type: 1, 2, 3 or 4.
        {lengths}
        norm: "backward" (None): the inverse has the factor 1 / m; "forward": the transform has it; "ortho":
            each has its root. m is {count} for type 1, 2 n for others.
        overwrite_x: whether SciPy may use the memory of an array; Tensors keep theirs.
        workers: how many of SciPy's threads transform an array.
        orthogonalize: whether first and last numbers are scaled so that "ortho" gives an orthogonal matrix;
            None: for that norm alone. Of complex numbers it follows the norm.

    Returns:
        Array of the dtype of `x`; float64 for integers, float32 for float16.

    Raises:
        ValueError: an unknown type or norm, a length below one{least}.
        AxisError: an axis that `x` does not have.

    Derivative:
        Linear: the transform itself.

    Example:
        >>> import fgrad as fg
        >>> import numpy as np
        >>> x = np.ones({shape})
        >>> np.allclose(fg.scipy.fft.{name}(fg.tensor(x)).numpy(), fg.scipy.fft.{name}(x))
        True
    """
_FORMULAS = {
    "cosine": """1: y_k = x_0 + (-1)^k x_(n-1) + 2 sum_(0 < j < n - 1) x_j cos(pi j k / (n - 1))
    2: y_k = 2 sum_j x_j cos(pi k (2 j + 1) / (2 n))
    3: y_k = x_0 + 2 sum_(j > 0) x_j cos(pi j (2 k + 1) / (2 n))
    4: y_k = 2 sum_j x_j cos(pi (2 k + 1) (2 j + 1) / (4 n))""",
    "sine": """1: y_k = 2 sum_j x_j sin(pi (k + 1) (j + 1) / (n + 1))
    2: y_k = 2 sum_j x_j sin(pi (k + 1) (2 j + 1) / (2 n))
    3: y_k = (-1)^k x_(n-1) + 2 sum_(j < n - 1) x_j sin(pi (2 k + 1) (j + 1) / (2 n))
    4: y_k = 2 sum_j x_j sin(pi (2 k + 1) (2 j + 1) / (4 n))""",
}

# ---- along the last axis, without a norm


def _phases(x: Any, count: int, step: float, start: float = 0.0) -> Any:
    """Return exp(i (start + step k)) for `count` numbers k, in the precision of `x`."""
    return np.exp(1j * (start + step * np.arange(count))).astype(np.result_type(x.dtype, np.complex64))


def _signs(x: Any, n: int) -> Any:
    return (1 - 2 * (np.arange(n) % 2)).astype(x.dtype)


def _cosine_1(x: Any) -> Any:
    return fft.rfft(concatenate([x, x[..., -2:0:-1]], axis=-1)).real


def _cosine_2(x: Any) -> Any:
    n = x.shape[-1]
    turned = concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], axis=-1)
    half = fft.rfft(turned) * _phases(x, n // 2 + 1, -math.pi / (2 * n))
    return 2 * concatenate([half.real, -half.imag[..., 1 : (n + 1) // 2][..., ::-1]], axis=-1)


def _cosine_3(x: Any) -> Any:
    n = x.shape[-1]
    zero = np.zeros((*x.shape[:-1], 1), x.dtype)
    back = concatenate([zero, x[..., : (n - 1) // 2 : -1]], axis=-1)
    half = (x[..., : n // 2 + 1] - 1j * back) * _phases(x, n // 2 + 1, math.pi / (2 * n))
    turned = fft.irfft(half, n, norm="forward")
    even, odd = turned[..., : (n + 1) // 2], turned[..., (n + 1) // 2 :][..., ::-1]
    if n % 2:
        odd = concatenate([odd, turned[..., :1]], axis=-1)  # is cut off again
    return _woven(even, odd)[..., :n]


def _woven(even: Any, odd: Any) -> Any:
    """Return the elements of two arrays in turns."""
    pairs = concatenate([even[..., None], odd[..., None]], axis=-1)
    return pairs.reshape(*even.shape[:-1], -1)


def _cosine_4(x: Any) -> Any:
    n = x.shape[-1]
    found = fft.fft(x * _phases(x, n, -math.pi / (2 * n)), 2 * n)[..., :n]
    return 2 * (found * _phases(x, n, -math.pi / (2 * n), -math.pi / (4 * n))).real


def _sine_1(x: Any) -> Any:
    zero = np.zeros((*x.shape[:-1], 1), x.dtype)
    odd = concatenate([zero, x, zero, -x[..., ::-1]], axis=-1)
    return -fft.rfft(odd).imag[..., 1 : x.shape[-1] + 1]


def _sine_2(x: Any) -> Any:
    return _cosine_2(x * _signs(x, x.shape[-1]))[..., ::-1]


def _sine_3(x: Any) -> Any:
    return _cosine_3(x[..., ::-1]) * _signs(x, x.shape[-1])


def _sine_4(x: Any) -> Any:
    return _cosine_4(x[..., ::-1]) * _signs(x, x.shape[-1])


_TRANSFORMS: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "cosine": (_cosine_1, _cosine_2, _cosine_3, _cosine_4),
    "sine": (_sine_1, _sine_2, _sine_3, _sine_4),
}
# what is divided by the root of two behind an orthogonal transform, and multiplied by it before: which ends
_BEHIND = {("cosine", 1): (0, -1), ("cosine", 2): (0,), ("sine", 2): (-1,)}
_BEFORE = {("cosine", 1): (0, -1), ("cosine", 3): (0,), ("sine", 3): (-1,)}

# ---- what SciPy's functions do


def _resized(x: Any, n: int) -> Any:
    """Return `x` cropped or padded with zeros along its last axis."""
    length = x.shape[-1]
    if n <= length:
        return x if n == length else x[..., :n]
    return concatenate([x, np.zeros((*x.shape[:-1], n - length), x.dtype)], axis=-1)


def _scaled(x: Any, ends: Sequence[int], factor: float) -> Any:
    """Return `x` with numbers at the ends of its last axis multiplied by a factor."""
    if not ends:
        return x
    factors = np.ones(x.shape[-1], x.dtype)
    factors[list(ends)] = factor
    return x * factors


def _transformed(
    what: str, x: Any, kind: int, n: Any, axis: int, norm: str | None, orthogonalize: bool | None
) -> Any:
    """Return a transform of one type along an axis; the norm is that of a transform, not of an inverse."""
    if kind not in _INVERSE:
        raise ValueError(f"type must be 1, 2, 3 or 4, not {kind!r}")
    if norm not in OTHER_NORM:
        raise ValueError(f'Invalid norm value {norm!r}, should be "backward", "ortho" or "forward"')
    if x.dtype.kind == "c":
        real, imaginary = (_transformed(what, y, kind, n, axis, norm, None) for y in (x.real, x.imag))
        return convert(real + 1j * imaginary, x.dtype)
    place = normalize_axis_index(axis, len(x.shape))
    n = x.shape[place] if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"invalid number of data points ({n}) specified")
    x = _resized(moveaxis(x, place, -1), n)
    shift = {"cosine": -1, "sine": 1}[what] if kind == 1 else 0
    if n + shift < 1:
        raise ValueError("the discrete cosine transform of type 1 takes two numbers and more")
    orthogonal = norm == "ortho" if orthogonalize is None else orthogonalize
    if orthogonal:
        x = _scaled(x, _BEFORE.get((what, kind), ()), math.sqrt(2))
    y = _TRANSFORMS[what][kind - 1](x)
    if orthogonal:
        y = _scaled(y, _BEHIND.get((what, kind), ()), math.sqrt(0.5))
    count = 2 * (n + shift)
    factor = {"ortho": 1 / math.sqrt(count), "forward": 1 / count}.get(norm or "backward", 1.0)
    return moveaxis(y if factor == 1 else y * factor, -1, place)


def _direction(inverse: bool, kind: int, norm: str | None) -> tuple[int, str | None]:
    """Return the type and the norm of the transform that does what an inverse does."""
    if not inverse:
        return kind, norm
    return _INVERSE.get(kind, kind), OTHER_NORM.get(norm, norm)


def _described(f: Callable[..., Any], name: str, what: str) -> Callable[..., Any]:
    several = name.endswith("n")
    lengths = """n: length to which `x` is cropped, or padded with zeros; None keeps it.
        axis: the axis to transform."""
    if several:
        lengths = """s: lengths along `axes`, to which `x` is cropped, or padded with zeros.
        axes: the axes to transform; None: the last ones that `s` has, or all."""
    text = _TEXT.format(
        inverse="inverse of the " if name[0] == "i" else "",
        what=what,
        where=" along several axes" if several else " along an axis",
        formulas=_FORMULAS[what],
        lengths=lengths,
        count="2 (n - 1)" if what == "cosine" else "2 (n + 1)",
        least=", or below two for type 1" if what == "cosine" else "",
        name=name,
        shape="(4, 4)" if several else "4",
    )
    return for_tensors(getattr(reference, name))(named(name, text)(f))


def _along_one(name: str) -> Callable[..., Any]:
    what, inverse = "cosine" if "dct" in name else "sine", name[0] == "i"

    def f(
        x: Any,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> Any:
        kind, norm = _direction(inverse, type, norm)
        return _transformed(what, inexact(single(x)), kind, n, axis, norm, orthogonalize)

    return _described(f, name, what)


def _along_several(name: str) -> Callable[..., Any]:
    what, inverse = "cosine" if "dct" in name else "sine", name[0] == "i"

    def f(
        x: Any,
        type: int = 2,
        s: Sequence[int] | int | None = None,
        axes: Sequence[int] | int | None = None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        orthogonalize: bool | None = None,
    ) -> Any:
        kind, norm = _direction(inverse, type, norm)
        x = inexact(single(x))
        s, axes = planned(x, s, axes)
        for n, axis in zip([None] * len(axes) if s is None else s, axes, strict=True):
            x = _transformed(what, x, kind, n, axis, norm, orthogonalize)
        return x

    return _described(f, name, what)


dct, idct, dst, idst = map(_along_one, ("dct", "idct", "dst", "idst"))
dctn, idctn, dstn, idstn = map(_along_several, ("dctn", "idctn", "dstn", "idstn"))
