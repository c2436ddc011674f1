"""Kernels as machine code independent of Python: compiled once, stored on disk, loaded by llvmlite.

A kernel is a text that defines `kernel(slots, args, lo, hi)`: `slots[k]` is the address of buffer k, `args`
are the int64 numbers of this call: numbers of buffers and sizes, and `lo`, `hi` (unsigned) bound its loop. It
raises nothing, and names what `intrinsics` lists; for example

    def kernel(slots, args, lo, hi):
        x, out = float64_at(slots, args, 0), float64_at(slots, args, 1)
        for i in range(lo, hi):
            out[i] = math.exp(x[i])

So one kernel serves every program that has use for it, whatever its sizes. Its machine code depends on
nothing but the text and what `store.header` says; an entry of the cache is one file, `k_<hash>.o`: a digest,
the name of its symbol, those of the C library that it calls, and an object file that llvmlite links in a
millisecond.

With NUMBA_DISABLE_JIT=1 nothing is compiled: `slots` is then `intrinsics.Slots`, or a list of flat arrays,
and `args` any sequence.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fgrad import config, locks
from fgrad.blocks import suppress
from fgrad.core.caches import LRU
from fgrad.kernels import compilation, contracts, intrinsics, progress, source, store
from fgrad.kernels.compilation import Code, Compiled

Key = tuple[str, str]  # a text and its signature


class Kernel:
    """A compiled kernel: its machine code lives as long as this object.

    Attributes:
        address: of its machine code.
        function: called with slots, args, lo and hi; the first two are addresses, or, where nothing is
            compiled, `intrinsics.Slots` and an array. Other threads run meanwhile.
        contract: what it asks of its arguments, if it says so.
    """

    __slots__ = ("__weakref__", "_owner", "address", "contract", "function")

    def __init__(self, address: int, owner: Any, function: Callable[..., None] | None = None) -> None:
        self._owner = owner
        self.address: int = address
        self.contract: contracts.Contract | None = None
        self.function: Callable[..., None] = function or ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * 4)(
            address
        )


class Deferred(Kernel):
    """A kernel that is compiled when its code is asked for, be it with others by `compiled_all`.

    Attributes:
        key: the arguments of `compiled`, until it is.
    """

    __slots__ = ("key",)

    key: Key | None

    def __init__(self, key: Key) -> None:
        self.key, self.contract = key, contracts.of(key[0])

    def __getattr__(self, name: str) -> Any:
        """Compile it, as long as there is no code."""
        key = self.key
        if key is not None and name in {"address", "function", "_owner"}:
            made = compiled(*key)
            self.address, self.function, self._owner = made.address, made.function, made
            self.key = None  # last: other threads may ask at the same time
        return object.__getattribute__(self, name)


class Statistics(NamedTuple):
    """How many kernels this process has compiled, and how many it has loaded."""

    compiled: int
    loaded: int


_kernels: LRU[Key, Kernel] = LRU()
_counts = {"compiled": 0, "loaded": 0}


def compiled(text: str, signature: str = "kernel") -> Kernel:
    """Return the kernel of `text`: from memory, else from the cache on disk, else newly compiled.

    Args:
        text: what the module says, as above.
        signature: one of `compilation.SIGNATURES`.

    Raises:
        UntranslatableError: there is something in the text that kernels cannot say.
    """
    key = text, signature
    kernel = _kernels.get(key)
    if kernel is None:
        with locks.making:
            kernel = _kernels.get(key) or _found(text, signature)
            if kernel is None:
                kernel = _kept(text, signature, compilation.compiled(_whole(text, signature), signature))
            _kernels[key] = kernel
    return kernel


def deferred(text: str, signature: str = "kernel") -> Kernel:
    """Return the kernel of `text`, which is compiled when it is needed."""
    key = text, signature
    return _kernels.get(key) or (compiled(*key) if interpreted() else Deferred(key))


def compiled_all(
    keys: Iterable[Key], name: str = "", hint: str = "", beside: Callable[[], Any] | None = None
) -> list[Kernel]:
    """Return the kernels of `keys`, of which as many are compiled at a time as there are threads.

    Args:
        keys: arguments of `compiled`.
        name: of the program that needs them, to be shown where it takes long.
        hint: what to say then.
        beside: what else this thread makes while others compile.
    """
    keys = list(keys)
    missing = [key for key in dict.fromkeys(keys) if not _is_there(key)]
    missing.sort(key=lambda key: (key[1] in compilation.BRANCHING, -len(key[0])))  # what takes long first
    said = f"compiling {len(missing)} kernels of {name or 'a program'}"
    count = min(config.num_threads(), len(missing))
    if count < 2:
        progress.each(lambda key: compiled(*key), missing, said, hint)
    else:
        with locks.making, compilation.CompilerThreads(count) as threads:
            given = {_whole(*key): key for key in missing}
            for whole, (_, signature) in given.items():
                threads.give(whole, signature)
            if beside is not None:
                beside()

            def keep(_: Key) -> None:
                whole, made = threads.take()
                _kernels[given[whole]] = _kept(*given[whole], made)

            progress.each(keep, missing, said, hint)
    return [compiled(*key) for key in keys]


def python_kernel(function: Callable[..., None]) -> Kernel:
    """Return a kernel that Python runs, where nothing is compiled."""
    function = source.quiet(function)
    intrinsics.kernels[id(function)] = function
    return Kernel(id(function), None, function)


def found_elsewhere(name: str) -> Kernel | None:
    """Return the kernel that another compiler has made, and that `keep_elsewhere` kept by this name."""
    path = store.path_of(_whole(name, "kernel"))
    return _load(path) if path else None


def keep_elsewhere(name: str, code: Code) -> None:
    """Keep on disk what another compiler has made; the name says all that it depends on."""
    _keep(_whole(name, "kernel"), code)


def statistics() -> Statistics:
    """Return how many kernels were compiled and loaded in this process; tests count them."""
    return Statistics(**_counts)


def interpreted() -> bool:
    """Return whether kernels are run by Python, as NUMBA_DISABLE_JIT=1 asks for."""
    numba = sys.modules.get("numba")
    if numba is not None:
        return bool(numba.config.DISABLE_JIT)
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}


def _is_there(key: Key) -> bool:
    """Return whether a kernel takes no compiling, and have it in memory then."""
    with locks.making:
        kernel = _kernels.get(key) or _found(*key)
        if kernel is not None:
            _kernels[key] = kernel
    return kernel is not None


def _found(text: str, signature: str) -> Kernel | None:
    """Return the kernel of `text` if it takes no compiling."""
    if interpreted():
        kernel: Kernel | None = python_kernel(source.execute(text, **intrinsics.interpreted_names()).kernel)
    else:
        path = store.path_of(_whole(text, signature))
        kernel = _load(path) if path else None
    if kernel is not None:
        kernel.contract = contracts.of(text)
    return kernel


def _kept(text: str, signature: str, made: Compiled) -> Kernel:
    """Return a kernel that was just compiled, and keep it on disk."""
    code, address, owner = made
    _counts["compiled"] += 1
    _keep(_whole(text, signature), code)
    kernel = Kernel(address, owner)
    kernel.contract = contracts.of(text)
    return kernel


def _keep(whole: str, code: Code) -> None:
    path = store.path_of(whole)
    if path:
        with suppress(OSError):
            store.keep(path, _packed(code, path.stem))


def _whole(text: str, signature: str) -> str:
    return f"{store.header()}, {signature}\n{text}"


def _load(path: Path) -> Kernel | None:
    """Return the kernel whose entry is at `path`; None if there is none, or if it is damaged."""
    code = _unpacked(store.read(path), path.stem)
    address, owner = compilation.link(code) if code else (0, None)
    if not address:
        return None
    _counts["loaded"] += 1
    store.touch(path)
    return Kernel(address, owner)


def _packed(code: Code, key: str) -> bytes:
    return store.sealed(key, " ".join([code.symbol, *code.externals]).encode() + b"\n" + code.machine)


def _unpacked(entry: bytes, key: str) -> Code | None:
    names, _, machine = store.unsealed(key, entry).partition(b"\n")
    symbol, *externals = names.decode().split(" ")
    return Code(symbol, tuple(externals), machine) if symbol else None
