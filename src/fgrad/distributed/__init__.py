"""Data-parallel gradients over MPI: averaged while the reverse pass runs, and collectives that differentiate.

Start a program on several ranks with `mpirun -n 4 python program.py`; the extra is `mpi`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fgrad.distributed.collectives import all_gather as all_gather
from fgrad.distributed.collectives import broadcast as broadcast
from fgrad.distributed.collectives import pmax as pmax
from fgrad.distributed.collectives import pmean as pmean
from fgrad.distributed.collectives import pmin as pmin
from fgrad.distributed.collectives import ppermute as ppermute
from fgrad.distributed.collectives import psum as psum
from fgrad.distributed.collectives import recv as recv
from fgrad.distributed.collectives import reduce_scatter as reduce_scatter
from fgrad.distributed.collectives import send as send
from fgrad.distributed.gradients import make_allreduce_cb as make_allreduce_cb
from fgrad.distributed.parallel import data_parallel as data_parallel
from fgrad.distributed.world import World as World
from fgrad.distributed.world import init as init
from fgrad.distributed.world import simulate as simulate
from fgrad.distributed.world import world as world
from fgrad.names import offered as _offered

if TYPE_CHECKING:
    from fgrad.distributed.checkpoints import restore as restore
    from fgrad.distributed.checkpoints import save as save


def __getattr__(name: str) -> Any:
    if name not in ("restore", "save"):
        raise AttributeError(f"module 'fgrad.distributed' has no attribute {name!r}")
    return getattr(import_module("fgrad.distributed.checkpoints"), name)  # late: files are those of `archive`


def __dir__() -> list[str]:
    return _offered(globals(), "restore", "save")
