"""The compiler: a Program becomes an Executable, which computes its outputs from plain arrays."""

from fgrad.compiler.cost import Cost as Cost
from fgrad.compiler.executable import Executable as Executable
from fgrad.compiler.executable import compile as compile
