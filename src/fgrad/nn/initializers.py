"""First weights: `init(key, shape, dtype)`, whose numbers are those that JAX's `nn.initializers` draw.

Keys are those of `fgrad.random.threefry`. Floats are float32 unless a dtype is given.

Example:
    >>> from fgrad.nn import initializers
    >>> from fgrad.random import threefry
    >>> init = initializers.he_normal()
    >>> init(threefry.key(0), (784, 128)).std().round(3)  # sqrt(2 / 784) = 0.0505
    np.float32(0.051)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.docstrings import completes
from fgrad.names import offered as _offered
from fgrad.random import threefry

__all__ = [
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "zeros",
]

Initializer = Callable[..., Any]
MODES = {"fan_in": (1.0, 0.0), "fan_out": (0.0, 1.0), "fan_avg": (0.5, 0.5)}  # weights of inputs and outputs
UNITS: dict[str, tuple[dict[str, Any], float]] = {  # which numbers are drawn, and their standard deviation
    "normal": ({}, 1.0),
    "truncated_normal": ({"lower": -2, "upper": 2}, 0.87962566103423978),
    "uniform": ({"minval": -1, "maxval": 1}, 3**-0.5),
}
RADII = {  # the standard deviations of complex numbers in a disk
    "truncated_normal": 0.95311164380491208,
    "uniform": 2**-0.5,
}

_array = completes(
    {"key": "two words.", "shape": "of the array.", "dtype": "of the array; None: float32."},
    Returns="An array.",
)
_initializer = completes(
    {"dtype": "of weights, where none is given to `init`."},
    Returns="`init(key, shape, dtype)`, which returns an array.",
)
_scaling = completes(
    {
        "args": "what `variance_scaling` takes behind the distribution.",
        "axes": "the same by name.",
    },
    Returns="`init(key, shape, dtype)`, which returns an array of at least two axes.",
)


class Initializers:
    """The initializers over modules that draw and compute, for arrays of any kind.

    Args:
        random: has `normal`, `uniform`, `truncated_normal`, `orthogonal` and `split`, as
            `fgrad.random.threefry`.
        numpy: a namespace of NumPy's functions.
    """

    def __init__(self, random: Any, numpy: Any) -> None:
        self.random: Any = random
        self.numpy: Any = numpy

    def dtype(self, given: Any) -> Any:
        """Return the dtype of weights, None where no one is given."""
        return np.dtype(np.float32 if given is None else given)

    def initializer(self, draw: Callable[[Any, tuple[int, ...], Any], Any], usual: Any = None) -> Initializer:
        """Return `init(key, shape, dtype)` of what draws arrays, with the dtype where none is given."""

        def init(key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
            return draw(key, tuple(shape), self.dtype(usual if dtype is None else dtype))

        return init

    @_initializer
    def constant(self, value: Any, dtype: Any = None) -> Initializer:
        """Return the initializer of one value.

        Args:
            value: number, or array that broadcasts to the shape.

        Example:
            >>> constant(0.5)(None, (2,))
            Tensor([0.5, 0.5], dtype=float32)
        """
        return self.initializer(lambda _, shape, kind: self.numpy.full(shape, value, kind), dtype)

    @_array
    def zeros(self, key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        """Return zeros: an initializer, whose key may be anything.

        Example:
            >>> zeros(None, (2,))
            Tensor([0., 0.], dtype=float32)
        """
        return self.constant(0)(key, shape, dtype)

    @_array
    def ones(self, key: Any, shape: Sequence[int], dtype: Any = None) -> Any:
        """Return ones: an initializer, whose key may be anything.

        Example:
            >>> ones(None, (2,))
            Tensor([1., 1.], dtype=float32)
        """
        return self.constant(1)(key, shape, dtype)

    @_initializer
    def normal(self, stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
        """Return the initializer of normal numbers.

        Args:
            stddev: their standard deviation; the mean is zero.

        Example:
            >>> init = normal(0.5)
            >>> init(fg.random.threefry.key(0), (1000,)).std().round(1)
            np.float32(0.5)
        """
        return self._drawn("normal", stddev, dtype)

    @_initializer
    def uniform(self, scale: Any = 1e-2, dtype: Any = None) -> Initializer:
        """Return the initializer of uniform numbers of [0, scale).

        Args:
            scale: end of the interval.

        Example:
            >>> init = uniform(3.0)
            >>> init(fg.random.threefry.key(0), (1000,)).max().round(1)
            np.float32(3.0)
        """
        return self._drawn("uniform", scale, dtype)

    @_initializer
    def truncated_normal(
        self, stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
    ) -> Initializer:
        """Return the initializer of standard normal numbers between limits, times a factor.

        Args:
            stddev: the factor, which is not the standard deviation of what is drawn.
            lower: least number, before it is multiplied.
            upper: largest number.

        Example:
            >>> init = truncated_normal(2.0)
            >>> bool(abs(init(fg.random.threefry.key(0), (1000,))).max() <= 4)
            True
        """
        return self._drawn("truncated_normal", stddev, dtype, lower=lower, upper=upper)

    def _drawn(self, name: str, scale: Any, dtype: Any, **limits: Any) -> Initializer:
        def draw(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
            found = getattr(self.random, name)(key, **limits, shape=shape, dtype=kind)
            return found * self._factor(scale, kind)

        return self.initializer(draw, dtype)

    def _factor(self, scale: Any, kind: Any) -> Any:
        return kind.type(scale) if isinstance(scale, int | float) else self.numpy.asarray(scale, kind)

    @_initializer
    def orthogonal(self, scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
        """Return the initializer of matrices with orthonormal columns (or rows, if there are less), scaled.

        Args:
            scale: the factor.
            column_axis: the axis along which there are columns; the others together are rows.

        Raises:
            ValueError: a shape of one axis.

        Example:
            >>> q = orthogonal()(fg.random.threefry.key(0), (3, 2))
            >>> (q.T @ q).round(4) + 0.0
            array([[1., 0.],
                   [0., 1.]], dtype=float32)
        """

        def draw(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
            if len(shape) < 2:
                raise ValueError(f"orthogonal needs at least two axes, not shape {shape}")
            columns = shape[column_axis]
            if not math.prod(shape):
                return self.numpy.zeros(shape, kind)
            q = self.random.orthogonal(key, math.prod(shape) // columns, (), kind, columns)
            rows = np.delete(shape, column_axis).tolist()
            return self.numpy.moveaxis(q.reshape(*rows, columns), -1, column_axis) * self._factor(scale, kind)

        return self.initializer(draw, dtype)

    @_initializer
    def variance_scaling(
        self,
        scale: float,
        mode: str,
        distribution: str,
        in_axis: Any = -2,
        out_axis: Any = -1,
        batch_axis: Any = (),
        dtype: Any = None,
    ) -> Initializer:
        """Return the initializer of weights whose variance is `scale` over the number of inputs or outputs.

        Args:
            scale: the factor.
            mode: "fan_in" divides by the number of inputs of an output, "fan_out" by that of outputs of an
                input, "fan_avg" by their mean.
            distribution: "normal", "truncated_normal" or "uniform".
            in_axis: axis or axes of inputs.
            out_axis: axis or axes of outputs.
            batch_axis: axes that count for neither; others are those of windows, and count for both.

        Raises:
            ValueError: another mode or distribution; a shape of one axis.

        Source:
            Glorot & Bengio (2010); He et al. (2015); LeCun et al. (1998).

        Example:
            >>> init = variance_scaling(2.0, "fan_in", "normal")
            >>> init(fg.random.threefry.key(0), (200, 100)).std().round(2)  # sqrt(2 / 200)
            np.float32(0.1)
        """
        if mode not in MODES or distribution not in UNITS:
            raise ValueError(f"variance_scaling has no mode {mode!r} with distribution {distribution!r}")

        def draw(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
            if len(shape) <= 1:
                raise ValueError(f"variance_scaling needs at least two axes, not shape {shape}")
            given = (np.atleast_1d(np.asarray(axes, int)) for axes in (in_axis, out_axis, batch_axis))
            ins, outs, batches = (math.prod(shape[a] for a in axes) for axes in given)
            field = math.prod(shape) / ins / outs / batches
            fans = ins * field, outs * field
            variance = scale / sum(weight * fan for weight, fan in zip(MODES[mode], fans, strict=True))
            limits, deviation = UNITS[distribution]
            if kind.kind == "c" and distribution in RADII:
                drawn, deviation = self._in_disk(key, shape, kind, distribution), RADII[distribution]
            else:
                drawn = getattr(self.random, distribution)(key, **limits, shape=shape, dtype=kind)
            return drawn * self._factor(math.sqrt(variance) / deviation, kind)

        return self.initializer(draw, dtype)

    def _in_disk(self, key: Any, shape: tuple[int, ...], kind: Any, distribution: str) -> Any:
        """Return complex numbers in a disk: uniform in the unit disk, or normal within a radius of two."""
        part, np_ = np.dtype(f"f{kind.itemsize // 2}"), self.numpy
        unit, turn = (self.random.uniform(k, shape, part) for k in self.random.split(key))
        squares = unit if distribution == "uniform" else -np_.log(1 - (1 - math.exp(-4)) * unit)
        return np_.sqrt(squares) * np_.exp(kind.type(2j * np.pi) * turn)

    @_scaling
    def glorot_normal(self, *args: Any, **axes: Any) -> Initializer:
        """Return `variance_scaling(1.0, "fan_avg", "truncated_normal")`, also called Xavier's.

        Example:
            >>> glorot_normal()(fg.random.threefry.key(0), (200, 100)).std().round(2)  # sqrt(2 / 300)
            np.float32(0.08)
        """
        return self.variance_scaling(1.0, "fan_avg", "truncated_normal", *args, **axes)

    @_scaling
    def glorot_uniform(self, *args: Any, **axes: Any) -> Initializer:
        """Return `variance_scaling(1.0, "fan_avg", "uniform")`, also called Xavier's.

        Example:
            >>> glorot_uniform()(fg.random.threefry.key(0), (200, 100)).std().round(2)  # sqrt(2 / 300)
            np.float32(0.08)
        """
        return self.variance_scaling(1.0, "fan_avg", "uniform", *args, **axes)

    @_scaling
    def he_normal(self, *args: Any, **axes: Any) -> Initializer:
        """Return `variance_scaling(2.0, "fan_in", "truncated_normal")`, also called Kaiming's.

        Example:
            >>> he_normal()(fg.random.threefry.key(0), (200, 100)).std().round(2)  # sqrt(2 / 200)
            np.float32(0.1)
        """
        return self.variance_scaling(2.0, "fan_in", "truncated_normal", *args, **axes)

    @_scaling
    def he_uniform(self, *args: Any, **axes: Any) -> Initializer:
        """Return `variance_scaling(2.0, "fan_in", "uniform")`, also called Kaiming's.

        Example:
            >>> he_uniform()(fg.random.threefry.key(0), (200, 100)).std().round(2)  # sqrt(2 / 200)
            np.float32(0.1)
        """
        return self.variance_scaling(2.0, "fan_in", "uniform", *args, **axes)

    @_scaling
    def lecun_normal(self, *args: Any, **axes: Any) -> Initializer:
        """Return `variance_scaling(1.0, "fan_in", "truncated_normal")`.

        Example:
            >>> lecun_normal()(fg.random.threefry.key(0), (200, 100)).std().round(2)  # sqrt(1 / 200)
            np.float32(0.07)
        """
        return self.variance_scaling(1.0, "fan_in", "truncated_normal", *args, **axes)

    @_scaling
    def lecun_uniform(self, *args: Any, **axes: Any) -> Initializer:
        """Return `variance_scaling(1.0, "fan_in", "uniform")`.

        Example:
            >>> lecun_uniform()(fg.random.threefry.key(0), (200, 100)).std().round(2)  # sqrt(1 / 200)
            np.float32(0.07)
        """
        return self.variance_scaling(1.0, "fan_in", "uniform", *args, **axes)


_OWN = Initializers(threefry, fnp)
zeros: Initializer = _OWN.zeros
ones: Initializer = _OWN.ones
constant: Callable[..., Initializer] = _OWN.constant
normal: Callable[..., Initializer] = _OWN.normal
uniform: Callable[..., Initializer] = _OWN.uniform
truncated_normal: Callable[..., Initializer] = _OWN.truncated_normal
orthogonal: Callable[..., Initializer] = _OWN.orthogonal
variance_scaling: Callable[..., Initializer] = _OWN.variance_scaling
glorot_normal: Callable[..., Initializer] = _OWN.glorot_normal
glorot_uniform: Callable[..., Initializer] = _OWN.glorot_uniform
he_normal: Callable[..., Initializer] = _OWN.he_normal
he_uniform: Callable[..., Initializer] = _OWN.he_uniform
lecun_normal: Callable[..., Initializer] = _OWN.lecun_normal
lecun_uniform: Callable[..., Initializer] = _OWN.lecun_uniform


def __dir__() -> list[str]:
    return _offered(globals())
