"""The libraries behind devices, CuPy on a GPU and NumPy in the simulator; only this module knows them.

Everything that fgrad asks of a library is named here: `KEYWORDS` (what of NumPy's and SciPy's functions is
called, with which keywords), `UFUNCS`, `SPECIAL`, and the methods of `Library`. Both libraries answer to the
same calls with buffers of their own, so what runs in the simulator runs on a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from fgrad.backend import special
from fgrad.compat.scipy import hidden_ufunc

KEYWORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("sum", "prod"), ("axis", "dtype", "keepdims")),
    **dict.fromkeys(("max", "min", "any", "all"), ("axis", "keepdims")),
    **dict.fromkeys(("argmax", "argmin", "cumsum", "cumprod", "count_nonzero"), ("axis",)),
    **dict.fromkeys(("concatenate", "stack", "take_along_axis"), ("axis",)),
    **dict.fromkeys(("argpartition", "partition"), ("kth", "axis")),
    **dict.fromkeys(("argsort", "sort"), ("axis",)),
    **dict.fromkeys(("where", "broadcast_to", "moveaxis", "einsum", "dot", "argwhere", "nonzero"), ()),
    **dict.fromkeys(("broadcast_arrays", "ascontiguousarray", "i0"), ()),
    "searchsorted": ("side",),
    "unique": ("return_index", "return_inverse", "return_counts", "axis", "equal_nan"),
    "bincount": ("minlength",),
    "convolve": ("mode",),
    "diagonal": ("axis1", "axis2"),
    **dict.fromkeys(("zeros", "ones", "empty", "full"), ("dtype",)),
    "eye": ("dtype",),
    "arange": ("dtype",),
    "tri": ("k", "dtype"),
    "lib.stride_tricks.as_strided": ("shape", "strides"),
    **dict.fromkeys(("linalg.solve", "linalg.inv", "linalg.cholesky", "linalg.det", "linalg.slogdet"), ()),
    **dict.fromkeys(("linalg.eig", "linalg.eigvals"), ()),
    "linalg.qr": ("mode",),
    "linalg.svd": ("full_matrices", "compute_uv"),
    "linalg.eigh": ("UPLO",),
    "linalg.pinv": ("rcond",),
    **dict.fromkeys(("fft.fft", "fft.ifft", "fft.rfft", "fft.irfft"), ("n", "axis", "norm")),
    "scipy.linalg.solve_triangular": ("lower", "unit_diagonal"),
    "scipy.linalg.lu_factor": ("check_finite",),
    "scipy.ndimage.spline_filter1d": ("order", "axis", "output", "mode"),
}
"""Functions that are called on devices, with the keywords given to them: NumPy's are CuPy's too, those of
SciPy are in `cupyx.scipy`."""

_MISSING = {"deg2rad", "divmod", "isnat", "matvec", "rad2deg", "spacing", "vecdot", "vecmat"}
UFUNCS = frozenset(f.__name__ for f in vars(np).values() if isinstance(f, np.ufunc)) - _MISSING
"""NumPy's universal functions that CuPy has too."""

