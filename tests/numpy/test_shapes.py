"""Rearranging elements: shapes, axes, stacking, splitting, padding, diagonals."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import grouped
from tests.numpy.cases import Case, Fixed, check, integers, kinds, named, strided, truths, values, writes

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

M, V, S, E, C = values((2, 3)), values((4,)), values(()), values((0, 3)), values((2, 3, 4))
ONES = values((1, 3, 1))
ROWS = strided(values((2, 3)))

ANY = {
    "matrix": M,
    "vector": V,
    "0-d": S,
    "empty": E,
    "cube": C,
    "strided": ROWS,
    "list": ([[1, 2], [3, 4]],),
    "number": 2.5,
}

CASES = [
    # shapes and axes
    *named("reshape", {"tuple": (M, (3, 2)), "integer": (M, 6), "-1": (M, (-1, 2)), "only -1": (M, -1),
        "0-d": (S, (1, 1)), "to 0-d": (V[:1], ()), "empty": (E, (3, 0)), "empty with -1": (E, (-1, 3)),
        "list": (M, [3, 2]), "strided": (ROWS, 6), "NumPy integers": (M,
        Fixed((np.int64(3), np.int32(2)))), "array": (M, Fixed(np.array([3, 2]))),
        "too many": (M, (4, 2)), "two -1": (M, (-1, -1)), "does not divide": (M, (-1, 4)),
        "nested list": ([[1, 2]], (2, 1))}),
    *(Case("reshape", f"order {o}", (x, s), (("order", o),), 2) for o in "CF"
        for x, s in [(M, (3, 2)), (C, (4, -1)), (M.T, 6)]),
    *(Case("reshape", f"order A {x.shape}", (x, s), (("order", "A"),), 1)
        for x, s in [(M, (3, 2)), (C, (4, -1))]),
    *(Case("reshape", f"shape keyword {i}", (M,), kw, 1) for i, kw in enumerate([(("shape", (3, 2)),),
        (("shape", -1),)])),
    Case("reshape", "unknown order", (M, 6), (("order", "X"),)),
    *named("ravel", ANY),
    *(Case("ravel", f"order {o} {x.shape}", (x,), (("order", o),), 1) for o in "CF"
        for x in (M, C, S, E, M.T)),
    *(Case("ravel", f"order {o} {k}", (x,), (("order", o),), 1) for o in "AK"
        for k, x in {"C": C, "matrix": M}.items()),
    *named("transpose", ANY),
    *named("permute_dims", {"matrix": M, "cube": (C, (2, 0, 1))}),
    *named("transpose", {"axes": (C, (2, 0, 1)), "negative": (C, (-1, 0, 1)), "list": (C, [1, 0, 2]),
        "same": (C, (0, 1, 2)), "too few": (C, (0, 1)), "twice": (C, (0, 0, 1)), "absent": (C, (0, 1, 3)),
        "0-d axes": (S, ())}),
    *named("matrix_transpose", {"matrix": M, "cube": C, "empty": E, "vector": V}),
    *named("swapaxes", {"cube": (C, 0, 2), "negative": (C, -1, 0), "same": (C, 1, 1), "absent": (C, 0, 3),
        "empty": (E, 0, 1)}),
    *named("moveaxis", {"one": (C, 0, -1), "two": (C, (0, 1), (2, 0)), "lists": (C, [0, 2], [1, 0]),
        "absent": (C, 3, 0), "of unequal length": (C, (0, 1), (0,)), "twice": (C, (0, 0), (1, 2)),
        "empty": (E, 0, 1)}),
    *named("rollaxis", {"last": (C, 2), "start": (C, 0, 2), "end": (C, 0, 3), "negative": (C, -1, 1),
        "absent": (C, 3), "start absent": (C, 0, 5), "forward": (C, 1, 3), "negative start": (C, 2, -2)}),
    *named("squeeze", {"all": ONES, "one": (ONES, 0), "negative": (ONES, -1), "tuple": (ONES, (0, 2)),
        "none": M, "0-d": S, "not of length one": (ONES, 1), "absent": (ONES, 4), "empty": (E[None], 0)}),
    *named("expand_dims", {"0": (M, 0), "-1": (M, -1), "tuple": (M, (0, 2)), "0-d": (S, 0), "end": (M, 2),
        "absent": (M, 4), "twice": (M, (0, 0)), "empty": (E, 1)}),
    *named("broadcast_to", {"row": (V, (2, 4)), "0-d": (S, (2, 2)), "column": (M[:, :1], (2, 3)),
        "integer": (S, 3), "empty": (E[:, :1], (0, 5)), "to empty": (V[:1], (0,)), "same": (M, (2, 3)),
        "does not fit": (M, (3, 2)), "too few axes": (M, (3,)), "list": (V, [2, 4])}),
    *named("broadcast_arrays", {"two": (M, V[:3]), "three": (M, S, M[:, :1]), "one": (M,),
        "empty": (E, V[:3]), "do not fit": (M, V)}),
    *(c for name in ("atleast_1d", "atleast_2d", "atleast_3d") for c in named(name, ANY)),
    *(c for name in ("atleast_1d", "atleast_2d", "atleast_3d")
        for c in named(name, {"several": (S, V, M)})),
    *(c for name in ("shape", "ndim", "size") for c in named(name, ANY, order=0)),
    *named("size", {"axis": (M, 1), "negative axis": (C, -3), "absent": (M, 2)}, order=0),
    # joining
    *named("concatenate", {"rows": ([M, M[:1]],), "tuple": ((M, M[:1]),), "columns": ([M, M[:, :1]], 1),
        "negative": ([M, M], -1), "one": ([M],), "flat": ([M, V], None), "empty": ([E, M],),
        "vectors": ([V, V[:0], V],), "array": (C,), "mixed dtypes": ([M, integers()],),
        "float32 and int8": ([M.astype("f"), integers(dtype=np.int8)],), "lists": ([[1.0], [2.0, 3.0]],),
        "bool": ([truths(), truths()],), "nothing": ([],), "0-d": ([S, S],), "of unequal rank": ([M, V],),
        "do not fit": ([M, C[0]],), "absent axis": ([M, M], 2)}),
    *named("concatenate", {"dtype": ([M, M],)}, dtype=np.float32, order=1),
    *named("concatenate", {"dtype unsafe": ([M, M],)}, dtype=np.int64, order=0),
    *named("concatenate", {"dtype and casting": ([M, M],)}, dtype=np.int64, casting="unsafe", order=0),
    *named("concat", {"rows": ([M, M[:1]],)}),
    *named("stack", {"first": ([M, M * 2],), "last": ([M, M], -1), "middle": ([M, M], 1),
        "0-d": ([S, S],), "array": (C, 1), "empty": ([E, E],), "mixed": ([M, integers()],),
        "nothing": ([],), "do not fit": ([M, M.T],), "absent": ([M, M], 3), "numbers": ([1.0, 2.0],)}),
    *named("stack", {"dtype": ([M, M],)}, dtype=np.float32, order=1),
    *(c for name in ("vstack", "hstack", "dstack", "column_stack")
        for c in named(name, {"matrices": ([M, M * 2],), "vectors": ([V, V],), "0-d": ([S, S],),
        "tuple": ((M, M),), "array": (C,), "cubes": ([C, C],), "empty": ([E, E],),
        "numbers": ([1.0, 2.0],), "nothing": ([],), "do not fit": ([C, V],)})),
    *named("vstack", {"vector and matrix": ([V[:3], M],)}),
    *named("column_stack", {"vector and matrix": ([V[:2], M],)}),
    *named("append", {"flat": (M, V), "axis": (M, M[:1], 0), "number": (V, 2.0), "negative": (M, M, -1),
        "list": (V, [1, 2]), "do not fit": (M, V, 0)}),
    # splitting
    *(c for name in ("split", "array_split") for c in named(name,
        {"equal": (V, 2), "places": (V, [1, 3]), "columns": (M, 3, 1), "negative": (C, 2, -1),
        "empty parts": (V, [2, 2, 9]), "one": (V, 1), "unequal": (V, 3), "zero": (V, 0),
        "absent": (V, 2, 1), "array of places": (V, Fixed(np.array([1]))), "empty": (E, [0, 0]),
        "tuple of places": (V, (1, 2)), "negative places": (V, [-1])})),
    *named("vsplit", {"matrix": (M, 2), "places": (C, [1]), "vector": (V, 2)}),
    *named("hsplit", {"matrix": (M, 3), "vector": (V, 2), "places": (C, [1, 2]), "0-d": (S, 1)}),
    *named("dsplit", {"cube": (C, 2), "places": (C, [1]), "matrix": (M, 2)}),
    # order of elements
    *named("flip", ANY),
    *named("flip", {"axis": (C, 1), "negative": (C, -1), "tuple": (C, (0, 2)), "absent": (C, 3)}),
    *named("fliplr", {"matrix": M, "cube": C, "vector": V}),
    *named("flipud", {"matrix": M, "vector": V, "0-d": S}),
    *(c for k in range(-1, 5) for c in named("rot90", {f"{k}": (M, k), f"{k} cube": (C, k, (1, 2)),
        f"{k} back": (C, k, (2, 0))})),
    *named("rot90", {"default": M, "negative axes": (C, 1, (-1, 0)), "same axes": (C, 1, (1, 1)),
        "vector": V, "three axes": (C, 1, (0, 1, 2))}),
    *named("roll", {"flat": (M, 2), "axis": (M, 1, 1), "back": (M, -1, 0), "far": (V, 9),
        "two": (M, (1, 2), (0, 1)), "same shift": (M, 1, (0, 1)), "twice": (M, (1, 1), (0, 0)),
        "empty": (E, 1), "none": (M, 0), "absent": (M, 1, 2), "negative": (C, 1, -1), "0-d": (S, 1),
        "two shifts on one axis": (M, (1, 1), 1), "array of shifts": (M, Fixed(np.array([1, 1])),
        (0, 1))}),
    *named("tile", {"vector": (V, 2), "matrix": (M, (2, 1)), "more": (V, (2, 2)), "fewer": (C, (2,)),
        "0-d": (S, 3), "none": (M, 0), "empty": (E, (1, 2)), "list": (M, [1, 2]), "no counts": (M, ()),
        "array": (M, Fixed(np.array([2, 2])))}),
    *named("repeat", {"flat": (M, 2), "axis": (M, 2, 1), "counts": (M, [1, 2], 0), "none": (V, 0),
        "0-d": (S, 3), "negative": (C, 2, -1), "empty": (E, 2, 1),
        "counts array": (V, Fixed(np.array([0, 1, 2, 0]))), "one count": (V, [2]),
        "wrong counts": (V, [1, 2]), "absent": (M, 2, 2)}),
    # diagonals and triangles
    *(c for k in (-3, -1, 0, 1, 2, 5) for name in ("diagonal", "diag", "tril", "triu")
        for c in named(name, {f"{k}": (M, k), f"{k} tall": (values((4, 2)), k)})),
    *(c for k in (-1, 0, 2) for name in ("diag", "diagflat") for c in named(name,
        {f"{k} vector": (V, k)})),
    *named("diagonal", {"axes": (C, 0, 1, 2), "negative axes": (C, 1, -1, 0), "cube": C, "empty": E,
        "vector": V, "same axes": (M, 0, 0, 0), "absent": (M, 0, 0, 2)}),
    *named("diag", {"empty": V[:0], "cube": C, "0-d": S, "list": ([[1, 2], [3, 4]],)}),
    *named("diagflat", {"matrix": M, "0-d": S, "list": ([1, 2],)}),
    *(c for name in ("tril", "triu") for c in named(name, {"cube": (C, 1), "empty": E, "vector": V})),
    # padding
    *named("pad", {"one": (M, 1), "pair": (M, (1, 2)), "pairs": (M, ((1, 0), (0, 2))), "none": (M, 0),
        "vector": (V, 2), "0-d": (S, 1), "empty": (E, 1), "list": ([1, 2], 1), "negative": (M, -1),
        "wrong pairs": (M, ((1, 1), (1, 1), (1, 1))), "cube": (C, ((0, 1), (2, 0), (0, 0)))}),
    *(c for mode in ("edge", "reflect", "symmetric", "wrap") for c in named("pad",
        {mode: (M, ((1, 1), (2, 1))), f"{mode} far": (V, 7)}, mode=mode)),
    *named("pad", {"constant": (M, 1)}, constant_values=2.5),
    *named("pad", {"constants": (M, 1)}, constant_values=(1.0, 2.0)),
    *named("pad", {"constants per axis": (M, 1)}, constant_values=((1.0, 2.0), (3.0, 4.0))),
    *named("pad", {"constant for integers": (integers(), 1)}, constant_values=2),
    *named("pad", {"unknown mode": (M, 1)}, mode="nowhere"),
    *(c for mode in ("reflect", "symmetric") for c in named("pad", {f"{mode} odd": ([1.0, 3.0], 1)},
        mode=mode, reflect_type="odd", order=0)),
    *(c for mode in ("linear_ramp", "maximum", "mean", "median", "minimum", "edge", "reflect", "symmetric",
        "wrap") for c in named("pad", {f"{mode} of every axis": (M, ((1, 0), (5, 7)), mode),
        f"{mode} of one axis": (C, ((0, 0), (2, 1), (0, 0)), mode), f"{mode} of one element": (V[:1], 2,
            mode),
        f"{mode} of nothing": (E, ((0, 0), (1, 1)), mode), f"{mode} of an empty axis": (E, 1, mode),
        f"{mode} of integers": (integers(), 2, mode),
        f"{mode} 0-d": (S, 1, mode), f"{mode} by nothing": (M, 0, mode)})),
    *(Case("pad", f"{mode} of complex", (values(dtype=complex), 2, mode), (), 2)
        for mode in ("linear_ramp", "mean", "median", "edge", "reflect", "symmetric", "wrap")),
    *(Case("pad", f"{mode} {k} {n}", (M, (1, 2), mode), (("stat_length", n),), 2)
        for mode in ("maximum", "mean", "median", "minimum") for k, n in enumerate([1, 2, (1, 3),
        ((1, 2), (2, 9)), None])),
    *(Case("pad", f"{mode} of {n} elements", (M, (1, 2), mode), (("stat_length", n),))
        for mode in ("maximum", "minimum") for n in (0, -1)),
    *(Case("pad", f"ends {i}", (M, ((1, 2), (3, 0)), "linear_ramp"), (("end_values", v),), 2)
        for i, v in enumerate([2.5, (1.0, -1), ((1, 2), (3, 4)), ((1.0,), (2.0,))])),
    *(Case("pad", f"{mode} odd {i}", (x, w, mode), (("reflect_type", "odd"),), 2)
        for mode in ("reflect", "symmetric") for i, (x, w) in enumerate([(M, 1), (M, ((1, 9), (7, 8))),
        (V, (11, 3)), (V[:1], 2), (integers(), 3), (values(dtype=complex), (4, 5))])),
    *named("pad", {"floats": (M, 1.5), "option of another mode": (M, 1, "edge"), "three": (M, (1, 2, 3))},
        order=0, constant_values=1),
    # inserting and deleting
    *named("insert", {"more axes": (V, [1, 3], np.array([[5.0, 6.0]])),
        "place": (V, 1, 5.0), "last": (V, 4, 5.0), "negative": (V, -1, 5.0),
        "array": (V, 2, V * 2), "flat": (M, 1, 5.0), "rows": (M, 1, V[:3], 0), "columns": (M, 1, V[:2], 1),
        "column list": (M, [1], M[:, :1] * 2, 1), "negative axis": (C, 1, 5.0, -1), "outside": (V, 5, 1.0),
        "several": (V, [1, 3], M[0, :2]), "several of one value": (V, [0, 2, 2], 7.0), "unordered": (V, [3,
            0, 3],
        M[1]), "negative places": (V, [-1, -2], M[0, :2]), "slice": (V, slice(1, 3), M[0, :2]),
        "slice with step": (V, slice(None, None, -2), 1.0), "slice of one": (V, slice(0, 1), M[0, :2]),
        "several rows": (M, [0, 1], M * 3, 0), "several of a cube": (C, [1, 1], C[:, :2] * 2, 1),
        "truths": (V, Fixed(np.array([True, False, True, False])), 9.0), "no places": (V, [], []),
        "list": ([1, 2], 1, 3), "0-d": (S, 0, 1.0), "empty": (V[:0], 0, 2.0), "too many": (V, [0, 1], V[:3]),
        "two axes": (V, [[0, 1]], 1.0), "absent axis": (M, 0, 1.0, 2), "far": (V, [0, 9], 1.0),
        "integers": (integers((3,)), 1, 2.7), "float32": (V.astype("f"), 1, 2.5)}),
    *named("delete", {"place": (V, 1), "negative": (V, -1), "flat": (M, 2), "rows": (M, 1, 0),
        "columns": (M, [0, 2], 1), "negative axis": (C, [1], -1), "repeated": (V, [1, 1, -3]),
        "slice": (V, slice(1, 3)), "slice with step": (V, slice(None, None, 2)), "backwards": (V,
        slice(3, 0, -2)), "truths": (V, Fixed(np.array([True, False, True, False]))), "nothing": (V, []),
        "everything": (V, slice(None)), "list": ([1, 2, 3], 1), "outside": (V, 4), "far": (V, [0, 9]),
        "wrong truths": (V, Fixed(np.array([True]))), "absent axis": (M, 0, 2), "0-d": (S, 0),
        "array": (M, Fixed(np.array([1])), 1)}),
    *named("resize", {"more": (V, (2, 5)), "fewer": (M, (2,)), "integer": (M, 7), "same": (M, (2, 3)),
        "nothing": (M, (0, 2)), "empty": (E, (2, 2)), "0-d": (S, (2, 2)), "to 0-d": (V, ()),
        "negative": (V, (-1, 2)), "list": ([1, 2], (3,)), "cube": (C, (5, 7))}),
    *named("unstack", {"rows": M, "vector": V, "0-d": S, "empty": E, "cube": C}),
    *named("unstack", {"columns": C}, axis=-1), *named("unstack", {"absent": M}, axis=2),
    *named("block", {"rows": ([[M, M[:, :1]], [M[:1] * 2, np.ones((1, 1))]],), "one list": ([V, V * 2],),
        "unequal rank": ([M, np.ones((2, 1))],), "numbers": ([[V[0], 2.0], [3.0, V[1]]],), "array": (M,),
        "deep": ([[[M]], [[M * 2]]],), "do not fit": ([[M, V]],), "unequal depth": ([M, [M]],),
        "nothing": ([],), "cubes": ([[C], [C]],), "vectors as rows": ([[V], [V]],)}),
    # dtypes
    *(Case("astype", f"{k} to {np.dtype(t)}", (x, t), (), 2) for k, x in kinds().items()
        for t in ("f8", "f4", "i8", "?")),
    *(Case("astype", f"{k} to complex", (x, "c16"), (), 2) for k, x in kinds().items()),
]  # fmt: skip

for kind, x in kinds().items():
    for name in (
        "reshape",
        "transpose",
        "ravel",
        "flip",
        "squeeze",
        "expand_dims",
        "roll",
        "tile",
        "repeat",
        "broadcast_to",
        "moveaxis",
        "diagonal",
        "tril",
        "triu",
        "pad",
        "concatenate",
        "stack",
        "split",
        "atleast_3d",
        "append",
        "insert",
        "delete",
        "resize",
        "unstack",
        "block",
    ):
        more = {"reshape": (6,), "expand_dims": (0,), "roll": (1,), "tile": (2,), "repeat": (2,),
            "broadcast_to": ((2, 2, 3),), "moveaxis": (0, 1), "pad": (1,),
            "split": (2,), "append": (x, 0), "insert": (1, x[0], 0), "delete": (1, 0),
                "resize": (8,)}.get(name, ())  # fmt: skip
        first = [x, x] if name in ("concatenate", "stack") else x
        CASES.append(Case(name, f"dtype {kind}", (first, *more), (), 1))

NAMES = {c.name for c in CASES} | {"row_stack", "trim_zeros"}


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


def test_orders_in_memory_are_those_of_the_array():
    for x in (C.copy(), np.asfortranarray(C)):
        for order in "AK":
            np.testing.assert_array_equal(fnp.ravel(x, order), x.ravel(order))
            np.testing.assert_array_equal(fnp.ravel(fg.tensor(x), order).numpy(), x.ravel(order))
            np.testing.assert_array_equal(fnp.ravel(fg.tensor(x).T, order).numpy(), x.T.ravel(order))
        np.testing.assert_array_equal(fnp.reshape(x, (6, 4), "A"), x.reshape((6, 4), order="A"))
        np.testing.assert_array_equal(
            fnp.reshape(fg.tensor(x), (6, 4), "A").numpy(), x.reshape((6, 4), order="A")
        )
    with pytest.raises(TypeError, match="depends on the memory layout"):
        fnp.ravel(fg.tensor(x) * 2, "K")


def test_an_empty_border_is_zero_for_tensors():
    np.testing.assert_array_equal(fnp.pad(fg.tensor(M), 1, "empty").numpy(), np.pad(M, 1))


def test_aliases():
    assert fnp.concat is fnp.concatenate
    assert fnp.permute_dims is fnp.transpose


def test_out_keyword_of_joins():
    for name in ("concatenate", "stack"):
        writes(name, [M, M])


def test_a_list_of_tensors_and_arrays_is_joined():
    f = lambda x, y: np.concatenate([x, M, y, np.ones((1, 3))])
    check_grads(f, (M, M), 2)
    check_grads(lambda x, y: np.stack([x, y, np.sin(x)], axis=1), (M, M), 2)
    check_grads(lambda x: np.vstack([x, x * 2]), (V,), 2)


def test_padding_with_a_tensor():
    check_grads(lambda x, c: fnp.pad(x, 1, constant_values=c), (M, 2.0), 2)


def test_padding_by_a_function():
    def border(vector, width, axis, options):
        vector[: width[0]] = vector[width[0]] * options["factor"]
        vector[len(vector) - width[1] :] = axis

    widths = ((1, 2), (2, 1))
    expected = np.pad(M, widths, border, factor=3.0)
    for module in (fnp, np):
        np.testing.assert_array_equal(module.pad(fg.tensor(M), widths, border, factor=3.0).numpy(), expected)
    check_grads(lambda x: fnp.pad(x, widths, border, factor=3.0), (M,), 2)
    assert fnp.pad(fg.tensor(E), 1, border, factor=1.0).shape == (2, 5)


def test_padding_by_axis():
    for widths in ({0: 1}, {-1: (2, 0)}, {0: (0, 1), 1: 2}, {}):
        pairs = [(0, 0), (0, 0)]
        for axis, w in widths.items():
            pairs[axis] = (w, w) if isinstance(w, int) else w
        expected = np.pad(M, pairs)
        np.testing.assert_array_equal(fnp.pad(M, widths), expected)
        np.testing.assert_array_equal(fnp.pad(fg.tensor(M), widths).numpy(), expected)


def test_borders_that_are_tensors():
    one, two = np.array([1.5, -2.0]), values((2, 2), seed=4)
    for options in (one[0], one, two, two[:, :1]):
        np.testing.assert_array_equal(
            fnp.pad(M, 2, constant_values=fg.tensor(options)).numpy(), np.pad(M, 2, constant_values=options)
        )
        check_grads(lambda x, v: fnp.pad(x, ((1, 2), (0, 1)), constant_values=v), (M, options), 2)
        check_grads(lambda x, v: fnp.pad(x, ((1, 2), (0, 3)), "linear_ramp", end_values=v), (M, options), 2)


def test_a_median_border_knows_nan():
    x = np.array([[1.0, np.nan, 2.0], [3.0, 1.0, 0.5]])
    np.testing.assert_array_equal(fnp.pad(fg.tensor(x), 1, "median").numpy(), np.pad(x, 1, "median"))


ZEROS = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 1.5, 0.0, 0.0], [0.0, 0.0, -2.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.2.0", reason="of vectors only before")
@pytest.mark.parametrize("x", [ZEROS, ZEROS[1], ZEROS[0], ZEROS.astype(int), ZEROS[:0]], ids=str)
def test_zeros_are_trimmed(x):
    for trim in ("fb", "f", "b", "BF"):
        for axis in (None, 0, -1, *([(0, 1)] if x.ndim > 1 else [])):
            expected = np.trim_zeros(x, trim, axis)
            np.testing.assert_array_equal(fnp.trim_zeros(x, trim, axis), expected)
            for module in (fnp, np):
                y = module.trim_zeros(fg.tensor(x), trim, axis)
                assert y.shape == expected.shape
                np.testing.assert_array_equal(y.numpy(), expected)
    if x.dtype == float and x.any():
        check_grads(lambda v: np.trim_zeros(v * x), (x + 0.5,), 2)
    for given in (x, fg.tensor(x)):
        with pytest.raises(ValueError, match="trim"):
            fnp.trim_zeros(given, "x")


def test_what_is_trimmed_depends_on_values():
    assert fnp.trim_zeros([0, 1, 0]) == np.trim_zeros([0, 1, 0])
    with pytest.raises(TypeError, match="vmap"):
        fg.vmap(fnp.trim_zeros)(ZEROS)
    with pytest.raises(np.exceptions.AxisError):
        fnp.trim_zeros(fg.tensor(ZEROS), axis=2)


def test_row_stack_is_deprecated_as_in_numpy():
    for call in (lambda: fnp.row_stack([V, V]), lambda: fnp.row_stack([fg.tensor(V), V])):
        with pytest.warns(DeprecationWarning, match="vstack"):
            y = call()
        np.testing.assert_array_equal(np.asarray(y), np.vstack([V, V]))


def test_lists_of_blocks_are_not_tuples():
    for x in (V, fg.tensor(V)):
        with pytest.raises(TypeError, match="tuple"):
            fnp.block((x, x))
    with pytest.raises(ValueError, match="depth"):
        fnp.block([fg.tensor(V), [fg.tensor(V)]])


def test_taking_apart_costs_one_pass():
    x = np.ones(2000)
    made = fg.grad(lambda v: sum(v * i for i, v in enumerate(fnp.unstack(x * v)) if i % 2))(np.array(1.0))
    assert made == sum(i for i in range(2000) if i % 2)
    np.testing.assert_array_equal(fg.grad(lambda v: fnp.unstack(v)[1].sum())(M), [[0, 0, 0], [1, 1, 1]])


def test_resizing_in_place():
    for shape in [(3, 2), (8,), (2,), (0,), ()]:
        expected, t = M.copy(), fg.tensor(M)
        expected.resize(shape, refcheck=False)
        assert t.resize(shape) is None
        np.testing.assert_array_equal(t.numpy(), expected)
    t = fg.tensor(M)
    t.resize(2, 5, refcheck=False)
    np.testing.assert_array_equal(t.numpy(), np.concatenate([M.ravel(), np.zeros(4)]).reshape(2, 5))

    def f(x):
        y = x * x
        y.resize((2, 5))
        return y

    check_grads(f, (M,), 2)


@pytest.mark.parametrize("count", [2, 16, 17, 40])
@pytest.mark.parametrize("axis", [0, 1])
def test_values_come_before_few_and_many_places(count, axis):
    rng = np.random.default_rng(count)
    x = rng.standard_normal((9, 9))
    places = rng.integers(-9, 10, count)  # repeated and negative ones too
    shape = (count, 9) if axis == 0 else (9, count)
    new, ct = rng.standard_normal(shape), rng.standard_normal((9 + count, 9) if axis == 0 else (9, 9 + count))
    y, pullback = fg.vjp(lambda x, new: fnp.insert(x, places, new, axis), x, new)
    np.testing.assert_array_equal(y, np.insert(x, places, new, axis))
    back = pullback(ct)
    marks = np.insert(np.full(x.shape, -1), places, np.arange(new.size).reshape(shape), axis)
    np.testing.assert_array_equal(back[1].ravel(), ct.ravel()[np.argsort(marks, None)[x.size :]])
    np.testing.assert_array_equal(back[0], ct[marks < 0].reshape(x.shape))


def test_layouts_are_not_known_while_a_function_is_staged():
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    for f, name in (
        (lambda x: np.ravel(x, "K"), "ravel with order='K'"),
        (lambda x: np.ravel(x, order="A"), "ravel with order='A'"),
        (lambda x: x.flatten("A"), "ravel with order='A'"),
        (lambda x: np.reshape(x, (3, 2), order="A"), "reshape with order='A'"),
    ):
        with pytest.raises(TypeError, match=rf"{name} at .*test_shapes.*give order='C' or order='F'"):
            fg.jit(f)(x)
        vector = fg.jit(lambda x: np.ravel(x, "K"))(x[:1])  # of one line there is no doubt
        np.testing.assert_array_equal(vector, x[0])
    for order in "CF":
        f = lambda x, order=order: np.ravel(x, order)
        np.testing.assert_array_equal(fg.jit(f)(x), f(x))


@pytest.mark.parametrize("way", [lambda f: f, fg.jit, lambda f: fg.jit(lambda x: fg.jvp(f, (x,), (x,)))])
def test_arrays_of_other_ranks_are_not_joined(way):
    """An empty list beside a matrix without rows looks alike along the other axis."""
    with pytest.raises(ValueError, match=r"same number of dimensions|cannot be concatenated"):
        way(lambda x: np.append(x, [], axis=-1))(np.zeros((0, 3)))
