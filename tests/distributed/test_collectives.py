"""Collective operations between ranks that are threads; the oracles are NumPy and differences."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.helpers import close, differences, exactly

import fgrad as fg
from fgrad import distributed as dist
from fgrad import lax
from fgrad.distributed import simulate, world
from fgrad.errors import RankError, RankMismatchError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4))  # a row for each rank
T = RNG.normal(size=(3, 4))
M = RNG.normal(size=(3, 6, 4))
RING = [(0, 1), (1, 2), (2, 0)]


def on_ranks(f, size=3):
    """Return what `f(row)` gives on each rank, with the axis of the ranks called "i"."""

    def run():
        with world().axis("i"):
            return f(world().rank)

    return simulate(size, run)


def test_values():
    for r, found in enumerate(
        on_ranks(
            lambda r: {
                "psum": lax.psum(X[r], "i"),
                "pmean": lax.pmean(X[r], "i"),
                "pmax": lax.pmax(X[r], "i"),
                "pmin": lax.pmin(X[r], "i"),
                "gather": lax.all_gather(X[r], "i"),
                "tiled": lax.all_gather(X[r], "i", tiled=True),
                "last": lax.all_gather(X[r], "i", axis=-1),
                "scatter": lax.psum_scatter(M[r][:3], "i"),
                "parts": lax.psum_scatter(M[r], "i", tiled=True),
                "across": lax.psum_scatter(M[r].T, "i", scatter_dimension=1, tiled=True),
                "ring": lax.ppermute(X[r], "i", RING),
                "some": lax.ppermute(X[r], "i", [(2, 0)]),
                "still": lax.ppermute(X[r], "i", [(1, 1)]),
                "root": lax.pbroadcast(X[r], "i", 2),
                "index": lax.axis_index("i"),
                "size": lax.axis_size("i"),
            }
        )
    ):
        close(found["psum"], X.sum(axis=0))
        close(found["pmean"], X.mean(axis=0))
        exactly(found["pmax"], X.max(axis=0))
        exactly(found["pmin"], X.min(axis=0))
        exactly(found["gather"], X)
        exactly(found["tiled"], X.ravel())
        exactly(found["last"], X.T)
        close(found["scatter"], M[:, r].sum(axis=0))
        close(found["parts"], M.sum(axis=0)[2 * r : 2 * r + 2])
        close(found["across"], M.sum(axis=0)[2 * r : 2 * r + 2].T)
        exactly(found["ring"], X[(r - 1) % 3])
        exactly(found["some"], X[2] if r == 0 else np.zeros(4))
        exactly(found["still"], X[1] if r == 1 else np.zeros(4))
        exactly(found["root"], X[2])
        assert (found["index"], found["size"]) == (r, 3)


def test_names_of_the_module():
    for r, found in enumerate(
        simulate(
            3,
            lambda: (
                dist.psum(X[world().rank]),
                dist.pmean(X[world().rank]),
                dist.pmax(X[world().rank]),
                dist.pmin(X[world().rank]),
                dist.all_gather(X[world().rank]),
                dist.reduce_scatter(M[world().rank], tiled=True),
                dist.broadcast(X[world().rank], root=1),
                dist.ppermute(X[world().rank], RING),
            ),
        )
    ):
        oracles = X.sum(0), X.mean(0), X.max(0), X.min(0), X, M.sum(0)[2 * r : 2 * r + 2], X[1], X[r - 1]
        for value, expected in zip(found, oracles, strict=True):
            close(value, expected)


def test_numbers_and_pytrees_are_those_of_every_rank():
    for found in on_ranks(lambda r: lax.psum({"a": (float(r), r), "b": np.float32(1.5)}, "i")):
        assert found["a"] == (3.0, 3)
        exactly(found["b"], np.float32(4.5))


def test_dtypes_and_empty_arrays():
    for dtype in ("float32", "complex64", "int64", "float16"):
        for found in on_ranks(lambda r, d=dtype: lax.psum(np.full((2, 3), r + 1, d), "i")):
            exactly(found, np.full((2, 3), 6, dtype))
    for dtype in ("int16", "uint8", "bool"):  # summed as NumPy sums them, which does not wrap around
        x = np.array([[1, 100], [1, 100], [0, 100]]).astype(dtype)
        total = x.sum(axis=0)
        for found in on_ranks(
            lambda r, x=x: {
                "psum": lax.psum(x[r], "i"),
                "mean": lax.pmean(x[r], "i"),
                "scatter": lax.psum_scatter(np.stack([x[r]] * 3), "i"),
                "root": lax.pbroadcast(x[r], "i", 1),
            }
        ):
            exactly(found["psum"], total)
            close(found["mean"], total / 3)
            exactly(found["scatter"], total)
            exactly(found["root"], x[1])
        named = lambda f, x=x: fg.vmap(f, axis_name="i")(x)
        exactly(named(lambda x: lax.psum(x, "i")), np.stack([total] * 3))
        exactly(named(lambda x, one=x[1]: lax.psum(one, "i")), np.stack([3 * x[1].astype(total.dtype)] * 3))
        exactly(named(lambda x: lax.pbroadcast(x, "i", 1)), np.stack([x[1]] * 3))
    for found in on_ranks(lambda r: (lax.psum(np.zeros((0, 2)), "i"), lax.all_gather(np.zeros((0, 2)), "i"))):
        assert [f.shape for f in found] == [(0, 2), (3, 0, 2)]


def test_the_zero_of_a_broadcast_keeps_its_sign():
    for found in on_ranks(lambda r: lax.pbroadcast(np.array([-0.0, 0.0] if r == 1 else [1.0, 2.0]), "i", 1)):
        assert np.signbit(found).tolist() == [True, False]


FUNCTIONS = {
    "psum": lambda x: np.sum(np.sin(lax.psum(x * x, "i")) * x),
    "pmean": lambda x: np.sum(np.exp(x - lax.pmean(x, "i"))),
    "pmax": lambda x: np.sum(lax.pmax(x, "i") ** 2 * x),
    "all_gather": lambda x: np.sum(np.tanh(lax.all_gather(x, "i") @ x)),
    "reduce_scatter": lambda x: np.sum(lax.psum_scatter(np.outer(x[:3], x), "i") ** 2 * x),
    "broadcast": lambda x: np.sum(lax.pbroadcast(x * x, "i", 1) * np.sin(x)),
    "ppermute": lambda x: np.sum(lax.ppermute(np.sin(x), "i", RING[:2]) * x * x),
    "rank": lambda x: np.sum(x**3) * lax.axis_index("i"),
    "batch norm": lambda x: np.sum((x - lax.pmean(x, "i")) / np.sqrt(1.0 + lax.pmean(x * x, "i")) * x),
}


def everything(f):
    """Return the sum over all ranks as a function of all values, by vmap, which is tested elsewhere."""
    return lambda x: np.sum(fg.vmap(f, axis_name="i")(x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_agrees(name):
    f = FUNCTIONS[name]
    close(np.array(on_ranks(lambda r: f(X[r]))), fg.vmap(f, axis_name="i")(X))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_and_second_derivatives(name):
    f = FUNCTIONS[name]

    def run(r):
        x, t = X[r], T[r]
        by_reverse = fg.grad(lambda x: np.sum(fg.grad(f)(x) * t))(x)
        return fg.grad(f)(x), by_reverse, fg.hvp(f, (x,), (t,))[1], fg.jvp(f, (x,), (t,))[1]

    first, second, by_forward, tangents = zip(*on_ranks(run), strict=True)
    slopes = differences(everything(f), X)
    curved = differences(lambda x: np.sum(fg.grad(everything(f))(x) * T), X)
    close(np.array(first), slopes, rtol=1e-6)
    close(np.array(second), curved, rtol=1e-5)
    close(np.array(by_forward), curved, rtol=1e-5)
    close(sum(tangents), np.sum(slopes * T), rtol=1e-6)


@pytest.mark.parametrize("name", ["reduce_scatter", "broadcast", "ppermute"])
def test_staged_derivatives(name):
    """A rank's own number decides what it needs; the programs of all ranks have the same operations still."""
    f = FUNCTIONS[name]
    slopes = differences(everything(f), X)
    curved = differences(lambda x: np.sum(fg.grad(everything(f))(x) * T), X)
    around, inside = fg.jit(fg.grad(f)), fg.grad(fg.jit(f))
    product = fg.jit(lambda x, t: fg.hvp(f, (x,), (t,))[1])
    for _ in range(2):  # the second call takes the compiled way
        found = on_ranks(lambda r: (around(X[r]), inside(X[r]), product(X[r], T[r])))
        for gradient in (0, 1):
            close(np.array([rank[gradient] for rank in found]), slopes, rtol=1e-6)
        close(np.array([rank[2] for rank in found]), curved, rtol=1e-5)


