"""Large loops shared among threads: the caller takes one part, waiting workers take the others.

Kernels let go of the interpreter, so plain threads run them side by side. No two parts
write to the same place, so results do not depend on how many threads there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from threading import Thread
from typing import Any

from fgrad import config

ELEMENTS = 32768  # a loop over fewer is not worth a second thread

Job = tuple[Callable[..., None], tuple[Any, ...], "SimpleQueue[BaseException | None]"]


def share(kernel: Callable[..., None], args: tuple[Any, ...], count: int, elements: int) -> None:
    """Call `kernel(*args, lo, hi)` for parts that cover `range(count)`.

    Args:
        kernel: releases the interpreter; its parts are independent.
        args: what precedes the bounds.
        count: how many steps there are.
        elements: how many elements they handle in all, which tells whether threads pay.
    """
    parts = min(_threads(), count, elements // ELEMENTS)
    if parts < 2:
        kernel(*args, 0, count)
        return
    bounds = [count * i // parts for i in range(parts + 1)]
    jobs, done = _workers(os.getpid()), SimpleQueue[BaseException | None]()
    for lo, hi in pairwise(bounds[1:]):
        jobs.put((kernel, (*args, lo, hi), done))
    errors: list[BaseException | None] = []
    try:
        kernel(*args, 0, bounds[1])
    finally:
        errors = [done.get() for _ in range(parts - 1)]
    for error in errors:
        if error is not None:
            raise error


@cache
def _threads() -> int:
    return config.num_threads()


@cache
def _workers(_: int) -> SimpleQueue[Job]:
    """Return the jobs of this process, which as many threads as there are cores wait for; a fork has none."""
    jobs: SimpleQueue[Job] = SimpleQueue()
    for _ in range(_threads() - 1):
        Thread(target=_work, args=(jobs,), name="fgrad", daemon=True).start()
    return jobs


def _work(jobs: SimpleQueue[Job]) -> None:
    while True:
        kernel, args, done = jobs.get()
        error = None
        try:
            kernel(*args)
        except BaseException as caught:  # noqa: BLE001 -- handed on to the caller
            error = caught
        done.put(error)
        del kernel, args, done, error
