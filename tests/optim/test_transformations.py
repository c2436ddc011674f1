"""Pieces of optimizers: chains, clipping, decay."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad as fg
from fgrad import optim

TREE = {"a": np.array([3.0, 0.0]), "b": [np.array(4.0)]}


def test_norm_of_a_tree():
    assert optim.global_norm(TREE) == 5.0
    assert optim.global_norm({"z": np.array([3.0 + 4.0j])}) == 5.0


@pytest.mark.parametrize("max_norm", [1.0, 5.0, 7.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_clipping_by_norm(max_norm, dtype):
    grads = fg.tree.map(lambda x: x.astype(dtype), TREE)
    clipped, _ = optim.clip_by_global_norm(max_norm).update(grads, ())
    factor = min(1.0, max_norm / 5.0)
    np.testing.assert_allclose(clipped["a"], factor * TREE["a"], rtol=1e-6)
    np.testing.assert_allclose(clipped["b"][0], factor * 4.0, rtol=1e-6)
    assert clipped["a"].dtype == dtype


def test_zeros_and_nan_are_clipped_to_themselves():
    clipping = optim.clip_by_global_norm(1.0)
    np.testing.assert_array_equal(clipping.update(np.zeros(3), ())[0], np.zeros(3))
    assert np.isnan(clipping.update(np.array([np.nan, 1.0]), ())[0]).all()


def test_clipping_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    p = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    g = np.array([3.0, -4.0, 12.0])
    p.grad = torch.tensor(g)
    torch.nn.utils.clip_grad_norm_([p], 2.0)
    np.testing.assert_allclose(optim.clip_by_global_norm(2.0).update(g, ())[0], p.grad.numpy(), rtol=1e-6)


def test_elements_are_clipped():
    np.testing.assert_array_equal(optim.clip(1.0).update(np.array([-3.0, 0.5, 2.0]), ())[0], [-1.0, 0.5, 1.0])


def test_penalty_before_and_decay_after():
    p, g = np.array([1.0, -2.0]), np.array([0.5, 0.5])
    made = optim.chain(optim.add_decayed_weights(0.1), optim.trace(0.9), optim.scale_by_learning_rate(0.5))
    state = made.init(p)
    updates, state = made.update(g, state, p)
    np.testing.assert_allclose(updates, -0.5 * (g + 0.1 * p))
    again, _ = made.update(g, state, p)
    np.testing.assert_allclose(again, -0.5 * (1.9 * (g + 0.1 * p)))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="max_norm is positive, not 0"):
        optim.clip_by_global_norm(0)
    with pytest.raises(ValueError, match="chain of 2 has as many states, not 1"):
        optim.chain(optim.clip(1.0), optim.clip(1.0)).update(np.ones(2), ((),))
    with pytest.raises(ValueError, match=r".+"):
        optim.apply_updates({"a": np.ones(2)}, {"b": np.ones(2)})
