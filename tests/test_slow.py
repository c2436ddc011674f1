"""The tests that a quick run leaves out are some that exist, and those that take the longest."""

from __future__ import annotations

import re
from pathlib import Path

from tests import slow

ROOT = Path(__file__).parents[1]


def test_every_slow_test_exists():
    for name in slow.listed():
        path, *_, function = slow.function_of(name).split("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*def {re.escape(function)}\(", text, re.MULTILINE), name


def test_those_that_take_the_longest_are_left_out(tmp_path):
    took = {"test_a": [3.0], "test_b": [1.0, 2.5], "test_c": [0.5], "test_table": [1.5, 0.125]}
    cases = [
        f'<testcase classname="tests.x.test_y" name="{name}[{i}]" time="{seconds}"/>'
        for name, times in took.items()
        for i, seconds in enumerate(times)
    ]
    cases.append(f'<testcase classname="tests.x.test_y" name="test_table[0{slow.OTHERS}]" time="50"/>')
    reports = [tmp_path / "one.xml", tmp_path / "other.xml"]
    for report, part in zip(reports, (cases[:2], cases[1:]), strict=True):  # one stands in both
        report.write_text(
            f"<testsuites><testsuite>{''.join(part)}</testsuite></testsuites>", encoding="utf-8"
        )
    a, b, c, table = (f"tests/x/test_y.py::{name}" for name in took)
    long, short = f"{table}[0]", f"{table}[1]"
    found = slow.durations(reports)
    assert found == {a: [3.0], b: [1.0, 2.5], c: [0.5], long: [1.5], short: [0.125]}
    assert slow.chosen(found, 9.0) == []
    assert slow.chosen(found, 6.0) == [a]
    assert slow.chosen(found, 2.5) == [a, b]
    assert slow.chosen(found, 0.7) == [a, b, long]


def test_a_list_has_functions_and_single_cases():
    listed = frozenset({"tests/a.py::test_f", "tests/a.py::test_g[x y]"})
    assert slow.is_slow("tests/a.py::test_f", listed)
    assert slow.is_slow("tests/a.py::test_f[1]", listed)
    assert slow.is_slow("tests/a.py::test_g[x y]", listed)
    assert not slow.is_slow("tests/a.py::test_g[x]", listed)
