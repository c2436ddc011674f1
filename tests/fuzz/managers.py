"""Random programs of managers, by fgrad and by polynomials in nilpotent variables, compared at every line.

A line makes an array of others, writes to one, or tells a manager what to do. Values are small integers, and
a program ends before one is so large that a double would have to round it.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.nilpotent import Array, Manager, Oracle, Polynomial, values
from tests.helpers import plain

SETUP = """\
import copy

import numpy as np
import fgrad as fg


def inplace(t):
    y = t * 1
    y[0] = y[-1] * 2
    y[1:] += y[:-1]
    y[...] = y * t
    return y
"""
LARGEST = 2**50
TERMS = 300  # of a polynomial: what has more is slow
NAMES = 60
REFUSALS = (
    "depends on the memory layout",  # of whether a write is seen elsewhere
    "when it ran again",  # of checkpoints whose closures were written to
)
SHAPES = (1,), (2,), (3,), (2, 2), (2, 3), (3, 2)
CALLBACKS = (
    "lambda t, g: g * 2",
    "lambda t, g: None",
    "lambda t, g: g + t.detach()",
    "lambda t, g: g * t",
    "lambda t, g: g * g",
)


class Pair:
    """A program as it grows, with what its names stand for on both sides."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.fgrad: dict[str, Any] = {}
        self.oracle: dict[str, Any] = {}
        self.is_over = False
        self.finding = ""
        exec(SETUP, self.fgrad)
        exec(SETUP, self.oracle)
        self.oracle["fg"] = Oracle(self.oracle)

    # ---- what there is

    def arrays(self, is_wanted: Callable[[Array], bool] = lambda x: True) -> list[str]:
        found = [name for name, x in self.oracle.items() if isinstance(x, Array) and x.ndim]
        return [name for name in found if is_wanted(self.oracle[name])]

    def look(self, text: str) -> Any:
        return eval(text, self.oracle)

    def alike(self, text: str) -> list[str]:
        """Return the arrays of the same shape."""
        shape = self.look(text).shape
        return self.arrays(lambda x: x.shape == shape)

    def managers(self) -> list[str]:
        return [name for name, x in self.oracle.items() if isinstance(x, Manager)]

    def followed(self, manager: str) -> list[str]:
        """Return the arrays and gradients with elements that depend on what a manager records."""
        recording = self.oracle[manager].recording
        names = self.arrays()
        names += [f"{name}.grad" for name in names if self.oracle[name].grad is not None]
        return [x for x in names if any(Polynomial.of(p).depends_on(recording) for p in self.look(x).flat)]

    def recording(self) -> list[str]:
        """Return the managers that record, the last one to begin at the end."""
        found = [m for m in self.managers() if self.oracle[m].recording is not None]
        return sorted(found, key=lambda m: self.oracle[m].recording)

    def source(self) -> str:
        """Return an array to compute with: mostly one that a manager follows."""
        recording = self.recording()
        followed = self.followed(self.one(recording)) if recording and self.chance(0.7) else []
        return self.one(followed or self.arrays())

    def groups(self) -> list[str]:
        return [name for name in self.oracle if name.startswith("group")]

    # ---- chance

    def one(self, choices: Any) -> Any:
        return self.random.choice(choices)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def mask(self, shape: tuple[int, ...]) -> str:
        chosen = np.array([self.chance(0.5) for _ in range(int(np.prod(shape)))])
        return f"np.array({chosen.reshape(shape).tolist()}, bool)"

    # ---- running

    def run(self, line: str) -> None:
        """Run a line on both sides; the program is over at the first difference, error or large number."""
        try:
            exec(line, self.oracle)
        except Exception:
            self.is_over = True  # half a line may have run
            return
        for name, x in self.oracle.items():
            if type(x) is np.ndarray and x.dtype == object:
                self.oracle[name] = x.view(Array)
        self.is_over = self.is_large()
        if self.is_over:
            return
        self.lines.append(line)
        try:
            exec(line, self.fgrad)
            self.finding = self.difference()
        except Exception as error:
            is_refusal = any(words in str(error) for words in REFUSALS)
            self.finding = "" if is_refusal else f"fgrad raises {type(error).__name__}: {error}"
            self.is_over = True
        self.is_over |= bool(self.finding)

    def release(self) -> None:
        """End all recordings, in which the next program would run."""
        for name in self.managers():
            with contextlib.suppress(TypeError):  # of a view that nobody looked at since a write
                self.fgrad[name].release()

    def is_large(self) -> bool:
        """Return whether a number could be rounded by fgrad, or is slow here."""
        if len(self.oracle) > NAMES:
            return True
        arrays = [self.oracle[name] for name in self.arrays()]
        arrays += [x.grad for x in arrays if x.grad is not None]
        numbers = [Polynomial.of(p).terms for x in arrays for p in x.flat]
        return any(len(n) > TERMS or max(map(abs, n.values()), default=0) > LARGEST for n in numbers)

    def difference(self) -> str:
        """Return what is not the same on both sides, in words."""
        for name, right in self.oracle.items():
            if not isinstance(right, Array | Polynomial):
                continue
            found, wanted = plain(self.fgrad[name]), values(right)
            if found.shape != wanted.shape or (found != wanted).any():
                return f"{name} is {found.tolist()}, not {wanted.tolist()}"
            if not isinstance(right, Array):
                continue
            grad = getattr(self.fgrad[name], "grad", None)  # zero gradients may be absent
            found = np.zeros(right.shape) if grad is None else plain(grad)
            wanted = np.zeros(right.shape) if right.grad is None else values(right.grad)
            if found.shape != wanted.shape or (found != wanted).any():
                return f"{name}.grad is {found.tolist()}, not {wanted.tolist()}"
        return ""


