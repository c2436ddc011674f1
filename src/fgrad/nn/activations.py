"""Activation functions: element by element, finite for every finite argument, in value and slope.

They are functions of real numbers, but for `sigmoid`; complex ones are a TypeError.
"""

from __future__ import annotations

from typing import Any

from numpy.lib.array_utils import normalize_axis_index

from fgrad.core.dispatch import bind, unary
from fgrad.docstrings import completes
from fgrad.numpy.reductions import inexact
from fgrad.numpy.rounding import clip
from fgrad.ops import functions

_activation = completes(
    {"x": "real array; integers promote to float64."}, Returns="Array of the shape and dtype of `x`."
)


def real(x: Any) -> Any:
    """Return `x` as real numbers of a float dtype.

    Raises:
        TypeError: they are complex.
    """
    x = inexact(x)
    if x.dtype.kind == "c":
        raise TypeError(f"this function takes real numbers, not {x.dtype}: apply it to x.real or abs(x)")
    return x


@_activation
def relu(x: Any) -> Any:
    """Return max(x, 0).

    Derivative:
        1 for x > 0, else 0, at zero too.

    Example:
        >>> fg.nn.relu(np.array([-1.0, 2.0]))
        array([0., 2.])
        >>> fg.grad(fg.nn.relu)(0.0)
        np.float64(0.0)
    """
    return unary("relu", real(x))


@_activation
def relu6(x: Any) -> Any:
    """Return min(max(x, 0), 6).

    Derivative:
        1 for 0 < x < 6, else 0.

    Example:
        >>> fg.nn.relu6(np.array([-1.0, 2.0, 9.0]))
        array([0., 2., 6.])
    """
    return unary("relu6", real(x))


def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """Return x for x >= 0, else `negative_slope` x.

    Args:
        x: real array; integers promote to float64.
        negative_slope: number or array that broadcasts; differentiable.

    Returns:
        Array of the shape of `x`, floats.

    Derivative:
        1 at zero.

    Example:
        >>> fg.nn.leaky_relu(np.array([-1.0, 2.0]))
        array([-0.01,  2.  ])
    """
    return bind("leaky_relu", real(x), _parameter(negative_slope))


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """Return x for x > 0, else alpha (exp(x) - 1).

    Args:
        x: real array; integers promote to float64.
        alpha: number or array that broadcasts; differentiable.

    Returns:
        Array of the shape of `x`, floats.

    Derivative:
        alpha at zero.

    Source:
        Clevert, Unterthiner & Hochreiter (2015), Exponential linear units.

    Example:
        >>> fg.nn.elu(np.array([-1.0, 2.0])).round(4)
        array([-0.6321,  2.    ])
    """
    return bind("elu", real(x), _parameter(alpha))


@_activation
def selu(x: Any) -> Any:
    """Return lambda elu(x, alpha) with the two constants that keep mean 0 and variance 1.

    Derivative:
        lambda alpha at zero.

    Source:
        Klambauer, Unterthiner, Mayr & Hochreiter (2017), Self-normalizing neural networks.

    Example:
        >>> fg.nn.selu(np.array([-1.0, 2.0])).round(4)
        array([-1.1113,  2.1014])
    """
    return unary("selu", real(x))


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """Return x for x > 0, else alpha (exp(x / alpha) - 1), whose slope is continuous.

    Args:
        x: real array; integers promote to float64.
        alpha: positive number or array that broadcasts; differentiable.

    Returns:
        Array of the shape of `x`, floats.

    Source:
        Barron (2017), Continuously differentiable exponential linear units.

    Example:
        >>> fg.nn.celu(np.array([-1.0, 2.0]), 2.0).round(4)
        array([-0.7869,  2.    ])
    """
    return bind("celu", real(x), _parameter(alpha))


@_activation
def gelu(x: Any, approximate: bool = True) -> Any:
    """Return x Phi(x), with the normal distribution function Phi.

    Args:
        approximate: whether to take x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), which is the tanh
            formula, or the exact x erfc(-x / sqrt(2)) / 2, without cancellation for negative x.

    Source:
        Hendrycks & Gimpel (2016), Gaussian error linear units.

    Example:
        >>> fg.nn.gelu(np.array([-1.0, 2.0])).round(4)
        array([-0.1588,  1.9546])
    """
    return unary("gelu_cubic" if approximate else "gelu", real(x))


@_activation
def silu(x: Any) -> Any:
    """Return x sigmoid(x), also called swish.

    Source:
        Elfwing, Uchibe & Doya (2017), Sigmoid-weighted linear units.

    Example:
        >>> fg.nn.silu(np.array([-1.0, 2.0])).round(4)
        array([-0.2689,  1.7616])
    """
    return unary("silu", real(x))


@_activation
def mish(x: Any) -> Any:
    """Return x tanh(softplus(x)).

    Source:
        Misra (2019), Mish: a self regularized non-monotonic activation function.

    Example:
        >>> fg.nn.mish(np.array([-1.0, 2.0])).round(4)
        array([-0.3034,  1.944 ])
    """
    return unary("mish", real(x))


