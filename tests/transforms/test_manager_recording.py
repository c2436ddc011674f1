"""When a GradManager records, and what a recording is made of."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.helpers import close

import fgrad as fg
from fgrad import GradManager, NoGradientWarning, tensor


def in_thread(f):
    """Run `f` in a thread of its own; return its result or raise its exception here."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(f).result(timeout=60)


def no_gradient(gm, y, x):
    """Assert that `gm` knows no way from `y` to `x`; this ends its recording."""
    before = x.grad
    with pytest.warns(NoGradientWarning):
        gm.backward(y)
    assert x.grad is before


# ---- 17: record and with -------------------------------------------------------------------------


def test_record_while_recording_raises_and_changes_nothing():
    x, calls = tensor([1.0, 2.0]), []
    gm = GradManager().attach(x, lambda t, g: calls.append(g))
    gm.record()
    y = x * x
    with pytest.raises(RuntimeError):
        gm.record()
    assert gm.is_recording
    assert calls == []
    gm.backward(y * x)
    close(x.grad, [3.0, 12.0])
    assert len(calls) == 1


def test_record_while_recording_in_another_thread_raises_too():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    gm.record()
    y = x * x
    with pytest.raises(RuntimeError):
        in_thread(gm.record)
    gm.backward(y)
    close(x.grad, [2.0, 4.0])


def test_the_block_records_yields_the_manager_and_releases():
    gm = GradManager()
    with gm as yielded:
        assert yielded is gm
        assert gm.is_recording
    assert not gm.is_recording


class Stop(BaseException):
    """Like KeyboardInterrupt, not an Exception."""


@pytest.mark.parametrize("kind", [ZeroDivisionError, RuntimeError, StopIteration, KeyboardInterrupt, Stop])
def test_the_block_releases_and_never_swallows_an_exception(kind):
    x, error = tensor(1.0), kind("mine")
    gm = GradManager().attach(x)
    with pytest.raises(kind) as e, gm:
        x * 2.0
        raise error
    assert e.value is error
    assert not gm.is_recording
    with gm:
        gm.backward(x * 3.0)
    close(x.grad, 3.0)


def test_the_block_releases_on_return_break_and_close():
    gm = GradManager()

    def returns():
        with gm:
            return gm.is_recording

    def yields():
        with gm:
            yield gm.is_recording

    assert returns()
    assert not gm.is_recording
    for _ in range(2):
        with gm:
            break
    assert not gm.is_recording
    steps = yields()
    assert next(steps)
    assert gm.is_recording
    steps.close()
    assert not gm.is_recording


@pytest.mark.parametrize("end", ["release", "backward", "backward without seed"])
def test_the_block_may_end_its_recording_itself(end):
    x = tensor(1.0)
    gm = GradManager().attach(x)
    with gm:
        y = x * 2.0
        if end == "release":
            gm.release()
        else:
            gm.backward(y if end == "backward" else None)
        assert not gm.is_recording
    assert not gm.is_recording


def test_entering_twice_raises_and_the_first_block_goes_on():
    x = tensor(3.0)
    gm = GradManager().attach(x)
    with gm:
        y = x * x
        with pytest.raises(RuntimeError), gm:
            pytest.fail("the body must not run")
        assert gm.is_recording
        gm.backward(y)
    close(x.grad, 6.0)


# ---- 18: release ---------------------------------------------------------------------------------


def test_release_is_legal_at_any_time_and_idempotent():
    x = tensor(1.0)
    gm = GradManager()
    gm.release()
    gm.attach(x)
    gm.release()
    gm.record()
    y = x * 2.0
    gm.release()
    assert not gm.is_recording
    gm.release()
    with gm:
        gm.release()
        gm.release()
    with gm:
        gm.backward(x * 2.0)
        gm.release()
    gm.release()
    close(x.grad, 2.0)
    with gm:
        no_gradient(gm, y, x)


