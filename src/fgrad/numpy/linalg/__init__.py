"""`numpy.linalg` for arrays and Tensors: systems, factorizations, eigenvalues, norms; stacks of matrices too.

Where a factor is determined only up to a phase, a sign or a rotation, its derivative exists only for results
that do not depend on it; all others raise `LinAlgError` when they are differentiated.
"""

from numpy.linalg import LinAlgError as LinAlgError

from fgrad.numpy.linalg.chains import det as det
from fgrad.numpy.linalg.chains import matrix_power as matrix_power
from fgrad.numpy.linalg.chains import multi_dot as multi_dot
from fgrad.numpy.linalg.chains import slogdet as slogdet
from fgrad.numpy.linalg.eigenvalues import eig as eig
from fgrad.numpy.linalg.eigenvalues import eigh as eigh
from fgrad.numpy.linalg.eigenvalues import eigvals as eigvals
from fgrad.numpy.linalg.eigenvalues import eigvalsh as eigvalsh
from fgrad.numpy.linalg.factorizations import cholesky as cholesky
from fgrad.numpy.linalg.factorizations import qr as qr
from fgrad.numpy.linalg.factorizations import svd as svd
from fgrad.numpy.linalg.factorizations import svdvals as svdvals
from fgrad.numpy.linalg.norms import cond as cond
from fgrad.numpy.linalg.norms import matrix_norm as matrix_norm
from fgrad.numpy.linalg.norms import matrix_rank as matrix_rank
from fgrad.numpy.linalg.norms import norm as norm
from fgrad.numpy.linalg.norms import vector_norm as vector_norm
from fgrad.numpy.linalg.products import cross as cross
from fgrad.numpy.linalg.products import diagonal as diagonal
from fgrad.numpy.linalg.products import matmul as matmul
from fgrad.numpy.linalg.products import matrix_transpose as matrix_transpose
from fgrad.numpy.linalg.products import outer as outer
from fgrad.numpy.linalg.products import tensordot as tensordot
from fgrad.numpy.linalg.products import trace as trace
from fgrad.numpy.linalg.products import vecdot as vecdot
from fgrad.numpy.linalg.systems import inv as inv
from fgrad.numpy.linalg.systems import lstsq as lstsq
from fgrad.numpy.linalg.systems import pinv as pinv
from fgrad.numpy.linalg.systems import solve as solve
from fgrad.numpy.linalg.systems import tensorinv as tensorinv
from fgrad.numpy.linalg.systems import tensorsolve as tensorsolve

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