def test_vmap_inside_and_loops():
    f = lambda x: lax.psum(x, ("i", "j"))
    for found in on_ranks(lambda r: fg.vmap(f, axis_name="j")(M[r])):
        close(found, np.tile(M.sum(axis=(0, 1)), (6, 1)))
    for g in (
        lambda x: lax.psum(x, "i"),
        lambda x: lax.all_gather(x, "i").sum(axis=0),
        lambda x: lax.psum_scatter(np.stack([x, x, x]), "i"),
        lambda x: lax.psum(lax.ppermute(x, "i", RING), "i"),
    ):
        for found in on_ranks(lambda r, g=g: fg.vmap(g)(M[r])):
            close(found, M.sum(axis=0))


def test_loops_are_those_of_all_ranks():
    def f(x):
        step = lambda c, _: (np.tanh(lax.psum(c, "i") * 0.1 + x), None)
        return np.sum(lax.scan(step, x, None, length=4)[0])

    expected = differences(everything(f), X)
    for staged in (lambda g: g, fg.jit):
        close(np.array(on_ranks(lambda r, s=staged: s(fg.grad(f))(X[r]))), expected, rtol=1e-6)


def test_programs_are_made_for_one_axis():
    """One jitted function serves any ranks that a name stands for."""
    f = fg.jit(lambda x: lax.psum(x, "i") * lax.axis_size("i"))
    for size in (2, 3, 2):
        for _ in range(3):
            for found in on_ranks(lambda r: f(X[r]), size):
                close(found, X[:size].sum(axis=0) * size)


