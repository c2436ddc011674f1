"""CUDA kernels as functions of buffers and numbers, compiled once, launched on the current stream.

A kernel takes pointers and integers and nothing else, which is the shortest way to launch one; in the
simulator flat arrays stand for pointers, which the text cannot tell from them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from fgrad import config, locks
from fgrad.backend.library import missing
from fgrad.compat.numba import let_cuda_load, let_simulated_blocks_share
from fgrad.kernels import contracts, mathlib, source

simulation: Any = locks.lock()  # the simulator runs one kernel at a time
GRIDS = 256  # of a kernel that are known, on all streams
_HELPERS = {  # Numba compiles neither `math.nextafter` nor an exact float `%` for CUDA
    "fmod": "def fmod(x, y):\n    return math.fmod(x, y)",
    "nextafter": "def nextafter(x, y):\n    return libdevice.nextafter{suffix}(x, y)",
}
POINTERS = {"bool": "uint8"}  # dtypes as kernels see them, where that is another one


class Device(NamedTuple):
    """Where kernels run, and the launches that suit it."""

    cuda: Any  # the module `numba.cuda`
    simulated: bool
    threads: int  # in a block
    blocks: int  # at most; a kernel strides over what they do not cover at once


@cache
def device() -> Device:
    """Return the CUDA device, or Numba's simulator of one.

    Raises:
        RuntimeError: there is neither, the simulator may not be mended, or numba-cuda and NumPy do not
            fit together.
    """
    try:
        from numba import cuda  # noqa: PLC0415 -- late: few programs use CUDA, and it takes half a second
    except ImportError as error:
        raise RuntimeError(missing(f"Numba's part for CUDA cannot be imported ({error})")) from error
    if "simulator" in cuda.jit.__module__:
        if not config.process_effects():
            raise RuntimeError(
                "FGRAD_PROCESS_EFFECTS=0 keeps fgrad from patching Numba's CUDA simulator, without which "
                "results may be wrong: unset it, or use a GPU"
            )
        let_simulated_blocks_share()
        return Device(cuda, simulated=True, threads=4, blocks=2)
    if not cuda.is_available():
        raise RuntimeError(missing(f"Numba finds none ({cuda.cuda_error() or 'no device is visible'})"))
    try:
        let_cuda_load(lend=config.process_effects())
    except AttributeError as error:
        raise RuntimeError(
            f"numba-cuda does not work with NumPy {np.__version__} ({error}): pip install 'numpy<2.5'"
        ) from error
    return Device(cuda, simulated=False, threads=256, blocks=65536)


def library(dtype: np.dtype[Any]) -> dict[str, str]:
    """Return the text of helper functions for which the device has better ones; the simulator has none."""
    suffix = "f" if dtype.char == "f" else ""
    helpers = {name: text.replace("{suffix}", suffix) for name, text in _HELPERS.items()}
    return {} if device().simulated else helpers


def codes(dtype: np.dtype[Any]) -> dict[str, str]:
    """Return the code of atoms of which the device has another one.

    CUDA's compiler joins a product and a sum in one rounding. A difference rounds both of its sides, as on
    the CPU: else `x*x - y*y` of equal x and y is a rounding, which no root of may exist.
    """
    kind = "f" if dtype.char == "f" else "d"
    return {} if device().simulated else {"subtract": f"libdevice.{kind}add_rn({{}}, -{{}})"}


def module(text: str) -> Any:
    """Return the function `kernel` of a text, whose helpers are for the device."""
    cuda, simulated, *_ = device()
    names = {"cuda": cuda, "np": np}
    if simulated:
        names |= {"math": mathlib.interpreted, "helper": lambda f: f}
    else:
        names |= {"math": math, "helper": cuda.jit(device=True), "libdevice": cuda.libdevice}
    return source.execute(text, **names).kernel


@lru_cache(config.cache_entries())
def compiled(text: str, buffers: tuple[str, ...], numbers: int) -> Callable[..., None]:
    """Return `launch(arrays, numbers, blocks, threads)` of the function `kernel` in a text.

    Args:
        text: of a module that names `np`, `math`, `cuda` and `helper`.
        buffers: the names of the dtypes of its first arguments, which are pointers; "=float32" is a number.
        numbers: how many int64 arguments follow.
    """
    launch = _simulated(text) if device().simulated else _launched(text, buffers, numbers)
    if contracts.of(text) is None:  # of a compiled program, whose places are known
        return launch

    def run(arrays: Sequence[Any], numbers: Sequence[int], blocks: int, threads: int) -> None:
        ask(text, arrays, numbers)
        launch(arrays, numbers, blocks, threads)

    return run


def ask(text: str, arrays: Sequence[Any], numbers: Sequence[int]) -> None:
    """Hold the arguments of a launch to the contract of the kernel in a text; see `contracts`."""
    contract = contracts.of(text)
    assert contract is not None  # noqa: S101 -- it says one
    sizes = [None if a.__class__ is float else a.size for a in arrays]
    contract.ask((*numbers, *sizes), [*arrays, *numbers], 0)


def signature(buffers: Sequence[str], numbers: int) -> Any:
    """Return the types of a kernel, as Numba has them."""
    from numba import types  # noqa: PLC0415 -- late: few programs use CUDA

    kinds = [
        getattr(types, b[1:]) if b[0] == "=" else types.CPointer(getattr(types, POINTERS.get(b, b)))
        for b in buffers
    ]
    return types.void(*kinds, *[types.int64] * numbers)


def _flat(a: Any) -> Any:
    a = a if a.flags.writeable else a.copy()  # the simulator copies all arguments back
    return a.reshape(-1).view(POINTERS.get(a.dtype.name, a.dtype.name))


def _simulated(text: str) -> Callable[..., None]:
    kernel = device().cuda.jit(module(text))

    def launch(arrays: Sequence[Any], numbers: Sequence[int], blocks: int, threads: int) -> None:
        flat = [a if a.__class__ is float else _flat(a) for a in arrays]
        with simulation, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # interpreted arithmetic warns, a GPU does not
            kernel[blocks, threads](*flat, *map(np.int64, numbers))

    return launch


def on_grid(kernel: Any, blocks: int, threads: int, stream: Any = 0) -> Any:
    """Return what launches a kernel on a grid; Numba warns of few blocks, which small arrays have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kernel[blocks, threads, stream]


def _launched(text: str, buffers: tuple[str, ...], numbers: int) -> Callable[..., None]:
    import cupy  # noqa: PLC0415 -- late: its current device and stream are those to launch on

    cuda = device().cuda
    kernel = cuda.jit(signature(buffers, numbers))(module(text))
    known: dict[tuple[int, int, int, int], Any] = {}

    def launch(arrays: Sequence[Any], numbers: Sequence[int], blocks: int, threads: int) -> None:
        index, address = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
        with cuda.gpus[index]:
            run = known.get((index, address, blocks, threads))
            if run is None:
                if len(known) >= GRIDS:
                    known.clear()
                run = on_grid(kernel, blocks, threads, cuda.external_stream(address) if address else 0)
                known[index, address, blocks, threads] = run
            run(*[a if a.__class__ is float else a.data.ptr for a in arrays], *numbers)

    return launch