# ---- lines


def index(g: Pair, x: Any) -> str:
    """Return a random index into an array."""
    if g.chance(0.1):
        return g.mask(x.shape[:1])
    if g.chance(0.1):
        return "..."
    parts = []
    for n in x.shape[: g.integer(1, x.ndim)]:
        places = [g.integer(-n, n - 1) for _ in range(g.integer(1, 3))] if n else []
        some = [str(places[0]), f"{abs(places[0]) % n}:", str(places)] if n else []
        parts.append(g.one([":", "::-1", "1:", ":-1", "::2", "-2::-1", *some]))
    lists = [part for part in parts if part.startswith("[")]
    return ", ".join(":" if part in lists[1:] else part for part in parts)


def expression(g: Pair) -> str:
    """Return a line that makes an array."""
    a = g.source()
    b = g.one(g.alike(a))
    x = g.look(a)
    axis = g.integer(-x.ndim, x.ndim - 1)
    choices = [
        f"{a} * {b}",
        f"{a} + {b}",
        f"{a} - {b}",
        f"{a} * {g.integer(-2, 3)}",
        f"{a} ** 2",
        f"-{a}",
        f"np.multiply({a}, {b})",
        f"np.square({a})",
        f"{a} * np.sum({b})",
        f"np.reshape(np.sum({a} * {b}), (1,))",
        f"np.where({g.mask(x.shape)}, {a}, {b})",
        f"{a}.copy()",
        f"{a}.detach()",
        f"copy.deepcopy({a})",
        f"fg.stop_gradient({a})",
        f"{a}.grad" if x.grad is not None else f"+{a}",
        # transformations
        f"fg.grad(lambda t: np.sum(t * t * {b}))({a})",
        f"fg.grad(lambda t: np.sum(fg.grad(lambda s: np.sum(s * s * s * {b} * t))(t * {b})))({a})",
        f"fg.grad(lambda t: np.sum(inplace(t) * {b}))({a})",
        f"fg.grad(fg.jit(lambda t: np.sum(t * t * t * {b})))({a})",
        f"fg.grad(lambda t: np.sum(fg.checkpoint(lambda t, s: t * t * t * s)(t, {b})))({a})",
        f"fg.jit(lambda t: t * t * {b})({a})",
        f"fg.jit(lambda t, s: t * s + t)({a}, {b})",
        f"fg.jit(fg.grad(lambda t: np.sum(t * t * t * {b})))({a})",
        f"fg.jit(fg.vmap(lambda t: t * t * t))({a})",
        f"fg.jit(inplace)({a})",
        f"fg.checkpoint(lambda t, s: t * t * s)({a}, {b})",
        f"fg.checkpoint(lambda t: t * t * {b})({a})",
        f"fg.checkpoint(inplace)({a})",
        f"fg.jvp(lambda t: t * t * {b}, ({a},), ({b},))[{g.integer(0, 1)}]",
        f"fg.jvp(inplace, ({a},), ({b},))[1]",
        f"fg.vmap(lambda t: t * t)({a})",
        f"fg.vmap(lambda t, s: t * s)({a}, {b})",
        f"fg.vmap(fg.grad(lambda t: np.sum(t * t * t)))({a})",
        f"inplace({a} * 1)",
        # views, and copies of parts
        *[f"{a}[{index(g, x)}]" for _ in range(6)],
        f"{a}[...]",
        f"{a}[0]",
        f"{a}[::-1]",
        f"{a}.T",
        f"{a}.view()",
        f"{a}.ravel()",
        f"{a}.reshape(-1)",
        f"{a}.reshape({x.shape})",
        f"np.flip({a}, {axis})",
        f"np.swapaxes({a}, 0, {axis})",
        f"np.squeeze({a}[None])",
        f"np.atleast_2d({a}[...])",
        f"np.split({a}, [1])[{g.integer(0, 1)}]",
        f"np.take({a}, [0, -1, 0], axis={axis})",
        # sums, and what joins arrays
        f"np.cumsum({a}, axis={axis})",
        f"np.diff({a}, axis={axis})",
        f"np.roll({a}, 1)",
        f"np.concatenate([{a}, {b}])",
        f"np.einsum('i...,i...->i...', {a}, {b})",
    ]
    if x.ndim == 1:
        choices += [
            f"{a}[None]",
            f"np.stack([{a}, {b}])",
            f"np.outer({a}, {b})",
            f"np.dot({a}, {b}).reshape(1)",
            f"np.broadcast_to({a}, (2, *{x.shape}))",
            f"np.repeat({a}, 2)",
        ]
    if x.ndim == 2:
        choices += [
            f"{a} @ {b}.T",
            f"np.dot({a}, {b}.T)",
            f"np.trace({a} @ {b}.T).reshape(1)",
            f"np.sum({a}, axis={axis})",
            f"np.diagonal({a}) * 1",
            f"fg.vmap(inplace)({a})",
        ]
    return f"v{len(g.lines)} = {g.one(choices)}"


