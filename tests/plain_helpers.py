"""Functions of plain NumPy that call each other in all the ways that Python has."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.linalg as la
from numpy import sin as sine
from numpy import zeros

SCALE = 2.0
COUNT = 0
TABLE = None


def buffer(n):
    return np.zeros(n)


def decorated(f):
    @functools.wraps(f)
    def call(*args):
        return f(*args)

    return call


@decorated
def sines(x):
    y = zeros(x.shape)
    for i in range(len(x)):
        y[i] = sine(x[i])
    return y


def scaled(factor, x):
    y = np.empty_like(x)
    y[:] = factor * x
    return y


doubled = functools.partial(scaled, 2.0)


def applied(x, make=np.zeros, *, norm=la.norm, f=buffer):
    y = make(2) + f(2)
    y[0] = norm(x)
    return y.sum()


def even(n, x):
    y = np.zeros(1)
    y[0] = x
    return y[0] if n == 0 else 3 * odd(n - 1, y[0])


def odd(n, x):
    y = np.zeros(1)
    y[0] = x
    return 2 * even(n - 1, y[0])


def powers(x):
    y = np.zeros(3)
    for i in range(3):
        y[i] = x[i] ** (i + 1)
        yield y[i]


def closure(x):
    made = []

    def inner(i, y=None):
        nonlocal made
        y = np.zeros(2) if y is None else y
        y[0] = x[i]
        made = [*made, y.sum()]
        return len(made) if i == 0 else inner(i - 1)

    inner(2)
    return sum(made)


def local_names(x):
    import numpy  # noqa: ICN001 -- its own name, as people import it
    import numpy.linalg as linalg  # noqa: PLR0402
    from numpy import zeros as nothing
    from tests import plain_helpers

    matrix = nothing((2, 2))
    matrix[0, 0], matrix[1, 1] = x[0], numpy.ones(1)[0]
    return linalg.det(matrix) * plain_helpers.doubled(x).sum()


def local_class(x):
    class Pair:
        first = np.ones(2)
        scale = SCALE

        def filled(self, y=np.zeros(2)):  # noqa: B008 -- computed in the body of the class
            y = y.copy()
            y[1] = x[1] * self.scale
            return y + self.first

    return Pair().filled().sum()


def counting(x):
    global COUNT
    COUNT += 1
    y = np.zeros(1)
    y[0] = x[0] * COUNT
    return y.sum() + seen_count() * x[1]


def seen_count():
    return COUNT


def remembering(x):
    global TABLE
    if TABLE is None:
        TABLE = (np.zeros, sines, functools)
    return TABLE[1](x).sum()


def deleting(x):
    global TABLE
    del TABLE
    return x


def writing_generator(x):
    global COUNT
    COUNT = 1
    yield x


def scaling(x):
    y = np.zeros(3)
    y[:] = x
    return (y * SCALE).sum()


class Base:
    rows = 2

    def __init__(self, n):
        self.values = np.zeros(n)

    def fill(self, x):
        self.values[0] = x
        return self.values


class Doubling(Base):
    def __init__(self, n):
        super().__init__(n)
        self.calls = 0

    def fill(self, x):
        self.calls += 1
        return super().fill(x) * 2

    @property
    def total(self):
        y = np.zeros(1)
        y[0] = self.values.sum()
        return y[0]

    @functools.cached_property
    def kept(self):
        return self.total * 3

    @staticmethod
    def ones(n):
        y = np.empty(n)
        y[:] = 1
        return y

    @classmethod
    def of(cls, n, x):
        made = cls(n)
        made.fill(x)
        return made


class Plain:
    """A class that needs nothing of NumPy, so that it stays itself."""

    def __init__(self, x):
        self.x = x


def objects(x):
    doubling = Doubling(2)
    y = doubling.fill(x[0]).sum() + doubling.total + doubling.kept + Doubling.ones(2).sum()
    assert isinstance(doubling, Doubling)
    assert isinstance(doubling, Base)
    assert issubclass(Doubling, Base)
    assert isinstance(Doubling.of(3, x[2]), Doubling)
    return y * Doubling.of(3, x[2]).total + Plain(x[1]).x


def outside(x):
    """Use what is not of this package, and stays as it is."""
    return math.fsum([1.0, 2.0]) * np.sum(x) + len(np.random.default_rng(0).normal(size=2))


def everything(x):
    return (
        sines(x).sum() * doubled(x)[0]
        + applied(x)
        + even(2, x[1])
        + sum(powers(x))
        + closure(x)
        + local_names(x)
        + local_class(x)
        + objects(x)
        + outside(x)
        + max([x], key=lambda v: (np.zeros(3) + v).sum()).sum()
        + scaling(x)
    )
