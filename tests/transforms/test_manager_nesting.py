"""Managers within managers, groups, and what they are for."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.helpers import check_grad, close, differences, take_grad

import fgrad as fg
from fgrad import GradManager, GradManagerGroup, NoGradientWarning, tensor

X = np.array([0.5, 1.0, 2.0])


# ---- 41: nesting order is record order -------------------------------------------------------------


@pytest.mark.parametrize("depth", range(1, 7))
@pytest.mark.parametrize("how", ["with", "record"])
def test_nesting_to_any_depth(depth, how):
    x = tensor(1.5)
    gms = [GradManager().attach(x) for _ in range(depth)]

    def derivatives():
        y = x**6
        for gm in reversed(gms):
            gm.backward(y)
            y = take_grad(x)
        return y

    def nested(rest):
        if not rest:
            return derivatives()
        with rest[0]:
            return nested(rest[1:])

    if how == "with":
        last = nested(gms)
    else:
        for gm in gms:
            gm.record()
        last = derivatives()
    close(last, np.array(math.perm(6, depth) * 1.5 ** (6 - depth)))


def test_the_order_of_attach_and_construction_does_not_matter():
    x = tensor(X)
    inner, outer = GradManager(), GradManager()
    inner.attach(x)
    outer.attach(x)
    outer.record()
    inner.record()
    y = x * x * x
    inner.backward(y)
    outer.backward(take_grad(x))
    check_grad(x, 6 * X)


def test_the_inner_one_never_sees_the_backward_of_the_outer_one():
    x = tensor(X)
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    with outer, inner:
        y = x * x * x
        outer.backward(y)
        g = take_grad(x)
        close(g, 3 * X**2)
        with pytest.warns(NoGradientWarning):
            inner.backward(g)
    assert x.grad is None


def test_swapping_the_order_gives_no_gradient_and_not_an_error():
    """The same program in both orders: a gradient penalty, whose weight is reached either way."""
    for swapped in (False, True):
        x, w, calls = tensor(X), tensor(3.0), []
        penalty, model = GradManager(), GradManager().attach(x)
        penalty.attach(x, lambda t, g, calls=calls: calls.append(g)).attach(w)
        first, second = (model, penalty) if swapped else (penalty, model)
        with first, second:
            y = x * x * x
            model.backward(y)
            g = take_grad(x)
            penalty.backward(g * w)
        check_grad(w, np.sum(3 * X**2))
        if swapped:
            assert x.grad is None
            assert calls == []
        else:
            check_grad(x, 3.0 * 6 * X)
            assert len(calls) == 1


def test_accumulating_into_grad_is_seen_too():
    x = tensor(X)
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    with outer:
        for k in (2, 3):
            with inner:
                inner.backward(x**k)
        outer.backward(take_grad(x))  # 2 x + 3 x**2
    check_grad(x, 2 + 6 * X)


def test_an_inner_manager_opened_many_times():
    """Newton's method, differentiated: x <- x - (x**2 - a) / (2 x) from outside."""
    a, start = tensor(2.0), 1.0
    outer, inner = GradManager().attach(a), GradManager()
    with outer:
        x = tensor(start)
        for _ in range(6):
            inner.attach(x)
            with inner:
                y = x * x - a
                inner.backward(y)
            x = x - y / x.grad
        outer.backward(x)
    close(x, np.sqrt(2.0))
    check_grad(a, 0.5 / np.sqrt(2.0))


def test_the_hessian_by_rows():
    x0 = np.array([0.3, 0.7])

    def f(x):
        return np.sin(x[0]) * x[1] ** 2 + x[0] * x[1]

    x = tensor(x0)
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    rows = []
    for i in range(2):
        with outer, inner:
            y = f(x)
            inner.backward(y)
            outer.backward(take_grad(x)[i])
        rows.append(take_grad(x).numpy())
    a, b = x0
    expected = [[-np.sin(a) * b**2, 2 * b * np.cos(a) + 1], [2 * b * np.cos(a) + 1, 2 * np.sin(a)]]
    close(np.stack(rows), expected)


def test_no_perturbation_confusion():
    x = tensor(3.0)
    outer = GradManager().attach(x)
    with outer:
        y = tensor(1.0)
        with GradManager().attach(y) as inner:
            inner.backward(x * y)
        outer.backward(x * y.grad)  # d/dx (x * d/dy (x y)) = 2 x
    check_grad(x, 6.0)
    x.grad = None
    with outer:
        y = tensor(1.0)
        with GradManager().attach(y) as inner:
            inner.backward(x + y)
        outer.backward(x * y.grad)  # d/dx (x * 1)
    check_grad(x, 1.0)


# ---- 42: groups ------------------------------------------------------------------------------------


