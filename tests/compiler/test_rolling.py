"""Long programs become loops, with the values of the programs as they were."""

from collections import Counter

import numpy as np
import pytest

import fgrad as fg
from fgrad.compiler import rolling, stretches
from fgrad.core.rewriting.effects import has_effects
from fgrad.transforms import stage

SEEDS = [*range(16), 410]  # hundreds were tried


@pytest.fixture
def short(monkeypatch):
    """Short programs are rolled too."""
    monkeypatch.setattr(rolling, "LONG", 0)
    monkeypatch.setattr(stretches, "PART", 8)
    for module in (rolling, stretches):
        monkeypatch.setattr(module, "TURNS", 4)


def loops(program):
    return [e.params["code"] for e in program.equations if e.name == "lax.scan"]


def assert_same(f, *args):
    """The rolled program computes what the program does, bit by bit."""
    program = fg.make_graph(f)(*args)
    found = rolling.rolled(program)
    leaves = list(args)
    with np.errstate(all="ignore"):
        pairs = zip(program.run(leaves), found.run(leaves), strict=True)
    for x, y in pairs:
        np.testing.assert_array_equal(x, y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
    return found


def runge_kutta(n, h=0.05):
    def f(s):
        return np.stack([s[1], -np.sin(s[0]) - 0.1 * s[1]])

    def solve(y):
        for _ in range(n):
            k1 = f(y)
            k2 = f(y + 0.5 * h * k1)
            k3 = f(y + 0.5 * h * k2)
            k4 = f(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y[0] ** 2 + y[1]

    return solve


def test_steps_of_a_python_loop_become_a_loop():
    found = assert_same(runge_kutta(50), np.array([1.0, 0.1]))
    (loop,) = loops(found)
    assert (loop.length, len(loop.body.equations), loop.carry) == (50, 45, 1)
    assert len(found.equations) == 5


def test_the_way_back_becomes_a_loop_too():
    found = assert_same(fg.value_and_grad(runge_kutta(50)), np.array([1.0, 0.1]))
    there, back = loops(found)
    assert (there.length, back.length) == (50, 49)
    assert stretches.size_of(found) < 200


def visits(n):
    """Return how often parts of tracing and rolling run for n steps, forward and back."""
    count = Counter()

    def counting(place, name):
        before = getattr(place, name)
        patch.setattr(place, name, lambda *args: (count.update([name]), before(*args))[1])

    with pytest.MonkeyPatch.context() as patch:
        counting(stage, "quiet")  # around each rule for shapes
        counting(stretches._Numbers, "of")
        counting(stretches.Stretches, "_suffix")
        counting(rolling._Writer, "_place")
        program = fg.make_graph(fg.value_and_grad(runge_kutta(n)))(np.array([1.0, 0.1]))
        count["equations"] = len(program.equations)
        count["rolled"] = stretches.size_of(rolling.rolled(program))
    return count


def test_what_a_step_takes_does_not_depend_on_how_many_there_are():
    few, many = (visits(n) for n in (100, 400))
    for name in ("quiet", "_suffix", "rolled"):  # kinds of equations, operands of a step, the result
        assert 0 < many[name] == few[name] < 1000
    for name in ("equations", "of", "_place"):
        assert 0 < many[name] <= 4.05 * few[name]
    assert many["of"] <= 1.1 * many["equations"]


def test_kernels_of_a_rolled_program_are_those_of_a_step():
    few, many = (fg.jit(fg.grad(runge_kutta(n))).lower(np.ones(2)).cost() for n in (50, 200))
    assert few.kernels == many.kernels < 40


@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_compiled_they_are_what_the_function_returns(dtype):
    f, x = runge_kutta(20), np.array([1.0, 0.1], dtype)
    f = f if dtype != "c16" else (lambda z, f=f: np.real(f(z)))
    near = 2e-5 if dtype == "f4" else 1e-13
    assert loops(rolling.rolled(fg.make_graph(fg.grad(f))(x)))
    value, slope = fg.jit(fg.value_and_grad(f))(x)
    expected, other = fg.value_and_grad(f)(x)
    assert slope.dtype == other.dtype
    np.testing.assert_allclose(value, expected, near)
    np.testing.assert_allclose(slope, other, near)
    np.testing.assert_allclose(fg.jit(f)(x), f(x), near)


def test_short_programs_stay_as_they_are():
    program = fg.make_graph(runge_kutta(10))(np.ones(2))
    assert rolling.rolled(program) is program


def test_large_steps_stay_as_they_are():
    def f(x):
        for _ in range(300):
            x = np.sin(x) * 0.5 + np.cos(x)
        return x

    program = fg.make_graph(f)(np.ones(100_000))
    assert rolling.rolled(program) is program


def test_large_arguments_of_each_step_are_not_stacked(short):
    def f(x, *weights):
        for w in weights:
            x = np.tanh(w @ x) + np.sin(x) * 0.5
        return x

    program = fg.make_graph(f)(np.ones(30), *np.ones((20, 30, 30)))
    assert rolling.rolled(program) is program
    assert loops(assert_same(f, np.ones(2), *np.ones((20, 2, 2))))


def test_what_calls_the_user_is_no_part_of_a_loop():
    seen = []

    def f(x):
        for i in range(100):
            for _ in range(8):
                x = np.sin(x) + 1.0
            if i % 30 == 0:
                fg.debug.callback(lambda x: seen.append(float(x)), x)
        return x

    program = rolling.rolled(fg.make_graph(f)(1.0))
    assert not any(has_effects(code.body) for code in loops(program))
    seen.clear()
    fg.jit(f)(1.0)
    compiled = seen[:]
    seen.clear()
    f(fg.tensor(1.0))
    np.testing.assert_allclose(compiled, seen)


def test_indices_out_of_bounds_are_found_after_the_program():
    def f(x, i):
        for _ in range(200):
            x = np.sin(x) + x[i] * np.cos(x)
        return x

    g, x = fg.jit(f), np.linspace(0, 1, 3)
    np.testing.assert_allclose(g(x, 2), f(x, 2), 1e-12)
    with pytest.raises(IndexError):
        g(x, np.int64(3))


def test_constants_of_each_step_are_stacked(short):
    def f(x):
        for i in range(20):
            x = np.sin(x) * (0.9**i) + np.cos(x) * np.float64(i) + np.arange(i, i + 3.0)
        return x

    (loop,) = loops(assert_same(f, np.ones(3)))
    assert loop.length == 20


def test_elements_of_arguments_are_gone_along(short):
    def f(x, y):
        for i in range(1, 20):
            x = np.sin(x) * y[i] + np.cos(x * y[30 - i])
        return x

    found = assert_same(f, 1.0, np.linspace(0, 1, 40))
    assert len(loops(found)) == 1
    assert stretches.size_of(found) < 15
    found = assert_same(fg.grad(f, argnums=(0, 1)), 1.0, np.linspace(0, 1, 40))
    assert not any(e.name == "slice_backward" for code in loops(found) for e in code.body.equations)


def test_values_of_steps_before_are_carried(short):
    def f(x):
        a, b, c = x, x + 1.0, x * 2.0
        for _ in range(20):
            a, b, c = b, c, np.sin(a) * c + np.cos(b)
        return a * b + c

    assert loops(assert_same(f, 0.3))
    assert loops(assert_same(fg.grad(f), 0.3))


def random_function(rng):
    """Return a function of loops whose steps are drawn at random, and its arguments."""
    counts = rng.integers(2, 41, rng.integers(1, 4))
    inner = int(rng.integers(0, 9)) if rng.random() < 0.4 else 0
    many = int(rng.integers(1, 4))
    unary = [np.sin, np.cos, np.tanh, np.negative, np.square]
    binary = [np.add, np.subtract, np.multiply, np.maximum]
    plans = [
        [
            (int(rng.integers(9)), rng.integers(0, 99, 4), float(rng.normal()))
            for _ in range(rng.integers(2, 9))
        ]
        for _ in counts
    ]
    kept = rng.random(5) < 0.5

    def step(plan, state, i, w, rows, fixed):
        pool = [*state, *fixed]
        for kind, (a, b, c, d), number in plan:
            x, y = pool[a % len(pool)], pool[b % len(pool)]
            if kind < 3:
                pool.append(np.tanh(binary[c % 4](x, y)))
            elif kind < 5:
                pool.append(unary[c % 5](x) * 0.5)
            elif kind == 5:
                pool.append(x * number)
            elif kind == 6:
                pool.append(x * w[i % len(w)] if d % 2 else x + w[len(w) - 1 - i % len(w)])
            elif kind == 7:
                pool.append(x * (0.1 * i) if d % 2 else x + (rows[-1] if rows else 0.5))
            else:
                pool.append(np.tanh(np.sum(np.stack([x, y])) * fixed[0]))
        return pool[-len(state) :]

    def f(x, w):
        state = [x[k] for k in range(many)]
        fixed = [x[-1] * 0.3]
        out = []
        for n, plan in zip(counts, plans, strict=True):
            rows = []
            for i in range(n):
                if inner:
                    for j in range(inner):
                        state = step(plan[:3], state, j, w, [], fixed)
                state = step(plan, state, i, w, rows, fixed)
                rows.append(state[0])
            fixed = [fixed[0] * np.cos(state[-1])]
            if kept[0]:
                out.append(np.sum(np.stack(rows)))
            if kept[1]:
                out += [rows[n // 2], rows[0]]
            if kept[2]:
                out.append(np.sum(np.stack(rows[::-1]) * np.arange(n)))
        return sum(o * o for o in [*out, *state])

    return f, (rng.normal(size=many + 1), rng.normal(size=45))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_steps_are_the_same_rolled(seed, short):
    f, args = random_function(np.random.default_rng(seed))
    assert_same(f, *args)
    assert_same(fg.grad(f, argnums=(0, 1)), *args)


def test_random_steps_do_become_loops(short):
    found = 0
    for seed in range(8):
        f, args = random_function(np.random.default_rng(seed))
        program = fg.make_graph(fg.grad(f))(*args)
        found += bool(loops(rolling.rolled(program)))
    assert found >= 5


@pytest.mark.parametrize("seed", range(1))
def test_random_steps_compile(seed, short):
    f, args = random_function(np.random.default_rng(seed))
    value, slope = fg.jit(fg.value_and_grad(f))(*args)
    expected, other = fg.value_and_grad(f)(*args)
    np.testing.assert_allclose(value, expected, 1e-9)
    np.testing.assert_allclose(slope, other, 1e-7, 1e-9)


def soft_dtw(n):
    def f(x):
        d = (x[0][:, None] - x[1][None, :]) ** 2
        far = d[0, 0] * 0 + 1e3
        above = [d[0, 0] * 0] + [far] * n
        for i in range(n):
            row = [far]
            for j in range(n):
                row.append(d[i, j] - np.logaddexp(np.logaddexp(-above[j], -above[j + 1]), -row[j]))
            above = row
        return above[-1]

    return f


def test_a_double_loop_becomes_a_loop_in_a_loop():
    x = np.random.default_rng(0).normal(size=(2, 24))
    found = assert_same(soft_dtw(24), x)
    assert stretches.size_of(found) < 40
    assert any(loops(code.body) for code in loops(found))
    np.testing.assert_allclose(fg.jit(soft_dtw(24))(x), soft_dtw(24)(x), 1e-12)
    assert stretches.size_of(assert_same(fg.grad(soft_dtw(24)), x)) < 700
