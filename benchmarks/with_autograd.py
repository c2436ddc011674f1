"""The programs in HIPS autograd."""

import autograd.numpy as anp
from autograd import value_and_grad
from autograd.scipy.special import logsumexp

from benchmarks import programs

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
FORWARD = {}  # its forward mode lacks rules of logsumexp
FIRST_GRADIENT = """
import autograd.numpy as anp
from autograd import grad
grad(lambda x: anp.sum(anp.sin(x) ** 2))(anp.ones(3))
"""
