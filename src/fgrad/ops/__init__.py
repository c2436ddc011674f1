"""The rows: every primitive operation, declared once with all its rules."""

from fgrad.ops import (
    contraction,
    elementwise,
    factorization,
    indexing,
    linear,
    ordering,
    random,
    reduction,
)

__all__ = [
    "contraction",
    "elementwise",
    "factorization",
    "indexing",
    "linear",
    "ordering",
    "random",
    "reduction",
]
from fgrad.ops import contraction, elementwise, fft, indexing, linear, ordering, random, reduction

__all__ = ["contraction", "elementwise", "fft", "indexing", "linear", "ordering", "random", "reduction"]
from fgrad.ops import (
    bessel,
    contraction,
    convolution,
    elementwise,
    fft,
    indexing,
    linear,
    ordering,
    random,
    reduction,
    roots,
)

__all__ = [
    "bessel",
    "contraction",
    "convolution",
    "elementwise",
    "fft",
    "indexing",
    "linear",
    "ordering",
    "random",
    "reduction",
    "roots",
]
