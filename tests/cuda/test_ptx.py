"""The interpreter of PTX computes what a GPU computes, and finds what kernels must not do."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.backend.checks import on_device, same
from tests.cuda import ptx

import fgrad as fg
from fgrad.kernels import launching

pytestmark = pytest.mark.codegen
RNG = np.random.default_rng(0)


@pytest.fixture
def interpreted(monkeypatch):
    """Have a device whose kernels the interpreter runs."""
    from tests.cuda import interpreted

    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    interpreted.install(monkeypatch)
    launching.device.cache_clear()
    launching.compiled.cache_clear()
    yield interpreted
    launching.device.cache_clear()
    launching.compiled.cache_clear()


@pytest.fixture
def launch(interpreted):
    """Return a function that runs the lines of a kernel of b0, b1, ... and n."""

    def run(lines, *arrays, n=0, blocks=2, threads=64):
        names = ", ".join(f"b{k}" for k in range(len(arrays)))
        body = "".join(f"    {line}\n" for line in lines.strip("\n").split("\n"))
        text = f"def kernel({names}, n):\n{body}"
        interpreted.compiled(text, tuple(a.dtype.name for a in arrays), 1)(arrays, [n], blocks, threads)

    return run


FLOATS = [0.0, -0.0, 1e-40, -1e-310, 0.3, -0.7, 1.0, 2.5, -3.5, 1e10, -1e38, 1e300, np.inf, -np.inf, np.nan]
WHOLE = [0, 1, -1, 2, -3, 7, 63, 64, -64, 10**9 + 7, -(10**12), 2**62, 3 - 2**63]
STRIDING = """
i = np.int64(cuda.grid(1))
while i < n:
    {}
    i += cuda.gridsize(1)
