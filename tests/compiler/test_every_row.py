"""Every row that kernels compute, and its derivatives, through the compiler, against the row itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.compiler.interpreting import kernels_in_python
from tests.ops.test_rows import SAMPLES

import fgrad as fg
from fgrad.compiler import Executable
from fgrad.compiler.decompose import RULES
from fgrad.compiler.elements import JOINS, VIEWS
from fgrad.core.primitive import ROWS
from fgrad.core.tensor import bind

FUSED = {*VIEWS, *JOINS, *RULES, *(name for name, row in ROWS.items() if row.body is not None)}
ELSEWHERE = ("float32", "float16", "complex", "strided", "transposed", "broadcast")  # see test_special_values
ROW_SAMPLES = [s for s in SAMPLES if s.row in FUSED and not any(word in s.label for word in ELSEWHERE)]


@pytest.fixture(scope="module", autouse=True)
def interpreted() -> Iterator[None]:
    """Let Python run the kernels."""
    with kernels_in_python():
        yield


def total(out: Any) -> Any:
    """Return a weighted sum of the floating parts."""
    result = 0.0
    for k, y in enumerate(out if isinstance(out, list | tuple) else [out]):
        weights = np.cos(np.arange(math.prod(y.shape)) + k).reshape(y.shape)
        if y.dtype.kind in "fc":
            result = result + (np.real(y) * weights).sum()
        if y.dtype.kind == "c":
            result = result + (np.imag(y) * np.flip(weights)).sum()
    return result


def check(f: Any, *args: Any) -> None:
    """Compare a program with its operations, one after the other."""
    program = fg.make_graph(f)(*args)
    dtypes = {v.aval.dtype for e in program.equations for v in (*e.outs, *program.inputs)}
    tol = 64 * max([float(np.finfo(d).eps) for d in dtypes if d.kind in "fc"], default=0.0)
    found = Executable(program).run([np.asarray(a) for a in fg.tree.leaves(args)])
    for y, e in zip(found, program.run(fg.tree.leaves(args)), strict=True):
        e = np.asarray(getattr(e, "_value", e))
        assert (y.dtype, y.shape) == (e.dtype, e.shape)
        if e.dtype.kind in "fc":
            scale = np.max(np.abs(e), initial=0.0, where=np.isfinite(e))
            np.testing.assert_allclose(y, e, rtol=tol, atol=tol * scale)
        else:
            np.testing.assert_array_equal(y, e)


@pytest.mark.parametrize("sample", ROW_SAMPLES, ids=str)
@np.errstate(all="ignore")
def test_every_row(sample):
    where = tuple(i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray))

    def f(*arrays: Any) -> Any:
        args = list(sample.args)
        for i, a in zip(where, arrays, strict=True):
            args[i] = a
        return bind(sample.row, *args, **sample.params)

    arrays = [sample.args[i] for i in where]
    try:
        f(*arrays)
    except TypeError:
        return  # refused, as tests of staging show
    check(f, *arrays)
    floats = tuple(k for k, a in enumerate(arrays) if a.dtype.kind == "f")
    if not floats:
        return
    followed = tuple(k in {where[i] for i in floats} for k in range(len(sample.args)))
    if not sample.stops and ROWS[sample.row].pull(followed):
        check(fg.value_and_grad(lambda *xs: total(f(*xs)), floats), *arrays)
