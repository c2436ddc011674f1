"""The part of a page with the figures of the wide benchmark: `python -m benchmarks.wide --page FILE`."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import geometric_mean
from typing import Any

BEGIN, END = "<!-- made by benchmarks.wide -->", "<!-- as far as here -->"
SHOWN = {"compiled": "compiled", "jax": "JAX", "eager": "eager", "torch": "PyTorch"}
QUOTIENTS = {
    "compiled / jax": "compiled / JAX",
    "compiled / eager": "compiled / eager",
    "eager / torch": "eager / PyTorch",
    "first: compiled / jax": "first call: compiled / JAX",
    "memory: compiled / jax": "peak memory: compiled / JAX",
}


def renewed(text: str, found: Mapping[str, Mapping[str, Any]], limits: Mapping[str, float]) -> str:
    """Return a page in which what was measured stands between the two marks.

    Args:
        text: the page.
        found: for each program its `seconds`, by library, and its `ratios`.
        limits: for each quotient that which is good enough; the programs beyond it are named.

    Raises:
        ValueError: the page has no marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    return "\n".join([before + begin, "", *_summary(found, limits), "", *_table(found), "", end + after])


def _summary(found: Mapping[str, Mapping[str, Any]], limits: Mapping[str, float]) -> list[str]:
    lines = []
    for kind, title in QUOTIENTS.items():
        numbers = {name: e["ratios"][kind] for name, e in found.items() if kind in e["ratios"]}
        if not numbers:
            continue
        beyond = sorted((n for n in numbers if numbers[n] > limits[kind]), key=lambda n: -numbers[n])
        names = ", ".join(f"{n} {numbers[n]:.2f}" for n in beyond)
        mean = geometric_mean(numbers.values())
        above = f"above {limits[kind]:g}: {names}" if beyond else f"none above {limits[kind]:g}"
        lines.append(f"- {title}: geometric mean {mean:.2f} of {len(numbers)} programs; {above}.")
    return lines


def _table(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    kinds = [k for k in QUOTIENTS if any(k in e["ratios"] for e in found.values())]
    rows = [
        ["program", *SHOWN.values(), *(QUOTIENTS[k] for k in kinds)],
        ["---"] * (1 + len(SHOWN) + len(kinds)),
    ]
    for name, entry in found.items():
        seconds, ratios = entry["seconds"], entry["ratios"]
        times = [f"{seconds[p] * 1e3:.3g}" if p in seconds else "" for p in SHOWN]
        rows.append([name, *times, *(f"{ratios[k]:.2f}" if k in ratios else "" for k in kinds)])
    return ["| " + " | ".join(row) + " |" for row in rows]
