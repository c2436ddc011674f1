"""What the reference says of each family: its density, and an example."""

from __future__ import annotations

from typing import NamedTuple


class Said(NamedTuple):
    """What is said of one family."""

    density: str  # or probability, for location 0 and scale 1, on the support
    arguments: str  # of the example
    log: str  # of the density there
    slope: str  # of that logarithm: in x, of discrete families in the last shape


SAID = {
    "bernoulli": Said("p**k * (1 - p) ** (1 - k)", "1, 0.25", "-1.386294", "4.0"),
    "beta": Said("x ** (a - 1) * (1 - x) ** (b - 1) / beta(a, b)", "0.25, 2.0, 3.0", "0.523248", "1.333333"),
    "betabinom": Said(
        "comb(n, k) * beta(k + a, n - k + b) / beta(a, b)", "2, 5, 1.5, 2.0", "-1.545899", "0.106399"
    ),
    "binom": Said("comb(n, k) * p**k * (1 - p) ** (n - k)", "2, 5, 0.25", "-1.33305", "4.0"),
    "cauchy": Said("1 / (pi * (1 + x**2))", "0.5", "-1.367873", "-0.8"),
    "chi": Said(
        "2 ** (1 - df / 2) * x ** (df - 1) * exp(-(x**2) / 2) / gamma(df / 2)", "0.5, 3.0", "-1.737086", "3.5"
    ),
    "chi2": Said(
        "(x / 2) ** (df / 2 - 1) * exp(-x / 2) / (2 * gamma(df / 2))", "0.5, 3.0", "-1.515512", "0.5"
    ),
    "expon": Said("exp(-x)", "0.5", "-0.5", "-1.0"),
    "f": Said(
        "sqrt((dfn * x) ** dfn * dfd**dfd / (dfn * x + dfd) ** (dfn + dfd)) / (x * beta(dfn / 2, dfd / 2))",
        "0.5, 4.0, 6.0",
        "-0.457581",
        "-0.5",
    ),
    "fisk": Said("c * x ** (c - 1) / (1 + x**c) ** 2", "0.5, 2.0", "-0.446287", "0.4"),
    "gamma": Said("x ** (a - 1) * exp(-x) / gamma(a)", "0.5, 2.0", "-1.193147", "1.0"),
    "genextreme": Said(
        "exp(-((1 - c * x) ** (1 / c))) * (1 - c * x) ** (1 / c - 1)", "0.5, 0.25", "-0.986776", "-0.187221"
    ),
    "genpareto": Said("(1 + c * x) ** (-1 - 1 / c)", "0.5, 0.25", "-0.588915", "-1.111111"),
    "geom": Said("p * (1 - p) ** (k - 1)", "2, 0.25", "-1.673976", "2.666667"),
    "gumbel_l": Said("exp(x - exp(x))", "0.5", "-1.148721", "-0.648721"),
    "gumbel_r": Said("exp(-x - exp(-x))", "0.5", "-1.106531", "-0.393469"),
    "halfcauchy": Said("2 / (pi * (1 + x**2))", "0.5", "-0.674726", "-0.8"),
    "halfnorm": Said("sqrt(2 / pi) * exp(-(x**2) / 2)", "0.5", "-0.350791", "-0.5"),
    "invgamma": Said("x ** (-a - 1) * exp(-1 / x) / gamma(a)", "0.5, 2.0", "0.079442", "-2.0"),
    "laplace": Said("exp(-abs(x)) / 2", "0.5", "-1.193147", "-1.0"),
    "levy": Said("exp(-1 / (2 * x)) / sqrt(2 * pi * x**3)", "0.5", "-0.879218", "-1.0"),
    "logistic": Said("exp(-x) / (1 + exp(-x)) ** 2", "0.5", "-1.448154", "-0.244919"),
    "lognorm": Said(
        "exp(-((log(x) / s) ** 2) / 2) / (s * x * sqrt(2 * pi))", "0.5, 2.0", "-0.978995", "-1.653426"
    ),
    "nbinom": Said("comb(n + k - 1, k) * p**n * (1 - p) ** k", "2, 3, 0.25", "-2.942488", "9.333333"),
    "norm": Said("exp(-(x**2) / 2) / sqrt(2 * pi)", "0.5", "-1.043939", "-0.5"),
    "pareto": Said("b / x ** (b + 1)", "1.5, 2.0", "-0.523248", "-2.0"),
    "poisson": Said("mu**k * exp(-mu) / factorial(k)", "2, 1.5", "-1.382217", "0.333333"),
    "powerlaw": Said("a * x ** (a - 1)", "0.5, 2.0", "0.0", "2.0"),
    "rayleigh": Said("x * exp(-(x**2) / 2)", "0.5", "-0.818147", "1.5"),
    "skewnorm": Said("2 * exp(-(x**2) / 2) / sqrt(2 * pi) * ndtr(a * x)", "0.5, 2.0", "-0.523545", "0.0752"),
    "t": Said(
        "(1 + x**2 / df) ** (-(df + 1) / 2) / (sqrt(df) * beta(df / 2, 1 / 2))",
        "0.5, 4.0",
        "-1.132391",
        "-0.588235",
    ),
    "triang": Said("2 * x / c if x < c else 2 * (1 - x) / (1 - c)", "0.25, 0.5", "0.0", "4.0"),
    "truncnorm": Said(
        "exp(-(x**2) / 2) / sqrt(2 * pi) / (ndtr(b) - ndtr(a))", "0.25, -1.0, 2.0", "-0.750022", "-0.25"
    ),
    "uniform": Said("1", "0.5", "0.0", "0.0"),
    "vonmises": Said("exp(kappa * cos(x)) / (2 * pi * i0(kappa))", "0.5, 2.0", "-0.906705", "-0.958851"),
    "weibull_max": Said("c * (-x) ** (c - 1) * exp(-((-x) ** c))", "-0.5, 1.5", "-0.294662", "0.06066"),
    "weibull_min": Said("c * x ** (c - 1) * exp(-(x**c))", "0.5, 2.0", "-0.25", "1.0"),
}

