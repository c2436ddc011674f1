"""Objectives of the kinds that ADBench compares libraries on: many small steps, gathers and packed factors.

Source:
    Srajer, Kukelova & Fitzgibbon (2018), A benchmark of selected algorithmic differentiation tools on some
    problems in computer vision and machine learning, Optim. Methods Softw.
"""

from __future__ import annotations

from math import lgamma, log, pi

import numpy as np

D, K, N = 10, 25, 1000  # of the mixture: dimensions, components, points
CELL, CELL_STEPS = 14, 1000
CAMERAS, POINTS, OBSERVATIONS = 49, 7776, 30_000
FINGERS, JOINTS, VERTICES = 5, 4, 500  # 20 joints and the wrist: 21 products in a chain


def mixture(lib):
    """Log-posterior of a Gaussian mixture.

    The factor of a precision matrix is packed: the logarithm of its diagonal, then its strict lower
    triangle column by column.
    """
    xp, d, k, n = lib.xp, D, K, N
    columns, rows = np.triu_indices(d, 1)  # of the lower triangle, column by column
    constant = -0.5 * n * d * log(2 * pi) + k * _wishart_constant(d)

    def log_posterior(alphas, means, packed, x):
        logs, below = packed[:, :d], packed[:, d:]
        diagonal, log_det = xp.exp(logs), logs.sum(1)
        factors = lib.placed(below, (slice(None), rows, columns), (k, d, d))
        apart = x[None] - means[:, None]  # (k, n, d)
        scaled = diagonal[:, None] * apart + apart @ xp.swapaxes(factors, 1, 2)
        terms = (alphas + log_det)[:, None] - 0.5 * (scaled * scaled).sum(-1)
        prior = 0.5 * ((diagonal * diagonal).sum() + (below * below).sum())
        return constant + lib.logsumexp(terms, 0).sum() - n * lib.logsumexp(alphas, 0) + prior

    return lib.value_and_grad(log_posterior, (0, 1, 2))


def _wishart_constant(d):
    """Return the part of the log-density of a Wishart prior (gamma = 1, m = 0) without parameters."""
    n = d + 1
    multigamma = 0.25 * d * (d - 1) * log(pi) + sum(lgamma(0.5 * n - 0.5 * j) for j in range(d))
    return multigamma + 0.5 * n * d * log(2)


