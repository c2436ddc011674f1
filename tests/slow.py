"""Which tests a quick run leaves out, by what they took: `python -m tests.slow report.xml --seconds 200`.

The report is that of `pytest --junitxml=report.xml` over the whole suite. The functions whose tests take the
longest on average, broad tables aside, go to `slow.txt`, one after the other, until the others fit into the
time, which is that of all processes together.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

KEPT = {  # one item runs many cases, which together reach every primitive and every function
    "tests/ops/test_primitives.py::test_primitive",
    "tests/transforms/test_jit_composition.py::test_every_primitive",
    "tests/numpy/test_sharing.py::test_sharing_is_numpys",
    *(f"tests/numpy/{path.name}::test_as_numpy" for path in Path(__file__).parent.glob("numpy/test_*.py")),
}
LIST = Path(__file__).with_name("slow.txt")


def listed() -> frozenset[str]:
    """Return the functions whose tests are slow, as `path::function`, or `path::Class::function`."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def function_of(nodeid: str) -> str:
    """Return the function of a test without its parameters."""
    return nodeid.partition("[")[0]


def durations(report: Path) -> dict[str, list[float]]:
    """Return what the tests of each function took, in seconds."""
    found = defaultdict(list)
    for case in ET.parse(report).iter("testcase"):
        parts = (case.get("classname") or "").split(".")
        module = next((i for i, part in enumerate(parts) if part.startswith("test_")), None)
        if parts[0] == "tests" and module is not None:
            path = "/".join(parts[: module + 1]) + ".py"
            name = function_of("::".join([path, *parts[module + 1 :], case.get("name") or ""]))
            found[name].append(float(case.get("time") or 0))
    return found


def chosen(took: dict[str, list[float]], seconds: float) -> list[str]:
    """Return the functions to leave out, so that the others take at most so many seconds."""
    left, slow = sum(map(sum, took.values())), []
    for name in sorted(took.keys() - KEPT, key=lambda n: -sum(took[n]) / len(took[n])):
        if left <= seconds:
            break
        left -= sum(took[name])
        slow.append(name)
    return sorted(slow)


def main() -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--seconds", type=float, default=200.0)
    given = parser.parse_args()
    LIST.write_text("\n".join(chosen(durations(given.report), given.seconds)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
