"""Linear filters given by coefficients or by sections of second order."""

from __future__ import annotations

from typing import Any

from scipy import signal as reference

from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.extend.engine import for_tensors, reshape, reverse
from fgrad.numpy import linalg
from fgrad.numpy.joining import concatenate
from fgrad.numpy.joining import stack as stacked
from fgrad.numpy.padding import pad
from fgrad.numpy.shapes import broadcast_to, moveaxis
from fgrad.scipy.linalg import arguments
from fgrad.scipy.linalg.special_matrices import companion
from fgrad.scipy.signal.convolution import in_common


def _part(x: Any, start: int | None, stop: int | None = None) -> Any:
    return bind("slice", x, index=(..., slice(start, stop)))


def _padded(x: Any, n: int) -> Any:
    """Return `x` with zeros behind its last axis, so that it has length `n`."""
    missing = n - x.shape[-1]
    return pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, missing)]) if missing > 0 else x


def _coefficients(name: str, x: Any) -> Any:
    x = reshape(x, (1,)) if not x.shape else x
    if len(x.shape) != 1 or not x.size:
        raise ValueError(
            f"Parameter {name} is not a non-empty 1d array, since {name}.shape={tuple(x.shape)}!"
        )
    return x


@for_tensors(reference.lfilter)
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Return a signal filtered by the rational transfer function b(z) / a(z).

    a_0 y_n = sum_k b_k x_(n-k) - sum_(k > 0) a_k y_(n-k)

    Args:
        b: the coefficients of the numerator.
        a: those of the denominator.
        x: signals along `axis`.
        axis: the axis of time.
        zi: None, or the states of the delays before, max(len(a), len(b)) - 1 along `axis`.

    Returns:
        Array of the shape of `x` and the common float or complex dtype; with `zi` a pair of it and the states
        behind.

    Raises:
        ValueError: coefficients that are no vectors, or states of another shape.

    Derivative:
        In all arguments. In the signal the adjoint is the same filter, running backwards in time.

    Source:
        Oppenheim & Schafer (2010), Discrete-Time Signal Processing, 6.3 (the transposed direct form).

    Example:
        >>> lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0])
        array([1.  , 0.5 , 0.25])
        >>> fg.grad(lambda x: lfilter([1.0], [1.0, -0.5], x)[2])(np.zeros(3))
        array([0.25, 0.5 , 1.  ])
    """
    states = zi is not None
    b, a, x, *rest = in_common(b, a, x, *([zi] if states else []))
    b, a = _coefficients("b", b), _coefficients("a", a)
    x = moveaxis(x, axis, -1)
    n, order = x.shape[-1], max(a.shape[0], b.shape[0]) - 1
    first = bind("slice", a, index=(0,))
    b, a = b / first, a / first
    source = _convolved(b, x, n + order)
    if states:
        start = rest[0]
        if len(start.shape) != len(x.shape):
            raise ValueError(
                f"Dimensions of parameters x and zi must match, but x.ndim={len(x.shape)}, "
                f"zi.ndim={len(start.shape)}!"
            )
        start, wanted = moveaxis(start, axis, -1), (*x.shape[:-1], order)
        if any(s not in (1, w) for s, w in zip(start.shape[:-1], wanted, strict=False)) or (
            start.shape[-1] != order
        ):
            raise ValueError(
                f"Unexpected shape for parameter zi: expected {wanted} with the axis of time last, found "
                f"{tuple(start.shape)}."
            )
        source = source + _padded(broadcast_to(start, wanted), n + order)
    # what states say comes out at the places of theirs: so they are the tail of the source, less the feedback
    y = bind("recursion", _part(a, 1), _part(source, 0, n))
    if not states:
        return moveaxis(y, -1, axis)
    final = _part(source - _convolved(a, y, n + order), n)
    return moveaxis(y, -1, axis), moveaxis(final, -1, axis)


def _convolved(w: Any, x: Any, length: int) -> Any:
    """Return the full convolution of signals along the last axis with a vector, and zeros behind."""
    wide = broadcast_to(w, (*x.shape[:-1], w.shape[0]))
    if not x.shape[-1]:
        return _padded(x, length)
    return _padded(bind("convolve", x, wide, mode="full"), length)


def _sections(sos: Any) -> Any:
    if len(sos.shape) != 2 or sos.shape[1] != 6:
        raise ValueError("sos array must be shape (n_sections, 6)")
    if arguments.is_visible(sos) and not (arguments.plain(sos)[:, 3] == 1).all():
        raise ValueError("sos[:, 3] should be all ones")
    return sos


@for_tensors(reference.sosfilt)
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Return a signal filtered by sections of second order, one after the other.

    Args:
        sos: the coefficients b_0, b_1, b_2, 1, a_1, a_2 of each section (n_sections, 6).
        x: signals along `axis`.
        axis: the axis of time.
        zi: None, or the states before, (n_sections, ..., 2, ...) with 2 in place of the length of `axis`.

    Returns:
        Array of the shape of `x` and the common float or complex dtype; with `zi` a pair of it and the states
        behind.

    Raises:
        ValueError: sections or states of another shape, or sections that are not normalized.

    Derivative:
        That of `lfilter`, in sections, signals and states.

    Example:
        >>> sosfilt([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]], [1.0, 0.0, 0.0])
        array([1.  , 0.5 , 0.25])
        >>> fg.grad(lambda x: sosfilt([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]], x)[2])(np.zeros(3))
        array([0.25, 0.5 , 1.  ])
    """
    states = zi is not None
    sos, x, *rest = in_common(sos, x, *([zi] if states else []))
    sos = _sections(sos)
    count = sos.shape[0]
    if states:
        wanted = list(x.shape)
        wanted[axis] = 2
        if tuple(rest[0].shape) != (count, *wanted):
            raise ValueError(
                f"Invalid zi shape. With axis={axis}, an input with shape {tuple(x.shape)}, and an sos array "
                f"with {count} sections, zi must have shape {(count, *wanted)}, got {tuple(rest[0].shape)}."
            )
    final = []
    for i in range(count):
        section = bind("slice", sos, index=(i,))
        b, a = _part(section, 0, 3), _part(section, 3)
        if states:
            x, state = lfilter(b, a, x, axis, bind("slice", rest[0], index=(i,)))
            final.append(state)
        else:
            x = lfilter(b, a, x, axis)
    return (x, stacked(final)) if states else x