_DOC = """The distribution scipy.stats.{name}, with derivatives.

For location 0{scale} the {density} at {x} of the support is `{formula}`.

Args:
    {x}: {points}.
{shapes}    loc: the location, 0 by default.
{scaled}
Returns:
    Of each method an array of the shape to which its arguments broadcast; floats of double precision. NaN
    where a parameter is not valid. `{name}({given})` returns a distribution whose methods take `{x}` alone.

Methods:
    {methods}.

Raises:
    AttributeError: a method that is not there.
    TypeError: arguments that the method does not take{raised}.

Derivative:
    {derivative}

Example:
    >>> from fgrad.scipy.stats import {name}
    >>> float({name}.{log}({arguments}))
    {value}
    >>> fg.grad({name}.{log}{argnum})({arguments})
    np.float64({slope})
"""


def described(name: str, shapes: tuple[str, ...], methods: tuple[str, ...], *, discrete: bool) -> str:
    """Return the docstring of a family."""
    said = SAID[name]
    names = [*shapes, "loc", *([] if discrete else ["scale"])]
    return _DOC.format(
        name=name,
        scale="" if discrete else " and scale 1",
        density="probability" if discrete else "density",
        x="k" if discrete else "x",
        formula=said.density,
        points="integers"
        if discrete
        else "real numbers" + "; of `ppf` and `isf` probabilities" * ("ppf" in methods),
        shapes="".join(f"    {s}: a shape.\n" for s in shapes),
        scaled="" if discrete else "    scale: the scale, positive, 1 by default.\n",
        given=", ".join(names),
        methods=", ".join([*methods, *([] if discrete else ["support"])]),
        raised=", or `k` or `loc` is to be differentiated" if discrete else "",
        derivative="In the shapes." if discrete else _CONTINUOUS,
        log=methods[0].replace("p", "logp", 1),
        argnum=f", {len(shapes)}" if discrete else "",
        arguments=said.arguments,
        value=said.log,
        slope=said.slope,
    )


_CONTINUOUS = """In all arguments, to every order that the special functions of the formulas know.
    Outside of the support it is 0, at an end of it that from inside."""
