"""The docstrings of SciPy's universal functions: of words, tables and loops, when somebody reads them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.scipy.special.primitives import TABLE, constants
from fgrad.transforms.reverse import grad

if TYPE_CHECKING:
    from fgrad.scipy.special.ufuncs import Special

WHAT = {  # each returns
    # Bessel functions
    "jv": "the Bessel function of the first kind, of real order v",
    "jve": "jv(v, z) exp(-|imag z|)",
    "yv": "the Bessel function of the second kind, of real order v",
    "yve": "yv(v, z) exp(-|imag z|)",
    "yn": "the Bessel function of the second kind, of whole order n",
    "iv": "the modified Bessel function of the first kind, of real order v",
    "ive": "iv(v, z) exp(-|real z|)",
    "kv": "the modified Bessel function of the second kind, of real order v",
    "kve": "kv(v, z) exp(z)",
    "kn": "the modified Bessel function of the second kind, of whole order n",
    "hankel1": "the Hankel function of the first kind, jv + i yv",
    "hankel1e": "hankel1(v, z) exp(-i z)",
    "hankel2": "the Hankel function of the second kind, jv - i yv",
    "hankel2e": "hankel2(v, z) exp(i z)",
    **{f"j{n}": f"the Bessel function of the first kind, of order {n}" for n in (0, 1)},
    **{f"y{n}": f"the Bessel function of the second kind, of order {n}" for n in (0, 1)},
    **{f"i{n}": f"the modified Bessel function of the first kind, of order {n}" for n in (0, 1)},
    **{f"i{n}e": f"i{n}(x) exp(-|x|)" for n in (0, 1)},
    **{f"k{n}": f"the modified Bessel function of the second kind, of order {n}" for n in (0, 1)},
    **{f"k{n}e": f"k{n}(x) exp(x)" for n in (0, 1)},
    "ber": "the Kelvin function ber, the real part of j0(x exp(3 pi i / 4))",
    "bei": "the Kelvin function bei, the imaginary part of j0(x exp(3 pi i / 4))",
    "ker": "the Kelvin function ker, the real part of k0(x exp(pi i / 4))",
    "kei": "the Kelvin function kei, the imaginary part of k0(x exp(pi i / 4))",
    **{f"{name}p": f"the derivative of {name}" for name in ("ber", "bei", "ker", "kei")},
    "kelvin": "the Kelvin functions ber + i bei and ker + i kei, and the derivatives of both",
    "airy": "the Airy functions Ai, Ai', Bi and Bi'",
    "airye": "the Airy functions Ai, Ai', Bi and Bi', exponentially scaled",
    "itairy": "the integrals of Ai and Bi from 0 to x, and of Ai(-t) and Bi(-t)",
    "itj0y0": "the integrals of j0 and y0 from 0 to x",
    "iti0k0": "the integrals of i0 and k0 from 0 to x",
    "it2j0y0": "the integrals of (1 - j0(t)) / t from 0 to x, and of y0(t) / t from x to infinity",
    "it2i0k0": "the integrals of (i0(t) - 1) / t from 0 to x, and of k0(t) / t from x to infinity",
    "struve": "the Struve function of order v",
    "modstruve": "the modified Struve function of order v",
    "itstruve0": "the integral of the Struve function of order 0 from 0 to x",
    "itmodstruve0": "the integral of the modified Struve function of order 0 from 0 to x",
    "it2struve0": "the integral of struve(0, t) / t from x to infinity",
    "besselpoly": "the integral of x**lmb jv(nu, 2 a x) from 0 to 1",
    "wright_bessel": "Wright's generalized Bessel function, sum x**k / (k! gamma(a k + b))",
    "log_wright_bessel": "the logarithm of wright_bessel",
    # elementary functions
    "expit": "1 / (1 + exp(-x))",
    "logit": "log(x / (1 - x))",
    "log_expit": "log(expit(x))",
    "exprel": "(exp(x) - 1) / x",
    "exp2": "2**x",
    "exp10": "10**x",
    "expm1": "exp(x) - 1",
    "log1p": "log(1 + x)",
    "cbrt": "the real cube root",
    "cosm1": "cos(x) - 1",
    "powm1": "x**y - 1",
    "sindg": "the sine of an angle in degrees",
    "cosdg": "the cosine of an angle in degrees",
    "tandg": "the tangent of an angle in degrees",
    "cotdg": "the cotangent of an angle in degrees",
    "radian": "the angle of d degrees, m minutes and s seconds in radians",
    "round": "the nearest integer, of two the even one",
    "xlogy": "x log(y), and 0 where x = 0",
    "xlog1py": "x log(1 + y), and 0 where x = 0",
    "entr": "-x log(x), 0 at x = 0 and -inf below",
    "rel_entr": "x log(x / y), 0 at x = 0 and inf where one is negative",
    "kl_div": "x log(x / y) - x + y, y at x = 0 and inf where one is negative",
    "huber": "r**2 / 2 where |r| <= delta, and delta (|r| - delta / 2) elsewhere",
    "pseudo_huber": "delta**2 (sqrt(1 + (r / delta)**2) - 1)",
    "boxcox": "(x**lmbda - 1) / lmbda, log(x) at lmbda = 0",
    "boxcox1p": "((1 + x)**lmbda - 1) / lmbda, log(1 + x) at lmbda = 0",
    "inv_boxcox": "the x whose boxcox(x, lmbda) is y",
    "inv_boxcox1p": "the x whose boxcox1p(x, lmbda) is y",
    "agm": "the arithmetic-geometric mean",
    # exponential integrals and their like
    "exp1": "the exponential integral of exp(-t) / t from z to infinity",
    "expi": "the exponential integral of exp(t) / t from -inf to x, a principal value",
    "expn": "the exponential integral of exp(-x t) / t**n from 1 to infinity",
    "shichi": "the hyperbolic sine and cosine integrals",
    "sici": "the sine and cosine integrals",
    "spence": "the dilogarithm of 1 - z, the integral of log(t) / (1 - t) from 1 to z",
    "wrightomega": "the solution w of w + log(w) = z",
    # elliptic functions and integrals
    "ellipk": "the complete elliptic integral of the first kind, of the parameter m",
    "ellipkm1": "the complete elliptic integral of the first kind, of the parameter 1 - p",
    "ellipe": "the complete elliptic integral of the second kind, of the parameter m",
    "ellipkinc": "the incomplete elliptic integral of the first kind, of amplitude phi and parameter m",
    "ellipeinc": "the incomplete elliptic integral of the second kind, of amplitude phi and parameter m",
    "ellipj": "Jacobi's elliptic functions sn, cn and dn, and the amplitude",
    "elliprc": "Carlson's degenerate elliptic integral R_C",
    "elliprd": "Carlson's elliptic integral of the second kind R_D",
    "elliprf": "Carlson's elliptic integral of the first kind R_F",
    "elliprg": "Carlson's elliptic integral of the second kind R_G",
    "elliprj": "Carlson's elliptic integral of the third kind R_J",
    # error functions
    "erf": "the error function",
    "erfc": "1 - erf(x)",
    "erfi": "the imaginary error function, -i erf(i z)",
    "erfcx": "exp(z**2) erfc(z)",
    "dawsn": "Dawson's integral, sqrt(pi) / 2 exp(-z**2) erfi(z)",
    "wofz": "the Faddeeva function, exp(-z**2) erfc(-i z)",
    "erfinv": "the x whose erf(x) is y",
    "erfcinv": "the x whose erfc(x) is y",
    "fresnel": "the Fresnel integrals of sin(pi t**2 / 2) and cos(pi t**2 / 2) from 0 to z",
    "owens_t": "Owen's T: the probability that X > h and 0 < Y < a X, for standard normal X and Y",
    "voigt_profile": "the density of the sum of a normal variable and a Cauchy one of half-width gamma",
    # gamma functions
    "gamma": "the gamma function",
    "gammaln": "the logarithm of |gamma(x)|",
    "loggamma": "the principal branch of the logarithm of gamma",
    "rgamma": "1 / gamma(z)",
    "gammasgn": "the sign of gamma(x)",
    "psi": "the digamma function, the derivative of log(gamma(z))",
    "beta": "gamma(a) gamma(b) / gamma(a + b)",
    "betaln": "the logarithm of |beta(a, b)|",
    "poch": "gamma(z + m) / gamma(z)",
    "binom": "the binomial coefficient, x choose y, of real numbers",
    "gammainc": "the regularized lower incomplete gamma function",
    "gammaincc": "the regularized upper incomplete gamma function",
    "gammaincinv": "the x whose gammainc(a, x) is y",
    "gammainccinv": "the x whose gammaincc(a, x) is y",
    "betainc": "the regularized incomplete beta function",
    "betaincc": "1 - betainc(a, b, x)",
    "betaincinv": "the x whose betainc(a, b, x) is y",
    "betainccinv": "the x whose betaincc(a, b, x) is y",
    # polynomials and hypergeometric functions
    "eval_legendre": "the Legendre polynomial P_n(x)",
    "eval_sh_legendre": "the shifted Legendre polynomial P_n(2 x - 1)",
    "eval_chebyt": "the Chebyshev polynomial of the first kind T_n(x)",
    "eval_chebyu": "the Chebyshev polynomial of the second kind U_n(x)",
    "eval_chebyc": "the Chebyshev polynomial C_n(x) = 2 T_n(x / 2)",
    "eval_chebys": "the Chebyshev polynomial S_n(x) = U_n(x / 2)",
    "eval_sh_chebyt": "the shifted Chebyshev polynomial T_n(2 x - 1)",
    "eval_sh_chebyu": "the shifted Chebyshev polynomial U_n(2 x - 1)",
    "eval_gegenbauer": "the Gegenbauer polynomial of degree n and parameter alpha",
    "eval_jacobi": "the Jacobi polynomial of degree n and parameters alpha and beta",
    "eval_sh_jacobi": "the shifted Jacobi polynomial G_n of parameters p and q",
    "eval_laguerre": "the Laguerre polynomial L_n(x)",
    "eval_genlaguerre": "the generalized Laguerre polynomial of degree n and parameter alpha",
    "eval_hermite": "the physicist's Hermite polynomial H_n(x)",
    "eval_hermitenorm": "the probabilist's Hermite polynomial He_n(x)",
    "lpmv": "the associated Legendre function of order m and degree v",
    "hyp0f1": "the confluent hypergeometric limit function 0F1",
    "hyp1f1": "Kummer's confluent hypergeometric function 1F1",
    "hyp2f1": "Gauss's hypergeometric function 2F1",
    "hyperu": "Tricomi's confluent hypergeometric function U",
    "pbdv": "the parabolic cylinder function D_v(x) and its derivative",
    "pbvv": "the parabolic cylinder function V_v(x) and its derivative",
    "pbwa": "the parabolic cylinder function W(a, x) and its derivative",
    # distributions
    "ndtr": "the normal distribution function",
    "log_ndtr": "log(ndtr(x))",
    "ndtri": "the normal quantile: the x whose ndtr(x) is y",
    "ndtri_exp": "the x whose log_ndtr(x) is y",
    "chdtr": "the chi-square distribution function with v degrees of freedom",
    "chdtrc": "1 - chdtr(v, x)",
    "chdtri": "the x whose chdtrc(v, x) is p",
    "chdtriv": "the v whose chdtr(v, x) is p",
    "gdtr": "the gamma distribution function of rate a and shape b",
    "gdtrc": "1 - gdtr(a, b, x)",
    "gdtria": "the a whose gdtr(a, b, x) is p",
    "gdtrib": "the b whose gdtr(a, b, x) is p",
    "gdtrix": "the x whose gdtr(a, b, x) is p",
    "pdtr": "the probability of at most k events of Poisson's distribution of mean m",
    "pdtrc": "1 - pdtr(k, m)",
    "pdtri": "the m whose pdtr(k, m) is y",
    "pdtrik": "the k whose pdtr(k, m) is p",
    "btdtria": "the a whose betainc(a, b, x) is p",
    "btdtrib": "the b whose betainc(a, b, x) is p",
    "bdtr": "the probability of at most k successes in n trials of probability p",
    "bdtrc": "1 - bdtr(k, n, p)",
    "bdtri": "the p whose bdtr(k, n, p) is y",
    "nbdtr": "the probability of at most k failures before n successes of probability p",
    "nbdtrc": "1 - nbdtr(k, n, p)",
    "nbdtri": "the p whose nbdtr(k, n, p) is y",
    "fdtr": "the F distribution function with dfn and dfd degrees of freedom",
    "fdtrc": "1 - fdtr(dfn, dfd, x)",
    "fdtri": "the x whose fdtr(dfn, dfd, x) is p",
    "stdtr": "Student's t distribution function with df degrees of freedom",
    "stdtrit": "the t whose stdtr(df, t) is p",
    "nrdtrimn": "the mean with which a normal variable of deviation std is below x with probability p",
    "nrdtrisd": "the deviation with which a normal variable of mean mn is below x with probability p",
    "chndtr": "the noncentral chi-square distribution function with df degrees of freedom",
    "chndtrix": "the x whose chndtr(x, df, nc) is p",
    "chndtrinc": "the nc whose chndtr(x, df, nc) is p",
    "kolmogorov": "the probability that Kolmogorov's limiting statistic is above y",
    "kolmogi": "the y whose kolmogorov(y) is p",
    "tklmbda": "the distribution function of Tukey's lambda distribution",
}

_SLOPES = {  # of those that fgrad computes itself, of one argument
    "expit": "expit(x) (1 - expit(x))",
    "cbrt": "1 / (3 cbrt(x)**2)",
    "erf": "2 exp(-x**2) / sqrt(pi)",
    "erfc": "-2 exp(-x**2) / sqrt(pi)",
    "exp2": "exp2(x) log(2)",
    "expm1": "exp(x)",
    "log1p": "1 / (1 + x)",
}
_AT: dict[str, float] = {  # where examples show functions, by the names of arguments
    **dict.fromkeys(("x", "z", "a", "r", "t", "h", "phi", "u", "m"), 0.5),
    **dict.fromkeys(("y", "p"), 0.25),
    **dict.fromkeys(
        ("b", "alpha", "beta", "lmbda", "delta", "sigma", "gamma", "nu", "lmb", "v", "c", "q"), 1.5
    ),
    **dict.fromkeys(("n", "d", "dfn"), 2),
    "k": 1,
    **dict.fromkeys(("s", "df", "dfd", "nc", "std", "mn"), 3.0),
}
_ELSEWHERE: dict[str, tuple[float, ...]] = {  # where values there are zero, or NaN
    "logit": (0.25,),
    "round": (2.5,),
    "ndtri_exp": (-1.5,),
    "eval_chebyu": (2, 0.25),
    "lpmv": (1, 2, 0.5),
    "pdtrik": (0.25, 3.0),
    "chndtrinc": (2.0, 3.0, 0.25),
}
_COUNTS = {1: "Array", 2: "Two arrays", 4: "Four arrays"}
_DOC = """Return {what}.

