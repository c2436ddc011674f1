"""`autograd.numpy`: NumPy's functions for arrays, fgrad's where an argument holds a Tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.compat.autograd.boxes import getval, notrace_primitive
from fgrad.core.aval import with_ones
from fgrad.core.tensor import Tensor
from fgrad.extend.engine import for_tensors, holds_tensor

_SEEN_THROUGH = {np.ndim, np.shape, np.iscomplexobj, np.result_type}
_KEPT = (float, int, type(None), type)


def names(theirs: ModuleType | Mapping[str, Any], ours: Any) -> dict[str, Any]:
    """Return the functions of a module, each of which takes Tensors if the function of `ours` does."""
    found: dict[str, Any] = {}
    space = theirs.__dict__ if isinstance(theirs, ModuleType) else theirs
    for name, value in list(space.items()):
        if name.startswith("_"):
            continue
        if isinstance(value, np.ufunc):
            found[name] = value  # which asks Tensors by itself
        elif value.__hash__ and value in _SEEN_THROUGH:
            found[name] = notrace_primitive(value)
        elif callable(value) and not isinstance(value, type):
            own = getattr(ours, name, None)
            found[name] = value if own is None else for_tensors(value)(own)
        elif isinstance(value, _KEPT):
            found[name] = value
    return found


def wrap_namespace(old: Mapping[str, Any], new: dict[str, Any]) -> None:
    """Put the functions of NumPy's namespace `old`, for Tensors too, into `new`."""
    new |= names(old, fnp)


LINALG: dict[str, Any] = names(np.linalg, fnp.linalg)
FFT: dict[str, Any] = names(np.fft, fnp.fft)
RANDOM: dict[str, Any] = names(np.random, None)
NUMPY: dict[str, Any] = names(np, fnp)


def where(condition: Any, *args: Any, **kwargs: Any) -> Any:
    """Return elements of x where `condition` holds, of y elsewhere; numbers and lists give the same."""
    branches = (*args, *(kwargs[name] for name in ("x", "y")[len(args) :] if name in kwargs))
    out = NUMPY_WHERE(condition, *branches)
    if not branches or any(map(_is_array, (condition, *branches))) or not isinstance(out, np.ndarray):
        return out
    return out.tolist()


def _is_array(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return any(map(_is_array, x))
    return isinstance(x, np.ndarray | np.generic | Tensor)


def _of_any(join: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that joins what any iterable yields, where NumPy asks for a sequence."""

    @wraps(join)
    def joined(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        return join(list(arrays) if isinstance(arrays, Iterator) else arrays, *args, **kwargs)

    return joined


class _Joined:
    """`r_` and `c_`: arrays joined by indexing."""

    def __init__(self, name: str) -> None:
        self._theirs, self._ours = getattr(np, name), getattr(fnp, name, None)

    def __getitem__(self, parts: Any) -> Any:
        if self._ours is not None and holds_tensor(parts):
            return self._ours[parts]
        return self._theirs[parts]


class _Integers(type):
    """The type of NumPy's integer types as programs see them: they also convert what is differentiated."""

    def __call__(cls, *args: Any) -> Any:
        return cls.mro()[1](*map(getval, args))

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.mro()[1])


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:  # noqa: N803 -- autograd's
    """Return matrices with the last axis of D as their diagonals; only for these three numbers: 0, -1, -2."""
    if (offset, axis1, axis2) != (0, -1, -2):
        raise NotImplementedError(
            "make_diagonal takes offset=0, axis1=-1, axis2=-2 only; numpy.diag has others"
        )
    return D[..., None] * np.eye(np.shape(D)[-1])


def metadata(x: Any) -> tuple[Any, ...]:
    """Return shape, number of axes, dtype, and whether it is complex."""
    if not isinstance(x, np.ndarray | np.generic):
        return np.shape(x), np.ndim(x), np.result_type(x), np.iscomplexobj(x)
    return x.shape, x.ndim, x.dtype, x.dtype.kind == "c"


NUMPY_WHERE: Callable[..., Any] = NUMPY["where"]
LINALG |= {"_dot": NUMPY["matmul"], "T": lambda x: fnp.swapaxes(x, -1, -2)}
for _name in ("int8", "int16", "int32", "int64", "integer"):
    NUMPY[_name] = _Integers(_name, (getattr(np, _name),), {})
for _name in ("column_stack", "concatenate", "hstack", "stack", "vstack"):
    NUMPY[_name] = _of_any(NUMPY[_name])
NUMPY |= {
    "__version__": np.__version__,
    "where": where,
    "r_": _Joined("r_"),
    "c_": _Joined("c_"),
    "make_diagonal": make_diagonal,
    "metadata": metadata,
    "index_exp": np.index_exp,
    "s_": np.s_,
    "row_stack": NUMPY["vstack"],
}


# ---- what rules of users are made of


def unbroadcast(x: Any, target_meta: tuple[Any, ...], broadcast_idx: int = 0) -> Any:
    """Return `x` summed to a shape from which it was broadcast, and real if that was real."""
    shape, ndim, _, iscomplex = target_meta
    if isinstance(x, np.floating) and not ndim:  # the usual case
        return x
    while np.ndim(x) > ndim:
        x = fnp.sum(x, axis=broadcast_idx)
    for axis, length in enumerate(shape):
        if length == 1 and np.shape(x)[axis] != 1:
            x = fnp.sum(x, axis=axis, keepdims=True)
    return fnp.real(x) if np.iscomplexobj(x) and not iscomplex else x


def unbroadcast_f(target: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `f` with its result summed to the shape of `target`."""
    target_meta = metadata(target)
    return lambda g: unbroadcast(f(g), target_meta)


def match_complex(target: Any, x: Any) -> Any:
    """Return `x` complex if `target` is complex, and real if it is real."""
    if np.iscomplexobj(target):
        return x if np.iscomplexobj(x) else x + 0j
    return fnp.real(x) if np.iscomplexobj(x) else x


def repeat_to_match_shape(g: Any, shape: Any, dtype: Any, axis: Any, keepdims: bool) -> tuple[Any, int]:
    """Return `g`, a reduction along `axis`, repeated to `shape`, and how many elements it was made of."""
    if shape == ():
        return g, 1
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis) % len(shape)
    count = int(np.prod([shape[i] for i in axes]))
    return fnp.reshape(g, with_ones(shape, axes)) + np.zeros(shape, dtype), count
