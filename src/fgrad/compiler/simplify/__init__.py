"""Simpler programs with the same values: small passes, and all of them until nothing changes."""

from fgrad.compiler.simplify.algebra import ALGEBRA
from fgrad.compiler.simplify.operands import FOLDING, OPERANDS
from fgrad.compiler.simplify.passes import SHARING, simplify
from fgrad.compiler.simplify.reductions import REDUCTIONS
from fgrad.compiler.simplify.shapes import SHAPES
from fgrad.compiler.simplify.speculation import speculate
from fgrad.compiler.simplify.updates import ASSEMBLY
from fgrad.core.rewriting.liveness import eliminate

__all__ = [
    "ALGEBRA",
    "ASSEMBLY",
    "FOLDING",
    "OPERANDS",
    "REDUCTIONS",
    "SHAPES",
    "SHARING",
    "eliminate",
    "simplify",
    "speculate",
]