Args:
    {arguments}: {given}.{order}
    kw: {keywords}.

Returns:
    {count} of {shape}: {dtype}.

Raises:{errors}

Derivative:
    {derivative}.

Example:
    {example}
"""


def described(f: Special) -> str:
    """Return the docstring of one of SciPy's universal functions."""
    rows = [TABLE[p] for p in f.primitives if p in TABLE]
    names = rows[0].arguments.split() if rows else ["x"]
    whole = bool(rows) and rows[0].whole
    unknown = constants(f.__name__) if rows else set()
    one = len(names) == 1
    errors = _errors(f, [names[i] for i in sorted(unknown)], is_complex=all(row.complex for row in rows))
    errors += [f"ValueError: `{names[0]}` of Tensors is not whole."] if whole else []
    doc = _DOC if errors else _DOC.replace("\nRaises:{errors}\n", "")
    return doc.format(
        what=WHAT[f.__name__],
        arguments=", ".join(names),
        given="array, number or Tensor" if one else "arrays, numbers or Tensors whose shapes broadcast",
        order=f" `{names[0]}` holds integers." if whole else "",
        keywords=f"NumPy's: {'of arrays alone' if f.nout > 1 else '`out`, `where`, `dtype` and `casting`'}",
        count=_COUNTS[f.nout],
        shape=f"the shape of `{names[0]}`" if one else "the shape to which they broadcast",
        dtype=_dtype(f),
        errors="".join(f"\n    {error}" for error in errors),
        derivative=_derivative(f, names, unknown),
        example="\n    ".join(_example(f, names, unknown)),
    )


