"""Types of what functions of `fgrad.numpy` take and return, for annotations of your own.

A result is a Tensor if an argument is one, else NumPy's array or scalar: `Array` says both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from fgrad.core.tensor import Tensor
from fgrad.names import offered as _offered

__all__ = ["Array", "ArrayLike", "Axis", "Casting", "DType", "Norm", "Order", "Shape"]

Array: TypeAlias = Tensor | np.ndarray[Any, Any]
ArrayLike: TypeAlias = npt.ArrayLike | Tensor | Sequence["ArrayLike"]
Axis: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
DType: TypeAlias = npt.DTypeLike | None
Order: TypeAlias = Literal["C", "F", "A", "K"] | None
Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "same_value", "unsafe"]
Norm: TypeAlias = Literal["backward", "ortho", "forward"] | None


def __dir__() -> list[str]:
    return _offered(globals())
