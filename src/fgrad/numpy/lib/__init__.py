"""The part of `numpy.lib` that computes with Tensors."""

from fgrad.names import offered as _offered
from fgrad.numpy.lib import stride_tricks as stride_tricks


def __dir__() -> list[str]:
    return _offered(globals(), "stride_tricks")
