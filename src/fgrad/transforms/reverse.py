"""Reverse mode as functions: each opens a private GradManager, and no `.grad` is touched."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypedDict, TypeVar, overload

import numpy as np

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import adopted, is_foreign
from fgrad.core.aval import aval_of
from fgrad.core.placement import near
from fgrad.core.snapshot import private_copy, refuse_subclass
from fgrad.core.tape import Node
from fgrad.core.tensor import Tensor
from fgrad.core.trace import current
from fgrad.core.tracebacks import shorten
from fgrad.transforms.batch import batched_map
from fgrad.transforms.calling import (
    Delivery,
    Transformed,
    bound,
    check_live,
    has_tensor,
    name_of,
    parameter,
    plain,
    positions,
)
from fgrad.transforms.cotangents import OnUnused, check_on_unused, cotangent, one_of, report_unused
from fgrad.transforms.manager import GradManager, Recorded

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class Evaluated:
    """A function evaluated at some arguments, with its pullback on flat lists of leaves."""

    __slots__ = ("aux", "outs", "pullback", "structure")

    outs: list[Any]
    structure: Any

    def __init__(
        self,
        fun: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        inputs: Inputs,
        has_aux: bool,
        *,
        once: bool = False,
        linear: bool = False,
    ) -> None:
        gm = GradManager()
        try:  # as a `with` statement, which costs a microsecond
            gm.start()
            if linear:
                gm.make_linear()
            leaves = gm.follow_each(inputs.handles)
            out = fun(*inputs.filled(args, leaves), **kwargs)
            self.aux: Any = None
            if has_aux:
                out, self.aux = pair(out, fun)
            self.outs, self.structure = tree.flatten(out)
            self.pullback: Recorded = gm.pullback(self.outs, leaves, once=once)
        except BaseException:
            try:
                gm.release()
            except BaseException:  # an interrupt, before it had begun
                gm.release()
                raise
            raise


def pair(out: Any, fun: Callable[..., Any]) -> tuple[Any, Any]:
    """Return `(value, aux)`, which a function with `has_aux=True` has to return."""
    if not isinstance(out, tuple) or len(out) != 2:
        raise TypeError(
            f"with has_aux=True, {name_of(fun)} must return a pair (value, aux), not {type(out).__name__}"
        )
    return out


class Inputs:
    """The differentiated arguments as flat leaves, and the way back."""

    __slots__ = ("handles", "leaves", "places", "plain", "structures", "where")

    def __init__(
        self,
        args: Sequence[Any],
        where: Sequence[int],
        what: str,
        *,
        allow_int: bool = False,
        holomorphic: bool = False,
    ) -> None:
        self.where: Sequence[int] = where
        chosen = [args[i] for i in where]
        handles = [] if holomorphic else _arrays(chosen)
        self.plain: bool = len(handles) == len(where)
        if self.plain:  # the usual case: every argument is one leaf
            self.handles: list[tuple[Any, tuple[Node, ...]]] = handles
            self.leaves: list[Any] = chosen
            self.structures: list[Any] = [tree.LEAF] * len(handles)
            self.places: list[int | None] | None = None  # of each leaf among `handles`; None: each has one
            return
        self.structures = []
        self.leaves = []  # every leaf of the differentiated arguments
        for a in chosen:
            found, structure = tree.flatten(a)
            self.structures.append(structure)
            self.leaves += found
        handles = [] if holomorphic else _arrays(self.leaves)
        self.handles, self.places = handles, None
        if len(handles) == len(self.leaves):
            return
        self.places = places = [*range(len(handles))]
        rest = slice(len(handles), None)
        each = [(i, s, k) for i, s in zip(where, self.structures, strict=True) for k in range(s.num_leaves)]
        for place, leaf in zip(each[rest], self.leaves[rest], strict=True):
            handle = _handle(leaf)
            if handle is not None and _differentiable(handle[0].dtype, what, place, allow_int, holomorphic):
                places.append(len(handles))
                handles.append(handle)
            elif handle is None and place[1] is tree.LEAF:
                raise TypeError(
                    f"{what} cannot differentiate argument {place[0]}: {leaf!r} of type "
                    f"{type(leaf).__name__} is not an array of numbers. Choose another argument with argnums"
                )
            else:
                places.append(None)

    def has_tensor(self) -> bool:
        """Return whether any leaf of the differentiated arguments is a Tensor."""
        return Tensor in [leaf.__class__ for leaf in self.leaves]

    def filled(self, args: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        """Return `args` with `leaves` in the differentiated places."""
        new = list(args)
        if self.plain:
            for i, leaf in zip(self.where, leaves):  # noqa: B905 -- one each, and a check costs
                new[i] = leaf
            return new
        if self.places is not None:
            leaves = [
                leaf if p is None else leaves[p] for leaf, p in zip(self.leaves, self.places, strict=True)
            ]
        for i, x in zip(self.where, self._divided(leaves), strict=True):
            new[i] = x
        return new

    def _divided(self, leaves: Sequence[Any]) -> list[Any]:
        """Return leaves in the structures of the arguments."""
        found, start = [], 0
        for structure in self.structures:
            end = start + structure.num_leaves
            found.append(structure.unflatten(leaves[start:end]))
            start = end
        return found

    def trees(self, results: Sequence[Any]) -> list[Any]:
        """Return the results for `handles` in the structures of the arguments; other leaves pass through."""
        if self.plain:
            return list(results)
        if self.places is not None:
            results = [
                (leaf if _handle(leaf) is None else np.zeros(np.shape(leaf))) if p is None else results[p]
                for leaf, p in zip(self.leaves, self.places, strict=True)
            ]
        return self._divided(results)

    def unused(self, cts: Sequence[Any], fun: Callable[..., Any]) -> list[str]:
        """Return what to call each of `handles` that got no cotangent."""
        places = iter(range(len(cts)) if self.places is None else self.places)
        found = []
        for i, structure in zip(self.where, self.structures, strict=True):
            for path in tree.paths(structure):
                p = next(places)
                if p is not None and cts[p] is None:
                    found.append(f"{parameter(fun, i)}{path} of shape {self.handles[p][0].shape}")
        return found

    def zeros(self, cts: Sequence[Any]) -> list[Any]:
        """Return cotangents of `handles`, zeros where none arrived."""
        for ct in cts:
            if ct is None:
                break
        else:
            return list(cts)
        return [
            near(h[0]).zeros(h[0].shape, h[0].dtype) if ct is None else ct
            for ct, h in zip(cts, self.handles, strict=True)
        ]


def _arrays(args: Sequence[Any]) -> list[tuple[Any, tuple[Node, ...]]]:
    """Return the handles of arguments that are real arrays or Tensors, up to the first that is not."""
    handles: list[tuple[Any, tuple[Node, ...]]] = []
    for a in args:
        if a.__class__ is np.ndarray and a.dtype.kind == "f":
            handles.append((private_copy(a), ()))
        elif a.__class__ is Tensor:
            value = a._value
            if value.__class__ is not np.ndarray:
                check_live(a)
            if value.dtype.kind != "f":
                break
            handles.append((value, a._nodes))
        elif a.__class__ is float or a.__class__ is np.float64:
            handles.append((np.float64(a), ()))
        elif a.__class__ is DeviceArray and a.dtype.kind == "f":
            handles.append((a, ()))
        else:
            break
    return handles


def _handle(x: Any) -> tuple[Any, tuple[Node, ...]] | None:
    """Return the value and nodes of a numeric leaf, copied if the user could change it; None for another."""
    if x.__class__ is Tensor:
        return check_live(x)._value, x._nodes
    if x.__class__ is np.ndarray and x.dtype.kind == "f":
        return private_copy(x), ()
    if isinstance(x, np.ndarray | np.generic | float | int | complex):
        refuse_subclass(x)
        # a number is never written to
        value = np.array(x) if isinstance(x, np.ndarray) else np.asarray(x)[()]
        return (value, ()) if value.dtype.kind in "fciub" else None
    return (adopted(x), ()) if is_foreign(x) else None


def _differentiable(
    dtype: np.dtype[Any], what: str, place: tuple[int, Any, int], allow_int: bool, holomorphic: bool
) -> bool:
    if dtype.kind == "c" or (dtype.kind == "f" and not holomorphic):
        return True
    if allow_int and not holomorphic:
        return False
    i, structure, leaf = place
    path = tree.paths(structure)[leaf]
    given = f"argument {i}{path and f', leaf {path},'} has dtype {dtype}"
    if holomorphic:
        raise TypeError(f"{what} with holomorphic=True needs complex arguments, but {given}")
    raise TypeError(
        f"{what} differentiates with respect to floating-point arguments, but {given}. Give a float (1.0 "
        "instead of 1, x.astype(float)), choose another argument with argnums, or pass allow_int=True for a "
        "zero gradient"
    )


def _scalar(outs: list[Any], fun: Callable[..., Any], structure: Any, *, holomorphic: bool) -> Any:
    """Return the one scalar output of a function whose gradient is asked for."""
    if structure is tree.LEAF and outs[0].__class__ is Tensor and not holomorphic:
        y = outs[0]
        if y._value.shape == () and y._value.dtype.kind == "f":
            return y
    shape = np.shape(outs[0]) if len(outs) == 1 and _handle(outs[0]) else None
    if structure is not tree.LEAF or shape is None:
        got = type(outs[0]).__name__ if structure is tree.LEAF else structure
        got = f"{got}." if outs else "nothing: is a return missing?"
        raise TypeError(
            f"grad needs a function that returns one number, but {name_of(fun)} returned {got} "
            "Return a single scalar (with has_aux=True also other values), or use vjp, which takes any pytree"
        )
    if shape != ():
        raise TypeError(
            f"grad needs a function that returns a scalar, but {name_of(fun)} returned shape {shape}. "
            "Reduce it (sum or mean), use vjp with a cotangent of that shape, or jacrev for the Jacobian"
        )
    (y,) = outs
    dtype = aval_of(y).dtype
    kind = dtype.kind
    if kind == "c" and not holomorphic:
        raise TypeError(
            f"grad of {name_of(fun)}, which returned a complex number: take the real part or the absolute "
            "value, or pass holomorphic=True if the function is holomorphic"
        )
    if kind not in "fc":
        raise TypeError(
            f"grad needs a function that returns a floating-point number, but {name_of(fun)} returned "
            f"dtype {dtype}"
        )
    if holomorphic and kind != "c":
        raise TypeError(f"with holomorphic=True, {name_of(fun)} must return a complex number")
    return y


class ValueAndGrad(Transformed):
    """The function that computes a value and its gradient."""

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Return `(value, gradient)`, or `((value, aux), gradient)`."""
        argnums, has_aux, holomorphic, allow_int, on_unused = self.options.values()
        if kwargs:
            args, kwargs = bound(self.fun, args, kwargs)
        where = positions(argnums, len(args), self.fun)
        inputs = Inputs(args, where, "grad", allow_int=allow_int, holomorphic=holomorphic)
        run = Evaluated(self.fun, args, kwargs, inputs, has_aux, once=True)
        y = _scalar(run.outs, self.fun, run.structure, holomorphic=holomorphic)
        one = one_of(y.dtype) if isinstance(y, Tensor) else None
        if (
            one is not None
            and y._value.__class__ is not np.ndarray
            and y._value.__class__ is not one.__class__
        ):
            one = near(y).full((), one)[()]
        deliver = Delivery(not has_tensor(args, kwargs))
        value = deliver.leaf(y)
        cts = run.pullback([one])
        if on_unused != "ignore":
            report_unused(on_unused, inputs.unused(cts, self.fun), name_of(self.fun))
        grads = deliver_inputs(deliver, inputs, cts)
        gradient = grads[0] if argnums.__class__ is int or isinstance(argnums, np.integer) else tuple(grads)
        return ((value, deliver.tree(run.aux)), gradient) if has_aux else (value, gradient)


