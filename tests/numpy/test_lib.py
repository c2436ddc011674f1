"""numpy.lib for Tensors."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

X = np.random.default_rng(3).normal(size=(4, 5))
WINDOWS = [
    (X, (2, 3), None),
    (X, 2, 0),
    (X, 3, -1),
    (X, (2, 2), (0, 0)),
    (X[0], 5, None),
    (X[0], 0, None),
    (X, (), ()),
]


@pytest.mark.parametrize("case", range(len(WINDOWS)))
@pytest.mark.parametrize("f", [sliding_window_view, fnp.lib.stride_tricks.sliding_window_view])
def test_sliding_windows(f, case):
    x, shape, axis = WINDOWS[case]
    np.testing.assert_array_equal(f(fg.tensor(x), shape, axis).numpy(), sliding_window_view(x, shape, axis))
    assert type(f(x, shape, axis)) is np.ndarray
    check_grads(lambda x: f(x, shape, axis) ** 2, (x,), order=2)


@pytest.mark.parametrize(("shape", "axis"), [(-1, 0), (6, 1), ((2, 2), 0), (2, None), (2, 5)])
def test_windows_that_cannot_be(shape, axis):
    for x in (X, fg.tensor(X)):
        with pytest.raises(ValueError):
            sliding_window_view(x, shape, axis)
