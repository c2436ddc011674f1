"""Integrals and initial value problems by SciPy's integrators, differentiable in all that they depend on."""

from fgrad.names import offered as _offered
from fgrad.scipy.integrate.initial import OdeResult as OdeResult
from fgrad.scipy.integrate.initial import odeint as odeint
from fgrad.scipy.integrate.initial import solve_ivp as solve_ivp
from fgrad.scipy.integrate.quadrature import fixed_quad as fixed_quad
from fgrad.scipy.integrate.quadrature import quad as quad
from fgrad.scipy.integrate.quadrature import quad_vec as quad_vec
from fgrad.scipy.integrate.samples import cumulative_simpson as cumulative_simpson
from fgrad.scipy.integrate.samples import cumulative_trapezoid as cumulative_trapezoid
from fgrad.scipy.integrate.samples import romb as romb
from fgrad.scipy.integrate.samples import simpson as simpson
from fgrad.scipy.integrate.samples import trapezoid as trapezoid


def __dir__() -> list[str]:
    return _offered(globals())
