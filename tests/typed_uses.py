"""Right and wrong uses of fgrad, for type checkers: lines that end with "error" are wrong, no others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import fgrad as fg

Array = NDArray[np.float64]
Params = dict[str, Array]


def loss(p: Params, x: Array, scale: float = 1.0) -> np.float64:
    return np.sum(x * p["w"]) * np.float64(scale)


def with_aux(p: Params, x: Array) -> tuple[np.float64, str]:
    return np.sum(x * p["w"]), "aux"


p: Params = {"w": np.ones(2)}
x = np.ones(2)

# gradients keep the arguments of the function
fg.grad(loss)(p, x)
fg.grad(loss)(p, x, scale=2.0)
fg.grad(loss)(p)  # error
fg.grad(loss)(p, x, other=2.0)  # error
fg.grad(3)  # error
fg.grad(loss, argnums="p")  # error
fg.grad(loss, on_unused="never")  # error
fg.grad(np.sin)(3.0)
fg.value_and_grad(np.sin)(3.0)

# values keep their types
assert_type(fg.value_and_grad(loss)(p, x), tuple[np.float64, Any])
assert_type(fg.value_and_grad(with_aux, has_aux=True)(p, x), tuple[tuple[np.float64, str], Any])
fg.value_and_grad(loss)(p)  # error
fg.value_and_grad(None)  # error
out, pullback = fg.vjp(loss, p, x)
assert_type(out, np.float64)
pullback(1.0)
pullback()  # error
out, pullback, text = fg.vjp(with_aux, p, x, has_aux=True)
assert_type(text, str)
assert_type(fg.jvp(loss, (p, x), (p, x)), tuple[np.float64, np.float64])
fg.jvp(loss, p, 3)  # error
value, linear = fg.linearize(loss, p, x)
assert_type(value, np.float64)
assert_type(linear(p, x), np.float64)

# Jacobians
fg.jacrev(loss)(p, x)
fg.jacfwd(loss)(p)  # error
fg.hessian(loss)(p, x, 1.0, 2.0)  # error
fg.elementwise_grad(np.sin)(x)
fg.jacfwd(loss, argnums=(0, 1))(p, x)

# compiled functions are the functions
compiled = fg.jit(loss)
assert_type(compiled(p, x), np.float64)
compiled.lower(p, x)
compiled.clear_cache()
compiled(p)  # error
compiled(p, x, 1.0, 2.0)  # error
compiled(p, "x")  # error
compiled.lowers(p, x)  # error
fg.jit(loss, static_argnames=1)  # error
fg.jit(loss, static_argnums="scale")  # error
fg.jit(3)  # error
fg.jit(np.add)(x, x)
fg.jit(fg.grad(loss))(p)  # error


@fg.jit
def twice(x: Array) -> Array:
    return 2 * x


@fg.jit(static_argnames="n")
def power(x: Array, n: int) -> Array:
    return x**n


assert_type(twice(x), Array)
assert_type(power(x, 3), Array)
twice()  # error
power(x, "3")  # error

# mapped and checkpointed functions keep their arguments
fg.vmap(loss)({"w": np.ones((3, 2))}, np.ones((3, 2)))
fg.vmap(loss)(p)  # error
fg.vmap(3)  # error
fg.vmap(np.add)(x, x)
fg.vmap(loss, axis_size="3")  # error
assert_type(fg.checkpoint(loss)(p, x), np.float64)
fg.checkpoint(loss)(x=x)  # error
fg.remat(loss)(p, x)
fg.make_graph(loss)(p, x).equations
fg.make_graph(loss)(p)  # error

# tensors and managers
t = fg.tensor([1.0, 2.0])
assert_type(t, fg.Tensor)
fg.tensor([1.0], requires_grad=True)  # error
gm = fg.GradManager().attach(t)
assert_type(gm, fg.GradManager)
with gm:
    gm.backward((t * t).sum())
gm.backward(t, on_unused="never")  # error
gm.attach()  # error

# optimizers
opt = fg.optim.Adam(gm, lr=1e-3)
assert_type(opt.step().clear_grad(), fg.optim.Adam)
fg.optim.Adam(gm, lr=1e-3, beta=0.9)  # error
adam = fg.optim.adam(1e-3)
updates, state = adam.update(p, adam.init(p))
fg.optim.chain(adam, 3)  # error
