"""Exchanges between ranks that are threads: order, failures, epochs and time limits."""

from __future__ import annotations

import threading
from time import sleep

import numpy as np
import pytest

from fgrad.distributed import operations, simulate, transport, world
from fgrad.distributed.exchange import Hub
from fgrad.distributed.transport import ThreadLinks
from fgrad.errors import RankError, RankMismatchError, RankTimeoutError


def caught(size, fun):
    """Return for each rank what `fun` raises, or its result."""

    def work():
        try:
            return fun()
        except RankError as error:
            return error

    return simulate(size, work)


def total(x, words="a sum", **options):
    here = world()
    return here.run(operations.all_reduce(here.hub, np.array(x, dtype=float), words, **options))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 40])
def test_both_ways_to_add_give_the_bits_of_the_order_of_ranks(size, count):
    values = np.random.default_rng(count).normal(size=(size, count)) * 10.0 ** np.arange(size)[:, None]
    expected = values[0].copy()
    for v in values[1:]:
        expected = expected + v
    for direct in (0, 1_000_000):
        sums = simulate(size, lambda d=direct: total(values[world().rank], direct=d))
        means = simulate(size, lambda d=direct: total(values[world().rank], mean=True, direct=d))
        assert all(np.array_equal(s, expected) for s in sums)
        assert all(np.array_equal(m, expected / size) for m in means)


def test_operations_under_way_at_once_do_not_mix():
    def several():
        here = world()
        tasks = [
            here.hub.start(operations.all_reduce(here.hub, np.full(50, 1.0 + k), "sum", direct=0))
            for k in range(20)
        ]
        return [here.hub.wait(t)[7] for t in reversed(tasks)]  # awaited in another order

    for found in simulate(3, several):
        assert found == [3.0 * (1 + k) for k in reversed(range(20))]


def test_random_programs_of_operations_agree_with_numpy():
    rng = np.random.default_rng(0)
    plan = [(int(rng.integers(4)), int(rng.integers(1, 4000)), int(rng.integers(4))) for _ in range(60)]
    data = [rng.normal(size=(4, n)) for _, n, _ in plan]

    def run():
        here, hub = world(), world().hub
        found = []
        for (kind, n, root), values in zip(plan, data, strict=True):
            x = values[here.rank].copy()
            if kind == 0:
                found.append(here.run(operations.all_reduce(hub, x, "sum")))
            elif kind == 1:
                found.append(here.run(operations.all_gather(hub, x, "gather")))
            elif kind == 2:
                found.append(here.run(operations.broadcast(hub, x, "broadcast", root)))
            else:
                perm = tuple((r, (r + root) % 4) for r in range(3))
                found.append(here.run(operations.permute(hub, x, "permute", perm)))
            if here.rank == n % 4:
                sleep(1e-4)
        return found

    for rank, found in enumerate(simulate(4, run)):
        for (kind, _, root), values, out in zip(plan, data, found, strict=True):
            sent = np.zeros_like(values)
            for r in range(3):
                sent[(r + root) % 4] = values[r]
            oracle = [values.sum(axis=0), values, values[root], sent[rank]][kind]
            np.testing.assert_allclose(out, oracle, rtol=1e-13, atol=1e-13)


def test_ranks_that_do_different_things_all_hear_of_it():
    def run():
        words = "a sum of three" if world().rank < 2 else "a sum of two"
        return total([1.0, 2.0, 3.0], words)

    for rank, error in enumerate(caught(3, run)):
        assert type(error) is RankMismatchError
        assert "a sum of three" in str(error)
        assert "a sum of two" in str(error)
        assert "rank 2" in str(error)
        assert rank == 2 or f"rank {rank} has" in str(error) or "reports" in str(error)


def test_another_size_is_a_mismatch_and_not_a_truncation():
    def run():
        return total([1.0] * (2 + world().rank), f"a sum of {2 + world().rank}")

    assert {type(e) for e in caught(2, run)} == {RankMismatchError}


def test_after_a_failure_everything_works_again():
    def run():
        rank, found = world().rank, []
        for step in range(6):
            try:
                found.append(float(total(np.ones(5000), "odd" if step == 2 and rank == 1 else "even")[0]))
            except RankMismatchError:  # noqa: PERF203 -- the steps are tried one by one
                found.append(None)
        return found

    assert simulate(3, run) == [[3.0, 3.0, None, 3.0, 3.0, 3.0]] * 3


