"""Derivatives of users' own kernels: what `numba.njit` compiles, as functions of arrays and Tensors."""

from fgrad.adjoints import operation as operation
from fgrad.adjoints.interface import Differentiable as Differentiable
from fgrad.adjoints.interface import differentiate as differentiate
from fgrad.adjoints.interface import kernel as kernel
from fgrad.adjoints.syntax import UnsupportedKernelError as UnsupportedKernelError
