"""What fgrad changes in the process around it, with the first Tensor or the first machine code.

Memory of freed large arrays is reused instead of being returned to the system. glibc maps large blocks for
themselves and gives back what is free at the end of its heap, once that is more than twice the largest of
them: 16 MB after a program has freed its first array of 8 MB. A gradient frees many such arrays at its end,
so each call would get new pages from the system, which writes zeros there: half the time of the gradient of
a loop over 10^6 numbers.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

from fgrad import config, locks
from fgrad.blocks import Block
from fgrad.import_hooks import install_import_hooks

YOUNG = 500_000  # objects that are made before the collector of cycles looks at them
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>
KEPT, MAPPED = 256 << 20, 32 << 20  # bytes: free at the end of the heap; the least block that is mapped
OWN = ("MMAP_MAX", "MMAP_THRESHOLD", "TOP_PAD", "TRIM_THRESHOLD")  # each of which ends glibc's own choices


@locks.once
def prepare() -> None:
    """Let imports and the memory of the process know fgrad, unless `FGRAD_PROCESS_EFFECTS=0`."""
    if config.process_effects():
        install_import_hooks()
        keep_memory()


def keep_memory() -> None:
    """Have glibc keep freed memory, unless the environment says how much; other libraries do not care."""
    if sys.platform != "linux":
        return
    tuned = "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "")
    if tuned or any(f"MALLOC_{name}_" in os.environ for name in OWN):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_TRIM_THRESHOLD, KEPT)
        library.mallopt(M_MMAP_THRESHOLD, MAPPED)


class RarelyCollecting(Block):
    """While it lasts, the collector of cycles looks less often, unless `FGRAD_PROCESS_EFFECTS=0`.

    What is traced and compiled lives: the collector would go through all of it again and again.
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._watch, self._before = None, gc.get_threshold()

    def mark(self) -> tuple[int, int, int]:
        """Return how often it looked before."""
        return self._before

    def __enter__(self) -> None:
        first, *later = self._before
        if 0 < first < YOUNG and config.process_effects():
            gc.set_threshold(YOUNG, *later)

    def undo(self, mark: tuple[int, int, int]) -> None:
        """Let it look as often as before, but where somebody else has said how often meanwhile.

        Of threads that are inside at a time, the one that came first puts back what was before all.
        """
        if gc.get_threshold()[0] == YOUNG:
            gc.set_threshold(*mark)
