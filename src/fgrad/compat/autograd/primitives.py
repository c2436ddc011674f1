"""Functions with rules of the user's own: `primitive`, and what declares the rules."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from itertools import count as counting
from typing import Any, cast

import numpy as np

import fgrad
from fgrad import tree
from fgrad.compat.autograd.boxes import isbox
from fgrad.compat.autograd.spaces import vspace
from fgrad.core.tensor import Tensor, is_traced, is_tracked
from fgrad.transforms.calling import plain
from fgrad.transforms.custom import Rule, apply_rule
from fgrad.transforms.operations import pulled

Maker = Callable[..., Any]

primitive_vjps: dict[Any, Maker] = {}  # (argnums, ans, args, kwargs) -> (g) -> cotangents
primitive_jvps: dict[Any, Maker] = {}  # (argnums, gs, ans, args, kwargs) -> tangent
trace_primitives_map: dict[Any, Any] = {}
APPLIED = [0]  # how many rules of users were recorded so far


class _Applied(Rule):
    """One call of a primitive, some of whose arguments are followed."""

    in_arrays = True
    out_structure: Any
    dtypes: list[Any]
    given: list[Any]
    ans: Any

    def __init__(
        self, operation: Any, args: Sequence[Any], kwargs: dict[str, Any], places: Sequence[int]
    ) -> None:
        self.operation, self.args, self.kwargs, self.places = operation, args, kwargs, places
        self.name = operation.__name__
        self.leaves: list[Any] = [args[i] for i in places]
        self.simple = tree.are_leaves(self.leaves)
        if self.simple:  # the usual case: every argument is one leaf
            self.structures: list[Any] = [tree.LEAF] * len(places)
            self.groups = _SINGLE[: len(places)] if len(places) <= len(_SINGLE) else _singles(len(places))
            return
        self.structures, self.groups, self.leaves = [], [], []
        for i in places:
            leaves, structure = tree.flatten(args[i])
            self.groups.append(slice(len(self.leaves), len(self.leaves) + len(leaves)))
            self.leaves += leaves
            self.structures.append(structure)

    def filled(self, values: Sequence[Any]) -> list[Any]:
        """Return the arguments with `values` as the leaves of those that are followed."""
        args = list(self.args)
        if self.simple:
            for i, value in zip(self.places, values, strict=True):
                args[i] = value
            return args
        for i, structure, group in zip(self.places, self.structures, self.groups, strict=True):
            args[i] = tree.unflatten(structure, values[group])
        return args

    def primal(self, *values: Any) -> list[Any]:
        return self._computed([_unwrapped(v) for v in values])[1]

    def _computed(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the arguments with `values` among them, and the leaves of what comes of them."""
        given = self.filled(values)
        leaves, self.out_structure = tree.flatten(self.operation.fun(*given, **self.kwargs))
        return given, leaves

    def forward(self, *values: Any) -> list[Any]:
        if self.operation not in primitive_vjps and self.operation not in primitive_jvps:
            raise NotImplementedError(
                f"{self.name} has no derivative with respect to argnums {tuple(self.places)}: "
                "declare one by defvjp or defjvp"
            )
        for v in values:
            if v.__class__ is Tensor and is_tracked(v):  # by recordings around, which see one operation too
                outs, self.out_structure = tree.flatten(self.operation(*self.filled(values), **self.kwargs))
                self.given = self.filled([plain(v) for v in values])
                break
        else:
            self.given, outs = self._computed([_unwrapped(v) for v in values])
        self.dtypes = [v.dtype for v in values]
        self.ans = tree.unflatten(self.out_structure, [_unwrapped(o) for o in outs])
        APPLIED[0] += 1
        return outs

    def backward(self, *cts: Any) -> Sequence[Any]:
        g = self.out_structure.unflatten(self._completed(cts))
        wanted = self.wanted or (True,) * len(self.leaves)
        asked = {i: group for i, group in zip(self.places, self.groups, strict=True) if True in wanted[group]}
        back: list[Any] = [None] * len(self.leaves)
        for (i, group), ct in zip(asked.items(), self._pulled(tuple(asked), g), strict=True):
            if ct is None:
                continue
            leaves, dtypes = [ct] if tree.is_leaf_type(ct.__class__) else tree.leaves(ct), self.dtypes[group]
            if len(leaves) != len(dtypes):
                raise TypeError(
                    f"the vjp of {self.name} with respect to argument {i} returned another structure than "
                    "the argument has"
                )
            back[group] = map(_of_dtype, leaves, dtypes)
        return back

    def forward_rule(self) -> Callable[..., list[Any]] | None:
        return self._pushed if self.operation in primitive_jvps else None

    def _pushed(self, tangents: Sequence[Any], pattern: Sequence[bool]) -> list[Any]:
        """Return the tangents of the outputs by the forward rule."""
        it = iter(tangents)
        given = [next(it) if tracked else None for tracked in pattern]
        argnums, gs = [], []
        for i, structure, group in zip(self.places, self.structures, self.groups, strict=True):
            parts = given[group]
            if any(t is not None for t in parts):
                values = tree.leaves(self.given[i])
                whole = [
                    vspace(v).zeros() if t is None else _unwrapped(t)
                    for t, v in zip(parts, values, strict=True)
                ]
                argnums.append(i)
                gs.append(tree.unflatten(structure, whole))
        out = primitive_jvps[self.operation](tuple(argnums), gs, self.ans, tuple(self.given), self.kwargs)
        outs = tree.leaves(self.ans)
        return [_of_dtype(plain(t), np.result_type(o)) for t, o in zip(tree.leaves(out), outs, strict=True)]

    def _completed(self, cts: Sequence[Any]) -> list[Any]:
        """Return the cotangents of all outputs."""
        return [
            vspace(tree.leaves(self.ans)[i]).zeros() if ct is None else _unwrapped(ct)
            for i, ct in enumerate(cts)
        ]

    def _pulled(self, argnums: tuple[int, ...], g: Any) -> Iterable[Any]:
        maker = primitive_vjps.get(self.operation)
        if maker is not None:
            return maker(argnums, self.ans, tuple(self.given), self.kwargs)(g)  # type: ignore[no-any-return]
        push = primitive_jvps[self.operation]

        zeros, structure = tree.flatten([vspace(self.given[i]).zeros() for i in argnums])

        def pushed(tangents: Sequence[Any]) -> Sequence[Any]:
            given = tree.unflatten(structure, tangents)
            return tree.leaves(push(argnums, given, self.ans, tuple(self.given), self.kwargs))

        found = pulled(pushed, list(map(np.asarray, zeros)), self.name)(tree.leaves(g))
        whole = [zero if ct is None else ct for ct, zero in zip(found, zeros, strict=True)]
        return cast("Iterable[Any]", tree.unflatten(structure, whole))


