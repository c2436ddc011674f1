"""Rearranging elements: shapes, axes, stacking, splitting, padding, diagonals."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numpy.cases import Case, Fixed, check, integers, kinds, named, strided, truths, values

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
    ):
        more = {"reshape": (6,), "expand_dims": (0,), "roll": (1,), "tile": (2,), "repeat": (2,),
            "broadcast_to": ((2, 2, 3),), "moveaxis": (0, 1), "pad": (1,),
            "split": (2,), "append": (x, 0)}.get(name, ())  # fmt: skip
        first = [x, x] if name in ("concatenate", "stack") else x
        CASES.append(Case(name, f"dtype {kind}", (first, *more), (), 1))

NAMES = {c.name for c in CASES}


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_numpy(case):
    check(case)


def test_orders_in_memory_belong_to_arrays():
    x = np.asfortranarray(C)
    for order in "AK":
        np.testing.assert_array_equal(fnp.ravel(x, order), x.ravel(order))
        np.testing.assert_array_equal(fnp.ravel(fg.tensor(x), order).numpy(), x.ravel())
    np.testing.assert_array_equal(fnp.reshape(x, (6, 4), "A"), x.reshape((6, 4), order="A"))
    np.testing.assert_array_equal(fnp.reshape(fg.tensor(x), (6, 4), "A").numpy(), x.reshape((6, 4)))


def test_modes_of_padding_without_a_rule_are_refused():
    for mode in ("linear_ramp", "mean", "maximum", "median", "minimum"):
        np.testing.assert_array_equal(fnp.pad(M, 1, mode), np.pad(M, 1, mode))
        with pytest.raises(ValueError, match=mode):
            fnp.pad(fg.tensor(M), 1, mode)
    with pytest.raises(ValueError, match="odd"):
        fnp.pad(fg.tensor(M), 1, "reflect", reflect_type="odd")


def test_an_empty_border_is_zero_for_tensors():
    np.testing.assert_array_equal(fnp.pad(fg.tensor(M), 1, "empty").numpy(), np.pad(M, 1))


def test_aliases():
    assert fnp.concat is fnp.concatenate
    assert fnp.permute_dims is fnp.transpose


def test_out_keyword_of_joins():
    for name in ("concatenate", "stack"):
        shape = (4, 3) if name == "concatenate" else (2, 2, 3)
        out = fg.tensor(np.zeros(shape))
        assert getattr(fnp, name)([fg.tensor(M), M], out=out) is out
        np.testing.assert_array_equal(out.numpy(), getattr(np, name)([M, M]))
        array = np.zeros(shape)
        assert getattr(fnp, name)([M, M], out=array) is array
        np.testing.assert_array_equal(array, getattr(np, name)([M, M]))


def test_a_list_of_tensors_and_arrays_is_joined():
    f = lambda x, y: np.concatenate([x, M, y, np.ones((1, 3))])
    check_grads(f, (M, M), 2)
    check_grads(lambda x, y: np.stack([x, y, np.sin(x)], axis=1), (M, M), 2)
    check_grads(lambda x: np.vstack([x, x * 2]), (V,), 2)


def test_padding_with_a_tensor():
    check_grads(lambda x, c: fnp.pad(x, 1, constant_values=c), (M, 2.0), 2)


def test_methods_are_the_functions():
    t = fg.tensor(C)
    for y, expected in [
        (t.reshape(4, 6), C.reshape(4, 6)), (t.reshape((4, 6)), C.reshape(4, 6)),
            (t.reshape(-1), C.reshape(-1)), (t.reshape([6, -1]), C.reshape(6, -1)),
        (t.reshape(4, 6, order="F"), C.reshape(4, 6, order="F")),
        (t.transpose(), C.T), (t.transpose(1, 0, 2), C.transpose(1, 0, 2)),
            (t.transpose((1, 0, 2)), C.transpose(1, 0, 2)), (t.T, C.T), (t.mT, C.mT),
        (t.transpose(None), C.T), (t.swapaxes(0, 1), C.swapaxes(0, 1)), (t.ravel(), C.ravel()),
            (t.flatten(), C.flatten()),
        (t[:1].squeeze(), C[:1].squeeze()), (t[:1].squeeze(0), C[:1].squeeze(0)),
            (t.repeat(2, 1), C.repeat(2, 1)), (t.diagonal(1), C.diagonal(1)),
        (t.astype(np.float32), C.astype(np.float32)), (t.astype("f4", copy=False), C.astype("f4")),
            (t.copy(), C),
    ]:  # fmt: skip
        assert type(y) is fg.Tensor
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y.numpy(), expected)
    assert (t.shape, t.ndim, t.size, t.nbytes, t.itemsize) == (C.shape, 3, 24, 192, 8)
