"""The first call of a compiled function builds all that later ones need: the second one compiles nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad.compiler import executable as executables
from fgrad.compiler.plan import Plan
from fgrad.kernels import entry, native
from fgrad.transforms import jit as jits

X, W = np.linspace(0.1, 1.0, 12).reshape(4, 3), np.linspace(-1.0, 1.0, 9).reshape(3, 3)


def loss(x: Any) -> Any:
    return np.sum(np.sin(x) ** 2)


def stepping(x: Any) -> Any:
    return fg.lax.scan(lambda h, v: (np.tanh(W @ h + v), h), x[0], x)


PROGRAMS = {
    "elementwise": (lambda x: np.sin(x) * 2, (X,)),
    "gradient": (fg.grad(loss), (X,)),
    "products": (fg.value_and_grad(lambda x, w: np.sum(np.tanh(x @ w))), (X, W)),
    "a loop": (stepping, (X,)),
    "a gradient of a loop": (fg.grad(lambda x: np.sum(stepping(x)[1])), (X,)),
    "a branch": (lambda x: fg.lax.cond(x[0, 0] > 0, np.sin, np.cos, x), (X,)),
    "what only Python computes": (lambda x: np.median(np.sin(x), axis=1) * 2, (X,)),
    "a loop that Python goes through": (
        lambda x: fg.lax.fori_loop(0, 2, lambda i, v: np.linalg.solve(W + 3 * np.eye(3), v), x.T),
        (X,),
    ),
    "shared by threads": (lambda x: np.exp(x) + 1, (np.ones(100_000),)),
    "infinite slopes": (fg.grad(lambda x: np.sum(np.linalg.norm(x, axis=0))), (X,)),
    "indices": (lambda x, j: x[j], (X, np.array([0, 2, -1]))),
    "numbers": (lambda x, n: x * n, (X, 2.5)),
    "trees": (lambda p: {"a": p["w"] @ p["x"][0], "b": None}, ({"w": W, "x": [X.T]},)),
    "Tensors": (lambda x: np.sin(x), (fg.tensor(X),)),
    "donated": (fg.jit(lambda x: np.sin(x) + 1, donate_argnums=0), (X.copy(),)),
    "by name": (lambda x, *, scale: x * scale, (X,), {"scale": W[0]}),
    "mapped": (fg.vmap(fg.jit(lambda x: np.cumsum(np.sin(x)))), (X,)),
    "differentiated": (fg.grad(fg.jit(loss)), (X,)),
    "twice": (fg.hessian(fg.jit(lambda x: np.sum(x**3))), (X[0],)),
}
NESTED = {"mapped", "differentiated", "twice", "donated"}


@pytest.fixture
def made(monkeypatch):
    """Count what is built: plans, entries, guards, buffers of steps, kernels."""
    counts: dict[str, int] = {}

    def counted(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def count(*args: Any, **kwargs: Any) -> Any:
            counts[name] = counts.get(name, 0) + 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, count)

    counted(Plan, "__init__")
    counted(entry, "Context")
    counted(executables, "_Context")
    counted(jits, "guard")
    counted(jits, "Specialisation")
    counted(native, "_found")  # of a kernel that is not in memory
    return counts


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_second_call_builds_nothing(name, made):
    f, args, *named = PROGRAMS[name]
    f = f if name in NESTED else fg.jit(f)
    f(*args, **dict(*named))
    assert made["__init__"]
    assert "Context" in made or "_Context" in made
    made.clear()
    for _ in range(4):
        f(*args, **dict(*named))
        assert not made


def test_kinds_that_take_turns_keep_most_of_their_short_ways(made):
    f = fg.jit(lambda x: x * 2)
    kinds = [np.ones(n) for n in range(1, jits.GUARDS + 2)]
    for _ in range(70):
        for x in kinds:
            f(x)
    assert len(f._guards) == jits.GUARDS
    assert made["guard"] <= 8 * len(kinds)  # at calls 1, 2, 4, ... 64 that found none
    hot = np.ones(50)
    made.clear()
    f(hot)
    assert made["guard"] == 1  # whatever came before
    calls = f._call_slow
    f._call_slow = None
    try:
        np.testing.assert_array_equal(f(hot), 2 * hot)
    finally:
        f._call_slow = calls


def test_arrays_and_tensors_have_short_ways_of_their_own(monkeypatch):
    f = fg.jit(lambda x: x * 2)
    f(X), f(fg.tensor(X))
    monkeypatch.setattr(f, "_call_slow", None)
    np.testing.assert_array_equal(f(X), 2 * X)
    assert isinstance(f(fg.tensor(X)), fg.Tensor)


def test_calls_within_transformations_do_not_use_up_the_first_one(monkeypatch):
    f = fg.jit(loss)
    for _ in range(3):
        fg.grad(f)(X)
    f(X)
    monkeypatch.setattr(f, "_call_slow", None)
    assert f(X) == pytest.approx(loss(X))


SCRIPT = """
import sys
import numpy as np
import fgrad as fg
from fgrad.kernels import native

f = fg.jit(fg.grad(lambda x: np.sum(np.sin(x) ** 2)))
counts = []
for _ in range(3):
    f(np.ones(10))
    counts.append((sum(native.statistics()), len(sys.modules)))
first, *later = counts
assert first[0] > 0
assert all(c == first for c in later), counts
"""


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
def test_the_second_call_of_a_process_compiles_and_imports_nothing(tmp_path):
    env = {**os.environ, "FGRAD_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", SCRIPT], env=env, check=True)
