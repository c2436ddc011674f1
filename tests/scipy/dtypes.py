"""Calls of SciPy's functions that fgrad has, for the table of dtypes.

`python -m tests.scipy.dtypes` runs every combination in every mode; `test_dtypes.py` runs a part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy  # noqa: ICN001 -- np is the namespace that a call is given
import scipy.integrate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.special
import scipy.stats
from tests.dtypes import DTYPES, Call, command

import fgrad.scipy.integrate
import fgrad.scipy.linalg
import fgrad.scipy.ndimage
import fgrad.scipy.signal
import fgrad.scipy.special
import fgrad.scipy.stats

THEIRS = SimpleNamespace(
    **{n: getattr(scipy, n) for n in ("integrate", "linalg", "ndimage", "signal", "special", "stats")}
)
OURS = SimpleNamespace(**{n: getattr(fgrad.scipy, n) for n in vars(THEIRS)})
REAL = DTYPES[:12]
FEW = ("bool", "int8", "uint8", "int64", "float16", "float32", "float64", "complex64", "complex128")
MODES = ("eager", "beside", "staged", "mapped", "gradients")
NUMBERS = ("python int", "python float", "scalar float32", "0-d float32", "0-d float64")

CALLS: list[Call] = []
X = numpy.array([0.5, 1.0, 1.5, 2.0])
Y = numpy.array([1.0, 0.5, 2.0, 1.5])
SPD = numpy.array([[4.0, 1.0, 0.5], [1.0, 3.0, 1.0], [0.5, 1.0, 5.0]])


def add(name: str, f: Callable[..., Any], *inputs: Any, kinds: Any = None, ulps: float = 256) -> None:
    """Add a call, compared to the rounding of its arguments."""
    given = kinds or tuple(FEW for _ in inputs)
    CALLS.append(Call(name, f, inputs, given, ulps=ulps, narrow=True, modes=MODES))


for name in sorted(fgrad.scipy.special._RULES):
    f = getattr(scipy.special, name)
    n = f.nin if isinstance(f, numpy.ufunc) else 0
    call = lambda sp, *xs, name=name: getattr(sp.special, name)(*xs)
    if n == 1:
        add(f"special.{name}", call, X / 2, kinds=(DTYPES,))
    elif n == 2:
        add(f"special.{name}", call, X, Y / 2)
        add(f"special.{name} with a number", call, X, Y, kinds=(FEW, NUMBERS))
        add(f"special.{name} of a number", call, X, Y / 2, kinds=(NUMBERS, FEW))
    elif n:
        add(f"special.{name}", call, *(X, Y, X + 1, Y + 1)[:n], kinds=(FEW,) * n)
for name in ("logsumexp", "softmax", "log_softmax"):
    add(f"special.{name}", lambda sp, x, name=name: getattr(sp.special, name)(x), X, kinds=(DTYPES,))
    add(
        f"special.{name}(axis)",
        lambda sp, x, name=name: getattr(sp.special, name)(x, axis=0),
        SPD,
        kinds=(DTYPES,),
    )
add("special.logsumexp(b)", lambda sp, x, b: sp.special.logsumexp(x, b=b), X, Y)
add("special.multigammaln", lambda sp, x: sp.special.multigammaln(x, 2), X + 3, kinds=(REAL,))
add("special.polygamma", lambda sp, x: sp.special.polygamma(1, x), X, kinds=(REAL,))
for k in "ijky":
    add(
        f"special.spherical_{k}n",
        lambda sp, x, k=k: getattr(sp.special, f"spherical_{k}n")(2, x),
        X,
        kinds=(DTYPES,),
    )

LEVELS = {"ppf", "isf"}
SHAPES = {
    "beta": 2,
    "chi": 1,
    "chi2": 1,
    "f": 2,
    "fisk": 1,
    "gamma": 1,
    "genextreme": 1,
    "genpareto": 1,
    "invgamma": 1,
    "lognorm": 1,
    "pareto": 1,
    "powerlaw": 1,
    "skewnorm": 1,
    "t": 1,
    "triang": 1,
    "truncnorm": 2,
    "vonmises": 1,
    "weibull_max": 1,
    "weibull_min": 1,
}
CONTINUOUS = sorted(
    {
        *SHAPES,
        "cauchy",
        "expon",
        "gumbel_l",
        "gumbel_r",
        "halfcauchy",
        "halfnorm",
        "laplace",
        "levy",
        "logistic",
        "norm",
        "rayleigh",
        "uniform",
    }
)
DISCRETE = {"bernoulli": (0.3,), "binom": (5, 0.3), "geom": (0.3,), "nbinom": (5, 0.3), "poisson": (2.5,)}
for name in CONTINUOUS:
    for method in getattr(fgrad.scipy.stats, name).methods:
        own = {"triang": (0.5,), "truncnorm": (-1.0, 2.0), "beta": (1.5, 2.5), "f": (3.0, 5.0)}.get(
            name, (1.5, 2.5)
        )[: SHAPES.get(name, 0)]
        at = X / 5 if method in LEVELS else X / 2
        call = lambda sp, x, *p, name=name, method=method: getattr(getattr(sp.stats, name), method)(x, *p)
        add(
            f"stats.{name}.{method}(numbers)",
            lambda sp, x, c=call, own=own: c(sp, x, *own),
            at,
            kinds=(REAL,),
        )
        add(
            f"stats.{name}.{method}(loc)",
            lambda sp, x, l, c=call, own=own: c(sp, x, *own, l),
            at,
            X / 9,
            kinds=(
                ("float16", "float32", "float64", "int64"),
                ("float16", "float32", "float64", "0-d float32", "python int"),
            ),
        )
        if own:
            add(
                f"stats.{name}.{method}",
                lambda sp, x, p, c=call, own=own: c(sp, x, p, *own[1:]),
                at,
                numpy.full(4, own[0]),
                kinds=(("float16", "float32", "float64"), ("float16", "float32", "float64", "0-d float32")),
            )
for name, own in DISCRETE.items():
    for method in getattr(fgrad.scipy.stats, name).methods:
        call = lambda sp, x, *p, name=name, method=method: getattr(getattr(sp.stats, name), method)(x, *p)
        add(
            f"stats.{name}.{method}(numbers)",
            lambda sp, x, c=call, own=own: c(sp, x, *own),
            X / 2,
            kinds=(REAL,),
        )

LINALG = {
    "cholesky": lambda sp, x: sp.linalg.cholesky(x),
    "det": lambda sp, x: sp.linalg.det(x),
    "inv": lambda sp, x: sp.linalg.inv(x),
    "expm": lambda sp, x: sp.linalg.expm(x),
    "eigvalsh": lambda sp, x: sp.linalg.eigvalsh(x),
    "svdvals": lambda sp, x: sp.linalg.svdvals(x),
    "qr": lambda sp, x: sp.linalg.qr(x, mode="r")[0],
    "lu": lambda sp, x: sp.linalg.lu(x),
    "pinv": lambda sp, x: sp.linalg.pinv(x),
    "sqrtm": lambda sp, x: sp.linalg.sqrtm(x),
    "cosm": lambda sp, x: sp.linalg.cosm(x),
    "norm": lambda sp, x: sp.linalg.norm(x),
    "block_diag": lambda sp, x: sp.linalg.block_diag(x, x),
    "ldl": lambda sp, x: sp.linalg.ldl(x)[1],
    "toeplitz": lambda sp, x: sp.linalg.toeplitz(x[0]),
    "circulant": lambda sp, x: sp.linalg.circulant(x[0]),
    "hankel": lambda sp, x: sp.linalg.hankel(x[0]),
    "cho_factor": lambda sp, x: sp.linalg.cho_factor(x)[0],
    "lu_factor": lambda sp, x: sp.linalg.lu_factor(x)[0],
    "eigvals": lambda sp, x: numpy_sorted(sp.linalg.eigvals(x)),
    "logm": lambda sp, x: sp.linalg.logm(x),
}
PAIRS = {
    "solve": lambda sp, x, y: sp.linalg.solve(x, y),
    "solve(pos)": lambda sp, x, y: sp.linalg.solve(x, y, assume_a="pos"),
    "solve_triangular": lambda sp, x, y: sp.linalg.solve_triangular(x, y),
    "lstsq": lambda sp, x, y: sp.linalg.lstsq(x, y)[0],
    "khatri_rao": lambda sp, x, y: sp.linalg.khatri_rao(x, y),
    "block_diag": lambda sp, x, y: sp.linalg.block_diag(x, y),
    "solve_sylvester": lambda sp, x, y: sp.linalg.solve_sylvester(x, x, y),
    "toeplitz": lambda sp, x, y: sp.linalg.toeplitz(x[0], y[0]),
    "solve_toeplitz": lambda sp, x, y: sp.linalg.solve_toeplitz(x[0], y[0]),
}


def numpy_sorted(x: Any) -> Any:
    """Return a vector in order."""
    return numpy.sort(x)


for name, f in LINALG.items():
    add(f"linalg.{name}", f, SPD, kinds=(DTYPES,), ulps=2000)
for name, f in PAIRS.items():
    add(f"linalg.{name} of two", f, SPD, SPD + 1, ulps=2000)
SIGNALS = {
    "signal.convolve": lambda sp, x, y: sp.signal.convolve(x, y),
    "signal.correlate": lambda sp, x, y: sp.signal.correlate(x, y),
    "signal.convolve(direct)": lambda sp, x, y: sp.signal.convolve(x, y, method="direct"),
    "signal.fftconvolve": lambda sp, x, y: sp.signal.fftconvolve(x, y),
    "signal.lfilter": lambda sp, x, y: sp.signal.lfilter(y, [1, 0.5], x),
    "signal.oaconvolve": lambda sp, x, y: sp.signal.oaconvolve(x, y),
    "ndimage.convolve1d": lambda sp, x, y: sp.ndimage.convolve1d(x, y[:3]),
    "ndimage.correlate": lambda sp, x, y: sp.ndimage.correlate(x, y[:3]),
    "integrate.trapezoid": lambda sp, x, y: sp.integrate.trapezoid(x, y),
    "integrate.simpson": lambda sp, x, y: sp.integrate.simpson(x, x=numpy.arange(4)),
    "integrate.cumulative_trapezoid": lambda sp, x, y: sp.integrate.cumulative_trapezoid(x, y),
}
for name, f in SIGNALS.items():
    add(name, f, X, Y, ulps=1000)
SINGLE = {
    "signal.detrend": lambda sp, x: sp.signal.detrend(x * x),
    "signal.hilbert": lambda sp, x: sp.signal.hilbert(x),
    "ndimage.gaussian_filter": lambda sp, x: sp.ndimage.gaussian_filter(x, 1.0),
    "ndimage.uniform_filter": lambda sp, x: sp.ndimage.uniform_filter(x, 3),
    "ndimage.laplace": lambda sp, x: sp.ndimage.laplace(x),
    "ndimage.sobel": lambda sp, x: sp.ndimage.sobel(x),
    "ndimage.shift": lambda sp, x: sp.ndimage.shift(x, 0.5, order=1),
    "ndimage.zoom": lambda sp, x: sp.ndimage.zoom(x, 2, order=1),
    "integrate.trapezoid()": lambda sp, x: sp.integrate.trapezoid(x),
    "integrate.simpson()": lambda sp, x: sp.integrate.simpson(x, dx=0.5),
    "integrate.romb": lambda sp, x: sp.integrate.romb(x[:3]),
    "integrate.cumulative_trapezoid()": lambda sp, x: sp.integrate.cumulative_trapezoid(x, dx=2),
    "integrate.cumulative_simpson": lambda sp, x: sp.integrate.cumulative_simpson(x, dx=2.0),
}
for name, f in SINGLE.items():
    add(name, f, X, kinds=(DTYPES,), ulps=1000)

DEVIATIONS = {  # what differs, as the command prints it, and why
    r"^linalg\..*\bu?int(8|16)\b|^linalg\..*\bbool\b": "integers of every size are taken as double",
    r"^linalg\..*float16": "half precision is refused, which SciPy computes with in single",
    r"^linalg\.(det|logm) \((float32|complex64)\)": "the dtype of the argument stays",
    r"^linalg.cho_factor": "what is not read is zero",
    r"^ndimage\..*\bu?(int\d+|bool)\b": "double precision, not cut off to integers",
    r"^ndimage\..*complex64": "beside weights of double precision",
    r"^special\.eval_.*order must be an integer": "the order is looked at, not its dtype",
    r"^special\.((log_)?softmax.*\bu?(int\d+|bool)\b|logsumexp.*)": "taken as double",
    r"^special\.erfc? .*complex": "refused",
    r"^integrate\.(cumulative_)?trapezoid \(.*,": "the dtype is that of samples and places together",
    r"^special.multigammaln|^linalg.solve_toeplitz": "single precision stays",
    r"^signal.detrend \((bool|float16)": "half precision stays; a line has no rest but for rounding",
    r"^ndimage\..*\(float16": "half precision is taken, which SciPy refuses",
    r"^integrate\..*\b(bool|uint8|uint16)\b": "truth values and small integers add as numbers",
}


def main() -> int:
    """Run the table."""
    return command(CALLS, THEIRS, OURS, DEVIATIONS)


if __name__ == "__main__":
    sys.exit(main())
