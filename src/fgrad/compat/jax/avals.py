"""What is known of arrays that are not there: shapes, dtypes, and that a tangent is zero."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import Array, Form, as_array, dtype_of, form_of, held, made
from fgrad.compat.jax.trees import tree_map
from fgrad.compat.jax.types import KEY, canonical, kind_of
from fgrad.core.tensor import Tensor

__all__ = ["CustomVJPPrimal", "ShapeDtypeStruct", "ShapedArray", "SymbolicZero", "typeof"]


def asked(name: str, holds: Callable[[Tensor], bool]) -> type:
    """Return a class, as an instance of which `isinstance` takes the arrays whose Tensor is as it asks."""

    def is_instance(cls: type, x: Any) -> bool:
        return x.__class__ is Array and holds(x._tensor)

    return type("Asked", (type,), {"__instancecheck__": is_instance})(name, (), {})  # type: ignore[no-any-return]


FLOAT0 = np.dtype([("float0", np.void, 0)])


class _Shaped:
    """The shape and dtype of an array."""

    shape: Any
    dtype: Any
    weak_type: Any

    def __init__(self, shape: Sequence[int], dtype: Any, weak_type: bool = False, **_: Any) -> None:
        self.shape, self.dtype, self.weak_type = tuple(shape), canonical(dtype), weak_type

    sharding = vma = None
    ndim: Any = property(lambda self: len(self.shape))
    size: Any = property(lambda self: math.prod(self.shape))

    def update(self, **changes: Any) -> Any:
        parts: dict[str, Any] = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type}
        return type(self)(**parts | changes)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Any:
        return self.shape, self.dtype, self.weak_type


class ShapeDtypeStruct(_Shaped):
    """The shape and dtype of an array that is not there."""

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak})"


class ShapedArray(_Shaped):
    """What is known of a traced array."""

    def str_short(self, *_: Any, **__: Any) -> str:
        """Return it as programs show it."""
        kind = f"{self.dtype.kind}{self.dtype.itemsize * 8}"
        kind = {"bool": "bool", "bfloat16": "bf16", KEY.name: KEY.name}.get(self.dtype.name, kind)
        return str(self).replace(self.dtype.name, kind, 1)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return f"ShapedArray({self.str_short()}{', weak_type=True' if self.weak_type else ''})"

    def strip_weak_type(self) -> Any:
        return self.update(weak_type=False)

    def to_tangent_aval(self) -> ShapedArray:
        """Return the same of its tangents."""
        return self if kind_of(self.dtype) in "fc" else FLOAT0_ARRAY(self.shape)

    at_least_vspace = to_tangent_aval


class FLOAT0_ARRAY(ShapedArray):  # noqa: N801
    """What is known of a tangent of integers."""

    def __init__(self, shape: Sequence[int], **_: Any) -> None:
        super().__init__(shape, bool)
        self.dtype = FLOAT0


class SymbolicZero:
    """A tangent or cotangent that is known to be zero."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    shape: Any = property(lambda self: self.aval.shape)
    dtype: Any = property(lambda self: self.aval.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval})"


def filled_in(zero: SymbolicZero) -> Array:
    """Return an array of zeros for what only says that it is zero."""
    return made(fnp.zeros(zero.shape, held(zero.dtype)), form_of(zero.dtype))


@dataclasses.dataclass(eq=False)
class CustomVJPPrimal:
    """An argument of a rule `fwd`, and whether it is differentiated."""

    value: Any
    perturbed: bool


def is_zero(x: Any) -> bool:
    """Return whether a tangent or cotangent is known to be zero."""
    return x is None or isinstance(x, SymbolicZero) or getattr(x, "dtype", None) == FLOAT0


def typeof(x: Any) -> ShapedArray:
    """Return what is known of an array, or of an abstract one."""
    if isinstance(x, ShapedArray):
        return x
    found = x if isinstance(x, _Shaped) else as_array(x)
    return ShapedArray(found.shape, found.dtype, found.weak_type)


Array.aval = property(typeof)  # type: ignore[attr-defined]


def shaped(x: Any, form: Form) -> ShapeDtypeStruct:
    """Return the shape and dtype of an array of a form, which a Tensor holds."""
    return ShapeDtypeStruct(x.shape, dtype_of(x, form), weak_type=form is True)


def example(tree: Any) -> Any:
    """Return a tree with arrays in the place of what has only a shape and a dtype."""

    def of(x: Any) -> Any:
        if isinstance(x, Array | Tensor | np.ndarray | np.generic) or hasattr(x, "__jax_array__"):
            return x
        if not (hasattr(x, "shape") and hasattr(x, "dtype")):
            return x
        dtype = canonical(x.dtype)
        zeros = np.broadcast_to(np.zeros((), held(dtype)), tuple(x.shape))
        return made(zeros, form_of(dtype, bool(getattr(x, "weak_type", False))))

    return tree_map(of, tree)
