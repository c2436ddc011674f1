"""What fgrad uses of others beyond their documentation stands in one place, is tested, and may be missing."""

import ast
import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fgrad
from fgrad import compat
from fgrad.compat.numpy import blas_libraries

SOURCE = Path(fgrad.__file__).parent
MODULES = sorted(p.stem for p in (SOURCE / "compat").glob("*.py") if p.stem != "__init__")
OTHERS = {"cupy", "cupyx", "einops", "llvmlite", "mpi4py", "numba", "numpy", "optree", "scipy"}
OTHERS |= set(sys.stdlib_module_names)
STRANGE = {  # names of others, whatever object has them
    *("_NoValue", "_allocations", "_backends", "_data", "_dispose", "_Environ"),
    *("_get_running_loop", "_getframe", "_at_fork_reinit", "_is_owned", "_ivp", "_library", "_linalg"),
    *("_matmul_dispatch", "_module_locks", "_ufuncs", "call_conv", "co_code", "f_lasti", "fndesc"),
    *("getrefcount", "get_instructions"),
}


def strange(text, *, stands_in=False):
    """Yield what a module says that only the makers of another one may say: line, name.

    The tables of what stands in for another library have its names as keys.
    """
    tree = ast.parse(text)
    known = {}

    def dotted(node):
        if isinstance(node, ast.Name):
            return known.get(node.id, "")
        inner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
        return inner and f"{inner}.{node.attr}"

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
            for a in node.names:
                top = a.name.split(".")[0]
                known[a.asname or top] = a.name if a.asname else top
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{a.name}" for a in node.names]
            known |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        else:
            continue
        yield from ((node.lineno, name) for name in names if is_private(name))
    tables = [node for node in ast.walk(tree) if stands_in and isinstance(node, ast.Dict)]
    offered = {id(key) for table in tables for key in table.keys}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (is_private(dotted(node)) or node.attr in STRANGE):
            yield node.lineno, dotted(node) or f"?.{node.attr}"
        elif isinstance(node, ast.Constant) and node.value in STRANGE and id(node) not in offered:
            yield node.lineno, node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "from_address":
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            yield from ((node.lineno, "the memory of an object") for name in names if name == "id")


def is_private(name):
    first, *rest = name.split(".")
    if first not in OTHERS:
        return False
    if first == "numba" and rest[:1] == ["core"]:
        return rest[1:2] != ["cgutils"]  # which the documentation of `intrinsic` uses
    return any(part.startswith("_") and not part.startswith("__") for part in rest)


def test_nothing_else_knows_what_others_keep_to_themselves():
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.parent != SOURCE / "compat"
        for line, name in strange(path.read_text("utf-8"), stands_in=path.parents[1] == SOURCE / "compat")
    ]
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nx = np._NoValue",
        "from numpy.linalg._linalg import EigResult",
        "import scipy.integrate\nscipy.integrate._ivp.ivp",
        "from numba.core import callconv",
        "import sys\nsys.getrefcount(1)",
        "from sys import _getframe",
        "import ctypes\nctypes.c_int64.from_address(id(x) + 16)",
        "getattr(x, '_dispose')",
        "{'_dispose': 1}",
        "frame.f_lasti",
        "import dis\nfor step in dis.get_instructions(code): pass",
    ],
)
def test_what_is_looked_for_is_found(text):
    assert list(strange(text))


def test_each_self_test_holds_for_what_is_installed():
    """In every environment of `.ci/versions`: where one fails, fgrad is slower than it need be."""
    for name in MODULES:
        importlib.import_module(f"fgrad.compat.{name}")
    assert len(compat.SELF_TESTS) >= 10
    failed = {name for name, test in compat.SELF_TESTS.items() if not test()}
    absent = {
        "numpy.blas_is_known": not blas_libraries(),  # it may be another BLAS
        "cpython.instructions_have_places": sys.version_info < (3, 11),
        "ipython.cells_are_numbered": importlib.util.find_spec("IPython") is None,
    }
    assert failed == {name for name, is_absent in absent.items() if is_absent}


def test_a_self_test_that_raises_is_a_no():
    def broken():
        raise AttributeError

    test = compat.self_test(broken)
    assert compat.SELF_TESTS.pop("test_compat.broken") is test
    assert test() is False


SMOKE = """
import numpy as np, scipy.sparse, threading, asyncio
import fgrad as fg
from fgrad import compat
from fgrad.compat.numpy import blas_libraries
from fgrad.compat import cpython, numpy as layout, scipy as theirs
assert not any(test() for test in compat.SELF_TESTS.values())
assert cpython.frame_of is cpython.frame_by_traceback and layout.setting is np.geterr

x = np.arange(1.0, 30001.0)
f = lambda x: np.sum(np.log(x) * x)
np.testing.assert_allclose(fg.grad(f)(x), 1 + np.log(x))
program = fg.jit(fg.value_and_grad(f))
for k in range(3):
    value, slope = program(x + k)
    np.testing.assert_allclose(slope, 1 + np.log(x + k))
scale = 2.0
scaled = fg.jit(lambda x: x * scale)
assert scaled(3.0) == 6.0
scale = 5.0
assert scaled(3.0) == 15.0
with np.errstate(divide="raise"):
    assert fg.grad(np.sqrt)(0.0) == np.inf
    try:
        np.ones(1) / np.zeros(1)
        raise SystemExit("errstate was lost")
    except FloatingPointError:
        pass
np.testing.assert_allclose(fg.vmap(lambda x: x if x > 0 else x * x)(np.array([-2.0, 3.0])), [4.0, 3.0])
e, v = np.linalg.eigh(fg.tensor(np.eye(2)))
np.testing.assert_allclose(np.linalg.eigh(fg.tensor(np.eye(2))).eigenvalues.numpy(), 1.0)
assert np.sum(fg.tensor(x), axis=0) == x.sum()
a = scipy.sparse.csr_array(np.eye(2))
try:
    fg.grad(lambda x: np.sum(a @ x))(np.ones(2))
    raise SystemExit("a gradient was lost")
except TypeError:
    pass
try:
    fg.plain_numpy(lambda x: np.zeros(2) + x)(fg.tensor(1.0))
    raise SystemExit("bytecode was read")
except NotImplementedError:
    pass
"""


def test_without_any_of_it_values_are_the_same():
    ran = subprocess.run(
        [sys.executable, "-c", SMOKE],
        env={**os.environ, "FGRAD_PRIVATE": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not ran.returncode, ran.stderr
