"""Programs of many fields, each written once, in compiled and eager fgrad beside JAX, PyTorch and autograd.

`python -m benchmarks.wide --only "Kalman filter, state 4" --seconds 0.5`. All compute a value and gradients,
which are compared before anything is timed. Then they run in turns, with as many threads each, and the least
time of each counts. A peer without something that a program needs is left out of it: "-".
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.timing import environment, fastest
from benchmarks.wide import PROGRAMS, page
from benchmarks.wide.libraries import LIBRARIES, installed
from benchmarks.wide.program import Program

TOLERANCE = {4: 2e-3, 8: 1e-8}  # of the largest number of an array, by the bytes of one
BUDGETS = {  # of each program, of the geometric mean
    "compiled / jax": (1.0, 0.4),
    "compiled / eager": (1.0, math.inf),
    "eager / torch": (1.5, 0.9),
    "eager / autograd": (math.inf, math.inf),
    "first: compiled / jax": (1.5, 0.7),
    "memory: compiled / jax": (0.8, math.inf),
}
OURS = ("compiled", "eager")  # of which no program may fail; a peer lacks some functions or their derivatives


def results(found: tuple[Any, Any]) -> list[np.ndarray]:
    """Return the value and the gradients as arrays."""
    value, gradients = found
    several = gradients if isinstance(gradients, (tuple, list)) else [gradients]
    return [np.asarray(value), *map(np.asarray, several)]


def disagreement(program: Program, found: list[np.ndarray], other: list[np.ndarray]) -> str:
    """Return what is wrong between two peers, or nothing."""
    tolerance = program.tolerance or TOLERANCE[program.dtype.itemsize]
    for i, (a, b) in enumerate(zip(found, other, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        gap = np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(b), initial=0), 1e-30)
        if not gap <= tolerance:
            return f"result {i} differs by {gap:.1e}"
    return ""


def measured(program: Program, libraries: dict[str, Any], seconds: float, *, small: bool) -> dict[str, Any]:
    """Return seconds per call by peer, and what went wrong."""
    arguments, runs, notes = program.arguments(small=small), {}, {}
    known: dict[str, list[np.ndarray]] = {}
    for peer, library in libraries.items():
        try:
            run = library.run(program, arguments)
            known[peer] = results(run())
        except Exception as error:  # noqa: BLE001, PERF203 -- reported, and the other programs go on
            kind = "failed" if peer in OURS else "left out"
            notes[peer] = f"{kind}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        else:
            runs[peer] = run
    first = next(iter(known), None)
    for peer in list(known)[1:]:
        wrong = disagreement(program, known[peer], known[first])
        if wrong:
            notes[peer] = f"against {first}: {wrong}"
    return {"seconds": fastest(runs, seconds) if runs and seconds else {}, "notes": notes}


def peak() -> int:
    """Return the most bytes that this process has held at a time, with its libraries."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise KeyError("VmHWM")


def first_call(name: str, peer: str, *, small: bool) -> dict[str, float]:
    """Return the seconds of the first call, and the bytes at the peak of a process that makes three."""
    program = PROGRAMS[name]
    library, arguments = LIBRARIES[peer](), program.arguments(small=small)
    start = perf_counter()
    run = library.run(program, arguments)
    run()
    seconds = perf_counter() - start
    run(), run()
    return {"first": seconds, "memory": peak()}


