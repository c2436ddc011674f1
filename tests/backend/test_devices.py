"""Devices by name, Tensors on them, and what is said where there is none."""

from __future__ import annotations

import copy
import pickle
import sys
from unittest import mock

import numpy as np
import pytest
from tests.backend.checks import DEVICE, no_transfers, on_device

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.backend import devices, library
from fgrad.backend.array import COMPOSED, METHODS, DeviceArray

X = np.arange(6.0).reshape(2, 3)


def test_devices_have_names():
    assert fg.devices() == ["cpu", "cuda:0", "cuda:1"]
    assert fg.tensor(X).device == "cpu"
    assert fg.tensor(X, device="cuda").device == "cuda:0"
    assert fg.tensor(X, device="cuda:1").device == "cuda:1"
    assert fg.tensor(X, device="cpu:0").device == "cpu"
    assert repr(fg.tensor([1.0], device="cuda")) == "Tensor([1.], device='cuda:0')"
    assert repr(fg.tensor([1], "i2", device="cuda")) == "Tensor([1], dtype=int16, device='cuda:0')"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("moon", "there is no device 'moon': devices are 'cpu', 'cuda', 'cuda:1', ..."),
        ("cuda:x", "there is no device 'cuda:x'"),
        ("cuda:7", "there is no device 'cuda:7' here, only 'cpu', 'cuda:0', 'cuda:1'"),
    ],
)
def test_names_of_devices_that_are_not_there(name, message):
    for use in (
        lambda: fg.tensor(X, device=name),
        lambda: fg.tensor(X).to(name),
        lambda: fg.jit(abs, device=name),
    ):
        with pytest.raises(ValueError) as caught:
            use()
        assert message in str(caught.value)


def test_to_moves_and_comes_back():
    t = fg.tensor(X)
    there = t.to("cuda:1")
    assert t.to("cpu") is t
    assert there.to("cuda:1") is there
    assert (there.device, there.to("cuda").device, there.to_device("cpu").device) == (
        "cuda:1",
        "cuda:0",
        "cpu",
    )
    np.testing.assert_array_equal(there.to("cuda").to("cpu").numpy(), X)
    with pytest.raises(ValueError, match="to_device takes no stream"):
        t.to_device("cuda", stream=1)


def test_derivatives_follow_across_devices():
    gradient = fg.grad(lambda x: (x.to("cuda").to("cuda:1") ** 2).to("cpu").sum())(fg.tensor(X))
    assert gradient.device == "cpu"
    np.testing.assert_array_equal(gradient.numpy(), 2 * X)
    second = fg.grad(lambda x: fg.grad(lambda x: (x.to("cpu") ** 3).sum())(x).sum())(on_device(X))
    assert second.device == DEVICE
    np.testing.assert_array_equal(second.numpy(), 6 * X)
    mapped = fg.vmap(lambda row: row.to("cuda").sum())(fg.tensor(X))
    np.testing.assert_array_equal(mapped.numpy(), X.sum(1))


def test_nothing_travels_unasked():
    a, b, c = fg.tensor(X), fg.tensor(X, device="cuda"), fg.tensor(X, device="cuda:1")
    for one, other, names in [
        (a, b, "cuda:0 and cpu"),
        (b, c, "cuda:0 and cuda:1"),
        (X, b, "cuda:0 and cpu"),
    ]:
        with no_transfers(), pytest.raises(TypeError, match=f"operands are on different devices, {names}"):
            one + other
    with pytest.raises(TypeError, match="is not converted to a NumPy array implicitly"):
        np.asarray(b)
    with pytest.raises(TypeError, match="different devices, cuda:0 and cpu"):
        fg.vjp(np.sin, b)[1](X)
    before = devices.transfers()
    assert (float(b.sum()), b.tolist(), b[0, 1].item()) == (15.0, X.tolist(), 1.0)
    np.testing.assert_array_equal(b.numpy(), X)
    after = devices.transfers()
    assert (after["to_host"] - before["to_host"], after["reads"] - before["reads"]) == (2, 2)


def test_numbers_are_no_transfer_and_index_arrays_are_sent_once():
    t = on_device(X)
    with no_transfers():
        t * 2 + np.float64(1) - np.array(3.0)
        fnp.full((2,), 3.0, device="cuda")
        t[0] = 5.0
    for index in (np.array([1, 0, 1]), [1, 0, 1], np.array([True, False])):
        t[index]
        with no_transfers():
            np.testing.assert_array_equal(t.shape, X.shape)
            t[index]


def test_default_device():
    with fg.default_device("cuda:1"):
        made = [
            fg.tensor(X),
            fnp.zeros(2),
            fnp.ones(2),
            fnp.full(2, 1.0),
            fnp.arange(3),
            fnp.eye(2),
            fnp.linspace(0, 1, 3),
            fnp.tri(3),
            fg.random.key(0),
            fg.random.normal(fg.random.key(0), size=3),
        ]
        assert {t.device for t in made} == {"cuda:1"}
        assert fnp.zeros(2, device="cpu").device == "cpu"
        with fg.default_device("cpu"):
            assert fnp.zeros(2).device == "cpu"
    assert fnp.zeros(2).device == "cpu"
    assert fnp.zeros_like(on_device(X)).device == DEVICE
    assert fnp.full_like(on_device(X), 2.0).device == DEVICE


