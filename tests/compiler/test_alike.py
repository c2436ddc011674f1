"""What is computed alike is analysed and written once, and programs are as if each had been by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.wide import PROGRAMS
from benchmarks.wide.libraries import LIBRARIES
from tests.compiler.interpreting import kernels_in_python

import fgrad as fg
from fgrad.compiler import emit, fuse
from fgrad.compiler.alike import Alike
from fgrad.compiler.plan import Plan

RNG = np.random.default_rng(3)
X, LONG = RNG.uniform(0.5, 1, (6, 7)), RNG.uniform(0.5, 1, 40_000)


class NothingAlike(Alike):
    """Takes every computation for one of its own."""

    def of(self, outs: Any, stored: Any) -> Any:
        """Return a key that equals no other."""
        return object(), super().of(outs, stored)[1]


def layers(x: Any) -> Any:
    for w in (X, X + 1, X + 2):
        x = fg.nn.softmax(np.tanh(x @ w.T @ w), 1)
    return x


def layers_of_two_sizes(x: Any) -> Any:
    for w in (X, X[:3], X, X[:3]):
        x = fg.nn.softmax(np.tanh(x @ (w.T @ w)), 1)
    return x


def two_dtypes(x: Any) -> Any:
    parts = [np.cumsum(np.exp(y)) @ np.sin(y) for y in (x, x.astype(np.float32))]
    return parts[0] + parts[1]


def other_numbers(x: Any) -> Any:
    """Differ in a constant of the text, in a parameter, in an operand that repeats."""
    rows = [np.sort(x * 2.0 + 1), np.sort(x * 2.0 + 2), np.sort(x * x + 1), np.sort(x * x[::-1] + 1)]
    return [np.sum(r, axis=a) for r, a in zip(rows, (0, 1, 0, 1), strict=True)]


def looked_up(x: Any) -> Any:
    """Differ in the constant array of indices: all inside of the array, or not."""
    return [np.sort(x[np.array(i)] * 2) for i in ([0, 1], [2, 3], [0, -1])]


def sums(x: Any) -> Any:
    """Of so many numbers that blocks add up what is theirs."""
    return [np.sum(np.exp(y)) * np.sort(y)[:3] for y in (x, x + 1, x[::-1])]


@fg.plain_numpy
def scattered(x: Any) -> Any:
    out = np.zeros(50)
    for i in range(3):
        np.add.at(out, np.arange(40_000) % (20 + i), np.sort(x * (1 + i)))
    return out


def kept_or_not(x: Any) -> Any:
    """Results of equal steps, of which some are wanted besides."""
    out, found = x, []
    for i in range(6):
        out = np.tanh(out @ X.T @ X) * 2
        if i % 2:
            found.append(out)
    return found, np.sum(out)


OWN: dict[str, tuple[Callable[..., Any], Any]] = {
    f.__name__: (f, LONG if f in (sums, scattered, two_dtypes) else X)
    for f in (layers, two_dtypes, other_numbers, looked_up, sums, scattered, kept_or_not)
} | {"layers of two sizes": (layers_of_two_sizes, X)}


def planned(program: Any) -> list[Any]:
    """Return all that a plan says: its texts, and its table with the slots of everything."""
    plan = Plan(program)
    kernels = [(k.text, k.numbers, k.turns, k.work, len(k.parts)) for k in plan.kernels]
    nests = [(n.depth, n.work, len(n.shared), [len(p) for p in n.phases]) for n in plan.block.nests.values()]
    return [kernels, nests, str(plan.table), plan.size, plan.work]


def compare(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the plan with that of which each nest was analysed and written by itself."""
    shared = planned(program)
    with monkeypatch.context() as patch:
        patch.setattr(emit, "Alike", NothingAlike)
        patch.setattr(fuse, "Alike", NothingAlike)
        apart = planned(program)
    for one, other in zip(shared, apart, strict=True):
        assert one == other


@pytest.mark.parametrize("name", OWN)
def test_plans_are_as_if_nothing_were_shared(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = OWN[name]
    total = lambda x: sum(np.sum(y * y) for y in fg.tree.leaves(f(x)))
    with kernels_in_python():
        compare(fg.jit(fg.value_and_grad(total)).lower(x).compile().program, monkeypatch)


@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_of_programs_of_many_fields_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAMS[name]
    library = LIBRARIES["compiled"]()
    f = lambda *xs: program.function(library.namespace, *xs)
    derivative = fg.jit(fg.value_and_grad(f, argnums=program.wrt))
    with kernels_in_python():
        lowered = derivative.lower(*program.arguments(small=True))
        compare(lowered.compile().program, monkeypatch)


@pytest.mark.parametrize("name", OWN)
def test_equal_steps_are_written_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count = dict.fromkeys(("nests", "written"), 0)

    def counted(self: Any, nest: Any, kept: Any) -> Any:
        count["nests"] += 1
        return kernel(self, nest, kept)

    def run(self: Any) -> Any:
        count["written"] += 1
        return write(self)

    kernel, write = emit.Emitter.kernel, emit._Nest.run
    monkeypatch.setattr(emit.Emitter, "kernel", counted)
    monkeypatch.setattr(emit._Nest, "run", run)
    f, x = OWN[name]
    with kernels_in_python():
        fg.jit(f).lower(x).compile()
    assert count["written"] <= count["nests"]
    if name in ("layers", "layers of two sizes", "kept_or_not"):
        assert count["written"] <= count["nests"] * 2 // 3, count
