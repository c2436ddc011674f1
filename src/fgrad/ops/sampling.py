"""Samples of keys on a device, under the names of NumPy's Generator: the primitive `draw` there.

Every number is a function of the key, the place and the attempt, made from the bits of the cipher of counters
(`random.threefry`), so that all places are computed at once. Where a sample may be rejected all places try
again until none is left, and a truth value is read after each attempt. Those streams are not NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.aval import Shape
from fgrad.core.placement import near

Array = Any
Attempt = Callable[[int], tuple[Array, Array]]  # number -> values, and which of them are accepted

USE = (1 << 31) + 2  # the first word of the counters of attempts: those of `random.keys` are others
FEW = 10.0  # a mean below which samples are found by going up from zero
STEPS = 64  # so many suffice: more successes of so small a mean have a probability below 1e-28
WORD = 52  # bits of a uniform number


class Stream:
    """The random numbers of keys, for samples of one shape.

    Args:
        cipher: (keys, counters) -> blocks of two words.
        key: keys (..., 2) on a device, one for each example.
        shape: of the samples of one key.
    """

    def __init__(self, cipher: Callable[[Array, Array], Array], key: Array, shape: Shape) -> None:
        self.cipher: Callable[[Array, Array], Array] = cipher
        self.key: Array = key
        self.shape: Shape = shape
        self.place: Any = near(key)
        n = math.prod(shape)
        self.count: Any = self.place.zeros((n, 2), np.uint32)
        self.count[:, 1] = self.place.arange(n, dtype=np.uint32)

    def bits(self, use: int) -> Array:
        """Return 64 random bits for each sample, others for each `use`."""
        named = self.cipher(self.key, self.place.constant(np.array([USE, use], np.uint32)))
        words = self.cipher(named[..., None, :], self.count).astype(np.uint64)
        both = np.left_shift(words[..., 0], np.uint64(32)) | words[..., 1]
        return both.reshape((*self.key.shape[:-1], *self.shape))

    def uniform(self, use: int) -> Array:
        """Return numbers between 0 and 1, both excluded."""
        return (np.right_shift(self.bits(use), np.uint64(64 - WORD)).astype(float) + 0.5) * 2.0**-WORD

    def normal(self, use: int) -> Array:
        """Return standard normal numbers, of the uniform ones of `use` and `use` + 1: Box & Muller (1958)."""
        radius = np.sqrt(-2.0 * np.log(self.uniform(use)))
        return radius * np.cos(2.0 * math.pi * self.uniform(use + 1))

    def spread(self, x: Any) -> Array:
        """Return a parameter, with the axes of keys first, so that it broadcasts with samples."""
        if not x.ndim:
            return self.place.full((), x[()]) if isinstance(x, np.ndarray) else x
        lead = len(self.key.shape) - 1
        ones = (1,) * (len(self.shape) - (x.ndim - lead))
        return x.reshape((*x.shape[:lead], *ones, *x.shape[lead:]))


def _until_accepted(attempt: Attempt) -> Array:
    """Return at each place the value of the first attempt that is accepted there."""
    out, done = attempt(0)
    k = 0
    while not bool(np.all(done)):
        k += 1
        value, accepted = attempt(k)
        out, done = np.where(done, out, value), done | accepted
    return out


def _demand(holds: Array, message: str) -> None:
    if not bool(np.all(holds)):
        raise ValueError(message)


def _standard_gamma(stream: Stream, *, shape: Array) -> Array:
    """Return gamma variables of shape 1 or more: Marsaglia & Tsang (2000), ACM TOMS 26, 363."""
    _demand(shape >= 1, "shape < 0")  # what is drawn is of a shape that is larger by one
    d = shape - 1 / 3
    c = 1 / np.sqrt(9 * d)

    def attempt(k: int) -> tuple[Array, Array]:
        x = stream.normal(3 * k)
        v = (1 + c * x) ** 3
        positive = v > 0
        v = np.where(positive, v, 1.0)
        log_u = np.log(stream.uniform(3 * k + 2))
        return d * v, positive & (log_u < 0.5 * x * x + d - d * v + d * np.log(v))

    return _until_accepted(attempt)


def _log_factorial(k: Array) -> Array:
    """Return log k! by Stirling's series of k + 7, to 3e-10: Abramowitz & Stegun (1964), 6.1.41."""
    product: Any = 1.0
    for i in range(1, 8):
        product = product * (k + i)
    z = k + 8.0
    series = (1 / 12 - (1 / 360 - 1 / 1260 / (z * z)) / (z * z)) / z
    return (z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + series - np.log(product)


def _counted(u: Array, first: Array, ratio: Callable[[int], Array]) -> Array:
    """Return the quantiles at `u` of a distribution on 0, 1, ...

    Args:
        u: probabilities.
        first: the probability of 0.
        ratio: k -> the probability of k over that of k - 1.
    """
    p = total = first
    count = (u > total).astype(float)
    for k in range(1, STEPS):
        p = p * ratio(k)
        total = total + p
        count = count + (u > total)
    return count


def _poisson(stream: Stream, *, lam: Array) -> Array:
    """Return Poisson variables: from zero for small means, else the method PTRS of Hörmann (1993).

    Source:
        Hörmann (1993), The transformed rejection method for generating Poisson random variables.
    """
    lam = lam.astype(float)
    _demand(lam >= 0, "lam < 0 or lam is NaN")
    _demand(lam <= 2.0**63 - 10 * 2.0**31.5, "lam value too large")
    few = lam < FEW
    small = np.where(few, lam, 1.0)
    low = _counted(stream.uniform(0), np.exp(-small), lambda k: small / k)
    mean = np.where(few, 20.0, lam)
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    scale, quick = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)

    def attempt(n: int) -> tuple[Array, Array]:
        u, v = stream.uniform(1 + 2 * n) - 0.5, stream.uniform(2 + 2 * n)
        gap = 0.5 - np.absolute(u)
        k = np.floor((2 * a / gap + b) * u + mean + 0.43)
        inside = k >= 0
        k = np.where(inside, k, 0.0)
        level = np.log(v * scale / (a / (gap * gap) + b))
        fits = level <= k * np.log(mean) - mean - _log_factorial(k)
        return k, few | ((gap >= 0.07) & (v <= quick)) | (inside & fits)

    return np.where(few, low, _until_accepted(attempt))


