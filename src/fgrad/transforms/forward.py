"""Forward mode by double reverse mode: the pullback is linear in its cotangent, and its transpose is J.

With u the cotangent of the output, x_ct = J^T u. Differentiating x_ct with respect to u along a tangent t
gives J t, for any u. So no operation needs a forward rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

import numpy as np

from fgrad import tree
from fgrad.core.placement import near
from fgrad.core.tracebacks import shorten
from fgrad.errors import NotLinearError
from fgrad.transforms.batch import batched_map
from fgrad.transforms.calling import Delivery, has_tensor, name_of
from fgrad.transforms.cotangents import cotangent
from fgrad.transforms.pushforward import Pushforward
from fgrad.transforms.reverse import Evaluated, Inputs, Jacobian, Pullback, grad, jacrev, unit_basis

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class Pushed:
    """A function evaluated at some arguments, with its pushforward on flat lists of leaves."""

    __slots__ = ("push", "run")

    def __init__(
        self,
        fun: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        inputs: Inputs,
        has_aux: bool,
    ) -> None:
        self.run: Evaluated = Evaluated(fun, args, kwargs, inputs, has_aux)
        self.push: Pushforward = Pushforward(self.run.pullback, self.run.outs)

    def zeros(self, tangents: Sequence[Any]) -> list[Any]:
        """Return tangents of the outputs, zeros where none arrived."""
        return [_zero(y) if t is None else t for t, y in zip(tangents, self.run.outs, strict=True)]


def _zero(y: Any) -> Any:
    dtype = getattr(y, "dtype", None) or np.result_type(type(y))
    return near(y).zeros(np.shape(y) if not hasattr(y, "shape") else y.shape, dtype)


def _pairs(inputs: Inputs, tangents: Sequence[Any], where: Sequence[int], what: str) -> list[Any]:
    """Return the tangent of each differentiated leaf, checked."""
    flat: list[Any] = []
    for i, structure in zip(where, inputs.structures, strict=True):
        found, given = tree.flatten(tangents[i])
        if given != structure:
            raise TypeError(
                f"{what}: the tangent {i} has the structure {given}, "
                f"but the primal {i} has the structure {structure}"
            )
        flat += found
    if inputs.places is not None:
        flat = [t for p, t in zip(inputs.places, flat, strict=True) if p is not None]
    return [
        cotangent(t, h[0], "the tangent", "the primal") for t, h in zip(flat, inputs.handles, strict=True)
    ]


@overload
def jvp(
    fun: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False
) -> tuple[R, R]: ...


@overload
def jvp(
    fun: Callable[..., tuple[R, A]], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[True]
) -> tuple[R, R, A]: ...


@overload
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool
) -> tuple[Any, ...]: ...


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """Return `fun(*primals)` and its directional derivative along `tangents`.

    Args:
        fun: takes and returns pytrees.
        primals: tuple or list of arguments, floating-point leaves.
        tangents: the directions, of the structure, shapes and dtypes of `primals`.
        has_aux: whether `fun` returns `(out, aux)`.

    Returns:
        `(out, tangent_out)` or `(out, tangent_out, aux)`.

    Raises:
        TypeError: `primals` or `tangents` is no tuple or list, or structures or dtype kinds differ.
        ValueError: shapes differ.

    Derivative:
        Of `out` and `tangent_out`, in primals and tangents, of every order.

    Example:
        >>> from fgrad import jvp
        >>> out, tangent = jvp(lambda x: x * x, (3.0,), (1.0,))
        >>> float(out), float(tangent)
        (9.0, 6.0)
    """
    try:
        _check_sequences(primals, tangents, "jvp")
        out, tangent_out, run, deliver = pushed_along(fun, primals, tangents, has_aux)
        return (out, tangent_out, deliver.tree(run.aux)) if has_aux else (out, tangent_out)
    except Exception as error:
        shorten(error)
        raise


def pushed_along(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool
) -> tuple[Any, Any, Evaluated, Delivery]:
    """Return `fun(*primals)`, its tangent, what was evaluated, and what hands out results."""
    where = range(len(primals))
    inputs = Inputs(primals, where, "jvp")
    ts = _pairs(inputs, tangents, where, "jvp")
    pushed = Pushed(fun, primals, {}, inputs, has_aux)
    run = pushed.run
    deliver = Delivery(not (inputs.has_tensor() or has_tensor(tangents)))
    out = run.structure.unflatten([deliver.leaf(y) for y in run.outs])
    found = [deliver.made(t) for t in pushed.zeros(pushed.push(ts))]
    return out, run.structure.unflatten(found), run, deliver


def _check_sequences(primals: Any, tangents: Any, what: str) -> None:
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise TypeError(
                f"{what} takes the {name} as a tuple or list, one entry per argument, "
                f"not {type(given).__name__}; write {what}(f, (x,), (t,))"
            )
    if len(primals) != len(tangents):
        raise TypeError(
            f"{what} got {len(primals)} primals and {len(tangents)} tangents; give one tangent per primal"
        )


class Linearized:
    """The linear map from tangents of the primals to the tangent of the output."""

    def __init__(self, pushed: Pushed, inputs: Inputs, as_numpy: bool) -> None:
        self._pushed, self._inputs, self._as_numpy = pushed, inputs, as_numpy

    def __call__(self, *tangents: Any) -> Any:
        """Return the tangent of the output."""
        inputs = self._inputs
        if len(tangents) != len(inputs.structures):
            raise TypeError(
                f"the linear function takes {len(inputs.structures)} tangents, one per primal, "
                f"not {len(tangents)}"
            )
        deliver = Delivery(self._as_numpy and not has_tensor(tangents))
        out = self._pushed.push(_pairs(inputs, tangents, range(len(tangents)), "linearize"))
        return tree.unflatten(self._pushed.run.structure, [deliver.made(t) for t in self._pushed.zeros(out)])


@overload
def linearize(
    fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[R, Callable[..., R]]: ...


@overload
def linearize(
    fun: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True]
) -> tuple[R, Callable[..., R], A]: ...


@overload
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool) -> tuple[Any, ...]: ...


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return `fun(*primals)` and the linear function of tangents there; `fun` is not run again by it.

    Args:
        fun: takes and returns pytrees.
        primals: the point, floating-point leaves.
        has_aux: whether `fun` returns `(out, aux)`.

    Returns:
        `(out, f_jvp)` or `(out, f_jvp, aux)`, with `f_jvp(*tangents)` the directional derivative.

    Raises:
        TypeError: a leaf of `primals` is not floating, or tangents have other structures or dtype kinds.
        ValueError: tangents have other shapes.

    Derivative:
        `f_jvp` is linear; its transpose is that of `vjp`.

    Example:
        >>> from fgrad import linearize
        >>> out, f_jvp = linearize(lambda x: x * x, 3.0)
        >>> float(f_jvp(2.0))
        12.0
    """
    try:
        inputs = Inputs(primals, range(len(primals)), "linearize")
        pushed = Pushed(fun, primals, {}, inputs, has_aux)
        as_numpy = not has_tensor(primals)
        deliver = Delivery(as_numpy)
        out = tree.unflatten(pushed.run.structure, [deliver.leaf(y) for y in pushed.run.outs])
        linear = Linearized(pushed, inputs, as_numpy)
        return (out, linear, deliver.tree(pushed.run.aux)) if has_aux else (out, linear)
    except Exception as error:
        shorten(error)
        raise


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return the transpose of a function that is linear in all arguments.

    Args:
        fun: linear; takes and returns pytrees.
        primals: arrays of which only structure, shapes and dtypes matter.

    Returns:
        A function from a cotangent of the output to a tuple with one cotangent per primal.

    Raises:
        TypeError: a leaf of `primals` is not floating, or `fun` is not linear.

    Example:
        >>> from fgrad import linear_transpose
        >>> [float(c) for c in linear_transpose(lambda x, y: 2.0 * x - y, 0.0, 0.0)(1.0)]
        [2.0, -1.0]
    """
    try:
        zeros = tree.map(_zero, list(primals))
        inputs = Inputs(zeros, range(len(zeros)), "linear_transpose")
        run = Evaluated(fun, zeros, {}, inputs, has_aux=False, linear=True)
    except NotLinearError as error:
        raise TypeError(
            f"linear_transpose needs a function that is linear in all arguments, but {name_of(fun)} applies "
            f"{error.primitive} to them. Use vjp(fun, *primals), which takes the point into account"
        ) from None
    except Exception as error:
        shorten(error)
        raise
    return Pullback(run, inputs, not has_tensor(zeros), fun, "ignore")


class ForwardJacobian(Jacobian):
    """The function that computes a Jacobian, one pushforward per input element, all at once."""

    what = "jacfwd"

    def _check(self, inputs: Inputs) -> None:
        for value, *_ in inputs.handles:
            if value.dtype.kind == "c" and not self.options["holomorphic"]:
                raise TypeError(
                    f"jacfwd of {name_of(self.fun)} with complex arguments needs holomorphic=True; "
                    "otherwise differentiate with respect to real and imaginary parts"
                )

    def _rows(self, run: Evaluated, inputs: Inputs, deliver: Delivery) -> Iterator[list[Any]]:
        push, values = Pushforward(run.pullback, run.outs), [value for value, *_ in inputs.handles]

        def along(k: int, tangent: Any) -> list[Any]:
            return push([tangent if i == k else None for i in range(len(values))])

        columns = [
            batched_map(functools.partial(along, k), unit_basis(value, value.shape, value.dtype))
            for k, value in enumerate(values)
        ]
        for j, y in enumerate(run.outs):
            yield [deliver.made(_column(c[j], y, value)) for c, value in zip(columns, values, strict=True)]


def _column(stacked: Any, y: Any, value: Any) -> Any:
    """Return the stacked tangents of `y` with the axes of the input behind those of the output."""
    zero = _zero(y)
    shape = (*zero.shape, *value.shape)
    if stacked is None:
        return near(y).zeros(shape, zero.dtype)
    axes = (*range(1, zero.ndim + 1), 0)
    return stacked.transpose(axes).reshape(shape)


def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """Return the function that computes the Jacobian by forward mode; best for few inputs.

    Options and result as in `jacrev`.

    Args:
        fun: takes and returns pytrees.
        argnums: which positional argument, or arguments (then the result is a tuple).
        has_aux: whether `fun` returns `(out, aux)`; the result is then `(jacobian, aux)`.
        holomorphic: whether `fun` is holomorphic, with complex arguments and values.

    Returns:
        A function of the same arguments: for each leaf of the output and of the argument an array of the
        shape of the first followed by that of the second.

    Raises:
        TypeError: an argument is not floating; it is complex, and `holomorphic` false.

    Derivative:
        Of every order: `jacfwd(jacfwd(fun))`.

    Example:
        >>> from fgrad import jacfwd
        >>> jacfwd(lambda x: x * x)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    return ForwardJacobian(fun, argnums=argnums, has_aux=has_aux, holomorphic=holomorphic)


