"""Sparse Jacobians and Hessians: patterns are found from programs, and few products give all entries."""

try:
    import scipy as _scipy  # noqa: F401 -- the optional part of fgrad that this is
except ImportError as error:
    raise ImportError(
        "fgrad.sparse needs SciPy, which is not installed; install the extra: pip install 'fgrad[scipy]'"
    ) from error

from fgrad.names import offers as _offers
from fgrad.sparse.colouring import Colouring as Colouring
from fgrad.sparse.derivatives import hessian as hessian
from fgrad.sparse.derivatives import jacobian as jacobian
from fgrad.sparse.derivatives import value_and_hessian as value_and_hessian
from fgrad.sparse.derivatives import value_and_jacobian as value_and_jacobian
from fgrad.sparse.operators import linear_operator as linear_operator
from fgrad.sparse.patterns import pattern as pattern

__dir__ = _offers(globals())
