"""jit: a function is traced and compiled once for each signature, and from then on only called."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, MutableMapping, MutableSequence, MutableSet, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, overload
from weakref import ref

import numpy as np

from fgrad import config, tree
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import adopted, default_place, find, is_foreign, moved
from fgrad.compiler import Cost, Executable
from fgrad.compiler.plan import unrolled
from fgrad.compiler.simplify import simplify
from fgrad.core.aval import Aval
from fgrad.core.caches import LRU
from fgrad.core.control_flow import Scan, While
from fgrad.core.nonfinite import watching
from fgrad.core.placement import buffer_of
from fgrad.core.process import RarelyCollecting
from fgrad.core.program import Equation, Program, Var
from fgrad.core.rewriting.effects import communicates
from fgrad.core.snapshot import refuse_subclass
from fgrad.core.tensor import Tensor, alias, is_tracked, wrap
from fgrad.core.trace import FLOOR, current, next_level, running
from fgrad.core.tracebacks import shorten
from fgrad.errors import RetraceWarning
from fgrad.kernels import progress
from fgrad.locks import lazy, making
from fgrad.transforms.axes import bound_axes
from fgrad.transforms.calling import (
    Delivery,
    Transformed,
    bound,
    check_live,
    existing,
    has_tensor,
    integers,
    name_of,
    parameters_of,
)
from fgrad.transforms.captures import Captures, Draws
from fgrad.transforms.collectives import AcrossStageError
from fgrad.transforms.effects import reached
from fgrad.transforms.embedding import Staged, embedded
from fgrad.transforms.guard import MISS, Static, guard
from fgrad.transforms.procedure import Procedure, apply
from fgrad.transforms.retrace import Key, explain, leaf_names
from fgrad.transforms.stage import Inner, StagedTracer, demand_fits, fingerprint, frozen

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")

NUMBERS = (bool, int, float, complex)
GUARDS = 4  # the kinds of arguments with a short way
SHOWN = 100  # lines of a program in a notebook
UNROLLED = 20_000  # operations, from which on a line on the terminal says so
MANY = 50  # specialisations from which on somebody should hear of it


class Jit(Transformed, Generic[P, R]):
    """The function that is traced and compiled at its first call with each signature."""

    def __init__(self, fun: Callable[P, R], **options: Any) -> None:
        super().__init__(fun, **options)
        self.__wrapped__ = fun
        self._static, self._static_names = _statics(
            fun, options["static_argnums"], options["static_argnames"]
        )
        self._donated = _donated(fun, options["donate_argnums"], self._static)
        self._specialisations: LRU[Key, Specialisation] = LRU()
        self._guards: list[Any] = []  # functions, of a `kind`: a key, and the classes of the leaves
        self._traces = 0
        self._parted = False  # whether it matters which arguments without axes are arrays

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return `fun(*args, **kwargs)`."""
        for guarded in self._guards:
            found = guarded(args, kwargs)
            if found is not MISS:
                return found  # type: ignore[no-any-return]
        try:
            if config.jit_disabled():
                return self._run_python(args, kwargs)  # type: ignore[no-any-return]
            return self._call_slow(args, kwargs)  # type: ignore[no-any-return]
        except Exception as error:
            shorten(error)
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Jit, **self.options), (self.fun,)

    def _call_slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what `__call__` does, with every check."""
        call = Call(self, args, kwargs)
        found = self._specialisations.get(call.key)
        stale = "" if found is None else found.stale()
        if found is None or stale:
            try:
                found = self._specialise(call, stale)
            except AcrossStageError:  # the examples of a vmap around speak to each other: they run together
                return self._run_python(args, kwargs)
        result = found.run(call)
        if not kwargs and found.has_short_way(call, args):
            self._guard(found, call, args)
        return result

    def _guard(self, found: Specialisation, call: Call, args: tuple[Any, ...]) -> None:
        """Give arguments like these the short way at calls 1, 2, 4, 8, ... that did not find one.

        The first call makes it, so that the second one costs what all later ones do. There are `GUARDS` of
        them, and the oldest leaves; kinds that take turns would else drive each other out at every call.
        """
        found.calls += 1
        kind = call.key, [x.__class__ for x in call.leaves]
        if found.calls & (found.calls - 1) or any(g.kind == kind for g in self._guards):
            return
        guarded: Any = found.guard(call, args)
        if guarded is not None:
            guarded.kind = kind
            with making:
                if self._specialisations.get(call.key) is found:  # another thread may have dropped it
                    self._guards = [*self._guards, guarded][-GUARDS:]

    def _specialise(self, call: Call, stale: str) -> Specialisation:
        """Stage the function for arguments like these, and keep the result where it holds for later calls."""
        explain(self.fun, call.key, list(self._specialisations), call.names, stale)
        with RarelyCollecting():
            made = Specialisation(self.fun, call)
        if made.is_parted and not self._parted:
            with making:
                self._parted = True
                self._specialisations.clear()
                self._guards = []
            call.part()
        self._traces += 1
        if self._traces == MANY + 1:
            warnings.warn(
                f"jit of {name_of(self.fun)}: the function was traced {MANY} times, each time for different "
                "arguments or outside values. Where Python numbers or other values change from call to "
                "call, pass them as arrays; use static_argnums and static_argnames for arguments that take "
                "few different values, and create the jitted function once, not in a loop. `with "
                "fgrad.explain_retrace():` says what changed",
                RetraceWarning,
                stacklevel=4,
            )
        if made.is_kept:
            if stale or call.key not in self._specialisations:
                self._guards = [g for g in self._guards if g.kind[0] != call.key]
            for g in self._guards:  # they count as used, though their calls do not come by here
                self._specialisations.get(g.kind[0])
            if stale:
                self._specialisations[call.key] = made
            return self._specialisations.setdefault(call.key, made)
        return made

    def _run_python(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the Python function itself, on Tensors as while it is staged."""
        call = Call(self, args, kwargs)
        given, keywords = call.arguments([x if x.__class__ in NUMBERS else _handle(x) for x in call.leaves])
        return Delivery(call.as_numpy).tree(self.fun(*given, **keywords))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Return the program for arguments like these (arrays, or anything with shape and dtype)."""
        return Lowered(Specialisation(self.fun, Call(self, args, kwargs, abstract=True)))

    def as_njit(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Return the function for arguments like these, to be called inside of other `numba.njit` code.

        No Python runs when it is called, and threads may call it at the same time. Static arguments, and
        what the function takes from outside, are what they are now.

        Args:
            args: arrays (or anything with shape and dtype), numbers, and (named) tuples of them.
            kwargs: names of positional arguments.

        Returns:
            A function that Numba compiles, of the positional arguments that are not static. It takes arrays
            of the same dtypes and shapes, in any layout, and numbers that convert safely; it returns new
            arrays, numbers where there are no axes, and tuples of these. It works from Python too.
            Numba's own cache does not keep code that calls it (`cache=True` warns): it holds addresses of
            this process. The program is kept as long as the process lives.

        Raises:
            TypeError: an argument or result has another structure; or the function reads a Tensor from
                outside that is being differentiated.
            NotImplementedError: only Python computes one of the operations.

        The function raises ValueError for another shape, IndexError for an index that is out of bounds or a
        Python integer that it computes and that does not fit the dtype beside it; other dtypes are typing
        errors of Numba.

        Example:
            >>> import numba
            >>> from fgrad import grad, jit
            >>> x = np.array([1.0, 2.0])
            >>> slope = jit(grad(lambda x: np.sum(x**2))).as_njit(x)
            >>> @numba.njit
            ... def descended(x):
            ...     for _ in range(100):
            ...         x = x - 0.1 * slope(x)
            ...     return x
            >>> bool(np.all(np.abs(descended(x)) < 1e-8))
            True

        C code calls it by way of `numba.cfunc`:

            >>> from scipy import LowLevelCallable, integrate
            >>> curve = jit(grad(np.sin)).as_njit(0.0)
            >>> @numba.cfunc("float64(float64)")
            ... def integrand(x):
            ...     return curve(x)
            >>> value, _ = integrate.quad(LowLevelCallable(integrand.ctypes), 0.0, 1.0)
            >>> bool(np.isclose(value, np.sin(1.0)))
            True
        """
        call = Call(self, args, kwargs, abstract=True)
        made = Specialisation(self.fun, call)
        name = name_of(self.fun)
        given, keywords = call.given
        if keywords:
            raise TypeError(
                f"as_njit of {name}: {', '.join(keywords)} can be given by name only, but compiled code "
                "calls by position; make it static (static_argnames), or wrap the function in one without "
                "keywords"
            )
        if made.handles:
            raise TypeError(
                f"as_njit of {name}: the function reads a Tensor from outside that is being differentiated, "
                "but compiled code would know its present value only; make it an argument"
            )
        parts = made.procedure.program, call.names, given, made.out_structure, made.template, made.limits
        return embedded(Staged(name, *parts))

    def clear_cache(self) -> None:
        """Forget every program; the next call stages anew."""
        self._specialisations.clear()
        self._guards = []
        self._traces = 0