"""


def everywhere(special, dtype, low, high):
    """Return numbers that are all over, and numbers that are special."""
    numbers = RNG.uniform(low, high, 500)
    return np.concatenate([special, numbers]).astype(dtype)


FUNCTIONS = {  # of CUDA's library, and where to ask for them
    "exp": (-90, 90), "expm1": (-3, 3), "log": (0, 1e3), "log1p": (-1, 3), "sqrt": (0, 1e9),
    "sin": (-1e6, 1e6), "cos": (-50, 50), "tan": (-1e5, 1e5), "asin": (-1, 1), "atan": (-9, 9),
    "tanh": (-3, 3), "sinh": (-5, 5), "floor": (-9, 9), "ceil": (-9, 9),
    "erf": (-3, 3), "erfc": (-3, 9), "lgamma": (0.1, 50), "gamma": (-5, 30),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_cuda(launch, name, dtype):
    theirs = {"lgamma": "gammaln", "atan": "arctan", "asin": "arcsin"}.get(name, name)
    f = getattr(np, theirs, None) or getattr(pytest.importorskip("scipy.special"), theirs)
    # SciPy's logarithm of the gamma function has another value than C's at some numbers below zero
    special = [z for z in FLOATS if z > 0 or z != z] if name == "lgamma" else FLOATS
    with np.errstate(all="ignore"):
        x = everywhere(special, dtype, *FUNCTIONS[name])
        expected = f(x)
    y, info = np.empty_like(x), np.finfo(dtype)
    launch(STRIDING.format(f"b1[i] = math.{name}(b0[i])"), x, y, n=x.size)
    y, expected = (np.where(np.abs(v) < info.tiny, 0, v) for v in (y, expected))  # one may be flushed
    np.testing.assert_allclose(y, expected, rtol=60 * info.eps, atol=1e-12 if name == "lgamma" else 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("text", "f"),
    [
        ("x + y", np.add), ("x - y", np.subtract), ("x * y", np.multiply), ("x / y", np.divide),
        ("x if x < y else -y", lambda x, y: np.where(x < y, x, -y)),
        ("math.copysign(x, y)", np.copysign), ("math.hypot(x, y)", np.hypot),
        ("math.atan2(x, y)", np.arctan2),
        ("x ** y", np.power), ("abs(x) ** y", lambda x, y: np.abs(x) ** y),
        ("x if x != y else 0", lambda x, y: np.where(x != y, x, 0)),
    ],
)  # fmt: skip
def test_floats(launch, text, f, dtype):
    with np.errstate(all="ignore"):
        x = everywhere(FLOATS, dtype, -5, 5)
        y = RNG.permutation(x)
        expected, z = f(x, y), np.empty_like(x)
    body = [f"x, y = np.{x.dtype.name}(b0[i]), np.{x.dtype.name}(b1[i])", f"b2[i] = {text}"]
    launch(STRIDING.format("\n    ".join(body)), x, y, z, n=x.size)
    np.testing.assert_allclose(z, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)


INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint8")
OPERATIONS = (  # Python's, of scalars; `one` and `seven` are of their type
    *("x + y", "x - y", "x * y", "x & y", "x | y", "x ^ ~y", "x << (y & seven)", "x >> (y & seven)"),
    *("x // (y | one)", "x % (y | one)", "min(x, y)", "max(x, y)", "abs(x) - y", "x if x < y else y + one"),
)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("text", OPERATIONS)
def test_integers(launch, text, name):
    numbers = np.array(WHOLE).astype(name)
    x, y = (a.copy() for a in np.meshgrid(numbers, numbers))
    x, y, z = x.reshape(-1), y.reshape(-1), np.empty(x.size, name)
    kind = getattr(np, name)
    with np.errstate(all="ignore"):
        expected = [
            eval(text, {"x": a, "y": b, "one": kind(1), "seven": kind(7)}) for a, b in zip(x, y, strict=True)
        ]
    body = ["x, y = KIND(b0[i]), KIND(b1[i])", "one, seven = KIND(1), KIND(7)", f"b2[i] = {text}"]
    launch(STRIDING.format("\n    ".join(body)).replace("KIND", f"np.{name}"), x, y, z, n=x.size)
    np.testing.assert_array_equal(z, np.array(expected).astype(name))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint32, np.int8, np.float32, np.float64])
@pytest.mark.parametrize("of", [np.int64, np.int32, np.uint8, np.float32, np.float64])
def test_conversions(launch, of, dtype):
    x = RNG.uniform(0 if np.dtype(of).kind == "u" or np.dtype(dtype).kind == "u" else -120, 120, 100).astype(
        of
    )
    y = np.empty(100, dtype)
    launch(STRIDING.format(f"b1[i] = np.{y.dtype.name}(b0[i])"), x, y, n=100)
    np.testing.assert_array_equal(y, x.astype(dtype))


def test_threads_of_a_block_share_memory_and_wait(launch):
    x, y = RNG.uniform(-1, 1, 256), np.empty(4)
    total = """
shared = cuda.shared.array(64, "float64")
lane = cuda.threadIdx.x
shared[lane] = b0[cuda.grid(1)]
cuda.syncthreads()
half = 32
while half > 0:
    if lane < half:
        shared[lane] += shared[lane + half]
    cuda.syncthreads()
    half //= 2
if lane == 0:
    b1[cuda.blockIdx.x] = shared[0]
"""
    launch(total, x, y, blocks=4)
    np.testing.assert_allclose(y, x.reshape(4, 64).sum(1), rtol=1e-13)


REFUSED = {
    "reads behind the end": (
        "outside of argument 1",
        """
i = cuda.grid(1)
b0[i] = b1[i + 1]
""",
    ),
    "reads before the beginning": (
        "outside of argument 1",
        """
i = cuda.grid(1)
b0[i] = b1[i - 1]
""",
    ),
    "writes behind the end": (
        "outside of argument 0",
        """
i = cuda.grid(1)
b0[2 * i] = b1[i]
""",
    ),
    "all write to one place": (
        "several threads write to one place",
        """
b0[0] = b1[cuda.grid(1)]
""",
    ),
    "blocks write to one place": (
        "several threads|races",
        """
b0[cuda.threadIdx.x] = b1[cuda.grid(1)]
""",
    ),
    "reads what a neighbour writes": (
        "races",
        """
i = cuda.grid(1)
if i > 0:
    b0[i] = b1[i]
    b1[i - 1] = b0[i]
