"""What the simulator shows, on a GPU: NUMBA_ENABLE_CUDASIM=0 pytest -m cuda tests/cuda."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.checks import check, on_device, same
from tests.backend.test_primitives import test_primitive as test_primitive  # noqa: PLC0414
from tests.backend.test_scipy import test_functions_and_derivatives as test_functions_and_derivatives  # noqa: PLC0414
from tests.backend.test_special import test_integrals_of_carlson as test_integrals_of_carlson  # noqa: PLC0414
from tests.backend.test_special import (
    test_kernels_take_what_scipy_takes as test_kernels_take_what_scipy_takes,  # noqa: PLC0414
)
from tests.backend.test_transforms import READING, SILENT
from tests.cuda.programs import LIBRARY, PROGRAMS, single
from tests.cuda.test_special import LOOPS, compare, reference, ufunc_of

import fgrad as fg
from fgrad import extend
from fgrad.backend import library
from fgrad.compiler.device.executable import WARM

pytestmark = pytest.mark.cuda
RNG = np.random.default_rng(1)


@pytest.fixture
def cupy():
    if library.library().simulated:
        pytest.skip("NumPy stands in for CuPy")
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("loop", LOOPS)
def test_special_functions(loop):
    name = loop.split()[0]
    given, expected = reference(loop)
    found = ufunc_of(name)(*(on_device(a)._value for a in given))
    for y, e in zip(found if len(expected) > 1 else (found,), expected, strict=True):
        compare(name, y.download(), e, given)


@pytest.mark.parametrize("name", [*SILENT, *READING])
def test_transformations(name):
    f, *args = (SILENT | READING)[name]
    check(f, *args, reads=name in READING, sent=True)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, precision):
    f, *args = PROGRAMS[name]
    args = single(args) if precision == "float32" else args
    jitted, given, expected = fg.jit(f), [on_device(a) for a in args], f(*args)
    for _ in range(WARM + 3):  # launched, then replayed
        same(jitted(*given), expected, 10)  # sums of a thousand in another order


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", LIBRARY)
def test_kernels_of_lines_and_matrices(name, precision):
    f, *args = LIBRARY[name]
    args = single(args) if precision == "float32" else args
    same(f(*map(on_device, args)), f(*args), 10)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 10_000_019])
def test_every_element_is_computed_once(n):
    x = RNG.uniform(-1, 1, n).astype(np.float32)
    f = fg.jit(lambda x: (x * 2 + 1, (x * x).sum(dtype=np.float64)))
    for _ in range(WARM + 2):
        doubled, total = f(on_device(x))
        np.testing.assert_array_equal(doubled.numpy(), x * 2 + 1)
        np.testing.assert_allclose(float(total), np.sum(x.astype(float) ** 2), rtol=1e-6)


def test_sums_are_reproducible():
    x = on_device(RNG.uniform(-1, 1, 1_000_003).astype(np.float32))
    f = fg.jit(lambda x: np.sum(x))
    assert len({float(f(x)) for _ in range(20)}) == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_sums_to_places_are_reproducible(compiled):
    x, ct = np.zeros(1000, np.float32), RNG.uniform(-1, 1, 1_000_003).astype(np.float32)
    places = RNG.integers(0, 1000, ct.size)
    slope = lambda x, ct, i: fg.grad(lambda x: np.sum(x[i] * ct))(x)
    f, given = fg.jit(slope) if compiled else slope, [on_device(a) for a in (x, ct, places)]
    found = {f(*given).numpy().tobytes() for _ in range(10)}
    assert len(found) == 1
    expected = np.zeros(1000)
    np.add.at(expected, places, ct)
    np.testing.assert_allclose(np.frombuffer(found.pop(), np.float32), expected, rtol=1e-4, atol=1e-3)


def test_results_lie_in_the_memory_of_donated_arguments(cupy):
    f = fg.jit(lambda x, y: np.tanh(x) + y, donate_argnums=0)
    for _ in range(WARM + 3):
        x, y = cupy.arange(1000.0), cupy.ones(1000)
        address, found = x.data.ptr, f(x, y)
        assert found.data.ptr == address
        np.testing.assert_allclose(cupy.asnumpy(found), np.tanh(np.arange(1000.0)) + 1, rtol=1e-12)


def test_loops_are_recorded_and_conditions_are_read():
    w = RNG.uniform(-0.1, 0.1, (32, 32))
    counted = lambda x: fg.lax.fori_loop(0, 20, lambda i, h: np.tanh(h @ w) + x, x).sum()
    until = lambda x: fg.lax.while_loop(lambda v: np.sum(v * v) < 100, lambda v: v * 1.1, x).sum()
    x = RNG.uniform(-1, 1, (16, 32))
    for f in (counted, until, fg.grad(counted), fg.grad(until)):
        jitted = fg.jit(f)
        for _ in range(WARM + 3):
            same(jitted(on_device(x)), f(x), 10)


def test_memory_is_shared_with_cupy(cupy):
    x = cupy.arange(6.0)
    t = fg.tensor(x)
    assert t.device == "cuda:0"
    assert t.__cuda_array_interface__["data"][0] == x.data.ptr
    assert extend.device_memory(t) is x
    assert cupy.asarray(t).data.ptr == x.data.ptr
    assert cupy.from_dlpack(t).data.ptr == x.data.ptr
    gradient = fg.grad(lambda x: (x**2).sum())(x)
    assert isinstance(gradient, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(gradient), 2 * np.arange(6.0))
    assert isinstance(fg.jit(lambda x: x * 2)(x), cupy.ndarray)


def test_memory_is_shared_with_torch(cupy):
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0, device="cuda")
    t = fg.tensor(x)
    assert extend.device_memory(t).data.ptr == x.data_ptr()
    assert torch.from_dlpack(t).data_ptr() == x.data_ptr()


def test_streams_of_the_user(cupy):
    f, x = fg.jit(lambda x: np.tanh(x) * 2), RNG.uniform(-1, 1, 100_000)
    for _ in range(WARM + 2):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            y = f(on_device(x))
            stream.synchronize()
        np.testing.assert_allclose(y.numpy(), np.tanh(x) * 2, rtol=1e-12)


def test_singular_matrices_are_refused():
    for f in (lambda a: np.linalg.solve(a, a), np.linalg.inv, np.linalg.cholesky):
        with pytest.raises(np.linalg.LinAlgError):
            f(on_device(np.zeros((3, 3))))


def test_what_has_to_be_waited_for_is_launched_not_recorded():
    a = RNG.uniform(-1, 1, (5, 5)) + 5 * np.eye(5)
    f = fg.jit(lambda a: np.linalg.solve(a * 2, a) + 1)
    for _ in range(WARM + 3):
        same(f(on_device(a)), np.eye(5) / 2 + 1)


def test_kernels_of_a_users_own(cupy):
    from numba import cuda

    @cuda.jit
    def double(x, out):
        i = cuda.grid(1)
        while i < x.size:
            out[i] = 2 * x[i]
            i += cuda.gridsize(1)

    def launched(x):
        out = fg.numpy.empty_like(x)
        double[128, 8](extend.device_memory(x), extend.device_memory(out))
        return out

    f = fg.custom_vjp(launched)
    f.defvjp(lambda x: (launched(x), None), lambda _, ct: (launched(ct + 0),))
    x = RNG.uniform(-1, 1, 1000)
    same(f(on_device(x)), 2 * x)
    same(fg.grad(lambda x: f(x).sum())(on_device(x)), np.full(1000, 2.0))
