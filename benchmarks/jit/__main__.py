"""Compiled programs beside JAX's, and eager PyTorch's, with the budgets of `fgrad.jit`.

`python -m benchmarks.jit --only mixture "rnn loop" --seconds 20` times some of the lines. Every line runs in
a process of its own, with as many threads as it says; its results are compared before anything is timed, and
again afterwards. The libraries take turns, and the least time of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from math import inf, nan
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import THREADS
from benchmarks.jit import libraries
from benchmarks.jit.lines import LINES, Line
from benchmarks.jit.programs import mlp, mlp_inputs
from benchmarks.timing import environment, fastest
from fgrad.demo.report import table

TOLERANCE = {4: 1e-4, 8: 1e-9}  # of the largest number of an array, by the bytes of one
START_LIMITS = {"cold": 1.5, "warm": 0.8}  # over JAX's; seconds
STARTS = 3  # fresh processes of each kind
PROCESSES = ("start", "batch size")  # the lines that are no programs to be timed


def main() -> int:
    """Print the table; return 1 if a budget is missed and `--strict` was given, or if a line failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jit", description=__doc__)
    names = [*LINES, *PROCESSES]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="for each line (default: 10)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a budget is missed")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(CHILDREN.get(options.child, measured)(options.child, options.seconds)))
        return 0
    budgets: list[tuple[str, float, float, str]] = []
    rows = [["", "fgrad", "jax", "torch", "first call: fgrad", "jax", "copy"]]
    for name in options.only:
        line = LINES.get(name)
        found = child(name, options.seconds, line.threads if line else int(THREADS))
        if "error" in found:
            print(found.pop("error"), file=sys.stderr)
            budgets.append((line.title if line else name, inf, nan, "failed"))
        elif line:
            rows.append(times_of(line, found))
            budgets += budgets_of(line, found)
        else:
            budgets += map(tuple, found["budgets"])
        print(f"{name}: {json.dumps(found)}", file=sys.stderr, flush=True)
    print(f"Microseconds for a call, seconds for the first one\n\n{table(rows)}\n")
    missed = [not measured <= limit for _, measured, limit, _ in budgets]
    cells = [
        [what, f"{x:.2f}", f"{limit:.2f}", unit, "MISSED" if no else "holds"]
        for (what, x, limit, unit), no in zip(budgets, missed, strict=True)
    ]
    print(f"Budgets\n\n{table([['', 'measured', 'limit', '', ''], *cells])}")
    failed = any(unit == "failed" for *_, unit in budgets)
    return int(failed or (options.strict and any(missed)))


def times_of(line: Line, found: dict[str, Any]) -> list[str]:
    times, first = found["times"], found["first"]
    cells = [f"{1e6 * times[c]:.1f}" if c in times else "" for c in ("fgrad", "jax", "torch")]
    firsts = [f"{first[c]:.2f}" if c in first else "" for c in ("fgrad", "jax")]
    copy = f"{1e6 * times['copy']:.0f}" if "copy" in times else ""
    return [line.title + (", 1 thread" if line.threads == 1 else ""), *cells, *firsts, copy]


def budgets_of(line: Line, found: dict[str, Any]) -> Iterator[tuple[str, float, float, str]]:
    times, first = found["times"], found["first"]
    if "jax" in times:
        yield f"{line.title}: fgrad / jax", times["fgrad"] / times["jax"], line.limit, "x"
    if line.first_limit and "jax" in first:
        yield f"{line.title}, first call: fgrad / jax", first["fgrad"] / first["jax"], line.first_limit, "x"
    if line.copy_limit:
        yield f"{line.title}: fgrad / copy", times["fgrad"] / times["copy"], line.copy_limit, "x"


# ---- processes --------------------------------------------------------------------------------------------