def in_process(name: str, peer: str, *, small: bool) -> dict[str, float]:
    """Return what `first_call` finds in a fresh process without stored kernels."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.wide", "--child", name, peer, *["--small"] * small]
        env = environment(FGRAD_CACHE_DIR=folder)
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)  # noqa: S603
    return json.loads(done.stdout) if done.returncode == 0 else {}


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """Return the quotients that have budgets, of what was measured."""
    pairs = [("compiled", "jax"), ("compiled", "eager"), ("eager", "torch"), ("eager", "autograd")]
    tables = {"": found["seconds"], "first: ": found.get("first", {}), "memory: ": found.get("memory", {})}
    return {
        f"{kind}{a} / {b}": table[a] / table[b]
        for kind, table in tables.items()
        for a, b in (pairs if not kind else pairs[:1])
        if a in table and b in table
    }


def line(cells: list[str], head: list[str], *, markdown: bool) -> str:
    """Return a line of the table, in columns as wide as their titles."""
    if markdown:
        return "| " + " | ".join(cells) + " |"
    return cells[0].ljust(38) + "".join(
        cell.rjust(max(11, len(title) + 2)) for cell, title in zip(cells[1:], head[1:], strict=True)
    )


def summary(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return geometric means, and how many programs miss their budget."""
    lines = []
    for kind, (each, mean) in BUDGETS.items():
        numbers = {name: r[kind] for name, entry in found.items() if kind in (r := ratios(entry))}
        if not numbers:
            continue
        missed = sorted((name for name in numbers if numbers[name] > each), key=lambda name: -numbers[name])
        lines.append(
            f"{kind}: geometric mean {geometric_mean(numbers.values()):.2f} of {len(numbers)} "
            f"(budget {mean}), {len(missed)} above {each}, worst {max(numbers.values()):.2f}"
        )
        lines += [f"    {numbers[name]:.2f} {name}" for name in missed]
    return lines


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wide", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--family", nargs="+", choices=sorted({p.family for p in PROGRAMS.values()}))
    parser.add_argument("--peers", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="for each program (default: 1); 0: only compare"
    )
    parser.add_argument("--first", action="store_true", help="first calls too, in fresh processes")
    parser.add_argument("--memory", action="store_true", help="peak memory too, in fresh processes")
    parser.add_argument("--small", action="store_true", help="small inputs, to try the programs")
    parser.add_argument("--markdown", action="store_true", help="tables in Markdown")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--page", type=Path, help="renew the figures of this page, docs/performance.md")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 1 if peers disagree or fgrad failed."""
    options = options_of(arguments)
    if options.child:
        print(json.dumps(first_call(*options.child, small=options.small)))
        return 0
    chosen = {
        name: p
        for name, p in PROGRAMS.items()
        if (not options.only or name in options.only) and (not options.family or p.family in options.family)
    }
    peers = [peer for peer in options.peers if installed(peer)]
    libraries = {peer: LIBRARIES[peer]() for peer in peers}
    kinds = [*(["first"] if options.first else []), *(["memory"] if options.memory else [])]
    quotients = [k for k in BUDGETS if (":" not in k or k.split(":")[0] in kinds)]
    head = ["ms", *peers, *quotients]
    show = lambda cells: print(line(cells, head, markdown=options.markdown), flush=True)
    show(head)
    if options.markdown:
        show(["---"] * len(head))
    found: dict[str, dict[str, Any]] = {}
    for name, program in chosen.items():
        entry = found[name] = measured(program, libraries, options.seconds, small=options.small)
        if kinds:
            fresh = {p: in_process(name, p, small=options.small) for p in peers if p not in entry["notes"]}
            entry |= {k: {p: f[k] for p, f in fresh.items() if k in f} for k in kinds}
        quotient = ratios(entry)
        times = [f"{entry['seconds'][p] * 1e3:.3f}" if p in entry["seconds"] else "-" for p in peers]
        show([name, *times, *(f"{quotient[k]:.2f}" if k in quotient else "-" for k in quotients)])
        for peer, note in entry["notes"].items():
            print(f"    {peer}: {note}", file=sys.stderr, flush=True)
    print("", *summary(found), sep="\n")
    whole = {n: {**e, "ratios": ratios(e)} for n, e in found.items()}
    if options.json:
        options.json.write_text(json.dumps(whole, indent=1))
    if options.page:
        limits = {kind: each for kind, (each, _) in BUDGETS.items()}
        options.page.write_text(page.renewed(options.page.read_text(), whole, limits))
    wrong = ("failed", "against")
    return int(any(note.startswith(wrong) for e in found.values() for note in e["notes"].values()))


if __name__ == "__main__":
    sys.exit(main())
