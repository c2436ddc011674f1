"""Kernels for arguments of certain types, as functions of arrays: values, cotangents, the tangent kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np

from fgrad import locks
from fgrad.adjoints import emission, shapes, syntax
from fgrad.adjoints.adjoint import Adjoint
from fgrad.adjoints.compilation import compiled
from fgrad.adjoints.formulas import formula
from fgrad.adjoints.lowering import lowered
from fgrad.adjoints.stacks import DTYPES, FIRST
from fgrad.adjoints.syntax import Function
from fgrad.adjoints.tangent import tangent
from fgrad.backend.devices import on_host
from fgrad.compat.numba_pipeline import compiled_at_once, put_back
from fgrad.core.aval import Aval
from fgrad.kernels.compilation import calling_llvm
from fgrad.locks import lazy

SMALL = 2**14  # bytes that are copied in less time than anything else takes
_own = threading.local()
locks.in_child(put_back)


class Reverse:
    """A compiled adjoint.

    Attributes:
        code: the function.
        signature: the types of its arguments.
        arrays: the cotangents that it writes to arrays which it is given; the others it returns.
        stacks: the letters of the stacks that it is given, and returns.
        uniform: the cotangents of arrays that it is given as one number, which is that of every element.
    """

    def __init__(self, program: Program, written: Adjoint, uniform: tuple[int, ...]) -> None:
        function = program.function
        params = {p.name: f for p, f in zip(function.params, program.forms, strict=True)}
        source = written.compiled_source("adjoint", {written.given[k] for k in uniform})
        self.code: Callable[..., Any] = compiled(source, "adjoint", function, whole=True)
        self.arrays: tuple[int, ...] = tuple([k for k, n in enumerate(written.wrt) if params[n].order])
        self.stacks: str = written.stacks
        self.uniform: tuple[int, ...] = uniform
        outs = dict(zip(function.outputs, program.output_forms, strict=True))
        given = [outs[n]._replace(ndim=0) if k in uniform else outs[n] for k, n in enumerate(written.given)]
        handed = [params[written.wrt[k]]._replace(order="C") for k in self.arrays]
        stacks = [_Form(DTYPES[k], 1, "C") for k in self.stacks]
        self.signature: tuple[Any, ...] = tuple(
            [f.type for f in (*params.values(), *given, *handed, *stacks)]
        )

    @lazy
    def entry(self) -> Callable[..., Any]:
        """The machine code for Python: it takes arguments for what `signature` says, and does not look."""
        with calling_llvm:
            return compiled_at_once(self.code, self.signature)


def taken_stacks(letters: str) -> list[Any]:
    """Return stacks of this thread, by letter: floats, integers, complex numbers."""
    found: dict[str, Any] | None = getattr(_own, "stacks", None)
    if found is None:
        found = _own.stacks = {k: np.empty(FIRST, dtype) for k, dtype in DTYPES.items()}
    return [found[k] for k in letters]


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
        base: the program of which it is the tangent.
        root: the program of one example.
        masks: for every axis of examples, the outermost first, which operands have it.
    """

    def __init__(
        self,
        function: Function,
        fixed: tuple[tuple[int, Any], ...] = (),
        places: Sequence[int] | None = None,
        directions: int = 0,
        family: dict[str, Any] | None = None,
        base: Program | None = None,
    ) -> None:
        known = dict(fixed)
        self.function: Function = function
        self.fixed: tuple[tuple[int, Any], ...] = fixed
        self.directions: int = directions
        self.base: Program | None = base
        self.places: list[int] = (
            [i for i in range(len(function.params)) if i not in known] if places is None else list(places)
        )
        self.family: dict[Any, Any] = {} if family is None else family
        self.root: Program = self
        self.masks: tuple[tuple[bool, ...], ...] = ()

    # ---- its signature ------------------------------------------------------------------------------

    @lazy
    def operands(self) -> list[syntax.Param]:
        """The parameters that are operands."""
        return [self.function.params[i] for i in self.places]

    @property
    def refuses(self) -> bool:
        """Whether the kernel raises or asserts, so that it has to run though nobody needs its results."""
        return self.function.refuses if self.base is None else self.base.refuses

    @lazy
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

    @lazy
    def tangent(self) -> Program:
        """The program (x, dx) -> (f(x), J dx)."""
        family = self.family.setdefault("tangent", {})
        if "function" not in family:
            family["function"] = tangent(self.function)
        n, k = len(self.function.params), len(self.floating)
        return Program(family["function"], self.fixed, [*range(n, n + k), *self.places], k, family, self)

    @lazy
    def formula(self) -> Callable[[Sequence[Any]], Any] | None:
        """What the loop of a ufunc does to its arguments, in operations; None where those do not say it."""
        made = formula(self.function)
        names = [p.name for p in self.function.params[1:]]
        return made and (lambda args: made(dict(zip(names, args, strict=True))))

    # ---- calls --------------------------------------------------------------------------------------

    @property
    def primal(self) -> Callable[..., Any]:
        """The compiled kernel, which writes to its arguments."""
        return self.code("primal", "primal", lambda: emission.written_function(self.function, "primal"))

    def code(self, key: Any, name: str, write: Callable[[], str]) -> Callable[..., Any]:
        """Return a compiled function of this family, made when it is first asked for."""
        found: Callable[..., Any] | None = self.family.get(key)
        if found is None:
            with locks.making:
                found = self.family[key] = compiled(write(), name, self.function)
        return found

    def arguments(self, values: Sequence[Any], *, own: bool) -> list[Any]:
        """Return values as compiled code takes them; with `own`, arrays that are written to are copies."""
        found = []
        for p, form, v in zip(self.function.params, self.forms, self.filled(values), strict=True):
            if own and p.fresh and v.__class__ is np.ndarray:
                found.append(np.empty_like(v, order="C"))
            else:
                found.append(form.taken(v, copies=own and p.written))
        return found

    @lazy
    def forms(self) -> list[_Form]:
        """How compiled code takes the values of parameters."""
        return [_Form.of(p.type) for p in self.function.params]

    @lazy
    def output_forms(self) -> list[_Form]:
        """How compiled code takes cotangents of outputs."""
        return [_Form.of(_contiguous(self.function.types[n])) for n in self.function.outputs]

    def run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs."""
        args = self.arguments(values, own=True)
        returned = self.primal(*args)
        written = [a for a, p in zip(args, self.function.params, strict=True) if p.written]
        return (*self.results(returned), *written)

    def results(self, returned: Sequence[Any]) -> list[Any]:
        """Return what compiled code returns: numbers, which Numba makes ones of Python, in their dtypes."""
        return [
            x if isinstance(x, np.ndarray) else kind.type(x)
            for x, kind in zip(returned, self.returned_dtypes, strict=True)
        ]

    @lazy
    def returned_dtypes(self) -> list[np.dtype[Any]]:
        """The dtypes of what is returned."""
        return [dtype_of(self.function.types[n]) for n in self.function.returns]

    def written_adjoint(self, wrt: tuple[int, ...], given: tuple[int, ...]) -> Adjoint:
        """Return the adjoint with respect to some operands, for cotangents of some outputs."""
        names = [self.operands[i].name for i in wrt]
        return Adjoint(self.function, names, [self.function.outputs[i] for i in given])

    def adjoint(
        self, wrt: tuple[int, ...], given: tuple[int, ...], cts: Sequence[Any] | None = None
    ) -> Reverse:
        """Return the compiled adjoint with respect to some operands, for cotangents of some outputs.

        Args:
            wrt: the operands.
            given: the outputs.
            cts: their cotangents, of which some may be one number for all elements; None: none is.
        """
        key: Any = ("adjoint", tuple([self.operands[i].name for i in wrt]), given)
        written = None
        lent = self.family.get(key)
        if lent is None:
            with locks.making:
                written = self.written_adjoint(wrt, given)
                lent = self.family[key] = [k for k, n in enumerate(written.given) if n in written.lent]
        uniform = tuple([k for k in lent if cts is not None and _is_uniform(cts[k])])
        found: Reverse | None = self.family.get((key, uniform))
        if found is None:
            with locks.making:
                written = written or self.written_adjoint(wrt, given)
                found = self.family[key, uniform] = Reverse(self, written, uniform)
        return found

    def pullback(
        self, values: Sequence[Any], cts: Sequence[Any], wrt: tuple[int, ...], given: tuple[int, ...]
    ) -> tuple[Any, ...]:
        """Return the cotangents of operands from those of outputs."""
        args = [f.passed(v) for f, v in zip(self.forms, self.filled(values), strict=True)]
        reverse = self.adjoint(wrt, given, cts)
        for k, (ct, i) in enumerate(zip(cts, given, strict=True)):
            args.append(ct[(0,) * ct.ndim] if k in reverse.uniform else self.output_forms[i].passed(ct))
        forms = [self.forms[self.places[i]] for i in wrt]
        found: list[Any] = [None] * len(wrt)
        for k in reverse.arrays:
            found[k] = np.empty(args[self.places[wrt[k]]].shape, forms[k].dtype)
        args += [found[k] for k in reverse.arrays]
        made = reverse.entry(*args, *taken_stacks(reverse.stacks))
        if reverse.stacks:  # which may have grown
            _own.stacks.update(zip(reverse.stacks, made[len(wrt) - len(reverse.arrays) :], strict=True))
        numbers = iter(made)
        return tuple([f.dtype.type(next(numbers)) if x is None else x
                      for x, f in zip(found, forms, strict=True)])  # fmt: skip

    def cost(self, values: Sequence[Any]) -> Cost:
        """Return what the adjoint takes at some values of all floating operands: it runs."""
        wrt = tuple([i for i, p in enumerate(self.operands) if p.floating])
        given = tuple(self.floating_outputs)
        made = self.code("cost", "cost", lambda: self.written_adjoint(wrt, given).source("cost", counts=True))
        args = self.arguments(values, own=False)
        outs = self.run(values)
        held = [self.output_forms[i].taken(np.asarray(outs[i])) for i in given]
        own = taken_stacks("fic")
        *recorded, arrays = made(*args, *held, *own)
        sizes = [n * s.itemsize for n, s in zip(recorded, own, strict=True)]
        return Cost(sum(sizes), arrays)

    # ---- shapes -------------------------------------------------------------------------------------

    def shape(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        """Return shapes and dtypes of the outputs.

        Raises:
            NotImplementedError: the kernel returns an array, whose shape is not known before it runs.
        """
        by_name = {p.name: a for p, a in zip(self.operands, avals, strict=True)}
        found = [Aval(s, d) for s, d in zip(self.returned_shapes(avals), self.returned_dtypes, strict=True)]
        return (*found, *[by_name[p.name] for p in self.function.params if p.written])

    def returned_shapes(self, avals: Sequence[Aval]) -> list[shapes.Shape]:
        """Return the shapes of what is returned.

        Raises:
            NotImplementedError: one is not known before the kernel runs.
        """
        function = self.function
        if self.base is not None:
            own = self.base.returned_shapes(avals[self.directions :])
            floating = [syntax.is_floating(function.types[n]) for n in function.returns[: len(own)]]
            return own + [s for s, f in zip(own, floating, strict=True) if f]
        arrays = {
            p.name: a.shape for p, a in zip(self.operands, avals, strict=True) if syntax.is_array(p.type)
        }
        numbers = {function.params[i].name: x for i, x in self.fixed}
        known = shapes.array_shapes(function, arrays, numbers)
        found = []
        for n in function.returns:
            if syntax.is_array(function.types[n]) and n not in known:
                raise NotImplementedError(
                    f"the kernel {function.name} returns an array, {n}, whose shape depends on more than the "
                    "shapes of arrays and integers that are not traced (under jit those are static_argnums), "
                    "so that it is not known before the kernel runs: under jit, vmap or eval_shape pass an "
                    "array for it to write into, or say which shape it is by "
                    "fgrad.differentiate(kernel, result_shape=lambda *args: ...)"
                )
            found.append(known.get(n, ()))
        return found


class Users(Program):
    """The user's own kernel."""

    def __init__(self, kernel: Any, kinds: Sequence[Any], form: Form) -> None:
        function, self.structure = lowered(kernel, kinds)
        super().__init__(function)
        self.kernel: Any = kernel
        self.form: Form = form

    def with_fixed(self, fixed: tuple[tuple[int, Any], ...]) -> Program:
        """Return the same program with values for some parameters."""
        if not fixed:
            return self
        made = object.__new__(Users)
        made.structure, made.kernel, made.form = self.structure, self.kernel, self.form
        Program.__init__(made, self.function, fixed, family=self.family)
        return made

    def run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs, by the user's own code."""
        args = self.arguments(values, own=True)
        returned = (self.form.run or self.kernel)(*self.form.build(args))
        written = [a for a, p in zip(args, self.function.params, strict=True) if p.written]
        parts = [
            np.array(x) if any(np.may_share_memory(x, a) for a in args) else x for x in _leaves(returned)
        ]
        if self.form.result_shape is not None:
            self.demand_shapes(values, parts)
        return (*self.results(parts), *written)

    def returned_shapes(self, avals: Sequence[Aval]) -> list[shapes.Shape]:
        """Return the shapes of what is returned, as the user says they are where that is so."""
        if self.form.result_shape is None:
            return super().returned_shapes(avals)
        said = self.form.result_shape(*self.form.build(self.filled(avals)))
        found: list[shapes.Shape] = []
        _shapes(self.structure, said, found)
        ranks = [self.function.types[n].ndim if syntax.is_array(self.function.types[n]) else 0
                 for n in self.function.returns]  # fmt: skip
        if [len(s) for s in found] != ranks:
            raise ValueError(
                f"result_shape of {self.function.name} gives {said}, but what it returns has "
                f"{', '.join(map(str, ranks))} axes"
            )
        return found

    def demand_shapes(self, values: Sequence[Any], parts: Sequence[Any]) -> None:
        """Refuse results of other shapes than the user said."""
        said = self.returned_shapes([Aval(np.shape(v), np.result_type(v)) for v in values])
        for s, x in zip(said, parts, strict=True):
            if np.shape(x) != s:
                raise ValueError(
                    f"{self.function.name} returned an array of shape {np.shape(x)}, where result_shape "
                    f"says {s}"
                )


