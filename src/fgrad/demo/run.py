"""Run the demo: train in each style from the same seed, compare, and report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, median
from time import perf_counter

import numpy as np

import fgrad as fg
from fgrad.demo import digits, report
from fgrad.demo.digits import Examples
from fgrad.demo.styles import STYLES, Params, Style, initial, loss, network

BATCH = 32
ABOUT = (
    f"1797 handwritten digits of 8 by 8 pixels (UCI Machine Learning Repository), {digits.HELD_OUT} of them\n"
    f"held out, and a network 64-48-10 that learns them in batches of {BATCH}, by several ways to write its\n"
    "gradient."
)
COLUMNS = (
    "loss: mean cross-entropy of the training digits after the last step; held-out accuracy: fraction of\n"
    "the held-out digits that are recognized; microseconds per step: of a batch, its gradient and the\n"
    "update, in the median over epochs"
)
TOLERANCE = 1e-9  # relative; rounding alone leaves the styles far closer


@dataclass(frozen=True)
class Outcome:
    """What one style of training came to."""

    loss: float  # of the final parameters, over all training examples
    accuracy: float  # over the held-out examples
    microseconds: float  # per step: batch, loss, gradient and update
    training: list[float]  # mean loss of each epoch
    held_out: list[float]  # loss after each epoch


def train(style: Style, name: str, epochs: int, seed: int) -> Outcome:
    """Train from `seed` in one style; the same seed makes the same steps in every style."""
    rng = np.random.default_rng(seed)
    training, held_out = digits.split(rng)
    steps = style(initial(rng), digits.batches(rng, training, BATCH, epochs))
    per_epoch = len(training.images) // BATCH
    seconds, curve, held_out_curve = [], [], []
    for _ in report.progress(epochs, name):
        start = perf_counter()
        values, states = zip(*islice(steps, per_epoch), strict=True)
        seconds.append((perf_counter() - start) / per_epoch)
        params = fg.tree.map(np.asarray, states[-1])
        curve.append(fmean(map(float, values)))
        held_out_curve.append(float(loss(params, *held_out)))
    return Outcome(
        loss=float(loss(params, *training)),
        accuracy=accuracy(params, held_out),
        microseconds=1e6 * median(seconds),
        training=curve,
        held_out=held_out_curve,
    )


def accuracy(params: Params, examples: Examples) -> float:
    """Return the fraction of `examples` whose highest score is that of the true class."""
    hits = network(params, examples.images).argmax(axis=1) == examples.targets.argmax(axis=1)
    return float(hits.mean())


def disagreement(losses: list[float]) -> float:
    """Return how far the losses lie apart, relative to the first.

    Example:
        >>> disagreement([2.0, 2.0, 2.5])
        0.25
    """
    return float(np.ptp(losses) / abs(losses[0]))


def table(outcomes: Mapping[str, Outcome]) -> str:
    """Return what came of each style, in columns."""
    rows = [["style", "loss", "held-out accuracy", "microseconds per step"]]
    rows += [[n, f"{o.loss:.12f}", f"{o.accuracy:.4f}", f"{o.microseconds:.0f}"] for n, o in outcomes.items()]
    return report.table(rows)


def main(epochs: int, seed: int) -> int:
    """Train in all styles and print what came of it; return 0 if their losses agree to rounding, else 1."""
    print(ABOUT)
    outcomes = {name: train(style, name, epochs, seed) for name, style in STYLES.items()}
    first = next(iter(outcomes.values()))
    apart = disagreement([o.loss for o in outcomes.values()])
    print(f"\n{table(outcomes)}\n\n{COLUMNS}\n")
    print(report.curve({"o": first.held_out, "*": first.training}))
    print(f"{'':9} epochs 1 to {epochs}; cross-entropy of training (*) and held-out (o) examples\n")
    agree = apart <= TOLERANCE  # False for NaN
    print(f"The losses {'agree to rounding' if agree else 'DISAGREE'}: {apart:.1e} apart, relatively.")
    return 0 if agree else 1
