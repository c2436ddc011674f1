"""Arguments and results of transformed functions: keywords, argnums, pytrees, NumPy in and out."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import adopted, given_back, is_foreign
from fgrad.core.tensor import Tensor, alias, is_traced, is_tracked, wrap
from fgrad.core.trace import Tracer, current
from fgrad.core.tracebacks import shorten


class Transformed:
    """A transformed function: a callable that pickles when the function does, also usable as a method."""

    def __init__(self, fun: Callable[..., Any], **options: Any) -> None:
        if not callable(fun):
            raise TypeError(
                f"{type(self).__name__} transforms a function, not {fun!r}; "
                "give the function itself and call the result with the arguments"
            )
        self.fun = fun
        self.options = options
        functools.update_wrapper(self, fun, updated=())

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def again(self, other: Callable[[Any], Any]) -> Any:
        """Return the same transformation of `other(fun)`, itself where that is `fun`."""
        fun = other(self.fun)
        return self if fun is self.fun else type(self)(fun, **self.options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.fun!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the transformed function."""
        try:
            return self._call(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Do what a call does."""
        raise NotImplementedError


def name_of(fun: Callable[..., Any]) -> str:
    """Return what an error message calls `fun`."""
    return getattr(fun, "__qualname__", None) or getattr(fun, "__name__", None) or repr(fun)


def parameters_of(fun: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters of a function; None where they are not known."""
    try:
        return list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return None


def parameter(fun: Callable[..., Any], i: int) -> str:
    """Return what an error message calls the positional argument `i` of `fun`: its name where it has one."""
    known = enumerate(parameters_of(fun) or ())
    names = [f"*{p.name}[{i - k}]" if p.kind is p.VAR_POSITIONAL else p.name for k, p in known]
    if i < len(names):
        return names[i]
    return names[-1] if names and names[-1].startswith("*") else f"argument {i}"


def bound(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with every keyword that names a positional parameter in its place."""
    if not kwargs:
        return args, kwargs
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return args, kwargs
    given = signature.bind(*args, **kwargs)
    return given.args, given.kwargs


def positions(argnums: int | Sequence[int], n: int, fun: Callable[..., Any]) -> list[int]:
    """Return `argnums` as positions among `n` arguments.

    Raises:
        TypeError: not integers.
        ValueError: a position that does not exist, or one given twice.
    """
    if argnums.__class__ is int and 0 <= argnums < n:
        return [argnums]
    if argnums.__class__ is tuple:
        for i in argnums:
            if i.__class__ is not int or not 0 <= i < n:
                break
        else:
            if len(set(argnums)) == len(argnums):
                return list(argnums)
    found = []
    for i in integers(argnums, "argnums"):
        if not -n <= i < n:
            raise ValueError(
                f"argnums={argnums!r} asks for argument {i}, but {name_of(fun)} was called with "
                f"{n} positional argument{'s' * (n != 1)}; count from 0"
            )
        found.append(i % n)
    if len(set(found)) != len(found):
        raise ValueError(f"argnums={argnums!r} names an argument twice")
    return found


def integers(given: Any, name: str) -> tuple[int, ...]:
    """Return what says which arguments are meant, an integer or several, as a tuple.

    Raises:
        TypeError: it is anything else; the message says which parameter, by `name`, this is.
    """
    several = (given,) if isinstance(given, int | np.integer) else given
    if not isinstance(several, str | bytes | Mapping) and isinstance(several, Iterable):
        found = tuple(several)
        if all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in found):
            return tuple(map(int, found))
    raise TypeError(f"{name} must be an integer or a sequence of integers, not {given!r}")


def existing(nums: tuple[int, ...], name: str, fun: Callable[..., Any]) -> tuple[int, ...]:
    """Return the positions of arguments counted from the first one, where the signature is known.

    Raises:
        ValueError: a function without `*args` does not have them.
    """
    parameters = parameters_of(fun)
    if parameters is None:
        return nums
    places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return nums
    if not all(-len(places) <= i < len(places) for i in nums):
        raise ValueError(
            f"{name}={nums} asks for an argument that {name_of(fun)} does not have; "
            f"its positional arguments are {', '.join(places) or 'none'}"
        )
    return tuple([i % len(places) for i in nums])


def has_tensor(args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> bool:
    """Return whether any leaf of the arguments is a Tensor: then results are Tensors."""
    for a in (*args, *kwargs.values()) if kwargs else args:
        if a.__class__ is Tensor:
            return True
        if (
            a.__class__ is not np.ndarray
            and not tree.is_leaf_type(a.__class__)
            and any(leaf.__class__ is Tensor for leaf in tree.leaves(a))
        ):
            return True
    return False


def check_live(t: Tensor) -> Tensor:
    """Return `t`; a tracer whose transformation ended raises.

    Raises:
        EscapedTensorError: `t` belongs to a transformation that does not run here.
    """
    if isinstance(t._value, Tracer) and t._value.trace not in current().traces:
        t._value.escaped()
    return t


def plain(x: Any) -> Any:
    """Return the array under a Tensor that no live trace concerns; anything else as it is."""
    return x._value if x.__class__ is Tensor and not is_traced(x) else x


def own_leaf(x: Any) -> Any:
    """Return a leaf that may be written to without a change of `x`: a new handle, or a copy of an array."""
    if x.__class__ is Tensor:
        return alias(x)
    if isinstance(x, np.ndarray) and x.flags.writeable:
        return x.copy("K")
    return x


def own(x: Any) -> Any:
    """Return a pytree of what may be written to without a change of the leaves of `x`."""
    return own_leaf(x) if tree.is_leaf_type(x.__class__) else tree.map(own_leaf, x)


_VALUES = (np.ndarray, np.generic, DeviceArray)


class Delivery:
    """Hands results to the user: arrays of their own where `as_numpy`, otherwise Tensors."""

    __slots__ = ("as_numpy", "taken")

    def __init__(self, as_numpy: bool) -> None:
        self.as_numpy: bool = as_numpy
        self.taken: set[int] = set()

    def leaf(self, x: Any) -> Any:
        """Return one result of the user's function, which may be his own, or be needed for a derivative."""
        if x.__class__ is Tensor:
            if self.as_numpy and x._value.__class__ is np.ndarray and not is_tracked(x):
                value: np.ndarray[Any, Any] = x._value
                return value.copy() if value.ndim else value[()]
            found = self.made(x)
            return (
                found.copy() if found is x._value and isinstance(found, np.ndarray | DeviceArray) else found
            )
        if not isinstance(x, np.ndarray | np.generic):
            return self.made(adopted(x).copy() if is_foreign(x) else x)
        return self.made(x.copy()) if isinstance(x, np.ndarray) else self.made(x)

    def made(self, x: Any) -> Any:
        """Return one result that a transformation computed."""
        kind = x.__class__
        if kind is Tensor:
            value = x._value
            if isinstance(value, Tracer):
                return alias(check_live(x))
            if not self.as_numpy or (x._nodes and is_tracked(x)):
                return alias(x)
            x, kind = value, value.__class__
        elif kind is not np.ndarray and not isinstance(x, _VALUES):
            return x
        elif not self.as_numpy:
            return wrap(x)
        if isinstance(x, np.generic):
            return x
        if x.ndim == 0 and kind is not DeviceArray:
            return x[()]
        flags = x.flags
        if id(x) in self.taken or not flags.owndata or not flags.writeable:
            x = x.copy()
        self.taken.add(id(x))
        return given_back(x) if kind is DeviceArray else x

    def tree(self, x: Any) -> Any:
        """Return a pytree of results."""
        if tree.is_leaf_type(x.__class__):
            return self.leaf(x)
        return tree.map(self.leaf, x)
