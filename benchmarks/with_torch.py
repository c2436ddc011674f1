"""The programs in PyTorch, eager, by `backward` into `.grad`, which is what its users write."""

import torch
from torch.nn.functional import cross_entropy

from benchmarks import THREADS, programs

torch.set_num_threads(int(THREADS))
X = torch.tensor(programs.point(), requires_grad=True)
ARRAYS, *BATCH = programs.network()
PARAMS = [torch.tensor(p, requires_grad=True) for p in ARRAYS]
IMAGES, LABELS = map(torch.tensor, BATCH)
PRIMALS = tuple(p.detach() for p in PARAMS)
TANGENTS = tuple(map(torch.ones_like, PRIMALS))


def mlp(w1, b1, w2, b2):
    hidden = torch.tanh(torch.addmm(b1, IMAGES, w1))
    return cross_entropy(torch.addmm(b2, hidden, w2), LABELS)


def gradients(f, params):
    def run():
        for p in params:
            p.grad = None
        value = f(*params)
        value.backward()
        return value.item(), [p.grad for p in params]

    return run


@torch.no_grad()
def forward():
    return mlp(*PRIMALS)


GRADIENTS = {
    "torch": {
        "chain": gradients(programs.chain(torch), [X]),
        "rosenbrock": gradients(programs.rosenbrock, [X]),
        "mlp": gradients(mlp, PARAMS),
    }
}
FORWARD = {"torch": (forward, lambda: torch.func.jvp(mlp, PRIMALS, TANGENTS))}
FIRST_GRADIENT = """
import torch
x = torch.ones(3, requires_grad=True)
(torch.sin(x) ** 2).sum().backward()
"""
