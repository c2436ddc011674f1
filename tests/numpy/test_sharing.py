"""What shares memory in NumPy shares its value here, and what is a copy there is one here: every function.

Each case of the other files is called on arrays and on Tensors that lie in memory alike. Then every array
that the call returned, and every one that went in, is written to, and everything is compared.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from tests.helpers import grouped
from tests.numpy.cases import Case, Fixed, numpy_function
from tests.numpy.test_names import MODULES

import fgrad as fg
import fgrad.numpy as fnp

# whose elements mean nothing; whose results NumPy lets one write to still, with a warning that it will not;
# which returns one array twice
ASIDE = {"empty", "empty_like", "broadcast_arrays", "histogram2d"}
CASES = [
    case
    for m in MODULES
    for case in getattr(m, "CASES", ())
    if case.name not in ASIDE
    and (
        not case.label.startswith("dtype ")
        or case.label.removeprefix("dtype ") in {"float64", "complex64", "int8"}
    )
]
LAYOUTS = ("C", "F", "gaps")


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    """Return a copy of an array that lies in memory row by row, column by column, or with gaps."""
    if layout != "gaps" or x.ndim < 2:
        return x.copy("F" if layout == "F" else "C")
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 1), x.dtype)
    wide[..., :-1] = x
    return wide[..., :-1]


def paired(x: Any, layout: str) -> tuple[Any, Any]:
    """Return `x` with copies of its arrays, and with Tensors on copies that lie in memory alike."""
    if isinstance(x, Fixed):
        return copy.deepcopy(x.value), copy.deepcopy(x.value)
    if isinstance(x, np.ndarray):
        plain = laid_out(x, layout)
        whole = fg.tensor(np.asarray(plain.base if plain.base is not None and x.ndim > 1 else plain))
        return plain, whole if whole.shape == plain.shape else whole[..., :-1]
    if type(x) in (list, tuple):
        pairs = [paired(y, layout) for y in x]
        return type(x)(p for p, _ in pairs), type(x)(t for _, t in pairs)
    return x, x


def arrays(x: Any) -> list[Any]:
    """Return the arrays and Tensors in nested lists and tuples."""
    if isinstance(x, list | tuple):
        return [a for y in x for a in arrays(y)]
    return [x] if isinstance(x, np.ndarray | np.generic | fg.Tensor) else []


def called(case: Case, layout: str) -> tuple[list[Any], list[Any], int] | None:
    """Return what goes into a call and what comes out, as arrays and as Tensors, and how many go in.

    Where NumPy refuses the call, return None.
    """
    plain, tensors = zip(*(paired(x, layout) for x in case.args), strict=True) if case.args else ((), ())
    try:
        theirs = arrays(numpy_function(case.name)(*plain, **case.options))
    except Exception:
        return None
    ours = arrays(attrgetter(case.name)(fnp)(*tensors, **case.options))
    n = len(arrays(list(plain)))
    return arrays(list(plain)) + theirs, arrays(list(tensors)) + ours, n


def written(x: Any) -> Any:
    """Return other elements of the same shape and dtype."""
    return ~x if x.dtype.kind == "b" else x + np.ones((), x.dtype)


@grouped("case", CASES, "name", quick=2)
def test_sharing_is_numpys(case):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for layout in LAYOUTS:
            for i in itertools.count():
                made = called(case, layout)  # anew: the last ones were written to
                if made is None:
                    return
                plain, tensors, inputs = made
                assert len(plain) == len(tensors)
                if i == len(plain):
                    break
                target, handle = plain[i], tensors[i]
                if not isinstance(target, np.ndarray) or not isinstance(handle, fg.Tensor):
                    continue
                if not target.ndim and i >= inputs and handle._value.__class__ is not np.ndarray:
                    pytest.fail("a scalar where NumPy returns an array")
                if not target.flags.writeable:
                    with pytest.raises(ValueError, match="read-only"):
                        handle[...] = 0
                    continue
                target[...] = written(target)
                handle[...] = written(handle)
                for j, (a, t) in enumerate(zip(plain, tensors, strict=True)):
                    if isinstance(t, fg.Tensor):
                        b = t.numpy()
                        assert np.allclose(a, b, 1e-3, 1e-3, equal_nan=True), (layout, i, j, inputs, a, b)
