"""Results without axes are scalars where NumPy's are, and lie in memory as those do, or nobody knows how.

Both show: an array without axes is written to by `+=`, a scalar is not, and whether `ravel` copies depends on
the order in memory. Every call of the table of dtypes is compared.
"""

from __future__ import annotations

import inspect
import itertools
import operator
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.compiler.interpreting import kernels_in_python
from tests.dtypes import attempt, leaves, like
from tests.numpy.dtypes import CALLS, Call

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.trace import Tracer
from fgrad.core.views import is_array, is_laid_out, memory_of

pytestmark = pytest.mark.filterwarnings("ignore")
QUIRKS = ("(out)", "nan_to_num(three)")  # NumPy's scalars have methods that return no target
TABLE = [c for c in CALLS if " dtype=" not in c.name and not c.name.startswith(QUIRKS)]


CUBE = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4, 3))
OTHERS = {  # what functions take besides an array
    "cross": [(CUBE[::-1] * 2,)], "linalg.cross": [(CUBE[::-1] * 2,)], "append": [(CUBE,)],
    "take": [([2, 0],)], "repeat": [(2,)], "delete": [(1,)], "insert": [(1, 0.5)], "roll": [(1,)],
    "percentile": [(40,), ([40, 60],)], "nanpercentile": [(40,), ([40, 60],)],
    "quantile": [(0.4,), ([0.4, 0.6],)], "nanquantile": [(0.4,), ([0.4, 0.6],)],
    "partition": [(1,)], "argpartition": [(1,)], "split": [(1,)], "array_split": [(2,)],
    "compress": [([True, False, True],)], "linspace": [(CUBE[::-1], 4)], "logspace": [(CUBE[::-1], 4)],
    "geomspace": [(CUBE[::-1], 4)], "take_along_axis": [(np.zeros((1, 4, 3), int),)],
}  # fmt: skip


def axes_of(function: Any) -> Iterator[dict[str, Any]]:
    """Yield the axes that a function may be told to work along."""
    names = inspect.signature(function).parameters
    axes = [{name: i} for name in ("axis", "axes") if name in names for i in (0, 1, 2, (0, 1), (2, 0))]
    if "axisc" in names:
        axes += [{"axisa": 0, "axisb": 0}, {"axisc": 0}, {"axisc": 1}]
    yield from axes
    if "keepdims" in names:
        yield from ({**a, "keepdims": True} for a in axes)


def calls_along_axes() -> Iterator[Call]:
    """Yield calls of every function that works along axes, for each of these."""
    for prefix, module, peers in (("", fnp, np), ("linalg.", fnp.linalg, np.linalg)):
        for name in dir(module):
            function = getattr(module, name)
            if name.startswith("_") or isinstance(function, type) or not callable(getattr(peers, name, None)):
                continue
            for given in attempt(lambda f=function: list(axes_of(f))) or ():
                for rest in OTHERS.get(prefix + name, [()]):
                    place = prefix + name, given, rest

                    def f(np: Any, x: Any, place: Any = place) -> Any:
                        path, given, rest = place
                        return operator.attrgetter(path)(np)(x, *rest, **given)

                    yield Call(f"{prefix}{name} {given}", f, (CUBE,), (("float64",),))


ALONG_AXES = list(calls_along_axes())


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
    for call in [*TABLE, *ALONG_AXES]:
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
    for call in [*TABLE, *ALONG_AXES]:
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


