"""Profiles: every operation is an event, sums agree, memory is that of arrays, pictures show all of it."""

from __future__ import annotations

import re
import time
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg
from fgrad.core.observers import observed_primitives
from fgrad.core.primitive import LARGE
from fgrad.viz import flame

SVG = "{http://www.w3.org/2000/svg}"
HERE = "test_profiling.py:"


def network(p, x):
    with fg.named_scope("hidden"):
        h = np.tanh(x @ p["w"] + p["b"])
    return np.sum(h * h)


P, X = {"w": np.full((3, 2), 0.1), "b": np.zeros(2)}, np.ones((4, 3))


def names(p, phase):
    return sorted(e.name for e in p.events if e.phase == phase)


def test_a_gradient_runs_forward_and_backward():
    p = fg.profile(fg.grad(network))(P, X)
    operations = ["add", "contract", "multiply", "sum", "tanh"]
    assert names(p, "forward") == operations
    assert names(p, "backward") == operations
    assert names(p, "tangent") == []
    close(p.value["w"], fg.grad(network)(P, X)["w"])
    assert not observed_primitives


def test_what_is_compiled_for_a_profile_is_no_part_of_it():
    def f(x):
        if observed_primitives and not seen:  # steps one by one have kernels of their own
            seen.append(x)
            time.sleep(0.5)
        return np.sin(x)

    seen = []
    assert fg.profile(fg.grad(f))(1.0).seconds < 0.4
    assert seen


def test_sums_agree():
    p = fg.profile(fg.grad(network))(P, X)
    total = sum(e.seconds for e in p.events)
    assert 0 < total <= p.seconds
    assert p.total("forward") + p.total("backward") == pytest.approx(total)
    for rows in (p.operations(), p.lines()):
        assert sum(r.seconds for r in rows) == pytest.approx(total)
        assert sum(r.calls for r in rows) == len(p.events) == 10
        assert sum(r.bytes for r in rows) == sum(e.bytes for e in p.events)
        assert [r.seconds for r in rows] == sorted((r.seconds for r in rows), reverse=True)


def test_seconds_are_those_of_the_operation():
    def slow(x):
        time.sleep(0.02)
        return x * 2

    p = fg.profile(lambda x: np.sin(fg.pure_callback(slow, x, x)))(fg.tensor(np.ones(3)))
    rows = {r.name: r.seconds for r in p.operations()}
    assert rows["pure_callback"] >= 0.02 > rows["sin"]
    assert p.unprofiled >= 0.02


def test_lines_are_the_users_backward_too():
    p = fg.profile(fg.grad(network))(P, X)
    assert len(p.lines()) == 2
    for row in p.lines():
        assert HERE in row.name
        assert row.forward > 0
        assert row.backward > 0
    assert {e.scopes[0].name for e in p.events if e.scopes} == {"hidden"}
    assert sorted(e.name for e in p.events if e.scopes) == sorted(2 * ["add", "contract", "tanh"])


def test_bytes_and_peak_are_those_of_arrays():
    def f(x):
        a = x + 1.0  # 8000 B
        a = a * 2.0  # both are alive for a moment
        b = a.reshape(10, 100)  # no memory of its own
        return b.sum(axis=0)  # 800 B

    p = fg.profile(f)(fg.tensor(np.ones(1000)))
    assert [(e.name, e.bytes) for e in p.events] == [
        ("add", 8000),
        ("multiply", 8000),
        ("reshape", 0),
        ("sum", 800),
    ]
    assert p.peak == 16000


def test_managers_inside_and_second_order():
    w = fg.tensor(np.ones(3))

    def step(x):
        outer, inner = fg.GradManager().attach(w), fg.GradManager().attach(w)
        w.grad = None
        with outer:
            with inner:
                inner.backward((w**3 * x).sum())
            slope, w.grad = w.grad, None
            outer.backward(slope)

    p = fg.profile(step)(np.full(3, 2.0))
    assert "power" in names(p, "backward")
    assert w.grad is not None
    close(w.grad, np.full(3, 12.0))  # 6 w x


