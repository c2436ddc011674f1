"""The rows: every primitive operation, declared once with all its rules."""

from fgrad.ops import (
    activation,
    bessel,
    contraction,
    convolution,
    elementwise,
    factorization,
    fft,
    indexing,
    linear,
    normalization,
    ordering,
    pooling,
    random,
    reduction,
    roots,
    windows,
)

__all__ = [
    "activation",
    "bessel",
    "contraction",
    "convolution",
    "elementwise",
    "factorization",
    "fft",
    "indexing",
    "linear",
    "normalization",
    "ordering",
    "pooling",
    "random",
    "reduction",
    "roots",
    "windows",
]
