"""JAX's transformations, in its signatures, on those of fgrad: containers are taken apart at the border."""

from __future__ import annotations

import functools
import inspect
import logging
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextvars import ContextVar
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

import fgrad
from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import Array, Form, as_array, dtype_of, held, made, strong
from fgrad.compat.jax.avals import FLOAT0, example, is_zero, shaped
from fgrad.compat.jax.trees import flatten, tree_map, unflatten
from fgrad.compat.jax.types import CONFIG
from fgrad.compat.standins import by_name, words
from fgrad.core.aval import Aval
from fgrad.core.program import Program, aval_out
from fgrad.core.tensor import is_traced
from fgrad.transforms.calling import positions
from fgrad.transforms.stage import staged

Function = Callable[..., Any]


Nums = int | Sequence[int]
LEVELS: ContextVar[tuple[object, ...]] = ContextVar("LEVELS", default=())
FORWARD: ContextVar[bool] = ContextVar("FORWARD", default=False)  # whether forward mode is under way


def _during(variable: ContextVar[Any], value: Callable[[], Any], function: Function) -> Function:
    """Return a function during which a variable has another value."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        outer = variable.set(value())
        try:
            return function(*args, **kwargs)
        finally:
            variable.reset(outer)

    return call


def _forward(transformation: Function) -> Function:
    """Return a transformation during which forward mode is under way."""
    return _during(FORWARD, lambda: True, transformation)


def inside(function: Function) -> Function:
    """Return a function that runs at a level of its own, which `get_opaque_trace_state` tells from others."""
    return _during(LEVELS, lambda: (*LEVELS.get(), object()), function)


class Flat:
    """A function of trees of arrays as one of Tensors, whose results are a list of Tensors.

    What of the results is no array, and how they are arranged, is known after a call.
    """

    def __init__(self, fun: Function, tree: Any, *, has_aux: bool = False) -> None:
        """Take the arrays of `tree` apart, which holds the arguments of `fun(tree)`."""
        self.fun: Function = fun
        self.has_aux: bool = has_aux
        self.leaves: list[Any]
        self.leaves, self.structure = flatten(tree)
        self.arrays: list[Array] = [as_array(x) for x in self.leaves]
        self.real: list[int] = [i for i, a in enumerate(self.arrays) if a._tensor.dtype.kind in "fc"]
        self.out: Any = None
        self.aux: Any = None  # what the function returns beside its results, in the last call
        self.forms: list[Form] = []  # of results; None where there are no values, but float0

    @property
    def tensors(self) -> list[Any]:
        return [a._tensor for a in self.arrays]

    @property
    def reals(self) -> list[Any]:
        return [self.arrays[i]._tensor for i in self.real]

    def staged(self, *, greedy: bool = True, undrawn: bool = False) -> tuple[Program, Sequence[Any]]:
        """Return the function as a program, and the Tensors that it takes from outside."""
        avals = [Aval(a.shape, a._tensor.dtype) for a in self.arrays]
        return staged(self, avals, greedy=greedy, undrawn=undrawn)

    def shapes(self) -> Any:
        """Return the shapes and dtypes of the results, computing nothing."""
        program, _ = self.staged(undrawn=True)
        pairs = zip(map(aval_out, program.outputs), self.forms, strict=True)
        return unflatten(self.out, [shaped(a, form) for a, form in pairs])

    def filled(self, tensors: Iterable[Any]) -> Any:
        """Return the tree with these Tensors in it."""
        pairs = zip(tensors, self.arrays, strict=True)
        return unflatten(self.structure, [made(t, a.form) for t, a in pairs])

    def called(self, tensors: Iterable[Any]) -> Any:
        """Return what the function returns for other Tensors; containers are built at its level too."""
        return inside(lambda: self.fun(self.filled(tensors)))()

    def __call__(self, *tensors: Any) -> list[Any]:
        out = self.called(tensors)
        if self.has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TypeError(f"with has_aux=True, a function must return a pair (value, aux), not {out!r}")
            out, self.aux = out
        return self.taken(out)

    def of_real(self, *tensors: Any) -> tuple[list[Any], list[Any]]:
        """Return the results for other floating-point numbers, and what else the function returns."""
        every = self.tensors
        for i, t in zip(self.real, tensors, strict=True):
            every[i] = t
        outs = self(*every)
        return outs, [x._tensor for x in flatten(self.aux)[0] if x.__class__ is Array]

    def taken(self, tree: Any) -> list[Any]:
        """Return the Tensors of results, and remember their containers."""
        leaves, self.out = flatten(tree)
        arrays = [as_array(x) for x in leaves]
        pairs = zip(leaves, arrays, strict=True)
        self.forms = [None if getattr(x, "dtype", None) == FLOAT0 else a.form for x, a in pairs]
        return [a._tensor for a in arrays]

    def results(self, tensors: Iterable[Any]) -> Any:
        """Return results in the containers of those of the last call."""
        pairs = zip(tensors, self.forms, strict=True)
        return unflatten(self.out, [np.zeros(t.shape, FLOAT0) if w is None else made(t, w) for t, w in pairs])

    def cotangents(self, back: Iterable[Any]) -> Any:
        """Return the tree of the cotangents of the arguments, from those of floating-point numbers."""
        every: list[Any] = [np.zeros(a.shape, FLOAT0) for a in self.arrays]
        for i, b in zip(self.real, back, strict=True):
            every[i] = made(b, self.arrays[i].form)
        return unflatten(self.structure, every)

    def with_aux(self, *results: Any, aux: Any) -> tuple[Any, ...]:
        """Return results, and what else the function returns if it does, with these Tensors in it."""
        found = iter(aux)
        rest = tree_map(lambda x: made(next(found), x.form) if x.__class__ is Array else x, self.aux)
        return (*results, rest) if self.has_aux else results


def merged(args: Sequence[Any], static: Collection[int], given: Iterable[Any]) -> list[Any]:
    """Return arguments: the static ones as they are, and those that are given in the places of the others."""
    it = iter(given)
    return [a if i in static else next(it) for i, a in enumerate(args)]


def without_static(
    fun: Function, nums: Iterable[int], args: Sequence[Any], kwargs: dict[str, Any], read: Function = list
) -> Flat:
    """Return `fun` as a function of Tensors, of the arguments that `nums` do not make static.

    `read` may change the list of these and of the named ones.
    """
    static = {i % len(args) for i in nums}

    def call(values: Any) -> Any:
        return fun(*merged(args, static, values[0]), **values[1])

    return Flat(call, read([[a for i, a in enumerate(args) if i not in static], kwargs]))


def several(given: Any) -> tuple[Any, ...]:
    """Return numbers or names of arguments, of which one may stand alone, and None for none."""
    return (given,) if isinstance(given, int | str) else tuple(given or ())


def name_of(fun: Any) -> str:
    """Return the name of a function, or what stands for it."""
    return getattr(fun, "__name__", repr(fun))


def wraps(fun: Function, *, updated: Sequence[str] = ("__dict__",)) -> Callable[[Function], Function]:
    """Return the decorator that gives a function what another has: name, docstring, and attributes."""
    names = ("__module__", "__name__", "__qualname__", "__doc__")
    return functools.wraps(fun, [n for n in names if isinstance(getattr(fun, n, None), str)], updated=updated)


def _of(
    fun: Function, args: Sequence[Any], kwargs: dict[str, Any], argnums: Nums, what: str, *,
    has_aux: bool, allow_int: bool = False,
) -> Flat:  # fmt: skip
    """Return `fun` as a function of Tensors, of the chosen arguments alone, in a list."""
    places = positions(argnums, len(args), fun)

    def chosen(values: Sequence[Any]) -> Any:
        new = list(args)
        for i, v in zip(places, values, strict=True):
            new[i] = v
        return fun(*new, **kwargs)

    flat = Flat(chosen, [args[i] for i in places], has_aux=has_aux)
    for a in flat.arrays:
        if a._tensor.dtype.kind not in "fc" and not allow_int:
            raise TypeError(
                f"{what} requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
                f"np.inexact), but got {a.dtype.name}."
            )
    return flat


# ---- gradients


def value_and_grad(
    fun: Function, argnums: Nums = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:  # fmt: skip
    """Return the function that computes the value of `fun` and its gradient."""

    @wraps(fun)
    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        flat = _of(fun, args, kwargs, argnums, "grad", has_aux=has_aux, allow_int=allow_int)

        def scalar(*tensors: Any) -> tuple[Any, list[Any]]:
            outs, aux = flat.of_real(*tensors)
            if len(outs) != 1 or outs[0].shape or outs[0].dtype.kind not in "fc"[: 1 + holomorphic]:
                kinds = [(y.shape, y.dtype.name) for y in outs]
                raise TypeError(
                    "Gradient only defined for scalar-output functions. "
                    f"Output of {name_of(fun)} had (shape, dtype): {', '.join(map(str, kinds))}."
                )
            return outs[0], aux

        if flat.real:
            nums = tuple(range(len(flat.real)))
            of_all: Function = fgrad.value_and_grad(scalar, nums, has_aux=True, holomorphic=holomorphic)
            (value, aux), back = of_all(*flat.reals)
        else:
            (value, aux), back = scalar(), ()
        gradient = flat.cotangents(back)
        results = flat.with_aux(flat.results([value]), aux=aux)
        chosen = gradient[0] if isinstance(argnums, int) else tuple(gradient)
        return results if has_aux else results[0], chosen

    return both


def grad(
    fun: Function, argnums: Nums = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:  # fmt: skip
    """Return the function that computes the gradient of `fun`."""
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @wraps(fun)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def vjp(fun: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return `fun(*primals)` and its pullback, and what else `fun` returns if `has_aux`."""
    flat = Flat(lambda xs: fun(*xs), list(primals), has_aux=has_aux)
    outs, pullback, aux = fgrad.vjp(flat.of_real, *flat.reals, has_aux=True)
    out = flat.results(outs)

    def pulled(ct: Any) -> tuple[Any, ...]:
        leaves, structure = flatten(ct)
        if structure != flat.out:
            raise ValueError(f"the cotangent has the structure {structure}, but the output has {flat.out}")
        cts = [like(*group) for group in zip(leaves, outs, flat.forms, strict=True)]
        return tuple(flat.cotangents(pullback(cts)))

    return flat.with_aux(out, pulled, aux=aux)


