"""`differentiate`: a kernel of Numba as a function of arrays and Tensors."""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, overload

import numba
import numpy as np

from fgrad import config, locks
from fgrad.adjoints import emission
from fgrad.adjoints.operation import call
from fgrad.adjoints.programs import Cost, Form, Program, Users, dtype_of
from fgrad.adjoints.records import Records, Struct, taken_apart
from fgrad.adjoints.sources import demand_frozen
from fgrad.adjoints.stored import content, keeping, stamped
from fgrad.adjoints.syntax import UnsupportedKernelError
from fgrad.compat.numba import (
    core_of,
    declared_signature,
    dispatcher_of,
    is_declared,
    is_dispatcher,
    is_dufunc,
    is_gufunc,
    loop_dtypes,
    options_of,
)
from fgrad.compat.numba_pipeline import short
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Tracer, current
from fgrad.core.views import check_writable
from fgrad.numpy.indexing import setitem
from fgrad.numpy.registry import storable
from fgrad.ops.linear import broadcast_to, reshape

ResultShape: TypeAlias = Callable[..., Any]
_FLOAT = np.dtype(float)
_WEAK = (int, float, complex)  # numbers of Python, which take the dtype of what they meet
_numbers = itertools.count(1)


class Differentiable:
    """A kernel with derivatives: called like the kernel itself, with arrays, numbers and Tensors.

    Attributes:
        kernel_to_differentiate: the user's dispatcher.
    """

    _run: Callable[..., None] | None = None  # what runs where the kernel is the loop of a ufunc

    def __init__(
        self, kernel: Any, checkpoint: int | bool = False, result_shape: ResultShape | None = None
    ) -> None:
        self.kernel_to_differentiate: Any = kernel
        self.checkpoint: int | bool = checkpoint
        self._result_shape, self._stamp, self._content = result_shape, stamped(kernel), content(kernel)
        self._compiled: Any = kernel  # what Numba compiles of the user's, and may have compiled before
        self.__name__: str = kernel.py_func.__name__
        self.__doc__ = kernel.py_func.__doc__
        self.__wrapped__: Callable[..., Any] = kernel.py_func
        self._count: int = kernel.py_func.__code__.co_argcount
        self._programs: dict[Any, Program] = {}
        self._last: Program | None = None

    def __repr__(self) -> str:
        return f"<differentiable kernel {self.__name__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel; where an argument is a Tensor, results are Tensors."""
        if kwargs or len(args) < self._count:
            args = self._bound(args, kwargs)
        leaves: list[Any] = []
        structure = _flattened(args, leaves)
        if not any(x.__class__ is Tensor for x in leaves):
            return self.kernel_to_differentiate(*args)
        program, operands = self._prepared(leaves, structure)
        targets = [x for x, p in zip(leaves, program.function.params, strict=True) if p.written]
        self._check_targets(leaves, program)
        given = [x if x.__class__ is Tensor else np.asarray(x)[()] for x in operands]
        outs = call(given, program)
        returned = len(program.function.returns)
        news = [storable(new) if x.__class__ is not Tensor else new
                for x, new in zip(targets, outs[returned:], strict=True)]  # fmt: skip
        for x, new in zip(targets, news, strict=True):
            if x.__class__ is Tensor:
                setitem(x, Ellipsis, new)
            else:
                x[...] = new
        return _rebuilt(getattr(program, "structure", None), outs)

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        bound = inspect.signature(self.__wrapped__).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args

    def _check_targets(self, leaves: Sequence[Any], program: Program) -> None:
        """Refuse arguments that share memory with one that is written to."""
        names = [p.name for p in program.function.params]
        for i, p in enumerate(program.function.params):
            if not p.written:
                continue
            if leaves[i].__class__ is Tensor:
                check_writable(leaves[i])
            elif not isinstance(leaves[i], np.ndarray):
                raise TypeError(
                    f"{self.__name__} writes to its argument {p.name}, which is a "
                    f"{type(leaves[i]).__name__}: pass an array or Tensor"
                )
            for j, other in enumerate(leaves):
                if i != j and _overlap(leaves[i], other):
                    raise ValueError(
                        f"{self.__name__} writes to its argument {names[i]}, which shares memory with its "
                        f"argument {names[j]}: its derivative takes them for two arrays. Pass a copy of one"
                    )

    def _program(self, args: Sequence[Any]) -> tuple[Program, list[Any]]:
        """Return the program for arguments like these, and its operands."""
        if len(args) < self._count:
            args = self._bound(args, {})
        leaves: list[Any] = []
        structure = _flattened(tuple(args), leaves)
        return self._prepared(leaves, structure)

    def _prepared(self, leaves: Sequence[Any], structure: Any) -> tuple[Program, list[Any]]:
        """Return the program for arguments of these types, and its operands."""
        kinds = [self._kind_of(x) for x in leaves]
        if is_declared(self.kernel_to_differentiate):
            given = _argument_types(structure, kinds)
            found = declared_signature(self.kernel_to_differentiate, given)
            if found is not None:  # otherwise the call says which types there are
                leaves = _converted(leaves, kinds, structure, found.args)
                kinds = [self._kind_of(x) for x in leaves]
        fixed = tuple(
            (i, x) for i, x in enumerate(leaves) if isinstance(x, bool | int | np.integer | np.bool_)
        )
        key = (structure, tuple(kinds), fixed)
        found = self._programs.get(key)
        if found is None:
            with locks.making:
                if len(self._programs) > config.cache_entries():  # of many integers
                    self._programs = {k: p for k, p in self._programs.items() if len(k) == 2}
                found = self._made(structure, kinds, fixed)
                self._programs[key] = found
        self._last = found
        places = {i for i, _ in fixed}
        return found, [x for i, x in enumerate(leaves) if i not in places]

    def _kind_of(self, x: Any) -> Any:
        """Return Numba's type of an argument, or say that it has none."""
        try:
            return _kind(x)
        except ValueError as error:
            raise TypeError(
                f"{self.__name__} gets a {type(x).__name__}, of which Numba knows no type: pass numbers, "
                "arrays, and tuples of those"
            ) from error

    def _made(self, structure: Any, kinds: Sequence[Any], fixed: Any) -> Program:
        base = self._programs.get((structure, tuple(kinds)))
        if base is None:
            types = _argument_types(structure, kinds)
            changed = self._changed()
            form = Form(
                lambda values: _unflattened(structure, iter(values)),
                lambda names, classes: _texts(structure, iter(names), classes),
                self._stamp,
                self._result_shape,
                self._run,
            )
            base = Users(self.kernel_to_differentiate, types, form)
            if changed:  # and it is no number, which lowering has named
                raise UnsupportedKernelError(
                    f"an array or function that {self.__name__} takes from outside has changed since it was "
                    "compiled, and Numba keeps what was there then: its derivative would be that of another "
                    f"function. Define {self.__name__} anew, or pass it as an argument"
                )
            base.function.snapshots = self.checkpoint
            self._programs[structure, tuple(kinds)] = base
        assert isinstance(base, Users)  # noqa: S101 -- as made above
        return base.with_fixed(fixed)

    def _changed(self) -> bool:
        """Return whether what the kernel names has changed since Numba compiled it."""
        demand_frozen(self._compiled)
        now = content(self.kernel_to_differentiate)
        if self._content and now != self._content and self._compiled.overloads:
            return True
        if now != self._content or not self._stamp:  # it names what came later
            self._content, self._stamp = now, stamped(self.kernel_to_differentiate)
        return False

    def cost(self, *args: Any) -> Cost:
        """Return what the adjoint with respect to all floating arguments takes at some arguments: it runs.

        Args:
            args: what the kernel is called with.

        Returns:
            Bytes of what is recorded at a time, and of the arrays that the adjoint makes.

        Example:
            >>> import fgrad
            >>> import numpy as np
            >>> @fgrad.kernel
            ... def logistic(x, steps):
            ...     for _ in range(steps):
            ...         x = 3.7 * x * (1.0 - x)
            ...     return x
            >>> logistic.cost(0.3, 10_000)
            Cost(stack_bytes=80000, array_bytes=0)
            >>> fgrad.differentiate(logistic.kernel_to_differentiate, checkpoint=True).cost(0.3, 10_000)
            Cost(stack_bytes=800, array_bytes=800)
        """
        program, operands = self._program(args)
        return program.cost([x._value if x.__class__ is Tensor else np.asarray(x)[()] for x in operands])

    def source(self, kind: str = "vjp", *args: Any) -> str:
        """Return the source of a derivative, with the user's names and lines.

        Args:
            kind: "vjp" for the adjoint with respect to all floating arguments, "jvp" for the tangent, "value"
                for the kernel as derivatives see it.
            args: arguments, whose types count; those of the last call where there are none.

        Raises:
            ValueError: there was no call, or the kind is another one.
        """
        if args:
            program, _ = self._program(args)
        elif self._last is not None:
            program = self._last
        else:
            raise ValueError(f"{self.__name__} was not called yet: give `source` arguments as examples")
        if kind == "value":
            return emission.written_function(program.function)
        if kind == "jvp":
            return emission.written_function(program.tangent.function)
        if kind == "vjp":
            wrt = tuple(i for i, p in enumerate(program.operands) if p.floating)
            adjoint = program.written_adjoint(wrt, tuple(program.floating_outputs))
            return adjoint.source(f"{self.__name__}_vjp")
        raise ValueError(f'source is "vjp", "jvp" or "value", not {kind!r}')


