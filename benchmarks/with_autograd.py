"""The programs in HIPS autograd."""

import autograd.numpy as anp
from autograd import value_and_grad
from autograd.scipy.special import erfc, expit, logsumexp

from benchmarks import arrays, programs

X = programs.point()
PARAMS, IMAGES, LABELS = programs.network()
ROWS = anp.arange(len(LABELS))


def mlp(params):
    w1, b1, w2, b2 = params
    scores = anp.dot(anp.tanh(anp.dot(IMAGES, w1) + b1), w2) + b2
    return anp.mean(logsumexp(scores, axis=1) - scores[ROWS, LABELS])


chain = value_and_grad(lambda x: anp.sum(programs.chain(anp)(x)))
rosenbrock = value_and_grad(programs.rosenbrock)
loss = value_and_grad(mlp)

GRADIENTS = {
    "autograd": {
        "chain": lambda: chain(X),
        "rosenbrock": lambda: rosenbrock(X),
        "mlp": lambda: loss(PARAMS),
    }
}
SAMPLES: dict = {}  # it has no vmap
FORWARD = {}  # its forward mode lacks rules of logsumexp


def log_softmax(x):
    return x - logsumexp(x, axis=-1, keepdims=True)


def layer_norm(x, w, b):
    gap = x - anp.mean(x, -1, keepdims=True)
    return gap / anp.sqrt(anp.var(x, -1, keepdims=True) + 1e-5) * w + b


FUNCTIONS = {
    "softmax": lambda x: anp.exp(log_softmax(x)),
    "log_softmax": log_softmax,
    "logsumexp": lambda x: logsumexp(x, axis=-1),
    "layer_norm": layer_norm,
    "gelu": lambda x: x * 0.5 * erfc(x * -0.7071067811865476),
    "gelu, tanh": lambda x: 0.5 * x * (1 + anp.tanh(0.7978845608028654 * (x + 0.044715 * x**3))),
    "silu": lambda x: x * expit(x),
    "gather": lambda x: x[arrays.PLACES],
    "sort": anp.sort,  # of vectors
    "cumsum": lambda x: anp.cumsum(x, -1),
    "einsum": lambda x, w: anp.einsum("aij,jk->aik", x, w),
}


def gradient_of(f, inputs, weights):
    gradient = value_and_grad(lambda xs: anp.dot(anp.ravel(f(*xs)), weights))
    return lambda: gradient(inputs)


FIRST_GRADIENT = """
import autograd.numpy as anp
from autograd import grad
grad(lambda x: anp.sum(anp.sin(x) ** 2))(anp.ones(3))
"""
