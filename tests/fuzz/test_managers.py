"""Random programs of managers with fixed seeds give what polynomials in nilpotent variables say, exactly."""

from __future__ import annotations

import re

import pytest
from tests.fuzz.managers import Pair, described, program
from tests.fuzz.nilpotent import Polynomial

from fgrad.core.primitive import PRIMITIVES
from fgrad.transforms import manager


def first_finding(seeds: range) -> str:
    """Return the first program that shows a difference, to be pasted; "" without one."""
    for seed in seeds:
        lines, finding = program(seed)
        if finding:
            return described(seed, lines, finding)
    return ""


@pytest.mark.parametrize("part", range(6))
def test_programs(part):
    found = first_finding(range(part * 10, (part + 1) * 10))
    assert not found, found


@pytest.mark.parametrize("part", range(6))
def test_more_programs(part):
    found = first_finding(range(1000 + part * 100, 1100 + part * 100))
    assert not found, found


def lose_a_term(monkeypatch):
    step = PRIMITIVES["multiply"].vjp((True, True))
    right = step.raw
    monkeypatch.setattr(step, "raw", lambda ct, *saved: (right(ct, *saved)[0], None))


def replace_gradients(monkeypatch):
    add = manager._set_grad
    only_new = lambda x, g: add(x, g if x.grad is None else g - x.grad)
    monkeypatch.setattr(manager, "_set_grad", only_new)


def call_nobody(monkeypatch):
    monkeypatch.setattr(manager, "called", lambda callbacks, x, g: (g, ""))


def keep_what_is_detached(monkeypatch):
    monkeypatch.setattr(manager.GradManager, "detach", lambda self, x: self)


def hide_from_outer_managers(monkeypatch):
    monkeypatch.setattr(manager, "given", lambda g, right=manager.given: right(g).detach())


@pytest.mark.parametrize("spoil", [lose_a_term, replace_gradients, call_nobody, keep_what_is_detached])
def test_mistakes_are_found(spoil, monkeypatch):
    spoil(monkeypatch)
    found = first_finding(range(60))
    assert found.startswith("import copy\n")
    assert re.search(r"\n# seed \d+: [xv]\d+(\.grad)? is \[.*\], not \[.*\]$", found)


NESTED = (
    "x0 = fg.tensor(np.array([3.0, -1.0]))",
    "m0 = fg.GradManager().attach(x0)",
    "m1 = fg.GradManager().attach(x0)",
    "m0.record()",
    "m1.record()",
    "m1.backward(x0 * x0 * x0)",
    "v1 = x0.grad * x0",
    "x0.grad = None",
    "m0.backward(v1)",
)


@pytest.mark.parametrize("spoil", [None, hide_from_outer_managers])
def test_mistakes_of_second_order_are_found(spoil, monkeypatch):
    if spoil:
        spoil(monkeypatch)
    pair = Pair(0)
    for line in NESTED:
        pair.run(line)
    pair.release()
    assert pair.lines == list(NESTED)
    assert pair.finding == ("x0.grad is [27.0, 3.0], not [81.0, 9.0]" if spoil else "")


def test_products_of_variables_of_one_recording_are_zero():
    x, y, z = (Polynomial.variable((recording, leaf, ())) for recording, leaf in ((1, 0), (1, 1), (2, 0)))
    product = (3 + x) * (5 + y) * (z + 7)
    assert product.value() == 105
    of_x = product.coefficient((1, 0, ()))
    assert of_x.value() == 35
    assert of_x.coefficient((2, 0, ())).value() == 5
    assert not of_x.has((1, 1, ()))
    with pytest.raises(ValueError, match="integers only"):
        Polynomial.of(0.5)
