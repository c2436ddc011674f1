"""The kernels of the extreme numbers of short rows against NumPy's."""

import numpy as np
import pytest

from fgrad.core.dispatch import bind
from fgrad.kernels import extremes

RANDOM = np.random.default_rng(3)


def rows(shape, dtype):
    x = RANDOM.normal(size=shape).astype(dtype)
    chosen = RANDOM.random(shape)
    x[chosen < 0.05], x[(chosen > 0.05) & (chosen < 0.1)], x[chosen > 0.98] = -np.inf, np.inf, np.nan
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 31, 64, 65])
def test_rows(n, name, dtype):
    for count in (1, 700):
        x = rows((count, n), dtype)
        found = extremes.of_rows(x, {"max": "larger", "min": "smaller"}[name])
        np.testing.assert_array_equal(found, getattr(np, name)(x, axis=1), strict=True)


@pytest.mark.parametrize("name", ["max", "min"])
def test_many_short_rows_use_them(name, monkeypatch):
    calls = []
    of_rows = extremes.of_rows
    monkeypatch.setattr(extremes, "of_rows", lambda *a: calls.append(a) or of_rows(*a))
    x = RANDOM.normal(size=(30, 20, 5, 3))
    for given, axes, is_used in (
        (x, (3,), True),
        (x, (2, 3), True),
        (x[0, :, 0], (1,), False),
        (x, (0,), False),
        (x, (1, 2, 3), False),
        (x, (0, 1, 2, 3), False),
        (np.asfortranarray(x), (3,), False),
        (x[::2], (3,), False),
        (x.astype("f4"), (3,), True),
        (x.astype("f2"), (3,), False),
        (x.astype(">f8"), (3,), False),
        (x.astype(int), (3,), False),
    ):
        calls.clear()
        found = bind(name, given, axes=axes)
        np.testing.assert_array_equal(found, getattr(np, name)(given, axis=axes), strict=True)
        assert len(calls) == is_used
    with pytest.raises(ValueError, match="no identity"):
        bind(name, np.zeros((9000, 0)), axes=(1,))