class Form(NamedTuple):
    """How a kernel is called.

    Attributes:
        build: its arguments from the values of parameters.
        texts: the same of names; a dictionary gets the classes of named tuples.
        stamp: what it was before it was compiled, as of `stored.stamped`.
        result_shape: what the user says of the shapes of results, from its arguments.
        run: what runs it, where that is no kernel but a ufunc.
    """

    build: Callable[[Sequence[Any]], Sequence[Any]]
    texts: Callable[[Sequence[str], dict[str, Any]], Sequence[str]]
    stamp: str
    result_shape: Callable[..., Any] | None = None
    run: Callable[..., Any] | None = None


def _shapes(structure: Any, said: Any, found: list[shapes.Shape]) -> None:
    """Take apart what a user says of shapes: a shape for each array or number that a kernel returns."""
    if isinstance(structure, tuple):
        for part, s in zip(structure, said, strict=True):
            _shapes(part, s, found)
    elif structure is not None:
        found.append(tuple(map(int, said)) if isinstance(said, tuple | list) else (int(said),))


def dtype_of(ty: Any) -> np.dtype[Any]:
    """Return the dtype of a number, or of the elements of an array."""
    found: np.dtype[Any] = numba.np.numpy_support.as_dtype(syntax.element(ty))
    return found


