"""The demo on several ranks: `mpirun -n 4 python -m fgrad demo --data-parallel`."""

from __future__ import annotations

from functools import partial
from typing import Any

from fgrad.demo import run
from fgrad.demo.styles import Array, Params, Style, functional, imperative, loss
from fgrad.distributed import World, data_parallel, make_allreduce_cb, world


def styles(here: World) -> dict[str, Style]:
    """Return the ways to train: as one process does, and two in which the ranks share every batch."""

    def own_loss(params: Params, images: Array, targets: Array) -> Array:
        """Return this rank's part of the loss: the mean over all ranks is the loss of the batch."""
        share = here.share(len(images))
        weight = (share.stop - share.start) * here.size / len(images)
        return loss(params, images[share], targets[share]) * weight

    def with_callbacks(params: Params, batches: Any) -> Any:
        """Train with a GradManager, whose gradients are averaged while the sweep goes on."""
        return imperative(params, batches, make_allreduce_cb("MEAN", comm=here), own_loss)

    return {
        "one process": functional,
        "value_and_grad": partial(functional, loss=data_parallel(loss, comm=here)),
        "with gm: .grad": with_callbacks,
    }


def main(epochs: int, seed: int) -> int:
    """Train in all ways; rank 0 prints what came of it; return 0 if the losses agree to rounding, else 1."""
    here = world()
    outcomes = {name: run.train(style, name, epochs, seed) for name, style in styles(here).items()}
    apart = run.disagreement([o.loss for o in outcomes.values()])
    agree = apart <= run.TOLERANCE  # False for NaN
    if here.rank == 0:
        print(f"{run.ABOUT}\n\n{run.table(outcomes)}\n\n{run.COLUMNS}\n")
        print(f"{here.size} ranks share every batch of {run.BATCH} examples.")
        print(f"The losses {'agree to rounding' if agree else 'DISAGREE'}: {apart:.1e} apart, relatively.")
    return 0 if agree else 1
