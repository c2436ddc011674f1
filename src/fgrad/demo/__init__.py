"""Train a classifier of handwritten digits in three styles: `python -m fgrad demo`."""
