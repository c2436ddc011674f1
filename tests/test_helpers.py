"""What the helpers of tests promise to tests."""

from __future__ import annotations

from operator import itemgetter

import pytest
from tests.helpers import grouped

CASES = ["a 1", "a 2", "b 1", "b skipped", "c skipped", "d bad", "d 1", "d worse"]


@pytest.fixture
def seen():
    return []


def example(case, seen, factor=1):
    seen.append(case)
    if "skipped" in case:
        pytest.skip("not here")
    if "worse" in case:
        pytest.fail("worse")
    assert "bad" not in case, "it is bad"


def test_one_item_runs_all_cases_of_a_group(seen):
    run = grouped("case", CASES, lambda case: case[0])(example)
    (mark,) = run.pytestmark
    assert list(mark.args[1]) == ["a", "b", "c", "d"]
    run("a", seen=seen)
    run("b", seen=seen)
    assert seen == CASES[:4]


def test_every_case_that_fails_is_named(seen):
    run = grouped("case", CASES, lambda case: case[0])(example)
    with pytest.raises(pytest.fail.Exception, match=r"2 of 3 cases") as told:
        run("d", seen=seen)
    assert seen == CASES[5:]
    assert "case d bad\n" in str(told.value)
    assert "it is bad" in str(told.value)
    assert "case d worse\n" in str(told.value)
    assert "case d 1\n" not in str(told.value)
    assert "in example" in str(told.value)


def test_a_group_is_skipped_where_all_its_cases_are(seen):
    run = grouped("case", CASES, lambda case: case[0])(example)
    with pytest.raises(pytest.skip.Exception, match="not here"):
        run("c", seen=seen)


@pytest.mark.parametrize("other", [1, 2])
@grouped("case", CASES[:2], lambda case: case[0])
def test_fixtures_and_other_parameters_come_along(case, other, seen):
    assert other in {1, 2}
    seen.append(case)
    assert seen == CASES[: len(seen)]


def test_a_quick_run_tries_some_cases_of_every_group(seen):
    cases = ["a 1", "a 2", "a 3", "a 4", "a 5", "a 6", "a 7", "b 1"]
    run = grouped("case", cases, itemgetter(0), quick=3)(example)
    (mark,) = run.pytestmark
    quick, slow = mark.args[1][:2], mark.args[1][2:]
    assert quick == ["a", "b"]
    assert [(p.values, [m.name for m in p.marks]) for p in slow] == [(("a (others)",), ["slow"])]
    for group in quick:
        run(group, seen=seen)
    assert seen == ["a 1", "a 4", "a 7", "b 1"]
    run("a (others)", seen=seen)
    assert sorted(seen) == sorted(cases)


@pytest.mark.parametrize("last", [5])
@grouped("name, number", [("a", 1), ("b", 2), ("a", 3)])
def test_parts_of_a_case_are_parameters(number, seen, name, last):
    seen.append((name, number, last))
    assert seen in ([("a", 1, 5)], [("a", 1, 5), ("a", 3, 5)], [("b", 2, 5)])
