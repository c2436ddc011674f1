"""Which values are computed alike: what was found of one holds for the others, of other variables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.core.program import Equation, Var
from fgrad.core.rewriting.keys import LARGE, Keys


class Alike:
    """Tells computations apart by everything but their variables: a structural hash.

    Args:
        makers: the equation that makes each variable, and which of its outputs it is.
        constants: the arrays of variables that are constant: those of integers may be indices.
    """

    def __init__(
        self, makers: Mapping[Var, tuple[Equation, int]], constants: Mapping[Var, np.ndarray[Any, Any]]
    ) -> None:
        self._makers, self._constants = makers, constants
        self._key = Keys(LARGE).of
        self._heads: dict[int, tuple[Hashable, tuple[Var, ...]]] = {}

    def of(self, outs: Sequence[Var], stored: Any) -> tuple[Hashable, list[Var]]:
        """Return the key of the computation of `outs`, and its variables in the order in which they come.

        Args:
            outs: which are computed even where they are stored.
            stored: variables that are not computed here.
        """
        places = {v: i for i, v in enumerate(outs)}
        variables = list(outs)
        rows: list[Hashable] = []
        for i, v in enumerate(variables):  # which grows on the way
            if i >= len(outs) and v in stored:
                dtype = v.aval.dtype
                indices = self._constants.get(v) if dtype.kind in "iu" else None
                rows.append((v.aval.shape, dtype, self._key(indices)))
                continue
            equation, place = self._makers[v]
            head, others = self._head(equation)
            for a in others:
                if a not in places:
                    places[a] = len(variables)
                    variables.append(a)
            rows.append((head, place, tuple([places[a] for a in others])))
        return tuple(rows), variables

    def _head(self, e: Equation) -> tuple[Hashable, tuple[Var, ...]]:
        """Return the key of an equation without its variables, and these."""
        found = self._heads.get(id(e))
        if found is None:
            args = tuple([None if isinstance(a, Var) else (self._key(a),) for a in e.args])
            outs = tuple([(v.aval.shape, v.aval.dtype) for v in e.outs])
            variables = tuple([a for a in (*e.args, *e.outs) if isinstance(a, Var)])
            found = self._heads[id(e)] = (e.name, args, outs, self._key(e.params)), variables
        return found
