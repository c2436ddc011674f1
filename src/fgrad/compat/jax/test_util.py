"""`jax.test_util`: derivatives against differences by `fgrad.testing`, and values within JAX's tolerances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fgrad.testing
from fgrad.compat.jax.avals import FLOAT0
from fgrad.compat.jax.transformations import Flat
from fgrad.compat.jax.trees import tree_map
from fgrad.compat.jax.types import canonical

__all__ = ["check_close", "check_grads"]

TOLERANCES = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-15, "complex64": 1e-6, "complex128": 1e-15}


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


def _tolerance(dtype: Any, given: Any, usual: Any = TOLERANCES) -> Any:
    """Return a tolerance, which may be given for each dtype; others are exact."""
    if np.isscalar(given):
        return given
    named = {np.dtype(key).name: value for key, value in (given or {}).items()}
    name = canonical(dtype).name
    return named.get(name, usual.get(name, 0.0))


def check_grads(
    f: Callable[..., Any], args: Sequence[Any], order: int, modes: str | Sequence[str] = ("fwd", "rev"),
    atol: Any = None, rtol: Any = None, eps: float | None = None,
) -> None:  # fmt: skip
    """Check the derivatives of `f` along a random direction, up to an order.

    Steps, and tolerances that are not given, are those of `fgrad.testing.check_grads`.
    """
    flat, source = Flat(lambda xs: f(*xs), list(args)), np.random.default_rng(0)
    real = flat.reals
    kind = np.result_type(np.float16, *(x.dtype for x in real)).type(0).real.dtype
    directions = [
        source.standard_normal(x.shape) + (1j * source.standard_normal(x.shape) if x.dtype.kind == "c" else 0)
        for x in real
    ]

    def along(step: Any) -> list[Any]:
        pairs = zip(real, directions, strict=True)
        return flat.of_real(*(x + (step * t.astype(x.dtype)).astype(x.dtype) for x, t in pairs))[0]

    def bound(given: Any) -> Any:
        if given is None or np.isscalar(given):
            return given
        return max(_tolerance(flat.arrays[i].dtype, given, {}) for i in flat.real) or None

    fgrad.testing.check_grads(
        along,
        (np.zeros((), kind),),
        order,
        [modes] if isinstance(modes, str) else modes,
        bound(atol),
        bound(rtol),
        eps,
    )
