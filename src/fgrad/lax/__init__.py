"""Control flow, implicit functions and collective operations: JAX's names, differentiable in every way."""

import fgrad.lax.primitives  # noqa: F401 -- declares them
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
from fgrad.lax.sized import bincount as bincount
from fgrad.lax.sized import nonzero as nonzero
from fgrad.lax.sized import repeat as repeat
from fgrad.lax.sized import unique as unique
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
