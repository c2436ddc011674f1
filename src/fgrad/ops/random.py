"""Random numbers: the block cipher behind them, and derivatives of samples in their parameters.

Samples of gamma and beta distributions come from rejection, which has no derivative. Their derivative is
that of the quantile function at the probability of the sample: F(y; theta) stays as it is while theta
changes, so dy/dtheta = -(dF/dtheta) / p (Figurnov, Mohamed & Mnih 2018, Implicit reparameterization
gradients). The primitives work on y = log(gamma) and y = logit(beta), whose densities p have no singularity,
and on the ratios

    R_i = (dF/dtheta_i) / p,    R_ij = (d2F/dtheta_i dtheta_j) / p,    ...

which neither overflow nor underflow, and whose derivatives are ratios of the next order again.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from fgrad.backend.array import DeviceArray, mixed
from fgrad.backend.devices import as_array
from fgrad.core.aval import Aval, Shape, broadcasts
from fgrad.core.dispatch import bind, unary
from fgrad.core.placement import near
from fgrad.core.primitive import NOT_FOLDED, VJP, Pattern, Rule, Written, by_argument, declare, flat
from fgrad.core.stored import (
    LARGEST,
    PLAIN,
    REAL,
    Check,
    Stored,
    are_integers,
    is_dtype,
    is_shape,
    one_of,
    typed,
    up_to,
)
from fgrad.core.tensor import Tensor
from fgrad.ops import sampling
from fgrad.ops.compiled import looks
from fgrad.ops.elementwise import batch_elementwise
from fgrad.ops.linear import batch_in_front, convert

Array = Any

# ---- bits


ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
BLOCK = 1 << 14  # counters at a time: what they need stays in the cache


def _run_threefry(key: Array, count: Array) -> Array:
    """Return the blocks of Threefry-2x32 (20 rounds) of the counters `count` under `key`, two words each.

    Salmon, Moraes, Dror & Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
    """
    shape = np.broadcast_shapes(key.shape, count.shape)
    out = near(count).empty(shape, np.uint32)
    if key.ndim > 1:
        words = (np.broadcast_to(part, shape[:-1]) for x in (key, count) for part in (x[..., 0], x[..., 1]))
        out[..., 0], out[..., 1] = _rounds(*words)
        return out
    count, pairs = count.reshape(-1, 2), out.reshape(-1, 2)
    for start in range(0, len(count), BLOCK):
        some = slice(start, start + BLOCK)
        pairs[some, 0], pairs[some, 1] = _rounds(key[..., :1], key[..., 1:], count[some, 0], count[some, 1])
    return out


def _rounds(k0: Array, k1: Array, x0: Array, x1: Array) -> tuple[Array, Array]:
    schedule = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    x0, x1 = x0 + k0, x1 + k1
    high = np.empty_like(x1)
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            x0 += x1
            np.left_shift(x1, np.uint32(r), out=high)
            x1 >>= np.uint32(32 - r)
            x1 |= high
            x1 ^= x0
        x0 += schedule[(i + 1) % 3]
        x1 += schedule[(i + 2) % 3]
        x1 += np.uint32(i + 1)
    return x0, x1


def _written_threefry(key: Array, count: Array) -> Array:
    """Return the same in a compiled program, where nothing is written in place."""
    k0, k1, x0, x1 = (x[..., i] for x in (key, count) for i in range(2))
    schedule = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    x0, x1 = x0 + k0, x1 + k1
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = ((x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r))) ^ x0
        x0 = x0 + schedule[(i + 1) % 3]
        x1 = x1 + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return np.stack([x0, x1], axis=-1)


def generator(key: Array) -> np.random.Generator:
    """Return NumPy's Generator of the stream that `key` names."""
    return np.random.Generator(np.random.Philox(key=(int(key[0]) << 32) | int(key[1])))


