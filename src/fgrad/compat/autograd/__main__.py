"""`python -m fgrad.compat.autograd program.py` runs a program with fgrad in the place of autograd."""

import sys

from fgrad.compat.autograd import STAND_IN
from fgrad.compat.standins import run

if __name__ == "__main__":
    run(STAND_IN, sys.argv[1:], "python -m fgrad.compat.autograd")
