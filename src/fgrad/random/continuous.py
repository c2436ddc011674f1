"""Continuous distributions: samples are differentiable functions of the parameters at fixed randomness.

With a Generator the samples are those that NumPy's method of the same name draws, in the same order, but
where the docstring says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.aval import Shape
from fgrad.core.dispatch import bind
from fgrad.docstrings import completes
from fgrad.numpy.indexing import stop_gradient
from fgrad.ops import functions
from fgrad.ops.linear import convert, reshape, sum_axes, transpose
from fgrad.random.keys import lengths
from fgrad.random.sources import (
    closed,
    demand,
    drawn,
    exponentials,
    given,
    inner,
    is_generator,
    keyed,
    normals,
    plain,
    read,
    sent,
    several,
    size_of,
    spread,
    standard,
)  # fmt: skip

FLOAT64 = np.float64

_sampler = completes(
    {
        "source": "Generator or key.",
        "size": "shape of the result; None is that to which the parameters broadcast.",
        "dtype": "floating-point dtype of the samples.",
    },
    Returns="Samples of shape `size`, of `dtype`; a Tensor if an argument is one, else NumPy's array or "
    "scalar.",
    Derivative="That of each sample as a function of the parameters, at fixed randomness.",
)


@_sampler
def normal(source: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the normal distribution with mean `loc` and standard deviation `scale`.

    Args:
        loc: mean.
        scale: standard deviation, not negative.

    Raises:
        ValueError: `scale` is negative, or the parameters do not broadcast to `size`.

    Derivative:
        1 in `loc`, and the standardised sample in `scale`.

    Example:
        >>> float(normal(np.random.default_rng(1), 0.0, 2.0)) == 2 * np.random.default_rng(1).normal()
        True
    """
    loc, scale, z = standard(normals, source, size, dtype, loc, scale=scale)
    return loc + scale * z


