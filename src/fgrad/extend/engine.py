"""The engine for packages on top of it, which know no more of it than `core`, `transforms` and these names.

`fgrad.scipy` and `fgrad.archive` are made of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fgrad.backend.array import COMPOSED as COMPOSED
from fgrad.backend.array import DeviceArray as DeviceArray
from fgrad.backend.devices import as_array as as_array
from fgrad.backend.devices import elsewhere as elsewhere
from fgrad.backend.devices import near as near
from fgrad.backend.devices import on_host as on_host
from fgrad.expr.atoms import ATOMS as ATOMS
from fgrad.expr.atoms import DEGREE as DEGREE
from fgrad.expr.atoms import LN10 as LN10
from fgrad.expr.atoms import call as call
from fgrad.expr.atoms import equal as equal
from fgrad.expr.atoms import fn as fn
from fgrad.expr.atoms import where as where
from fgrad.expr.node import Expr as Expr
from fgrad.expr.node import Operand as Operand
from fgrad.expr.node import postorder as postorder
from fgrad.expr.node import var as var
from fgrad.expr.special import CENTER as CENTER
from fgrad.expr.special import ERFC as ERFC
from fgrad.numpy.arrays import as_tensor as as_tensor
from fgrad.numpy.arrays import as_value as as_value
from fgrad.numpy.arrays import asarray as asarray
from fgrad.numpy.arrays import concrete as concrete
from fgrad.numpy.arrays import operand as operand
from fgrad.numpy.arrays import promoted as promoted
from fgrad.numpy.arrays import together as together
from fgrad.numpy.linalg.arguments import completed as completed
from fgrad.numpy.reductions import axes_of as axes_of
from fgrad.numpy.reductions import inexact as inexact
from fgrad.numpy.registry import Ufunc as Ufunc
from fgrad.numpy.registry import for_tensors as for_tensors
from fgrad.numpy.registry import holds_tensor as holds_tensor
from fgrad.numpy.registry import named as named
from fgrad.numpy.registry import with_keywords as with_keywords
from fgrad.ops import matrices as matrices
from fgrad.ops import systems as systems
from fgrad.ops import windows as windows
from fgrad.ops.compiled import FLOATS as FLOATS
from fgrad.ops.compiled import FastUfunc as FastUfunc
from fgrad.ops.compiled import Shared as Shared
from fgrad.ops.contraction import contract as contract
from fgrad.ops.elementwise import batch_elementwise as batch_elementwise
from fgrad.ops.elementwise import declare_call as declare_call
from fgrad.ops.elementwise import declare_word as declare_word
from fgrad.ops.fft import ADJOINT_NORM as ADJOINT_NORM
from fgrad.ops.indices import HOLE as HOLE
from fgrad.ops.linear import broadcast_to as broadcast_to
from fgrad.ops.linear import convert as convert
from fgrad.ops.linear import imag as imag
from fgrad.ops.linear import real as real
from fgrad.ops.linear import reshape as reshape
from fgrad.ops.linear import reverse as reverse
from fgrad.ops.linear import sum_axes as sum_axes
from fgrad.ops.matrices import as_column as as_column
from fgrad.ops.matrices import as_row as as_row
from fgrad.ops.matrices import conjugate as conjugate
from fgrad.ops.matrix_functions import ComplexResultError as ComplexResultError
from fgrad.ops.requirements import trusted as trusted
from fgrad.ops.riccati import discrete_lyapunov as discrete_lyapunov
from fgrad.ops.triangular import permutation as permutation
from fgrad.ops.triangular import solve_triangular as solve_triangular
from fgrad.ops.triangular import triangle as triangle

if TYPE_CHECKING:
    from fgrad.compiler.simplify import simplify as simplify
    from fgrad.lax.loops import while_loop as while_loop
    from fgrad.lax.opaque import OpaqueRule as OpaqueRule
    from fgrad.lax.opaque import apply_opaque as apply_opaque
    from fgrad.lax.opaque import plain_value as plain_value
    from fgrad.lax.trees import as_tensors as as_tensors

_LATE = {  # what takes as long to load as all else together, and is asked for by few
    "simplify": "fgrad.compiler.simplify",
    "OpaqueRule": "fgrad.lax.opaque",
    "apply_opaque": "fgrad.lax.opaque",
    "plain_value": "fgrad.lax.opaque",
    "as_tensors": "fgrad.lax.trees",
    "while_loop": "fgrad.lax.loops",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)
