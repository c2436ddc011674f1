"""What the Python array API standard asks of a namespace beside its functions: its version and kinds."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from fgrad.numpy.registry import implements

__array_api_version__ = "2024.12"
_VERSIONS = frozenset({"2021.12", "2022.12", "2023.12", __array_api_version__})

# NumPy describes itself by a class whose methods are the functions of the standard; a Tensor holds what an
# array holds, where an array is; NumPy 2.0 has no such class yet
__array_namespace_info__: Any | None = getattr(np, "__array_namespace_info__", None)


@implements(name="array_namespace")
def array_namespace(api_version: str | None = None) -> ModuleType:
    """Return `fgrad.numpy`, in which consumers of the array API standard find functions of Tensors.

    Args:
        api_version: a version of the standard up to 2024.12, or None for the latest.

    Raises:
        ValueError: this version is not supported.

    Source:
        Python array API standard 2024.12, `array.__array_namespace__`.
    """
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(
            f"version {api_version!r} of the array API standard is not supported; supported are: "
            + ", ".join(sorted(_VERSIONS))
        )
    return sys.modules[__package__ or ""]