def mixture_inputs():
    rng, d, k, n = np.random.default_rng(0), D, K, N
    packed = rng.normal(scale=0.3, size=(k, d * (d + 1) // 2))
    return rng.normal(size=k), rng.normal(size=(k, d)), packed, rng.normal(size=(n, d))


def bundle(lib):
    """Jacobians of reprojection residuals in 11 parameters of the camera, 3 of the point and the weight."""
    xp = lib.xp

    def rotated(rotation, x):  # by Rodrigues' formula
        angle = xp.sqrt((rotation * rotation).sum())
        axis = rotation / angle
        return (
            x * xp.cos(angle)
            + xp.linalg.cross(axis, x) * xp.sin(angle)
            + axis * ((axis * x).sum() * (1 - xp.cos(angle)))
        )

    def residual(camera, point, weight, feature):
        rotation, centre, focal, principal, radial = (
            camera[:3], camera[3:6], camera[6], camera[7:9], camera[9:],
        )  # fmt: skip
        seen = rotated(rotation, point - centre)
        flat = seen[:2] / seen[2]
        square = (flat * flat).sum()
        distorted = flat * (1 + radial[0] * square + radial[1] * square * square)
        return weight * (distorted * focal + principal - feature)

    jacobians = lib.vmap(lib.jacrev(residual, (0, 1, 2)))

    def gathered(cameras, points, weights, features, which_camera, which_point):
        return jacobians(cameras[which_camera], points[which_point], weights, features)

    return gathered


def bundle_inputs():
    rng = np.random.default_rng(0)
    #       rotation, centre, focal length, principal point, radial distortion
    scales = [0.1] * 3 + [1.0] * 3 + [1.0] + [1.0] * 2 + [0.01] * 2
    cameras = rng.normal(scale=scales, size=(CAMERAS, 11))
    cameras[:, 6] += 500
    return (
        cameras,
        rng.normal(size=(POINTS, 3)) + np.array([0.0, 0.0, 10.0]),
        rng.random(OBSERVATIONS),
        rng.normal(size=(OBSERVATIONS, 2)),
        rng.integers(0, CAMERAS, OBSERVATIONS),
        rng.integers(0, POINTS, OBSERVATIONS),
    )


def lstm(lib):
    """Loss of one recurrent cell with four gates whose weights are vectors, as in ADBench."""
    xp, b = lib.xp, CELL

    def sigmoid(x):
        return 1 / (1 + xp.exp(-x))

    def loss(weight, bias, hidden, cell, extra, sequence):
        def step(carry, given):
            h, c = carry
            x, target = given
            x = x * extra[0]
            forget = sigmoid(x * weight[:b] + bias[:b])
            enter = sigmoid(h * weight[b : 2 * b] + bias[b : 2 * b])
            leave = sigmoid(x * weight[2 * b : 3 * b] + bias[2 * b : 3 * b])
            change = xp.tanh(h * weight[3 * b :] + bias[3 * b :])
            c = c * forget + enter * change
            h = leave * xp.tanh(c)
            predicted = h * extra[1] + extra[2]
            return (h, c), (target * (predicted - xp.log(xp.exp(predicted).sum() + 2))).sum()

        _, terms = lib.scan(step, (hidden, cell), (sequence[:-1], sequence[1:]))
        return -terms.sum() / (CELL_STEPS * b)

    return lib.value_and_grad(loss, (0, 1, 2, 3, 4))


def lstm_inputs():
    rng, b = np.random.default_rng(0), CELL
    shapes = (4 * b,), (4 * b,), (b,), (b,), (3, b)
    sequence = (rng.random((CELL_STEPS + 1, b)) < 0.2).astype(float)
    return *(rng.normal(size=s) for s in shapes), sequence


def hand(lib):
    """Forward Jacobian of a hand: a joint moves what hangs on it, a vertex follows all bones."""
    xp = lib.xp

    def turn(angle, about):
        c, s, zero, one = xp.cos(angle), xp.sin(angle), xp.zeros_like(angle), xp.ones_like(angle)
        places = {
            "x": [one, zero, zero, zero, zero, c, -s, zero, zero, s, c, zero],
            "y": [c, zero, s, zero, zero, one, zero, zero, -s, zero, c, zero],
            "z": [c, -s, zero, zero, s, c, zero, zero, zero, zero, one, zero],
        }[about]
        return xp.stack([*places, zero, zero, zero, one]).reshape(4, 4)

    def wrist(params):
        zero, one = xp.zeros_like(params[0]), xp.ones_like(params[0])
        x, y, z = params[3], params[4], params[5]
        moved = [one, zero, zero, x, zero, one, zero, y, zero, zero, one, z, zero, zero, zero, one]
        turned = turn(params[0], "x") @ turn(params[1], "y") @ turn(params[2], "z")
        return xp.stack(moved).reshape(4, 4) @ turned

    def surface(params, rest, back, vertices, weights):
        bones = [wrist(params)]
        for finger in range(FINGERS):
            at = bones[0]
            for joint in range(JOINTS):
                i = finger * JOINTS + joint
                at = at @ (rest[i] @ turn(params[6 + i], "x" if joint else "z"))
                bones.append(at)
        moved = (xp.stack(bones) @ back) @ vertices  # (bones, 4, vertices)
        return (moved * weights[:, None]).sum(0)[:3]

    return lib.jacfwd(surface)


def hand_inputs():
    rng, bones = np.random.default_rng(0), 1 + FINGERS * JOINTS
    rest = np.tile(np.eye(4), (bones - 1, 1, 1))
    rest[:, :3, 3] = rng.normal(size=(bones - 1, 3))
    back = np.tile(np.eye(4), (bones, 1, 1))
    back[:, :3, 3] = rng.normal(size=(bones, 3))
    vertices = np.vstack([rng.normal(size=(3, VERTICES)), np.ones(VERTICES)])
    weights = rng.random((bones, VERTICES)) ** 4
    return rng.normal(scale=0.3, size=6 + FINGERS * JOINTS), rest, back, vertices, weights / weights.sum(0)
