"""The two sources of random numbers, a Generator of NumPy and a key, behind one set of names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.backend.array import mixed
from fgrad.backend.devices import CPU
from fgrad.core.aval import Shape
from fgrad.core.dispatch import binary, bind
from fgrad.core.placement import near
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import current
from fgrad.numpy.arrays import as_value, next_to
from fgrad.numpy.indexing import stop_gradient
from fgrad.numpy.joining import stack
from fgrad.ops import functions
from fgrad.ops.linear import broadcast_to, convert, reshape
from fgrad.ops.requirements import require
from fgrad.random.keys import WORD, fractions, is_key, lengths, split

WIDTHS = {"scale", "sigma"}  # parameters that may be zero; other limited ones are positive


def is_generator(source: Any) -> bool:
    """Return whether `source` is a Generator; False for a key.

    Raises:
        TypeError: it is neither, or a Generator where the function runs once for many examples or calls.
    """
    if is_key(source):
        return False
    if not isinstance(source, np.random.Generator):
        kind = type(source).__name__
        given = f"{source.dtype} of shape {tuple(source.shape)}" if hasattr(source, "dtype") else kind
        raise TypeError(
            "the first argument of a sampler is its source of randomness, numpy.random.default_rng(seed) "
            f"or fgrad.random.key(seed), not {given}"
        )
    traces = [t for t in current().traces if not t.is_tape]
    if traces and traces[-1].drawn is not None and len(traces) == 1:
        traces[-1].drawn.append((source.bit_generator, source.bit_generator.state))
        return True
    if traces:
        raise TypeError(
            f"a numpy.random.Generator inside {traces[-1].title} would draw only once for all examples or "
            "calls; pass a key as argument instead (fgrad.random.split(key, n) makes one for each), or draw "
            "outside"
        )
    return True


def size_of(size: Any, *params: Any) -> Shape:
    """Return the shape of the result: `size`, or that to which the parameters broadcast.

    Raises:
        ValueError: the parameters do not broadcast to `size`.
    """
    common = np.broadcast_shapes(
        *(np.shape(p) if not hasattr(p, "shape") else tuple(p.shape) for p in params)
    )
    if size is None:
        return common
    shape = lengths(size)
    if np.broadcast_shapes(common, shape) != shape:
        raise ValueError(f"parameters of shape {common} do not broadcast to size {shape}")
    return shape


def read(dtype: Any, *free: Any, **limited: Any) -> list[Any]:
    """Return the dtype of samples, and their real parameters as arrays or Tensors of it.

    Raises:
        TypeError: the dtype or a parameter is not real, or they are on different devices.
        ValueError: one of the `limited` ones is negative, or zero.
    """
    kind = np.dtype(dtype)
    if kind.kind != "f":
        raise TypeError(f"samples of a continuous distribution have a real floating-point dtype, not {kind}")
    given = (*free, *limited.values())
    found = [next_to(x, *given) if isinstance(x, list | tuple) else as_value(x) for x in given]
    make = home(*found)
    for x in found:
        if make is not np and isinstance(x, np.ndarray) and x.ndim:
            raise mixed(make.name, CPU)
        if x.dtype.kind not in "fiub":
            raise TypeError(f"the parameters of a distribution are real numbers, not {x.dtype}")
    values = [convert(x, kind) for x in found]
    for name, x in zip(limited, values[len(free) :], strict=True):
        demand(name, x, positive=name not in WIDTHS)
    return [kind, *values]


def standard(draw: Any, source: Any, size: Any, dtype: Any, /, *free: Any, **limited: Any) -> list[Any]:
    """Return the parameters of samples, and what `draw` draws for them."""
    kind, *values = read(dtype, *free, **limited)
    return [*values, draw(source, size_of(size, *values), kind, *values)]


def home(*params: Any) -> Any:
    """Return what makes arrays where the first parameter on a device is: NumPy itself if none is."""
    return next((make for p in params if (make := near(p)) is not np), np)


def sent(y: Any, *params: Any) -> Any:
    """Return numbers that a Generator drew, where the first parameter on a device is."""
    make = home(*params)
    return y if make is np or not isinstance(y, np.ndarray) else wrap(make.array(y))


def keyed(source: Any, *params: Any) -> Any:
    """Return `source`, or where a parameter is on a device a key there, whose words a Generator draws.

    A Generator cannot reject samples by values that are on a device; it moves on by the two words.
    """
    make = home(*params)
    if make is np or not is_generator(source):
        return source
    return wrap(make.array(source.integers(0, 1 << 32, 2, WORD)))


def demand(name: str, x: Any, *, positive: bool = False) -> None:
    """Refuse a parameter that is negative, or zero if it must be `positive`.

    Raises:
        ValueError: an element is out of range, or NaN.
    """
    good = binary("greater" if positive else "greater_equal", x, 0)
    require(good, ValueError, f"{name} {'<= 0' if positive else '< 0'}")


def given(y: Any, *params: Any) -> Any:
    """Return a sample that the Generator made, as Tensor if one of the parameters is a Tensor."""
    return wrap(y) if not isinstance(y, Tensor) and any(isinstance(p, Tensor) for p in params) else y


def plain(x: Any) -> Any:
    """Return the value of a parameter, whoever follows it."""
    return np.asarray(x._value if isinstance(x, Tensor) else x)


def drawn(
    source: Any,
    method: str,
    operands: Mapping[str, Any],
    shape: Shape,
    kind: np.dtype[Any],
    /,
    **options: Any,
) -> Any:
    """Return what a method of NumPy's Generator gives for parameters that are constants.

    A key is expanded to a stream of NumPy's Philox; its numbers follow NumPy's own policy about versions.
    Where parameters or the key are on a device, numbers are made there, in another stream.
    """
    source = keyed(source, *operands.values())
    if is_generator(source):
        values = {name: plain(x) for name, x in operands.items()}
        made = np.asarray(getattr(source, method)(**values, **options), kind).reshape(shape)
        return given(made, *operands.values())
    constants = [stop_gradient(as_value(x)) for x in operands.values()]
    return bind(
        "draw",
        source,
        *constants,
        method=method,
        names=tuple(operands),
        options=options,
        shape=shape,
        dtype=kind,
    )


def several(source: Any, n: int) -> Sequence[Any]:
    """Return `n` sources: the Generator itself, or keys."""
    if is_generator(source):
        return [source] * n
    keys = split(source, n)
    return [keys[i] for i in range(n)]


def closed(source: Any, shape: Shape, dtype: np.dtype[Any], *params: Any) -> Any:
    """Return numbers of [0, 1); of a Generator, where the parameters are."""
    short = dtype.itemsize < 4  # numbers next to 1 would be rounded to it
    most = 1 - float(np.finfo(dtype).epsneg)
    if is_generator(source):
        u = source.random(shape, _native(dtype))
        return _cast(np.minimum(u, most) if short else u, dtype, *params)
    u = fractions(source, shape, dtype, open=False)
    return convert(bind("minimum", u, most) if short else u, dtype)


def inner(source: Any, shape: Shape, dtype: np.dtype[Any], *params: Any) -> Any:
    """Return numbers between 0 and 1, both excluded; of a Generator, where the parameters are."""
    if is_generator(source):
        native = _native(dtype)
        u = source.random(shape, native)
        return _cast(np.maximum(u, np.finfo(native).eps / 4), dtype, *params)
    return fractions(source, shape, dtype, open=True)


def normals(source: Any, shape: Shape, dtype: np.dtype[Any], *params: Any) -> Any:
    """Return standard normal numbers; of a Generator where the parameters are.

    From a key they come by the method of Box & Muller (1958).
    """
    if is_generator(source):
        return _cast(source.standard_normal(shape, _native(dtype)), dtype, *params)
    n = math.prod(shape)
    u = fractions(source, ((n + 1) // 2, 2), dtype, open=True)
    radius, angle = functions.sqrt(-2.0 * functions.log(u[:, 0])), (2 * math.pi) * u[:, 1]
    pairs = stack([radius * bind("cos", angle), radius * bind("sin", angle)], -1)
    return convert(reshape(reshape(pairs, (n + n % 2,))[:n], shape), dtype)


def exponentials(source: Any, shape: Shape, dtype: np.dtype[Any], *params: Any) -> Any:
    """Return standard exponential numbers; of a Generator where the parameters are.

    From a key they come by inversion.
    """
    if is_generator(source):
        return _cast(source.standard_exponential(shape, _native(dtype)), dtype, *params)
    return convert(-functions.log(inner(source, shape, dtype)), dtype)


def spread(x: Any, shape: Shape) -> Any:
    """Return a parameter repeated to the shape of the samples."""
    return x if tuple(x.shape) == shape else broadcast_to(x, shape)


def _native(dtype: np.dtype[Any]) -> Any:
    return np.float32 if dtype.itemsize <= 4 else np.float64


def _cast(x: Any, dtype: np.dtype[Any], *params: Any) -> Any:
    return sent(np.asarray(x, dtype), *params)
