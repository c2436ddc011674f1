"""`viz`, `distributed`, `archive`, `scipy` load late, and the rest works where one of them is not there."""

from __future__ import annotations

import subprocess
import sys

import pytest

PARTS = ("archive", "distributed", "scipy", "sparse", "viz")

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Blocking(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == MISSING or name.startswith(f"{MISSING}."):
            raise ModuleNotFoundError(f"no module named {name!r}", name=name)

MISSING = f"fgrad.{sys.argv[1]}"
sys.meta_path.insert(0, Blocking())
"""

CORE = """
import numpy as np
import fgrad as fg

f = lambda x: np.sum(np.sin(x) * np.dot(x, x))
x = np.arange(1.0, 5.0)
slope = np.cos(x) * np.dot(x, x) + 2 * x * np.sum(np.sin(x))
np.testing.assert_allclose(fg.grad(f)(x), slope)
np.testing.assert_allclose(fg.jit(fg.grad(f))(x), slope)
np.testing.assert_allclose(fg.vmap(fg.grad(f))(x[None]), slope[None])
np.testing.assert_allclose(fg.jvp(f, (x,), (x,))[1], np.dot(slope, x))
t = fg.tensor(x)
with fg.GradManager().attach(t) as gm:
    gm.backward(f(t))
np.testing.assert_allclose(t.grad.numpy(), slope)
scanned = lambda x: fg.lax.scan(lambda c, v: (c * v, c), 1.0, x)[0]
np.testing.assert_allclose(fg.jit(fg.grad(scanned))(x), 24.0 / x)
assert fg.nn.softmax(x).sum() and fg.random.normal(fg.random.key(0), size=(2,)).shape == (2,)
assert "sin" in str(fg.jit(f).lower(x).program) and repr(t)
assert fg.extend.elementwise(lambda x: x * x)(3.0) == 9.0
assert fg.plain_numpy(lambda x: np.zeros(2) + x)(fg.tensor(1.0)).shape == (2,)
fg.testing.check_grads(f, (x,))
"""

USES = {
    "archive": "data = fg.export(fg.jit(f), x)\nassert abs(fg.load(data)(x) - f(x)) < 1e-12\n",
    "distributed": "assert fg.distributed.simulate(2, lambda: fg.distributed.psum(1.0)) == [2.0, 2.0]\n",
    "scipy": "fg.grad(lambda x: np.sum(fg.scipy.special.gammaln(x)))(x)\nfg.scipy.linalg.expm(np.eye(2))\n",
    "sparse": "assert fg.sparse.jacobian(np.sin)(x).nnz == 4\n",
    "viz": "assert fg.viz.draw(fg.grad(f))(x)\n",
}


NEEDS = {"sparse": "scipy"}  # whose arrays it gives


def run(program, *args):
    ran = subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, timeout=120, check=False
    )
    assert not ran.returncode, ran.stderr
    return ran.stdout


LOADED = """
print(*sorted({m.split(".")[1] for m in sys.modules if m.startswith("fgrad.")}))
"""
ABSENT = """
try:
    getattr(fg, sys.argv[1])
except (ImportError, AttributeError):
    pass
else:
    raise SystemExit("it is there")
"""


def test_none_is_imported_by_the_rest():
    assert not {*PARTS} & {*run(f"import sys\n{CORE}{LOADED}").split()}


@pytest.mark.parametrize("missing", PARTS)
def test_the_rest_works_without(missing):
    others = "".join(use for part, use in USES.items() if missing not in {part, NEEDS.get(part)})
    run(WITHOUT + CORE + others + ABSENT, missing)
