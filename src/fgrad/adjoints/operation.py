"""Kernels as primitives: `kernel.call` runs one, `kernel.vjp` its adjoint: each is the other's derivative.

With T(x, dx) = (f(x), J dx) and V(x, c) = J(x)^T c, the derivative of V along u is that of the adjoint of T,
since <u, J(x)^T c> = <J(x) u, c>: to any order, no derivative of what is recorded is ever taken. Primitives
differ in how many operands are cotangents and directions, in which they are linear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fgrad import locks
from fgrad.adjoints.batched import Batched
from fgrad.adjoints.launches import launched
from fgrad.adjoints.programs import Program, tangent_places
from fgrad.compiler.library import LIBRARY, ON_PAIRS
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import NOT_FOLDED, PRIMITIVES, VJP, Pattern, Primitive, Rule, batch_size, register
from fgrad.ops.linear import broadcast_to, reshape

ROWS = 2**20  # elements of cotangents of single examples, at most, that are held to be summed

_declaring = locks.lock()


def call(values: Sequence[Any], kernel: Program) -> tuple[Any, ...]:
    """Return the outputs of a kernel; the primitive says in how many of its first operands it is linear."""
    name = "kernel.call" + f" along {kernel.directions}" * bool(kernel.directions)
    _demand(name, lambda: _declare_call(name, kernel.directions))
    found: tuple[Any, ...] = bind(name, *values, kernel=kernel)
    return found


def back(
    cts: Sequence[Any], values: Sequence[Any], *, kernel: Program, wrt: tuple[int, ...], **params: Any
) -> tuple[Any, ...]:
    """Return the cotangents of operands; the primitive says how many of its own are cotangents of outputs."""
    if isinstance(kernel, Batched) and not all(kernel.mapped[i] for i in wrt):
        size = kernel.size(values)
        if size * sum(math.prod(values[i].shape) for i in wrt if not kernel.mapped[i]) <= ROWS:
            return _summed(cts, values, kernel, wrt, size, **params)
    params["wrt"] = wrt
    name = f"kernel.vjp of {len(cts)}" + f" along {kernel.directions}" * bool(kernel.directions)
    _demand(name, lambda: _declare_back(name, len(cts), kernel.directions))
    found: tuple[Any, ...] = bind(name, *cts, *values, kernel=kernel, **params)
    return found


def _summed(
    cts: Sequence[Any], values: Sequence[Any], kernel: Batched, wrt: tuple[int, ...], size: int, **params: Any
) -> tuple[Any, ...]:
    """Return cotangents of operands that all examples share as sums, so that threads share the examples."""
    full = tuple([m or i in wrt for i, m in enumerate(kernel.mapped)])
    rows = back(
        cts,
        _filled(values, kernel.mapped, full, size),
        kernel=Batched(kernel.inner, full),
        wrt=wrt,
        **params,
    )
    return tuple(
        [x if kernel.mapped[i] else bind("sum", x, axes=(0,)) for i, x in zip(wrt, rows, strict=True)]
    )


def _demand(name: str, declare: Callable[[], None]) -> None:
    if name not in PRIMITIVES:
        with _declaring:
            if name not in PRIMITIVES:
                declare()


# ---- values -----------------------------------------------------------------------------------------------


def _declare_call(name: str, directions: int) -> None:
    """Declare kernels whose outputs are linear in so many of the first operands."""

    def run(*values: Any, kernel: Program) -> tuple[Any, ...]:
        return kernel.run(values)

    def shape(*avals: Aval, kernel: Program) -> tuple[Aval, ...]:
        return kernel.shape(avals)

    def batch(mapped: tuple[bool, ...], *values: Any, kernel: Program) -> tuple[Any, ...]:
        size = batch_size(mapped, values)
        full = tuple([m or p.written for m, p in zip(mapped, kernel.operands, strict=True)])
        return call(_filled(values, mapped, full, size), Batched(kernel, full))

    def vjp(pattern: Pattern) -> VJP | None:
        tracked = [i for i, t in enumerate(pattern) if t]

        def step(cts: Sequence[Any], *saved: Any) -> list[Any]:
            *values, params = saved
            kernel: Program = params["kernel"]
            wrt = tuple([i for i in tracked if kernel.operands[i].floating])
            given = tuple([i for i in kernel.floating_outputs if cts[i] is not None])
            if not wrt or not given:
                return [None] * len(tracked)
            found = back([cts[i] for i in given], values, kernel=kernel, wrt=wrt, given=given)
            by_place = dict(zip(wrt, found, strict=True))
            return [by_place.get(i) for i in tracked]

        linear = all(i < directions for i in tracked)
        return VJP(step, keep=tuple(range(1, len(pattern) + 1)), params=True, exact=True, linear=linear)

    _register(name, run, shape, batch, vjp, lambda params: bool(params["kernel"].refuses))


# ---- cotangents -------------------------------------------------------------------------------------------


def _declare_back(name: str, count: int, directions: int) -> None:
    """Declare adjoints for so many cotangents, of kernels that are linear in so many operands."""

    def run(*args: Any, kernel: Program, wrt: tuple[int, ...], given: tuple[int, ...]) -> tuple[Any, ...]:
        return kernel.pullback(args[count:], args[:count], wrt, given)

    def shape(*avals: Aval, wrt: tuple[int, ...], **_: Any) -> tuple[Aval, ...]:
        return tuple(avals[count + i] for i in wrt)

    def batch(
        mapped: tuple[bool, ...], *args: Any, kernel: Program, wrt: tuple[int, ...], given: tuple[int, ...]
    ) -> tuple[Any, ...]:
        size = batch_size(mapped, args)
        own = enumerate(zip(mapped[count:], kernel.operands, strict=True))
        full = tuple([m or p.written or i in wrt for i, (m, p) in own])
        held = _filled(args, mapped, (*[True] * count, *full), size)
        return back(held[:count], held[count:], kernel=Batched(kernel, full), wrt=wrt, given=given)

    def vjp(pattern: Pattern) -> VJP | None:
        return _derivative(pattern, count, directions)

    _register(name, run, shape, batch, vjp)


def _derivative(pattern: Pattern, count: int, directions: int) -> VJP:
    """Return how cotangents go back through an adjoint: along them, the adjoint of the tangent."""
    tracked = [i for i, t in enumerate(pattern) if t]
    of_cts = all(i < count for i in tracked)
    linear = of_cts or all(count <= i < count + directions for i in tracked)

    def step(us: Sequence[Any], *saved: Any) -> list[Any]:
        *everything, params = saved
        kernel: Program = params["kernel"]
        given = params["given"]
        cts, values = ([], everything) if of_cts else (everything[:count], everything[count:])
        along = {i: u for i, u in zip(params["wrt"], us, strict=True) if u is not None}
        moved = [along[i] if i in along else near(values[i]).zeros(values[i].shape, values[i].dtype)
                 for i in kernel.floating]  # fmt: skip
        places = dict(zip(kernel.floating_outputs, tangent_places(kernel.function), strict=True))
        behind = tuple([places[i] for i in given])
        found: dict[int, Any] = {}
        if any(i < count for i in tracked):
            outs = call([*moved, *values], kernel.tangent)
            found.update({k: outs[place] for k, place in enumerate(behind)})
        inner = [i - count for i in tracked if i >= count and kernel.operands[i - count].floating]
        if inner:
            wrt = tuple([len(moved) + i for i in inner])
            again = back(cts, [*moved, *values], kernel=kernel.tangent, wrt=wrt, given=behind)
            found.update({count + i: x for i, x in zip(inner, again, strict=True)})
        return [found.get(i) for i in tracked]

    keep = tuple(range(count + 1 if of_cts else 1, len(pattern) + 1))
    return VJP(step, keep=keep, params=True, exact=True, linear=linear)


# ---- what both share --------------------------------------------------------------------------------------


def _register(
    name: str,
    run: Rule,
    shape: Rule,
    batch: Rule,
    vjp: Callable[[Pattern], VJP | None],
    effect: Callable[[dict[str, Any]], bool] | None = None,
) -> None:
    register(
        Primitive(
            name,
            run=run,
            vjp=vjp,
            shape=shape,
            batch=batch,
            effect=effect,
            stored="a kernel of the user's own is code, and programs are stored without",
            many=True,
            costly=True,
            traits={NOT_FOLDED},
        )
    )
    LIBRARY[name] = LIBRARY[f"{ON_PAIRS} {name}"] = launched


def _filled(values: Sequence[Any], mapped: Sequence[bool], full: Sequence[bool], size: int) -> list[Any]:
    """Return operands with a first axis of examples where `full` asks for one."""
    return [
        broadcast_to(reshape(v, (1, *v.shape)), (size, *v.shape)) if f and not m else v
        for v, m, f in zip(values, mapped, full, strict=True)
    ]
