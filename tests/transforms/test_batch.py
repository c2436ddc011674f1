"""vmap: a function of one example, run on all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from tests.helpers import close, differences, exactly, is_numpy, layouts

import fgrad as fg
import fgrad.numpy as fnp

RNG = np.random.default_rng(0)
B, X, Y = 4, RNG.uniform(0.5, 1.5, (4, 2, 3)), RNG.uniform(0.5, 1.5, (4, 2, 3))
V, A = RNG.uniform(0.5, 1.5, (4, 3)), RNG.uniform(0.5, 1.5, (3, 2))

# functions of one example of shape (2, 3)
ONE = {
    "sin": np.sin,
    "arithmetic": lambda x: (2 * x - 1) / (x + 3) ** 2,
    "with a constant": lambda x: x * V[0] + np.arange(2)[:, None],
    "comparison": lambda x: np.where(x > 1, x, -x),
    "integers": lambda x: (x > 1).astype(int) * 3,
    "sum": np.sum,
    "sum of an axis": lambda x: x.sum(axis=0),
    "sum of the last axis": lambda x: x.sum(axis=-1, keepdims=True),
    "mean": lambda x: np.mean(x, axis=1),
    "var": lambda x: np.var(x, axis=0),
    "max": lambda x: np.max(x, axis=-2),
    "min": np.min,
    "prod": lambda x: np.prod(x, axis=1),
    "norm": lambda x: np.linalg.norm(x, axis=-1),
    "cumsum": lambda x: np.cumsum(x, axis=-1),
    "reshape": lambda x: x.reshape(3, 2) * 2,
    "ravel": lambda x: x.ravel(),
    "transpose": lambda x: x.T,
    "swapaxes": lambda x: np.swapaxes(x, -1, 0),
    "newaxis": lambda x: x[:, None, ..., None],
    "broadcast": lambda x: np.broadcast_to(x, (2, 2, 3)),
    "integer index": lambda x: x[1],
    "negative index": lambda x: x[-1, -2],
    "slice": lambda x: x[::-1, 1:],
    "array index": lambda x: x[np.array([1, 0, 1])],
    "array index of an axis": lambda x: x[:, [2, 0]],
    "store": lambda x: store(x, (0, slice(1, None)), 5.0),
    "accumulate": lambda x: store(x, 1, x[0] * 2),
    "concatenate": lambda x: np.concatenate([x, x[:1], np.ones((1, 3))]),
    "stack": lambda x: np.stack([x, np.zeros((2, 3))], axis=-1),
    "matrix vector": lambda x: x @ V[0],
    "vector matrix": lambda x: V[0] @ x.T,
    "matrix matrix": lambda x: x @ A,
    "gram": lambda x: x.T @ x,
    "dot": lambda x: np.dot(x[0], x[1]),
    "tensordot": lambda x: np.tensordot(x, A, axes=1),
    "einsum": lambda x: np.einsum("ij,ji->i", x, A),
    "einsum diagonal": lambda x: np.einsum("ii", x[:, :2]),
    "outer": lambda x: np.outer(x[0], x[1]),
    "constant": lambda x: np.ones(2),
    "empty": lambda x: x[:0],
}

# functions of two examples of shapes (2, 3) and (2, 3)
TWO = {
    "add": lambda x, y: x + y,
    "power": lambda x, y: x**y,
    "maximum": lambda x, y: np.maximum(x, y),
    "arctan2": lambda x, y: np.arctan2(x[0], y),
    "where": lambda x, y: np.where(x > y, x, y[0]),
    "matmul": lambda x, y: x @ y.T,
    "dot": lambda x, y: np.dot(x[0], y[1]),
    "einsum": lambda x, y: np.einsum("ij,kj->ki", x, y),
    "concatenate": lambda x, y: np.concatenate([x, y], axis=-1),
    "store": lambda x, y: store(x + 0 * y, 0, y[1]),
}


def store(x, index, value):
    x = x.copy()
    x[index] = value
    return x


def loop(f, *rows):
    """Return what vmap should: the results for each example, stacked."""
    return np.stack([f(*row) for row in zip(*rows, strict=True)])


# ---- operations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE)
def test_one_mapped_argument(name):
    f = ONE[name]
    close(fg.vmap(f)(X), loop(f, X))
    close(fg.vmap(f, in_axes=-1)(np.moveaxis(X, 0, -1)), loop(f, X))
    assert is_numpy(fg.vmap(f)(X))


@pytest.mark.parametrize("name", TWO)
def test_two_arguments_mapped_or_not(name):
    f = TWO[name]
    close(fg.vmap(f)(X, Y), loop(f, X, Y))
    close(fg.vmap(f, in_axes=(0, None))(X, Y[0]), np.stack([f(x, Y[0]) for x in X]))
    close(fg.vmap(f, in_axes=(None, 0))(X[0], Y), np.stack([f(X[0], y) for y in Y]))
    close(fg.vmap(f, in_axes=(2, 1))(np.moveaxis(X, 0, 2), np.moveaxis(Y, 0, 1)), loop(f, X, Y))


@pytest.mark.parametrize("name", [n for n in ONE if n not in ("integers", "constant", "empty")])
def test_gradients_inside_and_around(name):
    f = lambda x: np.sum(np.sin(ONE[name](x)))
    expected = np.stack([differences(f, x) for x in X])
    close(fg.vmap(fg.grad(f))(X), expected, rtol=1e-7)
    close(fg.grad(lambda x: np.sum(fg.vmap(f)(x)))(X), expected, rtol=1e-7)
    t = RNG.normal(size=X.shape)
    push = lambda x, t: fg.jvp(f, (x,), (t,))[1]
    close(fg.vmap(push)(X, t), np.sum(expected * t, axis=(1, 2)), rtol=1e-6)
    close(fg.jvp(fg.vmap(f), (X,), (t,))[1], np.sum(expected * t, axis=(1, 2)), rtol=1e-6)


@pytest.mark.parametrize("layout", layouts((4, 3)))
def test_any_memory_layout(layout):
    x = layouts((4, 3))[layout]
    close(fg.vmap(lambda x: np.cumsum(np.sin(x)))(x), np.cumsum(np.sin(x), axis=1))


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int64", "bool"])
def test_dtypes(dtype):
    x = (X * 3).astype(dtype)
    f = lambda x: (x * 2, x.sum(axis=0))
    for result, expected in zip(fg.vmap(f)(x), f(x[0]), strict=True):
        assert result.dtype == expected.dtype
    close(fg.vmap(f)(x)[0], x * 2)


def test_scalars_per_example():
    close(fg.vmap(lambda x: x**2)(np.arange(3.0)), [0.0, 1.0, 4.0])
    close(fg.vmap(lambda x, y: x @ y)(V, V), np.sum(V * V, axis=1))
    assert fg.vmap(np.sin)(np.zeros((0, 3))).shape == (0, 3)
    assert fg.vmap(np.sin)(np.zeros((3, 0))).shape == (3, 0)


# ---- axes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_axes", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("out_axes", [0, 1, 2, -1, -2, -3])
def test_in_axes_and_out_axes(in_axes, out_axes):
    result = fg.vmap(lambda x: np.sin(x) * 2, in_axes, out_axes)(X)
    close(result, np.moveaxis(2 * np.sin(X), in_axes, out_axes))


def test_in_axes_of_pytrees_are_prefixes():
    f = lambda p, x: p["w"] * x + p["deep"]["b"][0]
    p = {"w": V, "deep": {"b": [V.T]}}
    expected = V * V + V
    close(fg.vmap(f, in_axes=({"w": 0, "deep": 1}, 0))(p, V), expected)
    close(fg.vmap(f, in_axes=({"w": 0, "deep": {"b": [1]}}, 0))(p, V), expected)
    close(fg.vmap(f, in_axes=[{"w": 0, "deep": {"b": 1}}, 0])(p, V), expected)
    close(
        fg.vmap(f, in_axes=({"w": None, "deep": None}, 0))({"w": V[0], "deep": {"b": [V[1]]}}, V),
        V[0] * V + V[1],
    )
    close(fg.vmap(f, in_axes=(None, 0))({"w": V[0], "deep": {"b": [V[1]]}}, V), V[0] * V + V[1])
    close(fg.vmap(f)({"w": V, "deep": {"b": [V]}}, V), expected)


def test_out_axes_of_pytrees_are_prefixes():
    f = lambda x: {"a": x, "pair": (2 * x, x.sum(), "static", None)}
    out = fg.vmap(f, out_axes={"a": 1, "pair": 0})(V)
    close(out["a"], V.T)
    close(out["pair"][0], 2 * V)
    close(out["pair"][1], V.sum(axis=1))
    assert out["pair"][2:] == ("static", None)
    out = fg.vmap(lambda x: (x, np.ones(2)), out_axes=(-1, None))(V)
    close(out[0], V.T)
    close(out[1], np.ones(2))


def test_results_that_do_not_depend_on_the_example():
    exactly(fg.vmap(lambda x: np.ones(2))(V), np.ones((4, 2)))
    exactly(fg.vmap(lambda x: 3.0, out_axes=None)(V), np.array(3.0))
    exactly(fg.vmap(lambda x: 3.0)(V), np.full(4, 3.0))
    exactly(fg.vmap(lambda x: 2 * x, in_axes=None, axis_size=2)(np.ones(1)), np.full((2, 1), 2.0))


def test_axis_size_is_a_check_and_axis_name_a_label():
    close(fg.vmap(np.sin, axis_size=4, axis_name="batch")(V), np.sin(V))
    with pytest.raises(TypeError):
        fg.vmap(np.sin, axis_size=4.0)(V)


def test_keyword_arguments_are_mapped_over_their_first_axis_whatever_in_axes_says():
    f = lambda x, y=1.0, **more: x * y + more.get("z", 0.0)
    close(fg.vmap(f, in_axes=(1,))(V.T, y=V), V * V)
    close(fg.vmap(f, in_axes=(None,))(V[0], y=V, z=V), V[0] * V + V)
    close(fg.vmap(f)(V, z={"a": V}["a"]), V + V)
    with pytest.raises(ValueError, match="in_axes has 2 entries"):
        fg.vmap(f, in_axes=(0, None))(V, y=V)
    with pytest.raises(ValueError, match=r"argument x.*4.*kwargs\['y'\].*3"):
        fg.vmap(f)(V, y=V[:3])


def test_containers_of_users():
    class Pair(NamedTuple):
        left: object
        right: object

    @dataclass
    class Layer:
        weight: object
        bias: object

    pair = fg.vmap(lambda p: Pair(p.left + p.right, p.left))(Pair(V, 2 * V))
    assert type(pair) is Pair
    close(pair.left, 3 * V)
    layer = fg.vmap(lambda p: Layer(p.weight * p.bias, p.bias))(Layer(V, V))
    assert type(layer) is Layer
    close(layer.weight, V * V)


def test_static_leaves_and_keyword_arguments():
    close(
        fg.vmap(lambda x, name, extra: getattr(np, name)(x), in_axes=(0, None, None))(V, "cos", None),
        np.cos(V),
    )
    f = lambda x, y=1.0: x * y
    close(fg.vmap(f)(x=V, y=V), V * V)
    close(fg.vmap(f)(V, y=V), V * V)
    close(fg.vmap(f)(V), V)
    close(fg.vmap(f, in_axes=(0, None))(V, V[0]), V * V[0])


# ---- kinds, nesting, in-place ----------------------------------------------------------------------


def test_numpy_in_numpy_out_tensors_in_tensors_out():
    assert is_numpy(fg.vmap(np.sum)(V))
    assert type(fg.vmap(np.sum)(fg.tensor(V))) is fg.Tensor
    assert type(fg.vmap(lambda x, y: x * y)(V, fg.tensor(V))) is fg.Tensor
    seen = []
    fg.vmap(lambda x, y: seen.append((x, y)) or x, in_axes=(0, None))(V, V)
    assert len(seen) == 1
    assert type(seen[0][0]) is fg.Tensor
    assert seen[0][0].shape == (3,)
    assert seen[0][1] is V


def test_nested():
    x = np.arange(1.0, 25.0).reshape(2, 3, 4)
    close(fg.vmap(fg.vmap(lambda x: np.sum(np.sin(x))))(x), np.sin(x).sum(axis=-1))
    close(fg.vmap(fg.vmap(fg.vmap(np.sqrt, 0), 1, 1), -1, -1)(x), np.sqrt(x))
    outer = fg.vmap(fg.vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))
    close(outer(V[0], V[1]), np.outer(V[0], V[1]))
    pairs = fg.vmap(lambda a: fg.vmap(lambda b: np.sum((a - b) ** 2))(V))(V)
    close(pairs, np.sum((V[:, None] - V[None]) ** 2, axis=-1))
    matmul = fg.vmap(fg.vmap(np.dot, in_axes=(None, 1)), in_axes=(0, None))
    close(matmul(X[0], A), X[0] @ A)


def test_per_example_gradients():
    w, y = np.array([0.5, -1.0, 2.0]), np.array([0.1, 0.2, 0.3, 0.4])
    loss = lambda w, x, y: (x @ w - y) ** 2
    per_example = fg.vmap(fg.grad(loss), in_axes=(None, 0, 0))(w, V, y)
    close(per_example, 2 * (V @ w - y)[:, None] * V)
    total = lambda w: np.sum(fg.vmap(loss, in_axes=(None, 0, 0))(w, V, y))
    close(fg.grad(total)(w), per_example.sum(axis=0))
    close(fg.hessian(total)(w), 2 * V.T @ V)
    close(fg.vmap(fg.hessian(loss), in_axes=(None, 0, 0))(w, V, y), 2 * V[:, :, None] * V[:, None, :])
    values, grads = fg.vmap(fg.value_and_grad(loss), in_axes=(None, 0, 0))(w, V, y)
    close(values, (V @ w - y) ** 2)
    close(grads, per_example)


def test_jacobians_by_vmap():
    f = lambda x: np.tanh(A.T @ x)
    x = V[0]
    expected = differences(f, x)
    close(fg.vmap(lambda t: fg.jvp(f, (x,), (t,))[1], out_axes=-1)(np.eye(3)), expected, rtol=1e-8)
    _, pullback = fg.vjp(f, x)
    close(fg.vmap(lambda ct: pullback(ct)[0])(np.eye(2)), expected, rtol=1e-8)
    _, push = fg.linearize(f, x)
    close(fg.vmap(push, out_axes=1)(np.eye(3)), expected, rtol=1e-8)


def test_mapping_about_a_tensor_under_differentiation():
    w = np.array([1.0, 2.0, 3.0])
    f = lambda w: np.sum(fg.vmap(lambda x: np.sin(x @ w))(V))
    close(fg.grad(f)(w), np.cos(V @ w) @ V)
    t, gm = fg.tensor(w), fg.GradManager()
    with gm.attach(t):
        gm.backward(np.sum(fg.vmap(lambda x: np.sin(x @ t))(V)))
    close(t.grad, np.cos(V @ w) @ V)


def test_a_manager_inside():
    def f(x):
        leaf = x * 1.0
        with fg.GradManager().attach(leaf) as gm:
            gm.backward(np.sum(leaf**3))
        return leaf.grad

    close(fg.vmap(f)(V), 3 * V**2)


def test_in_place_inside_leaves_the_callers_arrays_alone():
    def f(x, y):
        x[0] = y[1] * 2
        x += 1
        total = fnp.zeros(2)
        for i in range(3):
            total[i % 2] += x[i]
        return x, total

    x, y = V.copy(), V.copy()
    got_x, got_total = fg.vmap(f)(x, y)
    expected = np.stack([2 * V[:, 1] + 1, V[:, 1] + 1, V[:, 2] + 1], axis=1)
    close(got_x, expected)
    close(got_total, np.stack([expected[:, 0] + expected[:, 2], expected[:, 1]], axis=1))
    exactly(x, V)
    exactly(y, V)


def test_results_share_no_memory_with_arguments():
    x = V.copy()
    for f in (lambda x: x, lambda x: x[:2], lambda x: x.T):
        result = fg.vmap(f)(x)
        result[...] = 9.0
        exactly(x, V)
    constant = np.ones(2)
    fg.vmap(lambda x: constant, out_axes=None)(V)[:] = 9.0
    exactly(constant, np.ones(2))


# ---- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: fg.vmap(lambda x, y: x)(V, V[:3]), ValueError, r"4.*3|3.*4"),
        (
            lambda: fg.vmap(lambda p, q: p)({"w": V}, [V[:3]]),
            ValueError,
            r"argument p\['w'\] has 4 along axis 0 of shape \(4, 3\).*argument q\[0\] has 3",
        ),
        (lambda: fg.vmap(lambda *xs: xs[0])(V, V.T), ValueError, r"argument xs\[0\].*argument xs\[1\]"),
        (lambda: fg.vmap(lambda x: x, in_axes=1)(V[0]), ValueError, r"axis 1 of argument x"),
        (lambda: fg.vmap(np.sin, out_axes=0.5)(V), TypeError, r"out_axes"),
        (lambda: fg.vmap(np.sin)(1.0), (ValueError, TypeError), r"in_axes|axis|axes"),
        (lambda: fg.vmap(np.sin, in_axes=2)(V), (ValueError, IndexError), r"2"),
        (lambda: fg.vmap(np.sin, in_axes=None)(V), ValueError, r"axis_size|in_axes"),
        (lambda: fg.vmap(np.sin, axis_size=5)(V), ValueError, r"5.*4|4.*5"),
        (lambda: fg.vmap(np.sin, in_axes=(0, 0))(V), ValueError, r"in_axes"),
        (lambda: fg.vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": V}), ValueError, r"in_axes"),
        (lambda: fg.vmap(np.sin, out_axes=(0, 0))(V), ValueError, r"out_axes"),
        (lambda: fg.vmap(np.sin, out_axes=None)(V), ValueError, r"out_axes"),
        (lambda: fg.vmap(np.sin, out_axes=5)(V), (ValueError, IndexError), r"5"),
        (lambda: fg.vmap(np.sin, in_axes="rows")(V), TypeError, r"in_axes"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    "convert",
    [float, int, complex, np.asarray, lambda x: x.item(), lambda x: x.numpy(), lambda x: x.tolist()],
)
def test_the_value_of_one_example_does_not_exist(convert):
    with pytest.raises(TypeError, match=r"test_batch\.py"):
        fg.vmap(lambda x: convert(x) and x)(np.ones(3))


def test_a_tensor_that_escapes():
    kept = []
    fg.vmap(lambda x: kept.append(x * 2) or x)(V)
    for use in (np.sin, lambda x: x + 1, np.sum, lambda x: x[0], fg.grad(np.sum)):
        with pytest.raises(fg.EscapedTensorError, match=r"test_batch\.py"):
            use(kept[0])


def test_a_numpy_buffer_cannot_hold_mapped_values_and_the_error_says_what_can():
    def into(make, write):
        def f(x):
            y = make(3)
            write(y, x)
            return y

        return f

    def element(y, x):
        y[0] = x[0]

    def everything(y, x):
        y[:] = x

    def added(y, x):
        y += x

    for write in (element, everything, added):
        with pytest.raises(TypeError, match=r"test_batch\.py.*fgrad\.numpy\.zeros"):
            fg.vmap(into(np.zeros, write))(V)
        expected = np.stack([into(np.zeros, write)(x) for x in V])
        close(fg.vmap(into(fnp.zeros, write))(V), expected)
        w = RNG.normal(size=V.shape)
        total = lambda x, w: np.sum(into(fnp.zeros, write)(x) * w)
        grads = fg.vmap(fg.grad(total))(V, w)
        close(grads, w if write is not element else w * np.array([1.0, 0.0, 0.0]))


def test_an_unmapped_tensor_keeps_its_value():
    t = fg.tensor(np.zeros(3))

    def f(y, x):
        y[0] = x[0]
        return y

    out = fg.vmap(f, in_axes=(None, 0))(t, V)
    close(out, np.stack([[v, 0.0, 0.0] for v in V[:, 0]]))
    exactly(t, np.zeros(3))


@pytest.mark.parametrize("where", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("template", ["rows", "columns", "apart"])
def test_writes_at_mapped_places(where, template):
    places = np.array([[0, 2], [1, 1], [2, 0], [2, 1]])
    place = {
        "rows": lambda i: (i,),
        "columns": lambda i: (slice(None), i),
        "apart": lambda i: (i, slice(1, 3), i),
    }[template]
    shape = (3, 4, 3)
    x = RNG.normal(size=(4, *shape))
    values = RNG.normal(size=(4, *np.zeros(shape)[place(places[0])].shape))

    def f(x, i, v):
        x = fg.tensor(x)
        x[place(i)] = v
        return x

    def by_numpy(x, i, v):
        x = x.copy()
        x[place(i)] = v
        return x

    args, axes = [], []
    for k, a in enumerate((x, places, values)):
        args.append(a if k in where else a[0])
        axes.append(0 if k in where else None)
    rows = [[a[k] if axis == 0 else a for a, axis in zip(args, axes, strict=True)] for k in range(4)]
    close(fg.vmap(f, axes)(*args), np.stack([by_numpy(*row) for row in rows]))
    weights = RNG.normal(size=shape)
    g = fg.grad(lambda x, i, v: np.sum(f(x, i, v) * weights), argnums=(0, 2))
    for got, expected in zip(
        fg.vmap(g, axes)(*args),
        zip(*(written(*row, place, weights) for row in rows), strict=True),
        strict=True,
    ):
        close(got, np.stack(expected))


def written(x, i, v, place, weights):
    """Return the gradients of sum(weights * x) after x[place] = v: the last write to a place wins."""
    gx, gv = weights.copy(), np.zeros_like(v)
    gx[place(i)] = 0
    order = np.full(x.shape, -1)
    order[place(i)] = np.arange(v.size).reshape(v.shape)
    for at in np.ndindex(x.shape):
        if order[at] >= 0:
            gv.flat[order[at]] = weights[at]
    return gx, gv


def test_convolutions_of_short_and_long_vectors():
    rng = np.random.default_rng(3)
    for n, m in [(3, 2), (40, 30), (5, 5)]:
        x, y = rng.normal(size=(6, n)), rng.normal(size=(6, m))
        for mode in ("full", "same", "valid"):
            f = lambda x, y: np.convolve(x, y, mode)
            close(fg.vmap(f)(x, y), np.stack(list(map(f, x, y))))
            close(fg.vmap(f, in_axes=(0, None))(x, y[0]), np.stack([f(v, y[0]) for v in x]))
            close(fg.vmap(f, in_axes=(None, 0))(x[0], y), np.stack([f(x[0], v) for v in y]))
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(3, 3))
    f = lambda x, y: np.sum(np.sin(np.convolve(x, y)))
    for i, z in enumerate((x, y)):
        expected = [
            differences(lambda v: f(*(v if j == i else a[k] for j, a in enumerate((x, y)))), z[k])
            for k in range(3)
        ]
        close(fg.vmap(fg.grad(f, i))(x, y), np.stack(expected), rtol=1e-7)
        total = lambda *a: np.sum(fg.vmap(f)(*a))
        close(fg.grad(total, i)(x, y), np.stack(expected), rtol=1e-7)


def test_draws_of_many_keys_are_those_of_each():
    keys = fg.random.split(fg.random.key(0), 6).reshape(2, 3, 2)
    lam = np.linspace(1.0, 9.0, 6).reshape(2, 3)
    draw = lambda k, lam: fg.random.poisson(k, lam, size=4)
    expected = np.stack(
        [np.stack([draw(k, v) for k, v in zip(*p, strict=True)]) for p in zip(keys, lam, strict=True)]
    )
    exactly(fg.vmap(fg.vmap(draw))(keys, lam), expected)
    exactly(
        fg.vmap(fg.vmap(draw, in_axes=(0, None)))(keys, lam[:, 0]),
        np.stack([np.stack([draw(k, v) for k in ks]) for ks, v in zip(keys, lam[:, 0], strict=True)]),
    )


READ = {
    "rows": lambda x, i: x[i],
    "columns": lambda x, i: x[:, i],
    "adjacent": lambda x, i: x[:, i, i + 1],
    "separated": lambda x, i: x[i, :, i + 1],
    "with a slice": lambda x, i: x[1:, i, ::2],
    "new axis": lambda x, i: x[None, i],
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("shape", [(7,), (7, 2), (7, 1, 3)], ids=str)
def test_an_array_that_all_examples_read_from_is_not_repeated(name, shape):
    rng = np.random.default_rng(0)
    read, x, i = READ[name], rng.normal(size=(5, 4, 3)), rng.integers(-3, 2, shape)
    expected = np.stack([read(x, k) for k in i])
    weight = rng.normal(size=expected.shape)
    slope = np.zeros_like(x)
    for w, k in zip(weight, i, strict=True):
        slope += fg.grad(lambda x, w=w, k=k: np.sum(w * read(x, k)))(x)
    mapped = fg.vmap(read, in_axes=(None, 0))
    assert "broadcast_to" not in str(fg.make_graph(mapped)(x, i))
    for compiled in (lambda f: f, fg.jit):
        exactly(compiled(mapped)(fg.Tensor(x), i), expected)
        close(compiled(fg.grad(lambda x: np.sum(weight * mapped(x, i))))(x), slope)
