"""The rows: every primitive operation, declared once with all its rules."""

from fgrad.ops import (
    bessel,
    contraction,
    convolution,
    elementwise,
    factorization,
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
    "factorization",
    "fft",
    "indexing",
    "linear",
    "ordering",
    "random",
    "reduction",
    "roots",
]
