"""The programs of benchmarks.wide have the derivatives that they are timed for."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.wide import PROGRAMS
from benchmarks.wide.__main__ import disagreement, main, results, summary
from benchmarks.wide.libraries import Fgrad

STEP = 1e-5
FAMILIES = sorted({p.family for p in PROGRAMS.values()})
COMPILES_QUICKLY = ("trimmed mean", "GARCH by scan", "bags of embeddings")  # `benchmarks.wide` compares all
EAGER, COMPILED = Fgrad(compiled=False), Fgrad(compiled=True)


def distinct(family):
    """Return a program of each function: small ones differ in nothing else."""
    return {
        p.function: p for p in reversed(PROGRAMS.values()) if p.family == family and p.dtype == float
    }.values()


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_slopes(family):
    for program in distinct(family):
        arguments = program.arguments(small=True)
        value, *gradients = results(EAGER.run(program, arguments)())
        assert value.shape == ()
        assert value.dtype == program.dtype
        random = np.random.default_rng(0)
        along = {i: random.normal(size=arguments[i].shape) for i in program.wrt}
        ends = []
        for h in (STEP, -STEP):
            moved = [x + h * along[i] if i in along else x for i, x in enumerate(arguments)]
            ends.append(float(program.function(EAGER.namespace, *moved)))
        slope = sum(np.sum(g * along[i]) for i, g in zip(program.wrt, gradients, strict=True))
        scale = sum(np.sum(np.abs(g * along[i])) for i, g in zip(program.wrt, gradients, strict=True))
        bound = 1e-5 * scale + 1e-9 * abs(value)  # the second is the rounding of the quotient
        assert abs((ends[0] - ends[1]) / (2 * STEP) - slope) <= bound + 1e-7, program.name


@pytest.mark.parametrize("name", COMPILES_QUICKLY)
def test_compiled_programs_agree_with_eager_ones(name):
    program = PROGRAMS[name]
    arguments = program.arguments(small=True)
    compiled, eager = (results(lib.run(program, arguments)()) for lib in (COMPILED, EAGER))
    assert not disagreement(program, compiled, eager)


def test_the_families_hold_what_they_should():
    assert len(PROGRAMS) >= 80
    assert sum(p.dtype == np.float32 for p in PROGRAMS.values()) >= 15
    for program in PROGRAMS.values():
        assert all(x.dtype in (program.dtype, np.int64) for x in program.arguments(small=True)), program.name


def test_what_differs_is_said():
    program = PROGRAMS["digamma"]
    right = [np.array(1.0), np.array([1.0, 2.0])]
    assert not disagreement(program, right, right)
    assert "result 1 differs by 5.0e-04" in disagreement(program, right, [right[0], np.array([1.0, 2.001])])
    assert disagreement(program, right, [right[0], np.array([1.0, np.nan])])
    assert "float32" in disagreement(program, right, [np.float32(1.0), right[1]])


def test_it_prints_a_table_and_writes_what_it_measured(capsys, tmp_path):
    file = tmp_path / "found.json"
    command = [
        "--only",
        "Rosenbrock 10",
        "--peers",
        "eager",
        "--small",
        "--seconds",
        "0.01",
        "--json",
        str(file),
    ]
    assert main(command) == 0
    assert "Rosenbrock 10" in capsys.readouterr().out
    assert json.loads(file.read_text())["Rosenbrock 10"]["seconds"]["eager"] > 0


def test_budgets_are_counted():
    figures = {"a": (2.0, 1.0), "b": (0.5, 1.0)}
    found = {name: {"seconds": {"compiled": x, "jax": y}} for name, (x, y) in figures.items()}
    assert summary(found) == [
        "compiled / jax: geometric mean 1.00 of 2 (budget 0.4), 1 above 1.0, worst 2.00",
        "    2.00 a",
    ]
