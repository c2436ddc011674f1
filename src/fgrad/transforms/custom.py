"""Custom rules: Function, custom_vjp and custom_jvp are one primitive with the user's rule.

The forward code of a rule runs below the innermost tape that follows an argument, so that what it saves is
known to the tapes around that one. Its outputs are then taken off every tape and get the user's rule on each.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from copy import copy
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import adopted, as_array, is_foreign
from fgrad.compat.numpy import restore, setting
from fgrad.core.aval import Aval, aval_of
from fgrad.core.dispatch import following, lowered, node_on
from fgrad.core.placement import near, with_zeros
from fgrad.core.primitive import (
    NOT_FOLDED,
    VJP,
    batch_size,
    declare,
    flat,
)
from fgrad.core.snapshot import is_private
from fgrad.core.tape import HIDDEN, Pick
from fgrad.core.tensor import Tensor, is_traced, wrap
from fgrad.core.trace import Trace, Tracer, current, next_level, running
from fgrad.errors import EscapedTensorError
from fgrad.ops.linear import sum_axes
from fgrad.transforms.batch import Batch
from fgrad.transforms.calling import Transformed, existing, integers, name_of, own, own_leaf, plain
from fgrad.transforms.operations import pulled

if TYPE_CHECKING:
    from typing_extensions import Self

P = ParamSpec("P")
R = TypeVar("R")


class Rule:
    """One application of a custom rule to flat lists of values."""

    name: str
    hidden = False  # whether no tape may see what forward does
    is_open = (
        False  # whether recordings of linear functions see what primal does, and do not ask for the rule
    )
    is_closed = False  # whether it gives no derivative of what its functions read from outside
    above: tuple[Any, ...] = ()  # the tapes that see nothing of it while it is staged
    origin: weakref.ref[Batch] | None = None  # the trace whose examples a batched rule is applied to
    around: Batch | None = None  # that trace while it applies the rule, if nothing is differentiated
    followed: tuple[bool, ...] | None = (
        None  # which arguments tapes follow, once `forward` runs; None: not known
    )
    in_arrays = False  # whether forward and backward take arrays for what no trace concerns, and not Tensors
    wanted: tuple[bool, ...] | None = None  # which cotangents `backward` is asked for; None: not known

    def primal(self, *values: Any) -> list[Any]:
        """Return the outputs, where nothing is differentiated."""
        return self.forward(*values)

    def forward(self, *values: Any) -> list[Any]:
        """Return the outputs, and remember what `backward` needs."""
        raise NotImplementedError

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return one cotangent per argument (None: no gradient) from one per output (None: unused)."""
        raise NotImplementedError

    def forward_rule(self) -> Callable[..., Sequence[Any]] | None:
        """Return what forward mode asks in the place of the transpose of `backward`: `push` of a VJP."""
        return None

    def clone(self) -> Self:
        """Return a rule that can run forward beside this one."""
        return copy(self)


