"""Checkpoints: what goes in comes out, bit for bit; nothing half-written, nothing executed."""

from __future__ import annotations

import dataclasses
import os
import random
from typing import NamedTuple

import numpy as np
import pytest
from tests.archive.corpus import Entry
from tests.archive.mutate import changed, damaged, original, rebuilt, sealed

import fgrad as fg
from fgrad.archive.container import packed
from fgrad.distributed import restore, save, simulate, world
from fgrad.distributed.checkpoints import _described
from fgrad.errors import RankError


class Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass
class Model:
    w: object
    b: object


def alone(f, *args):
    return simulate(1, f, *args)[0]


def same(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, dict):
        assert list(a) == list(b) or sorted(a, key=str) == sorted(b, key=str)
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for p, q in zip(a, b, strict=True):
            same(p, q)
    elif isinstance(a, fg.Tensor | np.ndarray):
        p, q = (v.numpy() if isinstance(v, fg.Tensor) else v for v in (a, b))
        assert (p.shape, p.dtype, p.tobytes()) == (q.shape, q.dtype, q.tobytes())
    else:
        assert repr(a) == repr(b)


STATE = {
    "params": {"w": fg.tensor(np.arange(6.0).reshape(2, 3)), "b": np.array([-0.0, np.nan, np.inf])},
    "step": 7,
    "rate": 0.1,
    "done": False,
    "name": "run",
    "nothing": None,
    "list": [np.float32(1.5) + np.zeros((), np.float32), (1, 2.5, "x"), []],
    "odd": {1: np.zeros((0, 3)), 2: np.ones(3, complex), 10: float("inf")},
    "strided": np.arange(12).reshape(3, 4)[:, ::2],
    "half": np.ones(2, np.float16),
}


def test_there_and_back(tmp_path):
    file = tmp_path / "state"
    alone(save, file, STATE)
    found = alone(restore, file)
    same({**found, "list": found["list"][1:]}, {**STATE, "list": STATE["list"][1:]})
    assert found["list"][0] == np.float32(1.5)
    found["params"]["b"][0] = 3.0  # arrays of one's own
    assert [f.name for f in tmp_path.iterdir()] == ["state"]


def test_generators_resume_by_their_state(tmp_path):
    rng = np.random.default_rng(3)
    rng.normal(size=5)
    state = rng.bit_generator.state
    numbers = {k: str(v) for k, v in state["state"].items()}
    alone(save, tmp_path / "rng", {"numbers": numbers})
    found = alone(restore, tmp_path / "rng")["numbers"]
    again = np.random.default_rng()
    again.bit_generator.state = {**state, "state": {k: int(v) for k, v in found.items()}}
    assert np.array_equal(rng.normal(size=3), again.normal(size=3))


def test_other_containers_by_a_tree_alike(tmp_path):
    state = {"p": Point(np.ones(2), 3), "m": Model(np.zeros(3), 1.5)}
    file = tmp_path / "state"
    alone(save, file, state)
    with pytest.raises(
        TypeError, match=r"holds a (Point|Model), which only you can build: give restore\(path"
    ):
        alone(restore, file)
    like = {"p": Point(np.zeros(2), 0), "m": Model(np.ones(3), 0.0)}
    found = alone(restore, file, like)
    same(found["p"], state["p"])
    assert isinstance(found["m"], Model)
    same(found["m"].w, state["m"].w)
    assert found["m"].b == 1.5


@pytest.mark.parametrize(
    "like",
    [{"w": np.ones(3)}, {"w": np.ones(2, np.float32)}, {"v": np.ones(2)}, [np.ones(2)], {"w": [np.ones(2)]}],
)
def test_a_tree_that_does_not_fit_is_refused(tmp_path, like):
    alone(save, tmp_path / "state", {"w": np.ones(2)})
    with pytest.raises(ValueError, match=r"does not match `like`: it has leaves float64\[2\]"):
        alone(restore, tmp_path / "state", like)


def test_what_cannot_be_held(tmp_path):
    for leaf, text in ((object(), "of type object"), (np.array(["x"]), "dtype <U1"), (lambda: 0, "function")):
        with pytest.raises(TypeError, match=rf"save: the leaf\['a'\]\[0\].*{text}"):
            alone(save, tmp_path / "state", {"a": [leaf]})
    with pytest.raises(TypeError, match="keys that are neither strings nor integers"):
        alone(save, tmp_path / "state", {(1, 2): 3})
    assert not list(tmp_path.iterdir())


