"""The slow, obvious kernels that define what the others compute: one NumPy call an atom, on whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import Expr, postorder
from fgrad.kernels.body import Body, prepare


def elementwise(params: tuple[Expr, ...], results: tuple[Expr, ...]) -> Callable[..., Any]:
    """Return the function that computes `results` at every element of its broadcast operands."""
    body = prepare(params, results)

    def kernel(*operands: Any) -> Any:
        values = tuple(v[()] for v in _evaluate(body, operands))
        return values if len(values) > 1 else values[0]

    return kernel


def _evaluate(body: Body, operands: tuple[Any, ...]) -> list[np.ndarray]:
    common = np.result_type(*operands)
    dtype = common if common.kind in "fc" else np.dtype(float)
    shape = np.broadcast_shapes(*map(np.shape, operands))
    with np.errstate(all="ignore"):
        inputs = (np.asarray(a).astype(dtype) for a in operands)
        value: dict[Expr, Any] = dict(zip(body.params, inputs, strict=True))
        for e in postorder(*body.results):
            if e.head == "const":
                value[e] = dtype.type(e.leaf)
            elif e not in value:
                value[e] = ATOMS[e.head].reference(*(value[a] for a in e.args))
        outs = [np.broadcast_to(value[e], shape) for e in body.results]
        return [o.astype(bool if t else dtype) for o, t in zip(outs, body.truths, strict=True)]
