"""Patterns of programs: no entry that is there is missing, whatever an operation is, and few are too many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import drawn, grouped
from tests.ops.test_primitives import FLAT, SAMPLES, floats

import fgrad as fg
from fgrad import lax, sparse
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.sparse import dependencies

RNG = np.random.default_rng(3)


def as_real(sample):
    """Return the primitive as function of real arrays, with real and imaginary parts apart, and a point."""
    where, primitive = floats(sample), PRIMITIVES[sample.primitive]

    def f(*parts, run=lambda *args: bind(sample.primitive, *args, **sample.params)):
        args, rest = list(sample.args), iter(parts)
        for i in where:
            x = next(rest)
            if args[i].dtype.kind == "c":
                x = x + 1j * next(rest)
            args[i] = x.astype(args[i].dtype)
        found = run(*args)
        ys = found if primitive.many else (found,)
        return [
            p for y in ys if y.dtype.kind in "fc" for p in ((y.real, y.imag) if y.dtype.kind == "c" else (y,))
        ]

    point = []
    for i in where:
        a = sample.args[i]
        point += [a.real.astype(float), a.imag.astype(float)] if a.dtype.kind == "c" else [a.astype(float)]
    return f, point


CHECKED = [
    s
    for s in SAMPLES
    if floats(s) and not s.stops and s.primitive not in FLAT and sum(map(np.size, s.args)) < 200
]


@grouped("sample", CHECKED, "primitive", quick=2)
def test_every_primitive_has_all_of_its_entries(sample):
    """What a difference changes by itself is in the pattern: NumPy and SciPy say what is computed."""
    f, point = as_real(sample)
    ys = f(*point)
    if not sum(np.size(y) for y in ys):
        return
    numbers = tuple(range(len(point)))
    pattern = sparse.pattern(f, numbers)(*point).toarray()
    assert pattern.shape == (sum(np.size(y) for y in ys), sum(x.size for x in point))
    narrow = min(np.finfo(sample.args[i].dtype).precision for i in floats(sample))
    step, noise = (1e-6, 1e-4) if narrow > 10 else (1e-2, 3e-2)

    def run(x):
        parts = np.split(x, np.cumsum([p.size for p in point])[:-1])
        given = [p.reshape(q.shape) for p, q in zip(parts, point, strict=True)]
        with np.errstate(all="ignore"):
            found = f(*given, run=lambda *args: PRIMITIVES[sample.primitive].run(*args, **sample.params))
        return np.concatenate([np.asarray(y, float).ravel() for y in found])

    x = np.concatenate([p.ravel() for p in point])
    for j in range(x.size):
        e = np.zeros(x.size)
        e[j] = step
        try:
            slope = (run(x + e) - run(x - e)) / (2 * step)
        except (ValueError, np.linalg.LinAlgError):  # outside of where it is defined
            continue
        scale = max(1.0, np.abs(run(x)).max(initial=0, where=np.isfinite(run(x))))
        missing = np.isfinite(slope) & (np.abs(slope) > noise * scale) & ~pattern[:, j]
        assert not missing.any(), (j, np.nonzero(missing))


def exact(f, x, **options):
    """Compare the pattern with what is other than zero in the dense Jacobian at several points."""
    found = sparse.pattern(f, **options)(x).toarray()
    dense = sum(np.abs(np.asarray(fg.jacrev(f)(x * s)).reshape(-1, x.size)) for s in (1.0, 0.7, -0.4))
    np.testing.assert_array_equal(found, dense != 0)


X = np.arange(1.0, 13.0) / 7
SQUARES = RNG.standard_normal((3, 4, 4))
STENCIL = np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
PLACES = np.array([3, 1, 1, 7])
EXACT = {
    "slices": lambda x: x[1:] * x[:-1],
    "steps": lambda x: x[::-2] + x[:6] ** 2,
    "gather": lambda x: np.sin(x[PLACES]) * x[:4],
    "take along": lambda x: np.take(x.reshape(3, 4), [2, 0], axis=1),
    "scatter": lambda x: _added(x),
    "sums": lambda x: (x.reshape(3, 4) ** 2).sum(axis=1),
    "means": lambda x: x.reshape(3, 4).mean(axis=0) * x[:4],
    "concatenated": lambda x: np.concatenate([x[3:5] ** 2, np.zeros(2), x[:1]]),
    "padded": lambda x: np.pad(x[:4] ** 2, 2),
    "stacked": lambda x: np.stack([x[:3], x[4:7] * x[:3]], axis=1),
    "rolled": lambda x: np.roll(x, 2) * x,
    "transposed": lambda x: x.reshape(3, 4).T * 2.0,
    "broadcast": lambda x: x[:3, None] * x[None, 3:7],
    "where": lambda x: np.where(np.arange(12) % 3 == 0, x, x[::-1]),
    "chosen by itself": lambda x: np.where(x > 1, x, 3 * x),
    "masked product": lambda x: np.arange(12) % 2 * x,
    "matrix of bands": lambda x: (np.eye(12) - np.eye(12, k=1)) @ np.sin(x),
    "batched product": lambda x: np.einsum("bij,bj->bi", SQUARES, x.reshape(3, 4)),
    "both factors": lambda x: x[:6].reshape(2, 3) @ x[6:].reshape(3, 2),
    "convolution": lambda x: np.convolve(x, np.array([1.0, 0.0, 2.0]), "same"),
    "stencil": lambda x: fg.nn.conv(x.reshape(1, 1, 3, 4), STENCIL[None, None], padding="SAME"),
    "Fourier by rows": lambda x: np.fft.fft(x.reshape(3, 4), axis=0).real[1:],
    "solve by stacks": lambda x: np.linalg.solve(SQUARES, x.reshape(3, 4, 1)),
    "flat": lambda x: np.floor(x) + np.sign(x) * x,
    "stopped": lambda x: fg.stop_gradient(x) * x[::-1],
    "scan": lambda x: lax.scan(lambda c, y: (c * y, c + y), 1.0, x)[1],
    "scan in reverse": lambda x: lax.scan(lambda c, y: (c * y, c + y), 1.0, x, reverse=True)[1],
    "scan without carry": lambda x: lax.map(lambda y: y**2, x),
    "loop": lambda x: lax.fori_loop(0, 2, lambda i, c: np.roll(c, 1) * x, x),
}  # fmt: skip


def _added(x):
    y = x * 1.0
    np.add.at(y, PLACES, x[:4] ** 2)
    return y


@pytest.mark.parametrize("name", EXACT)
def test_what_can_be_followed_is_exact(name):
    exact(EXACT[name], X)


def test_a_long_loop_is_a_fixed_point(monkeypatch):
    def f(x):
        return lax.scan(lambda c, y: (c * y[0], c[:2] * y), x[:3], x[3:].reshape(-1, 1))

    full = sparse.pattern(f)(X).toarray()
    monkeypatch.setattr(dependencies, "_UNROLLED", 0)
    fixed = sparse.pattern(f)(X).toarray()
    assert np.all(fixed >= full)
    assert not fixed.all()
    separate = sparse.pattern(lambda x: lax.map(lambda y: y**2, x))(X).toarray()
    np.testing.assert_array_equal(separate, np.eye(12))


def test_loops_of_unknown_length():
    def f(x):
        body = lambda s: (s[0] + 1.0, np.concatenate([s[1][:1] ** 2, s[1][1:] * s[1][:1]]), s[2])
        return lax.while_loop(lambda s: s[0] < 3.0, body, (0.0, x[:4], x[4:] ** 2))[1:]

    found = sparse.pattern(f)(X).toarray()
    expected = np.zeros((12, 12), bool)
    expected[:4, 0] = True
    expected[np.arange(12), np.arange(12)] = True
    np.testing.assert_array_equal(found, expected)
    slope = fg.jacfwd(lambda x: np.concatenate(f(x)))(X)
    assert not (np.asarray(slope) != 0)[~found].any()


def test_branches_are_united_and_chosen_where_they_are_known():
    def f(x):
        return lax.cond(x[0] > 1, lambda x: x[1:3], lambda x: x[3:5] * x[:2], x)

    union = sparse.pattern(f)(X).toarray()
    assert set(zip(*np.nonzero(union), strict=True)) == {(0, 0), (0, 1), (0, 3), (1, 1), (1, 2), (1, 4)}
    for x in (X, X + 2):
        dense = np.asarray(fg.jacrev(f)(x))
        np.testing.assert_array_equal(sparse.pattern(f, local=True)(x).toarray(), dense != 0)


def test_local_patterns_know_choices_factors_and_indices():
    x = np.array([3.0, -1.0, 0.0, 2.0])
    for f in (
        lambda x: np.where(x > 0, x, x[::-1]),
        lambda x: np.sort(x),
        lambda x: x * x[::-1],
        lambda x: np.maximum(x, x[::-1] / 2 + 0.1),
    ):
        dense = np.asarray(fg.jacrev(f)(x))
        np.testing.assert_array_equal(sparse.pattern(f, local=True)(x).toarray(), dense != 0)
    assert sparse.pattern(np.sort)(x).toarray().all()


def test_indices_that_are_not_known_name_every_place_along_their_axis():
    def f(x):
        return np.sort(x.reshape(3, 4), axis=1)

    np.testing.assert_array_equal(
        sparse.pattern(f)(X).toarray(), np.kron(np.eye(3), np.ones((4, 4))).astype(bool)
    )

    def g(x):
        y = np.zeros(4) + x[:4]
        np.add.at(y, np.argsort(x[:2]), x[4:6])
        return y

    found = sparse.pattern(g)(X).toarray()
    assert found[:, 4:6].all()
    np.testing.assert_array_equal(found[:, :4], np.eye(4))


def test_derivatives_that_functions_bring_along_are_those_that_count():
    @fg.custom_vjp
    def through(x):
        return np.round(x)

    through.defvjp(lambda x: (np.round(x), None), lambda _, ct: (ct,))
    np.testing.assert_array_equal(sparse.pattern(lambda x: through(x))(X).toarray(), np.eye(12))


def test_second_order_has_the_cross_terms_alone():
    def pattern(f):
        return sparse.pattern(f, order=2)(X[:4]).toarray().astype(int).tolist()

    none = [[0] * 4] * 4
    assert pattern(lambda x: np.sum(x)) == none
    assert pattern(lambda x: x[0] * x[2]) == [[0, 0, 1, 0], [0] * 4, [1, 0, 0, 0], [0] * 4]
    assert pattern(lambda x: np.sum(np.sin(x))) == np.eye(4, dtype=int).tolist()
    assert pattern(lambda x: x[:2] @ x[2:]) == np.kron([[0, 1], [1, 0]], np.eye(2, dtype=int)).tolist()
    assert pattern(lambda x: np.sum(x) ** 2) == [[1] * 4] * 4


def test_a_pattern_that_would_not_fit_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(dependencies, "_ENTRIES", 50)
    with pytest.raises(MemoryError, match=r"as far as is known cholesky|solve_triangular|contract"):
        sparse.pattern(lambda x: np.linalg.cholesky(np.eye(8) + np.outer(x[:8], x[:8])))(X)


# ---- random programs

STEPS = {
    "slice": lambda d, x: x[d.draw(st.integers(0, 2)) : x.size - d.draw(st.integers(0, 2))],
    "flip": lambda d, x: x[::-1],
    "gather": lambda d, x: x[d.draw(_places(x.size))],
    "scatter": lambda d, x: _scattered(x, d.draw(_places(x.size, least=x.size, most=x.size))),
    "write": lambda d, x: _written(x, d.draw(_places(x.size))),
    "product": lambda d, x: x * np.roll(x, d.draw(st.integers(-3, 3))),
    "sine": lambda d, x: np.sin(x),
    "quotient": lambda d, x: x / (2.0 + x[::-1] ** 2),
    "floor": lambda d, x: x + np.floor(x[:1]),
    "choice": lambda d, x: np.where(x > 0.3, x, x[::-1]),
    "sums": lambda d, x: np.concatenate([x, x.reshape(-1, 1).sum(axis=0)]),
    "cumsum": lambda d, x: np.concatenate([x[:1], np.cumsum(x[1:])]),
    "matrix": lambda d, x: np.concatenate([x[:-2], (x[:2].reshape(2, 1) @ x[-2:].reshape(1, 2))[0]]),
    "bands": lambda d, x: (np.eye(x.size) + np.eye(x.size, k=2)) @ x,
    "convolve": lambda d, x: np.convolve(x, np.array([1.0, 0.0, -0.5]), "same"),
    "Fourier": lambda d, x: np.concatenate([x[:1], np.fft.rfft(x[1:4]).real, x[4:]]),
    "scan": lambda d, x: lax.scan(lambda c, y: (0.5 * c * y, c + y), x[0], x)[1],
    "map": lambda d, x: lax.map(lambda y: y * np.cos(y), x),
    "branch": lambda d, x: lax.cond(x[0] > 0.2, lambda x: np.roll(x, 1), lambda x: x * x[0], x),
    "loop": lambda d, x: lax.fori_loop(0, 2, lambda i, c: c * x + np.roll(c, 1), x),
    "sort": lambda d, x: np.concatenate([np.sort(x[:3]), x[3:]]),
    "maximum": lambda d, x: np.maximum(x, 0.1 + x[::-1]),
}  # fmt: skip


def _places(n, least=2, most=8):
    return st.lists(st.integers(0, n - 1), min_size=max(least, 5), max_size=max(most, 5)).map(np.array)


def _scattered(x, places):
    y = np.zeros(x.size) + 0.5 * x
    np.add.at(y, places[: x.size], x[: places.size] ** 2)
    return y


def _written(x, places):
    y = x * 1.0
    y[places[:2]] = x[:2] ** 2
    return y


class Replayed:
    """Draws once, and gives the same again each time that the program runs."""

    def __init__(self, data):
        self.data, self.drawn, self.at = data, [], 0

    def draw(self, strategy):
        if self.at == len(self.drawn):
            self.drawn.append(self.data.draw(strategy))
        self.at += 1
        return self.drawn[self.at - 1]


def compare(f, n, mode, recovery, rng):
    """Compare with dense derivatives."""
    pattern = sparse.pattern(f)(np.zeros(n)).toarray()
    for _ in range(20):
        dense = np.asarray(fg.jacrev(f)(rng.uniform(-1, 1, n)))
        assert not (dense != 0)[~pattern].any()
    x = rng.uniform(-1, 1, n)
    found = sparse.jacobian(f, mode=mode)(x).toarray()
    dense = np.asarray(fg.jacrev(f)(x))
    np.testing.assert_allclose(found, dense, rtol=1e-10, atol=1e-12 * np.abs(dense).max(initial=1))
    weights = rng.uniform(1, 2, dense.shape[0])
    scalar = lambda x: np.sum(weights * f(x) ** 2)
    dense = np.asarray(fg.hessian(scalar)(x))
    hess = sparse.hessian(scalar, recovery=recovery)
    matrix = hess(x)
    hess.fill(matrix.data, x)
    np.testing.assert_allclose(matrix.toarray(), dense, rtol=1e-9, atol=1e-11 * np.abs(dense).max(initial=1))


@settings(max_examples=drawn(400), deadline=None)
@given(st.data())
def test_random_programs(data):
    """Values equal those of the dense Jacobian and Hessian, and no entry is missing at any of many points."""
    names = data.draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4))
    n = data.draw(st.integers(6, 9))
    replayed = Replayed(data)

    def f(x):
        replayed.at = 0
        for name in names:
            x = STEPS[name](replayed, x) if x.size >= 5 else x
        return x

    rng = np.random.default_rng(len(names))
    f(rng.uniform(-1, 1, n))
    with fg.disable_jit():  # programs of one use
        mode = data.draw(st.sampled_from(["auto", "forward", "reverse", "bidirectional"]))
        compare(f, n, mode, data.draw(st.sampled_from(["auto", "direct", "substitution"])), rng)
