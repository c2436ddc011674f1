"""The backend by which einops knows Tensors; importing it declares it, which `fgrad.import_hooks` sees to.

einops looks for the subclasses of its own class of backends when it meets a type for the first time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.compat.einops import backend_class
from fgrad.core.tensor import Tensor


class TensorBackend(backend_class()):  # type: ignore[misc]
    """What einops asks of arrays, with fgrad's functions."""

    framework_name = "fgrad"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Return whether this backend is the one for `tensor`."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray[Any, Any]) -> Tensor:
        """Return an array as Tensor."""
        return Tensor(x)

    def to_numpy(self, x: Tensor) -> np.ndarray[Any, Any]:
        """Return the elements as array, as `numpy.asarray` does."""
        return np.asarray(x)

    def arange(self, start: int, stop: int) -> Tensor:
        """Return the integers from `start` to before `stop`."""
        return fnp.arange(start, stop)

    def stack_on_zeroth_dimension(self, tensors: Sequence[Any]) -> Any:
        """Return the parts along a new first axis."""
        return fnp.stack(tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        """Return `x` with a new axis of length one."""
        return fnp.expand_dims(x, new_position)

    def tile(self, x: Any, repeats: Sequence[int]) -> Any:
        """Return `x` repeated along its axes."""
        return fnp.tile(x, repeats)

    def concat(self, tensors: Sequence[Any], axis: int) -> Any:
        """Return the parts one after another along an axis."""
        return fnp.concatenate(tensors, axis)

    def is_float_type(self, x: Any) -> bool:
        """Return whether `x` has a mean of its own dtype."""
        return bool(x.dtype.kind in "fc")

    def einsum(self, pattern: str, *x: Any) -> Any:
        """Return the sum of products that `pattern` describes."""
        return fnp.einsum(pattern, *x)
