"""Random programs on a simulated device: they compute what their operations compute one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.checks import DEVICE
from tests.backend.conftest import quick_switching as quick_switching  # noqa: PLC0414 -- a fixture of these tests too
from tests.compiler import test_random_programs as programs

from fgrad.backend import devices
from fgrad.compiler.device import DeviceExecutable, grids


class OnDevice:
    """Runs a program on the device, from arrays of the CPU to arrays of the CPU."""

    def __init__(self, program):
        self.place = devices.find(DEVICE)
        self.executable = DeviceExecutable(program, self.place)

    def run(self, inputs):
        return [y.download() for y in self.executable.run([self.place.array(x) for x in inputs])]


@pytest.fixture(autouse=True, scope="module")
def on_a_device():
    """Let the tests' own comparison run programs there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "Executable", OnDevice)
        for name, value in (("WIDE", 3), ("CHUNK", 4), ("RUN", 2)):  # small arrays meet every kind of kernel
            patch.setattr(grids, name, value)
        yield


@pytest.mark.parametrize("way", [programs.forward, programs.gradient, programs.mapped_gradient])
@settings(max_examples=15)
@given(data=st.data())
def test_floats(way, data):
    way(data, programs.FLOATS)


@settings(max_examples=15)
@given(data=st.data())
def test_many_dtypes(data):
    programs.forward(data, programs.MIXED)
