"""Discrete Fourier transforms with the names and conventions of `numpy.fft`.

Every transform is linear, so its derivative is the transform itself; single precision stays single. The
gradient of a real array is real. Half spectra (`irfft`, `hfft`) ignore the imaginary parts of the first and,
for an even length, the last bin, and these imaginary parts get no gradient.
"""

from fgrad.names import offered as _offered
from fgrad.numpy.fft.transforms import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def __dir__() -> list[str]:
    return _offered(globals())
