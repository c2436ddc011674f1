"""Interpolation of points and grids: differentiable in values and query points.

The classes have SciPy's names and signatures, and what they return has derivatives of every order, under vmap
and jit too. For derivatives in query points there is also SciPy's argument `nu`.
"""

from fgrad.names import offered as _offered
from fgrad.scipy.interpolate.cubic import Akima1DInterpolator as Akima1DInterpolator
from fgrad.scipy.interpolate.cubic import CubicHermiteSpline as CubicHermiteSpline
from fgrad.scipy.interpolate.cubic import CubicSpline as CubicSpline
from fgrad.scipy.interpolate.cubic import PchipInterpolator as PchipInterpolator
from fgrad.scipy.interpolate.grids import RegularGridInterpolator as RegularGridInterpolator
from fgrad.scipy.interpolate.grids import interpn as interpn
from fgrad.scipy.interpolate.piecewise import PPoly as PPoly
from fgrad.scipy.interpolate.splines import BSpline as BSpline
from fgrad.scipy.interpolate.splines import make_interp_spline as make_interp_spline


def __dir__() -> list[str]:
    return _offered(globals())
