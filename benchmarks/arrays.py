"""Functions of about a million numbers: their inputs, and value and gradient in every library that has them.

What is timed is the inner product of the result with a constant, and its gradient in all inputs.
`python -m benchmarks.arrays --only softmax` times some of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np

from benchmarks.timing import fastest
from fgrad.demo.report import table

PEERS = ("torch", "autograd")
DTYPES = {"f32": np.float32, "f64": np.float64}
SIDE = 1000  # a matrix of SIDE x SIDE
PLACES = np.random.default_rng(1).integers(0, SIDE * SIDE, SIDE * SIDE)
MATRIX, VECTOR, IMAGES = (SIDE, SIDE), (SIDE,), (16, 16, 64, 64)

# fmt: off
SHAPES = {
    "softmax":         (MATRIX,),
    "log_softmax":     (MATRIX,),
    "logsumexp":       (MATRIX,),
    "layer_norm":      (MATRIX, VECTOR, VECTOR),
    "gelu":            (MATRIX,),
    "gelu, tanh":      (MATRIX,),
    "silu":            (MATRIX,),
    "conv2d":          (IMAGES, (32, 16, 3, 3)),
    "max_pool2d":      (IMAGES,),  # 2 x 2
    "max_pool2d, 3/2": (IMAGES,),  # 3 x 3, stride 2, padding 1
    "avg_pool2d":      (IMAGES,),  # 2 x 2
    "gather":          ((SIDE * SIDE,),),
    "sort":            ((SIDE * SIDE,),),
    "sort, rows":      (MATRIX,),
    "cumsum":          (MATRIX,),
    "einsum":          ((100, 100, 100), (100, 100)),
}
# fmt: on
UNLIMITED = {"gelu", "gelu, tanh", "silu"}  # without a budget
LIMITS = {"torch": 1.0, "autograd": 0.5}  # of fgrad's time over that of a peer


def inputs(name: str, dtype: type) -> tuple[np.ndarray, ...]:
    """Return the inputs of a function; without ties where they are sorted."""
    rng = np.random.default_rng(0)
    if name.startswith("sort"):
        return tuple((rng.permutation(SIDE * SIDE) / SIDE).astype(dtype).reshape(s) for s in SHAPES[name])
    return tuple(rng.standard_normal(s).astype(dtype) for s in SHAPES[name])


def measured(
    modules: Mapping[str, ModuleType], seconds: float, only: str = ""
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield for every function and dtype the seconds that each library takes, once they agree."""
    for name in SHAPES:
        for label, dtype in DTYPES.items():
            if only not in name:
                continue
            arrays = inputs(name, dtype)
            size = np.asarray(modules["fgrad"].FUNCTIONS[name](*arrays)).size
            weights = np.random.default_rng(1).standard_normal(size).astype(dtype)
            runs = {
                library: m.gradient_of(m.FUNCTIONS[name], arrays, weights)
                for library, m in modules.items()
                if name in getattr(m, "FUNCTIONS", {})
            }
            agree(name, {library: run() for library, run in runs.items()}, 1e-3 if label == "f32" else 1e-7)
            yield f"{name} {label}", fastest(runs, seconds)


def agree(name: str, results: Mapping[str, tuple[object, list[object]]], tolerance: float) -> None:
    """Check that all libraries compute the same gradient."""
    _, expected = results["fgrad"]
    for _, found in results.values():
        for a, b in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * abs(b).max(), err_msg=name)


HEAD = ["", "fgrad", *PEERS, *(f"/ {p}" for p in PEERS)]


def row(name: str, times: Mapping[str, float]) -> list[str]:
    """Return a line of the table: milliseconds, and fgrad's time over that of each peer."""
    cells = [f"{1e3 * times[c]:.2f}" if c in times else "" for c in HEAD[1 : 2 + len(PEERS)]]
    return [name, *cells, *(f"{times['fgrad'] / times[p]:.2f}" if p in times else "" for p in PEERS)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arrays", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each line of the table (default: 2)")
    parser.add_argument("--only", default="", help="the functions whose names contain this")
    options = parser.parse_args()
    found = {name: import_module(f"benchmarks.with_{name}") for name in ("fgrad", *filter(find_spec, PEERS))}
    print(table([HEAD, *(row(*line) for line in measured(found, options.seconds, options.only))]))
