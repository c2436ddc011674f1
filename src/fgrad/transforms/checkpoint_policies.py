"""What `checkpoint` keeps instead of recomputing it: functions of a primitive's name and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.core.primitive import CONTRACTION, PRIMITIVES

Policy = Callable[..., bool]


def everything_saveable(primitive: str, **params: Any) -> bool:
    """Keep everything, as without `checkpoint`."""
    return True


def nothing_saveable(primitive: str, **params: Any) -> bool:
    """Keep nothing but the arguments: the default."""
    return False


def dots_saveable(primitive: str, **params: Any) -> bool:
    """Keep the results of products of matrices and of contractions (`matmul`, `dot`, `einsum`, ...)."""
    return primitive in PRIMITIVES and CONTRACTION in PRIMITIVES[primitive].traits


def save_only_these_names(*names: str) -> Policy:
    """Return the policy that keeps what `checkpoint_name` gave one of these names."""
    wanted = frozenset(names)

    def policy(primitive: str, **params: Any) -> bool:
        return primitive == "name" and params["label"] in wanted

    return policy
