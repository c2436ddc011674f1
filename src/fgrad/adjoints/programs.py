"""Kernels for arguments of certain types, as functions of arrays: values, cotangents, the tangent kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from fgrad import locks
from fgrad.adjoints import emission, syntax
from fgrad.adjoints.adjoint import Adjoint
from fgrad.adjoints.compilation import compiled
from fgrad.adjoints.lowering import lowered
from fgrad.adjoints.syntax import Function
from fgrad.adjoints.tangent import tangent
from fgrad.backend.devices import on_host
from fgrad.core.aval import Aval
from fgrad.locks import lazy

_own = threading.local()
_making = locks.lock()


def stacks() -> tuple[Any, Any, Any]:
    """Return the stacks of this thread: of floats, integers and complex numbers."""
    found: tuple[Any, Any, Any] | None = getattr(_own, "stacks", None)
    if found is None:
        found = _own.stacks = (np.empty(1024), np.empty(1024, np.int64), np.empty(16, np.complex128))
    return found


def tangent_places(function: Function) -> list[int]:
    """Return for every floating output of a function the output of its tangent that goes with it."""
    kinds, count = function.types, len(function.returns)
    floating = [n for n in function.returns if syntax.is_floating(kinds[n])]
    found = [count + k for k in range(len(floating))]
    written = [p for p in function.params if p.written]
    start = count + len(floating) + len(written)
    return found + [start + k for k, _ in enumerate([p for p in written if p.floating])]


@dataclass(frozen=True)
class Cost:
    """What the adjoint of a kernel takes.

    Attributes:
        stack_bytes: of what is recorded, at the time when that is most.
        array_bytes: of the arrays that the adjoint makes outside of loops: cotangents, copies of arguments
            that are written to, the kernel's own arrays, and snapshots.
    """

    stack_bytes: int
    array_bytes: int


class Program:
    """A kernel with types: a pure function from values of its parameters to its outputs.

    Attributes:
        function: the kernel in the language of `syntax`.
        fixed: values of parameters that are no operands, by place.
        places: the parameters that are operands, in their order.
        family: code that is the same whatever the fixed values are.
        directions: how many of the first operands its outputs are linear in, those that are used.
    """

    def __init__(
        self,
        function: Function,
        fixed: tuple[tuple[int, Any], ...] = (),
        places: Sequence[int] | None = None,
        directions: int = 0,
        family: dict[str, Any] | None = None,
    ) -> None:
        known = dict(fixed)
        self.function, self.fixed, self.directions = function, fixed, directions
        self.places = (
            [i for i in range(len(function.params)) if i not in known] if places is None else list(places)
        )
        self.family: dict[Any, Any] = {} if family is None else family

    # ---- its signature ------------------------------------------------------------------------------

    @lazy
    def operands(self) -> list[syntax.Param]:
        """The parameters that are operands."""
        return [self.function.params[i] for i in self.places]

    @property
    def floating_outputs(self) -> list[int]:
        """The outputs that have derivatives."""
        kinds = self.function.types
        return [i for i, n in enumerate(self.function.outputs) if syntax.is_floating(kinds[n])]

    def filled(self, values: Sequence[Any]) -> list[Any]:
        """Return the values of all parameters."""
        known = {**dict(self.fixed), **dict(zip(self.places, values, strict=True))}
        return [known[i] for i in range(len(self.function.params))]

    @lazy
    def floating(self) -> list[int]:
        """The operands that have derivatives, in the order of the tangent's first operands."""
        order = sorted(range(len(self.places)), key=lambda k: self.places[k])
        return [k for k in order if self.operands[k].floating]

    def tangent_outputs(self) -> list[int]:
        """Return for each floating output the output of the tangent that goes with it."""
        return tangent_places(self.function)

    @lazy
    def tangent(self) -> Program:
        """The program (x, dx) -> (f(x), J dx)."""
        family = self.family.setdefault("tangent", {})
        if "function" not in family:
            family["function"] = tangent(self.function)
        n, k = len(self.function.params), len(self.floating)
        return Program(family["function"], self.fixed, [*range(n, n + k), *self.places], k, family)

    # ---- calls --------------------------------------------------------------------------------------

    @property
    def primal(self) -> Callable[..., Any]:
        """The compiled kernel, which writes to its arguments."""
        return self.code("primal", "primal", lambda: emission.written_function(self.function, "primal"))

    def code(self, key: Any, name: str, write: Callable[[], str]) -> Callable[..., Any]:
        """Return a compiled function of this family, made when it is first asked for."""
        found: Callable[..., Any] | None = self.family.get(key)
        if found is None:
            with _making:
                found = self.family[key] = compiled(write(), name, self.function)
        return found

    def arguments(self, values: Sequence[Any], *, own: bool) -> list[Any]:
        """Return values as compiled code takes them; with `own`, arrays that are written to are copies."""
        found = []
        for p, v in zip(self.function.params, self.filled(values), strict=True):
            made = np.empty_like(v, order="C") if own and p.fresh and v.__class__ is np.ndarray else None
            found.append(_argument(v, p.type, copies=own and p.written) if made is None else made)
        return found

    def run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs."""
        args = self.arguments(values, own=True)
        returned = self.primal(*args)
        written = [a for a, p in zip(args, self.function.params, strict=True) if p.written]
        return (*map(_output, returned), *written)

    def adjoint_source(self, wrt: tuple[int, ...], given: tuple[int, ...], name: str = "adjoint") -> str:
        """Return the source of the adjoint."""
        return self.written_adjoint(wrt, given).source(name)

    def written_adjoint(self, wrt: tuple[int, ...], given: tuple[int, ...]) -> Adjoint:
        """Return the adjoint with respect to some operands, for cotangents of some outputs."""
        names = [self.operands[i].name for i in wrt]
        return Adjoint(self.function, names, [self.function.outputs[i] for i in given])

    def adjoint(self, wrt: tuple[int, ...], given: tuple[int, ...]) -> Callable[..., Any]:
        """Return the compiled adjoint with respect to some operands, for cotangents of some outputs."""
        key = tuple([self.operands[i].name for i in wrt]), given
        return self.code(key, "adjoint", lambda: self.written_adjoint(wrt, given).compiled_source("adjoint"))

    def pullback(
        self, values: Sequence[Any], cts: Sequence[Any], wrt: tuple[int, ...], given: tuple[int, ...]
    ) -> tuple[Any, ...]:
        """Return the cotangents of operands from those of outputs."""
        args = self.arguments(values, own=False)
        kinds = [self.function.types[self.function.outputs[i]] for i in given]
        held = [_argument(ct, _contiguous(ty)) for ct, ty in zip(cts, kinds, strict=True)]
        *found, f, i, c = self.adjoint(wrt, given)(*args, *held, *stacks())
        _own.stacks = f, i, c
        return tuple([_typed(x, self.operands[k].type) for x, k in zip(found, wrt, strict=True)])

    def cost(self, values: Sequence[Any]) -> Cost:
        """Return what the adjoint takes at some values of all floating operands: it runs."""
        wrt = tuple([i for i, p in enumerate(self.operands) if p.floating])
        given = tuple(self.floating_outputs)
        made = self.code("cost", "cost", lambda: self.written_adjoint(wrt, given).source("cost", counts=True))
        args = self.arguments(values, own=False)
        outs = self.run(values)
        kinds = [self.function.types[self.function.outputs[i]] for i in given]
        held = [_argument(np.asarray(outs[i]), _contiguous(ty)) for i, ty in zip(given, kinds, strict=True)]
        *recorded, arrays = made(*args, *held, *stacks())
        sizes = [n * s.itemsize for n, s in zip(recorded, stacks(), strict=True)]
        return Cost(sum(sizes), arrays)

    # ---- shapes -------------------------------------------------------------------------------------

    def shape(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        """Return shapes and dtypes of the outputs.

        Raises:
            NotImplementedError: the kernel returns an array, whose shape is not known before it runs.
        """
        names = [p.name for p in self.operands]
        found = []
        for n in self.function.outputs:
            ty = self.function.types[n]
            if n in names:
                found.append(avals[names.index(n)])
            elif not syntax.is_array(ty):
                found.append(Aval((), numba.np.numpy_support.as_dtype(ty)))
            else:
                raise NotImplementedError(
                    f"the kernel {self.function.name} returns an array, whose shape is not known before it "
                    "runs: under jit or eval_shape, pass an array for it to write into"
                )
        return tuple(found)


class Users(Program):
    """The user's own kernel."""

    def __init__(self, kernel: Any, kinds: Sequence[Any], build: Callable[[list[Any]], list[Any]]) -> None:
        function, self.structure = lowered(kernel, kinds)
        super().__init__(function)
        self.kernel, self.build = kernel, build

    def with_fixed(self, fixed: tuple[tuple[int, Any], ...]) -> Program:
        """Return the same program with values for some parameters."""
        if not fixed:
            return self
        made = object.__new__(Users)
        made.structure, made.kernel, made.build = self.structure, self.kernel, self.build
        Program.__init__(made, self.function, fixed, family=self.family)
        return made

    def run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs, by the user's own code."""
        args = self.arguments(values, own=True)
        returned = self.kernel(*self.build(args))
        written = [a for a, p in zip(args, self.function.params, strict=True) if p.written]
        parts = [
            np.array(x) if any(np.may_share_memory(x, a) for a in args) else x for x in _leaves(returned)
        ]
        return (*map(_output, parts), *written)


