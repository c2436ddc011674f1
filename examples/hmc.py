"""Hamiltonian Monte Carlo: chains of a curved distribution, mapped by vmap and compiled by jit."""

import numpy as np

import fgrad as fg
from fgrad import lax


def potential(q):
    """Return minus the log-density of a banana: q1 ~ N(1, 1), q0 given q1 ~ N(q1^2 / 4, 0.5^2)."""
    return ((q[1] - 1) ** 2 + ((q[0] - q[1] ** 2 / 4) / 0.5) ** 2) / 2


def leapfrog(q, p, step, count):
    """Return where a particle is after `count` steps."""
    force = fg.grad(potential)

    def one(state, _):
        q, p = state
        p = p - step / 2 * force(q)
        q = q + step * p
        return (q, p - step / 2 * force(q)), None

    return lax.scan(one, (q, p), None, length=count)[0]


def chain(key, start, samples=800, step=0.25, count=12):
    """Return the samples of one chain, and how many proposals it took."""

    def one(q, key):
        momentum_key, accept_key = fg.random.split(key)
        p = fg.random.normal(momentum_key, size=2)
        new, p_new = leapfrog(q, p, step, count)
        energy = potential(q) + p @ p / 2
        energy_new = potential(new) + p_new @ p_new / 2
        accept = np.log(fg.random.uniform(accept_key)) < energy - energy_new
        q = np.where(accept, new, q)
        return q, (q, accept)

    _, (found, accepted) = lax.scan(one, start, fg.random.split(key, samples))
    return found, np.mean(accepted.astype(float))


def main(chains=8):
    """Return samples of shape (chains, samples, 2), without the first quarter, and the acceptance."""
    keys = fg.random.split(fg.random.key(0), chains)
    starts = np.random.default_rng(0).normal(size=(chains, 2))
    samples, accepted = fg.jit(fg.vmap(chain))(keys, starts)
    samples = samples[:, 200:]
    print(f"accepted {accepted.mean():.2f}")
    print(f"means {samples.mean(axis=(0, 1)).round(2)}, deviations {samples.std(axis=(0, 1)).round(2)}")
    return samples, accepted.mean()


if __name__ == "__main__":
    main()
