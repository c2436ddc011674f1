"""Operations with one rule for each transformation: what is no composition of others, or means more than one.

A solver whose derivative is another solve, code of another language, a value that `vmap` treats in its own
way. `extend.elementwise` and `extend.linear` derive most rules of theirs; here the user gives each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.backend.devices import as_array
from fgrad.core.aval import Aval, aval_of
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import (
    NOT_FOLDED,
    PRIMITIVES,
    VJP,
    Pattern,
    Primitive,
    Written,
    batch_size,
    declare,
)
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import Tracer
from fgrad.errors import NotLinearError
from fgrad.transforms.batch import BatchedTracer, Same, one_by_one
from fgrad.transforms.calling import plain
from fgrad.transforms.manager import GradManager

Rule = Callable[..., Any]


class Operation:
    """An operation of the user's own; a rule is looked for when it is needed.

    Args:
        name: what programs and messages call it.
        many: whether its result is a tuple.
        traced: whether compiled programs hold what `run` does, in the place of a call of it. It has to be a
            function of Tensors, and what it reads from outside may not change: nobody would notice.
        rules: any of `run`, `shape`, `jvp`, `transpose`, `batch`, as in `extend.operation`.
    """

    def __init__(self, name: str, *, many: bool = False, traced: bool = False, **rules: Rule | None) -> None:
        self.name, self.many = name, many
        self.run, self.shape = rules.get("run"), rules.get("shape")
        self.jvp, self.transpose, self.batch = (rules.get(k) for k in ("jvp", "transpose", "batch"))
        self.primitive = free_name(f"{getattr(self.run, '__module__', None) or 'users'}.{name}")
        declare(
            self.primitive,
            run=self._run,
            vjp=self._by_jvp,
            adjoint=self._transposed,
            shape=self._shape,
            batch=self._batch,
            many=True,
            traits={NOT_FOLDED},
            written=Written(self._traced) if traced else None,
            stored="what it computes is Python, and Python is not stored",
            interpreted="it calls a function of Python",
        )

    def __repr__(self) -> str:
        return f"<operation {self.name}>"

    def __call__(self, /, *args: Any, **params: Any) -> Any:
        """Apply it to arrays, Tensors and numbers."""
        values = [a if isinstance(a, Tensor | np.ndarray) else as_array(a) for a in args]
        outs = bind(self.primitive, *values, **params)
        if not any(v.__class__ is Tensor for v in values):
            outs = tuple([o[()] for o in outs])
        return outs if self.many else outs[0]

    def rule(self, what: str) -> Rule:
        """Return one of its rules.

        Raises:
            NotImplementedError: it has none.
        """
        found: Rule | None = getattr(self, what)
        if found is None:
            raise NotImplementedError(f"the operation {self.name} has no rule `{what}`")
        return found

    def _several(self, out: Any) -> tuple[Any, ...]:
        return tuple(out) if self.many else (out,)

    def _run(self, /, *values: Any, **params: Any) -> tuple[Any, ...]:
        outs = self._several(self.rule("run")(*values, **params))
        return tuple([as_array(plain(o)) for o in outs])

    def _traced(self, /, *values: Any, **params: Any) -> tuple[Any, ...]:
        outs = self._several(self.rule("run")(*values, **params))
        for out, aval in zip(outs, self._shape(*values, **params), strict=True):
            if np.shape(out) != aval.shape:
                raise ValueError(
                    f"the rule `run` of {self.name} returned an array of shape {np.shape(out)}, where its "
                    f"rule `shape` says {aval.shape}"
                )
        return outs

    def _shape(self, /, *args: Any, **params: Any) -> tuple[Aval, ...]:
        avals = [a if isinstance(a, Aval) else aval_of(a) for a in args]
        if self.shape is None:
            return tuple(map(aval_of, self._run(*(np.ones(a.shape, a.dtype) for a in avals), **params)))
        return tuple(
            [Aval(tuple(o.shape), np.dtype(o.dtype)) for o in self._several(self.shape(*avals, **params))]
        )

    def _batch(self, mapped: tuple[bool, ...], /, *values: Any, **params: Any) -> tuple[Any, ...]:
        if self.batch is None:
            size = batch_size(mapped, values)
            return tuple(one_by_one(PRIMITIVES[self.primitive], mapped, values, params, size))
        out, out_mapped = self.batch(mapped, *values, **params)
        pairs = zip(self._several(out), self._several(out_mapped), strict=True)
        return tuple([o if m else Same(o) for o, m in pairs])

    # -- derivatives: of a function by `jvp`, which is transposed; of a linear one, as that is, by `transpose`

    def _by_jvp(self, pattern: Pattern) -> VJP:
        places = [i for i, tracked in enumerate(pattern) if tracked]

        def push(given: Sequence[Any], *saved: Any) -> list[Any]:
            *primals, params = saved
            along: list[Any] = [None] * len(pattern)
            for i, t in zip(places, given, strict=True):
                along[i] = t
            _, out = self.rule("jvp")(tuple(primals), tuple(along), **params)
            return list(self._several(out))

        def step(cts: Sequence[Any], *saved: Any) -> list[Any]:
            hint = "; an operation that is linear gets a rule `transpose`"
            return pulled(lambda ts: push(ts, *saved), [saved[i] for i in places], self.name, hint)(cts)

        keep = tuple(range(1, len(pattern) + 1))
        return VJP(step, keep=keep, params=True, exact=True, push=push)

    def _transposed(self, pattern: Pattern) -> VJP | None:
        if self.transpose is None:
            return None
        linear = [i for i, tracked in enumerate(pattern) if tracked]
        known = [i for i, tracked in enumerate(pattern) if not tracked]

        def step(cts: Sequence[Any], *saved: Any) -> list[Any]:
            *values, params = saved
            args: list[Any] = [None] * len(pattern)
            for i, v in zip([*known, *linear], values, strict=True):
                args[i] = v
            ct = tuple(cts) if self.many else cts[0]
            found = self.rule("transpose")(ct, *args, **params)
            return [self._fitting(found[i], args[i]) for i in linear]

        keep, avals = ([i + 1 for i in places] for places in (known, linear))
        return VJP(step, keep=tuple(keep), avals=tuple(avals), params=True, exact=True)

    def _fitting(self, ct: Any, aval: Aval) -> Any:
        if ct is None:
            return None
        found = ct if ct.__class__ is Tensor else wrap(as_array(ct))
        if aval_of(found) != aval:
            raise ValueError(
                f"the rule `transpose` of {self.name} returned {aval_of(found)} for an operand {aval}"
            )
        return plain(found)


def pulled(
    push: Callable[[Sequence[Any]], Sequence[Any]], primals: Sequence[Any], name: str, hint: str = ""
) -> Callable[[Sequence[Any]], list[Any]]:
    """Return the transpose of a rule `jvp`: from cotangents of results to those of operands, None for zero.

    Args:
        push: from tangents of the operands to those of the results, None for zero.
        primals: the operands.
        name: what messages call the operation.
        hint: what they say of one that is linear.

    Raises:
        TypeError: `push` is not linear, or its results do not depend on tangents.
    """
    try:
        with GradManager() as gm:
            gm.make_linear()
            ts = [gm.follow(near(p).ones(p.shape, p.dtype)) for p in primals]
            out = push(ts)
            sweep = gm.pullback(out, ts)
    except NotLinearError as error:
        raise TypeError(
            f"the jvp rule of {name} applies {error.primitive} to tangents, in which it has to be linear"
            f"{hint}"
        ) from None
    for t, node in zip(out, sweep.sources, strict=True):
        if node is None and t is not None and not _is_zero(t):
            raise TypeError(
                f"the jvp rule of {name} returns a tangent that does not depend on those of the operands; "
                "one that is zero is np.zeros_like of the result"
            )

    def pull(cts: Sequence[Any]) -> list[Any]:
        arrived = [None if t is None else ct for t, ct in zip(out, cts, strict=True)]
        return list(sweep(arrived)) if any(c is not None for c in arrived) else [None] * len(ts)

    return pull


def _is_zero(x: Any) -> bool:
    """Return whether a value is known to be zero."""
    while isinstance(x, Tensor | BatchedTracer):
        x = x._value if isinstance(x, Tensor) else x.whole
    return not isinstance(x, Tracer) and not np.any(plain(x))


def free_name(name: str, fits: Callable[[Primitive], bool] = lambda primitive: False) -> str:
    """Return a name that no primitive has yet, or one that `fits`."""
    found, n = name, 1
    while found in PRIMITIVES and not fits(PRIMITIVES[found]):
        n += 1
        found = f"{name}@{n}"
    return found
