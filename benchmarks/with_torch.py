"""The programs in PyTorch, eager, by `backward` into `.grad`, which is what its users write."""

import torch
from torch.nn import functional
from torch.nn.functional import cross_entropy

from benchmarks import THREADS, arrays, programs

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
SMALL, *SMALL_BATCH = programs.small_network()
SMALL = list(map(torch.tensor, SMALL))
SMALL_BATCH = list(map(torch.tensor, SMALL_BATCH))


def loss_of_one(params, x, label):
    w1, b1, w2, b2 = params
    return cross_entropy(torch.tanh(x @ w1 + b1) @ w2 + b2, label)


per_sample = torch.func.vmap(torch.func.grad(loss_of_one), in_dims=(None, 0, 0))
SAMPLES = {"torch": lambda: per_sample(SMALL, *SMALL_BATCH)}
FORWARD = {"torch": (forward, lambda: torch.func.jvp(mlp, PRIMALS, TANGENTS))}
PLACES = torch.tensor(arrays.PLACES)
FUNCTIONS = {
    "softmax": lambda x: functional.softmax(x, -1),
    "log_softmax": lambda x: functional.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "layer_norm": lambda x, w, b: functional.layer_norm(x, w.shape, w, b),
    "gelu": functional.gelu,
    "gelu, tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "conv2d": lambda x, w: functional.conv2d(x, w, padding=1),
    "max_pool2d": lambda x: functional.max_pool2d(x, 2),
    "max_pool2d, 3/2": lambda x: functional.max_pool2d(x, 3, 2, 1),
    "avg_pool2d": lambda x: functional.avg_pool2d(x, 2),
    "gather": lambda x: x[PLACES],
    "sort": lambda x: torch.sort(x).values,
    "sort, rows": lambda x: torch.sort(x).values,
    "cumsum": lambda x: torch.cumsum(x, -1),
    "einsum": lambda x, w: torch.einsum("aij,jk->aik", x, w),
}


def gradient_of(f, inputs, weights):
    constant = torch.tensor(weights)
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    return gradients(lambda *xs: torch.dot(f(*xs).reshape(-1), constant), tensors)


FIRST_GRADIENT = """
import torch
x = torch.ones(3, requires_grad=True)
(torch.sin(x) ** 2).sum().backward()
"""
