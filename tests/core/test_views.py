"""Views write through: what shares memory in NumPy shares its value here, with derivatives."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.helpers import close, exactly

import fgrad as fg
import fgrad.numpy as fnp

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def item_of_row(u):
    u[0][1] = 0


def row(u):
    r = u[0]
    r += 10


def rows(u):
    for r in u:
        r -= r.mean()


def transposed(u):
    u.T[0] = 0


def raveled(u):
    u.ravel()[3] = 0


def copied_to(u):
    np.copyto(u[0], 0.0)


def split_rows(u):
    a, b = u[:1], u[1:]
    a += b


def reshaped(u):
    v = u.reshape(-1)
    v *= 2


def swapped(u):
    u[0], u[1] = u[1], u[0]


def view_of_view(u):
    v = u[:, 1:]
    w = v.T[1]
    w *= v[:, 0]


def overlapping(u):
    a, b = u[:, :2], u[:, 1:]
    a *= 2
    b += a
    a -= b


def made_before_written_after(u):
    v = u[1]
    u *= u
    v += 1
    u[1, 0] = 7
    v *= v
    w = u[:, 0]
    u[0] += w[1]
    v -= w[0]


def squeezed(u):
    np.squeeze(u[None])[0] = u[1]


def expanded(u):
    np.expand_dims(u, 1)[:, 0, 2] *= 3


def moved(u):
    np.moveaxis(u[None], 0, -1)[0, :, 0] = 1.5
    np.swapaxes(u, 0, 1)[1] *= 2


def split(u):
    for k, part in enumerate(np.split(u, 3, axis=1)):
        part *= k
    np.array_split(u, 2)[1][...] += 1
    np.hsplit(u, 3)[2][:] = 2


def at_least(u):
    np.atleast_2d(u[0])[0, 0] = 5
    np.atleast_3d(u)[1] = 2
    np.atleast_1d(u)[0, 1] *= u[1, 1]


def flipped(u):
    np.flip(u, 1)[0, 0] *= 2
    np.flipud(u)[0] += 1
    np.fliplr(u)[:, 0] -= 3
    np.rot90(u)[0] *= 5
    u[::-1, ::2][0] = 4


def filled(u):
    u[0].fill(3.0)


def sorted_in_place(u):
    u *= -1
    u[1].sort()
    u.T.sort()


def partitioned(u):
    u *= -1
    u[0].partition(1)


def out(u):
    np.add(u[0], u[1], out=u[1])
    np.multiply(u, u, u)
    np.sum(u, axis=0, out=u[0])


def at(u):
    np.add.at(u[0], [0, 0, 2], u[1])
    np.multiply.at(u.T, ([0, 1], [1, 1]), 3.0)


def flat(u):
    u[1].flat[1:] = u[0, 0]
    u.flat = u.T.ravel() * 2
    u.T.flat[0] += 5


def whole(u):
    v = u[...]
    v[0] *= 3
    w = u if isinstance(u, np.ndarray) else fnp.asarray(u)
    w[1] = v[0]


def diagonal_sees(u):
    d = np.diagonal(u)
    u[0] *= 2
    u[:, 2] = d.sum()


def broadcast_sees(u):
    b = np.broadcast_to(u[0], (2, 3))
    u[0, 0] = 9
    u += b


def windows_see(u):
    w = np.lib.stride_tricks.sliding_window_view(u[0], 2)
    u[0, 1] = u[1, 1]
    u[1] *= w.sum()


def einsum_views(u):
    np.einsum("ij->ji", u)[0] = 3
    np.einsum("ii->i", u[:, :2])[:] *= 2


def copies(u):
    some = (u[[0, 1]], u[u > 2], u.copy(), u.astype(float), u.flatten(), u.T.reshape(-1), +u, u[:, [0]])
    for c in (*some, u.T.ravel(), u[0, ::-1].ravel(), u[:, 1].ravel(), np.ravel(u[:, :2])):
        c[0] = 100
        c *= 2
    u[0] += 1


def in_place_of_a_loop(u):
    for i in range(1, 3):
        u[:, i] += u[:, i - 1]
    v = u[1, ::-1]
    for i in range(3):
        v[i] *= u[0, i]


def put(u):
    np.put(u[1], [0, 2], u[0, :2])
    np.place(u.T, u.T > 4, [1.0, 2.0])
    np.putmask(u[0], np.array([True, False, True]), u[1])
    np.fill_diagonal(u[:, :2], 0.5)
    np.put_along_axis(u.T, np.array([[0, 1]]), 8.0, 0)


def shapes(u):
    v = u[0]
    w = u.T
    u.shape = (3, 2)
    u[0] *= 3
    v += u[2, 1]
    w[1] -= u[1]
    v.shape = (1, 3)
    v[0, 1] = 7
    u[1, 0] += 1
    u.shape = (2, 3)


def numbers(u):
    a = u[0, 0]
    a += 100
    s = u.sum()
    t = s
    s *= 2
    u[1] *= t / s


PROGRAMS = [
    *(item_of_row, row, rows, transposed, raveled, copied_to, split_rows, reshaped, swapped, view_of_view),
    *(overlapping, made_before_written_after, squeezed, expanded, moved, split, at_least, flipped, filled),
    *(sorted_in_place, partitioned, out, at, flat, whole, diagonal_sees, broadcast_sees, windows_see),
    *(einsum_views, copies, in_place_of_a_loop, put, shapes, numbers),
]
EXPECTED = {  # by NumPy, with np.sum(u**2)
    "item_of_row": 87,
    "row": 511,
    "rows": 4,
    "transposed": 74,
    "raveled": 75,
    "copied_to": 77,
    "split_rows": 232,
    "reshaped": 364,
}
BY_VALUE = {"copies", "put"}  # take elements by a mask, which is not known while a function is staged


def run(program):
    """Return a program as a function of its array, with a result that every element counts in."""

    def f(x):
        u = x.copy()
        program(u)
        return np.sum(u * u * np.cos(np.arange(6.0).reshape(2, 3))) + u[1, 2]

    return f


def slope(f, x, step=1e-6):
    """Return the gradient by central differences."""
    g = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        a, b = x.copy(), x.copy()
        a[i] += step
        b[i] -= step
        g[i] = (f(a) - f(b)) / (2 * step)
    return g


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.filterwarnings("ignore:Numba")
def test_values_and_derivatives_are_numpys(program):
    u = X.copy()
    program(u)
    if program.__name__ in EXPECTED:
        assert np.sum(u**2) == EXPECTED[program.__name__]
    f = run(program)
    value, gradient = fg.value_and_grad(f)(X)
    close(value, f(X))
    expected = slope(f, X)
    close(gradient, expected, 1e-6)
    t = fg.tensor(X)
    handle = t.copy()
    program(handle)
    close(handle, u)
    exactly(t, X)
    a = X.copy()
    fg.grad(f)(a)
    exactly(a, X)
    # second order, against differences of the gradient
    direction = np.sin(np.arange(6.0)).reshape(2, 3)
    _, product = fg.hvp(f, (X,), (direction,))
    step = 1e-6
    differences = (fg.grad(f)(X + step * direction) - fg.grad(f)(X - step * direction)) / (2 * step)
    close(product, differences, 1e-5)
    if program.__name__ not in BY_VALUE:
        close(fg.jit(f)(X), f(X))
        close(fg.jit(fg.grad(f))(X), expected, 1e-6)
        stack = np.stack([X, 1 + X[::-1] / 3, X * 1.1])
        close(fg.vmap(f)(stack), np.array([f(x) for x in stack]))
        close(
            fg.vmap(fg.grad(f), in_axes=2, out_axes=2)(np.moveaxis(stack, 0, 2))[..., 1], fg.grad(f)(stack[1])
        )
        close(fg.grad(fg.checkpoint(f))(X), expected, 1e-6)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_manager_sees_writes_through_views(program):
    f = run(program)
    x = fg.tensor(X)
    outer, inner = fg.GradManager().attach(x), fg.GradManager().attach(x)
    with outer:
        with inner:
            inner.backward(f(x))
        first, x.grad = x.grad, None
        outer.backward((first * first).sum())
    close(first, slope(f, X), 1e-6)
    close(x.grad, 2 * fg.hvp(f, (X,), (first.numpy(),))[1], 1e-9)


def test_control_flow_and_custom_rules():
    def body(c, x):
        c = c.copy()
        first, rest = c[:1], c[1:]
        rest *= x
        first += rest[0]
        return c, c[0]

    def scanned(x):
        c, ys = fg.lax.scan(body, x, np.array([0.5, 2.0]))
        return c.sum() + (ys**2).sum()

    def looped(x):
        c, ys = x, []
        for k in (0.5, 2.0):
            c, y = body(c, k)
            ys.append(y)
        return c.sum() + (np.stack(ys) ** 2).sum()

    x = np.array([1.0, 2.0, 3.0])
    for g in (scanned, fg.jit(scanned)):
        close(g(x), looped(x))
        close(fg.grad(g)(x), slope(looped, x), 1e-6)

    @fg.custom_vjp
    def doubled(x):
        u = x.copy()
        u[:1][...] *= 2
        return u

    doubled.defvjp(lambda x: (doubled(x), None), lambda _, ct: (_written(ct),))
    close(fg.grad(lambda x: np.sum(doubled(x) * x))(x), np.array([4.0, 4.0, 6.0]))


def _written(ct):
    v = ct.copy()
    v[0:1] += v[0]
    return v


# ---- what is recorded ------------------------------------------------------------------------------------


def test_what_was_recorded_earlier_keeps_its_values():
    x = fg.tensor(X)
    with fg.GradManager().attach(x) as gm:
        v = x[0]
        y = (v * v).sum()
        v *= 10
        x[0, 0] = 5.0
        gm.backward(y)
    close(x.grad, np.array([2 * X[0], 0 * X[0]]))


def test_a_view_made_before_the_recording_is_part_of_what_is_attached():
    x = fg.tensor(X)
    v = x[0]
    with fg.GradManager().attach(x) as gm:
        v *= 2
        gm.backward((x * x).sum())
    close(x.grad, np.array([8 * X[0], 2 * X[1]]))
    x = fg.tensor(X)
    v = x.T
    with fg.GradManager().attach(x) as gm:
        gm.backward((v * v).sum())
    close(x.grad, 2 * X)


def test_an_attached_view_is_part_of_its_base():
    u = fg.tensor(X)
    a, b = u[:1], u[1:]
    with fg.GradManager().attach([a, b]) as gm:
        a += 1
        gm.backward((a * b).sum() + (u * u).sum())
    close(a.grad, X[1:] + 2 * (X[:1] + 1))
    close(b.grad, X[:1] + 1 + 2 * X[1:])


def test_views_written_between_recordings():
    x = fg.tensor(np.arange(4.0))
    v, w = x[:2], x[1:]
    outer, inner = fg.GradManager().attach(x), fg.GradManager()
    with outer:
        v *= 2  # only the outer one follows
        with inner.attach(w):
            w += x[0]
            y = (x * v.sum()).sum()
            inner.backward(y)
        outer.backward(y)

    def f(x):
        u = x.copy()
        v, w = u[:2], u[1:]
        v *= 2
        w += u[0]
        return (u * v.sum()).sum()

    close(x.grad, slope(f, np.arange(4.0)), 1e-6)


def test_a_stale_view_belongs_to_the_recording_that_wrote():
    x = fg.tensor(np.arange(3.0))
    u = x.copy()
    with fg.GradManager().attach(x) as gm:
        u = x * 1.0
        v = u[:2]
        u[0] = x[2] * 3

        @fg.custom_vjp
        def outside(a):  # what it closes over stays outside of its rule
            return a * 1.0

        outside.defvjp(lambda a: (a * 1.0, None), lambda _, ct: (ct,))
        y = fg.checkpoint(lambda a: outside(a) * v[0])(x[1])
        gm.backward(y)
    close(x.grad, np.array([0.0, 6.0, 3.0]))


def test_writing_to_views_of_what_is_not_followed_says_nothing():
    u = fg.tensor(X)
    v = u[0]
    w = v[1:]
    u[...] = 1.0
    exactly(w, np.ones(2))
    v[...] = w[0] + 1
    exactly(u, np.array([[2.0, 2, 2], [1, 1, 1]]))


# ---- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [
        lambda u: np.broadcast_to(u, (2, 2, 3)),
        lambda u: np.broadcast_to(u, (2, 3)),
        np.diagonal,
        np.diag,
        lambda u: u.diagonal(),
        lambda u: np.linalg.diagonal(u),
        lambda u: np.lib.stride_tricks.sliding_window_view(u, 2, 1),
        np.imag,
        lambda u: np.broadcast_to(u, (2, 2, 3))[0],
        lambda u: np.diagonal(u).reshape(1, -1).T,
    ],
)
def test_read_only_views_refuse_as_numpys_do(view):
    for make in (np.array, fg.tensor):
        u = make(X)
        v = view(u)
        for write in (lambda v: v.fill(1), lambda v: v.__setitem__(0, 1), lambda v: v.__iadd__(1)):
            with pytest.raises(ValueError, match="read-only"):
                write(v)
        exactly(np.array(v), view(X))
        exactly(np.array(u), X)


def test_resize_refuses_what_shares_memory():
    for make in (np.array, fg.tensor):
        u = make(np.arange(6.0))
        v = u[:3]
        with pytest.raises(ValueError, match="references or is referenced"):
            u.resize(3)
        with pytest.raises(ValueError, match="does not own its data"):
            v.resize(2)
    del v
    u.resize(3)
    exactly(u, np.arange(3.0))


def test_what_depends_on_unknown_memory_is_refused():
    def f(x):
        u = x * 1.0  # lies in memory as x does
        v = u.reshape(-1)
        v *= 2
        return u.sum()

    with pytest.raises(TypeError, match=r"test_views\.py:\d+ depends on the memory layout(.|\n)*x\.copy\(\)"):
        fg.jit(f)(X)
    with pytest.raises(TypeError, match="depends on the memory layout"):
        fg.make_graph(f)(X)

    def unharmed(x):  # nobody looks at what is not known
        v = x.reshape(3, 2)
        v *= 2
        return v.sum()

    close(fg.jit(unharmed)(X), 42.0)

    def base_written(x):
        v = x.reshape(3, 2)
        x += 1
        return v.sum()

    with pytest.raises(TypeError, match="depends on the memory layout"):
        fg.jit(base_written)(X)
    close(fg.vmap(f)(X[None]), np.array([42.0]))
    with pytest.raises(TypeError, match="depends on the memory layout"):
        fg.vmap(f, in_axes=2)(np.stack([X, X], 2))


@pytest.mark.parametrize("layout", ["C", "F", "gaps", "turned"])
def test_memory_decides_which_shapes_are_views(layout):
    def laid_out(x):
        if layout == "gaps":
            return np.concatenate([x, x], 1)[:, :3]
        return x[::-1].copy()[::-1] if layout == "turned" else x.copy(layout)

    def f(x):
        v = x.reshape(-1)
        v *= 3
        w = x.T.ravel()
        w += 1
        z = x.copy().ravel("K")
        z[1] = 0
        return np.sum(x * np.arange(6.0).reshape(2, 3)) + z @ np.arange(6.0) + np.ravel(x, "A")[1]

    x = laid_out(X)
    expected = f(laid_out(X))
    value, gradient = fg.value_and_grad(f)(x)
    close(value, expected)
    close(gradient, slope(lambda y: f(laid_out(y)), X), 1e-6)
    close(fg.vmap(f)(np.stack([X, X])), np.array([f(X.copy())] * 2))


# ---- handles and memory ----------------------------------------------------------------------------------


def test_a_view_keeps_its_base_alive_and_no_cycle_forms():
    gc.collect()
    gc.disable()
    try:
        u = fg.tensor(np.zeros(1000))
        base = weakref.ref(u)
        v = u[10:]
        w = v[::2]
        del u, v
        assert base() is not None
        w += 1
        assert base().numpy().sum() == 495
        del w
        assert base() is None
        before = len(gc.get_objects())
        for _ in range(1000):
            u = fg.tensor(np.zeros(4))
            v, w = u[1:], u[:2]
            u += 1
            v *= 2
        del u, v, w
        assert len(gc.get_objects()) - before < 50
    finally:
        gc.enable()


def test_long_chains_of_views():
    x = fg.tensor(np.zeros(3))
    v = x
    for _ in range(100_000):
        v = v[...]
    v[0] = 1.0
    assert float(x[0]) == 1.0
    x[1] = 2.0
    assert float(v[1]) == 2.0
    del v


def test_stale_views_are_tensors():
    u = fg.tensor(X)
    for look in (
        lambda v: v + 1,
        lambda v: 1 - v,
        np.sin,
        fnp.sum,
        lambda v: v @ v,
        repr,
        len,
        list,
        copy.deepcopy,
        lambda v: pickle.loads(pickle.dumps(v)),
        lambda v: v.numpy(),
        np.asarray,
        lambda v: fg.tree.leaves([v]),
        lambda v: fg.grad(lambda x: (x * v).sum())(np.ones(3)),
        lambda v: fg.vmap(lambda x: x * v)(np.ones((2, 3))),
        lambda v: fg.jit(lambda x: x * v)(np.ones(3)),
        lambda v: np.stack([v, v]),
        lambda v: v == 1,
        lambda v: fnp.where(v > 1, v, 0),
    ):
        v = u[0]
        fresh = look(u[0] * 1)
        u[1] = 7.0
        assert isinstance(v, fg.Tensor)
        found = look(v)
        u[0] = X[0]
        assert str(found) == str(fresh)
        assert type(v + 0) is fg.Tensor


def test_scalars_are_not_written_to():
    def f(x):
        y = x
        y += 1
        return x * y

    assert f(2.0) == 6
    assert fg.grad(f)(2.0) == 5
    assert fg.jit(fg.grad(f))(2.0) == 5
    assert list(fg.vmap(fg.grad(f))(np.array([2.0, 3.0]))) == [5, 7]
    x = fg.tensor(2.0)  # an array without axes
    y = x
    y += 1
    assert float(x) == 3.0


def test_real_and_imaginary_parts():
    def f(x):
        z = x + 1j * x[::-1]
        z.real = x**2
        z.imag[0] = 5 * x[1]
        w = z.real
        w += z.imag
        z.real[1] *= 3
        return np.sum(np.abs(z) ** 2 * np.arange(1, 3))

    x = np.array([1.0, 2.0])
    close(fg.value_and_grad(f)(x)[0], f(x))
    for transform in (lambda g: g, fg.jit, lambda g: lambda x: fg.vmap(g)(x[None])[0]):
        close(transform(fg.grad(f))(x), slope(f, x), 1e-6)
    infinite = fg.tensor(np.array([complex(np.inf, 1), complex(1, np.nan)]))
    infinite.real = 2.0
    np.testing.assert_array_equal(infinite.numpy(), np.array([2 + 1j, complex(2, np.nan)]))


def test_shares_memory():
    for make in (np.array, fg.tensor):
        u = make(X)
        a, b, c = u[0], u[1], u.T[0]
        assert [np.shares_memory(u, v) for v in (a, b, c, u, u.copy())] == [True, True, True, True, False]
        assert np.shares_memory(a, c)
        assert not np.shares_memory(a, b)
        u[0, 0] = 3
        assert np.shares_memory(a, c)
        assert not np.shares_memory(a, b)


def elsewhere(f):
    """Return what a function gives in another thread, or the error that it raises there."""
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(f).result()
        except (RuntimeError, ValueError) as error:
            return type(error)


def test_a_thread_that_looks_first_takes_no_derivative_away():
    x = fg.tensor([1.0, 2.0, 3.0])
    gm = fg.GradManager().attach(x)
    with gm:
        y = x * 2
        v = y[:2]
        w = v[1:]
        y[0] = x[2] * 5
        np.testing.assert_array_equal(elsewhere(lambda: v.numpy()), [15, 4])
        np.testing.assert_array_equal(elsewhere(lambda: (w * 1).numpy()), [4])
        assert elsewhere(lambda: operator.setitem(v, 0, 1.0)) is RuntimeError
        assert elsewhere(lambda: v.fill(0.0)) is ValueError
        gm.backward(v.sum() + w.sum())
    np.testing.assert_array_equal(x.grad.numpy(), [0, 4, 5])
    np.testing.assert_array_equal(elsewhere(lambda: v.numpy()), [15, 4])


def test_a_view_of_constants_is_renewed_by_whoever_looks():
    y = fg.tensor([1.0, 2.0, 3.0])
    v = y[:2]
    y[0] = 5.0
    assert elsewhere(lambda: v.__setitem__(1, 7.0)) is None
    np.testing.assert_array_equal(y.numpy(), [5, 7, 3])


@pytest.mark.parametrize(
    "run", [lambda f, x: f(fg.tensor(x)), lambda f, x: fg.jit(f)(x), lambda f, x: fg.vjp(f, x)[0]]
)
def test_values_at_a_mask_are_those_from_before(run):
    def f(x):
        u = x * 1
        v = u[::-1]
        v[np.array([True, True, True])] = u
        return u * 1

    np.testing.assert_array_equal(run(f, np.array([1.0, 2.0, 3.0])), [3.0, 2.0, 1.0])
