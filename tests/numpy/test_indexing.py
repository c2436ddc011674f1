"""Choosing elements: where, take, clip, select and their relatives, comparisons, parts of complex numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import exactly, grouped
from tests.numpy.cases import Case, check, integers, kinds, named, strided, truths, values, writes

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

M, V, S, E, C = values((2, 3)), values((4,)), values(()), values((0, 3)), values((2, 3, 4))
MASK, Z = truths(), values(dtype=complex)
EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5])

CASES = [
    *named("where", {"arrays": (MASK, M, M * 2), "numbers": (MASK, 1.0, 2), "number": (MASK, M, 0),
        "broadcast": (MASK[:, :1], M[0], S), "floats as condition": (M, M, -M),
        "integers": (MASK, integers(), 2), "mixed": (MASK, integers(), M),
        "float32 and number": (MASK, M.astype("f"), 0.5), "0-d": (np.array(True), S, 1.0),
        "empty": (MASK[:0], E, 0), "list": ([True, False], [1.0, 2.0], 3.0),
        "truth value": (True, M, 0.0), "do not fit": (MASK, M, V), "complex": (MASK, Z, M),
        "bool": (MASK, MASK, False), "condition only": (MASK,), "only one": (MASK, M),
        "strided": (MASK, strided(M), M)}),
    *(c for name in ("nonzero", "argwhere", "flatnonzero") for c in named(name,
        {"bool": MASK, "floats": np.array([0.0, 1.0, -0.0, np.nan]), "cube": integers((2, 3, 4)),
        "empty": E, "list": ([0, 1, 2],), "integers": integers(), "complex": Z, "nothing": np.zeros(3)},
        order=0)),
    *(c for name in ("argwhere", "flatnonzero") for c in named(name, {"0-d": S}, order=0)),
    *named("nonzero", {"0-d": S}, order=0),
    *named("searchsorted", {"number": (np.sort(V), 0.5), "array": (np.sort(V), M),
        "right": (np.sort(V), np.sort(V), "right"), "sorter": (V, M, "left", np.argsort(V)),
        "integers": ([1, 2, 3], 2), "list": ([1, 2, 3], [0, 4]), "empty": (V[:0], V),
        "unknown side": (V, V, "middle"), "matrix": (M, V)}, order=0),
    *named("clip", {"both": (M, -1.0, 1.0), "low": (M, -0.5, None), "high": (M, None, 0.5),
        "arrays": (M, -np.abs(M) / 2, np.abs(M) / 2), "integers": (integers(), 0, 2), "0-d": (S, -1, 1),
        "empty": (E, 0, 1), "crossed": (M, 1.0, -1.0), "float limits of integers": (integers(), 0.5, 2.5),
        "number": (2.5, 0, 1), "list": ([1, 5], 2, 3), "none": (M, None, None),
        "float32": (M.astype("f"), -1, 1.0), "broadcast": (M, V[:3] - 2, 1.0), "do not fit": (M, V, 1.0),
        "integer too large for the dtype": (integers(dtype=np.int8), 0, 300), "bool": (MASK, False, True),
        "one limit": (M, 0.0)}),
    *named("clip", {"keywords": M}, min=-1.0, max=1.0),
    *named("clip", {"keyword": M}, max=0.5),
    *named("clip", {"old keywords": M}, a_min=-1.0, a_max=1.0),
    *named("clip", {"nothing": M}),
    *named("clip", {"both names": (M, 0, 1)}, min=0),
    *named("clip", {"dtype": (M, 0, 1)}, dtype=np.float64, order=1),
    *named("select", {"two": ([M > 1, M < -1], [M * 2, -M]), "default": ([M > 1, M < -1], [M * 2, -M],
        7.0), "overlap": ([M > -1, M > 0], [M, M * 3], 1), "default array": ([M > 1], [M], M * 0.5),
        "numbers": ([M > 0, M < 0], [1.0, 2.0]), "integers": ([MASK], [integers()], 2),
        "mixed": ([MASK, ~MASK], [integers(), M]), "broadcast": ([M > 0], [V[:3]], 0.0),
        "unequal": ([MASK], [M, M]), "nothing": ([], []), "not truth values": ([integers()], [M]),
        "float32": ([MASK], [M.astype("f")], 0.5), "bool": ([MASK], [MASK]),
        "lists": ([[True, False]], [[1, 2]], 5)}),
    *named("take", {"flat": (M, [0, 5, 0]), "axis": (M, [2, 0], 1), "number": (M, 1, 0),
        "negative": (M, [-1], 0), "matrix": (V, [[0, 1], [2, 2]]), "cube": (C, [0, 2], -2),
        "no places": (V, np.zeros(0, int)), "outside": (V, [4]), "array": (V, np.array([1, 3])),
        "list": ([1.0, 2.0], 1), "0-d": (S, 0), "empty": (E, [0], 1), "outside negative": (V, [-5]),
        "wrong axis": (M, 0, 2), "nothing to take": (E, [0], 0),
        "truth values": (V, np.array([True, False]))}),
    *(c for mode in ("wrap", "clip") for c in named("take", {f"{mode}": (V, [-7, 0, 9], None),
        f"{mode} axis": (M, [5, -1], 1), f"{mode} number": (V, 6)}, mode=mode)),
    *named("take", {"unknown mode": (V, 0)}, mode="other"),
    *named("take_along_axis", {"sort": (M, np.argsort(M, 1), 1), "first axis": (M, np.argsort(M, 0), 0),
        "flat": (M, np.array([5, 0]), None), "negative": (C, np.argsort(C, -1)[..., :2], -1),
        "broadcast": (C, np.array([[[1]], [[0]]]), 1), "negative places": (M, np.array([[-1], [-2]]), 1),
        "outside": (M, np.array([[3], [0]]), 1), "of unequal rank": (M, np.array([0]), 1),
        "floats": (M, np.array([[0.0]]), 1), "wrong axis": (M, np.argsort(M, 1), 2),
        "default": (M, np.argsort(M, 1)), "empty": (E, np.zeros((0, 2), int), 1),
        "do not fit": (M, np.zeros((3, 1), int), 1)}),
    *named("compress", {"flat": (MASK.ravel(), M), "axis": ([True, False], M, 0),
        "columns": ([False, True, True], M, 1), "short": ([True], V), "none": ([False, False], V),
        "too long": ([False, True, True], M, 0), "negative": ([True, False, True], M, -1),
        "integers": ([1, 0, 2], V), "matrix condition": (MASK, M), "list": ([True], [1.0, 2.0]),
        "wrong axis": ([True], M, 2)}),
    *named("extract", {"same": (MASK, M), "flat": (MASK.ravel(), M), "integers": (integers((2, 3)), M),
        "none": (np.zeros(4, bool), V), "list": ([True, False], [1, 2])}),
    # rounding, parts, replacements
    *(c for name in ("round", "around") for c in named(name, {"floats": M, "decimals": (M, 1),
        "tens": (M * 100, -1), "integers": integers(), "tens of integers": (integers() * 7, -1), "0-d": S,
        "empty": E, "number": 2.567, "decimals number": (2.567, 2), "float32": (M.astype("f"), 2),
        "list": ([1.25, 2.5], 1), "complex": (Z, 1), "bool": MASK,
        "ties": np.array([0.5, 1.5, 2.5, -0.5]), "edges": EDGES, "many decimals": (M, 20),
        "int8": (integers(dtype=np.int8), -1)}, order=0)),
    *named("round", {"slope of integers": M, "slope of decimals": (M, 1)}, order=1),
    *(c for name in ("real", "imag", "angle") for c in named(name,
        {"real": M, "complex": Z, "complex64": Z.astype(np.complex64), "0-d": S,
        "0-d complex": np.array(1 + 2j), "integers": integers(), "empty": E, "number": 2.5,
        "complex number": 1 + 2j, "list": ([1 + 1j, 2],), "float32": M.astype("f")})),
    *(Case(n, "bool", (MASK,)) for n in ("real", "imag")),
    *named("angle", {"degrees": (Z, True), "degrees real": (M, True)}),
    *named("nan_to_num", {"edges": EDGES, "float32": EDGES.astype("f"), "integers": integers(),
        "0-d": np.array(np.nan), "number": np.inf, "list": ([np.nan, 1.0],),
        "complex": np.array([np.nan + 1j, 1 + np.inf * 1j, 2 - 1j]), "bool": MASK, "empty": E}, order=0),
    *named("nan_to_num", {"finite": M, "finite complex": Z}),
    *named("nan_to_num", {"given": EDGES, "given float32": EDGES.astype("f")}, nan=1.0, posinf=2.0,
        neginf=-3.0, order=0),
    # comparisons and questions
    *(c for name in ("isclose", "allclose", "array_equal") for c in named(name,
        {"same": (M, M), "near": (M, M + 1e-9), "far": (M, M + 1), "broadcast": (M, M[0]),
        "nan": (EDGES, EDGES), "0-d": (S, S), "number": (M, 0.5), "integers": (integers(), integers()),
        "list": ([1.0, 2.0], [1.0, 2.0]), "complex": (Z, Z), "empty": (E, E), "do not fit": (M, V),
        "bool": (MASK, MASK)}, order=0)),
    *(c for name in ("isclose", "allclose") for c in named(name, {"tolerances": (M, M + 0.01, 0.0, 0.1)},
        order=0)),
    *(c for name in ("isclose", "allclose", "array_equal") for c in named(name,
        {"equal nan": (EDGES, EDGES)}, equal_nan=True, order=0)),
    *named("result_type", {"arrays": (M, M.astype("f")), "dtypes": (np.float32, np.int8),
        "number": (M.astype("f"), 2.5), "integers": (integers(), 1.0), "one": (M,),
        "complex": (Z, np.float32), "names": ("f4", "i8")}, order=0),
    *named("iscomplexobj", {"real": M, "complex": Z, "number": 1.0, "complex number": 1j, "list": ([1j],),
        "complex with real values": np.array([1 + 0j])}, order=0),
    *named("array2string", {"matrix": M, "integers": integers(), "0-d": S, "empty": E}, order=0),
    *named("array2string", {"options": M}, precision=2, separator=", ", order=0),
]  # fmt: skip

for kind, x in kinds().items():
    y = x[::-1]
    for name, args in {"where": (MASK, x, y), "take": (x, [1, 0], 1), "clip": (x, None, None),
        "compress": ([True, False], x, 0), "extract": (MASK, x), "select": ([MASK], [x], 0),
        "take_along_axis": (x, np.array([[1], [0]]), 1)}.items():  # fmt: skip
        if not (name == "clip" and kind == "bool"):
            CASES.append(Case(name, f"dtype {kind}", args, (), 1))

NAMES = {c.name for c in CASES}


@pytest.mark.filterwarnings("ignore:Calling nonzero on 0d arrays")
@pytest.mark.filterwarnings("ignore:invalid value")
@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


def test_aliases():
    assert fnp.around is fnp.round


@pytest.mark.parametrize("name", ["clip", "take", "compress", "round"])
def test_out_keyword(name):
    args = {
        "clip": (M, -1.0, 1.0),
        "take": (M, [2, 0], 1),
        "compress": ([True, False], M, 0),
        "round": (M, 1),
    }[name]
    writes(name, *args, at=int(name == "compress"))


def test_tensors_as_conditions_and_places():
    for module in (fnp, np):
        np.testing.assert_array_equal(module.where(fg.tensor(MASK), M, 0.0).numpy(), np.where(MASK, M, 0.0))
        np.testing.assert_array_equal(
            module.take(fg.tensor(M), fg.tensor([1, 0]), axis=1).numpy(), np.take(M, [1, 0], 1)
        )
        np.testing.assert_array_equal(module.compress(fg.tensor([True, False]), M, 0).numpy(), M[:1])
        np.testing.assert_array_equal(
            module.select([fg.tensor(MASK)], [M], 2.0).numpy(), np.select([MASK], [M], 2.0)
        )
        np.testing.assert_array_equal(module.extract(fg.tensor(MASK), M).numpy(), M[MASK])
    np.testing.assert_array_equal(fnp.take(M, fg.tensor([1, 0]), 1).numpy(), np.take(M, [1, 0], 1))
    check_grads(lambda x: np.where(x > 0, x * x, -x), (M,), 2)
    check_grads(lambda x: np.take_along_axis(x, np.argsort(x, 1), 1), (M,), 2)


def test_limits_and_defaults_differentiate():
    check_grads(lambda x, low, high: np.clip(x, low, high), (M, -0.9, 0.8), 2)
    check_grads(lambda x, y, d: np.select([x > 1, x < 0], [x * y, y], d), (M, -M, 0.5), 2)


def test_at_a_limit_the_gradient_is_shared():
    x = np.array([-1.0, 0.0, 1.0])
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(np.clip(x, -1.0, 1.0)))(x), [0.5, 1.0, 0.5])


def test_replaced_elements_have_slope_zero():
    np.testing.assert_array_equal(
        fg.grad(lambda x: np.sum(np.nan_to_num(x)))(EDGES), np.isfinite(EDGES) * 1.0
    )


def test_a_shape_that_depends_on_values_cannot_be_mapped():
    for f in (
        np.nonzero,
        np.argwhere,
        np.flatnonzero,
        lambda x: np.compress(x > 0, x),
        lambda x: np.extract(x > 0, x),
    ):
        with pytest.raises(TypeError, match="vmap"):
            fg.vmap(f)(M)


def test_comparing_arrays_gives_what_numpy_gives():
    assert type(fnp.isclose(M, M)) is np.ndarray
    assert type(fnp.isclose(fg.tensor(M), M)) is fg.Tensor
    assert fnp.allclose(fg.tensor(M), M) is True


def test_constants_stop_gradients():
    assert fnp.indexing.stop_gradient(M) is M
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(fg.stop_gradient(x) * x))(M), M)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
@pytest.mark.parametrize("place", [np.uint64(2**64 - 1), np.array(2**64 - 2, np.uint64), np.uint64(3)])
def test_single_unsigned_places_to_take_count_from_the_end_too(place, mode):
    x = np.arange(5.0)
    expected = np.take(x, place, mode=mode)
    exactly(np.take(fg.tensor(x), place, mode=mode), expected)
    exactly(fg.jit(lambda x, i: np.take(x, i, mode=mode))(x, place), expected)
    exactly(fg.grad(lambda x: np.take(x, place, mode=mode) ** 2)(x), np.where(x == expected, 2 * x, 0.0))


def test_single_places_to_take_out_of_bounds():
    for place in (np.uint64(2**63), np.uint64(2**64 - 6), np.uint64(5)):
        with pytest.raises(IndexError):
            np.take(fg.tensor(np.arange(5.0)), place)


@pytest.mark.parametrize("mode", ["raise", "clip"])
def test_numbers_of_pythons_that_are_no_places_to_take(mode):
    for place in (2**64 - 1, [2**64 - 1]):
        with pytest.raises(OverflowError):
            np.take(np.arange(5.0), place, mode=mode)
        with pytest.raises(OverflowError):
            np.take(fg.tensor(np.arange(5.0)), place, mode=mode)


def test_unsigned_places_to_insert_before_do_not_count_from_the_end():
    x = np.arange(5.0)
    for place in (np.uint64(2**64 - 1), np.array(2**64 - 2, np.uint64), 2**64 - 1):
        with pytest.raises(IndexError):
            np.insert(x, place, 9.0)
        with pytest.raises(IndexError):
            np.insert(fg.tensor(x), place, 9.0)
    exactly(np.insert(fg.tensor(x), np.uint64(5), 9.0), np.insert(x, np.uint64(5), 9.0))
    with pytest.raises(IndexError):
        np.insert(fg.tensor(x), np.array([0, 2**64 - 1], np.uint64), 9.0)