@for_tensors(reference.lfilter_zi)
def lfilter_zi(b: Any, a: Any) -> Any:
    """Return the states of `lfilter` in which it stays while its input is one.

    Args:
        b: the coefficients of the numerator.
        a: those of the denominator.

    Returns:
        Vector (max(len(a), len(b)) - 1,) of the common float or complex dtype.

    Raises:
        LinAlgError: the denominator is zero at z = 1.
        ValueError: coefficients that are no vectors.

    Derivative:
        That of the linear system which says so, in `b` and `a`.

    Example:
        >>> lfilter_zi([1.0], [1.0, -0.5])
        array([1.])
        >>> fg.grad(lambda x: lfilter_zi([1.0], [1.0, x])[0])(-0.5)
        np.float64(-4.0)
    """
    b, a = in_common(b, a)
    b, a = _coefficients("b", b), _coefficients("a", a)
    first = bind("slice", a, index=(0,))
    b, a = b / first, a / first
    n = max(a.shape[0], b.shape[0])
    b, a = _padded(b, n), _padded(a, n)
    if n == 1:
        return _part(b, 1)
    system = near(a).eye(n - 1, dtype=a.dtype) - companion(a).T
    return linalg.solve(system, _part(b, 1) - _part(a, 1) * bind("slice", b, index=(0,)))


