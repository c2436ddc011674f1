"""CUDA kernels run in Numba's simulator."""

import pytest
from tests.helpers import simulate_devices

from fgrad.backend.devices import find
from fgrad.kernels import native

simulate_devices()


@pytest.fixture(params=["compiled", "interpreted"])
def both_ways(request, monkeypatch):
    """Run a test with native kernels, and with those that Python runs."""
    if request.param == "interpreted":
        monkeypatch.setattr(native, "interpreted", lambda: True)
        monkeypatch.setattr(native, "_kernels", {})
    return request.param


@pytest.fixture
def place():
    """Return the first device, simulated or not."""
    return find("cuda:0")
