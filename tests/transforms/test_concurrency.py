"""Recordings in many threads and asyncio tasks at once, which must not see each other.

The interpreter switches threads as often as it can, and no test waits for time to pass: barriers and events
say who runs before whom.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading

import numpy as np
import pytest
import scipy.special
from tests.helpers import close, switching_every

import fgrad as fg
from fgrad import GradManager, NoGradientWarning, tensor

THREADS, TASKS = 8, 100


@pytest.fixture(autouse=True)
def switch_often():
    with switching_every(1e-6):
        yield


def in_threads(work, n=THREADS):
    """Run `work(i)` in `n` threads that start together; return the results or raise the first error."""
    barrier, results, errors = threading.Barrier(n, timeout=60), [None] * n, []

    def run(i):
        try:
            barrier.wait()
            results[i] = work(i)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive(), "a deadlock"
    if errors:
        raise errors[0]
    return results


def in_tasks(work, n=TASKS):
    """Run the coroutines `work(i)` as `n` tasks of one event loop; return the results."""

    async def main():
        return await asyncio.gather(*(work(i) for i in range(n)))

    return asyncio.run(main())


SHARED = tensor([0.1, 0.2, 0.3])  # a constant of every recording in this file
START = np.array([0.4, 0.5, 0.6])


def expected(k):
    """Return the first two derivatives of sum(sin(k x) + shared x) at START + k / 100."""
    x = START + k / 100
    return k * np.cos(k * x) + SHARED.numpy(), -(k**2) * np.sin(k * x)


def nested(k):
    """Yield between all steps of two nested recordings; return the first two derivatives."""
    x = tensor(START + k / 100)
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    yield
    with outer:
        yield
        with inner:
            y = x * k
            yield
            y = np.sin(y)
            yield
            y += SHARED * x
            yield
            inner.backward(np.sum(y))
        yield
        first, x.grad = x.grad, None
        yield
        outer.backward(first)
    yield
    return first.numpy(), x.grad.numpy()


def with_value(steps):
    """Yield what the generator `steps` yields, and then its value."""
    value = yield from steps
    yield value


def run(steps):
    """Exhaust the generator `steps`; return its value."""
    return list(with_value(steps))[-1]


async def run_in_task(steps):
    """Exhaust the generator `steps`, letting the other tasks run between; return its value."""
    values = []
    for value in with_value(steps):
        values.append(value)
        await asyncio.sleep(0)
    return values[-1]


def check(results, ks):
    """Assert that each result is the pair of derivatives that belongs to its k."""
    for (first, second), k in zip(results, ks, strict=True):
        close(first, expected(k)[0])
        close(second, expected(k)[1])


# ---- many at once ------------------------------------------------------------------------------------


def test_threads_of_nested_gradients():
    def work(i):
        return [run(nested(i + 10 * n + 1)) for n in range(50)]

    for i, results in enumerate(in_threads(work)):
        check(results, [i + 10 * n + 1 for n in range(50)])


def test_tasks_of_nested_gradients():
    check(in_tasks(lambda i: run_in_task(nested(i + 1))), range(1, TASKS + 1))


def test_threads_of_tasks_of_nested_gradients():
    def work(i):
        return in_tasks(lambda j: run_in_task(nested(10 * i + j)), 10)

    for i, results in enumerate(in_threads(work)):
        check(results, range(10 * i, 10 * i + 10))


def functional(k):
    """Return the first two derivatives by grad, and the second one also by hvp and jvp."""

    def f(x):
        return np.sum(np.sin(k * x) + SHARED.numpy() * x)

    x, ones = START + k / 100, np.ones(3)
    second = fg.grad(lambda x: np.sum(fg.grad(f)(x)))(x)
    close(fg.hvp(f, (x,), (ones,))[1], second)
    close(fg.jvp(fg.grad(f), (x,), (ones,))[1], second)
    return fg.grad(f)(x), second


def test_threads_of_functional_gradients():
    def work(i):
        return [functional(i + 10 * n + 1) for n in range(10)]

    for i, results in enumerate(in_threads(work)):
        check(results, [i + 10 * n + 1 for n in range(10)])


def test_tasks_of_functional_gradients():
    async def work(i):
        await asyncio.sleep(0)
        return functional(i + 1)

    check(in_tasks(work), range(1, TASKS + 1))


def test_threads_share_one_transformed_function():
    second = fg.grad(lambda x, k: np.sum(fg.grad(lambda x: np.sum(np.sin(k * x)))(x)))

    def work(i):
        return [second(START, float(i + n)) for n in range(20)]

    for i, results in enumerate(in_threads(work)):
        for n, g in enumerate(results):
            close(g, -((i + n) ** 2) * np.sin((i + n) * START))


def test_threads_with_groups_functions_callbacks_and_mutation():
    class Square(fg.Function):
        def forward(self, a):
            self.a = a
            return a * a

        def backward(self, ct):
            return ct * self.a * 2.0

    def work(i):
        k = float(i + 1)
        for _ in range(20):
            x, w = tensor(START), tensor(k)
            a = GradManager().attach(x, lambda t, g: g * 2.0)
            b = GradManager().attach(w)
            with a | b:
                y = Square()(x) * w
                y[0] = x[0] * k
                x *= 0.0
                a.backward(y)
                b.backward(y)
            close(x.grad, 2 * k * np.array([1.0, 2 * START[1], 2 * START[2]]))
            close(w.grad, np.array(np.sum(START[1:] ** 2)))
        return True

    assert all(in_threads(work))


# ---- blind to each other ------------------------------------------------------------------------------


def test_threads_use_each_others_tracked_values_as_constants():
    xs, barrier = [tensor(float(i + 2)) for i in range(THREADS)], threading.Barrier(THREADS, timeout=60)
    squares = [None] * THREADS

    def work(i):
        gm = GradManager().attach(xs[i])
        with gm:
            squares[i] = xs[i] * xs[i]
            barrier.wait()  # all record, all values are made
            y = squares[i] * squares[i - 1] * xs[i - 1]
            barrier.wait()  # all products are made
            gm.backward(y)
            barrier.wait()  # nobody leaves before all have differentiated

    in_threads(work)
    for i, x in enumerate(xs):
        close(x.grad, np.array(2.0 * (i + 2) * ((i - 1) % THREADS + 2.0) ** 3))


@fg.custom_vjp
def tripled(x):
    return 3 * x


tripled.defvjp(lambda x: (3 * x, None), lambda _, ct: (3 * ct,))

USES = {
    "an operator": lambda x: x * x,
    "a ufunc": np.sin,
    "a linear function": np.sum,
    "a product": lambda x: x @ x,
    "a compiled function": fg.jit(lambda x: np.sum(x * x)),
    "a function with a rule": tripled,
    "a write": lambda x: fg.numpy.zeros(3).__setitem__(0, x[0]),
    "a loop": lambda x: fg.lax.fori_loop(0, 3, lambda _, c: c * x, x),
    "a gradient by something else": lambda x: fg.grad(lambda y: np.sum(x * y))(np.ones(3)),
    "a batch": lambda x: fg.vmap(lambda k: k * x)(np.ones(2)),
    "a batch of examples": fg.vmap(lambda a: a * a),
    "an integral": lambda x: fg.scipy.integrate.quad(lambda t, a: a * t, 0.0, 1.0, (x[0],))[0],
}
CONVERSIONS = {
    "an array": np.asarray,
    "a number": lambda x: float(x[0]),
    "a function of SciPy": lambda x: scipy.special.mathieu_a(1, x),
}
FUNCTIONALS = {
    "grad": lambda f: fg.grad(f)(START),
    "value_and_grad": lambda f: fg.value_and_grad(f)(START),
    "vjp": lambda f: fg.vjp(f, START),
    "jvp": lambda f: fg.jvp(f, (START,), (START,)),
    "linearize": lambda f: fg.linearize(f, START),
    "a second derivative": lambda f: fg.grad(lambda x: np.sum(fg.grad(f)(x)))(START),
    "a recording around": lambda f: recorded_around(lambda: fg.grad(f)(START)),
}


def recorded_around(f):
    with GradManager().attach(tensor(1.0)):
        return f()


@pytest.mark.parametrize("functional", FUNCTIONALS.values(), ids=FUNCTIONALS)
@pytest.mark.parametrize("use", (USES | CONVERSIONS).values(), ids=USES | CONVERSIONS)
def test_a_thread_of_a_function_that_is_differentiated_loses_no_gradient(functional, use):
    def f(x):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            constant = pool.submit(lambda: np.sum(np.sin(x.detach()))).result()
            return np.sum(x * x) * constant + np.sum(pool.submit(use, x).result())

    with pytest.raises((fg.EscapedTensorError, TypeError, ValueError), match=r"los[et]"):
        functional(f)


@pytest.mark.parametrize("functional", FUNCTIONALS.values(), ids=FUNCTIONALS)
@pytest.mark.parametrize("use", (USES | CONVERSIONS).values(), ids=USES | CONVERSIONS)
@pytest.mark.parametrize("is_gathered", [True, False])
def test_a_task_of_a_function_that_is_differentiated_loses_no_gradient(functional, use, is_gathered):
    async def used(x):
        return np.sum(use(x))

    async def main(x):
        return (await asyncio.gather(used(x)))[0] if is_gathered else await used(x)

    with pytest.raises((fg.EscapedTensorError, TypeError, ValueError), match=r"los[et]"):
        functional(lambda x: np.sum(x * x) + asyncio.run(main(x)))


def test_what_a_thread_does_after_the_function_has_no_gradient_to_lose():
    kept = []
    fg.grad(lambda x: np.sum(kept.append(x) or x * x))(START)
    (found,) = in_threads(lambda _: kept[0] * 2, 1)
    close(found, 2 * START)


def test_tasks_use_each_others_tracked_values_as_constants():
    n = 10
    xs, squares = [tensor(float(i + 2)) for i in range(n)], [None] * n

    async def main():
        ready, made, arrived = asyncio.Event(), asyncio.Event(), {"ready": 0, "made": 0}

        async def meet(name, event):
            arrived[name] += 1
            if arrived[name] == n:
                event.set()
            await event.wait()

        async def work(i):
            gm = GradManager().attach(xs[i])
            with gm:
                squares[i] = xs[i] * xs[i]
                await meet("ready", ready)
                y = squares[i] * squares[i - 1] * xs[i - 1]
                await meet("made", made)
                gm.backward(y)

        await asyncio.gather(*(work(i) for i in range(n)))

    asyncio.run(main())
    for i, x in enumerate(xs):
        close(x.grad, np.array(2.0 * (i + 2) * ((i - 1) % n + 2.0) ** 3))


def test_one_tensor_cannot_be_recorded_in_two_threads_at_once():
    """The check and the taking are one step, however often threads switch between them."""
    x, met = tensor(3.0), threading.Barrier(THREADS, timeout=60)
    for attach_first in (True, False) * 60:
        x.grad = None

        def work(i, attach_first=attach_first):
            gm = GradManager()
            try:
                if attach_first:
                    gm.attach(x)
                gm.record()
                if not attach_first:
                    gm.attach(x)
            except RuntimeError:
                met.wait()
                gm.release()
                return False
            met.wait()  # the winner holds the tensor until all have tried
            gm.backward(x * x)
            return True

        assert sorted(in_threads(work)) == [False] * (THREADS - 1) + [True]
        close(x.grad, np.array(6.0))


def test_one_tensor_may_be_recorded_in_many_threads_one_after_the_other():
    x, lock = tensor(3.0), threading.Lock()
    gm = GradManager().attach(x)  # and by one manager, too

    def work(i):
        for _ in range(20):
            with lock, gm:
                gm.backward(x * x)

    in_threads(work)
    close(x.grad, np.array(6.0 * 20 * THREADS))


def test_an_exception_in_one_thread_does_not_touch_the_others():
    def work(i):
        for n in range(20):
            x = tensor(START)
            gm = GradManager().attach(x)
            with contextlib.suppress(ZeroDivisionError), gm:
                y = x * x
                gm.backward(y * (n / (i % 2)))  # fails in every second thread
            assert (x.grad is None) == (i % 2 == 0)
            if x.grad is not None:
                close(x.grad, 2 * n * START)
        return i

    assert in_threads(work) == list(range(THREADS))


# ---- parents and children -----------------------------------------------------------------------------


def cube(x):
    return x * x * x


async def as_task(f, x):
    async def child():
        return f(x)

    return await asyncio.create_task(child())


async def as_gathered(f, x):
    async def child():
        return f(x)

    return (await asyncio.gather(child()))[0]


async def in_executor(f, x):
    return await asyncio.get_running_loop().run_in_executor(None, f, x)


async def in_copied_context(f, x):
    """As to_thread does it, by hand: the thread runs in a copy of the parent's context."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(None, context.run, f, x)


