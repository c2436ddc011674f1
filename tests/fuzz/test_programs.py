"""Three hundred random programs with fixed seeds: none is silently wrong, and a finding prints its script."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.interpreting import kernels_in_python
from tests.fuzz import oracles, reference
from tests.fuzz.oracles import Case, quiet, verdict
from tests.fuzz.programs import Input, Program
from tests.fuzz.session import NORMAL, case_of, described


def check(kind: str, seed: int) -> None:
    with quiet():
        case = case_of(kind, seed)
    found = verdict(case)
    assert not found.is_finding, described(kind, seed, case, found)


@pytest.mark.parametrize("part", range(12))
def test_programs_interpreted(part):
    small = [kind for kind in NORMAL if kind != "large"]
    with kernels_in_python():
        for seed in range(part * 21, (part + 1) * 21):
            check(small[seed % len(small)], seed)


@pytest.mark.parametrize("part", range(6))
def test_programs_compiled(part):
    for seed in range(1000 + part * 8, 1008 + part * 8):
        check(NORMAL[seed % len(NORMAL)], seed)


ONES = (1.0,) * 4
UNDEFINED = {
    "signs of zeros that tie for an extremum": Case(
        Program(
            (Input("f8", (1,), (-0.0,)),),
            ("v0 = x0.clip(0, 1)", "v1 = np.arctan2(x0, v0)"),
            ("v1",),
        )
    ),
    "signs of zeros in mapped products": Case(
        Program(
            (Input("f4", (2,), (0.0, -0.0)),),
            ("v0 = np.linalg.outer(x0, x0)", "v1 = np.arctan2(v0, -1.0)"),
            ("v1",),
        ),
        way="vmap",
    ),
    "the last digit of a coarser float, seen in a finer one": Case(
        Program(
            (Input("u2", (4,), (1, 0, 0, 9)), Input("u4", (4,), (1,) * 4)),
            ("v0 = np.where(x0 < 2.0, x1, np.sin(x0))",),
            ("v0",),
        ),
        way="jit",
    ),
    "a tie that a step makes of every argument": Case(
        Program(
            (Input("f8", (1,), (1.0,)),),
            ("v0 = np.multiply(x0, 0)", "v1 = fg.hessian(lambda t: np.max(t * t, initial=0.0))(v0)"),
            ("v1",),
        ),
        way="vmap",
    ),
    "places beside that of a partition": Case(
        Program(
            (Input("f8", (4,), (float("nan"), 0.0, 1.0, 2.0)),),
            ("v0 = np.partition(x0, 2)", "v1 = np.partition(x0, 1)[1]"),
            ("v0", "v1"),
        ),
        way="vmap",
    ),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_what_is_not_defined_is_no_finding_but_other_values_are(name, monkeypatch):
    case = UNDEFINED[name]
    assert not verdict(case).is_finding
    run = oracles.VALUES[case.way]
    wrong = lambda f, xs: [y + 0.25 for y in reference.leaves(run(f, xs))]
    monkeypatch.setitem(oracles.VALUES, case.way, wrong)
    assert verdict(case).is_finding


@pytest.mark.parametrize("shape", [(2, 1, 2), (2, 2, 1)])
@pytest.mark.parametrize("layout", ["broadcast", "transposed", "F", "strided"])
@pytest.mark.parametrize("way", ["grad", "grad(checkpoint)"])
def test_differences_are_of_arrays_that_lie_as_the_arguments_do(shape, layout, way):
    steps = ("v0 = x0 * 1.0", "v1 = v0.reshape(-1)", "np.expand_dims(v1, 0).fill(-0.0)")
    program = Program((Input("f8", shape, ONES, layout),), steps, ("v0",))
    with kernels_in_python():
        found = verdict(Case(program, way=way))
    assert not found.is_finding, found.text


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_differences_are_of_the_element_that_numpy_puts_at_a_place_left_open(dtype):
    values = (0.0, 1.0, 2.575, 1.0, 5.34)
    steps = ("v0 = np.partition(x0, 3, axis=0)", "v1 = np.sort(v0[..., :1], 0)")
    program = Program((Input(dtype, (5,), values),), steps, ("v1",))
    with kernels_in_python():
        found = verdict(Case(program, way="jit(jvp)"))
    assert not found.is_finding, found.text


def test_an_error_is_dead_only_if_no_result_depends_on_what_raises():
    matrix = Input("f8", (2, 2), (0.0, 0.0, 1.0, 1.0))
    steps = "v0 = np.linalg.cholesky(x0)", "v1 = v0 ** 0", "v2 = v0 * 0"
    assert oracles.is_dead(Case(Program((matrix,), steps, ("v1",))), [matrix.array()])
    assert not oracles.is_dead(Case(Program((matrix,), steps, ("v1", "v0"))), [matrix.array()])
    assert not verdict(Case(Program((matrix,), steps[:2], ("v1",)), way="jit")).is_finding


TIED = "v0 = np.minimum.accumulate(x0)", "v1 = v0.max()"


@pytest.mark.parametrize("values", [(1.0, 1.0), (1.0, 2.0)])
@pytest.mark.parametrize("way", ["grad(checkpoint)", "grad(jit)"])
def test_slopes_of_extrema_of_extrema_are_excused_where_both_tie(values, way):
    pytest.importorskip("scipy")
    case = Case(Program((Input("f8", (2,), values),), TIED, ("v1",)), way=way)
    assert not verdict(case).is_finding
    shares = [[0.75, 0.25], [0.75, 0.45]] if values[1] == 1 else [[1.0, 0.0], [0.75, 0.25]]
    between = [oracles.lies_between(np.array(y), case, case.program.arrays(), 0) for y in shares]
    assert between == [True, False]


@pytest.mark.parametrize("around", [False, True])
def test_slopes_of_slopes_of_extrema_are_excused_where_those_close_by_are_right(around, monkeypatch):
    steps = "v0 = fg.grad(lambda t: np.max(t * t, initial=0.0))(x0)", "v1 = v0 + 1"
    case = Case(Program((Input("f8", (1,), (0.0,)),), steps, ("v1",)), way="jit(jvp)")
    with kernels_in_python():
        assert not verdict(case).is_finding
        push = oracles.PUSHED["jit(jvp)"]
        wrong = lambda total, ys: push(total, ys) + 1e6 * (around or ys[0][0] == 0)
        monkeypatch.setitem(oracles.PUSHED, "jit(jvp)", wrong)
        monkeypatch.setattr(oracles, "agree", lambda *args: None)  # as where both modes are wrong
        assert verdict(case).is_finding is around
