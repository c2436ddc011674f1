"""Making arrays of shapes and numbers: Tensors, so that they can be written to and differentiated."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.backend.devices import is_foreign, maker
from fgrad.core.dispatch import binary, bind, unary
from fgrad.core.placement import buffer_of, device_of, near
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.views import laid_out_like, unordered
from fgrad.numpy.arrays import (
    PYTHON,
    alike,
    array,
    as_tensor,
    as_value,
    asarray,
    number,
    ones_before,
    promoted,
    recopied,
    together,
)
from fgrad.numpy.registry import as_array, elements, holds_tensor, implements
from fgrad.numpy.views import repeated, reshaped
from fgrad.ops.functions import stop_gradient
from fgrad.ops.linear import broadcast_to as _broadcast_to
from fgrad.ops.linear import convert, reshape


@implements(np.zeros)
def zeros(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Tensor:
    """Return a Tensor of zeros.

    Returns:
        Tensor of `shape`, in `dtype` or float64.

    Derivative:
        None: it starts as a constant. What is written to it is differentiated.

    Differences from NumPy:
        Returns a Tensor, so that it can be written to and differentiated.

    Example:
        >>> y = fnp.zeros(2)
        >>> y[0] = 1.0
        >>> y
        Tensor([1., 0.])
    """
    return wrap(maker(device).zeros(shape, dtype, order))


@implements(np.ones)
def ones(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Tensor:
    """Return a Tensor of ones.

    Returns:
        Tensor of `shape`, in `dtype` or float64.

    Derivative:
        None: it is a constant.

    Differences from NumPy:
        Returns a Tensor, so that it can be written to and differentiated.

    Example:
        >>> fnp.ones(2)
        Tensor([1., 1.])
    """
    return wrap(maker(device).ones(shape, dtype, order))


@implements(np.empty)
def empty(shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Tensor:
    """Return a Tensor to be filled; it starts with zeros.

    Returns:
        Tensor of `shape`, in `dtype` or float64.

    Derivative:
        None: it starts as a constant. What is written to it is differentiated.

    Differences from NumPy:
        Starts with zeros, which programs need not rely on.

    Example:
        >>> y = fnp.empty(2)
        >>> y[:] = 3.0
        >>> y
        Tensor([3., 3.])
    """
    return zeros(shape, dtype, order, device=device)


@implements(np.full)
def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Tensor:
    """Return a Tensor filled with `fill_value`, which may be a Tensor that broadcasts.

    Returns:
        Tensor of `shape`, in `dtype` or that of `fill_value`.

    Derivative:
        Of `fill_value`: the sum of the cotangents of the elements that it fills.

    Example:
        >>> fg.grad(lambda v: fnp.full((2, 3), v).sum())(1.5)
        np.float64(6.0)
    """
    lengths = (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)
    made = _broadcast_to(asarray(fill_value, dtype, device=device), lengths)
    return as_tensor(as_array(recopied(made, order)))


class _ArrayType(type):
    """The class of `ndarray`: Tensors and arrays are its instances."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor | np.ndarray)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, Tensor | np.ndarray) or kind is cls

    def __getattr__(cls, name: str) -> Any:
        return getattr(Tensor, name)


class ndarray(metaclass=_ArrayType):  # noqa: N801 -- NumPy's name
    """What Tensors and arrays are instances of; called with a shape, it returns a Tensor to be filled.

    The memory of something else (`buffer`, `offset`, `strides`) is refused with a TypeError.

    Returns:
        Tensor of `shape` and `dtype`, zeros.

    Derivative:
        None: it starts as a constant. What is written to it is differentiated.

    Example:
        >>> isinstance(fg.tensor(1.0), fnp.ndarray)
        True
        >>> fnp.ndarray((2,)).shape
        (2,)
    """

    def __new__(  # type: ignore[misc]  # noqa: D102 -- the class says it
        cls,
        shape: Any,
        dtype: Any = float,
        buffer: Any = None,
        offset: int = 0,
        strides: Any = None,
        order: Any = None,
    ) -> Tensor:
        if buffer is not None or offset or strides is not None:
            raise TypeError(
                "a Tensor is a handle on a value, so ndarray() takes no buffer, offset or strides here; "
                "fgrad.numpy.frombuffer copies a buffer, reshape and slices take parts of it"
            )
        return empty(shape, dtype, order)

    def __class_getitem__(cls, item: Any) -> Any:
        """Return the alias that annotations use, which is NumPy's."""
        return np.ndarray[item]


