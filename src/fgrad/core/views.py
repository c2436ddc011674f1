"""Views: handles that share elements as NumPy arrays share memory, although values are immutable.

A `View` says how one handle comes from another, its base. Writing to a view gives its base the value with the
view's elements replaced (the column `write` of the primitive), and so on down to the array that is no view.
Every other view of the family becomes `Stale`: it is made again from its base as soon as anybody looks at it,
at the latest when the stack of traces changes, so that the same tapes record it. Nothing is paid for that
where nothing is written: what is not stale is of class Tensor, and `Stale` answers the first question with
becoming one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import starmap
from typing import Any
from weakref import ref

import numpy as np

from fgrad.core.dispatch import apply_linear, bind
from fgrad.core.placement import buffer_of
from fgrad.core.primitive import FUNCTIONS, Primitive
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import (
    State,
    Tracer,
    current,
    inherited_state,
    is_here,
    note_change,
    only_splits,
    user_place,
)
from fgrad.tree import declare_leaf

_MANY = 31  # views
_new = object.__new__
_ndarray = np.ndarray


class View:
    """How a Tensor comes from its base, which knows it by a weak reference.

    Most are never looked at: until then a Tensor has a tuple of base, primitive and params in the place of
    one.
    """

    __slots__ = ("base", "params", "primitive", "rest")

    base: Tensor
    primitive: Primitive
    rest: tuple[Any, ...]
    params: dict[str, Any]


class ReadOnly(View):
    """A view that NumPy lets nobody write to."""

    __slots__ = ()


class Gathered(View):
    """A view that NumPy makes by strides, and fgrad by index arrays."""

    __slots__ = ("strided",)

    strided: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]  # what NumPy does


class GatheredReadOnly(Gathered, ReadOnly):
    """One of those that NumPy lets nobody write to."""

    __slots__ = ()


class Uncertain(View):
    """A reshape that NumPy may have to copy for, which depends on how its base lies in memory."""

    __slots__ = ("is_raveled", "value")

    value: Any  # of the base
    is_raveled: bool  # whether NumPy copies for gaps between elements too


def _view(
    kind: type[View], base: Tensor, primitive: Primitive, rest: tuple[Any, ...], params: dict[str, Any]
) -> View:
    view = _new(kind)
    view.base, view.primitive, view.rest, view.params = base, primitive, rest, params
    return view


def linked(
    kind: type[View], base: Tensor, viewer: Tensor, primitive: Primitive, params: dict[str, Any], *rest: Any
) -> Tensor:
    """Return `viewer`, which a primitive made of `base` and `rest`, as a view of `base`."""
    viewer._base = _view(kind, base, primitive, rest, params)
    _enter(base, ref(viewer))
    return viewer


def _enter(base: Tensor, viewer: ref[Tensor]) -> None:
    """Let a base know a view; those that are gone are forgotten now and then."""
    known = base._viewers
    if known is None:
        base._viewers = [viewer]
        return
    known.append(viewer)
    if len(known) > _MANY:
        _forget(base, known)


def _forget(base: Tensor, known: list[ref[Tensor]]) -> None:
    """Let go of the views that are gone, each time that the list has doubled."""
    n = len(known)
    if not n & (n - 1):
        base._viewers = [r for r in known if r() is not None]


def view_of(x: Any, primitive: Primitive, params: dict[str, Any], out: Any = None) -> Any:
    """Return a linear primitive of `x`, of a Tensor as a view of it, unless one of them is a scalar.

    An ellipsis makes an array of a scalar. `out` is what the primitive makes of the array in `x`, if that is
    known.
    """
    made = apply_linear(primitive, x, params, out)
    if made.__class__ is not Tensor:
        return made
    value = made._value
    if value.__class__ is _ndarray:
        if x._value.__class__ is not _ndarray:
            return made
    elif isinstance(value, np.generic):
        return made
    elif not _is_array(x):
        if isinstance(value, Tracer) and Ellipsis in params.get("index", ()):
            return wrap(value.as_array(), made._nodes)
        return made
    elif _is_item(value, params):
        return made
    if primitive.depends and not lies_row_by_row(x):
        return reshaped_view(x, made, primitive, params)
    made._base = (x, primitive, params)
    known = x._viewers
    if known is None:
        x._viewers = [ref(made)]
    elif known[-1]() is None:
        known[-1] = ref(made)
    else:
        known.append(ref(made))
        if len(known) > _MANY:
            _forget(x, known)
    return made


def lies_row_by_row(x: Tensor) -> bool:
    """Return whether `x` is an array of its own without gaps, of which every reshape is a view."""
    return x._base is None and x._value.__class__ is _ndarray and x._value.flags.c_contiguous


def _is_item(value: Any, params: dict[str, Any]) -> bool:
    """Return whether integers chose one element, which is a scalar then."""
    return not value.shape and "index" in params and Ellipsis not in params["index"]


def is_array(x: Tensor) -> bool:
    """Return whether `x` is an array: scalars have no axes, and are no views."""
    return x._value.__class__ is _ndarray or _is_array(x)


def _is_array(x: Tensor) -> bool:
    """Return whether what has no value is an array."""
    return bool(x.shape) or x._base is not None or (isinstance(x._value, Tracer) and x._value.is_array())


def reshaped_view(
    x: Tensor, made: Tensor, primitive: Primitive, params: dict[str, Any], *, is_raveled: bool = False
) -> Tensor:
    """Return `made`, a reshape of `x`, as a view of it where NumPy needs no copy for it."""
    value = x._value
    if isinstance(made._value, Tracer):
        made._value = made._value.ordered_like(value)
    if not is_array(x):
        return made
    if not is_raveled and only_splits(x.shape, params["shape"]):
        return linked(View, x, made, primitive, params)
    example = memory_of(x)
    if example is not None and is_laid_out(x):
        if is_raveled:
            shares = example.flags.c_contiguous
        else:
            shares = np.may_share_memory(example, example.reshape(params["shape"]))
        return linked(View, x, made, primitive, params) if shares else made
    linked(Uncertain, x, made, primitive, params)
    view = _view_in(made)
    view.value, view.is_raveled = value, is_raveled
    return made


class Stale(Tensor):
    """A view whose base was written to since: the first look makes it what it is now, a Tensor.

    That is for the thread in which it happened, whose tapes saw the write; `_value` holds its state until
    then. Others see the value, and cannot write to it.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if _is_of_another_thread(self):
            if name in {"_base", "_viewers"}:  # whoever asks for these means to write
                return None
            seen, view = _made(self), _view_in(self)
            seen._base = _view(ReadOnly, view.base, view.primitive, view.rest, view.params)
            return getattr(seen, name)
        _renew(self)
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if _is_of_another_thread(self):
            raise RuntimeError(
                "another thread wrote to what this Tensor is a view of, and has not read the view since, "
                "so it cannot be changed here. Let that thread read it first, or write to a copy: x.copy()"
            )
        _renew(self)
        object.__setattr__(self, name, value)