def deliver_inputs(deliver: Delivery, inputs: Inputs, cts: Sequence[Any]) -> list[Any]:
    """Return cotangents of the inputs as the user gets them, zeros where none arrived."""
    return inputs.trees([deliver.made(g) for g in inputs.zeros(cts)])


class Grad(ValueAndGrad):
    """The function that computes a gradient."""

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Return the gradient, or `(gradient, aux)`."""
        value, gradient = super()._call(*args, **kwargs)
        return (gradient, value[1]) if self.options["has_aux"] else gradient


class _Options(TypedDict, total=False):
    holomorphic: bool
    allow_int: bool
    on_unused: OnUnused


@overload
def grad(
    fun: np.ufunc, argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Unpack[_Options]
) -> Callable[..., Any]: ...


@overload
def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    **options: Unpack[_Options],
) -> Callable[P, Any]: ...


def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    on_unused: OnUnused = "ignore",
) -> Callable[P, Any]:
    """Return the function that computes the gradient of scalar-valued `fun`.

    Args:
        fun: takes and returns pytrees; its value is one real floating-point number.
        argnums: which positional argument, or arguments (then the result is a tuple).
        has_aux: whether `fun` returns `(value, aux)`; the result is then `(gradient, aux)`.
        holomorphic: whether `fun` is holomorphic, with complex arguments and value.
        allow_int: whether integer leaves get a zero gradient instead of an error.
        on_unused: what to do where no gradient reaches a leaf: "ignore" (its gradient is zero), "warn"
            (`NoGradientWarning`) or "error" (`UnusedArgumentError`); both name the leaf.

    Returns:
        A function of the same arguments. The gradient has the structure, shapes and dtypes of its argument;
        NumPy arrays unless an argument is a Tensor.

    Raises:
        TypeError: the value is not a real scalar, or a differentiated leaf is not floating.

    Convention:
        For complex z = a + bj and real fun, df/da - j df/db, as in JAX.

    Example:
        >>> from fgrad import grad
        >>> float(grad(lambda x: x**3)(2.0))
        12.0
    """
    return _differentiating(Grad, fun, argnums, has_aux, holomorphic, allow_int, on_unused)


@overload
def value_and_grad(
    fun: np.ufunc, argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Unpack[_Options]
) -> Callable[..., tuple[Any, Any]]: ...


@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = 0,
    has_aux: Literal[False] = False,
    **options: Unpack[_Options],
) -> Callable[P, tuple[R, Any]]: ...


@overload
def value_and_grad(
    fun: Callable[P, tuple[R, A]],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: Literal[True],
    **options: Unpack[_Options],
) -> Callable[P, tuple[tuple[R, A], Any]]: ...


@overload
def value_and_grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    **options: Unpack[_Options],
) -> Callable[P, tuple[Any, Any]]: ...


def value_and_grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    on_unused: OnUnused = "ignore",
) -> Callable[P, Any]:
    """Return the function that computes `(value, gradient)`; options and errors as in `grad`.

    Args:
        fun: as in `grad`, and so are all others.
        argnums: which positional argument, or arguments.
        has_aux: whether `fun` returns `(value, aux)`.
        holomorphic: whether `fun` is holomorphic.
        allow_int: whether integer leaves get a zero gradient.
        on_unused: "ignore", "warn" or "error".

    Returns:
        A function that returns `(value, gradient)`, or `((value, aux), gradient)` with `has_aux`.

    Raises:
        TypeError: as in `grad`.

    Example:
        >>> from fgrad import value_and_grad
        >>> value, gradient = value_and_grad(lambda x: x * x)(3.0)
        >>> float(value), float(gradient)
        (9.0, 6.0)
    """
    return _differentiating(ValueAndGrad, fun, argnums, has_aux, holomorphic, allow_int, on_unused)


def _differentiating(kind: type[ValueAndGrad], fun: Callable[..., Any], *options: Any) -> ValueAndGrad:
    """Return the transformed function; `options` are in the order in which `ValueAndGrad` takes them."""
    check_on_unused(options[-1])
    names = ("argnums", "has_aux", "holomorphic", "allow_int", "on_unused")
    return kind(fun, **dict(zip(names, options, strict=True)))


def checked_cts(ct: Any, outs: Sequence[Any], structure: Any) -> list[Any]:
    """Return the leaves of a cotangent that matches the output, as arrays or traced Tensors."""
    if structure is tree.LEAF and outs[0].__class__ is Tensor and tree.is_leaf_type(ct.__class__):
        (y,) = outs  # the usual case
        return [cotangent(ct, y, "the cotangent", "the output") if y._value.dtype.kind in "fc" else None]
    cts, given = tree.flatten(ct)
    if given != structure:
        raise TypeError(
            f"the cotangent has the structure {given}, but the output has the structure {structure}; "
            "they must match"
        )
    return [
        cotangent(c, y if isinstance(y, Tensor) else Tensor(y), "the cotangent", "the output")
        if _floating(y)
        else None
        for c, y in zip(cts, outs, strict=True)
    ]


def _floating(y: Any) -> bool:
    if y.__class__ is Tensor:
        return y._value.dtype.kind in "fc"
    return (
        isinstance(y, Tensor | np.ndarray | np.generic | float | complex)
        and np.result_type(getattr(y, "dtype", type(y))).kind in "fc"
    )


class Pullback:
    """The map from a cotangent of the output to cotangents of the primals; callable any number of times."""

    def __init__(
        self, run: Evaluated, inputs: Inputs, as_numpy: bool, fun: Callable[..., Any], on_unused: OnUnused
    ) -> None:
        self._run, self._inputs, self._as_numpy = run, inputs, as_numpy
        self._fun, self._on_unused = fun, on_unused

    def __call__(self, ct: Any) -> tuple[Any, ...]:
        """Return the tuple of cotangents, one per primal."""
        try:
            run = self._run
            deliver = Delivery(self._as_numpy and not has_tensor([ct]))
            cts = run.pullback(checked_cts(ct, run.outs, run.structure))
            if self._on_unused != "ignore":
                report_unused(self._on_unused, self._inputs.unused(cts, self._fun), name_of(self._fun))
            return tuple(deliver_inputs(deliver, self._inputs, cts))
        except Exception as error:
            shorten(error)
            raise


@overload
def vjp(
    fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = False, on_unused: OnUnused = "ignore"
) -> tuple[R, Pullback]: ...


@overload
def vjp(
    fun: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True], on_unused: OnUnused = "ignore"
) -> tuple[R, Pullback, A]: ...


@overload
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool, on_unused: OnUnused = "ignore"
) -> tuple[Any, ...]: ...


def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, on_unused: OnUnused = "ignore"
) -> tuple[Any, ...]:
    """Return `fun(*primals)` and the function that pulls cotangents back through it.

    Args:
        fun: takes and returns pytrees.
        primals: the point, floating-point leaves.
        has_aux: whether `fun` returns `(out, aux)`.
        on_unused: what `pullback` does where no gradient reaches a leaf; as in `grad`.

    Returns:
        `(out, pullback)` or `(out, pullback, aux)`; `pullback(ct)` takes the structure, shapes and dtypes of
        `out`, and returns a tuple with one cotangent per primal.

    Raises:
        TypeError: a leaf of `primals` is not floating, or `ct` has another structure or dtype kind
            than `out`.
        ValueError: `ct` has another shape than `out`.

    Derivative:
        `pullback` is linear, and differentiable in cotangents and primals, of every order.

    Example:
        >>> from fgrad import vjp
        >>> out, pullback = vjp(lambda x, y: x * y, 2.0, 3.0)
        >>> [float(g) for g in pullback(1.0)]
        [3.0, 2.0]
    """
    try:
        check_on_unused(on_unused)
        inputs = Inputs(primals, range(len(primals)), "vjp")
        run = Evaluated(fun, primals, {}, inputs, has_aux)
        as_numpy = not has_tensor(primals)
        deliver = Delivery(as_numpy)
        out = tree.unflatten(run.structure, [deliver.leaf(y) for y in run.outs])
        pullback = Pullback(run, inputs, as_numpy, fun, on_unused)
        return (out, pullback, deliver.tree(run.aux)) if has_aux else (out, pullback)
    except Exception as error:
        shorten(error)
        raise


class Jacobian(Transformed):
    """The function that computes a Jacobian, one pullback per output element, all at once."""

    what = "jacrev"

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Return the Jacobian: the structure of the output, of that of the arguments, of arrays."""
        argnums, has_aux, holomorphic = (self.options[k] for k in ("argnums", "has_aux", "holomorphic"))
        args, kwargs = bound(self.fun, args, kwargs)
        inputs = Inputs(args, positions(argnums, len(args), self.fun), self.what, holomorphic=holomorphic)
        self._check(inputs)
        run = Evaluated(self.fun, args, kwargs, inputs, has_aux)
        for y in run.outs:
            check_real(y, self.fun, self.what, holomorphic=holomorphic)
        deliver = Delivery(not has_tensor(args, kwargs))
        rows = []
        for blocks in self._rows(run, inputs, deliver):
            trees = inputs.trees(blocks)
            rows.append(trees[0] if isinstance(argnums, int | np.integer) else tuple(trees))
        jacobian = tree.unflatten(run.structure, rows)
        return (jacobian, deliver.tree(run.aux)) if has_aux else jacobian

    def _check(self, inputs: Inputs) -> None:
        """Refuse arguments before the function runs."""

    def _rows(self, run: Evaluated, inputs: Inputs, deliver: Delivery) -> Iterator[list[Any]]:
        """Yield for each output its derivative in each of the inputs, as the user gets it."""
        for k in range(len(run.outs)):
            yield derivatives_of(k, run, inputs, deliver)