def _like(make: Callable[..., Tensor], a: Any, dtype: Any, order: Any, shape: Any, device: Any) -> Tensor:
    a = as_value(a)
    made = make(
        a.shape if shape is None else shape,
        a.dtype if dtype is None else dtype,
        order if order in {"C", "F"} else "C",
        device=device_of(a) if device is None else device,
    )
    return made if order in {"C", "F"} else laid_out_like(made, a)


@implements(np.zeros_like)
def zeros_like(
    a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    """Return a Tensor of zeros of the shape and dtype of `a`.

    Returns:
        Tensor of the shape and dtype of `a`, or of those given.

    Derivative:
        None: it is a constant; `a` gets no gradient.

    Example:
        >>> fnp.zeros_like(np.array([3.0, 4.0]))
        Tensor([0., 0.])
    """
    return _like(zeros, a, dtype, order, shape, device)


@implements(np.ones_like)
def ones_like(
    a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    """Return a Tensor of ones of the shape and dtype of `a`.

    Returns:
        Tensor of the shape and dtype of `a`, or of those given.

    Derivative:
        None: it is a constant; `a` gets no gradient.

    Example:
        >>> fnp.ones_like(np.array([3, 4]))
        Tensor([1, 1])
    """
    return _like(ones, a, dtype, order, shape, device)


@implements(np.empty_like)
def empty_like(
    prototype: Any,
    /,
    dtype: Any = None,
    order: Any = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    """Return a Tensor to be filled, of the shape and dtype of `prototype`; it starts with zeros.

    Returns:
        Tensor of the shape and dtype of `prototype`, or of those given.

    Derivative:
        None: it starts as a constant.

    Example:
        >>> fnp.empty_like(np.array([1, 2])).shape
        (2,)
    """
    return _like(empty, prototype, dtype, order, shape, device)


@implements(np.full_like)
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    """Return a Tensor filled with `fill_value`, of the shape and dtype of `a`.

    Returns:
        Tensor of the shape and dtype of `a`, or of those given.

    Derivative:
        Of `fill_value` as in `full`; `a` gives only its shape.

    Example:
        >>> fnp.full_like(np.zeros(3), 2.5)
        Tensor([2.5, 2.5, 2.5])
    """
    a = as_value(a)
    kind = a.dtype if dtype is None else np.dtype(dtype)
    if fill_value.__class__ in PYTHON and not (fill_value.__class__ is complex and kind.kind not in "cb"):
        made = np.empty((), kind)
        np.copyto(made, fill_value, casting="unsafe")  # as NumPy's full_like does, but not its full
        fill_value = made
    staged = (
        isinstance(fill_value, Tensor) and buffer_of(fill_value) is None
    )  # it is where it will be computed
    where = device_of(a) if device is None and not staged else device
    lengths, fixed = a.shape if shape is None else shape, order in {"C", "F"}
    y = full(lengths, fill_value, kind, order if fixed else "C", device=where)
    return y if fixed else laid_out_like(y, a)


def _placed(made: Any, device: Any) -> Tensor:
    """Return a new array of NumPy as Tensor on a device."""
    make = maker(device)
    return wrap(made if make is np else make.array(made))


@implements(np.arange)
def arange(*args: Any, dtype: Any = None, device: Any = None, like: Any = None, **ends: Any) -> Tensor:
    """Return evenly spaced numbers: `arange(stop)`, `arange(start, stop, step=1, dtype=None)`.

    Args:
        *args: stop; or start, stop, step and dtype.
        dtype: NumPy dtype; None promotes the numbers.
        device: where to make it; None: as `default_device` says.
        like: taken for NumPy's sake.
        **ends: start, stop and step by name.

    Returns:
        Tensor of start + i * step for as many i as lie before stop, which values decide once.

    Derivative:
        Of start + i * step in start and step; stop only decides how many numbers there are.

    Example:
        >>> fnp.arange(1.0, 4.0)
        Tensor([1., 2., 3.])
        >>> fg.grad(lambda step: fnp.arange(0.0, 3 * step.detach(), step).sum())(0.5)
        np.float64(3.0)
    """
    if not any(isinstance(x, Tensor) for x in (*args, *ends.values())):
        make: Callable[..., Any] = np.arange
        return _placed(make(*args, **ends, **({} if dtype is None else {"dtype": dtype})), device)
    if len(args) == 4:
        *args, dtype = args  # type: ignore[assignment]
    names = ("start", "stop", "step")
    given = {**(dict(zip(names, args, strict=False)) if len(args) != 1 else {"stop": args[0]}), **ends}
    if given.get("stop") is None and "start" in given:
        given["stop"] = given.pop("start")
    first, step = given.get("start"), given.get("step")
    place = near(next(x for x in given.values() if isinstance(x, Tensor)))
    plain = {k: number(v, "arange") for k, v in given.items() if v is not None}
    line = np.arange(plain.get("start", 0), plain["stop"], plain.get("step", 1))
    if line.size > 2 and dtype is not None and np.dtype(dtype).kind == "b":
        raise TypeError("arange() is only supported for booleans when the result has at most length 2.")
    if not any(isinstance(x, Tensor) and x.dtype.kind in "fc" for x in (first, step)):
        return wrap(place.array(line, dtype))
    count = place.arange(line.size, dtype=line.dtype)
    y = (0 if first is None else first) + count * (1 if step is None else step)
    made: Tensor = convert(y, line.dtype if dtype is None else np.dtype(dtype))
    return made


arange.__signature__ = inspect.signature(  # type: ignore[attr-defined]
    lambda start_or_stop, /, stop=None, step=1, *, dtype=None, device=None, like=None: None
)


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`, along a new axis; differentiable in both.

    Returns:
        Array (num,), with the shape of the ends around it at `axis`; in `dtype`, else floats. With `retstep`
        also the
        step.

    Raises:
        ValueError: `num` is negative.

    Derivative:
        Linear in both ends: number k has the weight 1 - k / (num - 1) for `start`, the rest for `stop`. Zero
        in an
        integer `dtype`.

    Example:
        >>> fnp.linspace(0.0, 1.0, 5)
        Tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
        >>> fg.grad(lambda stop: fnp.linspace(0.0, stop, 5).sum())(1.0)
        np.float64(2.5)
    """
    if not any(map(holds_tensor, (start, stop))):
        space: Callable[..., Any] = np.linspace  # its overloads want to know whether there is a step
        made = space(start, stop, num, endpoint, retstep, dtype, axis)
        return (_placed(made[0], device), Tensor(made[1])) if retstep else _placed(made, device)
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    kind = promoted(start, stop, 1.0)
    first, last = (convert(x, kind) for x in together(start, stop))
    # downwards: compiled, a sum would not round its product as a difference does, nor zero be zero
    gap = binary("subtract", first, last)
    shape = (num, *(1,) * len(gap.shape))
    line = near(gap).arange(num, dtype=np.finfo(kind).dtype).reshape(shape)
    parts = num - 1 if endpoint else num
    step = gap / parts if parts > 0 else Tensor(np.nan)
    if parts <= 0:
        y = line * gap
    elif _has_zero(step):  # the gap may be too small to be divided
        y = line / parts * gap
    else:
        y = line * step
    y = first - y
    if endpoint and num > 1:  # exactly
        y = bind(
            "concatenate", y[:-1], _broadcast_to(reshape(last, (1, *last.shape)), (1, *gap.shape)), axis=0
        )
    kind = kind if dtype is None else np.dtype(dtype)
    y = convert(unary("floor", y) if kind.kind in "iu" else y, kind)
    y = _first_to(unordered(y, start, stop), axis)
    return (y, -step) if retstep else y


def _has_zero(x: Any) -> bool:
    found = elements(x)
    return found is not None and bool(np.any(found == 0))


def _first_to(y: Any, axis: int) -> Any:
    """Return `y` with its first axis moved to `axis`."""
    place = normalize_axis_index(axis, len(y.shape))
    order = list(range(1, len(y.shape)))
    order.insert(place, 0)
    return bind("transpose", y, axes=tuple(order)) if place else y


@implements(np.logspace)
def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Return `base` to the powers of `linspace(start, stop)`; differentiable in all three.

    Returns:
        Array (num,), with the shape of the ends around it at `axis`; floats or complex numbers.

    Derivative:
        That of the formula, in `start`, `stop` and `base`.

    Example:
        >>> fnp.logspace(0.0, 2.0, 3)
        Tensor([  1.,  10., 100.])
    """
    if not any(map(holds_tensor, (start, stop, base))):
        return Tensor(np.logspace(start, stop, num, endpoint, base, dtype, axis))
    if np.ndim(base):
        first, last, root = together(start, stop, base)
        rank = max(len(x.shape) for x in (first, last, root))
        start, stop, base = (ones_before(x, rank) for x in (first, last, root))
        place = normalize_axis_index(axis, rank + 1)
        base = reshape(base, (*base.shape[:place], 1, *base.shape[place:]))
    y = unordered(bind("power", base, linspace(start, stop, num, endpoint, axis=axis)), start, stop, base)
    return y if dtype is None else convert(y, np.dtype(dtype))


@implements(np.geomspace)
def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Return `num` numbers from `start` to `stop`, each a constant multiple of the one before.

    Negative and complex ends are rotated to start on the positive axis, as in NumPy, which changes no
    derivative: it is that of start^(1 - i / n) stop^(i / n).

    Returns:
        Array (num,), with the shape of the ends behind or around it at `axis`; floats or complex numbers.

    Raises:
        ValueError: one of the ends is zero.

    Derivative:
        That of the formula in `start` and `stop`; the last number depends on `stop` alone.

    Example:
        >>> fnp.geomspace(1.0, 1000.0, 4)
        Tensor([   1.,   10.,  100., 1000.])
    """
    if not any(map(holds_tensor, (start, stop))):
        return Tensor(np.geomspace(start, stop, num, endpoint, dtype, axis))
    first, last = together(start, stop)
    if _has_zero(first) or _has_zero(last):
        raise ValueError("Geometric sequence cannot include zero")
    kind = np.result_type(first.dtype, last.dtype, 1.0, np.dtype(dtype or float))
    first, last = convert(first, kind), convert(last, kind)
    turn = unary("sign", stop_gradient(first) if isinstance(first, Tensor) else first)
    a, b = first / turn, last / turn
    y = logspace(unary("log10", a), unary("log10", b), num, endpoint)
    ends = [_broadcast_to(reshape(x, (1, *x.shape)), (1, *y.shape[1:])) for x in (a, b)]
    if y.shape[0] > 0:
        exact = 1 if y.shape[0] > 1 and endpoint else 0
        middle = y[1 : y.shape[0] - exact]
        y = bind("concatenate", ends[0], middle, *ends[1 : 1 + exact], axis=0)
    y = _first_to(unordered(y * turn, start, stop), axis)
    return convert(y, kind if dtype is None else np.dtype(dtype))


@implements(np.eye)
def eye(
    N: int,  # noqa: N803 -- NumPy's names
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: Any = float,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Tensor:
    """Return a Tensor with ones on the diagonal `k` and zeros elsewhere.

    Returns:
        Tensor (N, M), with M = N by default; in `dtype`, float64 by default.

    Derivative:
        None: it is a constant.

    Example:
        >>> fnp.eye(2, 3, k=1)
        Tensor([[0., 1., 0.],
                [0., 0., 1.]])
    """
    return _placed(np.eye(N, M, k, dtype, order), device)


@implements(np.identity)
def identity(n: int, dtype: Any = None, *, like: Any = None) -> Tensor:
    """Return the identity matrix of n rows.

    Returns:
        Tensor (n, n), in `dtype`, float64 by default.

    Derivative:
        None: it is a constant.

    Example:
        >>> fnp.identity(2)
        Tensor([[1., 0.],
                [0., 1.]])
    """
    return eye(n, dtype=dtype)


@implements(np.tri)
def tri(
    N: int,  # noqa: N803 -- NumPy's names
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: Any = float,
    *,
    like: Any = None,
) -> Tensor:
    """Return a Tensor with ones on and below the diagonal `k` and zeros elsewhere.

    Returns:
        Tensor (N, M), with M = N by default; in `dtype`, float64 by default.

    Derivative:
        None: it is a constant.

    Example:
        >>> fnp.tri(2, 3)
        Tensor([[1., 0., 0.],
                [1., 1., 0.]])
    """
    return wrap(maker().array(np.tri(N, M, k, dtype)))


def fromiter(iter: Iterable[Any], dtype: Any, count: int = -1, *, like: Any = None) -> Tensor:
    """Return a vector of the elements of an iterable, numbers and Tensors; derivatives flow to these.

    Returns:
        Tensor (count,), or of as many elements as the iterable has; in `dtype`.

    Raises:
        ValueError: the iterable has fewer than `count` elements.

    Derivative:
        The identity: each element has the gradient of its place.

    Example:
        >>> fnp.fromiter((n**2 for n in range(4)), dtype=float)
        Tensor([0., 1., 4., 9.])
    """
    found = list(iter) if count < 0 else [x for x, _ in zip(iter, range(count), strict=False)]
    if not any(isinstance(x, Tensor) for x in found):
        return Tensor(np.fromiter(found, dtype, count))
    if len(found) < count:
        raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(found)} items.")
    return array(found, dtype)


def frombuffer(
    buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0, *, like: Any = None
) -> Tensor:
    r"""Return a vector that holds a copy of the elements in a buffer.

    Returns:
        Tensor (count,), or of as many elements as the buffer has; in `dtype`.

    Raises:
        ValueError: the buffer ends within an element, or has fewer than `count`.

    Derivative:
        None: it is a constant.

    Differences from NumPy:
        Copies; the result can be written to, and the buffer does not change.

    Example:
        >>> fnp.frombuffer(b"\x01\x02", dtype=np.uint8)
        Tensor([1, 2], dtype=uint8)
    """
    return Tensor(np.frombuffer(buffer, dtype, count, offset))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a Tensor that holds a copy of an array of another library; a Tensor keeps its derivatives.

    Args:
        x: what has `__dlpack__`.
        device: where to make it; None: as `default_device` says.
        copy: None or True, but for Tensors: the memory of others may change.

    Returns:
        Tensor of the shape and dtype of `x`.

    Raises:
        ValueError: `copy` is False.

    Derivative:
        The identity for Tensors; arrays of other libraries are constants, and their own derivatives end here.

    Differences from NumPy:
        Copies, so that neither library sees what the other writes; `copy=False` is refused where it cannot be
        kept.

    Example:
        >>> fnp.from_dlpack(np.array([1.0, 2.0]))
        Tensor([1., 2.])
    """
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    if copy is False:
        raise ValueError("a Tensor cannot share the memory of an array, so copy=False is impossible")
    return Tensor(x, None, device) if is_foreign(x) else Tensor(np.from_dlpack(x, device=device))


@implements(np.fromfunction)
def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any
) -> Any:
    """Return what a function gives for the coordinates of an array, each an array of its `shape`.

    Returns:
        What the function returns for len(shape) arrays of that shape, in `dtype`.

    Derivative:
        That of the function; the coordinates are constants.

    Example:
        >>> fnp.fromfunction(lambda i, j: 10.0 * i + j, (2, 3))
        Tensor([[ 0.,  1.,  2.],
                [10., 11., 12.]])
    """
    coordinates = np.indices(shape, dtype=dtype)
    made = function(*(coordinates if maker() is np else map(Tensor, coordinates)), **kwargs)
    return Tensor(made) if isinstance(made, np.ndarray | np.generic) else made


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """Return the coordinates of an array's elements: (n, *shape), or n of them if `sparse`.

    Returns:
        Tensor (len(dimensions), *dimensions) of `dtype`; with `sparse` a tuple of open grids.

    Derivative:
        None: these are constants.

    Example:
        >>> fnp.indices((2, 2))[0]
        Tensor([[0, 0],
                [1, 1]])
    """
    coordinates: Callable[..., Any] = np.indices  # its overloads want to know whether it is sparse
    made = coordinates(dimensions, dtype, sparse)
    return tuple(map(Tensor, made)) if sparse else Tensor(made)


@implements(np.meshgrid)
def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> tuple[Any, ...]:
    """Return coordinate arrays of the grid that one-dimensional arrays span.

    Returns:
        One array for each vector, all of one shape: (n2, n1, ...) for "xy", (n1, n2, ...) for "ij"; `sparse`:
        broadcastable ones. Dtypes stay.

    Raises:
        ValueError: another `indexing`.

    Derivative:
        Of each vector: the sums of the cotangents over the axes along which it is repeated.

    Example:
        >>> x, y = fnp.meshgrid(np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0]))
        >>> x.shape
        (3, 2)
    """
    if indexing not in {"xy", "ij"}:
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    vectors = [reshaped(v, (v.size,)) for v in together(*xi)]
    if not any(isinstance(v, Tensor) for v in vectors):
        return tuple(np.meshgrid(*vectors, indexing=indexing, sparse=sparse, copy=copy))  # type: ignore[call-overload]
    n = len(vectors)
    order = list(range(n))
    if indexing == "xy" and n > 1:
        order[:2] = [1, 0]
    shape = [0] * n
    for axis, v in zip(order, vectors, strict=True):
        shape[axis] = v.size
    grids = [
        reshaped(v, tuple(v.size if i == a else 1 for i in range(n)))
        for a, v in zip(order, vectors, strict=True)
    ]
    grids = alike(grids if sparse else [repeated(g, tuple(shape)) for g in grids])
    return tuple(recopied(g, "C") for g in grids) if copy else tuple(grids)
