"""Densities of random vectors and matrices, with SciPy's signatures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fgrad.numpy as fnp
from fgrad.core.tensor import is_abstract
from fgrad.extend.engine import completed, inexact
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.stats.families import Named, special


class _Density(Named):
    """A distribution of which densities are computed."""

    methods: tuple[str, ...] = ("pdf", "logpdf")

    def __init__(self, name: str) -> None:
        self.name = name

    def logpdf(self, x: Any, *args: Any, **kw: Any) -> Any:
        """Return the logarithm of the density at `x`."""
        raise NotImplementedError

    def pdf(self, x: Any, *args: Any, **kw: Any) -> Any:
        """Return the density at `x`; arguments as of `logpdf`."""
        return fnp.exp(self.logpdf(x, *args, **kw))


def _located(x: Any, mean: Any, matrix: Any) -> tuple[Any, Any]:
    """Return x - mean with a last axis for components, and `matrix` as one."""
    x, mean = inexact(x), None if mean is None else inexact(mean)
    matrix = _square(mean, matrix)
    n = matrix.shape[-1]
    x = x if mean is None else x - mean
    if not x.ndim or (x.shape[-1] != n and n == 1):
        x = x[..., None]
    elif x.ndim == 1 and n == 1:
        x = x[:, None]
    return x, matrix


def _square(mean: Any, matrix: Any) -> Any:
    """Return a matrix, which may be given by one variance for all components, or by one for each."""
    matrix = inexact(matrix)
    if matrix.ndim > 2:
        raise ValueError(f"the matrix has {matrix.ndim} axes; map over several with vmap")
    n = matrix.shape[-1] if matrix.ndim else mean.shape[-1] if mean is not None and mean.ndim else 1
    return matrix if matrix.ndim > 1 else fnp.eye(n, dtype=matrix.dtype) * matrix


def _factored(matrix: Any) -> tuple[Any, Any]:
    """Return the Cholesky factor of a matrix, and the logarithm of its determinant."""
    factor = fnp.linalg.cholesky(matrix)
    return factor, 2 * fnp.sum(fnp.log(fnp.diagonal(factor)))


class _Support:
    """A positive semidefinite matrix on the subspace that it spans, as that changes with the matrix.

    With p = 1 - q, where q projects on this subspace as it is, and with the pseudo-inverse a^+, the logarithm
    of the product of the eigenvalues that are not zero is log det(q a q + p) - log det(q a a^+ q + p): for a
    basis v, a = u d u^T gives det(v^T a v) = det(d) det(v^T u)^2 and det(v^T a a^+ v) = det(v^T u)^2. So
    derivatives are those along matrices of the same rank, of every order, for equal eigenvalues too.
    """

    def __init__(self, matrix: Any) -> None:
        matrix = completed(matrix)
        fixed = stop_gradient(matrix)
        w, v = fnp.linalg.eigh(fixed)
        eps = np.finfo(w.dtype).eps * (1e3 if w.dtype == np.float32 else 1e6)  # SciPy's tolerance
        limit = eps * fnp.max(fnp.abs(w))
        if not is_abstract(w) and bool(fnp.min(w) < -limit):
            raise ValueError("multivariate_normal: the matrix must be symmetric and positive semidefinite")
        kept = fnp.where(w > limit, fnp.ones_like(w), 0)
        one, q = fnp.eye(w.shape[0], dtype=w.dtype), (v * kept) @ v.T
        self.inverse = fnp.linalg.pinv(matrix, eps, True)
        self.rank = fnp.sum(kept)
        self.logdet = _logdet(q @ matrix @ q + one - q) - _logdet(q @ matrix @ self.inverse @ q + one - q)
        self.outside, self.limit = one - q, 1e3 * limit

    def squares(self, x: Any) -> Any:
        """Return the squared length of each row of `x` in the metric of the matrix."""
        return fnp.sum(x @ self.inverse * x, axis=-1)

    def holds(self, x: Any) -> Any:
        """Return whether each row of `x` lies in the subspace, to rounding."""
        return fnp.linalg.norm(stop_gradient(x) @ self.outside, axis=-1) < self.limit


def _logdet(matrix: Any) -> Any:
    return fnp.linalg.slogdet(matrix)[1]


def _squares(x: Any, factor: Any) -> Any:
    """Return the squared length of each row of `x` in the metric of the matrix."""
    flat = fnp.reshape(x, (-1, x.shape[-1]))
    scaled = fnp.linalg.solve(factor, flat.T)
    return fnp.reshape(fnp.sum(scaled * scaled, axis=0), x.shape[:-1])


class _Normal(_Density):
    """The distribution scipy.stats.multivariate_normal: densities and entropy, with derivatives.

    Methods:
        pdf, logpdf, entropy.

    Derivative:
        In all arguments, of every order; see `logpdf`.

    Example:
        >>> from fgrad.scipy.stats import multivariate_normal
        >>> multivariate_normal.logpdf(np.ones(2), np.zeros(2), np.diag([1.0, 4.0]))
        np.float64(-3.156024)
        >>> fg.grad(multivariate_normal.logpdf)(np.ones(2), np.zeros(2), np.diag([1.0, 4.0]))
        array([-1.  , -0.25])
    """

    methods: tuple[str, ...] = ("pdf", "logpdf", "entropy")

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Return the logarithm of the density at `x`, whose last axis holds the components.

        Args:
            x: array of shape (..., n); one dimension fewer where n is 1.
            mean: array of shape (n,); None: zeros.
            cov: positive definite matrix, or the variances, or one for all.
            allow_singular: whether `cov` may be singular; the density is then one on the subspace that it
                spans, and the logarithm is -inf outside.

        Returns:
            Array of the shape of `x` without its last axis; floats.

        Raises:
            LinAlgError: `cov` is not positive definite.
            ValueError: with `allow_singular`, `cov` has negative eigenvalues.

        Derivative:
            In `cov` that of the triangle that is read, with `allow_singular` along matrices of the same rank;
            0 in the others. Outside of the subspace 0.
        """
        x, matrix = _located(x, mean, cov)
        if not allow_singular:
            factor, logdet = _factored(matrix)
            return -0.5 * (factor.shape[-1] * math.log(2 * math.pi) + logdet + _squares(x, factor))
        support = _Support(matrix)
        inside = -0.5 * (support.rank * math.log(2 * math.pi) + support.logdet + support.squares(x))
        return fnp.where(support.holds(x), inside, -math.inf)

    def entropy(self, mean: Any = None, cov: Any = 1) -> Any:
        """Return the differential entropy; on the subspace that `cov` spans where it is singular.

        Args:
            mean: array of shape (n,); None: zeros. It does not matter but for n.
            cov: positive semidefinite matrix, or the variances, or one for all.

        Returns:
            One number, a float.

        Raises:
            ValueError: `cov` has negative eigenvalues.

        Derivative:
            Half the inverse of `cov`, in the triangle that is read; where it is singular, that along matrices
            of the same rank.
        """
        support = _Support(_square(None if mean is None else inexact(mean), cov))
        return 0.5 * (support.rank * (math.log(2 * math.pi) + 1) + support.logdet)


