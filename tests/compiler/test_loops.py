"""Compiled loops and branches: native, forward and back, for any number of steps; against Python's loops."""

from __future__ import annotations

import ctypes
import gc
import signal
import threading
import tracemalloc
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from scipy import linalg as reference
from tests.compiler.interpreting import kernels_in_python
from tests.helpers import close, differences, unchecked

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.compiler.plan import Python
from fgrad.kernels import signals, stacks
from fgrad.scipy import linalg

CALLS = 3  # the first runs differently from the second, and from the third on a guard comes before


def rows(f: Any, *args: Any) -> list[str]:
    """Return which rows Python computes in the compiled function."""
    plan = fg.jit(f).lower(*args).compile()._plan
    return [s.equation.name for s in plan.steps if isinstance(s, Python)]


# ---- functions of a vector of three positive numbers, and what they are in Python -------------------


def newton(x):
    """Square roots, each to its own number of steps."""
    root = lambda a: lax.while_loop(lambda v: np.abs(v * v - a) > 1e-13 * a, lambda v: 0.5 * (v + a / v), a)
    return root(x[0]) * root(x[1]) + x[2]


def newton_plainly(x):
    return np.sqrt(x[0]) * np.sqrt(x[1]) + x[2]


def matrix(x):
    return np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 1.0]]) * (x[:, None] * x[None, :])


def power(x):
    """The largest eigenvalue, by iteration until it stays."""
    a = matrix(x)

    def step(v):
        v, _, new, count = v
        w = a @ v
        w = w / np.sqrt(np.sum(w * w))
        return w, new, np.sum(w * (a @ w)), count + 1

    start = np.ones(3), 0.0, 1.0, 0
    return lax.while_loop(lambda v: np.abs(v[1] - v[2]) > 1e-14 * np.abs(v[2]), step, start)[2]


def power_plainly(x):
    return np.linalg.eigvalsh(matrix(x))[-1]


