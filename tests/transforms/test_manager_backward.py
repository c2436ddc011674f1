"""What `GradManager.backward` does and leaves behind."""

from __future__ import annotations

import warnings
from concurrent.futures import Future

import numpy as np
import pytest
from tests.helpers import check_grad, close

import fgrad as fg
from fgrad import GradManager, NoGradientWarning, tensor


class BoomError(Exception):
    """The user's own exception."""


class BaseBoom(BaseException):
    """Like KeyboardInterrupt, not an Exception."""


# ---- 27: y without history -----------------------------------------------------------------------


def test_the_warning_is_a_user_warning():
    assert issubclass(NoGradientWarning, UserWarning)


@pytest.fixture
def others():
    """Managers that record while the test runs."""
    managers = []
    yield managers
    for m in managers:
        m.release()


def constant(gm, x, others):
    return tensor(2.0)


def made_before(gm, x, others):
    gm.release()
    y = x * 2.0
    gm.record()
    return y


def detached(gm, x, others):
    return (x * 2.0).detach()


def of_the_outer_manager(gm, x, others):
    gm.release()
    w = tensor(1.0)
    others.append(GradManager().attach(w))
    others[0].record()
    gm.record()
    return w * 2.0


def of_an_inner_manager(gm, x, others):
    w = tensor(1.0)
    others.append(GradManager().attach(w))
    others[0].record()
    return w * 2.0


def of_the_last_recording(gm, x, others):
    y = x * 2.0
    gm.release()
    gm.record()
    return y


def already_differentiated(gm, x, others):
    y = x * 2.0
    gm.backward(y)
    gm.record()
    return y


def of_a_recording_of_another(gm, x, others):
    w = tensor(1.0)
    with GradManager().attach(w):
        return w * 2.0


def overwritten_leaf(gm, x, others):
    x[...] = 5.0
    return x


def overwritten_intermediate(gm, x, others):
    y = x * 2.0
    y[...] = 5.0
    return y


REASONS = [
    (constant, "constant"),
    (made_before, "constant"),
    (detached, "constant"),
    (of_the_outer_manager, "another manager"),
    (of_an_inner_manager, "another manager"),
    (of_the_last_recording, "finished"),
    (already_differentiated, "finished"),
    (of_a_recording_of_another, "finished"),
    (overwritten_leaf, r"\[\.\.\.\] ="),
    (overwritten_intermediate, r"\[\.\.\.\] ="),
]


@pytest.mark.parametrize("make, reason", REASONS, ids=[f.__name__ for f, _ in REASONS])
@pytest.mark.parametrize("kept", [None, 7.0])
def test_a_y_that_is_not_tracked_warns_with_the_reason(make, reason, kept, others):
    x, calls = tensor(1.0), []
    gm = GradManager().attach(x, lambda t, g: calls.append(g))
    gm.record()
    y = make(gm, x, others)
    calls.clear()
    grad = None if kept is None else tensor(kept)
    x.grad = grad
    with pytest.warns(NoGradientWarning, match=reason) as caught:
        gm.backward(y)
    assert len(caught) == 1
    assert x.grad is grad
    assert calls == []
    assert not gm.is_recording
    with gm:
        gm.backward(x * 3.0)
    check_grad(x, 3.0 if kept is None else kept + 3.0)


def test_the_four_reasons_have_words_of_their_own(others):
    messages = {}
    for make, reason in REASONS:
        x = tensor(1.0)
        gm = GradManager().attach(x)
        gm.record()
        y = make(gm, x, others)
        with pytest.warns(NoGradientWarning) as caught:
            gm.backward(y)
        messages[reason] = str(caught[0].message)
        while others:
            others.pop().release()
    assert len(set(messages.values())) == 4


def test_the_warning_points_to_the_line_that_called_backward():
    gm = GradManager()
    with gm, pytest.warns(NoGradientWarning) as caught:
        gm.backward(tensor(2.0))
    assert caught[0].filename == __file__


def test_each_untracked_y_of_a_tree_of_them():
    x = tensor(1.0)
    gm = GradManager().attach(x)
    with gm, pytest.warns(NoGradientWarning, match="constant"):
        gm.backward({"a": tensor(1.0), "b": [tensor(2.0)]}, {"a": 1.0, "b": [2.0]})
    assert x.grad is None


