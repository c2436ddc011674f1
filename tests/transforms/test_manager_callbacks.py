"""What callbacks of a GradManager get, give and may do."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from tests.helpers import check_grad, close

import fgrad as fg
from fgrad import GradManager, NoGradientWarning, tensor

# ---- 32: what a callback gets and gives ----------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(), (2,), (0,), (2, 1)])
def test_the_very_tensor_and_its_complete_gradient_once(shape, dtype):
    x, calls = tensor(np.full(shape, 2, dtype)), []
    gm = GradManager().attach(x, lambda *args: calls.append(args))
    with gm:
        y = x * 3 + x * x
        z = y + x
        gm.backward([z, x])  # four uses and a seed of its own
    ((t, g),) = calls
    assert t is x
    assert type(g) is fg.Tensor
    assert g.dtype == dtype
    close(g, np.full(shape, 3 + 4 + 1 + 1, dtype))
    with gm:
        gm.backward(x * 3)
    assert len(calls) == 2
    assert calls[1][0] is x
    close(calls[1][1], np.full(shape, 3, dtype))  # this backward's, not what .grad has summed


def test_callbacks_chain_and_the_last_result_goes_to_grad():
    x, seen = tensor([1.0, 2.0]), []

    def first(t, g):
        seen.append(g.numpy())
        return g * 2.0

    def second(t, g):
        seen.append(g.numpy())
        return g + 1.0

    gm = GradManager().attach(x, [first, second]).attach(x, callback=first)
    with gm:
        gm.backward(x * 3.0)
    np.testing.assert_array_equal(seen, [[3.0, 3.0], [6.0, 6.0], [7.0, 7.0]])
    check_grad(x, 14.0)


def test_the_raw_gradient_goes_upstream():
    a = tensor([1.0, 2.0])
    gm = GradManager().attach(a)
    with gm:
        b = a * 3.0
        gm.attach(b, lambda t, g: g * 1000.0)
        gm.backward(b * 5.0)
    check_grad(b, 5000.0)
    check_grad(a, 15.0)


def test_the_result_is_added_to_what_grad_was():
    x = tensor([1.0, 2.0])
    x.grad = kept = tensor([100.0, 200.0])
    gm = GradManager().attach(x, lambda t, g: g * 2.0)
    with gm:
        gm.backward(x * 3.0)
    check_grad(x, [106.0, 206.0])
    close(kept, [100.0, 200.0])


def test_changing_the_gradient_in_place_changes_neither_other_gradients_nor_upstream():
    a, b = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    gm = GradManager().attach(a)

    def clip(t, g):
        g *= 0.0
        return g

    with gm:
        h = a + 0.0
        gm.attach([h, b], clip)
        gm.backward(h + b)
    check_grad(h, 0.0)
    check_grad(b, 0.0)
    check_grad(a, 1.0)


def test_a_callback_may_keep_the_gradient_it_gets():
    x, kept = tensor([1.0, 2.0]), []
    gm = GradManager().attach(x, lambda t, g: kept.append(g))
    with gm:
        gm.backward(x * 3.0)
    x.grad[0] = 50.0
    with gm:
        gm.backward(x * 3.0)
    close(kept[0], [3.0, 3.0])


# ---- 33: what a callback may return --------------------------------------------------------------


def test_none_means_unchanged():
    x, seen = tensor([1.0, 2.0]), []
    chain = [lambda t, g: g * 2.0, lambda t, g: None, lambda t, g: seen.append(g.numpy())]
    gm = GradManager().attach(x, chain)
    with gm:
        gm.backward(x * 3.0)
    close(seen[0], [6.0, 6.0])
    check_grad(x, 6.0)


def later(value):
    """Return a future that already has its result."""
    future = Future()
    future.set_result(value)
    return future


WRONG = {
    "array": lambda g: g.numpy(),
    "number": lambda g: 1.0,
    "list": lambda g: [g],
    "tuple": lambda g: (g,),
    "string": lambda g: "g",
    "scalar": lambda g: tensor(1.0),
    "shape": lambda g: g[:1],
    "transposed shape": lambda g: g.reshape(2, 1),
    "narrower dtype": lambda g: g.astype(np.float32),
    "complex": lambda g: g * 1j,
    "integer": lambda g: tensor(np.ones(2, np.int64)),
}


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("bad", WRONG.values(), ids=WRONG)
def test_another_type_shape_or_dtype_raises_and_names_the_callback(bad, deferred):
    x = tensor([1.0, 2.0])

    def my_reduction(t, g):
        return later(bad(g)) if deferred else bad(g)

    gm = GradManager().attach(x, my_reduction)
    with gm:
        with pytest.raises((TypeError, ValueError), match="my_reduction"):
            gm.backward(x * 3.0)
        assert x.grad is None
        assert not gm.is_recording


def test_the_message_names_the_one_that_was_wrong():
    x = tensor([1.0, 2.0])

    def good_one(t, g):
        return g * 2.0

    def bad_one(t, g):
        return g[0]

    def never_called(t, g):
        pytest.fail("the chain has ended")

    gm = GradManager().attach(x, [good_one, bad_one, never_called])
    with gm, pytest.raises((TypeError, ValueError), match="bad_one") as e:
        gm.backward(x * 3.0)
    assert "good_one" not in str(e.value)


def test_a_callable_object_is_named_by_its_class():
    class Reduce:
        def __call__(self, t, g):
            return g[0]

    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x, Reduce())
    with gm, pytest.raises((TypeError, ValueError), match="Reduce"):
        gm.backward(x * 3.0)


def test_a_future_defers():
    x, y = tensor([1.0, 2.0]), tensor(3.0)
    gm = GradManager().attach(x, lambda t, g: later(g * 2.0)).attach(y, lambda t, g: later(None))
    with gm:
        gm.backward(x * y)
    check_grad(x, 6.0)
    check_grad(y, 3.0)  # also a deferred None means unchanged


def test_a_future_is_resolved_after_the_after_backward_callbacks():
    """As an all-reduce in buckets does: the last bucket is sent when the sweep is over."""
    x, y, bucket, log = tensor([1.0, 2.0]), tensor(3.0), [], []

    class Asked(Future):
        def result(self, timeout=None):
            log.append("asked")
            assert self.done(), "nobody has sent the bucket"
            return super().result(0)

    def put(t, g):
        bucket.append((Asked(), g))
        return bucket[-1][0]

    def send():
        log.append("send")
        for future, g in bucket:
            future.set_result(g * 10.0)
        bucket.clear()

    gm = GradManager().attach([x, y], put).after_backward(send)
    for n in (1, 2):
        with gm:
            gm.backward(x * y)
        check_grad(x, 30.0 * n)
        check_grad(y, 30.0 * n)
    assert log == ["send", "asked", "asked"] * 2


def test_a_future_of_a_real_thread():
    x, y = tensor([1.0, 2.0]), tensor(3.0)
    with ThreadPoolExecutor(2) as pool:
        gm = GradManager().attach([x, y], lambda t, g: pool.submit(lambda: g * 2.0))
        with gm:
            gm.backward(x * y)
    check_grad(x, 6.0)
    check_grad(y, 6.0)


def test_upstream_does_not_wait_for_a_future():
    a = tensor([1.0, 2.0])
    gm = GradManager().attach(a)
    with gm:
        b = a * 3.0
        gm.attach(b, lambda t, g: later(g * 1000.0))
        gm.backward(b * 5.0)
    check_grad(b, 5000.0)
    check_grad(a, 15.0)


# ---- 34: what a callback may do ------------------------------------------------------------------


def test_a_callback_may_use_a_new_manager():
    x = tensor([1.0, 2.0])

    def callback(t, g):
        p = tensor(g.numpy())
        with GradManager().attach(p) as own:
            own.backward(p * p)
        return p.grad

    gm = GradManager().attach(x, callback)
    with gm:
        gm.backward(x * x)
    check_grad(x, [4.0, 8.0])


def test_a_callback_may_attach_its_own_tensor_to_a_new_manager():
    x, found = tensor([1.0, 2.0]), []

    def callback(t, g):
        with GradManager() as own:
            own.attach(t, lambda t, g: found.append(g.numpy()))
            own.backward(t * g)
        t.grad = None

    gm = GradManager().attach(x, callback)
    with gm:
        gm.backward(x * x)
    close(found[0], [2.0, 4.0])
    check_grad(x, [2.0, 4.0])


def test_a_callback_may_use_the_other_managers():
    x, u, v = tensor(2.0), tensor(3.0), tensor(5.0)
    outer, inner, gm = GradManager().attach(u), GradManager().attach(v), GradManager()

    def callback(t, g):
        inner.backward(y)
        outer.backward(y)

    gm.attach(x, callback)
    with outer, gm, inner:
        y = x * u * v
        gm.backward(y)
        assert not inner.is_recording
        assert not outer.is_recording
    check_grad(x, 15.0)
    check_grad(u, 10.0)
    check_grad(v, 6.0)


def test_a_callback_may_update_tensors_that_the_sweep_still_needs():
    """As an optimizer does that is fused with the reverse sweep."""
    a, b, c = 2.0, 3.0, 5.0
    x, v, w = tensor(a), tensor(b), tensor(c)
    gm = GradManager()

    def update(t, g):
        for p in (x, v, w):
            p -= 0.1 * g
            p[...] = p * 2.0

    gm.attach([x, v, w], update)
    with gm:
        gm.backward(x * v * v * w)
    check_grad(x, b * b * c)
    check_grad(v, 2 * a * b * c)
    check_grad(w, a * b * b)


def test_its_operations_are_recorded_by_outer_managers():
    x = tensor(3.0)
    outer, gm = GradManager().attach(x), GradManager()
    gm.attach(x, lambda t, g: g * t)
    with outer:
        with gm:
            gm.backward(x * x)
        g, x.grad = x.grad, None
        close(g, np.float64(18.0))  # 2 x * x
        outer.backward(g)
    check_grad(x, 12.0)


def test_also_what_comes_by_a_future():
    x = tensor(3.0)
    outer, gm = GradManager().attach(x), GradManager()
    gm.attach(x, lambda t, g: later(g * t))
    with outer:
        with gm:
            gm.backward(x * x)
        g, x.grad = x.grad, None
        outer.backward(g)
    check_grad(x, 12.0)


@pytest.mark.parametrize("relation", ["peer", "inner"])
def test_and_by_no_other(relation):
    x, made = tensor(3.0), []
    gm, other = GradManager(), GradManager().attach(x)
    gm.attach(x, lambda t, g: made.append(t * 5.0))
    with gm | other if relation == "peer" else gm:
        if relation == "inner":
            other.record()
        gm.backward(x * x)
        (y,) = made
        x.grad = None
        with pytest.warns(NoGradientWarning):
            other.backward(y)
    assert x.grad is None


def test_the_own_manager_does_not_record_its_callback():
    x, made = tensor(3.0), []
    gm = GradManager().attach(x, lambda t, g: made.append(t * 5.0))
    with gm:
        gm.backward(x * x)
        (y,) = made
        assert float(y) == 15.0  # nothing tracks it
        gm.record()
        with pytest.warns(NoGradientWarning):
            gm.backward(y)
    check_grad(x, 6.0)


def test_after_backward_callbacks_may_do_the_same():
    x, u = tensor(2.0), tensor(3.0)
    outer, gm = GradManager().attach(u), GradManager().attach(x)
    made = []
    gm.after_backward(lambda: made.append(u * x))
    with outer:
        with gm:
            gm.backward(x * u)
        outer.backward(made[0])
    check_grad(u, 2.0)


# ---- 35: after_backward --------------------------------------------------------------------------


def test_a_callback_without_arguments_for_every_later_backward():
    x, log = tensor(2.0), []
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * 3.0)
    assert gm.after_backward(lambda: log.append(1)) is gm
    assert gm.after_backward(lambda: log.append(2)) is gm
    assert log == []
    for n in (1, 2, 3):
        with gm:
            gm.backward(x * 3.0)
            assert log == [1, 2] * n


def test_also_for_a_backward_without_seed_and_not_for_release():
    log = []
    gm = GradManager().after_backward(lambda: log.append("after"))
    with gm:
        pass
    gm.record()
    gm.release()
    assert log == []
    gm.record()
    gm.backward()
    assert log == ["after"]


def test_registered_while_recording_it_counts_at_once():
    x, log = tensor(2.0), []
    gm = GradManager().attach(x)
    with gm:
        y = x * 3.0
        gm.after_backward(lambda: log.append("after"))
        gm.backward(y)
    assert log == ["after"]


def test_it_runs_for_its_own_manager_only():
    x, log = tensor(2.0), []
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    outer.after_backward(lambda: log.append("outer"))
    inner.after_backward(lambda: log.append("inner"))
    with outer, inner:
        y = x * x
        inner.backward(y)
        assert log == ["inner"]
        outer.backward(y)
    assert log == ["inner", "outer"]
