"""What a stored program may say of an equation: its parameters, and the operands that go with them.

Compiled code trusts a program, so a program from a file is held to what its primitives declare. The rules for
shapes, which trust who wrote the parameters, then say what each equation gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.core.aval import Aval

Avals = Sequence[Aval]
Check = Callable[[Any, Avals], bool]  # (parameter, avals of the operands) -> whether it may be that

LARGEST = 2**48  # of a number that a parameter may be, and of the bytes of one value
# the dtypes that operands have: those of LAPACK and SciPy, and those to which functions convert theirs
LAPACK, REAL, NUMBERS, INTEGERS = "fdFD", "efd", "efdFD", "bBhHiIlLqQ"


class Stored(NamedTuple):
    """How files hold a primitive.

    Attributes:
        params: what each parameter may be.
        operands: how many there are; None asks the signature of `run`.
        dtypes: the characters of the dtypes that operands may have; "": of any.
        matrices: the numbers of the operands whose last two axes are a matrix.
        square: of which of them the matrices are square.
        verify: (*avals, **params) -> whether they may stand together; it may raise what NumPy does instead.
        work: (*avals, **params) -> elements, of 16 bytes, that it needs beside its operands and results,
            where they may be many more.
        since: the version of the format in which operands or parameters changed last.
    """

    params: Mapping[str, Check] = {}
    operands: int | None = None
    dtypes: str = ""
    matrices: str = ""
    square: str = ""
    verify: Callable[..., bool] | None = None
    work: Callable[..., int] | None = None
    since: int = 1


PLAIN = Stored()  # without parameters, of any operands


def of_matrices(
    matrices: str, square: str = "", params: Mapping[str, Check] | None = None, **columns: Any
) -> Stored:
    """Return how files hold what LAPACK computes of matrices."""
    return Stored(params or {}, dtypes=LAPACK, matrices=matrices, square=square, **columns)


# ---- what a parameter may be -------------------------------------------------------------------------------


def one_of(*words: str | None) -> Check:
    """Return the check for one of some words."""
    return lambda v, _: (v is None or type(v) is str) and v in words


def typed(*kinds: type) -> Check:
    """Return the check for values of exactly these types."""
    return lambda v, _: type(v) in kinds


is_text: Check = typed(str)
is_flag: Check = typed(bool)


def is_int(v: Any, least: float, below: float) -> bool:
    """Return whether a value is an integer in a range."""
    return type(v) is int and least <= v < below


def integers(least: float) -> Check:
    """Return the check for a tuple of integers that are not smaller; none is absurdly large."""
    return lambda v, _: type(v) is tuple and len(v) <= 64 and all(is_int(n, least, LARGEST) for n in v)


is_shape: Check = integers(0)
are_steps: Check = integers(1)
are_integers: Check = integers(-LARGEST)


def up_to(most: int) -> Check:
    """Return the check for an integer from 0 on."""
    return lambda v, _: is_int(v, 0, most + 1)


is_count: Check = up_to(LARGEST - 1)


def is_axis(v: Any, avals: Avals) -> bool:
    """Return whether a value is an axis of the first operand."""
    return is_int(v, 0, avals[0].ndim)


def are_axes(v: Any, avals: Avals) -> bool:
    """Return whether a value are axes of the first operand, none of them twice."""
    return type(v) is tuple and all(is_axis(i, avals) for i in v) and len(set(v)) == len(v)


def is_dtype(v: Any, _: Avals) -> bool:
    """Return whether a value is a dtype."""
    return isinstance(v, np.dtype)


def is_number(v: Any, _: Avals) -> bool:
    """Return whether a value is a real number."""
    return type(v) in {float, np.float64} or is_int(v, -LARGEST, LARGEST)


def is_part(v: Any) -> bool:
    """Return whether a value is a slice or an integer, or stands for axes, in an index."""
    if isinstance(v, slice):
        return all(n is None or is_int(n, -(2**63), 2**63) for n in (v.start, v.stop, v.step))
    return v is None or v is Ellipsis or is_int(v, -LARGEST, LARGEST)


def are_positive_powers(v: Any, avals: Avals) -> bool:
    """Return whether a value is a positive number for each operand."""
    return type(v) is tuple and len(v) == len(avals) and all(type(p) is float and 0 < p < 50 for p in v)


# ---- what operands may stand together ----------------------------------------------------------------------


def same_shapes(*avals: Aval, **_: Any) -> bool:
    """Return whether all operands have one shape."""
    return len({a.shape for a in avals}) == 1
