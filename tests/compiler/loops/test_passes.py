"""Passes over loops keep values: random loops around what each looks for, and the same loops in Python."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.compiler.drawing import Drawing, computed, differs, search

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.compiler.loops import passes
from fgrad.compiler.loops.passes import hoisted
from fgrad.core.aval import Aval
from fgrad.core.control_flow import Scan
from fgrad.core.dispatch import bind
from fgrad.core.program import Equation, Program, Var
from fgrad.transforms.loops import lowering

SEED = os.environ.get("FGRAD_TEST_SEED", "")  # for other loops than those of the suite
COUNT = int(os.environ.get("FGRAD_TEST_PROGRAMS", "25"))
PASSES = ("without_invariant_carries", "fused", "handed", "summed_after")
COUNTERS = ("int8", "uint8", "int32", "int64", "float32", "python int")


def looped(d: Drawing, *, python: bool) -> Any:
    """Return a function of loops, and its arguments; the same numbers decide on the same function."""
    dtype, n = d.dtype(("float32", "float64")), d.pick((3, 1, 2, 5, 0))
    counter = d.number(d.pick(COUNTERS), "plain")
    kinds = [d.pick(("affine", "tanh", "stays", "outer", "steady", "power", "element")) for _ in range(2)]
    again, apart, reverse, way = d.chance(), d.chance(), d.chance(), d.pick(("scan", "scan", "while"))
    exponent = d.pick((0, 1, 2, -1))
    w, xs, c = (d.array(s, dtype, "plain") for s in ((3, 3), (n, 3), (3,)))

    def step(kind: str, w: Any, carry: Any, x: Any) -> tuple[Any, Any]:
        i, c, m = carry
        if kind == "affine":
            c = c * 0.5 + x
        elif kind == "tanh":
            c = fnp.tanh(w @ c + x)
        elif kind == "outer":
            m = m + c[:, None] * x
            c = fnp.sin(c + x)
        elif kind == "steady":
            c = c + fnp.sin(w).sum(0) * x
        elif kind == "power":
            c = c + (fnp.array(counter) ** 2).astype(dtype) * x + abs(exponent)
        return (i + type(i)(1) if isinstance(i, int) else i + fnp.ones((), i.dtype), c, m), (
            x if kind == "element" else c,
            c * x,
        )

    def rolled(kind: str, w: Any, carry: Any, xs: Any) -> Any:
        if not python:
            return fg.lax.scan(lambda c, x: step(kind, w, c, x), carry, xs, reverse=reverse)
        rows = range(n)[::-1] if reverse else range(n)
        ys: list[Any] = [None] * n
        for k in rows:
            carry, ys[k] = step(kind, w, carry, xs[k])
        empty = fnp.zeros((0, 3), dtype)
        return carry, tuple(fnp.stack([y[j] for y in ys]) if n else empty for j in range(2))

    def whiled(kind: str, w: Any, carry: Any, xs: Any) -> Any:
        def body(state: Any) -> Any:
            k, carry = state
            return k + 1, step(kind, w, carry, xs[0] if n else carry[1])[0]

        if not python:
            return fg.lax.while_loop(lambda s: s[0] < n, body, (0, carry))[1], (xs, xs)
        state = (0, carry)
        while state[0] < n:
            state = body(state)
        return state[1], (xs, xs)

    def f(w: Any, xs: Any, c: Any) -> Any:
        loop = rolled if way == "scan" else whiled
        start = (fnp.array(counter), c, fnp.zeros((3, 3), dtype))
        carry, (first, second) = loop(kinds[0], w, start, xs)
        i, c, m = carry
        if again:
            (_, last, _), (_, second) = rolled(kinds[1], w, start if apart else carry, second)
            c = c + last
        return (fnp.sum(c * 0.5) + fnp.sum(m * 0.25) + fnp.sum(first * 0.125) + fnp.sum(second)), i

    return f, (w, xs, c)


def check(chosen: Any, made: Counter[str]) -> list[int]:
    d = Drawing(chosen, ("plain",))
    f, args = looped(d, python=False)
    plain, _ = looped(Drawing(chosen, ("plain",)), python=True)
    wanted = [np.asarray(v) for v in fg.tree.leaves(fg.value_and_grad(plain, (0, 1, 2), has_aux=True)(*args))]
    found = fg.jit(fg.value_and_grad(f, (0, 1, 2), has_aux=True))(*args)
    for y, e in zip(map(np.asarray, fg.tree.leaves(found)), wanted, strict=True):
        size = max(1.0, *(float(np.abs(v).max(initial=0.0)) for v in wanted))
        if differs(y, e, 100 * size if e.dtype.kind == "f" else 0.0):
            raise AssertionError(f"the loop of {d.used} gives\n{found}\ninstead of\n{wanted}")
    made["loops"] += 1
    return d.used


@pytest.mark.usefixtures("interpreted")
def test_loops_after_all_passes_are_those_of_python(monkeypatch):
    made = Counter[str]()
    for name in PASSES:
        for module in (passes, lowering):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, counted(getattr(module, name), name, made))
    search(lambda chosen: check(chosen, made), f"loops {SEED}", COUNT)
    assert all(made[name] for name in PASSES), made


def counted(function: Any, name: str, made: Counter[str]) -> Any:
    def call(*args: Any) -> Any:
        found = function(*args)
        after = found[0] if name == "without_invariant_carries" else found
        made[name] += [*map(str, after)] != [*map(str, args[0])]
        return found

    return call


def test_every_pass_is_one_of_these():
    """A pass that is added to `optimized` is counted here, and its loops drawn."""
    assert {*passes.optimized.__code__.co_names} - {"live"} <= {*PASSES}


def hoisting(chosen: Any, made: Counter[str]) -> list[int]:
    """Compute before a loop what is the same in every step; where there is no step, it must not fail."""
    d = Drawing(chosen, ("plain",))
    dtype, n = d.dtype(("float32", "float64", "int8", "int64")), d.pick((0, 1, 3))
    names = [
        d.pick(("square", "negative", "sin", "sum", "transpose", "power", "floor_divide", "add"))
        for _ in "ab"
    ]

    def step(w: Any, c: Any, x: Any) -> Any:
        v = w
        for name in names:
            if name in {"power", "floor_divide", "add"}:
                v = bind(name, v, d.pick((-1, 0, 2)))
            elif name == "sum":
                v = bind("broadcast_to", bind("sum", v, axes=(0,)), shape=(3, 3))
            else:
                v = bind(name, v, **({"axes": (1, 0)} if name == "transpose" else {}))
        return c + bind("convert", v[0], dtype=c.dtype) * x, c * x

    w, c, xs = (d.array(s, t, "plain") for s, t in (((3, 3), dtype), ((3,), "float64"), ((n, 3), "float64")))
    body = fg.make_graph(step)(w, c, np.zeros(3))
    code = Scan(body, 1, 1, n)
    avals = [Aval(a.shape, a.dtype) for a in (w, c, xs)]
    found = hoisted(code, avals)
    if found is None:
        return d.used
    inputs = [Var(a, f"i{k}") for k, a in enumerate(avals)]
    outs = tuple(Var(a, f"o{k}") for k, a in enumerate(code.outs))
    whole = Program(
        inputs, [Equation("lax.scan", tuple(inputs), {"code": code}, outs, "")], outs, (None, None)
    )
    wanted, values = (computed(p, [w, c, xs]) for p in (whole, found))
    made["hoisted"] += 1
    if wanted[0] != values[0] or any(differs(y, e) for y, e in zip(values[1], wanted[1], strict=True)):
        raise AssertionError(f"{whole}\n{body}\nis {values}, not {wanted}")
    return d.used


def test_what_is_computed_before_a_loop_is_what_its_steps_compute():
    made = Counter[str]()
    search(lambda chosen: hoisting(chosen, made), f"hoisted {SEED}", 4 * COUNT)
    assert made["hoisted"] > COUNT
