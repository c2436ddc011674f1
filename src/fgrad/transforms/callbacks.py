"""Callbacks: ordinary Python that sees values, wherever a transformation hides them.

Two primitives. `pure_callback` computes: it has a shape rule and a batch rule, and its derivative is an
error. `effect` only looks: it takes its arguments off every tape, runs once for each example, and has no
output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import CPU, as_array, copied, moved, on_host
from fgrad.core.aval import Aval, aval_of
from fgrad.core.dispatch import bind, linear_tapes, node_on
from fgrad.core.primitive import (
    NOT_FOLDED,
    VJP,
    Pattern,
    batch_size,
    declare,
    flat,
)
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import Tracer, current, place_of, user_line
from fgrad.ops.linear import broadcast_to
from fgrad.transforms.batch import example, one_by_one
from fgrad.transforms.calling import check_live, name_of
from fgrad.transforms.stage import Stage

METHODS = ("sequential", "expand_dims", "broadcast_all")


class _Call:
    """A function of a pytree of arguments as one of flat arrays; other leaves stay as they were given."""

    __slots__ = ("fun", "leaves", "line", "places", "structure")

    def __init__(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.fun, self.line = fun, user_line()
        self.leaves, self.structure = tree.flatten((args, kwargs))
        self.places = [i for i, x in enumerate(self.leaves) if _is_value(x)]

    def values(self) -> list[Any]:
        """Return the leaves that are arrays, numbers or Tensors, and forget them."""
        found = [self.leaves[i] for i in self.places]
        for i in self.places:
            self.leaves[i] = None
        return [check_live(x) if x.__class__ is Tensor else copied(as_array(x)) for x in found]

    def __call__(self, *values: Any) -> Any:
        """Call the function with arrays of its own."""
        leaves = list(self.leaves)
        for i, v in zip(self.places, values, strict=True):
            leaves[i] = np.array(on_host(v))
        args, kwargs = tree.unflatten(self.structure, leaves)
        return self.fun(*args, **kwargs)

    def __repr__(self) -> str:
        return name_of(self.fun)


def _is_value(x: Any) -> bool:
    return isinstance(x, Tensor | np.ndarray | np.generic | bool | int | float | complex)


# ---- callbacks that compute ---------------------------------------------------------------------------


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return `callback(*args, **kwargs)`, computed by ordinary Python on NumPy arrays.

    The callback must be pure: a program calls it at each run, and the number of calls is not specified.

    Args:
        callback: takes arrays where Tensors, arrays or numbers are given, in the same pytrees, and returns a
            pytree of arrays.
        result_shape_dtypes: what it returns, as a pytree of anything with `shape` and `dtype`.
        args: pytrees.
        vmap_method: what `vmap` does: "sequential" calls it once for each example; "broadcast_all" calls it
            once, with the examples along a new first axis of every argument and of the results;
            "expand_dims" does the same, but arguments that all examples share get a first axis of length 1.
        kwargs: pytrees.

    Returns:
        The results, NumPy arrays unless an argument is a Tensor.

    Raises:
        TypeError, ValueError: the callback returned another structure, shape or dtype than promised.
        NotImplementedError: it is mapped without a `vmap_method`.

    Derivative:
        None: a gradient that arrives raises `TypeError`. Give it one with `custom_vjp`.

    Example:
        >>> import fgrad
        >>> import numpy as np
        >>> import math
        >>> f = lambda x: fgrad.pure_callback(math.lgamma, x, x, vmap_method="sequential")
        >>> fgrad.vmap(f)(np.array([1.0, 3.0]))
        array([0.        , 0.6931...])
    """
    return _called(callback, result_shape_dtypes, args, kwargs, vmap_method, effect=False)


def io_callback(callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, **kwargs: Any) -> Any:
    """Return `callback(*args, **kwargs)`, which may do more than compute its results.

    A program calls it once at each run, in the order of the program, also if nobody needs the results; `vmap`
    calls it once for each example, one after the other. Elsewhere it is as `pure_callback`.

    Args:
        callback: takes arrays where Tensors, arrays or numbers are given, in the same pytrees, and returns a
            pytree of arrays.
        result_shape_dtypes: what it returns, as a pytree of anything with `shape` and `dtype`; None: None.
        args: pytrees.
        kwargs: pytrees.

    Returns:
        The results, NumPy arrays unless an argument is a Tensor.

    Raises:
        TypeError, ValueError: the callback returned another structure, shape or dtype than promised.

    Derivative:
        None: a gradient that arrives raises `TypeError`.

    Example:
        >>> import fgrad
        >>> seen = []
        >>> f = fgrad.jit(lambda x: (fgrad.io_callback(lambda v: seen.append(float(v)), None, x), x * 2)[1])
        >>> float(f(3.0)), seen
        (6.0, [3.0])
    """
    return _called(callback, result_shape_dtypes, args, kwargs, "sequential", effect=True)


def _called(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    vmap_method: str | None,
    *,
    effect: bool,
) -> Any:
    if vmap_method is not None and vmap_method not in METHODS:
        raise ValueError(f"vmap_method must be one of {', '.join(METHODS)}, or None, not {vmap_method!r}")
    promised, structure = tree.flatten(result_shape_dtypes)
    for x in promised:
        if not (hasattr(x, "shape") and hasattr(x, "dtype")) and not isinstance(x, int | float | complex):
            raise TypeError(
                f"the leaves of result_shape_dtypes have a shape and a dtype, but one is {x!r}; "
                "give fgrad.eval_shape's result, or an array like the result"
            )
    avals = tuple(Aval(tuple(x.shape), np.dtype(x.dtype)) for x in map(aval_of, promised))
    call = _Call(callback, args, kwargs)
    values = call.values()
    params = {"call": call, "avals": avals, "structure": structure, "method": vmap_method}
    params["acts"] = effect
    stages = [t for t in current().traces if isinstance(t, Stage)]
    if stages and not any(v.__class__ is Tensor and isinstance(v._value, Tracer) for v in values):
        outs = map(wrap, stages[-1].process(CALL, tuple(values), params))  # it runs when the program does
        return tree.unflatten(structure, outs)
    outs = bind("pure_callback", *values, **params)
    given = any(v.__class__ is Tensor for v in values)
    return tree.unflatten(structure, [o if given else o[()] for o in outs])


