"""autograd's transformations, in its signatures: `grad(fun, argnum)` and its kin."""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fgrad
from fgrad import tree
from fgrad.compat.autograd.boxes import isbox
from fgrad.compat.autograd.primitives import APPLIED
from fgrad.compat.autograd.spaces import vspace
from fgrad.transforms.calling import Delivery
from fgrad.transforms.forward import pushed_along
from fgrad.transforms.reverse import Evaluated, Inputs, Pullback, checked_cts, deliver_inputs, derivatives_of

Function = Callable[..., Any]


# ---- functions of one argument, and of several


def get_name(fun: Any) -> str:
    """Return the name of a function."""
    return getattr(fun, "__name__", "[unknown name]")


def get_doc(fun: Any) -> str:
    """Return the docstring of a function."""
    return getattr(fun, "__doc__", "") or ""


def wraps(fun: Any, namestr: str = "{fun}", docstr: str = "{doc}", **words: Any) -> Callable[[Any], Any]:
    """Return a decorator that names a function after `fun`, by patterns."""

    def decorate(made: Any) -> Any:
        try:
            made.__name__ = namestr.format(fun=get_name(fun), **words)
            made.__doc__ = docstr.format(fun=get_name(fun), doc=get_doc(fun), **words)
        except (AttributeError, KeyError, IndexError, ValueError, TypeError):  # braces in a docstring, say
            pass
        return made

    return decorate


def unary_to_nary(unary_operator: Function) -> Function:
    """Return an operator on functions of several arguments from one on functions of one.

    The operator made takes `(fun, argnum=0, *options)`; argnum is an index, or a tuple or list of indices,
    for which the one argument is the tuple of these arguments.
    """
    op = get_name(unary_operator)

    @wraps(unary_operator)
    def nary_operator(fun: Function, argnum: Any = 0, *options: Any, **more: Any) -> Function:
        if type(argnum) not in (int, tuple, list):
            raise AssertionError(f"argnum must be an integer, a tuple or a list, not {argnum!r}")
        name, doc = str(get_name(fun)), get_doc(fun)

        def nary(*args: Any, **kwargs: Any) -> Any:
            def unary(x: Any) -> Any:
                new = list(args)
                if argnum.__class__ is int:
                    new[argnum] = x
                else:
                    for i, value in zip(argnum, x, strict=True):
                        new[i] = value
                return fun(*new, **kwargs)

            unary.__name__, unary.__doc__ = name, doc
            x = args[argnum] if argnum.__class__ is int else tuple([args[i] for i in argnum])
            return unary_operator(unary, x, *options, **more)

        nary.__name__ = f"{op}_of_{name}_wrt_argnum_{argnum}"
        nary.__doc__ = (
            f"    {op} of function {name} with respect to argument number {argnum}; takes its arguments."
        )
        return nary

    return nary_operator  # type: ignore[no-any-return]


# ---- the two modes


def _independent(depth: int = 4) -> None:
    warnings.warn("Output seems independent of input.", stacklevel=depth)


def _point(x: Any) -> Any:
    """Return where to differentiate: arrays of integers as the real numbers that they are."""
    if tree.is_leaf_type(x.__class__):
        return _real(x)
    leaves, structure = tree.flatten(x)
    reals = list(map(_real, leaves))
    for real, leaf in zip(reals, leaves, strict=True):
        if real is not leaf:
            return structure.unflatten(reals)
    return x


def _real(x: Any) -> Any:
    return x.astype(float) if isinstance(x, np.ndarray | fgrad.Tensor) and x.dtype.kind in "iu" else x


def _evaluated(fun: Function, x: Any, what: str, *, once: bool = False) -> tuple[Evaluated, Inputs, Delivery]:
    """Return `fun` evaluated at `x`, its argument and what hands out results."""
    point = (_point(x),)
    inputs = Inputs(point, (0,), what)
    run = Evaluated(fun, point, {}, inputs, False, once=once)
    return run, inputs, Delivery(not inputs.has_tensor())


def core_make_vjp(fun: Function, x: Any) -> tuple[Function, Any]:
    """Return the pullback of `fun` at `x`, and `fun(x)`."""
    run, inputs, deliver = _evaluated(fun, x, "vjp")
    ans = run.structure.unflatten([deliver.leaf(y) for y in run.outs])
    if not any(run.pullback.sources):
        _independent()
        return lambda g: vspace(x).zeros(), ans
    pullback = Pullback(run, inputs, deliver.as_numpy, fun, "ignore")
    return lambda g: pullback(g)[0], ans