def test_a_group_records_all_as_equals_and_yields_itself():
    x, y, z = tensor(2.0), tensor(3.0), tensor(5.0)
    a, b, c = GradManager().attach(x), GradManager().attach(y), GradManager().attach(z)
    group = a | b | c
    assert isinstance(group, GradManagerGroup)
    assert not any(gm.is_recording for gm in (a, b, c)), "not before it is entered"
    for _ in range(2):  # a group can be used again
        with group as yielded:
            assert yielded is group
            assert all(gm.is_recording for gm in (a, b, c))
            out = x * y * z
            b.backward(out)
            assert a.is_recording
            a.backward(out)
        assert not any(gm.is_recording for gm in (a, b, c))
        assert z.grad is None, "each has its own backward"
        close(take_grad(x), np.array(15.0))
        close(take_grad(y), np.array(10.0))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_no_member_sees_the_backward_of_another(order):
    x, calls = tensor(X), []
    gms = [GradManager().attach(x) for _ in range(2)]
    first, second = (gms[i] for i in order)
    with gms[0] | gms[1]:
        y = x * x * x
        first.backward(y)
        g = take_grad(x)
        close(g, 3 * X**2)
        second.attach(x, lambda t, g: calls.append(g))
        with pytest.warns(NoGradientWarning):
            second.backward(g)
    assert x.grad is None
    assert calls == []


def test_a_member_takes_the_gradient_of_another_as_a_constant():
    x = tensor(X)
    a, b = GradManager().attach(x), GradManager().attach(x)
    with a | b:
        a.backward(x * x)
        g = take_grad(x)
        b.backward(g * x)
    check_grad(x, 2 * X)


BRACKETS = {
    "left": lambda a, b, c, d: ((a | b) | c) | d,
    "right": lambda a, b, c, d: a | (b | (c | d)),
    "pairs": lambda a, b, c, d: (a | b) | (c | d),
    "middle": lambda a, b, c, d: a | (b | c) | d,
}


@pytest.mark.parametrize("make", BRACKETS.values(), ids=BRACKETS)
def test_brackets_do_not_matter(make):
    ts = [tensor(float(i + 2)) for i in range(4)]
    gms = [GradManager().attach(t) for t in ts]
    group = make(*gms)
    assert isinstance(group, GradManagerGroup)
    assert [id(m) for m in group.managers] == [id(m) for m in gms]
    with group as yielded:
        assert yielded is group
        assert all(gm.is_recording for gm in gms)
        y = ts[0] * ts[1] * ts[2] * ts[3]
        for gm in gms:
            gm.backward(y)
    for t in ts:
        check_grad(t, 120.0 / t.item())


@pytest.mark.parametrize("busy", [0, 1, 2])
@pytest.mark.parametrize("make", [lambda a, b, c: a | b | c, lambda a, b, c: a | (b | c)])
def test_entry_is_atomic(make, busy):
    ts = [tensor(float(i + 2)) for i in range(3)]
    gms = [GradManager().attach(t) for t in ts]
    gms[busy].record()
    y = ts[busy] * 10.0
    with pytest.raises(RuntimeError), make(*gms):
        pytest.fail("the body must not run")
    assert [gm.is_recording for gm in gms] == [i == busy for i in range(3)]
    gms[busy].backward(y)
    check_grad(ts[busy], 10.0)
    with make(*gms):
        assert all(gm.is_recording for gm in gms)


def test_entry_is_atomic_when_a_tensor_is_recorded_in_another_thread():
    x, y = tensor(2.0), tensor(3.0)
    a, b = GradManager().attach(x), GradManager().attach(y)

    def thread():
        with pytest.raises(RuntimeError), a | b:
            pytest.fail("the body must not run")
        assert not a.is_recording
        assert not b.is_recording

    with GradManager().attach(y), ThreadPoolExecutor(1) as pool:
        pool.submit(thread).result(timeout=60)
    with a | b:
        a.backward(x * y)
    check_grad(x, 3.0)


def test_a_group_cannot_be_entered_twice_at_once():
    a, b = GradManager(), GradManager()
    with a | b as group:
        with pytest.raises(RuntimeError), group:
            pytest.fail("the body must not run")
        assert a.is_recording
        assert b.is_recording


def test_a_manager_counts_once_in_a_group():
    a, b, c = GradManager(), GradManager(), GradManager()
    for make in (
        lambda: a | a,
        lambda: a | b | a,
        lambda: a | (b | a),
        lambda: (a | b) | (b | c),
        lambda: (a | b) | (a | b),
    ):
        with pytest.raises(ValueError):
            make()


