"""Run the benchmarks and print times, ratios and budgets: `python -m benchmarks`."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

import numpy as np

from benchmarks import THREADS, arrays, memory, overhead, programs
from benchmarks.timing import fastest, fastest_process
from fgrad.demo.report import table

PEERS = ("torch", "autograd", "jax", "mygrad")
UNITS = {"chain": 2 * programs.STEPS, "rosenbrock": 1, "mlp": 1}  # what a time is divided by
TITLES = {"chain": "chain, per operation", "rosenbrock": "rosenbrock", "mlp": "MLP 784-128-10"}
LIMITS = {
    # case        fgrad's time over that of a peer
    "chain":      {"torch": 0.55, "autograd": 0.3},
    "rosenbrock": {"torch": 0.6, "autograd": 0.3},
    "mlp":        {"torch": 1.0},
}  # fmt: skip
SAMPLE_LIMITS = {"by hand": 1.2, "torch": 1.0}
FLAT = 16_384  # bytes: less is no growth


class Budget(NamedTuple):
    """One line of the last table: what was measured, and what was meant to be possible."""

    what: str
    measured: float
    limit: float
    unit: str

    @property
    def holds(self) -> bool:
        """Whether the measured value is within the limit."""
        return self.measured <= self.limit

    def row(self) -> list[str]:
        """Return the cells of this line."""
        numbers = [f"{x:,.0f}" if self.unit == "bytes" else f"{x:.2f}" for x in (self.measured, self.limit)]
        return [self.what, *numbers, self.unit, "holds" if self.holds else "MISSED"]


def main() -> int:
    """Run every part; return 1 if a budget is missed and `--strict` was given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="for each measurement in turns (default: 10)"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a budget is missed")
    options = parser.parse_args()
    peers = list(filter(find_spec, PEERS))
    modules = {name: import_module(f"benchmarks.with_{name}") for name in ("fgrad", *peers)}
    python = f"Python {platform.python_version()} on {platform.machine()} with {THREADS} threads"
    print(", ".join([python, *(f"{name} {version(name)}" for name in ("numpy", *peers))]))
    budgets: list[Budget] = []
    for part in (gradients, samples, functions, operations, forward, start_up, recordings):
        budgets += part(modules, options.seconds)
    show("Budgets", [["", "measured", "limit", "", ""], *(b.row() for b in budgets)])
    return int(options.strict and not all(b.holds for b in budgets))


def show(title: str, rows: list[list[str]]) -> None:
    print(f"\n{title}\n\n{table(rows)}", flush=True)


def gradients(modules: Mapping[str, ModuleType], seconds: float) -> Iterator[Budget]:
    """Time value_and_grad of each program in each library."""
    columns = {label: runs for m in modules.values() for label, runs in m.GRADIENTS.items()}
    rows = [["", *columns]]
    for case, unit in UNITS.items():
        runs = {label: found[case] for label, found in columns.items() if case in found}
        agree(case, {label: run() for label, run in runs.items()})
        times = fastest(runs, seconds)
        cells = [f"{1e6 * times[c] / unit:.2f}" if c in times else "" for c in columns]
        ratios = [f"{times['fgrad'] / times[c]:.2f}" if c in times else "" for c in columns]
        rows += [[TITLES[case], *cells], ["  fgrad's share", *ratios]]
        for peer, limit in LIMITS[case].items():
            if peer in times:
                yield Budget(f"{TITLES[case]}: fgrad / {peer}", times["fgrad"] / times[peer], limit, "x")
    show("Value and gradient, microseconds; below them fgrad's time over that of the library", rows)


def agree(case: str, results: Mapping[str, tuple[object, object]]) -> None:
    """Check that all libraries compute the same."""
    value, gradient = results["fgrad"]
    for other in results.values():
        np.testing.assert_allclose(np.asarray(other[0]), value, rtol=1e-4, err_msg=case)
        for found, expected in zip(leaves(other[1]), leaves(gradient), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5, err_msg=case)


