"""Whether arrays are equal: as NumPy says where values are known, and the same where they are not yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad as fg

OPERANDS: dict[str, Any] = {
    "number": np.array(1.0),
    "a NaN": np.array([1.0, 2.0, np.nan]),
    "vector": np.array([1.0, 2.0, 3.0]),
    "matrix": np.array([[1.0, 2.0, 3.0], [1.0, 2.0, np.nan]]),
    "empty": np.array([]),
    "integers": np.array([1, 2, 3]),
    "truths": np.array([True, False]),
    "complex": np.array([1 + 1j, 2, np.nan]),
    "infinite": np.array([np.inf, -np.inf, 0.0]),
    "float32": np.float32([1, 2, 3]),
    "unsigned": np.array([200, 1, 2], np.uint8),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "allclose": np.allclose,
    "allclose, equal NaN": lambda x, y: np.allclose(x, y, equal_nan=True),
    "allclose, tolerances": lambda x, y: np.allclose(x, y, np.isfinite(x) * 0.3, np.isnan(y) + 0.1),
    "array_equal": np.array_equal,
    "array_equal, equal NaN": lambda x, y: np.array_equal(x, y, equal_nan=True),
    "array_equiv": np.array_equiv,
    "isin": np.isin,
    "isin, inverted": lambda x, y: np.isin(x, y, invert=True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_numpy_says_known_or_not(name: str) -> None:
    f = FUNCTIONS[name]
    ways = {
        "jit": lambda x, y: fg.jit(lambda x, y: f(x, y))(x, y),
        "mapped": lambda x, y: fg.vmap(f)(x[None], y[None])[0],
        "tensors": lambda x, y: f(fg.tensor(x), fg.tensor(y)),
    }
    for first, x in OPERANDS.items():
        for second, y in OPERANDS.items():
            try:
                expected = np.asarray(f(x, y))
            except ValueError:
                for way in ways.values():
                    with pytest.raises(ValueError, match="broadcast"):
                        way(x, y)
                continue
            for label, way in ways.items():
                found = np.asarray(way(x, y))
                assert found.dtype == bool
                np.testing.assert_array_equal(found, expected, f"{label}: {first}, {second}")


def test_programs_go_on_with_what_they_say() -> None:
    f = fg.jit(lambda x: np.where(np.allclose(x, 1.0), x, 0.0))
    np.testing.assert_array_equal(f(np.ones(2)), np.ones(2))
    np.testing.assert_array_equal(f(np.array([1.0, 5.0])), np.zeros(2))
    rows = np.array([[1.0, 1.0], [5.0, 1.0]])
    chosen = fg.vmap(lambda x: x if np.array_equal(x, np.ones(2)) else -x)(rows)
    np.testing.assert_array_equal(chosen, [[1, 1], [-5, -1]])
    with pytest.raises(TypeError, match="jit does not have"):
        fg.jit(lambda x: x if np.allclose(x, 1.0) else -x)(rows)
