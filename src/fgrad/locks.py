"""Locks that outlive a fork, and things that are made once, whichever thread asks first.

A child process has one thread, and a copy of whatever the others were doing. So there is one lock for all
that is made once (programs, machine code, the threads of kernels), what it guards is complete before anybody
sees it, and the child starts with a free lock: what another thread had half made it makes again. That is not
enough for LLVM, for Numba, and for modules on their way in, whose state is not made of such pieces: a fork
waits until no other thread is in the middle of them.

A thread that holds Numba's or LLVM's lock takes none of these, so it may be waited for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, update_wrapper
from threading import RLock, get_ident
from time import monotonic, sleep
from typing import Any, Generic, TypeVar, cast, overload
from weakref import WeakSet

from fgrad import config
from fgrad.compat import cpython, llvmlite, numba

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

LIMIT = 30.0  # seconds that a fork waits for Numba and for imports; LLVM's calls always end
# which fgrad imports late, or Python for it; not the user's, whose program may run while one is imported
_PACKAGES = sys.stdlib_module_names | {
    *("IPython", "cupy", "fgrad", "llvmlite", "mpi4py", "numba", "numba_cuda", "numpy", "optree", "scipy"),
}

_locks: WeakSet[Any] = WeakSet()
_in_child: list[Callable[[], None]] = []
_outer: dict[int, set[int]] = {}  # by thread that forks: locks that were its own before


def lock() -> Any:
    """Return a reentrant lock that a child process finds free."""
    made = cpython.reentrant_lock()
    _locks.add(made)
    return made


making: Any = lock()  # for all that is made once: with a lock each, two threads could wait for one another


def in_child(function: Callable[[], None]) -> Callable[[], None]:
    """Call a function in each child process, before anything else of fgrad runs there."""
    _in_child.append(function)
    return function


def once(function: F) -> F:
    """Return the function with one result for the same arguments, complete before any thread gets it.

    `functools.cache` lets threads that ask together have one each, of which all but the last one go: not for
    what is known by its address.
    """
    found: dict[tuple[Any, ...], Any] = {}

    def make(*args: Any) -> Any:
        survive_forks()
        with making:
            if args not in found:
                found[args] = function(*args)
            return found[args]

    return cast("F", update_wrapper(cache(make), function))


def per_process(function: Callable[[], T]) -> Callable[[], T]:
    """Return the function with one result in each process: a child makes its own."""
    found: list[T] = []

    def get() -> T:
        if not found:
            survive_forks()
            with making:
                if not found:
                    found.append(function())
        return found[0]

    in_child(found.clear)
    return update_wrapper(get, function)


class lazy(Generic[T]):  # noqa: N801 -- used as `property` is
    """A property that is computed when it is first read, by one thread, and kept.

    `functools.cached_property` takes a lock of its own before Python 3.12, which a fork may leave taken, and
    none from then on.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function: Callable[[Any], T] = function
        self.name: str = function.__name__
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        """Return the value, which the next reader finds without this."""
        if instance is None:
            return self
        kept = vars(instance)
        survive_forks()
        with making:
            if self.name not in kept:
                kept[self.name] = self.function(instance)
            return kept[self.name]


# ---- forks -----------------------------------------------------------------------------------------------


_surviving: list[
    bool
] = []  # whether the system has been asked to call these functions, if it has been thought of


def survive_forks() -> None:
    """Let a fork wait for what a child could not go on with, and the child find free locks, from now on."""
    if not _surviving:
        with making:
            if not _surviving:
                _surviving.append(config.process_effects() and hasattr(os, "register_at_fork"))
                if _surviving[0]:
                    os.register_at_fork(
                        before=_before_fork,
                        after_in_parent=_after_fork_in_parent,
                        after_in_child=_after_fork_in_child,
                    )


def _before_fork() -> None:
    """Wait until no other thread is in the middle of what a child could not go on with; keep others out."""
    _outer[get_ident()] = {id(holder) for holder in _foreign() if cpython.is_owned(holder._lock)}
    end = monotonic() + LIMIT
    while True:
        for holder in _foreign():
            if not cpython.is_owned(holder._lock):
                is_llvm = type(holder).__module__.startswith("llvmlite")
                holder._lock.acquire(timeout=-1 if is_llvm else max(0.0, end - monotonic()))
        if not cpython.others_import(_PACKAGES) or monotonic() > end:
            return
        _release()  # an import may need them
        sleep(1e-3)


def _release() -> None:
    """Release what `_before_fork` acquired, also where an interrupt kept that from its end."""
    own = _outer.get(get_ident(), set())
    for holder in _foreign():
        while id(holder) not in own and cpython.is_owned(holder._lock):
            holder._lock.release()


def _after_fork_in_parent() -> None:
    _release()
    _outer.pop(get_ident(), None)


def _after_fork_in_child() -> None:
    _release()
    _outer.clear()
    for holder in _foreign():
        if not cpython.is_owned(holder._lock):
            holder._lock = RLock()
    for kept in tuple(_locks):
        if not cpython.is_owned(
            kept
        ):  # if it is, the thread that forked goes on in the middle of what it guards
            cpython.renew(kept)
    for function in _in_child:
        function()


def _foreign() -> Iterator[Any]:
    """Return the objects in other packages that hold a lock which a fork waits for: Numba's before LLVM's.

    For what is not known a fork does not wait.
    """
    if cpython.locks_are_known():
        for found in (numba.lock_holder(), llvmlite.lock_holder()):
            if isinstance(getattr(found, "_lock", None), cpython.LOCK):
                yield found
