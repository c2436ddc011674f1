"""einops: the class whose subclasses it takes for the backends of arrays."""

from __future__ import annotations

from typing import Any


def backend_class() -> Any:
    """Return the class.

    Raises:
        ImportError: of an einops that has none; it says then that it does not know Tensors.
    """
    from einops._backends import AbstractBackend  # noqa: PLC0415 -- late: einops is optional

    return AbstractBackend