async def in_a_called_soon(f, x):
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: done.set_result(f(x)), context=contextvars.Context())
    return await done


CHILDREN = [as_task, as_gathered, asyncio.to_thread, in_executor, in_copied_context, in_a_called_soon]


@pytest.mark.parametrize("child", CHILDREN, ids=lambda f: f.__name__)
def test_a_child_that_inherits_the_context_is_not_recorded_by_the_tape_of_its_parent(child):
    x = tensor(START)
    gm = GradManager().attach(x)

    async def parent():
        with gm:
            y = await child(cube, x)
            close(y, START**3)
            with pytest.warns(NoGradientWarning):
                gm.backward(y)
        assert x.grad is None
        with gm:
            y = await child(cube, x)
            gm.backward(y * x)  # y is a constant
        close(x.grad, START**3)

    asyncio.run(parent())


def test_a_coroutine_awaited_directly_is_the_parent_itself():
    x = tensor(START)
    gm = GradManager().attach(x)

    async def helper():
        await asyncio.sleep(0)
        return cube(x)

    async def parent():
        with gm:
            gm.backward(await helper())

    asyncio.run(parent())
    close(x.grad, 3 * START**2)


@pytest.mark.parametrize("child", CHILDREN, ids=lambda f: f.__name__)
def test_a_child_may_record_by_itself_and_its_parent_goes_on_blind(child):
    x, w = tensor(START), tensor(2.0)
    outer, inner = GradManager().attach(w), GradManager()

    def work(x):
        with inner.attach(x):
            y = cube(x) * w  # w is a constant here: another manager's
            inner.backward(y)
        return x.grad

    async def parent():
        with outer:
            z = w * w
            g = await child(work, x)
            close(g, 6 * START**2)
            assert not inner.is_recording
            assert outer.is_recording
            outer.backward(z * np.sum(g))  # it saw neither w's use nor the backward in there
        close(w.grad, np.array(4.0 * np.sum(6 * START**2)))

    asyncio.run(parent())


