"""Cross-entropies of scores, one for each example: from the scores themselves, so that nothing overflows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.core.dispatch import unary
from fgrad.core.tensor import Tensor
from fgrad.nn.exponentials import log_softmax, logsumexp
from fgrad.numpy.arrays import as_value
from fgrad.numpy.indexing import take_along_axis
from fgrad.numpy.reductions import inexact
from fgrad.numpy.shapes import expand_dims
from fgrad.ops import functions
from fgrad.ops.linear import convert, reshape, sum_axes


def softmax_cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """Return -sum labels log(softmax(logits)) of each example.

    Args:
        logits: real array (..., classes).
        labels: integers (...), the class of each example; or an array like `logits` of probabilities, such as
            one-hot vectors.
        axis: the axis of classes.

    Returns:
        Array (...): one loss per example; take its mean.

    Raises:
        IndexError: an integer label is no class.
        ValueError: `labels` fits neither way.

    Derivative:
        softmax(logits) - labels, in the scores.

    Example:
        >>> softmax_cross_entropy(np.zeros((2, 4)), np.array([3, 0]))
        array([1.3863, 1.3863])
    """
    x, y = inexact(logits), as_value(labels)
    place = normalize_axis_index(axis, len(x.shape))
    rest = (*x.shape[:place], *x.shape[place + 1 :])
    if y.dtype.kind in "iub" and tuple(y.shape) == rest:
        value = y._value if isinstance(y, Tensor) else y
        known = isinstance(value, np.ndarray | np.generic)  # from a device nothing is read
        if known and value.dtype.kind == "i" and np.any(value < 0):
            raise IndexError(f"a label is {value.min()}, but classes are counted from 0")
        chosen = take_along_axis(x, expand_dims(convert(y, np.dtype(np.intp)), place), place)
        return logsumexp(x, place) - reshape(chosen, rest)
    if tuple(y.shape) != tuple(x.shape):
        raise ValueError(
            f"softmax_cross_entropy: labels of shape {tuple(y.shape)} are neither integers of shape {rest} "
            f"nor probabilities of shape {tuple(x.shape)}"
        )
    with np.errstate(invalid="ignore"):  # a probability of zero wins over log(0)
        return -sum_axes(functions.multiply_no_nan(inexact(y), log_softmax(x, place)), (place,))


def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> Any:
    """Return -labels log(sigmoid(logits)) - (1 - labels) log(1 - sigmoid(logits)), element by element.

    Args:
        logits: real array.
        labels: probabilities, or booleans, that broadcast with `logits`.

    Returns:
        Array of losses; take its mean.

    Derivative:
        sigmoid(logits) - labels, in the scores.

    Example:
        >>> fg.nn.sigmoid_binary_cross_entropy(np.array([0.0, 2.0]), np.array([1.0, 0.0])).round(4)
        array([0.6931, 2.1269])
    """
    x, y = inexact(logits), as_value(labels)
    y = y if y.dtype.kind == "f" else convert(y, x.dtype)
    with np.errstate(invalid="ignore"):
        return functions.multiply_no_nan(y, unary("softplus", -x)) + functions.multiply_no_nan(
            1 - y, unary("softplus", x)
        )