def core_make_jvp(fun: Function, x: Any) -> Function:
    """Return the map from a tangent at `x` to `fun(x)` and its tangent."""

    def jvp(g: Any) -> tuple[Any, Any]:
        ans, tangent, run, _ = pushed_along(fun, (_point(x),), (g,), False)
        if not any(run.pullback.sources):
            _independent()
            return ans, vspace(ans).zeros()
        return ans, tangent

    return jvp


make_vjp: Function = wraps(core_make_vjp, "make_vjp")(unary_to_nary(core_make_vjp))
make_jvp: Function = wraps(core_make_jvp, "make_jvp")(unary_to_nary(core_make_jvp))


_ONE = np.float64(1)


def _pulled_ones(fun: Function, x: Any, what: str, accepts: Function, wanted: str) -> tuple[Any, Any]:
    """Return `fun(x)`, and the cotangent of x that belongs to ones: a pullback that is used only once."""
    run, inputs, deliver = _evaluated(fun, x, what, once=True)
    ans = tree.unflatten(run.structure, [deliver.leaf(y) for y in run.outs])
    if ans.__class__ is np.float64:  # the usual case, which every operator takes
        ones = [_ONE]
    else:
        space = vspace(ans)
        if not accepts(space):
            raise TypeError(f"{get_name(fun)} returned {space}, but {what} takes {wanted}")
        ones = checked_cts(space.ones(), run.outs, run.structure)
    if not any(run.pullback.sources):
        _independent(5)
        return ans, vspace(x).zeros()
    cts = run.pullback(ones)
    return ans, deliver_inputs(deliver, inputs, cts)[0]


_SCALAR: tuple[Function, str] = (
    lambda space: space.size == 1,
    "a function with a real scalar output; jacobian, elementwise_grad and holomorphic_grad are for others",
)
_REAL: tuple[Function, str] = (lambda space: not space.iscomplex, "functions with real outputs")


@unary_to_nary
def grad(fun: Function, x: Any) -> Any:
    """
    Returns a function which computes the gradient of `fun`, of one real output, with respect to positional
    argument number `argnum`. It takes the arguments of `fun`; the gradient is like the argument.
    """  # noqa: D205, D212 -- programs show it
    return _pulled_ones(fun, x, "grad", *_SCALAR)[1]


@unary_to_nary
def value_and_grad(fun: Function, x: Any) -> tuple[Any, Any]:
    """Return the value and the gradient, as `scipy.optimize.minimize(..., jac=True)` takes them."""
    return _pulled_ones(fun, x, "value_and_grad", *_SCALAR)


@unary_to_nary
def elementwise_grad(fun: Function, x: Any) -> Any:
    """Return the sum of each column of the Jacobian: its diagonal if it is diagonal."""
    return _pulled_ones(fun, x, "elementwise_grad", *_REAL)[1]


@unary_to_nary
def deriv(fun: Function, x: Any) -> Any:
    """Return the derivative in forward mode, along ones."""
    return core_make_jvp(fun, x)(vspace(x).ones())[1]


@unary_to_nary
def jacobian(fun: Function, x: Any) -> Any:
    """Return the Jacobian of an array with respect to an array: shape of the output, then of the argument."""
    before = APPLIED[0]
    run, inputs, deliver = _evaluated(fun, x, "jacobian")
    space, shape = vspace(tree.unflatten(run.structure, run.outs)), vspace(x).shape
    if not any(run.pullback.sources):
        _independent(4)
        return np.zeros((*space.shape, *shape))
    if space.shape and space.size and not space.iscomplex and APPLIED[0] == before:
        return derivatives_of(0, run, inputs, deliver)[0]
    rows = []  # rules of users need not know batches
    for e in space.standard_basis():
        cts = run.pullback(checked_cts(e, run.outs, run.structure))
        rows += deliver_inputs(deliver, inputs, cts)
    if not rows:
        return np.zeros((*space.shape, *shape))
    return fgrad.numpy.reshape(rows[0] if len(rows) == 1 else fgrad.numpy.stack(rows), (*space.shape, *shape))


