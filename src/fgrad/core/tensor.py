"""Tensor, a mutable handle on an immutable value, and `bind`, which applies a primitive to Tensors.

`bind` is the obvious definition: compute under the innermost box, then let every tape above it record.
`unary` and `binary` are the same for element-wise rows while at most one tape is live, which is nearly
always; they fall back to `bind` in every other case.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any
from weakref import ref

import numpy as np

from fgrad import tree
from fgrad.core.aval import aval_of
from fgrad.core.operators import Operators
from fgrad.core.primitive import FUNCTIONS, OUT, ROWS, Primitive
from fgrad.core.tape import HIDDEN, Fit, Node, Pick, Tape
from fgrad.core.trace import Box, State, Trace, current, inherited_state, owns_task

_FLOAT64 = np.dtype(np.float64)
_new = object.__new__


class Tensor(Operators):
    """An array that transformations can follow.

    A Tensor is a mutable handle on an immutable value. Operators, indexing, methods and NumPy's functions
    work as on an `ndarray`; `x[i] = v` and `x += v` give this handle a new value and leave every other
    Tensor and array alone, so there are no aliasing views. Make one with `fgrad.tensor`.
    """

    __slots__ = ("__weakref__", "_grad", "_nodes", "_value")

    _value: Any  # an array or NumPy scalar that is never written to, or a Box
    _nodes: tuple[Node, ...]  # what live tapes know of the value
    _grad: Tensor | None

    def __init__(self, data: Any, dtype: Any = None) -> None:
        """Copy `data` (anything NumPy makes a numeric array of)."""
        if isinstance(data, Tensor):
            source = data if dtype is None else data.astype(dtype)
            self._value, self._nodes = source._value, source._nodes
            return
        value = np.array(data, dtype)
        if value.dtype.kind not in "fciub":
            raise TypeError(
                f"a Tensor holds numbers, not {value.dtype}"
                + (" (are the rows of unequal length?)" if value.dtype == object else "")
                + "; convert the data to a numeric dtype first"
            )
        self._value, self._nodes = value, ()


    @property
    def grad(self) -> Tensor | None:
        """The gradient that `GradManager.backward` left here, or None."""
        try:
            return self._grad
        except AttributeError:
            return None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, Tensor):
            value = Tensor(value)
        if value is not None and value.shape != self.shape:
            raise ValueError(f"a gradient has the shape of its tensor: {self.shape}, not {value.shape}")
        self._grad = value

    def detach(self) -> Tensor:
        """Return a new handle on the same value that no transformation differentiates."""
        return FUNCTIONS["stop_gradient"](self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.numpy(), self.grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        new = _restored(self.numpy(), self.grad and self.grad.__deepcopy__(memo))
        memo[id(self)] = new
        return new


def _restored(value: Any, grad: Tensor | None) -> Tensor:
    t = wrap(value)
    t._grad = grad
    return t


tree.declare_leaf(Tensor)


def tensor(data: Any, dtype: Any = None) -> Tensor:
    """Return a Tensor that holds a copy of `data`.

    Args:
        data: array, number, nested sequence or Tensor, of a numeric or bool dtype.
        dtype: NumPy dtype; None keeps that of `data`.

    Raises:
        TypeError: `data` is not numeric.

    Example:
        >>> tensor([1.0, 2.0])
        Tensor([1., 2.])
    """
    return Tensor(data, dtype)


def wrap(value: Any, nodes: tuple[Node, ...] = ()) -> Tensor:
    """Return a Tensor on `value` itself, without a copy."""
    t: Tensor = _new(Tensor)
    t._value = value
    t._nodes = nodes
    return t


def rebind(x: Tensor, new: Tensor) -> None:
    """Make `x` a handle on the value of `new`."""
    x._value, x._nodes = new._value, new._nodes


def is_tracked(x: Tensor) -> bool:
    """Return whether a live tape of this thread and task follows `x`."""
    return bool(x._nodes) and any(n.tape in current().traces for n in x._nodes)


def unary(name: str, x: Any) -> Any:
    """Apply the element-wise row called `name` to one operand."""
    row = ROWS[name]
    if x.__class__ is Tensor:
        nodes = x._nodes
        s = inherited_state()
        if not nodes:
            if not s.boxed:
                t: Tensor = _new(Tensor)
                t._value = row.run(x._value)
                t._nodes = ()
                return t
        elif len(nodes) == 1:
            tape = s.sole
            (node,) = nodes
            if node.tape is tape and s.thread == get_ident() and (s.task is None or owns_task(s)):
                v = x._value
                pull = row.single
                if pull is not None and not (row.real and v.dtype.kind == "c"):
                    out = row.run(v)
                    n: Node = _new(Node)
                    n.tape = tape
                    n.pull = pull
                    keep = pull.keep
                    n.saved = (out,) if keep == (0,) else (v,) if keep == (1,) else (out, v) if keep else ()
                    n.parents = nodes
                    n.fits = None
                    refs = tape.refs
                    refs.append(ref(n))
                    if len(refs) > tape.limit:
                        tape.compact()
                    t = _new(Tensor)
                    t._value = out
                    t._nodes = (n,)
                    return t
    return bind(name, x)


def binary(name: str, x: Any, y: Any) -> Any:
    """Apply the element-wise row called `name` to two operands; NotImplemented where one is foreign."""
    row = ROWS[name]
    if x.__class__ is Tensor:
        vx, nx = x._value, x._nodes
    elif x.__class__ in OPERANDS:
        vx, nx = x, ()
    elif isinstance(x, np.ndarray | np.generic):
        vx, nx = x, ()
    else:
        return NotImplemented
    if y.__class__ is Tensor:
        vy, ny = y._value, y._nodes
    elif y.__class__ in OPERANDS or isinstance(y, np.ndarray | np.generic):
        vy, ny = y, ()
    else:
        return NotImplemented
    s = inherited_state()
    if not nx and not ny:
        if not s.boxed and (x.__class__ is Tensor or y.__class__ is Tensor):
            t: Tensor = _new(Tensor)
            t._value = row.run(vx, vy)
            t._nodes = ()
            return t
        return bind(name, x, y)
    tape = s.sole
    if (
        (len(nx) == 1 and nx[0].tape is tape if nx else True)
        and (len(ny) == 1 and ny[0].tape is tape if ny else True)
        and s.thread == get_ident()
        and (s.task is None or owns_task(s))
    ):
        if vy.__class__ is float and vx.dtype is _FLOAT64:
            vy = np.array(vy)
        elif vx.__class__ is float and vy.dtype is _FLOAT64:
            vx = np.array(vx)
        out = row.run(vx, vy)
        pull = row.pull((bool(nx), bool(ny)))
        if pull is None or not pull.simple or out.dtype.kind not in "fc" or (row.real and out.dtype.kind == "c"):
            return bind(name, x, y)
        shape, dtype = out.shape, out.dtype
        fit_x = nx and (vx.shape != shape or vx.dtype is not dtype) and (vx.shape, vx.dtype)
        fit_y = ny and (vy.shape != shape or vy.dtype is not dtype) and (vy.shape, vy.dtype)
        n: Node = _new(Node)
        n.tape = tape
        n.pull = pull
        keep = pull.keep
        if keep == (1, 2):
            n.saved = (
                vx if nx or x.__class__ is Tensor else snapshot(vx, dtype),
                vy if ny or y.__class__ is Tensor else snapshot(vy, dtype),
            )
        elif keep == (2,):
            n.saved = (vy if y.__class__ is Tensor else snapshot(vy, dtype),)
        elif keep == (1,):
            n.saved = (vx if x.__class__ is Tensor else snapshot(vx, dtype),)
        elif keep:
            values = (out, vx if x.__class__ is Tensor else snapshot(vx, dtype), vy if y.__class__ is Tensor else snapshot(vy, dtype))
            n.saved = tuple([values[k] for k in keep])
        else:
            n.saved = ()
        n.parents = nx + ny
        n.fits = None
        if fit_x or fit_y:
            n.fits = (fit_x or None, fit_y or None) if nx and ny else (fit_x or fit_y,)
        refs = tape.refs
        refs.append(ref(n))
        if len(refs) > tape.limit:
            tape.compact()
        t = _new(Tensor)
        t._value = out
        t._nodes = (n,)
        return t
    return bind(name, x, y)


OPERANDS = frozenset({float, int, complex, bool, np.ndarray, list, tuple, np.float64, np.float32})


def bind(name: str, *args: Any, **params: Any) -> Any:
    """Apply the row called `name`: arrays give arrays, and any Tensor among `args` makes Tensors."""
    row = ROWS[name]
    tensors = tracked = boxed = False
    values = []
    for a in args:
        if a.__class__ is Tensor:
            tensors = True
            if a._nodes:
                tracked = True
            a = a._value  # noqa: PLW2901 -- the value takes the place of its handle
            if isinstance(a, Box):
                boxed = True
        values.append(a)
    if not (tracked or boxed):
        out = row.run(*values, **params)
        if not tensors:
            return out
        return tuple(map(wrap, out)) if row.many else wrap(out)
    return _interpret(row, args, values, params, boxed=boxed)


def _interpret(row: Primitive, args: tuple[Any, ...], values: list[Any], params: dict[str, Any], *, boxed: bool) -> Any:
    state = current()
    floor = -1
    if boxed:
        trace = _innermost(values, state)
        floor = trace.level
        out = trace.process(row, tuple([lowered(a, state, floor) for a in args]), params)
    else:
        out = row.run(*values, **params)
    outs = tuple(map(wrap, out)) if row.many else (wrap(out),)
    record(row, args, outs, params, state, floor)
    return outs if row.many else outs[0]


def _innermost(values: list[Any], state: State) -> Trace:
    top: Trace | None = None
    for v in values:
        if isinstance(v, Box):
            if v.trace not in state.traces:
                v.escaped()
            if top is None or v.trace.level > top.level:
                top = v.trace
    assert top is not None  # noqa: S101 -- called only where a box was seen
    return top


def lowered(a: Any, state: State, level: int) -> Any:
    """Return `a` as it looks from under `level`: an array, or a Tensor with the nodes of lower tapes."""
    if a.__class__ is not Tensor:
        return a
    nodes = tuple([n for n in a._nodes if n.tape in state.traces and n.tape.level < level]) if a._nodes else ()
    if nodes or isinstance(a._value, Box):
        return wrap(a._value, nodes)
    return a._value


def record(
    row: Primitive,
    args: tuple[Any, ...],
    outs: tuple[Tensor, ...],
    params: dict[str, Any],
    state: State,
    floor: int,
) -> None:
    """Let every live tape above level `floor` that follows one of `args` record how `outs` came about."""
    traces = state.traces
    tapes = {
        n.tape for a in args if a.__class__ is Tensor for n in a._nodes if n.tape in traces and n.tape.level > floor
    }
    for tape in state.veiled:
        if any(_node_of(a, tape) for a in args):
            for out in outs:
                out._nodes += (tape.node(HIDDEN, (), ()),)
    for tape in sorted(tapes, key=lambda t: t.level):
        mine = [_node_of(a, tape) for a in args]
        pull = row.pull(tuple([n is not None for n in mine]))
        if pull is None or not any(o.dtype.kind in "fc" for o in outs):
            continue
        if row.real and any(n and a.dtype.kind == "c" for a, n in zip(args, mine)):
            raise TypeError(
                f"{row.name} has no complex derivative: it is not holomorphic. "
                "Differentiate a real function of the real and imaginary parts instead."
            )
        everything = (outs if row.many else outs[0], *args)
        dtype = outs[0].dtype
        saved = [_kept(everything[k], state, tape.level, dtype) for k in pull.keep]
        saved += [tuple(map(aval_of, outs)) if k == OUT and row.many else aval_of(everything[k]) for k in pull.avals]
        if pull.params:
            saved.append(params)
        parents = tuple([n for n in mine if n is not None])
        node = tape.node(pull, tuple(saved), parents, _fits(args, mine, outs))
        if not row.many:
            outs[0]._nodes += (node,)
            continue
        for i, out in enumerate(outs):
            if out.dtype.kind in "fc":
                out._nodes += (tape.node(Pick(i, len(outs)), (), (node,)),)


def _node_of(a: Any, tape: Tape) -> Node | None:
    if a.__class__ is Tensor:
        for n in a._nodes:
            if n.tape is tape:
                found: Node = n
                return found
    return None


def _kept(a: Any, state: State, level: int, dtype: np.dtype[Any]) -> Any:
    return lowered(a, state, level) if a.__class__ is Tensor else snapshot(a, dtype)


def _fits(args: tuple[Any, ...], mine: list[Node | None], outs: tuple[Tensor, ...]) -> tuple[Fit | None, ...] | None:
    """Return the aval of each tracked argument: `fit` is the identity where a rule already gives it."""
    out = (outs[0].shape, outs[0].dtype)
    fits = [(a.shape, a.dtype) for a, n in zip(args, mine) if n is not None]
    return tuple([None if f == out else f for f in fits]) if any(f != out for f in fits) else None


def snapshot(a: Any, dtype: np.dtype[Any]) -> Any:
    """Return an operand that the user cannot change behind the tape's back; Python numbers are weak."""
    if isinstance(a, np.ndarray):
        return compact(a) if a.flags.writeable or a.base is not None else a
    if isinstance(a, np.generic):
        return a
    return np.array(a) if isinstance(a, list | tuple) else np.array(a, dtype)


def compact(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy that repeats elements where `a` does, without memory for the repetitions."""
    if a.size and 0 in a.strides:
        part = a[tuple([slice(0, 1) if s == 0 else slice(None) for s in a.strides])]
        return np.broadcast_to(part.copy(), a.shape)
    return a.copy()


def alias(t: Tensor) -> Tensor:
    """Return a new handle on the value of `t`, as differentiable as `t`."""
    return wrap(t._value, t._nodes)