def _stirling_rest(k: Array) -> Array:
    """Return log k! - (k + 1/2) log(k + 1) + (k + 1) - log(2 pi) / 2."""
    z = k + 1
    exact = _log_factorial(k) - (k + 0.5) * np.log(z) + z - 0.5 * math.log(2 * math.pi)
    far = (1 / 12 - (1 / 360 - 1 / 1260 / (z * z)) / (z * z)) / z
    return np.where(k < 10, exact, far)


def _binomial(stream: Stream, *, n: Array, p: Array) -> Array:
    """Return binomial variables: from zero for small means, else the method BTRS of Hörmann (1993).

    Source:
        Hörmann (1993), The generation of binomial random variates, J. Stat. Comput. Simul. 46, 101.
    """
    n, p = n.astype(float), p.astype(float)
    _demand(n >= 0, "n < 0")
    _demand((p >= 0) & (p <= 1), "p < 0, p > 1 or p is NaN")
    turned = p > 0.5
    p = np.where(turned, 1 - p, p)
    few = n * p < FEW
    small = np.where(few, p, 0.1)
    odds = small / (1 - small)
    count = np.where(few, n, 1.0)
    first = np.exp(count * np.log1p(-small))
    low = _counted(stream.uniform(0), first, lambda k: np.maximum(count - k + 1, 0) / k * odds)
    low = np.minimum(low, count)
    n_, p_ = np.where(few, 100.0, n), np.where(few, 0.5, p)
    ratio, width = p_ / (1 - p_), np.sqrt(n_ * p_ * (1 - p_))
    b = 1.15 + 2.53 * width
    a = -0.0873 + 0.0248 * b + 0.01 * p_
    quick, scale = 0.92 - 4.2 / b, (2.83 + 5.1 / b) * width
    mode = np.floor((n_ + 1) * p_)
    top = (mode + 0.5) * np.log((mode + 1) / (ratio * (n_ - mode + 1)))
    top = top + _stirling_rest(mode) + _stirling_rest(n_ - mode)

    def attempt(i: int) -> tuple[Array, Array]:
        u, v = stream.uniform(1 + 2 * i) - 0.5, stream.uniform(2 + 2 * i)
        gap = 0.5 - np.absolute(u)
        k = np.floor((2 * a / gap + b) * u + n_ * p_ + 0.5)
        inside = (k >= 0) & (k <= n_)
        k = np.where(inside, k, mode)
        rest = n_ - k + 1
        level = np.log(v * scale / (a / (gap * gap) + b))
        limit = top + (n_ + 1) * np.log((n_ - mode + 1) / rest) + (k + 0.5) * np.log(ratio * rest / (k + 1))
        fits = level <= limit - _stirling_rest(k) - _stirling_rest(n_ - k)
        return k, few | (inside & (((gap >= 0.07) & (v <= quick)) | fits))

    found = np.where(few, low, _until_accepted(attempt))
    return np.where(turned, n - found, found)


