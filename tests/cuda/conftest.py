"""Where there is a GPU these tests use it; nothing here is simulated."""

import os

import pytest


@pytest.fixture(autouse=True)
def on_a_gpu(request):
    """Demand a GPU for the tests that are marked so: who asks for them wants no simulation."""
    if request.node.get_closest_marker("cuda"):
        assert os.environ.get("NUMBA_ENABLE_CUDASIM") == "0", (
            "run NUMBA_ENABLE_CUDASIM=0 pytest -m cuda tests/cuda"
        )