def _run_draw(
    key: Array, *operands: Array, method: str, names: Sequence[str], options: Any, shape: Shape, dtype: Any
) -> Array:
    if key.__class__ is DeviceArray:
        stream = sampling.Stream(_run_threefry, key, shape)
        values = {
            n: x if n == "p" and method == "choice" else stream.spread(x)
            for n, x in zip(names, operands, strict=True)
        }
        given = {k: v for k, v in options.items() if k != "size"}  # it is the shape
        made = sampling.METHODS[method](stream, **values, **given)
        return np.broadcast_to(made, (*key.shape[:-1], *shape)).astype(dtype)
    for x in operands:
        if x.__class__ is DeviceArray:
            raise mixed(x.device, "cpu")
    lead = key.shape[:-1]  # one stream for each key; the operands have these axes first
    out = np.empty((*lead, *shape), dtype)
    for i in np.ndindex(lead):
        values = dict(zip(names, (x[i] for x in operands) if lead else operands, strict=True))
        out[i] = np.reshape(getattr(generator(key[i]), method)(**values, **options), shape)
    return out


def _refuse(_: Pattern) -> NoReturn:
    """Say why a discrete sample has no derivative, as soon as someone asks for it."""
    raise TypeError(
        "a sample of a discrete distribution is a step function of its parameters, so it has no derivative. "
        "Estimate the gradient of its expectation by the score function (add "
        "stop_gradient(loss) * log_probability to the loss), relax it (gumbel-softmax: softmax((logits + "
        "fgrad.random.gumbel(key, size=logits.shape)) / temperature)), or declare a constant: "
        "fgrad.stop_gradient(p)"
    )


declare(
    "threefry",
    run=_run_threefry,
    vjp=flat,
    shape=lambda key, count: Aval(np.broadcast_shapes(key.shape, count.shape), np.dtype(np.uint32)),
    batch=functools.partial(batch_elementwise, "threefry"),
    written=Written(_written_threefry),
    stored=Stored(
        verify=lambda key, count: (
            key.shape[-1:] == count.shape[-1:] == (2,) and key.dtype == count.dtype == np.uint32
        )
    ),
)
# the parameters of a method that are operands, those that may be, and the types of others
_DRAWN: dict[str, tuple[set[str], set[str], dict[str, type]]] = {
    "binomial": ({"n", "p"}, set(), {"size": tuple}),
    "choice": (set(), {"p"}, {"a": int, "size": tuple, "replace": bool, "shuffle": bool}),
    "integers": ({"low", "high"}, set(), {"size": tuple, "dtype": str, "endpoint": bool}),
    "permutation": (set(), set(), {"x": int}),
    "poisson": ({"lam"}, set(), {"size": tuple}),
    "standard_gamma": ({"shape"}, set(), {"size": tuple}),
}


def _draws(
    key: Aval, *operands: Aval, method: str, names: Any, options: Any, shape: Shape, dtype: Any
) -> bool:
    needed, possible, types = _DRAWN[method]
    lead = key.shape[:-1]
    rest = [a.shape[len(lead) :] for a in operands]
    return (
        key.shape[-1:] == (2,)
        and key.dtype == np.uint32
        and needed <= {*names} <= needed | possible
        and len({*names}) == len(names) == len(operands)
        and all(a.dtype.kind in "biuf" and a.shape[: len(lead)] == lead for a in operands)
        and types.keys() - {"size"} <= options.keys() <= types.keys()
        and all(type(v) is types[k] for k, v in options.items())
        and options.get("size", np.broadcast_shapes(*rest) if "size" in types else shape) == shape
        and (method != "permutation" or shape == (options["x"],))
        and (method != "integers" or (dtype.kind in "iu" and options["dtype"] == dtype.name))
        and (
            all(r == (options["a"],) for r in rest) and 0 <= options["a"] < LARGEST
            if method == "choice"
            else all(broadcasts(r, shape) for r in rest)
        )
    )


