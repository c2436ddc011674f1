"""fgrad.scipy.fft: SciPy's values for Tensors, also by SciPy's own names; derivatives, vmap and jit."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from scipy import fft as reference
from tests.helpers import close
from tests.scipy.checking import agrees, check

import fgrad as fg
from fgrad.scipy import fft

REAL = ("dct", "idct", "dst", "idst")
FOURIER = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
NORMS = (None, "backward", "ortho", "forward")
TO_HALF = ("rfft", "ihfft")  # of real numbers only


def normal(*shape, dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * 5
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def same(name, x, *args, **options):
    """Assert that a function has SciPy's value and dtype, or refuses what SciPy refuses."""
    try:
        expected = getattr(reference, name)(x, *args, **options)
    except (ValueError, TypeError, RuntimeError, IndexError, NotImplementedError):
        with pytest.raises((ValueError, TypeError, IndexError, NotImplementedError)):
            getattr(fft, name)(fg.tensor(x), *args, **options)
        return
    found = getattr(fft, name)(fg.tensor(x), *args, **options)
    assert found.dtype == expected.dtype
    single = expected.dtype.char in "fF"
    assert found.shape == expected.shape
    close(found, expected, 1e-4 if single else 1e-9)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4])
def test_values_of_cosine_and_sine_transforms(name, kind):
    for n, norm, orthogonalize in itertools.product((1, 2, 3, 4, 5, 9), (*NORMS, "x"), (None, True, False)):
        for dtype in (float, np.float32, complex, int, np.float16):
            same(name, normal(2, n, dtype=dtype), kind, norm=norm, orthogonalize=orthogonalize)
    x = normal(3, 4, 5)
    for axis, n in itertools.product((0, 1, -1, 3), (None, 2, 7, 0)):
        same(name, x, kind, n, axis)


SEVERAL = [
    (None, None),
    ((3, 3), None),
    ((3, 6), (0, 1)),
    (None, (0,)),
    (None, 1),
    (4, 1),
    ((3,), (0, 1)),
    (None, (0, 0)),
    (None, (0, -3)),
]


@pytest.mark.parametrize("name", REAL)
def test_values_along_several_axes(name):
    for (s, axes), norm in itertools.product(SEVERAL, NORMS):
        same(f"{name}n", normal(3, 4, 5), 3, s, axes, norm)
    same(f"{name}n", normal(3, 4), 2, orthogonalize=True)


@pytest.mark.parametrize("name", FOURIER)
def test_values_of_fourier_transforms(name):
    for dtype in (float, complex, np.float32, int, np.float16):
        x = normal(3, 4, 5, dtype=dtype)
        for n, axis, norm in itertools.product((None, 3, 8, -1), (-1, 0), (*NORMS, "x")):
            same(name, x, n, axis, norm)
        for (s, axes), norm in itertools.product(SEVERAL, NORMS):
            same(f"{name}2", x, s, axes, norm)
            same(f"{name}n", x, s, axes, norm)
    same(name, x, plan=1)
    with pytest.raises(ValueError, match=r"data points \(0\)"):
        getattr(fft, name)(fg.tensor(x), 0)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("name", REAL)
def test_derivatives_of_cosine_and_sine_transforms(name, kind):
    for norm in (None, "ortho"):
        f, g = (lambda x, m=m: getattr(m, name)(x, kind, axis=0, norm=norm) for m in (fft, reference))
        check(f, [normal(5, 2)], g, compiled=norm is None)
    f, g = (lambda x, m=m: getattr(m, name)(x, kind, norm="forward") for m in (fft, reference))
    check(f, [normal(4, dtype=complex)], g)


@pytest.mark.parametrize("name", FOURIER)
def test_derivatives_of_fourier_transforms(name):
    x = normal(4, 3, dtype=float if name in TO_HALF else complex)
    for suffix in ("", "2", "n"):
        f, g = (getattr(m, name + suffix) for m in (fft, reference))
        check(f, [x], g)
    check(getattr(fft, f"{name}n"), [x], getattr(reference, f"{name}n"), compiled=True)


@pytest.mark.parametrize(
    "name", [*REAL, *FOURIER, *(f"{n}n" for n in (*REAL, *FOURIER)), *(f"{n}2" for n in FOURIER)]
)
def test_the_names_of_scipy_take_tensors(name):
    x = normal(4, 3)
    theirs, ours = getattr(reference, name), getattr(fft, name)
    agrees(theirs(fg.tensor(x)), theirs(x), 1e-9)
    agrees(theirs(x=fg.tensor(x)), theirs(x), 1e-9)
    f, g = (lambda x, h=h: (abs(h(x)) ** 2).sum() for h in (theirs, ours))
    close(fg.grad(f)(x), fg.grad(g)(x))
    assert type(theirs(x)) is np.ndarray


def test_what_has_no_twin_goes_to_scipy_and_is_refused():
    x = normal(8)
    assert type(reference.fht(x, 0.1, 0.0)) is np.ndarray
    with pytest.raises(TypeError, match="would lose its gradient"):
        fg.grad(lambda x: reference.fht(x, 0.1, 0.0).sum())(x)


ORDERS = """
import numpy as np, fgrad as fg
{first}
x = np.arange(3.0)
print(np.asarray(fg.grad(lambda x: (abs(scipy.fft.fft(x)) ** 2).sum())(x)).round(6) + 0.0)
"""


@pytest.mark.parametrize(
    "first", ["import scipy.fft", "fg.tensor(1.0)\nimport scipy.fft", "import scipy.fft; fg.tensor(1.0)"]
)
def test_imports_in_any_order(first):
    script = ORDERS.format(first=first)
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "[ 0.  6. 12.]"


def test_without_effects_on_the_process_the_twin_is_named():
    script = "import os; os.environ['FGRAD_PROCESS_EFFECTS'] = '0'" + ORDERS.format(first="import scipy.fft")
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "another function of fgrad.scipy" in made.stderr or "fgrad.scipy.fft.fft" in made.stderr