def _is_of_another_thread(x: Stale) -> bool:
    owner = _value_in(x)
    return owner.__class__ is State and not is_here(owner)


_DEPENDS = (
    "whether this Tensor shares memory with the one that was written to at {} depends on the memory "
    "layout: a {} is a view unless it needs a copy, and the layout of computed and traced arrays is not "
    "known. Take a copy before the write: x.copy()"
)


class Unknown(Tensor):
    """What may share memory with something that was written to, and may not."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":  # NumPy asks whether it is an array, and loses an error
            return Tensor
        raise TypeError(_DEPENDS.format(*_value_in(self)))


declare_leaf(Stale)
declare_leaf(Unknown)

# what `Stale` and `Unknown` answer for everybody else, read and written past them
_value_in: Any = Tensor.__dict__["_value"].__get__
_set_value: Any = Tensor.__dict__["_value"].__set__
_set_nodes: Any = Tensor.__dict__["_nodes"].__set__
_link_in: Any = Tensor.__dict__["_base"].__get__
_set_link: Any = Tensor.__dict__["_base"].__set__


def _view_in(x: Tensor) -> Any:
    """Return how `x` comes from its base, or None."""
    link = _link_in(x)
    if link.__class__ is not tuple:
        return link
    base, primitive, params = link
    view = _view(View, base, primitive, (), params)
    _set_link(x, view)
    return view


def as_it_lies(value: np.ndarray[Any, Any], like: Any) -> np.ndarray[Any, Any]:
    """Return a value in the order in memory of the one in whose place it comes, of the same shape."""
    if like.__class__ is not _ndarray or value.shape != like.shape:
        return value
    if like.flags.c_contiguous:
        return value if value.flags.c_contiguous else value.copy()
    if value.strides != like.strides:
        found = np.empty_like(like, value.dtype)
        found[...] = value
        value = found
    if not like.flags.writeable:
        value.setflags(write=False)
    return value


def _fitting(new: Tensor, x: Tensor) -> Tensor:
    """Return the new value of `x` as an array that lies in memory as the old one does."""
    value, old = new._value, x._value
    found: Any
    if isinstance(value, Tracer) or isinstance(old, Tracer):
        found = _lying_as(value, old)
    elif value.__class__ is _ndarray:
        if value.ndim < 2 or (found := as_it_lies(value, old)) is value:
            return new
    elif isinstance(value, np.generic):  # what can be written to is an array
        found = np.asarray(value)
    else:
        return new
    return wrap(found, new._nodes)


def _lying_as(value: Any, old: Any) -> Any:
    """Return a value of whose memory layout as much is known as of that of the one it replaces."""
    if isinstance(value, Tracer):
        value = value.ordered_like(old)
    if sum(n > 1 for n in value.shape) < 2:
        return value
    held, before = (v.held if isinstance(v, Tracer) else None for v in (value, old))
    if held is not None and before is not None and held.shape == before.shape:  # examples
        inner = _lying_as(*(v._value if isinstance(v, Tensor) else v for v in (held, before)))
        return value.like(wrap(inner, held._nodes) if isinstance(held, Tensor) else inner)
    if value.__class__ is _ndarray and old.__class__ is _ndarray:
        return as_it_lies(value, old)
    if isinstance(old, Tracer) and not old.lies_in_order():
        return _turned(value, 0)
    return value


def rebind(x: Tensor, new: Tensor) -> None:
    """Make `x` a handle on the value of `new`; what shares its memory sees it."""
    if x._base is not None or x._viewers is not None:
        _write(x, new)
        return
    value, old = new._value, x._value
    plain = value.__class__ is _ndarray and old.__class__ is _ndarray
    if not plain or not (old.flags.c_contiguous and value.flags.c_contiguous):
        new = _fitting(new, x)
    if inherited_state().has_tracers:
        note_change(x)
    x._value, x._nodes = new._value, new._nodes


def check_writable(x: Tensor) -> None:
    """Refuse to write to a view that repeats elements, or that NumPy lets nobody write to.

    Raises:
        ValueError: with NumPy's words.
        TypeError: nobody knows whether it is one.
    """
    view, is_certain = _view_in(x), True
    while view is not None:
        if isinstance(view, ReadOnly):
            if is_certain:
                raise ValueError("assignment destination is read-only")
            raise TypeError(_DEPENDS.format(user_place(), view.primitive.name))
        is_certain = is_certain and _shares(view)
        view = _view_in(view.base)


def has_views(x: Tensor) -> bool:
    """Return whether somebody holds a view of `x`."""
    return bool(_viewers(x))


def root_of(x: Tensor) -> Tensor:
    """Return the Tensor whose memory `x` shows, which is a view of no other."""
    while (view := _view_in(x)) is not None and _shares(view):
        x = view.base
    return x


def reshape_handle(x: Tensor, primitive: Primitive, params: dict[str, Any]) -> None:
    """Make `x` a reshape of itself; what shares its memory does so still."""
    if x._base is None and x._viewers is None:
        made = apply_linear(primitive, x, params)
        if inherited_state().has_tracers:
            note_change(x)
    else:  # another handle takes its place in the family
        whole = wrap(x._value, x._nodes)
        whole._base, whole._viewers = x._base, x._viewers and [*x._viewers]
        made = apply_linear(primitive, whole, params)
        if whole._base is not None:
            _enter(_view_in(whole).base, ref(whole))
        moved = [(_view_in(viewer), "base", whole) for viewer in _viewers(x)]
        linked(View, whole, made, primitive, params)
        _enter(whole, ref(x))
        _set_at_once(
            *moved,
            (x, "_base", made._base),
            (x, "_viewers", None),
            (x, "_value", made._value),
            (x, "_nodes", made._nodes),
        )
        return
    x._value, x._nodes = made._value, made._nodes


def touch(x: Tensor) -> None:
    """Let what shares memory with `x` follow what `x` has become part of: a recording whose leaf it is."""
    if x._base is not None or has_views(x):
        _write(x, x)


def _viewers(x: Tensor) -> list[Tensor]:
    """Return the views of `x` that somebody holds."""
    known = x._viewers
    if known is None:
        return []
    found = [v for v in (r() for r in known) if v is not None]
    if not found:
        x._viewers = None
    return found


def _write(x: Tensor, new: Tensor) -> None:
    check_writable(x)
    path = [(x, _fitting(new, x))]
    while (view := _view_in(path[-1][0])) is not None:
        base = view.base
        if not _shares(view):
            _doubt(path[-1][0])
            path[-1][0]._base = None
            break
        whole = view.primitive.write(base, path[-1][1], *view.rest, **view.params)
        path.append((base, _fitting(whole, base)))
    if inherited_state().has_tracers:
        for handle, _ in path:
            note_change(handle)
    values = [made._value for _, made in path]
    for k in reversed(range(len(path) - 1)):
        whole = values[k + 1]
        if whole.__class__ is _ndarray:  # where the elements lie, as in NumPy
            view = _view_in(path[k][0])
            values[k] = _shown(view, whole)
    below: Any = None
    for (handle, _), value in zip(path, values, strict=True):
        # of examples a view is made anew, to lie in memory as NumPy's does
        is_mapped = isinstance(value, Tracer) and buffer_of(value).__class__ is _ndarray
        for viewer in _viewers(handle):
            if viewer is not below or is_mapped:
                _mark(viewer)
        below = handle
    # what is stale already is right with the old value and with the new one
    changes = [(p, v) for p, v in zip(path, values, strict=True) if type(p[0]) is Tensor]
    _set_at_once(
        *((handle, "_value", value) for (handle, _), value in changes),
        *((handle, "_nodes", made._nodes) for (handle, made), _ in changes),
    )


def _set_at_once(*changes: tuple[Any, str, Any]) -> None:
    """Give attributes new values: all of them, as no interrupt comes within a function of C."""
    deque(starmap(setattr, changes), 0)


def _mark(x: Tensor) -> None:
    """Make a view of something that was written to stale, and what is a view of it."""
    state = current()
    todo = [x]
    while todo:
        x = todo.pop()
        if type(x) is not Tensor:
            continue
        view = _view_in(x)
        if view is None:
            continue
        todo += _viewers(x)
        if not _shares(view):
            _become_unknown(x, view)
            continue
        state.stale.append(ref(x))
        x.__class__ = Stale
        _set_value(x, state)
        _set_nodes(x, ())
        n = len(state.stale)
        if n > _MANY and not n & (n - 1):
            state.stale = [r for r in state.stale if type(r()) is Stale]


def _shares(view: View) -> bool:
    """Return whether a view certainly shares the memory of its base."""
    if view.__class__ is not Uncertain:
        return True
    value = view.value
    if not isinstance(value, Tracer):
        return False
    return value.lies_in_order() if view.is_raveled else value.shares_when_reshaped(view.params["shape"])


def memory_of(x: Tensor) -> np.ndarray[Any, Any] | None:
    """Return an array that lies in memory as `x` does, or as each of its examples, if there is one."""
    chain = []
    root = x
    while (view := _view_in(root)) is not None:
        chain.append(view)
        root = view.base
    if any(isinstance(v, Gathered) for v in chain):
        example = memory_of(root)
        for v in reversed(chain):
            if example is None:
                break
            example = (
                v.strided(example)
                if isinstance(v, Gathered)
                else v.primitive.run(example, *v.rest, **v.params)
            )
        return example
    value = x._value
    found = value if value.__class__ is _ndarray else buffer_of(value)
    if found.__class__ is not _ndarray:
        return None
    if not found.size:
        return np.empty(value.shape)
    if found.ndim == value.ndim:
        return found
    example = found[(0,) * (found.ndim - value.ndim)]
    return example if example.__class__ is _ndarray else None


def is_laid_out(x: Tensor) -> bool:
    """Return whether a Tensor certainly lies in memory as NumPy's array does.

    So do what lies row by row, copies of arrays that came from outside, which are read-only, and views of
    both. NumPy's functions do not always leave their results in the order in which they are computed here.
    """
    example = memory_of(root_of(x))
    return example is not None and (example.flags.c_contiguous or not example.flags.writeable)


def unordered(y: Any, *xs: Any) -> Any:
    """Return a new array `y`; unless all of `xs` lie row by row, nobody knows how it lies in memory.

    For functions whose results lie in NumPy as their arguments do, but not here.
    """
    if y.__class__ is not Tensor or sum(n > 1 for n in y.shape) < 2 or all(map(_lies_in_order, xs)):
        return y
    return disordered(y)


def disordered(y: Any) -> Any:
    """Return a new array `y` of which nobody knows how it lies in memory."""
    return wrap(_turned(y._value, 0), y._nodes) if y.__class__ is Tensor else y


def laid_out_like(y: Tensor, x: Any) -> Tensor:
    """Return a new array `y` in the order in memory of `x`, which nobody knows if that is not known."""
    example = x if x.__class__ is _ndarray else memory_of(x) if isinstance(x, Tensor) else None
    if example is None:
        return unordered(y, x)  # type: ignore[no-any-return]
    if example.flags.c_contiguous:
        return y
    if y._value.__class__ is not _ndarray or y.shape != x.shape or not (example is x or is_laid_out(x)):
        found: Tensor = unordered(y, x)
        return found
    value = as_it_lies(y._value, example)
    value.setflags(write=False)  # its order is that of NumPy's
    return wrap(value, y._nodes)


def _lies_in_order(x: Any) -> bool:
    """Return whether an argument lies in memory row by row, or each of its examples does."""
    if x.__class__ is np.ndarray:
        return bool(x.flags.c_contiguous)
    if not isinstance(x, Tensor):
        return True
    example = memory_of(x)
    if example is None:
        return not isinstance(x._value, Tracer) or x._value.lies_in_order()
    return bool(example.flags.c_contiguous)


def _turned(value: Any, lead: int) -> Any:
    """Return a value in the other order in memory, behind its first `lead` axes, as nothing that is known."""
    if isinstance(value, Tracer) and isinstance(value.held, Tensor | np.ndarray):
        whole = value.held
        new = _turned(whole._value if isinstance(whole, Tensor) else whole, lead + 1)
        return value.like(wrap(new, whole._nodes) if isinstance(whole, Tensor) else new)
    if isinstance(value, Tracer):
        return value.disordered()
    if value.__class__ is not _ndarray or not value.flags.c_contiguous:
        return value
    axes = (*range(lead), *range(value.ndim - 1, lead - 1, -1))
    return value.transpose(axes).copy().transpose(axes)


def _doubt(written: Tensor) -> None:
    """Let nobody read what may or may not have been written to with `written`: the rest of its family."""
    view = _view_in(written)
    root = written
    while (link := _view_in(root)) is not None:
        root = link.base
    todo = [root]
    while todo:
        y = todo.pop()
        if y is not written and type(y) is Tensor:
            todo += _viewers(y)
            _become_unknown(y, view)


def _become_unknown(x: Tensor, view: View) -> None:
    why = (user_place(), view.primitive.name)
    x.__class__ = Unknown
    _set_value(x, why)
    _set_nodes(x, ())


def _renew(x: Tensor) -> None:
    """Make a stale view, and the views between it and what is not stale, what they are now."""
    chain = [x]
    while type(base := _view_in(chain[-1]).base) is Stale:
        chain.append(base)
    for stale in reversed(chain):
        made = _made(stale)
        _set_value(stale, made._value)
        _set_nodes(stale, made._nodes)
        object.__setattr__(stale, "__class__", Tensor)


def _made(x: Tensor) -> Tensor:
    """Return what a view is now."""
    view = _view_in(x)
    made: Tensor = bind(view.primitive.name, view.base, *view.rest, **view.params)
    if isinstance(view, Gathered):
        made._value = _strided(view, made)
    return made


def _strided(view: Gathered, made: Tensor) -> Any:
    """Return the value of what a primitive made for a view, of an array so that it lies as in NumPy."""
    value, whole = made._value, view.base._value
    if len(value.shape) < 2:
        return value
    if value.__class__ is _ndarray:
        return view.strided(whole) if whole.__class__ is _ndarray else value
    example = memory_of(view.base)
    return value if example is None or example.flags.c_contiguous else _turned(value, 0)


def linked_by_strides(
    kind: type[Gathered],
    strided: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]],
    base: Tensor,
    viewer: Tensor,
    primitive: Primitive,
    params: dict[str, Any],
    *rest: Any,
) -> Tensor:
    """Return `viewer`, which a primitive made of `base` and `rest`, as what NumPy makes by `strided`."""
    view: Any = _view_in(linked(kind, base, viewer, primitive, params, *rest))
    view.strided = strided
    viewer._value = _strided(view, viewer)
    return viewer


def _shown(view: View, whole: np.ndarray[Any, Any]) -> Any:
    """Return what a view shows of its base's value, and lies in memory as in NumPy."""
    if isinstance(view, Gathered):
        return view.strided(whole)
    return view.primitive.run(whole, *view.rest, **view.params)


