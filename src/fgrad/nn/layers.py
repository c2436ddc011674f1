"""Layers as pairs of functions: `shape, params = init(key, shape)`, and `out = apply(params, inputs)`.

There are no objects that hold parameters: `params` are trees, as everywhere in fgrad. Keys are those of
`fgrad.random.threefry`; weights are the numbers that `jax.example_libraries.stax` draws.

Example:
    >>> from fgrad.nn import layers
    >>> from fgrad.random import threefry
    >>> init, apply = layers.serial(layers.dense(128), layers.relu, layers.dense(10), layers.log_softmax)
    >>> shape, params = init(threefry.key(0), (-1, 784))
    >>> shape, [p[0].shape for p in params if p]
    ((-1, 10), [(784, 128), (128, 10)])
    >>> apply(params, np.ones((2, 784), np.float32)).shape
    (2, 10)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fgrad import nn as functions
from fgrad import numpy as fnp
from fgrad.docstrings import completes
from fgrad.names import offered as _offered
from fgrad.nn.initializers import Initializers
from fgrad.random import threefry

__all__ = [
    "concatenated",
    "dense",
    "elementwise",
    "elu",
    "exp",
    "fan_out",
    "flat",
    "gelu",
    "identity",
    "leaky_relu",
    "log_softmax",
    "parallel",
    "relu",
    "selu",
    "serial",
    "sigmoid",
    "softmax",
    "softplus",
    "summed",
    "tanh",
]

Layer = tuple[Callable[..., Any], Callable[..., Any]]

_layer = completes({}, Returns="A pair of functions, `init` and `apply`.")


class Layers:
    """The layers over modules that draw and compute, for arrays of any kind.

    Args:
        random: as of `Initializers`.
        numpy: a namespace of NumPy's functions.
        initializers: whose weights are the usual ones.
    """

    def __init__(self, random: Any, numpy: Any, initializers: Initializers) -> None:
        self.random: Any = random
        self.numpy: Any = numpy
        self.initializers: Initializers = initializers

    @_layer
    def elementwise(self, function: Any, **options: Any) -> Layer:
        """Return the layer of a function that keeps the shape.

        Args:
            function: takes an array, and options.
            options: what else it takes, by name.

        Example:
            >>> _, apply = elementwise(np.clip, a_min=0, a_max=1)
            >>> apply((), np.array([-1.0, 0.5, 2.0]))
            array([0. , 0.5, 1. ])
        """
        return lambda _, shape: (shape, ()), lambda params, inputs, **_: function(inputs, **options)

    @_layer
    def dense(self, out_dim: int, W_init: Any = None, b_init: Any = None) -> Layer:  # noqa: N803
        """Return the layer of an affine map of the last axis, `inputs @ params[0] + params[1]`.

        Args:
            out_dim: the length of the last axis of outputs.
            W_init: initializer of the matrix; None: `glorot_normal()`.
            b_init: initializer of the vector; None: `normal()`.

        Example:
            >>> from fgrad.nn.initializers import zeros
            >>> init, apply = dense(2, b_init=zeros)
            >>> shape, (w, b) = init(fg.random.threefry.key(0), (-1, 3))
            >>> shape, w.shape, b
            ((-1, 2), (3, 2), Tensor([0., 0.], dtype=float32))
        """
        weights = self.initializers.glorot_normal() if W_init is None else W_init
        biases = self.initializers.normal() if b_init is None else b_init

        def init(key: Any, shape: Any) -> Any:
            first, second = self.random.split(key)
            params = weights(first, (shape[-1], out_dim)), biases(second, (out_dim,))
            return (*shape[:-1], out_dim), params

        return init, lambda params, inputs, **_: self.numpy.asarray(inputs) @ params[0] + params[1]

    def flat(self) -> Layer:
        """Return the layer that joins all axes but the first."""
        return (
            lambda _, shape: ((shape[0], math.prod(shape[1:])), ()),
            lambda params, inputs, **_: self.numpy.reshape(inputs, (inputs.shape[0], -1)),
        )

    @_layer
    def concatenated(self, axis: int = -1) -> Layer:
        """Return the layer that joins several inputs along an axis.

        Args:
            axis: the axis.

        Example:
            >>> init, _ = concatenated()
            >>> init(None, [(-1, 2), (-1, 3)])[0]
            (-1, 5)
        """

        def init(_: Any, shapes: Any) -> Any:
            shape = list(shapes[0])
            shape[axis] = sum(s[axis] for s in shapes)
            return (tuple(shape), ())

        return init, lambda params, inputs, **_: self.numpy.concatenate(inputs, axis)

    def summed(self) -> Layer:
        """Return the layer that adds several inputs up."""
        return lambda _, shapes: (shapes[0], ()), lambda params, inputs, **_: sum(inputs)

    @_layer
    def fan_out(self, num: int) -> Layer:
        """Return the layer that gives its input to several.

        Args:
            num: how many.

        Example:
            >>> _, apply = fan_out(2)
            >>> apply((), 1.0)
            [1.0, 1.0]
        """
        return lambda _, shape: ([shape] * num, ()), lambda params, inputs, **_: [inputs] * num

    @_layer
    def serial(self, *layers: Layer) -> Layer:
        """Return layers one after the other; an option `rng` is a key, which each layer gets a part of.

        Args:
            layers: pairs of functions, whose params are a list.

        Example:
            >>> _, apply = serial(relu, elementwise(np.sqrt))
            >>> apply([(), ()], np.array([-1.0, 4.0]))
            array([0., 2.])
        """
        inits, applies = zip(*layers, strict=True) if layers else ((), ())

        def init(key: Any, shape: Any) -> Any:
            params = []
            for one in inits:
                key, mine = self.random.split(key)
                shape, found = one(mine, shape)
                params.append(found)
            return shape, params

        def apply(params: Any, inputs: Any, **options: Any) -> Any:
            for f, p, given in zip(applies, params, self._keys(options, len(applies)), strict=True):
                inputs = f(p, inputs, **given)
            return inputs

        return init, apply

    @_layer
    def parallel(self, *layers: Layer) -> Layer:
        """Return layers side by side, each with an input of its own.

        Args:
            layers: pairs of functions, whose params are a list, and so are shapes, inputs and outputs.

        Example:
            >>> _, apply = parallel(identity, relu)
            >>> apply([(), ()], [np.array([-1.0]), np.array([-1.0])])
            [array([-1.]), array([0.])]
        """
        inits, applies = zip(*layers, strict=True)

        def init(key: Any, shapes: Any) -> Any:
            keys = self.random.split(key, len(inits))
            found = [one(k, shape) for one, k, shape in zip(inits, keys, shapes, strict=True)]
            return [shape for shape, _ in found], [params for _, params in found]

        def apply(params: Any, inputs: Any, **options: Any) -> Any:
            parts = zip(applies, params, inputs, self._keys(options, len(applies)), strict=True)
            return [f(p, x, **given) for f, p, x, given in parts]

        return init, apply

    def _keys(self, options: dict[str, Any], count: int) -> list[dict[str, Any]]:
        """Return the options of each layer, of which each has a key of its own."""
        key = options.pop("rng", None)
        keys = [None] * count if key is None else list(self.random.split(key, count))
        return [options | {"rng": k} for k in keys]


_OWN = Layers(threefry, fnp, Initializers(threefry, fnp))
elementwise: Callable[..., Layer] = _OWN.elementwise
dense: Callable[..., Layer] = _OWN.dense
concatenated: Callable[..., Layer] = _OWN.concatenated
fan_out: Callable[..., Layer] = _OWN.fan_out
serial: Callable[..., Layer] = _OWN.serial
parallel: Callable[..., Layer] = _OWN.parallel
flat: Layer = _OWN.flat()
summed: Layer = _OWN.summed()
identity: Layer = elementwise(lambda x: x)
elu: Layer = elementwise(functions.elu)
exp: Layer = elementwise(fnp.exp)
gelu: Layer = elementwise(functions.gelu)
leaky_relu: Layer = elementwise(functions.leaky_relu)
log_softmax: Layer = elementwise(functions.log_softmax)
relu: Layer = elementwise(functions.relu)
selu: Layer = elementwise(functions.selu)
sigmoid: Layer = elementwise(functions.sigmoid)
softmax: Layer = elementwise(functions.softmax)
softplus: Layer = elementwise(functions.softplus)
tanh: Layer = elementwise(fnp.tanh)


def __dir__() -> list[str]:
    return _offered(globals())