def samples(modules: Mapping[str, ModuleType], seconds: float) -> Iterator[Budget]:
    """Time the gradients of each of many samples, against the same by hand and in other libraries."""
    runs = {label: run for m in modules.values() for label, run in m.SAMPLES.items()}
    agree("samples", {label: (0.0, run()) for label, run in runs.items()})
    times = fastest(runs, seconds)
    rows = [["", "microseconds", "fgrad's share"]]
    rows += [[label, f"{1e6 * t:.0f}", f"{times['fgrad'] / t:.2f}"] for label, t in times.items()]
    show("vmap(grad) of an MLP 64-32-10 over 1000 samples", rows)
    for other, limit in SAMPLE_LIMITS.items():
        if other in times:
            yield Budget(f"1000 gradients: fgrad / {other}", times["fgrad"] / times[other], limit, "x")


def leaves(gradient: object) -> list[np.ndarray]:
    return list(map(np.asarray, gradient if isinstance(gradient, list | tuple) else [gradient]))


def functions(modules: Mapping[str, ModuleType], seconds: float) -> Iterator[Budget]:
    """Time value and gradient of functions of a million numbers."""
    rows = [arrays.HEAD]
    for name, times in arrays.measured(modules, seconds / 5):
        rows.append(arrays.row(name, times))
        for peer, limit in arrays.LIMITS.items():
            if peer in times and name.rpartition(" ")[0] not in arrays.UNLIMITED:
                yield Budget(f"{name}: fgrad / {peer}", times["fgrad"] / times[peer], limit, "x")
    show("Value and gradient of a million numbers, milliseconds, and fgrad's time over that of others", rows)


def operations(_: Mapping[str, ModuleType], seconds: float) -> Iterator[Budget]:
    """Time single operations on Tensors outside any recording, against the same on arrays."""
    times = fastest({name: run for pair in overhead.PAIRS.values() for name, run in pair.items()}, seconds)
    rows = [["", "Tensor", "array", "difference"]]
    for what, pair in overhead.PAIRS.items():
        tensor, array = (1e6 * times[name] for name in pair)
        rows.append([what, f"{tensor:.2f}", f"{array:.2f}", f"{tensor - array:.2f}"])
        yield Budget(f"untracked {what}: over NumPy", tensor - array, 0.8, "us")
    show("One operation on 10 numbers outside any recording, microseconds", rows)


def forward(modules: Mapping[str, ModuleType], seconds: float) -> Iterator[Budget]:
    """Time forward mode against the forward pass, of the MLP."""
    rows = [["", "forward pass", "jvp", "ratio"]]
    pairs = {label: pair for m in modules.values() for label, pair in m.FORWARD.items()}
    times = fastest(
        {f"{label} {i}": run for label, pair in pairs.items() for i, run in enumerate(pair)}, seconds
    )
    for label in pairs:
        plain, pushed = times[f"{label} 0"], times[f"{label} 1"]
        rows.append([label, f"{1e6 * plain:.0f}", f"{1e6 * pushed:.0f}", f"{pushed / plain:.2f}"])
        if label == "fgrad":  # on Tensors, as everybody on arrays of their own
            yield Budget("MLP: jvp / forward pass", pushed / plain, 3.5, "x")
    show("Forward mode of the MLP, microseconds", rows)


def start_up(modules: Mapping[str, ModuleType], _: float) -> Iterator[Budget]:
    """Time what a fresh process takes to import a library, and to reach a first gradient."""
    imports = fastest_process({n: f"import {n}" for n in ("numpy", *modules)}, 5)
    first = fastest_process({n: m.FIRST_GRADIENT for n, m in modules.items()}, 5)
    least = imports["numpy"]
    rows = [["", "import", "over numpy", "first gradient"], ["numpy", f"{least:.3f}", "", ""]]
    rows += [[n, f"{imports[n]:.3f}", f"{imports[n] - least:.3f}", f"{first[n]:.3f}"] for n in modules]
    show("A fresh process, seconds from its start to its end", rows)
    fastest_process({"": "import sys, fgrad; assert 'numba' not in sys.modules"}, 0)
    yield Budget("import fgrad, over numpy (and without numba)", imports["fgrad"] - least, 0.15, "s")
    yield Budget("fresh process to first gradient", first["fgrad"], 0.35, "s")


def recordings(_: Mapping[str, ModuleType], __: float) -> Iterator[Budget]:
    """Measure the memory that long recordings and many recordings leave behind."""
    for what, growth in memory.GROWTH.items():
        yield Budget(f"memory: {what}", growth(), FLAT, "bytes")


if __name__ == "__main__":
    sys.exit(main())