@pytest.mark.parametrize("place", ["callback", "after_backward", "rule", "callback of an inner backward"])
def test_release_inside_the_own_backward_raises_and_does_no_harm(place):
    x, tried = tensor([1.0, 2.0]), []
    gm = GradManager()

    def release(*_):
        tried.append(place)
        with pytest.raises(RuntimeError):
            gm.release()

    def release_in_an_inner_backward(*_):
        w = tensor(1.0)
        with GradManager().attach(w, release) as inner:
            inner.backward(w * 2.0)

    class Rule(fg.Function):
        def forward(self, a):
            return a * 1.0

        def backward(self, ct):
            if place == "rule":
                release()
            return ct

    inner = {"callback": release, "callback of an inner backward": release_in_an_inner_backward}
    gm.attach(x, callback=inner.get(place))
    if place == "after_backward":
        gm.after_backward(release)
    with gm:
        gm.backward(Rule()(x * 3.0))
    assert tried == [place]
    close(x.grad, [3.0, 3.0])
    assert not gm.is_recording
    gm.release()


def test_an_uncaught_release_inside_backward_fails_that_backward_only():
    x = tensor(1.0)
    gm = GradManager().attach(x)
    gm.after_backward(gm.release)
    with pytest.raises(RuntimeError), gm:
        gm.backward(x * 2.0)
    assert x.grad is None
    assert not gm.is_recording
    gm.release()


@pytest.mark.parametrize("order", ["outer", "inner", "peer"])
def test_another_manager_may_be_released_inside_backward(order):
    x, w = tensor(2.0), tensor(3.0)
    gm, other = GradManager(), GradManager().attach(w)
    gm.attach(x, lambda t, g: other.release())
    with other | gm if order == "peer" else other if order == "outer" else gm:
        if order == "outer":
            gm.record()
        if order == "inner":
            other.record()
        y = x * w
        gm.backward(y)
        assert not other.is_recording
    close(x.grad, 3.0)
    assert w.grad is None


# ---- 19: again -----------------------------------------------------------------------------------


def test_after_backward_the_manager_may_record_again_at_once():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    for n in (1, 2, 3):
        gm.record()
        gm.backward(x * 3.0)
        close(x.grad, [3.0 * n, 3.0 * n])


def test_also_inside_its_own_block():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * 2.0)
        assert not gm.is_recording
        gm.record()
        assert gm.is_recording
        gm.backward(x * x)
        gm.record()
        y = x * 5.0
        assert gm.is_recording
    close(x.grad, [4.0, 6.0])
    assert not gm.is_recording, "the block ends whatever its manager records then"
    with gm:
        no_gradient(gm, y, x)


def test_also_a_block_inside_the_block():
    x = tensor(2.0)
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * 2.0)
        with gm:
            gm.backward(x * 3.0)
        assert not gm.is_recording
    close(x.grad, 5.0)


# ---- 20: what a recording knows ------------------------------------------------------------------


def test_values_made_before_this_recording_are_constants():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    before = x * x
    with gm:
        gm.backward(before * x)
    close(x.grad, [1.0, 4.0])


@pytest.mark.parametrize("end", ["release", "backward"])
@pytest.mark.parametrize("other", [True, False])
def test_values_made_in_another_recording_are_constants(end, other):
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    first = GradManager().attach(x) if other else gm
    with first:
        old = x * x
        if end == "backward":
            first.backward(old)
            x.grad = None
    with gm:
        gm.backward(old * x)
    close(x.grad, [1.0, 4.0])


def test_a_gradient_of_another_recording_is_a_constant():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * x)
    g, x.grad = x.grad, None
    with gm:
        gm.backward(g * x)
    close(x.grad, [2.0, 4.0])


def test_an_inner_recording_takes_what_the_outer_one_had_as_constant():
    x = tensor([1.0, 2.0])
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    with outer:
        a = x * x
        with inner:
            y = a * x
            inner.backward(y)
        close(x.grad, [1.0, 4.0])
        x.grad = None
        outer.backward(y)
    close(x.grad, [3.0, 12.0])


def test_nothing_of_a_discarded_recording_comes_back():
    x = tensor(2.0)
    gm = GradManager().attach(x)
    gm.record()
    y = x * x
    gm.release()
    gm.record()
    z = y * x
    no_gradient(gm, y, x)
    gm.record()
    no_gradient(gm, z, x)


# ---- 21: threads and tasks -----------------------------------------------------------------------


