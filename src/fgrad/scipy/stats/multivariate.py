"""Densities of random vectors and matrices, with SciPy's signatures."""

from __future__ import annotations

import math
from typing import Any

import fgrad.numpy as fnp
from fgrad.numpy.reductions import inexact
from fgrad.scipy.stats.families import special


class _Density:
    """A distribution of which densities are computed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__doc__ = f"The distribution scipy.stats.{name}: densities, with derivatives in all parameters."

    def __repr__(self) -> str:
        return f"<distribution fgrad.scipy.stats.{self.name}>"

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        raise AttributeError(
            f"fgrad.scipy.stats.{self.name} has no {method}; it has pdf, logpdf. "
            f"scipy.stats.{self.name} may have it, for arrays"
        )

    def logpdf(self, x: Any, *args: Any, **kw: Any) -> Any:
        """Return the logarithm of the density at `x`."""
        raise NotImplementedError

    def pdf(self, x: Any, *args: Any, **kw: Any) -> Any:
        """Return the density at `x`; arguments as of `logpdf`."""
        return fnp.exp(self.logpdf(x, *args, **kw))


def _located(x: Any, mean: Any, matrix: Any) -> tuple[Any, Any, Any]:
    """Return x - mean with a last axis for components, and factor and log determinant of `matrix`."""
    x, matrix = inexact(x), inexact(matrix)
    mean = None if mean is None else inexact(mean)
    n = matrix.shape[-1] if matrix.ndim else mean.shape[-1] if mean is not None and mean.ndim else 1
    if matrix.ndim < 2:  # one variance for all components, or one for each
        matrix = fnp.eye(n, dtype=matrix.dtype) * matrix
    x = x if mean is None else x - mean
    if not x.ndim or (x.shape[-1] != n and n == 1):
        x = x[..., None]
    elif x.ndim == 1 and n == 1:
        x = x[:, None]
    factor = fnp.linalg.cholesky(matrix)
    return x, factor, 2 * fnp.sum(fnp.log(fnp.diagonal(factor)))


def _squares(x: Any, factor: Any) -> Any:
    """Return the squared length of each row of `x` in the metric of the matrix."""
    flat = fnp.reshape(x, (-1, x.shape[-1]))
    scaled = fnp.linalg.solve(factor, flat.T)
    return fnp.reshape(fnp.sum(scaled * scaled, axis=0), x.shape[:-1])


class _Normal(_Density):
    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Return the logarithm of the density at `x`, whose last axis holds the components.

        Args:
            x: array of shape (..., n); one dimension fewer where n is 1.
            mean: array of shape (n,); None: zeros.
            cov: positive definite matrix, or the variances, or one for all.
            allow_singular: has to be False: a density on a subspace jumps with the matrix.

        Raises:
            LinAlgError: `cov` is not positive definite.
            ValueError: `allow_singular` is True.
        """
        if allow_singular:
            raise ValueError(
                "multivariate_normal: the density of a singular covariance jumps with it, so it has no "
                "derivative; add a small multiple of the identity matrix, or use scipy.stats"
            )
        x, factor, logdet = _located(x, mean, cov)
        n = factor.shape[-1]
        return -0.5 * (n * math.log(2 * math.pi) + logdet + _squares(x, factor))


class _T(_Density):
    def logpdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Return the logarithm of the density at `x`, whose last axis holds the components.

        Args:
            x: array of shape (..., n); one dimension fewer where n is 1.
            loc: array of shape (n,); None: zeros.
            shape: positive definite matrix, or its diagonal, or one number for all of it.
            df: degrees of freedom, a positive number.

        Raises:
            LinAlgError: `shape` is not positive definite.
        """
        x, factor, logdet = _located(x, loc, shape)
        n, df = factor.shape[-1], inexact(df)
        norm = special.gammaln((df + n) / 2) - special.gammaln(df / 2) - n / 2 * fnp.log(df * math.pi)
        return norm - 0.5 * logdet - (df + n) / 2 * fnp.log1p(_squares(x, factor) / df)


class _Dirichlet(_Density):
    def logpdf(self, x: Any, alpha: Any) -> Any:
        """Return the logarithm of the density at `x`, whose first axis holds the components.

        Args:
            x: array of shape (n, ...), or (n - 1, ...) without the last component; they sum to one.
            alpha: array of shape (n,), positive.

        Raises:
            ValueError: the lengths do not fit, or what is known of `x` does not sum to one.
        """
        x, alpha = inexact(x), inexact(alpha)
        if x.shape[0] + 1 == alpha.shape[0]:
            x = fnp.concatenate([x, 1 - fnp.sum(x, axis=0, keepdims=True)])
        if x.shape[0] != alpha.shape[0]:
            raise ValueError(
                f"dirichlet: x has {x.shape[0]} components along its first axis, alpha has {alpha.shape[0]}"
            )
        weights = fnp.reshape(alpha - 1, (-1, *(1,) * (x.ndim - 1)))
        norm = special.gammaln(fnp.sum(alpha)) - fnp.sum(special.gammaln(alpha))
        return norm + fnp.sum(special.xlogy(weights, x), axis=0)


class _Wishart(_Density):
    def logpdf(self, x: Any, df: Any, scale: Any) -> Any:
        """Return the logarithm of the density at `x`, a positive definite matrix.

        Args:
            x: array of shape (n, n), or (n, n, ...) for several matrices.
            df: degrees of freedom, at least n.
            scale: positive definite matrix of shape (n, n), or the diagonal, or one number.

        Raises:
            LinAlgError: a matrix is not positive definite.
        """
        x, df, scale = inexact(x), inexact(df), inexact(scale)
        if scale.ndim < 2:
            scale = fnp.eye(max(scale.size, 1), dtype=scale.dtype) * scale
        n = scale.shape[-1]
        if x.ndim < 2:
            x = fnp.reshape(x, (1, 1, *x.shape)) if n == 1 else fnp.diag(x)
        matrices = fnp.moveaxis(x, (0, 1), (-2, -1))
        factor, own = fnp.linalg.cholesky(scale), fnp.linalg.cholesky(matrices)
        logdet, own_logdet = (
            2 * fnp.sum(fnp.log(fnp.diagonal(m, axis1=-2, axis2=-1)), axis=-1) for m in (factor, own)
        )
        scaled = fnp.linalg.solve(factor, own)
        trace = fnp.sum(scaled * scaled, axis=(-2, -1))
        norm = -df * n / 2 * math.log(2) - df / 2 * logdet - special.multigammaln(df / 2, n)
        return norm + (df - n - 1) / 2 * own_logdet - trace / 2


multivariate_normal: _Normal = _Normal("multivariate_normal")
multivariate_t: _T = _T("multivariate_t")
dirichlet: _Dirichlet = _Dirichlet("dirichlet")
wishart: _Wishart = _Wishart("wishart")
