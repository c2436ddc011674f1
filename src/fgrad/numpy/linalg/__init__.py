"""`numpy.linalg` for arrays and Tensors: systems, factorizations, eigenvalues, norms; stacks of matrices too.

Where a factor is determined only up to a phase, a sign or a rotation, its derivative exists only for results
that do not depend on it; all others raise `LinAlgError` when they are differentiated.
"""

from numpy.linalg import LinAlgError

from fgrad.names import offered as _offered
from fgrad.numpy.linalg.chains import det, matrix_power, multi_dot, slogdet
from fgrad.numpy.linalg.eigenvalues import eig, eigh, eigvals, eigvalsh
from fgrad.numpy.linalg.factorizations import cholesky, qr, svd, svdvals
from fgrad.numpy.linalg.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from fgrad.numpy.linalg.products import (
    cross,
    diagonal,
    matmul,
    matrix_transpose,
    outer,
    tensordot,
    trace,
    vecdot,
)
from fgrad.numpy.linalg.systems import inv, lstsq, pinv, solve, tensorinv, tensorsolve

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]


def __dir__() -> list[str]:
    return _offered(globals())
