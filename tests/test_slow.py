"""The tests that a quick run leaves out are some that exist, and those that take the longest."""

from __future__ import annotations

import re
from pathlib import Path

from tests import slow

ROOT = Path(__file__).parents[1]


def test_every_slow_test_exists():
    for name in slow.listed():
        path, *_, function = name.split("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*def {re.escape(function)}\(", text, re.MULTILINE), name


def test_those_that_take_the_longest_are_left_out(tmp_path):
    report = tmp_path / "report.xml"
    took = {"test_a": [3.0], "test_b": [1.0, 2.5], "test_c": [0.5]}
    cases = "".join(
        f'<testcase classname="tests.x.test_y" name="{name}[{i}]" time="{seconds}"/>'
        for name, times in took.items()
        for i, seconds in enumerate(times)
    )
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>", encoding="utf-8")
    a, b, c = (f"tests/x/test_y.py::{name}" for name in took)
    assert slow.durations(report) == {a: [3.0], b: [1.0, 2.5], c: [0.5]}
    assert slow.chosen(slow.durations(report), 10.0) == []
    assert slow.chosen(slow.durations(report), 4.0) == [a]
    assert slow.chosen(slow.durations(report), 0.6) == [a, b]
    assert slow.chosen({name: [9.0] for name in slow.KEPT}, 1.0) == []