def _flattened(x: Any, leaves: list[Any]) -> Any:
    """Return the structure of nested tuples, with their leaves appended to a list."""
    if x is None:
        return None
    if isinstance(x, tuple):
        return (type(x), *[_flattened(part, leaves) for part in x])
    found = taken_apart(x)
    if found is not None:
        kind, parts = found
        return (kind, *[_flattened(part, leaves) for part in parts])
    leaves.append(x)
    return 0


def _unflattened(structure: Any, values: Iterator[Any]) -> Any:
    if structure is None:
        return None
    if structure == 0:
        return next(values)
    kind, *parts = structure
    items = [_unflattened(p, values) for p in parts]
    return tuple(items) if kind is tuple else kind(*items)


def _texts(structure: Any, names: Iterator[str], classes: dict[str, Any]) -> list[str]:
    """Return the text of arguments; `classes` gets those of named tuples."""

    def text(x: Any) -> str:
        if x is None:
            return "None"
        if x == 0:
            return next(names)
        kind, *parts = x
        inside = "".join(f"{text(p)}, " for p in parts)
        if kind is tuple:
            return f"({inside})"
        name = f"class_{len(classes)}"
        classes[name] = kind
        return f"{name}({inside})"

    return [text(part) for part in structure[1:]]


def _converted(
    leaves: Sequence[Any], kinds: Sequence[Any], structure: Any, wanted: Sequence[Any]
) -> list[Any]:
    """Return arguments with numbers in the types that a kernel was declared with, as Numba does."""
    types = [t for part, want in zip(structure[1:], wanted, strict=True) for t in _leaf_types(part, want)]
    found = []
    for x, have, given in zip(leaves, kinds, types, strict=True):
        want = given.type if isinstance(given, numba.types.Optional) else given
        if have == want or not isinstance(want, numba.types.Number | numba.types.Boolean):
            found.append(x)
        else:
            dtype = dtype_of(want)
            found.append(x.astype(dtype) if x.__class__ is Tensor else dtype.type(x))
    return found