declare(
    "draw",
    run=_run_draw,
    vjp=flat,
    shape=lambda key, *_, shape, dtype, **params: Aval((*key.shape[:-1], *shape), dtype),
    batch=batch_in_front("draw"),
    traits={NOT_FOLDED},
    interpreted="the streams of NumPy's generators are drawn from in Python",
    stored=Stored(
        {
            "method": one_of(*_DRAWN),
            "names": lambda v, _: type(v) is tuple and all(type(s) is str for s in v),
            "options": typed(dict),
            "shape": is_shape,
            "dtype": is_dtype,
        },
        verify=_draws,
        work=lambda *_, options, **__: 2 * options.get("a", 0),
    ),
)
declare(
    "discrete",
    run=lambda x: x,
    vjp=_refuse,
    shape=lambda x: x,
    batch=batch_in_front("discrete"),
    stored=PLAIN,
)


# ---- special functions


def _in_double(f: Callable[..., Array]) -> Callable[..., Array]:
    """Return `f` computed in double precision, with a result as narrow as the real operands."""

    @functools.wraps(f)
    def wide(*xs: Array, **params: Any) -> Array:
        arrays = [x if x.__class__ is Tensor else as_array(x) for x in xs]
        kind = np.result_type(*(x.dtype for x in arrays if x.dtype.kind == "f"))
        with np.errstate(all="ignore"):
            out = f(*(x.astype(float) if x.dtype.kind == "f" else x for x in arrays), **params)
        return out.astype(kind) if out.__class__ is Tensor else as_array(out, kind)

    return wide


def polygamma(x: Any, n: int) -> Any:
    """Return the derivative of order `n` + 1 of log gamma(x), for positive x."""
    return bind("polygamma", x, n=n)


# B_2, B_4, ...: Bernoulli numbers
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _polygamma(x: Array, *, n: int) -> Array:
    """Return the asymptotic series far from zero, after recurrence: Abramowitz & Stegun (1964), 6.4.11."""
    steps = 12 + n
    far = x + steps
    near: Any = 0.0
    for k in range(steps):
        near = near + (x + k) ** (-n - 1)
    tail: Any = 0.0
    for k, b in reversed(list(enumerate(BERNOULLI, 1))):
        tail = (tail + b * math.factorial(2 * k + n - 1) / math.factorial(2 * k)) / (far * far)
    if n == 0:
        return np.log(far) - 0.5 / far - tail - near
    sign, scale = (-1) ** (n + 1), math.factorial(n)
    return sign * (far ** -float(n) * (scale / n + scale / 2 / far + tail) + scale * near)


def _elementwise(name: str, run: Rule, vjp: Any, stored: Stored, *, floats: int) -> None:
    """Declare a primitive of operands that broadcast: integers first, floats from `floats` on."""

    def shape(*xs: Any, **_: Any) -> Aval:
        kinds = [x.dtype.kind for x in xs]
        if any(k != "f" for k in kinds[floats:]) or any(k not in "iu" for k in kinds[:floats]):
            raise TypeError(f"{name} takes floats, not {', '.join(str(x.dtype) for x in xs)}")
        lengths = np.broadcast_shapes(*(x.shape for x in xs))
        return Aval(lengths, np.result_type(*(x.dtype for x in xs[floats:])))

    declare(
        name,
        run=_in_double(run),
        written=Written(_in_double(run)),
        vjp=vjp,
        shape=shape,
        batch=functools.partial(batch_elementwise, name),
        real=True,
        stored=stored,
    )


_elementwise(
    "polygamma",
    _polygamma,
    by_argument(lambda ct, x, *, n: ct * polygamma(x, n + 1)),
    Stored({"n": up_to(100)}, dtypes=REAL),
    floats=0,
)


# ---- implicit derivatives


def partitions(index: Sequence[int], term: Callable[[tuple[int, ...]], Any]) -> Any:
    """Return the sum over all partitions of `index` of the products of `term` of their blocks.

    With the derivatives of log p as terms this is the derivative of p, over p (Faa di Bruno).
    """
    if not index:
        return 1.0
    first, rest = index[0], tuple(index[1:])
    total: Any = 0.0
    for n in range(len(rest) + 1):
        for places in itertools.combinations(range(len(rest)), n):
            block = (first, *(rest[i] for i in places))
            left = tuple(r for i, r in enumerate(rest) if i not in places)
            total = total + term(block) * partitions(left, term)
    return total


