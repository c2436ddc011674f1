"""`bind` applies a primitive: the innermost tracer computes, then every tape above it records.

`_general` is the obvious definition. `apply_unary`, `apply_binary`, `apply_linear` and `apply_primitive` are
the same for their kinds of primitives while at most one tape is live, which is nearly always; in every other
case they call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import get_ident
from typing import Any
from weakref import ref

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import adopted, is_foreign
from fgrad.core.aval import Aval, aval_of
from fgrad.core.placement import near
from fgrad.core.primitive import (
    FEW,
    FUNCTIONS,
    KEEP_OUT,
    KEEP_X,
    KEEP_XY,
    KEEP_Y,
    OUT,
    PRIMITIVES,
    ROWS,
    Primitive,
)
from fgrad.core.snapshot import refuse_objects, refuse_subclass, snapshot
from fgrad.core.tape import HIDDEN, Node, ParentAval, Pick, Tape
from fgrad.core.tensor import Tensor, alias, wrap
from fgrad.core.trace import NOTHING, State, Trace, Tracer, current, inherited_state
from fgrad.errors import NotLinearError

_FLOAT64 = np.dtype(np.float64)
_ndarray = np.ndarray
_new = object.__new__  # as `wrap` does once there is a Tensor, and here one is an operand


def unary(name: str, x: Any) -> Any:
    """Apply the element-wise primitive called `name` to one operand."""
    return apply_unary(PRIMITIVES[name], x)


def binary(name: str, x: Any, y: Any) -> Any:
    """Apply the element-wise primitive called `name` to two operands; NotImplemented where one is foreign."""
    return apply_binary(PRIMITIVES[name], x, y)


def apply_unary(primitive: Primitive, x: Any) -> Any:
    """Apply an element-wise primitive to one operand."""
    if x.__class__ is not Tensor:
        return bind(primitive.name, x)
    nodes = x._nodes
    v = x._value
    if not nodes:
        if v.__class__ is not _ndarray and isinstance(v, Tracer):
            return _under_one_trace(primitive, (x,), {})
        t: Tensor = _new(Tensor)
        t._value = primitive.run(v) if primitive.large is None or v.size < FEW else primitive.large(v)
        t._nodes = ()
        t._base = t._viewers = None
        return t
    s = inherited_state()
    vjp = primitive.single
    tape: Any = s.sole
    if (
        vjp is None
        or len(nodes) != 1
        or nodes[0].tape is not tape
        or s.thread != get_ident()
        or (s.foreign is not None and s.foreign())
    ):
        return bind(primitive.name, x)
    if primitive.real and v.dtype.kind == "c":
        return bind(primitive.name, x)
    out = primitive.run(v) if primitive.large is None or v.size < FEW else primitive.large(v)
    n = Node()
    n.tape = tape
    n.vjp = vjp
    keep = vjp.keep
    n.saved = (out,) if keep is KEEP_OUT else (v,) if keep is KEEP_X else (out, v) if keep else ()
    n.parents = nodes
    n.parent_avals = n.ct = n.aval = None
    if out.dtype is not v.dtype:  # complex of real numbers, whose cotangent is real, or the other way round
        n.parent_avals = None if vjp.exact else _parent_avals((v,), vjp.pattern, out, shaped=vjp.shaped)
        n.aval = (out.shape, out.dtype)
    refs = tape.refs
    refs.append(ref(n))
    if len(refs) > tape.limit:
        tape.compact()
    t = _new(Tensor)
    t._value = out
    t._nodes = (n,)
    t._base = t._viewers = None
    return t


def apply_binary(primitive: Primitive, x: Any, y: Any) -> Any:  # noqa: PLR0915 -- every statement costs, calls cost more
    """Apply an element-wise primitive to two operands; NotImplemented where one is foreign."""
    nx: tuple[Node, ...] = ()
    ny: tuple[Node, ...] = ()
    vx, vy = x, y
    if x.__class__ is Tensor:
        vx, nx = x._value, x._nodes
    elif x.__class__ not in OPERANDS:
        if isinstance(x, np.ndarray | np.generic):
            refuse_subclass(x)
        elif is_foreign(x):
            x = vx = adopted(x)
        elif isinstance(x, list | tuple):
            return apply_binary(primitive, FUNCTIONS["next_to"](x, y), y)
        else:
            return NotImplemented
    if y.__class__ is Tensor:
        vy, ny = y._value, y._nodes
    elif y.__class__ not in OPERANDS:
        if isinstance(y, np.ndarray | np.generic):
            refuse_subclass(y)
        elif is_foreign(y):
            y = vy = adopted(y)
        elif isinstance(y, list | tuple):
            return apply_binary(primitive, x, FUNCTIONS["next_to"](y, x))
        else:
            return NotImplemented
    s = inherited_state()
    tape = s.sole
    if nx:
        if len(nx) != 1 or nx[0].tape is not tape:
            return bind(primitive.name, x, y)
        if ny:
            if len(ny) != 1 or ny[0].tape is not tape:
                return bind(primitive.name, x, y)
            vjp = primitive.pairs[2]
        else:
            vjp = primitive.pairs[1]
    elif ny:
        if len(ny) != 1 or ny[0].tape is not tape:
            return bind(primitive.name, x, y)
        vjp = primitive.pairs[0]
    elif s.has_tracers or (vx is x and vy is y):
        return bind(primitive.name, x, y)
    else:
        t: Tensor = _new(Tensor)
        t._value = (primitive.large or primitive.run)(vx, vy)
        t._nodes = ()
        t._base = t._viewers = None
        return t
    if vjp is None or s.thread != get_ident() or (s.foreign is not None and s.foreign()):
        return bind(primitive.name, x, y)
    parent_avals = aval = None
    if (vy.__class__ is float or vy.__class__ is int) and vx.dtype is _FLOAT64:
        kept = _numbers.get(vy)
        vy = _number(vy) if kept is None else kept
        large = primitive.large
        out = primitive.run(vx, vy) if large is None or vx.size < FEW else large(vx, vy)
    elif (vx.__class__ is float or vx.__class__ is int) and vy.dtype is _FLOAT64:
        kept = _numbers.get(vx)
        vx = _number(vx) if kept is None else kept
        large = primitive.large
        out = primitive.run(vx, vy) if large is None or vy.size < FEW else large(vx, vy)
    else:
        large = primitive.large
        if large is None or (
            primitive.by_rows
            and (vx.__class__ is not vy.__class__ or vx.size * vy.size < ROWS or vx.shape == vy.shape)
        ):
            out = primitive.run(vx, vy)
        else:
            out = large(vx, vy)
        shape, dtype = out.shape, out.dtype
        if dtype is not _FLOAT64 and (dtype.kind not in "fc" or (primitive.real and dtype.kind == "c")):
            return bind(primitive.name, x, y)
        to_x = (vx.shape, vx.dtype) if nx and (vx.shape != shape or vx.dtype is not dtype) else None
        to_y = (vy.shape, vy.dtype) if ny and (vy.shape != shape or vy.dtype is not dtype) else None
        if to_x or to_y:
            parent_avals = (to_x, to_y) if nx and ny else (to_x or to_y,)
            aval = (shape, dtype)
        keep = vjp.keep
        if vx is x and 1 in keep:
            vx = snapshot(vx, dtype)
        if vy is y and 2 in keep:
            vy = snapshot(vy, dtype)
    keep = vjp.keep
    n = Node()
    n.tape = tape
    n.vjp = vjp
    n.saved = (
        ()
        if not keep
        else (vy,)
        if keep is KEEP_Y
        else (vx,)
        if keep is KEEP_X
        else (vx, vy)
        if keep is KEEP_XY
        else tuple([(out, vx, vy)[k] for k in keep])
    )
    n.parents = nx + ny
    n.parent_avals = parent_avals
    n.aval = aval
    n.ct = None
    refs = tape.refs
    refs.append(ref(n))
    if len(refs) > tape.limit:
        tape.compact()
    t = _new(Tensor)
    t._value = out
    t._nodes = (n,)
    t._base = t._viewers = None
    return t


# arrays of numbers lately met beside Tensors: never written to
_numbers: dict[float, np.ndarray[Any, Any]] = {}


def _number(x: float) -> np.ndarray[Any, Any]:
    """Return an array of a Python number, which NumPy handles faster than the number."""
    array = np.array(x, _FLOAT64)
    if x and not np.isnan(array):  # 0.0 and -0.0 are one key, NaN is none
        if len(_numbers) > 255:
            _numbers.clear()
        _numbers[x] = array
    return array


OPERANDS = frozenset({float, int, complex, bool, np.ndarray, np.float64, np.float32, DeviceArray})


def bind(name: str, /, *args: Any, **params: Any) -> Any:
    """Apply the primitive called `name`: arrays give arrays, and any Tensor among `args` makes Tensors."""
    primitive = PRIMITIVES[name]
    if primitive.linear is not None:
        return apply_linear(primitive, args[0], params)
    for a in args:
        if a.__class__ is Tensor:
            break
    else:
        return (primitive.large or primitive.run)(*args, **params)
    return apply_primitive(primitive, args, params)


def apply_linear(primitive: Primitive, x: Any, params: dict[str, Any], out: Any = None) -> Any:
    """Do what `apply_primitive` does for a linear primitive of one argument while at most one tape is live.

    Args:
        primitive: the primitive.
        x: its argument.
        params: its parameters.
        out: what it makes of the array in `x`, if that is known.
    """
    if x.__class__ is not Tensor:
        return primitive.run(x, **params)
    nodes = x._nodes
    v = x._value
    if not nodes and (v.__class__ is _ndarray or not isinstance(v, Tracer)):
        t: Tensor = _new(Tensor)
        t._value = primitive.run(v, **params) if out is None else out
        t._nodes = ()
        t._base = t._viewers = None
        return t
    s = inherited_state()
    tape: Any = s.sole
    if (
        len(nodes) != 1
        or nodes[0].tape is not tape
        or s.thread != get_ident()
        or (s.foreign is not None and s.foreign())
    ):
        apply = apply_primitive if s.base is None else _under_one_trace
        return apply(primitive, (x,), params)
    if out is None:
        out = primitive.run(v, **params)
    if out.dtype.kind not in "fc":
        return _untracked(out)
    t = _new(Tensor)
    t._value = out
    n = Node()
    n.tape = tape
    n.vjp = primitive.linear
    aval = _new(Aval)
    aval.shape, aval.dtype = v.shape, v.dtype
    n.saved = (aval, params)
    n.parents = nodes
    n.parent_avals = n.ct = n.aval = None
    refs = tape.refs
    refs.append(ref(n))
    if len(refs) > tape.limit:
        tape.compact()
    t._nodes = (n,)
    t._base = t._viewers = None
    return t


def apply_primitive(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Apply a primitive of which some argument is a Tensor: at once while at most one tape is live."""
    s = inherited_state()
    tape: Any = s.sole
    parents: tuple[Node, ...] = ()
    values = []
    key = 1  # one binary digit per argument, after a leading one: whether it is tracked
    for a in args:
        key += key
        if a.__class__ is Tensor:
            v = a._value
            nodes = a._nodes
            if nodes:
                if len(nodes) != 1 or nodes[0].tape is not tape or (primitive.real and v.dtype.kind == "c"):
                    return (_general if s.base is None else _under_one_trace)(primitive, args, params)
                parents += nodes
                key += 1
            elif v.__class__ is not _ndarray and isinstance(v, Tracer):
                return (_general if s.base is None else _under_one_trace)(primitive, args, params)
            values.append(v)
        else:
            values.append(a)
    if not parents:
        out = (primitive.large or primitive.run)(*values, **params)
        return tuple(map(wrap, out)) if primitive.many else wrap(out)
    vjp = primitive.plans.get(key)
    if vjp is None or tape.linear_only or s.thread != get_ident() or (s.foreign is not None and s.foreign()):
        return _general(primitive, args, params)
    out = (primitive.large or primitive.run)(*values, **params)
    dtype = out.dtype
    if dtype.kind not in "fc":
        return _untracked(out)
    saved = []
    for k in vjp.keep:
        if k == OUT:
            saved.append(out)
        else:
            v = values[k - 1]
            saved.append(snapshot(v, dtype) if v is args[k - 1] else v)
    for k in vjp.avals:
        saved.append(aval_of(values[k - 1] if k else out))  # noqa: PERF401 -- a list of its own costs more
    if vjp.params:
        saved.append(params)
    n = Node()
    n.tape = tape
    n.vjp = vjp
    n.saved = tuple(saved)
    n.parents = parents
    n.parent_avals = None if vjp.exact else _parent_avals(values, vjp.pattern, out, shaped=vjp.shaped)
    n.aval = (out.shape, dtype)
    n.ct = None
    refs = tape.refs
    refs.append(ref(n))
    if len(refs) > tape.limit:
        tape.compact()
    t: Tensor = _new(Tensor)
    t._value = out
    t._nodes = (n,)
    t._base = t._viewers = None
    return t


