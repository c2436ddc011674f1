"""vectorize: a function of arrays of certain axes, applied along all other axes as generalised ufuncs are."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.backend.devices import adopted, is_foreign
from fgrad.core.aval import Shape
from fgrad.core.tensor import Tensor
from fgrad.ops.linear import reshape
from fgrad.transforms.calling import Delivery, Transformed, bound, has_tensor, name_of
from fgrad.transforms.vmap import vmap

Core = tuple[str, ...]

_AXES = r"\((?:\w+(?:,\w+)*)?\)"
_LIST = rf"{_AXES}(?:,{_AXES})*"


class Vectorize(Transformed):
    """The function applied along the axes that its signature does not name."""

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results along the axes to which the arguments broadcast."""
        excluded, signature = self.options["excluded"], self.options["signature"]
        if any(not isinstance(k, str) or k not in excluded for k in kwargs):
            args, kwargs = bound(self.fun, args, kwargs)
        free = [k for k in kwargs if k not in excluded]
        if free:
            raise TypeError(
                f"vectorize of {name_of(self.fun)}: the keyword arguments {free} have no place in the "
                "signature; name them in excluded, or give them by position"
            )
        names = self._names(len(args))
        fixed = {i for i, a in enumerate(args) if i in excluded or names[i] in excluded or a is None}
        places = [i for i in range(len(args)) if i not in fixed]
        arrays = [self._array(args[i]) for i in places]
        cores, outputs = self._cores(places, args, signature)
        sizes: dict[str, int] = {}
        loops = [
            self._loop_shape(x, core, i, sizes) for x, core, i in zip(arrays, cores, places, strict=True)
        ]
        deliver = Delivery(not has_tensor(args, kwargs))

        def one(*values: Any) -> Any:
            full = list(args)
            for i, v in zip(places, values, strict=True):
                full[i] = v
            return self._checked(self.fun(*full, **kwargs), outputs, sizes)

        try:
            shape = np.broadcast_shapes(*loops)
        except ValueError as error:
            raise ValueError(
                f"vectorize of {name_of(self.fun)}: the axes to loop over, of shapes "
                f"{' and '.join(map(str, loops))}, do not broadcast"
            ) from error
        out = _mapped(one, arrays, cores, loops, shape)
        return tree.map(deliver.leaf, out) if not isinstance(out, tuple) else tuple(map(deliver.leaf, out))

    def _names(self, n: int) -> list[Any]:
        code = getattr(self.fun, "__code__", None)
        names = list(code.co_varnames[: code.co_argcount]) if code else []
        return [*names, *[None] * n][:n]

    def _array(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return x
        x = adopted(x) if is_foreign(x) else np.asarray(x)
        if x.dtype.kind not in "fciub":
            raise TypeError(
                f"vectorize of {name_of(self.fun)}: an argument holds {x.dtype}, not numbers; "
                "name it in excluded"
            )
        return x

    def _cores(
        self, places: list[int], args: tuple[Any, ...], signature: str | None
    ) -> tuple[list[Core], list[Core] | None]:
        """Return the core axes of each argument that is looped over, and of each output."""
        if signature is None:
            return [()] * len(places), None
        inputs, outputs = _parsed(signature)
        if len(inputs) == len(args):  # the signature names excluded arguments too
            for i, core in enumerate(inputs):
                if i not in places and core:
                    raise ValueError(
                        f"vectorize of {name_of(self.fun)}: argument {i} is excluded or None, "
                        f"but the signature {signature!r} gives it axes"
                    )
            return [inputs[i] for i in places], outputs
        if len(inputs) != len(places):
            raise TypeError(
                f"vectorize of {name_of(self.fun)}: the signature {signature!r} has {len(inputs)} "
                f"arguments, but {len(places)} were given"
            )
        return inputs, outputs

    def _loop_shape(self, x: Any, core: Core, i: int, sizes: dict[str, int]) -> Shape:
        """Return the axes of an argument before its core axes, whose lengths go to `sizes`."""
        shape = tuple(x.shape)
        if len(shape) < len(core):
            raise ValueError(
                f"vectorize of {name_of(self.fun)}: argument {i} has shape {shape}, but the signature "
                f"{self.options['signature']!r} asks for at least {len(core)} axes, ({','.join(core)})"
            )
        split = len(shape) - len(core)
        for name, n in zip(core, shape[split:], strict=True):
            wanted = int(name) if name.isdigit() else sizes.setdefault(name, n)
            if wanted != n:
                raise ValueError(
                    f"vectorize of {name_of(self.fun)}: the axis {name!r} has length {n} in argument {i} of "
                    f"shape {shape}, but {wanted} before; the signature is {self.options['signature']!r}"
                )
        return shape[:split]

    def _checked(self, out: Any, outputs: list[Core] | None, sizes: dict[str, int]) -> Any:
        if outputs is None:
            return out
        if (len(outputs) == 1) == isinstance(out, tuple) or (
            isinstance(out, tuple) and len(out) != len(outputs)
        ):
            given = f"{len(out)} outputs" if isinstance(out, tuple) else "one output"
            raise TypeError(
                f"vectorize of {name_of(self.fun)}: the signature {self.options['signature']!r} has "
                f"{len(outputs)} outputs, but the function returned {given}"
            )
        known = dict(sizes)
        for y, core in zip(out if isinstance(out, tuple) else (out,), outputs, strict=True):
            shape = np.shape(y) if not hasattr(y, "shape") else tuple(y.shape)
            wanted = tuple(
                int(c) if c.isdigit() else known.setdefault(c, n)
                for c, n in itertools.zip_longest(core, shape[: len(core)])
            )
            if shape != wanted:
                raise ValueError(
                    f"vectorize of {name_of(self.fun)}: an output has shape {shape}, but the signature "
                    f"{self.options['signature']!r} and the arguments ask for ({','.join(core)}) = {wanted}"
                )
        return out


def _parsed(signature: str) -> tuple[list[Core], list[Core]]:
    """Return the core axes of the inputs and outputs that a signature like "(n,m),(m)->(n)" names."""
    text = re.sub(r"\s", "", signature)
    if not re.fullmatch(f"(?:{_LIST})?->{_LIST}", text):
        raise ValueError(f"not a valid gufunc signature: {signature!r}; write it like '(n,m),(m)->(n)'")
    inputs, outputs = (
        [tuple(filter(None, axes[1:-1].split(","))) for axes in re.findall(_AXES, side)]
        for side in text.split("->")
    )
    return inputs, outputs


def _mapped(
    one: Callable[..., Any],
    arrays: Sequence[Any],
    cores: Sequence[Core],
    loops: Sequence[Shape],
    shape: Shape,
) -> Any:
    """Return `one` mapped over the loop axes: neighbouring axes that the same arguments have are one vmap."""
    if math.prod(shape) == 1 or not arrays:
        shape_of_one = [tuple(x.shape)[len(x.shape) - len(c) :] for x, c in zip(arrays, cores, strict=True)]
        out = one(*(reshape(x, s) for x, s in zip(arrays, shape_of_one, strict=True)))
        return _each(out, lambda y: reshape(y, (*shape, *y.shape)))
    rank = len(shape)
    padded = [(*(1,) * (rank - len(s)), *s) for s in loops]
    groups: list[tuple[tuple[bool, ...], int]] = []  # which arguments have the axes, how many elements
    for n, lengths in zip(shape, zip(*padded, strict=True), strict=True):
        having = tuple(m != 1 for m in lengths)
        if n != 1 and groups and groups[-1][0] == having:
            groups[-1] = (having, groups[-1][1] * n)
        elif n != 1:
            groups.append((having, n))
    ready = [
        reshape(x, (*(n for where, n in groups if where[i]), *tuple(x.shape)[len(x.shape) - len(c) :]))
        for i, (x, c) in enumerate(zip(arrays, cores, strict=True))
    ]
    f = one
    for where, _ in reversed(groups):
        f = vmap(f, tuple(0 if w else None for w in where))
    return _each(f(*ready), lambda y: reshape(y, (*shape, *y.shape[len(groups) :])))


def _each(out: Any, f: Callable[[Any], Any]) -> Any:
    return tree.map(lambda y: f(y if hasattr(y, "shape") else np.asarray(y)), out)


def vectorize(
    pyfunc: Callable[..., Any] | None = None,
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Any:
    """Return `pyfunc` applied along the axes that its signature does not name, with broadcasting.

    Unlike `numpy.vectorize` it does not loop: the function runs once on all examples (`vmap`), so it
    differentiates and runs at the speed of arrays. Usable as a decorator.

    Args:
        pyfunc: takes arrays with the core axes of `signature` and returns an array or a tuple of arrays.
        excluded: positions or names of arguments that are passed as they are.
        signature: core axes as in "(n,m),(m)->(n)"; None: all arguments and outputs are numbers.

    Returns:
        A function of arrays whose leading axes broadcast, whose results have these axes first.

    Raises:
        ValueError: the signature is none, an argument has too few axes, lengths do not agree or do not
            broadcast.
        TypeError: another number of arguments or outputs than the signature says.

    Derivative:
        As of `vmap`; axes that were broadcast are summed over.

    Example:
        >>> import fgrad
        >>> product = fgrad.vectorize(lambda a, x: a @ x, signature="(n,m),(m)->(n)")
        >>> product(np.ones((2, 3)), np.ones((5, 3))).shape
        (5, 2)
    """
    if pyfunc is None:
        return functools.partial(vectorize, excluded=excluded, signature=signature)
    if isinstance(excluded, str | bytes) or not isinstance(excluded, Iterable):
        raise TypeError(
            f"excluded is a set of positions and names of arguments, like {{0, 'name'}}, not {excluded!r}"
        )
    for e in excluded:
        if isinstance(e, bool) or not isinstance(e, int | str):
            raise TypeError(f"excluded holds positions and names of arguments, not {e!r}")
        if isinstance(e, int) and e < 0:
            raise ValueError(f"excluded holds positions counted from 0, not {e}")
    if not (signature is None or isinstance(signature, str)):
        raise TypeError(f"a signature is text like '(n,m),(m)->(n)', not {signature!r}")
    if signature is not None:
        _parsed(signature)
    return Vectorize(pyfunc, excluded=frozenset(excluded), signature=signature)
