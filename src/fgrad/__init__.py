"""fgrad: JAX-style transformations and a stateful GradManager for NumPy programs, with its own compiler."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fgrad import config as config
from fgrad import numpy as numpy
from fgrad import random as random
from fgrad import tree as tree
from fgrad.backend.devices import default_device as default_device
from fgrad.backend.devices import devices as devices
from fgrad.config import disable_jit as disable_jit
from fgrad.core.tensor import Tensor as Tensor
from fgrad.core.tensor import tensor as tensor
from fgrad.errors import CacheWarning as CacheWarning
from fgrad.errors import EscapedTensorError as EscapedTensorError
from fgrad.errors import EscapeWarning as EscapeWarning
from fgrad.errors import NoGradientWarning as NoGradientWarning
from fgrad.errors import NonFiniteError as NonFiniteError
from fgrad.errors import RankError as RankError
from fgrad.errors import RankMismatchError as RankMismatchError
from fgrad.errors import RankTimeoutError as RankTimeoutError
from fgrad.errors import RetraceWarning as RetraceWarning
from fgrad.errors import UnsolvedWarning as UnsolvedWarning
from fgrad.errors import UnusedArgumentError as UnusedArgumentError
from fgrad.locks import survive_forks as _survive_forks
from fgrad.names import offered as _offered
from fgrad.numpy.indexing import stop_gradient as stop_gradient
from fgrad.transforms.compiled_rules import launched as _launched  # noqa: F401 -- what runs primitives of large arrays, and on a device
from fgrad.transforms.custom import Function as Function
from fgrad.transforms.custom import custom_jvp as custom_jvp
from fgrad.transforms.custom import custom_vjp as custom_vjp
from fgrad.transforms.forward import hessian as hessian
from fgrad.transforms.forward import hvp as hvp
from fgrad.transforms.forward import jacfwd as jacfwd
from fgrad.transforms.forward import jvp as jvp
from fgrad.transforms.forward import linear_transpose as linear_transpose
from fgrad.transforms.forward import linearize as linearize
from fgrad.transforms.manager import GradManager as GradManager
from fgrad.transforms.manager import GradManagerGroup as GradManagerGroup
from fgrad.transforms.nonfinite import debug_nans as debug_nans
from fgrad.transforms.reverse import egrad as egrad
from fgrad.transforms.reverse import elementwise_grad as elementwise_grad
from fgrad.transforms.reverse import grad as grad
from fgrad.transforms.reverse import jacobian as jacobian
from fgrad.transforms.reverse import jacrev as jacrev
from fgrad.transforms.reverse import value_and_grad as value_and_grad
from fgrad.transforms.reverse import vjp as vjp
from fgrad.transforms.stage import eval_shape as eval_shape
from fgrad.transforms.stage import make_graph as make_graph
from fgrad.transforms.vmap import vmap as vmap
from fgrad.tree import register_pytree_node as register_pytree_node
from fgrad.tree import register_pytree_node_class as register_pytree_node_class

if TYPE_CHECKING:
    from fgrad import cache as cache
    from fgrad import debug as debug
    from fgrad import distributed as distributed
    from fgrad import extend as extend
    from fgrad import lax as lax
    from fgrad import nn as nn
    from fgrad import optim as optim
    from fgrad import scipy as scipy
    from fgrad import sparse as sparse
    from fgrad import testing as testing
    from fgrad import viz as viz
    from fgrad.adjoints import differentiate as differentiate
    from fgrad.adjoints import kernel as kernel
    from fgrad.archive import export as export
    from fgrad.archive import load as load
    from fgrad.core.scopes import named_scope as named_scope
    from fgrad.lax.checkpointing import checkpointed as checkpointed
    from fgrad.numpy_coverage import coverage as coverage
    from fgrad.plain import plain_numpy as plain_numpy
    from fgrad.transforms import checkpoint_policies as checkpoint_policies
    from fgrad.transforms.callbacks import io_callback as io_callback
    from fgrad.transforms.callbacks import pure_callback as pure_callback
    from fgrad.transforms.checkpoint import checkpoint as checkpoint
    from fgrad.transforms.checkpoint import checkpoint_name as checkpoint_name
    from fgrad.transforms.checkpoint import print_saved_residuals as print_saved_residuals
    from fgrad.transforms.checkpoint import remat as remat
    from fgrad.transforms.jit import jit as jit
    from fgrad.transforms.retrace import explain_retrace as explain_retrace
    from fgrad.transforms.vectorize import vectorize as vectorize
    from fgrad.viz.magic import load_ipython_extension as load_ipython_extension
    from fgrad.viz.profiling import profile as profile

__version__ = "0.1.0"

# what few programs need is loaded when it is first asked for: modules of a package, or names of a module
_LATE = {
    name: where
    for where, names in {
        "fgrad.": "cache debug distributed extend lax nn optim scipy sparse testing viz",
        "fgrad.adjoints": "differentiate kernel",
        "fgrad.archive": "export load",
        "fgrad.core.scopes": "named_scope",
        "fgrad.lax.checkpointing": "checkpointed",
        "fgrad.numpy_coverage": "coverage",
        "fgrad.plain": "plain_numpy",
        "fgrad.transforms.": "checkpoint_policies",
        "fgrad.transforms.callbacks": "io_callback pure_callback",
        "fgrad.transforms.checkpoint": "checkpoint checkpoint_name print_saved_residuals remat",
        "fgrad.transforms.jit": "jit",
        "fgrad.transforms.retrace": "explain_retrace",
        "fgrad.transforms.vectorize": "vectorize",
        "fgrad.viz.magic": "load_ipython_extension",
        "fgrad.viz.profiling": "profile",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'fgrad' has no attribute {name!r}")
    _survive_forks()  # another thread may fork while a module is on its way in
    where = _LATE[name]
    found: Any = import_module(where + name) if where.endswith(".") else getattr(import_module(where), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return _offered(globals(), "numpy", "random", "config", "tree", "errors", *_LATE)