def test_a_child_that_outlives_the_recording_of_its_parent():
    x, w = tensor(START), tensor(2.0)

    async def main():
        go = asyncio.Event()

        async def child():
            await go.wait()
            with GradManager().attach(w) as gm:
                gm.backward(np.sum(cube(x)) * w)

        gm = GradManager().attach(x)
        with gm:
            task = asyncio.create_task(child())
            await asyncio.sleep(0)  # it has started
            gm.backward(cube(x))
        go.set()
        await task

    asyncio.run(main())
    close(x.grad, 3 * START**2)
    close(w.grad, np.array(np.sum(START**3)))


def test_a_task_that_is_cancelled_releases_its_recording():
    x = tensor(START)
    gm = GradManager().attach(x)

    async def main():
        started = asyncio.Event()

        async def work():
            with gm:
                cube(x)
                started.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await started.wait()
        assert gm.is_recording
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not gm.is_recording
        with gm:
            gm.backward(cube(x))

    asyncio.run(main())
    close(x.grad, 3 * START**2)


def test_a_manager_dropped_by_another_thread_stops_recording():
    """The last reference may go anywhere, also where the recording was not opened."""
    x = tensor(START)
    box = [GradManager().attach(x)]
    box[0].record()
    y = cube(x)
    in_threads(lambda i: box.clear(), 1)
    np.asarray(x)  # would raise if it were tracked
    np.asarray(y)
    with GradManager().attach(x) as gm:
        gm.backward(cube(x))
    close(x.grad, 3 * START**2)
