"""Activation functions of neural networks: scalar bodies, each with slopes that stay finite."""

from __future__ import annotations

import math
from collections.abc import Callable

from fgrad.expr.atoms import fn, where
from fgrad.expr.node import Expr, var
from fgrad.ops.elementwise import composed, declare_body

X, A = var("x"), var("y")

# Klambauer, Unterthiner, Mayr & Hochreiter (2017), Self-Normalizing Neural Networks
SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
FAR = (
    30000.0  # every gate is 0 or 1 here, in every precision; float16 can hold it, and no power of x overflows
)
FLAT = 30.0  # beyond it the cubic gelu is x or zero, to the last bit


def _relu(x: Expr) -> Expr:
    return where(x <= 0, 0, x)  # NaN stays


def _gated(gate: Callable[[Expr], Expr]) -> Expr:
    """Return `x * gate(x)` for a gate that goes from 0 to 1, and has arrived there at `FAR`."""
    far = abs(X) >= FAR
    near = where(far, 0, X)
    return where(far, _relu(X), near * gate(near))


def _cubic_gate(x: Expr) -> Expr:
    z = where(x < -FLAT, -FLAT, where(x > FLAT, FLAT, x))
    return fn.sigmoid(2 * math.sqrt(2 / math.pi) * (z + 0.044715 * (z * z * z)))


def _elu(x: Expr, alpha: Expr | float, scale: float = 1.0) -> Expr:
    return where(x > 0, scale * x, scale * alpha * fn.expm1(where(x > 0, 0, x)))


def _celu(x: Expr, alpha: Expr) -> Expr:
    return where(x > 0, x, alpha * fn.expm1(where(x > 0, 0, x) / alpha))


# fmt: off
BODIES: dict[str, tuple[tuple[Expr, ...], Expr]] = {
    "relu":        ((X,),   _relu(X)),
    "relu6":       ((X,),   where(X <= 0, 0, where(X >= 6, 6, X))),
    "leaky_relu":  ((X, A), where(X >= 0, X, A * X)),
    "elu":         ((X, A), _elu(X, A)),
    "selu":        ((X,),   _elu(X, SELU_ALPHA, SELU_SCALE)),
    "celu":        ((X, A), _celu(X, A)),
    "gelu":        ((X,),   _gated(lambda x: 0.5 * fn.erfc(x * -math.sqrt(0.5)))),
    "gelu_cubic":  ((X,),   _gated(_cubic_gate)),
    "silu":        ((X,),   _gated(fn.sigmoid)),
    "mish":        ((X,),   _gated(lambda x: fn.tanh(fn.softplus(x)))),
    "log_sigmoid": ((X,),   -fn.softplus(-X)),
    "soft_sign":   ((X,),   where(fn.isinf(X), fn.sign(X), X / (1 + abs(where(fn.isinf(X), 0, X))))),
    "hard_tanh":   ((X,),   where(X > 1, 1, where(X < -1, -1, X))),
    "hard_sigmoid": ((X,),  where(X <= -3, 0, where(X >= 3, 1, (X + 3) / 6))),
}
# fmt: on

for _name, (_params, _body) in BODIES.items():
    declare_body(_name, _params, _body, composed(_params, _body), fused=True)
