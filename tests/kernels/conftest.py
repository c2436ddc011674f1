"""CUDA kernels run in Numba's simulator, and compiled kernels go to a cache of the session's own."""

import pytest
from tests.helpers import simulate_devices

from fgrad.backend.devices import find
from fgrad.kernels import native

simulate_devices()


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def kernel_cache(monkeypatch, session_cache):
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(session_cache))
    monkeypatch.delenv("FGRAD_CACHE_SIZE", raising=False)
    return session_cache


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
