"""The programs in JAX: eager, and compiled, which is how it is meant to be used."""

import jax
import jax.numpy as jnp

from benchmarks import programs

jax.config.update("jax_enable_x64", True)
X = jnp.asarray(programs.point())
PARAMS, IMAGES, LABELS = jax.tree.map(jnp.asarray, programs.network())
TANGENTS = jax.tree.map(jnp.ones_like, PARAMS)
ROWS = jnp.arange(len(LABELS))


def mlp(params):
    w1, b1, w2, b2 = params
    scores = jnp.tanh(IMAGES @ w1 + b1) @ w2 + b2
    return jnp.mean(jax.nn.logsumexp(scores, axis=1) - scores[ROWS, LABELS])


def finished(f, *args):
    return lambda: jax.block_until_ready(f(*args))


PROGRAMS = {
    "chain": (jax.value_and_grad(programs.chain(jnp)), X),
    "rosenbrock": (jax.value_and_grad(programs.rosenbrock), X),
    "mlp": (jax.value_and_grad(mlp), PARAMS),
}
GRADIENTS = {
    "jax eager": {name: finished(f, x) for name, (f, x) in PROGRAMS.items()},
    "jax jit": {name: finished(jax.jit(f), x) for name, (f, x) in PROGRAMS.items()},
}


def loss_of_one(params, x, label):
    w1, b1, w2, b2 = params
    scores = jnp.tanh(x @ w1 + b1) @ w2 + b2
    return jax.nn.logsumexp(scores) - scores[label]


per_sample = jax.vmap(jax.grad(loss_of_one), in_axes=(None, 0, 0))
SMALL = jax.tree.map(jnp.asarray, programs.small_network())
SAMPLES = {"jax jit": finished(jax.jit(per_sample), *SMALL)}
FORWARD = {
    "jax jit": (
        finished(jax.jit(mlp), PARAMS),
        finished(jax.jit(lambda p, t: jax.jvp(mlp, (p,), (t,))), PARAMS, TANGENTS),
    )
}
FIRST_GRADIENT = """
import jax
import jax.numpy as jnp
jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 2))(jnp.ones(3)).block_until_ready()
"""
