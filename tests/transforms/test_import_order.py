"""What compiled functions raise and return is what eager ones do, whichever modules of fgrad are loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys, warnings
import numpy as np
import fgrad as fg

for name in sys.argv[1:]:
    getattr(fg, name)

ct = np.array([[1.0, 2.0], [3.0, 5.0]])  # eigenvectors of the identity are not determined
vectors = lambda x: np.linalg.eigh(x)[1]

def refused(x):
    fg.vjp(vectors, x)[1](ct)
    return np.sum(x * x)

def singular(x):
    fg.vjp(lambda x: np.linalg.slogdet(x - np.eye(2))[1], x)[1](np.float64(1.0))
    return np.sum(x * x)

def printed(x):
    fg.debug.callback(lambda x: seen.append(float(x)), x[0, 0])
    return np.sum(x * x)

def read(x, i):
    x[i]
    return np.sum(x * x)

# the smaller singular value is dropped, and the slope of what is left depends on it
both = fg.jit(lambda x: (np.linalg.pinv(x - np.diag([0.0, 0.9]), rcond=0.5), vectors(x), 2 * x))

def absent(x):
    return np.sum(both(x)[2])

def present(x):
    return np.sum(both(x)[0])

WAYS = {
    "plain": lambda f: f,
    "jit": fg.jit,
    "grad": fg.grad,
    "grad of jit": lambda f: fg.grad(fg.jit(f)),
    "jit of grad": lambda f: fg.jit(fg.grad(f)),
    "hessian of jit": lambda f: fg.hessian(fg.jit(f)),
    "vmap of jit": lambda f: lambda x: fg.vmap(fg.jit(f))(np.stack([x, x])),
    "jvp of jit": lambda f: lambda x: fg.jvp(fg.jit(f), (x,), (x,))[1],
}
found = {}
for f in (refused, singular, printed, absent, present):
    for way, transform in WAYS.items():
        seen = []
        try:
            with np.errstate(all="ignore"):
                out = np.asarray(transform(f)(np.eye(2))).tolist()
        except Exception as error:
            out = type(error).__name__
        found[f"{f.__name__}, {way}"] = [out, len(seen)]
print(json.dumps(found))
"""


def outcomes(*loaded: str) -> dict[str, list[object]]:
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT, *loaded], env=os.environ, capture_output=True, text=True, check=False
    )
    assert not made.returncode, made.stderr
    return json.loads(made.stdout)


@pytest.fixture(scope="module")
def alone() -> dict[str, list[object]]:
    return outcomes()


@pytest.mark.parametrize("order", [1, -1])
def test_what_a_function_raises_does_not_depend_on_what_is_imported(alone, order):
    assert outcomes(*("lax", "scipy", "random", "nn", "viz", "distributed")[::order]) == alone


def test_what_nobody_needs_raises_as_in_eager_mode(alone):
    for f in ("refused", "singular"):
        raised = {way: out for way, (out, _) in alone.items() if way.startswith(f"{f},")}
        assert set(raised.values()) == {"LinAlgError"}, raised


def test_what_is_printed_is_printed_in_every_way(alone):
    counts = {way: count for way, (_, count) in alone.items() if way.startswith("printed,")}
    assert counts == {way: 2 if "vmap" in way else 1 for way in counts}


def test_no_cotangent_refuses_nothing(alone):
    gradient = {way: out for way, (out, _) in alone.items() if way.startswith("absent,") and "gr" in way}
    assert gradient == {way: [[2.0, 2.0], [2.0, 2.0]] for way in gradient}
    assert alone["absent, plain"] == alone["absent, jit"] == [4.0, 0]
    assert alone["present, grad"] == alone["present, grad of jit"] == ["LinAlgError", 0]
