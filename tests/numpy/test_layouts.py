"""Results without axes are scalars where NumPy's are, and lie in memory as those do, or nobody knows how.

Both show: an array without axes is written to by `+=`, a scalar is not, and whether `ravel` copies depends on
the order in memory. Every call of the table of dtypes is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.dtypes import attempt, leaves, like
from tests.numpy.dtypes import CALLS

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.trace import Tracer
from fgrad.core.views import is_array, is_laid_out, memory_of

pytestmark = pytest.mark.filterwarnings("ignore")
QUIRKS = ("(out)", "nan_to_num(three)")  # NumPy's scalars have methods that return no target
TABLE = [c for c in CALLS if " dtype=" not in c.name and not c.name.startswith(QUIRKS)]


def inputs(call: Any, dtype: str) -> list[Any]:
    """Return the inputs of a call in a dtype where it takes that, else in double precision."""
    kinds = [
        next((x for d in (dtype, "float64") for x in k if x in {d, f"0-d {d}", f"scalar {d}"}), k[0])
        for k in call.kinds
    ]
    return [like(x, kind) for x, kind in zip(call.inputs, kinds, strict=True)]


def smaller(args: list[Any]) -> Iterator[list[Any]]:
    """Yield arguments with few axes: of one element, all or one without axes, vectors, scalars."""
    arrays = [i for i, x in enumerate(args) if isinstance(x, np.ndarray) and x.size]

    def changed(f: Any, places: list[int]) -> list[Any]:
        return [f(x) if i in places else x for i, x in enumerate(args)]

    number = lambda x: np.array(x.ravel()[0])
    vectors = changed(lambda x: x.ravel()[:3].copy(), arrays)
    yield args
    yield vectors
    yield changed(number, arrays)
    yield changed(lambda x: number(x)[()], arrays)
    yield changed(lambda x: x.ravel()[:1].copy(), arrays)
    yield changed(lambda x: x.ravel()[:1].reshape(1, 1).copy(), arrays)
    for i in arrays if len(arrays) > 1 else ():
        yield changed(number, [i])
        yield [number(x) if k == i else x for k, x in enumerate(vectors)]


def handle(x: Any) -> Any:
    """Return a Tensor of an array, or of a scalar one that is a scalar too."""
    if isinstance(x, np.generic):
        return fg.tensor(np.array([x]))[0]
    return fg.tensor(x) if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize("dtype", ["float64", "bool", "int64", "complex128"])
def test_what_has_no_axes_is_a_scalar_where_numpys_is(dtype):
    seen, wrong = 0, set()
    for call in TABLE:
        given = attempt(inputs, call, dtype)
        for args in smaller(given) if isinstance(given, list) else ():
            expected = attempt(call.f, np, *(x.copy() if isinstance(x, np.ndarray) else x for x in args))
            found = attempt(call.f, fnp, *map(handle, args))
            if isinstance(expected, Exception) or isinstance(found, Exception):
                continue
            for y, e in zip(leaves(found), leaves(expected), strict=True):
                if isinstance(y, fg.Tensor) and np.shape(e) == ():
                    seen += 1
                    if isinstance(y._value, np.ndarray) != isinstance(e, np.ndarray):
                        wrong.add(f"{call.name} of {[np.shape(x) for x in args]} is a {type(e).__name__}")
    assert wrong == set()
    assert seen > 1000


ORDERS = {  # of axes in memory
    "rows": (0, 1, 2),
    "columns": (2, 1, 0),
    "last two swapped": (0, 2, 1),
    "first two swapped": (1, 0, 2),
    "rotated": (2, 0, 1),
}


def laid_out(x: Any, order: str) -> Any:
    """Return an array of at least two axes in another order in memory."""
    if not isinstance(x, np.ndarray) or x.ndim < 2:
        return x
    axes = ORDERS[order] if x.ndim == 3 else (1, 0) if order == "columns" else tuple(range(x.ndim))
    return np.ascontiguousarray(x.transpose(axes)).transpose(np.argsort(axes))


def order_of(x: Any) -> tuple[Any, ...]:
    strides = [-abs(s) for s, n in zip(x.strides, x.shape, strict=True) if n > 1]
    return tuple(np.argsort(strides, kind="stable")), x.flags.c_contiguous, x.flags.f_contiguous


def stacks(args: list[Any]) -> list[Any]:
    return [
        np.stack([x, x + 1]) if isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype.kind != "b" else x
        for x in args
    ]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("made", [lambda x: x, lambda x: getattr(x, "T", x)], ids=["given", "transposed"])
def test_what_is_known_to_lie_in_memory_in_some_order_does_so_in_numpy(made, order):
    seen, wrong = 0, set()
    for call in TABLE:
        args = attempt(inputs, call, "float64")
        for given in (args, stacks(args)) if isinstance(args, list) else ():
            xs = [laid_out(x, order) for x in given]
            expected = attempt(lambda *xs, f=call.f: f(np, *map(made, xs)), *xs)
            found = attempt(lambda *xs, f=call.f: f(fnp, *map(made, xs)), *map(handle, xs))
            if isinstance(expected, Exception) or isinstance(found, Exception):
                continue
            for y, e in zip(leaves(found), leaves(expected), strict=True):
                if not isinstance(y, fg.Tensor) or not isinstance(e, np.ndarray) or not e.size:
                    continue
                example = memory_of(y)
                if example is not None and is_laid_out(y):
                    seen += 1
                    if order_of(example) != order_of(e):
                        wrong.add(f"{call.name}: {order_of(example)}, in NumPy {order_of(e)}")
    assert wrong == set()
    assert seen > 1000


@pytest.mark.parametrize("order", ["rows", "columns"])
def test_what_a_program_knows_to_lie_row_by_row_does_so_in_numpy(order):
    seen, wrong = 0, set()
    for call in TABLE:
        args = attempt(inputs, call, "float64")
        if not isinstance(args, list):
            continue
        xs = [laid_out(x, order) for x in args]
        expected, known = attempt(call.f, np, *xs), []

        def probe(*xs: Any, f: Any = call.f, known: list[Any] = known) -> Any:
            out = f(fnp, *xs)
            known += [getattr(y, "_value", None) for y in leaves(out)]
            known[:] = [isinstance(v, Tracer) and v.lies_in_order() for v in known]
            return out

        attempt(lambda *xs, probe=probe: fg.make_graph(probe)(*xs), *xs)
        for is_known, e in zip(known, leaves(expected), strict=False):
            if is_known and isinstance(e, np.ndarray):
                seen += 1
                if not e.flags.c_contiguous:
                    wrong.add(call.name)
    assert wrong == set()
    assert seen > 100


@pytest.mark.parametrize("mode", ["constant", "edge", "mean"])
def test_borders_around_columns_are_columns(mode):
    f = lambda x: np.pad(np.transpose(x), 1, mode).flatten("A")
    x = np.arange(6.0).reshape(1, 2, 3)
    np.testing.assert_array_equal(f(fg.tensor(x)), f(x))
    with pytest.raises(TypeError, match="depends on the memory layout"):
        fg.jit(f)(x)


def test_what_is_like_columns_is_columns():
    def f(x):
        z = np.zeros_like(x)
        z.ravel()[0] = 1.0  # of a copy
        z.T.ravel()[1] = 2.0
        return z

    x = np.arange(6.0).reshape(2, 3)
    for given in (x, x.T, np.asfortranarray(x)):
        np.testing.assert_array_equal(f(fg.tensor(given)), f(given))


@pytest.mark.parametrize("dtype", ["float64", "complex128", "int64"])
def test_functions_of_plain_arrays_share_memory_as_numpys_do(dtype):
    seen, wrong = 0, set()
    for call in TABLE:
        args = attempt(inputs, call, dtype)
        for order in ("rows", "columns") if isinstance(args, list) else ():
            given, same = (
                [laid_out(np.copy(x) if isinstance(x, np.ndarray) else x, order) for x in args] for _ in "ab"
            )
            expected, found = attempt(call.f, np, *given), attempt(call.f, fnp, *same)
            if isinstance(expected, Exception) or isinstance(found, Exception):
                continue
            for y, e in zip(leaves(found), leaves(expected), strict=True):
                if not isinstance(y, np.ndarray) or not isinstance(e, np.ndarray) or not e.size:
                    continue
                seen += 1
                shared = [
                    [np.shares_memory(r, x) for x in xs if isinstance(x, np.ndarray)] + [r.flags.writeable]
                    for r, xs in ((y, same), (e, given))
                ]
                if shared[0] != shared[1]:
                    wrong.add(call.name)
    assert wrong == set()
    assert seen > 500


def known_forms(call: Any, args: list[Any]) -> list[Any]:
    """Return for every result without axes whether it is an array while the call is staged."""
    known: list[Any] = []

    def probe(*xs: Any) -> Any:
        out = call.f(fnp, *xs)
        known[:] = [is_array(y) if isinstance(y, fg.Tensor) and not y.shape else None for y in leaves(out)]
        return out

    attempt(fg.jit(probe).lower, *args)
    return known


def test_what_has_no_axes_is_an_array_in_programs_where_it_is_in_numpy():
    seen, wrong = 0, set()
    for call in TABLE:
        given = attempt(inputs, call, "float64")
        for args in smaller(given) if isinstance(given, list) else ():
            expected = attempt(call.f, np, *(x.copy() if isinstance(x, np.ndarray) else x for x in args))
            if isinstance(expected, Exception) or any(isinstance(x, np.generic) for x in args):
                continue
            if all(np.shape(e) for e in leaves(expected)):
                continue
            for found, e in zip(known_forms(call, args), leaves(expected), strict=False):
                if found is not None and np.shape(e) == ():
                    seen += 1
                    if found != isinstance(e, np.ndarray):
                        wrong.add(f"{call.name} of {[np.shape(x) for x in args]} is a {type(e).__name__}")
    assert wrong == set()
    assert seen > 1000


@pytest.mark.parametrize(
    "make",
    [
        lambda x: np.where(x > 0, x, 2.0),
        lambda x: np.select([x > 0], [x], 2.0),
        lambda x: np.sum(x),
        lambda x: np.pad(x, 1),
        lambda x: np.copy(np.sum(x)),
        lambda x: np.choose(0, [x, 2.0]),
        lambda x: np.nan_to_num(x),
    ],
)
def test_numbers_that_are_arrays_are_written_to_under_every_name(make):
    def f(x):
        s = make(x)
        t = s
        s += 1
        return s, t

    x = np.array(1.5)
    expected = [float(e) for e in f(x)]
    for run in (
        lambda x: f(fg.tensor(x)),
        fg.jit(f),
        lambda x: fg.vmap(f)(x[None]),
        fg.jit(lambda x: fg.vmap(f)(x[None])),
    ):
        assert [float(np.squeeze(y)) for y in run(x)] == expected
    slopes = lambda x: fg.jvp(f, (x,), (1.0,))[1]
    assert [float(y) for y in fg.jit(slopes)(x)] == [float(y) for y in slopes(x)]
