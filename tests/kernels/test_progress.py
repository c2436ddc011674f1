from __future__ import annotations

import re

import numpy as np
import pytest

import fgrad as fg
from fgrad.kernels import native, progress


class Clock:
    """Seconds that pass only where a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress, "monotonic", made)
    monkeypatch.delenv("FGRAD_QUIET", raising=False)
    monkeypatch.setattr(progress, "is_seen", lambda: True)
    return made


def work(clock, seconds, items=4, fails=None, hint=""):
    done = []

    def do(item):
        clock.now += seconds
        if item == fails:
            raise KeyError(item)
        done.append(item)

    progress.each(do, range(items), f"compiling {items} kernels of f", hint)
    return done


def test_nothing_is_said_about_little_work(clock, capsys):
    assert work(clock, 0.5) == [0, 1, 2, 3]
    assert capsys.readouterr() == ("", "")


def test_one_line_counts_what_is_done_after_two_seconds(clock, capsys):
    assert work(clock, 1.1) == [0, 1, 2, 3]
    out, err = capsys.readouterr()
    assert out == ""
    first, second, last = err.removeprefix("\r").split("\r")
    assert first == "fgrad: compiling 4 kernels of f ... 2 done"
    assert second == "fgrad: compiling 4 kernels of f ... 3 done"
    assert last == "fgrad: compiling 4 kernels of f ... 4 done in 4.4 s\n"
    assert err.count("\n") == 1


def test_nothing_is_said_where_there_is_no_terminal(clock, capsys, monkeypatch):
    monkeypatch.setattr(progress, "is_seen", lambda: False)
    assert work(clock, 5, hint="wait") == [0, 1, 2, 3]
    assert capsys.readouterr() == ("", "")


def test_a_hint_follows_in_a_line_of_its_own(clock, capsys):
    work(clock, 1.1, hint="use scan")
    assert capsys.readouterr().err.endswith("done in 4.4 s\nfgrad: use scan\n")
    work(clock, 0.1, hint="use scan")
    assert capsys.readouterr().err == ""


def test_the_hint_is_about_the_line_of_a_loop_that_was_unrolled(monkeypatch):
    seen = []
    compiled_all = native.compiled_all
    monkeypatch.setattr(
        native, "compiled_all", lambda k, n="", h="", *more: seen.append(h) or compiled_all(k, n, h, *more)
    )

    def unrolled(x, turns):
        for i in range(turns):
            x = np.sin(x * (1.0 + i**0.5)) if i % 3 else np.cos(x) / (i + 2.0) - x**2
        return x

    for turns in (5, 150):
        fg.jit(lambda x, n=turns: unrolled(x, n)).lower(np.ones(3)).compile()
    assert seen[0] == ""
    (said,) = [h for h in seen if h]
    assert re.search(r"operations are of .*test_progress\.py:\d+: a loop .* fgrad\.lax\.scan", said)


@pytest.mark.parametrize(("turns", "told"), [(2_000, False), (7_000, True)])
def test_jit_says_where_a_very_long_loop_was_unrolled(clock, capsys, monkeypatch, turns, told):
    monkeypatch.setattr(native, "compiled_all", lambda *_: pytest.fail("nothing is compiled here"))

    def unrolled(x):
        for i in range(turns):
            x = np.sin(x * (i + 0.5)) + x
        return x

    fg.jit(unrolled).lower(np.ones(3))
    said = capsys.readouterr().err
    pattern = (
        r"fgrad: \S*unrolled has 21000 operations\. 21000 of 21000 operations are of .*test_progress\.py:\d+"
        r": a loop in Python was unrolled there; .* fori_loop .* fgrad\.kernel .*\n"
    )
    assert bool(re.fullmatch(pattern, said)) is told, said
    assert bool(said) is told


def test_one_long_item_alone_is_not_talked_about(clock, capsys):
    assert work(clock, 50, items=1) == [0]
    assert work(clock, 50, items=0) == []
    assert capsys.readouterr().err == ""


def test_the_line_ends_where_work_fails(clock, capsys):
    with pytest.raises(KeyError):
        work(clock, 3, fails=2)
    assert capsys.readouterr().err.endswith("kernels of f ... 2 done\n")


@pytest.mark.parametrize(("value", "said"), [("1", False), ("0", True), ("", True)])
def test_the_environment_turns_it_off(clock, capsys, monkeypatch, value, said):
    monkeypatch.setenv("FGRAD_QUIET", value)
    work(clock, 5)
    assert bool(capsys.readouterr().err) is said


def test_compiling_a_function_names_it(clock, capsys, monkeypatch):
    def slow(x):
        return np.sum(x * 3.25), np.sum(x, axis=0) * 1.625, np.sum(np.sin(x) * 2.75, axis=1)

    kept = native._kept
    numbers = []

    def patient(text, signature, made):
        clock.now += 3
        numbers.append(text)
        return kept(text, signature, made)

    monkeypatch.setattr(native, "_kept", patient)
    monkeypatch.setattr(native, "_is_there", lambda key: False)
    fg.jit(slow).lower(np.ones((40, 50))).compile()
    err = capsys.readouterr().err
    count = len(dict.fromkeys(numbers))
    assert count > 1
    assert err.startswith(
        f"\rfgrad: compiling {count} kernels of test_compiling_a_function_names_it.<locals>.slow ... 1 done"
    )


def test_what_is_there_is_not_compiled(clock, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(tmp_path))
    text = "def kernel(slots, args, lo, hi):\n    float64_at(slots, args, 0)[0] = {}.5\n"
    keys = [(text.format(n), "kernel") for n in range(3)]
    monkeypatch.setattr(native, "_kernels", {})
    made = native.compiled_all([*keys, keys[0]])
    assert made[0] is made[3]
    assert len(set(made)) == 3
    seen = []
    monkeypatch.setattr(progress, "each", lambda do, items, what, hint: seen.append((items, what)))
    assert native.compiled_all(keys, "f") == made[:3]
    native._kernels.clear()
    native.compiled_all(keys, "f")
    assert seen == [([], "compiling 0 kernels of f")] * 2