_ARRAYS = (Tensor, np.ndarray, np.generic)


def _singles(n: int) -> list[slice]:
    return [slice(k, k + 1) for k in range(n)]


_SINGLE = _singles(8)


def _of_dtype(ct: Any, dtype: np.dtype[Any]) -> Any:
    """Return a cotangent in the dtype of what it belongs to; of a real number it is real."""
    if not isinstance(ct, _ARRAYS):
        ct = np.asarray(ct)
    if ct.dtype == dtype:
        return ct
    return (fgrad.numpy.real(ct) if ct.dtype.kind == "c" and dtype.kind != "c" else ct).astype(dtype)


def _unwrapped(v: Any) -> Any:
    """Return what the function of a primitive gets for a value: an array, or a Tensor that is followed."""
    if v.__class__ is Tensor:
        v = plain(v)
    return v[()] if v.__class__ is np.ndarray and not v.ndim else v


_PLAIN = frozenset({np.ndarray, np.float64, np.float32, float, int, bool, complex})


def _is_followed(x: Any) -> bool:
    if x.__class__ is Tensor:
        return is_traced(x)
    if tree.is_leaf_type(x.__class__):
        return False
    return isinstance(x, tuple | list | dict) and any(map(isbox, tree.leaves(x)))


def primitive(fun: Any) -> Any:
    """Return `fun` as one operation, which has the derivatives that `defvjp` and `defjvp` declare.

    Args:
        fun: a function of arrays and other things; keyword arguments have no derivatives.

    Example:
        >>> from fgrad.compat.autograd.primitives import defvjp, primitive
        >>> import fgrad
        >>> cube = primitive(lambda x: x**3)
        >>> defvjp(cube, lambda ans, x: lambda g: g * 3 * x**2)
        >>> fgrad.grad(cube)(2.0)
        np.float64(12.0)
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        for a in args:
            if a.__class__ not in _PLAIN:
                break
        else:
            return fun(*args, **kwargs)
        places = [i for i, a in enumerate(args) if _is_followed(a)]
        if not places:
            return fun(*[a if a.__class__ is not Tensor else _unwrapped(a) for a in args], **kwargs)
        rule = _Applied(wrapped, args, kwargs, places)
        outs = apply_rule(rule, rule.leaves)
        return tree.unflatten(rule.out_structure, outs)

    update_wrapper(wrapped, fun, assigned=("__name__", "__doc__"), updated=())
    if not hasattr(fun, "__name__"):
        wrapped.__name__ = "[unknown name]"
    wrapped.fun = fun  # type: ignore[attr-defined]
    wrapped._is_autograd_primitive = True  # type: ignore[attr-defined]
    trace_primitives_map[fun] = wrapped
    return wrapped


# ---- reverse rules


def defvjp_argnums(fun: Any, vjpmaker: Maker) -> None:
    """Declare the reverse rule by `vjpmaker(argnums, ans, args, kwargs) -> (g -> cotangents)`."""
    _check(fun, "defvjp_argnums")
    primitive_vjps[fun] = vjpmaker


def defvjp_argnum(fun: Any, vjpmaker: Maker) -> None:
    """Declare the reverse rule by `vjpmaker(argnum, ans, args, kwargs) -> (g -> cotangent)`."""

    def maker(argnums: Sequence[int], ans: Any, args: Any, kwargs: Any) -> Maker:
        vjps = [vjpmaker(i, ans, args, kwargs) for i in argnums]
        return lambda g: [vjp(g) for vjp in vjps]

    defvjp_argnums(fun, maker)


def defvjp(fun: Any, *vjpmakers: Maker | None, argnums: Iterable[int] | None = None) -> None:
    """Declare the reverse rule by one `vjpmaker(ans, *args, **kwargs) -> (g -> cotangent)` per argument.

    Args:
        fun: what `primitive` returned.
        vjpmakers: for each argument in turn; None: its cotangent is zero.
        argnums: which arguments these are for; None: the first ones.
    """
    makers = _numbered(vjpmakers, argnums, fun)

    def maker(wanted: Sequence[int], ans: Any, args: Any, kwargs: Any) -> Maker:
        vjps = []
        for i in wanted:
            if i not in makers:
                missing = [i for i in wanted if i not in makers]
                raise NotImplementedError(
                    f"the vjp of {fun.__name__} with respect to argnums {missing} is not declared"
                )
            make = makers[i]
            vjps.append(None if make is None else make(ans, *args, **kwargs))
        return lambda g: [None if vjp is None else vjp(g) for vjp in vjps]

    defvjp_argnums(fun, maker)


# ---- forward rules


def defjvp_argnums(fun: Any, jvpmaker: Maker) -> None:
    """Declare the forward rule by `jvpmaker(argnums, gs, ans, args, kwargs) -> tangent`."""
    _check(fun, "defjvp_argnums")
    primitive_jvps[fun] = jvpmaker


def defjvp_argnum(fun: Any, jvpmaker: Maker) -> None:
    """Declare the forward rule by `jvpmaker(argnum, g, ans, args, kwargs) -> tangent`, and their sum."""

    def maker(argnums: Sequence[int], gs: Sequence[Any], ans: Any, args: Any, kwargs: Any) -> Any:
        return sum_outgrads(jvpmaker(i, g, ans, args, kwargs) for i, g in zip(argnums, gs, strict=True))

    defjvp_argnums(fun, maker)


def defjvp(fun: Any, *jvpfuns: Maker | str | None, argnums: Iterable[int] | None = None) -> None:
    """Declare the forward rule by one `jvpfun(g, ans, *args, **kwargs) -> tangent` per argument.

    Args:
        fun: what `primitive` returned.
        jvpfuns: for each argument in turn; None: it adds nothing; "same": `fun` is linear in the argument.
        argnums: which arguments these are for; None: the first ones.
    """
    rules = _numbered(jvpfuns, argnums, fun, "same")

    def maker(argnum: int, g: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        if argnum not in rules:
            raise NotImplementedError(
                f"the jvp of {fun.__name__} with respect to argnum {argnum} is not declared"
            )
        rule = rules[argnum]
        if rule is None:
            return vspace(ans).zeros()
        if rule == "same":
            return _linear(fun, argnum, g, args, kwargs)
        return rule(g, ans, *args, **kwargs)

    defjvp_argnum(fun, maker)


def def_linear(fun: Any) -> None:
    """Declare that `fun` is linear in each argument."""
    defjvp_argnum(fun, lambda i, g, ans, args, kwargs: _linear(fun, i, g, args, kwargs))


def _linear(fun: Any, argnum: int, g: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return `fun` of a tangent; where that is followed, by way of the operations that it is made of.

    They have transposes, and a rule that says only that `fun` is linear has none.
    """
    return (fun.fun if _is_followed(g) else fun)(*args[:argnum], g, *args[argnum + 1 :], **kwargs)


