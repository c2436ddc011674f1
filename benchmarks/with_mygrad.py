"""The programs in MyGrad."""

import mygrad as mg
from mygrad.nnet.losses import softmax_crossentropy

from benchmarks import programs

X = mg.tensor(programs.point())
ARRAYS, IMAGES, LABELS = programs.network()
PARAMS = list(map(mg.tensor, ARRAYS))


def mlp(w1, b1, w2, b2):
    return softmax_crossentropy(mg.tanh(IMAGES @ w1 + b1) @ w2 + b2, LABELS)


def gradients(f, params):
    def run():
        value = f(*params)
        value.backward()  # overwrites .grad
        return value.item(), [p.grad for p in params]

    return run


GRADIENTS = {
    "mygrad": {
        "chain": gradients(programs.chain(mg), [X]),
        "rosenbrock": gradients(programs.rosenbrock, [X]),
        "mlp": gradients(mlp, PARAMS),
    }
}
SAMPLES: dict = {}  # it has no vmap
FORWARD = {}  # reverse mode only
FIRST_GRADIENT = """
import mygrad as mg
x = mg.tensor([1.0, 1.0, 1.0])
(mg.sin(x) ** 2).sum().backward()
"""
