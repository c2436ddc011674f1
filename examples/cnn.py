"""A convolutional network for handwritten digits: one compiled function takes a whole step with AdamW."""

import numpy as np

import fgrad as fg
from fgrad import nn, optim
from fgrad.demo.digits import load


def start(rng):
    """Return random parameters, in single precision."""
    shapes = {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "dense": (32 * 4, 10)}
    fans = {"conv1": 9, "conv2": 144, "dense": 128}
    p = {name: rng.normal(size=shape) * (2 / fans[name]) ** 0.5 for name, shape in shapes.items()}
    p |= {"bias1": np.zeros((16, 1, 1)), "bias2": np.zeros((32, 1, 1)), "bias": np.zeros(10)}
    return fg.tree.map(lambda x: x.astype(np.float32), p)


def network(p, images, key=None):
    """Return one score for each image and class; with a key, while training, drop a fifth of the features."""
    x = nn.relu(nn.conv(images, p["conv1"], padding="SAME") + p["bias1"])
    x = nn.max_pool(x, 2)
    x = nn.relu(nn.conv(x, p["conv2"], padding="SAME") + p["bias2"])
    x = nn.max_pool(x, 2).reshape(len(images), -1)
    x = nn.dropout(x, 0.2, key, train=key is not None)
    return x @ p["dense"] + p["bias"]


def loss(p, images, labels, key):
    """Return the mean cross-entropy."""
    return nn.softmax_cross_entropy(network(p, images, key), labels).mean()


def main(epochs=10, batch=64):
    """Return the accuracy on digits that were held out."""
    rng = np.random.default_rng(0)
    images, labels = load()
    order = rng.permutation(len(labels))
    images, labels = images[order, None].astype(np.float32) / 16, labels[order]
    x_test, y_test, x, y = images[:360], labels[:360], images[360:], labels[360:]
    steps = epochs * (len(y) // batch)
    rate = optim.warmup_cosine_decay_schedule(0.0, 5e-3, steps // 10, steps)
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(rate, weight_decay=1e-3))

    @fg.jit
    def step(p, state, x, y, key):
        value, grads = fg.value_and_grad(loss)(p, x, y, key)
        updates, state = optimizer.update(grads, state, p)
        return value, optim.apply_updates(p, updates), state

    p = start(rng)
    state = optimizer.init(p)
    keys = iter(fg.random.split(fg.random.key(0), steps))
    for epoch in range(epochs):
        order = rng.permutation(len(y))[: len(y) // batch * batch].reshape(-1, batch)
        values = []
        for chosen in order:
            value, p, state = step(p, state, x[chosen], y[chosen], next(keys))
            values.append(value)
        print(f"epoch {epoch + 1:2}: loss {np.mean(values):.4f}")
    accuracy = float((network(p, x_test).argmax(axis=1) == y_test).mean())
    print(f"held-out accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
