"""`autograd.test_util`: derivatives compared with differences of the function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from fgrad.compat.autograd.operators import core_make_jvp, core_make_vjp, get_name, unary_to_nary
from fgrad.compat.autograd.spaces import VSpace, vspace

__all__ = [
    "EPS",
    "RTOL",
    "TOL",
    "check_equivalent",
    "check_grads",
    "check_jvp",
    "check_vjp",
    "combo_check",
    "make_numerical_jvp",
    "quick_grad_check",
    "scalar_close",
]

TOL: float = 1e-6
RTOL: float = 1e-6
EPS: float = 1e-6
Function = Callable[..., Any]


def scalar_close(a: Any, b: Any) -> Any:
    """Return whether two numbers are close."""
    return abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL


def make_numerical_jvp(f: Function, x: Any) -> Function:
    """Return the map from a tangent to the central difference of `f` along it."""
    return _differences(f, x, vspace(f(x)))


def _differences(f: Function, x: Any, there: VSpace) -> Function:
    """Return what `make_numerical_jvp` does, for a function whose values are known to be in a space."""
    here = vspace(x)

    def jvp(v: Any) -> Any:
        ahead, behind = f(here.moved(x, v, EPS / 2)), f(here.moved(x, v, -EPS / 2))
        return there.scalar_mul(there.moved(ahead, behind, -1.0), 1.0 / EPS)

    return jvp


def check_vjp(f: Function, x: Any) -> None:
    """Compare <v, J^T w> with <J v, w> for random v and w, where J v is a difference.

    Raises:
        AssertionError: they differ.
    """
    vjp, y = core_make_vjp(f, x)
    here, there = vspace(x), vspace(y)
    v, w = here.randn(), there.randn()
    back = here.covector(vjp(there.covector(w)))
    if vspace(back) != here:
        raise AssertionError(f"the cotangent is in {vspace(back)}, the argument in {here}")
    exact, numeric = here.inner_prod(v, back), there.inner_prod(w, _differences(f, x, there)(v))
    if not scalar_close(numeric, exact):
        raise AssertionError(
            f"Derivative (VJP) check of {get_name(f)} failed with arg {x}:\n"
            f"analytic: {exact}\nnumeric:  {numeric}"
        )


def check_jvp(f: Function, x: Any) -> None:
    """Compare the tangent of a random direction with a difference.

    Raises:
        AssertionError: they differ.
    """
    v = vspace(x).randn()
    y, tangent = core_make_jvp(f, x)(v)
    check_equivalent(tangent, _differences(f, x, vspace(y))(v))


def check_equivalent(x: Any, y: Any) -> None:
    """Compare two values by a random inner product.

    Raises:
        AssertionError: they are in different spaces, or differ.
    """
    space = vspace(x)
    if space != vspace(y):
        raise AssertionError(f"VSpace mismatch:\nx: {space}\ny: {vspace(y)}")
    v = space.randn()
    if not scalar_close(space.inner_prod(x, v), space.inner_prod(y, v)):
        raise AssertionError(f"Value mismatch:\nx: {x}\ny: {y}")


@unary_to_nary
def check_grads(f: Function, x: Any, modes: Sequence[str] = ("fwd", "rev"), order: int = 2) -> None:
    """Check derivatives of `f` at `x` up to an order, in both modes.

    Raises:
        AssertionError: one is wrong.
    """
    if not set(modes) <= {"fwd", "rev"}:
        raise AssertionError(f"modes are 'fwd' and 'rev', not {modes}")
    for mode in modes:
        is_forward = mode == "fwd"
        (check_jvp if is_forward else check_vjp)(f, x)
        if order > 1:

            def derivative(x: Any, v: Any, is_forward: bool = is_forward) -> Any:
                return core_make_jvp(f, x)(v)[1] if is_forward else core_make_vjp(f, x)[0](v)

            derivative.__name__ = f"{'jvp' if is_forward else 'vjp'}_{get_name(f)}"
            v = vspace(x if is_forward else f(x)).randn()
            check_grads(derivative, (0, 1), modes=modes, order=order - 1)(x, v)


def combo_check(fun: Function, *args: Any, **kwargs: Any) -> Function:
    """Return a check of `fun` at all combinations of the values given for each argument."""

    def check(*values: Sequence[Any], **keywords: Sequence[Any]) -> None:
        for given in product(*values):
            for chosen in product(*keywords.values()):
                check_grads(fun, *args, **kwargs)(*given, **dict(zip(keywords, chosen, strict=True)))

    return check


def quick_grad_check(fun: Function, arg0: Any, extra_args: Sequence[Any] = (), **options: Any) -> None:
    """Check the gradient in the first argument; deprecated in autograd, which says `check_grads` instead."""
    kwargs = options.get("kwargs", {})
    warnings.warn("quick_grad_check is deprecated; call check_grads", stacklevel=2)
    check_grads(lambda x: fun(x, *extra_args, **kwargs), modes=["rev"], order=1)(arg0)
