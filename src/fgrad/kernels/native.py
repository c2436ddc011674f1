"""Kernels as machine code that knows no Python: compiled once, kept on disk, loaded without Numba.

A kernel is a text that defines `kernel(slots, args, lo, hi)`: `slots[k]` is the address of buffer k, `args` are
the int64 numbers of this call: numbers of buffers and sizes, and `lo`, `hi` (unsigned) bound its loop. It names
`np`, `math`, `helper` (the decorator of functions it defines), and what `intrinsics` lists; for example

    def kernel(slots, args, lo, hi):
        x, out = float64_at(slots, args, 0), float64_at(slots, args, 1)
        for i in range(lo, hi):
            out[i] = math.exp(x[i])

So one kernel serves every program that has use for it, whatever its sizes. Its machine code depends on nothing
but the text and what `store.header` says; an entry of the cache is one file, `k_<hash>.o`: a digest, the
name of its symbol, those of the C library that it calls, and an object file that llvmlite links in a millisecond.

With NUMBA_DISABLE_JIT=1 nothing is compiled: `slots` is then a list of flat arrays, and `args` any sequence.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from fgrad.kernels import intrinsics, source, store


class Kernel:
    """A compiled kernel: its machine code lives as long as this object."""

    __slots__ = ("__weakref__", "_owner", "address", "function")

    def __init__(self, address: int, owner: Any, function: Callable[..., None] | None = None) -> None:
        self.address, self._owner = address, owner
        self.function = function  # what Python runs instead, where nothing is compiled


class Statistics(NamedTuple):
    """How many kernels this process has compiled, and how many it has loaded from disk."""

    compiled: int
    loaded: int


class _Code(NamedTuple):
    """What an entry of the cache holds."""

    symbol: str
    externals: tuple[str, ...]  # symbols of the C library
    machine: bytes


ENTRY = "# entry: int64(int64*, int64*, int64)\n"  # how a text starts whose `kernel` Python calls

_lock = RLock()
_kernels: dict[str, Kernel] = {}
_counts = {"compiled": 0, "loaded": 0}


def compiled(text: str) -> Kernel:
    """Return the kernel of `text`: from memory, else from the cache on disk, else newly compiled."""
    kernel = _kernels.get(text)
    return kernel or compiled_all([text])[0]


def compiled_all(texts: Iterable[str]) -> list[Kernel]:
    """Return the kernels of `texts`."""
    with _lock:
        return [_kernels.get(text) or _kernels.setdefault(text, _make(text)) for text in texts]


def statistics() -> Statistics:
    """Return how many kernels were compiled and loaded in this process; tests count them."""
    return Statistics(**_counts)


def interpreted() -> bool:
    """Return whether kernels are run by Python, as NUMBA_DISABLE_JIT=1 asks for."""
    numba = sys.modules.get("numba")
    if numba is not None:
        return bool(numba.config.DISABLE_JIT)
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}


def _make(text: str) -> Kernel:
    if interpreted():
        module = source.execute(text, **intrinsics.interpreted_names())
        function = intrinsics.kernels[id(module)] = source.quiet(module.kernel)
        return Kernel(id(module), module, function)
    signature = "entry" if text.startswith(ENTRY) else "kernel"
    text = f"{_header()}\n{text}"
    folder = store.folder()
    path = folder / f"k_{store.digest(text)}.o" if folder else None
    kernel = _load(path) if path else None
    if kernel is not None:
        return kernel
    with _collector_asleep():
        kernel, code = _compile(text, signature)
    _counts["compiled"] += 1
    if path and code:
        with contextlib.suppress(OSError):
            store.write(path, _packed(code))
            store.shrink(path)
    return kernel


def _load(path: Path) -> Kernel | None:
    """Return the kernel whose entry is at `path`; None if there is none, or if it is damaged."""
    code = _unpacked(store.read(path))
    if code is None or not all(map(_is_known, code.externals)):
        return None
    kernel = _link(code)
    if kernel is not None:
        _counts["loaded"] += 1
        store.touch(path)
    return kernel


def _packed(code: _Code) -> bytes:
    content = " ".join([code.symbol, *code.externals]).encode() + b"\n" + code.machine
    return store.digest(content).encode() + b"\n" + content


def _unpacked(entry: bytes) -> _Code | None:
    total, _, content = entry.partition(b"\n")
    if not total or total != store.digest(content).encode():
        return None
    names, _, machine = content.partition(b"\n")
    symbol, *externals = names.decode().split(" ")
    return _Code(symbol, tuple(externals), machine)


def _link(code: _Code) -> Kernel | None:
    """Return a kernel of machine code: an engine of its own holds it."""
    from llvmlite import binding  # noqa: PLC0415 -- late, as in `store`

    try:
        machine = _target().create_target_machine(codemodel="jitdefault", jit=True)
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)  # which owns the machine
        engine.add_object_file(binding.ObjectFileRef.from_data(code.machine))
        engine.finalize_object()
        address = engine.get_function_address(code.symbol)
    except RuntimeError:  # not an object file of this platform
        return None
    return Kernel(address, engine) if address else None


@cache
def _target() -> Any:
    from llvmlite import binding  # noqa: PLC0415 -- late, as in `store`

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(binding.get_process_triple())


def _is_known(symbol: str) -> bool:
    """Return whether `symbol` can be linked to; an engine that looks for it in vain ends the process."""
    from llvmlite import binding  # noqa: PLC0415 -- late, as in `store`

    _load_mathematics()
    return bool(binding.address_of_symbol(symbol))


@cache
def _load_mathematics() -> None:
    from llvmlite import binding  # noqa: PLC0415 -- late, as in `store`

    if sys.platform == "linux":
        for name in ("libm.so.6", "libmvec.so.1"):
            with contextlib.suppress(RuntimeError):  # not where the C library is another than glibc
                binding.load_library_permanently(name)


def _compile(text: str, signature: str) -> tuple[Kernel, _Code | None]:
    """Return the kernel of `text`, newly compiled, and its machine code where Numba gives it away."""
    from numba import cfunc, types  # noqa: PLC0415 -- late: it takes longer to import than the rest of fgrad

    _load_mathematics()
    module = source.execute(text, **intrinsics.compiled_names())
    numbers = types.CPointer(types.int64)
    signatures = {
        "kernel": types.void(numbers, numbers, types.uintp, types.uintp),
        "entry": types.int64(numbers, numbers, types.int64),
    }
    function = cfunc(signatures[signature], error_model="numpy", fastmath={"contract"})(module.kernel)
    kernel = Kernel(function.address, function)
    try:
        machine = function._library._get_compiled_object()
        declared = re.findall(r'^declare .*?@"?([\w.$]+)"?\(', function.inspect_llvm(), re.MULTILINE)
    except Exception:  # noqa: BLE001 -- a private method, of which any change is possible: kernels work without it
        return kernel, None
    externals = tuple([name for name in declared if not name.startswith("llvm.")])
    return kernel, _Code(function.native_name, externals, bytes(machine))


@contextlib.contextmanager
def _collector_asleep() -> Iterator[None]:
    """Compile without the collector of cycles, which finds nothing and takes its time."""
    awake = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if awake:
            gc.enable()


@cache
def _header() -> str:
    """Return what machine code depends on besides the text: also the intrinsics, and how they are compiled."""
    sources = [store.read(Path(module)) for module in (__file__, intrinsics.__file__)]
    return f"{store.header()}, {store.digest(*sources)[:8]}"