def sum_outgrads(gs: Iterable[Any]) -> Any:
    """Return the sum of tangents or cotangents of one value."""
    total: Any = None
    for g in gs:
        total = g if total is None else vspace(g).add(total, g)
    return total


def _numbered(rules: Sequence[Any], argnums: Iterable[int] | None, fun: Any, *words: str) -> dict[int, Any]:
    for rule in rules:
        if not (rule is None or callable(rule) or rule in words):
            raise TypeError(f"{rule!r} is no rule for {getattr(fun, '__name__', fun)}: give a function")
    return dict(zip(counting() if argnums is None else argnums, rules, strict=False))


def _check(fun: Any, what: str) -> None:
    """Refuse rules for functions that have some; those of plain functions are never asked, as in autograd."""
    library = "numpy" if isinstance(fun, np.ufunc) else str(getattr(fun, "__module__", "")).partition(".")[0]
    if library in {"fgrad", "numpy", "scipy"} and not hasattr(fun, "_is_autograd_primitive"):
        name = getattr(fun, "__name__", fun)
        raise NotImplementedError(
            f"{what}: {name} is no primitive of yours, and fgrad's own rules stay as they are; "
            f"declare the rule for primitive({name})"
        )


# ---- what autograd itself advises against


def deprecated_primitive(fun: Any) -> Any:
    """Return `primitive(fun)` with the methods `defvjp`, `defgrad` and `defvjp_is_zero` of old programs."""
    made = primitive(fun)
    rules: dict[int, Maker | None] = {}

    def declare(argnum: int, rule: Maker | None, method: str) -> None:
        warnings.warn(f"the method {method} is deprecated; call defvjp(fun, *vjpmakers)", stacklevel=3)
        rules[argnum] = rule
        defvjp(made, *[rules[i] for i in sorted(rules)], argnums=sorted(rules))

    def unstaged(vjp: Maker, argnum: int = 0) -> None:
        def maker(ans: Any, *args: Any, **kwargs: Any) -> Maker:
            return lambda g: vjp(g, ans, vspace(args[argnum]), vspace(g), *args, **kwargs)

        declare(argnum, maker, "defvjp")

    def is_zero(argnums: Iterable[int] = (0,)) -> None:
        for argnum in argnums:
            declare(argnum, None, "defvjp_is_zero")

    made.defvjp = unstaged
    made.defgrad = lambda maker, argnum=0: declare(argnum, maker, "defgrad")
    made.defvjp_is_zero = is_zero
    return made
