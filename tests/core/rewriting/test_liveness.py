"""Dead code: what no output and no effect needs goes, inside of loops and branches too."""

from __future__ import annotations

import numpy as np

import fgrad as fg
from fgrad.core.program import Program
from fgrad.core.rewriting.liveness import eliminate
from fgrad.core.rewriting.substitution import replaced


def names(program):
    """Return the names of all operations, those inside of others included."""
    found = []
    for e in program.equations:
        found.append(e.name)
        if "code" in e.params:
            found += [n for p in e.params["code"].inner() for n in names(p)]
    return found


def test_what_a_loop_carries_for_nobody_goes():
    def f(x):
        def step(carry, y):
            a, b = carry
            return (a + y, np.sin(b)), (np.cos(y), a)

        (a, _), (_, rows) = fg.lax.scan(step, (x[0], x[1]), x)
        return a, rows

    program = fg.make_graph(f)(np.ones(3))
    less = eliminate(program)
    assert {"sin", "cos"} < set(names(program))
    assert not {"sin", "cos"} & set(names(less))
    for a, b in zip(less.run([np.arange(3.0)]), program.run([np.arange(3.0)]), strict=True):
        assert np.array_equal(a, b)


def test_programs_without_dead_code_stay_as_they_are():
    def f(x):
        y = fg.lax.while_loop(lambda v: v[0] < 9.0, lambda v: (v[0] * 2.0, v[1] + v[0]), (x, 0.0))[1]
        return fg.lax.cond(y > 3.0, np.sin, np.cos, y)

    program = eliminate(fg.make_graph(f)(1.0))
    again = eliminate(program)
    assert all(a is b for a, b in zip(program.equations, again.equations, strict=True))


def test_effects_stay_wherever_they_are():
    def f(x):
        def step(carry, y):
            fg.debug.callback(lambda _: None, np.tan(y))
            return carry + y, np.cos(y)

        fg.lax.scan(step, 0.0, x)
        return x

    left = names(eliminate(fg.make_graph(f)(np.ones(3))))
    assert {"effect", "tan"} <= set(left)
    assert "cos" not in left


def test_inputs_are_replaced_by_constants():
    program = fg.make_graph(lambda x, y: x * y + x)(2.0, 3.0)
    known = replaced(program, {program.inputs[0]: np.float64(5.0)})
    assert isinstance(known, Program)
    assert len(known.inputs) == 1
    assert known.run([np.float64(3.0)]) == [20.0]
