"""Functions of Python that see the values of arrays, in JAX's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad
from fgrad.compat.jax.arrays import as_array, made
from fgrad.compat.jax.errors import JaxRuntimeError
from fgrad.compat.jax.transformations import Flat
from fgrad.compat.jax.trees import flatten, tree_map, unflatten
from fgrad.compat.numba import is_dispatcher
from fgrad.transforms.stage import staging

_METHODS = {"legacy_vectorized": "broadcast_all"}


def _told(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose errors are those of compiled programs, if it is to run in one."""
    if not staging():
        return call

    def told(*values: Any) -> Any:
        try:
            return call(*values)
        except Exception as error:
            name = type(error).__name__
            raise JaxRuntimeError(f"INTERNAL: CpuCallback error calling callback: {name}: {error}") from error

    return told


def _called(through: Any, callback: Any, promised: Any, args: Any, kwargs: Any, **options: Any) -> Any:
    shapes, structure = flatten(promised)
    seen = np.asarray if is_dispatcher(callback) else as_array  # functions of Numba know no arrays of JAX's
    flat = Flat(lambda given: callback(*tree_map(seen, given[0]), **tree_map(seen, given[1])), (args, kwargs))

    def call(*values: Any) -> list[Any]:
        found, given = flatten(flat.called(values))
        if given != structure:
            raise TypeError(f"the callback returned {given}, and {structure} is promised")
        return [np.asarray(as_array(x)) for x in found]

    outs = through(_told(call), shapes, *flat.tensors, **options)
    return unflatten(structure, map(made, outs))


def pure_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = None,
    vmap_method: str | None = None, vectorized: bool | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """Return what Python computes of the values of arrays."""
    method = "broadcast_all" if vectorized else _METHODS.get(vmap_method or "", vmap_method)
    return _called(fgrad.pure_callback, callback, result_shape_dtypes, args, kwargs, vmap_method=method)


def io_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = None,
    ordered: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """Return what Python computes of the values of arrays, and does beside."""
    return _called(fgrad.io_callback, callback, result_shape_dtypes, args, kwargs)


def callback(function: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call Python with the values of arrays."""
    flat = Flat(lambda given: function(*given[0], **given[1]), (args, kwargs))

    def call(*values: Any) -> None:
        flat.called(values)

    fgrad.debug.callback(_told(call), *flat.tensors)


def print_(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print the values of arrays."""
    callback(lambda *xs, **named: print(fmt.format(*xs, **named)), *args, **kwargs)  # noqa: T201 -- that is it


DEBUG: dict[str, Any] = {"breakpoint": fgrad.debug.breakpoint, "callback": callback, "print": print_}