def apply_rule(rule: Rule, args: Sequence[Any]) -> list[Tensor]:
    """Return the outputs of `rule`, with its backward on every tape that follows an argument."""
    state = current()
    trace: Any = None  # the innermost one that an argument is a tracer of
    for a in args:
        if a.__class__ is Tensor and isinstance(a._value, Tracer):
            if a._value.trace not in state.traces:
                a._value.escaped()
            if trace is None or a._value.trace.level > trace.level:
                trace = a._value.trace
    floor = -1 if trace is None else trace.level
    tapes = following(args, state.traces, floor)
    if rule.is_open and tapes and all(t.linear_only for t in tapes):
        return [_as_tensor(o) for o in rule.primal(*map(_as_tensor, args))]
    outs: list[Tensor] | None = None
    under = state.traces
    top = 0
    if tapes:
        args = [a if a.__class__ is Tensor else _kept(a) for a in args]
        top = tapes[-1].level
        under = () if under[0] is tapes[-1] else tuple([t for t in under if t.level < top])
    # vmaps, and tapes that follow none of the arguments, never ask for the rule
    if trace is not None and not all(isinstance(t, Batch) or (t.is_tape and t.level > floor) for t in under):
        # traces under the innermost tape see the operation; forward shows them only what the rule keeps
        given = tuple(lowered(a, state, floor) for a in args)
        outs = _seen_below(rule.clone() if tapes else rule, trace, given, mute=bool(tapes))
        if not tapes:
            return outs
    if not tapes:
        inner = [own_leaf(_as_tensor(a)) for a in args]
        with _seen_by(state.traces, rule, rule.above):
            made = rule.primal(*inner)
        return [_free(o) if rule.hidden else _as_tensor(o) for o in made]
    inner = [_lowered(a, under, handles=not rule.in_arrays) for a in args]
    links = []  # for each tape, the nodes by which it knows arguments, and which these are
    for tape in tapes:
        nodes = [node_on(tape, a) for a in args]
        links.append((tape, tuple(filter(None, nodes)), tuple(map(bool, nodes))))
    rule.followed = (
        links[0][2] if len(links) == 1 else tuple(map(any, zip(*[p for *_, p in links], strict=True)))
    )
    above = tuple([t for t in state.traces if t.is_tape and t.level >= top]) if rule.is_closed else ()
    made = _forward_under(under, top, rule, above, inner)
    if above:
        _demand_no_more(made, above, rule)
    if outs is None:
        others = [t for t in under if t not in tapes] if rule.is_closed else ()
        outs = [_free(o, others) for o in made]
    several = len(outs) != 1
    vjp_rule = _vjp_rule(rule, args, several=several)
    avals = [(o._value.shape, o._value.dtype) for o in outs]
    for tape, parents, pattern in links:
        aval = avals if several else avals[0]
        node = tape.node(vjp_rule, (pattern, rule), parents, aval=aval)
        for i, out in enumerate(outs):
            if avals[i][1].kind in "fc":
                out._nodes += (tape.node(Pick(i, len(outs)), (), (node,)) if several else node,)
    for i, o in enumerate(made):
        if o.__class__ is Tensor and o._nodes and any(n.vjp is HIDDEN for n in o._nodes):
            o._nodes = outs[i]._nodes  # forward may have kept it
    return outs


def _forward_under(
    under: Sequence[Trace], level: int, rule: Rule, suspended: tuple[Any, ...], inner: Sequence[Any]
) -> list[Any]:
    """Return the outputs of `rule`, of which the traces `under` a level alone see how they are computed."""
    if suspended or rule.hidden:
        with _seen_by(under, rule, suspended):
            return rule.forward(*inner)
    block = running.under(level)
    try:  # as a `with` statement, which costs a microsecond
        block.__enter__()
        made = rule.forward(*inner)
        block.leave()
    except BaseException:
        try:
            block.undo(None)
        except BaseException:  # an interrupt, before it had begun
            block.undo(None)
            raise
        raise
    return made


def _seen_below(rule: Rule, trace: Any, given: tuple[Any, ...], *, mute: bool) -> list[Tensor]:
    """Return the outputs of `rule` as an operation that `trace` and those under it see."""
    live = current().traces
    if isinstance(trace, Batch):
        rule.origin = trace.origin
        if not any(t.is_tape for t in live):  # one may follow what is in the closure
            rule.around = trace
    above = rule.above
    if rule.is_closed:
        rule.above += tuple([t for t in live if t.is_tape and t.level > trace.level])
    before, trace.muted = trace.muted, trace.muted or (trace.is_staged and mute)
    try:
        return [wrap(o) for o in trace.process(CUSTOM, given, {"rule": rule})]
    finally:
        trace.muted, rule.around, rule.above = before, None, above


def _demand_no_more(outs: Sequence[Any], tapes: Sequence[Any], rule: Rule) -> None:
    """Refuse outputs that come of values from outside which one of `tapes` follows: no rule is theirs."""
    if tapes and any(
        n.vjp is HIDDEN and n.tape in tapes for o in outs if o.__class__ is Tensor for n in o._nodes
    ):
        raise TypeError(
            f"{rule.name} reads a Tensor that is being differentiated from outside, of which its rule gives "
            "no derivative: pass it as an argument, or read fgrad.stop_gradient of it"
        )


def _seen_by(traces: Sequence[Trace], rule: Rule, suspended: tuple[Any, ...]) -> AbstractContextManager[None]:
    """Return the context of a rule's forward, from whose operations a hidden rule keeps every tape."""
    if not rule.hidden:
        return running(traces, suspended)
    return running([t for t in traces if not t.is_tape], tuple(t for t in traces if t.is_tape))


def _kept(x: Any) -> Any:
    """Return a value as a tape keeps it: of an array that the user may write to, a copy."""
    return x.copy("K") if isinstance(x, np.ndarray) and not is_private(x) else x


