"""Kernels as primitives: `kernel.call` runs one, `kernel.vjp` its adjoint; each is the derivative of the other.

With T(x, dx) = (f(x), J dx) and V(x, c) = J(x)^T c, the derivative of V along u follows from the adjoint of T,
since <u, J(x)^T c> = <J(x) u, c>: no derivative of recorded values is ever taken, to any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


from fgrad.adjoints.batched import Batched
from fgrad.adjoints.programs import Program
from fgrad.core.aval import Aval
from fgrad.core.placement import near
from fgrad.core.primitive import NOT_FOLDED, VJP, Pattern, Primitive, register
from fgrad.core.tensor import bind
from fgrad.ops.linear import broadcast_to, reshape

_STORED = "a kernel is code of its own, and only its name is known to programs"


def _run(*values: Any, kernel: Program) -> tuple[Any, ...]:
    return kernel.run(values)


def _vjp_of_call(pattern: Pattern) -> VJP | None:
    tracked = [i for i, t in enumerate(pattern) if t]

    def step(cts: Sequence[Any], *saved: Any) -> list[Any]:
        *values, params = saved
        kernel: Program = params["kernel"]
        wrt = tuple(i for i in tracked if kernel.operands[i].floating)
        given = tuple(i for i in kernel.floating_outputs if cts[i] is not None)
        if not wrt or not given:
            return [None] * len(tracked)
        held = [cts[i] for i in given]
        found = bind("kernel.vjp", *values, *held, kernel=kernel, wrt=wrt, given=given)
        by_place = dict(zip(wrt, found, strict=True))
        return [by_place.get(i) for i in tracked]

    return VJP(step, keep=tuple(range(1, len(pattern) + 1)), params=True, exact=True)


def _run_vjp(*values: Any, kernel: Program, wrt: tuple[int, ...], given: tuple[int, ...]) -> tuple[Any, ...]:
    n = len(kernel.operands)
    return kernel.pullback(values[:n], values[n:], wrt, given)


def _vjp_of_vjp(pattern: Pattern) -> VJP | None:
    tracked = [i for i, t in enumerate(pattern) if t]

    def step(us: Sequence[Any], *saved: Any) -> list[Any]:
        *everything, params = saved
        kernel: Program = params["kernel"]
        wrt, given = params["wrt"], params["given"]
        n = len(kernel.operands)
        values, cts = everything[:n], everything[n:]
        along = dict(zip(wrt, us, strict=True))
        floating = [i for i, p in enumerate(kernel.operands) if p.floating]
        directions = [near(values[i]).zeros(values[i].shape, values[i].dtype) if along.get(i) is None
                      else along[i] for i in floating]  # fmt: skip
        places = dict(zip(kernel.floating_outputs, kernel.tangent_outputs(), strict=True))
        behind = tuple(places[i] for i in given)
        found: dict[int, Any] = {}
        if any(i >= n for i in tracked):
            outs = bind("kernel.call", *values, *directions, kernel=kernel.tangent)
            found.update({n + k: outs[place] for k, place in enumerate(behind)})
        inner = tuple(i for i in tracked if i < n and kernel.operands[i].floating)
        if inner:
            args = (*values, *directions, *cts)
            back = bind("kernel.vjp", *args, kernel=kernel.tangent, wrt=inner, given=behind)
            found.update(zip(inner, back, strict=True))
        return [found.get(i) for i in tracked]

    return VJP(step, keep=tuple(range(1, len(pattern) + 1)), params=True, exact=True)


# ---- batches ----------------------------------------------------------------------------------------------


def _mapped(v: Any, size: int) -> Any:
    return broadcast_to(reshape(v, (1, *v.shape)), (size, *v.shape))


def _size(mapped: Sequence[bool], values: Sequence[Any]) -> int:
    found: int = next(v.shape[0] for v, m in zip(values, mapped, strict=True) if m)
    return found


def _batch_call(mapped: tuple[bool, ...], *values: Any, kernel: Program) -> tuple[Any, ...]:
    size = _size(mapped, values)
    full = [m or p.written for m, p in zip(mapped, kernel.operands, strict=True)]
    given = [_mapped(v, size) if f and not m else v for v, m, f in zip(values, mapped, full, strict=True)]
    outs: tuple[Any, ...] = bind("kernel.call", *given, kernel=Batched(kernel, tuple(full)))
    return outs


def _batch_vjp(
    mapped: tuple[bool, ...], *values: Any, kernel: Program, wrt: tuple[int, ...], given: tuple[int, ...]
) -> tuple[Any, ...]:
    size, n = _size(mapped, values), len(kernel.operands)
    full = [m or p.written or i in wrt for i, (m, p) in enumerate(zip(mapped[:n], kernel.operands, strict=True))]
    full += [True] * (len(mapped) - n)
    held = [_mapped(v, size) if f and not m else v for v, m, f in zip(values, mapped, full, strict=True)]
    batched = Batched(kernel, tuple(full[:n]))
    outs: tuple[Any, ...] = bind("kernel.vjp", *held, kernel=batched, wrt=wrt, given=given)
    return outs


def _shape_of_vjp(*avals: Aval, kernel: Program, wrt: tuple[int, ...], given: tuple[int, ...]) -> tuple[Aval, ...]:
    del kernel, given
    return tuple(avals[i] for i in wrt)


CALL = register(
    Primitive(
        "kernel.call",
        run=_run,
        vjp=_vjp_of_call,
        shape=lambda *avals, kernel: kernel.shape(avals),
        batch=_batch_call,
        stored=_STORED,
        many=True,
        costly=True,
        traits={NOT_FOLDED},
    )
)
BACK = register(
    Primitive(
        "kernel.vjp",
        run=_run_vjp,
        vjp=_vjp_of_vjp,
        shape=_shape_of_vjp,
        batch=_batch_vjp,
        stored=_STORED,
        many=True,
        costly=True,
        traits={NOT_FOLDED},
    )
)

__all__ = ["BACK", "CALL"]