def _leaf_types(structure: Any, ty: Any) -> list[Any]:
    """Return the types of the leaves of an argument; None where it is no tuple of those."""
    if not isinstance(structure, tuple):
        return [] if structure is None else [ty]
    kinds: Any = ty if isinstance(ty, numba.types.BaseTuple) else (None,) * (len(structure) - 1)
    return [t for part, kind in zip(structure[1:], kinds, strict=True) for t in _leaf_types(part, kind)]


def _argument_types(structure: Any, kinds: Sequence[Any]) -> list[Any]:
    from numba import types  # noqa: PLC0415 -- beside its one use

    def typed(x: Any, it: Any) -> Any:
        if x is None:
            return types.none
        if x == 0:
            return next(it)
        kind, *parts = x
        items = [typed(p, it) for p in parts]
        if isinstance(kind, Records | Struct):
            return kind.type
        return types.Tuple(items) if kind is tuple else types.BaseTuple.from_types(items, kind)

    it = iter(kinds)
    return [typed(part, it) for part in structure[1:]]


def _rebuilt(structure: Any, outs: Sequence[Any]) -> Any:
    if structure is None:
        return None
    if isinstance(structure, tuple):
        parts = [_rebuilt(part, outs) for part in structure]
        return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)
    return outs[structure]


def _kind(x: Any) -> Any:
    """Return Numba's type of an argument; of a Tensor that of its value."""
    if x.__class__ is Tensor:
        value = x._value
        if isinstance(value, Tracer) or not isinstance(value, np.ndarray | np.generic):
            aval_dtype, ndim = np.dtype(x.dtype), len(x.shape)
            base: Any = numba.from_dtype(aval_dtype)
            return numba.types.Array(base, ndim, "C") if ndim else base
        x = value if value.ndim else np.asarray(value)[()]
    if isinstance(x, np.ndarray):
        flags = x.flags
        return _kind_of_array(x.dtype, x.ndim, "F" if flags.f_contiguous and not flags.c_contiguous else "C")
    return numba.typeof(x)