@pytest.mark.parametrize("other", [None, 3, [], "gm", tensor(1.0)], ids=lambda o: type(o).__name__)
def test_only_managers_and_groups_make_a_group(other):
    a, b = GradManager(), GradManager()
    for make in (lambda: a | other, lambda: other | a, lambda: (a | b) | other, lambda: other | (a | b)):
        with pytest.raises(TypeError):
            make()


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_the_block_releases_all_and_swallows_nothing(kind):
    a, b, error = GradManager(), GradManager(), kind()
    with pytest.raises(kind) as e, a | b:
        raise error
    assert e.value is error
    assert not a.is_recording
    assert not b.is_recording


def test_a_shared_tensor_is_seen_by_every_member():
    x = tensor(X)
    a, b, c = (GradManager().attach(x) for _ in range(3))
    with a | b | c:
        y = x * x
        for n, gm in enumerate((b, c, a), 1):
            gm.backward(y)
            check_grad(x, 2 * X * n)


def test_members_can_be_attached_to_inside_the_block():
    x, y = tensor(2.0), tensor(3.0)
    a, b = GradManager(), GradManager()
    with a | b:
        h = x * y
        a.attach(x)
        b.attach(h)
        out = h * x
        a.backward(out)
        b.backward(out)
    check_grad(x, 6.0)
    check_grad(h, 2.0)


# ---- 43: groups in managers, managers in groups, any order of leaving ------------------------------


def test_a_manager_around_a_group_sees_each_member():
    x = tensor(X)
    outer, a, b = (GradManager().attach(x) for _ in range(3))
    with outer, a | b:
        y = x * x * x
        a.backward(y)
        ga = take_grad(x)
        b.backward(y * x)
        gb = take_grad(x)
        outer.backward([ga, gb])  # 3 x**2 and 4 x**3
    check_grad(x, 6 * X + 12 * X**2)


def test_members_around_a_manager_each_see_it():
    x = tensor(X)
    a, b, inner = (GradManager().attach(x) for _ in range(3))
    with a | b:
        with inner:
            inner.backward(x * x * x)
        g = take_grad(x)
        for gm in (a, b):
            gm.backward(g)
            close(take_grad(x), 6 * X)


def test_a_group_in_a_group():
    x = tensor(X)
    a, b, c, d = (GradManager().attach(x) for _ in range(4))
    with a | b, c | d:
        y = x**4
        c.backward(y)
        g = take_grad(x)
        with pytest.warns(NoGradientWarning):
            d.backward(g)
        a.backward(g)
        h = take_grad(x)
        close(h, 12 * X**2)
        with pytest.warns(NoGradientWarning):
            b.backward(h)
    assert x.grad is None


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("how", ["backward", "release"])
def test_leaving_in_any_order_is_right(order, how):
    ts = [tensor(t) for t in (2.0, 3.0, 5.0)]
    gms = [GradManager().attach(t) for t in ts]
    for gm in gms:
        gm.record()
    y = ts[0] * ts[1] * ts[2]
    for n, i in enumerate(order):
        if how == "release" and n == 0:
            gms[i].release()
            continue
        y = y * 1.0  # the rest goes on recording
        gms[i].backward(y)
        check_grad(ts[i], 30.0 / ts[i].item())
        assert [gm.is_recording for gm in gms] == [k in order[n + 1 :] for k in range(3)]


@pytest.mark.parametrize("leaves", [0, 1, 2])
def test_the_others_keep_their_order_when_one_leaves(leaves):
    x = tensor(X)
    gms = [GradManager().attach(x) for _ in range(3)]
    for gm in gms:
        gm.record()
    y = x**4
    gms.pop(leaves).release()
    outer, inner = gms
    inner.backward(y)
    g = take_grad(x)
    close(g, 4 * X**3)
    outer.backward(g)
    check_grad(x, 12 * X**2)


def test_recording_again_moves_a_manager_inside():
    x = tensor(X)
    a, b = GradManager().attach(x), GradManager().attach(x)
    a.record()
    b.record()
    a.release()
    a.record()  # now a is the inner one
    y = x * x * x
    a.backward(y)
    b.backward(take_grad(x))
    check_grad(x, 6 * X)


def test_blocks_may_overlap():
    x = tensor(X)
    a, b, c = (GradManager().attach(x) for _ in range(3))
    a.__enter__()
    b.__enter__()
    y = x * x * x
    a.__exit__(None, None, None)
    with c:
        z = y * x  # y is a constant for c
        c.backward(z)
        g = take_grad(x)
        close(g, X**3)
        b.backward([z, g])
    b.__exit__(None, None, None)
    check_grad(x, 4 * X**3 + 3 * X**2)


