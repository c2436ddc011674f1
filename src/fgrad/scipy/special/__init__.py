"""SciPy's special functions for Tensors, with derivatives of every order that is known.

The universal functions answer also where SciPy's own are called: `scipy.special.gammaln(tensor)`. Names that
have no rule are SciPy's: they take arrays, and refuse Tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special as _scipy

from fgrad.names import offered as _offered
from fgrad.numpy import sinc as sinc
from fgrad.scipy.special import (  # noqa: F401 -- their primitives
    bessel,
    elementary,
    elliptic,
    errors,
    functions,
    gammas,
    polynomials,
    probability,
)
from fgrad.scipy.special.functions import declare_hidden as _declare_hidden
from fgrad.scipy.special.functions import lambertw as lambertw
from fgrad.scipy.special.functions import log_softmax as log_softmax
from fgrad.scipy.special.functions import logsumexp as logsumexp
from fgrad.scipy.special.functions import multigammaln as multigammaln
from fgrad.scipy.special.functions import polygamma as polygamma
from fgrad.scipy.special.functions import softmax as softmax
from fgrad.scipy.special.functions import spherical_in as spherical_in
from fgrad.scipy.special.functions import spherical_jn as spherical_jn
from fgrad.scipy.special.functions import spherical_kn as spherical_kn
from fgrad.scipy.special.functions import spherical_yn as spherical_yn
from fgrad.scipy.special.functions import zeta as zeta
from fgrad.scipy.special.ufuncs import declare_ufuncs as _declare_ufuncs

_UFUNCS = _declare_ufuncs()
_RULES = frozenset({*_UFUNCS, *functions.__all__})  # the names that take Tensors
_declare_hidden()


def __getattr__(name: str) -> Any:
    if name in _UFUNCS:
        return _UFUNCS[name]
    theirs = getattr(_scipy, name, None)
    if isinstance(theirs, np.ufunc):
        return theirs  # without rule: it takes arrays, and refuses Tensors by its name
    raise AttributeError(
        f"module 'fgrad.scipy.special' has no attribute {name!r}"
        + (f"; scipy.special.{name} has no rule for Tensors" if theirs is not None else "")
    )


def __dir__() -> list[str]:
    return _offered(globals(), *_UFUNCS)
