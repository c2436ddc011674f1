"""A plugin of pytest: kernels are compiled for a GPU, and an interpreter runs their PTX; see `ptx`.

    NUMBA_ENABLE_CUDASIM=0 pytest -p tests.cuda.interpreted tests/backend tests/compiler/device

NumPy stands in for CuPy, as in Numba's simulator. Blocks and grids are those of a GPU.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.cuda import ptx

from fgrad.backend import library
from fgrad.kernels import launching

CHIP = (9, 0)
counted: Counter[str] | None = None  # of all launches: bytes loaded, stored, most barriers of a block
ELSEWHERE = {  # tests that say nothing here
    "test_what_is_missing_is_said": "nothing is missing",
    "test_special_functions": "SciPy's functions stand in for kernels",
    "test_loops_are_recorded_and_conditions_are_read": "nothing is recorded",
}


class Poisoned(library.Simulated):
    """NumPy in the place of CuPy, whose new arrays hold what nobody takes for a result."""

    def find(self, name: str) -> Callable[..., Any]:
        """Return the function of NumPy or SciPy called `name`."""
        return _empty if name == "empty" else super().find(name)


def _empty(shape: Any, dtype: Any = float) -> np.ndarray[Any, Any]:
    dtype = np.dtype(dtype)
    return np.full(shape, math.nan if dtype.kind in "fc" else dtype.type(107), dtype)


def compiled(text: str, buffers: tuple[str, ...], numbers: int) -> Callable[..., None]:
    """Return what launches the function `kernel` in a text; see `launching.compiled`."""
    from numba import cuda

    kinds = launching.signature(buffers, numbers)
    made, _ = cuda.compile(launching.module(text), kinds, cc=CHIP, device=False, output="ptx", abi="numba")
    kernel = ptx.parsed(made)

    def launch(arrays: Sequence[Any], numbers: Sequence[int], blocks: int, threads: int) -> None:
        machine = ptx.Machine(kernel, [*arrays, *numbers], blocks, threads, counted)
        with np.errstate(all="ignore"):
            ptx.run(machine)
        if counted is not None:
            counted["barriers"] += int(machine.barriers.max())

    return launch


def install(place: pytest.MonkeyPatch) -> None:
    """Put the interpreter where a driver would be."""
    from numba import cuda
    from numba.cuda import dispatcher

    chip = type("Chip", (), {"compute_capability": CHIP})
    place.setattr(dispatcher, "get_current_device", lambda: chip)
    place.setattr(cuda, "is_available", lambda: True)
    place.setattr(library, "_cupy", cache(Poisoned))
    place.setattr(launching, "_launched", compiled)


def pytest_configure(config: pytest.Config) -> None:
    """Install the interpreter until the end."""
    install(pytest.MonkeyPatch())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what says nothing here, and what test_gpu.py has from tests/backend."""
    items[:] = [
        item
        for item in items
        if getattr(item, "originalname", "") not in ELSEWHERE
        and not (item.path.name == "test_gpu.py" and item.function.__module__ != item.module.__name__)
    ]
