"""data_parallel on ranks that are threads; the oracle is the same function on one process."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import close, differences

import fgrad as fg
from fgrad import lax
from fgrad.distributed import data_parallel, simulate, world

RNG = np.random.default_rng(2)
X, Y, W = RNG.normal(size=(11, 3)), RNG.normal(size=11), RNG.normal(size=3)


def loss(w, x, y):
    return np.mean((np.tanh(x @ w) - y) ** 2)


@pytest.mark.parametrize(
    "size, staged", [*((n, lambda f: f) for n in (1, 2, 3, 4)), (1, fg.jit), (3, fg.jit)]
)
def test_value_and_gradient_are_those_of_one_process(size, staged):
    slope = differences(lambda w: loss(w, X, Y), W)
    step = staged(fg.value_and_grad(data_parallel(loss)))
    for _ in range(2):
        found = simulate(size, lambda: step(W, X, Y))
        for value, gradient in found:
            close(value, loss(W, X, Y))
            close(gradient, slope, rtol=1e-7)
            np.testing.assert_array_equal(gradient, found[0][1])


def test_every_argument_differentiates_to_second_order():
    f = data_parallel(loss)
    given = lambda z: loss(z[:3], z[3:36].reshape(11, 3), z[36:])
    shared = lambda z: f(z[:3], z[3:36].reshape(11, 3), z[36:])
    z, t = np.concatenate([W, X.ravel(), Y]), RNG.normal(size=47)
    for gradient, product in simulate(3, lambda: (fg.grad(shared)(z), fg.hvp(shared, (z,), (t,))[1])):
        close(gradient, differences(given, z), rtol=1e-6)
        close(product, differences(lambda z: np.sum(fg.grad(given)(z) * t), z), rtol=1e-5)


def test_hessian_and_forward_mode():
    f = data_parallel(loss)
    for found in simulate(2, lambda: (fg.hessian(f)(W, X, Y), fg.jvp(lambda w: f(w, X, Y), (W,), (W,))[1])):
        close(found[0], differences(lambda w: fg.grad(loss)(w, X, Y), W), rtol=1e-6)
        close(found[1], differences(lambda w: loss(w, X, Y), W) @ W, rtol=1e-7)


def test_pytrees_axes_and_several_results():
    def f(params, batch, scale):
        error = batch["x"].T @ params["w"] + params["b"] - batch["y"]
        return {"loss": np.mean(error**2) * scale, "bias": np.mean(error)}

    params, batch = {"w": W, "b": np.array(0.5)}, {"x": X.T, "y": Y}
    shared = data_parallel(f, in_axes=(None, {"x": 1, "y": 0}, None))
    whole = f(params, batch, 2.0)
    for found in simulate(3, lambda: shared(params, batch, 2.0)):
        close(found["loss"], whole["loss"])
        close(found["bias"], whole["bias"])
    for slope in simulate(2, lambda: fg.grad(lambda p: shared(p, batch, 2.0)["loss"])(params)):
        close(slope["b"], differences(lambda b: f({"w": W, "b": b}, batch, 2.0)["loss"], 0.5), rtol=1e-7)


def test_statistics_of_the_whole_batch():
    """A function that normalizes by the batch names the axis; equal shares make its means those of all."""

    def f(w, x):
        h = x @ w
        h = h - lax.pmean(np.mean(h), "ranks")
        return np.mean(np.sin(h) * h)

    def alone(w, x):
        h = x @ w
        h = h - np.mean(h)
        return np.mean(np.sin(h) * h)

    x = X[:8]
    for slope in simulate(4, lambda: fg.grad(data_parallel(f))(W, x)):
        close(slope, differences(lambda w: alone(w, x), W), rtol=1e-7)


def test_a_recording_gets_the_whole_gradient():
    def run():
        w = fg.tensor(W)
        with fg.GradManager().attach(w) as gm:
            value = data_parallel(loss)(w, X, Y)
            gm.backward(value)
        return value, w.grad

    for value, gradient in simulate(2, run):
        assert isinstance(value, fg.Tensor)
        close(value, loss(W, X, Y))
        close(gradient, differences(lambda w: loss(w, X, Y), W), rtol=1e-7)


def test_same_bits_for_the_same_number_of_ranks():
    step = fg.grad(data_parallel(loss))
    first, again = (simulate(3, lambda: step(W, X, Y)) for _ in range(2))
    for g in (*first, *again):
        np.testing.assert_array_equal(g, first[0])


def test_refusals():
    with pytest.raises(ValueError, match="data_parallel of loss: 2 examples are too few for 3 ranks"):
        simulate(3, lambda: data_parallel(loss)(W, X[:2], Y[:2]))
    with pytest.raises(ValueError, match=r"need one length .* there are the lengths \[4, 11\]"):
        simulate(2, lambda: data_parallel(loss)(W, X, Y[:4]))
    with pytest.raises(ValueError, match="there are no leaf with such an axis"):
        simulate(2, lambda: data_parallel(lambda w: w)(W))


def test_in_a_world_of_its_own():
    def run():
        here = world()
        with here.axis("mine"):
            return data_parallel(loss, comm=here, axis_name="batch")(W, X, Y)

    for value in simulate(2, run):
        close(value, loss(W, X, Y))
