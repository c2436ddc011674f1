"""The contraction primitive: a product of two arrays summed over shared axes, derived from the subscripts.

Subscripts are strings of letters as in `einsum`: `contract(x, y, "ij", "jk", "ik")` is a matrix product.
Every letter stands at most once in a string, and a letter that only one operand has stays in the result;
`fgrad.numpy` brings every other case (repeated letters, sums over one operand, length-one axes) to this form.
The adjoints of such a contraction are contractions of the same form.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import config
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import as_array
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.primitive import (
    CONTRACTION,
    LARGE,
    MULTILINEAR,
    PRODUCT,
    ROWS,
    SPREADS,
    TOTAL,
    VJP,
    Pattern,
    Rule,
    by_argument,
    declare,
)
from fgrad.core.stored import Stored, is_text
from fgrad.expr.node import var
from fgrad.ops.compiled import FLOATS, LAUNCH, Fused, launched


def contract(x: Any, y: Any, a: str, b: str, out: str) -> Any:
    """Return the product of `x` (axes `a`) and `y` (axes `b`), summed over the letters missing in `out`."""
    return bind("contract", x, y, a=a, b=b, out=out)


@functools.lru_cache(config.cache_entries())
def _plan(a: str, b: str, out: str) -> Callable[[Any, Any], Any]:
    """Return the recipe: to matrices by transposes and reshapes, one `matmul`, and back."""
    shared = [c for c in a if c in b and c in out]
    summed = [c for c in a if c in b and c not in out]
    left = [c for c in a if c not in b]
    right = [c for c in b if c not in a]
    order = "".join(shared + left + right)
    if not summed:
        if out in (a, b) and {a, b} <= {out, ""}:
            return np.multiply  # by a number, or of equal axes: half the time of einsum
        slow: Rule = functools.partial(np.einsum, f"{a},{b}->{out}")  # half the time of a broadcast product
        if not shared and left and right and out in (a + b, b + a):  # einsum adds to zero, which loses -0
            slow = _all_products if out == a + b else lambda x, y: _all_products(y, x)
        if a == "".join(shared + left) and b == "".join(shared + right) and left and right:
            if out == order:
                return _Outer(len(shared), slow, flipped=False)
            if out == "".join(shared + right + left):
                return _Outer(len(shared), slow, flipped=True)
        return slow
    if a == b and not out:
        return _inner(np.dot if len(a) == 1 else functools.partial(np.einsum, f"{a},{b}->"))
    if not shared and len(summed) == 1 and len(left) <= 1 and len(right) <= 1:
        if out != order:  # the transposed product, so that the result is laid out as asked
            return lambda x, y: _plan(b, a, out)(y, x)
        flip_x, flip_y = a != "".join(left + summed), b != "".join(summed + right)
        if not flip_x and not flip_y:
            return np.dot
        return lambda x, y: np.dot(x.T if flip_x else x, y.T if flip_y else y)
    axes_x = [a.index(c) for c in shared + left + summed]
    axes_y = [b.index(c) for c in shared + summed + right]
    back = [order.index(c) for c in out]
    in_order = back == sorted(back)
    n, m = len(shared), len(left)

    def call(x: Any, y: Any) -> Any:
        x, y = x.transpose(axes_x), y.transpose(axes_y)
        batch, rows, columns = x.shape[:n], x.shape[n : n + m], y.shape[n + len(summed) :]
        k = math.prod(x.shape[n + m :])
        z = np.matmul(
            x.reshape((*batch, math.prod(rows), k)),
            y.reshape((*batch, k, math.prod(columns))),
        ).reshape((*batch, *rows, *columns))
        return z if in_order else z.transpose(back)

    return call


_contracted = functools.partial(bind, "contract")


def _inner(slow: Rule) -> Rule:
    """Return the recipe of an inner product, by all threads where the arrays are large."""

    def call(x: Any, y: Any) -> Any:
        if (
            x.size < LARGE
            or x.dtype != y.dtype
            or x.dtype not in FLOATS
            or x.__class__ is DeviceArray
            or not (x.flags.c_contiguous and y.flags.c_contiguous and LAUNCH)
        ):
            return slow(x, y)
        return launched(_contracted, x.ravel(), y.ravel(), a="a", b="a", out="")[()]

    return call


_HAVE, _X, _Y = map(var, ("have", "x", "y"))
_PRODUCT = Fused((_X, _Y), (_X * _Y,), np.multiply, least=0)
_SUM = Fused((_HAVE, _X, _Y), (_HAVE + _X * _Y,), lambda have, x, y: have + x * y, least=0)


def _all_products(x: Any, y: Any) -> Any:
    """Return the products of every element with every other."""
    return np.reshape(x, (*x.shape, *(1,) * y.ndim)) * y


class _Outer:
    """The recipe of outer products over all but the first axes, compiled where they are large."""

    def __init__(self, n: int, slow: Rule, *, flipped: bool) -> None:
        """Take how many axes the operands share, what computes small ones, and whether `y` comes first."""
        self._n, self._slow, self._flipped = n, slow, flipped

    def __call__(self, x: Any, y: Any) -> Any:
        """Return the products."""
        return _PRODUCT(*self._spread(x, y)) if self._is_large(x, y) else self._slow(x, y)

    def onto(self, have: Any, x: Any, y: Any) -> Any:
        """Return `have` plus the products, by one loop; None where NumPy has to do it in two."""
        if have.__class__ is np.ndarray and have.dtype == x.dtype and self._is_large(x, y):
            return _SUM(have, *self._spread(x, y))
        return None

    def _is_large(self, x: Any, y: Any) -> bool:
        return (
            x.size * math.prod(y.shape[self._n :]) >= ROWS
            and bool(LAUNCH)
            and x.dtype == y.dtype
            and x.dtype in FLOATS
            and x.__class__ is not DeviceArray
        )

    def _spread(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return the operands as they broadcast to the products."""
        first, second = (y, x) if self._flipped else (x, y)
        n, shape = self._n, second.shape
        alone = (1,) * (first.ndim - n)
        return first.reshape((*first.shape, *(1,) * (second.ndim - n))), second.reshape(
            (*shape[:n], *alone, *shape[n:])
        )