def like(ct: Any, out: Any, form: Form = False) -> Any:
    """Return the cotangent or tangent of a value, of its dtype."""
    dtype = dtype_of(out, form)
    if is_zero(ct):
        return fnp.zeros(out.shape, held(dtype))
    x = as_array(ct)
    if x.shape != out.shape or (x.dtype != dtype and not x.weak_type):
        raise TypeError(
            f"a tangent or cotangent of dtype {x.dtype} and shape {x.shape} does not belong to a value of "
            f"dtype {dtype} and shape {out.shape}"
        )
    return x.astype(dtype)._tensor


# ---- tangents


def _along(flat: Flat, tangents: Any) -> list[Any]:
    """Return the tangents of the arguments that have some."""
    leaves, structure = flatten(list(tangents))
    if structure != flat.structure:
        raise TypeError(f"primals have the structure {flat.structure}, tangents {structure}")
    for t, a in zip(leaves, flat.arrays, strict=True):
        if a._tensor.dtype.kind not in "fc" and getattr(t, "dtype", None) != FLOAT0:
            raise TypeError(
                f"the tangent of a primal of dtype {a.dtype} has the dtype float0, not that of {t!r}"
            )
    return [like(leaves[i], flat.arrays[i]) for i in flat.real]


def _tangents(flat: Flat, outs: Any, found: Any) -> Any:
    groups = zip(outs, found, flat.forms, strict=True)
    tangents = [
        made(t, strong(form)) if y.dtype.kind in "fc" else np.zeros(y.shape, FLOAT0) for y, t, form in groups
    ]
    return unflatten(flat.out, tangents)


