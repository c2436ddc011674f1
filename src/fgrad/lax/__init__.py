"""Control flow and implicit functions with JAX's names and signatures, differentiable in every way."""

from fgrad.lax.control import cond as cond
from fgrad.lax.control import fori_loop as fori_loop
from fgrad.lax.control import scan as scan
from fgrad.lax.control import select as select
from fgrad.lax.control import switch as switch
from fgrad.lax.control import while_loop as while_loop
from fgrad.lax.implicit import custom_linear_solve as custom_linear_solve
from fgrad.lax.implicit import custom_root as custom_root
from fgrad.lax.maps import associative_scan as associative_scan
from fgrad.lax.maps import map as map
