"""`python -m tests.interrupting`: what programs leave behind that are interrupted at random points.

CPython looks for signals where a function of Python begins, and where one of C has returned: these are the
points of KeyboardInterrupt, and of what other handlers raise, as TimeoutError. Memory runs out where
something is made: these are the points of MemoryError. A trace function counts them in fgrad's files, and
raises at one. Afterwards nothing may be left of what ran: no trace on the stack, no lock held, no setting
changed, no half of a result; and the same objects, used again, have to give the same results. Nobody but
Python itself may drop what a handler raised.
"""

from __future__ import annotations

import argparse
import atexit
import contextvars
import functools
import gc
import io
import opcode
import random
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import numpy as np
from tests.helpers import exactly

import fgrad as fg
import fgrad.numpy as fnp
import fgrad.scipy.optimize
import fgrad.viz
from fgrad import archive, compiler, config, distributed, files, lax
from fgrad.core import observers, trace
from fgrad.core.trace import FLOOR
from fgrad.kernels import store

FILES = Path("/proc/self/fd")
SOURCE = str(Path(fg.__file__).parent)
CALLS = {op for name, op in opcode.opmap.items() if name.startswith("CALL")}
MAKING = CALLS | {
    op
    for name, op in opcode.opmap.items()
    if name.startswith(("BUILD_", "BINARY_", "LIST_", "MAKE_", "FORMAT_", "GET_ITER", "UNARY_", "COMPARE_"))
}
LOADING = {op for name, op in opcode.opmap.items() if name in {"LOAD_CONST", "DUP_TOP"}}
BETWEEN = {op for name, op in opcode.opmap.items() if name in {"PRECALL", "CACHE", "PUSH_NULL"}}
ERRORS = KeyboardInterrupt, TimeoutError, MemoryError
_ = archive, compiler  # which are imported late otherwise
MODULES = tuple(sorted(name for name in sys.modules if name.startswith("fgrad.")))
LOCKS = type(threading.Lock()), type(threading.RLock())
LEFT_ALONE = ("kernels/pool.py", "kernels/native.py")  # where threads meet: they have tests of their own


class Points:
    """Counts the points at which an error may arrive, and raises it at one of them."""

    def __init__(self, error, at=None):
        self.error, self.at = error, at
        self.count, self.where = 0, ""
        self._last = {}

    def __enter__(self):
        sys.settrace(self._call)

    def __exit__(self, *_):
        sys.settrace(None)
        self._last.clear()

    def _point(self, frame):
        if self.count == self.at:
            code = frame.f_code
            self.where = f"{code.co_filename.removeprefix(SOURCE)}:{frame.f_lineno} in {code.co_name}"
            self.count += 1
            raise self.error
        self.count += 1

    def _call(self, frame, *_):
        self._last.pop(frame.f_back, None)  # it was no function of C
        file = frame.f_code.co_filename
        if not file.startswith(SOURCE) or file.endswith(LEFT_ALONE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._point(frame)
        return self._step

    def _step(self, frame, event, _):
        if event == "return":
            self._last.pop(frame, None)
        elif event == "opcode":
            code = frame.f_code.co_code
            if self.error is not MemoryError:
                if self._last.get(frame) in CALLS:
                    self._point(frame)
            elif code[frame.f_lasti] in MAKING and not self._leaves(frame):
                self._point(frame)
            self._last[frame] = code[frame.f_lasti]
        return self._step

    def _leaves(self, frame):
        """Return whether the call before which a frame is ends a block, which takes no memory.

        Where a function of Python is called, its frame is a point of its own.
        """
        code, at, constants = frame.f_code.co_code, frame.f_lasti - 2, 0
        while at >= 0 and code[at] not in LOADING | CALLS:
            if code[at] not in BETWEEN:
                return False
            at -= 2
        while at >= 0 and code[at] in LOADING:
            at, constants = at - 2, constants + 1
        return code[frame.f_lasti] in CALLS and constants >= 3


# ---- what may not be left behind --------------------------------------------------------------------------


@functools.cache
def _everything(modules):
    """Return the context variables and locks of fgrad's modules."""
    variables, locks = [], []
    for module in modules:
        for name, x in vars(sys.modules[module]).items():
            if isinstance(x, contextvars.ContextVar):
                variables.append((f"{module}.{name}", x))
            elif isinstance(x, LOCKS):
                locks.append((f"{module}.{name}", x))
    return variables, locks


def state():
    """Return all of the state that a program has to leave as it was, by name."""
    variables, locks = _everything(MODULES)
    found = {name: variable.get(None) for name, variable in variables}
    found |= {name: x._is_owned() if hasattr(x, "_is_owned") else x.locked() for name, x in locks}
    found["occasions"] = len(config.occasions)
    found["observers"] = len(observers.observed_primitives), observers._users
    found["collector"] = gc.isenabled()
    found["errstate"] = np.geterr()
    found["files"] = sorted(x.name for x in FILES.iterdir()) if FILES.exists() else []
    return found


def left(before):
    """Return what is not as it was."""
    moved = [(name, x) for name, x in state().items() if x is not before[name] and x != before[name]]
    return [f"{name}: {x!r}"[:120] for name, x in moved]


# ---- programs ---------------------------------------------------------------------------------------------
# Each returns a function to be interrupted, which returns arrays, always the same ones, and a function that
# tells what of the objects that it keeps is half done.

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def _whole(*tensors):
    """Return the check that gradients came all at once; it forgets them."""

    def check():
        there = [t.grad is not None for t in tensors]
        _taken(*tensors)
        return [] if len(set(there)) == 1 else [f"some gradients of {there}"]

    return check


def _taken(*tensors):
    """Return gradients and forget them, without a call that could be interrupted."""
    found = []
    for t in tensors:
        g = getattr(t, "_grad", None)
        found.append(None if g is None else g._value)
        t._grad = None
    return found


def _nothing():
    return []


V, W = np.array([0.5, 1.0, 2.0]), np.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5], [2.0, 1.0, 1.5]])