@_forward
def jvp(fun: Function, primals: Any, tangents: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return `fun(*primals)` and its directional derivative."""
    flat = Flat(lambda xs: fun(*xs), list(primals), has_aux=has_aux)
    given = _along(flat, tangents)
    outs, found, aux = fgrad.jvp(flat.of_real, flat.reals, given, has_aux=True)
    return flat.with_aux(flat.results(outs), _tangents(flat, outs, found), aux=aux)


@_forward
def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return `fun(*primals)` and the linear map of tangents there."""
    flat = Flat(lambda xs: fun(*xs), list(primals), has_aux=has_aux)
    outs, push, aux = fgrad.linearize(flat.of_real, *flat.reals, has_aux=True)
    pushed = lambda *tangents: _tangents(flat, outs, push(*_along(flat, tangents)))  # noqa: E731
    return flat.with_aux(flat.results(outs), pushed, aux=aux)


def _jacobian(transformation: Any, what: str) -> Function:
    def jacobian(
        fun: Function, argnums: Nums = 0, has_aux: bool = False, holomorphic: bool = False,
        allow_int: bool = False,
    ) -> Function:  # fmt: skip
        if allow_int:
            raise NotImplementedError(f"fgrad's jax.{what} has no allow_int: give it the floats alone")

        @wraps(fun)
        def found(*args: Any, **kwargs: Any) -> Any:
            flat = _of(fun, args, kwargs, argnums, what, has_aux=has_aux)
            nums = tuple(range(len(flat.arrays)))
            rows, aux = transformation(flat.of_real, nums, has_aux=True, holomorphic=holomorphic)(
                *flat.tensors
            )

            def of_row(row: Any) -> Any:
                blocks = zip(row, flat.arrays, strict=True)
                tree = unflatten(flat.structure, [made(b, a.strong) for b, a in blocks])
                return tree[0] if isinstance(argnums, int) else tuple(tree)

            jacobian = unflatten(flat.out, map(of_row, rows))
            return flat.with_aux(jacobian, aux=aux) if has_aux else jacobian

        return found

    jacobian.__name__ = jacobian.__qualname__ = what
    jacobian.__doc__ = "Return the function that computes the Jacobian: trees of outputs, then of arguments."
    return jacobian


jacrev = _jacobian(fgrad.jacrev, "jacrev")
jacfwd = _jacobian(lambda *args, **options: _forward(fgrad.jacfwd(*args, **options)), "jacfwd")


def hessian(fun: Function, argnums: Nums = 0, has_aux: bool = False, holomorphic: bool = False) -> Function:
    """Return the function that computes the Hessian of `fun`."""
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)  # type: ignore[no-any-return]


