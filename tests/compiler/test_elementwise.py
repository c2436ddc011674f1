import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.kernels import reference
from tests.kernels.samples import X, Y, check_atoms

from fgrad.compiler import elementwise as cpu
from fgrad.expr.atoms import fn
from fgrad.expr.derive import gradient
from fgrad.expr.node import apply, const, var
from fgrad.kernels import native

A = np.linspace(-2, 2, 60).reshape(3, 4, 5)
TANH = apply("tanh", Y)
BODY = X * TANH + X  # of two parameters, not symmetric


def check(kernel, oracle, *operands):
    actual, expected = kernel(*operands), oracle(*operands)
    assert (actual.dtype, type(actual)) == (expected.dtype, type(expected))
    assert np.shape(actual) == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=32 * float(np.finfo(actual.dtype).eps))


@pytest.mark.parametrize("arity", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_atoms_and_slopes_agree_with_numpy(dtype, arity):
    check_atoms(cpu, arity, dtype)


def count_compilations(monkeypatch):
    texts = []
    translated = native.compiled

    def count(text):
        if native._kernels.get((text, "kernel")) is None:
            texts.append(text)
        return translated(text)

    monkeypatch.setattr(native, "compiled", count)
    return texts


ROW, COLUMN, DEEP = A[0, 0], A[0, :, :1], A[:, :1]


@pytest.mark.parametrize(
    "operands",
    [
        pytest.param((A, A), id="contiguous"),
        pytest.param((A[0, 0], A[0, 0]), id="vector"),
        pytest.param((A, 0.5), id="float"),
        pytest.param((A, np.float64(0.5)), id="scalar"),
        pytest.param((A, np.array(0.5)), id="0-d"),
        pytest.param((A, ROW), id="row"),
        pytest.param((A, COLUMN), id="column"),
        pytest.param((A, DEEP), id="middle"),
        pytest.param((ROW, COLUMN), id="outer product"),
        pytest.param((COLUMN, ROW), id="outer product, turned"),
        pytest.param((A.T, A.T), id="Fortran"),
        pytest.param((A.T, A.T.copy()), id="Fortran and C"),
        pytest.param((A[::2, ::-1, 1::2], A[1:, :, :2]), id="strided"),
        pytest.param((A[..., ::-1], A[..., ::-1]), id="reversed"),
        pytest.param((A[:, 1], A[:, 2]), id="slices"),
        pytest.param((A[:0], A[:0]), id="empty"),
        pytest.param((A[:0], 1.0), id="empty and float"),
        pytest.param((A[:, :0], DEEP), id="empty, broadcast"),
        pytest.param((A.reshape(3, 1, 2, 2, 1, 5), A[:, :2, None, None]), id="rank 6"),
        pytest.param((A[:1, :1, :1], A[:1, :1, :1]), id="size 1"),
        pytest.param((np.broadcast_to(0.5, (3, 4)), 1.0), id="stride 0"),
        pytest.param((A.astype("f"), A.astype("f")), id="float32"),
        pytest.param((A.astype("f"), 0.1), id="float32 and float"),
    ],
)
def test_operands_of_every_kind(operands):
    check(cpu.elementwise((X, Y), (BODY,)), reference.elementwise((X, Y), (BODY,)), *operands)


def test_unaligned_operands():
    raw = np.zeros(8 * 5 + 1, "u1")[1:].view("d")
    raw[:] = range(5)
    assert not raw.flags.aligned
    check(cpu.elementwise((X, Y), (BODY,)), reference.elementwise((X, Y), (BODY,)), raw, raw)


def test_subclasses_are_read_as_arrays():
    for given in ([1.0, 2.0], [[1.0], [2.0]]):
        value = cpu.elementwise((X, Y), (BODY,))(np.ones(2), np.ma.masked_array(given))
        assert type(value) is np.ndarray


def test_results_are_laid_out_as_numpy_does():
    kernel = cpu.elementwise((X, Y), (BODY,))
    assert kernel(A.T, A.T).flags.f_contiguous
    assert kernel(A, A).flags.c_contiguous
    assert kernel(A.transpose(1, 0, 2), 1.0).strides == (A.transpose(1, 0, 2) * 1.0).strides


def test_several_results_share_their_atoms():
    kernel = cpu.elementwise((X, Y), (BODY, *gradient(BODY, (X, Y)), apply("less", X, Y)))
    assert kernel.text().count("= fast_tanh(") == 1
    value, dx, dy, less = kernel(A, A[0])
    np.testing.assert_allclose(value, A * np.tanh(A[0]) + A, rtol=1e-14)
    np.testing.assert_allclose(dx, np.broadcast_to(np.tanh(A[0]) + 1, A.shape), rtol=1e-14)
    np.testing.assert_allclose(dy, A * (1 - np.tanh(A[0]) ** 2), rtol=1e-12)
    assert less.dtype == bool
    np.testing.assert_array_equal(less, A[0] > A)


def test_results_that_depend_on_few_parameters_or_none():
    values = cpu.elementwise((X, Y), (Y, const(3), X))(A[0, 0], A[0, :, :1])
    for value, expected in zip(values, (A[0, :, :1], 3.0, A[0, 0]), strict=True):
        np.testing.assert_array_equal(value, np.broadcast_to(expected, (4, 5)))


def test_results_are_fresh():
    value = cpu.elementwise((X,), (X,))(A)
    assert not np.shares_memory(value, A)


def test_a_kernel_is_keyed_by_structure_not_by_names_or_shapes(monkeypatch):
    a, b = var("a"), var("b")
    kernel = cpu.elementwise((X, Y), (BODY * 1.5,))
    assert cpu.elementwise((a, b), ((a * apply("tanh", b) + a) * 1.5,)) is kernel
    texts = count_compilations(monkeypatch)
    for n in (3, 4, 500):
        kernel(np.ones(n), np.ones(n))
        kernel(np.ones((n, 2)), np.ones((n, 2)))
    assert len(texts) == 1
    for n in (3, 4, 500):
        kernel(np.ones((n, 5)), np.ones(5))
        kernel(np.ones((2, n, 5)), np.ones(5))
    assert len(texts) == 2


def test_wrong_operands():
    kernel = cpu.elementwise((X, Y), (BODY,))
    kernel(A, A)
    with pytest.raises(ValueError, match="could not be broadcast"):
        kernel(A, np.ones(3))
    with pytest.raises(TypeError, match="not with complex128"):
        kernel(A * 1j, A * 1j)
    for other in (A * 1j, A.astype("f"), A > 0):
        with pytest.raises(TypeError, match="according to the rule 'no'"):
            kernel(A, other)
    with pytest.raises(TypeError, match="this kernel takes 2 operands, not 1"):
        kernel(A)
    with pytest.raises(TypeError, match="this kernel takes 2 operands, not 3"):
        kernel(A, A[0], 3.0)


def test_numbers_beyond_the_dtype_become_infinite_without_a_warning():
    kernel = cpu.elementwise((X, Y), (X * Y,))
    single = np.ones((2, 2), "f")
    for operands in ((single, 1e300), (single[:, ::-1], 1e300), (single[:, :1], 1e300)):
        assert np.isinf(kernel(*operands)).all()


def test_names_of_variables_do_not_matter():
    odd = [var(n) for n in ("i0", "lo", "o0", "math", "F", "K0", "t1", "n1", "work")]
    total = odd[0]
    for v in odd[1:]:
        total = total * 0.5 + fn.sin(v)
    assert np.isfinite(cpu.elementwise(tuple(odd), (total,))(*[A] * len(odd))).all()


def test_many_threads_build_and_run_the_same_kernel():
    kernel = cpu.elementwise((X, Y), (BODY * 2.5,))
    expected = (A * np.tanh(A) + A) * 2.5
    with ThreadPoolExecutor(8) as pool:
        for value in pool.map(lambda _: kernel(A, A), range(32)):
            np.testing.assert_allclose(value, expected, rtol=1e-14)


def test_importing_a_backend_does_not_import_numba():
    code = (
        "import sys, fgrad.compiler.elementwise, fgrad.kernels.launching; assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_compilation_kernels_compute_the_same(tmp_path):
    code = """
import numpy as np, warnings
warnings.simplefilter("error")
from fgrad.expr.node import apply, var
from fgrad.compiler import elementwise as cpu
from tests.kernels import reference
x, y = var("x"), var("y")
a = np.array([[-1.0, 0.0, np.nan], [2.0, np.inf, 0.5]])
for body in (apply("log", x) + apply("floor", y), apply("copysign", x, y)):
    for b in (a, a[0], a[:, ::-1], 2.0):
        one, other = (m.elementwise((x, y), (body,))(a, b) for m in (cpu, reference))
        np.testing.assert_array_equal(one, other)
from fgrad.core.primitive import PRIMITIVES
from fgrad.kernels import windows
from fgrad.ops import compiled
import fgrad
rng = np.random.default_rng(0)
x, w = rng.standard_normal((2, 2, 5, 6)), rng.standard_normal((3, 2, 3, 2))
given = (2, 1), ((1, 1), (1, 1)), (1, 1), 1
y = windows.convolve(x, w, *given, (2, 3, 3, 7))
seen = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
seen = np.lib.stride_tricks.sliding_window_view(seen, (3, 2), (2, 3))[:, :, ::2]
np.testing.assert_allclose(y, np.einsum("nchwij,ocij->nohw", seen, w), rtol=1e-12)
back = windows.convolve_back(y, w, x.shape, *given)
kernel = windows.convolve_kernel(y, x, w.shape, *given)
np.testing.assert_allclose([(back * x).sum(), (kernel * w).sum()], (y * y).sum(), rtol=1e-12)
compiled.LARGE = 1
soft = PRIMITIVES["softmax"].run(x.reshape(-1, 6), axes=(1,))
np.testing.assert_allclose(soft.sum(1), 1, rtol=1e-12)
"""
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "FGRAD_CACHE_DIR": str(tmp_path / "c")}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    assert not (tmp_path / "c").exists()
