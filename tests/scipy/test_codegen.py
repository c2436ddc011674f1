"""Programs as Python functions compute what the programs do."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg
from fgrad.scipy.codegen import python_function

X = np.array([[2.0, 0.5], [0.5, 1.0]])


@fg.custom_vjp
def doubled(x):
    return 2.0 * x


doubled.defvjp(lambda x: (2.0 * x, None), lambda _, ct: (2.0 * ct,))

PROGRAMS = {
    "arithmetic": lambda x: np.sin(x) * 3.0 + x.T,
    "gradient": fg.grad(lambda x: np.sum(np.exp(x @ x))),
    "several results": lambda x: list(np.linalg.eigh(x @ x.T)),
    "an input and a constant": lambda x: [x, np.ones(3), 2.0],
    "a custom rule": lambda x: fg.jacrev(lambda x: doubled(x) @ x)(x),
    "a solver": lambda x: fg.scipy.optimize.fixed_point(np.cos, x),
    "a loop": lambda x: fg.lax.fori_loop(0, 3, lambda i, c: c @ x, x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    program = fg.make_graph(PROGRAMS[name])(X)
    found, expected = python_function(program)(X), program.run([X])
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        close(a, b)


def test_effects_happen_and_debug_nans_looks(capsys):
    def shown(x):
        fg.debug.print("{}", x[0, 0])
        return np.log(x)

    run = python_function(fg.make_graph(shown)(X))
    run(X)
    assert capsys.readouterr().out == "2.0\n"
    with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match="log"):
        run(-X)
