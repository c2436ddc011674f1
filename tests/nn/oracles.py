"""What the tests of fgrad.nn share: every way of calling a function, and everything that has to hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad as fg
from fgrad.testing import check_grads

ROUNDING = {"float16": 4e-3, "float32": 3e-6, "float64": 1e-13}


def agree(f: Callable[..., Any], expected: Any, *args: Any, rtol: float | None = None) -> None:
    """Assert that `f` gives `expected` for arrays and for Tensors, each in its own kind."""
    expected = np.asarray(expected)
    for wrapped in (args, tuple(fg.tensor(a) if isinstance(a, np.ndarray) else a for a in args)):
        y = f(*wrapped)
        assert isinstance(y, fg.Tensor) == any(isinstance(a, fg.Tensor) for a in wrapped)
        y = y.numpy() if isinstance(y, fg.Tensor) else np.asarray(y)
        assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
        tolerance = ROUNDING.get(y.dtype.name, 0.0) if rtol is None else rtol
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)


def derivatives(f: Callable[..., Any], *args: Any, order: int = 2) -> None:
    """Check derivatives against differences in both modes, vmap against a loop, and staging."""
    check_grads(f, args, order)
    stacks = tuple(np.stack([a, a * 0.9, a * 1.1]) for a in args)
    expected = np.stack([np.asarray(f(*(s[k] for s in stacks))) for k in range(3)])
    np.testing.assert_allclose(fg.vmap(f)(*stacks), expected, rtol=1e-12, atol=1e-12)
    if args[0].size:
        loss = fg.grad(lambda *xs: np.sum(f(*xs) ** 2))
        expected = np.stack([loss(*(s[k] for s in stacks)) for k in range(3)])
        np.testing.assert_allclose(fg.vmap(loss)(*stacks), expected, rtol=1e-10, atol=1e-10)
    program = fg.make_graph(f)(*args)
    np.testing.assert_allclose(program(*args), f(*args), rtol=1e-12)
