"""Numba: its compiler lock, the classes of its functions, what it knows of types, CUDA's simulator."""

from __future__ import annotations

import ast
import functools
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from fgrad.blocks import suppress
from fgrad.compat import self_test


def lock_holder() -> Any:
    """Return the object whose `_lock` Numba's compiler takes; None where none is known, or none was made."""
    return getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)


# ---- functions and types -------------------------------------------------------------------------------


@self_test
def functions_are_known() -> bool:
    """Return whether functions are of the classes that are looked for, and types are found of operands."""
    import numba  # noqa: PLC0415 -- late, as below

    function, ufunc, gufunc = numba.njit(_same), numba.vectorize(_same), numba.guvectorize("()->()")(_copied)
    declared = numba.njit("int64(int64)")(_same)
    found = typing_context().resolve_value_type(1.0)
    kinds = is_dispatcher(function), is_dufunc(ufunc), is_gufunc(gufunc)
    return (
        all(kinds)
        and not is_dispatcher(ufunc)
        and core_of(gufunc) == (_copied, [()], [()], None)
        and options_of(ufunc) == options_of(gufunc) == {}
        and isinstance(ufunc.ufunc, np.ufunc)
        and found == numba.float64
        and not is_declared(function)
        and is_declared(declared)
    )


def _same(x: Any) -> Any:
    return x


def _copied(x: Any, out: Any) -> None:
    out[0] = x


def is_dispatcher(x: Any) -> bool:
    """Return whether `x` is a function that `numba.njit` made."""
    from numba.core.registry import CPUDispatcher  # noqa: PLC0415 -- late: few programs use Numba

    return isinstance(x, CPUDispatcher)


def is_refusal(error: Exception) -> bool:
    """Return whether Numba raised `error` because it cannot compile something."""
    from numba.core.errors import NumbaError  # noqa: PLC0415 -- late, as above

    return isinstance(error, NumbaError)


def is_dufunc(x: Any) -> bool:
    """Return whether `x` is a function that `numba.vectorize` made."""
    from numba.np.ufunc.dufunc import DUFunc  # noqa: PLC0415 -- late, as above

    return isinstance(x, DUFunc)


def is_gufunc(x: Any) -> bool:
    """Return whether `x` is a function that `numba.guvectorize` made."""
    from numba.np.ufunc.gufunc import GUFunc  # noqa: PLC0415 -- late, as above

    return isinstance(x, GUFunc)


def core_of(gufunc: Any) -> tuple[Any, list[tuple[str, ...]], list[tuple[str, ...]], Any]:
    """Return the function of a generalized ufunc, its axes, and the types it was declared with, or None."""
    builder = gufunc.gufunc_builder
    kinds = builder._sigs[0] if builder._sigs else None
    return builder.py_func, builder.sin, builder.sout, getattr(kinds, "args", kinds)


def dispatcher_of(ufunc: Any) -> Any:
    """Return what compiles the function of a ufunc of Numba, or of a generalized one."""
    return ufunc.gufunc_builder.nb_func if is_gufunc(ufunc) else ufunc._dispatcher


