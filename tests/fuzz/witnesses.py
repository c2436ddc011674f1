"""Witnesses to derivatives: differences, complex steps, fifty digits, and JAX where it is installed.

Each runs the text of a program with numbers or names of its own. What a witness cannot tell apart from
something else it refuses (`Unsuited`), and what it computes has to agree with NumPy's value first.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import warnings
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
from tests.fuzz import reference


class Unsuited(Exception):  # noqa: N818 -- no error: this witness saw nothing
    """A witness has nothing to say about a program."""


class Calculus(NamedTuple):
    """A way to run a program, and to differentiate the function of one number that is made of it."""

    name: str
    namespace: Callable[[], dict[str, Any]]  # what `np`, `fg`, `lax` and builtin names mean
    lift: Callable[[Any], Any]  # an argument that is moved
    number: Callable[[Any], Any]  # what it is moved by
    slope: Callable[[Callable[[Any], Any]], Any]  # the derivative of a function at 0
    twice: Callable[[Callable[[Any, Any], Any]], Any]  # the mixed one of a function of two numbers
    tolerance: float
    share: float = 1.0  # of the programs that it is asked about
    unfit: str = r"$^"  # words in a program about which it has nothing to say
    largest: int = 10**9  # elements of the arguments
    analytic: bool = False  # whether complex results stand for real ones
    is_checked: bool = False  # whether its values have to be NumPy's

    def is_asked(self, source: str, size: int) -> bool:
        """Return whether a program is among those that it is asked about."""
        chosen = zlib.crc32((self.name + source).encode()) % 1000 < 1000 * self.share
        return chosen and size <= self.largest and not re.search(self.unfit, source)


class Namespace:
    """NumPy's, with other names for some things."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def __getattr__(self, name: str) -> Any:
        found = self._names.get(name)
        return getattr(np, name) if found is None else found


def filled(start: Any, kind: Any) -> dict[str, Any]:
    """Return the functions that make arrays of floats, which make them of another kind."""

    def of(make: Any) -> Any:
        def made(*args: Any, dtype: Any = None, **kwargs: Any) -> Any:
            out = make(*args, **({} if dtype is None else {"dtype": dtype}), **kwargs)
            return start(out).astype(kind) if dtype is None else out

        return made

    return {name: of(getattr(np, name)) for name in ("zeros", "ones", "empty", "eye", "identity", "full")}


# -- differences --------------------------------------------------------------------------------------------


def _twice(f: Callable[[Any, Any], Any]) -> Any:
    return reference.slope(lambda a: reference.slope(lambda t: f(a, t), 4e-3), 4e-3)


def _double(x: Any) -> Any:
    return x.astype({"f": float, "c": complex}.get(x.dtype.kind, x.dtype))


WIDE = Calculus(
    "differences in extended precision",
    lambda: {"np": reference.Extended(), "fg": reference, "lax": reference.lax},
    reference.lift,
    np.longdouble,
    reference.slope,
    _twice,
    2e-6,
)
DOUBLE = WIDE._replace(
    name="differences",
    namespace=lambda: {"np": np, "fg": reference, "lax": reference.lax},
    lift=_double,
    number=np.float64,
    tolerance=2e-5,
)


# -- complex steps ------------------------------------------------------------------------------------------

TINY = 1e-150  # so small that its square is nothing beside anything

# what is not analytic, or asks for real and imaginary parts on the way
NOT_ANALYTIC = (
    r"var|std|norm|conj|real|imag|angle|cov|corrcoef|vdot|vecdot|eig|svd|cholesky|qr|pinv|lstsq|cond\(|'nuc'"
    r"|slogdet|rank|spacing|fft|nextafter|unwrap|iscomplex|isreal|fg\.|float\(|complex|c16|c8"
)


def _absolute(x: Any, *args: Any, **kwargs: Any) -> Any:
    if args or kwargs:
        raise Unsuited
    return np.where(np.real(x) < 0, -x, x)[()]


