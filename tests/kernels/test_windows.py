"""Pooling kernels against loops over windows: those that lie inside are written out, those at edges not."""

import numpy as np

from fgrad.kernels import windows

IMAGES = [(2, 7, 9), (1, 3, 1), (3, 1, 5), (1, 2, 2)]
WINDOWS = {
    (2, 2): [(1, 1), (2, 2)],
    (3, 3): [(1, 2)],
    (5, 4): [(1, 1), (2, 1)],
}  # and strides; every pair compiles


def settings():
    for window, stride in ((w, s) for w, strides in WINDOWS.items() for s in strides):
        for padding in (((0, 0), (0, 0)), tuple((n // 2, n - 1 - n // 2) for n in window)):
            for image in IMAGES:
                count = [
                    (n + sum(p) - w) // s + 1
                    for n, p, w, s in zip(image[1:], padding, window, stride, strict=True)
                ]
                if min(count) > 0 and max(padding[0] + padding[1]) < min(window):
                    yield image, window, stride, padding, (image[0], *count)


def parts(image, window, stride, padding, shape):
    """Yield each place of the result and the part of the image that its window sees."""
    for place in np.ndindex(shape):
        spans = []
        for k, axis in zip(place[1:], range(2), strict=True):
            start = k * stride[axis] - padding[axis][0]
            spans.append(slice(max(0, start), max(0, start + window[axis])))
        yield place, (place[0], *spans)


def test_pools_and_their_adjoints_are_those_of_loops():
    rng = np.random.default_rng(0)
    seen = set()
    for image, window, stride, padding, shape in settings():
        seen.add(window)
        x = rng.integers(-3, 4, image) * 1.0  # with ties; sums are exact
        ct = rng.integers(1, 5, shape) * 1.0  # no zero, which would hide a window counted twice
        best, total = np.empty(shape), np.empty(shape)
        back, spread = np.zeros(image), np.zeros(image)
        for place, part in parts(image, window, stride, padding, shape):
            best[place], total[place] = x[part].max(), x[part].sum()
            ties = x[part] == best[place]
            back[part] += ct[place] * ties / ties.sum()
            spread[part] += ct[place]
        given = (window, stride, padding)
        np.testing.assert_array_equal(windows.max_pool(x, *given, shape), best)
        np.testing.assert_array_equal(windows.sum_pool(x, *given, shape), total)
        np.testing.assert_allclose(windows.max_pool_back(ct, best, x, *given), back, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(windows.spread(ct, *given, image), spread)
    assert seen == set(WINDOWS)


def test_nan_is_a_maximum_and_gets_no_cotangent():
    x = np.zeros((1, 4, 4))
    x[0, 1, 1] = np.nan
    given = ((2, 2), (2, 2), ((0, 0), (0, 0)))
    y = windows.max_pool(x, *given, (1, 2, 2))
    np.testing.assert_array_equal(y, [[[np.nan, 0], [0, 0]]])
    back = windows.max_pool_back(np.ones((1, 2, 2)), y, x, *given)
    np.testing.assert_array_equal(back[0, :2, :2], 0)
    np.testing.assert_array_equal(back[0, 2:, 2:], 0.25)
