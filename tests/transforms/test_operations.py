"""Operations with a rule of the user's own for each transformation, compared with formulas."""

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.aval import Aval
from fgrad.extend import operation
from fgrad.transforms.operations import Operation

X = np.array([0.5, -1.0, 2.0])


def pushed_cube(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube(x), 3 * x * x * t


def pushed_product(primals, tangents):
    (a, x), (ta, tx) = primals, tangents
    parts = [] if ta is None else [product(ta, x)]
    parts += [] if tx is None else [product(a, tx)]
    return product(a, x), sum(parts[1:], parts[0])


def transposed_product(ct, a, x):
    return (product(ct, x), None) if isinstance(a, Aval) else (None, product(a, ct))


def pushed_pair(primals, tangents):
    (x,), (t,) = primals, tangents
    return pair(x), (None, 2 * t)


cube = operation("cube", run=lambda x: x**3, shape=lambda x: x, jvp=pushed_cube)
product = operation(
    "product", run=lambda a, x: a * x, shape=lambda a, x: x, jvp=pushed_product, transpose=transposed_product
)
pair = operation(
    "pair", run=lambda x: (np.sign(x), 2 * x), shape=lambda x: (x, x), jvp=pushed_pair, many=True
)
anywhere = operation(
    "anywhere",
    run=lambda x: (x != 0).any(),
    shape=lambda x: np.empty((), bool),
    batch=lambda mapped, x: (anywhere(x), False),
)


def close(x, y):
    np.testing.assert_allclose(np.asarray(x), y, rtol=1e-12)


def total(x):
    return cube(x).sum()


@pytest.mark.parametrize("compiled", [False, True])
def test_each_rule_serves_its_transformation(compiled):
    jit = fg.jit if compiled else lambda f: f
    close(jit(cube)(X), X**3)
    close(jit(fg.grad(total))(X), 3 * X**2)
    close(jit(lambda x: fg.jvp(cube, (x,), (2 * x,))[1])(X), 6 * X**3)
    close(jit(fg.hessian(total))(X), np.diag(6 * X))
    close(jit(fg.vmap(fg.grad(cube)))(X), 3 * X**2)
    close(fg.grad(jit(total))(X), 3 * X**2)


@pytest.mark.parametrize("compiled", [False, True])
def test_operations_on_tangents_are_transposed(compiled):
    jit = fg.jit if compiled else lambda f: f
    square = lambda a, x: (product(a, x) ** 2).sum()
    close(jit(fg.grad(square, (0, 1)))(X, X + 1), [2 * X * (X + 1) ** 2, 2 * X**2 * (X + 1)])
    close(jit(fg.hessian(square))(X, X + 1), np.diag(2 * (X + 1) ** 2))
    close(fg.linear_transpose(lambda t: product(X, t), X)(X)[0], X**2)
    close(fg.jvp(jit(product), (X, X), (X, 2 * X))[1], 3 * X**2)
    close(fg.hessian(jit(square))(X, X + 1), np.diag(2 * (X + 1) ** 2))


def test_results_may_be_several_and_one_of_them_flat():
    close(pair(X), (np.sign(X), 2 * X))
    close(fg.grad(lambda x: (pair(x)[0] + pair(x)[1]).sum())(X), [2, 2, 2])
    close(fg.jvp(lambda x: pair(x)[1], (X,), (X,))[1], 2 * X)
    close(fg.grad(lambda x: pair(x)[0].sum())(X), [0, 0, 0])


def test_a_result_may_be_the_same_for_all_examples():
    assert fg.vmap(lambda x: anywhere(x > 1), out_axes=None)(X)
    close(fg.vmap(lambda x: fg.numpy.where(anywhere(x > 9), x, 0))(X), [0, 0, 0])


def test_programs_name_operations():
    program = fg.make_graph(lambda x: cube(x) * 2)(X)
    assert [e.name for e in program.equations] == [cube.primitive, "multiply"]
    close(program(X), 2 * X**3)
    close(fg.grad(lambda x: program(x).sum())(X), 6 * X**2)
    two = operation("cube", run=lambda x: x)
    assert two.primitive == f"{__name__}.cube@2"


def test_shapes_without_a_rule_are_found_by_running():
    halves = operation("halves", run=lambda x: x[::2])
    assert fg.eval_shape(halves, X).shape == (2,)
    close(fg.vmap(halves)(np.stack([X, X])), np.stack([X, X])[:, ::2])


def test_parameters_arrive_by_name():
    shifted = operation("shifted", run=lambda x, *, name, by: x + by * len(name))
    close(shifted(X, name="ab", by=2), X + 4)
    close(fg.vmap(lambda x: shifted(x, name="ab", by=2))(X), X + 4)


def test_missing_and_wrong_rules_are_named():
    with pytest.raises(NotImplementedError, match="stuck has no rule `jvp`"):
        fg.grad(operation("stuck", run=lambda x: x))(1.0)
    with pytest.raises(TypeError, match=r"bent applies \S*\.cube to tangents"):
        fg.grad(operation("bent", run=lambda x: x, jvp=lambda p, t: (p[0], cube(t[0]))))(1.0)
    with pytest.raises(TypeError, match="cube"):
        fg.linear_transpose(cube, X)
    wrong = operation("wrong", run=lambda x: x, transpose=lambda ct, x: (ct[:1],))
    with pytest.raises(ValueError, match=r"`transpose` of wrong returned float64\[1\]"):
        fg.linear_transpose(wrong, X)(X)
    with pytest.raises(TypeError, match="is an identifier"):
        operation("a b", run=np.sin)
    with pytest.raises(TypeError, match="jvp of f must be a function"):
        operation("f", run=np.sin, jvp=3)


# ---- operations whose `run` compiled programs hold


def pushed_root(primals, tangents):
    (a,), (t,) = primals, tangents
    y = root(a)
    return y, t / (2 * y)


def by_newton(a):
    """Return the square root by steps, of a number that nobody knows while the program is made."""
    going = lambda y: abs(y * y - a) > 1e-12 * a
    return fg.lax.while_loop(lambda y: going(y).any(), lambda y: np.where(going(y), (y + a / y) / 2, y), a)


root = Operation("root", run=by_newton, shape=lambda a: a, jvp=pushed_root, traced=True)
called = operation("called", run=lambda x: x + 1.0, shape=lambda x: x)
A = np.array([2.0, 9.0, 0.25])
RUNS = {
    "plain": lambda f: f,
    "compiled": fg.jit,
    "mapped": fg.vmap,
    "a compiled map": lambda f: fg.jit(fg.vmap(f)),
    "in a loop": lambda f: fg.jit(lambda a: fg.lax.fori_loop(0, 1, lambda i, c: f(c), a)),
    "in a branch": lambda f: fg.jit(lambda a: fg.lax.cond(a.sum() > 0, f, lambda a: a, a)),
}


@pytest.mark.parametrize("run", RUNS)
def test_what_traced_operations_do_is_part_of_programs(run):
    close(RUNS[run](root)(A), np.sqrt(A))
    slopes = RUNS[run](lambda a: fg.grad(lambda a: root(a).sum())(a))(A)
    close(slopes, 0.5 / np.sqrt(A))
    program = fg.jit(RUNS[run](root))
    assert not program.lower(A).cost().python
    assert fg.jit(RUNS[run](called)).lower(A).cost().python


def test_traced_operations_have_parameters_and_several_results():
    both = Operation(
        "both",
        run=lambda x, y, *, by: (x * by, y - x),
        shape=lambda x, y, *, by: (x, y),
        many=True,
        traced=True,
    )
    f = fg.jit(lambda x: both(both(x, X, by=3.0)[0], X, by=0.5))
    assert not f.lower(X).cost().python
    close(f(X)[0], 1.5 * X)
    close(f(X)[1], -2 * X)
    with pytest.raises(ValueError, match=r"`run` of both returned an array of shape \(3,\), where .* \(\)"):
        fg.jit(lambda x: both(x, 2.0, by=1.0)[1])(X)
    close(f(X * 1j)[0], 1.5j * X)  # which is called
    close(fg.jit(lambda x: both(x, x, by=2.0)[0])(np.zeros((0, 2))), np.zeros((0, 2)))