# ---- many at once


def vmap(
    fun: Function, in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None, axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Function:  # fmt: skip
    """Return `fun` mapped over an axis of its arguments."""

    @wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        given = (args, kwargs)
        axes = in_axes if isinstance(in_axes, int) or in_axes is None else tuple(in_axes)
        places = axes_of((axes, 0), given)
        leaves, structure = flatten(given)
        chosen = [i for i, k in enumerate(places) if k is not None]

        def call(xs: Sequence[Any]) -> Any:  # what is the same for all may be anything
            every = list(leaves)
            for i, x in zip(chosen, xs, strict=True):
                every[i] = x
            positional, named = unflatten(structure, every)
            return fun(*positional, **named)

        flat = Flat(call, [leaves[i] for i in chosen])

        moved: list[Any] = []

        def split(*tensors: Any) -> tuple[list[Any], list[Any]]:
            outs = flat(*tensors)
            moved[:] = axes_of(out_axes, flat.results(outs))
            pairs = list(zip(outs, moved, strict=True))
            return [o for o, k in pairs if k is not None], [o for o, k in pairs if k is None]

        pairs = [(a, places[i]) for i, a in zip(chosen, flat.arrays, strict=True)]
        lengths = sorted({a.shape[k] for a, k in pairs if -a.ndim <= k < a.ndim})
        if len(lengths) > 1:
            raise ValueError(
                f"vmap got inconsistent sizes for array axes to be mapped: {', '.join(map(str, lengths))}"
            )
        each = fgrad.vmap(
            split, tuple(places[i] for i in chosen), (0, None), axis_name=axis_name, axis_size=axis_size
        )
        stacked, shared = map(iter, each(*flat.tensors))
        return flat.results([next(shared) if k is None else fnp.moveaxis(next(stacked), 0, k) for k in moved])

    return mapped


def axes_of(prefix: Any, tree: Any) -> list[Any]:
    """Return for each leaf of a tree what `prefix` says of it, where None says something too."""
    found, structure = flatten(tree_map(lambda x: x, prefix, is_leaf=_says), _says)
    parts = structure.flatten_up_to(tree)
    return [v for v, part in zip(found, parts, strict=True) for _ in flatten(part)[0]]


def _says(x: Any) -> bool:
    return x is None or isinstance(x, int)


# ---- compiled


class _Programs:
    """What was compiled of a function, which `jit` finds again where it is called with it once more."""

    def __init__(self, fun: Function) -> None:
        self.owner = weakref.ref(fun)  # decorators copy attributes to other functions
        self.found: dict[Any, dict[Any, tuple[Any, Flat]]] = {}


def _programs(fun: Function, options: Any) -> dict[Any, tuple[Any, Flat]]:
    if not isinstance(fun, FunctionType):
        return {}
    kept = fun.__dict__.get("_fgrad_programs")
    if kept is None or kept.owner() is not fun:
        kept = fun.__dict__["_fgrad_programs"] = _Programs(fun)
    found: dict[Any, tuple[Any, Flat]] = kept.found.setdefault(options, {})
    return found


class PjitFunction:
    """A function compiled once for each signature; libraries look for this name of the class."""

    def __init__(
        self, fun: Function, statics: Sequence[int], names: Sequence[str], signature: inspect.Signature | None
    ) -> None:
        self.fun, self.statics, self.names = fun, statics, names
        self.programs = _programs(fun, (tuple(statics), tuple(names)))
        wraps(fun, updated=())(self)
        self.__wrapped__ = fun
        if signature is not None:
            self.__signature__ = signature  # which `inspect` does not look for in objects with __get__

    def __repr__(self) -> str:
        return f"<PjitFunction of {self.fun!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if CONFIG.jax_disable_jit:
            return self.fun(*args, **kwargs)
        key, flat = self._signature(args, kwargs)
        if key not in self.programs:
            self.programs[key] = (fgrad.jit(flat), flat)
            if CONFIG.jax_log_compiles:
                logging.getLogger("jax").warning(
                    "Finished tracing and compilation of jit(%s)", name_of(self.fun)
                )
        program, first = self.programs[key]
        values = flat.tensors
        if not any(map(is_traced, values)):
            values = [t.numpy() for t in values]  # which take the shortest way
        try:
            return first.results(program(*values))
        except Exception:
            if not FORWARD.get():
                raise
            return self.fun(*args, **kwargs)  # a rule may refuse the pullback, by which programs go forward

    def _signature(
        self, args: Sequence[Any], kwargs: dict[str, Any], read: Function = lambda tree: tree
    ) -> tuple[Any, Flat]:
        places = {i % len(args) for i in self.statics if -len(args) <= i < len(args)}
        static = tuple((i, args[i]) for i in sorted(places))
        named = tuple((k, kwargs[k]) for k in sorted(kwargs) if k in self.names)
        given = {k: v for k, v in kwargs.items() if k not in self.names}
        flat = without_static(functools.partial(self.fun, **dict(named)), places, args, given, read)
        avals = tuple([(a._tensor.shape, a._tensor.dtype, a.form) for a in flat.arrays])
        return (static, named, flat.structure, CONFIG.signature(), avals), flat

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def clear_cache(self) -> None:
        self.programs.clear()

    def trace(self, *args: Any, **kwargs: Any) -> Compiled:
        """Return the function for arguments like these."""
        _, flat = self._signature(args, kwargs, example)
        return Compiled(self, flat)

    lower = trace


class Compiled:
    """A function for one signature, before it is compiled and after: that is at its first call."""

    def __init__(self, fun: Function, flat: Flat) -> None:
        self.fun, self.flat = fun, flat

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def lower(self, *_: Any, **__: Any) -> Compiled:
        return self

    compile = lower

    @property
    def out_info(self) -> Any:
        """Return the shapes and dtypes of the results."""
        return tree_map(lambda x: x.update(weak_type=False), self.flat.shapes())

    def cost_analysis(self) -> dict[str, float]:
        """Return what fgrad counts for one call: a transcendental function is four operations."""
        cost = fgrad.jit(self.flat).lower(*self.flat.tensors).cost()
        return {"flops": float(cost.flops), "bytes accessed": float(cost.bytes)}

    def as_text(self, dialect: str | None = None) -> NoReturn:
        """Refuse: there is no program of another compiler."""
        raise NotImplementedError(
            f"fgrad compiles no {dialect or 'stablehlo'}: fgrad.make_graph(fun)(*args) shows a program"
        )

    compiler_ir = as_text


def jit(fun: Function | None = None, **options: Any) -> Any:
    """Return `fun` compiled; `static_argnums` and `static_argnames` are Python values."""
    if fun is None:
        return functools.partial(jit, **options)
    nums, names = (options.pop(name, None) for name in ("static_argnums", "static_argnames"))
    for name in words("donate_argnums donate_argnames in_shardings inline keep_unused out_shardings"):
        options.pop(name, None)  # which change no result
    if any(v is not None for v in options.values()):
        raise NotImplementedError(
            f"fgrad's jax.jit has no {', '.join(options)}; devices are those of the arguments"
        )
    finds_others = nums is None or names is None
    nums, names = list(several(nums)), list(several(names))
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        signature = None
    parameters = list(signature.parameters) if signature and finds_others else []
    names += [parameters[i] for i in nums if -len(parameters) <= i < len(parameters)]
    nums += [parameters.index(n) for n in names if n in parameters and parameters.index(n) not in nums]
    return PjitFunction(fun, nums, names, signature)


def eval_shape(fun: Function, *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of `fun(*args, **kwargs)`, computing nothing."""
    given = example((args, kwargs))
    flat = Flat(lambda values: example(fun(*values[0], **values[1])), given)
    return flat.shapes()


def checkpoint(
    fun: Function, *, prevent_cse: bool = True, policy: Any = None, static_argnums: Any = (),
    static_argnames: Any = (),
) -> Function:  # fmt: skip
    """Return `fun` that keeps its arguments alone for the reverse pass, and runs there again."""

    @wraps(fun)
    def again(*args: Any, **kwargs: Any) -> Any:
        static = {name: kwargs.pop(name) for name in several(static_argnames) if name in kwargs}
        flat = without_static(functools.partial(fun, **static), several(static_argnums), args, kwargs)
        # read once, as in JAX: what the function finds in Python may be gone when the reverse pass comes
        program, outside = flat.staged()
        run = fgrad.checkpoint(lambda *values: program.run(list(values)), policy=policy)
        return flat.results(run(*outside, *flat.tensors))

    return again


NAMES: dict[str, Any] = by_name(
    *(checkpoint, eval_shape, grad, hessian, jacfwd, jacrev, jit, jvp, linearize, value_and_grad, vjp, vmap)
) | {"jacobian": jacrev, "remat": checkpoint}
