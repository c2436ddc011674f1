"""The part of `numpy.lib` that computes with Tensors."""

from fgrad.numpy.lib import stride_tricks as stride_tricks