@unary_to_nary
def holomorphic_grad(fun: Function, x: Any) -> Any:
    """Return the complex derivative of a holomorphic function."""
    if not vspace(x).iscomplex:
        warnings.warn("Input to holomorphic_grad is not complex", stacklevel=3)
    return grad(lambda x: fgrad.numpy.real(fun(x)))(x)


def grad_named(fun: Function, argname: str) -> Function:
    """Return the gradient with respect to the argument of a name."""
    return grad(fun, inspect.getfullargspec(fun).args.index(argname))  # type: ignore[no-any-return]


@unary_to_nary
def grad_and_aux(fun: Function, x: Any) -> tuple[Any, Any]:
    """Return the gradient of the first output, and the second output."""
    aux: Any = None

    def first(x: Any) -> Any:
        nonlocal aux
        out, aux = fun(x)
        return out

    vjp, ans = core_make_vjp(first, x)
    gradient = vjp(vspace(ans).ones())
    return gradient, tree.map(_delivered, aux)


def _delivered(x: Any) -> Any:
    return x.numpy() if isinstance(x, fgrad.Tensor) and not isbox(x) else x


# ---- products with second derivatives


@unary_to_nary
def hessian(fun: Function, x: Any) -> Any:
    """Return the Hessian."""
    return jacobian(jacobian(fun))(x)


@unary_to_nary
def make_hvp(fun: Function, x: Any) -> tuple[Function, Any]:
    """Return the product of the Hessian at `x` with vectors, and the gradient."""
    return core_make_vjp(grad(fun), x)


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    """Return the function of (*args, tensor) that computes the product of the Hessian with the tensor."""
    gradient = grad(fun, argnum)

    def product(*args: Any, **kwargs: Any) -> Any:
        *args_, vector = args
        return fgrad.numpy.tensordot(gradient(*args_, **kwargs), vector, np.ndim(vector))

    return grad(product, argnum)  # type: ignore[no-any-return]


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """Return the function of (*args, tensor) that computes the product of the tensor with the Jacobian."""

    def product(*args: Any, **kwargs: Any) -> Any:
        *args_, vector = args
        return fgrad.numpy.tensordot(vector, fun(*args_, **kwargs), np.ndim(vector))

    return jacobian(product, argnum)  # type: ignore[no-any-return]


vector_jacobian_product = tensor_jacobian_product


@unary_to_nary
def make_jvp_reversemode(fun: Function, x: Any) -> Function:
    """Return the map from a tangent at `x` to the tangent of `fun(x)`."""
    return fgrad.linearize(fun, _point(x))[1]


def make_ggnvp(
    f: Function, g: Function = lambda x: 0.5 * fgrad.numpy.sum(x**2, axis=-1), f_argnum: int = 0
) -> Function:
    """Return the maker of products with the generalized Gauss-Newton matrix J^T H J of g(f(x))."""

    def products(f: Function, x: Any) -> Function:
        pull, y = core_make_vjp(f, x)
        push = make_jvp_reversemode(f)(x)
        hvp, _ = make_hvp(g)(y)
        return lambda v: pull(hvp(push(v)))

    return unary_to_nary(products)(f, f_argnum)  # type: ignore[no-any-return]


def multigrad_dict(fun: Function) -> Function:
    """Return the gradients with respect to all arguments, as an ordered dictionary by name."""
    signature = inspect.signature(fun)

    def gradients(*args: Any, **kwargs: Any) -> OrderedDict[str, Any]:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()

        def of_dict(values: dict[str, Any]) -> Any:
            again = inspect.BoundArguments(signature, OrderedDict(values))
            return fun(*again.args, **again.kwargs)

        found = grad(of_dict)(dict(given.arguments))
        return OrderedDict((name, found[name]) for name in given.arguments)

    return gradients


def checkpoint(fun: Function) -> Function:
    """Return `fun` that keeps nothing for the reverse pass but its arguments, and runs there again."""
    return fgrad.checkpoint(fun)


def subvals(x: Sequence[Any], pairs: Any) -> tuple[Any, ...]:
    """Return a sequence with other values at some places, as a tuple."""
    new = list(x)
    for i, value in pairs:
        new[i] = value
    return tuple(new)


def subval(x: Sequence[Any], i: int, value: Any) -> tuple[Any, ...]:
    """Return a sequence with another value at one place, as a tuple."""
    return subvals(x, [(i, value)])