def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """Return the function that computes the second derivatives: `jacfwd(jacrev(fun))`.

    Args:
        fun: takes and returns pytrees.
        argnums: which positional argument, or arguments (then a tuple of tuples).
        has_aux: whether `fun` returns `(out, aux)`; the result is then `(hessian, aux)`.
        holomorphic: whether `fun` is holomorphic.

    Returns:
        A function that returns the structure of the output, of arguments, of arguments.

    Raises:
        TypeError: as in `jacfwd`.

    Example:
        >>> from fgrad import hessian
        >>> hessian(lambda x: (x**3).sum())(np.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    inner = jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return jacfwd(inner, argnums, has_aux=has_aux, holomorphic=holomorphic)


def hvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Return the gradient of scalar `fun` and its Hessian times `tangents`, without forming the Hessian.

    Args:
        fun: returns a real scalar.
        primals: tuple or list of arguments, floating-point leaves.
        tangents: the directions, of the structure, shapes and dtypes of `primals`.

    Returns:
        `(gradient, product)`, each for the one primal, or a tuple with one per primal.

    Raises:
        TypeError: `fun` returns no real scalar, or `primals` and `tangents` are no tuples or lists alike.
        ValueError: shapes differ.

    Derivative:
        Forward mode over reverse: one run of the gradient with its directional derivative.

    Example:
        >>> from fgrad import hvp
        >>> hvp(lambda x: (x**3).sum(), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))
        (array([ 3., 12.]), array([6., 0.]))
    """
    _check_sequences(primals, tangents, "hvp")
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    gradient, product = jvp(grad(fun, argnums), primals, tangents)
    return gradient, product