def _integers(stream: Stream, *, low: Array, high: Array, dtype: Any, endpoint: bool = False) -> Array:
    """Return integers of an interval, each as likely: Lemire (2019), ACM TOMACS 29, 3, section 3."""
    kind = np.dtype(dtype)
    least, most = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    last = high if endpoint else high - high.dtype.type(1)
    _demand(low >= least, f"low is out of bounds for {kind.name}")
    _demand(last <= most, f"high is out of bounds for {kind.name}")
    _demand(low <= last, "low > high" if endpoint else "low >= high")
    first = low.astype(np.uint64)
    width = last.astype(np.uint64) - first + np.uint64(1)  # 0 stands for 2**64
    full = width == 0
    width = np.where(full, np.uint64(1), width)
    surplus = np.where(full, np.uint64(0), np.remainder(np.uint64(0) - width, width))  # 2**64 modulo width

    def attempt(k: int) -> tuple[Array, Array]:
        bits = stream.bits(k)
        return np.where(full, bits, np.remainder(bits, width)), bits >= surplus

    return (first + _until_accepted(attempt)).astype(kind)


def _choice(stream: Stream, *, a: int, replace: bool = True, shuffle: bool = True, p: Array = None) -> Array:
    """Return places with or without replacement; without it the greatest of perturbed logarithms.

    Source:
        Yellott (1977), J. Math. Psychol. 15, 109: Gumbel's noise gives successive sampling.
    """
    lead = stream.key.shape[:-1]
    if p is not None:
        if p.shape[-1:] != (a,):
            raise ValueError("a and p must have same size")
        _demand(p >= 0, "Probabilities are not non-negative")
        _demand(np.absolute(np.sum(p, axis=-1) - 1) <= 1e-8, "Probabilities do not sum to 1")
    n = math.prod(stream.shape)
    if a == 0 and n:
        raise ValueError("a cannot be empty unless no samples are taken")
    if replace and p is None:
        return np.remainder(stream.bits(0), np.uint64(max(a, 1)))
    if replace and p is not None:
        total = np.cumsum(p, axis=-1)
        total = total / total[..., -1:]
        u = stream.uniform(0)
        flat = u.reshape((*lead, -1))
        return _places(total, flat).reshape(u.shape)
    if n > a:
        raise ValueError("Cannot take a larger sample than population when replace is False")
    each = Stream(stream.cipher, stream.key, (a,))
    if p is None:
        order = np.argsort(each.bits(0), axis=-1)
    else:
        _demand(np.sum(p > 0, axis=-1) >= n, "Fewer non-zero entries in p than size")
        with np.errstate(divide="ignore"):
            order = np.argsort(np.log(-np.log(each.uniform(0))) - np.log(p), axis=-1)
    return order[..., :n].reshape((*lead, *stream.shape))


def _places(total: Array, u: Array) -> Array:
    """Return how many of the sums `total` (..., n) are not above `u` (..., m)."""
    if total.ndim == 1:
        return np.searchsorted(total, u.reshape(-1), side="right").reshape(u.shape)
    lanes = [
        np.searchsorted(t, v, side="right")
        for t, v in zip(total.reshape(-1, total.shape[-1]), u.reshape(-1, u.shape[-1]), strict=True)
    ]
    return np.stack(lanes).reshape(u.shape)


METHODS: dict[str, Callable[..., Array]] = {
    "standard_gamma": _standard_gamma,
    "poisson": _poisson,
    "binomial": _binomial,
    "integers": _integers,
    "permutation": lambda stream, *, x: np.argsort(stream.bits(0), axis=-1),
    "choice": _choice,
}
