"""What the reference says of each name outside of fgrad.numpy, and that its examples are true."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.special
import scipy.stats
from tests.helpers import wrong_examples

import fgrad.scipy.stats
from fgrad.scipy.stats.descriptions import SAID
from fgrad.scipy.stats.families import Continuous, Distribution

DISTRIBUTIONS = {n: getattr(fgrad.scipy.stats, n) for n in dir(fgrad.scipy.stats) if not n.startswith("_")}
FAMILIES = {n: d for n, d in DISTRIBUTIONS.items() if isinstance(d, Distribution)}


def test_each_family_is_described():
    assert set(FAMILIES) == set(SAID)
    assert len(FAMILIES) > 35


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_example_of_a_distribution(name):
    assert not wrong_examples(inspect.getdoc(DISTRIBUTIONS[name]), name)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_formula_of_a_family_is_its_density(name):
    family = FAMILIES[name]
    given = eval(f"[{SAID[name].arguments}]", {"__builtins__": {}})
    words = {n: getattr(np, n) for n in ("exp", "sqrt", "log", "cos", "pi", "abs")}
    words |= {n: getattr(scipy.special, n) for n in ("gamma", "beta", "ndtr", "comb", "factorial", "i0")}
    words |= dict(zip(("x" if isinstance(family, Continuous) else "k", *family.shapes), given, strict=True))
    theirs = getattr(scipy.stats, name)
    expected = (theirs.pdf if isinstance(family, Continuous) else theirs.pmf)(*given)
    assert eval(SAID[name].density, {"__builtins__": {}}, words) == pytest.approx(expected, rel=1e-12)