@program
def manager():
    x, w = fg.tensor(V), fg.tensor(W)
    gm = fg.GradManager().attach([x, w])

    def run():
        with gm:
            np.tanh(w * x)  # and nothing more
        with gm:
            y = np.sum(np.tanh(w @ x) * x[1:].sum())
            gm.backward(y)
        return _taken(x, w)

    return run, _whole(x, w)


@program
def without_a_block():
    x = fg.tensor(V)
    gm = fg.GradManager().attach(x)

    def run():
        gm.record()
        gm.backward(np.sum(np.exp(x) * x))
        return _taken(x)

    def check():
        gm.release()  # nothing else can end it
        return _whole(x)()

    return run, check


@program
def managers():
    x, w = fg.tensor(V), fg.tensor(W)
    a, b = fg.GradManager().attach(x), fg.GradManager().attach(w)

    def run():
        with a | b:
            y = np.sum((w @ x) ** 2)
            a.backward(y)
            b.backward(y)
        return _taken(x, w)

    def check():
        x.grad = w.grad = None
        return []

    return run, check


@program
def second_order():
    x = fg.tensor(V)
    outer, inner = fg.GradManager().attach(x), fg.GradManager().attach(x)

    def run():
        x.grad = None
        with outer:
            with inner:
                inner.backward(np.sum(x**3))
            first, x.grad = x.grad, None
            outer.backward(first)
        return _taken(x)

    return run, _nothing


@program
def callbacks():
    x, w = fg.tensor(V), fg.tensor(W)
    heard = []
    gm = fg.GradManager().attach([x, w], lambda _, g: g * 2).after_backward(lambda: heard.append(1))

    def run():
        with gm:
            gm.backward(np.sum(np.sin(w @ x)))
        return _taken(x, w)

    return run, _whole(x, w)


@program
def writing():
    x = fg.tensor(W)
    gm = fg.GradManager().attach(x)

    def run():
        with gm:
            y = x * 2.0
            row, turned = y[0], y.T
            turned[1] = x[2] * x[0]
            row += 1.0
            gm.backward(np.sum(y * turned))
        return _taken(x)

    return run, _whole(x)


@program
def views():
    x = fg.tensor(W)
    row, turned = x[0], x.T
    part, flat = turned[1:], x.reshape(-1)
    old, new = W.copy(), W.copy()
    new.T[1:][0] = V

    def run():
        x[...] = old
        part[0] = V
        return [t.numpy() for t in (x, row, turned, part, flat)]

    def check():
        a = x.numpy()
        pairs = (row, a[0]), (turned, a.T), (part, a.T[1:]), (flat, a.ravel())
        wrong = [f"a view is {t}, not {value}" for t, value in pairs if not np.array_equal(t.numpy(), value)]
        return wrong + ([] if any(np.array_equal(a, e) for e in (old, new)) else [f"half of it: {a}"])

    return run, check


@program
def shapes():
    def run():
        x = fg.tensor(W)
        row, y = x[0], x[1:]
        z = y[0]
        try:
            y.shape = (6,)
        finally:
            y[0] = 7.0
            x[2, 2] = 8.0
            pairs = (row, x[0]), (z, x[1]), (y.ravel(), x[1:].ravel())
            assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in pairs if a.shape == b.shape)
        return [x.numpy(), y.numpy()]

    return run, _nothing


@program
def gradients():
    f = fg.value_and_grad(lambda x, w: np.sum(np.tanh(w @ x)), argnums=(0, 1))

    def run():
        value, (a, b) = f(V, W)
        return [value, a, b]

    return run, _nothing