def test_a_notebook_shows_them():
    t = on_device(X)
    t.grad = t
    assert "5" in t._repr_html_()


def test_copies_and_pickles_stay_where_they_are():
    t = on_device(X)
    t.grad = on_device(X + 1)
    for made in (copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        assert made.device == DEVICE
        np.testing.assert_array_equal(made.numpy(), X)
    assert copy.deepcopy(t).grad.device == DEVICE


class Foreign:
    """Another library's array on a GPU."""

    def __init__(self, value, index=0):
        self.value = value
        self.__cuda_array_interface__ = {"shape": value.shape, "typestr": value.dtype.str, "version": 3}
        self.index, self.shape, self.dtype = index, value.shape, value.dtype


@pytest.fixture
def adopting(monkeypatch):
    """Let the simulated library take such arrays, without a copy."""
    monkeypatch.setattr(library.Simulated, "adopt", lambda self, x: (x.value, x.index))


@pytest.mark.usefixtures("adopting")
def test_foreign_arrays_are_taken_without_a_copy():
    x = Foreign(X)
    with no_transfers():
        t = fg.tensor(x)
        assert t.device == DEVICE
        assert t._value.buffer is X
        assert fg.tensor(Foreign(X, 1)).device == "cuda:1"
        assert fg.tensor(x, device="cuda:1").device == "cuda:1"
        for made in (t + x, np.sin(t) * x, t - x):
            assert made.device == DEVICE
        gradient = fg.grad(lambda x: (x**2).sum())(x)
        assert isinstance(gradient, DeviceArray)  # as CuPy's array on a GPU
        assert isinstance(fg.vjp(np.sin, x)[1](x)[0], DeviceArray)
        assert isinstance(fg.vmap(np.sum)(x), DeviceArray)
    np.testing.assert_array_equal(gradient.download(), 2 * X)
    ones = fg.grad(lambda x: x.sum())(x)
    ones[0, 0] = 5.0  # nobody else's, and as many as there are
    np.testing.assert_array_equal(ones.download(), [[5, 1, 1], [1, 1, 1]])
    value, _ = fg.vjp(lambda x: x, x)
    value[0, 0] = 9.0
    assert X[0, 0] == 0


def test_tensors_are_given_to_other_libraries():
    t = on_device(X)
    assert t.__dlpack_device__() == (2, 0)
    assert fg.tensor(X).__dlpack_device__() == (1, 0)
    assert not hasattr(fg.tensor(X), "__cuda_array_interface__")


@pytest.mark.parametrize("missing", ["package", "driver", "device"])
def test_what_is_missing_is_said(monkeypatch, missing):
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    library._cupy.cache_clear()
    fake = type(sys)("cupy")
    fake.ndarray = np.ndarray

    class CUDARuntimeError(RuntimeError):
        pass

    def count():
        if missing == "driver":
            raise CUDARuntimeError("cudaErrorInsufficientDriver")
        return 0

    fake.cuda = type(sys)("cuda")
    fake.cuda.runtime = type(sys)("runtime")
    fake.cuda.runtime.getDeviceCount, fake.cuda.runtime.CUDARuntimeError = count, CUDARuntimeError
    monkeypatch.setitem(sys.modules, "cupy", None if missing == "package" else fake)
    monkeypatch.setitem(sys.modules, "cupyx", type(sys)("cupyx"))
    reason = {
        "package": "CuPy, which holds the arrays, cannot be imported",
        "driver": "the driver does not answer (cudaErrorInsufficientDriver)",
        "device": "no device is visible",
    }[missing]
    try:
        assert fg.devices() == ["cpu"]
        with pytest.raises(RuntimeError) as caught:
            fg.tensor(X, device="cuda")
    finally:
        library._cupy.cache_clear()
    assert reason in str(caught.value)
    assert "pip install 'fgrad[cuda]'" in str(caught.value)
    assert "NUMBA_ENABLE_CUDASIM=1" in str(caught.value)


def test_functions_without_a_counterpart_are_named():
    t = on_device(X)
    with pytest.raises(NotImplementedError, match="partition_of_unity of an array on cuda:0"):
        t._value.place.apply("partition_of_unity", t._value)
    with pytest.raises(NotImplementedError, match=r"f\(t.to\('cpu'\)\).to\(t.device\)"):
        np.histogram(t, bins="auto")


def test_the_tables_name_functions_of_numpy():
    special = [f"scipy.special.{name}" for name in library.SPECIAL]
    for name in (*library.KEYWORDS, *library.UFUNCS, *special, *COMPOSED):
        assert callable(library.Simulated().find(name)), name
    assert not set(METHODS) - set(dir(np.ufunc))


@pytest.mark.parametrize("refused", [False, True])
def test_what_cupy_does_not_record_has_no_graph_and_the_recording_ends(refused):
    steps = []
    stream = mock.MagicMock()
    stream.begin_capture.side_effect = lambda: steps.append("begin")
    stream.end_capture.side_effect = lambda: steps.append("end") or mock.MagicMock()
    cupy = mock.MagicMock()
    cupy.cuda.Stream.return_value = stream

    def f():
        if refused and "begin" in steps:
            raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")
        steps.append("f")
        return ["outs"]

    replay = library.CuPy(cupy, None).recorded(f)
    assert steps == (["f", "begin", "end"] if refused else ["f", "begin", "f", "end"])
    assert replay is None if refused else replay() == ["outs"]
