"""The data of the demo, packed with fgrad: see data/README.md for source and licence."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CLASSES = 10
HELD_OUT = 360  # of 1797; one in five


class Examples(NamedTuple):
    """Images with what they show: one row each."""

    images: NDArray[np.float64]  # (n, 64), ink from 0 to 1
    targets: NDArray[np.float64]  # (n, 10), 1 at the digit and 0 elsewhere


def load() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the 1797 images, of shape (1797, 8, 8) with ink from 0 to 16, and their labels 0 to 9.

    Example:
        >>> images, labels = load()
        >>> images.shape, images.max(), labels[:5]
        ((1797, 8, 8), np.uint8(16), array([0, 1, 2, 3, 4], dtype=uint8))
    """
    with (files("fgrad") / "data" / "digits.npz").open("rb") as file, np.load(file) as arrays:
        return arrays["images"], arrays["labels"]


def split(rng: np.random.Generator) -> tuple[Examples, Examples]:
    """Return training and held-out examples, shuffled by `rng` and scaled for a network.

    Example:
        >>> training, held_out = split(np.random.default_rng(0))
        >>> training.images.shape, held_out.targets.shape
        ((1437, 64), (360, 10))
    """
    images, labels = load()
    order = rng.permutation(len(labels))
    examples = Examples(images.reshape(-1, 64)[order] / 16.0, np.eye(CLASSES)[labels[order]])
    return Examples(*(x[HELD_OUT:] for x in examples)), Examples(*(x[:HELD_OUT] for x in examples))


def batches(rng: np.random.Generator, examples: Examples, size: int, epochs: int) -> Iterator[Examples]:
    """Yield batches of `size` examples, drawn without repetition and anew for each epoch."""
    per_epoch = len(examples.images) // size
    for _ in range(epochs):
        for chosen in rng.permutation(len(examples.images))[: per_epoch * size].reshape(per_epoch, size):
            yield Examples(examples.images[chosen], examples.targets[chosen])