def _run(*values: Any, call: _Call, avals: tuple[Aval, ...], structure: Any, **_: Any) -> tuple[Any, ...]:
    found, got = tree.flatten(call(*values))
    if got != structure:
        raise TypeError(
            f"the callback {call} of pure_callback at {place_of(call.line)} returned the structure {got}, "
            f"but result_shape_dtypes has the structure {structure}"
        )
    outs = tuple(_checked(x, aval, call) for x, aval in zip(found, avals, strict=True))
    device = next((v.device for v in values if v.__class__ is DeviceArray), CPU)
    return outs if device == CPU else tuple(moved(o, device) for o in outs)


def _checked(x: Any, aval: Aval, call: _Call) -> Any:
    if isinstance(x, Tensor):
        x = x.numpy()
    a = np.array(x, aval.dtype) if isinstance(x, bool | int | float | complex) else np.array(x)
    if a.shape != aval.shape or not np.can_cast(a.dtype, aval.dtype, "equiv"):
        error = ValueError if a.shape != aval.shape else TypeError
        raise error(
            f"the callback {call} of pure_callback at {place_of(call.line)} returned {aval_of(a)}, "
            f"but result_shape_dtypes promises {aval}"
        )
    return a


def _refuse(pattern: Pattern) -> VJP:
    """Return a step back that says there is none; it is taken only where a cotangent arrives."""

    def step(_: Any, params: dict[str, Any]) -> NoReturn:
        call = params["call"]
        raise TypeError(
            f"pure_callback of {call} at {place_of(call.line)} has no derivative: fgrad does not know what "
            "it computes. Give the function around it a rule with fgrad.custom_vjp (or custom_jvp), or cut "
            "the gradient with fgrad.stop_gradient"
        )

    return VJP(step, params=True)


def _map_call(
    mapped: tuple[bool, ...],
    *values: Any,
    call: _Call,
    avals: tuple[Aval, ...],
    structure: Any,
    method: str | None,
    acts: bool,
) -> tuple[Any, ...]:
    size = batch_size(mapped, values)
    options: dict[str, Any] = {"call": call, "structure": structure, "method": method, "acts": acts}
    if method is None:
        raise NotImplementedError(
            f"pure_callback of {call} at {place_of(call.line)} is mapped by vmap, but does not say how: give "
            'vmap_method="sequential" (one call for each example), "broadcast_all" or "expand_dims" (one '
            "call for all of them, along a new first axis)"
        )
    if method == "sequential" and size:
        found: tuple[Any, ...] = one_by_one(CALL, mapped, values, {"avals": avals, **options}, size)
        return found
    whole = tuple(Aval((size, *a.shape), a.dtype) for a in avals)
    if not size:
        return tuple(np.zeros(a.shape, a.dtype) for a in whole)
    n = size if method == "broadcast_all" else 1
    wide = [v if m else broadcast_to(v, (n, *v.shape)) for v, m in zip(values, mapped, strict=True)]
    return tuple(bind("pure_callback", *wide, avals=whole, **options))


_REASONS: dict[str, Any] = {
    "stored": "what it calls is Python, and Python is not stored",
    "interpreted": "it calls a function of Python",
}
CALL = declare(
    "pure_callback",
    run=_run,
    effect=lambda params: bool(params["acts"]),
    vjp=_refuse,
    shape=lambda *_, avals, **__: avals,
    batch=_map_call,
    many=True,
    traits={NOT_FOLDED},
    **_REASONS,
)

# ---- callbacks that look ------------------------------------------------------------------------------


def look(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call `fun` with the values of `args` and `kwargs`: now, for each example, or when a program runs."""
    call = _Call(fun, args, kwargs)
    _look(call, call.values())


def _look(call: _Call, values: Sequence[Any]) -> tuple[()]:
    traces = current().traces
    if any(t.muted for t in traces):
        return ()
    if any(node_on(t, v) for t in linear_tapes() for v in values):
        return ()  # a cotangent that stands for any: there is nothing to see
    seen = [
        wrap(v._value) if v.__class__ is Tensor and isinstance(v._value, Tracer) else _value(v)
        for v in values
    ]
    stages = [t for t in traces if isinstance(t, Stage)]
    if stages and not any(v.__class__ is Tensor for v in seen):
        stages[-1].process(EFFECT, tuple(seen), {"call": call})
    else:
        bind("effect", *seen, call=call)
    return ()


def _value(v: Any) -> Any:
    return v._value if v.__class__ is Tensor else v


def _look_at_each(mapped: tuple[bool, ...], *values: Any, call: _Call) -> tuple[()]:
    size = batch_size(mapped, values)
    for i in range(size):
        _look(call, example(mapped, values, i))
    return ()


def _call_with(*values: Any, call: _Call) -> tuple[()]:
    call(*values)
    return ()


EFFECT = declare(
    "effect",
    run=_call_with,
    effect=lambda _: True,
    vjp=flat,
    shape=lambda *_, call: (),
    batch=_look_at_each,
    many=True,
    apply=lambda *values, call: _look(call, values),
    traits={NOT_FOLDED},
    **_REASONS,
)
