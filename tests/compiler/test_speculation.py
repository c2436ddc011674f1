"""Programs that are speculative run first, and the others only where they may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad.compiler import Executable, executable
from fgrad.compiler.speculation import operations, speculative_program
from fgrad.core.program import Program


def entropy(x: Any) -> Any:
    return x * np.log(x)


def bump(x: Any) -> Any:
    return np.exp(-1 / x)


def guarded_root(x: Any) -> Any:
    return np.where(x > 0, np.sqrt(x), 0.0) * x


# the derivative along t at x, by hand; at 0 what the conventions say
SLOPES: dict[Callable[..., Any], Callable[..., Any]] = {
    entropy: lambda x, t: (np.log(x) + 1) * t,
    bump: lambda x, t: np.where(x == 0, 0.0, bump(x) / np.where(x == 0, 1.0, x * x)) * t,
    guarded_root: lambda x, t: np.where(x > 0, 1.5 * np.sqrt(np.maximum(x, 0)), 0.0) * t,
}
REGULAR, TANGENT = np.array([0.5, 1.0, 2.5]), np.array([1.0, -2.0, 0.25])
SINGULAR = np.array([0.0, 1.0, 2.5])


def along(f: Any) -> Any:
    return lambda x, t: fg.jvp(f, (x,), (t,))[1]


def program(f: Any, *args: Any) -> Program:
    return fg.make_graph(f)(*args)


@pytest.fixture
def made(monkeypatch):
    """Return a list of the programs that are compiled, each as whether it is speculative."""
    found: list[bool] = []
    init = Executable.__init__

    def counted(self: Executable, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        found.append(self.is_speculative)

    monkeypatch.setattr(Executable, "__init__", counted)
    return found


@pytest.mark.parametrize("f", SLOPES, ids=lambda f: f.__name__)
def test_usual_points_compile_one_program(f, made):
    run = fg.jit(along(f))
    for _ in range(4):  # the long way, the native entry, the guard
        np.testing.assert_allclose(run(REGULAR, TANGENT), SLOPES[f](REGULAR, TANGENT), rtol=1e-14)
    assert made == [True]


@pytest.mark.parametrize("calls", [0, 4])
@pytest.mark.parametrize("f", SLOPES, ids=lambda f: f.__name__)
def test_singular_points_run_the_other_program_which_is_compiled_once(f, calls, made):
    run = fg.jit(along(f))
    for _ in range(calls):
        run(REGULAR, TANGENT)
    with np.errstate(all="ignore"):
        eager = fg.jvp(f, (SINGULAR,), (TANGENT,))[1]
        expected = SLOPES[f](SINGULAR, TANGENT)
    for _ in range(executable.DOUBTS + 2):
        found = run(SINGULAR, TANGENT)
        np.testing.assert_allclose(found, eager, rtol=1e-14)
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert made == [True, False]
    np.testing.assert_allclose(run(REGULAR, TANGENT), SLOPES[f](REGULAR, TANGENT), rtol=1e-14)
    assert made == [True, False]


@pytest.mark.parametrize("f", SLOPES, ids=lambda f: f.__name__)
def test_values_are_those_without_speculation(f):
    for g in (along(f), lambda x, t: fg.hvp(lambda x: np.sum(f(x)), (x,), (t,))):
        given = program(g, REGULAR, TANGENT)
        first, plain = Executable(given), Executable(given, speculative=False)
        assert first.is_speculative
        assert not plain.is_speculative
        for point in (0.0, 0.5, -0.0, 1e-300, -1.0, 710.0, np.inf, 2.5, -np.inf, np.nan):
            x = np.array([point, 0.75, 3.0])
            first._doubted = 0
            for a, b in zip(first.run([x, TANGENT]), plain.run([x, TANGENT]), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-300)


def test_what_is_doubted_again_and_again_is_not_tried_any_more(monkeypatch):
    run = Executable(program(along(entropy), REGULAR, TANGENT))
    for _ in range(executable.DOUBTS - 1):
        run.run([SINGULAR, TANGENT])
    (found,) = run.run([REGULAR, TANGENT])  # counts from the start again
    for _ in range(executable.DOUBTS):
        run.run([SINGULAR, TANGENT])
    monkeypatch.setattr(run, "_plan", None)
    (again,) = run.run([REGULAR, TANGENT])
    np.testing.assert_allclose(found, again, rtol=1e-14)


@pytest.mark.parametrize("n", [0, 2])
def test_doubts_of_complex_numbers_may_be_known_beforehand(n):
    def total(x: Any) -> Any:
        y = np.pad(x, 1, constant_values=2.163) ** -1
        w = np.cos(np.arange(float(y.size)))
        return 0.0 + np.sum(np.real(y) * w) + np.sum(np.imag(y) * w[::-1])

    x, t = np.full(n, 1 - 0.5j), np.full(n, 0.5 + 1j)
    product = lambda x: fg.hvp(total, (x,), (t,))[1]
    np.testing.assert_allclose(fg.jit(product)(x), product(x), rtol=1e-12)


def test_an_index_out_of_bounds_is_one_in_either_case():
    def f(x: Any, t: Any, i: Any) -> Any:
        return along(entropy)(x[i], t)

    run = fg.jit(f)
    good, bad = np.array([0, 1, 2]), np.array([0, 1, 3])
    assert Executable(program(f, REGULAR, TANGENT, good)).is_speculative
    for x in (REGULAR, SINGULAR):
        np.testing.assert_allclose(run(x, TANGENT, good), run(x.copy(), TANGENT, good))
        with pytest.raises(IndexError, match="out of bounds"):
            run(x, TANGENT, bad)


def test_only_what_saves_a_tenth_is_tried():
    x = REGULAR
    small = executable.lowered(program(along(entropy), x, x))
    first = speculative_program(small)
    assert first is not None
    assert operations(first) <= 0.9 * operations(small)

    def beside(x: Any, t: Any) -> Any:  # the same, next to much that stays
        y = along(entropy)(x, t)
        for _ in range(100):
            y = np.tanh(y + x)
        return y

    assert speculative_program(executable.lowered(program(beside, x, x))) is None
    assert speculative_program(executable.lowered(program(np.tanh, x))) is None


def test_the_source_names_what_is_checked():
    text = fg.jit(along(entropy)).lower(REGULAR, TANGENT).source
    assert "# checks:  doubt: where it is true another program runs\n" in text
    assert "# checks:" not in fg.jit(np.tanh).lower(REGULAR).source


def test_operations_are_counted_where_they_are():
    x = np.ones((40, 50))
    assert operations(program(lambda x: x + x * x, x)) == 2 * 2000
    assert operations(program(lambda x: x @ x.T, x)) == 2 * 40 * 50 * 40
    loop = program(lambda x: fg.lax.scan(lambda c, r: (c * r, None), np.ones(50), x)[0], x)
    assert operations(loop) == 40 * 50
