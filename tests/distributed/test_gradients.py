"""The all-reduce callback on ranks that are threads; the oracle is one process with the whole batch."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import close, differences

import fgrad as fg
from fgrad.distributed import make_allreduce_cb, simulate, world
from fgrad.errors import RankError, RankMismatchError, RankTimeoutError

X = np.random.default_rng(0).normal(size=(12, 5))


def params(dtype=float):
    rng = np.random.default_rng(1)
    shapes = {"w": (5, 4), "b": (4,), "v": (4,)}
    return {k: fg.tensor(rng.normal(size=s).astype(dtype)) for k, s in shapes.items()}


def loss(p, x):
    return (np.tanh(x @ p["w"] + p["b"]) @ p["v"]).mean()


def train(op="MEAN", bucket_bytes=1 << 20, steps=3, dtype=float, on_event=None):
    p = params(dtype)
    callback = make_allreduce_cb(op, bucket_bytes, names=p, on_event=on_event)
    gm = fg.GradManager().attach(p, callbacks=callback)
    x = world().shard(X).astype(dtype)
    for _ in range(steps):
        with gm:
            gm.backward(loss(p, x))
        for t in p.values():
            t[...] = t - 0.1 * t.grad
            t.grad = None
    return {k: t.numpy() for k, t in p.items()}


def by_numpy(steps=3, scale=1.0):
    """Return the same parameters, by differences of NumPy code on the whole batch."""
    p = {k: t.numpy() for k, t in params().items()}
    for _ in range(steps):
        slopes = {k: differences(lambda v, k=k: loss({**p, k: v}, X), p[k], 1e-5) for k in p}
        p = {k: v - 0.1 * scale * slopes[k] for k, v in p.items()}
    return p


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("bucket_bytes", [1, 100, 1 << 20])
def test_training_is_that_of_one_process(size, bucket_bytes):
    results = simulate(size, train, "MEAN", bucket_bytes)
    for result in results:
        for k, expected in by_numpy().items():
            close(result[k], expected, rtol=1e-8)
            np.testing.assert_array_equal(result[k], results[0][k])  # the same bits on every rank


def test_results_repeat_bit_for_bit_and_do_not_depend_on_buckets():
    first = simulate(3, train)[0]
    for bucket_bytes in (1, 100, 1 << 20):
        again = simulate(3, train, "MEAN", bucket_bytes)[0]
        assert all(np.array_equal(again[k], first[k]) for k in first)


def test_sum_adds():
    for result in simulate(2, train, "SUM"):
        for k, expected in by_numpy(scale=2.0).items():
            close(result[k], expected, rtol=1e-8)


def test_dtypes_travel_apart_and_stay():
    def run():
        a, b = fg.tensor(np.ones(3, np.float32)), fg.tensor(np.ones(2))
        c = fg.tensor(np.ones(2, complex))
        gm = fg.GradManager().attach([a, b, c], callbacks=make_allreduce_cb("SUM"))
        with gm:
            gm.backward((a.sum() * b.sum() * c.real.sum()) * (1.0 + world().rank))
        return [t.grad.numpy() for t in (a, b, c)]

    for found in simulate(2, run):
        assert [g.dtype.name for g in found] == ["float32", "float64", "complex128"]
        assert [g.tolist() for g in found] == [[12.0] * 3, [18.0] * 2, [18.0] * 2]


def test_gradients_add_up_until_they_are_cleared():
    def run():
        x = fg.tensor([1.0, 2.0])
        gm = fg.GradManager().attach(x, callbacks=make_allreduce_cb("SUM"))
        for _ in range(2):
            with gm:
                gm.backward((x * x).sum())
        return x.grad.numpy().tolist()

    assert simulate(2, run) == [[8.0, 16.0]] * 2


def test_the_callback_is_the_last_of_several():
    def run():
        x = fg.tensor([1.0, 2.0])
        clip = lambda t, g: np.clip(g, 0.0, 3.0)
        gm = fg.GradManager().attach(x, callbacks=[clip, make_allreduce_cb("SUM")])
        with gm:
            gm.backward((x * x).sum())
        return x.grad.numpy().tolist()

    assert simulate(2, run) == [[4.0, 6.0]] * 2


def test_an_outer_manager_sees_the_mean():
    def run():
        x = fg.tensor(2.0 + world().rank)
        outer = fg.GradManager().attach(x)
        inner = fg.GradManager().attach(x, callbacks=make_allreduce_cb("MEAN"))
        with outer:
            with inner:
                inner.backward(x**3)
            slope, x.grad = x.grad, None
            outer.backward(slope)
        return float(slope), float(x.grad)

    # the mean of 3 x^2 over 2 and 3; its derivative on each rank, summed over both ranks
    assert simulate(2, run) == [(19.5, 12.0), (19.5, 18.0)]


# ---- order


def test_a_bucket_travels_during_the_rest_of_the_sweep():
    """The bucket of the last layer arrives before the gradient of the first layer is begun."""

    def run():
        events = []
        first, last = fg.tensor(np.ones(3)), fg.tensor(np.ones(3))
        hub = world().hub

        def stall(t, g):  # ends only if the bucket that has set out arrives while the sweep goes on
            while ("done", 0) not in events:
                callback._hub.progress()
                callback._tell_done(callback._sweep)
            events.append(("sweep", 0))

        callback = make_allreduce_cb("SUM", 1, on_event=lambda *e: events.append(e))
        gm = fg.GradManager().attach(last, callbacks=callback)
        gm.attach(first, callbacks=[stall, callback])
        with gm:
            gm.backward((np.sin(first) * last).sum())
        assert not hub.running
        return events, first.grad.numpy(), last.grad.numpy()

    for events, a, b in simulate(2, run):
        told = " ".join(f"{event} {number}" for event, number in events)
        assert told == "gradient 0 start 0 done 0 sweep 0 gradient 1 start 1 done 1"
        close(a, np.full(3, 2 * np.cos(1.0)))
        close(b, np.full(3, 2 * np.sin(1.0)))


def test_buckets_set_out_when_they_are_full():
    found = []
    simulate(2, lambda: train("MEAN", 40, 1, on_event=lambda *e: world().rank or found.append(e)))
    told = [e for e in found if e[0] != "done"]
    # 32 bytes of v, then 32 of b fill the first bucket; w is the second
    assert told == [("gradient", 0), ("gradient", 1), ("start", 0), ("gradient", 2), ("start", 1)]


# ---- mismatches


def attempt(make_loss, tensors, names=None):
    """Return the error of a backward on this rank, and check that nothing has changed."""
    gm = fg.GradManager().attach(tensors, callbacks=make_allreduce_cb(names=names))
    with pytest.raises(RankError) as found, gm:
        gm.backward(make_loss(world().rank))
    assert all(t.grad is None for t in tensors)
    assert not gm.is_recording
    return found.value


def test_another_order_raises_everywhere_and_names_the_tensor():
    def run():
        a, b = fg.tensor(np.ones(3)), fg.tensor(np.ones(3))
        f = lambda rank: np.sum(np.sin(a) * 2.0 + b) if rank else np.sum(np.sin(b) * 2.0 + a)
        return attempt(f, [a, b], {"a": a, "b": b})

    for error in simulate(2, run):
        assert type(error) is RankMismatchError
        assert "gradient 0 ['a'] of float64[3]" in str(error)
        assert "gradient 0 ['b'] of float64[3]" in str(error)


@pytest.mark.parametrize("other", [np.ones(4), np.ones((3, 1)), np.ones(3, np.float32)])
def test_another_shape_or_dtype_raises_everywhere(other):
    def run():
        x = fg.tensor(np.ones(3) if world().rank == 0 else other)
        return attempt(lambda rank: np.sum(x * x), [x])

    for error in simulate(3, run):
        assert type(error) is RankMismatchError
        assert "gradient 0 of float64[3]" in str(error)
        assert f"gradient 0 of {other.dtype}" in str(error)


@pytest.mark.parametrize("bucket_bytes", [1, 1 << 20])
def test_another_number_raises_everywhere(bucket_bytes):
    def run():
        a, b = fg.tensor(np.ones(3)), fg.tensor(np.ones(2))
        callback = make_allreduce_cb(bucket_bytes=bucket_bytes, names=[a, b])
        gm = fg.GradManager().attach([a, b], callbacks=callback)
        with pytest.raises(RankError) as found, gm:
            gm.backward(np.sum(b) if world().rank else np.sum(a) + np.sum(b))
        assert a.grad is None
        return found.value

    for error in simulate(2, run):
        assert type(error) is RankMismatchError
        assert "end after 1 gradients" in str(error)
        assert "gradient 1 [0] of float64[3]" in str(error)


def test_the_next_backward_after_a_mismatch_works():
    def run():
        a, b = fg.tensor(np.ones(3)), fg.tensor(np.ones(2))
        gm = fg.GradManager().attach([a, b], callbacks=make_allreduce_cb("SUM", 8))
        with pytest.raises(RankMismatchError), gm:
            gm.backward(np.sum(a * 2.0) if world().rank else np.sum(b * 2.0))
        with gm:
            gm.backward(np.sum(a * 2.0) + np.sum(b))
        return a.grad.numpy().tolist(), b.grad.numpy().tolist()

    assert simulate(3, run) == [([6.0] * 3, [3.0] * 2)] * 3


# ---- failures


def test_a_backward_that_fails_on_one_rank_fails_on_all_and_queues_are_empty_then():
    def run():
        rank = world().rank
        a, b = fg.tensor(np.ones(3)), fg.tensor(np.ones(2))
        failing = [rank == 1]

        def moody(t, g):
            if failing[0]:
                raise ZeroDivisionError("in my callback")

        callback = make_allreduce_cb("SUM")
        gm = fg.GradManager().attach(b, callbacks=callback).attach(a, callbacks=[moody, callback])
        kind, text = (ZeroDivisionError, "in my callback") if rank == 1 else (
            RankError, "rank 1 reports: ZeroDivisionError: in my callback"
        )  # fmt: skip
        with pytest.raises(kind, match=text), gm:
            gm.backward(np.sum(np.sin(a)) * np.sum(b))
        failing[0] = False
        assert a.grad is None
        assert b.grad is None
        with gm:
            gm.backward(np.sum(np.sin(a)) * np.sum(b))
        return b.grad.numpy()

    for g in simulate(3, run):
        close(g, np.full(2, 9 * np.sin(1.0)))


def test_a_rank_without_gradients_is_named_when_time_is_up(monkeypatch):
    monkeypatch.setenv("FGRAD_MPI_TIMEOUT", "0.2")
    ended = []

    def run():
        x = fg.tensor(np.ones(3))
        if world().rank == 1:
            while len(ended) < 2:
                pass
            return None
        try:
            return attempt(lambda rank: np.sum(x), [x])
        finally:
            ended.append(1)

    zero, one, two = simulate(3, run)
    assert one is None
    assert "did not arrive: 1;" in str(zero) + str(two)
    assert {type(zero), type(two)} == {RankTimeoutError}


def test_a_future_of_a_failed_backward_does_not_wait():
    def run():
        x, callback = fg.tensor(np.ones(3)), make_allreduce_cb("SUM")
        if world().rank == 0:
            future = callback(x, fg.tensor(np.ones(3)))
            assert future.cancel()
            return future.cancelled()
        with pytest.raises(RankError, match="cancelled"):  # at once, or when it asks
            callback(x, fg.tensor(np.ones(3))).result()
        return True

    assert simulate(1, lambda: make_allreduce_cb()(None, None)) == [None]
    assert simulate(2, run) == [True, True]


# ---- arguments


def test_arguments():
    def run():
        with pytest.raises(ValueError, match='op must be "MEAN" or "SUM", not \'MAX\''):
            make_allreduce_cb("MAX")
        with pytest.raises(ValueError, match="bucket_bytes must be a positive number of bytes, not 0"):
            make_allreduce_cb(bucket_bytes=0)
        return repr(make_allreduce_cb(comm=world()))

    assert simulate(2, run) == ["<all-reduce MEAN over 2 ranks>"] * 2


def test_the_default_bucket_is_25_mebibytes():
    assert simulate(1, lambda: make_allreduce_cb().bucket_bytes) == [25 * 2**20]