@program
def forward_mode():
    f = lambda x: np.sin(x) * np.sum(x)

    def run():
        out, pullback = fg.vjp(f, V)
        push = fg.linearize(f, V)[1]
        return [out, *pullback(V), *fg.jvp(f, (V,), (V,)), push(V), fg.hessian(lambda x: f(x).sum())(V)]

    return run, _nothing


@program
def mapped():
    g = fg.vmap(fg.grad(lambda x: np.sum(np.exp(x) * x) if x[0] > 0.6 else np.sum(x**2)))

    def run():
        return [g(W), fg.vmap(lambda x, y: np.sort(x) @ y, (0, None))(W, V)]

    return run, _nothing


@program
def own_rules():
    @fg.custom_vjp
    def f(x):
        return np.exp(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * np.exp(x),))

    class Twice(fg.Function):
        def forward(self, x):
            self.x = x
            return x * x

        def backward(self, ct):
            return 2.0 * ct * self.x

    def run():
        g = lambda x: np.sum(f(Twice()(x)))
        return [fg.grad(g)(V), fg.grad(fg.checkpoint(lambda x: np.sum(np.sin(x) ** 2)))(V), fg.vmap(f)(W)]

    return run, _nothing


@program
def settings():
    def run():
        with fg.debug_nans(), fg.named_scope("a"), fg.config.on_escape("ignore"), fg.default_device("cpu"):
            a = fg.grad(lambda x: np.sum(x * float(x[0])))(V)
        with fg.config.disable_jit(), fg.viz.take_notes(), fg.debug_nans():
            b = fg.grad(fg.jit(lambda x: np.sum(x**2)))(V)
        return [a, b, fnp.ones(2)]

    return run, _nothing


@program
def loops():
    def f(x):
        total, _ = lax.scan(lambda c, v: (np.sin(c) * v, c), x[0], x)
        n = lax.while_loop(lambda s: s < 9.0, lambda s: s * 2.0 + 1.0, total)
        return lax.cond(x[0] > 0.0, lambda: total * 2.0, lambda: total) + fg.stop_gradient(n)

    def run():
        return [*fg.value_and_grad(f)(V)]

    return run, _nothing


@program
def staged():
    def f(x):
        total, _ = lax.scan(lambda c, v: (np.sin(c) * v, c), x[0], x)
        return total * np.sum(x)

    def run():
        program = fg.make_graph(fg.grad(f))(V)
        return [np.array(len(str(program))), np.array(fg.eval_shape(f, V).shape)]

    return run, _nothing


@program
def compiled():
    f = fg.jit(fg.grad(lambda x: np.sum(np.tanh(x) * x)))

    def run():
        return [f(V), f(V), f(W)]

    return run, _nothing


@program
def compiled_loops():
    def f(x):
        total, ys = lax.scan(lambda c, v: (np.sin(c) * v, c), x[0], x)
        return lax.fori_loop(0, 3, lambda i, s: s * x[1] + i, total) + np.sum(ys)

    g = fg.jit(fg.value_and_grad(f))

    def run():
        return [*g(V), *fg.vmap(g)(W)]

    return run, _nothing


@program
def recorded_compiled():
    f = fg.jit(lambda w, x: np.tanh(w @ x))
    x, w = fg.tensor(V), fg.tensor(W)
    gm = fg.GradManager().attach([x, w])

    def run():
        with gm:
            gm.backward(np.sum(f(w, x)))
        return _taken(x, w)

    return run, _whole(x, w)


@program
def exported():
    def run():
        data = fg.export(lambda x: np.sum(np.sin(x) * x), np.zeros(3))
        return [fg.load(data)(V)]

    return run, _nothing


@program
def folded():
    def f(x):
        table = np.cumsum(np.reshape(fnp.arange(6.0), (2, 3)), axis=1)
        return np.sum(x * np.exp(table[1]) + np.transpose(table)[:, 0])

    def run():
        return [fg.jit(f)(V), fg.jit(f).lower(V).program.run([V])[0]]

    return run, _nothing


@functools.cache
def _folder():
    made = tempfile.TemporaryDirectory()
    atexit.register(made.cleanup)
    return Path(made.name).resolve()


@program
def kept():
    path = _folder() / f"k_{'0' * 32}.o"

    def run():
        store.keep(path, W.tobytes())
        files.write(path, W.tobytes(), lasting=True)
        return [np.frombuffer(store.read(path)), np.array(len(store.entries(path.parent)))]

    return run, _nothing


@program
def saved():
    folder = _folder() / "states"
    folder.mkdir(exist_ok=True)
    path, alone = folder / "state", distributed.simulate(1, distributed.world)[0]

    def run():
        distributed.save(path, {"v": V, "step": 3}, alone)
        found = distributed.restore(path, comm=alone)
        return [found["v"], np.array(found["step"])]

    return run, lambda: [f"{f.name} stays" for f in folder.iterdir() if f != path]