def _lowered(x: Any, under: Sequence[Trace], *, handles: bool) -> Any:
    """Return an argument as it looks where only the traces `under` are live.

    What one of them concerns is a handle of its own; so is all else if `handles`.
    """
    if x.__class__ is Tensor:
        nodes = tuple([n for n in x._nodes if n.tape in under]) if under else ()
        x = x._value
        if nodes or isinstance(x, Tracer):
            return wrap(x, nodes)
        return wrap(as_array(x)) if handles else x
    return wrap(as_array(x)) if handles else as_array(x)


def _as_tensor(x: Any) -> Tensor:
    return x if x.__class__ is Tensor else wrap(as_array(x))


def _free(x: Any, others: Sequence[Any] = ()) -> Tensor:
    """Return a new handle on the value of an output, on no tape but `others`, which follow no argument."""
    if x.__class__ is Tensor:
        out = wrap(x._value)
        out._nodes = tuple([n for n in x._nodes if n.tape in others]) if others else ()
        return out
    if x.__class__ is DeviceArray or (isinstance(x, np.generic) and x.dtype.kind in "fciub"):
        return wrap(x)
    return Tensor(x)


def _vjp_rule(rule: Rule, args: Sequence[Any], *, several: bool) -> VJP:
    """Return the vjp rule of one application, which takes a list of cotangents if outputs are `several`.

    It knows nothing of what `rule` keeps: that is saved by the node, which lets go of it once it is spent.
    """
    avals = [aval_of(a._value if a.__class__ is Tensor else a) for a in args]
    errors = setting()

    def call(ct: Any, pattern: tuple[bool, ...], rule: Rule) -> list[Any]:
        given = ct if several else (ct,)
        if not rule.in_arrays:
            given = [None if c is None else _as_tensor(c) for c in given]
        rule.wanted = pattern
        before = setting()
        try:
            restore(errors)
            results = rule.backward(*given)
        except EscapedTensorError as error:
            raise EscapedTensorError(
                f"{error} The backward rule of {rule.name} reads it from outside: pass it to the function as "
                "an argument, or let the forward rule return it with what the backward rule gets"
            ) from error
        finally:
            restore(before)
        if len(results) != len(avals):
            raise ValueError(
                f"the backward rule of {rule.name} returned {len(results)} cotangents, but there are "
                f"{len(avals)} arguments; return one for each, None where there is no gradient"
            )
        back = []
        for i, tracked in enumerate(pattern):
            c = _checked(results[i], avals[i], i, rule.name)
            if tracked:
                back.append(c)
        return back

    vjp_rule = VJP(call)
    vjp_rule.title = rule.name
    if rule.forward_rule() is not None:
        vjp_rule.push = _push_each if several else _push_one
    return vjp_rule


def _push_each(tangents: Any, pattern: tuple[bool, ...], rule: Any) -> Any:
    return rule.forward_rule()(tangents, pattern)


def _push_one(tangents: Any, pattern: tuple[bool, ...], rule: Any) -> Any:
    return rule.forward_rule()(tangents, pattern)[0]


_ARRAYS = (Tensor, np.ndarray, np.generic)


def _checked(result: Any, aval: Aval, i: int, name: str) -> Any:
    """Return a cotangent that a user's rule returned for argument `i`, plain where nothing traces it."""
    if result is None or aval.dtype.kind not in "fc":
        return None
    if isinstance(result, _ARRAYS) and result.dtype == aval.dtype and result.shape == aval.shape:
        return plain(result)
    if isinstance(result, float | int | complex) and not isinstance(result, bool):
        result = np.asarray(result, aval.dtype)
    if not isinstance(result, _ARRAYS) and is_foreign(result):
        result = adopted(result)
    if not isinstance(result, (*_ARRAYS, DeviceArray)):
        raise TypeError(
            f"the backward rule of {name} returned {type(result).__name__} for argument {i}; "
            "return a Tensor or array, or None where there is no gradient"
        )
    if result.shape != aval.shape:
        raise ValueError(
            f"the backward rule of {name} returned shape {result.shape} for argument {i}, "
            f"which has shape {aval.shape}"
        )
    if not np.can_cast(result.dtype, aval.dtype, "equiv"):
        raise TypeError(
            f"the backward rule of {name} returned dtype {result.dtype} for argument {i}, "
            f"which has dtype {aval.dtype}"
        )
    return plain(result)


