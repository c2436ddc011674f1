"""What distributions of one variable share: location, scale, ends of the support, invalid parameters.

A family is declared by a few formulas for location 0 and scale 1; they are called with arguments inside of
the support only, so that none has to think of its ends, and nothing outside spoils a gradient.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad.numpy as fnp
from fgrad.core.aval import with_dtype
from fgrad.core.tensor import Tensor, is_tracked
from fgrad.extend.engine import convert, operand
from fgrad.scipy import special as special_functions
from fgrad.scipy.stats.descriptions import described

Formula = Callable[..., Any]
Edge = float | Formula  # of a support, which may depend on the shapes

special: Any = special_functions  # mypy meets the names of that module before their type
LOG_2 = math.log(2)


def every_positive(*shapes: Any) -> Any:
    """Return whether all shapes are positive, which is what most families demand."""
    valid = True
    for s in shapes:
        valid = fnp.logical_and(valid, s > 0)
    return valid


def log1mexp(x: Any) -> Any:
    """Return log(1 - exp(-x)) for x > 0, without cancellation (Maechler 2012, R package Rmpfr)."""
    near = x < LOG_2
    return fnp.where(
        near, fnp.log(-fnp.expm1(-fnp.where(near, x, 1.0))), fnp.log1p(-fnp.exp(-fnp.where(near, 1.0, x)))
    )


def log_of(p: Any, rest: Any) -> Any:
    """Return log(p), from 1 - p where p is so near one that it has no digits."""
    high = p > 0.5
    return fnp.where(high, fnp.log1p(-fnp.where(high, rest, 0.5)), fnp.log(fnp.where(high, 0.5, p)))


class Named:
    """A distribution of SciPy's, of which some methods are there."""

    name: str
    methods: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<distribution fgrad.scipy.stats.{self.name}>"

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        raise AttributeError(
            f"fgrad.scipy.stats.{self.name} has no {method}; it has {', '.join(self.methods)}. "
            f"scipy.stats.{self.name} may have it, for arrays"
        )


class Distribution(Named):
    """A family of one variable: how SciPy's arguments are read, and what is said where they make no sense."""

    name: str
    argument: str  # the name of the first one
    defaults: dict[str, float]  # of the parameters beside the shapes
    shapes: tuple[str, ...]
    valid: Formula
    signature: inspect.Signature

    def __init__(
        self, name: str, shapes: str, valid: Formula, support: tuple[Edge, Edge], **formulas: Formula | None
    ) -> None:
        self.name, self.shapes, self.valid, self._support = name, tuple(shapes.split()), valid, support
        for method, other in (("cdf", "sf"), ("sf", "cdf")):
            own = formulas.get(f"log{method}")
            formulas[f"log{method}"] = own or _log(formulas[method], formulas[other])
        self._formulas = {method: f for method, f in formulas.items() if f is not None}
        self.methods: tuple[str, ...] = (next(iter(formulas)).removeprefix("log"), *self._formulas)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.signature = inspect.Signature(
            [
                *(inspect.Parameter(n, kind) for n in (self.argument, *self.shapes)),
                *(inspect.Parameter(n, kind, default=v) for n, v in self.defaults.items()),
            ]
        )
        self.__doc__ = described(name, self.shapes, self.methods, discrete=self.argument == "k")

    def __call__(self, *args: Any, **kw: Any) -> Frozen:
        """Return the distribution with these parameters."""
        return Frozen(self, args, kw)

    def cdf(self, *args: Any, **kw: Any) -> Any:
        """Return the probability of values up to the first argument."""
        return self._probability("cdf", (0.0, 1.0), args, kw)

    def sf(self, *args: Any, **kw: Any) -> Any:
        """Return the probability of values beyond the first argument, without cancellation."""
        return self._probability("sf", (1.0, 0.0), args, kw)

    def logcdf(self, *args: Any, **kw: Any) -> Any:
        """Return the logarithm of `cdf`, accurate in the tails."""
        return self._probability("logcdf", (-math.inf, 0.0), args, kw)

    def logsf(self, *args: Any, **kw: Any) -> Any:
        """Return the logarithm of `sf`, accurate in the tails."""
        return self._probability("logsf", (0.0, -math.inf), args, kw)

    def read(self, args: tuple[Any, ...], kw: dict[str, Any]) -> list[Any]:
        """Return x, the shapes and the other parameters in double precision, in which SciPy computes."""
        try:
            bound = self.signature.bind(*args, **kw)
        except TypeError as error:
            raise TypeError(f"fgrad.scipy.stats.{self.name}{self.signature}: {error}") from None
        bound.apply_defaults()
        values = [operand(v) for v in bound.arguments.values()]
        arrays = list(map(with_dtype, values))
        return [convert(v, np.promote_types(v.dtype, np.float64)) for v in arrays]

    def _formula(self, method: str) -> Formula:
        if method not in self._formulas:
            Named.__getattr__(self, method)
        return self._formulas[method]

    def _probability(self, method: str, ends: tuple[float, float], args: Any, kw: Any) -> Any:
        formula = self._formula(method)
        with np.errstate(all="ignore"):
            safe, below, above, shapes, valid = self._sides(args, kw)
            value = fnp.where(below, ends[0], fnp.where(above, ends[1], formula(safe, *shapes)))
            return fnp.where(valid, value, math.nan)

    def _sides(self, args: Any, kw: Any) -> tuple[Any, ...]:
        """Return a place in the support, whether the argument is below it, above it, the shapes, validity."""
        raise NotImplementedError

    def _ends(self, shapes: Any) -> list[Any]:
        return [_edge(e, shapes) for e in self._support]