def collatz(x):
    """Integers and a sum of powers along 27, 82, 41, ... until 40."""

    def step(v):
        n, total, y = v
        return np.where(n % 2 == 0, n // 2, 3 * n + 1), total + y * x, y * x[0] * 0.5

    _, total, y = lax.while_loop(lambda v: v[0] != 40, step, (27, x * 0.0, 1.0))
    return np.sum(total * x) + y


def collatz_plainly(x):
    n, total, y = 27, x * 0.0, 1.0
    while n != 40:
        n, total, y = (n // 2 if n % 2 == 0 else 3 * n + 1), total + y * x, y * x[0] * 0.5
    return np.sum(total * x) + y


def nested(x):
    """A while loop in each step of a scan, and one in that, some of no step."""

    def inner(s):
        k, v = s
        _, v = lax.while_loop(lambda s: s[0] < k, lambda s: (s[0] + 1, np.sin(s[1]) * x), (0, v))
        return k + 1, v + x * 0.1

    def step(v, k):
        _, v = lax.while_loop(lambda s: s[0] < k, inner, (0, v))
        return v, np.sum(v * v)

    v, ys = lax.scan(step, x, np.array([3, 0, 1, 2]))
    return np.sum(v) * np.sum(ys)


def nested_plainly(x):
    v, total = x, 0.0
    for n in [3, 0, 1, 2]:
        for k in range(n):
            for _ in range(k):
                v = np.sin(v) * x
            v = v + x * 0.1
        total = total + np.sum(v * v)
    return np.sum(v) * total


def chosen(x):
    """Branches in a while loop, that keep different values."""

    def step(s):
        k, v = s
        return k + 1, lax.cond(k % 3 == 0, lambda v: np.exp(-v) * x, lambda v: np.sin(v) + v * x, v)

    return np.sum(lax.while_loop(lambda s: (s[0] < 8) & (np.sum(s[1]) < 25.0), step, (0, x))[1] ** 2)


def chosen_plainly(x):
    k, v = 0, x
    while k < 8 and np.sum(v) < 25.0:
        k, v = k + 1, np.exp(-v) * x if k % 3 == 0 else np.sin(v) + v * x
    return np.sum(v**2)


PATH = np.array([4, 2, -1, 0, 1])


def walk(x):
    """A path through an array, and lookups in a scan and in a branch, forwards and from the end."""
    y = np.concatenate([x, x * x])[:5]

    def step(s):
        i, total = s
        other = lax.cond(i > 1, lambda j: y[j - 1] * y[-j], lambda j: y[j] ** 3, i)
        return fnp.take(PATH, i), np.sin(total) + y[i] * other

    _, total = lax.while_loop(lambda s: s[0] >= 0, step, (3, 0.0))
    return total + lax.scan(lambda c, i: (c * y[i] + x[i % 3], None), total, np.array([4, 0, -2, 2]))[0]


def walk_plainly(x):
    y, i, total = np.concatenate([x, x * x])[:5], 3, 0.0
    while i >= 0:
        i, total = PATH[i], np.sin(total) + y[i] * (y[i - 1] * y[-i] if i > 1 else y[i] ** 3)
    c = total
    for i in [4, 0, -2, 2]:
        c = c * y[i] + x[i % 3]
    return total + c


PAIRS = (
    *((newton, newton_plainly), (power, power_plainly), (collatz, collatz_plainly)),
    *((nested, nested_plainly), (chosen, chosen_plainly), (walk, walk_plainly)),
)
FUNCTIONS = {pair[0].__name__: pair for pair in PAIRS}
X = np.array([1.3, 0.7, 1.1])
TANGENT = np.array([0.3, -1.0, 0.5])
BATCH = np.stack([X, X[::-1] * 1.1, X * 0.8 + 0.2])


def second(f):
    return lambda x: differences(lambda x: differences(f, x, 1e-4), x, 1e-4)


def slope(f, x):
    return differences(f, x) @ TANGENT


def each(f):
    return lambda xs: np.stack([f(x) for x in xs])


WEIGHTS = np.arange(1.0, 4.0)
MODES = {  # what is compiled, what it is compared with, how close they come
    "value": (lambda f: f, lambda f: f, 1e-10),
    "value_and_grad": (fg.value_and_grad, lambda f: lambda x: (f(x), differences(f, x)), 1e-6),
    "jvp": (
        lambda f: lambda x: fg.jvp(f, (x,), (TANGENT,)),
        lambda f: lambda x: (f(x), slope(f, x)),
        1e-6,
    ),
    "hessian": (fg.hessian, second, 1e-4),
    "vmap": (fg.vmap, each, 1e-10),
    "vmap of grad": (lambda f: fg.vmap(fg.grad(f)), lambda f: each(lambda x: differences(f, x)), 1e-6),
    "grad of vmap": (
        lambda f: fg.grad(lambda xs: np.sum(fg.vmap(f)(xs) * WEIGHTS)),
        lambda f: lambda xs: each(lambda x: differences(f, x))(xs) * WEIGHTS[:, None],
        1e-6,
    ),
}


CASES = [(name, mode) for name in FUNCTIONS for mode in MODES]


@pytest.mark.parametrize("name, mode", CASES)
def test_loops_run_natively(name, mode):
    (f, plainly), (transform, reference, rtol) = FUNCTIONS[name], MODES[mode]
    x = BATCH if "vmap" in mode else X
    expected = reference(plainly)(x)
    compiled = fg.jit(transform(f))
    for _ in range(CALLS):
        found = compiled(x)
        for a, b in zip(fg.tree.leaves(found), fg.tree.leaves(expected), strict=True):
            close(a, b, rtol)
    assert rows(transform(f), x) == []


@pytest.mark.parametrize("mode", ["value_and_grad", "hessian", "vmap of grad"])
@pytest.mark.parametrize("name", ["nested", "walk"])
def test_loops_of_interpreted_kernels(name, mode):
    with kernels_in_python():
        test_loops_run_natively(name, mode)


# ---- the number of steps -------------------------------------------------------------------------------


def repeated(x, count):
    """A recurrence of `count` steps."""
    step = lambda v: (v[0] + 1, np.sin(v[1]) + 1e-3 * x * v[1])
    return lax.while_loop(lambda v: v[0] < count, step, (0, x))[1]


def repeated_plainly(x, count):
    """The same, and its derivative by hand."""
    y, slope = x, 1.0
    for _ in range(count):
        slope = np.cos(y) * slope + 1e-3 * (y + x * slope)
        y = np.sin(y) + 1e-3 * x * y
    return y, slope


def test_any_number_of_steps():
    f = fg.jit(fg.value_and_grad(repeated))
    for count in (3, 0, 1, 2, 100_000, 255, 256, 257, 0, 5):
        for a, b in zip(f(0.7, count), repeated_plainly(0.7, count), strict=True):
            close(a, b, 1e-9, atol=1e-300)
    assert rows(fg.value_and_grad(repeated), 0.7, 3) == []


def test_what_a_loop_keeps_is_allocated_once():
    f = fg.jit(fg.grad(repeated))
    for _ in range(CALLS):
        f(0.7, 20_000)
    gc.collect()
    tracemalloc.start()
    try:
        f(0.7, 20_000)
        start = tracemalloc.get_traced_memory()[0]
        for k in range(300):
            f(0.7, 100 * (k % 200))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - start < 20_000
        f(0.7, 200_000)
        assert tracemalloc.get_traced_memory()[0] - start > 200_000 * 8
        del f
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - start < 20_000
    finally:
        tracemalloc.stop()


def test_many_threads_at_once():
    f = fg.jit(fg.grad(repeated))
    counts = [(37 * k) % 400 for k in range(40)]
    expected = {n: repeated_plainly(0.7, n)[1] for n in counts}
    for _ in range(CALLS):
        f(0.7, 10)
    wrong, start = [], threading.Barrier(8)

    def work(k):
        start.wait()
        for n in counts[k:] + counts[:k]:
            found = f(0.7, n)
            if not np.isclose(found, expected[n], 1e-9, 1e-300):
                wrong.append((n, found))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("way", [nullcontext, kernels_in_python])
def test_no_memory_left(way, monkeypatch):
    refuse = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(lambda _, size: None)
    monkeypatch.setattr(stacks, "grow", lambda: ctypes.cast(refuse, ctypes.c_void_p).value)
    with way():
        f = fg.jit(fg.grad(repeated))
        for _ in range(CALLS):
            with pytest.raises(MemoryError, match="no memory left for the residuals"):
                f(0.7, 3)
            assert f(0.7, 0) == 1  # nothing to keep


@unchecked("as_njit is refused")
def test_no_memory_left_inside_of_other_compiled_code(monkeypatch):
    refuse = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(lambda _, size: None)
    monkeypatch.setattr(stacks, "grow", lambda: ctypes.cast(refuse, ctypes.c_void_p).value)
    with pytest.raises(MemoryError, match="no memory left for the residuals"):
        fg.jit(fg.grad(repeated)).as_njit(0.7, 3)(0.7, 3)


@unchecked("as_njit is refused")
def test_inside_of_other_compiled_code():
    f = fg.jit(fg.value_and_grad(repeated)).as_njit(0.7, 3)
    for count in (0, 1, 5000, 3):
        for a, b in zip(f(0.7, count), repeated_plainly(0.7, count), strict=True):
            close(a, b, 1e-9, atol=1e-300)
    tracemalloc.start()
    try:
        for _ in range(100):
            f(0.7, 5000)
        assert tracemalloc.get_traced_memory()[0] < 50_000
    finally:
        tracemalloc.stop()


# ---- signals ---------------------------------------------------------------------------------------------


class AlarmError(BaseException):
    """What the handler of a signal raises: no Exception, which an import may drop."""


@pytest.fixture
def alarm():
    """A function that lets a handler of signals be called while what follows runs."""
    words, clock = signals._words(), signals.FIELDS.index("clock")
    before = words[clock], signal.getsignal(signal.SIGALRM)
    words[clock] = ctypes.cast(ctypes.CDLL(None).rand, ctypes.c_void_p).value  # seconds pass quickly

    def start(handler):
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.02)

    yield start
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    words[clock] = before[0]
    signal.signal(signal.SIGALRM, before[1])


def raises(*_):
    signal.setitimer(signal.ITIMER_REAL, 1.0)  # once more, should it have come where exceptions are dropped
    raise AlarmError


def left(alarm, f, *args):
    """Call a function that does not end before an alarm."""
    alarm(raises)
    with pytest.raises(AlarmError):
        f(*args)
    signal.setitimer(signal.ITIMER_REAL, 0.0)


# an alarm that comes while garbage is collected is printed, and the next one counts
lost_alarms = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@lost_alarms
@pytest.mark.parametrize("shape", [(), (3,), (20_000,)])  # by a number, a small loop, and with others running
def test_an_endless_loop_is_left_where_a_handler_raises(alarm, shape):
    @fg.jit
    def f(x, steps):
        stay = lambda s: (s[1] != steps) & (np.sum(s[0]) < 1e300)
        return lax.while_loop(stay, lambda s: (s[0] * 0.5 + x, s[1] + 1), (x, 0))

    x = np.ones(shape)
    for _ in range(CALLS):
        left(alarm, f, x, -1)
        value, count = f(x, 3)
        assert count == 3
        close(value, 1.875 * x)


@lost_alarms
def test_a_loop_around_endless_loops_and_one_within(alarm):
    inner = lambda x, n: lax.while_loop(lambda s: s[1] != n, lambda s: (s[0] + x, s[1] + 1), (x, 0))[0]
    within = fg.jit(lambda x, n: lax.fori_loop(0, 3, lambda i, s: s + inner(x, n), x))
    around = fg.jit(
        lambda x, n: lax.while_loop(lambda s: s[1] != n, lambda s: (inner(x, 3), s[1] + 1), (x, 0))[0]
    )
    for f, expected in ((within, 13.0), (around, 4.0)):
        for _ in range(CALLS):
            left(alarm, f, 1.0, -1)
            assert f(1.0, 3) == expected


def test_a_handler_may_call_the_function_that_runs(alarm):
    f = fg.jit(lambda x, n: lax.fori_loop(0, n, lambda i, s: s + x, 0.0))
    found = []
    for _ in range(CALLS):
        alarm(lambda *_: found.append(f(2.0, 5)))
        assert f(1.0, 3_000_000) == 3_000_000
    while len(found) < CALLS:  # it was too slow, or too fast
        assert f(1.0, 3_000_000) == 3_000_000
    assert found == [10.0] * CALLS


@lost_alarms
def test_other_threads_run_beside_an_endless_loop(alarm):
    f = fg.jit(lambda x: lax.while_loop(lambda s: s > 0.0, lambda s: s * 0.5 + x, x))
    f(-1.0)
    f(-1.0)
    signal.signal(signal.SIGALRM, raises)
    thread = threading.Timer(0.01, lambda: signal.raise_signal(signal.SIGALRM))
    thread.start()
    with pytest.raises(AlarmError):
        f(1.0)
    thread.join()


# ---- indices ---------------------------------------------------------------------------------------------


def chase_plainly(x, following, start):
    i, total = start, 0.0
    while i != 0:
        i, total = following[i], total * 0.5 + x[i]
    return total


def chase(x, following, start):
    """The sum of what is seen on a path that ends at place 0."""
    step = lambda v: (following[v[0]], v[1] * 0.5 + x[v[0]])
    return lax.while_loop(lambda v: v[0] != 0, step, (start, 0.0))[1]


@pytest.mark.parametrize("transform", [lambda f: f, fg.grad])
@pytest.mark.parametrize("way", [nullcontext, kernels_in_python])
def test_an_index_out_of_bounds_in_a_loop(transform, way):
    x, good = np.array([1.0, 2.0, 3.0]), np.array([0, 2, -3])
    plainly = lambda start: lambda x: chase_plainly(x, good, start)
    with way():
        f = fg.jit(transform(chase))
        for bad in (5, 3, -4, 2**62, -(2**63)):  # clipped to 2, it would go round for ever
            for start in (1, -1, 0):
                expected = differences(plainly(start), x) if transform is fg.grad else plainly(start)(x)
                close(f(x, good, start), expected, 1e-8)
            for broken in (np.array([0, 2, bad]), np.array([0, bad, 2])):
                with pytest.raises(IndexError, match="out of bounds"):
                    f(x, broken, 1)
            with pytest.raises(IndexError, match="out of bounds"):
                f(x, good, bad)
        assert rows(transform(chase), x, good, 1) == []


def test_an_index_in_a_branch_that_is_not_taken():
    def summed(x, i):
        at, by = lambda c, x, k: c + x[k], lambda c, x, k: c * x[i + 0 * k]
        step = lambda c, k: (lax.cond(k < 2, at, by, c, x, k), None)
        return lax.scan(step, 0.0, np.arange(3))[0]

    f = fg.jit(summed)
    x = np.array([1.0, 2.0])
    for _ in range(CALLS):
        close(f(x, 1), (1.0 + 2.0) * 2.0)
        with pytest.raises(IndexError):
            f(x, 2)
    g = fg.jit(lambda x, i: lax.cond(x[0] > 0, lambda x, i: x[0], lambda x, i: x[i], x, i))
    for _ in range(CALLS):
        assert g(x, 7) == 1
        with pytest.raises(IndexError):
            g(-x, 7)


# ---- what only Python computes -----------------------------------------------------------------------------


def between(x):
    """A loop after what Python computes, in which an index may be out of bounds."""
    y = np.diagonal(linalg.sqrtm(np.diag(x)))
    _, v = lax.while_loop(lambda v: v[0] < 4, lambda v: (v[0] + 1, np.tanh(v[1]) * y + y[v[0]]), (0, y))
    return np.sum(np.sort(v)[1:])


def test_loops_between_what_python_computes():
    f, x = fg.jit(fg.value_and_grad(between)), np.array([0.5, 2.0, 1.0, 1.4])

    def plainly(x):
        y = v = np.sqrt(x)
        for k in range(4):
            v = np.tanh(v) * y + y[k]
        return np.sum(np.sort(v)[1:])

    for _ in range(CALLS):
        value, slope = f(x)
        close(value, plainly(x))
        close(slope, differences(plainly, x), 1e-6)
    short = fg.jit(fg.grad(between))
    for _ in range(CALLS):
        with pytest.raises(IndexError, match="out of bounds"):
            short(x[:3])
    found = rows(fg.value_and_grad(between), x)
    assert found
    assert not [name for name in found if name.startswith("lax.")]


def solving(x, i):
    """A root in each step, which only Python knows."""
    step = lambda v: (v[0] + 1, linalg.sqrtm(matrix(v[1])) @ np.cos(v[1]) * x[i])
    return np.sum(lax.while_loop(lambda v: v[0] < 3, step, (0, x))[1] ** 2)


def test_the_body_of_a_loop_that_python_goes_through_is_compiled():
    def plainly(x):
        v = x
        for _ in range(3):
            v = reference.sqrtm(matrix(v)) @ np.cos(v) * x[1]
        return np.sum(v**2)

    f = fg.jit(fg.value_and_grad(solving))
    for _ in range(CALLS):
        value, slope = f(X, 1)
        close(value, plainly(X))
        close(slope, differences(plainly, X), 1e-6)
        with pytest.raises(IndexError, match="out of bounds"):
            f(X, 3)
    plan = fg.jit(solving).lower(X, 1).compile()._plan
    (loop,) = [s.equation.params["code"] for s in plan.steps if isinstance(s, Python)]
    inside = loop.body.executable._plan.steps
    assert [s.equation.name for s in inside if isinstance(s, Python)] == ["matrix_function"]


def test_derivatives_of_third_order():
    third = fg.jit(fg.grad(fg.grad(fg.grad(lambda a: newton(np.stack([a, a * 0.0 + 1.0, a * 0.0]))))))
    for _ in range(CALLS):
        close(third(2.0), 3 / 8 * 2.0**-2.5, 1e-9)