class BatchedRule(Rule):
    """A rule applied to every example: its code runs once, under a batch trace of its own."""

    def __init__(self, rule: Rule, mapped: tuple[bool, ...], size: int) -> None:
        self.rule: Rule = rule
        self.mapped: tuple[bool, ...] = mapped
        self.size: int = size
        self.name: str = rule.name
        self.is_closed, self.above = rule.is_closed, rule.above
        self.trace: Batch | None = None

    def clone(self) -> Self:
        """Return a rule that can run forward beside this one."""
        twin = super().clone()
        twin.rule = self.rule.clone()
        return twin

    def primal(self, *values: Any) -> list[Any]:
        """Return the outputs of all examples, whose function may use mapped values of its closure."""
        return self._mapped(self.rule.primal, values, self.rule.around)

    def forward(self, *values: Any) -> list[Any]:
        """Return the outputs of all examples."""
        return self._mapped(self.rule.forward, values)

    def _mapped(
        self, run: Callable[..., list[Any]], values: Sequence[Any], around: Batch | None = None
    ) -> list[Any]:
        trace = self.trace = around or Batch(next_level(), self.size)
        origin = self.rule.origin and self.rule.origin()
        if origin and not around:  # the vmap that a truth value splits if it differs
            trace.origin, trace.name = origin.origin, origin.name
            trace.part, trace.full_size = origin.part, origin.full_size
        self.rule.followed = self.followed
        with running((*current().traces, trace), current().suspended):
            outs = run(*(trace.tracer(v) if m else v for v, m in zip(values, self.mapped, strict=True)))
        if self.is_closed:
            _demand_no_more(outs, current().suspended, self)
        return [_as_tensor(trace.unbox(o)) for o in outs]

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the cotangents of all examples, summed for arguments that all examples share."""
        trace = self.trace
        assert trace is not None  # noqa: S101 -- forward ran
        trace.level = next_level()
        self.rule.wanted = self.wanted
        with running((*current().traces, trace)):
            results = self.rule.backward(*(None if ct is None else trace.tracer(ct) for ct in cts))
        whole = [None if r is None else trace.unbox(r) for r in results]
        return [r if m or r is None else sum_axes(r, (0,)) for r, m in zip(whole, self.mapped, strict=True)]


def _batch(mapped: tuple[bool, ...], *values: Any, rule: Rule) -> tuple[Any, ...]:
    size = batch_size(mapped, values)
    return tuple(apply_rule(BatchedRule(rule, mapped, size), values))


def _inline(*values: Any, rule: Rule) -> list[Any]:
    with running(current().traces, rule.above):
        outs = rule.primal(*values)
    _demand_no_more(outs, rule.above, rule)
    return outs


CUSTOM = declare(
    "custom",
    run=lambda *values, rule: tuple(_as_tensor(o)._value for o in rule.primal(*map(_as_tensor, values))),
    vjp=flat,
    batch=_batch,
    many=True,
    inline=_inline,
    stored="a derivative of your own is Python, and Python is not stored",
    apply=lambda *values, rule: apply_rule(rule.clone(), values),
    traits={NOT_FOLDED},
)


class Function:
    """An operation with a gradient rule of the user's own.

    Subclass it, define `forward(self, *tensors)` and `backward(self, *cotangents)`, and call an instance.
    What `forward` does is hidden from every manager; `backward` gets one cotangent per output (None for an
    output that was not used) and returns one per argument (None: no gradient). Keep what `backward` needs on
    `self`, and constants of the operation, which `__init__` may take. Operations inside `backward` are
    recorded by outer managers, so higher orders work.

    Returns:
        An instance, which is called with arrays, Tensors and numbers, and returns what `forward` does.

    Raises:
        ValueError: `backward` returns another number of cotangents than there are arguments, or one of
            another shape.

    Derivative:
        In reverse mode, and forward mode by its transpose, that of `backward`, which is linear in the
        cotangents.

    Example:
        >>> import fgrad
        >>> class Cube(fgrad.Function):
        ...     def forward(self, x):
        ...         self.x = x
        ...         return x * x * x
        ...     def backward(self, ct):
        ...         return 3.0 * self.x * self.x * ct
        >>> fgrad.grad(Cube())(2.0)
        np.float64(12.0)
    """

    _kept: frozenset[str] = frozenset()  # the attributes that `forward` has set

    def forward(self, *tensors: Tensor) -> Any:
        """Return the output, a Tensor or a tuple of Tensors."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(self, *tensors)")

    def backward(self, *cotangents: Tensor | None) -> Any:
        """Return the cotangent of the argument, or a tuple with one per argument."""
        raise NotImplementedError(f"{type(self).__name__} must define backward(self, *cotangents)")

    def __call__(self, *tensors: Any) -> Any:
        """Return `forward(*tensors)`, differentiable by `backward`."""
        rule = _FunctionRule(self)
        if current().has_tracers:  # what it keeps on itself means nothing outside
            rule = rule.clone()
        outs = apply_rule(rule, [t if isinstance(t, Tensor) else Tensor(t) for t in tensors])
        return tuple(outs) if rule.several else outs[0]


