"""What the helpers of tests promise to tests."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.helpers import grouped, spread

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


def test_some_cases_of_every_group_are_spread_over_it():
    cases = [Fraction(i, 7 if i < 9 else 11) for i in (1, 2, 3, 4, 5, 6, 8, 9)]
    some, others = spread(cases, "denominator")
    assert some == [Fraction(i, 7) for i in (1, 4, 8)] + [Fraction(9, 11)]
    assert sorted(some + others) == sorted(cases)
    assert not set(some) & set(others)
