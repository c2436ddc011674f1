"""The numbers that JAX draws from a key, with the names, signatures and dtypes of `jax.random`.

Keys, bits, uniform numbers, integers and permutations are JAX's bit for bit (Threefry-2x32, as JAX counts
since 0.5); what is computed from them by logarithms and the like is JAX's to rounding. Keys are arrays of two
uint32, as JAX's of `PRNGKey`. Floats are float32 and integers int32 unless a dtype is given, as in JAX
without `jax_enable_x64`. Everything may be mapped and compiled, and differentiates in its parameters.

`uniform`, `normal` and `truncated_normal` also take the dtype "bfloat16", which NumPy has not: numbers of
float32 with JAX's values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.aval import broadcasts
from fgrad.core.dispatch import bind
from fgrad.core.tensor import Tensor, is_traced
from fgrad.ops.linear import convert
from fgrad.ops.precision import reduce_precision
from fgrad.random.keys import checked
from fgrad.transforms.vmap import vmap

__all__ = [
    "PRNGKey",
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]


class _Counting:
    """How blocks of the cipher are counted: as JAX does by default since 0.5, or before.

    JAX calls it `jax_threefry_partitionable`. Programs that are compiled already draw as they did.
    """

    partitionable = True


COUNTING = _Counting()
Shape = Sequence[int]
_WORD = np.dtype(np.uint32)
_MASK = 0xFFFFFFFF


# ---- keys


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:  # noqa: N802 -- JAX's name
    """Return the key of a seed, of which the low 32 bits count.

    Args:
        seed: integer, or a Tensor of one.
        impl: None or "threefry2x32", the only one here.

    Raises:
        TypeError: the seed is no integer.
        NotImplementedError: another generator.

    Example:
        >>> from fgrad.random import threefry
        >>> threefry.PRNGKey(7)
        array([0, 7], dtype=uint32)
        >>> threefry.split(threefry.PRNGKey(0))
        array([[1797259609, 2579123966],
               [ 928981903, 3453687069]], dtype=uint32)
    """
    if impl not in (None, "threefry2x32"):
        raise NotImplementedError(f"fgrad draws by threefry2x32, not by {impl!r}")
    if isinstance(seed, Tensor):
        if seed.dtype.kind not in "iu" or seed.shape:
            raise TypeError(f"a seed is one integer, not {seed.dtype} of shape {seed.shape}")
        low = convert(seed, _WORD)
        return fnp.stack([fnp.zeros_like(low), low])
    return np.array([0, operator.index(seed) & _MASK], _WORD)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Return the key of a seed, as `PRNGKey` does; keys have no dtype of their own here."""
    return PRNGKey(seed, impl=dtype if impl is None else impl)


def key_data(keys: Any) -> Any:
    """Return the words of keys: themselves."""
    return keys


def wrap_key_data(key_bits_array: Any, *, impl: Any = None) -> Any:
    """Return the key with given words."""
    words = np.asarray(key_bits_array, _WORD) if not isinstance(key_bits_array, Tensor) else key_bits_array
    return _checked(words)


def _checked(key: Any) -> Any:
    return checked(key, "PRNGKey")


