"""Tensor, a mutable handle on an immutable value; `core.dispatch` applies primitives to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import ref

import numpy as np

from fgrad import tree
from fgrad.backend.devices import CPU, adopted, copied, is_foreign, maker, moved
from fgrad.core import process
from fgrad.core.display import html_of
from fgrad.core.operators import Operators
from fgrad.core.primitive import FUNCTIONS
from fgrad.core.snapshot import refuse_subclass
from fgrad.core.tape import Node
from fgrad.core.trace import Tracer, current, note_change, note_gradient

if TYPE_CHECKING:
    from typing_extensions import Never

    from fgrad.core.views import View

_ndarray = np.ndarray


def _new_first(kind: type[Any]) -> Any:
    """Make the first Tensor of the process."""
    _begin()
    return object.__new__(kind)


def _begin() -> None:
    global _new  # noqa: PLW0603 -- so that later Tensors cost nothing more
    _new = object.__new__
    process.prepare()


_new: Callable[[type[Any]], Any] = _new_first


class Tensor(Operators):
    """An array that transformations can follow.

    A Tensor is a mutable handle on an immutable value. Operators, indexing, methods and NumPy's functions
    work as on an `ndarray`. `x[i] = v` and `x += v` give a new value to this handle and to every other that
    would share its memory in NumPy: `x[0]`, `x.T`, `x.ravel()` and similar are views. Recordings keep the
    values from before. Make one with `fgrad.tensor`.

    Example:
        >>> x = fg.tensor([1.0, 2.0])
        >>> x[0] = 5.0
        >>> x * 2
        Tensor([10.,  4.])
    """

    __slots__ = ("__weakref__", "_base", "_grad", "_nodes", "_value", "_viewers")

    _value: Any  # an array or NumPy scalar that is never written to, or a Tracer
    _nodes: tuple[Node, ...]  # what live tapes know of the value
    _base: View | tuple[Any, ...] | None  # how it shares the memory of another Tensor
    _viewers: list[ref[Tensor]] | None  # which Tensors share its memory so, and may be gone
    _grad: Tensor | None

    def __init__(self, data: Any, dtype: Any = None, device: Any = None) -> None:
        """Copy `data` (anything NumPy makes a numeric array of) to a device; share what is there already."""
        self._base = self._viewers = None
        if isinstance(data, Tensor):
            source = data if dtype is None else data.astype(dtype)
            source = source if device is None else source.to(device)
            self._value, self._nodes = source._value, source._nodes
            return
        refuse_subclass(data)
        if data.__class__ is not _ndarray and is_foreign(data):
            value = adopted(data)
            value = value if dtype is None else value.astype(dtype, copy=False)
            value = value if device is None else moved(value, device)
        else:
            value = maker(device).array(data, dtype)
        if value.dtype.kind not in "fciub":
            raise TypeError(
                f"a Tensor holds numbers, not {value.dtype}"
                + (" (are the rows of unequal length?)" if value.dtype == object else "")
                + "; convert the data to a numeric dtype first"
            )
        if isinstance(value, _ndarray) and not value.flags.c_contiguous:
            value.setflags(write=False)  # it lies in memory as the user wants it, which views of it may show
        self._value, self._nodes = value, ()
        if _new is _new_first:
            _begin()

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `GradManager.backward` left here, or None."""
        try:
            found = self._grad
        except AttributeError:
            found = None
        note_gradient(self, found)
        return found

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, Tensor):
            value = Tensor(value)
        if value is not None and value.shape != self.shape:
            raise ValueError(f"a gradient has the shape of its tensor: {self.shape}, not {value.shape}")
        note_change(self)
        note_gradient(self, NotImplemented)
        self._grad = value

    def detach(self) -> Tensor:
        """Return a new handle on the same value that no transformation differentiates."""
        return FUNCTIONS["stop_gradient"](self)

    def to(self, device: Any) -> Tensor:
        """Return the Tensor on a device ("cpu", "cuda", "cuda:1"), itself if it is there; derivatives follow.

        Inside `jit` it is part of the program: the move happens at every call.

        Raises:
            ValueError: there is no such device.
            RuntimeError: CUDA cannot be used here; the message says what is missing.

        Example:
            >>> tensor([1.0, 2.0]).to("cpu").device
            'cpu'
        """
        return FUNCTIONS["to"](self, device)

    def _repr_html_(self) -> str:
        return html_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._is_of_function():
            self._untracked("pickling")
        return _restored, (self.numpy(), self.grad, self.device)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - _ELSEWHERE.keys())

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        new = self.__copy__() if self._is_of_function() else wrap(copied(self._concrete("deepcopy")))
        new._grad = None if self.grad is None else self.grad.__deepcopy__(memo)
        memo[id(self)] = new
        return new

    def _is_of_function(self) -> bool:
        """Return whether a function that is differentiated, mapped or staged computes with the value."""
        traces, value = current().traces, self._value
        is_traced = isinstance(value, Tracer) and value.trace in traces
        return is_traced or any(n.tape in traces and n.tape.whole for n in self._nodes if n.tape is not None)