@functools.lru_cache(256)
def _kind_of_array(dtype: np.dtype[Any], ndim: int, order: Any) -> Any:
    base = numba.from_dtype(dtype)
    return numba.types.Array(base, ndim, order) if ndim else base


def _root(x: Any) -> Any:
    while x._base is not None:
        base = x._base
        x = base[0] if isinstance(base, tuple) else base.base
    return x


def _overlap(x: Any, y: Any) -> bool:
    if x.__class__ is Tensor and y.__class__ is Tensor:
        if _root(x) is not _root(y):
            return False
        x, y = x._value, y._value
        if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
            return True
        return bool(np.shares_memory(x, y))
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return bool(np.may_share_memory(x, y) and np.shares_memory(x, y))
    return False


class Elementwise(Differentiable):
    """A ufunc that Numba compiles, with derivatives."""

    def __init__(self, ufunc: Any) -> None:
        function = dispatcher_of(ufunc).py_func
        names = list(inspect.signature(function).parameters)
        out, k, element = _others(("out", "k", "element"), names)
        elements = ", ".join(f"{n}[{k}]" for n in names)
        text = (
            f"def loop({', '.join([out, *names])}):\n"
            f"    for {k} in range(len({names[0] if names else out})):\n"
            f"        {out}[{k}] = {element}({elements})\n"
        )
        super().__init__(_written(function, text, element, {**options_of(ufunc), **short()}))
        self.ufunc, self._compiled = ufunc, dispatcher_of(ufunc)
        self.__name__, self.__doc__, self.__wrapped__ = function.__name__, function.__doc__, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the ufunc to arrays that broadcast; where one is a Tensor, the result is a Tensor."""
        if kwargs or not any(x.__class__ is Tensor for x in args):
            return self.ufunc(*args, **kwargs)
        program, operands = self._program(args)
        shape = np.broadcast_shapes(*[np.shape(x) for x in args])
        if program.formula is not None and any(t.is_staged for t in current().traces):
            values = [x if x.__class__ is float else _as(x, _FLOAT) for x in args]
            found = program.formula(values)
            if found.__class__ is Tensor and found.shape == shape:
                return found.copy() if any(found is x for x in values) else found
        (found,) = call(operands, program)
        return reshape(found, shape)

    def _program(self, args: Sequence[Any]) -> tuple[Program, list[Any]]:
        if len(args) != self.ufunc.nin:
            raise TypeError(f"{self.__name__} takes {self.ufunc.nin} arguments, not {len(args)}")
        shape = np.broadcast_shapes(*[np.shape(x) for x in args])
        own = [type(x) if type(x) in _WEAK else x.dtype if x.__class__ is Tensor else np.asarray(x).dtype
               for x in args]  # fmt: skip
        *kinds, kind = loop_dtypes(self.ufunc, own)
        given = list(map(_as, args, kinds))
        if len(shape) == 1 and all(np.shape(x) == shape for x in given):
            flat = given
        else:
            flat = [reshape(broadcast_to(x, shape), (math.prod(shape),)) for x in given]
        out = np.empty(math.prod(shape), kind)
        out.flags.writeable = False  # only its type counts: nobody need copy it
        program, operands = super()._program((out, *flat))
        program.function.params[0].fresh = True
        return program, operands

    def _run(self, out: Any, *args: Any) -> None:
        self.ufunc(*args, out)


class Generalized(Differentiable):
    """A generalized ufunc that Numba compiles, with derivatives."""

    def __init__(self, gufunc: Any) -> None:
        function, self.inputs, self.outputs, kinds = core_of(gufunc)
        names = list(inspect.signature(function).parameters)
        index, element = _others(("k", "element"), names)
        parts = []
        for k, (n, core) in enumerate(zip(names, [*self.inputs, *self.outputs], strict=True)):
            # what has no axes is a number, but for results, and where it is declared as an array
            is_number = k < len(self.inputs) and not (kinds and isinstance(kinds[k], numba.types.Array))
            parts.append(f"{n}[{index}]" if core or is_number else f"{n}[{index} : {index} + 1]")
        text = (
            f"def loop({', '.join(names)}):\n"
            f"    for {index} in range({names[-1]}.shape[0]):\n        {element}({', '.join(parts)})\n"
        )
        super().__init__(_written(function, text, element, options_of(gufunc)))
        self.gufunc, self._compiled = gufunc, dispatcher_of(gufunc)
        self.__name__, self.__doc__, self.__wrapped__ = function.__name__, function.__doc__, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the ufunc to arrays whose other axes broadcast; where one is a Tensor, so is the result."""
        if not any(x.__class__ is Tensor for x in (*args, *kwargs.values())):
            return self.gufunc(*args, **kwargs)
        if kwargs:
            raise TypeError(f"{self.__name__} of Tensors takes no keywords: {', '.join(kwargs)}")
        shape, flat = self._rows(args)
        count = len(self.inputs)
        super().__call__(*flat)
        found = [reshape(out, (*shape, *out.shape[1:])) for out in flat[count:]]
        for x, new in zip(args[count:], found, strict=False):
            if x.__class__ is Tensor:
                setitem(x, Ellipsis, new)
            else:
                x[...] = storable(new)
        return found[0] if len(found) == 1 else tuple(found)

    def _program(self, args: Sequence[Any]) -> tuple[Program, list[Any]]:
        return super()._program(self._rows(args)[1])

    def _run(self, *args: Any) -> None:
        self.gufunc(*args)

    def _rows(self, args: Sequence[Any]) -> tuple[tuple[int, ...], list[Any]]:
        """Return the shape over which a core is repeated, and arguments and results with that as one axis."""
        count = len(self.inputs)
        given = [x if x.__class__ is Tensor else np.asarray(x) for x in args]
        kinds = [np.dtype(x.dtype) for x in given]
        if len(given) == count:  # declared with types: NumPy says which of them
            kinds = list(self.gufunc.ufunc.resolve_dtypes((*kinds, *[None] * len(self.outputs))))
        sizes: dict[str, int] = {}
        for x, core in zip(given, [*self.inputs, *self.outputs], strict=False):
            sizes.update(zip(core, x.shape[len(x.shape) - len(core) :], strict=True))
        ends = [tuple([sizes[n] for n in core]) for core in (*self.inputs, *self.outputs)]
        loops = [x.shape[: len(x.shape) - len(end)] for x, end in zip(given, ends, strict=False)]
        shape = np.broadcast_shapes(*loops[:count])
        rows = math.prod(shape)
        flat = [reshape(broadcast_to(_as(x, kind), (*shape, *end)), (rows, *end))
                for x, kind, end in zip(given[:count], kinds, ends, strict=False)]  # fmt: skip
        outs = [
            Tensor(np.zeros((rows, *end), kind))
            for end, kind in zip(ends[count:], kinds[count:], strict=True)
        ]
        return shape, [*flat, *outs]


