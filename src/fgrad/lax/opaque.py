"""Opaque code as one operation: a rule on tapes, a call in programs.

Solvers see arrays only. A rule says what they compute, and its `backward` says by which other computation,
differentiable again, the derivative is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.backend.devices import copied
from fgrad.core.aval import Aval
from fgrad.core.control_flow import Code
from fgrad.core.dispatch import bind, following
from fgrad.core.tensor import Tensor, is_traced
from fgrad.core.trace import Tracer, below, current, running
from fgrad.lax.trees import stack
from fgrad.transforms.calling import has_tensor, plain
from fgrad.transforms.custom import Rule, apply_rule
from fgrad.transforms.stage import staging


def plain_value(x: Any) -> Any:
    """Return a leaf as opaque code takes it: an array of its own, or a number without axes."""
    x = plain(x)
    return x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else copied(x)


class OpaqueRule(Rule):
    """One application of opaque code to flat values."""

    outs: tuple[Aval, ...] = ()  # what it returns
    aux: Any = None  # what else it has to say, known only where it ran at once
    x: list[Any]

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the results for arrays."""
        raise NotImplementedError

    def forward(self, *values: Any) -> list[Any]:
        """Return the results, and remember them."""
        self.values = values
        self.x = self._found(values)
        return self.x

    primal = forward

    def _found(self, values: Sequence[Any]) -> list[Any]:
        traces = current().traces
        tracers = [v._value for v in values if v.__class__ is Tensor and isinstance(v._value, Tracer)]
        floor = max((b.trace.level for b in tracers), default=-1)
        if following(values, traces, floor):
            inner = self.clone()
            found = apply_rule(inner, values)
            self.aux = inner.aux
            return list(found)
        if tracers:
            return self._each(values, next(b.trace for b in tracers if b.trace.level == floor))
        return self.solve([v._value if v.__class__ is Tensor else v for v in values])

    def _each(self, values: Sequence[Any], trace: Any) -> list[Any]:
        """Return the results of all examples, each found by itself."""
        if not trace.size:
            return [trace.tracer(np.zeros((0, *a.shape), a.dtype)) for a in self.outs]
        wholes = [v._value.whole if trace.owns(v) else v for v in values]
        with running(below(trace.level)):
            rows = [
                self._found([w[i] if trace.owns(v) else v for v, w in zip(values, wholes, strict=True)])
                for i in range(trace.size)
            ]
            columns = [stack(column) for column in zip(*rows, strict=True)]
        self.aux = None  # that of one of them
        return [trace.tracer(c) for c in columns]


def apply_opaque(rule: OpaqueRule, values: Sequence[Any], primitive: str = "lax.opaque") -> Sequence[Any]:
    """Return the results of `rule`: arrays for arrays; in a program, one operation `primitive`."""
    if staging():
        outs: Sequence[Any] = bind(primitive, *values, code=_Opaque(rule))
        return outs
    if has_tensor(values):
        return apply_rule(rule, values)
    return [x[()] for x in rule.forward(*values)]


class _Opaque(Code):
    """Opaque code inside of a program."""

    def __init__(self, rule: OpaqueRule) -> None:
        self.rule, self.outs = rule, rule.outs

    def __call__(self, *values: Any) -> Sequence[Any]:
        """Return the results."""
        rule = self.rule.clone()
        if any(v.__class__ is Tensor and is_traced(v) for v in values):
            return apply_rule(rule, values)
        return rule.forward(*values)

    def __str__(self) -> str:
        return self.rule.name
