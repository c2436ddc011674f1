"""SciPy's distributions for Tensors: densities, distribution functions and quantiles, with derivatives.

Methods have SciPy's names and signatures. They differentiate in the point, the location, the scale and the
shapes, to every order that the special functions behind them know.
"""

from fgrad.names import offered as _offered
from fgrad.scipy.stats.continuous import beta as beta
from fgrad.scipy.stats.continuous import cauchy as cauchy
from fgrad.scipy.stats.continuous import chi as chi
from fgrad.scipy.stats.continuous import chi2 as chi2
from fgrad.scipy.stats.continuous import expon as expon
from fgrad.scipy.stats.continuous import f as f
from fgrad.scipy.stats.continuous import fisk as fisk
from fgrad.scipy.stats.continuous import gamma as gamma
from fgrad.scipy.stats.continuous import genextreme as genextreme
from fgrad.scipy.stats.continuous import genpareto as genpareto
from fgrad.scipy.stats.continuous import gumbel_l as gumbel_l
from fgrad.scipy.stats.continuous import gumbel_r as gumbel_r
from fgrad.scipy.stats.continuous import halfcauchy as halfcauchy
from fgrad.scipy.stats.continuous import halfnorm as halfnorm
from fgrad.scipy.stats.continuous import invgamma as invgamma
from fgrad.scipy.stats.continuous import laplace as laplace
from fgrad.scipy.stats.continuous import levy as levy
from fgrad.scipy.stats.continuous import logistic as logistic
from fgrad.scipy.stats.continuous import lognorm as lognorm
from fgrad.scipy.stats.continuous import norm as norm
from fgrad.scipy.stats.continuous import pareto as pareto
from fgrad.scipy.stats.continuous import powerlaw as powerlaw
from fgrad.scipy.stats.continuous import rayleigh as rayleigh
from fgrad.scipy.stats.continuous import skewnorm as skewnorm
from fgrad.scipy.stats.continuous import t as t
from fgrad.scipy.stats.continuous import triang as triang
from fgrad.scipy.stats.continuous import truncnorm as truncnorm
from fgrad.scipy.stats.continuous import uniform as uniform
from fgrad.scipy.stats.continuous import vonmises as vonmises
from fgrad.scipy.stats.continuous import weibull_max as weibull_max
from fgrad.scipy.stats.continuous import weibull_min as weibull_min
from fgrad.scipy.stats.discrete import bernoulli as bernoulli
from fgrad.scipy.stats.discrete import betabinom as betabinom
from fgrad.scipy.stats.discrete import binom as binom
from fgrad.scipy.stats.discrete import geom as geom
from fgrad.scipy.stats.discrete import nbinom as nbinom
from fgrad.scipy.stats.discrete import poisson as poisson
from fgrad.scipy.stats.multivariate import dirichlet as dirichlet
from fgrad.scipy.stats.multivariate import multivariate_normal as multivariate_normal
from fgrad.scipy.stats.multivariate import multivariate_t as multivariate_t
from fgrad.scipy.stats.multivariate import wishart as wishart


def __dir__() -> list[str]:
    return _offered(globals())