def _as(x: Any, dtype: np.dtype[Any]) -> Any:
    x = x if x.__class__ is Tensor else np.asarray(x)
    return x if x.dtype == dtype else x.astype(dtype)


def _others(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return names like some that are not taken."""
    made = []
    for n in names:
        numbered = (f"{n}_{i}" for i in itertools.count(1))
        made.append(next(m for m in itertools.chain([n], numbered) if m not in taken))
    return made


def _written(function: Callable[..., Any], text: str, element: str, options: dict[str, Any]) -> Any:
    """Return a function `loop` that Numba compiles, of a text in which a name stands for a kernel."""
    file = f"<{function.__name__}: loop {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    options = {**options, "error_model": "numpy"}  # as in all ufuncs: division by zero raises nothing
    namespace: dict[str, Any] = {element: numba.njit(**options)(function)}
    exec(compile(text, file, "exec"), namespace)  # noqa: S102 -- fgrad's own
    return numba.njit(**options)(namespace["loop"])


@overload
def differentiate(
    kernel: Callable[..., Any], *, checkpoint: int | bool = False, result_shape: ResultShape | None = None
) -> Differentiable: ...


@overload
def differentiate(
    *, checkpoint: int | bool = False, result_shape: ResultShape | None = None
) -> Callable[[Callable[..., Any]], Differentiable]: ...


def differentiate(
    kernel: Callable[..., Any] | None = None,
    *,
    checkpoint: int | bool = False,
    result_shape: ResultShape | None = None,
) -> Any:
    """Return a kernel of Numba as a function of arrays and Tensors, with derivatives of every order.

    The kernel stays as it is, and is what runs; its derivatives are written from its source, statement by
    statement, and compiled by Numba: about as fast as the kernel itself. Arguments that it writes to are
    outputs: a Tensor has its new value afterwards, as after `x[i] = v`.

    Args:
        kernel: what `numba.njit`, `numba.vectorize` or `numba.guvectorize` returns; or a function decorated
            twice, this one outside.
        checkpoint: how many snapshots a loop outside of others keeps instead of recording every turn: from
            each of them a part of the loop runs again before its reverse. True keeps about the square root of
            the number of turns, so memory grows as that. Values are the same.
        result_shape: what tells `jit` and `vmap` which shape a returned array has, where that depends on more
            than shapes and integers: a function of the same arguments, of which arrays have `shape` and
            `dtype`. It returns a shape, or a tuple of shapes where the kernel returns a tuple, with () for
            numbers. Results of other shapes raise ValueError.

    Returns:
        A function of the same arguments: arrays, numbers, and tuples of those. It calls the kernel where none
        is a Tensor. Without a kernel, a decorator.

    Raises:
        TypeError: it is no kernel of Numba.
        ValueError: `checkpoint` is less than 1.
        UnsupportedKernelError: at the first call with Tensors, where the kernel holds what has no derivative;
            the message names file and line.

    Derivative:
        That of the statements which run: `int(x)`, comparisons and indices are constants.

    Example:
        >>> import fgrad, numba
        >>> import numpy as np
        >>> @fgrad.differentiate
        ... @numba.njit
        ... def energy(x):
        ...     total = 0.0
        ...     for i in range(1, len(x)):
        ...         total += (x[i] - x[i - 1]) ** 2
        ...     return total
        >>> fgrad.grad(energy)(np.array([0.0, 1.0, 3.0]))
        array([-2., -2.,  4.])
    """
    if checkpoint is not False and checkpoint < 1:
        raise ValueError(f"checkpoint is a number of snapshots, or True, not {checkpoint}")
    if kernel is None:
        return functools.partial(differentiate, checkpoint=checkpoint, result_shape=result_shape)
    if isinstance(kernel, Differentiable):
        if not (checkpoint or result_shape) or isinstance(kernel, Elementwise | Generalized):
            return kernel
        own = kernel.checkpoint, kernel._result_shape
        return Differentiable(kernel.kernel_to_differentiate, checkpoint or own[0], result_shape or own[1])
    if is_dufunc(kernel):
        return Elementwise(kernel)
    if is_gufunc(kernel):
        return Generalized(kernel)
    if not is_dispatcher(kernel):
        raise TypeError(
            f"differentiate takes what numba.njit returns, not a {type(kernel).__name__}: decorate the "
            "function with @numba.njit, or use fgrad.kernel, which does it"
        )
    return Differentiable(kernel, checkpoint, result_shape)


@overload
def kernel(
    fun: Callable[..., Any], *, checkpoint: int | bool = False, result_shape: ResultShape | None = None
) -> Differentiable: ...


@overload
def kernel(
    *, checkpoint: int | bool = False, result_shape: ResultShape | None = None
) -> Callable[[Callable[..., Any]], Differentiable]: ...


def kernel(
    fun: Callable[..., Any] | None = None,
    *,
    checkpoint: int | bool = False,
    result_shape: ResultShape | None = None,
) -> Any:
    """Return a function of loops over elements, compiled by Numba, with derivatives of every order.

    Args:
        fun: a Python function of arrays and numbers that Numba compiles, and fgrad keeps on disk.
        checkpoint: as in `differentiate`.
        result_shape: likewise.

    Returns:
        What `differentiate` returns for it.

    Raises:
        UnsupportedKernelError: as there.

    Example:
        >>> import fgrad
        >>> import numpy as np
        >>> @fgrad.kernel
        ... def horner(c, x):
        ...     total = 0.0
        ...     for i in range(len(c) - 1, -1, -1):
        ...         total = total * x + c[i]
        ...     return total
        >>> fgrad.grad(horner, argnums=1)(np.array([1.0, 2.0, 3.0]), 2.0)
        np.float64(14.0)
    """
    if fun is None:
        return functools.partial(kernel, checkpoint=checkpoint, result_shape=result_shape)
    return differentiate(keeping(fun), checkpoint=checkpoint, result_shape=result_shape)


__all__ = ["Differentiable", "UnsupportedKernelError", "differentiate", "kernel"]