SPECIAL: dict[str, str] = {
    **dict.fromkeys(("bdtr", "bdtrc", "bdtri", "chdtr", "chdtrc", "chdtri", "fdtr", "fdtrc", "fdtri"), "f"),
    **dict.fromkeys(("gdtr", "gdtrc", "nbdtr", "nbdtrc", "nbdtri", "pdtr", "pdtrc", "pdtri"), "f"),
    **dict.fromkeys(("erfcinv", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri", "log_expit", "logit"), "f"),
    **dict.fromkeys(("beta", "betainc", "betaincinv", "betaln", "binom", "gammaln", "gammasgn", "poch"), "f"),
    **dict.fromkeys(("gammainc", "gammaincc", "gammainccinv", "gammaincinv", "zeta"), "f"),
    **dict.fromkeys(("i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1", "yn"), "f"),
    **dict.fromkeys(("ellipeinc", "ellipj", "ellipk", "ellipkinc", "ellipkm1", "wright_bessel"), "f"),
    **dict.fromkeys(("boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p", "entr", "huber", "kl_div"), "f"),
    **dict.fromkeys(("pseudo_huber", "rel_entr", "cosdg", "cosm1", "cotdg", "radian", "sindg", "tandg"), "f"),
    **dict.fromkeys(("exp1", "exp10", "expi", "expn", "exprel", "lpmv"), "f"),
    **dict.fromkeys(("gamma", "loggamma", "psi", "rgamma", "sici", "shichi", "xlogy", "xlog1py"), "fc"),
    "lambertw": "fc",
}
"""Universal functions of scipy.special that `cupyx.scipy.special` has too, and for which kinds of numbers."""

# CuPy says nothing of singular matrices by itself
CHECKED = {"linalg.solve", "linalg.inv", "linalg.cholesky"}


class Library(Protocol):
    """What computes on the buffers of one kind of device."""

    simulated: bool
    array: Any  # the class of buffers

    def count(self) -> int:
        """Return the number of devices."""

    def find(self, name: str) -> Callable[..., Any]:
        """Return the function, or universal function, that NumPy calls `name`."""

    def special(self, what: str) -> Callable[..., None]:
        """Return what computes a universal function of SciPy that the library lacks.

        Args:
            what: its name and loop, "jv dd->d".

        Returns:
            (operands, each with 1 or 0 as the step to its next element, results, size=...) -> None; buffers
            are contiguous.
        """

    def on(self, index: int) -> AbstractContextManager[Any]:
        """Return the context in which buffers are made on device `index`."""

    def upload(self, host: np.ndarray[Any, Any]) -> Any:
        """Return a buffer on the current device with what an array of NumPy holds."""

    def download(self, buffer: Any) -> np.ndarray[Any, Any]:
        """Return a new array of NumPy with what a buffer holds."""

    def adopt(self, x: Any) -> tuple[Any, int]:
        """Return a buffer that shares the memory of a foreign array on a device, and the device."""

    def native(self, buffer: Any) -> Any:
        """Return the array of the library for the user and his kernels."""

    def overlaps(self, x: Any, y: Any) -> bool:
        """Return whether two buffers may share memory."""

    def synchronize(self) -> None:
        """Wait until the current device is done."""

    def stream(self) -> int:
        """Return what tells the current stream from others: what is launched on one runs in order."""

    def recorded(self, f: Callable[[], Any]) -> Callable[[], Any] | None:
        """Return what does again what `f()` does now, in the same memory; None where that cannot be."""


def _named(name: str, numpy: Any, package: str) -> Callable[..., Any]:
    """Return a function by its name; those of SciPy are in modules of `package`, loaded when asked for."""
    module, _, last = name.rpartition(".")
    if name.startswith("scipy."):
        f: Callable[..., Any] = getattr(import_module(package + module), last)
    else:
        f = attrgetter(name)(numpy)
    return f


class Simulated:
    """NumPy in the place of CuPy: for programs and tests where no GPU is."""

    simulated = True
    array = np.ndarray
    devices = 2  # so that programs for several can be tested

    def count(self) -> int:
        """Return the number of devices."""
        return self.devices

    def find(self, name: str) -> Callable[..., Any]:
        """Return the function of NumPy or SciPy called `name`."""
        return _named(name, np, "")

    def special(self, what: str) -> Callable[..., None]:
        """Return SciPy's function, called with what a kernel is called with."""
        name, loop = what.split()
        module: Any = import_module("scipy.special")
        ufunc = getattr(module, name, None)
        ufunc = ufunc if isinstance(ufunc, np.ufunc) else hidden_ufunc(name)

        def launch(*args: Any, size: int) -> None:
            ends = 2 * loop.index("->")
            given = [x.reshape(-1) for x in args[:ends:2]]
            ufunc(*given, out=tuple([out.reshape(-1) for out in args[ends:]]), signature=loop)

        return launch

    def on(self, index: int) -> AbstractContextManager[Any]:
        """Return a context that changes nothing: all simulated devices share the memory of the host."""
        return nullcontext()

    def upload(self, host: np.ndarray[Any, Any]) -> Any:
        """Return a copy."""
        return np.array(host)

    def download(self, buffer: Any) -> np.ndarray[Any, Any]:
        """Return a copy."""
        return np.array(buffer)

    def adopt(self, x: Any) -> tuple[Any, int]:
        """Refuse: no foreign array is in the memory of a simulated device."""
        raise TypeError(f"no {type(x).__name__} is on a simulated device")

    def native(self, buffer: Any) -> Any:
        """Return an array that simulated kernels take, which copy theirs back, whether written to or not."""
        return buffer if buffer.flags.writeable else np.array(buffer)

    def overlaps(self, x: Any, y: Any) -> bool:
        """Return whether two buffers may share memory, by where they begin and end."""
        return np.may_share_memory(x, y)

    def synchronize(self) -> None:
        """Do nothing: what is simulated is done at once."""

    def stream(self) -> int:
        """Return 0: there is one."""
        return 0

    def recorded(self, f: Callable[[], Any]) -> Callable[[], Any] | None:
        """Return `f` itself."""
        return f


class CuPy:
    """CuPy on NVIDIA GPUs: memory from its pool, cuBLAS, cuSOLVER, cuFFT, sorting."""

    simulated = False

    def __init__(self, cupy: Any, cupyx: Any) -> None:
        self.cupy: Any = cupy
        self.cupyx: Any = cupyx
        self.array: Any = cupy.ndarray
        self._found: dict[str, Callable[..., Any]] = {}

    def count(self) -> int:
        """Return the number of devices."""
        return int(self.cupy.cuda.runtime.getDeviceCount())

    def find(self, name: str) -> Callable[..., Any]:
        """Return CuPy's function called `name`."""
        try:
            return self._found[name]
        except KeyError:
            found = _named(name, self.cupy, "cupyx.")
            if name in CHECKED:
                found = self._checked(found)
            self._found[name] = found
            return found

    def special(self, what: str) -> Callable[..., None]:
        """Return a kernel."""
        if what not in self._found:
            self._found[what] = special.kernel(self.cupy, what)
        return self._found[what]

    def _checked(self, f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kw: Any) -> Any:
            with self.cupyx.errstate(linalg="raise"):
                return f(*args, **kw)

        return call

    def on(self, index: int) -> AbstractContextManager[Any]:
        """Return the context in which device `index` is the current one."""
        if self.cupy.cuda.runtime.getDevice() == index:
            return nullcontext()
        device: AbstractContextManager[Any] = self.cupy.cuda.Device(index)
        return device

    def upload(self, host: np.ndarray[Any, Any]) -> Any:
        """Return a copy on the current device."""
        return self.cupy.array(host)

    def download(self, buffer: Any) -> np.ndarray[Any, Any]:
        """Return a copy, when what computes the buffer is done."""
        host: np.ndarray[Any, Any] = self.cupy.asnumpy(buffer)
        return host

    def adopt(self, x: Any) -> tuple[Any, int]:
        """Return an array of CuPy that shares the memory of `x`, and its device."""
        if isinstance(x, self.array):
            buffer = x
        elif hasattr(x, "__cuda_array_interface__"):
            buffer = self.cupy.asarray(x)
        else:
            buffer = self.cupy.from_dlpack(x)
        return buffer, int(buffer.device.id)

    def native(self, buffer: Any) -> Any:
        """Return the array itself."""
        return buffer

    def overlaps(self, x: Any, y: Any) -> bool:
        """Return whether two buffers may share memory, by where they begin and end."""
        return bool(self.cupy.may_share_memory(x, y))

    def synchronize(self) -> None:
        """Wait until the current stream is done."""
        self.cupy.cuda.get_current_stream().synchronize()

    def stream(self) -> int:
        """Return the address of the current stream."""
        return int(self.cupy.cuda.get_current_stream().ptr)

    def recorded(self, f: Callable[[], Any]) -> Callable[[], Any] | None:
        """Return the launch of a CUDA graph; None where `f` waits for the device.

        The graph refers to memory by its address, so it gets a pool of its own, which nobody else takes
        from. What `f` does is done once before: kernels are loaded and memory is taken then.
        """
        cuda = self.cupy.cuda
        pool, stream = cuda.MemoryPool(), cuda.Stream(non_blocking=True)
        stream.wait_event(cuda.get_current_stream().record())
        with cuda.using_allocator(pool.malloc), stream:
            f()
            stream.synchronize()
            stream.begin_capture()
            try:
                outs = f()
            except RuntimeError:  # something has to be waited for, or is cuBLAS's, which CuPy does not record
                outs = None
            try:
                graph = stream.end_capture()
            except RuntimeError:
                graph = None
        if outs is None or graph is None:
            return None

        def replay() -> Any:
            graph.launch(cuda.get_current_stream())
            return outs

        vars(replay)["memory"] = pool, stream
        return replay


def simulating() -> bool:
    """Return whether the environment asks for Numba's simulator in the place of GPUs."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") == "1"


INSTALL = "install the extra for CUDA 13: pip install 'fgrad[cuda]'"
SIMULATE = (
    "Without a GPU, set NUMBA_ENABLE_CUDASIM=1 before Python starts to simulate one, slowly, or keep to "
    "device='cpu'"
)


def missing(reason: str) -> str:
    """Return the words that say that CUDA cannot be used, and why."""
    reason = " ".join(reason.split()).rstrip(".")
    return (
        f"CUDA needs an NVIDIA GPU that can be used here, and there is none: {reason}. On a machine with a "
        f"GPU and its driver, {INSTALL}. {SIMULATE}"
    )


def library() -> Library:
    """Return the library of CUDA devices.

    Raises:
        RuntimeError: CuPy is not installed, there is no driver, or no GPU.
    """
    return Simulated() if simulating() else _cupy()


@cache
def _cupy() -> Library:
    try:
        import cupy  # noqa: PLC0415 -- late: few programs use a GPU, and it takes a second
        import cupyx  # noqa: PLC0415
    except ImportError as error:
        raise RuntimeError(missing(f"CuPy, which holds the arrays, cannot be imported ({error})")) from error
    found = CuPy(cupy, cupyx)
    try:
        count = found.count()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(missing(f"the driver does not answer ({error})")) from error
    if not count:
        raise RuntimeError(missing("no device is visible (CUDA_VISIBLE_DEVICES hides them?)"))
    return found