def test_a_program_with_infinite_slopes_does_not_choose_for_itself():
    """Forward mode runs a speculative program first; the rank that holds a zero would leave it."""

    def f(x, t):
        around = fg.jvp(lambda x: np.exp(-1 / x) * 2.0, (x,), (t,))[1]
        return around + lax.psum(t, "i")

    x = np.array([[0.0, 1.0], [1.0, 2.0]])
    t = np.array([[1.0, -2.0], [0.5, 3.0]])
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.where(x == 0, 0.0, np.exp(-1 / x) * 2.0 / np.where(x == 0, 1.0, x * x)) * t
    compiled = fg.jit(f)
    for r, found in enumerate(on_ranks(lambda r: [compiled(x[r], t[r]) for _ in range(3)], 2)):
        for again in found:
            close(again, slopes[r] + t.sum(axis=0))


def test_constants_are_not_added_when_a_program_is_made():
    f = fg.jit(lambda x: x + lax.psum(np.ones(4), "i"))
    calls = []

    def run(r):
        hub = world().hub
        with world().axis("i"):
            lowered = f.lower(X[r])
            lowered.compile()
            calls.append(hub._next)
        return f(X[r])

    for r, found in enumerate(on_ranks(run)):
        close(found, X[r] + 3.0)
    assert calls == [0, 0, 0]


