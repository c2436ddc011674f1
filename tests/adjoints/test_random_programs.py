"""Random kernels: what they compute, and their derivatives, against Python and differences."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.adjoints.interpreted import check
from tests.adjoints.random_programs import HEAD, Program
from tests.adjoints.wider_programs import ROWS, WIDER_HEAD, WiderProgram
from tests.helpers import drawn

SIZE = 6
MANY = drawn(2000)  # of each kind, with the slow tests

NUMBERS = itertools.count(100_000)


def run(seed, folder, orders=1, *, wider=False, draws=None):
    """Check a program; one that a search draws may shrink."""
    program = (WiderProgram if wider else Program)(seed if draws is None else draws)
    source = (WIDER_HEAD if wider else HEAD) + program.text()
    path = folder / f"program_{seed if draws is None else next(NUMBERS)}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where Numba looks for a function that calls itself
    spec.loader.exec_module(module)
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=SIZE) for _ in range(3)]
    if wider:
        args += [
            rng.normal(size=(ROWS, SIZE)),
            rng.normal(size=SIZE) + 1j * rng.normal(size=SIZE),
            rng.integers(0, 6, SIZE),
        ]
    args += [rng.normal(), rng.normal()]
    with np.errstate(all="ignore"):
        try:
            return check(
                module.prog, *args, orders=orders, seed=seed, tolerance=3e-4, stack=seed % 2 * 999 + 1
            )
        except (ValueError, OverflowError):
            return False  # a value that Python's `math` refuses
        except AssertionError as error:
            raise AssertionError(f"{error}\n{source}") from error


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_programs(start, tmp_path):
    assert sum(run(seed, tmp_path) for seed in range(start, start + 20)) > 15


def test_second_order_of_random_programs(tmp_path):
    assert sum(run(seed, tmp_path, orders=2) for seed in range(1000, 1010)) > 7


@pytest.mark.slow
@pytest.mark.parametrize("start", range(2000, 2000 + MANY, 50))
def test_many_random_programs(start, tmp_path):
    assert sum(run(seed, tmp_path) for seed in range(start, start + 50)) > 40


@pytest.mark.parametrize("start", range(0, 40, 20))
def test_wider_random_programs(start, tmp_path):
    assert sum(run(seed, tmp_path, wider=True) for seed in range(start, start + 20)) > 12


@pytest.mark.slow
@pytest.mark.parametrize("start", range(2000, 2000 + MANY, 50))
def test_many_wider_random_programs(start, tmp_path):
    assert sum(run(seed, tmp_path, wider=True) for seed in range(start, start + 50)) > 30


def test_second_order_of_wider_random_programs(tmp_path):
    assert sum(run(seed, tmp_path, orders=2, wider=True) for seed in range(1000, 1008)) > 4


@pytest.mark.slow
@settings(max_examples=drawn(500), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draws=st.randoms(use_true_random=False), seed=st.integers(0, 3), wider=st.booleans())
def test_searched_programs(draws, seed, wider, tmp_path):
    run(seed, tmp_path, draws=draws, wider=wider)
