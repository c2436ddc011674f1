"""Products of Tensors with SciPy's own sparse matrices, against dense ones."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from tests.helpers import close

import fgrad as fg
from fgrad.testing import check_grads

D = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [-1.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
FORMATS = ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_from_both_sides(name, kind, rng):
    a = getattr(scipy.sparse, f"{name}_{kind}")(D)
    for x in (rng.standard_normal(3), rng.standard_normal((3, 2))):
        made = a @ fg.tensor(x)
        assert isinstance(made, fg.Tensor)
        close(made, D @ x)
        check_grads(lambda x: a @ x, (x,))
    for x in (rng.standard_normal(4), rng.standard_normal((2, 4))):
        close(fg.tensor(x) @ a, x @ D)
        check_grads(lambda x: x @ a, (x,))


def test_the_jacobian_is_the_matrix_in_every_mode(rng):
    a, x = scipy.sparse.csr_array(D), rng.standard_normal(3)
    close(fg.jacrev(lambda x: a @ x)(x), D)
    close(fg.jacfwd(lambda x: a @ x)(x), D)
    close(fg.hessian(lambda x: np.sum((a @ x) ** 2))(x), 2 * D.T @ D)
    several = rng.standard_normal((5, 3, 2))
    close(fg.vmap(lambda x: a @ x)(several), D @ several)
    close(fg.jit(fg.vmap(lambda x: a @ x))(several), D @ several)
    close(fg.vmap(lambda x: a @ x)(np.zeros((0, 3))), np.zeros((0, 4)))
    close(
        fg.jit(fg.hessian(lambda x: np.sum((a @ x) ** 3)))(x), fg.hessian(lambda x: np.sum((D @ x) ** 3))(x)
    )


def test_dtypes():
    x = np.array([1.0, 2.0, 3.0], np.float32)
    a = scipy.sparse.csr_array(D)
    assert (a @ fg.tensor(x)).dtype == np.float64
    assert (a.astype(np.float32) @ fg.tensor(x)).dtype == np.float32
    gradient = fg.grad(lambda x: np.sum(a @ x))(x)
    assert gradient.dtype == np.float32
    close(gradient, D.sum(0).astype(np.float32))
    turned = scipy.sparse.csr_array(1j * D)
    close(fg.grad(lambda x: np.sum(np.imag(turned @ x)))(x.astype(float)), D.sum(0))


def test_what_is_refused():
    a = scipy.sparse.csr_array(D)
    with pytest.raises(ValueError, match=r"shape \(4, 3\) cannot be multiplied by an array of shape \(4,\)"):
        a @ fg.tensor(np.ones(4))
    with pytest.raises(ValueError, match="vectors and matrices of as many rows as it has columns"):
        a @ fg.tensor(np.ones((3, 3, 3)))
    with pytest.raises(TypeError, match="unsupported operand"):
        fg.grad(lambda x: (a + x).sum())(D)
    with pytest.raises(TypeError):
        fg.tensor(np.ones(3)) @ object()


@pytest.mark.parametrize("imports", ["import scipy.sparse, fgrad", "import fgrad, scipy.sparse"])
def test_whoever_is_imported_first(imports):
    script = f"{imports}; print(repr(scipy.sparse.eye_array(2) @ fgrad.tensor([1., 2.])))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "Tensor([1., 2.])\n"), done.stderr


def test_a_matrix_that_is_written_to_keeps_the_derivative_of_what_it_was():
    a = scipy.sparse.csr_array(D)
    _, pullback = fg.vjp(lambda x: a @ x, np.ones(3))
    a.data[:] = 100.0
    close(pullback(np.ones(4))[0], D.sum(axis=0))
    close(fg.grad(lambda x: np.sum(a @ x))(np.ones(3)), a.sum(axis=0))
