"""The speculative program: right wherever it says so, and it says so wherever all is finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad.compiler.simplify import simplify, speculate

FUNCTIONS = {
    "bump": lambda x: np.exp(-1 / (x * x)),
    "one-sided bump": lambda x: np.exp(-1 / x),
    "entropy": lambda x: x * np.log(x),
    "guarded root": lambda x: np.where(x > 0, np.sqrt(x), 0.0) * x,
    "quotient": lambda x: np.sin(x) / (x * x),
    "overflow": lambda x: np.sin(np.exp(x) * 1e-300) / np.exp(x),
    "norm": lambda x: np.sqrt(np.sum(x * x)) * x,
    "softmax": lambda x: np.exp(x) / np.sum(np.exp(x)),
    "hidden": lambda x: np.tanh(np.where(x > 1, np.log(x), x)),
    "sum of squares": lambda x: np.sum(np.log(x) ** 2),
}
POINTS = (0.0, -0.0, 1.0, 0.5, -2.0, 1e-300, 710.0, np.inf, np.nan)


def forward(f: Any, after: Any = lambda t: t) -> Any:
    return lambda x, t: after(fg.jvp(f, (x,), (t,))[1])


def both(f: Any, x: Any, t: Any) -> tuple[list[Any], list[Any], bool]:
    """Return the results of the definition, those of the speculative program, and whether these are right."""
    simple = simplify(fg.make_graph(f)(x, t))
    fast = speculate(simple)
    assert fast is not None
    assert len(fast.equations) < len(simple.equations) + 3
    with np.errstate(all="ignore"):
        *found, valid = fast.run([x, t])
        return simple.run([x, t]), found, bool(valid)


@pytest.mark.parametrize("after", [lambda t: t, np.tanh, lambda t: np.where(t > 1, 1.0, t)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_called_valid_is_the_definition(name, after):
    f = forward(FUNCTIONS[name], after)
    for p in POINTS:
        for s in (1.0, 0.0, -3.0):
            x, t = np.array([p, 0.75]), np.array([s, 1.0])
            expected, found, valid = both(f, x, t)
            if valid:
                np.testing.assert_allclose(found[0], expected[0], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_finite_tangents_are_valid(name):
    expected, found, valid = both(forward(FUNCTIONS[name]), np.array([1.5, 2.5]), np.array([1.0, -2.0]))
    assert valid
    assert np.isfinite(expected[0]).all()
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", ["one-sided bump", "entropy", "guarded root"])
def test_where_a_zero_cotangent_meets_an_infinite_slope_it_is_not_valid(name):
    expected, _, valid = both(forward(FUNCTIONS[name]), np.array([0.0, 0.75]), np.ones(2))
    assert not valid
    assert not np.isnan(expected[0]).any()


def test_programs_without_singular_steps_have_no_other_case():
    assert (
        speculate(simplify(fg.make_graph(forward(lambda x: np.tanh(x) * x))(np.ones(2), np.ones(2)))) is None
    )
