"""Linear algebra: SciPy's names for arrays and Tensors, in stacks of any shape.

Primitives that SciPy computes (`expm`, `ldl`, triangular systems, ...) and those of `fgrad.numpy.linalg` do
the work, so that every function has derivatives of every order, and runs under vmap and jit.

Leading axes are stacks. Integers are taken as float64, unless the elements are only gathered (`toeplitz` and
its like); half precision and long double are a `TypeError`. `ct` in formulas is
the cotangent of the result.
"""

from numpy.linalg import LinAlgError as LinAlgError

from fgrad.names import offered as _offered
from fgrad.scipy.linalg.equations import solve_continuous_are as solve_continuous_are
from fgrad.scipy.linalg.equations import solve_continuous_lyapunov as solve_continuous_lyapunov
from fgrad.scipy.linalg.equations import solve_discrete_are as solve_discrete_are
from fgrad.scipy.linalg.equations import solve_discrete_lyapunov as solve_discrete_lyapunov
from fgrad.scipy.linalg.equations import solve_sylvester as solve_sylvester
from fgrad.scipy.linalg.factorizations import cho_factor as cho_factor
from fgrad.scipy.linalg.factorizations import cholesky as cholesky
from fgrad.scipy.linalg.factorizations import eig as eig
from fgrad.scipy.linalg.factorizations import eigh as eigh
from fgrad.scipy.linalg.factorizations import eigvals as eigvals
from fgrad.scipy.linalg.factorizations import eigvalsh as eigvalsh
from fgrad.scipy.linalg.factorizations import ldl as ldl
from fgrad.scipy.linalg.factorizations import lu as lu
from fgrad.scipy.linalg.factorizations import lu_factor as lu_factor
from fgrad.scipy.linalg.factorizations import orthogonal_procrustes as orthogonal_procrustes
from fgrad.scipy.linalg.factorizations import polar as polar
from fgrad.scipy.linalg.factorizations import qr as qr
from fgrad.scipy.linalg.factorizations import schur as schur
from fgrad.scipy.linalg.factorizations import svd as svd
from fgrad.scipy.linalg.factorizations import svdvals as svdvals
from fgrad.scipy.linalg.functions import coshm as coshm
from fgrad.scipy.linalg.functions import cosm as cosm
from fgrad.scipy.linalg.functions import expm as expm
from fgrad.scipy.linalg.functions import expm_frechet as expm_frechet
from fgrad.scipy.linalg.functions import fractional_matrix_power as fractional_matrix_power
from fgrad.scipy.linalg.functions import logm as logm
from fgrad.scipy.linalg.functions import sinhm as sinhm
from fgrad.scipy.linalg.functions import sinm as sinm
from fgrad.scipy.linalg.functions import sqrtm as sqrtm
from fgrad.scipy.linalg.functions import tanhm as tanhm
from fgrad.scipy.linalg.functions import tanm as tanm
from fgrad.scipy.linalg.special_matrices import block_diag as block_diag
from fgrad.scipy.linalg.special_matrices import circulant as circulant
from fgrad.scipy.linalg.special_matrices import companion as companion
from fgrad.scipy.linalg.special_matrices import convolution_matrix as convolution_matrix
from fgrad.scipy.linalg.special_matrices import hankel as hankel
from fgrad.scipy.linalg.special_matrices import khatri_rao as khatri_rao
from fgrad.scipy.linalg.special_matrices import leslie as leslie
from fgrad.scipy.linalg.special_matrices import toeplitz as toeplitz
from fgrad.scipy.linalg.systems import cho_solve as cho_solve
from fgrad.scipy.linalg.systems import det as det
from fgrad.scipy.linalg.systems import inv as inv
from fgrad.scipy.linalg.systems import lstsq as lstsq
from fgrad.scipy.linalg.systems import lu_solve as lu_solve
from fgrad.scipy.linalg.systems import matmul_toeplitz as matmul_toeplitz
from fgrad.scipy.linalg.systems import norm as norm
from fgrad.scipy.linalg.systems import pinv as pinv
from fgrad.scipy.linalg.systems import pinvh as pinvh
from fgrad.scipy.linalg.systems import solve as solve
from fgrad.scipy.linalg.systems import solve_banded as solve_banded
from fgrad.scipy.linalg.systems import solve_toeplitz as solve_toeplitz
from fgrad.scipy.linalg.systems import solve_triangular as solve_triangular


def __dir__() -> list[str]:
    return _offered(globals())