def test_as_an_error_the_warning_leaves_the_manager_reusable():
    x = tensor(1.0)
    gm = GradManager().attach(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gm, pytest.raises(NoGradientWarning):
            gm.backward(tensor(2.0))
    assert not gm.is_recording
    with gm:
        gm.backward(x * 3.0)
    check_grad(x, 3.0)


# ---- 28: tensors that no gradient reaches --------------------------------------------------------


@pytest.mark.parametrize("kept", [None, 7.0])
def test_a_tensor_that_no_gradient_reaches_is_left_alone(kept):
    x, w, z = tensor(1.0), tensor(2.0), tensor(3.0)
    w.grad = grad = None if kept is None else tensor(kept)
    calls = []
    gm = GradManager().attach([x, w, z], lambda t, g: calls.append(id(t)))
    with gm:
        unused = w * x
        gm.backward(x * z * w.detach())
        assert unused is not None
    assert w.grad is grad
    assert sorted(calls) == sorted([id(x), id(z)])
    check_grad(x, 6.0)


def test_a_gradient_that_is_zero_is_a_gradient():
    x, w, calls = tensor([1.0, 2.0]), tensor([3.0, 4.0]), []
    gm = GradManager().attach([x, w], lambda t, g: calls.append(t))
    with gm:
        gm.backward(x * 0.0 + w[:1])
    assert len(calls) == 2
    check_grad(x, 0.0)
    check_grad(w, [2.0, 0.0])


def test_a_zero_seed_is_a_gradient_too():
    x, calls = tensor([1.0, 2.0]), []
    gm = GradManager().attach(x, lambda t, g: calls.append(t))
    with gm:
        gm.backward(x * 3.0, np.zeros(2))
    assert len(calls) == 1
    check_grad(x, 0.0)


def test_a_rule_that_gives_none_reaches_nothing():
    class Wall(fg.Function):
        def forward(self, a):
            return a * 1.0

        def backward(self, ct):
            return None

    x, calls = tensor(1.0), []
    gm = GradManager().attach(x, lambda t, g: calls.append(t))
    with gm:
        gm.backward(Wall()(x))
    assert calls == []
    assert x.grad is None


# ---- 29: the order of events ---------------------------------------------------------------------


def step(log, name):
    """Return a product of two tensors whose reverse step is logged."""

    class Product(fg.Function):
        def forward(self, a, b):
            self.a, self.b = a, b
            return a * b

        def backward(self, ct):
            log.append(f"step {name}")
            return ct * self.b, ct * self.a

    return Product()


@pytest.mark.parametrize("dead_use", [False, True])
def test_a_callback_runs_as_soon_as_its_gradient_is_complete(dead_use):
    """So the gradient of the last layer travels while the first layers are still being differentiated."""
    log, x = [], tensor(2.0)
    ws = [tensor(3.0), tensor(5.0), tensor(7.0)]
    gm = GradManager()
    for i, w in enumerate(ws):
        gm.attach(w, lambda t, g, i=i: log.append(f"callback {i}"))
    with gm:
        if dead_use:  # an early use without any effect delays nothing
            step(log, "dead")(x, ws[2])
        h = x
        for i, w in enumerate(ws):
            h = step(log, i)(h, w)
        gm.backward(h)
    assert log == [f"{what} {i}" for i in (2, 1, 0) for what in ("step", "callback")]
    for w, expected in zip(ws, (2.0 * 35, 2.0 * 21, 2.0 * 15), strict=True):
        check_grad(w, expected)


def test_a_shared_tensor_waits_for_its_earliest_use():
    log, x = [], tensor(2.0)
    shared, middle = tensor(3.0), tensor(5.0)
    gm = GradManager()
    gm.attach(shared, lambda t, g: log.append(f"shared {g.item()}"))
    gm.attach(middle, lambda t, g: log.append("middle"))
    with gm:
        h = step(log, 0)(x, shared)
        h = step(log, 1)(h, middle)
        h = step(log, 2)(h, shared)
        gm.backward(h)
    assert log == ["step 2", "step 1", "middle", "step 0", "shared 60.0"]


def test_a_tensor_that_is_y_itself_needs_no_step():
    log, x, w = [], tensor(2.0), tensor(3.0)
    gm = GradManager().attach(w, lambda t, g: log.append("callback w")).attach(x)
    with gm:
        gm.backward([step(log, 0)(x, x), w])
    assert log == ["callback w", "step 0"]


class LoggedFuture(Future):
    """A future that says when it is asked for its result, and is never waited for."""

    def __init__(self, log, look=lambda: None):
        super().__init__()
        self.log, self.look = log, look

    def result(self, timeout=None):
        assert self.done(), "asked before the after-backward callbacks ran"
        self.look()
        self.log.append("future")
        return super().result(0)


def test_sweep_callbacks_after_backward_futures_grads_release():
    log, futures = [], []
    x, y = tensor(2.0), tensor(3.0)
    y.grad = kept = tensor(10.0)
    gm = GradManager()

    def look():
        assert x.grad is None
        assert y.grad is kept
        with pytest.raises(RuntimeError):
            gm.record()  # not released yet

    def callback(t, g):
        look()
        log.append("callback")
        futures.append((LoggedFuture(log, look), g * 2.0))
        return futures[-1][0]

    def after(name):
        def run():
            look()
            log.append(name)
            for f, g in futures:
                if not f.done():
                    f.set_result(g)

        return run

    gm.attach([x, y], callback).after_backward(after("after 1")).after_backward(after("after 2"))
    gm.record()
    gm.backward(step(log, 0)(x, y))
    assert log == ["step 0", "callback", "callback", "after 1", "after 2", "future", "future"]
    check_grad(x, 6.0)
    check_grad(y, 10.0 + 4.0)
    assert not gm.is_recording


# ---- 30: exceptions ------------------------------------------------------------------------------


def raises_in_callback(gm, x, fire):
    gm.attach(x, lambda t, g: fire())
    return x * 1.0


def raises_in_second_callback(gm, x, fire):
    gm.attach(x, [lambda t, g: g * 2.0, lambda t, g: fire()])
    return x * 1.0


def raises_in_after_backward(gm, x, fire):
    gm.after_backward(lambda: None).after_backward(fire)
    return x * 1.0


def raises_in_future(gm, x, fire):
    def callback(t, g):
        future = Future()
        try:
            fire()
        except BaseException as e:
            future.set_exception(e)
            return future

    gm.attach(x, callback)
    return x * 1.0


def raises_in_rule(gm, x, fire):
    class Rule(fg.Function):
        def forward(self, a):
            return a * 1.0

        def backward(self, ct):
            fire()
            return ct

    return Rule()(x)


PLACES = [
    raises_in_callback,
    raises_in_second_callback,
    raises_in_after_backward,
    raises_in_future,
    raises_in_rule,
]


@pytest.mark.parametrize("kind", [BoomError, BaseBoom])
@pytest.mark.parametrize("place", PLACES, ids=lambda f: f.__name__)
def test_an_exception_changes_no_grad_and_harms_no_manager(place, kind):
    x, y, u, v = (tensor(t) for t in (2.0, 3.0, 5.0, 7.0))
    x.grad = kept = tensor(100.0)
    gm, peer, outer = GradManager().attach([x, y]), GradManager().attach(u), GradManager().attach(v)
    error = kind("mine")
    armed = [error]

    def fire():
        if armed:
            raise armed.pop()

    with outer:
        with gm | peer:
            z = place(gm, x * y * u * v, fire) if place is raises_in_rule else place(gm, x, fire) * y * u * v
            with pytest.raises(kind) as e:
                gm.backward(z)
            assert e.value is error
            assert x.grad is kept
            assert y.grad is None
            assert not gm.is_recording
            assert peer.is_recording
            assert outer.is_recording
            peer.backward(z)
            check_grad(u, 2.0 * 3.0 * 7.0)
        with gm:
            gm.backward(x * y * v)
        check_grad(y, 2.0 * 7.0)
        outer.backward([z, y.grad])
    check_grad(v, 2.0 * 3.0 * 5.0 + 2.0)


def test_also_where_an_earlier_callback_had_already_run():
    x, y, order = tensor(2.0), tensor(3.0), []

    def second_fails(t, g):
        order.append(t)
        if len(order) == 2:
            raise BoomError
        return g

    gm = GradManager().attach([x, y], second_fails)
    with pytest.raises(BoomError), gm:
        gm.backward(x * y)
    assert len(order) == 2
    assert x.grad is None
    assert y.grad is None
    assert not gm.is_recording
    with gm:
        gm.backward(x * y)
    check_grad(x, 3.0)


def test_the_second_of_two_futures_fails():
    x, y, futures = tensor(2.0), tensor(3.0), []

    def callback(t, g):
        futures.append(Future())
        if len(futures) == 2:
            futures[-1].set_exception(BoomError())
        else:
            futures[-1].set_result(g)
        return futures[-1]

    gm = GradManager().attach([x, y], callback)
    with gm:
        with pytest.raises(BoomError):
            gm.backward(x * y)
        assert x.grad is None
        assert y.grad is None
        assert not gm.is_recording


def test_after_a_failed_backward_the_callbacks_of_that_round_are_over():
    x, calls = tensor(2.0), []
    gm = GradManager().attach(x, lambda t, g: calls.append("callback"))
    gm.after_backward(lambda: calls.append("after"))
    with gm, pytest.raises((TypeError, ValueError)):
        gm.backward(x * 2.0, "no cotangent")
    assert calls == []
    with gm:
        gm.backward(x * 2.0)
    assert calls == ["callback", "after"]


# ---- 31: what lands in .grad ---------------------------------------------------------------------


def test_grad_starts_as_the_gradient_and_then_accumulates_in_new_tensors():
    x = tensor([1.0, 2.0])
    assert x.grad is None
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * 3.0)
    first = x.grad
    check_grad(x, 3.0)
    with gm:
        gm.backward(x * x)
    assert x.grad is not first
    close(first, [3.0, 3.0])
    check_grad(x, [5.0, 7.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("shape, wide", [((), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((0,), (2, 0))])
def test_grad_has_the_shape_and_dtype_of_the_snapshot(shape, wide, dtype):
    x = tensor(np.ones(shape, dtype))
    gm = GradManager().attach(x)
    for n in (1, 2):
        with gm:
            gm.backward(x * np.full(wide, 2.0, np.float64))  # wider in shape and dtype
        copies = np.prod(wide) / np.prod(shape) if np.prod(shape) else 0.0
        check_grad(x, np.full(shape, 2.0 * n * copies, dtype))


def test_a_real_tensor_has_a_real_gradient():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * np.array([2 + 1j, 3j]))
    check_grad(x, [2.0, 0.0])  # JAX's convention: the real part of ct * slope


def test_also_where_the_user_had_set_a_wider_grad():
    x = tensor(np.float32([1.0, 2.0]))
    x.grad = tensor(np.array([0.5, 0.25]))
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * 2)
    check_grad(x, np.float32([2.5, 2.25]))


def write(t):
    """Write to all memory that user code can get hold of through `t`."""
    for view in (np.asarray(t), np.asarray(t)[...], t.numpy()):
        if view.flags.writeable:
            view[...] = 99.0


def test_grad_shares_no_memory_with_dy():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    dy = np.array([3.0, 4.0])
    for f in (lambda x: x, lambda x: x + 0.0, lambda x: x.reshape(1, 2).reshape(2)):
        x.grad = None
        with gm:
            gm.backward(f(x), dy)
        dy[:] = 99.0
        check_grad(x, [3.0, 4.0])
        write(x.grad)
        close(dy, [99.0, 99.0])
        dy[:] = [3.0, 4.0]


def test_grad_shares_no_memory_with_a_tensor_dy():
    x, dy = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x, dy)
    assert x.grad is not dy
    dy += 1.0
    dy[0] = 0.0
    check_grad(x, [3.0, 4.0])
    write(x.grad)
    x.grad[1] = 50.0
    close(dy, [0.0, 5.0])