class _T(_Density):
    """The distribution scipy.stats.multivariate_t: densities, with derivatives.

    Methods:
        pdf, logpdf.

    Derivative:
        In all arguments, of every order; see `logpdf`.

    Example:
        >>> from fgrad.scipy.stats import multivariate_t
        >>> multivariate_t.logpdf(np.ones(2), np.zeros(2), np.eye(2), 3.0)
        np.float64(-3.114941)
        >>> fg.grad(multivariate_t.logpdf)(np.ones(2), np.zeros(2), np.eye(2), 3.0)
        array([-1., -1.])
    """

    def logpdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Return the logarithm of the density at `x`, whose last axis holds the components.

        Args:
            x: array of shape (..., n); one dimension fewer where n is 1.
            loc: array of shape (n,); None: zeros.
            shape: positive definite matrix, or its diagonal, or one number for all of it.
            df: degrees of freedom, a positive number.

        Returns:
            Array of the shape of `x` without its last axis; floats.

        Raises:
            LinAlgError: `shape` is not positive definite.

        Derivative:
            In all arguments; in `shape` that of the triangle that is read.
        """
        x, matrix = _located(x, loc, shape)
        factor, logdet = _factored(matrix)
        n, df = factor.shape[-1], inexact(df)
        norm = special.gammaln((df + n) / 2) - special.gammaln(df / 2) - n / 2 * fnp.log(df * math.pi)
        return norm - 0.5 * logdet - (df + n) / 2 * fnp.log1p(_squares(x, factor) / df)


class _Dirichlet(_Density):
    """The distribution scipy.stats.dirichlet: densities, with derivatives.

    Methods:
        pdf, logpdf.

    Derivative:
        In both arguments, of every order; see `logpdf`.

    Example:
        >>> from fgrad.scipy.stats import dirichlet
        >>> x, alpha = np.array([0.25, 0.75]), np.array([2.0, 3.0])
        >>> dirichlet.pdf(x, alpha)
        np.float64(1.6875)
        >>> fg.grad(dirichlet.logpdf, 1)(x, alpha)
        array([-0.30296103,  0.29565126])
    """

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """Return the logarithm of the density at `x`, whose first axis holds the components.

        Args:
            x: array of shape (n, ...), or (n - 1, ...) without the last component; they sum to one.
            alpha: array of shape (n,), positive.

        Returns:
            Array of the shape of `x` without its first axis; floats.

        Raises:
            ValueError: the lengths do not match, or what is known of `x` does not sum to one.

        Derivative:
            In `x`, each component by itself, and in `alpha`.
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
    """The distribution scipy.stats.wishart: densities, with derivatives.

    Methods:
        pdf, logpdf.

    Derivative:
        In all arguments, of every order; see `logpdf`.

    Example:
        >>> from fgrad.scipy.stats import wishart
        >>> wishart.logpdf(np.eye(2), 3.0, np.eye(2))
        np.float64(-3.531024)
        >>> fg.grad(wishart.logpdf, 1)(np.eye(2), 3.0, np.eye(2))
        np.float64(-0.422784)
    """

    def logpdf(self, x: Any, df: Any, scale: Any) -> Any:
        """Return the logarithm of the density at `x`, a positive definite matrix.

        Args:
            x: array of shape (n, n), or (n, n, ...) for several matrices.
            df: degrees of freedom, at least n.
            scale: positive definite matrix of shape (n, n), or the diagonal, or one number.

        Returns:
            Array of the shape of `x` without its first two axes; floats.

        Raises:
            LinAlgError: a matrix is not positive definite.

        Derivative:
            In all arguments; in `x` and `scale` that of the triangle that is read.
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