def linear_on_one_rank(r, x):
    """The cotangent that arrives at the sum is a constant on rank 1, and depends on `x` on the others."""
    y = lax.psum(x * x, "i")
    return np.sum(y * X[r]) if r == 1 else np.sum(np.sin(y) * x)


@pytest.mark.parametrize("staged", [lambda f: f, fg.jit])
def test_constant_cotangents_are_added_when_the_program_runs(staged):
    """They were added while the program was made, with what other ranks add when theirs runs."""

    def twice(r):
        def f(x):
            for _ in range(2):  # both sums stand in one line
                x = x + 0.1 * lax.psum(x * x if r == 1 else np.sin(x), "i")
            return np.sum(x * T[r]) if r == 1 else np.sum(x * x)

        return fg.vjp(f, X[r])[1](1.0)[0], staged(fg.grad(f))(X[r])

    for eager, found in on_ranks(twice):
        close(found, eager)

    def total(x):
        y = np.broadcast_to(np.sum(x * x, axis=0), (3, 4))
        return sum(np.sum(y[r] * X[r]) if r == 1 else np.sum(np.sin(y[r]) * x[r]) for r in range(3))

    want = differences(total, X)
    for r, found in enumerate(on_ranks(lambda r: staged(fg.grad(lambda x: linear_on_one_rank(r, x)))(X[r]))):
        close(found, want[r], rtol=1e-6)


def test_derivatives_by_constants_are_staged():
    """A rank that makes its program anew does not communicate meanwhile; the others would wait."""
    weights = np.array([2.0, 3.0])

    def f(x):
        slope = fg.grad(lambda w: np.sum(lax.psum(w * w, "i") ** 2))(weights)
        return np.sum(x) * slope

    def run(r):
        jitted = fg.jit(f)
        first = jitted(np.ones(2))
        return first, jitted(np.ones(2 + r))  # another shape on the ranks 1 and 2

    for r, (first, second) in enumerate(on_ranks(run)):
        close(first, 2 * 36 * weights**3)
        close(second, (2 + r) * 36 * weights**3)


def test_a_sum_does_not_meet_its_adjoint():
    """Where a rank has no cotangent to add, its next sum of the same line must not take the place."""

    def run(r):
        f = lambda x: np.sum(lax.psum(x, "i") * x) if r else np.sum(fg.stop_gradient(lax.psum(x, "i")) * x)
        return [fg.grad(f)(X[r]) for _ in range(3)]

    with pytest.raises(RankMismatchError, match="in the reverse pass"):
        on_ranks(run)


@pytest.mark.parametrize("staged", [lambda f: f, fg.jit])
def test_second_derivatives_of_what_is_linear_on_one_rank(staged):
    weights = np.arange(1.0, 5.0)

    def run(r):
        f = lambda x: np.sum(0.4 * lax.psum(x if r == 1 else np.sin(x), "i") * x * weights)
        return staged(lambda x, t: fg.jvp(fg.grad(f), (x,), (t,))[1])(X[r], T[r])

    def gradient(x):
        sums, all_x = np.sin(x[0]) + x[1] + np.sin(x[2]), x.sum(axis=0)
        return 0.4 * weights * (sums + all_x * np.stack([np.cos(x[0]), np.ones(4), np.cos(x[2])]))

    step = 1e-5
    want = (gradient(X + step * T) - gradient(X - step * T)) / (2 * step)
    for r, found in enumerate(on_ranks(run)):
        close(found, want[r], rtol=1e-7)


LOCAL = [
    lambda x: x,
    lambda x: -0.7 * x,
    lambda x: x + 1.5,
    lambda x: x[::-1],
    np.cumsum,
    lambda x: fg.stop_gradient(x) * x,
    np.sin,
    lambda x: x * x,
    lambda x: fg.numpy.where(x > 0.1, x, 0.5 * x),
    lambda x: np.exp(-x * x),
]