def test_damaged_files_are_refused_or_read(tmp_path):
    """Whatever was changed, with a right digest too: a tree like those that `save` writes, or ValueError."""
    file, rng = tmp_path / "state", random.Random(3)
    alone(save, file, STATE)
    whole = original(Entry("state", file.read_bytes()))
    refused = read = 0

    def attempt():
        nonlocal refused, read
        for _ in range(1500):
            kind = rng.randrange(6)
            if kind == 0:
                data = damaged(whole.data, rng)
            elif kind == 1:
                data = sealed(damaged(whole.data[:-32], rng))
            else:
                data = rebuilt(changed(whole.header, rng, whole.pieces), whole.tail, 1)
            file.write_bytes(data)
            try:
                found = restore(file)
            except ValueError as error:
                assert "is not a checkpoint that fgrad.distributed.save wrote" in str(error)  # noqa: PT017
                refused += 1
            else:
                read += 1
                _described(found, "", [])  # of what can be saved

    simulate(1, attempt)
    assert refused > 800
    assert read > 50


@pytest.mark.parametrize(
    "described",
    [
        *([], {}, "none", ["none", 1], ["array", -1], ["array", 1], ["array", True], ["array", 1.5]),
        *(["float", "1_0"], ["int", True], ["int", "1"], ["bool", 1], ["list", 3], ["other", 1, []]),
        *(["dict", ["a"], []], ["dict", [["a"]], [["none"]]], ["dict", ["a", "a"], [["none"], ["none"]]]),
        *(["dict", [None], [["none"]]], ["list", [["list", [7]]]]),
    ],
    ids=repr,
)
def test_trees_that_are_none_are_refused(tmp_path, described):
    (tmp_path / "state").write_bytes(packed({"checkpoint": described}, [np.ones(2)], 1))
    with pytest.raises(
        ValueError, match=r"is not a checkpoint that fgrad.distributed.save wrote: (a checkpoint|the number)"
    ):
        alone(restore, tmp_path / "state")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        alone(restore, tmp_path / "state", {"a": 1})


def test_files_that_are_no_checkpoint(tmp_path):
    file = tmp_path / "state"
    alone(save, file, {"w": np.arange(5.0)})
    data = file.read_bytes()
    program = fg.export(np.sin, np.ones(2))
    for wrong in (b"", b"text", data[:-3], data[:40], data[:100] + b"?" + data[101:], program):
        file.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"is not a checkpoint that fgrad\.distributed\.save wrote"):
            alone(restore, file)
    with pytest.raises(FileNotFoundError):
        alone(restore, tmp_path / "missing")
    with pytest.raises(ValueError, match="the header does not have the parts"):
        fg.load(data)


def test_memory_is_limited(tmp_path):
    """That of the file, and that of arrays which repeat one element, or are named many times."""
    file = tmp_path / "state"
    alone(save, file, {"w": np.arange(1000.0)})
    with pytest.raises(ValueError, match=r"the file .*state takes up to 8,\d* bytes, more than the 4,000"):
        alone(lambda: restore(file, max_bytes=4000))
    assert alone(lambda: restore(file, max_bytes=16_000))["w"].sum() == 499_500.0
    huge = np.broadcast_to(0.0, (2**17, 2**17))
    often = ["list", [["array", 0]] * 70_000]
    for described, x in ((["array", 0], huge), (often, np.zeros(8192)), (["list", []], huge)):
        file.write_bytes(packed({"checkpoint": described}, [x], 1))
        if described == ["list", []]:
            assert alone(restore, file) == []  # an array that nobody asks for takes nothing
            continue
        with pytest.raises(ValueError, match=r"building its arrays takes up to .* of max_bytes; if"):
            alone(restore, file)
        with pytest.raises(ValueError, match="max_bytes"):
            alone(restore, file, [np.ones(2)])
    assert len(alone(lambda: restore(file.rename(tmp_path / "kept"), max_bytes=None))) == 0


def test_a_file_that_is_too_large_is_so_on_all_ranks(tmp_path):
    alone(save, tmp_path / "state", {"w": np.arange(1000.0)})

    def run():
        try:
            restore(tmp_path / "state", max_bytes=4000)
        except (ValueError, RankError) as error:
            return str(error)

    assert all("of max_bytes" in text for text in simulate(3, run))


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "state"
    alone(save, file, {"w": 1})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        alone(save, file, {"w": 2})
    monkeypatch.undo()
    assert alone(restore, file) == {"w": 1}
    assert [f.name for f in tmp_path.iterdir()] == ["state"]


def test_rank_0_writes_and_reads_for_all(tmp_path):
    file = tmp_path / "state"

    def run():
        save(file, {"rank": world().rank, "w": np.full(1000, float(world().rank))})
        return restore(file)

    for found in simulate(3, run):
        same(found, {"rank": 0, "w": np.zeros(1000)})


def test_a_missing_file_is_missing_on_all_ranks(tmp_path):
    def run():
        try:
            restore(tmp_path / "missing")
        except (OSError, RankError) as error:
            return str(error)

    assert all("No such file" in text for text in simulate(3, run))