@_activation
def softplus(x: Any) -> Any:
    """Return log(1 + exp(x)) without overflow.

    Derivative:
        sigmoid(x).

    Example:
        >>> fg.nn.softplus(np.array([-1.0, 800.0])).round(4)
        array([3.133e-01, 8.000e+02])
    """
    return unary("softplus", real(x))


@_activation
def soft_sign(x: Any) -> Any:
    """Return x / (1 + |x|).

    Example:
        >>> fg.nn.soft_sign(np.array([-1.0, 3.0]))
        array([-0.5 ,  0.75])
    """
    return unary("soft_sign", real(x))


@_activation
def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) without overflow, of complex numbers too.

    Derivative:
        sigmoid(x) sigmoid(-x), which is accurate for large x too.

    Example:
        >>> fg.nn.sigmoid(np.array([0.0, 800.0]))
        array([0.5, 1. ])
    """
    x = inexact(x)
    if x.dtype.kind != "c":
        return unary("sigmoid", x)
    is_left = functions.less(x.real, 0)
    e = functions.exp(functions.where(is_left, x, -x))
    return functions.where(is_left, e, 1) / (1 + e)


@_activation
def log_sigmoid(x: Any) -> Any:
    """Return log(sigmoid(x)) = -softplus(-x).

    Derivative:
        sigmoid(-x).

    Example:
        >>> fg.nn.log_sigmoid(np.array([0.0, -800.0])).round(4)
        array([-6.931e-01, -8.000e+02])
    """
    return unary("log_sigmoid", real(x))


@_activation
def hard_sigmoid(x: Any) -> Any:
    """Return relu6(x + 3) / 6.

    Derivative:
        1 / 6 for |x| < 3, else 0.

    Example:
        >>> fg.nn.hard_sigmoid(np.array([-4.0, 0.0, 4.0]))
        array([0. , 0.5, 1. ])
    """
    return unary("hard_sigmoid", real(x))


@_activation
def hard_tanh(x: Any) -> Any:
    """Return x, cut to -1 and 1.

    Derivative:
        1 for |x| <= 1, else 0.

    Example:
        >>> fg.nn.hard_tanh(np.array([-4.0, 0.5]))
        array([-1. ,  0.5])
    """
    return unary("hard_tanh", real(x))


@_activation
def hard_silu(x: Any) -> Any:
    """Return x hard_sigmoid(x), also called hard swish.

    Derivative:
        (2 x + 3) / 6 for |x| < 3, 1 from there on and 0 up to there.

    Source:
        Howard et al. (2019), Searching for MobileNetV3.

    Example:
        >>> fg.nn.hard_silu(np.array([-4.0, 1.0, 4.0])).round(4)
        array([0.    , 0.6667, 4.    ])
    """
    x = real(x)
    inner = clip(x, -3, 3)  # elsewhere the product could overflow
    return functions.where(x <= -3, 0, functions.where(x >= 3, x, inner * (inner + 3) / 6))


@_activation
def sparse_plus(x: Any) -> Any:
    """Return 0 for x <= -1, x for x >= 1, and (x + 1)^2 / 4 between.

    Derivative:
        `sparse_sigmoid`.

    Source:
        Martins & Astudillo (2016), From softmax to sparsemax.

    Example:
        >>> fg.nn.sparse_plus(np.array([-2.0, 0.0, 2.0]))
        array([0.  , 0.25, 2.  ])
    """
    x = real(x)
    parabola = functions.square(clip(x, -1, 1) + 1) / 4
    return functions.where(x <= -1, 0, functions.where(x >= 1, x, parabola))


@_activation
def sparse_sigmoid(x: Any) -> Any:
    """Return 0 for x <= -1, 1 for x >= 1, and (x + 1) / 2 between.

    Derivative:
        1 / 2 for |x| < 1, half of it at the ends, else 0.

    Example:
        >>> fg.nn.sparse_sigmoid(np.array([-2.0, 0.0, 2.0]))
        array([0. , 0.5, 1. ])
    """
    return clip(real(x) + 1, 0, 2) / 2


def glu(x: Any, axis: int = -1) -> Any:
    """Return a sigmoid(b), where a and b are the halves of `x` along an axis.

    Args:
        x: real array; integers promote to float64.
        axis: an axis of even length.

    Returns:
        Array of the shape of `x`, half as long along the axis.

    Raises:
        ValueError: the length is odd.

    Source:
        Dauphin, Fan, Auli & Grangier (2016), Language modeling with gated convolutional networks.

    Example:
        >>> fg.nn.glu(np.array([1.0, 2.0, 0.0, 0.0]))
        array([0.5, 1. ])
    """
    x = real(x)
    place = normalize_axis_index(axis, len(x.shape))
    half, odd = divmod(x.shape[place], 2)
    if odd:
        raise ValueError(f"glu halves an axis, but axis {axis} has the odd length {x.shape[place]}")
    lead = (slice(None),) * place
    a, b = (functions.sliced(x, index=(*lead, s)) for s in (slice(None, half), slice(half, None)))
    return a * sigmoid(real(b))


def _parameter(a: Any) -> Any:
    return float(a) if isinstance(a, int | float) else inexact(a)
