"""Derivatives of scalar expressions, as scalar expressions."""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import ONE, ZERO, Expr, Operand, apply, postorder


def gradient(f: Expr, wrt: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return df/dv for every `v` in `wrt`: one reverse sweep over the shared graph of `f`."""
    adjoint: dict[Expr, Expr] = {f: ONE}
    for e in reversed(list(postorder(f))):
        ct = adjoint.get(e, ZERO)
        if e.args and ct is not ZERO:
            atom = ATOMS[e.head]
            for arg, slope, product in zip(e.args, atom.slopes(e, *e.args), atom.products, strict=True):
                adjoint[arg] = adjoint.get(arg, ZERO) + chain(ct, slope, product)
    return tuple(adjoint.get(v, ZERO) for v in wrt)


def chain(ct: Expr, slope: Operand, product: str) -> Expr:
    """Return `ct * slope`, by the atom `product`: where a slope may be infinite, a zero `ct` wins over it.

    The product goes into the arms of a `where`, so that an arm that is not taken cannot spoil it.
    """
    if isinstance(slope, Expr) and slope.head == "where":
        c, x, y = slope.args
        return apply("where", c, chain(ct, x, product), chain(ct, y, product))
    plain = ct * slope
    if product == "multiply" or ct.head == "const" or plain.head != "multiply":
        return plain
    return apply(product, ct, slope)
