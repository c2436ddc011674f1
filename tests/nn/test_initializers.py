"""First weights: numbers that JAX draws from the same key, and the variances that the formulas promise."""

import numpy as np
import pytest

import fgrad as fg
from fgrad.nn import initializers
from fgrad.random import threefry

KEY = threefry.key(1)
RECORDED = {  # of JAX 0.10.2, for threefry.key(1) and the shape (2, 3)
    "glorot_normal": [[-0.10595, 0.05813, -0.0933], [-0.10636, 0.84225, 0.10174]],
    "he_uniform": [[-0.21258, 0.11692, -0.18734], [-0.2134, 1.37651, 0.20419]],
    "lecun_normal": [[-0.11846, 0.06499, -0.10431], [-0.11892, 0.94166, 0.11375]],
}


def draw(init, *args, **kwargs):
    return np.asarray(init(*args, **kwargs))


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("run", [lambda f: f, fg.jit], ids=["eager", "compiled"])
def test_numbers_are_jaxs(name, run):
    init = getattr(initializers, name)()
    found = run(lambda key: init(key, (2, 3)))(KEY)
    np.testing.assert_allclose(np.asarray(found), RECORDED[name], atol=2e-5)
    assert found.dtype == np.float32


VARIANCES = {
    "glorot_normal": 2 / (60 + 100),
    "glorot_uniform": 2 / (60 + 100),
    "he_normal": 2 / 60,
    "he_uniform": 2 / 60,
    "lecun_normal": 1 / 60,
    "lecun_uniform": 1 / 60,
}


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_variances(name, dtype):
    weights = draw(getattr(initializers, name)(), KEY, (3, 20, 100), dtype)  # a window of three places
    expected = VARIANCES[name] if name[0] in "hl" else 2 / (3 * 20 + 3 * 100)
    assert weights.dtype == dtype
    assert np.mean(abs(weights) ** 2) == pytest.approx(expected, rel=0.05)
    assert abs(np.mean(weights)) < 0.01


def test_axes_of_inputs_outputs_and_batches():
    init = initializers.variance_scaling(2.0, "fan_out", "normal", in_axis=0, out_axis=2)
    expected = np.asarray(threefry.normal(KEY, (2, 2, 2))) * 2**-0.5
    np.testing.assert_allclose(draw(init, KEY, (2, 2, 2)), expected, rtol=1e-6)
    init = initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=(1, 2), batch_axis=0)
    expected = np.asarray(threefry.normal(KEY, (2, 3, 3, 4))) / 3
    np.testing.assert_allclose(draw(init, KEY, (2, 3, 3, 4)), expected, rtol=1e-6)


def test_plain_ones():
    assert draw(initializers.constant(3.0), KEY, (2,)).tolist() == [3, 3]
    assert draw(initializers.zeros, KEY, [2]).dtype == np.float32
    assert draw(initializers.ones, KEY, (2,), int).tolist() == [1, 1]
    for name, init in (("normal", initializers.normal(0.5)), ("uniform", initializers.uniform(0.5))):
        expected = np.asarray(getattr(threefry, name)(KEY, (4,))) / 2
        np.testing.assert_allclose(draw(init, KEY, (4,)), expected)
    cut = draw(initializers.truncated_normal(2.0, np.float64, -1.0, 0.5), KEY, (1000,))
    assert cut.min() > -2
    assert cut.max() < 1
    assert draw(initializers.normal(1.0, np.float16), KEY, (2,)).dtype == np.float16


@pytest.mark.parametrize("shape", [(2, 6, 3), (3, 2)])
def test_orthogonal_columns(shape):
    q = draw(initializers.orthogonal(2.0), KEY, shape, np.float64).reshape(-1, shape[-1])
    np.testing.assert_allclose(q.T @ q, 4 * np.eye(shape[-1]), atol=1e-12)
    rows = np.moveaxis(draw(initializers.orthogonal(1.0, 0), KEY, (2, 3, 2), np.float64), 0, -1).reshape(
        -1, 2
    )
    np.testing.assert_allclose(rows.T @ rows, np.eye(2), atol=1e-12)
    assert draw(initializers.orthogonal(), KEY, (0, 3)).shape == (0, 3)


def test_what_is_refused():
    with pytest.raises(ValueError, match="no mode"):
        initializers.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ValueError, match="at least two axes"):
        initializers.lecun_normal()(KEY, (2,))
    with pytest.raises(ValueError, match="orthogonal needs at least two axes"):
        initializers.orthogonal()(KEY, (2,))
