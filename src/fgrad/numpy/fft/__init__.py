"""Discrete Fourier transforms with the names and conventions of `numpy.fft`.

Every transform is linear, so its derivative is the transform itself; single precision stays single. The
gradient of a real array is real. Half spectra (`irfft`, `hfft`) ignore the imaginary parts of the first and,
for an even length, the last bin, and these imaginary parts get no gradient.
"""

from fgrad.names import gathered as _gathered
from fgrad.names import offered as _offered

_NAMES = {  # by the module that defines them; `__init__.pyi` says their types
    "transforms": """
        fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2
        rfftfreq rfftn
    """
}
_found = _gathered(__name__, _NAMES)
globals().update(_found, __all__=[*_found])


def __dir__() -> list[str]:
    return _offered(globals())
