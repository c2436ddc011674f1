"""Functions with derivatives of the user's own, by JAX's decorators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

from fgrad.compat.jax.arrays import form_of, made
from fgrad.compat.jax.avals import CustomVJPPrimal, SymbolicZero, filled_in, is_zero, typeof
from fgrad.compat.jax.transformations import Flat, Function, axes_of, like, merged, name_of, wraps
from fgrad.compat.jax.trees import flatten, unflatten
from fgrad.core.tensor import is_traced
from fgrad.transforms.custom import Rule, apply_rule
from fgrad.transforms.operations import pulled

__all__ = ["custom_gradient", "custom_jvp", "custom_vjp"]


class _Custom:
    """A function with a rule of its own."""

    application: type[_Application]
    symbolic = False

    def __init__(
        self, fun: Function, nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        names = list(inspect.signature(fun).parameters) if nondiff_argnames else []
        self.fun, self.nondiff = fun, (*nondiff_argnums, *map(names.index, nondiff_argnames))
        wraps(fun, updated=())(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns; its derivative is by the rule."""
        args = tuple(_bound(self.fun, args, kwargs))
        rule = self.application(self, args, {i % len(args) for i in self.nondiff})
        if not any(map(is_traced, rule.flat.tensors)):
            return self.fun(*args)
        return rule.flat.results(apply_rule(rule, rule.flat.tensors))


class _Application(Rule):
    """One call of such a function."""

    is_closed = True

    def __init__(self, custom: Any, args: Sequence[Any], nondiff: set[int]) -> None:
        self.custom, self.args, self.nondiff, self.name = custom, args, nondiff, name_of(custom.fun)
        self.static = [args[i] for i in sorted(nondiff)]
        values = [a for i, a in enumerate(args) if i not in nondiff]
        self.flat = Flat(lambda xs: custom.fun(*self.whole(xs)), values)

    def whole(self, given: Sequence[Any]) -> list[Any]:
        return merged(self.args, self.nondiff, given)

    def primal(self, *values: Any) -> list[Any]:
        """Return the outputs, where nothing is differentiated."""
        return self.flat(*values)

    def zero(self, x: Any) -> Any:
        """Return the tangent or cotangent of a value that none came for."""
        zero = SymbolicZero(typeof(x))
        return zero if self.custom.symbolic else filled_in(zero)


class _VjpApplication(_Application):
    def forward(self, *values: Any) -> list[Any]:
        """Return the outputs, and remember what `backward` needs."""
        xs = self.flat.filled(values)
        if self.custom.symbolic:
            leaves = flatten(xs)[0]
            pairs = zip(leaves, self.followed or (True,) * len(leaves), strict=True)
            xs = unflatten(self.flat.structure, [CustomVJPPrimal(x, f) for x, f in pairs])
        out, self.residuals = self.custom.fwd(*self.whole(xs))
        outs = self.flat.taken(out)
        self.outs = [typeof(made(t, form)) for t, form in zip(outs, self.flat.forms, strict=True)]
        return outs

    def backward(self, *cts: Any) -> list[Any]:
        pairs = zip(cts, self.outs, strict=True)
        given = [self.zero(o) if c is None else made(c, form_of(o.dtype)) for c, o in pairs]
        found = self.custom.bwd(*self.static, self.residuals, unflatten(self.flat.out, given))
        back: list[Any] = []
        for part, ct in zip(self.flat.structure.children(), found, strict=True):
            back += axes_of(ct, unflatten(part, range(part.num_leaves)))
        found = zip(back, self.flat.arrays, strict=True)
        return [None if is_zero(c) or a._tensor.dtype.kind not in "fc" else like(c, a) for c, a in found]


class custom_vjp(_Custom):  # noqa: N801 -- JAX's name
    """A function with a reverse rule of its own: `defvjp(fwd, bwd)`."""

    application = _VjpApplication

    def defvjp(
        self, fwd: Function, bwd: Function, symbolic_zeros: bool = False, optimize_remat: bool = False
    ) -> None:
        """Declare the rule: `out, residuals = fwd(*args)`, `cotangents = bwd(*nondiff, residuals, ct)`."""
        self.fwd, self.bwd, self.symbolic = fwd, bwd, symbolic_zeros


def custom_gradient(fun: Function) -> custom_vjp:
    """Return a function of which `fun` returns the value and the pullback; it runs again for the latter."""

    def backward(args: Any, ct: Any) -> Any:
        found = fun(*args)[1](ct)
        return found if isinstance(found, tuple | list) else (found,)

    rule = custom_vjp(lambda *args: fun(*args)[0])
    rule.defvjp(lambda *args: (fun(*args)[0], args), backward)
    return rule


class _JvpApplication(_Application):
    is_open = True

    def forward(self, *values: Any) -> list[Any]:
        """Return the outputs; the rule runs now, as in JAX, and its transpose later."""
        self.values = values
        self.pattern = self.followed or tuple(v.dtype.kind in "fc" for v in values)
        primals = [v for v, f in zip(values, self.pattern, strict=True) if f]
        self.pull = pulled(lambda ts: self.push(ts, self.pattern), primals, self.name)
        return self.outs

    def push(self, given: Sequence[Any], pattern: Sequence[bool]) -> list[Any]:
        """Return the tangents of the outputs, None for zero."""
        xs = self.flat.filled(self.values)
        known = iter(given)
        pairs = [(x, next(known) if f else None) for x, f in zip(flatten(xs)[0], pattern, strict=True)]
        ts = [self.zero(x) if t is None else made(t, x.strong) for x, t in pairs]
        out, tangent = self.custom.rule(*self.static, tuple(xs), tuple(unflatten(self.flat.structure, ts)))
        self.outs = self.flat.taken(out)
        groups = zip(self.flat.out.flatten_up_to(tangent), self.outs, self.flat.forms, strict=True)
        return [None if is_zero(t) or y.dtype.kind not in "fc" else like(t, y, form) for t, y, form in groups]

    def forward_rule(self) -> Any:
        """Return what forward mode asks."""
        return self.push

    def backward(self, *cts: Any) -> list[Any]:
        found = iter(self.pull(cts))
        return [next(found) if f else None for f in self.pattern]


class custom_jvp(_Custom):  # noqa: N801 -- JAX's name
    """A function with a forward rule of its own: `defjvp(jvp)` or `defjvps(...)`."""

    application = _JvpApplication

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """Declare the rule: `out, tangent = jvp(*nondiff, primals, tangents)`."""
        self.rule, self.symbolic = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *rules: Function | None) -> None:
        """Declare one rule per argument: `tangent = rule(t, out, *primals)`, None where there is no part."""

        def jvp(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            parts = [r(t, out, *primals) for r, t in zip(rules, tangents, strict=True) if r is not None]
            return out, functools.reduce(lambda a, b: a + b, parts)

        self.defjvp(jvp)


def _bound(fun: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    try:
        given = inspect.signature(fun).bind(*args, **kwargs)
    except (TypeError, ValueError):
        if kwargs:
            raise
        return list(args)
    given.apply_defaults()
    if given.kwargs:
        raise TypeError(f"{name_of(fun)} has a rule of its own and takes positional arguments only")
    return list(given.args)
