"""What every function of `fgrad.scipy` is held to: SciPy's values, differences, a loop, and eager values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.helpers import close, plain

import fgrad as fg
from fgrad.testing import check_grads

Function = Callable[..., Any]


def leaves(out: Any) -> list[Any]:
    """Return the arrays among results."""
    return [plain(x) for x in several(out) if x is not None]


def agrees(actual: Any, expected: Any, rtol: float | None = None) -> None:
    """Assert that results agree in number, shape, dtype and value; SciPy's may be wider than arguments."""
    actual, expected = leaves(actual), leaves(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype.kind == e.dtype.kind
        assert a.itemsize <= e.itemsize or a.dtype.kind == "i"
        close(a, e, rtol)


def several(out: Any) -> tuple[Any, ...]:
    """Return results as a tuple."""
    return tuple(out) if isinstance(out, tuple | list) else (out,)


def floating(f: Function) -> Function:
    """Return `f` with those results alone that hold floating-point numbers."""
    return lambda *xs: [x for x in several(f(*xs)) if x is not None and x.dtype.kind in "fc"]


def check(
    f: Function,
    args: Sequence[Any],
    reference: Function | None = None,
    order: int = 2,
    *,
    rtol: float | None = None,
    mapped: bool = True,
    compiled: bool = False,
) -> None:
    """Check `f` for arrays and Tensors, differentiated to `order`, mapped, staged and `compiled`."""
    expected = f(*args) if reference is None else reference(*args)
    agrees(f(*args), expected, rtol)
    assert not any(isinstance(x, fg.Tensor) for x in several(f(*args)))
    agrees(f(*map(fg.tensor, args)), expected, rtol)
    if order:
        check_grads(floating(f), args, order)
    if mapped:
        stacks = [np.stack([x, x * x.dtype.type(0.99)]) for x in args]
        loop = [leaves(f(*(s[i] for s in stacks))) for i in range(2)]
        agrees(fg.vmap(f)(*stacks), [np.stack(xs) for xs in zip(*loop, strict=True)], rtol or 1e-8)
    slope = fg.grad(total(f), argnums=tuple(range(len(args))))
    for g in (f, slope) if order else (f,):
        run = fg.jit(g) if compiled else fg.make_graph(g)(*args)
        agrees(run(*args), g(*args), rtol or 1e-7)


def total(f: Function) -> Function:
    """Return a real number that depends on all results of `f`."""

    def summed(*xs: Any) -> Any:
        parts = [y.real * 0.7 + y.imag * 0.3 if y.dtype.kind == "c" else y for y in floating(f)(*xs)]
        return sum((np.sin(p) * 0.5 + p).sum() for p in parts)

    return summed


def normal(*shape, dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)