class Frozen:
    """A distribution with its parameters."""

    family: Distribution
    args: tuple[Any, ...]
    kw: dict[str, Any]

    def __init__(self, family: Distribution, args: tuple[Any, ...], kw: dict[str, Any]) -> None:
        self.family, self.args, self.kw = family, args, kw

    def __getattr__(self, method: str) -> Any:
        return functools.partial(_called, getattr(self.family, method), self.args, self.kw)


def _called(method: Formula, args: tuple[Any, ...], kw: dict[str, Any], x: Any) -> Any:
    return method(x, *args, **kw)


class Continuous(Distribution):
    """A family of continuous distributions.

    Methods take (x, *shapes, loc=0, scale=1), as SciPy's do. Outside of the support densities are zero and
    their derivatives too; the derivative of a density at an end of the support is the one from inside. Where
    parameters are not valid the result is NaN.
    """

    argument = "x"
    defaults: dict[str, float] = {"loc": 0, "scale": 1}  # noqa: RUF012 -- a constant

    def __init__(
        self,
        name: str,
        shapes: str = "",
        *,
        logpdf: Formula,
        cdf: Formula | None = None,
        sf: Formula | None = None,
        logcdf: Formula | None = None,
        logsf: Formula | None = None,
        ppf: Formula | None = None,
        isf: Formula | None = None,
        support: tuple[Edge, Edge] = (-math.inf, math.inf),
        inside: Edge | None = None,
        valid: Formula = every_positive,
        open_ends: bool = False,
    ) -> None:
        """Declare a family by formulas of (z, *shapes), for location 0 and scale 1.

        Args:
            name: SciPy's.
            shapes: names of the shape parameters.
            logpdf: logarithm of the density.
            cdf: distribution function; None: the family has none.
            sf: one minus it, without cancellation.
            logcdf: its logarithm; None: log of `cdf`.
            logsf: the logarithm of `sf`; None: log of `sf`.
            ppf: quantile function, of probabilities between 0 and 1; None: the family has none.
            isf: the same of one minus the probability.
            support: its ends, numbers or functions of the shapes.
            inside: a point inside of it; None: `between` its ends, which are numbers.
            valid: (*shapes) -> whether they make sense.
            open_ends: whether the density is zero at finite ends.
        """
        cumulative = {"cdf": cdf, "sf": sf, "logcdf": logcdf, "logsf": logsf}
        super().__init__(name, shapes, valid, support, logpdf=logpdf, **cumulative, ppf=ppf, isf=isf)
        self._inside = float(between(*support)) if inside is None else inside
        self._open = open_ends

    def support(self, *shapes: Any, loc: Any = 0, scale: Any = 1) -> tuple[Any, Any]:
        """Return the ends of the support."""
        low, high = self._ends(shapes)
        return low * scale + loc, high * scale + loc

    def logpdf(self, x: Any, *args: Any, **kw: Any) -> Any:
        """Return the logarithm of the density at `x`; -inf outside of the support."""
        with np.errstate(all="ignore"):
            x, *shapes, loc, scale = self.read((x, *args), kw)
            z = (x - loc) / scale
            low, high = self._ends(shapes)
            outside = fnp.logical_or(
                z <= low if self._open else z < low, z >= high if self._open else z > high
            )
            outside = fnp.logical_or(outside, fnp.isinf(z))
            safe = fnp.where(outside, _edge(self._inside, shapes), z)
            value = fnp.where(outside, -math.inf, self._formulas["logpdf"](safe, *shapes) - fnp.log(scale))
            return fnp.where(self._is_valid(shapes, scale), value, math.nan)

    def pdf(self, x: Any, *args: Any, **kw: Any) -> Any:
        """Return the density at `x`."""
        with np.errstate(all="ignore"):
            return fnp.exp(self.logpdf(x, *args, **kw))

    def ppf(self, q: Any, *args: Any, **kw: Any) -> Any:
        """Return the value up to which the probability is `q`; NaN where `q` is no probability."""
        return self._quantile("ppf", q, args, kw)

    def isf(self, q: Any, *args: Any, **kw: Any) -> Any:
        """Return the value beyond which the probability is `q`."""
        return self._quantile("isf", q, args, kw)

    def _sides(self, args: Any, kw: Any) -> tuple[Any, ...]:
        x, *shapes, loc, scale = self.read(args, kw)
        z = (x - loc) / scale
        low, high = self._ends(shapes)
        below, above = z <= low, z >= high
        safe = fnp.where(fnp.logical_or(below, above), _edge(self._inside, shapes), z)
        return safe, below, above, shapes, self._is_valid(shapes, scale)

    def _quantile(self, method: str, q: Any, args: Any, kw: Any) -> Any:
        formula = self._formula(method)
        with np.errstate(all="ignore"):
            q, *shapes, loc, scale = self.read((q, *args), kw)
            low, high = self._ends(shapes)[:: -1 if method == "isf" else 1]
            outside = fnp.logical_or(q <= 0, q >= 1)
            z = formula(fnp.where(outside, 0.5, q), *shapes)
            z = fnp.where(fnp.equal(q, 0), low, fnp.where(fnp.equal(q, 1), high, z))
            z = fnp.where(fnp.logical_or(q < 0, q > 1), math.nan, z)
            return fnp.where(self._is_valid(shapes, scale), z * scale + loc, math.nan)

    def _is_valid(self, shapes: Any, scale: Any) -> Any:
        return fnp.logical_and(self.valid(*shapes), scale > 0)


