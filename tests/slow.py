"""Which tests a quick run leaves out, by what they took: `python -m tests.slow report*.xml`.

The reports, of `pytest --junitxml=report.xml`, are together of the whole suite; `REPORT=report bash .ci/run`
makes them. The functions whose tests take the longest on average go to `slow.txt`, one after the other, until
the others fit into the time, which is that of all processes together. Of tables of which a quick run tries
some cases only anyway (`helpers.grouped`), single cases go there.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

LIST = Path(__file__).with_name("slow.txt")
OTHERS = " (others)"  # behind the name of a group of cases, those that a quick run leaves out


def listed() -> frozenset[str]:
    """Return what is slow: functions, as `path::function` or `path::Class::function`, and single cases."""
    return frozenset(LIST.read_text(encoding="utf-8").splitlines())


def is_slow(nodeid: str, slow: frozenset[str]) -> bool:
    """Return whether a list has a test, or its function."""
    return nodeid in slow or function_of(nodeid) in slow


def function_of(nodeid: str) -> str:
    """Return the function of a test without its parameters."""
    return nodeid.partition("[")[0]


def durations(reports: list[Path]) -> dict[str, list[float]]:
    """Return what the tests of each function took, in seconds; of tables cut short, what each case took."""
    took, cut = {}, set()
    for case in (case for report in reports for case in ET.parse(report).iter("testcase")):
        parts = (case.get("classname") or "").split(".")
        module = next((i for i, part in enumerate(parts) if part.startswith("test_")), None)
        if parts[0] == "tests" and module is not None:
            path = "/".join(parts[: module + 1]) + ".py"
            test = "::".join([path, *parts[module + 1 :], case.get("name") or ""])
            if OTHERS in test:
                cut.add(function_of(test))
            else:
                took[test] = max(took.get(test, 0.0), float(case.get("time") or 0))
    found = defaultdict(list)
    for test, seconds in took.items():
        function = function_of(test)
        found[test if function in cut else function].append(seconds)
    return found


def chosen(took: dict[str, list[float]], seconds: float) -> list[str]:
    """Return what to leave out, so that the others take at most so many seconds."""
    left, slow = sum(map(sum, took.values())), []
    for name in sorted(took, key=lambda n: -sum(took[n]) / len(took[n])):
        if left <= seconds:
            break
        left -= sum(took[name])
        slow.append(name)
    return sorted(slow)


def main() -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    slow = chosen(durations(given.reports), given.seconds)
    LIST.write_text("\n".join(slow) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
