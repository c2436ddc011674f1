"""What a transformed function must leave alone: arrays of the caller, other threads, itself when pickled."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading

import numpy as np
import pytest
from tests.helpers import close, differences, exactly

import fgrad as fg
import fgrad.numpy as fnp


class Model:
    """An object whose method is differentiated."""

    def __init__(self, scale):
        self.scale = scale

    def loss(self, x):
        return self.scale * np.sum(x**2)


def cube(x):
    return x**3


# ---- in-place operations, aliasing, snapshots -------------------------------------------------


def test_in_place_operations_stay_inside():
    def f(x, y):
        x *= 2
        x[0] = 7.0
        x[1] += y[1]
        y -= 1
        return np.sum(x * x) + np.sum(y)

    x, y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    gx, gy = fg.grad(f, argnums=(0, 1))(x, y)
    close(gx, [0.0, 2 * 2 * (4.0 + 5.0), 2 * 2 * 6.0])
    close(gy, [1.0, 1.0 + 2 * 9.0, 1.0])
    exactly(x, np.array([1.0, 2.0, 3.0]))
    exactly(y, np.array([4.0, 5.0, 6.0]))
    t = fg.tensor(x)
    fg.grad(f)(t, fg.tensor(y))
    exactly(t, x)


def test_filling_an_array_in_a_loop_differentiates():
    def f(x):
        y = fnp.zeros(3)
        for i in range(3):
            y[i] = np.sin(x[i]) * (y[i - 1] if i else 1.0)
        return np.sum(y)

    x = np.array([0.4, 0.5, 0.6])
    close(fg.grad(f)(x), differences(lambda x: np.sum(np.cumprod(np.sin(x))), x), rtol=1e-8)


def test_results_share_no_memory_with_arguments():
    x, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    out, pullback = fg.vjp(lambda x: x, x)
    out[:] = 9.0
    ct = np.array([5.0, 6.0])
    (result,) = pullback(ct)
    result[:] = 9.0
    g = fg.grad(lambda x: np.sum(w * x))(x)
    g[:] = 9.0
    value, _ = fg.vjp(lambda x: w, x)
    value[:] = 9.0
    exactly(x, np.array([1.0, 2.0]))
    exactly(w, np.array([3.0, 4.0]))
    exactly(ct, np.array([5.0, 6.0]))


def test_two_results_share_no_memory():
    _, pullback = fg.vjp(lambda x, y: x + y, np.ones(2), np.ones(2))
    a, b = pullback(np.ones(2))
    a[:] = 9.0
    exactly(b, np.ones(2))
    exactly(pullback(np.ones(2))[0], np.ones(2))
    first, second = fg.vjp(lambda x: (x, x), np.ones(2))[0]
    first[:] = 9.0
    exactly(second, np.ones(2))


def test_arguments_changed_after_the_call_change_no_pullback():
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    out, pullback = fg.vjp(lambda x, y: x * y, x, y)
    x[:], y[:] = 100.0, 100.0
    close(pullback(np.ones(2)), ([3.0, 4.0], [1.0, 2.0]))
    out[:] = 100.0
    close(pullback(np.ones(2)), ([3.0, 4.0], [1.0, 2.0]))
    t = fg.tensor([1.0, 2.0])
    _, pullback = fg.vjp(lambda x: x * x, t)
    t += 100.0
    close(pullback(np.ones(2))[0], [2.0, 4.0])


# name: (function of x and of a captured array, that array, gradient at x = [1, 2, 3] of the sum)
CAPTURED = {
    "multiply": (lambda x, w: w * x,                   np.ones(3),                   [1, 1, 1]),
    "divide":   (lambda x, w: x / w,                   np.ones(3),                   [1, 1, 1]),
    "power":    (lambda x, w: x**w,                    np.full(3, 2.0),              [2, 4, 6]),
    "matmul":   (lambda x, w: w @ x,                   np.eye(3),                    [1, 1, 1]),
    "einsum":   (lambda x, w: np.einsum("ij,j", w, x), np.eye(3),                    [1, 1, 1]),
    "where":    (lambda x, w: np.where(w, x, 0),       np.array([True, False, True]), [1, 0, 1]),
    "mask":     (lambda x, w: x[w],                    np.array([True, False, True]), [1, 0, 1]),
    "index":    (lambda x, w: x[w],                    np.array([0, 0, 1]),          [2, 1, 0]),
    "take":     (lambda x, w: np.take(x, w),           np.array([0, 0, 1]),          [2, 1, 0]),
    "maximum":  (lambda x, w: np.maximum(x, w),        np.array([0.0, 9.0, 0.0]),    [1, 0, 1]),
    "method":   (lambda x, w: (w * np.ones(3)) * x.dot(w), np.ones(3),               [3, 3, 3]),
    "view":     (lambda x, w: w[::-1] * x,             np.ones(3),                   [1, 1, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", CAPTURED)
def test_a_captured_array_changed_afterwards_changes_no_gradient(name):
    f, start, expected = CAPTURED[name]
    x = np.array([1.0, 2.0, 3.0])

    def within(x, w):
        out = np.sum(f(x, w))
        w[:] = 5 if w.dtype == float else 2 if w.dtype == int else ~w
        return out

    close(fg.grad(within)(x, start.copy()), np.array(expected, float))
    w = start.copy()
    _, pullback = fg.vjp(lambda x: np.sum(f(x, w)), x)
    w[:] = 5 if w.dtype == float else 2 if w.dtype == int else ~w
    close(pullback(1.0)[0], np.array(expected, float))
    w, t, gm = start.copy(), fg.tensor(x), fg.GradManager()
    with gm.attach(t):
        y = np.sum(f(t, w))
        w[:] = 5 if w.dtype == float else 2 if w.dtype == int else ~w
        gm.backward(y)
    close(t.grad, np.array(expected, float))


# ---- objects: pickle, wrappers, failures, threads ---------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [fg.grad, fg.value_and_grad, fg.jacrev, fg.jacfwd, fg.hessian, fg.elementwise_grad, fg.vmap],
)
@pytest.mark.parametrize("f", [cube, np.sin, Model(2.0).loss], ids=["function", "ufunc", "method"])
def test_transformed_functions_pickle(transform, f):
    before = transform(f)
    after = pickle.loads(pickle.dumps(before))
    x = np.linspace(0.1, 0.9, 3) if transform in (fg.elementwise_grad, fg.vmap) else 0.3
    assert np.array_equal(after(x), before(x))
    nested = fg.value_and_grad(fg.grad(f), argnums=0, has_aux=False)
    assert pickle.loads(pickle.dumps(nested))(0.3) == nested(0.3)


def test_an_exception_is_the_users_own_and_leaves_no_trace():
    class Mine(Exception):  # noqa: N818
        pass

    def f(x):
        raise Mine

    for transform in (fg.grad, fg.value_and_grad, fg.jacrev, fg.hessian):
        with pytest.raises(Mine):
            transform(f)(1.0)
    with pytest.raises(Mine):
        fg.grad(fg.grad(f))(1.0)
    close(fg.grad(fg.grad(cube))(2.0), 12.0)


def test_threads_do_not_see_each_other():
    wrong, start = [], threading.Barrier(8)

    def work(n):
        start.wait()
        results = [fg.grad(fg.grad(lambda x: x**n))(2.0) for _ in range(30)]
        wrong.extend(r for r in results if r != n * (n - 1) * 2.0 ** (n - 2))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(2, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


def test_asyncio_tasks_do_not_see_each_other():
    async def work(n):
        t, gm = fg.tensor(float(n)), fg.GradManager()
        with gm.attach(t):
            y = t**3
            await asyncio.sleep(0)
            inner = fg.grad(fg.grad(lambda x: x**3))(n * 1.0)
            await asyncio.sleep(0)
            gm.backward(y)
        return float(t.grad), inner

    async def main():
        return await asyncio.gather(*(work(n) for n in range(100)))

    for n, (first, second) in enumerate(asyncio.run(main())):
        assert (first, second) == (3.0 * n**2, 6.0 * n)