def child(name: str, seconds: float, threads: int) -> dict[str, Any]:
    """Return what a fresh process measures for a line, or what it says as it fails as `error`."""
    command = [sys.executable, "-m", "benchmarks.jit", "--child", name, "--seconds", str(seconds)]
    with TemporaryDirectory() as cache:
        env = environment(FGRAD_CACHE_DIR=cache, BENCHMARK_THREADS=str(threads))
        if threads == 1:
            flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
            env["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603 -- ours
    if done.returncode:
        return {"error": done.stderr + f"the process of {name!r} ended with status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def use_cores() -> None:
    """Let this process, and the threads that it will start, have as many cores as threads are wanted."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(THREADS)])


def measured(name: str, seconds: float) -> dict[str, Any]:
    """Return the seconds of a first call and of later ones in each library, once all agree."""
    use_cores()
    line = LINES[name]
    inputs, runs, first = line.inputs(), {}, {}
    for label, lib in libraries.installed().items():
        lib.ready(lambda lib: lambda x: x + 1, (np.ones(3),))()  # what a library does once is not compiling
        runs[label] = lib.ready(line.program, inputs)
        start = perf_counter()
        runs[label]()
        first[label] = perf_counter() - start
    agree(runs)  # at their second call, and after many: what is called first need not be what is called then
    copy = {"copy": copying(line.moved)} if line.moved else {}
    times = fastest({**runs, **copy}, seconds)
    agree(runs)
    return {"times": times, "first": first}


def agree(runs: dict[str, Any]) -> None:
    """Check that all libraries compute the same, to the rounding of the largest number of each array."""
    results = {label: libraries.flat(run()) for label, run in runs.items()}
    expected = results.get("jax", results["fgrad"])
    for label, found in results.items():
        for i, (x, y) in enumerate(zip(found, expected, strict=True)):
            if x.dtype != y.dtype:
                raise AssertionError(f"result {i} of {label} is {x.dtype}, not {y.dtype}")
            atol = TOLERANCE[y.dtype.itemsize] * np.abs(y).max()
            np.testing.assert_allclose(x, y, rtol=0, atol=atol, err_msg=f"result {i} of {label}")


def copying(moved: int) -> Any:
    """Return a function that reads half of `moved` bytes and writes them elsewhere, with all threads."""
    source = np.ones(moved // 2, np.uint8)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, int(THREADS)), np.array_split(source, int(THREADS)), strict=True))
    pool = ThreadPoolExecutor(int(THREADS))
    return lambda: list(pool.map(lambda part: np.copyto(*part), parts))


# ---- a fresh process, a second batch size -----------------------------------------------------------------

START = """
from benchmarks.jit.libraries import LIBRARIES
from benchmarks.jit.programs import mlp, mlp_inputs
LIBRARIES["{}"]().ready(mlp, mlp_inputs(64, 784, 128, 10))()
"""


def starts(_: str, __: float) -> dict[str, Any]:
    """Time fresh processes, from start to end, that compute the value and gradient of the small MLP once."""
    peers = [label for label in ("fgrad", "jax") if find_spec(label)]
    cold = dict.fromkeys(peers, inf)
    warm = inf
    for _ in range(STARTS):
        for label in peers:
            with TemporaryDirectory() as cache:
                cold[label] = min(cold[label], process(label, cache))
                if label == "fgrad":
                    warm = min(warm, process(label, cache))
    budgets = [("fresh process, warm cache on disk", warm, START_LIMITS["warm"], "s")]
    if "jax" in cold:
        ratio = cold["fgrad"] / cold["jax"]
        budgets.append(("fresh process, cold: fgrad / jax", ratio, START_LIMITS["cold"], "x"))
    return {"budgets": budgets, "cold": cold, "warm": warm}


def process(label: str, cache: str) -> float:
    """Return the seconds from start to end of a process with compiled code in the folder `cache`."""
    env = environment(FGRAD_CACHE_DIR=cache)
    start = perf_counter()
    subprocess.run([sys.executable, "-c", START.format(label)], check=True, env=env)  # noqa: S603 -- our own script
    return perf_counter() - start


def second_batch_size(_: str, __: float) -> dict[str, Any]:
    """Count the kernels that a second batch size of the small MLP compiles."""
    from fgrad.kernels import native  # noqa: PLC0415 -- only this line counts

    lib = libraries.Fgrad()
    f = lib.compiled(mlp(lib))
    f(*mlp_inputs(64, 784, 128, 10))
    before = native.statistics().compiled
    f(*mlp_inputs(100, 784, 128, 10))
    after = native.statistics().compiled
    if not before:
        raise AssertionError("nothing was compiled at the first batch size: this counts nothing")
    budget = "second batch size of the small MLP", after - before, 0, "kernels"
    return {"budgets": [budget], "first batch size": before}


CHILDREN = {"start": starts, "batch size": second_batch_size}

if __name__ == "__main__":
    sys.exit(main())
