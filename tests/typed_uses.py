"""Right and wrong uses of fgrad, for type checkers: lines that end with "error" are wrong, no others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import fgrad as fg
import fgrad.numpy as fnp

Array = NDArray[np.float64]
Either = fg.Tensor | np.ndarray[Any, Any]
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

# functions of fgrad.numpy give Tensors for Tensors, else what NumPy gives
mask = np.array([True, False])
assert_type(fnp.sin(t), fg.Tensor)
assert_type(fnp.sin(x), Either)
assert_type(fnp.sin([1.0, 2.0], where=[True, False]), Either)
assert_type(fnp.add(x, t), fg.Tensor)
assert_type(fnp.add(t, 1.0, dtype=np.float32), fg.Tensor)
assert_type(fnp.maximum(x, 0.0), Either)
fnp.multiply.outer(x, x)
assert_type(fnp.modf(t), tuple[fg.Tensor, fg.Tensor])
fnp.sin()  # error
fnp.sin(x, axis=0)  # error
fnp.sin(object())  # error
fnp.add(x)  # error
fnp.add(x, x, casting="sometimes")  # error
assert_type(fnp.sum(t), fg.Tensor)
assert_type(fnp.sum(t, axis=(0, 1), keepdims=True), fg.Tensor)
assert_type(fnp.sum(x, axis=0), Either)
assert_type(fnp.sum(a=x, dtype="float32"), Either)
fnp.sum(x, axis="a")  # error
fnp.sum(x, axes=0)  # error
fnp.sum(x, keepdims="yes")  # error
fnp.sum()  # error
assert_type(fnp.where(mask, x, x), Either)
assert_type(fnp.where(mask, t, 0.0), fg.Tensor)
assert_type(fnp.where(mask, x, t), fg.Tensor)
assert_type(fnp.where(mask), tuple[Either, ...])
fnp.where(mask, x)  # error
fnp.where(condition=mask)  # error
assert_type(fnp.zeros((2, 3)), fg.Tensor)
assert_type(fnp.zeros(3, dtype=np.float32, device="cpu"), fg.Tensor)
fnp.zeros("ab")  # error
fnp.zeros()  # error
fnp.zeros(3, order="row")  # error
assert_type(fnp.arange(3), fg.Tensor)
assert_type(fnp.arange(0.0, 1.0, 0.1), fg.Tensor)
fnp.arange()  # error
assert_type(fnp.reshape(t, (2, -1)), fg.Tensor)
fnp.reshape(t, 2.5)  # error
assert_type(fnp.concatenate([t, t], axis=0), fg.Tensor)
assert_type(fnp.stack([t, x]), Either)
assert_type(fnp.stack(x, axis=1), Either)
fnp.stack([t], axis=None)  # error
fnp.hstack([t], axis=1)  # error
assert_type(fnp.split(t, 2), list[fg.Tensor])
assert_type(fnp.dot(x, t), fg.Tensor)
assert_type(fnp.matmul(x, x), Either)
assert_type(fnp.einsum("ij,j->i", t, x), fg.Tensor)
fnp.matmul(x)  # error
assert_type(fnp.shape(t), tuple[int, ...])
assert_type(fnp.allclose(x, x), bool)
assert_type(fnp.argmax(x, axis=0), Either)
fnp.argmax(x, axis=(0, 1))  # error
assert_type(fnp.unique(t), fg.Tensor)
fnp.sort(x, stable="yes")  # error
fnp.take(x, [0], mode="extend")  # error
fnp.clip(x, 0.0)
fnp.searchsorted(x, 0.5, side="middle")  # error
fnp.no_such_function(x)  # error
assert_type(fnp.float32, type[np.float32])

# linalg, fft
assert_type(fnp.linalg.inv(t), fg.Tensor)
assert_type(fnp.linalg.norm(x, axis=1), Either)
assert_type(fnp.linalg.eigh(t).eigenvalues, fg.Tensor)
assert_type(fnp.linalg.svd(x).S, Either)
assert_type(fnp.linalg.solve(x, t), fg.Tensor)
fnp.linalg.inv()  # error
fnp.linalg.eigh(t, UPLO="u")  # error
fnp.linalg.qr(t, mode="thin")  # error
assert_type(fnp.fft.fft(t, n=8), fg.Tensor)
assert_type(fnp.fft.rfft(x, norm="ortho"), Either)
fnp.fft.fft(t, norm="unitary")  # error
fnp.fft.fft(t, n="8")  # error


# rules of your own keep the signature of the function
@fg.custom_vjp
def halved(x: Array, n: int = 1) -> Array:
    return x / n


def forward(x: Array, n: int) -> tuple[Array, int]:
    return x / n, n


def backward(n: int, ct: Array) -> tuple[Array, None]:
    return ct / n, None


@fg.custom_jvp
def doubled(x: Array) -> Array:
    return 2 * x


assert_type(halved(x), Array)
assert_type(halved(x, n=2), Array)
halved()  # error
halved(x, "2")  # error
halved(x, m=2)  # error
assert_type(halved.defvjp(forward, backward)(x), Array)
halved.defvjps(3)  # error
assert_type(doubled(x), Array)
doubled(x, x)  # error

# control flow keeps carries and results
assert_type(fg.lax.fori_loop(0, 3, lambda i, c: c + 1.0, 0.0), float)
assert_type(fg.lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0), int)
assert_type(fg.lax.cond(True, twice, twice, x), Array)
fg.lax.fori_loop(0, 3, lambda i, c: c)  # error
fg.lax.scan(lambda c, v: (c, v), 0.0, x, lenght=3)  # error
fg.lax.cond(True, twice)  # error
