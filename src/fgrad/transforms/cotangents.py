"""Cotangents that users pass in and get out, checked; and the reverse pass between."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fgrad import tree
from fgrad.backend.array import DeviceArray, mixed
from fgrad.backend.devices import adopted, is_foreign
from fgrad.compat.numpy import restore, setting, silence
from fgrad.core.notes import noting
from fgrad.core.observers import Check, Observer, observing
from fgrad.core.placement import device_of, near
from fgrad.core.primitive import OPERATORS
from fgrad.core.tape import CUT, Node, Tape
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import Trace, current, note_call, user_line
from fgrad.errors import NoGradientWarning, UnusedArgumentError
from fgrad.ops.linear import convert, unbroadcast
from fgrad.transforms.batch import Batch, vjp_batched
from fgrad.transforms.calling import plain

if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import TypeGuard

OnUnused = Literal["warn", "error", "ignore"]
Callback = Callable[[Tensor, Tensor], Any]


def sweep(
    tape: Tape,
    seeds: Sequence[tuple[Node, Any]],
    *,
    consume: bool,
    complete: Callable[[Node, Any], None] | None = None,
) -> dict[Node, Any]:
    """Return the cotangents of the leaves of `tape`; on plain arrays where no other trace is concerned."""
    raw = tape.raw
    if raw:
        for _, ct in seeds:
            if ct.__class__ is Tensor:
                raw = False
    add = np.add if raw else OPERATORS["add"]
    observers = observing()
    at_once: Callable[..., Any] | None = None
    batches: Sequence[Any] = ()  # whose values come of this call of the user's alone
    before = setting()
    try:
        silence()
        if observers:
            return _observed(tape, seeds, add, observers, (), raw=raw, consume=consume, complete=complete)
        if raw and consume and complete is None:
            return tape.sweep_arrays(seeds, unbroadcast)
        if not raw:
            traces = current().traces
            at_once = _at_once(traces)
            batches = [t for t in traces if t.__class__ is Batch and not t.line]
            if batches:
                line = user_line()
                for t in batches:
                    t.line = line
        return tape.sweep(
            seeds, add, unbroadcast, lift, raw=raw, consume=consume, complete=complete, at_once=at_once
        )
    finally:
        for t in batches:
            t.line = ""
        restore(before)
        if consume and tape.spent is not None:
            tape.forget_spent()


def _observed(
    tape: Tape,
    seeds: Sequence[tuple[Node, Any]],
    add: Callable[[Any, Any], Any],
    observers: Sequence[Observer],
    checks: Sequence[Check],
    **options: Any,
) -> dict[Node, Any]:
    """Sweep while the first of `observers`, and then the others, look at it."""
    if observers:
        with observers[0].sweeping(tape, seeds) as check:
            return _observed(tape, seeds, add, observers[1:], (*checks, check), **options)

    def look(node: Node, ct: Any, back: Sequence[Any]) -> None:
        for check in checks:
            check(node, ct, back)

    notes = noting()
    begin = None if notes is None else notes.begin
    return tape.sweep(seeds, add, unbroadcast, lift, check=look, begin=begin, **options)


def _at_once(traces: Sequence[Trace]) -> Callable[..., Any] | None:
    """Return the shorter way through steps of batched values, where there is one."""
    if len(traces) == 1 and traces[0].__class__ is Batch:
        return functools.partial(vjp_batched, traces[0])
    return None


def lift(x: Any) -> Any:
    """Return a saved array as a Tensor, which marks it as one that nobody writes to."""
    if x.__class__ is tuple:  # all outputs of a primitive with several
        return tuple(map(lift, x))
    return wrap(x) if x.__class__ is np.ndarray or x.__class__ is DeviceArray else x


def check_on_unused(on_unused: str) -> None:
    """Refuse what is no choice."""
    if on_unused not in ("warn", "error", "ignore"):
        raise ValueError(f'on_unused must be "warn", "error" or "ignore", not {on_unused!r}')


def report_unused(on_unused: OnUnused, unused: Sequence[str], of: str) -> None:
    """Name what no gradient reaches."""
    if not unused:
        return
    message = (
        f"no gradient reaches {', '.join(unused)} from {of}: its value does not depend on "
        f"{'it' if len(unused) == 1 else 'them'} through differentiable operations"
    )
    if on_unused == "error":
        raise UnusedArgumentError(message)
    file, _, line = user_line().rpartition(":")
    warnings.warn_explicit(message, NoGradientWarning, file, int(line))


def seeds_of(y: Any, dy: Any, tape: Tape) -> list[tuple[Node, Any]]:
    """Return the nodes of `y` with their cotangents."""
    if y is None:
        return []
    ys, structure = tree.flatten(y)
    for t in ys:
        if not isinstance(t, Tensor):
            raise TypeError(
                f"backward takes a Tensor or a pytree of Tensors as y, but a leaf is {described(t)}"
            )
    if dy is None:
        cts: list[Any] = [None] * len(ys)
    elif isinstance(y, Tensor):
        if not isinstance(dy, Tensor | np.ndarray | np.generic | int | float | complex) and not is_foreign(
            dy
        ):
            raise TypeError(
                f"dy is {described(dy)}, but y is a Tensor of shape {y.shape}; give a Tensor or array"
            )
        cts = [dy]
    else:
        cts, given = tree.flatten(dy)
        if given != structure:
            raise ValueError(
                f"dy has the structure {given}, but y has the structure {structure}; they must match"
            )
    pairs = [(t, cotangent(ct, t, "dy", "y")) for t, ct in zip(ys, cts, strict=True)]
    seeds = [(n, ct) for t, ct in pairs for n in t._nodes if n.tape is tape]
    if len(seeds) < len(pairs):
        for t in ys:
            if not any(n.tape is tape for n in t._nodes):
                warnings.warn(_why_no_gradient(t), NoGradientWarning, stacklevel=4)
    return seeds


def cotangent(ct: Any, t: Any, name: str, of: str) -> Any:
    """Return `ct` checked and converted to the shape and dtype of `t`: an array, or a traced Tensor."""
    if ct is None:
        value = t._value
        if value.__class__ is np.ndarray or isinstance(value, np.generic):
            one: Any = one_of(value.dtype)
        else:
            one = near(t).ones((), t.dtype)
        return np.broadcast_to(one, t.shape) if t.shape else one
    if isinstance(ct, Tensor):
        ct = plain(ct)
    elif ct.__class__ is not np.ndarray and is_foreign(ct):
        ct = adopted(ct)
    else:
        try:
            ct = np.asarray(ct).view()
        except ValueError:
            ct = np.asarray(ct, object)
        # what shares memory with it will be copied before it is handed out; to assign to a flag takes longer
        ct.setflags(False)
        v, kind = t._value if t.__class__ is Tensor else t, ct.dtype
        if v.__class__ is np.ndarray and ct.shape == v.shape and kind is v.dtype and kind.kind in "fc":
            return ct
    if ct.dtype.kind not in "fciub":
        raise TypeError(f"{name} has dtype {ct.dtype}, but {of} has dtype {t.dtype}; give numbers")
    if ct.shape != t.shape:
        raise ValueError(f"{name} has shape {ct.shape}, but {of} has shape {t.shape}; they must be equal")
    if ct.dtype.kind == "c" and t.dtype.kind != "c":
        raise TypeError(f"{name} has dtype {ct.dtype}, but {of} has the real dtype {t.dtype}")
    if device_of(ct) != device_of(t):
        raise mixed(device_of(t), device_of(ct))
    return convert(ct, t.dtype)


@functools.cache
def one_of(dtype: np.dtype[Any]) -> Any:
    """Return the number 1, with which NumPy computes in a tenth of the time of an array without axes."""
    return dtype.type(1)


def _why_no_gradient(t: Tensor) -> str:
    if any(n.tape is not None for n in t._nodes):
        why = "it is tracked only by another manager"
    elif any(n is CUT for n in t._nodes):
        why = "it was cut by x[...] = ..., which gave it a constant value"
    elif t._nodes:
        why = "it comes from a finished recording; compute it again while this manager records"
    else:
        why = "it is a constant: it was computed without an attached tensor, or before record()"
    return f"backward: y of shape {t.shape} gives no gradient, because {why}"


def is_future(x: Any) -> TypeGuard[Future[Any]]:
    """Return whether `x` is a Future, without the import of futures, which takes long: who has one has it."""
    return isinstance(x, getattr(sys.modules.get("concurrent.futures"), "Future", ()))


def called(callbacks: Sequence[Callback], t: Tensor, grad: Any) -> tuple[Any, str]:
    """Return what the callbacks make of a complete gradient, and what to call the last one."""
    who = ""
    for call in callbacks:
        if is_future(grad):
            raise TypeError(f"{who} returned a Future, so it must be the last callback of its tensor")
        note_call(call)
        result = call(t, grad)
        if result is not None:
            who = f"the callback {getattr(call, '__qualname__', type(call).__qualname__)}"
            grad = result if is_future(result) else checked(result, grad, who)
    return grad, who


def checked(result: Any, grad: Tensor, who: str) -> Tensor:
    """Return what a callback returned, if it is like the gradient.

    Raises:
        TypeError: it is no Tensor, or of another dtype.
        ValueError: it has another shape.
    """
    if not isinstance(result, Tensor):
        raise TypeError(
            f"{who} returned {described(result)}; it must return None or a Tensor like the gradient, "
            f"of shape {grad.shape} and dtype {grad.dtype}"
        )
    if result.shape != grad.shape:
        raise ValueError(f"{who} returned shape {result.shape}, but the gradient has shape {grad.shape}")
    if result.dtype != grad.dtype:
        raise TypeError(f"{who} returned dtype {result.dtype}, but the gradient has dtype {grad.dtype}")
    return result


def given(ct: Any) -> Tensor:
    """Return a cotangent as a Tensor of its own."""
    return wrap(ct._value, ct._nodes) if ct.__class__ is Tensor else wrap(ct)


def owned(g: Tensor, taken: set[int]) -> Tensor:
    """Return a new Tensor on a gradient, whose memory no other one of `taken` shares."""
    value = g._value
    if isinstance(value, np.ndarray | DeviceArray):
        flags = value.flags
        if id(value) in taken or not flags.owndata or not flags.writeable:
            value = value.copy()
        taken.add(id(value))
    return wrap(value, g._nodes)


def described(x: Any) -> str:
    """Return what an error message says of the type of `x`."""
    name = type(x).__qualname__
    module = type(x).__module__
    return f"of type {name if module == 'builtins' else f'{module}.{name}'}"