def test_a_failure_reaches_ranks_that_come_later():
    def run():
        here = world()
        if here.rank == 0:
            here.hub.fail(ValueError("my disk is full"), then_raise=False)
        else:
            sleep(0.05)
            with pytest.raises(RankError, match="rank 0 reports: ValueError: my disk is full"):
                total([1.0])
        return float(total([1.0])[0])

    assert simulate(2, run) == [2.0, 2.0]


def test_failures_of_two_epochs_are_heard_one_after_the_other():
    def run():
        here = world()
        if here.rank == 0:
            here.hub.fail(ValueError("first"), then_raise=False)
            here.hub.fail(ValueError("second"), then_raise=False)
        else:
            for text in ("first", "second"):
                with pytest.raises(RankError, match=text):
                    total([1.0])
        return float(total([1.0])[0])

    assert simulate(2, run) == [2.0, 2.0]


def test_a_time_limit_names_who_did_not_arrive(monkeypatch):
    monkeypatch.setenv("FGRAD_MPI_TIMEOUT", "0.2")
    late = threading.Event()

    def run():
        if world().rank in (1, 3):
            late.wait(20)
        try:
            return total([1.0], "the sum of losses")
        finally:
            late.set()

    errors = caught(4, run)
    assert {type(e) for e in errors} == {RankTimeoutError}
    waiting = [str(e) for e in errors if "reports" not in str(e)]
    assert waiting
    for text in waiting:
        assert "did not arrive: 1, 3;" in text
        assert "waits in the sum of losses" in text
        assert "FGRAD_MPI_TIMEOUT" in text


def test_a_time_limit_is_a_number(monkeypatch):
    monkeypatch.setenv("FGRAD_MPI_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="FGRAD_MPI_TIMEOUT must be a number of seconds, not 'soon'"):
        simulate(2, lambda: total([1.0]))


def test_who_has_ended_is_not_waited_for():
    def run():
        return None if world().rank == 1 else total([1.0], "the last sum")

    found = caught(3, run)
    assert found[1] is None
    for k in (0, 2):
        assert type(found[k]) is RankError
        assert str(found[k]) == f"rank 1 has ended, while rank {k} waits in the last sum" or "reports" in str(
            found[k]
        )


def test_an_exception_in_one_thread_ends_the_others():
    def run():
        if world().rank == 2:
            raise KeyError("mine")
        total([1.0])

    with pytest.raises((KeyError, RankError), match="mine"):
        simulate(3, run)


def test_what_arrives_of_an_old_epoch_is_received_and_dropped():
    left, right = (Hub(links) for links in ThreadLinks.of(2))
    task = left.start(operations.all_reduce(left, np.ones(10_000), "old"))
    right.fail(ValueError("no"), then_raise=False)
    with pytest.raises(RankError, match="no"):
        left.wait(task)
    for hub in (left, right, left):
        hub.progress()
    assert not left._loose
    assert not right._loose
    assert not any(right._inbox.values())
    with pytest.raises(RankError, match="cancelled"):
        task.result()


def test_an_error_inside_of_an_operation_fails_everywhere():
    def steps(hub):
        yield hub.exchange("x", hub.number(), {}, {})
        raise MemoryError("too much")

    def run():
        hub = world().hub
        if world().rank == 0:
            with pytest.raises(MemoryError):
                hub.wait(hub.start(steps(hub)))
        else:
            with pytest.raises(RankError, match="rank 0 reports: MemoryError: too much"):
                total([1.0])
        return True

    assert simulate(2, run) == [True, True]


def test_a_rank_that_is_behind_finishes_what_the_others_have_finished_before_it_hears_of_their_failure():
    a, b, c = (Hub(links) for links in ThreadLinks.of(3))
    tasks = [hub.start(operations.all_reduce(hub, np.ones(4), "the first")) for hub in (a, b, c)]
    a.progress()
    assert tasks[0].is_done
    assert not tasks[1].is_done
    a.fail(ValueError("in the second"), then_raise=False)
    assert b.wait(tasks[1])[0] == 3.0
    with pytest.raises(RankError, match="in the second"):
        b.start(operations.all_reduce(b, np.ones(1), "the second"))


def test_a_queue_that_both_ends_make_at_once_loses_nothing(monkeypatch):
    sender, receiver = ThreadLinks.of(2)[::-1]
    sent = np.arange(3.0)
    queue, calls = transport.deque, []

    def made(*args):
        calls.append(args)
        if len(calls) == 1:  # the other thread has its turn while the first one makes the queue
            sender.send(sent, receiver.rank, 7)
        return queue(*args)

    monkeypatch.setattr(transport, "deque", made)
    found = np.empty(3)
    assert receiver.receive(found, sender.rank, 7).Test()
    assert np.array_equal(found, sent)
    assert len(calls) == 2
