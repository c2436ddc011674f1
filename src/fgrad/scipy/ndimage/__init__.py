"""Images of any dimension between their elements, and filters: SciPy's names for arrays and Tensors.

Arrays are handed to SciPy as they are. What is done to Tensors is made of rows that differentiate, so every
function has derivatives of every order, and runs under vmap and jit.
"""

from fgrad.names import offered as _offered
from fgrad.scipy.ndimage.filters import convolve as convolve
from fgrad.scipy.ndimage.filters import convolve1d as convolve1d
from fgrad.scipy.ndimage.filters import correlate as correlate
from fgrad.scipy.ndimage.filters import correlate1d as correlate1d
from fgrad.scipy.ndimage.filters import gaussian_filter as gaussian_filter
from fgrad.scipy.ndimage.filters import gaussian_filter1d as gaussian_filter1d
from fgrad.scipy.ndimage.filters import gaussian_gradient_magnitude as gaussian_gradient_magnitude
from fgrad.scipy.ndimage.filters import gaussian_laplace as gaussian_laplace
from fgrad.scipy.ndimage.filters import laplace as laplace
from fgrad.scipy.ndimage.filters import prewitt as prewitt
from fgrad.scipy.ndimage.filters import sobel as sobel
from fgrad.scipy.ndimage.filters import uniform_filter as uniform_filter
from fgrad.scipy.ndimage.filters import uniform_filter1d as uniform_filter1d
from fgrad.scipy.ndimage.interpolation import affine_transform as affine_transform
from fgrad.scipy.ndimage.interpolation import map_coordinates as map_coordinates
from fgrad.scipy.ndimage.interpolation import shift as shift
from fgrad.scipy.ndimage.interpolation import spline_filter as spline_filter
from fgrad.scipy.ndimage.interpolation import spline_filter1d as spline_filter1d
from fgrad.scipy.ndimage.interpolation import zoom as zoom


def __dir__() -> list[str]:
    return _offered(globals())
