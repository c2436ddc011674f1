"""Simpler programs with the same values: small passes, and all of them until nothing changes."""

from fgrad.compiler.simplify.passes import simplify as simplify
from fgrad.compiler.simplify.speculation import speculate as speculate
