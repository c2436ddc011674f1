"""The part of `numpy.lib` that computes with Tensors."""

from fgrad.names import offers as _offers
from fgrad.numpy.lib import stride_tricks as stride_tricks

__dir__ = _offers(globals(), "stride_tricks")