BLOCK = np.arange(1.0, 13.0).reshape(2, 2, 3)
LAYOUTS = {
    "rows": BLOCK.copy,
    "columns": lambda: np.asfortranarray(BLOCK),
    "swapped": lambda: laid_out(BLOCK, "first two swapped"),
    "rotated": lambda: laid_out(BLOCK, "rotated"),
    "reversed": lambda: BLOCK[::-1, :, ::-1].copy()[::-1, :, ::-1],
    "columns, reversed": lambda: np.asfortranarray(BLOCK[::-1])[::-1],
    "with gaps": lambda: np.repeat(BLOCK, 2, -1)[..., ::2],
    "repeated": lambda: np.broadcast_to(BLOCK[:1], (2, 2, 3)),
    "columns, repeated": lambda: np.broadcast_to(np.asfortranarray(BLOCK[:1]), (2, 2, 3)),
    "repeated last": lambda: np.broadcast_to(BLOCK[..., :1], (2, 2, 3)),
    "an axis of one": lambda: np.asfortranarray(BLOCK.reshape(2, 1, 6)),
}
MADE = {
    "itself": lambda x: x,
    "product": lambda x: x * 1.0,
    "array": np.array,
    "copy": lambda x: x.copy("K"),
    "copy in order": lambda x: x.copy(),
    "columns": lambda x: x.copy("F"),
    "beside columns": lambda x: x + np.asfortranarray(np.ones(x.shape)),
    "zeros": np.zeros_like,
    "filled": lambda x: np.full_like(x, 2.0),
    "sorted": lambda x: np.sort(x, -1),
    "repeated": lambda x: np.broadcast_to(x, (2, *x.shape)) * 1.0,
    "numbers": np.nan_to_num,
    "rolled": lambda x: np.roll(x, 1, 0),
    "padded": lambda x: np.pad(x, 1),
    "picked": lambda x: x[..., [0, 1]],
}
SHOWN = {
    "reshape": lambda v: v.reshape(-1),
    "reshape, columns": lambda v: v.reshape(-1, order="F"),
    "transposed": lambda v: v.T.reshape(-1),
    "ravel": lambda v: v.ravel(),
    "ravel, as it lies": lambda v: v.ravel("K"),
    "in order": lambda v: (fnp if isinstance(v, fg.Tensor) else np).ascontiguousarray(v),
    "in columns": lambda v: (fnp if isinstance(v, fg.Tensor) else np).asfortranarray(v),
}
WAYS = {  # how it is run; and the array that the function gets
    "eager": (lambda f, x: f(fg.tensor(x)), np.array),
    "vjp": (lambda f, x: fg.vjp(f, x)[0], None),
    "jvp": (lambda f, x: fg.jvp(f, (x,), (np.ones(x.shape),))[0], None),
    "checkpoint": (lambda f, x: fg.checkpoint(f)(x), None),
    "vjp(checkpoint)": (lambda f, x: fg.vjp(fg.checkpoint(f), x)[0], None),
    "custom": (lambda f, x: fg.vjp(with_rule(f), x)[0], None),
    "jit": (lambda f, x: fg.jit(f)(x), None),
    "vmap": (lambda f, x: fg.vmap(f)(np.stack([x, x]))[0], lambda x: np.stack([x, x])[0]),
    "vmap, last": (
        lambda f, x: fg.vmap(f, -1)(np.stack([x, x], -1))[0],
        lambda x: np.stack([x, x], -1)[..., 0],
    ),
    "vmap, columns": (
        lambda f, x: fg.vmap(f)(np.asfortranarray(np.stack([x, x])))[0],
        lambda x: np.asfortranarray(np.stack([x, x]))[0],
    ),
}


def writing(make: Any, show: Any) -> Any:
    def f(x: Any) -> Any:
        y = make(x)
        show(y)[...] = np.asarray(99.0)
        return y

    return f


def with_rule(f: Any) -> Any:
    ruled = fg.custom_vjp(f)
    ruled.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return ruled


@pytest.mark.parametrize("way", WAYS)
def test_a_write_is_seen_where_numpys_array_shares_memory(way):
    seen, wrong = 0, set()
    run, given = WAYS[way]
    with kernels_in_python():
        for (layout, lay), (made, make), (shown, show) in itertools.product(
            LAYOUTS.items(), MADE.items(), SHOWN.items()
        ):
            f = writing(make, show)
            expected = attempt(f, given(lay()) if given else lay())
            found = attempt(run, f, lay())
            if isinstance(expected, Exception):  # of an argument that repeats elements
                continue
            try:
                found = found.numpy() if isinstance(found, fg.Tensor) else found
            except TypeError as error:
                found = error
            if isinstance(found, np.ndarray):
                seen += 1
                if not np.array_equal(found, expected):
                    wrong.add(f"{layout}, {made}, {shown}")
            elif not re.search("memory layout|would lose its gradient|needs the value", str(found)):
                wrong.add(f"{layout}, {made}, {shown}: {found!r}")
    assert wrong == set()
    assert seen > (10 if way == "jit" else 100)  # whose arguments lie in memory in any order


def test_a_custom_rule_may_return_what_was_replaced_as_a_whole():
    def constant(x):
        y = x * 1.0
        y[...] = 2.0
        return y

    y, pull = fg.vjp(with_rule(constant), np.ones(3))
    assert y.tolist() == [2.0] * 3
    assert pull(np.ones(3))[0].tolist() == [1.0] * 3


