"""NumPy's names for arrays and Tensors: differentiable, mappable, stageable.

Functions return arrays for arrays and Tensors if any argument is one; creation functions return Tensors.
The same functions answer when NumPy's own (`numpy.sin`, `numpy.sum`, ...) are called on Tensors.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from fgrad.names import gathered as _gathered
from fgrad.names import offered as _offered
from fgrad.numpy import fft as fft
from fgrad.numpy import lib as lib
from fgrad.numpy import linalg as linalg
from fgrad.numpy.registry import declare_operators
from fgrad.numpy.ufuncs import declare_methods

# What it offers is said here by name, and by type in `__init__.pyi`, which is what type checkers read.
_NAMES = {  # by the modules that define them
    "arrays": "array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray copy require",
    "calculus": "gradient trapezoid unwrap",
    "comparisons": "allclose array_equal array_equiv isclose",
    "complex_numbers": "angle imag iscomplexobj real",
    "creation": """
        arange empty empty_like eye from_dlpack frombuffer fromfunction fromiter full full_like
        geomspace identity indices linspace logspace meshgrid ndarray ones ones_like tri zeros
        zeros_like
    """,
    "cumulative": "cumprod cumsum cumulative_prod cumulative_sum diff ediff1d",
    "diagonals": "diag diagflat diagonal tril triu",
    "einstein": "einsum einsum_path",
    "elementwise": """
        absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_count
        bitwise_or bitwise_xor cbrt ceil conjugate copysign cos cosh deg2rad degrees divide divmod
        equal exp exp2 expm1 fabs fix float_power floor floor_divide fmax fmin fmod frexp gcd greater
        greater_equal heaviside hypot i0 invert iscomplex isfinite isinf isnan isneginf isposinf
        isreal isrealobj lcm ldexp left_shift less less_equal log log1p log2 log10 logaddexp
        logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum modf multiply
        negative nextafter not_equal positive power rad2deg radians real_if_close reciprocal remainder
        right_shift rint sign signbit sin sinc sinh spacing sqrt square subtract tan tanh trunc
    """,
    "functional": "apply_along_axis apply_over_axes ndenumerate nditer piecewise vectorize",
    "grids": """
        c_ diag_indices_from ix_ mgrid ogrid r_ ravel_multi_index tril_indices_from triu_indices_from
        unravel_index
    """,
    "histograms": "bincount histogram histogram2d histogram_bin_edges histogramdd",
    "indexing": "array2string result_type take take_along_axis",
    "inplace": "copyto fill_diagonal place put put_along_axis putmask",
    "insertion": "delete insert resize trim_zeros",
    "interpolation": "interp",
    "joining": "append block column_stack concatenate dstack hstack row_stack stack vstack",
    "moments": "abs2 average mean std var",
    "namespace": "__array_api_version__ __array_namespace_info__",
    "nanfunctions": "nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    "nondifferentiable": """
        array_repr array_str can_cast common_type format_float_positional
        format_float_scientific may_share_memory min_scalar_type save savetxt savez savez_compressed
        shares_memory
    """,
    "ordering": """
        argmax argmin argpartition argsort digitize lexsort nanargmax nanargmin partition searchsorted
        sort sort_complex
    """,
    "padding": "pad",
    "permutations": "flip fliplr flipud repeat roll rot90 tile",
    "polynomials": "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots vander",
    "products": """
        convolve correlate cross dot inner kron matmul matvec outer tensordot trace
        vdot vecdot vecmat
    """,
    "reductions": "all amax amin any count_nonzero max min prod ptp sum",
    "rounding": "clip round",
    "selection": "argwhere choose compress extract flatnonzero nan_to_num nonzero select where",
    "sets": """
        intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts unique_inverse
        unique_values
    """,
    "shapes": """
        astype atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to expand_dims
        matrix_transpose moveaxis ndim ravel reshape rollaxis shape size squeeze swapaxes transpose
    """,
    "splitting": "array_split dsplit hsplit split unstack vsplit",
    "statistics": "corrcoef cov median nanmedian nanpercentile nanquantile percentile quantile",
    "windows": "bartlett blackman hamming hanning kaiser",
}
_THEIRS = """
    bool bool_ broadcast_shapes byte cdouble clongdouble complex64 complex128 complexfloating csingle
    diag_indices double dtype e errstate euler_gamma finfo float16 float32 float64 floating generic half
    iinfo index_exp inexact inf int8 int16 int32 int64 int_ intc integer intp isdtype isscalar issubdtype
    iterable long longdouble longlong mask_indices nan ndindex newaxis number pi promote_types s_ short
    signedinteger single tril_indices triu_indices typename ubyte uint uint8 uint16 uint32 uint64 uintc
    uintp ulong ulonglong unsignedinteger ushort
"""  # NumPy's own, which look at shapes, dtypes or types alone
_SAME = """
    abs=absolute pow=power acos=arccos asin=arcsin atan=arctan atan2=arctan2 acosh=arccosh asinh=arcsinh
    atanh=arctanh conj=conjugate mod=remainder true_divide=divide concat=concatenate
    permute_dims=transpose around=round bitwise_not=invert bitwise_invert=invert
    bitwise_left_shift=left_shift bitwise_right_shift=right_shift
"""  # other names of them

globals().update(_gathered(__name__, _NAMES))
globals().update({name: getattr(_import_module("numpy"), name) for name in _THEIRS.split()})
globals().update({new: globals()[old] for new, _, old in (pair.partition("=") for pair in _SAME.split())})

declare_operators()
declare_methods()
del declare_operators, declare_methods


def __getattr__(name: str) -> _Any:
    """Return the extension `special`, by which SciPy finds what it should call for Tensors."""
    if name != "special":
        raise AttributeError(f"module 'fgrad.numpy' has no attribute {name!r}")
    try:
        return _import_module("fgrad.scipy.special")  # late: it imports SciPy
    except ImportError as error:
        raise AttributeError(f"fgrad.numpy.special needs SciPy: {error}") from error


def __dir__() -> list[str]:
    return _offered(globals(), "fft", "lib", "linalg")
