"""Least times, measured in turns: what disturbs the machine for a while disturbs every candidate."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from math import inf
from time import perf_counter, sleep
from timeit import Timer

SHORT = 1e-3  # seconds: long for the clock, short enough to fall between disturbances
REPEATS = 5
REST = 0.12  # seconds, in which the threads of the one before stop to spin: those of OpenBLAS after 0.1


def fastest(runs: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return the least seconds per call of each of `runs`, within about `seconds` for all together."""
    timers = {name: Timer(run) for name, run in runs.items()}  # without the cycle collector
    calls, best = {}, dict.fromkeys(runs, inf)
    for name, timer in timers.items():
        timer.timeit(1)  # compiles, where something compiles
        calls[name] = max(1, int(SHORT / min(timer.repeat(3, 1))))
    end = perf_counter() + seconds
    while perf_counter() < end:
        for name, timer in timers.items():
            sleep(REST)
            timer.timeit(1)
            best[name] = min(best[name], *(t / calls[name] for t in timer.repeat(REPEATS, calls[name])))
    return best


def environment(**more: str) -> dict[str, str]:
    """Return the environment of fresh processes: this one's and more; Python stores bytecode."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | more


def fastest_process(scripts: Mapping[str, str], repeats: int) -> dict[str, float]:
    """Return the least seconds from start to end of a fresh Python process for each of `scripts`."""
    best = dict.fromkeys(scripts, inf)
    for _ in range(1 + repeats):  # the first round fills the disk caches
        for name, script in scripts.items():
            start = perf_counter()
            subprocess.run([sys.executable, "-c", script], check=True, env=environment())  # noqa: S603 -- our own scripts
            best[name] = min(best[name], perf_counter() - start)
    return best
