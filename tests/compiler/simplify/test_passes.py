"""Each pass alone: what it makes of a small program, and that the values stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers import plain

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.compiler.simplify import passes, simplify
from fgrad.compiler.simplify.rewriting import Rewriting, Rules
from fgrad.core.dispatch import bind
from fgrad.core.program import Equation, Program
from fgrad.core.rewriting.liveness import eliminate

SHARING = Rules()  # no rule at all: equal equations are written once
X = np.array([[0.5, -1.5, 2.0], [3.0, -0.25, 1.0]])
V = np.array([1.0, -2.0, 4.0])
ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.0])


def rows(program: Any) -> list[str]:
    return [e.name for e in program.equations]


def passed(rules: Any, f: Any, *args: Any, exact: bool = True) -> list[str]:
    """Return the rows that a pass leaves of `f`, once it is known to compute the same."""
    program = fg.make_graph(f)(*args)
    simple = eliminate(rules(program))
    assert simple.inputs == program.inputs
    assert not simple.regions
    with np.errstate(all="ignore"):
        for y, expected in zip(simple.run(args), program.run(args), strict=True):
            a, b = np.asarray(y), np.asarray(expected)
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            if exact:
                np.testing.assert_array_equal(a, b)
                if a.dtype.kind == "f":
                    number = ~np.isnan(b)
                    np.testing.assert_array_equal(np.signbit(a)[number], np.signbit(b)[number])
            else:
                np.testing.assert_allclose(a, b, rtol=1e-13)
    return rows(simple)


# ---- dead code, equal equations, constants ----------------------------------------------------------


def test_what_nobody_uses_goes_and_effects_stay_in_order(capfd):
    def f(x):
        np.exp(x)
        fg.debug.print("first {}", x.sum())
        y = np.sin(x)
        fg.debug.print("second {}", x[0])
        np.cos(y)
        return y

    simple = eliminate(fg.make_graph(f)(V))
    assert rows(simple) == ["sum", "effect", "sin", "slice", "effect"]
    capfd.readouterr()
    simple.run([V])
    out = capfd.readouterr().out
    assert out.index("first") < out.index("second")
    assert rows(simplify(simple)) == rows(simple)


def test_refusals_are_effects():
    program = fg.make_graph(lambda x: fg.jvp(np.linalg.eigh, (x,), (x,))[0])(np.eye(2))
    assert ("guard" in rows(simplify(program))) == ("guard" in rows(program))


def test_equal_equations_are_one_with_equal_parameters():
    def f(x, i):
        return [x[1:], x[1:], x[:1], np.sum(x, 0), np.sum(x, 1), x + V, x + V.copy(), x + -V, x * i, i * x]

    assert rows(SHARING(fg.make_graph(f)(X, X))) == [
        "slice",
        "slice",
        "sum",
        "sum",
        "add",
        "add",
        "multiply",
    ]


def test_equal_constants_are_one():
    simple = SHARING(fg.make_graph(lambda x: [np.dot(x, V), np.dot(-x, V.copy()), x * -V])(X))
    first, _, second, third = (e.args[-1] for e in simple.equations)
    assert first is second
    assert third is not first


def test_zero_is_not_minus_zero_nor_one_true():
    f = lambda x: [x + 0.0, x + -0.0, x + np.zeros(7), x + -np.zeros(7), x[1], x[np.True_]]
    assert len(passed(SHARING, f, ODD)) == 6


def test_random_numbers_of_one_key_are_one():
    f = lambda k: [fg.random.uniform(k, size=2), fg.random.uniform(k, size=2)]
    program = fg.make_graph(f)(fg.random.key(0))
    assert rows(program).count("threefry") == 2
    assert rows(simplify(program)).count("threefry") == 1


def test_constants_are_computed_ahead():
    assert passed(passes.FOLDING, lambda x: x + np.sin(fnp.array(V)) * 2, X) == ["add"]
    assert passed(passes.FOLDING, lambda x: x * bind("multiply", np.ones(3), 2.0), X) == ["multiply"]


def test_large_constants_stay_repeated_numbers():
    def f(x):
        ones = bind("broadcast_to", bind("multiply", np.ones(()), 3.0), shape=(10**9,))
        return x * bind("reshape", bind("slice", ones, index=(slice(0, 6),)), shape=(2, 3))

    program = fg.make_graph(f)(X)
    (product,) = simplify(program).equations
    assert product.args[1] == 3.0
    assert np.ndim(product.args[1]) == 0


def test_what_raises_is_left_to_the_program():
    program = fg.make_graph(lambda x: bind("cholesky", x))(np.eye(2))
    (e,) = program.equations
    known = Equation(e.name, (-np.eye(2),), e.params, e.outs, e.line)
    simple = simplify(Program([], [known], program.outputs, (program.in_tree, program.out_tree)))
    with pytest.raises(np.linalg.LinAlgError):
        simple.run([])


# ---- operands ---------------------------------------------------------------------------------------


def test_operands_are_not_repeated():
    assert passed(passes.OPERANDS, lambda x, v: x + np.broadcast_to(v, (2, 3)), X, V) == ["add"]
    assert passed(passes.OPERANDS, lambda x, v: x + v[None], X, V) == ["slice", "add"]
    f = lambda v: np.broadcast_to(v, (2, 3)) * np.full((2, 3), 2.0)
    assert passed(passes.OPERANDS, f, V) == ["multiply", "broadcast_to"]


def test_numbers_keep_their_dtype_as_operands():
    x = np.ones(3, np.float32)
    simple = simplify(fg.make_graph(lambda x: x + np.full(3, 2.0))(x))
    assert simple.run([x])[0].dtype == np.float64


def test_elements_come_before_reshapes():
    f = lambda x: np.reshape(np.sin(np.reshape(x, (3, 2))), (6,))
    assert passed(passes.OPERANDS | passes.SHAPES, f, X) == ["sin", "reshape"]
    f = lambda x, v: (np.reshape(x, (2, 1, 3)) * v)[:, 0]
    assert passed(passes.OPERANDS | passes.SHAPES, f, X, V) == ["multiply"]


# ---- algebra ----------------------------------------------------------------------------------------


SAME = {
    "times one": (lambda x: x * 1, []),
    "times an array of ones": (lambda x: x * np.ones(7), []),
    "minus one": (lambda x: x * -1.0, ["negative"]),
    "times zero": (lambda x: x * 0.0, ["multiply"]),
    "plus zero": (lambda x: x + 0.0, ["add"]),
    "plus minus zero": (lambda x: x + -0.0, []),
    "minus zero": (lambda x: x - 0.0, []),
    "minus minus zero": (lambda x: x - -0.0, ["subtract"]),
    "zero minus": (lambda x: 0.0 - x, ["subtract"]),
    "minus zero minus": (lambda x: -0.0 - x, ["negative"]),
    "square plus zero": (lambda x: x * x + 0.0, ["square"]),
    "over one": (lambda x: x / 1, []),
    "over four": (lambda x: x / 4, ["multiply"]),
    "over three": (lambda x: x / 3, ["divide"]),
    "minus of minus": (lambda x: np.negative(-x), []),
    "minus itself": (lambda x: x - x, ["subtract"]),
    "over itself": (lambda x: x / x, ["divide"]),
    "twice": (lambda x: x + x, ["multiply"]),
    "minus twice": (lambda x: -x - x, ["multiply"]),
    "plus the negative": (lambda x: x[0] + -x, ["slice", "subtract"]),
    "two signs": (lambda x: -x * -x[0], ["slice", "multiply"]),
    "square": (lambda x: x**2, ["square"]),
    "first power": (lambda x: x**1.0, []),
    "no power": (lambda x: bind("power", x, 0.0), []),
    "root": (lambda x: bind("power", x, 0.5), ["power"]),
    "half of four times": (lambda x: x * 4.0 * 0.5, ["multiply"]),
    "even": (lambda x: np.absolute(-x), ["absolute"]),
    "maximum of one": (lambda x: np.maximum(x, x), []),
    "stop": (lambda x: fg.stop_gradient(x) * 2, ["multiply"]),
    "integers": (lambda x: (np.isnan(x) * 1 + 0) * 1 - 0, ["isnan", "multiply"]),
    "known condition": (lambda x: np.where(np.ones(7, bool), x, 0.0), []),
    "equal arms": (lambda x: np.where(x > 0, -x, -x), ["negative"]),
    "equal numbers": (lambda x: np.where(x > 0, 2.0, np.full(7, 2.0)), []),
    "zeros of two signs": (lambda x: np.where(x > 0, 0.0, -0.0), ["greater", "where"]),
    "one condition twice": (lambda x: np.where(x > 0, np.where(x > 0, x, 1.0), 2.0), ["greater", "where"]),
    "turned condition": (lambda x: np.where(~(x > 0), x, 1.0), ["greater", "where"]),
    "truth": (lambda x: np.logical_and(x > 0, True), ["greater"]),
    "no truth": (lambda x: np.logical_and(x > 0, False), []),
    "twice not": (lambda x: np.logical_not(np.logical_not(x > 0)), ["greater"]),
}


@pytest.mark.parametrize("name", SAME)
def test_algebra_keeps_every_bit(name):
    f, expected = SAME[name]
    rules = SHARING | passes.FOLDING | passes.OPERANDS | passes.ALGEBRA
    assert passed(lambda p: rules(rules(p)), f, ODD) == expected


def test_cubes_are_products_to_an_ulp_and_a_half():
    x = np.random.default_rng(0).uniform(-3, 3, 10_000)
    simple = simplify(fg.make_graph(lambda x: bind("power", x, 3))(x))
    assert rows(simple) == ["square", "multiply"]
    exact = x.astype(np.longdouble) ** 3
    assert np.max(np.abs((simple.run([x])[0] - exact) / np.spacing(np.abs(exact).astype(float)))) <= 1.5


def test_complementary_choices_are_one():
    def f(x):
        return np.where(x > 0, np.sin(x), 0) + np.where(x > 0, 0, np.cos(x))

    assert passed(SHARING | passes.ALGEBRA, f, V) == ["greater", "sin", "cos", "where"]


def test_zero_wins_where_a_rule_says_so():
    f = lambda x: [bind("scale", np.zeros(7), x), bind("multiply_no_nan", x, 0.0)]
    assert passed(passes.ALGEBRA, f, ODD) == []
    f = lambda x: [bind("scale", np.full(7, 2.0), x), bind("scale", x, np.full(7, np.inf))]
    assert passed(passes.ALGEBRA, f, ODD) == ["multiply", "scale"]


def test_integers_multiplied_by_zero_are_zero():
    assert passed(passes.ALGEBRA, lambda n: n * 0, np.arange(3)) == []


# ---- views ------------------------------------------------------------------------------------------

A3 = np.arange(24.0).reshape(2, 3, 4)
VIEWS = {
    "own shape": (lambda x: np.reshape(x, (2, 3, 4)), []),
    "two reshapes": (lambda x: np.reshape(np.reshape(x, (6, 4)), (24,)), ["reshape"]),
    "there and back": (lambda x: np.reshape(np.reshape(x, (6, 4)), (2, 3, 4)), []),
    "two transposes": (lambda x: np.transpose(np.transpose(x, (1, 2, 0)), (2, 0, 1)), []),
    "turned twice": (lambda x: np.transpose(np.transpose(x, (1, 2, 0)), (1, 2, 0)), ["transpose"]),
    "transpose of ones": (lambda x: np.transpose(x[:, :1], (1, 0, 2)), ["slice", "reshape"]),
    "two broadcasts": (
        lambda x: np.broadcast_to(np.broadcast_to(x, (5, 2, 3, 4)), (6, 5, 2, 3, 4)),
        ["broadcast_to"],
    ),
    "transposed broadcast": (
        lambda x: np.transpose(np.broadcast_to(x[0, 0], (3, 4))),
        ["slice", "reshape", "broadcast_to"],
    ),
    "widened and narrowed": (lambda x: x.astype(np.longdouble).astype(np.float64), []),
    "narrowed and widened": (lambda x: x.astype(np.float32).astype(np.float64), ["convert", "convert"]),
    "all": (lambda x: x[:, 0:3, ...], []),
    "new axis": (lambda x: x[:, None], ["reshape"]),
    "slice of slice": (lambda x: x[:, 1:, ::2][1, ::-1][:, 1], ["slice"]),
    "reversed twice": (lambda x: x[::-1][::-1], []),
    "slice of broadcast": (lambda x: np.broadcast_to(x, (5, 2, 3, 4))[3, 1], ["slice"]),
    "slice of concatenate": (lambda x: np.concatenate([x, -x], 1)[:, 3:5], ["negative", "slice"]),
    "slice across pieces": (
        lambda x: np.concatenate([x, -x], 1)[:, 2:5],
        ["negative", "concatenate", "slice"],
    ),
    "slice of stack": (lambda x: bind("stack", x, -x)[1, 0], ["negative", "slice"]),
    "empty slice": (lambda x: x[2:][::-1], ["slice"]),
    "even places": (lambda x: x[np.array([1, 0])], ["slice"]),
    "odd places": (lambda x: x[:, np.array([0, 2, 1])], ["gather"]),
    "same places": (lambda x: x[np.array([1, 1])], ["gather"]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_views(name):
    f, expected = VIEWS[name]
    assert passed(passes.SHAPES, f, A3) == expected


def slice_backward(x: Any, index: Any, shape: tuple[int, ...] = (4,)) -> Any:
    return bind("slice_backward", x, shape=shape, index=index)


def test_slices_of_what_was_written():
    two = (slice(1, 3),)
    assert passed(passes.SHAPES, lambda x: slice_backward(x, two)[1:3], V[:2]) == []
    assert passed(passes.SHAPES, lambda x: slice_backward(x, two)[2], V[:2]) == ["slice"]
    assert passed(passes.SHAPES, lambda x: slice_backward(x, two)[3:], V[:2]) == []
    assert passed(passes.SHAPES, lambda x: slice_backward(x, two)[2:], V[:2]) == ["slice_backward", "slice"]
    assert passed(passes.SHAPES, lambda x: slice_backward(x, (slice(None, None, -1),), (3,)), V) == ["slice"]
    assert passed(
        passes.SHAPES, lambda x: slice_backward(slice_backward(x, (1,), (2,)), two, (9,)), V[0]
    ) == ["slice_backward"]


def test_nested_joins_are_one():
    f = lambda x: np.concatenate([np.concatenate([np.concatenate([x, -x]), x]), x[:0]])
    assert passed(lambda p: passes.SHAPES(passes.SHAPES(p)), f, V) == ["negative", "concatenate"]


def test_a_stack_taken_apart_is_what_was_stacked():
    f = lambda x: bind("unstack", bind("stack", x, x * 2), axis=0)
    assert passed(passes.SHAPES, lambda x: list(f(x)), V) == ["multiply"]
    f = lambda x: bind("stack", *bind("unstack", x, axis=0))
    assert passed(passes.SHAPES, f, X) == []


def test_parts_of_an_array_are_joined():
    f = lambda x: (
        slice_backward(x[0], (3,))
        + slice_backward(x[1], (1,))
        + slice_backward(x[:1], (slice(0, 1),))
        + slice_backward(x[2], (2,))
    )
    left = passed(passes.ASSEMBLY | passes.SHAPES, f, V)
    assert left.count("concatenate") == 1
    assert not {"add", "slice_backward"} & set(left)


def test_parts_at_one_place_are_added():
    f = lambda x: slice_backward(x[0], (0,)) + slice_backward(x[1], (0,)) + slice_backward(x[2], (3,))
    left = passed(passes.ASSEMBLY | passes.SHAPES, f, V)
    assert left.count("add") == 1


def test_overlapping_parts_stay():
    f = lambda x: slice_backward(x[:2], (slice(0, 2),)) + slice_backward(x[1:], (slice(1, 3),))
    assert passed(passes.ASSEMBLY, f, V) == ["slice", "slice_backward", "slice", "slice_backward", "add"]


def test_assignments_in_a_loop_are_one_array():
    def f(x):
        y = fnp.zeros(3)
        y[0] = x[0]
        for i in range(1, 3):
            y[i] = y[i - 1] * x[i]
        return y

    assert "update" not in rows(simplify(fg.make_graph(f)(V)))
    program = fg.make_graph(fg.grad(lambda x: f(x).sum()))(V)
    simple = simplify(program)
    assert not {"update", "slice_backward"} & set(rows(simple))
    np.testing.assert_allclose(simple.run([V])[0], plain(fg.grad(lambda x: f(x).sum())(V)), rtol=1e-14)


# ---- sums and contractions --------------------------------------------------------------------------


REDUCTIONS = {
    "sum of one row": (lambda x: np.sum(x[:1], 0), ["slice", "reshape"]),
    "sum of repeated": (lambda x: np.sum(np.broadcast_to(x, (5, 2, 3)), 0), ["multiply"]),
    "sum of both": (lambda x: np.sum(np.broadcast_to(x, (5, 2, 3)), (0, 1)), ["sum", "multiply"]),
    "mean of repeated": (lambda x: np.mean(np.broadcast_to(x, (5, 2, 3)), 0), []),
    "largest of repeated": (lambda x: np.max(np.broadcast_to(x, (5, 2, 3)), (0, 2)), ["max"]),
    "sum of sum": (lambda x: np.sum(np.sum(x, 0)), ["sum"]),
    "sum of reshaped": (lambda x: np.sum(np.reshape(x, (3, 2))), ["sum"]),
    "sum of transposed": (lambda x: np.sum(x.T, 0), ["sum"]),
    "sum with new axes": (lambda x: np.sum(x[:, None], 2)[:, 0], ["sum"]),
    "sum of written": (lambda x: np.sum(slice_backward(x, (slice(1, 3), 0), (5, 2, 3)), (0, 1)), ["sum"]),
    "rows of written": (lambda x: np.sum(slice_backward(x, (0,), (5, 2, 3)), 2), ["sum", "slice_backward"]),
    "sum of multiple": (lambda x: np.sum(x * 3.0, 0), ["sum", "multiply"]),
    "sum of negative": (lambda x: np.sum(-x, 0), ["sum", "negative"]),
    "sum of infinite multiple": (lambda x: np.sum(x * np.inf, 0), ["multiply", "sum"]),
    "contract with ones": (lambda x: x @ np.ones(3), ["sum"]),
    "contract with twos": (lambda x: np.full((4, 2), 2.0) @ x, ["sum", "multiply"]),
    "contract with repeated": (lambda x: np.broadcast_to(x[0], (4, 3)) @ x.T, ["slice", "contract"]),
    "transposed operand": (lambda x: x @ x.T, ["contract"]),
    "contract negative": (lambda x: -x @ x.T, ["contract", "negative"]),
    "contract multiple": (lambda x: x @ (x * 3.0).T, ["contract", "multiply"]),
    "matrix with a column": (lambda x: (x @ x[:1].T)[:, 0], ["slice", "contract"]),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_sums_and_contractions(name):
    f, expected = REDUCTIONS[name]
    rules = passes.SHAPES | passes.OPERANDS | passes.ALGEBRA | passes.REDUCTIONS
    made = passed(lambda p: eliminate(rules(eliminate(rules(p)))), f, X, exact=False)
    free = {"reshape", "broadcast_to", "transpose"}
    assert [r for r in made if r not in free] == [r for r in expected if r not in free]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def test_an_operand_is_weighted_where_that_is_smaller_than_what_is_contracted():
    a, b, w = normal(6, 7, 3), normal(3, 11), normal(7, 1, 11)
    f = lambda a, b, w: ((np.swapaxes(a, 0, 1) @ b) * w).sum(0)
    program = simplify(fg.make_graph(f)(a, b, w))
    assert "sum" not in rows(program)
    assert max(e.outs[0].aval.size for e in program.equations) == 7 * 3 * 11
    expected = np.einsum("idj,jk,dk->ik", a, b, w[:, 0])
    np.testing.assert_allclose(program.run([a, b, w])[0], expected, rtol=1e-12, atol=1e-13)
    wide = normal(7, 6, 11)  # as large as what it weights
    assert "sum" in rows(simplify(fg.make_graph(f)(a, b, wide)))


def test_what_one_operand_alone_has_is_summed_there():
    x, y = normal(5, 8, 4), normal(4, 9)
    f = lambda x, y, w: ((x @ y) * w).sum(axis=(1, 2))
    for w in (normal(9), normal(8, 1)):
        program = simplify(fg.make_graph(f)(x, y, w))
        assert max(e.outs[0].aval.size for e in program.equations) <= x.size
        np.testing.assert_allclose(program.run([x, y, w])[0], f(x, y, w), rtol=1e-12, atol=1e-13)


def test_what_is_taken_of_a_product_is_all_that_is_computed():
    a, b = normal(6, 3), normal(3, 50)
    for index in ((slice(None), slice(5, 1, -2)), (1, slice(None)), (slice(2, 4), 3), (-1, -1)):
        f = lambda a, b, index=index: (a @ b)[index]
        program = simplify(fg.make_graph(f)(a, b))
        assert max(e.outs[0].aval.size for e in program.equations) < 150
        np.testing.assert_allclose(program.run([a, b])[0], f(a, b), rtol=1e-13)
    twice = simplify(fg.make_graph(lambda a, b: ((y := a @ b)[0], y[1:]))(a, b))
    assert rows(twice).count("contract") == 1


# ---- all of them ------------------------------------------------------------------------------------


def test_lines_stay():
    program = fg.make_graph(lambda x: np.sum(-x * 3.0))(X)
    assert {e.line for e in simplify(program).equations} <= {e.line for e in program.equations}


def test_programs_of_control_flow_are_simple_and_what_is_differentiated_stays():
    def step(c, x):
        return c * 1.0 + x, np.exp(x) * 1.0

    def loop(xs):
        return fg.lax.scan(step, 0.0, xs)

    program = fg.make_graph(loop)(V)
    simple = simplify(program)
    (body,) = simple.equations[-1].params["code"].inner()
    assert rows(body) == ["add", "exp"]
    for y, expected in zip(simple.run([V]), program.run([V]), strict=True):
        np.testing.assert_array_equal(y, expected)
    back = simplify(fg.make_graph(fg.grad(lambda xs: loop(xs)[1].sum()))(V))
    (body,) = back.equations[-1].params["code"].inner()
    assert rows(body).count("multiply") == 2


def test_effects_inside_control_flow_are_effects(capfd):
    def f(x):
        fg.lax.cond(x[0] > 0, lambda: fg.debug.print("positive") or 0.0, lambda: 0.0)
        return x

    simple = simplify(fg.make_graph(f)(V))
    assert "lax.cond" in rows(simple)
    simple.run([V])
    assert "positive" in capfd.readouterr().out


def test_a_tensor_of_a_recording_around_stays():
    w = fg.tensor(3.0)
    gm = fg.GradManager().attach(w)
    with gm:
        program = simplify(fg.make_graph(lambda x: np.sum(x * w))(V))
        gm.backward(program(fg.tensor(V)))
    np.testing.assert_allclose(plain(w.grad), V.sum())


def test_work_is_proportional_to_the_program(monkeypatch):
    calls = []
    write = Rewriting._write
    monkeypatch.setattr(Rewriting, "_write", lambda self, e: calls.append(0) or write(self, e))

    def f(x):
        y = fnp.zeros(x.shape[0])
        y[0] = x[0]
        for i in range(1, x.shape[0]):
            y[i] = np.sin(y[i - 1]) * x[i]
        return np.sum(y**2)

    counts = []
    for n in (20, 80):
        calls.clear()
        simplify(fg.make_graph(fg.grad(f))(np.ones(n)))
        counts.append(len(calls))
    assert counts[1] < 4.5 * counts[0]


def test_constants_that_rules_reshape_are_operands():
    def factor(a):
        for i in (6, 7):
            for j in range(i):
                a[i, j] -= np.dot(a[i, :j], a[j, :j])
                a[i, j] /= a[j, j]
            if i == 6:
                a[6, 6] -= np.dot(a[6, :6], a[6, :6])
                a[6, 6] = np.sqrt(a[6, 6])
        return np.sum(a)

    a = np.eye(8) * 8 + 1.0
    eager = fg.grad(factor)(a)
    np.testing.assert_allclose(fg.jit(fg.grad(factor))(a), eager, 1e-12)
    steps = [(i, j) for i in (6, 7) for j in range(i)] + [(6, 6), (0, 7)]
    for i, j in steps:
        step = np.zeros_like(a)
        step[i, j] = 1e-5
        slope = (plain(factor(fg.tensor(a + step))) - plain(factor(fg.tensor(a - step)))) / 2e-5
        np.testing.assert_allclose(eager[i, j], slope, 1e-6)
