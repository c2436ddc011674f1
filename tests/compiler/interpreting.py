"""Kernels run by Python: the texts and tables of compiled programs, without the time that Numba takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fgrad.kernels import native


@contextmanager
def kernels_in_python() -> Iterator[None]:
    """Let Python run the kernels that are made meanwhile, and keep them apart from compiled ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "interpreted", lambda: True)
        patch.setattr(native, "_kernels", {})
        yield