def test_a_thread_is_not_recorded_by_the_tape_of_another():
    x, w = tensor(2.0), tensor(3.0)
    gm = GradManager().attach([x, w])
    with gm:
        y = x * w
        foreign = in_thread(lambda: y * x)
        gm.backward(y * foreign)  # foreign is the constant 12
    close(x.grad, 36.0)
    close(w.grad, 24.0)
    with gm:
        no_gradient(gm, in_thread(lambda: x * 2.0), x)


def test_recordings_in_two_threads_do_not_see_each_other():
    x, b = tensor(2.0), tensor(3.0)
    here, there = GradManager().attach(x), GradManager().attach(b)

    def thread():
        with there:
            z = h * b
            there.backward(z)
        return z

    with here:
        h = x * x
        z = in_thread(thread)
        close(b.grad, 4.0)  # h is a constant there
        no_gradient(here, z, x)
    assert x.grad is None


def test_both_recording_at_the_same_time():
    """Each thread records, waits for the other, computes with what the other tracks, differentiates."""
    barrier, made, errors = threading.Barrier(2, timeout=60), {}, []
    xs = [tensor(2.0), tensor(3.0)]

    def thread(i):
        try:
            gm = GradManager().attach(xs[i])
            with gm:
                made[i] = xs[i] * xs[i]
                barrier.wait()
                y = made[i] * made[1 - i] * xs[1 - i]
                barrier.wait()
                gm.backward(y)
                barrier.wait()
        except BaseException as e:
            barrier.abort()
            errors.append(e)

    threads = [threading.Thread(target=thread, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert errors == []
    close(xs[0].grad, 2 * 2.0 * 3.0**3)
    close(xs[1].grad, 2 * 3.0 * 2.0**3)


def attach_then_record(gm, x):
    gm.attach(x)
    gm.record()


def record_then_attach(gm, x):
    gm.record()
    gm.attach(x)


@pytest.mark.parametrize("start", [attach_then_record, record_then_attach])
@pytest.mark.parametrize("start_here", [attach_then_record, record_then_attach])
def test_one_tensor_cannot_be_recorded_by_managers_in_two_threads(start_here, start):
    x, w = tensor(2.0), tensor(3.0)
    here, there = GradManager(), GradManager()
    start_here(here, x)
    y = x * x
    with pytest.raises(RuntimeError):
        in_thread(lambda: start(there, x))
    there.release()
    here.backward(y)
    close(x.grad, 4.0)

    def afterwards():
        with GradManager().attach([x, w]) as gm:
            gm.backward(x * w)

    in_thread(afterwards)
    close(x.grad, 7.0)
    close(w.grad, 2.0)


def test_a_record_refused_for_that_reason_leaves_the_manager_idle():
    x = tensor(2.0)
    there = GradManager().attach(x)
    with GradManager().attach(x) as here:

        def thread():
            with pytest.raises(RuntimeError):
                there.record()
            assert not there.is_recording

        in_thread(thread)
        here.backward(x * x)
    close(x.grad, 4.0)
    with there:
        there.backward(x * x)
    close(x.grad, 8.0)


def test_an_attach_refused_for_that_reason_changes_nothing():
    x, w = tensor(2.0), tensor(3.0)
    there = GradManager()
    with GradManager().attach(x):

        def thread():
            there.record()
            with pytest.raises(RuntimeError):
                there.attach([w, x])
            assert list(there.attached_tensors()) == []
            assert there.is_recording
            there.release()

        in_thread(thread)


def test_managers_of_one_thread_may_share_a_tensor():
    x = tensor(2.0)
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    with outer, inner:
        y = x * x
        inner.backward(y)
        outer.backward(y)
    close(x.grad, 8.0)


def test_a_task_is_not_recorded_by_the_tape_of_its_parent():
    x = tensor(2.0)
    gm = GradManager().attach(x)

    async def double():
        return x * 2.0

    async def parent():
        gm.record()
        child = await asyncio.create_task(double())
        gathered, *_ = await asyncio.gather(double(), double())
        no_gradient(gm, [child, gathered], x)
        gm.record()
        own = await double()  # awaited, not a task: this is the parent itself
        gm.backward(own * child)

    asyncio.run(parent())
    close(x.grad, 8.0)
