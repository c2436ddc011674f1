"""`numpy.linalg` for arrays and Tensors: systems, factorizations, eigenvalues, norms; stacks of matrices too.

Where a factor is determined only up to a phase, a sign or a rotation, its derivative exists only for results
that do not depend on it; all others raise `LinAlgError` when they are differentiated.
"""

from numpy.linalg import LinAlgError as LinAlgError

from fgrad.names import gathered as _gathered
from fgrad.names import offered as _offered

_NAMES = {  # by the modules that define them; `__init__.pyi` says their types
    "chains": "det matrix_power multi_dot slogdet",
    "eigenvalues": "eig eigh eigvals eigvalsh",
    "factorizations": "cholesky qr svd svdvals",
    "norms": "cond matrix_norm matrix_rank norm vector_norm",
    "products": "cross diagonal matmul matrix_transpose outer tensordot trace vecdot",
    "systems": "inv lstsq pinv solve tensorinv tensorsolve",
}
_found = _gathered(__name__, _NAMES)
globals().update(_found, __all__=["LinAlgError", *sorted(_found)])


def __dir__() -> list[str]:
    return _offered(globals())
