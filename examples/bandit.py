"""A bandit with contexts: the policy's gradient of each example is clipped before they are averaged."""

import numpy as np

import fgrad as fg
from fgrad import nn, optim

RNG = np.random.default_rng(0)
BEST = RNG.normal(size=(5, 4))  # rewards of 4 arms are linear in 5 features


def scores(p, x):
    """Return one score for each arm."""
    return np.tanh(x @ p["w1"]) @ p["w2"]


def surrogate(p, x, arm, advantage):
    """Return minus the log-probability of the arm that was drawn, weighed by what it brought."""
    return -advantage * nn.log_softmax(scores(p, x))[arm]


def clipped_gradient(p, x, arm, advantage, limit=1.0):
    """Return the mean over examples of gradients of a norm of at most `limit`, and their norms."""
    grads = fg.vmap(fg.grad(surrogate), in_axes=(None, 0, 0, 0))(p, x, arm, advantage)
    norms = fg.vmap(optim.global_norm)(grads)
    factor = np.minimum(1.0, limit / norms)
    return fg.tree.map(lambda g: np.mean(factor[:, None, None] * g, axis=0), grads), norms


def main(steps=400, batch=128):
    """Return the mean reward of the last hundred steps, of chance and of the best arms, and a gradient."""
    rng = np.random.default_rng(1)
    p = {"w1": rng.normal(size=(5, 16)) / 5**0.5, "w2": rng.normal(size=(16, 4)) / 4}
    optimizer = optim.adam(1e-2)
    state = optimizer.init(p)
    policy, gradient = fg.jit(lambda p, x: nn.softmax(scores(p, x))), fg.jit(clipped_gradient)
    history, baseline = [], 0.0
    for _ in range(steps):
        x = rng.normal(size=(batch, 5))
        chances = policy(p, x)
        arm = (chances.cumsum(axis=1) < rng.uniform(size=(batch, 1))).sum(axis=1).clip(0, 3)
        reward = (x @ BEST)[np.arange(batch), arm] + rng.normal(size=batch)
        grads, norms = gradient(p, x, arm, reward - baseline)
        baseline += 0.05 * (reward.mean() - baseline)
        updates, state = optimizer.update(grads, state)
        p = optim.apply_updates(p, updates)
        history.append(reward.mean())
    x = rng.normal(size=(10000, 5))
    best, chance = (x @ BEST).max(axis=1).mean(), (x @ BEST).mean()
    late = np.mean(history[-100:])
    print(f"reward {late:.2f} of {best:.2f}, by chance {chance:.2f}; clipped: {(norms > 1).mean():.0%}")
    return late, best, chance, norms


if __name__ == "__main__":
    main()