@program
def solved():
    def f(a):
        return fg.scipy.optimize.root(lambda x: x * x * x + x - a, np.zeros(3)).x.sum()

    def run():
        return [fg.grad(f)(V)]

    return run, _nothing


# ---- interrupting them ------------------------------------------------------------------------------------


@contextmanager
def _silent():
    with redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", ResourceWarning)  # which arrives where nobody can raise it
        yield


@functools.cache
def _expected(name):
    return PROGRAMS[name]()[0]()


def count_of(name, error):
    """Return how many points a program has whose code is warm."""
    _expected(name)
    run, _ = PROGRAMS[name]()
    points = Points(error)
    with _silent(), points:
        run()
    return points.count


def interrupt(name, error, at):
    """Interrupt a program at a point; return where that was, and what is wrong afterwards."""
    expected = _expected(name)
    run, check = PROGRAMS[name]()
    before = state()
    points = Points(error, at)
    heard = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda args: heard.append(args)
    kept = None
    try:
        with _silent():
            try:
                with points:
                    found = run()
            except BaseException as caught:
                kept = caught  # its traceback keeps every frame, as an interactive session does
                found = None
            if error is MemoryError:  # which may come where the setting is put back, as in NumPy's errstate
                np.seterr(**before["errstate"])
            wrong = [] if kept is None or _is_of(kept, error) else [f"raises {kept!r}"]
            if kept is None and points.where and not heard and error is not MemoryError:
                wrong.append("the error was dropped")
            try:
                wrong += check()
            except BaseException as caught:
                wrong.append(f"the check raises {caught!r}")
            wrong += left(before)
            wrong += [f"{x.exc_value!r}" for x in heard if x.exc_type is ResourceWarning]
            if found is not None:
                wrong += _compared(found, expected, "though it went on")
            for again in ("afterwards", "the next time"):
                wrong += _tried(run, expected, again)
            wrong += left(before)
    finally:
        sys.unraisablehook = hook
        trace._state.set(FLOOR)  # so that a failure stays alone
    del kept
    return points.where, wrong


def _is_of(found, error):
    """Return whether an error is the one that was raised, or came of it."""
    while found is not None and not isinstance(found, error):
        found = found.__cause__ or found.__context__
    return found is not None


def _tried(run, expected, when):
    try:
        return _compared(run(), expected, when)
    except BaseException as e:
        return [f"{when} {type(e).__name__}: {str(e)[:200]}"]


def _compared(found, expected, when):
    try:
        for a, b in zip(found, expected, strict=True):
            exactly(a, b)
    except AssertionError as e:
        return [f"other results {when}: {str(e)[:200]}"]
    return []


def session(names, *, seed, count=None, seconds=None, errors=ERRORS, show=print):
    """Interrupt programs at random points; return for each program and error the tries and failures."""
    rng = random.Random(seed)
    sizes = {(n, e): count_of(n, e) for n in names for e in errors}
    tally = {key: [0, 0] for key in sizes}
    start, tries, seen = time.monotonic(), 0, set()
    while (count is None or tries < count) and (seconds is None or time.monotonic() - start < seconds):
        key = list(sizes)[tries % len(sizes)]
        tries += 1
        where, wrong = interrupt(*key, rng.randrange(sizes[key]))
        tally[key][0] += 1
        if wrong:
            tally[key][1] += 1
            if (where, wrong[0][:40]) not in seen:
                seen.add((where, wrong[0][:40]))
                show(f"{key[0]}, {key[1].__name__} at {where}:", *wrong[:4], sep="\n    ")
    return tally, sizes


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.interrupting", description=__doc__)
    parser.add_argument("--count", type=int, default=None, help="how many interrupts; default 2000")
    parser.add_argument("--minutes", type=float, default=None, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="of the random points")
    parser.add_argument("--only", help=f"programs, separated by commas: {', '.join(PROGRAMS)}")
    chosen = parser.parse_args()
    count = 2000 if chosen.count is None and chosen.minutes is None else chosen.count
    seconds = None if chosen.minutes is None else 60 * chosen.minutes
    names = chosen.only.split(",") if chosen.only else list(PROGRAMS)
    tally, sizes = session(names, seed=chosen.seed, count=count, seconds=seconds)
    print(f"{'program':20} {'error':18} {'points':>7} {'tries':>7} {'failures':>8}")
    for (name, error), (tries, failures) in tally.items():
        print(f"{name:20} {error.__name__:18} {sizes[name, error]:7} {tries:7} {failures:8}")
    print(f"{sum(t for t, _ in tally.values())} tries, {sum(f for _, f in tally.values())} failures")
    return any(f for _, f in tally.values())


if __name__ == "__main__":
    sys.exit(main())
