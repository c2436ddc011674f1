"""Random numbers that differentiate: samplers that take a NumPy Generator or a key.

Every sampler takes its source first: a `numpy.random.Generator`, which it advances, or a key made by `key`,
of which it is a pure function. Parameters and `size` are NumPy's; results are arrays, or Tensors if an
argument is one.
"""

from fgrad.names import offered as _offered
from fgrad.random.continuous import beta as beta
from fgrad.random.continuous import cauchy as cauchy
from fgrad.random.continuous import chisquare as chisquare
from fgrad.random.continuous import dirichlet as dirichlet
from fgrad.random.continuous import exponential as exponential
from fgrad.random.continuous import f as f
from fgrad.random.continuous import gamma as gamma
from fgrad.random.continuous import gumbel as gumbel
from fgrad.random.continuous import laplace as laplace
from fgrad.random.continuous import logistic as logistic
from fgrad.random.continuous import lognormal as lognormal
from fgrad.random.continuous import multivariate_normal as multivariate_normal
from fgrad.random.continuous import normal as normal
from fgrad.random.continuous import pareto as pareto
from fgrad.random.continuous import power as power
from fgrad.random.continuous import rayleigh as rayleigh
from fgrad.random.continuous import student_t as student_t
from fgrad.random.continuous import triangular as triangular
from fgrad.random.continuous import truncated_normal as truncated_normal
from fgrad.random.continuous import uniform as uniform
from fgrad.random.continuous import weibull as weibull
from fgrad.random.discrete import bernoulli as bernoulli
from fgrad.random.discrete import binomial as binomial
from fgrad.random.discrete import categorical as categorical
from fgrad.random.discrete import choice as choice
from fgrad.random.discrete import integers as integers
from fgrad.random.discrete import permutation as permutation
from fgrad.random.discrete import poisson as poisson
from fgrad.random.discrete import shuffle as shuffle
from fgrad.random.keys import bits as bits
from fgrad.random.keys import fold_in as fold_in
from fgrad.random.keys import key as key
from fgrad.random.keys import key_data as key_data
from fgrad.random.keys import split as split
from fgrad.random.keys import wrap_key_data as wrap_key_data

randint = integers


def __dir__() -> list[str]:
    return _offered(globals())
