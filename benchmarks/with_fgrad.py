"""The programs in fgrad: its names and Tensors, as the others use their own; and NumPy's, on plain arrays."""

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp
from benchmarks import arrays, programs

X = programs.point()
ARRAYS, IMAGES, LABELS = programs.network()
PARAMS, BATCH = [fg.tensor(p) for p in ARRAYS], fg.tensor(IMAGES)
TANGENT_ARRAYS = [np.ones_like(p) for p in ARRAYS]
TANGENTS = [fg.tensor(t) for t in TANGENT_ARRAYS]
ROWS = np.arange(len(LABELS))


def mlp_on(images):
    def mlp(w1, b1, w2, b2):
        scores = fnp.tanh(images @ w1 + b1) @ w2 + b2
        return fnp.mean(fg.nn.logsumexp(scores, axis=1) - scores[ROWS, LABELS])

    return mlp


mlp, mlp_on_array = mlp_on(BATCH), mlp_on(IMAGES)  # of an array the recording takes a snapshot


def mlp_in_numpy(w1, b1, w2, b2):
    scores = np.tanh(IMAGES @ w1 + b1) @ w2 + b2
    shifted = scores - fg.stop_gradient(scores.max(axis=1, keepdims=True))
    return np.mean(np.log(np.exp(shifted).sum(axis=1)) - shifted[ROWS, LABELS])


chain = fg.value_and_grad(programs.chain(fnp))
chain_in_numpy = fg.value_and_grad(programs.chain(np))
rosenbrock = fg.value_and_grad(programs.rosenbrock)
loss = fg.value_and_grad(mlp, argnums=(0, 1, 2, 3))
loss_on_array = fg.value_and_grad(mlp_on_array, argnums=(0, 1, 2, 3))
loss_in_numpy = fg.value_and_grad(mlp_in_numpy, argnums=(0, 1, 2, 3))

GRADIENTS = {
    "fgrad": {
        "chain": lambda: chain(X),
        "rosenbrock": lambda: rosenbrock(X),
        "mlp": lambda: loss(*PARAMS),
    },
    "fgrad, array batch": {"mlp": lambda: loss_on_array(*PARAMS)},
    "fgrad, np.*": {
        "chain": lambda: chain_in_numpy(X),
        "mlp": lambda: loss_in_numpy(*ARRAYS),
    },
}
SMALL, INPUTS, CLASSES = programs.small_network()
SMALL_TENSORS, INPUT_TENSOR = [fg.tensor(p) for p in SMALL], fg.tensor(INPUTS)


def loss_of_one(params, x, label):
    w1, b1, w2, b2 = params
    scores = fnp.tanh(x @ w1 + b1) @ w2 + b2
    return fg.nn.logsumexp(scores) - scores[label]


def by_manager():
    for p in SMALL_TENSORS:
        p.grad = None
    w1, b1, w2, b2 = SMALL_TENSORS
    with fg.GradManager().attach(SMALL_TENSORS) as gm:
        scores = fnp.tanh(INPUTS @ w1 + b1) @ w2 + b2
        losses = fg.nn.logsumexp(scores, axis=1) - scores[np.arange(len(CLASSES)), CLASSES]
        gm.backward(losses, per_sample=True)
    return [p.grad for p in SMALL_TENSORS]


def by_hand():
    w1, b1, w2, b2 = SMALL
    hidden = np.tanh(INPUTS @ w1 + b1)
    scores = hidden @ w2 + b2
    ct = np.exp(scores - scores.max(axis=1, keepdims=True))
    ct /= ct.sum(axis=1, keepdims=True)
    ct[np.arange(len(CLASSES)), CLASSES] -= 1
    ct_hidden = (ct @ w2.T) * (1 - hidden * hidden)
    products = (np.einsum("ni,nj->nij", x, y) for x, y in ((INPUTS, ct_hidden), (hidden, ct)))
    return [next(products), ct_hidden, next(products), ct]


per_sample = fg.vmap(fg.grad(loss_of_one), in_axes=(None, 0, 0))

SAMPLES = {
    "fgrad": lambda: per_sample(SMALL_TENSORS, INPUT_TENSOR, CLASSES),
    "fgrad, arrays": lambda: per_sample(SMALL, INPUTS, CLASSES),
    "fgrad, per_sample=True": by_manager,
    "by hand": by_hand,
}
FORWARD = {
    "fgrad": (lambda: mlp(*PARAMS), lambda: fg.jvp(mlp, PARAMS, TANGENTS)),
    "fgrad, arrays": (
        lambda: mlp_on_array(*ARRAYS),
        lambda: fg.jvp(mlp_on_array, ARRAYS, TANGENT_ARRAYS),
    ),  # the first is NumPy
}
FUNCTIONS = {
    "softmax": fg.nn.softmax,
    "log_softmax": fg.nn.log_softmax,
    "logsumexp": lambda x: fg.nn.logsumexp(x, -1),
    "layer_norm": fg.nn.layer_norm,
    "gelu": lambda x: fg.nn.gelu(x, approximate=False),
    "gelu, tanh": fg.nn.gelu,
    "silu": fg.nn.silu,
    "conv2d": lambda x, w: fg.nn.conv(x, w, padding=1),
    "max_pool2d": lambda x: fg.nn.max_pool(x, 2),
    "max_pool2d, 3/2": lambda x: fg.nn.max_pool(x, 3, stride=2, padding=1),
    "avg_pool2d": lambda x: fg.nn.avg_pool(x, 2),
    "gather": lambda x: x[arrays.PLACES],
    "sort": fnp.sort,
    "sort, rows": fnp.sort,
    "cumsum": lambda x: fnp.cumsum(x, -1),
    "einsum": lambda x, w: fnp.einsum("aij,jk->aik", x, w),
}


def gradient_of(f, inputs, weights):
    tensors, constant = list(map(fg.tensor, inputs)), fg.tensor(weights)
    loss = fg.value_and_grad(
        lambda *xs: fnp.dot(fnp.ravel(f(*xs)), constant), argnums=tuple(range(len(inputs)))
    )
    return lambda: loss(*tensors)


FIRST_GRADIENT = """
import numpy as np
import fgrad as fg
fg.grad(lambda x: np.sum(np.sin(x) ** 2))(np.ones(3))
"""
