"""Convolutions with axes in any order and reductions over windows, against loops over places."""

import itertools

import numpy as np
import pytest

import fgrad as fg
from fgrad import lax, nn
from fgrad.testing import check_grads

RNG = np.random.default_rng(0)


def draw(*shape):
    return RNG.standard_normal(shape)


def close(x, y):
    np.testing.assert_allclose(np.asarray(x), y, rtol=1e-12, atol=1e-12)


def windows_of(x, size, step, gap, low, high, fill=0.0):
    """Return the windows of a vector, one after the other."""
    wide = np.concatenate([np.full(low, fill), x, np.full(high, fill)])
    count = (len(wide) - (size - 1) * gap - 1) // step + 1
    return np.stack([wide[i * step : i * step + (size - 1) * gap + 1 : gap] for i in range(count)])


def convolved(image, kernel, step=1, gap=1, low=0, high=0):
    """Return the convolution of (N, L, C) with (K, C, O) as (N, places, O)."""
    found = []
    for x in image:
        parts = np.stack([windows_of(row, len(kernel), step, gap, low, high) for row in x.T], -1)
        found.append(np.einsum("pkc,kco->po", parts, kernel))
    return np.stack(found)


@pytest.mark.parametrize("axes", list(itertools.permutations("NWC")), ids="".join)
@pytest.mark.parametrize("padding", ["VALID", "SAME", "SAME_LOWER", [(2, 1)], [(-1, 3)]])
@pytest.mark.parametrize("gap", [None, (2,)])
def test_axes_lie_in_any_order(axes, padding, gap):
    image, kernel = draw(2, 7, 3), draw(2, 3, 4)
    names, letters = "".join(axes), "".join(axes).translate(str.maketrans("NC", "OI"))
    x = image.transpose(["NWC".index(a) for a in names])
    w = kernel.transpose(["WIO".index(a) for a in letters])
    numbers = (names, letters, names)
    y = lax.conv_general_dilated(x, w, (2,), padding, None, gap, numbers)
    distance = gap[0] if gap else 1
    total = 2 * 3 + distance - 6  # of SAME: ceil(7 / 2) windows
    low, high = {
        "VALID": (0, 0),
        "SAME": (total // 2, total - total // 2),
        "SAME_LOWER": (total - total // 2, total // 2),
    }.get(str(padding), (0, 0))
    if not isinstance(padding, str):
        (low, high), image = padding[0], image[:, max(-padding[0][0], 0) :]
    expected = convolved(image, kernel, 2, distance, max(low, 0), high)
    close(np.asarray(y).transpose([names.index(a) for a in "NWC"]), expected)
    close(
        lax.conv_general_dilated(
            x, w, (2,), padding, None, gap, lax.conv_dimension_numbers((), w.shape, numbers)
        ),
        y,
    )


def test_without_names_batch_and_channels_are_first():
    x, w = draw(2, 3, 5, 4), draw(6, 3, 2, 2)
    close(lax.conv_general_dilated(x, w, (1, 2), "SAME"), nn.conv(x, w, stride=(1, 2), padding="SAME"))


def test_parts_of_channels_and_of_the_batch():
    x, w = draw(4, 5, 6), draw(2, 3, 8)
    numbers = ("NWC", "WIO", "NWC")
    found = lax.conv_general_dilated(x, w, (1,), "VALID", None, None, numbers, 2)
    parts = [convolved(x[..., 3 * k : 3 * k + 3], w[..., 4 * k : 4 * k + 4]) for k in (0, 1)]
    close(found, np.concatenate(parts, -1))
    x = draw(4, 5, 3)
    found = lax.conv_general_dilated(x, w, (1,), "VALID", None, None, numbers, 1, 2)
    parts = [convolved(x[2 * k : 2 * k + 2], w[..., 4 * k : 4 * k + 4]) for k in (0, 1)]
    close(found, np.concatenate(parts, -1))


@pytest.mark.parametrize("between", [1, 2, 3])
def test_elements_that_lie_apart(between):
    x, w = draw(1, 4, 2), draw(2, 2, 3)
    wide = np.zeros((1, 3 * between + 1, 2))
    wide[:, ::between] = x
    found = lax.conv_general_dilated(x, w, (1,), [(1, -1)], (between,), None, ("NWC", "WIO", "NWC"))
    close(found, convolved(np.pad(wide, [(0, 0), (1, 0), (0, 0)])[:, :-1], w))


@pytest.mark.parametrize("channels", [1, 2])
def test_patches(channels):
    x = draw(2, channels, 6)
    found = lax.conv_general_dilated_patches(x, (3,), (2,), [(1, 0)], None, (2,))
    expected = [[windows_of(row, 3, 2, 2, 1, 0).T for row in image] for image in x]
    close(found, np.reshape(expected, (2, 3 * channels, -1)))
    assert lax.conv_general_dilated_patches(x.astype(np.float32), (3,), (2,), "SAME").dtype == np.float32


def test_kernels_of_their_own_at_each_place():
    x, kernels = draw(2, 3, 6), draw(4, 6, 5)
    found = lax.conv_general_dilated_local(x, kernels, (1,), "VALID", (2,))
    parts = np.stack([x[:, :, p : p + 2].reshape(2, 6) for p in range(5)], -1)
    close(found, np.einsum("nkp,okp->nop", parts, kernels))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_transpose_is_the_derivative_of_a_convolution(stride, padding):
    numbers = ("NWC", "WIO", "NWC")
    w, ct = draw(3, 2, 4), draw(2, 5, 4)
    found = lax.conv_transpose(ct, w, (stride,), padding, transpose_kernel=True)
    x = draw(*found.shape)
    out, pullback = fg.vjp(
        lambda x: lax.conv_general_dilated(x, w, (stride,), padding, None, None, numbers), x
    )
    assert out.shape == ct.shape
    close(found, pullback(ct)[0])


def test_pairs_of_a_transpose():
    x, w = draw(1, 4, 2), draw(3, 2, 5)
    numbers = ("NWC", "WIO", "NWC")
    plain = lax.conv_transpose(x, w, (2,), [(1, 2)])
    close(plain, lax.conv_general_dilated(x, w, (1,), [(1, 2)], (2,), None, numbers))
    close(lax.conv_transpose(x, w, (2,), [(1, 0)], use_consistent_padding=True), plain)
    close(lax.conv_transpose(x, w, (2,), [(1, 2)], (2,)).shape, (1, 6, 5))


REDUCTIONS = {
    "sum": (np.add, 0.0, np.sum),
    "max": (np.maximum, -np.inf, np.max),
    "product": (np.multiply, 1.0, np.prod),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("run", [lambda f: f, fg.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("size", "step", "padding", "between", "gap"),
    [(2, 1, [(0, 0)], 1, 1), (3, 2, [(1, 2)], 1, 1), (2, 1, [(0, 1)], 2, 3)],
)
def test_reductions_over_windows(name, run, size, step, padding, between, gap):
    combine, init, reduced = REDUCTIONS[name]
    x = draw(6)
    wide = np.full(5 * between + 1, init)
    wide[::between] = x
    found = run(lambda x: lax.reduce_window(x, init, combine, (size,), (step,), padding, (between,), (gap,)))(
        x
    )
    close(found, reduced(windows_of(wide, size, step, gap, *padding[0], init), axis=1))


def test_windows_over_all_axes():
    x = draw(4, 5)
    found = lax.reduce_window(x, 0.0, np.add, (2, 3), (1, 2), "SAME_LOWER")
    wide = np.pad(x, [(1, 0), (1, 1)])
    close(found, [[wide[i : i + 2, j : j + 3].sum() for j in (0, 2, 4)] for i in range(4)])
    assert lax.reduce_window(x.astype(np.float32), 0.0, np.add, (2, 3)).dtype == np.float32


def test_derivatives():
    x, w = draw(1, 5, 2), draw(2, 2, 3)
    numbers = ("NWC", "WIO", "NWC")
    check_grads(
        lambda x, w: lax.conv_general_dilated(x, w, (2,), "SAME", None, None, numbers), (x, w), order=2
    )
    check_grads(lambda x, w: lax.conv_transpose(x, w, (2,), "SAME"), (x, w))
    check_grads(lambda x: lax.conv_general_dilated_patches(x, (2,), (1,), "VALID"), (x,))
    check_grads(lambda x: lax.reduce_window(x, 1.0, np.multiply, (1, 2, 1)), (x,), order=2)
    mapped = fg.vmap(lambda w: lax.conv_general_dilated(x, w, (1,), "VALID", None, None, numbers))
    kernels = draw(3, 2, 2, 3)
    close(mapped(kernels), [convolved(x, k) for k in kernels])


def test_words_of_padding():
    assert lax.padtype_to_pads((5, 4), (2, 3), (1, 2), "same") == [(0, 1), (0, 1)]
    assert lax.padtype_to_pads((5, 4), (2, 3), (1, 2), "SAME_LOWER") == [(1, 0), (1, 0)]
    with pytest.raises(ValueError, match="padding is"):
        lax.padtype_to_pads((5,), (2,), (1,), "EVEN")
