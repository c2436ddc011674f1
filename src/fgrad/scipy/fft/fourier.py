"""SciPy's Fourier transforms for Tensors: NumPy's, and those of Hermitian spectra along several axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import fft as reference

from fgrad.extend.engine import ADJOINT_NORM, asarray, convert, for_tensors, named
from fgrad.numpy import conjugate
from fgrad.numpy import fft as numpy_fft

OTHER_NORM: dict[Any, str] = {None: "forward", **ADJOINT_NORM}
_ABOUT = {
    "fft": "the discrete Fourier transform",
    "ifft": "the inverse of `fft`",
    "rfft": "the half of the spectrum of real numbers that says everything",
    "irfft": "the real numbers of half a spectrum, as `rfft` gives it",
    "hfft": "the real spectrum of half a Hermitian signal",
    "ihfft": "half of the Hermitian signal that has a real spectrum",
}
_TEXT = """Return {about}{where}.

    Args:
        x: array or Tensor.
        {lengths}
        norm: where the factor 1 / n goes: "backward" (None), to the inverse; "forward"; "ortho", half each.
        overwrite_x: whether SciPy may use the memory of an array; Tensors keep theirs.
        workers: how many of SciPy's threads transform an array.
        plan: None; SciPy has none either.

    Returns:
        {kind} array, of single precision for float16, float32 and complex64.

    Raises:
        ValueError: a length below one, or an unknown norm.
        AxisError: an axis that `x` does not have.
        NotImplementedError: a plan.

    Derivative:
        Linear: the transform itself; the gradient of a real array is real.

    Example:
        >>> import fgrad as fg
        >>> import numpy as np
        >>> x = np.ones({shape})
        >>> np.allclose(fg.scipy.fft.{name}(fg.tensor(x)).numpy(), fg.scipy.fft.{name}(x))
        True
    """
_ONE = """n: length of the result, or of what comes in where half is given or made: cropped, or padded with
            zeros.
        axis: the axis to transform."""
_MORE = """s: likewise along each of `axes`.
        axes: the axes to transform{default}."""


def _described(f: Callable[..., Any], name: str, where: str, lengths: str) -> Callable[..., Any]:
    """Return a function of Tensors as one of SciPy's names."""
    base = name.rstrip("2n")
    kind = "Real" if base in {"irfft", "hfft"} else "Complex"
    shape = "4" if name == base else "(4, 4)"
    text = _TEXT.format(about=_ABOUT[base], where=where, lengths=lengths, kind=kind, shape=shape, name=name)
    return for_tensors(getattr(reference, name))(named(name, text)(f))


def single(x: Any) -> Any:
    """Return `x`, in single precision if it has half of that: SciPy computes in no less."""
    x = asarray(x)
    return convert(x, np.dtype(np.float32)) if x.dtype == np.float16 else x


def _check_plan(plan: Any) -> None:
    if plan is not None:
        raise NotImplementedError("Passing a precomputed plan is not supported by scipy.fft functions")


def _along_one(name: str) -> Callable[..., Any]:
    transform = getattr(numpy_fft, name)

    def f(
        x: Any,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: Any = None,
    ) -> Any:
        _check_plan(plan)
        return transform(single(x), n, axis, norm)

    return _described(f, name, " along an axis", _ONE)


def _along_several(name: str, default: tuple[int, int] | None) -> Callable[..., Any]:
    base = name.rstrip("2n")
    hermitian = base in {"hfft", "ihfft"}
    transform = getattr(numpy_fft, {"hfft": "irfftn", "ihfft": "rfftn"}.get(base, f"{base}n"))

    def f(
        x: Any,
        s: Sequence[int] | int | None = None,
        axes: Sequence[int] | int | None = default,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: Any = None,
    ) -> Any:
        _check_plan(plan)
        x = single(x)
        s, axes = planned(x, s, axes)
        if not hermitian:
            return transform(x, s, axes, norm)
        other = OTHER_NORM.get(norm, norm)
        if base == "hfft":
            return transform(conjugate(x), s, axes, other)
        return conjugate(transform(x, s, axes, other))

    several = _MORE.format(default="" if default else "; None: the last ones that `s` has, or all")
    return _described(f, name, " along two axes" if default else " along several axes", several)


def planned(
    x: Any, s: Sequence[int] | int | None, axes: Sequence[int] | int | None
) -> tuple[list[int] | None, list[int]]:
    """Return the lengths and the axes of a transform of `x` along several axes."""
    s = [s] if isinstance(s, int) else s
    if axes is None:
        axes = range(-(len(x.shape) if s is None else len(s)), 0)
    axes = [axes] if isinstance(axes, int) else list(axes)
    if len({i % max(1, len(x.shape)) for i in axes}) < len(axes):
        raise ValueError("all axes must be unique")
    if s is not None and len(s) != len(axes):
        raise ValueError("when given, axes and shape arguments have to be of the same length")
    return None if s is None else list(s), axes


fft, ifft, rfft, irfft, hfft, ihfft = map(_along_one, _ABOUT)
fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = (_along_several(f"{name}2", (-2, -1)) for name in _ABOUT)
fftn, ifftn, rfftn, irfftn, hfftn, ihfftn = (_along_several(f"{name}n", None) for name in _ABOUT)
