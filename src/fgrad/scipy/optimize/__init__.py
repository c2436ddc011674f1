"""Minima, roots and fits by SciPy's solvers, differentiable in the parameters of the problem."""

from fgrad.names import offered as _offered
from fgrad.scipy.optimize.fitting import curve_fit as curve_fit
from fgrad.scipy.optimize.fitting import least_squares as least_squares
from fgrad.scipy.optimize.limits import Bounds as Bounds
from fgrad.scipy.optimize.limits import LinearConstraint as LinearConstraint
from fgrad.scipy.optimize.limits import NonlinearConstraint as NonlinearConstraint
from fgrad.scipy.optimize.minimization import minimize as minimize
from fgrad.scipy.optimize.roots import fixed_point as fixed_point
from fgrad.scipy.optimize.roots import root as root
from fgrad.scipy.optimize.scalars import RootResults as RootResults
from fgrad.scipy.optimize.scalars import bisect as bisect
from fgrad.scipy.optimize.scalars import brenth as brenth
from fgrad.scipy.optimize.scalars import brentq as brentq
from fgrad.scipy.optimize.scalars import minimize_scalar as minimize_scalar
from fgrad.scipy.optimize.scalars import ridder as ridder
from fgrad.scipy.optimize.scalars import root_scalar as root_scalar
from fgrad.scipy.optimize.solution import OptimizeResult as OptimizeResult


def __dir__() -> list[str]:
    return _offered(globals())
