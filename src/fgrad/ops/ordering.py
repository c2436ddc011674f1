"""Sorting: a permutation that the values choose, differentiable as the gather it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.primitive import Primitive, flat, register
from fgrad.core.tensor import bind


def _declare(name: str, run: Any, dtype: Any = np.intp, *, reduces: bool = False) -> None:
    def shape(x: Any, *, axis: int) -> Aval:
        kept = (*x.shape[:axis], *x.shape[axis + 1 :]) if reduces else x.shape
        return Aval(kept, np.dtype(dtype))

    register(
        Primitive(
            name,
            run=run,
            pull=flat,
            shape=shape,
            batch=lambda _, x, *, axis: bind(name, x, axis=axis + 1),
        )
    )


_declare("argsort", lambda x, *, axis: np.argsort(x, axis, kind="stable"))
_declare("argmax", lambda x, *, axis: np.argmax(x, axis), reduces=True)
_declare("argmin", lambda x, *, axis: np.argmin(x, axis), reduces=True)