class Discrete(Distribution):
    """A family of distributions of integers.

    Methods take (k, *shapes, loc=0), as SciPy's do, and differentiate in the shapes. Where `k` is no whole
    number or outside of the support the probability is zero.
    """

    argument = "k"
    defaults: dict[str, float] = {"loc": 0}  # noqa: RUF012 -- a constant

    def __init__(
        self,
        name: str,
        shapes: str,
        *,
        logpmf: Formula,
        cdf: Formula | None = None,
        sf: Formula | None = None,
        support: tuple[Edge, Edge],
        valid: Formula,
    ) -> None:
        """Declare a family by formulas of (k, *shapes), for location 0.

        Args:
            name: SciPy's.
            shapes: names of the shape parameters.
            logpmf: logarithm of the probability.
            cdf: distribution function, at integers; None: the family has none.
            sf: one minus it, without cancellation.
            support: its ends, numbers or functions of the shapes.
            valid: (*shapes) -> whether they make sense.
        """
        super().__init__(name, shapes, valid, support, logpmf=logpmf, cdf=cdf, sf=sf)

    def logpmf(self, k: Any, *args: Any, **kw: Any) -> Any:
        """Return the logarithm of the probability of `k`; -inf outside of the support."""
        with np.errstate(all="ignore"):
            k, shapes, low, high = self._read((k, *args), kw)
            outside = fnp.logical_or(fnp.logical_or(k < low, k > high), k != fnp.floor(k))
            value = self._formulas["logpmf"](fnp.where(outside, low, k), *shapes)
            return fnp.where(self.valid(*shapes), fnp.where(outside, -math.inf, value), math.nan)

    def pmf(self, k: Any, *args: Any, **kw: Any) -> Any:
        """Return the probability of `k`."""
        with np.errstate(all="ignore"):
            return fnp.exp(self.logpmf(k, *args, **kw))

    def _sides(self, args: Any, kw: Any) -> tuple[Any, ...]:
        k, shapes, low, high = self._read(args, kw)
        below, above = k < low, k >= high
        safe = fnp.where(fnp.logical_or(below, above), low, fnp.floor(k))
        return safe, below, above, shapes, self.valid(*shapes)

    def _read(self, args: Any, kw: Any) -> tuple[Any, Any, Any, Any]:
        k, *shapes, loc = self.read(args, kw)
        for name, value in (("k", k), ("loc", loc)):
            if isinstance(value, Tensor) and value.dtype.kind == "f" and is_tracked(value):
                raise TypeError(
                    f"fgrad.scipy.stats.{self.name}: {name} is an integer, so it has no derivative. Make it "
                    f"a constant: fgrad.stop_gradient({name})"
                )
        return k - loc, shapes, *self._ends(shapes)


def between(low: Any, high: Any) -> Any:
    """Return a point between two ends: one away from an end beside an infinite one."""
    from_low = fnp.where(fnp.isinf(high), low + 1, (low + high) / 2)
    return fnp.where(fnp.isinf(low), fnp.where(fnp.isinf(high), 0.0, high - 1), from_low)


def _edge(edge: Edge, shapes: Any) -> Any:
    return edge(*shapes) if callable(edge) else edge


def _log(formula: Formula | None, other: Formula | None) -> Formula | None:
    return formula and other and (lambda *args: log_of(formula(*args), other(*args)))
