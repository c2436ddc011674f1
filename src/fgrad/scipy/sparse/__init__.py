"""Sparse arrays with gradients, and their solvers; Tensors multiply SciPy's own by themselves."""

from fgrad.names import offered as _offered
from fgrad.scipy.sparse import linalg as linalg
from fgrad.scipy.sparse.arrays import SparseArray as SparseArray
from fgrad.scipy.sparse.arrays import coo_array as coo_array
from fgrad.scipy.sparse.arrays import csc_array as csc_array
from fgrad.scipy.sparse.arrays import csr_array as csr_array


def __dir__() -> list[str]:
    return _offered(globals(), "linalg")