def _leaves(x: Any) -> list[Any]:
    if x is None:
        return []
    return [leaf for part in x for leaf in _leaves(part)] if isinstance(x, tuple) else [x]


def _output(x: Any) -> Any:
    return x if isinstance(x, np.ndarray) else np.asarray(x)[()]


def _contiguous(ty: Any) -> Any:
    return ty.copy(layout="C") if syntax.is_array(ty) else ty


def _argument(v: Any, ty: Any, *, copies: bool = False) -> Any:
    """Return a value as compiled code for a type takes it."""
    if v.__class__ is not np.ndarray:
        v = on_host(v)
    dtype = numba.np.numpy_support.as_dtype(syntax.element(ty))
    if not syntax.is_array(ty):
        return dtype.type(v if not isinstance(v, np.ndarray) else v[()])
    order: Any = "F" if ty.layout == "F" else "C"
    if copies:
        return np.array(v, dtype, order=order)
    made = np.asarray(v, dtype, order=order)
    if not made.flags.aligned:
        return made.copy(order=order)
    return made if made.flags.writeable else np.asarray(_Window(made))


class _Window:
    """An array that nobody may write to, for compiled code, which only reads it: its type says otherwise."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def _typed(x: Any, ty: Any) -> Any:
    dtype = numba.np.numpy_support.as_dtype(syntax.element(ty))
    return x if isinstance(x, np.ndarray) else dtype.type(x)