def test_a_member_may_leave_its_group_early_and_record_again_inside_it():
    x = tensor(X)
    a, b = GradManager().attach(x), GradManager().attach(x)
    with a | b:
        a.release()
        assert b.is_recording
        a.record()
        y = x * x * x
        a.backward(y)
        b.backward(take_grad(x))
    check_grad(x, 6 * X)
    assert not a.is_recording


def test_recordings_kept_open_by_generators():
    """Each generator holds a block open; they are closed in the order in which they were opened."""
    x = tensor(2.0)

    def step(gm):
        with gm:
            y = x * x * x
            yield
            gm.backward(y)
            yield take_grad(x).item()

    gms = [GradManager().attach(x) for _ in range(3)]
    steps = [step(gm) for gm in gms]
    for s in steps:
        next(s)
    assert [next(s) for s in steps] == [12.0] * 3
    for s in steps:
        s.close()


# ---- 44: jvp by double reverse ----------------------------------------------------------------------

A = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])
MAPS = {
    "elementwise": np.sin,
    "linear": lambda x: A @ x,
    "composition": lambda x: np.exp(A @ np.sin(x)) * x[:2],
    "scalar": lambda x: np.sum(x * x * x),
    "identity": lambda x: x,
    "identity by a view": lambda x: x.reshape(3, 1).reshape(3),
    "part": lambda x: x[1:],
    "ignored entry": lambda x: x[:1] * x[:1] + 0.0 * x,
    "zero": lambda x: x * 0.0,
    "repeated": lambda x: np.stack([x, x, x * x]),
}


@pytest.mark.parametrize("f", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("start", ["zeros", "random"])
def test_jvp_by_double_reverse(f, start):
    rng = np.random.default_rng(0)
    tangent, out_shape = rng.normal(size=3), np.shape(f(X))
    x = tensor(X)
    u = tensor(np.zeros(out_shape) if start == "zeros" else rng.normal(size=out_shape))
    outer, inner = GradManager().attach(u), GradManager().attach(x)
    with outer:
        with inner:
            inner.backward(f(x), u)
        jacobian = differences(f, X)
        g = take_grad(x)
        close(g, np.tensordot(u.numpy(), jacobian, u.ndim), rtol=1e-7)
        outer.backward(g, tangent)
    assert x.grad is None
    assert type(u.grad) is fg.Tensor
    assert u.grad.shape == out_shape
    close(u.grad, np.tensordot(jacobian, tangent, 1), rtol=1e-7)


def test_the_gradient_is_linear_in_the_cotangent():
    x = tensor(X)
    outer, inner = GradManager(), GradManager().attach(x)
    found = []
    for scale in (1.0, 2.0, -3.0, 0.0):
        u = tensor(np.full(3, scale))
        with outer.attach(u):
            with inner:
                inner.backward(np.sin(x), u)
            found.append(take_grad(x))
            outer.backward(found[-1], X)
        check_grad(u, np.cos(X) * X)  # the same at every u
        close(found[-1], scale * np.cos(X))


def test_the_identity_is_the_tangent_itself():
    x, u = tensor(X), tensor(np.zeros(3))
    outer, inner = GradManager().attach(u), GradManager().attach(x)
    with outer:
        with inner:
            inner.backward(x, u)
        close(x.grad, np.zeros(3))
        outer.backward(x.grad, np.array([1.0, 2.0, 3.0]))
    check_grad(u, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("t", [X, fg.tensor(X)], ids=["array", "tensor"])
def test_zero_for_functions_that_ignore_x(t):
    c = tensor([1.0, 2.0])
    out, tangent_out = fg.jvp(lambda x: c, (t,), (np.ones(3),))
    close(out, [1.0, 2.0])
    close(tangent_out, [0.0, 0.0])
    out, tangent_out = fg.jvp(lambda x: x, (t,), (np.ones(3),))
    close(out, X)
    close(tangent_out, np.ones(3))


def test_where_only_some_outputs_ignore_x():
    x, us = tensor(X), [tensor(np.zeros(3)), tensor(np.zeros(2))]
    outer, inner = GradManager().attach(us), GradManager().attach(x)
    with outer:
        with inner:
            inner.backward([x * x, x[:2] * 0.0], us)
        outer.backward(x.grad, np.ones(3))
    check_grad(us[0], 2 * X)
    check_grad(us[1], 0.0)


def test_a_second_derivative_along_a_direction():
    """Forward over forward over reverse, all by managers: d**2/dt**2 of sum(x**4) along v."""
    v = np.array([1.0, -1.0, 0.5])
    x = tensor(X)
    gms = [GradManager().attach(x) for _ in range(2)]
    with gms[0], gms[1]:
        y = np.sum(x**4)
        gms[1].backward(y)
        gms[0].backward(take_grad(x), v)
    check_grad(x, 12 * X**2 * v)
