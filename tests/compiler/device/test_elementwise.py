"""Eager calls on a device: scalar expressions of arrays that broadcast, in one launch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from tests.backend.conftest import quick_switching as quick_switching  # noqa: PLC0414 -- a fixture of these tests too
from tests.kernels import reference
from tests.kernels.samples import X, Y, check_atoms

import fgrad as fg
from fgrad.backend import devices
from fgrad.compiler.device import elementwise as eager
from fgrad.compiler.elementwise import elementwise as made
from fgrad.expr.derive import gradient
from fgrad.expr.node import apply, const
from fgrad.kernels import launching
from fgrad.kernels.body import prepare

A = np.linspace(-2, 2, 24).reshape(2, 3, 4)
BODY = X * apply("tanh", Y) + X


def on_device(kernel):
    """Return a kernel for arrays of NumPy, which travel to the device and back."""

    def run(*operands):
        place = devices.find("cuda:0")
        found = kernel(*(x if x.__class__ is float else place.array(x) for x in operands))
        return tuple(x.download() for x in found) if isinstance(found, tuple) else found.download()

    return run


def elementwise(params, results):
    return on_device(made(params, results, eager.Elementwise))


def text(results, *shapes, dtype="d"):
    """Return the text for operands of these shapes, and its numbers."""
    grid, _ = made((X, Y)[: len(shapes)], results, eager.Elementwise).grid(np.dtype(dtype), shapes)
    return grid.text, grid.numbers


@pytest.mark.parametrize("arity", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_atoms_and_slopes_agree_with_numpy(dtype, arity):
    check_atoms(SimpleNamespace(elementwise=elementwise), arity, dtype)


@pytest.mark.parametrize(
    "operands",
    [
        pytest.param((A, A), id="contiguous"),
        pytest.param((A, 0.5), id="float"),
        pytest.param((0.5, A), id="float first"),
        pytest.param((A, A[0, 0]), id="row"),
        pytest.param((A, A[0, :, :1]), id="column"),
        pytest.param((A, A[:, :1]), id="middle"),
        pytest.param((A[:, :1], A[:, :, :1]), id="both broadcast"),
        pytest.param((A[0, 0], A[0, :, :1]), id="outer product"),
        pytest.param((A[:1, :1, :1], A[:1, :1]), id="size 1"),
        pytest.param((A[0, 0, 0], A[0, 0, 1]), id="no axes"),
        pytest.param((A[:, :0], A[:, :1]), id="no elements"),
        pytest.param((A[:, ::-2], A.T[:, :2].T[:, ::2]), id="not in order"),
        pytest.param((A[:, None, :, None], A[:, :2, None, None, :1]), id="rank 5"),
        pytest.param((A.astype("f"), A[0].astype("f")), id="float32"),
        pytest.param((A.astype("f"), 0.1), id="float beside float32"),
    ],
)
def test_operands_of_every_kind(operands):
    operands = [x if x.__class__ is float else np.asarray(x) for x in operands]
    actual, expected = (f((X, Y), (BODY,))(*operands) for f in (elementwise, reference.elementwise))
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=32 * float(np.finfo(actual.dtype).eps), atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_any_block_covers_all_elements(monkeypatch, threads):
    chip = launching.device()._replace(threads=threads)
    monkeypatch.setattr(launching, "device", lambda: chip)
    kernel = on_device(eager.Elementwise(prepare((X,), (X + 1,))))
    for n in (1, 7, 8, 50):
        np.testing.assert_array_equal(kernel(np.arange(float(n))), np.arange(1.0, n + 1))


def test_several_results_share_their_atoms():
    results = (BODY, *gradient(BODY, (X, Y)), apply("less", X, Y), const(2), X)
    assert text(results, A.shape, A[0].shape)[0].count("math.tanh") == 1
    value, dx, _, less, two, x = elementwise((X, Y), results)(A, A[0])
    np.testing.assert_allclose(value, A * np.tanh(A[0]) + A, rtol=1e-14)
    np.testing.assert_allclose(dx, np.broadcast_to(np.tanh(A[0]) + 1, A.shape), rtol=1e-14)
    assert less.dtype == bool
    np.testing.assert_array_equal(less, A[0] > A)
    np.testing.assert_array_equal(two, np.full(A.shape, 2.0))
    np.testing.assert_array_equal(x, A)


@pytest.mark.parametrize(
    "shapes",
    [
        [((2, 3), (2, 3)), ((7,), (7,)), ((40, 50, 60), (40, 50, 60)), ((1, 3, 1), (1, 3, 1))],
        [((2, 3), (3,)), ((70, 30), (1, 30)), ((2, 5, 70), (70,)), ((3, 1, 4), (4,))],
        [((2, 3), (2, 1)), ((50, 30), (50, 1)), ((2, 5, 70), (2, 5, 1))],
        [((2, 3), None), ((7,), None), ((40, 50, 60), None)],
    ],
    ids=["contiguous", "row", "column", "number"],
)
def test_a_kernel_serves_all_shapes_that_are_read_alike(shapes):
    texts, numbers = zip(*(text((BODY,), *given) for given in shapes), strict=True)
    assert len(set(texts)) == 1
    assert len(set(numbers)) == len(shapes)


def test_the_text_is_that_of_a_compiled_program():
    def lines(text):
        return [line.strip() for line in text.splitlines() if " = " in line and "CONTRACT" not in line]

    x = np.linspace(1, 2, 600).reshape(20, 30)
    program = fg.jit(lambda x, y: x * np.tanh(y) + x).lower(*(fg.tensor(a, device="cuda") for a in (x, x)))
    (grid,) = program._procedure.on(devices.find("cuda:0")).grids
    assert lines(grid.text.replace("i1", "i0")) == lines(text((BODY,), x.shape, x.shape)[0])


def test_launches_from_many_threads():
    kernel = elementwise((X, Y), (BODY,))
    with ThreadPoolExecutor(4) as pool:
        for value in pool.map(lambda _: kernel(A, A), range(8)):
            np.testing.assert_allclose(value, A * np.tanh(A) + A, rtol=1e-14)


# how many of the numbers are in a range in which processors agree: NumPy leaves what is beyond it to them
WRAPPING = {
    "int8": 3,
    "int16": 6,
    "int32": 8,
    "uint8": 8,
    "uint16": 8,
    "uint32": 11,
    "int64": 11,
    "uint64": 12,
}


@pytest.mark.parametrize("name", WRAPPING)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_floats_become_integers_as_on_the_cpu(name, precision):
    x = [-1.5, -100.7, -0.9, 0.9, 255.5, 300.2, 70000.0, -70000.0, 3e9, -3e9, 2.0**40, 2.0**63 + 2.0**41]
    x = np.array(x[: WRAPPING[name]], precision)
    f = lambda x: (x + 0).astype(name)
    with np.errstate(invalid="ignore"):
        expected = f(x)
    found = fg.jit(f)(fg.tensor(x, device="cuda:0"))
    np.testing.assert_array_equal(found.numpy(), expected)
