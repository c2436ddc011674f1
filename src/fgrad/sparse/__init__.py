"""Sparse Jacobians and Hessians: patterns are found from programs, and few products give all entries."""

try:
    import scipy as _scipy  # noqa: F401 -- the optional part of fgrad that this is
except ImportError as _error:
    raise ImportError(
        "fgrad.sparse needs SciPy, which is not installed; install the extra: pip install 'fgrad[scipy]'"
    ) from _error

from fgrad.names import offered as _offered
from fgrad.sparse.colouring import Colouring as Colouring
from fgrad.sparse.derivatives import hessian as hessian
from fgrad.sparse.derivatives import jacobian as jacobian
from fgrad.sparse.derivatives import value_and_hessian as value_and_hessian
from fgrad.sparse.derivatives import value_and_jacobian as value_and_jacobian
from fgrad.sparse.fitting import least_squares as least_squares
from fgrad.sparse.operators import MatrixOperator as MatrixOperator
from fgrad.sparse.operators import linear_operator as linear_operator
from fgrad.sparse.patterns import pattern as pattern


def __dir__() -> list[str]:
    return _offered(globals())
