"""Deblurring: the image that, blurred, is what was seen, with few edges (total variation)."""

import numpy as np

import fgrad as fg
from fgrad.scipy.ndimage import gaussian_filter
from fgrad.scipy.optimize import minimize


def picture(n=48):
    """Return an image with a disc, a bar and a ring."""
    y, x = np.mgrid[:n, :n] / n
    disc = np.hypot(x - 0.3, y - 0.35) < 0.18
    ring = np.abs(np.hypot(x - 0.65, y - 0.65) - 0.2) < 0.05
    bar = (np.abs(x - 0.75) < 0.04) & (y < 0.4)
    return np.clip(disc * 0.8 + ring * 1.0 + bar * 0.6, 0.0, 1.0)


def total_variation(image):
    """Return the sum of the lengths of gradients, smooth at zero."""
    down, right = np.diff(image, axis=0)[:, :-1], np.diff(image, axis=1)[:-1]
    return np.sum(np.sqrt(down**2 + right**2 + 1e-6))


def loss(image, seen):
    """Return how far an image is from what was seen, and from few edges."""
    return np.sum((gaussian_filter(image, 1.5) - seen) ** 2) + 2e-3 * total_variation(image)


def psnr(image, truth):
    """Return the ratio of the peak to the error in decibels."""
    return -10 * np.log10(np.mean((image - truth) ** 2))


def main():
    """Return the ratios of signal to noise before and after."""
    truth = picture()
    seen = gaussian_filter(truth, 1.5) + 0.01 * np.random.default_rng(0).normal(size=truth.shape)
    found = minimize(
        fg.jit(lambda image: loss(image, seen)),
        seen,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * seen.size,
        options={"maxiter": 300},
    )
    before, after = psnr(seen, truth), psnr(found.x, truth)
    print(f"{before:.1f} dB as seen, {after:.1f} dB deblurred")
    return before, after


if __name__ == "__main__":
    main()