def _lengths(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    return tuple(map(operator.index, shape))


def _blocks(key: Any, n: int) -> tuple[Any, Any]:
    """Return both words of `n` blocks of the cipher, whose counters are the numbers of elements."""
    count = np.empty((n, 2), _WORD)
    numbers = np.arange(n, dtype=np.uint64)
    count[:, 0], count[:, 1] = numbers >> np.uint64(32), numbers & np.uint64(_MASK)
    words = bind("threefry", _checked(key), count)
    return words[:, 0], words[:, 1]


def _stream(key: Any, n: int) -> Any:
    """Return `n` words, as JAX counted them until 0.5: the first half in the first words of the blocks."""
    half = -(-n // 2)
    count = np.arange(2 * half, dtype=_WORD).reshape(2, half).T.copy()
    count[-1:, 1] *= n % 2 == 0
    words = bind("threefry", _checked(key), count)
    return fnp.concatenate([words[:, 0], words[:, 1]])[:n]


def split(key: Any, num: int | Shape = 2) -> Any:
    """Return new keys, an array of shape (*num, 2)."""
    shape = _lengths(num)
    if not COUNTING.partitionable:
        return fnp.reshape(_stream(key, 2 * math.prod(shape)), (*shape, 2))
    return fnp.reshape(fnp.stack(_blocks(key, math.prod(shape)), axis=-1), (*shape, 2))


def fold_in(key: Any, data: Any) -> Any:
    """Return the key that belongs to a key and an integer, of which the low 32 bits count."""
    if np.ndim(data):
        raise TypeError(f"fold_in takes one integer, not an array of shape {np.shape(data)}; use vmap")
    if isinstance(data, Tensor):
        low = convert(data, _WORD)
        block = fnp.stack([fnp.zeros_like(low), low])
    else:
        block = np.array([0, operator.index(data) & _MASK], _WORD)
    return bind("threefry", _checked(key), block)


# ---- bits, uniform numbers, integers


def bits(key: Any, shape: Shape = (), dtype: Any = np.uint32) -> Any:
    """Return random bits as unsigned integers.

    Raises:
        ValueError: the dtype is no unsigned integer.
    """
    kind, shape = np.dtype(np.uint32 if dtype is None else dtype), _lengths(shape)
    if kind.kind != "u":
        raise ValueError(f"bits are unsigned integers, not {kind}")
    size, width = math.prod(shape), 8 * kind.itemsize
    if COUNTING.partitionable:
        first, second = _blocks(key, size)
    elif width < 64:
        words = _stream(key, -(-width * size // 32))
        parts = [bind("right_shift", words, np.uint32(shift)) for shift in range(0, 32, width)]
        mask = np.uint32(_MASK >> (32 - width))
        first = bind("bitwise_and", fnp.reshape(fnp.stack(parts, axis=1), -1)[:size], mask)
        return fnp.reshape(convert(first, kind), shape)
    else:
        words = _stream(key, 2 * size)
        first, second = words[:size], words[size:]
    if width == 64:
        high = bind("left_shift", convert(first, kind), np.uint64(32))
        return fnp.reshape(bind("bitwise_or", high, convert(second, kind)), shape)
    return fnp.reshape(convert(bind("bitwise_xor", first, second), kind), shape)


def _is_short(dtype: Any) -> bool:
    return isinstance(dtype, str) and dtype == "bfloat16"


def _native(dtype: Any) -> Any:
    if _is_short(dtype):
        raise NotImplementedError("of bfloat16 are drawn uniform, normal and truncated_normal numbers alone")
    return dtype


def _floating(dtype: Any) -> np.dtype[Any]:
    dtype = _native(dtype)
    kind = np.dtype(np.float32 if dtype is None or dtype is float else dtype)
    if kind.kind != "f" or kind.itemsize > 8:
        raise ValueError(f"samples have dtype float16, float32 or float64, not {kind}")
    return kind


def _whole(dtype: Any) -> np.dtype[Any]:
    return np.dtype(np.int32 if dtype is None or dtype is int else dtype)


class _Format(NamedTuple):
    """How numbers are computed: in a dtype, of so many random bits and digits, and rounded."""

    dtype: np.dtype[Any]
    width: int
    digits: int
    rounded: Callable[[Any], Any]

    def next(self, x: Any, end: float) -> Any:
        """Return the number beside `x`, in the direction of `end`."""
        found = np.nextafter(x, self.dtype.type(end))
        if self.width == self.dtype.itemsize * 8:
            return found
        last = np.where(np.abs(found) > np.abs(x), np.uint32(0xFFFF), np.uint32(0))  # away from zero
        return ((found.view(np.uint32) + last) & np.uint32(0xFFFF0000)).view(np.float32)


def _format(dtype: Any) -> _Format:
    if _is_short(dtype):
        return _Format(
            np.dtype(np.float32), 8, 7, partial(reduce_precision, exponent_bits=8, mantissa_bits=7)
        )
    kind = _floating(dtype)
    return _Format(kind, kind.itemsize * 8, np.finfo(kind).nmant, lambda x: x)


def _typed(x: Any, dtype: np.dtype[Any]) -> Any:
    return convert(x if isinstance(x, Tensor) else np.asarray(x), dtype)


def _of_shape(name: str, shape: Any, *params: Any) -> tuple[int, ...]:
    common = np.broadcast_shapes(*map(np.shape, params))
    if shape is None:
        return common
    given = _lengths(shape)
    if not broadcasts(common, given):
        raise ValueError(f"{name}: parameters of shape {common} do not broadcast to shape {given}")
    return given


def uniform(key: Any, shape: Shape = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Return uniform numbers of [minval, maxval).

    Other limits than 0 and 1 may differ from JAX's in the last bit: its compiler joins product and sum.

    Example:
        >>> from fgrad.random import threefry
        >>> threefry.uniform(threefry.PRNGKey(0), (2,))
        array([0.947667 , 0.9785799], dtype=float32)
    """
    form, shape = _format(dtype), _of_shape("uniform", shape, minval, maxval)
    rounded, kind = form.rounded, form.dtype
    low, high = (rounded(_typed(x, kind)) for x in (minval, maxval))
    word = np.dtype(f"uint{form.width}")
    kept = bind("right_shift", bits(key, shape, word), word.type(form.width - form.digits))
    fractions = convert(kept, kind) * kind.type(2.0**-form.digits)
    return fnp.maximum(low, rounded(rounded(fractions * rounded(high - low)) + low))


def randint(key: Any, shape: Shape, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Return integers of [minval, maxval); where that is empty, minval.

    Raises:
        TypeError: the dtype is no integer.
    """
    kind = _whole(dtype)
    if kind.kind not in "iu":
        raise TypeError(f"randint draws integers, not {kind}")
    shape = _of_shape("randint", shape, minval, maxval)
    drawn = kind if kind.itemsize >= 4 else np.dtype(np.int32)  # small ones would be biased
    limits = np.iinfo(kind)
    wide = np.dtype(np.int64) if drawn.itemsize < 8 else drawn
    low, top = (_typed(x, wide) for x in (minval, maxval))
    low = fnp.clip(low, limits.min, limits.max)
    is_whole = top > limits.max  # the largest value is wanted too
    top = fnp.clip(top, limits.min, limits.max)
    if drawn is not kind:
        top, is_whole = top + is_whole, is_whole & np.False_
    word = np.dtype(f"uint{drawn.itemsize * 8}")
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        span = convert(top - low, word)
        span = fnp.where(top <= low, word.type(1), span + convert(is_whole & (top > low), word))
        span = fnp.broadcast_to(span, shape)
        high_bits, low_bits = (bits(k, shape, word) for k in split(_checked(key)))
        scale = _remainder(word.type(1 << (word.itemsize * 4)), span)
        scale = _remainder(scale * scale, span)
        offset = _remainder(high_bits, span) * scale + _remainder(low_bits, span)
        return convert(convert(low, drawn) + convert(_remainder(offset, span), drawn), kind)


def _remainder(x: Any, span: Any) -> Any:
    """Return x modulo span, x itself where that is 0: the whole range of the words."""
    whole = span == 0
    return fnp.where(whole, x, bind("remainder", x, fnp.where(whole, span.dtype.type(1), span)))


def rademacher(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return numbers -1 and 1."""
    kind = _whole(dtype)
    return 2 * convert(bernoulli(key, 0.5, shape), kind) - kind.type(1)


def bernoulli(key: Any, p: Any = 0.5, shape: Shape | None = None, mode: str = "low") -> Any:
    """Return truth values that hold with probability p."""
    if mode not in {"low", "high"}:
        raise ValueError(f"mode must be 'low' or 'high', not {mode!r}")
    kind = _floating(getattr(p, "dtype", None))
    p, shape = _typed(p, kind), _of_shape("bernoulli", shape, p)
    if mode == "low":
        return uniform(key, shape, kind) < p
    first, second = uniform(key, (2, *shape), kind)
    return second * kind.type(2.0 ** -np.finfo(kind).nmant) < p - first


# ---- order


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """Return the numbers below an integer, or an array along an axis, in random order."""
    if not np.ndim(x):
        return _shuffled(key, np.arange(operator.index(x), dtype=np.int32), 0)
    x = x if isinstance(x, Tensor) else np.asarray(x)
    if independent or x.ndim == 1:
        return _shuffled(key, x, axis % x.ndim)
    order = _shuffled(key, np.arange(x.shape[axis], dtype=np.int32), 0)
    return fnp.take(x, order, axis)


def _shuffled(key: Any, x: Any, axis: int) -> Any:
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(_MASK))
    for _ in range(rounds):
        key, now = split(key)
        order = fnp.argsort(bits(now, x.shape), axis=axis, stable=True)
        x = fnp.take_along_axis(x, order, axis)
    return x


def choice(
    key: Any,
    a: Any,
    shape: Shape = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Any:
    """Return random entries of an array along an axis, or numbers below an integer.

    Raises:
        ValueError: more are wanted than there are, without replacement, or p has another length.
    """
    is_count = not np.ndim(a)
    a = operator.index(a) if is_count else a if isinstance(a, Tensor) else np.asarray(a)
    n = a if is_count else a.shape[axis]
    shape = _lengths(shape)
    wanted = math.prod(shape)
    if n <= 0 and wanted:
        raise ValueError("choice takes entries of something that has some")
    if not replace and wanted > n:
        raise ValueError(f"choice cannot take {wanted} of {n} entries without replacement")
    if p is None:
        if not replace:
            found = permutation(key, a, axis)
            found = found[(slice(None),) * (0 if is_count else axis % a.ndim) + (slice(wanted),)]
            return fnp.reshape(found, _chosen(a, shape, axis))
        index = randint(key, shape, 0, n)
    else:
        kind = _floating(p.dtype if getattr(p, "dtype", np.dtype(int)).kind == "f" else None)
        p = _typed(p, kind)
        if p.shape != (n,):
            raise ValueError(f"p has shape {p.shape}, but there are {n} entries")
        if replace:
            total = fnp.cumsum(p)
            points = total[-1] * (1 - uniform(key, shape, kind))
            index = convert(fnp.searchsorted(total, points), np.dtype(np.int32))
        else:
            scores = gumbel(key, (n,), kind, mode) + fnp.log(p)
            index = fnp.reshape(_largest(scores, wanted), shape)
    return index if is_count else fnp.reshape(fnp.take(a, index, axis), _chosen(a, shape, axis))


def _chosen(a: Any, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    if isinstance(a, int):
        return shape
    axis %= a.ndim
    return (*a.shape[:axis], *shape, *a.shape[axis + 1 :])


def _largest(scores: Any, k: int) -> Any:
    """Return the places of the `k` largest numbers along the last axis, the first of equal ones first."""
    return convert(fnp.argsort(-scores, axis=-1, stable=True)[..., :k], np.dtype(np.int32))


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Any:
    """Return indices along an axis, with probabilities in proportion to exp(logits)."""
    logits = logits if isinstance(logits, Tensor) else np.asarray(logits)
    kind = _floating(logits.dtype if logits.dtype.kind == "f" else None)
    logits = _typed(logits, kind)
    axis = axis % logits.ndim - logits.ndim
    batch = tuple(np.delete(logits.shape, axis).tolist())
    shape = batch if shape is None else _lengths(shape)
    if not broadcasts(batch, shape):
        raise ValueError(f"categorical: logits of batch shape {batch} do not broadcast to shape {shape}")
    before = shape[: len(shape) - len(batch)]
    if replace:
        drawn = list(shape[len(before) :])
        drawn.insert(axis % logits.ndim, logits.shape[axis])
        noise = gumbel(key, (*before, *drawn), kind, mode)
        return convert(fnp.argmax(noise + logits, axis=axis), np.dtype(np.int32))
    k = math.prod(before)
    if k > logits.shape[axis]:
        raise ValueError(
            f"categorical cannot take {k} of {logits.shape[axis]} categories without replacement"
        )
    scores = fnp.moveaxis(logits + gumbel(key, logits.shape, kind, mode), axis, -1)
    return fnp.reshape(fnp.moveaxis(_largest(scores, k), -1, 0), shape)


# ---- continuous distributions


def normal(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return standard normal numbers; complex ones have variance 1."""
    kind = np.dtype(np.float32 if dtype is None or _is_short(dtype) else dtype)
    if kind.kind == "c":
        part = np.dtype(f"float{kind.itemsize * 4}")
        real, imag = (normal(k, shape, part) for k in split(_checked(key)))
        return convert(real + 1j * imag, kind) / kind.type(np.sqrt(2))
    form = _format(dtype)
    low = form.dtype.type(-1 + 2.0 ** -(form.digits + 1))
    return _times_root(form, _erfinv(uniform(key, shape, dtype, low, 1.0)))


def _root(form: _Format) -> Any:
    return form.rounded(form.dtype.type(np.sqrt(2)))


def _times_root(form: _Format, x: Any) -> Any:
    return form.rounded(_root(form) * form.rounded(x))


def _special(name: str, x: Any) -> Any:
    special = import_module("fgrad.scipy.special")  # SciPy is optional, and keys and integers need none
    return getattr(special, name)(x)


def _erfinv(x: Any) -> Any:
    return convert(_special("erfinv", x), x.dtype)


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return standard normal numbers between two limits."""
    form, shape = _format(dtype), _of_shape("truncated_normal", shape, lower, upper)
    low, high = (form.rounded(_typed(x, form.dtype)) for x in (lower, upper))
    ends = [form.rounded(_special("erf", form.rounded(x / _root(form)))) for x in (low, high)]
    out = _times_root(form, _erfinv(uniform(key, shape, dtype, *ends)))
    plain = [x.detach().numpy() if isinstance(x, Tensor) else x for x in (low, high)]
    return fnp.clip(out, *(form.next(x, end) for x, end in zip(plain, (np.inf, -np.inf), strict=True)))


def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Shape | None = None, dtype: Any = None, method: str = "cholesky"
) -> Any:
    """Return normal vectors of a mean and covariance; method: "cholesky", "eigh" or "svd"."""
    kind = _floating(dtype if dtype is not None else getattr(mean, "dtype", None))
    mean, cov = _typed(mean, kind), _typed(cov, kind)
    shape = (
        np.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
        if shape is None
        else _of_shape("multivariate_normal", shape, mean[..., 0], cov[..., 0, 0])
    )
    if method == "cholesky":
        factor = fnp.linalg.cholesky(cov)
    elif method == "eigh":
        values, vectors = fnp.linalg.eigh(cov)
        factor = vectors * fnp.sqrt(values[..., None, :])
    elif method == "svd":
        vectors, values, _ = fnp.linalg.svd(cov)
        factor = vectors * fnp.sqrt(values[..., None, :])
    else:
        raise ValueError(f"method must be 'cholesky', 'eigh' or 'svd', not {method!r}")
    noise = normal(key, (*shape, *mean.shape[-1:]), kind)
    return mean + fnp.einsum("...ij,...j->...i", factor, noise)


def gumbel(key: Any, shape: Shape = (), dtype: Any = None, mode: str | None = None) -> Any:
    """Return numbers of Gumbel's distribution; mode: "low" (as None) or "high", with a longer tail.

    Raises:
        NotImplementedError: mode "highest".
    """
    kind = _floating(dtype)
    info = np.finfo(kind)
    if mode in {None, "low"}:
        return -fnp.log(-fnp.log(uniform(key, shape, kind, info.tiny, 1.0)))
    if mode == "high":
        high, low = uniform(key, (2, *_lengths(shape)), kind)
        x = fnp.where(high >= 0.5, high, high + kind.type(2.0**-info.nmant) * low + info.tiny)
        return -fnp.log(-fnp.log1p(-x))
    if mode == "highest":
        raise NotImplementedError("fgrad has no gumbel with mode='highest'; mode='high' comes nearest")
    raise ValueError(f"mode must be 'low', 'high' or 'highest', not {mode!r}")


def exponential(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return exponential numbers of rate 1."""
    return -fnp.log1p(-uniform(key, shape, _native(dtype)))


def laplace(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return numbers of Laplace's distribution."""
    u = uniform(key, shape, dtype, -1.0 + np.finfo(_floating(dtype)).epsneg, 1.0)
    return fnp.sign(u) * fnp.log1p(-fnp.abs(u))


def logistic(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return numbers of the logistic distribution."""
    u = uniform(key, shape, dtype, np.finfo(_floating(dtype)).tiny, 1.0)
    return fnp.log(u) - fnp.log1p(-u)


def cauchy(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return numbers of Cauchy's distribution."""
    kind = _floating(dtype)
    u = uniform(key, shape, kind, np.finfo(kind).eps, 1.0)
    return fnp.tan(kind.type(np.pi) * (u - kind.type(0.5)))


def pareto(key: Any, b: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return numbers of Pareto's distribution of shape b."""
    kind = _floating(dtype)
    return fnp.exp(exponential(key, _of_shape("pareto", shape, b), kind) / _typed(b, kind))


def lognormal(key: Any, sigma: Any = 1.0, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return exponentials of normal numbers of a standard deviation."""
    kind = _floating(dtype)
    return fnp.exp(normal(key, _of_shape("lognormal", shape, sigma), kind) * _typed(sigma, kind))


def maxwell(key: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return lengths of standard normal vectors of three numbers."""
    return fnp.linalg.norm(normal(key, (*_lengths(shape), 3), _native(dtype)), axis=-1)


def rayleigh(key: Any, scale: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return numbers of Rayleigh's distribution."""
    kind = _floating(dtype)
    u = uniform(key, _of_shape("rayleigh", shape, scale), kind)
    return _typed(scale, kind) * fnp.sqrt(fnp.log(u) * kind.type(-2))


def weibull_min(key: Any, scale: Any, concentration: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return numbers of Weibull's distribution."""
    kind = _floating(dtype)
    scale, concentration = _typed(scale, kind), _typed(concentration, kind)
    u = uniform(key, shape, kind)
    return fnp.power(-fnp.log1p(-u), kind.type(1) / concentration) * scale


def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Shape | None = None, dtype: Any = None
) -> Any:
    """Return numbers of the triangular distribution."""
    kind, shape = _floating(dtype), _of_shape("triangular", shape, left, mode, right)
    a, c, b = (_typed(x, kind) for x in (left, mode, right))
    u = uniform(key, shape, kind)
    rising = a + fnp.sqrt(u * (b - a) * (c - a))
    falling = b - fnp.sqrt((1 - u) * (b - a) * (b - c))
    return fnp.where(u < (c - a) / (b - a), rising, falling)


def geometric(key: Any, p: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return how many trials of probability p it takes to the first success."""
    real = _floating(getattr(p, "dtype", None))
    kind = _whole(dtype)
    u = uniform(key, _of_shape("geometric", shape, p), real)
    u = fnp.where(u == 0, real.type(1), u)
    return convert(fnp.floor(fnp.log(u) / fnp.log1p(-_typed(p, real))) + 1, kind)


def wald(key: Any, mean: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return numbers of Wald's distribution of shape 1 (Michael, Schucany & Haas 1976)."""
    kind, shape = _floating(dtype), _of_shape("wald", shape, mean)
    first, second = split(_checked(key))
    m, y, z = _typed(mean, kind), normal(first, shape, kind) ** 2, uniform(second, shape, kind)
    x = m + m**2 * y / 2 - m / 2 * fnp.sqrt(4 * m * y + m**2 * y**2)
    return fnp.where(z <= m / (m + x), x, m**2 / x)


# ---- gamma variables, and what is made of them


def _gamma_parts(key: Any, a: Any) -> tuple[Any, Any, Any]:
    """Return logarithms of gamma variables of shapes of at least 1, and uniform numbers for lesser shapes.

    A variable of shape a < 1 is one of shape a + 1 times u**(1/a).

    Source:
        Marsaglia & Tsang (2000), A simple method for generating gamma variables; Stuart (1962).
    """
    kind = a.dtype.type
    d = fnp.where(a >= 1, a, a + kind(1)) - kind(1 / 3)
    c = kind(1 / 3) / fnp.sqrt(d)

    def again(state: Any) -> Any:
        _, square, cube, u = state
        is_out = u >= 1 - kind(0.0331) * square * square
        return is_out & (fnp.log(u) >= square * kind(0.5) + d * (1 - cube + fnp.log(cube)))

    def drawn(state: Any) -> Any:
        rest, first, second = split(state[0], 3)
        _, x, v = _while(lambda s: s[2] <= 0, proposed, (first, kind(0) * d, kind(-1) + kind(0) * d))
        return rest, x * x, v * v * v, uniform(second, (), a.dtype)

    def proposed(state: Any) -> Any:
        rest, first = split(state[0])
        x = normal(first, (), a.dtype)
        return rest, x, 1 + x * c

    rest, last = split(key)
    one = kind(1) + kind(0) * d
    cube = _while(again, drawn, (rest, kind(0) * d, one, 2 * one))[2]
    return d, cube, uniform(last, (), a.dtype)


def _gamma(key: Any, a: Any, shape: Shape | None, dtype: Any, *, log_space: bool) -> Any:
    kind, shape = _floating(dtype), _of_shape("gamma", shape, a)
    wide = fnp.broadcast_to(_typed(a, kind), shape)
    plain = wide.detach() if isinstance(wide, Tensor) else wide
    flat, n = fnp.reshape(plain, -1), int(np.prod(shape))
    d, cube, u = vmap(_gamma_parts)(split(_checked(key), n), flat) if n else (flat + kind.type(1), flat, flat)
    log_u = fnp.log1p(-u)
    boost = fnp.where((flat >= 1) | (log_u == 0), kind.type(0), log_u / flat)
    y = fnp.reshape(fnp.log(d) + fnp.log(cube) + boost, shape)
    log = bind("log_gamma", y, wide)
    if log_space:
        return log
    boost = fnp.where(flat >= 1, kind.type(1), (1 - u) ** (1 / flat))
    return fnp.reshape(d * cube * boost, shape) * fnp.exp(log - y)


def gamma(key: Any, a: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return gamma variables of shape a and scale 1."""
    return _gamma(key, a, shape, dtype, log_space=False)


def loggamma(key: Any, a: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return logarithms of gamma variables, accurate also where these underflow."""
    return _gamma(key, a, shape, dtype, log_space=True)


def beta(key: Any, a: Any, b: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return numbers of the beta distribution."""
    shape = _of_shape("beta", shape, a, b)
    x, y = (loggamma(k, p, shape, dtype) for k, p in zip(split(_checked(key)), (a, b), strict=True))
    highest = fnp.maximum(x, y)
    x, y = fnp.exp(x - highest), fnp.exp(y - highest)
    return x / (x + y)


def dirichlet(key: Any, alpha: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return vectors of the Dirichlet distribution, along the last axis."""
    lengths = np.shape(alpha)
    if not lengths:
        raise ValueError("dirichlet requires alpha of at least one axis")
    front = lengths[:-1] if shape is None else _lengths(shape)
    y = loggamma(key, alpha, (*front, lengths[-1]), dtype)
    y = fnp.exp(y - fnp.max(y, -1, keepdims=True))
    return y / fnp.sum(y, -1, keepdims=True)


def chisquare(key: Any, df: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return numbers of the chi-square distribution."""
    kind = _floating(dtype)
    return fnp.exp(loggamma(key, _typed(df, kind) / kind.type(2), shape, dtype)) * kind.type(2)


def f(key: Any, dfnum: Any, dfden: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return numbers of the F distribution: a ratio of chi-square variables, each divided by its degrees."""
    kind, shape = _floating(dtype), _of_shape("f", shape, dfnum, dfden)
    second, first = split(_checked(key))
    return (chisquare(first, dfnum, shape, dtype) / _typed(dfnum, kind)) / (
        chisquare(second, dfden, shape, dtype) / _typed(dfden, kind)
    )


def t(key: Any, df: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return numbers of Student's t distribution."""
    kind, shape = _floating(dtype), _of_shape("t", shape, df)
    first, second = split(_checked(key))
    half = _typed(df, kind) / kind.type(2)
    return normal(first, shape, kind) * fnp.sqrt(half / gamma(second, half, shape, kind))


def generalized_normal(key: Any, p: Any, shape: Shape = (), dtype: Any = None) -> Any:
    """Return numbers of density exp(-|x|**p)."""
    first, second = split(_checked(key))
    g, sign = gamma(first, 1 / p, shape, dtype), rademacher(second, shape)
    return convert(sign, g.dtype) * g ** (1 / p)


# ---- Poisson's distribution


def _poisson_by_products(key: Any, rate: Any, shape: tuple[int, ...]) -> Any:
    """Return numbers of events: uniform numbers are multiplied until they fall below exp(-rate).

    Source:
        Knuth (1997), The art of computer programming, volume 2, section 3.4.1.
    """

    def step(state: Any) -> Any:
        count, rest, logs = state
        rest, first = split(rest)
        u = uniform(first, shape, np.float32)
        return fnp.where(logs > -rate, count + 1, count), rest, logs + fnp.log(u)

    start = convert(fnp.zeros_like(rate), np.dtype(np.int32)), key, fnp.zeros_like(rate)
    return _while(lambda state: fnp.any(state[2] > -rate), step, start)[0] - 1


def _poisson_by_rejection(key: Any, rate: Any, shape: tuple[int, ...]) -> Any:
    """Return numbers of events for a rate of at least ten.

    Source:
        Hörmann (1993), The transformed rejection method for generating Poisson random variables.
    """
    one = rate.dtype.type
    b = one(0.931) + one(2.53) * fnp.sqrt(rate)
    a = one(-0.059) + one(0.02483) * b
    scale, limit = one(1.1239) + one(1.1328) / (b - one(3.4)), one(0.9277) - one(3.6224) / (b - 2)

    def step(state: Any) -> Any:
        count, done, rest = state
        rest, first, second = split(rest, 3)
        u, v = uniform(first, shape, rate.dtype) - one(0.5), uniform(second, shape, rate.dtype)
        near = one(0.5) - fnp.abs(u)
        k = fnp.floor((2 * a / near + b) * u + rate + one(0.43))
        s = fnp.log(v * scale / (a / (near * near) + b))
        t = k * fnp.log(rate) - rate - convert(_special("gammaln", k + 1), rate.dtype)
        is_out = (k < 0) | ((near < one(0.013)) & (v > near))
        accept = ((near >= one(0.07)) & (v <= limit)) | (fnp.logical_not(is_out) & (s <= t))
        return fnp.where(accept, k, count), done | accept, rest

    start = fnp.zeros_like(rate) - 1, rate < 0, key
    return convert(
        _while(lambda state: fnp.logical_not(fnp.all(state[1])), step, start)[0], np.dtype(np.int32)
    )


def _while(*args: Any) -> list[Any]:
    outs = import_module("fgrad.lax.loops").while_loop(*args)  # late: most of what is drawn needs no loop
    return [x if is_traced(x) else x.numpy() for x in map(fnp.asarray, outs)]


def poisson(key: Any, lam: Any, shape: Shape | None = None, dtype: Any = None) -> Any:
    """Return numbers of events of Poisson's distribution."""
    shape, kind = _of_shape("poisson", shape, lam), np.dtype(np.int32 if dtype in (None, int) else dtype)
    given = _typed(lam, np.dtype(np.float32))
    rate = fnp.broadcast_to(given.detach() if isinstance(given, Tensor) else given, shape)
    few = fnp.isnan(rate) | (rate < 10)
    some = _poisson_by_products(_checked(key), fnp.where(few, rate, np.float32(0)), shape)
    many = _poisson_by_rejection(key, fnp.where(few, np.float32(1e5), rate), shape)
    return convert(fnp.where(rate == 0, 0, fnp.where(few, some, many)), kind)


def orthogonal(key: Any, n: int, shape: Shape = (), dtype: Any = None, m: int | None = None) -> Any:
    """Return orthogonal matrices, uniformly distributed; n x m with orthonormal rows or columns."""
    m = n if m is None else m
    q, r = fnp.linalg.qr(normal(key, (*_lengths(shape), max(n, m), min(n, m)), _native(dtype)))
    x = q * fnp.sign(fnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return fnp.swapaxes(x, -1, -2) if n < m else x
