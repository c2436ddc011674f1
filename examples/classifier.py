"""A classifier of handwritten digits: a GradManager records each batch, Adam takes the steps."""

import numpy as np

import fgrad as fg
from fgrad import nn, optim
from fgrad.demo.digits import load


def network(p, x):
    """Return one score for each image and class."""
    return nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def main(epochs=15):
    """Return the accuracy on digits that were held out."""
    rng = np.random.default_rng(0)
    images, labels = load()
    order = rng.permutation(len(labels))
    x, y = images.reshape(-1, 64)[order] / 16.0, labels[order]
    x_test, y_test, x, y = x[:360], y[:360], x[360:], y[360:]

    p = {
        "w1": fg.tensor(rng.normal(size=(64, 64)) / 8),
        "b1": fg.tensor(np.zeros(64)),
        "w2": fg.tensor(rng.normal(size=(64, 10)) / 8),
        "b2": fg.tensor(np.zeros(10)),
    }
    gm = fg.GradManager().attach(p)
    opt = optim.Adam(gm, lr=3e-3)
    for epoch in range(epochs):
        total = 0.0
        for batch in np.array_split(rng.permutation(len(y)), len(y) // 32):
            with gm:
                loss = nn.softmax_cross_entropy(network(p, x[batch]), y[batch]).mean()
                gm.backward(loss)
            opt.step().clear_grad()
            total += loss.item() * len(batch)
        print(f"epoch {epoch + 1:2}: loss {total / len(y):.4f}")
    accuracy = float((network(p, x_test).argmax(axis=1) == y_test).mean())
    print(f"held-out accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