def _stepwise(f: Any) -> Any:
    def of_real(x: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            raise Unsuited
        return f(np.real(x))

    return of_real


def _logaddexp(x: Any, y: Any) -> Any:
    first = np.real(x) > np.real(y)
    return np.where(first, x, y) + np.log1p(np.exp(np.where(first, y - x, x - y)))


def _analytic() -> dict[str, Any]:
    names = {
        **dict.fromkeys(("float16", "float32", "float64"), np.complex128),
        **filled(np.asarray, np.complex128),
        **dict.fromkeys(("absolute", "abs", "fabs"), _absolute),
        **{name: _stepwise(getattr(np, name)) for name in ("sign", "floor", "ceil", "trunc", "rint", "fix")},
        "cbrt": lambda x: np.where(np.real(x) < 0, -((-x + 0j) ** (1 / 3)), (x + 0j) ** (1 / 3)),
        "hypot": lambda x, y: np.sqrt(x * x + y * y),
        "logaddexp": _logaddexp,
    }
    return {"np": Namespace(names), "fg": reference, "lax": reference.lax, "abs": _absolute}


def _imaginary(f: Callable[[Any], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)  # an imaginary part is lost
        return np.imag(f(1j * TINY)) / TINY


COMPLEX_STEP = Calculus(
    "complex step",
    _analytic,
    lambda x: np.asarray(x, np.complex128) if np.asarray(x).dtype.kind == "f" else _refuse(),
    np.complex128,
    _imaginary,
    lambda f: reference.slope(lambda a: _imaginary(lambda t: f(a, t)), 4e-3),
    1e-8,
    unfit=NOT_ANALYTIC,
    analytic=True,
    is_checked=True,
)


def _refuse() -> Any:
    raise Unsuited


# -- fifty digits -------------------------------------------------------------------------------------------


@functools.cache
def _context() -> Any:
    """Return mpmath with numbers that have the methods by which NumPy's functions compute with objects."""
    ctx = mpmath.MPContext()
    ctx.dps = 50

    def lost(*_: Any) -> Any:
        raise Unsuited  # all but sixteen digits

    def real(f: Any) -> Any:
        def method(*args: Any) -> Any:
            y = f(*args)
            if not isinstance(y, ctx.mpf) or not ctx.isfinite(y):
                raise Unsuited
            return y

        return method

    methods = {
        **{
            name: getattr(ctx, name) for name in ("exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh")
        },
        **{name: getattr(ctx, name) for name in ("sqrt", "log1p", "log10", "hypot", "floor", "ceil")},
        "log": ctx.ln,
        "exp2": lambda x: ctx.mpf(2) ** x,
        "log2": lambda x: ctx.ln(x) / ctx.ln(2),
        "cbrt": lambda x: ctx.sign(x) * ctx.cbrt(abs(x)),
        "arcsin": ctx.asin,
        "arccos": ctx.acos,
        "arctan": ctx.atan,
        "arcsinh": ctx.asinh,
        "arccosh": ctx.acosh,
        "arctanh": ctx.atanh,
        "arctan2": ctx.atan2,
        **dict.fromkeys(("deg2rad", "radians"), lambda x: x * ctx.pi / 180),
        **dict.fromkeys(("rad2deg", "degrees"), lambda x: x * 180 / ctx.pi),
        "rint": ctx.nint,
        "trunc": lambda x: ctx.floor(x) if x > 0 else ctx.ceil(x),
        "conjugate": lambda x: x,
    }
    for name, f in methods.items():
        setattr(ctx.mpf, name, real(f))
    ctx.mpf.__float__ = ctx.mpf.__complex__ = lost
    ctx.mpf.__floor__ = lambda x: int(ctx.floor(x))
    ctx.mpf.__ceil__ = lambda x: int(ctx.ceil(x))
    ctx.mpf.__trunc__ = lambda x: int(x)
    power = ctx.mpf.__pow__

    def real_power(x: Any, y: Any) -> Any:
        z = power(x, y)
        return lost() if isinstance(z, ctx.mpc) else z

    ctx.mpf.__pow__ = real_power
    return ctx


class _Float:
    """A dtype of floats: numbers of fifty digits, which NumPy holds as objects."""

    dtype = np.dtype(object)

    def __call__(self, x: Any = 0.0) -> Any:
        return _fifty(x)


def _fifty(x: Any) -> Any:
    ctx = _context()
    if np.ndim(x) == 0:
        return x if isinstance(x, ctx.mpf) else ctx.mpf(np.asarray(x).item())
    return np.frompyfunc(_fifty, 1, 1)(x)


def _elementwise(f: Any, nin: int, kind: Any = object) -> Any:
    made = np.frompyfunc(f, nin, 1)

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise Unsuited
        with_fifty = [x if np.asarray(x).dtype.kind in "bO" else _fifty(x) for x in args]
        out = made(*with_fifty)
        return out if kind is object else np.asarray(out, kind)[()]

    return call


def _precise() -> dict[str, Any]:
    ctx = _context()
    add = lambda x, y: max(x, y) + ctx.log1p(ctx.exp(-abs(x - y)))
    names = {
        **dict.fromkeys(("float16", "float32", "float64"), _Float()),
        **filled(_fifty, object),
        "isnan": _elementwise(ctx.isnan, 1, bool),
        "isinf": _elementwise(ctx.isinf, 1, bool),
        "isfinite": _elementwise(ctx.isfinite, 1, bool),
        "signbit": _elementwise(lambda x: x < 0, 1, bool),
        "logaddexp": _elementwise(add, 2),
        "logaddexp2": _elementwise(lambda x, y: add(x * ctx.ln(2), y * ctx.ln(2)) / ctx.ln(2), 2),
        "copysign": _elementwise(lambda x, y: abs(x) if y >= 0 else -abs(x), 2),
        "float_power": _elementwise(lambda x, y: x**y, 2),
        "fmod": _elementwise(lambda x, y: x - y * (x / y).trunc(), 2),
        "i0": _elementwise(lambda x: ctx.besseli(0, x), 1),
        "sinc": _elementwise(ctx.sincpi, 1),
        "heaviside": _elementwise(lambda x, y: y if x == 0 else ctx.mpf(x > 0), 2),
    }
    return {"np": Namespace(names), "fg": reference, "lax": reference.lax}


def _lifted(x: Any) -> Any:
    x = np.asarray(x)
    if x.dtype.kind != "f" or not np.all(np.isfinite(x)):
        raise Unsuited
    made = np.empty_like(x, object)
    made[...] = _fifty(x.astype(float))
    return made


def _quotient(f: Callable[[Any], Any], step: str) -> Any:
    """Return the slope by central differences; NaN where the slopes of both sides are not the same."""
    ctx = _context()
    h = ctx.mpf(step)
    low, mid, high = (f(t) for t in (-h, 0 * h, h))
    if not isinstance(mid, ctx.mpf):
        raise Unsuited
    slope = (high - low) / (2 * h)
    one_sided = abs((high - mid) - (mid - low)) / h
    return slope if one_sided <= ctx.mpf("1e-6") * (1 + abs(slope)) else ctx.nan


FIFTY_DIGITS = Calculus(
    "fifty digits",
    _precise,
    _lifted,
    lambda t: _context().mpf(t) if isinstance(t, int | float) else t,
    lambda f: _quotient(f, "1e-15"),
    lambda f: _quotient(lambda a: _quotient(lambda t: f(a, t), "1e-15"), "1e-9"),
    1e-8,
    share=0.3,
    unfit=r"fg\.|fft|linalg|complex|spacing|nextafter|c16|c8",
    largest=40,
    is_checked=True,
)

WITNESSES = (COMPLEX_STEP, FIFTY_DIGITS)


def to_floats(x: Any) -> Any:
    """Return numbers of any kind as an array of floats."""
    x = np.asarray(x)
    if x.dtype == object:
        number = lambda v: float(mpmath.mp.make_mpf(v._mpf_)) if hasattr(v, "_mpf_") else float(v)
        return np.asarray(np.frompyfunc(number, 1, 1)(x), float)
    return np.real(x).astype(float)


def alike(
    f: Callable[..., Any], plain: Callable[..., Any], xs: list[Any], lifted: list[Any], precision: float
) -> Callable[..., list[Any]]:
    """Return a function with those results of `f` that are floats in NumPy, where they are NumPy's.

    Args:
        f: the program as a witness runs it.
        plain: the program as NumPy does.
        xs: arguments of `plain`.
        lifted: the same for `f`.
        precision: how far values may differ, beside the largest.

    Raises:
        Unsuited: they differ further.
    """
    expected = [np.asarray(e) for e in reference.leaves(plain(*(x.copy() for x in xs)))]
    size = max([1.0, *(float(np.abs(e).max()) for e in expected if e.size and e.dtype.kind in "fiu")])

    def counted(*args: Any) -> list[Any]:
        ys = [np.asarray(y, object) if hasattr(y, "_mpf_") else y for y in reference.leaves(f(*args))]
        return [y if e.dtype.kind == "f" else 0 for y, e in zip(ys, expected, strict=True)]

    for y, e in zip(counted(*(x.copy() for x in lifted)), expected, strict=True):
        if e.dtype.kind == "c" or (e.dtype.kind == "f" and np.shape(y) != e.shape):
            raise Unsuited
        if e.dtype.kind == "f" and not np.all(np.abs(to_floats(y) - e) <= precision * size):
            raise Unsuited
    return counted


# -- JAX ----------------------------------------------------------------------------------------------------


class Peer(NamedTuple):
    """Another library that differentiates the text of a program."""

    name: str
    names: Callable[[], dict[str, Any]]
    tolerance: float = 1e-8
    unfit: str = r"fg\.|iscomplex|frombuffer|bitwise_count|matvec|vecmat"
    largest: int = 1000

    is_asked = Calculus.is_asked
    share: float = 0.1


@functools.cache
def _jax() -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax


def jax_names() -> dict[str, Any]:
    """Return JAX's names for what a program calls."""
    jax = _jax()
    return {"np": jax.numpy, "fg": None, "lax": jax.lax}


def has_jax() -> bool:
    """Return whether JAX is installed."""
    return importlib.util.find_spec("jax") is not None


JAX = Peer("JAX", jax_names)
PEERS: list[Peer] = []  # who is asked too; the command line adds JAX where it is installed