def test_two_grads_share_no_memory():
    x, y, z = (tensor([1.0, 2.0]) for _ in range(3))
    gm = GradManager().attach([x, y, z])
    with gm:
        gm.backward(x + y + z.reshape(2, 1).reshape(2))
    assert len({id(t.grad) for t in (x, y, z)}) == 3
    y.grad[0] = 7.0
    z.grad *= 5.0
    check_grad(x, 1.0)
    check_grad(y, [7.0, 1.0])
    check_grad(z, 5.0)
    write(x.grad)
    check_grad(y, [7.0, 1.0])
    check_grad(z, 5.0)


def test_nor_do_the_grads_of_two_managers():
    x = tensor([1.0, 2.0])
    a, b = GradManager().attach(x), GradManager().attach(x)
    grads = []
    with a | b:
        y = x + 1.0
        for gm in (a, b):
            gm.backward(y)
            grads.append(x.grad)
            x.grad = None
    write(grads[0])
    close(grads[1], [1.0, 1.0])


def test_a_value_is_never_written_through_its_gradient():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * x * 0.5)  # the gradient equals the value
    write(x.grad)
    x.grad[0] = 5.0
    close(x, [1.0, 2.0])


def test_a_grad_may_be_reset_or_set_by_the_user():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    x.grad = mine = tensor([10.0, 20.0])
    with gm:
        gm.backward(x * 3.0)
    check_grad(x, [13.0, 23.0])
    close(mine, [10.0, 20.0])
    x.grad = None
    with gm:
        gm.backward(x * 3.0)
    check_grad(x, 3.0)
