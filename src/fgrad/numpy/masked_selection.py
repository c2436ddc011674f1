"""Elements selected by a mask without a known value, until they are written back under it.

While a function is staged or mapped nobody knows how many elements `x[x > 0]` has. But in
`x[x > 0] = x[x > 0] ** -0.5` that does not matter: what works element by element may be done to all of them,
and the mask says in the end which ones stay. The others are ones in the meantime, which hardly any function
minds, so that they can spoil neither a value nor a derivative.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from fgrad import tree
from fgrad.core.dispatch import bind
from fgrad.core.tensor import Tensor, alias
from fgrad.core.trace import Tracer, current, place_of, user_line
from fgrad.core.views import in_place
from fgrad.errors import NoValueError
from fgrad.numpy.arrays import as_target
from fgrad.ops import linear


class MaskedSelection(np.lib.mixins.NDArrayOperatorsMixin):
    """What `x[mask]` is where the mask has no value: for functions of elements, and to be written back."""

    __slots__ = ("full", "line", "mask")

    dispatches = True  # functions of fgrad.numpy hand it to NumPy's, which ask it
    full: Tensor  # all elements, of which the mask chooses
    mask: Tensor
    line: str  # where it was selected

    def __init__(self, full: Tensor, mask: Tensor) -> None:
        self.full, self.mask, self.line = full, mask, user_line()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self.full.dtype

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", (None,))
        simple = method == "__call__" and not kwargs and ufunc.nout == 1 and ufunc.signature is None
        mine = out[0] is None or out[0] is self
        if not (simple and mine and all(map(self._goes_along, inputs))):
            self._refuse()
        full = ufunc(*[x.full if isinstance(x, MaskedSelection) else x for x in inputs])
        if out[0] is None:
            return MaskedSelection(full, self.mask)
        self.full = in_place(alias(self.full), full)
        return self

    def _goes_along(self, x: Any) -> bool:
        """Return whether `x` is one number, or as many as these in the same places."""
        if isinstance(x, MaskedSelection):
            return x.full.shape == self.full.shape and same(x.mask, self.mask)
        return isinstance(x, int | float | complex | np.generic) or getattr(x, "shape", None) == ()

    def copy(self) -> MaskedSelection:
        """Return the same elements, to be changed apart from these."""
        return MaskedSelection(self.full, self.mask)

    def astype(self, dtype: Any) -> MaskedSelection:
        """Return the elements as `dtype`."""
        return MaskedSelection(linear.convert(self.full, np.dtype(dtype)), self.mask)

    def written(self, x: Tensor, index: Any) -> Tensor:
        """Return what `x` is after these were written to `index`, which has to be the mask."""
        if not (isinstance(index, Tensor) and same(index, self.mask) and x.shape == self.full.shape):
            self._refuse()
        new: Tensor = bind("where", _beside(self.mask, x), as_target(self.full, x), x)
        return new

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Say that the number of elements is not known."""
        trace = self.mask._value.trace
        raise NoValueError(
            f"indexing with a boolean array at {place_of(self.line)} needs the value of a Tensor, which "
            f"{trace.title} does not have. Without it, they may pass through elementwise functions and "
            "be written back under the same mask, x[mask] = f(x[mask]); and numpy.where(mask, x, 0).sum() is "
            "their sum. " + trace.remedy
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return f"<elements of {self.full!r} that a mask chooses>"

    __array__: Callable[..., NoReturn] = _refuse
    __array_function__: Callable[..., NoReturn] = _refuse
    __len__: Callable[..., NoReturn] = _refuse
    __iter__: Callable[..., NoReturn] = _refuse
    __getitem__: Callable[..., NoReturn] = _refuse
    __setitem__: Callable[..., NoReturn] = _refuse
    __bool__: Callable[..., NoReturn] = _refuse
    __int__: Callable[..., NoReturn] = _refuse
    __float__: Callable[..., NoReturn] = _refuse
    __complex__: Callable[..., NoReturn] = _refuse
    __index__: Callable[..., NoReturn] = _refuse


@functools.cache
def _declared() -> None:
    """Let whoever looks for arrays in arguments and results find out, too."""
    tree.register_pytree_node(MaskedSelection, MaskedSelection._refuse, MaskedSelection._refuse)


def _beside(mask: Tensor, x: Tensor) -> Any:
    """Return a mask of the first axes of `x` as one that broadcasts against it."""
    return linear.reshape(mask, (*mask.shape, *(1,) * (len(x.shape) - len(mask.shape))))


def masked_selection(x: Any, mask: Any) -> MaskedSelection | None:
    """Return the elements of a Tensor that a mask without value chooses; None where it is no such mask."""
    tracer = mask._value
    if not isinstance(tracer, Tracer) or tracer.trace not in current().traces or 0 in mask.shape:
        return None
    n = len(mask.shape)
    if mask.dtype.kind != "b" or not n or x.__class__ is not Tensor or x.shape[:n] != mask.shape:
        return None
    _declared()
    return MaskedSelection(bind("where", _beside(mask, x), x, np.ones((), x.dtype)), alias(mask))


def same(a: Tensor, b: Tensor) -> bool:
    """Return whether two Tensors are known to have one value."""
    v, w = a._value, b._value
    return v is w or (isinstance(v, Tracer) and isinstance(w, Tracer) and v.same(w))