class LogGamma:
    """The logarithm of a gamma variable of shape a: log p(y) = a y - exp(y) - log gamma(a)."""

    parameters = 1

    @staticmethod
    def constant(block: Sequence[int], a: Any) -> Any:
        """Return the part of the derivative of log p by the parameters in `block` without y."""
        return -polygamma(a, len(block) - 1)

    @staticmethod
    def linear(i: int, y: Any, a: Any) -> Any:
        """Return the part of the derivative of log p by parameter `i` that depends on y."""
        return y

    @staticmethod
    def slope(y: Any, a: Any) -> Any:
        """Return the derivative of log p by y."""
        return a - unary("exp", y)

    @staticmethod
    def ray(y: Array, a: Array) -> tuple[Array, Array, Callable[[Array], tuple[Array, tuple[Array, ...]]]]:
        """Return the side from y on which p decays, how fast, and what is known at a distance v there."""
        x = np.exp(y)
        below = x <= np.maximum(a, 1)
        side = np.where(below, -1.0, 1.0)
        rate = np.where(below, np.maximum(a - x, np.minimum(np.sqrt(a), a)), np.maximum(x - a, np.sqrt(x)))

        def at(v: Array) -> tuple[Array, tuple[Array, ...]]:
            d = side * v
            return d * a - x * np.expm1(d), (y + d,)

        return side, rate, at


class LogitBeta:
    """The logit of a beta variable: log p(y) = a y - (a + b) log(1 + exp(y)) - log B(a, b)."""

    parameters = 2

    @staticmethod
    def constant(block: Sequence[int], a: Any, b: Any) -> Any:
        """Return the part of the derivative of log p by the parameters in `block` without y."""
        n = len(block) - 1
        both = polygamma(a + b, n)
        return both if len(set(block)) > 1 else both - polygamma(b if block[0] else a, n)

    @staticmethod
    def linear(i: int, y: Any, a: Any, b: Any) -> Any:
        """Return the part of the derivative of log p by parameter `i` that depends on y."""
        sided: Any = y if i else -y
        return -bind("logaddexp", sided, 0.0)

    @staticmethod
    def slope(y: Any, a: Any, b: Any) -> Any:
        """Return the derivative of log p by y."""
        return a - (a + b) * unary("exp", LogitBeta.linear(0, y, a, b))

    @staticmethod
    def ray(
        y: Array, a: Array, b: Array
    ) -> tuple[Array, Array, Callable[[Array], tuple[Array, tuple[Array, ...]]]]:
        """Return the side from y on which p decays, how fast, and what is known at a distance v there."""
        log_q, log_p = -np.logaddexp(-y, 0), -np.logaddexp(y, 0)
        q, p = np.exp(log_q), np.exp(log_p)
        below = b * q <= a * p
        side = np.where(below, -1.0, 1.0)
        near: Array = np.where(below, a, b)
        share, slope = np.where(below, q, p), np.abs(a * p - b * q)
        rate = np.maximum(slope, np.minimum(np.sqrt((a + b) * q * p), near))
        rate = np.maximum(rate, np.minimum(near, 1) * 1e-3)

        def at(v: Array) -> tuple[Array, tuple[Array, ...]]:
            w = np.log1p(share * np.expm1(-v))
            return -near * v - (a + b) * w, (
                log_q - w - np.where(below, v, 0),
                log_p - w - np.where(below, 0, v),
            )

        return side, rate, at


DONE = -60.0  # exp of it does not count


def _nodes() -> Iterator[tuple[float, float]]:
    """Yield places and weights for integrals over v > 0 of what decays like exp(-v) or faster.

    Takahasi & Mori (1974), Double exponential formulas for numerical integration.
    """
    for k in range(-42, 61):
        u = k / 10
        v = math.exp(u - math.exp(-u))
        yield v, v * (1 + math.exp(-u)) / 10


