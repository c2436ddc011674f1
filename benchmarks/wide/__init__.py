"""Programs of many fields, each written once, in fgrad and its peers: `python -m benchmarks.wide`."""

from benchmarks.wide import algebra, functions, learning, science
from benchmarks.wide.program import PROGRAMS

__all__ = ["PROGRAMS", "algebra", "functions", "learning", "science"]