class Different:
    """A random function whose steps between the sums over all ranks differ from rank to rank."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.steps = []
        for i in range(rng.integers(1, 5)):
            local = [[LOCAL[k] for k in rng.integers(len(LOCAL), size=rng.integers(3))] for _ in X]
            a, b = rng.integers(i + 1, size=2)
            self.steps.append((local, a, b, np.multiply if rng.integers(2) else np.add))

    def __call__(self, xs, total):
        """Return the sum over the given ranks, `{rank: x}`, where `total` adds what each has."""
        found = [xs]
        for local, a, b, join in self.steps:
            given = {}
            for r, y in found[a].items():
                for f in local[r]:
                    y = f(y)
                given[r] = y
            added = total(given)
            found.append({r: join(0.4 * added, y) for r, y in found[b].items()})
        weights = np.arange(1.0, 5.0)
        return sum(np.sum(y * weights) for values in found for y in values.values())


@pytest.mark.parametrize("seed", range(int(os.environ.get("FGRAD_TEST_PROGRAMS", "8"))))
def test_functions_that_differ_between_ranks(seed):
    f = Different(seed)
    want = fg.grad(lambda x: f(dict(enumerate(x)), lambda given: sum(given.values())))(X)

    def run(r):
        gradient = fg.grad(lambda x: f({r: x}, lambda given: lax.psum(given[r], "i")))
        return gradient(X[r]), fg.jit(gradient)(X[r])

    for r, (eager, compiled) in enumerate(on_ranks(run)):
        close(eager, want[r])
        close(compiled, want[r])


def test_split_examples_do_not_meet_those_of_other_ranks():
    """The first group of examples holds the first example on one rank and the second on another."""
    f = lambda x: lax.psum(x, "i") if x > 0 else lax.psum(-x, "i")

    def run(r):
        with pytest.raises(RuntimeError, match=r"psum over the processes 'i' inside a vmap that .* split"):
            fg.vmap(f)(np.array([1.0, -2.0]) if r else np.array([-3.0, 4.0]))
        return fg.vmap(f)(np.array([1.0, 2.0]))

    for found in on_ranks(run, 2):
        exactly(found, np.array([2.0, 4.0]))


@pytest.mark.parametrize(
    "differing",
    [
        lambda r: lax.pbroadcast(X[r], "i", r),
        lambda r: lax.ppermute(X[r], "i", [(0, 1)] if r == 0 else []),
        lambda r: world().broadcast_parameters(X[r], root=r),
    ],
)
def test_roots_and_permutations_that_differ_are_refused(differing):
    """Nobody waits for what the other one sends; at the latest, the next operation notices."""

    def run(r):
        differing(r)
        for _ in range(2):
            lax.psum(X[r], "i")

    with pytest.raises(RankMismatchError, match="the ranks do different things"):
        on_ranks(run, 2)


# ---- messages


def test_send_and_receive():
    def run(r):
        if r == 0:
            assert dist.send({"a": X[0], "b": X[1]}, 2) == 0.0
            return None
        return dist.recv({"a": X[0], "b": X[1]}, 0) if r == 2 else lax.axis_index("i")

    found = on_ranks(run)
    exactly(found[2]["a"], X[0])
    exactly(found[2]["b"], X[1])
    assert found[1] == 1


def chain(x):
    """Rank 0 squares, rank 1 multiplies, rank 2 takes the sine: f = sum(sin(x0^2 x1) x2)."""
    r = world().rank
    if r == 0:
        return dist.send(x * x, 1)
    if r == 1:
        return dist.send(dist.recv(x, 0) * x, 2)
    return np.sum(np.sin(dist.recv(x, 1)) * x)


def alone(x):
    return np.sum(np.sin(x[0] ** 2 * x[1]) * x[2])


@pytest.mark.parametrize("staged", [lambda g: g, fg.jit])
def test_gradients_go_back_the_way(staged):
    close(np.array(on_ranks(lambda r: staged(fg.grad(chain))(X[r]))), differences(alone, X), rtol=1e-6)
    curved = differences(lambda x: np.sum(fg.grad(alone)(x) * T), X)
    second = staged(fg.grad(lambda x, t: np.sum(fg.grad(chain)(x) * t)))
    close(np.array(on_ranks(lambda r: second(X[r], T[r]))), curved, rtol=1e-5)
    forward = staged(lambda x, t: fg.hvp(chain, (x,), (t,))[1])
    close(np.array(on_ranks(lambda r: forward(X[r], T[r]))), curved, rtol=1e-5)


def test_both_ways_at_once():
    def run(r):
        dist.send(X[r], 1 - r)
        return dist.recv(X[r], 1 - r)

    for r, found in enumerate(on_ranks(run, 2)):
        exactly(found, X[1 - r])


def test_something_else_arrives():
    def run(r):
        try:
            return dist.send(X[0], 1) if r == 0 else dist.recv(X[0, :2], 0)
        except RankMismatchError as error:
            return error

    error = on_ranks(run, 2)[1]
    assert "rank 1 has send or recv of float64[2], rank 0 has send or recv of float64[4]" in str(error)


# ---- refusals


def test_refusals():
    def run(r):
        with pytest.raises(NameError, match=r"unbound axis name 'k' \(names in use here: .*'i'.*world\(\)"):
            lax.psum(X[r], "k")
        with pytest.raises(ValueError, match="every destination in perm is another number from 0 to 2"):
            lax.ppermute(X[r], "i", [(0, 1), (1, 1)])
        with pytest.raises(ValueError, match="every source in perm is another number from 0 to 2"):
            lax.ppermute(X[r], "i", [(3, 1)])
        with pytest.raises(ValueError, match="source is a number from 0 to 2, not 3"):
            lax.pbroadcast(X[r], "i", 3)
        with pytest.raises(ValueError, match="has length 4, which is not the number of examples, 3"):
            lax.psum_scatter(X[r], "i")
        with pytest.raises(ValueError, match="has length 4, which is not a multiple of the number"):
            lax.psum_scatter(X[r], "i", tiled=True)
        with pytest.raises(np.exceptions.AxisError):
            lax.psum_scatter(X[r], "i", scatter_dimension=1)
        with pytest.raises(TypeError, match="takes the name of one axis"):
            lax.ppermute(X[r], ("i", "j"), RING)
        with pytest.raises(ValueError, match=f"send: the other rank is a number from 0 to 2, not {r}"):
            dist.send(X[r], r)
        with pytest.raises(ValueError, match="recv: the other rank is a number from 0 to 2, not 3"):
            dist.recv(X[r], 3)
        with pytest.raises(NameError, match="recv: 'k' is not an axis of processes"):
            dist.recv(X[r], 0, "k")
        with pytest.raises(ValueError, match="at least one array"):
            dist.send((), (r + 1) % 3)
        return True

    assert all(on_ranks(run))


def test_a_mismatch_names_operation_and_line():
    def run(r):
        try:
            return lax.psum(X[r], "i") if r else lax.pmax(X[r], "i")
        except RankError as error:
            return error

    for error in on_ranks(run):
        assert type(error) is RankMismatchError
        assert "psum of float64[4] at " in str(error)
        assert "all_gather of float64[4] at " in str(error)
        assert "test_collectives.py:" in str(error)


def test_the_innermost_axis_of_a_name_counts():
    def run(r):
        with pytest.raises(NameError):
            lax.psum(1.0, "j")
        with world().axis("j"):
            return fg.vmap(lambda x: lax.psum(x, "j"), axis_name="j")(X[r])

    for r, found in enumerate(on_ranks(run)):
        close(found, np.full(4, X[r].sum()))
