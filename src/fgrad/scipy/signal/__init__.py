"""Convolutions, filters and short-time transforms: SciPy's names for arrays and Tensors.

Arrays are handed to SciPy as they are. What is done to Tensors is made of rows that differentiate, so every
function has derivatives of every order, and runs under vmap and jit.
"""

from fgrad.names import offered as _offered
from fgrad.scipy.signal.convolution import convolve as convolve
from fgrad.scipy.signal.convolution import convolve2d as convolve2d
from fgrad.scipy.signal.convolution import correlate as correlate
from fgrad.scipy.signal.convolution import correlate2d as correlate2d
from fgrad.scipy.signal.convolution import fftconvolve as fftconvolve
from fgrad.scipy.signal.convolution import oaconvolve as oaconvolve
from fgrad.scipy.signal.filters import filtfilt as filtfilt
from fgrad.scipy.signal.filters import lfilter as lfilter
from fgrad.scipy.signal.filters import lfilter_zi as lfilter_zi
from fgrad.scipy.signal.filters import sosfilt as sosfilt
from fgrad.scipy.signal.filters import sosfilt_zi as sosfilt_zi
from fgrad.scipy.signal.spectral import csd as csd
from fgrad.scipy.signal.spectral import detrend as detrend
from fgrad.scipy.signal.spectral import hilbert as hilbert
from fgrad.scipy.signal.spectral import istft as istft
from fgrad.scipy.signal.spectral import stft as stft
from fgrad.scipy.signal.spectral import welch as welch


def __dir__() -> list[str]:
    return _offered(globals())