def _leaves(x: Any) -> list[Any]:
    if x is None:
        return []
    return [leaf for part in x for leaf in _leaves(part)] if isinstance(x, tuple) else [x]


def _contiguous(ty: Any) -> Any:
    return ty.copy(layout="C") if syntax.is_array(ty) else ty


class _Form(NamedTuple):
    """How compiled code takes a value."""

    dtype: np.dtype[Any]
    ndim: int
    order: Any  # of arrays; "" for numbers

    @classmethod
    def of(cls, ty: Any) -> _Form:
        """Return the form of a type."""
        if not syntax.is_array(ty):
            return cls(dtype_of(ty), 0, "")
        return cls(dtype_of(ty), ty.ndim, "F" if ty.layout == "F" else "C")

    @property
    def type(self) -> Any:
        """Numba's type."""
        base = numba.from_dtype(self.dtype)
        return numba.types.Array(base, self.ndim, self.order) if self.ndim else base

    def taken(self, v: Any, *, copies: bool = False) -> Any:
        """Return a value as Numba's functions take it."""
        if copies and self.order:
            return np.array(on_host(v), self.dtype, order=self.order)
        made = self.passed(v)
        if not self.order or made.flags.writeable:
            return made
        return made.copy(self.order) if made.nbytes <= SMALL else np.asarray(_Window(made))

    def passed(self, v: Any) -> Any:
        """Return a value as machine code takes it."""
        if v.__class__ is not np.ndarray:
            v = on_host(v)
        if not self.order:
            return self.dtype.type(v if not isinstance(v, np.ndarray) else v[()])
        made = np.asarray(v, self.dtype, order=self.order)
        return made if made.flags.aligned else made.copy(order=self.order)


def _is_uniform(ct: Any) -> bool:
    """Return whether all elements of an array are one in memory."""
    return ct.__class__ is np.ndarray and ct.size > 0 and not any(ct.strides)


class _Window:
    """An array that nobody may write to, for compiled code, which only reads it: its type says otherwise."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}
