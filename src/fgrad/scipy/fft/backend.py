"""`scipy.fft`'s own functions for Tensors: SciPy asks the backends that are registered before it computes.

Source: https://docs.scipy.org/doc/scipy/reference/fft.html#backend-control
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scipy.fft import register_backend

from fgrad.extend.engine import holds_tensor


class Backend:
    """Computes for Tensors what `fgrad.scipy.fft` has, and leaves all else to SciPy."""

    __ua_domain__ = "numpy.scipy.fft"

    @staticmethod
    def __ua_function__(method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if not (any(map(holds_tensor, args)) or any(map(holds_tensor, kwargs.values()))):
            return NotImplemented
        from fgrad.scipy import fft  # noqa: PLC0415 -- late: SciPy may be imported for anything

        f = getattr(fft, method.__name__, None)
        return NotImplemented if f is None else f(*args, **kwargs)


register_backend(Backend)