def write(g: Pair) -> str:
    """Return a line that writes to an array."""
    a = g.one(g.arrays(lambda x: x.flags.writeable))  # of others `ufunc.at` of NumPy may write to
    b = g.one(g.alike(a))
    x = g.oracle[a]
    mask = g.mask(x.shape)
    choices = [
        *[item(g, a) for _ in range(8)],
        f"{a} *= {b}",
        f"{a} += {b}",
        f"{a} -= {g.integer(0, 2)}",
        f"{a}[...] = {b}",
        f"{a}[::-1] = {b}",
        f"{a}[1:] = {a}[:-1]",
        f"{a}[:-1] += {a}[1:]",
        f"{a}[::-1][1:] *= {a}[1:]",
        f"{a}[0], {a}[-1] = {a}[-1] * 1, {a}[0] * 1",
        f"{a}[[0, -1]] = {a}[[-1, 0]]",
        f"{a}[[0, 0]] = {a}[[0, -1]]",
        f"{a}[[0, 0, -1]] += 1",
        f"{a}.T[...] = {b}.T",
        f"{a}.reshape(-1)[0] = {g.integer(0, 3)}",
        f"{a}.flat[0] = {g.integer(0, 3)}",
        f"{a}.fill({g.integer(-1, 2)})",
        f"{a}.grad = None",
        f"np.multiply({a}, {b}, out={a})",
        f"np.add({a}, 1, out={a})",
        f"np.negative({a}, out={a}, where={mask})",
        f"np.cumsum({a}, axis=0, out={a})",
        f"np.add.at({a}, [0, -1, 0], {g.integer(1, 2)})",
        f"np.multiply.at({a}, [0, 0], 2)",
        f"np.copyto({a}, {b})",
        f"np.copyto({a}, {b}, where={mask})",
        f"np.put({a}, [0, -1], [1.0, 2.0])",
        f"np.putmask({a}, {mask}, {b})",
        f"np.place({a}, {mask}, [1.0, 2.0])",
    ]
    if x.grad is not None:
        choices += [
            f"{a} -= {a}.grad",
            f"{a}[...] -= {a}.grad",
            f"{a}.grad *= 2",
            f"{a}.grad[...] = {b}",
        ]
    return g.one(choices)