def in_place(x: Any, new: Any) -> Any:
    """Return what `x += y` makes of `x`, given `x + y`: `x` with this value, of a scalar the new one."""
    if new is NotImplemented:
        return NotImplemented
    if new.shape != x.shape or new.dtype != x.dtype:
        new = castable(x, new)
    if x._value.__class__ is not _ndarray and not _is_array(x):
        return wrap(new._value, new._nodes)
    rebind(x, new)
    return x


def castable(x: Any, new: Any) -> Any:
    """Return `new` in the dtype of `x`, into which it is to be written.

    Raises:
        ValueError: it has another shape.
        TypeError: it has a dtype of another kind.
    """
    if new.shape != x.shape:
        raise ValueError(
            f"an in-place operation cannot change the shape {x.shape} of a Tensor to {new.shape}; "
            "write x = x + y"
        )
    if new.dtype != x.dtype:
        if not np.can_cast(new.dtype, x.dtype, "same_kind"):
            raise TypeError(
                f"an in-place operation cannot change the dtype of a Tensor from {x.dtype} to {new.dtype}; "
                f"write x = x + y, or convert first: y.astype({x.dtype.name!r})"
            )
        new = FUNCTIONS["astype"](new, x.dtype)
    return new


FUNCTIONS["in_place"] = in_place