def _handle(x: Any) -> Tensor:
    return alias(check_live(x)) if x.__class__ is Tensor else Tensor(_array(x))


# ---- arguments --------------------------------------------------------------------------------------------


def _statics(fun: Callable[..., Any], nums: Any, names: Any) -> tuple[tuple[int, ...], frozenset[str]]:
    """Return which positions and which names are static, each completed from the other by the signature."""
    nums = existing(integers(nums, "static_argnums"), "static_argnums", fun)
    several = (names,) if isinstance(names, str) else names
    if not isinstance(several, Iterable) or not all(isinstance(s, str) for s in several):
        raise TypeError(f"static_argnames must be a name or a sequence of names, not {names!r}")
    names = tuple(several)
    parameters = parameters_of(fun)
    if parameters is None:
        return nums, frozenset(names)
    places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters) and set(names) - keywords:
        raise ValueError(
            f"static_argnames={names} asks for an argument that {name_of(fun)} does not have; "
            f"its arguments are {', '.join(p.name for p in parameters) or 'none'}"
        )
    found = {i % len(places) if places and i < 0 else i for i in nums}
    by_name = {places[i] for i in found if i < len(places)}
    return tuple(sorted({*found, *(places.index(s) for s in names if s in places)})), frozenset(
        {*names, *by_name}
    )


