"""`jax.test_util`: derivatives against differences, and values against values, within JAX's tolerances."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.compat.jax.arrays import as_array
from fgrad.compat.jax.avals import FLOAT0
from fgrad.compat.jax.transformations import jvp, linearize, vjp
from fgrad.compat.jax.trees import flatten, tree_map
from fgrad.compat.jax.types import canonical

__all__ = ["check_close", "check_grads", "check_jvp", "check_vjp"]

STEP = 1e-4
# dtype: (tolerance of values, tolerance of derivatives); others are exact
TOLERANCES = {
    "float16": (1e-3, 1e-2),
    "float32": (1e-6, 2e-3),
    "float64": (1e-15, 1e-5),
    "complex64": (1e-6, 1e-3),
    "complex128": (1e-15, 1e-5),
}


def check_close(xs: Any, ys: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Check that the arrays of two trees are equal within tolerances, which grow with their sizes."""

    def check(x: Any, y: Any) -> None:
        a, b = np.asarray(x), np.asarray(y)
        if a.shape != b.shape:
            raise AssertionError(f"{err_msg}: shapes {a.shape} and {b.shape}")
        if a.dtype == b.dtype == FLOAT0:
            return
        bounds: dict[str, Any] = {
            key: max(_tolerance(a.dtype, given), _tolerance(b.dtype, given)) * size
            for key, given, size in (("atol", atol, a.size), ("rtol", rtol, b.size))
        }
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(a, b, **{k: v for k, v in bounds.items() if v}, err_msg=err_msg)

    tree_map(check, xs, ys)


def _tolerance(dtype: Any, given: Any, column: int = 0) -> float:
    name = canonical(dtype).name
    if given is not None and not isinstance(given, dict):
        return float(given)
    named = {np.dtype(key).name: value for key, value in (given or {}).items()}
    return float(named.get(name, TOLERANCES.get(name, (0.0, 0.0))[column]))


def _of_derivatives(given: Any) -> Any:
    return {name: _tolerance(name, given, 1) for name in TOLERANCES} if not np.isscalar(given) else given


def _random(like: Any, source: Any) -> Any:
    def draw(x: Any) -> Any:
        shape, dtype = np.shape(x), as_array(x).dtype
        real = np.asarray(source.randn(*shape), dtype)
        return real + dtype.type(1j) * np.asarray(source.randn(*shape), dtype) if dtype.kind == "c" else real

    return tree_map(draw, like)


def _difference(f: Any, primals: Any, tangents: Any, eps: float) -> Any:
    """Return central differences along `tangents`."""

    def moved(step: float) -> Any:
        return tree_map(lambda x, t: np.asarray(x + t * t.dtype.type(step), t.dtype), primals, tangents)

    def slope(a: Any, b: Any) -> Any:
        a, b = np.asarray(a), np.asarray(b)
        with np.errstate(invalid="ignore"):
            return np.where(a == b, 0, a - b).astype(a.dtype) * a.dtype.type(0.5 / eps)

    return tree_map(slope, f(*moved(eps)), f(*moved(-eps)))


def _product(xs: Any, ys: Any) -> Any:
    pairs = zip(flatten(xs)[0], flatten(ys)[0], strict=True)
    return sum(np.real(np.vdot(np.asarray(x), np.asarray(y))) for x, y in pairs)


def check_jvp(
    f: Callable[..., Any], f_jvp: Callable[..., Any], args: Any, atol: Any = None, rtol: Any = None,
    eps: float = STEP, err_msg: str = "JVP",
) -> None:  # fmt: skip
    """Check a derivative along a random direction against differences."""
    bounds = _of_derivatives(atol), _of_derivatives(rtol)
    tangents = _random(args, np.random.RandomState(0))
    out, tangent = f_jvp(args, tangents)
    check_close(out, f(*args), *bounds, f"{err_msg} primal")
    check_close(tangent, _difference(f, args, tangents, eps), *bounds, f"{err_msg} tangent")


def check_vjp(
    f: Callable[..., Any], f_vjp: Callable[..., Any], args: Any, atol: Any = None, rtol: Any = None,
    eps: float = STEP, err_msg: str = "VJP",
) -> None:  # fmt: skip
    """Check a pullback of a random cotangent against differences along a random direction."""
    bounds = _of_derivatives(atol), _of_derivatives(rtol)
    source = np.random.RandomState(0)
    out, pullback = f_vjp(*args)
    check_close(out, f(*args), *bounds, f"{err_msg} primal")
    tangents = _random(args, source)
    moved = _difference(f, args, tangents, eps)
    ct = _random(out, source)
    back = tree_map(lambda c: np.conj(np.asarray(c)), pullback(tree_map(np.conj, ct)))
    message = f"{err_msg} cotangent projection"
    check_close(_product(tangents, back), _product(moved, ct), *bounds, message)


def check_grads(
    f: Callable[..., Any], args: Any, order: int, modes: str | Sequence[str] = ("fwd", "rev"),
    atol: Any = None, rtol: Any = None, eps: float | None = None,
) -> None:  # fmt: skip
    """Check the derivatives of `f` up to an order, each in one random direction."""
    bounds = atol, rtol, eps or STEP

    def pulled(*xs: Any) -> Any:
        out, pullback = vjp(f, *xs)
        return pullback(out)

    def by_linearize(primals: Any, tangents: Any) -> Any:
        out, push = linearize(f, *primals)
        return out, push(*tangents)

    args = tuple(args)
    forward = functools.partial(jvp, f)
    checks: dict[str, Any] = {
        "fwd": (check_jvp, forward, forward, (args, args)),
        "rev": (check_vjp, functools.partial(vjp, f), pulled, args),
        "lin": (check_jvp, by_linearize, by_linearize, (args, args)),
    }
    for mode, (check, derivative, function, at) in checks.items():
        if mode in modes:
            check(f, derivative, args, *bounds)
            if order > 1:
                check_grads(function, at, order - 1, modes, *bounds)
