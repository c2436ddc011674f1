"""Fourier, cosine and sine transforms with the names and conventions of `scipy.fft`, for arrays and Tensors.

Arrays are handed to SciPy as they are. Every transform is linear, so its derivative is the transform itself;
single precision stays single. SciPy's own functions take Tensors as well: they find these (see `backend`).
"""

from fgrad.names import offered as _offered
from fgrad.numpy.fft import fftshift as fftshift
from fgrad.numpy.fft import ifftshift as ifftshift
from fgrad.scipy.fft.cosine import dct as dct
from fgrad.scipy.fft.cosine import dctn as dctn
from fgrad.scipy.fft.cosine import dst as dst
from fgrad.scipy.fft.cosine import dstn as dstn
from fgrad.scipy.fft.cosine import idct as idct
from fgrad.scipy.fft.cosine import idctn as idctn
from fgrad.scipy.fft.cosine import idst as idst
from fgrad.scipy.fft.cosine import idstn as idstn
from fgrad.scipy.fft.fourier import fft as fft
from fgrad.scipy.fft.fourier import fft2 as fft2
from fgrad.scipy.fft.fourier import fftn as fftn
from fgrad.scipy.fft.fourier import hfft as hfft
from fgrad.scipy.fft.fourier import hfft2 as hfft2
from fgrad.scipy.fft.fourier import hfftn as hfftn
from fgrad.scipy.fft.fourier import ifft as ifft
from fgrad.scipy.fft.fourier import ifft2 as ifft2
from fgrad.scipy.fft.fourier import ifftn as ifftn
from fgrad.scipy.fft.fourier import ihfft as ihfft
from fgrad.scipy.fft.fourier import ihfft2 as ihfft2
from fgrad.scipy.fft.fourier import ihfftn as ihfftn
from fgrad.scipy.fft.fourier import irfft as irfft
from fgrad.scipy.fft.fourier import irfft2 as irfft2
from fgrad.scipy.fft.fourier import irfftn as irfftn
from fgrad.scipy.fft.fourier import rfft as rfft
from fgrad.scipy.fft.fourier import rfft2 as rfft2
from fgrad.scipy.fft.fourier import rfftn as rfftn


def __dir__() -> list[str]:
    return _offered(globals())