""",
    ),
    "reads what another block has written": (
        "races",
        """
i = cuda.grid(1)
b0[i] = b1[i]
cuda.syncthreads()
b1[i] = b0[127 - i]
""",
    ),
    "does not wait": (
        "races",
        """
s = cuda.shared.array(64, "float64")
i = cuda.threadIdx.x
s[i] = b1[i]
b0[cuda.grid(1)] = s[63 - i]
""",
    ),
    "writes before others have read": (
        "races",
        """
s = cuda.shared.array(64, "float64")
i = cuda.threadIdx.x
s[i] = b1[i]
cuda.syncthreads()
b0[cuda.grid(1)] = s[63 - i]
s[i] = b1[i]
cuda.syncthreads()
b0[cuda.grid(1)] += s[i]
""",
    ),
    "reads what nobody wrote": (
        "nobody wrote",
        """
s = cuda.shared.array(64, "float64")
i = cuda.threadIdx.x
if i > 0:
    s[i] = b1[i]
cuda.syncthreads()
b0[cuda.grid(1)] = s[i]
""",
    ),
    "writes outside of shared memory": (
        "outside of shared memory",
        """
s = cuda.shared.array(32, "float64")
i = cuda.threadIdx.x
s[i] = b1[i]
cuda.syncthreads()
b0[cuda.grid(1)] = s[i]
""",
    ),
    "some do not wait": (
        "have ended",
        """
i = cuda.threadIdx.x
if i < 7:
    cuda.syncthreads()
b0[cuda.grid(1)] = b1[i]
""",
    ),
    "some wait elsewhere": (
        "different barriers",
        """
i = cuda.threadIdx.x
if i < 7:
    b0[cuda.grid(1)] = 1
    cuda.syncthreads()
    b0[cuda.grid(1)] = 2
else:
    cuda.syncthreads()
    b0[cuda.grid(1)] = b1[i]
""",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_kernels_must_not_do_is_found(launch, what):
    message, lines = REFUSED[what]
    with pytest.raises(ptx.PTXError, match=message):
        launch(lines, np.zeros(128), np.ones(128))


def test_loops_end(launch, monkeypatch):
    monkeypatch.setattr(ptx, "STEPS", 1000)
    with pytest.raises(ptx.PTXError, match="without an end"):
        launch("i = 0\nwhile b1[0] > 0:\n    i += 1\n    b0[cuda.grid(1)] = i", np.zeros(128), np.ones(128))


ROWS = RNG.uniform(-1, 1, (2500, 40)).astype(np.float32)
LABELS = RNG.integers(0, 40, 2500)
TRAFFIC = {  # programs; how often an element is loaded and stored, and barriers of a block
    "value and gradient": (lambda x: fg.value_and_grad(lambda x: np.sum(np.tanh(x * 1.5) ** 2))(x), 1, 1, 4),
    "elementwise": (lambda x: np.exp(x) * x, 1, 1, 0),
    "sums": (lambda x: (x.sum(), (x * x).sum()), 1, 0, 8),
    "softmax": (fg.nn.softmax, 3, 2, 6),  # while a row is in the cache
    "cross-entropy": (
        lambda x, labels: fg.grad(lambda x: fg.nn.softmax_cross_entropy(x, labels).mean())(x), 4, 2, 9),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAFFIC)
def test_memory_is_gone_through_as_seldom_as_possible(interpreted, monkeypatch, name):
    f, loads, stores, barriers = TRAFFIC[name]
    args = (ROWS, LABELS) if name == "cross-entropy" else (ROWS,)
    jitted, given = fg.jit(f), [on_device(a) for a in args]
    jitted(*given)
    monkeypatch.setattr(interpreted, "counted", Counter())
    same(jitted(*given), f(*args), 10)
    counted = interpreted.counted
    assert counted["loaded"] / ROWS.nbytes == pytest.approx(loads, rel=0.1)
    assert counted["stored"] / ROWS.nbytes == pytest.approx(stores, rel=0.1, abs=0.05)
    assert counted["barriers"] <= barriers
