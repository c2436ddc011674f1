"""Code that waits for large arrays, applied to small ones: every primitive, traced and not.

What is meant for arrays must not take what is traced beside one: a constant cotangent of traced values, say.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pytest
from tests.helpers import grouped
from tests.ops.test_primitives import SAMPLES, floats_of

import fgrad as fg
from fgrad.core.primitive import PRIMITIVES
from fgrad.kernels import native

LIMITS = ("FEW", "MEDIUM", "LARGE", "_SMALL")
pytestmark = pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")


def at_once():
    """Return the context in which no array is too small for compiled loops."""
    stack = ExitStack()
    for name, module in list(sys.modules.items()):
        if name.startswith("fgrad.ops."):
            for limit in LIMITS:
                if type(getattr(module, limit, None)) is int:
                    stack.enter_context(patch.object(module, limit, 1))
    return stack


@grouped("sample", SAMPLES, "primitive", quick=2)
def test_gradients_of_small_arrays_by_the_code_for_large_ones(sample):
    places = [i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    if sample.stops or not places:
        return

    outputs = floats_of(sample, places)

    def f(*xs):
        return sum((np.sum(np.real(y)) for y in outputs(*xs)), start=0.0)

    vjp = PRIMITIVES[sample.primitive].vjp
    if vjp is None or vjp(tuple(i in places for i in range(len(sample.args)))) is None:
        return
    xs = [sample.args[i] for i in places]
    gradient = fg.grad(f, tuple(range(len(xs))))
    with np.errstate(all="ignore"):
        expected = gradient(*xs)
        with at_once():
            found = [gradient(*xs), fg.jit(gradient)(*xs)]
            for k, x in enumerate(xs):
                found_alone = fg.jit(lambda x, k=k: fg.grad(f, k)(*xs[:k], x, *xs[k + 1 :]))(x)
                np.testing.assert_allclose(
                    found_alone, expected[k], rtol=1e-4, atol=1e-4, err_msg=f"alone {k}"
                )
    for gs in found:
        for g, e in zip(gs, expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-4)
