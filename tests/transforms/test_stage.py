"""make_graph and eval_shape: a function run once on shapes and dtypes, and the program it leaves."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from tests.helpers import close, exactly, is_numpy

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.primitive import PRIMITIVES

X, Y = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), np.array([1.0, 2.0, 3.0])
A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def filled(x):
    y = fnp.zeros(3)
    for i in range(3):
        y[i] = x[0, i] ** 2
    y *= 2
    return y


PROGRAMS = {
    "identity": lambda x: x,
    "constant": lambda x: np.ones(2),
    "sin": np.sin,
    "arithmetic": lambda x: (2 * x - 1) / (x + 3) ** 2,
    "captured array": lambda x: x * Y,
    "reduction": lambda x: np.sum(x, axis=-1) + x.max() - np.mean(x),
    "linear": lambda x: np.concatenate([x.T, A]).reshape(-1)[::2],
    "contraction": lambda x: np.einsum("ij,jk->ik", x, A) @ (x @ Y),
    "where": lambda x: np.where(x > 0.3, np.log(x), -x),
    "indexing": lambda x: x[:, [2, 0]] * x[1, -1],
    "in place": filled,
    "loop": lambda x: sum(np.sin(x * i) for i in range(3)),
    "pytree": lambda x: {"a": x + 1, "b": (x.sum(), None, "static", 7)},
    "grad": fg.grad(lambda x: np.sum(np.sin(x) * x)),
    "jvp": lambda x: fg.jvp(np.sin, (x,), (2 * x,))[1],
    "hessian": fg.hessian(lambda x: np.sum(x**3)),
    "vmap": fg.vmap(lambda x: np.sin(x) @ Y),
    "vmap of grad": fg.vmap(fg.grad(lambda x: np.sum(x**2) ** 2)),
}


def compare(actual, expected):
    assert fg.tree.structure(actual) == fg.tree.structure(expected)
    for a, e in zip(fg.tree.leaves(actual), fg.tree.leaves(expected), strict=True):
        if isinstance(e, str | None):
            assert a == e
        else:
            close(a, e)


# ---- programs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_its_function_computes(name):
    f = PROGRAMS[name]
    program = fg.make_graph(f)(X)
    for x in (X, X + 0.25):
        compare(program(x), f(x))
    compare(program(fg.tensor(X)), f(X))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3)])
def test_shapes_and_dtypes(shape, dtype):
    x = np.full(shape, 0.5, dtype)
    f = lambda x: (np.sin(x) * 2, np.sum(x), x > 0 if dtype != "complex128" else x)
    for got, expected in zip(fg.make_graph(f)(x)(x), f(x), strict=True):
        close(got, expected)
        assert got.dtype == expected.dtype


def test_several_arguments_keywords_and_numpy_results():
    f = lambda p, y=1.0, *, scale=1.0: scale * p["w"] * y
    program = fg.make_graph(f)({"w": X}, Y)
    close(program({"w": X}, Y), X * Y)
    assert is_numpy(program({"w": X}, Y))
    assert type(program({"w": fg.tensor(X)}, Y)) is fg.Tensor


def test_a_program_is_differentiable_and_mappable():
    program = fg.make_graph(lambda x: np.sum(np.sin(x) * x))(Y)
    close(fg.grad(program)(Y), np.cos(Y) * Y + np.sin(Y))
    close(fg.hessian(program)(Y), np.diag(2 * np.cos(Y) - Y * np.sin(Y)))
    close(fg.vmap(program)(np.stack([Y, 2 * Y])), [program(Y), program(2 * Y)])


def test_staging_runs_the_function_once_and_calls_never():
    calls = []
    program = fg.make_graph(lambda x: calls.append(1) or np.sin(x))(Y)
    program(Y)
    program(Y)
    assert calls == [1]


def test_captured_arrays_are_those_of_staging_time():
    w = np.ones(3)
    program = fg.make_graph(lambda x: w * x)(Y)
    w[:] = 5.0
    close(program(Y), Y)


def test_captured_tensors_keep_their_gradients():
    def loss(w):
        program = fg.make_graph(lambda x: (np.sum(x * w), w))(Y)
        assert "<float64[3]>" in str(program)
        total, same = program(2 * Y)
        return total * np.sum(same)

    close(fg.grad(loss)(Y), 2 * Y * np.sum(Y) + 2 * np.sum(Y * Y))
    close(fg.hessian(loss)(Y), 2 * (Y[:, None] + Y))


def test_the_callers_arrays_stay():
    def f(x):
        x *= 2
        x[0] = 7.0
        return x

    y = Y.copy()
    program = fg.make_graph(f)(y)
    close(program(y), [7.0, 4.0, 6.0])
    program(y)[:] = 0.0
    exactly(y, Y)
    exactly(fg.make_graph(lambda x: x)(y)(y) * 0, Y * 0)
    fg.make_graph(lambda x: x)(y)(y)[:] = 9.0
    exactly(y, Y)


# ---- text ---------------------------------------------------------------------------------------


def test_a_program_prints_as_typed_ssa():
    program = fg.make_graph(lambda x, y: np.sum(np.sin(x) * y, axis=1))(X.astype("f4"), Y)
    text = str(program)
    for name in ("sin", "multiply", "sum"):
        assert re.search(rf"\b{name}\b", text), text
    assert re.search(r"(float32|f32|f4)\[2, ?3\]", text), text
    assert re.search(r"(float64|f64|f8)\[3\]", text), text
    assert re.search(r"(float64|f64|f8)\[2\]", text), text
    names = re.findall(r"^\s*(%?\w+)[^=\n]*=", text, flags=re.MULTILINE)
    assert len(names) == len(set(names)) >= 3, text  # each name is assigned once
    assert text.index("sin") < text.index("multiply") < text.index("sum")


def test_constants_and_parameters_are_shown():
    text = str(fg.make_graph(lambda x: np.sum(x * 2.5, axis=1, keepdims=True))(X))
    assert "2.5" in text
    assert re.search(r"ax[ei]s\W+\(?1", text), text


def test_derivative_programs_are_plain_programs():
    text = str(fg.make_graph(fg.grad(lambda x: np.sum(np.sin(x))))(Y))
    assert "cos" in text
    assert not re.search(r"\b(vjp|grad|tape|vmap)\b", text), text


def test_pictures():
    program = fg.make_graph(lambda x: np.sum(np.sin(x) * 2))(Y)
    dot = program.to_dot()
    assert dot.lstrip().startswith("digraph")
    assert "sin" in dot
    assert "->" in dot
    html = program._repr_html_()
    assert "sin" in html
    assert re.search(r"<\w+", html)


# ---- what staging refuses -------------------------------------------------------------------------


def branches(x):
    if x[0] > 0:
        return x
    return -x


def loops(x):
    while np.sum(x) < 10.0:
        x = 2 * x
    return x


def chains(x):
    return 0 < x[0] < 1


@pytest.mark.parametrize("f", [branches, loops, chains])
@pytest.mark.parametrize("nest", [lambda f: f, fg.jacrev, fg.vmap], ids=["alone", "jacrev", "vmap"])
def test_bool_names_the_users_line_and_what_to_write(f, nest):
    x = np.ones((2, 3)) if nest is fg.vmap else Y
    where = rf"test_stage\.py.*\b{f.__code__.co_firstlineno + 1}\b"
    with pytest.raises(TypeError, match=rf"(?s){where}.*(cond|where|static_argnums)"):
        fg.make_graph(nest(f))(x)


@pytest.mark.parametrize(
    "convert",
    [
        float,
        int,
        complex,
        np.asarray,
        lambda x: x.item(),
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        range,
    ],
)
def test_values_do_not_exist_while_staging(convert):
    with pytest.raises(TypeError, match=r"test_stage\.py"):
        fg.make_graph(lambda x: convert(np.sum(x)))(Y)


def test_shapes_do_exist_while_staging():
    def f(x):
        total = 0.0
        for i in range(len(x)):
            total = total + x[i] * x.shape[1] * x.ndim * x.size
        return total if x.dtype == np.float64 else x

    close(fg.make_graph(f)(X)(X), f(X))


def test_repr_while_staging_shows_the_type():
    seen = []
    fg.make_graph(lambda x: seen.append(f"{x} {x!r}") or x)(X)
    assert re.search(r"float64\[2, ?3\]", seen[0])


def test_a_tensor_that_escapes():
    kept = []
    fg.make_graph(lambda x: kept.append(np.sin(x)) or x)(Y)
    for use in (np.cos, lambda x: x * 2, lambda x: x[0], fg.grad(np.sum)):
        with pytest.raises(fg.EscapedTensorError, match=r"test_stage\.py"):
            use(kept[0])


# ---- eval_shape ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_eval_shape_tells_what_the_function_would_return(name):
    f = PROGRAMS[name]
    actual, expected = fg.eval_shape(f, X), f(X)
    for a, e in zip(fg.tree.leaves(actual), fg.tree.leaves(expected), strict=True):
        if isinstance(e, np.ndarray | np.generic | fg.Tensor):
            assert a.shape == e.shape
            assert a.dtype == e.dtype


def test_eval_shape_computes_nothing():
    n = 10**9
    x = np.broadcast_to(np.float32(1.0), (n, n))  # four exabytes, were it copied
    out = fg.eval_shape(lambda x: np.sin(x) @ x.T, x)
    assert out.shape == (n, n)
    assert out.dtype == np.float32
    out = fg.eval_shape(fg.grad(lambda x: np.sum(np.sin(x))), x)
    assert out.shape == (n, n)
    spec = fg.eval_shape(lambda x: x + 1, Y)
    assert fg.eval_shape(np.sum, spec).shape == ()  # what eval_shape returns can stand for an argument


def test_eval_shape_raises_what_the_function_would():
    with pytest.raises(ValueError, match=r"broadcast|shape"):
        fg.eval_shape(lambda x: x + np.ones(2), Y)
    with pytest.raises(ValueError, match=r"shape|dimension|match"):
        fg.eval_shape(lambda x: x @ A.T, Y)


def test_a_program_takes_numbers_of_python():
    program = fg.make_graph(lambda x: np.reshape(x, (1,)) * 2)(1.0)
    np.testing.assert_array_equal(program(0.5), [1.0])
    np.testing.assert_array_equal(program(np.float64(0.5)), [1.0])


# ---- rules of the user, when a program is differentiated -------------------------------------------


@fg.custom_vjp
def through(x):
    return np.round(x)


@fg.custom_vjp
def held(x):
    return x


@fg.custom_jvp
def sevenfold(x):
    return x * through(x)


class Split(fg.Function):
    def forward(self, x):
        return x, x * x

    def backward(self, a, b):
        return 10.0 * (0.0 if a is None else a) + 100.0 * (0.0 if b is None else b)


through.defvjp(lambda x: (np.round(x), None), lambda _, ct: (ct,))
held.defvjp(lambda x: (x, None), lambda _, ct: (0.5 * ct,))
sevenfold.defjvps(lambda t, out, x: 7.0 * t)

RULED = {  # a function and its derivative by the rules, which is not that of its equations
    "custom_vjp": (lambda x: 3.0 * through(x) * x, lambda x: 3.0 * (x + np.round(x))),
    "an identity": (lambda x: 3.0 * held(2.0 * x), lambda x: 3.0 + 0.0 * x),
    "an identity of an argument": (lambda x: held(x) * held(held(x)), lambda x: x * 0.75),
    "custom_jvp around custom_vjp": (sevenfold, lambda x: 7.0 + 0.0 * x),
    "Function": (lambda x: sum(Split()(x)), lambda x: 110.0 + 0.0 * x),
}


@pytest.mark.parametrize("name", RULED)
def test_a_program_keeps_the_rules_of_the_user(name):
    f, slope = RULED[name]
    x = np.array([1.2, -2.4])
    program, mapped = fg.make_graph(f)(1.0), fg.make_graph(fg.vmap(f))(x)
    twice = fg.make_graph(program)(1.0)
    for v in x:
        close(program(v), f(v))
        close(fg.grad(f)(v), slope(v))
        close(fg.grad(program)(v), slope(v))
        close(fg.grad(twice)(v), slope(v))
        close(fg.jvp(program, (v,), (2.0,))[1], 2.0 * slope(v))
        close(fg.make_graph(fg.grad(program))(1.0)(v), slope(v))
    close(fg.vmap(fg.grad(program))(x), slope(x))
    close(fg.grad(lambda x: np.sum(fg.vmap(program)(x)))(x), slope(x))
    close(fg.jacrev(mapped)(x), np.diag(slope(x)))
    square = fg.make_graph(fg.grad(lambda x: f(x) ** 2))(1.0)
    close(fg.grad(square)(1.2), fg.grad(fg.grad(lambda x: f(x) ** 2))(1.2))
    t = fg.tensor(1.2)
    with fg.GradManager().attach(t) as gm:
        gm.backward(program(t))
    close(t.grad, slope(1.2))


def test_a_mapped_rule_runs_forward_once():
    calls = []
    rule = fg.custom_vjp(lambda x: calls.append("primal") or 2.0 * x)
    rule.defvjp(lambda x: (calls.append("fwd") or 2.0 * x, None), lambda _, ct: (2.0 * ct,))
    close(fg.vmap(fg.grad(rule))(np.ones(2)), [2.0, 2.0])
    assert calls == ["fwd"]


def test_a_choice_has_the_dtype_of_what_is_chosen():
    x = np.ones(2, np.float32)
    (e,) = make(lambda c, x: np.where(c, x, 0), np.array([0.0, 1.0]), x).equations
    assert e.outs[0].aval.dtype == np.float32


def test_a_constant_that_is_written_to_gives_an_aval():
    def f(x):
        y = fnp.zeros(3)
        y[0] = x
        return y

    (e,) = make(f, 1.0).equations
    assert repr(e.outs[0]).endswith(":float64[3]")


def make(f, *args):
    return fg.make_graph(f)(*args)


# ---- inside of other transformations -------------------------------------------------------------


AROUND = {
    "jit": (fg.jit, np.array([1.0, 2.0])),
    "vmap": (fg.vmap, np.array([[1.0, 2.0], [3.0, 4.0]])),
    "grad": (fg.grad, np.array([1.0, 2.0])),
    "jit of vmap": (lambda f: fg.jit(fg.vmap(f)), np.array([[1.0, 2.0], [3.0, 4.0]])),
    "jit of grad": (lambda f: fg.jit(fg.grad(f)), np.array([1.0, 2.0])),
    "vmap of grad": (lambda f: fg.vmap(fg.grad(f)), np.array([[1.0, 2.0], [3.0, 4.0]])),
    "hessian": (fg.hessian, np.array([1.0, 2.0])),
}


@pytest.mark.parametrize("around", AROUND)
def test_a_staged_function_may_use_tensors_of_transformations_around(around):
    transform, x = AROUND[around]

    def staged(x):
        program = fg.make_graph(lambda y: np.sum(y * x**2) + np.sum(x) * y[0])(np.ones(2))
        return program(np.sin(x)) + program(np.ones(2))

    def plainly(x):
        g = lambda y: np.sum(y * x**2) + np.sum(x) * y[0]
        return g(np.sin(x)) + g(np.ones(2))

    close(transform(staged)(x), transform(plainly)(x))
    shape = lambda x: fg.eval_shape(lambda y: np.outer(y, x), np.ones(3)).shape[1]
    close(transform(lambda x: np.sum(x * shape(x)))(x), transform(lambda x: np.sum(x * 2))(x))
    dtype = lambda x: fg.eval_shape(lambda: x > 0).dtype
    close(transform(lambda x: np.sum(x) * dtype(x).itemsize)(x), transform(lambda x: np.sum(x))(x))


def test_a_program_that_outlives_what_it_uses_says_so():
    kept = []

    def f(x):
        kept.append(fg.make_graph(lambda y: y * x)(np.ones(2)))
        return x

    for transform, x in ((fg.jit, np.ones(2)), (fg.vmap, np.ones((3, 2)))):
        transform(f)(x)
        assert "multiply" in str(kept[-1])
        with pytest.raises(fg.EscapedTensorError, match="used outside"):
            kept[-1](np.ones(2))


def test_equal_steps_are_staged_without_looking_at_shapes_again(monkeypatch):
    """The rule of a primitive is asked once for operands that are alike, forwards and backwards."""
    asked = Counter()
    for name in ("sin", "multiply", "add"):
        rule = PRIMITIVES[name].shape

        def counting(*avals, name=name, rule=rule):
            asked[name] += 1
            return rule(*avals)

        monkeypatch.setattr(PRIMITIVES[name], "shape", counting)

    def f(x):
        for _ in range(50):
            x = x + 0.1 * np.sin(x)
        return x.sum()

    program = fg.make_graph(fg.grad(f))(np.ones(3))
    assert sum(e.name == "sin" for e in program.equations) == 50
    assert asked["sin"] == 1
    assert asked["multiply"] <= 4
    assert asked["add"] <= 4


def test_rules_for_shapes_are_asked_again_where_operands_differ():
    """Shapes, dtypes and the types of numbers tell operands apart."""
    a, b, i = np.ones(3, np.float32), np.ones((2, 1)), np.ones(3, np.int32)

    def f(a, b, i):
        return a + 1, a + a, a + b, b + a, i + 1, i + 1.0, i + True, b + 1j

    found = fg.make_graph(f)(a, b, i).outputs
    assert [(y.aval.shape, y.aval.dtype) for y in found] == [(y.shape, y.dtype) for y in f(a, b, i)]
