"""NumPy's names for arrays and Tensors: differentiable, mappable, stageable.

Functions return arrays for arrays and Tensors if any argument is one; creation functions return Tensors.
The same functions answer when NumPy's own (`numpy.sin`, `numpy.sum`, ...) are called on Tensors.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from numpy import bool as bool
from numpy import bool_ as bool_
from numpy import broadcast_shapes as broadcast_shapes
from numpy import byte as byte
from numpy import cdouble as cdouble
from numpy import clongdouble as clongdouble
from numpy import complex64 as complex64
from numpy import complex128 as complex128
from numpy import complexfloating as complexfloating
from numpy import csingle as csingle
from numpy import diag_indices as diag_indices
from numpy import double as double
from numpy import dtype as dtype
from numpy import e as e
from numpy import errstate as errstate
from numpy import euler_gamma as euler_gamma
from numpy import finfo as finfo
from numpy import float16 as float16
from numpy import float32 as float32
from numpy import float64 as float64
from numpy import floating as floating
from numpy import generic as generic
from numpy import half as half
from numpy import iinfo as iinfo
from numpy import index_exp as index_exp
from numpy import inexact as inexact
from numpy import inf as inf
from numpy import int8 as int8
from numpy import int16 as int16
from numpy import int32 as int32
from numpy import int64 as int64
from numpy import int_ as int_
from numpy import intc as intc
from numpy import integer as integer
from numpy import intp as intp
from numpy import isdtype as isdtype
from numpy import isscalar as isscalar
from numpy import issubdtype as issubdtype
from numpy import iterable as iterable
from numpy import long as long
from numpy import longdouble as longdouble
from numpy import longlong as longlong
from numpy import mask_indices as mask_indices
from numpy import nan as nan
from numpy import ndindex as ndindex
from numpy import newaxis as newaxis
from numpy import number as number
from numpy import pi as pi
from numpy import promote_types as promote_types
from numpy import s_ as s_
from numpy import short as short
from numpy import signedinteger as signedinteger
from numpy import single as single
from numpy import tril_indices as tril_indices
from numpy import triu_indices as triu_indices
from numpy import typename as typename
from numpy import ubyte as ubyte
from numpy import uint as uint
from numpy import uint8 as uint8
from numpy import uint16 as uint16
from numpy import uint32 as uint32
from numpy import uint64 as uint64
from numpy import uintc as uintc
from numpy import uintp as uintp
from numpy import ulong as ulong
from numpy import ulonglong as ulonglong
from numpy import unsignedinteger as unsignedinteger
from numpy import ushort as ushort

from fgrad.names import offered as _offered
from fgrad.numpy import fft as fft
from fgrad.numpy import lib as lib
from fgrad.numpy import linalg as linalg
from fgrad.numpy.arrays import array as array
from fgrad.numpy.arrays import asanyarray as asanyarray
from fgrad.numpy.arrays import asarray as asarray
from fgrad.numpy.arrays import asarray_chkfinite as asarray_chkfinite
from fgrad.numpy.arrays import ascontiguousarray as ascontiguousarray
from fgrad.numpy.arrays import asfortranarray as asfortranarray
from fgrad.numpy.arrays import copy as copy
from fgrad.numpy.arrays import require as require
from fgrad.numpy.calculus import gradient as gradient
from fgrad.numpy.calculus import trapezoid as trapezoid
from fgrad.numpy.calculus import unwrap as unwrap
from fgrad.numpy.comparisons import allclose as allclose
from fgrad.numpy.comparisons import array_equal as array_equal
from fgrad.numpy.comparisons import isclose as isclose
from fgrad.numpy.complex_numbers import angle as angle
from fgrad.numpy.complex_numbers import imag as imag
from fgrad.numpy.complex_numbers import iscomplexobj as iscomplexobj
from fgrad.numpy.complex_numbers import real as real
from fgrad.numpy.creation import arange as arange
from fgrad.numpy.creation import empty as empty
from fgrad.numpy.creation import empty_like as empty_like
from fgrad.numpy.creation import eye as eye
from fgrad.numpy.creation import from_dlpack as from_dlpack
from fgrad.numpy.creation import frombuffer as frombuffer
from fgrad.numpy.creation import fromfunction as fromfunction
from fgrad.numpy.creation import fromiter as fromiter
from fgrad.numpy.creation import full as full
from fgrad.numpy.creation import full_like as full_like
from fgrad.numpy.creation import geomspace as geomspace
from fgrad.numpy.creation import identity as identity
from fgrad.numpy.creation import indices as indices
from fgrad.numpy.creation import linspace as linspace
from fgrad.numpy.creation import logspace as logspace
from fgrad.numpy.creation import meshgrid as meshgrid
from fgrad.numpy.creation import ndarray as ndarray
from fgrad.numpy.creation import ones as ones
from fgrad.numpy.creation import ones_like as ones_like
from fgrad.numpy.creation import tri as tri
from fgrad.numpy.creation import zeros as zeros
from fgrad.numpy.creation import zeros_like as zeros_like
from fgrad.numpy.cumulative import cumprod as cumprod
from fgrad.numpy.cumulative import cumsum as cumsum
from fgrad.numpy.cumulative import cumulative_prod as cumulative_prod
from fgrad.numpy.cumulative import cumulative_sum as cumulative_sum
from fgrad.numpy.cumulative import diff as diff
from fgrad.numpy.cumulative import ediff1d as ediff1d
from fgrad.numpy.diagonals import diag as diag
from fgrad.numpy.diagonals import diagflat as diagflat
from fgrad.numpy.diagonals import diagonal as diagonal
from fgrad.numpy.diagonals import tril as tril
from fgrad.numpy.diagonals import triu as triu
from fgrad.numpy.elementwise import absolute as absolute
from fgrad.numpy.elementwise import add as add
from fgrad.numpy.elementwise import arccos as arccos
from fgrad.numpy.elementwise import arccosh as arccosh
from fgrad.numpy.elementwise import arcsin as arcsin
from fgrad.numpy.elementwise import arcsinh as arcsinh
from fgrad.numpy.elementwise import arctan as arctan
from fgrad.numpy.elementwise import arctan2 as arctan2
from fgrad.numpy.elementwise import arctanh as arctanh
from fgrad.numpy.elementwise import bitwise_and as bitwise_and
from fgrad.numpy.elementwise import bitwise_count as bitwise_count
from fgrad.numpy.elementwise import bitwise_or as bitwise_or
from fgrad.numpy.elementwise import bitwise_xor as bitwise_xor
from fgrad.numpy.elementwise import cbrt as cbrt
from fgrad.numpy.elementwise import ceil as ceil
from fgrad.numpy.elementwise import conjugate as conjugate
from fgrad.numpy.elementwise import copysign as copysign
from fgrad.numpy.elementwise import cos as cos
from fgrad.numpy.elementwise import cosh as cosh
from fgrad.numpy.elementwise import deg2rad as deg2rad
from fgrad.numpy.elementwise import degrees as degrees
from fgrad.numpy.elementwise import divide as divide
from fgrad.numpy.elementwise import divmod as divmod
from fgrad.numpy.elementwise import equal as equal
from fgrad.numpy.elementwise import exp as exp
from fgrad.numpy.elementwise import exp2 as exp2
from fgrad.numpy.elementwise import expm1 as expm1
from fgrad.numpy.elementwise import fabs as fabs
from fgrad.numpy.elementwise import fix as fix
from fgrad.numpy.elementwise import float_power as float_power
from fgrad.numpy.elementwise import floor as floor
from fgrad.numpy.elementwise import floor_divide as floor_divide
from fgrad.numpy.elementwise import fmax as fmax
from fgrad.numpy.elementwise import fmin as fmin
from fgrad.numpy.elementwise import fmod as fmod
from fgrad.numpy.elementwise import frexp as frexp
from fgrad.numpy.elementwise import gcd as gcd
from fgrad.numpy.elementwise import greater as greater
from fgrad.numpy.elementwise import greater_equal as greater_equal
from fgrad.numpy.elementwise import heaviside as heaviside
from fgrad.numpy.elementwise import hypot as hypot
from fgrad.numpy.elementwise import i0 as i0
from fgrad.numpy.elementwise import invert as invert
from fgrad.numpy.elementwise import iscomplex as iscomplex
from fgrad.numpy.elementwise import isfinite as isfinite
from fgrad.numpy.elementwise import isinf as isinf
from fgrad.numpy.elementwise import isnan as isnan
from fgrad.numpy.elementwise import isneginf as isneginf
from fgrad.numpy.elementwise import isposinf as isposinf
from fgrad.numpy.elementwise import isreal as isreal
from fgrad.numpy.elementwise import isrealobj as isrealobj
from fgrad.numpy.elementwise import lcm as lcm
from fgrad.numpy.elementwise import ldexp as ldexp
from fgrad.numpy.elementwise import left_shift as left_shift
from fgrad.numpy.elementwise import less as less
from fgrad.numpy.elementwise import less_equal as less_equal
from fgrad.numpy.elementwise import log as log
from fgrad.numpy.elementwise import log1p as log1p
from fgrad.numpy.elementwise import log2 as log2
from fgrad.numpy.elementwise import log10 as log10
from fgrad.numpy.elementwise import logaddexp as logaddexp
from fgrad.numpy.elementwise import logaddexp2 as logaddexp2
from fgrad.numpy.elementwise import logical_and as logical_and
from fgrad.numpy.elementwise import logical_not as logical_not
from fgrad.numpy.elementwise import logical_or as logical_or
from fgrad.numpy.elementwise import logical_xor as logical_xor
from fgrad.numpy.elementwise import maximum as maximum
from fgrad.numpy.elementwise import minimum as minimum
from fgrad.numpy.elementwise import modf as modf
from fgrad.numpy.elementwise import multiply as multiply
from fgrad.numpy.elementwise import negative as negative
from fgrad.numpy.elementwise import nextafter as nextafter
from fgrad.numpy.elementwise import not_equal as not_equal
from fgrad.numpy.elementwise import positive as positive
from fgrad.numpy.elementwise import power as power
from fgrad.numpy.elementwise import rad2deg as rad2deg
from fgrad.numpy.elementwise import radians as radians
from fgrad.numpy.elementwise import real_if_close as real_if_close
from fgrad.numpy.elementwise import reciprocal as reciprocal
from fgrad.numpy.elementwise import remainder as remainder
from fgrad.numpy.elementwise import right_shift as right_shift
from fgrad.numpy.elementwise import rint as rint
from fgrad.numpy.elementwise import sign as sign
from fgrad.numpy.elementwise import signbit as signbit
from fgrad.numpy.elementwise import sin as sin
from fgrad.numpy.elementwise import sinc as sinc
from fgrad.numpy.elementwise import sinh as sinh
from fgrad.numpy.elementwise import spacing as spacing
from fgrad.numpy.elementwise import sqrt as sqrt
from fgrad.numpy.elementwise import square as square
from fgrad.numpy.elementwise import subtract as subtract
from fgrad.numpy.elementwise import tan as tan
from fgrad.numpy.elementwise import tanh as tanh
from fgrad.numpy.elementwise import trunc as trunc
from fgrad.numpy.functional import apply_along_axis as apply_along_axis
from fgrad.numpy.functional import apply_over_axes as apply_over_axes
from fgrad.numpy.functional import ndenumerate as ndenumerate
from fgrad.numpy.functional import nditer as nditer
from fgrad.numpy.functional import piecewise as piecewise
from fgrad.numpy.functional import vectorize as vectorize
from fgrad.numpy.grids import c_ as c_
from fgrad.numpy.grids import diag_indices_from as diag_indices_from
from fgrad.numpy.grids import ix_ as ix_
from fgrad.numpy.grids import mgrid as mgrid
from fgrad.numpy.grids import ogrid as ogrid
from fgrad.numpy.grids import r_ as r_
from fgrad.numpy.grids import ravel_multi_index as ravel_multi_index
from fgrad.numpy.grids import tril_indices_from as tril_indices_from
from fgrad.numpy.grids import triu_indices_from as triu_indices_from
from fgrad.numpy.grids import unravel_index as unravel_index
from fgrad.numpy.histograms import bincount as bincount
from fgrad.numpy.histograms import histogram as histogram
from fgrad.numpy.histograms import histogram2d as histogram2d
from fgrad.numpy.histograms import histogram_bin_edges as histogram_bin_edges
from fgrad.numpy.histograms import histogramdd as histogramdd
from fgrad.numpy.indexing import array2string as array2string
from fgrad.numpy.indexing import result_type as result_type
from fgrad.numpy.indexing import take as take
from fgrad.numpy.indexing import take_along_axis as take_along_axis
from fgrad.numpy.inplace import copyto as copyto
from fgrad.numpy.inplace import fill_diagonal as fill_diagonal
from fgrad.numpy.inplace import place as place
from fgrad.numpy.inplace import put as put
from fgrad.numpy.inplace import put_along_axis as put_along_axis
from fgrad.numpy.inplace import putmask as putmask
from fgrad.numpy.insertion import delete as delete
from fgrad.numpy.insertion import insert as insert
from fgrad.numpy.insertion import resize as resize
from fgrad.numpy.insertion import trim_zeros as trim_zeros
from fgrad.numpy.interpolation import interp as interp
from fgrad.numpy.joining import append as append
from fgrad.numpy.joining import block as block
from fgrad.numpy.joining import column_stack as column_stack
from fgrad.numpy.joining import concatenate as concatenate
from fgrad.numpy.joining import dstack as dstack
from fgrad.numpy.joining import hstack as hstack
from fgrad.numpy.joining import row_stack as row_stack
from fgrad.numpy.joining import stack as stack
from fgrad.numpy.joining import vstack as vstack
from fgrad.numpy.moments import abs2 as abs2
from fgrad.numpy.moments import average as average
from fgrad.numpy.moments import mean as mean
from fgrad.numpy.moments import std as std
from fgrad.numpy.moments import var as var
from fgrad.numpy.namespace import __array_api_version__ as __array_api_version__
from fgrad.numpy.namespace import __array_namespace_info__ as __array_namespace_info__
from fgrad.numpy.nanfunctions import nancumprod as nancumprod
from fgrad.numpy.nanfunctions import nancumsum as nancumsum
from fgrad.numpy.nanfunctions import nanmax as nanmax
from fgrad.numpy.nanfunctions import nanmean as nanmean
from fgrad.numpy.nanfunctions import nanmin as nanmin
from fgrad.numpy.nanfunctions import nanprod as nanprod
from fgrad.numpy.nanfunctions import nanstd as nanstd
from fgrad.numpy.nanfunctions import nansum as nansum
from fgrad.numpy.nanfunctions import nanvar as nanvar
from fgrad.numpy.nondifferentiable import array_equiv as array_equiv
from fgrad.numpy.nondifferentiable import array_repr as array_repr
from fgrad.numpy.nondifferentiable import array_str as array_str
from fgrad.numpy.nondifferentiable import can_cast as can_cast
from fgrad.numpy.nondifferentiable import common_type as common_type
from fgrad.numpy.nondifferentiable import format_float_positional as format_float_positional
from fgrad.numpy.nondifferentiable import format_float_scientific as format_float_scientific
from fgrad.numpy.nondifferentiable import may_share_memory as may_share_memory
from fgrad.numpy.nondifferentiable import min_scalar_type as min_scalar_type
from fgrad.numpy.nondifferentiable import save as save
from fgrad.numpy.nondifferentiable import savetxt as savetxt
from fgrad.numpy.nondifferentiable import savez as savez
from fgrad.numpy.nondifferentiable import savez_compressed as savez_compressed
from fgrad.numpy.nondifferentiable import shares_memory as shares_memory
from fgrad.numpy.ordering import argmax as argmax
from fgrad.numpy.ordering import argmin as argmin
from fgrad.numpy.ordering import argpartition as argpartition
from fgrad.numpy.ordering import argsort as argsort
from fgrad.numpy.ordering import digitize as digitize
from fgrad.numpy.ordering import lexsort as lexsort
from fgrad.numpy.ordering import nanargmax as nanargmax
from fgrad.numpy.ordering import nanargmin as nanargmin
from fgrad.numpy.ordering import partition as partition
from fgrad.numpy.ordering import searchsorted as searchsorted
from fgrad.numpy.ordering import sort as sort
from fgrad.numpy.ordering import sort_complex as sort_complex
from fgrad.numpy.padding import pad as pad
from fgrad.numpy.permutations import flip as flip
from fgrad.numpy.permutations import fliplr as fliplr
from fgrad.numpy.permutations import flipud as flipud
from fgrad.numpy.permutations import repeat as repeat
from fgrad.numpy.permutations import roll as roll
from fgrad.numpy.permutations import rot90 as rot90
from fgrad.numpy.permutations import tile as tile
from fgrad.numpy.polynomials import poly as poly
from fgrad.numpy.polynomials import polyadd as polyadd
from fgrad.numpy.polynomials import polyder as polyder
from fgrad.numpy.polynomials import polydiv as polydiv
from fgrad.numpy.polynomials import polyfit as polyfit
from fgrad.numpy.polynomials import polyint as polyint
from fgrad.numpy.polynomials import polymul as polymul
from fgrad.numpy.polynomials import polysub as polysub
from fgrad.numpy.polynomials import polyval as polyval
from fgrad.numpy.polynomials import roots as roots
from fgrad.numpy.polynomials import vander as vander
from fgrad.numpy.products import convolve as convolve
from fgrad.numpy.products import correlate as correlate
from fgrad.numpy.products import cross as cross
from fgrad.numpy.products import dot as dot
from fgrad.numpy.products import einsum as einsum
from fgrad.numpy.products import einsum_path as einsum_path
from fgrad.numpy.products import inner as inner
from fgrad.numpy.products import kron as kron
from fgrad.numpy.products import matmul as matmul
from fgrad.numpy.products import matvec as matvec
from fgrad.numpy.products import outer as outer
from fgrad.numpy.products import tensordot as tensordot
from fgrad.numpy.products import trace as trace
from fgrad.numpy.products import vdot as vdot
from fgrad.numpy.products import vecdot as vecdot
from fgrad.numpy.products import vecmat as vecmat
from fgrad.numpy.reductions import all as all
from fgrad.numpy.reductions import amax as amax
from fgrad.numpy.reductions import amin as amin
from fgrad.numpy.reductions import any as any
from fgrad.numpy.reductions import count_nonzero as count_nonzero
from fgrad.numpy.reductions import max as max
from fgrad.numpy.reductions import min as min
from fgrad.numpy.reductions import prod as prod
from fgrad.numpy.reductions import ptp as ptp
from fgrad.numpy.reductions import sum as sum
from fgrad.numpy.registry import declare_operators
from fgrad.numpy.rounding import clip as clip
from fgrad.numpy.rounding import round as round
from fgrad.numpy.selection import argwhere as argwhere
from fgrad.numpy.selection import choose as choose
from fgrad.numpy.selection import compress as compress
from fgrad.numpy.selection import extract as extract
from fgrad.numpy.selection import flatnonzero as flatnonzero
from fgrad.numpy.selection import nan_to_num as nan_to_num
from fgrad.numpy.selection import nonzero as nonzero
from fgrad.numpy.selection import select as select
from fgrad.numpy.selection import where as where
from fgrad.numpy.sets import intersect1d as intersect1d
from fgrad.numpy.sets import isin as isin
from fgrad.numpy.sets import setdiff1d as setdiff1d
from fgrad.numpy.sets import setxor1d as setxor1d
from fgrad.numpy.sets import union1d as union1d
from fgrad.numpy.sets import unique as unique
from fgrad.numpy.sets import unique_all as unique_all
from fgrad.numpy.sets import unique_counts as unique_counts
from fgrad.numpy.sets import unique_inverse as unique_inverse
from fgrad.numpy.sets import unique_values as unique_values
from fgrad.numpy.shapes import astype as astype
from fgrad.numpy.shapes import atleast_1d as atleast_1d
from fgrad.numpy.shapes import atleast_2d as atleast_2d
from fgrad.numpy.shapes import atleast_3d as atleast_3d
from fgrad.numpy.shapes import broadcast_arrays as broadcast_arrays
from fgrad.numpy.shapes import broadcast_to as broadcast_to
from fgrad.numpy.shapes import expand_dims as expand_dims
from fgrad.numpy.shapes import matrix_transpose as matrix_transpose
from fgrad.numpy.shapes import moveaxis as moveaxis
from fgrad.numpy.shapes import ndim as ndim
from fgrad.numpy.shapes import ravel as ravel
from fgrad.numpy.shapes import reshape as reshape
from fgrad.numpy.shapes import rollaxis as rollaxis
from fgrad.numpy.shapes import shape as shape
from fgrad.numpy.shapes import size as size
from fgrad.numpy.shapes import squeeze as squeeze
from fgrad.numpy.shapes import swapaxes as swapaxes
from fgrad.numpy.shapes import transpose as transpose
from fgrad.numpy.splitting import array_split as array_split
from fgrad.numpy.splitting import dsplit as dsplit
from fgrad.numpy.splitting import hsplit as hsplit
from fgrad.numpy.splitting import split as split
from fgrad.numpy.splitting import unstack as unstack
from fgrad.numpy.splitting import vsplit as vsplit
from fgrad.numpy.statistics import corrcoef as corrcoef
from fgrad.numpy.statistics import cov as cov
from fgrad.numpy.statistics import median as median
from fgrad.numpy.statistics import nanmedian as nanmedian
from fgrad.numpy.statistics import nanpercentile as nanpercentile
from fgrad.numpy.statistics import nanquantile as nanquantile
from fgrad.numpy.statistics import percentile as percentile
from fgrad.numpy.statistics import quantile as quantile
from fgrad.numpy.ufuncs import declare_methods
from fgrad.numpy.windows import bartlett as bartlett
from fgrad.numpy.windows import blackman as blackman
from fgrad.numpy.windows import hamming as hamming
from fgrad.numpy.windows import hanning as hanning
from fgrad.numpy.windows import kaiser as kaiser

abs = absolute
pow = power
acos = arccos
asin = arcsin
atan = arctan
atan2 = arctan2
acosh = arccosh
asinh = arcsinh
atanh = arctanh
conj = conjugate
mod = remainder
true_divide = divide
concat = concatenate
permute_dims = transpose
around = round
bitwise_not = invert
bitwise_invert = invert
bitwise_left_shift = left_shift
bitwise_right_shift = right_shift

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
