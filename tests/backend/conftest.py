"""Devices are simulated, unless NUMBA_ENABLE_CUDASIM=0 asks for those of the machine."""

import pytest
from tests.helpers import simulate_devices, switching_every

simulate_devices()


@pytest.fixture(autouse=True)
def quick_switching():
    """Let the threads of a simulated block meet without waiting for Python's usual 5 ms."""
    with switching_every(1e-4):
        yield