def item(g: Pair, a: str) -> str:
    """Return a line that writes to a part of an array, where an array fits or a number is written."""
    part = f"{a}[{index(g, g.oracle[a])}]"
    shape = np.shape(g.look(part))
    fits = g.arrays(lambda x: x.shape == shape)
    x = g.one(fits) if fits and g.chance(0.7) else str(g.integer(-2, 3))
    if g.chance(0.2) or "np.array" in part:  # a copy: writes by masks from what overlaps are not defined
        x = f"{x} * 2"
    elif g.chance(0.1) and shape:
        x = f"{part}[::-1]"
    return f"{part} {g.one(['=', '=', '+=', '-=', '*='])} {x}"


def command(g: Pair) -> str:
    """Return a line that tells a manager, or a group of them, what to do."""
    innermost = g.recording()[-1:]
    m = g.one(innermost if innermost and g.chance(0.6) else g.managers())
    a, b = g.one(g.arrays()), g.one(g.arrays())
    attached = g.arrays(lambda x: g.oracle[m].callbacks(x) is not None)
    followed = g.followed(m)
    y, z = (g.one(followed) if followed and g.chance(0.9) else x for x in (a, b))
    choices = [
        *[f"{m}.attach({a})"] * 5,
        f"{m}.attach([{a}, {b}])",
        f"{m}.attach({a}, {g.one(CALLBACKS)})",
        f"{m}.detach({g.one(attached or [a])})",
    ]
    if g.oracle[m].recording is None:
        choices += [f"{m}.record()"] * 10
    else:
        choices += [*[f"{m}.backward({outputs(g, y, z)})"] * 14, f"{m}.release()"]
    for group in g.groups():
        is_idle = all(manager.recording is None for manager in g.oracle[group].managers)
        choices += [f"{group}.record()"] * 5 if is_idle else [f"{group}.release()"]
    return g.one(choices)


def outputs(g: Pair, a: str, b: str) -> str:
    """Return the arguments of `backward`."""
    twos, threes = (f"np.full({g.look(x).shape}, {n}.0)" for x, n in ((a, 2), (b, 3)))
    return g.one(
        [
            a,
            a,
            f"{a}, {g.one(g.alike(a))}",
            f"{a}, {twos}",
            f"[{a}, {b}]",
            f"[{a}, {b}], [{a}, {threes}]",
            f"[{a}, {a}]",
            f"({a}, {a}[...])",
            *[f"{a} * {a}"] * 3,
            f"[{a} * 2, {b} * {b}]",
            "",
        ]
    )


def begin(g: Pair) -> None:
    """Make arrays and managers, some of which record, and some are in a group."""
    for i in range(g.integer(1, 3)):
        shape = g.one(SHAPES)
        x = np.array([float(g.integer(-3, 3)) for _ in range(int(np.prod(shape)))]).reshape(shape)
        g.run(f"x{i} = fg.tensor(np.array({x.tolist()}))")
    shared = g.random.sample(g.arrays(), g.integer(1, len(g.arrays())))
    for i in range(g.integer(2, 3)):
        g.run(f"m{i} = fg.GradManager()")
        if g.chance(0.8):
            g.run(f"m{i}.attach([{', '.join(shared)}])")
    managers = g.managers()
    if g.chance(0.3):
        g.run(f"group = {' | '.join(g.random.sample(managers, g.integer(2, len(managers))))}")


def program(seed: int, *, steps: int = 25) -> tuple[list[str], str]:
    """Return the lines of a random program, and how fgrad differs after the last one; "" if it does not."""
    g = Pair(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin(g)
        start = len(g.lines)
        while not g.is_over and len(g.lines) < start + steps:
            kind = g.random.choices([expression, write, command], [40, 20, 40])[0]
            g.run(kind(g))
        g.release()
    return g.lines, g.finding


def described(seed: int, lines: list[str], finding: str) -> str:
    """Return a program that shows a finding, to be pasted."""
    return "\n".join([SETUP, *lines, f"# seed {seed}: {finding}"])
