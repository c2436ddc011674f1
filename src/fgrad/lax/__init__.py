"""Control flow, implicit functions, collective operations, and arrays in the general forms of JAX's `lax`.

Names are JAX's; all of it is differentiable in every way.
"""

import fgrad.lax.primitives  # noqa: F401 -- declares them
from fgrad.lax.arithmetic import cumlogsumexp as cumlogsumexp
from fgrad.lax.arithmetic import cummax as cummax
from fgrad.lax.arithmetic import cummin as cummin
from fgrad.lax.arithmetic import cumprod as cumprod
from fgrad.lax.arithmetic import cumsum as cumsum
from fgrad.lax.arithmetic import div as div
from fgrad.lax.arithmetic import dot_general as dot_general
from fgrad.lax.arithmetic import sort as sort
from fgrad.lax.branches import cond as cond
from fgrad.lax.branches import select as select
from fgrad.lax.branches import switch as switch
from fgrad.lax.implicit import custom_linear_solve as custom_linear_solve
from fgrad.lax.implicit import custom_root as custom_root
from fgrad.lax.indexing import dynamic_index_in_dim as dynamic_index_in_dim
from fgrad.lax.indexing import dynamic_slice as dynamic_slice
from fgrad.lax.indexing import dynamic_slice_in_dim as dynamic_slice_in_dim
from fgrad.lax.indexing import dynamic_update_index_in_dim as dynamic_update_index_in_dim
from fgrad.lax.indexing import dynamic_update_slice as dynamic_update_slice
from fgrad.lax.indexing import dynamic_update_slice_in_dim as dynamic_update_slice_in_dim
from fgrad.lax.indexing import gather as gather
from fgrad.lax.indexing import pad as pad
from fgrad.lax.indexing import scatter as scatter
from fgrad.lax.indexing import take_along_axis as take_along_axis
from fgrad.lax.indexing import top_k as top_k
from fgrad.lax.loops import fori_loop as fori_loop
from fgrad.lax.loops import while_loop as while_loop
from fgrad.lax.maps import associative_scan as associative_scan
from fgrad.lax.maps import map as map
from fgrad.lax.scans import scan as scan
from fgrad.lax.shapes import ScatterDimensionNumbers as ScatterDimensionNumbers
from fgrad.lax.shapes import broadcast_in_dim as broadcast_in_dim
from fgrad.lax.shapes import round_half_away as round_half_away
from fgrad.lax.shapes import scatter_add as scatter_add
from fgrad.lax.shapes import select_n as select_n
from fgrad.lax.shapes import slice_in_dim as slice_in_dim
from fgrad.lax.sized import argwhere as argwhere
from fgrad.lax.sized import bincount as bincount
from fgrad.lax.sized import flatnonzero as flatnonzero
from fgrad.lax.sized import nonzero as nonzero
from fgrad.lax.sized import repeat as repeat
from fgrad.lax.sized import unique as unique
from fgrad.lax.windows import ConvDimensionNumbers as ConvDimensionNumbers
from fgrad.lax.windows import conv_dimension_numbers as conv_dimension_numbers
from fgrad.lax.windows import conv_general_dilated as conv_general_dilated
from fgrad.lax.windows import conv_general_dilated_local as conv_general_dilated_local
from fgrad.lax.windows import conv_general_dilated_patches as conv_general_dilated_patches
from fgrad.lax.windows import conv_transpose as conv_transpose
from fgrad.lax.windows import padtype_to_pads as padtype_to_pads
from fgrad.lax.windows import reduce_window as reduce_window
from fgrad.names import offered as _offered
from fgrad.ops.precision import reduce_precision as reduce_precision
from fgrad.transforms.collectives import all_gather as all_gather
from fgrad.transforms.collectives import axis_index as axis_index
from fgrad.transforms.collectives import axis_size as axis_size
from fgrad.transforms.collectives import pbroadcast as pbroadcast
from fgrad.transforms.collectives import pmax as pmax
from fgrad.transforms.collectives import pmean as pmean
from fgrad.transforms.collectives import pmin as pmin
from fgrad.transforms.collectives import ppermute as ppermute
from fgrad.transforms.collectives import psum as psum
from fgrad.transforms.collectives import psum_scatter as psum_scatter


def __dir__() -> list[str]:
    return _offered(globals())
