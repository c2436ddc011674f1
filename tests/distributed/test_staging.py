"""Arrays of a device: read in place by an MPI that can, copied to the host by any other."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from fgrad.distributed import simulate, staging, world


class Device(np.ndarray):
    """Stands for CuPy's arrays: counts copies to the host and waits for the device."""

    copies = 0

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.ctypes.data, False),
            "version": 3,
        }

    def get(self):
        Device.copies += 1
        return np.array(self)

    def __array_function__(self, function, kinds, args, kwargs):
        if function is np.asarray:
            kwargs.pop("like", None)
            return np.asarray(*args, **kwargs).view(Device)
        return super().__array_function__(function, kinds, args, kwargs)


def on_device(x):
    return np.array(x).view(Device)


@pytest.fixture
def waits(monkeypatch):
    """How often somebody waited for the device."""
    found = []
    stream = types.SimpleNamespace(synchronize=lambda: found.append(1))
    library = types.SimpleNamespace(cuda=types.SimpleNamespace(get_current_stream=lambda: stream))
    monkeypatch.setattr(staging, "is_on_device", lambda x: isinstance(x, Device))
    monkeypatch.setitem(sys.modules, Device.__module__.partition(".")[0], library)
    monkeypatch.setattr(Device, "copies", 0)
    return found


def total():
    axis = world().named()
    found = axis.psum(on_device([[1.0, 2.0], [3.0, world().rank]]))
    return found, axis.all_gather(on_device([float(world().rank)]))


@pytest.mark.parametrize("aware", ["", "1"])
def test_results_lie_where_the_values_lay(waits, monkeypatch, aware):
    monkeypatch.setenv("FGRAD_MPI_CUDA", aware)
    for found, gathered in simulate(2, total):
        assert type(found) is type(gathered) is Device
        assert np.array_equal(found, [[2.0, 4.0], [6.0, 1.0]])
        assert np.array_equal(gathered, [[0.0], [1.0]])
    if aware:
        assert Device.copies == 0
        assert len(waits) == 4  # before each array is handed to MPI, which knows no streams
    else:
        assert Device.copies == 4
        assert not waits


@pytest.mark.parametrize("aware", ["", "true"])
def test_buckets_are_packed_where_the_gradients_lie(waits, monkeypatch, aware):
    monkeypatch.setenv("OMPI_MCA_opal_cuda_support", aware)
    parts = [on_device([1.0, 2.0]), on_device([[3.0], [4.0]])]
    flat = staging.joined(parts, None)
    assert isinstance(flat, Device) is bool(aware)
    assert np.array_equal(flat, [1.0, 2.0, 3.0, 4.0])
    assert Device.copies == (0 if aware else 2)
    again = staging.joined(parts, flat)
    assert again is flat  # the memory serves once more
    back = staging.delivered(flat, parts[0], (2, 2))
    assert type(back) is Device


def test_host_memory_is_what_it_is():
    x = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(staging.sendable(x), x)
    assert not np.shares_memory(staging.owned(x), x)
    assert np.array_equal(staging.sendable(x.T), x.T.ravel())
    assert not staging.is_on_device(x)
    assert not staging.is_cuda_aware()
