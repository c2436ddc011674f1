"""`python -m fgrad.compat.jax program.py` runs a program with fgrad in the place of JAX."""

import sys

from fgrad.compat.jax import STAND_IN
from fgrad.compat.standins import run

if __name__ == "__main__":
    run(STAND_IN, sys.argv[1:], "python -m fgrad.compat.jax")