class _FunctionRule(Rule):
    hidden = True

    def __init__(self, function: Function) -> None:
        self.function, self.name, self.several = function, type(function).__name__, False
        self.state: dict[str, Any] = {}  # of the instance after `forward`

    def clone(self) -> Self:
        """Return a rule on a copy of the instance, whose state is then its own."""
        twin = super().clone()
        twin.function = object.__new__(type(self.function))
        twin.function.__dict__.update(self.function.__dict__)
        return twin

    def forward(self, *values: Any) -> list[Any]:
        state = self.function.__dict__
        before = state.copy()
        out = self.function.forward(*values)
        new = {name for name, x in state.items() if name not in before or before[name] is not x}
        self.function._kept = self.function._kept | (new - {"_kept"})
        self.state = state.copy()
        self.several = isinstance(out, tuple | list)
        outs = list(out) if self.several else [out]
        for o in outs:
            if not isinstance(o, Tensor | np.ndarray | np.generic | float | int | complex):
                raise TypeError(f"{self.name}.forward must return Tensors, not {type(o).__name__}")
        return outs

    def backward(self, *cts: Any) -> Sequence[Any]:
        function = self.function
        for name in function._kept & self.state.keys():  # another call of the instance may have changed them
            function.__dict__[name] = self.state[name]
        result = function.backward(*cts)
        return result if isinstance(result, tuple | list) else (result,)


class _TreeRule(Rule):
    """A rule on pytrees: `operation` with the static arguments of one call."""

    is_closed = True

    def __init__(
        self, operation: Custom[..., Any], args: Sequence[Any], place: list[int], structures: list[Any]
    ) -> None:
        self.operation: Custom[..., Any] = operation
        self.place: list[int] = place
        self.structures: list[Any] = structures
        self.args: list[Any | None] = [None if i in place else a for i, a in enumerate(args)]
        self.name: str = name_of(operation.fun)
        self.out_structure: Any = None

    def filled(self, values: Sequence[Any]) -> list[Any]:
        """Return the arguments of the call with `values` as leaves of the differentiable ones."""
        args, it = list(self.args), iter(values)
        for i, structure in zip(self.place, self.structures, strict=True):
            args[i] = tree.unflatten(structure, [next(it) for _ in range(structure.num_leaves)])
        return args

    def static(self) -> list[Any]:
        """Return the arguments that are not differentiable."""
        return [a for i, a in enumerate(self.args) if i not in self.place]

    def flat(self, out: Any) -> list[Any]:
        """Return the leaves of an output, remembering its structure."""
        leaves, self.out_structure = tree.flatten(out)
        return leaves

    def primal(self, *values: Any) -> list[Any]:
        return self.flat(self.operation.fun(*self.filled(values)))

    def ct_tree(self, cts: Sequence[Any], avals: Sequence[Aval]) -> Any:
        """Return the cotangents in the structure of the output, zeros where none came."""
        return tree.unflatten(self.out_structure, map(_as_tensor, with_zeros(cts, avals)))


class _VjpRule(_TreeRule):
    avals: list[Aval]
    residuals: Any

    def forward(self, *values: Any) -> list[Any]:
        result = self.operation.rule("fwd")(*self.filled(values))
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"the fwd rule of {self.name} must return a pair (out, residuals)")
        out, residuals = result
        self.residuals = own(residuals)  # what the user writes to meanwhile is another handle
        outs = self.flat(out)
        self.avals = [aval_of(o) for o in outs]
        return outs

    def backward(self, *cts: Any) -> Sequence[Any]:
        ct = self.ct_tree(cts, self.avals)
        results = self.operation.rule("bwd")(*self.static(), own(self.residuals), ct)
        if not isinstance(results, tuple | list) or len(results) != len(self.place):
            raise TypeError(
                f"the bwd rule of {self.name} must return a tuple with one cotangent for each of its "
                f"{len(self.place)} differentiable arguments (None: no gradient), not {_described(results)}"
            )
        flat: list[Any] = []
        for i, (r, structure) in enumerate(zip(results, self.structures, strict=True)):
            if r is None:
                flat += [None] * structure.num_leaves
                continue
            leaves, given = tree.flatten(r)
            if given != structure:
                raise TypeError(
                    f"the bwd rule of {self.name} returned the structure {given} for argument {i}, "
                    f"which has the structure {structure}"
                )
            flat += leaves
        return flat


