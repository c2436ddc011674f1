"""A kernel for many examples: one loop in machine code around its value, and one around its adjoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.adjoints import launches
from fgrad.adjoints.programs import Program
from fgrad.core.aval import Aval
from fgrad.core.primitive import batch_size
from fgrad.locks import lazy


class Batched(Program):
    """A program for many examples, along a first axis of its outputs and of the operands in `mapped`."""

    def __init__(self, inner: Program, mapped: tuple[bool, ...]) -> None:
        self.inner, self.mapped = inner, mapped
        super().__init__(
            inner.function, inner.fixed, inner.places, inner.directions, inner.family, inner.base
        )
        self.root, self.masks = inner.root, (mapped, *inner.masks)

    @property
    def floating_outputs(self) -> list[int]:
        """The outputs that have derivatives."""
        return self.inner.floating_outputs

    @lazy
    def tangent(self) -> Program:
        """The program of tangents, for as many examples."""
        return Batched(self.inner.tangent, (*[self.mapped[k] for k in self.floating], *self.mapped))

    def shape(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        """Return shapes and dtypes of the outputs."""
        pairs = list(zip(avals, self.mapped, strict=True))
        size = self.size(avals)
        single = self.inner.shape([Aval(a.shape[1:], a.dtype) if m else a for a, m in pairs])
        return tuple(Aval((size, *a.shape), a.dtype) for a in single)

    def run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs of all examples."""
        avals = [Aval(np.shape(v), v.dtype) for v in values]
        try:
            results = self.shape(avals)
        except NotImplementedError:  # of results that only the kernel knows
            results = ()
        found = launches.batch(self, values, results) if results else None
        if found is not None:
            return tuple(found)
        rows = [self.inner.run(self.example(values, e)) for e in range(self.size(values))]
        if not rows:
            return tuple(np.zeros(a.shape, a.dtype) for a in self.shape(avals))
        return tuple(np.stack([np.asarray(r[k]) for r in rows]) for k in range(len(rows[0])))

    def pullback(
        self, values: Sequence[Any], cts: Sequence[Any], wrt: tuple[int, ...], given: tuple[int, ...]
    ) -> tuple[Any, ...]:
        """Return the cotangents of operands, summed where all examples share one."""
        results = [Aval(np.shape(values[i]), values[i].dtype) for i in wrt]
        outs = launches.batch(self, [*values, *cts], results, wrt, given)
        if outs is not None:
            return tuple(o[()] for o in outs)
        rows = [
            self.inner.pullback(self.example(values, e), [c[e] for c in cts], wrt, given)
            for e in range(self.size(values))
        ]
        found = []
        for k, i in enumerate(wrt):
            if not rows:
                found.append(np.zeros_like(values[i]))
                continue
            whole = [np.asarray(r[k]) for r in rows]
            found.append(np.stack(whole) if self.mapped[i] else np.asarray(sum(whole))[()])
        return tuple(found)

    def size(self, values: Sequence[Any]) -> int:
        """Return the number of examples."""
        return batch_size(self.mapped, values)

    def example(self, values: Sequence[Any], e: int) -> list[Any]:
        """Return the operands of one example."""
        return [v[e] if m else v for v, m in zip(values, self.mapped, strict=True)]
