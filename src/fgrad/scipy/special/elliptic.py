"""Elliptic integrals and the functions of Jacobi, by Carlson's symmetric integrals without special cases.

    carlson(x, y, z; p, q, r) = integral of (t + x)**-p (t + y)**-q (t + z)**-r over t > 0

is a primitive that is closed under slopes, so derivatives of every order exist also where arguments are
equal.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind, unary
from fgrad.core.primitive import VJP, Pattern, Primitive, Rule, Written, register
from fgrad.core.stored import REAL, Stored, are_positive_powers
from fgrad.extend import engine
from fgrad.extend.engine import (
    COMPOSED,
    DeviceArray,
    Expr,
    as_value,
    batch_elementwise,
    call,
    convert,
    declare_word,
    equal,
    fn,
    near,
    where,
)
from fgrad.scipy.special.primitives import Row, declare

STEP = (
    0.5  # of the trapezoidal rule in log(t): singularities are pi away, so the error is exp(-2 pi**2 / STEP)
)
TAIL = 40.0  # exp(-TAIL) does not count
BLOCK = 4096  # elements at a time


def _run_carlson(*xs: Any, powers: tuple[float, ...]) -> Any:
    """Return the integral by the trapezoidal rule in log(t), where the integrand decays exponentially."""
    make = next((x.place for x in xs if x.__class__ is DeviceArray), np)
    arrays = [make.full((), x) if np.ndim(x) == 0 and x.__class__ is not DeviceArray else x for x in xs]
    kind = np.result_type(*(x.dtype for x in arrays))
    wide = np.broadcast_arrays(*(x.astype(float) for x in arrays))
    flat = [x.reshape(-1) for x in wide]
    out = near(flat[0]).empty(flat[0].shape)
    with np.errstate(all="ignore"):
        for i in range(0, len(out), BLOCK):
            out[i : i + BLOCK] = _trapezoidal([x[i : i + BLOCK] for x in flat], powers)
    return out.reshape(wide[0].shape).astype(kind)


def _trapezoidal(xs: list[Any], powers: tuple[float, ...]) -> Any:
    """Return the integrals for the elements of `xs`."""
    at_zero, start, length = _range(xs, powers)
    t = np.exp(start + STEP * near(start).arange(math.ceil(float(length) / STEP) + 1)[:, None])
    integral = np.where(at_zero >= 1, np.inf, np.sum(_term(xs, powers, t), axis=0))
    return np.where(functools.reduce(np.minimum, xs) < 0, np.nan, integral)


def _range(xs: list[Any], powers: tuple[float, ...]) -> tuple[Any, Any, Any]:
    """Return p where integrands begin like t**-p, the least log(t) that counts, and how far they all go."""
    positive = [np.where(x > 0, x, np.nan) for x in xs]
    at_zero: Any = sum(p * (x == 0) for x, p in zip(xs, powers, strict=True))
    start = np.log(functools.reduce(np.fmin, positive)) - TAIL / (1 - np.minimum(at_zero, 0.75))
    stop = np.log(functools.reduce(np.fmax, positive)) + TAIL / (sum(powers) - 1)
    return at_zero, start, np.max(np.where(np.isfinite(stop - start), stop - start, 0.0))


def _term(xs: list[Any], powers: tuple[float, ...], t: Any) -> Any:
    """Return what the rule adds up."""
    term = STEP * t
    for x, p in zip(xs, powers, strict=True):
        term = term * (t + x) ** -p
    return term


def _written_carlson(*xs: Any, powers: tuple[float, ...]) -> Any:
    """Return the same in a compiled program, where a loop adds up the rule."""
    kind = np.result_type(*(x.dtype for x in xs))
    shape = np.broadcast_shapes(*(x.shape for x in xs))
    wide = [np.broadcast_to(convert(x, np.dtype(float)), shape) for x in xs]
    at_zero, start, length = _range(wide, powers)

    def step(state: Any) -> Any:
        k, total = state
        return k + 1.0, total + _term(wide, powers, np.exp(start + STEP * k))

    count = np.ceil(length / STEP) + 1
    _, total = engine.while_loop(lambda state: state[0] < count, step, (0.0, np.zeros(shape)))
    integral = np.where(at_zero >= 1, np.inf, total)
    return convert(np.where(functools.reduce(np.minimum, wide) < 0, np.nan, integral), kind)


# ---- SciPy's integrals on a device, where CuPy has none of these


def _by_carlson(factor: float, *powers: float) -> Any:
    return lambda _, *xs: factor * _run_carlson(*xs, powers=powers)


_rf, _rd = _by_carlson(0.5, 0.5, 0.5, 0.5), _by_carlson(1.5, 0.5, 0.5, 1.5)
_rj, _rc = _by_carlson(1.5, 0.5, 0.5, 0.5, 1.0), _by_carlson(0.5, 0.5, 1.0)


def _ordered(x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
    low, high = np.minimum(x, y), np.maximum(x, y)
    return np.minimum(low, z), np.maximum(low, np.minimum(high, z)), np.maximum(high, z)


def _there_rc(place: Any, x: Any, y: Any) -> Any:
    """Return the integral, and the principal value of it where y < 0, (19.2.20)."""
    turned = np.sqrt(x / (x - y)) * _rc(place, np.where(y < 0, x - y, 1), np.where(y < 0, -y, 1))
    return np.where(y < 0, turned, _rc(place, x, np.where(y < 0, 1, y)))


def _there_rg(place: Any, x: Any, y: Any, z: Any) -> Any:
    """Return the integral by terms of one sign, (19.21.10)."""
    is_valid = (x >= 0) & (y >= 0) & (z >= 0)
    x, z, y = _ordered(x, y, z)  # the middle one is last
    safe = np.where(z == 0, 1, z)
    whole = safe * _rf(place, x, y, safe) - (x - safe) * (y - safe) / 3 * _rd(place, x, y, safe)
    found = np.where(z == 0, np.sqrt(y), whole + np.sqrt(x * y / safe)) / 2
    return np.where(is_valid, found, np.nan)


def _there_rj(place: Any, x: Any, y: Any, z: Any, p: Any) -> Any:
    """Return the integral, and the principal value of it where p < 0, (19.20.14) with y for z."""
    x, y, z = _ordered(x, y, z)
    q = np.where(p < 0, -p, 1)
    r = (y * (x + z + q) - x * z) / (y + q)
    turned = (r - y) * _rj(place, x, y, z, r) - 3 * _rf(place, x, y, z)
    turned = turned + 3 * np.sqrt(x * y * z / (x * z + r * q)) * _rc(place, x * z + r * q, r * q)
    return np.where(p < 0, turned / (y + q), _rj(place, x, y, z, np.where(p < 0, 1, p)))


COMPOSED |= {
    "scipy.special.elliprc": _there_rc,
    "scipy.special.elliprd": _rd,
    "scipy.special.elliprf": _rf,
    "scipy.special.elliprg": _there_rg,
    "scipy.special.elliprj": _there_rj,
}


def _carlson_vjp(pattern: Pattern) -> VJP:
    places = [i for i, tracked in enumerate(pattern) if tracked]

    def back(ct: Any, *saved: Any) -> list[Any]:
        *xs, params = saved
        powers = params["powers"]

        def raised(i: int) -> tuple[float, ...]:
            return (*powers[:i], powers[i] + 1, *powers[i + 1 :])

        return [bind("scale", ct, -powers[i] * bind("carlson", *xs, powers=raised(i))) for i in places]

    return VJP(back, keep=tuple(range(1, len(pattern) + 1)), params=True)


def _register(name: str, run: Rule, written: Rule, vjp: Callable[[Pattern], VJP]) -> None:
    """Register an integral with the exponents of its factors."""

    def shape(*xs: Any, powers: Any) -> Aval:
        return Aval(np.broadcast_shapes(*(x.shape for x in xs)), np.result_type(*(x.dtype for x in xs)))

    batch = functools.partial(batch_elementwise, name)
    stored = Stored({"powers": are_positive_powers}, dtypes=REAL)
    columns: dict[str, Any] = {"real": True, "stored": stored, "written": Written(written)}
    register(Primitive(name, run=run, vjp=vjp, shape=shape, batch=batch, **columns))


def _word(name: str, primitive: str, factor: float, *powers: float) -> Any:
    """Return `factor` times an integral, as a function of expressions."""

    def word(*xs: Any) -> Any:
        values = [as_value(x) for x in xs]
        kind = np.result_type(*(v.dtype for v in values), np.float32)
        return factor * bind(primitive, *(convert(v, kind) for v in values), powers=powers)

    declare_word(name, word)
    return call(name)


_register("carlson", _run_carlson, _written_carlson, _carlson_vjp)


_rd_x = _word("carlson_3_1_3", "carlson", -0.75, 1.5, 0.5, 1.5)  # of 19.16.5
_rd_z = _word("carlson_1_1_5", "carlson", -2.25, 0.5, 0.5, 2.5)
_rj_x = _word("carlson_3_1_1_2", "carlson", -0.75, 1.5, 0.5, 0.5, 1.0)  # of 19.16.2
_rj_p = _word("carlson_1_1_1_4", "carlson", -1.5, 0.5, 0.5, 0.5, 2.0)


def _elliprg(_: Expr, x: Expr, y: Expr, z: Expr) -> tuple[Expr, ...]:
    size = fn.maximum(fn.maximum(x, y), z)
    unit = where(equal(size, 0), 1, size)
    x, y, z = x / unit, y / unit, z / unit
    first = fn.elliprf(x, y, z) / 4

    def slope(x: Expr, y: Expr, z: Expr) -> Expr:
        return (first - fn.multiply_no_nan(z, fn.elliprd(x, y, z)) / 12) / fn.sqrt(unit)

    return slope(y, z, x), slope(x, z, y), slope(x, y, z)


# ---- what the integrals of Legendre depend on m by


def _run_moment(phi: Any, m: Any, *, powers: tuple[float, float]) -> Any:
    """Return the integral of sin**(2 k) (1 - m sin**2)**-p from 0 to `phi`: half turns, and the rest."""
    k, p = powers
    kind = np.result_type(phi.dtype, m.dtype)
    phi, m = phi.astype(float), m.astype(float)
    orders = (0.5, p, k + 1 - p)
    half, s, c = _half_turns(phi)
    found = s * (s * s) ** k / 2 * _run_carlson(c * c, 1 - m * s * s, 1.0, powers=orders)
    if half.__class__ is DeviceArray or np.any(half != 0):  # nothing is read from a device
        zero = np.zeros_like(found)
        found = found + np.where(half == 0, 0, half * _run_carlson(zero, 1 - m + zero, 1.0, powers=orders))
    return found.astype(kind)


def _half_turns(phi: Any) -> tuple[Any, Any, Any]:
    """Return the number of half turns in an angle, and sine and cosine of the rest."""
    half = np.rint(phi / math.pi)
    rest = phi - math.pi * half
    return half, np.sin(rest), np.cos(rest)


def _written_moment(phi: Any, m: Any, *, powers: tuple[float, float]) -> Any:
    k, p = powers
    kind = np.result_type(phi.dtype, m.dtype)
    phi, m = convert(phi, np.dtype(float)), convert(m, np.dtype(float))
    orders = (0.5, p, k + 1 - p)
    half, s, c = _half_turns(phi)
    one = np.ones(())
    found = s * (s * s) ** k / 2 * _written_carlson(c * c, 1 - m * s * s, one, powers=orders)
    whole = _written_carlson(np.zeros(m.shape), 1 - m, one, powers=orders)
    return convert(found + np.where(half == 0, 0, half * whole), kind)


def _moment_vjp(pattern: Pattern) -> VJP:
    def back(ct: Any, phi: Any, m: Any, params: dict[str, Any]) -> list[Any]:
        k, p = params["powers"]
        found = []
        if pattern[0]:
            s = unary("sin", phi)
            integrand = bind("power", 1 - m * s * s, -p)
            found.append(bind("scale", ct, integrand * (s * s) ** k))
        if pattern[1]:
            found.append(bind("scale", ct, p * bind("elliptic_moment", phi, m, powers=(k + 1, p + 1))))
        return found

    return VJP(back, keep=(1, 2), params=True)


_register("elliptic_moment", _run_moment, _written_moment, _moment_vjp)
_first_by_m = _word("ellipkinc_m", "elliptic_moment", 0.5, 1.0, 1.5)
_second_by_m = _word("ellipeinc_m", "elliptic_moment", -0.5, 1.0, 0.5)


def _root(phi: Expr, m: Expr) -> Expr:
    s = fn.sin(phi)
    return fn.sqrt(1 - m * s * s)


def _amplitude(u: Expr, m: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """Return sn, cn, dn and how the amplitude depends on m."""
    sn, cn, dn = fn.ellipj_sn(u, m), fn.ellipj_cn(u, m), fn.ellipj_dn(u, m)
    return sn, cn, dn, -dn * _first_by_m(fn.ellipj_ph(u, m), m)


def _sn(f: Expr, u: Expr, m: Expr) -> tuple[Expr, Expr]:
    _, cn, dn, by_m = _amplitude(u, m)
    return cn * dn, cn * by_m


def _cn(f: Expr, u: Expr, m: Expr) -> tuple[Expr, Expr]:
    sn, _, dn, by_m = _amplitude(u, m)
    return -sn * dn, -sn * by_m


def _dn(f: Expr, u: Expr, m: Expr) -> tuple[Expr, Expr]:
    sn, cn, _, by_m = _amplitude(u, m)
    return -m * sn * cn, -sn * (sn / 2 + m * cn * by_m) / f


def _ph(f: Expr, u: Expr, m: Expr) -> tuple[Expr, Expr]:
    _, _, dn, by_m = _amplitude(u, m)
    return dn, by_m


# fmt: off
declare({
    "ellipk":    Row("m", lambda f, m: (fn.elliprd(0, 1, 1 - m) / 6,), "19.25.1, 19.18.1"),
    "ellipkm1":  Row("p", lambda f, p: (-fn.elliprd(0, 1, p) / 6,), "19.25.1, 19.18.1"),
    "ellipe":    Row("m", lambda f, m: (-fn.elliprd(0, 1 - m, 1) / 6,), "19.4.2, 19.25.1"),
    "ellipkinc": Row("phi m", lambda f, phi, m: (1 / _root(phi, m), _first_by_m(phi, m)), "19.25.5, 19.18.1"),
    "ellipeinc": Row("phi m", lambda f, phi, m: (_root(phi, m), _second_by_m(phi, m)), "19.4.6, 19.25.9"),
    "ellipj_sn": Row("u m", _sn, "22.13.1, 22.16.1", output=("ellipj", 0)),
    "ellipj_cn": Row("u m", _cn, "22.13.2, 22.16.1", output=("ellipj", 1)),
    "ellipj_dn": Row("u m", _dn, "22.13.3, 22.16.1", output=("ellipj", 2)),
    "ellipj_ph": Row("u m", _ph, "22.16.3", output=("ellipj", 3)),
    "elliprc":   Row("x y", lambda f, x, y: (-fn.elliprd(y, y, x) / 6, -fn.elliprd(x, y, y) / 3),
                     "19.20.4, 19.18.1"),
    "elliprd":   Row("x y z", lambda f, x, y, z: (_rd_x(x, y, z), _rd_x(y, x, z), _rd_z(x, y, z)), "19.16.5"),
    "elliprf":   Row("x y z", lambda f, x, y, z: (
                     -fn.elliprd(y, z, x) / 6, -fn.elliprd(x, z, y) / 6, -fn.elliprd(x, y, z) / 6),
                     "19.18.1"),
    "elliprg":   Row("x y z", _elliprg, "19.18.7, 19.21.10"),
    "elliprj":   Row("x y z p", lambda f, x, y, z, p: (
                     _rj_x(x, y, z, p), _rj_x(y, x, z, p), _rj_x(z, x, y, p), _rj_p(x, y, z, p)), "19.16.2"),
})
# fmt: on
