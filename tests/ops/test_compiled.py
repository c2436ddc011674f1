"""What compiled loops compute for large arrays: to two units in the last place, NumPy's elsewhere."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from tests.ops.test_primitives import DOMAINS

import fgrad as fg
from fgrad.compiler.elementwise import Elementwise, Pairs
from fgrad.core.primitive import FEW, LARGE, MEDIUM, PRIMITIVES
from fgrad.expr.atoms import ATOMS
from fgrad.kernels import selection
from fgrad.ops import compiled

RNG = np.random.default_rng(6)
SLOPES = {"sin": (np.sin, np.cos), "cos": (np.cos, lambda x: -np.sin(x))}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_of_large_arrays_in_double_precision(name):
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("NumPy has no wider numbers here")
    f, slope = SLOPES[name]
    x = np.concatenate([RNG.uniform(-50, 50, 2**17), RNG.uniform(-1e9, 1e9, 60), [0.0, -0.0, 1e-320, 1e300]])
    for part in (x, x[::2], x.reshape(2, -1).T):
        found = fg.vjp(f, part)[1](np.ones_like(part))[0]
        exact = slope(part.astype(np.longdouble))
        assert np.abs(found - exact).max() <= 2.0**-52
        assert (np.abs(found - exact) <= 2 * np.spacing(np.abs(exact.astype(float)))).all()


def test_other_slopes_are_those_of_numpy():
    x = RNG.standard_normal(MEDIUM - 1)
    slope = fg.grad(lambda x: np.sin(x).sum())
    np.testing.assert_array_equal(slope(x), np.cos(x))
    x = RNG.standard_normal(LARGE)
    np.testing.assert_array_equal(slope(x.astype("f")), np.cos(x.astype("f")))


@pytest.mark.parametrize("name", sorted(name for name in DOMAINS if PRIMITIVES[name].vjp is not None))
def test_slopes_at_numbers_are_those_of_arrays(name):
    primitive, arity = PRIMITIVES[name], len(DOMAINS[name])
    cts = [1.0, 0.0, -2.5, np.inf]
    at = [0.5, -0.5, 1.5, 0.0, -0.0, np.inf, np.nan, 1e-310, 1e300, 1.0]
    ct, *xs = (x.ravel() for x in np.meshgrid(cts, *[at] * arity, indexing="ij"))
    with np.errstate(all="ignore"):
        kept = (primitive.run(*xs), *xs)
    for pattern in [(True,)] if arity == 1 else [(True, True), (True, False), (False, True)]:
        vjp = primitive.vjp(pattern)
        if vjp is None or vjp.params or vjp.avals:
            continue
        saved = [kept[k] for k in vjp.keep]
        with np.errstate(all="ignore"):
            whole = vjp.raw(ct, *saved)
            parts = [vjp.raw(ct[i], *[x[i] for x in saved]) for i in range(ct.size)]
        for of_arrays, of_numbers in zip(whole, zip(*parts, strict=True), strict=True):
            if of_arrays is not None:
                np.testing.assert_allclose(np.array(of_numbers), of_arrays, rtol=1e-15)
                signed = ~np.isnan(of_arrays)
                np.testing.assert_array_equal(np.signbit(of_numbers)[signed], np.signbit(of_arrays)[signed])


def test_steps_back_at_numbers_look_for_no_loops(monkeypatch):
    def refuse(*_):
        raise AssertionError("a loop was looked for")

    def f(x):
        return np.tanh(np.sin(x) * x) / (1.0 + np.exp(-x)) + fg.scipy.special.gammainc(1.5, x)

    expected = fg.grad(f)(0.7)
    monkeypatch.setattr(compiled, "_for_kernels", refuse)
    assert fg.grad(f)(0.7) == expected


def test_large_arrays_of_doubles_and_no_others_go_to_a_kernel(monkeypatch):
    calls, run = [], Elementwise.__call__
    monkeypatch.setattr(Elementwise, "__call__", lambda *args: (calls.append(len(args)), run(*args))[1])
    slope = fg.grad(lambda x: np.sin(x).sum())
    for count, dtype, expected in [(0, "d", 2), (-1, "d", 0), (0, "f", 0)]:
        slope(np.ones(MEDIUM + count, dtype))
        assert len(calls) == expected
        calls.clear()


def test_numpy_warns_once_of_infinite_arguments():
    x = np.append(RNG.standard_normal(LARGE), [np.inf, np.nan])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        slope = fg.grad(lambda x: np.sin(x).sum())(x)
    assert [w.category for w in found] == [RuntimeWarning]
    assert np.isnan(slope[-2:]).all()
    np.testing.assert_allclose(slope[:-2], np.cos(x[:-2]), rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::2]])
def test_inner_products_of_large_arrays(view, dtype):
    shape = (300, 400)
    x, y = (view(RNG.standard_normal(shape).astype(dtype)) for _ in range(2))
    terms = x.astype(np.longdouble) * y
    bound = 8 * np.finfo(dtype).eps * np.abs(terms).sum()

    def product(x, y):
        return fg.numpy.einsum("ij,ij->", x, y)

    for f in (product, lambda x, y: np.dot(x.ravel(), y.ravel()), np.vdot):
        value, slopes = fg.value_and_grad(f, argnums=(0, 1))(x, y)
        assert value.dtype == dtype
        assert abs(value.item() - math.fsum(terms.flat)) <= bound
        np.testing.assert_array_equal(slopes[0], y)
        np.testing.assert_array_equal(slopes[1], x)
    assert product(x.astype(complex), y).dtype.kind == "c"
    assert product(x, y.astype(np.float64)).dtype == np.float64


LARGE_INDICES = {
    # name: (shape, function of the array and of indices, shape of the indices, how many there are to choose)
    "vector": ((900,), lambda x, i: x[i], (40_000,), 900),
    "vector, matrix of places": ((900,), lambda x, i: x[i], (40, 1000), 900),
    "rows": ((50, 3), lambda x, i: x[i], (20_000,), 50),
    "last axis": ((7, 5, 40), lambda x, i: np.take_along_axis(x, i, -1), (7, 5, 1000), 40),
    "first axis": ((40, 60), lambda x, i: np.take_along_axis(x, i, 0), (1000, 60), 40),
    "two axes": ((30, 40), lambda x, i: x[i % 30, i], (40_000,), 40),
    "broadcast rows": ((30, 40), lambda x, i: x[np.arange(3)[:, None], i], (3, 20_000), 40),
    "one row": ((30, 40), lambda x, i: x[5, i], (40_000,), 40),
}


@pytest.mark.parametrize("name", LARGE_INDICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_large_gathers_and_their_adjoints(name, dtype, kind):
    shape, f, places, n = LARGE_INDICES[name]
    if kind == np.uint8 and n > 255:
        n = 255
    i = RNG.integers(0, n, places).astype(kind)
    if kind != np.uint8 and "axes" not in name:
        i.flat[::3] -= n if n == shape[0] or "axis" in name or "row" in name else 0
    x = RNG.standard_normal(shape).astype(dtype)
    value, pullback = fg.vjp(lambda x: f(x, i), x)
    ct = RNG.standard_normal(value.shape).astype(dtype)
    np.testing.assert_array_equal(value, f(x, i))
    where = f(np.arange(x.size).reshape(shape), i)
    expected = np.zeros(x.size, dtype)
    np.add.at(expected, where, ct)
    found = pullback(ct)[0]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected.reshape(shape))
    np.testing.assert_array_equal(fg.jvp(lambda x: f(x, i), (x,), (x,))[1], f(x, i))


@pytest.mark.parametrize("wrong", [900, -901])
def test_large_gathers_out_of_range(wrong):
    i = RNG.integers(0, 900, 40_000)
    i[-1] = wrong
    x = fg.tensor(RNG.standard_normal(900))
    with pytest.raises(IndexError, match=str(wrong)):
        x[i]
    with pytest.raises(IndexError, match=str(wrong)):
        fg.grad(lambda x: np.take_along_axis(x, i, 0).sum())(x)
    y = np.zeros((3, 900))
    with pytest.raises(IndexError, match=str(wrong)):
        fg.grad(lambda y: np.take_along_axis(y, np.tile(i, (3, 1)), 1).sum())(y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "axis"), [((40_000,), 0), ((9, 4000), 1), ((4000, 9), 0), ((3, 400, 40), -2)]
)
def test_sorting_large_arrays(dtype, shape, axis):
    x = np.round(RNG.standard_normal(shape), 2).astype(dtype)  # with ties
    x.flat[::97] = np.nan
    ct = RNG.standard_normal(shape).astype(dtype)
    order = np.argsort(x, axis, kind="stable")
    value, pullback = fg.vjp(lambda x: np.sort(x, axis), x)
    np.testing.assert_array_equal(value, np.sort(x, axis))
    expected = np.zeros_like(x)
    np.put_along_axis(expected, order, ct, axis)
    np.testing.assert_array_equal(pullback(ct)[0], expected)
    np.testing.assert_array_equal(fg.numpy.argsort(fg.tensor(x), axis, stable=True), order)


REAL = {name: "fd" if atom.shared else atom.loops.strip("FD") for name, atom in ATOMS.items()}
LARGE_VALUES = [name for name, dtypes in REAL.items() if dtypes and hasattr(np, name)]
VALUES = [(name, dtype) for name in LARGE_VALUES for dtype in REAL[name]]


def operands(name, dtype, count=2**17):
    given = [RNG.uniform(-50, 50, count).astype(dtype) for _ in range(getattr(np, name).nin)]
    if name in {"power", "sqrt", "log", "log2", "log10", "log1p", "arccosh"}:
        given[0] = np.abs(given[0]) + (name == "arccosh")
    if name in {"arcsin", "arccos", "arctanh"}:
        given[0] /= 51
    if name == "power":
        given[1] /= 10
    return given


@pytest.mark.parametrize(("name", "dtype"), VALUES)
def test_values_of_large_arrays(name, dtype, monkeypatch):
    wide = {"f": np.float64, "d": np.longdouble}[dtype]
    if np.finfo(wide).nmant < np.finfo(dtype).nmant + 8:
        pytest.skip("NumPy has no wider numbers here")
    calls, run = [], Elementwise.__call__
    monkeypatch.setattr(Elementwise, "__call__", lambda *args: (calls.append(len(args)), run(*args))[1])
    f, given = getattr(np, name), operands(name, dtype)
    for change in (
        lambda x: x,
        lambda x: x[::2],
        lambda x: x.reshape(256, -1).T,
        lambda x: x.reshape(64, -1),
    ):
        parts = [change(x) for x in given]
        found, near = f(*map(fg.tensor, parts)).numpy(), f(*parts)
        exact = f(*(x.astype(wide) for x in parts))
        assert len(calls) == 1
        assert (found.dtype, found.shape) == (near.dtype, near.shape)
        # logaddexp: where it is near zero, numbers that are not are added
        room = 2 * np.spacing(np.maximum(np.abs(near), 1 if "log" in name else 0))
        assert (np.abs(found - exact) <= room).all()
        calls.clear()


@pytest.mark.parametrize("name", LARGE_VALUES)
def test_other_values_are_those_of_numpy(name):
    f = getattr(np, name)
    few = operands(name, "d", MEDIUM - 1)
    many = operands(name, "d", LARGE)
    for given in (few, [x.astype("e") for x in many], [x.astype(">f8")[:9] for x in many]):
        with np.errstate(over="ignore"):  # as half of the exponentials do in half precision
            found, expected = f(*map(fg.tensor, given)).numpy(), f(*given)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    if f.nin == 1:
        whole = many[0].astype(int) + name.startswith("log")
        np.testing.assert_array_equal(f(fg.tensor(whole)).numpy(), f(whole))
        z = (many[0] / 50 + 0.5j)[: MEDIUM - 1 if "D" in ATOMS[name].loops else None]
        np.testing.assert_array_equal(f(fg.tensor(z)).numpy(), f(z))


@pytest.mark.parametrize(
    ("name", "bad"), [("sin", [np.inf]), ("cos", [-np.inf]), ("hypot", [1.5e308, 1.5e308])]
)
def test_numpy_has_the_say_of_what_is_not_finite(name, bad):
    f, given = getattr(np, name), operands(name, "d")
    for x, v in zip(given, bad, strict=True):
        x[7] = v
    with pytest.warns(RuntimeWarning, match=name):
        expected = f(*given)
    with pytest.warns(RuntimeWarning, match=name) as found:
        np.testing.assert_array_equal(f(*map(fg.tensor, given)).numpy(), expected)
    assert len(found) == 1
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=name):
        f(*map(fg.tensor, given))
    with fg.debug_nans(), pytest.raises(fg.errors.NonFiniteError, match=name):
        f(*map(fg.tensor, given))
    assert isinstance(PRIMITIVES[name].large, compiled.FastUfunc | compiled.FastComplex)


def test_numpy_tells_of_underflow_where_it_is_asked_to():
    x = RNG.standard_normal(LARGE)
    x[3] = 1e-310
    said = []
    for given in (x, fg.tensor(x)):
        with np.errstate(under="warn"), warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            y = np.tanh(given)
        said.append((np.asarray(y).tolist(), [str(w.message) for w in found]))  # on some processors nothing
    assert said[0] == said[1]


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("number", [0, 0.5, -3, 2**60, 1e300, np.inf])
def test_numbers_come_first_too(number, dtype, monkeypatch):
    calls, run = [], Elementwise.__call__
    monkeypatch.setattr(Elementwise, "__call__", lambda *args: (calls.append(len(args)), run(*args))[1])
    (x, _) = operands("hypot", dtype, MEDIUM)
    with np.errstate(all="ignore"):
        expected = np.logaddexp(number, x)
        found, pullback = fg.vjp(lambda x: np.logaddexp(number, x), x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)
        assert pullback(np.ones_like(x))[0].dtype == dtype
    assert calls or abs(number) > 1e30


def test_large_and_small_operands_broadcast():
    x, y = RNG.standard_normal((300, 200)), RNG.standard_normal(200)
    np.testing.assert_allclose(np.hypot(fg.tensor(x), y).numpy(), np.hypot(x, y), rtol=1e-15)
    np.testing.assert_allclose(np.hypot(fg.tensor(y), x).numpy(), np.hypot(x, y), rtol=1e-15)
    np.testing.assert_allclose(np.hypot(fg.tensor(x), 2.0).numpy(), np.hypot(x, 2.0), rtol=1e-15)
    np.testing.assert_allclose(np.hypot(fg.tensor(x.astype("f")), y).numpy(), np.hypot(x.astype("f"), y))
    fg.testing.check_grads(lambda x: np.hypot(x, y).sum(), (x[:2],))


def test_out_and_where_are_kept():
    x = RNG.standard_normal(LARGE)
    t, chosen = fg.tensor(np.zeros_like(x)), x > 0
    assert np.sin(fg.tensor(x), out=t) is t
    np.testing.assert_allclose(t.numpy(), np.sin(x), rtol=1e-15)
    found = np.sin(fg.tensor(x), where=chosen, out=fg.tensor(np.zeros_like(x)))
    np.testing.assert_allclose(found.numpy(), np.where(chosen, np.sin(x), 0), rtol=1e-15)


@pytest.mark.parametrize(("name", "dtype"), [v for v in VALUES if getattr(np, v[0]).nin == 2])
def test_slopes_of_two_large_arguments(name, dtype):
    f = getattr(np, name)
    x, y = operands(name, dtype)
    if name != "power":
        y[:9], x[9:12] = x[:9], 0
    if name in {"hypot", "arctan2", "logaddexp", "logaddexp2", "heaviside"}:
        y[9:12] = 0
    few = slice(20000)
    for parts in ((x, y), (x[:400].reshape(-1, 1), y[:300]), (x, y[:1])):
        found = fg.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1))(*map(fg.tensor, parts))
        if parts[0].shape == np.shape(parts[1]):
            near = fg.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1))(*(p[few] for p in parts))
            for a, b in zip(found, near, strict=True):
                np.testing.assert_allclose(a.numpy()[few], b, rtol=20 * np.finfo(dtype).eps, atol=1e-30)
        for a, p in zip(found, parts, strict=True):
            assert a.shape == np.shape(p)


USUAL = [name for name, atom in ATOMS.items() if atom.usual]
SPECIAL = np.array([-np.inf, -800, -1.5, -1e-300, 0.0, 2.0, 1e3, np.inf, np.nan])


@pytest.mark.parametrize("pattern", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("dtypes", ["ff", "dd", "fd", "df"])
@pytest.mark.parametrize("name", USUAL)
def test_slopes_of_usual_values_are_those_of_all(name, dtypes, pattern):
    x, y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    vjp = PRIMITIVES[name].vjp(pattern)
    usual = np.isfinite(x) & np.isfinite(y)
    one_infinite = ~np.isposinf(x) & ~np.isposinf(y) & (np.isfinite(x) | np.isfinite(y))
    for chosen, invalid in ((slice(None), "ignore"), (usual, "raise"), (one_infinite, "raise")):
        a, b = x[chosen].astype(dtypes[0]), y[chosen].astype(dtypes[1])
        with np.errstate(invalid="ignore"):
            out = getattr(np, name)(a, b)
        saved = [(out, a, b)[k] for k in vjp.keep]
        ct = RNG.standard_normal(out.shape).astype(out.dtype)
        with np.errstate(invalid=invalid, over="raise", divide="raise"):
            found = vjp.raw(ct, *saved)
            expected = vjp.lifted(ct, *saved)
        for slope, known in zip(found, expected, strict=True):
            np.testing.assert_allclose(slope, known, rtol=4 * np.finfo(max(dtypes)).eps, strict=True)


REVERSED = [name for name in ATOMS if hasattr(np, name) and name != "where" and not PRIMITIVES[name].flat]
IN_UNIT = {"arcsin", "arccos", "arctanh", "expm1", "exp", "exp2", "sinh", "cosh"}


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("name", REVERSED)
def test_large_reverse_steps_are_the_small_ones(name, dtype):
    given = operands(name, dtype, LARGE)
    if name in IN_UNIT:
        given = [np.abs(x) / 50 for x in given]
    for k, x in enumerate(given):
        x[3 * k : 3 * k + 3] = 0, 1, 1
    rtol = 4 * np.finfo(dtype).eps
    ct = RNG.standard_normal(LARGE).astype(dtype)
    ct[::5], ct[6] = 0, np.inf
    small = [slice(i, i + 2048) for i in range(0, LARGE, 2048)]
    patterns = [(True,)] if len(given) == 1 else [(True, True), (True, False), (False, True)]
    for pattern in patterns:
        vjp = PRIMITIVES[name].vjp(pattern)
        if vjp is None:
            continue
        with np.errstate(all="ignore"):
            out = getattr(np, name)(*given)
            saved = [(out, *given)[k] for k in vjp.keep]
            ct = ct.astype(out.dtype)
            found = vjp.raw(ct, *saved)
            expected = [vjp.raw(ct[part], *(x[part] for x in saved)) for part in small]
        for a, pieces in zip(found, zip(*expected, strict=True), strict=True):
            if pieces[0] is None:
                assert a is None
            else:
                assert a.dtype == out.dtype
                np.testing.assert_allclose(a, np.concatenate(pieces), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("view", [lambda x: x.T, lambda x: x[:, ::-1], lambda x: x[:1], lambda x: x[5, 5]])
def test_large_reverse_steps_of_operands_that_lie_in_any_way(view):
    x, y = 1 + RNG.uniform(size=(2, 300, 300))
    for a, b in ((x, view(y)), (view(x), y), (view(x), view(y).copy())):
        loss = lambda a, b: np.sum(x * (a / b))
        found = fg.grad(loss, (0, 1))(a, b)
        wide = np.broadcast_arrays(a, b, x)
        slopes = x / wide[1], -x * wide[0] / wide[1] ** 2
        for g, slope, operand in zip(found, slopes, (a, b), strict=True):
            axes = {0: (0, 1), 1: (0,)}.get(operand.ndim and operand.shape[0], ())
            expected = slope.sum(axes).reshape(operand.shape)
            np.testing.assert_allclose(g, expected, rtol=1e-12)


@pytest.mark.parametrize("name", LARGE_VALUES)
def test_values_do_not_depend_on_who_records(name, monkeypatch):
    f, given = getattr(np, name), operands(name, "d")
    first = fg.tensor(given[0])
    rest = list(map(fg.tensor, given[1:]))
    expected = f(*map(fg.tensor, given)).numpy()
    row = PRIMITIVES[name]
    once = fg.GradManager().attach(first)
    with once:
        np.testing.assert_array_equal(f(first, *rest).numpy(), expected)
    with fg.GradManager().attach(first), fg.GradManager().attach(first):
        np.testing.assert_array_equal(f(first, *rest).numpy(), expected)
    monkeypatch.setattr(row, "single", None)
    monkeypatch.setattr(row, "pairs", [None, None, None])
    monkeypatch.setattr(row, "plans", {})
    with once:  # as when a derivative is asked for the first time
        np.testing.assert_array_equal(f(first, *rest).numpy(), expected)
    whole = fg.checkpoint(lambda x: f(x, *rest), policy=fg.checkpoint_policies.everything_saveable)
    with fg.GradManager().attach(first):
        np.testing.assert_array_equal(whole(first).numpy(), expected)


OTHER_ORDER = {
    # name: (function of arrays, their shapes)
    "gather": (lambda x: x[np.arange(LARGE) % 7], [(9,)]),
    "rows": (lambda x: x[np.arange(LARGE) % 7], [(9, 3)]),
    "lanes": (lambda x: np.take_along_axis(x, np.arange(LARGE).reshape(4, -1) % 7, 1), [(4, 9)]),
    "sort": (np.sort, [(4, LARGE)]),
    "softmax": (fg.nn.softmax, [(64, LARGE // 64)]),
    "logsumexp": (lambda x: fg.nn.logsumexp(x, -1), [(64, LARGE // 64)]),
    "layer norm": (fg.nn.layer_norm, [(64, LARGE // 64)] + 2 * [(LARGE // 64,)]),
    "inner": (np.dot, [(LARGE,), (LARGE,)]),
    "outer": (np.outer, [(256,), (256,)]),
    "cumsum": (lambda x: np.cumsum(x, 0), [(64, LARGE // 64)]),
    "max_pool": (lambda x: fg.nn.max_pool(x, 2), [(2, 2, LARGE)]),
    "avg_pool": (lambda x: fg.nn.avg_pool(x, 2), [(2, 2, LARGE)]),
    "conv": (fg.nn.conv, [(2, 2, LARGE), (3, 2, 3)]),
    "hypot": (np.hypot, [(LARGE,), (LARGE,)]),
}


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("name", OTHER_ORDER)
def test_large_arrays_of_another_byte_order(name, dtype):
    f, shapes = OTHER_ORDER[name]
    given = [RNG.standard_normal(shape).astype(dtype) for shape in shapes]
    other = [x.astype(x.dtype.newbyteorder()) for x in given]
    wanted = tuple(range(len(given)))
    loss = lambda *args: np.sum(np.sin(f(*args)))
    expected = fg.grad(loss, wanted)(*given)
    room = {"rtol": 1e-4, "atol": 2e-2} if dtype == "f" else {"rtol": 1e-10, "atol": 1e-10}  # sums of 2**16
    mixed = [other[0], *given[1:]], [*given[:-1], other[-1]]
    for args in (other, *mixed):
        np.testing.assert_allclose(
            f(*map(fg.tensor, args)).numpy(), f(*map(fg.tensor, given)).numpy(), **room
        )
        for found, slope in zip(fg.grad(loss, wanted)(*args), expected, strict=True):
            np.testing.assert_allclose(found, slope, **room)
        for found, slope in zip(fg.jit(fg.grad(loss, wanted))(*args), expected, strict=True):
            np.testing.assert_allclose(found, slope, **room)


@pytest.mark.parametrize("f", [np.hypot, np.arctan2, np.logaddexp, np.logaddexp2, np.multiply])
@pytest.mark.parametrize("number", [True, -1, 2**62, 2**70, 0.5], ids=str)
def test_large_arrays_beside_numbers_of_python(f, number):
    """A number has no dtype, which NumPy takes for double precision."""
    x = np.linspace(0.5, 2.0, LARGE)
    slope = fg.grad(lambda x: np.sum(f(x, number)))
    np.testing.assert_allclose(slope(x)[::1000], slope(x[::1000]), rtol=1e-13)
    np.testing.assert_allclose(fg.vjp(lambda x: f(x, number), x)[0], f(x, number), rtol=1e-15)
    np.testing.assert_array_equal(fg.jvp(lambda x: x * number, (x,), (x,))[1], x * number)


BINARY = [name for name in LARGE_VALUES if getattr(np, name).nin == 2]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    "number", [False, True, 0, 2, 0.5, 2j, np.True_, np.int8(2), np.float32(2), np.float64(2), np.csingle(2)]
)
def test_large_arrays_beside_numbers_of_any_kind(name, number):
    f, x = getattr(np, name), np.linspace(0.5, 2.0, LARGE)
    for first, second in ((x, number), (number, x), (x, np.asarray(number)), (x, np.full(LARGE, number))):
        try:
            with np.errstate(all="ignore"):
                expected = f(first, second)
        except TypeError:  # no remainders of complex numbers
            continue
        lifted = [fg.tensor(v) if v is x else v for v in (first, second)]
        with np.errstate(all="ignore"):
            found = f(*lifted).numpy()
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("exponent", [-6, -3.0, -2, -1, -0.5, 0, 0.5, 1.0, 2, 3, 3.0, 4, 7, 2.5], ids=str)
def test_powers_of_large_arrays(exponent, dtype):
    x = operands("hypot", dtype)[0]
    x = np.abs(x) if exponent % 1 else x
    given = fg.tensor(x)
    wide = x.astype(np.longdouble)
    value, pullback = fg.vjp(lambda x: x**exponent, x)
    for number in (
        exponent,
        x.dtype.type(exponent),
        np.asarray(exponent, dtype),
        np.full(x.shape, exponent, dtype),
    ):
        found = np.power(given, number).numpy()
        assert found.dtype == x.dtype
        assert (np.abs(found - wide**exponent) <= 2 * np.spacing(np.abs(x**exponent))).all()
        np.testing.assert_allclose(found, value, rtol=4 * np.finfo(dtype).eps)
    slope = exponent * wide ** (exponent - 1)
    np.testing.assert_allclose(
        pullback(np.ones_like(x))[0],
        slope.astype(dtype),
        rtol=8 * np.finfo(dtype).eps,
        atol=np.finfo(dtype).smallest_subnormal,
    )


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("exponent", [-3, 2, 3, 4.0, 5])
def test_powers_of_arrays_that_are_not_large(exponent, dtype):
    for size in (FEW - 1, FEW, MEDIUM - 1):
        x = operands("hypot", dtype)[0][:size]
        wide = x.astype(np.longdouble)
        value, pullback = fg.vjp(lambda x: x**exponent, x)
        assert value.dtype == x.dtype
        assert (np.abs(value - wide**exponent) <= 2 * np.spacing(np.abs(x**exponent))).all()
        slope = (exponent * wide ** (exponent - 1)).astype(dtype)
        np.testing.assert_allclose(pullback(np.ones_like(x))[0], slope, rtol=8 * np.finfo(dtype).eps)


def test_underflow_in_powers_of_arrays_that_are_not_large_is_told():
    x = np.full(FEW, 1e-200)
    with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
        fg.tensor(x) ** 3


@pytest.mark.parametrize("size", [FEW, LARGE])
@pytest.mark.parametrize(
    ("bad", "exponent", "what"),
    [(0, -3, "divide"), (1e200, 3, "overflow"), (1e200, 4, "overflow"), (-2, 1.5, "invalid")],
)
def test_what_numpy_says_of_powers(bad, exponent, what, size):
    x = np.abs(operands("hypot", "d", size)[0])
    x[5] = bad
    with pytest.warns(RuntimeWarning, match=f"{what}.*power") as found:
        np.testing.assert_allclose((fg.tensor(x) ** exponent).numpy(), np.power(x, exponent), rtol=1e-15)
    assert len(found) == 2  # fgrad's, and NumPy's for the expected value


def test_large_powers_of_integers_and_complex_numbers_are_those_of_numpy():
    x = np.arange(LARGE)
    for given in (x, x * 1j, x.astype("e")):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal((fg.tensor(given) ** 3).numpy(), given**3, strict=True)
    with pytest.raises(ValueError, match="negative integer powers"):
        fg.tensor(x) ** -2


@pytest.mark.parametrize("dtype", "fd")
def test_choices_between_large_arrays(dtype):
    x, y = operands("hypot", dtype, LARGE)
    x[:3], y[3:6] = [np.nan, -0.0, np.inf], [np.nan, -0.0, -np.inf]
    c = RNG.random(LARGE) < 0.5
    one = x.dtype.type(1.5)
    square = (256, -1)
    for given in (
        (c, x, y),
        (c, x, 0),
        (c, 2.5, y),
        (c, one, y),
        (c, x, np.array(1.5, dtype)),
        (c, np.broadcast_to(one, c.shape), y),
        (c, x, y.astype("f")),
        (c, x, y.astype("e")),
        (c, x, y.astype(complex)),
        (c, x, y.astype(">f8")),
        (c, x, y[:1]),
        (c, 1, 0),
        (c, x, 1e300),
        (c.astype(int), x, y),
        (c[::-1], x, y[::-1]),
        (c.reshape(square), x.reshape(square), y.reshape(square).T.copy().T),
        (c.reshape(square).T, x.reshape(square).T, y.reshape(square).T),
    ):
        with np.errstate(over="ignore"):
            expected = np.where(*given)
            found = compiled.chosen(*given)
        np.testing.assert_array_equal(found, expected, strict=True)
        np.testing.assert_array_equal(np.signbit(found.real), np.signbit(expected.real))
        assert found.strides == expected.strides


def test_choices_beside_each_other_are_loops(monkeypatch):
    calls, run = [], selection.chosen
    monkeypatch.setattr(selection, "chosen", lambda *args: (calls.append(0), run(*args))[1])
    x = RNG.standard_normal(LARGE)
    np.testing.assert_array_equal(fg.grad(lambda x: np.where(x > 0, x, 0).sum())(x), x > 0)
    assert len(calls) == 2
    calls.clear()
    x[3] = 0.0
    slope = fg.grad(lambda x: np.sqrt(np.where(x > 0, x, 0)).sum())(x)
    positive = x > 0
    np.testing.assert_allclose(slope[positive], 0.5 / np.sqrt(x[positive]), rtol=1e-15)


@pytest.fixture
def loops(monkeypatch):
    """How often a compiled loop ran."""
    calls, run = [], Elementwise.__call__
    monkeypatch.setattr(Elementwise, "__call__", lambda *args: (calls.append(len(args)), run(*args))[1])
    return calls


POINTS = RNG.uniform(1, 2, (150, 3))
MANY = RNG.uniform(1, 2, (9000, 3))
ROWED = {
    "pairs": (POINTS[:, None], POINTS[None]),
    "a number for each row": (MANY, MANY[:, 1:2]),
    "one row": (MANY[0], MANY),
    "rows of rows": (POINTS[:, None, ::-1], POINTS),
    "other order": (np.asfortranarray(MANY), MANY[:, :1]),
    "axes of length one": (POINTS[:, None, :, None], POINTS[:, :, None]),
}


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("f", [np.add, np.subtract, np.multiply, np.divide], ids=lambda f: f.__name__)
@pytest.mark.parametrize("x, y", ROWED.values(), ids=ROWED)
def test_many_short_rows_are_a_compiled_loop_with_the_bits_of_numpy(f, x, y, dtype, loops):
    x, y = (
        a.astype(dtype, order="K") if a.strides[-1] else np.broadcast_to(a[:, :1].astype(dtype), a.shape)
        for a in (x, y)
    )
    expected = f(x, y)
    for found in (f(fg.tensor(x), fg.tensor(y)), fg.vjp(f, x, y)[0]):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(found), expected)
    assert loops


def test_few_or_long_rows_and_other_operands_are_left_to_numpy(loops):
    few, long = RNG.uniform(1, 2, (900, 3)), RNG.uniform(1, 2, (9000, 30))
    for x, y in (
        (few, few[:, :1]),
        (long, long[:, :1]),
        (MANY, MANY),
        (MANY, MANY[:, :1].astype("f")),
        (MANY, np.arange(3)),
        (MANY.astype(complex), MANY[:, :1].astype(complex)),
        (MANY[:0], MANY[:0, :1]),
        (MANY, 2.0),
    ):
        np.testing.assert_array_equal(np.subtract(fg.tensor(x), fg.tensor(y)).numpy(), x - y)
    assert not loops
    with pytest.raises(ValueError, match="broadcast"):
        fg.tensor(MANY) - fg.tensor(np.ones((8999, 1)))


def test_numpy_has_the_say_of_rows_that_are_not_finite():
    x, y = MANY.copy(), MANY[:, :1].copy()
    y[5] = 0
    with pytest.warns(RuntimeWarning, match="divide by zero") as found:
        np.testing.assert_array_equal((fg.tensor(x) / fg.tensor(y)).numpy()[5], np.inf)
    assert len(found) == 1
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide"):
        fg.tensor(x) / fg.tensor(y)


def test_short_rows_keep_subnormals_and_signs_of_zeros(loops):
    ones = np.ones_like(MANY)
    for x, y in ((3e-310 * ones, 1e-310), (-0.0 * ones, -0.0), (3e-160 * ones, 1e-155), (ones, np.inf)):
        y = np.full((len(x), 1), y)
        for f in (np.add, np.subtract, np.multiply):
            found, expected = f(fg.tensor(x), fg.tensor(y)).numpy(), f(x, y)
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    assert loops


U, V = RNG.uniform(1, 2, 300), RNG.uniform(1, 2, 270)
SPREAD = {
    "columns and rows": (U[:, None], V),
    "rows and columns": (U, V[:, None]),
    "negative strides": (U[::-1, None], V[::-1][None]),
    "stacks": (U.reshape(3, 100, 1), V.reshape(270)),
    "planes": (U.reshape(3, 1, 100), V.reshape(270, 1)),
    "axes of length one": (U.reshape(1, 300, 1, 1), V[:, None]),
}


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("f", [np.add, np.subtract, np.multiply], ids=lambda f: f.__name__)
@pytest.mark.parametrize("x, y", SPREAD.values(), ids=SPREAD)
def test_spread_vectors_are_a_compiled_loop_with_the_bits_of_numpy(f, x, y, dtype, loops):
    x, y = x.astype(dtype), y.astype(dtype)
    for found in (f(fg.tensor(x), fg.tensor(y)), fg.vjp(f, x, y)[0]):
        np.testing.assert_array_equal(np.asarray(found), f(x, y), strict=True)
    assert loops


def test_numpy_has_the_say_of_spread_vectors_that_are_not_finite(loops):
    for f, large in ((np.multiply, 1e200), (np.add, 1.5e308), (np.subtract, -1.5e308)):
        x, y = U.copy(), V.copy()
        x[7] = large
        y[9] = abs(large)
        with pytest.warns(RuntimeWarning, match="overflow") as found:
            made = f(fg.tensor(x[:, None]), fg.tensor(y)).numpy()
        assert len(found) == 1
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(made, f(x[:, None], y))
    assert not loops
    x[7], tiny = np.nan, np.full_like(V, 1e-300)
    np.testing.assert_array_equal((fg.tensor(x[:, None]) * fg.tensor(V)).numpy(), x[:, None] * V)
    with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
        fg.tensor(tiny[:, None]) * fg.tensor(tiny)
    with pytest.warns(RuntimeWarning, match="divide"):
        fg.tensor(U[:, None]) / fg.tensor(0 * V)
    assert not loops


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("x, y", SPREAD.values(), ids=SPREAD)
def test_gradients_of_products_of_spread_vectors(x, y, dtype):
    x, y = x.astype(dtype), y.astype(dtype)
    ct = RNG.normal(size=np.broadcast_shapes(x.shape, y.shape)).astype(dtype)
    tolerance = 1e-4 if dtype in "fF" else 1e-12

    def summed(full, shape):
        axes = tuple(range(full.ndim - len(shape)))
        full = full.sum(axis=axes)
        return full.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)

    for turned in (ct, np.asfortranarray(ct), np.broadcast_to(ct[:1], ct.shape)):
        found = fg.vjp(np.multiply, x, y)[1](turned)
        for slope, other, of in zip(found, (y, x), (x, y), strict=True):
            assert slope.shape == of.shape
            assert slope.dtype == of.dtype
            np.testing.assert_allclose(
                slope, summed(turned * other, of.shape), rtol=tolerance, atol=tolerance
            )


def test_gradients_of_pairs(loops):
    def energy(x):
        gap = x[:, None] - x[None]
        return np.sum(1 / (np.sum(gap * gap, axis=-1) + 0.5))

    gap = POINTS[:, None] - POINTS[None]
    expected = -4 * np.einsum("ijk,ij->ik", gap, (np.sum(gap * gap, axis=-1) + 0.5) ** -2)
    np.testing.assert_allclose(fg.grad(energy)(POINTS), expected, rtol=1e-11)
    assert loops


@pytest.mark.parametrize("size", [7, 3000, LARGE])
@pytest.mark.parametrize("slope", [2.0, np.inf, np.nan])
def test_zero_cotangents_win_over_slopes_of_any_kind(size, slope):
    x = np.full(size, 3.0)
    x[::3] = 0 if slope == np.inf else slope
    ct = RNG.standard_normal(size)
    ct[::3] = 0
    with np.errstate(all="ignore"):
        found = fg.vjp(np.log, x)[1](ct)[0]
    expected = np.where(ct == 0, 0, ct / np.where(ct == 0, 1, x))
    np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("shape", "axis"), [((1500, 3), 1), ((40, 40, 3), 2), ((40, 40, 3), 1), ((2500, 2), 0)]
)
def test_sums_of_few_neighbours_have_the_bits_of_numpy(shape, axis):
    for dtype in "fd":
        x = RNG.standard_normal(shape).astype(dtype)
        assert MEDIUM <= x.size < LARGE
        np.testing.assert_array_equal(np.sum(fg.tensor(x), axis).numpy(), np.sum(x, axis))


@pytest.mark.parametrize("dtype", "FD")
@pytest.mark.parametrize("name", [n for n, a in ATOMS.items() if "D" in a.loops])
def test_large_arrays_of_complex_numbers(name, dtype, monkeypatch):
    calls, run = [], Pairs.__call__
    monkeypatch.setattr(Pairs, "__call__", lambda *args: (calls.append(1), run(*args))[1])
    f = getattr(np, name)
    z = RNG.uniform(-20, 20, LARGE) + 1j * RNG.uniform(-20, 20, LARGE)
    z[:9] = [0, -0.0, 1, -1, 1j, complex(-0.0, -1), complex(-2, -0.0), complex(-2, 0.0), 1e-30 + 1e-30j]
    z = z.astype(dtype)
    z = z[z != 0] if name == "log" else z
    for given in (z, z[::-2], z[: 2 * MEDIUM].reshape(2, -1).T, np.broadcast_to(z, (2, z.size))):
        found, wanted = f(fg.tensor(given)).numpy(), f(given)
        assert found.dtype == wanted.dtype
        exact = f(given.astype("G"))
        assert np.all(np.abs(found - exact) <= 4 * np.finfo(dtype).eps * np.abs(exact))
        for part in ("real", "imag"):
            a, b = getattr(found, part), getattr(wanted, part)
            np.testing.assert_array_equal(np.signbit(a[b == 0]), np.signbit(b[b == 0]))
    assert len(calls) == 4
    np.testing.assert_array_equal(f(fg.tensor(z)[::-2]).numpy(), f(z[::-2]))  # as NumPy's loops know it
    assert len(calls) == 4


def test_numpy_warns_of_complex_numbers_too():
    z = RNG.standard_normal(LARGE) + 1j
    z[5] = 1e3
    with pytest.warns(RuntimeWarning, match="overflow|invalid") as found:
        np.testing.assert_array_equal(np.exp(fg.tensor(z)).numpy(), np.exp(z))
    assert len({str(w.message) for w in found}) * 2 == len(
        found
    )  # fgrad's, and NumPy's for the expected value


def test_derivatives_of_large_arrays_of_complex_numbers():
    x = RNG.uniform(-1, 1, LARGE)
    found = fg.grad(lambda x: np.sum(np.real(np.exp(2j * x)) + np.imag(np.sin(1j * x))))(x)
    np.testing.assert_allclose(found, -2 * np.sin(2 * x) + np.cosh(x), rtol=1e-12, atol=1e-12)


def shared(ufunc):
    """Return the function that shares pieces, and a list of these."""
    made, pieces = compiled.Shared(ufunc), []

    class Watched(compiled._Pieces):
        def __call__(self, *args):
            pieces.append(args[-2:])
            super().__call__(*args)

    return made, pieces, Watched


@pytest.mark.parametrize("shape", [(LARGE,), (2, LARGE // 2), (3, 5)])
def test_shared_loops_give_the_same_bits(shape, monkeypatch):
    made, pieces, watched = shared(np.arctan2)
    monkeypatch.setattr(compiled, "_Pieces", watched)
    x, y = RNG.standard_normal((2, *shape))
    several = np.size(x) >= compiled.MANY
    for given in ((x, y), (x, 2.0), (np.float64(2), y), (x.astype("f"), y.astype("f")), (x, np.array(3.0))):
        found, wanted = made(*given), np.arctan2(*given)
        np.testing.assert_array_equal(found, wanted, strict=True)
        assert bool(pieces) == several
        covered = sorted(pieces)
        assert [lo for lo, _ in covered][1:] == [hi for _, hi in covered][:-1]
        pieces.clear()
    for given in ((x[..., ::-1], y), (np.asfortranarray(x)[::2], y[::2]), (x, y[:1]), ([1.0, 2.0], 3.0)):
        np.testing.assert_array_equal(made(*given), np.arctan2(*given), strict=True)


def test_what_numpy_says_of_shared_loops_it_says_once():
    x = np.full(LARGE, 0.5)
    x[[3, -3]] = 2.0
    made = compiled.Shared(np.arcsin)
    with pytest.warns(RuntimeWarning, match="invalid") as found:
        assert np.isnan(made(x)).sum() == 2
    assert len(found) == 1
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        made(x)