def outer_adjoint(ct: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Return `sum(ct * y)` and `sum(ct * x)` in the shapes of `x` and `y`, where each axis has one of them.

    They are products of a matrix and a vector: no array of the shape of `ct` is made.
    """
    letters = "abcdefghijklmnopqrstuvwxyz"[: ct.ndim]
    lead_x, lead_y = ct.ndim - x.ndim, ct.ndim - y.ndim
    a = "".join([c for c, n in zip(letters[lead_x:], x.shape, strict=True) if n != 1])
    b = "".join([c for c, n in zip(letters[lead_y:], y.shape, strict=True) if n != 1])
    kept = tuple([n for n in ct.shape if n != 1])
    out = "".join([c for c, n in zip(letters, ct.shape, strict=True) if n != 1])
    ct = ct.reshape(kept)
    flat_x, flat_y = (v.reshape([n for n in v.shape if n != 1]) for v in (x, y))
    return _plan(out, b, a)(ct, flat_y).reshape(x.shape), _plan(a, out, b)(flat_x, ct).reshape(y.shape)


def _shape(x: Any, y: Any, *, a: str, b: str, out: str) -> Aval:
    lengths = dict(zip(a + b, (*x.shape, *y.shape), strict=True))
    if any(lengths[c] != n for c, n in zip(a, x.shape, strict=True)):
        raise ValueError(f"shapes {x.shape} and {y.shape} not aligned for the product {a},{b}->{out}")
    return Aval(tuple(lengths[c] for c in out), np.result_type(x.dtype, y.dtype))


def _batch(mapped: tuple[bool, ...], x: Any, y: Any, *, a: str, b: str, out: str) -> Any:
    new = next(c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if c not in a + b)
    return contract(x, y, new * mapped[0] + a, new * mapped[1] + b, new + out)


@functools.lru_cache(config.cache_entries())
def _back_plans(a: str, b: str, out: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    if out == "" and a == b:  # of an inner product
        return _scaled, lambda x, ct: _scaled(ct, x)
    return _plan(out, b, a), _plan(a, out, b)


def _scaled(ct: Any, x: Any) -> Any:
    """Return `ct * x`, without a pass over memory where `ct` is one, as it is where most sweeps begin."""
    if x.size < LARGE or ct != 1 or ct.dtype != x.dtype:
        return np.multiply(ct, x)
    view = x.view()
    view.flags.writeable = False  # the memory is not the gradient's own
    return view


def _both(ct: Any, x: Any, y: Any, params: dict[str, str]) -> tuple[Any, Any]:
    left, right = _back_plans(**params)
    return left(ct, y), right(x, ct)


def _onto(pattern: Pattern, have: list[Any], ct: Any, *saved: Any) -> list[Any] | None:
    """Return cotangents so far plus those of a contraction, where one of these is a large outer product."""
    *operands, params = saved
    steps = [
        (plan, pair)
        for plan, pair, tracked in zip(
            _back_plans(**params), ((ct, operands[-1]), (operands[0], ct)), pattern, strict=True
        )
        if tracked
    ]
    added = [
        plan.onto(old, *pair) if isinstance(plan, _Outer) else None
        for old, (plan, pair) in zip(have, steps, strict=True)
    ]
    if all(total is None for total in added):
        return None
    for i, (old, (plan, pair)) in enumerate(zip(have, steps, strict=True)):
        if added[i] is None:
            made = plan(*pair)
            added[i] = made if old is None else np.add(old, made)
    return added


_ON_ARRAYS: dict[Pattern, Rule] = {
    (True, False): lambda ct, y, params: (_back_plans(**params)[0](ct, y),),
    (False, True): lambda ct, x, params: (_back_plans(**params)[1](x, ct),),
    (True, True): _both,
}
_lifted = by_argument(
    lambda ct, y, *, a, b, out: contract(ct, y, out, b, a),
    lambda ct, x, *, a, b, out: contract(x, ct, a, out, b),
    shaped=True,
    transpose=MULTILINEAR,
)


def _vjp(pattern: Pattern) -> VJP | None:
    made = _lifted(pattern)
    if made is not None:
        made.raw, made.makes, made.onto = _ON_ARRAYS[pattern], True, functools.partial(_onto, pattern)
    return made


def _contracts(x: Aval, y: Aval, *, a: str, b: str, out: str) -> bool:
    lengths = dict(zip(a + b, (*x.shape, *y.shape), strict=True))
    return (
        all(len(set(s)) == len(s) and s.isalpha() and s.isascii() for s in (a, b, out) if s)
        and tuple(lengths[c] for c in a) == x.shape
        and tuple(lengths[c] for c in b) == y.shape
        and set(out) <= {*a, *b}
        and set(a) ^ set(b) <= set(out)
    )


declare(
    "contract",
    run=lambda x, y, *, a, b, out: _plan(a, b, out)(as_array(x), as_array(y)),
    vjp=_vjp,
    shape=_shape,
    batch=_batch,
    costly=True,
    traits={CONTRACTION, TOTAL, SPREADS, PRODUCT},
    stored=Stored({"a": is_text, "b": is_text, "out": is_text}, verify=_contracts),
)