NUMBERS, CUBE = np.arange(1.0, 7.0).reshape(2, 3), np.arange(1.0, 25.0).reshape(2, 3, 4)
ARRANGED = {
    "F": np.asfortranarray(NUMBERS),
    "reversed": NUMBERS[:, ::-1],
    "rows reversed": NUMBERS[::-1],
    "one row for all": np.broadcast_to(NUMBERS[:1], (2, 3)),
    "one reversed row for all": np.broadcast_to(NUMBERS[:1, ::-1], (2, 3)),
    "one column for all": np.broadcast_to(NUMBERS[:, 1:2], (2, 3)),
    "one number for all": np.broadcast_to(np.array(3.0), (2, 3)),
    "windows": np.lib.stride_tricks.sliding_window_view(np.arange(1.0, 9.0), 3)[:2],
    "windows with steps": np.lib.stride_tricks.sliding_window_view(np.arange(1.0, 12.0), (5,))[::2, 1:],
    "windows, turned": np.lib.stride_tricks.as_strided(np.arange(1.0, 9.0), (3, 2), (8, 16)),
    "a column of columns": np.asfortranarray(NUMBERS)[:, :1],
    "a row with a long stride": np.lib.stride_tricks.as_strided(np.arange(1.0, 4.0), (1, 3), (1000, 8)),
    "nothing": np.zeros((3, 0), order="F"),
    "no axes": np.array(3.0),
    "axes in another order": CUBE.transpose(2, 0, 1),
    "one matrix for all, turned": np.broadcast_to(CUBE[:, :, :1], CUBE.shape).transpose(2, 1, 0),
    "one of three, reversed": np.broadcast_to(CUBE[:1, :, ::-1], CUBE.shape).swapaxes(1, 2),
    "gaps": CUBE[:, :, ::2],
    "an axis of length one": CUBE[:, :1].transpose(2, 1, 0),
}
IN_MEMORY = {
    **{f"{name} {o}": (lambda x, f=f, o=o: f(x, o)) for name, f, orders in (
        ("flatten", lambda x, o: x.flatten(o), "CFAK"),
        ("ravel", lambda x, o: x.ravel(o), "CFAK"),
        ("reshape", lambda x, o: np.reshape(x, -1, order=o), "CFA"),
        ("copy", lambda x, o: x.copy(o).ravel("K"), "CFAK"),
        ("astype", lambda x, o: x.astype("f4", order=o).ravel("K"), "CFAK"),
        ("turned", lambda x, o: x.T.flatten(o), "CFAK"),
        ("part", lambda x, o: x[..., :2][..., ::-1].flatten(o) if x.ndim else x.flatten(o), "CFAK"),
    ) for o in orders},
    "a sum": lambda x: (x + 1).ravel("K"),
    "a write to a flat view": lambda x: written(x * 1, lambda u: u.ravel()),
    "a write to a reshaped view": lambda x: written(x * 1, lambda u: u.reshape(-1)),
    "a write to a copy": lambda x: written(x.copy("K"), lambda u: u.ravel("K") if x.ndim else u),
}  # fmt: skip


def written(x: Any, view: Any) -> Any:
    view(x)[...] = 9.0
    return x


PATHS: dict[str, Any] = {  # and whether they see a copy of the array that they are given
    "eager": (lambda f, x: f(fg.tensor(x)), True),
    "manager": (lambda f, x: attached(f, fg.tensor(x)), True),
    "grad": (lambda f, x: fg.grad(lambda t: (np.sum(t), f(t)), has_aux=True)(x)[1], False),
    "jvp": (lambda f, x: fg.jvp(f, (x,), (np.ones(x.shape),))[0], False),
    "checkpoint": (lambda f, x: fg.checkpoint(f)(x), False),
    "vmap": (lambda f, x: fg.vmap(f)(x[None])[0], False),
    "jit": (lambda f, x: fg.jit(f)(x), False),
}


def attached(f: Any, t: Any) -> Any:
    with fg.GradManager().attach([t]):
        return f(t)


@pytest.mark.parametrize("way", PATHS)
def test_what_depends_on_the_order_in_memory_is_that_of_numpy_for_every_arrangement(way):
    run, copies = PATHS[way]
    right, wrong = 0, []
    with kernels_in_python():
        for arranged, x in ARRANGED.items():
            for name, f in IN_MEMORY.items():
                if way == "vmap" and not x.ndim:  # an example is a scalar
                    continue
                try:
                    found = np.asarray(run(f, x))
                except TypeError as error:
                    if "depends on the memory layout" not in str(error):
                        raise
                    continue
                right += 1
                if not np.array_equal(found, f(np.array(x) if copies else x)):
                    wrong.append((arranged, name))
    assert not wrong
    assert right > (200 if way == "jit" else 400)