@for_tensors(reference.sosfilt_zi)
def sosfilt_zi(sos: Any) -> Any:
    """Return the states of `sosfilt` in which it stays while its input is one.

    Args:
        sos: the coefficients b_0, b_1, b_2, 1, a_1, a_2 of each section (n_sections, 6).

    Returns:
        Matrix (n_sections, 2) of the float or complex dtype of `sos`.

    Raises:
        LinAlgError: the denominator of a section is zero at z = 1.
        ValueError: sections of another shape, or that are not normalized.

    Derivative:
        That of `lfilter_zi`.

    Example:
        >>> sosfilt_zi([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]]) + 0.0
        array([[1., 0.]])
        >>> fg.grad(lambda x: sosfilt_zi([[x, 0.0, 0.0, 1.0, -0.5, 0.0]])[0, 0])(1.0)
        np.float64(1.0)
    """
    sos = _sections(*in_common(sos))
    scale: Any = 1.0
    found = []
    for i in range(sos.shape[0]):
        section = bind("slice", sos, index=(i,))
        b, a = _part(section, 0, 3), _part(section, 3)
        found.append(scale * lfilter_zi(b, a))
        scale = scale * b.sum() / a.sum()
    return stacked(found)


@for_tensors(reference.filtfilt)
def filtfilt(
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    method: str = "pad",
    irlen: int | None = None,
) -> Any:
    """Return a signal filtered forward and backward, which leaves phases as they are.

    Args:
        b: the coefficients of the numerator.
        a: those of the denominator.
        x: signals along `axis`.
        axis: the axis of time.
        padtype: how the signal goes on at its ends: "odd", "even", "constant" or None.
        padlen: by how many elements; None: three times as many as there are coefficients.
        method: "pad"; Gustafsson's method "gust" is not supported.
        irlen: taken for SciPy's sake.

    Returns:
        Array of the shape of `x` and the common float or complex dtype.

    Raises:
        NotImplementedError: method "gust".
        ValueError: an unknown `padtype` or method, or too short a signal.

    Derivative:
        That of `lfilter`, in `b`, `a` and `x`; through the initial states too.

    Example:
        >>> filtfilt([0.5, 0.5], [1.0], [0.0, 0.0, 4.0, 0.0], padlen=1)
        array([0., 1., 2., 0.])
        >>> fg.grad(lambda x: filtfilt([0.5, 0.5], [1.0], x, padlen=1)[2])(np.zeros(4))
        array([0.  , 0.25, 0.5 , 0.25])
    """
    if method == "gust":
        raise NotImplementedError("filtfilt of Tensors: method='gust' is not supported; use method='pad'")
    if method != "pad":
        raise ValueError("method must be 'pad' or 'gust'.")
    b, a, x = in_common(b, a, x)
    b, a = _coefficients("b", b), _coefficients("a", a)
    if padtype not in {"even", "odd", "constant", None}:
        raise ValueError(
            f"Unknown value '{padtype}' given to padtype. padtype must be 'even', 'odd', 'constant', or None."
        )
    edge = 0 if padtype is None else 3 * max(a.shape[0], b.shape[0]) if padlen is None else padlen
    x = moveaxis(x, axis, -1)
    if x.shape[-1] <= edge:
        raise ValueError(f"The length of the input vector x must be greater than padlen, which is {edge}.")
    last = len(x.shape) - 1
    y = extended(x, edge, padtype)
    start = lfilter_zi(b, a)
    for _ in range(2):  # forward, and on the reversed signal once more
        y, _ = lfilter(b, a, y, -1, start * _part(y, 0, 1))
        y = reverse(y, last)
    return moveaxis(_part(y, edge, y.shape[-1] - edge), -1, axis)


def extended(x: Any, n: int, kind: str | None) -> Any:
    """Return signals along the last axis, longer by `n` elements at each end."""
    if n < 1 or kind is None:
        return x
    if kind == "zeros":
        return pad(x, [(0, 0)] * (len(x.shape) - 1) + [(n, n)])
    length, last = x.shape[-1], len(x.shape) - 1
    first, final = _part(x, 0, 1), _part(x, length - 1)
    if kind == "constant":
        wide = (*x.shape[:-1], n)
        return concatenate([broadcast_to(first, wide), x, broadcast_to(final, wide)], axis=-1)
    if n > length - 1:
        raise ValueError(
            f"The extension length n ({n}) is too big. It must not exceed x.shape[axis]-1, which is "
            f"{length - 1}."
        )
    left, right = reverse(_part(x, 1, n + 1), last), reverse(_part(x, length - 1 - n, length - 1), last)
    if kind == "odd":
        left, right = 2 * first - left, 2 * final - right
    return concatenate([left, x, right], axis=-1)