def _described(results: Any) -> str:
    return f"{len(results)}" if isinstance(results, tuple | list) else type(results).__name__


class _JvpRule(_TreeRule):
    is_open = True  # rules may apply the function to tangents, if it is linear
    values: tuple[Any, ...]

    def forward(self, *values: Any) -> list[Any]:
        self.values = values
        return self.primal(*values)

    def backward(self, *cts: Any) -> Sequence[Any]:
        floating = [i for i, v in enumerate(self.values) if v.dtype.kind in "fc"]

        def tangents_out(ts: Sequence[Any]) -> list[Any]:
            full = [near(v).zeros(v.shape) for v in self.values]
            for i, t in zip(floating, ts, strict=True):
                full[i] = t
            filled = self.filled(full)
            primals = self.filled(list(map(own_leaf, self.values)))
            result = self.operation.rule("jvp")(
                *self.static(),
                tuple(primals[i] for i in self.place),
                tuple(filled[i] for i in self.place),
            )
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(f"the jvp rule of {self.name} must return a pair (out, tangent_out)")
            leaves, given = tree.flatten(result[1])
            if given != self.out_structure:
                raise TypeError(
                    f"the jvp rule of {self.name} returned a tangent of structure {given}, "
                    f"but the output has the structure {self.out_structure}"
                )
            return leaves

        floats = [self.values[i] for i in floating]
        pull = pulled(tangents_out, floats, self.name)
        found = pull(cts)
        back: list[Any] = [None] * len(self.values)
        for i, c in zip(floating, found, strict=True):
            back[i] = c
        return back


class Custom(Transformed, Generic[P, R]):
    """A function with a rule of the user's own."""

    if TYPE_CHECKING:  # what `Transformed` does, with the types of the function

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Call the function."""

    made: type[_TreeRule]
    how: str  # to define the rules, of which the one called `needed` is asked for first
    needed: str

    def __init__(self, fun: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(fun)
        self.nondiff: tuple[int, ...] = existing(
            integers(nondiff_argnums, "nondiff_argnums"), "nondiff_argnums", fun
        )
        self.rules: dict[str, Callable[..., Any]] = {}
        self.signature: inspect.Signature | None = None  # a ufunc's has keywords that are no arguments
        if not hasattr(fun, "nin"):
            with suppress(TypeError, ValueError):
                self.signature = inspect.signature(fun)

    def again(self, other: Callable[[Any], Any]) -> Any:
        """Return the same function and rules, with `other` of each."""
        made = type(self)(other(self.fun), self.nondiff)
        made.rules = {name: other(rule) for name, rule in self.rules.items()}
        same = made.fun is self.fun and all(made.rules[name] is rule for name, rule in self.rules.items())
        return self if same else made

    def rule(self, name: str) -> Callable[..., Any]:
        """Return one of the rules."""
        try:
            return self.rules[name]
        except KeyError:
            raise TypeError(f"{name_of(self.fun)} has no rule yet; define it with {self.how}") from None

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Return `fun(*args)`, differentiable by the rule."""
        if self.signature is not None:
            given = self.signature.bind(*args, **kwargs)
            given.apply_defaults()
            args, kwargs = given.args, given.kwargs
        if kwargs:
            raise TypeError(
                f"{name_of(self.fun)} has a custom rule, so it takes no keyword-only arguments: "
                f"{sorted(kwargs)}"
            )
        nondiff = {i % len(args) for i in self.nondiff if -len(args) <= i < len(args)}
        place = [i for i in range(len(args)) if i not in nondiff]
        flat, structures = [], []
        for i in place:
            leaves, structure = tree.flatten(args[i])
            flat += leaves
            structures.append(structure)
        if not any(x.__class__ is Tensor and is_traced(x) for x in flat):
            return self.fun(*[a if i in nondiff else own(a) for i, a in enumerate(args)])
        self.rule(self.needed)
        rule = self.made(self, args, place, structures)
        outs = apply_rule(rule, flat)
        return tree.unflatten(rule.out_structure, outs)


