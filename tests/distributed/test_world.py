"""Worlds: seeds, parameters, shares, and how fgrad.distributed is found."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
from tests.helpers import exactly

import fgrad as fg
from fgrad.distributed import init, simulate, world
from fgrad.errors import RankMismatchError


def test_ranks_know_who_they_are():
    assert simulate(3, lambda: (world().rank, world().size)) == [(0, 3), (1, 3), (2, 3)]
    assert simulate(2, lambda: repr(world())) == ["<World: rank 0 of 2>", "<World: rank 1 of 2>"]


def test_parameters_become_those_of_one_rank():
    def run():
        rank = world().rank
        w = fg.tensor(np.full((2, 3), float(rank)))
        given = {"w": w, "n": np.array([rank, 7]), "h": np.float32(rank)}
        found = world().broadcast_parameters(given, root=1)
        assert found["w"] is w
        assert given["n"][0] == rank  # the caller's array stays as it is
        return found

    for found in simulate(3, run):
        exactly(found["w"], np.ones((2, 3)))
        exactly(found["n"], np.array([1, 7]))
        exactly(found["h"], np.float32(1))


def test_parameters_of_other_shapes_are_refused_by_name():
    def run():
        try:
            world().broadcast_parameters({"w": np.ones(2 + world().rank)})
        except RankMismatchError as error:
            return str(error)

    assert "broadcast_parameters of float64[3] ['w']" in " ".join(filter(None, simulate(2, run)))


def test_seeds():
    assert simulate(3, lambda: world().shared_seed(5 + world().rank)) == [5, 5, 5]
    assert simulate(2, lambda: world().shared_seed(2**100 + 3)) == [2**100 + 3] * 2
    drawn = simulate(3, lambda: world().shared_seed())
    assert len(set(drawn)) == 1
    assert drawn != simulate(3, lambda: world().shared_seed())


def test_random_numbers_differ_between_ranks_and_repeat():
    draw = lambda: world().generator(3).normal(size=4)
    first, again = simulate(4, draw), simulate(4, draw)
    assert len({tuple(d) for d in first}) == 4
    for a, b in zip(first, again, strict=True):
        exactly(a, b)


@pytest.mark.parametrize("n", [0, 1, 5, 8])
def test_shares_cover_everything_once(n):
    shares = simulate(3, lambda: world().shard({"x": np.arange(n), "y": np.ones((2, n))[..., None]}["x"]))
    exactly(np.concatenate(shares), np.arange(n))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    parts = simulate(2, lambda: world().shard(np.arange(2 * n).reshape(2, n), axis=1))
    exactly(np.concatenate(parts, axis=1), np.arange(2 * n).reshape(2, n))


def test_a_barrier_waits_for_all():
    arrived = []

    def run():
        if world().rank:
            arrived.append(world().rank)
        world().barrier()
        return sorted(arrived)

    assert simulate(4, run) == [[1, 2, 3]] * 4


def test_simulated_ranks_end_and_raise():
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        simulate(3, lambda: 1 // 0)
    assert threading.active_count() == before


def test_it_is_found_late_and_imports_no_mpi():
    program = (
        "import sys, fgrad\n"
        "assert 'fgrad.distributed' not in sys.modules\n"
        "assert 'distributed' in dir(fgrad)\n"
        "assert fgrad.distributed.simulate(2, lambda: 1) == [1, 1]\n"
        "assert 'mpi4py' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_mpi4py_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    for call in (init, world, fg.distributed.make_allreduce_cb, lambda: fg.distributed.psum(1.0)):
        with pytest.raises(ImportError, match=r"needs mpi4py.*pip install 'fgrad\[mpi\]'"):
            call()
