"""fgrad.scipy.linalg: SciPy's values, derivatives to second order, vmap and jit."""

import numpy as np
import pytest
from scipy import linalg as reference
from tests.scipy.checking import check

from fgrad.scipy import linalg


def normal(*shape, dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def regular(n, dtype=float, seed=0):
    return (normal(n, n, dtype=dtype, seed=seed) * 0.4 + 2 * np.eye(n)).astype(dtype)


def definite(n, dtype=float, seed=0):
    x = normal(n, n, dtype=dtype, seed=seed)
    return (x @ x.conj().T / n + np.eye(n)).astype(dtype)


DTYPES = [np.float64, np.complex128, np.float32]
REAL_AND_COMPLEX = DTYPES[:2]


def case(name, *args, order=2, label="", **options):
    return pytest.param(name, args, options, order, id=f"{name} {label} {args[0].dtype}".replace("  ", " "))


def cases():
    for d in DTYPES:
        order = 2 if d is not np.float32 else 0
        a, p, b, v = regular(3, d), definite(3, d), normal(3, 2, dtype=d, seed=1), normal(3, dtype=d, seed=2)
        for name in ("expm", "logm", "sqrtm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm"):
            if d is not np.float32 or name in {"expm", "sqrtm"}:
                yield case(name, a, order=order)
        yield case("expm_frechet", a / 3, b @ b.conj().T, order=order)
        yield case("expm_frechet", a / 3, b @ b.conj().T, order=1, label="alone", compute_expm=False)
        yield case("fractional_matrix_power", p, order=order, t=0.3)
        yield case("fractional_matrix_power", p, order=1, t=-2)
        for lower in (True, False):
            yield case("cholesky", p, order=order, lower=lower, label=f"lower={lower}")
        for trans in (0, 1, 2):
            yield case("solve_triangular", a, b, order=order, trans=trans, lower=trans == 1, label=f"{trans}",
                unit_diagonal=trans == 2)  # fmt: skip
        yield case("solve_triangular", a, v, order=1, label="vector")
        yield case("solve", a, b, order=order)
        yield case("solve", a, v, order=1, label="vector")
        for kind in ("sym", "her", "pos"):
            yield case("solve", p, b, order=order, assume_a=kind, label=kind)
            yield case("solve", p, b, order=1, assume_a=kind, lower=True, label=f"{kind} lower")
        yield case("inv", a, order=order)
        yield case("det", a, order=order)
        for shape in ((3, 3), (4, 2), (2, 4)):
            x = normal(*shape, dtype=d, seed=3)
            yield case("lu", x, order=order, label=f"{shape}")
            yield case("lu", x, order=1, permute_l=True, label=f"{shape} permuted")
            yield case("polar", x, order=order, label=f"{shape}")
            yield case("polar", x, order=1, side="left", label=f"{shape} left")
            yield case("pinv", x, order=order, label=f"{shape}")
            yield case("svdvals", x, order=order, label=f"{shape}")
            if shape[0] <= shape[1]:
                yield case("qr", x, order=order, label=f"{shape}")
            yield case("qr", x, order=order, mode="economic", label=f"{shape} economic")
            yield case("qr", x, order=1, mode="r", label=f"{shape} r")
        yield case("lu_factor", a, order=order)
        for lower in (True, False):
            h = normal(4, 4, dtype=d, seed=5)
            h = h + h.conj().T
            h[0, 0] = h[1, 1] = 0.01  # so that there are blocks of two
            yield case("ldl", h, order=order, lower=lower, label=f"lower={lower}")
        yield case("solve_sylvester", a, definite(2, d), b, order=order)
        yield case("solve_continuous_lyapunov", a, definite(3, d, 4), order=order)
        for method in ("direct", "bilinear"):
            yield case("solve_discrete_lyapunov", a / 5, definite(3, d, 4), order=order, method=method)
        yield case("pinvh", p, order=order)
        yield case("eigvalsh", p, order=order)
        yield case("toeplitz", v, order=order)
        yield case("toeplitz", v, b[:, 0], order=order, label="row")
        yield case("hankel", v, b[:, 0], order=order)
        yield case("circulant", v, order=1)
        yield case("companion", v, order=order)
        yield case("leslie", v, v[1:], order=1)
        yield case("block_diag", a, b, v, order=1)
        yield case("khatri_rao", a, b @ b.conj().T, order=order)
        for mode in ("full", "same", "valid"):
            yield case("convolution_matrix", v, order=1, n=5, mode=mode, label=mode)
        yield case("solve_toeplitz", v + 3, b, order=1)


@pytest.mark.parametrize("name, args, options, order", list(cases()))
def test_values_and_derivatives(name, args, options, order):
    f, g = (lambda *xs, m=m: getattr(m, name)(*xs, **options) for m in (linalg, reference))
    narrow = args[0].dtype == np.float32
    compiled = args[0].dtype == np.float64 and order == 2 and name in {"expm", "lu", "ldl", "solve_sylvester"}
    check(f, args, g, order, rtol=2e-4 if narrow else 1e-9, compiled=compiled)
