"""Devices are simulated, unless NUMBA_ENABLE_CUDASIM=0 asks for those of the machine."""

import os
import sys

import pytest

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")
if "numba" in sys.modules and os.environ["NUMBA_ENABLE_CUDASIM"] == "1":
    sys.modules["numba"].config.ENABLE_CUDASIM = 1  # read when `numba.cuda` is imported, which happens late


@pytest.fixture(autouse=True)
def quick_switching():
    """Let the threads of a simulated block meet without waiting for Python's usual 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)