@_sampler
def uniform(source: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the uniform distribution on [low, high).

    Args:
        low: least sample.
        high: end of the interval, which a sample may be rounded to, as in NumPy.

    Derivative:
        1 - u in `low` and u in `high`, where u is the fraction of the way.

    Example:
        >>> x = fg.random.uniform(fg.random.key(0), 1.0, 2.0, (100,))
        >>> bool(((x >= 1) & (x < 2)).all())
        True
    """
    low, high, u = standard(closed, source, size, dtype, low, high)
    return low + (high - low) * u


@_sampler
def exponential(source: Any, scale: Any = 1.0, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the exponential distribution with mean `scale`.

    Args:
        scale: mean, not negative.

    Example:
        >>> fg.random.exponential(fg.random.key(0), np.array([1.0, 2.0])).shape
        (2,)
    """
    scale, x = standard(exponentials, source, size, dtype, scale=scale)
    return scale * x


@_sampler
def gumbel(source: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the Gumbel distribution: `loc` - `scale` log(-log u).

    Args:
        loc: mode.
        scale: not negative.

    Example:
        >>> fg.random.gumbel(fg.random.key(0), size=(2, 3)).shape
        (2, 3)
    """
    loc, scale, u = standard(inner, source, size, dtype, loc, scale=scale)
    return loc - scale * functions.log(-functions.log1p(-u))


@_sampler
def laplace(source: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the Laplace distribution: exponential ones on both sides of `loc`.

    Args:
        loc: mean.
        scale: not negative.

    Example:
        >>> fg.random.laplace(fg.random.key(0), size=(2, 3)).shape
        (2, 3)
    """
    loc, scale, u = standard(inner, source, size, dtype, loc, scale=scale)
    upper = functions.greater_equal(u, 0.5)
    size_log = functions.log(functions.where(upper, 2.0 - u - u, u + u))
    return loc + scale * functions.where(upper, -size_log, size_log)


@_sampler
def logistic(source: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the logistic distribution: `loc` + `scale` log(u / (1 - u)).

    Args:
        loc: mean.
        scale: not negative.

    Example:
        >>> fg.random.logistic(fg.random.key(0), size=(2, 3)).shape
        (2, 3)
    """
    loc, scale, u = standard(inner, source, size, dtype, loc, scale=scale)
    return loc + scale * functions.log(u / (1.0 - u))


@_sampler
def lognormal(source: Any, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples whose logarithm is normal with mean `mean` and standard deviation `sigma`.

    Args:
        mean: that of the logarithm.
        sigma: deviation of the logarithm, not negative.

    Example:
        >>> fg.random.lognormal(fg.random.key(0), size=(2, 3)).shape
        (2, 3)
    """
    mean, sigma, z = standard(normals, source, size, dtype, mean, sigma=sigma)
    return functions.exp(mean + sigma * z)


@_sampler
def weibull(source: Any, a: Any, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the Weibull distribution of shape `a`: the power 1 / a of exponential ones.

    Args:
        a: shape, positive.

    Raises:
        ValueError: `a` is not positive (NumPy takes zero too, and returns zeros).

    Example:
        >>> fg.random.weibull(fg.random.key(0), 2.0, (2, 3)).shape
        (2, 3)
    """
    a, x = standard(exponentials, source, size, dtype, a=a)
    return functions.power(x, 1.0 / a)


@_sampler
def pareto(source: Any, a: Any, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the Pareto II (Lomax) distribution of shape `a`.

    Args:
        a: shape, positive.

    Example:
        >>> fg.random.pareto(fg.random.key(0), 3.0, (2, 3)).shape
        (2, 3)
    """
    a, x = standard(exponentials, source, size, dtype, a=a)
    return functions.expm1(x / a)


@_sampler
def power(source: Any, a: Any, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples in [0, 1] of density a x**(a - 1).

    Args:
        a: shape, positive.

    Example:
        >>> fg.random.power(fg.random.key(0), 3.0, (2, 3)).shape
        (2, 3)
    """
    a, x = standard(exponentials, source, size, dtype, a=a)
    return functions.power(-functions.expm1(-x), 1.0 / a)


@_sampler
def rayleigh(source: Any, scale: Any = 1.0, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the Rayleigh distribution: lengths of normal vectors in the plane.

    Args:
        scale: mode, not negative.

    Example:
        >>> fg.random.rayleigh(fg.random.key(0), size=(2, 3)).shape
        (2, 3)
    """
    scale, x = standard(exponentials, source, size, dtype, scale=scale)
    return scale * functions.sqrt(2.0 * x)


@_sampler
def cauchy(source: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the Cauchy distribution: quotients of normal numbers.

    Args:
        loc: median.
        scale: half of the width at half of the height, not negative.

    Example:
        >>> fg.random.cauchy(fg.random.key(0), size=(2, 3)).shape
        (2, 3)
    """
    kind, loc, scale = read(dtype, loc, scale=scale)
    pairs = normals(source, (*size_of(size, loc, scale), 2), kind, loc, scale)
    return loc + scale * (pairs[..., 0] / pairs[..., 1])


@_sampler
def triangular(source: Any, left: Any, mode: Any, right: Any, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the triangular distribution on [left, right] with its peak at `mode`.

    Args:
        left: least sample.
        mode: where the peak is.
        right: largest sample.

    Raises:
        ValueError: not left <= mode <= right, or left == right.

    Example:
        >>> fg.random.triangular(fg.random.key(0), 0.0, 1.0, 2.0, (2, 3)).shape
        (2, 3)
    """
    kind, left, mode, right = read(dtype, left, mode, right)
    demand("mode - left", mode - left)
    demand("right - mode", right - mode)
    demand("right - left", right - left, positive=True)
    u = closed(source, size_of(size, left, mode, right), kind, left, mode, right)
    base = right - left
    ahead = bind("less_equal", u, (mode - left) / base)
    rise = functions.where(ahead, u * (mode - left), (1.0 - u) * (right - mode))
    way = functions.sqrt(rise * base)
    return functions.where(ahead, left + way, right - way)


@_sampler
def truncated_normal(
    source: Any,
    lower: Any,
    upper: Any,
    loc: Any = 0.0,
    scale: Any = 1.0,
    size: Any = None,
    dtype: Any = FLOAT64,
) -> Any:
    """Return samples of the normal distribution with mean `loc` and deviation `scale` between two limits.

    Args:
        source: Generator or key; one uniform number is drawn per sample.
        lower: lower limit of the samples; may be -inf.
        upper: upper limit of the samples; may be inf.
        loc: mean before truncation.
        scale: standard deviation before truncation, positive.
        size: shape of the result.

    Raises:
        ValueError: `scale` is not positive, or `lower` is not below `upper`.

    Derivative:
        That of the quantile function, in all four parameters; accurate in the tails too.

    Example:
        >>> x = fg.random.truncated_normal(fg.random.key(0), 0.0, 1.0, size=(100,))
        >>> bool(((x >= 0) & (x <= 1)).all())
        True
    """
    _, lower, upper, loc, scale = read(dtype, lower, upper, loc, scale)
    demand("scale", scale, positive=True)
    with np.errstate(invalid="ignore"):
        demand("upper - lower", upper - lower, positive=True)
    shape = size_of(size, lower, upper, loc, scale)
    word = convert(
        inner(source, shape, np.dtype(float), lower, upper, loc, scale) * 2.0**52, np.dtype(np.int64)
    )
    limits = (_standard(x, loc, scale) for x in (lower, upper))
    return loc + scale * bind("normal_between", word, *limits)


def _standard(limit: Any, loc: Any, scale: Any) -> Any:
    """Return a limit of the standardised sample; an infinite one does not depend on the parameters."""
    finite = functions.isfinite(limit)
    return functions.where(finite, (functions.where(finite, limit, 0.0) - loc) / scale, limit)


# ---- distributions of which gamma variables are the parts


def _log_gamma_values(source: Any, shape: Any) -> Any:
    """Return the logarithms of gamma samples as constants: accurate also where samples underflow.

    A gamma variable of shape a is one of shape a + 1 times u**(1/a) (Stuart 1962).
    """
    first, second = several(source, 2)
    size, kind = tuple(shape.shape), np.dtype(float)
    wide = stop_gradient(convert(shape, kind))
    larger = drawn(first, "standard_gamma", {"shape": wide + 1.0}, size, kind, size=size)
    small = functions.log(inner(second, size, kind)) / wide
    return convert(functions.log(larger) + small, shape.dtype)


def _log_gamma(source: Any, shape: Any) -> Any:
    return bind("log_gamma", _log_gamma_values(source, shape), shape)


def _following(z: Any, y0: Any, y: Any) -> Any:
    """Return the sample `z`, bit by bit, with the derivative that its logarithm `y`, of value `y0`, has."""
    return z * functions.exp(y - y0)


def _standard_gamma(source: Any, shape: Any) -> Any:
    source = keyed(source, shape)
    if not is_generator(source):
        return functions.exp(_log_gamma(source, shape))
    z = np.asarray(source.standard_gamma(plain(shape)), shape.dtype)
    with np.errstate(divide="ignore"):
        y = np.log(np.where(z > 0, z, 1))  # a sample that underflowed stays zero
    return _following(z, y, bind("log_gamma", y, shape))


def _log_standard_gamma(source: Any, shape: Any) -> Any:
    """Return logarithms of gamma samples, of which quotients neither overflow nor are NaN."""
    source = keyed(source, shape)
    if not is_generator(source):
        return _log_gamma(source, shape)
    with np.errstate(divide="ignore"):  # those of a Generator may have underflowed
        return functions.log(_standard_gamma(source, shape))


@_sampler
def gamma(source: Any, shape: Any, scale: Any = 1.0, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the gamma distribution of shape `shape` and scale `scale`.

    Args:
        shape: shape parameter, positive (NumPy takes zero too, and returns zeros).
        scale: scale, not negative.
        size: shape of the result.

    Raises:
        ValueError: a parameter is out of range.

    Derivative:
        In `shape` that of the quantile function, -(dP/da) / p, to every order.

    Source:
        Figurnov, Mohamed & Mnih (2018), Implicit reparameterization gradients.

    Example:
        >>> fg.random.gamma(fg.random.key(0), 2.0, size=(2, 3)).shape
        (2, 3)
    """
    _, shape, scale = read(dtype, shape=shape, scale=scale)
    return scale * sent(_standard_gamma(source, spread(shape, size_of(size, shape, scale))), scale)


@_sampler
def chisquare(source: Any, df: Any, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the chi-square distribution with `df` degrees of freedom.

    Args:
        df: degrees of freedom, positive.

    Derivative:
        That of the quantile function (implicit), to every order.

    Example:
        >>> fg.random.chisquare(fg.random.key(0), 3.0, (2, 3)).shape
        (2, 3)
    """
    _, df = read(dtype, df=df)
    return 2.0 * _standard_gamma(source, spread(df / 2.0, size_of(size, df)))


@_sampler
def student_t(
    source: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = FLOAT64
) -> Any:
    """Return samples of Student's t distribution with `df` degrees of freedom, moved by `loc` and scaled.

    They are a normal over the root of a chi-square sample; all normal ones are drawn first, so with a
    Generator they are those of NumPy's `standard_t` for a single sample only.

    Args:
        df: degrees of freedom, positive.
        loc: median.
        scale: not negative.

    Derivative:
        In `df` that of the quantile function (implicit), to every order; the others move and stretch the
        sample.

    Example:
        >>> fg.random.student_t(fg.random.key(0), 3.0, size=(2, 3)).shape
        (2, 3)
    """
    kind, loc, df, scale = read(dtype, loc, df=df, scale=scale)
    shape = size_of(size, df, loc, scale)
    first, second = several(source, 2)
    top = normals(first, shape, kind, df, loc, scale)
    half = spread(df / 2.0, shape)
    width = functions.exp(0.5 * (functions.log(half) - _log_standard_gamma(second, half)))
    return loc + scale * (top * sent(width, loc, scale))


@_sampler
def f(source: Any, dfnum: Any, dfden: Any, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the F distribution: quotients of mean squares of `dfnum` and `dfden` normal numbers.

    All numerators are drawn first, so with a Generator they are NumPy's for a single sample only.

    Args:
        dfnum: degrees of freedom of the numerator, positive.
        dfden: those of the denominator, positive.

    Derivative:
        That of the quantile function (implicit), to every order.

    Example:
        >>> fg.random.f(fg.random.key(0), 2.0, 5.0, (2, 3)).shape
        (2, 3)
    """
    _, dfnum, dfden = read(dtype, dfnum=dfnum, dfden=dfden)
    shape = size_of(size, dfnum, dfden)
    top, bottom = (
        sent(_log_standard_gamma(s, spread(df / 2.0, shape)) - functions.log(df), dfnum, dfden)
        for s, df in zip(several(source, 2), (dfnum, dfden), strict=True)
    )
    return functions.exp(top - bottom)


@_sampler
def beta(source: Any, a: Any, b: Any, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the beta distribution on (0, 1).

    Args:
        a: first shape, positive.
        b: second shape, positive.

    Derivative:
        That of the quantile function, -(dI/da) / p and -(dI/db) / p, to every order.

    Source:
        Figurnov, Mohamed & Mnih (2018), Implicit reparameterization gradients.

    Example:
        >>> fg.random.beta(fg.random.key(0), 2.0, 3.0, (2, 3)).shape
        (2, 3)
    """
    kind, a, b = read(dtype, a=a, b=b)
    shape = size_of(size, a, b)
    source = keyed(source, a, b)
    a, b = (sent(spread(x, shape), a, b) for x in (a, b))
    if not is_generator(source):
        first, second = several(source, 2)
        y = _log_gamma_values(first, a) - _log_gamma_values(second, b)
        return functions.exp(-bind("logaddexp", -bind("logit_beta", y, a, b), 0.0))
    x = np.asarray(source.beta(plain(a), plain(b)), kind)
    inside = (x > 0) & (x < 1)  # one that underflowed, or was rounded to one, stays
    safe = np.where(inside, x, 0.5)
    y = np.log(safe) - np.log1p(-safe)
    growth = functions.exp(bind("logit_beta", y, a, b) - y)
    moved = x * growth / (1.0 + x * (growth - 1.0))
    return given(functions.where(inside, moved, x), a, b)


def dirichlet(source: Any, alpha: Any, size: Any = None, dtype: Any = FLOAT64) -> Any:
    """Return samples of the Dirichlet distribution: gamma variables of shapes `alpha` divided by their sum.

    Args:
        source: Generator or key. With a Generator samples are NumPy's, but where all of `alpha` are below
            0.1:
            there they are computed by logarithms, so that none is NaN and gradients stay accurate.
        alpha: positive, of shape (..., k); leading axes are those of many distributions.
        size: shape of the result without the last axis; None is that of `alpha`.
        dtype: floating-point dtype of the samples.

    Returns:
        Samples of shape (*size, n) for n concentrations, of `dtype`; each sums to one. A Tensor if an
        argument is one.

    Derivative:
        That of the gamma variables (implicit), through the quotient.

    Example:
        >>> float(fg.random.dirichlet(fg.random.key(0), np.ones(3)).sum().round(6))
        1.0
    """
    _, alpha = read(dtype, alpha=alpha)
    if not alpha.shape:
        raise ValueError("alpha must have at least one axis")
    lead: Shape = tuple(alpha.shape[:-1]) if size is None else lengths(size)
    shapes = spread(alpha, (*lead, alpha.shape[-1]))
    axis = len(lead)
    kept = (*lead, 1)
    source = keyed(source, alpha)
    if is_generator(source) and (not alpha.size or np.max(plain(alpha)) >= 0.1):
        z = _standard_gamma(source, shapes)
        return z / reshape(sum_axes(z, (axis,)), kept)
    y = _log_gamma(source, shapes)
    return bind("softmax", y, axes=(axis,))


def multivariate_normal(
    source: Any, mean: Any, cov: Any, size: Any = None, *, method: str = "cholesky", dtype: Any = FLOAT64
) -> Any:
    """Return samples of the normal distribution with mean vector `mean` and covariance matrix `cov`.

    Args:
        source: Generator or key. With a Generator samples are NumPy's with `method="cholesky"`.
        mean: vector of length d.
        cov: positive definite matrix (d, d).
        size: shape of the result without the last axis.
        method: "cholesky": the factors that NumPy offers beside it have no derivative where eigenvalues meet.
        dtype: floating-point dtype of the samples.

    Returns:
        Samples of shape (*size, n), of `dtype`; a Tensor if an argument is one.

    Raises:
        LinAlgError: `cov` is not positive definite.
        ValueError: incompatible shapes, or another method.

    Derivative:
        Through mean + L z with cov = L L^T, in `mean` and `cov`.

    Example:
        >>> fg.random.multivariate_normal(fg.random.key(0), np.zeros(2), np.eye(2), (5,)).shape
        (5, 2)
    """
    if method != "cholesky":
        raise ValueError(f"multivariate_normal differentiates through method='cholesky', not {method!r}")
    kind, mean, cov = read(dtype, mean, cov)
    if len(mean.shape) != 1 or tuple(cov.shape) != (mean.shape[0],) * 2:
        raise ValueError(
            f"mean of shape {tuple(mean.shape)} and cov of shape {tuple(cov.shape)} are incompatible"
        )
    noise = normals(source, (*lengths(size), mean.shape[0]), kind, mean, cov)
    factor = np.linalg.cholesky(cov)
    return mean + np.matmul(noise, transpose(factor, (1, 0)))
