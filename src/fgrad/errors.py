"""The exceptions and warnings that are fgrad's own; everything else is NumPy's or Python's."""

from __future__ import annotations


class EscapedTensorError(RuntimeError):
    """A tensor of a `vmap`, `make_graph` or other transformation was used after the transformation ended."""


class NoGradientWarning(UserWarning):
    """`backward` was asked to differentiate a value that does not depend on any attached tensor."""
