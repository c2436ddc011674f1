"""SciPy's special functions take Tensors, arrays and both, whether SciPy looks for namespaces or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import itertools, json, warnings
import numpy as np
import fgrad as fg
from scipy import special, stats
from fgrad.scipy.special import _RULES

warnings.simplefilter("ignore")
X, OTHER = np.array([0.4, 0.7]), np.array([0.3, 0.6])
FIXED = {"array": OTHER, "Tensor": fg.tensor(OTHER), "number": 1, "scalar": np.float64(0.5)}
found = {}


def outcome(f):
    try:
        with np.errstate(all="ignore"):
            return np.atleast_1d(np.asarray(f(), complex)).round(9).view(float).tolist()
    except Exception as error:
        return type(error).__name__


def total(out):
    return sum(np.sum(np.real(y)) for y in (out if isinstance(out, tuple) else (out,)))


for name in sorted(_RULES):
    f = getattr(special, name)
    n = getattr(getattr(f, "__wrapped__", f), "nin", 0)
    for i, (kind, fixed) in itertools.product(range(n), FIXED.items()):
        def g(x):
            return f(*(x if j == i else fixed for j in range(n)))
        found[f"{name}, {kind}, in {i}"] = [
            outcome(lambda: fg.grad(lambda x: total(g(x)))(X)),
            outcome(lambda: total(g(fg.tensor(X))).numpy()),
        ]
        if n == 1:
            break
    if n == 1:
        found[f"{name}, jit"] = outcome(lambda: fg.make_graph(lambda x: total(f(x)))(X)(X))
        found[f"{name}, vmap"] = outcome(lambda: fg.vmap(lambda x: total(f(x)))(X[None]))
found["sinc"] = outcome(lambda: fg.grad(lambda x: np.sum(special.sinc(x)))(X))
found["no rule"] = outcome(lambda: special.mathieu_a(1, fg.tensor(X)))
found["arrays"] = outcome(lambda: special.gammaln(OTHER))
print(json.dumps(found))
"""


def outcomes(setting: str | None) -> dict[str, object]:
    kept = {k: v for k, v in os.environ.items() if k != "SCIPY_ARRAY_API"}
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=kept | ({"SCIPY_ARRAY_API": setting} if setting else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert not made.returncode, made.stderr
    return json.loads(made.stdout)


@pytest.fixture(scope="module")
def plain() -> dict[str, object]:
    return outcomes(None)


def test_functions_of_tensors_are_the_same_in_either_mode(plain):
    found = outcomes("1")
    assert {k: v for k, v in found.items() if plain[k] != v} == {}


def test_most_of_them_have_values_and_gradients(plain):
    working = [k for k, v in plain.items() if " in " in k and isinstance(v[0], list)]
    assert len(working) > 600
    for name in (
        "gammainc, array, in 0",
        "gammainc, scalar, in 1",
        "xlogy, array, in 0",
        "expn, array, in 1",
    ):
        assert name in working
    assert isinstance(plain["erf, jit"], list)
    assert plain["no rule"] == "TypeError"
    assert isinstance(plain["arrays"], list)
