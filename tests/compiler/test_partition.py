"""Programs that move values between devices: the same values, gradients where the arguments are."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.checks import DEVICE, on_device
from tests.backend.conftest import quick_switching as quick_switching  # noqa: PLC0414 -- a fixture of these tests too

import fgrad as fg
from fgrad.backend import devices

X, Y = np.arange(1.0, 7.0).reshape(2, 3), np.ones((2, 3))


def there(x):
    return np.sum(np.sin(x.to("cuda") * 2) ** 2)


def there_and_back(x):
    y = np.exp(x.to("cuda"))
    return np.sum((y.to("cpu") * x.to("cpu")).to("cuda") * y)


def beside(x, y):
    """One operand is on the device already."""
    return np.sum(x.to("cuda") * y + y)


def plain(f):
    """The same function, whose Tensors all stay where they are."""
    return {
        there: lambda x: np.sum(np.sin(x * 2) ** 2),
        there_and_back: lambda x: np.sum(np.exp(x) ** 2 * x),
        beside: lambda x, y: np.sum(x * y + y),
    }[f]


def traffic():
    now = devices.transfers()
    return now["to_device"], now["to_host"]


@pytest.mark.parametrize("start", ["cpu", DEVICE])
@pytest.mark.parametrize("f", [there, there_and_back])
def test_values_and_gradients(f, start):
    jitted = fg.jit(f)
    x = fg.tensor(X / 6, device=start)
    for _ in range(4):
        value, slope = fg.value_and_grad(jitted)(x)
        assert (value.device, slope.device) == (DEVICE, start)
        np.testing.assert_allclose(float(value), plain(f)(X / 6), rtol=1e-12)
        np.testing.assert_allclose(slope.numpy(), fg.grad(plain(f))(X / 6), rtol=1e-12)
        inside = fg.jit(lambda x: fg.grad(f)(x))(x)
        assert inside.device == start
        np.testing.assert_allclose(inside.numpy(), slope.numpy(), rtol=1e-12)


def test_moves_are_counted():
    jitted, x = fg.jit(there), fg.tensor(X)
    jitted(x)
    before = traffic()
    y = jitted(x)
    assert np.subtract(traffic(), before).tolist() == [1, 0]
    before = traffic()
    jitted(x.to("cuda"))
    assert np.subtract(traffic(), before).tolist() == [1, 0]  # of `x.to` out here
    assert y.device == DEVICE


def test_operands_that_are_there_already():
    x, y = fg.tensor(X), on_device(Y)
    slopes = fg.grad(fg.jit(beside), (0, 1))(x, y)
    assert [s.device for s in slopes] == ["cpu", DEVICE]
    for s, e in zip(slopes, fg.grad(plain(beside), (0, 1))(X, Y), strict=True):
        np.testing.assert_array_equal(s.numpy(), e)


def test_second_derivatives_examples_and_forward_mode():
    x = fg.tensor(X / 6)
    for f in (there, there_and_back):
        curvature = lambda g: lambda x: fg.grad(lambda x: fg.grad(g)(x).sum())(x)
        np.testing.assert_allclose(fg.jit(curvature(f))(x).numpy(), curvature(plain(f))(X / 6), rtol=1e-10)
        mapped = fg.vmap(fg.grad(fg.jit(f)))(x)
        assert mapped.device == "cpu"
        np.testing.assert_allclose(mapped.numpy(), fg.vmap(fg.grad(plain(f)))(X / 6), rtol=1e-10)
        _, tangent = fg.jit(lambda x, t, f=f: fg.jvp(f, (x,), (t,)))(x, fg.tensor(Y))
        np.testing.assert_allclose(float(tangent), fg.jvp(plain(f), (X / 6,), (Y,))[1], rtol=1e-10)


def back_and_forth(x):
    y = np.sin(x.to("cuda:1")) * 2
    return np.exp(y.to("cpu")).to("cuda"), y.sum(0).to("cpu"), x.sum().to("cuda") * 2


@pytest.mark.parametrize("start", ["cpu", "cuda:0"])
@pytest.mark.parametrize("f", [there, there_and_back, back_and_forth, lambda x: x.to("cuda") * 2])
def test_forward_mode_around_a_compiled_function(f, start):
    x, t = fg.tensor(X / 6, device=start), fg.tensor(Y, device=start)
    expected = fg.jvp(f, (x,), (t,))
    for g in (f, fg.jit(f)):
        for found, wanted in zip(
            fg.tree.leaves(fg.jvp(g, (x,), (t,))), fg.tree.leaves(expected), strict=True
        ):
            assert found.device == wanted.device
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12)
    for derivative in (fg.jacfwd, fg.jacrev):
        found, wanted = (fg.tree.leaves(derivative(g)(x)) for g in (fg.jit(f), f))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


@pytest.mark.parametrize("primitive", ["scan", "while_loop", "cond"])
def test_bodies_of_compiled_loops_and_branches_stay_on_one_device(primitive):
    there_and_again = lambda h: (h.to("cuda") * 2).to("cpu")
    f = {
        "scan": lambda x: fg.lax.fori_loop(0, 3, lambda i, h: there_and_again(h), x),
        "while_loop": lambda x: fg.lax.while_loop(lambda h: h.sum() < 9, there_and_again, x),
        "cond": lambda x: fg.lax.cond(x.sum() > 0, there_and_again, lambda h: h, x),
    }[primitive]
    with pytest.raises(
        TypeError, match=rf"{primitive}.* has a body that moves values .*traced at .*test_partition"
    ):
        fg.jit(f)(fg.tensor(X))
    assert f(fg.tensor(X)).device == "cpu"


def test_numbers_and_constants_go_along():
    f = fg.jit(lambda x, n: (x * n + Y).to("cuda") * Y * n)
    y = f(fg.tensor(X), 2.0)
    assert y.device == DEVICE
    np.testing.assert_array_equal(y.numpy(), (X * 2 + Y) * 2)


def test_mixed_operands_are_named_with_their_line():
    with pytest.raises(TypeError, match=r"different devices, cuda:0 and cpu: .*traced at .*test_partition"):
        fg.jit(lambda x: x.to("cuda") * 2 + x * 2)(fg.tensor(X))


def test_what_is_known_already_does_not_move():
    f = fg.jit(lambda x: x.to("cuda").to("cuda:0") + 1, device="cuda")
    assert f(fg.tensor(X)).device == DEVICE
    before = traffic()
    f(on_device(X))
    assert np.subtract(traffic(), before).tolist() == [1, 0]
    assert fg.jit(lambda x: x.to("cpu") + 1)(fg.tensor(X)).device == "cpu"
