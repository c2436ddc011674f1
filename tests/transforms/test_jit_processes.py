"""Jitted functions in new processes: a warm cache compiles nothing, and no cache makes a result wrong."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fgrad.kernels import native

pytestmark = pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")

# calls a function the long way, by its native entry and by its guard
SCRIPT = """
import sys
import numpy as np
from fgrad.kernels import native
versions = sys.argv[1:]
if versions:
    import llvmlite
    llvmlite.__version__ = versions[0]
import fgrad as fg

@fg.jit
@fg.value_and_grad
def f(w, x):
    return np.sum(np.sin(x @ w) ** 2)

rng = np.random.default_rng(3)
w, x = rng.standard_normal(30), rng.standard_normal((20, 30))
y, slope = np.sin(x @ w), x.T @ np.sin(2 * (x @ w))
for _ in range(4):
    value, gradient = f(w, x)
    np.testing.assert_allclose(value, np.sum(y**2), rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12, atol=1e-12)
compiled, loaded = native.statistics()
print(compiled, loaded, "numba" in sys.modules)
"""


def start(folder, *args):
    env = {**os.environ, "FGRAD_CACHE_DIR": str(folder), "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", SCRIPT, *args]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def result_of(process):
    """Return how many kernels a process compiled, how many it loaded, and whether it imported Numba."""
    out, _ = process.communicate()
    assert process.returncode == 0
    compiled, loaded, numba = out.split()
    return int(compiled), int(loaded), numba == "True"


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """Return a folder that two processes at once have filled, and how many entries there are."""
    folder = tmp_path_factory.mktemp("warm") / "cache"
    results = list(map(result_of, [start(folder) for _ in range(2)]))
    count = len(list(folder.glob("k_*.o")))
    assert count > 2
    assert {compiled + loaded for compiled, loaded, _ in results} == {count}
    assert sum(compiled for compiled, _, _ in results) >= count
    assert not list(folder.glob("*.tmp"))
    return folder, count


def test_a_second_process_compiles_nothing_and_does_not_import_numba(warm):
    folder, count = warm
    assert result_of(start(folder)) == (0, count, False)


def test_damaged_entries_are_built_again(warm):
    folder, count = warm
    first, second, third, *_ = sorted(folder.glob("k_*.o"))
    content = first.read_bytes()
    first.with_name(f"{first.name}.0123456789abcdef.tmp").write_bytes(content[:100])  # of a killed writer
    first.write_bytes(content[: len(content) // 2])
    second.write_bytes(third.read_bytes())
    third.write_bytes(b"something else")
    assert result_of(start(folder)) == (3, count - 3, False)
    assert result_of(start(folder)) == (0, count, False)


def test_another_llvmlite_has_entries_of_its_own(warm):
    folder, count = warm
    assert result_of(start(folder, "99.0")) == (count, 0, False)
    assert result_of(start(folder)) == (0, count, False)


def test_where_there_can_be_no_folder_everything_is_compiled(warm, tmp_path):
    folder, count = tmp_path / "cache", warm[1]
    folder.write_text("a file")
    assert result_of(start(folder)) == (count, 0, False)
    assert [p.name for p in tmp_path.rglob("*")] == ["cache"]
