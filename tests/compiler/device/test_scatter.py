"""Sums to places that index arrays name, on a device: NumPy's, and the same each time."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.checks import DEVICE, no_transfers, on_device, same
from tests.backend.conftest import quick_switching as quick_switching  # noqa: PLC0414 -- a fixture of these tests too

import fgrad as fg
from fgrad.compiler.device import scatter
from fgrad.compiler.device.executable import WARM
from fgrad.kernels import launching

RNG = np.random.default_rng(0)
X, CUBE = RNG.integers(-9, 9, (7, 5)).astype(float), RNG.integers(-9, 9, (4, 3, 5)).astype(float)
MANY = RNG.integers(-7, 7, 30)


def added(index, shape, ct):
    """Return the gradient of `sum(x[index] * ct)`, as NumPy adds it up."""
    out = np.zeros(shape)
    np.add.at(out, index, ct)
    return out


CASES = {  # what is indexed, and how: index arrays are arguments
    "rows": (X, lambda i: i, (MANY,)),
    "one place": (X, lambda i: i, (np.full(30, 3),)),
    "numbers": (X[:, 0].copy(), lambda i: i, (MANY,)),
    "few": (X, lambda i: i, (np.array([2, -5]),)),
    "columns": (X, lambda i: (slice(None), i), (RNG.integers(0, 5, (4, 3)),)),
    "slices": (X, lambda i: (slice(None, None, -2), i), (RNG.integers(0, 5, 9),)),
    "pairs": (X, lambda i, j: (i, j), (RNG.integers(0, 7, (6, 1)), RNG.integers(0, 5, 3))),
    "axes apart": (CUBE, lambda i, j: (i, slice(None), j), (RNG.integers(0, 4, 9), RNG.integers(0, 5, 9))),
    "a number beside": (CUBE, lambda i: (1, i), (RNG.integers(0, 3, 8),)),
    "int32": (X, lambda i: i, (MANY.astype(np.int32),)),
}  # fmt: skip


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("chunk", [3, 64])
@pytest.mark.parametrize("name", CASES)
def test_sums(monkeypatch, name, chunk, known):
    monkeypatch.setattr(scatter, "CHUNK", chunk)
    x, index, arrays = CASES[name]
    ct = RNG.integers(-9, 9, x[index(*arrays)].shape).astype(float)
    slope = lambda x, ct, *i: fg.grad(lambda x: np.sum(x[index(*i)] * ct))(x)
    given = [on_device(x), on_device(ct)]
    if known:
        found = fg.jit(lambda x, ct: slope(x, ct, *arrays))(*given)
    else:
        found = fg.jit(slope)(*given, *map(on_device, arrays))
    assert found.device == DEVICE
    np.testing.assert_array_equal(found.numpy(), added(index(*arrays), x.shape, ct))  # integers: exactly


def kinds(f, *args):
    executable = fg.jit(f).lower(*args)._procedure.on(on_device(args[0])._value.place)
    return [type(s).__name__ for s in executable.plan.steps], [g.kind for g in executable.grids]


def test_what_is_added_is_computed_on_the_way():
    f = lambda x, i: fg.grad(lambda x: np.sum(x[i] ** 3))(x)
    same(fg.jit(f)(on_device(X), on_device(MANY)), f(X, MANY))
    steps, grids = kinds(f, X, MANY)
    assert steps == ["Launch", "Ranking", "Fill", "Launch"]
    assert grids == ["places", "sums"]


def test_sorting_is_part_of_a_graph(monkeypatch):
    recorded = []
    library = on_device(X)._value.place.library
    monkeypatch.setattr(type(library), "recorded", lambda self, f: recorded.append(f) or f)
    slope = lambda x, i: fg.grad(lambda x: np.sum(x[i] ** 3))(x)
    f = fg.jit(slope)
    for i in range(WARM + 3):  # other places each time
        places = np.roll(MANY, i) % (i + 2)
        given = on_device(X), on_device(places)
        f(*given)
        with no_transfers():
            found = f(*given)
        same(found, slope(X, places))
    assert len(recorded) == 1


def test_known_places_are_sorted_once():
    steps, grids = kinds(lambda x: fg.grad(lambda x: np.sum(x[MANY] ** 2))(x), X)
    assert steps == ["Fill", "Launch"]
    assert grids == ["sums"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_do_not_depend_on_the_grid(monkeypatch, dtype):
    monkeypatch.setattr(scatter, "CHUNK", 4)
    x, ct = np.zeros(3, dtype), RNG.uniform(-1, 1, 50).astype(dtype)
    place, found = RNG.integers(0, 3, 50), set()
    for threads, blocks in ((1, 1), (2, 3), (8, 2)):
        chip = launching.device()._replace(threads=threads, blocks=blocks)
        monkeypatch.setattr(launching, "device", lambda chip=chip: chip)
        f = fg.jit(lambda x, ct, i: fg.grad(lambda x: np.sum(x[i] * ct))(x))
        found.add(f(*map(on_device, (x, ct, place))).numpy().tobytes())
    (made,) = found
    exact = added(place, 3, ct)
    np.testing.assert_allclose(np.frombuffer(made, dtype), exact, rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_places_out_of_bounds_stay_inside():
    f = fg.jit(lambda x, i: fg.grad(lambda x: np.sum(x[i]))(x))
    np.testing.assert_array_equal(
        f(on_device(np.zeros(3)), on_device(np.array([7, -9, 1]))).numpy(), [1, 1, 1]
    )
