"""Functions of SciPy that follow the array API standard; run as a script, checks them all on Tensors.

SciPy reads SCIPY_ARRAY_API when it is imported, so tests/test_scipy.py runs this in a process of its own.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import scipy.cluster.vq
import scipy.constants
import scipy.differentiate
import scipy.fft
import scipy.integrate
import scipy.optimize
import scipy.signal
import scipy.special
import scipy.stats
from scipy.spatial.transform import Rotation

import fgrad as fg
from fgrad.testing import check_grads

X = np.random.default_rng(0).uniform(0.2, 1.5, (4, 5))

FUNCTIONS = {
    "stats.pearsonr": lambda x: scipy.stats.pearsonr(x[0], x[1]).pvalue,
    "special.expit": lambda x: scipy.special.expit(x),
    "special.erf of both": lambda x: scipy.special.erf(x) * scipy.special.gammainc(np.abs(X) + 1.0, x**2),
    "special.sinc": lambda x: scipy.special.sinc(x),
    "special.logsumexp": lambda x: scipy.special.logsumexp(x, axis=1),
    "special.softmax": lambda x: scipy.special.softmax(x, axis=1),
    "special.log_softmax": lambda x: scipy.special.log_softmax(x, axis=0),
    "special.xlogy": lambda x: scipy.special.xlogy(x, 2 * x),
    "special.rel_entr": lambda x: scipy.special.rel_entr(x, 2 * x),
    "stats.zscore": lambda x: scipy.stats.zscore(x, axis=1),
    "stats.gzscore": lambda x: scipy.stats.gzscore(x, axis=1),
    "stats.gmean": lambda x: scipy.stats.gmean(x, axis=1),
    "stats.hmean": lambda x: scipy.stats.hmean(x, axis=1),
    "stats.pmean": lambda x: scipy.stats.pmean(x, 3, axis=1),
    "stats.tmean": lambda x: scipy.stats.tmean(x, axis=1),
    "stats.trim_mean": lambda x: scipy.stats.trim_mean(x, 0.2, axis=1),
    "stats.skew": lambda x: scipy.stats.skew(x, axis=1),
    "stats.kurtosis": lambda x: scipy.stats.kurtosis(x, axis=1),
    "stats.moment": lambda x: scipy.stats.moment(x, 3, axis=1),
    "stats.kstat": lambda x: scipy.stats.kstat(x, 3, axis=1),
    "stats.variation": lambda x: scipy.stats.variation(x, axis=1),
    "stats.sem": lambda x: scipy.stats.sem(x, axis=1),
    "stats.iqr": lambda x: scipy.stats.iqr(x, axis=1),
    "stats.circmean": lambda x: scipy.stats.circmean(x, axis=1),
    "stats.circvar": lambda x: scipy.stats.circvar(x, axis=1),
    "stats.boxcox_llf": lambda x: scipy.stats.boxcox_llf(0.5, x, axis=1),
    "integrate.trapezoid": lambda x: scipy.integrate.trapezoid(x, axis=1),
    "integrate.cumulative_trapezoid": lambda x: scipy.integrate.cumulative_trapezoid(x, axis=1),
    "integrate.romb": lambda x: scipy.integrate.romb(x, axis=1),
    "fft.fft": lambda x: abs(scipy.fft.fft(x)) ** 2,
    "fft.rfft": lambda x: scipy.fft.rfft(x),
    "fft.irfft": lambda x: scipy.fft.irfft(x),
    "fft.fftn": lambda x: scipy.fft.fftn(x),
    "fft.fht": lambda x: scipy.fft.fht(x, 0.1, 0.3),
    "signal.fftconvolve": lambda x: scipy.signal.fftconvolve(x, x),
    "signal.oaconvolve": lambda x: scipy.signal.oaconvolve(x, x),
    "signal.hilbert": lambda x: abs(scipy.signal.hilbert(x)) ** 2,
    "signal.resample": lambda x: scipy.signal.resample(x, 7, axis=1),
    "signal.freqz": lambda x: abs(scipy.signal.freqz(x[0], x[1], worN=8)[1]),
    "fft.dct": lambda x: scipy.fft.dct(x),
    "cluster.vq.whiten": lambda x: scipy.cluster.vq.whiten(x),
    "constants.convert_temperature": lambda x: scipy.constants.convert_temperature(x, "C", "F"),
    "differentiate.derivative": lambda x: scipy.differentiate.derivative(lambda u: u**3, x).df,
    "optimize.rosen": lambda x: scipy.optimize.rosen(x),
    "Rotation.as_matrix": lambda x: Rotation.from_rotvec(x[:, :3]).as_matrix(),
}
COMPILED = {  # SciPy's own compiled code, which knows no derivative: refused, and never wrong in silence
    "ndimage.gaussian_filter": lambda x: scipy.ndimage.gaussian_filter(x, 1.0),
}


def verdict(name: str) -> str:
    """Return "right", "refused", or what is wrong."""
    try:
        return _verdict(name)
    except Exception as e:
        return repr(e)


def _verdict(name: str) -> str:
    f = {**FUNCTIONS, **COMPILED}[name]
    expected = f(X)
    made = f(fg.tensor(X))
    if not isinstance(made, fg.Tensor):
        return f"no Tensor but {type(made)}"
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-10, atol=1e-12)
    try:
        check_grads(f, (X,))
    except TypeError as e:
        return "refused" if "would lose its gradient" in str(e) else repr(e)
    return "right"


if __name__ == "__main__":
    warnings.simplefilter("error")
    json.dump({name: verdict(name) for name in (*FUNCTIONS, *COMPILED)}, sys.stdout)