def test_forward_mode_and_mapped_functions():
    p = fg.profile(lambda x: fg.jvp(lambda x: np.sum(np.sin(x)), (x,), (x,))[1])(np.ones(3))
    assert names(p, "tangent") == names(p, "forward") == ["sin", "sum"]
    p = fg.profile(fg.vmap(fg.grad(lambda x: np.sum(np.sin(x)))))(np.ones((5, 3)))
    assert names(p, "backward") == names(p, "forward") == ["sin", "sum"]


def test_operations_that_are_compiled_programs_are_one_event():
    p = fg.profile(fg.grad(lambda x: np.sum(fg.nn.softmax(x) * x)))(np.ones((40, LARGE // 40 + 1)))
    assert names(p, "forward") == names(p, "backward") == ["multiply", "softmax", "sum"]


def test_jitted_functions_run_kernel_by_kernel():
    f = fg.jit(lambda w, x: np.sum(np.tanh(x @ w) * 2.0))
    w, x = np.full((30, 20), 0.01), np.ones((40, 30))
    p = fg.profile(f)(w, x)
    close(p.value, np.sum(np.tanh(x @ w) * 2.0))
    assert [e.name for e in p.events if not e.name.startswith("kernel")] == ["contract"]
    kernels = ", ".join(e.name for e in p.events if e.name.startswith("kernel"))
    assert "tanh" in kernels
    assert "sum" in kernels
    assert all(HERE in e.line for e in p.events)
    assert sum(e.bytes for e in p.events if e.name == "contract") == 40 * 20 * 8
    close(f(w, x), p.value)  # and runs as before


def test_loops_in_compiled_programs_are_one_step():
    def f(x):
        return fg.lax.fori_loop(0, 5, lambda i, y: np.sin(y) + x, x)

    x = np.linspace(0.0, 1.0, 40)
    p = fg.profile(fg.jit(f))(x)
    close(p.value, f(x))
    assert len(p.events) >= 1


def test_the_gradient_of_a_jitted_function():
    f = fg.jit(lambda x: np.sum(np.tanh(x) ** 2))
    x = np.linspace(0.0, 1.0, 50)
    p = fg.profile(fg.grad(f))(x)
    close(p.value, 2 * np.tanh(x) * (1 - np.tanh(x) ** 2))
    assert any(e.name.startswith("kernel") for e in p.events if e.phase == "forward")
    assert any(e.name.startswith("kernel") for e in p.events if e.phase == "backward")


def test_text():
    p = fg.profile(fg.grad(network))(P, X)
    lines = str(p).splitlines()
    assert lines[0].startswith("network: ")
    for words in ("profiled", "unprofiled", "forward", "backward", "between operations", "10 events", "peak"):
        assert words in lines[0]
    assert lines[2].split() == ["operation", "forward", "backward", "calls", "bytes"]
    assert {line.split()[0] for line in lines[3:8]} == {"add", "contract", "multiply", "sum", "tanh"}
    assert "return np.sum(h * h)" in str(p)


def test_the_picture_shows_all_of_it():
    p = fg.profile(fg.grad(network))(P, X)
    root = ET.fromstring(p.to_svg("light"))
    rects = [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in root.iter(f"{SVG}rect")]
    assert rects[0][:2] == (0.0, 0.0)
    assert rects[0][2] == pytest.approx(flame.WIDTH)
    by_row = {}
    for x, y, width, _ in rects:
        by_row.setdefault(y, []).append((x, width))
    for row in by_row.values():
        for (x, width), (after, _) in zip(sorted(row), sorted(row)[1:], strict=False):
            assert x + width <= after + 0.2
    titles = " ".join(t.text for t in root.iter(f"{SVG}title"))
    for words in ("forward", "backward", "hidden", "tanh", "between operations", "return np.sum(h * h)"):
        assert words in titles
    bar = flame.bars(p)
    assert bar.seconds == pytest.approx(max(p.unprofiled, sum(e.seconds for e in p.events)))
    with pytest.raises(ValueError, match="theme is one of"):
        p.to_svg("red")


def test_the_page_is_escaped():
    def f(x):
        with fg.named_scope("<script>"):
            return np.sin(x)

    page = fg.profile(f)(fg.tensor(1.0))._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert re.search(r"<svg[^>]*>", page)


def test_errors_pass_and_nothing_stays():
    with pytest.raises(ZeroDivisionError):
        fg.profile(lambda: 1 / 0)()
    assert not observed_primitives
