"""NumPy's names for arrays and Tensors: differentiable, mappable, stageable.

Functions return arrays for arrays and Tensors if any argument is one; creation functions return Tensors.
The same functions answer when NumPy's own (`numpy.sin`, `numpy.sum`, ...) are called on Tensors.
"""

# ruff: noqa: A004 -- NumPy's names
import numpy as _np

from fgrad.numpy.arrays import arange as arange
from fgrad.numpy.arrays import array as array
from fgrad.numpy.arrays import asarray as asarray
from fgrad.numpy.arrays import copy as copy
from fgrad.numpy.arrays import empty as empty
from fgrad.numpy.arrays import empty_like as empty_like
from fgrad.numpy.arrays import eye as eye
from fgrad.numpy.arrays import full as full
from fgrad.numpy.arrays import full_like as full_like
from fgrad.numpy.arrays import identity as identity
from fgrad.numpy.arrays import linspace as linspace
from fgrad.numpy.arrays import meshgrid as meshgrid
from fgrad.numpy.arrays import ones as ones
from fgrad.numpy.arrays import ones_like as ones_like
from fgrad.numpy.arrays import tri as tri
from fgrad.numpy.arrays import zeros as zeros
from fgrad.numpy.arrays import zeros_like as zeros_like
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
from fgrad.numpy.elementwise import equal as equal
from fgrad.numpy.elementwise import exp as exp
from fgrad.numpy.elementwise import exp2 as exp2
from fgrad.numpy.elementwise import expm1 as expm1
from fgrad.numpy.elementwise import fabs as fabs
from fgrad.numpy.elementwise import float_power as float_power
from fgrad.numpy.elementwise import floor as floor
from fgrad.numpy.elementwise import floor_divide as floor_divide
from fgrad.numpy.elementwise import fmax as fmax
from fgrad.numpy.elementwise import fmin as fmin
from fgrad.numpy.elementwise import fmod as fmod
from fgrad.numpy.elementwise import gcd as gcd
from fgrad.numpy.elementwise import greater as greater
from fgrad.numpy.elementwise import greater_equal as greater_equal
from fgrad.numpy.elementwise import heaviside as heaviside
from fgrad.numpy.elementwise import hypot as hypot
from fgrad.numpy.elementwise import invert as invert
from fgrad.numpy.elementwise import isfinite as isfinite
from fgrad.numpy.elementwise import isinf as isinf
from fgrad.numpy.elementwise import isnan as isnan
from fgrad.numpy.elementwise import lcm as lcm
from fgrad.numpy.elementwise import left_shift as left_shift
from fgrad.numpy.elementwise import less as less
from fgrad.numpy.elementwise import less_equal as less_equal
from fgrad.numpy.elementwise import log as log
from fgrad.numpy.elementwise import log10 as log10
from fgrad.numpy.elementwise import log1p as log1p
from fgrad.numpy.elementwise import log2 as log2
from fgrad.numpy.elementwise import logaddexp as logaddexp
from fgrad.numpy.elementwise import logaddexp2 as logaddexp2
from fgrad.numpy.elementwise import logical_and as logical_and
from fgrad.numpy.elementwise import logical_not as logical_not
from fgrad.numpy.elementwise import logical_or as logical_or
from fgrad.numpy.elementwise import logical_xor as logical_xor
from fgrad.numpy.elementwise import maximum as maximum
from fgrad.numpy.elementwise import minimum as minimum
from fgrad.numpy.elementwise import multiply as multiply
from fgrad.numpy.elementwise import negative as negative
from fgrad.numpy.elementwise import nextafter as nextafter
from fgrad.numpy.elementwise import not_equal as not_equal
from fgrad.numpy.elementwise import positive as positive
from fgrad.numpy.elementwise import power as power
from fgrad.numpy.elementwise import rad2deg as rad2deg
from fgrad.numpy.elementwise import radians as radians
from fgrad.numpy.elementwise import reciprocal as reciprocal
from fgrad.numpy.elementwise import remainder as remainder
from fgrad.numpy.elementwise import right_shift as right_shift
from fgrad.numpy.elementwise import rint as rint
from fgrad.numpy.elementwise import sign as sign
from fgrad.numpy.elementwise import signbit as signbit
from fgrad.numpy.elementwise import sin as sin
from fgrad.numpy.elementwise import sinh as sinh
from fgrad.numpy.elementwise import spacing as spacing
from fgrad.numpy.elementwise import sqrt as sqrt
from fgrad.numpy.elementwise import square as square
from fgrad.numpy.elementwise import subtract as subtract
from fgrad.numpy.elementwise import tan as tan
from fgrad.numpy.elementwise import tanh as tanh
from fgrad.numpy.elementwise import trunc as trunc
from fgrad.numpy.indexing import allclose as allclose
from fgrad.numpy.indexing import angle as angle
from fgrad.numpy.indexing import argwhere as argwhere
from fgrad.numpy.indexing import array2string as array2string
from fgrad.numpy.indexing import array_equal as array_equal
from fgrad.numpy.indexing import clip as clip
from fgrad.numpy.indexing import compress as compress
from fgrad.numpy.indexing import extract as extract
from fgrad.numpy.indexing import flatnonzero as flatnonzero
from fgrad.numpy.indexing import imag as imag
from fgrad.numpy.indexing import isclose as isclose
from fgrad.numpy.indexing import iscomplexobj as iscomplexobj
from fgrad.numpy.indexing import nan_to_num as nan_to_num
from fgrad.numpy.indexing import nonzero as nonzero
from fgrad.numpy.indexing import real as real
from fgrad.numpy.indexing import result_type as result_type
from fgrad.numpy.indexing import round as round
from fgrad.numpy.indexing import searchsorted as searchsorted
from fgrad.numpy.indexing import select as select
from fgrad.numpy.indexing import take as take
from fgrad.numpy.indexing import take_along_axis as take_along_axis
from fgrad.numpy.indexing import where as where
from fgrad.numpy.products import convolve as convolve
from fgrad.numpy.products import cross as cross
from fgrad.numpy.products import dot as dot
from fgrad.numpy.products import einsum as einsum
from fgrad.numpy.products import inner as inner
from fgrad.numpy.products import kron as kron
from fgrad.numpy.products import matmul as matmul
from fgrad.numpy.products import outer as outer
from fgrad.numpy.products import tensordot as tensordot
from fgrad.numpy.products import trace as trace
from fgrad.numpy.products import vdot as vdot
from fgrad.numpy.products import vecdot as vecdot
from fgrad.numpy.reductions import abs2 as abs2
from fgrad.numpy.reductions import all as all
from fgrad.numpy.reductions import amax as amax
from fgrad.numpy.reductions import amin as amin
from fgrad.numpy.reductions import any as any
from fgrad.numpy.reductions import argmax as argmax
from fgrad.numpy.reductions import argmin as argmin
from fgrad.numpy.reductions import argsort as argsort
from fgrad.numpy.reductions import average as average
from fgrad.numpy.reductions import count_nonzero as count_nonzero
from fgrad.numpy.reductions import cumprod as cumprod
from fgrad.numpy.reductions import cumsum as cumsum
from fgrad.numpy.reductions import diff as diff
from fgrad.numpy.reductions import logsumexp as logsumexp
from fgrad.numpy.reductions import max as max
from fgrad.numpy.reductions import mean as mean
from fgrad.numpy.reductions import min as min
from fgrad.numpy.reductions import norm as norm
from fgrad.numpy.reductions import prod as prod
from fgrad.numpy.reductions import ptp as ptp
from fgrad.numpy.reductions import sort as sort
from fgrad.numpy.reductions import std as std
from fgrad.numpy.reductions import sum as sum
from fgrad.numpy.reductions import var as var
from fgrad.numpy.shapes import append as append
from fgrad.numpy.shapes import array_split as array_split
from fgrad.numpy.shapes import astype as astype
from fgrad.numpy.shapes import atleast_1d as atleast_1d
from fgrad.numpy.shapes import atleast_2d as atleast_2d
from fgrad.numpy.shapes import atleast_3d as atleast_3d
from fgrad.numpy.shapes import broadcast_arrays as broadcast_arrays
from fgrad.numpy.shapes import broadcast_to as broadcast_to
from fgrad.numpy.shapes import column_stack as column_stack
from fgrad.numpy.shapes import concatenate as concatenate
from fgrad.numpy.shapes import diag as diag
from fgrad.numpy.shapes import diagflat as diagflat
from fgrad.numpy.shapes import diagonal as diagonal
from fgrad.numpy.shapes import dsplit as dsplit
from fgrad.numpy.shapes import dstack as dstack
from fgrad.numpy.shapes import expand_dims as expand_dims
from fgrad.numpy.shapes import flip as flip
from fgrad.numpy.shapes import fliplr as fliplr
from fgrad.numpy.shapes import flipud as flipud
from fgrad.numpy.shapes import hsplit as hsplit
from fgrad.numpy.shapes import hstack as hstack
from fgrad.numpy.shapes import matrix_transpose as matrix_transpose
from fgrad.numpy.shapes import moveaxis as moveaxis
from fgrad.numpy.shapes import ndim as ndim
from fgrad.numpy.shapes import pad as pad
from fgrad.numpy.shapes import ravel as ravel
from fgrad.numpy.shapes import repeat as repeat
from fgrad.numpy.shapes import reshape as reshape
from fgrad.numpy.shapes import roll as roll
from fgrad.numpy.shapes import rollaxis as rollaxis
from fgrad.numpy.shapes import rot90 as rot90
from fgrad.numpy.shapes import shape as shape
from fgrad.numpy.shapes import size as size
from fgrad.numpy.shapes import split as split
from fgrad.numpy.shapes import squeeze as squeeze
from fgrad.numpy.shapes import stack as stack
from fgrad.numpy.shapes import swapaxes as swapaxes
from fgrad.numpy.shapes import tile as tile
from fgrad.numpy.shapes import transpose as transpose
from fgrad.numpy.shapes import tril as tril
from fgrad.numpy.shapes import triu as triu
from fgrad.numpy.shapes import vsplit as vsplit
from fgrad.numpy.shapes import vstack as vstack
from fgrad.numpy.registry import declare_operators

pi = _np.pi
e = _np.e
inf = _np.inf
nan = _np.nan
newaxis = _np.newaxis
euler_gamma = _np.euler_gamma
float16 = _np.float16
float32 = _np.float32
float64 = _np.float64
complex64 = _np.complex64
complex128 = _np.complex128
int8 = _np.int8
int16 = _np.int16
int32 = _np.int32
int64 = _np.int64
uint8 = _np.uint8
uint16 = _np.uint16
uint32 = _np.uint32
uint64 = _np.uint64
bool_ = _np.bool_
finfo = _np.finfo
iinfo = _np.iinfo
dtype = _np.dtype
ndarray = _np.ndarray
abs, pow, acos, asin, atan, atan2 = absolute, power, arccos, arcsin, arctan, arctan2
acosh, asinh, atanh, conj, mod, true_divide = arccosh, arcsinh, arctanh, conjugate, remainder, divide
concat, permute_dims, around, bitwise_not = concatenate, transpose, round, invert

declare_operators()
del declare_operators