def _ratio(family: Any, y: Array, *theta: Array, index: tuple[int, ...]) -> Array:
    """Return the derivative of the distribution function by the parameters in `index`, over the density."""
    side, rate, at = family.ray(y, *theta)
    constants = {
        block: family.constant(block, *theta)
        for n in range(1, len(index) + 1)
        for block in set(itertools.combinations(index, n))
    }
    total: Any = 0.0
    for place, weight in _nodes():
        exponent, linear = at(place / rate)
        if place > 1 and looks(exponent) and np.max(exponent, initial=-np.inf) < DONE:
            break

        def term(block: tuple[int, ...], linear: Any = linear) -> Any:
            return constants[block] + linear[block[0]] if len(block) == 1 else constants[block]

        total = total + weight * np.exp(exponent) * partitions(index, term)
    return -side * total / rate


def _are_orders(parameters: int) -> Check:
    """Return the check for the parameters of a distribution by which something is differentiated."""
    return lambda v, _: are_integers(v, _) and 0 < len(v) <= 8 and all(0 <= i < parameters for i in v)


def _declare_implicit(name: str, family: Any) -> None:
    """Declare the primitive that says how a sample depends on its parameters, and that of its ratios."""
    ratio = f"{name}_ratio"

    def score(y: Any, theta: Sequence[Any]) -> Callable[[tuple[int, ...]], Any]:
        def term(block: tuple[int, ...]) -> Any:
            fixed = family.constant(block, *theta)
            return fixed + family.linear(block[0], y, *theta) if len(block) == 1 else fixed

        return term

    def of_sample(i: int) -> Rule:
        return lambda ct, out, _, *theta: -ct * bind(ratio, out, *theta, index=(i,))

    def of_ratio(ct: Any, out: Any, y: Any, *theta: Any, index: tuple[int, ...]) -> Any:
        return ct * (partitions(index, score(y, theta)) - out * family.slope(y, *theta))

    def of_parameter(i: int) -> Rule:
        def rule(ct: Any, out: Any, y: Any, *theta: Any, index: tuple[int, ...]) -> Any:
            grown = bind(ratio, y, *theta, index=tuple(sorted((*index, i))))
            return ct * (grown - out * score(y, theta)((i,)))

        return rule

    n = family.parameters
    rules = [of_sample(i) for i in range(n)]
    slopes = [of_ratio, *(of_parameter(i) for i in range(n))]
    _elementwise(name, _first, _keeping_all([None, *rules]), Stored(operands=n + 1, dtypes=REAL), floats=0)
    stored = Stored({"index": _are_orders(n)}, operands=n + 1, dtypes=REAL)
    _elementwise(ratio, functools.partial(_ratio, family), _keeping_all(slopes), stored, floats=0)


def _first(y: Array, *theta: Array) -> Array:
    """Return a sample, in the shape that it has with its parameters."""
    shape = np.broadcast_shapes(y.shape, *(t.shape for t in theta))
    return y if y.shape == shape else np.broadcast_to(y, shape).copy()


def _keeping_all(rules: Sequence[Rule | None]) -> Callable[[Pattern], VJP | None]:
    """Return the `vjp` of a primitive whose rules take the cotangent, the output and all operands."""

    def vjp(pattern: Pattern) -> VJP | None:
        used = [rule for rule, tracked in zip(rules, pattern, strict=True) if tracked]

        def call(ct: Any, *saved: Any) -> list[Any]:
            *values, params = saved
            return [rule and rule(ct, *values, **params) for rule in used]

        return VJP(call, keep=tuple(range(len(pattern) + 1)), params=True) if any(used) else None

    return vjp


_declare_implicit("log_gamma", LogGamma)
_declare_implicit("logit_beta", LogitBeta)


# ---- the normal distribution between two limits