class CustomVjp(Custom[P, R]):
    """A function with a reverse rule."""

    made: type[_TreeRule] = _VjpRule
    how: str = "f.defvjp(fwd, bwd)"
    needed: str = "fwd"

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> CustomVjp[P, R]:
        """Define the rule.

        Args:
            fwd: takes the arguments and returns `(out, residuals)`.
            bwd: takes the non-differentiable arguments, the residuals and the cotangent of `out`, and
                returns a tuple with one cotangent per differentiable argument (None: no gradient).
        """
        self.rules: dict[str, Callable[..., Any]] = {"fwd": fwd, "bwd": bwd}
        return self


class CustomJvp(Custom[P, R]):
    """A function with a forward rule, which is transposed for reverse mode."""

    made: type[_TreeRule] = _JvpRule
    how: str = "f.defjvp(jvp) or f.defjvps(...)"
    needed: str = "jvp"

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Define the rule: `jvp(primals, tangents) -> (out, tangent_out)`, linear in the tangents."""
        self.rules: dict[str, Callable[..., Any]] = {"jvp": jvp}
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Define the rule by one `jvp(tangent, out, *primals)` per argument; None: no gradient."""

        def jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            out = self(*primals)  # type: ignore[call-arg]
            pairs = zip(jvps, tangents, strict=True)
            terms = [rule(t, out, *primals) for rule, t in pairs if rule is not None]
            if not terms:
                return out, tree.map(lambda y: near(y).zeros(y.shape, y.dtype), out)
            return out, reduce(partial(tree.map, add), terms)

        self.defjvp(jvp)


def custom_vjp(fun: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> CustomVjp[P, R]:
    """Return `fun` with a reverse rule, to be defined by `.defvjp(fwd, bwd)`.

    Args:
        fun: takes and returns pytrees.
        nondiff_argnums: positional arguments that are not differentiable and need not be arrays.

    Returns:
        A function like `fun`; without a rule, it cannot be differentiated.

    Raises:
        TypeError: when differentiated, no rule is defined, or `bwd` returns no tuple with a cotangent for
            each argument, or `fwd` reads a Tensor that is being differentiated too and is no argument.
        ValueError: a cotangent has another shape than its argument.

    Derivative:
        What `bwd(residuals, ct)` returns, a tuple with one cotangent per differentiable argument, where `fwd`
        returned `(out, residuals)`. Forward mode transposes it. A derivative of `bwd` gives higher orders.

    Example:
        >>> import fgrad
        >>> @fgrad.custom_vjp
        ... def clipped(x):
        ...     return x
        >>> clipped.defvjp(lambda x: (x, None), lambda _, ct: (np.clip(ct, -1, 1),))
        <CustomVjp of <function clipped at ...>>
        >>> fgrad.grad(lambda x: 5.0 * clipped(x))(2.0)
        np.float64(1.0)
    """
    return CustomVjp(fun, nondiff_argnums)


def custom_jvp(fun: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> CustomJvp[P, R]:
    """Return `fun` with a forward rule, to be defined by `.defjvp(jvp)` or `.defjvps(...)`.

    The rule is linear in the tangents; its transpose is the reverse rule, so one rule serves both modes.

    Args:
        fun: takes and returns pytrees.
        nondiff_argnums: positional arguments that are not differentiable and need not be arrays.

    Returns:
        A function like `fun`; without a rule, it cannot be differentiated.

    Raises:
        TypeError: when differentiated, no rule is defined, or the rule returns a tangent of another
            structure, or one that is not linear in those of the arguments, or `fun` reads a Tensor that is
            being differentiated too and is no argument.

    Derivative:
        What `jvp(primals, tangents) -> (out, tangent)` returns, or the sum of what `defjvps(...)` says for
        each argument, `jvp(tangent, out, *primals)`.

    Example:
        >>> import fgrad
        >>> @fgrad.custom_jvp
        ... def twice(x):
        ...     return 2.0 * x
        >>> twice.defjvps(lambda t, out, x: 2.0 * t)
        >>> fgrad.grad(twice)(1.0)
        np.float64(2.0)
    """
    return CustomJvp(fun, nondiff_argnums)
