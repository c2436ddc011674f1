"""Kernels of arrays in machine code, against NumPy."""

import os
import subprocess
import sys

import numpy as np
import pytest
from tests.helpers import optimised

from fgrad.compat import numpy as layout
from fgrad.kernels import compilation, functions, native

pytestmark = pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")

TEXT = """
IN, OUT = types.Array(types.{dtype}, 2, "A", readonly=True), types.Array(types.{dtype}, 1, "C")


@typed(types.void(IN, types.{dtype}, types.boolean, types.intp, OUT))
def kernel(x, scale, flip, start, out):
    for i in range(x.shape[0]):
        total = out[i]
        for j in range(start, x.shape[1]):
            total += x[i, -1 - j] * scale if flip else x[i, j]
        out[i] = total
"""
VIEWS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "with steps": lambda x: x[::2, ::3],
    "backwards": lambda x: x[::-1, ::-2],
    "of a record": lambda x: x.astype([("a", x.dtype), ("b", x.dtype)])["b"],
    "one row": lambda x: x[:1],
    "nothing": lambda x: x[:0],
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("flip", [False, True])
def test_arrays_of_every_layout(dtype, view, flip):
    x = VIEWS[view](np.arange(60).reshape(6, 10).astype(dtype))
    run = functions.compiled(TEXT.format(dtype=dtype))
    out = np.full(len(x), 3, dtype)
    run(x, 2, flip, 1, out)
    seen = (x[:, ::-1] * 2 if flip else x)[:, 1:].sum(1) + 3
    np.testing.assert_array_equal(out, seen.astype(dtype))


def test_truths_and_arrays_of_the_functions_own():
    run = functions.compiled("""
FLAGS = types.Array(types.boolean, 1, "C")
ROOM = np.uintp(8)


@typed(types.void(FLAGS, FLAGS, types.uintp, types.uintp))
def kernel(x, y, lo, hi):
    seen = np.empty(ROOM, np.float32)
    for i in range(lo, hi):
        for k in range(ROOM):
            seen[k] = np.float32(0.5) * np.float32(k)
        y[i] = x[i] and seen[i] > 1
""")
    x, y = np.array([True, True, False, True, True]), np.zeros(5, bool)
    run(x, y, 1, 5)
    assert y.tolist() == [False, False, False, True, True]


def test_what_is_not_fused_rounds_as_numpy_does():
    text = """
X = types.Array(types.float64, 1, "C")


@typed(types.void(X, X, X){more})
def kernel(x, y, out):
    for i in range(x.shape[0]):
        out[i] = x[i] * y[i] - np.float64(1.0)
"""
    x, y = 1 + np.arange(1, 9) * 2.0**-30, 1 - np.arange(1, 9) * 2.0**-30
    plain, fused = np.empty(8), np.empty(8)
    functions.compiled(text.format(more=""))(x, y, plain)
    functions.compiled(text.format(more=', "contract"'))(x, y, fused)
    np.testing.assert_array_equal(plain, x * y - 1)
    exact = -((np.arange(1, 9) * 2.0**-30) ** 2)
    assert np.abs(fused - exact).max() <= np.abs(plain - exact).max()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.ones((2, 2)), 1.0, 0, 0), "takes 5 arguments, not 4"),
        ((np.ones((2, 2), "f"), 1.0, 0, 0, np.ones(2)), "not float32"),
        ((np.ones(2), 1.0, 0, 0, np.ones(2)), "not float64"),
        ((np.ones((2, 2)), 1.0, 0, 0, np.ones(4)[::2]), "with strides"),
    ],
)
def test_other_arguments_are_refused(args, message):
    with pytest.raises(TypeError, match=message):
        functions.compiled(TEXT.format(dtype="float64"))(*args)


SCRIPT = """
import sys
import numpy as np
import fgrad as fg

x = np.random.default_rng(0).standard_normal((300, 400))
one = np.ones(400)
for f in (fg.nn.softmax, fg.nn.gelu, lambda x: fg.nn.layer_norm(x, one, one), np.cumsum):
    fg.grad(lambda x: np.sum(f(x) ** 2))(x)
x = x.reshape(4, 3, 100, 100)
for stride in (1, 2):  # in registers, and by way of unrolled windows
    f = lambda x, w: np.sum(fg.nn.max_pool(fg.nn.conv(x, w, stride=stride), 2) ** 2)
    fg.grad(f, argnums=(0, 1))(x, np.ones((4, 3, 3, 3)))
print("numba" in sys.modules)
"""


def test_gradients_of_large_arrays_do_not_import_numba(tmp_path):
    env = {**os.environ, "FGRAD_CACHE_DIR": str(tmp_path / "cache"), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


DISTINCT = """
{first}
IN, OUT = (types.Array(types.float64, 1, "C", readonly=one) for one in (True, False))


@typed(types.void(IN, OUT))
def kernel(x, out):
    kept = np.empty(64, np.float64)
    for k in range(64):
        kept[k] = x[k]
    for k in range(64):
        out[k] = kept[k] + x[0]
"""


def test_arrays_that_share_nothing_are_told_apart():
    texts = [DISTINCT.format(first=first) for first in ("", "DISTINCT = True")]
    plain, distinct = (compilation.assembly(text, "function", "f") for text in texts)
    assert plain.count("!noalias") == 0
    assert (
        distinct.count("!noalias") == distinct.count("!alias.scope") == 5
    )  # each load and store of elements
    results = []
    for text in texts:
        x, out = np.arange(64.0), np.zeros(64)
        functions.compiled(text)(x, out)
        results.append(out.tolist())
    assert results[0] == results[1] == np.arange(64.0).tolist()
    made = [optimised(t) for t in (plain, distinct)]
    assert made[0].count(" icmp ") > made[1].count(" icmp ")  # LLVM asks whether the arrays overlap


def test_addresses_of_arrays(monkeypatch):
    arrays = [np.zeros(3), np.zeros((0, 4), np.int8), np.arange(12.0).reshape(3, 4)[1:, ::2], np.array(1j)]
    expected = [a.ctypes.data for a in arrays]
    assert [layout.address(a) for a in arrays] == expected
    monkeypatch.setattr(layout, "layout_is_known", lambda: False)
    assert [layout.address(a) for a in arrays] == expected
