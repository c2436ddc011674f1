"""Kernels run by Python: the texts and tables of compiled programs, without the time that Numba takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fgrad.kernels import gather_scatter, native, recurrences, scans, sorting, sums, windows


@contextmanager
def kernels_in_python() -> Iterator[None]:
    """Let Python run the kernels that are made meanwhile, and keep them apart from compiled ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "interpreted", lambda: True)
        patch.setattr(native, "_kernels", {})
        forget_loops()
        yield
    forget_loops()


def forget_loops() -> None:
    """Let the loops of eager mode be made again when they are asked for."""
    for module in (gather_scatter, recurrences, scans, sorting, sums, windows):
        for made in vars(module).values():
            if hasattr(made, "cache_clear"):
                made.cache_clear()