def _untracked(out: Any) -> Tensor:
    """Return a Tensor of integers or truth values, which no derivative reaches."""
    refuse_objects(out.dtype)
    return wrap(out)


def _general(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Apply a primitive under any traces."""
    tracked = has_tracers = False
    values = []
    for a in args:
        if a.__class__ is Tensor:
            if a._nodes:
                tracked = True
            a = a._value  # noqa: PLW2901 -- the value takes the place of its handle
            if isinstance(a, Tracer):
                has_tracers = True
        values.append(a)
    if primitive.unchecked and tracked and any(node_on(t, args[0]) for t in linear_tapes()):
        params = params | primitive.unchecked
    if has_tracers or (tracked and (primitive.real or not primitive.flat)):
        return _interpret(primitive, args, values, params, current(), has_tracers=has_tracers)
    if tracked:
        refuse_followed(primitive.name, args)
    out = (primitive.large or primitive.run)(*values, **params)
    return tuple(map(wrap, out)) if primitive.many else wrap(out)


def linear_tapes() -> list[Tape]:
    """Return the live tapes of linear functions, to which values are of no consequence."""
    return [t for t in current().traces if isinstance(t, Tape) and t.linear_only]


def refuse_followed(name: str, args: Iterable[Any]) -> None:
    """Refuse values that a linear recording follows: what they decide in `name` is lost there.

    Raises:
        NotLinearError: one does.
    """
    if any(node_on(tape, a) for a in args for tape in linear_tapes()):
        raise NotLinearError(name)


def _placeholder(primitive: Primitive, values: list[Any], params: dict[str, Any]) -> Any:
    """Return something of the shape and dtype of a result whose value is of no consequence."""
    if all(v.size < 4096 for v in values):  # computing costs less
        return primitive.run(*values, **params)
    aval = primitive.shape(*map(aval_of, values), **params)  # type: ignore[misc]
    return np.broadcast_to(near(values[0]).ones((), aval.dtype), aval.shape)


def _outputs(outs: tuple[Tensor, ...], *, many: bool) -> Any:
    """Return what a node says of its output, or of all of them."""
    avals = [(o._value.shape, o._value.dtype) for o in outs]
    return avals if many else avals[0]


def _to_outputs(node: Node, tape: Tape, primitive: Primitive, outs: tuple[Tensor, ...]) -> None:
    if not primitive.many:
        outs[0]._nodes += (node,)
        return
    for i, out in enumerate(outs):
        if out.dtype.kind in "fc":
            out._nodes += (tape.node(Pick(i, len(outs)), (), (node,)),)


def refuse_complex(primitive: Primitive) -> None:
    """Say that a primitive cannot be differentiated with respect to complex arguments."""
    raise TypeError(
        f"{primitive.name} has no complex derivative: it is not holomorphic, or its derivative is "
        "implemented for real arguments only. Differentiate a real function of the real and imaginary parts "
        "instead, or declare a derivative: fgrad.custom_vjp."
    )


def _interpret(
    primitive: Primitive,
    args: tuple[Any, ...],
    values: list[Any],
    params: dict[str, Any],
    state: State,
    *,
    has_tracers: bool,
) -> Any:
    floor = -1
    if has_tracers or (state.greedy is not None and _is_lower(args, state)):
        trace = _innermost(values, state)
        floor = trace.level
        out = trace.process(primitive, tuple([lowered(a, state, floor) for a in args]), params)
    elif primitive.costly and state.sole is not NOTHING and state.sole.linear_only:
        out = _placeholder(primitive, values, params)
    elif state.interceptor is not None:
        out = state.interceptor.run(primitive, args, values, params)
    else:
        out = (primitive.large or primitive.run)(*values, **params)
    # what is the same for all examples may come out of a trace without a tracer
    outs = tuple(
        [alias(o) if o.__class__ is Tensor else wrap(o) for o in (out if primitive.many else (out,))]
    )
    record(primitive, args, outs, params, state, floor)
    return outs if primitive.many else outs[0]


def _under_one_trace(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Do what `_general` does, in one pass where one trace has tracers and at most one tape is above it."""
    s = current()
    trace, tape = s.base, s.upper
    if trace is None or primitive.many or (tape is not None and tape.linear_only):
        return _general(primitive, args, params)
    parents: tuple[Node, ...] = ()
    values = []
    key = 1
    for a in args:
        key += key
        if a.__class__ is Tensor:
            nodes = a._nodes
            if nodes:
                if tape is None:
                    # else they are of recordings that ended
                    if any(n.tape in s.traces or (n.tape and n.tape.is_elsewhere()) for n in nodes):
                        return _general(primitive, args, params)
                elif len(nodes) != 1 or nodes[0].tape is not tape:
                    return _general(primitive, args, params)
                else:
                    parents += nodes
                    key += 1
            values.append(a._value)
        else:
            values.append(a)
    vjp = primitive.plans.get(key) if parents else None
    if parents and vjp is None:
        return _general(primitive, args, params)
    out = trace.process_alone(primitive, values, params)
    if out is NotImplemented:
        return _general(primitive, args, params)
    t = wrap(out)
    if vjp is None:
        return t
    dtype = out.dtype
    if dtype.kind != "f":
        if dtype.kind == "c":
            record(primitive, args, (t,), params, s, trace.level)
        return t
    saved: list[Any] = []
    for k in vjp.keep:
        v = values[k - 1] if k else out
        if isinstance(v, Tracer):
            saved.append(wrap(v))
        else:
            saved.append(snapshot(v, dtype) if v is args[k - 1] else v)
    if vjp.avals:
        saved += [aval_of(values[k - 1] if k else out) for k in vjp.avals]
    if vjp.params:
        saved.append(params)
    parent_avals = None if vjp.exact else _parent_avals(args, vjp.pattern, out, shaped=vjp.shaped)
    t._nodes = (tape.node(vjp, tuple(saved), parents, parent_avals, (out.shape, dtype)),)
    return t


def _innermost(values: list[Any], state: State) -> Trace:
    top: Trace | None = None
    traces = state.traces
    for v in values:
        if isinstance(v, Tracer):
            if v.trace is top:
                continue
            if v.trace not in traces:
                v.escaped()
            if top is None or v.trace.level > top.level:
                top = v.trace
    greedy: Trace | None = state.greedy
    if greedy is not None and (top is None or greedy.level > top.level):
        return greedy
    assert top is not None  # noqa: S101 -- called only where a tracer was seen, or a trace is greedy
    return top


def _is_lower(args: tuple[Any, ...], state: State) -> bool:
    """Return whether a tape below the greedy trace follows an argument."""
    level, traces = state.greedy.level, state.traces
    return any(
        n.tape in traces and n.tape.level < level for a in args if a.__class__ is Tensor for n in a._nodes
    )


def lowered(a: Any, state: State, level: int) -> Any:
    """Return `a` as it looks from under `level`: an array, or a Tensor with the nodes of lower tapes."""
    if a.__class__ is not Tensor:
        return a
    nodes = (
        tuple([n for n in a._nodes if n.tape in state.traces and n.tape.level < level]) if a._nodes else ()
    )
    if nodes or isinstance(a._value, Tracer):
        return wrap(a._value, nodes)
    return a._value


def record(
    primitive: Primitive,
    args: tuple[Any, ...],
    outs: tuple[Tensor, ...],
    params: dict[str, Any],
    state: State,
    floor: int,
) -> None:
    """Let every live tape above level `floor` that follows one of `args` record how `outs` came about."""
    for tape in state.suspended:
        seen = tuple([node_on(tape, a) is not None for a in args])
        if any(seen) and primitive.vjp(seen) is not None:
            for out in outs:
                if out.dtype.kind in "fc":
                    out._nodes += (tape.node(HIDDEN, (), ()),)
    for tape in following(args, state.traces, floor):
        mine = [node_on(tape, a) for a in args]
        step = primitive.adjoint if tape.linear_only and primitive.adjoint else primitive.vjp
        vjp = step(tuple([n is not None for n in mine]))
        if primitive.real and any(n and a.dtype.kind == "c" for a, n in zip(args, mine, strict=True)):
            refuse_complex(primitive)
        if vjp is None and tape.linear_only:
            raise NotLinearError(primitive.name)
        if vjp is None or not any(o.dtype.kind in "fc" for o in outs):
            refuse_objects(outs[0].dtype)
            continue
        everything = (outs if primitive.many else outs[0], *args)
        dtype = outs[0].dtype
        saved = [
            tuple([lowered(o, state, tape.level) for o in outs])
            if k == OUT and primitive.many
            else _kept(everything[k], state, tape.level, dtype)
            for k in vjp.keep
        ]
        saved += [
            tuple(map(aval_of, outs)) if k == OUT and primitive.many else aval_of(everything[k])
            for k in vjp.avals
        ]
        if vjp.params:
            saved.append(params)
        parents = tuple([n for n in mine if n is not None])
        parent_avals = None if vjp.exact else _parent_avals(args, vjp.pattern, outs[0], shaped=vjp.shaped)
        made = tape.node(vjp, tuple(saved), parents, parent_avals, _outputs(outs, many=primitive.many))
        _to_outputs(made, tape, primitive, outs)


def following(args: Iterable[Any], traces: Sequence[Trace], floor: int) -> list[Tape]:
    """Return the tapes among `traces` above level `floor` that follow an argument, the outermost first."""
    found: list[Tape] = []
    for a in args:
        if a.__class__ is Tensor:
            for n in a._nodes:
                tape = n.tape
                if tape is None:
                    continue
                if tape not in traces:
                    tape.refuse_elsewhere()
                elif tape.level > floor and tape not in found:
                    found.append(tape)
    if len(found) > 1:
        found.sort(key=lambda t: t.level)
    return found


def node_on(tape: Tape, a: Any) -> Node | None:
    """Return the node by which `tape` knows the value of `a`, if any."""
    if a.__class__ is Tensor:
        for n in a._nodes:
            if n.tape is tape:
                found: Node = n
                return found
    return None


def _kept(a: Any, state: State, level: int, dtype: np.dtype[Any]) -> Any:
    return lowered(a, state, level) if a.__class__ is Tensor else snapshot(a, dtype)


def _parent_avals(
    args: Sequence[Any], pattern: Sequence[bool], out: Any, *, shaped: bool
) -> tuple[ParentAval | None, ...] | None:
    """Return what the cotangent of each tracked argument is brought to, where it may need that."""
    dtype = out.dtype
    shape = None if shaped else out.shape
    parent_avals: list[ParentAval | None] = []
    needed = False
    for a, tracked in zip(args, pattern, strict=True):
        if tracked:
            if a.dtype == dtype and (shaped or a.shape == shape):
                parent_avals.append(None)
            else:
                parent_avals.append((a.shape, a.dtype))
                needed = True
    return tuple(parent_avals) if needed else None