# Chebyshev coefficients of (1 + 2 x) exp(x^2) erfc(x) in t = (x - 3.75) / (x + 3.75) for x >= 0, found with
# 40 digits; the form is that of Shepherd & Laframboise (1981), Math. Comp. 36
CHEBYSHEV = (
    1.17757893456740175, -0.00459005458064647733, -0.0842491333665179156, 0.0592099399981918905,
    -0.0266586684353057523, 0.00907499767070526509, -0.00241316354041760819, 0.000490775836525808632,
    -0.0000691697330250120635, 4.13902798607301028e-6, 7.74038306619849177e-7, -2.18864010492343854e-7,
    1.07649994656710044e-8, 4.52195981121837225e-9, -7.75440020883058907e-10, -6.31808834088002003e-11,
    2.86879501093634231e-11, 1.94558685504269723e-13, -9.65469674807327499e-13, 3.25254815068287565e-14,
    3.34781194973970522e-14, -1.86456287678140723e-15, -1.25079506034176426e-15, 7.4182334421949088e-17,
)  # fmt: skip
WORD = 52  # bits of a probability


def _scaled_tail(x: Array) -> Array:
    """Return exp(x^2) erfc(x) for x >= 0."""
    t = (x - 3.75) / (x + 3.75)
    a, b = np.zeros_like(x), np.zeros_like(x)
    for c in CHEBYSHEV[:0:-1]:
        a, b = 2 * t * a - b + c, a
    return (t * a - b + CHEBYSHEV[0]) / (1 + 2 * x)


def _log_below(z: Array) -> Array:
    """Return the logarithm of the probability that a standard normal variable is below `z`."""
    size = np.minimum(np.abs(z), 1e200)
    tail = np.log(0.5 * _scaled_tail(size / math.sqrt(2))) - 0.5 * size * size
    return np.where(z <= 0, tail, np.log1p(-np.exp(tail)))


def _quantile_below(log_p: Array) -> Array:
    """Return z <= 0 where the logarithm of the probability below is `log_p`, by Newton's method on it."""
    r = -2 * log_p - math.log(2 * math.pi)
    z = -np.sqrt(np.maximum(r - np.log(np.maximum(r, 1)), 0))
    for _ in range(7):  # the function is concave: from the left of the root it does not overshoot twice
        ratio = math.sqrt(math.pi / 2) * _scaled_tail(-z / math.sqrt(2))  # probability over density
        step = (np.log(ratio) - 0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_p) * ratio
        z = np.minimum(z - step, 0)
        if looks(z) and np.max(np.abs(step), initial=0.0) < 1e-10:
            break  # the error of the next one is of its square
    return z


def _run_between(word: Array, low: Array, high: Array) -> Array:
    """Return the normal quantile, from the probabilities on the side where they are small and accurate."""
    u = (word + 0.5) * 2.0**-WORD
    log_u, log_v = np.log(u), np.log1p(-u)
    left = np.logaddexp(log_v + _log_below(low), log_u + _log_below(high))
    right = np.logaddexp(log_v + _log_below(-low), log_u + _log_below(-high))
    z = _quantile_below(np.minimum(left, right))
    return np.clip(np.where(left <= right, z, -z), low, high)


def _at_limit(ct: Any, out: Any, limit: Any, share: Any) -> Any:
    """Return what reaches a limit: `share` times the density there over the density at the sample."""
    finite = unary("isfinite", limit)
    near = bind("where", finite, limit, 0.0)
    slope = share * unary("exp", 0.5 * (out - near) * (out + near))
    return ct * bind("where", finite, slope, 0.0)


def _share(word: Any, dtype: np.dtype[Any]) -> Any:
    return convert((convert(word, np.dtype(float)) + 0.5) * 2.0**-WORD, dtype)


_elementwise(
    "normal_between",
    _run_between,
    by_argument(
        None,
        lambda ct, out, x, y: _at_limit(ct, out, y, 1 - _share(x, ct.dtype)),
        lambda ct, out, x, z: _at_limit(ct, out, z, _share(x, ct.dtype)),
    ),
    Stored(operands=3),
    floats=1,
)