def _restored(value: Any, grad: Tensor | None, device: str = CPU) -> Tensor:
    t = wrap(value if device == CPU else moved(value, device))
    t._grad = grad
    return t


tree.declare_leaf(Tensor)


class _Elsewhere:
    """A name that a Tensor has in another library: an AttributeError says what takes its place here."""

    def __init__(self, name: str, instead: str) -> None:
        self._message = f"a Tensor of fgrad has no {name}; {instead}"

    def __get__(self, *_: Any) -> NoReturn:
        raise AttributeError(self._message)

    def __set__(self, *_: Any) -> NoReturn:
        raise AttributeError(self._message)


_ATTACH = "attach it to a manager, gm = fgrad.GradManager().attach(x), or call fgrad.grad of a function of it"
_ELSEWHERE = {
    "backward": "call gm.backward(y) of the GradManager that records, inside its block `with gm:`",
    "requires_grad": _ATTACH,
    "requires_grad_": _ATTACH,
    "retain_grad": _ATTACH,
    "zero_grad": "write x.grad = None",
}
for _name, _instead in _ELSEWHERE.items():
    setattr(Tensor, _name, _Elsewhere(_name, _instead))


def tensor(data: Any, dtype: Any = None, device: Any = None, **unknown: Never) -> Tensor:
    """Return a Tensor that holds a copy of `data`.

    Args:
        data: array, number, nested sequence or Tensor, of a numeric or bool dtype. The memory of an array on
            a GPU (CuPy's, or what speaks `__cuda_array_interface__` or DLPack) is shared: do not write to
            it while a gradient may need it.
        dtype: NumPy dtype; None keeps that of `data`.
        device: "cpu", "cuda", "cuda:1"; None leaves Tensors and arrays on a GPU where they are, and puts
            everything else on the CPU, or where `default_device` says.
        **unknown: none; words of other libraries raise an error that says what takes their place.

    Returns:
        A new Tensor of the shape of `data`; its dtype, or `dtype`.

    Raises:
        TypeError: `data` is not numeric.
        RuntimeError: CUDA cannot be used here; the message says what is missing.

    Derivative:
        1 where `data` is a Tensor. Sequences of Tensors that are being differentiated are refused;
        `fgrad.numpy.stack` joins them.

    Example:
        >>> tensor([1.0, 2.0])
        Tensor([1., 2.])
    """
    if unknown:
        name = next(iter(unknown))
        instead = _ELSEWHERE.get(name, "it takes data, dtype and device")
        raise TypeError(f"tensor() takes no argument {name!r}; {instead}")
    return Tensor(data, dtype, device)


def wrap(value: Any, nodes: tuple[Node, ...] = ()) -> Tensor:
    """Return a Tensor on `value` itself, without a copy."""
    t: Tensor = _new(Tensor)
    t._value = value
    t._nodes = nodes
    t._base = t._viewers = None
    return t


def alias(t: Tensor) -> Tensor:
    """Return a new handle on the value of `t`, as differentiable as `t`."""
    return wrap(t._value, t._nodes)


def is_abstract(x: Any) -> bool:
    """Return whether `x` is a Tensor without a value to be looked at: inside vmap, or while staging."""
    return isinstance(x, Tensor) and isinstance(x._value, Tracer)


def is_traced(x: Any) -> bool:
    """Return whether a live trace concerns `x`, so that its plain value would say less than it does."""
    return isinstance(x, Tensor) and (isinstance(x._value, Tracer) or is_tracked(x))


def is_tracked(x: Tensor) -> bool:
    """Return whether a live tape of this thread and task follows `x`."""
    if not x._nodes:
        return False
    traces = current().traces
    for n in x._nodes:
        if n.tape in traces:
            return True
        if n.tape is not None:
            n.tape.refuse_elsewhere()
    return False
