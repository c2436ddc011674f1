"""Optimizers: gradient transformations as pure functions on pytrees, and optimizers that hold tensors.

`adam(1e-3)` and its like are pairs of functions, `init` and `update`, as in Optax. `Adam(gm, 1e-3)` and its
like hold the tensors of a `GradManager`, and `step` writes to them, as in MegEngine and PyTorch. Both are the
same arithmetic. L-BFGS is `fgrad.scipy.optimize.minimize(..., method="L-BFGS-B")`, which takes pytrees.
"""

from fgrad.names import offered as _offered
from fgrad.optim.algorithms import adagrad as adagrad
from fgrad.optim.algorithms import adam as adam
from fgrad.optim.algorithms import adamax as adamax
from fgrad.optim.algorithms import adamw as adamw
from fgrad.optim.algorithms import lion as lion
from fgrad.optim.algorithms import rmsprop as rmsprop
from fgrad.optim.algorithms import sgd as sgd
from fgrad.optim.holders import SGD as SGD
from fgrad.optim.holders import Adagrad as Adagrad
from fgrad.optim.holders import Adam as Adam
from fgrad.optim.holders import Adamax as Adamax
from fgrad.optim.holders import AdamW as AdamW
from fgrad.optim.holders import Lion as Lion
from fgrad.optim.holders import Optimizer as Optimizer
from fgrad.optim.holders import RMSProp as RMSProp
from fgrad.optim.schedules import cosine_decay_schedule as cosine_decay_schedule
from fgrad.optim.schedules import exponential_decay as exponential_decay
from fgrad.optim.schedules import join_schedules as join_schedules
from fgrad.optim.schedules import linear_schedule as linear_schedule
from fgrad.optim.schedules import piecewise_constant_schedule as piecewise_constant_schedule
from fgrad.optim.schedules import warmup_cosine_decay_schedule as warmup_cosine_decay_schedule
from fgrad.optim.transformations import GradientTransformation as GradientTransformation
from fgrad.optim.transformations import add_decayed_weights as add_decayed_weights
from fgrad.optim.transformations import apply_updates as apply_updates
from fgrad.optim.transformations import chain as chain
from fgrad.optim.transformations import clip as clip
from fgrad.optim.transformations import clip_by_global_norm as clip_by_global_norm
from fgrad.optim.transformations import ema as ema
from fgrad.optim.transformations import global_norm as global_norm
from fgrad.optim.transformations import scale_by_learning_rate as scale_by_learning_rate
from fgrad.optim.transformations import trace as trace


def __dir__() -> list[str]:
    return _offered(globals())