def frozen_names(dispatcher: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names that a compiled function takes from outside, with what they stood for at that time.

    Of code that came from Numba's files they are the numbers alone. Loops that it runs in parallel show none,
    nor does what a shorter pipeline compiled.
    """
    from numba.core import ir  # noqa: PLC0415 -- late, as above

    file = dispatcher.py_func.__code__.co_filename  # others' code may have been put into it
    for made in list(dispatcher.overloads.values()):
        known = made.type_annotation
        if isinstance(known, str):
            for name, text in re.findall(r"= (?:global|freevar)\((\w+): (.*)\)  ::", known):
                with suppress(ValueError, SyntaxError):
                    yield name, ast.literal_eval(text)
            continue
        for block in getattr(known, "blocks", {}).values():
            for s in block.find_insts(ir.Assign):
                if isinstance(s.value, ir.Global | ir.FreeVar) and s.loc.filename == file:
                    yield s.value.name, s.value.value


def options_of(ufunc: Any) -> dict[str, Any]:
    """Return the options of `numba.njit` that a ufunc of Numba, or a generalized one, was made with."""
    made = ufunc.gufunc_builder if is_gufunc(ufunc) else ufunc
    return {k: v for k, v in made.targetoptions.items() if k in {"fastmath", "boundscheck"} and v}


def checks_indices(options: Mapping[str, Any]) -> bool:
    """Return whether Numba checks indices of functions with these options."""
    from numba import config  # noqa: PLC0415 -- late, as above

    return bool(options.get("boundscheck") or getattr(config, "BOUNDSCHECK", None))


def loop_dtypes(ufunc: Any, given: Sequence[Any]) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes of arguments and result of the loop that a ufunc of Numba runs, compiled if need be.

    Args:
        ufunc: what `numba.vectorize` made.
        given: the dtypes of arguments; of numbers of Python their types.

    Raises:
        TypeError: it was declared with types, and none of its loops takes these.
    """
    import numba  # noqa: PLC0415 -- late, as above

    wanted = (*given, *[None] * ufunc.nout)
    try:
        found: tuple[np.dtype[Any], ...] = ufunc.ufunc.resolve_dtypes(wanted)
    except TypeError as error:
        kinds = [numba.from_dtype(np.dtype(kind)) for kind in given]
        try:
            ufunc.add(tuple(kinds))
        except RuntimeError:  # it was declared with types
            raise error from None
        found = ufunc.ufunc.resolve_dtypes(wanted)
    return found


def is_declared(dispatcher: Any) -> bool:
    """Return whether a function was declared with types, so that it is compiled for no others."""
    return not dispatcher._can_compile


def declared_signature(dispatcher: Any, kinds: Sequence[Any]) -> Any:
    """Return the signature by which Numba calls a function that was declared with types, None without one."""
    from numba import types  # noqa: PLC0415 -- late, as above

    context = typing_context()
    context.refresh()
    return context.resolve_function_type(types.Dispatcher(dispatcher), tuple(kinds), {})


def only_signature(dispatcher: Any) -> Any:
    """Return the signature that a function was declared with; None where there are several."""
    found = dispatcher.nopython_signatures
    return found[0] if len(found) == 1 else None


def typing_context() -> Any:
    """Return what knows the types that functions give, on the CPU."""
    from numba.core.registry import cpu_target  # noqa: PLC0415 -- late, as above

    return cpu_target.typing_context


def on_typing(kind: type, act: Callable[..., Any]) -> None:
    """Call `act(value, context)` where a function of Numba asks for the type of an instance of `kind`."""
    from numba.core.typing.typeof import typeof_impl  # noqa: PLC0415 -- late, as above

    typeof_impl.register(kind)(act)


# ---- arrays ----------------------------------------------------------------------------------------------


@self_test
def arrays_are_made() -> bool:
    """Return whether what makes arrays in Numba's machine code is where `zeros` looks for it."""
    import inspect  # noqa: PLC0415 -- late, as below

    from numba.core import cgutils  # noqa: PLC0415 -- late, as below
    from numba.np import arrayobj  # noqa: PLC0415

    names = ["context", "builder", "arrtype", "shapes"]
    known = list(inspect.signature(arrayobj._empty_nd_impl).parameters) == names
    return known and all(callable(f) for f in (cgutils.memset, cgutils.raw_memcpy, cgutils.unpack_tuple))


@cache
def zeros() -> Any:
    """Return `numpy.zeros` of a length or a shape for compiled functions, in a form that compiles at once."""
    return _maker("zeros")


@cache
def empty() -> Any:
    """Return `numpy.empty`, as `zeros`."""
    return _maker("empty")


def _maker(name: str) -> Any:
    import numba  # noqa: PLC0415 -- late, as below
    import numpy  # noqa: ICN001, PLC0415

    if not arrays_are_made():
        return getattr(numpy, name)
    from numba.core import cgutils  # noqa: PLC0415 -- late, as below
    from numba.np import arrayobj  # noqa: PLC0415

    types: Any = numba.types

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (kind,), (given,) = signature.args, args
        kinds, parts = [kind], [given]
        if isinstance(kind, types.BaseTuple):
            kinds, parts = list(kind), cgutils.unpack_tuple(builder, given, len(kind))
        pairs = zip(kinds, parts, strict=True)
        lengths = [context.cast(builder, n, of, types.intp) for of, n in pairs]
        for n in lengths:
            with cgutils.if_unlikely(builder, builder.icmp_signed("<", n, n.type(0))):
                message = ("negative dimensions not allowed",)
                context.call_conv.return_user_exc(builder, ValueError, message)
        array = arrayobj._empty_nd_impl(context, builder, signature.return_type, lengths)
        if name == "zeros":
            cgutils.memset(builder, array.data, builder.mul(array.itemsize, array.nitems), 0)
        return array._getvalue()

    def typed(_: Any, shape: Any) -> Any:
        kinds = list(shape) if isinstance(shape, types.BaseTuple) else [shape]
        if all(isinstance(kind, types.Integer) for kind in kinds):
            return types.Array(types.float64, len(kinds), "C")(shape), make
        return None

    typed.__name__ = typed.__qualname__ = name
    made: Any = numba.extending.intrinsic(typed)
    return made


@cache
def grown(otherwise: Callable[..., Any]) -> Any:
    """Return the function of a vector and a size that copies it to one of that size, or of twice its own.

    It is for compiled functions, as `zeros`; where it cannot be had, `otherwise` compiled is.
    """
    import numba  # noqa: PLC0415 -- late, as below

    if not arrays_are_made():
        return numba.njit(otherwise)
    from numba.core import cgutils  # noqa: PLC0415 -- late, as below
    from numba.np import arrayobj  # noqa: PLC0415

    types = numba.types

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        old = arrayobj.make_array(signature.args[0])(context, builder, args[0])
        size = context.cast(builder, args[1], signature.args[1], types.intp)
        twice = builder.add(old.nitems, old.nitems)
        more = builder.select(builder.icmp_signed(">", size, twice), size, twice)
        array = arrayobj._empty_nd_impl(context, builder, signature.return_type, [more])
        cgutils.raw_memcpy(builder, array.data, old.data, old.nitems, old.itemsize)
        return array._getvalue()

    def typed(_: Any, stack: Any, size: Any) -> Any:
        if isinstance(stack, types.Array) and (stack.ndim, stack.layout) == (1, "C"):
            return types.Array(stack.dtype, 1, "C")(stack, size), make
        return None

    typed.__name__ = typed.__qualname__ = "grown"
    made: Any = numba.extending.intrinsic(typed)
    return made


@cache
def duplicate(otherwise: Callable[..., Any]) -> Any:
    """Return the function that copies a contiguous array, for compiled functions, as `zeros`."""
    import numba  # noqa: PLC0415 -- late, as below

    if not arrays_are_made():
        return numba.njit(otherwise)
    from numba.core import cgutils  # noqa: PLC0415 -- late, as below
    from numba.np import arrayobj  # noqa: PLC0415

    types = numba.types

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        old = arrayobj.make_array(kind)(context, builder, args[0])
        lengths = cgutils.unpack_tuple(builder, old.shape, kind.ndim)
        array = arrayobj._empty_nd_impl(context, builder, signature.return_type, lengths)
        cgutils.raw_memcpy(builder, array.data, old.data, old.nitems, old.itemsize)
        return array._getvalue()

    def typed(_: Any, array: Any) -> Any:
        if isinstance(array, types.Array) and array.layout in "CF":
            return types.Array(array.dtype, array.ndim, array.layout)(array), make
        return None

    typed.__name__ = typed.__qualname__ = "duplicate"
    made: Any = numba.extending.intrinsic(typed)
    return made


@cache
def clear(otherwise: Callable[..., Any]) -> Any:
    """Return the function that fills a contiguous array with zeros, for compiled functions, as `zeros`."""
    return _on_memory("clear", 1, otherwise)


@cache
def copy_into(otherwise: Callable[..., Any]) -> Any:
    """Return the function that gives an array the elements of another one of its shape and dtype.

    It is for compiled functions, as `zeros`. The two do not overlap.
    """
    return _on_memory("copy_into", 2, otherwise)


@cache
def copy_part(otherwise: Callable[..., Any]) -> Any:
    """Return the function that copies elements between contiguous arrays, from one place to another.

    It is for compiled functions, as `zeros`: `copy_part(to, start, source, first, count)`.
    """
    return _on_memory("copy_part", 5, otherwise)


def _on_memory(name: str, count: int, otherwise: Callable[..., Any]) -> Any:
    """Return a function of so many arguments that sets elements of the first; `otherwise` in Python."""
    import numba  # noqa: PLC0415 -- late, as below

    if not arrays_are_made():
        return numba.njit(otherwise)
    from numba.core import cgutils  # noqa: PLC0415 -- late, as below
    from numba.np import arrayobj  # noqa: PLC0415

    types = numba.types

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = list(zip(signature.args, args, strict=True))
        to, *source = [arrayobj.make_array(kind)(context, builder, x)
                       for kind, x in pairs if isinstance(kind, types.Array)]  # fmt: skip
        words = [context.cast(builder, x, kind, types.intp)
                 for kind, x in pairs if not isinstance(kind, types.Array)]  # fmt: skip
        if not source:
            cgutils.memset(builder, to.data, builder.mul(to.itemsize, to.nitems), 0)
        elif not words and contiguous(signature.args):
            cgutils.raw_memcpy(builder, to.data, source[0].data, to.nitems, to.itemsize)
        elif not words:
            dtype = signature.args[0].dtype
            lengths = cgutils.unpack_tuple(builder, to.shape, signature.args[0].ndim)
            with cgutils.loop_nest(builder, lengths, context.get_value_type(types.intp)) as indices:
                places = [cgutils.get_item_pointer(context, builder, kind, x, indices)
                          for kind, x in zip(signature.args, (to, *source), strict=True)]  # fmt: skip
                value = context.unpack_value(builder, dtype, places[1])
                context.pack_value(builder, dtype, value, places[0])
        else:
            start, first, size = words
            at = builder.gep(to.data, [start]), builder.gep(source[0].data, [first])
            cgutils.raw_memcpy(builder, *at, size, to.itemsize)
        return context.get_dummy_value()

    def contiguous(arrays: Any) -> bool:
        return all(a.layout in "CF" for a in arrays) and len({a.layout for a in arrays}) == 1

    def accepted(*args: Any) -> Any:
        arrays = [a for a in args if isinstance(a, types.Array)]
        alike = len({(a.dtype, a.ndim) if count < 5 else a.dtype for a in arrays}) == 1
        if alike and (count == 2 or all(a.layout in "CF" for a in arrays)):
            return types.none(*args), make
        return None

    def one(_: Any, to: Any) -> Any:
        return accepted(to)

    def two(_: Any, to: Any, source: Any) -> Any:
        return accepted(to, source)

    def five(_: Any, to: Any, start: Any, source: Any, first: Any, size: Any) -> Any:
        return accepted(to, start, source, first, size)

    typed = {1: one, 2: two, 5: five}[count]
    typed.__name__ = typed.__qualname__ = name
    made: Any = numba.extending.intrinsic(typed)
    return made


@cache
def elements() -> dict[str, Any]:
    """Return functions of elements of arrays for compiled functions, at indices that are not negative.

    `at2(a, i, j)` is the element, `put_at2(a, i, j, x)` sets it, `add_at2(a, i, j, x)` adds to it. Numba
    compiles them in half the time of the same in brackets, where it asks whether an index counts from the
    end. Nothing where they cannot be had.
    """
    if not arrays_are_made():
        return {}
    found = {}
    for axes in (1, 2, 3):
        for name, act in (("at", _read_element), ("put_at", _put_element), ("add_at", _add_to_element)):
            found[f"{name}{axes}"] = _on_elements(f"{name}{axes}", axes, act)
    return found


def _read_element(context: Any, builder: Any, dtype: Any, place: Any, value: Any) -> Any:
    del value
    return context.unpack_value(builder, dtype, place)


def _put_element(context: Any, builder: Any, dtype: Any, place: Any, value: Any) -> Any:
    context.pack_value(builder, dtype, value, place)
    return context.get_dummy_value()


def _add_to_element(context: Any, builder: Any, dtype: Any, place: Any, value: Any) -> Any:
    total = builder.fadd(context.unpack_value(builder, dtype, place), value)
    return _put_element(context, builder, dtype, place, total)


def _on_elements(name: str, axes: int, act: Callable[..., Any]) -> Any:
    """Return a function of an array, so many indices and, unless it reads, a value."""
    import numba  # noqa: PLC0415 -- late, as below
    from numba.core import cgutils  # noqa: PLC0415

    types: Any = numba.types
    reads = act is _read_element

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, *kinds = signature.args
        model = context.data_model_manager[kind]

        def part(field: str, *rest: int) -> Any:
            return builder.extract_value(args[0], [model.get_field_position(field), *rest])

        pairs = zip(args[1 : 1 + axes], kinds, strict=False)
        index = [context.cast(builder, x, k, types.intp) for x, k in pairs]
        if kind.layout == "A":
            steps = [builder.mul(i, part("strides", k)) for k, i in enumerate(index)]
            place = cgutils.pointer_add(builder, part("data"), functools.reduce(builder.add, steps))
        else:
            order = list(range(axes)) if kind.layout == "C" else list(range(axes))[::-1]
            total = index[order[0]]
            for k in order[1:]:
                total = builder.add(builder.mul(total, part("shape", k)), index[k])
            place = builder.gep(part("data"), [total])
        value = None if reads else context.cast(builder, args[-1], kinds[-1], kind.dtype)
        return act(context, builder, kind.dtype, place, value)

    def typed(array: Any, *others: Any) -> Any:
        fits = isinstance(array, types.Array) and array.ndim == axes
        if not fits or not all(isinstance(k, types.Integer) for k in others[:axes]):
            return None
        return (array.dtype if reads else types.none)(array, *others), make

    places = ", ".join("ijk"[:axes])
    given = f"array, {places}" if reads else f"array, {places}, value"
    space: dict[str, Any] = {"typed": typed}
    exec(f"def {name}(_, {given}):\n    return typed({given})\n", space)  # noqa: S102 -- it counts arguments
    made: Any = numba.extending.intrinsic(space[name])
    return made


# ---- machine code ----------------------------------------------------------------------------------------


@self_test
def code_is_kept() -> bool:
    """Return whether the compiled code of functions can be taken from them, and given to them."""
    import numba  # noqa: PLC0415 -- late, as above
    from numba.core.caching import NullCache  # noqa: PLC0415
    from numba.core.codegen import CPUCodeLibrary  # noqa: PLC0415
    from numba.core.compiler import CompileResult  # noqa: PLC0415
    from numba.core.serialize import dumps  # noqa: PLC0415

    known = hasattr(CompileResult, "_reduce") and hasattr(CompileResult, "_rebuild") and callable(dumps)
    known = known and all(hasattr(CPUCodeLibrary, n) for n in ("has_dynamic_globals", "_get_compiled_object"))
    return known and type(numba.njit(_same)._cache) is NullCache


class _Cache:
    """What Numba asks for compiled code, in place of a cache of its own; `kept` loads and saves bytes."""

    cache_path = None

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return compiled code, None where there is none that this process can use."""
        from numba.core.compiler import CompileResult  # noqa: PLC0415 -- late, as above

        context.refresh()
        content = self.kept.load(str(signature))
        if content:
            with suppress(Exception):  # it names what is no more
                return CompileResult._rebuild(context, *pickle.loads(content))  # noqa: S301 -- the user's own
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Save compiled code, unless it holds addresses of this process."""
        from numba.core.serialize import dumps  # noqa: PLC0415 -- late, as above

        if not result.library.has_dynamic_globals and all(x.can_cache for x in result.lifted):
            with suppress(Exception):  # it holds what cannot be stored
                self.kept.save(str(signature), dumps(result._reduce()))

    def enable(self) -> None:
        """Do nothing: it is."""

    def disable(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing: entries are those of `fgrad.cache`."""


def keep(function: Any, kept: Any) -> Any:
    """Return a function that `numba.njit` made, whose code `kept` loads and saves from now on."""
    if code_is_kept():
        function._cache = _Cache(kept)
    return function


def kept_by(function: Any) -> Any:
    """Return what loads and saves the code of a function; None where that is Numba's matter."""
    own = getattr(function, "_cache", None)
    return own.kept if isinstance(own, _Cache) else None


class CFunction(NamedTuple):
    """A function for C.

    Attributes:
        address: of its machine code.
        owner: what keeps that alive.
        symbol: its name in the object file.
        externals: names that the object file takes from elsewhere.
        machine: the object file; empty if it holds addresses of this process, or is not to be had.
    """

    address: int
    owner: Any
    symbol: str
    externals: tuple[str, ...]
    machine: bytes


def c_function(function: Callable[..., Any], signature: Any, **options: Any) -> CFunction:
    """Return a function for C, compiled by Numba with some options, with all that it calls."""
    import numba  # noqa: PLC0415 -- late, as above

    made: Any = numba.cfunc(signature, **options)(function)
    externals: tuple[str, ...] = ()
    machine = b""
    if code_is_kept():
        with suppress(Exception):  # whatever another version does there
            library = made._library
            if not library.has_dynamic_globals:
                module = library._final_module
                named = [*module.functions, *module.global_variables]
                externals = tuple([v.name for v in named if v.is_declaration and "llvm." not in v.name])
                machine = library._get_compiled_object()
    return CFunction(made.address, made, made.native_name, externals, machine)


def runtime_is_there() -> bool:
    """Return whether compiled code finds what it calls of Numba's: it is made ready if need be."""
    from numba.core.registry import cpu_target  # noqa: PLC0415 -- late, as above

    return bool(cpu_target.target_context)


def code_settings() -> str:
    """Return the settings on which Numba's machine code depends."""
    from numba import config  # noqa: PLC0415 -- late, as above
    from numba.core.registry import cpu_target  # noqa: PLC0415

    names = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX")
    chosen = [f"{n}={getattr(config, n, None)}" for n in names]
    return f"{' '.join(chosen)} {cpu_target.target_context.codegen().magic_tuple()}"


# ---- CUDA ----------------------------------------------------------------------------------------------


class _Shared(dict[Any, Any]):
    """The arrays of a simulated block: the first thread that asks for one makes it, while others wait."""

    def __init__(self) -> None:
        super().__init__()
        self._making = RLock()

    def get(self, key: Any, default: Any = None) -> Any:
        self._making.acquire()
        if key in self:
            self._making.release()
        return super().get(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._making.release()


@cache
def let_simulated_blocks_share() -> None:
    """Mend the simulator: two of its threads that ask for a shared array at once may get one each.

    Raises:
        NotImplementedError: its arrays are not where they were.
    """
    from numba.cuda.simulator import kernelapi  # noqa: PLC0415 -- late: few programs use CUDA

    shared: Any = kernelapi.FakeCUDAShared
    begin = shared.__init__

    def mended(self: Any, size: int) -> None:
        begin(self, size)
        if type(self._allocations) is not dict:
            raise NotImplementedError(
                "the CUDA simulator of this version of Numba keeps shared arrays in another way than fgrad "
                "knows, so that threads of a block might not share them; use an older one"
            )
        self._allocations = _Shared()

    shared.__init__ = mended


def let_cuda_load(*, lend: bool) -> None:
    """Load what numba-cuda compiles with, which names a function that NumPy had until 2.5.

    numba-cuda is maintained without new versions of NumPy (https://github.com/NVIDIA/numba-cuda/issues/902,
    907), and lacks nothing else of them.

    Args:
        lend: whether NumPy may have the name while that takes.

    Raises:
        AttributeError: NumPy lacks a name.
    """
    lacks = lend and not hasattr(np, "row_stack")
    if lacks:
        vars(np)["row_stack"] = np.vstack
    try:
        import_module("numba.cuda.cudaimpl")
    finally:
        if lacks:
            del vars(np)["row_stack"]