def _dtype(f: Special) -> str:
    loops = [loop.partition("->")[::2] for loop in f.types]
    made = {bool({*"FD"} & {*results}) for _, results in loops}
    kind = "floats" if False in made else "complex numbers"
    kind += ", complex numbers of complex arguments" if len(made) > 1 else ""
    single = any({*given, *results} <= {*"fF"} for given, results in loops)
    return kind + (".\n    Single precision where all arguments are" if single else "")


def _errors(f: Special, unknown: Sequence[str], *, is_complex: bool) -> list[str]:
    wrong = [f"{_listed(unknown, 'or')} is differentiated"] if unknown else []
    if not any({*"FD"} & {*loop.partition("->")[0]} for loop in f.types):
        wrong.append("a Tensor is complex")
    elif not is_complex:
        wrong.append("a complex Tensor is differentiated")
    if f.nout > 1:
        wrong.append("there are keywords beside a Tensor")
    return [f"TypeError: {', or '.join(wrong)}."] if wrong else []


def _listed(names: Sequence[str], word: str) -> str:
    *others, last = (f"`{name}`" for name in names)
    return f"{', '.join(others)} {word} {last}" if others else last


def _derivative(f: Special, names: Sequence[str], unknown: Collection[int]) -> str:
    rows = [TABLE[p] for p in f.primitives if p in TABLE]
    if not rows:
        return f"`{_SLOPES[f.__name__]}`"
    source = ", ".join(dict.fromkeys(part for row in rows for part in row.source.split(", ")))
    if rows[0].slopes is None:
        return f"Zero, at jumps too: {source}"
    known, others = ([n for i, n in enumerate(names) if (i in unknown) == c] for c in (False, True))
    where = f"section{'s' * (',' in source)} {source} of dlmf.nist.gov" if source[:1].isdigit() else source
    missing = f". None is known in {_listed(others, 'and')}" if others else ""
    return f"In {_listed(known, 'and')}: {where}{missing}"


def point(function: str, names: Sequence[str]) -> tuple[float, ...]:
    """Return where an example shows a function of arguments called `names`."""
    return _ELSEWHERE.get(function) or tuple(_AT[name] for name in names)


def _example(f: Special, names: Sequence[str], unknown: Collection[int]) -> list[str]:
    """Return the lines of an example: a value, and the slope in the last argument that has one."""
    name, at = f.__name__, point(f.__name__, names)
    value = f.ufunc(*at)
    place = max(i for i in range(len(names)) if i not in unknown)
    part = "[0]" if f.nout > 1 else ""
    part += ".real" if np.iscomplexobj(value[0] if f.nout > 1 else value) else ""

    def shown(x: Any) -> Any:
        found = f(*at[:place], x, *at[place + 1 :])
        found = found[0] if f.nout > 1 else found
        return found.real if part.endswith(".real") else found

    given = ", ".join("x" if i == place else repr(v) for i, v in enumerate(at))
    return [
        f">>> fg.scipy.special.{name}({', '.join(map(repr, at))})",
        repr(value).replace(", np", ",\n     np"),
        f">>> fg.grad(lambda x: fg.scipy.special.{name}({given}){part})({at[place]!r})",
        repr(grad(shown)(at[place])),
    ]