def derivatives_of(k: int, run: Evaluated, inputs: Inputs, deliver: Delivery) -> list[Any]:
    """Return the derivative of output `k` in each input, as the user gets it."""

    def row(e: Any) -> list[Any]:
        return run.pullback([e if i == k else None for i in range(len(run.outs))])

    y = run.outs[k]
    shape = aval_of(y).shape
    if isinstance(y, Tensor):
        found = _for_each_element(row, y, max([math.prod(x.shape) for x, _ in inputs.handles], default=1))
    else:
        found = [None] * len(inputs.handles)
    blocks = []
    for stacked, (x, _) in zip(found, inputs.handles, strict=True):
        whole = (*shape, *x.shape)
        block = deliver.made(near(x).zeros(whole, x.dtype) if stacked is None else stacked)
        block = block if block.shape == whole else block.reshape(whole)
        blocks.append(block if whole or block.__class__ is not np.ndarray else block[()])
    return blocks


_PART = 2**19  # elements of an array that the steps of a sweep pass on in a cache


def _for_each_element(row: Callable[[Any], list[Any]], y: Tensor, width: int) -> list[Any]:
    """Return the results of `row`, of at most `width` elements, for each unit vector like `y`, stacked.

    Where nothing else is to see it, many are found in parts: only what is returned takes memory of all.
    """
    shape, n = y.shape, y.size
    step = max(1, _PART // max(n, width, 1))
    if n <= step or current().traces or near(y) is not np:
        return batched_map(row, unit_basis(y, shape, y.dtype))
    wholes: list[Any] = []
    for start in range(0, n, step):
        count = min(step, n - start)
        parts = batched_map(row, np.eye(count, n, start, y.dtype).reshape(count, *shape))
        wholes = wholes or [None if p is None else np.empty((n, *p.shape[1:]), p.dtype) for p in parts]
        for whole, part in zip(wholes, parts, strict=True):
            if whole is not None:
                whole[start : start + count] = plain(part)
    return wholes


def check_real(y: Any, fun: Callable[..., Any], what: str, *, holomorphic: bool) -> None:
    """Refuse complex outputs unless the function is said to be holomorphic."""
    kind = getattr(y, "dtype", np.dtype(type(y))).kind
    if (kind == "c") != holomorphic and kind in "fc":
        raise TypeError(
            f"{what} of {name_of(fun)}, which returned a {'complex' if kind == 'c' else 'real'} array: "
            + (
                "take real and imaginary parts, or pass holomorphic=True"
                if kind == "c"
                else "leave out holomorphic=True"
            )
        )


def unit_basis(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the standard basis of the arrays of `shape`, of shape (size, *shape), where `like` is."""
    n = int(np.prod(shape, dtype=int))
    return near(like).eye(n, dtype=dtype).reshape(n, *shape)


def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """Return the function that computes the Jacobian by reverse mode; best for few outputs.

    Args:
        fun: takes and returns pytrees of real arrays (complex with `holomorphic`).
        argnums: which positional argument, or arguments (then a tuple inside the structure of the output).
        has_aux: whether `fun` returns `(out, aux)`; the result is then `(jacobian, aux)`.
        holomorphic: whether `fun` is holomorphic.

    Returns:
        A function that returns the structure of the output, each leaf holding the structure of the argument,
        of arrays of shape `out.shape + in.shape`: element [i, j] is d out_i / d in_j.

    Example:
        >>> from fgrad import jacrev
        >>> jacrev(lambda x: x * x)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    return Jacobian(fun, argnums=argnums, has_aux=has_aux, holomorphic=holomorphic)


jacobian = jacrev


class ElementwiseGrad(Transformed):
    """The derivative of each output element in its own input element."""

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Return the derivatives, of the shape of the differentiated argument."""
        argnums = self.options["argnums"]
        args, kwargs = bound(self.fun, args, kwargs)
        inputs = Inputs(args, positions(argnums, len(args), self.fun), "elementwise_grad")
        run = Evaluated(self.fun, args, kwargs, inputs, False, once=True)
        deliver = Delivery(not has_tensor(args, kwargs))
        ones = [near(y).ones(y.shape, y.dtype) if isinstance(y, Tensor) else None for y in run.outs]
        grads = deliver_inputs(deliver, inputs, run.pullback(ones))
        return grads[0] if isinstance(argnums, int | np.integer) else tuple(grads)


@overload
def elementwise_grad(fun: np.ufunc, argnums: int | Sequence[int] = 0) -> Callable[..., Any]: ...


@overload
def elementwise_grad(fun: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]: ...


def elementwise_grad(fun: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]:
    """Return the function that computes the derivative of each output element in its own input element.

    Args:
        fun: works element by element with broadcasting, so that no output depends on two elements of one
            argument, other than by broadcasting (then the derivatives add up).
        argnums: which positional argument, or arguments.

    Returns:
        A function whose result has the shape and dtype of the argument.

    Example:
        >>> from fgrad import elementwise_grad
        >>> elementwise_grad(np.square)(np.array([1.0, 2.0]))
        array([2., 4.])
    """
    return ElementwiseGrad(fun, argnums=argnums)


egrad = elementwise_grad