def _donated(fun: Callable[..., Any], nums: Any, static: Sequence[int]) -> tuple[int, ...]:
    """Return the positions of donated arguments."""
    found = existing(integers(nums, "donate_argnums"), "donate_argnums", fun)
    if any(i < 0 for i in found):
        raise ValueError(f"donate_argnums={nums!r} counts from the end, which {name_of(fun)} does not tell")
    both = sorted({*found} & {*static})
    if both:
        raise ValueError(
            f"jit of {name_of(fun)}: the argument {_called(fun, both[0])} is static and donated; a static "
            "value has no memory to donate"
        )
    return found


def _exactly(x: Any) -> Any:
    """Return what tells a static value from others that it equals: 1 from 1.0 and True, 0.0 from -0.0."""
    kind = type(x)
    if isinstance(x, float | complex | np.inexact):
        return kind, repr(x)
    if isinstance(x, tuple):
        return kind, tuple(map(_exactly, x))
    if isinstance(x, frozenset):
        return kind, frozenset((_exactly(part), part) for part in x)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return kind, tuple([_exactly(getattr(x, f.name, None)) for f in dataclasses.fields(x) if f.compare])
    return kind


class Call:
    """The arguments of one call: static values, and the leaves of the others with what is known of them."""

    leaves: list[Any]
    structure: Any

    def __init__(
        self, jit: Jit[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, abstract: bool = False
    ) -> None:
        self.fun: Callable[..., Any] = jit.fun
        self.device: Any | None = jit.options.get("device")
        self.donors: tuple[int, ...] = jit._donated
        args, kwargs = bound(jit.fun, args, kwargs)
        statics: dict[Any, Any] = {
            i % len(args): args[i % len(args)] for i in jit._static if -len(args) <= i < len(args)
        }
        self.count: int = len(args)
        self.given: tuple[tuple[Any, ...], dict[str, Any]] = (
            tuple([a for i, a in enumerate(args) if i not in statics]),
            {k: v for k, v in kwargs.items() if k not in jit._static_names},
        )
        statics |= {k: v for k, v in kwargs.items() if k in jit._static_names}
        self.statics = statics
        for k, v in statics.items():
            self._check_hash(k, v)
        self.leaves, self.structure = tree.flatten(self.given)
        self.as_numpy: bool = not has_tensor(self.leaves)
        self.kinds: tuple[tuple[Any, ...], ...] = tuple(
            [self._kind(i, x, abstract=abstract) for i, x in enumerate(self.leaves)]
        )
        values = tuple([(k, _exactly(v), v) for k, v in statics.items()])
        self.key: Key = Key(self.structure, self.kinds, values, bound_axes(), default_place())
        if jit._parted:
            self.part()

    def part(self) -> None:
        """Let the key tell arrays without axes, which are written to, from scalars, which are replaced."""
        for x in self.leaves:
            if x.__class__ is Tensor and isinstance(x._value, StagedTracer):
                x._value.is_array()  # who stages around has to tell them apart too
        kinds = zip(self.kinds, self.leaves, strict=True)
        self.key = self.key._replace(
            kinds=tuple([(*k[:2], np.ndarray) if _form(x) == "array" else k for k, x in kinds])
        )

    @property
    def donated(self) -> frozenset[int]:
        """The leaves whose memory the results may take: arrays in donated arguments; no Tensor is given."""
        if not self.donors or not self.as_numpy or self.device is not None:
            return frozenset()
        found, k = set(), 0
        for i, a in zip([i for i in range(self.count) if i not in self.statics], self.given[0], strict=True):
            leaves = tree.leaves(a)
            if i in self.donors:
                found |= {k + j for j, x in enumerate(leaves) if x.__class__ is np.ndarray or is_foreign(x)}
            k += len(leaves)
        return frozenset(found)

    @property
    def names(self) -> list[str]:
        """What to call each leaf."""
        places = [i for i in range(self.count) if i not in self.statics]
        return leaf_names(self.fun, places, *self.given)

    def _check_hash(self, k: Any, v: Any) -> None:
        try:
            hash(v)
        except TypeError:
            raise TypeError(
                f"jit of {name_of(self.fun)}: the static argument {_called(self.fun, k)} is of type "
                f"{type(v).__name__}, which has no hash. Static values are compared by == and hash: give a "
                "tuple or another immutable value, or make the argument an ordinary one"
            ) from None

    def _kind(self, i: int, x: Any, *, abstract: bool) -> tuple[Any, ...]:
        """Return the shape, dtype and, of a Python number, type of a leaf."""
        if x.__class__ is Tensor:
            check_live(x)
            return x.shape, x.dtype, x._value.weak if isinstance(x._value, StagedTracer) else None
        if x.__class__ in NUMBERS:
            if x.__class__ is int and not -(2**63) <= x < 2**63:
                raise OverflowError(
                    f"jit of {name_of(self.fun)}: the argument {self.names[i]} is {x}, and compiled "
                    "functions take Python integers as int64, which it does not fit. Pass a float or an "
                    "array of uint64, or make it static (static_argnums or static_argnames)"
                )
            return (), np.dtype(x.__class__), x.__class__
        if not isinstance(x, np.ndarray | np.generic) and is_foreign(x):
            x = adopted(x)
        if isinstance(x, np.ndarray | np.generic | DeviceArray) or (
            abstract and hasattr(x, "shape") and hasattr(x, "dtype")
        ):
            refuse_subclass(x)
            dtype = np.dtype(x.dtype)
            if dtype.kind in "fciub":
                return tuple(x.shape), dtype if dtype.isnative else dtype.newbyteorder("="), None
        if isinstance(x, np.random.Generator | np.random.RandomState):
            raise TypeError(
                f"jit of {name_of(self.fun)}: the argument {self.names[i]} is a {type(x).__name__} of "
                "NumPy, which would draw only once, when the function is traced. Pass a key, of which "
                "samples are a pure function (fgrad.random.key(seed), fgrad.random.split), or draw outside "
                "and pass the numbers"
            )
        described = (
            f"an array of dtype {x.dtype}"
            if isinstance(x, np.ndarray)
            else f"{x!r} of type {type(x).__name__}"
        )
        raise TypeError(
            f"jit of {name_of(self.fun)}: the argument {self.names[i]} is {described}, which is not an "
            "array of numbers. Make it static (static_argnums or static_argnames), which compares it by == "
            "and hash, or register its class with fgrad.register_pytree_node if it holds arrays"
        )

    def arguments(self, leaves: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and keyword arguments with `leaves` in the place of those given."""
        dynamic, keywords = tree.unflatten(self.structure, leaves)
        it = iter(dynamic)
        args = [self.statics[i] if i in self.statics else next(it) for i in range(self.count)]
        return args, {**keywords, **{k: v for k, v in self.statics.items() if isinstance(k, str)}}

    def values(self) -> list[Any]:
        """Return the leaves as arrays of native byte order, or Tensors."""
        found = [x if x.__class__ is Tensor else _array(x) for x in self.leaves]
        if self.device is None:
            return found
        return [x.to(self.device) if x.__class__ is Tensor else moved(x, self.device) for x in found]


def _called(fun: Callable[..., Any], k: Any) -> str:
    if isinstance(k, str):
        return repr(k)
    parameters = parameters_of(fun) or []
    return repr(parameters[k].name) if k < len(parameters) else str(k)


def _array(x: Any) -> Any:
    if x.__class__ is not np.ndarray and is_foreign(x):
        return adopted(x)
    a = np.asarray(x)
    return a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))


def _form(x: Any) -> str:
    """Return what an argument without axes is; "" for other ones."""
    if getattr(x, "shape", None) != ():
        return ""
    value = x._value if x.__class__ is Tensor else x
    if isinstance(value, StagedTracer):
        return value.form
    return "array" if isinstance(value, np.ndarray) else "scalar"


# ---- staging ----------------------------------------------------------------------------------------------


_CONSTANTS = (np.ndarray, np.generic, DeviceArray)


class _Tracing(Inner):
    """Stages the user's function, and notes the arrays from outside that it takes for constants."""

    def __init__(self, level: int) -> None:
        super().__init__(level, "jit")
        self.constants: dict[int, Any] = {}
        self.gradients = {}

    def operand(self, x: Any) -> Any:
        """Return `x` as it stands in an equation."""
        v = x._value if x.__class__ is Tensor else x
        if isinstance(v, _CONSTANTS):
            self.constants[id(v)] = v
        return super().operand(x)


class Specialisation:
    """A function staged for arguments of one kind.

    Attributes:
        procedure: the program of flat values; its first inputs are the `handles`, the others the leaves.
        handles: weak references to Tensors from outside that were followed, which are read at each call.
        limits: the leaves that are Python integers, with dtypes of small range that they have to fit.
        is_kept: whether it holds for later calls.
    """

    calls: int
    template: list[Static | None]
    out_structure: Any

    def __init__(self, fun: Callable[..., Any], call: Call) -> None:
        self.calls, self._fun = 0, fun  # that could have had a short way
        statics = list(call.statics.values())
        draws, before = Draws(fun, statics), Captures(fun, statics)
        stage, inputs, outputs = self._stage(fun, call)
        template, structure = self.template, self.out_structure

        def first() -> Any:
            return fingerprint(stage.equations, outputs, template)

        def again() -> Any:
            other, _, found = self._stage(fun, call)
            return fingerprint(other.equations, found, self.template)

        if source := draws.frozen(first, again):
            raise frozen("jit", fun, source)
        if len(stage.equations) > UNROLLED:
            hint = unrolled(stage.equations)
            progress.say(f"{name_of(fun)} has {len(stage.equations)} operations. {hint}".rstrip())
        self.template, self.out_structure = template, structure
        self.procedure: Procedure = Procedure(stage.program(inputs, outputs), name_of(fun))
        places = {v: i for i, v in enumerate(inputs)}
        self.limits: list[tuple[int, np.dtype[Any]]] = [
            (places[v], dtype) for v, dtypes in stage.numbers.items() for dtype in dtypes
        ]
        self.is_parted: bool = stage.is_parted
        after = Captures(fun, statics)
        # what it reads and changes itself is another thing at the next call, which is traced anew
        self._around = after if before.fresh() else before
        arrays, tensors = reached(fun, after)
        live = current().traces
        named = {_identity(t, live): t for t in tensors}
        captured = [t for _, t in stage.captured.values()]
        followed = [named.get(_identity(t, live)) for t in captured]
        self.is_kept: bool = None not in followed
        self.handles: list[Any] = [ref(t) for t in followed] if self.is_kept else captured
        ids = {id(t) for t in followed}
        # a constant may have been computed from any of them
        known = {id(t._value) for t in tensors} | set(map(id, arrays))
        if stage.constants.keys() <= known:
            tensors = [t for t in tensors if id(t) not in ids]
        values = before.values  # likewise of Tensors
        self._watched = [(ref(t), values.get(id(t), t._value), is_tracked(t)) for t in tensors]
        self._policy = config.escape_policy() if tensors else ""
        read = [(r, g) for r, g in (stage.gradients or {}).values() if g is not NotImplemented]
        self._gradients = [(r, g) for r, g in read if r() is not None]
        self._watched += [(ref(g), g._value, is_tracked(g)) for _, g in self._gradients if g is not None]

    def _stage(self, fun: Callable[..., Any], call: Call) -> tuple[_Tracing, list[Var], list[Any]]:
        """Run the function on values that are not there; return its inputs and outputs."""
        stage = _Tracing(next_level())
        inputs = [stage.var(Aval(shape, dtype)) for shape, dtype, _ in call.kinds]
        for v, name in zip(inputs, call.names, strict=True):
            v.rename(name)
        tracers = [
            wrap(StagedTracer(stage, v, weak)) for v, (_, _, weak) in zip(inputs, call.kinds, strict=True)
        ]
        for t, x in zip(tracers, call.leaves, strict=True):
            t._value.form = _form(x)
        stage.numbers = {v: set() for v, (_, _, weak) in zip(inputs, call.kinds, strict=True) if weak is int}
        with running((*current().traces, stage)):
            args, kwargs = call.arguments(tracers)
            found, self.out_structure = tree.flatten(fun(*args, **kwargs))
            self.template = [None if _is_array(y) else _static(y) for y in found]
            outputs = [stage.operand(y) for y in found if _is_array(y)]
        return stage, inputs, outputs

    def stale(self) -> str:
        """Return which captured value is not what it was when the function was staged; "" if all are."""
        if not self._around.fresh():
            return f"{self._around.changed() or 'what it reads from outside'} has changed"
        changed = "a Tensor that it reads from outside has changed, or is now being differentiated"
        for r, v, tracked in self._watched:
            t = r()
            if t is None or t._value is not v or is_tracked(t) is not tracked:
                return changed
        for r, g in self._gradients:
            t = r()
            if t is not None and t.grad is not g:
                return "the gradient of a Tensor that it reads from outside has changed"
        for r, aval in zip(self.handles, self.procedure.ins, strict=False):
            t = r()
            if t is None or t.shape != aval.shape or t.dtype != aval.dtype:
                return changed
        if self._watched and self._policy != config.escape_policy():
            return "what happens where a gradient gets lost is another thing"
        return ""

    def has_short_way(self, call: Call, args: tuple[Any, ...]) -> bool:
        """Return whether a call like this, of arguments by position, may have a short way."""
        if not self._is_direct or call.donors or call.device is not None or bound_axes():
            return False
        if current() is not FLOOR or watching() or len(args) != call.count or call.fun is not self._fun:
            return False
        places = {getattr(buffer_of(x), "place", None) for x in call.leaves}
        return len(places) <= 1  # a number beside an array on a device is sent there

    @lazy
    def _is_direct(self) -> bool:
        """Whether the program and its arguments are all that a call depends on."""
        if self.handles or self._watched or self._gradients or self.limits or not self.is_kept:
            return False
        if any(t is not None and t.copy is not None for t in self.template):
            return False
        procedure = self.procedure
        return not (communicates(procedure.program) or procedure.is_moving or procedure.held_place)

    def guard(self, call: Call, args: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Return the short way for arguments of this kind, if there is one."""
        place = next((getattr(buffer_of(x), "place", None) for x in call.leaves), None)
        executable = self.procedure.executable if place is None else self.procedure.on(place)
        results = self.out_structure, self.template
        return guard(executable, args, call.leaves, call.statics, *results, self._around)

    def run(self, call: Call) -> Any:
        """Return the results for arguments of this kind.

        Raises:
            OverflowError: a Python integer does not fit the dtype of the array that it meets.
        """
        for i, dtype in self.limits:
            demand_fits(call.leaves[i], dtype)
        deliver = Delivery(call.as_numpy)
        hand_over = deliver.leaf
        donated = call.donated
        if donated and self.is_kept and not self.handles and current() is FLOOR and not watching():
            outs: Sequence[Any] = self.procedure.run(call.values(), donated)
            hand_over = deliver.made  # which are new, or were the user's to give
        elif self.is_kept:
            outs = apply(self.procedure, [*(r() for r in self.handles), *call.values()])
        elif any(map(_is_long, self.procedure.program.equations)):
            outs = apply(self.procedure, [*self.handles, *call.values()])
        else:
            outs = self.procedure.program.run([*self.handles, *call.values()])
        it = (deliver.made(x) if x.__class__ is Tensor else hand_over(x) for x in outs)
        leaves = [next(it) if t is None else t.value if t.copy is None else t.copy() for t in self.template]
        return tree.unflatten(self.out_structure, leaves)


def _is_long(e: Equation) -> bool:
    """Return whether an operation repeats so often, or may, that it is worth to be compiled for one call."""
    code = e.params.get("code")
    return isinstance(code, While) or (isinstance(code, Scan) and (code.length is None or code.length > 100))


def _identity(t: Tensor, live: Sequence[Any]) -> tuple[int, ...]:
    """Return what tells a value, as live traces know it, from others."""
    return id(t._value), *sorted(id(n) for n in t._nodes if n.tape in live)


def _static(x: Any) -> Static:
    is_container = isinstance(x, MutableMapping | MutableSequence | MutableSet)
    is_matrix = type(x).__module__.startswith("scipy.sparse")
    return Static(x, getattr(x, "copy", None) if is_container or is_matrix else None)


def _is_array(x: Any) -> bool:
    return isinstance(x, Tensor | np.ndarray | np.generic | DeviceArray)


class Lowered:
    """A function staged for arguments of one kind, and not yet compiled."""

    def __init__(self, specialisation: Specialisation) -> None:
        self._procedure = specialisation.procedure
        self.is_whole: bool = specialisation._is_direct
        """Whether the program and its arguments are all that a call depends on."""

    @property
    def program(self) -> Program:
        """What the function does, as typed assignments, simplified."""
        return simplify(self._procedure.program)

    @property
    def source(self) -> str:
        """What it is compiled to: the steps in order, and each kernel with what it computes."""
        return self._procedure.executable.source

    def cost(self) -> Cost:
        """Return what one call takes: flops, bytes, kernels and how often they run, bytes of temporaries."""
        return self._procedure.executable.cost()

    def compile(self) -> Executable:
        """Return the executable: `run(leaves)` takes and returns lists of arrays."""
        return self._procedure.executable

    def __repr__(self) -> str:
        lines = str(self.program).splitlines()
        if len(lines) > SHOWN:
            half = SHOWN // 2
            lines[half:-half] = [f"    ... {len(lines) - 2 * half} more lines: print(lowered.program)"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.program._repr_html_()


class _Options(TypedDict, total=False):
    static_argnums: int | Sequence[int]
    static_argnames: str | Sequence[str]
    device: str | None
    donate_argnums: int | Sequence[int]


@overload
def jit(fun: np.ufunc, **options: Unpack[_Options]) -> Jit[..., Any]: ...


@overload
def jit(fun: Callable[P, R], **options: Unpack[_Options]) -> Jit[P, R]: ...


@overload
def jit(fun: None = None, **options: Unpack[_Options]) -> Callable[[Callable[P, R]], Jit[P, R]]: ...


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    device: str | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """Return `fun` compiled: it is traced and compiled once for each signature, and then only called.

    A signature is the structure of the arguments, the shape and dtype of each array, the types of Python
    numbers (which are weakly typed: they take the dtype of the arrays beside them), and the values of static
    arguments.

    Args:
        fun: takes and returns pytrees; None gives a decorator.
        static_argnums: positions of arguments that are Python values, compared by == and hash.
        static_argnames: names of such arguments. Either is completed from the other by the signature.
        device: where it runs, and where arguments are moved to: "cpu", "cuda", "cuda:1"; None: where they
            are.
        donate_argnums: positions of arguments whose memory results may reuse. A result of the same shape and
            dtype that is computed from such an array element by element is written over it. Do not use the
            argument afterwards. Arrays that are read-only, not contiguous or share memory with another
            argument are copied; Tensors are never written to.

    Returns:
        A function of the same arguments, with `lower(*args)`, which returns the `program`, its `source` and
        `cost()`, `as_njit(*args)`, a function for other compiled code, `clear_cache()`, and `__wrapped__`,
        the Python function.

    Raises:
        TypeError: an argument is neither an array nor static, a static value has no hash, or `fun` needs the
            value of an abstract array (`if`, `float`, `numpy.asarray`, data-dependent shapes) or draws
            random numbers from a Generator.
        IndexError: when called, an index is out of bounds.

    Results are NumPy's to rounding: sums may be taken in another order. They do not depend on the number of
    threads (`FGRAD_NUM_THREADS`). Kernels are kept on disk (`fgrad.cache`) and serve every size above 16, so
    another batch size is traced, but not compiled. Compilations longer than two seconds report their
    progress on a terminal, unless `FGRAD_QUIET=1`. `FGRAD_DISABLE_JIT=1` and `disable_jit` run the Python
    function instead.

    Side effects of `fun`, like `print` or `list.append`, happen when it is traced and not again;
    `fgrad.debug.print` and `fgrad.debug.callback` happen at every call. What `fun` reads from outside by name
    (numbers, arrays, attributes, functions) is compared in every call, and the function is traced again
    where it changed. Tensors from outside that a recording follows are read at every call; where others
    change, the function is traced again. Random numbers come from keys: those of a Generator would be drawn
    only once, and are refused.

    Derivative:
        That of `fun`, of every order; derivatives are compiled too.

    Example:
        >>> from fgrad import grad, jit
        >>> @jit
        ... def f(x):
        ...     return np.sum(np.sin(x) ** 2)
        >>> f(np.array([0.0, 1.0]))
        np.float64(0.708...)
        >>> jit(grad(f))(np.array([0.0, 1.0]))
        array([0.        , 0.9092...])
    """
    if device is not None:
        find(device)
    options: _Options = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "device": device,
        "donate_argnums": donate_argnums,
    }
    if fun is None:
        return partial(Jit, **options)
    return Jit(fun, **options)
